"""From an older format to this one, forward, behind a copy of the store as it was. FORMAT.md.

A step changes the database; the journal's lines keep the shape that they were written in, and every version reads all
older ones.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from mnemo_store.codec import FORMAT
from mnemo_store.disk import Disk, is_disk_full
from mnemo_store.errors import DiskFull
from mnemo_store.tables import TableWriter

BACKUPS_FOLDER = "backups"


def _from_1(_: TableWriter) -> None:
    """2 has the table of forgotten texts, which opening makes, and snapshot segments in the journal."""


def _from_2(_: TableWriter) -> None:
    """3 has `NoteFile.importance`, which no manifest of before has."""


def _from_3(_: TableWriter) -> None:
    """4 has `NotePlace.dated` and `NoteFile.reader`, which nothing of before has: its files are read again."""


MIGRATION_STEPS: Mapping[int, Callable[[TableWriter], None]] = {1: _from_1, 2: _from_2, 3: _from_3}

assert set(MIGRATION_STEPS) == set(range(1, FORMAT)), "one step from each format to the next"


def migrate(writing: TableWriter, stored: int) -> None:
    """Takes a database of format `stored` to FORMAT."""
    for number in range(stored, FORMAT):
        MIGRATION_STEPS[number](writing)
    writing.set_meta("format", str(FORMAT))


def copy_before_migration(folder: Path, stored: int, disk: Disk, now: int) -> Path:
    """Copies what a closed store of format `stored` consists of; where to. Raises DiskFull, having left nothing."""
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
            message = f"no room for the copy that is kept before format {stored} becomes {FORMAT}; nothing was changed"
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
