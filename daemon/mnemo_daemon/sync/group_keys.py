"""The key of a group of devices, and the files in the shared folder that give it to who knows the passphrase. SPEC 21.1

`group.json` holds the first key, `group.2.json` the one that replaced it, and so on. Each file wraps its key under one
that Argon2id derives from the passphrase, wraps all keys before it under itself, and is announced by a code of each of
these: a device that knows an old key can tell a replacement from a file that somebody else put there.

A pairing code is a key as characters that a person can type, with a check character in each block. The alphabet has no
I, L, O and U; I and L are read as 1, O as 0. A block is five characters and a check character of these and of the
block's number, so a mistyped or exchanged block is named.
"""

import hashlib
import hmac
import re
import secrets
import struct
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from mnemo_daemon.sync.cipher import (
    KDF_MEMORY_MAX,
    KDF_PASSES_MAX,
    KEY_BYTES,
    SALT_BYTES,
    PassphraseCost,
    SyncError,
    UnauthenticData,
    passphrase_key,
    seal,
    subkey,
    unseal,
)
from mnemo_daemon.sync.shared_folder import names_in, place, read_file, replace_file
from mnemo_store.disk import Disk

FORMAT = 1
GROUP_BYTES = 16
GENERATION_MAX = 0xFFFF
PASSPHRASE_CHARS_MIN = 8
FILE_BYTES_MAX = 8 << 20
DEFAULT_COST = PassphraseCost()

_GROUP_FILE = re.compile(r"group(?:\.([2-9]|[1-9][0-9]{1,4}))?\.json")


class WrongPassphrase(SyncError):
    """The passphrase does not open the group's key."""


class UnreadableGroup(SyncError):
    """The folder's group file is missing, damaged, or of a newer format."""


class GroupExists(SyncError):
    """The folder has a group already."""


class ReplacedKey(SyncError):
    """The group has a newer key than this device."""


@dataclass(frozen=True)
class GroupKey:
    """A group, the newest key that is known of it, and all that came before."""

    group: bytes
    keys: tuple[bytes, ...] = field(repr=False)

    @property
    def generation(self) -> int:
        return len(self.keys)

    def subkey(self, purpose: str, generation: int) -> bytes:
        """The key for one purpose. Raises UnauthenticData for a generation that is not known."""
        if not 1 <= generation <= len(self.keys):
            raise UnauthenticData(f"written with key {generation} of the group; this device knows {len(self.keys)}")
        return subkey(self.keys[generation - 1], purpose)

    def until(self, generation: int) -> "GroupKey":
        """Return the key as it was in a generation."""
        return GroupKey(self.group, self.keys[:generation])

    def to_bytes(self) -> bytes:
        """Return the secret as one line of JSON, for a file that nobody else can read."""
        return msgspec.json.encode({"group": self.group.hex(), "keys": [key.hex() for key in self.keys]})

    @classmethod
    def from_bytes(cls, data: bytes) -> "GroupKey":
        stored = msgspec.json.decode(data, type=_StoredKey)
        return cls(bytes.fromhex(stored.group), tuple(bytes.fromhex(key) for key in stored.keys))


class _StoredKey(msgspec.Struct):
    group: str
    keys: list[str]


class _Derivation(msgspec.Struct, forbid_unknown_fields=True):
    """The way from the passphrase to the key that wraps."""

    name: str
    passes: int
    memory_bytes: int
    salt: str


class _GroupFile(msgspec.Struct):
    """The content of a group file; bytes are hexadecimal."""

    format: int
    group: str
    generation: int
    kdf: _Derivation
    key: str  # the data key, wrapped by the key of the passphrase
    older: str  # the data keys before it, wrapped by it
    check: str  # a code of the group by this key: a pairing code that gives the key belongs to it
    announced: list[str] = []  # a code of this file by each older key


def create_group(
    folder: Path, passphrase: str, *, cost: PassphraseCost = DEFAULT_COST, disk: Disk | None = None
) -> GroupKey:
    """Make a group in the folder, and return its key. Raises GroupExists."""
    if found := _generations(folder):
        raise GroupExists(f"{place(_group_path(folder, found[-1]))} exists: join the group, or choose another folder")
    key = GroupKey(secrets.token_bytes(GROUP_BYTES), (secrets.token_bytes(KEY_BYTES),))
    _write_group_file(folder, key, passphrase, cost, disk or Disk())
    return key


def replace_key(
    folder: Path, key: GroupKey, passphrase: str, *, cost: PassphraseCost = DEFAULT_COST, disk: Disk | None = None
) -> GroupKey:
    """Give the group a new key, which those who know only the older ones cannot open; return it with these."""
    if key.generation == GENERATION_MAX:
        raise SyncError("the key was replaced too often: begin a new group")
    check_key(folder, key)
    new = GroupKey(key.group, (*key.keys, secrets.token_bytes(KEY_BYTES)))
    _write_group_file(folder, new, passphrase, cost, disk or Disk())
    return new


def open_group(folder: Path, passphrase: str) -> GroupKey:
    """Return the newest key of the folder's group. Raises WrongPassphrase, UnreadableGroup."""
    file = _read_newest(folder)
    cost = PassphraseCost(file.kdf.passes, file.kdf.memory_bytes)
    wrapping = passphrase_key(_normal(passphrase), bytes.fromhex(file.kdf.salt), cost)
    try:
        newest = unseal(wrapping, bytes.fromhex(file.key), _context(file))
    except UnauthenticData:
        raise WrongPassphrase("the passphrase is not that of this group") from None
    return _with_older(file, newest)


def pairing_code(key: GroupKey) -> str:
    """Return the newest key as a code to be typed on another device. Whoever sees it can read everything."""
    return encode_pairing_code(key.generation, key.keys[-1])


def open_with_code(folder: Path, code: str) -> GroupKey:
    """Return the key that a pairing code carries. Raises BadPairingCode, ReplacedKey, UnreadableGroup."""
    generation, newest = decode_pairing_code(code)
    file = _read_newest(folder)
    if generation < file.generation:
        raise ReplacedKey("the key was replaced after this pairing code was made: make a new code")
    if generation > file.generation:
        raise UnreadableGroup(f"{place(_group_path(folder, generation))} is not here yet: wait until it has arrived")
    if not hmac.compare_digest(file.check, _check(bytes.fromhex(file.group), newest)):
        raise BadPairingCode("this pairing code belongs to another group")
    return _with_older(file, newest)


def check_key(folder: Path, key: GroupKey) -> str:
    """Return "" while key is the group's newest; a sentence if a group file is not what the group wrote.

    Raises ReplacedKey where a holder of this key replaced it.
    """
    problem = ""
    for generation in _generations(folder):
        try:
            file = _read_group_file(folder, generation)
        except UnreadableGroup as error:
            problem = problem or str(error)
            continue
        if file.group != key.group.hex():
            problem = problem or f"{place(_group_path(folder, generation))} is of another group"
        elif generation > key.generation:
            code = _announcement(file, key.keys[-1])
            if len(file.announced) >= key.generation and hmac.compare_digest(file.announced[key.generation - 1], code):
                raise ReplacedKey("the key of the group was replaced")
            problem = problem or f"{place(_group_path(folder, generation))} was not written by this group"
    return problem


def keep_copy(folder: Path, path: Path, disk: Disk) -> None:
    """Keep a copy of the folder's group files in this file: without them nobody could join any more."""
    names = (_group_path(folder, generation).name for generation in _generations(folder))
    content = msgspec.json.encode({name: read_file(folder / name, FILE_BYTES_MAX) for name in names})
    if not path.exists() or path.read_bytes() != content:
        disk.replace_file(path, [content])


def restore_copy(folder: Path, path: Path, disk: Disk) -> None:
    """Put back those group files of a copy that the folder no longer has."""
    if path.exists():
        files = msgspec.json.decode(path.read_bytes(), type=dict[str, bytes])
        for name in sorted(files.keys() - set(names_in(folder))):
            replace_file(folder / name, [files[name]], disk)


def _write_group_file(folder: Path, key: GroupKey, passphrase: str, cost: PassphraseCost, disk: Disk) -> None:
    if len(_normal(passphrase)) < PASSPHRASE_CHARS_MIN:
        raise SyncError(f"the passphrase needs at least {PASSPHRASE_CHARS_MIN} characters")
    salt = secrets.token_bytes(SALT_BYTES)
    file = _GroupFile(
        format=FORMAT, group=key.group.hex(), generation=key.generation,
        kdf=_Derivation("argon2id", cost.passes, cost.memory_bytes, salt.hex()),
        key="", older="", check=_check(key.group, key.keys[-1]),
    )  # fmt: skip
    wrapping = passphrase_key(_normal(passphrase), salt, cost)
    file.key = seal(wrapping, key.keys[-1], _context(file)).hex()
    file.older = seal(subkey(key.keys[-1], "older keys"), b"".join(key.keys[:-1]), _context(file)).hex()
    file.announced = [_announcement(file, older) for older in key.keys[:-1]]
    replace_file(_group_path(folder, key.generation), [msgspec.json.encode(file) + b"\n"], disk)


def _generations(folder: Path) -> list[int]:
    """The generations of which a file lies in the folder, in order."""
    found = [match for name in names_in(folder) if (match := _GROUP_FILE.fullmatch(name))]
    return sorted({int(match[1] or 1) for match in found})


def _group_path(folder: Path, generation: int) -> Path:
    return folder / ("group.json" if generation == 1 else f"group.{generation}.json")


def _read_newest(folder: Path) -> _GroupFile:
    if not (generations := _generations(folder)):
        raise UnreadableGroup(f"{folder} has no group.json: wait until the folder has arrived, or begin a group there")
    return _read_group_file(folder, generations[-1])


def _read_group_file(folder: Path, generation: int) -> _GroupFile:
    path = _group_path(folder, generation)
    try:
        data = read_file(path, FILE_BYTES_MAX)
        found = msgspec.json.decode(data, type=_GroupVersion)
        if found.format != FORMAT:
            raise UnreadableGroup(f"{place(path)} has format {found.format}: a newer mnemod wrote it; update this one")
        file = msgspec.json.decode(data, type=_GroupFile)
        for value in (file.group, file.key, file.older, file.check, file.kdf.salt):
            bytes.fromhex(value)
    except FileNotFoundError:
        raise UnreadableGroup(f"{place(path)} is not here yet: wait until it has arrived") from None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise UnreadableGroup(f"{place(path)} is damaged or not yet complete: {error}") from None
    is_ours = file.kdf.name == "argon2id" and file.generation == generation
    is_bounded = 1 <= file.kdf.passes <= KDF_PASSES_MAX and 8192 <= file.kdf.memory_bytes <= KDF_MEMORY_MAX
    if not (is_ours and is_bounded and len(file.kdf.salt) == 2 * SALT_BYTES and len(file.group) == 2 * GROUP_BYTES):
        raise UnreadableGroup(f"{place(path)} is damaged: its values are none that a group is made with")
    return file


class _GroupVersion(msgspec.Struct):
    format: int


def _with_older(file: _GroupFile, newest: bytes) -> GroupKey:
    try:
        older = unseal(subkey(newest, "older keys"), bytes.fromhex(file.older), _context(file))
    except UnauthenticData:
        raise UnreadableGroup("the group file is damaged: its older keys are not authentic") from None
    keys = [older[start : start + KEY_BYTES] for start in range(0, len(older), KEY_BYTES)]
    return GroupKey(bytes.fromhex(file.group), (*keys, newest))


def _context(file: _GroupFile) -> bytes:
    """Bind a wrapped key to its group, generation and derivation."""
    cost = struct.pack(">III", file.generation, file.kdf.passes, file.kdf.memory_bytes)
    return b"mnemo group 1\0" + bytes.fromhex(file.group) + cost + bytes.fromhex(file.kdf.salt)


def _check(group: bytes, key: bytes) -> str:
    return hashlib.blake2b(group, key=subkey(key, "check"), digest_size=32).hexdigest()


def _announcement(file: _GroupFile, older: bytes) -> str:
    content = _context(file) + bytes.fromhex(file.key) + bytes.fromhex(file.older) + bytes.fromhex(file.check)
    return hashlib.blake2b(content, key=subkey(older, "announcement"), digest_size=32).hexdigest()


def _normal(passphrase: str) -> str:
    """The same characters however a keyboard composes them, without the line end of a prompt or a file."""
    return unicodedata.normalize("NFC", passphrase.strip("\r\n"))


ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_BLOCK = 5
_WEIGHTS = (1, 3, 5, 7, 9)  # odd: a change of one character always changes the sum modulo 32
_BYTES = 2 + KEY_BYTES
_CHARS = -(-_BYTES * 8 // 5)
_READ_AS = str.maketrans("ILO", "110")


class BadPairingCode(SyncError):
    """A code that was mistyped, or that belongs to another group."""


def encode_pairing_code(generation: int, key: bytes) -> str:
    """Return the code of a key: eleven blocks of six characters."""
    number = int.from_bytes(generation.to_bytes(2) + key) << (_CHARS * 5 - _BYTES * 8)
    chars = "".join(ALPHABET[number >> 5 * place & 31] for place in reversed(range(_CHARS)))
    blocks = [chars[start : start + _BLOCK] for start in range(0, _CHARS, _BLOCK)]
    return "-".join(block + _check_character(block, index) for index, block in enumerate(blocks))


def decode_pairing_code(code: str) -> tuple[int, bytes]:
    """Return generation and key of a code, however it is spaced. Raises BadPairingCode."""
    chars = "".join(code.upper().translate(_READ_AS).replace("-", " ").split())
    if wrong := sorted(set(chars) - set(ALPHABET)):
        raise BadPairingCode(f"a pairing code has no {' '.join(wrong)}: type it as it is shown")
    blocks = [chars[start : start + _BLOCK + 1] for start in range(0, len(chars), _BLOCK + 1)]
    for index, block in enumerate(blocks):
        if len(block) != _BLOCK + 1 or block[-1] != _check_character(block[:-1], index):
            raise BadPairingCode(f"block {index + 1} of the pairing code is mistyped: {block}")
    if len(blocks) != _CHARS // _BLOCK:
        raise BadPairingCode(f"a pairing code has {_CHARS // _BLOCK} blocks of {_BLOCK + 1} characters")
    number = 0
    for block in blocks:
        for char in block[:-1]:
            number = number << 5 | ALPHABET.index(char)
    data = (number >> (_CHARS * 5 - _BYTES * 8)).to_bytes(_BYTES)
    return int.from_bytes(data[:2]), data[2:]


def _check_character(block: str, index: int) -> str:
    total = sum(weight * ALPHABET.index(char) for weight, char in zip(_WEIGHTS, block, strict=True))
    return ALPHABET[(total + index) % 32]
