"""The text of an answer, and the questions that a session asked before, as long as they are known. SPEC 11"""

import pytest

from mnemo_core.llm.tasks import EarlierQuestion
from mnemo_daemon.assistance import question_answering
from mnemo_daemon.assistance.question_answering import (
    IDLE_SECONDS,
    QUESTIONS_MAX,
    TEXT_CHARACTERS,
    AnsweredQuestion,
    AskedQuestions,
)


def test_quotes_without_an_end_do_not_run_into_each_other() -> None:
    answered = AnsweredQuestion([("The dentist is on 11 December at 14:00", []), ("Until then: at 9:00", [])], "quotes")
    assert answered.text == "The dentist is on 11 December at 14:00. Until then: at 9:00"
    assert AnsweredQuestion([("Is it?", []), ("It is.", [])], "quotes").text == "Is it? It is."


def test_a_session_knows_its_last_questions_and_no_other_session_does() -> None:
    asked = AskedQuestions()
    for number in range(QUESTIONS_MAX + 2):
        asked.add("a", f"question {number}", f"answer {number}")
    assert asked.of_session("a") == tuple(EarlierQuestion(f"question {n}", f"answer {n}") for n in range(2, 6))
    assert asked.of_session("b") == ()


def test_a_session_ends_after_an_hour_without_a_question() -> None:
    now = 1000.0
    asked = AskedQuestions(lambda: now)
    asked.add("a", "?", "!")
    now += IDLE_SECONDS - 1
    assert asked.of_session("a")
    now += 1
    assert asked.of_session("a") == ()
    asked.add("a", "??", "!!")
    assert asked.of_session("a") == (EarlierQuestion("??", "!!"),)


def test_an_erasure_ends_every_session() -> None:
    asked = AskedQuestions()
    asked.add("a", "?", "!")
    asked.clear()
    assert asked.of_session("a") == ()


def test_sessions_and_texts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_answering, "SESSIONS_MAX", 2)
    asked = AskedQuestions()
    asked.add("a", "q" * 9999, "a" * 9999)
    assert [len(text) for text in asked.of_session("a")[0]] == [TEXT_CHARACTERS] * 2
    asked.add("b", "?", "!")
    asked.add("a", "?", "!")
    asked.add("c", "?", "!")
    assert [bool(asked.of_session(name)) for name in "abc"] == [True, False, True]
