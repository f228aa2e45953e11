"""Search for what is left of erased texts in the bytes of files. SPEC 3.7

A text can stand in a file as it is, normalised (NFC, case-folded, white space as one space), or escaped as in JSON;
ASCII letters are compared without regard to case. The scan looks for whole texts, for runs of five words and for longer
words. A run or word that no remaining memory contains (`ResiduePatterns.without`) can only be a residue.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.text.languages import WORD
from mnemo_store.record_texts import normalized_text
from mnemo_store.records import Memory

RUN_WORDS = 5  # [SPEC 3.7]
WORD_CHARS_MIN = 6  # of a word searched by itself: shorter ones occur within other words, and in noise
NEEDLE_BYTES_MIN = 6  # of anything that is looked for
WINDOW_BYTES = 8  # by which a form is found at first, or by its first 6
BLOCK_BYTES = 1 << 16  # searched at once: its intermediate results fit the processor's cache
TABLE_BITS = 22

PatternKind = Literal["text", "short", "run", "word"]  # short: a whole text of less words than a run

_EDGES = " \t\n\"'`´‘’“”„«»()[]{}<>.,;:!?*_~#"  # around words, not of them
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # multiplicative hashing by the golden ratio [Knuth 6.4]
_OTHER_FACTOR = np.uint64(0xC2B2AE3D27D4EB4F)  # the same, and another
_SHIFT = np.uint64(64 - TABLE_BITS)
_EVERY_BIT = np.uint64(2**64 - 1)
_SHORT_MASK = np.uint64((1 << (8 * NEEDLE_BYTES_MIN)) - 1)


class ResiduePatterns:
    """Things to look for, each named by its normalised text, in all the forms in which it may stand in a file."""

    def __init__(self) -> None:
        self.kinds: dict[str, PatternKind] = {}
        self.forms: dict[bytes, str] = {}  # → its name

    def __len__(self) -> int:
        return len(self.kinds)

    def add_text(self, text: str) -> None:
        """The whole of it, every run of five words, every longer word."""
        self.add_whole(text)
        self.add_parts(text)

    def add_whole(self, text: str) -> None:
        """The whole of it alone."""
        self._add("text" if len(WORD.findall(text)) >= RUN_WORDS else "short", strip_edges(text))

    def add_parts(self, text: str) -> None:
        """Its runs and words, without the whole."""
        spans = [found.span() for found in WORD.finditer(text)]
        for first, last in zip(spans, spans[RUN_WORDS - 1 :], strict=False):
            self._add("run", text[first[0] : last[1]])
        for start, end in spans:
            if end - start >= WORD_CHARS_MIN:
                self._add("word", text[start:end])
        for part in text.split():
            if len(word := strip_edges(part)) >= WORD_CHARS_MIN:
                self._add("word", word)

    def without(self, names: Collection[str]) -> "ResiduePatterns":
        """The patterns except those of these names."""
        left = ResiduePatterns()
        left.kinds = {name: kind for name, kind in self.kinds.items() if name not in names}
        left.forms = {form: name for form, name in self.forms.items() if name not in names}
        return left

    def only(self, names: Collection[str]) -> "ResiduePatterns":
        return self.without(self.kinds.keys() - set(names))

    def _add(self, kind: PatternKind, text: str) -> None:
        name = normalized_text(text)
        forms = [form for form in _forms(text, name) if len(form) >= NEEDLE_BYTES_MIN]
        if forms:
            if self.kinds.get(name) not in ("text", "short"):
                self.kinds[name] = kind
            for form in forms:
                self.forms.setdefault(form, name)


def strip_edges(text: str) -> str:
    """The text without the marks and the white space around it, which differ from place to place."""
    return text.strip(_EDGES) or text


def _forms(text: str, name: str) -> Iterator[bytes]:
    """The forms in which a text may stand in a file, ASCII letters in lower case."""
    for spelling in {text, name}:
        yield spelling.encode().lower()
        if not spelling.isascii() or not spelling.isprintable() or '"' in spelling or "\\" in spelling:
            for is_ascii in (True, False):
                yield json.dumps(spelling, ensure_ascii=is_ascii)[1:-1].encode().lower()


class _Group(NamedTuple):
    """Forms that are found by their first bytes, those under `mask`.

    A table of hashes passes over most of a file. Where a form has 16 bytes, its second 8 are compared too before it is
    looked at whole: many begin alike.
    """

    mask: np.uint64
    table: NDArray[np.bool_]  # by the hash of a head
    heads: NDArray[np.uint64]  # of forms of less than 16 bytes, ascending
    pairs: NDArray[np.uint64]  # hashes of the first two windows of the others, ascending
    lengths: Mapping[int, set[int]]  # of the forms, by head or by pair

    def candidates(self, windows: NDArray[np.uint64], start: int) -> Iterator[tuple[int, int]]:
        """Places of the block where a form may stand, and the key of its length."""
        heads = windows[start : start + BLOCK_BYTES] & self.mask
        heads = heads[: max(0, len(windows) - WINDOW_BYTES - start)]
        places = np.flatnonzero(self.table[(heads * _FACTOR) >> _SHIFT])
        if len(places):
            heads = heads[places]
            pairs = _pair(heads, windows[start + WINDOW_BYTES + places])
            for known, keys in ((self.heads, heads), (self.pairs, pairs)):
                if len(known):
                    nearest = np.minimum(np.searchsorted(known, keys), len(known) - 1)
                    hits = known[nearest] == keys
                    yield from zip((places[hits] + start).tolist(), keys[hits].tolist(), strict=True)


class ResidueFinder:
    """Multi-pattern search over bytes, at tens of MB a second for any number of patterns."""

    def __init__(self, patterns: ResiduePatterns) -> None:
        self._names = patterns.forms
        self.overlap = max(map(len, patterns.forms), default=1) - 1  # bytes that two pieces of a file must share
        short = [form for form in patterns.forms if len(form) < WINDOW_BYTES]
        long = [form for form in patterns.forms if len(form) >= WINDOW_BYTES]
        both = ((short, _SHORT_MASK), (long, _EVERY_BIT))
        self._groups = [_group(forms, mask) for forms, mask in both if forms]

    def find(self, data: bytes) -> set[str]:
        """The names of what occurs in the data."""
        found: set[str] = set()
        if not self._groups or not data.strip(b"\0"):
            return found
        lowered = data.lower()
        # Overlapping windows of 8 bytes, one for each byte and for as many behind the end.
        windows = np.ndarray((len(data) + WINDOW_BYTES,), "<u8", lowered + bytes(2 * WINDOW_BYTES), strides=(1,))
        for start in range(0, len(data), BLOCK_BYTES):
            for group in self._groups:
                for place, key in group.candidates(windows, start):
                    for length in group.lengths[key]:
                        name = self._names.get(lowered[place : place + length])
                        if name is not None:
                            found.add(name)
        return found


def _group(forms: Iterable[bytes], mask: np.uint64) -> _Group:
    lengths: dict[int, set[int]] = {}
    heads, only_heads, pairs = set[int](), set[int](), set[int]()
    for form in forms:
        head = int.from_bytes(form[:WINDOW_BYTES], "little") & int(mask)
        heads.add(head)
        if len(form) < 2 * WINDOW_BYTES:
            only_heads.add(head)
            lengths.setdefault(head, set()).add(len(form))
        else:
            second = int.from_bytes(form[WINDOW_BYTES : 2 * WINDOW_BYTES], "little")
            pair = int(_pair(np.array([head], np.uint64), np.array([second], np.uint64))[0])
            pairs.add(pair)
            lengths.setdefault(pair, set()).add(len(form))
    table = np.zeros(1 << TABLE_BITS, np.bool_)
    table[(_ascending(heads) * _FACTOR) >> _SHIFT] = True
    return _Group(mask, table, _ascending(only_heads), _ascending(pairs), lengths)


def _pair(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return (first * _FACTOR) ^ (second * _OTHER_FACTOR)


def _ascending(values: Iterable[int]) -> NDArray[np.uint64]:
    return np.array(sorted(values), np.uint64)


def texts_of(memory: Memory) -> Iterator[str]:
    """Every text that a record holds about a memory, its content first."""
    yield memory.content
    yield from (memory.speaker, memory.key, memory.session_id, memory.run_id, memory.agent_id)
    yield from memory.tags
    yield from memory.evidence
    if memory.note is not None:
        yield memory.note.title
        yield from memory.note.headings
    if memory.trace is not None:
        trace = memory.trace
        yield from (trace.action, trace.task_objective, trace.context, trace.outcome, trace.key_findings)
    if memory.turn is not None:
        yield memory.turn.summary


def whole_texts_of(memories: Iterable[Memory]) -> ResiduePatterns:
    """The content of these memories, each as a whole."""
    patterns = ResiduePatterns()
    for memory in memories:
        patterns.add_whole(memory.content)
    return patterns


def residue_patterns(memories: Iterable[Memory]) -> ResiduePatterns:
    """Patterns that identify these memories: each content, and the parts of every other text about them."""
    patterns = ResiduePatterns()
    for memory in memories:
        content, *others = texts_of(memory)
        patterns.add_text(content)
        for other in others:
            patterns.add_parts(other)
    return patterns
