"""Memories as agents get them: a short result for programs, and a paragraph to read."""

from collections.abc import Iterable

from msgspec import UNSET

from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.retrieval import RecalledMemory
from mnemo_core.retrieval.context_block import OTHERS_HEADING, escape_content, grouped, inline_text
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
    found.author = memory.author or UNSET
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


def paragraphs(memories: Iterable[FoundMemory]) -> list[str]:
    """Return the memories as paragraphs, those of others than the user behind the rest and under their heading."""
    own = grouped(memories, lambda memory: memory.author or "")
    first = next((place for place, memory in enumerate(own) if memory.author), len(own))
    texts = list(map(paragraph, own))
    return [*texts[:first], *([OTHERS_HEADING, *texts[first:]] if texts[first:] else [])]


def paragraph(memory: FoundMemory) -> str:
    """Return a line with id, date, author or trust, and location, then the text, indented and escaped, so that it can
    forge no line of the answer."""
    day, author = "" if memory.date is UNSET else memory.date, memory.author or memory.trust
    head = [f"[{memory.id}]", *(part for part in ("was" if memory.was else "", day) if part), author]
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
    return f"{' · '.join(map(inline_text, head))}\n  {escape_content(memory.content, of_others=bool(memory.author))}"
