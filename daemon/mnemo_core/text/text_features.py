"""Features of a text, as bits: whether it asks, counts, names, dates, gives a reason. SPEC 7.3 (`auto`)

A question of how many is answered by a text with a number in it, whatever its words are; the learned ranker compares
the features of a text with those of the question. English first, and what is plain in German, French, Chinese and
Japanese. They are computed once, when a memory is written, and quickly: words are looked up in one table, and the few
patterns of several words are tried only where one of their words is there.
"""

import re
from collections.abc import Sequence
from enum import IntFlag
from itertools import islice

from mnemo_core.text import lexicon
from mnemo_core.text.languages import UNSPACED_CHARACTER
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed

RULES_VERSION = 2  # version of what this module does: columns made under another one are rebuilt

SHORT_WORDS = 7  # fewer are short
SHORT_CHARACTERS = 12  # of Chinese and Japanese; fewer are short
NUMBERS_MAX = 64  # looked at; a text with more is a table, and the rest of it says the same
LIST_MARKS = 2  # commas, or lines that begin with a mark
GERMAN_WORDS = 2  # that English does not have, before a capital says nothing any more; one in a short text


class TextFeature(IntFlag):
    """The bits of `features_of_text`. Their values are kept in an index file: new ones go to the end."""

    ENDS_WITH_QUESTION = 1 << 0
    HAS_QUESTION = 1 << 1
    HAS_NUMBER = 1 << 2
    HAS_DATE = 1 << 3
    HAS_PROPER = 1 << 4  # a capital inside a sentence; never of German, where every noun has one
    HAS_QUOTE = 1 << 5
    HAS_MONEY_OR_UNIT = 1 << 6
    HAS_REASON = 1 << 7
    FIRST_PERSON = 1 << 8
    HAS_LIST = 1 << 9
    HAS_PLACE = 1 << 10
    HAS_DURATION = 1 << 11
    HAS_FEELING = 1 << 12
    HAS_NEGATION = 1 << 13
    IS_REACTION = 1 << 14
    IS_SHORT = 1 << 15
    IS_QUESTION = 1 << 16  # and says nothing besides


# Bits of words that are no features by themselves.
_GERMAN = 1 << 24  # counts as a German word
_BESIDE = 1 << 25  # may be part of one with the words next to it: last week, all day, due to
_SHAPES = (1 << 24) - 1


_PERIODS = lexicon.words("text_features", "periods")
_RELATIVES = lexicon.words("text_features", "relatives")
_RELATIVES_BEHIND = listed("dernier dernière prochain prochaine")
_WHOLES = listed("all one whole entire full half")
_REASON_PAIRS = frozenset(("so that", "that's why", "is why", "due to", "thanks to", "in order", "a result", "grâce à"))
_ELISIONS = {"j": int(TextFeature.FIRST_PERSON), "n": int(TextFeature.HAS_NEGATION)}  # j'aime, n'est
# The case of a letter decides: march and may are no months.
_CASED = {"US": 0, "Mars": 0, "March": int(TextFeature.HAS_DATE), "march": 0, "may": 0}

# Plain numbers: joining members of an IntFlag takes ten times as long.
(
    _ENDS_WITH_QUESTION, _HAS_QUESTION, _HAS_NUMBER, _HAS_DATE, _HAS_PROPER, _HAS_QUOTE, _HAS_MONEY_OR_UNIT,
    _HAS_REASON, _, _HAS_LIST, _HAS_PLACE, _HAS_DURATION, _, _HAS_NEGATION, _IS_REACTION, _IS_SHORT,
    _IS_QUESTION,
) = map(int, TextFeature)  # fmt: skip


_OF_WORDS: tuple[tuple[str, int], ...] = (
    ("numbers", TextFeature.HAS_NUMBER), ("dates", TextFeature.HAS_DATE),
    ("money_and_units", TextFeature.HAS_MONEY_OR_UNIT), ("reasons", TextFeature.HAS_REASON),
    ("first_persons", TextFeature.FIRST_PERSON), ("durations", TextFeature.HAS_DURATION),
    ("feelings", TextFeature.HAS_FEELING), ("negations", TextFeature.HAS_NEGATION), ("german_words", _GERMAN),
    ("periods", _BESIDE), ("in_pairs", _BESIDE),
)  # fmt: skip


def _table() -> dict[str, int]:
    """The bits of each word."""
    bits: dict[str, int] = {}
    for section, bit in _OF_WORDS:
        for word in lexicon.words("text_features", section):
            bits[word] = bits.get(word, 0) | int(bit)
    return bits | _CASED


_BITS = _table()

_NO_PLACES = frozenset(word.capitalize() for word in lexicon.words("text_features", "no_places"))
_PLACE_WORDS = listed("in at to from near nach aus à en")

_ASCII_WORD = lazy_pattern(r"[A-Za-z]+(?:'[A-Za-z]+)*")
_WORD = lazy_pattern(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_CAPITALISED = lazy_pattern(r"[A-ZÀ-ÖØ-Þ][^\W\d_]*")
_END_OF_QUESTION = lazy_pattern(r"[?？][^\w?？]*\Z")
_END_OF_STATEMENT = lazy_pattern(r"[.!:;\n](?=\s|\Z)|[。！：；]")
_REACTION = lazy_pattern(rf"\W*(?:{lexicon.alternation('text_features', 'reactions')})", re.IGNORECASE)
_DIGITS = lazy_pattern(r"\d+")
_DATE_FROM = lazy_pattern(  # where digits begin
    r"""(?<![.,$€£¥])(?:19|20)\d\d(?:s|er)?\b(?!%|[.,]\d)
        |\d{1,2}([./])\d{1,2}\1\d{2,4}(?!\d)
        |(?:(?<=\bJan\ )|(?<=\bMar\ )|(?<=\bJun\ )|(?<=\bSep\ )|(?<=\bMay\ ))""",
    re.VERBOSE,
)
_DATE_BEHIND = lazy_pattern(  # and where they end
    r"(?:st|nd|rd|th)\b|\ ?[月日号號](?![間间])|(?<=\d{4})年|\ (?:Jan|Mar|May|Jun|Sep)\b"
)
_UNIT_BEHIND = lazy_pattern(rf" ?(?:{lexicon.alternation('text_features', 'units_behind')})(?![A-Za-z])")
_SPAN_BEHIND = lazy_pattern(r"[ -](?:year|month|week|day|hour|minute|second)s?\b")
_MONEY = lazy_pattern(r"[$€£¥%％￥]")
_MARKS_OF_QUOTES = lazy_pattern(r"[“”„«»「」『』《》‘]")
_TITLE = lazy_pattern(r"'(?<!\w.)[A-Z][^']*'(?!\w)")
_COMMA = lazy_pattern(r",(?!\d{3}(?!\d))|[、，]")
_LISTED_LINE = lazy_pattern(r"^[ \t]*(?:[-*•+]|\d{1,2}[.)]) ", re.MULTILINE)

_CJK_PATTERNS: tuple[tuple[int, re.Pattern[str]], ...] = tuple(
    (int(TextFeature[name.upper()]), lazy_pattern(lexicon.alternation("text_features", f"cjk_{name}")))
    for name in (
        "has_number", "has_date", "has_money_or_unit", "has_reason", "first_person", "has_place", "has_duration",
        "has_feeling", "has_negation",
    )
)  # fmt: skip


def features_of_text(text: str) -> int:
    """The bits of TextFeature that a text has."""
    is_ascii = text.isascii()
    if not is_ascii:
        text = text.replace("\u2019", "'")
    words = (_ASCII_WORD if is_ascii else _WORD).findall(text)
    bits, is_german = _of_words(words)
    bits |= _of_marks(text, is_ascii=is_ascii) | _of_capitals(text, is_german=is_german)
    if bits & _BESIDE:
        bits |= _of_neighbours([word.lower() for word in words])
    for digits in islice(_DIGITS.finditer(text), NUMBERS_MAX):
        bits |= _HAS_NUMBER
        if _DATE_FROM.match(text, digits.start()) or _DATE_BEHIND.match(text, digits.end()):
            bits |= _HAS_DATE
        if _UNIT_BEHIND.match(text, digits.end()):
            bits |= _HAS_MONEY_OR_UNIT
        if _SPAN_BEHIND.match(text, digits.end()):
            bits |= _HAS_DURATION
    if _REACTION.match(text):
        bits |= _IS_REACTION
    if not is_ascii and UNSPACED_CHARACTER.search(text):
        bits |= _IS_SHORT if sum(map(len, text.split())) < SHORT_CHARACTERS else 0
        for bit, pattern in _CJK_PATTERNS:
            bits |= bit if pattern.search(text) else 0
    elif len(words) < SHORT_WORDS and len(text.split()) < SHORT_WORDS:
        bits |= _IS_SHORT
    return bits & _SHAPES


def _of_words(words: Sequence[str]) -> tuple[int, bool]:
    """The bits of the words by themselves, and whether they are German."""
    bits = german = 0
    known = _BITS.get
    for word in words:
        found = known(word)
        if found is None:
            found = known(word.lower(), 0)
        if found & _GERMAN:
            german += 1
        bits |= found
        if "'" in word:
            # Of I'm, don't, j'aime: what stands on both sides
            head, _, tail = word.lower().partition("'")
            bits |= _BITS.get(head, 0) | _BITS.get(tail, 0) | _ELISIONS.get(head, 0)
            bits |= _HAS_NEGATION if word.lower().endswith("n't") else 0
    return bits, german >= GERMAN_WORDS or (german > 0 and len(words) < SHORT_WORDS)


def _of_neighbours(words: Sequence[str]) -> int:
    """The bits of two or three adjacent words."""
    bits = 0
    for at, word in enumerate(words):
        if f"{words[at - 1]} {word}" in _REASON_PAIRS and at:
            bits |= _HAS_REASON
        if word not in _PERIODS:
            continue
        earlier, later = list(words[max(0, at - 4) : at]), words[at + 1 : at + 2]
        if earlier[-1:] == ["few"]:  # the last few weeks
            earlier.pop()
        elif earlier[-2:] == ["couple", "of"]:
            del earlier[-2:]
        if _RELATIVES.intersection(earlier[-1:]) or _RELATIVES_BEHIND.intersection(later):
            bits |= _HAS_DATE
        elif _WHOLES.intersection(earlier[-1:]) or earlier[-2:] in (["for", "a"], ["for", "an"], ["half", "an"]):
            bits |= _HAS_DURATION
    return bits


def _of_marks(text: str, *, is_ascii: bool) -> int:
    """The bits of the punctuation."""
    bits = 0
    if "?" in text or "\uff1f" in text:
        bits |= _HAS_QUESTION
        if _END_OF_QUESTION.search(text):
            bits |= _ENDS_WITH_QUESTION if _END_OF_STATEMENT.search(text) else _ENDS_WITH_QUESTION | _IS_QUESTION
    if text.count('"') > 1 or ("'" in text and _TITLE.search(text)) or (not is_ascii and _MARKS_OF_QUOTES.search(text)):
        bits |= _HAS_QUOTE
    if _MONEY.search(text):
        bits |= _HAS_MONEY_OR_UNIT
    has_commas = (text.count(",") >= LIST_MARKS or not is_ascii) and len(_COMMA.findall(text)) >= LIST_MARKS
    if has_commas or ("\n" in text and len(_LISTED_LINE.findall(text)) >= LIST_MARKS):
        bits |= _HAS_LIST
    return bits


def _of_capitals(text: str, *, is_german: bool) -> int:
    """The bits of the capitals inside sentences."""
    bits = 0
    for match in _CAPITALISED.finditer(text, 1):
        start, word = match.start(), match[0]
        if text[start - 1] != " ":
            continue
        if len(word) > 1 and not is_german and (text[start - 2].islower() or text[start - 2] in ",;0123456789"):
            bits |= _HAS_PROPER
        if word == "May" and text[start - 2].islower():
            bits |= _HAS_DATE
        earlier = text[max(0, start - 12) : start].lower().split()
        if earlier and earlier[-1] == "the":
            earlier.pop()
        if earlier and earlier[-1] in _PLACE_WORDS and word not in _NO_PLACES:
            bits |= _HAS_PLACE
    return bits
