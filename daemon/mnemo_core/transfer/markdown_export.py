"""Pages of Markdown for a folder of notes: the core memories and the topics, for a person to read. SPEC 6

Their front matter says that no memories are made of them, so that they are not read back where the folder is watched.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

HEAD = "---\nmemory: false\ngenerated-by: mnemod\n---\n"  # by which a page is known as ours


class ExportedMemory(NamedTuple):
    """A core memory, and its day."""

    day: str
    content: str


class ExportedTopic(NamedTuple):
    """A topic of a tree; level 0 is a root."""

    id: str
    name: str
    members: int
    level: int


def core_page(memories: Mapping[str, Sequence[ExportedMemory]]) -> str:
    """The page of the core memories of each namespace, in the order given."""
    items = {
        name: [f"- {memory.day}: " + "\n  ".join(memory.content.splitlines()) for memory in some]
        for name, some in memories.items()
    }
    return _page("Core memories", items)


def topics_page(topics: Mapping[str, Sequence[ExportedTopic]]) -> str:
    """The page of the topics of each namespace, a parent before its children."""
    items = {
        name: [f"{'  ' * each.level}- {' '.join(each.name.split())} ({each.members}, {each.id})" for each in some]
        for name, some in topics.items()
    }
    return _page("Topics", items)


def _page(title: str, items: Mapping[str, Sequence[str]]) -> str:
    parts = [f"{HEAD}# {title}\n\nWritten by mnemod; what is changed here is overwritten.\n"]
    parts += [f"\n## {namespace}\n\n" + "\n".join(some) + "\n" for namespace, some in items.items() if some]
    return "".join(parts)
