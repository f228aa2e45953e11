"""Delivers the windows that wait in the inbox of the proxy to the daemon. SPEC 19"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mnemo_client.cli.agent_hooks.inbox import HookInbox, entries_of
from mnemo_client.client import Client
from mnemo_client.errors import InvalidAnswerError, MnemoError, RefusalError
from mnemo_client.paths import run_folder
from mnemo_client.protocol.ingestion import PieceAnswer, Turn, TurnsRequest

FOLDER_NAME = "proxy"  # below the run folder
AGENT = "proxy"  # by this name the daemon knows that no person asks: it shows nothing that is sensitive
ANSWER_SECONDS_MAX = 60.0  # for one window
FINAL_REFUSALS = frozenset({400, 404, 413, 422})  # would be the same at the next attempt
# Of a turn that may be taken later
PASSING_CODES = frozenset({"busy", "degraded", "disk_full", "outcome_unknown", "stopping", "write_failed"})


def proxy_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the proxy's salt, watermarks and inbox."""
    return run_folder(environ) / FOLDER_NAME


def inbox_of(environ: Mapping[str, str]) -> HookInbox:
    return HookInbox(proxy_folder(environ) / "inbox")


def deliver(socket: Path, inbox: HookInbox, outcomes: Counter[str]) -> None:
    """Deliver every window, the oldest first, and count the outcomes of their turns.

    Raises MnemoError if the daemon cannot take one now: it stays with those after it.
    """
    waiting = list(entries_of(inbox))
    if not waiting:
        return
    with Client(socket, timeout=ANSWER_SECONDS_MAX, agent=AGENT) as client:
        for path, entry in waiting:
            try:
                outcomes.update(_deliver_window(client, entry))
            except RefusalError as refused:
                if refused.status not in FINAL_REFUSALS:
                    raise
                inbox.refuse(path)
                outcomes["refused"] += 1
            except (msgspec.ValidationError, TypeError, KeyError):
                inbox.refuse(path)
                outcomes["refused"] += 1
            else:
                path.unlink(missing_ok=True)


def _deliver_window(client: Client, entry: Mapping[str, Any]) -> Counter[str]:
    turns = msgspec.convert(entry["turns"], list[Turn])
    answer = client.turns(
        TurnsRequest(
            session_id=entry["session_id"], turns=turns, source="proxy", infer=True, namespace=entry["namespace"]
        )
    )
    outcomes: Counter[str] = Counter()
    for each in answer.results:
        if isinstance(each, PieceAnswer):
            outcomes[each.outcome] += 1
            continue
        code = _code_of(each)
        if code in PASSING_CODES:
            raise MnemoError(f"the daemon could not store a turn: {code}", "see its state: mnemo status")
        outcomes["refused"] += 1
    return outcomes


def _code_of(refused: msgspec.Raw) -> str:
    try:
        return str(msgspec.json.decode(refused)["error"]["code"])
    except (msgspec.DecodeError, KeyError, TypeError):
        raise InvalidAnswerError("a result of the daemon's answer cannot be read") from None
