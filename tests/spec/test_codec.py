"""Records and keys as bytes, and the line of the journal. SPEC 3.3, store/docs/format.md."""

import base64
import hashlib
import random
import re
import zlib
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from mnemo_store import codec, records
from mnemo_store.codec import decode_memory, digest_key, encode, id_key, id_text, seq_key, seq_of
from mnemo_store.journal import line_codec
from mnemo_store.journal.line_codec import (
    JournalLine,
    SegmentHeader,
    decode_header,
    decode_line,
    is_sealed,
    seal,
    unpacked,
)
from mnemo_store.record_texts import content_hash, embedded_text
from mnemo_store.records import Change, DropMemory, Memory, PutMemory, PutMeta, Record, is_long_term
from mnemo_store.tables import EMBEDDING_ROWS, TABLE_NAMES
from tests.support.samples import sample_id, sample_memory

FORMAT_PAGE = Path(__file__).resolve().parents[2] / "store" / "docs" / "format.md"
ID = "01890000-0000-7000-8000-000000000001"
DROP = b'{"seq":3,"at":5,"by":"me","prev":[2,"00ff00ff00ff00ff"],"changes":[{"record_type":"memory_dropped","id":"%b"}]'


def sealed_by_hand(body: bytes) -> bytes:
    """The line as store/docs/format.md defines it: the JSON without its brace, then its checksum as the last field."""
    return body + b',"sum":"' + hashlib.blake2b(body, digest_size=8).hexdigest().encode() + b'"}'


def test_a_line_is_its_json_with_the_checksum_of_all_before_as_the_last_field() -> None:
    line = JournalLine(3, 5, "me", (2, "00ff00ff00ff00ff"), (DropMemory(id=ID),))
    expected = sealed_by_hand(DROP % ID.encode())
    assert seal(line).data == expected + b"\n"
    assert seal(line).sum == expected[-18:-2].decode()
    assert decode_line(expected) == (line, seal(line).sum)


def test_operation_and_group_are_in_the_line_only_when_there_are_some() -> None:
    line = JournalLine(1, 5, "me", (0, ""), (), what="add", group="g")
    assert seal(line).data.startswith(b'{"seq":1,"at":5,"by":"me","prev":[0,""],"changes":[],"what":"add","group":"g",')


def test_a_header_is_sealed_like_a_line() -> None:
    header = SegmentHeader(1, "short_term", 7, "store", "ab", 12)
    body = b'{"journal":1,"file":"short_term","segment":7,"store":"store","salt":"ab","first_seq":12'
    assert seal(header).data == sealed_by_hand(body) + b"\n"
    assert decode_header(sealed_by_hand(body)) == header


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no checksum"),
        (b'{"seq":3}', "no checksum"),
        (sealed_by_hand(DROP % ID.encode()).replace(b"me", b"mf"), "does not match"),
        (sealed_by_hand(DROP % ID.encode())[:-1], "no checksum"),
        (sealed_by_hand(b'{"seq":3,"at":5,"by":"me"'), "missing required field"),
        (sealed_by_hand((DROP % ID.encode()).replace(b"memory_dropped", b"nobody_knows")), "Invalid value"),
    ],
)
def test_an_altered_line_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode_line(data)


def packed_by_hand(text: bytes) -> bytes:
    """The line with this object packed, as store/docs/format.md defines it."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15, zdict=line_codec._DICTIONARY)
    return sealed_by_hand(b'{"packed":"' + base64.b64encode(packer.compress(text) + packer.flush()) + b'"')


def test_a_long_line_is_packed_and_one_that_is_not_is_read_too() -> None:
    plain = JournalLine(3, 5, "me", (2, "00ff00ff00ff00ff"), (PutMemory(data=sample_memory(1, "tea at noon " * 60)),))
    text = msgspec.json.encode(plain)
    assert len(seal(plain).data) < len(text) / 3
    assert decode_line(seal(plain).data[:-1]) == (plain, seal(plain).sum)
    assert decode_line(packed_by_hand(text))[0] == plain
    assert decode_line(sealed_by_hand(text[:-1]))[0] == plain, "as lines were written before any was packed"
    noise = JournalLine(3, 5, "me", (0, ""), (PutMeta(name="n", value=random.Random(1).randbytes(900).hex()[:700]),))
    assert decode_line(seal(noise).data[:-1])[0] == noise


def test_the_dictionary_is_the_one_that_packed_lines_were_written_with() -> None:
    digest = hashlib.blake2b(line_codec._DICTIONARY, digest_size=16).hexdigest()
    assert f"{len(line_codec._DICTIONARY)} bytes, {digest}" in FORMAT_PAGE.read_text()


def test_a_long_value_is_packed_and_a_damaged_one_is_left_as_it_is() -> None:
    value = codec.encode(sample_memory(1, "tea at noon and what to bring along " * 30))
    packed = codec.pack_value(value)
    assert packed[0] == 0xC1
    assert len(packed) < len(value) / 3
    assert codec.unpack_value(packed) == value
    assert codec.unpack_value(value) == value, "as an older format left it"
    for plain in (value[:511], random.Random(1).randbytes(2000)):
        assert codec.pack_value(plain) == plain
    for damaged in (packed[:-9], packed[:1] + b"\xff" + packed[2:]):
        assert codec.unpack_value(damaged) == damaged
        with pytest.raises(msgspec.DecodeError):
            codec.decode_memory(codec.unpack_value(damaged))


def test_a_packed_value_is_found_in_the_bytes_of_a_file_whole_or_its_beginning() -> None:
    value = codec.encode(sample_memory(1, " ".join(f"zanzibarine{number}" for number in range(200))))
    packed, noise = codec.pack_value(value), random.Random(1).randbytes(20_000)
    assert value in set(codec.packed_values(noise + packed + noise))
    torn = noise + packed[:-40] + noise
    assert any(b"zanzibarine20 " in each for each in codec.packed_values(torn))
    assert not any(b"zanzibarine" in each for each in codec.packed_values(noise + noise))


def test_the_dictionary_is_the_one_that_packed_values_were_written_with() -> None:
    digest = hashlib.blake2b(codec._DICTIONARY, digest_size=16).hexdigest()
    assert f"{len(codec._DICTIONARY)} bytes, {digest}" in FORMAT_PAGE.read_text()


def test_a_packed_line_that_cannot_be_unpacked_is_refused_with_the_reason() -> None:
    beginning = packed_by_hand(b"[" + b",".join(b"%d" % number for number in range(3000)) + b"]")[11:4011]
    for packed, why in [
        (beginning, "cut off"), (base64.b64encode(b"\xff" * 30), "cannot be unpacked"), (b"A", "base64"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=why):
            decode_line(sealed_by_hand(b'{"packed":"' + packed + b'"'))
    assert unpacked(beginning, is_whole=False).startswith(b"[0,1,2,")


def test_a_line_of_an_unknown_kind_is_intact_all_the_same() -> None:
    unknown = sealed_by_hand(b'{"seq":3,"newer":true')
    assert is_sealed(unknown)
    assert not is_sealed(unknown[:-3])


def test_every_bit_of_a_line_is_covered_by_its_checksum() -> None:
    data = sealed_by_hand(DROP % ID.encode())
    for place in range(len(data)):
        damaged = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(ValueError, match="checksum"):
            decode_line(damaged)


def test_keys_of_ids_and_seqs_sort_as_they_do() -> None:
    assert id_key(ID) == bytes.fromhex("01890000000070008000000000000001")
    assert id_text(id_key(ID)) == ID
    assert [seq_key(seq) for seq in (1, 255, 256)] == sorted(seq_key(seq) for seq in (256, 255, 1))
    assert seq_key(258) == bytes([0, 0, 0, 0, 0, 0, 1, 2])
    assert seq_of(seq_key(2**40)) == 2**40
    for text in ("", "zz", "01", ID + "00"):
        with pytest.raises(ValueError, match=r"not an id|hexadecimal"):
            id_key(text)


def test_no_two_lists_of_parts_share_a_digest_by_running_together() -> None:
    lists = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), (b"ab", b"c", b"")]
    assert len({digest_key(*parts) for parts in lists}) == len(lists)
    assert digest_key("ab", "c") == digest_key(b"ab", b"c")
    by_hand = hashlib.blake2b(b"\2\0\0\0ab\1\0\0\0c", digest_size=16).digest()
    assert digest_key("ab", "c") == by_hand


def test_a_field_at_its_default_is_not_written() -> None:
    memory = sample_memory(1, "tea")
    assert set(msgspec.msgpack.decode(encode(memory))) == {"id", "content", "created_at", "modified_at", "event_at"}
    assert decode_memory(encode(memory)) == memory


def test_an_unknown_field_is_refused() -> None:
    data = msgspec.msgpack.encode({**msgspec.to_builtins(sample_memory(1)), "newer": 1})
    with pytest.raises(msgspec.ValidationError, match="newer"):
        decode_memory(data)


def test_contents_are_equal_by_hash_when_they_differ_in_case_space_or_composition_only() -> None:
    assert content_hash("The  tea\n is Grün") == content_hash("the tea is gru\u0308n ")
    assert content_hash("the tea") != content_hash("thetea")
    assert len(content_hash("")) == 16


def test_core_memories_and_summaries_are_long_term_and_nothing_else() -> None:
    assert is_long_term(PutMemory(data=sample_memory(1, layer="core")))
    assert is_long_term(PutMemory(data=sample_memory(1, compression_source=True)))
    assert not is_long_term(PutMemory(data=sample_memory(1, layer="working")))
    assert not is_long_term(DropMemory(id=ID))


def test_a_chunk_is_embedded_with_its_trail_and_all_else_as_it_is() -> None:
    assert embedded_text(sample_memory(1, "tea", speaker="Ann", tags=("x",))) == "tea"
    place = records.NotePlace(title="Garden", headings=("Beds", "North"))
    assert embedded_text(sample_memory(1, "tea", note=place)) == "Garden > Beds > North\ntea"
    assert embedded_text(sample_memory(1, "tea", note=records.NotePlace(title="Garden"))) == "Garden\ntea"


def written_defaults() -> set[tuple[str, str, str]]:
    """The rows of the table of defaults in store/docs/format.md."""
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(.*)` \|$", FORMAT_PAGE.read_text(), re.MULTILINE)
    return set(rows)


def actual_defaults() -> set[tuple[str, str, str]]:
    found = set()
    persisted = [each for each in vars(records).values() if isinstance(each, type) and issubclass(each, Record)]
    for struct in persisted:
        for field in msgspec.structs.fields(struct):
            if field.default is not msgspec.NODEFAULT:
                found.add((struct.__name__, field.name, msgspec.json.encode(field.default).decode()))
    return found


def test_the_defaults_that_the_format_froze_are_still_the_defaults() -> None:
    assert actual_defaults() == written_defaults()


def test_every_kind_of_change_is_described() -> None:
    page = FORMAT_PAGE.read_text()
    for change in get_args(Change):
        assert f"`{change.__struct_config__.tag}`" in page, change.__name__


def test_the_tables_that_the_page_lists_are_those_of_the_code() -> None:
    page = FORMAT_PAGE.read_text()
    database = page[page.index("## The database") : page.index("## The manifest")]
    assert set(re.findall(r"^\| `(\w+)` \|", database, re.MULTILINE)) == {*TABLE_NAMES, EMBEDDING_ROWS}
    assert list(records.FORMATS) == list(range(1, records.FORMAT + 1))


def test_sample_ids_are_valid_keys() -> None:
    assert id_text(id_key(sample_id(7))) == sample_id(7)
    assert isinstance(sample_memory(7), Memory)
