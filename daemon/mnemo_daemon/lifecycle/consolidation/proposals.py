"""Proposals as they are read from the table of decisions, and how many of them still hold. SPEC 9.7"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from mnemo_core.lifecycle.consolidation.review import ids_of, is_unchanged
from mnemo_daemon.history_names import BY_LIFECYCLE, REVIEW
from mnemo_daemon.table_walk import records_of
from mnemo_store.backend import Snapshot
from mnemo_store.records import Change, DropDecision, LifecycleDecision, Memory
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


def waiting_proposals(store: Store, *, is_cleaned: bool) -> int:
    """The number of proposals that can be approved; the others are removed first if the table is to be cleaned."""
    waiting = [each for each in records_of(store, DECISIONS) if each.status == "proposed"]

    def decide(snapshot: Snapshot) -> WriteResult[int]:
        stale: list[Change] = [
            DropDecision(memory=each.memory, action=each.action, other=each.other)
            for each in waiting
            if read_proposal(snapshot, each).stale
        ]
        return WriteResult(stale if is_cleaned else (), len(waiting) - len(stale), REVIEW)

    if not is_cleaned:
        with store.snapshot() as snapshot:
            return decide(snapshot).result
    return store.transact(decide, by=BY_LIFECYCLE, background=True).result().result if waiting else 0


def read_proposal(snapshot: Snapshot, decision: LifecycleDecision) -> Proposal:
    memories = [snapshot.memory(each) for each in ids_of(decision)]
    stale = "" if is_unchanged(decision, memories) else STALE
    return Proposal(proposal_id(decision), decision, [each for each in memories if each is not None], stale)
