"""Rules that all rankers share: the table, the order, the replacement of missing vectors. SPEC 7.3

The values of each are worked by hand in test_rankers_values.py.
"""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from mnemo_client.protocol import choices
from mnemo_core.retrieval.ranking import rankers
from mnemo_core.retrieval.ranking.rankers import RANKERS, Mode, Ranker, RankingRequest
from tests.support.ranking_candidates import candidates


def test_requests_commands_and_pages_offer_every_ranker_of_the_table_and_no_other() -> None:
    assert tuple(rankers.RANKER_TABLE) == RANKERS
    assert choices.RANKERS == RANKERS, "name it in mnemo_client/protocol/choices.py too"
    assert get_args(choices.Mode) == get_args(Mode)
    page = Path(__file__).resolve().parents[2] / "daemon/docs/ranking.md"
    text = page.read_text(encoding="utf-8")
    assert not (lacking := [name for name in RANKERS if f"| `{name}` |" not in text]), f"{page} has no row {lacking}"


@pytest.mark.parametrize("ranker", RANKERS)
def test_no_candidates_have_no_scores(ranker: Ranker) -> None:
    scored = rankers.score(RankingRequest(ranker), candidates(0, overlap=[]))
    assert (len(scored.scores), len(scored.relevance), len(scored.dropped)) == (0, 0, 0)
    assert scored.scores.dtype == scored.relevance.dtype == np.float32


NEEDS: dict[Ranker, tuple[str, ...]] = {
    "auto": ("vectors",), "words": (), "cosine": ("vectors",), "deterministic": ("overlap",),
    "hybrid": ("vectors", "overlap"), "layered": ("vectors",), "fused": ("vectors",), "rerank": ("vectors",),
}  # fmt: skip
WITHOUT_VECTORS: list[tuple[Ranker, Mode, Ranker, str | None]] = [
    ("auto", "hybrid", "words", None),
    ("words", "hybrid", "words", None),
    ("cosine", "hybrid", "words", None),
    ("deterministic", "hybrid", "deterministic", None),
    ("hybrid", "hybrid", "hybrid", "deterministic"),
    ("hybrid", "deterministic", "hybrid", "deterministic"),
    ("hybrid", "semantic", "hybrid", "deterministic"),
    ("layered", "hybrid", "layered", None),
    ("fused", "hybrid", "deterministic", None),
    ("rerank", "hybrid", "rerank", "blend"),
]


def test_every_ranker_has_its_row() -> None:
    for rows in (NEEDS, [ranker for ranker, *_ in WITHOUT_VECTORS]):
        assert not (lacking := set(RANKERS) - set(rows)), f"{lacking} is not in {rows}"


@pytest.mark.parametrize(("ranker", "mode", "used", "mode_used"), WITHOUT_VECTORS)
def test_M10_without_vectors_another_ranker_answers_and_says_which(
    ranker: Ranker, mode: Mode, used: Ranker, mode_used: str | None
) -> None:
    given = candidates(2, words=[4.0, 1.0], overlap=[0.5, 0.25], importance=[0.1, 0.9])
    scored = rankers.score(RankingRequest(ranker, mode, has_vectors=False, words_full=4.0), given)
    assert (scored.ranker, scored.mode) == (used, mode_used)
    # It is that ranker's score. With the bias 0 deterministic is the overlap + 0.15 · importance.
    if "deterministic" in (used, mode_used):
        unbiased = rankers.score(RankingRequest(ranker, mode, recency_bias=0.0, has_vectors=False), given)
        assert unbiased.scores.tolist() == pytest.approx([0.515, 0.385])
    elif used == "words":
        assert scored.scores.tolist() == pytest.approx([0.9, 0.225])


@pytest.mark.parametrize("ranker", RANKERS)
def test_the_needs_of_a_ranker_are_known_before_anything_is_computed(ranker: Ranker) -> None:
    asked = RankingRequest(ranker)
    assert (asked.needs_vectors, asked.needs_overlap) == ("vectors" in NEEDS[ranker], "overlap" in NEEDS[ranker])
    if ranker == "hybrid":
        assert not RankingRequest(ranker, "deterministic").needs_vectors
        assert RankingRequest(ranker, "deterministic").needs_overlap
        assert RankingRequest(ranker, "semantic").needs_vectors
        assert not RankingRequest(ranker, "semantic").needs_overlap
    fallen_back = rankers.effective_request(RankingRequest(ranker, has_vectors=False))
    assert fallen_back.needs_overlap == (ranker in ("deterministic", "hybrid", "fused"))


@pytest.mark.parametrize("ranker", [ranker for ranker in RANKERS if rankers.RANKER_TABLE[ranker].lowers_archived])
def test_archived_memories_have_four_fifths_of_their_score_in_every_ranker_that_lowers_them(ranker: Ranker) -> None:
    given = {"words": [2.0, 2.0], "sims": [0.8, 0.8], "overlap": [1.0, 1.0], "late": [0.5, 0.5], "learned": [0.6, 0.6]}
    first, second = rankers.score(
        RankingRequest(ranker), candidates(2, state=["active", "archived"], **given)
    ).scores.tolist()
    assert second == pytest.approx(0.8 * first)


def test_equal_scores_are_ordered_by_importance_then_time_then_id() -> None:
    tied = candidates(4, words=1.0, importance=[0.5, 0.9, 0.5, 0.5], event_at=[10, 0, 20, 20])
    scored = rankers.score(RankingRequest("words"), tied)
    assert rankers.order(scored, tied).tolist() == [1, 2, 3, 0]


def test_the_first_half_of_an_id_counts_before_the_second() -> None:
    tied = candidates(2, words=1.0)._replace(id_high=np.array([2, 1], np.uint64), id_low=np.array([0, 9], np.uint64))
    assert rankers.order(rankers.score(RankingRequest("words"), tied), tied).tolist() == [1, 0]
