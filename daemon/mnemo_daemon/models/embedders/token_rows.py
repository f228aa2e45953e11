"""The tokens of a text that late interaction keeps, and their form. SPEC 7.3, adr/0006-late-interaction.md

What the last layer has of each token, projected to fewer dimensions and of unit length again, and stored as the numbers
of the nearest entries of a codebook, one for some dimensions each (product quantization, Jégou and others 2011).
Projection and codebook of a model come with the program, fitted by tests/bench/fit_projection.py; a model without a
projection has no late interaction.
"""

import functools
import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking import late_interaction
from mnemo_core.retrieval.ranking.late_interaction import Codes
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_daemon.models.catalogue import ModelManifest
from mnemo_store.backend import Snapshot
from mnemo_store.indexes.tokenizer import ENGLISH_STOPS

if TYPE_CHECKING:
    import tokenizers

Floats = NDArray[np.float32]

VERSION = 2  # grows when the same text would get other rows
TOKENS_MAX = 64  # of a text, the first ones
ENTRIES = 256  # of a part of the codebook: a byte each
PACKED_TOGETHER = 24  # rows: the products with all entries stay in the cache of a processor
PROJECTIONS = {  # their names, by the sha256 of the weights they were fitted on
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db": "all-MiniLM-L6-v2"
}

_APOSTROPHES = ("'", "\u2019")
_JOINING = lazy_pattern(r"(?<=[^\W_])['\u2019](?=[^\W_])")
_CONTRACTED = lazy_pattern(r"['\u2019](?:s|ll|re|ve|d|m)\Z", re.IGNORECASE)


class Codebook:
    """The entries that stand for some dimensions of a row each, by their number. The first dimensions of a projection
    say the most: of them, a part has two; of the others four."""

    def __init__(self, entries: Codes) -> None:
        """entries: (ENTRIES, dimensions), as `late_interaction.quantize` gives components; of each, the columns of a
        part belong to that part."""
        self.dimensions = entries.shape[1]
        self.parts = len(part_widths(self.dimensions))
        self.digest = hashlib.sha256(entries.tobytes()).hexdigest()
        widths = part_widths(self.dimensions)
        ends = np.cumsum(widths).tolist()
        self._places = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
        self._entries = [np.ascontiguousarray(entries[:, place]) for place in self._places]
        whole = [each.astype(np.float32) for each in self._entries]
        self._squares = [(each * each).sum(axis=1) for each in whole]
        # By width, the parts that are compared together: their numbers, their entries turned, and half their squares.
        self._groups: list[tuple[slice, Floats, Floats]] = []
        for width in dict.fromkeys(widths):
            parts = [part for part, each in enumerate(widths) if each == width]
            turned = np.ascontiguousarray([whole[part].T for part in parts])
            halves = np.array([self._squares[part] / 2 for part in parts])[:, None]
            self._groups.append((slice(parts[0], parts[-1] + 1), turned, halves))

    def pack(self, rows: Codes) -> Codes:
        """The number of the nearest entry for each part of each row: (n, parts)."""
        packed = np.empty((len(rows), self.parts), np.uint8)
        for start in range(0, len(rows), PACKED_TOGETHER):
            some = slice(start, start + PACKED_TOGETHER)
            for parts, turned, halves in self._groups:
                columns = slice(self._places[parts][0].start, self._places[parts][-1].stop)
                split = rows[some, columns].astype(np.float32).reshape(-1, *turned.shape[:2]).transpose(1, 0, 2)
                # Of |row - entry|², half, without what is the same for all entries: whole numbers, which float32 has.
                packed[some, parts] = (halves - split @ turned).argmin(axis=2).T
        return packed.view(np.int8)

    def unpack(self, packed: Codes) -> Codes:
        """The entries for these numbers as rows of unit length: (n, dimensions)."""
        numbers = packed.view(np.uint8)
        rows, squares = np.empty((len(packed), self.dimensions), np.float32), np.zeros(len(packed), np.float32)
        for part, place in enumerate(self._places):
            rows[:, place] = self._entries[part].take(numbers[:, part], axis=0)
            squares += self._squares[part].take(numbers[:, part])
        rows /= np.sqrt(np.maximum(squares, np.float32(1)))[:, None]
        return late_interaction.quantize(rows)


def part_widths(dimensions: int) -> list[int]:
    """The dimensions of each part of a row."""
    pairs = dimensions // 8
    return [2] * pairs + [4] * ((dimensions - 2 * pairs) // 4)


class LateForm(NamedTuple):
    """The form in which a model's token rows are kept."""

    space: str  # of the same kind as that of vectors: rows of different spaces must never be compared
    dimensions: int
    tokens_max: int
    codebook: Codebook | None = None  # None: rows are stored as they are

    @property
    def stored_width(self) -> int:
        """The bytes of a stored row."""
        return self.dimensions if self.codebook is None else self.codebook.parts

    def pack(self, rows: Codes) -> Codes:
        """Rows as they are stored."""
        return rows if self.codebook is None else self.codebook.pack(rows)

    def unpack(self, stored: Codes) -> Codes:
        """Rows as they are compared, from those that are stored."""
        return stored if self.codebook is None else self.codebook.unpack(stored)

    def read(self, snapshot: Snapshot, text_hashes: Sequence[bytes]) -> tuple[Codes, NDArray[np.int64]]:
        """The rows of all these texts, one after the other, and the number of rows of each, -1 without any."""
        stored, counts = snapshot.joined_token_rows(self.space, text_hashes, self.stored_width)
        return self.unpack(stored), counts


class Projection:
    """From the width of a model to that of its token rows."""

    def __init__(self, matrix: NDArray[np.float16], codebook: Codebook | None = None) -> None:
        """matrix: (width of the model, dimensions)."""
        self.dimensions = matrix.shape[1]
        self._matrix = matrix.astype(np.float32)
        self._codebook = codebook
        self._digest = hashlib.sha256(matrix.astype("<f2").tobytes()).hexdigest()

    def form(self, space: str) -> LateForm:
        """Of a model whose vectors are of that space."""
        codes = self._codebook.digest if self._codebook is not None else ""
        parts = (space, self._digest, str(self.dimensions), str(TOKENS_MAX), str(VERSION), codes)
        name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
        return LateForm(name, self.dimensions, TOKENS_MAX, self._codebook)

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
    return read_projection(name) if name else None


@functools.cache
def read_projection(name: str) -> Projection:
    """The projection of that name, and its codebook."""
    return Projection(_read(f"{name}.npy"), Codebook(_read(f"{name}.codebook.npy")))


def _read(file: str) -> NDArray[Any]:
    found: NDArray[Any] = np.load(
        io.BytesIO((resources.files("mnemo_daemon") / "projections" / file).read_bytes()), allow_pickle=False
    )
    return found


def words_of(text: str, found: "tokenizers.Encoding") -> Iterator[TokenWord]:
    """The words that are kept of a text that was cut into tokens: not stop words, not what has no letter or digit. What
    an apostrophe joins is one word, of which a `'s` at the end is not kept. Chinese characters are words."""
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
