"""Backups: a copy of the whole store, made while it is in use. SPEC 3.9, store/docs/format.md "A backup".

The database is copied first, as it is at one moment; then every segment of the journal, as far as it went at one later
moment. So the journal of the copy has everything that its database has and the changes made meanwhile, and opening the
copy is the same as starting after a crash.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from mnemo_store.database.environment import DATABASE_FILE
from mnemo_store.database.integrity import is_intact
from mnemo_store.disk import PIECE_BYTES, Disk, file_size, is_disk_full, make_private_folder
from mnemo_store.errors import BadBackup, DiskFull, StoreError
from mnemo_store.progress import Progress, unreported
from mnemo_store.records import FORMAT
from mnemo_store.recovery import database_files
from mnemo_store.recovery.supervisor import StateSupervisor
from mnemo_store.store import Store

BACKUP_FILE = "backup.json"


class FileChecksum(msgspec.Struct, frozen=True):
    """A file of a backup, its path relative to the backup's folder."""

    path: str
    bytes: int
    sha256: str


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`backup.json`, which is written last: without it a backup is incomplete."""

    mnemo_backup: int  # 1
    format: int
    store_id: str
    seq: int  # of the last change in it
    at: int  # ms: when it was made
    has_database: bool  # without one, the journal restores all but the vectors
    files: list[FileChecksum]


class _JournalCopy(NamedTuple):
    """The journal at one moment."""

    seq: int
    segments: list[tuple[BinaryIO, int]]  # open files, each with the number of its bytes to copy
    manifest: database_files.StoreManifest


def create_backup(store: Store, folder: Path, disk: Disk, progress: Progress = unreported) -> BackupManifest:
    """Copies the store into a new or empty folder and verifies the copy. Writes go on meanwhile. Raises BadBackup where
    the copy fails verification or cannot be made there, and DiskFull; the incomplete copy is then removed."""
    is_new = not folder.exists()
    try:
        make_private_folder(folder)
    except OSError as error:
        raise _refusal(folder, error) from error
    if any(folder.iterdir()):
        raise BadBackup(f"{folder} is not empty: choose a new folder")
    try:
        (folder / "db").mkdir(mode=0o700)
        copy = folder / "db" / DATABASE_FILE
        progress("copying the database", lambda: file_size(copy), store.disk_bytes()["database"])
        has_database = store.copy_database(folder / "db")
        moment = store.run_exclusively(_open_segments).result()
        _copy_segments(moment, folder, disk, progress)
        moment.manifest.write(folder, disk)
        progress("verifying the database", 0, 0)
        if has_database and not is_intact(folder / "db"):
            raise BadBackup("the copy of the database fails verification")
        listed = BackupManifest(
            mnemo_backup=1, format=FORMAT, store_id=moment.manifest.store_id, seq=moment.seq, at=store.now(),
            has_database=has_database, files=list(file_checksums(folder, progress)),
        )  # fmt: skip
        disk.replace_file(folder / BACKUP_FILE, [msgspec.json.format(msgspec.json.encode(listed), indent=1)])
        for place in (folder / "db", folder / "journal", folder, folder.parent):
            disk.sync_folder(place)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if not is_new:
            folder.mkdir(mode=0o700)
        if isinstance(error, OSError):
            raise _refusal(folder, error) from error
        raise
    return listed


def _refusal(folder: Path, error: OSError) -> StoreError:
    if is_disk_full(error):
        return DiskFull(f"no room for the backup in {folder}")
    return BadBackup(f"the backup cannot be written: {error}")


def verify_backup(folder: Path) -> BackupManifest:
    """Verifies every file of a backup and returns its manifest. Raises BadBackup."""
    listed, faults = examine_backup(folder)
    if faults:
        whole = "what is left of it can be restored to a new folder: mnemo restore BACKUP --to FOLDER"
        raise BadBackup(f"{'; '.join(faults.values())}; {whole}")
    return listed


def examine_backup(folder: Path) -> tuple[BackupManifest, dict[Path, str]]:
    """Returns the manifest, and what is wrong with each file that is not as it lists it. Raises BadBackup where the
    manifest cannot be used."""
    try:
        listed = msgspec.json.decode((folder / BACKUP_FILE).read_bytes(), type=BackupManifest)
    except FileNotFoundError:
        raise BadBackup(f"{folder} is not a complete backup: it has no {BACKUP_FILE}") from None
    except msgspec.MsgspecError as error:
        raise BadBackup(f"{folder / BACKUP_FILE} cannot be read: {error}") from error
    if listed.format > FORMAT:
        raise BadBackup(f"the backup has format {listed.format}; this version supports formats up to {FORMAT}")
    there = {found.path: found for found in file_checksums(folder)}
    wrong = [folder / file.path for file in listed.files if there.get(file.path) != file]
    return listed, {path: f"{path} is {'damaged' if path.exists() else 'missing'}" for path in wrong}


def _open_segments(supervisor: StateSupervisor) -> _JournalCopy:
    """Opens the segments between two commit groups, when all their bytes are valid. They stay open when renamed."""
    own, seq = supervisor.manifest, supervisor.active_state().end[0]
    fresh = database_files.StoreManifest(format=own.format, store_id=own.store_id, salt=own.salt, seq=seq)
    with contextlib.ExitStack() as opened:
        files = [opened.enter_context(path.open("rb")) for path in sorted(supervisor.journal.folder.glob("*.jsonl"))]
        opened.pop_all()
    return _JournalCopy(seq, [(file, os.fstat(file.fileno()).st_size) for file in files], fresh)


def _copy_segments(moment: _JournalCopy, folder: Path, disk: Disk, progress: Progress) -> None:
    total = sum(size for _, size in moment.segments)
    done = 0

    def reported(pieces: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal done
        for piece in pieces:
            progress("copying the journal", done, total)
            done += len(piece)
            yield piece

    try:
        (folder / "journal").mkdir(mode=0o700)
        for file, size in moment.segments:
            disk.replace_file(folder / "journal" / Path(file.name).name, reported(_pieces(file, size)))
    finally:
        for file, _ in moment.segments:
            file.close()


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the first bytes of a file."""
    while size > 0:
        piece = file.read(min(PIECE_BYTES, size))
        if not piece:
            raise BadBackup(f"{Path(file.name).name} became shorter while it was copied")
        size -= len(piece)
        yield piece


def file_checksums(folder: Path, progress: Progress = unreported) -> Iterator[FileChecksum]:
    """Yield size and checksum of every file of a backup."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    sizes = {path: path.stat().st_size for path in paths if path.name not in (BACKUP_FILE, "lock.mdb", "lock")}
    done, total = 0, sum(sizes.values())
    for path, size in sizes.items():
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                progress("computing checksums", done, total)
                digest.update(piece)
                done += len(piece)
        yield FileChecksum(str(path.relative_to(folder)), size, digest.hexdigest())
