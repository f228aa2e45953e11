"""Words for times in English, German, French, Chinese and Japanese, with the meaning of each. SPEC 2.5, 5.4"""

import re
from collections.abc import Iterable

from mnemo_core.text import lexicon
from mnemo_core.text.lazy_patterns import lazy_pattern

# From January, from Monday.
MONTH_NAMES = {language: lexicon.groups("calendar", f"month_names_{language}")[0] for language in ("en", "de", "fr")}
WEEKDAY_NAMES = {
    language: lexicon.groups("calendar", f"weekday_names_{language}")[0] for language in ("en", "de", "fr")
}
MONTHS = {
    **{name: number for names in MONTH_NAMES.values() for number, name in enumerate(names, 1)},
    **lexicon.numbered("calendar", "short_months_en"),
    **lexicon.numbered("calendar", "short_months"),
}
WEEKDAYS = {
    **{name: number for names in WEEKDAY_NAMES.values() for number, name in enumerate(names)},
    **lexicon.numbered("calendar", "short_weekdays_en"),
    **lexicon.numbered("calendar", "other_weekdays"),
}
# With the Spanish names, which stand only in patterns of their own: "mayo" and "martes" are words of other languages.
MONTH_NUMBERS = MONTHS | {name: n for n, name in enumerate(lexicon.groups("calendar", "month_names_es")[0], 1)}
WEEKDAY_NUMBERS = WEEKDAYS | {name: n for n, name in enumerate(lexicon.groups("calendar", "weekday_names_es")[0])}
WEEKDAYS_CJK = {
    character: n
    for n, row in enumerate(("一月1", "二火2", "三水3", "四木4", "五金5", "六土6", "日天7"))
    for character in row
}
# Spring begins in March, as on the half of the globe where most of these languages are at home.
SEASONS = lexicon.numbered("calendar", "seasons")
COUNTS = lexicon.numbered("calendar", "counts")

# Days from the day of the statement, and the part of the day.
DAYS = {word: int(days) for word, days in lexicon.meanings("calendar", "days").items()}
PART_OF_WORD = lexicon.meanings("calendar", "part_of_word")
PART_NAMES = lexicon.meanings("calendar", "day_parts")
# Hours of the day, from and up to. Where one part ends and the next begins is nowhere agreed; these overlap a little.
PARTS = {
    "morning": (6, 12), "noon": (12, 14), "afternoon": (12, 18), "evening": (18, 24), "night": (18, 30),
}  # fmt: skip

# The number of weeks, months or years from the present one.
UNITS = lexicon.meanings("calendar", "units")
SHIFTS = {word: int(count) for word, count in lexicon.meanings("calendar", "shifts").items()}
UNITS_CJK = {
    word: (unit, int(count))
    for word, meaning in lexicon.meanings("calendar", "shifted_units").items()
    for unit, count in [meaning.split()]
}
SPANS = lexicon.meanings("calendar", "spans")  # a name for each unit of a duration
# Of three parts of a span, the first and the one after the last.
PARTS_OF_SPAN = {
    word: (int(begin), int(end))
    for word, meaning in lexicon.meanings("calendar", "parts_of_span").items()
    for begin, end in [meaning.split()]
}

# Of a span by name, its first day and its last one; below 0 they count from its end.
DAYS_OF_SPAN = {
    word: (int(first), int(last))
    for word, meaning in lexicon.meanings("calendar", "days_of_span").items()
    for first, last in [meaning.split()]
}
FEW = frozenset({"few", "couple of", "a few", "paar", "quelques", "几", "幾"})
DAYS_OF_MONTH = {
    word: day
    for language in ("en", "de")
    for day, word in enumerate(lexicon.groups("calendar", f"days_of_month_{language}")[0], 1)
}
ORDINALS = lexicon.numbered("calendar", "ordinals")
HALVES = {word: int(half) for word, half in lexicon.meanings("calendar", "halves").items()}
HOLIDAYS = lexicon.meanings("calendar", "holidays")  # when each begins, and how many days it has
BOUNDS = lexicon.meanings("calendar", "bounds")
BOUNDS_BEHIND = lexicon.meanings("calendar", "bounds_behind")


def one_of(words: Iterable[str]) -> str:
    """A pattern for any of the words, the longest first. What begins alike is looked at once."""
    by_first: dict[str, list[str]] = {}
    for word in words:
        by_first.setdefault(word[:1], []).append(word[1:])
    ends = bool(by_first.pop("", ()))
    found = []
    for first, rests in sorted(by_first.items()):
        rest = one_of(rests)
        found.append(re.escape(first) + (f"(?:{rest})" if "|" in rest else rest))
    if ends and found:
        found.append("")
    return "|".join(found)


# The tense of a sentence by its verbs

_TIME = (
    r"\d|(?:early|mid|late|next|today|tonight|tomorrow|noon|midnight|spring|summer|autumn|fall|winter"
    rf"|{one_of([*MONTHS, *WEEKDAYS])})\b"
)
_VERBS = {name.upper(): one_of(lexicon.words("calendar", name)) for name in ("future_verbs", "past_verbs", "not_past")}
FUTURE = lazy_pattern(lexicon.alternation("calendar", "future_patterns", TIME=_TIME, **_VERBS))
PAST = lazy_pattern(lexicon.alternation("calendar", "past_patterns", **_VERBS))
IS_SO = lazy_pattern(r"(?i)\b(?:is|are|am|gets?|ist|sind|wird|werden|est|sont)\b")
MOVED = lazy_pattern(lexicon.alternation("calendar", "moved_patterns"))
REASON = lazy_pattern(lexicon.alternation("calendar", "reason_patterns"))
SUPPOSED = lazy_pattern(r"(?i)(?:^|[\s,(])(?:if|unless|wenn|falls|s['’]il|would have|could have|wish)\b|如果|要是|もし")
YEARLY = lazy_pattern(lexicon.alternation("calendar", "yearly_patterns"))
# What begins, ends or is expected so many days later; without one of these `in 3 days` may be a duration.
_COMING = one_of(lexicon.words("calendar", "coming"))
COMES = lazy_pattern(lexicon.alternation("calendar", "coming_patterns", COMING=_COMING))
# A question asks for what was, unless its words look ahead; by a verb in the present, for the nearest time.
ASKS_PAST = lazy_pattern(lexicon.alternation("question_times", "asks_past"), re.IGNORECASE)
ASKS_NOW = lazy_pattern(lexicon.alternation("question_times", "asks_now"), re.IGNORECASE)
ASKS_AHEAD = lazy_pattern(lexicon.alternation("question_times", "asks_ahead"), re.IGNORECASE)
