"""A memory of another store, brought into one that has memories of its own. SPEC 3.8, 5.4, 5.5"""

from typing import Any

import pytest

from mnemo_core.transfer.store_merge import (
    UNDONE_REASON,
    IncomingMemory,
    LocalState,
    MergeClock,
    compares_by_text,
    edge_between,
    merge_memory,
)
from mnemo_store.records import (
    DropTrash,
    Edge,
    Memory,
    NotePlace,
    PutMemory,
    PutTrash,
    PutUsage,
    TrashEntry,
    Usage,
)
from tests.support.samples import AT, sample_id, sample_memory

NOW = AT + 9000
LATER, EARLIER = AT + 1, AT - 1
UNKNOWN = LocalState()


def merge(
    memory: Memory, here: LocalState = UNKNOWN, stand_ins: dict[str, str] | None = None,
    epochs: tuple[int, int] = (12, 12), **more: Any,
) -> Any:  # fmt: skip
    """epochs: those of this store and of the other one."""
    return merge_memory(IncomingMemory(memory, **more), here, stand_ins or {}, MergeClock(NOW, *epochs))


def written(outcome: Any) -> Memory:
    """The memory that a merge writes."""
    (memory,) = [change.data for change in outcome.changes if isinstance(change, PutMemory)]
    return memory


def entry(number: int, why: str = "deleted") -> TrashEntry:
    return TrashEntry(id=sample_id(number), at=AT, why=why, state="active")


# Unknown here


def test_an_unknown_memory_comes_as_it_is() -> None:
    memory = sample_memory(1, layer="core", trust="user", importance=0.9, version=7, pinned=True, tags=("a",))
    usage = Usage(id=memory.id, access_count=4, strength=0.8, strength_epoch=12)
    outcome = merge(memory, usage=usage)
    assert (outcome.outcome, outcome.replacement_id) == ("stored", None)
    assert outcome.changes == (PutMemory(data=memory), PutUsage(data=usage))


def test_a_newer_version_of_theirs_moves_the_strength_by_a_persons_difference() -> None:
    theirs = sample_memory(1, "new", modified_at=LATER, importance=0.8, importance_source="user")
    before = sample_memory(1, "old", kind="episodic")
    mine = Usage(id=before.id, strength_epoch=10)
    outcome = merge(theirs, LocalState(before=before, usage=mine), epochs=(12, 40))
    assert outcome.outcome == "updated"
    (used,) = [change.data for change in outcome.changes if isinstance(change, PutUsage)]
    assert used.strength == pytest.approx(0.4802 + 0.3)  # two epochs of this store
    assert used.strength_epoch == 12


@pytest.mark.parametrize("epoch", [0, 12, 400])
def test_a_memory_has_the_strength_that_it_had_there_and_decays_on_from_it(epoch: int) -> None:
    theirs = Usage(id=sample_id(1), strength=0.5, strength_epoch=12)
    used = merge(sample_memory(1, kind="episodic"), epochs=(epoch, 14), usage=theirs).changes[1].data
    assert used.strength == pytest.approx(0.4802)  # 0.5 · 0.98²
    assert used.strength_epoch == epoch


def test_a_trashed_memory_is_merged_as_trashed_with_its_reason() -> None:
    outcome = merge(sample_memory(1, state="trashed"), trashed=entry(1, "too old"))
    assert outcome.changes[1] == PutTrash(data=entry(1, "too old"))


def test_a_chunk_of_a_note_is_a_memory_of_its_own_and_keeps_its_headings() -> None:
    place = NotePlace(title="Garden", headings=("Trees",))
    memory = written(merge(sample_memory(1, managed=sample_id(50), trust="note", note=place)))
    assert (memory.managed, memory.trust, memory.note) == ("", "note", place)


def test_a_key_that_another_memory_has_is_lost_and_the_text_is_not() -> None:
    outcome = merge(sample_memory(1, "new", key="k"), LocalState(same_key=sample_memory(2, "old", key="k")))
    assert (outcome.outcome, outcome.lost_key, written(outcome).key) == ("stored", True, "")


def test_a_memory_with_the_same_key_and_text_replaces_the_incoming_one() -> None:
    outcome = merge(sample_memory(1, "A  text", key="k"), LocalState(same_key=sample_memory(2, "a text", key="k")))
    assert (outcome.outcome, outcome.replacement_id, outcome.changes) == ("duplicate", sample_id(2), ())


def test_a_memory_with_the_same_text_replaces_the_incoming_one() -> None:
    outcome = merge(sample_memory(1, "a text"), LocalState(same_text=sample_memory(2, "A text")))
    assert (outcome.outcome, outcome.replacement_id, outcome.changes) == ("duplicate", sample_id(2), ())


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({}, True), ({"state": "archived"}, True), ({"key": "k"}, False), ({"state": "superseded"}, False),
     ({"state": "trashed"}, False)],
)  # fmt: skip
def test_only_visible_memories_without_a_key_are_compared_by_text(fields: dict[str, Any], expected: bool) -> None:
    assert compares_by_text(sample_memory(1, **fields)) is expected


# References to what did not come along


def test_references_to_unmerged_memories_lead_to_their_replacements() -> None:
    stand_ins = {sample_id(7): sample_id(8), sample_id(9): ""}
    derived = (sample_id(7), sample_id(9), sample_id(8), sample_id(3))
    memory = written(merge(sample_memory(1, derived_from=derived), stand_ins=stand_ins))
    assert memory.derived_from == (sample_id(8), sample_id(3))


def test_evidence_is_redirected_too_and_other_evidence_stays() -> None:
    stand_ins = {sample_id(7): sample_id(8), sample_id(9): ""}
    evidence = ("https://example.org", sample_id(7), sample_id(9), "p. 12")
    memory = written(merge(sample_memory(1, evidence=evidence), stand_ins=stand_ins))
    assert memory.evidence == ("https://example.org", sample_id(8), "p. 12")


def test_a_memory_superseded_by_a_replacement_stays_hidden() -> None:
    hidden = sample_memory(1, state="superseded", superseded_by=sample_id(7))
    memory = written(merge(hidden, stand_ins={sample_id(7): sample_id(8)}))
    assert (memory.state, memory.superseded_by) == ("superseded", sample_id(8))


def test_a_memory_that_nothing_replaces_is_visible_again() -> None:
    hidden = sample_memory(1, state="superseded", superseded_by=sample_id(7))
    memory = written(merge(hidden, stand_ins={sample_id(7): ""}))
    assert (memory.state, memory.superseded_by) == ("active", "")


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [(1, 2, (1, 2)), (7, 2, (8, 2)), (1, 9, None), (8, 7, None)],
)
def test_an_edge_connects_memories_of_this_store(source: int, target: int, expected: tuple[int, int] | None) -> None:
    """7 stands for nothing but 8, and 9 did not come at all; an edge from a memory to itself says nothing."""
    stand_ins = {sample_id(7): sample_id(8), sample_id(9): ""}
    edge = Edge(source=sample_id(source), target=sample_id(target), relation="related", at=AT, via="link")
    found = edge_between(edge, stand_ins)
    ends = None if expected is None else (sample_id(expected[0]), sample_id(expected[1]))
    assert (None if found is None else (found.source, found.target)) == ends
    assert found is None or found.via == ""


# Known here


def test_equal_content_is_a_duplicate_whatever_else_differs() -> None:
    before = sample_memory(1, "same", tags=("mine",))
    assert merge(sample_memory(1, "same", modified_at=LATER), LocalState(before=before)).outcome == "duplicate"


def test_the_later_of_two_versions_wins_with_all_its_fields() -> None:
    before = sample_memory(1, "old", version=3, layer="buffer")
    theirs = sample_memory(1, "new", version=9, layer="core", modified_at=LATER)
    outcome = merge(theirs, LocalState(before=before))
    memory = written(outcome)
    assert (outcome.outcome, memory.content, memory.version, memory.layer) == ("updated", "new", 4, "core")
    assert memory.modified_at == LATER


@pytest.mark.parametrize("modified_at", [AT, EARLIER])
def test_an_earlier_version_changes_nothing(modified_at: int) -> None:
    outcome = merge(sample_memory(1, "theirs", modified_at=modified_at), LocalState(before=sample_memory(1, "mine")))
    assert (outcome.outcome, outcome.changes) == ("older", ())


def test_a_chunk_of_a_note_here_says_what_its_file_says() -> None:
    before = sample_memory(1, "as in the file", managed=sample_id(50))
    assert merge(sample_memory(1, "edited", modified_at=LATER), LocalState(before=before)).outcome == "older"


def test_a_later_trashed_version_is_trashed_here() -> None:
    theirs = sample_memory(1, "new", modified_at=LATER, state="trashed")
    outcome = merge(theirs, LocalState(before=sample_memory(1, "old")), trashed=entry(1))
    assert outcome.changes[1] == PutTrash(data=entry(1))


def test_a_later_version_restores_a_trashed_memory() -> None:
    here = LocalState(before=sample_memory(1, "old", state="trashed"), trashed=entry(1))
    outcome = merge(sample_memory(1, "new", modified_at=LATER), here)
    assert (written(outcome).state, outcome.changes[1]) == ("active", DropTrash(id=sample_id(1)))


def test_a_locally_trashed_memory_stays_trashed() -> None:
    here = LocalState(before=sample_memory(1, "same", state="trashed"), trashed=entry(1))
    assert merge(sample_memory(1, "same", modified_at=LATER), here).outcome == "duplicate"


def test_a_memory_trashed_with_its_import_is_restored_by_the_next_import() -> None:
    here = LocalState(before=sample_memory(1, "same", state="trashed"), trashed=entry(1, UNDONE_REASON))
    outcome = merge(sample_memory(1, "same"), here)
    assert (outcome.outcome, written(outcome).state) == ("restored", "active")


def test_a_later_version_whose_key_another_has_keeps_the_one_it_had_here() -> None:
    here = LocalState(before=sample_memory(1, "old", key="mine"), same_key=sample_memory(2, key="theirs"))
    outcome = merge(sample_memory(1, "new", key="theirs", modified_at=LATER), here)
    assert (outcome.lost_key, written(outcome).key) == (True, "mine")
