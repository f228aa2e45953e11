"""The bytes of the files of a store, as somebody who looks for a text would read them."""

from pathlib import Path

from mnemo_store.codec import packed_values


def readable_bytes(path: Path) -> bytes:
    """The bytes of a file, and what a database file has packed."""
    data = path.read_bytes()
    return b"\n".join((data, *packed_values(data))) if path.suffix == ".mdb" else data
