"""How answers look: protocol values in, lines of text out. Nothing here asks, reads a clock or writes."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mnemo_client.cli.terminal import (
    TextStyle,
    cell_width,
    clip,
    clip_start,
    pad,
    sanitize,
    table,
    wrap,
)
from mnemo_client.protocol import memories as protocol
from mnemo_client.protocol import retrieval

BEST_LINES_MAX = 4
LISTED_LINE_CELLS = 72  # of a memory in a list of many
SHORT_ID_DIGITS = 8  # people are shown the last 8 (SPEC 2.1)
SKIPPED_SHOWN = 20

_MODEL_NAMES = {"embedding": "embedding model", "llm": "language model"}
_OPERATION_LABELS = {
    "add": "remembering", "edit": "an edit", "rm": "moving to the trash", "restore": "restoring",
    "notes": "reading a note", "score": "scoring a note",
}  # fmt: skip
# Why a door set something aside, or left nothing of it.
_REASON_LABELS = {
    "low_importance": "it matters little", "near_duplicate": "a recent turn says it", "stop_words": "it says nothing",
    "too_short": "too short", "infrastructure_noise": "noise of programs", "echo": "mnemo itself said it",
}  # fmt: skip
_UNDO_PREFIX = "undo:"
_UNITS = ("B", "KB", "MB", "GB", "TB")
_STATE_STYLES = {
    "ready": TextStyle.good, "watching": TextStyle.good, "loading": TextStyle.warn, "building": TextStyle.warn,
    "warming": TextStyle.warn,
    "catching_up": TextStyle.warn, "scanning": TextStyle.warn, "polling": TextStyle.warn, "paused": TextStyle.warn,
    "stale": TextStyle.warn,
    "absent": TextStyle.warn, "degraded": TextStyle.bad, "failed": TextStyle.bad, "missing": TextStyle.bad,
}  # fmt: skip


# Small things


def size(count: int) -> str:
    """Bytes as people read them: 812 B, 1.4 MB."""
    amount = float(count)
    for unit in _UNITS[:-1]:
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} {_UNITS[-1]}"


def duration(seconds: float) -> str:
    """A span in its two largest units: 45 s, 3 min 5 s, 2 h 10 min, 4 d 3 h."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    for name, length, smaller, small_length in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            count, rest = divmod(whole, length)
            return f"{count} {name} {rest // small_length} {smaller}"
    raise AssertionError(whole)


def local_date(at: int) -> str:
    """The day in the local zone. ISO 8601."""
    return _format_local(at, "%Y-%m-%d")


def event_date(memory: protocol.MemoryView) -> str:
    """The day that it tells of; empty where nothing but the time of a file is known."""
    return local_date(memory.event_at) if memory.note is None or memory.note.dated else ""


def local_time(at: int) -> str:
    """Day and time in the local zone."""
    return _format_local(at, "%Y-%m-%d %H:%M:%S")


def local_minute(at: int) -> str:
    """Day and minute in the local zone."""
    return _format_local(at, "%Y-%m-%d %H:%M")


def _format_local(at: int, shape: str) -> str:
    try:
        return datetime.fromtimestamp(at / 1000, UTC).astimezone().strftime(shape)
    except (OverflowError, ValueError, OSError):
        return f"{at} ms"


def number(count: int) -> str:
    return f"{count:,}"


def plural(count: int, one: str, many: str = "") -> str:
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def short_id(id: str) -> str:  # noqa: A002 - the field's own name
    return id.replace("-", "")[-SHORT_ID_DIGITS:]


def short_path(path: str, here: Path | None, home: Path) -> str:
    """The path from `here` where it lies below, else from the home folder, else whole.

    `here` is None for what is not to be looked for from here: the same words in every folder.
    """
    for base, prefix in ((here, ""), (home, "~/")):
        if base is not None and Path(path).is_relative_to(base):
            return prefix + str(Path(path).relative_to(base))
    return path


def percent(share: float) -> str:
    """Rounded down, so that 100% means all."""
    return f"{int(share * 100)}%"


def first_line(memory: protocol.MemoryView, width: int | None = LISTED_LINE_CELLS) -> str:
    """The first line of what it says."""
    line = next((line for line in memory.content.splitlines() if line.strip()), "")
    return clip(sanitize(line.strip()), width)


# Recall and search


def hit_lines(
    memories: Sequence[retrieval.RecalledMemory], look: TextStyle, here: Path, home: Path, first: int = 1
) -> Iterator[str]:
    """For each: number, score, where it is or its id, heading trail, date, `was` of what a newer value replaced; below
    it the best sentence."""
    digits = len(str(first + len(memories) - 1))
    for place, memory in enumerate(memories, first):
        head = f"{place:>{digits}}  {memory.score:.2f}  "
        day = ", ".join(part for part in ("was" if memory.was else "", event_date(memory)) if part)
        cut = ["cut to the token budget"] if memory.content_cut else []
        cut += [f"{memory.others} more in this note"] if memory.others else []
        spot, rest = sanitize(location(memory, here, home)), [sanitize(memory.speaker or ""), day, *cut]
        room = None if look.width is None else look.width - cell_width(" · ".join([head, spot, *rest]))
        parts = [look.dim(part) for part in (_fitting_headings(sanitize(heading_trail(memory)), room), *rest) if part]
        line = look.dim(" · ").join([look.location(spot), *parts])
        yield f"{look.bold(f'{place:>{digits}}')}  {memory.score:.2f}  {line}"
        for line in best_sentence_lines(memory, look, len(head)):
            yield " " * len(head) + line
        if look.width is not None and place < first + len(memories) - 1:
            yield ""


def _fitting_headings(headings: str, room: int | None) -> str:
    """As many of the last headings as there is room for, with an ellipsis for the others; the last one in any case."""
    parts = headings.split(" › ")
    while room is not None and len(parts) > 1 and cell_width(" › ".join(["…", *parts])) > room:
        parts = parts[1:]
    return headings if " › ".join(parts) == headings else " › ".join(["…", *parts])


def location(memory: protocol.MemoryView, here: Path, home: Path) -> str:
    """path:line of a note's chunk, else the end of the id."""
    if memory.note is None:
        return short_id(memory.id)
    return f"{short_path(memory.note.path, here, home)}:{best_line(memory)}"


def best_line(memory: protocol.MemoryView) -> int:
    """The line of the best sentence, else the chunk's first; 1 where it is no note."""
    best = memory.best if isinstance(memory, retrieval.RecalledMemory) else None
    if best is not None and best.line is not None:
        return best.line
    return memory.note.lines[0] if memory.note is not None else 1


def heading_trail(memory: protocol.MemoryView) -> str:
    """Title and headings above a passage of a note, where a title that is the top heading counts once; else empty."""
    if memory.note is None:
        return ""
    title, headings = memory.note.title, memory.note.headings
    return " › ".join(headings if headings[:1] == [title] else [title, *headings])


def best_sentence_lines(memory: retrieval.RecalledMemory, look: TextStyle, indent: int) -> list[str]:
    """The excerpt with the query's words marked, wrapped below its head."""
    if memory.best is None:
        text, marks = first_line(memory, None), []
    else:
        text, marks = sanitize(memory.best.text), memory.best.marks
    width = None if look.width is None else max(20, look.width - indent)
    spans = wrap(text, width, BEST_LINES_MAX)
    lines = [highlight_marks(text, marks, start, end, look) for start, end in spans]
    if lines and spans[-1][1] < len(text.rstrip()):
        lines[-1] += " …"
    return lines


def highlight_marks(text: str, marks: Sequence[tuple[int, int]], start: int, end: int, look: TextStyle) -> str:
    """text[start:end] with what of the marks lies in it painted. Marks that overlap count once."""
    parts, at = [], start
    for first, last in sorted(marks):
        first, last = max(first, at), min(last, end)
        if first < last:
            parts += [text[at:first], look.highlight(text[first:last])]
            at = last
    return "".join([*parts, text[at:end]])


def recall_summary(answer: retrieval.RecallAnswer, status: protocol.StatusAnswer | None, look: TextStyle) -> str:
    """The last line: how many of how many, milliseconds, ranker, namespace, and what was missing."""
    parts = [f"{len(answer.memories)} of {answer.total}", f"{answer.took_ms:.1f} ms", answer.ranker]
    return _summary(parts, answer.namespace, degraded_text(answer.degraded, status), look)


def search_summary(answer: retrieval.SearchAnswer, look: TextStyle) -> str:
    parts = [f"{len(answer.memories)} of {answer.total}", "words"]
    return _summary(parts, answer.namespace, degraded_text(answer.degraded, None), look)


def _summary(parts: list[str], namespace: str, missing: str, look: TextStyle) -> str:
    line = look.dim(" · ".join([*parts, f"namespace {sanitize(namespace)}"]))
    return f"{line}{look.dim(' · ')}{look.warn(missing)}" if missing else line


def degraded_text(degraded: Sequence[str], status: protocol.StatusAnswer | None) -> str:
    """What was missing, in words; empty when nothing was."""
    return "; ".join(_degraded_reason(name, status) for name in degraded)


def _degraded_reason(name: str, status: protocol.StatusAnswer | None) -> str:
    if name == "vectors":
        return f"answered by words only: {_missing_vectors_reason(status)}"
    if name == "notes":
        return "notes are still being read (mnemo status)"
    if name == "llm":
        return "without the language model"
    if name in ("database", "store", "lmdb"):
        return "the store is out of order (mnemo status)"
    return f"without {sanitize(name)}"


def _missing_vectors_reason(status: protocol.StatusAnswer | None) -> str:
    model = status.models.get("embedding") if status is not None else None
    vectors = status.views.get("vectors") if status is not None else None
    if model is None:
        return "vectors are not ready"
    if model.state == "absent":
        return "no embedding model is installed (mnemo models pull)"
    if model.state == "loading":
        return "the embedding model is being loaded"
    if model.state == "failed":
        return f"the embedding model failed ({sanitize(model.reason or 'see mnemo doctor')})"
    if vectors is not None and (vectors.share < 1 or vectors.state in ("building", "catching_up")):
        return f"vectors are still being built ({percent(vectors.share)})"
    return "vectors were not ready"


# One memory, and lists of them


def remember_line(answer: protocol.RememberAnswer, look: TextStyle) -> str:
    """What was done: outcome, id, namespace, and what there is to know beside it."""
    memory = answer.memory
    words = {
        "stored": "remembered",
        "duplicate": "already known",
        "repeats": "remembered, though it says again what was known",
        "merged": "merged into what was known",
        "updated": f"updated to version {memory.version}",
    }
    parts = [
        look.good(words[answer.outcome]),
        look.location(short_id(memory.id)),
        f"namespace {sanitize(memory.namespace)}",
    ]
    for tie, ids in (("repeats", answer.repeats), ("newer than", answer.updates)):
        if ids:
            parts.append(f"{tie} {', '.join(look.location(short_id(each)) for each in ids)}")
    if answer.masked:
        parts.append(look.warn(f"masked: {sanitize(', '.join(answer.masked))}"))
    if "sensitive" in memory.tags:
        parts.append(look.warn("holds what looks like a secret: tagged sensitive"))
    if "store" in answer.degraded:
        parts.append(look.warn(f"kept, but {_degraded_reason('store', None)}"))
    return look.dim(" · ").join(parts)


def explanation_lines(answer: protocol.PieceAnswer | protocol.RememberAnswer, look: TextStyle) -> Iterator[str]:
    """What was decided of one thing that came in, and why; nothing where that was not asked for."""
    why, memory, scores = answer.explained, answer.memory, answer.scores
    if why is None:
        return
    if memory is not None:
        sort = " · ".join(part for part in (memory.kind, memory.category, memory.form) if part)
        yield _detail_line("kind", f"{sort}: {sanitize(why.route)}", look)
    if scores is not None:
        sum_of = f"0.6 x novelty {scores.novelty:.2f} + 0.4 x salience {scores.salience:.2f}"
        is_other = memory is not None and abs(memory.importance - scores.importance) >= 0.005
        given = f"{memory.importance:.2f}, though scored " if memory is not None and is_other else ""
        yield _detail_line("importance", f"{given}{scores.importance:.2f} = {sum_of}", look)
    found = [f"{name} {sanitize(what)!r}" for name, what in why.found.items() if what]
    if found:
        yield _detail_line("salience", " · ".join(found), look)
    for near in why.near:
        sim = "  -  " if near.sim is None else f"{near.sim:.3f}"
        relation = near.relation if near.tied else f"({near.relation})"
        yield _detail_line("near", f"{look.location(short_id(near.id))}  {sim}  {relation}: {sanitize(near.why)}", look)
    for statement in answer.statements:
        parts = "" if statement.triple is None else f"  [{' | '.join(statement.triple)}]"
        yield _detail_line("statement", sanitize(statement.text + parts), look)
    if why.profile != "own":
        yield _detail_line("profile", sanitize(why.profile), look)


def _detail_line(name: str, text: str, look: TextStyle) -> str:
    return f"  {look.dim(f'{name:<10}')}  {text}"


def memory_lines(memory: protocol.MemoryView, look: TextStyle, here: Path, home: Path) -> list[str]:
    """The whole memory: its fields, an empty line, its text."""
    rows = [
        ["id", memory.id],
        ["namespace", memory.namespace],
        ["kind", " · ".join(part for part in (memory.kind, memory.category, memory.form) if part)],
        ["state", memory.state + (" · pinned" if memory.pinned else "")],
        ["layer", memory.layer],
        ["importance", f"{memory.importance:.2f} ({memory.importance_source}), strength {memory.strength:.2f}"],
        ["from", " · ".join(part for part in (memory.speaker, memory.trust, memory.source, memory.agent_id) if part)],
        ["happened" if event_date(memory) else "file changed", local_time(memory.event_at)],
        ["stored", local_time(memory.created_at)],
    ]
    if memory.modified_at != memory.created_at:
        rows.append(["changed", f"{local_time(memory.modified_at)}, version {memory.version}"])
    if memory.expires_at is not None:
        rows.append(["expires", local_time(memory.expires_at)])
    if memory.note is not None:
        first, last = memory.note.lines
        rows.append(["note", f"{short_path(memory.note.path, here, home)}:{first}-{last}"])
        rows.append(["heading", heading_trail(memory)])
    listed = (
        ("tags", memory.tags), ("key", [memory.key] if memory.key else []), ("evidence", memory.evidence),
        ("derived from", memory.derived_from), ("replaced by", [memory.superseded_by] if memory.superseded_by else []),
    )  # fmt: skip
    rows += [[name, ", ".join(values)] for name, values in listed if values]
    used = plural(memory.access_count, "time")
    rows.append(["recalled", used + (f", last {local_time(memory.last_accessed)}" if memory.last_accessed else "")])
    lines = table([[look.dim(name), sanitize(value)] for name, value in rows], width=look.width)
    return [*lines, "", sanitize(memory.content, lines=True)]


def choice_lines(memories: Sequence[protocol.MemoryView], look: TextStyle) -> list[str]:
    """Memories to choose among, a line each: the end of the id, which is enough to name it, and how it begins."""
    return table([[look.location(short_id(memory.id)), first_line(memory)] for memory in memories], "  ")


def trash_lines(page: protocol.TrashPage, look: TextStyle) -> list[str]:
    """One line for each memory in the trash: id, date of deletion, reason, and first words."""
    entries = page.entries or [protocol.TrashView(memory=m, at=m.modified_at, why="") for m in page.memories]
    rows = [
        [
            look.location(short_id(entry.memory.id)),
            local_date(entry.at),
            reason_text(entry.why),
            first_line(entry.memory),
        ]
        for entry in entries
    ]
    return table(rows, width=look.width, clips=True)


def listed_lines(
    memories: Sequence[protocol.MemoryView], look: TextStyle, here: Path, home: Path, first: int = 1
) -> list[str]:
    """A line each: its number, when it happened, where it is or its id, and how it begins.

    Of a path that would take more than two fifths of the line the end is shown.
    """
    room = None if look.width is None else look.width * 2 // 5
    rows = [
        [f"{number:>{len(str(first + len(memories) - 1))}}", look.dim(f"{event_date(memory):10}"),
         look.location(clip_start(sanitize(location(memory, here, home)), room)), first_line(memory)]
        for number, memory in enumerate(memories, first)
    ]  # fmt: skip
    return table(rows, width=look.width, clips=True)


def count_lines(counts: Mapping[str, int], look: TextStyle, chosen: str | None = None) -> list[str]:
    """A name and how many memories it has, a line each; `chosen` is marked."""
    rows = [
        [f"{number(count):>9}", look.bold(sanitize(name)) + (look.dim(" (this folder's)") if name == chosen else "")]
        for name, count in counts.items()
    ]
    return table(rows, width=look.width)


def reason_text(why: str) -> str:
    """In words; what someone said themself, as they said it."""
    return _REASON_LABELS.get(why) or sanitize(why)


def undone_lines(undone: protocol.UndoAnswer, look: TextStyle) -> list[str]:
    verb = "would undo" if undone.dry_run else "undone"
    ids = ", ".join(short_id(each) for each in undone.ids[:10]) + (" …" if len(undone.ids) > 10 else "")
    changes = f"change {undone.seq}" if len(undone.seqs) < 2 else f"changes {undone.seqs[0]} to {undone.seq}"
    if undone.total > 10:
        changes += f", {undone.total} memories"
    return [f"{look.good(verb)}: {operation_text(undone.what)}" + (look.dim(f" ({changes}: {ids})") if ids else "")]


def operation_text(what: str) -> str:
    """What was done, from the name that the history has for it."""
    if what.startswith(_UNDO_PREFIX):
        first, *more = what.removeprefix(_UNDO_PREFIX).split(",")
        return f"undo of change {sanitize(first)}" + (f" and {len(more)} more" if more else "")
    return sanitize(_OPERATION_LABELS.get(what, what))


# The daemon and its parts


def styled_state(state: str, look: TextStyle) -> str:
    return _STATE_STYLES.get(state, TextStyle.dim)(look, state.replace("_", " "))


def status_lines(status: protocol.StatusAnswer, look: TextStyle, home: Path) -> list[str]:
    """The state of every part, a line each."""
    head = [
        f"{look.bold('mnemod')} {sanitize(status.version)}",
        styled_state(status.state, look),
        f"pid {status.pid}",
        f"up {duration(status.uptime_seconds)}",
    ]
    if status.memory_private_bytes:
        head.append(f"{size(status.memory_private_bytes)} of memory")
    rows = [
        ["memories", f"{number(status.memories)}{_other_states_text(status.by_state)}"],
        ["namespaces", " · ".join(f"{sanitize(name)} {number(count)}" for name, count in status.namespaces.items())],
        *([name, _index_text(view, look)] for name, view in status.views.items()),
        *([_MODEL_NAMES.get(role, role), _model_text(model, look)] for role, model in status.models.items()),
        ["notes", _notes_text(status.notes, look)],
        ["waiting", " · ".join(f"{sanitize(name)} {number(count)}" for name, count in status.queue.items() if count)],
        ["trash", f"{number(status.trash.get('count', 0))}, {size(status.trash.get('bytes', 0))}"],
        ["disk", _disk_text(status.disk)],
        ["data", sanitize(short_path(status.data_dir, None, home))],
        ["socket", sanitize(short_path(status.socket, None, home))],
    ]
    reasons = [f"  {look.warn('!')} {sanitize(reason)}" for reason in status.reasons]
    return [
        look.dim(" · ").join(head),
        *reasons,
        *table([[look.dim(name), text] for name, text in rows if text], "  ", look.width),
    ]


def _other_states_text(by_state: Mapping[str, int]) -> str:
    others = [f"{number(count)} {name}" for name, count in by_state.items() if count and name != "active"]
    return f" ({', '.join(others)})" if others else ""


def _index_text(view: protocol.ViewStatus, look: TextStyle) -> str:
    parts = [styled_state(view.state, look), number(view.items)]
    if view.share < 1:
        parts.append(percent(view.share))
    if view.rate is not None and view.seconds_left is not None:
        parts.append(f"{rate_text(view.rate)}, about {duration(view.seconds_left + 1)} left")
    if view.lag:
        parts.append(f"{plural(view.lag, 'change')} behind, {duration(view.lag_seconds)}")
    if view.reason:
        parts.append(sanitize(view.reason))
    return " · ".join(parts)


def rate_text(rate: float) -> str:
    """Passages a second, or a minute where it is slow."""
    return f"{rate:,.0f} a second" if rate >= 2 else f"{rate * 60:,.0f} a minute"


def remaining_work_lines(status: protocol.StatusAnswer) -> list[str]:
    """What is still to be read and embedded, and how long that takes; nothing where all is done."""
    vectors = status.views.get("vectors")
    lines = []
    if waiting := sum(root.waiting for root in status.notes.roots):
        lines.append(f"{plural(waiting, 'note')} still to be read; all of them can be recalled as they come in")
    elif any(root.last_scan_at is None and root.state == "scanning" for root in status.notes.roots):
        lines.append("notes are being looked through; all of them can be recalled as they come in")
    if (queue := status.queue.get("vectors", 0)) and vectors is not None and vectors.state != "off":
        left = f", {rate_text(vectors.rate)}" if vectors.rate is not None else ""
        left += f", about {duration(vectors.seconds_left + 1)} left" if vectors.seconds_left is not None else ""
        lines.append(f"{plural(queue, 'passage')} to be found by meaning too, until then by words{left}")
    return lines


def _model_text(model: protocol.ModelStatus, look: TextStyle) -> str:
    parts = [styled_state(model.state, look)]
    if model.name:
        parts.insert(0, sanitize(model.name))
    if model.dimensions:
        parts.append(f"{model.dimensions} dimensions")
    parts += [sanitize(text) for text in (model.reason, model.hint) if text]
    return " · ".join(parts)


def _notes_text(notes: protocol.NotesStatus, look: TextStyle) -> str:
    if not notes.roots:
        return "no folder yet (mnemo notes add FOLDER)"
    parts = [
        plural(len(notes.roots), "folder"),
        plural(sum(root.files for root in notes.roots), "file"),
        plural(sum(root.chunks for root in notes.roots), "passage"),
    ]
    if waiting := sum(root.waiting for root in notes.roots):
        parts.append(f"{number(waiting)} waiting")
    parts += [
        f"{styled_state(root.state, look)}: {sanitize(root.path)}" for root in notes.roots if root.state != "watching"
    ]
    if notes.skipped_total:
        parts.append(f"{number(notes.skipped_total)} skipped (mnemo notes status)")
    return " · ".join(parts)


def _disk_text(disk: Mapping[str, int]) -> str:
    parts = [f"{sanitize(name)} {size(count)}" for name, count in disk.items() if count and name != "free"]
    return " · ".join(parts + ([f"{size(disk['free'])} free"] if "free" in disk else []))


def notes_lines(notes: protocol.NotesStatus, look: TextStyle, here: Path, home: Path) -> list[str]:
    """The watched folders, then the files that were passed over and why."""
    lines = []
    for root in notes.roots:
        facts = [
            styled_state(root.state, look),
            plural(root.files, "file"),
            plural(root.chunks, "passage"),
            f"namespace {sanitize(root.namespace)}",
        ]
        if root.waiting:
            facts.append(f"{number(root.waiting)} waiting")
        if root.last_scan_at is not None:
            facts.append(f"looked through {local_time(root.last_scan_at)}")
        lines.append(f"{look.location(sanitize(short_path(root.path, here, home)))}  {look.dim(' · ').join(facts)}")
        if root.reason:
            lines.append(f"  {look.warn('!')} {sanitize(root.reason)}")
    if notes.skipped_total:
        lines.append(f"{plural(notes.skipped_total, 'file')} passed over:")
        counted = [[number(count), sanitize(why)] for why, count in notes.skipped_by_reason.items() if count > 1]
        lines += table(counted, "  ", look.width)
        shown = notes.skipped[: min(SKIPPED_SHOWN, notes.skipped_total)]
        lines += table(
            [[sanitize(short_path(file.path, here, home)), look.dim(sanitize(file.reason))] for file in shown],
            "  ",
            look.width,
        )
        if notes.skipped_total > len(shown):
            lines.append(f"  … and {number(notes.skipped_total - len(shown))} more")
    if notes.left_out:
        lines.append(f"{number(notes.left_out)} left out by a rule (.mnemoignore, or by default)")
    return lines


def calibration_lines(measured: Mapping[str, Any], look: TextStyle) -> list[str]:
    """A model's thresholds beside their sources', with how well each parts the labelled texts."""
    rows = [["threshold", "source", "here", "precision", "recall"]]
    for row in measured["thresholds"]:
        source = "" if row["source"] is None else f"{row['source']:.2f}"
        rows.append([
            sanitize(row["name"]), source, f"{row['cosine']:.3f}", percent(row["precision"]), percent(row["recall"]),
        ])  # fmt: skip
    languages = ", ".join(f"{sanitize(name)} {percent(share)}" for name, share in measured["languages"].items())
    return [
        f"{sanitize(measured['name'])}, measured on {plural(measured['pairs'], 'pair')} of texts",
        *table(rows, indent="  "),
        look.dim(f"related texts are closer than unrelated ones: {languages}"),
        look.dim(f"the thresholds are those of: {', '.join(map(sanitize, measured['counted']))}"),
    ]


def model_lines(answer: protocol.ModelsAnswer, look: TextStyle) -> list[str]:
    """Each model of the catalogue: what it is for, whether it is here, its size and licence."""
    rows = []
    for model in answer.models:
        state = "installed" if model.installed else look.dim("not installed")
        if model.in_use and model.installed:  # one that is missing is named in the settings, and used by nobody
            state = look.good("in use")
        facts = [size(model.bytes)] if model.bytes else []
        facts.append(sanitize(model.licence))
        if model.dimensions:
            facts.insert(0, f"{model.dimensions} dimensions")
        rows.append([sanitize(model.name), model.role, state, look.dim(" · ".join(facts))])
    return table(rows, width=look.width)


def config_lines(answer: protocol.ConfigAnswer, look: TextStyle) -> list[str]:
    """Each value and where it came from; what was set by hand stands out."""
    rows = []
    for value in answer.values:
        text = sanitize(_toml_text(value.value))
        is_default = value.origin == "default"
        origin = look.dim("default") if is_default else sanitize(value.origin)
        rows.append([sanitize(value.key), text if is_default else look.bold(text), origin])
    return table(rows, width=look.width)


def _toml_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_text, value))}]"
    return "none" if value is None else str(value)


def doctor_lines(checks: Sequence[tuple[str, str, str, str]], look: TextStyle) -> list[str]:
    """Rows of (name, ok | warn | fail, what was found, the command that fixes it)."""
    paint = {"ok": look.good, "warn": look.warn, "fail": look.bad}
    width = max((cell_width(name) for name, *_ in checks), default=0)
    lines = []
    for name, outcome, found, fix in checks:
        lines.append(f"{paint[outcome](pad(outcome, 4))}  {pad(name, width)}  {sanitize(found)}".rstrip())
        if fix and outcome != "ok":
            lines.append(f"{' ' * (width + 8)}{look.dim('→')} {fix}")
    return lines
