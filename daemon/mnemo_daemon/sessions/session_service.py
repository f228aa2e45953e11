"""Sessions as their readers see them: the active ring, the recent turns, the list of sessions. SPEC 8 [T1, T5]

Everything is read from the store. Only the recalled items that re-entered a ring are in memory, by their ids: each is
the summary of a memory that is stored already, and is written nowhere. Turns are found by the columns.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.session_records import SessionScope, key_of, scope_of, session_of_turns
from mnemo_core.sessions.tiers import RING_ITEMS, in_order, is_live_turn, pair_summary, summary_of, tier_of
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.table_walk import Place, walk_table
from mnemo_store.backend import Snapshot
from mnemo_store.indexes.attributes import AttributeStore, MemoryFilter
from mnemo_store.records import STATES, TIERS, Memory, Session, Tier, TurnPair
from mnemo_store.store import Commit, Store
from mnemo_store.tables import SESSIONS, TURN_PAIRS

_ACTIVE = STATES.index("active")
_SESSION = ("namespace", "user_id", "session_id")

PROMOTING_SESSIONS_MAX = 500  # whose recalled items are kept; the one that recalled longest ago loses them first
SHOWN_STATES = ("active", "archived")  # of turns that a session still has


def turns_in(columns: AttributeStore, tiers: Sequence[Tier], scope: SessionScope | None = None) -> NDArray[np.intp]:
    """The numbers of the turns in these tiers, of one session or of all; turns that are not active are in none."""
    tier, state, *session = columns.columns("tier", "state", *_SESSION)
    found = np.isin(tier, [1 + TIERS.index(each) for each in tiers]) & (state == _ACTIVE) & (session[-1] != 0)
    if scope is not None:
        for column, name, value in zip(session, _SESSION, scope, strict=True):
            found &= column == columns.code(name, value)
    return np.flatnonzero(found)


def by_session(columns: AttributeStore, numbers: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """The numbers in groups, one for each session."""
    return _grouped(columns, numbers, _SESSION)


def by_owner(columns: AttributeStore, numbers: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """The numbers in groups, one for each user in a namespace."""
    return _grouped(columns, numbers, _SESSION[:2])


def sessions_with_turns(columns: AttributeStore, scopes: Sequence[SessionScope]) -> list[bool]:
    """For each session, whether it has a turn, in whatever state."""
    tier, state, *session = columns.columns("tier", "state", *_SESSION)
    is_turn = (tier != 0) & (state < len(STATES))  # the rest have no memory
    present = set(zip(*(column[is_turn].tolist() for column in session), strict=True))
    return [tuple(map(columns.code, _SESSION, scope)) in present for scope in scopes]


def _grouped(columns: AttributeStore, numbers: NDArray[np.intp], names: Sequence[str]) -> list[NDArray[np.intp]]:
    if not len(numbers):
        return []
    keys = np.stack([columns.values(name, numbers) for name in names])
    order = np.lexsort(keys)
    is_other = (keys[:, order[1:]] != keys[:, order[:-1]]).any(axis=0)
    return np.split(numbers[order], np.flatnonzero(is_other) + 1)


class RingItem(NamedTuple):
    """An item of a ring: a turn as it is, or the summary of what was recalled (of a pair: of its first turn)."""

    memory: Memory
    text: str
    is_promoted: bool = False


class SessionService:
    """The service. Any thread may call it."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views
        self._lock = threading.Lock()
        # The recalled memories that entered a ring: an id of that moment, in order with those of the turns, and theirs.
        self._promoted: OrderedDict[SessionScope, deque[tuple[str, str]]] = OrderedDict()
        self._entered: dict[SessionScope, None] = {}  # sessions that items entered since they were looked at
        self._has_dropped = True  # a memory was erased since the last look, or there was no look since the start
        views.add_listener(self._on_commit)

    def ring(self, scope: SessionScope) -> list[RingItem]:
        """The last RING_ITEMS items of a session, in the order in which they entered."""
        turns, promotions = self.ring_entries(scope)
        entries: list[tuple[str, Memory | str]] = [(turn.id, turn) for turn in turns]
        entries += promotions
        entries.sort(key=lambda each: each[0])
        with self._store.snapshot() as snapshot:
            items = [_ring_item(snapshot, each) for _, each in entries[-RING_ITEMS:]]
        return [item for item in items if item is not None]

    def recent(self, scope: SessionScope) -> list[Memory]:
        """The recent turns of a session, in the order in which they were said."""
        return in_order(self.turns(scope, ("recent",)))

    def promote(self, scope: SessionScope, memory_ids: Iterable[str]) -> None:
        """Let recalled memories enter the ring of a session, but for those that are in it already. [T14] A pair enters
        by its first turn."""
        known = {item.memory.id for item in self.ring(scope)}
        with self._lock:
            promoted = self._promoted.setdefault(scope, deque(maxlen=RING_ITEMS))
            self._promoted.move_to_end(scope)
            promoted.extend((self._store.new_id(), each) for each in dict.fromkeys(memory_ids) if each not in known)
            self._entered[scope] = None
            while len(self._promoted) > PROMOTING_SESSIONS_MAX:
                self._promoted.popitem(last=False)

    def read(self, scope: SessionScope) -> Session | None:
        """The record of a session; one that came in without is made of its turns."""
        with self._store.snapshot() as snapshot:
            session = snapshot.get(SESSIONS, key_of(scope))
        if session is None and (turns := self.turns(scope, TIERS)):
            return session_of_turns(turns)
        return session

    def listed(
        self, namespaces: Sequence[str], user_id: str, limit: int, behind: Place | None
    ) -> tuple[list[Session], bool]:
        """Sessions of a user in these namespaces (none named: all), the one with the latest turn first, behind a place
        in that order; and whether there are more."""
        found: list[Session] = []
        for sessions in walk_table(self._store, SESSIONS, lambda _, rows: rows):
            found += [each for each in sessions if each.user_id == user_id
                      and (not namespaces or each.namespace in namespaces)
                      and (behind is None or (each.last_at, each.id) < behind)]  # fmt: skip
            found = sorted(found, key=lambda each: (each.last_at, each.id), reverse=True)[: limit + 1]
        return found[:limit], len(found) > limit

    def pairs_of(self, memory_ids: Sequence[str]) -> list[TurnPair]:
        """The pairs that any of these turns is in, each once."""
        with self._store.snapshot() as snapshot:
            pairs = [pair_at(snapshot, each) for each in memory_ids]
        return list({(pair.id, pair.reply): pair for pair in pairs if pair is not None}.values())

    def tier_counts(self, wanted: MemoryFilter) -> dict[str, int]:
        """The number of turns that pass the filter in each tier, and of those that are archived."""
        columns = self._views.attributes
        mask = columns.uncached_mask(wanted)
        tier, state = (column[: len(mask)][mask] for column in columns.columns("tier", "state"))
        counts = np.bincount(tier[state == _ACTIVE], minlength=len(TIERS) + 1)[1:].tolist()
        archived = (tier != 0) & (state == STATES.index("archived"))
        return {**dict(zip(TIERS, counts, strict=True)), "archived": int(archived.sum())}

    def turns(self, scope: SessionScope, tiers: Sequence[Tier]) -> list[Memory]:
        """The turns of a session in these tiers."""
        columns = self._views.attributes
        ids = columns.ids(turns_in(columns, tiers, scope).tolist())
        with self._store.snapshot() as snapshot:
            turns = [memory for memory in map(snapshot.memory, ids) if memory is not None and is_live_turn(memory)]
        return [turn for turn in turns if tier_of(turn) in tiers]

    def ring_entries(self, scope: SessionScope) -> tuple[list[Memory], Sequence[tuple[str, str]]]:
        """All turns of the tier `ring`, and the recalled items, each in the order in which they entered."""
        with self._lock:
            promotions = tuple(self._promoted.get(scope, ()))
        return sorted(self.turns(scope, ("ring",)), key=lambda turn: turn.id), promotions

    def drop_promoted(self, scope: SessionScope) -> None:
        """Forget what was recalled in a session, which has ended."""
        with self._lock:
            self._promoted.pop(scope, None)

    # What the tiers have to look at

    def has_entered(self) -> bool:
        """Return whether an item entered a ring that was not looked at since."""
        return bool(self._entered)

    def add_entered(self, scopes: Iterable[SessionScope]) -> None:
        """Have the rings of these sessions looked at."""
        with self._lock:
            self._entered |= dict.fromkeys(scopes)

    def take_entered(self) -> SessionScope | None:
        """The next session whose ring is to be looked at."""
        with self._lock:
            scope = next(iter(self._entered), None)
            if scope is not None:
                del self._entered[scope]
            return scope

    def mark_dropped(self) -> None:
        """Have what an erasure leaves looked at again."""
        self._has_dropped = True

    def take_dropped(self) -> bool:
        """Return whether a memory was erased since the last call, or there was none since the start."""
        has_dropped, self._has_dropped = self._has_dropped, False
        return has_dropped

    def _on_commit(self, commit: Commit) -> None:
        memories = [each.memory for each in commit.touched if each.memory is not None]
        turns = [memory for memory in memories if is_live_turn(memory) and tier_of(memory) == "ring"]
        self.add_entered(map(scope_of, turns))
        self._has_dropped |= any(each.dropped for each in commit.touched)


def pair_at(snapshot: Snapshot, memory_id: str) -> TurnPair | None:
    """The pair that a turn is in."""
    return next(iter(snapshot.under(TURN_PAIRS, memory_id)), None)


def _ring_item(snapshot: Snapshot, item: Memory | str) -> RingItem | None:
    """An item as it is shown; None for a recalled memory that is gone or hidden by now."""
    if isinstance(item, Memory):
        return RingItem(item, item.content)
    memory = snapshot.memory(item)
    if memory is None or memory.state not in SHOWN_STATES:
        return None
    pair = pair_at(snapshot, item)
    reply = snapshot.memory(pair.reply) if pair is not None and pair.id == item and pair.reply != item else None
    if reply is None or reply.state not in SHOWN_STATES:
        return RingItem(memory, summary_of(memory), is_promoted=True)
    return RingItem(memory, pair_summary(memory, reply), is_promoted=True)
