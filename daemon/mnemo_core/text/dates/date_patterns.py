"""Patterns of time expressions, and the reader of each. SPEC 2.5, 5.4

The patterns are data: text/lexicon/date_rules.txt. One is tried only on a text that has the words it needs, so that a
text without dates costs next to nothing, and one with numbers little more.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from mnemo_core.text import lexicon
from mnemo_core.text.dates import date_readers, date_words, relative_readers
from mnemo_core.text.dates.date_readers import Reader
from mnemo_core.text.dates.date_words import MONTH_NAMES, MONTHS, WEEKDAY_NAMES, WEEKDAYS, one_of
from mnemo_core.text.languages import UNSPACED_CHARACTER
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed


class DatePattern(NamedTuple):
    """A pattern, its reader, and sets of words: of each a text that it fits has one. Some are for questions alone:
    what a question names without a preposition or a verb is in a text only a word."""

    read: Reader
    needs: tuple[frozenset[str], ...]
    pattern: re.Pattern[str]
    is_asked: bool = False


_WORD = lazy_pattern(r"[^\W\d_]+")
_FIGURE = lazy_pattern(r"\d")
FIGURE = "0"  # stands for any digit
YEAR = "1900"  # stands for what may be a year of the last century or this one
_BETWEEN = lazy_pattern(r"\d([-/.:])(?=\s?\d)")  # what stands between digits stands for itself, behind FIGURE
_YEAR_SHAPE = lazy_pattern(r"(?:19|20)\d\d")
IDEOGRAPH = "字"  # stands for any Chinese or Japanese character


def words_in(text: str) -> set[str]:
    """The words that `needs` is compared with: those of the text, and placeholders for digits and ideographs."""
    found = set(_WORD.findall(text.lower()))
    if _FIGURE.search(text):
        found.add(FIGURE)
        found.update(FIGURE + each for each in set(_BETWEEN.findall(text)))
        if _YEAR_SHAPE.search(text):
            found.add(YEAR)
    if not text.isascii() and UNSPACED_CHARACTER.search(text):
        found.add(IDEOGRAPH)
    return found


_READERS: dict[str, Reader] = vars(date_readers) | vars(relative_readers)
_WEEKDAYS = {*WEEKDAYS, "weekend", "wochenende"} | {
    day + part for day in WEEKDAY_NAMES["de"] for part in listed("früh morgen vormittag mittag nachmittag abend nacht")
}
_MONTHS_ES = {*date_words.MONTH_NUMBERS} - {*MONTHS} | {"abril", "octubre"}
_DAYS_ES = {*date_words.WEEKDAY_NUMBERS} - {*WEEKDAYS}
_STRETCHES = (*date_words.DAYS_OF_SPAN, *date_words.HALVES)
_HOLIDAYS = date_words.HOLIDAYS
_HOLIDAY_OF_A_DAY = re.compile(r"(?:tage?n?|mittwoch|advent|abend|eve|day|himmelfahrt|leichnam)\Z|\w de \w")
# Sets of words by name, those of the lexicon after those of the calendar
_SETS: dict[str, Iterable[str]] = {
    "MONTHS": MONTHS,
    "MONTHS_ES": _MONTHS_ES,
    "HALF_MONTHS_DE": [f"{month}hälfte" for month in MONTH_NAMES["de"]],
    "WEEKDAYS": _WEEKDAYS,
    "WEEKDAYS_S": [f"{day}s" for day in _WEEKDAYS],
    "DAY_NAMES_S": [f"{day}s" for day in WEEKDAYS],
    "PLURAL_DAYS": [f"{day}s" for day in WEEKDAY_NAMES["en"]],
    "WEEKDAYS_ES": _DAYS_ES,
    "WEEKDAY_NUMBERS": date_words.WEEKDAY_NUMBERS,
    "DAYS_OF_MONTH": [part for word in date_words.DAYS_OF_MONTH for part in word.split("-")],
    "ORDINALS": date_words.ORDINALS,
    "SEASONS": date_words.SEASONS,
    "STRETCHES": [*(name.rpartition(" ")[2] for name in _STRETCHES), "weeks", "wochen"],
    "HOLIDAYS": [max(re.findall(r"[^\W\d_]+", name), key=len) for name in _HOLIDAYS],
}


def _words_of(names: Iterable[str]) -> frozenset[str]:
    """The words of sets; what names no set is a word itself."""
    return frozenset[str]().union(*(_SETS.get(name, (name,)) for name in names))


for _name, *_names in map(str.split, lexicon.lines("date_rules", "sets")):
    _SETS[_name] = _words_of(_names)
_CALENDAR = {
    "MONTHS": one_of(MONTHS),
    "MONTHS_DE": one_of(MONTH_NAMES["de"]),
    "MONTHS_ES": one_of(_MONTHS_ES | {"agosto"}),
    "ALL_MONTHS": one_of(date_words.MONTH_NUMBERS),
    "DAY_NAMES": one_of(WEEKDAYS),
    "FULL_DAYS": "|".join(name.capitalize() for name in WEEKDAY_NAMES["en"]),
    "FR_DAYS": "|".join(WEEKDAY_NAMES["fr"]),
    "ALL_DAYS": "|".join(name for names in WEEKDAY_NAMES.values() for name in names),
    "DAYS_ES": one_of(_DAYS_ES),
    "NTH_DAYS": one_of(date_words.DAYS_OF_MONTH),
    "ORDINALS": one_of(date_words.ORDINALS),
    "SEASONS": one_of(date_words.SEASONS),
    "PARTS_OF_SPAN": one_of(date_words.PARTS_OF_SPAN),
    "STRETCHES": "|".join(word for word in _STRETCHES if word[0] < "\u0250"),
    "UNITS_CJK": one_of(date_words.UNITS_CJK),
    "COUNT": "|".join(
        [r"\d{1,3}", *(word for word in date_words.COUNTS if word.isascii() or word in ("fünf", "zwölf"))]
    ),
    "HOLIDAYS": one_of(name for name in _HOLIDAYS if name[0] < "\u0250"),
    "HOLIDAYS_CJK": one_of(name for name in _HOLIDAYS if name[0] > "\u2fff"),
    "HOLIDAY_OF_DAY": one_of(name for name in _HOLIDAYS if _HOLIDAY_OF_A_DAY.search(name)),
}


def _rule(row: str) -> DatePattern:
    reader, needs, pattern = row.split(" ", 2)
    sets = tuple(_words_of(names.split(",")) for names in needs.split("&"))
    read = _READERS[f"read_{reader.removeprefix('?')}"]
    return DatePattern(read, sets, lazy_pattern(pattern, re.IGNORECASE), is_asked=reader[0] == "?")


DATE_PATTERNS = tuple(map(_rule, lexicon.patterns("date_rules", "rules", **_CALENDAR)))
_PLACES: dict[str, list[int]] = {}  # the rules that need a word first, by their places
for _place, _rule_there in enumerate(DATE_PATTERNS):
    for _need in _rule_there.needs[0]:
        _PLACES.setdefault(_need, []).append(_place)


def has_time_words(present: set[str]) -> bool:
    """Return whether any rule may fit a text with these words (`words_in`)."""
    return not _PLACES.keys().isdisjoint(present)


def patterns_for(text: str, *, is_question: bool = False) -> list[DatePattern]:
    """The rules that may fit a text, or a question, in their order."""
    present = words_in(text)
    places = {place for word in _PLACES.keys() & present for place in _PLACES[word]}
    rules = [DATE_PATTERNS[place] for place in sorted(places)]
    return [rule for rule in rules if rule.is_asked <= is_question and not any(map(present.isdisjoint, rule.needs))]
