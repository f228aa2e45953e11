"""Stores on several devices that exchange their changes through a folder. SPEC 21"""

import itertools
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from mnemo_core.ingest.mutations import new_version
from mnemo_daemon.errors import Refusal
from mnemo_daemon.sync.cipher import PassphraseCost, SyncError
from mnemo_daemon.sync.group_keys import create_group, replace_key
from mnemo_daemon.sync.segments import START, read_entries
from mnemo_daemon.sync.shared_folder import device_names
from mnemo_daemon.sync.sync_service import STATE_FILE, SyncService
from mnemo_store.disk import Disk
from mnemo_store.records import (
    ChunkRef,
    DropMemory,
    ErasedText,
    Memory,
    NoteFile,
    NotePlace,
    NoteRoot,
    PutMemory,
    Usage,
)
from mnemo_store.replication.device_clock import OwnDevices
from mnemo_store.replication.merge import version_stamp
from mnemo_store.store import Store
from tests.support.samples import AT, contents, opened, remember, sample_id, sample_memory, write

PASSPHRASE = "correct horse battery staple"
CHEAP = PassphraseCost(passes=1, memory_bytes=1 << 13)
DAY_MS = 86_400_000


class DiskWithoutState(Disk):
    """A disk that can no longer write how far the exchange is, once something waits to be appended."""

    fails_at_state = False

    def replace_file(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        if self.fails_at_state and path.name == Path(STATE_FILE).name and (path.parent / "outbox").exists():
            raise OSError("gone")
        super().replace_file(path, pieces)


class Device:
    """A store with its synchronisation, without a daemon."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.disk = DiskWithoutState()
        self.erased: list[str] = []
        self.sync = SyncService(store, self.disk, self.erase)
        store.on_commit(self.sync.on_commit)

    def erase(self, ids: Sequence[str], by: str) -> None:
        self.erased += ids
        write(self.store, *(DropMemory(id=each) for each in ids), what="purge")

    def memory(self, number: int) -> Memory:
        with self.store.snapshot() as snapshot:
            found = snapshot.memory(sample_id(number))
        assert found is not None
        return found

    def edit(self, number: int, content: str) -> None:
        write(self.store, PutMemory(data=new_version(self.memory(number), self.store.now(), {"content": content})))


@pytest.fixture(autouse=True)
def cheap_passphrases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A derivation of a key as it is, but not for the second of a processor that it takes by default."""
    for function in (create_group, replace_key):
        assert function.__kwdefaults__ is not None
        monkeypatch.setitem(function.__kwdefaults__, "cost", CHEAP)


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[tuple[Device, Device]]:
    clock = itertools.count(time.time_ns() // 1_000_000)  # no two changes are of one millisecond
    with ExitStack() as stack:
        first, second = (
            Device(stack.enter_context(opened(tmp_path / name, now=lambda: next(clock))))
            for name in ("first", "second")
        )
        remember(first.store, 1, "the kettle is on shelf one")
        write(first.store, Usage(id=sample_id(1), access_count=3))
        first.sync.begin(tmp_path / "shared", passphrase=PASSPHRASE, code="", name="laptop", is_new=True)
        first.sync.exchange()
        code = first.sync.pairing_code()
        second.sync.begin(tmp_path / "shared", passphrase="", code=code, name="desktop", is_new=False)
        second.sync.exchange()
        yield first, second


def exchange(*devices: Device) -> None:
    for _ in range(3):
        for device in devices:
            device.sync.exchange()
            assert not device.sync.problem


def test_a_second_device_has_what_the_first_had_and_gets_what_it_writes(devices: tuple[Device, Device]) -> None:
    first, second = devices
    assert contents(second.store) == contents(first.store)
    with second.store.snapshot() as snapshot:
        usage = snapshot.usage(sample_id(1))
    assert usage is not None
    assert usage.access_count == 3
    remember(second.store, 2, "the spare key is at Ada's")
    first.edit(1, "the kettle is on shelf two")
    exchange(first, second)
    assert sorted(contents(first.store)) == sorted(contents(second.store))
    assert second.memory(1).content == "the kettle is on shelf two"


def test_edits_without_knowledge_of_each_other_are_both_in_the_history_and_the_later_is_current(
    devices: tuple[Device, Device],
) -> None:
    first, second = devices
    first.edit(1, "the kettle is on shelf two")
    second.edit(1, "the kettle is in the cellar")
    exchange(first, second)
    texts = []
    for device in devices:
        with device.store.snapshot() as snapshot:
            own = OwnDevices.of(snapshot)
            kept = snapshot.all_versions(sample_id(1))
            versions = {version_stamp(snapshot, each, own): each.memory.content for each in kept}
        texts.append([versions[stamp] for stamp in sorted(versions)])
        assert device.memory(1).content == "the kettle is in the cellar"
    assert texts[0] == texts[1] == [
        "the kettle is on shelf one", "the kettle is on shelf two", "the kettle is in the cellar",
    ]  # fmt: skip


def test_usage_of_both_devices_is_added(devices: tuple[Device, Device]) -> None:
    first, second = devices
    write(first.store, Usage(id=sample_id(1), access_count=5))
    write(second.store, Usage(id=sample_id(1), access_count=4))
    exchange(first, second)
    for device in devices:
        with device.store.snapshot() as snapshot:
            usage = snapshot.usage(sample_id(1))
        assert usage is not None
        assert usage.access_count == 6


def test_a_store_that_was_taken_back_goes_on_as_a_new_device_and_loses_nothing(
    devices: tuple[Device, Device], tmp_path: Path
) -> None:
    first, second = devices
    second.store.close()
    shutil.copytree(tmp_path / "second", tmp_path / "older")
    with opened(tmp_path / "second") as store:
        newer = Device(store)
        remember(store, 2, "written before the copy was restored")
        newer.sync.exchange()
        former = newer.sync.state.device if newer.sync.state else ""
    with opened(tmp_path / "older") as store:
        older = Device(store)
        exchange(older)
        assert older.sync.state is not None
        assert older.sync.state.device != former
        assert former in older.sync.state.removed, "nobody waits for it any more"
        assert "written before the copy was restored" in contents(store)
        remember(store, 3, "written after the copy was restored")
        exchange(older, first)
        assert sorted(contents(first.store)) == sorted(contents(store))
        assert len(contents(store)) == 3


def test_what_was_not_sent_when_the_daemon_ended_is_sent_at_the_next_start(
    devices: tuple[Device, Device], tmp_path: Path
) -> None:
    first, second = devices
    remember(second.store, 2, "never sent")
    second.edit(1, "edited, never sent")
    second.store.close()
    with opened(tmp_path / "second") as store:
        again = Device(store)
        exchange(again, first)
        assert sorted(contents(first.store)) == sorted(contents(store))
        assert first.memory(1).content == "edited, never sent"


def test_an_absent_folder_is_a_problem_and_loses_nothing(devices: tuple[Device, Device], tmp_path: Path) -> None:
    first, second = devices
    (tmp_path / "shared").rename(tmp_path / "away")
    remember(first.store, 2, "written while the folder was away")
    first.sync.exchange()
    assert "is not there" in first.sync.problem
    (tmp_path / "away").rename(tmp_path / "shared")
    exchange(first, second)
    assert "written while the folder was away" in contents(second.store)
    assert sample_memory(2).id == sample_id(2)


def test_what_one_device_erases_is_erased_on_the_other_and_leaves_no_trace_in_the_folder(
    devices: tuple[Device, Device], tmp_path: Path
) -> None:
    first, second = devices
    remember(first.store, 2, "the code of the safe is 4711")
    exchange(first, second)
    erased = ErasedText(hash="00" * 16, at=first.store.now())
    write(first.store, erased, DropMemory(id=sample_id(2)), what="purge")
    exchange(first, second)
    assert contents(second.store) == contents(first.store) == ["the kettle is on shelf one"]
    for device in devices:
        assert device.sync.erasures() == {sample_id(2): {each.id: True for each in device.sync.devices()}}
        state, key = device.sync.state, device.sync.key
        assert state is not None
        assert key is not None
        for name in device_names(tmp_path / "shared"):
            found = read_entries(tmp_path / "shared", key, name, START, 1 << 30)
            assert not found.problem
            assert b"4711" not in b"".join(found.entries)


def test_what_was_erased_and_not_shared_before_a_restart_is_erased_everywhere(
    devices: tuple[Device, Device], tmp_path: Path
) -> None:
    first, second = devices
    remember(first.store, 2, "the code of the safe is 4711")
    exchange(first, second)
    write(first.store, ErasedText(hash="00" * 16, at=first.store.now()), DropMemory(id=sample_id(2)), what="purge")
    first.store.close()
    with opened(tmp_path / "first") as store:
        again = Device(store)
        exchange(again, second)
        assert second.erased == [sample_id(2)]
        for device in (again, second):
            assert device.sync.erasures() == {sample_id(2): {each.id: True for each in device.sync.devices()}}
            assert device.sync.state is not None
            assert device.sync.key is not None
            found = read_entries(tmp_path / "shared", device.sync.key, device.sync.state.device, START, 1 << 30)
            assert b"4711" not in b"".join(found.entries)


def test_a_folder_that_was_set_back_while_the_daemon_runs_gets_the_whole_store_again(
    devices: tuple[Device, Device], tmp_path: Path
) -> None:
    first, second = devices
    remember(second.store, 2, "in the older state of the folder")
    exchange(second, first)
    shutil.copytree(tmp_path / "shared", tmp_path / "older")
    remember(second.store, 3, "shared, and taken away again")
    second.sync.exchange()
    shutil.rmtree(tmp_path / "shared")
    (tmp_path / "older").rename(tmp_path / "shared")
    remember(second.store, 4, "written behind what was taken away")
    exchange(second, first)
    assert sorted(contents(first.store)) == sorted(contents(second.store))


def test_why_an_exchange_failed_is_the_problem_until_it_succeeds(
    devices: tuple[Device, Device],
) -> None:
    first, second = devices
    remember(first.store, 2, "cannot be noted")
    first.disk.fails_at_state = True
    with pytest.raises(OSError, match="gone"):
        first.sync.exchange()
    assert first.sync.problem == "gone"
    first.disk.fails_at_state = False
    exchange(first, second)
    assert "cannot be noted" in contents(second.store)


def test_changes_from_the_future_wait_until_it_has_come_and_both_sides_say_so(tmp_path: Path) -> None:
    clock = {"first": AT, "second": AT}
    with ExitStack() as stack:
        first, second = (
            Device(stack.enter_context(opened(tmp_path / name, now=lambda name=name: clock[name]))) for name in clock
        )
        for device, is_new in ((first, True), (second, False)):
            device.sync.begin(tmp_path / "shared", passphrase=PASSPHRASE, code="", name="", is_new=is_new)
        exchange(first, second)
        clock["second"] += 3 * DAY_MS
        remember(second.store, 2, "written three days ahead")
        second.sync.exchange()
        clock["second"] = AT
        remember(second.store, 3, "written when the clock was right")
        second.sync.exchange()
        first.sync.exchange()
        assert contents(first.store) == []
        assert "from the future" in "".join(each.problem or "" for each in first.sync.devices())
        assert "was far ahead once" in second.sync.problem
        clock.update(first=AT + 2 * DAY_MS, second=AT + 2 * DAY_MS)
        exchange(second, first)
        assert len(contents(first.store)) == 2


def test_a_group_file_that_was_removed_is_put_back_and_a_folder_without_this_device_is_left_alone(
    devices: tuple[Device, Device], tmp_path: Path
) -> None:
    first, second = devices
    group = tmp_path / "shared" / "group.json"
    content = group.read_bytes()
    group.unlink()
    exchange(second, first)
    assert group.read_bytes() == content
    (tmp_path / "shared").rename(tmp_path / "unplugged")
    (tmp_path / "shared").mkdir()
    first.sync.exchange()
    assert "is no folder that devices share" in first.sync.problem
    assert not [*(tmp_path / "shared").iterdir()]


def test_a_device_shares_again_what_was_damaged_in_the_folder_once_another_complains(
    devices: tuple[Device, Device], tmp_path: Path
) -> None:
    first, second = devices
    remember(second.store, 2, "its segment is damaged before anybody reads it")
    second.sync.exchange()
    assert second.sync.state is not None
    segments = sorted((tmp_path / "shared" / "devices" / second.sync.state.device).glob("*.seg"))
    remember(second.store, 3, "behind the damage")
    second.sync.exchange()
    content = bytearray(segments[-1].read_bytes())
    content[len(content) // 2] ^= 1
    segments[-1].write_bytes(content)
    first.sync.exchange()
    assert [each.problem for each in first.sync.devices() if each.problem]
    second.sync.exchange()  # it finds the damage, and shares everything again
    exchange(first, second)
    assert not [each.problem for each in first.sync.devices() if each.problem]
    assert sorted(contents(first.store)) == sorted(contents(second.store))


def test_nobody_waits_for_a_device_that_has_left_and_what_it_shared_arrives(devices: tuple[Device, Device]) -> None:
    first, second = devices
    remember(second.store, 2, "written before it left")
    second.sync.exchange()
    second.sync.leave()
    first.sync.exchange()
    assert "written before it left" in contents(first.store)
    assert [each.waiting for each in first.sync.devices() if each.name == "desktop"] == ["it has left"]
    write(first.store, ErasedText(hash="00" * 16, at=first.store.now()), DropMemory(id=sample_id(1)), what="purge")
    first.sync.exchange()
    assert first.sync.state is not None
    assert first.sync.erasures() == {sample_id(1): {first.sync.state.device: True}}
    assert first.sync.runs_cycles()


def test_nobody_waits_for_what_a_device_was_before_it_joined_again(
    devices: tuple[Device, Device], tmp_path: Path
) -> None:
    first, second = devices
    second.sync.leave()
    remember(second.store, 2, "written between leaving and joining")
    second.sync.begin(tmp_path / "shared", passphrase=PASSPHRASE, code="", name="desktop", is_new=False)
    exchange(second, first)
    assert sorted(contents(first.store)) == sorted(contents(second.store))
    assert sorted(each.name for each in first.sync.devices() if not each.removed) == ["desktop", "laptop"]


def test_a_removed_device_is_not_read_and_reads_nothing_more_and_what_it_shared_stays(
    devices: tuple[Device, Device], tmp_path: Path
) -> None:
    first, second = devices
    remember(second.store, 2, "shared before the removal")
    exchange(second, first)
    code = first.sync.remove_device("desktop", "another passphrase")
    remember(first.store, 3, "shared after the removal")
    remember(second.store, 4, "written on the removed device")
    first.sync.exchange()
    second.sync.exchange()
    assert "rejoin" in second.sync.problem
    assert "shared after the removal" not in contents(second.store)
    assert "written on the removed device" not in contents(first.store)
    with opened(tmp_path / "third") as store:
        third = Device(store)
        third.sync.begin(tmp_path / "shared", passphrase="", code=code, name="third", is_new=False)
        exchange(third)
        assert sorted(contents(store)) == sorted(contents(first.store))


def test_an_altered_file_is_named_and_nothing_of_it_is_taken(devices: tuple[Device, Device], tmp_path: Path) -> None:
    first, second = devices
    assert first.sync.state is not None
    remember(first.store, 2, "shared after the join")
    first.sync.exchange()
    newest = max((tmp_path / "shared" / "devices" / first.sync.state.device).glob("*.seg"))
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    second.sync.exchange()
    assert contents(second.store) == ["the kettle is on shelf one"]
    (problem,) = (each.problem for each in second.sync.devices() if each.id == first.sync.state.device)
    assert problem is not None
    assert newest.name in problem
    newest.write_bytes(whole)
    second.sync.exchange()
    assert "shared after the join" in contents(second.store)


def test_a_crash_behind_the_append_shares_nothing_twice_and_keeps_the_device(
    devices: tuple[Device, Device], tmp_path: Path
) -> None:
    first, second = devices
    assert second.sync.state is not None
    remember(second.store, 2, "appended, but not noted")
    second.disk.fails_at_state = True
    with pytest.raises(OSError, match="gone"):
        second.sync.exchange()
    folder = tmp_path / "shared" / "devices" / second.sync.state.device
    size = sum(path.stat().st_size for path in folder.glob("*.seg"))
    second.store.close()
    with opened(tmp_path / "second") as store:
        again = Device(store)
        exchange(again, first)
        assert again.sync.state is not None
        assert again.sync.state.device == second.sync.state.device
    assert sum(path.stat().st_size for path in folder.glob("*.seg")) == size
    assert sorted(contents(first.store)) == ["appended, but not noted", "the kettle is on shelf one"]


def test_passages_of_a_folder_are_shown_where_it_is_not_and_read_where_it_is(devices: tuple[Device, Device]) -> None:
    first, second = devices
    root, file = sample_id(900), sample_id(901)
    chunk = ChunkRef(sample_id(20), "hash", 1, 2)
    passage = sample_memory(20, "the boiler is red", managed=file, trust="note", note=NotePlace(title="house"))
    note = NoteFile(id=file, root=root, path="house.md", chunks=(chunk,))
    write(first.store, NoteRoot(id=root, path="/ada/Notes", added_at=1), note, passage, what="notes")
    exchange(first, second)
    assert "the boiler is red" in contents(second.store)
    write(second.store, PutMemory(data=new_version(second.memory(20), second.store.now(), {"tags": ("mine",)})))
    exchange(first, second)
    assert first.memory(20).tags == (), "only the device that reads the folder says what is in it"
    write(second.store, NoteRoot(id=sample_id(902), path="/other/notes", added_at=1), what="notes")
    exchange(first, second)
    assert second.memory(20).state == "trashed"
    assert first.memory(20).state == "active"


def test_without_the_package_that_encrypts_nothing_is_shared_and_the_answer_names_it(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        sync = SyncService(store, Disk(), lambda ids, by: None, can_encrypt=lambda: False)
        with pytest.raises(Refusal, match=r"mnemod\[sync\]"):
            sync.begin(tmp_path / "shared", passphrase=PASSPHRASE, code="", name="laptop", is_new=True)
        assert sync.state is None
        assert not (tmp_path / "shared").exists()


def test_a_passphrase_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        sync = SyncService(store, Disk(), lambda ids, by: None)
        with pytest.raises(SyncError, match="at least 8"):
            sync.begin(tmp_path / "shared", passphrase="short", code="", name="laptop", is_new=True)
        assert not (tmp_path / "shared").exists()
