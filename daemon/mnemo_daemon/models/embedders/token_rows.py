"""The tokens of a text that late interaction keeps, and their form. SPEC 7.3, adr/0006-late-interaction.md

What the last layer has of each token, projected to fewer dimensions and of unit length again. The projection of a model
comes with the program, fitted by tests/bench/fit_projection.py; a model without one has no late interaction.
"""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_daemon.models.catalogue import ModelManifest
from mnemo_store.indexes.tokenizer import ENGLISH_STOPS

if TYPE_CHECKING:
    import tokenizers

Floats = NDArray[np.float32]

VERSION = 1  # grows when the same text would get other rows
TOKENS_MAX = 64  # of a text, the first ones
PROJECTIONS = {  # by the sha256 of the weights they were fitted on
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db": "all-MiniLM-L6-v2.npy",
}

_APOSTROPHES = ("'", "\u2019")
_JOINING = lazy_pattern(r"(?<=[^\W_])['\u2019](?=[^\W_])")
_CONTRACTED = lazy_pattern(r"['\u2019](?:s|ll|re|ve|d|m)\Z", re.IGNORECASE)


class LateForm(NamedTuple):
    """The form in which a model's token rows are kept."""

    space: str  # of the same kind as that of vectors: rows of different spaces must never be compared
    dimensions: int
    tokens_max: int


class Projection:
    """From the width of a model to that of its token rows."""

    def __init__(self, matrix: NDArray[np.float16]) -> None:
        """matrix: (width of the model, dimensions)."""
        self.dimensions = matrix.shape[1]
        self._matrix = matrix.astype(np.float32)
        self._digest = hashlib.sha256(matrix.astype("<f2").tobytes()).hexdigest()

    def form(self, space: str) -> LateForm:
        """Of a model whose vectors are of that space."""
        parts = (space, self._digest, str(self.dimensions), str(TOKENS_MAX), str(VERSION))
        return LateForm(hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16], self.dimensions, TOKENS_MAX)

    def rows(self, hidden: Floats) -> Floats:
        """(n, dimensions), of unit length, of (n, width)."""
        rows = hidden @ self._matrix
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-12))
        return rows


class TokenWord(NamedTuple):
    """A word of a text that is kept, and which of the text's tokens are its own."""

    start: int  # code points
    end: int
    tokens: tuple[int, ...]


def find_projection(manifest: ModelManifest) -> Projection | None:
    """The one that comes with the program, for a model whose graph we built: other ONNX files give vectors alone."""
    name = PROJECTIONS.get(manifest.weights_sha256) if manifest.form != "fastembed" else None
    return read_projection((resources.files("mnemo_daemon") / "projections" / name).read_bytes()) if name else None


def read_projection(file: bytes) -> Projection:
    return Projection(np.load(io.BytesIO(file), allow_pickle=False))


def words_of(text: str, found: "tokenizers.Encoding") -> Iterator[TokenWord]:
    """The words that are kept of a text that was cut into tokens: not stop words, not what has no letter or digit.

    What an apostrophe joins is one word, of which a `'s` at the end is not kept. Chinese characters are words.
    """
    offsets = found.offsets
    for tokens in _by_word(text, found.word_ids, offsets):
        start, end = offsets[tokens[0]][0], offsets[tokens[-1]][1]
        written = text[start:end]
        if not _is_kept(written):
            continue
        if written.isalnum():
            yield TokenWord(start, end, tuple(tokens))
            continue
        tail = _CONTRACTED.search(written)
        own_end = start + tail.start() if tail else end
        if tail is None or _is_kept(text[start:own_end]):
            own = (token for token in tokens if offsets[token][0] < own_end)
            yield TokenWord(
                start, end, tuple(token for token in own if text[slice(*offsets[token])] not in _APOSTROPHES)
            )


def _by_word(text: str, word_ids: Iterable[int | None], offsets: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The tokens of each word; for the tokenizer an apostrophe ends one."""
    joining = {match.start() for match in _JOINING.finditer(text)}
    words: list[list[int]] = []
    previous: int | None = None
    for token, (word, (start, _)) in enumerate(zip(word_ids, offsets, strict=True)):
        if word != previous and start not in joining and start - 1 not in joining:
            words.append([])
        words[-1].append(token)
        previous = word
    return words


def _is_kept(written: str) -> bool:
    plain = written.lower()
    for apostrophe in _APOSTROPHES:
        plain = plain.replace(apostrophe, "")
    return plain not in ENGLISH_STOPS and (plain.isalnum() or any(map(str.isalnum, plain)))
