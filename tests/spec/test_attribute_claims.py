"""The marks under which a text is found by what it claims. SPEC 5.5"""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from mnemo_core.ingest.attributes.attribute_claims import (
    SEARCHED_CHARS_MAX,
    candidate_keys,
    claim_keys,
    extract_claims,
    find_update,
    speaker_of,
)
from tests.support.statement_histories import statement_histories

LIVES = 40
FIXTURES = Path(__file__).parents[1] / "fixtures" / "intake"


def leads(new: str, old: str, new_speaker: str = "", old_speaker: str = "") -> bool:
    kept = set(claim_keys(old, old_speaker))
    return any(not kept.isdisjoint(sought) for sought in candidate_keys(new, new_speaker))


def test_the_marks_of_a_text_name_its_subject_with_its_attribute_and_with_its_value() -> None:
    assert claim_keys("I live in Lisbon.", "") == ("\n= lisbon", "\ndoes live lisbon", "\nhome")
    assert claim_keys("Anna lives in Lisbon.", "") == ("anna\n= lisbon", "anna\ndoes live lisbon", "anna\nhome")
    assert claim_keys("I live in Lisbon.", "Sam") == (
        *("\n= lisbon", "\ndoes live lisbon", "\nhome"), *("sam\n= lisbon", "sam\ndoes live lisbon", "sam\nhome")
    )  # fmt: skip
    assert claim_keys("I live in Lisbon.", "user") == claim_keys("I live in Lisbon.", "")
    assert claim_keys("What a day it was!", "") == ()


def test_an_attribute_with_several_values_is_found_by_value_alone() -> None:
    assert claim_keys("I own a dog.", "") == ("\n= dog", "\ndoes own dog")
    assert candidate_keys("I own a dog.", "") == []


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("I moved to Oslo.", "I'm based in Lisbon."),
        ("My sister Anna moved to Oslo.", "Anna lives in Lisbon."),
        ("My sister moved to Oslo.", "My sister Anna lives in Lisbon."),
        ("I left Acme for Hooli.", "I work at Acme."),
        ("I traded in the Golf for a Fiesta.", "I drive a Golf."),
        ("The Atlas standup was moved to 10.", "The Atlas standup is at 9:30."),
    ],
)
def test_a_change_finds_the_claim_that_it_changes(new: str, old: str) -> None:
    assert leads(new, old)


def test_a_first_person_claim_finds_claims_about_the_speaker_by_name() -> None:
    assert leads("I moved to Oslo.", "Sam lives in Lisbon.", new_speaker="Sam")
    assert leads("Sam moved to Oslo.", "I live in Lisbon.", old_speaker="Sam")
    assert not leads("I moved to Oslo.", "Sam lives in Lisbon.", new_speaker="Ann")


@pytest.mark.parametrize(
    "old", ["Ben lives in Lisbon.", "I work at Acme.", "My rent is 900 euros.", "I own a bicycle.", "I like Oslo."]
)
def test_a_change_finds_no_claim_of_another_subject_or_attribute(old: str) -> None:
    assert not leads("I moved to Oslo.", old)


@pytest.mark.parametrize(
    "text",
    [
        "Anna is in Lisbon.", "Dentist: Novak", "budget = 900", "Atlas stays in Oslo.", "The rent equals 900 euros.",
        "Atlas has a budget of 900 euros.", "Atlas requires Python 3.12.", "Vim is my editor.", "The door is green.",
        "Anna's phone number's 555-606-7001.", "Ich wohne in Lissabon.", "J'habite à Lyon.", "我住在北京",
        "私は東京に住んでいる",
    ],
)  # fmt: skip
def test_the_cheap_first_test_misses_no_claim(text: str) -> None:
    assert extract_claims(text) != ()


@pytest.mark.parametrize(
    "text",
    [
        "Square numbers::\n\n    SQUARE = 2\n    budget = 900",
        ">>> budget = 900\n>>> print(budget)\n900",
        "```\nbudget = 900\nport: 8080\n```",
        "x = 10",
        "The totals: {'budget': 900, 'rent': 1}",
        "data = conn.recv(1024)",
        "self.count = 314",
        ".. index:: budget = 900",
    ],
)
def test_code_claims_nothing(text: str) -> None:
    assert extract_claims(text) == ()


def test_text_next_to_code_makes_its_claims() -> None:
    claim, _ = extract_claims("I live in Lisbon.\n\n```\nbudget = 900\n```")
    assert claim.value == ("lisbon",)
    assert extract_claims("budget = 900") != ()


def test_a_long_text_has_no_keys() -> None:
    short = "I live in Lisbon."
    long = f"{short} {'x' * (SEARCHED_CHARS_MAX - len(short))}"
    assert extract_claims(long) == extract_claims(short)[:1]
    assert len(long) == SEARCHED_CHARS_MAX + 1
    assert (claim_keys(long, ""), candidate_keys(long, "")) == ((), [])
    assert claim_keys(long[:-1], "") != ()


@pytest.mark.parametrize("held_out", [False, True])
def test_claims_about_the_same_attribute_are_found_in_made_lives(held_out: bool) -> None:
    found = 0
    for life in statement_histories(LIVES, held_out=held_out):
        for old, new in itertools.combinations(life, 2):
            pairs = itertools.product(
                extract_claims(new.text, speaker_of(new.speaker)), extract_claims(old.text, speaker_of(old.speaker))
            )
            if any(one.is_about_same(other) for one, other in pairs):
                assert leads(new.text, old.text, new.speaker, old.speaker), (new.text, old.text)
                found += 1
    assert found > 5 * LIVES


PAIRS = [json.loads(line) for line in (FIXTURES / "negations.jsonl").read_text(encoding="utf-8").splitlines()]


def replaces(pair: Mapping[str, str]) -> bool:
    """True if the newer text is led to the older one, and replaces what it claims."""
    return (
        leads(pair["new"], pair["old"])
        and find_update(extract_claims(pair["new"]), extract_claims(pair["old"])) is not None
    )


def test_only_statements_of_an_end_or_a_move_replace_earlier_ones() -> None:
    """62 pairs in which the newer text replaces the older one, and 62 that only look like it. The rules were written on
    the even lines; of the odd ones they know nothing."""
    held_out = PAIRS[1::2]
    right = [pair for pair in held_out if pair["updates"]]
    assert len(right) == 31
    assert [pair for pair in PAIRS if replaces(pair) and not pair["updates"]] == []
    assert sum(map(replaces, right)) >= 27


@pytest.mark.parametrize(
    ("old", "new", "is_update"),
    [
        ("Pond: send the risk assessment to the school.", "Pond: get a price for the coir rolls.", False),
        ("Studio: order new towels.", "Studio: call the landlord about the heating.", False),
        ("Pond: half full again.", "Pond: completely empty.", True),
    ],
)
def test_a_step_of_a_project_replaces_no_other_step(old: str, new: str, is_update: bool) -> None:
    assert (find_update(extract_claims(new), extract_claims(old)) is not None) == is_update


@pytest.mark.parametrize("text", ["Wohnt im Heim Lindenhof, Zimmer 212.", "Lives in Ghent.", "Works at Airbus."])
def test_a_sentence_about_others_that_leaves_out_who_is_not_about_the_writer(text: str) -> None:
    assert find_update(extract_claims("I live in Bremen and work at Bosch."), extract_claims(text)) is None
