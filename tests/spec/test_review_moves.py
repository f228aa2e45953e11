"""The changes of a memory by a person's move, and the operations of a cycle that it rules out. SPEC 9.4"""

import pytest

from mnemo_core.lifecycle.consolidation.review import MoveTarget, move_facts, move_memory, standing_decisions
from mnemo_store.record_texts import decision_digest
from mnemo_store.records import Fact, LifecycleAction, Memory
from tests.support.samples import AT, sample_id, sample_memory

NOW = AT + 1000


def test_a_move_makes_a_version_and_the_same_place_makes_none() -> None:
    memory = sample_memory(1, layer="working", kind="semantic", decay_rate=0.3, namespace="boat")
    core = move_memory(memory, MoveTarget(layer="core"), NOW)
    assert (core.layer, core.decay_rate, core.version, core.modified_at) == ("core", 0.05, memory.version + 1, NOW)
    both = move_memory(memory, MoveTarget(layer="core", namespace="home", is_archived=True), NOW)
    assert (both.layer, both.namespace, both.state, both.version) == ("core", "home", "archived", memory.version + 1)
    for same in (MoveTarget(), MoveTarget("working", "boat", False)):
        assert move_memory(memory, same, NOW) is memory


def placed(layer: str, state: str = "active") -> Memory:
    return sample_memory(1, layer=layer, state=state)


@pytest.mark.parametrize(
    ("before", "after", "actions"),
    [
        (placed("buffer"), placed("core"), ["demote", "archive"]),
        (placed("core"), placed("working"), ["promote"]),
        (placed("buffer"), placed("buffer", "archived"), ["activate"]),
        (placed("buffer", "archived"), placed("buffer"), ["archive"]),
        (placed("buffer", "archived"), placed("working"), ["demote", "archive"]),
        (placed("buffer"), placed("buffer"), []),
    ],
)
def test_a_move_rules_out_what_would_take_it_back(
    before: Memory, after: Memory, actions: list[LifecycleAction]
) -> None:
    decisions = standing_decisions(before, after, NOW, "g")
    assert [each.action for each in decisions] == actions
    assert {(each.memory, each.other, each.status, each.at, each.group) for each in decisions} <= {
        (sample_id(1), sample_id(1), "rejected", NOW, "g")
    }
    assert {each.digest for each in decisions} <= {decision_digest([after.content])}


def test_facts_follow_their_memory() -> None:
    facts = [
        Fact(id=sample_id(number), memory=sample_id(9), content_hash="", subject="Anna", predicate="likes",
             object="tea", created_at=AT, namespace=namespace)
        for number, namespace in ((1, "boat"), (2, "home"))
    ]  # fmt: skip
    assert [(each.id, each.namespace) for each in move_facts(facts, "home")] == [(sample_id(1), "home")]
