"""Permanent erasure: which memories are erased together, and how the memories that stay are rewritten. SPEC 3.7

A derived memory repeats what its sources say. Erasing a memory therefore erases everything derived from it alone, and
so on down the chain. It also erases what was derived from other sources too, because nothing here can derive it again:
those other sources, where they were hidden in its favour, become visible again, as do the sources of an erased summary.
What an erased memory itself had superseded stays hidden: it was superseded for a reason.

Afterwards the bytes of files are searched for what is left. A text can stand in a file as it is, normalised (NFC,
case-folded, white space as one space), or escaped as in JSON; ASCII letters are compared without regard to case. The
scan looks for whole texts, for runs of five words and for longer words. A run or word that no remaining memory contains
(`ResiduePatterns.without`) can only be a residue.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_core.documents.note_diff import manifest_for_texts
from mnemo_core.ingest.mutations import new_version
from mnemo_core.text.languages import WORD
from mnemo_store.record_texts import normalized_text, skip_hash
from mnemo_store.records import Change, DropMemory, ErasedText, Memory, NoteFile, PutErasedText, PutSkip, Skip, State


class MemoryReferences(NamedTuple):
    """The ids that a memory refers to, and whether another memory hides it."""

    id: str
    state: State
    derived_from: tuple[str, ...]
    superseded_by: str
    evidence: tuple[str, ...]
    compresses: bool  # its sources are hidden while it exists


class ErasurePlan(NamedTuple):
    """Result of planning an erasure, by ids. `referrers` are the memories that stay and refer to an erased one."""

    asked: tuple[str, ...]
    derived: tuple[str, ...]  # erased with them
    rederive: Mapping[str, tuple[str, ...]]  # those of `derived` that had other sources too, which stay
    unhidden: frozenset[str]  # ids that become visible again
    referrers: tuple[str, ...]

    @property
    def erased(self) -> tuple[str, ...]:
        return (*self.asked, *self.derived)


def references_of(memory: Memory) -> MemoryReferences | None:
    """Return the references of a memory, None where it has none."""
    is_hidden = memory.state in ("superseded", "compressed")
    if not (memory.derived_from or memory.superseded_by or memory.evidence or is_hidden):
        return None
    return MemoryReferences(
        memory.id, memory.state, memory.derived_from, memory.superseded_by, memory.evidence, memory.compression_source
    )


def plan_erasure(
    asked: Collection[str], references: Iterable[MemoryReferences], derived: Collection[str] = ()
) -> ErasurePlan:
    """Plan the erasure of these memories and of what was derived from them. `derived`: ids that an earlier, interrupted
    plan already found; some may be erased already."""
    known = {reference.id: reference for reference in references}
    made_of: defaultdict[str, list[str]] = defaultdict(list)
    for reference in known.values():
        for source in reference.derived_from:
            made_of[source].append(reference.id)
    going = dict.fromkeys((*asked, *derived))
    waiting = list(going)
    while waiting:
        for memory_id in made_of[waiting.pop()]:
            if memory_id not in going:
                going[memory_id] = None
                waiting.append(memory_id)
    return _plan(tuple(asked), going, known)


def plan_without_derived(asked: Collection[str], references: Iterable[MemoryReferences]) -> ErasurePlan:
    """Plan the erasure of these memories alone, as when the trash is emptied. The sources that only an erased summary
    had compressed become active again."""
    return _plan(tuple(asked), dict.fromkeys(asked), {reference.id: reference for reference in references})


def _plan(asked: tuple[str, ...], going: Mapping[str, None], known: Mapping[str, MemoryReferences]) -> ErasurePlan:
    named = frozenset(asked)
    derived = tuple(memory_id for memory_id in going if memory_id not in named)
    rederive = {}
    for memory_id in derived:
        sources = known[memory_id].derived_from if memory_id in known else ()
        if stay := tuple(source for source in sources if source not in going):
            rederive[memory_id] = stay
    revived = _revived(known, going, frozenset(derived))
    referrers = [each.id for each in known.values() if each.id not in going and _names_any(each, going)]
    return ErasurePlan(asked, derived, rederive, revived, tuple(dict.fromkeys((*referrers, *sorted(revived)))))


def _revived(
    known: Mapping[str, MemoryReferences], going: Collection[str], with_them: Collection[str]
) -> frozenset[str]:
    """The ids that stay and were hidden in favour of an erased memory, or compressed by an erased summary. A memory
    that several entries of profiles repeat names one of them, and becomes visible with the end of that one."""
    superseded = {
        reference.id
        for reference in known.values()
        if reference.state == "superseded" and reference.superseded_by in with_them
    }
    still = {
        source
        for reference in known.values()
        if reference.compresses and reference.id not in going
        for source in reference.derived_from
    }
    sources = {
        source
        for memory_id in going
        if memory_id in known and (memory_id in with_them or known[memory_id].compresses)
        for source in known[memory_id].derived_from
    }
    compressed = {one for one in sources - still if one in known and known[one].state == "compressed"}
    compressed |= {each.id for each in known.values() if each.state == "compressed" and each.superseded_by in going}
    return frozenset((superseded | compressed) - set(going))


def _names_any(reference: MemoryReferences, ids: Collection[str]) -> bool:
    return any(name in ids for name in (*reference.derived_from, reference.superseded_by, *reference.evidence))


def without_references(memory: Memory, planned: ErasurePlan, dropped: Collection[str], now: int) -> Memory | None:
    """The next version of a memory that stays, which names nothing that is dropped; None where nothing changes."""
    fields = {
        "derived_from": tuple(each for each in memory.derived_from if each not in dropped),
        "evidence": tuple(each for each in memory.evidence if each not in dropped),
        "superseded_by": "" if memory.superseded_by in dropped else memory.superseded_by,
        "state": memory.state,
    }
    if memory.id in planned.unhidden and memory.state in ("superseded", "compressed"):
        fields["state"] = "active"
    if all(getattr(memory, name) == value for name, value in fields.items()):
        return None
    return new_version(memory, now, fields)


def erase_memory(versions: Sequence[Memory], salt: str, now: int, *, has_note: bool) -> list[Change]:
    """Changes that erase a memory with all its versions. A salted hash of each of its texts is kept, so that the same
    text is not imported again; a chunk's note keeps one too, as on deletion."""
    changes: list[Change] = []
    hashes = dict.fromkeys(skip_hash(salt, memory.content) for memory in versions)
    changes += [PutErasedText(data=ErasedText(hash=digest, at=now)) for digest in hashes]
    if has_note:
        changes += [PutSkip(data=Skip(file=versions[-1].managed, hash=digest)) for digest in hashes]
    changes.append(DropMemory(id=versions[-1].id))
    return changes


def without_chunks(note: NoteFile, dropped: Collection[str], others: Iterable[str]) -> NoteFile:
    """The manifest without these memories, and without what only they had from the file. `others` are the texts of the
    chunks that stay."""
    chunks = tuple(chunk for chunk in note.chunks if chunk.memory not in dropped)
    return manifest_for_texts(msgspec.structs.replace(note, chunks=chunks), others)


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
    """Forms that are found by their first bytes, those under `mask`. A table of hashes passes over most of a file.
    Where a form has 16 bytes, its second 8 are compared too before it is looked at whole: many begin alike."""

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
