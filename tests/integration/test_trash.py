"""The trash: what restoring brings back, what emptying takes, what stays for how long. SPEC 2.1, 3.7"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_core.ingest import erasure
from mnemo_core.retrieval.ranking.late_interaction import Codes
from mnemo_core.text.dates.local_days import DAY_MS
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.maintenance import trash
from mnemo_daemon.maintenance.erasure import Erasure
from mnemo_daemon.maintenance.trash import ChangeOrigin, Expiry, HardDelete, Trash, drop
from mnemo_daemon.memories.memory_service import MemoryService
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedder import Embedder, Floats
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.scheduler import Interval, Job, Scheduler
from mnemo_store.disk import Disk
from mnemo_store.errors import ClosedStoreError, DiskFull
from mnemo_store.record_texts import content_hash, skip_hash
from mnemo_store.records import ChunkRef, Edge, Memory, NoteFile, NotePlace, Skip, TrashEntry
from mnemo_store.store import Commit, Store, WriteReceipt
from tests.support.erasure_services import wait_until
from tests.support.faulty_disk import FULL, FaultyDisk
from tests.support.notes_folders import NotesFolder, watched_notes_folder
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import WAIT_SECONDS, remember, sample_id, sample_memory, write
from tests.support.store_services import PERSON, StoreServices

FILE, ROOT = sample_id(900), sample_id(901)


class Bin(StoreServices):
    """A store with its services and a trash."""

    def __init__(self, folder: Path, embedding: EmbeddingService | None = None) -> None:
        super().__init__(folder, embedding)
        self.bin = Trash(self.store, self.views)
        self.expiry = Expiry(self.store, self.views)

    def ids(self) -> set[str]:
        with self.store.snapshot() as snapshot:
            return {memory.id for memory in snapshot.memories()}


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Bin]:
    services = Bin(tmp_path / "data")
    yield services
    services.close()


class CountingEmbeddings(EmbeddingService):
    """Embeds as always, and keeps what it was asked for."""

    def __init__(self, models: Path) -> None:
        super().__init__(ModelCatalogue(models), "tiny-letters", threads=1)
        self.texts: list[str] = []

    def encode_both(self, embedder: Embedder, texts: Sequence[str]) -> tuple[list[Floats], list[Codes | None]]:
        self.texts += texts
        return super().encode_both(embedder, texts)


# Restoring


def test_restoring_brings_back_the_vector_without_computing_it(tmp_path: Path, tiny_source: Path) -> None:
    installation.import_path(tiny_source, tmp_path / "models", allow_unverified=True)
    embedding = CountingEmbeddings(tmp_path / "models")
    embedding.refresh()
    services = Bin(tmp_path / "data", embedding)
    memory_id = services.add("a b c")
    indexing = services.indexing
    indexing.start()
    with services.store.snapshot() as snapshot:
        number = snapshot.number(memory_id)
    assert number is not None
    _until(lambda: indexing.has_vector(number))
    services.trash(memory_id)
    _until(lambda: not indexing.has_vector(number))
    services.restore(memory_id)
    _until(lambda: indexing.has_vector(number))
    assert embedding.texts == ["a b c"]
    services.close()
    embedding.close()


def test_restoring_brings_back_words_key_text_and_edges(services: Bin) -> None:
    kept, memory_id = services.add("Something that stays."), services.add("The boat is in the shed.", key="boat")
    edge = Edge(source=memory_id, target=kept, relation="related", at=1)
    write(services.store, edge)
    services.trash(memory_id)
    assert services.recalled("boat shed") == []
    services.restore(memory_id)
    assert services.recalled("boat shed") == ["The boat is in the shed."]
    with services.store.snapshot() as snapshot:
        assert snapshot.id_by_key("default", "local", "boat") == memory_id
        digest = content_hash("the boat IS in the shed.")
        assert snapshot.ids_by_hash("default", "local", "", "", digest) == [memory_id]
        assert snapshot.edges(kept) == [edge]
        assert snapshot.trash(memory_id) is None


def test_a_chunk_that_is_restored_is_its_files_again_as_far_as_that_stands(tmp_path: Path) -> None:
    with watched_notes_folder(tmp_path) as notes_folder:
        notes_folder.write("a.md", "# One\n\nFirst thing.\n\n# Two\n\nSecond thing.\n")
        notes_folder.watch()
        first, second = notes_folder.ids("a.md")
        memories = _memories_of(notes_folder)
        memories.delete([first, second], "deleted", PERSON).result(WAIT_SECONDS)
        memories.restore(first, PERSON).result(WAIT_SECONDS)
        assert notes_folder.memory(first).managed
        notes_folder.write("a.md", "# One\n\nFirst thing.\n")
        notes_folder.wait(lambda: len(notes_folder.ids("a.md")) == 1)
        memories.restore(second, PERSON).result(WAIT_SECONDS)
        assert notes_folder.memory(second).managed == ""
        assert notes_folder.memory(second).state == "active"


def _memories_of(notes_folder: NotesFolder) -> MemoryService:
    views = Views(notes_folder.store, Disk())
    views.open()
    return MemoryService(notes_folder.store, views)


# Emptying


def test_without_confirm_the_trash_is_only_counted(services: Bin) -> None:
    memory_id = services.add("Grüße")
    services.trash(memory_id)
    counted = services.bin.empty((), "cli", confirm=False)
    assert (counted.dropped, counted.bytes, counted.dry_run) == (1, 7, True)
    assert services.ids() == {memory_id}


def test_emptying_drops_what_is_in_the_trash_of_the_namespace_and_nothing_else(services: Bin) -> None:
    kept, here, there = (
        services.add("Kept."),
        services.add("Here.", namespace="here"),
        services.add("There.", namespace="there"),
    )
    services.trash(here, there)
    assert services.bin.empty(("here",), "cli", confirm=True).dropped == 1
    assert services.ids() == {kept, there}
    with services.store.snapshot() as snapshot:
        assert [entry.id for entry in snapshot.trash_entries()] == [there]
        assert snapshot.versions(here) == []
    assert services.bin.empty((), "cli", confirm=True).dropped == 1
    assert services.ids() == {kept}


def test_many_leave_the_trash_in_slices_of_one_group(services: Bin) -> None:
    ids = [services.add(f"Number {number}.") for number in range(250)]
    services.trash(*ids)
    assert services.bin.empty((), "cli", confirm=True).dropped == 250
    assert services.ids() == set()
    with services.store.snapshot() as snapshot:
        slices = [entry for _, entry in snapshot.entries(0) if entry.what == "empty trash"]
    assert [len(entry.ids) for entry in slices] == [100, 100, 50]
    assert len({entry.group for entry in slices}) == 1


def test_remaining_memories_no_longer_name_those_removed_from_the_trash(services: Bin) -> None:
    source, newer = services.add("The source."), services.add("The newer one.")
    older = services.add("The older one.")
    derived = services.add("Derived.", derived_from=(source,), evidence=(source, "https://example.org"))
    write(services.store, msgspec.structs.replace(
        services.memory(older), state="superseded", superseded_by=newer, version=2
    ))  # fmt: skip
    services.trash(source, newer)
    services.bin.empty((), "cli", confirm=True)
    assert services.memory(derived).derived_from == ()
    assert services.memory(derived).evidence == ("https://example.org",)
    assert (services.memory(older).state, services.memory(older).superseded_by) == ("superseded", "")


def chunk(number: int, **fields: Any) -> Memory:
    return sample_memory(number, managed=FILE, note=NotePlace(title="Title"), **fields)


def put_note(store: Store, *, missing: bool) -> None:
    """A file of two chunks, of which the first is in the trash."""
    refs = (ChunkRef(sample_id(1), "h1", 1, 1), ChunkRef(sample_id(2), "h2", 2, 2))
    entries = [TrashEntry(id=sample_id(number), at=1, why="deleted", state="active") for number in (1, 2)]
    write(
        store,
        chunk(1, content="See [[Lisbon]].", state="trashed"),
        chunk(2, content="See [[Porto]].", state="trashed" if missing else "active"),
        *entries[: 2 if missing else 1],
        NoteFile(id=FILE, root=ROOT, path="a.md", title="Title", chunks=refs, missing=missing,
                              links=("Lisbon", "Porto")),
        Skip(file=FILE, hash=skip_hash("00", "x")),
    )  # fmt: skip


def test_a_manifest_loses_the_chunk_that_left_the_trash_and_keeps_its_skips(services: Bin) -> None:
    put_note(services.store, missing=False)
    services.bin.empty((), "cli", confirm=True)
    with services.store.snapshot() as snapshot:
        note = snapshot.note(FILE)
        assert note is not None
        assert [ref.memory for ref in note.chunks] == [sample_id(2)]
        assert (note.title, note.links) == ("Title", ("Porto",))
        assert len(snapshot.skips(FILE)) == 1


def test_nothing_stays_of_a_deleted_file_once_its_last_chunk_left_the_trash(services: Bin) -> None:
    put_note(services.store, missing=True)
    services.bin.empty((), "cli", confirm=True)
    with services.store.snapshot() as snapshot:
        assert snapshot.note(FILE) is None
        assert snapshot.skips(FILE) == frozenset()


def test_a_text_that_left_the_trash_may_be_said_again_by_anybody(services: Bin) -> None:
    services.trash(services.add("Say it again."))
    services.bin.empty((), "cli", confirm=True)
    assert services.memory(services.add("Say it again.", trust="agent")).state == "active"


def test_a_memory_restored_while_the_trash_is_emptied_stays(services: Bin) -> None:
    ids = sorted(services.add(f"Number {number}.") for number in range(101))
    services.trash(*ids)
    restored: list[Future[WriteReceipt[str]]] = []

    def restore_once(_: Commit) -> None:
        """Restore a memory after the first slice, before the second: what people ask for goes first."""
        if not restored:
            restored.append(services.memories.restore(ids[-1], PERSON))

    services.store.on_commit(restore_once)
    services.bin.empty((), "cli", confirm=True)
    assert restored[0].result(WAIT_SECONDS).result == ids[-1]
    assert [each.id for each in services.listed()] == ids[-1:]


def test_links_of_a_chunk_that_is_restored_while_the_trash_is_emptied_stay(services: Bin) -> None:
    put_note(services.store, missing=False)
    gone = services.add("Goes.")
    services.trash(gone)
    note = _note(services)
    write(services.store, msgspec.structs.replace(note, chunks=(*note.chunks, ChunkRef(gone, "h3", 3, 3))))
    plan = erasure.plan_without_derived((sample_id(1), gone), ())
    services.restore(sample_id(1))
    reported = ChangeOrigin("empty trash", "cli", "")
    list(HardDelete(services.store).execute(plan, reported, drop, lambda memory: memory.state == "trashed"))
    assert gone not in services.ids()
    assert [ref.memory for ref in _note(services).chunks] == [sample_id(1), sample_id(2)]
    assert _note(services).links == ("Lisbon", "Porto")


def _note(services: Bin) -> NoteFile:
    with services.store.snapshot() as snapshot:
        note = snapshot.note(FILE)
    assert note is not None
    return note


def test_emptying_ends_behind_a_slice_when_the_daemon_stops(services: Bin) -> None:
    ids = [services.add(f"Number {number}.") for number in range(101)]
    services.trash(*ids)
    with pytest.raises(ClosedStoreError):
        services.bin.empty((), "cli", confirm=True, is_stopping=lambda: True)
    assert len(services.ids()) == 1
    assert services.bin.empty((), "cli", confirm=True).dropped == 1


def test_the_trash_is_emptied_by_a_person_at_the_socket_and_status_shows_it(
    daemon: RunningDaemon, client: Client
) -> None:
    memory_id = client.remember("To the bin.", namespace="bin").memory.id
    client.delete(memory_id)
    assert client.status().trash["count"] >= 1
    with daemon.client("bin", entry_point="cli") as person:
        assert person.empty_trash().dropped == 1
        assert [each.id for each in person.trash().memories] == [memory_id]
        emptied = person.empty_trash(confirm=True)
        assert (emptied.dropped, emptied.dry_run) == (1, False)
        assert person.trash().memories == []
        with pytest.raises(RefusalError) as refused:
            person.restore(memory_id)
        assert refused.value.status == 404


# How long


def test_memories_deleted_longer_ago_than_keep_days_are_erased_and_the_rest_stays(services: Bin) -> None:
    old, young, kept = services.add("Old."), services.add("Young."), services.add("Kept.")
    services.trash(old)
    services.at += DAY_MS
    services.trash(young)
    services.at += 6 * DAY_MS + 1
    for keep_days in (0, 8):
        assert not services.bin.run_retention_slice(keep_days)
        assert services.ids() == {old, young, kept}
    assert not services.bin.run_retention_slice(7)
    assert services.ids() == {young, kept}
    services.at += DAY_MS
    assert not services.bin.run_retention_slice(7)
    assert services.ids() == {kept}


def test_discarded_memories_stay_for_thirty_days_whatever_the_retention_of_the_trash(services: Bin) -> None:
    memory_id = services.add("Turned away.")
    discarded = msgspec.structs.replace(
        services.memory(memory_id), state="discarded", version=2, modified_at=services.at
    )
    write(services.store, discarded)
    services.at += 30 * DAY_MS
    services.bin.run_retention_slice(0)
    assert services.ids() == {memory_id}
    services.at += 1
    services.bin.run_retention_slice(0)
    assert services.ids() == set()


def test_old_things_leave_some_at_a_time(services: Bin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trash, "DELETED_PER_SLICE", 2)
    for number in range(5):
        services.trash(services.add(f"Old {number}."))
    services.at += 2 * DAY_MS
    sizes = []
    while services.bin.run_retention_slice(1):
        sizes.append(len(services.ids()))
    assert sizes == [3, 1]
    assert services.ids() == set()


# What has expired


def test_expired_memories_go_to_the_trash_and_the_rest_stays(services: Bin) -> None:
    expiring, later, plain = (
        services.add("Soon.", expires_at=5000),
        services.add("Later.", expires_at=9000),
        services.add("Always."),
    )
    services.at = 4999
    assert not services.expiry.run_slice()
    assert services.memory(expiring).state == "active"
    services.at = 5000
    assert not services.expiry.run_slice()
    assert [services.memory(each).state for each in (expiring, later, plain)] == ["trashed", "active", "active"]
    with services.store.snapshot() as snapshot:
        entry = snapshot.trash(expiring)
        ((_, change),) = snapshot.entries(snapshot.seq - 1, 1)
    assert entry is not None
    assert (entry.at, entry.why, entry.state) == (5000, "expired", "active")
    assert (change.what, change.by) == ("expire", "expiry")


@pytest.mark.parametrize("state", ["archived", "superseded", "compressed"])
def test_a_memory_expires_in_whatever_state_it_is_kept(services: Bin, state: Any) -> None:
    memory_id = services.add("Soon.", expires_at=5000)
    write(services.store, msgspec.structs.replace(services.memory(memory_id), state=state, version=2))
    services.at = 5000
    services.expiry.run_slice()
    with services.store.snapshot() as snapshot:
        entry = snapshot.trash(memory_id)
    assert services.memory(memory_id).state == "trashed"
    assert entry is not None
    assert entry.state == state


@pytest.mark.parametrize("state", ["trashed", "discarded"])
def test_an_expired_memory_that_is_being_removed_does_not_expire_again(services: Bin, state: Any) -> None:
    memory_id = services.add("Soon.", expires_at=5000)
    if state == "trashed":
        services.trash(memory_id)
    else:
        write(services.store, msgspec.structs.replace(services.memory(memory_id), state=state, version=2))
    services.at = 6000
    seq = services.store.seq
    assert not services.expiry.run_slice()
    assert services.store.seq == seq


def test_many_expire_some_at_a_time_and_a_store_that_was_shut_in_between_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trash, "EXPIRED_PER_WRITE", 2)
    services = Bin(tmp_path / "data")
    ids = [services.add(f"Soon {number}.", expires_at=5000) for number in range(5)]
    services.at = 5000
    assert services.expiry.run_slice()
    services.close()
    services = Bin(tmp_path / "data")
    services.at = 5000
    assert sorted(services.memory(each).state for each in ids) == ["active"] * 3 + ["trashed"] * 2
    scheduler = Scheduler([Job("expiry", "Expires.", Interval(60.0), services.expiry.run_slice, "2 memories")])
    rounds = 1
    while scheduler.run_round():
        rounds += 1
    assert rounds == 2
    assert {services.memory(each).state for each in ids} == {"trashed"}
    services.close()


def test_an_expired_memory_that_is_restored_stays(services: Bin) -> None:
    memory_id = services.add("Soon.", expires_at=5000)
    services.at = 5000
    services.expiry.run_slice()
    services.at = 6000
    services.restore(memory_id)
    assert not services.expiry.run_slice()
    restored = services.memory(memory_id)
    assert (restored.state, restored.expires_at) == ("active", 0)
    assert services.recalled("soon") == ["Soon."]


def test_undo_takes_back_the_last_thing_that_somebody_did_and_not_that_a_memory_expired(services: Bin) -> None:
    memory_id = services.add("Plain.")
    services.add("Soon.", expires_at=5000)
    services.edit(memory_id, content="Changed.")
    services.at = 5000
    services.expiry.run_slice()
    services.undo()
    assert services.memory(memory_id).content == "Plain."


def test_a_memory_restored_before_it_expires_keeps_its_expiry(services: Bin) -> None:
    memory_id = services.add("Soon.", expires_at=5000)
    services.trash(memory_id)
    services.at = 4000
    services.restore(memory_id)
    assert services.memory(memory_id).expires_at == 5000


def test_taking_back_that_a_memory_expired_lets_it_stay(services: Bin) -> None:
    memory_id = services.add("Soon.", expires_at=5000)
    services.at = 5000
    services.expiry.run_slice()
    services.at = 6000
    services.undo(services.store.seq)
    assert not services.expiry.run_slice()
    assert (services.memory(memory_id).state, services.memory(memory_id).expires_at) == ("active", 0)


def test_the_daemon_looks_for_what_has_expired_by_itself(started_daemon: RunningDaemon) -> None:
    with started_daemon.client(entry_point="cli") as person:
        memory = person.remember("The ferry runs until tonight.", expires_at=int(time.time() * 1000) + 1500).memory
    started_daemon.stop()
    wait_until(lambda: time.time() * 1000 > (memory.expires_at or 0))
    started_daemon.start()
    with started_daemon.client(entry_point="cli") as person:
        wait_until(lambda: [entry.why for entry in person.trash().entries] == ["expired"])
        wait_until(lambda: any(job.name == "expiry" and job.runs for job in person.jobs().jobs))
        (job,) = (job for job in person.jobs().jobs if job.name == "expiry")
        assert (job.state, job.reason, job.slices, job.failures) == ("idle", None, 1, 0)
        assert job.finished_at is not None
        person.restore(memory.id)
        assert person.get(memory.id).expires_at is None


# On a full disk


def test_on_a_full_disk_deleting_emptying_and_forgetting_go_on(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = Store.open(tmp_path / "data", disk=disk)
    remember(store, 1, "To the bin.")
    remember(store, 2, "To be forgotten.")
    remember(store, 3, "It stays.")
    store.close()
    disk.allocating = FULL
    (tmp_path / "data" / "reserve").unlink()
    store = Store.open(tmp_path / "data", disk=disk)
    views = Views(store, disk)
    views.open()
    memories, trash = MemoryService(store, views), Trash(store, views)
    forgetting = Erasure(store, disk, list, views.rebuild_without_deleted)
    with pytest.raises(DiskFull):
        remember(store, 4)
    memories.delete([sample_id(1)], "deleted", PERSON).result(WAIT_SECONDS)
    assert trash.empty((), "cli", confirm=True).dropped == 1
    assert forgetting.erase([sample_id(2)], "cli").complete
    with store.snapshot() as snapshot:
        assert [memory.id for memory in snapshot.memories()] == [sample_id(3)]
    store.close()


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
