"""Blocks and headings of Markdown, plain text, Org and reStructuredText. SPEC 6"""

import re
from collections.abc import Iterator, Sequence

from mnemo_core.documents.blocks import (
    BULLET,
    FENCE,
    HEADING_CHARS_MAX,
    HEADING_DEPTH_MAX,
    INLINE_CODE,
    Found,
    HeadingLine,
    LineItem,
    TextBlock,
    block_to,
    consists_of,
    fence_end,
    indent_of,
    indented_end,
    is_delimiter_row,
    is_rule,
    list_end,
    paragraph_end,
    read_items,
    rows_end,
)
from mnemo_core.documents.front_matter import NoteMetadata, is_machine_property
from mnemo_core.documents.html_text import lines_without_html
from mnemo_core.text.cleaning import valid_tags
from mnemo_core.text.lazy_patterns import lazy_pattern

_INTERRUPTING_BULLET = lazy_pattern(r" {0,3}(?:[-*+•]|1[.)])[ \t]+[^ \t]")
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


def read_markdown_at(lines: Sequence[str], index: int) -> Found:
    """The heading or the block of Markdown that begins on a line."""
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
    if _is_markdown_start(lines, at) or _INTERRUPTING_BULLET.match(line) or is_rule(line) or _is_table(lines, at):
        return True
    return at == start + 1 and _is_setext(line.strip())


def read_plain_at(lines: Sequence[str], index: int) -> Found:
    """The paragraph or the list of a plain text that begins on a line."""
    if BULLET.match(lines[index]):
        return block_to("list", lines, index, list_end(lines, index, lambda at: False))
    end = paragraph_end(lines, index, lambda at: _INTERRUPTING_BULLET.match(lines[at]) is not None)
    return block_to("paragraph", lines, index, end)


DRAWER_LINES_MAX = 50
METADATA_LINES_MAX = 200
_ORG_BEGIN = lazy_pattern(r"[ \t]*#\+begin_([a-z]{1,20})", re.IGNORECASE)
_ORG_KEYWORD = lazy_pattern(r"#\+(title|date|filetags|category):[ \t]*(.*)", re.IGNORECASE)
_ORG_HEADING = lazy_pattern(r"(\*+)[ \t]+(.*)")
_ORG_TAGS = lazy_pattern(r"[ \t]:([\w@#%:]{1,200}):[ \t]*$")
_ORG_PROPERTY = lazy_pattern(r"[ \t]*:([\w+-]{1,64}):[ \t]+(\S.*)")
_ORG_NOISE = frozenset({"ID", "CUSTOM_ID", "CREATED", "CATEGORY", "STYLE", "EFFORT", "LAST_REPEAT", "VISIBILITY"})
_DRAWERS = frozenset({":PROPERTIES:", ":LOGBOOK:"})
_ORG_CODE = frozenset({"src", "example", "export", "comment", "verse"})


def read_org_at(lines: Sequence[str], index: int) -> Found:
    """The heading or the block of Org that begins on a line."""
    line, stripped = lines[index], lines[index].strip()
    if line[0] == "*" and (heading := _org_heading(line)) is not None:
        return [heading._replace(line=index + 1)], index + 1
    if (begin := _ORG_BEGIN.match(line)) is not None and begin[1].lower() in _ORG_CODE:
        end_mark = f"#+end_{begin[1]}".lower()
        ends = (at + 1 for at in range(index + 1, len(lines)) if lines[at].strip().lower() == end_mark)
        return block_to("code", lines, index, next(ends, len(lines)))
    if _is_metadata(lines, index):
        return [], index + 1
    if stripped.upper() in _DRAWERS:
        return _read_drawer(lines, index)
    if stripped[0] == "|":
        return block_to("table", lines, index, rows_end(lines, index, lambda row: row.lstrip()[:1] == "|"))
    if BULLET.match(line):
        return block_to("list", lines, index, list_end(lines, index, lambda at: _is_org_start(lines[at])))
    end = paragraph_end(
        lines, index, lambda at: _is_org_start(lines[at]) or _INTERRUPTING_BULLET.match(lines[at]) is not None
    )
    return block_to("paragraph", lines, index, end)


def _is_metadata(lines: Sequence[str], index: int) -> bool:
    """Return whether the line is the first that states this about the file; any other is text."""
    match = _ORG_KEYWORD.match(lines[index].strip())
    if match is None or index >= METADATA_LINES_MAX:
        return False
    before = (found[1].lower() for line in lines[:index] if (found := _ORG_KEYWORD.match(line.strip())) is not None)
    return match[1].lower() not in before


def _read_drawer(lines: Sequence[str], index: int) -> Found:
    """A paragraph of the properties of a drawer; a log book has none."""
    end = _drawer_end(lines, index)
    said = []
    for line in lines[index + 1 : end]:
        match = _ORG_PROPERTY.match(line)
        if match is None and not line.strip().startswith(":"):  # a person's own text
            said.append(line.strip())
        elif match is not None and match[1].upper() not in _ORG_NOISE:
            said.append(f"{match[1].lower()}: {match[2].strip()}")
    text = "\n".join(said).strip()
    if not text or lines[index].strip().upper() != ":PROPERTIES:":
        return [], end
    return [TextBlock("paragraph", text, (), 0, index + 1, end)], end


def _org_heading(line: str) -> HeadingLine | None:
    match = _ORG_HEADING.match(line) if len(line) <= HEADING_CHARS_MAX else None
    if match is None or not match[2].strip():
        return None
    text = match[2].strip()
    tags = _ORG_TAGS.search(text)
    level = min(len(match[1]), HEADING_DEPTH_MAX)
    if tags is None or not tags.start():
        return HeadingLine(level, text, 0)
    return HeadingLine(level, text[: tags.start()].rstrip(), 0, valid_tags(tags[1].split(":")))


def _is_org_start(line: str) -> bool:
    if line[:1] == "*":
        return _org_heading(line) is not None
    return line.lstrip()[:2] == "#+" or line.strip().upper() in _DRAWERS


def _drawer_end(lines: Sequence[str], start: int) -> int:
    """Index after the drawer's :END:; without one in the section, only its first line is skipped."""
    for index in range(start + 1, min(start + DRAWER_LINES_MAX, len(lines))):
        line = lines[index].strip().upper()
        if line == ":END:":
            return index + 1
        if line[:1] == "*" or line in _DRAWERS:
            break
    return start + 1


def org_metadata(lines: Sequence[str]) -> NoteMetadata:
    """Metadata of an Org file, from its `#+` keywords."""
    found: dict[str, str] = {}
    for line in lines[:METADATA_LINES_MAX]:
        match = _ORG_KEYWORD.match(line.strip())
        if match is not None:
            found.setdefault(match[1].lower(), match[2].strip()[:HEADING_CHARS_MAX])
    tags = valid_tags(found.get("filetags", "").replace(":", " ").split())
    return NoteMetadata(title=found.get("title", ""), created=found.get("date", "").strip("<>[]"), tags=tags)


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
