"""The codec: records and keys to bytes and back. store/FORMAT.md describes the bytes on disk.

The database holds MessagePack, the journal JSON, of the same structs. Keys of ids are their 16 bytes, keys of sequence
numbers 8 bytes big-endian, so that LMDB's order is theirs. A default that a record leaves out is part of the format:
changing one is a new format version.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_store.records import (
    Change,
    ChangeEntry,
    Memory,
    Record,
)

Position = tuple[int, str]  # seq and checksum of a transaction: the state after it
NO_CHANGES: Position = (0, "")  # the position before the first transaction; `prev` of the first line of a journal

_FIRST, _REST = itemgetter(slice(1)), itemgetter(slice(1, None))
_TOKEN_ROWS = b"\1"  # token rows begin with it: they have an odd number of bytes, vectors an even one

SUM_BYTES = 8  # of a journal line: 64 bits, an accident goes unseen once in 10^19

_pack = msgspec.msgpack.Encoder().encode
_json = msgspec.json.Encoder().encode
decode_memory = msgspec.msgpack.Decoder(Memory).decode
decode_entry = msgspec.msgpack.Decoder(ChangeEntry).decode


def encode(record: Record) -> bytes:
    return _pack(record)


def encode_json(record: Record) -> bytes:
    """Encodes a record as JSON, as in the journal and in an export."""
    return _json(record)


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
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(4, "little"))
        digest.update(data)
    return digest.digest()


def digest_keys(first: str, others: Iterable[bytes]) -> Iterator[bytes]:
    """`digest_key(first, other)` for each of the others, three times as fast."""
    name = first.encode()
    begin = hashlib.blake2b(len(name).to_bytes(4, "little") + name, digest_size=16).copy
    for other in others:
        digest = begin()
        digest.update(len(other).to_bytes(4, "little") + other)
        yield digest.digest()


def encode_rows(rows: NDArray[np.float16] | NDArray[np.int8]) -> bytes:
    """Encodes the vectors (float16) or the token rows (int8) of a text."""
    return rows.astype("<f2", copy=False).tobytes() if rows.dtype == np.float16 else _TOKEN_ROWS + rows.tobytes()


def decode_vectors(value: bytes, dimensions: int) -> NDArray[np.float16]:
    """Decodes vectors: (windows, dimensions). Raises ValueError for another width."""
    return np.frombuffer(value, np.float16).reshape(-1, dimensions)


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


def is_token_rows(value: bytes) -> bool:
    return len(value) % 2 == 1 and value.startswith(_TOKEN_ROWS)


class JournalLine(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One transaction in the journal. `prev` names the line before it, in either file."""

    seq: int
    at: int
    by: str
    prev: Position
    changes: tuple[Change, ...]
    what: str = ""
    group: str = ""

    def entry(self) -> ChangeEntry:
        """The row of `changes` for this transaction, to which applying it adds the ids."""
        return ChangeEntry(at=self.at, by=self.by, group=self.group, what=self.what)


class SegmentHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a segment. Lines of older segments of the same file with first_seq or more are void."""

    journal: int  # FORMAT
    file: str
    segment: int
    store: str  # id of the store
    salt: str  # of the store's salted hashes; here so that the journal alone gives the store back
    first_seq: int


_TAIL = len(b',"sum":"') + 2 * SUM_BYTES + len(b'"}')
_decode_line_json = msgspec.json.Decoder(JournalLine).decode
_decode_header_json = msgspec.json.Decoder(SegmentHeader).decode


class SealedLine(NamedTuple):
    """A line of the journal as bytes, with its newline, and its checksum, which the next line names."""

    data: bytes
    sum: str


def seal(line: JournalLine | SegmentHeader) -> SealedLine:
    """Encodes a line with its checksum."""
    return seal_json(_json(line))


def seal_json(text: bytes) -> SealedLine:
    """Adds to a JSON object, as its last field, the checksum of everything before: a line of the journal."""
    body = text[:-1]
    checksum = hashlib.blake2b(body, digest_size=SUM_BYTES).hexdigest()
    return SealedLine(b'%b,"sum":"%b"}\n' % (body, checksum.encode()), checksum)


def unseal_json(data: bytes) -> tuple[bytes, str]:
    """The JSON object in a line without its newline, and its checksum. Raises ValueError where that does not match."""
    body, tail = data[:-_TAIL], data[-_TAIL:]
    if len(data) <= _TAIL or not tail.startswith(b',"sum":"') or not tail.endswith(b'"}'):
        raise ValueError("it has no checksum")
    checksum = tail[8 : 8 + 2 * SUM_BYTES].decode("ascii", "replace")
    if hashlib.blake2b(body, digest_size=SUM_BYTES).hexdigest() != checksum:
        raise ValueError("its checksum does not match")
    return body + b"}", checksum


def is_sealed(data: bytes) -> bool:
    """True if the checksum of a line without its newline matches, whatever the content."""
    try:
        unseal_json(data)
    except ValueError:
        return False
    return True


def decode_line(data: bytes) -> tuple[JournalLine, str]:
    """Decodes a line without its newline, with its checksum. Raises ValueError that says what is wrong."""
    body, checksum = unseal_json(data)
    try:
        return _decode_line_json(body), checksum
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def decode_header(data: bytes) -> SegmentHeader:
    """Decodes a header without its newline. Raises ValueError that says what is wrong."""
    try:
        return _decode_header_json(unseal_json(data)[0])
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
