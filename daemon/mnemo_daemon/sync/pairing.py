"""Pairing codes: a group's key as characters that a person can type, with a check character in each block. SPEC 21.1

The alphabet has no I, L, O and U; I and L are read as 1, O as 0. A block is five characters and a check character of
these and of the block's number, so a mistyped or exchanged block is named.
"""

from mnemo_daemon.sync.cipher import KEY_BYTES, SyncError

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_BLOCK = 5
_WEIGHTS = (1, 3, 5, 7, 9)  # odd: a change of one character always changes the sum modulo 32
_BYTES = 2 + KEY_BYTES
_CHARS = -(-_BYTES * 8 // 5)
_READ_AS = str.maketrans("ILO", "110")


class BadPairingCode(SyncError):
    """A code that was mistyped, or that belongs to another group."""


def encode(generation: int, key: bytes) -> str:
    """Return the code of a key: eleven blocks of six characters."""
    number = int.from_bytes(generation.to_bytes(2) + key) << (_CHARS * 5 - _BYTES * 8)
    chars = "".join(ALPHABET[number >> 5 * place & 31] for place in reversed(range(_CHARS)))
    blocks = [chars[start : start + _BLOCK] for start in range(0, _CHARS, _BLOCK)]
    return "-".join(block + _check(block, index) for index, block in enumerate(blocks))


def decode(code: str) -> tuple[int, bytes]:
    """Return generation and key of a code, however it is spaced. Raises BadPairingCode."""
    chars = "".join(code.upper().translate(_READ_AS).replace("-", " ").split())
    if wrong := sorted(set(chars) - set(ALPHABET)):
        raise BadPairingCode(f"a pairing code has no {' '.join(wrong)}: type it as it is shown")
    blocks = [chars[start : start + _BLOCK + 1] for start in range(0, len(chars), _BLOCK + 1)]
    for index, block in enumerate(blocks):
        if len(block) != _BLOCK + 1 or block[-1] != _check(block[:-1], index):
            raise BadPairingCode(f"block {index + 1} of the pairing code is mistyped: {block}")
    if len(blocks) != _CHARS // _BLOCK:
        raise BadPairingCode(f"a pairing code has {_CHARS // _BLOCK} blocks of {_BLOCK + 1} characters")
    number = 0
    for block in blocks:
        for char in block[:-1]:
            number = number << 5 | ALPHABET.index(char)
    data = (number >> (_CHARS * 5 - _BYTES * 8)).to_bytes(_BYTES)
    return int.from_bytes(data[:2]), data[2:]


def _check(block: str, index: int) -> str:
    total = sum(weight * ALPHABET.index(char) for weight, char in zip(_WEIGHTS, block, strict=True))
    return ALPHABET[(total + index) % 32]
