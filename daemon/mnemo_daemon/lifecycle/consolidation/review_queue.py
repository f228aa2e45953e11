"""The proposals that wait for a person: listed, approved, edited, rejected. SPEC 9.7

A proposal is a decision of the store with the status `proposed`. What is approved is planned again from the memories as
they are now, and written in one transaction together with the decision.
"""

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mnemo_core.lifecycle.consolidation.review import DecisionKey, approved_operation, ids_of, is_unchanged, rejected
from mnemo_core.llm.grounding import loss_of, rejection_of
from mnemo_daemon.errors import Refusal
from mnemo_daemon.history_names import BY_LIFECYCLE, REVIEW
from mnemo_daemon.lifecycle.consolidation.consolidation import Consolidation
from mnemo_daemon.table_walk import records_of
from mnemo_store.backend import Snapshot
from mnemo_store.commit.commit_publisher import Commit
from mnemo_store.records import Change, DropDecision, LifecycleDecision, Memory, PutDecision
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import DECISIONS

STALE = "a text was changed, or a memory is gone, since this was proposed"

ID_DIGITS_MIN = 8


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


class ApprovedProposal(NamedTuple):
    """A proposal that was approved, by its id: the memories that it changed, and the group of the changes."""

    proposal: str
    ids: Sequence[str]
    group: str


class ReviewQueue:
    """The service. Its methods run on a worker thread."""

    def __init__(self, store: Store, consolidation: Consolidation) -> None:
        self._store = store
        self._consolidation = consolidation

    def proposals(self, wanted: Callable[[Memory], bool] = lambda _: True) -> list[Proposal]:
        """The proposals whose first memory is wanted, the oldest first."""
        waiting = sorted(self._consolidation.proposals.read(), key=lambda each: (each.at, proposal_id(each)))
        with self._store.snapshot() as snapshot:
            found = [read_proposal(snapshot, each) for each in waiting]
        return [each for each in found if each.memories and wanted(each.memories[0])]

    def find(self, text: str) -> Proposal:
        """The proposal with this id, or with 8 or more digits of its beginning. Raises a Refusal."""
        found = [each for each in self.proposals() if each.id.startswith(text)] if len(text) >= ID_DIGITS_MIN else []
        if len(found) != 1:
            raise Refusal(404, "not_found", f"there is no proposal {text[:32]!r}", field="id")
        return found[0]

    def approve(self, text: str, new_text: str | None, by: str, *, is_forced: bool = False) -> ApprovedProposal:
        """Carry out a proposal, with another text where one is given.

        Raises a Refusal: 404 for none, 409 where a text was changed since, 422 for a text that loses or adds something,
        unless it is forced.
        """
        proposal = self.find(text)
        if proposal.stale:
            raise Refusal(409, "conflict", proposal.stale)
        if new_text is not None:
            self._check_text(proposal, new_text, is_forced=is_forced)
        state = self._consolidation.state()
        if not is_unchanged(proposal.decision, [state.memory(each) for each in ids_of(proposal.decision)]):
            raise Refusal(409, "conflict", STALE)
        state.method = "said" if new_text is not None else proposal.decision.method or state.method
        operation = approved_operation(state, proposal.decision, new_text or proposal.decision.text)
        group = self._consolidation.carry_out(operation, state, REVIEW, by)
        return ApprovedProposal(proposal.id, operation.ids, group)

    def reject(self, text: str, by: str) -> str:
        """Reject a proposal, which is not made again with these texts; return its id. Raises a Refusal."""
        proposal = self.find(text)

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            decision = proposal.decision
            if snapshot.get(DECISIONS, decision.memory, decision.action, decision.other) != decision:
                raise Refusal(409, "conflict", "it was decided on meanwhile, or a memory of it is gone")
            return WriteResult([PutDecision(data=rejected(decision, snapshot.now))], None, REVIEW)

        self._store.transact(decide, by=by).result()
        return proposal.id

    def _check_text(self, proposal: Proposal, text: str, *, is_forced: bool) -> None:
        if not proposal.decision.text:
            raise Refusal(422, "refused", f"`{proposal.decision.action}` writes no text to edit", field="text")
        texts = [each.content for each in proposal.memories]
        if not is_forced and (reason := rejection_of(text, texts) or loss_of(texts, text)):
            raise Refusal(422, "refused", f"{reason}; send it with `force` if that is meant", field="text")
