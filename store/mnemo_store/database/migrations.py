"""Migrations from older formats to this one: the copy of the store that is made before. store/docs/format.md.

Every format so far only added to the one before: a table, which opening creates, or a field with a default. Lines of
the journal stay as they were written: every version reads all older formats.
"""

import shutil
from pathlib import Path

from mnemo_store.disk import Disk, is_disk_full
from mnemo_store.errors import DiskFull
from mnemo_store.records import FORMAT

BACKUPS_FOLDER = "backups"


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
                disk.copy_file(file, target)
        for place in (*(path for path in kept.iterdir() if path.is_dir()), kept, kept.parent, folder):
            disk.sync_folder(place)
    except OSError as error:
        shutil.rmtree(kept, ignore_errors=True)
        if is_disk_full(error):
            message = f"no room for the copy made before migrating format {stored} to {FORMAT}; nothing was changed"
            raise DiskFull(message) from error
        raise
    return kept
