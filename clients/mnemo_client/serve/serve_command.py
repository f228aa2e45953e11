"""The command `mnemo serve`. SPEC 20"""

import asyncio
import json
import os
import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mnemo_client import loopback
from mnemo_client.errors import UsageError
from mnemo_client.paths import socket_path
from mnemo_client.serve import engram_routes, mem0_routes
from mnemo_client.serve.compatible_server import CompatibleServer, ServedRoute

if TYPE_CHECKING:
    from mnemo_client.cli.context import CommandContext

TOKEN_CHARS_MIN = 16


def require_kind(context: "CommandContext") -> int:
    """Raise UsageError: the command alone serves nothing."""
    raise UsageError("name what to serve", "mnemo serve mem0, or mnemo serve engram")


def _serve(context: "CommandContext", routes: Sequence[ServedRoute], error_field: str, agent: str) -> None:
    given = context.options.token_file
    token = secrets.token_urlsafe(24) if given is None else _kept_token(context.cwd / given)
    namespace = context.client().namespace  # which also starts the daemon
    with loopback.bind(context.options.port) as bound:
        server = CompatibleServer(
            bound.getsockname()[1], token, socket_path(context.environ), namespace, routes, error_field, agent
        )

        def started() -> None:
            shown = {"address": loopback.address_of(bound), "token": token}
            context.print(json.dumps(shown) if context.wants_json else "\n".join(shown.values()))
            context.terminal.flush()

        asyncio.run(loopback.serve(server.app, bound, started=started))


serve_mem0 = partial(_serve, routes=mem0_routes.ROUTES, error_field="detail", agent="mem0")
serve_engram = partial(_serve, routes=engram_routes.ROUTES, error_field="error", agent="engram")


def _kept_token(path: Path) -> str:
    """Return the token in a file, which is made where it is not there, for this user alone. Raises UsageError."""
    try:
        if not path.exists():
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(f"{secrets.token_urlsafe(24)}\n")
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as failed:
        raise UsageError(f"the token cannot be read from {path}: {failed}", "choose another --token-file") from failed
    if len(token) < TOKEN_CHARS_MIN or not token.isascii():
        raise UsageError(f"the token in {path} must have at least {TOKEN_CHARS_MIN} ASCII characters")
    return token
