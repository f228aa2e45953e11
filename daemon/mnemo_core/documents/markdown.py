"""Blocks and headings of Markdown and of plain text. SPEC 6"""

from collections.abc import Iterator, Sequence

from mnemo_core.documents.blocks import (
    BULLET,
    FENCE,
    HEADING_CHARS_MAX,
    INLINE_CODE,
    HeadingLine,
    LineItem,
    fence_end,
    indented_end,
    is_delimiter_row,
    is_rule,
    list_end,
    make_block,
    rows_end,
)
from mnemo_core.documents.front_matter import is_machine_property
from mnemo_core.text.lazy_patterns import lazy_pattern

INTERRUPTING_BULLET = lazy_pattern(r" {0,3}(?:[-*+•]|1[.)])[ \t]+[^ \t]")
_ATX = lazy_pattern(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")


def _atx(line: str) -> tuple[int, str] | None:
    match = _ATX.match(line) if len(line) <= HEADING_CHARS_MAX else None
    if match is None:
        return None
    text = (match[2] or "").strip()
    bare = text.rstrip("#")
    if bare != text and (not bare or bare[-1] in " \t"):  # a closing run of #, but not the one of "C#"
        text = bare.strip()
    return len(match[1]), text


def _is_markdown_start(lines: Sequence[str], index: int) -> bool:
    """Return whether a block that ends a paragraph or list begins at the line."""
    line = lines[index]
    first = line.lstrip(" ")[:1]
    if first == "#":
        return _atx(line) is not None
    return first in ("`", "~") and FENCE.match(line) is not None


def read_markdown(lines: Sequence[str], begin: int) -> Iterator[LineItem]:
    """Headings and blocks of Markdown lines, from the index `begin` on."""
    index, size = begin, len(lines)
    while index < size:
        line = lines[index]
        stripped = line.strip()
        if not stripped:
            index += 1
            continue
        first = stripped[0]
        if first == "#" and (heading := _atx(line)) is not None:
            if heading[1]:
                yield HeadingLine(heading[0], heading[1], index + 1)
            index += 1
        elif first in "`~" and (fence := FENCE.match(line)) is not None:
            end = fence_end(lines, index, fence[2])
            yield make_block("code", lines, index, end)
            index = end
        elif first in "-*_" and is_rule(line):
            index += 1
        elif line.startswith(("    ", "\t")) and not BULLET.match(line):
            end = indented_end(lines, index, 1)
            yield make_block("code", lines, index, end)
            index = end
        elif BULLET.match(line):
            end = list_end(lines, index, lambda at: _is_markdown_start(lines, at))
            end = max(end, index + 1)
            yield make_block("list", lines, index, end)
            index = end
        elif "|" in line and index + 1 < size and is_delimiter_row(lines[index + 1]):
            end = rows_end(lines, index, lambda row: "|" in row)
            yield make_block("table", lines, index, end)
            index = end
        else:
            end = _markdown_paragraph_end(lines, index)
            underline = lines[end].strip() if end < size else ""
            if end == index + 1 and underline and _is_setext(underline) and len(stripped) <= HEADING_CHARS_MAX:
                yield HeadingLine(1 if underline[0] == "=" else 2, stripped, index + 1)
                index = end + 1
            else:
                yield make_block("paragraph", lines, index, end)
                index = end


def visible_lines(lines: Sequence[str], begin: int) -> list[str]:
    """The lines from `begin` on without Obsidian's comments (`%% … %%`) and without properties that only programs
    read; what goes leaves its line empty. A comment that is never closed is none."""
    marks: dict[int, list[int]] = {}
    shown, fence = list(lines), ""
    for index in range(begin, len(lines)):
        line = lines[index]
        stripped = line.lstrip()
        if fence:
            fence = "" if stripped.startswith(fence) else fence
        elif stripped.startswith(("```", "~~~")):
            fence = stripped[:3]
        elif is_machine_property(line):
            shown[index] = ""
        elif "%%" in line:
            plain = INLINE_CODE.sub(lambda code: " " * len(code[0]), line) if "`" in line else line
            marks[index] = [mark.start() for mark in _COMMENT_MARK.finditer(plain)]
    count = sum(map(len, marks.values()))
    if count % 2:
        marks[max(marks)].pop()
    hidden = False
    for index in range(min(marks), max(marks) + 1) if count > 1 else ():
        parts, last = [], 0
        for at in marks.get(index, ()):
            parts.append("" if hidden else shown[index][last:at])
            hidden, last = not hidden, at + 2
        shown[index] = "" if hidden and not parts else "".join([*parts, "" if hidden else shown[index][last:]]).rstrip()
    return shown


_COMMENT_MARK = lazy_pattern("%%")


def _is_setext(underline: str) -> bool:
    return underline[0] in "=-" and underline.count(underline[0]) == len(underline)


def _markdown_paragraph_end(lines: Sequence[str], start: int) -> int:
    index = start + 1
    while index < len(lines):
        line = lines[index]
        stripped = line.strip()
        if not stripped or _is_markdown_start(lines, index) or INTERRUPTING_BULLET.match(line):
            break
        if (stripped[0] in "=-" and _is_setext(stripped) and index == start + 1) or is_rule(line):
            break
        if "|" in line and index + 1 < len(lines) and is_delimiter_row(lines[index + 1]):
            break
        index += 1
    return index


def read_plain_text(lines: Sequence[str]) -> Iterator[LineItem]:
    """Paragraphs, lists and code of a plain text."""
    index = 0
    while index < len(lines):
        line = lines[index]
        if not line.strip():
            index += 1
        elif BULLET.match(line):
            end = max(list_end(lines, index, lambda at: False), index + 1)
            yield make_block("list", lines, index, end)
            index = end
        else:
            end = index + 1
            while end < len(lines) and lines[end].strip() and not INTERRUPTING_BULLET.match(lines[end]):
                end += 1
            yield make_block("paragraph", lines, index, end)
            index = end
