"""Blocks and headings of reStructuredText. SPEC 6"""

from collections.abc import Iterator, Sequence

from mnemo_core.documents.blocks import (
    BULLET,
    HEADING_CHARS_MAX,
    HEADING_DEPTH_MAX,
    HeadingLine,
    LineItem,
    indent_of,
    indented_end,
    list_end,
    make_block,
    rows_end,
)
from mnemo_core.text.lazy_patterns import lazy_pattern

TABLE_LOOKAHEAD_LINES = 20  # how far behind a blank line a simple table's last border is looked for
_ADORNMENTS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_CODE_DIRECTIVE = lazy_pattern(
    r"[ \t]*\.\. (?:code|code-block|sourcecode|literalinclude|parsed-literal|math|doctest|testcode|productionlist"
    r"|highlight|ipython|prompt)::"
)


def _adornment(line: str) -> str:
    """The mark a line of nothing but one punctuation mark consists of, or ""."""
    bare = line.rstrip()
    return bare[0] if bare and bare[0] in _ADORNMENTS and bare.count(bare[0]) == len(bare) else ""


def read_rst(lines: Sequence[str]) -> Iterator[LineItem]:
    """Levels are the adornments in the order in which they first appear, as docutils has it."""
    styles: list[str] = []
    index, size = 0, len(lines)
    while index < size:
        line = lines[index]
        if not line.strip():
            index += 1
            continue
        heading = _restructured_heading(lines, index)
        if heading is not None:
            style, text, at, end = heading
            if style not in styles:
                styles.append(style)
            yield HeadingLine(min(styles.index(style) + 1, HEADING_DEPTH_MAX), text, at + 1)
            index = end
        elif len(line.rstrip()) >= 4 and _adornment(line):
            index += 1  # a transition
        elif line.lstrip().startswith("+-"):
            end = rows_end(lines, index, lambda row: row.lstrip()[:1] in ("+", "|"))
            yield make_block("table", lines, index, end)
            index = end
        elif _is_simple_border(line):
            end = _simple_table_end(lines, index)
            yield make_block("table", lines, index, end)
            index = end
        elif _CODE_DIRECTIVE.match(line):
            end = indented_end(lines, index + 1, indent_of(line) + 1) if index + 1 < size else size
            end = end if _has_text(lines, index + 1, end) and indent_of(lines[end - 1]) > indent_of(line) else index + 1
            yield make_block("code", lines, index, end)
            index = end
        elif BULLET.match(line) and not line.lstrip().startswith(".."):
            end = list_end(lines, index, lambda at: _restructured_heading(lines, at) is not None)
            end = max(end, index + 1)
            yield make_block("list", lines, index, end)
            index = end
        else:
            end = index + 1
            while end < size and lines[end].strip() and _restructured_heading(lines, end) is None:
                end += 1
            yield make_block("paragraph", lines, index, end)
            index = end
            if lines[end - 1].rstrip().endswith("::"):
                index = _past_blank(lines, end)
                if index < size and indent_of(lines[index]) > indent_of(lines[end - 1]):
                    literal_end = indented_end(lines, index, indent_of(lines[end - 1]) + 1)
                    yield make_block("code", lines, index, literal_end)
                    index = literal_end


def _restructured_heading(lines: Sequence[str], index: int) -> tuple[str, str, int, int] | None:
    """(style, text, line of the text, behind its last line) of a heading that begins at index: text with an
    underline at least as long, or that below an overline of the same kind."""
    line = lines[index].rstrip()
    if not line or len(line) > HEADING_CHARS_MAX:
        return None
    mark = _adornment(line)
    if mark:
        if len(line) < 3 or index + 2 >= len(lines) or lines[index + 2].rstrip() != line:
            return None
        text = lines[index + 1].strip()
        if not text or len(text) > len(line) or _adornment(text):
            return None
        return mark * 2, text, index + 1, index + 3
    if line[0] in " \t" or index + 1 >= len(lines):
        return None
    below = lines[index + 1].rstrip()
    mark = _adornment(below)
    if not mark or len(below) < min(len(line), 4) or len(below) < len(line) * 0.75:
        return None
    return mark, line.strip(), index, index + 2


def _has_text(lines: Sequence[str], start: int, end: int) -> bool:
    return any(lines[at].strip() for at in range(start, end))


def _past_blank(lines: Sequence[str], index: int) -> int:
    while index < len(lines) and not lines[index].strip():
        index += 1
    return index


def _is_simple_border(line: str) -> bool:
    bare = line.strip()
    return "= " in bare and bare[0] == "=" and not set(bare) - {"=", " "}


def _simple_table_end(lines: Sequence[str], start: int) -> int:
    """Index after the border that precedes a blank line; without one, after the first blank line."""
    index, first_blank = start + 1, 0
    while index < len(lines):
        line = lines[index]
        if not line.strip():
            first_blank = first_blank or index
        elif _is_simple_border(line) and (index + 1 == len(lines) or not lines[index + 1].strip()):
            return index + 1
        elif first_blank and index - first_blank > TABLE_LOOKAHEAD_LINES:
            break
        index += 1
    return first_blank or len(lines)
