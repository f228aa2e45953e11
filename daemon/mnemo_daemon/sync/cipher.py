"""Authenticated encryption and keys from passphrases, by libsodium (PyNaCl, extra `sync`). SPEC 21.1

XChaCha20-Poly1305 has nonces of 192 bits: devices that share a key and know nothing of each other may draw them at
random. PyNaCl is imported by the first call. ADR 0018
"""

import hashlib
import importlib.util
from typing import NamedTuple

KEY_BYTES = 32
SALT_BYTES = 16
OVERHEAD_BYTES = 24 + 16
"""Nonce and tag: the bytes by which what is sealed is longer."""

KDF_PASSES_MAX = 16
KDF_MEMORY_MAX = 1 << 30
"""Limits of the cost that a file in the folder may ask for: it may have been written by somebody else."""


class SyncError(Exception):
    """Something in the shared folder is not as it should be; the message says what, and what helps."""


class UnauthenticData(SyncError):
    """Bytes that nobody with the key has sealed for this place."""


class PassphraseCost(NamedTuple):
    """The cost of deriving a key from a passphrase, by Argon2id."""

    passes: int = 3
    memory_bytes: int = 256 << 20  # as libsodium suggests for keys that are derived at a person's request


def is_installed() -> bool:
    """True if the extra `sync` is installed. Does not load it."""
    return importlib.util.find_spec("nacl") is not None


def seal(key: bytes, plain: bytes, context: bytes) -> bytes:
    """Return plain encrypted under a random nonce, which comes first; only the same context opens it."""
    from nacl.secret import Aead

    return bytes(Aead(key).encrypt(plain, context))


def unseal(key: bytes, sealed: bytes, context: bytes) -> bytes:
    """Return what was sealed with this key for this context. Raises UnauthenticData."""
    from nacl.exceptions import CryptoError
    from nacl.secret import Aead

    if len(sealed) < OVERHEAD_BYTES:
        raise UnauthenticData("too short to be authentic")
    try:
        return Aead(key).decrypt(sealed, context)
    except CryptoError:
        raise UnauthenticData("not authentic: changed, of another place, or of another key") from None


def subkey(key: bytes, purpose: str) -> bytes:
    """Return the key for one purpose, so that what is sealed for one cannot be opened for another."""
    return hashlib.blake2b(purpose.encode(), key=key, digest_size=KEY_BYTES).digest()


def passphrase_key(passphrase: str, salt: bytes, cost: PassphraseCost) -> bytes:
    """Return the key of a passphrase; takes the time and the memory that cost names."""
    from nacl.pwhash import argon2id

    words = passphrase.encode()
    return argon2id.kdf(KEY_BYTES, words, salt, opslimit=cost.passes, memlimit=cost.memory_bytes)
