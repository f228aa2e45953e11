"""The state of a store after a failure: everything acknowledged is there, in the database and in the journal."""

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import lmdb
import msgspec

from mnemo_daemon.indexing.index import is_indexed
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.maintenance.erasure import Erasure
from mnemo_daemon.maintenance.store_check import StoreCheck
from mnemo_store.database.integrity import boot_mark
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreError
from mnemo_store.store import Store
from tests.support.file_bytes import readable_bytes
from tests.support.samples import opened, sample_memory, tables_of, write
from tests.support.scripted_workload import CANARY, DIMENSIONS, OPTIONS, SPACE, AcknowledgedWrites, read_all

LATER = 5000  # the number of a memory that is written afterwards


class UnsyncedDisk(Disk):
    """The real disk, but for waiting on the medium: for stores that are only looked at."""

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


@dataclass
class DurabilityReport:
    """The findings. `problems` is empty if everything is as it must be."""

    problems: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)  # what the store said of itself


def examine(folder: Path, account: AcknowledgedWrites, *, whole: bool = True) -> DurabilityReport:
    """Opens the store as after a crash, holds it against what was acknowledged, writes once more, opens it again, and
    at last opens what the journal alone gives. `whole`: every acknowledged vector must be there too, unless the
    database was begun anew."""
    found = DurabilityReport()
    try:
        if not folder.exists():
            found.problems += [f"the folder is gone: {one}" for one in account.differences([])]
            return found
        with opened(folder, UnsyncedDisk(), **OPTIONS) as store:
            found.reasons += store.findings
            found.problems += _state_problems(store, account)
            if whole and not any("restored" in reason for reason in store.findings):
                found.problems += _vector_problems(store, account.vectors)
            found.problems += _checked(store, account)
            write(store, sample_memory(LATER, "written after the loss"), what="add")
        found.problems += [f"at the second start: {problem}" for problem in _second_start(folder)]
        found.problems += [f"the journal alone: {problem}" for problem in _journal_alone(folder)]
    except (StoreError, OSError, lmdb.Error) as error:
        found.problems.append(f"it does not open: {type(error).__name__}: {error}")
    return found


def forget_the_run(folder: Path) -> None:
    """Makes a copied store look as it would where it was written, so that nothing but its content tells of the loss.

    The database has the time that the manifest has for it: what fdatasync writes does not include a file's times. That
    the machine was restarted shows in any copy: it is another file.
    """
    manifest, data = folder / "store.json", folder / "db" / "data.mdb"
    if not (manifest.exists() and data.exists()):
        return
    try:
        said = msgspec.json.decode(manifest.read_bytes())
    except msgspec.MsgspecError:
        return
    assert said.get("running", "") != boot_mark(data), "the copy must not look like the file that was open"
    if said.get("database_mtime_ns"):
        os.utime(data, ns=(said["database_mtime_ns"], said["database_mtime_ns"]))


def _state_problems(store: Store, account: AcknowledgedWrites) -> list[str]:
    with store.snapshot() as snapshot:
        memories = read_all(snapshot)
        problems = account.differences(memories)
        for one in memories:
            versions = [stored.memory.version for stored in snapshot.versions(one.id)]
            if versions != list(range(versions[0], one.version + 1)):  # the oldest may have been given up
                problems.append(f"{one.id} is of version {one.version} and has the versions {versions}")
            if (snapshot.trash(one.id) is not None) != (one.state == "trashed"):
                problems.append(f"{one.id} is {one.state}, and its trash entry is {snapshot.trash(one.id)}")
    return problems


def _vector_problems(store: Store, digests: Iterable[str]) -> list[str]:
    with store.snapshot() as snapshot:
        lost = [digest for digest in digests if snapshot.vectors(SPACE, bytes.fromhex(digest), DIMENSIONS) is None]
    return [f"the vectors of {digest} are gone" for digest in lost]


def _checked(store: Store, account: AcknowledgedWrites) -> list[str]:
    """Columns and words, loaded or built anew, know what the store holds and nothing else; what was purged, or began to
    be, is in no file; and `check` is clean."""
    views = Views(store, UnsyncedDisk())
    views.open()
    Erasure(store, UnsyncedDisk(), lambda: (SPACE,), views.rebuild_without_deleted).resume_if_due()
    with store.snapshot() as snapshot:
        memories = snapshot.memories(limit=10_000)
        numbers = {memory.id: snapshot.number(memory.id) for memory in memories}
    problems = []
    indexed = [memory for memory in memories if is_indexed(memory)]
    if len(views.lexical) != len(indexed):
        problems.append(f"{len(views.lexical)} memories are found by words, {len(indexed)} are there")
    for memory in indexed:
        hits = list(views.lexical.search(memory.content.split()[0], 5).numbers)
        if hits != [numbers[memory.id]]:
            problems.append(f"{memory.content[:20]!r} is found as {hits}, not {numbers[memory.id]}")
    if account.purged and not account.purged & set(numbers):
        holding = [
            path for path in store.folder.rglob("*") if path.is_file() and CANARY.encode() in readable_bytes(path)
        ]
        problems += [f"{path.relative_to(store.folder)} holds what was purged" for path in holding]
    report = StoreCheck(store, views, disk=UnsyncedDisk()).run()
    return problems + [f"check: {each.invariant}: {each.subject}: {each.what}" for each in report.violations]


def _second_start(folder: Path) -> list[str]:
    with opened(folder, UnsyncedDisk(), **OPTIONS) as store, store.snapshot() as snapshot:
        problems = [f"it says {reason}" for reason in store.findings]
        if snapshot.memory(sample_memory(LATER).id) is None:
            problems.append("what was written after the loss is gone")
    return problems


def _journal_alone(folder: Path) -> list[str]:
    """The journal gives the tables that the database has, to the byte."""
    before = tables_of(folder)
    shutil.rmtree(folder / "db")
    with opened(folder, UnsyncedDisk(), **OPTIONS):
        pass
    after = tables_of(folder)
    return [
        f"{name} has {len(after[name])} rows, not {len(rows)}: {_first_difference(after[name], rows)}"[:600]
        for name, rows in before.items()
        if after[name] != rows
    ]


def _first_difference(rows: list[tuple[bytes, bytes]], others: list[tuple[bytes, bytes]]) -> str:
    return " is not ".join(str(sorted(set(one) - set(other))[:1]) for one, other in ((rows, others), (others, rows)))
