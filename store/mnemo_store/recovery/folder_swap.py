"""Putting a restored store in the place of another, in steps that the next start can finish. SPEC 3.8, FORMAT.md.

The restored store stands in DATA.restoring until it is whole; then it gets the file `restored.json`, DATA is renamed to
DATA.before-restore-MS, and DATA.restoring to DATA. What a kill leaves of that is told apart by that file: without it
the restore had not come to its end, and what stands there is a copy that nobody needs.
"""

import contextlib
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mnemo_store.database.migrations import BACKUPS_FOLDER
from mnemo_store.disk import Disk
from mnemo_store.errors import FolderInUse, StoreError
from mnemo_store.recovery import manifest
from mnemo_store.recovery.folder_lock import LOCK_FILE, FolderLock

RESTORING, REPLACED = ".restoring", ".before-restore-"  # behind the data folder's name
SWAP_MARKER = "restored.json"

log = logging.getLogger("mnemo.store")


class SwapMarker(msgspec.Struct, frozen=True):
    """`restored.json`: the name of the folder that the replaced store is kept as, "" where there was none."""

    kept: str


def staging_folder(data: Path) -> Path:
    """Where a store is made that is to take the place of `data`."""
    return data.with_name(f"{data.name}{RESTORING}")


def swap_in(data: Path, disk: Disk, now: int) -> Path | None:
    """Puts the store in `stage_of(data)`, which is whole and closed, in the place of `data`; where that is kept."""
    stage = staging_folder(data)
    while (kept := data.with_name(f"{data.name}{REPLACED}{now}")).exists():
        now += 1
    is_there = data.exists()
    with _staging_lock(stage):
        disk.replace_file(stage / SWAP_MARKER, [msgspec.json.encode(SwapMarker(kept.name if is_there else ""))])
        if is_there:
            disk.rename(data, kept)
        try:
            disk.rename(stage, data)
        except OSError:
            if is_there:
                disk.rename(kept, data)
            raise
        _finish_inside(data, disk)
    return kept if is_there else None


def finish_swap(data: Path, disk: Disk) -> None:
    """Finishes what a kill left between the first change of name and the last step of a restore, if anything.

    Raises StoreError where a restore is under way, and where an older version left what cannot be told apart.
    """
    stage = staging_folder(data)
    if (stage / SWAP_MARKER).exists():
        has_begun = not _has_store(data) or not (stage / "journal").exists()
        with _staging_lock(stage):
            if has_begun:
                log.warning("the restore of %s was cut short, and is finished", data)
                data.mkdir(mode=0o700, exist_ok=True)
                _move_into(stage, data, disk)
    if (data / SWAP_MARKER).exists():
        _finish_inside(data, disk)
    if _has_store(data):
        return
    kept = sorted(data.parent.glob(f"{data.name}{REPLACED}*"))
    if kept and stage.exists():
        why = f"a restore of {data} was cut short"
        raise StoreError(f"{why}: move {kept[-1]} back there and restore again, or remove {stage} to do without it")


def remove_staging(data: Path) -> None:
    """Removes what a restore that was killed before its end left beside `data`, which the caller has locked: a copy
    that may hold what is forgotten later."""
    stage = staging_folder(data)
    if stage.is_dir() and _has_store(data):
        log.warning("a restore of %s had been cut short: %s is removed", data, stage.name)
        shutil.rmtree(stage, ignore_errors=True)


def _has_store(folder: Path) -> bool:
    return any((folder / part).exists() for part in (manifest.MANIFEST_FILE, "journal", "db"))


@contextlib.contextmanager
def _staging_lock(stage: Path) -> Iterator[None]:
    """The lock of the stage, so that a start does not finish what a restore is about to."""
    try:
        lock = FolderLock.acquire(stage)
    except FolderInUse as locked:
        raise StoreError(f"a restore is under way ({locked}): start again when it is done") from locked
    try:
        yield
    finally:
        lock.release()


def _move_into(stage: Path, data: Path, disk: Disk) -> None:
    """Moves everything into a folder that is there and has no store: the journal first and the mark last, by which a
    move that is cut short is known."""
    names = [
        path.name
        for path in stage.iterdir()
        if path.name not in ("journal", manifest.MANIFEST_FILE, SWAP_MARKER, LOCK_FILE)
    ]
    for name in ("journal", *sorted(names), manifest.MANIFEST_FILE, SWAP_MARKER):
        if (stage / name).exists():
            _merge(stage / name, data / name, disk)
    disk.sync_folder(data)
    shutil.rmtree(stage)
    disk.sync_folder(data.parent)


def _merge(source: Path, target: Path, disk: Disk) -> None:
    if not (source.is_dir() and target.is_dir()):
        disk.rename(source, target)
        return
    for path in sorted(source.iterdir()):
        _merge(path, target / path.name, disk)
    source.rmdir()


def _finish_inside(data: Path, disk: Disk) -> None:
    """What is left to do once the restored store has its place: backups belong to the place, not to the store."""
    disk.sync_folder(data.parent)
    try:
        mark = msgspec.json.decode((data / SWAP_MARKER).read_bytes(), type=SwapMarker)
    except msgspec.MsgspecError:  # it says nothing but where the backups are
        mark = SwapMarker("")
    backups = data.with_name(mark.kept) / BACKUPS_FOLDER if mark.kept else None
    if backups is not None and backups.is_dir() and any(backups.iterdir()):
        (data / BACKUPS_FOLDER).mkdir(
            mode=0o700, exist_ok=True
        )  # it is there where what was restored has been migrated
        for each in sorted(backups.iterdir()):
            disk.rename(each, data / BACKUPS_FOLDER / each.name)
    disk.unlink(data / SWAP_MARKER)
    disk.sync_folder(data)
