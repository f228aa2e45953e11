"""Migrations from older formats to this one, and the copy of the store that is made before. store/docs/format.md.

A new table is created when the database is opened, and a new field has a default: neither needs a step here. Lines of
the journal stay as they were written: every version reads all older formats.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from mnemo_store.database.table_access import TableWriter
from mnemo_store.disk import Disk, is_disk_full, make_private_folder
from mnemo_store.errors import DiskFull
from mnemo_store.records import FORMAT

BACKUPS_FOLDER = "backups"

# Changes the rows of a database to what a replay of the journal, whose lines stay, gives in the next format.
Migration = Callable[[TableWriter], object]
STEPS: dict[int, Migration] = {}  # by the format that they lead to; to most formats nothing has to be changed
# From format 1 to 2, from 2 to 3, …
MIGRATIONS: tuple[Migration, ...] = tuple(STEPS.get(step, lambda _: None) for step in range(2, FORMAT + 1))


def copy_before_migration(folder: Path, stored: int, wanted: int, disk: Disk, now: int) -> Path:
    """Copies a closed store of format `stored` and returns the folder of the copy. Raises DiskFull, leaving nothing."""
    kept = folder / BACKUPS_FOLDER / f"before-format-{wanted}-{now}"
    make_private_folder(kept)
    try:
        for part in ("store.json", "journal", "db/data.mdb"):
            source = folder / part
            files = [source] if source.is_file() else sorted(source.glob("*")) if source.is_dir() else []
            for file in files:
                target = kept / file.relative_to(folder)
                target.parent.mkdir(mode=0o700, exist_ok=True)
                disk.copy_file(file, target)
        for place in (*(path for path in kept.iterdir() if path.is_dir()), kept, kept.parent, folder):
            disk.sync_folder(place)
    except OSError as error:
        shutil.rmtree(kept, ignore_errors=True)
        if is_disk_full(error):
            message = f"no room for the copy made before migrating format {stored} to {wanted}; nothing was changed"
            raise DiskFull(message) from error
        raise
    return kept
