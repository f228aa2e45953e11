"""Repair of the violations that a check found. store/docs/format.md "Check".

The steps are those of `mnemo_store.maintenance.repair.plan`, for a dry run and for a real one. Whatever a step removes
from the store is written to `quarantine/` first; nothing is lost. Then everything is checked again, and violations that
were hidden behind others are repaired too.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from mnemo_daemon.history_names import BY_REPAIR
from mnemo_daemon.maintenance.store_check import POLL_SECONDS, CheckReport, StoreCheck
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.database.environment import Database
from mnemo_store.database.table_access import TableWriter
from mnemo_store.maintenance import compaction, repair
from mnemo_store.maintenance.check import InvariantViolation, Remedy
from mnemo_store.maintenance.repair import QUARANTINE, PlannedRepair, QuarantinedRow
from mnemo_store.records import Change
from mnemo_store.recovery.fallback_state import FallbackState
from mnemo_store.recovery.supervisor import StateSupervisor
from mnemo_store.store import WriteResult

ROUNDS_MAX = 5  # what is mended may uncover what was hidden behind it
AMENDED_AT_ONCE = 100  # violations in one write turn [SPEC 3.2]
VIEWS_SECONDS_MAX = 600.0  # to wait for indexes that are rebuilt

T = TypeVar("T")

log = logging.getLogger("mnemo.repair")


@dataclass
class RepairReport:
    """The steps that were done, or would be."""

    steps: list[PlannedRepair]
    report: CheckReport  # of the check that came last
    is_dry: bool
    quarantine: list[str] = field(default_factory=list)  # what was written there, below the data folder


class Quarantine:
    """The place for everything removed from a store: `quarantine/STAMP.jsonl`, and stretches of the journal in
    `quarantine/STAMP/`."""

    def __init__(self, checking: StoreCheck) -> None:
        self._disk = checking.disk
        self._data = checking.store.folder
        self._folder = self._data / QUARANTINE
        self._now = checking.store.now()
        self._lines: list[bytes] = []
        self.written: list[str] = []
        stamp = self._now
        while self._path(stamp).exists() or (self._folder / str(stamp)).exists():
            stamp += 1
        self._stamp = stamp

    @property
    def stretches(self) -> Path:
        """The folder of what is kept of the journal."""
        return self._folder / str(self._stamp)

    def keep(self, kept: Iterable[QuarantinedRow]) -> None:
        """Write rows to quarantine, durably."""
        lines = [one.line(self._now) for one in kept]
        if not lines:
            return
        self._lines += lines
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._disk.replace_file(self._path(self._stamp), self._lines)
        self._disk.sync_folder(self._data)
        self.note(self._path(self._stamp))

    def note(self, path: Path) -> None:
        """List a file that was written to quarantine."""
        name = str(path.relative_to(self._data))
        if name not in self.written:
            self.written.append(name)

    def _path(self, stamp: int) -> Path:
        return self._folder / f"{stamp}.jsonl"


class StoreRepair:
    """The steps, on a store that is open."""

    def __init__(self, checking: StoreCheck) -> None:
        self._checking = checking
        self._store = checking.store
        self._quarantine = Quarantine(checking)
        self._act: dict[Remedy, Callable[[Sequence[InvariantViolation]], None]] = {
            "reread": self._reread,
            "indexes": self._repair_indexes,
            "amend": self._amend,
            "embeddings": self._drop_embeddings,
            "history": self._mark_lost,
            "journal": self._write_journal,
            "views": self._rebuild_views,
            "vectors": self._refill_vectors,
        }

    def repair(self, *, dry_run: bool) -> RepairReport:
        """Take the steps that are possible, or only report them."""
        report = self._checking.run()
        done = RepairReport(self._possible(report), report, dry_run)
        if dry_run:
            return done
        steps, done.steps = done.steps, []
        for _ in range(ROUNDS_MAX):
            if not steps:
                break
            for number, step in enumerate(steps):
                self._checking.progress(f"repairing: {step.what}", number, len(steps))
                log.warning("repair: %s (%d): %s", step.what, step.how_many, step.why)
                self._act[step.remedy](step.violations)
                self._wait_for_indexes()
            done.steps += steps
            before, done.report = done.report.totals, self._checking.run()
            steps = self._possible(done.report)
            if done.report.totals == before:
                break
        done.quarantine = self._quarantine.written
        return done

    def _possible(self, report: CheckReport) -> list[PlannedRepair]:
        """The steps that can be taken in a store that is open."""
        steps = repair.plan(report.violations)
        if any(step.remedy == "database" for step in steps):
            report.notes.append("the database can be restored from the journal when nobody uses it: stop the daemon "
                                "(mnemo down), then run: mnemo repair")  # fmt: skip
        return [step for step in steps if step.remedy in self._act]

    def _exclusively(self, act: Callable[[StateSupervisor, Database], T]) -> T:
        """Run `act` on the writer thread, with the database. Raises StoreCorruption where there is none."""
        return self._store.run_exclusively(lambda supervisor: act(supervisor, supervisor.database())).result()

    def _reread(self, violations: Sequence[InvariantViolation]) -> None:
        owner = self._checking.store_identity()

        def act(supervisor: StateSupervisor, database: Database) -> None:
            now = supervisor.now()
            with owner.open_replay(database.end[0]) as journal:
                replayed = FallbackState(journal)
                with database.table_snapshot(now) as here, replayed.snapshot(now) as there:
                    self._quarantine.keep(repair.rows_without_journal(here, there, violations))

                def write(writing: TableWriter) -> None:
                    with replayed.snapshot(now) as there:
                        repair.reread(writing, there, violations)
                    repair.repair_indexes(writing)

                database.write(now, write)
            supervisor.report_row_ids_reset()

        self._exclusively(act)

    def _repair_indexes(self, _: Sequence[InvariantViolation]) -> None:
        def act(supervisor: StateSupervisor, database: Database) -> None:
            database.write(supervisor.now(), repair.repair_indexes)
            supervisor.report_row_ids_reset()

        self._exclusively(act)

    def _amend(self, violations: Sequence[InvariantViolation]) -> None:
        """Amend records by ordinary changes, decided in their write turn."""
        for some in batched(violations, AMENDED_AT_ONCE):
            with self._store.snapshot() as snapshot:
                kept = [one for each in some for one in repair.amend(snapshot, each)[0]]
            self._quarantine.keep(kept)
            self._store.transact(amendment(some, kept), by=BY_REPAIR.name, frees=True).result()

    def _drop_embeddings(self, violations: Sequence[InvariantViolation]) -> None:
        def act(supervisor: StateSupervisor, database: Database) -> None:
            with database.table_snapshot(supervisor.now()) as here:
                kept = repair.unusable_vectors(here, violations)
            self._quarantine.keep(kept)

            def write(writing: TableWriter) -> None:
                for one in kept:
                    if one.row is not None:
                        writing.delete_row("embeddings", one.row)

            database.write(supervisor.now(), write)

        self._exclusively(act)

    def _mark_lost(self, violations: Sequence[InvariantViolation]) -> None:
        self._exclusively(
            lambda supervisor, database: database.write(
                supervisor.now(), lambda writing: repair.mark_lost(writing, violations)
            )
        )

    def _write_journal(self, _: Sequence[InvariantViolation]) -> None:
        """From the database; what of it cannot be read stands in quarantine first."""

        def act(supervisor: StateSupervisor, _: Database) -> list[Path]:
            kept = supervisor.journal.quarantine(self._quarantine.stretches)
            compaction.rewrite_journal(supervisor)
            return kept

        for path in self._exclusively(act):
            self._quarantine.note(path)

    def _rebuild_views(self, _: Sequence[InvariantViolation]) -> None:
        views = self._checking.views
        if views is not None and views.state == "ready":
            views.rebuild()

    def _refill_vectors(self, _: Sequence[InvariantViolation]) -> None:
        """From the vectors that are kept; what has none is computed by who fills the index."""
        self._exclusively(lambda supervisor, _: supervisor.report_row_ids_reset())

    def _wait_for_indexes(self) -> None:
        """Columns, words and vectors are there again. Token rows wait until the machine is idle, and not on battery."""
        self._store.run_exclusively(lambda _: None).result()  # after it, the indexes have applied the repair
        views, indexing = self._checking.views, self._checking.indexing
        if views is not None:
            self._wait(lambda: views.state == "ready")
        if indexing is not None:
            self._wait(lambda: indexing.progress().state in ("ready", "off"))

    def _wait(self, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + VIEWS_SECONDS_MAX
        while not is_done() and time.monotonic() < deadline:
            self._checking.yield_to_queries()
            time.sleep(POLL_SECONDS)


def amendment(
    violations: Sequence[InvariantViolation], kept: Sequence[QuarantinedRow]
) -> Callable[[Snapshot], WriteResult[int]]:
    """A decision on the changes, without those that would remove rows that are not in quarantine."""
    safe = {(one.table, one.subject) for one in kept}

    def decide(snapshot: Snapshot) -> WriteResult[int]:
        changes: list[Change] = []
        for violation in violations:
            taken, wanted = repair.amend(snapshot, violation)
            if all((one.table, one.subject) in safe for one in taken):
                changes += [change for change in wanted if change not in changes]
        return WriteResult(changes, len(changes), BY_REPAIR.name)

    return decide
