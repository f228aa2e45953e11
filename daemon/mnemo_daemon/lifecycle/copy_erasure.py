"""Rewriting the copies of the store (backups, what a restore put aside) without memories that are forgotten. SPEC 3.7

A copy is copied once more next to itself, opened there as a store, rid of the memories, and put in the place of the old
one; a backup keeps its time and gets a new list of its files. What cannot be rewritten stays as it is and is reported.
"""

import shutil
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import lmdb

from mnemo_client.protocol.memories import SearchedPlace
from mnemo_core.lifecycle.residue_scan import ResiduePatterns
from mnemo_daemon.lifecycle.residue_scan import Pause, describe, scan_folder
from mnemo_store.database.migrations import BACKUPS_FOLDER
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreError
from mnemo_store.maintenance import backup, restore
from mnemo_store.records import ErasedText
from mnemo_store.recovery import folder_swap
from mnemo_store.recovery.folder_lock import FolderLock
from mnemo_store.store import Store

OPENED, LISTED, OLD = ".rewriting", ".rewritten", ".replaced"  # behind the name of a copy, while it is rewritten

Purge = Callable[[Store, Sequence[str]], object]


def known_copies(folder: Path) -> list[Path]:
    """The copies of the store that are known of: in its own folder of backups, what a restore put aside, and what one
    that was killed left."""
    replaced = folder.parent.glob(f"{folder.name}{folder_swap.REPLACED}*")
    stage = folder_swap.staging_folder(folder)
    return sorted([*(folder / BACKUPS_FOLDER).glob("*"), *replaced, *([stage] if stage.exists() else [])])


def copies_holding(folder: Path, sought: ResiduePatterns, pause: Pause) -> list[Path]:
    """Those copies in whose bytes any of this stands."""
    return [copy for copy in known_copies(folder) if scan_folder(copy, sought, pause, with_backups=True).found]


class CopyErasure:
    """Rewrites copies without `ids` and without texts in `forgotten` (by salt and hash), except spared memories."""

    def __init__(
        self,
        disk: Disk,
        purge: Purge,
        ids: Sequence[str],
        forgotten: dict[str, dict[str, ErasedText]],
        is_spared: Callable[[str], bool],
    ) -> None:
        self._disk = disk
        self._purge = purge
        self._ids = ids
        self._forgotten = forgotten
        self._is_spared = is_spared

    def finish_interrupted(self, folder: Path) -> None:
        """Remove the leftovers of an interrupted rewrite, and put a copy back that had no final name."""
        for path in known_copies(folder):
            if path.name.endswith((OPENED, LISTED)):
                shutil.rmtree(path)
            elif path.name.endswith(OLD):
                original = path.with_name(path.name.removesuffix(OLD))
                if original.exists():
                    shutil.rmtree(path)
                else:
                    self._disk.rename(path, original)

    def erase_from(self, copy: Path, data: Path, sought: ResiduePatterns, pause: Pause) -> SearchedPlace:
        """Erase from one copy; its report. `sought`: what must not be left in it."""
        if copy == folder_swap.staging_folder(data):
            shutil.rmtree(copy)
            return SearchedPlace(place=str(copy), state="removed", detail="it was left by a restore that was cut off")
        try:
            held = FolderLock.acquire(copy)
            try:
                self._replace(copy)
            finally:
                held.release()
                for ending in (OPENED, LISTED):
                    shutil.rmtree(copy.with_name(copy.name + ending), ignore_errors=True)
        except (StoreError, OSError, lmdb.Error) as error:
            detail = f"it could not be rewritten ({error}): remove it, or move it to where it is safe"
            return SearchedPlace(place=str(copy), state="still there", detail=detail)
        looked = scan_folder(copy, sought, pause, with_backups=True)
        if looked.found:
            names = set[str]().union(*looked.found.values())
            detail = f"rewritten, and it still holds {describe(sought, names)}: remove it, or what of it says that"
            return SearchedPlace(place=str(copy), state="still there", detail=detail)
        return SearchedPlace(place=str(copy), state="clean", detail="a copy of the store, rewritten without it")

    def _replace(self, copy: Path) -> None:
        opened, listed, old = (copy.with_name(copy.name + ending) for ending in (OPENED, LISTED, OLD))
        is_backup = (copy / backup.BACKUP_FILE).exists()
        now = _constant(backup.verify_backup(copy).at) if is_backup else _now
        opened.mkdir(mode=0o700)
        restore.copy_parts(copy, opened, self._disk)
        store = Store.open(opened, disk=self._disk, now=now, reserve_bytes=0)
        try:
            if store.data_losses or store.degraded:
                raise StoreError("; ".join([*store.data_losses, *filter(None, [store.degraded])]))
            shutil.rmtree(opened / BACKUPS_FOLDER, ignore_errors=True)  # what it was in an older format
            same = [each for each in restore.memories_with_text(store, self._forgotten) if not self._is_spared(each)]
            self._purge(store, list(dict.fromkeys((*_existing(store, self._ids), *same))))
            if is_backup:
                backup.create_backup(store, listed, self._disk)
        finally:
            store.close()
        self._disk.rename(copy, old)
        self._disk.rename(listed if is_backup else opened, copy)
        self._disk.sync_folder(copy.parent)
        shutil.rmtree(old)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _constant(at: int) -> Callable[[], int]:
    return lambda: at


def _existing(store: Store, ids: Collection[str]) -> list[str]:
    with store.snapshot() as snapshot:
        return [memory_id for memory_id in ids if snapshot.stored(memory_id) is not None]
