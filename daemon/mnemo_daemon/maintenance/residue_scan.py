"""Scan for the residue of dropped memories: in records that stay, and in the data folder's files.

A hit in a file proves something only if nothing that may be there has the same: so what is looked for is first held
against every record that stays, and against this program's own words, which name fields and tables in every file.

Copies of the store (backups, what a restore put aside) are rewritten without the memories that are forgotten (SPEC
3.7): copied once more next to themselves, opened there as a store, rid of the memories, and put in the place of the old
ones; a backup keeps its time and gets a new list of its files. What cannot be rewritten stays as it is and is reported.
"""

import base64
import binascii
import contextlib
import mmap
import os
import re
import shutil
import stat
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

import lmdb

import mnemo_core
import mnemo_daemon
import mnemo_store
from mnemo_client.protocol.memories import Quotation, SearchedPlace
from mnemo_core.ingest.erasure import PatternKind, ResidueFinder, ResiduePatterns, strip_edges
from mnemo_daemon.table_walk import walk_table
from mnemo_store.codec import encode_json, packed_values
from mnemo_store.database.migrations import BACKUPS_FOLDER
from mnemo_store.disk import Disk, file_size
from mnemo_store.errors import StoreError
from mnemo_store.journal.line_codec import unpacked
from mnemo_store.maintenance import backup, restore
from mnemo_store.maintenance.repair import QUARANTINE
from mnemo_store.progress import Progress, unreported
from mnemo_store.record_texts import normalized_text
from mnemo_store.records import ErasedText, Memory
from mnemo_store.recovery import store_folder
from mnemo_store.recovery.store_folder import FolderLock
from mnemo_store.store import Store
from mnemo_store.tables import MEMORIES, TABLES

MEMORIES_AT_ONCE = 200  # with all their versions, in one snapshot [SPEC 3.5]
PIECE_BYTES = 4 << 20  # of a file, looked through at once
VALUES_AT_ONCE = 1000  # packed in a database
EXCERPT_CHARS = 160  # of a memory that quotes what is forgotten
EXCERPT_CHARS_BEFORE = 40  # before the quotation

_LOCKS = frozenset({"lock", "lock.mdb"})  # hold no text, and closing a second handle of one would let its lock go
_BASE64 = re.compile(rb'"value":"([A-Za-z0-9+/=]+)"')  # a row as quarantine has it
_PACKED = re.compile(rb'\{"packed":"([A-Za-z0-9+/=]+)')  # a line of the journal, or the beginning of one
_KINDS: dict[PatternKind, str] = {
    "text": "a whole text", "short": "a whole text", "run": "five words in a row", "word": "a word",
}  # fmt: skip

Pause = Callable[[], None]  # called again and again; what it raises ends the search

OPENED, LISTED, OLD = ".rewriting", ".rewritten", ".replaced"  # behind the name of a copy, while it is rewritten

Purge = Callable[[Store, Sequence[str]], object]


class ResidueReport(NamedTuple):
    """The result of a scan of all files."""

    files: int
    bytes: int
    found: dict[Path, set[str]]  # what is still there, by path in the data folder

    def restricted_to(self, sought: ResiduePatterns) -> "ResidueReport":
        """The report, with these findings alone."""
        left = {path: names & sought.kinds.keys() for path, names in self.found.items()}
        return self._replace(found={path: names for path, names in left.items() if names})


def distinctive_texts(store: Store, sought: ResiduePatterns, pause: Pause) -> ResiduePatterns:
    """The sought texts that only the dropped memories had."""
    if not sought:
        return sought
    finder = ResidueFinder(sought)
    shared = {name for name in finder.find(program_text()) if sought.kinds[name] in ("word", "short")}
    for data in _other_records(store):
        shared |= finder.find(data)
        pause()
    texts = {name for name, kind in sought.kinds.items() if kind in ("text", "short")}
    narrower = 1  # slices after which the finder is made again without texts that others have; the first few show most
    for number, versions in enumerate(_kept_versions(store)):
        if number == narrower:
            finder, narrower = ResidueFinder(sought.without(shared - texts)), 4 * narrower
        shared |= finder.find(b"\n".join(map(encode_json, versions)))
        pause()
    return sought.without(shared)


def quotations(store: Store, sought: ResiduePatterns, pause: Pause, besides: Collection[str] = ()) -> list[Quotation]:
    """The memories that say the whole of a sought text, or nothing but a short one; but for those of `besides`."""
    texts = sought.only({name for name, kind in sought.kinds.items() if kind in ("text", "short")})
    if not texts:
        return []
    finder, found = ResidueFinder(texts), dict[str, Quotation]()
    for versions in _kept_versions(store):
        names = finder.find(b"\n".join(map(encode_json, versions)))
        narrow = ResidueFinder(texts.only(names))
        for memory in versions if names else ():
            if memory.id in besides:
                continue
            said = [name for name in narrow.find(encode_json(memory)) if texts.kinds[name] == "text"]
            whole = normalized_text(strip_edges(memory.content))
            if said or whole in names:
                excerpt = _excerpt(memory.content, said[0] if said else whole)
                found[memory.id] = Quotation(id=memory.id, version=memory.version, excerpt=excerpt)
        pause()
    return list(found.values())


def _excerpt(content: str, name: str) -> str:
    """An excerpt of a text around a (normalised) quotation."""
    whole = normalized_text(content)
    start = max(0, round(len(content) * max(0, whole.find(name)) / max(1, len(whole))) - EXCERPT_CHARS_BEFORE)
    cut = " ".join(content[start : start + EXCERPT_CHARS].split())
    return ("… " if start else "") + cut + (" …" if start + EXCERPT_CHARS < len(content) else "")


def program_text() -> bytes:
    """The text of this program, whose words stand in every file of a store."""
    packages = (mnemo_store, mnemo_core, mnemo_daemon)
    folders = [Path(package.__file__).parent for package in packages if package.__file__]
    return b"\n".join(path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.py")))


def scan_folder(
    folder: Path, sought: ResiduePatterns, pause: Pause, progress: Progress = unreported, *, with_backups: bool = False
) -> ResidueReport:
    """Search every file of a data folder, its backups only if asked for."""
    finder = ResidueFinder(sought)
    found: dict[Path, set[str]] = {}
    files = size = 0
    paths = list(_files(folder, with_backups=with_backups))
    total = sum(file_size(folder / path) for path in paths)
    for path in paths:
        files += 1
        names: set[str] = set()
        for piece in _pieces(folder / path, finder.overlap):
            size += len(piece)
            names |= finder.find(piece)
            progress("searching every file", min(size, total), total)  # what is unpacked is longer
            pause()
        if names:
            found[path] = names
    return ResidueReport(files, size, found)


def remove_leftovers(folder: Path, sought: ResiduePatterns, disk: Disk, pause: Pause) -> list[SearchedPlace]:
    """Remove and report left-over files that hold any of what is sought: torn ends of the journal, databases put
    aside, quarantine, files that were never put in place. Tells each."""
    finder = ResidueFinder(sought)
    places: dict[Path, SearchedPlace] = {}
    for path in list(_files(folder)):
        left_over = _removable(path)
        if left_over is None or left_over in places:
            continue
        names: set[str] = set()
        for piece in _pieces(folder / path, finder.overlap):
            names |= finder.find(piece)
            pause()
        if names:
            detail = f"it held {describe(sought, names)}"
            places[left_over] = SearchedPlace(place=str(left_over), state="removed", detail=detail)
            if left_over == path:
                disk.unlink(folder / path)
            else:
                shutil.rmtree(folder / left_over)
            disk.sync_folder((folder / left_over).parent)
    return list(places.values())


def describe(sought: ResiduePatterns, names: set[str]) -> str:
    """A description of the findings, without a word of them."""
    kinds = Counter(_KINDS[sought.kinds[name]] for name in names)
    return ", ".join(f"{kind} ({count} times)" if count > 1 else kind for kind, count in kinds.items())


def _kept_versions(store: Store) -> Iterator[list[Memory]]:
    """Every version of every memory, some at once."""
    return walk_table(store, MEMORIES, lambda snapshot, rows: [
        each.memory for row in rows for each in snapshot.all_versions(row.memory.id)
    ], MEMORIES_AT_ONCE)  # fmt: skip


def _other_records(store: Store) -> Iterator[bytes]:
    """The texts of every other table."""
    for table in TABLES:
        if (texts := table.texts) is not None:
            for records in walk_table(store, table, lambda _, rows: rows):
                yield "\n".join({text for record in records for text in texts(record)}).encode()


def _files(folder: Path, *, with_backups: bool = False) -> Iterator[Path]:
    """The regular files of the data folder, relative to it, but for locks and, normally, backups. Links to folders are
    followed, each folder once."""
    seen: set[tuple[int, int]] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        status = Path(place).stat()
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        if Path(place) == folder and BACKUPS_FOLDER in folders and not with_backups:
            folders.remove(BACKUPS_FOLDER)
        for name in sorted(names):
            path = Path(place, name)
            if name not in _LOCKS and _is_regular(path):
                yield path.relative_to(folder)


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def _removable(path: Path) -> Path | None:
    """The path that may be removed for it: itself, or its folder; None for what is in use or not ours."""
    top = path.parts[0]
    if top.startswith("db.damaged-") or top == "db.new":
        return Path(top)
    if top == QUARANTINE or path.name.endswith((".torn", ".new", ".damaged")):
        return path
    return None


def _pieces(path: Path, overlap: int) -> Iterator[bytes]:
    """The content of a file, with what the journal has packed in its place, each piece with the end of the one before;
    then what a database has packed, and what quarantine has encoded."""
    try:
        with path.open("rb") as file:
            before = b""
            is_of_journal = ".jsonl" in path.name  # a segment, or an end of one that was put aside
            for piece in _unpacked_lines(file) if is_of_journal else iter(partial(file.read, PIECE_BYTES), b""):
                yield before + piece
                before = (before + piece)[-overlap:] if overlap else b""
            if path.suffix == ".mdb" and file_size(path):
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                    values = packed_values(mapped)
                    while some := [*islice(values, VALUES_AT_ONCE)]:
                        yield b"\n".join(some)
    except FileNotFoundError:
        return
    if path.suffix == ".jsonl" and QUARANTINE in path.parts:
        for row in _BASE64.findall(path.read_bytes()):
            with contextlib.suppress(binascii.Error):
                yield base64.b64decode(row)


def _unpacked_lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a segment, many together, each packed object in its place: by chance, its base64 has any short word.
    Of one that is cut off, its beginning."""
    lines, size = list[bytes](), 0
    for line in file:
        lines.append(_PACKED.sub(_unpacked, line))
        size += len(lines[-1])
        if size >= PIECE_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
    yield b"".join(lines)


def _unpacked(match: re.Match[bytes]) -> bytes:
    packed = match[1]
    try:
        return unpacked(packed[: len(packed) // 4 * 4], is_whole=False)
    except ValueError:
        return match[0]


def known_copies(folder: Path) -> list[Path]:
    """The copies of the store that are known of: in its own folder of backups, what a restore put aside, and what one
    that was killed left."""
    replaced = folder.parent.glob(f"{folder.name}{store_folder.REPLACED}*")
    stage = store_folder.staging_folder(folder)
    return sorted([*(folder / BACKUPS_FOLDER).glob("*"), *replaced, *([stage] if stage.exists() else [])])


def copies_holding(folder: Path, sought: ResiduePatterns, pause: Pause) -> list[Path]:
    """Those copies in whose bytes any of this stands."""
    return [copy for copy in known_copies(folder) if scan_folder(copy, sought, pause, with_backups=True).found]


class CopyErasure:
    """Rewrites copies without `ids` and without texts in `forgotten` (by salt and hash), except spared memories."""

    def __init__(
        self, disk: Disk, purge: Purge, ids: Sequence[str], forgotten: dict[str, dict[str, ErasedText]],
        is_spared: Callable[[str], bool],
    ) -> None:  # fmt: skip
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
        if copy == store_folder.staging_folder(data):
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
        made_at = backup.verify_backup(copy).at if is_backup else 0  # before it is copied
        now = (lambda: made_at) if is_backup else (lambda: time.time_ns() // 1_000_000)
        opened.mkdir(mode=0o700)
        restore.copy_parts(copy, opened, self._disk)
        store = Store.open(opened, disk=self._disk, now=now, reserve_bytes=0)
        try:
            if store.data_losses or store.degraded:
                raise StoreError("; ".join([*store.data_losses, *filter(None, [store.degraded])]))
            shutil.rmtree(opened / BACKUPS_FOLDER, ignore_errors=True)  # what it was in an older format
            same = [
                each
                for each in restore.memories_with_text(store.snapshot, self._forgotten)
                if not self._is_spared(each)
            ]
            with store.snapshot() as snapshot:
                here = [memory_id for memory_id in self._ids if snapshot.stored(memory_id) is not None]
            self._purge(store, list(dict.fromkeys((*here, *same))))
            if is_backup:
                backup.create_backup(store, listed, self._disk)
        finally:
            store.close()
        self._disk.rename(copy, old)
        self._disk.rename(listed if is_backup else opened, copy)
        self._disk.sync_folder(copy.parent)
        shutil.rmtree(old)
