"""Rewriting the journal: a snapshot replaces everything before it. SPEC 3.3, 3.7, store/docs/format.md.

What a journal says is here the facts that its snapshot and its lines set; every line sets one of its own.
"""

import errno
import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from mnemo_store.codec import NO_CHANGES, encode_json
from mnemo_store.disk import Disk
from mnemo_store.errors import DiskFull, UnknownOutcome, WriteFailure
from mnemo_store.journal import dump
from mnemo_store.journal.journal import Journal, newest_header
from mnemo_store.journal.line_codec import JournalLine, SegmentHeader, decode_line, seal, unseal_json
from mnemo_store.records import FORMAT, ChangeEntry, PutMeta
from tests.support.samples import quick_folder

STORE, SALT = "store", "00" * 16
SEGMENT_BYTES = 400  # two lines
CALLS_MAX = 100

End = tuple[int, str]
Facts = dict[str, str]

OPENED: list[Journal] = []  # by the test that is running


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with quick_folder() as path:
        yield path
    while OPENED:
        OPENED.pop().close()


class WrittenJournal:
    """A journal, the end of its chain, and its expected content."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self.folder = folder
        self.journal = opened(folder, disk)
        self.journal.continue_after(self.journal.last)
        self.last = self.journal.last
        self.facts = facts_of(self.journal)

    def add(self, *files: str, value: str = "v") -> None:
        lines, facts, end = [], {}, self.last
        for file in files:
            sealed = seal(JournalLine(end[0] + 1, 5, "test", end, (PutMeta(name=f"fact {end[0] + 1}", value=value),)))
            lines.append((sealed, file == "long"))
            end = (end[0] + 1, sealed.sum)
            facts[f"fact {end[0]}"] = value
        self.journal.append(lines, self.last[0] + 1)
        self.last = end
        self.facts.update(facts)
        self.journal.rotate_full()

    def rewrite(self) -> None:
        self.journal.rewrite(stream_of(self.facts, self.last), self.last)


def opened(folder: Path, disk: Disk | None = None) -> Journal:
    journal = Journal(folder, STORE, SALT, disk or Disk(), SEGMENT_BYTES)
    OPENED.append(journal)
    journal.open()
    return journal


def stream_of(facts: Facts, last: End, *more: dump.DumpRow) -> list[bytes]:
    """A dump with these facts and more rows."""
    header = dump.DumpHeader(mnemo_stream=1, format=FORMAT, last=last, next_number=0, salt=SALT)
    rows = [header, *(PutMeta(name=name, value=value) for name, value in facts.items()), *more]
    tally = dump.Checksummer()
    for row in rows:
        tally.add(encode_json(row))
    return [encode_json(row) + b"\n" for row in (*rows, tally.footer())]


def facts_of(journal: Journal) -> Facts:
    facts = {row.name: row.value for row, _ in journal.snapshot_rows() if isinstance(row, PutMeta)}
    for read in journal.lines():
        facts.update({change.name: change.value for change in read.line.changes if isinstance(change, PutMeta)})
    return facts


def fill(written: WrittenJournal) -> None:
    """Both files in several segments, and a snapshot between."""
    for _ in range(3):
        written.add("short", "long", "short")
    written.rewrite()
    for _ in range(3):
        written.add("short", "long", "short")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def text_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


# Written


def test_a_snapshot_takes_the_place_of_every_segment_before_it(tmp_path: Path) -> None:
    written = WrittenJournal(tmp_path)
    fill(written)
    written.rewrite()
    *segments, snapshot = sorted(tmp_path.iterdir(), key=lambda path: path.name.replace("snapshot", "~"))
    assert [path.name for path in segments] == ["long_term.jsonl", "short_term.jsonl"]
    assert [len(path.read_bytes().splitlines()) for path in segments] == [1, 1], "nothing but headers"
    for journal in (written.journal, opened(tmp_path)):
        assert (journal.snapshot_last, journal.last, list(journal.lines())) == (written.last, written.last, [])
        assert facts_of(journal) == written.facts == {f"fact {seq}": "v" for seq in range(1, 19)}
        assert journal.damage == journal.check() == []
    assert journal.size() == sum(path.stat().st_size for path in (snapshot, *segments))


def test_a_snapshot_is_a_header_and_a_dump_each_line_with_its_checksum(tmp_path: Path) -> None:
    written = WrittenJournal(tmp_path)
    written.add("short")
    written.add("short")
    number = 1 + max(json.loads(path.read_bytes().splitlines()[0])["segment"] for path in tmp_path.iterdir())
    written.rewrite()
    lines = (tmp_path / f"snapshot.{number:06d}.jsonl").read_bytes().splitlines()
    header = {"journal": FORMAT, "file": "snapshot", "segment": number, "store": STORE, "salt": SALT, "first_seq": 3}
    bodies = [json.dumps(header, separators=(",", ":")).encode()]
    bodies += [line.rstrip(b"\n") for line in stream_of(written.facts, written.last)]
    for line, body in zip(lines, bodies, strict=True):
        checksum = hashlib.blake2b(body[:-1], digest_size=8).hexdigest().encode()
        assert line == body[:-1] + b',"sum":"' + checksum + b'"}'


def test_lines_after_a_snapshot_name_its_last_change(tmp_path: Path) -> None:
    written = WrittenJournal(tmp_path)
    fill(written)
    written.rewrite()
    before = written.last
    written.add("short", "long")
    for journal in (written.journal, opened(tmp_path)):
        first, second = journal.lines()
        assert (first.line.seq, first.line.prev) == (before[0] + 1, before)
        assert journal.last == (second.line.seq, second.sum) == written.last
        assert facts_of(journal) == written.facts
        assert journal.check() == []
        assert [read.line.seq for read in journal.lines(after=first.line.seq)] == [second.line.seq]


def test_rows_of_a_snapshot_can_be_fetched_by_their_places(tmp_path: Path) -> None:
    written = WrittenJournal(tmp_path)
    fill(written)
    written.rewrite()
    rows = list(written.journal.snapshot_rows())
    assert isinstance(rows[0].row, dump.DumpHeader)
    assert len(rows) == 1 + len(written.facts)
    for row, place in rows:
        assert dump.decode(unseal_json(written.journal.fetch(place))[0]) == row


def test_a_journal_without_a_snapshot_has_no_rows(tmp_path: Path) -> None:
    written = WrittenJournal(tmp_path)
    written.add("short")
    assert (list(written.journal.snapshot_rows()), written.journal.snapshot_last) == ([], NO_CHANGES)


def test_an_empty_journal_can_be_begun_with_a_snapshot(tmp_path: Path) -> None:
    """As a lost journal that is rewritten from the database."""
    journal = Journal(tmp_path / "journal", STORE, SALT, Disk())
    journal.open()
    journal.continue_after((7, "00ff00ff00ff00ff"))
    facts = {"fact 1": "v"}
    journal.rewrite(stream_of(facts, journal.last), journal.last)
    again = WrittenJournal(tmp_path / "journal")
    assert (again.journal.last, again.facts) == ((7, "00ff00ff00ff00ff"), facts)
    again.add("short")
    assert [read.line.prev[0] for read in again.journal.lines()] == [7]


def test_a_snapshot_is_for_its_owner_alone_and_names_the_store(tmp_path: Path) -> None:
    written = WrittenJournal(tmp_path)
    fill(written)
    written.rewrite()
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    for path in tmp_path.glob("*_term*.jsonl"):
        path.unlink()
    header = newest_header(tmp_path)
    assert header is not None
    assert (header.file, header.store, header.salt) == ("snapshot", STORE, SALT)


def test_the_newest_header_is_not_one_that_a_snapshot_replaces(tmp_path: Path) -> None:
    """The salt of a loaded dump counts when the next start finds no store.json."""
    written = WrittenJournal(tmp_path)
    for _ in range(5):
        written.add("short")
    left = (tmp_path / "short_term.000002.jsonl").read_bytes()
    written.journal.salt = "11" * 16
    written.journal.rewrite(stream_of({}, (2, "00" * 8)), (2, "00" * 8))
    (tmp_path / "short_term.000002.jsonl").write_bytes(left)
    header = newest_header(tmp_path)
    assert header is not None
    assert header.salt == "11" * 16


def test_rows_that_a_snapshot_leaves_out_are_no_longer_on_the_disk(tmp_path: Path) -> None:
    written = WrittenJournal(tmp_path)
    written.add("short", value="canary")
    for _ in range(3):
        written.add("short", "long")
    (tmp_path / "snapshot.000009.jsonl.new").write_bytes(b"canary, from a try that a crash ended")
    written.facts["fact 1"] = "gone"
    written.rewrite()
    assert b"canary" not in text_of(tmp_path)


def test_a_journal_cannot_continue_before_the_end_of_its_snapshot(tmp_path: Path) -> None:
    written = WrittenJournal(tmp_path)
    fill(written)
    written.rewrite()
    with pytest.raises(ValueError, match="the journal goes on after its snapshot: 18"):
        written.journal.continue_after((17, ""))


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        (lambda lines: lines[:-1], "the dump is cut off"),
        (lambda lines: lines[1:], "not of the store after change 18"),
        (lambda lines: stream_of({}, (17, "00" * 8)), "not of the store after change 18"),
    ],
)
def test_a_dump_of_another_change_or_without_its_end_is_refused_and_changes_nothing(
    tmp_path: Path, cut: Callable[[list[bytes]], list[bytes]], why: str
) -> None:
    written = WrittenJournal(tmp_path)
    fill(written)
    before = facts_of(written.journal)
    with pytest.raises(ValueError, match=why):
        written.journal.rewrite(cut(stream_of(written.facts, written.last)), written.last)
    written.add("short")
    for journal in (written.journal, opened(tmp_path)):
        assert facts_of(journal) == before | {"fact 19": "v"}
    assert not list(tmp_path.glob("*.new"))


def test_a_snapshot_is_written_in_pieces_and_never_held_in_memory(tmp_path: Path) -> None:
    class Sizes(Disk):
        sizes: list[int] = []  # noqa: RUF012 - one instance only

        def replace_file(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
            super().replace_file(path, self._noted(pieces))

        def _noted(self, pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
            for piece in pieces:
                self.sizes.append(len(piece))
                yield piece

    written = WrittenJournal(tmp_path, Sizes())
    chance = random.Random(1)
    written.facts = {f"fact {number}": chance.randbytes(1000).hex() for number in range(5000)}
    Sizes.sizes.clear()
    written.rewrite()
    assert max(Sizes.sizes) < 1.2 * (1 << 20)
    assert sum(Sizes.sizes) > 5 * (1 << 20)
    assert facts_of(opened(tmp_path)) == written.facts


# When the disk fails, or the machine


class FailingRewriteDisk(Disk):
    """Fails at the n-th call or from there on, and does half of the work where possible. One that does
    not fail keeps a copy of the folder as it is before each call."""

    def __init__(self, folder: Path, crashes: Path, fail_at: int = CALLS_MAX, error: int = errno.EIO) -> None:
        self.folder = folder
        self.crashes = crashes
        self.fail_at = fail_at
        self.error = error
        self.for_good = False
        self.calls = 0

    def _call(self, half: Callable[[], object] = lambda: None) -> None:
        self.calls += 1
        if self.fail_at == CALLS_MAX:
            shutil.copytree(self.folder, self.crashes / str(self.calls))
        if self.calls == self.fail_at or (self.for_good and self.calls > self.fail_at):
            half()
            raise OSError(self.error, os.strerror(self.error))

    def append(self, fd: int, data: bytes) -> None:
        self._call(lambda: Disk.append(self, fd, data[: len(data) // 2]))
        super().append(fd, data)

    def sync(self, fd: int) -> None:
        self._call()

    def sync_folder(self, folder: Path) -> None:
        self._call()

    def truncate(self, fd: int, size: int) -> None:
        self._call()
        super().truncate(fd, size)

    def rename(self, source: Path, target: Path) -> None:
        self._call()
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._call()
        super().unlink(path)

    def replace_file(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        whole = b"".join(pieces)
        self._call(lambda: path.with_name(path.name + ".new").write_bytes(whole[: len(whole) // 2]))
        super().replace_file(path, [whole])


@pytest.fixture
def crashes(tmp_path: Path) -> Path:
    return tmp_path / "crashes"


def prepared(folder: Path, disk: FailingRewriteDisk) -> WrittenJournal:
    """A journal with every kind of content, and a disk that fails from now on."""
    written = WrittenJournal(folder)
    fill(written)
    written.journal.disk = disk
    return written


def test_a_crash_at_any_step_of_a_rewrite_leaves_the_same_state(tmp_path: Path, crashes: Path) -> None:
    disk = FailingRewriteDisk(tmp_path / "journal", crashes)
    written = prepared(tmp_path / "journal", disk)
    written.rewrite()
    assert disk.calls > 15
    for copy in crashes.iterdir():
        again = WrittenJournal(copy)
        assert (again.facts, again.last) == (written.facts, written.last), copy.name
        assert again.journal.check() == again.journal.damage == []
        again.add("short", "long")
        once_more = WrittenJournal(copy)
        assert (once_more.facts, once_more.last) == (again.facts, again.last), copy.name
        numbers = {name.split(".")[1] for name in names(copy) if name.startswith("snapshot.")}
        assert len(numbers) == 1, "the one that was replaced is gone"


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("for_good", [False, True])
def test_a_disk_error_at_any_step_of_a_rewrite_leaves_the_same_state(
    tmp_path: Path, crashes: Path, error: int, for_good: bool
) -> None:
    refused = 0
    for fail_at in range(1, CALLS_MAX):
        folder = tmp_path / f"journal{fail_at}"
        disk = FailingRewriteDisk(folder, crashes, fail_at, error)
        disk.for_good = for_good
        written = prepared(folder, disk)
        try:
            written.rewrite()
        except (DiskFull, UnknownOutcome):
            refused += 1
        except WriteFailure:
            refused += error == errno.EIO
        calls, disk.fail_at = disk.calls, CALLS_MAX - 1
        assert facts_of(written.journal) == written.facts, fail_at
        shutil.copytree(folder, folder.with_name("copy"))
        again = WrittenJournal(folder.with_name("copy"))
        assert (again.facts, again.last) == (written.facts, written.last), fail_at
        shutil.rmtree(again.folder)
        written.add("short", "long")
        assert facts_of(written.journal) == written.facts, fail_at
        again = WrittenJournal(folder)
        assert (again.facts, again.last) == (written.facts, written.last), fail_at
        assert again.journal.check() == []
        if calls < fail_at:
            break
    assert calls < fail_at, "the run never ended untouched"
    assert refused == fail_at - 1 > 15


def test_a_crash_while_another_state_is_taken_over_leaves_the_one_or_the_other(tmp_path: Path, crashes: Path) -> None:
    """As after a restore to an earlier time: the snapshot ends before the lines that it replaces."""
    disk = FailingRewriteDisk(tmp_path / "journal", crashes)
    written = prepared(tmp_path / "journal", disk)
    other, last = {"fact 1": "other"}, (3, "00ff00ff00ff00ff")
    written.journal.rewrite(stream_of(other, last), last)
    seen = []
    for copy in sorted(crashes.iterdir(), key=lambda path: int(path.name)):
        again = WrittenJournal(copy)
        seen.append(again.last[0])
        assert (again.facts, again.last) in ((written.facts, written.last), (other, last)), copy.name
        again.add("short", "long")
        assert WrittenJournal(copy).facts == again.facts, copy.name
    assert sorted(set(seen)) == [3, 18]
    assert seen == sorted(seen, reverse=True), "from one moment on it is the other"


def test_segments_that_could_not_be_removed_are_removed_at_the_next_start(tmp_path: Path) -> None:
    class ClingingDisk(Disk):
        def unlink(self, path: Path) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    written = WrittenJournal(tmp_path, ClingingDisk())
    written.add("short", value="canary")
    written.add("short", "long")
    written.facts["fact 1"] = "gone"
    with pytest.raises(WriteFailure):
        written.rewrite()
    assert b"canary" in text_of(tmp_path)
    assert WrittenJournal(tmp_path).facts == written.facts
    assert b"canary" not in text_of(tmp_path)


def test_another_state_that_was_refused_is_not_there_at_the_next_start(tmp_path: Path) -> None:
    class Once(Disk):
        is_failing = False

        def sync_folder(self, folder: Path) -> None:
            if self.is_failing:
                self.is_failing = False
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk = Once()
    written = WrittenJournal(tmp_path, disk)
    fill(written)
    disk.is_failing = True
    with pytest.raises(WriteFailure):  # the snapshot had its name already
        written.journal.rewrite(stream_of({}, (3, "00" * 8)), (3, "00" * 8))
    again = WrittenJournal(tmp_path)
    assert (again.facts, again.last) == (written.facts, written.last)


def test_a_snapshot_that_can_neither_be_put_in_place_nor_removed_is_of_unknown_outcome(tmp_path: Path) -> None:
    class Unsure(Disk):
        is_failing = False

        def sync_folder(self, folder: Path) -> None:
            if self.is_failing:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk = Unsure()
    written = WrittenJournal(tmp_path, disk)
    fill(written)
    disk.is_failing = True
    with pytest.raises(UnknownOutcome, match="could not be rewritten"):
        written.rewrite()
    disk.is_failing = False
    written.add("short")
    assert WrittenJournal(tmp_path).facts == written.facts


# When it is damaged later


def damaged(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def rewritten(folder: Path) -> tuple[WrittenJournal, Path, list[int]]:
    """A journal with a snapshot and two lines, the snapshot's path, and the offsets of its lines."""
    written = WrittenJournal(folder)
    fill(written)
    written.rewrite()
    written.add("short", "long")
    (path,) = folder.glob("snapshot.*")
    offsets = [0]
    for line in path.read_bytes().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    return written, path, offsets


def test_a_damaged_row_costs_no_other_and_is_reported_with_its_offset(tmp_path: Path) -> None:
    written, path, offsets = rewritten(tmp_path)
    damaged(path, offsets[5] + 40, b"\0\0\0")
    again = WrittenJournal(tmp_path)
    assert len(again.facts) == len(written.facts) - 1
    assert again.last == written.last
    (damage,) = again.journal.damage
    assert damage == (path.name, offsets[5], offsets[6] - offsets[5], "its checksum does not match")
    assert again.journal.check() == [damage]


@pytest.mark.parametrize("lost", [[0], [1], [0, 1]])
def test_a_snapshot_without_its_first_rows_is_read_from_the_rest_and_the_later_lines(
    tmp_path: Path, lost: list[int]
) -> None:
    written, path, offsets = rewritten(tmp_path)
    seq = written.last[0] - 2
    for line in lost:
        damaged(path, offsets[line] + 5, b"\0" * 9)
    again = WrittenJournal(tmp_path)
    assert again.facts == written.facts
    assert again.last == written.last
    if lost != [0, 1]:
        assert again.journal.snapshot_last == next(again.journal.lines()).line.prev
        assert again.journal.snapshot_last[0] == seq
    assert [damage.offset for damage in again.journal.check() if "checksum" in damage.why] == [offsets[lost[0]]]


def test_a_snapshot_without_header_ends_with_its_last_change(tmp_path: Path) -> None:
    written = WrittenJournal(tmp_path)
    changes = [dump.ChangeRow(seq=seq, data=ChangeEntry(at=5, by="test")) for seq in (1, 7)]
    written.journal.rewrite(stream_of({}, (7, "00" * 8), *changes), (7, "00" * 8))
    (path,) = tmp_path.glob("snapshot.*")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"\0" * len(lines[0] + lines[1]) + b"".join(lines[2:]))
    assert opened(tmp_path).last == (7, "")


def test_a_lost_end_is_reported_and_costs_only_its_rows(tmp_path: Path) -> None:
    _, path, offsets = rewritten(tmp_path)
    for end, left in ((offsets[-2], 18), (offsets[-3], 17), (offsets[-3] - 1, 17), (offsets[-3] - 2, 16)):
        os.truncate(path, end)
        again = WrittenJournal(tmp_path)
        assert len(again.facts) == left + 2
        (damage,) = again.journal.damage
        assert damage.offset + damage.length == end


def test_rows_that_are_missing_without_a_trace_are_reported(tmp_path: Path) -> None:
    _, path, offsets = rewritten(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: offsets[4]] + data[offsets[6] :])
    journal = WrittenJournal(tmp_path).journal
    assert journal.damage == [(path.name, path.stat().st_size, 0, "rows of it are missing")]
    assert journal.quarantine(tmp_path / "quarantine") == [], "there is nothing to keep"


def test_an_incomplete_snapshot_never_replaces_its_source(tmp_path: Path, crashes: Path) -> None:
    disk = FailingRewriteDisk(tmp_path / "journal", crashes)
    written = prepared(tmp_path / "journal", disk)
    before = {name for name in names(tmp_path / "journal") if ".0" in name}
    written.rewrite()
    tried = 0
    for copy in sorted(crashes.iterdir(), key=lambda path: int(path.name)):
        newest = max(copy.glob("snapshot.*.jsonl"))
        if newest.name in before or not before <= set(names(copy)):
            continue
        tried += 1
        os.truncate(newest, newest.stat().st_size // 2)
        again = WrittenJournal(copy)
        assert (again.facts, again.last) == (written.facts, written.last), copy.name
        assert before | {f"{newest.name}.damaged"} <= set(names(copy)), "and it stays"
        assert [damage.why for damage in again.journal.damage] == [
            "it is incomplete: the segments that it replaces are read instead"
        ]
        again.add("short")
        assert WrittenJournal(copy).facts == again.facts
        again.rewrite()
        assert len(list(copy.glob("snapshot.*.jsonl"))) == 1
        assert WrittenJournal(copy).facts == again.facts
    assert tried > 2


def test_a_damaged_snapshot_without_its_source_is_read_as_far_as_possible_and_nothing_removed(
    tmp_path: Path, crashes: Path
) -> None:
    disk = FailingRewriteDisk(tmp_path / "journal", crashes)
    written = prepared(tmp_path / "journal", disk)
    written.rewrite()
    last = max((path for path in crashes.iterdir() if list(path.glob("*_term.0*"))), key=lambda path: int(path.name))
    left = [name for name in names(last) if "_term.0" in name]
    assert len(left) == 1, "the last segment that was to be removed"
    newest = max(last.glob("snapshot.*"))
    damaged(newest, newest.stat().st_size // 2, b"\0" * 9)
    again = WrittenJournal(last)
    assert len(again.facts) == len(written.facts) - 1
    assert set(left) <= set(names(last))
    assert len(again.journal.damage) == 1


def test_a_segment_next_to_a_snapshot_is_valid_by_its_number(tmp_path: Path) -> None:
    """As a restore cuts the journal at some time: the first number is the one after the snapshot's."""
    written, path, _ = rewritten(tmp_path)
    lines = [written.journal.fetch(read.location) + b"\n" for read in written.journal.lines()]
    floor, first_seq = written.journal.snapshot_number, written.journal.snapshot_last[0] + 1
    assert path.name == f"snapshot.{floor:06d}.jsonl"
    for number, left in ((floor, 0), (floor + 1, 1)):
        for name in ("short_term", "long_term"):
            header = seal(SegmentHeader(FORMAT, name, number, STORE, SALT, first_seq)).data
            (tmp_path / f"{name}.jsonl").write_bytes(header + (lines[0] if name == "short_term" else b""))
        journal = opened(tmp_path)
        assert [read.line.seq for read in journal.lines()] == [first_seq][:left]
        journal.close()
    assert decode_line(lines[0][:-1])[0].seq == first_seq
