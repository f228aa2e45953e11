"""The small files of each device, the list of devices, and who runs the cycles."""

import shutil
from pathlib import Path

import pytest

from mnemo_daemon.sync.cipher import UnauthenticData
from mnemo_daemon.sync.device_files import (
    DeviceAbout,
    DeviceFile,
    DeviceProgress,
    LeaseClaim,
    RemovedDevices,
    lease_holder,
    list_devices,
    read_device_file,
    removed_devices,
    write_device_file,
)
from mnemo_daemon.sync.group_keys import GroupKey
from mnemo_daemon.sync.segments import Position
from mnemo_daemon.sync.shared_folder import UnsafeFile

KEY = GroupKey(bytes(16), (bytes(range(32)),))
NEWER = GroupKey(KEY.group, (*KEY.keys, bytes(32)))
A, B, C = (letter * 16 for letter in "abc")
DAY = 86_400.0
ABOUT = DeviceAbout("laptop", "0.1.0", 1.0, 2.0)


@pytest.mark.parametrize(
    "content",
    [ABOUT, DeviceProgress({A: Position(1, 2, 3)}, ["e1"]), LeaseClaim(A, 1.5, 2.5), RemovedDevices({B: 3.0})],
    ids=lambda content: type(content).__name__,
)
def test_a_file_comes_back_as_it_was_written_and_only_in_its_place(tmp_path: Path, content: DeviceFile) -> None:
    assert read_device_file(tmp_path, KEY, A, type(content)) is None
    write_device_file(tmp_path, KEY, A, content)
    assert read_device_file(tmp_path, KEY, A, type(content)) == content
    (path,) = (tmp_path / "devices" / A).iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"laptop" not in path.read_bytes()
    other = tmp_path / "devices" / B / path.name
    other.parent.mkdir()
    shutil.copy(path, other)
    with pytest.raises(UnauthenticData, match=rf"{B}/{path.name}: not authentic"):
        read_device_file(tmp_path, KEY, B, type(content))
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(UnauthenticData, match=rf"{A}/{path.name}"):
            read_device_file(tmp_path, KEY, A, type(content))
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(UnauthenticData, match=rf"{A}/{path.name}"):
            read_device_file(tmp_path, KEY, A, type(content))


def test_files_of_one_device_cannot_be_exchanged(tmp_path: Path) -> None:
    write_device_file(tmp_path, KEY, A, RemovedDevices({}))
    shutil.copy(tmp_path / "devices" / A / "removed", tmp_path / "devices" / A / "seen")
    with pytest.raises(UnauthenticData, match=f"{A}/seen: not authentic"):
        read_device_file(tmp_path, KEY, A, DeviceProgress)


def test_a_device_with_an_older_key_is_known_but_decides_nothing(tmp_path: Path) -> None:
    for content in (ABOUT, DeviceProgress({}), LeaseClaim(A, 1.0, 1.0), RemovedDevices({B: 1.0})):
        write_device_file(tmp_path, KEY, A, content)
    (tmp_path / "devices" / B).mkdir()
    first, second = list_devices(tmp_path, KEY)
    assert (first.lease, second.is_removed) == (LeaseClaim(A, 1.0, 1.0), True)
    first, second = list_devices(tmp_path, NEWER)
    assert (first.about, first.seen, first.lease, first.problem) == (ABOUT, DeviceProgress({}), None, "")
    assert not second.is_removed
    write_device_file(tmp_path, NEWER, A, ABOUT)
    (first, _second) = list_devices(tmp_path, KEY)
    assert (first.about, first.problem) == (
        None, f"{A}/about: written with key 2 of the group; this device knows 1"
    )  # fmt: skip


def test_devices_are_listed_and_what_is_none_is_left_out(tmp_path: Path) -> None:
    assert list_devices(tmp_path, KEY) == []
    write_device_file(tmp_path, KEY, B, ABOUT)
    write_device_file(tmp_path, KEY, A, LeaseClaim(B, 1.0, 1.0))  # a claim in another's name is none
    devices = tmp_path / "devices"
    for name in ("g" * 16, "A" * 16, A[:-1], A + ".sync-conflict", ".stversions"):
        (devices / name).mkdir()
    (devices / C).symlink_to(devices / B)
    (devices / ("d" * 16)).write_text("a file")
    assert [(each.device, each.about, each.lease, each.problem) for each in list_devices(tmp_path, KEY)] == [
        (A, None, None, ""), (B, ABOUT, None, ""),
    ]  # fmt: skip
    assert [each.is_removed for each in list_devices(tmp_path, KEY, removed=[B])] == [False, True]


def test_links_and_files_of_absurd_size_are_named_and_not_read(tmp_path: Path) -> None:
    write_device_file(tmp_path, KEY, A, ABOUT)
    about = tmp_path / "devices" / A / "about"
    about.rename(tmp_path / "about")
    about.symlink_to(tmp_path / "about")
    assert list_devices(tmp_path, KEY)[0].problem == f"{A}/about is a symbolic link"
    about.unlink()
    with about.open("wb") as file:
        file.truncate(1 << 40)
    assert "has 1099511627776 bytes" in list_devices(tmp_path, KEY)[0].problem
    about.unlink()
    about.mkdir()
    assert list_devices(tmp_path, KEY)[0].problem == f"{A}/about is no regular file"


def test_nothing_is_written_outside_the_folder(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    (outside / "secret").write_text("mine")
    folder.mkdir()
    (folder / "devices").symlink_to(outside)
    with pytest.raises(UnsafeFile, match="devices is a link or a file"):
        write_device_file(folder, KEY, A, ABOUT)
    (folder / "devices").unlink()
    (folder / "devices").mkdir()
    (folder / "devices" / A).symlink_to(outside)
    with pytest.raises(UnsafeFile, match=f"{A} is a link or a file"):
        write_device_file(folder, KEY, A, ABOUT)
    (folder / "devices" / A).unlink()
    (folder / "devices" / A).mkdir()
    for name in ("about", "about.new"):
        (folder / "devices" / A / name).symlink_to(outside / "secret")
    write_device_file(folder, KEY, A, ABOUT)
    assert read_device_file(folder, KEY, A, DeviceAbout) == ABOUT
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "mine"
    with pytest.raises(ValueError, match="is no device"):
        write_device_file(folder, KEY, "../../outside", ABOUT)


@pytest.mark.parametrize(
    ("claims", "removed", "now", "holder"),
    [
        ([], (), 0.0, None),
        ([LeaseClaim(B, 10.0, 10.0), LeaseClaim(A, 20.0, 20.0)], (), 30.0, B),
        ([LeaseClaim(B, 10.0, 10.0), LeaseClaim(A, 10.0, 20.0)], (), 30.0, A),
        ([LeaseClaim(B, 10.0, 10.0), LeaseClaim(A, 20.0, 20.0)], (B,), 30.0, A),
        ([LeaseClaim(B, 10.0, 10.0), LeaseClaim(A, 20.0, 20.0)], (), 10.0 + DAY, A),
        ([LeaseClaim(B, 10.0, 10.0 + DAY), LeaseClaim(A, 20.0, 20.0)], (), 9.0 + 2 * DAY, B),
        ([LeaseClaim(B, 10.0, 10.0)], (), 10.0 + DAY, None),
        ([LeaseClaim(B, 10.0, 10.0)], (), 9.0 + DAY, B),
        ([LeaseClaim(B, 1.0, 40.0 + DAY), LeaseClaim(A, 20.0, 20.0)], (), 40.0, A),  # a clock a day ahead
        ([LeaseClaim(B, 5.0, 4.0), LeaseClaim(A, 20.0, 20.0)], (), 40.0, A),  # renewed before it began
    ],
)
def test_the_first_valid_claim_of_a_device_that_is_not_removed_holds_the_lease(
    claims: list[LeaseClaim], removed: tuple[str, ...], now: float, holder: str | None
) -> None:
    assert lease_holder(claims, removed, now) == holder
    assert lease_holder(claims[::-1], removed, now) == holder


@pytest.mark.parametrize(
    ("removals", "known", "gone"),
    [
        ({}, (), set()),
        ({A: {B: 1.0}}, (), {B}),
        ({A: {B: 1.0}, B: {A: 2.0, C: 2.0}}, (), {B}),
        ({A: {B: 2.0}, B: {A: 1.0}}, (), {A}),
        ({A: {B: 2.0}, B: {A: 1.0}}, (B,), {B}),
        ({A: {B: 1.0}, C: {A: 2.0}}, (), {A, B}),
        ({A: {A: 1.0}}, (), set()),
    ],
)
def test_a_removed_device_removes_no_other(
    removals: dict[str, dict[str, float]], known: tuple[str, ...], gone: set[str]
) -> None:
    assert removed_devices({by: RemovedDevices(devices) for by, devices in removals.items()}, known) == gone
