"""Forgetting: memories, and every trace of them in the data folder. SPEC 3.7

The order of it, of which each step can be done again after whatever stopped it:

1. A mark in the store names the memories. What stays no longer names them, and they are dropped; only salted hashes of
   their texts stay. From here on no answer knows them.
2. Columns, words and vectors are built anew, beside those that answer meanwhile.
3. What lies about in the data folder (torn ends, damaged databases, quarantine) is removed where it holds any of it.
4. Database and journal are written anew: writes wait, reads go on.
5. Every file is searched for what only these memories had, and the mark is taken away.

A start, or the housekeeping after a full disk, that finds the mark goes on from there. What the memories said is then
read once more in the journal, which holds it until it is written anew.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

import msgspec

from mnemo_client.care_protocol import Place, Purged, Quotation, Searched
from mnemo_core import forgetting
from mnemo_core.forgetting import Plan
from mnemo_core.traces import Sought, sought_of, whole_texts_of
from mnemo_daemon import allocator, copy_rewriting, remains
from mnemo_daemon.copy_rewriting import CopyRewriting
from mnemo_daemon.dropping import BUSY_SECONDS, Dropping, Told
from mnemo_daemon.refusals import Refusal, refusal_of
from mnemo_store import rewriting
from mnemo_store.disk import Disk, is_disk_full
from mnemo_store.errors import Busy, Closed, DiskFull, StoreError
from mnemo_store.keeper import Keeper
from mnemo_store.reading import Snapshot
from mnemo_store.records import Change, Forgotten, Memory, PutMemory, PutMeta, skip_hash
from mnemo_store.store import Store, Turn
from mnemo_store.stream import MemoryRow, VersionRow

MARK = "forgetting"  # the fact of the store that names what is being forgotten, "" when nothing is
PURGE = "purge"  # what the history calls it
NAMED_MAX = 20  # memories that say the same, as far as they are told of as places
RETRY_SECONDS = 60.0  # before what could not be finished is tried again

log = logging.getLogger("mnemo.forgetting")


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is being forgotten: ids alone, so that the mark tells nothing."""

    asked: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()
    everywhere: bool = False  # out of the copies of the store too


class Forgetting:
    """The service. Its methods take long and run on a thread; one forgets at a time, and others wait."""

    def __init__(
        self, store: Store, disk: Disk, spaces: Callable[[], Sequence[str]], renew_views: Callable[[], None]
    ) -> None:
        """`spaces`: of the vectors that are kept. `renew_views` returns once no view, cache or file of a view holds
        anything of what was dropped."""
        self.pending = ""  # why traces of forgotten memories may still be there; "" when there is none
        self._store = store
        self._disk = disk
        self._spaces = spaces
        self._renew_views = renew_views
        self._dropping = Dropping(store, self._pause)
        self._one = threading.Lock()
        self._stopping = threading.Event()
        self._retry_at = 0.0  # monotonic
        self._unsearched: list[Memory] = []  # what was dropped and whose traces are not yet gone
        if self._mark() != Mark():
            self.pending = "it was cut short, and goes on"

    def stop(self) -> None:
        """Has what is under way end before its next step, to be finished at the next start."""
        self._stopping.set()

    def plan(self, ids: Collection[str]) -> Purged:
        """What forgetting these would come to."""
        report = _report(forgetting.plan(tuple(ids), self._dropping.ties()), dry_run=True)
        report.candidates = self._quoting([*report.purged, *report.derived])
        report.backups = [str(path) for path in copy_rewriting.copies_of(self._store.folder)]
        return report

    def _quoting(self, ids: Collection[str]) -> list[Quotation]:
        """What says the whole of a text of these memories, which are still there."""
        sought = whole_texts_of(self._versions(ids))
        return remains.quotations(self._store, sought, self._go_on, besides=frozenset(ids))

    def _versions(self, ids: Iterable[str]) -> Iterator[Memory]:
        for memory_id in ids:
            with self._store.snapshot() as snapshot:
                yield from (stored.memory for stored in snapshot.versions(memory_id))

    def purge(self, ids: Sequence[str], by: str, *, quoting: bool = False, everywhere: bool = False) -> Purged:
        """Forgets these memories (whole ids) and what was derived from them; with `quoting` what says the whole of one
        of their texts too, and with `everywhere` out of the copies of the store that are known of.

        Raises a Refusal or what the store raises. What was dropped by then stays dropped, and the rest is done as soon
        as it can be.
        """
        began = time.monotonic()
        with self._one:
            self._refuse_out_of_order()
            before = self._take_up()
            if quoting:
                planned = forgetting.plan(tuple(ids), self._dropping.ties())
                ids = [*ids, *(each.id for each in self._quoting(planned.dropped))]
            mark = Mark((*before.asked, *ids), before.derived, before.everywhere or everywhere)
            planned = self._drop(mark, by)
            report = _report(planned._replace(asked=tuple(ids)))
            self._erase_and_tell(report, everywhere=mark.everywhere)
        report.seconds = round(time.monotonic() - began, 3)
        log.info(
            "forgot %d memories and %d derived from them in %.1f s", len(ids), len(planned.derived), report.seconds
        )
        return report

    def finish_if_due(self) -> None:
        """Goes on with what was cut short, now and then."""
        if self.pending and time.monotonic() >= self._retry_at and self._one.acquire(blocking=False):
            try:
                self._finish()
            except Refusal as refusal:
                log.warning("forgetting: %s", refusal.message)
            finally:
                self._one.release()

    def _finish(self) -> None:
        self._retry_at = time.monotonic() + RETRY_SECONDS
        mark = self._take_up()
        if mark == Mark():
            self.pending = ""
            return
        self._drop(mark, PURGE)
        report = Purged(purged=list(mark.asked), derived=list(mark.derived))
        self._erase_and_tell(report, everywhere=mark.everywhere)
        log.info("forgetting %d memories, which had been cut short, is finished", len(mark.asked) + len(mark.derived))
        for place in report.places:
            if place.state == "still there":
                log.warning("forgotten memories: %s: %s", place.place, place.detail)

    def _take_up(self) -> Mark:
        """What is marked, with what it said known again."""
        mark = self._mark()
        if mark != Mark() and not self._unsearched:
            self._unsearched = self._in_journal({*mark.asked, *mark.derived})
        return mark

    def _refuse_out_of_order(self) -> None:
        if self._store.degraded:
            message = f"the database, which would have to be written anew, is out of order: {self._store.degraded}"
            raise Refusal(503, "degraded", f"nothing was forgotten: {message}", retry_after=60)

    # 1: out of every answer

    def _drop(self, mark: Mark, by: str) -> Plan:
        """Drops what is marked and what was derived from it, until nothing is left that names any of it."""
        whole: Plan | None = None
        told = Told(PURGE, by, self._store.new_id())
        while True:
            planned = forgetting.plan(mark.asked, self._dropping.ties(), mark.derived)
            whole = planned if whole is None else _joined(whole, planned)
            if not self._exist(planned.dropped) and not planned.mended:
                return whole
            mark = Mark(planned.asked, planned.derived, mark.everywhere)
            self._put_mark(mark, told)
            self.pending = "it goes on"
            try:
                for versions in self._dropping.carry_out(planned, told, _purge):
                    self._unsearched += versions
            except BaseException:
                self._unsearched = []  # what the last slice came to is not known: the journal has all of it
                raise
            self._go_on()

    def _exist(self, ids: Iterable[str]) -> bool:
        with self._store.snapshot() as snapshot:
            return any(snapshot.stored(memory_id) is not None for memory_id in ids)

    def _mark(self) -> Mark:
        with self._store.snapshot() as snapshot:
            text = snapshot.meta(MARK)
        return msgspec.json.decode(text, type=Mark) if text else Mark()

    def _put_mark(self, mark: Mark, told: Told) -> None:
        value = msgspec.json.encode(mark).decode() if mark != Mark() else ""
        turn: Turn[None] = Turn((PutMeta(name=MARK, value=value),), None, told.what, told.group)
        self._store.transact(lambda _: turn, by=told.by, frees=True).result()

    def _in_journal(self, ids: Collection[str]) -> list[Memory]:
        """What the journal still holds of memories that were dropped."""

        def read(keeper: Keeper) -> list[Memory]:
            rows = (row for row, _ in keeper.journal.snapshot_rows())
            changes = (change for read in keeper.journal.lines() for change in read.line.changes)
            return [
                each.data
                for each in chain(rows, changes)
                if isinstance(each, MemoryRow | VersionRow | PutMemory) and each.data.id in ids
            ]

        return self._store.maintain(read).result()

    # 2 to 5: out of every file

    def _erase_and_tell(self, report: Purged, *, everywhere: bool) -> None:
        """Completes the report. Raises a Refusal that says what is still to be done."""
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
        allocator.trim()

    def _erase(self, report: Purged, *, everywhere: bool) -> None:
        folder = self._store.folder
        sought = remains.telling(self._store, sought_of(self._unsearched), self._go_on)
        report.candidates = remains.quotations(self._store, whole_texts_of(self._unsearched), self._go_on)
        self._renew()
        report.places += remains.remove_left_overs(folder, sought, self._disk, self._go_on)
        sizes = self._store.maintain(self._write_anew).result()
        looked = remains.look_through(folder, sought, self._go_on)
        if looked.found:  # it may have been said again meanwhile, in what stays
            still = remains.telling(self._store, sought.only(set().union(*looked.found.values())), self._go_on)
            looked = looked.only(still)
        details = {
            "db": f"written anew: {sizes.database_before} to {sizes.database} bytes",
            "journal": f"written anew: {sizes.journal_before} to {sizes.journal} bytes",
            "views": "built anew, and caches emptied",
        }
        found = {path.parts[0] for path in looked.found}
        report.places += [
            Place(place=part, state="clean", detail=detail) for part, detail in details.items() if part not in found
        ]
        report.places += [
            Place(place=str(path), state="still there", detail=f"it holds {remains.described(sought, names)}")
            for path, names in looked.found.items()
        ]
        report.places += [
            Place(place=f"memory {each.id}", state="still there", detail=f"its version {each.version} says the same")
            for each in report.candidates[:NAMED_MAX]
        ]
        self._look_at_copies(report, sought, everywhere=everywhere)
        report.searched = Searched(
            files=looked.files, bytes=looked.bytes, needles=len(sought), found=[str(path) for path in looked.found]
        )
        report.complete = all(place.state != "still there" for place in report.places)
        self._put_mark(Mark(), Told(PURGE, PURGE, ""))

    def _look_at_copies(self, report: Purged, sought: Sought, *, everywhere: bool) -> None:
        """Names the copies of the store that hold any of it; with `everywhere` rewrites them without it."""
        folder, disk = self._store.folder, self._disk
        needles = sought.without(())
        for text in (*(memory.content for memory in self._unsearched), *report.purged, *report.derived):
            needles.add_whole(text)
        if everywhere:
            with self._store.snapshot() as snapshot:
                salt, now = snapshot.meta("salt"), snapshot.now
            hashes = {skip_hash(salt, memory.content) for memory in self._unsearched}
            rewriter = CopyRewriting(
                disk,
                lambda store, ids: Forgetting(store, disk, self._spaces, lambda: None).purge(ids, PURGE),
                [*report.purged, *report.derived],
                {salt: {digest: Forgotten(hash=digest, at=now) for digest in hashes}},
                lambda memory_id: self._exist([memory_id]),
            )
            rewriter.tidy(folder)
            for copy in copy_rewriting.copies_holding(folder, needles, self._go_on):
                report.places.append(rewriter.rewrite(copy, folder, sought, self._go_on))
                self._go_on()
            still = {place.place for place in report.places if place.state == "still there"}
            report.backups = [str(path) for path in copy_rewriting.copies_of(folder) if str(path) in still]
        else:
            report.backups = [str(path) for path in copy_rewriting.copies_holding(folder, needles, self._go_on)]

    def _renew(self) -> None:
        while True:
            try:
                return self._renew_views()
            except Busy:
                self._pause()

    def _write_anew(self, keeper: Keeper) -> rewriting.Sizes:
        return rewriting.write_anew(keeper, 1, self._spaces())

    def _pause(self) -> None:
        self._stopping.wait(BUSY_SECONDS)
        self._go_on()

    def _go_on(self) -> None:
        if self._stopping.is_set():
            raise Closed("the daemon is shutting down")


def purge_in(store: Store, ids: Sequence[str], spaces: Sequence[str]) -> Purged:
    """Forgets memories (whole ids) in a store that no daemon has open, such as one that is about to be put in place of
    another. The vectors of `spaces` are kept; views are made anew by whoever opens it next. Raises as `purge` does."""

    def remove_views() -> None:
        for path in (store.folder / "views").glob("*"):
            path.unlink()

    return Forgetting(store, Disk(), lambda: spaces, remove_views).purge(ids, "restore")


def _purge(snapshot: Snapshot, versions: Sequence[Memory], note_stays: bool) -> list[Change]:
    return forgetting.removal(versions, snapshot.meta("salt"), snapshot.now, has_note=note_stays)


def _report(planned: Plan, *, dry_run: bool = False) -> Purged:
    return Purged(
        purged=list(planned.asked),
        derived=list(planned.derived),
        rederive={memory_id: list(sources) for memory_id, sources in planned.rederive.items()},
        revived=sorted(planned.revived),
        mended=list(planned.mended),
        dry_run=dry_run,
    )


def _joined(one: Plan, other: Plan) -> Plan:
    """What both come to: the second was made when the first had been carried out."""
    return Plan(
        one.asked,
        tuple(dict.fromkeys((*one.derived, *other.derived))),
        {**one.rederive, **other.rederive},
        one.revived | other.revived,
        tuple(dict.fromkeys((*one.mended, *other.mended))),
    )
