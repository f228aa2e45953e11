"""Vectors of texts: those that the database has, those that the ingestion pipeline computed, else computed here."""

import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from typing import NamedTuple

import numpy as np

from mnemo_daemon.indexing.index import is_indexed
from mnemo_daemon.indexing.vectors.centroids import Scope
from mnemo_daemon.indexing.vectors.embedding_handoff import EmbeddingHandoff, Rows, TextEmbedding
from mnemo_daemon.indexing.vectors.throughput import Throughput
from mnemo_daemon.models.embedders.embedder import Embedder
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_store.batches import batched
from mnemo_store.records import embedded_text, text_hash
from mnemo_store.store import Store, TextVectors

BATCH = 64  # texts embedded and committed together: a second's work on a laptop
HANDOFF_WAIT_SECONDS = 8.0  # for a vector that the ingestion pipeline is computing; after that it is computed here
ATTEMPTS = 10  # a second apart, to get a vector for a text from a model that gives NaN; then it is passed over
FAILED_AGAIN_SECONDS = 600.0  # after which what was passed over is tried again


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
                (tokens,) = snapshot.token_rows(late.space, [digest], late.dimensions) if late else (None,)
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
                    vectors.append(TextVectors(late.space, digest, tokens))
            self._store.put_vectors(vectors).result()
