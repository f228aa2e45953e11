"""The format of a segment file: an encrypted description, then encrypted frames, each a batch of entries. SPEC 21.1

A file is MAGIC, the key's generation (4 bytes), and frames: length (4 bytes), nonce, ciphertext, tag. Frame 0 is the
description. Each other frame holds zlib-compressed entries, each with its length before it. What a frame is sealed for
names group, generation, device, segment, frame and the entries before it in all segments of the device, so it is
authentic in one place alone. Numbers are big-endian.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from mnemo_daemon.sync.cipher import OVERHEAD_BYTES, UnauthenticData, seal, unseal
from mnemo_daemon.sync.group_keys import GroupKey

MAGIC = b"mnemo segment 1\n"
PREAMBLE_BYTES = len(MAGIC) + 4
SEGMENT_BYTES = 4 << 20
"""A segment of this size is closed."""

BATCH_BYTES = 1 << 20
"""The entries of one frame, unless a single one is larger."""

ENTRY_BYTES_MAX = 32 << 20
PLAIN_BYTES_MAX = ENTRY_BYTES_MAX + BATCH_BYTES
FRAME_BYTES_MAX = PLAIN_BYTES_MAX + (1 << 20)  # what zlib cannot compress grows by less than a thousandth
SEGMENT_BYTES_MAX = SEGMENT_BYTES + FRAME_BYTES_MAX + (1 << 20)
"""The most that a file of ours can have: a frame begins below SEGMENT_BYTES."""

_LENGTH = struct.Struct(">I")
_ZLIB_LEVEL = 6


class SegmentDescription(msgspec.Struct, frozen=True):
    """The first frame of a segment: its place among the segments of its device."""

    previous: int  # the segment that it continues; 0: none
    count: int  # entries in all segments before it
    began: float  # the clock of its device, in seconds
    part: int = 0  # 0: changes; n: the n-th part of a snapshot, which replaces all segments before its first part
    is_last: bool = False  # of a snapshot: the last part
    frames: int = 0  # of a snapshot, which is written at once: its frames
    entries: int = 0  # and its entries


class FramePlace(NamedTuple):
    """The one place in which a frame is authentic."""

    device: str
    segment: int
    frame: int
    preceding: int  # entries before it in all segments; 0 for the description

    def context(self, key: GroupKey, generation: int) -> bytes:
        numbers = struct.pack(">IIIQ", generation, self.segment, self.frame, self.preceding)
        return key.group + bytes.fromhex(self.device) + numbers


class SegmentContent(NamedTuple):
    """The bytes of a segment file, split into frames that are not yet opened."""

    generation: int
    frames: list[memoryview]  # whole ones, that of the description first
    ends: list[int]  # the offset after each
    problem: str = ""  # a sentence about bytes behind them that can never become a frame
    is_partial: bool = False  # bytes are missing behind them


def preamble(key: GroupKey) -> bytes:
    return MAGIC + _LENGTH.pack(key.generation)


def seal_description(key: GroupKey, device: str, segment: int, description: SegmentDescription) -> bytes:
    return _frame(key, FramePlace(device, segment, 0, 0), msgspec.json.encode(description))


def seal_entries(key: GroupKey, at: FramePlace, entries: Sequence[bytes]) -> bytes:
    """Return the frame of these entries, with its length."""
    plain = b"".join(part for entry in entries for part in (_LENGTH.pack(len(entry)), entry))
    return _frame(key, at, zlib.compress(plain, _ZLIB_LEVEL))


def split(data: bytes) -> SegmentContent:
    """Split a segment file; what cannot be split is left and reported."""
    if not data.startswith(MAGIC):
        is_partial = MAGIC.startswith(data)
        return SegmentContent(0, [], [], "" if is_partial else "it is no segment file of this format", is_partial)
    if len(data) < PREAMBLE_BYTES:
        return SegmentContent(0, [], [], is_partial=True)
    (generation,) = _LENGTH.unpack_from(data, len(MAGIC))
    frames: list[memoryview] = []
    ends: list[int] = []
    view = memoryview(data)
    offset = PREAMBLE_BYTES
    while offset + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, offset)
        start = offset + _LENGTH.size
        if not OVERHEAD_BYTES <= length <= FRAME_BYTES_MAX:
            return SegmentContent(generation, frames, ends, f"its length cannot be {length} bytes")
        if start + length > len(data):
            break
        offset = start + length
        frames.append(view[start:offset])
        ends.append(offset)
    return SegmentContent(generation, frames, ends, is_partial=offset < len(data) or not frames)


def open_description(key: GroupKey, device: str, segment: int, content: SegmentContent) -> SegmentDescription:
    """Return the description, the first frame. Raises UnauthenticData."""
    plain = _open(key, content.generation, FramePlace(device, segment, 0, 0), content.frames[0])
    try:
        return msgspec.json.decode(plain, type=SegmentDescription)
    except msgspec.DecodeError as error:
        raise UnauthenticData(f"no description of a segment: {error}") from None


def open_entries(key: GroupKey, content: SegmentContent, at: FramePlace) -> list[bytes]:
    """Return the entries of a frame. Raises UnauthenticData, also for what grows beyond all bounds."""
    packed = _open(key, content.generation, at, content.frames[at.frame])
    inflation = zlib.decompressobj()
    try:
        plain = inflation.decompress(packed, PLAIN_BYTES_MAX)
    except zlib.error as error:
        raise UnauthenticData(f"its compressed data is damaged: {error}") from None
    if not inflation.eof or inflation.unused_data:
        raise UnauthenticData(f"its compressed data is incomplete, or larger than {PLAIN_BYTES_MAX} bytes")
    return list(_entries_in(plain))


def batches(entries: Iterable[bytes], batch_bytes: int = BATCH_BYTES) -> Iterator[list[bytes]]:
    """Divide entries into the batches that become frames. Raises ValueError for an entry that no frame can hold."""
    batch: list[bytes] = []
    size = 0
    for entry in entries:
        if not 0 < len(entry) <= ENTRY_BYTES_MAX:
            raise ValueError(f"an entry has 1 to {ENTRY_BYTES_MAX} bytes, not {len(entry)}")
        if batch and size + len(entry) > batch_bytes:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry) + _LENGTH.size
    if batch:
        yield batch


def _frame(key: GroupKey, at: FramePlace, plain: bytes) -> bytes:
    generation = key.generation
    sealed = seal(key.subkey("segments", generation), plain, at.context(key, generation))
    return _LENGTH.pack(len(sealed)) + sealed


def _open(key: GroupKey, generation: int, at: FramePlace, sealed: memoryview) -> bytes:
    return unseal(key.subkey("segments", generation), bytes(sealed), at.context(key, generation))


def _entries_in(plain: bytes) -> Iterator[bytes]:
    offset = 0
    while offset < len(plain):
        if offset + _LENGTH.size > len(plain):
            raise UnauthenticData("its entries are damaged")
        (length,) = _LENGTH.unpack_from(plain, offset)
        offset += _LENGTH.size + length
        if offset > len(plain):
            raise UnauthenticData("its entries are damaged")
        yield plain[offset - length : offset]
