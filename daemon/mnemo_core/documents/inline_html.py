"""Removal of HTML from Markdown: comments, tags with their attributes, scripts and styles. SPEC 6

What stands between the tags stays, in its line. Code stays as it is, and so does what is in angle brackets and is no
HTML: `List<String>`, `<https://…>`, `<your name>`.
"""

from collections.abc import Sequence

from mnemo_core.documents.blocks import BULLET, FENCE, INLINE_CODE_PATTERN, closes_fence
from mnemo_core.documents.web_page import ALT, BREAKS, DROPPED, unescape
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed

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
