"""Features of the learned ranker: each feature of a small scene, worked out by hand. SPEC 7.3."""

from typing import Any

import numpy as np
import pytest

from mnemo_core.retrieval.ranking import ranking_features
from mnemo_core.retrieval.ranking.ranking_features import FeatureInputs, FeatureTable, TokenSimilarities
from mnemo_core.text.query_features import analyze_query
from mnemo_core.text.text_features import TextFeature


def evidence(**changed: Any) -> FeatureInputs:
    """Three candidates, the memories 0, 1 and 2 of four; 3 stands behind 2. The query's terms: a name, and two more."""
    scene = {
        "weights": np.array([2.0, 1.0, 3.0], np.float32),
        "is_name": np.array([True, False, False]),
        "is_number": np.array([False, False, False]),
        "holds": np.array([[1, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]], np.bool_),
        "words": np.array([4.0, 2.0, 0.0, 1.0], np.float32),
        "sims": np.array([0.6, 0.3, np.nan, 0.15], np.float32),
        "shape": np.array([TextFeature.ENDS_WITH_QUESTION, TextFeature.HAS_DATE, 0, TextFeature.HAS_NUMBER], np.uint32),
        "lengths": np.array([6, 0, 3, 9], np.uint16),
        # 0 before 1 in one session; 2 before 3 in another.
        "neighbour_rows": np.array([[0, 1, 2], [-1, 0, -1], [1, -1, 3], [-1, -1, -1], [-1, -1, -1]]),
        "group": np.array([7, 7, -1], np.int64),
        "speaks": np.array([1, -1, 0], np.int8),
        "roles": np.array([-1, 1, 0], np.int8),
        "fits_date": np.array([np.nan, np.nan, np.nan], np.float32),
        "question": analyze_query("When did Ann sail?"),
    }
    return FeatureInputs(**{**scene, **changed})


def column(table: FeatureTable, name: str) -> list[float]:
    found: list[float] = table.values[:, table.names.index(name)].tolist()
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("words", [1.0, 0.5, 0.0]),  # of the best, 4
        ("words_rank", [1.0, 5 / 6, 0.0]),  # no word is no place
        ("covered", [3 / 6, 1 / 6, 3 / 6]),  # by weight, of 2 + 1 + 3
        ("covered_content", [1 / 4, 1 / 4, 3 / 4]),  # the name does not count
        ("terms", [1.0, 1.0, 1.0]),
        ("terms_share", [0.5, 0.5, 0.5]),
        ("rarest", [1.0, 1.0, 3.0]),
        ("rarest_share", [1 / 3, 1 / 3, 1.0]),
        ("sim", [0.6, 0.3, 0.0]),  # 2 has no vector: as near as its words are good, which is not at all
        ("sim_share", [1.0, 0.5, 0.0]),
        ("words_before", [0.0, 1.0, 0.0]),
        ("words_after", [0.5, 0.0, 0.25]),
        ("sim_after", [0.5, 0.0, 0.25]),
        ("words_beside", [0.5, 1.0, 0.25]),
        ("asked_before", [0.0, 1.0, 0.0]),
        ("asked_before_sim", [0.0, 1.0, 0.0]),
        ("covered_around", [1 / 4, 1 / 4, 3 / 4]),
        ("covered_gain", [0.0, 0.0, 0.0]),
        ("session", [(1.0 + 0.5) / 4, (1.0 + 0.5) / 4, 0.0]),  # half words, half nearness, of up to four
        ("session_share", [1.0, 1.0, 0.0]),
        ("session_best", [1.0, 1.0, 0.0]),
        ("session_covered", [1 / 4, 1 / 4, 0.0]),
        ("speaker_named", [1.0, 0.0, 0.0]),
        ("other_named", [0.0, 1.0, 0.0]),
        ("by_person", [0.0, 1.0, 0.0]),
        ("by_agent", [1.0, 0.0, 0.0]),
        ("names_nobody", [0.0, 0.0, 0.0]),
        ("date_fits", [0.0, 0.0, 0.0]),
        ("date_differs", [0.0, 0.0, 0.0]),
        ("text_asks", [1.0, 0.0, 0.0]),
        ("text_date", [0.0, 1.0, 0.0]),
        ("when_date", [0.0, 1.0, 0.0]),  # it asks when, and the text has a date
        ("where_place", [0.0, 0.0, 0.0]),
    ],
)
def test_a_feature_of_three_candidates(name: str, expected: list[float]) -> None:
    assert column(ranking_features.feature_table(evidence()), name) == pytest.approx(expected)


def test_neighbours_count_with_the_words_they_hold() -> None:
    """2 holds the third term, and what follows it the second one: together both."""
    holds = np.array([[1, 0, 0, 1], [0, 0, 0, 1], [0, 0, 1, 0]], np.bool_)
    table = ranking_features.feature_table(evidence(holds=holds))
    assert column(table, "covered_around") == pytest.approx([0.0, 0.0, 1.0])
    assert column(table, "covered_gain") == pytest.approx([0.0, 0.0, 1 / 4])


def test_a_date_that_the_question_names_fits_or_differs() -> None:
    table = ranking_features.feature_table(evidence(fits_date=np.array([1.0, 0.0, 1.0], np.float32)))
    assert column(table, "date_fits") == [1.0, 0.0, 1.0]
    assert column(table, "date_differs") == [0.0, 1.0, 0.0]


def test_a_number_of_the_question_is_looked_for_by_itself() -> None:
    table = ranking_features.feature_table(evidence(is_number=np.array([False, False, True])))
    assert column(table, "same_number") == [0.0, 0.0, 1.0]


def test_a_memory_without_a_vector_is_as_near_as_its_words_are_good() -> None:
    table = ranking_features.feature_table(evidence(sims=np.array([np.nan, 0.5, 0.1, 0.0], np.float32)))
    assert column(table, "sim") == pytest.approx([0.5, 0.5, 0.1])  # the best by words takes the best that is known


def test_chinese_and_japanese_questions_weigh_words_and_meaning_otherwise() -> None:
    for is_cjk in (False, True):
        table = ranking_features.feature_table(evidence(is_cjk=is_cjk))
        for name in ("words", "words_z", "covered", "sim_share", "sim_z"):
            assert column(table, f"{name}_cjk") == (column(table, name) if is_cjk else [0.0, 0.0, 0.0])
        rows = np.array([[0.8, 0.2], [0.4, 0.4]], np.float32)
        late = ranking_features.token_feature_table(
            TokenSimilarities(rows, rows, rows, np.array([0.75, 0.25], np.float32), is_cjk)
        )
        for name in ("late_share", "late_z", "late_around_z"):
            assert column(late, f"{name}_cjk") == (column(late, name) if is_cjk else [0.0, 0.0])


def test_equal_values_share_a_place() -> None:
    table = ranking_features.feature_table(evidence(words=np.array([2.0, 2.0, 1.0, 0.0], np.float32)))
    assert column(table, "words_rank") == pytest.approx([1.0, 1.0, 5 / 7])


def test_nothing_is_nan_where_nothing_is_known() -> None:
    nothing = evidence(
        weights=np.empty(0, np.float32), is_name=np.empty(0, np.bool_), is_number=np.empty(0, np.bool_),
        holds=np.empty((0, 4), np.bool_), words=np.zeros(4, np.float32), sims=np.full(4, np.nan, np.float32),
    )  # fmt: skip
    table = ranking_features.feature_table(nothing)
    assert np.isfinite(table.values).all()
    assert column(table, "names_nobody") == [1.0, 1.0, 1.0]


def test_no_candidates_have_no_features() -> None:
    none = evidence(
        neighbour_rows=np.empty((5, 0), np.intp), group=np.empty(0, np.int64),
        speaks=np.empty(0, np.int8),
        roles=np.empty(0, np.int8), fits_date=np.empty(0, np.float32),
    )  # fmt: skip
    table = ranking_features.feature_table(none)
    assert table.values.shape == (0, len(table.names))


def test_late_interaction_takes_the_best_of_a_text_and_its_neighbours() -> None:
    late = TokenSimilarities(
        own=np.array([[0.8, 0.2], [0.4, 0.4]], np.float32),
        before=np.array([[-1.0, -1.0], [0.6, 0.9]], np.float32),
        after=np.array([[0.5, 1.0], [-1.0, -1.0]], np.float32),
        weights=np.array([0.75, 0.25], np.float32),
    )
    table = ranking_features.token_feature_table(late)
    assert column(table, "late") == pytest.approx([0.65, 0.4])
    assert column(table, "late_share") == pytest.approx([1.0, 0.4 / 0.65])
    assert column(table, "late_before") == pytest.approx([0.65, 0.75 * 0.6 + 0.25 * 0.9])
    assert column(table, "late_after") == pytest.approx([0.75 * 0.8 + 0.25 * 1.0, 0.4])
    assert column(table, "late_around") == pytest.approx([0.85, 0.675])
    assert column(table, "late_of_before") == pytest.approx([0.0, 0.675])  # nothing stands before the first
    assert column(table, "late_plain") == pytest.approx([0.5, 0.4])
    assert column(table, "late_close") == pytest.approx([0.75 * 0.3, 0.0])
    assert column(table, "late_square") == pytest.approx([0.75 * 0.64 + 0.25 * 0.04, 0.16])
    assert column(table, "late_least") == pytest.approx([0.2, 0.4])
    assert column(table, "late_z") == pytest.approx([1.0, -1.0], abs=1e-4)


def test_the_features_do_not_depend_on_the_order_of_the_candidates() -> None:
    order = np.array([2, 0, 1])
    scene = evidence()
    turned = scene._replace(
        neighbour_rows=scene.neighbour_rows[:, order], group=scene.group[order], speaks=scene.speaks[order],
        roles=scene.roles[order],         fits_date=scene.fits_date[order],
    )  # fmt: skip
    assert ranking_features.feature_table(turned).values == pytest.approx(
        ranking_features.feature_table(scene).values[order]
    )


MARCH_30, MARCH_2, MAY_2024 = 1_743_292_800_000, 1_740_873_600_000, 1_714_564_800_000  # 2025, 2025, 1 May 2024


@pytest.mark.parametrize(
    ("months", "years", "expected"),
    [
        ({3}, (), [1.0, 1.0, 0.0]),
        ({2}, (), [0.0, 1.0, 0.0]),  # on the second of March one still speaks of February
        ({5}, {2025}, [0.0, 0.0, 0.0]),
        ((), {2024}, [0.0, 0.0, 1.0]),
        ({4, 5}, {2024}, [0.0, 0.0, 1.0]),
    ],
)
def test_a_month_or_year_fits_events_in_it(months: set[int], years: set[int], expected: list[float]) -> None:
    at = np.array([MARCH_30, MARCH_2, MAY_2024], np.int64)
    assert ranking_features.fits_date(months, years, at).tolist() == expected


def test_a_query_without_a_date_has_neither_date_feature() -> None:
    assert np.isnan(ranking_features.fits_date((), (), np.array([MARCH_30], np.int64))).all()


def test_a_text_without_token_rows_is_as_near_as_the_rest_of_it_is_good() -> None:
    sims = np.array([[0.8, 0.2], [0.4, 0.6], [0.0, 0.0]], np.float32)
    light = np.array([1.0, 1.0, 0.5], np.float32)
    found = ranking_features.imputed(sims, np.array([False, False, True]), light)
    assert found[2].tolist() == pytest.approx([0.4, 0.3])  # half of the best that each token has anywhere
    assert found[:2].tolist() == sims[:2].tolist()
    assert ranking_features.imputed(sims, np.zeros(3, np.bool_), light) is sims


DAY = 86_400_000


def test_the_later_and_the_earlier_of_similar_statements_differ() -> None:
    sims = np.array([[1.0, 0.86, 0.2], [0.86, 1.0, 0.5], [0.2, 0.5, 1.0]], np.float32)  # 0.3 and less is not alike
    told_at = np.array([0, DAY, DAY + 30_000], np.int64)  # the last two were told together
    odds = np.array([1.0, 1.0 - np.log(2.0), -50.0], np.float32)
    statements = ranking_features.StandaloneStatements(np.array([0, 2, 3]), sims, told_at, odds)
    newer, older, newer_fits, older_fits = ranking_features.change_table(statements, 4).values.T.tolist()
    assert newer == pytest.approx([0.8, 0.0, 0.0, 0.0])
    assert older == pytest.approx([0.0, 0.0, 0.8, 0.0])  # nothing is nearer than not near at all
    assert newer_fits == pytest.approx([0.4, 0.0, 0.0, 0.0])  # the later one is half as likely as the best
    assert older_fits == pytest.approx([0.0, 0.0, 0.8, 0.0])


def test_a_turn_and_a_passage_of_a_note_are_no_statements() -> None:
    session, speaker, managed = np.array([0, 7, 7, 0, 0]), np.array([0, 0, 3, 3, 0]), np.array([0, 0, 0, 0, 5])
    nowhere, last_but_one = np.zeros(5, np.bool_), np.arange(5) == 3
    assert ranking_features.is_statement(session, speaker, managed, nowhere).tolist() == [
        True,
        True,
        False,
        True,
        False,
    ]
    assert ranking_features.is_statement(session, speaker, managed, last_but_one).tolist() == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_without_statements_nothing_has_changed() -> None:
    none = ranking_features.StandaloneStatements(np.empty(0, np.intp), np.empty((0, 0), np.float32), np.empty(0,
        np.int64),
                               np.empty(0, np.float32))  # fmt: skip
    assert ranking_features.change_table(none, 2).values.tolist() == [[0.0] * 4] * 2
