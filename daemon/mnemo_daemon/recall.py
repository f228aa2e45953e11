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
from mnemo_daemon.past import Past, Then
from mnemo_daemon.views import Views, words_of
from mnemo_store.columns import Columns, Filter
from mnemo_store.errors import StoreError
from mnemo_store.reading import Snapshot
from mnemo_store.records import KINDS, Memory, content_hash, embedded_text, text_hash
from mnemo_store.store import Store
from mnemo_store.vector_rows import BadVector, VectorHits
from mnemo_store.vector_rows import Question as Vector
from mnemo_store.words import WordHits

CANDIDATES_MIN = 64  # a channel; what is missing from answers is order, not candidates (quality benchmark: R@50 87)
CANDIDATES_PER_ANSWER = 4  # [L 2.3]
WORKING_HOURS = 24  # how long a memory of kind `working` without a session is recalled. SPEC 9.4
TOUCH_SCORE_MIN = 0.5  # above it, being answered counts as being recalled. SPEC 7.5
TOUCH_SECONDS = 2.0  # touches are written together, this late at most
TOUCHES_MAX = 500  # in one write turn
THREADS = 2  # for the word searches, which run beside the embedding of their query and the vector search
BEHIND_MAX = 64  # memories without a vector from which on an answer says so
FORMER_TEXTS_MAX = 256  # texts of another time, of which no vector is kept, that one question embeds: half a second
FORMER_A_SLICE = 500  # kept vectors read under one snapshot

_WORD = re.compile(r"\w+(?:'s\b)?")
_WORKING = KINDS.index("working")

log = logging.getLogger("mnemo.recall")


class Question(NamedTuple):
    """A recall request, checked. `token_budget` None: no budget. `as_of` (ms) None: the present."""

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
    as_of: int | None = None


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


class _Former(NamedTuple):
    """What is searched of another time: the versions of what has changed since, as candidates behind the present ones.

    Nothing, where the present is asked. `words` is NaN where no word of the query is in one; `sims` is an array for
    each text that was embedded, NaN where one has no vector.
    """

    numbers: NDArray[np.uint32]
    words: NDArray[np.float32]
    sims: list[NDArray[np.float32]]


class _Scene(NamedTuple):
    """Which memories are in question: those of `mask` now, and, of another time, the rows of `then`.

    A number from len(mask) on stands for the row of `then` that is so many behind it.
    """

    mask: NDArray[np.bool_]
    columns: Columns
    then: Then | None = None
    rows: NDArray[np.bool_] = np.zeros(0, np.bool_)

    @property
    def base(self) -> int:
        return len(self.mask)

    def column(self, name: str, numbers: NDArray[np.uint32]) -> NDArray[Any]:
        """A column's values for these numbers."""
        now = self.columns.column(name)
        if self.then is None:
            return now[numbers]
        is_former = numbers >= self.base
        values: NDArray[Any] = now[np.where(is_former, 0, numbers)] if self.base else np.zeros(len(numbers), now.dtype)
        values[is_former] = self.then.columns.column(name)[numbers[is_former] - self.base]
        return values

    def has_speaker(self, word: str) -> bool:
        """Whether the word is part of the name of someone who speaks in one of the memories in question."""
        if self.columns.has_speaker(word, self.mask):
            return True
        return self.then is not None and self.then.columns.has_speaker(word, self.rows)

    def memory(self, snapshot: Snapshot, number: int) -> Memory | None:
        if self.then is not None and number >= self.base:
            return self.then.memories[number - self.base]
        (memory_id,) = self.columns.ids([number])
        return snapshot.memory(memory_id) if self.then is None else self.then.memory(snapshot, memory_id)


class Recall:
    """The service. `ask` is synchronous and runs on a worker thread."""

    def __init__(self, store: Store, views: Views, indexing: Indexing, embedding: EmbeddingService) -> None:
        self._store = store
        self._views = views
        self._indexing = indexing
        self._embedding = embedding
        self._past = Past(store)
        self._threads = ThreadPoolExecutor(THREADS, "mnemo-words")

    def close(self) -> None:
        self._threads.shutdown()

    def ask(self, question: Question) -> Recalled:
        """Answers from what is there now. Without a model, or while it loads, by words alone, and says so."""
        started = time.perf_counter()
        clock = _Clock(started)
        scene = self._scene(question)
        clock.mark("filter")
        serving = None if question.ranker == "words" or self._store.degraded else self._indexing.serving()
        try:
            channels, is_whole = self._search(question, scene, serving, clock)
        except (BadVector, RuntimeError) as error:  # what a model that is out of order gives; onnxruntime's errors
            log.warning("the query could not be embedded, and is answered by words: %s", error)
            serving = None
            channels, is_whole = self._search(question, scene, None, clock)
        degraded = self._degraded(question, serving)
        if not is_whole and "vectors" not in degraded:
            degraded = ("vectors", *degraded)
        candidates = _candidates(scene, channels)
        scores = ranking.score(_ranker(question, serving), candidates)
        rows = _ordered(question, scene, channels, scores, candidates)
        clock.mark("rank")
        hits, tokens = self._choose(question, scene, channels, scores, rows)
        clock.mark("fetch")
        took = (time.perf_counter() - started) * 1000
        trace = _trace(channels, candidates, scores, rows, clock) if question.explain else None
        return Recalled(hits, tokens, len(rows), _ranker(question, serving), degraded, took, trace)

    def _scene(self, question: Question) -> _Scene:
        columns = self._views.columns
        if question.as_of is None:
            return _Scene(_allowed(question, columns), columns)
        then = self._past.then(question.as_of, question.filter.without_tags)
        mask, rows = _allowed(question, columns), _allowed(question, then.columns)
        return _Scene(then.unchanged(mask), columns, then, rows)

    def _degraded(self, question: Question, serving: Serving | None) -> tuple[str, ...]:
        if question.ranker == "words":
            return () if self._views.state == "ready" else ("words",)
        behind = serving is None or self._indexing.waiting() >= BEHIND_MAX
        reasons = (("vectors", behind), ("words", self._views.state == "stale"))
        return tuple(name for name, applies in reasons if applies)

    def _search(
        self, question: Question, scene: _Scene, serving: Serving | None, clock: "_Clock"
    ) -> tuple[_Channels, bool]:
        """What each channel found, and whether every text in question that could have a vector had one."""
        fetch = max(CANDIDATES_MIN, CANDIDATES_PER_ANSWER * (question.top_k + question.offset))
        searching = self._threads.submit(self._views.words.search, question.query, fetch, scene.mask)
        queries = []
        if serving is not None:
            texts = _encodings(question, scene)
            queries = [self._embedding.encode_query(serving.embedder, text) for text in texts]
            clock.mark("embed")
        former, is_whole = self._former(question, scene, serving, queries)
        if serving is None:
            numbers, found_words = _merged(*searching.result(), former.numbers, former.words, fetch)
            clock.mark("words")
            found_all = np.ones(len(numbers), np.bool_)
            unknown = np.full(len(numbers), np.nan, np.float32)
            return _Channels(numbers, found_words, unknown, found_all, ~found_all), is_whole
        exact = question.exact or scene.then is not None
        near = [serving.view.nearest(query, fetch, scene.mask, exact=exact) for query in queries]
        near = [
            VectorHits(*_merged(*hits, former.numbers, sims, fetch))
            for hits, sims in zip(near, former.sims, strict=True)
        ]
        clock.mark("vectors")
        words = WordHits(*_merged(*searching.result(), former.numbers, former.words, fetch))
        clock.mark("words")
        numbers = np.unique(np.concatenate([words.numbers, *(hits.numbers for hits in near)]))
        in_words, score = _spread(numbers, words.numbers, words.scores, 0.0)
        channels = [_spread(numbers, hits.numbers, hits.sims, np.nan) for hits in near]
        for query, sims, (_, known) in zip(queries, former.sims, channels, strict=True):
            unsearched = np.flatnonzero(np.isnan(known) & (numbers < scene.base))
            if len(unsearched):
                known[unsearched] = serving.view.sims(query, numbers[unsearched])
            is_former = np.flatnonzero(numbers >= scene.base)
            known[is_former] = sims[np.searchsorted(former.numbers, numbers[is_former])]
        in_vectors: NDArray[np.bool_] = np.logical_or.reduce([found for found, _ in channels])
        nearest: NDArray[np.float32] = np.fmax.reduce([sims for _, sims in channels])
        clock.mark("join")
        return _Channels(numbers, score, nearest, in_words, in_vectors), is_whole

    def _former(
        self, question: Question, scene: _Scene, serving: Serving | None, queries: Sequence[NDArray[np.float32]]
    ) -> tuple[_Former, bool]:
        """The versions in question of what has changed since, each scored as if it were in the views."""
        if scene.then is None:
            nothing = np.empty(0, np.float32)
            return _Former(np.empty(0, np.uint32), nothing, [nothing for _ in queries]), True
        rows = np.flatnonzero(scene.rows)
        memories = [scene.then.memories[row] for row in rows.tolist()]
        words = self._views.words.scores(question.query, list(map(words_of, memories)))
        windows = self._windows(memories, words, serving) if serving is not None else {}
        sims = [np.full(len(rows), np.nan, np.float32) for _ in queries]
        for query, found_sims in zip(queries, sims, strict=True):
            vector = Vector(query, len(query))
            for place, vectors in windows.items():
                found_sims[place] = vector.sims(vectors).max()
        words[words <= 0] = np.nan
        is_whole = serving is None or len(windows) == len(memories)
        return _Former((rows + scene.base).astype(np.uint32), words, sims), is_whole

    def _windows(
        self, memories: Sequence[Memory], words: NDArray[np.float32], serving: Serving
    ) -> dict[int, NDArray[np.float16]]:
        """The vectors of former texts, by place: those that are kept, and of the others, the best by words first, as
        many as one question may embed."""
        embedder = serving.embedder
        texts = [embedded_text(memory) for memory in memories]
        windows: dict[int, NDArray[np.float16]] = {}
        for start in range(0, len(texts), FORMER_A_SLICE):
            with self._store.snapshot() as snapshot:
                for place, text in enumerate(texts[start : start + FORMER_A_SLICE], start):
                    kept = snapshot.vectors(embedder.space, text_hash(text), embedder.dimensions)
                    if kept is not None:
                        windows[place] = kept
        missing = [int(place) for place in np.argsort(-words, kind="stable") if int(place) not in windows]
        missing = missing[:FORMER_TEXTS_MAX]
        if missing:
            fresh = self._embedding.encode_batch(embedder, [texts[place] for place in missing])
            windows |= {place: rows.astype(np.float16) for place, rows in zip(missing, fresh, strict=True)}
        return windows

    def _choose(
        self, question: Question, scene: _Scene, channels: _Channels, scores: NDArray[np.float32], rows: list[int]
    ) -> tuple[list[Hit], int]:
        """Decodes in order until top_k fit the budget; equal content once."""
        hits: dict[int, Hit] = {}

        def tokens(row: int) -> int:
            number = int(channels.numbers[row])
            return self._tokens(number if number < scene.base else None, hits[row].found.memory)

        with self._store.snapshot() as snapshot:
            distinct = _distinct(snapshot, scene, channels, scores, rows, hits)
            after_offset = itertools.islice(distinct, question.offset, None)
            chosen, total = ranking.choose(after_offset, tokens, question.token_budget, question.top_k)
        answers = [hits[row] for row in chosen]
        if question.highlight:
            answers = [hit._replace(best=self._best(hit.found, question.query)) for hit in answers]
        return answers, total

    def _tokens(self, number: int | None, memory: Memory) -> int:
        """Of a memory's content: counted once by the model's tokenizer, estimated while there is no model.

        What has no number is a version of another time, of which no count is kept.
        """
        columns = self._views.columns
        known = columns.tokens_of(number) if number is not None else 0
        if known:
            return known
        serving = self._indexing.serving()
        if serving is None:
            return estimate_tokens([memory.content])[0]
        counted = self._embedding.count_tokens(serving.embedder, memory.content)
        if number is not None:
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


def _allowed(question: Question, columns: Columns) -> NDArray[np.bool_]:
    """The filter, and the rule for kind `working`: only in its own session, without one for 24 hours. SPEC 9.4"""
    mask = columns.allowed(question.filter)
    working = mask & (columns.column("kind")[: len(mask)] == _WORKING)
    if working.any():
        sessions = columns.column("session_id")[: len(mask)]
        own = columns.allowed(question.filter._replace(session_id=question.working_session or "\0"))[: len(mask)]
        fresh = columns.column("created_at")[: len(mask)] > question.filter.now - WORKING_HOURS * 3_600_000
        homeless = (sessions == 0) & (fresh | question.working_any)
        mask &= ~working | own | homeless
    return mask


def _encodings(question: Question, scene: _Scene) -> list[str]:
    """The texts to embed: the query without the names of those who speak in the scope, where it has any.

    A name draws the vector to whatever mentions it; who spoke is a field, which the words channel searches.
    """
    names = {word for word in _WORD.findall(question.query) if scene.has_speaker(word.lower().removesuffix("'s"))}
    if not names:
        return [question.query]
    cut = " ".join(_WORD.sub(lambda match: "" if match[0] in names else match[0], question.query).split())
    return [cut] if _WORD.search(cut) else [question.query]


def _candidates(scene: _Scene, channels: _Channels) -> Candidates:
    numbers = channels.numbers
    return Candidates(
        channels.words,
        channels.sims,
        scene.column("importance", numbers),
        scene.column("event_at", numbers),
        scene.column("id_high", numbers),
        scene.column("id_low", numbers),
    )


def _ordered(
    question: Question, scene: _Scene, channels: _Channels, scores: NDArray[np.float32], candidates: Candidates
) -> list[int]:
    order = ranking.order(scores, candidates)
    order = order[scores[order] >= np.float32(question.min_score)]
    order = order[scores[order] > 0]
    if question.sort == "recent":
        order = order[np.argsort(-candidates.event_at[order], kind="stable")]
    elif question.sort == "accessed":  # what was never recalled has 0, and comes last
        accessed = scene.column("last_accessed", channels.numbers[order])
        order = order[np.argsort(-accessed, kind="stable")]
    ordered: list[int] = order.tolist()
    return ordered


def _distinct(
    snapshot: Snapshot,
    scene: _Scene,
    channels: _Channels,
    scores: NDArray[np.float32],
    rows: Iterable[int],
    hits: dict[int, Hit],
) -> Iterator[int]:
    """The rows in order, each decoded into hits as it is asked for; of equal contents the first."""
    seen: set[bytes] = set()
    for row in rows:
        memory = scene.memory(snapshot, int(channels.numbers[row]))
        if memory is None or (digest := content_hash(memory.content)) in seen:
            continue
        seen.add(digest)
        names = (("words", channels.in_words[row]), ("vectors", channels.in_vectors[row]))
        channel_names = tuple(name for name, has_it in names if has_it)
        hits[row] = Hit(found(snapshot, memory), float(scores[row]), channel_names)
        yield row


def _merged(
    numbers: NDArray[np.uint32],
    values: NDArray[np.float32],
    former: NDArray[np.uint32],
    former_values: NDArray[np.float32],
    fetch: int,
) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
    """The best `fetch` of what a channel found and of what it finds among the versions of another time."""
    hit = np.flatnonzero(~np.isnan(former_values))
    if not len(hit):
        return numbers, values
    numbers, values = np.concatenate([numbers, former[hit]]), np.concatenate([values, former_values[hit]])
    order = np.lexsort((numbers, -values))[:fetch]
    return numbers[order], values[order]


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
