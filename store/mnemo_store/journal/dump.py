"""The dump: everything the store keeps, as one stream of JSON lines. store/docs/format.md, "The stream".

An export is a dump, an import of an export reads one, and a rewritten journal begins with one. Equal states give equal
bytes: the rows have one order, and none of them says when or where the dump was made. Its footer has the number of
rows and a digest, so that a dump that was cut off or altered is noticed.
"""

import functools
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from operator import or_
from typing import Any, TypeVar, get_args

import msgspec

from mnemo_store.backend import Snapshot, StateWriter
from mnemo_store.codec import NO_CHANGES, encode_json
from mnemo_store.errors import StoreCorruption
from mnemo_store.records import FORMAT, Change, ChangeEntry, Memory, Record
from mnemo_store.tables import (
    BY_CHANGE,
    CHANGES,
    MEMORIES,
    META,
    NOTES,
    TABLES,
    DumpSection,
    LoggedChange,
    StoredMemory,
    Table,
    put_of,
    record_in,
)

DUMP_VERSION = 1
DUMP_SLICE = 200  # rows of a table that are read in one snapshot at most
SLICE_SECONDS_MAX = 0.03  # a snapshot is closed after that, since none may live over 100 ms [SPEC 3.5]
LOADED = "load"  # `what` of a provisional history entry

R = TypeVar("R")

SnapshotSource = Callable[[], AbstractContextManager[Snapshot]]


class MalformedDump(ValueError):
    """A dump that cannot be read, with the number of the line, from 1, and the reason."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


class DumpHeader(Record, frozen=True):
    """The first row of a dump."""

    mnemo_stream: int  # DUMP_VERSION
    format: int  # of the records
    last: tuple[int, str]  # position of the store: the last transaction in the dump
    next_number: int  # the number of the next new memory
    salt: str  # of the hashes in its skips and forgotten texts


class VersionRow(Record, frozen=True, tag_field="record_type", tag="version"):
    """An earlier version of a memory, under the seq that made it."""

    seq: int
    data: Memory


class MemoryRow(Record, frozen=True, tag_field="record_type", tag="memory"):
    """The current version of a memory, under the seq that made it, with its number."""

    seq: int
    number: int
    data: Memory


class ChangeRow(Record, frozen=True, tag_field="record_type", tag="change"):
    """The history entry of a transaction."""

    seq: int
    data: ChangeEntry


class VectorsRow(Record, frozen=True, tag_field="record_type", tag="vectors"):
    """The vectors of a text: key and value of the table of embeddings, the key in hexadecimal."""

    key: str
    data: bytes


class DumpFooter(Record, frozen=True):
    """The last row of a dump."""

    end: int  # rows before it, the header included
    digest: str  # BLAKE2b with 16 bytes over their lines


TaggedRow = Change | VersionRow | MemoryRow | ChangeRow | VectorsRow  # of changes those that put a record of SECTIONS
DumpRow = DumpHeader | TaggedRow

SECTIONS: dict[DumpSection, tuple[Table[Any], ...]] = {
    section: tuple(table for table in TABLES if table.section == section) for section in get_args(DumpSection)
}
_PLAIN = [table.put for table in TABLES if table.put is not None and table.section != "apart"]
TAGGED: Any = functools.reduce(or_, (*_PLAIN, VersionRow, MemoryRow, ChangeRow, VectorsRow))  # the types of TaggedRow


class _DumpVersion(msgspec.Struct):
    """The fields with which every version of a dump begins."""

    mnemo_stream: int
    format: int


_HEADER = b'{"mnemo_stream":'
_FOOTER = b'{"end":'
_decode_kind = msgspec.json.Decoder(_DumpVersion).decode
_decode_header = msgspec.json.Decoder(DumpHeader).decode
_decode_footer = msgspec.json.Decoder(DumpFooter).decode
_decode_tagged: Callable[[bytes], TaggedRow] = msgspec.json.Decoder(TAGGED).decode


def is_dump(line: bytes) -> bool:
    """True if a file that begins with this line is a dump of any version."""
    return line.startswith(_HEADER)


def decode(line: bytes) -> DumpRow | DumpFooter:
    """Decodes a row without its newline. Raises ValueError that says what is wrong."""
    try:
        if line.startswith(_HEADER):
            kind = _decode_kind(line)
            if kind.mnemo_stream > DUMP_VERSION or kind.format > FORMAT:
                raise ValueError(
                    f"the dump has version {kind.mnemo_stream} and format {kind.format}; "
                    f"this version supports versions up to {DUMP_VERSION} and formats up to {FORMAT}"
                )
            return _decode_header(line)
        if line.startswith(_FOOTER):
            return _decode_footer(line)
        return _decode_tagged(line)
    except RecursionError as error:  # what else msgspec raises are ValueErrors
        raise ValueError("it is nested too deeply") from error


class Checksummer:
    """Counts and digests the lines of a dump."""

    def __init__(self) -> None:
        self.rows = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, line: bytes) -> None:
        """Adds a line without its newline."""
        self.rows += 1
        self._digest.update(line)
        self._digest.update(b"\n")

    def footer(self) -> DumpFooter:
        """The footer for the lines added so far."""
        return DumpFooter(end=self.rows, digest=self._digest.hexdigest())


# Writing


def write(
    source: SnapshotSource, *, keep: Callable[[Any], bool] | None = None, history: bool = True,
    vectors: Iterable[tuple[bytes, bytes]] = (),
) -> Iterator[bytes]:  # fmt: skip
    """Yields the lines of a dump with their newlines. Its content is fixed when the first line is asked for.

    `source` gives a new snapshot for each slice. A memory that is changed meanwhile is given as it was at the
    beginning, one that is new or dropped is left out, and records without versions are given as they are when they are
    read.

    With `keep` the dump has only the memories, sessions and topic nodes for which it is true, and of everything else
    only what belongs to these memories, without the hashes of erased texts and their salt. Without `history` it has
    neither earlier versions nor changes. `vectors` are rows of the table of embeddings, in the order of their keys; the
    caller gives only those that may be seen. Raises StoreCorruption where a memory has no number.
    """
    checksummer = Checksummer()
    with source() as snapshot:
        header = DumpHeader(
            mnemo_stream=DUMP_VERSION, format=FORMAT, last=snapshot.position,
            next_number=int(snapshot.meta("next_number") or 0), salt=snapshot.meta("salt") if keep is None else "",
        )  # fmt: skip
    walk = _DumpWriter(source, header.last[0], keep, history)
    rows = chain([header], walk.rows(), (VectorsRow(key=key.hex(), data=data) for key, data in vectors))
    for row in rows:
        line = encode_json(row)
        checksummer.add(line)
        yield line + b"\n"
    yield encode_json(checksummer.footer()) + b"\n"


class _DumpWriter:
    """Makes the rows of the store in their order, up to a seq. It is the ExportScope for the tables."""

    def __init__(self, source: SnapshotSource, seq: int, keep: Callable[[Any], bool] | None, history: bool) -> None:
        self.is_filtered = keep is not None
        self.note_roots: frozenset[str] = frozenset()
        self._source = source
        self._seq = seq
        self._keep = keep
        self._history = history
        self._snapshot: Snapshot  # of the current slice

    def rows(self) -> Iterator[DumpRow]:
        if self.is_filtered:
            self.note_roots = frozenset(row.data.root for row in self._table_rows(NOTES))  # type: ignore[union-attr]
        for table in (*SECTIONS["facts"], *SECTIONS["folders"], *SECTIONS["notes"]):
            yield from self._table_rows(table)
        yield from self._each(MEMORIES, self._memory_rows)
        for table in SECTIONS["after memories"]:
            yield from self._table_rows(table)
        for table in () if self.is_filtered else SECTIONS["with its memory"]:
            yield from self._orphans(table)
        if self._history:
            yield from self._each(CHANGES, self._change_rows)

    @property
    def is_whole(self) -> bool:
        return not self.is_filtered and self._snapshot.seq <= self._seq

    def has_memory(self, memory_id: str) -> bool:
        stored = self._snapshot.stored(memory_id)
        current = self._as_it_was(stored) if stored is not None else None
        return current is not None and self.keeps(current.memory)

    def keeps(self, record: Any) -> bool:
        return self._keep is None or self._keep(record)

    def _each(self, table: Table[R], make: Callable[[R], Iterable[DumpRow]]) -> Iterator[DumpRow]:
        """Yields the rows that `make` returns for each record of a table; none within a snapshot, since the caller may
        be slow."""
        after = b""
        while True:
            made: list[DumpRow] = []
            taken = 0
            with self._source() as self._snapshot:
                until = time.monotonic() + SLICE_SECONDS_MAX
                found = self._snapshot.scan(table, after, DUMP_SLICE)
                for record in found:
                    made += make(record)
                    after, taken = table.key.of(record), taken + 1
                    if time.monotonic() >= until:
                        break
            yield from made
            if taken == len(found) < DUMP_SLICE:
                return

    def _table_rows(self, table: Table[Any]) -> Iterator[DumpRow]:
        def made(record: Any) -> list[DumpRow]:
            shown = table.in_dump(record, self)
            return [] if shown is None else [put_of(table, shown)]

        return self._each(table, made)

    def _memory_rows(self, stored: StoredMemory) -> Iterator[DumpRow]:
        current = self._as_it_was(stored)
        if current is None or not self.keeps(current.memory):
            return
        memory_id = current.memory.id
        for version in self._snapshot.all_versions(memory_id) if self._history else ():
            is_current = version.seq == current.seq and not version.memory.overruled
            if version.seq <= self._seq and not is_current and self.keeps(version.memory):
                yield VersionRow(seq=version.seq, data=version.memory)
        number = self._snapshot.number(memory_id)
        if number is None:
            raise StoreCorruption(f"memory {memory_id} has no number")
        yield MemoryRow(seq=current.seq, number=number, data=current.memory)
        for table in SECTIONS["with its memory"]:
            for record in self._snapshot.under(table, memory_id):
                yield put_of(table, record)

    def _orphans(self, table: Table[Any]) -> Iterator[DumpRow]:
        """Rows of a table that belong to missing memories: the state has them, although nothing reads them."""
        field = table.parents[0].field

        def made(record: Any) -> list[DumpRow]:
            return [put_of(table, record)] if self._snapshot.stored(getattr(record, field)) is None else []

        return self._each(table, made)

    def _change_rows(self, logged: LoggedChange) -> Iterator[DumpRow]:
        seq, entry = logged
        if seq > self._seq:
            return
        if self.is_filtered:
            ids, used = tuple(filter(self.has_memory, entry.ids)), tuple(filter(self.has_memory, entry.used))
            if ids or used:
                entry = msgspec.structs.replace(entry, ids=ids, used=used)
            else:
                entry = ChangeEntry(at=entry.at, by="")  # of other memories alone
        yield ChangeRow(seq=seq, data=entry)

    def _as_it_was(self, stored: StoredMemory) -> StoredMemory | None:
        """The version that was current at the beginning of the dump; None where there was none."""
        if stored.seq <= self._seq:
            return stored
        earlier = [version for version in self._snapshot.versions(stored.memory.id) if version.seq <= self._seq]
        return earlier[-1] if earlier else None


# Reading


def read(lines: Iterable[bytes]) -> Iterator[DumpRow]:
    """Yields the rows of a dump, the header first, without the footer. Raises MalformedDump.

    Only the end shows whether a dump was cut off or altered: do not rely on any row before that.
    """
    checksummer = Checksummer()
    number, ended = 0, False
    for number, raw in enumerate(lines, start=1):
        line = raw.rstrip(b"\r\n")
        try:
            row = decode(line)
        except ValueError as error:
            raise MalformedDump(number, str(error)) from error
        if ended:
            raise MalformedDump(number, "there is a line after the footer")
        if isinstance(row, DumpHeader) != (number == 1):
            raise MalformedDump(number, "a dump has one header, as its first line")
        if isinstance(row, DumpFooter):
            ended = True
            if row != checksummer.footer():
                why = f"{row.end} rows were written, {checksummer.rows} are here, or some are altered"
                raise MalformedDump(number, why)
            continue
        checksummer.add(line)
        yield row
    if not ended:
        raise MalformedDump(number + 1, "it is cut off: the last line of a dump is its footer")


def load(rows: Iterable[DumpRow], writing: StateWriter) -> None:
    """Loads the rows of a dump, except vectors, into an empty store, which then equals the one that was dumped.

    Without a header the caller has to set the position; salt and next number are then those of the rows. Where the
    history entry of the last transaction is lost, or the dump has no history, a provisional entry takes its place.
    """
    last, next_number = NO_CHANGES, 0
    missing = 0  # seq of the last transaction until its history entry is loaded
    for row in rows:
        match row:
            case DumpHeader():
                last, next_number = row.last, row.next_number
                if row.salt:
                    writing.set_meta("salt", row.salt)
            case VersionRow(seq=seq, data=memory):
                writing.put_version(StoredMemory(seq, memory))
            case MemoryRow(seq=seq, number=number, data=memory):
                writing.put_record(StoredMemory(seq, memory), number)
                next_number = max(next_number, number + 1)
            case ChangeRow(seq=seq, data=entry):
                writing.put_entry(seq, entry)
                missing = 0 if seq == missing else missing
            case VectorsRow():
                pass
            case _:
                table = BY_CHANGE[type(row)]
                writing.put(table, record_in(table, row))
                missing = max(1, last[0]) if table is not META else missing
    if missing:
        writing.put_entry(missing, ChangeEntry(at=writing.now, by="", what=LOADED))
    if next_number:
        writing.set_meta("next_number", str(next_number))
    if last[0]:
        writing.set_position(last)
