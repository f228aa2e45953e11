"""Forgetting step by step: what goes along, what is left and told, what is cut short, what notes do. SPEC 3.7"""

import contextlib
import errno
import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_client.protocol.memories import EraseAnswer
from mnemo_core.ingest.mutations import Decision, Draft
from mnemo_daemon.errors import Refusal
from mnemo_daemon.maintenance import residue_scan, trash
from mnemo_daemon.maintenance.erasure import MARK_KEY, Erasure, erase_in_store
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_store.disk import Disk
from mnemo_store.errors import ClosedStoreError, StoreError
from mnemo_store.journal.line_codec import seal_json
from mnemo_store.maintenance import backup, restore
from mnemo_store.record_texts import skip_hash, text_hash
from mnemo_store.records import DropErasedText, ErasedText, PutErasedText
from mnemo_store.store import Commit, Store, WriteReceipt
from tests.support.erasure_services import CANARY, ErasureServices, traces, wait_until
from tests.support.faulty_disk import BROKEN, FULL, FaultyDisk
from tests.support.notes_folders import NotesFolder, watched_notes_folder
from tests.support.samples import WAIT_SECONDS, opened, quick_folder, remember, sample_id
from tests.support.store_services import PERSON


@pytest.fixture
def services(tmp_path: Path) -> Iterator[ErasureServices]:
    services = ErasureServices(tmp_path / "data")
    yield services
    services.close()


# By the service, step by step


def test_a_dry_run_tells_what_would_go_and_changes_nothing(services: ErasureServices) -> None:
    first, other = services.add("The first source of it."), services.add("The other source of it.")
    merged = services.add("Both sources in one.", derived_from=(first, other), supersedes=(other,))
    seq = services.store.seq
    planned = services.forgetting.plan([first])
    assert (planned.purged, planned.derived, planned.rederive) == ([first], [merged], {merged: [first, other][1:]})
    assert planned.revived == [other]
    assert planned.dry_run
    assert services.store.seq == seq
    report = services.forget(first)
    assert (report.purged, report.derived, report.rederive, report.revived) == (
        planned.purged, planned.derived, planned.rederive, planned.revived,
    )  # fmt: skip
    assert services.memory(other).state == "active"
    assert [each.id for each in services.listed()] == [other]


def test_a_memory_that_stays_and_says_the_same_is_named(services: ErasureServices) -> None:
    asked = services.add(f"The {CANARY} key lies under the third stone.")
    same = services.add(f"the {CANARY} KEY lies under the third stone.", namespace="elsewhere")
    longer = services.add(f"As said: the {CANARY} key lies under the third stone. Do not tell.")
    former = services.add(f"Note: the {CANARY} key lies under the third stone!")
    services.edit(former, content="Note: nothing.")
    report = services.forget(asked)
    assert not report.complete
    still = {place.place: place.detail for place in report.places if place.state == "still there"}
    assert still == {
        f"memory {same}": "its version 1 says the same",
        f"memory {longer}": "its version 1 says the same",
        f"memory {former}": "its version 1 says the same",
    }
    again = services.forget(same, longer, former)
    assert again.complete
    assert traces(services.folder, CANARY) == []


def test_words_that_others_or_every_file_of_a_store_have_are_no_traces(services: ErasureServices) -> None:
    asked = services.add("Quarterly meeting about the plumbing of the Zanzibar office, its lengths and offsets.")
    services.add("Quarterly meeting about the plumbing of the Lisbon office.")
    report = services.forget(asked)
    assert report.complete
    assert traces(services.folder, "zanzibar") == []
    assert traces(services.folder, "plumbing") != []
    assert traces(services.folder, "offsets") != []


def test_a_short_text_is_forgotten_though_others_hold_its_words(services: ErasureServices) -> None:
    asked, same = services.add("Plumbing"), services.add("plumbing", user_id="ben")
    services.add("The plumbing of the house is old.")
    report = services.forget(asked)
    still = [place.place for place in report.places if place.state == "still there"]
    assert still == [f"memory {same}"]


def test_stray_files_with_an_erased_text_are_removed_and_others_stay(services: ErasureServices) -> None:
    asked = services.add(f"The {CANARY} key lies under the third stone.")
    services.add("Something that stays.")
    packed = seal_json(f'{{"what":"the {CANARY} key {random.Random(1).randbytes(400).hex()}"}}'.encode()).data
    holding = {
        "journal/short_term.jsonl.120.torn": f'{{"content":"the {CANARY} key lies'.encode(),
        "db.damaged-17/data.mdb": bytes(5000) + f"{CANARY}".encode() + bytes(100),
        "store.json.damaged": f"under the third stone. {CANARY}".encode(),
        "views/other.view.new": f"{CANARY}".encode(),
        "quarantine/5/short_term.jsonl.3": f"xx the {CANARY} key lies under yy".encode(),
        "journal/long_term.jsonl.9.torn": packed[:400],
        "quarantine/5.jsonl": b'{"table":"memories","value":"eyJjb250ZW50IjoiVGhlIHphbnppYmFyaW5lIGtleSJ9"}\n',
    }
    harmless = {
        "journal/short_term.jsonl.7.torn": b"nothing of it",
        "db.damaged-18/data.mdb": b"nothing of it",
        "quarantine/6.jsonl": b'{"table":"memories","value":"bm90aGluZyBvZiBpdA=="}\n',
        "backups/one/journal/short_term.jsonl": f"the {CANARY} key".encode(),
        "mine.txt": b"what a person left here",
    }
    strange = {"letter.txt": f"Dear Ann, the {CANARY} key".encode()}
    for name, data in {**holding, **harmless, **strange}.items():
        (services.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (services.folder / name).write_bytes(data)
    neighbour = [
        services.folder.with_name(f"{services.folder.name}.{name}") for name in ("before-restore-9", "restoring")
    ]
    for folder in neighbour:
        folder.mkdir()
        (folder / "some.file").write_text(f"the {CANARY} key")
    (services.folder / "backups" / "two").mkdir()
    (services.folder / "backups" / "two" / "some.file").write_text("nothing of it")
    report = services.forget(asked)
    assert {place.place for place in report.places if place.state == "removed"} == {
        *(name for name in holding if not name.startswith("db.")), "db.damaged-17",
    }  # fmt: skip
    assert not any((services.folder / name).exists() for name in holding)
    assert all((services.folder / name).exists() for name in (*harmless, *strange))
    assert report.backups == [str(services.folder / "backups" / "one"), *map(str, neighbour)]
    assert report.searched.found == ["letter.txt"]
    assert [place.place for place in report.places if place.state == "still there"] == ["letter.txt"]
    assert not report.complete


def test_a_trace_across_two_pieces_of_a_file_is_found(
    services: ErasureServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = services.add(f"The {CANARY} key lies under the third stone.")
    (services.folder / "mine.txt").write_bytes(b"." * 1020 + CANARY.encode() + b"." * 1000)
    monkeypatch.setattr(residue_scan, "PIECE_BYTES", 1024)
    assert services.forget(asked).searched.found == ["mine.txt"]


def test_a_person_can_say_it_again_and_an_agent_cannot(services: ErasureServices) -> None:
    text = f"The {CANARY} key lies under the third stone."
    services.forget(services.add(text))
    with pytest.raises(Refusal) as refusal:
        services.add(text.upper(), trust="agent")
    assert (refusal.value.status, refusal.value.code) == (422, "forgotten")
    other = services.add("Another text.")
    with pytest.raises(Refusal):
        services.memories.edit(other, {"content": text}, None, PERSON._replace(trust="agent")).result(WAIT_SECONDS)
    services.add(text)
    with services.store.snapshot() as snapshot:
        assert snapshot.forgotten_after() == []
    services.add(text, trust="agent", namespace="theirs")


def test_an_edit_by_a_person_lets_a_forgotten_text_be_said_again(services: ErasureServices) -> None:
    text = f"The {CANARY} key lies under the third stone."
    services.forget(services.add(text))
    other = services.add("Another text.")
    services.edit(other, content=text)
    with services.store.snapshot() as snapshot:
        assert snapshot.forgotten_after() == []


def test_undo_brings_nothing_forgotten_back(services: ErasureServices) -> None:
    asked, kept = services.add(f"The {CANARY} key."), services.add("It stays.")
    seq = services.edit(asked, tags=("x",))
    services.forget(asked)
    with pytest.raises(Refusal) as refusal:
        services.undo(seq)
    assert refusal.value.status in (404, 422)
    assert services.undo(services.edit(kept, content="Changed.")).ids == [kept]


def test_several_hundred_at_once_take_one_pause_and_leave_nothing(services: ErasureServices) -> None:
    ids = [services.add(f"Line {number} of the {CANARY} diary.", tags=(f"{CANARY}{number}",)) for number in range(300)]
    kept = services.add("It stays.")
    report = services.forget(*ids)
    assert report.complete
    assert traces(services.folder, CANARY) == []
    assert [each.id for each in services.listed()] == [kept]
    with services.store.snapshot() as snapshot:
        assert {entry.group for _, entry in snapshot.entries(0) if entry.what == "purge" and entry.ids} != {""}
        assert snapshot.meta(MARK_KEY) == ""
        assert len(snapshot.forgotten_after()) == 300


class WatchedDisk(Disk):
    """Has something done on the writer's thread when the database is being written anew; `full` is that there is no
    room for it then."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], object] = lambda: None
        self.tries = 0
        self.full = False

    def open_database(self, folder: Path, **options: Any) -> Any:
        if folder.name == "db.new":
            self.meanwhile()
        return super().open_database(folder, **options)

    def rename(self, source: Path, target: Path) -> None:
        if source.parent.name == "db.new":
            self.tries += 1
            if self.full:
                raise FULL
        super().rename(source, target)


def test_reads_are_answered_while_the_files_are_written_again_and_writes_after_it(tmp_path: Path) -> None:
    disk = WatchedDisk()
    services = ErasureServices(tmp_path / "data", disk=disk)
    asked, kept = services.add(f"The {CANARY} key."), services.add("The lighthouse keeper sleeps.")
    seen: list[list[str]] = []
    writes = []

    def meanwhile() -> None:
        draft = Draft(content="Said meanwhile.", namespace="default", user_id="local", trust="user", source="cli")
        writes.append(services.memories.remember(draft, PERSON))
        reader = threading.Thread(target=lambda: seen.append(services.recalled(f"lighthouse {CANARY}")))
        reader.start()
        reader.join(WAIT_SECONDS)
        assert not reader.is_alive()
        assert not writes[0].done()

    disk.meanwhile = meanwhile
    assert services.forget(asked).complete
    assert seen == [["The lighthouse keeper sleeps."]]
    assert writes[0].result(WAIT_SECONDS).result.outcome == "stored"
    assert [each.content for each in services.listed()] == ["Said meanwhile.", services.memory(kept).content]
    services.close()


def test_the_marks_and_lines_of_a_purge_hold_no_text(tmp_path: Path) -> None:
    disk = WatchedDisk()
    services = ErasureServices(tmp_path / "data", disk=disk)
    asked = services.add(f"The {CANARY} key.", tags=(f"{CANARY}-tag",))
    services.add("Derived.", derived_from=(asked,), evidence=(asked,))
    disk.full = True
    with pytest.raises(Refusal):
        services.forget(asked)
    lines = b"".join(path.read_bytes() for path in sorted((services.folder / "journal").glob("*.jsonl")))
    assert lines.count(b'"forgetting"') == 1
    assert lines.count(f"{CANARY} key".encode()) == 1  # the line that remembered it, and no other
    services.close()


# What is said meanwhile, and notes


def test_a_memory_derived_at_the_last_moment_is_erased_too(services: ErasureServices) -> None:
    asked = services.add(f"The {CANARY} key.")
    late: list[Future[WriteReceipt[Decision]]] = []

    def derive_once(_: Commit) -> None:
        """Derive a memory once the mark is there, before anything is dropped: what people write goes first."""
        if not late:
            draft = Draft(content=f"Derived of the {CANARY}.", namespace="default", user_id="local", trust="user",
                          source="cli", derived_from=(asked,))  # fmt: skip
            late.append(services.memories.remember(draft, PERSON))

    services.store.on_commit(derive_once)
    report = services.forget(asked)
    derived = late[0].result(WAIT_SECONDS).result.memory.id
    assert report.derived == [derived]
    assert not services.is_there(derived)
    assert traces(services.folder, CANARY) == []


def test_a_word_that_somebody_says_again_during_the_search_is_no_trace(services: ErasureServices) -> None:
    asked = services.add(f"The {CANARY} key lies under the third stone.")
    services.meanwhile = lambda: services.add(f"There are other {CANARY} things.")
    report = services.forget(asked)
    assert (report.complete, report.searched.found) == (True, [])
    assert traces(services.folder, CANARY) != []


def forget_in(notes_folder: NotesFolder, *ids: str) -> EraseAnswer:
    return Erasure(notes_folder.store, Disk(), list, lambda: None).erase(ids, "cli")


SECRET = "The safe code is one four three eight, says uncle Ben."


def test_a_forgotten_text_is_left_out_of_every_file_with_its_links_and_a_title_that_has_no_other(
    tmp_path: Path,
) -> None:
    with watched_notes_folder(tmp_path) as notes_folder:
        notes_folder.write("a.md", f"# Safe\n\n{SECRET} [[Ben]]\n")
        notes_folder.watch()
        forget_in(notes_folder, *notes_folder.ids("a.md"))
        assert (
            notes_folder.files()["a.md"].chunks,
            notes_folder.files()["a.md"].title,
            notes_folder.files()["a.md"].links,
        ) == ((), "", ())
        notes_folder.write("b.md", f"# Bens safe\n\n{SECRET} [[Ben]]\n")
        notes_folder.write("c.md", f"# Both\n\nSee [[Ann]].\n\n## One\n\n{SECRET} [[Ben]]\n")
        notes_folder.wait(lambda: {"b.md", "c.md"} <= notes_folder.files().keys())
        notes_folder.rescan()
        files = notes_folder.files()
        assert (files["b.md"].chunks, files["b.md"].title, files["b.md"].links) == ((), "", ())
        assert notes_folder.texts("c.md") == ["See [[Ann]]."]
        assert (files["c.md"].title, files["c.md"].links) == ("Both", ("Ann",))
        assert notes_folder.count() == 1


def test_a_chunk_that_becomes_a_forgotten_text_leaves_its_file(tmp_path: Path) -> None:
    with watched_notes_folder(tmp_path) as notes_folder:
        notes_folder.write("a.md", f"# Safe\n\n{SECRET}\n")
        notes_folder.write("b.md", "# Safe\n\nThe safe code is two five three eight, says uncle Ben.\n")
        notes_folder.watch()
        forget_in(notes_folder, *notes_folder.ids("a.md"))
        (former,) = notes_folder.ids("b.md")
        notes_folder.write("b.md", f"# Safe\n\n{SECRET}\n")
        notes_folder.wait(lambda: notes_folder.memory(former).state == "trashed")
        notes_folder.rescan()
        assert notes_folder.files()["b.md"].chunks == ()
        assert notes_folder.memory(former).content == "The safe code is two five three eight, says uncle Ben."


def test_the_same_text_in_another_file_stays_there_until_that_is_asked_for(tmp_path: Path) -> None:
    with watched_notes_folder(tmp_path) as notes_folder:
        notes_folder.write("a.md", f"# Safe\n\n{SECRET}\n")
        notes_folder.write("b.md", f"# Other\n\n{SECRET}\n")
        notes_folder.watch()
        (stays,) = notes_folder.ids("b.md")
        report = forget_in(notes_folder, *notes_folder.ids("a.md"))
        assert [place.place for place in report.places if place.state == "still there"] == [f"memory {stays}"]
        notes_folder.write("b.md", f"# Other\n\n{SECRET}\n\n\n")
        notes_folder.rescan()
        assert notes_folder.texts("b.md") == [SECRET]
        assert notes_folder.ids("b.md") == [stays]


def test_a_link_to_a_file_leads_to_what_is_left_of_it(tmp_path: Path) -> None:
    with watched_notes_folder(tmp_path) as notes_folder:
        notes_folder.write("target.md", "# One\n\nFirst thing.\n\n# Two\n\nSecond thing.\n")
        notes_folder.write("source.md", "See [[target]].\n")
        notes_folder.watch()
        first, second = notes_folder.ids("target.md")
        forget_in(notes_folder, first)
        notes_folder.write("source.md", "See [[target]] again.\n")
        notes_folder.wait(lambda: notes_folder.texts("source.md") == ["See [[target]] again."])
        notes_folder.rescan()
        (source,) = notes_folder.ids("source.md")
        with notes_folder.store.snapshot() as snapshot:
            assert [edge.target for edge in snapshot.edges(source)] == [second]
            assert snapshot.edges(first) == []


def test_a_long_file_is_read_in_slices_without_what_was_forgotten(tmp_path: Path) -> None:
    sections = [f"## Part {number}\n\nThis is what part {number} says of itself.\n" for number in range(130)]
    with watched_notes_folder(tmp_path) as notes_folder:
        notes_folder.write("a.md", f"# Safe\n\n{SECRET} [[Ben]]\n")
        notes_folder.watch()
        forget_in(notes_folder, *notes_folder.ids("a.md"))
        notes_folder.write(
            "long.md", "\n".join(["# Long", *sections[:70], f"## Safe\n\n{SECRET} [[Ben]]\n", *sections[70:]])
        )
        notes_folder.wait(lambda: len(notes_folder.texts("long.md")) == 130)
        notes_folder.rescan()
        assert notes_folder.files()["long.md"].links == ()
        assert notes_folder.files()["long.md"].title == "Long"
        assert not any("[[Ben]]" in text for text in notes_folder.texts("long.md"))
    assert traces(notes_folder.data, "safe code", "Ben") == []


# When it is cut short


def test_a_full_disk_is_reported_and_the_rest_is_done_when_there_is_room(tmp_path: Path) -> None:
    disk = WatchedDisk()
    services = ErasureServices(tmp_path / "data", disk=disk)
    asked, kept = services.add(f"The {CANARY} key lies under the third stone."), services.add("It stays.")
    disk.full = True
    with pytest.raises(Refusal) as refusal:
        services.forget(asked)
    assert (refusal.value.status, refusal.value.code) == (507, "disk_full")
    assert "files still hold it" in refusal.value.message
    assert "No space left" in services.forgetting.pending
    assert not services.is_there(asked)
    assert traces(services.folder, CANARY) != []
    tried = disk.tries
    services.forgetting.resume_if_due()  # not due: it was tried this very moment
    assert disk.tries == tried
    again = Erasure(services.store, disk, list, services.empty_views)
    again.resume_if_due()
    assert disk.tries > tried
    assert "No space left" in again.pending
    disk.full = False
    again = Erasure(services.store, disk, list, services.empty_views)
    again.resume_if_due()
    assert again.pending == ""
    assert traces(services.folder, CANARY) == []
    assert services.is_there(kept)
    services.close()


def test_the_next_one_finishes_what_was_cut_short_before(tmp_path: Path) -> None:
    services = ErasureServices(tmp_path / "data")
    first, second = services.add(f"The {CANARY} key, the first one."), services.add("The second thing to forget.")
    (services.folder / "journal" / "short_term.jsonl.9.torn").write_bytes(f"{CANARY} key".encode())
    services.forgetting.stop()
    with pytest.raises((Refusal, ClosedStoreError)):
        services.forget(first)
    services.close()
    again = ErasureServices(tmp_path / "data")
    assert again.forget(second).purged == [second]
    assert again.forgetting.pending == ""
    again.close()
    assert traces(tmp_path, CANARY, "second thing") == []


def test_a_daemon_that_is_asked_to_stop_ends_between_two_steps_and_goes_on_after_its_start(tmp_path: Path) -> None:
    services = ErasureServices(tmp_path / "data")
    asked = services.add(f"The {CANARY} key lies under the third stone.")
    (services.folder / "journal" / "short_term.jsonl.9.torn").write_bytes(f"{CANARY} key".encode())
    services.forgetting.stop()
    with pytest.raises((Refusal, ClosedStoreError)):
        services.forget(asked)
    services.close()
    again = ErasureServices(tmp_path / "data")
    assert again.forgetting.pending
    again.forgetting.resume_if_due()
    assert again.forgetting.pending == ""
    again.close()
    assert traces(tmp_path, CANARY) == []


class FailingErasureDisk(Disk):
    """Every call from the n-th on fails, until it is mended."""

    def __init__(self) -> None:
        self.left = 10**9
        self.calls = 0

    def _count(self) -> None:
        self.calls += 1
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def append(self, fd: int, data: bytes) -> None:
        self._count()
        super().append(fd, data)

    def sync(self, fd: int) -> None:
        self._count()

    def sync_folder(self, folder: Path) -> None:
        self._count()

    def rename(self, source: Path, target: Path) -> None:
        self._count()
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._count()
        super().unlink(path)


def forget_on(folder: Path, disk: FailingErasureDisk, calls: int) -> bool:
    """Remembers, has the disk fail after so many calls, forgets, and leaves the store as it is then; whether the disk
    failed."""
    store = Store.open(folder, disk=disk, reserve_bytes=0)
    try:
        remember(store, 1, f"The {CANARY} key lies under the third stone.", tags=(f"{CANARY}-tag",))
        remember(store, 2, f"Derived of the {CANARY}.", derived_from=(sample_id(1),))
        remember(store, 3, f"Derived of what was derived of the {CANARY}.", derived_from=(sample_id(2),))
        remember(store, 4, "It stays.")
        (folder / "journal" / "short_term.jsonl.9.torn").write_bytes(f"{CANARY} key".encode())
        disk.left = calls
        with contextlib.suppress(Exception):
            Erasure(store, disk, list, lambda: None).erase([sample_id(1)], "test")
    finally:
        failed = disk.left < 0
        disk.left = 10**9
        store.close()
    return failed


def test_whatever_call_of_the_disk_fails_the_next_start_finishes_it_or_it_was_never_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trash, "DELETED_PER_WRITE", 1)  # so that a failure may come between any two of them
    calls, finished, untouched = 0, 0, 0
    while True:
        with quick_folder() as folder:
            failed = forget_on(folder, FailingErasureDisk(), calls)
            with opened(folder, reserve_bytes=0) as store:
                service = Erasure(store, Disk(), list, lambda: None)
                begun = bool(service.pending)
                service.resume_if_due()
                assert service.pending == ""
                with store.snapshot() as snapshot:
                    there = [snapshot.memory(sample_id(number)) is not None for number in (1, 2, 3, 4)]
                    was_forgotten = bool(snapshot.forgotten_after())
            assert there in ([True] * 4, [False, False, False, True])
            assert there[0] != was_forgotten
            if there[0]:
                untouched += 1
                assert not begun
            else:
                assert traces(folder, CANARY) == [], f"after {calls} calls"
                finished += begun
            calls += 1
            if not failed:
                break
    assert calls > 20
    assert untouched < 5
    assert finished > 10


def test_all_that_was_dropped_before_a_failure_is_looked_for_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two memories are derived at the last moment, and only the first of them is dropped before the disk fails."""
    monkeypatch.setattr(trash, "DELETED_PER_WRITE", 1)
    disk = FaultyDisk()
    services = ErasureServices(tmp_path / "data", disk=disk)
    asked = services.add("The first thing to forget.")
    late: list[Future[WriteReceipt[Decision]]] = []
    dropped: list[int] = []

    def meanwhile(applied: Commit) -> None:
        if not late:
            for text in (f"Derived of the {CANARY}.", "Something else was derived."):
                draft = Draft(content=text, namespace="default", user_id="local", trust="user", source="cli",
                              derived_from=(asked,))  # fmt: skip
                late.append(services.memories.remember(draft, PERSON))
        for touched in applied.touched:
            if touched.dropped:
                dropped.append(touched.number)
                disk.writing = FULL if len(dropped) == 2 else None

    services.store.on_commit(meanwhile)
    (services.folder / "journal" / "short_term.jsonl.9.torn").write_bytes(f"Derived of the {CANARY}".encode())
    with pytest.raises((StoreError, Refusal)):
        services.forget(asked)
    assert len(dropped) == 2
    disk.writing = None
    services.forgetting.resume_if_due()
    assert services.forgetting.pending == ""
    assert traces(services.folder, CANARY) == []
    services.close()


def test_a_store_out_of_order_forgets_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with opened(tmp_path) as store:
        remember(store, 1)
    disk.opening = BROKEN
    with opened(tmp_path, disk) as store:
        assert store.degraded
        with pytest.raises(Refusal) as refusal:
            Erasure(store, disk, list, lambda: None).erase([sample_id(1)], "test")
        assert (refusal.value.status, refusal.value.code) == (503, "degraded")
        with store.snapshot() as snapshot:
            assert snapshot.count() == 1


# Vectors, and copies


def test_the_vectors_of_a_forgotten_text_go_and_no_other_is_computed_again(tmp_path: Path, tiny_source: Path) -> None:
    installation.import_path(tiny_source, tmp_path / "models", allow_unverified=True)
    embedding = EmbeddingService(ModelCatalogue(tmp_path / "models"), "tiny-letters", threads=1)
    embedding.refresh()
    embedder = embedding.current()
    assert embedder is not None
    services = ErasureServices(tmp_path / "data", embedding)
    services.indexing.start()
    asked, kept = services.add("a b c d"), services.add("x y z")
    wait_until(lambda: services.indexing.serving() is not None and services.indexing.waiting() == 0)
    services.recall("a b c d")
    serving = services.indexing.serving()
    assert serving is not None
    before = serving.view
    services.forget(asked)
    serving = services.indexing.serving()
    assert serving is not None
    assert serving.view is not before
    assert (services.folder / "views" / "vectors.view").exists()
    with services.store.snapshot() as snapshot:
        number = snapshot.number(kept)
        assert snapshot.vectors(embedder.space, text_hash("a b c d"), embedder.dimensions) is None
        assert snapshot.vectors(embedder.space, text_hash("x y z"), embedder.dimensions) is not None
    assert serving.view.numbers().tolist() == [number]
    assert serving.view.rows == 1
    assert not embedding._queries
    assert [hit.details.memory.id for hit in services.recall("x y z").hits] == [kept]
    services.close()
    again = ErasureServices(tmp_path / "data", embedding)
    again.indexing.start()
    wait_until(lambda: again.indexing.serving() is not None)
    loaded = again.indexing.serving()
    assert loaded is not None
    assert loaded.view.numbers().tolist() == [number]
    again.close()
    embedding.close()


def test_counts_of_tokens_are_kept_where_the_views_are_built_again(services: ErasureServices) -> None:
    asked, kept = services.add("One."), services.add("Two words.")
    with services.store.snapshot() as snapshot:
        number = snapshot.number(kept)
    assert number is not None
    services.views.attributes.set_tokens(number, 7, services.memory(kept).modified_at)
    services.forget(asked)
    assert services.views.attributes.column("tokens")[number] == 7


def test_a_store_restored_from_a_copy_of_before_does_not_have_it(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with opened(data) as store:
        remember(store, 1, f"The {CANARY} key lies under the third stone.")
        remember(store, 2, "It stays.")
        backup.create_backup(store, copy, Disk())
        Erasure(store, Disk(), list, lambda: None).erase([sample_id(1)], "test")
    done = restore.restore(
        copy, data, Disk(), lambda: 5, finish=lambda store, ids: _complete(erase_in_store(store, ids, ()))
    )
    assert done.forgotten == (sample_id(1),)
    assert traces(data, CANARY) == []
    with opened(data) as store, store.snapshot() as snapshot:
        assert [memory.content for memory in snapshot.memories()] == ["It stays."]
        assert snapshot.forgotten(skip_hash(snapshot.meta("salt"), f"the {CANARY} key lies under the third stone."))


def test_of_a_store_that_no_daemon_has_open_the_views_go_too(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1, f"The {CANARY} key lies under the third stone.")
        (tmp_path / "views").mkdir()
        (tmp_path / "views" / "columns.view").write_bytes(f"{CANARY}".encode())
        assert erase_in_store(store, [sample_id(1)], ()).complete
    assert traces(tmp_path, CANARY) == []


def _complete(report: EraseAnswer) -> None:
    assert report.complete


def test_the_hash_that_stays_means_nothing_without_the_salt(services: ErasureServices) -> None:
    services.forget(services.add("yes"))
    with services.store.snapshot() as snapshot:
        (entry,) = snapshot.forgotten_after()
        assert entry == ErasedText(hash=skip_hash(snapshot.meta("salt"), "yes"), at=services.at)
    assert msgspec.json.encode(PutErasedText(data=entry)).count(entry.hash.encode()) == 1
    assert DropErasedText(hash=entry.hash)
