"""Versions of a memory: which was it then, what became of it, what taking back comes to. SPEC 3.3"""

from typing import Any

import pytest

from mnemo_core.retrieval import versions as timeline
from mnemo_core.retrieval.versions import RevertEffect, Version
from mnemo_store.records import Memory
from tests.support.samples import sample_memory


def made(seq: int, content: str, **fields: Any) -> Version:
    return seq, sample_memory(1, content, **fields)


TEA, MILK, RUM = made(3, "tea"), made(5, "milk"), made(9, "rum")
EDITS = [TEA, MILK, RUM]


def names(versions: list[Version], **undone: str) -> dict[int, str]:
    """The operations of the transactions: "edit", but for those that are named, as u5="undo:3"."""
    return {seq: undone.get(f"u{seq}", "edit") for seq, _ in versions}


@pytest.mark.parametrize(
    ("seq", "content"), [(2, None), (3, "tea"), (4, "tea"), (5, "milk"), (8, "milk"), (9, "rum"), (99, "rum")]
)
def test_a_memory_was_what_the_last_change_up_to_then_made_it(seq: int, content: str | None) -> None:
    memory = timeline.version_at(EDITS, seq)
    assert (memory.content if memory is not None else None) == content


def test_versions_differ_in_their_fields_and_not_in_being_counted() -> None:
    before = sample_memory(1, "tea", tags=("a",))
    after = sample_memory(1, "milk", tags=("b",), version=2, modified_at=5)
    assert timeline.changed_fields(before, after) == ("content", "tags")
    assert timeline.changed_fields(before, sample_memory(1, "tea", tags=("a",), version=3, modified_at=9)) == ()


@pytest.mark.parametrize(
    ("before", "after", "became"),
    [
        (None, "active", "added"),
        (None, "trashed", None),
        (None, None, None),
        ("active", "active", None),
        ("active", "superseded", "changed"),
        ("active", "trashed", "trashed"),
        ("trashed", "archived", "restored"),
        ("trashed", "trashed", None),
    ],
)
def test_what_became_of_a_memory_is_reported_from_both_ends(
    before: str | None, after: str | None, became: str | None
) -> None:
    def memory(state: str | None) -> Memory | None:
        return None if state is None else sample_memory(1, state=state)

    assert timeline.change_kind(memory(before), memory(after)) == became


def test_an_undo_is_called_by_what_it_takes_back() -> None:
    assert timeline.undo_label([3, 14]) == "undo:3,14"
    assert timeline.undone_seqs("undo:3,14") == {3, 14}
    assert timeline.undone_seqs("edit") == frozenset()


def test_undoing_an_undo_restores_the_change() -> None:
    assert timeline.reverted_seqs([(5, "undo:3"), (4, "edit"), (3, "edit")]) == {3}
    assert timeline.reverted_seqs([(6, "undo:5"), (5, "undo:3"), (3, "edit")]) == {5}
    assert timeline.reverted_seqs([(7, "undo:6"), (6, "undo:5"), (5, "undo:3"), (3, "edit")]) == {6, 3}


def test_the_last_change_is_reverted_to_the_version_before_it() -> None:
    assert timeline.revert_effect(EDITS, names(EDITS), {9}) == RevertEffect(before=MILK[1])


def test_reverting_the_change_that_created_a_memory_removes_it() -> None:
    assert timeline.revert_effect([TEA], names([TEA]), {3}) == RevertEffect(before=None)


def test_a_change_with_later_changes_is_not_reverted_and_they_are_named() -> None:
    assert timeline.revert_effect(EDITS, names(EDITS), {3}) == RevertEffect(later=(5, 9))


def test_changes_of_a_group_go_back_together_unless_another_stands_between_them() -> None:
    assert timeline.revert_effect(EDITS, names(EDITS), {5, 9}) == RevertEffect(before=TEA[1])
    assert timeline.revert_effect(EDITS, names(EDITS), {3, 9}) == RevertEffect(later=(5,))


def test_after_the_last_change_is_reverted_the_one_before_it_can_be_too() -> None:
    versions = [TEA, MILK, made(7, "tea")]
    whats = names(versions, u7="undo:5")
    assert timeline.revert_effect(versions, whats, {3}) == RevertEffect(before=None)
    assert timeline.revert_effect(versions, whats, {5}) == RevertEffect(done=True, later=(7,))


def test_taking_back_an_undo_gives_what_was_there_before_it() -> None:
    versions = [TEA, MILK, made(7, "tea")]
    whats = names(versions, u7="undo:5")
    assert timeline.revert_effect(versions, whats, {7}) == RevertEffect(before=MILK[1])
    redone = [*versions, made(8, "milk")]
    whats = names(redone, u7="undo:5", u8="undo:7")
    assert timeline.revert_effect(redone, whats, {5}) == RevertEffect(before=TEA[1])
    assert timeline.revert_effect(redone, whats, {7}) == RevertEffect(later=(8,))


def test_after_one_change_of_a_group_is_reverted_the_rest_still_can_be() -> None:
    versions = [TEA, MILK, RUM, made(11, "milk")]
    whats = names(versions, u11="undo:9")
    assert timeline.revert_effect(versions, whats, {5, 9}) == RevertEffect(before=TEA[1])


def test_a_change_without_any_version_left_is_not_reverted() -> None:
    assert timeline.revert_effect([RUM], names([RUM]), {5}) == RevertEffect(later=(9,))
    assert timeline.revert_effect([], {}, {5}) == RevertEffect()
