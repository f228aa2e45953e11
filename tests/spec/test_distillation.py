"""Distillation: the status of a project from its session notes, and entries that replace overlapping members of a
topic. SPEC 9.5, rows G22, G25, G30"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_core.lifecycle.consolidation.steps import STEPS
from mnemo_core.llm.writing.condense import CondensedText
from mnemo_daemon.lifecycle.consolidation import consolidation
from mnemo_store.records import Memory
from tests.cycle_desk import CycleDesk, cycle_desk_in
from tests.desk import put
from tests.samples import AT, sample_memory

HOUR = 3_600_000
DID = (
    "fixed the login page", "wrote the import of notes", "measured the search at 40 ms", "moved the store to LMDB",
    "reviewed the pull request of Anna", "cut the release 1.4", "closed 12 issues", "paired with Tom on the parser",
    "drew the plan of the archive", "tested the backup on Friday", "ordered a new disk", "answered the mail of Mia",
)  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CycleDesk]:
    monkeypatch.setattr(consolidation, "STEPS", [each for each in STEPS if each.name.endswith("distillation")])
    with cycle_desk_in(tmp_path) as made:
        yield made


def note(number: int, content: str = "", **fields: Any) -> Memory:
    """The note of a session that ended so many hours after AT."""
    at = AT + number * HOUR
    defaults = {"tags": ("session",), "created_at": at, "modified_at": at, "event_at": at, "session_id": f"s{number}"}
    return sample_memory(number, content or f"Session {number}: {DID[number % 12]}.", **{**defaults, **fields})


def status_of(desk: CycleDesk) -> Memory | None:
    """The one status that stands; None where there is none."""
    found = [each for each in desk.desk.listed() if "auto-distilled" in each.tags]
    assert len(found) <= 1
    return found[0] if found else None


def test_G22_two_session_notes_make_no_status_and_a_third_makes_one(desk: CycleDesk) -> None:
    notes = [desk.put(note(number, trust="user" if number else "agent")) for number in range(2)]
    assert desk.run().operations == []
    notes.append(desk.put(note(2)))
    cycle = desk.run().cycle
    status = status_of(desk)
    assert status is not None
    assert (status.layer, status.tags, status.source) == ("working", ("project-status", "auto-distilled"), "distill")
    assert (status.importance, status.trust, status.session_id) == (0.7, "agent", "")
    assert status.derived_from == tuple(each.id for each in notes)
    assert status.event_at == notes[-1].event_at
    assert 0 < len(status.content) <= 250
    for each in notes:
        after = desk.desk.memory(each.id)
        assert (after.tags, after.state, after.layer) == (("session", "distilled"), "active", "buffer")
    assert cycle.steps[0].counts == {"distil": 1}
    assert desk.usage(status.id).strength == 0.7
    assert desk.run().operations == []  # there is nothing new


def test_G22_the_latest_ten_notes_make_the_status(desk: CycleDesk) -> None:
    notes = [desk.put(note(number)) for number in range(12)]
    desk.run()
    status = status_of(desk)
    assert status is not None
    assert status.derived_from == tuple(each.id for each in notes[2:])
    assert [bool("distilled" in desk.desk.memory(each.id).tags) for each in notes] == [False] * 2 + [True] * 10
    desk.put(note(12, event_at=AT - HOUR))
    assert desk.run().operations == []  # three undistilled ones are older than the status


def test_G22_a_status_is_of_one_namespace_and_user(desk: CycleDesk) -> None:
    for number in range(6):
        scope = {"namespace": "work"} if number % 3 == 0 else {"user_id": "mia"} if number % 3 == 1 else {}
        desk.put(note(number, **scope))
    assert desk.run().operations == []
    desk.put(note(6, namespace="work"))
    desk.run()
    status = status_of(desk)
    assert status is not None
    assert (status.namespace, status.user_id, len(status.derived_from)) == ("work", "local", 3)


def test_a_new_status_replaces_the_former_one_and_what_a_person_pinned_or_edited_stays(desk: CycleDesk) -> None:
    statuses = list[str]()
    for number in range(0, 12, 3):
        for each in range(number, number + 3):
            desk.put(note(each))
        desk.desk.at += 1000
        desk.run()
        made = [each for each in desk.desk.listed() if each.source == "distill" and each.id not in statuses]
        statuses += [each.id for each in made]
        if number == 3:
            desk.desk.edit(statuses[-1], pinned=True)
    states = [desk.desk.memory(each).state for each in statuses]
    assert states == ["superseded", "active", "superseded", "active"]
    assert desk.desk.memory(statuses[2]).superseded_by == statuses[3]


@pytest.mark.parametrize(
    "fields",
    [
        {"tags": ("session", "sensitive")},
        {"tags": ("session", "ephemeral")},
        {"tags": ("session", *(f"t{number}" for number in range(19)))},
        {"expires_at": AT * 2},
        {"kind": "working"},
        {"state": "archived"},
    ],
)
def test_a_note_that_is_left_out_of_a_status(desk: CycleDesk, fields: dict[str, Any]) -> None:
    for number in range(3):
        desk.put(note(number, **fields if number == 1 else {}))
    assert desk.run().operations == []


def test_G22_a_status_that_says_nothing_new_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consolidation, "STEPS", [each for each in STEPS if each.name == "session_distillation"])
    said = ["The import of notes is done and the search is next on the list."]
    with cycle_desk_in(tmp_path, lambda *_: CondensedText(said[-1]), has_vectors=True) as desk:
        counts = list[dict[str, int]]()
        for again in (
            said[0],
            "The search is next on the list, the import of notes is done.",  # in other words
            "The import of notes is done and the search is not next on the list.",
            "The import of notes is done and the search is next on the list of Anna.",
        ):
            said.append(again)
            put(desk.desk, *(note(len(counts) * 3 + number, f"{again} {DID[number]}.") for number in range(3)))
            desk.desk.at += 1000
            counts.append(desk.run().cycle.steps[0].counts)
    assert counts == [{"distil": 1}, {"unchanged": 1}, {"distil": 1}, {"distil": 1}]


def test_undo_of_the_cycle_takes_the_status_back_and_it_is_not_made_again_of_the_same_notes(desk: CycleDesk) -> None:
    notes = [desk.put(note(number)) for number in range(3)]
    cycle = desk.run().cycle
    status = status_of(desk)
    assert status is not None
    desk.desk.undo(group=cycle.id)
    assert desk.desk.memory(status.id).state == "trashed"
    assert [desk.desk.memory(each.id).tags for each in notes] == [("session",)] * 3
    assert desk.run().operations == []
    desk.put(note(3))
    assert len(desk.run().operations) == 1
