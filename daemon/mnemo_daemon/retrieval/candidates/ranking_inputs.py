"""Ranking inputs: a row for each candidate, from the columns. SPEC 7.3

For the rankers that go by the formula `deterministic`, its best among all memories in question join the candidates
[M3]: a memory can be among the best by freshness and importance alone, or by a word that the words channel passes over.
How many of the query's tokens a text can have is counted in the word index, and texts are read from the highest
possible score down until none of the rest can reach the best (Fagin, Lotem and Naor 2001, the threshold algorithm).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_core.decay import epoch_of
from mnemo_core.retrieval.ranking import decay_ranker, lexical_ranker, rankers
from mnemo_core.retrieval.ranking.rankers import ARCHIVED_FACTOR, MS_AN_HOUR, RANKER_TABLE, Candidates, RankingRequest
from mnemo_core.retrieval.time_placement import order_events
from mnemo_core.similarity.thresholds import SOURCE
from mnemo_core.text.dates.question_times import tells_of_event
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.memories.memory_columns import present_strengths
from mnemo_daemon.models.cross_encoder import CrossEncoderService
from mnemo_daemon.models.embedders.calibration import ModelThresholds
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.retrieval.candidates.candidate_retrieval import CANDIDATES_MIN, candidates_wanted
from mnemo_daemon.retrieval.candidates.corpus import Corpus, Floats, Numbers, is_among, rounds_of_places
from mnemo_daemon.retrieval.candidates.learned_ranking import LearnedRanking
from mnemo_daemon.retrieval.question import Question, RecallContext
from mnemo_store.backend import Snapshot
from mnemo_store.indexes.lexical import LexicalFields
from mnemo_store.record_texts import embedded_text
from mnemo_store.records import STATES
from mnemo_store.store import Store

TOKENS_MAX = 64  # of the query, that are counted in the index; a text may have all of the others
READ_AT_ONCE = 64  # texts
SORTED_PER_ANSWER = 4  # candidates; more are put in order only where these do not suffice

Values = NDArray[np.float64]

_ARCHIVED = STATES.index("archived")

RERANKED_MAX = 32  # of the candidates, the best by the blend: a cross-encoder takes some milliseconds for each
_COLUMNS = {
    name: name
    for name in (
        "importance", "kind", "layer", "state", "decay_rate", "event_at", "created_at", "modified_at",
        "last_accessed", "id_high", "id_low",
    )
} | {"repetitions": "repetition_count", "accesses": "access_count"}  # fmt: skip

COMPARED = 30  # of the best by their scores, whose texts are read


def add_formula_candidates(context: RecallContext, store: Store, views: Views) -> None:
    """Add the best by the formula to the candidates; where no vectors are searched, they replace them."""
    corpus, found, serving = context.corpus, context.found, context.serving
    best = _best(context, store, views, candidates_wanted(context.question))
    if found.vector is None:
        found = found.only(np.isin(found.numbers, best))
    old = found.numbers
    found = found.extended(np.sort(best))
    numbers = found.numbers
    new = np.flatnonzero(~is_among(old, numbers))
    found.words[new] = views.lexical.scores_of(found.terms, numbers[new])
    indexed = new[numbers[new] < corpus.base]
    if serving is not None and found.vector is not None and len(indexed):
        found.sims[indexed] = serving.view.sims(found.vector, numbers[indexed])
    own = np.searchsorted(numbers, best)
    found.from_formula[own] = True
    found.rounds[own] = np.minimum(found.rounds[own], rounds_of_places(len(best), CANDIDATES_MIN))
    context.found = found


def _best(context: RecallContext, store: Store, views: Views, count: int) -> Numbers:
    """So many with the highest scores, best first; equal ones as in the answer."""
    corpus, request, query = context.corpus, context.request, context.question.query
    numbers = corpus.numbers
    if not len(numbers):
        return numbers
    tokens = sorted(lexical_ranker.tokens(query))
    chunks = [(chunk, lexical_ranker.tokens(chunk)) for chunk in query.split()]
    counts = np.full(max(corpus.base, 1), max(0, len(tokens) - TOKENS_MAX), np.float64)
    for token in tokens[:TOKENS_MAX]:
        spelled = " ".join([token, *(chunk for chunk, own in chunks if token in own and len(own) > 1)])
        counts += views.lexical.numbers_with_any_term(spelled, len(counts))
    most = counts / max(1, len(tokens))
    highest = _scores(request, corpus, numbers, np.where(numbers < corpus.base, most.take(numbers, mode="clip"), 1.0))
    order = _from_highest(corpus, numbers, highest, SORTED_PER_ANSWER * count)
    read, exact = 0, np.empty(0)
    with store.snapshot() as snapshot:
        while read < len(numbers):
            if read >= len(order):
                order = _from_highest(corpus, numbers, highest, len(numbers))
            if read >= count and np.partition(exact, read - count)[read - count] >= highest[order[read]]:
                break
            some = numbers[order[read : read + READ_AT_ONCE]]
            overlap = text_overlap(query, corpus, snapshot, some).astype(np.float64)
            exact = np.concatenate([exact, _scores(request, corpus, some, overlap)])
            read += len(some)
    found = numbers[order[:read]]
    return found[np.lexsort((*_ties(corpus, found), -exact))[:count]]


def text_overlap(query: str, corpus: Corpus, snapshot: Snapshot, numbers: Numbers) -> Floats:
    """The share of the query's tokens in content and tags of each; 0 where the memory is gone."""
    memories = (corpus.memory(snapshot, number) for number in numbers.tolist())
    texts = ("" if memory is None else " ".join((memory.content, *memory.tags)) for memory in memories)
    return lexical_ranker.overlap(query, texts)


def _from_highest(corpus: Corpus, numbers: Numbers, highest: Values, count: int) -> NDArray[np.intp]:
    """The places of at least so many with the highest values, highest first, equal ones as in the answer."""
    if count < len(numbers):
        least = np.partition(highest, len(numbers) - count)[len(numbers) - count]
        places = np.flatnonzero(highest >= least)
    else:
        places = np.arange(len(numbers))
    return places[np.lexsort((*_ties(corpus, numbers[places]), -highest[places]))]


def _ties(corpus: Corpus, numbers: Numbers) -> tuple[NDArray[Any], ...]:
    """The tie-breakers, the last first: importance, newer, id, as in `rankers.order`."""
    low, high, event_at, importance = (
        corpus.column(name, numbers) for name in ("id_low", "id_high", "event_at", "importance")
    )
    return low, high, -event_at, -importance


def _scores(request: RankingRequest, corpus: Corpus, numbers: Numbers, overlap: Values) -> Values:
    """The scores, as `rankers.score` computes them."""
    hours = np.maximum(request.now - corpus.column("event_at", numbers), 0) / MS_AN_HOUR
    importance = corpus.column("importance", numbers)
    scores = lexical_ranker.score(overlap.astype(np.float32), hours, importance, request.recency_bias)
    archived = corpus.column("state", numbers) == _ARCHIVED
    found: Values = np.where(archived, scores * ARCHIVED_FACTOR, scores)
    return found


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
        """Set the ranker's arrays, and the scores of the learned ranker where it is requested. joins: candidates that
        the ranker finds by itself join the others."""
        request, serving = context.request, context.serving
        if joins and request.needs_overlap:
            add_formula_candidates(context, self._store, self._views)
        if serving is not None and request.ranker == "auto":
            context.learned = self._learned.score(context, serving, joins=joins)
        with self._store.snapshot() as snapshot:
            epoch = epoch_of(snapshot)
        found, learned = context.found, context.learned
        columns = {name: context.corpus.column(column, found.numbers) for name, column in _COLUMNS.items()}
        context.candidates = candidates = Candidates(
            strength=present_strengths(lambda name: context.corpus.column(name, found.numbers), epoch),
            words=found.words, sims=found.sims, reached=found.from_facts,
            learned=None if learned is None else learned.learned, chances=None if learned is None else learned.chances,
            **columns,
        )  # fmt: skip
        if RANKER_TABLE[request.ranker].reranks:
            cross = self._cross_encoder_scores(context)
            has_late = serving is not None and cross is None
            late = self._learned.late_interaction(context, serving) if serving is not None and has_late else None
            context.candidates = candidates._replace(cross=cross, late=late)
        if request.needs_overlap:
            with self._store.snapshot() as snapshot:
                overlap = text_overlap(context.question.query, context.corpus, snapshot, context.found.numbers)
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


class TimeOrder:
    """Puts the events that a question is about in order."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views

    def arrange(self, context: RecallContext) -> None:
        """Move the events to the front of the ranked rows, as `ordered` of the time."""
        timed, corpus = context.timed, context.corpus
        if timed is None or not timed.time.order:
            return
        rows = np.array(context.rows[:COMPARED], np.intp)
        numbers = context.found.numbers[rows]
        if timed.time.has_interval:
            rows = rows[timed.is_inside(numbers)]
            numbers = context.found.numbers[rows]
        matches = self._views.lexical.matches(context.found.terms, numbers)
        covered = (matches.weights @ matches.holds) / max(float(matches.weights.sum()), 1e-9)
        with self._store.snapshot() as snapshot:
            memories = [corpus.memory(snapshot, number) for number in numbers.tolist()]
        tells = np.array([each is not None and tells_of_event(each.content) for each in memories], np.bool_)
        at = timed.at[np.searchsorted(timed.numbers, numbers)]
        is_last_first, now = timed.time.order == "last", context.question.filter.now
        chosen = order_events(context.scored.scores[rows], covered, tells, at, now, is_last_first=is_last_first)
        first = rows[chosen].tolist()
        context.rows = first + [row for row in context.rows if row not in set(first)]
        context.timed = timed._replace(ordered=numbers[chosen])
