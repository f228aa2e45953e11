"""Blocks and headings of Markdown and of plain text. SPEC 6"""

from collections.abc import Iterator, Sequence

from mnemo_core.documents.blocks import (
    BULLET,
    FENCE,
    HEADING_CHARS_MAX,
    INLINE_CODE,
    Found,
    HeadingLine,
    LineItem,
    block_to,
    consists_of,
    fence_end,
    indented_end,
    is_delimiter_row,
    is_rule,
    list_end,
    paragraph_end,
    read_items,
    rows_end,
)
from mnemo_core.documents.front_matter import is_machine_property
from mnemo_core.documents.inline_html import lines_without_html
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
    return read_items(lines, _read_at, begin)


def _read_at(lines: Sequence[str], index: int) -> Found:
    line, stripped = lines[index], lines[index].strip()
    first = stripped[0]
    if first == "#" and (heading := _atx(line)) is not None:
        return [HeadingLine(*heading, index + 1)] if heading[1] else [], index + 1
    if first in "`~" and (fence := FENCE.match(line)) is not None:
        return block_to("code", lines, index, fence_end(lines, index, fence[2]))
    if is_rule(line):
        return [], index + 1
    if BULLET.match(line):
        return block_to("list", lines, index, list_end(lines, index, lambda at: _is_markdown_start(lines, at)))
    if line.startswith(("    ", "\t")):
        return block_to("code", lines, index, indented_end(lines, index, 1))
    if _is_table(lines, index):
        return block_to("table", lines, index, rows_end(lines, index, lambda row: "|" in row))
    end = paragraph_end(lines, index, lambda at: _ends_paragraph(lines, index, at))
    underline = lines[end].strip() if end < len(lines) else ""
    if end == index + 1 and _is_setext(underline) and len(stripped) <= HEADING_CHARS_MAX:
        return [HeadingLine(1 if underline[0] == "=" else 2, stripped, index + 1)], end + 1
    return block_to("paragraph", lines, index, end)


def _is_table(lines: Sequence[str], index: int) -> bool:
    return "|" in lines[index] and index + 1 < len(lines) and is_delimiter_row(lines[index + 1])


def visible_lines(lines: Sequence[str], begin: int) -> list[str]:
    """The lines from `begin` on without HTML, without Obsidian's comments (`%% … %%`) and without properties that only
    programs read; what goes leaves its line empty. A comment that is never closed is none."""
    shown, code = lines_without_html(lines, begin)
    marks: dict[int, list[int]] = {}
    for index in range(begin, len(lines)):
        line = shown[index]
        if index in code:
            continue
        if is_machine_property(line):
            shown[index] = ""
        elif "%%" in line:
            plain = INLINE_CODE.sub(lambda code: " " * len(code[0]), line) if "`" in line else line
            if found := [mark.start() for mark in _COMMENT_MARK.finditer(plain)]:
                marks[index] = found
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
    return underline[:1] in ("=", "-") and consists_of(underline, underline[0])


def _ends_paragraph(lines: Sequence[str], start: int, at: int) -> bool:
    line = lines[at]
    if _is_markdown_start(lines, at) or INTERRUPTING_BULLET.match(line) or is_rule(line) or _is_table(lines, at):
        return True
    return at == start + 1 and _is_setext(line.strip())


def read_plain_text(lines: Sequence[str]) -> Iterator[LineItem]:
    """Paragraphs and lists of a plain text."""
    return read_items(lines, _read_plain_at)


def _read_plain_at(lines: Sequence[str], index: int) -> Found:
    if BULLET.match(lines[index]):
        return block_to("list", lines, index, list_end(lines, index, lambda at: False))
    end = paragraph_end(lines, index, lambda at: INTERRUPTING_BULLET.match(lines[at]) is not None)
    return block_to("paragraph", lines, index, end)
