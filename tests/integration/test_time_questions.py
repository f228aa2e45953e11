"""Questions that name a time, through the socket, by words alone. SPEC 5.5, 7.5a"""

import datetime as dt
import uuid
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.protocol.retrieval import RecallAnswer

NOW = "2026-11-15T10:00"  # a Sunday
TRAIN = "Missed the train to Leipzig and took the bus."
DINNER = "Had dinner with Petra at the Italian place."
SWIM = "Went swimming with the whole family again."
TEST = "On 3 December I have the driving test in town."
TEA = "Petra prefers tea to coffee in the afternoon."
ENTRIES = [
    ("2026-08-15T09:00", TRAIN), ("2026-08-15T20:00", DINNER), ("2026-09-03T19:00", TEST), ("2026-09-07T18:00", SWIM),
    ("2026-09-14T18:00", SWIM), ("2026-09-21T18:00", SWIM), ("2026-10-02T20:00", "Had dinner with Petra at her place."),
    ("2026-10-20T12:00", TEA), ("2026-11-04T12:00", "Repaired the tyre of the bike in the cellar."),
]  # fmt: skip


@pytest.fixture
def diary(client: Client) -> str:
    """The namespace of the entries."""
    namespace = f"ns-{uuid.uuid4().hex[:8]}"
    for at, text in ENTRIES:
        client.remember(text, namespace=namespace, event_at=at)
    return namespace


def ask(client: Client, diary: str, question: str, **options: Any) -> RecallAnswer:
    return client.recall(question, namespace=diary, now=NOW, dry=True, **{"top_k": 10, **options})


def texts(answer: RecallAnswer) -> list[str]:
    return [memory.content for memory in answer.memories]


def day(at: int | None) -> str | None:
    return None if at is None else dt.datetime.fromtimestamp(at / 1000).astimezone().date().isoformat()


def test_what_happened_on_a_day_comes_first_in_the_order_of_time(client: Client, diary: str) -> None:
    answer = ask(client, diary, "what happened on 15 August")
    assert texts(answer)[:2] == [TRAIN, DINNER]
    assert [memory.inside for memory in answer.memories][:2] == [True, True]
    assert not any(memory.inside for memory in answer.memories[2:])
    assert answer.time is not None
    assert (day(answer.time.begin), day(answer.time.until)) == ("2026-08-15", "2026-08-16")
    assert (answer.time.words, answer.time.within, answer.time.of) == ("on 15 August", 2, 2)
    assert answer.time.text == "Saturday, 15 August (on 15 August): 2 memories"


def test_the_end_of_the_list_and_the_least_score_leave_it_in(client: Client, diary: str) -> None:
    answer = ask(client, diary, "what happened on 15 August", cut="gap", min_score=0.5)
    assert texts(answer)[:2] == [TRAIN, DINNER]
    assert not answer.abstained


def test_a_plan_is_found_by_its_day(client: Client, diary: str) -> None:
    answer = ask(client, diary, "what do I have on 3 December?")
    assert texts(answer)[0] == TEST
    assert day(answer.memories[0].about) == "2026-12-03"


def test_what_a_question_is_about_outweighs_other_days_only_by_words(client: Client, diary: str) -> None:
    answer = ask(client, diary, "where did I have dinner with Petra on 2 October")
    assert day(answer.memories[0].event_at) == "2026-10-02"
    assert DINNER in texts(answer)[1:]  # of another day: behind, and there


def test_the_last_of_several_is_the_latest_event(client: Client, diary: str) -> None:
    answer = ask(client, diary, "when did I last have dinner with Petra?")
    assert day(answer.memories[0].event_at) == "2026-10-02"
    assert answer.time is not None
    assert (answer.time.order, answer.time.begin) == ("last", None)
    assert answer.time.text == "the last: 2 October, 44 days ago"
    first = ask(client, diary, "when was the first dinner with Petra?")
    assert day(first.memories[0].event_at) == "2026-08-15"


def test_a_state_is_no_event(client: Client, diary: str) -> None:
    """Nothing that was written later than it is one: here what Petra prefers."""
    assert texts(ask(client, diary, "when did I last see Petra?"))[0] != TEA


def test_with_nothing_inside_the_nearest_events_are_named(client: Client, diary: str) -> None:
    answer = ask(client, diary, "what happened on 10 September")
    assert answer.time is not None
    assert (answer.time.within, answer.time.of) == (0, 0)
    assert (day(answer.time.before), day(answer.time.after)) == ("2026-09-07", "2026-09-14")
    assert answer.time.text == "nothing of Thursday, 10 September; before: 7 September, after: 14 September"


def test_the_same_words_on_three_days_are_three_events(client: Client, diary: str) -> None:
    answer = ask(client, diary, "what did I do in September")
    assert texts(answer)[:3] == [SWIM, SWIM, SWIM]
    assert [day(memory.event_at) for memory in answer.memories[:3]] == ["2026-09-07", "2026-09-14", "2026-09-21"]


def test_the_same_words_with_the_same_time_are_a_duplicate(client: Client, diary: str) -> None:
    again = client.remember(SWIM, namespace=diary, event_at="2026-09-07T18:00")
    other = client.remember(SWIM, namespace=diary, event_at="2026-09-28T18:00")
    fact = client.remember(TEA, namespace=diary, event_at="2026-11-01T18:00")
    assert (again.outcome, other.outcome, fact.outcome) == ("duplicate", "stored", "duplicate")


def test_a_bound_of_the_request_wins(client: Client, diary: str) -> None:
    answer = ask(client, diary, "what happened on 15 August", since="2026-09-01")
    assert answer.time is None
    assert TRAIN not in texts(answer)


def test_the_reading_can_be_switched_off(client: Client, diary: str) -> None:
    answer = ask(client, diary, "what happened on 15 August", time="off")
    assert answer.time is None
    assert all(memory.inside is None for memory in answer.memories)


@pytest.mark.parametrize("question", ["what does Petra prefer", "dinner with Petra", "when is the driving test"])
def test_a_question_without_a_time_is_answered_as_if_none_were_read(client: Client, diary: str, question: str) -> None:
    answers = [ask(client, diary, question, time=reading, explain=True) for reading in ("auto", "off")]
    for answer in answers:
        assert answer.time is None
        assert answer.trace is not None
        answer.took_ms, answer.trace.stages_ms = 0.0, {}
    assert answers[0] == answers[1]


def test_ask_and_context_read_it_too(client: Client, diary: str) -> None:
    asked = client.ask("What did I repair in November 2026?", namespace=diary)
    assert asked.time is not None
    assert asked.time.words == "in November 2026"
    block = client.context("What happened on 15 August 2026?", namespace=diary)
    assert block.time is not None
    assert block.block.splitlines()[1].startswith("=== Saturday, 15 August")
    assert block.block.index(TRAIN) < block.block.index(DINNER)


def test_a_prompt_that_asks_nothing_names_no_time(client: Client, diary: str) -> None:
    told = client.hook("prompt", prompt="Move the dinner with Petra to 15 August.", namespace=diary)
    asked = client.hook("prompt", prompt="Add a test. What did I do on 15 August?", namespace=diary)
    assert "===" not in (told.context or "")
    assert "=== Saturday, 15 August" in (asked.context or "")


def test_what_fell_through_did_not_happen_last(client: Client) -> None:
    namespace, happened = f"ns-{uuid.uuid4().hex[:8]}", "Went swimming with Oleg, cold water."
    client.remember(happened, namespace=namespace, event_at="2026-11-03")
    client.remember("Swimming with Ute fell through.", namespace=namespace, event_at="2026-11-09")
    assert texts(ask(client, namespace, "when did I last go swimming?"))[0] == happened


def test_ask_says_what_takes_place_on_a_day_ahead(client: Client) -> None:
    namespace = f"ns-{uuid.uuid4().hex[:8]}"
    today = dt.datetime.now().astimezone().date()
    day, free = today + dt.timedelta(days=20), today + dt.timedelta(days=21)
    dentist = f"Dentist on {day:%A} {day.day} {day:%B} at 9:00."
    choir, lamp = f"Choir rehearsal every {day:%A} at 19:30.", "The lamp in the hall is blue."
    for text in (dentist, choir, lamp):
        client.remember(text, namespace=namespace)
    asked = client.ask(f"What do I have on {day.day} {day:%B}?", namespace=namespace)
    assert [each.text for each in asked.sentences] == [choir, dentist]
    assert asked.method == "quotes"
    asked = client.ask(f"Am I free on {free.day} {free:%B}?", namespace=namespace)
    assert asked.abstained
    assert asked.answer == f"I know of nothing on {free:%A}, {free.day} {free:%B}" + (
        f" {free.year}." if free.year != today.year else "."
    )
    client.remember(f"The dentist appointment on {day.day} {day:%B} is cancelled.", namespace=namespace)
    asked = client.ask(f"What do I have on {day.day} {day:%B}?", namespace=namespace)
    assert [each.text for each in asked.sentences] == [choir]

    interview, hour = f"The interview is on {free.day} {free:%B} at 14:00.", "The interview is at 15:30 actually."
    client.remember(interview, namespace=namespace)
    newer = client.remember(hour, namespace=namespace)
    assert newer.updates, newer
    asked = client.ask(f"Am I free on {free.day} {free:%B}?", namespace=namespace)
    assert [each.text for each in asked.sentences] == [hour]
    assert asked.citations[0].id == newer.memory.id
