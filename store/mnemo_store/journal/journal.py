"""The JSONL journal: two files of one global sequence, in segments, after a snapshot. SPEC 3.3, store/docs/format.md.

`journal/long_term.jsonl` and `journal/short_term.jsonl` are the active segments; full ones are renamed to
`short_term.000001.jsonl`, … One transaction is one line. Lines are durable when `append` returns. When it raises, the
lines are void: cut off, or made void by the header of a new segment.

A journal that was rewritten begins with `snapshot.000007.jsonl`: a dump of all that the store held after some
transaction. It replaces every segment with its number or a lower one.
"""

import contextlib
import errno
import heapq
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mnemo_store.codec import NO_CHANGES, Position
from mnemo_store.disk import PIECE_BYTES, Disk, is_disk_full, make_private_folder
from mnemo_store.errors import DiskFull, NewerFormat, UnknownOutcome, WriteFailure
from mnemo_store.journal import dump, segments
from mnemo_store.journal.dump import DumpFooter, DumpHeader, DumpRow
from mnemo_store.journal.line_codec import JournalLine, SealedLine, SegmentHeader, is_sealed, seal, seal_json
from mnemo_store.journal.segments import JOURNAL_LINES, ChecksummedLine, FoundLine, SegmentFiles, UnreadableStretch
from mnemo_store.records import FORMAT

JOURNAL_FILES = ("long_term", "short_term")
SNAPSHOT = "snapshot"
SEGMENT_BYTES = 16 << 20  # size of a full segment; small enough to copy, scan and rewrite at once

_NUMBERED = re.compile(r"(long_term|short_term|snapshot)\.(\d{6})\.jsonl")

log = logging.getLogger("mnemo.store")


class JournalDamage(NamedTuple):
    """A stretch of a segment that could not be read."""

    segment: str
    offset: int  # bytes from the segment's start
    length: int
    why: str


class LineLocation(NamedTuple):
    """The location of a line, without its newline. Valid until the journal is closed or the segment removed."""

    file: int  # number of the segment in `SegmentFiles`
    offset: int
    length: int


class LocatedLine(NamedTuple):
    """A line with its checksum and its location."""

    line: JournalLine
    sum: str
    location: LineLocation

    @property
    def position(self) -> Position:
        """The position of the store after this line."""
        return self.line.seq, self.sum

    def gap_after(self, end: Position) -> str:
        """A sentence on the changes that are missing between `end` and this line; "" where none is."""
        if self.line.seq != end[0] + 1:
            return f"changes {end[0] + 1} to {self.line.seq - 1} cannot be read in the journal"
        if self.line.prev != end and end != NO_CHANGES:
            log.warning("journal line %d does not name the line before it", self.line.seq)
        return ""


class LocatedRow(NamedTuple):
    row: DumpRow
    location: LineLocation


ReportDamage = Callable[[JournalDamage], None]


@dataclass
class _ActiveSegment:
    """The active segment of one of the two files."""

    name: str
    path: Path
    fd: int = -1
    file_number: int = 0  # its number in `SegmentFiles`
    size: int = 0  # valid bytes
    number: int = 0  # of this segment; 0 where its header cannot be read
    first_seq: int = 1
    line_bytes: int = 0  # size without the header
    is_appendable: bool = False  # if not, a new segment is begun before the next line is appended

    def is_empty_from(self, first_seq: int) -> bool:
        """True if it has no lines, only a header that already makes older lines from first_seq on void."""
        return self.is_appendable and self.line_bytes == 0 and self.first_seq == first_seq

    def close(self) -> None:
        self.is_appendable = False
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@dataclass
class Journal:
    """Appends and replays. For one thread at a time, except `fetch`."""

    folder: Path
    store_id: str
    salt: str
    disk: Disk
    segment_bytes: int = SEGMENT_BYTES
    format: int = FORMAT  # of new segments, and the newest that is read
    last: Position = NO_CHANGES  # seq and checksum of the last valid line
    snapshot_last: Position = NO_CHANGES  # of the last transaction in the snapshot; "" where its checksum is lost
    snapshot_number: int = 0  # number of the snapshot: only segments with a higher one are read
    damage: list[JournalDamage] = field(default_factory=list)
    _files: dict[str, _ActiveSegment] = field(default_factory=dict)
    _segment_files: SegmentFiles = field(default_factory=SegmentFiles)
    _snapshot: Path | None = None
    _highest: int = 0  # number of any snapshot in the folder
    _replaces: bool = False  # the segments that the snapshot replaces may be removed
    _rejected_snapshots: list[Path] = field(default_factory=list)  # damaged snapshots that are not needed
    _read_only: bool = False
    _found_at_open: list[JournalDamage] = field(default_factory=list)  # damage that only `open` notices

    def open(self, *, read_only: bool = False) -> None:
        """Opens both files; torn ends are cut off, kept in a file `.torn`, and listed in `damage`.

        Call `begin` before the first `append`. With `read_only` neither of them changes the disk; the first `append`
        then puts the disk in order, or fails. Raises NewerFormat, having changed nothing.
        """
        self._read_only, self._found_at_open = read_only, []
        if not read_only:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self.folder.glob("*.jsonl"):
            _check_format(path, self.format)
        self._files = {name: _ActiveSegment(name, self.folder / f"{name}.jsonl") for name in JOURNAL_FILES}
        for file in self._files.values():
            header = segments.header_of(file.path) if file.path.exists() else None
            file.number = header.segment if header is not None else 0
        self._choose_snapshot()
        for file in self._files.values():
            if file.path.exists() and not 0 < file.number <= self.snapshot_number:
                self._open_active(file)
            if file.number == 0:
                numbered = self._numbered(file.name)
                file.number = max(self._highest, numbered[-1][0] if numbered else 0) + 1
        seq, checksum = self.snapshot_last
        if seq and not checksum:  # the snapshot lost it: the line after it names it
            following = next(self.lines(seq), None)
            if following is not None and following.line.prev[0] == seq:
                self.snapshot_last = following.line.prev
        self.last = max((self.snapshot_last, *map(self._last_line, JOURNAL_FILES)), key=lambda last: last[0])

    def continue_after(self, last: Position) -> None:
        """Makes the next line follow the line `last`. Lines after it, if there are any, become void.

        On a disk without room for a new segment, the next `append` makes it, or fails.
        """
        if last[0] < self.snapshot_last[0]:
            raise ValueError(f"the journal goes on after its snapshot: {self.snapshot_last[0]}, not after {last[0]}")
        self.last = last
        if self._read_only:
            return
        for file in self._files.values():
            if not file.is_appendable or self._last_line(file.name)[0] > last[0]:
                file.is_appendable = False
                with contextlib.suppress(OSError):
                    self._start_segment(file, last[0] + 1)
        with contextlib.suppress(OSError):
            while self._rejected_snapshots:  # renamed, or a later start that reads other lines could choose one
                path = self._rejected_snapshots.pop()
                self.disk.rename(path, _unused_path(path.with_name(f"{path.name}.damaged")))
            self._remove_replaced()

    def append(self, lines: Sequence[tuple[SealedLine, bool]], first_seq: int) -> list[LineLocation]:
        """Makes the lines durable; each comes with whether it is long-term. Returns their locations.

        Raises DiskFull or WriteFailure where nothing of them remains, UnknownOutcome where that could not be ensured.
        """
        try:
            for file in self._files.values():
                if not file.is_appendable:
                    self._start_segment(file, first_seq)
        except OSError as error:
            raise _append_failure(error) from error
        locations: list[LineLocation] = []
        ends = {name: file.size for name, file in self._files.items()}
        parts: dict[str, list[bytes]] = {name: [] for name in JOURNAL_FILES}
        for (data, _), long_term in lines:
            name = "long_term" if long_term else "short_term"
            locations.append(LineLocation(self._files[name].file_number, ends[name], len(data) - 1))
            ends[name] += len(data)
            parts[name].append(data)
        touched = [self._files[name] for name, data in parts.items() if data]
        try:
            for file in touched:
                self.disk.append(file.fd, b"".join(parts[file.name]))
            for file in touched:
                self.disk.sync(file.fd)
        except OSError as error:
            self._revert_append(touched, first_seq, error)
            raise _append_failure(error) from error
        for file in touched:
            file.line_bytes += ends[file.name] - file.size
            file.size = ends[file.name]
            self._segment_files.set_end(file.file_number, file.size)
        self.last = (first_seq + len(lines) - 1, lines[-1][0].sum)
        return locations

    def rotate_full(self) -> None:
        """Starts a new segment for each full one. Where that fails, it is tried again before the next line."""
        for file in self._files.values():
            if file.size >= self.segment_bytes:
                with contextlib.suppress(OSError):
                    self._start_segment(file, self.last[0] + 1)

    def lines(self, after: int = 0) -> Iterator[LocatedLine]:
        """The valid lines after the snapshot with seq > after, in order. Unreadable stretches are skipped and listed in
        `damage`. Lines that are appended meanwhile may be included."""
        return self._lines(self.snapshot_number, max(after, self.snapshot_last[0]), self._report)

    def snapshot_rows(self) -> Iterator[LocatedRow]:
        """The rows of the snapshot, from its header to the row before its footer; none without a snapshot. Unreadable
        stretches are skipped and listed in `damage`."""
        return self._rows(self._report)

    def fetch(self, location: LineLocation) -> bytes:
        """The bytes at a location. Raises OSError where they are gone or cannot be read. Safe in any thread."""
        return self._segment_files.fetch(*location)

    def size(self) -> int:
        """Bytes of all segments. Safe in any thread."""
        total = 0
        for path in self.folder.glob("*.jsonl"):
            with contextlib.suppress(FileNotFoundError):  # renamed or removed meanwhile
                total += path.stat().st_size
        return total

    def close(self) -> None:
        """Closes all files. Locations become invalid."""
        for file in self._files.values():
            file.close()
        self._segment_files.close()

    # Rewriting

    def rewrite(self, rows: Iterable[bytes], last: Position) -> None:
        """Replaces the journal by a snapshot: `rows` is a dump of the store after transaction `last`.

        Raises DiskFull or WriteFailure: the journal is then as before, or it is the new one and some replaced segments
        are still there until the next start. Raises UnknownOutcome where only the next start shows which.
        """
        numbered = [number for name in (*JOURNAL_FILES, SNAPSHOT) for number, _ in self._numbered(name)]
        number = max(self._highest, *numbered, *(file.number for file in self._files.values())) + 1
        path = self.folder / f"{SNAPSHOT}.{number:06d}.jsonl"
        for file in self._files.values():
            file.is_appendable = False  # lines after the snapshot need a segment with a higher number
        self._highest = number
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.disk.replace_file(path, self._sealed(rows, number, last))
        except OSError as error:
            self._revert_snapshot(path, error)
            raise _append_failure(error) from error
        self._snapshot, self.snapshot_number, self._replaces = path, number, True
        self.snapshot_last = self.last = last
        try:
            for file in self._files.values():
                self._start_segment(file, last[0] + 1)
            self._remove_replaced()
        except OSError as error:
            raise _append_failure(error) from error
        self.damage.clear()

    def _sealed(self, rows: Iterable[bytes], number: int, last: Position) -> Iterator[bytes]:
        """The bytes of a snapshot. Raises ValueError where the dump is not of the state after `last`."""
        parts = [seal(SegmentHeader(self.format, SNAPSHOT, number, self.store_id, self.salt, last[0] + 1)).data]
        size, row = 0, b""
        for index, row in enumerate(rows):
            if index == 0:
                header = dump.decode(row.rstrip(b"\n"))
                if not isinstance(header, DumpHeader) or header.last != last:
                    raise ValueError(f"the dump is not of the store after change {last[0]}")
            parts.append(seal_json(row.rstrip(b"\n")).data)
            size += len(row)
            if size >= PIECE_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
        footer = dump.decode(row.rstrip(b"\n"))
        if not isinstance(footer, DumpFooter):
            raise ValueError("the dump is cut off")  # noqa: TRY004 - of the right type, but not the last row
        yield b"".join(parts)

    def _revert_snapshot(self, path: Path, error: OSError) -> None:
        """Removes a snapshot that could not be put in location, so that the next start does not find it either."""
        try:
            if path.exists():
                self.disk.unlink(path)
                self.disk.sync_folder(self.folder)
        except OSError as second:
            message = f"the journal could not be rewritten ({error}), nor the incomplete rewrite removed ({second})"
            raise UnknownOutcome(message) from error

    def _remove_replaced(self) -> None:
        """Removes the segments that the snapshot replaces, and files that were never put in location. Raises the first
        error after all that can be removed is removed."""
        failure: OSError | None = None
        paths = [*self.folder.glob("*.new"), *(self._replaced(self.snapshot_number) if self._replaces else ())]
        for path in paths:
            self._segment_files.discard(path)
            try:
                self.disk.unlink(path)
            except OSError as error:
                failure = failure or error
        if paths:
            self.disk.sync_folder(self.folder)
        if failure is not None:
            raise failure

    def _replaced(self, number: int) -> list[Path]:
        """The segments that a snapshot of this number replaces, without the active ones."""
        older = [path for name in JOURNAL_FILES for each, path in self._numbered(name) if each <= number]
        return older + [path for each, path in self._numbered(SNAPSHOT) if each < number]

    # The snapshot

    def _choose_snapshot(self) -> None:
        """Chooses the newest snapshot, unless it is damaged and everything it was made from is still there."""
        self._snapshot, self.snapshot_number, self._replaces, self.snapshot_last = None, 0, False, NO_CHANGES
        self._rejected_snapshots = []
        snapshots = self._numbered(SNAPSHOT)
        self._highest = snapshots[-1][0] if snapshots else 0
        while snapshots:
            number, path = snapshots.pop()
            last = segments.end_of_snapshot(path)
            old_files = [file for file in self._files.values() if 0 < file.number <= number]
            is_replacing = bool(old_files or self._replaced(number))
            is_whole = is_replacing and segments.is_complete(path)
            if is_replacing and not is_whole and self._is_complete_without(last[0], snapshots):
                why = "it is incomplete: the segments that it replaces are read instead"
                self._report_at_open(path, 0, path.stat().st_size, why)
                self._rejected_snapshots.append(path)
                continue
            self._snapshot, self.snapshot_number, self._replaces, self.snapshot_last = path, number, is_whole, last
            return

    def _is_complete_without(self, seq: int, older: list[tuple[int, Path]]) -> bool:
        """True if everything up to `seq` and after it can be read without the snapshot that ends there."""
        floor, end = 0, 0
        if older:
            floor, path = older[-1]
            if not segments.is_complete(path):
                return False
            end = segments.end_of_snapshot(path)[0]
        for read in self._lines(floor, end, lambda _: None):
            if read.line.seq != end + 1:
                return False
            end = read.line.seq
        return end >= seq

    def _rows(self, report: ReportDamage) -> Iterator[LocatedRow]:
        if self._snapshot is None:
            return
        path, checksummer, footer, is_lost = self._snapshot, dump.Checksummer(), None, False
        file = self._segment_files.number(path)
        for piece in segments.read_snapshot(path):
            match piece:
                case UnreadableStretch():
                    is_lost = True
                    report(JournalDamage(path.name, *piece))
                case FoundLine(offset, length, segments.DumpLine(row, line)):
                    if isinstance(row, DumpFooter):
                        footer = row
                    else:
                        checksummer.add(line)
                        yield LocatedRow(row, LineLocation(file, offset, length))
        if footer != checksummer.footer() and not is_lost:
            report(JournalDamage(path.name, path.stat().st_size, 0, "rows of it are missing"))

    # Checking

    def check(self) -> list[JournalDamage]:
        """The damage of the journal on the disk: unreadable stretches of snapshot and segments, and lines that do not
        follow the one before. Reads everything; changes nothing."""
        lost, breaks = self._examine()
        return sorted({*lost, *breaks, *(self._found_at_open if self._read_only else ())})

    def quarantine(self, folder: Path) -> list[Path]:
        """Keeps in folder the unreadable data that would go with the segments: torn ends and damaged snapshots are
        moved there, the stretches that `check` finds are copied. Returns the files. Raises OSError."""
        make_private_folder(folder)
        kept = []
        for path in sorted([*self.folder.glob("*.torn"), *self.folder.glob("*.damaged")]):
            kept.append(_unused_path(folder / path.name))
            self.disk.rename(path, kept[-1])
        for damage in (each for each in self._examine()[0] if each.length):
            stretch = self._bytes_in(damage.segment, damage.offset, damage.length)
            kept.append(_unused_path(folder / f"{damage.segment}.{damage.offset}.damaged"))
            self.disk.replace_file(kept[-1], [stretch])
        if kept:
            self.disk.sync_folder(folder)
            self.disk.sync_folder(self.folder)
        return kept

    def _examine(self) -> tuple[list[JournalDamage], list[JournalDamage]]:
        """The unreadable stretches, and the lines that do not follow the one before."""
        lost, breaks, counted = list[JournalDamage](), list[JournalDamage](), dict[str, int]()
        for _ in self._rows(lost.append):
            pass
        end = self.snapshot_last
        for line, checksum, location in self._lines(self.snapshot_number, end[0], lost.append):
            segment, why = self._segment_files.path(location.file).name, ""
            if line.seq <= end[0]:
                why = f"change {line.seq} is here a second time"
            elif line.seq > end[0] + 1:
                why = f"changes {end[0] + 1} to {line.seq - 1} are missing before it"
            elif line.prev != end and (end == NO_CHANGES or end[1]):
                why = "it does not name the line before it"
            if why:
                breaks.append(JournalDamage(segment, location.offset, location.length, why))
            end = (line.seq, checksum)
            counted[segment] = location.offset
        breaks += self._missing_at_end(end[0])
        if not breaks:
            lost = [damage for damage in lost if not self._is_of_refused_lines(damage, counted.get(damage.segment, 0))]
        return lost, breaks

    def _missing_at_end(self, seq: int) -> list[JournalDamage]:
        """The damage where the header of a segment shows that there were lines after `seq`."""
        paths = [path for name in JOURNAL_FILES for path in self._segments(name, self.snapshot_number)]
        begun = [(header.first_seq, path.name) for path in paths if (header := segments.header_of(path)) is not None]
        first_seq, name = max(begun, default=(0, ""))
        if first_seq <= seq + 1:
            return []
        return [JournalDamage(name, 0, 0, f"changes {seq + 1} to {first_seq - 1} are missing before it")]

    def _is_of_refused_lines(self, damage: JournalDamage, last_counted: int) -> bool:
        """True if, in a journal without a missing line, this is the end of an abandoned segment, after its last valid
        line: lines that could be neither written completely nor cut off, or that a power loss left in part."""
        match = _NUMBERED.fullmatch(damage.segment)
        is_end = match is not None and match[1] in JOURNAL_FILES and damage.offset > last_counted
        if not is_end or damage.offset == 0:
            return False
        return self._bytes_in(damage.segment, damage.offset - 1, 1) == b"\n"

    def _bytes_in(self, segment: str, offset: int, length: int) -> bytes:
        """Reads these bytes of a segment, with zeros for those that cannot be read."""
        with (self.folder / segment).open("rb") as file:
            return segments.read_bytes(file.fileno(), offset, length)

    # Segments

    def _revert_append(self, files: Sequence[_ActiveSegment], first_seq: int, error: OSError) -> None:
        """Cuts each file back and begins a new segment; either makes the attempted lines void for good.

        Raises UnknownOutcome where neither could be done.
        """
        unsure: OSError | None = None
        for file in files:
            cut = self._cut_back(file)
            if cut and file.is_empty_from(first_seq):
                continue
            file.is_appendable = False
            try:
                self._start_segment(file, first_seq)
            except OSError as second:
                unsure = unsure if cut else second
        if unsure is not None:
            raise UnknownOutcome(f"the journal could not be written ({error}) nor cut back ({unsure})") from error

    def _cut_back(self, file: _ActiveSegment) -> bool:
        try:
            self.disk.truncate(file.fd, file.size)
            self.disk.sync(file.fd)
        except OSError:
            return False
        return True

    def _start_segment(self, file: _ActiveSegment, first_seq: int) -> None:
        """Renames the active segment to its number and puts an empty one, with its header, in its location.

        From the moment the new header may be on the disk, a line appended to the old segment would be void. So the file
        is not appendable until the new one is open.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if file.path.exists():
            numbered = self._numbered(file.name)
            number = max(file.number, numbered[-1][0] + 1 if numbered else 1)
            try:
                self._segment_files.rename(file.path, self.folder / f"{file.name}.{number:06d}.jsonl", self.disk)
            finally:
                if not file.path.exists():  # also where a rename that reported an error has happened
                    file.is_appendable, file.number = False, number + 1
            self.disk.sync_folder(self.folder)  # or a power loss could keep the name's second change and not its first
        file.number = max(file.number, self._highest + 1)
        header = seal(SegmentHeader(self.format, file.name, file.number, self.store_id, self.salt, first_seq)).data
        file.is_appendable = False
        self.disk.replace_file(file.path, [header])
        fd = os.open(file.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        file.close()
        file.fd, file.size, file.line_bytes, file.first_seq, file.is_appendable = fd, len(header), 0, first_seq, True
        file.file_number = self._segment_files.number_of(fd, file.path)
        self._segment_files.set_end(file.file_number, file.size)

    def _numbered(self, name: str) -> list[tuple[int, Path]]:
        matches = ((_NUMBERED.fullmatch(path.name), path) for path in self.folder.glob("*.jsonl"))
        return sorted((int(match[2]), path) for match, path in matches if match and match[1] == name)

    def _segments(self, name: str, floor: int) -> list[Path]:
        """The segments of one file that are read after the snapshot with the number `floor`, in order."""
        file = self._files[name]
        is_active = file.path.exists() and not 0 < file.number <= floor
        return [path for number, path in self._numbered(name) if number > floor] + ([file.path] if is_active else [])

    def _open_active(self, file: _ActiveSegment) -> None:
        """Opens the segment for appending, with its torn end cut off. Where that fails, a new segment will replace
        it."""
        try:
            data = file.path.read_bytes()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            # a complete end and a torn one look alike
            self._report_at_open(file.path, 0, file.path.stat().st_size, f"it cannot be read: {error.strerror}")
            return
        header = segments.header_of(file.path)
        last = next(segments.read_backwards(data), None)
        if header is None or last is None:
            if data:
                self._report_at_open(file.path, 0, len(data), "it has no header that can be read")
            return
        end = last.offset + last.length
        if data[end : end + 1] != b"\n":
            self._report_at_open(file.path, end, len(data) - end, "the newline of its last line is lost")
            return
        file.size, file.first_seq = end + 1, header.first_seq
        file.line_bytes = file.size - data.find(b"\n") - 1
        file.file_number = self._segment_files.number(file.path)
        self._segment_files.set_end(file.file_number, file.size)
        is_torn = file.size < len(data)
        if is_torn:
            self._report_at_open(file.path, file.size, len(data) - file.size, "a torn end")
        if self._read_only or (is_torn and not self._keep_torn(file, data[file.size :])):
            return
        with contextlib.suppress(OSError):  # a disk that cannot be written
            file.fd = os.open(file.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            file.is_appendable = not is_torn or self._cut_back(file)

    def _keep_torn(self, file: _ActiveSegment, end: bytes) -> bool:
        try:
            self.disk.replace_file(_unused_path(file.path.with_name(f"{file.path.name}.{file.size}.torn")), [end])
        except OSError:
            return False
        return True

    def _report_at_open(self, path: Path, offset: int, length: int, why: str) -> None:
        damage = JournalDamage(path.name, offset, length, why)
        self._found_at_open.append(damage)
        self._report(damage)

    def _report(self, damage: JournalDamage) -> None:
        if damage not in self.damage:
            self.damage.append(damage)

    def _last_line(self, name: str) -> Position:
        """Seq and checksum of the last valid line of a file."""
        limit: int | None = None
        for path in reversed(self._segments(name, self.snapshot_number)):
            with self._segment_files.opened(self._segment_files.number(path)) as (fd, end):
                data = segments.read_bytes(fd, 0, end)
            for found in segments.read_backwards(data):
                if isinstance(found.value, ChecksummedLine) and (limit is None or found.value.line.seq < limit):
                    return found.value.line.seq, found.value.sum
            first = segments.first_seq_of(path)
            if first is not None:
                limit = first if limit is None else min(limit, first)
        return NO_CHANGES

    def _lines(self, floor: int, after: int, report: ReportDamage) -> Iterator[LocatedLine]:
        both = (self._lines_of(name, floor, after, report) for name in JOURNAL_FILES)
        return heapq.merge(*both, key=lambda read: read.line.seq)

    def _lines_of(self, name: str, floor: int, after: int, report: ReportDamage) -> Iterator[LocatedLine]:
        paths = self._segments(name, floor)
        files = [self._segment_files.number(path) for path in paths]
        firsts = [segments.first_seq_of(path) for path in paths]
        for index, file in enumerate(files):
            later = [first for first in firsts[index + 1 :] if first is not None]
            limit = min(later) if later else None
            if limit is None or limit > after + 1:
                yield from self._lines_in(file, after, limit, report)

    def _lines_in(self, file: int, after: int, limit: int | None, report: ReportDamage) -> Iterator[LocatedLine]:
        with self._segment_files.opened(file) as (fd, end):
            for piece in segments.read(fd, end, JOURNAL_LINES):
                if isinstance(piece, UnreadableStretch):
                    report(JournalDamage(self._segment_files.path(file).name, *piece))
                elif isinstance(piece.value, ChecksummedLine):
                    line, checksum = piece.value
                    if line.seq > after and (limit is None or line.seq < limit):
                        yield LocatedLine(line, checksum, LineLocation(file, piece.offset, piece.length))


def newest_header(folder: Path) -> SegmentHeader | None:
    """The header of the newest segment, which names the store. None where there is no journal."""
    headers = [header for path in folder.glob("*.jsonl") if (header := segments.header_of(path)) is not None]
    return max(headers, key=lambda header: (header.segment, header.first_seq), default=None)


def _unused_path(path: Path) -> Path:
    """The path, or one with a number added, at which there is no file yet."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}.{number}{path.suffix}")
    return free


def _append_failure(error: OSError) -> WriteFailure:
    if is_disk_full(error):
        return DiskFull(f"no room for the journal: {error}")
    return WriteFailure(f"the journal could not be written: {error}")


def _check_format(path: Path, supported: int) -> None:
    """Raises NewerFormat. Reads the number alone, since everything else in the header may have changed with the format,
    except the checksum: without that, one flipped bit in the number would keep the store closed."""
    first = segments.first_line(path)
    match = re.match(rb'\{"journal":(\d+)', first)
    if match and int(match[1]) > supported and is_sealed(first.removesuffix(b"\n")):
        raise NewerFormat(f"{path.name} has format {int(match[1])}; this version supports formats up to {supported}")
