"""The lines of the journal as bytes: JSON with a checksum as its last field. store/docs/format.md, "The journal".

A long line is packed, each by itself: where bytes of a segment are damaged, no more lines are lost than of plain ones.
"""

import binascii
import hashlib
from typing import NamedTuple

import msgspec

from mnemo_store.codec import Position, deflate, inflate
from mnemo_store.records import Change, ChangeEntry

SUM_BYTES = 8  # 64 bits: an accident goes unseen once in 10^19
_TAIL = len(b',"sum":"') + 2 * SUM_BYTES + len(b'"}')

PACKED_BYTES_MIN = 512  # a shorter object is never packed; headers are all shorter
_PACKED = b'{"packed":"'
# What the lines of a journal often have, the most frequent last. Part of the format.
_DICTIONARY = (
    b'"trash","reason":""category":""layer":"core","importance_source":"person","speaker":"","trust":"agent","method":'
    b'"import","tags":["derived_from":["],"session_id":"","evidence":["superseded_by":""pinned":true,"turn":{"role":'
    b'"user","pair":""expires_at":{"record_type":"fact","data":{"id":"","memory":"","subject":"","predicate":"",'
    b'"object":"","confidence":{"record_type":"change","seq":,"data":{"at":17,"by":"notes","group":"","ids":["","used":'
    b'["","what":"{"record_type":"edge","data":{"source":"","relation":"related","target":"","at":17,"via":"'
    b'{"record_type":"usage","data":{"id":"01","access_count":1,"repetition_count":,"last_accessed":17,"strength":0.5,'
    b'"strength_epoch": their they which would there about have this that with from will what when were been into more '
    b"than also only other it is to be in a the of and for on as are not you can if or by an at "
    b'{"record_type":"memory","seq":,"number":,"data":{"id":"01","version":2,"content":"","created_at":17,"modified_at":'
    b'17,"event_at":17,"kind":"episodic","category":"fact","layer":"working","importance":0.5,"decay_rate":1.0,"trust":'
    b'"note","source":"note","tags":["],"namespace":"default","managed":"01","note":{"title":"","headings":["","dated":'
    b'true,"folder":"'
)


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
    """Makes of a JSON object a line of the journal: the object, packed where that is shorter, with the checksum of
    everything before as its last field."""
    body = text[:-1]
    if len(text) >= PACKED_BYTES_MIN:
        packed = binascii.b2a_base64(deflate(text, _DICTIONARY), newline=False)
        body = min(body, b'%b%b"' % (_PACKED, packed), key=len)
    checksum = hashlib.blake2b(body, digest_size=SUM_BYTES).hexdigest()
    return SealedLine(b'%b,"sum":"%b"}\n' % (body, checksum.encode()), checksum)


def unpacked(packed: bytes, *, is_whole: bool = True) -> bytes:
    """The JSON object that was packed. Raises ValueError where it is not whole, unless its beginning is enough."""
    return inflate(binascii.a2b_base64(packed), _DICTIONARY, is_whole=is_whole)


def unseal_json(data: bytes) -> tuple[bytes, str]:
    """The JSON object in a line without its newline, unpacked, and its checksum. Raises ValueError where that does not
    match."""
    body, tail = data[:-_TAIL], data[-_TAIL:]
    if len(data) <= _TAIL or not tail.startswith(b',"sum":"') or not tail.endswith(b'"}'):
        raise ValueError("it has no checksum")
    checksum = tail[8 : 8 + 2 * SUM_BYTES].decode("ascii", "replace")
    if hashlib.blake2b(body, digest_size=SUM_BYTES).hexdigest() != checksum:
        raise ValueError("its checksum does not match")
    return unpacked(body[len(_PACKED) : -1]) if body.startswith(_PACKED) else body + b"}", checksum


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
