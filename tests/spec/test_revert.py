"""Undo of a change or a group: each record's version before it, or nothing. SPEC 3.3"""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_daemon import history_names
from mnemo_daemon.errors import Refusal
from mnemo_daemon.history_names import AUTHORS, BY_TRASH, EMPTY_TRASH, PURGE, author_of
from mnemo_daemon.memories import revert
from mnemo_daemon.memories.revert import RevertConflict
from mnemo_store.record_texts import skip_hash
from mnemo_store.records import (
    ChunkRef,
    DropMemory,
    Edge,
    Memory,
    NoteFile,
    NotePlace,
    NoteRoot,
    PutEdge,
    PutMemory,
    PutMeta,
    PutNote,
    PutRoot,
    PutTrash,
    TrashEntry,
)
from mnemo_store.store import Commit, WriteResult
from mnemo_store.tables import META, UNDONE, Table, drop_of, put_of
from tests.support.samples import WAIT_SECONDS, sample_id, sample_memory, write
from tests.support.store_services import AGENT, PERSON, StoreServices, services_in
from tests.support.table_records import sample_record

FILE, ROOT = sample_id(900), sample_id(901)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[StoreServices]:
    with services_in(tmp_path) as services:
        yield services


def write_as(services: StoreServices, by: str, *changes: Any, what: str = "", group: str = "") -> int:
    turn: WriteResult[None] = WriteResult(changes, None, what, group)
    return services.store.transact(lambda _: turn, by=by).result(WAIT_SECONDS).seq


def contents(services: StoreServices, *ids: str) -> list[tuple[str, str, int]]:
    rows = [services.memory(memory_id) for memory_id in ids]
    return [(row.content, row.state, row.version) for row in rows]


def refused(services: StoreServices, *args: Any, **named: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        services.undo(*args, **named)
    return caught.value


def test_an_edit_is_reverted_as_a_new_version(services: StoreServices) -> None:
    tea = services.add("tea", tags=("a",))
    seq = services.edit(tea, content="milk", tags=("b",))
    undone = services.undo(seq)
    assert (undone.seqs, undone.what, undone.ids, undone.made, undone.group) == ([2], "edit", [tea], 3, "")
    assert contents(services, tea) == [("tea", "active", 3)]
    assert services.memory(tea).tags == ("a",)
    assert services.recalled("tea") == ["tea"]
    assert services.recalled("milk") == []


def test_a_dry_undo_says_what_it_would_do_and_does_nothing(services: StoreServices) -> None:
    tea = services.add("tea")
    services.edit(tea, content="milk")
    undone = services.undo(dry_run=True)
    assert (undone.seqs, undone.ids, undone.made) == ([2], [tea], 0)
    assert (services.store.seq, contents(services, tea)) == (2, [("milk", "active", 2)])


def test_memories_that_a_change_created_go_to_the_trash_and_those_it_deleted_come_back(services: StoreServices) -> None:
    tea, milk = services.add("tea"), services.add("milk")
    services.trash(tea, milk)
    services.undo()
    assert contents(services, tea, milk) == [("tea", "active", 3), ("milk", "active", 3)]
    services.undo()  # the addition of the milk
    assert contents(services, tea, milk) == [("tea", "active", 3), ("milk", "trashed", 4)]
    with services.store.snapshot() as snapshot:
        assert (snapshot.trash(tea), snapshot.trash(milk)) == (
            None,
            TrashEntry(id=milk, at=1000, why="undo of add", state="active"),
        )


def test_a_restore_is_reverted_into_the_trash(services: StoreServices) -> None:
    tea = services.add("tea")
    services.trash(tea)
    seq = services.restore(tea)
    services.undo(seq)
    assert contents(services, tea) == [("tea", "trashed", 4)]
    with services.store.snapshot() as snapshot:
        assert snapshot.trash(tea) == TrashEntry(id=tea, at=1000, why="undo of restore", state="active")
    services.restore(tea)
    assert contents(services, tea) == [("tea", "active", 5)]


def test_reverting_a_supersession_restores_the_old_memory_and_removes_the_new_one(services: StoreServices) -> None:
    old = services.add("It is in May.")
    new = services.add("It is in June.", supersedes=(old,))
    undone = services.undo()
    assert set(undone.ids) == {old, new}
    assert contents(services, old, new) == [("It is in May.", "active", 3), ("It is in June.", "trashed", 2)]
    assert services.memory(old).superseded_by == ""


def test_a_group_goes_back_together_though_others_wrote_in_between(services: StoreServices) -> None:
    kept = services.add("tea")
    first = write_as(services, "import", PutMemory(data=sample_memory(1, "one")), what="import", group="g")
    services.edit(kept, content="milk")
    second = write_as(services, "import", PutMemory(data=sample_memory(2, "two")), what="import", group="g")
    undone = services.undo()
    assert undone.seqs == [first, second]
    assert contents(services, sample_id(1), sample_id(2), kept) == [
        ("one", "trashed", 2), ("two", "trashed", 2), ("milk", "active", 2)
    ]  # fmt: skip
    assert refused(services, group="g").message.startswith("that was taken back already")
    assert services.undo().seqs == [first + 1]  # the edit in between is the last change now
    assert refused(services, group="h").status == 404


def test_one_change_of_a_group_can_be_reverted_alone_and_the_rest_after_it(services: StoreServices) -> None:
    for number in (1, 2):
        write_as(services, "import", PutMemory(data=sample_memory(number)), what="import", group="g")
    assert services.undo(2).ids == [sample_id(2)]
    assert services.undo(group="g").ids == [sample_id(1)]


def test_later_changes_are_listed_with_their_sequence_numbers_and_nothing_is_undone(services: StoreServices) -> None:
    tea, milk = services.add("tea"), services.add("milk")
    seq = services.trash(tea, milk)
    services.at = 2000
    services.restore(tea)
    error = refused(services, seq)
    assert isinstance(error, RevertConflict)
    assert (error.status, error.code) == (409, "conflict")
    assert error.message == f"changed again since: {tea} by change 4 (restore); nothing was undone"
    (later,) = error.later
    assert (later.id, later.seq, later.at, later.by, later.what) == (tea, 4, 2000, "cli", "restore")
    assert contents(services, tea, milk) == [("tea", "active", 3), ("milk", "trashed", 2)]
    assert services.store.seq == 4


def test_an_undo_can_be_undone_repeatedly(services: StoreServices) -> None:
    tea = services.add("tea")
    edit = services.edit(tea, content="milk")
    undo = services.undo(edit).made
    error = refused(services, edit)
    assert error.message.startswith(f"that was taken back already: {tea} by change {undo} (undo:{edit})")
    redo = services.undo(undo).made
    assert contents(services, tea) == [("milk", "active", 4)]
    assert services.undo(redo).made == redo + 1
    assert contents(services, tea) == [("tea", "active", 5)]
    assert services.undo().what == "add"  # the edit is taken back, and the undos are none of them the last change


def test_the_last_change_is_one_that_somebody_asked_for(services: StoreServices) -> None:
    tea = services.add("tea")
    note = sample_memory(1, "from a note", managed=FILE, note=NotePlace(title="Note"))
    write_as(services, "notes", PutMemory(data=note), what="notes")
    write_as(services, "cli:doctor", PutMemory(data=sample_memory(2)), what="add")
    write_as(services, BY_TRASH.name, DropMemory(id=sample_id(2)), what=EMPTY_TRASH)
    write_as(services, PURGE, DropMemory(id=sample_id(1)), what=PURGE)
    assert services.undo(dry_run=True).ids == [tea]
    services.undo()
    assert refused(services).status == 404


def test_an_undo_after_an_erasure_names_the_last_change_that_can_be_undone(services: StoreServices) -> None:
    tea = services.add("tea")
    assert refused_after_erasure(services, services.add("rum")).endswith(
        "; the last change that can be undone is 1 (add)"
    )
    services.undo(1)
    assert services.memory(tea).state == "trashed"
    assert refused(services).message.endswith("nothing brings it back")


def refused_after_erasure(services: StoreServices, memory_id: str) -> str:
    """Return the refusal of an undo after the memory was erased."""
    write_as(services, PURGE, DropMemory(id=memory_id), what=PURGE)
    refusal = refused(services)
    assert (refusal.status, refusal.code) == (422, "refused")
    return refusal.message


@pytest.mark.parametrize("what", [EMPTY_TRASH, PURGE])
def test_remaining_memories_no_longer_name_an_erased_one(services: StoreServices, what: str) -> None:
    source = services.add("tea")
    derived = services.add("Tea is made of leaves.", evidence=(source,))
    mended = msgspec.structs.replace(services.memory(derived), evidence=(), version=2)
    seq = write_as(services, "cli", PutMemory(data=mended), what=what, group="g")
    write_as(services, "cli", DropMemory(id=source), what=what, group="g")
    for named in ({}, {"seq": seq}, {"group": "g"}):
        refusal = refused(services, **named)
        assert (refusal.status, refusal.code) == (422, "refused")
        assert "gone for good" in refusal.message
    assert services.memory(derived).evidence == ()


def test_an_undo_without_a_change_is_reported(services: StoreServices) -> None:
    tea = services.add("tea")
    write(services.store, PutMeta(name="x", value="y"))
    assert (refused(services, 2).status, refused(services, 2).message) == (404, "change 2 changed no memory")
    assert refused(services, 99).status == 404
    write(services.store, DropMemory(id=tea))
    assert (refused(services, 1).status, refused(services, 1).code) == (422, "refused")
    assert "gone for good" in refused(services, 1).message


def test_a_change_older_than_the_kept_history_cannot_be_reverted(services: StoreServices) -> None:
    tea = services.add("tea")
    services.edit(tea, content="milk")
    services.edit(tea, content="rum")
    write(services.store, PutMeta(name="history_from", value="3 1000"))
    assert refused(services, 2).code == "history_compacted"
    assert refused(services, 1).code == "history_compacted"
    assert services.undo(3).ids == [tea]


def test_an_agent_takes_back_nothing_that_it_does_not_see(services: StoreServices) -> None:
    tea = services.add("tea", tags=("sensitive",))
    assert refused(services, 1, caller=AGENT).status == 404
    services.edit(tea, tags=())
    assert refused(services, 2, caller=AGENT).status == 404  # it would be sensitive again
    assert contents(services, tea) == [("tea", "active", 2)]


def test_an_agent_pins_nothing_by_taking_back_what_a_person_did(services: StoreServices) -> None:
    agent = AGENT._replace(trust="agent")
    tea = services.add("tea", pinned=True)
    for fields in ({"tags": ("hot",)}, {"pinned": False}):
        seq = services.edit(tea, **fields)
        refusal = refused(services, seq, caller=agent)
        assert (refusal.status, refusal.code, refusal.id) == (422, "pinned", tea)
    assert not services.memory(tea).pinned
    services.undo(seq)
    assert services.memory(tea).pinned


def test_imported_trash_stays_in_the_trash_and_is_reverted_once(services: StoreServices) -> None:
    """Nothing was written, so that the last change to undo was this one for ever."""
    tea = services.add("tea")
    trashed = sample_memory(7, "coffee", state="trashed", version=2)
    entry = TrashEntry(id=trashed.id, at=1000, why="deleted", state="active")
    seq = write_as(services, "cli", PutMemory(data=trashed), PutTrash(data=entry))
    undone = services.undo()
    assert (undone.seqs, undone.ids) == ([seq], [trashed.id])
    assert (undone.made, services.memory(trashed.id).state) == (seq + 1, "trashed")
    assert services.undo().ids == [tea]


# Notes


def note_file(*chunks: tuple[Memory, int], **fields: Any) -> PutNote:
    refs = tuple(ChunkRef(memory.id, "h", line, line) for memory, line in chunks)
    return PutNote(data=NoteFile(id=FILE, root=ROOT, path="house.md", chunks=refs, **fields))


def chunk(number: int, content: str, **fields: Any) -> Memory:
    return sample_memory(number, content, managed=FILE, note=NotePlace(title="House"), trust="note", **fields)


@pytest.fixture
def noted(services: StoreServices) -> StoreServices:
    """A note with one chunk: read by change 1, and by change 2 after an edit."""
    one = chunk(1, "The key is with Ines.")
    root = PutRoot(data=NoteRoot(id=ROOT, path="/n", added_at=0))
    write_as(services, "notes", root, PutMemory(data=one), note_file((one, 9)), what="notes")
    two = chunk(1, "The key is with Otto.", version=2)
    write_as(services, "notes", PutMemory(data=two), note_file((two, 9)), what="notes")
    return services


def test_a_statement_of_a_note_is_not_undone_but_edited_in_its_file(noted: StoreServices) -> None:
    error = refused(noted, 2)
    assert (error.status, error.code) == (422, "managed")
    assert error.message == "the text is that of a note: edit /n/house.md:9"
    assert refused(noted, 2, dry_run=True).code == "managed"
    assert contents(noted, sample_id(1)) == [("The key is with Otto.", "active", 2)]


def test_a_memory_removed_with_its_note_comes_back_as_a_memory_of_its_own(noted: StoreServices) -> None:
    gone = chunk(1, "The key is with Otto.", version=3, state="trashed", event_at=5000)
    entry = TrashEntry(id=gone.id, at=1000, why="its note was deleted", state="active")
    seq = write_as(noted, "notes", PutMemory(data=gone), PutTrash(data=entry), note_file((gone, 9), missing=True))
    noted.undo(seq)
    back = noted.memory(gone.id)
    assert (back.content, back.state, back.managed) == ("The key is with Otto.", "active", "")
    assert gone.event_at != back.event_at == gone.created_at  # that was only the time of the file


def test_a_statement_removed_from_a_note_is_undone_like_any_other_change(noted: StoreServices) -> None:
    """It came back as a memory of its own, and has no file to be edited in."""
    gone = chunk(1, "The key is with Otto.", version=3, state="trashed")
    entry = TrashEntry(id=gone.id, at=1000, why="its note was deleted", state="active")
    seq = write_as(noted, "notes", PutMemory(data=gone), PutTrash(data=entry), note_file((gone, 9), missing=True))
    noted.undo(seq)
    noted.undo(2)
    back = noted.memory(gone.id)
    assert (back.content, back.state, back.managed) == ("The key is with Ines.", "active", "")


def test_a_persons_change_to_a_chunk_of_a_note_is_undone(noted: StoreServices) -> None:
    noted.undo(noted.edit(sample_id(1), tags=("mine",)))
    assert noted.memory(sample_id(1)).tags == ()
    assert noted.memory(sample_id(1)).managed == FILE


def test_rescans_leave_a_chunk_out_exactly_while_it_is_in_the_trash(noted: StoreServices) -> None:
    def skips() -> list[str]:
        with noted.store.snapshot() as snapshot:
            return list(snapshot.skips(FILE))

    with noted.store.snapshot() as snapshot:
        hashed = skip_hash(snapshot.meta("salt"), "The key is with Otto.")
    removed = noted.trash(sample_id(1))
    assert skips() == [hashed]
    undone = noted.undo(removed).made
    assert (noted.memory(sample_id(1)).state, skips()) == ("active", [])
    noted.undo(undone)
    assert (noted.memory(sample_id(1)).state, skips()) == ("trashed", [hashed])


# Edges


def edges(services: StoreServices, number: int) -> set[tuple[str, str, str]]:
    with services.store.snapshot() as snapshot:
        return {(edge.source, edge.target, edge.relation) for edge in snapshot.edges(sample_id(number))}


def edge(source: int, target: int, at: int, **fields: Any) -> PutEdge:
    return PutEdge(
        data=Edge(source=sample_id(source), target=sample_id(target), relation="related", at=at, **fields)
    )  # fmt: skip


def test_edges_that_a_change_made_between_memories_that_stay_go_with_it(services: StoreServices) -> None:
    services.at = 1000
    write(services.store, *(sample_memory(number) for number in (1, 2, 3)))
    write(services.store, edge(1, 2, 1500))
    services.at = 2000
    edited = [PutMemory(data=sample_memory(number, "changed", version=2)) for number in (1, 3)]
    seq = write_as(services, "merge", *edited, edge(1, 3, 2000), edge(3, 2, 2000, via="link"), what="merge")
    services.undo(seq)
    assert edges(services, 1) == {(sample_id(1), sample_id(2), "related")}  # made earlier
    assert edges(services, 3) == {(sample_id(3), sample_id(2), "related")}  # a link is its note's


def test_edges_of_a_memory_that_changed_twice_in_a_millisecond_are_left(services: StoreServices) -> None:
    write(services.store, sample_memory(1), sample_memory(2), edge(1, 2, 1000))
    seq = write_as(services, "cli", PutMemory(data=sample_memory(1, "changed", version=2)), what="edit")
    services.undo(seq)
    assert edges(services, 1) == {(sample_id(1), sample_id(2), "related")}


def test_a_trashed_memory_keeps_its_edges_and_a_restore_brings_them_back(services: StoreServices) -> None:
    write(services.store, sample_memory(1))
    seq = write_as(services, "cli", PutMemory(data=sample_memory(2)), edge(2, 1, 1000), what="add")
    undo = services.undo(seq).made
    assert edges(services, 2) == {(sample_id(2), sample_id(1), "related")}
    services.undo(undo)
    assert edges(services, 1) == {(sample_id(2), sample_id(1), "related")}


# More than one write turn holds


def many(services: StoreServices, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Five memories in a group of two changes, where an undo takes back two memories a turn."""
    monkeypatch.setattr(revert, "REVERTED_PER_WRITE", 2)
    memories = [sample_memory(number) for number in range(1, 6)]
    for some in (memories[:3], memories[3:]):
        write_as(services, "import", *(PutMemory(data=memory) for memory in some), what="import", group="g")
    return [memory.id for memory in memories]


def states(services: StoreServices, ids: list[str]) -> list[str]:
    return [services.memory(memory_id).state for memory_id in ids]


def test_a_large_group_is_reverted_in_slices_that_can_be_reverted_together(
    services: StoreServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = many(services, monkeypatch)
    undone = services.undo(group="g")
    assert (undone.seqs, undone.ids, undone.made) == ([1, 2], ids, 5)
    assert states(services, ids) == ["trashed"] * 5
    with services.store.snapshot() as snapshot:
        made = [(seq, entry.what, entry.group == undone.group != "") for seq, entry in snapshot.entries(2)]
    assert made == [(3, "undo:1", True), (4, "undo:1,2", True), (5, "undo:2", True)]
    assert services.undo(group=undone.group).ids == ids
    assert states(services, ids) == ["active"] * 5


def test_a_large_undo_that_was_stopped_half_way_is_finished_by_asking_again(
    services: StoreServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = many(services, monkeypatch)

    others: list[Future[Any]] = []

    def come_between(applied: Commit) -> None:
        if applied.seq == 3:  # the first slice: before the second one is asked for, somebody else writes
            others.append(services.memories.restore(ids[0], PERSON))
            others.append(services.memories.edit(ids[2], {"tags": ("mine",)}, None, PERSON))

    services.store.on_commit(come_between)
    error = refused(services, group="g")
    assert [other.result(WAIT_SECONDS).seq for other in others] == [4, 5]
    assert error.message.startswith(f"changed again since: {ids[2]} by change 5 (edit); 2 of 5 were put back")
    assert states(services, ids) == ["active", "trashed", "active", "active", "active"]
    assert refused(services, group="g").message == (
        f"changed again since: {ids[2]} by change 5 (edit); nothing was undone"
    )  # fmt: skip
    services.undo(5)
    assert services.undo(group="g").ids == ids[2:]
    assert states(services, ids) == ["active", "trashed", "trashed", "trashed", "trashed"]


def test_every_author_stands_in_the_table_and_undo_passes_over_all_but_the_intake_and_callers() -> None:
    authors = {value for name, value in vars(history_names).items() if name.startswith("BY_")}
    assert set(AUTHORS.values()) == authors
    assert {author.name for author in authors if author.is_asked_for} == {"intake"}
    assert author_of("agent-1").is_asked_for


# Records without versions


@pytest.mark.parametrize("table", [table for table in UNDONE if table is not META], ids=lambda table: table.name)
def test_the_change_of_a_record_is_undone_and_that_undo_too(services: StoreServices, table: Table[Any]) -> None:
    write(services.store, *(sample_memory(number) for number in (1, 2)))
    record, other = sample_record(table, 1), sample_record(table, 2)
    key = table.key.values_of(record)

    def stored() -> Any:
        with services.store.snapshot() as snapshot:
            return snapshot.get(table, *key)

    made = write_as(services, "cli", put_of(table, record), what=table.name)
    undone = services.undo(made).made
    assert stored() is None
    services.undo(undone)
    assert stored() == record
    dropped = write_as(services, "cli", drop_of(table, record), put_of(table, other), what=table.name)
    assert services.undo().seqs == [dropped]  # the last change
    assert stored() == record
