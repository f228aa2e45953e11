"""The codec: records and keys to bytes and back. store/docs/format.md describes the bytes on disk.

The database holds MessagePack, the journal JSON (`journal.line_codec`), of the same structs. Keys of ids are their 16
bytes, keys of sequence numbers 8 bytes big-endian, so that LMDB's order is theirs. A default that a record leaves out
is part of the format: changing one is a new format version.
"""

import contextlib
import hashlib
import mmap
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_store.records import ChangeEntry, Memory, Record

Position = tuple[int, str]  # seq and checksum of a transaction: the state after it
NO_CHANGES: Position = (0, "")  # the position before the first transaction; `prev` of the first line of a journal

_FIRST, _REST = itemgetter(slice(1)), itemgetter(slice(1, None))
_TOKEN_ROWS = b"\1"  # token rows begin with it: they have an odd number of bytes, vectors in float16 an even one
_CODES = b"\2"  # vectors as codes begin with it, and have an odd number of bytes too
_CODE_MAX = 127.0
_UNIT_TOLERANCE = 0.01
_PACKED = b"\xc1"  # a packed value begins with it, and neither MessagePack, the seq of a memory nor UTF-8 does
_PACKED_BYTES_MIN = 512  # a shorter value is never packed
_PART_BYTES = 64  # of what is perhaps packed, unpacked at once
_LEVEL, _WINDOW_BITS, _MEMORY_LEVEL = 6, -15, 8  # raw DEFLATE
UNPACKED_BYTES_MAX = 1 << 28  # more is refused; the longest transaction is of some MB
# What long values often have, the most frequent last. Part of the format.
_DICTIONARY = (
    b" their they which would there about have this that with from will what when were been into more than also only"
    b" other it is to be in a the of and for on as are not you can if or by an at \x89\xa2id\xd9$01\xa4root\xd9$01"
    b"\xa4path\xa5inode\xa8mtime_ns\xcf\xa4size\xa4hash\xd9 \xa6chunks\xdc\x00\x95\xd9$01\x85\xa2at\xcf\x00\x00\x01"
    b"\xa2\xa2by\xa5notes\xa3ids\xdc\x00\xd9$01\xa4used\x91\xa4tags\x91\xa3key\xaasession_id\xa4turn\x82\xa4role\xa4"
    b"user\xa4pair\xa6method\xa6pinned\xc3\xa8category\xa4core\xa3cli\xa5agent\xa8agent_id\xde\x00\x0e\xa2id\xd9$01a"
    b"\xa7content\xda\x01\n\n\xaacreated_at\xcf\x00\x00\x01\xa2\xabmodified_at\xcf\x00\x00\x01\xa2\xa8event_at\xcf"
    b"\x00\x00\x01\xa2\xa4kind\xa8episodic\xa5layer\xa7working\xaaimportance\xcb?\xe0\x00\x00\x00\x00\x00\x00\xaadec"
    b"ay_rate\xcb?\xf0\x00\x00\x00\x00\x00\x00\xa5trust\xa4note\xa6source\xa4note\xa9namespace\xa7default\xa7managed"
    b"\xd9$01\xa4note\x82\xa5title\xa8headings\x91"
)

encode: Callable[[Record], bytes] = msgspec.msgpack.Encoder().encode
encode_json: Callable[[Record], bytes] = msgspec.json.Encoder().encode  # as in the journal and in an export
decode_memory = msgspec.msgpack.Decoder(Memory).decode
decode_entry = msgspec.msgpack.Decoder(ChangeEntry).decode


def id_key(text: str) -> bytes:
    """The 16 bytes of an id. Raises ValueError for a text that is no id."""
    key = bytes.fromhex(text.replace("-", ""))
    if len(key) != 16:
        raise ValueError(f"not an id: {text!r}")
    return key


def id_text(key: bytes) -> str:
    text = key.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def seq_key(seq: int) -> bytes:
    return seq.to_bytes(8, "big")


def seq_of(key: bytes) -> int:
    return int.from_bytes(key, "big")


def digest_key(*parts: str | bytes) -> bytes:
    """A 16-byte digest of the parts, in order, each with its length: ("a", "bc") and ("ab", "c") differ."""
    data = [part.encode() if isinstance(part, str) else part for part in parts]
    together = b"".join([len(each).to_bytes(4, "little") + each for each in data])
    return hashlib.blake2b(together, digest_size=16).digest()


def digest_keys(first: str, others: Iterable[bytes]) -> Iterator[bytes]:
    """`digest_key(first, other)` for each of the others, three times as fast."""
    name = first.encode()
    begin = hashlib.blake2b(len(name).to_bytes(4, "little") + name, digest_size=16).copy
    for other in others:
        digest = begin()
        digest.update(len(other).to_bytes(4, "little") + other)
        yield digest.digest()


def deflate(data: bytes, dictionary: bytes) -> bytes:
    """Packs data as raw DEFLATE with a dictionary."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zdict=dictionary)
    return packer.compress(data) + packer.flush()


def inflate(packed: bytes, dictionary: bytes, *, is_whole: bool = True) -> bytes:
    """Undoes `deflate`. Raises ValueError where it is damaged, or not whole, unless its beginning is enough."""
    unpacker = zlib.decompressobj(_WINDOW_BITS, zdict=dictionary)
    try:
        data = unpacker.decompress(packed, UNPACKED_BYTES_MAX)
    except zlib.error as error:
        raise ValueError(f"it cannot be unpacked: {error}") from error
    if is_whole and not unpacker.eof:
        raise ValueError("what is packed in it is cut off or too long")
    return data


def pack_value(value: bytes) -> bytes:
    """The value as it is kept in a row: a long one packed, where that is shorter."""
    if len(value) < _PACKED_BYTES_MIN:
        return value
    return min(value, _PACKED + deflate(value, _DICTIONARY), key=len)


def unpack_value(kept: bytes) -> bytes:
    """The value in a row. A damaged one is left as it is, and cannot be decoded."""
    if not kept.startswith(_PACKED):
        return kept
    try:
        return inflate(kept[len(_PACKED) :], _DICTIONARY)
    except ValueError:
        return kept


def packed_values(data: bytes | mmap.mmap) -> Iterator[bytes]:
    """Yields the packed values in the bytes of a database file, in use or freed; of a damaged one, its beginning."""
    at = data.find(_PACKED)
    while at >= 0:
        unpacker, start, value = zlib.decompressobj(_WINDOW_BITS, zdict=_DICTIONARY), at + len(_PACKED), bytearray()
        with contextlib.suppress(zlib.error):  # most of these bytes begin no value
            while not unpacker.eof and len(value) < UNPACKED_BYTES_MAX and (part := data[start : start + _PART_BYTES]):
                value += unpacker.decompress(part)
                start += _PART_BYTES
        if value:
            yield bytes(value)
        at = data.find(_PACKED, at + 1)


def encode_rows(rows: NDArray[np.float16] | NDArray[np.int8]) -> bytes:
    """Encodes the vectors (float16) or the token rows (int8) of a text. Unit vectors are kept as 8-bit codes."""
    if rows.dtype != np.float16:
        return _TOKEN_ROWS + rows.tobytes()
    whole = rows.astype(np.float32)
    is_unit = np.abs(np.linalg.norm(whole, axis=1) - 1) <= _UNIT_TOLERANCE
    if not rows.size or rows.size % 2 or not is_unit.all():
        return rows.astype("<f2", copy=False).tobytes()
    steps = np.abs(whole).max(axis=1, keepdims=True) / np.float32(_CODE_MAX)
    codes: bytes = np.rint(whole / steps).astype(np.int8).tobytes()
    return _CODES + codes


def decode_vectors(value: bytes, dimensions: int) -> NDArray[np.float16]:
    """Decodes vectors: (windows, dimensions). Raises ValueError for another width."""
    if not is_codes(value):
        return np.frombuffer(value, np.float16).reshape(-1, dimensions)
    codes = np.frombuffer(value, np.int8, -1, 1).reshape(-1, dimensions).astype(np.float32)
    units: NDArray[np.float32] = codes / np.maximum(np.linalg.norm(codes, axis=1, keepdims=True), 1)
    return units.astype(np.float16)


def decode_token_rows(value: bytes, dimensions: int) -> NDArray[np.int8]:
    """Decodes token rows: (tokens, dimensions), possibly none. Raises ValueError for another width."""
    if value[:1] != _TOKEN_ROWS:
        raise ValueError("it holds no token rows")
    return np.frombuffer(value, np.int8, -1, 1).reshape(-1, dimensions)


def join_token_rows(values: Sequence[bytes | None], dimensions: int) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Decodes the token rows of several texts: all rows, one after the other, and the number of rows of each, -1 for
    None. Raises ValueError for another width."""
    kept = [value or b"" for value in values]
    sizes = np.array(list(map(len, kept)), np.int64) - len(_TOKEN_ROWS)
    counts, rest = np.divmod(sizes, dimensions)
    if np.count_nonzero(rest) > np.count_nonzero(sizes < 0):
        raise ValueError(f"it holds token rows of another width than {dimensions}")
    if not set(map(_FIRST, kept)) <= {b"", _TOKEN_ROWS}:
        raise ValueError("it holds no token rows")
    return np.frombuffer(b"".join(map(_REST, kept)), np.int8).reshape(-1, dimensions), counts


def is_codes(value: bytes) -> bool:
    return len(value) % 2 == 1 and value.startswith(_CODES)


def is_token_rows(value: bytes) -> bool:
    return len(value) % 2 == 1 and value.startswith(_TOKEN_ROWS)
