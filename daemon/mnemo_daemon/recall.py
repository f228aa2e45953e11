"""Recall: from a question to the memories that answer it. SPEC 7.

The channels find candidates, which are scored together from the columns; the best are chosen and read. Nothing is
written here: what was recalled is noted after the answer (`Touches`).
"""

import logging
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_client.recall_protocol import WhyAnswer
from mnemo_core import ranking
from mnemo_daemon.answering import Answered, Answering, Ranked, ordered
from mnemo_daemon.candidates import Gathering, asked_of
from mnemo_daemon.channels import Clock, Searching
from mnemo_daemon.embedding import EmbeddingService
from mnemo_daemon.explaining import Explaining
from mnemo_daemon.grouping import group_by_note
from mnemo_daemon.indexing import Indexing, Serving
from mnemo_daemon.question import Question, Recalled
from mnemo_daemon.reranking import Reranking
from mnemo_daemon.surroundings import Looked
from mnemo_daemon.views import Views
from mnemo_daemon.why import Why
from mnemo_daemon.widening import Widening
from mnemo_store.store import Store
from mnemo_store.vector_rows import BadVector

BEHIND_MAX = 64  # memories without a vector from which on an answer says so

log = logging.getLogger("mnemo.recall")


class _Asked(NamedTuple):
    """A recall that was made, with what it went by."""

    ranked: Ranked
    answered: Answered
    serving: Serving | None
    degraded: tuple[str, ...]
    stages_ms: dict[str, float]
    took_ms: float


class Recall:
    """The service. `ask` is synchronous and runs on a worker thread."""

    def __init__(
        self, store: Store, views: Views, indexing: Indexing, embedding: EmbeddingService,
        reranking: Reranking | None = None,
    ) -> None:  # fmt: skip
        self.is_reading_notes: Callable[[], bool] = lambda: False  # whether what is in a folder may be unknown yet
        self._reranking = reranking
        self._store = store
        self._views = views
        self._indexing = indexing
        self._searching = Searching(store, views, embedding)
        self._gathering = Gathering(store, views, embedding, reranking)
        self._widening = Widening(store, views, self._searching, self._gathering)
        self._answering = Answering(store, views, indexing, embedding)
        self._explaining = Explaining(views)
        self._why = Why(store, views, self._explaining, self._answering.tokens)

    def close(self) -> None:
        self._searching.close()

    def forget(self) -> None:
        """Nothing is kept of the texts that were looked at."""
        self._gathering.forget()

    def ask(self, question: Question) -> Recalled:
        """Answers from what is there now. Without a model, or while it loads, by words alone, and says so."""
        asked = self._asked(question)
        ranked, answered = asked.ranked, asked.answered
        trace = self._explaining.trace(ranked, answered, asked.stages_ms) if question.explain else None
        return Recalled(
            answered.hits, answered.tokens, len(ranked.rows), ranked.scored.ranker, asked.degraded, asked.took_ms,
            trace, ranked.scored.mode, answered.abstained, answered.needs, ranked.added,
        )  # fmt: skip

    def why(self, question: Question, memory_id: str) -> WhyAnswer:
        """Why this memory is, or is not, among the answers. Raises a Refusal (404) for no such memory."""
        asked = self._asked(question._replace(explain=True))
        told = self._why.tell(asked.ranked, asked.answered, asked.serving, memory_id)
        told.degraded, told.took_ms = list(asked.degraded), round(asked.took_ms, 3)
        return told

    def _asked(self, question: Question) -> _Asked:
        started = time.perf_counter()
        clock = Clock(started)
        scene = self._searching.scene(question)
        clock.mark("filter")
        by_vectors = asked_of(question).needs_vectors and not self._store.degraded
        serving = self._indexing.serving() if by_vectors else None
        try:
            channels, is_whole = self._searching.search(question, scene, serving, clock)
        except (BadVector, RuntimeError) as error:  # what a model that is out of order gives; onnxruntime's errors
            log.warning("the query could not be embedded, and is answered by words: %s", error)
            serving = None
            channels, is_whole = self._searching.search(question, scene, None, clock)
        degraded = self._degraded(question, serving)
        if not is_whole and "vectors" not in degraded:
            degraded = ("vectors", *degraded)
        if self.is_reading_notes():
            degraded = (*degraded, "notes")
        asked = self._gathering.asked(question, serving)
        channels, candidates, looked = self._gathering.candidates(question, asked, scene, channels, serving)
        clock.mark("features")
        scored = ranking.score(asked, candidates)
        if scored.ranker == "rerank" and scored.mode != "cross_encoder" and self._reranking and self._reranking.failure:
            degraded = (*degraded, "reranker")
        rows = ordered(question, scene, channels, scored, candidates)
        clock.mark("rank")
        ranked = Ranked(question, asked, scene, channels, candidates, scored, rows, looked)
        ranked = self._widening.widened(ranked, serving, clock)
        if question.group_by == "note":
            ranked = group_by_note(ranked)
        answered = self._answering.answer(ranked, serving)
        clock.mark("fetch")
        took = (time.perf_counter() - started) * 1000
        return _Asked(ranked, answered, serving, degraded, clock.stages, took)

    def looked(self, question: Question) -> tuple[NDArray[np.uint32], Looked | None]:
        """The numbers of the candidates, and what the learned fusion sees of each: what its weights are fitted on."""
        scene, serving = self._searching.scene(question), self._indexing.serving()
        channels, _ = self._searching.search(question, scene, serving, Clock(time.perf_counter()))
        asked = self._gathering.asked(question, serving)
        channels, _, looked = self._gathering.candidates(question, asked, scene, channels, serving)
        return channels.numbers, looked

    def _degraded(self, question: Question, serving: Serving | None) -> tuple[str, ...]:
        if not asked_of(question).needs_vectors:
            return () if self._views.state == "ready" else ("words",)
        behind = serving is None or self._indexing.waiting() >= BEHIND_MAX
        reasons = (("vectors", behind), ("words", self._views.state == "stale"))
        return tuple(name for name, applies in reasons if applies)
