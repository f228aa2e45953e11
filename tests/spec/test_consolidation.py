"""A cycle of consolidation: its order, its epoch, what a step may not do, what others change, and what an end leaves.
SPEC 9.1, 9.2"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_core.lifecycle.consolidation.cycle import CycleOperation, CycleStep, Planning, StepPlan, violation
from mnemo_core.lifecycle.consolidation.state import CycleState, moved
from mnemo_core.lifecycle.consolidation.steps import plan_decay
from mnemo_daemon.errors import Refusal
from mnemo_daemon.lifecycle import consolidation
from mnemo_daemon.priority import BUSY, WaitReason
from mnemo_daemon.scheduler import Job, Scheduler
from mnemo_daemon.settings import LifecycleSettings
from mnemo_store.record_texts import decision_digest
from mnemo_store.records import LifecycleDecision, Memory, OperationReport, PutDecision, PutMemory, PutUsage, Usage
from mnemo_store.tables import DECISIONS
from tests.support.consolidation_services import ConsolidationServices, consolidation_services_in
from tests.support.samples import WAIT_SECONDS, sample_id, sample_memory


@pytest.fixture
def services(tmp_path: Path) -> Iterator[ConsolidationServices]:
    with consolidation_services_in(tmp_path) as made:
        yield made


def step(name: str, before: Sequence[Memory], **fields: Any) -> CycleStep:
    """A step that gives each of these memories other fields."""

    def plan(state: CycleState) -> Planning:
        yield from ()
        read = [memory for each in before if (memory := state.memory(each.id)) is not None]
        after = [msgspec.structs.replace(each, version=each.version + 1, **fields) for each in read]
        return StepPlan([CycleOperation("promote", (each.id,), (PutMemory(data=each),)) for each in after])

    return CycleStep(name, name, plan)


def nothing() -> Planning:
    yield from ()
    return StepPlan()


def fail(_: CycleState) -> Planning:
    raise KeyboardInterrupt  # an error that nothing in a step handles


def use(monkeypatch: pytest.MonkeyPatch, *steps: CycleStep) -> None:
    """Have cycles carry out these steps alone."""
    monkeypatch.setattr(consolidation, "STEPS", steps)


def test_a_cycle_counts_an_epoch_and_its_report_is_kept(services: ConsolidationServices) -> None:
    services.put(sample_memory(1, "The kettle is on the shelf."))
    for epoch in (1, 2):
        cycle = services.run().cycle
        assert (cycle.epoch, cycle.steps[-1].name != "", cycle.ended_at) == (epoch, True, services.services.at)
    assert [cycle.epoch for cycle in services.cycles()] == [1, 2]
    with services.store.snapshot() as snapshot:
        assert snapshot.meta("epoch") == "2"


def test_epochs_since_a_time_are_the_cycles_of_all_namespaces_that_started_after_it(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[int]()

    def plan(state: CycleState) -> Planning:
        yield from ()
        seen.append(state.epochs_since(1000))
        return StepPlan()

    use(monkeypatch, CycleStep("look", "", plan), CycleStep("decay", "", plan_decay))
    for at in (1000, 2000, 3000):
        services.services.at = at
        services.run()
    services.run(namespace="work")
    services.restarted()
    services.run()
    assert seen == [0, 0, 1, 2, 2]


def test_a_cycle_of_one_namespace_counts_no_epoch(services: ConsolidationServices) -> None:
    services.run(namespace="work")
    with services.store.snapshot() as snapshot:
        assert snapshot.meta("epoch") == ""


def test_a_dry_run_plans_the_same_and_writes_nothing(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = services.put(sample_memory(1, "The kettle is on the shelf."))
    use(monkeypatch, step("first", [one], layer="working"), step("second", [one], layer="core"))
    seq = services.store.seq
    foretold = services.run(is_dry_run=True)
    assert (services.store.seq, services.services.memory(one.id)) == (seq, one)
    done = services.run()
    assert foretold.operations == done.operations
    assert services.services.memory(one.id).layer == "core"


def test_a_step_is_planned_again_if_its_memory_was_changed_meanwhile(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = services.put(sample_memory(1, "The kettle is on the shelf."))
    seen = list[str]()

    def plan(state: CycleState) -> Planning:
        yield from ()
        memory = state.memory(one.id)
        assert memory is not None
        seen.append(memory.content)
        if len(seen) == 1:
            services.services.edit(one.id, content="The kettle is on the table.")
        return StepPlan([CycleOperation("promote", (one.id,), (PutMemory(data=moved(memory, "working")),))])

    use(monkeypatch, CycleStep("promote", "", plan))
    assert services.run().cycle.steps[0].counts == {"promote": 1}
    assert seen == ["The kettle is on the shelf.", "The kettle is on the table."]
    after = services.services.memory(one.id)
    assert (after.content, after.layer, after.version) == ("The kettle is on the table.", "working", 3)


def test_an_interrupted_cycle_goes_on_behind_its_last_report(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = services.put(sample_memory(1, "The kettle is on the shelf."))

    use(monkeypatch, step("first", [one], layer="working"), CycleStep("second", "", fail))
    with pytest.raises(KeyboardInterrupt):
        services.run()
    interrupted = services.cycles()[-1]
    assert ([each.name for each in interrupted.steps], interrupted.ended_at) == (["first"], 0)
    use(monkeypatch, step("first", [one], layer="core"), step("second", [one], importance=0.9))
    services.restarted()
    finished = services.run().cycle
    assert (finished.id, [each.name for each in finished.steps]) == (interrupted.id, ["first", "second"])
    assert (services.services.memory(one.id).layer, services.services.memory(one.id).importance) == ("working", 0.9)


def test_an_interrupted_cycle_whose_other_steps_are_no_more_ends(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = services.put(sample_memory(1, "The kettle is on the shelf."))

    use(monkeypatch, step("first", [one], layer="working"), CycleStep("second", "", fail))
    with pytest.raises(KeyboardInterrupt):
        services.run()
    use(monkeypatch, step("first", [one], layer="core"))
    services.restarted()
    services.run(namespace="work")  # ends the interrupted one first
    assert [(len(each.steps), each.ended_at) for each in services.cycles()] == [(1, services.services.at)] * 2


def test_an_interrupted_cycle_moves_no_memory_twice(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = services.put(sample_memory(1, "The kettle is on the shelf."))
    seen = list[bool]()

    def look(state: CycleState) -> Planning:
        yield from ()
        seen.append(bool(state.has_moved().any()))
        return StepPlan()

    use(monkeypatch, step("first", [one], layer="working"), CycleStep("second", "", fail))
    with pytest.raises(KeyboardInterrupt):
        services.run()
    use(monkeypatch, step("first", [one], layer="core"), CycleStep("second", "", look))
    services.restarted()
    services.run()
    services.run()
    assert seen == [True, True]  # the second cycle moves it itself
    use(monkeypatch, CycleStep("second", "", look))
    services.run()
    assert seen[-1] is False


def test_the_last_cycle_is_found_after_a_step_back_of_the_clock(tmp_path: Path) -> None:
    with consolidation_services_in(tmp_path) as services:
        services.services.at = 10**12
        future = services.run().cycle
    with consolidation_services_in(tmp_path) as services:  # ids ascend within one run of the daemon alone
        services.put(sample_memory(1, "The kettle is on the shelf."))
        past = services.run().cycle
        assert past.id < future.id
        job = services.restarted()
        services.seconds = 3600.0
        assert not job.is_due()


def test_G30_a_step_that_breaks_a_rule_is_left_out_and_the_others_are_not(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = services.put(sample_memory(1, "The kettle is on the shelf."))
    use(monkeypatch, step("skips a layer", [one], layer="core"), step("promotes", [one], layer="working"))
    assert [bool(each.skipped) for each in services.run().cycle.steps] == [True, False]
    assert services.services.memory(one.id).layer == "working"


def test_undo_of_the_group_of_a_cycle_takes_it_back(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = services.put(sample_memory(1, "The kettle is on the shelf."))
    use(monkeypatch, step("first", [one], layer="working"))
    cycle = services.run().cycle
    services.services.undo(group=cycle.id)
    assert services.services.memory(one.id).layer == "buffer"


def test_G27_the_job_runs_a_cycle_after_activity_alone(services: ConsolidationServices) -> None:
    services.settings = msgspec.structs.replace(services.settings, interval_minutes=1)
    job = services.restarted()
    services.seconds = 61.0
    assert not job.is_due()  # nothing has happened
    services.put(sample_memory(1, "The kettle is on the shelf."))
    services.seconds += 59.0
    assert not job.is_due()
    services.seconds += 2.0
    assert job.is_due()
    while job.run_slice():
        pass
    assert len(services.cycles()) == 1
    services.seconds += 86_400.0
    assert not job.is_due()
    services.services.memories.record_use([sample_id(1)]).result(WAIT_SECONDS)
    services.seconds += 61.0
    assert job.is_due()  # a recall is activity


def test_a_cycle_waits_for_a_quiet_machine_but_not_all_day(services: ConsolidationServices) -> None:
    reasons: list[WaitReason | None] = [BUSY]
    job = services.restarted()
    scheduler = Scheduler(
        [Job("consolidation", "", lambda *_: job.is_due(), job.run_slice, "", is_heavy=True)],
        reason_to_wait=lambda: reasons[0],
        clock=lambda: services.seconds,
    )

    def run_until(seconds: float) -> int:
        while services.seconds < seconds:
            while scheduler.run_round():
                pass
            services.seconds += 1.0
        return len(services.cycles())

    services.put(sample_memory(1, "The kettle is on the shelf."))
    assert run_until(300.0) == 0
    assert scheduler.reports()[0].reason == BUSY.text
    reasons[0] = None
    assert run_until(310.0) == 1
    reasons[0] = BUSY
    for hour in range(2, 10):  # a machine that computes all day
        services.put(sample_memory(hour, f"The kettle was moved {hour} times."))
        assert run_until(hour * 3600.0) == hour


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"layer": "buffer"}, {"layer": "core"}),
        ({"layer": "working"}, {"layer": "buffer"}),
        ({"layer": "core"}, {"layer": "buffer"}),
        ({}, {"state": "trashed"}),
        ({}, {"state": "discarded"}),
        ({"layer": "working", "trust": "tool"}, {"layer": "core"}),
        ({"layer": "working", "tags": ("distilled",)}, {"layer": "core"}),
        ({"pinned": True}, {"content": "Something else."}),
        ({"pinned": True}, {"state": "archived"}),
    ],
)
def test_G18_G30_what_no_step_may_do(before: dict[str, Any], after: dict[str, Any]) -> None:
    one = sample_memory(1, "The kettle is on the shelf.", **before)
    assert violation(one, msgspec.structs.replace(one, version=2, **after))
    assert not violation(one, msgspec.structs.replace(one, version=2, importance=0.75))
    chunk = msgspec.structs.replace(one, managed="0" * 32)
    assert violation(chunk, msgspec.structs.replace(chunk, version=2, importance=0.75))


def test_a_cycle_that_was_interrupted_is_finished_before_one_of_another_namespace(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = services.put(sample_memory(1, "The kettle is on the shelf."))

    use(monkeypatch, step("first", [one], layer="working"), CycleStep("second", "", fail))
    with pytest.raises(KeyboardInterrupt):
        services.run(namespace="default")
    use(monkeypatch, step("first", [one], layer="working"), step("second", [one], importance=0.9))
    services.restarted()
    assert services.run(namespace="work").cycle.namespace == "work"
    assert [(each.namespace, len(each.steps)) for each in services.cycles()] == [("default", 2), ("work", 2)]


def test_G27_a_cycle_is_every_30_minutes_and_not_in_the_first_60_seconds() -> None:
    assert (LifecycleSettings().interval_minutes, consolidation.FIRST_SECONDS) == (30, 60.0)


def test_the_texts_of_an_operation_are_those_before_it(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = services.put(sample_memory(1, "The kettle is on the shelf."))
    use(monkeypatch, step("first", [one], content="The kettle is new."), step("second", [one], content="It is old."))
    assert services.run().texts == [("The kettle is on the shelf.",), ("The kettle is new.",)]


def test_a_daemon_that_stops_ends_a_cycle_before_its_next_step(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = services.put(sample_memory(1, "The kettle is on the shelf."))
    stopped = step("first", [one], layer="working")

    def stop(state: CycleState) -> Planning:
        services.consolidation.stop()
        return (yield from stopped.plan(state))

    use(monkeypatch, CycleStep("first", "", stop), step("second", [one], layer="core"))
    with pytest.raises(Refusal) as refusal:
        services.run()
    assert (refusal.value.status, refusal.value.code) == (503, "stopping")
    assert (len(services.cycles()[-1].steps), services.services.memory(one.id).layer) == (1, "working")


def test_the_last_cycle_and_one_by_the_end_of_its_id_are_undone(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = services.put(sample_memory(1, "The kettle is on the shelf."))
    use(monkeypatch, step("first", [one], layer="working"))
    services.run()
    second = services.run().cycle
    use(monkeypatch, CycleStep("none", "", lambda _: nothing()))
    services.run()  # changes nothing: undo passes over it
    assert services.services.undo(cycle="last", dry_run=True).seqs == services.services.undo(cycle=second.id[-8:]).seqs
    services.services.undo(cycle="last")
    assert services.services.memory(one.id).layer == "buffer"
    with pytest.raises(Refusal):
        services.services.undo(cycle="last")


def use_all_kinds_of_changes(monkeypatch: pytest.MonkeyPatch, one: Memory, other: Memory) -> None:
    """Have a cycle merge two memories, with the changes that have no versions."""

    def plan(state: CycleState) -> Planning:
        yield from ()
        winner, loser = state.memory(one.id), state.memory(other.id)
        assert winner is not None
        assert loser is not None
        if loser.state == "superseded":
            return StepPlan()
        changes = (
            PutMemory(data=msgspec.structs.replace(winner, version=winner.version + 1, importance=0.9)),
            PutMemory(
                data=msgspec.structs.replace(loser, version=loser.version + 1, state="superseded", superseded_by=one.id)
            ),
            PutUsage(data=msgspec.structs.replace(state.usage(winner), access_count=7, strength=0.9)),
            PutDecision(
                data=LifecycleDecision(memory=one.id, action="overlap", other=other.id, status="apart", at=state.now,
                                       digest=decision_digest([winner.content, loser.content]))
            ),
        )  # fmt: skip
        return StepPlan([CycleOperation("absorb", (one.id, other.id), changes)])

    use(monkeypatch, CycleStep("merge", "", plan), CycleStep("decay", "", plan_decay))


def unversioned(services: ConsolidationServices, *ids: str) -> list[Any]:
    """The values that undo puts back besides the versions of memories."""
    with services.store.snapshot() as snapshot:
        rows: list[Any] = [snapshot.usage(each) for each in ids]
        return [*rows, snapshot.meta("epoch"), snapshot.meta("last_cycle"), snapshot.scan(DECISIONS)]


def test_undo_of_a_cycle_puts_back_usage_epoch_and_decisions_and_it_is_not_done_again(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = services.put(
        sample_memory(1, "The kettle is on the shelf."), Usage(id=sample_id(1), access_count=2, strength=0.4)
    )
    other = services.put(sample_memory(2, "The kettle is on a shelf."))
    services.run()
    before = unversioned(services, one.id, other.id)
    use_all_kinds_of_changes(monkeypatch, one, other)
    cycle = services.run().cycle
    assert cycle.steps[0].operations == (OperationReport(action="absorb", ids=(one.id, other.id)),)
    assert unversioned(services, one.id)[0].access_count == 7
    services.services.undo(cycle="last")
    *after, decisions = unversioned(services, one.id, other.id)
    assert after == before[:-1]
    assert [(each.action, each.status) for each in decisions] == [("absorb", "rejected")]
    assert [each.undone_at > 0 for each in services.cycles()] == [False, True]
    assert (services.services.memory(one.id).importance, services.services.memory(other.id).state) == (
        one.importance,
        "active",
    )

    again = services.run().cycle
    assert again.steps[0].counts == {"rejected before": 1}
    assert services.services.memory(other.id).state == "active"
    services.services.edit(one.id, content="The kettle is on the shelf, in front.")  # another text is another case
    assert services.run().cycle.steps[0].counts == {"absorb": 1}


def test_undo_of_a_cycle_keeps_the_uses_since(services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch) -> None:
    one = services.put(
        sample_memory(1, "The kettle is on the shelf."), Usage(id=sample_id(1), access_count=2, strength=0.4)
    )
    other = services.put(sample_memory(2, "The kettle is on a shelf."))
    use_all_kinds_of_changes(monkeypatch, one, other)
    cycle = services.run().cycle
    services.services.memories.record_use([one.id]).result()
    services.run()  # a later cycle has counted an epoch since: it stays counted
    services.services.undo(group=cycle.id)
    assert services.usage(one.id).access_count == 3
    with services.store.snapshot() as snapshot:
        assert snapshot.meta("epoch") == "2"


def test_an_undone_cycle_is_no_epoch_once_none_after_it_stands(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = services.put(sample_memory(1, "The kettle is on the shelf."))
    other = services.put(sample_memory(2, "The window is open."))
    seen = list[list[int]]()

    def look(state: CycleState) -> Planning:
        yield from ()
        seen.append([state.epochs_since(at) for at in (500, 1500, 2500, 3500)])
        return StepPlan()

    def run(at: int, memory: Memory, layer: str) -> str:
        services.services.at = at
        use(monkeypatch, CycleStep("look", "", look), step("move", [memory], layer=layer),
            CycleStep("decay", "", plan_decay))  # fmt: skip
        return services.run().cycle.id

    def epoch() -> str:
        with services.store.snapshot() as snapshot:
            return snapshot.meta("epoch")

    run(1000, one, "working")
    second, third = run(2000, one, "core"), run(3000, other, "working")
    services.services.undo(group=second)
    assert epoch() == "3"  # the third one stands
    services.services.undo(group=third)
    assert epoch() == "1"
    run(4000, one, "core")
    run(5000, other, "working")
    run(6000, other, "core")
    assert seen[-1] == [3, 2, 2, 2]
