"""The JSONL journal: two files of one global sequence, in segments. SPEC 3.3, FORMAT.md.

`journal/long_term.jsonl` and `journal/short_term.jsonl` are the segments being written; full ones are renamed to
`short_term.000001.jsonl`, … One transaction is one line. What is appended is durable when `append` returns; when it
raises, what it tried to append is void: cut off, and behind the header of a new segment.
"""

import contextlib
import heapq
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mnemo_store.disk import Disk, is_disk_full
from mnemo_store.errors import DiskFull, NewerFormat, OutcomeUnknown, WriteFailed
from mnemo_store.layout import FORMAT, Header, Line, Sealed, open_header, open_line, seal

FILES = ("long_term", "short_term")
SEGMENT_BYTES = 16 << 20  # a segment is full at this size; small enough to copy, scan and rewrite at once
NOTHING = (0, "")  # what the first line of all has for `prev`

_NUMBERED = re.compile(r"(long_term|short_term)\.(\d{6})\.jsonl")


class Damage(NamedTuple):
    """A stretch of a segment that could not be read."""

    segment: str
    offset: int  # bytes from the segment's start
    length: int
    why: str


class Read(NamedTuple):
    line: Line
    sum: str


@dataclass
class _File:
    """The segment of one file that is being written."""

    name: str
    path: Path
    fd: int = -1
    size: int = 0
    number: int = 1  # of this segment
    first_seq: int = 1


@dataclass
class Journal:
    """Append and replay. One thread at a time."""

    folder: Path
    store_id: str
    disk: Disk
    segment_bytes: int = SEGMENT_BYTES
    last: tuple[int, str] = NOTHING  # seq and checksum of the last line that counts
    damage: list[Damage] = field(default_factory=list)
    _files: dict[str, _File] = field(default_factory=dict)
    _needs_new_segments: bool = False

    def open(self) -> None:
        """Opens or makes both files; torn ends are cut off, kept beside as `.torn`, and listed in `damage`."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in FILES:
            file = self._files[name] = _File(name, self.folder / f"{name}.jsonl")
            numbered = self._numbered(name)
            file.number = numbered[-1][0] + 1 if numbered else 1
            if file.path.exists() and self._cut_torn_end(file):
                file.fd = os.open(file.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
                file.size = os.fstat(file.fd).st_size
        self.last = max((self._last_line(name) for name in FILES), key=lambda last: last[0])

    def begin(self, last: tuple[int, str]) -> None:
        """Makes `last` the line after which the next one comes. Lines behind it, if any stand there, are void."""
        behind = any(self._last_line(name)[0] > last[0] for name in FILES)
        self.last = last
        if behind:
            self._start_segments(last[0] + 1)
        for file in self._files.values():
            if file.fd < 0:
                self._start_segment(file, last[0] + 1)

    def append(self, lines: Sequence[tuple[Sealed, bool]], first_seq: int) -> None:
        """Makes the lines durable; each says whether it is long-term. Nothing of them remains if this raises.

        Raises DiskFull or WriteFailed when nothing was kept, OutcomeUnknown when that could not be made sure.
        """
        if self._needs_new_segments:
            self._start_segments_or_fail(first_seq)
        parts = {
            "long_term": b"".join(sealed.data for sealed, long_term in lines if long_term),
            "short_term": b"".join(sealed.data for sealed, long_term in lines if not long_term),
        }
        touched = [(self._files[name], data) for name, data in parts.items() if data]
        try:
            for file, data in touched:
                self.disk.append(file.fd, data)
            for file, _ in touched:
                self.disk.sync(file.fd)
        except OSError as error:
            self._take_back([file for file, _ in touched], first_seq, error)
        for file, data in touched:
            file.size += len(data)
        self.last = (first_seq + len(lines) - 1, lines[-1][0].sum)

    def rotate_full(self) -> None:
        """Starts a new segment where one is full. A failure leaves the full one in use, to be tried again."""
        for file in self._files.values():
            if file.size >= self.segment_bytes:
                with contextlib.suppress(OSError):
                    self._start_segment(file, self.last[0] + 1)

    def lines(self, after: int = 0) -> Iterator[Read]:
        """The lines that count with seq > after, in order. Unreadable stretches are passed over and in `damage`."""
        return heapq.merge(*(self._lines_of(name, after) for name in FILES), key=lambda read: read.line.seq)

    def size(self) -> int:
        """Bytes of all segments."""
        return sum(path.stat().st_size for path in self.folder.glob("*.jsonl"))

    def close(self) -> None:
        for file in self._files.values():
            if file.fd >= 0:
                os.close(file.fd)
                file.fd = -1

    def _take_back(self, files: Sequence[_File], first_seq: int, error: OSError) -> None:
        """Cuts the files back and opens new segments, then raises what the writers must be told."""
        cut = True
        for file in files:
            try:
                self.disk.truncate(file.fd, file.size)
                self.disk.sync(file.fd)
            except OSError:
                cut = False
        self._needs_new_segments = True
        try:
            self._start_segments(first_seq)
        except OSError as second:
            if not cut:
                raise OutcomeUnknown(f"the journal could not be written ({error}) nor cut back ({second})") from error
        if is_disk_full(error):
            raise DiskFull(f"no room for the journal: {error}") from error
        raise WriteFailed(f"the journal could not be written: {error}") from error

    def _start_segments_or_fail(self, first_seq: int) -> None:
        try:
            self._start_segments(first_seq)
        except OSError as error:
            if is_disk_full(error):
                raise DiskFull(f"no room for the journal: {error}") from error
            raise WriteFailed(f"the journal could not be written: {error}") from error

    def _start_segments(self, first_seq: int) -> None:
        for file in self._files.values():
            if file.fd < 0 or file.first_seq != first_seq or file.size > self._header_size(file):
                self._start_segment(file, first_seq)
        self._needs_new_segments = False

    def _start_segment(self, file: _File, first_seq: int) -> None:
        """Puts the segment in use aside under its number and an empty one, with its header, in its place."""
        if file.path.exists():
            number = self._numbered(file.name)[-1][0] + 1 if self._numbered(file.name) else 1
            self.disk.rename(file.path, self.folder / f"{file.name}.{number:06d}.jsonl")
            file.number = number + 1
        header = seal(Header(FORMAT, file.name, file.number, self.store_id, first_seq)).data
        self.disk.write_whole(file.path, [header])
        if file.fd >= 0:
            os.close(file.fd)
        file.fd = os.open(file.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        file.size, file.first_seq = len(header), first_seq

    def _header_size(self, file: _File) -> int:
        return len(seal(Header(FORMAT, file.name, file.number, self.store_id, file.first_seq)).data)

    def _numbered(self, name: str) -> list[tuple[int, Path]]:
        found = []
        for path in self.folder.iterdir():
            match = _NUMBERED.fullmatch(path.name)
            if match and match[1] == name:
                found.append((int(match[2]), path))
        return sorted(found)

    def _segments(self, name: str) -> list[Path]:
        active = self.folder / f"{name}.jsonl"
        return [path for _, path in self._numbered(name)] + ([active] if active.exists() else [])

    def _cut_torn_end(self, file: _File) -> bool:
        """Cuts off what follows the last whole line. False when not even the header is whole: the file goes aside."""
        data = file.path.read_bytes()
        end = data.rfind(b"\n") + 1
        while end > 0:
            start = data.rfind(b"\n", 0, end - 1) + 1
            if _is_whole(data[start : end - 1], header=start == 0):
                break
            end = start
        if end == len(data) and end > 0:
            file.first_seq = open_header(data[: data.find(b"\n")]).first_seq if _has_header(data) else 1
            return True
        self.damage.append(Damage(file.path.name, end, len(data) - end, "a torn end was cut off"))
        if data[end:]:
            self.disk.write_whole(file.path.with_name(f"{file.path.name}.{end}.torn"), [data[end:]])
        if end == 0:
            file.path.unlink()
            return False
        fd = os.open(file.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            self.disk.truncate(fd, end)
            self.disk.sync(fd)
        finally:
            os.close(fd)
        file.first_seq = open_header(data[: data.find(b"\n")]).first_seq if _has_header(data) else 1
        return True

    def _last_line(self, name: str) -> tuple[int, str]:
        """Seq and checksum of the file's last line that counts."""
        limit: int | None = None
        for path in reversed(self._segments(name)):
            data = path.read_bytes()
            last = NOTHING
            end = len(data)
            while end > 0:
                start = data.rfind(b"\n", 0, end - 1) + 1
                with contextlib.suppress(ValueError):
                    line, checksum = open_line(data[start : end - 1])
                    if limit is None or line.seq < limit:
                        last = (line.seq, checksum)
                        break
                end = start
            if last != NOTHING:
                return last
            if _has_header(data):
                first = open_header(data[: data.find(b"\n")]).first_seq
                limit = first if limit is None else min(limit, first)
        return NOTHING

    def _lines_of(self, name: str, after: int) -> Iterator[Read]:
        paths = self._segments(name)
        firsts: list[int | None] = [_first_seq(path) for path in paths]
        for index, path in enumerate(paths):
            later = [first for first in firsts[index + 1 :] if first is not None]
            limit = min(later) if later else None
            if limit is not None and limit <= after + 1:
                continue
            yield from self._lines_in(path, after, limit)

    def _lines_in(self, path: Path, after: int, limit: int | None) -> Iterator[Read]:
        offset = 0
        with path.open("rb") as file:
            for index, data in enumerate(file):
                start, offset = offset, offset + len(data)
                if index == 0 and _has_header(data):
                    header = open_header(data.rstrip(b"\n"))
                    if header.journal > FORMAT:
                        raise NewerFormat(f"{path.name} is of journal format {header.journal}, this is {FORMAT}")
                    continue
                try:
                    line, checksum = open_line(data.rstrip(b"\n"))
                except ValueError as error:
                    self.damage.append(Damage(path.name, start, len(data), str(error)))
                    continue
                if line.seq > after and (limit is None or line.seq < limit):
                    yield Read(line, checksum)


def _is_whole(data: bytes, *, header: bool) -> bool:
    try:
        if header:
            open_header(data)
        else:
            open_line(data)
    except ValueError:
        return False
    return True


def _has_header(data: bytes) -> bool:
    return data.startswith(b'{"journal":') and _is_whole(data[: data.find(b"\n")], header=True)


def _first_seq(path: Path) -> int | None:
    with path.open("rb") as file:
        data = file.readline()
    return open_header(data.rstrip(b"\n")).first_seq if _has_header(data) else None
