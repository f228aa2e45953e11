"""The commands about changes: history, diff, events; and the readable differences between versions of a memory."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from mnemo_client.cli.arguments import list_candidates, memory_id_argument, time_argument
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.records import operation_text, word_diff
from mnemo_client.cli.format.units import event_date, first_line, local_minute, local_time, number_text, short_id
from mnemo_client.cli.terminal import TextStyle, sanitize, table
from mnemo_client.errors import UsageError
from mnemo_client.protocol.changes import (
    ChangeEvent,
    DifferenceView,
    EndEvent,
    Event,
    GapEvent,
    HistoryAnswer,
    JobEvent,
    OperationEvent,
    ProgressEvent,
    StartEvent,
    VersionView,
)
from mnemo_client.protocol.memories import MemoryView

CHANGE_DIGITS_MAX = 10  # more are milliseconds
# Fields that count versions or use, or follow from another field: no person changed them.
BOOKKEEPING_FIELDS = frozenset({
    "version", "modified_at", "compressed", "access_count", "repetition_count", "last_accessed", "strength",
    "strength_epoch",
})  # fmt: skip

_YEAR = re.compile(r"(19|20)\d\d")
_SIGNS = {"added": "+", "restored": "+", "changed": "~", "trashed": "-", "dropped": "-"}


def history(context: CommandContext) -> None:
    client = context.client()
    with list_candidates(client):
        answer = client.history(memory_id_argument(context, context.options.id), limit=context.options.top)
    if context.print_json_if_asked():
        return
    context.page(list(version_lines(answer, context.style)))
    if answer.cursor is not None:
        context.message("there are earlier versions; show them with: mnemo history ID --top 500")
    elif answer.versions and answer.versions[-1].memory.version > 1:
        context.message("earlier versions were not kept")
    context.message("undo a change with: mnemo undo CHANGE")


def diff(context: CommandContext) -> None:
    options = context.options
    until = None if options.until is None else _point_in_time(options.until)
    answer = context.reading_client().diff(_point_in_time(options.since), until=until, limit=options.top)
    if context.print_json_if_asked():
        return
    rows = [*answer.added, *answer.changed, *answer.removed]
    if not rows:
        context.message(f"nothing changed in namespace {sanitize(answer.namespace)}")
        return
    context.page(list(diff_lines(rows, context.style)))
    counts = f"{len(answer.added)} added · {len(answer.changed)} changed · {len(answer.removed)} removed"
    counts = f"shown: {counts}" if answer.cursor is not None else counts
    since = f"since change {answer.since_seq}" if answer.since_seq else "since the beginning"
    context.print(context.style.dim(f"{counts} · {since} · namespace {sanitize(answer.namespace)}"))
    if answer.cursor is not None:
        since = sanitize(options.since)
        context.message(f"there is more; show it with: mnemo diff {since} --top 500, or narrow it with --until")


def events(context: CommandContext) -> None:
    """Follow the events of the namespace; with `--json` a line each."""
    options = context.options
    client = context.reading_client()
    try:
        for name, event in client.events(types=options.type, since=options.since, follow=not options.no_follow):
            if context.wants_json:
                context.print_json(f'{{"event": "{name}", "data": {client.last_body.decode()}}}')
            else:
                context.print(*_event_lines(event))
            context.terminal.flush()
    except KeyboardInterrupt:
        context.close()


def _event_lines(event: Event) -> Iterator[str]:
    """Yield an event in words."""
    match event:
        case ChangeEvent():
            for each in event.memories:
                namespace = f"  {sanitize(each.namespace)}" if each.namespace else ""
                yield f"{local_time(event.at)}  change {event.seq}  {each.change} {short_id(each.id)}{namespace}"
        case JobEvent():
            reason = f": {sanitize(event.reason)}" if event.reason else ""
            yield f"job {sanitize(event.name)} is {event.state}{reason}"
        case ProgressEvent():
            yield f"{sanitize(event.view)} is {event.state} ({event.share:.0%})"
        case OperationEvent(state="ended"):
            yield f"{sanitize(event.name)} has ended"
        case OperationEvent():
            amount = f", {number_text(event.done)}" if event.done else ""
            total = f" of {number_text(event.total)}" if event.total else ""
            yield f"{sanitize(event.name)}: {sanitize(event.step)}{amount}{total}"
        case GapEvent():
            yield f"the changes from {event.since + 1} to {event.until} are not shown: mnemo diff seq:{event.since}"
        case StartEvent():
            yield f"the last change is {event.seq}"
        case EndEvent():
            yield f"the end: {event.reason}"


def _point_in_time(text: str) -> str:
    """Return a time or a change as the daemon takes it. Raises UsageError for a number that is neither a year nor ms.

    Such a number is meant as a change, as in `mnemo undo CHANGE`: as a time it would be decades before any memory.
    """
    if text.isdecimal() and len(text) <= CHANGE_DIGITS_MAX and not _YEAR.fullmatch(text):
        raise UsageError(f"{text} is not a time", f"for a change write: seq:{text}")
    return str(time_argument(text))


# How it looks


def version_lines(answer: HistoryAnswer, style: TextStyle) -> Iterator[str]:
    """Yield for each version who made it, when and how, then its changes; for the first version its text."""
    for version, before in zip(answer.versions, [*answer.versions[1:], None], strict=True):
        facts = [local_time(version.at), _author(version), operation_text(version.what)]
        if version.group is not None:
            facts.append(f"group {sanitize(version.group)}")
        head = f"{style.bold(f'change {version.seq}')} · {style.dim(' · '.join([*filter(None, facts)]))}"
        yield f"{head}{style.dim(f' · version {version.memory.version}')}"
        if version.overruled:
            yield f"  {style.dim('not taken, since a later change was known already:')} {first_line(version.memory)}"
        elif before is None:
            yield f"  {first_line(version.memory)}"
        else:
            old, new = _fields(before.memory), _fields(version.memory)
            yield from field_lines(old, new, [*new], version.memory, style, "  ")


def _author(change: VersionView | DifferenceView) -> str:
    """Return who made a change, and on which device if it was another one."""
    return sanitize(change.by if change.device is None else f"{change.by} on {change.device}")


def diff_lines(rows: Sequence[DifferenceView], style: TextStyle) -> Iterator[str]:
    """Yield a line for each memory, then the changed fields of a changed one."""
    heads = table([_difference_row(row, style) for row in rows], width=style.width, clips=True)
    for row, head in zip(rows, heads, strict=True):
        yield head
        if row.how == "changed":
            yield from field_lines(row.before, row.after, row.fields, row.memory, style, "    ")


def _difference_row(row: DifferenceView, style: TextStyle) -> list[str]:
    sign = _SIGNS.get(row.how, "?")
    paint = {"+": style.good, "-": style.bad}.get(sign, style.warn)
    text = first_line(row.memory) if row.memory is not None else "erased"
    facts = [f"change {row.seq}", local_minute(row.at), _author(row), operation_text(row.what)]
    return [f"{paint(sign)} {style.location(short_id(row.id))}", *map(style.dim, facts), text]


def field_lines(
    before: dict[str, Any], after: dict[str, Any], names: Sequence[str], memory: MemoryView | None, style: TextStyle,
    indent: str,
) -> Iterator[str]:  # fmt: skip
    """Yield the changes of a memory, a field a line; for texts the changed words."""
    for name in names:
        old, new = before.get(name), after.get(name)
        if name in BOOKKEEPING_FIELDS or old == new or (name == "event_at" and memory and not event_date(memory)):
            continue
        if name == "content":
            yield f"{indent}{style.dim('content')}: {word_diff(str(old), str(new), style)}"
        else:
            yield f"{indent}{style.dim(name)}: {_value(name, old)} → {_value(name, new)}"


def _fields(memory: MemoryView) -> dict[str, Any]:
    from msgspec import to_builtins

    fields: dict[str, Any] = to_builtins(memory)
    return fields


def _value(name: str, value: Any) -> str:
    if value is None or value == []:
        return "none"
    if name.endswith("_at"):
        return local_time(value)
    if isinstance(value, list):
        return ", ".join(sanitize(str(each)) for each in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if name == "note":
        return sanitize(" › ".join([value["title"], *value["headings"]]))
    return sanitize(json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value))
