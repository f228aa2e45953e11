"""Vectors on their way from the ingestion pipeline to the vector index, so that no text is embedded twice."""

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking.late_interaction import Codes

HANDOFF_MAX = 20_000  # texts with vectors that the view has not taken yet
HANDOFF_BYTES_MAX = 24 << 20  # of vectors and token rows: 8,000 usual texts at 384 dimensions, 2,000 of 8192 characters

Rows = NDArray[np.float16]  # the vectors of one text, (windows, dimensions)


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
