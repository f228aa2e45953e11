"""The command that talks with memories: chat."""

import contextlib
import uuid
from collections.abc import Iterator

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.answers import chat_lines
from mnemo_client.cli.terminal import sanitize
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED, RefusalError

PROMPT = "> "
ENDS = ("/quit", "/exit", "/bye", "/q")  # a line of a chat that ends it, as the end of the input does


def chat(context: CommandContext) -> int:
    """Reply to each line of standard input from memories alone, remember both, and end the session at the end."""
    client, session = context.client(), context.options.session or f"chat-{uuid.uuid4()}"
    has_begun = has_failed = False
    try:
        for message in _messages(context):
            try:
                answer = client.chat(session, message, speaker=context.options.speaker)
            except RefusalError as error:  # of a message that is too long, or while the daemon is busy
                context.message(sanitize(str(error)))
                has_failed = True
                continue
            has_begun = True
            if not context.print_json_if_asked():
                context.print(*chat_lines(answer, context.style, context.cwd, context.home))
            context.terminal.flush()
    finally:
        if has_begun:
            with contextlib.suppress(RefusalError):  # nothing of it was worth storing: there is no session
                client.end_session(session)
    return EXIT_FAILED if has_failed else EXIT_DONE


def _messages(context: CommandContext) -> Iterator[str]:
    """Yield the lines of standard input that are not blank, up to one of ENDS; on a terminal, each after a prompt."""
    while True:
        if context.has_terminal:
            context.terminal.out.write(PROMPT)
            context.terminal.flush()
        line = context.stdin.readline()
        if not line:
            return
        if line.strip().lower() in ENDS:
            return
        if line.strip():
            yield line.strip()
