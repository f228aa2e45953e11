"""Rendering of the `<memory>` context block that precedes a prompt. SPEC 11 [L 4]

A stored text can neither close the block nor forge a line of it: `<memory`, `</memory` and lookalikes are escaped, as
is a `[` at the beginning of a line, and continuation lines of a memory are indented. Everything else, code included, is
rendered unchanged.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

from mnemo_core.text.lazy_patterns import lazy_pattern

DateDisplay = Literal["episodic", "all", "none"]

PART_CHARS_MAX = 240  # of each part of the bracket behind the kind

_CLOSED = lazy_pattern(r"[^()]*+(?:\([^()]*+\)[^()]*+)*+")
_SQUARE = str.maketrans("()", "[]")
_BRACKETS = "<＜﹤‹〈⟨"
_OPENING = lazy_pattern(f"[{_BRACKETS}]")
_INVISIBLE = lazy_pattern(r"[\s/\u200b-\u200f\u2060\ufeff]")
_LINE_BREAK = lazy_pattern(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")  # besides \n: where a reader may begin a line
_LEADING_BRACKET = lazy_pattern(
    r"^((?:[^\S\n]|[\x00-\x09\x0e-\x1b\x1f\x7f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff])*+)\[", re.MULTILINE
)


class ContextLine(NamedTuple):
    """A line of the block. `date` as it is shown, "" for none. is_earlier_value: an older value of one before it.

    location: title and headings, and the file and line, of a passage of a note. score: None where it was not ranked.
    is_cut: the content is a part of the memory.
    """

    id: str
    kind: str
    date: str
    content: str
    is_earlier_value: bool = False
    location: tuple[str, ...] = ()
    score: float | None = None
    is_cut: bool = False


def render_block(memories: Sequence[ContextLine], *, dates: DateDisplay = "all", ids: bool = False) -> str:
    """The whole block, one line a memory in the order given; "" when there is none."""
    if not memories:
        return ""
    return "\n".join(["<memory>", *(render_line(memory, dates=dates, ids=ids) for memory in memories), "</memory>"])


def render_line(memory: ContextLine, *, dates: DateDisplay = "all", ids: bool = False) -> str:
    """`[KIND] (id · place · score) date: content`, with what is known and wanted of these; further lines of the content
    are indented.

    An older value is always dated, and has `was` in the place of its id.
    """
    dated = memory.date and (
        memory.is_earlier_value or dates == "all" or (dates == "episodic" and memory.kind == "episodic")
    )
    head = f"[{memory.kind.upper()}]"
    parts = [
        "was" if memory.is_earlier_value else memory.id[-8:] if ids else "",
        "cut" if memory.is_cut else "",
        *memory.location,
    ]
    parts.append("" if memory.score is None else f"{memory.score:.2f}")
    named = f" ({inside})" if (inside := " · ".join(filter(None, map(_inline, parts)))) else ""
    date = f" {memory.date}:" if dated else ""
    return f"{head}{named}{date} {escape_content(memory.content)}"


def _inline(text: str) -> str:
    """The text as it may stand in the bracket behind the kind: on one line, its own brackets closed."""
    text = _OPENING.sub(_escape_tag, " ".join(text.split()))[:PART_CHARS_MAX]
    return text if _CLOSED.fullmatch(text) else text.translate(_SQUARE)


def escape_content(content: str) -> str:
    """The content as it may stand in the block."""
    text = _LINE_BREAK.sub("\n", _OPENING.sub(_escape_tag, content))
    text = _LEADING_BRACKET.sub(r"\1\\[", text)
    return text.replace("\n", "\n  ")


def _escape_tag(found: re.Match[str]) -> str:
    """Escapes the bracket where what follows reads as memory once folded and stripped of what cannot be seen."""
    following = found.string[found.end() : found.end() + 40]
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", following)).casefold()
    return "&lt;" if visible.startswith("memory") else found[0]
