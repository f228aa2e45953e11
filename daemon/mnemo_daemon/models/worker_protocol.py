"""The messages between the daemon and the process of a model, and what such a process does at its start. SPEC 12.1

The process imports this module: it must not import anything of the daemon."""

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

GGUF_MAGIC = b"GGUF"
FRAME_HEAD_BYTES = 4
FRAME_BYTES_MAX = 1024 * 1024  # of a message: more than any prompt that fits a context, little enough for memory


class ModelRefusal(msgspec.Struct, tag="refusal"):
    """No answer. After `unusable` the worker ends; after the others the model takes the next Prompt."""

    code: Literal["unusable", "late", "cancelled", "too_long", "failed"]
    reason: str


class BrokenFrame(ValueError):
    """The length of a frame is one that no message has."""


def to_frame(message: msgspec.Struct) -> bytes:
    """Return the message as a frame."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(FRAME_HEAD_BYTES, "big") + body


def take_frame(received: bytearray) -> bytes | None:
    """Take the first whole frame out of received and return its body; None while it is incomplete. Raises BrokenFrame
    for a length that no message has."""
    if len(received) < FRAME_HEAD_BYTES:
        return None
    length = int.from_bytes(received[:FRAME_HEAD_BYTES], "big")
    if not 0 < length <= FRAME_BYTES_MAX:
        raise BrokenFrame(f"a message of {length} bytes was announced; the limit is 1 to {FRAME_BYTES_MAX}")
    end = FRAME_HEAD_BYTES + length
    if len(received) < end:
        return None
    body = bytes(received[FRAME_HEAD_BYTES:end])
    del received[:end]
    return body


def messages(kind: Any) -> Iterator[Any]:
    """The messages of a union that come in by standard input, until it closes."""
    received = bytearray()
    while data := os.read(sys.stdin.fileno(), FRAME_BYTES_MAX):
        received += data
        while (body := take_frame(received)) is not None:
            yield msgspec.msgpack.decode(body, type=kind)


def claim_stdout() -> int:
    """Return the descriptor to write messages to; from now on, what a library prints goes to standard error."""
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return out


def forbid_network(event: str, _arguments: tuple[object, ...]) -> None:
    """Refuse every use of sockets, as an audit hook: prompts come over a descriptor that is open already."""
    if event.startswith("socket."):
        raise PermissionError(f"the language model's process uses no network: {event}")


def check_file(model: Path, sha256: str) -> None:
    """Raises ValueError unless model begins like a GGUF file and has the sha256, if one is given. Parsers of this
    format have had security holes, so nothing of the file is parsed before."""
    with model.open("rb") as file:
        if file.read(len(GGUF_MAGIC)) != GGUF_MAGIC:
            raise ValueError(f"{model} is not a GGUF file")
        file.seek(0)
        if sha256 and (found := hashlib.file_digest(file, "sha256").hexdigest()) != sha256:
            raise ValueError(f"{model} has sha256 {found}, expected {sha256}")


def available_cpus() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def send(out: int, reply: msgspec.Struct) -> None:
    """Write a message; return when the parent's side has all of it."""
    view = memoryview(to_frame(reply))
    while view:
        view = view[os.write(out, view) :]
