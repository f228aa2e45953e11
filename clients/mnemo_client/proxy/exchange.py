"""One request and its answer, copied while they pass, to be read after their end. SPEC 19

The copies are bounded, each by itself and all together: what is longer passes all the same, and is not read.
"""

import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mnemo_client.proxy.chat_formats import ChatFormat

BODY_BYTES_MAX = 8 << 20  # of a request or answer, also after its decompression
COPIES_BYTES_MAX = 64 << 20  # of all bodies that are copied at once
SkipReason = Literal[
    "opted_out", "first_request", "too_large", "busy", "encoding", "unreadable", "failed", "interrupted", "short",
    "inbox_full", "foreign",
]  # fmt: skip


@dataclass
class ProxyCounters:
    """The counts of a proxy since its start. `captured` counts turns that were put into windows, `skipped` requests
    and windows by reason; `outcomes` turns by what the daemon did with them."""

    passed: int = 0
    captured: int = 0
    injected: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    not_injected: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)

    def skip(self, reason: SkipReason) -> None:
        self.skipped[reason] += 1


class CopyBudget:
    """The bytes of all bodies that are being copied or wait to be read."""

    def __init__(self, most: int = COPIES_BYTES_MAX) -> None:
        self.free = most

    def take(self, count: int) -> bool:
        if count > self.free:
            return False
        self.free -= count
        return True


class BodyCopy:
    """A copy of a body while it passes; without one once it was too long (`lost` says why)."""

    def __init__(self, budget: CopyBudget) -> None:
        self._budget = budget
        self._pieces: list[bytes] = []
        self._size = 0
        self.lost: Literal["too_large", "busy"] | None = None

    def add(self, piece: bytes) -> None:
        if self.lost is not None:
            return
        if self._size + len(piece) > BODY_BYTES_MAX:
            self.drop("too_large")
        elif not self._budget.take(len(piece)):
            self.drop("busy")
        else:
            self._pieces.append(piece)
            self._size += len(piece)

    def drop(self, why: Literal["too_large", "busy"] | None = None) -> None:
        """Free the copy."""
        self._budget.free += self._size
        self._pieces, self._size, self.lost = [], 0, why

    def bytes(self) -> bytes:
        return b"".join(self._pieces)


class Exchange:
    """A request that is to be read, and the answer to it. `key` is the API key, which is never stored."""

    def __init__(self, kind: ChatFormat, headers: Mapping[str, str], budget: CopyBudget) -> None:
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        self.kind = kind
        self.key = headers.get("X-Api-Key", "") or (token.strip() if scheme.lower() == "bearer" else "")
        self.is_opted_out = headers.get("X-Mnemo-Extract", "").strip().lower() == "false"
        self.request_encoding = headers.get("Content-Encoding", "")
        self.request = BodyCopy(budget)
        self.answer = BodyCopy(budget)
        self.answer_encoding = ""
        self.answer_type = ""
        self.status = 0  # of the answer; 0: there was none
        self.is_complete = False  # the answer passed to its end

    def drop(self) -> None:
        self.request.drop()
        self.answer.drop()


def decoded(body: bytes, encoding: str) -> bytes | None:
    """Return a body without its compression, at most BODY_BYTES_MAX of it; None for an encoding that is not known, a
    body that is damaged, or one that is longer."""
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip" | "x-gzip":
            bits = 16 + zlib.MAX_WBITS
        case "deflate":
            bits = zlib.MAX_WBITS
        case _:
            return None
    try:
        reader = zlib.decompressobj(bits)
        text = reader.decompress(body, BODY_BYTES_MAX)
    except zlib.error:
        return None
    return text if reader.eof else None
