"""From the buffer to the working layer and to core: triage, use, the cap, the gate and its ladder. SPEC 9.2 to 9.4"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_core.lifecycle.consolidation import buffer, core_admission, review, steps
from mnemo_core.lifecycle.consolidation.core_admission import UNUSED_EPOCHS
from mnemo_core.llm.triage import GateAnswer, TriageAnswer
from mnemo_daemon.lifecycle import consolidation
from mnemo_store.record_texts import decision_digest
from mnemo_store.records import ConversationTurn, Edge, LifecycleDecision, Memory, PutEdge, PutMemory, PutMeta, Usage
from mnemo_store.tables import DECISIONS
from tests.support.consolidation_services import ConsolidationServices, consolidation_services_in
from tests.support.samples import AT, sample_id, sample_memory, write

MINUTE, DAY = 60_000, 86_400_000
PLAIN = "In the afternoon we repaired the fence behind the barn."  # no cue of any kind
RULE = "Customer data must never leave the EU."
DECISION = "We chose slate over tiles because the roof frame cannot carry more."  # enters core by its use alone
OPEN = "It turned out that the pump runs dry above the water line."  # may be a lesson: a model is to say
PASSING = "ok, thanks!"
OURS = ("tags", "triage", "promotion", "cap", "hygiene", "gate", "decay")


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsolidationServices]:
    monkeypatch.setattr(consolidation, "STEPS", [step for step in steps.STEPS if step.name in OURS])
    with consolidation_services_in(tmp_path) as made:
        made.services.at = AT
        yield made


def put(
    services: ConsolidationServices, number: int, content: str = "", used: Usage | None = None, **fields: Any
) -> Memory:
    """Store an episodic memory that was said on purpose. `used`: its usage but for the id."""
    memory = sample_memory(number, content or f"{PLAIN} {'so ' * number}", **{"kind": "episodic", **fields})
    usage = Usage(id=memory.id, strength=memory.importance) if used is None else used
    return services.put(
        memory, Usage(**{**{name: getattr(usage, name) for name in usage.__struct_fields__}, "id": memory.id})
    )


def usage(**fields: Any) -> Usage:
    return Usage(**{"id": "", **fields})


def candidate(services: ConsolidationServices, number: int, content: str = RULE, **fields: Any) -> Memory:
    """Store a memory of the working layer that was used often and does not weaken."""
    used = usage(access_count=3, strength=1.0)
    return put(services, number, content, used, **{"layer": "working", "pinned": True, **fields})


def set_epoch(services: ConsolidationServices, ended: int) -> None:
    write(services.store, PutMeta(name="epoch", value=str(ended)))


def layer(services: ConsolidationServices, number: int) -> str:
    return services.services.memory(sample_id(number)).layer


def tags(services: ConsolidationServices, number: int) -> tuple[str, ...]:
    return services.services.memory(sample_id(number)).tags


def answer(services: ConsolidationServices, answers: dict[str, Any]) -> None:
    """Have a model give this answer to each task."""
    services.tasks.answers = lambda task, _: answers.get(task.site)


def asked(services: ConsolidationServices, site: str) -> list[str]:
    """The texts that a task was asked about."""
    return [inputs.sources[0] for name, inputs in services.tasks.asked if name == site]


# Buffer to working


@pytest.mark.parametrize(
    ("accesses", "repetitions", "after"),
    [(5, 0, "working"), (4, 0, "buffer"), (0, 2, "working"), (2, 1, "buffer"), (3, 1, "working")],
)
def test_G11_G12_a_memory_is_promoted_at_a_reinforcement_of_5(
    services: ConsolidationServices, accesses: int, repetitions: int, after: str
) -> None:
    put(services, 1, used=usage(access_count=accesses, repetition_count=repetitions))
    services.run()
    assert layer(services, 1) == after


@pytest.mark.parametrize("fields", [{"tags": ("lesson",)}, {"kind": "procedural"}])
def test_G12_a_lesson_or_a_procedure_is_promoted_after_4_epochs(
    services: ConsolidationServices, fields: dict[str, Any]
) -> None:
    put(services, 1, **fields)
    put(services, 2, **{**fields, "tags": (*fields.get("tags", ()), "distilled")})
    put(services, 3)
    for _ in range(4):
        services.services.at += 1
        services.run()
        assert layer(services, 1) == "buffer"
    services.services.at += 1
    services.run()
    assert [layer(services, number) for number in (1, 2, 3)] == ["working", "buffer", "buffer"]


def test_a_turn_or_a_call_of_a_tool_is_no_lesson_or_procedure_by_its_kind(services: ConsolidationServices) -> None:
    put(services, 1, kind="procedural", source="turn", turn=ConversationTurn(role="user"))
    put(services, 2, kind="procedural", source="hook")  # a call of a tool
    for _ in range(6):
        services.services.at += 1
        services.run()
    assert layer(services, 1) == layer(services, 2) == "buffer"


def test_a_memory_of_kind_working_is_not_promoted(services: ConsolidationServices) -> None:
    put(services, 1, used=usage(access_count=99), kind="working", tags=("lesson",))
    services.services.at += DAY
    services.run()
    assert layer(services, 1) == "buffer"
    assert asked(services, "triage") == []


def test_promotion_changes_the_layer_and_the_rate_that_follows_from_it(services: ConsolidationServices) -> None:
    before = put(services, 1, used=usage(access_count=5), importance=0.375, decay_rate=5.0)
    put(services, 2, used=usage(access_count=5), decay_rate=0.25)
    services.run()
    after = services.services.memory(before.id)
    assert (after.importance, after.decay_rate, after.modified_at) == (0.375, 1.0, before.modified_at)
    assert services.services.memory(sample_id(2)).decay_rate == 0.25  # somebody set it


def test_a_memory_that_rises_loses_the_tags_that_hold_for_its_layer(services: ConsolidationServices) -> None:
    put(services, 1, used=usage(access_count=5), tags=("fence", "_triaged"))
    services.run()
    assert (layer(services, 1), tags(services, 1)) == ("working", ("fence",))


# Triage


def test_G13_a_memory_is_triaged_once_it_is_older_than_10_minutes(services: ConsolidationServices) -> None:
    put(services, 1, RULE)
    services.services.at = AT + 10 * MINUTE
    services.run()
    assert (layer(services, 1), asked(services, "triage")) == ("buffer", [])
    services.services.at += 1
    services.run()
    assert (layer(services, 1), asked(services, "triage")) == ("working", [RULE])


def test_G13_what_triage_keeps_is_tagged_and_not_asked_about_again(services: ConsolidationServices) -> None:
    put(services, 1, PLAIN)
    services.services.at += DAY
    for _ in range(2):
        services.run()
    assert (layer(services, 1), tags(services, 1), asked(services, "triage")) == ("buffer", ("_triaged",), [PLAIN])


@pytest.mark.parametrize("tag", ["ephemeral", "distilled", "auto-distilled"])
def test_G13_what_is_ephemeral_or_distilled_is_not_triaged(services: ConsolidationServices, tag: str) -> None:
    put(services, 1, RULE, tags=(tag,))
    services.services.at += DAY
    services.run()
    assert (layer(services, 1), asked(services, "triage")) == ("buffer", [])


def test_G13_20_memories_are_triaged_in_a_cycle_those_of_each_namespace_in_turn(
    services: ConsolidationServices,
) -> None:
    for number in range(30):
        put(services, number, f"a{number}", created_at=AT + number)
    put(services, 30, "on purpose", source="cli", created_at=AT + 30)
    for number in range(31, 34):
        put(services, number, f"b{number}", namespace="b", created_at=AT + number)
    for number in range(30):
        write(
            services.store, PutMemory(data=sample_memory(number, f"a{number}", source="turn", created_at=AT + number))
        )
    services.services.at += DAY
    services.run()
    first = ["on purpose", "b31", "a0", "b32", "a1", "b33", *(f"a{number}" for number in range(2, 16))]
    assert asked(services, "triage") == first
    services.run()
    assert asked(services, "triage")[20:] == [f"a{number}" for number in range(16, 30)]


@pytest.mark.parametrize(
    ("fields", "state", "mark"),
    [
        ({"source": "ingest"}, "archived", ()),
        ({"source": "extract"}, "archived", ()),
        ({"source": "cli"}, "active", ("_triaged",)),
        ({"source": "import"}, "active", ("_triaged",)),
        ({"source": "ingest", "pinned": True}, "active", ("_triaged",)),
        ({"source": "turn", "turn": ConversationTurn(role="user")}, "active", ("_triaged",)),
    ],
)  # fmt: skip
def test_G14_triage_archives_only_what_came_in_with_a_stream(
    services: ConsolidationServices, fields: dict[str, Any], state: str, mark: tuple[str, ...]
) -> None:
    put(services, 1, PASSING, **fields)
    services.services.at += DAY
    result = services.run()
    after = services.services.memory(sample_id(1))
    assert (after.state, after.layer, after.tags) == (state, "buffer", mark)
    assert result.cycle.steps[1].counts == ({"archive": 1} if state == "archived" else {"keep": 1})


def test_G14_what_was_recalled_is_not_archived_by_triage(services: ConsolidationServices) -> None:
    put(services, 1, PASSING, usage(access_count=1), source="ingest")
    services.services.at += DAY
    services.run()
    assert (services.services.memory(sample_id(1)).state, tags(services, 1)) == ("active", ("_triaged",))


def test_a_memory_with_as_many_tags_as_it_may_have_is_not_triaged(services: ConsolidationServices) -> None:
    put(services, 1, RULE, tags=tuple(f"tag{number}" for number in range(20)))
    put(services, 2, RULE)
    services.services.at += DAY
    services.run()
    assert (layer(services, 1), layer(services, 2)) == ("buffer", "working")


def test_G28_a_model_decides_what_the_rules_leave_open(services: ConsolidationServices) -> None:
    put(services, 1, PLAIN, source="ingest")
    put(services, 2, RULE, source="ingest")  # the validation of the task refuses to archive it
    answer(services, {"triage": TriageAnswer("archive")})
    services.services.at += DAY
    services.run()
    assert [services.services.memory(sample_id(number)).state for number in (1, 2)] == ["archived", "active"]


@pytest.mark.parametrize(("importance", "strength"), [(0.7, 0.1), (0.1, 0.7)])
def test_G13_a_memory_is_as_important_as_it_was_said_to_be_or_as_its_use_has_made_it(
    services: ConsolidationServices, importance: float, strength: float
) -> None:
    put(services, 1, PLAIN, usage(strength=strength), importance=importance)
    services.services.at += DAY
    services.run()
    assert layer(services, 1) == "working"


# The cap


def fill(services: ConsolidationServices, count: int, **fields: Any) -> None:
    """Store so many memories, the first of which is the strongest, and two weakest of the same strength."""
    memories = [
        sample_memory(number, f"{PASSING} {'so ' * number}", kind="episodic", created_at=AT - number, **fields)
        for number in range(count)
    ]
    used = [Usage(id=each.id, strength=1 - min(number, count - 2) / 1000) for number, each in enumerate(memories)]
    write(services.store, *memories, *used)


@pytest.mark.parametrize(
    ("count", "left", "source", "action"),
    [
        (200, [], "ingest", ""),
        (201, [200], "ingest", "archive"),
        (203, [202, 201, 200], "turn", "archive"),
        (200, [], "cli", ""),
        (201, [200], "api", "promote"),
        (203, [202, 201, 200], "cli", "promote"),
    ],
)
def test_G14_the_buffer_of_a_namespace_keeps_200_and_the_weakest_leave_it_of_equals_the_oldest(
    services: ConsolidationServices, count: int, left: list[int], source: str, action: str
) -> None:
    fill(services, count, source=source)
    put(services, 999, PASSING, namespace="other", used=usage(strength=0.1))
    result = services.run()
    assert [(each.action, each.ids) for _, each in result.operations] == [(action, (sample_id(n),)) for n in left]


def test_G14_what_triage_keeps_is_not_evicted(services: ConsolidationServices) -> None:
    fill(services, 201, source="ingest")
    weakest = put(services, 500, PLAIN, used=usage(strength=0.1), source="ingest")
    services.run()
    assert tags(services, 500) == ("_triaged",)
    assert [each.id for each in services.services.listed(states=("archived",))] == [sample_id(200)]
    assert services.run().operations == []
    assert services.services.memory(weakest.id).state == "active"


def test_a_memory_that_has_no_room_for_the_mark_of_triage_stays_in_a_full_buffer(
    services: ConsolidationServices,
) -> None:
    fill(services, 201, source="ingest", tags=tuple(f"tag{number}" for number in range(20)))
    assert services.run().operations == []


def test_turns_and_memories_of_kind_working_do_not_count_for_the_cap(services: ConsolidationServices) -> None:
    fill(services, 150, source="cli")
    for number in range(500, 560):
        fields: dict[str, Any] = {"turn": ConversationTurn(role="user")} if number % 2 else {"kind": "working"}
        put(services, number, PASSING, usage(strength=0.01), source="turn", **fields)
    assert services.run().operations == []


def test_a_buffer_that_is_much_too_full_is_emptied_by_400_a_cycle(services: ConsolidationServices) -> None:
    fill(services, 650, source="cli")
    counts = [services.run().cycle.steps[3].counts for _ in range(3)]
    assert counts == [{"promote": 400}, {"promote": 50}, {}]


def test_a_model_is_asked_20_unclear_cases_of_a_full_buffer_in_a_cycle(services: ConsolidationServices) -> None:
    memories = [
        sample_memory(number, f"{PLAIN} {'so ' * number}", kind="episodic", source="ingest") for number in range(250)
    ]
    write(services.store, *memories)
    answer(services, {"triage": TriageAnswer("archive")})
    services.run()
    assert asked(services, "triage") == [each.content for each in memories[:20]]
    assert len(services.services.listed(states=("archived",))) == 20


# Core


@pytest.mark.parametrize(
    ("used", "age", "after"),
    [
        (usage(access_count=3, strength=0.6), 0, "core"),
        (usage(access_count=3, strength=0.59), 0, "working"),
        (usage(access_count=2, strength=0.6), 0, "working"),
        (usage(repetition_count=1, strength=0.6), 0, "working"),
        (usage(access_count=1, repetition_count=1, strength=0.6), 0, "core"),
        (usage(access_count=1, strength=0.6), 7 * DAY, "working"),
        (usage(access_count=1, strength=0.6), 7 * DAY + 1, "core"),
        (usage(access_count=1, strength=0.59), 7 * DAY + 1, "working"),
        (usage(strength=1.0), 7 * DAY + 1, "working"),
    ],
)
def test_G15_a_strong_memory_of_the_working_layer_enters_core_if_it_was_used(
    services: ConsolidationServices, used: Usage, age: int, after: str
) -> None:
    put(services, 1, DECISION, used, layer="working")
    services.services.at += age
    services.run()
    assert layer(services, 1) == after


def test_G15_what_counts_is_the_strength_that_is_left(services: ConsolidationServices) -> None:
    put(services, 1, DECISION, usage(access_count=3, strength=0.65), layer="working")  # 0.65 · 0.98^4 = 0.5995
    set_epoch(services, 4)
    services.run()
    assert layer(services, 1) == "working"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("My name is Ines Carvalho and I live in Porto.", "core"), ("My blood type is 0 negative.", "core"),
        ("Please always answer in British English.", "core"), (RULE, "core"),
        ("Lesson: the pump runs dry above the water line.", "core"),
        (DECISION, "working"), (OPEN, "buffer"), (PLAIN, "buffer"), ("Gil's favourite wine is Riesling.", "buffer"),
    ],
)  # fmt: skip
def test_who_the_person_is_and_what_always_holds_enters_core_without_having_been_used(
    services: ConsolidationServices, text: str, after: str
) -> None:
    put(services, 1, text, usage(strength=0.5))
    services.services.at += 11 * MINUTE
    services.run()
    services.run()
    assert layer(services, 1) == after


@pytest.mark.parametrize(
    "fields", [{"trust": "agent"}, {"source": "turn", "turn": ConversationTurn(role="user")}, {"tags": ("session",)}]
)
def test_what_others_or_a_turn_say_enters_core_by_its_use_alone(
    services: ConsolidationServices, fields: dict[str, Any]
) -> None:
    put(services, 1, RULE, usage(strength=1.0), layer="working", **fields)
    services.run()
    assert layer(services, 1) == "working"


def test_a_memory_may_enter_core_unused_in_its_first_48_epochs(services: ConsolidationServices) -> None:
    seen = list[str]()
    for number, epochs in ((1, UNUSED_EPOCHS), (2, UNUSED_EPOCHS + 1)):
        services.services.at += 1
        put(services, number, f"{RULE} {number}", usage(strength=1.0), layer="working", created_at=services.services.at)
        services.services.at += 1
        begin = services.run(namespace="other").cycle.epoch
        set_epoch(services, begin + epochs - 1)
        services.run()
        seen.append(layer(services, number))
    assert seen == ["core", "working"]


@pytest.mark.parametrize(
    ("relation", "slot", "trust", "after"),
    [("updates", False, "user", "working"), ("related", True, "user", "core"), ("related", False, "user", "core"),
     ("repeats", False, "user", "core"), ("updates", False, "agent", "core")],
)  # fmt: skip
def test_what_the_person_has_replaced_leaves_core_and_does_not_enter(
    services: ConsolidationServices, relation: Any, slot: bool, trust: Any, after: str
) -> None:
    for number, place in ((1, "core"), (2, "working")):
        candidate(services, number, f"Retries must never exceed {number} in queue {number}.", layer=place, pinned=False)
        newer = put(services, number + 2, f"They are {number + 4} now.", trust=trust)
        edge = Edge(source=newer.id, target=sample_id(number), relation=relation, at=AT, slot=slot)
        write(services.store, PutEdge(data=edge))
    services.run()
    assert (layer(services, 1), layer(services, 2)) == (after, after)


@pytest.mark.parametrize(
    "fields",
    [
        *({"tags": (tag,)} for tag in ("session", "ephemeral", "distilled", "auto-distilled", "project-status")),
        *({"tags": (tag,)} for tag in ("sensitive", "gate-rejected", "gate-rejected-2", "gate-rejected-final")),
        {"source": "session"}, {"trust": "tool"}, {"trust": "import"}, {"kind": "working"}, {"state": "archived"},
        {"expires_at": AT}, {"managed": "0" * 32},
        {"trust": "agent", "source": "turn", "turn": ConversationTurn(role="agent")},
    ],
)  # fmt: skip
def test_G15_G30_what_is_never_judged_for_core(services: ConsolidationServices, fields: dict[str, Any]) -> None:
    candidate(services, 1, **fields)
    answer(services, {"gate": GateAnswer("constraint")})
    services.run()
    assert (layer(services, 1), asked(services, "gate")) == ("working", [])


@pytest.mark.parametrize(
    ("fields", "person_at", "after"),
    [
        ({}, 0, "working"), ({}, AT - 1, "working"), ({}, AT, "core"), ({"pinned": True}, 0, "core"),
        ({"trust": "note"}, 0, "core"), ({"trust": "import"}, AT, "working"),
    ],
)  # fmt: skip
def test_a_lesson_of_an_agent_enters_core_after_a_word_or_a_recall_of_the_person(
    services: ConsolidationServices, fields: dict[str, Any], person_at: int, after: str
) -> None:
    used = usage(access_count=99, strength=1.0, person_at=person_at)
    lesson = "Lesson learned: test the restore, not the backup."
    put(services, 1, lesson, used, **{"layer": "working", "trust": "agent", "tags": ("lesson",), **fields})
    services.run()
    assert layer(services, 1) == after
    services.run()
    assert layer(services, 1) == after


def test_what_an_agent_makes_of_a_memory_of_core_goes_back_to_working(services: ConsolidationServices) -> None:
    told = put(services, 1, RULE, usage(access_count=3, strength=1.0), layer="working")
    confirmed = usage(access_count=3, strength=1.0, person_at=AT)
    kept = put(services, 2, f"{RULE} Never.", confirmed, layer="working", trust="agent")
    services.run()
    assert [layer(services, number) for number in (1, 2)] == ["core", "core"]
    edits = {told.id: "Customer data must always leave the EU.", kept.id: f"{RULE} Ever."}
    for memory_id, text in edits.items():
        before = services.services.memory(memory_id)
        edit = {"version": before.version + 1, "content": text, "trust": "agent", "modified_at": AT + 1}
        write(services.store, PutMemory(data=msgspec.structs.replace(before, **edit)))
    services.run()
    assert [layer(services, number) for number in (1, 2)] == ["working", "working"]


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Lesson learned: test the restore, not the backup.", "lesson"),
        ("I am allergic to penicillin.", "identity"),
        (RULE, "constraint"),
        ("We chose LMDB over SQLite because readers never block the writer.", "decision_rationale"),
        ("Customer data must never leave the EU for now.", ""),
        ("Temporary rule: customer data must never leave the EU.", ""),
        ("We chose LMDB over SQLite.", ""),
        (PLAIN, ""),
    ],
)
def test_G16_the_gate_admits_four_categories_and_nothing_that_holds_for_now(
    services: ConsolidationServices, text: str, category: str
) -> None:
    before = candidate(services, 1, text, importance=0.625)
    result = services.run()
    after = services.services.memory(before.id)
    assert (after.layer, after.tags) == (("core", ()) if category else ("working", ("gate-rejected",)))
    assert (after.importance, after.modified_at) == (0.625, before.modified_at)
    assert [each.reason for _, each in result.operations] == ([f"it is of the category {category}"] if category else [])


def test_G16_a_model_decides_what_the_rules_leave_open_and_is_told_of_much_use(services: ConsolidationServices) -> None:
    used = usage(access_count=30, repetition_count=2, strength=1.0)
    put(services, 1, OPEN, used, layer="working", tags=("pump",), created_at=AT - 3 * DAY)
    put(services, 2, OPEN, usage(access_count=3, strength=1.0), layer="working")
    services.tasks.answers = lambda _, inputs: GateAnswer("lesson" if inputs.facts[0].access_count == 30 else "none")
    services.run()
    assert (layer(services, 1), layer(services, 2)) == ("core", "working")
    described = services.tasks.asked[0][1].facts[0].description()
    assert described == "working, episodic, fact, 3 days old, used 30 times, repeated 2 times, tagged pump"


def test_G30_no_memory_rises_two_layers_in_a_cycle(services: ConsolidationServices) -> None:
    put(services, 1, RULE, usage(access_count=5, strength=1.0))
    services.run()
    assert layer(services, 1) == "working"
    services.run()
    assert layer(services, 1) == "core"


def test_the_gate_judges_20_candidates_in_a_cycle_the_most_used_first(services: ConsolidationServices) -> None:
    for number in range(25):
        put(services, number, PLAIN + " so" * number, usage(access_count=3 + number, strength=1.0), layer="working")
    services.run()
    assert asked(services, "gate") == [PLAIN + " so" * number for number in range(24, 4, -1)]
    services.run()
    assert asked(services, "gate")[20:] == [PLAIN + " so" * number for number in range(4, -1, -1)]


def rejection(services: ConsolidationServices, number: int) -> LifecycleDecision | None:
    with services.store.snapshot() as snapshot:
        return snapshot.get(DECISIONS, sample_id(number), "promote", sample_id(number))


def test_G17_a_rejection_holds_for_48_epochs_the_second_one_for_144_and_the_third_for_ever(
    services: ConsolidationServices,
) -> None:
    candidate(services, 1, PLAIN)
    seen = list[tuple[int, tuple[str, ...], int]]()
    for ended in (0, 47, 48, 48 + 143, 48 + 144, 100_000):  # the gate judges in epochs 1, 49 and 193
        services.services.at += 1
        set_epoch(services, ended)
        services.run()
        seen.append((ended, tags(services, 1), len(asked(services, "gate"))))
    assert seen == [
        (0, ("gate-rejected",), 1),
        (47, ("gate-rejected",), 1),
        (48, ("gate-rejected-2",), 2),
        (191, ("gate-rejected-2",), 2),
        (192, ("gate-rejected-final",), 3),
        (100_000, ("gate-rejected-final",), 3),
    ]


def test_G17_the_tag_of_a_rejection_is_removed_after_48_epochs_without_an_access(
    services: ConsolidationServices,
) -> None:
    put(services, 1, PLAIN, usage(access_count=3, strength=1.0), layer="working", tags=("garden",))
    put(services, 2, PLAIN, usage(access_count=3, strength=1.0), layer="working")
    services.run()
    write(services.store, Usage(id=sample_id(2), access_count=4, strength=0.5, last_accessed=AT + 1))
    services.services.at = AT + 2
    set_epoch(services, 47)
    services.run()
    assert (tags(services, 1), tags(services, 2)) == (("garden", "gate-rejected"), ("gate-rejected",))
    services.run()  # neither is strong enough to be judged by now
    assert (tags(services, 1), tags(services, 2)) == (("garden",), ("gate-rejected",))
    assert len(asked(services, "gate")) == 2


def test_G17_a_rejection_is_remembered_when_its_tag_is_gone(services: ConsolidationServices) -> None:
    put(services, 1, PLAIN, usage(access_count=3, strength=1.0), layer="working")
    services.run()
    set_epoch(services, 60)
    services.run()
    assert tags(services, 1) == ()
    write(services.store, Usage(id=sample_id(1), access_count=9, strength=1.0, strength_epoch=61))
    services.run()
    assert tags(services, 1) == ("gate-rejected-2",)


def test_a_rejection_holds_for_the_text_that_was_judged(services: ConsolidationServices) -> None:
    candidate(services, 1, "Customer data must never leave the EU for now.")
    services.run()
    assert tags(services, 1) == ("gate-rejected",)
    services.services.at += 1
    services.services.edit(sample_id(1), content=RULE)
    services.run()
    assert (layer(services, 1), tags(services, 1)) == ("core", ())
    found = rejection(services, 1)
    assert found is not None
    assert (found.status, found.digest) == ("done", decision_digest([RULE]))


def test_the_tag_of_a_rejection_that_was_imported_counts_from_the_last_change(services: ConsolidationServices) -> None:
    candidate(services, 1, tags=("gate-rejected",))
    for ended in (47, 48):
        set_epoch(services, ended)
        services.run()
    assert layer(services, 1) == "working"


@pytest.mark.parametrize("has_model", [True, False])
def test_what_only_a_model_could_admit_is_not_rejected_for_ever_without_one(
    services: ConsolidationServices, has_model: bool
) -> None:
    candidate(services, 1, OPEN)
    if has_model:
        answer(services, {"gate": GateAnswer("none")})
    for ended in (0, 100, 300):
        set_epoch(services, ended)
        services.run()
    assert tags(services, 1) == ("gate-rejected-final" if has_model else "gate-rejected-2",)


@pytest.mark.parametrize(("status", "tag"), [("proposed", ""), ("rejected", "")])
def test_what_a_person_is_asked_about_or_has_rejected_is_not_judged(
    services: ConsolidationServices, status: Any, tag: str
) -> None:
    one = candidate(services, 1)
    digest = decision_digest([one.content])
    write(services.store, LifecycleDecision(memory=one.id, action="promote", other=one.id, status=status, at=AT,
                                        digest=digest, tag=tag))  # fmt: skip
    set_epoch(services, 1000)
    services.run()
    assert (layer(services, 1), asked(services, "gate")) == ("working", [])


# What is put right


@pytest.mark.parametrize("fields", [{"tags": ("session",)}, {"source": "session"}, {"tags": ("ephemeral",)}])
def test_G18_notes_on_sessions_and_what_is_ephemeral_go_back_from_core_to_working(
    services: ConsolidationServices, fields: dict[str, Any]
) -> None:
    put(services, 1, RULE, usage(access_count=99, strength=1.0), layer="core", decay_rate=0.05, **fields)
    put(services, 2, RULE, usage(access_count=99, strength=1.0), layer="core")
    assert [each.action for _, each in services.run().operations] == ["demote"]
    assert (layer(services, 1), layer(services, 2)) == ("working", "core")
    assert services.services.memory(sample_id(1)).decay_rate == 1.0
    assert services.run().operations == []


def test_G18_G30_the_working_layer_is_never_left_for_the_buffer_or_the_archive(services: ConsolidationServices) -> None:
    fill(services, 300, source="ingest", layer="working")
    set_epoch(services, 5000)
    services.services.at += 400 * DAY
    assert services.run().operations == []


def test_G26_a_tag_of_a_promotion_that_is_not_under_way_is_removed(services: ConsolidationServices) -> None:
    for number, where in enumerate(("buffer", "working", "core")):
        put(services, number, PLAIN, layer=where, tags=("spring", "promotion"))
    one = put(services, 3, RULE, layer="working", tags=("promotion",))
    write(services.store, LifecycleDecision(memory=one.id, action="promote", other=one.id, status="proposed", at=AT,
                                        digest=decision_digest([RULE])))  # fmt: skip
    services.run()
    assert [tags(services, number) for number in range(4)] == [
        ("spring", "promotion"),
        ("spring",),
        ("spring",),
        ("promotion",),
    ]


@pytest.mark.parametrize("name", ["triage", "promotion", "cap", "hygiene", "drop"])
def test_what_a_person_took_back_does_not_stand_in_the_way_of_others(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(consolidation, "STEPS", [step for step in steps.STEPS if step.name in (name, "decay")])
    for module in (buffer, core_admission, review):
        monkeypatch.setattr(module, "CHANGES_PER_STEP", 2)
    monkeypatch.setattr(buffer, "TRIAGED_MAX", 2)
    monkeypatch.setattr(buffer, "BUFFER_MAX", 0)
    cases: dict[str, dict[str, Any]] = {
        "triage": {"content": RULE}, "promotion": {"used": usage(access_count=5)}, "cap": {},
        "hygiene": {"layer": "core", "tags": ("session",)}, "drop": {"used": usage(strength=0.001)},
    }  # fmt: skip
    for number in range(1, 6):
        put(services, number, created_at=AT - DAY + number, **cases[name])
    start = layer(services, 1)
    services.run()
    assert [layer(services, number) == start for number in range(1, 6)] == [False, False, True, True, True]
    services.services.undo(cycle="last")
    for _ in range(3):
        services.services.at += MINUTE
        services.run()
    assert [layer(services, number) == start for number in range(1, 6)] == [True, True, False, False, False]
