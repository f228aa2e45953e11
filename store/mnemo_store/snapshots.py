"""One file format for the arrays of a view: a header, then the arrays' bytes, checksummed, replaced whole.

    magic · 8 bytes header length · header (JSON) · padding to 64 · arrays, each padded to 64

The header names the kind of view, what its owner wants to know of it (`meta`: the store's id, the seq applied, the
model), where each array stands, and the SHA-256 of everything behind it. A view whose file is missing, damaged or of
another kind is rebuilt, so every doubt here is a ViewMismatch.
"""

import hashlib
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_store.disk import Disk
from mnemo_store.errors import ViewMismatch

MAGIC = b"mnemo-view-1\n\0\0\0"
ALIGNMENT = 64  # bytes; a cache line, so that mapped arrays are aligned for any dtype


class _Header(msgspec.Struct):
    kind: str
    meta: dict[str, Any]
    arrays: dict[str, tuple[str, tuple[int, ...], int]]  # dtype, shape, offset in the body
    sha256: str
    body: int  # bytes


def _padding(size: int) -> bytes:
    return bytes(-size % ALIGNMENT)


def save(path: Path, kind: str, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], disk: Disk) -> None:
    """Replaces the file at path, durably. `meta` must be JSON."""
    places: dict[str, tuple[str, tuple[int, ...], int]] = {}
    pieces: list[memoryview | bytes] = []
    digest, offset = hashlib.sha256(), 0
    for name, array in arrays.items():
        whole = np.ascontiguousarray(array)
        places[name] = (whole.dtype.str, whole.shape, offset)
        for piece in (whole.reshape(-1).view(np.uint8).data, _padding(whole.nbytes)):
            pieces.append(piece)
            digest.update(piece)
            offset += len(piece)
    header = msgspec.json.encode(_Header(kind, dict(meta), places, digest.hexdigest(), offset))
    head = MAGIC + len(header).to_bytes(8, "little") + header
    disk.write_whole(path, [head, _padding(len(head)), *pieces])


def load(path: Path, kind: str, *, mapped: bool = False) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The meta and arrays of a file that `save` wrote, verified. Read-only when mapped, else copies of their own.

    Raises ViewMismatch for anything but a whole file of this kind.
    """
    try:
        with path.open("rb") as file:
            buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise ViewMismatch(f"{path.name}: {error}") from error
    if buffer[: len(MAGIC)] != MAGIC:
        raise ViewMismatch(f"{path.name} is not a view file")
    length = int.from_bytes(buffer[len(MAGIC) : len(MAGIC) + 8], "little")
    start = len(MAGIC) + 8 + length
    try:
        header = msgspec.json.decode(buffer[len(MAGIC) + 8 : start], type=_Header)
    except msgspec.MsgspecError as error:
        raise ViewMismatch(f"{path.name}: its header is damaged") from error
    start += -start % ALIGNMENT
    if header.kind != kind or len(buffer) != start + header.body:
        raise ViewMismatch(f"{path.name} is not a whole view of kind {kind}")
    with memoryview(buffer) as view:
        if hashlib.sha256(view[start:]).hexdigest() != header.sha256:
            raise ViewMismatch(f"{path.name}: its checksum does not match")
    arrays: dict[str, NDArray[Any]] = {}
    for name, (dtype, shape, offset) in header.arrays.items():
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(buffer, dtype=np.dtype(dtype), count=count, offset=start + offset).reshape(shape)
        arrays[name] = array if mapped else array.copy()
    return header.meta, arrays
