"""Ranking inputs: a row for each candidate, from the columns. SPEC 7.3"""

import numpy as np

from mnemo_core.retrieval.ranking import decay_ranker, lexical_ranker, rankers
from mnemo_core.retrieval.ranking.rankers import RANKER_TABLE, Candidates, RankingRequest
from mnemo_core.similarity import thresholds
from mnemo_core.similarity.thresholds import SOURCE, Thresholds
from mnemo_daemon.indexing.vectors.index_phases import ActiveIndex
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.models.calibration import thresholds_for
from mnemo_daemon.models.cross_encoder import CrossEncoderService
from mnemo_daemon.models.embedding import EmbeddingService
from mnemo_daemon.retrieval.candidates import formula_candidates
from mnemo_daemon.retrieval.candidates.candidate_retrieval import CandidateSet, SearchScope
from mnemo_daemon.retrieval.candidates.learned_ranking import LearnedRanking, LearnedScores
from mnemo_daemon.retrieval.question import Question
from mnemo_store.indexes.lexical import LexicalFields
from mnemo_store.records import embedded_text
from mnemo_store.store import Store

RERANKED_MAX = 32  # of the candidates, the best by the blend: a cross-encoder takes some milliseconds for each


class RankingInputs:
    """Makes the rankers' arrays. Reads the memories themselves only for rankers that go by their tokens."""

    def __init__(
        self, store: Store, views: Views, embedding: EmbeddingService, reranking: CrossEncoderService | None = None
    ) -> None:
        self._store = store
        self._reranking = reranking
        self._views = views
        self._embedding = embedding
        self._learned = LearnedRanking(store, views)
        self._limits: dict[str, Thresholds] = {}  # by vector space, as they were when it was first asked

    def clear_caches(self) -> None:
        self._learned.clear_caches()

    def ranker_query(self, question: Question, serving: ActiveIndex | None) -> RankingRequest:
        """The request as the ranker sees it; without `serving` that of the ranker that answers in its place."""
        asked = ranker_query_of(question)._replace(
            is_short_cjk=decay_ranker.is_short_cjk(question.query),
            thresholds=SOURCE if serving is None else self._thresholds(serving),
            has_vectors=serving is not None,
        )
        asked = rankers.effective_request(asked)
        if RANKER_TABLE[asked.ranker].reads_words_full:
            full = self._views.lexical.score_texts(question.query, [LexicalFields(question.query)])
            asked = asked._replace(words_full=float(full[0]))
        return asked

    def candidates(
        self, question: Question, asked: RankingRequest, scene: SearchScope, channels: CandidateSet,
        serving: ActiveIndex | None,
        *, joining: bool = True,
    ) -> tuple[CandidateSet, Candidates, LearnedScores | None]:  # fmt: skip
        """The rankers' arrays, and what the learned fusion saw, where that is asked for.

        joining: what stands beside the best becomes a candidate too, for the ranker that looks at that.
        """
        looked = None
        if joining and asked.needs_overlap:
            channels = formula_candidates.with_formula_candidates(
                question, asked, scene, channels, serving, self._store, self._views
            )
        if serving is not None and asked.ranker == "auto":
            channels, looked = self._learned.score(question, scene, channels, serving, joining)
        candidates = candidates_of(scene, channels)
        if looked is not None:
            candidates = candidates._replace(learned=looked.learned, chances=looked.chances)
        reranks = RANKER_TABLE[asked.ranker].reranks
        if reranks:
            candidates = candidates._replace(
                cross=self._cross_encoder_scores(question.query, scene, channels, candidates)
            )
        if serving is not None and reranks and candidates.cross is None:
            candidates = candidates._replace(late=self._learned.late_interaction(scene, channels, serving))
        if asked.needs_overlap:
            candidates = candidates._replace(overlap=self._overlap(question.query, scene, channels))
        return channels, candidates, looked

    def _cross_encoder_scores(
        self, query: str, scene: SearchScope, channels: CandidateSet, candidates: Candidates
    ) -> rankers.Floats | None:
        """The cross-encoder scores of the best of the first page; None without a cross-encoder, or where it fails."""
        encoder = self._reranking.encoder() if self._reranking is not None else None
        if self._reranking is None or encoder is None:
            return None
        first = np.flatnonzero(channels.rounds == 0)
        light = rankers.blend(candidates.words, candidates.sims, candidates.importance)[first]
        rows = first[np.lexsort((channels.numbers[first], -light))[:RERANKED_MAX]]
        with self._store.snapshot() as snapshot:
            memories = [scene.memory(snapshot, number) for number in channels.numbers[rows].tolist()]
        there = [place for place, memory in enumerate(memories) if memory is not None]
        texts = [embedded_text(memory) for memory in memories if memory is not None]
        scores = self._reranking.scores(encoder, query, texts)
        if scores is None:
            return None
        found = np.full(len(channels.numbers), np.nan, np.float32)
        found[rows[there]] = scores
        return found

    def _overlap(self, query: str, scene: SearchScope, channels: CandidateSet) -> rankers.Floats:
        with self._store.snapshot() as snapshot:
            memories = [scene.memory(snapshot, number) for number in channels.numbers.tolist()]
        texts = ("" if memory is None else " ".join((memory.content, *memory.tags)) for memory in memories)
        return lexical_ranker.overlap(query, texts)

    def _thresholds(self, serving: ActiveIndex) -> Thresholds:
        space = serving.embedder.space
        if space not in self._limits:
            manifest = self._embedding.manifest_of(serving.embedder)
            known = thresholds.of_model(serving.embedder.name, serving.embedder.form)
            self._limits[space] = known if manifest is None else thresholds_for(manifest)
        return self._limits[space]


def ranker_query_of(question: Question) -> RankingRequest:
    """The request as the rankers see it, before anything is known of the vectors."""
    return RankingRequest(
        question.ranker,
        question.mode,
        question.recency_bias,
        question.semantic_weight,
        question.filter.now,
    )


def candidates_of(scene: SearchScope, channels: CandidateSet) -> Candidates:
    """The ranking inputs of each candidate, from the columns and the channels."""
    numbers = channels.numbers
    return Candidates(
        words=channels.words,
        sims=channels.sims,
        importance=scene.column("importance", numbers),
        strength=scene.column("strength", numbers),
        repetitions=scene.column("repetition_count", numbers),
        accesses=scene.column("access_count", numbers),
        kind=scene.column("kind", numbers),
        layer=scene.column("layer", numbers),
        state=scene.column("state", numbers),
        decay_rate=scene.column("decay_rate", numbers),
        event_at=scene.column("event_at", numbers),
        created_at=scene.column("created_at", numbers),
        modified_at=scene.column("modified_at", numbers),
        last_accessed=scene.column("last_accessed", numbers),
        id_high=scene.column("id_high", numbers),
        id_low=scene.column("id_low", numbers),
    )
