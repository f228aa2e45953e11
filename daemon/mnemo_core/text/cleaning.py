"""Cleaning of texts and tags before they are stored. SPEC 5.1, 2.1 [L 1.2]

InvalidTextError
├── NulCharacterError   a text holds a NUL
├── LoneSurrogateError  a text holds half a character
├── TagTooLongError
├── UnreadableTagError  a tag holds a line break or control character
└── TooManyTagsError
"""

import re
import unicodedata
from collections.abc import Iterable

from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_store.records import TAG_CHARS_MAX, TAGS_MAX

NEWLINES_MAX = "\n\n"  # what three or more newlines become [L 1.2]

_MANY_NEWLINES = lazy_pattern(r"\n{3,}")
# The bound keeps a text full of "<private" without a ">" from costing more than its length.
_PRIVATE_TAG = lazy_pattern(r"<(/?)private(?:\s[^<>]{0,200})?>", re.IGNORECASE)  # and no <private-label>
_NOT_NEWLINE = lazy_pattern(r"[^\n]+")


class InvalidTextError(ValueError):
    """The text or tags cannot be stored as they are."""

    code = "bad_value"
    hint = ""


class NulCharacterError(InvalidTextError):
    """The text holds a NUL character."""

    hint = "remove the character with code 0; a binary file is not a text"


class LoneSurrogateError(InvalidTextError):
    """The text holds a lone surrogate, half of a character."""

    hint = "send the text as UTF-8"


class TagTooLongError(InvalidTextError):
    """A tag is longer than tags may be."""

    hint = f"tags have at most {TAG_CHARS_MAX} characters"


class UnreadableTagError(InvalidTextError):
    """A tag holds a line break or another control character."""

    hint = "tags are one line of text"


class TooManyTagsError(InvalidTextError):
    """There are more tags than a memory may have."""

    hint = f"a memory has at most {TAGS_MAX} tags"


def clean_text(text: str) -> str:
    """The text as it is stored: NFC, `\\n` line ends, no run of three newlines, no `<private>` span, ends stripped.

    Cleaning twice is cleaning once. The result may be empty. Raises NulCharacterError, LoneSurrogateError.
    """
    text = normalize_text(text)
    if "<" in text:
        text = remove_private_spans(text)
    return _MANY_NEWLINES.sub(NEWLINES_MAX, text).strip()


def normalize_text(text: str) -> str:
    """The text in NFC with `\\n` as its only line end. Raises NulCharacterError, LoneSurrogateError."""
    reject_invalid(text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def reject_invalid(text: str) -> None:
    """Raises NulCharacterError or LoneSurrogateError, naming the place, where the text holds one."""
    nul = text.find("\0")
    if nul >= 0:
        raise NulCharacterError(f"the text holds a NUL at character {nul}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LoneSurrogateError(f"the text holds a lone surrogate at character {error.start}") from None


def remove_private_spans(text: str, *, keep_lines: bool = False) -> str:
    """The text without its `<private>…</private>` spans; a span that is never closed reaches to the end.

    With keep_lines the newlines within a span stay, so that what follows keeps its line numbers.
    """
    kept: list[str] = []
    depth, start, opened = 0, 0, 0
    for tag in _PRIVATE_TAG.finditer(text):
        if tag[1]:
            depth = max(0, depth - 1) if depth else 0
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
    """The tags trimmed, lower-cased, in NFC, each once, in order; empty ones are left out.

    Raises an InvalidTextError.
    """
    cleaned: dict[str, None] = {}
    for tag in tags:
        reject_invalid(tag)
        whole = unicodedata.normalize("NFC", tag.strip().lower())
        if not whole:
            continue
        if len(whole) > TAG_CHARS_MAX:
            raise TagTooLongError(
                f"the tag {whole[:TAG_CHARS_MAX]!r}… has {len(whole)} characters, at most {TAG_CHARS_MAX}"
            )
        if not whole.isprintable():
            raise UnreadableTagError(f"the tag {whole!r} holds a control character")
        cleaned[whole] = None
    if len(cleaned) > TAGS_MAX:
        raise TooManyTagsError(f"{len(cleaned)} tags, at most {TAGS_MAX}")
    return tuple(cleaned)


def valid_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Like clean_tags, but what does not fit is left out: for tags out of a file, which no error would reach."""
    cleaned: dict[str, None] = {}
    for tag in tags:
        whole = unicodedata.normalize("NFC", tag.strip().lower())
        if whole and len(whole) <= TAG_CHARS_MAX and whole.isprintable():
            cleaned[whole] = None
    return tuple(cleaned)[:TAGS_MAX]


def _newlines(text: str) -> str:
    return _NOT_NEWLINE.sub("", text)
