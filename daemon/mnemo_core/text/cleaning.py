"""Cleaning of texts and tags before they are stored, and the mask of their code. SPEC 5.1, 2.1 [L 1.2]

Code is not a statement of a person: fences of Markdown; literal blocks of reStructuredText, below a line that ends in
`::` or a directive for code; a session of an interpreter, from its prompt to the next blank line.
"""

import re
import unicodedata
from collections.abc import Iterable

from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_store.records import TAG_CHARS_MAX, TAGS_MAX

_MANY_NEWLINES = lazy_pattern(r"\n{3,}")
# The bound keeps a text full of "<private" without a ">" from costing more than its length.
_PRIVATE_TAG = lazy_pattern(r"<(/?)private(?:\s[^<>]{0,200})?>", re.IGNORECASE)  # and no <private-label>
_NOT_NEWLINE = lazy_pattern(r"[^\n]+")


class InvalidTextError(ValueError):
    """A text or tags that cannot be stored as they are; `hint` says what would be right."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def clean_text(text: str) -> str:
    """The text as it is stored: NFC, `\\n` line ends, no run of three newlines, no `<private>` span, ends stripped.

    Cleaning twice is cleaning once. The result may be empty. Raises InvalidTextError.
    """
    text = normalize_text(text)
    if "<" in text:
        text = remove_private_spans(text)
    return _MANY_NEWLINES.sub("\n\n", text).strip()  # [L 1.2]


def normalize_text(text: str) -> str:
    """The text in NFC with `\\n` as its only line end. Raises InvalidTextError."""
    reject_invalid(text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def reject_invalid(text: str) -> None:
    """Raise InvalidTextError, naming the place, where the text holds a NUL or half of a character."""
    nul = text.find("\0")
    if nul >= 0:
        raise InvalidTextError(
            f"the text holds a NUL at character {nul}", "remove the character with code 0; a binary file is not a text"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"the text holds a lone surrogate at character {error.start}"
        raise InvalidTextError(message, "send the text as UTF-8") from None


def remove_private_spans(text: str, *, keep_lines: bool = False) -> str:
    """The text without its `<private>…</private>` spans; a span that is never closed reaches to the end. With
    keep_lines the newlines within a span stay, so that what follows keeps its line numbers."""
    kept: list[str] = []
    depth, start, opened = 0, 0, 0
    for tag in _PRIVATE_TAG.finditer(text):
        if tag[1]:
            depth = max(0, depth - 1)
            if depth == 0 and opened > start:
                kept.append(text[start : opened - 1])
                kept.append(_newlines(text[opened - 1 : tag.end()]) if keep_lines else "")
                start, opened = tag.end(), 0
        else:
            if depth == 0:
                opened = tag.start() + 1  # plus one, so that 0 can mean "none is open"
            depth += 1
    if depth:
        kept.append(text[start : opened - 1])
        kept.append(_newlines(text[opened - 1 :]) if keep_lines else "")
    else:
        kept.append(text[start:])
    return "".join(kept)


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags trimmed, lower-cased, in NFC, each once, in order; empty ones are left out. Raises an
    InvalidTextError."""
    cleaned: dict[str, None] = {}
    for tag in tags:
        reject_invalid(tag)
        whole = unicodedata.normalize("NFC", tag.strip().lower())
        if not whole:
            continue
        if len(whole) > TAG_CHARS_MAX:
            message = f"the tag {whole[:TAG_CHARS_MAX]!r}… has {len(whole)} characters, at most {TAG_CHARS_MAX}"
            raise InvalidTextError(message, "shorten it")
        if not whole.isprintable():
            raise InvalidTextError(f"the tag {whole!r} holds a control character", "tags are one line of text")
        cleaned[whole] = None
    if len(cleaned) > TAGS_MAX:
        raise InvalidTextError(f"{len(cleaned)} tags, at most {TAGS_MAX}", f"a memory has at most {TAGS_MAX} tags")
    return tuple(cleaned)


def valid_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Like clean_tags, but without those that do not fit: for tags from a file, whose reader sees no error."""
    cleaned: dict[str, None] = {}
    for tag in tags:
        whole = unicodedata.normalize("NFC", tag.strip().lower())
        if whole and len(whole) <= TAG_CHARS_MAX and whole.isprintable():
            cleaned[whole] = None
    return tuple(cleaned)[:TAGS_MAX]


def _newlines(text: str) -> str:
    return _NOT_NEWLINE.sub("", text)


_MARKS = ("```", "~~~", "::", ">>>")
_FENCE = lazy_pattern(r"```|~~~(?!~)")  # a longer row of tildes underlines a heading
_CODE_DIRECTIVE = lazy_pattern(r"\.\. (?:code-block|code|sourcecode|doctest|testcode|testoutput|parsed-literal)::")


def mask_code(text: str) -> str:
    """The text, blank where it is code: every place stays where it was."""
    if not any(mark in text for mark in _MARKS):
        return text
    kept: list[str] = []
    fence = ""
    margin = -1  # of the line that a literal block is announced by
    is_session = False
    for line in text.split("\n"):
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        if fence:
            is_code = True
            fence = "" if bare.startswith(fence) else fence
        elif margin >= 0 and (not bare or indent > margin):
            is_code = True
        elif _FENCE.match(bare) is not None:
            is_code, fence, margin = True, bare[:3], -1
        else:
            is_session = bool(bare) and (is_session or bare.startswith(">>>"))
            is_code = is_session
            announces = _CODE_DIRECTIVE.match(bare) if bare.startswith(".. ") else bare.endswith("::")
            margin = indent if announces else -1
        kept.append(" " * len(line) if is_code else line)
    return "\n".join(kept)
