"""Reading a note: its title, front matter, headings, blocks and links. SPEC 6

One pass over the lines, no recursion, no backtracking: a hostile file costs what its size costs. Markdown,
reStructuredText, Org and plain text share the blocks (paragraph, list, table, code) and differ in what a heading is
and where code begins. Inline markup is left as it is. What a file says of itself that makes no sense (an importance
of "high") is passed over: a note is never refused for it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from mnemo_core.documents.front_matter import NoteMetadata, NoteProperty, is_machine_property, read_front_matter
from mnemo_core.text.cleaning import valid_tags
from mnemo_core.text.lazy_patterns import lazy_pattern

BlockKind = Literal["paragraph", "list", "table", "code"]

NOTE_SUFFIXES = (".md", ".markdown", ".rst.txt", ".rst", ".org", ".txt")  # longer ones before their ends
FORMAT_SUFFIXES = (
    ".canvas",
    ".html",
    ".htm",
    ".ipynb",
    ".csv",
    ".tsv",
    ".docx",
    ".pdf",
)  # of those that note_formats reads
HEADING_CHARS_MAX = 256  # a longer "heading" is a paragraph: it would be repeated with every chunk below it
HEADING_DEPTH_MAX = 16  # deeper headings count as of this depth
LINK_CHARS_MAX = 256
PROPERTIES_CHARS_MAX = 4096  # of one note, in all
TABLE_LOOKAHEAD_LINES = 20  # how far behind a blank line a simple table's last border is looked for
DRAWER_LINES_MAX = 50


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
    title: str  # of the front matter, else the one top heading the text begins with, else the file's name
    meta: NoteMetadata
    blocks: tuple[TextBlock, ...]
    links: tuple[WikiLink, ...]


class _HeadingLine(NamedTuple):
    level: int
    text: str
    line: int
    tags: tuple[str, ...] = ()


_Item = _HeadingLine | TextBlock  # what a reader of lines yields; a Block's headings and section are not yet known


def suffix_of(name: str) -> str:
    """The suffix by which a file is known as a note (lower case), or "" for any other file."""
    lowered = name.lower()
    return next((s for s in (*NOTE_SUFFIXES, *FORMAT_SUFFIXES) if lowered.endswith(s) and len(lowered) > len(s)), "")


def parse(text: str, suffix: str, stem: str) -> NoteDocument:
    """The document in text. `text` has `\\n` line ends; `suffix` is one of NOTE_SUFFIXES; `stem` names a file that
    has no other title. Never raises; linear in the length of the text."""
    lines = text.split("\n")
    meta, begin = NoteMetadata(), 0
    match suffix:
        case ".md" | ".markdown":
            meta, begin = read_front_matter(lines)
            lines = _visible(lines, begin)
            items = _markdown(lines, begin)
        case ".rst" | ".rst.txt":
            items = _restructured(lines)
        case ".org":
            meta = _org_meta(lines)
            items = _org(lines)
        case _:
            items = _plain(lines)
    title, blocks = _in_sections(list(items), meta.title, stem, may_title=suffix != ".org")
    if meta.properties:
        blocks = (_property_block(meta.properties, begin), *blocks)
    return NoteDocument(title, meta, blocks, tuple(_links(lines)))


def parse_markdown(lines: Sequence[str], title: str, stem: str) -> NoteDocument:
    """The document of lines of Markdown that were made from something else: without front matter or comments."""
    title, blocks = _in_sections(list(_markdown(lines, 0)), title, stem, may_title=True)
    return NoteDocument(title, NoteMetadata(), blocks, tuple(_links(lines)))


def _property_block(properties: Sequence[NoteProperty], end: int) -> TextBlock:
    """The properties of a note as a passage of its own, which joins no other and so appears in no excerpt of one."""
    text = "\n".join(f"{each.key}: {each.value}" for each in properties)[:PROPERTIES_CHARS_MAX]
    return TextBlock("list", text, (), -1, 1, end)


# Headings, titles, sections


def _in_sections(
    items: Sequence[_Item], given_title: str, stem: str, *, may_title: bool
) -> tuple[str, tuple[TextBlock, ...]]:
    """The title, and the blocks with their trails.

    A heading that is alone on the top level and stands before everything else is the document's title and not part
    of any trail (not in Org, whose headings are entries). A heading with nothing below it is remembered as a
    paragraph of its own: in an outline the headings are the text.
    """
    headings = [item for item in items if isinstance(item, _HeadingLine)]
    top = min((heading.level for heading in headings), default=0)
    tops = [heading for heading in headings if heading.level == top]
    titled = may_title and len(tops) == 1 and items[0] is tops[0] and given_title in ("", tops[0].text)
    title = given_title or (tops[0].text if titled else "") or stem
    blocks: list[TextBlock] = []
    trail: list[_HeadingLine] = []
    texts: tuple[str, ...] = ()
    of_all = _tags_of(tops[0]) if titled else ()
    tags = of_all
    section = 0
    for index, item in enumerate(items):
        if isinstance(item, TextBlock):
            blocks.append(item._replace(headings=texts, section=section, tags=tags))
            continue
        section += 1
        if titled and item is tops[0]:
            continue
        while trail and trail[-1].level >= item.level:
            trail.pop()
        trail.append(item)
        texts = tuple(heading.text for heading in trail)
        tags = of_all + tuple(tag for heading in trail for tag in _tags_of(heading))
        after = items[index + 1] if index + 1 < len(items) else None
        if after is None or (isinstance(after, _HeadingLine) and after.level <= item.level):
            blocks.append(TextBlock("paragraph", item.text, texts[:-1], section, item.line, item.line, tags))
    return title, tuple(blocks)


def _tags_of(heading: _HeadingLine) -> tuple[str, ...]:
    return heading.tags or inline_tags(heading.text)


# Blocks that the formats share

_BULLET = lazy_pattern(r"[ \t]{0,12}(?:[-*+•]|[0-9]{1,9}[.)]|#\.|[a-zA-Z][.)])(?:[ \t]|$)")
_INTERRUPTING_BULLET = lazy_pattern(r" {0,3}(?:[-*+•]|1[.)])[ \t]+[^ \t]")
_DELIMITER_CHARS = frozenset("|:- \t+")


def _is_rule(line: str) -> bool:
    """A thematic break: three or more of one mark and nothing else."""
    if line.lstrip(" ")[:1] not in ("-", "*", "_"):
        return False
    bare = line.replace(" ", "").replace("\t", "")
    return len(bare) >= 3 and bare[0] in "-*_" and bare.count(bare[0]) == len(bare)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _block(kind: BlockKind, lines: Sequence[str], start: int, end: int) -> TextBlock:
    """Lines start (inclusive) to end (exclusive), 0-based, without blank ones at their end."""
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    return TextBlock(kind, "\n".join(lines[start:end]), (), 0, start + 1, end)


def _list_end(lines: Sequence[str], start: int, ends_item: Callable[[int], bool]) -> int:
    """Index after the last line of the list that begins at start: its items, their indented parts, blank lines between.

    A fence opened within an item is taken whole, whatever it contains.
    """
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
            if not indented and (ends_item(index) or (blank and not _BULLET.match(line)) or _is_rule(line)):
                break
            blank = False
            if indented and stripped.startswith(("```", "~~~")):
                fence = stripped[:3]
        index += 1
    return index


def _indented_end(lines: Sequence[str], start: int, least: int) -> int:
    """Index after the last line indented by `least` or more, blank lines between included."""
    index = last = start
    while index < len(lines):
        if lines[index].strip():
            if _indent(lines[index]) < least:
                break
            last = index + 1
        index += 1
    return max(last, start + 1)


def _is_delimiter_row(line: str) -> bool:
    return "-" in line and ("|" in line or "+" in line) and not set(line) - _DELIMITER_CHARS


def _rows_end(lines: Sequence[str], start: int, is_row: Callable[[str], bool]) -> int:
    index = start
    while index < len(lines) and lines[index].strip() and is_row(lines[index]):
        index += 1
    return max(index, start + 1)


# Markdown

_ATX = lazy_pattern(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_FENCE = lazy_pattern(r"( {0,3})(`{3,}|~{3,})")


def _fence_end(lines: Sequence[str], start: int, opening: str) -> int:
    """Index after the line that closes the fence; an unclosed fence reaches to the end of the file."""
    mark = opening[0]
    for index in range(start + 1, len(lines)):
        line = lines[index]
        if mark in line[:4]:
            stripped = line.strip()
            if len(stripped) >= len(opening) and stripped.count(mark) == len(stripped):
                return index + 1
    return len(lines)


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
    return first in ("`", "~") and _FENCE.match(line) is not None


def _markdown(lines: Sequence[str], begin: int) -> Iterator[_Item]:
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
                yield _HeadingLine(heading[0], heading[1], index + 1)
            index += 1
        elif first in "`~" and (fence := _FENCE.match(line)) is not None:
            end = _fence_end(lines, index, fence[2])
            yield _block("code", lines, index, end)
            index = end
        elif first in "-*_" and _is_rule(line):
            index += 1
        elif line.startswith(("    ", "\t")) and not _BULLET.match(line):
            end = _indented_end(lines, index, 1)
            yield _block("code", lines, index, end)
            index = end
        elif _BULLET.match(line):
            end = _list_end(lines, index, lambda at: _is_markdown_start(lines, at))
            end = max(end, index + 1)
            yield _block("list", lines, index, end)
            index = end
        elif "|" in line and index + 1 < size and _is_delimiter_row(lines[index + 1]):
            end = _rows_end(lines, index, lambda row: "|" in row)
            yield _block("table", lines, index, end)
            index = end
        else:
            end = _markdown_paragraph_end(lines, index)
            underline = lines[end].strip() if end < size else ""
            if end == index + 1 and underline and _is_setext(underline) and len(stripped) <= HEADING_CHARS_MAX:
                yield _HeadingLine(1 if underline[0] == "=" else 2, stripped, index + 1)
                index = end + 1
            else:
                yield _block("paragraph", lines, index, end)
                index = end


def _visible(lines: Sequence[str], begin: int) -> list[str]:
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
            plain = _INLINE_CODE.sub(lambda code: " " * len(code[0]), line) if "`" in line else line
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
        if not stripped or _is_markdown_start(lines, index) or _INTERRUPTING_BULLET.match(line):
            break
        if (stripped[0] in "=-" and _is_setext(stripped) and index == start + 1) or _is_rule(line):
            break
        if "|" in line and index + 1 < len(lines) and _is_delimiter_row(lines[index + 1]):
            break
        index += 1
    return index


# Plain text: paragraphs and lists


def _plain(lines: Sequence[str]) -> Iterator[_Item]:
    index = 0
    while index < len(lines):
        line = lines[index]
        if not line.strip():
            index += 1
        elif _BULLET.match(line):
            end = max(_list_end(lines, index, lambda at: False), index + 1)
            yield _block("list", lines, index, end)
            index = end
        else:
            end = index + 1
            while end < len(lines) and lines[end].strip() and not _INTERRUPTING_BULLET.match(lines[end]):
                end += 1
            yield _block("paragraph", lines, index, end)
            index = end


# reStructuredText

_ADORNMENTS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_CODE_DIRECTIVE = lazy_pattern(
    r"[ \t]*\.\. (?:code|code-block|sourcecode|literalinclude|parsed-literal|math|doctest|testcode|productionlist"
    r"|highlight|ipython|prompt)::"
)


def _adornment(line: str) -> str:
    """The mark a line of nothing but one punctuation mark consists of, or ""."""
    bare = line.rstrip()
    return bare[0] if bare and bare[0] in _ADORNMENTS and bare.count(bare[0]) == len(bare) else ""


def _restructured(lines: Sequence[str]) -> Iterator[_Item]:
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
            yield _HeadingLine(min(styles.index(style) + 1, HEADING_DEPTH_MAX), text, at + 1)
            index = end
        elif len(line.rstrip()) >= 4 and _adornment(line):
            index += 1  # a transition
        elif line.lstrip().startswith("+-"):
            end = _rows_end(lines, index, lambda row: row.lstrip()[:1] in ("+", "|"))
            yield _block("table", lines, index, end)
            index = end
        elif _is_simple_border(line):
            end = _simple_table_end(lines, index)
            yield _block("table", lines, index, end)
            index = end
        elif _CODE_DIRECTIVE.match(line):
            end = _indented_end(lines, index + 1, _indent(line) + 1) if index + 1 < size else size
            end = end if _has_text(lines, index + 1, end) and _indent(lines[end - 1]) > _indent(line) else index + 1
            yield _block("code", lines, index, end)
            index = end
        elif _BULLET.match(line) and not line.lstrip().startswith(".."):
            end = _list_end(lines, index, lambda at: _restructured_heading(lines, at) is not None)
            end = max(end, index + 1)
            yield _block("list", lines, index, end)
            index = end
        else:
            end = index + 1
            while end < size and lines[end].strip() and _restructured_heading(lines, end) is None:
                end += 1
            yield _block("paragraph", lines, index, end)
            index = end
            if lines[end - 1].rstrip().endswith("::"):
                index = _past_blank(lines, end)
                if index < size and _indent(lines[index]) > _indent(lines[end - 1]):
                    literal_end = _indented_end(lines, index, _indent(lines[end - 1]) + 1)
                    yield _block("code", lines, index, literal_end)
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


# Org

_ORG_BEGIN = lazy_pattern(r"[ \t]*#\+begin_([a-z]{1,20})", re.IGNORECASE)
_ORG_KEYWORD = lazy_pattern(r"#\+(title|date|filetags|category):[ \t]*(.*)", re.IGNORECASE)
_ORG_HEADING = lazy_pattern(r"(\*+)[ \t]+(.*)")
_ORG_TAGS = lazy_pattern(r"[ \t]:([\w@#%:]{1,200}):[ \t]*$")
_ORG_PROPERTY = lazy_pattern(r"[ \t]*:([\w+-]{1,64}):[ \t]+(\S.*)")
_ORG_NOISE = frozenset({"ID", "CUSTOM_ID", "CREATED", "CATEGORY", "STYLE", "EFFORT", "LAST_REPEAT", "VISIBILITY"})
_DRAWERS = frozenset({":PROPERTIES:", ":LOGBOOK:"})
_ORG_CODE = frozenset({"src", "example", "export", "comment", "verse"})


def _org(lines: Sequence[str]) -> Iterator[_Item]:
    index, size = 0, len(lines)
    while index < size:
        line = lines[index]
        stripped = line.strip()
        if not stripped:
            index += 1
        elif line[0] == "*" and (heading := _org_heading(line)) is not None:
            yield heading._replace(line=index + 1)
            index += 1
        elif stripped[0] == "#" and (begin := _ORG_BEGIN.match(line)) is not None and begin[1].lower() in _ORG_CODE:
            end = _org_block_end(lines, index, begin[1])
            yield _block("code", lines, index, end)
            index = end
        elif stripped[0] == "#" and _ORG_KEYWORD.match(stripped):
            index += 1
        elif stripped.upper() in _DRAWERS:
            end = _drawer_end(lines, index)
            found = [match for line in lines[index:end] if (match := _ORG_PROPERTY.match(line)) is not None]
            text = "\n".join(
                f"{each[1].lower()}: {each[2].strip()}" for each in found if each[1].upper() not in _ORG_NOISE
            )
            if text and stripped.upper() == ":PROPERTIES:":
                yield TextBlock("paragraph", text[:PROPERTIES_CHARS_MAX], (), 0, index + 1, end)
            index = end
        elif stripped[0] == "|":
            end = _rows_end(lines, index, lambda row: row.lstrip()[:1] == "|")
            yield _block("table", lines, index, end)
            index = end
        elif _BULLET.match(line):
            end = _list_end(lines, index, lambda at: _is_org_start(lines[at]))
            end = max(end, index + 1)
            yield _block("list", lines, index, end)
            index = end
        else:
            end = index + 1
            while end < size and lines[end].strip() and not _is_org_start(lines[end]):
                if _INTERRUPTING_BULLET.match(lines[end]):
                    break
                end += 1
            yield _block("paragraph", lines, index, end)
            index = end


def _org_heading(line: str) -> _HeadingLine | None:
    match = _ORG_HEADING.match(line) if len(line) <= HEADING_CHARS_MAX else None
    if match is None or not match[2].strip():
        return None
    text = match[2].strip()
    tags = _ORG_TAGS.search(text)
    if tags is None or not tags.start():
        return _HeadingLine(min(len(match[1]), HEADING_DEPTH_MAX), text, 0)
    own = valid_tags(tags[1].split(":"))
    return _HeadingLine(min(len(match[1]), HEADING_DEPTH_MAX), text[: tags.start()].rstrip(), 0, own)


def _is_org_start(line: str) -> bool:
    if line[:1] == "*":
        return _org_heading(line) is not None
    return line.lstrip()[:2] == "#+" or line.strip().upper() in _DRAWERS


def _org_block_end(lines: Sequence[str], start: int, name: str) -> int:
    end_mark = f"#+end_{name}".lower()
    for index in range(start + 1, len(lines)):
        if lines[index].strip().lower() == end_mark:
            return index + 1
    return len(lines)


def _drawer_end(lines: Sequence[str], start: int) -> int:
    """Index after the drawer's :END:; without one in the section, only its first line is skipped."""
    for index in range(start + 1, min(start + DRAWER_LINES_MAX, len(lines))):
        line = lines[index].strip().upper()
        if line == ":END:":
            return index + 1
        if line[:1] == "*" or line in _DRAWERS:
            break
    return start + 1


def _org_meta(lines: Sequence[str]) -> NoteMetadata:
    found: dict[str, str] = {}
    for line in lines[:200]:
        match = _ORG_KEYWORD.match(line.strip())
        if match is not None:
            found.setdefault(match[1].lower(), match[2].strip()[:HEADING_CHARS_MAX])
    tags = valid_tags(found.get("filetags", "").replace(":", " ").split())
    return NoteMetadata(title=found.get("title", ""), created=found.get("date", "").strip("<>[]"), tags=tags)


# Links and tags

_WIKI_LINK = lazy_pattern(rf"\[\[([^\[\]|#\n]{{1,{LINK_CHARS_MAX}}})")
_INLINE_TAG = lazy_pattern(r"(?:^|(?<=[\s(,;，。；（、]))#([\w][\w/-]{0,63})", re.MULTILINE)
_HEX_COLOUR = lazy_pattern(r"(?=.*\d)(?:[0-9a-f]{3}|[0-9a-f]{6}|[0-9a-f]{8})", re.IGNORECASE)


def links_in(text: str) -> tuple[str, ...]:
    """The targets of the wiki links in a text, each once, in order. Links to the web are none."""
    if "[[" not in text:
        return ()
    targets: dict[str, None] = {}
    for match in _WIKI_LINK.finditer(text):
        target = match[1].strip().removeprefix("file:").partition("::")[0].strip()
        if target and "://" not in target:
            targets[target] = None
    return tuple(targets)


def _links(lines: Sequence[str]) -> Iterator[WikiLink]:
    for number, line in enumerate(lines, 1):
        if "[[" in line:
            for target in links_in(line):
                yield WikiLink(target, number)


def inline_tags(text: str) -> tuple[str, ...]:
    """The `#tags` of a Markdown or plain text, outside its code; not numbers (#12) and not colours (#ff0000)."""
    if "#" not in text:
        return ()
    prose = _without_code(text) if "`" in text or "~~~" in text else text
    found = (match[1].rstrip("/-") for match in _INLINE_TAG.finditer(prose))
    return valid_tags(tag for tag in found if not tag.replace("/", "").isdigit() and not _HEX_COLOUR.fullmatch(tag))


_INLINE_CODE = lazy_pattern(r"(?<!`)(`{1,2})(?!`)[^`\n]{1,500}\1(?!`)")


def _without_code(text: str) -> str:
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        stripped = line.lstrip()
        if fence:
            if stripped.startswith(fence):
                fence = ""
        elif stripped.startswith(("```", "~~~")):
            fence = stripped[:3]
        else:
            kept.append(line)
    return _INLINE_CODE.sub(" ", "\n".join(kept))
