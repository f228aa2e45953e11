"""The judge of changes: what a later statement does to an earlier one. SPEC 5.8"""

import json

import pytest

from mnemo_core.ingest.changes import ChangeJudge, is_doubtful, is_excluded, is_remote
from mnemo_core.ingest.deduplication import Neighbour, find_relations
from mnemo_core.similarity.thresholds import SOURCE
from mnemo_core.text.statement_reading import has_same_values, read_statement
from mnemo_daemon.ingest.neighbour_search import CHANGE_WEIGHTS
from tests.support.samples import AT, sample_memory

DAY_MS = 86_400_000
JUDGE = ChangeJudge(json.loads(CHANGE_WEIGHTS.read_text(encoding="utf-8")))


def relation(old: str, new: str, sim: float | None = 0.7, *, later_ms: int = DAY_MS) -> str:
    """The relation that a new text gets to an old one: `updates`, `repeats`, `likely`, `related` or ""."""
    found = find_relations(new, "", AT + later_ms, [Neighbour(sample_memory(1, old), sim)], SOURCE, judge=JUDGE)
    return "" if not found else "likely" if found[0].is_same_slot else found[0].relation


@pytest.mark.parametrize(
    ("sim", "old", "new"),
    [
        (0.90, "The retry limit of the carrier adapter is 5.", "The retry limit of the carrier adapter is 8 now."),
        (0.94, "The map service times out after 30 seconds.", "The map service times out after 60 seconds now."),
        (0.85, "The nightly export runs at 02:30.", "We moved the nightly export to 03:15."),
        (0.89, "The nightly tile build runs at 03:15.", "The nightly tile build moved from 03:15 to 01:45."),
        (0.94, "Retry policy: 5 attempts, max 60 seconds.", "Retry policy: 8 attempts, max 120 seconds"),
        (
            0.80,
            "Decision: store tiles as PMTiles instead of MBTiles.",
            "We do not use PMTiles any more; went back to MBTiles.",
        ),
        (0.51, "I like my coffee black.", "I no longer drink coffee."),
        (0.76, "Sabine owns the styles repository.", "Sabine left the company, Oleg owns the styles repository now."),
        (0.80, "Der Vertrag läuft bis Ende 2026.", "Der Vertrag wurde bis Ende 2028 verlängert."),
        (0.87, "Das Training ist dienstags um 18 Uhr.", "Das Training ist ab sofort mittwochs um 19 Uhr."),
    ],
)
def test_what_somebody_says_has_changed_replaces_what_it_was_or_comes_before_it(sim: float, old: str, new: str) -> None:
    assert relation(old, new, sim) in ("updates", "likely")


@pytest.mark.parametrize(
    ("sim", "old", "new"),
    [
        (0.81, "Tank 3 is heated to 37 degrees.", "Tank 4 is heated to 35 degrees now."),
        (0.79, "My brother's shoe size is 43.", "My sister's shoe size is 39."),
        (0.72, "The staging server runs on port 8080.", "The production server runs on port 9090."),
        (0.96, "Mrs Larkin's right knee bends to 110 degrees.", "Mrs Larkin's left knee bends to 125 degrees."),
        (0.58, "We use Postgres for the orders.", "Somebody suggested that we might move the orders to MySQL."),
        (0.60, "I speak Portuguese.", "I also speak some Danish."),
        (0.59, "The office is in Leeds.", "In 2015 the office was in Bradford."),
        (0.88, "The standup is at 9:45.", "Is the standup still at 9:45?"),
        (0.89, "Karim chairs the Monday call.", "Why does Karim chair the Monday call?"),
    ],
)
def test_another_thing_a_proposal_a_past_value_and_a_question_replace_nothing(sim: float, old: str, new: str) -> None:
    assert relation(old, new, sim) != "updates"


def test_nothing_replaces_what_was_said_later() -> None:
    old, new = "The retry limit of the adapter is 5.", "The retry limit of the adapter was raised to 8."
    assert relation(old, new) in ("updates", "likely")
    assert relation(old, new, later_ms=-DAY_MS) == "related"


def test_without_a_vector_the_words_decide() -> None:
    assert relation("The retry limit of the adapter is 5.", "The retry limit of the adapter is 8 now.", None) in (
        "updates",
        "likely",
    )


def test_a_repetition_in_other_words_has_the_same_values() -> None:
    one, other = read_statement("The stand-up is at 9:45."), read_statement("At 9:45 the stand-up begins.")
    assert has_same_values(one, other)
    assert not has_same_values(one, read_statement("The stand-up is at 9:50."))
    assert not has_same_values(read_statement("We meet Nadia there."), read_statement("We meet Tom there."))
    assert not has_same_values(one, read_statement("The stand-up is not at 9:45."))


@pytest.mark.parametrize(
    ("old", "new", "is_so"),
    [
        ("The port is 80.", "Is the port 81?", True),
        ("The port is 80.", "Tulips flower early.", True),
        ("I smoke.", "I stopped.", False),
        ("Frau Meier wohnt nebenan.", "Frau Meier wohnt jetzt in Ulm.", False),
        ("Meine Frau arbeitet in Ulm.", "Meine Schwester arbeitet in Bonn.", True),
    ],
)
def test_a_question_another_relative_and_no_word_in_common_are_excluded(old: str, new: str, is_so: bool) -> None:
    assert is_excluded(read_statement(old), read_statement(new)) == is_so


def test_statements_that_are_far_from_each_other_are_not_judged() -> None:
    old, new = (
        "The lease is with Rowan, 870 a month, goes out on the 3rd.",
        "Went over to Lumo with my mobile, 11 a month.",
    )
    assert is_remote(read_statement(old), read_statement(new), 0.2)
    assert not is_remote(read_statement(old), read_statement(new), 0.4)
    assert not is_remote(read_statement(old), read_statement(new), None)
    assert not is_remote(read_statement(old), read_statement("The lease costs 900 a month now."), 0.2)
    changed = ("My shoe size is 43.", "My shoe size is 44 now.")
    assert JUDGE.find_all([(changed[0], 0.2)], changed[1]) != [""]
    kids = ("Kids: Lina is 11, Emil is 8.", "Emil braucht für Fußballschuhe inzwischen Größe 36.")
    assert sum(JUDGE.probabilities(*kids, 0.14)[:2]) >= JUDGE.bars.likely
    assert JUDGE.find_all([(kids[0], 0.14)], kids[1]) == [""]


@pytest.mark.parametrize(
    ("old", "new", "minutes", "is_found"),
    [
        ("The plumber comes on Friday at 14:00.", "No, it was 14:30 for the plumber.", 60, True),
        ("The plumber comes on Friday at 14:00.", "Sorry, 14:30.", 5, True),
        ("The rabbit food cost 12 euros.", "Correction: the food was 14.", 60, True),
        ("Der Zahnarzt ist am Dienstag.", "Nein, der Zahnarzt ist am Mittwoch.", 60, True),
        ("Le dentiste, c'est mardi.", "Non, c'était mercredi.", 5, True),
        ("The plumber comes on Friday at 14:00.", "Sorry, 14:30.", 60, False),  # it may be about anything
        ("The plumber comes on Friday at 14:00.", "No, it was 14:30 for the plumber.", 2_000, False),
        ("The plumber comes on Friday at 14:00.", "No, the electrician comes on Saturday 3 May.", 60, False),
        ("The plumber comes on Friday at 14:00.", "No dogs in the yard after 15:00 when the plumber comes.", 5, False),
        ("The plumber comes on Friday at 14:00.", "Wait, do we need 14 bolts?", 5, False),
    ],
)
def test_a_correction_is_perhaps_of_the_last_value_of_its_kind(
    old: str, new: str, minutes: int, is_found: bool
) -> None:
    assert (relation(old, new, 0.2, later_ms=minutes * 60_000) in ("likely", "updates")) == is_found


def test_of_several_statements_a_correction_is_of_the_last_one() -> None:
    said = ["The plumber comes at 14:00.", "The piano tuner comes at 16:00."]
    near = [Neighbour(sample_memory(n, text, event_at=AT + n * 60_000), 0.3) for n, text in enumerate(said)]
    found = find_relations("No, it was 16:30.", "", AT + 120_000, near, SOURCE, judge=JUDGE)
    assert [(each.id, each.is_same_slot) for each in found] == [(near[1].memory.id, True)]


def test_a_supposition_neither_replaces_nor_is_replaced_for_certain() -> None:
    fact = read_statement("The owner of the repository is Ana.")
    assert is_doubtful(read_statement("I think Leo might own the repository."), fact)
    assert is_doubtful(fact, read_statement("Perhaps Leo owns the repository."))
    assert not is_doubtful(fact, read_statement("Leo now owns the repository, if I am not mistaken."))
    assert not is_doubtful(fact, read_statement("Since May the owner of the repository is Leo."))


def test_bars_are_in_order() -> None:
    assert 0.5 < JUDGE.bars.certain <= 1.0
    assert 0.2 < JUDGE.bars.likely <= JUDGE.bars.certain
    assert 0.5 < JUDGE.bars.same <= 1.0
