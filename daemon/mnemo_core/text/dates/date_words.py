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
FUTURE = lazy_pattern(
    rf"(?i)(?<!was )(?<!were )\bmoved (?:for|to|until) (?:the |this )?(?:{_TIME})|"
    r"(?<!was )(?<!were )\bgoing to\b|\b(?:will|won['’]t|shall|gonna|upcoming|remind|don['’]t forget|let['’]s|plans? to"
    r"|planning to|want to|hope to|have to|has to|need to|needs to|must|should|looking forward|can['’]t wait)\b"
    r"|['’]ll\b|(?<!was )(?<!were )\b(?:scheduled|due|planned|booked|postponed|rescheduled|expected|set)"
    r" (?:for|to|on|until)\b"
    r"|\b(?:am|is|are)(?: \w+)? \w+ing\b|['’](?:m|re)(?: \w+)? \w+ing\b|\b(?:he|she|it|that)['’]s \w+ing\b"
    rf"|\b(?:{one_of(lexicon.words('calendar', 'future_verbs'))})\b|\b\w{{2,}}(?:rai|(?<![cdmnstv]u)ras|rons"
    rf"|rez|ront)\b"
    r"|要|会议定|将|將|打算|计划|予定|つもり|します|行きます|会います|ましょう|しよう|締め切り|截止"
)
PAST = lazy_pattern(
    rf"(?i)\b(?:{one_of(lexicon.words('calendar', 'past_verbs'))}|(?:was|were|did)n['’]t)\b"
    rf"|\b(?!(?:{one_of(lexicon.words('calendar', 'not_past'))})\b)[a-z]{{2,}}ed\b"
    r"|\b(?:habe|hat|haben|bin|ist|sind)\b[^.!?\n]{0,80}\b(?:\w*ge|be|ver|er|ent|zer)\w+(?:t|en)\b"
    r"|(?:\b|['’])(?:ai|as|a|avons|avez|ont|est|suis|sommes|sont|es)\s(?:\w+\s){0,2}"
    r"\w+(?:é|ée|és|ées|i|ie|is|it|u|ue|us)\b|了|過|ました|でした|だった|[っいえきしたんけ]た(?=[。、\s]|$)"
)
IS_SO = lazy_pattern(r"(?i)\b(?:is|are|am|gets?|ist|sind|wird|werden|est|sont)\b")
MOVED = lazy_pattern(
    r"(?i)\b(?:moved|postponed|rescheduled|pushed|shifted|changed|delayed|brought forward|verschoben|verlegt"
    r"|vertagt|reportée?|déplacée?|décalée?)\b|改到|推迟|推遲|延期|変更"
)
REASON = lazy_pattern(
    r"(?i)\b(?:because|given that|seeing that|on account of|weil|denn|da|parce que|puisque|car|porque)\b|因为|因為"
)
SUPPOSED = lazy_pattern(r"(?i)(?:^|[\s,(])(?:if|unless|wenn|falls|s['’]il|would have|could have|wish)\b|如果|要是|もし")
YEARLY = lazy_pattern(
    r"(?i)\b(?:birthday|anniversary|geburtstag|hochzeitstag|jahrestag|anniversaire|bday)\b|生日|纪念日|誕生日|記念日"
)
# What begins, ends or is expected so many days later; without one of these `in 3 days` may be a duration.
COMES = lazy_pattern(
    rf"(?i)\b(?:{one_of(lexicon.words('calendar', 'coming'))}|see you|takes place"
    r"|(?:i|we) have (?:the|an?|my|our|another)|(?:ich habe|wir haben) (?:den|die|das|eine?n?|mein))\b"
)
# A question asks for what was, unless its words look ahead; by a verb in the present, for the nearest time.
ASKS_PAST = lazy_pattern(lexicon.alternation("question_times", "asks_past"), re.IGNORECASE)
ASKS_NOW = lazy_pattern(lexicon.alternation("question_times", "asks_now"), re.IGNORECASE)
ASKS_AHEAD = lazy_pattern(lexicon.alternation("question_times", "asks_ahead"), re.IGNORECASE)
