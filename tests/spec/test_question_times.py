"""The time that a question names. SPEC 7.5a

Seen from Sunday, 15 November 2026, 10:00 in Berlin: this week is 9 to 15 November.
"""

import datetime as dt
import json
import time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from mnemo_core.text.dates.question_times import QuestionTime, read_question_time

BERLIN = ZoneInfo("Europe/Berlin")
NOW = int(dt.datetime(2026, 11, 15, 10, tzinfo=BERLIN).timestamp() * 1000)
LABELLED = Path(__file__).parents[1] / "fixtures" / "readings" / "times.jsonl"
# Of 880, 46 of them in Chinese, French and Spanish: "last night" reaches into this day, a person is called Friday,
# "since Easter" is from Good Friday.
WRONG_MAX = 96
READING_SECONDS_MAX = 0.002  # the goal is 100 µs; a busy machine takes several times as long


def zone(at: int) -> int:
    offset = dt.datetime.fromtimestamp(at / 1000, BERLIN).utcoffset()
    assert offset is not None
    return int(offset.total_seconds() * 1000)


def read(question: str, *, is_prompt: bool = False) -> QuestionTime | None:
    return read_question_time(question, NOW, zone, is_prompt=is_prompt)


def days(question: str) -> tuple[str, str]:
    """The first and the last day; "" where it is open."""
    found = read(question)
    assert found is not None, question
    assert found.has_interval, question
    return shown(found.begin), shown(None if found.until is None else found.until - 1)


def shown(at: int | None) -> str:
    return "" if at is None else dt.datetime.fromtimestamp(at / 1000, BERLIN).date().isoformat()


@pytest.mark.parametrize(
    ("question", "day"),
    [
        ("what happened on 15 August", "2026-08-15"),
        ("15 August", "2026-08-15"),
        ("What did I do on September 3rd?", "2026-09-03"),
        ("What happened on 2026-09-03?", "2026-09-03"),
        ("What did I do last Wednesday?", "2026-11-11"),
        ("what did we do on Friday", "2026-11-13"),
        ("what did I do on Sunday", "2026-11-08"),  # it is Sunday
        ("was the library open on Monday?", "2026-11-09"),
        ("is the library open next Friday?", "2026-11-20"),
        ("what's on this Sunday", "2026-11-15"),
        ("what do I have on Friday?", "2026-11-20"),
        ("what is planned for tomorrow", "2026-11-16"),
        ("Was habe ich am Samstag?", "2026-11-21"),
        ("Was habe ich am Samstag gemacht?", "2026-11-14"),
        ("Bin ich am 12. Dezember frei?", "2026-12-12"),
        ("what did I do yesterday evening?", "2026-11-14"),
        ("what did I write three days ago", "2026-11-12"),
        ("what happened on the 3rd?", "2026-11-03"),
        ("what happened on the 28th?", "2026-10-28"),
        ("what happened on 28/10", "2026-10-28"),
        ("what happened the day before Christmas", "2025-12-23"),
        ("what did I do on the second Friday of October", "2026-10-09"),
        ("Was habe ich letzten Mittwoch gemacht?", "2026-11-11"),
        ("was war am 15.?", "2026-11-15"),
        ("was war am 15.8.?", "2026-08-15"),
        ("Was war vorgestern?", "2026-11-13"),
        ("letzte Woche Mittwoch", "2026-11-04"),
        ("qu'ai-je fait le 15 août ?", "2026-08-15"),
        ("que s'est-il passé avant-hier ?", "2026-11-13"),
        ("qué pasó el 15 de agosto", "2026-08-15"),
        ("qué hice ayer", "2026-11-14"),
        ("8月15日发生了什么", "2026-08-15"),
        ("what did I buy a week ago yesterday", "2026-11-07"),
        ("what happened on the first of last month", "2026-10-01"),
        ("heute vor vierzehn Tagen", "2026-11-01"),
        ("Wo war ich vorletzten Dienstag?", "2026-11-03"),
        ("Sind wir Karfreitag spazieren gewesen?", "2026-04-03"),
        ("¿qué hice anoche?", "2026-11-14"),
        ("qui a appelé lundi de la semaine dernière", "2026-11-02"),
        ("昨天我做了什么", "2026-11-14"),
        ("Can Lilly come on Friday?", "2026-11-20"),
        ("Book a table for Friday evening", "2026-11-20"),
        ("Prepare me for the call on Thursday", "2026-11-19"),
        ("Is there anything from Thursday?", "2026-11-12"),
        ("Kann Lilly am Freitag?", "2026-11-20"),
        ("Schreib Lilly, ob sie am Freitag kann", "2026-11-20"),
        ("Hat Lilly am Freitag Zeit?", "2026-11-20"),
        ("Hat Lilly am Freitag gekocht?", "2026-11-13"),
        ("Was machen wir an Silvester?", "2026-12-31"),
    ],
)
def test_a_day_is_read(question: str, day: str) -> None:
    assert days(question) == (day, day)


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("who did I meet last week?", "2026-11-02", "2026-11-08"),
        ("the week before last", "2026-10-26", "2026-11-01"),
        ("the weekend before last", "2026-10-31", "2026-11-01"),
        ("what did we do the week of 3 August?", "2026-08-03", "2026-08-09"),
        ("where was I on the weekend of 3 October?", "2026-10-03", "2026-10-04"),
        ("notes from October", "2026-10-01", "2026-10-31"),
        ("where did I eat in early July", "2026-07-01", "2026-07-10"),
        ("mid October", "2026-10-11", "2026-10-20"),
        ("in late September", "2026-09-21", "2026-09-30"),
        ("the first week of July", "2026-07-01", "2026-07-07"),
        ("the last week of September", "2026-09-24", "2026-09-30"),
        ("the first half of October", "2026-10-01", "2026-10-15"),
        ("between 3 and 9 July what did I do", "2026-07-03", "2026-07-09"),
        ("what happened between July and September", "2026-07-01", "2026-09-30"),
        ("between Monday and Wednesday", "2026-11-09", "2026-11-11"),
        ("What happened in Q3?", "2026-07-01", "2026-09-30"),
        ("what did we do in the spring", "2026-03-01", "2026-05-31"),
        ("this summer", "2026-06-01", "2026-08-31"),
        ("What did I do in the last three days?", "2026-11-13", "2026-11-15"),
        ("over the last ten days", "2026-11-06", "2026-11-15"),
        ("what happened over Christmas?", "2025-12-24", "2025-12-26"),
        ("what did we do at Easter", "2026-04-03", "2026-04-06"),
        ("this time last year", "2025-10-31", "2025-11-30"),
        ("what did I do since 3 October", "2026-10-03", "2026-11-15"),
        ("after 3 October", "2026-10-04", "2026-11-15"),
        ("what happened before August?", "", "2026-07-31"),
        ("What is planned for next month?", "2026-12-01", "2026-12-31"),
        ("Was war Anfang Oktober?", "2026-10-01", "2026-10-10"),
        ("was ist seit August passiert?", "2026-08-01", "2026-11-15"),
        ("was habe ich vor dem 3. Oktober gemacht", "", "2026-10-02"),
        ("Was habe ich zwischen dem 3. und 9. Juli gemacht?", "2026-07-03", "2026-07-09"),
        ("in den letzten zehn Tagen", "2026-11-06", "2026-11-15"),
        ("am vorletzten Wochenende", "2026-10-31", "2026-11-01"),
        ("que s'est-il passé la semaine dernière", "2026-11-02", "2026-11-08"),
        ("depuis août", "2026-08-01", "2026-11-15"),
        ("qué hice la semana pasada", "2026-11-02", "2026-11-08"),
        ("desde agosto", "2026-08-01", "2026-11-15"),
        ("上周我见了谁", "2026-11-02", "2026-11-08"),
        ("十月初做了什么", "2026-10-01", "2026-10-10"),
        ("最近三天", "2026-11-13", "2026-11-15"),
        ("Wo sind wir an Weihnachten?", "2026-12-24", "2026-12-26"),
        ("Wo waren wir an Weihnachten?", "2025-12-24", "2025-12-26"),
    ],
)
def test_a_span_is_read_in_whole_days(question: str, first: str, last: str) -> None:
    assert days(question) == (first, last)


@pytest.mark.parametrize(
    "question",
    [
        "when is the driving test", "when did we fix the boiler", "wann ist der Test", "what is in the 2024 budget",
        "which is the last train", "how long is the summer term", "what is today's special", "who is my dentist?",
        "what does Petra prefer", "what is Lea's last name", "what changed since yesterday in git", "what is in Q",
        "what does /var/log/2026-08-15.log say", 'who sings "Yesterday was last week"', "what do I do every Monday",
        "what did I buy as a Christmas present for Lea", "what is on the first floor", "port 8080",
        "what is the first day of school", "what are the opening hours on Saturday?", "when do we open on Saturday?",
        "Is the library open on Monday?", "until when is the pool open on Friday?", "Saturday opening hours",
        "Wie sind die Öffnungszeiten am Samstag?", "Wann hat der Laden am Samstag geöffnet?",
        "Quels sont les horaires du samedi ?", "Le magasin est-il ouvert le lundi ?",
    ],
)  # fmt: skip
def test_a_question_that_names_no_time_is_left_alone(question: str) -> None:
    assert read(question) is None


@pytest.mark.parametrize(
    ("question", "order"),
    [
        ("when did I last see Petra?", "last"),
        ("when was the last time I had sushi", "last"),
        ("the latest thing the doctor said", "last"),
        ("how long since I went swimming", "last"),
        ("what was the first concert this summer?", "first"),
        ("Wann war ich zuletzt beim Zahnarzt?", "last"),
        ("Wie lange ist es her, dass ich schwimmen war?", "last"),
        ("quand ai-je vu Petra pour la dernière fois", "last"),
        ("我上次见到李雷是什么时候", "last"),
        ("what happened last week", ""),
        ("the first week of July", ""),
    ],
)
def test_an_order_is_read_and_not_taken_for_a_time(question: str, order: str) -> None:
    found = read(question)
    assert found is not None
    assert found.order == order


@pytest.mark.parametrize(
    ("question", "is_only"),
    [
        ("what happened on 15 August", True), ("who did I meet last week?", True), ("notes from October", True),
        ("Was habe ich letzten Mittwoch gemacht?", True), ("上周发生了什么", True), ("qué pasó ayer", True),
        ("where did I eat in early July", False), ("what did Petra say last week", False),
        ("what was the first concert this summer?", False),
    ],
)  # fmt: skip
def test_what_asks_for_nothing_but_the_time_is_told_apart(question: str, is_only: bool) -> None:
    found = read(question)
    assert found is not None
    assert found.is_only == is_only


def test_the_rest_of_a_question_is_without_the_words_of_its_time() -> None:
    found = read("Where did I eat with Tom on 3 August?")
    assert found is not None
    assert (found.words, found.rest) == ("on 3 August", "Where did I eat with Tom ?")


def test_of_a_prompt_only_a_sentence_that_asks_is_read() -> None:
    assert read("I broke the build yesterday. Please add tests.", is_prompt=True) is None
    assert read("Move the meeting to Friday", is_prompt=True) is None
    found = read("I broke the build. What did I change last week?", is_prompt=True)
    assert found is not None
    assert found.words == "last week"
    assert read("I broke the build yesterday. Please add tests.") is None
    assert days("Yesterday afternoon someone gave me a card. Who was it?") == ("2026-11-14", "2026-11-14")


def test_a_prompt_that_asks_nothing_names_coming_days_alone() -> None:
    found = read("plan my Thursday", is_prompt=True)
    assert found is not None
    assert (found.words, shown(found.begin), shown(found.until)) == ("Thursday", "2026-11-19", "2026-11-20")
    assert read("Reservier für morgen Abend einen Tisch", is_prompt=True) is not None
    for prompt in ("yesterday was awful", "plan the whole of next year", "write down what came first"):
        assert read(prompt, is_prompt=True) is None


def test_a_question_is_read_quickly() -> None:
    question = "What did I do with Petra on the weekend of 3 October?"
    read(question)
    took = []
    for _ in range(100):
        began = time.thread_time()
        read(question)
        took.append(time.thread_time() - began)
    assert min(took) < READING_SECONDS_MAX


def test_the_times_that_people_name_are_read() -> None:
    wrong = []
    for line in LABELLED.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        day = dt.date.fromisoformat(row["asked_on"])
        now = int(dt.datetime(day.year, day.month, day.day, 18, tzinfo=BERLIN).timestamp() * 1000)
        found = read_question_time(row["question"], now, zone)
        read_days: tuple[str | None, str | None] = (None, None)
        if found is not None and found.has_interval:
            until = row["until"] if found.until is None else shown(found.until - 1)  # open: until this day
            read_days = (shown(found.begin), until)
        if read_days != (row["from"], row["until"]):
            wrong.append((row["question"], *read_days))
    assert len(wrong) <= WRONG_MAX, wrong


def test_what_a_question_for_an_order_is_about_keeps_its_quotes_and_paths() -> None:
    found = read('When did I last edit "main.py" in /etc/hosts.d/web?')
    assert found is not None
    assert (found.order, found.rest) == ("last", 'When did I edit "main.py" in /etc/hosts.d/web?')


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What is coming up in the next three days?", "2026-11-15", "2026-11-18"),
        ("What do I have in the next few days?", "2026-11-15", "2026-11-19"),
        ("Was steht in den nächsten zwei Wochen an?", "2026-11-15", "2026-11-29"),
        ("What is planned in the coming months?", "2026-11-15", "2027-03-15"),
    ],
)
def test_the_next_days_begin_today(question: str, first: str, last: str) -> None:
    assert days(question) == (first, last)


def test_the_weekdays_of_a_time_ahead_are_known() -> None:
    found = [read(question) for question in ("What's on tomorrow?", "Am I free next week?", "What did I do yesterday?")]
    assert [each.weekdays for each in found if each] == [0b1, 0b1111111, 0]
    assert all(each.is_only for each in found if each)


@pytest.mark.parametrize(
    ("question", "first"),
    [("December", "2026-12-01"), ("what happens in December", "2026-12-01"), ("15 December", "2026-12-15"),
     ("what happened in December", "2025-12-01"), ("notes from May", "2026-05-01"),
     ("was steht am 18.12. an", "2026-12-18"), ("Was habe ich am 10. Dezember?", "2026-12-10"),
     ("Was war am 18.12.?", "2025-12-18")],
)  # fmt: skip
def test_a_date_of_the_next_weeks_is_meant_where_nothing_looks_back(question: str, first: str) -> None:
    now = int(dt.datetime(2026, 11, 30, 18, tzinfo=BERLIN).timestamp() * 1000)
    found = read_question_time(question, now, zone)
    assert found is not None
    assert shown(found.begin) == first
