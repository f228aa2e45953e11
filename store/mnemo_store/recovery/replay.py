"""Journal replay: brings a database up to the journal, and records what it finds wrong.

SPEC 3.3, store/docs/format.md."""

import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence

import msgspec

from mnemo_store.codec import NO_CHANGES, Position
from mnemo_store.database.environment import Database, UnreadableRow
from mnemo_store.database.table_access import TableWriter
from mnemo_store.errors import WriteFailure
from mnemo_store.journal import dump
from mnemo_store.journal.journal import Journal, LocatedLine
from mnemo_store.journal.line_codec import seal
from mnemo_store.records import is_long_term

GROUP_WRITES_MAX = 64  # writes of one commit group at most [SPEC 3.5]
REPLAY_LINES = 500  # in one commit

log = logging.getLogger("mnemo.store")


class Findings:
    """Sentences for people, each once, in the order in which they were found."""

    def __init__(self) -> None:
        self.recovered: list[str] = []  # found wrong and repaired
        self.data_losses: list[str] = []  # found wrong and beyond repair from here

    def record_recovered(self, what: str) -> None:
        if what not in self.recovered:
            self.recovered.append(what)

    def record_data_loss(self, what: str) -> None:
        if what not in self.data_losses:
            self.data_losses.append(what)


class JournalReplayer:
    """Applies the lines of the journal to a database, and reports changes that cannot be read."""

    def __init__(self, journal: Journal, findings: Findings, now: Callable[[], int]) -> None:
        self._journal = journal
        self._findings = findings
        self._now = now

    def load_snapshot(self, database: Database) -> None:
        """Fills an empty database with the snapshot that a rewritten journal begins with."""
        rows = (row for row, _ in self._journal.snapshot_rows())
        database.write(self._now(), lambda writing: dump.load(rows, writing))
        if (last := self._journal.snapshot_last) != NO_CHANGES:
            database.write(self._now(), lambda writing: writing.set_position(last))
            database.end = last

    def replay(self, database: Database, *, is_restored: bool) -> None:
        """Applies, in order, the lines that the database does not have yet.

        A crash leaves at most one commit group that the journal has and the database lacks. Its lines may stand in two
        files, of which one may have lost its end: then a number is missing, and nothing after the gap is valid, since
        nothing of that group was acknowledged. A gap is damage where more than one group is missing from the database,
        or where the database `is_restored` from nothing, so that nobody knows what was acknowledged: it is reported,
        and the lines after it are kept.
        """
        last = self._journal.last
        may_be_unacknowledged = not is_restored and last[0] - database.end[0] <= GROUP_WRITES_MAX
        lines = self._journal.lines(after=database.end[0]) if last[0] > database.end[0] else iter(())
        while self.apply_slice(database, lines, until_gap=may_be_unacknowledged):
            pass

    def apply_slice(self, database: Database, lines: Iterator[LocatedLine], *, until_gap: bool = False) -> bool:
        """Applies the next lines in one commit; False when these were the last. Changes that are missing between lines
        are a data loss or, with `until_gap`, the end."""
        taken, end = list[LocatedLine](), database.end
        for read in itertools.islice(lines, REPLAY_LINES):
            if until_gap and read.line.seq != end[0] + 1:
                log.warning("change %d and what follows were never acknowledged and are dropped", end[0] + 1)
                break
            if gap := read.gap_after(end):
                self._findings.record_data_loss(gap)
            taken.append(read)
            end = read.position
        self._apply(database, taken)
        return len(taken) == REPLAY_LINES

    def _apply(self, database: Database, lines: Sequence[LocatedLine]) -> None:
        """Applies lines in one commit."""
        if not lines:
            return
        end = lines[-1].position

        def write(writing: TableWriter) -> None:
            for read in lines:
                writing.apply(read.line.changes, read.line.seq, read.line.entry())
            writing.set_position(end)

        with unreadable_rows_reported():
            database.write(self._now(), write)
        database.end = end

    def follows_snapshot(self, end: Position) -> bool:
        """True if a database with this end can have grown from what the journal begins with."""
        seq, checksum = self._journal.snapshot_last
        return end[0] > seq or (end[0] == seq and checksum in ("", end[1]))

    def leads_from(self, end: Position, target: Position) -> bool:
        """True if the journal leads from a database that ends with `end` to `target`, its own last change."""
        if end[0] >= target[0]:
            return end == target
        if not self.follows_snapshot(end):
            return False
        following = next(self._journal.lines(after=end[0]), None)
        return following is not None and following.line.prev == end

    def close_gap(self) -> None:
        """Renumbers the lines of a last group that has holes, so that lines appended after it are in order. Without the
        database nobody knows whether that group was acknowledged: what there is of it is kept."""
        end, unordered = self._journal.snapshot_last, list[LocatedLine]()
        for read in self._journal.lines(after=end[0]):
            if unordered or read.line.seq != end[0] + 1:
                unordered.append(read)
                if len(unordered) > GROUP_WRITES_MAX:  # a hole in the middle is damage, which the replay reports
                    unordered, end = [], read.position
            else:
                end = read.position
        if not unordered:
            return
        self._journal.continue_after(end)
        first_seq, lines = end[0] + 1, []
        for seq, read in enumerate(unordered, first_seq):
            was = read.line
            sealed = seal(msgspec.structs.replace(was, seq=seq, prev=end))
            lines.append((sealed, any(map(is_long_term, was.changes))))
            end = (seq, sealed.sum)
        self._journal.append(lines, first_seq)

    def lines_after(self, seq: int) -> Iterator[LocatedLine]:
        return self._journal.lines(after=seq)


class CatchUp:
    """A database on its way back: it is brought up to the journal in slices while the fallback state serves."""

    def __init__(self, database: Database, replayer: JournalReplayer) -> None:
        self.database = database
        self._replayer = replayer
        self._lines = replayer.lines_after(database.end[0])

    def step(self, target: Position) -> bool:
        """Replays one slice; True once the database ends with `target`, the last change of the fallback state. Raises
        WriteFailure where the database turns out to hold other changes than the journal."""
        if self._replayer.apply_slice(self.database, self._lines):
            return False
        if self.database.end[0] < target[0]:
            self._lines = self._replayer.lines_after(self.database.end[0])  # what was written in the meantime
            return False
        if self.database.end != target:
            raise WriteFailure("the database does not hold the changes of the journal")
        return True


@contextlib.contextmanager
def unreadable_rows_reported() -> Iterator[None]:
    """Treats a row that cannot be decoded as damage of the database, like a page that fails verification."""
    try:
        yield
    except ValueError as error:
        raise UnreadableRow(f"a row cannot be read: {error}") from error
