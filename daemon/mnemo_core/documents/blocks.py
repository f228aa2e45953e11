"""Blocks, links and headings of a note, and the line scanning that its formats share. SPEC 6"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from mnemo_core.documents.front_matter import NoteMetadata
from mnemo_core.text.lazy_patterns import lazy_pattern

BlockKind = Literal["paragraph", "list", "table", "code"]
HEADING_CHARS_MAX = 256  # a longer "heading" is a paragraph: it would be repeated with every chunk below it
HEADING_DEPTH_MAX = 16  # deeper headings count as of this depth


class TextBlock(NamedTuple):
    """A run of lines that belong together."""

    kind: BlockKind
    text: str
    headings: tuple[str, ...]  # the trail from the top heading down, without the title
    section: int  # blocks below the same heading share it; two headings of the same name do not
    first_line: int  # 1-based, inclusive
    last_line: int
    tags: tuple[str, ...] = ()  # of the headings above


class WikiLink(NamedTuple):
    """A wiki link: its target as written, without alias and heading."""

    target: str
    line: int


class NoteDocument(NamedTuple):
    """A parsed note."""

    title: str  # of the front matter, else the one top heading the text begins with, else the file's name
    meta: NoteMetadata
    blocks: tuple[TextBlock, ...]
    links: tuple[WikiLink, ...]
    is_titled: bool = False  # the text gives the title


class HeadingLine(NamedTuple):
    """A heading on a line, with its level and tags."""

    level: int
    text: str
    line: int
    tags: tuple[str, ...] = ()


LineItem = HeadingLine | TextBlock  # yielded by the readers of lines, which leave out headings and section of a block
BULLET = lazy_pattern(r"[ \t]{0,12}(?:[-*+•]|[0-9]{1,9}[.)]|#\.|[a-zA-Z][.)])(?:[ \t]|$)")
_DELIMITER_CHARS = frozenset("|:- \t+")


def is_rule(line: str) -> bool:
    """A thematic break: three or more of one mark and nothing else."""
    bare = line.replace(" ", "").replace("\t", "")
    return len(bare) >= 3 and bare[0] in "-*_" and consists_of(bare, bare[0])


def consists_of(text: str, mark: str) -> bool:
    """Return whether the text is one mark, repeated."""
    return text.count(mark) == len(text)


def indent_of(line: str) -> int:
    """Number of blanks and tabs that the line begins with."""
    return len(line) - len(line.lstrip(" \t"))


# The items that begin on a line, and the index of the line after them.
Found = tuple[list[LineItem], int]


def read_items(
    lines: Sequence[str], read_at: Callable[[Sequence[str], int], Found], begin: int = 0
) -> Iterator[LineItem]:
    """The items of lines, from the index `begin` on. `read_at` reads those that begin on a line that is not blank."""
    index = begin
    while index < len(lines):
        if lines[index].strip():
            items, index = read_at(lines, index)
            yield from items
        else:
            index += 1


def block_to(kind: BlockKind, lines: Sequence[str], start: int, end: int) -> Found:
    """Lines start (inclusive) to end (exclusive), 0-based, as one block without blank lines at its end."""
    last = end
    while last > start + 1 and not lines[last - 1].strip():
        last -= 1
    return [TextBlock(kind, "\n".join(lines[start:last]), (), 0, start + 1, last)], end


def list_end(lines: Sequence[str], start: int, ends_item: Callable[[int], bool]) -> int:
    """Index after the last line of the list that begins at start: its items, their indented parts, blank lines between.
    A fence opened within an item is taken whole, whatever it contains."""
    index, blank = start, False
    fence = ""
    while index < len(lines):
        line = lines[index]
        stripped = line.lstrip(" \t")
        if fence:
            if stripped.startswith(fence) and not stripped.strip(fence[0] + " \t"):
                fence = ""
        elif not stripped:
            blank = True
        else:
            indented = line[0] in " \t"
            if not indented and (ends_item(index) or (blank and not BULLET.match(line)) or is_rule(line)):
                break
            blank = False
            if indented and stripped.startswith(("```", "~~~")):
                fence = stripped[:3]
        index += 1
    return max(index, start + 1)


def indented_end(lines: Sequence[str], start: int, least: int) -> int:
    """Index after the last line indented by `least` or more, blank lines between included."""
    index = last = start
    while index < len(lines):
        if lines[index].strip():
            if indent_of(lines[index]) < least:
                break
            last = index + 1
        index += 1
    return max(last, start + 1)


def is_delimiter_row(line: str) -> bool:
    """Return whether the line is the delimiter row of a Markdown or Org table."""
    return "-" in line and ("|" in line or "+" in line) and not set(line) - _DELIMITER_CHARS


def paragraph_end(lines: Sequence[str], start: int, ends: Callable[[int], bool]) -> int:
    """Index after the last line of the paragraph that begins at start: up to a blank line, or one that ends it."""
    return next((at for at in range(start + 1, len(lines)) if not lines[at].strip() or ends(at)), len(lines))


def rows_end(lines: Sequence[str], start: int, is_row: Callable[[str], bool]) -> int:
    """Index after the last of the rows that begin at start."""
    end = next((at for at in range(start, len(lines)) if not lines[at].strip() or not is_row(lines[at])), len(lines))
    return max(end, start + 1)


FENCE = lazy_pattern(r"( {0,3})(`{3,}|~{3,})")


def fence_end(lines: Sequence[str], start: int, opening: str) -> int:
    """Index after the line that closes the fence; an unclosed fence reaches to the end of the file."""
    mark = opening[0]
    for index in range(start + 1, len(lines)):
        if mark in lines[index][:4] and closes_fence(lines[index].strip(), opening):
            return index + 1
    return len(lines)


def closes_fence(stripped: str, opening: str) -> bool:
    """Return whether a line, without blanks around it, ends a fence that began with these marks."""
    return len(stripped) >= len(opening) and consists_of(stripped, opening[:1])


INLINE_CODE_PATTERN = r"(?<!`)(`{1,2})(?!`)[^`\n]{1,500}\1(?!`)"
INLINE_CODE = lazy_pattern(INLINE_CODE_PATTERN)
