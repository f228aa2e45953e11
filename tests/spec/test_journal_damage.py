"""Damage to a journal costs the lines that it covers, and is reported. SPEC 3.4, 17.1, store/docs/format.md.

Truncated at every byte, bits flipped, runs of zeros, bytes put in and taken out: whatever is read afterwards is what
was written, and a line that the damage does not touch is there.
"""

import errno
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mnemo_store.codec import NO_CHANGES, encode_json
from mnemo_store.disk import Disk
from mnemo_store.journal import segments
from mnemo_store.journal.dump import Checksummer, DumpHeader
from mnemo_store.journal.journal import Journal, JournalDamage
from mnemo_store.journal.line_codec import JournalLine, SealedLine, SegmentHeader, decode_line, seal
from mnemo_store.records import FORMAT, PutMemory, PutMeta
from tests.support.examples import IS_SWEEP
from tests.support.samples import quick_folder, sample_memory

STORE, SALT = "store", "00" * 16
FLIPS, FLIPS_MENDED, RUNS, EDITS = (1000, 200, 300, 300) if IS_SWEEP else (300, 80, 100, 100)
BLOCK = 512  # bytes that a disk reads or does not
BIG = 10_000_000  # bytes of one line

End = tuple[int, str]


class Quick(Disk):
    """A disk without fsync: none of these tests is about it."""

    def sync(self, fd: int) -> None: ...

    def sync_folder(self, folder: Path) -> None: ...


class SegmentPiece(NamedTuple):
    """A line of a journal file: its location with the newline, and its decoded content."""

    file: str
    start: int
    end: int
    says: str  # "" for what carries nothing by itself: headers and footers

    def touches(self, damage: JournalDamage) -> bool:
        return damage.segment == self.file and damage.offset < self.end and self.start < damage.offset + damage.length


def opened(folder: Path, *, read_only: bool = False, segment_bytes: int = 2000) -> Journal:
    journal = Journal(folder, STORE, SALT, Quick(), segment_bytes)
    journal.open(read_only=read_only)
    return journal


def line(end: End, value: str = "") -> SealedLine:
    """The line after `end`; no two have the same content, and every third is packed."""
    quoted = '"sum":"{' * (end[0] % 7)
    repeats = 20 if end[0] % 3 == 2 else 1
    memory = sample_memory(end[0] + 1, value or f"memory {end[0] + 1} says “{quoted}”\n" * repeats)
    return seal(JournalLine(end[0] + 1, 5, "test", end, (PutMemory(data=memory),), what="add"))


def add(journal: Journal, *files: str, value: str = "") -> None:
    end, lines = journal.last, []
    for file in files:
        sealed = line(end, value)
        lines.append((sealed, file == "long"))
        end = (end[0] + 1, sealed.sum)
    journal.append(lines, journal.last[0] + 1)
    journal.rotate_full()


def rewrite(journal: Journal, rows: int) -> None:
    header = DumpHeader(mnemo_stream=1, format=FORMAT, last=journal.last, next_number=rows, salt=SALT)
    stream = [encode_json(header), *(encode_json(PutMeta(name=f"row {row}", value="v" * row)) for row in range(rows))]
    tally = Checksummer()
    for row in stream:
        tally.add(row)
    journal.rewrite((row + b"\n" for row in (*stream, encode_json(tally.footer()))), journal.last)


def said(journal: Journal) -> dict[str, int]:
    """The lines that are read, and how often."""
    counts: dict[str, int] = {}
    for row, _ in journal.snapshot_rows():
        counts[f"row {row}"] = counts.get(f"row {row}", 0) + 1
    for read in journal.lines():
        counts[f"line {read.line}"] = counts.get(f"line {read.line}", 0) + 1
        assert decode_line(journal.fetch(read.location)) == (read.line, read.sum)
    return counts


def pieces_of(folder: Path) -> list[SegmentPiece]:
    """Every line of every file, by nothing but its newlines."""
    found = []
    for path in sorted(folder.iterdir()):
        shape = segments.DUMP_LINES if path.name.startswith("snapshot") else segments.JOURNAL_LINES
        offset = 0
        for raw in path.read_bytes().splitlines(keepends=True):
            value = shape.decode(raw[:-1])
            says = (
                ""
                if isinstance(value, SegmentHeader)
                else f"{'row' if shape is segments.DUMP_LINES else 'line'} {value[0]}"
            )
            found.append(SegmentPiece(path.name, offset, offset + len(raw), "" if "DumpFooter" in says else says))
            offset += len(raw)
    return found


@pytest.fixture(scope="module")
def written() -> Iterator[Path]:
    """A journal with a snapshot, followed by several segments of both files."""
    with quick_folder() as folder:
        journal = opened(folder)
        add(journal, "short", "long", "short")
        rewrite(journal, rows=12)
        for _ in range(12):
            add(journal, "short", "long", "short")
        journal.close()
        assert len(list(folder.iterdir())) > 6
        yield folder


class DamagedJournal:
    """A copy of a journal with a damaged stretch."""

    def __init__(self, written: Path, folder: Path, chance: random.Random) -> None:
        shutil.copytree(written, folder)
        self.folder = folder
        self.pieces = pieces_of(folder)
        self.path = chance.choice(sorted(folder.iterdir()))
        self.data = self.path.read_bytes()

    def check(self, offset: int, length: int, why: str) -> None:
        """Reads the journal without changing it: lines outside the stretch are there once, there is no other line, and
        the unreadable part of the stretch is reported."""
        damage = JournalDamage(self.path.name, offset, length, "")
        lost = {piece.says for piece in self.pieces if piece.touches(damage)}
        journal = opened(self.folder, read_only=True)
        read = said(journal)
        reported, checked = list(journal.damage), journal.check()
        journal.close()
        expected = {piece.says for piece in self.pieces if piece.says}
        assert set(read) <= expected, f"{why}: something is read that was never written"
        assert expected - set(read) <= lost, f"{why}: a line is lost that was not touched"
        assert set(read.values()) == {1}, f"{why}: a line is read twice"
        for place in range(offset, offset + length):
            for each in (reported, checked):
                assert any(
                    found.segment == self.path.name and found.offset <= place < found.offset + found.length
                    for found in each
                ), f"{why}: byte {place} of {self.path.name} is not reported: {each}"


def flipped(data: bytes, offset: int, bit: int) -> bytes:
    return data[:offset] + bytes([data[offset] ^ 1 << bit]) + data[offset + 1 :]


def test_a_flipped_bit_costs_at_most_its_line_and_is_reported(written: Path, tmp_path: Path) -> None:
    chance = random.Random(3)
    whole = DamagedJournal(written, tmp_path / "copy", chance)
    paths = sorted(whole.folder.iterdir())
    for number in range(FLIPS):
        whole.path = chance.choice(paths)
        whole.data = whole.path.read_bytes()
        offset, bit = chance.randrange(len(whole.data)), chance.randrange(8)
        whole.path.write_bytes(flipped(whole.data, offset, bit))
        whole.check(offset, 1, f"flip {number}")
        whole.path.write_bytes(whole.data)


def test_a_bit_that_is_flipped_in_the_number_of_the_format_makes_it_no_newer_one(written: Path, tmp_path: Path) -> None:
    whole = DamagedJournal(written, tmp_path / "copy", random.Random(3))
    place = len(b'{"journal":')
    for path in whole.folder.iterdir():
        whole.path, whole.data = path, path.read_bytes()
        path.write_bytes(flipped(whole.data, place, 0))
        assert path.read_bytes().startswith(b'{"journal":%d' % (FORMAT ^ 1))
        whole.check(place, 1, path.name)
        path.write_bytes(whole.data)


def test_a_newline_that_is_damaged_costs_no_line(written: Path, tmp_path: Path) -> None:
    whole = DamagedJournal(written, tmp_path / "copy", random.Random(3))
    complete = {piece.says for piece in whole.pieces if piece.says}
    for piece in whole.pieces:
        whole.path = whole.folder / piece.file
        whole.data = whole.path.read_bytes()
        whole.path.write_bytes(flipped(whole.data, piece.end - 1, 0))
        whole.check(piece.end - 1, 1, str(piece))
        journal = opened(whole.folder, read_only=True)
        assert set(said(journal)) == complete
        journal.close()
        whole.path.write_bytes(whole.data)


def test_a_journal_goes_on_after_a_flipped_bit(written: Path, tmp_path: Path) -> None:
    chance = random.Random(4)
    for number in range(FLIPS_MENDED):
        whole = DamagedJournal(written, tmp_path / "copy", chance)
        offset = chance.randrange(len(whole.data))
        whole.path.write_bytes(flipped(whole.data, offset, chance.randrange(8)))
        journal = opened(whole.folder)
        before = said(journal)
        assert journal.damage, number
        journal.continue_after(journal.last)
        add(journal, "short", "long")
        journal.close()
        again = opened(whole.folder)
        after = said(again)
        assert again.last == journal.last
        assert set(before) <= set(after), f"flip {number}: what was read before is read again"
        assert len(after) == len(before) + 2
        again.close()
        shutil.rmtree(whole.folder)


def test_a_run_of_zeros_costs_what_it_covers_and_is_reported(written: Path, tmp_path: Path) -> None:
    chance = random.Random(5)
    whole = DamagedJournal(written, tmp_path / "copy", chance)
    paths = sorted(whole.folder.iterdir())
    for number in range(RUNS):
        whole.path = chance.choice(paths)
        whole.data = whole.path.read_bytes()
        offset = chance.randrange(len(whole.data))
        length = min(chance.choice([1, 2, 7, 60, 512, 1500]), len(whole.data) - offset)
        whole.path.write_bytes(whole.data[:offset] + bytes(length) + whole.data[offset + length :])
        whole.check(offset, length, f"run {number} of {length}")
        whole.path.write_bytes(whole.data)


class BadBlock:
    """A block of a file that the disk cannot read. Of a read that begins before it, the kernel gives what stands
    before it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._file = os.stat(os.devnull)
        self._begin = self._end = 0
        self._pread, self._read_bytes = os.pread, Path.read_bytes
        monkeypatch.setattr(segments, "BLOCK_BYTES", BLOCK)
        monkeypatch.setattr(os, "pread", self.pread)
        monkeypatch.setattr(Path, "read_bytes", lambda path: self.read_bytes(path))

    def move(self, path: Path, offset: int) -> None:
        self._file, self._begin, self._end = path.stat(), offset, offset + BLOCK

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        if os.path.samestat(os.fstat(fd), self._file):
            if self._begin <= offset < self._end:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if offset < self._begin:
                length = min(length, self._begin - offset)
        return self._pread(fd, length, offset)

    def read_bytes(self, path: Path) -> bytes:
        if os.path.samestat(path.stat(), self._file):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self._read_bytes(path)


def test_an_unreadable_block_costs_its_lines_and_is_reported(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = DamagedJournal(written, tmp_path / "copy", random.Random(7))
    bad = BadBlock(monkeypatch)
    for path in sorted(whole.folder.iterdir()):
        whole.path, size = path, path.stat().st_size
        for offset in range(0, size, BLOCK):
            bad.move(path, offset)
            whole.check(offset, min(BLOCK, size - offset), f"{path.name} at {offset}")


def test_a_journal_goes_on_after_an_unreadable_block_and_cuts_nothing_off(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stretch that is unreadable at a start is not treated as a torn end: it may become readable again."""
    bad = BadBlock(monkeypatch)
    for name in ("short_term.jsonl", "long_term.jsonl"):
        folder = tmp_path / name
        shutil.copytree(written, folder)
        with (folder / name).open("ab") as file:
            file.write(b"torn")
        data = (folder / name).read_bytes()
        bad.move(folder / name, 0)
        journal = opened(folder)
        before = said(journal)
        journal.continue_after(journal.last)
        add(journal, "short", "long")
        assert journal.quarantine(tmp_path / f"{name}-quarantine")
        journal.close()
        put_aside = max(folder.glob(f"{name.removesuffix('.jsonl')}.0*"))
        again = opened(folder)
        assert set(before) <= set(said(again))
        assert again.last == journal.last
        again.close()
        bad.move(tmp_path, 0)
        assert put_aside.read_bytes() == data


def test_bytes_put_in_or_taken_out_cost_the_lines_they_stand_in(written: Path, tmp_path: Path) -> None:
    chance = random.Random(6)
    whole = DamagedJournal(written, tmp_path / "copy", chance)
    paths = sorted(whole.folder.iterdir())
    garbage = [b"\n", b"\n\n", b"\0\n\0", b'{"seq":1,', b'"}\n{"', b"\xff" * 700, b'{"record_type":"meta"}\n']
    for number in range(EDITS):
        whole.path = chance.choice(paths)
        whole.data = whole.path.read_bytes()
        offset = chance.randrange(len(whole.data))
        added = chance.choice([b"", *garbage])
        gone = chance.choice([1, 5, 300]) if not added else 0
        whole.path.write_bytes(whole.data[:offset] + added + whole.data[offset + gone :])
        journal = opened(whole.folder, read_only=True)
        touched = JournalDamage(whole.path.name, max(0, offset - 1), gone + 1, "")
        lost = {piece.says for piece in whole.pieces if piece.touches(touched)}
        read = set(said(journal))
        expected = {piece.says for piece in whole.pieces if piece.says}
        assert expected - lost <= read <= expected, f"edit {number}: {added!r} for {gone} at {offset}"
        journal.close()
        whole.path.write_bytes(whole.data)


def test_truncated_at_every_byte_of_the_last_three_records_it_keeps_all_before_and_goes_on(tmp_path: Path) -> None:
    first = tmp_path / "first"
    journal = opened(first, segment_bytes=1 << 20)
    journal.continue_after(NO_CHANGES)
    for _ in range(5):
        add(journal, "short")
    journal.close()
    path = first / "short_term.jsonl"
    data = path.read_bytes()
    ends = [piece.end for piece in pieces_of(first) if piece.file == path.name]
    for cut in range(ends[-4], len(data) + 1):
        folder = tmp_path / "copy"
        shutil.copytree(first, folder)
        os.truncate(folder / path.name, cut)
        left = sum(end - 1 <= cut for end in ends[1:])
        torn = max([end for end in ends if end - 1 <= cut])
        again = opened(folder, segment_bytes=1 << 20)
        if cut == torn:
            assert again.damage == [], cut
        else:
            (damage,) = again.damage
            expected = (cut, 0) if cut == torn - 1 else (torn, cut - torn)
            assert (damage.offset, damage.length) == expected, cut
        again.continue_after(again.last)
        add(again, "short", value="the next")
        once_more = opened(folder)
        seqs = [read.line.seq for read in once_more.lines()]
        assert seqs == list(range(1, left + 2)), cut
        assert once_more.damage == once_more.check() == []
        again.close()
        once_more.close()
        shutil.rmtree(folder)


def test_a_line_of_ten_million_bytes_is_a_line_like_any_other(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.continue_after(NO_CHANGES)
    add(journal, "short")
    add(journal, "short", value=random.Random(1).randbytes(BIG).hex())  # as packed, it is longer than BIG
    journal.segment_bytes = 1 << 30
    add(journal, "short", "short")
    journal.close()
    path = tmp_path / "short_term.000001.jsonl"
    assert path.stat().st_size > BIG
    again = opened(tmp_path)
    assert [read.line.seq for read in again.lines()] == [1, 2, 3, 4]
    assert again.damage == []
    places = [read.location for read in again.lines()]
    assert len(again.fetch(places[1])) > BIG
    again.close()
    with path.open("r+b") as file:
        file.seek(places[1].offset + BIG // 2)
        file.write(b"\n\0\n")
    again = opened(tmp_path)
    assert [read.line.seq for read in again.lines()] == [1, 3, 4]
    (damage,) = again.damage
    assert (damage.offset, damage.length) == (places[1].offset, places[1].length + 1)
    again.close()


# Looked through


def test_a_journal_that_is_as_it_was_written_has_nothing_wrong(written: Path) -> None:
    journal = opened(written, read_only=True)
    assert journal.check() == []
    journal.close()


def chain(folder: Path, *lines: SealedLine) -> Journal:
    """A journal of these lines in one file."""
    folder.mkdir(exist_ok=True)
    header = seal(SegmentHeader(FORMAT, "short_term", 1, STORE, SALT, 1))
    (folder / "short_term.jsonl").write_bytes(b"".join(each.data for each in (header, *lines)))
    return opened(folder, read_only=True)


def test_a_missing_line_is_reported_at_the_one_after_it(tmp_path: Path) -> None:
    first = line(NO_CHANGES)
    second = line((1, first.sum))
    fourth = line((3, "00" * 8))
    journal = chain(tmp_path, first, second, fourth)
    offset = (tmp_path / "short_term.jsonl").stat().st_size - len(fourth.data)
    expected = ("short_term.jsonl", offset, len(fourth.data) - 1, "changes 3 to 3 are missing before it")
    assert journal.check() == [expected]
    assert journal.damage == []


def test_a_line_that_names_another_predecessor_is_reported(tmp_path: Path) -> None:
    first = line(NO_CHANGES)
    for folder, wrong in ((tmp_path / "a", [first, line((1, "00" * 8))]), (tmp_path / "b", [line((0, "00" * 8))])):
        journal = chain(folder, *wrong)
        (found,) = journal.check()
        assert found.why == "it does not name the line before it"
        assert decode_line(read_at(folder, found))[0] == list(journal.lines())[-1].line


def test_lines_missing_at_the_end_are_reported_where_a_later_segment_was_begun(tmp_path: Path) -> None:
    first = line(NO_CHANGES)
    (tmp_path / "long_term.jsonl").write_bytes(seal(SegmentHeader(FORMAT, "long_term", 2, STORE, SALT, 4)).data)
    journal = chain(tmp_path, first)
    assert journal.check() == [("long_term.jsonl", 0, 0, "changes 2 to 3 are missing before it")]


def read_at(folder: Path, damage: JournalDamage) -> bytes:
    return (folder / damage.segment).read_bytes()[damage.offset : damage.offset + damage.length]


def test_a_change_that_occurs_twice_is_reported(tmp_path: Path) -> None:
    first = line(NO_CHANGES)
    (found,) = chain(tmp_path, first, first).check()
    assert found.why == "change 1 is here a second time"


def test_lines_that_were_refused_are_no_damage(tmp_path: Path) -> None:
    """An abandoned segment ends in lines that could not be cut off: complete ones, and half of one."""
    first, refused, accepted = line(NO_CHANGES), line((1, "x"), value="refused"), line((1, line(NO_CHANGES).sum))
    header = seal(SegmentHeader(FORMAT, "short_term", 1, STORE, SALT, 1)).data
    given_up = header + first.data + refused.data + line((2, "x")).data[:40]
    (tmp_path / "short_term.000001.jsonl").write_bytes(given_up)
    (tmp_path / "short_term.jsonl").write_bytes(
        seal(SegmentHeader(FORMAT, "short_term", 2, STORE, SALT, 2)).data + accepted.data
    )
    journal = opened(tmp_path, read_only=True)
    assert [read.line.seq for read in journal.lines()] == [1, 2]
    assert journal.check() == []
    damaged = given_up.replace(b'"seq":1', b'"seq":7')
    (tmp_path / "short_term.000001.jsonl").write_bytes(damaged)
    reported = opened(tmp_path, read_only=True).check()
    assert [each.offset for each in reported if "missing" not in each.why] == [len(header), len(given_up) - 40]


def test_unreadable_stretches_are_kept_before_the_journal_is_rewritten(written: Path, tmp_path: Path) -> None:
    folder, quarantine = tmp_path / "journal", tmp_path / "quarantine"
    shutil.copytree(written, folder)
    numbered = min(folder.glob("short_term.0*"))
    snapshot = next(folder.glob("snapshot.*"))
    data, rows = numbered.read_bytes(), snapshot.read_bytes()
    numbered.write_bytes(flipped(data, len(data) // 2, 3))
    snapshot.write_bytes(flipped(rows, len(rows) // 2, 3))
    with (folder / "long_term.jsonl").open("ab") as file:
        file.write(b"torn")
    journal = opened(folder)
    stretches = {read_at(folder, damage) for damage in journal.check() if "missing" not in damage.why}
    assert len(stretches) == 2
    kept = journal.quarantine(quarantine)
    assert sorted(kept) == sorted(quarantine.iterdir())
    assert {path.read_bytes() for path in kept} == {*stretches, b"torn"}
    assert {path.suffix for path in kept} == {".torn", ".damaged"}
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    assert not list(folder.glob("*.torn"))
    journal.continue_after(journal.last)
    rewrite(journal, rows=3)
    assert journal.check() == journal.damage == []
    assert journal.quarantine(quarantine) == []
    journal.close()


def test_nothing_in_quarantine_is_written_over(tmp_path: Path) -> None:
    folder, quarantine = tmp_path / "journal", tmp_path / "quarantine"
    for end in (b"one", b"two"):
        journal = opened(folder)
        journal.continue_after(journal.last)
        journal.close()
        with (folder / "short_term.jsonl").open("ab") as file:
            file.write(end)
        journal = opened(folder)
        journal.quarantine(quarantine)
        journal.close()
    assert sorted(path.read_bytes() for path in quarantine.iterdir()) == [b"one", b"two"]
