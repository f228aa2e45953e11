"""Blocks and headings of reStructuredText. SPEC 6"""

from collections.abc import Iterator, Sequence

from mnemo_core.documents.blocks import (
    BULLET,
    HEADING_CHARS_MAX,
    HEADING_DEPTH_MAX,
    Found,
    HeadingLine,
    LineItem,
    block_to,
    consists_of,
    indent_of,
    indented_end,
    list_end,
    paragraph_end,
    read_items,
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
    """The punctuation mark that a line consists of, repeated; "" for any other line."""
    bare = line.rstrip()
    return bare[0] if bare and bare[0] in _ADORNMENTS and consists_of(bare, bare[0]) else ""


def read_rst(lines: Sequence[str]) -> Iterator[LineItem]:
    """Levels are the adornments in the order in which they first appear, as docutils has it."""
    styles: list[str] = []

    def read_at(lines: Sequence[str], index: int) -> Found:
        if (heading := _restructured_heading(lines, index)) is None:
            return _read_block(lines, index)
        style, text, at, end = heading
        if style not in styles:
            styles.append(style)
        return [HeadingLine(min(styles.index(style) + 1, HEADING_DEPTH_MAX), text, at + 1)], end

    return read_items(lines, read_at)


def _read_block(lines: Sequence[str], index: int) -> Found:
    line = lines[index]
    if len(line.rstrip()) >= 4 and _adornment(line):
        return [], index + 1  # a transition
    if line.lstrip().startswith("+-"):
        return block_to("table", lines, index, rows_end(lines, index, lambda row: row.lstrip()[:1] in ("+", "|")))
    if _is_simple_border(line):
        return block_to("table", lines, index, _simple_table_end(lines, index))
    if _CODE_DIRECTIVE.match(line):
        return block_to("code", lines, index, _below(lines, index, index + 1))
    if BULLET.match(line) and not line.lstrip().startswith(".."):
        return block_to("list", lines, index, list_end(lines, index, lambda at: _is_heading(lines, at)))
    end = paragraph_end(lines, index, lambda at: _is_heading(lines, at))
    items, _ = block_to("paragraph", lines, index, end)
    if not lines[end - 1].rstrip().endswith("::"):
        return items, end
    begin = next((at for at in range(end, len(lines)) if lines[at].strip()), len(lines))
    literal_end = _below(lines, end - 1, begin)
    return [*items, *(block_to("code", lines, begin, literal_end)[0] if literal_end > begin else ())], literal_end


def _is_heading(lines: Sequence[str], index: int) -> bool:
    return _restructured_heading(lines, index) is not None


def _below(lines: Sequence[str], head: int, begin: int) -> int:
    """Index after the lines from `begin` on that are indented deeper than the line `head`; `begin` without any."""
    least = indent_of(lines[head]) + 1
    first = next((lines[at] for at in range(begin, len(lines)) if lines[at].strip()), "")
    return indented_end(lines, begin, least) if indent_of(first) >= least else begin


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
