"""Segmentation of a text into sentences.

A sentence ends behind its marks and the quotes and brackets that close with it. A full stop does not end one behind an
abbreviation, behind the number of a day or list item, or where quoted words end in the middle of a sentence.
Line breaks are no ends here: their meaning depends on the kind of text, so callers that split at them add them.
"""

import itertools
import re

from mnemo_core.text import lexicon
from mnemo_core.text.dates.date_words import MONTHS
from mnemo_core.text.lazy_patterns import lazy_pattern

ABBREVIATIONS = lexicon.words("languages", "abbreviations")
# Abbreviations that a sentence may end with: before a capital it does.
_CLOSING_ABBREVIATIONS = lexicon.words("languages", "closing abbreviations")

_BEFORE_CHARS = 12  # looked at before a full stop
_BEHIND_CHARS = 12
_END = lazy_pattern(r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_`]*+(?=\s|\Z)|[。！？]++[」』”）]*+")
_LINE_BREAK = lazy_pattern(r"\n+")
_ABBREVIATION = lazy_pattern(r"(?:^|[\s(\"'„“])([^\W\d_](?:[^\W\d_]|\.(?=[^\W\d_])){0,8})\.\Z")
_NUMBER = lazy_pattern(r"(?<![\w.,:])\d{1,2}\.\Z")
_NOT_BLANK = lazy_pattern(r"\S")
_NEXT_WORD = lazy_pattern(r"\s+([^\W\d_]{1,20})")


def sentence_ends(text: str, start: int = 0, end: int | None = None) -> list[int]:
    """The place behind each end of a sentence between two places of the text, in order."""
    end = len(text) if end is None else end
    return [match.end() for match in _END.finditer(text, start, end) if not _is_inner(text, match, end)]


def sentences(text: str) -> list[str]:
    """The sentences of a text in which every line stands for itself, stripped; none is empty."""
    return [piece for start, end in line_spans(text) if (piece := text[start:end].strip())]


def line_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence, where line breaks end one too; together they are the whole text."""
    ends = {0, len(text), *sentence_ends(text), *(match.end() for match in _LINE_BREAK.finditer(text))}
    borders = sorted(ends)
    return list(itertools.pairwise(borders))


def _is_inner(text: str, match: re.Match[str], end: int) -> bool:
    """Return whether the sentence goes on behind the marks."""
    marks = match[0]
    if marks[0] in "。！？":
        return False
    following = _NEXT_WORD.match(text, match.end(), end)
    goes_on = following is not None and following[1][0].islower()
    if len(marks) > 1 or marks == "…":  # `"Really?" she asked`, "well... maybe"
        return goes_on and (marks.startswith(("...", "…")) or marks[-1] not in "!?.")
    if marks != ".":
        return False
    before = text[max(0, match.start() - _BEFORE_CHARS) : match.end()]
    if abbreviation := _ABBREVIATION.search(before):
        word, behind = abbreviation[1], _NOT_BLANK.search(text, match.end(), min(end, match.end() + _BEHIND_CHARS))
        return is_abbreviation(word) and _goes_on_behind(word, behind[0] if behind else "")
    if _NUMBER.search(before) is None:
        return False
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    return following is not None and (line.strip().isdecimal() or goes_on or following[1].lower() in MONTHS)


def is_abbreviation(word: str) -> bool:
    """Return whether a word before a full stop is an abbreviation or an initial."""
    return word in ABBREVIATIONS or (len(word) == 1 and word.isupper())


def _goes_on_behind(abbreviation: str, first: str) -> bool:
    """Return whether the sentence goes on behind an abbreviation, by the first character there."""
    if abbreviation in _CLOSING_ABBREVIATIONS or abbreviation == "I":
        return first.islower() or first.isdecimal()
    return first.isalnum()
