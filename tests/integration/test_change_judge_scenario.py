"""Changes as a person meets them: recall, facts and resume read one relation. SPEC 5.8, 10.3"""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.memories import Patch
from tests.support.running_daemon import RunningDaemon


@pytest.fixture
def client(model_daemon: RunningDaemon) -> Iterator[Client]:
    """A client in a namespace of its own."""
    with model_daemon.client(f"ns-{uuid.uuid4().hex[:8]}") as open_client:
        yield open_client


def remember(client: Client, *texts: str, **fields: Any) -> list[str]:
    return [client.remember(text, wait="indexed", **fields).memory.id for text in texts]


def recalled(client: Client, query: str) -> list[tuple[str, bool]]:
    """The texts of an answer in their order, each with whether it is an older value of one before it."""
    return [(each.content, each.was) for each in client.recall(query).memories]


def stated(client: Client, entity: str = "") -> list[str]:
    return [f"{each.subject} {each.predicate} {each.object}" for each in client.facts(entity).facts]


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        (
            "The nightly export runs at 02:30.",
            "We moved the nightly export to 03:15.",
            "when does the nightly export run?",
        ),
        (
            "Retry policy: 5 attempts, max 60 seconds.",
            "Retry policy: 8 attempts, max 120 seconds.",
            "what is the retry policy?",
        ),
    ],
)
def test_the_current_value_comes_first_and_the_former_one_after_it_as_such(
    client: Client, old: str, new: str, question: str
) -> None:
    remember(client, "The harbour office opens at 8.", old, new)
    assert recalled(client, question)[:2] == [(new, False), (old, True)]


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        (
            "Sabine owns the styles repository.",
            "Sabine left the company, Oleg owns the styles repository now.",
            "who owns the styles repository?",
        ),
        (
            "Decision: store tiles as PMTiles instead of MBTiles.",
            "We do not use PMTiles any more; went back to MBTiles.",
            "how do we store tiles?",
        ),
    ],
)
def test_a_certain_or_likely_change_comes_first(client: Client, old: str, new: str, question: str) -> None:
    remember(client, old, new)
    assert [text for text, _ in recalled(client, question)] == [new, old]
    assert [each.quote for each in client.ask(question).citations] == [new, old]
    assert "until" in client.ask(question).sentences[1].text.lower()


def test_what_an_agent_wrote_is_corrected_by_the_person(client: Client) -> None:
    old, new = "The nightly export runs at 02:30.", "We moved the nightly export to 03:15."
    remember(client, old, agent_id="coder", run_id="run-7")
    remember(client, new)
    assert recalled(client, "when does the nightly export run?") == [(new, False), (old, True)]


def test_an_agent_does_not_correct_what_another_one_wrote(client: Client) -> None:
    old, new = "The nightly export runs at 02:30.", "We moved the nightly export to 03:15."
    remember(client, old, agent_id="coder")
    remember(client, new, agent_id="writer")
    assert {was for _, was in recalled(client, "when does the nightly export run?")} == {False}


def test_facts_of_what_was_replaced_have_ended_until_the_later_memory_is_gone(client: Client) -> None:
    remember(client, "Tomasz works at Orange.")
    before = stated(client)
    assert before == ["Tomasz works at Orange"]
    (newer,) = remember(client, "Tomasz does not work at Orange any more.")
    assert before[0] not in stated(client)
    client.delete(newer)
    assert stated(client) == before
    client.restore(newer)
    assert before[0] not in stated(client)


def test_a_resume_has_no_former_values(client: Client) -> None:
    old, new = "The nightly export runs at 02:30.", "We moved the nightly export to 03:15."
    remember(client, old, new)
    text = client.resume().text
    assert new in text
    assert old not in text


def test_undo_of_the_later_memory_brings_the_former_value_back(client: Client) -> None:
    old, new = "The nightly export runs at 02:30.", "We moved the nightly export to 03:15."
    remember(client, old, new)
    client.undo()
    assert recalled(client, "when does the nightly export run?") == [(old, False)]
    assert old in client.resume().text


def test_a_question_that_was_saved_stands_behind_what_answers_it(client: Client) -> None:
    answer, asked = "The key of the boathouse hangs in the porch.", "Where does the key of the boathouse hang?"
    remember(client, asked, answer)
    assert next(text for text, _ in recalled(client, asked)) == answer


def test_what_happened_once_is_no_fact_but_what_it_began_is(client: Client) -> None:
    remember(client, "Pepper was put to sleep on Friday morning.", "Anna moved to Porto.")
    assert stated(client) == ["Anna moved to Porto"]


def test_what_is_perhaps_replaced_is_told_when_the_newer_is_written(client: Client) -> None:
    (old,) = remember(client, "I like my coffee black.")
    answer = client.remember("I no longer drink coffee.", wait="indexed")
    assert (answer.updates, answer.perhaps_updates, answer.related) == ([], [old], [old])


def test_a_correction_that_names_nothing_is_of_what_was_said_last(client: Client) -> None:
    times = (datetime.now(UTC) - timedelta(minutes=minutes) for minutes in range(60, 0, -3))
    texts = [f"Sorry, the bus {number} to Porto is on Friday too." for number in range(6, 22)]
    for text, at in zip([*texts, "Mara has the dentist on Thursday."], times, strict=False):
        (last,) = remember(client, text, event_at=int(at.timestamp() * 1000))
    correction = client.remember("Sorry, it is on Friday.", event_at=int(next(times).timestamp() * 1000))
    assert correction.perhaps_updates == [last]


def test_a_value_that_was_changed_after_a_day_that_has_passed_is_in_the_resume(client: Client) -> None:
    day = (datetime.now(UTC) - timedelta(days=14)).strftime("%-d %B")
    new = f"Raised the retry limit of the NOAA fetcher from 3 to 8 after the outage of {day}."
    remember(client, "The retry limit of the NOAA fetcher is 3.", new)
    assert new in client.resume().text


def test_what_is_perhaps_replaced_stays_in_the_profile_and_the_resume(client: Client) -> None:
    remember(client, "I live in Bremen")
    remember(client, "For the shop we went back to MySQL")
    assert "I live in Bremen" in client.resume().text


def test_a_person_takes_back_a_replacement_that_is_none_and_names_one_that_was_missed(client: Client) -> None:
    old, new = remember(client, "The nightly export runs at 02:30.", "We moved the nightly export to 03:15.")
    assert recalled(client, "when does the nightly export run?")[1] == ("The nightly export runs at 02:30.", True)
    client.patch(new, Patch(updates=[]))
    assert not any(was for _, was in recalled(client, "when does the nightly export run?"))
    client.patch(new, Patch(updates=[old]))
    assert recalled(client, "when does the nightly export run?")[1] == ("The nightly export runs at 02:30.", True)
    client.patch(old, Patch(updates=[new]))  # the other way round
    assert recalled(client, "when does the nightly export run?")[1] == ("We moved the nightly export to 03:15.", True)
    client.undo()  # ends that tie, and does not bring back the one that it replaced
    assert not any(was for _, was in recalled(client, "when does the nightly export run?"))


def test_a_memory_is_not_newer_than_itself_nor_than_what_is_not_there(client: Client) -> None:
    [only] = remember(client, "The nightly export runs at 02:30.")
    with pytest.raises(RefusalError, match="not newer than itself"):
        client.patch(only, Patch(updates=[only]))
    with pytest.raises(RefusalError, match="no memory"):
        client.patch(only, Patch(updates=[str(uuid.uuid4())]))


def test_an_agent_ends_nothing_that_a_person_said(client: Client) -> None:
    said, other = remember(client, "The spare key is with Ines.", "The tram stops at the museum.")
    with (
        Client(client.socket_path, client.namespace, agent="planner") as agent,
        pytest.raises(RefusalError, match="only a person"),
    ):
        agent.patch(other, Patch(updates=[said]))
    assert not [each for each in client.edges(said).edges if each.relation == "updates"]
