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
    items = {name: [_memory_item(memory) for memory in some] for name, some in memories.items()}
    return _page("Core memories", items)


def topics_page(topics: Mapping[str, Sequence[ExportedTopic]]) -> str:
    """The page of the topics of each namespace, a parent before its children."""
    return _page("Topics", {name: list(map(_topic_item, some)) for name, some in topics.items()})


def _memory_item(memory: ExportedMemory) -> str:
    content = "\n  ".join(memory.content.splitlines())
    return f"- {memory.day}: {content}"


def _topic_item(topic: ExportedTopic) -> str:
    return f"{'  ' * topic.level}- {' '.join(topic.name.split())} ({topic.members}, {topic.id})"


def _page(title: str, items: Mapping[str, Sequence[str]]) -> str:
    parts = [f"{HEAD}# {title}\n\nWritten by mnemod; what is changed here is overwritten.\n"]
    parts += [f"\n## {namespace}\n\n" + "\n".join(some) + "\n" for namespace, some in items.items() if some]
    return "".join(parts)
