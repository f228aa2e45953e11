"""The rules by which a server on loopback TCP refuses what a web page of another site sends. SPEC 13, 18

Any page that a browser shows can have it send requests to 127.0.0.1. A browser says truly whom it asks (Host) and for
whom (Origin, Sec-Fetch-Site); a name that was rebound to 127.0.0.1 gives itself away by the Host.
"""

import hmac
from collections.abc import Mapping
from typing import NamedTuple

SINGLE_HEADERS = ("Origin", "Sec-Fetch-Site", "Authorization")  # each decides; a second one could say otherwise
SAFE_FETCH_SITES = ("same-origin", "none")  # of Sec-Fetch-Site


class RequestHead(NamedTuple):
    """The parts of a request that decide whether it may pass. `target_host` is the host that counts for HTTP."""

    headers: Mapping[str, str]
    hosts: list[str]
    target_host: str


class LoopbackFault(NamedTuple):
    """The refusal of a request: the answer's status and error, and the header at fault."""

    status: int
    code: str
    message: str
    field: str


def hosts_of(port: int) -> frozenset[str]:
    """Return the values of Host that a server on this port of the loopback answers to."""
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


def fault_of(head: RequestHead, hosts: frozenset[str]) -> LoopbackFault | None:
    """Return why a server with these hosts must not answer the request; None if it may."""
    if len(head.hosts) != 1 or head.hosts[0] not in hosts or head.target_host != head.hosts[0]:
        names = ", ".join(sorted(hosts))
        return LoopbackFault(421, "misdirected", f"this server is none of that Host; it is {names}", "Host")
    given = [name.lower() for name, _ in head.headers.items()]
    for name in SINGLE_HEADERS:
        if (count := given.count(name.lower())) > 1:
            return LoopbackFault(403, "forbidden", f"{count} headers {name}: send one at most", name)
    origin = head.headers.get("Origin")
    if origin is not None and origin != f"http://{head.hosts[0]}":
        return LoopbackFault(403, "forbidden", "no page of another origin may ask this server", "Origin")
    if head.headers.get("Sec-Fetch-Site", "none") not in SAFE_FETCH_SITES:
        return LoopbackFault(403, "forbidden", "no page of another site may ask this server", "Sec-Fetch-Site")
    return None


def shows_token(header: str, token: str, schemes: tuple[str, ...] = ("bearer",)) -> bool:
    """Return whether the value of an Authorization header shows the token, compared in constant time."""
    scheme, _, shown = header.partition(" ")
    is_right = hmac.compare_digest(shown.strip().encode("utf-8", "surrogateescape"), token.encode())
    return is_right and scheme.lower() in schemes
