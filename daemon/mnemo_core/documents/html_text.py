"""The text of HTML: of a saved web page, and of what is in Markdown. SPEC 6

A page becomes Markdown lines, each with the line of the file it comes from. Headings, lists, preformatted text and
table rows are kept; scripts, styles and drawings are left out. A tokenizer of its own, because that of the standard
library takes time that grows with the square of a hostile page (37 s for 64 KB of `<a <a <a …`). This one looks at no
character more than a few times, and nesting costs it nothing.

Of Markdown, comments, tags with their attributes, scripts and styles are removed. What is between the tags stays, in
its line. Code stays as it is, and so does what is in angle brackets and is no HTML: `List<String>`, `<https://…>`,
`<your name>`.
"""

import html
import re
from collections.abc import Sequence
from typing import NamedTuple

from mnemo_core.documents.blocks import BULLET, FENCE, INLINE_CODE_PATTERN, closes_fence
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed

_TAG = lazy_pattern(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]{0,30}+)([^<>]*+)>")
_OPEN_TAG = lazy_pattern(r"</?[a-zA-Z][a-zA-Z0-9:-]{0,30}+(?:\s++[^<>=\s]++=[^<>]*+)?\Z")
_OTHER_MARKUP = lazy_pattern(r"<[!?/][^<>]*+>")
ALT = lazy_pattern(r"\balt\s{0,8}=\s{0,8}(?:\"([^\"]{0,300})\"|'([^']{0,300})')", re.IGNORECASE)
DROPPED = {name: lazy_pattern(rf"</{name}\b[^<>]*+>", re.IGNORECASE) for name in ("script", "style", "template", "svg")}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
BREAKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "br", "caption", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "head", "header", "hr", "html", "main", "nav", "ol", "option",
    "p", "section", "summary", "table", "tbody", "tfoot", "thead", "title", "ul", *_HEADINGS, "li", "tr", "pre",
})  # fmt: skip
_APART = BREAKS - {"br", "li", "tr", "dt", "dd", "tbody", "thead", "option"}  # become paragraphs of their own
CODE_FENCE = "~~~~"


class WebPage(NamedTuple):
    """`lines` are Markdown; `origins` has for each the 1-based line of the page that it begins on."""

    title: str
    lines: list[str]
    origins: list[int]


def read_web_page(text: str) -> WebPage:
    """The title and text of an HTML page. Never raises; linear in the length of the text."""
    writer = _PageWriter()
    at, line, counted = 0, 1, 0
    comments_end = True
    while (start := text.find("<", at)) >= 0:
        writer.add(text[at:start], line)
        line += text.count("\n", counted, start)
        counted = start
        if comments_end and text.startswith("<!--", start):
            end = text.find("-->", start + 4)
            comments_end = end >= 0
            at = end + 3 if comments_end else start + 4
        elif (tag := _TAG.match(text, start)) is not None:
            name, at = tag[2].lower(), tag.end()
            writer.tag(name, bool(tag[1]), tag[3], line)
            if name in DROPPED and not tag[1] and not tag[3].endswith("/"):
                closing = DROPPED[name].search(text, at)
                at = closing.end() if closing is not None else len(text)
        elif (other := _OTHER_MARKUP.match(text, start)) is not None:
            at = other.end()
        elif _OPEN_TAG.match(text, start) is not None:  # and nothing closes it
            at = len(text)
        else:
            writer.add("<", line)
            at = start + 1
    writer.add(text[at:], line)
    writer.end_line(apart=True)
    return WebPage(writer.title, writer.lines, writer.origins)


class _PageWriter:
    """Builder of the lines between tags."""

    def __init__(self) -> None:
        self.title = ""
        self.lines: list[str] = []
        self.origins: list[int] = []
        self._parts: list[str] = []
        self._prefix = ""
        self._line = 0  # of the first part
        self._is_title = False
        self._is_pre = False

    def add(self, text: str, line: int) -> None:
        """Append text that begins on this line of the page."""
        if not text or not (self._parts or self._is_pre or text.strip()):
            return
        if not self._parts:
            self._line = line + (0 if self._is_pre else text[: len(text) - len(text.lstrip())].count("\n"))
        self._parts.append(text)

    def tag(self, name: str, is_end: bool, attributes: str, line: int) -> None:
        """Apply the effect of a tag to the lines."""
        if name == "title":
            self.end_line(apart=True)
            self._is_title = not is_end and not self.title
        elif name == "pre":
            self.end_line(apart=True)
            self._is_pre = not is_end
        elif self._is_pre:
            return
        elif name == "img":
            alt = ALT.search(attributes)
            if alt is not None:
                self.add(alt[1] or alt[2] or "", line)
        elif name in ("td", "th"):
            if is_end and self._parts:
                self._parts.append(" | ")
        elif name in BREAKS:
            self.end_line(apart=name in _APART)
            if not is_end:
                self._prefix = "#" * _HEADINGS[name] + " " if name in _HEADINGS else "- " if name == "li" else ""

    def end_line(self, *, apart: bool) -> None:
        """Emit the collected line; `apart`: with an empty line after it."""
        written, prefix = "".join(self._parts), self._prefix
        self._parts, self._prefix = [], ""
        text = unescape(written)
        if self._is_title:
            self.title, self._is_title = " ".join(text.split())[:256], False
            return
        if self._is_pre:
            if text.strip():
                lines = text.strip("\n").split("\n")
                self._write(CODE_FENCE, self._line)
                for number, line in enumerate(lines):
                    self._write(line, self._line + number)
                self._write(CODE_FENCE, self._line + len(lines) - 1)
        elif bare := " ".join(text.split()).removesuffix("|").rstrip():
            self._write(prefix + bare, self._line)
        if apart and self.lines and self.lines[-1]:
            self._write("", self._line)

    def _write(self, line: str, origin: int) -> None:
        self.lines.append(line)
        self.origins.append(max(1, origin))


def unescape(text: str) -> str:
    """The text with its character references replaced; as it is where one is too long to be one."""
    try:
        return html.unescape(text) if "&" in text else text
    except ValueError:  # a number of thousands of digits
        return text


TAG_LINES_MAX = 20

_ELEMENTS = BREAKS | frozenset(DROPPED) | listed(
    "a abbr acronym area audio b base bdi bdo big blink button canvas center cite code col colgroup data datalist del"
    " dfn dialog dir em embed font frame frameset g hgroup i iframe img input ins kbd label legend link map mark math"
    " menu meta meter nobr noscript object optgroup output param path picture progress q rp rt ruby s samp select small"
    " source span strike strong sub sup td textarea th time track tt u var video wbr"
)  # fmt: skip
_MARKUP = lazy_pattern(
    rf"{INLINE_CODE_PATTERN}|(?P<comment><!--)"  # the code's first group are its backticks
    r"|<(?P<end>/?)(?P<name>[a-zA-Z][a-zA-Z0-9]{0,30}+)(?P<attributes>(?:[\s/][^<>]*+)?)(?P<close>>|$)"
)
_BLANK = lazy_pattern("[\n\u00a0]")
_ENDS = {**DROPPED, "-->": lazy_pattern("-->"), ">": lazy_pattern(">")}


def lines_without_html(lines: Sequence[str], begin: int) -> tuple[list[str], frozenset[int]]:
    """The lines, from `begin` on without HTML, and the indices of those that are code, which are as they were."""
    writer = _HtmlRemoval(lines)
    fence, is_list, code = "", False, set()
    for index in range(begin, len(lines)):
        line, stripped = writer.lines[index], lines[index].strip()
        before = lines[index - 1] if index > begin else ""
        is_indented = line.startswith(("    ", "\t")) and not is_list
        if fence:
            code.add(index)
            if closes_fence(stripped, fence):
                fence = ""
        elif writer.until:
            writer.read(index)
        elif not stripped:
            continue
        elif is_indented and (not before.strip() or index - 1 in code):
            code.add(index)
        elif (opened := FENCE.match(stripped)) is not None:
            code.add(index)
            fence = opened[2]
        else:
            if BULLET.match(line):
                is_list = True
            elif line[0] not in " \t" and not before.strip():
                is_list = False
            if "<" in line or "&" in line:
                writer.read(index)
            if is_indented and index and not writer.lines[index - 1]:  # within an element: no code
                writer.lines[index] = writer.lines[index].lstrip()
    return writer.lines, frozenset(code)


class _HtmlRemoval:
    """The lines, of which one after the other is read."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = list(lines)
        self.until = ""  # the end of what is left out, a key of _ENDS
        self._last: dict[str, int] = {}  # the last line that has each end
        if any("<" in line for line in lines):
            for index, line in enumerate(lines):
                if "-->" in line:
                    self._last["-->"] = index
                if "</" in line:
                    self._last.update((name, index) for name in DROPPED if DROPPED[name].search(line))

    def read(self, index: int) -> None:
        """Remove the HTML of a line."""
        line, at, is_inside = self.lines[index], 0, bool(self.until)
        if is_inside:
            end = _ENDS[self.until].search(line)
            if end is None:
                self.lines[index] = ""
                return
            self.until, at = "", end.end()
        parts: list[str] = []
        missing: set[str] = set()  # ends that the rest of the line does not have
        while not self.until and (found := _MARKUP.search(line, at)) is not None:
            parts.append(_plain(line[at : found.start()]))
            at = found.end()
            name = "-->" if found["comment"] else (found["name"] or "").lower()
            if found[1] or (name != "-->" and name not in _ELEMENTS):
                parts.append(found[0])
                continue
            if not found["comment"]:
                if not found["close"] and not self._closes_below(index):
                    parts.append(found[0])
                    continue
                parts.append(_instead(name, found["attributes"]))
                if not found["close"]:
                    self.until = ">"
                    break
            if name in _ENDS and not found["end"]:
                end = _ENDS[name].search(line, at) if name not in missing else None
                if end is not None:
                    at = end.end()
                elif self._last.get(name, -1) > index:
                    self.until = name
                else:
                    missing.add(name)
                    parts.append(found[0] if found["comment"] else "")
        if not self.until:
            parts.append(_plain(line[at:]))
        rest = "".join(parts).rstrip()
        self.lines[index] = rest if line[0] in " \t" and not is_inside else rest.lstrip()

    def _closes_below(self, index: int) -> bool:
        """Return whether a tag that is open at the end of the line is closed in one of the next, in its paragraph."""
        for line in self.lines[index + 1 : index + TAG_LINES_MAX]:
            close = line.find(">")
            if close >= 0:
                return "<" not in line[:close]
            if not line.strip() or "<" in line:
                return False
        return False


def _plain(text: str) -> str:
    return _BLANK.sub(" ", unescape(text)) if "&" in text else text


def _instead(name: str, attributes: str) -> str:
    """The text in place of a tag: a picture's description, a blank for what begins a line."""
    if name == "img" and (alt := ALT.search(attributes)) is not None:
        return alt[1] or alt[2] or ""
    return " " if name in BREAKS or name in ("td", "th") else ""
