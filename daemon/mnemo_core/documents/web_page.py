"""The text of a saved web page as Markdown lines, each with the line of the file it comes from. SPEC 6

Headings, lists, preformatted text and table rows are kept; scripts, styles and drawings are left out. A tokenizer of
its own, because that of the standard library takes time that grows with the square of a hostile page (37 s for 64 KB of
`<a <a <a …`). This one looks at no character more than a few times, and nesting costs it nothing.
"""

import html
import re
from typing import NamedTuple

from mnemo_core.text.lazy_patterns import lazy_pattern

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
FENCE = "~~~~"


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
                self._write(FENCE, self._line)
                for number, line in enumerate(lines):
                    self._write(line, self._line + number)
                self._write(FENCE, self._line + len(lines) - 1)
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
