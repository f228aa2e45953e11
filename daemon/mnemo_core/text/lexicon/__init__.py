"""Lists of words and of patterns, kept as data: one file a topic, one section a list.

A line `[name]` begins a section; a line that begins with `# ` is a comment. `@topic:name` among words stands for the
words of that list. The relation between the words of a section is documented by the function that reads it. A file is
read when a list of it is first requested. This is the one place of the core that reads files: those of its own package.
"""

import functools
import pkgutil
from collections.abc import Mapping


def listed(words: str) -> frozenset[str]:
    """The words of a short list that stands where it is used, separated by blanks."""
    return frozenset(words.split())


def words(topic: str, section: str) -> frozenset[str]:
    """The words of a list, without its numbers. Raises KeyError for an unknown list."""
    found = frozenset(word for group in groups(topic, section) for word in group if not word.isdecimal())
    included = (words(*each[1:].split(":")) for each in found if len(each) > 1 and each[0] == "@")
    return frozenset(word for word in found if len(word) < 2 or word[0] != "@").union(*included)


def groups(topic: str, section: str) -> list[list[str]]:
    """The groups of words of a list, separated by `·` or a line end, in order."""
    parts = (part for line in _sections(topic)[section] for part in line.split("·"))
    return [found for part in parts if (found := part.split())]


def lines(topic: str, section: str) -> list[str]:
    """The lines of a list, in order."""
    return [line for line in _sections(topic)[section] if line]


def patterns(topic: str, section: str, **named: str) -> list[str]:
    """The lines of a list of patterns, in order. `{NAME}` in one stands for what the caller gives by that name, or for
    the line of the section `macros` that begins with NAME. That line may hold the names of lines before it, or be
    `@topic:name` for any word of that list."""
    macros = [*named.items(), *(line.split(" ", 1) for line in _sections(topic).get("macros", ()) if line)]
    found = "\n".join(lines(topic, section))
    for name, pattern in reversed(macros):
        expanded = "|".join(sorted(words(*pattern[1:].split(":")))) if pattern[0] == "@" else pattern
        found = found.replace(f"{{{name}}}", expanded)
    return found.split("\n")


def alternation(topic: str, section: str, **named: str) -> str:
    """A list of patterns as the alternatives of one."""
    return "|".join(patterns(topic, section, **named))


def numbered(topic: str, section: str) -> dict[str, int]:
    """Each word of a list of groups that begin with a number, with that number."""
    return {word: int(number) for number, *rest in groups(topic, section) for word in rest}


def meanings(topic: str, section: str) -> dict[str, str]:
    """Each phrase of a list of lines `meaning = phrase, phrase`, with its meaning."""
    pairs = (line.split(" = ") for line in lines(topic, section))
    return {phrase: meaning for meaning, phrases in pairs for phrase in phrases.split(", ")}


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
