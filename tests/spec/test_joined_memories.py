"""Memories that stand for others: near-duplicates, merges, reconciliation, overlaps in core. SPEC 5.5, 9.5"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_core.lifecycle.consolidation.joining import pairs
from mnemo_core.lifecycle.consolidation.steps import STEPS
from mnemo_daemon.lifecycle.consolidation import consolidation
from mnemo_store.records import ConversationTurn, Edge, Fact, Memory, Usage, content_hash
from tests.cycle_desk import CycleDesk, cycle_desk_in
from tests.desk import put
from tests.samples import AT, sample_id, sample_memory, write

HOUR, DAY = 3_600_000, 86_400_000


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[CycleDesk]:
    with cycle_desk_in(tmp_path, has_vectors=True) as made:
        made.desk.at = AT + DAY
        yield made


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Have cycles carry out these steps alone."""
    monkeypatch.setattr(consolidation, "STEPS", tuple(step for step in STEPS if step.name in names))


@pytest.fixture
def near_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "near_duplicates")


def stored(desk: CycleDesk, *memories: Memory) -> list[Memory]:
    """Store memories and wait for their vectors."""
    for each in memories:
        desk.put(each)
    put(desk.desk)
    return [*memories]


def states(desk: CycleDesk, *memories: Memory) -> list[str]:
    return [desk.desk.memory(each.id).state for each in memories]


TEA = ("The tea is in the blue tin on the shelf.", "The tea is in the blue tin on a shelf.")


@pytest.mark.usefixtures("near_duplicates")
def test_G23_of_memories_in_the_buffer_that_say_the_same_one_is_kept_and_counts_a_repetition(desk: CycleDesk) -> None:
    one, other = stored(
        desk, sample_memory(1, TEA[0], tags=("kitchen",)), sample_memory(2, TEA[1], importance=0.75, tags=("tea",))
    )
    desk.put(one, Usage(id=one.id, access_count=3, strength=0.5))
    desk.put(other, Usage(id=other.id, access_count=1, repetition_count=1, strength=0.75))
    cycle = desk.run().cycle
    assert cycle.steps[0].counts == {"absorb": 1}
    kept, hidden = desk.desk.memory(other.id), desk.desk.memory(one.id)
    assert (hidden.state, hidden.superseded_by, hidden.content) == ("superseded", other.id, one.content)
    assert (kept.state, kept.tags, kept.importance, kept.content) == ("active", ("tea", "kitchen"), 0.75, other.content)
    usage = desk.usage(other.id)
    assert (usage.access_count, usage.repetition_count, usage.strength) == (4, 2, 0.75)
    assert desk.run().cycle.steps[0].counts == {}


DIFFERING = [
    ("The pool is 25 m long on the inside.", "The pool is 50 m long on the inside."),
    ("The lane is 25 m long on the inside.", "The lane is 25 km long on the inside."),
    ("The visit is on 3 March in the morning.", "The visit is on 4 March in the morning."),
    ("My dentist in the town is Anna Berg.", "My dentist in the town is Anna Borg."),
    ("The fix is in build-112 of the app.", "The fix is in build-121 of the app."),
    ("We do eat meat at home.", "We do not eat meat at home."),
    ("The heating is on in the night.", "The heating is off in the night."),
]


@pytest.mark.usefixtures("near_duplicates")
def test_G23_memories_that_differ_in_a_specific_are_never_called_the_same(desk: CycleDesk) -> None:
    texts = [text for pair in DIFFERING for text in pair]
    memories = stored(desk, *(sample_memory(number, text) for number, text in enumerate(texts, start=1)))
    assert desk.run().operations == []
    assert set(states(desk, *memories)) == {"active"}


@pytest.mark.usefixtures("near_duplicates")
@pytest.mark.parametrize(
    "fields",
    [
        {"layer": "working"}, {"pinned": True}, {"managed": "0" * 32}, {"kind": "working"},
        {"expires_at": AT + 9 * DAY}, {"key": "tea"}, {"tags": ("sensitive",)}, {"tags": ("session",)},
        {"trust": "tool"}, {"agent_id": "planner"}, {"user_id": "mira"}, {"speaker": "Mira"}, {"namespace": "work"},
        {"run_id": "7"}, {"compression_source": True}, {"turn": ConversationTurn(role="user")},
        {"kind": "episodic", "event_at": AT - DAY},
    ],
    ids=str,
)  # fmt: skip
def test_G23_what_is_under_other_rules_is_not_joined(desk: CycleDesk, fields: dict[str, Any]) -> None:
    one = sample_memory(1, TEA[0], namespace="home" if "namespace" in fields else "default")
    memories = stored(desk, one, sample_memory(2, TEA[1], **fields))
    assert desk.run().operations == []
    assert set(states(desk, *memories)) == {"active"}


@pytest.mark.usefixtures("near_duplicates")
def test_G44_across_namespaces_what_stands_in_default_stays(desk: CycleDesk) -> None:
    general, project = stored(
        desk, sample_memory(1, TEA[0]), sample_memory(2, TEA[1], namespace="work", importance=0.9)
    )
    assert desk.run(namespace="default").operations == []  # a cycle of one namespace acts on no other
    desk.run(namespace="work")
    assert states(desk, general, project) == ["active", "superseded"]
    assert desk.desk.memory(general.id).namespace == "default"


@pytest.mark.usefixtures("near_duplicates")
def test_what_is_trusted_less_stands_for_nothing_that_is_trusted_more(desk: CycleDesk) -> None:
    general, project = stored(desk, sample_memory(1, TEA[0], trust="agent"), sample_memory(2, TEA[1], namespace="work"))
    assert desk.run().operations == []
    person = sample_memory(3, "The salt is in the red tin on the shelf.")
    agent = sample_memory(4, "The salt is in the red tin on a shelf.", trust="agent", importance=0.9)
    stored(desk, person, agent)
    desk.run()
    assert states(desk, general, project, person, agent) == ["active", "active", "active", "superseded"]


@pytest.mark.usefixtures("near_duplicates")
def test_what_was_superseded_is_found_where_it_is_asked_for_and_when_its_replacement_is_gone(desk: CycleDesk) -> None:
    one, other = stored(desk, sample_memory(1, TEA[0]), sample_memory(2, TEA[1], importance=0.75))
    desk.run()
    question = "Where is the tea?"
    assert desk.desk.recalled(question) == [other.content]
    assert [each.content for each in desk.desk.listed(states=("superseded",))] == [one.content]
    desk.desk.trash(other.id)
    assert desk.desk.recalled(question) == [one.content]
    desk.desk.restore(other.id)
    assert desk.desk.recalled(question) == [other.content]


@pytest.mark.usefixtures("near_duplicates")
def test_undo_takes_back_all_of_a_cycle_and_the_next_one_leaves_the_pair_alone(desk: CycleDesk) -> None:
    town, told = sample_memory(4, "The town is called Linz."), content_hash(TEA[0]).hex()
    one, other, _ = stored(
        desk, sample_memory(1, TEA[0], tags=("kitchen",)), sample_memory(2, TEA[1], importance=0.75), town
    )
    fact = Fact(
        id=sample_id(9),
        memory=one.id,
        content_hash=told,
        subject="tea",
        predicate="is in",
        object="blue tin",
        created_at=AT,
    )
    write(desk.store, fact, Edge(source=one.id, target=town.id, relation="updates", at=AT))
    desk.put(one, Usage(id=one.id, access_count=3, strength=0.25))
    desk.put(other, Usage(id=other.id, access_count=1, strength=0.125))
    before = desk.usage(other.id)
    desk.desk.at += 1
    cycle = desk.run().cycle
    with desk.store.snapshot() as snapshot:
        assert [(each.predicate, each.object) for each in snapshot.facts(other.id)] == [("is in", "blue tin")]
        assert [(each.relation, each.target) for each in snapshot.edges(other.id)] == [("updates", town.id)]
    assert (desk.usage(other.id).access_count, desk.usage(other.id).strength) == (4, 0.25)
    desk.desk.at += 1
    desk.desk.undo(group=cycle.id)
    assert states(desk, one, other) == ["active", "active"]
    assert desk.usage(other.id) == before
    assert desk.desk.memory(other.id).tags == other.tags
    with desk.store.snapshot() as snapshot:
        assert (snapshot.facts(other.id), snapshot.edges(other.id)) == ([], [])
    assert desk.run().operations == []


@pytest.mark.usefixtures("near_duplicates")
def test_new_memories_are_looked_at_in_the_next_cycle_and_all_others_in_turn(
    desk: CycleDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "NEW_MAX", 2)
    monkeypatch.setattr(pairs, "OTHERS_MAX", 2)
    different = ("Anna sings.", "Bob swims.", "Cleo paints.", "Dan cooks.", "Eve climbs.")
    texts = (*TEA, *different)  # the two that say the same are the first: their turn comes with the others
    memories = stored(desk, *(sample_memory(n, text, modified_at=AT + n) for n, text in enumerate(texts, start=1)))
    cycles = 0
    while states(desk, memories[0], memories[1]) == ["active", "active"]:
        desk.run()
        cycles += 1
        assert cycles <= 4
    salt = [sample_memory(n, f"The salt is in {a} red tin.", modified_at=AT + n) for n, a in ((11, "the"), (12, "a"))]
    desk.desk.at += 1
    stored(desk, *salt)
    desk.run()
    assert states(desk, *salt) == ["active", "superseded"]
