"""The dates that notes give for what they tell. SPEC 2.5, 6"""

import datetime as dt

import pytest

from mnemo_core.documents.note_dates import (
    HeadingDates,
    date_in_heading,
    date_in_logseq,
    date_in_name,
    date_in_org,
)


def utc(_: int) -> int:
    return 0


def iso(at: int | None) -> str | None:
    return None if at is None else dt.datetime.fromtimestamp(at / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M")


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("2026-08-14.md", "2026-08-14"),
        ("journals/2026_11_05.md", "2026-11-05"),
        ("20260814.org", "2026-08-14"),
        ("20260814103000-roam.org", "2026-08-14"),
        ("Meeting 2026-08-14 with Ada.md", "2026-08-14"),
        ("Journal/2026/08/14.md", "2026-08-14"),
        ("2026-13-14.md", None),
        ("2026-02-30.md", None),
        ("1234567890.md", None),
        ("120260814.md", None),
        ("2026-08.md", None),
        ("plan.md", None),
    ],
)
def test_the_day_in_the_name_of_a_file(path: str, day: str | None) -> None:
    assert iso(date_in_name(path, utc)) == (day and f"{day}T00:00")


@pytest.mark.parametrize(
    ("heading", "moment"),
    [
        ("14 August 2026", "2026-08-14T00:00"),
        ("Friday, August 14th, 2026", "2026-08-14T00:00"),
        ("[[Nov 5th, 2026]]", "2026-11-05T00:00"),
        ("14. August 2026", "2026-08-14T00:00"),
        ("2026年8月14日", "2026-08-14T00:00"),
        ("3.2 (2026-08-14)", "2026-08-14T00:00"),
        ("Call <2026-08-14 Fri 10:30>", "2026-08-14T10:30"),
        ("August 2026", None),
        ("14 August", None),
        ("05/03/2026", None),
        ("2026-08-14 to 2026-08-16", None),
        ("Since 14 August 2026", None),
        ("Goals", None),
    ],
)
def test_a_heading_has_the_one_day_that_it_names(heading: str, moment: str | None) -> None:
    assert iso(date_in_heading(heading, utc)) == moment


def test_a_day_begins_at_midnight_of_the_zone() -> None:
    assert iso(date_in_name("2026-08-14.md", lambda _: 2 * 3_600_000)) == "2026-08-13T22:00"


def test_an_org_text_has_its_first_active_timestamp_else_an_inactive_one() -> None:
    assert iso(date_in_org("[2026-01-02 Fri] then <2026-08-14 Fri 09:15-10:00>", utc)) == "2026-08-14T09:15"
    assert iso(date_in_org("CLOSED: [2026-01-02 Fri 08:00]", utc)) == "2026-01-02T08:00"
    assert date_in_org("[[2026-01-02]] and <b>", utc) is None


def test_a_markdown_text_has_a_timestamp_only_with_its_weekday() -> None:
    assert iso(date_in_logseq("- LATER x\n  SCHEDULED: <2026-08-14 Fri>", utc)) == "2026-08-14T00:00"
    assert date_in_logseq("<2026-08-14>", utc) is None


def test_the_innermost_heading_with_a_date_counts() -> None:
    dates = HeadingDates(utc)
    assert iso(dates.nearest(["Log of 2025-01-01", "14 August 2026", "Lunch"])) == "2026-08-14T00:00"
    assert dates.nearest(["Log", "Lunch"]) is None
