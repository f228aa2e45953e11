"""Tests of the judge that decides whether the first hit of a recall answers a question. SPEC 11"""

import json

import pytest

from mnemo_core.retrieval.answer_judge import AnswerCandidate, AnswerJudge, answer_features
from mnemo_daemon.assistance.question_answering import ANSWER_WEIGHTS

JUDGE = AnswerJudge(json.loads(ANSWER_WEIGHTS.read_text(encoding="utf-8")))
OTHERS = ("Rui works for Feedzai in Lisbon.", "The bakery opens at seven.", "Ines feeds the cats on Sundays.")


def candidates(text: str, score: float) -> list[AnswerCandidate]:
    """The hit in question, before others that are weaker."""
    return [AnswerCandidate(text, text, score), *(AnswerCandidate(each, each, score / 4) for each in OTHERS)]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("When does the ferry leave?", "The ferry leaves at 7:40 from pier 3."),
        ("Who is responsible for the data platform?", "Tomasz is responsible for the data platform."),
        ("What am I allergic to?", "I am allergic to penicillin."),
        ("Why do we store tiles as PMTiles?", "Decision: we store tiles as PMTiles because range requests are cheap."),
        ("Wann fährt die Fähre ab?", "Die Fähre fährt um 7:40 an Pier 3 ab."),
    ],
)
def test_what_has_the_words_and_the_value_that_is_asked_for_answers(question: str, text: str) -> None:
    assert JUDGE.answers(question, candidates(text, 0.8))


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What is Tomasz's phone number?", "Tomasz is responsible for the data platform."),
        ("How old is the ferry to Kiel?", "The ferry leaves at 7:40 from pier 3."),
        ("What is my sister's shoe size?", "My brother has shoe size 44."),
        ("Was kostet die Wallbox von Otto?", "Otto holt die Kinder am Montag ab."),
        ("What is Otto's address?", "Otto's phone number is 0561 77231."),
        ("what's my sister's email", "My sister's phone number is 0561 9921."),
    ],
)
def test_a_name_alone_answers_nothing(question: str, text: str) -> None:
    assert not JUDGE.answers(question, candidates(text, 0.5))


def test_the_name_of_a_relative_is_in_no_text_that_speaks_of_no_such_relative() -> None:
    own = "My name is Hannah Birch, I live in Sheffield and teach chemistry."
    assert not JUDGE.answers("What's my husband's name?", candidates(own, 0.9))
    assert not JUDGE.answers("Wie heißt mein Mann?", candidates("Ich heiße Hannah und wohne in Kassel.", 0.9))
    assert JUDGE.answers("What's my husband's name?", candidates("My husband is called Joel.", 0.9))
    assert not JUDGE.answers(
        "What's my husband's name?", candidates("Priya's husband is Arjun. He plays the veena.", 0.9)
    )
    assert JUDGE.answers("When is my grandma's birthday?", candidates("Grandma's birthday is 14 April.", 0.9))
    assert JUDGE.answers("What's my name?", candidates(own, 0.9))


def test_a_text_without_a_number_answers_no_question_for_one_however_near_it_is() -> None:
    assert not JUDGE.answers("What is Anna's phone number?", candidates("Anna moved to Berlin in May 2019.", 0.95))
    assert not JUDGE.answers("What is our door code?", candidates("Our door is green and locked at night.", 0.95))
    assert JUDGE.answers("What is Anna's phone number?", candidates("Anna's phone number is 0561 77231.", 0.95))
    assert JUDGE.answers("What is our door code?", candidates("Our door opens with 4711.", 0.95))


@pytest.mark.parametrize("question", ["", "?", "ferry", "何時？", "What is " + "x " * 300])
@pytest.mark.parametrize("text", ["", "?", "7:40", "今日は休み。", "word " * 400])
def test_every_feature_of_any_text_is_one_that_the_judge_knows(question: str, text: str) -> None:
    features = answer_features(question, [AnswerCandidate(text, text[:100], 1.0)])
    assert 0.0 <= JUDGE.chance_of(features) <= 1.0
