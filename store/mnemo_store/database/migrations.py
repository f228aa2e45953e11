"""Migrations from older formats to this one, after a copy of the store was made. FORMAT.md.

A step changes the database. Lines of the journal stay as they were written: every version reads all older formats.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from mnemo_store.database.table_access import TableWriter
from mnemo_store.disk import Disk, is_disk_full
from mnemo_store.errors import DiskFull
from mnemo_store.records import FORMAT

BACKUPS_FOLDER = "backups"


# The changes to the database from a format to the next. A format that only adds (a table, which opening creates, or a
# field with a default) has no step; FORMAT.md lists what each format added.
MIGRATION_STEPS: Mapping[int, Callable[[TableWriter], None]] = {}


def migrate(writing: TableWriter, stored: int) -> None:
    """Migrates a database of format `stored` to FORMAT."""
    for number in range(stored, FORMAT):
        if number in MIGRATION_STEPS:
            MIGRATION_STEPS[number](writing)
    writing.set_meta("format", str(FORMAT))


def copy_before_migration(folder: Path, stored: int, disk: Disk, now: int) -> Path:
    """Copies a closed store of format `stored` and returns the folder of the copy. Raises DiskFull, leaving nothing."""
    kept = folder / BACKUPS_FOLDER / f"before-format-{FORMAT}-{now}"
    kept.mkdir(mode=0o700, parents=True)
    try:
        for part in ("store.json", "journal", "db/data.mdb"):
            source = folder / part
            files = [source] if source.is_file() else sorted(source.glob("*")) if source.is_dir() else []
            for file in files:
                target = kept / file.relative_to(folder)
                target.parent.mkdir(mode=0o700, exist_ok=True)
                _copy(file, target, disk)
        for place in (*(path for path in kept.iterdir() if path.is_dir()), kept, kept.parent, folder):
            disk.sync_folder(place)
    except OSError as error:
        shutil.rmtree(kept, ignore_errors=True)
        if is_disk_full(error):
            message = f"no room for the copy made before migrating format {stored} to {FORMAT}; nothing was changed"
            raise DiskFull(message) from error
        raise
    return kept


def _copy(source: Path, target: Path, disk: Disk) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o600)
    fd = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
    try:
        disk.sync(fd)
    finally:
        os.close(fd)
