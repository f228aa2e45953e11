"""Turns move between the tiers of their sessions: pushed out, filed in pairs, archived. SPEC 8 [T1, T5, T6, T7, T15]

Each step is one transaction, and the remaining work is read from the store: after a crash the next look goes on. A step
decides again, within its transaction, whether a turn still is where it was seen.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from mnemo_core.ingest.policies import PolicyOf, own_policy
from mnemo_core.ingest.session_records import SessionScope, key_of, scope_of, session_of_turns
from mnemo_core.retrieval.versions import TURN_TIER
from mnemo_core.sessions.tiers import (
    RECENT_MAX,
    REGISTRY_MAX,
    Exchange,
    crowded_out,
    discarded,
    evicted_items,
    in_order,
    in_tier,
    is_cold,
    is_live_turn,
    is_over,
    moved,
    pair_of,
    pair_turns,
    pushed_out,
    tier_of,
)
from mnemo_daemon.history_names import BY_SESSIONS
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.sessions.session_service import (
    SessionService,
    by_owner,
    by_session,
    pair_at,
    sessions_with_turns,
    turns_in,
)
from mnemo_daemon.table_walk import walk_table
from mnemo_store.backend import READ_SLICE, Snapshot
from mnemo_store.batches import batched
from mnemo_store.records import Change, DropSession, Memory, PutMemory, PutSession, PutTurnPair, Session, Tier, TurnPair
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import SESSIONS, TURN_PAIRS

MOVED_PER_WRITE = 100  # turns, or exchanges

_OPEN: tuple[Tier, ...] = ("ring", "recent")


class TurnTiers:
    """The moves. `push_out_slice` and `sweep_slice` are the jobs'; any thread may call `end` and `consolidate`."""

    def __init__(
        self, store: Store, views: Views, sessions: SessionService, registry_max: int = REGISTRY_MAX,
        policy: PolicyOf = own_policy,
    ) -> None:  # fmt: skip
        """registry_max: pairs of a user in a namespace that are not archived."""
        self._registry_max = registry_max
        self._policy = policy
        self._store = store
        self._views = views
        self._sessions = sessions
        self._has_looked = False  # at the rings of all sessions, since the start
        self._sweep: Iterator[None] | None = None  # the one under way

    # The ring, and the recent turns

    def is_push_out_due(self) -> bool:
        """Return whether an item entered a ring since the last look."""
        return not self._has_looked or self._sessions.has_entered()

    def push_out_slice(self) -> bool:
        """Push turns out of the rings of a session that items entered; return whether there are more."""
        if not self._has_looked:
            self._sessions.add_entered(self._open_sessions())
            self._has_looked = True
        if (scope := self._sessions.take_entered()) is not None:
            self.push_out(scope)
        return self._sessions.has_entered()

    def push_out(self, scope: SessionScope) -> None:
        """Push out of the ring what newer items leave no room for, and file what then crowds the recent turns."""
        turns, promotions = self._sessions.ring_entries(scope)
        entries = sorted([(turn.id, turn.id) for turn in turns] + [(entry, "") for entry, _ in promotions])
        policy = self._policy(scope.namespace)
        evicted = [turn for _, turn in evicted_items(entries) if turn]
        self._move(evicted, "ring", lambda turn, now: pushed_out(turn, policy, now))
        whole, recent = self._recent_exchanges(scope)
        crowded = crowded_out(whole, recent - RECENT_MAX)
        if policy.unimportant_turns == "discarded":
            self._move([turn.id for exchange in crowded for turn in exchange], "recent", discarded)
        else:
            self._file(crowded)

    def _move(self, ids: Sequence[str], tier: Tier, to: Callable[[Memory, int], Memory]) -> None:
        """Move turns out of a tier. to: the next version of each, at a time."""
        for some in batched(ids, MOVED_PER_WRITE):

            def decide(snapshot: Snapshot, some: Sequence[str] = some) -> WriteResult[None]:
                turns = _live(snapshot, some, (tier,))
                return WriteResult([PutMemory(data=to(turn, snapshot.now)) for turn in turns], None, TURN_TIER)

            self._store.transact(decide, by=BY_SESSIONS.name, background=True).result()

    def _recent_exchanges(self, scope: SessionScope) -> tuple[list[Exchange], int]:
        """The exchanges that are recent as a whole, in the order of time, and the number of all recent turns. One whose
        answer is in the ring waits for it."""
        exchanges = pair_turns(in_order(self._sessions.turns(scope, _OPEN)))
        recent = [[turn for turn in exchange if tier_of(turn) == "recent"] for exchange in exchanges]
        whole = [exchange for exchange, some in zip(exchanges, recent, strict=True) if len(some) == len(exchange)]
        return whole, sum(map(len, recent))

    # The registry

    def consolidate(self, scope: SessionScope) -> int:
        """File every recent turn of a session, however young; return the number of new pairs."""
        return self._file(self._recent_exchanges(scope)[0])

    def end(self, scope: SessionScope, *, only_idle: bool = False) -> int:
        """End a session: all of its turns are paired and filed. Return the number of new pairs. only_idle: leave it
        alone where it has not ended by itself, because a turn came meanwhile."""

        def mark_ended(snapshot: Snapshot) -> WriteResult[bool]:
            session = snapshot.get(SESSIONS, key_of(scope))
            if session is None or session.ended_at:
                return WriteResult((), session is not None)
            if only_idle and not is_over(session.last_at, snapshot.now):
                return WriteResult((), False)
            return WriteResult((PutSession(data=replace(session, ended_at=snapshot.now)),), True, TURN_TIER)

        self._record_if_missing(scope)
        if not self._store.transact(mark_ended, by=BY_SESSIONS.name).result().result:
            return 0
        self._sessions.drop_promoted(scope)
        return self._file(pair_turns(in_order(self._sessions.turns(scope, _OPEN))))

    def _file(self, exchanges: Iterable[Exchange]) -> int:
        """Move exchanges to the registry; return the number of new pairs."""
        count = 0
        for some in batched(list(exchanges), MOVED_PER_WRITE):

            def decide(snapshot: Snapshot, some: Sequence[Exchange] = some) -> WriteResult[int]:
                changes = [change for exchange in some for change in _filed(snapshot, exchange)]
                pairs = sum(isinstance(change, PutTurnPair) for change in changes)
                return WriteResult(changes, pairs, TURN_TIER)

            count += self._store.transact(decide, by=BY_SESSIONS.name, background=True).result().result
        return count

    # The sweep

    def sweep_slice(self) -> bool:
        """Do the next step of a sweep; return whether there is more."""
        self._sweep = self._sweep or self._sweep_steps()
        try:
            next(self._sweep)
        except StopIteration:
            self._sweep = None
            return False
        except BaseException:  # raised again: the scheduler reports it and tries again
            self._sweep = None
            self._sessions.mark_dropped()  # the step that failed may have been one of those
            raise
        return True

    def _sweep_steps(self) -> Iterator[None]:
        for scope in self._open_sessions():
            self.sweep(scope)
            yield
        if self._sessions.take_dropped():
            yield from self._pair_unpaired()
            columns = self._views.attributes
            for groups in batched(by_session(columns, turns_in(columns, ("registry",))), READ_SLICE):
                for scope in self._scopes([int(numbers[0]) for numbers in groups]):
                    self._record_if_missing(scope)
                yield
            yield from self._drop_empty()
        yield from self._archive_coldest()

    def sweep(self, scope: SessionScope) -> None:
        """File the cold turns of a session, and all of them where it has ended."""
        self._record_if_missing(scope)
        with self._store.snapshot() as snapshot:
            session, now = snapshot.get(SESSIONS, key_of(scope)), snapshot.now
        files_idle = self._policy(scope.namespace).files_idle_sessions
        if session is None or session.ended_at or (files_idle and is_over(session.last_at, now)):
            self.end(scope, only_idle=True)
        else:
            whole, _ = self._recent_exchanges(scope)
            self._file(each for each in whole if all(is_cold(turn, now) for turn in each))

    def _open_sessions(self) -> list[SessionScope]:
        """The sessions with turns that are not filed."""
        columns = self._views.attributes
        groups = by_session(columns, turns_in(columns, _OPEN))
        return self._scopes([int(numbers[0]) for numbers in groups])

    def _scopes(self, numbers: Iterable[int]) -> list[SessionScope]:
        """The sessions of these turns."""
        ids = self._views.attributes.ids(numbers)
        with self._store.snapshot() as snapshot:
            return [scope_of(turn) for turn in map(snapshot.memory, ids) if turn is not None and is_live_turn(turn)]

    # What an erasure or an import left

    def _record_if_missing(self, scope: SessionScope) -> None:
        """Make the record of a session whose turns came in without one."""
        with self._store.snapshot() as snapshot:
            is_known = snapshot.get(SESSIONS, key_of(scope)) is not None
        if is_known or not (turns := self._sessions.turns(scope, (*_OPEN, "registry"))):
            return

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            is_known = snapshot.get(SESSIONS, key_of(scope)) is not None
            return WriteResult(() if is_known else (PutSession(data=session_of_turns(turns)),), None, TURN_TIER)

        self._store.transact(decide, by=BY_SESSIONS.name, background=True).result()

    def _pair_unpaired(self) -> Iterator[None]:
        """Pair the turns of the registry that are in no pair, each by itself: their partners are gone."""
        columns = self._views.attributes
        for numbers in batched(turns_in(columns, ("registry",)).tolist(), READ_SLICE):
            ids = columns.ids(numbers)
            with self._store.snapshot() as snapshot:
                unpaired = [each for each in ids if pair_at(snapshot, each) is None]

            def decide(snapshot: Snapshot, unpaired: Sequence[str] = unpaired) -> WriteResult[None]:
                turns = _live(snapshot, unpaired, ("registry",))
                alone = [turn for turn in turns if pair_at(snapshot, turn.id) is None]
                return WriteResult([PutTurnPair(data=pair_of((turn,))) for turn in alone], None, TURN_TIER)

            if unpaired:
                self._store.transact(decide, by=BY_SESSIONS.name, background=True).result()
            yield

    def _drop_empty(self) -> Iterator[None]:
        """Drop the records of sessions that have no turn left, not even in the trash."""
        columns = self._views.attributes
        for sessions in walk_table(self._store, SESSIONS, lambda _, rows: rows):
            present = sessions_with_turns(columns, [scope_of(each) for each in sessions])
            empty = [session for session, is_there in zip(sessions, present, strict=True) if not is_there]

            def decide(snapshot: Snapshot, empty: Sequence[Session] = empty) -> WriteResult[None]:
                is_sure = self._views.state == "ready"  # and no turn came
                gone = [each for each in empty if is_sure and snapshot.get(SESSIONS, each.id) == each]
                return WriteResult([DropSession(id=each.id) for each in gone], None, TURN_TIER)

            if empty:
                self._store.transact(decide, by=BY_SESSIONS.name, background=True, frees=True).result()
            yield

    # The cap of the registry

    def _archive_coldest(self) -> Iterator[None]:
        """Archive the oldest pairs of each user in a namespace beyond the cap."""
        columns = self._views.attributes
        for numbers in by_owner(columns, turns_in(columns, ("registry",))):
            if len(numbers) <= self._registry_max:  # a pair has one turn or two
                continue
            pairs: list[TurnPair] = []
            in_time = numbers[np.argsort(columns.values("event_at", numbers), kind="stable")]
            for some in batched(in_time.tolist(), READ_SLICE):
                ids = columns.ids(some)
                with self._store.snapshot() as snapshot:
                    found = ((each, pair_at(snapshot, each)) for each in ids)
                    pairs += [pair for each, pair in found if pair is not None and pair.id == each]
                yield
            for coldest in batched(pairs[: max(0, len(pairs) - self._registry_max)], MOVED_PER_WRITE):

                def decide(snapshot: Snapshot, coldest: Sequence[TurnPair] = coldest) -> WriteResult[None]:
                    changes = [change for pair in coldest for change in _archived(snapshot, pair)]
                    return WriteResult(changes, None, TURN_TIER)

                self._store.transact(decide, by=BY_SESSIONS.name, background=True).result()
                yield


def _live(snapshot: Snapshot, ids: Iterable[str], tiers: Sequence[Tier]) -> list[Memory]:
    """The turns of these ids that are in these tiers now."""
    found = [memory for memory in map(snapshot.memory, ids) if memory is not None and is_live_turn(memory)]
    return [turn for turn in found if tier_of(turn) in tiers]


def _filed(snapshot: Snapshot, exchange: Exchange) -> list[Change]:
    """The changes that file an exchange, as far as it still is where it was seen."""
    turns = tuple(_live(snapshot, [turn.id for turn in exchange], _OPEN))
    if not turns:
        return []
    return [*(PutMemory(data=in_tier(turn, "registry")) for turn in turns), PutTurnPair(data=pair_of(turns))]


def _archived(snapshot: Snapshot, pair: TurnPair) -> list[Change]:
    """The changes that archive a pair and its turns."""
    now = snapshot.get(TURN_PAIRS, pair.id, pair.reply)
    if now is None or now.is_archived:
        return []
    turns = _live(snapshot, dict.fromkeys((pair.id, pair.reply)), ("registry",))
    archived: list[Change] = [PutMemory(data=moved(turn, state="archived")) for turn in turns]
    return [*archived, PutTurnPair(data=replace(now, is_archived=True))]
