"""Checks of who asks."""

from mnemo_daemon.api.wire_codec import trust_of
from mnemo_daemon.errors import Refusal
from mnemo_daemon.server.router import Request


def refuse_agents(request: Request) -> None:
    """Raise a Refusal unless a person asks: for what gives up history, erases, repairs or copies everything."""
    if trust_of(request, None) != "user":
        raise Refusal(422, "refused", "only a person may ask for this: use the command line")
