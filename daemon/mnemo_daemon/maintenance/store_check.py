"""Check of an open store: invariants, the journal against the database, the indexes against both. format.md "Check".

The daemon goes on writing meanwhile. An invariant is checked in one snapshot; journal and database are compared up to
one change, and differences are checked again in one snapshot; in the indexes, memories changed since are left out.
"""

import contextlib
import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mnemo_daemon.indexing.commit_indexes import COMMIT_INDEXES
from mnemo_daemon.indexing.index import BackgroundIndex, IndexFault, IndexFile, IndexProgress
from mnemo_daemon.indexing.index_checks import ExpectedIndexes, as_files, expected_indexes
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_store.backend import READ_SLICE
from mnemo_store.database.table_access import TableSnapshot
from mnemo_store.disk import Disk
from mnemo_store.errors import ClosedStoreError, StoreCorruption
from mnemo_store.indexes.attributes import AttributeStore
from mnemo_store.maintenance.check import CHECK_SLICE, InvariantViolation, Remedy, TableSource, YieldToQueries, check
from mnemo_store.maintenance.journal_diff import JournalChangeError, JournalOwner, check_journal
from mnemo_store.progress import Progress, unreported
from mnemo_store.store import Store
from mnemo_store.tables import TABLE_NAMES, TABLES

KEPT_MAX = 10_000  # violations of one rule that are kept; the rest is counted
PAUSE_SECONDS = 0.001  # between two slices, for those who want an answer
SETTLE_SECONDS = 5.0  # how long vectors that are on their way are waited for
POLL_SECONDS = 0.02
SCRATCH = "check-"  # how the folder begins in which views are looked at


@dataclass
class CheckReport:
    """The findings."""

    checked: Counter[str] = field(default_factory=Counter)  # rows, by table or view
    totals: Counter[str] = field(default_factory=Counter)  # violations, by rule
    violations: list[InvariantViolation] = field(default_factory=list)  # of each rule the first KEPT_MAX
    notes: list[str] = field(default_factory=list)  # what could not be checked, and what else is worth knowing
    seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        return not self.totals

    def add(self, violations: Iterable[InvariantViolation]) -> None:
        """Add violations, each once."""
        known = {(each.table, each.subject) for each in self.violations if each.remedy == "reread"}
        for each in violations:
            if each.remedy == "reread" and (each.table, each.subject) in known:
                continue
            self.totals[each.invariant] += 1
            if self.totals[each.invariant] <= KEPT_MAX:
                self.violations.append(each)


@dataclass(frozen=True)
class StoreCheck:
    """Check of an open store, and of the indexes of the daemon that serves it, if there is one."""

    store: Store
    views: Views | None = None
    indexing: VectorIndexer | None = None
    stopping: Callable[[], bool] = lambda: False
    disk: Disk = field(default_factory=Disk)
    progress: Progress = unreported

    def run(self) -> CheckReport:
        """Everything there is to find. Raises ClosedStoreError when the daemon stops meanwhile."""
        began, report = time.monotonic(), CheckReport()
        try:
            with self.source() as at:
                rows = sum(map(at.row_count, TABLE_NAMES))
            slices = self._reported("reading the rows", report.checked.total, rows)
            report.add(check(self.source, report.checked, slices))
            report.add(self._journal_violations(report))
            report.add(self._view_violations(report))
        except StoreCorruption as error:
            what = self.store.degraded or str(error)
            report.add([InvariantViolation("database", "db", "data.mdb", what, "database")])
            report.notes.append("the rest was not checked: that needs the database")
        report.seconds = time.monotonic() - began
        return report

    @contextlib.contextmanager
    def source(self) -> Iterator[TableSnapshot]:
        """The tables at one moment. Raises StoreCorruption while the journal stands in for them."""
        with self.store.snapshot() as snapshot:
            if not isinstance(snapshot, TableSnapshot):
                raise StoreCorruption(f"the journal stands in for the database: {self.store.degraded}")
            yield snapshot

    def store_identity(self) -> JournalOwner:
        """The identity of the store that the journal belongs to."""
        with self.store.snapshot() as snapshot:
            return JournalOwner(self.store.folder / "journal", self.store.store_id, snapshot.meta("salt"))

    def yield_to_queries(self) -> None:
        if self.stopping():
            raise ClosedStoreError("the daemon is shutting down")
        time.sleep(PAUSE_SECONDS)

    def _reported(self, step: str, count: Callable[[], int], total: int) -> YieldToQueries:
        """A `yield_to_queries` that reports the progress of a step after each of its slices."""

        def end_slice() -> None:
            self.progress(step, count(), total)
            self.yield_to_queries()

        return end_slice

    def _memories_reported(self, name: str) -> YieldToQueries:
        """As `_reported`, for a check of an index, which reads the memories."""
        with self.source() as at:
            memories = at.row_count("memories")
        checked = itertools.count(CHECK_SLICE, CHECK_SLICE)
        return self._reported(f"checking the index: {name}", checked.__next__, memories)

    def _journal_violations(self, report: CheckReport) -> Iterator[InvariantViolation]:
        try:
            with self.source() as at:
                rows = sum(at.row_count(table.name) for table in TABLES)
            compared = itertools.count(READ_SLICE, READ_SLICE)
            self.progress("reading the journal", 0, 0)
            slices = self._reported("comparing the journal", compared.__next__, rows)
            yield from check_journal(self.source, self.store_identity(), slices)
            report.checked["journal"] = self.store.seq
        except JournalChangeError as error:
            report.notes.append(str(error))

    # Views

    def _view_violations(self, report: CheckReport) -> Iterator[InvariantViolation]:
        if self.views is not None and self.views.state == "ready":
            try:
                folder = self.store.folder / "views"
                for path in folder.glob(f"{SCRATCH}*"):
                    with contextlib.suppress(OSError):
                        for file in path.iterdir():
                            file.unlink()
                        path.rmdir()
                seq, indexes = self.views.applied_seq, self.views.indexes
                with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=folder) as scratch:
                    live = as_files(indexes, Path(scratch), self.disk)
                    truth = expected_indexes(
                        self.source, Path(scratch), self.disk, self._memories_reported("words and columns")
                    )
                report.checked |= dict.fromkeys(live, len(truth.ids))
                yield from find_differences(live, truth, touched_since(self.source, seq), self.views.attributes)
            except OSError as error:  # they are compared as files
                report.notes.append(f"columns and words were not checked: {error}")
        elif self.views is not None:
            report.notes.append("columns and words are being rebuilt: they were not checked")
        if self.indexing is not None:
            for name, index in self.indexing.indexes.items():
                yield from self._background_index(name, index, report)

    def _background_index(self, name: str, index: BackgroundIndex, report: CheckReport) -> Iterator[InvariantViolation]:
        progress = index.progress()
        if progress is None:
            return
        if progress.state == "off":
            report.notes.append(f"{progress.reason}: {name} were not checked")
            return
        if (caught_up := self._caught_up(index)) is None:
            report.notes.append(f"{name} are being computed: they were not checked")
            return
        found = list(index.verify(self.source, self._memories_reported(name)))
        report.checked[name] = caught_up.items
        if found and self._caught_up(index) is not None:
            again = {wrong.number for wrong in index.verify(self.source, self.yield_to_queries)}
            # It may know of a memory before a snapshot does.
            touched = touched_since(self.source, caught_up.applied_seq, self.yield_to_queries)
            left = (wrong for wrong in found if wrong.number in again and wrong.memory_id not in touched)
            yield from as_violations(name, "vectors", left)

    def _caught_up(self, index: BackgroundIndex) -> IndexProgress | None:
        """Wait until the index has the changes made before this call; None when that takes long."""
        seq, deadline = self.store.seq, time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            progress = index.progress()
            if progress is not None and progress.applied_seq >= seq and progress.state in ("ready", "catching_up"):
                return progress
            self.yield_to_queries()
            time.sleep(POLL_SECONDS)
        return None


def find_differences(
    live: Mapping[str, IndexFile], truth: ExpectedIndexes, touched: frozenset[str], columns: AttributeStore,
    *, gone_too: bool = True,
) -> Iterator[InvariantViolation]:  # fmt: skip
    """Differences between commit indexes and the store, except for memories that changed since they were compared.
    `gone_too`: also where they have what is gone."""
    for kind in COMMIT_INDEXES:
        wrong = []
        for number, what in sorted(kind.verify(live[kind.name], truth.files[kind.name]).items()):
            memory_id = truth.ids.get(number)
            if memory_id is None and not gone_too:
                continue
            if memory_id is None and number < columns.size:
                memory_id = columns.ids([number])[0]
            if memory_id not in touched:
                wrong.append(IndexFault(number, memory_id or "", what))
        yield from as_violations(kind.name, "views", wrong)


def touched_since(source: TableSource, seq: int, yield_to_queries: YieldToQueries = lambda: None) -> frozenset[str]:
    """The memories that changes behind seq changed, dropped or used."""
    ids: set[str] = set()
    while True:
        with source() as at:
            rows = at.entries(seq, READ_SLICE)
        for _, entry in rows:
            ids.update(entry.ids, entry.used)
        if len(rows) < READ_SLICE:
            return frozenset(ids)
        seq = rows[-1][0]
        yield_to_queries()


def as_violations(name: str, remedy: Remedy, found: Iterable[IndexFault]) -> Iterator[InvariantViolation]:
    """The faults of an index as a report has them."""
    for number, memory_id, what in found:
        yield InvariantViolation(name, "views", memory_id or f"number {number}", what, remedy)
