"""Vectors of texts: those that the database has, those that the ingestion pipeline computed, else computed here."""

import contextlib
import itertools
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking.late_interaction import Codes
from mnemo_daemon.indexing.index import is_indexed
from mnemo_daemon.indexing.vectors.active_index import Scope
from mnemo_daemon.models.embedders.embedder import Embedder
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_store.batches import batched
from mnemo_store.record_texts import embedded_text, text_hash
from mnemo_store.store import Store, TextVectors

WINDOW_SECONDS = 30.0
SPAN_SECONDS_MIN = 0.5  # below it a rate says nothing

HANDOFF_MAX = 20_000  # texts with vectors that the view has not taken yet
HANDOFF_BYTES_MAX = 24 << 20  # of vectors and token rows: 8,000 usual texts at 384 dimensions, 2,000 of 8192 characters

Rows = NDArray[np.float16]  # the vectors of one text, (windows, dimensions)

BATCH = 64  # texts embedded and committed together: a second's work on a laptop
HANDOFF_WAIT_SECONDS = 8.0  # for a vector that the ingestion pipeline is computing; after that it is computed here
ATTEMPTS = 10  # a second apart, to get a vector for a text from a model that gives NaN; then it is passed over
FAILED_AGAIN_SECONDS = 600.0  # after which what was passed over is tried again


class Throughput:
    """Counts what was done in the last WINDOW_SECONDS. Safe in any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is in seconds and never goes back."""
        self._clock = clock
        self._lock = threading.Lock()
        self._done: deque[tuple[float, float, int]] = deque()  # when a piece began and ended, and its items

    def add(self, began: float, items: int) -> None:
        """Counts a piece of work that ends now."""
        with self._lock:
            self._done.append((began, self._clock(), items))
            self._forget()

    def rate(self) -> float | None:
        """Items a second while there was work; None where too little was done to say."""
        with self._lock:
            self._forget()
            seconds = sum(ended - began for began, ended, _ in self._done)
            items = sum(items for *_, items in self._done)
        return items / seconds if seconds >= SPAN_SECONDS_MIN and items else None

    def _forget(self) -> None:
        oldest = self._clock() - WINDOW_SECONDS
        while self._done and self._done[0][1] < oldest:
            self._done.popleft()


class TextEmbedding(NamedTuple):
    """The vectors of one text, and its token rows; None where the model gives none, or none were handed over."""

    rows: Rows
    tokens: Codes | None


class EmbeddingHandoff:
    """Vectors by space and text hash: bounded, and lost with the process.

    Those that are being computed are in it as futures, so that the vector indexer does not compute them again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: OrderedDict[tuple[str, bytes], tuple[Future[Rows | None], float]] = OrderedDict()  # and since
        self._tokens: dict[tuple[str, bytes], Codes] = {}
        self._sizes: OrderedDict[tuple[str, bytes], int] = OrderedDict()  # in bytes, of those that are computed
        self._bytes = 0  # of all

    def __len__(self) -> int:
        return len(self._futures)

    def claim(self, space: str, digests: Sequence[bytes]) -> dict[bytes, "Future[Rows | None]"]:
        """A future for each of the texts that is not in it yet: the caller settles every one of them, with the vectors,
        or with None where there are none."""
        taken: dict[bytes, Future[Rows | None]] = {}
        with self._lock:
            for digest in digests:
                if (space, digest) not in self._futures:
                    taken[digest] = Future()
                    self._futures[space, digest] = (taken[digest], time.monotonic())
            while len(self._futures) > HANDOFF_MAX:
                self._discard([next(iter(self._futures))])
        return taken

    def find(self, space: str, digest: bytes) -> "Future[Rows | None] | None":
        """The future of the vectors of a text that were computed, or are being computed."""
        with self._lock:
            future, _ = self._futures.get((space, digest), (None, 0.0))
            return future

    def add_rows(self, space: str, digest: bytes, rows: Rows, tokens: Codes | None) -> None:
        """Adds the token rows of a text, and counts its vectors, before its future is settled with them. space: that of
        its vectors."""
        key, size = (space, digest), rows.nbytes + (tokens.nbytes if tokens is not None else 0)
        with self._lock:
            if key not in self._futures:  # more were claimed since than have room
                return
            if tokens is not None:
                self._tokens[key] = tokens
            self._bytes += size - self._sizes.pop(key, 0)
            self._sizes[key] = size
            while self._bytes > HANDOFF_BYTES_MAX:
                self._discard([next(iter(self._sizes))])

    def tokens(self, space: str, digest: bytes) -> Codes | None:
        with self._lock:
            return self._tokens.get((space, digest))

    def discard(self, space: str, digests: Sequence[bytes]) -> None:
        """Removes texts whose vectors are in the database now, or could not be computed."""
        with self._lock:
            self._discard([(space, digest) for digest in digests])

    def discard_older(self, seconds: float) -> None:
        """Removes what was computed longer ago than that. Called when no memory waits for a vector: these belong to
        texts that were replaced before they got into the view, or were never stored."""
        until = time.monotonic() - seconds
        with self._lock:
            old = itertools.takewhile(lambda each: each[1][1] < until, self._futures.items())
            self._discard([key for key, (future, _) in old if future.done()])

    def _discard(self, keys: Sequence[tuple[str, bytes]]) -> None:
        for key in keys:
            self._futures.pop(key, None)
            self._tokens.pop(key, None)
            self._bytes -= self._sizes.pop(key, 0)

    def clear(self) -> None:
        """Removes all."""
        with self._lock:
            self._futures.clear()
            self._tokens.clear()
            self._sizes.clear()
            self._bytes = 0


class MissingVectorError(Exception):
    """The model gave no vector for a text, and is asked for it again."""


class IndexRow(NamedTuple):
    """A memory to be put into a view, with the vectors that the database has for its text."""

    number: int
    scope: Scope
    text: str
    content: str
    modified_at: int
    text_hash: bytes
    known: Rows | None
    has_tokens: bool  # in the database, or the model gives none


class FailedTexts:
    """Texts for which the model gave no usable vector, by hash."""

    def __init__(self) -> None:
        self._attempts: Counter[bytes] = Counter()
        self._last_at = 0.0  # monotonic

    def add(self, digest: bytes) -> None:
        self._attempts[digest] += 1
        self._last_at = time.monotonic()

    def is_retried(self, digest: bytes) -> bool:
        return self._attempts[digest] < ATTEMPTS

    def forget_if_due(self) -> bool:
        """Forget all failures when it is time to try those texts again; return whether it was."""
        is_due = bool(self._attempts) and time.monotonic() - self._last_at >= FAILED_AGAIN_SECONDS
        if is_due:
            self._attempts.clear()
        return is_due


class TextVectorSource:
    """Gives the vectors of texts on the thread of the vector indexer, and stores the new ones in the database."""

    def __init__(self, store: Store, embedding: EmbeddingService) -> None:
        self.handoff = EmbeddingHandoff()
        self.throughput = Throughput()
        self.failed = FailedTexts()
        self.batch = BATCH
        self._store = store
        self._embedding = embedding

    def look_up(self, ids: Sequence[str], embedder: Embedder, *, recomputes: bool) -> tuple[list[IndexRow], list[int]]:
        """The memories that belong into a view, and the row ids of those that do not. With `recomputes`, vectors in
        the database do not count."""
        wanted, unwanted = [], []
        late = embedder.late
        with self._store.snapshot() as snapshot:
            for memory_id in ids:
                memory, number = snapshot.memory(memory_id), snapshot.number(memory_id)
                if number is None:
                    continue
                if memory is None or not is_indexed(memory):
                    unwanted.append(number)
                    continue
                text = embedded_text(memory)
                digest = text_hash(text)
                known = None if recomputes else snapshot.vectors(embedder.space, digest, embedder.dimensions)
                (tokens,) = snapshot.token_rows(late.space, [digest], late.stored_width) if late else (None,)
                scope = Scope(memory.user_id, memory.namespace)
                has_tokens = late is None or tokens is not None
                wanted.append(
                    IndexRow(number, scope, text, memory.content, memory.modified_at, digest, known, has_tokens)
                )
        return wanted, unwanted

    def compute(self, rows: Sequence[IndexRow], embedder: Embedder, *, recomputes: bool) -> dict[bytes, TextEmbedding]:
        """The vectors by text hash of the rows that have none, which are in the database from here on. Vectors that
        are not finite are left out."""
        missing = {row.text_hash: row.text for row in rows if row.known is None}
        self.handoff.discard(embedder.space, [row.text_hash for row in rows if row.known is not None])
        fresh = {} if recomputes else self._collect_handoff(embedder, list(missing))
        return fresh | self._embed(embedder, {key: text for key, text in missing.items() if key not in fresh})

    def require_all(self, rows: Sequence[IndexRow], fresh: Mapping[bytes, TextEmbedding]) -> None:
        """Raise MissingVectorError where the model is to be asked again for a text."""
        missing = {row.text_hash for row in rows if row.known is None}
        if any(map(self.failed.is_retried, missing - fresh.keys())):
            raise MissingVectorError("the model gave no vector for a text, and is asked again")

    def _collect_handoff(self, embedder: Embedder, digests: Sequence[bytes]) -> dict[bytes, TextEmbedding]:
        """The vectors that the ingestion pipeline computed for these texts, which are stored in the database."""
        futures = {digest: self.handoff.find(embedder.space, digest) for digest in digests}
        taken: dict[bytes, TextEmbedding] = {}
        for digest, future in futures.items():
            if future is not None:
                with contextlib.suppress(TimeoutError, CancelledError):
                    rows = future.result(HANDOFF_WAIT_SECONDS)
                    if rows is not None:
                        taken[digest] = TextEmbedding(rows, self.handoff.tokens(embedder.space, digest))
        self._keep(embedder, taken)
        self.handoff.discard(embedder.space, [digest for digest, future in futures.items() if future is not None])
        return taken

    def _embed(self, embedder: Embedder, texts: Mapping[bytes, str]) -> dict[bytes, TextEmbedding]:
        fresh: dict[bytes, TextEmbedding] = {}
        for some in batched(texts, self.batch):
            began = time.monotonic()
            vectors, tokens = self._embedding.encode_both(embedder, [texts[digest] for digest in some])
            self.throughput.add(began, len(some))
            found: dict[bytes, TextEmbedding] = {}
            for digest, row, codes in zip(some, vectors, tokens, strict=True):
                halves = row.astype(np.float16)
                if np.isfinite(halves).all():
                    found[digest] = TextEmbedding(halves, codes)
                else:
                    self.failed.add(digest)
            self._keep(embedder, found)
            fresh |= found
        return fresh

    def _keep(self, embedder: Embedder, found: Mapping[bytes, TextEmbedding]) -> None:
        late = embedder.late
        for some in batched(found.items(), self.batch):
            vectors = []
            for digest, (rows, tokens) in some:
                vectors.append(TextVectors(embedder.space, digest, rows))
                if late is not None and tokens is not None:
                    vectors.append(TextVectors(late.space, digest, late.pack(tokens)))
            self._store.put_vectors(vectors).result()
