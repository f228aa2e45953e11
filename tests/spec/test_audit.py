"""Audit: what is proposed for core and working memories, and what becomes of it. SPEC 9.7"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_core.lifecycle.consolidation import audit
from mnemo_core.lifecycle.consolidation.state import DAY_MS
from mnemo_core.llm.audit import AuditAnswer, AuditOperation
from mnemo_core.llm.tasks import AnyTask, TaskInputs
from mnemo_core.similarity.thresholds import SOURCE
from mnemo_daemon.lifecycle.consolidation import ReviewQueue
from mnemo_store.records import Edge, Memory, PutEdge
from tests.support.consolidation_services import ConsolidationServices, consolidation_services_in
from tests.support.samples import AT, sample_memory, write

RULE = sample_memory(1, "The greenhouse door must be closed at night.", layer="core")
FOR_NOW = sample_memory(2, "For now the parcels go to the neighbour.", layer="core")
TALK = sample_memory(3, "so anyway, there we are again, and on it goes", layer="working", category="crumb")
TENT = sample_memory(4, "The tent is in the attic.", layer="working")
SKIS = sample_memory(5, "The tent is in the attic, under the skis.", layer="working")
LESSON = sample_memory(6, "Lesson learned: always close the valve before the filter is changed.", layer="working")
BUFFER = sample_memory(7, "so anyway, there we go again, and on it went", category="crumb")
PINNED = sample_memory(8, "For now the post goes to the office.", layer="core", pinned=True)
ALL = (RULE, FOR_NOW, TALK, TENT, SKIS, LESSON, BUFFER, PINNED)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[ConsolidationServices]:
    with consolidation_services_in(tmp_path) as made:
        yield made


@pytest.fixture
def queue(services: ConsolidationServices) -> ReviewQueue:
    return ReviewQueue(services.store, services.consolidation)


def proposed(queue: ReviewQueue) -> dict[str, tuple[str, ...]]:
    return {each.decision.action: tuple(memory.id for memory in each.memories) for each in queue.proposals()}


def put(services: ConsolidationServices, *memories: Memory) -> None:
    for memory in memories:
        services.put(memory)


def test_audit_proposes_by_rule_where_there_is_no_model_and_changes_nothing(
    services: ConsolidationServices, queue: ReviewQueue
) -> None:
    put(services, *ALL)
    counts = services.consolidation.audit("", "cli")
    assert (counts["reviewed"], counts["left"]) == (len(ALL) - 2, 0)  # not the buffer, nor what is pinned
    found = proposed(queue)
    assert {name: found.get(name) for name in ("delete", "demote", "merge")} == {
        "delete": (TALK.id,), "demote": (FOR_NOW.id,), "merge": (SKIS.id, TENT.id),
    }  # fmt: skip
    assert found["tag"] == (LESSON.id,)
    assert [services.services.memory(each.id) for each in ALL] == list(ALL)
    assert services.consolidation.audit("", "cli")["proposed"] == 0  # they wait


def test_each_proposal_of_an_audit_is_carried_out_by_itself(
    services: ConsolidationServices, queue: ReviewQueue
) -> None:
    put(services, *ALL)
    services.consolidation.audit("", "cli")
    by_action = {each.decision.action: each.id for each in queue.proposals()}
    queue.reject(by_action.pop("demote"), "cli")
    for proposal in by_action.values():
        queue.approve(proposal, None, "cli")
    after = {each.id: services.services.memory(each.id) for each in ALL}
    assert (after[TALK.id].state, after[TENT.id].state, after[SKIS.id].content) == (
        "trashed", "superseded", SKIS.content,
    )  # fmt: skip
    assert "lesson" in after[LESSON.id].tags
    assert after[FOR_NOW.id] == FOR_NOW
    assert not queue.proposals()
    assert services.consolidation.audit("", "cli")["proposed"] == 0  # rejected, or done


def test_an_audit_of_a_namespace_leaves_the_others_alone(services: ConsolidationServices, queue: ReviewQueue) -> None:
    put(services, FOR_NOW)
    assert services.consolidation.audit("work", "cli")["reviewed"] == 0
    assert not queue.proposals()


def test_an_audit_is_bounded_and_the_next_one_goes_on_behind_it(
    services: ConsolidationServices, queue: ReviewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "AUDITED_MAX", 2)
    put(services, RULE, FOR_NOW, TALK)
    first, second = (services.consolidation.audit("", "cli") for _ in range(2))
    assert [(each["reviewed"], each["left"]) for each in (first, second)] == [(2, 1), (2, 1)]
    assert proposed(queue) == {"demote": (FOR_NOW.id,), "delete": (TALK.id,)}


@pytest.mark.parametrize(
    ("similarity", "merges", "is_proposed"),
    [(0.649, False, False), (0.65, False, True), (0.78, False, True), (0.779, True, True), (0.78, True, False)],
)
def test_G48_an_audit_merges_from_0_65_on_and_leaves_to_a_cycle_what_that_merges(
    similarity: float, merges: bool, is_proposed: bool
) -> None:
    assert audit.is_for_audit(similarity, SOURCE, is_merging=merges) == is_proposed


def test_G28_a_model_proposes_and_what_its_words_do_not_bear_out_is_dropped(tmp_path: Path) -> None:
    def answer(_: AnyTask, inputs: TaskInputs) -> AuditAnswer:
        return AuditAnswer((AuditOperation("delete", inputs.sources.index(RULE.content) + 1),))

    with consolidation_services_in(tmp_path, answer) as services:
        put(services, RULE, FOR_NOW)
        services.consolidation.audit("", "cli")
        assert proposed(ReviewQueue(services.store, services.consolidation)) == {
            "demote": (FOR_NOW.id,)
        }  # the rules' answer


AUDITED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("The service listens on port 8080.", {}), ("It is 9090 by now, after the move.", {}),
    ("The spare key is with Ines.", {}), ("Ines next door has the spare key to the flat.", {}),
    ("The dentist is on the 3rd.", {"kind": "episodic", "event_at": AT + 2 * DAY_MS, "created_at": AT}),
    ("We went to the lake.", {"kind": "episodic", "event_at": AT - DAY_MS, "created_at": AT}),
    ("An agent says port 7070.", {"trust": "agent"}),
)  # fmt: skip


def test_an_audit_finds_what_is_replaced_repeated_or_over(services: ConsolidationServices, queue: ReviewQueue) -> None:
    port, new_port, key, fuller_key, visit, past, other = (
        sample_memory(number, text, **{"layer": "working", **fields})
        for number, (text, fields) in enumerate(AUDITED, start=1)
    )
    put(services, port, new_port, key, fuller_key, visit, past, other)
    for source, target, relation, slot in ((new_port, port, "related", True), (fuller_key, key, "repeats", False),
                                           (other, port, "related", True)):  # fmt: skip
        edge = Edge(source=source.id, target=target.id, relation=relation, at=AT, slot=slot)  # type: ignore[arg-type]
        write(services.store, PutEdge(data=edge))
    services.services.at = AT + 2 * DAY_MS + audit.OVER_MS
    services.consolidation.audit("", "cli")
    assert "archive" not in proposed(queue), "its day is over for two weeks, and not for more"
    services.services.at += 1
    services.consolidation.audit("", "cli")
    assert proposed(queue) == {
        "supersede": (new_port.id, port.id), "absorb": (fuller_key.id, key.id), "archive": (visit.id,),
    }  # fmt: skip
    for each in queue.proposals():
        queue.approve(each.id, None, "cli")
    states = [services.services.memory(each.id).state for each in (port, key, visit, new_port)]
    assert states == ["superseded", "superseded", "archived", "active"]
    assert services.consolidation.audit("", "cli")["proposed"] == 0
