"""Blocks, headings and metadata of Org. SPEC 6"""

import re
from collections.abc import Iterator, Sequence

from mnemo_core.documents.blocks import (
    BULLET,
    HEADING_CHARS_MAX,
    HEADING_DEPTH_MAX,
    Found,
    HeadingLine,
    LineItem,
    TextBlock,
    block_to,
    list_end,
    paragraph_end,
    read_items,
    rows_end,
)
from mnemo_core.documents.front_matter import NoteMetadata
from mnemo_core.documents.markdown import INTERRUPTING_BULLET
from mnemo_core.text.cleaning import valid_tags
from mnemo_core.text.lazy_patterns import lazy_pattern

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


def read_org(lines: Sequence[str]) -> Iterator[LineItem]:
    """Headings and blocks of Org lines."""
    return read_items(lines, _read_at)


def _read_at(lines: Sequence[str], index: int) -> Found:
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
        lines, index, lambda at: _is_org_start(lines[at]) or INTERRUPTING_BULLET.match(lines[at]) is not None
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
