"""The tasks `extract` and `fact_extract`: what a model may add to the statements of a text. SPEC 5.6, 12.3 [E3, G45]"""

import pytest

from mnemo_core.llm.extraction import (
    STATEMENT_CHARACTERS,
    StatementList,
    TripleAnswer,
    is_plain,
    is_taken_by_rules,
    quote_statements,
    read_source,
    read_triple,
    unsupported_reason,
    usable_statements,
    validate_statements,
    validate_triple,
)
from mnemo_core.llm.tasks import RecalledSource, TaskInputs
from mnemo_core.text.syntax.english import qualifiers

UNSUPPORTED = "no sentence of the source says it"
OTHER = "it says something else than the statement"
DANGLING = "it is no statement that can be understood by itself"

ANNA = "Anna lives in Lisbon and works at a bank. She has three cats. Her office is on the second floor."
TWO = "Anna met Maria in Porto. She is a doctor."
FIRM = "Tom does not eat meat. Maybe Tom moves to Rome. If it rains, Tom stays at home. Ben said that Tom left."


@pytest.mark.parametrize(
    ("source", "statement", "reason"),
    [
        (ANNA, "Anna lives in Lisbon and works at a bank.", ""),
        (ANNA, "Anna lives in Lisbon.", ""),
        (ANNA, "Anna works at a bank.", ""),  # the second clause, with the subject of the first
        (ANNA, "Anna has three cats.", ""),  # the one person who is named before
        (ANNA, "Anna's office is on the second floor.", ""),
        (ANNA, "She has three cats.", DANGLING),
        (ANNA, "Anna has cats.", UNSUPPORTED),
        (ANNA, "Anna works in Lisbon.", UNSUPPORTED),  # each word stands in the sentence
        (ANNA, "Anna lived in Lisbon.", UNSUPPORTED),
        (ANNA, "Anna has three cats at a bank.", UNSUPPORTED),
        (TWO, "Maria is a doctor.", UNSUPPORTED),  # one of two
        (TWO, "Anna is a doctor.", UNSUPPORTED),
        ("Anna left. The bank is closed. It opens at six.", "Anna opens at six.", UNSUPPORTED),
        ("Anna works at the zoo. Ben works at the bank.", "Anna works at the bank.", UNSUPPORTED),
        ("Anna moved from Lisbon to Porto.", "Anna moved to Lisbon from Porto.", UNSUPPORTED),
        ("The friend of Anna owns a boat.", "Anna owns a boat.", UNSUPPORTED),
        (FIRM, "Tom does not eat meat.", ""),
        (FIRM, "Tom doesn't eat meat.", UNSUPPORTED),
        (FIRM, "Tom does eat meat.", UNSUPPORTED),
        (FIRM, "Tom eats meat.", UNSUPPORTED),
        (FIRM, "Tom moves to Rome.", UNSUPPORTED),
        (FIRM, "Tom stays at home.", UNSUPPORTED),
        (FIRM, "Tom left.", UNSUPPORTED),
        ("I live in Porto.", "I live in Porto.", "it does not say who speaks"),
        ("You should call Ben.", "You should call Ben.", DANGLING),
        ("Is Ben in Rome?", "Is Ben in Rome?", DANGLING),
        ("Never deploy on Fridays.", "Never deploy on Fridays.", DANGLING),
        ("Tired, but happy.", "Tired, but happy.", DANGLING),
        ("Si Paul vient, Marie part.", "Si Paul vient, Marie part.", DANGLING),
        ("Anna wohnt seit Mai in Köln.", "Anna wohnt seit Mai in Köln.", ""),
        ("王小明住在北京。", "王小明住在北京。", ""),
        ("王小明不住在北京。", "王小明住在北京。", UNSUPPORTED),
    ],
)
def test_a_statement_says_what_one_sentence_says_as_firmly_and_of_the_same_person(
    source: str, statement: str, reason: str
) -> None:
    assert unsupported_reason(statement, read_source(source)) == reason


def test_E3_of_a_list_only_the_supported_statements_are_used_and_one_without_any_is_rejected() -> None:
    inputs = TaskInputs((ANNA,))
    mixed = StatementList(
        ("Anna has three cats.", "Anna has four cats.", "Anna has three cats.", "Bob has three cats.")
    )
    assert usable_statements(mixed, inputs) == StatementList(("Anna has three cats.",))
    assert validate_statements(mixed, inputs) == "the number '4' is in none of the sources"
    invented = StatementList(("Bob has a boat.",))
    assert validate_statements(usable_statements(invented, inputs), inputs) == (
        "the name 'bob' is in none of the sources"
    )
    assert validate_statements(StatementList(()), inputs) == ""


def test_E3_without_a_model_the_statements_are_sentences_of_at_most_240_characters() -> None:
    long = f"Anna has {'very ' * 60}old cats."
    assert len(long) > STATEMENT_CHARACTERS
    assert quote_statements(TaskInputs((f"{ANNA} {long}",))) == StatementList(
        ("Anna lives in Lisbon.", "Anna works at a bank.")
    )
    with_speaker = TaskInputs(("I live in Porto.",), recalled=(RecalledSource("Ines"),))
    assert quote_statements(with_speaker) == StatementList(()), "its wording is a rule's: the job keeps it"


@pytest.mark.parametrize(
    ("text", "is_clear"),
    [
        ("Anna lives in Lisbon. Ben works at a bank.", True),
        ("Anna lives in Lisbon. She works at a bank.", False),
        ("How are you? Anna lives in Lisbon.", False),
        ("Anna lives in Lisbon and works at a bank.\n\nBen has two cats.", True),
    ],
)
def test_a_text_is_clear_where_the_rules_take_every_sentence(text: str, *, is_clear: bool) -> None:
    assert is_taken_by_rules(TaskInputs((text,))) is is_clear


@pytest.mark.parametrize(
    ("statement", "triple", "reason"),
    [
        ("Anna repaired the old clock.", ("Anna", "repaired", "the old clock"), ""),
        ("Anna repaired the old clock.", ("Anna", "repaired", "old clock"), ""),
        ("Anna lives in Porto.", ("Anna", "live in", "Porto"), ""),
        ("Anna is a doctor, and a good one.", ("Anna", "is", "a doctor"), ""),
        ("Anna moved to Berlin in May 2019.", ("Anna", "moved to", "Berlin in May 2019"), ""),
        ("Anna repaired the old clock.", ("Anna", "repaired", "the clock"), OTHER),
        ("Anna employs Ben.", ("Ben", "employs", "Anna"), OTHER),
        ("Anna employs Ben.", ("Anna", "employs", "Tom"), "the name 'tom' is in none of the sources"),
        ("She employs Ben.", ("She", "employs", "Ben"), "the subject is a pronoun, or the predicate has no verb"),
        ("Anna employs Ben.", ("Anna", "Ben", "employs"), "the subject is a pronoun, or the predicate has no verb"),
        ("Anna employs Ben.", ("Anna", "employs", ""), "a part is empty or too long"),
        ("Anna does not like tea.", ("Anna", "like", "tea"),
         "the statement is negated, hedged, a report or a supposition"),
        ("Maybe Anna likes tea.", ("Anna", "likes", "tea"),
         "the statement is negated, hedged, a report or a supposition"),
        ("Anna likes tea.", ("", "", ""), ""),
    ],
)  # fmt: skip
def test_G45_a_triple_has_all_words_of_its_statement_in_their_order(
    statement: str, triple: tuple[str, str, str], reason: str
) -> None:
    assert validate_triple(TripleAnswer(*triple), TaskInputs((statement,))) == reason


def test_G45_without_a_model_a_triple_is_read_by_rules() -> None:
    assert read_triple(TaskInputs(("Anna lives in Porto.",))) == TripleAnswer("Anna", "live in", "Porto")
    assert read_triple(TaskInputs(("Anna does not live in Porto.",))).triple is None
    clear = {"Anna lives in Porto.": True, "Anna does not live in Porto.": True, "Anna repaired the clock.": False}
    assert {text: is_plain(TaskInputs((text,))) for text in clear} == clear


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Anna doesn't live in Porto.", {"not"}),
        ("Anna never left in May 2019.", {"never"}),
        ("Perhaps Anna may leave if Ben stays.", {"perhaps", "may", "if"}),
        ("Anna geht nicht nach Hause.", {"nicht"}),
        ("我不喜欢茶。", {"不"}),
        ("Anna lives in Porto.", set()),
    ],
)
def test_the_qualifiers_of_a_sentence_are_its_negations_hedges_and_conditions(sentence: str, words: set[str]) -> None:
    assert qualifiers(sentence) == words
