"""Forgetting out of the copies of the store, and what quotes the text. SPEC 3.7"""

import shutil
import threading
from pathlib import Path

import pytest

from mnemo_client.client import Client
from mnemo_client.protocol.memories import EraseAnswer
from mnemo_core.ingest.erasure import residue_patterns
from mnemo_daemon.maintenance.erasure import Erasure
from mnemo_daemon.maintenance.residue_scan import known_copies, scan_folder
from mnemo_store import codec
from mnemo_store.disk import Disk
from mnemo_store.maintenance import backup, restore
from mnemo_store.recovery import store_folder
from mnemo_store.store import Store
from tests.support.erasure_services import CANARY, wait_until
from tests.support.file_bytes import readable_bytes
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import AT, contents, opened, remember, sample_id, sample_memory

SECRET = f"The {CANARY} key lies under the third stone."
QUOTING = f"You told me: {SECRET} I wrote that down."
STAYS = "It stays, whatever else is forgotten."


def bytes_with(folder: Path, needle: str) -> list[str]:
    """Every file in the folder, whatever it is, in whose bytes it stands."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [str(path.relative_to(folder)) for path in files if needle.encode() in readable_bytes(path)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A data folder `data` with backups and what restores left beside it, all of which hold the secret."""
    data = tmp_path / "place" / "data"
    with opened(data) as store:
        remember(store, 1, SECRET)
        remember(store, 2, STAYS)
        backup.create_backup(store, data / "backups" / "first", Disk())
        remember(store, 3, "Said later.")
        backup.create_backup(store, data / "backups" / "second", Disk())
    restore.restore(data / "backups" / "second", data, Disk(), lambda: AT)
    shutil.copytree(data, store_folder.staging_folder(data), ignore=shutil.ignore_patterns("backups"))
    assert len(known_copies(data)) == 4
    return data.parent


def forget(data: Path, *numbers: int, quoting: bool = False, everywhere: bool = False) -> EraseAnswer:
    with opened(data) as store:
        return forgetting_of(store).erase(
            [sample_id(each) for each in numbers], "cli", quoting=quoting, everywhere=everywhere
        )


def forgetting_of(store: Store) -> Erasure:
    return Erasure(store, Disk(), list, lambda: None)


def test_the_copies_that_hold_it_are_named_and_left_as_they_are(place: Path) -> None:
    before = {path: path.read_bytes() for path in (place / "data" / "backups").rglob("*") if path.is_file()}
    report = forget(place / "data", 1)
    kept = next(place.glob("data.before-restore-*"))
    names = [place / "data" / "backups" / name for name in ("first", "second")]
    assert report.backups == [str(each) for each in sorted([*names, kept])]
    assert report.complete  # of the data folder, of which they are copies
    assert {path: path.read_bytes() for path in before} == before
    assert forget(place / "data", 3).backups == [str(each) for each in sorted([names[1], kept])]  # the first is older


def test_everywhere_leaves_no_byte_of_it_and_everything_else(place: Path) -> None:
    assert len({name.split("/")[0] for name in bytes_with(place, CANARY)}) >= 2
    with opened(place / "data") as store:
        report = forgetting_of(store).erase([sample_id(1)], "cli", everywhere=True)
        assert contents(store) == [STAYS, "Said later."]
    assert bytes_with(place, CANARY) == []
    assert (report.complete, report.backups) == (True, [])
    rewritten = [each for each in report.places if "rewritten without it" in each.detail]
    assert [each.state for each in rewritten] == ["clean"] * 3
    for name, texts in (("first", [STAYS]), ("second", [STAYS, "Said later."])):
        copy = place / "data" / "backups" / name
        assert backup.verify_backup(copy).seq
        with opened(shutil.copytree(copy, place / name)) as store:
            assert contents(store) == texts
    with opened(next(place.glob("data.before-restore-*"))) as store:
        assert contents(store) == [STAYS, "Said later."]
    assert sorted(path.name for path in (place / "data" / "backups").iterdir()) == ["first", "second"]


def test_a_backup_that_was_rewritten_is_restored_as_any_other_and_has_its_time(place: Path) -> None:
    copy = place / "data" / "backups" / "first"
    before = backup.verify_backup(copy)
    forget(place / "data", 1, everywhere=True)
    after = backup.verify_backup(copy)
    assert after.at == before.at
    assert restore.restore(copy, place / "data", Disk(), lambda: AT + 5).memories == 1


def test_what_cannot_be_rewritten_is_reported_and_left(place: Path) -> None:
    data = place / "data" / "backups" / "first" / "journal" / "short_term.jsonl"
    data.write_bytes(data.read_bytes() + b"spoilt")
    report = forget(place / "data", 1, everywhere=True)
    assert not report.complete
    (reported_place,) = [each for each in report.places if each.state == "still there"]
    assert reported_place.place == str(place / "data" / "backups" / "first")
    assert "is damaged" in reported_place.detail
    assert report.backups == [reported_place.place]
    assert data.exists()
    assert {name.split("/")[2] for name in bytes_with(place, CANARY)} == {"first"}


def test_a_copy_that_is_in_use_is_reported_and_left(place: Path) -> None:
    kept = next(place.glob("data.before-restore-*"))
    with opened(kept) as other:
        report = forget(place / "data", 1, everywhere=True)
        assert contents(other) == [SECRET, STAYS, "Said later."]
    (reported,) = [each for each in report.places if each.state == "still there"]
    assert reported.place == str(kept)
    assert "is using" in reported.detail


class StopsAtRename(Disk):
    """Ends a forgetting before one of its changes of names, as a kill would, and cleans nothing up afterwards."""

    def __init__(self, ending: str) -> None:
        self.ending = ending
        self.copy: Path | None = None
        self.place = Path()

    def rename(self, source: Path, target: Path) -> None:
        if self.copy is None and target.parent.name == "backups" and self.ending in (target.suffix, source.suffix):
            self.copy = self.place.with_name("killed")
            shutil.copytree(self.place, self.copy)
        super().rename(source, target)


@pytest.mark.parametrize("ending", [".replaced", ".rewritten"])
def test_an_interrupted_erasure_is_finished_in_the_copies_too(place: Path, ending: str) -> None:
    disk = StopsAtRename(ending)
    disk.place = place
    with opened(place / "data") as store:
        Erasure(store, disk, list, lambda: None).erase([sample_id(1)], "cli", everywhere=True)
    assert disk.copy is not None
    data = disk.copy / "data"
    assert bytes_with(disk.copy, CANARY) != []
    with opened(data) as store:
        forgetting = forgetting_of(store)
        assert forgetting.pending
        forgetting.resume_if_due()
        assert not forgetting.pending
    assert bytes_with(disk.copy, CANARY) == []
    assert sorted(path.name for path in (data / "backups").iterdir()) == ["first", "second"]
    for name in ("first", "second"):
        backup.verify_backup(data / "backups" / name)


def test_a_memory_that_quotes_an_erased_one_is_named_with_an_excerpt_and_erased_on_request(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1, SECRET)
        remember(store, 2, "x " * 200 + QUOTING)
        remember(store, 3, STAYS)
        forgetting = forgetting_of(store)
        planned = forgetting.plan([sample_id(1)])
        (candidate,) = planned.candidates
        assert candidate.id == sample_id(2)
        assert SECRET in candidate.excerpt
        assert len(candidate.excerpt) < 200
        report = forgetting.erase([sample_id(1)], "cli")
        assert not report.complete
        assert report.candidates == planned.candidates
    assert bytes_with(tmp_path, CANARY) != []
    with opened(tmp_path) as store:
        remember(store, 4, SECRET)
        report = forgetting_of(store).erase([sample_id(4)], "cli", quoting=True)
        assert sorted(report.purged) == [sample_id(2), sample_id(4)]
        assert (report.complete, report.candidates) == (True, [])
        assert contents(store) == [STAYS]
    assert bytes_with(tmp_path, CANARY) == []


def test_a_daemon_forgets_everywhere_while_it_answers(started_daemon: RunningDaemon) -> None:
    with started_daemon.client(entry_point="cli") as client:
        secret = client.remember(SECRET).memory.id
        client.remember(STAYS)
        client.remember(QUOTING)
        client.back_up()
        shutil.copytree(started_daemon.folder, started_daemon.folder.with_name("data.before-restore-5"),
                        ignore=shutil.ignore_patterns("run", "backups"))  # fmt: skip
        planned = client.erase(secret, dry_run=True)
        assert [SECRET in each.excerpt for each in planned.candidates] == [True]
        assert len(planned.backups) == 2
        heard, done = list[int](), threading.Event()

        def read() -> None:
            with Client(started_daemon.socket) as reader:
                while not done.is_set():
                    heard.append(len(reader.search("stays").memories))

        reading = threading.Thread(target=read)
        reading.start()
        wait_until(lambda: len(heard) > 2)
        report = client.erase(secret, quoting=True, everywhere=True)
        done.set()
        reading.join()
        assert (report.complete, report.backups, report.candidates) == (True, [], [])
        assert set(heard) == {1}
        assert [each.content for each in client.list_memories().memories] == [STAYS]
    assert bytes_with(started_daemon.folder.parent, CANARY) == []


def test_a_text_that_a_database_has_packed_is_found(tmp_path: Path) -> None:
    memory = sample_memory(1, f"{SECRET} {'It is cold there. ' * 40}")
    put_aside = tmp_path / "db.damaged-1" / "data.mdb"
    put_aside.parent.mkdir()
    put_aside.write_bytes(bytes(4096) + codec.pack_value(codec.encode(memory)) + bytes(4096))
    assert CANARY.encode() not in put_aside.read_bytes()
    sought = residue_patterns([memory])
    assert list(scan_folder(tmp_path, sought, lambda: None).found) == [put_aside.relative_to(tmp_path)]
