"""Recall: from a question to the memories that answer it. SPEC 7.

Both channels search within one mask of what the filters allow; their candidates are scored together from the columns,
and only the memories that are answered are read from the database. Nothing is written here: what was recalled is noted
after the answer (`Touches`).
"""

import itertools
import logging
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core import ranking
from mnemo_core.chunking import estimate_tokens
from mnemo_core.ranking import Candidates, Ranker
from mnemo_core.sentences import best_sentence
from mnemo_daemon.embedding import EmbeddingService
from mnemo_daemon.indexing import Indexing, Serving
from mnemo_daemon.memories import Found, Memories, found
from mnemo_daemon.views import Views
from mnemo_store.columns import Filter
from mnemo_store.errors import StoreError
from mnemo_store.records import KINDS, Memory, content_hash
from mnemo_store.store import Store
from mnemo_store.tables import Snapshot

CANDIDATES_MIN = 64  # a channel; what is missing from answers is order, not candidates (quality benchmark: R@50 87)
CANDIDATES_PER_ANSWER = 4  # [L 2.3]
WORKING_HOURS = 24  # how long a memory of kind `working` without a session is recalled. SPEC 9.4
TOUCH_SCORE_MIN = 0.5  # above it, being answered counts as being recalled. SPEC 7.5
TOUCH_SECONDS = 2.0  # touches are written together, this late at most
TOUCHES_MAX = 500  # in one write turn
THREADS = 2  # for the word searches, which run beside the embedding of their query and the vector search
BEHIND_MAX = 64  # memories without a vector from which on an answer says so

_WORD = re.compile(r"\w+(?:'s\b)?")
_WORKING = KINDS.index("working")

log = logging.getLogger("mnemo.recall")


class Question(NamedTuple):
    """A recall request, checked. `token_budget` None: no budget."""

    query: str
    filter: Filter
    top_k: int = 5
    offset: int = 0
    token_budget: int | None = 2000
    min_score: float = 0.0
    sort: str = "score"
    ranker: Ranker = "auto"
    exact: bool = False
    highlight: bool = False
    explain: bool = False
    working_session: str | None = None
    working_any: bool = False  # `kinds` names `working`


class Best(NamedTuple):
    """The sentence that answers best: its text, the query's words in it, and its line in the note (0: no note)."""

    text: str
    marks: list[tuple[int, int]]
    line: int


class Hit(NamedTuple):
    found: Found
    score: float
    channels: tuple[str, ...]
    best: Best | None = None


class Recalled(NamedTuple):
    hits: list[Hit]
    total_tokens: int
    total: int
    ranker: Ranker
    degraded: tuple[str, ...]
    took_ms: float
    trace: dict[str, Any] | None = None


class _Channels(NamedTuple):
    """The candidates of all channels: their numbers, and what each channel found of them."""

    numbers: NDArray[np.uint32]
    words: NDArray[np.float32]
    sims: NDArray[np.float32]
    in_words: NDArray[np.bool_]
    in_vectors: NDArray[np.bool_]


class Recall:
    """The service. `ask` is synchronous and runs on a worker thread."""

    def __init__(self, store: Store, views: Views, indexing: Indexing, embedding: EmbeddingService) -> None:
        self._store = store
        self._views = views
        self._indexing = indexing
        self._embedding = embedding
        self._threads = ThreadPoolExecutor(THREADS, "mnemo-words")

    def close(self) -> None:
        self._threads.shutdown()

    def ask(self, question: Question) -> Recalled:
        """Answers from what is there now. Without a model, or while it loads, by words alone, and says so."""
        started = time.perf_counter()
        clock = _Clock(started)
        mask = self._allowed(question)
        clock.mark("filter")
        serving = self._indexing.serving() if question.ranker != "words" else None
        degraded = self._degraded(question, serving)
        channels = self._search(question, mask, serving, clock)
        candidates = self._candidates(channels)
        scores = ranking.score(_ranker(question, serving), candidates)
        rows = self._ordered(question, channels, scores, candidates)
        clock.mark("rank")
        hits, tokens = self._choose(question, channels, scores, rows)
        clock.mark("fetch")
        took = (time.perf_counter() - started) * 1000
        trace = _trace(channels, candidates, scores, rows, clock) if question.explain else None
        return Recalled(hits, tokens, len(rows), _ranker(question, serving), degraded, took, trace)

    def _allowed(self, question: Question) -> NDArray[np.bool_]:
        """The filter, and the rule for kind `working`: only in its own session, without one for 24 hours. SPEC 9.4"""
        columns = self._views.columns
        mask = columns.allowed(question.filter)
        working = mask & (columns.column("kind")[: len(mask)] == _WORKING)
        if working.any():
            sessions = columns.column("session_id")[: len(mask)]
            own = columns.allowed(question.filter._replace(session_id=question.working_session or "\0"))[: len(mask)]
            fresh = columns.column("created_at")[: len(mask)] > question.filter.now - WORKING_HOURS * 3_600_000
            homeless = (sessions == 0) & (fresh | question.working_any)
            mask &= ~working | own | homeless
        return mask

    def _degraded(self, question: Question, serving: Serving | None) -> tuple[str, ...]:
        if question.ranker == "words":
            return () if self._views.state == "ready" else ("words",)
        behind = serving is None or self._indexing.waiting() >= BEHIND_MAX
        reasons = (("vectors", behind), ("words", self._views.state == "stale"))
        return tuple(name for name, applies in reasons if applies)

    def _search(
        self, question: Question, mask: NDArray[np.bool_], serving: Serving | None, clock: "_Clock"
    ) -> _Channels:
        fetch = max(CANDIDATES_MIN, CANDIDATES_PER_ANSWER * (question.top_k + question.offset))
        searching = self._threads.submit(self._views.words.search, question.query, fetch, mask)
        if serving is None:
            words = searching.result()
            clock.mark("words")
            found_all = np.ones(len(words.numbers), np.bool_)
            unknown = np.full(len(words.numbers), np.nan, np.float32)
            return _Channels(words.numbers, words.scores, unknown, found_all, ~found_all)
        queries = [self._embedding.encode_query(serving.embedder, text) for text in self._encodings(question, mask)]
        clock.mark("embed")
        near = [serving.view.nearest(query, fetch, mask, exact=question.exact) for query in queries]
        clock.mark("vectors")
        words = searching.result()
        clock.mark("words")
        numbers = np.unique(np.concatenate([words.numbers, *(hits.numbers for hits in near)]))
        in_words, score = _spread(numbers, words.numbers, words.scores, 0.0)
        channels = [_spread(numbers, hits.numbers, hits.sims, np.nan) for hits in near]
        for query, (_, known) in zip(queries, channels, strict=True):
            unsearched = np.flatnonzero(np.isnan(known))
            if len(unsearched):
                known[unsearched] = serving.view.sims(query, numbers[unsearched])
        in_vectors: NDArray[np.bool_] = np.logical_or.reduce([found for found, _ in channels])
        nearest: NDArray[np.float32] = np.fmax.reduce([sims for _, sims in channels])
        clock.mark("join")
        return _Channels(numbers, score, nearest, in_words, in_vectors)

    def _encodings(self, question: Question, mask: NDArray[np.bool_]) -> list[str]:
        """The texts to embed: the query without the names of those who speak in the scope, where it has any.

        A name draws the vector to whatever mentions it; who spoke is a field, which the words channel searches.
        """
        columns = self._views.columns
        names = {
            word for word in _WORD.findall(question.query) if columns.has_speaker(word.lower().removesuffix("'s"), mask)
        }
        if not names:
            return [question.query]
        cut = " ".join(_WORD.sub(lambda match: "" if match[0] in names else match[0], question.query).split())
        return [cut] if _WORD.search(cut) else [question.query]

    def _candidates(self, channels: _Channels) -> Candidates:
        columns, numbers = self._views.columns, channels.numbers
        return Candidates(
            channels.words,
            channels.sims,
            columns.column("importance")[numbers],
            columns.column("event_at")[numbers],
            columns.column("id_high")[numbers],
            columns.column("id_low")[numbers],
        )

    def _ordered(
        self, question: Question, channels: _Channels, scores: NDArray[np.float32], candidates: Candidates
    ) -> list[int]:
        order = ranking.order(scores, candidates)
        order = order[scores[order] >= np.float32(question.min_score)]
        order = order[scores[order] > 0]
        if question.sort == "recent":
            order = order[np.argsort(-candidates.event_at[order], kind="stable")]
        elif question.sort == "accessed":  # what was never recalled has 0, and comes last
            accessed = self._views.columns.column("last_accessed")[channels.numbers[order]]
            order = order[np.argsort(-accessed, kind="stable")]
        ordered: list[int] = order.tolist()
        return ordered

    def _choose(
        self, question: Question, channels: _Channels, scores: NDArray[np.float32], rows: list[int]
    ) -> tuple[list[Hit], int]:
        """Decodes in order until top_k fit the budget; equal content once."""
        hits: dict[int, Hit] = {}
        with self._store.snapshot() as snapshot:
            distinct = self._distinct(snapshot, channels, scores, rows, hits)
            chosen, total = ranking.choose(
                itertools.islice(distinct, question.offset, None),
                lambda row: self._tokens(int(channels.numbers[row]), hits[row].found.memory),
                question.token_budget,
                question.top_k,
            )
        answers = [hits[row] for row in chosen]
        if question.highlight:
            answers = [hit._replace(best=self._best(hit.found, question.query)) for hit in answers]
        return answers, total

    def _distinct(
        self,
        snapshot: Snapshot,
        channels: _Channels,
        scores: NDArray[np.float32],
        rows: Iterable[int],
        hits: dict[int, Hit],
    ) -> Iterator[int]:
        """The rows in order, each decoded into hits as it is asked for; of equal contents the first."""
        seen: set[bytes] = set()
        for row in rows:
            (memory_id,) = self._views.columns.ids([int(channels.numbers[row])])
            memory = snapshot.memory(memory_id)
            if memory is None or (digest := content_hash(memory.content)) in seen:
                continue
            seen.add(digest)
            names = (("words", channels.in_words[row]), ("vectors", channels.in_vectors[row]))
            channel_names = tuple(name for name, has_it in names if has_it)
            hits[row] = Hit(found(snapshot, memory), float(scores[row]), channel_names)
            yield row

    def _tokens(self, number: int, memory: Memory) -> int:
        """Of a memory's content: counted once by the model's tokenizer, estimated while there is no model."""
        columns = self._views.columns
        known = int(columns.column("tokens")[number])
        if known:
            return known
        serving = self._indexing.serving()
        if serving is None:
            return estimate_tokens([memory.content])[0]
        counted = self._embedding.count_tokens(serving.embedder, memory.content)
        columns.set_tokens(number, counted, memory.modified_at)
        return counted

    def _best(self, answer: Found, query: str) -> Best:
        content = answer.memory.content
        marks = self._views.words.tokenizer.marks(content, query)
        start, end = best_sentence(content, marks)
        inside = [(max(a, start) - start, min(b, end) - start) for a, b in marks if a < end and b > start]
        line = 0
        if answer.note is not None:
            place = next((chunk for chunk in answer.note.chunks if chunk.memory == answer.memory.id), None)
            if place is not None:
                line = min(place.last_line, place.first_line + content[:start].count("\n"))
        return Best(content[start:end], inside, line)


class Touches:
    """What was recalled, written together a little later. It may fail alone: then nothing but a count is lost."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories
        self._ids: dict[str, None] = {}
        self._lock = threading.Lock()
        self._since = 0.0

    def note(self, hits: Sequence[Hit]) -> None:
        with self._lock:
            if not self._ids:
                self._since = time.monotonic()
            self._ids.update((hit.found.memory.id, None) for hit in hits if hit.score > TOUCH_SCORE_MIN)

    def write_if_due(self, *, now: bool = False) -> None:
        """Hands what has gathered to the store, once it is TOUCH_SECONDS old."""
        with self._lock:
            if not self._ids or (not now and time.monotonic() - self._since < TOUCH_SECONDS):
                return
            ids, self._ids = list(self._ids), {}
        for start in range(0, len(ids), TOUCHES_MAX):
            try:
                self._memories.touch(ids[start : start + TOUCHES_MAX])
            except StoreError as error:
                log.info("touches were not written: %s", error)


class _Clock:
    """How long each stage took, in milliseconds."""

    def __init__(self, started: float) -> None:
        self.stages: dict[str, float] = {}
        self._last = started

    def mark(self, stage: str) -> None:
        now = time.perf_counter()
        self.stages[stage] = round((now - self._last) * 1000, 3)
        self._last = now


def _spread(
    numbers: NDArray[np.uint32], found: NDArray[np.uint32], values: NDArray[np.float32], missing: float
) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """A channel's finds over all candidates (sorted): which are among them, and their values."""
    places = np.searchsorted(numbers, found)
    is_found = np.zeros(len(numbers), np.bool_)
    spread = np.full(len(numbers), missing, np.float32)
    is_found[places], spread[places] = True, values
    return is_found, spread


def _ranker(question: Question, serving: Serving | None) -> Ranker:
    return "words" if serving is None else question.ranker


def _trace(
    channels: _Channels, candidates: Candidates, scores: NDArray[np.float32], rows: list[int], clock: _Clock
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
