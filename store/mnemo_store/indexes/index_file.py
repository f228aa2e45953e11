"""The index file format: a header and arrays, checksummed and replaced as a whole. store/docs/format.md.

    magic · checksum of all that follows · header length, 8 bytes · header (JSON) · padding to 64 · arrays, padded to 64

The header holds the kind of index, the owner's facts about it (`meta`: id of the store, seq applied, model) and the
offset of each array. The checksum covers the header too: a seq with a flipped bit would skip changes. An index whose
file is missing, damaged or of another kind is rebuilt, so every doubt raises IndexMismatch.

The checksum is CRC-32, which guards against accidents; a file that can be rebuilt needs no more. It processes 1.6 GB/s;
SHA-256 processes 0.2 GB/s on a processor without instructions for it, which would lengthen the start with 100,000
memories by half a second.
"""

import mmap
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch

MAGIC = b"mnemo-view-2\n\0\0\0"
ALIGNMENT = 64  # bytes; a cache line, so that mapped arrays are aligned for any dtype
_SUM_BYTES = 8
_SUM_END = len(MAGIC) + _SUM_BYTES


class _Header(msgspec.Struct):
    kind: str
    meta: dict[str, Any]
    arrays: dict[str, tuple[str, tuple[int, ...], int]]  # dtype, shape, offset in the body
    body: int  # bytes


# Made here: msgspec crashes where two threads are the first to decode a type.
_HEADER = msgspec.json.Decoder(_Header)


def checksum(pieces: Iterable[Any]) -> int:
    """CRC-32 of the pieces' bytes, one after the other."""
    total = 0
    for piece in pieces:
        total = zlib.crc32(piece, total)
    return total


def _padding(size: int) -> bytes:
    return bytes(-size % ALIGNMENT)


def save(path: Path, kind: str, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], disk: Disk) -> None:
    """Replaces the file at path, durably. `meta` must be JSON."""
    places: dict[str, tuple[str, tuple[int, ...], int]] = {}
    pieces: list[memoryview | bytes] = []
    offset = 0
    for name, array in arrays.items():
        whole = np.ascontiguousarray(array)
        places[name] = (whole.dtype.str, whole.shape, offset)
        for piece in (whole.reshape(-1).view(np.uint8).data, _padding(whole.nbytes)):
            pieces.append(piece)
            offset += len(piece)
    header = msgspec.json.encode(_Header(kind, dict(meta), places, offset))
    head = len(header).to_bytes(8, "little") + header
    pieces[:0] = [head, _padding(_SUM_END + len(head))]
    disk.replace_file(path, [MAGIC, checksum(pieces).to_bytes(_SUM_BYTES, "little"), *pieces])


def load(path: Path, kind: str, *, mapped: bool = False) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Loads and verifies meta and arrays of a saved file. Arrays are read-only when mapped, else copies.

    Raises IndexMismatch for anything but a complete file of this kind.
    """
    try:
        with path.open("rb") as file:
            buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise IndexMismatch(f"{path.name}: {error}") from error
    if buffer[: len(MAGIC)] != MAGIC:
        raise IndexMismatch(f"{path.name} is not an index file")
    with memoryview(buffer) as view:
        if checksum([view[_SUM_END:]]) != int.from_bytes(view[len(MAGIC) : _SUM_END], "little"):
            raise IndexMismatch(f"{path.name}: its checksum does not match")
    start = _SUM_END + 8 + int.from_bytes(buffer[_SUM_END : _SUM_END + 8], "little")
    try:
        header = _HEADER.decode(buffer[_SUM_END + 8 : start])
    except msgspec.MsgspecError as error:
        raise IndexMismatch(f"{path.name}: its header is of another format") from error
    start += -start % ALIGNMENT
    if header.kind != kind or len(buffer) != start + header.body:
        raise IndexMismatch(f"{path.name} is not a complete index file of kind {kind}")
    arrays: dict[str, NDArray[Any]] = {}
    for name, (dtype, shape, offset) in header.arrays.items():
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(buffer, dtype=np.dtype(dtype), count=count, offset=start + offset).reshape(shape)
        arrays[name] = array if mapped else array.copy()
    return header.meta, arrays
