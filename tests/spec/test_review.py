"""Operations that wait for a person: which do, and what becomes of them. SPEC 9.7"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_core.ingest import mutations
from mnemo_core.ingest.erasure import plan_erasure
from mnemo_core.ingest.mutations import RECALL_STRENGTH_GAIN
from mnemo_core.lifecycle.consolidation import review
from mnemo_core.lifecycle.consolidation.cycle import CycleOperation, CycleStep, Planning, StepPlan
from mnemo_core.lifecycle.consolidation.replacing import absorb_operation, distil_operation, merge_operation
from mnemo_core.lifecycle.consolidation.state import CycleState, moved, retagged
from mnemo_daemon.errors import Refusal
from mnemo_daemon.lifecycle import consolidation
from mnemo_daemon.lifecycle.consolidation import ReviewQueue
from mnemo_daemon.maintenance.trash import ChangeOrigin, HardDelete, drop
from mnemo_daemon.memories.revert import RevertService
from mnemo_daemon.settings import LifecycleSettings
from mnemo_store.records import TAGS_MAX, LifecycleDecision, Memory, PutDecision, PutMemory, Usage
from mnemo_store.store import WriteResult
from mnemo_store.tables import DECISIONS
from tests.support.consolidation_services import ConsolidationServices, consolidation_services_in
from tests.support.samples import sample_id, sample_memory
from tests.support.store_services import PERSON

SHELF = sample_memory(1, "The kettle is on the shelf since 2 May.", layer="working")
KITCHEN = sample_memory(2, "The kettle is in the kitchen.", layer="working")
BOTH = "The kettle is on the shelf in the kitchen since 2 May."


@pytest.fixture
def services(tmp_path: Path) -> Iterator[ConsolidationServices]:
    with consolidation_services_in(tmp_path, settings=LifecycleSettings(review="all")) as made:
        yield made


@pytest.fixture
def queue(services: ConsolidationServices) -> ReviewQueue:
    for memory in (SHELF, KITCHEN):
        services.put(memory)
    return ReviewQueue(services.store, services.consolidation)


def use(monkeypatch: pytest.MonkeyPatch, *plan: Any) -> None:
    """Have cycles make the operations that these functions give for the two memories."""

    def step(state: CycleState) -> Planning:
        yield from ()
        shelf, kitchen = (state.memory(each.id) for each in (SHELF, KITCHEN))
        assert shelf is not None
        assert kitchen is not None
        return StepPlan([make(state, shelf, kitchen) for make in plan])

    monkeypatch.setattr(consolidation, "STEPS", (CycleStep("step", "", step),))


def merge(state: CycleState, one: Memory, other: Memory) -> CycleOperation:
    return merge_operation(state, one, other, BOTH, "nearly the same")


def promote(_: CycleState, one: Memory, __: Memory) -> CycleOperation:
    return CycleOperation("promote", (one.id,), (PutMemory(data=moved(one, "core")),), "a lesson")


def counts(services: ConsolidationServices) -> dict[str, int]:
    return services.run().cycle.steps[0].counts


@pytest.mark.parametrize(
    ("level", "waiting", "done"),
    [
        ("off", [], {"promote": 1, "absorb": 1}),
        ("core", ["promote"], {"absorb": 1}),
        ("all", ["promote", "absorb"], {}),
    ],
)
def test_the_setting_says_what_waits(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch, level: Any,
    waiting: list[str], done: dict[str, int],
) -> None:  # fmt: skip
    third, fourth = sample_memory(3, "The tap is old."), sample_memory(4, "The tap is quite old.")
    for memory in (third, fourth):
        services.put(memory)

    def absorb(state: CycleState, *_: Memory) -> CycleOperation:
        return absorb_operation(state, _existing(state, third)[0], _existing(state, fourth), "the same")

    services.settings = LifecycleSettings(review=level)
    use(monkeypatch, promote, absorb)
    assert counts(services) == {**done, **({"proposed": len(waiting)} if waiting else {})}
    assert sorted(each.decision.action for each in queue.proposals()) == sorted(waiting)


def _existing(state: CycleState, memory: Memory) -> list[Memory]:
    return state.subject([memory.id])


def test_what_waits_is_not_proposed_again_and_a_dry_run_proposes_nothing(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, merge)
    assert services.run(is_dry_run=True).cycle.steps[0].counts == {"proposed": 1}
    assert not queue.proposals()
    assert [counts(services), counts(services)] == [{"proposed": 1}, {"waiting": 1}]
    (proposal,) = queue.proposals()
    assert ([each.id for each in proposal.memories], proposal.decision.text, proposal.decision.reason) == (
        [SHELF.id, KITCHEN.id], BOTH, "nearly the same",
    )  # fmt: skip
    assert services.services.memory(KITCHEN.id) == KITCHEN


def test_an_approved_merge_is_made_from_the_memories_as_they_are_and_is_undone_as_a_change(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, merge)
    counts(services)
    services.services.edit(KITCHEN.id, tags=("kitchen",))  # no other text: it still holds
    done = queue.approve(queue.proposals()[0].id[:8], None, "cli")
    made = services.services.memory(done.ids[0])
    assert (made.content, made.tags, made.derived_from) == (BOTH, ("kitchen",), (SHELF.id, KITCHEN.id))
    assert services.services.memory(SHELF.id).state == "superseded"
    assert not queue.proposals()
    services.services.undo()
    assert [services.services.memory(each).state for each in (made.id, SHELF.id)] == ["trashed", "active"]


def test_undo_of_an_approved_operation_takes_back_its_usage_and_counts_as_a_rejection(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    winner = services.put(sample_memory(3, "The tap is old."), Usage(id=sample_id(3), access_count=2, strength=0.5))
    loser = services.put(sample_memory(4, "The tap is old now."), Usage(id=sample_id(4), access_count=5, strength=0.75))
    before = services.usage(winner.id)

    def absorb(state: CycleState, *_: Memory) -> CycleOperation:
        return absorb_operation(state, _existing(state, winner)[0], _existing(state, loser), "the same")

    use(monkeypatch, absorb)
    counts(services)
    done = queue.approve(queue.proposals()[0].id, None, "cli")
    assert (services.usage(winner.id).access_count, services.usage(winner.id).strength) == (7, 0.75)
    services.services.memories.record_use([winner.id]).result()
    services.services.undo(group=done.group)
    after = services.usage(winner.id)
    assert (after.access_count, after.repetition_count) == (before.access_count + 1, before.repetition_count)
    assert after.strength == pytest.approx(before.strength + RECALL_STRENGTH_GAIN)
    with services.store.snapshot() as snapshot:
        assert [each.status for each in snapshot.scan(DECISIONS)] == ["rejected"]
    services.settings = LifecycleSettings(review="off")
    assert counts(services) == {"rejected before": 1}


def test_an_approved_promotion_is_in_core(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, promote)
    counts(services)
    queue.approve(queue.proposals()[0].id, None, "cli")
    assert services.services.memory(SHELF.id).layer == "core"


def test_an_entry_of_three_memories_waits_with_all_of_them(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = services.put(sample_memory(3, "The kettle is red.", layer="working"))

    def distil(state: CycleState, *two: Memory) -> CycleOperation:
        return distil_operation(state, [*two, *_existing(state, third)], f"{BOTH} It is red.", "they overlap")

    use(monkeypatch, distil)
    assert [counts(services), counts(services)] == [{"proposed": 1}, {"waiting": 1}]
    done = queue.approve(queue.proposals()[0].id, None, "cli")
    assert services.services.memory(done.ids[0]).content == f"{BOTH} It is red."
    assert services.services.memory(third.id).superseded_by == done.ids[0]


def test_a_proposal_goes_with_any_memory_that_is_erased(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = services.put(sample_memory(3, "The kettle is red.", layer="working"))
    use(monkeypatch, lambda state, *two: distil_operation(
        state, [two[0], *_existing(state, third), two[1]], f"{BOTH} It is red.", "they overlap"
    ))  # fmt: skip
    counts(services)
    plan = plan_erasure([third.id], [])
    for _ in HardDelete(services.store).execute(plan, ChangeOrigin("purge", "cli", ""), drop):
        pass
    with services.store.snapshot() as snapshot:
        assert not snapshot.scan(DECISIONS)


def test_what_is_proposed_while_a_memory_is_erased_goes_with_it(
    services: ConsolidationServices, queue: ReviewQueue
) -> None:
    third = services.put(sample_memory(3, "The kettle is red.", layer="working"))
    decision = LifecycleDecision(
        memory=SHELF.id, action="distil", other=KITCHEN.id, status="proposed", at=1, digest="", text="It is red.",
        more=(third.id,),
    )  # fmt: skip
    erasing = HardDelete(services.store).execute(plan_erasure([third.id], []), ChangeOrigin("purge", "cli", ""), drop)
    next(erasing)
    services.store.transact(lambda _: WriteResult([PutDecision(data=decision)], None), by="lifecycle").result()
    assert [*erasing] == []
    with services.store.snapshot() as snapshot:
        assert not snapshot.scan(DECISIONS)


@pytest.mark.parametrize("is_changed_before", [False, True])
def test_nothing_is_proposed_of_a_memory_that_was_erased_while_its_step_was_planned(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch, is_changed_before: bool
) -> None:
    planned = list[int]()

    def earlier(state: CycleState) -> Planning:
        yield from ()
        memories = state.subject([SHELF.id] if is_changed_before else [])
        return StepPlan(changes=[PutMemory(data=retagged(each, ("seen",))) for each in memories])

    def plan(state: CycleState) -> Planning:
        yield from ()
        found = state.subject([SHELF.id, KITCHEN.id])
        planned.append(len(found))
        if len(planned) == 1:
            erased = plan_erasure([SHELF.id], [])
            assert [*HardDelete(services.store).execute(erased, ChangeOrigin("purge", "cli", ""), drop)]
        return StepPlan([merge(state, *found)] if len(found) == 2 else [])

    monkeypatch.setattr(consolidation, "STEPS", (CycleStep("tag", "", earlier), CycleStep("merge", "", plan)))
    report = services.run().cycle.steps[-1]
    assert (planned, report.counts, report.skipped) == ([2, 1], {}, "")
    with services.store.snapshot() as snapshot:
        assert not snapshot.scan(DECISIONS)


def test_a_proposal_that_was_approved_meanwhile_is_not_rejected(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, merge)
    counts(services)
    found = queue.proposals()[0]
    queue.approve(found.id, None, "cli")
    monkeypatch.setattr(queue, "find", lambda _: found)
    with pytest.raises(Refusal) as refused:
        queue.reject(found.id, "cli")
    assert refused.value.code == "conflict"
    with services.store.snapshot() as snapshot:
        assert {each.status for each in snapshot.scan(DECISIONS)} == {"done"}


def test_what_became_sensitive_while_a_merge_waited_stays_so_in_the_merged_memory(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, merge)
    counts(services)
    services.services.edit(SHELF.id, tags=tuple(f"tag-{number}" for number in range(TAGS_MAX)))
    services.services.edit(KITCHEN.id, tags=("sensitive",))
    approved = queue.approve(queue.proposals()[0].id, None, "cli")
    tags = services.services.memory(approved.ids[0]).tags
    assert (len(tags), "sensitive" in tags) == (TAGS_MAX, True)


def test_a_rejection_is_undone_and_the_proposal_waits_again(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, merge)
    counts(services)
    before = queue.proposals()
    seq = queue.reject(before[0].id, "cli").seq
    assert queue.proposals() == []
    undone = RevertService(services.store).revert(seq, None, PERSON, dry_run=False)
    assert undone.what == "review"
    assert set(undone.ids) == {SHELF.id, KITCHEN.id}
    assert queue.proposals() == before


def test_a_rejected_operation_is_not_proposed_again_until_a_text_changes(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, merge)
    counts(services)
    queue.reject(queue.proposals()[0].id, "cli")
    services.settings = LifecycleSettings(review="off")
    assert counts(services) == {"rejected before": 1}  # nor made, where nothing has to be approved
    services.settings = LifecycleSettings(review="all")
    services.services.edit(KITCHEN.id, content="The kettle is in the kitchen of the office.")
    assert counts(services) == {"proposed": 1}


def test_a_text_of_a_person_keeps_every_specific_unless_it_is_forced(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, merge)
    counts(services)
    (proposal,) = queue.proposals()
    for text in ("The kettle is on the shelf in the kitchen.", "The kettle is in the kitchen since 2 May 1999."):
        with pytest.raises(Refusal) as refused:
            queue.approve(proposal.id, text, "cli")
        assert (refused.value.status, refused.value.field) == (422, "text")
    done = queue.approve(proposal.id, "The kettle is in the kitchen.", "cli", is_forced=True)
    made = services.services.memory(done.ids[0])
    assert made.content == "The kettle is in the kitchen."


def test_a_proposal_whose_text_was_changed_is_stale_and_the_next_cycle_removes_it(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, merge)
    counts(services)
    services.services.memories.delete([KITCHEN.id], "", PERSON).result()
    (proposal,) = queue.proposals()
    assert proposal.stale
    with pytest.raises(Refusal) as refused:
        queue.approve(proposal.id, None, "cli")
    assert refused.value.status == 409
    use(monkeypatch)
    counts(services)
    with services.store.snapshot() as snapshot:
        assert not snapshot.scan(DECISIONS)


def test_the_queue_is_bounded_and_the_report_says_so(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consolidation, "PROPOSALS_MAX", 1)
    use(monkeypatch, promote, merge)
    assert counts(services) == {"proposed": 1, "queue full": 1}
    assert counts(services) == {"waiting": 1, "queue full": 1}


def test_undo_of_a_cycle_takes_its_proposals_back(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = services.put(sample_memory(3, "The tap is old."))
    use(monkeypatch, merge, lambda state, *_: CycleOperation(
        "promote", (third.id,), tuple(PutMemory(data=moved(each, "working")) for each in _existing(state, third))
    ))  # fmt: skip
    cycle = services.run().cycle
    assert cycle.steps[0].counts == {"promote": 1, "proposed": 1}
    services.services.undo(cycle="last")
    assert not queue.proposals()


def test_proposals_are_followed_and_those_from_before_the_start_are_read(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, merge, promote)
    assert services.consolidation.proposals.count() == 0
    counts(services)
    seen = [each.action for each in services.consolidation.proposals.read()]
    services.restarted()
    proposals = services.consolidation.proposals
    assert sorted(seen) == sorted(each.action for each in proposals.read()) == ["merge", "promote"]
    services.services.edit(KITCHEN.id, content="The kettle is in the office.")
    assert (proposals.count(), len(proposals.read())) == (1, 2)
    proposals.remove_stale()
    assert [each.action for each in proposals.read()] == ["promote"]


def test_an_unknown_proposal_is_not_found(queue: ReviewQueue) -> None:
    for name in ("", "0123456", "0123456789abcdef"):
        with pytest.raises(Refusal) as refused:
            queue.reject(name, "cli")
        assert refused.value.status == 404


def test_a_rejection_of_the_gate_is_not_a_persons() -> None:
    decision = mutations.rejected(
        msgspec.convert({"memory": SHELF.id, "action": "promote", "other": SHELF.id, "status": "proposed", "at": 1,
                         "digest": "", "text": "x", "tag": "lesson"}, LifecycleDecision), 2,
    )  # fmt: skip
    assert review.is_rejected(decision)
    assert not decision.text
    assert not review.is_rejected(msgspec.structs.replace(decision, tag="gate-rejected"))
