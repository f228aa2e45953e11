"""Memories as agents get them: a short result for programs, and a paragraph to read."""

from msgspec import UNSET

from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.retrieval import RecalledMemory
from mnemo_daemon.mcp.tool_types import FoundMemory
from mnemo_daemon.times import local_day


def memory_result(memory: MemoryView) -> FoundMemory:
    """Return the fields of a memory that an agent has a use for."""
    found = FoundMemory(
        id=memory.id,
        content=memory.content,
        kind=memory.kind,
        category=memory.category,
        namespace=memory.namespace,
        trust=memory.trust,
        version=memory.version,
        tags=memory.tags,
    )
    if memory.note is None or memory.note.dated:
        found.date = local_day(memory.event_at)
    if memory.speaker:
        found.speaker = memory.speaker
    if memory.state != "active":
        found.state = memory.state
    if memory.note is not None:
        found.path = memory.note.path
        found.line = memory.note.lines[0]
        found.heading = memory.note.trail
    if isinstance(memory, RecalledMemory):
        found.score = round(memory.score, 4)
        found.was = memory.was
        found.preference = memory.preference
        found.content_cut = memory.content_cut
        if memory.best is not None and memory.best.line is not None:
            found.line = memory.best.line
    return found


def paragraph(memory: FoundMemory) -> str:
    """Return a line with id, date, trust and location, then the text."""
    day = "" if memory.date is UNSET else memory.date
    head = [f"[{memory.id}]", *(part for part in ("was" if memory.was else "", day) if part), memory.trust]
    if memory.state is not UNSET:
        head.append(memory.state)
    if memory.score is not UNSET:
        head.append(f"score {memory.score:.2f}")
    if memory.path is not UNSET:
        head.append(f"{memory.path}:{memory.line}")
    if memory.heading is not UNSET:
        head.append(memory.heading)
    if memory.tags:
        head.append(f"tags: {', '.join(memory.tags)}")
    if memory.content_cut:
        head.append("cut to fit; memory_get returns the full text")
    return f"{' · '.join(head)}\n{memory.content}"
