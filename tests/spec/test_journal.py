"""The files of the journal, the effect of damage, and the state after a failed append. SPEC 3.3, 3.4,
store/docs/format.md."""

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from mnemo_store.codec import NO_CHANGES
from mnemo_store.disk import Disk
from mnemo_store.errors import DiskFull, NewerFormat, UnknownOutcome, WriteFailure
from mnemo_store.journal import segments
from mnemo_store.journal.journal import Journal, LineLocation, newest_header
from mnemo_store.journal.line_codec import JournalLine, SealedLine, SegmentHeader, decode_line, seal
from mnemo_store.records import FORMAT, PutMeta

SALT = "00" * 16


class Faults(Disk):
    """Fails the named calls until they are cleared."""

    def __init__(self) -> None:
        self.failing: set[str] = set()  # "sync" is that of the journal's own files, not of what is put in place whole
        self.error = errno.EIO
        self._whole = False

    def _check(self, call: str) -> None:
        if call in self.failing:
            raise OSError(self.error, os.strerror(self.error))

    def append(self, fd: int, data: bytes) -> None:
        if "half append" in self.failing:
            super().append(fd, data[: len(data) // 2])
            raise OSError(self.error, os.strerror(self.error))
        super().append(fd, data)

    def sync(self, fd: int) -> None:
        if not self._whole:
            self._check("sync")

    def sync_folder(self, folder: Path) -> None:
        self._check("sync_folder")

    def truncate(self, fd: int, size: int) -> None:
        self._check("truncate")
        super().truncate(fd, size)

    def unlink(self, path: Path) -> None:
        self._check("unlink")
        super().unlink(path)

    def rename(self, source: Path, target: Path) -> None:
        self._check("rename")
        super().rename(source, target)

    def replace_file(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        self._check("write_whole")
        self._whole = True
        try:
            super().replace_file(path, pieces)
        finally:
            self._whole = False


class Book:
    """A journal and the chain of its lines."""

    def __init__(
        self, folder: Path, disk: Disk | None = None, segment_bytes: int = 1 << 20, supported: int = FORMAT
    ) -> None:
        self.folder = folder
        self.journal = Journal(folder, "store", SALT, disk or Faults(), segment_bytes, supported)
        self.journal.open()
        self.journal.continue_after(self.journal.last)
        self.last = self.journal.last

    def add(self, *files: str, value: str = "v") -> list[LineLocation]:
        """Appends a group with a line for each named file; returns their locations."""
        lines: list[tuple[SealedLine, bool]] = []
        end = self.last
        for file in files:
            sealed = seal(JournalLine(end[0] + 1, 5, "test", end, (PutMeta(name="m", value=value),)))
            lines.append((sealed, file == "long"))
            end = (end[0] + 1, sealed.sum)
        places = self.journal.append(lines, self.last[0] + 1)
        self.last = end
        self.journal.rotate_full()
        return places

    def crash(self) -> "Book":
        self.journal.close()
        return Book(self.folder, supported=self.journal.format)

    def seqs(self, after: int = 0) -> list[int]:
        return [read.line.seq for read in self.journal.lines(after)]

    def values(self) -> list[str]:
        changes = [read.line.changes[0] for read in self.journal.lines()]
        return [change.value for change in changes if isinstance(change, PutMeta)]


def refuse(book: Book, error: type[Exception], *files: str) -> None:
    with pytest.raises(error):
        book.add(*files, value="refused")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def seqs_in(path: Path) -> list[int]:
    return [json.loads(line)["seq"] for line in path.read_bytes().splitlines()[1:]]


def test_lines_of_both_files_come_back_in_the_order_of_their_seq(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.add("short", "long", "short")
    book.add("long")
    again = book.crash()
    assert again.seqs() == [1, 2, 3, 4]
    assert again.seqs(after=2) == [3, 4]
    assert again.journal.last == book.last
    assert seqs_in(tmp_path / "short_term.jsonl") == [1, 3]
    assert seqs_in(tmp_path / "long_term.jsonl") == [2, 4]
    assert again.journal.damage == []


def test_each_line_names_the_one_before_it_in_either_file(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.add("short", "long")
    book.add("short")
    read = list(book.journal.lines())
    assert read[0].line.prev == NO_CHANGES
    assert [each.line.prev for each in read[1:]] == [(1, read[0].sum), (2, read[1].sum)]


def test_a_segment_begins_with_a_header_that_names_the_store(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.add("short")
    header = json.loads((tmp_path / "short_term.jsonl").read_bytes().splitlines()[0])
    header.pop("sum")
    expected = {"journal": FORMAT, "file": "short_term", "segment": 1, "store": "store", "salt": SALT, "first_seq": 1}
    assert header == expected
    found = newest_header(tmp_path)
    assert found is not None
    assert (found.store, found.salt) == ("store", SALT)
    assert newest_header(tmp_path / "nowhere") is None


@pytest.mark.parametrize("cut", [2, 10, 60])
def test_a_torn_last_line_is_cut_off_reported_and_kept_in_a_file(tmp_path: Path, cut: int) -> None:
    book = Book(tmp_path)
    book.add("short")
    book.add("short")
    path = tmp_path / "short_term.jsonl"
    data = path.read_bytes()
    start = data.rindex(b"\n", 0, -1) + 1
    path.write_bytes(data[:-cut])
    again = book.crash()
    assert again.seqs() == [1]
    (damage,) = again.journal.damage
    assert (damage.segment, damage.offset, damage.length) == (path.name, start, len(data) - start - cut)
    assert path.read_bytes() == data[:start]
    assert (tmp_path / f"short_term.jsonl.{start}.torn").read_bytes() == data[start:-cut]
    again.add("short")
    assert again.crash().seqs() == [1, 2]


def test_a_last_line_that_lacks_nothing_but_its_newline_counts(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.add("short", "short")
    path = tmp_path / "short_term.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    again = book.crash()
    assert again.seqs() == [1, 2]
    assert again.journal.damage == [(path.name, len(data) - 1, 0, "the newline of its last line is lost")]
    again.add("short")
    assert again.crash().seqs() == [1, 2, 3]
    assert (tmp_path / "short_term.000001.jsonl").read_bytes() == data[:-1]


def test_torn_ends_at_the_same_offset_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "short_term.jsonl"
    book = Book(tmp_path)
    for end in (b"one", b"two"):
        path.write_bytes(path.read_bytes() + end)
        book = book.crash()
    assert sorted(torn.read_bytes() for torn in tmp_path.glob("*.torn")) == [b"one", b"two"]


def test_a_torn_end_of_several_lines_costs_no_earlier_one(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.add("short")
    path = tmp_path / "short_term.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 40 + b"\n" + b"{half\n" + b"\0" * 10)
    again = book.crash()
    assert again.seqs() == [1]
    assert path.read_bytes() == whole


def test_a_torn_line_right_after_the_header_is_cut_off(tmp_path: Path) -> None:
    book = Book(tmp_path)
    path = tmp_path / "short_term.jsonl"
    header = path.read_bytes()
    path.write_bytes(header + b'{"seq":1,"at"')
    again = book.crash()
    assert again.journal.last == NO_CHANGES
    assert path.read_bytes() == header
    again.add("short")
    assert again.crash().seqs() == [1]


@pytest.mark.parametrize("left", [b"", b"{", b'{"journal":1,"file":"short_te'])
def test_a_segment_without_a_complete_header_is_renamed_and_a_new_one_begun(tmp_path: Path, left: bytes) -> None:
    book = Book(tmp_path)
    book.add("long")
    (tmp_path / "short_term.jsonl").write_bytes(left)
    again = book.crash()
    reported = ("short_term.jsonl", 0, len(left), "it has no header that can be read")
    assert again.journal.damage == ([reported] if left else [])
    again.add("short")
    assert again.crash().seqs() == [1, 2]
    assert (tmp_path / "short_term.000001.jsonl").read_bytes() == left


def test_a_damaged_line_in_the_middle_is_reported_with_its_offset_and_the_rest_loads(tmp_path: Path) -> None:
    book = Book(tmp_path, segment_bytes=500)
    for _ in range(9):
        book.add("short")
    path = tmp_path / "short_term.000001.jsonl"
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    offset = len(lines[0]) + len(lines[1])
    path.write_bytes(data[: offset + 9] + b"\0" + data[offset + 10 :])
    again = book.crash()
    assert again.seqs() == [1, 3, 4, 5, 6, 7, 8, 9]
    (damage,) = again.journal.damage
    assert damage == (path.name, offset, len(lines[2]), "its checksum does not match")
    assert again.seqs() == [1, 3, 4, 5, 6, 7, 8, 9]
    assert len(again.journal.damage) == 1, "the same damage is reported once"


def test_a_damaged_header_costs_no_line_and_keeps_void_what_was_void(tmp_path: Path) -> None:
    disk = Faults()
    book = Book(tmp_path, disk)
    book.add("short")
    disk.failing = {"sync", "truncate"}
    refuse(book, WriteFailure, "short")
    disk.failing = set()
    book.add("short", value="again")
    path = tmp_path / "short_term.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"store"', b'"stork"', 1))
    again = book.crash()
    assert again.values() == ["v", "again"]


def test_full_segments_are_renamed_to_their_numbers(tmp_path: Path) -> None:
    book = Book(tmp_path, segment_bytes=500)
    for _ in range(6):
        book.add("short")
    book.add("long")
    segments = [name for name in names(tmp_path) if name.startswith("short")]
    assert segments == ["short_term.000001.jsonl", "short_term.000002.jsonl", "short_term.jsonl"]
    assert "long_term.000001.jsonl" not in names(tmp_path)
    again = book.crash()
    assert again.seqs() == [1, 2, 3, 4, 5, 6, 7]
    assert again.journal.size() == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_a_segment_that_goes_while_sizes_are_added_up_is_not_counted(tmp_path: Path) -> None:
    book = Book(tmp_path)
    size = book.journal.size()
    (tmp_path / "short_term.000001.jsonl").symlink_to("gone")  # a name that is there and a file that is not
    assert book.journal.size() == size > 0


def test_a_rotation_makes_each_name_durable_before_the_next(tmp_path: Path) -> None:
    class NotedDisk(Disk):
        calls: list[str] = []  # noqa: RUF012 - one instance only

        def rename(self, source: Path, target: Path) -> None:
            self.calls.append(f"rename to {target.name}")
            super().rename(source, target)

        def sync_folder(self, folder: Path) -> None:
            self.calls.append("sync folder")
            super().sync_folder(folder)

    book = Book(tmp_path, NotedDisk(), segment_bytes=500)
    book.add("short")
    NotedDisk.calls.clear()
    book.add("short")
    book.add("short")
    assert NotedDisk.calls == [
        "rename to short_term.000001.jsonl",
        "sync folder",
        "rename to short_term.jsonl",
        "sync folder",
    ]


def test_a_crash_between_the_two_names_of_a_rotation_loses_nothing(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.add("short")
    book.journal.close()
    (tmp_path / "short_term.jsonl").rename(tmp_path / "short_term.000001.jsonl")
    (tmp_path / "short_term.jsonl.new").write_bytes(b'{"journal":1,"fi')
    again = Book(tmp_path)
    assert again.seqs() == [1]
    again.add("short")
    last = again.crash()
    assert last.seqs() == [1, 2]
    assert seqs_in(tmp_path / "short_term.jsonl") == [2]


def test_a_failed_append_is_cut_back_and_void_after_a_new_header(tmp_path: Path) -> None:
    disk = Faults()
    book = Book(tmp_path, disk)
    book.add("short", "long")
    before = (tmp_path / "short_term.jsonl").read_bytes()
    disk.failing = {"half append"}
    refuse(book, WriteFailure, "short")
    assert (tmp_path / "short_term.000001.jsonl").read_bytes() == before
    disk.failing = set()
    assert seqs_in(tmp_path / "short_term.jsonl") == []
    book.add("short", value="again")
    assert book.crash().values() == ["v", "v", "again"]


def test_lines_that_could_not_be_cut_back_are_void_for_good(tmp_path: Path) -> None:
    disk = Faults()
    book = Book(tmp_path, disk)
    book.add("short")
    disk.failing = {"sync", "truncate"}
    refuse(book, WriteFailure, "short", "long")
    refuse(book, WriteFailure, "short", "long")  # a second time, now behind a header alone
    disk.failing = set()
    book.add("short", value="again")
    again = book.crash()
    assert again.values() == ["v", "again"]
    assert b"refused" in (tmp_path / "short_term.000001.jsonl").read_bytes()
    assert b"refused" in (tmp_path / "short_term.000002.jsonl").read_bytes()


def test_an_append_that_can_neither_be_cut_back_nor_made_void_has_an_unknown_outcome(tmp_path: Path) -> None:
    disk = Faults()
    book = Book(tmp_path, disk)
    book.add("short")
    disk.failing = {"sync", "truncate", "rename"}
    refuse(book, UnknownOutcome, "short")
    assert book.crash().values() == ["v", "refused"]


def test_a_full_disk_refuses_until_there_is_room_again(tmp_path: Path) -> None:
    disk = Faults()
    disk.error = errno.ENOSPC
    book = Book(tmp_path, disk)
    book.add("short")
    disk.failing = {"half append", "write_whole"}
    refuse(book, DiskFull, "short")
    refuse(book, DiskFull, "short")
    refuse(book, DiskFull, "long")
    assert Book(tmp_path).values() == ["v"]
    disk.failing = set()
    book.add("short", "long", value="again")
    assert book.crash().values() == ["v", "again", "again"]


@pytest.mark.parametrize("failing", ["rename", "write_whole", "sync_folder"])
def test_a_rotation_that_fails_makes_no_later_line_void(tmp_path: Path, failing: str) -> None:
    disk = Faults()
    book = Book(tmp_path, disk, segment_bytes=500)
    book.add("short")
    disk.failing = {failing}
    for _ in range(2):
        book.add("short")
    if failing == "rename":
        book.add("short")  # the full one stays in use
    else:
        refuse(book, WriteFailure, "short")
    disk.failing = set()
    before = book.last[0]
    book.add("short", value="again")
    again = book.crash()
    assert again.seqs() == list(range(1, before + 2))


def test_a_removed_segment_takes_no_line_once_a_new_one_replaces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new segment is written but cannot be opened: too many files are open."""
    book = Book(tmp_path)
    book.add("short")
    (tmp_path / "short_term.jsonl").unlink()
    real = os.open

    def refusing(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_APPEND:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(path, flags, mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refusing)
        book.journal.segment_bytes = 1
        book.journal.rotate_full()
    book.add("short", value="kept")
    assert book.crash().values() == ["kept"]


def test_lines_after_the_point_where_the_journal_continues_stay_void(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.add("short", "long", "short", "long")
    second = [(read.line.seq, read.sum) for read in book.journal.lines()][1]
    book.journal.close()
    journal = Journal(tmp_path, "store", SALT, Faults())
    journal.open()
    journal.continue_after(second)
    journal.close()
    again = Book(tmp_path)
    assert again.seqs() == [1, 2]
    again.add("short", value="again")
    assert again.crash().values() == ["v", "v", "again"]


def test_a_full_disk_does_not_keep_the_journal_from_being_opened(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.add("short", "short")
    (tmp_path / "short_term.jsonl").write_bytes((tmp_path / "short_term.jsonl").read_bytes()[:-5])
    book.journal.close()
    disk = Faults()
    disk.error = errno.ENOSPC
    disk.failing = {"write_whole", "truncate"}
    again = Book(tmp_path, disk)
    assert again.seqs() == [1]
    refuse(again, DiskFull, "short")
    disk.failing = set()
    again.add("short", value="again")
    assert again.crash().values() == ["v", "again"]


@pytest.mark.parametrize("name", ["long_term", "snapshot"])
def test_a_journal_of_a_newer_format_is_refused_and_left_as_it_is(tmp_path: Path, name: str) -> None:
    book = Book(tmp_path)
    book.add("short")
    book.journal.close()
    body = b'{"journal":%d,"pepper":"a field that nobody knows yet"' % (FORMAT + 1)
    newer = body + b',"sum":"' + hashlib.blake2b(body, digest_size=8).hexdigest().encode() + b'"}\n'
    (tmp_path / f"{name}.000001.jsonl").write_bytes(newer)
    before = bytes_of(tmp_path)
    with pytest.raises(NewerFormat, match=f"has format {FORMAT + 1}; this version supports formats up to {FORMAT}"):
        Book(tmp_path)
    assert bytes_of(tmp_path) == before


def test_a_segment_of_an_older_format_is_read_and_written_on(tmp_path: Path) -> None:
    line = seal(JournalLine(1, 5, "test", NO_CHANGES, (PutMeta(name="m", value="old"),)))
    (tmp_path / "short_term.jsonl").write_bytes(
        seal(SegmentHeader(FORMAT, "short_term", 1, "store", SALT, 1)).data + line.data
    )
    book = Book(tmp_path, supported=FORMAT + 1)
    book.add("short", value="new")
    assert book.crash().values() == ["old", "new"]
    assert names(tmp_path) == ["long_term.jsonl", "short_term.jsonl"]


def test_files_of_the_journal_are_for_their_owner_alone(tmp_path: Path) -> None:
    book = Book(tmp_path / "journal", segment_bytes=500)
    for _ in range(4):
        book.add("short", "long")
    paths: Sequence[Path] = list((tmp_path / "journal").iterdir())
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o700


# Places


def test_a_line_can_be_fetched_by_its_place_when_it_is_written_and_when_it_is_read(tmp_path: Path) -> None:
    book = Book(tmp_path, segment_bytes=500)
    places = [place for _ in range(4) for place in book.add("short", "long", "short")]
    assert "short_term.000001.jsonl" in names(tmp_path)
    lines = [decode_line(book.journal.fetch(place))[0] for place in places]
    assert [line.seq for line in lines] == list(range(1, 13))
    assert [read.line for read in book.journal.lines()] == lines
    assert [read.location for read in book.journal.lines()] == places
    again = book.crash()
    for read in again.journal.lines():
        assert decode_line(again.journal.fetch(read.location)) == (read.line, read.sum)


def test_places_are_those_of_the_files_that_lines_stand_in(tmp_path: Path) -> None:
    book = Book(tmp_path)
    headers = {name: (tmp_path / f"{name}_term.jsonl").stat().st_size for name in ("short", "long")}
    one, other, third = book.add("short", "long", "short")
    assert (one.offset, other.offset) == (headers["short"], headers["long"])
    assert third.offset == one.offset + one.length + 1
    assert one.file == third.file != other.file


def test_no_more_files_are_open_for_fetching_than_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "OPEN_FILES_MAX", 3)
    book = Book(tmp_path, segment_bytes=200)
    places = [book.add("short")[0] for _ in range(10)]
    before = len(os.listdir("/dev/fd"))
    for place in [*places, *reversed(places)]:
        book.journal.fetch(place)
        assert len(os.listdir("/dev/fd")) <= before + 3
    book.journal.close()
    with pytest.raises(FileNotFoundError):
        book.journal.fetch(places[0])


def test_a_place_is_never_that_of_another_file_with_the_name(tmp_path: Path) -> None:
    """One journal object reads while another writes and rotates."""
    book = Book(tmp_path, segment_bytes=300)
    book.add("short")
    reader = Journal(tmp_path, "store", SALT, Faults())
    reader.open(read_only=True)
    (before,) = reader.lines()
    for _ in range(3):
        book.add("short")
    with pytest.raises(FileNotFoundError):
        reader.fetch(before.location)
    after = {read.line.seq: read for read in reader.lines()}
    assert after[1] == before, "under its new name it is the same file"
    for read in after.values():
        assert decode_line(reader.fetch(read.location)) == (read.line, read.sum)
    reader.close()


def test_lines_that_are_read_while_others_are_written_are_none_that_were_refused(tmp_path: Path) -> None:
    disk = Faults()
    book = Book(tmp_path, disk)
    book.add("short", "long")
    reading = book.journal.lines()
    assert next(reading).line.seq == 1
    disk.failing = {"sync", "truncate"}
    refuse(book, WriteFailure, "short", "long")
    disk.failing = set()
    book.add("short", value="again")
    assert [read.line.seq for read in reading] in ([2], [2, 3])
    assert book.values() == ["v", "v", "again"]


# A disk that is only read


def test_a_journal_that_is_only_read_changes_nothing_and_tells_torn_ends(tmp_path: Path) -> None:
    book = Book(tmp_path, segment_bytes=500)
    for _ in range(4):
        book.add("short")
    path = tmp_path / "short_term.jsonl"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b'{"seq":5,"at"')
    (tmp_path / "long_term.jsonl.new").write_bytes(b"{")
    book.journal.close()
    before = bytes_of(tmp_path)
    journal = Journal(tmp_path, "store", SALT, Faults())
    journal.open(read_only=True)
    journal.continue_after(journal.last)
    assert [read.line.seq for read in journal.lines()] == [1, 2, 3, 4]
    assert journal.check() == journal.damage == [(path.name, size, 13, "a torn end")]
    assert bytes_of(tmp_path) == before
    journal.close()


def test_a_journal_opened_read_only_takes_lines_once_the_disk_does(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.add("short")
    with (tmp_path / "short_term.jsonl").open("ab") as file:
        file.write(b"torn")
    book.journal.close()
    disk = Faults()
    disk.error, disk.failing = errno.EROFS, {"rename", "write_whole"}
    journal = Journal(tmp_path, "store", SALT, disk)
    journal.open(read_only=True)
    journal.continue_after(journal.last)
    book.journal, book.last = journal, journal.last
    refuse(book, WriteFailure, "short")
    disk.failing = set()
    book.add("short", value="again")
    assert book.values() == ["v", "again"]
    assert book.crash().values() == ["v", "again"]


def test_reading_does_not_make_a_missing_folder(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", "store", SALT, Faults())
    journal.open(read_only=True)
    journal.continue_after(journal.last)
    assert (journal.last, list(journal.lines()), journal.check(), journal.size()) == (NO_CHANGES, [], [], 0)
    assert not journal.folder.exists()
    sealed = seal(JournalLine(1, 5, "test", NO_CHANGES, ()))
    journal.append([(sealed, False)], 1)
    assert [read.line.seq for read in journal.lines()] == [1]
    journal.close()


def test_a_torn_end_of_a_file_that_cannot_be_opened_for_writing_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Book(tmp_path)
    book.add("short")
    book.journal.close()
    (tmp_path / "short_term.jsonl").write_bytes((tmp_path / "short_term.jsonl").read_bytes() + b"torn")
    real = os.open

    def read_only(path: str, flags: int, *more: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", read_only)
        again = Book(tmp_path)
        assert again.seqs() == [1]
        refuse(again, WriteFailure, "short")
    again.add("short", value="again")
    assert again.crash().values() == ["v", "again"]
