"""The interface of all embedding models, and what they have in common (SPEC 2.3, 4.1)."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking.late_interaction import Codes
from mnemo_daemon.models.catalogue import ModelManifest
from mnemo_daemon.models.embedders.token_rows import LateForm

TEMPLATE_VERSION = 1  # of records.embedded_text: grows when that changes
LANGUAGES_VERSION = 1  # of the map of the multilingual encoder and of `is_foreign`: grows when one of them changes
STRIDE_SHARE = 0.75  # of tokens_max, from one window's first token to the next one's: 192 of 256 (SPEC 2.3)

Floats = NDArray[np.float32]
RunAll = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]  # `map`, or that of a pool of threads


class QueryTokens(NamedTuple):
    """A query for late interaction: its vector, and its tokens."""

    vector: Floats  # unit, (dimensions,)
    rows: Floats  # unit, (q, dimensions of the late form); none where the model has no late interaction
    words: tuple[str, ...]  # the whole word, as it is written, that each token belongs to
    spans: tuple[tuple[int, int], ...]  # where in the query each of these words stands


class Embedder(Protocol):
    """A loaded model. Safe to use from several threads."""

    name: str
    dimensions: int
    space: str  # vectors of different spaces must never be compared
    tokens_max: int  # of a window, the two special tokens included
    late: LateForm | None = None  # how its token rows are kept; None: it gives none
    form: str = ""  # int8, float32, fastembed or gguf

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        """The unit vectors of each text, (windows, dimensions): one, or several for a text over tokens_max."""
        ...

    def encode_query(self, text: str) -> Floats:
        """The unit vector of a query, (dimensions,); what goes beyond tokens_max does not count."""
        ...

    def encode_both(self, texts: Sequence[str], run_all: RunAll = map) -> tuple[list[Floats], list[Codes | None]]:
        """The vectors of `encode_batch`, and each text's token rows, (tokens, dimensions of the late form), from the
        same runs of the model; None for a text that has none."""
        return self.encode_batch(texts, run_all), [None] * len(texts)

    def encode_each(self, texts: Sequence[str], run_all: RunAll = map) -> Iterator[tuple[Floats, Codes | None]]:
        """The same text by text, in their order, the first while the rest is still computed."""
        yield from zip(*self.encode_both(texts, run_all), strict=True)

    def encode_query_tokens(self, text: str) -> QueryTokens:
        """The vector of `encode_query` and the query's tokens, from one run."""
        return QueryTokens(self.encode_query(text), np.empty((0, 0), np.float32), (), ())

    def token_starts(self, text: str) -> list[int]:
        """The place in the text at which each of its token rows begins (code points)."""
        return []

    def pieces(self, text: str) -> list[str]:
        """The parts of the text that have a vector each."""
        return [text]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, special ones not counted."""
        ...

    def close(self) -> None:
        """The model's memory is free once the last run that uses it has ended."""
        ...


def window_bounds(tokens: int, tokens_max: int, special_tokens: int) -> list[tuple[int, int]]:
    """The first token, and the one after the last, of each window of a text; around each, special tokens are put."""
    room = tokens_max - special_tokens
    stride = int(tokens_max * STRIDE_SHARE)
    further = -(-max(0, tokens - room) // stride)
    starts = (window * stride for window in range(1 + further))
    return [(start, min(start + room, tokens)) for start in starts]


def name_space(manifest: ModelManifest) -> str:
    """The name of the space in which this model's vectors can be compared. SPEC 2.3"""
    parts = [manifest.name, manifest.weights_sha256, str(TEMPLATE_VERSION), manifest.numerics]
    if manifest.beside is not None:
        parts += [manifest.beside.weights_sha256, manifest.beside.numerics, str(LANGUAGES_VERSION)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
