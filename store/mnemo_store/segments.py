"""The files of the journal: what can be read in one, and where they are. FORMAT.md.

A line holds no newline but the one that ends it, and nothing within it looks like the beginning of another. So where
some bytes are damaged, a newline among them, the lines beside them are found all the same.
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

from mnemo_store.disk import Disk
from mnemo_store.layout import Header, Line, open_header, open_line, unseal_json
from mnemo_store.stream import (
    ChangeRow,
    MemoryRow,
    Row,
    StreamFooter,
    StreamHeader,
    Tally,
    VersionRow,
    decode,
)

CHUNK_BYTES = 1 << 20  # read at once
BLOCK_BYTES = 4096  # what one fault of the medium costs at least
OPEN_FILES_MAX = 64  # for fetching; a segment more closes the one that was used longest ago

T = TypeVar("T")
Identity = tuple[int, int]  # device and inode of a file

_HEADER = b'{"journal":'
_TAIL = re.compile(rb',"sum":"[0-9a-f]{16}"\}')


class Found(NamedTuple, Generic[T]):
    """A line that is as it was written. Offset and length are those of its bytes without the newline."""

    offset: int
    length: int
    value: T


class Lost(NamedTuple):
    """A stretch that is no line."""

    offset: int
    length: int
    why: str


class Shape(NamedTuple, Generic[T]):
    """What the lines of a file look like: how they begin, and how one is opened, which raises ValueError."""

    begins: re.Pattern[bytes]
    open: Callable[[bytes], T]


class Summed(NamedTuple):
    """A line of the journal and its checksum."""

    line: Line
    sum: str


class Unsealed(NamedTuple):
    """A row of a snapshot, and its line in the stream, without the newline."""

    row: Row | StreamFooter
    line: bytes


def _open_line(data: bytes) -> Header | Summed:
    return open_header(data) if data.startswith(_HEADER) else Summed(*open_line(data))


def _open_row(data: bytes) -> Header | Unsealed:
    if data.startswith(_HEADER):
        return open_header(data)
    line = unseal_json(data)[0]
    return Unsealed(decode(line), line)


LINES: Shape[Header | Summed] = Shape(re.compile(rb'\{"(?:seq|journal)":'), _open_line)
ROWS: Shape[Header | Unsealed] = Shape(re.compile(rb'\{"(?:record_type|mnemo_stream|end|journal)":'), _open_row)


def read(fd: int, end: int, shape: Shape[T]) -> Iterator[Found[T] | Lost]:
    """What the first `end` bytes of a file are, in order. Lost stretches that touch are one."""
    lost: Lost | None = None
    for offset, raw in _split(fd, end):
        for piece in _pieces(offset, raw, shape):
            if lost is None and isinstance(piece, Found):
                yield piece
            elif isinstance(piece, Lost) and lost is not None and lost.offset + lost.length == piece.offset:
                lost = lost._replace(length=lost.length + piece.length)
            else:
                if lost is not None:
                    yield lost
                lost = None
                if isinstance(piece, Found):
                    yield piece
                else:
                    lost = piece
    if lost is not None:
        yield lost


def backwards(data: bytes, shape: Shape[T]) -> Iterator[Found[T]]:
    """The lines that stand in data, the last first."""
    end = len(data)
    while end > 0:
        start = data.rfind(b"\n", 0, end - 1) + 1
        found = [piece for piece in _pieces(start, data[start:end], shape) if isinstance(piece, Found)]
        yield from reversed(found)
        end = start


def header_of(path: Path) -> Header | None:
    """The header that a segment begins with; None when it has none that can be read."""
    for piece in _pieces(0, first_line(path), LINES):
        if isinstance(piece, Found):
            return piece.value if isinstance(piece.value, Header) else None
    return None


def first_line(path: Path) -> bytes:
    """Of a segment, with its newline, as far as a block holds it: a header is far shorter."""
    with path.open("rb") as file:
        line, newline, _ = bytes_at(file.fileno(), 0, BLOCK_BYTES).partition(b"\n")
    return line + newline


def first_seq_of(path: Path) -> int | None:
    """What a segment's header says, or, where it is damaged, the first line that is not."""
    header = header_of(path)
    if header is not None:
        return header.first_seq
    with path.open("rb") as file:
        for piece in read(file.fileno(), os.fstat(file.fileno()).st_size, LINES):
            if isinstance(piece, Found) and isinstance(piece.value, Summed):
                return piece.value.line.seq
    return None


def rows_of(path: Path) -> Iterator[Found[Header | Unsealed] | Lost]:
    """What a snapshot consists of, in order."""
    with path.open("rb") as file:
        yield from read(file.fileno(), os.fstat(file.fileno()).st_size, ROWS)


def is_whole(path: Path) -> bool:
    """Whether a snapshot has every row that was written."""
    tally, footer = Tally(), None
    for piece in rows_of(path):
        if isinstance(piece, Found) and isinstance(piece.value, Unsealed):
            if isinstance(piece.value.row, StreamFooter):
                footer = piece.value.row
            else:
                tally.add(piece.value.line)
    return footer == tally.footer()


def end_of_snapshot(path: Path) -> tuple[int, str]:
    """Seq and checksum of the last transaction that is in a snapshot; the checksum "" where that row is lost.

    Where the segment's header is lost too, the highest seq of the rows stands in, which is that of the last change.
    """
    seq, highest = None, 0
    for piece in rows_of(path):
        match piece:
            case Found(value=Header(first_seq=first_seq)):
                seq = first_seq - 1
            case Found(value=Unsealed(row=StreamHeader(last=last))):
                return last
            case Found(value=Unsealed(row=row)):
                if seq is not None:
                    break
                if isinstance(row, VersionRow | MemoryRow | ChangeRow):
                    highest = max(highest, row.seq)
    return (highest if seq is None else seq), ""


def bytes_at(fd: int, offset: int, length: int) -> bytes:
    """What stands there, less of it where the file ends. A block that the disk cannot read comes as zeros, which are no
    line: it costs what stands in it, and not what stands beside it."""
    parts, end = [], offset + length
    while offset < end:
        block = min(end - offset, BLOCK_BYTES - offset % BLOCK_BYTES)
        try:
            part = os.pread(fd, end - offset, offset)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            part = bytes(block) if block == end - offset else bytes_at(fd, offset, block)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _split(fd: int, end: int) -> Iterator[tuple[int, bytes]]:
    """What stands between the newlines of a file, each with its newline and its offset."""
    start = position = 0
    parts: list[bytes] = []
    while position < end and (chunk := bytes_at(fd, position, min(CHUNK_BYTES, end - position))):
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


def _pieces(offset: int, raw: bytes, shape: Shape[T]) -> Sequence[Found[T] | Lost]:
    """What stands between two newlines: a line, or a stretch that is none with the lines that may be within it."""
    body = raw.removesuffix(b"\n")
    try:
        return (Found(offset, len(body), shape.open(body)),)
    except ValueError as error:
        return list(_salvaged(offset, raw, shape, str(error)))


def _salvaged(offset: int, raw: bytes, shape: Shape[T], why: str) -> Iterator[Found[T] | Lost]:
    """The lines within a stretch that is none, and what is left of it."""
    done = 0
    begins = [match.start() for match in shape.begins.finditer(raw)]
    for start, limit in pairwise([*begins, len(raw)]):
        tail = _TAIL.search(raw, start, limit)
        if tail is None:
            continue
        try:
            value = shape.open(raw[start : tail.end()])
        except ValueError:
            continue
        if start > done:
            yield Lost(offset + done, start - done, why)
        yield Found(offset + start, tail.end() - start, value)
        done = tail.end()
    if raw[done:] != b"\n" or done == 0:
        yield Lost(offset + done, len(raw) - done, why)


class Places:
    """The files of the journal under numbers that they keep when they are renamed. What a name stands for is seen from
    the file itself: another journal may be writing here, while this one reads.

    Fetching is safe in any thread, all else is for one.
    """

    def __init__(self) -> None:
        self._paths: dict[int, Path] = {}  # where each was last
        self._numbers: dict[Identity, int] = {}
        self._identities: dict[int, Identity] = {}
        self._ends: dict[int, int] = {}
        self._open: OrderedDict[int, int] = OrderedDict()  # file descriptors, the one used last at the end
        self._given = 0  # numbers; none is given twice
        self._lock = threading.Lock()

    def number(self, path: Path) -> int:
        return self._number(path, path.stat())

    def number_of(self, fd: int, path: Path) -> int:
        """Of a file that is open, and was opened by that name."""
        return self._number(path, os.fstat(fd))

    def _number(self, path: Path, stat: os.stat_result) -> int:
        identity = _identity(stat)
        with self._lock:
            if identity not in self._numbers:
                self._given += 1
                self._numbers[identity], self._identities[self._given] = self._given, identity
            number = self._numbers[identity]
            self._paths[number] = path
        return number

    def path(self, number: int) -> Path:
        return self._paths[number]

    def set_end(self, number: int, end: int) -> None:
        """Has only so many bytes of the file count."""
        self._ends[number] = end

    def rename(self, source: Path, target: Path, disk: Disk) -> None:
        with self._lock:
            try:
                disk.rename(source, target)
            finally:  # a rename that failed may be done
                number = self._numbers.get(_identity(target.stat())) if target.exists() else None
                if number is not None:
                    self._paths[number] = target

    def forget(self, path: Path) -> None:
        """Nothing can be fetched from it any more."""
        number = self.number(path)
        with self._lock:
            del self._numbers[self._identities.pop(number)], self._paths[number]
            self._ends.pop(number, None)
            if number in self._open:
                os.close(self._open.pop(number))

    @contextlib.contextmanager
    def reading(self, number: int) -> Iterator[tuple[int, int]]:
        """A descriptor of the file for as long as the block lasts, and how many of its bytes count."""
        with self._lock:
            fd = self._opened(number)
        try:
            size = os.fstat(fd).st_size
            yield fd, min(size, self._ends.get(number, size))
        finally:
            os.close(fd)

    def fetch(self, number: int, offset: int, length: int) -> bytes:
        """Raises OSError where the file is gone, or cannot be read."""
        with self._lock:
            if number not in self._open:
                self._open[number] = self._opened(number)
                if len(self._open) > OPEN_FILES_MAX:
                    os.close(self._open.popitem(last=False)[1])
            self._open.move_to_end(number)
            return os.pread(self._open[number], length, offset)

    def close(self) -> None:
        """Closes and forgets all files; what was said of places in them holds no longer."""
        with self._lock:
            for fd in self._open.values():
                os.close(fd)
            for known in (self._open, self._paths, self._numbers, self._identities, self._ends):
                known.clear()

    def _opened(self, number: int) -> int:
        if number in self._paths:
            fd = os.open(self._paths[number], os.O_RDONLY | os.O_CLOEXEC)
            if _identity(os.fstat(fd)) == self._identities[number]:
                return fd
            os.close(fd)
        raise FileNotFoundError(errno.ENOENT, "this segment of the journal was renamed or removed")


def _identity(stat: os.stat_result) -> Identity:
    return stat.st_dev, stat.st_ino
