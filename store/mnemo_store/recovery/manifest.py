"""`store.json`: whose store this is, and how it was closed. FORMAT.md."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from mnemo_store.codec import FORMAT
from mnemo_store.disk import Disk
from mnemo_store.errors import NewerFormat
from mnemo_store.journal.journal import newest_header

MANIFEST_FILE = "store.json"


class StoreManifest(msgspec.Struct, kw_only=True):
    """Where it is lost, the journal's headers and the database know the id and the salt too."""

    format: int
    store_id: str
    salt: str  # 16 bytes in hexadecimal: the key of salted hashes
    clean: bool = False
    seq: int = 0  # at the last clean close
    database_bytes: int = 0  # then; a database of another size or time is verified before it is opened
    database_mtime_ns: int = 0
    running: str = ""  # the file that is open, in this run of the machine; "" where it is to be verified in any case

    def write(self, folder: Path, disk: Disk) -> None:
        disk.replace_file(folder / MANIFEST_FILE, [msgspec.json.encode(self)])


def read(folder: Path, new: Callable[[], tuple[str, str]]) -> tuple[StoreManifest, str]:
    """The manifest of the store in folder, and why it is not the one that stood there ("" when it is).

    One that is missing or damaged is what the journal's newest header says; without a journal, `new` gives id and salt.
    """
    path = folder / MANIFEST_FILE
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=StoreManifest)
    except FileNotFoundError:
        return _lost(folder, "missing", new)
    except msgspec.MsgspecError:
        path.rename(path.with_name(f"{MANIFEST_FILE}.damaged"))
        return _lost(folder, "damaged", new)
    if manifest.format > FORMAT:
        raise NewerFormat(f"{folder} is of format {manifest.format}, this version knows {FORMAT}")
    return manifest, ""


def _lost(folder: Path, what: str, new: Callable[[], tuple[str, str]]) -> tuple[StoreManifest, str]:
    header = newest_header(folder / "journal")
    if header is None:
        store_id, salt = new()
        return StoreManifest(format=FORMAT, store_id=store_id, salt=salt), ""
    manifest = StoreManifest(format=header.journal, store_id=header.store, salt=header.salt)
    return manifest, f"{MANIFEST_FILE} was {what} and is written anew from the journal"
