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
from mnemo_store.layout import FORMAT, Header, Line, Sealed, is_sealed, open_header, open_line, seal

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
    size: int = 0  # bytes that count
    number: int = 1  # of this segment
    first_seq: int = 1
    lines: int = 0  # bytes of size that are not the header
    sound: bool = False  # when not, a new segment is begun before anything is appended

    def is_empty_from(self, first_seq: int) -> bool:
        """Whether it holds nothing but a header that already makes older lines from first_seq on void."""
        return self.sound and self.lines == 0 and self.first_seq == first_seq


@dataclass
class Journal:
    """Append and replay. One thread at a time."""

    folder: Path
    store_id: str
    salt: str
    disk: Disk
    segment_bytes: int = SEGMENT_BYTES
    last: tuple[int, str] = NOTHING  # seq and checksum of the last line that counts
    damage: list[Damage] = field(default_factory=list)
    _files: dict[str, _File] = field(default_factory=dict)

    def open(self) -> None:
        """Opens both files; torn ends are cut off, kept beside as `.torn`, and listed in `damage`.

        Nothing is appended before `begin`. Raises NewerFormat, having changed nothing.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self.folder.glob("*.jsonl"):
            _refuse_newer(path)
        for name in FILES:
            file = self._files[name] = _File(name, self.folder / f"{name}.jsonl")
            numbered = self._numbered(name)
            file.number = numbered[-1][0] + 1 if numbered else 1
            if file.path.exists():
                self._open_active(file)
        self.last = max((self._last_line(name) for name in FILES), key=lambda last: last[0])

    def begin(self, last: tuple[int, str]) -> None:
        """Makes `last` the line after which the next one comes. Lines behind it, if any stand there, are void.

        On a disk that has no room for a new segment, the next `append` has to make it, or fail.
        """
        self.last = last
        for file in self._files.values():
            if not file.sound or self._last_line(file.name)[0] > last[0]:
                file.sound = False
                with contextlib.suppress(OSError):
                    self._start_segment(file, last[0] + 1)

    def append(self, lines: Sequence[tuple[Sealed, bool]], first_seq: int) -> None:
        """Makes the lines durable; each says whether it is long-term. Nothing of them remains if this raises.

        Raises DiskFull or WriteFailed when nothing was kept, OutcomeUnknown when that could not be made sure.
        """
        parts = {
            "long_term": b"".join(sealed.data for sealed, long_term in lines if long_term),
            "short_term": b"".join(sealed.data for sealed, long_term in lines if not long_term),
        }
        touched = [(self._files[name], data) for name, data in parts.items() if data]
        try:
            for file in self._files.values():
                if not file.sound:
                    self._start_segment(file, first_seq)
        except OSError as error:
            raise _refusal(error) from error
        try:
            for file, data in touched:
                self.disk.append(file.fd, data)
            for file, _ in touched:
                self.disk.sync(file.fd)
        except OSError as error:
            self._take_back([file for file, _ in touched], first_seq, error)
            raise _refusal(error) from error
        for file, data in touched:
            file.size += len(data)
            file.lines += len(data)
        self.last = (first_seq + len(lines) - 1, lines[-1][0].sum)

    def rotate_full(self) -> None:
        """Starts a new segment where one is full. Where that fails, it is tried again before the next line."""
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
        """Cuts each file back and begins a new segment, either of which makes what was tried void for good.

        Raises OutcomeUnknown when neither could be done.
        """
        unsure: OSError | None = None
        for file in files:
            cut = self._cut_back(file)
            if cut and file.is_empty_from(first_seq):
                continue
            file.sound = False
            try:
                self._start_segment(file, first_seq)
            except OSError as second:
                unsure = unsure if cut else second
        if unsure is not None:
            raise OutcomeUnknown(f"the journal could not be written ({error}) nor cut back ({unsure})") from error

    def _cut_back(self, file: _File) -> bool:
        try:
            self.disk.truncate(file.fd, file.size)
            self.disk.sync(file.fd)
        except OSError:
            return False
        return True

    def _start_segment(self, file: _File, first_seq: int) -> None:
        """Puts the segment in use aside under its number and an empty one, with its header, in its place.

        From the moment the new header may stand on the disk, nothing must be appended to the old segment: it would be
        void. So the file is not sound until the new one is open.
        """
        if file.path.exists():
            numbered = self._numbered(file.name)
            number = numbered[-1][0] + 1 if numbered else 1
            self.disk.rename(file.path, self.folder / f"{file.name}.{number:06d}.jsonl")
            file.sound, file.number = False, number + 1
            self.disk.sync_folder(self.folder)  # or a power loss could keep the name's second change and not its first
        header = seal(Header(FORMAT, file.name, file.number, self.store_id, self.salt, first_seq)).data
        self.disk.write_whole(file.path, [header])
        fd = os.open(file.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        if file.fd >= 0:
            os.close(file.fd)
        file.fd, file.size, file.lines, file.first_seq, file.sound = fd, len(header), 0, first_seq, True

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

    def _open_active(self, file: _File) -> None:
        """Opens the segment for appending, its torn end cut off. Where that cannot be, it is left to be put aside."""
        data = file.path.read_bytes()
        header = _header_of(data)
        if header is None:
            if data:
                self._note(Damage(file.path.name, 0, len(data), "it has no header: the segment was put aside"))
            return
        end = _whole_bytes(data)
        if end < len(data):
            self._note(Damage(file.path.name, end, len(data) - end, "a torn end was cut off"))
            with contextlib.suppress(OSError):
                self.disk.write_whole(file.path.with_name(f"{file.path.name}.{end}.torn"), [data[end:]])
        file.fd = os.open(file.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        file.size, file.first_seq = end, header.first_seq
        file.lines = end - data.find(b"\n") - 1
        file.sound = end == len(data) or self._cut_back(file)

    def _note(self, damage: Damage) -> None:
        if damage not in self.damage:
            self.damage.append(damage)

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
            first = _first_seq(path)
            if first is not None:
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
                if index == 0 and _header_of(data) is not None:
                    continue
                try:
                    line, checksum = open_line(data[:-1])
                except ValueError as error:
                    self._note(Damage(path.name, start, len(data), str(error)))
                    continue
                if line.seq > after and (limit is None or line.seq < limit):
                    yield Read(line, checksum)


def newest_header(folder: Path) -> Header | None:
    """The header of the segment begun last, which names the store. None where there is no journal."""
    headers = [header for path in folder.glob("*.jsonl") if (header := _header_of(_first_line(path))) is not None]
    return max(headers, key=lambda header: header.first_seq, default=None)


def _refusal(error: OSError) -> WriteFailed:
    if is_disk_full(error):
        return DiskFull(f"no room for the journal: {error}")
    return WriteFailed(f"the journal could not be written: {error}")


def _refuse_newer(path: Path) -> None:
    """Raises NewerFormat. Looks at the number alone, since all else of the header may have changed with it."""
    match = re.match(rb'\{"journal":(\d+)', _first_line(path))
    if match and int(match[1]) > FORMAT:
        raise NewerFormat(f"{path.name} is of journal format {int(match[1])}, this version knows {FORMAT}")


def _first_line(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.readline()


def _header_of(data: bytes) -> Header | None:
    """The header that a segment with these bytes begins with; None when it has none that can be read."""
    try:
        return open_header(data[: data.find(b"\n")])
    except ValueError:
        return None


def _whole_bytes(data: bytes) -> int:
    """Where a segment's last whole line ends."""
    end = data.rfind(b"\n") + 1
    while end > 0:
        start = data.rfind(b"\n", 0, end - 1) + 1
        if is_sealed(data[start : end - 1]):
            break
        end = start
    return end


def _first_seq(path: Path) -> int | None:
    """What a segment's header says, or, where it is damaged, the first line that is not."""
    with path.open("rb") as file:
        for data in file:
            header = _header_of(data)
            if header is not None:
                return header.first_seq
            with contextlib.suppress(ValueError):
                return open_line(data.rstrip(b"\n"))[0].seq
    return None
