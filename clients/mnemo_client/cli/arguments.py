"""Arguments of commands: times, and memories named by an id or by their number in the last answer."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from mnemo_client import process
from mnemo_client.cli.command_table import OPTION_FIELDS
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.answers import best_line
from mnemo_client.cli.format.records import choice_lines
from mnemo_client.cli.format.units import SHORT_ID_DIGITS
from mnemo_client.cli.terminal import TextStyle
from mnemo_client.errors import NotFoundError, RefusalError, UsageError
from mnemo_client.path_safety import replace_file
from mnemo_client.paths import run_folder
from mnemo_client.protocol.memories import MemoryView

if TYPE_CHECKING:
    from mnemo_client.client import Client


_TIME_FIELDS = frozenset({"since", "until", "as_of", "now", "event_at", "expires_at"})
_NO_OPTIONS = frozenset({"id", "namespace", "query", "question"})
LAST_FILE = "last.json"
HIT_NUMBER_DIGITS_MAX = 3  # ids need 8 digits or more, so a short number is a place in the last answer


def time_argument(text: str | None) -> int | str | None:
    """Return a whole number with more digits than a year as ms since the epoch, any other text unchanged."""
    if text is not None and text.lstrip("-").isdigit() and len(text) > 4:
        return int(text)
    return text


def request_fields(options: SimpleNamespace, request: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the fields of a request that the options of a command name, each as the request has it.

    A field has the option of its own name, else that of OPTION_FIELDS. The words are no option, and the namespace goes
    into a header. Raises UsageError for an option that contradicts another.
    """
    fields: dict[str, Any] = {}
    aliases = {"limit"} if "top_k" in request.__struct_fields__ else set()
    for field in request.__struct_fields__:
        option = field if hasattr(options, field) else OPTION_FIELDS.get(field, field)
        value = getattr(options, option, None)
        if field not in _NO_OPTIONS | aliases and value is not None and value is not False and value != []:
            fields[field] = time_argument(value) if field in _TIME_FIELDS else value
        if getattr(options, f"no_{field}", False):
            if value:
                raise UsageError(f"--{field} and --no-{field} exclude each other")
            fields[field] = False
    if "token_budget" in fields:
        fields["token_budget"] = fields["token_budget"] or None
    return fields


def save_hit_numbers(context: CommandContext, memories: Sequence[MemoryView], first: int) -> None:
    """Save which memory has which number in the last answer, for `open`, `show`, `edit` and `rm`.

    The file is readable by its owner only.
    """
    hits = {
        str(number): {
            "id": memory.id,
            "path": memory.note.path if memory.note is not None else None,
            "line": best_line(memory),
        }
        for number, memory in enumerate(memories, first)
    }
    folder = run_folder(context.environ)
    try:
        process.make_private_folder(folder)
        replace_file(folder / LAST_FILE, json.dumps(hits).encode())
    except OSError as failed:
        context.message(f"the numbers of this answer could not be saved for `mnemo open`: {failed.strerror}")


def numbered_hit(context: CommandContext, number: int) -> dict[str, Any]:
    """Return the hit of that number in the last answer: `id`, `path`, `line`. Raises NotFoundError."""
    try:
        text = (run_folder(context.environ) / LAST_FILE).read_text(encoding="utf-8")
        hits: dict[str, dict[str, Any]] = json.loads(text)
    except (OSError, ValueError):
        hits = {}
    if not hits:
        raise NotFoundError("there is no last answer", "ask first: mnemo recall WORDS")
    if str(number) not in hits:
        numbers = sorted(map(int, hits))
        raise NotFoundError(f"the last answer has no number {number}", f"it has {numbers[0]} to {numbers[-1]}")
    return hits[str(number)]


def memory_id_argument(context: CommandContext, text: str) -> str:
    """Return the id that was given, or that of a numbered result of the last answer."""
    text = text.strip().lstrip("…")
    if text.isdigit() and len(text) <= HIT_NUMBER_DIGITS_MAX:
        return str(numbered_hit(context, int(text))["id"])
    if len(text.replace("-", "")) < SHORT_ID_DIGITS:
        raise UsageError(f"{text!r} is too short for an id", f"give at least {SHORT_ID_DIGITS} of its digits")
    return text


@contextmanager
def list_candidates(client: "Client") -> Iterator[None]:
    """Turn the refusal of an ambiguous id into an error that lists the candidates, a line each."""
    try:
        yield
    except RefusalError as error:
        if not error.candidates:
            raise
        lines = choice_lines([client.get(each) for each in error.candidates], TextStyle())
        subject = error.message.partition(" could be ")[0]
        raise UsageError("\n".join([f"{subject} could be", *lines]), "give one of these, or more digits") from error
