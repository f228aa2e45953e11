"""Proposals as they are read from the table of decisions, and how many of them still hold. SPEC 9.7"""

import hashlib
import threading
from collections.abc import Sequence
from typing import NamedTuple

from mnemo_core.lifecycle.consolidation.review import DecisionKey, ids_of, is_unchanged
from mnemo_daemon.history_names import BY_LIFECYCLE, REVIEW
from mnemo_daemon.table_walk import records_of
from mnemo_store.backend import Snapshot
from mnemo_store.commit.commit_publisher import Commit
from mnemo_store.records import Change, DropDecision, LifecycleDecision, Memory, PutDecision
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import DECISIONS

STALE = "a text was changed, or a memory is gone, since this was proposed"


class Proposal(NamedTuple):
    """A proposal and its memories, what would stay first. `stale`: why it cannot be approved any more."""

    id: str
    decision: LifecycleDecision
    memories: Sequence[Memory]
    stale: str = ""


def proposal_id(decision: LifecycleDecision) -> str:
    """The id under which a proposal is shown."""
    name = f"{decision.memory} {decision.action} {decision.other}"
    return hashlib.blake2b(name.encode(), digest_size=8).hexdigest()


class Proposals:
    """The proposals of a store, found without reading every decision: their keys are read once, and followed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reading = threading.Lock()  # the table
        self._lock = threading.Lock()  # of `_keys`
        self._keys: dict[DecisionKey, int] = {}  # the keys of all proposals, and of some that were; with a seq
        self._resets = 0
        self._read_at = -1  # `_resets` when the table was read
        store.on_commit(self._follow)
        store.on_row_ids_reset(self._on_row_ids_reset)

    def read(self) -> list[LifecycleDecision]:
        """The decisions that are proposals."""
        self._read_table()
        with self._store.snapshot() as snapshot, self._lock:
            found = [each for key in self._keys if (each := snapshot.get(DECISIONS, *key)) is not None]
            waiting = {key_of(each): each for each in found if each.status == "proposed"}
            self._keys = {key: seq for key, seq in self._keys.items() if key in waiting or seq > snapshot.seq}
            return list(waiting.values())

    def count(self) -> int:
        """The number of proposals that can be approved."""
        waiting = self.read()
        with self._store.snapshot() as snapshot:
            return len(waiting) - len(_stale(snapshot, waiting))

    def remove_stale(self) -> None:
        """Remove the proposals that cannot be approved any more."""
        if waiting := self.read():
            self._store.transact(
                lambda state: WriteResult(_stale(state, waiting), None, REVIEW), by=BY_LIFECYCLE.name, background=True
            ).result()

    def _read_table(self) -> None:
        with self._reading:
            while self._read_at != self._resets:
                resets = self._resets
                found = [key_of(each) for each in records_of(self._store, DECISIONS) if each.status == "proposed"]
                with self._lock:
                    self._keys = dict.fromkeys(found, 0) | self._keys
                self._read_at = resets

    def _follow(self, commit: Commit) -> None:
        """Called on the writer thread."""
        if commit.changes is None:
            self._on_row_ids_reset()
            return
        made = [change.data for change in commit.changes if isinstance(change, PutDecision)]
        proposed = [key_of(each) for each in made if each.status == "proposed"]
        if proposed:
            with self._lock:
                self._keys |= dict.fromkeys(proposed, commit.seq)

    def _on_row_ids_reset(self) -> None:
        self._resets += 1


def key_of(decision: LifecycleDecision) -> DecisionKey:
    return decision.memory, decision.action, decision.other


def _stale(snapshot: Snapshot, waiting: Sequence[LifecycleDecision]) -> list[Change]:
    """The changes that remove those of these proposals which cannot be approved any more."""
    return [
        DropDecision(memory=each.memory, action=each.action, other=each.other)
        for each in waiting
        if read_proposal(snapshot, each).stale
    ]


def read_proposal(snapshot: Snapshot, decision: LifecycleDecision) -> Proposal:
    memories = [snapshot.memory(each) for each in ids_of(decision)]
    stale = "" if is_unchanged(decision, memories) else STALE
    return Proposal(proposal_id(decision), decision, [each for each in memories if each is not None], stale)
