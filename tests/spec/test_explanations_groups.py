"""The five groups of a ranker's features: which feature is in which, what they sum up to, and how two hits differ."""

import numpy as np
import pytest

from mnemo_core.retrieval.explanations import ComparedHit, comparison, group_sums
from mnemo_core.retrieval.ranking import rankers, ranking_features
from mnemo_core.retrieval.ranking.rankers import RANKER_TABLE, RankingRequest, groups_of
from mnemo_core.retrieval.ranking.ranking_features import FEATURE_GROUPS, GROUPS, Group
from mnemo_daemon.retrieval.candidates.learned_ranking import shipped_weights
from tests.spec.test_explanations import ASKED, some

NAMES = ("words_share", "cosine_share", "recency", "importance")
BY_NAME: dict[str, Group] = {
    "words_share": "word", "cosine_share": "sense", "recency": "time", "importance": "text"
}  # fmt: skip


def test_every_feature_of_the_learned_ranker_is_in_one_group() -> None:
    weights = shipped_weights()
    learned = {*weights.first.names, *weights.second.names, *weights.trees.names}
    assert learned == set(FEATURE_GROUPS)
    assert set(ranking_features.ORIGIN_NAMES) == set(ranking_features.ORIGIN_GROUPS)
    assert set(FEATURE_GROUPS.values()) == set(GROUPS)


@pytest.mark.parametrize(("ranker", "mode"), [*ASKED, ("layered", "hybrid")])
def test_every_feature_of_every_ranker_is_in_a_group(ranker: rankers.Ranker, mode: rankers.Mode) -> None:
    for given in (some(), some()._replace(late=None), some()._replace(cross=np.full(5, 0.5, np.float32))):
        scored = rankers.score(RankingRequest(ranker, mode, now=0), given)
        assert scored.amounts.keys() <= groups_of(ranker).keys()
    assert {*RANKER_TABLE[ranker].groups.values()} <= set(GROUPS)


def test_the_sums_are_those_of_the_groups_without_what_is_equal_for_all() -> None:
    adds = np.array([[1.0, 0.5, 0.2, 0.1], [0.4, 0.5, -0.3, 0.1]])
    grouped = group_sums(NAMES, adds, BY_NAME)
    assert grouped is not None
    word, sense, text, near, time = range(5)
    assert grouped.sums[:, word].tolist() == pytest.approx([1.0, 0.4])
    assert grouped.sums[:, time].tolist() == pytest.approx([0.2, -0.3])
    assert grouped.sums[:, [sense, text]].tolist() == [[0, 0], [0, 0]]  # 0.5 and 0.1 of both
    assert np.isnan(grouped.sums[:, near]).all()  # the ranker has no feature of it
    assert grouped.equal == pytest.approx(0.6)
    assert (np.nansum(grouped.sums, axis=1) + grouped.equal).tolist() == pytest.approx(adds.sum(axis=1).tolist())


def test_a_single_candidate_keeps_all_and_an_unknown_feature_has_no_group() -> None:
    alone = group_sums(NAMES, np.array([[1.0, 0.5, 0.2, 0.1]]), BY_NAME)
    assert alone is not None
    assert np.nansum(alone.sums) == pytest.approx(1.8)
    assert alone.equal == 0
    assert group_sums(("words_share", "unheard_of"), np.ones((2, 2)), BY_NAME) is None
    assert group_sums((), np.ones((2, 0)), BY_NAME) is None


def hit(held: int, similarity: float | None, **sums: float) -> ComparedHit:
    return ComparedHit(held, similarity, {**dict.fromkeys(GROUPS), **sums})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (hit(3, 0.62, word=2.0, sense=1.0), hit(2, 0.62, word=0.5, sense=1.0),
         "It has 3 of the question's 4 words, the other 2."),
        (hit(2, 0.62, word=1.0, sense=3.0), hit(2, 0.5, word=1.5, sense=1.0),
         "It is closer in meaning (0.62, the other 0.50), and has words that weigh less."),
        (hit(2, 0.62, near=-1.0, time=0.0), hit(2, 0.5, near=1.0, time=5.0),
         "It fits worse by its time, and has neighbours that fit worse."),
        (hit(2, None, sense=0.2, text=1.0), hit(2, 0.5, sense=0.4, text=0.0),
         "It reads more like an answer, and is further off in meaning."),
        (hit(2, 0.5, word=1.0), hit(1, 0.5, word=1.0), "Nothing that counts tells them apart."),
        (hit(2, 0.5, word=1.0), hit(1, 0.5, time=1.0), "Nothing that counts tells them apart."),
        (hit(2, 0.504, word=9.0, sense=0.5), hit(1, 0.5, word=1.0), "It has 2 of the question's 4 words, the other 1."),
    ],
)  # fmt: skip
def test_a_comparison_names_at_most_the_two_largest_differences(
    one: ComparedHit, other: ComparedHit, wanted: str
) -> None:
    assert comparison(one, other, 4) == wanted
