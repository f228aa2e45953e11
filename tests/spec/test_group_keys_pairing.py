"""Pairing codes: what is mistyped is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemo_daemon.sync.group_keys import ALPHABET, BadPairingCode, decode_pairing_code, encode_pairing_code

KEY = bytes(range(32))
# 272 bits, five a character: 15 zeros and the 1 of the generation, then zeros: 0, 0, 0, 0b10000, 0. The check character
# is 7 * 16 modulo 32, the block's number 0 added: 16.
FIRST_BLOCK = "000G0" + "G"


def test_a_code_is_eleven_blocks_each_with_its_check_character() -> None:
    code = encode_pairing_code(1, KEY)
    assert code.split("-")[0] == FIRST_BLOCK
    assert [len(block) for block in code.split("-")] == [6] * 11


@given(st.integers(1, 0xFFFF), st.binary(min_size=32, max_size=32))
def test_every_key_comes_back_from_its_code(generation: int, key: bytes) -> None:
    assert decode_pairing_code(encode_pairing_code(generation, key)) == (generation, key)


@given(st.binary(min_size=32, max_size=32), st.integers(0, 65), st.sampled_from(ALPHABET))
def test_a_mistyped_character_is_found_and_its_block_named(key: bytes, at: int, char: str) -> None:
    chars = list(encode_pairing_code(1, key).replace("-", ""))
    if chars[at] == char:
        return
    chars[at] = char
    with pytest.raises(BadPairingCode, match=f"block {at // 6 + 1} of the pairing code is mistyped"):
        decode_pairing_code("".join(chars))


def test_exchanged_blocks_missing_blocks_and_foreign_characters_are_named() -> None:
    blocks = encode_pairing_code(1, KEY).split("-")
    with pytest.raises(BadPairingCode, match="block 2 of"):
        decode_pairing_code("-".join([blocks[0], blocks[2], blocks[1], *blocks[3:]]))
    with pytest.raises(BadPairingCode, match="has 11 blocks of 6"):
        decode_pairing_code("-".join(blocks[:-1]))
    with pytest.raises(BadPairingCode, match="block 11 of"):
        decode_pairing_code("-".join(blocks)[:-1])
    with pytest.raises(BadPairingCode, match="has 11 blocks"):
        decode_pairing_code("")
    with pytest.raises(BadPairingCode, match=r"has no !"):
        decode_pairing_code("-".join(blocks) + "!")
