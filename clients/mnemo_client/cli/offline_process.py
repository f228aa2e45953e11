"""Runs `python -m mnemo_daemon.offline`, the commands that need no daemon, as a child process. SPEC 14."""

import json
import subprocess
import sys
from typing import Any

from mnemo_client.cli.context import CommandContext
from mnemo_client.errors import MnemoError


def run_offline(context: CommandContext, *words: str) -> dict[str, Any]:
    """Run one of its commands and return the answer; its progress is shown meanwhile. Raises MnemoError."""
    context.terminal.flush()
    ended = subprocess.run(
        [sys.executable, "-m", "mnemo_daemon.offline", *words, "--json"],
        check=False,
        env=dict(context.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        answer: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        raise MnemoError(f"{words[0]} ended with code {ended.returncode}") from None
    if error := answer.get("error"):
        raise MnemoError(str(error["message"]), str(error.get("hint") or ""))
    return answer
