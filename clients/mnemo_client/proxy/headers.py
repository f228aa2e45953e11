"""The headers of requests to the model server and of its answers. SPEC 19

A proxy takes out what is meant for one connection alone (RFC 9110, 7.6.1), and passes on every other header as it came.
"""

from collections.abc import Iterable, Iterator

# RFC 9110, 7.6.1 and 7.8; RFC 9112, 6.1; and two that only ever were of a connection
HOP_BY_HOP = frozenset({
    "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade",
})  # fmt: skip
OWN_HEADERS = frozenset({"x-mnemo-extract", "x-mnemo-context"})
# Answered by the server of the proxy itself, or made anew for the connection to the model server
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
