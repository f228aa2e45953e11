"""The ranker `deterministic`, worked by hand. SPEC 7.3 [M3 to M6]"""

import re

import pytest

from mnemo_core.retrieval.ranking import rankers
from mnemo_core.retrieval.ranking.lexical_ranker import overlap, tokens
from mnemo_core.retrieval.ranking.rankers import RankingRequest
from tests.columns import DAY, HOUR, NOW, candidates

PLAIN = RankingRequest("deterministic", now=NOW)


@pytest.mark.parametrize(
    ("share", "age", "importance", "expected"),
    [
        # 1 · 0.65 + 1/(1+0) · 0.35 + 0.15 · 1: a score may exceed 1
        (1.0, 0, 1.0, 1.15),
        # 0.5 · 0.65 + 1/2 · 0.35 + 0.15 · 0.8 = 0.325 + 0.175 + 0.12
        (0.5, HOUR, 0.8, 0.62),
        # 0.25 · 0.65 + 1/4 · 0.35 + 0.15 · 0.5 = 0.1625 + 0.0875 + 0.075
        (0.25, 3 * HOUR, 0.5, 0.325),
        # nothing in common: 0.35 / 25 + 0
        (0.0, DAY, 0.0, 0.014),
        # what is still to come is as fresh as what is now
        (0.0, -DAY, 0.0, 0.35),
    ],
)
def test_M3_the_score_is_text_and_recency_by_the_bias_and_a_bonus_for_importance(
    share: float, age: int, importance: float, expected: float
) -> None:
    given = candidates(1, overlap=[share], event_at=NOW - age, importance=importance)
    scored = rankers.score(PLAIN, given)
    assert scored.scores.tolist() == pytest.approx([expected])
    assert (scored.ranker, scored.mode, scored.reason) == ("deterministic", None, "")


@pytest.mark.parametrize(("bias", "expected"), [(0.0, 0.78), (0.35, 0.6925), (1.0, 0.53)])
def test_M3_the_bias_moves_the_score_from_text_to_recency(bias: float, expected: float) -> None:
    # 0.75·(1 − b) + 1/2·b + 0.15·0.2
    given = candidates(1, overlap=[0.75], event_at=NOW - HOUR, importance=0.2)
    scored = rankers.score(PLAIN._replace(recency_bias=bias), given)
    assert scored.scores.tolist() == pytest.approx([expected])


def test_M3_an_empty_query_has_nothing_in_common_with_any_text() -> None:
    assert overlap("", ["anything", ""]).tolist() == [0.0, 0.0]
    assert overlap("?! …", ["anything", "?! …"]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        # tokens are [a-z0-9]+, lower-cased; those of the query that the text has, over those of the query
        ("The Quick brown fox", "quick-brown DOG, the", 3 / 4),
        ("foo bar", "foo_bar", 1.0),
        ("port 8080?", "The port is 8080.", 1.0),
        ("port 8080?", "The port is 80.", 1 / 2),
        # of a word that is asked twice, one
        ("key key lock", "a lock", 1 / 2),
        # no stemming: cats are no cat
        ("my cats", "my cat", 1 / 2),
        ("don't", "don t", 1.0),
        # tags stand behind the content
        ("alpha deadline", "It is due in May. project:alpha deadline", 1.0),
    ],
)
def test_M4_the_text_score_is_the_share_of_the_querys_tokens_in_content_and_tags(
    query: str, text: str, expected: float
) -> None:
    assert overlap(query, [text]).tolist() == pytest.approx([expected])


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("Café Müller", "das cafe von muller", 1.0),
        ("Straße", "STRASSE", 1.0),
        ("ＡＢＣ １２", "abc 12", 1.0),
        # 東 京 の 天 気 of which the text has 東 and 京
        ("東京の天気", "東京は雨", 2 / 5),
        ("김치", "김치를 먹었다", 1.0),
        # が is another letter than か, though Unicode takes it for か with a mark
        ("が", "か", 0.0),
        ("Привет, мир", "мир", 1 / 2),
    ],
)
def test_M4_other_scripts_and_accents_count_too(query: str, text: str, expected: float) -> None:
    assert overlap(query, [text]).tolist() == pytest.approx([expected])


def test_M4_of_ascii_the_tokens_are_those_of_the_source() -> None:
    text = "It's v2.0_rc1 -- see /usr/lib/X11 (A+B) at 10:30, e-mail: me@host.org!"
    assert tokens(text) == set(re.findall("[a-z0-9]+", text.lower()))
    assert "v2.0_rc1" not in tokens(text)
    assert {"v2", "0", "rc1"} <= tokens(text)


def test_M5_recency_is_one_over_one_and_the_hours() -> None:
    ages = [0, HOUR, 3 * HOUR, DAY, 99 * HOUR]
    given = candidates(5, overlap=[0.0] * 5, event_at=[NOW - age for age in ages], importance=0.0)
    scored = rankers.score(PLAIN._replace(recency_bias=1.0), given)
    assert scored.scores.tolist() == pytest.approx([1.0, 0.5, 0.25, 0.04, 0.01])


def test_M6_of_equal_scores_the_more_important_comes_first_then_the_newer_then_the_smaller_id() -> None:
    # What is archived has four fifths of its score: 0.8·(0.5 + 0.15·1) = 0.52 = 0.4 + 0.15·0.8. The others are newer,
    # or have the smaller id; without a bias that is no part of the score.
    given = candidates(
        4,
        overlap=[0.4, 0.4, 0.4, 0.5],
        importance=[0.8, 0.8, 0.8, 1.0],
        event_at=[NOW, NOW + HOUR, NOW + HOUR, NOW],
        state=["active", "active", "active", "archived"],
    )
    scored = rankers.score(PLAIN._replace(recency_bias=0.0), given)
    assert scored.scores.tolist() == pytest.approx([0.52] * 4)
    assert len(set(scored.scores.tolist())) == 1
    assert rankers.order(scored, given).tolist() == [3, 1, 2, 0]
