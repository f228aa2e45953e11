"""`POST /v1/ask` of a real daemon: quoted without a language model, and written by the real one."""

import datetime as dt
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_client.errors import RefusalError
from mnemo_client.protocol.memories import Patch
from mnemo_client.protocol.retrieval import AskAnswer, AskMemories
from mnemo_core.llm.faithfulness import rejection_of
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING
from tests.support import recall_sets
from tests.support.running_daemon import RunningDaemon, running
from tests.support.samples import quick_folder

KEY = "The key to the cellar hangs behind the kitchen door."
ANNA = "Anna moved to Berlin in May 2019. She works at the zoo."
FERRY = "The ferry to Texel leaves at 9:30."
SECRET = "The code of the cellar safe is 4711."


@pytest.fixture(scope="module")
def quoting() -> Iterator[RunningDaemon]:
    """A daemon without any model."""
    with quick_folder() as scratch, running(scratch / "data", {"XDG_CACHE_HOME": str(scratch / "cache")}) as daemon:
        _fill(daemon)
        yield daemon


@pytest.fixture(scope="module")
def reading(minilm_folder: Path) -> Iterator[RunningDaemon]:
    """A daemon with the embedding model alone."""
    environ = {"MNEMO_MODELS_FOLDER": str(minilm_folder)}
    with quick_folder() as scratch, running(scratch / "data", environ) as daemon:
        _fill(daemon)
        daemon.wait_for_vectors()
        yield daemon


@pytest.fixture(scope="module")
def writing(minilm_folder: Path, smollm_file: Path) -> Iterator[RunningDaemon]:
    """A daemon with the embedding model and the small language model."""
    assert (minilm_folder / DEFAULT_EMBEDDING).readlink().parent == smollm_file.parents[2]
    environ = {"MNEMO_MODELS_FOLDER": str(smollm_file.parents[2]), "MNEMO_LLM_LEVEL": "full"}
    with quick_folder() as scratch, running(scratch / "data", environ) as daemon:
        _fill(daemon)
        daemon.wait_for_vectors()
        yield daemon


def _fill(daemon: RunningDaemon) -> None:
    with daemon.client() as client:
        for content in (KEY, ANNA, FERRY):
            client.remember(content)
        client.remember(SECRET, tags=["sensitive"])


def workers(daemon: RunningDaemon) -> list[int]:
    """The processes of the language model that the daemon started."""
    assert daemon.process is not None
    tasks = Path(f"/proc/{daemon.process.pid}/task").glob("*/children")
    return [int(pid) for each in tasks for pid in each.read_text().split()]


def spoken_day(at: int) -> str:
    """The local day in words, as the language model is told the date of a memory."""
    return dt.datetime.fromtimestamp(at / 1000).astimezone().strftime("%d %B %Y")


def ask(daemon: RunningDaemon, question: str, **fields: Any) -> AskAnswer:
    """The answer, without a call of the model for `rerank`."""
    with daemon.client() as client:
        return client.ask(question, **{"rerank": False, **fields})


def test_E8_E12_an_answer_quotes_the_sentence_and_cites_its_memory(quoting: RunningDaemon) -> None:
    answer = ask(quoting, "Where is the key to the cellar?")
    assert (answer.answer, answer.abstained, answer.method) == (KEY, False, "quotes")
    (sentence,), (citation,), (memory,) = answer.sentences, answer.citations, answer.memories
    assert (sentence.text, sentence.ids) == (KEY, [memory.id])
    assert (citation.id, citation.quote, citation.at) == (memory.id, KEY, memory.event_at)
    assert memory.content == KEY
    assert answer.reason == "the case is clear without a language model"
    assert "no language model is chosen" in (ask(quoting, "In which year did Anna move to Berlin?").reason or "")


def test_a_short_memory_is_quoted_whole_where_its_sentences_have_the_words_together(quoting: RunningDaemon) -> None:
    answer = ask(quoting, "Where does Anna work?", cut="none")
    assert answer.answer == "Anna moved to Berlin in May 2019. She works at the zoo."


def test_what_nothing_tells_is_not_answered_with_the_name_alone(reading: RunningDaemon) -> None:
    answer = ask(reading, "What is Anna's phone number?", cut="none")
    assert (answer.abstained, answer.sentences, answer.citations) == (True, [], [])
    (closest,) = answer.memories
    assert closest.content.startswith("Anna moved to Berlin")
    assert answer.answer.startswith("I don't know. The closest memory says: Anna moved to Berlin")


def test_an_older_value_is_said_behind_the_newer_one_as_what_held_before(quoting: RunningDaemon) -> None:
    with quoting.client("values") as client:
        old = client.remember("I live in Lisbon now.", event_at="2024-03-01").memory.id
        new = client.remember("I moved to Porto, where I live now.", event_at="2025-03-01").memory.id
        hits = client.recall("Where do I live now?", cut="gap", dry=True).memories
        assert [(memory.id, memory.was) for memory in hits] == [(new, False), (old, True)]
        answer = client.ask("Where do I live now?")
    assert [(sentence.text, sentence.ids) for sentence in answer.sentences] == [
        ("I moved to Porto, where I live now.", [new]),
        ("Until 1 March 2025: I live in Lisbon now.", [old]),
    ]


def test_a_value_that_begins_later_is_said_with_the_one_that_holds_until_then(quoting: RunningDaemon) -> None:
    with quoting.client("later") as client:
        client.remember("The rent of the flat is 900 euros.", event_at="2026-03-01")
        client.remember("The rent of the flat is 950 euros from 1 January.", event_at="2026-11-27")
        answer = client.ask("How high is the rent of the flat?")
    assert "ntil 1 January 2027: The rent of the flat is 900 euros." in answer.answer


def test_E9_what_is_not_known_is_not_answered_in_general(quoting: RunningDaemon) -> None:
    answer = ask(quoting, "What did Otto say about quantum gravity?")
    assert (answer.answer, answer.abstained) == ("I don't know.", True)
    assert (answer.sentences, answer.citations, answer.memories) == ([], [], [])


def test_a_memory_of_the_last_hours_of_the_calendar_is_shown_east_of_utc() -> None:
    with quick_folder() as scratch:
        environ = {"TZ": "Asia/Tokyo", "XDG_CACHE_HOME": str(scratch / "cache")}
        with running(scratch / "data", environ) as daemon, daemon.client() as client:
            comet = client.remember("The comet returns.", event_at="9999-12-31T23:59:59Z").memory.id
            assert client.ask("Does the comet return?").answer == "The comet returns."
            assert "9999-12-31: The comet returns." in client.context("comet", dates="all").block
            assert client.recall("comet", explain=True, dry=True).memories[0].content == "The comet returns."
            assert "9999-12-31 23:59+00:00" in client.why(comet, "comet", until="2020-01-01").sentence


def test_a_person_learns_that_a_sensitive_memory_may_hold_the_answer(daemon: RunningDaemon) -> None:
    with daemon.client("pins", entry_point="cli") as person, daemon.client("pins", entry_point="mcp") as agent:
        kept = person.remember("The PIN of the bank card is 4417.").memory
        assert kept.tags == ["sensitive"]
        asked = person.ask("what is the PIN of the bank card?", rerank=False)
        assert (asked.abstained, asked.sensitive) == (True, 1)
        assert person.ask("who painted the mast?", rerank=False).sensitive == 0
        assert "4417" in person.ask("what is the PIN of the bank card?", rerank=False, tags=["sensitive"]).answer
        hidden = agent.ask("what is the PIN of the bank card?", rerank=False)
        assert (hidden.abstained, hidden.sensitive) == (True, 0)
        assert person.remember("The code of the marina gate is 4711.").memory.tags == []
        edited = person.patch(person.remember("The bank card is blue.").memory.id, Patch(content="Its PIN is 4418."))
        assert edited.tags == ["sensitive"]
        person.remember("Rui says that a PIN of a bank card has four digits.")
        answered = person.ask("what is the PIN of the bank card?", rerank=False)
        assert "4417" not in answered.answer
        assert answered.sensitive > 0
        assert agent.remember("The PIN of the bank card is 4419.").memory.tags == []


def test_only_a_sensitive_memory_that_matches_better_than_the_others_is_counted(model_daemon: RunningDaemon) -> None:
    """Among all of them: a memory that is compared with nothing else seems to match."""
    with model_daemon.client("office", entry_point="cli") as person:
        assert person.remember("The alarm code of the office is 4471").memory.tags == ["sensitive"]
        for text in ("The key of Lucia hangs in the office, hook 6.", "Imke Janssen, phone: 0421 555 0127"):
            person.remember(text, wait="indexed")
        assert person.ask("what is the alarm code of the office?", rerank=False).sensitive == 1
        assert person.ask("What is the phone number of Imke Janssen?", rerank=False).sensitive == 0


def test_a_sensitive_memory_is_used_only_when_its_tag_is_asked_for(quoting: RunningDaemon) -> None:
    question = "What is the code of the cellar safe?"
    assert "4711" not in ask(quoting, question, cut="none").answer
    assert ask(quoting, question, tags=["sensitive"]).answer == SECRET


def test_a_blank_question_is_refused_by_its_field(quoting: RunningDaemon) -> None:
    with pytest.raises(RefusalError) as refused:
        ask(quoting, " ")
    assert refused.value.field == "question"


def test_a_daemon_that_is_stopped_ends_the_call_of_the_model_and_answers_without_it(smollm_file: Path) -> None:
    environ = {"MNEMO_MODELS_FOLDER": str(smollm_file.parents[2]), "MNEMO_LLM_LEVEL": "full"}
    with quick_folder() as scratch, running(scratch / "data", environ) as daemon:
        with daemon.client() as client:
            for harbour in ("Oslo", "Bergen", "Turku", "Riga", "Kiel", "Gdynia"):
                stops = " ".join(f"Then it calls at pier {number} of the harbour." for number in range(20))
                client.remember(f"The ferry goes to {harbour}. {stops}")
        answers: list[AskAnswer] = []
        asking = threading.Thread(target=lambda: answers.append(ask(daemon, "Where does the ferry go?", cut="none")))
        asking.start()
        with daemon.client() as client:
            while client.status().models["llm"].state != "loading" and asking.is_alive():
                time.sleep(0.005)
        assert daemon.stop() == 0
        asking.join()
    (answer,) = answers
    assert (answer.method, answer.abstained) == ("quotes", False)
    assert "cancelled" in (answer.reason or "")


def test_of_a_longer_memory_the_sentence_is_quoted_that_means_an_answer(reading: RunningDaemon) -> None:
    answer = ask(reading, "What is her job?", top_k=1)
    assert answer.answer.endswith("She works at the zoo.")


def test_with_a_language_model_the_answer_is_grounded_in_what_it_cites_or_quoted(writing: RunningDaemon) -> None:
    for question in ("Where is the key to the cellar?", "When did Anna move to Berlin?", "When does the ferry leave?"):
        answer = ask(writing, question)
        assert not answer.abstained
        known = {memory.id: (memory.content, spoken_day(memory.event_at)) for memory in answer.memories}
        for sentence in answer.sentences:
            assert rejection_of(sentence.text, [text for each in sentence.ids for text in known[each]]) == ""
        assert (answer.method == "llm") == (answer.reason is None)
    with writing.client() as client:
        model = client.status().models["llm"]
        used = next(row for row in client.llm_usage("1h").usage if row.site == "answer")
    assert used.calls == 3
    assert sum(used.outcomes.values()) == 3
    assert (model.name, model.state) == ("SmolLM2-135M-Instruct-Q4_1", "ready")


def test_a_worker_that_dies_or_is_killed_costs_no_answer(writing: RunningDaemon) -> None:
    question = "When does the ferry leave?"
    ask(writing, question)
    (worker,) = workers(writing)
    os.kill(worker, signal.SIGKILL)
    answer = ask(writing, question)
    assert not answer.abstained
    assert workers(writing) != [worker]


# Made memories: questions that they answer, and questions that they do not

ABOUT_OTHERS = (  # nothing that these questions name is in a memory
    "Who won the football match on Sunday?", "What did the minister say about taxes?", "When is the yoga class?",
    "What is the capital of Mongolia?", "Why did the merger of the two banks fail?", "How do I reset the thermostat?",
    "What is the recipe for the lemon cake?",
)  # fmt: skip
PLAIN = (  # the words of these questions are those of one memory
    "Who is the dentist?", "How much is the boat insurance?", "Where are the water samples kept?",
    "When was the thesis handed in?", "Which phone does she have?", "What is the rent of the flat?",
    "Who waters the tomatoes?", "At what time does the lab backup run?", "When do Rasmus and Elin get married?",
)  # fmt: skip


def test_answers_cite_the_evidence_among_made_memories_and_abstain_without_any(reading: RunningDaemon) -> None:
    made = recall_sets.asked_set()
    with reading.client("made") as client:
        known = {client.remember(each.text, wait="indexed").memory.id: each.id for each in made.beliefs}
        answers = {each: client.ask(each.text) for each in made.questions}
    cited = {each: [known.get(one.id) for one in answer.citations] for each, answer in answers.items()}
    right = [each for each in made.questions if set(each.answers) & set(cited[each])]
    abstained = [each for each in made.questions if not each.answers and answers[each].abstained]
    of = [sum(bool(each.answers) is has_answer for each in made.questions) for has_answer in (True, False)]
    print(f"\nquotes cite the evidence of {len(right)} of {of[0]} questions, abstain on {len(abstained)} of {of[1]}")
    assert [each.text for each in made.questions if each.text in PLAIN and each not in right] == []
    assert [each.text for each in made.questions if each.text in ABOUT_OTHERS and each not in abstained] == []
    assert len(right) >= 0.8 * of[0]


# Streamed answers


def without_use(answer: object) -> AskAnswer:
    """The answer without the counts of its memories, which the first of two questions changes."""
    assert isinstance(answer, AskAnswer)
    return msgspec.structs.replace(answer, memories=[])


@pytest.mark.parametrize(
    "question", ["Where is the key to the cellar?", "Where does Anna work?", "Who won the regatta?"]
)
def test_a_streamed_answer_ends_in_the_one_that_is_not_streamed(reading: RunningDaemon, question: str) -> None:
    with reading.client() as client:
        memories, *sentences, answer = client.ask_stream(question)
        assert isinstance(memories, AskMemories)
        assert not sentences  # no model writes
        assert without_use(answer) == without_use(client.ask(question))
    assert isinstance(answer, AskAnswer)
    assert {memory.id for memory in answer.memories} <= {memory.id for memory in memories.memories}


def test_the_sentences_of_the_model_come_before_its_answer(writing: RunningDaemon) -> None:
    with writing.client() as client:
        _, *sentences, answer = client.ask_stream("Where does Anna work?", rerank=False)
    assert isinstance(answer, AskAnswer)
    assert sentences == answer.sentences or answer.method == "quotes"


def test_a_reader_that_goes_away_ends_the_call_of_the_model(writing: RunningDaemon) -> None:
    with writing.client("harbours") as client:
        for harbour in ("Oslo", "Bergen", "Turku", "Riga", "Kiel"):
            stops = " ".join(f"Then it calls at pier {number} of the harbour." for number in range(20))
            client.remember(f"The ferry goes to {harbour}. {stops}")
        events = client.ask_stream("Where does the ferry go?", cut="none", rerank=False)
        assert isinstance(next(events), AskMemories)
        events.close()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            rows = {row.site: row.outcomes for row in client.llm_usage("1h").usage}
            if "cancelled" in rows.get("answer", {}):
                break
            time.sleep(0.05)
        assert rows["answer"]["cancelled"] == 1


def test_a_streamed_question_is_refused_as_a_whole_before_its_first_event(quoting: RunningDaemon) -> None:
    with quoting.client() as client, pytest.raises(RefusalError) as refused:
        list(client.ask_stream(" "))
    assert refused.value.status == 400


# Sessions


def test_a_follow_up_is_answered_with_the_words_of_the_question_before_it(reading: RunningDaemon) -> None:
    with reading.client() as client:
        assert client.ask("When did Anna move to Berlin?", session_id="one").resolved is None
        follow_up = client.ask("And where does she work?", session_id="one")
        assert (follow_up.answer, follow_up.resolved) == (
            "She works at the zoo.", "And where does she work? (Anna move Berlin)",
        )  # fmt: skip
        again = client.ask("When was that?", session_id="one")
        assert again.resolved == "When was that? (work Anna move Berlin)"
        assert ANNA.startswith(again.answer)
        for session in ("another", None):
            assert client.ask("When was that?", session_id=session).resolved is None
        ferry = client.ask("When does the ferry to Texel leave?", session_id="one")
        assert (ferry.answer, ferry.resolved) == (FERRY, None)
    with reading.client(entry_point="mcp") as agent:
        assert agent.ask("When was that?", session_id="one").resolved is None
    with reading.client("boats") as elsewhere:
        assert elsewhere.ask("When was that?", session_id="one").resolved is None


def test_an_erasure_leaves_nothing_of_the_questions_before_it(quoting: RunningDaemon) -> None:
    with quoting.client("erased") as client:
        found = client.remember("The door of the boathouse is green.").memory.id
        client.ask("Which colour has the boathouse?", session_id="one")
        client.erase(found)
        assert client.ask("Why is that?", session_id="one").resolved is None


def test_a_question_that_was_stored_is_no_answer_to_itself(quoting: RunningDaemon) -> None:
    question = "Where does the lighthouse keeper sleep?"
    with quoting.client() as client:
        client.remember(question)
        assert client.ask(f"  {question.lower().rstrip('?')} ").abstained
        client.remember("The lighthouse keeper does sleep in the tower.")
        answer = client.ask(question)
    assert [sentence.text for sentence in answer.sentences] == ["The lighthouse keeper does sleep in the tower."]
