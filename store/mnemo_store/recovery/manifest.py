"""The store manifest, `store.json`: identity of the store, and how it was closed. store/docs/format.md."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from mnemo_store.disk import Disk
from mnemo_store.errors import NewerFormat
from mnemo_store.journal.journal import newest_header
from mnemo_store.records import FORMAT

MANIFEST_FILE = "store.json"


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


def read(folder: Path, new: Callable[[], tuple[str, str]], supported: int = FORMAT) -> tuple[StoreManifest, str]:
    """Reads the manifest of the store in folder; also returns why it had to be rebuilt ("" where it was not).

    A missing or damaged one is rebuilt from the newest header of the journal; without a journal, `new` gives id and
    salt.
    """
    path = folder / MANIFEST_FILE
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=StoreManifest)
    except FileNotFoundError:
        return _rebuilt(folder, "missing", new, supported)
    except msgspec.MsgspecError:
        path.rename(path.with_name(f"{MANIFEST_FILE}.damaged"))
        return _rebuilt(folder, "damaged", new, supported)
    if manifest.format > supported:
        raise NewerFormat(f"{folder} has format {manifest.format}; this version supports formats up to {supported}")
    return manifest, ""


def _rebuilt(folder: Path, what: str, new: Callable[[], tuple[str, str]], newest: int) -> tuple[StoreManifest, str]:
    header = newest_header(folder / "journal")
    if header is None:
        store_id, salt = new()
        return StoreManifest(format=newest, store_id=store_id, salt=salt), ""
    manifest = StoreManifest(format=header.journal, store_id=header.store, salt=header.salt)
    return manifest, f"{MANIFEST_FILE} was {what} and was rebuilt from the journal"
