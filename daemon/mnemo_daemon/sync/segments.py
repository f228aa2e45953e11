"""Segments: the entries that each device appends to the shared folder, and reading those of any device. SPEC 21.1

A reader gets a prefix of what a device wrote, in order, and all of it once everything has arrived. A device begins a
new segment where the last is full or old; its description names the segment that it continues and the entries before
it, so a reader sees by itself what is still missing. A number is never used twice.
"""

import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from mnemo_daemon.sync.cipher import SyncError, UnauthenticData
from mnemo_daemon.sync.frames import (
    BATCH_BYTES,
    SEGMENT_BYTES,
    SEGMENT_BYTES_MAX,
    FramePlace,
    SegmentContent,
    SegmentDescription,
    batches,
    open_description,
    open_entries,
    preamble,
    seal_description,
    seal_entries,
    split,
)
from mnemo_daemon.sync.group_keys import GroupKey
from mnemo_daemon.sync.shared_folder import (
    NEW_SUFFIX,
    UnsafeFile,
    device_folder,
    make_device_folder,
    names_in,
    open_file,
    place,
    read_file,
    replace_file,
)
from mnemo_store.disk import Disk

SEGMENT_SECONDS = 600.0
"""A segment of this age is closed: what carries files then never sends it again."""

NUMBER_MAX = 999_999
_SEGMENT_FILE = re.compile(r"([0-9]{6})\.seg")
_HEAD_BYTES = 4096  # they hold the description


class Position(NamedTuple):
    """A place in the entries of a device: behind this frame of this segment, with so many entries before it."""

    segment: int
    frame: int
    count: int  # type: ignore[assignment]  # a tuple has a method of that name, which nobody calls here


START = Position(0, 0, 0)


class ReadResult(NamedTuple):
    """Entries of a device, and the position behind them. Erased entries are left out: the position may move alone."""

    entries: list[bytes]
    position: Position
    problem: str = ""  # a sentence about something that is not as its device wrote it
    waiting: str = ""  # a sentence about what has not arrived yet
    went_back: bool = False  # the folder has less of the device than was read from it before


class FolderAhead(SyncError):
    """The folder has entries of this device that it does not know: its store was restored from an older state."""


class FolderBehind(SyncError):
    """The folder has less of this device than it wrote: the folder was set back, or files of it were removed."""


class DamagedSegment(SyncError):
    """A segment of this device is not as it wrote it."""


def segment_path(folder: Path, number: int) -> Path:
    return folder / f"{number:06}.seg"


class _Segment(NamedTuple):
    """A segment file with an authentic description."""

    number: int
    generation: int
    description: SegmentDescription

    @property
    def is_snapshot_start(self) -> bool:
        return self.description.part == 1

    @property
    def last_position(self) -> Position:
        """The position behind a part of a snapshot."""
        made = self.description
        return Position(self.number, made.frames, made.count + made.entries)


class _DeviceSegments:
    """The segments of one device, as they lie in the folder at one moment, from the segment `first` on."""

    def __init__(self, folder: Path, key: GroupKey, device: str, first: int = 0) -> None:
        self.key = key
        self.device = device
        self.folder = device_folder(folder, device)
        self.problems: dict[int, str] = {}  # a sentence about each segment that is not as it was written
        matches = [match for name in names_in(self.folder) if (match := _SEGMENT_FILE.fullmatch(name))]
        self.numbers = [number for match in matches if (number := int(match[1])) >= first]

    def path(self, number: int) -> Path:
        return segment_path(self.folder, number)

    @property
    def problem(self) -> str:
        """The problem of the first segment that has one."""
        return self.problems[min(self.problems)] if self.problems else ""

    def report(self, number: int, frame: int, reason: str) -> None:
        self.problems.setdefault(number, f"{place(self.path(number))}, frame {frame}: {reason}")

    @cached_property
    def found(self) -> dict[int, _Segment]:
        """The segments that have arrived and are authentic.

        A device that knows a newer key writes with no older one: who was excluded by a new key cannot go on from it.
        """
        found: dict[int, _Segment] = {}
        generation = 0
        for number in self.numbers:
            segment = self._read_description(number)
            if segment and segment.generation < generation:
                self.report(number, 0, f"written with key {segment.generation} of the group, after key {generation}")
            elif segment:
                found[number] = segment
                generation = segment.generation
        return found

    def content(self, number: int, head: int | None = None) -> SegmentContent:
        """Return the frames of a segment file, none if it cannot be read. They are not kept: there may be many."""
        try:
            return split(read_file(self.path(number), SEGMENT_BYTES_MAX, head=head))
        except FileNotFoundError:
            return split(b"")
        except (UnsafeFile, OSError) as error:
            self.problems.setdefault(number, str(error))
            return split(b"")

    def _read_description(self, number: int) -> _Segment | None:
        content = self.content(number, _HEAD_BYTES)
        if not content.frames:
            if content.problem:
                self.report(number, 0, content.problem)
            return None
        try:
            return _Segment(number, content.generation, open_description(self.key, self.device, number, content))
        except UnauthenticData as error:
            self.report(number, 0, str(error))
            return None

    def snapshot_after(self, number: int) -> _Segment | None:
        """Return the first part of the newest complete snapshot that begins after this segment."""
        for first in sorted(self.found, reverse=True):
            if first > number and self.found[first].is_snapshot_start and self.parts(self.found[first]):
                return self.found[first]
        return None

    def parts(self, first: _Segment) -> list[_Segment]:
        """Return all parts of a snapshot, from its first; none unless all of them have arrived completely."""
        parts = [first]
        while True:
            part = parts[-1]
            if len(self.content(part.number).frames) != 1 + part.description.frames:
                return []
            if part.description.is_last:
                return parts
            following = self.found.get(part.number + 1)
            if not following or following.description.part != part.description.part + 1:
                return []
            if following.description.previous != part.number or following.description.count != part.last_position.count:
                return []
            parts.append(following)

    def next_after(self, number: int) -> _Segment | None:
        """Return the segment that continues this one; a snapshot begins something new and continues none."""
        for found in self.found.values():
            if found.number > number and found.description.previous == number and not found.is_snapshot_start:
                return found
        return None

    def frames_after(self, content: SegmentContent, position: Position) -> Iterator[tuple[Position, list[bytes]]]:
        """Yield the authentic frames behind a position in its segment, each with the position behind it.

        Ends where one is not authentic, and reports it.
        """
        number, frame, count = position
        for index in range(frame + 1, len(content.frames)):
            try:
                entries = open_entries(self.key, content, FramePlace(self.device, number, index, count))
            except UnauthenticData as error:
                self.report(number, index, str(error))
                return
            count += len(entries)
            yield Position(number, index, count), entries
        if content.problem:
            self.report(number, len(content.frames), content.problem)


def read_entries(folder: Path, key: GroupKey, device: str, position: Position, limit_bytes: int) -> ReadResult:
    """Return what follows a position, up to a frame more than limit_bytes; read until the position stays.

    What has not arrived is waited for. What is not authentic is a problem: neither it nor anything behind it is taken,
    and it is tried again by the next call.
    """
    try:
        segments = _DeviceSegments(folder, key, device, position.segment)
    except UnsafeFile as error:
        return ReadResult([], position, str(error))
    if snapshot := segments.snapshot_after(position.segment):
        position = Position(snapshot.number, 0, snapshot.description.count)
    taken: list[bytes] = []
    size = 0
    while True:
        if position.segment:
            content = segments.content(position.segment)
            is_newest = all(number <= position.segment for number in segments.numbers)
            if is_newest and len(content.frames) <= position.frame:  # not even what lies before the position
                problem = f"the folder went back: it has less of device {device} than was read from it before"
                return ReadResult(taken, position, segments.problem or problem, went_back=not segments.problem)
            is_known = segments.found.get(position.segment) is not None
            for end, entries in segments.frames_after(content, position) if is_known else ():
                position = end
                taken += filter(None, entries)
                size += sum(map(len, entries))
                if size >= limit_bytes:
                    return ReadResult(taken, position, segments.problem)
            if position.frame < len(content.frames) - 1 or content.problem:
                return ReadResult(taken, position, segments.problem)
        following = segments.next_after(position.segment)
        if following is None or following.description.count > position.count:
            return ReadResult(taken, position, segments.problem, _waiting(segments, position))
        if following.description.count < position.count:
            reason = f"it continues after {following.description.count} entries; {position.count} were read"
            segments.report(following.number, 0, reason)
            return ReadResult(taken, position, segments.problem)
        position = Position(following.number, 0, position.count)


def _waiting(segments: _DeviceSegments, position: Position) -> str:
    """Return a sentence about what has not arrived behind a position; "" if nothing is known to be missing."""
    later = [number for number in segments.numbers if number > position.segment]
    if later:
        return f"{segments.device}: some of segments {position.segment or 1} to {later[-1]} has not arrived yet"
    if position.segment and segments.content(position.segment).is_partial:
        return f"{place(segments.path(position.segment))} has not arrived completely"
    return ""


def damage_of(folder: Path, key: GroupKey, device: str) -> str:
    """Return a sentence about the first thing of a device that is not as it wrote it; "" if there is none."""
    position, found = START, read_entries(folder, key, device, START, SEGMENT_BYTES)
    while not found.problem and found.position != position:
        position = found.position
        found = read_entries(folder, key, device, position, SEGMENT_BYTES)
    return found.problem


def end_of(folder: Path, key: GroupKey, device: str) -> Position:
    """Return the last authentic position of a device in the folder, whether or not all before it has arrived."""
    segments = _DeviceSegments(folder, key, device)
    snapshot = segments.snapshot_after(0)
    whole = {part.number for part in segments.parts(snapshot)} if snapshot else set[int]()
    for number in reversed(segments.numbers):
        found = segments.found.get(number)
        if found and (not found.description.part or number in whole):
            end = Position(number, 0, found.description.count)
            for position, _entries in segments.frames_after(segments.content(number), end):
                end = position
            return end
    return START


def newest_snapshot(folder: Path, key: GroupKey, device: str) -> int:
    """Return the first segment of a device's newest complete snapshot; 0 if there is none."""
    found = _DeviceSegments(folder, key, device).snapshot_after(0)
    return found.number if found else 0


class SegmentWriter:
    """Appends the entries of this device. `position` is the last that its caller has kept; nobody else writes here."""

    def __init__(
        self, folder: Path, key: GroupKey, device: str, position: Position, *,
        clock: Callable[[], float] = time.time, disk: Disk | None = None,
        segment_bytes: int = SEGMENT_BYTES, batch_bytes: int = BATCH_BYTES,
    ) -> None:  # fmt: skip
        self._segment_bytes, self._batch_bytes = segment_bytes, batch_bytes
        self.position = position
        self._shared = folder
        self._key = key
        self._device = device
        self._clock = clock
        self._disk = disk or Disk()
        self._size = -1  # bytes of the open segment up to the position; -1: to be looked at first
        self._began = -math.inf  # of the open segment; -inf: closed

    def append(self, entries: Iterable[bytes]) -> Position:
        """Append entries durably, and return the position behind them.

        After a failure or a crash the caller gives the entries behind its own position again: those that the folder
        already has are not written twice. Raises FolderAhead, FolderBehind, OSError; ValueError for an entry of 0 or
        of more than ENTRY_BYTES_MAX bytes.
        """
        waiting = [entry for batch in batches(entries, self._batch_bytes) for entry in batch]
        if not waiting:
            return self.position
        if self._size < 0 or self._size != self._size_now():
            del waiting[: self._reconcile(waiting)]
        for batch in batches(waiting, self._batch_bytes):
            self._append_batch(batch)
        return self.position

    def replace_with_snapshot(self, entries: Iterable[bytes]) -> Position:
        """Begin a new series with entries that replace all before them; return the position behind them.

        Possible in whatever state the folder is. A crash leaves parts without a last one, which nobody reads.
        """
        self._size = -1
        make_device_folder(self._shared, self._device, self._disk)
        number, previous, count = self._next_number(), self.position.segment, self.position.count
        source = batches(entries, self._batch_bytes)
        batch = next(source, None)
        part, is_last = 0, False
        end = self.position
        while not is_last:
            part += 1
            before, size = count, 0
            frames: list[bytes] = []
            while batch is not None and size < self._segment_bytes:
                frames.append(seal_entries(self._key, FramePlace(self._device, number, len(frames) + 1, count), batch))
                size += len(frames[-1])
                count += len(batch)
                batch = next(source, None)
            is_last = batch is None
            made = SegmentDescription(previous, before, self._clock(), part, is_last, len(frames), count - before)
            size = self._write_segment(number, made, frames, self._key)
            end = Position(number, len(frames), count)
            number, previous = number + 1, number
        self.position, self._size = end, size
        self._began = -math.inf
        return end

    def rewrite(self, keep: Callable[[bytes], bytes | None]) -> int:
        """Replace entries of this device for good; return how many.

        keep returns what stays of an entry: itself, another one, or None; then an empty entry holds its place. Each
        segment is replaced completely or not at all, so after a crash the caller begins again. Raises DamagedSegment
        for one that cannot be read: a snapshot and remove_before replace it.
        """
        self._size = -1
        segments = _DeviceSegments(self._shared, self._key, self._device)
        self._remove_drafts(segments)
        changed = 0
        for number in segments.numbers:
            segment = segments.found.get(number)
            if segment is None:
                raise DamagedSegment(segments.problems.get(number) or f"{place(segments.path(number))} is not complete")
            content = segments.content(number)
            key = self._key.until(segment.generation)
            frames: list[bytes] = []
            here, position = 0, Position(number, 0, segment.description.count)
            for end, entries in segments.frames_after(content, position):
                kept = [(keep(entry) or b"") if entry else b"" for entry in entries]
                here += sum(old != new for old, new in zip(entries, kept, strict=True))
                at = FramePlace(self._device, number, end.frame, position.count)
                frames.append(seal_entries(key, at, kept))
                position = end
            is_torn = content.is_partial or number in segments.problems
            if is_torn and position < self.position and number <= self.position.segment:
                raise DamagedSegment(segments.problems.get(number) or f"{place(segments.path(number))} is not complete")
            segments.problems.pop(number, None)
            if here or is_torn:
                self._write_segment(number, segment.description, frames, key)
            changed += here
        return changed

    def remove_before(self, segment: int) -> int:
        """Remove the own segments before this one, which begins the newest complete snapshot; return how many."""
        segments = _DeviceSegments(self._shared, self._key, self._device)
        snapshot = segments.snapshot_after(0)
        if snapshot is None or segment > snapshot.number:
            raise ValueError(
                f"segment {segment} is not the beginning of a complete snapshot: nothing replaces those before it"
            )
        old = [number for number in segments.numbers if number < segment]
        for number in old:
            self._disk.unlink(segments.path(number))
        self._remove_drafts(segments)
        self._disk.sync_folder(segments.folder)
        return len(old)

    def _append_batch(self, batch: Sequence[bytes]) -> None:
        now = self._clock()
        segment, frame, count = self.position
        if self._size >= self._segment_bytes or not 0 <= now - self._began < SEGMENT_SECONDS:
            number = self._next_number()
            sealed = seal_entries(self._key, FramePlace(self._device, number, 1, count), batch)
            self._size = self._write_segment(number, SegmentDescription(segment, count, now), [sealed], self._key)
            self._began = now
            self.position = Position(number, 1, count + len(batch))
            return
        sealed = seal_entries(self._key, FramePlace(self._device, segment, frame + 1, count), batch)
        size, self._size = self._size, -1
        with open(open_file(self._path(segment), os.O_WRONLY | os.O_APPEND), "ab", buffering=0) as file:
            self._disk.append(file.fileno(), sealed)
            self._disk.sync(file.fileno())
        self._size = size + len(sealed)
        self.position = Position(segment, frame + 1, count + len(batch))

    def _reconcile(self, waiting: Sequence[bytes]) -> int:
        """Find the position in the folder, and cut off what a crash has left behind it.

        Returns how many of the waiting entries are already there; moves the position behind them.
        """
        make_device_folder(self._shared, self._device, self._disk)
        segments = _DeviceSegments(self._shared, self._key, self._device, self.position.segment)
        self._remove_drafts(segments)
        position = self._behind_own_snapshot(segments)
        known = 0
        content: SegmentContent | None
        while True:
            content = segments.content(position.segment) if position.segment else None
            if content and len(content.frames) <= position.frame:
                raise FolderBehind(
                    segments.problem or f"the folder went back: it has less of device {self._device} than this wrote"
                )
            for end, entries in segments.frames_after(content, position) if content else ():
                if list(waiting[known : known + len(entries)]) != entries:
                    raise FolderAhead(f"the folder has changes of device {self._device} that this store does not know")
                known += len(entries)
                position = end
            following = segments.next_after(position.segment)
            if following is None:
                break
            if following.description.count != position.count:
                raise FolderAhead(f"the folder has changes of device {self._device} that this store does not know")
            position = Position(following.number, 0, position.count)
        if content:
            # Cut off what a crash has left behind the position, and find whether the segment is still open
            if len(content.frames) > position.frame + 2:
                raise FolderAhead(f"the folder has changes of device {self._device} that this store does not know")
            self._size = content.ends[position.frame]
            with open(open_file(self._path(position.segment), os.O_RDWR), "r+b", buffering=0) as file:
                if os.fstat(file.fileno()).st_size > self._size:
                    self._disk.truncate(file.fileno(), self._size)
                self._disk.sync(file.fileno())
            segment = segments.found.get(position.segment)
            is_open = segment and not segment.description.part and segment.generation == self._key.generation
            self._began = segment.description.began if segment and is_open else -math.inf
        self.position = position
        return known

    def _behind_own_snapshot(self, segments: _DeviceSegments) -> Position:
        """Return the position, or the end of the snapshot that was written at it just before a crash."""
        snapshot = segments.snapshot_after(self.position.segment)
        if snapshot is None:
            return self.position
        if snapshot.description.count != self.position.count:
            raise FolderAhead(f"the folder has a snapshot of device {self._device} that this store does not know")
        return segments.parts(snapshot)[-1].last_position

    def _write_segment(self, number: int, made: SegmentDescription, frames: Sequence[bytes], key: GroupKey) -> int:
        """Write a whole segment, completely or not at all, and return its size."""
        pieces = [preamble(key), seal_description(key, self._device, number, made), *frames]
        replace_file(self._path(number), pieces, self._disk)
        return sum(map(len, pieces))

    def _path(self, number: int) -> Path:
        return segment_path(device_folder(self._shared, self._device), number)

    def _size_now(self) -> int:
        """The size of the segment of the position; 0 if it does not exist."""
        try:
            return self._path(self.position.segment).lstat().st_size
        except FileNotFoundError:
            return 0

    def _next_number(self) -> int:
        """Return a number that no segment ever had."""
        numbers = _DeviceSegments(self._shared, self._key, self._device).numbers
        number = max([self.position.segment, *numbers]) + 1
        if number > NUMBER_MAX:
            raise SyncError(f"device {self._device} has written {NUMBER_MAX} segments: leave the group and join again")
        return number

    def _remove_drafts(self, segments: _DeviceSegments) -> None:
        """Remove segments that were being written when the process died."""
        for name in names_in(segments.folder):
            if name.endswith(NEW_SUFFIX):
                self._disk.unlink(segments.folder / name)
