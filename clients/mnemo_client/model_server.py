"""The address of a model server: on this machine, or on the one host besides it that the user allows. SPEC 19"""

import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit

from mnemo_client.errors import UsageError


class RemoteRedirectError(Exception):
    """The model server redirects to another host; the message is its name."""


class Upstream(NamedTuple):
    """A model server: `http://127.0.0.1:11434`, with the beginning of its paths if it has one."""

    scheme: str
    authority: str
    path: str = ""
    remote: str = ""  # the name of its host; "" for this machine

    @property
    def address(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    def location(self, value: str) -> str:
        """Return the target of a redirect as the client may have it: relative if it is on the model server.

        Raises RemoteRedirectError for one that leads to another host than this machine.
        """
        try:
            parts = urlsplit(value.strip().replace("\\", "/"))
            host = parts.hostname
        except ValueError:
            raise RemoteRedirectError(value) from None
        if not parts.netloc:
            return value
        if parts.netloc == self.authority and parts.scheme in ("", self.scheme):
            rest = value.strip().replace("\\", "/").split("//", 1)[1]
            return rest[len(parts.netloc) :] if "/" in rest else "/"
        if host is None or not is_loopback(host):
            raise RemoteRedirectError(host or value)
        return value


def read_upstream(text: str | None, allowed: str | None = None) -> Upstream:
    """Return the model server at an address. `allowed`: the one host besides this machine that it may be on.

    Raises UsageError, also without an address.
    """
    if not text:
        raise UsageError("there is no model server to pass to", "name it: --upstream http://127.0.0.1:11434")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("http", "https"):
        raise UsageError(f"{text} is no address of a model server", "give one such as http://127.0.0.1:11434")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            f"{parts.scheme}://{host} must be given without user, password, query and fragment",
            "give one such as http://127.0.0.1:11434; programs send their own keys",
        )
    is_here = is_loopback(host)
    if not is_here and host != (allowed or "").lower():
        raise UsageError(
            f"{host} is not this machine: what programs say to the model would leave it",
            f"if that is what you want: --allow-remote {host}",
        )
    return Upstream(parts.scheme, parts.netloc, parts.path.rstrip("/"), "" if is_here else host)


def is_loopback(host: str) -> bool:
    """Return True for an address of loopback and for `localhost`; no other name is looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
