"""Ranking inputs: a row for each candidate, from the columns. SPEC 7.3"""

import numpy as np

from mnemo_core.decay import epoch_of
from mnemo_core.retrieval.ranking import decay_ranker, rankers
from mnemo_core.retrieval.ranking.rankers import RANKER_TABLE, Candidates, RankingRequest
from mnemo_core.similarity.thresholds import SOURCE
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.memories.weights import present_strengths
from mnemo_daemon.models.cross_encoder import CrossEncoderService
from mnemo_daemon.models.embedders.calibration import ModelThresholds
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.retrieval.candidates import formula_candidates
from mnemo_daemon.retrieval.candidates.learned_ranking import LearnedRanking
from mnemo_daemon.retrieval.context import RecallContext
from mnemo_daemon.retrieval.question import Question
from mnemo_store.indexes.lexical import LexicalFields
from mnemo_store.records import embedded_text
from mnemo_store.store import Store

RERANKED_MAX = 32  # of the candidates, the best by the blend: a cross-encoder takes some milliseconds for each
_COLUMNS = {
    name: name
    for name in (
        "importance", "kind", "layer", "state", "decay_rate", "event_at", "created_at", "modified_at",
        "last_accessed", "id_high", "id_low",
    )
} | {"repetitions": "repetition_count", "accesses": "access_count"}  # fmt: skip


class RankingInputs:
    """Makes the rankers' arrays. Reads the memories themselves only for rankers that go by their tokens."""

    def __init__(
        self, store: Store, views: Views, embedding: EmbeddingService, reranking: CrossEncoderService | None = None
    ) -> None:
        self._store = store
        self._reranking = reranking
        self._views = views
        self._learned = LearnedRanking(store, views)
        self._calibrated = ModelThresholds(embedding)

    def clear_caches(self) -> None:
        self._learned.clear_caches()

    def set_request(self, context: RecallContext) -> None:
        """Set the request as the ranker sees it; without vectors that of the ranker that replaces the requested one."""
        question, serving = context.question, context.serving
        request = ranker_request_of(question)._replace(
            is_short_cjk=decay_ranker.is_short_cjk(question.query),
            thresholds=SOURCE if serving is None or question.by_source else self._calibrated.of(serving.embedder),
            has_vectors=serving is not None,
        )
        request = rankers.effective_request(request)
        if RANKER_TABLE[request.ranker].reads_words_full:
            full = self._views.lexical.score_texts(question.query, [LexicalFields(question.query)])
            request = request._replace(words_full=float(full[0]))
        context.request = request

    def set_candidates(self, context: RecallContext, *, joins: bool = True) -> None:
        """Set the ranker's arrays, and the scores of the learned ranker where it is requested.

        joins: candidates that the ranker finds by itself join the others.
        """
        request, serving = context.request, context.serving
        if joins and request.needs_overlap:
            formula_candidates.add_formula_candidates(context, self._store, self._views)
        if serving is not None and request.ranker == "auto":
            context.learned = self._learned.score(context, serving, joins=joins)
        with self._store.snapshot() as snapshot:
            epoch = epoch_of(snapshot)
        context.candidates = candidates = _candidates_of(context, epoch)
        if RANKER_TABLE[request.ranker].reranks:
            cross = self._cross_encoder_scores(context)
            has_late = serving is not None and cross is None
            late = self._learned.late_interaction(context, serving) if serving is not None and has_late else None
            context.candidates = candidates._replace(cross=cross, late=late)
        if request.needs_overlap:
            with self._store.snapshot() as snapshot:
                overlap = formula_candidates.text_overlap(
                    context.question.query, context.corpus, snapshot, context.found.numbers
                )
            context.candidates = context.candidates._replace(overlap=overlap)

    def _cross_encoder_scores(self, context: RecallContext) -> rankers.Floats | None:
        """The cross-encoder scores of the best of the first page; None without a cross-encoder, or where it fails."""
        encoder = self._reranking.encoder() if self._reranking is not None else None
        if self._reranking is None or encoder is None:
            return None
        numbers, candidates = context.found.numbers, context.candidates
        first = np.flatnonzero(context.found.rounds == 0)
        light = rankers.blend(candidates).scores[first]
        rows = first[np.lexsort((numbers[first], -light))[:RERANKED_MAX]]
        with self._store.snapshot() as snapshot:
            memories = [context.corpus.memory(snapshot, number) for number in numbers[rows].tolist()]
        there = [place for place, memory in enumerate(memories) if memory is not None]
        texts = [embedded_text(memory) for memory in memories if memory is not None]
        scores = self._reranking.scores(encoder, context.question.query, texts)
        if scores is None:
            return None
        found = np.full(len(numbers), np.nan, np.float32)
        found[rows[there]] = scores
        return found


def ranker_request_of(question: Question) -> RankingRequest:
    """The request as the rankers see it, before anything is known of the vectors."""
    return RankingRequest(
        question.ranker, question.mode, question.recency_bias, question.semantic_weight, question.filter.now
    )


def _candidates_of(context: RecallContext, epoch: int) -> Candidates:
    """The ranking inputs of each candidate, from the columns and the channels, with the strength of the epoch."""
    found, learned = context.found, context.learned
    columns = {name: context.corpus.column(column, found.numbers) for name, column in _COLUMNS.items()}
    return Candidates(
        strength=present_strengths(lambda name: context.corpus.column(name, found.numbers), epoch),
        words=found.words,
        sims=found.sims,
        reached=found.from_facts,
        learned=None if learned is None else learned.learned,
        chances=None if learned is None else learned.chances,
        **columns,
    )
