"""One request and its answer: their headers, and copies of their bodies, which are read after their end. SPEC 19

The copies are bounded, each by itself and all together: what is longer passes all the same, and is not read. Headers
that are meant for one connection alone (RFC 9110, 7.6.1) are taken out, and every other one is passed on as it came.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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


# Headers


# RFC 9110, 7.6.1 and 7.8; RFC 9112, 6.1; and two that only ever were of a connection
HOP_BY_HOP = frozenset({
    "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade",
})  # fmt: skip
OWN_HEADERS = frozenset({"x-mnemo-extract", "x-mnemo-context"})
# Answered by the server of the proxy itself, or made for the connection to the model server
_RENEWED = frozenset({"host", "expect", "via"})

Header = tuple[str, str]


def end_to_end(raw: Iterable[tuple[bytes, bytes]]) -> Iterator[Header]:
    """Yield the headers that are meant for the other end, in their order, as they were spelled."""
    headers = [(name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in raw]
    listed = [value for name, value in headers if name.lower() == "connection"]
    named = {option.strip().lower() for value in listed for option in value.split(",")}
    for name, value in headers:
        if name.lower() not in HOP_BY_HOP and name.lower() not in named:
            yield name, value


def request_headers(raw: Iterable[tuple[bytes, bytes]], via: str, *, sends_length: bool = True) -> list[Header]:
    """Return the headers of a request to the model server, without Host, with the proxy in Via. RFC 9110, 7.6.3"""
    raw = list(raw)
    left_out = OWN_HEADERS | _RENEWED | (frozenset() if sends_length else {"content-length"})
    headers = [(name, value) for name, value in end_to_end(raw) if name.lower() not in left_out]
    passed = [value.decode("latin-1") for name, value in raw if name.lower() == b"via"]
    return [*headers, ("Via", ", ".join([*passed, f"1.1 {via}"]))]


def has_passed(raw: Iterable[tuple[bytes, bytes]], via: str) -> bool:
    """Return True if a request went through the proxy of this name before."""
    passed = ",".join(value.decode("latin-1") for name, value in raw if name.lower() == b"via")
    return any(hop.split()[1:2] == [via] for hop in passed.split(","))
