"""Distillation: the status of a project from its session notes, and entries that replace overlapping members of a
topic. SPEC 9.5, rows G22, G25, G30"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mnemo_core.lifecycle.consolidation.cycle import violation
from mnemo_core.lifecycle.consolidation.state import TopicLeaf
from mnemo_core.lifecycle.consolidation.steps import STEPS
from mnemo_core.llm.faithfulness import loss_of
from mnemo_core.llm.merge import DistilledEntry, DistilledTopic
from mnemo_core.llm.summarize import CondensedText
from mnemo_core.llm.tasks import AnyTask, TaskInputs
from mnemo_core.text.languages import sentences
from mnemo_daemon.lifecycle import consolidation
from mnemo_store.record_texts import content_hash
from mnemo_store.records import ConversationTurn, Edge, Fact, Layer, Memory, TraceStep, Trust
from tests.support.consolidation_services import Answers, ConsolidationServices, consolidation_services_in
from tests.support.samples import AT, WAIT_SECONDS, sample_id, sample_memory, write
from tests.support.store_services import put

HOUR = 3_600_000
DID = (
    "fixed the login page", "wrote the import of notes", "measured the search at 40 ms", "moved the store to LMDB",
    "reviewed the pull request of Anna", "cut the release 1.4", "closed 12 issues", "paired with Tom on the parser",
    "drew the plan of the archive", "tested the backup on Friday", "ordered a new disk", "answered the mail of Mia",
)  # fmt: skip


def use_distillation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have cycles distil alone."""
    monkeypatch.setattr(consolidation, "STEPS", [each for each in STEPS if each.name.endswith("distillation")])


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsolidationServices]:
    use_distillation(monkeypatch)
    with consolidation_services_in(tmp_path) as made:
        yield made


def note(number: int, content: str = "", **fields: Any) -> Memory:
    """The note of a session that ended so many hours after AT."""
    at = AT + number * HOUR
    defaults = {"tags": ("session",), "created_at": at, "modified_at": at, "event_at": at, "session_id": f"s{number}"}
    return sample_memory(number, content or f"Session {number}: {DID[number % 12]}.", **{**defaults, **fields})


def status_of(services: ConsolidationServices) -> Memory | None:
    """The one status that stands; None where there is none."""
    found = [each for each in services.services.listed() if "auto-distilled" in each.tags]
    assert len(found) <= 1
    return found[0] if found else None


def test_G22_two_session_notes_make_no_status_and_a_third_makes_one(services: ConsolidationServices) -> None:
    notes = [services.put(note(number, trust="user" if number else "agent")) for number in range(2)]
    assert services.run().operations == []
    notes.append(services.put(note(2)))
    cycle = services.run().cycle
    status = status_of(services)
    assert status is not None
    assert (status.layer, status.tags, status.source) == ("working", ("project-status", "auto-distilled"), "distill")
    assert (status.importance, status.trust, status.session_id) == (0.7, "agent", "")
    assert status.derived_from == tuple(each.id for each in notes)
    assert status.event_at == notes[-1].event_at
    assert 0 < len(status.content) <= 250
    for each in notes:
        after = services.services.memory(each.id)
        assert (after.tags, after.state, after.layer) == (("session", "distilled"), "active", "buffer")
    assert cycle.steps[0].counts == {"distil": 1}
    assert services.usage(status.id).strength == 0.7
    assert services.run().operations == []  # there is nothing new


def test_G22_the_latest_ten_notes_make_the_status(services: ConsolidationServices) -> None:
    notes = [services.put(note(number)) for number in range(12)]
    services.run()
    status = status_of(services)
    assert status is not None
    assert status.derived_from == tuple(each.id for each in notes[2:])
    assert [bool("distilled" in services.services.memory(each.id).tags) for each in notes] == [False] * 2 + [True] * 10
    services.put(note(12, event_at=AT - HOUR))
    assert services.run().operations == []  # three undistilled ones are older than the status


def test_a_status_does_not_say_what_a_later_note_updates(services: ConsolidationServices) -> None:
    texts = ("The check of girder 7 fails with 1.08.", "The check of girder 7 passes with 0.91.", "Chapter 4 is done.")
    notes = [services.put(note(number, text)) for number, text in enumerate(texts)]
    write(services.store, Edge(source=notes[1].id, target=notes[0].id, relation="updates", at=AT))
    services.run()
    status = status_of(services)
    assert status is not None
    assert status.content == " ".join(texts[1:])
    assert status.derived_from == tuple(each.id for each in notes)


def test_G22_a_status_is_of_one_namespace_and_user(services: ConsolidationServices) -> None:
    for number in range(6):
        scope = {"namespace": "work"} if number % 3 == 0 else {"user_id": "mia"} if number % 3 == 1 else {}
        services.put(note(number, **scope))
    assert services.run().operations == []
    services.put(note(6, namespace="work"))
    services.run()
    status = status_of(services)
    assert status is not None
    assert (status.namespace, status.user_id, len(status.derived_from)) == ("work", "local", 3)


def test_a_new_status_replaces_the_former_one_and_what_a_person_pinned_or_edited_stays(
    services: ConsolidationServices,
) -> None:
    statuses = list[str]()
    for number in range(0, 12, 3):
        for each in range(number, number + 3):
            services.put(note(each))
        services.services.at += 1000
        services.run()
        made = [each for each in services.services.listed() if each.source == "distill" and each.id not in statuses]
        statuses += [each.id for each in made]
        if number == 3:
            services.services.edit(statuses[-1], pinned=True)
    states = [services.services.memory(each).state for each in statuses]
    assert states == ["superseded", "active", "superseded", "active"]
    assert services.services.memory(statuses[2]).superseded_by == statuses[3]


@pytest.mark.parametrize(
    "fields",
    [
        {"tags": ("session", "sensitive")},
        {"tags": ("session", "ephemeral")},
        {"tags": ("session", *(f"t{number}" for number in range(19)))},
        {"expires_at": AT * 2},
        {"kind": "working"},
        {"pinned": True},
        {"turn": ConversationTurn(role="user")},
        {"state": "archived"},
    ],
)
def test_a_note_that_is_left_out_of_a_status(services: ConsolidationServices, fields: dict[str, Any]) -> None:
    for number in range(3):
        services.put(note(number, **fields if number == 1 else {}))
    assert services.run().operations == []


def test_G22_a_status_that_says_nothing_new_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_distillation(monkeypatch)
    said = ["The import of notes is done and the search is next on the list."]
    with consolidation_services_in(tmp_path, lambda *_: CondensedText(said[-1]), has_vectors=True) as services:
        counts = list[dict[str, int]]()
        for again in (
            said[0],
            "The search is next on the list, the import of notes is done.",  # in other words
            "The import of notes is done and the search is not next on the list.",
            "The import of notes is done and the search is not next on the list of Anna.",
        ):
            said.append(again)
            put(services.services, *(note(len(counts) * 3 + number, f"{again} {DID[number]}.") for number in range(3)))
            services.services.at += 1000
            counts.append(services.run().cycle.steps[0].counts)
    assert counts == [{"distil": 1}, {"unchanged": 1}, {"distil": 1}, {"distil": 1}]


def test_undo_of_the_cycle_takes_the_status_back_and_it_is_not_made_again_of_the_same_notes(
    services: ConsolidationServices,
) -> None:
    notes = [services.put(note(number)) for number in range(3)]
    services.run()
    former = status_of(services)
    assert former is not None
    for first in (3, 6):
        notes = [services.put(note(number)) for number in range(first, first + 3)]
        cycle = services.run().cycle
        status = status_of(services)
        assert status is not None
        services.services.undo(group=cycle.id)
        assert services.services.memory(status.id).state == "trashed"
        assert services.services.memory(former.id).state == "active"
        assert [services.services.memory(each.id).tags for each in notes] == [("session",)] * 3
        asked = len(services.tasks.asked)
        assert services.run().operations == []
        assert len(services.tasks.asked) == asked


def test_G26_a_cycle_reports_how_many_memories_stand_in_core(tmp_path: Path) -> None:
    with consolidation_services_in(tmp_path) as services:
        for number, layer in enumerate(("core", "working", "core")):
            services.put(sample_memory(number, layer=layer))
        assert {each.name: each.counts for each in services.run().cycle.steps}["core_summary"] == {"core": 2}


# Topics

ZOO = ("Anna works at the zoo in Berlin.", "Anna works at the zoo in Berlin and feeds the pandas.")
OTHERS = (
    "The kettle is on the shelf.", "Milk costs 2 euros.", "The bus leaves at noon.", "Tom plays chess.",
    "Snow fell in April.", "The roof leaks.", "Mia likes jazz.", "The shop sells bread.", "A fox crossed our garden.",
    "The lamp flickers.", "Otto owns two boats.", "Rain is likely.",
)  # fmt: skip


def grow(services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch, *topics: Sequence[Memory]) -> None:
    """Store the memories, as the members of these topics."""
    leaves = list[TopicLeaf]()
    with services.store.snapshot() as snapshot:
        new = [each for members in topics for each in members if snapshot.memory(each.id) is None]
    for each in new:
        services.put(each)
    with services.store.snapshot() as snapshot:
        for number, members in enumerate(topics):
            rows = [row for each in members if (row := snapshot.number(each.id)) is not None]
            leaves.append(TopicLeaf(f"kb{number}", "default", "local", np.array(rows, np.int32)))
    monkeypatch.setattr(services.topic_trees, "leaves", lambda: sorted(leaves, key=lambda leaf: -len(leaf.rows)))


def topic(first: int, *texts: str, size: int = 10, **fields: Any) -> list[Memory]:
    """The members of a topic: these texts, and others that overlap with nothing."""
    members = [sample_memory(first + at, text, **fields) for at, text in enumerate(texts)]
    return members + [sample_memory(first + at, OTHERS[at]) for at in range(len(texts), size)]


def entries(services: ConsolidationServices) -> list[Memory]:
    return [each for each in services.services.listed() if each.source == "distill"]


def test_G25_an_entry_replaces_the_overlapping_members_of_a_topic_of_ten(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = topic(1, *ZOO)
    members[1] = msgspec.structs.replace(members[1], layer="working", tags=("animals", "_triaged"), event_at=AT + 5)
    grow(services, monkeypatch, members[:9])
    assert services.run().operations == []  # a topic of nine
    grow(services, monkeypatch, members)
    cycle = services.run().cycle
    (entry,) = entries(services)
    assert (entry.content, entry.layer, entry.importance) == (ZOO[1], "working", 0.7)
    assert ({*entry.tags}, entry.state, entry.event_at) == ({"distilled", "animals"}, "active", AT + 5)
    assert {*entry.derived_from} == {members[0].id, members[1].id}
    for each in members[:2]:
        after = services.services.memory(each.id)
        assert (after.state, after.superseded_by, after.content) == ("superseded", entry.id, each.content)
    assert [services.services.memory(each.id) for each in members[2:]] == members[2:]
    assert cycle.steps[1].counts == {"distil": 1, "topics": 1}
    assert services.run().operations == []


def test_G25_a_cycle_distils_the_two_largest_topics(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [topic(100 * size, *ZOO, size=size) for size in (10, 12, 11, 9)]
    grow(services, monkeypatch, *topics)
    services.run()
    assert [services.services.memory(each[0].id).state for each in topics] == [
        "active",
        "superseded",
        "superseded",
        "active",
    ]
    services.run()
    assert [services.services.memory(each[0].id).state for each in topics] == ["superseded"] * 3 + ["active"]


@pytest.mark.parametrize(
    ("layers", "trust", "layer"),
    [
        (("buffer", "buffer"), "user", "buffer"),
        (("working", "core"), "user", "core"),
        (("core", "core"), "agent", "core"),
        (("working", "core"), "agent", None),
        (("working", "core"), "import", None),
        (("working", "working"), "import", "working"),
    ],
)
def test_G25_an_entry_is_in_the_highest_layer_of_its_sources(
    services: ConsolidationServices,
    monkeypatch: pytest.MonkeyPatch,
    layers: Sequence[Layer],
    trust: Trust,
    layer: Layer | None,
) -> None:
    members = topic(1, *ZOO, trust=trust)
    members[:2] = [msgspec.structs.replace(each, layer=of) for each, of in zip(members, layers, strict=False)]
    grow(services, monkeypatch, members)
    assert services.run().cycle.steps[1].skipped == ""
    assert [(entry.layer, entry.trust) for entry in entries(services)] == ([(layer, trust)] if layer else [])


def test_an_entry_that_is_made_is_in_core_only_where_a_source_is() -> None:
    entry, source = (sample_memory(number, ZOO[1], layer="core", tags=("distilled",)) for number in (1, 2))
    assert violation(None, entry)
    assert violation(None, entry, [msgspec.structs.replace(source, layer="working")])
    assert not violation(None, entry, [source])
    assert violation(None, entry, [source, msgspec.structs.replace(source, layer="working")])  # it is barred from core
    assert not violation(None, entry, [source, msgspec.structs.replace(source, layer="working", tags=())])
    assert violation(None, msgspec.structs.replace(entry, trust="import"), [source])
    assert violation(None, msgspec.structs.replace(entry, tags=("distilled", "ephemeral")), [source])


@pytest.mark.parametrize(
    "fields",
    [
        {"pinned": True},
        {"managed": "0" * 32},
        {"key": "anna"},
        {"tags": ("sensitive",)},
        {"tags": ("session",)},
        {"tags": ("ephemeral",)},
        {"tags": tuple(f"t{number}" for number in range(20))},
        {"expires_at": AT * 2},
        {"kind": "working"},
        {"kind": "procedural"},
        {"kind": "procedural", "trace": TraceStep(step_number=1, action="work")},
        {"turn": ConversationTurn(role="user")},
        {"trust": "tool"},
        {"speaker": "Tom"},
        {"agent_id": "planner"},
        {"compression_source": True},
        {"importance": 0.8, "importance_source": "user"},
        {"state": "archived"},
        {"derived_from": (sample_memory(2).id,)},
    ],
)
def test_a_member_that_no_entry_replaces(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    members = topic(1, *ZOO)
    members[0] = msgspec.structs.replace(members[0], **fields)
    grow(services, monkeypatch, members)
    assert services.run().operations == []


def test_a_value_that_has_a_newer_one_is_not_united_with_others(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = topic(1, *ZOO)
    grow(services, monkeypatch, members)
    write(services.store, Edge(source=members[5].id, target=members[0].id, relation="updates", at=AT))
    assert services.run().operations == []


def test_what_happened_on_different_days_is_not_united(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at, (kind, texts) in enumerate((("episodic", ZOO), ("semantic", [f"{text[:-1]} today." for text in ZOO]))):
        members = topic(100 * at, *texts, kind=kind)
        members[1] = msgspec.structs.replace(members[1], event_at=AT + 86_400_000)
        grow(services, monkeypatch, members)
        assert services.run().operations == []
        members[1] = services.put(msgspec.structs.replace(members[1], event_at=AT, version=2, modified_at=AT + 1))
        grow(services, monkeypatch, members)
        assert len(services.run().operations) == 1


def test_G25_a_topic_is_looked_at_again_only_when_a_member_is_new_or_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_distillation(monkeypatch)
    bridge = ("The old bridge is closed to lorries.", "Trucks may not use the old bridge.")
    with consolidation_services_in(tmp_path, lambda *_: DistilledTopic(())) as services:
        members = topic(1, *bridge)
        asked = []
        for change in (None, None, {"content": "Trucks may not use the old narrow bridge."}, {"tags": ("road",)}):
            if change is not None:
                services.services.edit(members[1].id, **change)
            grow(services, monkeypatch, members)
            services.run()
            asked.append(len(services.tasks.asked))
        members.append(sample_memory(99, "The old bridge is closed in winter."))
        grow(services, monkeypatch, members)
        services.run()
        asked.append(len(services.tasks.asked))
        for _ in range(2):
            services.run()
    assert asked == [1, 1, 2, 2, 3]
    assert len(services.tasks.asked) == 3
    assert bridge[0] in services.tasks.asked[2][1].sources


def test_without_a_model_what_only_a_model_can_unite_waits_for_one(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = ("The old bridge is closed to heavy lorries.", "The old bridge is closed to lorries and to buses.")
    grow(services, monkeypatch, topic(1, *bridge))
    for _ in range(3):
        assert services.run().operations == []
    assert len(services.tasks.asked) == 1
    text = "The old bridge is closed to heavy lorries and to buses."
    services.tasks.answers = lambda *_: DistilledTopic((DistilledEntry((1, 2), text),))
    services.run()
    (entry,) = entries(services)
    assert (entry.content, entry.method) == (text, "llm:scripted")


def test_undo_of_the_cycle_takes_an_entry_back_and_it_is_not_made_again(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = topic(1, *ZOO)
    grow(services, monkeypatch, members)
    cycle = services.run().cycle
    (entry,) = entries(services)
    assert ZOO[0] not in services.services.recalled("Where does Anna work?")
    services.services.undo(group=cycle.id)
    assert services.services.memory(entry.id).state == "trashed"
    assert [services.services.memory(each.id).state for each in members[:2]] == ["active", "active"]
    assert {*ZOO} <= {*services.services.recalled("Where does Anna work?")}
    assert services.run().operations == []


def test_what_an_entry_replaced_is_found_again_when_the_entry_is_in_the_trash(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(services, monkeypatch, topic(1, *ZOO))
    services.run()
    (entry,) = entries(services)
    assert services.services.recalled("Where does Anna work?")[0] == ZOO[1]
    services.services.trash(entry.id)
    assert {*ZOO} <= {*services.services.recalled("Where does Anna work?")}
    services.services.restore(entry.id)
    assert ZOO[0] not in services.services.recalled("Where does Anna work?")


def test_G30_an_entry_has_the_facts_of_its_sources_and_their_usage(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = topic(1, *ZOO)
    members[1] = msgspec.structs.replace(members[1], event_at=AT + 9)
    grow(services, monkeypatch, members)
    for number, member in enumerate(members[:2]):
        digest = content_hash(member.content).hex()
        stated = Fact(id=sample_id(900 + number), memory=member.id, content_hash=digest, created_at=AT, subject="Anna",
                      predicate="works at", object="the zoo in Berlin", valid_from=member.event_at)  # fmt: skip
        write(services.store, stated)
    for member in (members[0], *members[:2]):
        services.services.memories.record_use([member.id]).result(WAIT_SECONDS)
    cycle = services.run().cycle
    (entry,) = entries(services)
    with services.store.snapshot() as snapshot:
        known = [fact for fact in snapshot.facts(entry.id) if fact.predicate == "works at"]
    assert [(fact.object, fact.valid_from) for fact in known if fact.valid_from == AT] == [("the zoo in Berlin", AT)]
    usage = services.usage(entry.id)
    assert (usage.access_count, usage.strength) == (3, 0.7)
    services.services.undo(group=cycle.id)
    assert [services.usage(each.id).access_count for each in members[:2]] == [2, 1]


def test_what_an_entry_says_already_is_absorbed_by_it(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = topic(1, ZOO[1], ZOO[0])
    members[0] = msgspec.structs.replace(members[0], tags=("distilled",), source="distill", importance=0.7)
    grow(services, monkeypatch, members)
    services.run()
    assert [entry.id for entry in entries(services)] == [members[0].id]
    assert services.services.memory(members[1].id).superseded_by == members[0].id


NAMES = ("Anna", "Tom", "Mia", "Otto", "Ines", "Marta")
PLACES = ("Berlin", "Porto", "Lisbon", "Graz")
SAID = (
    "{name} works at the zoo in {place}.", "{name} pays {number} euros of rent in {place}.",
    "{name} moved to {place} on {day} May 2024.", "{name} has {number} cats and lives in {place}.",
    "The meeting of {name} in {place} starts at {number}:30.", "{name} does not eat nuts.",
)  # fmt: skip


def random_topic(chance: random.Random, first: int) -> list[Memory]:
    """Members of which many overlap: sentences about a few people, alone and together."""

    def sentence() -> str:
        return chance.choice(SAID).format(
            name=chance.choice(NAMES[:3]), place=chance.choice(PLACES[:2]), number=chance.randint(7, 9),
            day=chance.randint(1, 3),
        )  # fmt: skip

    texts = [" ".join(sentence() for _ in range(chance.randint(1, 3))) for _ in range(12)]
    return [sample_memory(first + at, text) for at, text in enumerate(dict.fromkeys(texts))]


def hostile(chance: random.Random) -> Answers:
    """Answers that lose a word, invent one, name sources twice, or those that do not exist."""

    def answer(task: AnyTask, inputs: TaskInputs) -> DistilledTopic:
        count = len(inputs.sources)
        made = []
        for _ in range(chance.randint(1, 3)):
            numbers = tuple(chance.randint(1, count) for _ in range(chance.randint(1, 4)))
            words = " ".join(inputs.sources[number - 1] for number in dict.fromkeys(numbers)).split()
            if chance.random() < 0.5:
                words[chance.randrange(len(words))] = chance.choice(("", "Eve", "99", "never"))
            made.append(DistilledEntry(numbers, " ".join(filter(None, words))[:400] or "-"))
        return DistilledTopic(tuple(made))

    return answer


def honest(_task: AnyTask, inputs: TaskInputs) -> DistilledTopic:
    """The two sources that share most, as the sentences of both."""
    numbered = list(enumerate(inputs.sources, start=1))
    pairs = [(one, other) for one in numbered for other in numbered if one[0] < other[0]]
    one, other = max(pairs, key=lambda pair: len({*sentences(pair[0][1])} & {*sentences(pair[1][1])}))
    text = " ".join(dict.fromkeys([*sentences(one[1]), *sentences(other[1])]))
    return DistilledTopic((DistilledEntry((one[0], other[0]), text),))


@pytest.mark.parametrize("model", ["none", "honest", "hostile"])
def test_G25_no_specific_is_lost_and_no_source_replaced_twice_whatever_the_model_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    use_distillation(monkeypatch)
    chance = random.Random(model)
    answers: dict[str, Answers] = {"honest": honest, "hostile": hostile(chance)}
    with consolidation_services_in(tmp_path, answers.get(model)) as services:
        topics = [random_topic(chance, 100 * number) for number in range(1, 5)]
        grow(services, monkeypatch, *topics)
        replaced: dict[str, str] = {}
        for _ in range(5):
            for _, operation in services.run().operations:
                entry, *sources = operation.ids
                assert len(sources) >= 2
                assert not replaced.keys() & {*sources}
                replaced |= dict.fromkeys(sources, entry)
        assert replaced, "nothing was distilled: the texts show nothing"
        for source, entry in replaced.items():
            before, after = services.services.memory(source), services.services.memory(entry)
            assert (before.state, before.superseded_by) == ("superseded", entry)
            assert loss_of([before.content], after.content) == ""
            assert len(after.content) >= len(before.content)
        stored = [each for members in topics for each in members]
        assert all(services.services.memory(each.id).content == each.content for each in stored)
        assert all(each.id in replaced or services.services.memory(each.id) == each for each in stored)
