"""The segment files of the journal: reading what is readable in them, and finding them when renamed. docs/format.md.

A line contains no newline but the one that ends it, and nothing in it looks like the beginning of another line. So
where some bytes are damaged, a newline among them, the neighbouring lines are found all the same.
"""

import contextlib
import errno
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from mnemo_store.disk import PIECE_BYTES, Disk, file_identity
from mnemo_store.journal.dump import (
    ChangeRow,
    Checksummer,
    DumpFooter,
    DumpHeader,
    DumpRow,
    MemoryRow,
    VersionRow,
    decode,
)
from mnemo_store.journal.line_codec import JournalLine, SegmentHeader, decode_header, decode_line, unseal_json

BLOCK_BYTES = 4096  # the unit that is lost where the medium fails
OPEN_FILES_MAX = 64  # for fetching; one more closes the least recently used

T = TypeVar("T")

_HEADER = b'{"journal":'
_TAIL = re.compile(rb',"sum":"[0-9a-f]{16}"\}')


class FoundLine(NamedTuple, Generic[T]):
    """An intact line. Offset and length are those of its bytes without the newline."""

    offset: int
    length: int
    value: T


class UnreadableStretch(NamedTuple):
    """A stretch of bytes that is no line."""

    offset: int
    length: int
    why: str


class LineFormat(NamedTuple, Generic[T]):
    """The format of the lines of a file: how they begin, and a decoder, which raises ValueError."""

    start_pattern: re.Pattern[bytes]
    decode: Callable[[bytes], T]


class ChecksummedLine(NamedTuple):
    """A line of the journal and its checksum."""

    line: JournalLine
    sum: str


class DumpLine(NamedTuple):
    """A row of a snapshot, and its line in the stream, without the newline."""

    row: DumpRow | DumpFooter
    line: bytes


def _open_line(data: bytes) -> SegmentHeader | ChecksummedLine:
    return decode_header(data) if data.startswith(_HEADER) else ChecksummedLine(*decode_line(data))


def _open_row(data: bytes) -> SegmentHeader | DumpLine:
    if data.startswith(_HEADER):
        return decode_header(data)
    line = unseal_json(data)[0]
    return DumpLine(decode(line), line)


JOURNAL_LINES: LineFormat[SegmentHeader | ChecksummedLine] = LineFormat(
    re.compile(rb'\{"(?:seq|packed|journal)":'), _open_line
)
DUMP_LINES: LineFormat[SegmentHeader | DumpLine] = LineFormat(
    re.compile(rb'\{"(?:record_type|packed|mnemo_stream|end|journal)":'), _open_row
)


def read(fd: int, end: int, line_format: LineFormat[T]) -> Iterator[FoundLine[T] | UnreadableStretch]:
    """Reads the first `end` bytes of a file: lines and unreadable stretches, in order; adjacent stretches as one."""
    lost: UnreadableStretch | None = None
    for offset, raw in _split(fd, end):
        for piece in _pieces(offset, raw, line_format):
            if isinstance(piece, UnreadableStretch):
                lost = piece if lost is None else lost._replace(length=lost.length + piece.length)
                continue
            if lost is not None:
                yield lost
                lost = None
            yield piece
    if lost is not None:
        yield lost


def read_backwards(data: bytes) -> Iterator[FoundLine[SegmentHeader | ChecksummedLine]]:
    """The lines of the journal in data, the last first."""
    end = len(data)
    while end > 0:
        start = data.rfind(b"\n", 0, end - 1) + 1
        found = [piece for piece in _pieces(start, data[start:end], JOURNAL_LINES) if isinstance(piece, FoundLine)]
        yield from reversed(found)
        end = start


def header_of(path: Path) -> SegmentHeader | None:
    """The header of a segment; None where it cannot be read."""
    for piece in _pieces(0, first_line(path), JOURNAL_LINES):
        if isinstance(piece, FoundLine):
            return piece.value if isinstance(piece.value, SegmentHeader) else None
    return None


def first_line(path: Path) -> bytes:
    """The first line of a segment with its newline, cut after one block: a header is far shorter."""
    with path.open("rb") as file:
        line, newline, _ = read_bytes(file.fileno(), 0, BLOCK_BYTES).partition(b"\n")
    return line + newline


def first_seq_of(path: Path) -> int | None:
    """The first seq of a segment by its header or, where that is damaged, by its first readable line."""
    header = header_of(path)
    if header is not None:
        return header.first_seq
    with path.open("rb") as file:
        for piece in read(file.fileno(), os.fstat(file.fileno()).st_size, JOURNAL_LINES):
            if isinstance(piece, FoundLine) and isinstance(piece.value, ChecksummedLine):
                return piece.value.line.seq
    return None


def read_snapshot(path: Path) -> Iterator[FoundLine[SegmentHeader | DumpLine] | UnreadableStretch]:
    """Reads a snapshot: rows and unreadable stretches, in order."""
    with path.open("rb") as file:
        yield from read(file.fileno(), os.fstat(file.fileno()).st_size, DUMP_LINES)


def is_complete(path: Path) -> bool:
    """True if a snapshot has every row that was written."""
    checksummer, footer = Checksummer(), None
    for piece in read_snapshot(path):
        if isinstance(piece, FoundLine) and isinstance(piece.value, DumpLine):
            if isinstance(piece.value.row, DumpFooter):
                footer = piece.value.row
            else:
                checksummer.add(piece.value.line)
    return footer == checksummer.footer()


def end_of_snapshot(path: Path) -> tuple[int, str]:
    """Seq and checksum of the last transaction in a snapshot; the checksum is "" where its row is lost.

    Where the header of the segment is lost too, the highest seq of the rows is used, which is that of the last change.
    """
    seq, highest = None, 0
    for piece in read_snapshot(path):
        match piece:
            case FoundLine(value=SegmentHeader(first_seq=first_seq)):
                seq = first_seq - 1
            case FoundLine(value=DumpLine(row=DumpHeader(last=last))):
                return last
            case FoundLine(value=DumpLine(row=row)):
                if seq is not None:
                    break
                if isinstance(row, VersionRow | MemoryRow | ChangeRow):
                    highest = max(highest, row.seq)
    return (highest if seq is None else seq), ""


def read_bytes(fd: int, offset: int, length: int) -> bytes:
    """Reads these bytes, fewer at the end of the file. A block that the disk cannot read becomes zeros, which are no
    line: only the lines in that block are lost, not those next to it."""
    parts, end = [], offset + length
    while offset < end:
        block = min(end - offset, BLOCK_BYTES - offset % BLOCK_BYTES)
        try:
            part = os.pread(fd, end - offset, offset)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            part = bytes(block) if block == end - offset else read_bytes(fd, offset, block)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _split(fd: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Splits a file at its newlines; each part with its newline and its offset."""
    start = position = 0
    parts: list[bytes] = []
    while position < end and (chunk := read_bytes(fd, position, min(PIECE_BYTES, end - position))):
        position += len(chunk)
        first, *others = chunk.split(b"\n")
        parts.append(first)
        for other in others:
            raw = b"".join(parts) + b"\n"
            yield start, raw
            start += len(raw)
            parts = [other]
    if rest := b"".join(parts):
        yield start, rest


def _pieces(offset: int, raw: bytes, line_format: LineFormat[T]) -> Sequence[FoundLine[T] | UnreadableStretch]:
    """Decodes one part of a file: a line, or an unreadable stretch with the lines that may be within it."""
    body = raw.removesuffix(b"\n")
    try:
        return (FoundLine(offset, len(body), line_format.decode(body)),)
    except ValueError as error:
        return list(_salvage(offset, raw, line_format, str(error)))


def _salvage(
    offset: int, raw: bytes, line_format: LineFormat[T], why: str
) -> Iterator[FoundLine[T] | UnreadableStretch]:
    """Finds the lines within an unreadable stretch; yields them and the rest of the stretch."""
    done = 0
    begins = [match.start() for match in line_format.start_pattern.finditer(raw)]
    for start, limit in pairwise([*begins, len(raw)]):
        tail = _TAIL.search(raw, start, limit)
        if tail is None:
            continue
        try:
            value = line_format.decode(raw[start : tail.end()])
        except ValueError:
            continue
        if start > done:
            yield UnreadableStretch(offset + done, start - done, why)
        yield FoundLine(offset + start, tail.end() - start, value)
        done = tail.end()
    if raw[done:] != b"\n" or done == 0:
        yield UnreadableStretch(offset + done, len(raw) - done, why)


class SegmentFiles:
    """The files of the journal by numbers that they keep when they are renamed. Device and inode
    identify a file: another journal object may be writing here while this one reads.

    `fetch` is safe in any thread; everything else is for one thread.
    """

    def __init__(self) -> None:
        self._paths: dict[int, Path] = {}  # where each was last
        self._numbers: dict[tuple[int, int], int] = {}  # by device and inode
        self._ends: dict[int, int] = {}
        self._open: OrderedDict[int, int] = OrderedDict()  # file descriptors, the one used last at the end
        self._last_number = 0  # numbers; none is given twice
        self._lock = threading.Lock()

    def number(self, path: Path) -> int:
        return self._number(path, path.stat())

    def number_of(self, fd: int, path: Path) -> int:
        """The number of an open file that was opened by that name."""
        return self._number(path, os.fstat(fd))

    def _number(self, path: Path, stat: os.stat_result) -> int:
        identity = file_identity(stat)
        with self._lock:
            if identity not in self._numbers:
                self._last_number += 1
                self._numbers[identity] = self._last_number
            number = self._numbers[identity]
            self._paths[number] = path
        return number

    def path(self, number: int) -> Path:
        return self._paths[number]

    def set_end(self, number: int, end: int) -> None:
        """Limits the file to its first `end` bytes."""
        self._ends[number] = end

    def rename(self, source: Path, target: Path, disk: Disk) -> None:
        with self._lock:
            try:
                disk.rename(source, target)
            finally:  # a rename that reported an error may have happened
                number = self._numbers.get(file_identity(target.stat())) if target.exists() else None
                if number is not None:
                    self._paths[number] = target

    def discard(self, path: Path) -> None:
        """Removes a file from the set: nothing can be fetched from it any more."""
        number = self.number(path)
        with self._lock:
            del self._numbers[file_identity(path.stat())], self._paths[number]
            self._ends.pop(number, None)
            if number in self._open:
                os.close(self._open.pop(number))

    @contextlib.contextmanager
    def opened(self, number: int) -> Iterator[tuple[int, int]]:
        """A descriptor of the file for the duration of the block, and the number of valid bytes."""
        with self._lock:
            fd = self._open_file(number)
        try:
            size = os.fstat(fd).st_size
            yield fd, min(size, self._ends.get(number, size))
        finally:
            os.close(fd)

    def fetch(self, number: int, offset: int, length: int) -> bytes:
        """Reads bytes of a file. Raises OSError where it is gone or cannot be read."""
        with self._lock:
            if number not in self._open:
                self._open[number] = self._open_file(number)
                if len(self._open) > OPEN_FILES_MAX:
                    os.close(self._open.popitem(last=False)[1])
            self._open.move_to_end(number)
            return os.pread(self._open[number], length, offset)

    def close(self) -> None:
        """Closes all files; locations in them become invalid."""
        with self._lock:
            for fd in self._open.values():
                os.close(fd)
            for known in (self._open, self._paths, self._numbers, self._ends):
                known.clear()

    def _open_file(self, number: int) -> int:
        if number in self._paths:
            fd = os.open(self._paths[number], os.O_RDONLY | os.O_CLOEXEC)
            if self._numbers.get(file_identity(os.fstat(fd))) == number:
                return fd
            os.close(fd)
        raise FileNotFoundError(errno.ENOENT, "this segment of the journal was renamed or removed")
