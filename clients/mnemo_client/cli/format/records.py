"""Shows memories: one in full, lists of them, the outcome of a new one, and the difference between two texts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mnemo_client.cli.format.answers import degraded_reason, heading_trail, location
from mnemo_client.cli.format.units import (
    event_date,
    first_line,
    local_date,
    local_minute,
    local_time,
    number_text,
    plural,
    short_id,
    short_path,
)
from mnemo_client.cli.terminal import TextStyle, clip_start, sanitize, table
from mnemo_client.protocol.changes import UndoAnswer
from mnemo_client.protocol.choices import Relation
from mnemo_client.protocol.ingestion import PieceAnswer, RememberAnswer
from mnemo_client.protocol.knowledge import GraphAnswer, TopicView
from mnemo_client.protocol.memories import EdgesAnswer, MemoryView, TrashPage, TrashView
from mnemo_client.protocol.sessions import SessionAnswer, SessionView

_OPERATION_LABELS = {
    "rm": "delete", "notes": "read a note", "score": "score a note",
    "turn tier": "move within the session",
}  # fmt: skip
# Why ingestion rejected a text.
_REASON_LABELS = {
    "low_importance": "unimportant", "near_duplicate": "repeats a recent turn", "stop_words": "no content words",
    "too_short": "too short", "infrastructure_noise": "program output", "echo": "quotes an answer of mnemo",
}  # fmt: skip
_RELATION_LABELS = {"co_occurs": "recalled together"}  # of topic nodes
_UNDO_PREFIX = "undo:"


def remember_line(answer: RememberAnswer, style: TextStyle) -> str:
    """Return the outcome of a new memory with its id, namespace and what else matters about it."""
    memory = answer.memory
    words = {
        "stored": "remembered",
        "duplicate": "already known",
        "repeats": "remembered, although already known in other words",
        "merged": "merged into a known memory",
        "updated": f"updated to version {memory.version}",
    }
    # The profiles of some sources reject what is said on purpose, too.
    rejected = f"rejected: {reason_text(answer.reason or '')}"
    parts = [
        style.warn(rejected) if answer.outcome == "discarded" else style.good(words[answer.outcome]),
        style.location(short_id(memory.id)),
        f"namespace {sanitize(memory.namespace)}",
    ]
    ties = {"repeats": answer.repeats, "newer than": answer.updates, "perhaps newer than": answer.perhaps_updates}
    for tie, ids in ties.items():
        if ids:
            parts.append(f"{tie} {', '.join(style.location(short_id(each)) for each in ids)}")
    if answer.masked:
        parts.append(style.warn(f"masked: {sanitize(', '.join(answer.masked))}"))
    if "sensitive" in memory.tags:
        parts.append(style.warn("looks like a secret: tagged sensitive"))
    if "store" in answer.degraded:
        parts.append(style.warn(f"stored, but {degraded_reason('store', None)}"))
    return style.dim(" · ").join(parts)


def explanation_lines(answer: PieceAnswer | RememberAnswer, style: TextStyle) -> Iterator[str]:
    """Yield the decisions about a text and their reasons; nothing if they were not requested."""
    why, memory, scores = answer.explained, answer.memory, answer.scores
    if why is None:
        return
    if memory is not None:
        sort = " · ".join(part for part in (memory.kind, memory.category, memory.form) if part)
        yield _detail_line("kind", f"{sort}: {sanitize(why.route)}", style)
    if scores is not None:
        sum_of = f"0.6 x novelty {scores.novelty:.2f} + 0.4 x salience {scores.salience:.2f}"
        is_other = memory is not None and abs(memory.importance - scores.importance) >= 0.005
        given = f"{memory.importance:.2f}, although scored " if memory is not None and is_other else ""
        yield _detail_line("importance", f"{given}{scores.importance:.2f} = {sum_of}", style)
    found = [f"{name} {sanitize(what)!r}" for name, what in why.found.items() if what]
    if found:
        yield _detail_line("salience", " · ".join(found), style)
    for near in why.near:
        sim = "  -  " if near.sim is None else f"{near.sim:.3f}"
        relation = near.relation if near.tied else f"({near.relation})"
        yield _detail_line(
            "near", f"{style.location(short_id(near.id))}  {sim}  {relation}: {sanitize(near.why)}", style
        )
    for statement in answer.statements:
        parts = "" if statement.triple is None else f"  [{' | '.join(statement.triple)}]"
        yield _detail_line("statement", sanitize(statement.text + parts), style)
    if why.profile != "own":
        yield _detail_line("profile", sanitize(why.profile), style)


def _detail_line(name: str, text: str, style: TextStyle) -> str:
    return f"  {style.dim(f'{name:<10}')}  {text}"


def memory_lines(memory: MemoryView, style: TextStyle, here: Path, home: Path) -> list[str]:
    """Return the lines of a memory in full: its fields, an empty line, its text."""
    origin = (memory.speaker, memory.trust, memory.source, memory.agent_id)
    rows = [
        ["id", memory.id],
        ["namespace", memory.namespace],
        ["kind", " · ".join(filter(None, dict.fromkeys((memory.kind, memory.category, memory.form))))],
        ["state", memory.state + (" · pinned" if memory.pinned else "")],
        ["layer", memory.layer],
        ["importance", f"{memory.importance:.2f} ({memory.importance_source}), strength {memory.strength:.2f}"],
        ["from", " · ".join(dict.fromkeys(filter(None, origin)))],
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
    lines = table([[style.dim(name), sanitize(value)] for name, value in rows], width=style.width)
    return [*lines, "", sanitize(memory.content, lines=True)]


EDGE_LABELS: dict[tuple[Relation, str], str] = {
    ("updates", "to"): "updates", ("updates", "from"): "updated by", ("repeats", "to"): "repeats",
    ("repeats", "from"): "repeated by", ("related", "to"): "related", ("related", "from"): "related",
}  # fmt: skip


def edge_lines(answer: EdgesAnswer, style: TextStyle) -> list[str]:
    """An empty line, and a line for each edge: the relation, the id of the other memory, and how it begins."""
    rows = [
        [
            style.dim("linked" if edge.via == "link" else EDGE_LABELS[edge.relation, edge.direction]),
            style.location(short_id(edge.memory.id)),
            first_line(edge.memory),
        ]
        for edge in answer.edges
    ]
    return ["", *(table(rows, width=style.width) if rows else [style.dim("no edges")])]


def choice_lines(memories: Sequence[MemoryView], style: TextStyle) -> list[str]:
    """Return a line for each memory to choose from: the end of its id, which is enough to name it, and its first
    line."""
    return table([[style.location(short_id(memory.id)), first_line(memory)] for memory in memories], "  ")


def trash_lines(page: TrashPage, style: TextStyle) -> list[str]:
    """One line for each memory in the trash: id, date of deletion, reason, and first words."""
    entries = page.entries or [TrashView(memory=m, at=m.modified_at, why="") for m in page.memories]
    rows = [
        [
            style.location(short_id(entry.memory.id)),
            local_date(entry.at),
            reason_text(entry.why),
            first_line(entry.memory),
        ]
        for entry in entries
    ]
    return table(rows, width=style.width, clips=True)


def listed_lines(memories: Sequence[MemoryView], style: TextStyle, here: Path, home: Path, first: int = 1) -> list[str]:
    """Return a line for each memory: number, day of the event, location or id, first line.

    A path that would take more than two fifths of the line is cut at its beginning.
    """
    room = None if style.width is None else style.width * 2 // 5
    rows = [
        [f"{number:>{len(str(first + len(memories) - 1))}}", style.dim(f"{event_date(memory):10}"),
         style.location(clip_start(sanitize(location(memory, here, home)), room)), first_line(memory)]
        for number, memory in enumerate(memories, first)
    ]  # fmt: skip
    return table(rows, width=style.width, clips=True)


def step_lines(steps: Sequence[MemoryView], summary: MemoryView | None, style: TextStyle) -> list[str]:
    """Return a line for each step of a run, with its number, what was done and what came of it; then the summary."""
    rows = [
        [f"{step.trace.step_number:>4}", sanitize(" → ".join(filter(None, (step.trace.action, step.trace.outcome))))]
        for step in steps
        if step.trace is not None
    ]
    lines = table(rows, width=style.width)
    return [*lines, "", sanitize(summary.content, lines=True)] if summary is not None else lines


def graph_lines(answer: GraphAnswer, style: TextStyle) -> list[str]:
    """Return a line for each topic node with its number of pairs of turns, then one for each edge between two."""
    labels = {node.id: sanitize(node.label) or short_id(node.id) for node in answer.nodes}
    nodes = [
        [
            style.location(short_id(node.id)),
            f"{plural(node.members, 'pair'):>8}",
            local_date(node.last_at),
            labels[node.id],
        ]
        for node in answer.nodes
    ]
    edges = [
        [style.dim(_RELATION_LABELS.get(edge.relation) or edge.relation.replace("_", " ")),
         f"{number_text(edge.weight):>6}",
         f"{labels[edge.source]} · {labels[edge.target]}"]
        for edge in answer.edges
    ]  # fmt: skip
    lines = table(nodes, width=style.width, clips=True)
    return [*lines, "", *table(edges, width=style.width)] if edges else lines


def session_lines(sessions: Sequence[SessionView], style: TextStyle) -> list[str]:
    """Return a line for each conversation: when its latest turn was stored, how many, its name, if it goes on."""
    rows = [
        [
            local_minute(each.last_at),
            f"{plural(each.turns, 'turn'):>9}",
            style.bold(sanitize(each.session_id)),
            style.dim(sanitize(each.agent_id or "") if each.ended_at else "goes on"),
        ]
        for each in sessions
    ]
    return table(rows, width=style.width)


def turn_lines(answer: SessionAnswer, turns: Sequence[MemoryView], style: TextStyle) -> list[str]:
    """Return a line about a conversation, and one for each of these turns with its number, side and tier."""
    session, tiers = answer.session, answer.tiers
    end = f"ended {local_minute(session.ended_at)}" if session.ended_at else "goes on"
    counts = f"ring {tiers.ring} · recent {tiers.recent} · registry {tiers.registry} · archived {tiers.archived}"
    rows = [
        [
            f"{number:>4}",
            local_minute(turn.event_at),
            turn.turn.role,
            style.dim(turn.turn.tier if turn.state == "active" else turn.state),
            first_line(turn),
        ]
        for number, turn in enumerate(turns, 1)
        if turn.turn is not None
    ]
    return [f"{style.bold(sanitize(session.session_id))} · {end} · {counts}", *table(rows, width=style.width)]


def topic_lines(topics: Sequence[TopicView], style: TextStyle) -> list[str]:
    """Return a line for each topic, below its parent: id, name, number of members."""
    return [
        f"{'  ' * topic.level}{style.location(sanitize(topic.id))}  {style.bold(sanitize(topic.name))}"
        f"  {style.dim(number_text(topic.count))}"
        for topic in topics
    ]


def count_lines(counts: Mapping[str, int], style: TextStyle, chosen: str | None = None) -> list[str]:
    """Return a line for each name with its number of memories; `chosen` is marked."""
    rows = [
        [f"{number_text(count):>9}", style.bold(sanitize(name)) + (style.dim(" (in use)") if name == chosen else "")]
        for name, count in counts.items()
    ]
    return table(rows, width=style.width)


def reason_text(why: str) -> str:
    """Return a reason in words; a reason that a person gave stays as it is."""
    return _REASON_LABELS.get(why) or sanitize(why)


def undone_lines(undone: UndoAnswer, style: TextStyle) -> list[str]:
    verb = "would undo" if undone.dry_run else "undone"
    ids = ", ".join(short_id(each) for each in undone.ids[:10]) + (" …" if len(undone.ids) > 10 else "")
    changes = f"change {undone.seq}" if len(undone.seqs) < 2 else f"changes {undone.seqs[0]} to {undone.seq}"
    if undone.total > 10:
        changes += f", {undone.total} memories"
    return [f"{style.good(verb)}: {operation_text(undone.what)}" + (style.dim(f" ({changes}: {ids})") if ids else "")]


def operation_text(what: str) -> str:
    """Return the words for an operation of the history."""
    if what.startswith(_UNDO_PREFIX):
        first, *more = what.removeprefix(_UNDO_PREFIX).split(",")
        return f"undo of change {sanitize(first)}" + (f" and {len(more)} more" if more else "")
    return sanitize(_OPERATION_LABELS.get(what, what))


# Differences of texts


CONTEXT_CHARS = 30  # of unchanged text around a change
EXACT_COMPARISON_MAX = 40_000  # pairs of words that are compared: 0.1 s

# A word, an ideograph or a punctuation mark, with the space behind it.
_WORDS = re.compile(
    r"(?:[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|\W)\s*"
)


def word_diff(before: str, after: str, style: TextStyle) -> str:
    """Mark removed and added words among a few unchanged ones: `with [-Ines-]{+Otto+}.`; by colour if there is any."""
    parts = []
    changes = list(word_changes(before, after))
    for place, (kind, text) in enumerate(changes):
        shown = sanitize(text)
        if kind == "=":
            parts.append(_clipped_run(shown, is_first=place == 0, is_last=place == len(changes) - 1))
        elif style.colour:
            parts.append(style.bad(shown) if kind == "-" else style.good(shown))
        else:
            stripped = shown.rstrip()
            parts.append((f"[-{stripped}-]" if kind == "-" else f"{{+{stripped}+}}") + shown[len(stripped) :])
    return "".join(parts) if any(kind != "=" for kind, _ in changes) else "only white space"


def word_changes(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield runs of unchanged (=), removed (-) and added (+) words, in order, ignoring white space."""
    from difflib import SequenceMatcher

    old, new = _WORDS.findall(before.strip()), _WORDS.findall(after.strip())
    bare_old, bare_new = [word.rstrip() for word in old], [word.rstrip() for word in new]
    # Most edits change little between a common start and end. If the rest is long, frequent words are ignored
    # (autojunk): otherwise the comparison could take seconds.
    head = _common_prefix_length(bare_old, bare_new)
    tail = _common_prefix_length(bare_old[head:][::-1], bare_new[head:][::-1])
    if head:
        yield "=", "".join(new[:head])
    kept = new[len(new) - tail :]
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    bare_old, bare_new = bare_old[head:][: len(old)], bare_new[head:][: len(new)]
    matcher = SequenceMatcher(None, bare_old, bare_new, autojunk=len(old) * len(new) > EXACT_COMPARISON_MAX)
    for kind, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            yield "=", "".join(new[new_start:new_end])
            continue
        if old_start < old_end:
            removed = "".join(old[old_start:old_end])
            yield "-", removed.rstrip() if new_start < new_end else removed
        if new_start < new_end:
            yield "+", "".join(new[new_start:new_end])
    if kept:
        yield "=", "".join(kept)


def _common_prefix_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of words that both begin with."""
    for count, (word, counterpart) in enumerate(zip(one, other, strict=False)):
        if word != counterpart:
            return count
    return min(len(one), len(other))


def _clipped_run(text: str, *, is_first: bool, is_last: bool) -> str:
    """Return the ends of an unchanged run that are next to a change."""
    if len(text) <= 2 * CONTEXT_CHARS:
        return text
    head = "" if is_first else text[:CONTEXT_CHARS].rstrip() + " "
    tail = "" if is_last else " " + text[-CONTEXT_CHARS:].lstrip()
    return f"{head}…{tail}"
