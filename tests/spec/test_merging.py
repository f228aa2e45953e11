"""Memories that stand for others: near-duplicates, merges, reconciliation, overlaps in core. SPEC 5.5, 9.5"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_core.ingest.erasure import plan_erasure, references_of
from mnemo_core.lifecycle.consolidation import pairs
from mnemo_core.lifecycle.consolidation.merging import differ, repeats
from mnemo_core.lifecycle.consolidation.steps import STEPS
from mnemo_core.llm.merge import MergedText
from mnemo_core.llm.reconcile import ReconcileAnswer, Relation
from mnemo_core.llm.tasks import AnyTask, TaskInputs
from mnemo_daemon.lifecycle import consolidation
from mnemo_store.record_texts import content_hash
from mnemo_store.records import ConversationTurn, Edge, Fact, Memory, PutEdge, Trust, Usage
from mnemo_store.tables import DECISIONS
from tests.support.consolidation_services import ConsolidationServices, consolidation_services_in
from tests.support.samples import AT, sample_id, sample_memory, write
from tests.support.store_services import put
from tests.support.text_pairs import differing

HOUR, DAY = 3_600_000, 86_400_000


@pytest.fixture
def services(tmp_path: Path) -> Iterator[ConsolidationServices]:
    with consolidation_services_in(tmp_path, has_vectors=True) as made:
        made.services.at = AT + DAY
        yield made


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Have cycles carry out these steps alone."""
    monkeypatch.setattr(consolidation, "STEPS", tuple(step for step in STEPS if step.name in names))


@pytest.fixture
def near_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "near_duplicates")


def stored(services: ConsolidationServices, *memories: Memory) -> list[Memory]:
    """Store memories and wait for their vectors."""
    for each in memories:
        services.put(each)
    put(services.services)
    return [*memories]


def states(services: ConsolidationServices, *memories: Memory) -> list[str]:
    return [services.services.memory(each.id).state for each in memories]


TEA = ("The tea is in the blue tin on the shelf.", "The tea is in the blue tin on a shelf.")


@pytest.mark.usefixtures("near_duplicates")
def test_G23_of_memories_in_the_buffer_that_say_the_same_one_is_kept_and_counts_a_repetition(
    services: ConsolidationServices,
) -> None:
    one, other = stored(
        services, sample_memory(1, TEA[0], tags=("kitchen",)), sample_memory(2, TEA[1], importance=0.75, tags=("tea",))
    )
    services.put(one, Usage(id=one.id, access_count=3, strength=0.5))
    services.put(other, Usage(id=other.id, access_count=1, repetition_count=1, strength=0.75, person_at=AT))
    cycle = services.run().cycle
    assert cycle.steps[0].counts == {"absorb": 1}
    kept, hidden = services.services.memory(other.id), services.services.memory(one.id)
    assert (hidden.state, hidden.superseded_by, hidden.content) == ("superseded", other.id, one.content)
    assert (kept.state, kept.tags, kept.importance, kept.content) == ("active", ("tea", "kitchen"), 0.75, other.content)
    usage = services.usage(other.id)
    assert (usage.access_count, usage.repetition_count, usage.strength, usage.person_at) == (4, 2, 0.75, AT)
    assert services.run().cycle.steps[0].counts == {}


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
def test_G23_memories_that_differ_in_a_specific_are_never_called_the_same(services: ConsolidationServices) -> None:
    texts = [text for pair in DIFFERING for text in pair]
    memories = stored(services, *(sample_memory(number, text) for number, text in enumerate(texts, start=1)))
    assert services.run().operations == []
    assert set(states(services, *memories)) == {"active"}


@pytest.mark.usefixtures("near_duplicates")
@pytest.mark.parametrize(
    "fields",
    [
        {"layer": "core"}, {"pinned": True}, {"managed": "0" * 32}, {"kind": "working"},
        {"expires_at": AT + 9 * DAY}, {"key": "tea"}, {"tags": ("sensitive",)}, {"tags": ("session",)},
        {"trust": "tool"}, {"agent_id": "planner"}, {"user_id": "mira"}, {"speaker": "Mira"}, {"namespace": "work"},
        {"run_id": "7"}, {"compression_source": True}, {"turn": ConversationTurn(role="user")},
        {"kind": "episodic", "event_at": AT - DAY},
    ],
    ids=str,
)  # fmt: skip
def test_G23_what_is_under_other_rules_is_not_joined(services: ConsolidationServices, fields: dict[str, Any]) -> None:
    one = sample_memory(1, TEA[0], namespace="home" if "namespace" in fields else "default")
    memories = stored(services, one, sample_memory(2, TEA[1], **fields))
    assert services.run().operations == []
    assert set(states(services, *memories)) == {"active"}


@pytest.mark.usefixtures("near_duplicates")
@pytest.mark.parametrize("layer", ["buffer", "working"])
def test_two_wordings_that_ingestion_tied_are_one_memory_and_the_fuller_one_stays(
    services: ConsolidationServices, layer: Any
) -> None:
    short, full = stored(
        services, sample_memory(1, TEA[0], layer=layer),
        sample_memory(2, "The tea is in the blue tin on the shelf, next to cups.", layer=layer),
    )  # fmt: skip
    assert services.run().operations == []
    write(services.services.store, PutEdge(data=Edge(source=full.id, target=short.id, relation="repeats", at=AT)))
    assert services.run().cycle.steps[0].counts == {"absorb": 1}
    assert states(services, short, full) == ["superseded", "active"]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("The greenhouse is heated to 12 degrees at night.", "At night the greenhouse is heated to 12 degrees.", True),
        ("The nursery closes at noon on Fridays.", "On Fridays the nursery closes at 12:00.", True),
        ("The choir meets every Wednesday.", "The choir meets on Wednesdays.", True),
        ("There's a spare fuse in the drawer.", "A spare fuse is in the drawer.", True),
        ("Our landlord's name is Mr Okafor.", "Mr Okafor is our landlord.", True),
        ("My sister works for the railway.", "My sister is employed by the railway.", True),
        ("The greenhouse is heated to 12 degrees at night.", "At night the greenhouse is heated to 14 degrees.", False),
        ("Anna drives Ben on Fridays.", "On Fridays Ben drives Anna.", False),
        ("The choir meets every Wednesday.", "The choir meets on Wednesday.", False),
        ("The choir meets every Wednesday.", "The choir meets on Thursdays.", False),
        ("Before lunch Anna eats after work.", "After work Anna eats before lunch, not after.", False),
        ("On Fridays it closes. It opens at noon.", "It closes. It opens at noon on Fridays.", False),
        ("Our landlord's name is Mr Okafor.", "Mr Okafor's name is our landlord.", False),
    ],
)
def test_a_phrase_in_front_and_other_constructions_say_the_same(one: str, other: str, is_same: bool) -> None:
    for pair in ((one, other), (other, one)):
        assert repeats(*(sample_memory(number, text) for number, text in enumerate(pair))) is is_same


def test_pairs_that_differ_never_say_the_same() -> None:
    for pair in differing():
        assert not repeats(sample_memory(0, pair.one), sample_memory(1, pair.other)), pair


def test_a_genitive_says_what_a_compound_says_and_other_orders_of_words_do_not() -> None:
    def same(one: str, other: str) -> bool:
        return repeats(sample_memory(1, one), sample_memory(2, other))

    assert same("The garage code is 4711.", "The code of the garage is 4711.")
    assert not same("The garage code is 4711.", "The code of the garage is 4712.")
    assert not same("The dog bit the man.", "The man bit the dog.")


@pytest.mark.usefixtures("near_duplicates")
def test_G44_across_namespaces_what_stands_in_default_stays(services: ConsolidationServices) -> None:
    general, project = stored(
        services, sample_memory(1, TEA[0]), sample_memory(2, TEA[1], namespace="work", importance=0.9)
    )
    assert services.run(namespace="default").operations == []  # a cycle of one namespace acts on no other
    services.run(namespace="work")
    assert states(services, general, project) == ["active", "superseded"]
    assert services.services.memory(general.id).namespace == "default"


@pytest.mark.usefixtures("near_duplicates")
def test_what_is_trusted_less_stands_for_nothing_that_is_trusted_more(services: ConsolidationServices) -> None:
    general, project = stored(
        services, sample_memory(1, TEA[0], trust="agent"), sample_memory(2, TEA[1], namespace="work")
    )
    assert services.run().operations == []
    person = sample_memory(3, "The salt is in the red tin on the shelf.")
    agent = sample_memory(4, "The salt is in the red tin on a shelf.", trust="agent", importance=0.9)
    stored(services, person, agent)
    services.run()
    assert states(services, general, project, person, agent) == ["active", "active", "active", "superseded"]


@pytest.mark.usefixtures("near_duplicates")
def test_a_memory_of_the_person_takes_over_no_tag_of_what_an_agent_said(services: ConsolidationServices) -> None:
    person = sample_memory(1, TEA[0], tags=("kitchen",))
    stored(services, person, sample_memory(2, TEA[1], tags=("trigger:obey",), importance=0.9, trust="agent"))
    assert services.run().cycle.steps[0].counts == {"absorb": 1}
    kept = services.services.memory(person.id)
    assert (kept.tags, kept.importance, kept.trust) == (("kitchen",), person.importance, "user")


@pytest.mark.usefixtures("near_duplicates")
def test_what_was_superseded_is_found_where_it_is_asked_for_and_when_its_replacement_is_gone(
    services: ConsolidationServices,
) -> None:
    one, other = stored(services, sample_memory(1, TEA[0]), sample_memory(2, TEA[1], importance=0.75))
    services.run()
    question = "Where is the tea?"
    assert services.services.recalled(question) == [other.content]
    assert [each.content for each in services.services.listed(states=("superseded",))] == [one.content]
    services.services.trash(other.id)
    assert services.services.recalled(question) == [one.content]
    services.services.restore(other.id)
    assert services.services.recalled(question) == [other.content]


@pytest.mark.usefixtures("near_duplicates")
def test_undo_takes_back_all_of_a_cycle_and_the_next_one_leaves_the_pair_alone(services: ConsolidationServices) -> None:
    town, told = sample_memory(4, "The town is called Linz."), content_hash(TEA[0]).hex()
    one, other, _ = stored(
        services, sample_memory(1, TEA[0], tags=("kitchen",)), sample_memory(2, TEA[1], importance=0.75), town
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
    write(services.store, fact, Edge(source=one.id, target=town.id, relation="updates", at=AT))
    services.put(one, Usage(id=one.id, access_count=3, strength=0.25))
    services.put(other, Usage(id=other.id, access_count=1, strength=0.125))
    before = services.usage(other.id)
    services.services.at += 1
    cycle = services.run().cycle
    with services.store.snapshot() as snapshot:
        assert [(each.predicate, each.object) for each in snapshot.facts(other.id)] == [("is in", "blue tin")]
        assert [(each.relation, each.target) for each in snapshot.edges(other.id)] == [("updates", town.id)]
    assert (services.usage(other.id).access_count, services.usage(other.id).strength) == (4, 0.25)
    services.services.at += 1
    services.services.undo(group=cycle.id)
    assert states(services, one, other) == ["active", "active"]
    assert services.usage(other.id) == before
    assert services.services.memory(other.id).tags == other.tags
    with services.store.snapshot() as snapshot:
        assert (snapshot.facts(other.id), snapshot.edges(other.id)) == ([], [])
    assert services.run().operations == []


@pytest.mark.usefixtures("near_duplicates")
def test_new_memories_are_looked_at_in_the_next_cycle_and_all_others_in_turn(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "NEW_MAX", 2)
    monkeypatch.setattr(pairs, "OTHERS_MAX", 2)
    different = ("Anna sings.", "Bob swims.", "Cleo paints.", "Dan cooks.", "Eve climbs.")
    texts = (*TEA, *different)  # the two that say the same are the first: their turn comes with the others
    memories = stored(services, *(sample_memory(n, text, modified_at=AT + n) for n, text in enumerate(texts, start=1)))
    cycles = 0
    while states(services, memories[0], memories[1]) == ["active", "active"]:
        services.run()
        cycles += 1
        assert cycles <= 4
    salt = [sample_memory(n, f"The salt is in {a} red tin.", modified_at=AT + n) for n, a in ((11, "the"), (12, "a"))]
    services.services.at += 1
    stored(services, *salt)
    services.run()
    assert states(services, *salt) == ["active", "superseded"]


# Reconciliation, with a scripted model


def scripted(services: ConsolidationServices, *relations: Relation, text: str = "") -> None:
    """Have the model answer these relations in turn, the last of them for ever, and merge into a text."""
    left = list(relations)

    def answers(task: AnyTask, _: TaskInputs) -> Any:
        if task.site == "merge":
            return MergedText(text)
        return ReconcileAnswer(left.pop(0) if len(left) > 1 else left[0])

    services.tasks.answers = answers


def asked(services: ConsolidationServices, site: str) -> int:
    return [each for each, _ in services.tasks.asked].count(site)


@pytest.fixture
def reconcile(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "reconcile")


def told(number: int, text: str, hours: float = 0, **fields: Any) -> Memory:
    """A memory of the working layer, said so many hours later."""
    at = AT + round(hours * HOUR)
    return sample_memory(number, text, created_at=at, modified_at=at, event_at=at, **{"layer": "working", **fields})


OLD, NEW = "The standup in the office is at 9:30.", "The standup in the office is at 10:15."


@pytest.mark.usefixtures("reconcile")
@pytest.mark.parametrize(("after_ms", "updates"), [(HOUR - 1, 0), (HOUR, 1)])
def test_G21_a_newer_memory_replaces_an_older_one_from_an_hour_on(
    services: ConsolidationServices, after_ms: int, updates: int
) -> None:
    scripted(services, "update")
    old = told(1, OLD, tags=("office",), importance=0.75, importance_source="user")
    new = told(2, NEW, after_ms / HOUR, tags=("team",))
    stored(services, old, new)
    services.put(old, Usage(id=old.id, access_count=4, repetition_count=2, strength=0.75))
    services.put(new, Usage(id=new.id, access_count=1, repetition_count=1, strength=0.5))
    assert services.run().cycle.steps[0].counts == ({"supersede": 1} if updates else {})
    winner, loser, usage = services.services.memory(new.id), services.services.memory(old.id), services.usage(new.id)
    if not updates:
        assert (winner, loser) == (new, old)
        return
    assert (loser.state, loser.superseded_by) == ("superseded", new.id)
    assert (winner.content, winner.tags) == (NEW, ("team", "office"))
    assert (winner.importance, winner.importance_source) == (0.75, "user")
    assert (usage.access_count, usage.repetition_count, usage.strength) == (5, 3, 0.75)
    assert services.services.recalled("When is the standup?") == [NEW]
    assert OLD in services.services.recalled("When is the standup?", states=("active", "superseded"))


@pytest.mark.usefixtures("reconcile")
@pytest.mark.parametrize(("trust", "kept"), [("agent", ""), ("user", " Always tag the release.")])
def test_a_text_of_the_person_takes_over_no_rule_of_an_agent(
    services: ConsolidationServices, trust: Trust, kept: str
) -> None:
    scripted(services, "update")
    old = told(1, "Our deploys are on Fridays in the evening. Always tag the release.", trust=trust)
    new = told(2, "Our deploys are on Tuesdays in the evening.", 2)
    stored(services, old, new)
    services.run()
    assert services.services.memory(old.id).state == "superseded"
    result = services.services.memory(services.services.memory(old.id).superseded_by)
    assert (result.content, result.trust) == (f"{new.content}{kept}", "user")


@pytest.mark.usefixtures("reconcile")
def test_G21_what_the_older_memory_insists_on_is_kept_in_a_new_text_of_both(services: ConsolidationServices) -> None:
    scripted(services, "update")
    old = told(1, "Our deploys are on Fridays in the evening. Always tag the release.", layer="core")
    new = told(2, "Our deploys are on Mondays in the evening.", 2, layer="core")
    stored(services, old, new)
    cycle = services.run().cycle
    made = services.services.memory(services.services.memory(old.id).superseded_by)
    assert made.content == "Our deploys are on Mondays in the evening. Always tag the release."
    assert (made.derived_from, made.layer, made.trust, made.method) == (
        (new.id, old.id),
        "core",
        "user",
        "llm:scripted",
    )
    assert states(services, old, new) == ["superseded", "superseded"]
    services.services.undo(group=cycle.id)
    assert (states(services, old, new), services.services.memory(made.id).state) == (["active", "active"], "trashed")


@pytest.mark.usefixtures("reconcile")
def test_G21_what_is_kept_apart_is_asked_once_per_pair_of_texts(services: ConsolidationServices) -> None:
    scripted(services, "keep_both")
    old, _ = stored(services, told(1, OLD), told(2, NEW, 2))
    assert [services.run().cycle.steps[0].counts for _ in range(3)] == [{"apart": 1}, {}, {}]
    assert asked(services, "reconcile") == 1
    services.services.edit(old.id, content="The standup in the office is at 9:00.")
    services.services.at += 1
    put(services.services)
    assert asked(services, "reconcile") == 1  # it is the newer one now, and was not an hour ago
    new = told(3, "The standup in the office is at 11:00.", 30)
    services.services.at = AT + 2 * DAY
    stored(services, new)
    services.run()
    assert asked(services, "reconcile") == 3  # with each of the others


@pytest.mark.usefixtures("reconcile")
def test_G21_a_lower_layer_never_absorbs_a_higher_one(services: ConsolidationServices) -> None:
    scripted(services, "absorb")
    fuller = "The vet of our dog is in Mill Lane, next to the chemist."
    high, low = stored(services, told(1, fuller.partition(",")[0] + ".", layer="core"), told(2, fuller, 2))
    services.run()
    assert states(services, high, low) == ["active", "active"]
    stored(services, equal := told(3, fuller, 4, layer="core"))
    services.run()
    services.run()  # in one cycle a memory is in one operation
    assert states(services, high, low, equal) == ["superseded", "superseded", "active"]


@pytest.mark.usefixtures("reconcile")
def test_G44_a_project_never_replaces_what_is_said_in_default(services: ConsolidationServices) -> None:
    scripted(services, "update")
    general, project = stored(services, told(1, OLD), told(2, NEW, 2, namespace="work"))
    services.run()
    assert states(services, general, project) == ["active", "active"]
    stored(services, latest := told(3, "The standup in the office is at 11:45.", 4))
    services.run()
    assert "superseded" in states(services, general, project)
    assert services.services.memory(latest.id).state == "active"


@pytest.mark.usefixtures("reconcile")
def test_a_model_hides_nothing_that_the_newer_memory_does_not_contradict(services: ConsolidationServices) -> None:
    scripted(services, "update")
    one, other = stored(
        services, told(1, "The cache of the CI is kept for 14 days."), told(2, "The cache of the CI is shared.", 2)
    )
    services.run()
    assert (asked(services, "reconcile"), states(services, one, other)) == (1, ["active", "active"])


@pytest.mark.usefixtures("reconcile")
def test_a_value_that_an_edge_of_intake_calls_outdated_is_left_to_the_edge(services: ConsolidationServices) -> None:
    scripted(services, "update")
    old, new = stored(services, told(1, NEW), told(2, OLD, 2))
    write(services.store, Edge(source=old.id, target=new.id, relation="updates", at=AT))  # of an event that came later
    services.run()
    assert (asked(services, "reconcile"), states(services, old, new)) == (0, ["active", "active"])


@pytest.mark.parametrize("merge", [True, False])
def test_G28_without_a_language_model_reconcile_and_merge_are_skipped_and_say_so(
    services: ConsolidationServices, merge: bool
) -> None:
    stored(services, told(1, OLD), told(2, NEW, 2), sample_memory(3, TEA[0]), sample_memory(4, TEA[1]))
    steps = {each.name: each for each in services.run(merge=merge).cycle.steps}
    skipped = {name for name, each in steps.items() if each.skipped == "no language model that is good enough"}
    assert skipped == {"reconcile", "merge"}
    assert steps["near_duplicates"].counts == {"absorb": 1}


# Merges


@pytest.fixture
def merge(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "merge")


@pytest.mark.usefixtures("merge")
def test_G20_a_merged_text_takes_the_place_of_both_with_all_that_they_have(services: ConsolidationServices) -> None:
    old = "The old boat in the harbour of Kiel has an engine of 30 hp."
    red = "The boat in the harbour of Kiel has a red engine of 30 hp."
    text = f"{old} It has a red engine."
    one = sample_memory(1, old, tags=("a", "b"), layer="working", trust="note")
    other = sample_memory(2, red, tags=("b", "c"), importance=0.75)
    scripted(services, "keep_both", text=text)
    stored(services, one, other)
    services.put(one, Usage(id=one.id, access_count=3, repetition_count=1, strength=0.25))
    services.put(other, Usage(id=other.id, access_count=2, repetition_count=2, strength=0.5, person_at=AT))
    assert services.run().cycle.steps[0].skipped == "merging is off"
    cycle = services.run(merge=True).cycle
    assert cycle.steps[0].counts == {"merge": 1}
    made = services.services.memory(services.services.memory(one.id).superseded_by)
    assert services.services.memory(other.id).superseded_by == made.id
    assert (made.content, made.method) == (text, "llm:scripted")
    assert (made.layer, made.importance, made.trust) == ("working", 0.75, "note")
    assert (made.tags, made.derived_from) == (("a", "b", "c"), (one.id, other.id))
    usage = services.usage(made.id)
    assert (usage.access_count, usage.repetition_count, usage.strength, usage.person_at) == (5, 3, 0.5, 0)
    put(services.services)
    assert services.services.recalled("Which engine has the boat?") == [text]
    assert [services.services.recalled(each, states=("superseded",))[0] for each in (old, red)] == [old, red]
    services.services.undo(group=cycle.id)
    assert (services.services.memory(made.id).state, states(services, one, other)) == ("trashed", ["active", "active"])
    assert services.run(merge=True).operations == []


@pytest.mark.usefixtures("merge")
@pytest.mark.parametrize(("trust", "merged"), [("agent", 0), ("note", 1)])
def test_no_text_is_made_of_the_words_of_the_person_and_of_others(
    services: ConsolidationServices, trust: Trust, merged: int
) -> None:
    scripted(services, "keep_both", text=f"{TEA[0]} It is green.")
    stored(services, sample_memory(1, TEA[0]), sample_memory(2, TEA[0], trust=trust))
    assert services.run(merge=True).cycle.steps[0].counts.get("merge", 0) == merged


@pytest.mark.usefixtures("merge")
@pytest.mark.parametrize(
    ("fields", "winner"),
    [
        ({"layer": "core", "importance": 0.25}, 1),  # the higher layer, rather than what is more important
        ({"importance": 0.75}, 1),
        ({"importance": 0.25}, 2),
        ({"namespace": "work", "importance": 0.75}, 2),  # the result stands in `default`
    ],
    ids=str,
)
def test_G20_the_winner_is_in_the_higher_layer_then_more_important_then_more_accessed(
    services: ConsolidationServices, fields: dict[str, Any], winner: int
) -> None:
    scripted(services, "keep_both", text="The tea is in the blue tin on the upper shelf.")
    one = sample_memory(1, "The tea is in the blue tin on the upper shelf.", **fields)
    other = sample_memory(2, one.content)
    stored(services, one, other)
    services.run(merge=True)
    assert states(services, one, other) == (["active", "superseded"] if winner == 1 else ["superseded", "active"])


@pytest.mark.usefixtures("merge")
def test_G20_a_pair_is_remembered_whatever_comes_out_and_not_asked_again(services: ConsolidationServices) -> None:
    scripted(services, "keep_both", text="The lamp is new.")  # says nothing of what they say
    texts = ("The old boat in the harbour of Kiel has a keel.", "The boat in the harbour of Kiel has a red keel.")
    one, other = stored(services, *(sample_memory(number, text) for number, text in enumerate(texts, start=1)))
    outcomes = [services.run(merge=True).cycle.steps[0].counts for _ in range(2)]
    assert (outcomes[1], asked(services, "merge")) == ({}, 1)
    with services.store.snapshot() as snapshot:
        assert len(snapshot.under(DECISIONS, one.id)) == 1
    assert {services.services.memory(each.id).content for each in (one, other)} == {*texts}


@pytest.mark.parametrize(("one", "other"), DIFFERING)
def test_G20_memories_that_differ_in_a_specific_are_not_even_asked_about(one: str, other: str) -> None:
    assert differ(one, other)
    assert differ(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Alice reports to Dmitri.", "Dmitri reports to Alice."),  # the same words in another order
        ("My brother is called Tariq.", "My neighbour is called Tariq."),  # another word in the same place
        ("Rosa was in Ghent in May.", "Rosa was in Bruges, and it rained."),
    ],
)
def test_texts_about_two_things_differ_and_an_addition_is_no_difference(one: str, other: str) -> None:
    assert differ(one, other)
    assert not differ(one, f"{one} It took 3 hours.")


# Overlaps in core


def test_G24_memories_of_core_that_overlap_are_flagged_once_and_stay(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "overlap")
    near = [
        told(number, f"The boat in the harbour is {word}.", layer="core") for number, word in ((1, "old"), (2, "red"))
    ]
    low = told(3, "The boat in the harbour is big.")
    stored(services, *near, low, told(4, "Anna paints the fence.", layer="core"))
    runs = [services.run() for _ in range(2)]
    assert [each.cycle.steps[0].counts for each in runs] == [{"overlap": 1}, {}]
    assert runs[0].operations[0][1].ids == (near[0].id, near[1].id)
    assert states(services, *near, low) == ["active"] * 3
    services.services.edit(near[0].id, content="The boat in the harbour is very old.")
    put(services.services)
    assert services.run().cycle.steps[0].counts == {"overlap": 1}  # its text is another one


# What is made of several


@pytest.mark.usefixtures("merge")
def test_a_merged_text_states_the_facts_of_both_and_goes_with_each_of_them_and_the_other_comes_back(
    services: ConsolidationServices,
) -> None:
    old = "The old boat in the harbour of Kiel has an engine of 30 hp."
    red = "The boat in the harbour of Kiel has a red engine of 30 hp."
    scripted(services, "keep_both", text=f"{old} It has a red engine.")
    one, other = stored(services, sample_memory(1, old), sample_memory(2, red))
    for number, memory, colour in ((8, one, "grey"), (9, other, "red")):
        digest = content_hash(memory.content).hex()
        fact = Fact(
            id=sample_id(number), memory=memory.id, content_hash=digest, subject="boat", predicate="is", object=colour,
            created_at=AT, valid_from=AT - DAY, method="said",
        )  # fmt: skip
        write(services.store, fact)
    services.run(merge=True)
    made = services.services.memory(one.id).superseded_by
    with services.store.snapshot() as snapshot:
        facts = [fact for fact in snapshot.facts(made) if fact.subject == "boat" and fact.predicate == "is"]
        assert [(each.object, each.valid_from, each.method) for each in facts] == [
            ("grey", AT - DAY, "said"), ("red", AT - DAY, "said"),
        ]  # fmt: skip
        references = [found for each in snapshot.memories() if (found := references_of(each)) is not None]
    plan = plan_erasure([other.id], references)
    assert (plan.derived, plan.unhidden) == ((made,), frozenset([one.id]))
