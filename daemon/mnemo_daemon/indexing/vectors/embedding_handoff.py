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

HANDOFF_MAX = 20_000  # texts whose vectors the doors computed and the view has not taken yet: 15 MB at 384 dimensions
HANDOFF_TOKENS_MAX = 8_000  # of them with their token rows: 8 MB, or 32 where all texts are long

Rows = NDArray[np.float16]  # the vectors of one text, (windows, dimensions)


class TextEmbedding(NamedTuple):
    """The result of a run of the model for one text. `tokens` is None where it gives none, or none were handed over."""

    rows: Rows
    tokens: Codes | None


class EmbeddingHandoff:
    """Vectors on their way from a door to the view, by space and text: bounded, and lost with the process.

    What is being computed is there as well, as a future, so that the thread below does not compute it a second time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: OrderedDict[tuple[str, bytes], Future[Rows | None]] = OrderedDict()
        self._tokens: OrderedDict[tuple[str, bytes], Codes] = OrderedDict()
        self._since: dict[tuple[str, bytes], float] = {}  # monotonic: of each future, in the same order

    def __len__(self) -> int:
        return len(self._futures)

    def claim(self, space: str, digests: Sequence[bytes]) -> dict[bytes, "Future[Rows | None]"]:
        """A future for each of the texts that nobody computes or has computed: the caller settles every one of them,
        with the vectors, or with None where there are none."""
        taken: dict[bytes, Future[Rows | None]] = {}
        with self._lock:
            for digest in digests:
                if (space, digest) not in self._futures:
                    taken[digest] = self._futures[space, digest] = Future()
                    self._since[space, digest] = time.monotonic()
            while len(self._futures) > HANDOFF_MAX:
                self._since.pop(self._futures.popitem(last=False)[0], None)
        return taken

    def find(self, space: str, digest: bytes) -> "Future[Rows | None] | None":
        """The future of the vectors of a text that were computed, or are being computed."""
        with self._lock:
            return self._futures.get((space, digest))

    def add_tokens(self, space: str, digest: bytes, tokens: Codes | None) -> None:
        """The token rows of a text in whose vectors' space that is; before its future is settled."""
        if tokens is None:
            return
        with self._lock:
            self._tokens[space, digest] = tokens
            while len(self._tokens) > HANDOFF_TOKENS_MAX:
                self._tokens.popitem(last=False)

    def tokens(self, space: str, digest: bytes) -> Codes | None:
        with self._lock:
            return self._tokens.get((space, digest))

    def discard(self, space: str, digests: Sequence[bytes]) -> None:
        """They are kept elsewhere, or were not to be had."""
        with self._lock:
            self._discard([(space, digest) for digest in digests])

    def discard_older(self, seconds: float) -> None:
        """Forgets what was computed longer ago than that: called when nothing waits for a vector, so that it belongs to
        texts that were replaced before they got into the view, or were never kept."""
        until = time.monotonic() - seconds
        with self._lock:
            old = itertools.takewhile(lambda key: self._since[key] < until, self._since)
            self._discard([key for key in old if self._futures[key].done()])

    def _discard(self, keys: Sequence[tuple[str, bytes]]) -> None:
        for key in keys:
            self._futures.pop(key, None)
            self._tokens.pop(key, None)
            self._since.pop(key, None)

    def clear(self) -> None:
        """Nothing is remembered of any text."""
        with self._lock:
            self._futures.clear()
            self._tokens.clear()
            self._since.clear()
