"""Recall: from a question to the memories that answer it. SPEC 7.

The channels find candidates, which are scored together from the columns; the best are chosen and read. Nothing is
written here: what was recalled is noted after the answer (`Touches`).
"""

import logging
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_core import ranking
from mnemo_core.ranking import Candidates, Ranker
from mnemo_daemon.answering import Answering, ordered
from mnemo_daemon.candidates import candidates_of
from mnemo_daemon.channels import Channels, Clock, Searching
from mnemo_daemon.embedding import EmbeddingService
from mnemo_daemon.indexing import Indexing, Serving
from mnemo_daemon.question import Question, Recalled
from mnemo_daemon.views import Views
from mnemo_store.store import Store
from mnemo_store.vector_rows import BadVector

BEHIND_MAX = 64  # memories without a vector from which on an answer says so

log = logging.getLogger("mnemo.recall")


class Recall:
    """The service. `ask` is synchronous and runs on a worker thread."""

    def __init__(self, store: Store, views: Views, indexing: Indexing, embedding: EmbeddingService) -> None:
        self._store = store
        self._views = views
        self._indexing = indexing
        self._searching = Searching(store, views, embedding)
        self._answering = Answering(store, views, indexing, embedding)

    def close(self) -> None:
        self._searching.close()

    def ask(self, question: Question) -> Recalled:
        """Answers from what is there now. Without a model, or while it loads, by words alone, and says so."""
        started = time.perf_counter()
        clock = Clock(started)
        scene = self._searching.scene(question)
        clock.mark("filter")
        serving = None if question.ranker == "words" or self._store.degraded else self._indexing.serving()
        try:
            channels, is_whole = self._searching.search(question, scene, serving, clock)
        except (BadVector, RuntimeError) as error:  # what a model that is out of order gives; onnxruntime's errors
            log.warning("the query could not be embedded, and is answered by words: %s", error)
            serving = None
            channels, is_whole = self._searching.search(question, scene, None, clock)
        degraded = self._degraded(question, serving)
        if not is_whole and "vectors" not in degraded:
            degraded = ("vectors", *degraded)
        candidates = candidates_of(scene, channels)
        scores = ranking.score(_ranker(question, serving), candidates)
        rows = ordered(question, scene, channels, scores, candidates)
        clock.mark("rank")
        hits, tokens = self._answering.choose(question, scene, channels, scores, rows)
        clock.mark("fetch")
        took = (time.perf_counter() - started) * 1000
        trace = _trace(channels, candidates, scores, rows, clock) if question.explain else None
        return Recalled(hits, tokens, len(rows), _ranker(question, serving), degraded, took, trace)

    def _degraded(self, question: Question, serving: Serving | None) -> tuple[str, ...]:
        if question.ranker == "words":
            return () if self._views.state == "ready" else ("words",)
        behind = serving is None or self._indexing.waiting() >= BEHIND_MAX
        reasons = (("vectors", behind), ("words", self._views.state == "stale"))
        return tuple(name for name, applies in reasons if applies)


def _ranker(question: Question, serving: Serving | None) -> Ranker:
    return "words" if serving is None else question.ranker


def _trace(
    channels: Channels, candidates: Candidates, scores: NDArray[np.float32], rows: list[int], clock: Clock
) -> dict[str, Any]:
    return {
        "stages_ms": clock.stages,
        "candidates": [
            {
                "number": int(channels.numbers[row]),
                "score": float(scores[row]),
                "words": float(channels.words[row]),
                "similarity": None if np.isnan(channels.sims[row]) else float(channels.sims[row]),
                "importance": float(candidates.importance[row]),
            }
            for row in rows[:100]
        ],
    }
