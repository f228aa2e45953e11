"""Readers of times relative to the statement: days, weeks, months and years from it, and weekdays. SPEC 2.5, 5.4"""

import datetime as dt
import re

from mnemo_core.text import lexicon
from mnemo_core.text.dates import date_words as words
from mnemo_core.text.dates.date_readers import (
    MentionRole,
    TimeCandidate,
    Utterance,
    count_of,
    is_moved_to,
    month_year,
    part_of,
    unsure,
)
from mnemo_core.text.dates.local_days import (
    DAY_MS,
    EPOCH,
    HOUR_MS,
    MINUTE_MS,
    days_after,
    local_time,
    month_start,
    months_after,
)
from mnemo_core.text.lazy_patterns import lazy_pattern

# "Two weeks ago" is a day give or take so many.
MARGIN_DAYS = {"day": 0, "week": 3, "fortnight": 3, "month": 15, "year": 91}
FEW = 4  # of "the last few days"
NEXT_DAYS_MAX, NEXT_MONTHS_MAX = 400, 24  # of "the next ten years"

_UNIT_MS = {"second": 1000, "minute": MINUTE_MS, "hour": HOUR_MS, "day": DAY_MS, "week": 7 * DAY_MS,
            "fortnight": 14 * DAY_MS}  # fmt: skip
_UNIT_MONTHS = {"month": 1, "year": 12}


def read_day_word(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """Today, yesterday, tomorrow …, with or without a part of the day."""
    word = match["word"].lower()
    if word == "hier" and (_GERMAN.search(saying.text) or not _FRENCH.search(saying.text)):
        return None  # German: here
    if match["word"] == "Morgen" and not _BEGINS_WITH_MORGEN.match(saying.text, match.start()):
        return None  # the morning, or a greeting
    day = days_after(saying.day, words.DAYS[word])
    part = match.groupdict().get("part") or words.PART_OF_WORD.get(word)
    return _in_part(saying.one_day(day, match), part, saying)


def _in_part(found: TimeCandidate, part: str | None, saying: Utterance) -> TimeCandidate:
    """The part of the day that the word names; the whole day without one."""
    if not part or found.day is None:
        return found
    begins, ends = words.PARTS[words.PART_NAMES[part.lower()]]
    return found._replace(at=saying.moment(found.day, begins * HOUR_MS), until=saying.moment(found.day, ends * HOUR_MS))


_FRENCH = lazy_pattern(lexicon.alternation("languages", "french_marks"), re.IGNORECASE)
_GERMAN = lazy_pattern(r"\b(?:ich|der|die|das|und|ist|nicht|wir|ein|eine|mit|von|auf|sind)\b", re.IGNORECASE)
_BEGINS_WITH_MORGEN = lazy_pattern(r"Morgen (?=[a-zäöü]|Abend|Nachmittag|Mittag)")


def read_this_part_named(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """This morning, tonight, last night."""
    expression = match.group().lower()
    if expression in ("last night", "letzte nacht", "la nuit dernière"):
        found = _in_part(saying.one_day(days_after(saying.day, -1), match), "evening", saying)
        return found._replace(until=min(saying.moment(saying.day, 6 * HOUR_MS), max(saying.said_at, found.until)))
    part = expression.rpartition(" ")[2]
    return _in_part(saying.one_day(saying.day, match), part if part in words.PART_NAMES else "evening", saying)


def read_unit(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """Last week, this month, next year …: the whole of it, weeks from Monday."""
    shift = words.SHIFTS[(match.groupdict().get("shift") or "this").lower()]
    return _unit_span(words.UNITS[match["unit"].lower()], shift, match, saying)


def read_unit_cjk(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """上周, 今年, 来月: unit and shift are one word."""
    return _unit_span(*words.UNITS_CJK[match["word"]], match, saying)


def _unit_span(unit: str, shift: int, match: re.Match[str], saying: Utterance) -> TimeCandidate:
    year, month = saying.day.year, saying.day.month
    match unit:
        case "week":
            monday = days_after(saying.monday, 7 * shift)
            return saying.days(*part_of(monday, days_after(monday, 7), match), match)
        case "weekend":
            if shift == 0 and saying.day.weekday() < 5 and saying.tense(match.start()) == "past":
                shift = -1  # "we mended the roof this weekend"
            if shift == 1 and saying.day.weekday() < 5 and _IS_COMING.match(match.group()):
                shift = 0
            is_unsure = shift > 0 and saying.day.weekday() < 5 and match.group().isascii()
            return _weekend_of(shift, match, saying, "unsure" if is_unsure else "event")
        case "month":
            first, after = month_start(year, month + shift), month_start(year, month + shift + 1)
        case "quarter":
            number = month - (month - 1) % 3 + 3 * shift
            first, after = month_start(year, number), month_start(year, number + 3)
        case _:
            first, after = month_start(year + shift, 1), month_start(year + shift + 1, 1)
    return saying.days(*part_of(first, after, match), match)


_IS_COMING = lazy_pattern(r"(?:am |this |the )?(?:coming|kommende)", re.IGNORECASE)


def read_last_spans(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """The last three days, the past month: from as long ago up to now."""
    groups = match.groupdict()
    number = (groups.get("n") or "one").lower()
    count = FEW if number in words.FEW else count_of(number)
    if not count:
        return None
    unit = _unit_of(groups["unit"])
    if unit in _UNIT_MS:
        begin = saying.said_at - count * _UNIT_MS[unit]
    else:
        months = min(count * _UNIT_MONTHS[unit], saying.day.year * 12)
        _, of_day = local_time(saying.said_at, saying.zone)
        begin = saying.moment(max(EPOCH, months_after(saying.day, -months)), of_day)
    return TimeCandidate(begin, saying.said_at, match.start(), match.end(), "event" if saying.is_question else "vague")


def read_next_spans(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """The next three days, the coming weeks: this day and as many after it."""
    number = (match.groupdict().get("n") or "few").lower()
    count = FEW if number in words.FEW else count_of(number)
    if not count:
        return None
    unit = _unit_of(match["unit"])
    if unit in _UNIT_MS:
        last = days_after(saying.day, min(max(1, count * _UNIT_MS[unit] // DAY_MS), NEXT_DAYS_MAX))
    else:
        last = months_after(saying.day, min(count * _UNIT_MONTHS[unit], NEXT_MONTHS_MAX))
    return saying.days(saying.day, days_after(last, 1), match)


def read_same_time(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """This time last year: give or take a part of a month; of a week, the day."""
    unit = _unit_of(match.groupdict().get("unit") or "year")
    if unit in ("day", "week"):
        centre, margin = days_after(saying.day, -7 if unit == "week" else -1), 0
    else:
        centre, margin = months_after(saying.day, -12 if unit == "year" else -1), {"year": 15, "month": 3}[unit]
    role: MentionRole = "event" if saying.is_question else "vague"
    return saying.days(days_after(centre, -margin), days_after(centre, margin + 1), match, role)


def read_weekend(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """At the weekend: the last or the coming one, by the verbs."""
    is_weekend = saying.day.weekday() >= 5
    tense = saying.tense(match.start())
    if not tense and not is_weekend and not saying.is_question:
        return unsure(match)
    return _weekend_of(0 if is_weekend or tense == "future" else -1, match, saying)


def _weekend_of(shift: int, match: re.Match[str], saying: Utterance, role: MentionRole = "event") -> TimeCandidate:
    """Saturday and Sunday of the week that many weeks from now."""
    return saying.days(days_after(saying.monday, 7 * shift + 5), days_after(saying.monday, 7 * shift + 7), match, role)


def read_ago(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """Three days ago, two weeks from now: the day itself; weeks, months and years give or take a part of one."""
    groups = match.groupdict()
    count = count_of(groups["n"])
    if count is None:
        return None
    unit = _unit_of(groups["unit"])
    if groups.get("doubt") and not _is_ahead(match, saying):
        return read_vague(match, saying)
    sign = 1 if groups.get("ahead") or groups.get("doubt") else -1
    if unit in ("second", "minute", "hour"):
        length = _UNIT_MS[unit]
        at = saying.said_at + sign * count * length
        return TimeCandidate(at, at + length, match.start(), match.end())
    if unit in ("month", "year"):
        centre = months_after(saying.day, sign * count * (12 if unit == "year" else 1))
    else:
        centre = days_after(saying.day, sign * count * (_UNIT_MS[unit] // DAY_MS))
    margin = MARGIN_DAYS[unit]
    if today := (groups.get("today") or "").lower():  # "a week ago yesterday"
        centre, margin = days_after(centre, words.DAYS[today]), 0
    found = saying.days(days_after(centre, -margin), days_after(centre, margin + 1), match)
    return found._replace(when=saying.moment(centre), day=None if unit in _UNIT_MONTHS else centre)


def _unit_of(written: str) -> str:
    unit = written.lower()
    return words.SPANS.get(unit) or words.SPANS.get(unit.removesuffix("s")) or words.SPANS[unit.removesuffix("e")]


def _is_ahead(match: re.Match[str], saying: Utterance) -> bool:
    """Return whether "in 3 days" is a point in time, not a duration."""
    at = match.start()
    if saying.search(at, words.PAST) is not None:
        return False
    return saying.is_question or any(saying.search(at, each) is not None for each in (words.FUTURE, words.COMES))


# Weekdays


def read_weekday(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """On Friday, last Friday, next Friday, Friday last week."""
    groups = match.groupdict()
    weekday = words.WEEKDAY_NUMBERS[groups["day"].lower()]
    here = days_after(saying.monday, weekday)
    week = words.SHIFTS.get((groups.get("week") or "").lower())
    shift = words.SHIFTS.get((groups.get("shift") or "").lower())
    role: MentionRole = "event"
    if week is not None:
        day = days_after(here, 7 * week)
    elif shift == -1:
        day = here if here < saying.day else days_after(here, -7)
    elif shift == 1 and not (groups.get("shift") or "").lower().endswith(("coming", "kommenden")):
        day = days_after(here, 7)
        role = "unsure" if here > saying.day else "event"
    elif shift == 1:
        day = here if here > saying.day else days_after(here, 7)
    else:
        return _weekday_by_tense(here, match, saying, is_this=shift == 0)
    return _in_part(saying.one_day(day, match, role), groups.get("part"), saying)


def _weekday_by_tense(here: dt.date, match: re.Match[str], saying: Utterance, is_this: bool) -> TimeCandidate | None:
    tense = saying.tense(match.start())
    last = here if here < saying.day else days_after(here, -7)
    coming = here if here > saying.day else days_after(here, 7)
    if saying.is_question:
        is_today = here == saying.day and not saying.search(match.start(), words.ASKS_PAST)
        day = here if is_this or is_today else coming if tense == "future" else last
        return _in_part(saying.one_day(day, match), match.groupdict().get("part"), saying)
    if here == saying.day:
        return saying.one_day(here, match, "event" if is_this else "unsure")
    if is_moved_to(match.start("day"), saying):
        day = coming
    elif tense == "past":
        day = last
    elif tense == "future" or match.groupdict().get("p") or (is_this and here > saying.day):
        day = coming
    else:
        return saying.one_day(last, match, "unsure")
    return _in_part(saying.one_day(day, match), match.groupdict().get("part"), saying)


def read_weekday_back(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """The Friday before last, two Fridays ago."""
    weekday = words.WEEKDAYS[match["day"].lower()]
    here = days_after(saying.monday, weekday)
    last = here if here < saying.day else days_after(here, -7)
    count = count_of(match["n"]) if match.groupdict().get("n") else 2
    return saying.one_day(days_after(last, -7 * (count - 1)), match) if count else None


def read_nth_weekday(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """The second Friday of October, the last weekend of June."""
    month, name = words.MONTH_NUMBERS[match["mon"].lower()], match["day"].lower()
    year = month_year(month, match, saying)
    if year is None:
        return unsure(match)
    is_weekend = name not in words.WEEKDAYS
    first, after = month_start(year, month), month_start(year, month + 1)
    here = days_after(first, ((5 if is_weekend else words.WEEKDAYS[name]) - first.weekday()) % 7)
    nth = words.ORDINALS.get(match["nth"].lower())
    day = days_after(here, 7 * (nth - 1 if nth else (days_after(after, -1) - here).days // 7))
    return saying.days(day, days_after(day, 2 if is_weekend else 1), match)


# A weekday without one of these is the nearest by the verbs.
_WEEKS_CJK = {"上上": -2, "先々": -2, "上": -1, "先": -1, "这": 0, "這": 0, "本": 0, "今": 0, "下": 1, "来": 1,
              "下下": 2, "再来": 2}  # fmt: skip


def read_weekday_cjk(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """上周五 and 先週の金曜日 are Fridays of last week, whatever the day of saying is."""
    here = days_after(saying.monday, words.WEEKDAYS_CJK[match["day"]])
    shift = _WEEKS_CJK.get(match["week"])
    if shift is None:
        return _weekday_by_tense(here, match, saying, is_this=False)
    return saying.one_day(days_after(here, 7 * shift), match)


def read_again(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """On Mondays, every Friday: no one day."""
    return TimeCandidate(0, 0, match.start(), match.end(), "again")


def read_vague(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """A few days ago: a time that is left open."""
    return TimeCandidate(0, 0, match.start(), match.end(), "vague")
