"""Lists of words and of patterns, kept as data: one file a topic, one section a list.

A line `[name]` begins a section; a line that begins with `# ` is a comment. What the words of a section are to each
other is said by the function that reads it. A file is read when a list of it is first asked for. This is the one place
of the core that reads files: those of its own package.
"""

import functools
import pkgutil
from collections.abc import Mapping


def listed(words: str) -> frozenset[str]:
    """The words of a short list that stands where it is used, parted by blanks."""
    return frozenset(words.split())


def words(topic: str, section: str) -> frozenset[str]:
    """The words of a list, parted by blanks. Raises KeyError for a list that is not there."""
    return frozenset(word for line in _sections(topic)[section] for word in line.split())


def groups(topic: str, section: str) -> list[list[str]]:
    """The groups of words of a list, parted by `·` or a line end, in order."""
    parts = (part for line in _sections(topic)[section] for part in line.split("·"))
    return [found for part in parts if (found := part.split())]


def lines(topic: str, section: str) -> list[str]:
    """The lines of a list, in order."""
    return [line for line in _sections(topic)[section] if line]


def patterns(topic: str, section: str, **named: str) -> list[str]:
    """The lines of a list of patterns, in order. `{NAME}` in one stands for what the caller gives by that name, or for
    the line of the section `macros` that begins with NAME; that line may hold the names of lines before it."""
    macros = [*named.items(), *(line.split(" ", 1) for line in _sections(topic).get("macros", ()) if line)]
    found = "\n".join(lines(topic, section))
    for name, pattern in reversed(macros):
        found = found.replace(f"{{{name}}}", pattern)
    return found.split("\n")


def alternation(topic: str, section: str, **named: str) -> str:
    """A list of patterns as the alternatives of one."""
    return "|".join(patterns(topic, section, **named))


def numbered(topic: str, section: str) -> dict[str, int]:
    """Each word of a list of groups that begin with a number, with that number."""
    return {word: int(number) for number, *rest in groups(topic, section) for word in rest}


@functools.cache
def _sections(topic: str) -> Mapping[str, list[str]]:
    data = pkgutil.get_data(__name__, f"{topic}.txt")
    if data is None:
        raise KeyError(topic)
    found: dict[str, list[str]] = {}
    listed: list[str] = []
    for line in data.decode().splitlines():
        if line.startswith("[") and line.endswith("]"):
            listed = found.setdefault(line[1:-1], [])
        elif not line.startswith("# "):
            listed.append(line)
    return found
