"""Token rows of texts: those that were compared recently, and those that are still to be computed.

The rows of a text in one space never change, so nothing in the cache can be out of date. `clear` keeps erased texts
from staying in memory.

Texts that came while token rows were switched off have vectors alone. Each costs one run of the model, so it is done
after everything else, some texts at a time, from the first memory to the last. The position is not saved: a start looks
at all memories again, at some microseconds each.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_daemon.indexing.index import INDEXED_CODES, IndexFault, IndexProgress, is_indexed
from mnemo_daemon.indexing.index_checks import token_faults
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.models.embedders.embedder import Embedder
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.models.embedders.token_rows import LateForm
from mnemo_store.maintenance.check import TableSource, YieldToQueries
from mnemo_store.record_texts import embedded_text, text_hash
from mnemo_store.store import Store, TextVectors

TOKENS_MAX = 1 << 17  # in the cache: 8 MB at 64 dimensions, some five thousand turns

Rows = NDArray[np.int8]  # (tokens, dimensions)
Counts = NDArray[np.int64]  # (n,) of each text, -1 where none are kept
Read = Callable[[Sequence[bytes]], tuple[Rows, Counts]]

LOOKED_AT = 1_000  # memories at once: some milliseconds
TOKEN_BACKFILL_SECONDS = 10.0  # from one slice to the next while something is written all the time
TOGETHER = 16  # texts: the vectors of a new memory wait no longer than for these


class TokenCache:
    """The rows of one space at a time, for any thread."""

    def __init__(self, tokens_max: int = TOKENS_MAX) -> None:
        self._tokens_max = tokens_max
        self._lock = threading.Lock()
        self._space = ""
        self._places: dict[bytes, int] = {}
        self._starts, self._counts = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._rows: Rows = np.empty((0, 0), np.int8)
        self._used = 0  # of the rows
        self._empty("", 0)

    def clear(self) -> None:
        with self._lock:
            self._empty("", 0)

    def rows_of(self, space: str, dimensions: int, hashes: Sequence[bytes], read: Read) -> tuple[Rows, Counts]:
        """The rows of all these texts, one after the other, and the number that each has; `read` is called for those
        that are not in the cache."""
        with self._lock:
            if space != self._space:
                self._empty(space, dimensions)
            places = self._places_of(hashes)
            missing = list(dict.fromkeys(each for each, place in zip(hashes, places, strict=True) if place < 0))
            if missing and not self._add(missing, *read(missing)):
                self._empty(space, dimensions)  # full: starts again with what is needed now
                missing = list(dict.fromkeys(hashes))
                if not self._add(missing, *read(missing)):
                    return read(hashes)
            if missing:
                places = self._places_of(hashes)
            counts = self._counts[places]  # -1 leads to the last one, which is of texts without rows
            # starts[0], starts[0] + 1, … counts[0] of them, then those from starts[1] on, and so forth.
            starts, lengths = self._starts[places], np.maximum(counts, 0)
            ends = np.cumsum(lengths)
            total = int(ends[-1]) if len(ends) else 0
            found: NDArray[np.int64] = np.repeat(starts - ends + lengths, lengths) + np.arange(total)
            return self._rows.take(found, axis=0), counts

    def _places_of(self, hashes: Sequence[bytes]) -> list[int]:
        known = self._places
        return [known.get(each, -1) for each in hashes]

    def _add(self, hashes: Sequence[bytes], rows: Rows, counts: Counts) -> bool:
        """False where there is no room. A text without rows is not cached: it gets them later."""
        end = self._used + len(rows)
        if max(end, len(self._places) + len(hashes)) > self._tokens_max:  # a text without a token counts as one
            return False
        if end > len(self._rows):
            grown = np.empty((min(self._tokens_max, 2 * end), self._rows.shape[1]), np.int8)
            grown[: self._used] = self._rows[: self._used]
            self._rows = grown
        self._rows[self._used : end] = rows
        there = np.flatnonzero(counts >= 0)
        starts = self._used + np.cumsum(np.maximum(counts, 0)) - counts
        first = len(self._counts) - 1
        self._places.update((hashes[place], first + at) for at, place in enumerate(there.tolist()))
        self._counts = np.concatenate([self._counts[:-1], counts[there], self._counts[-1:]])
        self._starts = np.concatenate([self._starts[:-1], starts[there], self._starts[-1:]])
        self._used = end
        return True

    def _empty(self, space: str, dimensions: int) -> None:
        self._space, self._places = space, {}
        self._starts, self._counts = np.zeros(1, np.int64), np.full(1, -1, np.int64)
        self._rows, self._used = np.empty((0, dimensions), np.int8), 0


class TokenBackfill:
    """Computes missing token rows in slices on one thread; another thread may have memories looked at again."""

    def __init__(self, store: Store, views: Views, embedding: EmbeddingService) -> None:
        self._store = store
        self._views = views
        self._embedding = embedding
        self._form: LateForm | None = None
        self._next = 0  # number of the first memory that has not been looked at
        self.applied_seq = 0  # of the vectors, which come before the token rows
        self._again = 0  # the lowest number for which `revisit` was called during a slice
        self._lock = threading.Lock()

    def revisit(self, number: int = 0) -> None:
        """Have the memory of that row id, and those after it, looked at again."""
        with self._lock:
            self._next = min(self._next, number)
            self._again = min(self._again, number)

    def has_work(self, embedder: Embedder) -> bool:
        """Return whether a stretch is left to be looked at."""
        if self._store.degraded:
            return self._next > 0  # all is to be looked at again
        if embedder.late is None:
            return False
        return embedder.late != self._form or self._next < self._views.attributes.size

    def run_slice(self, embedder: Embedder, seq: int) -> bool:
        """Fill the next stretch; return whether there is more. Raises what the model and the store raise.

        seq: the last change whose memories have their vectors.
        """
        self.applied_seq = seq
        if embedder.late != self._form:
            self._form, self._next = embedder.late, 0
        if self._store.degraded:  # the rows in the database cannot be read, and some may be lost when it is back
            self._next = 0
            return False
        size = self._views.attributes.size
        with self._lock:
            start, self._again = self._next, size
        if self._form is None or start >= size:
            return False
        end = min(size, start + LOOKED_AT)
        numbers = start + np.flatnonzero(self._eligible()[start:end])
        texts, last = self._without_rows(numbers, embedder)
        if texts:
            _, codes = self._embedding.encode_both(embedder, list(texts.values()))
            found = zip(texts, codes, strict=True)
            pack = self._form.pack
            rows = [TextVectors(self._form.space, digest, pack(each)) for digest, each in found if each is not None]
            self._store.put_vectors(rows).result()
        with self._lock:
            self._next = min(end if last is None else last + 1, self._again)
        return self.has_work(embedder)

    def progress(self) -> IndexProgress | None:
        """None where the model in use has no late interaction."""
        if self._form is None:
            return None
        eligible = self._eligible()
        total, items = int(np.count_nonzero(eligible)), int(np.count_nonzero(eligible[: self._next]))
        share = items / total if total else 1.0
        return IndexProgress("ready" if share >= 1.0 else "building", self.applied_seq, items, share)

    def verify(self, source: TableSource, yield_to_queries: YieldToQueries) -> Iterator[IndexFault]:
        """See `BackgroundIndex`."""
        return iter(()) if self._form is None else token_faults(self._form, source, self.applied_seq, yield_to_queries)

    def _eligible(self) -> NDArray[np.bool_]:
        return np.isin(self._views.attributes.column("state"), INDEXED_CODES)

    def _without_rows(
        self, numbers: NDArray[np.integer[Any]], embedder: Embedder
    ) -> tuple[dict[bytes, str], int | None]:
        """The texts of the first of these memories that have vectors and no token rows, and the number of the last one
        looked at; None when that is all of them. A text that still waits for its vectors gets both from one run."""
        digests = self._views.attributes.text_hashes(numbers)
        texts: dict[bytes, str] = {}
        assert embedder.late is not None
        with self._store.snapshot() as snapshot:
            known = snapshot.token_rows(embedder.late.space, digests, embedder.late.stored_width)
            for number, rows in zip(numbers.tolist(), known, strict=True):
                memory_id = snapshot.id_of(number) if rows is None else None
                memory = snapshot.memory(memory_id) if memory_id else None
                if memory is None or not is_indexed(memory):
                    continue
                text = embedded_text(memory)
                digest = text_hash(text)
                if snapshot.vectors(embedder.space, digest, embedder.dimensions) is not None:
                    texts[digest] = text
                    if len(texts) >= TOGETHER:
                        return texts, number
        return texts, None
