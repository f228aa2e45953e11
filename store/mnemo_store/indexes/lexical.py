"""The lexical index: memories found by the words of a query, ranked by BM25. SPEC 3.1, 7.2

The index is in memory, shows a memory as soon as `put` returns, and is kept in one file between starts.

Every put takes a new slot, which leads to the memory's number and to its length in words. A memory that is dropped or
replaced leaves its slot with an infinite length, so that each of its terms weighs nothing: dropping touches no
postings. Postings are in two places: the base, frozen arrays sorted by term, which may be a mapped file, and the recent
ones, one growing array a term. When there are enough recent ones, both are merged into a new base, without the dead
slots. A term is known by 64 bits of its BLAKE2b hash, so the arrays need no table of strings.

Term frequencies, the number of memories and their lengths are counted exactly over the live slots, and contributions
are added in the order of the term keys. So scores depend on the memories alone, to the byte, and not on the history of
the index.
"""

import functools
import hashlib
import itertools
import math
import threading
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mnemo_store.batches import batched
from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch
from mnemo_store.indexes import index_file
from mnemo_store.indexes.tokenizer import Tokenizer, chunks

K1 = 0.9  # how soon a repeated term stops counting; measured best on conversations, over 1.2
B = 0.4  # how much length counts, 0 to 1; measured best with it, over 0.75
CONTENT_WEIGHT = 1  # occurrences that one in this field counts for; whole numbers, so that sums are exact
SPEAKER_WEIGHT = 1
TAG_WEIGHT = 2  # chosen by a person to be found by
HEADING_WEIGHT = 2  # says what the text below it is about

KIND = "words-2"  # of the index file
SLOT_BITS = 24  # of a posting's 32; the other 8 are the term's weighted count
SLOTS_MAX = 1 << SLOT_BITS
COUNT_MAX = 255  # a term counted more often counts this often; BM25 has long levelled off
RECENT_SLOTS_MIN = 4096  # puts between two merges at least,
RECENT_SHARE = 8  # and at least one put for so many slots of the base: a merge costs 0.2 s at 100,000 memories
MANY_POSTINGS = 10_000  # of all terms of a query: from here on it pays to leave most of them out
PUT_TOGETHER = 16_384  # memories that put_many merges at a time
CHUNKS_KEPT = 32_768  # chunks whose keys are remembered; at most some 8 MB, and only in a process that writes
CHUNK_CHARS_KEPT_MAX = 40  # longer ones hardly occur twice

Counts = NDArray[np.int64]
Item = TypeVar("Item", bound=np.generic)


class LexicalFields(NamedTuple):
    """The parts of a memory that can be found by words."""

    content: str
    speaker: str = ""
    tags: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()  # for `numbers_with_marks`; no word of a query matches one, and none counts in a score


class LexicalHits(NamedTuple):
    """Best first; equal scores by number, ascending. Scores are above 0 and comparable within one answer."""

    numbers: NDArray[np.uint32]
    scores: NDArray[np.float32]


class LexicalMatches(NamedTuple):
    """The terms of a query that some memories hold: a row a term, a column for each number asked about."""

    terms: list[str]  # all terms of the query, in the order in which `search` adds their contributions
    weights: NDArray[np.float32]  # of each term: its rarity, the first factor of BM25
    holds: NDArray[np.bool_]
    parts: NDArray[np.float32]  # contribution of each term to each score; 0 where it is not held
    scores: NDArray[np.float32]  # the score that `search` gives each of them, to the byte; 0 without any term

    @classmethod
    def of(
        cls, terms: list[str], weights: NDArray[np.float32], holds: NDArray[np.bool_], parts: NDArray[np.float32]
    ) -> Self:
        """Returns the matches with the scores that the contributions add up to."""
        sums = np.zeros(parts.shape[1], np.float64)
        for part in parts:  # in this order, as in `search`
            sums += part
        return cls(terms, weights, holds, parts, sums.astype(np.float32))


class _Postings(NamedTuple):
    """Postings by term: slot << 8 | count, ascending by slot within a term; every term has at least one."""

    keys: NDArray[np.uint64]  # ascending
    offsets: Counts  # one more than keys: a term's postings are packed[offsets[i]:offsets[i + 1]]
    packed: NDArray[np.uint32]


class _FoundPostings(NamedTuple):
    """The postings of a query's terms at one moment, and the figures that their scores need."""

    keys: list[int]  # of the terms that have postings
    slots: NDArray[np.intp]  # of each posting, term after term
    frequencies: NDArray[np.float32]  # of each posting: the weighted count of its term in its memory
    lengths: NDArray[np.float32]  # of each posting's memory; infinite where it has left the index
    counts: list[int]  # postings of each term, none zero
    numbers: NDArray[np.uint32]  # by slot
    slot_of: NDArray[np.int32]  # by number; not a copy: changes with the index
    vacated: int  # the index's own count at that moment
    has_vacated: bool  # some slots are dead
    memories: int
    mean_length: float


class QueryPostings(NamedTuple):
    """The terms of a query and their postings, found once for a search and for questions about its hits."""

    terms: dict[int, str]  # by key, in the order of the keys
    held: list[int]  # number of memories that hold it, of each term that has postings
    found: _FoundPostings
    sums: NDArray[np.float64] | None = None  # score of every memory by slot; set by a search


def _no_recent() -> defaultdict[int, "array[int]"]:
    return defaultdict(functools.partial(array, "I"))


def term_key(term: str) -> int:
    """The 64-bit key of a term, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little")


def _mark_key(mark: str) -> int:
    """The key of a mark. No term contains a space, so none has the key of a mark."""
    return term_key(f" {mark}")


class LexicalIndex:
    """Memories, by number, found by their words. One thread writes at a time, any thread searches meanwhile."""

    def __init__(self, language: str = "english") -> None:
        """Makes an empty index. language: one of Snowball's stemmers, else ValueError."""
        self.tokenizer = Tokenizer(language)
        self._keys_kept: dict[str, tuple[tuple[int, ...], int]] = {}  # of short chunks
        self._writing = threading.RLock()  # held by put, drop and save from beginning to end
        self._lock = threading.Lock()  # held where the fields below change or are read together
        self._base = _Postings(np.empty(0, np.uint64), np.zeros(1, np.int64), np.empty(0, np.uint32))
        self._recent = _no_recent()
        self._numbers = np.empty(0, np.uint32)  # by slot, with room to grow
        self._lengths = np.empty(0, np.float32)  # by slot, in words; infinite: dead
        self._slots = 0  # in use, dead ones included
        self._base_slots = 0
        self._slot_of = np.empty(0, np.int32)  # by number; -1: not in the index
        self._vacated = 0  # slots that died so far; counted before each dies
        self._count = 0
        self._length_sum = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: int) -> bool:
        return 0 <= number < len(self._slot_of) and bool(self._slot_of[number] >= 0)

    @property
    def size(self) -> int:
        """One more than the highest number the index may hold."""
        return len(self._slot_of)

    @property
    def mean_length(self) -> float:
        """Mean number of words of a memory, without stop words."""
        return self._length_sum / max(1, self._count)

    def document_frequency(self, term: str) -> int:
        """The number of memories that hold a term, spelled as the tokenizer does, in any field."""
        found = self._find_postings([term_key(term)])
        return int(np.count_nonzero(np.isfinite(found.lengths)))

    def put(self, number: int, fields: LexicalFields) -> None:
        """Indexes a memory by these words and no others. Arrays are indexed by number, so it should be dense."""
        counts, length = self._counted(fields)
        with self._writing:
            if self._slots - self._base_slots >= max(RECENT_SLOTS_MIN, self._base_slots // RECENT_SHARE):
                self._merge()
            with self._lock:
                self._vacate_slot(number)
                slot = self._take_slot(number, length)
                recent, high = self._recent, slot << 8
                for key, count in counts.items():
                    recent[key].append(high + count)

    def put_many(self, memories: Iterable[tuple[int, LexicalFields]]) -> None:
        """Does `put` for each, for a rebuild: takes less time and memory, and shows groups of PUT_TOGETHER."""
        for group in batched(memories, PUT_TOGETHER):
            with self._writing:
                self._merge()
                taken: list[tuple[int, int]] = []
                keys, packed = array("Q"), array("I")
                for number, fields in group:
                    counts, length = self._counted(fields)
                    slot = self._slots + len(taken)
                    taken.append((number, length))
                    keys.extend(counts)
                    packed.extend([(slot << 8) + count for count in counts.values()])
                base = _joined(self._base, _sorted(np.array(keys, np.uint64), np.array(packed, np.uint32)))
                with self._lock:
                    for number, length in taken:
                        self._vacate_slot(number)
                        self._take_slot(number, length)
                    self._base, self._base_slots = base, self._slots

    def drop(self, number: int) -> None:
        """Removes a memory; without effect where it is not in the index."""
        with self._writing, self._lock:
            self._vacate_slot(number)

    def search(self, query: str, k: int, allowed: NDArray[np.bool_] | None = None) -> LexicalHits:
        """The k best of the memories that hold a term of the query; any text is a query.

        `allowed`, indexed by number, narrows the answer and changes no score; a number beyond its end is not allowed.
        """
        return self.search_with_postings(query, k, allowed)[0]

    def search_with_postings(
        self, query: str, k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[LexicalHits, QueryPostings]:
        """The hits of `search` together with the postings, which `matches` then need not look up again."""
        sought = self._query_postings(query)
        found = sought.found
        if not found.counts or k < 1:
            return LexicalHits(np.empty(0, np.uint32), np.empty(0, np.float32)), sought
        sums = _summed(found, sought.held)
        hit = np.flatnonzero(sums >= _reached(found, sums, k, allowed))
        numbers, scores = found.numbers[hit], sums[hit].astype(np.float32)
        if allowed is not None:
            keep = _is_allowed(numbers, allowed)
            numbers, scores = numbers[keep], scores[keep]
        return _best(numbers, scores, k), sought._replace(sums=sums)

    def scores_of(self, sought: QueryPostings, numbers: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The scores of these memories, which a search has already computed."""
        if sought.sums is None:
            return self.matches(sought, numbers).scores
        slots = self._slots_of(sought.found, np.asarray(numbers, np.int64))
        scores: NDArray[np.float32] = sought.sums[slots].astype(np.float32)
        scores[slots < 0] = 0
        return scores

    def matches(self, asked: str | QueryPostings, numbers: NDArray[np.integer[Any]]) -> LexicalMatches:
        """The terms that each of these memories holds, of a query or of one that was searched, at that moment.

        A number below 0, or one that is not in the index, holds nothing. Uses binary search in the postings, so that
        the size of the index hardly matters.
        """
        sought = asked if isinstance(asked, QueryPostings) else self._query_postings(asked)
        found = sought.found
        slots = self._slots_of(found, np.asarray(numbers, np.int64))
        starts, held_by = _starts(found), dict(zip(found.keys, sought.held, strict=True))
        places = np.empty((len(starts), len(slots)), np.intp)  # of the posting of each slot, if there is one
        for row, start, count in zip(places, starts, found.counts, strict=True):
            row[:] = np.searchsorted(found.slots[start : start + count - 1], slots)
            row += start
        hits = found.slots.take(places) == slots
        weights = np.array([_weight(found.memories, held) for held in sought.held], np.float32)
        frequencies, lengths = found.frequencies.take(places), found.lengths.take(places)
        added = _parts(frequencies, lengths, weights[:, None], found.mean_length)
        shape = len(sought.terms), len(slots)
        holds, parts = np.zeros(shape, np.bool_), np.zeros(shape, np.float32)
        rows = [row for row, key in enumerate(sought.terms) if key in held_by]
        holds[rows], parts[rows] = hits, added * hits
        rarities = np.array([_rarity(found.memories, held_by.get(key, 0)) for key in sought.terms], np.float32)
        return LexicalMatches.of(list(sought.terms.values()), rarities, holds, parts)

    def counts_by_group(self, sought: QueryPostings, groups: NDArray[np.int32], size: int) -> NDArray[np.float32]:
        """Occurrences of each term of a query in each group of memories: (terms, size), in the order of `sought.terms`.

        `groups`: the group of each memory by its number, 0 to size - 1; -1, or a number beyond its end: no group.
        """
        found = sought.found
        if not found.counts or not len(groups):
            return np.zeros((len(sought.terms), size), np.float32)
        numbers = found.numbers[found.slots]
        is_inside = np.isfinite(found.lengths) & (numbers < len(groups))
        group = np.where(is_inside, groups.take(numbers, mode="clip"), -1)
        places = {key: place for place, key in enumerate(sought.terms)}
        terms = np.repeat([places[key] for key in found.keys], found.counts)
        hits = np.flatnonzero(group >= 0)
        cells = terms[hits] * size + group[hits]
        counts = np.bincount(cells, found.frequencies[hits], len(sought.terms) * size)
        return counts.astype(np.float32).reshape(-1, size)

    def numbers_with_any_term(self, text: str, size: int) -> NDArray[np.bool_]:
        """Mask of the numbers below `size` that hold any term of a text, stop words included."""
        found = self._find_postings(sorted({key for chunk in chunks(text) for key in self._keys(chunk)[0]}))
        numbers = found.numbers[found.slots[np.isfinite(found.lengths)]]
        held = np.zeros(size, np.bool_)
        held[numbers[numbers < size]] = True
        return held

    def numbers_with_marks(self, marks: Iterable[str], allowed: NDArray[np.bool_] | None = None) -> NDArray[np.uint32]:
        """The numbers of the memories that have any of these marks, ascending; `allowed` as in `search`."""
        found = self._find_postings(sorted(set(map(_mark_key, marks))))
        rising = np.sort(found.numbers[found.slots[np.isfinite(found.lengths)]])
        numbers: NDArray[np.uint32] = rising[np.diff(rising, prepend=-1) != 0]  # np.unique would load numpy.ma
        return numbers if allowed is None else numbers[_is_allowed(numbers, allowed)]

    def score_texts(self, query: str, texts: Sequence[LexicalFields]) -> NDArray[np.float32]:
        """The scores that `search` would give these texts if they were indexed, with the statistics of the index.

        0 for a text that holds no term of the query.
        """
        keys, all_held, found, _ = self._query_postings(query)
        held = dict(zip(found.keys, all_held, strict=True))
        counted = [self._counted(fields) for fields in texts]
        hits = [
            (place, counts[key], length, _weight(found.memories, held.get(key, 0)))
            for key in keys
            for place, (counts, length) in enumerate(counted)
            if key in counts
        ]
        columns = np.array(hits, np.float64).reshape(-1, 4).T
        frequencies, lengths, weights = columns[1:].astype(np.float32)
        parts = _parts(frequencies, lengths, weights, found.mean_length)
        return np.bincount(columns[0].astype(np.intp), parts, len(texts)).astype(np.float32)

    def save(self, path: Path, meta: Mapping[str, Any], disk: Disk) -> None:
        """Replaces the file at path, durably, with the index as it is at the call. `meta` must be JSON."""
        with self._writing:
            if self._slots > self._count or self._recent:
                self._merge()
            base = self._base
            numbers, lengths = self._numbers[: self._slots].copy(), self._lengths[: self._slots].copy()
        arrays = {**base._asdict(), "numbers": numbers, "lengths": lengths}
        index_file.save(path, KIND, {"terms": self.tokenizer.signature, "owner": dict(meta)}, arrays, disk)

    @classmethod
    def load(cls, path: Path, language: str = "english") -> tuple[Self, dict[str, Any]]:
        """Loads a saved index and its meta; the file stays mapped.

        Raises IndexMismatch for a file that is missing, damaged, or made with other tokenizer rules.
        """
        view = cls(language)
        meta, arrays = index_file.load(path, KIND, mapped=True)
        if meta.get("terms") != view.tokenizer.signature:
            raise IndexMismatch(f"{path.name} was made with other tokenizer rules: {meta.get('terms')}")
        try:
            view._base = _Postings(arrays["keys"], arrays["offsets"], arrays["packed"])
            view._adopt(arrays["numbers"].copy(), arrays["lengths"].copy())
            return view, dict(meta["owner"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise IndexMismatch(f"{path.name}: its arrays do not fit together: {error}") from error

    def _query_postings(self, query: str) -> QueryPostings:
        """The terms of a query, in the order in which their contributions are added, and their postings."""
        keys = {term_key(term): term for term in self.tokenizer.query_terms(query)}
        terms = dict(sorted(keys.items()))
        found = self._find_postings(list(terms))
        return QueryPostings(terms, _held(found), found)

    def _slots_of(self, found: _FoundPostings, numbers: Counts) -> NDArray[np.intp]:
        """The slots of these numbers at that moment; -1 for none, or for one without a term of the query."""
        known = np.flatnonzero((numbers >= 0) & (numbers < len(found.slot_of)))
        slots = np.full(len(numbers), -1, np.intp)
        slots[known] = found.slot_of[numbers[known]]
        lost = known[(slots[known] < 0) | (slots[known] >= len(found.numbers))]
        slots[lost] = -1  # also of one that was put since
        if len(lost) and self._vacated != found.vacated:  # the postings still have those that died or moved since
            alive = found.slots[np.isfinite(found.lengths)]
            alive = alive[np.isin(found.numbers[alive], numbers[lost])]
            slot_of = dict(zip(found.numbers[alive].tolist(), alive.tolist(), strict=True))
            slots[lost] = [slot_of.get(number, -1) for number in numbers[lost].tolist()]
        return slots

    def _keys(self, chunk: str) -> tuple[tuple[int, ...], int]:
        """Keys of a chunk's terms, stop words and repeats included, and its length in words."""
        kept = self._keys_kept.get(chunk)
        if kept is None:
            pieces = self.tokenizer.pieces(chunk)
            kept = tuple([term_key(piece.term) for piece in pieces]), sum([piece.kind == "word" for piece in pieces])
            if len(self._keys_kept) >= CHUNKS_KEPT:
                self._keys_kept.clear()
            if len(chunk) <= CHUNK_CHARS_KEPT_MAX:
                self._keys_kept[chunk] = kept
        return kept

    def _counted(self, fields: LexicalFields) -> tuple[dict[int, int], int]:
        """Weighted count by key, up to COUNT_MAX, and length in words of a memory."""
        found: list[int] = []
        length = 0
        for weight, texts in (
            (CONTENT_WEIGHT, (fields.content,)),
            (SPEAKER_WEIGHT, (fields.speaker,)),
            (TAG_WEIGHT, fields.tags),
            (HEADING_WEIGHT, fields.headings),
        ):
            for text in texts:
                for chunk in chunks(text):
                    keys, words = self._keys(chunk)
                    found += keys * weight
                    length += words
        found += map(_mark_key, fields.marks)
        counts: dict[int, int] = Counter(found)
        if len(found) > COUNT_MAX:
            counts = {key: min(count, COUNT_MAX) for key, count in counts.items()}
        return counts, length

    def _take_slot(self, number: int, length: int) -> int:
        """Gives a memory a new slot. The caller holds the lock."""
        slot = self._slots
        if slot == SLOTS_MAX:
            raise ValueError(f"the lexical index is full: it holds {SLOTS_MAX} memories at most")
        if slot == len(self._numbers):
            self._numbers = _grown(self._numbers, slot + 1, 0)
            self._lengths = _grown(self._lengths, slot + 1, np.inf)
        if number >= len(self._slot_of):
            self._slot_of = _grown(self._slot_of, number + 1, -1)
        self._numbers[slot], self._lengths[slot], self._slot_of[number] = number, length, slot
        self._slots += 1
        self._count += 1
        self._length_sum += length
        return slot

    def _vacate_slot(self, number: int) -> None:
        """Marks the slot of a memory as dead, if it has one. The caller holds the lock."""
        if number not in self:
            return
        self._vacated += 1
        slot = self._slot_of[number]
        self._count -= 1
        self._length_sum -= int(self._lengths[slot])
        self._lengths[slot] = np.inf
        self._slot_of[number] = -1

    def _find_postings(self, keys: Sequence[int]) -> _FoundPostings:
        """Looks up the postings of these keys, all at one moment."""
        wanted = np.array(keys, np.uint64)
        parts: list[NDArray[np.uint32]] = []
        counts: list[int] = []
        present: list[int] = []
        with self._lock:
            base = self._base
            places = np.searchsorted(base.keys, wanted)
            for key, place in zip(keys, places.tolist(), strict=True):
                count = 0
                if place < len(base.keys) and base.keys[place] == key:
                    parts.append(base.packed[base.offsets[place] : base.offsets[place + 1]])
                    count = len(parts[-1])
                recent = self._recent.get(key)
                if recent is not None:
                    parts.append(np.array(recent, np.uint32))
                    count += len(recent)
                if count:
                    counts.append(count)
                    present.append(key)
            packed = np.concatenate(parts) if parts else np.empty(0, np.uint32)
            slots = (packed >> 8).astype(np.intp)
            lengths, numbers = self._lengths[slots], self._numbers[: self._slots]
            slot_of, vacated, has_vacated = self._slot_of, self._vacated, self._slots > self._count
            memories, mean_length = self._count, self.mean_length
        frequencies = (packed & COUNT_MAX).astype(np.float32)
        return _FoundPostings(
            present, slots, frequencies, lengths, counts, numbers, slot_of, vacated, has_vacated, memories, mean_length
        )

    def _merge(self) -> None:
        """Merges all live slots into a new base. The caller holds `_writing`; searches go on until the swap."""
        alive = np.isfinite(self._lengths[: self._slots])
        base, recent = self._base, _frozen(self._recent)
        if not alive.all():
            base, recent = _living(base, alive), _living(recent, alive)
        base = _joined(base, recent)
        numbers, lengths = self._numbers[: self._slots][alive], self._lengths[: self._slots][alive]
        with self._lock:
            self._base, self._recent = base, _no_recent()
            self._adopt(numbers, lengths)

    def _adopt(self, numbers: NDArray[np.uint32], lengths: NDArray[np.float32]) -> None:
        """Makes these the slots, all alive and in the base."""
        if numbers.shape != lengths.shape:
            raise ValueError(f"{len(numbers)} numbers, {len(lengths)} lengths")
        self._numbers, self._lengths = numbers, lengths
        self._slots = self._base_slots = self._count = len(numbers)
        self._length_sum = int(lengths.sum(dtype=np.float64))
        slot_of = np.full(max(len(self._slot_of), int(numbers.max(initial=0)) + 1), -1, np.int32)
        slot_of[numbers] = np.arange(len(numbers), dtype=np.int32)
        self._slot_of = slot_of


def _grown(items: NDArray[Item], size: int, fill: float) -> NDArray[Item]:
    """A copy with room for at least size items, and half as many again."""
    more = np.full(size + size // 2 + 64, fill, items.dtype)
    more[: len(items)] = items
    return more


def _is_allowed(numbers: NDArray[np.uint32], allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    keep: NDArray[np.bool_] = numbers < len(allowed)
    keep[keep] = allowed[numbers[keep]]
    return keep


def _summed(found: _FoundPostings, all_held: Iterable[int]) -> NDArray[np.float64]:
    """BM25 by slot; zero where no term of the query is, or the slot is dead.

    ln(1 + (N - df + 0.5) / (df + 0.5)) · f · (K1 + 1) / (f + K1 · (1 - B + B · length / mean length)), summed over
    terms; f is the term's occurrences, weighted by field as in BM25F. Robertson and Zaragoza, The Probabilistic
    Relevance Framework (2009), with the 1 + of Lucene, which keeps the weight of common terms above zero.
    """
    weights = np.array([_weight(found.memories, held) for held in all_held], np.float32)
    parts = _parts(found.frequencies, found.lengths, np.repeat(weights, found.counts), found.mean_length)
    return np.bincount(found.slots, parts, len(found.numbers)).astype(np.float64, copy=False)  # adds in this order


def _reached(found: _FoundPostings, sums: NDArray[np.float64], k: int, allowed: NDArray[np.bool_] | None) -> float:
    """A score above 0 that the k best surely reach, so that lower ones need no sorting.

    The k-th best of the memories that hold a rare term of the query is such a bound: most memories that hold only a
    common term are then left out at once.
    """
    least = float(np.nextafter(0.0, 1.0))
    enough = [(count, start) for count, start in zip(found.counts, _starts(found), strict=True) if count >= k]
    if len(found.slots) < MANY_POSTINGS or not enough:
        return least
    count, start = min(enough)
    slots = found.slots[start : start + count]
    if allowed is not None:
        slots = slots[_is_allowed(found.numbers[slots], allowed)]
    if len(slots) < k:
        return least
    scores = sums[slots].astype(np.float32)  # two that are one score apart only as float64 are equal
    reached = np.partition(scores, len(scores) - k)[len(scores) - k]
    return max(least, float(np.nextafter(reached, np.float32(0))))


def _held(found: _FoundPostings) -> list[int]:
    """Number of memories in the index that hold each of the terms."""
    if not found.counts:
        return []
    if not found.has_vacated:
        return found.counts
    held: list[int] = np.add.reduceat(np.isfinite(found.lengths), _starts(found), dtype=np.int64).tolist()
    return held


def _starts(found: _FoundPostings) -> list[int]:
    """Index of the first posting of each term."""
    return list(itertools.accumulate(found.counts[:-1], initial=0)) if found.counts else []


def _weight(memories: int, held: int) -> float:
    """BM25 weight of a term that `held` of the memories hold."""
    return (K1 + 1) * _rarity(memories, held)


def _rarity(memories: int, held: int) -> float:
    return math.log1p((memories - held + 0.5) / (held + 0.5))


def _parts(
    frequencies: NDArray[np.float32], lengths: NDArray[np.float32], weights: NDArray[np.float32], mean_length: float
) -> NDArray[np.float32]:
    """Contribution of each posting to its memory's score."""
    damping = lengths * np.float32(K1 * B / (mean_length or 1.0))
    damping += np.float32(K1 * (1 - B))
    damping += frequencies
    parts = frequencies * weights
    parts /= damping
    return parts


def _best(numbers: NDArray[np.uint32], scores: NDArray[np.float32], k: int) -> LexicalHits:
    """The k highest scores, in the order of LexicalHits."""
    if len(scores) > k:
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        keep = np.flatnonzero(scores >= least)
        numbers, scores = numbers[keep], scores[keep]
    order = np.lexsort((numbers, -scores))[:k]
    return LexicalHits(numbers[order], scores[order])


def _sorted(keys: NDArray[np.uint64], packed: NDArray[np.uint32]) -> _Postings:
    """Builds postings from one key each, slots ascending."""
    order = np.argsort(keys, kind="stable")
    unique, first = np.unique(keys[order], return_index=True)
    return _Postings(unique, np.append(first, len(keys)).astype(np.int64), packed[order])


def _frozen(recent: Mapping[int, "array[int]"]) -> _Postings:
    """Builds postings from the growing arrays."""
    keys = np.fromiter(recent, np.uint64, len(recent))
    counts = [len(postings) for postings in recent.values()]
    return _sorted(np.repeat(keys, counts), np.frombuffer(b"".join(recent.values()), np.uint32))


def _living(postings: _Postings, alive: NDArray[np.bool_]) -> _Postings:
    """The postings of live slots, numbered again without gaps."""
    if not len(postings.keys):
        return postings
    slots = postings.packed >> 8
    keep = alive[slots]
    counts = np.add.reduceat(keep, postings.offsets[:-1], dtype=np.int64)
    renumbered = (np.cumsum(alive, dtype=np.uint32) - np.uint32(1)) << 8
    packed = renumbered[slots[keep]] | (postings.packed[keep] & np.uint32(COUNT_MAX))
    held = counts > 0
    return _Postings(postings.keys[held], np.concatenate(([0], np.cumsum(counts[held]))), packed)


def _joined(first: _Postings, second: _Postings) -> _Postings:
    """Joins both; every slot of the first is below every slot of the second, which should be the smaller."""
    keys = np.concatenate((first.keys, second.keys))
    keys.sort(kind="stable")  # merges two rising runs; np.union1d hashes, which takes 250 times as long at a million
    is_new = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=is_new[1:])
    keys = keys[is_new]
    before, added = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    before[np.searchsorted(keys, first.keys)] = np.diff(first.offsets)
    places = np.searchsorted(keys, second.keys)
    added[places] = np.diff(second.offsets)
    offsets = np.concatenate(([0], np.cumsum(before + added)))
    target = np.repeat((offsets[:-1] + before)[places] - second.offsets[:-1], added[places])
    target += np.arange(len(target))
    packed = np.empty(int(offsets[-1]), np.uint32)
    packed[target] = second.packed
    rest = np.ones(len(packed), np.bool_)  # a mask, not positions as above, which would take 8 bytes a posting
    rest[target] = False
    packed[rest] = first.packed
    return _Postings(keys, offsets, packed)
