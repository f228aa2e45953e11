"""The times that a text names, and the time of the event that it describes. SPEC 2.1, 2.5, 5.4, 7.1

`find_mentions` finds every time that a text names, for queries too ("what did I say last week"). `find_event_time`
answers only where a reader would not hesitate, and None otherwise: a memory without a date of its own has the time of
its statement, which is never far wrong; one with a wrong date is lost.

What counts as when it happened:
- a day, month, season, quarter or year that is named: its beginning; where it holds the moment of saying ("today",
  "this year"), that moment itself; with a time of day, that time
- a plan ("meet on Friday"), and where something begins ("from 1 June"): that day; a range: its beginning; something
  moved "from Friday to Monday": the new day
- of several days in the past, in their order: the first; of a month and a day in it: the day
and what does not: "since 2019", "until Friday", "by March", "before", "after"; "every Monday", birthdays; durations and
ages; what is only asked or supposed; a day that depends on another ("the next day"); a decade, "recently", "a few days
ago"; and every expression with two readings, as 05/03/2026 or "next Friday" on a Tuesday (of "at 3" the day stands).
A day and month without a year is the one the verbs point to: past, the last; future, the next; neither, the nearest by
far, else none. Parsers that exist fill in what the text leaves open; that is why this is not one of them.
"""

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple, cast

from mnemo_core.text import lexicon
from mnemo_core.text.cleaning import mask_code
from mnemo_core.text.dates import date_words as words
from mnemo_core.text.dates.date_patterns import DatePattern, patterns_for
from mnemo_core.text.dates.date_readers import Side, TimeCandidate, Utterance
from mnemo_core.text.dates.local_days import DAY_MS, HOUR_MS, Zone, days_after, local_time
from mnemo_core.text.languages import CASE_LOOKALIKES
from mnemo_core.text.lazy_patterns import lazy_pattern

RULES_VERSION = 7  # version of what `named_times` reads: columns made under another one are rebuilt
TEXT_CHARS_MAX = 20_000  # of a longer text, what stands first
MATCHES_MAX = 200  # of one rule; a text with more is a table of dates, of which the beginning is read
AT_MAX = 253_402_300_799_999  # the end of the year 9999
WEEK_MS = 7 * DAY_MS


class TimeMention(NamedTuple):
    """A time that a text names: from `at` up to, not including, `until` (ms), and its place in the text."""

    at: int
    until: int
    start: int
    end: int


_BEGINS = lazy_pattern(r"\b(?:(?:from|as of|as from|starting|effective) (?:on )?|(?P<de>ab) (?:dem )?)", re.IGNORECASE)
_BEGIN_CHARACTERS, _BEGINS_MAX = 400, 3
_RANGE_WORDS = lazy_pattern(r"\b(?:to|until|till|bis)\b|[–-]")


def find_mentions(text: str, said_at: int, zone: Zone) -> list[TimeMention]:
    """The times that the text names, in the order of the text. What has two readings has the likelier one here; bounds
    ("since 2019") and what comes again and again are no times."""
    return [
        TimeMention(*each[:4])
        for each in read_candidates(Utterance(masked(text), said_at, zone))
        if each.role in ("event", "vague", "unsure") and each.until > each.at
    ]


def said_at(text: str, event_at: int, created_at: int, zone: Zone) -> int:
    """Time of the statement in ms, which decides which of two values is the newer. Its event_at, unless that lies ahead
    or was read off the text: "the party is on May 3" is not said on May 3."""
    if event_at >= created_at or find_event_time(text, created_at, zone) == event_at:
        return created_at
    return event_at


def begins_at(text: str, said_at: int, zone: Zone) -> int:
    """The time from which on holds what the text says: its own, or the later one that it names ("from 1 January")."""
    for begin in islice(_BEGINS.finditer(text[:_BEGIN_CHARACTERS]), _BEGINS_MAX):
        lead = "Es wird am " if begin["de"] else "It will be on "  # without a verb, a day may be past or ahead
        named = lead + text[begin.end() : begin.end() + _BEGIN_CHARACTERS]
        for each in read_candidates(Utterance(masked(named), said_at, zone)):
            is_range = _RANGE_WORDS.search(named, each.start, each.end)
            if each.role == "event" and each.at > said_at and each.start == len(lead) and not is_range:
                return each.at
    return said_at


def find_event_time(text: str, said_at: int, zone: Zone) -> int | None:
    """Time of the event that the text describes, None where it names no time or leaves it open. None too for times
    before 1970 and after 9999, which no record holds."""
    saying = Utterance(masked(text), said_at, zone)
    one = _described(read_candidates(saying), saying)
    return None if one is None else _moment_of(one, said_at)


class NamedTimes(NamedTuple):
    """The times that a text names, each from its beginning up to, not including, its end (ms).

    event: that of the event that it describes; other: the first other one that does not hold the moment of saying. None
    where there is none. weekdays: those on which it says that something takes place, a bit each, from Monday, and since
    when: "from October on". 0: from before it was said. due: the first one ahead up to which something lasts, or is to
    be done: "due by Friday"; None where something takes place on weekdays until then.
    """

    event: tuple[int, int] | None = None
    other: tuple[int, int] | None = None
    weekdays: int = 0
    since: int = 0
    due: tuple[int, int] | None = None


NO_TIMES = NamedTimes()


def named_times(text: str, event_at: int, created_at: int, zone: Zone) -> NamedTimes:
    """The times that a stored text names, as seen from when it was said (`said_at`)."""
    cut = masked(text)
    rules = patterns_for(cut)
    if not rules:
        return NO_TIMES
    saying = Utterance(cut, created_at, zone)
    candidates = read_candidates(saying, rules)
    one = _described(candidates, saying)
    if event_at < created_at and (one is None or _moment_of(one, created_at) != event_at):
        saying = Utterance(cut, event_at, zone)
        candidates = read_candidates(saying, rules)
        one = _described(candidates, saying)
    named = [
        (each.at, each.until)
        for each in candidates
        if each.role in ("event", "vague", "unsure") and each.until > each.at
        and not each.at <= saying.said_at < each.until
    ]  # fmt: skip
    event = None if one is None else (one.at, one.until)
    weekdays = 0
    for each in candidates:
        if each.role == "again" and (saying.tense(each.start) != "past" or saying.search(each.start, words.IS_SO)):
            further = _FURTHER_WEEKDAYS.match(cut, each.end)
            for name in _WEEKDAY.findall(cut, each.start, further.end() if further else each.end):
                weekdays |= 1 << words.WEEKDAYS[name.lower().removesuffix("s")]
    since = min((each.at for each in candidates if each.role == "since" and each.at > saying.said_at), default=0)
    ends = [each for each in candidates if each.role == "until" and each.at > saying.said_at and not weekdays]
    due = next(((each.at, each.until) for each in ends if not _is_open(each, saying)), None)
    return NamedTimes(event, next((each for each in named if each != event), None), weekdays, since, due)


_WEEKDAY_NAMES = words.one_of(words.WEEKDAYS)
_WEEKDAY = lazy_pattern(rf"\b({_WEEKDAY_NAMES})s?\b", re.IGNORECASE)
# "every Tuesday and Friday"
_FURTHER_WEEKDAYS = lazy_pattern(rf"(?:\s*(?:,|\band\b|\bund\b|\bet\b|&)\s*(?:{_WEEKDAY_NAMES})s?\b)*", re.IGNORECASE)


def _moment_of(one: TimeCandidate, said_at: int) -> int | None:
    """The moment of an event of that time: its beginning, or, where it holds the moment of saying, that one."""
    at = one.at if one.when is None else one.when
    if one.at <= said_at < one.until and one.until - one.at > HOUR_MS:
        at = said_at
    return at if 0 <= at <= AT_MAX else None


def _described(candidates: list[TimeCandidate], saying: Utterance) -> TimeCandidate | None:
    """The one that is the time of the event that the text describes; None where it names none or leaves it open."""
    told = [each for each in candidates if each.role in ("event", "unsure") and not _is_open(each, saying)]
    if not told or any(each.role == "unsure" for each in told):
        return None
    # The one that the text tells of; none where several could be it
    finest = _without_wider(told)
    if len({each[:2] for each in finest}) == 1:
        return finest[0]
    if any(each.at > saying.said_at for each in told):
        return None
    sentence = saying.sentence(finest[0].start)
    together = [each for each in finest if saying.sentence(each.start) == sentence]
    in_order = all(one.at <= other.at for one, other in pairwise(together))
    return finest[0] if in_order else None


def _is_open(found: TimeCandidate, saying: Utterance) -> bool:
    """Return whether the time is only asked or supposed, that of a reason, or a day of every year."""
    if saying.search(found.start, _ASKED) or saying.search(found.start, words.SUPPOSED) or _is_reason(found, saying):
        return True
    expression = saying.text[found.start : found.end]
    has_month = any(word in words.MONTHS for word in re.findall(r"[^\W\d_]+", expression.lower())) or "月" in expression
    is_yearless = has_month and re.search(r"(?:19|20)\d\d", expression) is None
    return is_yearless and saying.search(found.start, words.YEARLY) is not None


def _is_reason(found: TimeCandidate, saying: Utterance) -> bool:
    """Return whether the time stands in a clause that gives a reason: "…, because it failed in August"."""
    reason = saying.search(found.start, words.REASON)
    if reason is None:
        return False
    start, _ = saying.sentence(found.start)
    clause = saying.text[start + reason.end() : found.start]
    is_first = not saying.text[start : start + reason.start()].strip()  # then the main clause follows behind a comma
    return start + reason.end() <= found.start and not (is_first and "," in clause)


_ASKED = lazy_pattern(r"(?:[?？]|吗。|ですか。|ますか。)(?=\s*+\Z)")


def _without_wider(candidates: list[TimeCandidate]) -> list[TimeCandidate]:
    """Those that no other, narrower one lies within."""
    wider: set[tuple[int, int]] = set()
    first_until: int | None = None  # of those that begin no earlier
    for at, until in sorted({(each.at, each.until) for each in candidates}, key=lambda span: (-span[0], span[1])):
        if first_until is not None and first_until <= until:
            wider.add((at, until))
        first_until = until if first_until is None else min(first_until, until)
    return [each for each in candidates if (each.at, each.until) not in wider]


# Reading


_MASK = lazy_pattern(r"`[^`\n]+`|https?://\S+|\b[\w.+-]{1,64}+@[\w-]+\.\w+")


def masked(text: str) -> str:
    """The text, blank where it is code or an address: what stands there is no date of an event."""
    text = text[:TEXT_CHARS_MAX]
    if not text.isascii():
        text = text.translate(CASE_LOOKALIKES)
    text = mask_code(text)
    if "`" not in text and "@" not in text and "://" not in text:
        return text
    return _MASK.sub(lambda match: " " * len(match.group()), text)


def read_candidates(saying: Utterance, rules: Sequence[DatePattern] | None = None) -> list[TimeCandidate]:
    """Every mention, in order: found by rule, the longest where they overlap, then put together. rules: those that may
    fit the text, where they are known."""
    taken: list[TimeCandidate] = []
    read_to = len(saying.text)
    for rule in patterns_for(saying.text, is_question=saying.is_question) if rules is None else rules:
        for number, match in enumerate(rule.pattern.finditer(saying.text)):
            if number == MATCHES_MAX:
                read_to = min(read_to, match.start())
                break
            try:
                found = rule.read(match, saying)
            except OverflowError:  # a day outside the years 1 to 9999
                continue
            if found is not None:
                taken.append(found)
    taken = [each for each in taken if each.start < read_to]
    taken.sort(key=lambda each: (each.start, -each.end))
    apart: list[TimeCandidate] = []
    for each in taken:
        if not apart or each.start >= apart[-1].end:
            apart.append(each)
        elif each.end - each.start > apart[-1].end - apart[-1].start:
            apart[-1] = each
    if not apart:
        return []
    days = list(_ranges(list(_with_clocks(list(_with_weekdays(apart, saying)), saying)), saying))
    times: list[TimeCandidate] = []
    for each in days:
        if each.role != "clock":
            one = _bounded(_stretched(each, saying), saying)
            while times and times[-1].end > one.start:  # "the weekend of 3 October" is one time
                times.pop()
            times.append(one)
    return times


_BETWEEN_WEEKDAY = lazy_pattern(r"[\s,(]*(?:den |dem |the |le )?[\s,]*")


def _with_weekdays(found: list[TimeCandidate], saying: Utterance) -> Iterator[TimeCandidate]:
    """A weekday next to a date is part of it."""
    index = 0
    while index < len(found):
        one = found[index]
        other = found[index + 1] if index + 1 < len(found) else None
        is_next = other and other.day is not None and _BETWEEN_WEEKDAY.fullmatch(saying.text[one.end : other.start])
        if other and is_next and _is_weekday(one, saying) and not _is_weekday(other, saying):
            found[index + 1] = other._replace(start=one.start)
        else:
            yield one
        index += 1


def _is_weekday(found: TimeCandidate, saying: Utterance) -> bool:
    return any(
        word in words.WEEKDAYS for word in re.findall(r"[^\W\d_]+", saying.text[found.start : found.end].lower())
    )


_TO_CLOCK = lazy_pattern(
    r"[\s,]*(?:(?:at|from|around|about|um|gegen|à|vers|@|on|am|the|of|は|の|に|morning|T)\s*)*[\s,]*", re.IGNORECASE
)


def _with_clocks(found: list[TimeCandidate], saying: Utterance) -> Iterator[TimeCandidate]:
    """A time of day belongs to the day next to it: the one before, else the one after."""
    used: set[int] = set()
    days = {index: each for index, each in enumerate(found) if each.day is not None}
    for index, each in enumerate(found):
        if each.role != "clock":
            continue
        for other in (index - 1, index + 1):
            day = days.get(other)
            if day is None or other in used or day.day is None:
                continue
            first, last = sorted((each, day), key=lambda one: one.start)
            if _TO_CLOCK.fullmatch(saying.text[first.end : last.start]):
                at = saying.moment(day.day, each.at)
                found[other] = day._replace(at=at, until=at + each.until, start=first.start, end=last.end, when=None)
                used.add(other)
                break
    yield from (each for each in found if each.role != "clock")


_RANGE = lazy_pattern(lexicon.alternation("calendar", "range"), re.IGNORECASE)
_RANGE_OPENS = lazy_pattern(lexicon.alternation("calendar", "range_opens"), re.IGNORECASE)


def _ranges(found: list[TimeCandidate], saying: Utterance) -> Iterator[TimeCandidate]:
    """`from … to …` is one time; of what was moved, the new one."""
    index = 0
    while index < len(found):
        one = found[index]
        other = found[index + 1] if index + 1 < len(found) else None
        gap = saying.text[one.end : other.start] if other else ""
        if other and one.role == other.role == "event" and _RANGE.fullmatch(gap):
            opens = _RANGE_OPENS.search(saying.text[max(0, one.start - 12) : one.start])
            if opens or "–" in gap or gap.strip() in ("-", "~", "〜", "～", "—", "至", "bis", "から", "to", "through"):
                if saying.search(one.start, words.MOVED):
                    yield other
                else:
                    if other.until <= one.at and one.day and _is_weekday(one, saying):  # "Monday to Friday last week"
                        one = one._replace(at=one.at - -(-(one.at - other.at) // WEEK_MS) * WEEK_MS)
                    if other.until > one.at:
                        yield one._replace(until=other.until, end=other.end, day=None)
                index += 2
                continue
        yield one
        index += 1


_BOUND_WORDS = words.one_of(name for name in words.BOUNDS if name[0] < "\u2fff" and "…" not in name)
_BOUND_BEFORE = lazy_pattern(lexicon.alternation("calendar", "bound_before", BOUND_WORDS=_BOUND_WORDS), re.IGNORECASE)
_BOUND_AFTER = lazy_pattern(rf"\s*(?P<word>{words.one_of(words.BOUNDS_BEHIND)}|on(?=\s*(?:[.,?!]|\Z)))", re.IGNORECASE)
_BOUND_INSIDE = lazy_pattern(lexicon.alternation("calendar", "bound_inside"), re.IGNORECASE)
_AGAIN_BEFORE = lazy_pattern(lexicon.alternation("calendar", "again_before"), re.IGNORECASE)
_ABOUT_BEFORE = lazy_pattern(
    r"(?<![\w-])(?:more than|over|less than|at least|up to|mehr als|über|plus de)\s+$", re.IGNORECASE
)

# "like yesterday"
_LIKE_BEFORE = lazy_pattern(r"\b(?:like|as if|seems?|only)(?: (?:it was|just|only))*\s+$", re.IGNORECASE)


def _bounded(found: TimeCandidate, saying: Utterance) -> TimeCandidate:
    """The mention with the role that the words around it give it."""
    before = saying.text[max(0, found.start - 32) : found.start]
    after = saying.text[found.end : found.end + 12]
    if found.role != "event":
        return found
    if _AGAIN_BEFORE.search(before):
        return found._replace(role="again")
    if side := _side(found, before, after, saying):
        return found._replace(role=side)
    is_like = not saying.is_question and _LIKE_BEFORE.search(before)  # but "what was the weather like yesterday"
    if is_like or (not _begins_with_in(found, saying) and _ABOUT_BEFORE.search(before)):
        return found._replace(role="vague")
    return found


def _side(found: TimeCandidate, before: str, after: str, saying: Utterance) -> Side | None:
    """The side on which the words around a time bound a stretch; None where they do not."""
    if behind := _BOUND_AFTER.match(after):
        word = behind["word"].lower()
        if word != "on":
            return cast("Side", words.BOUNDS_BEHIND[word])
        return "since" if _FROM.search(before) or _FROM.match(saying.text, found.start) else None
    if inside := _BOUND_INSIDE.match(saying.text, found.start):
        return cast("Side", words.BOUNDS[inside["word"].lower()])
    if not _begins_with_in(found, saying) and (ahead := _BOUND_BEFORE.search(before)):
        return cast("Side", words.BOUNDS[(ahead["word"] or ahead["cjk"]).lower()])
    return None


def _begins_with_in(found: TimeCandidate, saying: Utterance) -> bool:
    """Return whether the time has its own preposition: "what was I up to in July" is no bound."""
    return saying.text[found.start : found.start + 3].lower() in ("in ", "on ", "at ")


_FROM = lazy_pattern(r"(?:\bfrom\b|\bab\b)(?: the)?\s*(?:\Z|\w)", re.IGNORECASE)
_AROUND = lazy_pattern(lexicon.alternation("calendar", "around"), re.IGNORECASE)
_BESIDE = lazy_pattern(lexicon.alternation("calendar", "beside"), re.IGNORECASE)


def _stretched(found: TimeCandidate, saying: Utterance) -> TimeCandidate:
    """The time with what stands before it: the week of 3 August, the day after Christmas."""
    if found.role not in ("event", "unsure") or found.until <= found.at:
        return found
    inside = _BOUND_INSIDE.match(saying.text, found.start)  # "the day [after Christmas]"
    end = found.start if inside is None else inside.end()
    start = max(0, found.start - 40)
    before = saying.text[start:end] + (" " if inside is not None else "")
    first, _ = local_time(found.at, saying.zone)
    last, _ = local_time(found.until - 1, saying.zone)
    if inside is None and (around := _AROUND.search(before)):
        monday = days_after(first, -first.weekday())
        begin, after = (days_after(monday, each) for each in ((5, 7) if _is_weekend(around["unit"]) else (0, 7)))
        start += around.start()
    elif beside := _BESIDE.search(before):
        begin, after = _beside(first, last, beside)
        start += beside.start()
    else:
        return found
    day = begin if after == days_after(begin, 1) else None
    return found._replace(at=saying.moment(begin), until=saying.moment(after), start=start, day=day, when=None)


def _is_weekend(unit: str) -> bool:
    return unit.lower() in ("weekend", "wochenende")


def _beside(first: dt.date, last: dt.date, beside: re.Match[str]) -> tuple[dt.date, dt.date]:
    """The day, week or weekend before the first of these days or after the last one."""
    unit, is_after = beside["unit"].lower(), beside["side"].lower() in ("after", "nach", "après", "después de")
    if _is_weekend(unit):
        begin = days_after(last, (5 - last.weekday()) % 7 or 7) if is_after else days_after(first, -2 - first.weekday())
        return begin, days_after(begin, 2)
    length = 7 if unit in ("week", "woche", "semaine", "semana", "days", "tage", "tagen") else 1
    begin = days_after(last, 1) if is_after else days_after(first, -length)
    return begin, days_after(begin, length)
