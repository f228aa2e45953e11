"""The ranker `rerank`, worked by hand. SPEC 7.3 [L21]"""

import pytest

from mnemo_core.retrieval.ranking import rankers
from mnemo_core.retrieval.ranking.rankers import RankingRequest
from tests.columns import HOUR, NAN, NOW, candidates


def test_L21_where_nothing_can_rerank_relevance_and_importance_are_blended() -> None:
    # 0.8·0.5 + 0.2·1 ; 0.8·0.6 + 0.2·0 ; a cosine below 0 is none: 0.2·0.5
    given = candidates(3, sims=[0.5, 0.6, -0.3], importance=[1.0, 0.0, 0.5])
    scored = rankers.score(RankingRequest("rerank"), given)
    assert scored.scores.tolist() == pytest.approx([0.6, 0.48, 0.1])
    assert (scored.ranker, scored.mode) == ("rerank", "blend")


def test_L21_without_vectors_the_relevance_that_is_blended_is_the_words() -> None:
    # 0.8·4/4 + 0.2·0.5 ; 0.8·1/4 + 0.2·1
    given = candidates(2, words=[4.0, 1.0], importance=[0.5, 1.0])
    scored = rankers.score(RankingRequest("rerank", has_vectors=False), given)
    assert scored.scores.tolist() == pytest.approx([0.9, 0.4])
    assert scored.mode == "blend"


def test_L21_ties_of_a_blend_go_to_what_was_changed_last() -> None:
    changed = [NOW, NOW + HOUR, NOW + HOUR, NOW]
    given = candidates(4, sims=0.5, modified_at=changed, event_at=[NOW + HOUR, NOW, NOW, NOW])
    scored = rankers.score(RankingRequest("rerank"), given)
    assert len(set(scored.scores.tolist())) == 1
    assert rankers.order(scored, given).tolist() == [1, 2, 0, 3]


def test_L21_what_reranks_takes_the_place_of_the_cosine() -> None:
    given = candidates(3, sims=[0.9, 0.2, 0.5], late=[0.3, 0.7, NAN], importance=0.5)
    scored = rankers.score(RankingRequest("rerank"), given)
    # where it could not be computed, the blend: 0.8·0.5 + 0.2·0.5
    assert scored.scores.tolist() == pytest.approx([0.3, 0.7, 0.5])
    assert scored.mode == "late"
    # and ties are everyone's again: the newer event first, whatever was changed last
    tied = candidates(2, late=[0.5, 0.5], modified_at=[NOW + HOUR, NOW], event_at=[NOW, NOW + HOUR])
    assert rankers.order(rankers.score(RankingRequest("rerank"), tied), tied).tolist() == [1, 0]


def test_L21_a_cross_encoder_takes_the_place_of_everything_and_what_it_did_not_read_comes_behind() -> None:
    given = candidates(
        4, sims=[0.9, 0.2, 0.5, 0.6], cross=[0.25, 0.75, NAN, NAN], late=[0.9, 0.1, 0.9, 0.9], importance=0.5
    )
    scored = rankers.score(RankingRequest("rerank"), given)
    # of what was not read the blend, 0.8·0.5 + 0.2·0.5 and 0.8·0.6 + 0.2·0.5, of the least that was given
    assert scored.scores.tolist() == pytest.approx([0.25, 0.75, 0.5 * 0.25, 0.58 * 0.25])
    assert (scored.ranker, scored.mode) == ("rerank", "cross_encoder")
    # and ties are everyone's: the newer event first, whatever was changed last
    tied = candidates(2, cross=[0.5, 0.5], modified_at=[NOW + HOUR, NOW], event_at=[NOW, NOW + HOUR])
    assert rankers.order(rankers.score(RankingRequest("rerank"), tied), tied).tolist() == [1, 0]


def test_L21_where_the_cross_encoder_read_nothing_late_interaction_stands_in_and_then_the_blend() -> None:
    given = candidates(2, sims=[0.9, 0.2], cross=[NAN, NAN], late=[0.3, 0.7])
    assert rankers.score(RankingRequest("rerank"), given).mode == "late"
    assert rankers.score(RankingRequest("rerank"), given._replace(late=None)).mode == "blend"


def test_L21_a_cross_encoder_needs_no_vectors() -> None:
    scored = rankers.score(
        RankingRequest("rerank", has_vectors=False), candidates(2, words=[4.0, 1.0], cross=[0.25, 0.75])
    )
    assert scored.scores.tolist() == [0.25, 0.75]
    assert scored.mode == "cross_encoder"
