"""Salience and novelty of a text, and the importance they result in. SPEC 5.3, CHECKLISTS L10 to L14, T22

The labelled texts (fixtures/intake/salience.jsonl) have two halves: `tuned`, against which the lists and patterns were
improved, and `held`, by which nothing was.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mnemo_core.ingest.mutations import KEPT_IMPORTANCE_MIN
from mnemo_core.ingest.signals.salience import importance, measure_salience, novelty
from mnemo_core.text.preferences import find_preference

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "fixtures" / "intake" / "salience.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize(
    ("new", "salient", "expected", "kept"),
    [
        (1.0, 0.0, 0.60, True),
        (0.0, 0.4, 0.16, False),
        (0.5, 0.0, 0.30, True),
        (0.37, 0.2, 0.302, True),
        (0.23, 0.4, 0.298, False),
        (1.0, 1.0, 1.0, True),
        (0.0, 0.0, 0.0, False),
        (-0.5, 0.0, 0.0, False),
        (2.0, 1.0, 1.0, True),
    ],
)
def test_L10_L14_importance_is_weighed_and_kept_from_three_tenths(
    new: float, salient: float, expected: float, kept: bool
) -> None:
    assert importance(new, salient) == pytest.approx(expected, abs=1e-12)
    assert (importance(new, salient) >= KEPT_IMPORTANCE_MIN) is kept


def test_L14_three_tenths_itself_is_kept_whatever_floats_say() -> None:
    assert importance(0.5, 0.0) == 0.3
    assert importance(0.3, 0.3) == 0.3
    assert importance(0.1, 0.6) == 0.3


def test_L11_novelty_is_the_distance_to_the_centroid() -> None:
    centroid = np.array([3.0, 0.0, 0.0])
    assert novelty(np.array([[1.0, 0.0, 0.0]]), centroid) == 0.0
    assert novelty(np.array([[0.0, 1.0, 0.0]]), centroid) == 1.0
    assert novelty(np.array([[0.6, 0.8, 0.0]]), centroid) == pytest.approx(0.4)
    assert novelty(np.array([[-1.0, 0.0, 0.0]]), centroid) == 1.0  # 2, clamped


def test_L11_novelty_is_one_when_there_is_nothing_to_compare() -> None:
    row = np.array([[1.0, 0.0]])
    assert novelty(None, row[0]) == 1.0
    assert novelty(row, None) == 1.0
    assert novelty(row, np.zeros(2)) == 1.0
    assert novelty(np.empty((0, 2)), row[0]) == 1.0


def test_L11_of_a_long_text_its_newest_part_counts() -> None:
    assert novelty(np.array([[1.0, 0.0], [0.8, 0.6]]), np.array([1.0, 0.0])) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("that was fun", 0.0),
        ("we saw a technical thing in the cache", 0.1),
        ("it took three hours", 0.2),
        ("we met Xiomara", 0.3),
        ("i prefer tea", 0.4),
        ("the cache has 4 entries", 0.3),
        ("i prefer Lisbon", 0.7),
        ("I hate the 7:40 to Basel", 0.9),
        ("On Monday I prefer Postgres, its cache is warm", 1.0),
    ],
)
def test_L12_salience_adds_what_each_signal_is_worth(text: str, value: float) -> None:
    assert measure_salience(text).value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("I prefer tabs", "i prefer"),
        ("I always walk", "i always walk"),
        ("i hate tabs", "i hate tabs"),
        ("My favorite is green", "my favorite"),
    ],
)
def test_L13_the_four_preference_signals_of_the_source(text: str, found: str) -> None:
    assert find_preference(text) == found
    assert measure_salience(text).preference == found


@pytest.mark.parametrize(
    "text",
    [
        "do you prefer tabs?",
        "he always walks",
        "I always thought so",
        "should I always use tabs?",
        '"Do you hate mornings?" she asked',
        'He said: "I always win"',
        "I hate to bother you",
        "```\n# always use tabs\n```",
    ],
)
def test_L13_what_is_asked_recalled_quoted_or_another_s_is_none(text: str) -> None:
    assert find_preference(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Don't give up on your dreams.",
        "Stay focused and don't give up!",
        "Have fun with it and don't put too much pressure on yourself.",
        "Don't ever be afraid to ask.",
        "Don't ever quit on what you love.",
        "It makes me want to go on and never give up.",
        "What makes you keep going forward with it?",
    ],
)
def test_to_be_cheered_on_is_no_rule(text: str) -> None:
    assert find_preference(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "They brighten our day and always make us smile.",
        "She is my rock and always brings me back.",
        "Thank you for the support and always being there.",
        "The sign hangs in the hall, always reminding us of home.",
        "Trips like these are great, always full of surprises.",
        "Of course, I'll always be there for you.",
        "Everyone we love was in the room.",
        "The preferred way to use a lock is a with statement.",
        "It says whether to use symlinks rather than copies.",
        "The file is read at the start, and always stored as text.",
        "It is best to end processes which never use a lock.",
        "The clock of the host, always available.",
    ],
)
def test_habits_of_others_and_promises_are_no_preferences(text: str) -> None:
    assert find_preference(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Be brief and always make a list.",
        "Write to them in German and never send a link.",
        "Don't ever call me Bob.",
        "Going forward, use British spelling.",
        "We love hiking.",
    ],
)
def test_a_wish_for_good_is_found_next_to_similar_wishes(text: str) -> None:
    assert find_preference(text) != ""


def test_a_curly_apostrophe_is_an_apostrophe() -> None:
    assert find_preference("I’d rather walk") == find_preference("I'd rather walk") != ""


def test_L12_technical_terms_are_judged_by_how_rare_their_words_are() -> None:
    def rarity(words: Sequence[str]) -> list[float]:
        return [{"sourdough": 0.9, "autolyse": 1.0, "hydration": 0.8}.get(word, 0.1) for word in words]

    assert measure_salience("sourdough autolyse hydration").technical == ""
    assert measure_salience("sourdough autolyse hydration", rarity).technical == "autolyse"  # 2.7 / 3 = 0.9
    assert measure_salience("walking home along green fields", rarity).technical == ""


def test_T22_a_fact_a_rule_and_a_deadline_rank_over_small_talk() -> None:
    high = importance(1.0, measure_salience("I prefer to hand in the Lisbon report by 12 June").value)
    low = importance(0.45, measure_salience("that was fun").value)
    assert high >= 0.7
    assert low < 0.3


# Precision and recall as measured, less a little.
FLOORS = {
    ("tuned", "entity"): (0.97, 0.97),
    ("tuned", "number"): (0.98, 0.98),
    ("tuned", "preference"): (0.98, 0.98),
    ("tuned", "technical"): (0.95, 0.95),
    ("held", "entity"): (0.93, 0.90),
    ("held", "number"): (0.94, 0.97),
    ("held", "preference"): (0.96, 0.86),
    ("held", "technical"): (0.80, 0.76),
}


@pytest.mark.parametrize(("part", "signal"), list(FLOORS))
def test_signals_are_found_as_well_as_was_measured(part: str, signal: str) -> None:
    rows = [row for row in ROWS if row["part"] == part]
    found = {row["text"] for row in rows if getattr(measure_salience(row["text"]), signal)}
    true = {row["text"] for row in rows if signal in row["signals"]}
    precision, recall = len(found & true) / len(found), len(found & true) / len(true)
    print(f"\n{part:6} {signal:11} precision {precision:.3f}, recall {recall:.3f} of {len(true)}")
    print(
        *(f"wrong: {text!r}" for text in sorted(found - true)),
        *(f"missed: {text!r}" for text in sorted(true - found)),
        sep="\n",
    )
    assert precision >= FLOORS[part, signal][0]
    assert recall >= FLOORS[part, signal][1]


def test_the_labelled_set_is_large_and_half_of_it_held_back() -> None:
    parts = [row["part"] for row in ROWS]
    assert len({row["text"] for row in ROWS}) == len(ROWS) >= 250
    assert parts.count("held") * 2 >= len(ROWS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "a" * 20_000,
        "I " * 10_000,
        "ありがとう" * 4_000,
        "\u0130" * 5_000,
        "Xx " * 9_999,
        "AB " * 9_999,
        "`" * 9_999,
        "/a" * 9_999,
    ],
)
def test_any_text_has_a_salience_between_nothing_and_one(text: str) -> None:
    assert 0.0 <= measure_salience(text).value <= 1.0
