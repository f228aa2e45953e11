"""`POST /v1/sessions/{id}/chat` of a real daemon with the embedding model and without a language model."""

from collections.abc import Iterator

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from tests.support.running_daemon import PrestartedDaemons

FACTS = (
    "My dog is called Rex and he is a beagle.",
    "I work as a nurse at the hospital.",
    "My sister Nora lives in Porto.",
    "Nora has two children.",
    "The boat is moored at berth 14.",
    "My bike is green.",
    "We bake bread every Sunday.",
)


@pytest.fixture(scope="module")
def chatting(in_the_form_of_the_processor: PrestartedDaemons) -> Iterator[Client]:
    with in_the_form_of_the_processor.taken() as taken:
        taken.wait_for_vectors()
        with taken.client() as client:
            for fact in FACTS:
                assert client.chat("s", fact).answer == "Noted."
            taken.wait_for_vectors()
            yield client


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("What is my dog called?", FACTS[0]),
        ("Where does Nora live?", FACTS[2]),
        ("Tell me where the boat is moored", FACTS[4]),
    ],
)
def test_a_question_is_answered_from_what_was_said_and_both_turns_are_accounted_for(
    chatting: Client, message: str, answer: str
) -> None:
    got = chatting.chat("s", message, explain=True)
    assert got.answer.startswith(answer)
    assert [each.outcome for each in got.results] == ["stored", "discarded"]
    assert got.results[1].reason == "echo"  # a quote of what is stored already
    assert got.trace is not None
    assert answer in {each.text for each in got.trace.items if each.dropped in (None, "in_ring")}


def test_a_correction_is_noted_and_asks_nothing(in_the_form_of_the_processor: PrestartedDaemons) -> None:
    with in_the_form_of_the_processor.taken() as taken, taken.client() as client:
        client.remember("The bus to the harbour leaves at 17:30.", wait="indexed")
        for text in ("The meeting of the choir is on Thursday at 17:00.", "No, it was 17:30"):
            assert client.chat("s", text).answer == "Noted."


def test_an_answer_that_tells_the_former_value_too_is_a_quote(in_the_form_of_the_processor: PrestartedDaemons) -> None:
    with in_the_form_of_the_processor.taken() as taken, taken.client() as client:
        for text in ("The dentist appointment is on 3 December at 10:15.",
                     "The dentist appointment was moved to 10 December at 9:00."):  # fmt: skip
            client.remember(text, wait="indexed")
        for _ in range(2):
            got = client.chat("s", "when is my dentist appointment?")
            assert "Until" in got.answer
            assert (got.results[1].outcome, got.results[1].reason) == ("discarded", "echo")


def test_a_follow_up_is_whole_with_the_question_before_it(chatting: Client) -> None:
    chatting.chat("s", "Where does Nora live?")
    got = chatting.chat("s", "and how many children has she?")
    assert got.resolved is not None
    assert "Nora" in got.resolved
    assert FACTS[3] in got.answer
    assert all("?" not in citation.quote for citation in got.citations)  # a person's question answers nothing


def test_what_nothing_is_known_of_is_not_answered(chatting: Client) -> None:
    got = chatting.chat("s", "Who won the regatta?")
    assert (got.answer, got.abstained, got.citations) == ("I don't know.", True, [])


def test_another_session_another_user_and_secrets(chatting: Client) -> None:
    elsewhere = chatting.chat("other", "What is my dog called?", explain=True)
    assert elsewhere.answer.startswith(FACTS[0])  # what is remembered is known in every session
    assert elsewhere.trace is not None
    assert elsewhere.trace.ring == []
    assert chatting.explain_session("s", "dog", user_id="ben").items == []
    assert chatting.chat("s", "What is my dog called?", user_id="ben").abstained
    chatting.remember("The code of the safe is 4711.", tags=["sensitive"])
    assert "4711" not in chatting.chat("s", "What is the code of the safe?").answer


@pytest.mark.parametrize(("session", "namespace", "field"), [("s" * 129, None, "id"), ("s", "*", "namespace")])
def test_a_session_that_cannot_be_is_refused(chatting: Client, session: str, namespace: str | None, field: str) -> None:
    for ask in (chatting.chat, chatting.explain_session):
        with pytest.raises(RefusalError) as refused:
            ask(session, "Hello there", namespace=namespace)
        assert (refused.value.status, refused.value.field) == (400, field)
