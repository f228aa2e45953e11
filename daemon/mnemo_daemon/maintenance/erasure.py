"""Erasure: memories are deleted with every trace of them in the data folder. SPEC 3.7

Each step can be repeated after an interruption:

1. A mark in the store names the memories. References to them are removed and they are deleted; only salted hashes of
   their texts stay. From here on no answer has them.
2. The indexes are rebuilt, next to those that answer meanwhile.
3. Left-over files in the data folder (torn ends, damaged databases, quarantine) are removed where they hold a trace.
4. Database and journal are rewritten: writes wait, reads go on.
5. Every file is searched for texts that only these memories had, and the mark is cleared.

A start or a job that finds the mark continues from there. The texts are then read from the journal, which holds them
until it is rewritten.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import chain

import msgspec

from mnemo_client.protocol.memories import EraseAnswer, Quotation, ResidueSearch, SearchedPlace
from mnemo_core.ingest import erasure
from mnemo_core.ingest.erasure import ErasurePlan, ResiduePatterns, residue_patterns, whole_texts_of
from mnemo_core.text.languages import content_words
from mnemo_daemon import process_memory
from mnemo_daemon.errors import Refusal, refusal_of
from mnemo_daemon.history_names import BY_ERASURE, BY_TOPIC_NODES, PURGE
from mnemo_daemon.maintenance import residue_scan
from mnemo_daemon.maintenance.residue_scan import CopyErasure
from mnemo_daemon.maintenance.trash import ChangeOrigin, HardDelete
from mnemo_daemon.table_walk import records_of
from mnemo_daemon.thread_supervision import RETRY_PAUSE_SECONDS, retry_while_full
from mnemo_store.backend import Snapshot
from mnemo_store.disk import Disk, is_disk_full
from mnemo_store.errors import ClosedStoreError, DiskFull, StoreError
from mnemo_store.journal.dump import MemoryRow, VersionRow
from mnemo_store.maintenance import compaction
from mnemo_store.progress import Progress, unreported
from mnemo_store.record_texts import skip_hash
from mnemo_store.records import ErasedText, Memory, PutMemory, PutMeta, PutTopicNode, TopicNode
from mnemo_store.recovery.supervisor import StateSupervisor
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import CHANGES, TOPIC_NODES

MARK_KEY = "forgetting"  # the fact of the store that names what is being forgotten, "" when nothing is
NAMED_MAX = 20  # memories with the same text that are reported as places, at most
RETRY_SECONDS = 60.0  # before what could not be finished is tried again

log = logging.getLogger("mnemo.forgetting")


class ErasureMark(msgspec.Struct, frozen=True, omit_defaults=True):
    """The memories being erased: ids alone, so that the mark reveals nothing."""

    asked: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()
    everywhere: bool = False  # out of the copies of the store too


class Erasure:
    """The service. Its methods take long and run on a thread; one erasure at a time, and others wait."""

    def __init__(
        self, store: Store, disk: Disk, spaces: Callable[[], Sequence[str]], renew_views: Callable[[], None]
    ) -> None:
        """`spaces`: of the vectors that are kept. `renew_views` returns once no index, cache or index file holds
        anything of deleted memories."""
        self.pending = ""  # why traces of forgotten memories may still be there; "" when there is none
        self._store = store
        self._disk = disk
        self._spaces = spaces
        self._rebuild_all_views = renew_views
        self._hard_delete = HardDelete(store, self._pause)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._retry_at = 0.0  # monotonic
        self._progress: Progress = unreported  # of the erasure under way
        self._unsearched: list[Memory] = []  # what was dropped and whose traces are not yet gone
        if self._mark() != ErasureMark():
            self.pending = "it was cut short, and goes on"

    def stop(self) -> None:
        """End the erasure under way before its next step; the next start finishes it."""
        self._stopping.set()

    def plan(self, ids: Collection[str]) -> EraseAnswer:
        """The result that erasing these would have."""
        report = _report(erasure.plan_erasure(tuple(ids), self._hard_delete.relations()), dry_run=True)
        report.candidates = self._quotations([*report.purged, *report.derived])
        report.backups = [str(path) for path in residue_scan.known_copies(self._store.folder)]
        return report

    def find_erased(self, text: str) -> str:
        """The id of the erased memory that the text is the beginning or end of; "" for none in the history."""
        digits = text.strip().lower().replace("-", "")
        erased = (each for _, entry in records_of(self._store, CHANGES) if entry.what == PURGE for each in entry.ids)
        ends = (str.startswith, str.endswith)
        return next((each for each in erased if any(end(each.replace("-", ""), digits) for end in ends)), "")

    def _quotations(self, ids: Collection[str]) -> list[Quotation]:
        """The remaining memories that contain the whole of a text of these."""
        versions = list[Memory]()
        for memory_id in ids:
            with self._store.snapshot() as snapshot:
                versions += (stored.memory for stored in snapshot.all_versions(memory_id))
        sought = whole_texts_of(versions)
        return residue_scan.quotations(self._store, sought, self._continue, besides=frozenset(ids))

    def erase(
        self, ids: Sequence[str], by: str, *, quoting: bool = False, everywhere: bool = False,
        progress: Progress = unreported,
    ) -> EraseAnswer:  # fmt: skip
        """Erase these memories (whole ids) and what was derived from them; with `quoting` also memories that quote one
        of their texts in full, and with `everywhere` also from the known copies of the store.

        Raises a Refusal or what the store raises. Memories that were deleted by then stay deleted, and the rest is
        done as soon as possible.
        """
        began = time.monotonic()
        with self._lock:
            if self._store.degraded:
                message = f"the database, which has to be rewritten, is out of order: {self._store.degraded}"
                raise Refusal(503, "degraded", f"nothing was forgotten: {message}", retry_after=60)
            self._progress = progress
            try:
                before = self._load_marked()
                if quoting:
                    planned = erasure.plan_erasure(tuple(ids), self._hard_delete.relations())
                    ids = [*ids, *(each.id for each in self._quotations(planned.erased))]
                mark = ErasureMark((*before.asked, *ids), before.derived, before.everywhere or everywhere)
                self._progress("deleting the memories", 0, 0)
                planned = self._delete_marked(mark, by)
                report = _report(planned._replace(asked=tuple(ids)))
                self._erase_and_report(report, everywhere=mark.everywhere)
            finally:
                self._progress = unreported
        report.seconds = round(time.monotonic() - began, 3)
        log.info(
            "forgot %d memories and %d derived from them in %.1f s",
            len(report.purged), len(planned.derived), report.seconds,
        )  # fmt: skip
        return report

    def resume_if_due(self) -> None:
        """Continue an interrupted erasure, at most every RETRY_SECONDS."""
        if self.pending and time.monotonic() >= self._retry_at and self._lock.acquire(blocking=False):
            try:
                self._retry_at = time.monotonic() + RETRY_SECONDS
                mark = self._load_marked()
                if mark == ErasureMark():
                    self.pending = ""
                    return
                self._delete_marked(mark, PURGE)
                report = EraseAnswer(purged=list(mark.asked), derived=list(mark.derived))
                self._erase_and_report(report, everywhere=mark.everywhere)
                count = len(mark.asked) + len(mark.derived)
                log.info("forgetting %d memories, which had been cut short, is finished", count)
                for place in report.places:
                    if place.state == "still there":
                        log.warning("forgotten memories: %s: %s", place.place, place.detail)
            except Refusal as refusal:
                log.warning("forgetting: %s", refusal.message)
            finally:
                self._lock.release()

    def _load_marked(self) -> ErasureMark:
        """Load the marked memories, with their texts from the journal."""
        mark = self._mark()
        if mark != ErasureMark() and not self._unsearched:
            # The content that the journal still holds of dropped memories.
            ids = {*mark.asked, *mark.derived}

            def read(supervisor: StateSupervisor) -> list[Memory]:
                rows = (row for row, _ in supervisor.journal.snapshot_rows())
                changes = (change for read in supervisor.journal.lines() for change in read.line.changes)
                return [
                    each.data
                    for each in chain(rows, changes)
                    if isinstance(each, MemoryRow | VersionRow | PutMemory) and each.data.id in ids
                ]

            self._unsearched = self._store.run_exclusively(read).result()
        return mark

    # Step 1

    def _delete_marked(self, mark: ErasureMark, by: str) -> ErasurePlan:
        """Delete what is marked and what was derived from it, until nothing refers to any of it."""
        whole: ErasurePlan | None = None
        origin = ChangeOrigin(PURGE, by, self._store.new_id())
        while True:
            planned = erasure.plan_erasure(mark.asked, self._hard_delete.relations(), mark.derived)
            whole = planned if whole is None else _merged_report(whole, planned)
            if not self._exist(planned.erased) and not planned.referrers:
                return whole
            mark = ErasureMark(planned.asked, planned.derived, mark.everywhere)
            self._put_mark(mark, origin)
            self.pending = "it goes on"
            # Empty where this fails: the outcome of the last slice is not known then, and the journal has all of it.
            unsearched, self._unsearched = self._unsearched, []
            for versions in self._hard_delete.execute(planned, origin, lambda snapshot, versions, note_stays: (
                erasure.erase_memory(versions, snapshot.meta("salt"), snapshot.now, has_note=note_stays)
            )):  # fmt: skip
                unsearched += versions
            self._unsearched = unsearched
            self._continue()

    def _exist(self, ids: Iterable[str]) -> bool:
        with self._store.snapshot() as snapshot:
            return any(snapshot.stored(memory_id) is not None for memory_id in ids)

    def _mark(self) -> ErasureMark:
        with self._store.snapshot() as snapshot:
            text = snapshot.meta(MARK_KEY)
        return msgspec.json.decode(text, type=ErasureMark) if text else ErasureMark()

    def _put_mark(self, mark: ErasureMark, origin: ChangeOrigin) -> None:
        value = msgspec.json.encode(mark).decode() if mark != ErasureMark() else ""
        turn: WriteResult[None] = WriteResult((PutMeta(name=MARK_KEY, value=value),), None, origin.what, origin.group)
        self._store.transact(lambda _: turn, by=origin.by, frees=True).result()

    # Steps 2 to 5

    def _erase_and_report(self, report: EraseAnswer, *, everywhere: bool) -> None:
        """Complete the report. Raises a Refusal that says what is still to be done."""
        try:
            self._erase(report, everywhere=everywhere)
        except (StoreError, OSError) as error:
            is_full = isinstance(error, OSError) and is_disk_full(error)
            refusal = refusal_of(DiskFull(str(error)) if is_full else error) or Refusal(503, "write_failed", str(error))
            self.pending = refusal.message
            self._retry_at = time.monotonic() + RETRY_SECONDS
            refusal.message = (
                f"what was asked for is out of every answer and does not come back, but files still hold it: "
                f"{refusal.message}; removing it goes on by itself"
            )
            raise refusal from error
        self._unsearched, self.pending = [], ""
        process_memory.trim()

    def _erase(self, report: EraseAnswer, *, everywhere: bool) -> None:
        folder = self._store.folder
        self._hard_delete.drop_sessions(self._unsearched, ChangeOrigin(PURGE, BY_ERASURE.name, ""))
        self._progress("reading the texts that stay", 0, 0)
        sought = residue_scan.distinctive_texts(self._store, residue_patterns(self._unsearched), self._continue)
        report.candidates = residue_scan.quotations(self._store, whole_texts_of(self._unsearched), self._continue)
        clear_names(self._store, [memory.content for memory in self._unsearched])
        self._progress("rebuilding the indexes", 0, 0)
        retry_while_full(self._rebuild_all_views, self._pause)
        self._progress("removing left-over files", 0, 0)
        report.places += residue_scan.remove_leftovers(folder, sought, self._disk, self._continue)
        sizes = self._store.run_exclusively(
            lambda supervisor: compaction.compact(supervisor, 1, self._spaces(), self._progress)
        ).result()
        looked = residue_scan.scan_folder(folder, sought, self._continue, self._progress)
        if looked.found:  # it may have been said again meanwhile, in what stays
            still = residue_scan.distinctive_texts(
                self._store, sought.only(set().union(*looked.found.values())), self._continue
            )
            looked = looked.restricted_to(still)
        details = {
            "db": f"rewritten: {sizes.database_before} to {sizes.database} bytes",
            "journal": f"rewritten: {sizes.journal_before} to {sizes.journal} bytes",
            "views": "rebuilt, and caches emptied",
        }
        found = {path.parts[0] for path in looked.found}
        report.places += [
            SearchedPlace(place=part, state="clean", detail=detail)
            for part, detail in details.items()
            if part not in found
        ]
        report.places += [
            SearchedPlace(
                place=str(path), state="still there", detail=f"it holds {residue_scan.describe(sought, names)}"
            )
            for path, names in looked.found.items()
        ]
        report.places += [
            SearchedPlace(
                place=f"memory {each.id}", state="still there", detail=f"its version {each.version} says the same"
            )
            for each in report.candidates[:NAMED_MAX]
        ]
        self._progress("searching backups and other copies", 0, 0)
        self._check_copies(report, sought, everywhere=everywhere)
        report.searched = ResidueSearch(
            files=looked.files, bytes=looked.bytes, needles=len(sought), found=[str(path) for path in looked.found]
        )
        report.complete = all(place.state != "still there" for place in report.places)
        self._put_mark(ErasureMark(), ChangeOrigin(PURGE, BY_ERASURE.name, ""))

    def _check_copies(self, report: EraseAnswer, sought: ResiduePatterns, *, everywhere: bool) -> None:
        """Report the copies of the store that hold a trace; with `everywhere` rewrite them without it."""
        folder, disk = self._store.folder, self._disk
        needles = sought.without(())
        for text in (*(memory.content for memory in self._unsearched), *report.purged, *report.derived):
            needles.add_whole(text)
        if everywhere:
            with self._store.snapshot() as snapshot:
                salt, now = snapshot.meta("salt"), snapshot.now
            hashes = {skip_hash(salt, memory.content) for memory in self._unsearched}
            rewriter = CopyErasure(
                disk,
                lambda store, ids: Erasure(store, disk, self._spaces, lambda: None).erase(ids, BY_ERASURE.name),
                [*report.purged, *report.derived],
                {salt: {digest: ErasedText(hash=digest, at=now) for digest in hashes}},
                lambda memory_id: self._exist([memory_id]),
            )
            rewriter.finish_interrupted(folder)
            for copy in residue_scan.copies_holding(folder, needles, self._continue):
                report.places.append(rewriter.erase_from(copy, folder, sought, self._continue))
                self._continue()
            still = {place.place for place in report.places if place.state == "still there"}
            report.backups = [str(path) for path in residue_scan.known_copies(folder) if str(path) in still]
        else:
            report.backups = [str(path) for path in residue_scan.copies_holding(folder, needles, self._continue)]

    def _pause(self, seconds: float = RETRY_PAUSE_SECONDS) -> None:
        self._stopping.wait(seconds)
        self._continue()

    def _continue(self) -> None:
        if self._stopping.is_set():
            raise ClosedStoreError("the daemon is shutting down")


def erase_in_store(store: Store, ids: Sequence[str], spaces: Sequence[str]) -> EraseAnswer:
    """Erase memories (whole ids) in a store that no daemon has open, such as one that is about to be put in place of
    another. The vectors of `spaces` are kept; indexes are rebuilt by whoever opens it next. Raises as `purge` does."""

    def remove_views() -> None:
        for path in (store.folder / "views").glob("*"):
            path.unlink()

    return Erasure(store, Disk(), lambda: spaces, remove_views).erase(ids, "restore")


def _report(planned: ErasurePlan, *, dry_run: bool = False) -> EraseAnswer:
    return EraseAnswer(
        purged=list(planned.asked), derived=list(planned.derived),
        rederive={memory_id: list(sources) for memory_id, sources in planned.rederive.items()},
        revived=sorted(planned.unhidden), mended=list(planned.referrers), dry_run=dry_run,
    )  # fmt: skip


def _merged_report(one: ErasurePlan, other: ErasurePlan) -> ErasurePlan:
    """Both reports together: the second was made when the first had been carried out."""
    return ErasurePlan(
        one.asked,
        tuple(dict.fromkeys((*one.derived, *other.derived))),
        {**one.rederive, **other.rederive},
        one.unhidden | other.unhidden,
        tuple(dict.fromkeys((*one.referrers, *other.referrers))),
    )


def clear_names(store: Store, texts: Iterable[str]) -> None:
    """Clear the names of groups that have a word of these texts, which are erased."""
    erased = frozenset(word for text in texts for word in content_words(text))
    for node in [node for node in records_of(store, TOPIC_NODES) if not erased.isdisjoint(content_words(node.name))]:
        store.transact(partial(_cleared, node=node), by=BY_TOPIC_NODES.name, frees=True).result()


def _cleared(_: Snapshot, node: TopicNode) -> WriteResult[None]:
    return WriteResult((PutTopicNode(data=msgspec.structs.replace(node, name="")),), None, "")
