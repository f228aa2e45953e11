"""The attribute store: the attributes that filters and rankers need, as arrays by memory number. SPEC 3.5, 7.2.

It is an index: rebuilt from the database when its file is missing or does not match. Ranking reads these arrays, so
that only the memories in an answer are ever decoded.

`before` and `after` are the numbers of a memory's neighbours: in its session, ordered by event_at and number, or, for a
chunk of a note, in its file. Each session and file is a doubly linked list, which put and drop maintain; -1 stands for
no neighbour. A trashed or superseded memory keeps its position, to have it when it comes back, so readers of neighbours
apply the filter themselves. A reader may meet a list while it changes; it then finds a number of the index, or -1.
"""

import bisect
import threading
from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_store.codec import id_key, id_text
from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch
from mnemo_store.indexes import index_file
from mnemo_store.record_texts import embedded_text, text_hash
from mnemo_store.records import (
    CATEGORIES,
    KINDS,
    LAYERS,
    OWN_TRUSTS,
    STATES,
    TIERS,
    TRUSTS,
    UNREQUESTED_SOURCES,
    Memory,
    Usage,
)

KIND = "columns-6"  # of the index file

NAMED = ("namespace", "user_id", "agent_id", "run_id", "session_id", "speaker", "source", "managed")
CODED = {"kind": KINDS, "category": CATEGORIES, "layer": LAYERS, "trust": TRUSTS, "state": STATES}

WORDS_MAX = 65_535  # a longer text counts as this long

NEVER_SINCE, NEVER = -(1 << 62), 1 << 62  # ms
_NO_STATE = 255  # of a number that has no memory
_NO_NEIGHBOUR = -1  # in `before` and `after`
_DTYPES: dict[str, Any] = {
    "id_high": np.uint64, "id_low": np.uint64,
    "text_high": np.uint64, "text_low": np.uint64,  # text_hash of the embedded text
    "state": np.uint8, "kind": np.uint8, "category": np.uint8, "layer": np.uint8, "trust": np.uint8,
    "pinned": np.uint8,
    "dated": np.uint8,  # 0 for a passage of a note whose event_at is only when its file was changed
    "tier": np.uint8,  # 0 for a memory that is no turn, else 1 + its place in TIERS
    "namespace": np.int32, "user_id": np.int32, "agent_id": np.int32, "run_id": np.int32, "session_id": np.int32,
    "speaker": np.int32, "source": np.int32, "managed": np.int32,
    "importance": np.float32, "decay_rate": np.float32,
    "created_at": np.int64, "modified_at": np.int64, "event_at": np.int64, "expires_at": np.int64,
    "strength": np.float32, "strength_epoch": np.int32, "last_accessed": np.int64,
    "access_count": np.int32, "repetition_count": np.int32, "tokens": np.int32,
    "before": np.int32, "after": np.int32,
    "shape": np.uint32, "words": np.uint16,  # features of the text, as given by the caller; its words by white space
    # Times that the text names, in minutes since the epoch, as given by the caller; 0 and 0: none. Of the event that
    # it describes, and of another one; of one up to which something lasts, its last minute, twice.
    "told_from": np.int32, "told_until": np.int32, "named_from": np.int32, "named_until": np.int32,
    "weekdays": np.uint8,  # those on which what the text describes takes place: a bit each, from Monday
}  # fmt: skip
# Values of a number without a memory; else 0.
_EMPTY = {"state": _NO_STATE, "before": _NO_NEIGHBOUR, "after": _NO_NEIGHBOUR}

MINUTE_MS = 60_000  # the unit of the times that texts name


class TextTimes(NamedTuple):
    """Times that a text names, in minutes since the epoch, each up to but not including its end; `weekdays`: a bit for
    each on which it says that something takes place, from Monday."""

    told_from: int = 0
    told_until: int = 0
    named_from: int = 0
    named_until: int = 0
    weekdays: int = 0


NO_TEXT_TIMES = TextTimes()

MASKS_KEPT = 8  # filters whose masks are cached until a row changes: clients repeat their filters

Arrays = Mapping[str, NDArray[Any]]


class MemoryFilter(NamedTuple):
    """A filter over memories; empty tuples and None filter nothing. SPEC 7.1

    Times are ms and bound event_at: since ≤ event_at < until. `tags`: all are required, each itself or one nested in
    it.
    """

    namespaces: tuple[str, ...] = ()
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    kinds: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    states: tuple[str, ...] = ("active", "archived")
    tags: tuple[str, ...] = ()
    without_tags: tuple[str, ...] = ()
    source: str | None = None
    speaker: str | None = None
    trust_min: str | None = None
    since: int | None = None
    until: int | None = None
    min_importance: float = 0.0
    min_importance_unasked: float = 0.0  # of memories of UNREQUESTED_SOURCES
    now: int = 0  # ms; memories that expired by then are left out


class _CachedMask(NamedTuple):
    """A mask that is valid from one expiry to the next."""

    mask: NDArray[np.bool_]
    since: int  # ms
    until: int
    speakers: list[frozenset[int]]  # the codes of its speakers, as the only item; empty until first used


class AttributeStore:
    """The arrays, with names as small integers. Safe for one writer and many readers.

    Readers on other threads get copies: a numpy function that reads an array twice could see two states of it.
    """

    def __init__(self, *, linked: bool = True) -> None:
        """Makes an empty store. Without `linked`, memories get no neighbours before `link_sessions`: for a rebuild."""
        self._lock = threading.Lock()
        self._linked = linked
        self._sessions: dict[int, array[int]] = {}  # numbers in order, of each session that changed since the start
        self._first: dict[int, int] = {}  # first number of each note file with several chunks, by its list
        self._size = 0
        self.has_unsaved_counts = False  # token counts, which are set without a change of the store
        self._arrays: dict[str, NDArray[Any]] = {name: np.zeros(0, dtype) for name, dtype in _DTYPES.items()}
        self._names: dict[str, list[str]] = {name: [""] for name in NAMED}
        self._codes: dict[str, dict[str, int]] = {name: {"": 0} for name in NAMED}
        self._speaker_words: dict[str, set[int]] = {}  # a word of a name → codes of the speakers with that word
        self._state_counts = [0] * len(STATES)
        self._tags: dict[str, set[int]] = {}
        self._tags_of: dict[int, tuple[str, ...]] = {}
        self._masks: dict[MemoryFilter, _CachedMask] = {}
        self._narrowed: tuple[NDArray[np.bool_], bytes, _CachedMask] | None = None  # the last `exclude`

    def says_the_same(self, number: int, memory: Memory) -> bool:
        """Return whether the row has all that indexes read from a text as this version of the memory has it: the text,
        its speaker and tags, and the times from which those that it names are counted."""
        if number >= self._size or self._arrays["state"][number] == _NO_STATE:
            return False
        digest = text_hash(embedded_text(memory))
        row = {
            "text_high": int.from_bytes(digest[:8], "big"), "text_low": int.from_bytes(digest[8:], "big"),
            "event_at": memory.event_at, "created_at": memory.created_at,
            "speaker": self.code("speaker", memory.speaker), "managed": self.code("managed", memory.managed),
        }  # fmt: skip
        is_same = all(self._arrays[name][number] == value for name, value in row.items())
        return is_same and self.tags_of(number) == tuple(dict.fromkeys(memory.tags))

    def put(
        self, number: int, memory: Memory, usage: Usage | None, shape: int = 0,
        times: TextTimes | None = NO_TEXT_TIMES,
    ) -> None:  # fmt: skip
        """Sets the row of a memory and links it into its session; usage None leaves its usage as it is, which in a new
        row is that of a memory never used. times None: what was read from its text, and its tokens, stay.

        A chunk of a note that is put for the first time has no neighbours before `link_file`.
        """
        key = id_key(memory.id)
        of_text: dict[str, Any] = {}
        if times is not None:
            digest = text_hash(embedded_text(memory))
            of_text = {
                "text_high": int.from_bytes(digest[:8], "big"), "text_low": int.from_bytes(digest[8:], "big"),
                "tokens": 0, "shape": shape, "words": min(len(memory.content.split()), WORDS_MAX), **times._asdict(),
            }  # fmt: skip
        with self._lock:
            self._masks.clear()
            self._grow(number + 1)
            place = self._place(number)
            row: dict[str, Any] = {
                "id_high": int.from_bytes(key[:8], "big"), "id_low": int.from_bytes(key[8:], "big"),
                "importance": memory.importance, "decay_rate": memory.decay_rate, "created_at": memory.created_at,
                "modified_at": memory.modified_at, "event_at": memory.event_at, "expires_at": memory.expires_at,
                **of_text,
            }  # fmt: skip
            for name, choices in CODED.items():
                row[name] = choices.index(getattr(memory, name))
            row["pinned"], row["dated"] = memory.pinned, memory.note is None or memory.note.dated
            row["tier"] = 0 if memory.turn is None else 1 + TIERS.index(memory.turn.tier)
            for name in NAMED:
                row[name] = self._code(name, getattr(memory, name))
            if usage is None and self._arrays["state"][number] == _NO_STATE:
                usage = Usage(id=memory.id, strength=memory.importance)
            self._count(number, row["state"])
            for name, value in row.items():
                self._arrays[name][number] = value
            self._set_tags(number, memory.tags)
            if usage is not None:
                self._set_usage(number, usage)
            if self._linked and self._place(number) != place:
                self._unlink(number, place)
                self._link(number)

    def link_file(self, file: str, numbers: Iterable[int]) -> None:
        """Links the chunks of a note file in this order; the file's other memories lose their neighbours.

        Ignores numbers that are not in the index, or of another file.
        """
        with self._lock:
            code = self._codes["managed"].get(file)
            if code is None:
                return
            before, after = self._arrays["before"], self._arrays["after"]
            known = {number: None for number in numbers if self._place(number) == (-code, 0)}
            number = self._first.pop(-code, _NO_NEIGHBOUR)
            while number != _NO_NEIGHBOUR:
                following = int(after[number])
                before[number] = after[number] = _NO_NEIGHBOUR
                number = following
            ordered = list(known)
            before[ordered[1:]], after[ordered[:-1]] = ordered[:-1], ordered[1:]
            if len(ordered) > 1:
                self._first[-code] = ordered[0]

    def first_chunks(self, files: Iterable[int]) -> NDArray[np.int32]:
        """The number of the first chunk of each note file, given by its code in `managed`; -1 for a file with one chunk
        or none."""
        with self._lock:
            return np.array([self._first.get(-code, _NO_NEIGHBOUR) for code in files], np.int32)

    def link_sessions(self) -> None:
        """Links every session, and makes `put` do so from now on."""
        with self._lock:
            before, after = session_links({name: self._live(name) for name in _DTYPES})
            is_said = self._live("managed") == 0
            self._live("before")[is_said], self._live("after")[is_said] = before[is_said], after[is_said]
            self._linked = True

    def set_usage(self, number: int, usage: Usage) -> None:
        """Sets the usage of a memory."""
        with self._lock:
            if number < self._size:
                self._set_usage(number, usage)

    def set_tokens(self, number: int, tokens: int, modified_at: int) -> None:
        """Sets the number of tokens of a memory's content, unless it was modified since that version.

        0 means that they were not counted; every change of its text resets the count.
        """
        with self._lock:
            if number < self._size and self._arrays["modified_at"][number] == modified_at:
                self._arrays["tokens"][number] = tokens
                self.has_unsaved_counts = True

    def reset_token_counts(self) -> None:
        """Resets all token counts, which belong to another model."""
        with self._lock:
            self._arrays["tokens"][:] = 0
            self.has_unsaved_counts = True

    def drop(self, number: int) -> None:
        with self._lock:
            self._masks.clear()
            if number < self._size:
                self._unlink(number, self._place(number))
                self._count(number, _NO_STATE)
                self._arrays["state"][number] = _NO_STATE
                self._set_tags(number, ())

    @property
    def size(self) -> int:
        """One more than the highest number so far; the length of every array."""
        return self._size

    def column(self, name: str) -> NDArray[Any]:
        """A copy of one array by its name; later changes of the index do not reach it."""
        return self.columns(name)[0]

    def columns(self, *names: str) -> list[NDArray[Any]]:
        """Copies of some arrays, all taken at one moment and so of equal length."""
        with self._lock:
            return [self._live(name).copy() for name in names]

    def values(self, name: str, numbers: NDArray[np.integer[Any]], *, clip: bool = False) -> NDArray[Any]:
        """The values of one array for these numbers, in their order. With `clip`, a number out of range gives any value
        instead of an IndexError."""
        array = self._arrays[name]
        if clip and not len(array):
            return np.zeros(numbers.shape, array.dtype)
        taken: NDArray[Any] = array.take(numbers, mode="clip" if clip else "raise")
        return taken

    def is_own(self, numbers: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """A mask of those that the person said, or has in notes; a number out of range gives any value."""
        return np.isin(self.values("trust", numbers, clip=True), [TRUSTS.index(trust) for trust in OWN_TRUSTS])

    def _live(self, name: str) -> NDArray[Any]:
        """The array itself, which the writer changes: for callers that hold the lock or read it only once."""
        return self._arrays[name][: self._size]

    def tokens_of(self, number: int) -> int:
        """The number of tokens of a memory's content; 0 while they are not counted, or the memory has no row yet."""
        tokens = self._live("tokens")
        return int(tokens[number]) if number < len(tokens) else 0

    def count_by(self, name: str) -> dict[str, int]:
        """Number of memories by value of a coded or named column: active and archived ones, of `state` all."""
        with self._lock:
            states, values = self._live("state"), self._live(name)
            wanted = states != _NO_STATE if name == "state" else _has_state(states, ("active", "archived"))
            codes, counts = np.unique(values[wanted], return_counts=True)
            names = CODED.get(name) or self._names[name]
            return {names[int(code)]: int(count) for code, count in zip(codes, counts, strict=True)}

    def writers(self, wanted: MemoryFilter) -> list[tuple[int, int, str, int]]:
        """The agents of the memories that pass the filter: when each wrote the last one, its code, its name, and how
        many there are of it; the last first."""
        mask = self.mask(wanted)
        with self._lock:
            codes, at = self._live("agent_id")[: len(mask)][mask], self._live("created_at")[: len(mask)][mask]
            found, counts = np.unique(codes, return_counts=True)
            rows = [
                (int(at[codes == code].max()), int(code), self._names["agent_id"][int(code)], int(count))
                for code, count in zip(found, counts, strict=True)
            ]
        return sorted((row for row in rows if row[2]), reverse=True)

    def scopes(self) -> list[tuple[str, str]]:
        """The users and namespaces that have an active memory, in order."""
        with self._lock:
            active = _has_state(self._live("state"), ("active",))
            pairs = zip(self._live("user_id")[active].tolist(), self._live("namespace")[active].tolist(), strict=True)
            return sorted((self._names["user_id"][user], self._names["namespace"][name]) for user, name in set(pairs))

    def count_tags(self, wanted: MemoryFilter) -> dict[str, int]:
        """Number of memories that pass the filter by tag, the commonest first, then by name."""
        mask = self.mask(wanted)
        with self._lock:
            rows = {tag: np.fromiter(numbers, np.int64, len(numbers)) for tag, numbers in self._tags.items()}
        counts = {tag: int(mask[numbers[numbers < len(mask)]].sum()) for tag, numbers in rows.items()}
        return dict(sorted(((tag, n) for tag, n in counts.items() if n), key=lambda each: (-each[1], each[0])))

    def numbers_by_tag(self, prefix: str) -> dict[str, NDArray[np.int64]]:
        """The numbers of the memories that have each tag with this beginning, in any state."""
        with self._lock:
            return {
                tag: np.fromiter(numbers, np.int64, len(numbers))
                for tag, numbers in self._tags.items()
                if tag.startswith(prefix)
            }

    def numbers_with_tag(self, tag: str) -> NDArray[np.int64]:
        """The numbers of the memories that have exactly this tag, in any state."""
        with self._lock:
            numbers = self._tags.get(tag, ())
            return np.fromiter(numbers, np.int64, len(numbers))

    def mask(self, wanted: MemoryFilter) -> NDArray[np.bool_]:
        """Read-only mask, by number, of the memories that pass the filter. Cached."""
        with self._lock:
            timeless = wanted._replace(now=0)
            kept = self._masks.get(timeless)
            if kept is None or not kept.since <= wanted.now < kept.until:
                kept = self._masks[timeless] = self._evaluate(wanted)
                if len(self._masks) > MASKS_KEPT:
                    del self._masks[next(iter(self._masks))]
            return kept.mask

    def uncached_mask(self, wanted: MemoryFilter) -> NDArray[np.bool_]:
        """The same mask for a filter that will hardly be used again: it displaces no other from the cache."""
        with self._lock:
            return self._evaluate(wanted).mask

    def exclude(self, mask: NDArray[np.bool_], numbers: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Read-only mask without these numbers, made from one of `mask`. The last one is cached."""
        if not len(numbers):
            return mask
        out, last = numbers.tobytes(), self._narrowed
        if last is not None and last[0] is mask and last[1] == out:
            return last[2].mask
        narrowed = mask.copy()
        narrowed[numbers] = False
        narrowed.flags.writeable = False
        self._narrowed = mask, out, _CachedMask(narrowed, NEVER_SINCE, NEVER, [])
        return narrowed

    def _evaluate(self, wanted: MemoryFilter) -> _CachedMask:
        """Evaluates the filter: its mask, and how long that is valid."""
        mask = self._passing(wanted)
        expires = self._live("expires_at")
        ends = expires[expires != 0]
        since, until = ends[ends <= wanted.now].max(initial=NEVER_SINCE), ends[ends > wanted.now].min(initial=NEVER)
        if len(ends):
            mask &= (expires == 0) | (expires > wanted.now)
        mask.flags.writeable = False
        return _CachedMask(mask, int(since), int(until), [])

    def _passing(self, wanted: MemoryFilter) -> NDArray[np.bool_]:
        """Mask of the filter without regard to expiry."""
        mask = _has_state(self._live("state"), wanted.states)
        for name, values in (("kind", wanted.kinds), ("category", wanted.categories), ("layer", wanted.layers)):
            if values:
                mask &= np.isin(self._live(name), [CODED[name].index(value) for value in values])
        if wanted.namespaces:
            codes = [self._codes["namespace"].get(name, -1) for name in wanted.namespaces]
            column = self._live("namespace")
            mask &= np.logical_or.reduce([column == code for code in codes])
        for name in ("user_id", "agent_id", "run_id", "session_id", "source", "speaker"):
            value = getattr(wanted, name)
            if value is not None:
                mask &= self._live(name) == self._codes[name].get(value, -1)
        if wanted.trust_min is not None:
            mask &= self._live("trust") <= TRUSTS.index(wanted.trust_min)
        if wanted.min_importance > 0:
            mask &= self._live("importance") >= np.float32(wanted.min_importance)
        if wanted.min_importance_unasked > 0:
            codes = [self._codes["source"].get(name, -1) for name in UNREQUESTED_SOURCES]
            is_unasked = np.isin(self._live("source"), codes)
            mask &= ~is_unasked | (self._live("importance") >= np.float32(wanted.min_importance_unasked))
        if wanted.since is not None:
            mask &= self._live("event_at") >= wanted.since
        if wanted.until is not None:
            mask &= self._live("event_at") < wanted.until
        self._filter_tags(mask, wanted)
        return mask

    def ids(self, numbers: Iterable[int]) -> list[str]:
        """The ids of these numbers, in order."""
        high, low = self._arrays["id_high"], self._arrays["id_low"]
        return [
            id_text(int(high[number]).to_bytes(8, "big") + int(low[number]).to_bytes(8, "big")) for number in numbers
        ]

    def text_hashes(self, numbers: NDArray[np.integer[Any]]) -> list[bytes]:
        """The hash of each memory's embedded text, the key of its vectors and token rows."""
        together = np.empty((len(numbers), 2), ">u8")
        with self._lock:  # a change between the two reads would give a hash that belongs to no text
            together[:, 0], together[:, 1] = self._arrays["text_high"][numbers], self._arrays["text_low"][numbers]
        hashes: list[bytes] = together.view("V16").ravel().tolist()
        return hashes

    def find(self, digits: str, limit: int = 11) -> list[str]:
        """Ids, in any state, that begin or end with these 8 to 32 hexadecimal digits (no dashes)."""
        value, bits = int(digits, 16), 4 * len(digits)
        with self._lock:
            known = self._live("state") != _NO_STATE
            high, low = self._live("id_high"), self._live("id_low")
            digits_mask, rest = (1 << bits) - 1, 128 - bits
            begins = _agree(high, low, value << rest, digits_mask << rest)
            ends = _agree(high, low, value, digits_mask)
            numbers = np.flatnonzero(known & (begins | ends))[:limit]
        return sorted(self.ids(int(number) for number in numbers))

    def count_states(self, states: Iterable[str]) -> int:
        """Number of memories in any of these states; kept up to date, so it costs nothing."""
        return sum(self._state_counts[STATES.index(state)] for state in states)

    def has_speaker(self, word: str, mask: NDArray[np.bool_]) -> bool:
        """True if this word (lower case) is part of the name of a speaker of some memory in the mask."""
        codes = self._speaker_words.get(word)
        if not codes:
            return False
        column = self._live("speaker")[: len(mask)]
        last = self._narrowed
        every = (*self._masks.values(), last[2]) if last is not None else tuple(self._masks.values())
        kept = next((each for each in every if each.mask is mask), None)
        if kept is None:
            return any(bool(((column == code) & mask[: len(column)]).any()) for code in tuple(codes))
        if not kept.speakers:
            kept.speakers.append(frozenset(np.unique(column[mask[: len(column)]]).tolist()))
        return not kept.speakers[0].isdisjoint(codes)

    def speakers_named(self, words: Iterable[str]) -> set[int]:
        """The codes of the speakers whose name contains one of these words (lower case)."""
        return set[int]().union(*(self._speaker_words.get(word, ()) for word in words))

    def code(self, name: str, value: str) -> int:
        """The code of a value in a column of names; -1 where no memory has it."""
        return self._codes[name].get(value, -1)

    def name(self, name: str, code: int) -> str:
        """The value of a code in a column of names; "" for no code."""
        return self._names[name][code] if 0 <= code < len(self._names[name]) else ""

    def tags_of(self, number: int) -> tuple[str, ...]:
        return self._tags_of.get(number, ())

    def save(self, path: Path, meta: Mapping[str, Any], disk: Disk) -> None:
        """Replaces the index file."""
        with self._lock:
            self.has_unsaved_counts = False
            arrays = {name: array[: self._size].copy() for name, array in self._arrays.items()}
            tags = {name: sorted(numbers) for name, numbers in sorted(self._tags.items())}
            names = {name: list(values) for name, values in self._names.items()}
        flat = np.array([number for numbers in tags.values() for number in numbers], np.uint32)
        counts = [len(numbers) for numbers in tags.values()]
        own = {"names": names, "tags": list(tags), "tag_counts": counts}
        index_file.save(path, KIND, {**meta, "own": own}, {**arrays, "tag_numbers": flat}, disk)

    @classmethod
    def load(cls, path: Path) -> tuple["AttributeStore", dict[str, Any]]:
        """Loads a saved index and its meta. Raises IndexMismatch."""
        meta, arrays = index_file.load(path, KIND)
        flat = arrays.pop("tag_numbers")
        if set(arrays) != set(_DTYPES):
            raise IndexMismatch(f"{path.name} has other columns")
        columns, own = cls(), meta.pop("own")
        columns._arrays = arrays
        columns._size = len(arrays["state"])
        columns._names = own["names"]
        columns._codes = {name: {value: code for code, value in enumerate(own["names"][name])} for name in NAMED}
        for code, name in enumerate(own["names"]["speaker"]):
            columns._add_speaker(name, code)
        states = arrays["state"]
        before, after, managed = arrays["before"], arrays["after"], arrays["managed"]
        firsts = np.flatnonzero((managed != 0) & (before == _NO_NEIGHBOUR) & (after != _NO_NEIGHBOUR))
        columns._first = dict(zip((-managed[firsts]).tolist(), firsts.tolist(), strict=True))
        columns._state_counts = np.bincount(states[states != _NO_STATE], minlength=len(STATES)).tolist()
        start = 0
        for tag, count in zip(own["tags"], own["tag_counts"], strict=True):
            columns._tags[tag] = set(flat[start : start + count].tolist())
            for number in flat[start : start + count].tolist():
                columns._tags_of[number] = (*columns._tags_of.get(number, ()), tag)
            start += count
        return columns, meta

    def _filter_tags(self, mask: NDArray[np.bool_], wanted: MemoryFilter) -> None:
        for tag in wanted.tags:
            has = np.zeros(self._size, np.bool_)
            for numbers in self._tagged(tag):
                has[np.fromiter(numbers, np.int64, len(numbers))] = True
            mask &= has
        for tag in wanted.without_tags:
            for numbers in self._tagged(tag):
                mask[np.fromiter(numbers, np.int64, len(numbers))] = False

    def _tagged(self, tag: str) -> Iterator[set[int]]:
        """The numbers of the memories with the tag, and with each tag nested in it: `people/friend` in `people`."""
        nested = f"{tag}/"
        return (numbers for each, numbers in self._tags.items() if each == tag or each.startswith(nested))

    def _set_usage(self, number: int, usage: Usage) -> None:
        arrays = self._arrays
        arrays["strength"][number] = usage.strength
        arrays["strength_epoch"][number] = usage.strength_epoch
        arrays["last_accessed"][number] = usage.last_accessed
        arrays["access_count"][number] = usage.access_count
        arrays["repetition_count"][number] = usage.repetition_count

    def _set_tags(self, number: int, tags: tuple[str, ...]) -> None:
        for tag in self._tags_of.pop(number, ()):
            self._tags[tag].discard(number)
            if not self._tags[tag]:
                del self._tags[tag]
        for tag in tags:
            self._tags.setdefault(tag, set()).add(number)
        if tags:
            self._tags_of[number] = tuple(dict.fromkeys(tags))

    def _code(self, name: str, value: str) -> int:
        codes = self._codes[name]
        code = codes.get(value)
        if code is None:
            code = codes[value] = len(self._names[name])
            self._names[name].append(value)
            if name == "speaker":
                self._add_speaker(value, code)
        return code

    def _add_speaker(self, name: str, code: int) -> None:
        for word in name.lower().split():
            self._speaker_words.setdefault(word, set()).add(code)

    def _count(self, number: int, state: int) -> None:
        """Updates the counts by state for a row whose state is about to change."""
        before = int(self._arrays["state"][number])
        if before != _NO_STATE:
            self._state_counts[before] -= 1
        if state != _NO_STATE:
            self._state_counts[state] += 1

    def _place(self, number: int) -> tuple[int, int] | None:
        """The list a row is in, and its sort key there next to its number; None for a row in no list.

        The list of a note file is the negative code of the file, that of a session a number packed from the codes of
        its user, namespace and name.
        """
        arrays = self._arrays
        if number >= self._size or arrays["state"][number] == _NO_STATE:
            return None
        if managed := int(arrays["managed"][number]):
            return -managed, 0
        if session := int(arrays["session_id"][number]):
            which = ((int(arrays["user_id"][number]) << 32) | int(arrays["namespace"][number])) << 32 | session
            return which, int(arrays["event_at"][number])
        return None

    def _link(self, number: int) -> None:
        """Links a row into the list of its session."""
        place = self._place(number)
        if place is None or place[0] < 0:
            return
        which, times = place[0], self._arrays["event_at"]
        numbers = self._sessions.get(which)
        if numbers is None:
            numbers = self._sessions[which] = self._rest_of_session(number)
        at = bisect.bisect(numbers, (times[number], number), key=lambda each: (times[each], each))
        earlier = numbers[at - 1] if at else _NO_NEIGHBOUR
        later = numbers[at] if at < len(numbers) else _NO_NEIGHBOUR
        numbers.insert(at, number)
        before, after = self._arrays["before"], self._arrays["after"]
        before[number], after[number] = earlier, later
        if earlier != _NO_NEIGHBOUR:
            after[earlier] = number
        if later != _NO_NEIGHBOUR:
            before[later] = number

    def _rest_of_session(self, number: int) -> "array[int]":
        """The other numbers in the session of a row, in order, found by looking at every row."""
        found = _in_session({name: self._live(name) for name in _DTYPES})
        for name in ("session_id", "user_id", "namespace"):
            column = self._live(name)
            found &= column == column[number]
        found[number] = False
        rows = np.flatnonzero(found)
        return array("i", rows[np.lexsort((rows, self._live("event_at")[rows]))].tolist())

    def _unlink(self, number: int, place: tuple[int, int] | None) -> None:
        """Unlinks a row from its list and links its neighbours to each other."""
        if place is None:
            return
        which, before, after = place[0], self._arrays["before"], self._arrays["after"]
        earlier, later = int(before[number]), int(after[number])
        before[number] = after[number] = _NO_NEIGHBOUR
        if earlier != _NO_NEIGHBOUR:
            after[earlier] = later
        if later != _NO_NEIGHBOUR:
            before[later] = earlier
        if which in self._sessions:
            self._sessions[which].remove(number)
        elif self._first.get(which) == number:
            self._first[which] = later

    def _grow(self, size: int) -> None:
        capacity = len(self._arrays["state"])
        if size > capacity:
            capacity = max(size, 2 * capacity, 1024)
            for name, dtype in _DTYPES.items():
                grown = np.full(capacity, _EMPTY.get(name, 0), dtype)
                grown[: self._size] = self._arrays[name][: self._size]
                self._arrays[name] = grown
        self._size = max(self._size, size)


def session_links(arrays: Arrays) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The arrays `before` and `after` of all sessions, computed from the other columns; -1 for rows of no session."""
    rows = np.flatnonzero(_in_session(arrays))
    owner = [arrays[name][rows] for name in ("session_id", "namespace", "user_id")]
    order = np.lexsort((rows, arrays["event_at"][rows], *owner))
    ordered = rows[order]
    same = np.ones(max(0, len(rows) - 1), np.bool_)
    for codes in owner:
        same &= codes[order][1:] == codes[order][:-1]
    before, after = (np.full(len(arrays["state"]), _NO_NEIGHBOUR, np.int32) for _ in range(2))
    before[ordered[1:][same]] = ordered[:-1][same]
    after[ordered[:-1][same]] = ordered[1:][same]
    return before, after


def _in_session(arrays: Arrays) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = arrays["session_id"] != 0
    found &= (arrays["managed"] == 0) & (arrays["state"] != _NO_STATE)
    return found


def _has_state(states: NDArray[np.uint8], wanted: Iterable[str]) -> NDArray[np.bool_]:
    codes = [STATES.index(state) for state in wanted]
    found: NDArray[np.bool_] = np.logical_or.reduce([states == code for code in codes])
    return found


def _agree(high: NDArray[np.uint64], low: NDArray[np.uint64], value: int, mask: int) -> NDArray[np.bool_]:
    """Mask of the ids, given by their upper and lower 64 bits, that agree with a value in the bits of a mask."""
    found: NDArray[np.bool_] = (high & np.uint64(mask >> 64)) == np.uint64(value >> 64)
    found &= (low & np.uint64(mask % (1 << 64))) == np.uint64(value % (1 << 64))
    return found
