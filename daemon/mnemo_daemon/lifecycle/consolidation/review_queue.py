"""The proposals that wait for a person: listed, approved, edited, rejected. SPEC 9.7

A proposal is a decision of the store with the status `proposed`. What is approved is planned again from the memories as
they are now, and written in one transaction together with the decision.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mnemo_core.ingest.cycle_undo import rejected
from mnemo_core.lifecycle.consolidation.review import approved_operation, ids_of, is_unchanged
from mnemo_core.llm.grounding import loss_of, rejection_of
from mnemo_daemon.errors import Refusal
from mnemo_daemon.history_names import REVIEW
from mnemo_daemon.lifecycle.consolidation.consolidation import Consolidation
from mnemo_daemon.lifecycle.consolidation.cycle_source import STALE, Proposal, proposal_id, read_proposal
from mnemo_store.backend import Snapshot
from mnemo_store.records import Memory, PutDecision
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import DECISIONS

ID_DIGITS_MIN = 8


class ApprovedProposal(NamedTuple):
    """A proposal that was approved, by its id: the memories that it changed, and the group and seq of the change."""

    proposal: str
    ids: Sequence[str]
    group: str
    seq: int


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
            if not proposal.decision.text:
                raise Refusal(422, "refused", f"`{proposal.decision.action}` writes no text to edit", field="text")
            texts = [each.content for each in proposal.memories]
            if not is_forced and (reason := rejection_of(new_text, texts) or loss_of(texts, new_text)):
                raise Refusal(422, "refused", f"{reason}; send it with `force` if that is meant", field="text")
        state = self._consolidation.state()
        if not is_unchanged(proposal.decision, [state.memory(each) for each in ids_of(proposal.decision)]):
            raise Refusal(409, "conflict", STALE)
        state.method = "said" if new_text is not None else proposal.decision.method or state.method
        operation = approved_operation(state, proposal.decision, new_text or proposal.decision.text)
        return ApprovedProposal(
            proposal.id, operation.ids, *self._consolidation.carry_out(operation, state, REVIEW, by)
        )

    def reject(self, text: str, by: str) -> tuple[str, int]:
        """Reject a proposal, which is not made again with these texts; return its id, and the seq of the change.
        Raises a Refusal."""
        proposal = self.find(text)

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            decision = proposal.decision
            if snapshot.get(DECISIONS, decision.memory, decision.action, decision.other) != decision:
                raise Refusal(409, "conflict", "it was decided on meanwhile, or a memory of it is gone")
            return WriteResult([PutDecision(data=rejected(decision, snapshot.now))], None, REVIEW)

        return proposal.id, self._store.transact(decide, by=by).result().seq
