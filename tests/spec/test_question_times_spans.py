"""The stretches of time that a filter may name. SPEC 7.1

Seen from Wednesday, 18 November 2026, 15:30 in Berlin.
"""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from mnemo_core.text.dates.question_times import TimeSpan, parse_time_span
from mnemo_daemon.errors import Refusal
from mnemo_daemon.times import parse_bound

BERLIN = ZoneInfo("Europe/Berlin")


def at(iso: str) -> int:
    return int(dt.datetime.fromisoformat(iso).replace(tzinfo=BERLIN).timestamp() * 1000)


NOW = at("2026-11-18T15:30")


def berlin(moment: int) -> int:
    offset = dt.datetime.fromtimestamp(moment / 1000, BERLIN).utcoffset()
    assert offset is not None
    return int(offset.total_seconds() * 1000)


def span(text: str) -> tuple[str, str] | None:
    """As the clocks of Berlin show it."""
    found = parse_time_span(text, NOW, berlin)
    return None if found is None else (shown(found.begin), shown(found.end))


def shown(moment: int) -> str:
    return dt.datetime.fromtimestamp(moment / 1000, BERLIN).strftime("%Y-%m-%dT%H:%M").removesuffix("T00:00")


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("today", "2026-11-18", "2026-11-19"),
        ("yesterday", "2026-11-17", "2026-11-18"),
        ("the day before yesterday", "2026-11-16", "2026-11-17"),
        ("yesterday morning", "2026-11-17T06:00", "2026-11-17T12:00"),
        ("yesterday at 3pm", "2026-11-17T15:00", "2026-11-17T16:00"),
        ("3 days ago", "2026-11-15", "2026-11-16"),
        ("2 hours ago", "2026-11-18T13:30", "2026-11-18T14:30"),
        ("this week", "2026-11-16", "2026-11-23"),
        ("last week", "2026-11-09", "2026-11-16"),
        ("  Last   WEEK ", "2026-11-09", "2026-11-16"),
        ("next week", "2026-11-23", "2026-11-30"),
        ("last month", "2026-10-01", "2026-11-01"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("the weekend", "2026-11-14", "2026-11-16"),
        ("March 2024", "2024-03-01", "2024-04-01"),
        ("march 2024", "2024-03-01", "2024-04-01"),
        ("in march 2024", "2024-03-01", "2024-04-01"),
        ("2024-03", "2024-03-01", "2024-04-01"),
        ("2025-12", "2025-12-01", "2026-01-01"),
        ("2023", "2023-01-01", "2024-01-01"),
        ("Q3 2025", "2025-07-01", "2025-10-01"),
        ("summer 2023", "2023-06-01", "2023-09-01"),
        ("march 3, 2024", "2024-03-03", "2024-03-04"),
        ("13/03/2026", "2026-03-13", "2026-03-14"),
    ],
)
def test_a_time_that_is_named_is_all_of_it_up_to_its_end(text: str, begin: str, end: str) -> None:
    assert span(text) == (begin, end)


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("monday", "2026-11-16", "2026-11-17"),
        ("wednesday", "2026-11-18", "2026-11-19"),  # today is one
        ("friday", "2026-11-13", "2026-11-14"),
        ("march", "2026-03-01", "2026-04-01"),
        ("may 3", "2026-05-03", "2026-05-04"),
        ("20 december", "2025-12-20", "2025-12-21"),
    ],
)
def test_an_ambiguous_date_is_the_last_one_that_has_begun(text: str, begin: str, end: str) -> None:
    assert span(text) == (begin, end)


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("last 3 days", "2026-11-15T15:30"),
        ("the past week", "2026-11-11T15:30"),
        ("in the last two hours", "2026-11-18T13:30"),
        ("past 45 minutes", "2026-11-18T14:45"),
        ("the last two months", "2026-09-18T15:30"),
        ("past year", "2025-11-18T15:30"),
    ],
)
def test_the_last_days_and_weeks_end_now(text: str, begin: str) -> None:
    assert span(text) == (begin, "2026-11-18T15:30")


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("gestern", "2026-11-17", "2026-11-18"),
        ("letzte Woche", "2026-11-09", "2026-11-16"),
        ("letzte woche", "2026-11-09", "2026-11-16"),
        ("vor 3 Tagen", "2026-11-15", "2026-11-16"),
        ("im März", "2026-03-01", "2026-04-01"),
        ("märz 2024", "2024-03-01", "2024-04-01"),
        ("hier", "2026-11-17", "2026-11-18"),
        ("la semaine dernière", "2026-11-09", "2026-11-16"),
        ("il y a 3 jours", "2026-11-15", "2026-11-16"),
        ("en mars 2024", "2024-03-01", "2024-04-01"),
        ("昨天", "2026-11-17", "2026-11-18"),
        ("上周", "2026-11-09", "2026-11-16"),
        ("三天前", "2026-11-15", "2026-11-16"),
        ("2024年3月", "2024-03-01", "2024-04-01"),
        ("先週", "2026-11-09", "2026-11-16"),
        ("3日前", "2026-11-15", "2026-11-16"),
        ("月曜日", "2026-11-16", "2026-11-17"),
    ],
)
def test_german_french_chinese_and_japanese_are_read_too(text: str, begin: str, end: str) -> None:
    assert span(text) == (begin, end)


@pytest.mark.parametrize(
    "text",
    [
        "", "soon", "05/03/2026", "yesterday and today", "half an hour ago", "earlier this week", "every monday",
        "since monday", "last 0 days", "last many days", "{0}", "yesterday " + "x" * 80,
    ],
)  # fmt: skip
def test_a_text_without_exactly_one_time_is_not_read(text: str) -> None:
    assert parse_time_span(text, NOW, berlin) is None


def test_a_day_in_which_the_clocks_change_has_as_many_hours_as_it_has() -> None:
    sunday = dt.datetime(2026, 10, 25, 20, tzinfo=BERLIN)
    found = parse_time_span("today", int(sunday.timestamp() * 1000), berlin)
    assert found is not None
    assert found.end - found.begin == 25 * 3_600_000


def test_now_is_a_valid_time() -> None:
    assert parse_time_span("now", NOW, berlin) == TimeSpan(NOW, NOW)


# As the bounds of a filter


def test_since_is_where_it_begins_and_until_where_it_ends() -> None:
    since, until = parse_bound("3 hours ago", "since", "since", NOW), parse_bound("3 hours ago", "until", "until", NOW)
    assert (since, until) == (NOW - 3 * 3_600_000, NOW - 2 * 3_600_000)


@pytest.mark.parametrize("text", ["90m", "90m ago", " 90m "])
def test_a_span_back_from_now_gives_the_same_time_at_both_ends(text: str) -> None:
    assert parse_bound(text, "since", "since", NOW) == parse_bound(text, "until", "until", NOW) == NOW - 5_400_000


def test_milliseconds_and_iso_text_are_read_as_times_as_before() -> None:
    assert parse_bound(5, "until", "until", NOW) == 5
    assert parse_bound("1970-01-02T01:00:00+01:00", "until", "until", NOW) == 86_400_000
    begin = int(dt.datetime(2026, 3, 1).astimezone().timestamp() * 1000)
    assert parse_bound("2026-03-01", "since", "since", NOW) == parse_bound("2026-03-01", "until", "until", NOW) == begin


def test_no_span_goes_back_beyond_1970() -> None:
    assert parse_bound("999999999w", "since", "since", NOW) == 0


@pytest.mark.parametrize("bad", ["soon", "", "05/03/2026", "2026-13-01", "1950"])
def test_a_bound_that_cannot_be_read_is_refused_by_its_field_with_examples(bad: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_bound(bad, "filter.since", "since", NOW)
    assert (refused.value.status, refused.value.field) == (400, "filter.since")
    assert "`filter.since`" in refused.value.message
    assert "2026-03-01" in refused.value.message


def test_a_filter_means_the_past_month_where_the_coming_one_is_near() -> None:
    assert span("december") == ("2025-12-01", "2026-01-01")
    assert span("15 december") == ("2025-12-15", "2025-12-16")
