"""Selection of the answers from the ranked candidates, and their order. SPEC 7.5

Equal content is returned once, of near copies the best. A value that replaced another one stands first, and the older
value directly after it. Then whatever fits the token budget follows in order. Candidates are identified by number;
their data is read through a CandidateSource, and only for candidates that the answer reaches.
"""

import functools
import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mnemo_core.similarity.thresholds import RELATIVE_MS_MAX, Thresholds, is_similar
from mnemo_core.text.canonical import CanonicalForm, canonical_form, difference
from mnemo_core.text.tokens import NEGATIONS, OPERATORS, OPPOSITES, RELATIVE_DAYS, TextToken
from mnemo_store.record_texts import content_hash
from mnemo_store.records import OWN_TRUSTS, Memory

PREFERENCES_MAX = 5  # that come first, not counted in top_k [L 2.6]
PREFERENCES_SHARE = 4  # of the budget they get a quarter at most
OTHERS_SHARE = 4  # of top_k and budget: a quarter for what others wrote, where the person's own fills the rest
OTHERS_PASSED_MAX = 64  # texts of others that wait for room while those of the person behind them are looked for
WAS_SHARE = 4  # at most a quarter of top_k are earlier values of an answer before them, at least one
COMPARED_MAX = 48  # answers that a candidate is compared with to find near copies
IMPERSONAL_SOURCES = ("note", "ingest")  # whose passages say how somebody wants things, and not whose memory it is
COMPARED_CHARS_MAX = 120_000  # of all pairs of near answers together: beyond it none is called a copy of another
REPLACED_STATES = ("superseded", "compressed")  # of what is found only where a request asks for it
CHAIN_MAX = 32  # values of one thing that are followed from one to the next
LIKELY_PLACES_MAX = 5  # that a value which perhaps replaced another one moves up, to stand before it. SPEC 5.8
LIKELY_SIM_MIN = 0.55  # cosine of the two, where both have vectors: less alike, they are about other things [measured]
LIKELY_SHARE_MIN = 0.02  # of the score of the other one
OWN_SHARE_MIN = 0.1  # of the score of another value: what is about something else scores less
REWORDED_VALUES_MAX = 400  # a longer text is a near copy only where the other contains all of it

Windows = NDArray[np.float32]
Copies = Literal["near", "equal", "all"]  # of near copies the best is shown; of equal texts; all are


class CandidateSource(Protocol):
    """Access to the candidate memories by number."""

    def memory(self, number: int) -> Memory | None:
        """The memory, None if it was erased since it was ranked."""

    def tokens(self, number: int) -> int: ...

    def windows(self, number: int) -> Windows | None:
        """Its unit vectors, one a row; None where it has none yet."""

    def is_preference(self, number: int) -> bool:
        """Like `is_preference` of the memory, without reading it where its kind alone decides."""

    def newer(self, number: int) -> Sequence[int]:
        """The candidates that update this one, ranked or not."""

    def older(self, number: int) -> Sequence[int]:
        """The candidates that this one updates, ranked or not."""

    def perhaps_newer(self, number: int) -> Sequence[int]:
        """The memories in scope that perhaps say a newer value of what this one says, found or not: one that is too
        weak to be answered by itself may stand before this one."""


class SelectionRequest(NamedTuple):
    """Limits of the answer. `budget` in tokens, None for none. `as_of` in ms, None for the present.

    by_score: the answers are ordered by score, so that newer values may be moved before older ones. limits_others: what
    others wrote has a share of top_k and budget, and more only where the person's own leaves room. by_event: equal
    words of different days are different events. copies: what is answered once.
    """

    top_k: int
    offset: int = 0
    budget: int | None = None
    preferences_first: bool = False
    by_score: bool = True
    as_of: int | None = None
    limits_others: bool = False
    by_event: bool = False
    copies: Copies = "near"


class SelectedMemory(NamedTuple):
    """One of the answers. ranked_as: the candidate whose place it has, which a newer value takes from an older.

    is_earlier_value: an older value of one before it. is_preference: it is one of those that come first. is_cut: it is
    larger than the budget, and only a passage of it, of up to `tokens`, is answered. is_limited: it is of the share of
    others. is_perhaps_earlier: one before it perhaps says a newer value.
    """

    number: int
    tokens: int
    ranked_as: int
    is_earlier_value: bool = False
    is_preference: bool = False
    is_cut: bool = False
    is_limited: bool = False
    is_perhaps_earlier: bool = False


class Selection(NamedTuple):
    """The answers in order. dropped: by number, why a candidate that was considered is not among them. tokens_needed:
    where nothing fits the budget whole, the tokens of the smallest (the best is answered cut); else 0."""

    chosen: list[SelectedMemory]
    tokens: int
    tokens_needed: int
    dropped: dict[int, str]
    uncompared: int = 0  # pairs of near ones that COMPARED_CHARS_MAX left no room for


def select(
    ranked: Sequence[int], source: CandidateSource, request: SelectionRequest, thresholds: Thresholds,
    preferences: Sequence[int] | None = None, scores: Mapping[int, float] | None = None,
) -> Selection:  # fmt: skip
    """Select the answers from `ranked`, the numbers of the candidates from best to worst. scores: of all candidates.

    preferences: candidates that may stand first, ranked or not, best first; None: the preferences among `ranked`.

    Pages continue each other: `offset` skips what the pages before contained, each cut to the budget like this one, so
    that continuing with the number of answers received neither repeats nor skips any. Preferences that stand first are
    on the first page alone, and are counted neither in top_k nor in offset; they stand where they are ranked if nothing
    else would fit next to them. Where everything else is larger than the budget, the first page has a passage of the
    best.
    """
    line = _CandidateSequence(ranked, source, request, thresholds, scores or {})
    ahead = line.preferences(ranked if preferences is None else preferences) if request.preferences_first else []
    budget = None if request.budget is None else request.budget - sum(each.tokens for each in ahead)
    queue = _Queue(line.entries())
    if ahead and budget is not None and not _fitting(queue, 1, budget)[0] and next(iter(queue), None):
        return select(ranked, source, request._replace(preferences_first=False), thresholds, scores=scores)
    passed = 0
    while passed < request.offset:
        page = _page(queue, min(request.top_k, request.offset - passed), budget, line.dropped)
        if not page:
            return Selection([], 0, 0, line.dropped, line.uncompared)
        passed += len(page)
        budget = request.budget
    page = _page(queue, request.top_k, budget, line.dropped)
    needs = 0 if page else line.smallest
    if not page and not request.offset and line.oversized is not None and budget is not None:
        page = [line.oversized._replace(tokens=budget, is_cut=True)]
        line.dropped.pop(line.oversized.number, None)
    chosen = page if request.offset else [*ahead, *page]
    return Selection(chosen, sum(each.tokens for each in chosen), needs, line.dropped, line.uncompared)


def is_preference(memory: Memory) -> bool:
    """Return whether the memory states a preference or rule of the person, in the person's own words. SPEC 2.1, 7.5

    A step of a run and a how-to are procedural too, and a passage of documentation is nobody's own.
    """
    is_own = memory.trust == "user" and memory.source not in IMPERSONAL_SOURCES
    return memory.kind == "procedural" and memory.form in (None, "preference") and is_own


def is_copy(
    best: Memory, other: Memory, sim: float | None, thresholds: Thresholds,
    read: Callable[[str], CanonicalForm] = canonical_form,
) -> bool:  # fmt: skip
    """Return whether `other` adds nothing to `best`. sim: their cosine, None where one has no vector; read: the
    canonical form of a text, possibly cached.

    So close that they would be merged, no text of others in the place of the person's, and: no specific differs; or all
    of the other stands in the best, in its order;
    or it is the best in other words. Those others may be plain words alone, in several places, since a single one in
    the place of another (the red wire, the black wire) is what the two differ in.
    """
    near = is_similar(best.content, other.content, None, thresholds) if sim is None else sim >= thresholds.merge
    if not near or is_apart(best, other) or (other.trust in OWN_TRUSTS and best.trust not in OWN_TRUSTS):
        return False
    one, two = read(best.content), read(other.content)
    if difference(one, two) is None:
        return True
    more, less = _more(two, one), _more(one, two)
    if any(map(_turns, (*more, *less))) or any(b.value in OPPOSITES.get(a.value, ()) for a in less for b in more):
        return False
    if not more:
        rest = iter(one.values)
        return all(value in rest for value in two.values)
    return all(atom.kind in ("word", "end") for atom in more) and _edits(one, two) > 1


def is_apart(one: Memory, other: Memory) -> bool:
    """Return whether the two cannot be one statement whatever they say: different speakers, different days."""
    if one.speaker and other.speaker and one.speaker != other.speaker:
        return True
    if abs(one.event_at - other.event_at) <= RELATIVE_MS_MAX:
        return False
    words = {word.casefold().strip(".,;:!?") for memory in (one, other) for word in memory.content.split()}
    return "episodic" in (one.kind, other.kind) or not RELATIVE_DAYS.isdisjoint(words)


def _more(text: CanonicalForm, than: CanonicalForm) -> list[TextToken]:
    """The tokens that the text has in excess of the other."""
    return list(Counter(text.tokens) - Counter(than.tokens))


def _turns(atom: TextToken) -> bool:
    """Return whether the token can turn a statement into its opposite."""
    return atom.kind in ("negation", "opposite") or atom.value in NEGATIONS or atom.value in OPERATORS


def _edits(one: CanonicalForm, two: CanonicalForm) -> int:
    """Number of places in which the texts differ; 0 where they are too long to be compared."""
    if max(len(one.values), len(two.values)) > REWORDED_VALUES_MAX:
        return 0
    return sum(edit[0] != "equal" for edit in SequenceMatcher(None, one.values, two.values, False).get_opcodes())


class _CandidateSequence:
    """The candidates in the order in which they may be answered, each looked at when it is asked for."""

    def __init__(
        self, ranked: Sequence[int], source: CandidateSource, request: SelectionRequest, thresholds: Thresholds,
        scores: Mapping[int, float],
    ) -> None:  # fmt: skip
        self.dropped: dict[int, str] = {}
        self.smallest = 0  # tokens of the smallest candidate that is larger than the whole budget
        self.oversized: SelectedMemory | None = None  # and the first of them
        self._ranked = ranked
        self._places = {number: place for place, number in enumerate(ranked)}
        self._source = source
        self._wanted = request
        self._scores = scores
        self._copies = _CopyFilter(source, thresholds, request.copies, by_event=request.by_event)
        self._seen: set[int] = set()
        self._perhaps_earlier: set[int] = set()

    @property
    def uncompared(self) -> int:
        return self._copies.uncompared

    def preferences(self, numbers: Sequence[int]) -> list[SelectedMemory]:
        """The first PREFERENCES_MAX that fit into their share of the budget, each behind what is perhaps newer."""
        room = None if self._wanted.budget is None else self._wanted.budget // PREFERENCES_SHARE
        found: list[SelectedMemory] = []
        for number in numbers:
            if len(found) == PREFERENCES_MAX:
                break
            if not self._source.is_preference(number):
                continue
            current, _ = self._family(number)
            if current in self._seen or not self._source.is_preference(current):
                continue
            newer = [each for each in self._source.perhaps_newer(current) if self._are_alike(current, each)]
            if newer and self._wanted.as_of is None:
                self._perhaps_earlier.add(current)
            for each in [*filter(self._source.is_preference, newer), current]:
                left = None if room is None else room - sum(entry.tokens for entry in found)
                is_full = len(found) == PREFERENCES_MAX or (left is not None and self._source.tokens(each) > left)
                if each not in self._seen and not is_full and (entry := self._admitted(each, number)):
                    found.append(entry._replace(is_preference=True))
        return found

    def entries(self) -> Iterator[SelectedMemory]:
        """The possible answers in order, without equal contents, near copies, and what is larger than the budget."""
        was_max = max(1, self._wanted.top_k // WAS_SHARE)
        for number in self._ranked:
            if number in self._seen:
                continue
            yield from self._perhaps_newer(number)
            current, older = self._family(number)
            together = [] if current in self._seen else [current, *older[:was_max]]
            for each in dict.fromkeys([*together, number]):
                through = number if each == current else each
                is_found = bool(together) and each == number
                if each not in self._seen and (entry := self._admitted(each, through, each in older, is_found)):
                    yield entry

    def _perhaps_newer(self, number: int) -> Iterator[SelectedMemory]:
        """The next few candidates that perhaps say a newer value of this one, each in the place of this one."""
        if not self._wanted.by_score or self._wanted.as_of is not None:
            return
        place = self._places[number]
        least = self._scores.get(number, 0.0) * LIKELY_SHARE_MIN
        newer = [each for each in self._source.perhaps_newer(number) if each in self._scores or not self._scores]
        newer = [each for each in newer if self._scores.get(each, 0.0) >= least and self._are_alike(number, each)]
        for each in newer:
            if each not in self._seen and self._places.get(each, place + 1) <= place + LIKELY_PLACES_MAX:
                current, _ = self._family(each)
                if current not in self._seen and (entry := self._admitted(current, number)):
                    yield entry
        if not self._seen.isdisjoint(newer):
            self._perhaps_earlier.add(number)

    def _are_alike(self, one: int, other: int) -> bool:
        """Return whether two candidates are near enough to speak of one thing; also where one has no vector."""
        ones, others = self._source.windows(one), self._source.windows(other)
        return ones is None or others is None or float((ones @ others.T).max()) >= LIKELY_SIM_MIN

    def _admitted(self, number: int, through: int, was: bool = False, is_found: bool = False) -> SelectedMemory | None:
        """The candidate as an answer; None where it is left out. is_found: the ones before it came only because it was
        found, so that a replaced value that the request asks for is no near copy of them."""
        self._seen.add(number)
        memory = self._source.memory(number)
        if memory is None:
            self.dropped[number] = "gone"
            return None
        tokens, budget = self._source.tokens(number), self._wanted.budget
        if budget is not None and tokens > budget:
            self.dropped[number] = "over_budget"
            self.smallest = min(tokens, self.smallest or tokens)
            if not was:
                self.oversized = self.oversized or SelectedMemory(number, tokens, through)
            return None
        why = self._copies.why_not(number, memory)
        if why and not (why == "near_copy" and is_found and memory.state in REPLACED_STATES):
            self.dropped[number] = why
            return None
        is_limited = self._wanted.limits_others and memory.trust not in OWN_TRUSTS
        is_doubtful = number in self._perhaps_earlier
        return SelectedMemory(number, tokens, through, was, is_limited=is_limited, is_perhaps_earlier=is_doubtful)

    def _family(self, number: int) -> tuple[int, list[int]]:
        """The current value of the chain of updates that this candidate belongs to, and its ranked earlier values,
        nearest first.

        The `updates` edges decide which value is newer, not event_at, which can be a date in the text.
        """
        if not self._wanted.by_score or not (self._source.newer(number) or self._source.older(number)):
            return number, []
        as_of = self._wanted.as_of
        known = [number, *self._reached(number, self._source.newer)]
        if as_of is not None:
            if self._event_at(number) > as_of:
                known += self._reached(number, self._source.older)
            known = [each for each in known if self._event_at(each) <= as_of] or [number]
        updated = {older for each in known for older in self._source.older(each)}
        last = [each for each in known if each not in updated] or known
        # An older memory that said two things is replaced by two others: the one that bears on the question counts.
        least = max(self._scores.get(each, 0.0) for each in last) * OWN_SHARE_MIN
        bearing = [each for each in last if self._scores.get(each, 0.0) >= least]
        current = max(bearing, key=lambda each: (self._event_at(each), each))
        return current, [each for each in self._reached(current, self._source.older) if each in self._places]

    def _reached(self, number: int, step: Callable[[int], Sequence[int]]) -> list[int]:
        """The candidates that `step` leads to from this one, itself excluded, nearest first, about CHAIN_MAX at
        most."""
        reached: dict[int, None] = {}
        waiting = deque([number])
        while waiting and len(reached) < CHAIN_MAX:
            for each in step(waiting.popleft()):
                if each != number and each not in reached and self._source.memory(each) is not None:
                    reached[each] = None
                    waiting.append(each)
        return list(reached)

    def _event_at(self, number: int) -> int:
        memory = self._source.memory(number)
        return memory.event_at if memory is not None else 0


class _CopyFilter:
    """The memories in the answer so far, compared with each further one."""

    def __init__(self, source: CandidateSource, thresholds: Thresholds, copies: Copies, *, by_event: bool) -> None:
        self._source = source
        self._thresholds = thresholds
        self._by_event = by_event
        self._copies = copies
        self.uncompared = 0
        self._chars_left = COMPARED_CHARS_MAX
        self._read = functools.cache(canonical_form)  # a text is compared with many, and read once for this answer
        self._hashes: dict[bytes, bool] = {}  # whether the text is in the answer as one of the person
        self._bare: list[Memory] = []  # kept, and without a vector
        self._kept: list[Memory] = []
        self._starts: list[int] = []  # of the windows of each of those
        self._windows: Windows = np.empty((0, 0), np.float32)  # with room to grow
        self._count = 0

    def why_not(self, number: int, memory: Memory) -> str:
        """Reason to leave the memory out, "" where there is none; it then becomes part of the answer."""
        if self._copies == "all":
            return ""
        digest, is_own = content_hash(memory.content), memory.trust in OWN_TRUSTS
        if self._by_event:
            digest += (memory.event_at // RELATIVE_MS_MAX).to_bytes(8, "big", signed=True)
        if digest in self._hashes and self._hashes[digest] >= is_own:
            return "duplicate_content"
        if self._copies == "equal":
            self._hashes[digest] = is_own
            return ""
        windows = self._source.windows(number)
        pairs: list[tuple[Memory, float | None]] = [(best, None) for best in self._bare]
        pairs += [(best, None) for best in self._kept] if windows is None else self._near(windows)
        if any(self._is_copy(best, memory, sim) for best, sim in pairs):
            return "near_copy"
        self._hashes[digest] = is_own
        if len(self._kept) + len(self._bare) < COMPARED_MAX:
            self._keep(memory, windows)
        return ""

    def _is_copy(self, best: Memory, memory: Memory, sim: float | None) -> bool:
        """As `is_copy`, within what one answer may compare: the largest tables of a folder, each near to all others,
        would keep everybody waiting."""
        if sim is None and not is_similar(best.content, memory.content, None, self._thresholds):
            return False
        chars = len(best.content) + len(memory.content)
        if chars > self._chars_left:
            self.uncompared += 1
            return False
        self._chars_left -= chars
        return is_copy(best, memory, sim, self._thresholds, self._read)

    def _keep(self, memory: Memory, windows: Windows | None) -> None:
        if windows is None:
            self._bare.append(memory)
            return
        needed = self._count + len(windows)
        if needed > len(self._windows):
            grown = np.empty((2 * needed + 8, windows.shape[1]), np.float32)
            grown[: self._count] = self._windows[: self._count] if self._count else 0
            self._windows = grown
        self._windows[self._count : needed] = windows
        self._starts.append(self._count)
        self._kept.append(memory)
        self._count = needed

    def _near(self, windows: Windows) -> list[tuple[Memory, float | None]]:
        """The kept ones that are near enough to be looked at, with their cosine: that of the two nearest windows."""
        if not self._kept:
            return []
        sims = (self._windows[: self._count] @ windows.T).max(axis=1)
        if sims.max() < self._thresholds.merge:
            return []
        nearest = np.maximum.reduceat(sims, self._starts)
        near = np.flatnonzero(nearest >= self._thresholds.merge)
        return [(self._kept[place], float(nearest[place])) for place in near.tolist()]


class _Queue:
    """The remaining entries in order; each iteration starts at the first."""

    def __init__(self, entries: Iterator[SelectedMemory]) -> None:
        self._entries = entries
        self._waiting: list[SelectedMemory] = []

    def __iter__(self) -> Iterator[SelectedMemory]:
        place = 0
        while True:
            if place == len(self._waiting):
                entry = next(self._entries, None)
                if entry is None:
                    return
                self._waiting.append(entry)
            yield self._waiting[place]
            place += 1

    def remove(self, entries: Collection[SelectedMemory]) -> None:
        gone = frozenset(entries)
        self._waiting = [each for each in self._waiting if each not in gone]


def _page(queue: _Queue, size: int, budget: int | None, dropped: dict[int, str]) -> list[SelectedMemory]:
    """The next page: in order whatever fits. Older values stay out where without them one more would fit. [L 2.6]"""
    taken, passed = _fitting(queue, size, budget)
    if passed and any(each.is_earlier_value for each in taken):
        current, _ = _fitting((each for each in queue if not each.is_earlier_value), size, budget)
        if not frozenset(passed).isdisjoint(current):
            out = [each for each in taken if each.is_earlier_value]
            dropped.update((each.number, "older_value") for each in out)
            queue.remove(out)
            taken = current
    dropped.update((each.number, "over_budget") for each in passed)
    for each in taken:
        dropped.pop(each.number, None)
    queue.remove(taken)
    return taken


def _fitting(
    entries: Iterable[SelectedMemory], size: int, budget: int | None
) -> tuple[list[SelectedMemory], list[SelectedMemory]]:
    """Split the entries into those that fit, at most `size`, and those passed over on the way. [L22] Those of the share
    of others wait once it is full, and get what is left behind the last of the person's."""
    taken: dict[int, SelectedMemory] = {}
    passed: list[SelectedMemory] = []
    waiting: list[tuple[int, SelectedMemory]] = []
    total, shares = 0, [max(1, size // OTHERS_SHARE), math.inf if budget is None else budget // OTHERS_SHARE]

    def take(place: int, entry: SelectedMemory) -> None:
        nonlocal total
        if budget is None or total + entry.tokens <= budget:
            taken[place] = entry
            total += entry.tokens
        else:
            passed.append(entry)

    for place, each in enumerate(entries):
        if each.is_limited and (shares[0] < 1 or shares[1] < each.tokens):
            waiting.append((place, each))
            if len(waiting) == OTHERS_PASSED_MAX:
                break
            continue
        take(place, each)
        if each.is_limited and place in taken:
            shares = [shares[0] - 1, shares[1] - each.tokens]
        if len(taken) == size:
            break
    for place, each in waiting:
        if len(taken) < size:
            take(place, each)
    return [taken[place] for place in sorted(taken)], passed
