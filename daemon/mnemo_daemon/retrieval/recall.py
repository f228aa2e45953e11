"""Recall: from a question to the memories that answer it. SPEC 7.

The channels find candidates, which are scored together from the columns; the best are chosen and read. Nothing is
written here: what was recalled is noted after the answer (`Touches`).
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_client.protocol.retrieval import WhyAnswer
from mnemo_core.retrieval.ranking import rankers
from mnemo_daemon.indexing.vectors.index_phases import ActiveIndex
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.models.cross_encoder import CrossEncoderService
from mnemo_daemon.models.embedding import EmbeddingService
from mnemo_daemon.retrieval.candidates.candidate_retrieval import CandidateRetrieval, StageTimer
from mnemo_daemon.retrieval.candidates.learned_ranking import LearnedScores
from mnemo_daemon.retrieval.candidates.ranking_inputs import RankingInputs, ranker_query_of
from mnemo_daemon.retrieval.explanations import Explainer
from mnemo_daemon.retrieval.note_grouping import group_by_note
from mnemo_daemon.retrieval.query_expansion import QueryExpansion
from mnemo_daemon.retrieval.question import Question, RecallOutcome
from mnemo_daemon.retrieval.recall_diagnosis import RecallDiagnosis
from mnemo_daemon.retrieval.result_builder import (
    RankedCandidates,
    ResultBuilder,
    ResultPage,
    sort_candidates,
)
from mnemo_store.indexes.vector_kernels import BadVector
from mnemo_store.store import Store

SLOW_THREADS = 2
LAG_MAX = 64  # memories without a vector from which on an answer says so

log = logging.getLogger("mnemo.recall")


class _RecallRun(NamedTuple):
    """A recall that was made, with what it went by."""

    ranked: RankedCandidates
    answered: ResultPage
    serving: ActiveIndex | None
    degraded: tuple[str, ...]
    stages_ms: dict[str, float]
    took_ms: float


class Recall:
    """The recall service. `ask` is synchronous; `submit` runs it on a thread of its own."""

    def __init__(
        self, store: Store, views: Views, indexing: VectorIndexer, embedding: EmbeddingService,
        reranking: CrossEncoderService | None = None,
    ) -> None:  # fmt: skip
        self.is_reading_notes: Callable[[], bool] = lambda: False  # whether what is in a folder may be unknown yet
        self._cross_encoder = reranking
        self._store = store
        self._views = views
        self._indexing = indexing
        self._retrieval = CandidateRetrieval(store, views, embedding)
        self._ranking_inputs = RankingInputs(store, views, embedding, reranking)
        self._expansion = QueryExpansion(store, views, self._retrieval, self._ranking_inputs)
        self._result_builder = ResultBuilder(store, views, indexing, embedding)
        self._explainer = Explainer(views)
        self._why = RecallDiagnosis(store, views, self._explainer, self._result_builder.tokens)
        # One thread for quick questions: several contend for the interpreter, and each answer takes longer. What may
        # take long has threads of its own, so that it holds up nobody.
        self._quick = ThreadPoolExecutor(1, "mnemo-recall")
        self._slow = ThreadPoolExecutor(SLOW_THREADS, "mnemo-recall-slow")

    def close(self) -> None:
        for threads in (self._quick, self._slow):
            threads.shutdown(cancel_futures=True)
        self._retrieval.close()

    def clear_caches(self) -> None:
        """Nothing is kept of the texts that were looked at."""
        self._ranking_inputs.clear_caches()

    def submit(self, question: Question) -> Future[RecallOutcome]:
        """Answers on another thread; questions that can be answered quickly in the order in which they come."""
        return (self._quick if question.is_quick else self._slow).submit(self.answer, question)

    def answer(self, question: Question) -> RecallOutcome:
        """Answers from what is there now. Without a model, or while it loads, by words alone, and says so."""
        asked = self._run(question)
        ranked, answered = asked.ranked, asked.answered
        trace = self._explainer.trace(ranked, answered, asked.stages_ms) if question.explain else None
        return RecallOutcome(
            answered.hits, answered.tokens, len(ranked.rows), ranked.scored.ranker, asked.degraded, asked.took_ms,
            trace, ranked.scored.mode, answered.abstained, answered.tokens_needed, ranked.expansion_terms,
        )  # fmt: skip

    def why(self, question: Question, memory_id: str) -> WhyAnswer:
        """Explain why this memory is, or is not, among the answers. Raises a Refusal (404) for no such memory."""
        asked = self._run(question._replace(explain=True))
        told = self._why.diagnose(asked.ranked, asked.answered, asked.serving, memory_id)
        told.degraded, told.took_ms = list(asked.degraded), round(asked.took_ms, 3)
        return told

    def _run(self, question: Question) -> _RecallRun:
        started = time.perf_counter()
        clock = StageTimer(started)
        scene = self._retrieval.scope(question)
        clock.mark("filter")
        by_vectors = ranker_query_of(question).needs_vectors and not self._store.degraded
        serving = self._indexing.serving() if by_vectors else None
        try:
            channels, is_whole = self._retrieval.search(question, scene, serving, clock)
        except (BadVector, RuntimeError) as error:  # what a model that is out of order gives; onnxruntime's errors
            log.warning("the query could not be embedded, and is answered by words: %s", error)
            serving = None
            channels, is_whole = self._retrieval.search(question, scene, None, clock)
        degraded = self._degraded(question, serving)
        if not is_whole and "vectors" not in degraded:
            degraded = ("vectors", *degraded)
        if self.is_reading_notes():
            degraded = (*degraded, "notes")
        asked = self._ranking_inputs.ranker_query(question, serving)
        channels, candidates, looked = self._ranking_inputs.candidates(question, asked, scene, channels, serving)
        clock.mark("features")
        scored = rankers.score(asked, candidates)
        if (
            rankers.RANKER_TABLE[scored.ranker].reranks
            and scored.mode != "cross_encoder"
            and self._cross_encoder
            and self._cross_encoder.failure
        ):
            degraded = (*degraded, "reranker")
        rows = sort_candidates(question, scene, channels, scored, candidates)
        clock.mark("rank")
        ranked = RankedCandidates(question, asked, scene, channels, candidates, scored, rows, looked)
        ranked = self._expansion.expanded(ranked, serving, clock)
        if question.group_by == "note":
            ranked = group_by_note(ranked)
        answered = self._result_builder.build(ranked, serving)
        clock.mark("fetch")
        took = (time.perf_counter() - started) * 1000
        return _RecallRun(ranked, answered, serving, degraded, clock.stages, took)

    def learned_inputs(self, question: Question) -> tuple[NDArray[np.uint32], LearnedScores | None]:
        """The numbers of the candidates, and what the learned fusion sees of each: what its weights are fitted on."""
        scene, serving = self._retrieval.scope(question), self._indexing.serving()
        channels, _ = self._retrieval.search(question, scene, serving, StageTimer(time.perf_counter()))
        asked = self._ranking_inputs.ranker_query(question, serving)
        channels, _, looked = self._ranking_inputs.candidates(question, asked, scene, channels, serving)
        return channels.numbers, looked

    def _degraded(self, question: Question, serving: ActiveIndex | None) -> tuple[str, ...]:
        if not ranker_query_of(question).needs_vectors:
            return () if self._views.state == "ready" else ("words",)
        behind = serving is None or self._indexing.waiting() >= LAG_MAX
        reasons = (("vectors", behind), ("words", self._views.state == "stale"))
        return tuple(name for name, applies in reasons if applies)
