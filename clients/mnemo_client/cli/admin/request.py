"""`mnemo api`: a request to any route of the daemon. clients/docs/http.md lists the routes."""

import json

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.terminal import escape_json, sanitize
from mnemo_client.errors import EXIT_DONE, RefusalError, UsageError
from mnemo_client.protocol.primitives import API_VERSION

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def call(context: CommandContext) -> int:
    """Send one request and print the body of the answer, also if it is an error."""
    options = context.options
    method = options.method.upper()
    if method not in METHODS:
        raise UsageError(f"{options.method!r} is not a method", f"the methods are: {', '.join(METHODS)}")
    body = None if options.data is None else context.text([options.data], "send").encode()
    client = context.client()
    path = "/" + options.path.lstrip("/").removeprefix(f"{API_VERSION}/")
    try:
        for piece in client.call(method, path, body):
            context.print(_shown(context, piece))
    except RefusalError as error:
        context.print(client.last_body.decode(errors="replace").rstrip("\n"))
        context.terminal.error(error.message, error.hint)
        return error.exit_code
    return EXIT_DONE


def _shown(context: CommandContext, line: bytes) -> str:
    """Return JSON indented if a person reads it; otherwise, and for anything else, the line as it is."""
    text = line.decode(errors="replace")
    if not context.is_for_terminal:
        return text
    try:
        return escape_json(json.dumps(json.loads(text), indent=2, ensure_ascii=False))
    except ValueError:
        return sanitize(text, lines=True)
