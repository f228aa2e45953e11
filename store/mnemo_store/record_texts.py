"""Texts of records: their normal form, their hashes and digests, and what is embedded for a memory. SPEC 2.3, 5.5"""

import hashlib
import unicodedata
import uuid
from collections.abc import Sequence

from mnemo_store.records import Memory

_ROLE_NAMES = {"user": "User", "agent": "Agent"}


def normalized_text(content: str) -> str:
    """The normalized text by which contents are compared: NFC, case-folded, white space as one space. SPEC 5.5 [E]"""
    return " ".join(unicodedata.normalize("NFC", content).casefold().split())


def content_hash(content: str) -> bytes:
    """A 16-byte hash that is equal exactly for contents whose normalized texts are equal."""
    return hashlib.blake2b(normalized_text(content).encode(), digest_size=16).digest()


def decision_digest(contents: Sequence[str]) -> str:
    """The digest in a decision on memories with these contents."""
    return hashlib.blake2b(b"".join(map(content_hash, contents)), digest_size=16).hexdigest()


def skip_hash(salt: str, content: str) -> str:
    """The salted hash in Skip and ErasedText for a text that a person deleted; the salt is hexadecimal and prevents
    guessing. Case and spacing make no difference, so that a reflowed paragraph is recognised."""
    return hashlib.blake2b(content_hash(content), key=bytes.fromhex(salt), digest_size=16).hexdigest()


def session_key(namespace: str, user_id: str, session_id: str) -> str:
    """The id of a session's record: a hash in the form of a UUID."""
    scope = "\0".join((namespace, user_id, session_id)).encode()
    return str(uuid.UUID(bytes=hashlib.blake2b(scope, digest_size=16).digest()))


def embedded_text(memory: Memory) -> str:
    """The exact text that is embedded for this memory. SPEC 2.3

    Chunks of notes: `title > heading > …`, then the chunk. Everything else: the content alone.
    """
    if memory.note is None:
        return memory.content
    trail = " > ".join((memory.note.title, *memory.note.headings))
    return f"{trail}\n{memory.content}" if trail else memory.content


def pair_text(turns: Sequence[Memory]) -> str:
    """The exact text that is embedded for a pair of turns, one line each: `User: …`, `Agent: …`. SPEC 8 [T]"""
    return "\n".join(turn_line(turn, turn.content) for turn in turns)


def turn_line(turn: Memory, text: str) -> str:
    """A text of a turn behind the name of the turn's side."""
    return f"{_ROLE_NAMES[turn.turn.role if turn.turn else 'user']}: {text}"


def text_hash(text: str) -> bytes:
    """A 16-byte hash of the exact embedded text."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
