"""The files of the database: the folder `db`, a new database next to it, and what store.json says of both.
store/docs/format.md."""

import contextlib
import logging
import mmap
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from mnemo_store.backend import StateBackend
from mnemo_store.codec import NO_CHANGES
from mnemo_store.database import migrations
from mnemo_store.database.environment import DATABASE_FILE, MAP_BYTES_MAX, Database
from mnemo_store.database.integrity import boot_mark, has_all_pages, is_intact
from mnemo_store.database.table_access import TableWriter
from mnemo_store.disk import Disk
from mnemo_store.errors import NewerFormat, StoreLoss
from mnemo_store.journal.journal import Journal, newest_header
from mnemo_store.records import FORMAT
from mnemo_store.recovery.replay import Findings, unreadable_rows_reported

MANIFEST_FILE = "store.json"
EMPTY_BYTES_MAX = 12 * mmap.PAGESIZE  # of a database without memories: it has 9 pages, with one memory 15

log = logging.getLogger("mnemo.store")


class StoreManifest(msgspec.Struct, kw_only=True):
    """The content of `store.json`. Id and salt are also in the headers of the journal and in the database."""

    format: int
    store_id: str
    salt: str  # 16 bytes in hexadecimal: the key of salted hashes
    clean: bool = False
    seq: int = 0  # at the last clean close
    database_bytes: int = 0  # at that close; a database of another size or time is verified before it is opened
    database_mtime_ns: int = 0
    running: str = ""  # identity of the open file in this run of the machine; "": verify the database at the next start

    def write(self, folder: Path, disk: Disk) -> None:
        disk.replace_file(folder / MANIFEST_FILE, [msgspec.json.encode(self)])


def read_manifest(
    folder: Path, new: Callable[[], tuple[str, str]], supported: int = FORMAT
) -> tuple[StoreManifest, str]:
    """Reads the manifest of the store in folder; also returns why it had to be rebuilt ("" where it was not). A missing
    or damaged one is rebuilt from the newest header of the journal; without a journal, `new` gives id and salt."""
    path = folder / MANIFEST_FILE
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=StoreManifest)
    except FileNotFoundError:
        return _rebuilt_manifest(folder, "missing", new, supported)
    except msgspec.MsgspecError:
        path.rename(path.with_name(f"{MANIFEST_FILE}.damaged"))
        return _rebuilt_manifest(folder, "damaged", new, supported)
    if manifest.format > supported:
        raise NewerFormat(f"{folder} has format {manifest.format}; this version supports formats up to {supported}")
    return manifest, ""


def _rebuilt_manifest(
    folder: Path, what: str, new: Callable[[], tuple[str, str]], newest: int
) -> tuple[StoreManifest, str]:
    header = newest_header(folder / "journal")
    if header is None:
        store_id, salt = new()
        return StoreManifest(format=newest, store_id=store_id, salt=salt), ""
    manifest = StoreManifest(format=header.journal, store_id=header.store, salt=header.salt)
    return manifest, f"{MANIFEST_FILE} was {what} and was rebuilt from the journal"


class DatabaseFiles:
    """Opens, verifies, quarantines and replaces the database of one data folder."""

    def __init__(
        self, data: Path, disk: Disk, now: Callable[[], int], map_bytes: int, journal: Journal, findings: Findings,
        steps: Sequence[migrations.Migration],
    ) -> None:  # fmt: skip
        self.folder = data / "db"
        self.manifest: StoreManifest
        self._data = data
        self._disk = disk
        self._now = now
        self._map_bytes = map_bytes
        self._journal = journal
        self._findings = findings
        self._migrations = steps
        self._format = journal.format = 1 + len(steps)

    @property
    def path(self) -> Path:
        return self.folder / DATABASE_FILE

    # store.json

    def read_manifest(self, new_identity: Callable[[], tuple[str, str]]) -> None:
        """Reads store.json, or rebuilds it, and gives the journal its identity. A store of an older format is copied
        first. Raises NewerFormat, and DiskFull where there is no room for the copy."""
        self.manifest, why = read_manifest(self._data, new_identity, self._format)
        if why:
            self._findings.record_recovered(why)
        stored, wanted = self.manifest.format, self._format
        if stored < wanted:
            copy = migrations.copy_before_migration(self._data, stored, wanted, self._disk, self._now())
            log.info("migrating format %d to %d; the store as it was is kept in %s", stored, wanted, copy)
            self.manifest.format = wanted
        self._journal.store_id, self._journal.salt = self.manifest.store_id, self.manifest.salt

    def write_manifest(self) -> None:
        """Writes store.json as that of a store in use. If that fails, the next start verifies the database."""
        self.manifest.clean = False
        try:
            self.manifest.write(self._data, self._disk)
        except OSError as error:
            log.warning("store.json could not be written: %s", error)

    def mark_open(self, *, is_open: bool) -> None:
        """Notes in store.json which file is open in this run of the machine, so that a mere kill costs no
        verification."""
        self.manifest.running = boot_mark(self.path) if is_open else ""
        self.write_manifest()

    def mark_suspect(self) -> None:
        """Makes the next start verify the database: pages that the disk refused may still look right in the cache."""
        if self.manifest.running:
            self.mark_open(is_open=False)

    def mark_closed(self, database: Database) -> None:
        """Syncs the database and notes its size and time: the next start opens such a file without verifying it."""
        database.sync()
        stat = self.path.stat()
        self.manifest.clean, self.manifest.seq = True, database.end[0]
        self.manifest.database_bytes, self.manifest.database_mtime_ns = stat.st_size, stat.st_mtime_ns
        self.manifest.write(self._data, self._disk)

    def adopt_salt(self, state: StateBackend) -> None:
        """Takes over the key of salted hashes that the state was loaded with."""
        with state.snapshot(self._now()) as here:
            self.manifest.salt = self._journal.salt = here.meta("salt")

    # Verification

    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def is_sound_at_start(self) -> bool:
        """True if the database may be opened; otherwise records why not.

        A truncated file would kill the process, and an empty one would pass for a new store. A file that is as the last
        close left it, or that only a kill has interrupted, is not verified.
        """
        size = self.size()
        if size == 0:
            if self.manifest.seq or self._journal.last != NO_CHANGES:
                self._findings.record_recovered("the database was missing or empty: restored from the journal")
            return False
        clean, marked = self.manifest.clean, self.manifest.running
        at_close = self.manifest.database_bytes, self.manifest.database_mtime_ns
        if clean and (size, self.path.stat().st_mtime_ns) == at_close:
            return True
        was_only_killed = not clean and marked != "" and marked == boot_mark(self.path)
        if was_only_killed and has_all_pages(self.path):
            return True
        sound = is_intact(self.folder)
        if not sound:
            self._findings.record_recovered("the database was damaged: quarantined and restored from the journal")
        return sound

    def check_journal_can_restore(self, why: str) -> None:
        """Raises StoreLoss where the database, which `why`, cannot be used and the journal is gone too: the start would
        silently make an empty store. The journal of an empty store begins with change 1 and has no lines."""
        header = newest_header(self._journal.folder)
        if self._journal.last != NO_CHANGES or (header is not None and header.first_seq == 1):
            return
        size = self.size()
        if self.manifest.seq or size > EMPTY_BYTES_MAX:
            raise StoreLoss(
                f"the database in {self._data} {why if size else 'is missing'}, and there is no journal to rebuild it "
                "from: restore a backup (mnemo restore), or move the folder away to start with an empty store"
            )

    def quarantine(self, *, with_views: bool) -> None:
        """Makes room for a new database; one that holds anything is kept as `db.damaged-MS`. `with_views` removes the
        views, which are built on the row ids of this database: where nobody reads them."""
        views = self._data / "views"
        if with_views and views.exists():
            shutil.rmtree(views)
        if self.size() > 0:
            stamp = self._now()
            while (kept := self._data / f"db.damaged-{stamp}").exists():
                stamp += 1
            self._disk.rename(self.folder, kept)
            log.error("the database cannot be used; it is kept as %s", kept.name)

    # Opening

    def open(self) -> Database:
        """Opens or makes the database, migrated to this format and marked as this store's. Raises lmdb.Error
        (UnreadableRow where a row cannot be decoded), OSError and NewerFormat."""
        with unreadable_rows_reported():
            database = Database.open(self.folder, self._disk, self._map_bytes, self._format)
            try:
                with database.snapshot(self._now()) as here:
                    stored = int(here.meta("format") or 0)
                    store_id, salt = here.meta("store"), here.meta("salt")
                if not store_id:
                    facts = {"format": str(self._format), "store": self.manifest.store_id, "salt": self.manifest.salt}
                    self._set_facts(database, facts)
                    stored = self._format
                elif (store_id, salt) != (self.manifest.store_id, self.manifest.salt):
                    self._adopt_identity(store_id, salt)
                if stored < self._format:  # 0: the row is damaged, and a step that finds its work done says so
                    self._migrate(database, stored)
            except BaseException:
                database.close()
                raise
            return database

    def _adopt_identity(self, store_id: str, salt: str) -> None:
        """Takes over the identity in the database, where neither store.json nor the journal knew it."""
        self._findings.record_recovered("store.json did not match the database and was rebuilt from it")
        self.manifest.store_id = self._journal.store_id = store_id
        self.manifest.salt = self._journal.salt = salt
        self.write_manifest()

    def _migrate(self, database: Database, stored: int) -> None:
        """Makes every step from the stored format to this one in one transaction."""

        def write(writing: TableWriter) -> None:
            for migration in self._migrations[max(stored - 1, 0) :]:
                migration(writing)
            writing.set_meta("format", str(self._format))

        database.write(self._now(), write)

    def _set_facts(self, database: Database, facts: Mapping[str, str]) -> None:
        def write(writing: TableWriter) -> None:
            for name, value in facts.items():
                writing.set_meta(name, value)

        database.write(self._now(), write)

    def sync_names(self) -> None:
        """Syncs the names of the folder and of the file, which LMDB does not sync itself."""
        self._disk.sync_folder(self.folder)
        self._disk.sync_folder(self._data)

    def double_map(self, database: Database) -> bool:
        """Doubles the address space for the next opening; False where that is more than the maximum."""
        wanted = 2 * database.map_bytes
        if wanted > MAP_BYTES_MAX:
            return False
        self._map_bytes = wanted
        return True

    # A new database next to the one in use

    @contextlib.contextmanager
    def new_database(self) -> Iterator[Database]:
        """Gives an empty database in `db.new`: whole on the disk after the block, removed where the block raises."""
        shutil.rmtree(self._new_folder, ignore_errors=True)
        database = Database.open(self._new_folder, self._disk, self._map_bytes)
        try:
            yield database
            database.sync()
        except BaseException:
            database.close()
            shutil.rmtree(self._new_folder, ignore_errors=True)
            raise
        database.close()

    def take_ownership(self, database: Database) -> None:
        """Marks a database that was filled from a dump as this store's."""
        with database.snapshot(self._now()) as here:
            end = here.position
        self._set_facts(database, {"format": str(self._format), "store": self.manifest.store_id})
        database.end = end
        self.adopt_salt(database)

    def swap_in_new(self) -> None:
        """Puts the new database in the place of the closed one by one rename, so that either of them is there,
        whole."""
        self._disk.rename(self._new_folder / DATABASE_FILE, self.path)
        self._disk.sync_folder(self.folder)

    def remove_new(self) -> None:
        shutil.rmtree(self._new_folder, ignore_errors=True)

    @property
    def _new_folder(self) -> Path:
        return self._data / "db.new"
