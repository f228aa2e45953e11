"""Agenda of a time: the memories that answer a question for a time and for nothing else. SPEC 7.5a, 11

Said in November 2026; the day that is asked for is Thursday, 19 November, in UTC.
"""

import datetime as dt

import pytest

from mnemo_core.retrieval.time_placement import AgendaTime, DatedText, cancelled_by, read_agenda, read_cancellation

DAY_MS = 86_400_000
THURSDAY = 0b1000


def ms(iso: str) -> int:
    return int(dt.datetime.fromisoformat(iso).replace(tzinfo=dt.UTC).timestamp() * 1000)


BEGIN = ms("2026-11-19")
AHEAD = AgendaTime(BEGIN, BEGIN + DAY_MS, THURSDAY)
PAST = AHEAD._replace(weekdays=0)
WEEK = AgendaTime(ms("2026-11-16"), ms("2026-11-23"), 0b1111111)
MONTH = AgendaTime(BEGIN, BEGIN + 30 * DAY_MS, 0b1111111)


def said(text: str, at: str = "2026-11-10T10:00", newer: tuple[DatedText, ...] = ()) -> DatedText:
    return DatedText(text, ms(at), ms(at), newer)


def items(*texts: DatedText, time: AgendaTime = AHEAD) -> list[str]:
    return [texts[place].text for place in read_agenda(texts, time, lambda at: 0).items]


def is_meant(plan: str, later: str) -> bool:
    cancellation = read_cancellation(later)
    return cancellation is not None and cancelled_by(plan, [cancellation]) == [0]


def test_what_names_the_day_or_its_weekday_is_an_item_in_the_order_of_time() -> None:
    late = said("Concert on 19 November at 20:00.")
    early = said("The plumber comes on 19 November at 8:00.")
    weekly = said("Choir rehearsal every Thursday at 19:30.")
    other = said("Yoga is on Mondays.")
    assert items(late, early, weekly, other) == [weekly.text, early.text, late.text]


def test_of_more_than_there_is_room_for_what_comes_every_week_is_left_out_first() -> None:
    weekly = [said(f"Course {number} is on Thursdays.") for number in range(9)]
    late = said("Concert on 19 November at 20:00.")
    assert items(*weekly, late) == [*(each.text for each in weekly[:7]), late.text]
    found = read_agenda([*weekly, late], AHEAD._replace(items=2), lambda at: 0)
    assert (found.items, found.is_whole) == ([0, 9], False)
    assert read_agenda([late], AHEAD._replace(items=1), lambda at: 0).is_whole


@pytest.mark.parametrize("time", [WEEK, MONTH])
def test_in_a_week_or_more_what_comes_every_week_is_last(time: AgendaTime) -> None:
    weekly, late = said("Choir every Thursday at 19:30."), said("Concert on 22 November at 20:00.")
    early = said("The plumber comes on 20 November at 8:00.")
    assert items(weekly, late, early, time=time) == [early.text, late.text, weekly.text]


@pytest.mark.parametrize(
    "task",
    [
        "Abgabe bis 19.11.",
        "The tax return is due by 19 November.",
        "Die Treppe muss bis Donnerstag fertig sein.",
        "Library books have to be returned by Thursday.",
        "The subscription must be cancelled by 19 November 2026.",
    ],
)
def test_what_is_due_on_a_day_is_an_item_of_it_and_ends_nothing(task: str) -> None:
    due, visit = said(task, "2026-11-17T10:00"), said("Library visit on 19 November, then the tax adviser.")
    assert sorted(items(visit, due)) == sorted([visit.text, task])
    assert items(due, time=WEEK) == [task]
    assert items(due, time=AgendaTime(BEGIN - DAY_MS, BEGIN, 0b100)) == []


def test_of_a_day_ahead_what_was_merely_said_then_is_no_item() -> None:
    now = said("The new lamp is blue.", "2026-11-19T07:00")
    assert items(now) == []
    assert items(now, time=PAST) == [now.text]


def test_of_a_day_in_the_past_what_names_it_comes_first() -> None:
    written = said("Repaired the fence.", "2026-11-19T18:00")
    planned = said("Dentist on 19 November at 9:00.")
    assert items(written, planned, time=PAST) == [planned.text, written.text]


@pytest.mark.parametrize(
    "change",
    [
        "The concert is cancelled.",
        "They called the concert off.",
        "The concert was moved to 26 November.",
        "Actually the concert is on 20 November.",
    ],
)
def test_what_a_later_text_cancels_or_moves_is_no_item(change: str) -> None:
    concert = said("Concert on 19 November at 20:00.", newer=(said(change, "2026-11-12T09:00"),))
    assert items(concert) == []


def test_what_perhaps_replaces_another_needs_no_more_than_now() -> None:
    later = said("Piano is at 18:00 on Thursdays from now on.", "2026-11-12T09:00")
    piano = said("Piano lessons are on Thursdays at 17:00.", newer=(later,))
    assert items(piano, later) == [later.text]
    assert items(piano._replace(newer=()), later) == [piano.text, later.text]
    other_day = said("Piano is on Fridays now.", "2026-11-12T09:00")
    assert items(piano._replace(newer=(other_day,))) == []


def test_a_german_cancellation_with_a_verb_in_two_parts_is_read() -> None:
    newer = said("Mama sagt den Besuch leider ab.", "2026-11-12T09:00")
    assert items(said("Mama kommt am 19. November zu Besuch.", newer=(newer,))) == []


@pytest.mark.parametrize(
    "other",
    [
        "We might cancel the concert.",  # only considered
        "The flat of Petra is sold.",  # about something else
        "The concert in March was cancelled.",  # at another time
    ],
)
def test_what_a_later_text_does_not_change_stays(other: str) -> None:
    concert = said("Concert on 19 November at 20:00.", newer=(said(other, "2026-11-12T09:00"),))
    assert items(concert) == [concert.text]


def test_a_change_that_begins_later_leaves_the_day_as_it_is() -> None:
    newer = said("From December on choir is on Tuesdays instead.", "2026-11-12T09:00")
    choir = said("Choir rehearsal every Thursday at 19:30.", newer=(newer,))
    assert items(choir) == [choir.text]
    moved = said("From November on choir is on Thursdays instead.", "2026-10-12T09:00")
    assert items(moved) == [moved.text]


def test_an_exception_of_the_day_is_no_item_and_is_told_apart() -> None:
    weekly, exception = said("Choir every Thursday at 19:30."), said("No choir on 19 November.", "2026-11-15T09:00")
    found = read_agenda([weekly, exception], AHEAD, lambda at: 0)
    assert found[:2] == ([], [1])


def test_what_ends_before_the_time_or_in_a_part_of_it_leaves_the_rest_as_it_is() -> None:
    week = said("Choir is off this week.", "2026-11-10T10:01")
    choir = said("Choir every Thursday at 19:30.", newer=(week,))
    assert items(choir) == [choir.text]
    until = said("No choir until 18 November.", "2026-11-15T09:00")
    assert items(choir._replace(newer=(until,))) == [choir.text]
    assert items(choir._replace(newer=(said("No choir until 20 November.", "2026-11-15T09:00"),))) == []
    exception = said("Choir is cancelled on 26 November.", "2026-11-15T09:00")
    assert items(choir._replace(newer=()), exception, time=MONTH) == [choir.text]


@pytest.mark.parametrize(
    "later",
    [
        "Die Physio am 19. November fällt aus.",
        "Die Physio am Donnerstag, 19. November, ist leider abgesagt.",
        "The physio at 8:30 on 19 November is cancelled, Petra is ill.",
    ],
)
def test_what_a_text_of_the_day_cancels_is_no_item(later: str) -> None:
    assert items(said("Physio am Donnerstag um 8:30.", "2026-11-15T09:00"), said(later, "2026-11-16T09:00")) == []


@pytest.mark.parametrize(
    ("plan", "later"),
    [
        ("Physio on 19 November at 8:30.", "Physio fällt aus."),
        ("Dentist on 19 November with Dr Patel.", "The dentist appointment is off."),
        ("Termin mit Herrn Brunner am 19. November.", "Der Termin mit Herrn Brunner ist abgesagt."),
        ("Chorprobe jeden Donnerstag um 19 Uhr.", "Der Chor fällt wegen Krankheit aus."),
        ("Zahnarzt am 19.11. um 7:45.", "Leider ist der Zahnarzttermin abgesagt, ein neuer folgt."),
        (
            "Book club on 19 November at Joan's house.",
            "The book club is cancelled because Joan has the flu.",
        ),
        ("Choir on 19 November at 7 pm in the hall.", "The choir rehearsal has been called off."),
        ("Flight to Lisbon on 19 November.", "The Lisbon trip is off."),
    ],
)
def test_what_a_text_without_a_day_cancels_is_an_item_that_is_doubted(plan: str, later: str) -> None:
    assert is_meant(plan, later)
    text = said(plan)._replace(cancelling=(said(later, "2026-11-15T09:00"),))
    found = read_agenda([text], AHEAD, lambda at: 0)
    assert (found.items, found.doubts) == ([0], {0: 0})
    earlier = read_agenda([text._replace(created_at=ms("2026-11-16"))], AHEAD, lambda at: 0)
    assert (earlier.items, earlier.doubts) == ([0], {})
    sure = said("Concert on 19 November.")
    assert read_agenda([text, sure], AHEAD._replace(items=2), lambda at: 0).items == [1]


@pytest.mark.parametrize(
    ("plan", "other"),
    [
        ("Termin mit Herrn Keller am 19. November.", "Der Termin mit Herrn Brunner am 19. November ist abgesagt."),
        ("Kaffee mit Anna am 19. November.", "Das Mittagessen mit Anna am 19. November ist abgesagt."),
        ("Lunch with Petra on 19 November.", "The physio at 8:30 with Petra on 19 November is cancelled."),
        ("Team lunch on 19 November.", "The team meeting is cancelled on 19 November."),
        ("Meeting on 19 November with Priya.", "The meeting with Lars on 19 November is cancelled."),
        ("Elternabend am 19. November.", "Das Elterngespräch am 19. November fällt aus."),
        ("Dentist on 19 November.", "Dropped off the forms at the dentist."),
        ("Dinner with Sarah on 19 November.", "Sarah's flight on 19 November was cancelled."),
    ],
)
def test_what_cancels_another_appointment_changes_nothing(plan: str, other: str) -> None:
    assert not is_meant(plan, other)
    assert items(said(plan), said(other, "2026-11-15T09:00")) == [plan]


@pytest.mark.parametrize(
    "reminder",
    ["Don't forget the form for the dentist on 19 November.", "No sugar before the blood test on 19 November."],
)
def test_a_reminder_cancels_nothing_and_is_an_item(reminder: str) -> None:
    dentist, later = said("Dentist on 19 November at 9:15."), said(reminder, "2026-11-15T09:00")
    assert sorted(items(dentist, later)) == sorted([dentist.text, reminder])


def test_one_of_two_things_with_the_same_person_stays() -> None:
    lunch = said("Lunch with Anna on 19 November at 12:30.")
    coffee = said("Coffee with Anna on 19 November is cancelled.", "2026-11-15T09:00")
    assert items(lunch, coffee) == [lunch.text]


def test_a_replacement_without_a_time_has_that_of_what_it_replaces() -> None:
    before = said("The interview is on 19 November at 14:00.")
    hour = said("The interview is at 15:30 actually.", "2026-11-15T09:00")._replace(before=before)
    day = said("The interview is on 20 November actually.", "2026-11-15T09:00")._replace(before=before)
    assert items(hour) == [hour.text]
    assert items(day) == []
