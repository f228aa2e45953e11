"""The lines of the journal as bytes: JSON with a checksum as its last field. store/docs/format.md, "The journal"."""

import hashlib
from typing import NamedTuple

import msgspec

from mnemo_store.codec import Position
from mnemo_store.records import Change, ChangeEntry

SUM_BYTES = 8  # 64 bits: an accident goes unseen once in 10^19
_TAIL = len(b',"sum":"') + 2 * SUM_BYTES + len(b'"}')


class JournalLine(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One transaction in the journal. `prev` names the line before it, in either file."""

    seq: int
    at: int
    by: str
    prev: Position
    changes: tuple[Change, ...]
    what: str = ""
    group: str = ""
    clock: int = 0
    device: str = ""
    origin: int = 0

    def entry(self) -> ChangeEntry:
        """The row of `changes` for this transaction, to which applying it adds the ids."""
        return ChangeEntry(
            at=self.at, by=self.by, group=self.group, what=self.what, clock=self.clock, device=self.device,
            origin=self.origin,
        )  # fmt: skip


class SegmentHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a segment. Lines of older segments of the same file with first_seq or more are void."""

    journal: int  # FORMAT
    file: str
    segment: int
    store: str  # id of the store
    salt: str  # of the store's salted hashes; here so that the journal alone gives the store back
    first_seq: int


_encode = msgspec.json.Encoder().encode
_decode_line = msgspec.json.Decoder(JournalLine).decode
_decode_header = msgspec.json.Decoder(SegmentHeader).decode


class SealedLine(NamedTuple):
    """A line of the journal as bytes, with its newline, and its checksum, which the next line names."""

    data: bytes
    sum: str


def seal(line: JournalLine | SegmentHeader) -> SealedLine:
    """Encodes a line with its checksum."""
    return seal_json(_encode(line))


def seal_readable(line: JournalLine) -> SealedLine:
    """Encodes a line like `seal`. Raises ValueError where it could not be read back: NaN becomes null."""
    text = _encode(line)
    _decode_line(text)
    return seal_json(text)


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
    text, checksum = unseal_json(data)
    return _decode_line(text), checksum


def decode_header(data: bytes) -> SegmentHeader:
    """Decodes a header without its newline. Raises ValueError that says what is wrong."""
    return _decode_header(unseal_json(data)[0])
