"""The small files of each device: its name, the positions it has read, its claim of the cycles, devices it removed.

Each is sealed for its device and its name, and replaced at once. SPEC 21.1
"""

import struct
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from mnemo_daemon.sync.cipher import UnauthenticData, seal, unseal
from mnemo_daemon.sync.group_keys import GroupKey
from mnemo_daemon.sync.segments import Position
from mnemo_daemon.sync.shared_folder import (
    UnsafeFile,
    device_folder,
    device_names,
    make_device_folder,
    place,
    read_file,
    replace_file,
)
from mnemo_store.disk import Disk

MAGIC = b"mnemo device 1\n"
FILE_BYTES_MAX = 4 << 20
LEASE_SECONDS = 86_400.0
"""A claim that was not renewed for a day is over. It is renewed hourly."""

_GENERATION = struct.Struct(">I")


class DeviceAbout(msgspec.Struct, frozen=True):
    """A device as a person knows it."""

    name: str
    version: str  # of mnemod
    began: float  # the time at which it joined, in seconds
    written: float  # the time of this file
    has_left: bool = False  # it shares no more, and nothing waits for it


class DeviceProgress(msgspec.Struct, frozen=True):
    """The positions that a device has read of each other, and its own end; the erasures that it has carried out; the
    devices of which something was not as they wrote it."""

    positions: dict[str, Position]
    erasures: list[str] = []
    damaged: list[str] = []


class LeaseClaim(msgspec.Struct, frozen=True):
    """The claim of one device to run the cycles."""

    device: str
    since: float  # the clock at which it began
    renewed: float  # the clock at which it was last renewed


class RemovedDevices(msgspec.Struct, frozen=True):
    """The devices that one has removed, each with the time."""

    devices: dict[str, float]


DeviceFile = DeviceAbout | DeviceProgress | LeaseClaim | RemovedDevices
FileT = TypeVar("FileT", bound=DeviceFile)

FILE_NAMES: dict[type[msgspec.Struct], str] = {
    DeviceAbout: "about", DeviceProgress: "seen", LeaseClaim: "lease", RemovedDevices: "removed",
}  # fmt: skip
OF_NEWEST_KEY: frozenset[type[msgspec.Struct]] = frozenset({LeaseClaim, RemovedDevices})
"""Files that count only with the newest key: a device that was excluded by it must not decide anything."""


class ListedDevice(NamedTuple):
    """A device of the group, as the folder shows it."""

    device: str
    about: DeviceAbout | None  # None: not arrived, or a problem
    seen: DeviceProgress | None
    lease: LeaseClaim | None
    is_removed: bool
    problem: str  # a sentence about a file that is not as its device wrote it

    @property
    def is_waited_for(self) -> bool:
        """Return whether what the others share has to reach it."""
        return not self.is_removed and not (self.about and self.about.has_left)


def write_device_file(
    folder: Path, key: GroupKey, device: str, content: DeviceFile, *, disk: Disk | None = None
) -> None:
    """Replace a file of this device, durably and at once."""
    disk = disk or Disk()
    name = FILE_NAMES[type(content)]
    path = make_device_folder(folder, device, disk) / name
    subkey = key.subkey("device files", key.generation)
    sealed = seal(subkey, msgspec.json.encode(content), _context(key, key.generation, device, name))
    replace_file(path, [MAGIC, _GENERATION.pack(key.generation), sealed], disk)


def read_device_file(folder: Path, key: GroupKey, device: str, kind: type[FileT]) -> FileT | None:
    """Return a file of a device; None if it has not arrived. Raises UnauthenticData, UnsafeFile."""
    name = FILE_NAMES[kind]
    path = device_folder(folder, device) / name
    try:
        data = read_file(path, FILE_BYTES_MAX)
    except FileNotFoundError:
        return None
    start = len(MAGIC) + _GENERATION.size
    if not data.startswith(MAGIC) or len(data) < start:
        raise UnauthenticData(f"{place(path)} is damaged, or no file of this format")
    (generation,) = _GENERATION.unpack_from(data, len(MAGIC))
    try:
        plain = unseal(key.subkey("device files", generation), data[start:], _context(key, generation, device, name))
        content = msgspec.json.decode(plain, type=kind)
    except (UnauthenticData, msgspec.DecodeError) as error:
        raise UnauthenticData(f"{place(path)}: {error}") from None
    return None if kind in OF_NEWEST_KEY and generation < key.generation else content


def list_devices(folder: Path, key: GroupKey, *, removed: Collection[str] = ()) -> list[ListedDevice]:
    """Return all devices of the group; `removed` are those that this device knows to be removed.

    A removed device removes no other: what it wrote does not count.
    """
    read: dict[str, ListedDevice] = {}
    removals: dict[str, RemovedDevices] = {}
    for device in device_names(folder):
        problems: list[str] = []
        about = _tried(folder, key, device, DeviceAbout, problems)
        seen = _tried(folder, key, device, DeviceProgress, problems)
        lease = _tried(folder, key, device, LeaseClaim, problems)
        lease = lease if lease and lease.device == device else None
        if removal := _tried(folder, key, device, RemovedDevices, problems):
            removals[device] = removal
        read[device] = ListedDevice(device, about, seen, lease, False, problems[0] if problems else "")
    gone = removed_devices(removals, removed)
    return [each._replace(is_removed=each.device in gone) for each in read.values()]


def removed_devices(removals: dict[str, RemovedDevices], known: Collection[str] = ()) -> set[str]:
    """Return the devices that are removed: those known to be, and those that another, earlier or not removed, removed.

    The earliest removal counts first, so of two that removed each other the later one is still there.
    """
    gone = set(known)
    decisions = sorted(
        (when, by, device) for by, removal in removals.items() for device, when in removal.devices.items()
    )
    for _when, by, device in decisions:
        if by not in gone and by != device:
            gone.add(device)
    return gone


def lease_holder(claims: Iterable[LeaseClaim], removed: Collection[str], now: float) -> str | None:
    """Return the device that runs the cycles: of those with a valid claim, the one that claimed first; None: no one.

    A claim from more than a day in the future is as invalid as one from more than a day ago: no clock is that wrong.
    """
    valid = [
        (claim.since, claim.device)
        for claim in claims
        if claim.device not in removed and abs(now - claim.renewed) < LEASE_SECONDS and claim.since <= claim.renewed
    ]
    return min(valid)[1] if valid else None


def _tried(folder: Path, key: GroupKey, device: str, kind: type[FileT], problems: list[str]) -> FileT | None:
    try:
        return read_device_file(folder, key, device, kind)
    except (UnauthenticData, UnsafeFile, OSError) as error:
        problems.append(str(error))
        return None


def _context(key: GroupKey, generation: int, device: str, name: str) -> bytes:
    return key.group + bytes.fromhex(device) + _GENERATION.pack(generation) + name.encode()
