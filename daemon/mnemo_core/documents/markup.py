"""Parsing of a note: its title, front matter, headings, blocks and links. SPEC 6

One pass over the lines, no recursion, no backtracking: a hostile file costs what its size costs. Markdown,
reStructuredText, Org and plain text share the blocks (paragraph, list, table, code) and differ in headings and in
where code begins. Inline markup is left as it is. Metadata that makes no sense (an importance of "high") is ignored: a
note is never refused for it.
"""

import re
from collections.abc import Iterator, Sequence

from mnemo_core.documents.blocks import (
    INLINE_CODE,
    HeadingLine,
    LineItem,
    NoteDocument,
    TextBlock,
    WikiLink,
    read_items,
)
from mnemo_core.documents.front_matter import NoteMetadata, read_front_matter
from mnemo_core.documents.html_text import lines_without_html
from mnemo_core.documents.markup_blocks import (
    org_metadata,
    read_markdown_at,
    read_org_at,
    read_plain_at,
    read_rst,
    visible_lines,
)
from mnemo_core.text import lexicon
from mnemo_core.text.cleaning import mask_code, valid_tags
from mnemo_core.text.languages import CJK_CHARACTER
from mnemo_core.text.lazy_patterns import lazy_pattern

NOTE_SUFFIXES = (".md", ".markdown", ".rst.txt", ".rst", ".org", ".txt")  # longer ones before their ends
FORMAT_SUFFIXES = (".canvas", ".html", ".htm", ".ipynb", ".csv", ".tsv", ".docx", ".pdf")  # read by file_formats
LINK_CHARS_MAX = 256
LONG_WORD_CHARS = 10  # of one that tells as much as two
LONG_CJK_CHARS = 3


def suffix_of(name: str) -> str:
    """The suffix by which a file is known as a note (lower case), or "" for any other file."""
    lowered = name.lower()
    return next((s for s in (*NOTE_SUFFIXES, *FORMAT_SUFFIXES) if lowered.endswith(s) and len(lowered) > len(s)), "")


def parse(text: str, suffix: str, stem: str) -> NoteDocument:
    """Parse a document. `text` has `\\n` line ends; `suffix` is one of NOTE_SUFFIXES; `stem` names a file that
    has no other title. Never raises; linear in the length of the text."""
    lines = text.split("\n")
    meta, begin = NoteMetadata(), 0
    match suffix:
        case ".md" | ".markdown":
            meta, begin = read_front_matter(lines)
            lines = visible_lines(lines, begin)
            items = read_items(lines, read_markdown_at, begin)
        case ".rst" | ".rst.txt":
            items = read_rst(lines)
        case ".org":
            meta = org_metadata(lines)
            items = read_items(lines, read_org_at)
        case _:
            items = read_items(lines, read_plain_at)
    title, blocks = _in_sections(list(items), meta.title, may_title=suffix != ".org")
    if meta.properties:  # a passage of its own, which joins no other and so appears in no excerpt of one
        said = "\n".join(f"{each.key}: {each.value}" if each.key else each.value for each in meta.properties)
        blocks = (TextBlock("list", said, (), -1, 1, begin), *blocks)
    return NoteDocument(title or stem, meta, blocks, tuple(_links(lines)), bool(title))


def parse_markdown(lines: Sequence[str], title: str, stem: str, *, is_written: bool = False) -> NoteDocument:
    """The document of lines of Markdown that were made from something else: without front matter or comments.
    is_written: by a person, who may have written HTML too."""
    if is_written:
        lines, _ = lines_without_html(lines, 0)
    title, blocks = _in_sections(list(read_items(lines, read_markdown_at)), title, may_title=True)
    return NoteDocument(title or stem, NoteMetadata(), blocks, tuple(_links(lines)), bool(title))


def title_passage(document: NoteDocument, path: str) -> str:
    """The text by which a note without a passage is found: its title and its path, without what both say; "" where
    nobody gave it a title and its file's name tells nothing."""
    place = path[: -len(suffix_of(path))]
    folder, _, name = place.rpartition("/")
    if not (_SAYS.search(document.title) if document.is_titled else _is_telling(name)):
        return ""
    place = folder if document.title == name else place
    return f"{document.title} ({place})" if place else document.title


_SAYS = lazy_pattern(r"[^\W_]")
_NAME_WORD = lazy_pattern(r"[^\W\d_]{2,}")
_NAME_YEAR = lazy_pattern(r"(?<!\d)\d{4}(?!\d)")


def _is_telling(name: str) -> bool:
    """Return whether the name of an empty file says what it is about: two words, one and a year, or a long one."""
    silent = lexicon.words("vocabulary", "file names")
    telling = [word for word in _NAME_WORD.findall(name.lower()) if word not in silent]
    if len(telling) != 1:
        return bool(telling)
    long = LONG_CJK_CHARS if CJK_CHARACTER.match(telling[0]) else LONG_WORD_CHARS
    return len(telling[0]) >= long or _NAME_YEAR.search(name) is not None


# Headings, titles, sections


def _in_sections(items: Sequence[LineItem], given_title: str, *, may_title: bool) -> tuple[str, tuple[TextBlock, ...]]:
    """The title, "" where there is none, and the blocks with their trails.

    A heading that is alone on the top level and stands before everything else is the document's title and not part
    of any trail (not in Org, whose headings are entries). A heading with nothing below it is remembered as a
    paragraph of its own: in an outline the headings are the text.
    """
    headings = [item for item in items if isinstance(item, HeadingLine)]
    top = min((heading.level for heading in headings), default=0)
    tops = [heading for heading in headings if heading.level == top]
    titled = may_title and len(tops) == 1 and items[0] is tops[0] and given_title in ("", tops[0].text)
    title = given_title or (tops[0].text if titled else "")
    blocks: list[TextBlock] = []
    trail: list[HeadingLine] = []
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
        if after is None or (isinstance(after, HeadingLine) and after.level <= item.level):
            blocks.append(TextBlock("paragraph", item.text, texts[:-1], section, item.line, item.line, tags))
    return title, tuple(blocks)


def _tags_of(heading: HeadingLine) -> tuple[str, ...]:
    return heading.tags or inline_tags(heading.text)


# Links and tags

_WIKI_LINK = lazy_pattern(rf"\[\[([^\[\]|#\n]{{1,{LINK_CHARS_MAX}}})")
_INLINE_TAG = lazy_pattern(r"(?:^|(?<=[\s(,;，。；（、]))#([\w][\w/-]{0,63})", re.MULTILINE)
_HEX_COLOUR = lazy_pattern(r"(?=.*\d)(?:[0-9a-f]{3}|[0-9a-f]{6}|[0-9a-f]{8})", re.IGNORECASE)


def links_in(text: str) -> tuple[str, ...]:
    """The targets of the wiki links in a text, each once, in order. Links to the web are none."""
    found = (match[1].strip().removeprefix("file:").partition("::")[0].strip() for match in _WIKI_LINK.finditer(text))
    return tuple(dict.fromkeys(target for target in found if target and "://" not in target))


def _links(lines: Sequence[str]) -> Iterator[WikiLink]:
    for number, line in enumerate(lines, 1):
        if "[[" in line:
            for target in links_in(line):
                yield WikiLink(target, number)


def inline_tags(text: str) -> tuple[str, ...]:
    """The `#tags` of a Markdown or plain text, outside its code; not numbers (#12) and not colours (#ff0000)."""
    if "#" not in text:
        return ()
    prose = INLINE_CODE.sub(" ", mask_code(text))
    found = (match[1].rstrip("/-") for match in _INLINE_TAG.finditer(prose))
    return valid_tags(tag for tag in found if not tag.replace("/", "").isdigit() and not _HEX_COLOUR.fullmatch(tag))
