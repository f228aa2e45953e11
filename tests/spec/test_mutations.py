"""Writes and the changes they result in. SPEC 2.1, 3.3, 3.7, 5.5."""

import msgspec
import pytest

from mnemo_core.ingest import mutations
from mnemo_core.ingest.mutations import Draft, PlannedRevert
from mnemo_store.records import (
    DropTrash,
    Memory,
    PutMemory,
    PutTrash,
    PutUsage,
    TraceStep,
    TrashEntry,
    Usage,
)
from tests.support.samples import AT, sample_id, sample_memory

NOW = AT + 1000
ID = sample_id(1)
DRAFT = Draft(content="tea", namespace="default", user_id="local", trust="user", source="cli")
USAGE = Usage(id=ID, access_count=2, repetition_count=1, strength=0.5, last_accessed=AT)


def replace(memory: Memory, **fields: object) -> Memory:
    return msgspec.structs.replace(memory, **fields)


def test_a_new_memory_is_in_the_buffer_with_the_defaults_of_its_kind() -> None:
    decision = mutations.store_new(DRAFT._replace(kind="episodic"), ID, NOW, 0)
    expected = Memory(
        id=ID, content="tea", created_at=NOW, modified_at=NOW, event_at=NOW, kind="episodic", source="cli",
        decay_rate=5.0, importance=0.5, importance_source="rule", layer="buffer",
    )  # fmt: skip
    assert decision.outcome == "stored"
    assert decision.memory == expected
    assert decision.changes == (PutMemory(data=expected), PutUsage(data=Usage(id=ID, strength=0.5)))


def test_strength_starts_as_the_importance_that_was_given() -> None:
    decision = mutations.store_new(DRAFT._replace(importance=0.75), ID, NOW, 0)
    assert (decision.memory.importance, decision.memory.importance_source) == (0.75, "user")
    assert decision.changes[1] == PutUsage(data=Usage(id=ID, strength=0.75))


def test_event_time_is_creation_time_unless_given() -> None:
    imported = mutations.store_new(DRAFT._replace(created_at=5), ID, NOW, 0).memory
    assert (imported.created_at, imported.modified_at, imported.event_at) == (5, NOW, 5)
    dated = mutations.store_new(DRAFT._replace(event_at=0), ID, NOW, 0).memory
    assert (dated.created_at, dated.event_at) == (NOW, 0)


def test_equal_content_under_a_known_key_is_a_duplicate_and_a_repetition() -> None:
    before = sample_memory(1, "Tea", key="k")
    decision = mutations.store_keyed(DRAFT._replace(key="k", content=" tea"), before, USAGE, None, NOW)
    assert (decision.outcome, decision.memory) == ("duplicate", before)
    again = Usage(id=ID, access_count=3, repetition_count=2, strength=0.53, last_accessed=NOW)
    assert decision.changes == (PutUsage(data=again),)


@pytest.mark.parametrize(("given", "strength"), [(0.9, 0.65), (0.1, 0.0), (1.0, 0.75), (0.75, 0.5)])
def test_a_persons_new_importance_moves_strength_by_the_same_difference(given: float, strength: float) -> None:
    before, weak = sample_memory(1, importance=0.75), msgspec.structs.replace(USAGE, strength=0.5)
    after = msgspec.structs.replace(before, importance=given, importance_source="user")
    moved = [
        change.data.strength
        for change in mutations.adjust_strength(weak, before, after)
        if isinstance(change, PutUsage)
    ]
    assert moved == ([] if given == 0.75 else [pytest.approx(strength)])
    assert mutations.adjust_strength(weak, before, msgspec.structs.replace(after, importance_source="llm")) == ()


def test_other_content_under_a_known_key_is_the_next_version() -> None:
    before = sample_memory(1, "coffee", key="k", layer="core", importance=0.75, importance_source="user")
    decision = mutations.store_keyed(DRAFT._replace(key="k"), before, USAGE, None, NOW)
    assert decision.outcome == "updated"
    after = decision.memory
    assert (after.content, after.version, after.modified_at, after.created_at) == ("tea", 2, NOW, AT)
    assert (after.layer, after.importance, after.key) == ("core", 0.75, "k")
    assert decision.changes == (PutMemory(data=after),)
    scored = mutations.store_keyed(DRAFT._replace(key="k", importance=0.25), before, USAGE, None, NOW).memory
    assert (scored.importance, scored.importance_source) == (0.25, "user")


NAMED: dict[str, tuple[object, object]] = {  # what it is before, and what a write names
    "kind": ("procedural", "episodic"), "form": ("preference", None), "category": ("decision", "result"),
    "event_at": (5, 7), "expires_at": (NOW + 5, 0), "speaker": ("Ann", ""), "source": ("api", "cli"),
    "tags": (("a", "b"), ()), "agent_id": ("one", ""), "run_id": ("r", "s"), "session_id": ("s", ""),
    "evidence": (("x",), ()), "derived_from": ((sample_id(8),), ()), "pinned": (True, False),
    "trace": (TraceStep(step_number=1, action="look"), None),
}  # fmt: skip


@pytest.mark.parametrize("named", [*([name] for name in NAMED), [], [*NAMED]], ids=lambda named: ",".join(named) or "-")
def test_a_write_by_key_changes_the_content_and_the_fields_that_it_names(named: list[str]) -> None:
    has = {name: before for name, (before, _) in NAMED.items()}
    before = sample_memory(1, "coffee", key="k", importance=0.75, importance_source="user", **has)
    says = {name: NAMED[name][1] for name in named}
    draft = DRAFT._replace(key="k", source="cli", importance=0.6, importance_source="rule", given=frozenset(named))
    after = mutations.store_keyed(draft._replace(**says), before, USAGE, None, NOW).memory  # type: ignore[arg-type]
    assert after == replace(before, content="tea", version=2, modified_at=NOW, **says)


@pytest.mark.parametrize(("given", "kept"), [(0.25, (0.25, "llm")), (None, (0.6, "rule"))])
def test_an_importance_that_a_write_by_key_names_is_set_or_given_back_to_the_rules(
    given: float | None, kept: tuple[float, str]
) -> None:
    before = sample_memory(1, "coffee", key="k", importance=0.75, importance_source="user")
    scored = {"importance": 0.6, "importance_source": "rule"} if given is None else {"importance": given}
    draft = DRAFT._replace(key="k", importance_source="llm", given=frozenset({"importance"}))
    after = mutations.store_keyed(draft._replace(**scored), before, USAGE, None, NOW).memory
    assert (after.importance, after.importance_source) == kept


def test_a_write_by_key_takes_the_date_that_its_text_holds() -> None:
    before = sample_memory(1, "Dentist on 5 May", key="k", event_at=5)
    draft = DRAFT._replace(key="k", content="Dentist on 9 June", event_at=9, given=frozenset())
    assert mutations.store_keyed(draft, before, USAGE, None, NOW).memory.event_at == 9


def test_an_expiry_that_has_passed_does_not_hide_what_is_written_now() -> None:
    before = sample_memory(1, "coffee", key="k", expires_at=NOW - 1)
    draft = DRAFT._replace(key="k", given=frozenset())
    assert mutations.store_keyed(draft, before, USAGE, None, NOW).memory.expires_at == 0


def test_a_tag_that_cleaning_adds_joins_those_that_a_write_by_key_leaves() -> None:
    before = sample_memory(1, "coffee", key="k", tags=tuple(f"t{n}" for n in range(20)))
    draft = DRAFT._replace(key="k", tags=("sensitive",), given=frozenset())
    tags = mutations.store_keyed(draft, before, USAGE, None, NOW).memory.tags
    assert tags == ("sensitive", *(f"t{n}" for n in range(19)))


@pytest.mark.parametrize(("source", "kept"), [("rule", (0.25, "rule")), ("user", (0.75, "user"))])
def test_an_importing_tool_sets_the_importance_until_a_person_does(source: str, kept: tuple[float, str]) -> None:
    before = sample_memory(1, "coffee", key="k", importance=0.75, importance_source=source, trust="import")
    reported = DRAFT._replace(key="k", trust="import", importance=0.25, importance_source="rule")
    after = mutations.store_keyed(reported, before, USAGE, None, NOW).memory
    assert (after.importance, after.importance_source) == kept


@pytest.mark.parametrize(("content", "outcome"), [("tea", "duplicate"), ("milk", "updated")])
def test_a_keyed_memory_in_the_trash_is_restored_and_grows_by_one_version(content: str, outcome: str) -> None:
    before = sample_memory(1, "tea", key="k", version=4, state="trashed")
    entry = TrashEntry(id=ID, at=AT, why="", state="archived")
    decision = mutations.store_keyed(DRAFT._replace(key="k", content=content), before, USAGE, entry, NOW)
    assert decision.outcome == outcome
    after = decision.memory
    assert (after.state, after.version, after.content, after.modified_at) == ("archived", 5, content, NOW)
    assert decision.changes == (PutMemory(data=after), DropTrash(id=ID))


def test_the_trash_keeps_the_reason_and_the_state_and_restoring_gives_it_back() -> None:
    memory = sample_memory(1, state="archived", version=3)
    trashed, entry = mutations.move_to_trash(memory, "out of date", NOW)
    assert trashed == PutMemory(data=replace(memory, state="trashed", version=4, modified_at=NOW))
    assert entry == PutTrash(data=TrashEntry(id=ID, at=NOW, why="out of date", state="archived"))
    assert isinstance(trashed, PutMemory)
    assert isinstance(entry, PutTrash)
    back = mutations.restore(trashed.data, entry.data, NOW + 1)
    assert back == (PutMemory(data=replace(memory, version=5, modified_at=NOW + 1)), DropTrash(id=ID))


@pytest.mark.parametrize("state", ["archived", "discarded"])
def test_a_memory_without_a_trash_entry_is_restored_as_active(state: str) -> None:
    (back,) = mutations.restore(sample_memory(1, state=state), None, NOW)
    assert back == PutMemory(data=sample_memory(1, version=2, modified_at=NOW))


def test_named_memories_are_superseded_but_never_by_themselves() -> None:
    changes = mutations.supersede([sample_memory(1), sample_memory(2)], sample_id(2), NOW)
    expected = sample_memory(1, state="superseded", superseded_by=sample_id(2), version=2, modified_at=NOW)
    assert changes == (PutMemory(data=expected),)


def test_being_recalled_adds_three_hundredths_of_strength_up_to_one() -> None:
    once = mutations.record_recall(USAGE, NOW)
    assert once == Usage(id=ID, access_count=3, repetition_count=1, strength=0.53, last_accessed=NOW)
    assert mutations.record_recall(msgspec.structs.replace(USAGE, strength=0.98), NOW).strength == 1.0


def test_equal_fields_are_no_change() -> None:
    assert not mutations.is_changed(sample_memory(1), {"layer": "buffer", "tags": ()})
    assert mutations.is_changed(sample_memory(1), {"layer": "buffer", "tags": ("a",)})


def test_undoing_an_edit_puts_back_the_version_before_as_the_next_one() -> None:
    before, now = sample_memory(1, "tea", tags=("a",)), sample_memory(1, "milk", version=2, modified_at=AT + 1)
    assert mutations.revert([PlannedRevert(now, before)], "undo of edit", NOW) == (
        PutMemory(data=replace(before, version=3, modified_at=NOW)),
    )


def test_undoing_a_move_to_another_layer_is_no_modification_either() -> None:
    before = sample_memory(1, "tea")
    now = replace(before, version=2, layer="working")
    assert mutations.revert([PlannedRevert(now, before)], "undo of consolidate", NOW) == (
        PutMemory(data=replace(before, version=3)),
    )


def test_undoing_a_new_memory_moves_it_to_the_trash() -> None:
    memory = sample_memory(1)
    changes = mutations.revert([PlannedRevert(memory, None)], "undo of add", NOW)
    assert changes == mutations.move_to_trash(memory, "undo of add", NOW)


def test_undoing_a_deletion_brings_it_out_of_the_trash() -> None:
    before = sample_memory(1, state="archived")
    trashed = replace(before, state="trashed", version=2, modified_at=AT + 1)
    assert mutations.revert([PlannedRevert(trashed, before)], "undo of rm", NOW) == (
        PutMemory(data=replace(before, version=3, modified_at=NOW)),
        DropTrash(id=ID),
    )


def test_undoing_a_restore_moves_it_back_to_the_trash() -> None:
    trashed = sample_memory(1, state="trashed", version=2)
    restored = sample_memory(1, version=3, state="archived", modified_at=AT + 1)
    assert mutations.revert([PlannedRevert(restored, trashed)], "undo of restore", NOW) == (
        PutMemory(data=replace(trashed, version=4, modified_at=NOW)),
        PutTrash(data=TrashEntry(id=ID, at=NOW, why="undo of restore", state="archived")),
    )


def test_undoing_an_edit_within_the_trash_leaves_its_entry() -> None:
    before = sample_memory(1, "a", state="trashed", version=2)
    now = sample_memory(1, "b", state="trashed", version=3, modified_at=AT + 1)
    (change,) = mutations.revert([PlannedRevert(now, before)], "undo", NOW)
    assert change == PutMemory(data=replace(before, version=4, modified_at=NOW))
