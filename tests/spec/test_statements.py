"""The sentences of a text that stand alone, and their triples. SPEC 5.6 [E3, G45, L15]"""

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemo_core.text.syntax.clauses import words_of
from mnemo_core.text.syntax.pronouns import in_third_person
from mnemo_core.text.syntax.statements import (
    FIELD_CHARS_MAX,
    Statement,
    Triple,
    extract_statements,
    extract_triple,
)

LABELLED = Path(__file__).parent.parent / "fixtures" / "intake" / "statements.jsonl"
# The half that was held out was written, and labelled, before the rules were first tried on it. What they reached then:
# statements 0.97 right and 0.95 found, triples 1.00 and 0.98.
PRECISION_MIN = 0.95
RECALL_MIN = 0.93


class Score(NamedTuple):
    right: int
    given: int
    wanted: int

    @property
    def precision(self) -> float:
        return self.right / self.given

    @property
    def recall(self) -> float:
        return self.right / self.wanted


def labelled(half: str) -> list[dict[str, Any]]:
    texts = [json.loads(line) for line in LABELLED.read_text(encoding="utf-8").splitlines()]
    return [each for each in texts if each["half"] == half]


def said(text: str, speaker: str = "") -> list[str]:
    return [each.text for each in extract_statements(text, speaker)]


@pytest.mark.parametrize(("half", "texts_min"), [("tuned", 150), ("held out", 100)])
def test_E3_what_is_said_to_stand_alone_does_and_nearly_all_that_does_is_found(half: str, texts_min: int) -> None:
    texts = labelled(half)
    right = given = wanted = 0
    for each in texts:
        found = said(each["text"], each["speaker"])
        want = [statement["text"] for statement in each["statements"]]
        right += (Counter(found) & Counter(want)).total()
        given += len(found)
        wanted += len(want)
    score = Score(right, given, wanted)
    print(f"{half}: {len(texts)} texts, precision {score.precision:.3f}, recall {score.recall:.3f}")
    assert len(texts) >= texts_min
    assert score.precision >= PRECISION_MIN
    assert score.recall >= RECALL_MIN


@pytest.mark.parametrize("half", ["tuned", "held out"])
def test_G45_triples_are_the_labelled_ones_and_what_is_not_plain_has_none(half: str) -> None:
    right = given = wanted = 0
    for each in labelled(half):
        found = {statement.text: statement.triple for statement in extract_statements(each["text"], each["speaker"])}
        for statement in each["statements"]:
            if "triple" not in statement or statement["text"] not in found:
                continue
            want = Triple(*statement["triple"]) if statement["triple"] else None
            got = found[statement["text"]]
            right += got is not None and got == want
            given += got is not None
            wanted += want is not None
    score = Score(right, given, wanted)
    print(f"{half}: triples, precision {score.precision:.3f}, recall {score.recall:.3f}")
    assert score.precision >= PRECISION_MIN
    assert score.recall >= RECALL_MIN


NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
NEGATION = re.compile(
    r"\b(?:not|no|never|nobody|cannot|nor|neither|nicht|keinen?|ne|pas)\b|n't\b|[不没]|ません", re.IGNORECASE
)
NAME = re.compile(r"(?<![.!?\n] )(?<!^)(?<!\n)(?<![-*>:] )\b[A-ZÄÖÜ]\w+")


def changed(source: str, statement: Statement, speaker: str) -> list[str]:
    """The numbers, names and negations of a statement and of its place in the source that are not in both."""
    place = source[statement.start : statement.end]
    differences = []
    for pattern in (NUMBER, NEGATION):
        here, there = Counter(pattern.findall(place)), Counter(pattern.findall(statement.text))
        differences += sorted(((here - there) + (there - here)).elements())
    known = set(re.findall(r"\w+", source + " " + speaker))
    differences += [name for name in NAME.findall(statement.text) if name not in known]
    words = set(re.findall(r"\w+", statement.text))
    differences += [name for name in NAME.findall(place) if name not in words and name != "I"]
    return differences


def test_no_number_name_or_negation_is_ever_changed() -> None:
    checked = 0
    for half in ("tuned", "held out"):
        for each in labelled(half):
            for statement in extract_statements(each["text"], each["speaker"]):
                assert changed(each["text"], statement, each["speaker"]) == [], statement
                checked += 1
    assert checked > 250


def test_the_check_for_changed_specifics_sees_each_kind() -> None:
    source = "Anna pays Ben 12.50 euros and does not tip."
    whole = Statement(source, 0, len(source), None)
    assert changed(source, whole, "") == []
    assert changed(source, whole._replace(text=source.replace("12.50", "12.5")), "") == ["12.5", "12.50"]
    assert changed(source, whole._replace(text=source.replace(" not", "")), "") == ["not"]
    assert changed(source, whole._replace(text=source.replace("Ben", "Tom")), "") == ["Tom", "Ben"]


def test_halves_leave_nothing_between_them_but_the_conjunction() -> None:
    parted = 0
    for half in ("tuned", "held out"):
        for each in labelled(half):
            found = extract_statements(each["text"], each["speaker"])
            for one, other in pairwise(found):
                gap = each["text"][one.end : other.start]
                if not re.search(r"[.!?。:：\n]|\n", each["text"][one.start : other.start]):
                    assert re.fullmatch(r"\W*(?:and|but)?\W*", gap), (one, other)
                    parted += 1
    assert parted > 20


def test_conjunctions_part_where_both_halves_stand_alone() -> None:
    assert said("Anna lives in Lisbon and works at Acme.") == ["Anna lives in Lisbon.", "Anna works at Acme."]


@pytest.mark.parametrize(
    "whole",
    [
        "Anna lives and works in Lisbon.",  # the first half has no place
        "In 2020 Anna lived in Lisbon and worked at Acme.",  # the year is of both
        "Anna wants to live in Lisbon and work at Acme.",  # the wish is of both
        "Anna can swim in lakes and run up hills.",  # so is the ability
        "I think Anna lives in Lisbon and works at Acme.",  # so is the doubt
        "Anna has moved to Lisbon and found a flat.",  # so is the auxiliary
        "If it rains, Anna takes the bus and Ben takes the car.",  # so is the condition
        "Anna likes tea and coffee.",  # no second verb
        "Nobody sings jazz and plays the harp.",  # nobody does both; some may do one
        "Two guests like tea and hate coffee.",
        "Anna or Ben lives in Graz and works at Acme.",
        "Ben joined Acme in 2019 and left it in 2023.",  # "it" is in the other half
    ],
)
def test_words_shared_by_both_halves_keep_them_together(whole: str) -> None:
    assert said(whole) == [whole]


def test_a_noun_that_looks_like_a_verb_begins_no_half_without_its_own() -> None:
    assert said("Sales fell by 5% and costs rose by 3%.") == ["Sales fell by 5%.", "costs rose by 3%."]


def test_a_statement_says_where_it_was_taken_from() -> None:
    text = "Hello! Anna lives in Lisbon and works at Acme. Bye."
    assert [text[each.start : each.end] for each in extract_statements(text)] == [
        "Anna lives in Lisbon",
        "works at Acme.",
    ]


@pytest.mark.parametrize(
    ("text", "with_name"),
    [
        ("I live in Porto.", "Ines lives in Porto."),
        ("I'm a nurse.", "Ines is a nurse."),
        ("I've seen Rome.", "Ines has seen Rome."),
        ("I don't like tea.", "Ines doesn't like tea."),
        ("My car is red.", "Ines's car is red."),
        ("Anna told me the code.", "Anna told Ines the code."),
        ("I read the book.", "I read the book."),  # then or now: unsure
        ("I cook and clean every day.", "I cook and clean every day."),  # two verbs to turn
        ("We live in Porto.", "We live in Porto."),
    ],
)
def test_the_speaker_stands_for_I_where_the_verb_can_be_turned(text: str, with_name: str) -> None:
    assert said(text, "Ines") == [with_name]
    assert len(said(text)) == 1
    assert "Ines" not in said(text)[0]


def test_the_speaker_in_a_transcript_is_the_one_the_line_names() -> None:
    text = "User: I live in Porto.\nAssistant: I am a program.\nAnna: I live in Graz.\nBen: I live in Bern."
    assert said(text, "Ines") == ["Ines lives in Porto.", "Anna lives in Graz.", "Ben lives in Bern."]


@pytest.mark.parametrize(
    "text",
    [
        "Anna met Maria. She is tall.",  # one of two
        "Anna lives in Lisbon. She works at Acme.",
        "Anna met Tom. She and he left. They were late.",
        "Ben called. She was late.",  # not he
        "Anna drinks coffee. It is hot.",  # a thing without a name
        "Anna has two cats. They sleep.",  # which two?
        "Anna lives in Lisbon. Where? She knows.",  # not the sentence before
        "My neighbour has a dog. He barks.",
    ],
)
def test_a_sentence_that_begins_with_a_pronoun_is_left_out(text: str) -> None:
    assert len(said(text)) <= 1


@pytest.mark.parametrize(
    "text",
    [
        "Where does Anna live?",
        "Hello Ben!",
        "Thanks for the help.",
        "Running late, sorry.",
        "Use the blue key.",
        "You are an assistant.",
        "Anna might move.",
        "I would like tea.",
        "This is a bug.",
        "He left.",
        "# Anna lives in Lisbon",
        "Anna lives here\n===============",
        "> Anna lives in Lisbon.",
        "```\nAnna lives in Lisbon.\n```",
        "    Anna lives in Lisbon.",
        "| Anna | lives in Lisbon |",
        "- [ ] Anna calls Ben.",
        "Anna wrote: x = foo(3)",
        '"If I lived in Rome, I was happy," Anna wrote.',
        'Anna said "I hate trains" to Ben.',
        "Because Anna lives in Lisbon.",
        "Du wohnst in Graz.",
        "Est-ce que Paul est malade ?",
        "你住在哪里？",
        "お茶は好きですか。",
    ],
)
def test_a_passage_without_content_of_its_own_is_left_out(text: str) -> None:
    assert said(text, "Ines") == []


def test_sentences_end_where_their_language_ends_them() -> None:
    assert said("Dr. Weber lives in St. Gallen. Ben works at Acme Inc. in Porto.") == [
        "Dr. Weber lives in St. Gallen.",
        "Ben works at Acme Inc. in Porto.",
    ]
    assert said("安娜住在里斯本。北京是中国的首都。") == ["安娜住在里斯本。", "北京是中国的首都。"]
    assert said("Am 3. Mai ist die Messe in Berlin. Der Server ist alt.") == [
        "Am 3. Mai ist die Messe in Berlin.",
        "Der Server ist alt.",
    ]


def test_a_wrapped_sentence_is_one_and_a_list_is_several() -> None:
    assert said("Anna lives in\nLisbon and likes tea.\n\n- Ben owns a boat\n- Tom owns a car") == [
        "Anna lives in Lisbon.",
        "Anna likes tea.",
        "Ben owns a boat.",
        "Tom owns a car.",
    ]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Anna is a doctor.", ("Anna", "is", "a doctor")),
        ("Anna was a doctor.", ("Anna", "was", "a doctor")),  # what was is not what is
        ("Anna's birthday is 3 May.", ("Anna", "birthday", "3 May")),
        ("Anna's brother is a doctor.", ("Anna's brother", "is", "a doctor")),
        ("Anna lives in Lisbon since 2019.", ("Anna", "live in", "Lisbon")),
        ("Anna lived in Lisbon.", ("Anna", "lived in", "Lisbon")),
        ("Anna works at Acme.", ("Anna", "work at", "Acme")),
        ("Anna prefers tea.", ("Anna", "prefer", "tea")),
        ("Acme uses Rust.", ("Acme", "use", "Rust")),
        ("Anna has two cats.", ("Anna", "have", "two cats")),
        ("Anna owns a boat.", ("Anna", "own", "a boat")),
        ("Anna was born in Porto.", ("Anna", "was born in", "Porto")),
        ("Anna moved to Rome.", ("Anna", "move to", "Rome")),
        ("The ticket costs 12 euros.", ("The ticket", "cost", "12 euros")),
        ("The tool is called Mnemo.", ("The tool", "is called", "Mnemo")),
        ("Der Server ist alt.", ("Der Server", "is", "alt")),
        ("Paris est la capitale.", ("Paris", "is", "la capitale")),
        ("北京是首都。", ("北京", "is", "首都")),
        ("東京は首都です。", ("東京", "is", "首都")),
    ],
)
def test_L15_a_plain_sentence_is_read_as_subject_predicate_and_object(
    sentence: str, expected: tuple[str, str, str]
) -> None:
    assert extract_triple(sentence) == Triple(*expected)


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "Anna is not a doctor.",
        "Anna isn't a doctor.",
        "Anna never lived in Lisbon.",
        "Maybe Anna is a doctor.",
        "I think Anna is a doctor.",
        "Anna would prefer tea.",
        "If Anna is late, Ben is early.",
        "Is Anna a doctor?",
        "Anna is a doctor and Ben is a pilot.",
        "She is a doctor.",
        "Anna sold her car.",
        "Anna only drinks tea.",
        "Anna used to live in Lisbon.",
        "Der Server ist nicht alt.",
        "Paris n'est pas la capitale.",
        "北京不是首都。",
        "What a day!",
        "Sure thing! It's what makes life awesome!",
        "I'm hyped to explore the game. Let's see what is in store.",
        "State of the collector\n----------------------\n\nThe library provides three functions.",
    ],
)
def test_L15_what_is_negated_hedged_supposed_or_unclear_is_no_triple(sentence: str) -> None:
    assert extract_triple(sentence) is None


@pytest.mark.parametrize("text", ["IT 0", "It is", "It", "It is so"])
def test_it_at_the_head_of_a_few_words_says_nothing_by_itself(text: str) -> None:
    assert extract_statements(text, "") == []


def test_G45_no_field_of_a_triple_is_longer_than_the_graph_takes() -> None:
    assert extract_triple("Anna is " + "x" * FIELD_CHARS_MAX) is not None
    assert extract_triple("Anna is " + "x" * (FIELD_CHARS_MAX + 1)) is None


PIECES = """
Anna Ben she he it they I my lives works is was has not never and but , . ? ! ; : " “ ” ' ( in at Lisbon 3.5 2024 if
would the a cat cats - > # ``` Anna: 安娜 是 。 は です ist nicht est pas don't I'm she's Dr. e.g. …
"""
WORDS = st.sampled_from([*PIECES.split(), "\n", "\n\n"])
MIXED = st.lists(WORDS, max_size=40)
TEXTS = st.one_of(st.text(max_size=300), MIXED.map(" ".join), MIXED.map("".join))


@given(TEXTS, st.sampled_from(["", "Ines", "Anna Weber", "user", "\n", "Ines'"]))
def test_any_text_gives_statements_from_within_it(text: str, speaker: str) -> None:
    found = extract_statements(text, speaker)
    assert found == extract_statements(text, speaker)
    for each in found:
        assert 0 <= each.start < each.end <= len(text)
        assert each.text.strip() == each.text != ""
        assert "\n" not in each.text
        assert Counter(NUMBER.findall(text[each.start : each.end])) == Counter(NUMBER.findall(each.text))
    assert [each.start for each in found] == sorted(each.start for each in found)


@given(TEXTS)
def test_any_sentence_may_be_asked_for_its_triple(sentence: str) -> None:
    found = extract_triple(sentence)
    assert found is None or all(0 < len(part) <= FIELD_CHARS_MAX for part in found)


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        ".",
        " ",
        "\n",
        '"',
        "Anna, ",
        "Dr. ",
        "and ",
        "x: ",
        "<",
        "(",
        "- ",
        "Anna lives in Lisbon and ",
        "安",
        "since ",
        "'",
    ],
)
def test_a_long_text_of_anything_takes_no_more_than_its_length(piece: str) -> None:
    assert extract_statements(piece * ((1 << 18) // len(piece)), "Ines") == []


def test_a_sentence_with_a_thousand_verbs_is_turned_to_the_third_person_whole() -> None:
    turned = in_third_person(words_of("I like " * 1000, 0), "Anna")
    assert turned is not None
    assert [word.raw for word in turned] == ["Anna", "likes"] * 1000
