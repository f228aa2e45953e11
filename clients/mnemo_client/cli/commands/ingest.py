"""The commands that store or classify many memories at once: ingest, turns, reclassify."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mnemo_client.cli.arguments import request_fields
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.answers import degraded_text
from mnemo_client.cli.format.records import explanation_lines, reason_text
from mnemo_client.cli.format.units import number_text, short_id
from mnemo_client.cli.terminal import TextStyle, clip, sanitize
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED, UsageError
from mnemo_client.protocol.ingestion import (
    IngestAnswer,
    IngestRequest,
    PieceAnswer,
    ReclassifyRequest,
    Turn,
    TurnsRequest,
)

SHOWN_MAX = 20  # rejected pieces or reclassified memories; --json has all
PIECE_CELLS = 60  # of a piece in a list
TURNS_A_REQUEST = 1000
SOURCE_CHARS_MAX = 64
INGEST_BYTES_MAX = 31 << 20  # of a text: the daemon's body limit of 32 MiB (SPEC 16), less what JSON adds

_OUTCOME_LABELS = (
    ("stored", "stored"),
    ("updated", "updated"),
    ("merged", "merged into a known memory"),
    ("repeats", "stored although already known in other words"),
    ("duplicate", "already known"),
    ("discarded", "rejected"),
)


def ingest(context: CommandContext) -> int:
    """Store each file as a text of its own; without a file, standard input."""
    client = context.client()
    worst = EXIT_DONE
    for name in context.options.file or ["-"]:
        text = _read(context, name)
        fields: dict[str, Any] = {"wait": context.wait_for_statements}
        if name != "-":
            fields["source"] = Path(name).name[-SOURCE_CHARS_MAX:]
            fields["evidence"] = [str(Path(name).expanduser().resolve())]
        request = IngestRequest(text=text, **fields | request_fields(context.options, IngestRequest))
        worst = max(worst, _report(context, name, client.ingest(request)))
    return worst


def turns(context: CommandContext) -> int:
    """Store a conversation of one JSON object a line: role (user or agent), content, and optionally speaker and at."""
    options = context.options
    text = _read(context, options.file)
    parsed = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            parsed.append(msgspec.json.decode(line, type=Turn))
        except msgspec.DecodeError as wrong:
            message = str(wrong)
            if isinstance(wrong, msgspec.ValidationError):
                from mnemo_client.protocol import validation

                message = validation.explain(wrong, Turn, msgspec.json.decode(line)).message
            hint = 'a line is {"role": "user", "content": "…"}, optionally with "speaker" and "at"'
            raise UsageError(f"{options.file}:{number}: {message}", hint) from wrong
    client = context.client()
    worst = EXIT_DONE
    for start in range(0, len(parsed), TURNS_A_REQUEST):
        part = parsed[start : start + TURNS_A_REQUEST]
        request = TurnsRequest(turns=part, **request_fields(options, TurnsRequest))
        worst = max(worst, _report(context, options.file, client.turns(request)))
    return worst


def reclassify(context: CommandContext) -> None:
    options = context.options
    answer = context.client().reclassify(ReclassifyRequest(dry_run=options.dry_run))
    if context.print_json_if_asked():
        return
    for row in answer.changes[:SHOWN_MAX]:
        changes = ", ".join(
            f"{name} {_value(row.before.get(name))} -> {_value(value)}" for name, value in row.after.items()
        )
        why = context.style.dim(f"({sanitize(row.why)})")
        context.print(f"{context.style.location(short_id(row.id))}  {_excerpt(row.content)}\n{' ' * 10}{changes} {why}")
    if answer.changed > SHOWN_MAX:
        context.message(f"and {answer.changed - min(SHOWN_MAX, len(answer.changes))} more: --json shows up to 500")
    would = "would be changed" if answer.dry_run else "changed"
    context.print(
        f"{number_text(answer.looked_at)} checked, {number_text(answer.changed)} {would}, "
        f"{number_text(answer.left)} kept as a person set them"
    )
    if answer.group is not None:
        context.message(f"undo this with: mnemo undo --group {answer.group}")


def _read(context: CommandContext, name: str) -> str:
    """Return a file's text, or that of standard input for `-`. Raises UsageError if it cannot be read."""
    if name == "-":
        return context.text(["-"], "ingest", bytes_max=INGEST_BYTES_MAX)
    try:
        text = Path(name).expanduser().read_bytes().decode()
    except OSError as failed:
        raise UsageError(f"{name} cannot be read: {failed.strerror}", "name a text file") from failed
    except UnicodeDecodeError as wrong:
        raise UsageError(f"{name} is not UTF-8 text (byte {wrong.start})", "name a text file") from wrong
    if not text.strip():
        raise UsageError(f"there is no text in {name}")
    if len(text.encode()) > INGEST_BYTES_MAX:
        raise UsageError(f"{name} has more than {INGEST_BYTES_MAX} bytes", "ingest it in parts, or watch its folder")
    return text


def _report(context: CommandContext, name: str, answer: IngestAnswer) -> int:
    """Print the outcome of each piece; return exit code 1 if all of them were refused."""
    refused = [item for item in answer.results if not isinstance(item, PieceAnswer)]
    if not context.print_json_if_asked():
        context.print(*_ingest_lines(name, answer, context.style))
        for item in refused[:SHOWN_MAX]:
            context.message(f"refused: {json.loads(bytes(item))['error']['message']}")
        if answer.group is not None:
            context.message(f"undo this with: mnemo undo --group {answer.group}")
    return EXIT_FAILED if refused and len(refused) == len(answer.results) else EXIT_DONE


def _ingest_lines(name: str, answer: IngestAnswer, style: TextStyle) -> Iterator[str]:
    taken = [item for item in answer.results if isinstance(item, PieceAnswer)]
    counts = [f"{number_text(answer.counts[key])} {words}" for key, words in _OUTCOME_LABELS if answer.counts.get(key)]
    where = "" if name == "-" else f"{sanitize(name)}: "
    parts = [f"{where}{style.good(', '.join(counts) or 'nothing in it to remember')}", f"namespace {answer.namespace}"]
    masked = sorted({kind for item in taken for kind in item.masked})
    if masked:
        parts.append(style.warn(f"masked: {sanitize(', '.join(masked))}"))
    if answer.degraded:
        parts.append(style.warn(degraded_text(answer.degraded, None)))
    yield style.dim(" · ").join(parts)
    aside = [item for item in taken if item.outcome == "discarded"]
    for item in aside[:SHOWN_MAX]:
        shown = "" if item.memory is None else f"{short_id(item.memory.id)}  {_excerpt(item.memory.content)}"
        why = style.dim(f"({reason_text(item.reason or '')})")
        yield f"  {style.dim('rejected')}  {shown} {why}"
    if len(aside) > SHOWN_MAX:
        yield f"  {style.dim(f'and {len(aside) - SHOWN_MAX} more')}"
    if aside:
        yield style.dim(
            "  list them for 30 days with: mnemo trash --set-aside; restore one with: mnemo trash restore ID"
        )
    for item in taken:
        if item.explained is not None and item.memory is not None:
            yield f"{style.location(short_id(item.memory.id))}  {item.outcome}  {_excerpt(item.memory.content)}"
            yield from explanation_lines(item, style)


def _excerpt(content: str) -> str:
    line = next((line.strip() for line in content.splitlines() if line.strip()), "")
    return clip(sanitize(line), PIECE_CELLS)


def _value(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
