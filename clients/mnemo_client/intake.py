"""The commands that take in or look through more than one memory: ingest, turns, reclassify."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mnemo_client import display, protocol
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED, BadUsage
from mnemo_client.invocation import Invocation
from mnemo_client.memories import as_ms
from mnemo_client.terminal import Look, clip, plain

SHOWN_MAX = 20  # of pieces set aside, or of memories reclassified; --json has all
PIECE_CELLS = 60  # of a piece that is named in a list
TURNS_A_REQUEST = 1000
SOURCE_CHARS_MAX = 64
INGEST_BYTES_MAX = 31 << 20  # of a text: the daemon's body limit of 32 MiB (SPEC 16), less what JSON adds

_OUTCOMES = (
    ("stored", "stored"),
    ("updated", "updated"),
    ("merged", "merged into what was known"),
    ("repeats", "stored, saying again what was known"),
    ("duplicate", "known already"),
    ("discarded", "set aside"),
)


def ingest(invocation: Invocation) -> int:
    """Each file as a text of its own; without one, standard input."""
    options = invocation.options
    client = invocation.client()
    worst = EXIT_DONE
    for name, text in _texts(invocation):
        request = protocol.IngestRequest(
            text=text,
            source=options.source or (None if name == "-" else Path(name).name[-SOURCE_CHARS_MAX:]),
            tags=options.tag,
            speaker=options.speaker,
            session_id=options.session,
            event_at=as_ms(options.at),
            evidence=[str(Path(name).expanduser().resolve())] if name != "-" else [],
            infer=options.infer or None,
            dedup=options.dedup,
            explain=options.explain,
        )
        worst = max(worst, _tell(invocation, name, client.ingest(request)))
    return worst


def turns(invocation: Invocation) -> int:
    """A conversation, one JSON object a line: role (user or agent), content; speaker and at where they are known."""
    options = invocation.options
    said = _turns(_read(invocation, options.file), options.file)
    client = invocation.client()
    worst = EXIT_DONE
    for start in range(0, len(said), TURNS_A_REQUEST):
        request = protocol.TurnsRequest(
            session_id=options.session,
            turns=said[start : start + TURNS_A_REQUEST],
            tags=options.tag,
            explain=options.explain,
        )
        worst = max(worst, _tell(invocation, options.file, client.turns(request)))
    return worst


def reclassify(invocation: Invocation) -> int:
    options = invocation.options
    answer = invocation.client().reclassify(protocol.ReclassifyRequest(dry_run=options.dry_run))
    if invocation.wants_json:
        invocation.say_answer()
        return EXIT_DONE
    for row in answer.changes[:SHOWN_MAX]:
        invocation.say(_reclassified(row, invocation.look))
    if answer.changed > SHOWN_MAX:
        invocation.tell(f"and {answer.changed - min(SHOWN_MAX, len(answer.changes))} more: --json shows up to 500")
    would = "would be changed" if answer.dry_run else "changed"
    invocation.say(
        f"{display.number(answer.looked_at)} looked at, {display.number(answer.changed)} {would}, "
        f"{display.number(answer.left)} left as a person set them"
    )
    if answer.group is not None:
        invocation.tell(f"take it back with: mnemo undo --group {answer.group}")
    return EXIT_DONE


def _texts(invocation: Invocation) -> Iterator[tuple[str, str]]:
    for name in invocation.options.file or ["-"]:
        yield name, _read(invocation, name)


def _read(invocation: Invocation, name: str) -> str:
    """A file's text, or that of standard input for `-`. Raises BadUsage where it cannot be read."""
    if name == "-":
        return invocation.text(["-"], "take in", bytes_max=INGEST_BYTES_MAX)
    try:
        text = Path(name).expanduser().read_bytes().decode()
    except OSError as failed:
        raise BadUsage(f"{name} cannot be read: {failed.strerror}", "name a text file") from failed
    except UnicodeDecodeError as wrong:
        raise BadUsage(f"{name} is not UTF-8 text (byte {wrong.start})", "name a text file") from wrong
    if not text.strip():
        raise BadUsage(f"there is no text in {name}")
    if len(text.encode()) > INGEST_BYTES_MAX:
        raise BadUsage(f"{name} holds more than {INGEST_BYTES_MAX} bytes", "take it in by parts, or watch its folder")
    return text


def _turns(text: str, name: str) -> list[protocol.Turn]:
    said = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            said.append(msgspec.json.decode(line, type=protocol.Turn))
        except msgspec.DecodeError as wrong:
            message = str(wrong)
            if isinstance(wrong, msgspec.ValidationError):
                from mnemo_client import validation

                message = validation.explain(wrong, protocol.Turn, msgspec.json.decode(line)).message
            hint = 'a line is {"role": "user", "content": "…"}, with "speaker" and "at" where they are known'
            raise BadUsage(f"{name}:{number}: {message}", hint) from wrong
    return said


def _tell(invocation: Invocation, name: str, answer: protocol.TakenAnswer) -> int:
    """Says what became of each; exit 1 where nothing of it could be taken."""
    refused = [item for item in answer.results if not isinstance(item, protocol.Taken)]
    if invocation.wants_json:
        invocation.say_answer()
    else:
        invocation.say(*_taken_lines(name, answer, invocation.look))
        for item in refused[:SHOWN_MAX]:
            invocation.tell(f"refused: {json.loads(bytes(item))['error']['message']}")
        if answer.group is not None:
            invocation.tell(f"take it back with: mnemo undo --group {answer.group}")
    return EXIT_FAILED if refused and len(refused) == len(answer.results) else EXIT_DONE


def _taken_lines(name: str, answer: protocol.TakenAnswer, look: Look) -> Iterator[str]:
    taken = [item for item in answer.results if isinstance(item, protocol.Taken)]
    counts = [f"{display.number(answer.counts[key])} {words}" for key, words in _OUTCOMES if answer.counts.get(key)]
    where = "" if name == "-" else f"{plain(name)}: "
    parts = [f"{where}{look.good(', '.join(counts) or 'nothing in it to remember')}", f"namespace {answer.namespace}"]
    masked = sorted({kind for item in taken for kind in item.masked})
    if masked:
        parts.append(look.warn(f"masked: {plain(', '.join(masked))}"))
    if answer.degraded:
        parts.append(look.warn(display.degraded_words(answer.degraded, None)))
    yield look.dim(" · ").join(parts)
    aside = [item for item in taken if item.outcome == "discarded"]
    for item in aside[:SHOWN_MAX]:
        shown = "" if item.memory is None else f"{display.short_id(item.memory.id)}  {_piece(item.memory.content)}"
        why = look.dim(f"({display.reason(item.reason or '')})")
        yield f"  {look.dim('set aside')}  {shown} {why}"
    if len(aside) > SHOWN_MAX:
        yield f"  {look.dim(f'and {len(aside) - SHOWN_MAX} more')}"
    if aside:
        yield look.dim(
            "  see them for 30 days with: mnemo trash --set-aside; bring one back with: mnemo trash restore ID"
        )
    for item in taken:
        if item.explained is not None and item.memory is not None:
            yield f"{look.place(display.short_id(item.memory.id))}  {item.outcome}  {_piece(item.memory.content)}"
            yield from display.explained(item, look)


def _piece(content: str) -> str:
    line = next((line.strip() for line in content.splitlines() if line.strip()), "")
    return clip(plain(line), PIECE_CELLS)


def _reclassified(row: protocol.Reclassified, look: Look) -> str:
    changes = ", ".join(
        f"{name} {_value(row.before.get(name))} -> {_value(value)}" for name, value in row.after.items()
    )
    why = look.dim(f"({plain(row.why)})")
    return f"{look.place(display.short_id(row.id))}  {_piece(row.content)}\n{' ' * 10}{changes} {why}"


def _value(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
