"""What filters and rankers need of every memory, as arrays by its number. SPEC 7.2, DESIGN 3.5.

A view: rebuilt from the database when its file is missing or does not match. Ranking reads these, so that only the
memories that are answered are ever decoded.
"""

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_store import snapshots
from mnemo_store.disk import Disk
from mnemo_store.errors import ViewMismatch
from mnemo_store.layout import id_key, id_text
from mnemo_store.records import CATEGORIES, KINDS, LAYERS, STATES, TRUSTS, Memory, Usage

KIND = "columns-1"  # of the view file

NAMED = ("namespace", "user_id", "agent_id", "run_id", "session_id", "speaker", "source", "managed")
CODED = {"kind": KINDS, "category": CATEGORIES, "layer": LAYERS, "trust": TRUSTS, "state": STATES}

UNASKED = ("ingest", "turn", "extract", "proxy")  # sources: each text of a stream, not one that someone chose to keep

_NO_STATE = 255  # of a number that has no memory
_DTYPES: dict[str, Any] = {
    "id_high": np.uint64, "id_low": np.uint64,
    "state": np.uint8, "kind": np.uint8, "category": np.uint8, "layer": np.uint8, "trust": np.uint8,
    "namespace": np.int32, "user_id": np.int32, "agent_id": np.int32, "run_id": np.int32, "session_id": np.int32,
    "speaker": np.int32, "source": np.int32, "managed": np.int32,
    "importance": np.float32, "decay_rate": np.float32,
    "created_at": np.int64, "modified_at": np.int64, "event_at": np.int64, "expires_at": np.int64,
    "strength": np.float32, "strength_epoch": np.int32, "last_accessed": np.int64,
    "access_count": np.int32, "repetition_count": np.int32, "tokens": np.int32,
}  # fmt: skip


class Filter(NamedTuple):
    """Which memories are wanted. Empty tuples and None filter nothing. SPEC 7.1

    Times are ms and bound event_at: since ≤ event_at < until. `tags`: all of them.
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
    min_importance_unasked: float = 0.0  # of what was taken in without anyone asking for it: UNASKED
    now: int = 0  # ms; what expired by then is out


class Columns:
    """The arrays, and names as small integers. Safe for one writer and many readers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._size = 0
        self.has_unsaved_counts = False  # of tokens, which come without a change of the store
        self._arrays: dict[str, NDArray[Any]] = {name: np.zeros(0, dtype) for name, dtype in _DTYPES.items()}
        self._names: dict[str, list[str]] = {name: [""] for name in NAMED}
        self._codes: dict[str, dict[str, int]] = {name: {"": 0} for name in NAMED}
        self._speaker_words: dict[str, set[int]] = {}  # a word of a name → codes of the speakers who have it
        self._state_counts = [0] * len(STATES)
        self._tags: dict[str, set[int]] = {}
        self._tags_of: dict[int, tuple[str, ...]] = {}

    def put(self, number: int, memory: Memory, usage: Usage | None) -> None:
        """Sets the row of a memory; usage None leaves what is known of its use."""
        key = id_key(memory.id)
        with self._lock:
            self._grow(number + 1)
            row: dict[str, Any] = {
                "id_high": int.from_bytes(key[:8], "big"), "id_low": int.from_bytes(key[8:], "big"),
                "importance": memory.importance, "decay_rate": memory.decay_rate, "created_at": memory.created_at,
                "modified_at": memory.modified_at, "event_at": memory.event_at, "expires_at": memory.expires_at,
                "tokens": 0,
            }  # fmt: skip
            for name, choices in CODED.items():
                row[name] = choices.index(getattr(memory, name))
            for name in NAMED:
                row[name] = self._code(name, getattr(memory, name))
            self._count(number, row["state"])
            for name, value in row.items():
                self._arrays[name][number] = value
            self._set_tags(number, memory.tags)
            if usage is not None:
                self._set_usage(number, usage)

    def use(self, number: int, usage: Usage) -> None:
        """Sets what is known of a memory's use."""
        with self._lock:
            if number < self._size:
                self._set_usage(number, usage)

    def set_tokens(self, number: int, tokens: int, modified_at: int) -> None:
        """Keeps how many tokens a memory's content has, unless it was changed behind the counter's back.

        0, as after any change of it: nobody has counted.
        """
        with self._lock:
            if number < self._size and self._arrays["modified_at"][number] == modified_at:
                self._arrays["tokens"][number] = tokens
                self.has_unsaved_counts = True

    def forget_tokens(self) -> None:
        """The counts are another model's."""
        with self._lock:
            self._arrays["tokens"][:] = 0
            self.has_unsaved_counts = True

    def drop(self, number: int) -> None:
        with self._lock:
            if number < self._size:
                self._count(number, _NO_STATE)
                self._arrays["state"][number] = _NO_STATE
                self._set_tags(number, ())

    @property
    def size(self) -> int:
        """One more than the highest number seen; every array has this length."""
        return self._size

    def column(self, name: str) -> NDArray[Any]:
        """One array by its field's name. Not to be written to."""
        return self._arrays[name][: self._size]

    def together(self, *names: str) -> list[NDArray[Any]]:
        """Some arrays of one and the same length, whoever is adding rows meanwhile. Not to be written to."""
        with self._lock:
            return [self.column(name) for name in names]

    def tokens_of(self, number: int) -> int:
        """How many tokens a memory's content has; 0 when nobody has counted, or its row is still to come."""
        tokens = self.column("tokens")
        return int(tokens[number]) if number < len(tokens) else 0

    def count_by(self, name: str) -> dict[str, int]:
        """How many memories have each value of a coded or named column; of active and archived ones but for state."""
        with self._lock:
            states, values = self.column("state"), self.column(name)
            wanted = states != _NO_STATE if name == "state" else _has_state(states, ("active", "archived"))
            codes, counts = np.unique(values[wanted], return_counts=True)
            names = CODED.get(name) or self._names[name]
            return {names[int(code)]: int(count) for code, count in zip(codes, counts, strict=True)}

    def allowed(self, wanted: Filter) -> NDArray[np.bool_]:
        """A mask by number of the memories that pass the filter."""
        with self._lock:
            mask = _has_state(self.column("state"), wanted.states)
            for name, values in (("kind", wanted.kinds), ("category", wanted.categories), ("layer", wanted.layers)):
                if values:
                    mask &= np.isin(self.column(name), [CODED[name].index(value) for value in values])
            if wanted.namespaces:
                codes = [self._codes["namespace"].get(name, -1) for name in wanted.namespaces]
                column = self.column("namespace")
                mask &= np.logical_or.reduce([column == code for code in codes])
            for name in ("user_id", "agent_id", "run_id", "session_id", "source", "speaker"):
                value = getattr(wanted, name)
                if value is not None:
                    mask &= self.column(name) == self._codes[name].get(value, -1)
            if wanted.trust_min is not None:
                mask &= self.column("trust") <= TRUSTS.index(wanted.trust_min)
            if wanted.min_importance > 0:
                mask &= self.column("importance") >= np.float32(wanted.min_importance)
            if wanted.min_importance_unasked > 0:
                codes = [self._codes["source"].get(name, -1) for name in UNASKED]
                is_unasked = np.isin(self.column("source"), codes)
                mask &= ~is_unasked | (self.column("importance") >= np.float32(wanted.min_importance_unasked))
            self._filter_times(mask, wanted)
            self._filter_tags(mask, wanted)
            return mask

    def ids(self, numbers: Iterable[int]) -> list[str]:
        """The ids of these numbers, in order."""
        high, low = self._arrays["id_high"], self._arrays["id_low"]
        return [
            id_text(int(high[number]).to_bytes(8, "big") + int(low[number]).to_bytes(8, "big")) for number in numbers
        ]

    def find(self, digits: str, limit: int = 11) -> list[str]:
        """Ids, in any state, that begin or end with these 8 to 32 hexadecimal digits (no dashes)."""
        value, bits = int(digits, 16), 4 * len(digits)
        with self._lock:
            known = self.column("state") != _NO_STATE
            high, low = self.column("id_high"), self.column("id_low")
            begins = _leading(high, low, value, bits)
            ends = _trailing(high, low, value, bits)
            numbers = np.flatnonzero(known & (begins | ends))[:limit]
        return sorted(self.ids(int(number) for number in numbers))

    def count_states(self, states: Iterable[str]) -> int:
        """How many memories are in one of these states; kept as a count, so it costs nothing."""
        return sum(self._state_counts[STATES.index(state)] for state in states)

    def has_speaker(self, word: str, mask: NDArray[np.bool_]) -> bool:
        """Whether this word (lower case) is part of the name of someone who speaks in a memory of the mask."""
        codes = self._speaker_words.get(word)
        if not codes:
            return False
        column = self.column("speaker")[: len(mask)]
        return any(bool(((column == code) & mask[: len(column)]).any()) for code in tuple(codes))

    def tags_of(self, number: int) -> tuple[str, ...]:
        return self._tags_of.get(number, ())

    def save(self, path: Path, meta: Mapping[str, Any], disk: Disk) -> None:
        """Replaces the view's file."""
        with self._lock:
            self.has_unsaved_counts = False
            arrays = {name: array[: self._size].copy() for name, array in self._arrays.items()}
            tags = {name: sorted(numbers) for name, numbers in sorted(self._tags.items())}
            names = {name: list(values) for name, values in self._names.items()}
        flat = np.array([number for numbers in tags.values() for number in numbers], np.uint32)
        counts = [len(numbers) for numbers in tags.values()]
        own = {"names": names, "tags": list(tags), "tag_counts": counts}
        snapshots.save(path, KIND, {**meta, "own": own}, {**arrays, "tag_numbers": flat}, disk)

    @classmethod
    def load(cls, path: Path) -> tuple["Columns", dict[str, Any]]:
        """The view and the meta it was saved with. Raises ViewMismatch."""
        meta, arrays = snapshots.load(path, KIND)
        flat = arrays.pop("tag_numbers")
        if set(arrays) != set(_DTYPES):
            raise ViewMismatch(f"{path.name} has other columns")
        columns, own = cls(), meta.pop("own")
        columns._arrays = arrays
        columns._size = len(arrays["state"])
        columns._names = own["names"]
        columns._codes = {name: {value: code for code, value in enumerate(own["names"][name])} for name in NAMED}
        for code, name in enumerate(own["names"]["speaker"]):
            columns._add_speaker(name, code)
        states = arrays["state"]
        columns._state_counts = np.bincount(states[states != _NO_STATE], minlength=len(STATES)).tolist()
        start = 0
        for tag, count in zip(own["tags"], own["tag_counts"], strict=True):
            columns._tags[tag] = set(flat[start : start + count].tolist())
            for number in flat[start : start + count].tolist():
                columns._tags_of[number] = (*columns._tags_of.get(number, ()), tag)
            start += count
        return columns, meta

    def _filter_times(self, mask: NDArray[np.bool_], wanted: Filter) -> None:
        if wanted.since is not None:
            mask &= self.column("event_at") >= wanted.since
        if wanted.until is not None:
            mask &= self.column("event_at") < wanted.until
        expires = self.column("expires_at")
        mask &= (expires == 0) | (expires > wanted.now)

    def _filter_tags(self, mask: NDArray[np.bool_], wanted: Filter) -> None:
        for tag in wanted.tags:
            has = np.zeros(self._size, np.bool_)
            numbers = self._tags.get(tag)
            if numbers:
                has[np.fromiter(numbers, np.int64, len(numbers))] = True
            mask &= has
        for tag in wanted.without_tags:
            numbers = self._tags.get(tag)
            if numbers:
                mask[np.fromiter(numbers, np.int64, len(numbers))] = False

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
        """Keeps the counts by state as a row's state becomes another; called before it does."""
        before = int(self._arrays["state"][number])
        if before != _NO_STATE:
            self._state_counts[before] -= 1
        if state != _NO_STATE:
            self._state_counts[state] += 1

    def _grow(self, size: int) -> None:
        capacity = len(self._arrays["state"])
        if size > capacity:
            capacity = max(size, 2 * capacity, 1024)
            for name, dtype in _DTYPES.items():
                grown = np.full(capacity, _NO_STATE, dtype) if name == "state" else np.zeros(capacity, dtype)
                grown[: self._size] = self._arrays[name][: self._size]
                self._arrays[name] = grown
        self._size = max(self._size, size)


def _has_state(states: NDArray[np.uint8], wanted: Iterable[str]) -> NDArray[np.bool_]:
    codes = [STATES.index(state) for state in wanted]
    found: NDArray[np.bool_] = np.logical_or.reduce([states == code for code in codes])
    return found


def _leading(high: NDArray[np.uint64], low: NDArray[np.uint64], value: int, bits: int) -> NDArray[np.bool_]:
    if bits <= 64:
        found: NDArray[np.bool_] = (high >> np.uint64(64 - bits)) == np.uint64(value)
        return found
    rest = bits - 64
    same: NDArray[np.bool_] = (high == np.uint64(value >> rest)) & (
        (low >> np.uint64(64 - rest)) == np.uint64(value & ((1 << rest) - 1))
    )
    return same


def _trailing(high: NDArray[np.uint64], low: NDArray[np.uint64], value: int, bits: int) -> NDArray[np.bool_]:
    if bits <= 64:
        mask = (1 << bits) - 1
        found: NDArray[np.bool_] = (low & np.uint64(mask)) == np.uint64(value)
        return found
    rest = (1 << (bits - 64)) - 1
    same: NDArray[np.bool_] = (low == np.uint64(value & (2**64 - 1))) & (
        (high & np.uint64(rest)) == np.uint64(value >> 64)
    )
    return same
