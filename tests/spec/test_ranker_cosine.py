"""The ranker `cosine`, worked by hand. SPEC 7.3 [L 2.5, E7]"""

from mnemo_core.retrieval.ranking import rankers
from mnemo_core.retrieval.ranking.rankers import RankingRequest
from tests.columns import NAN, candidates


def test_E7_cosine_is_the_cosine_and_nothing_where_there_is_no_vector() -> None:
    given = candidates(4, words=9.0, sims=[0.25, -0.5, NAN, 1.0001], importance=0.9)
    assert rankers.score(RankingRequest("cosine"), given).scores.tolist() == [0.25, 0.0, 0.0, 1.0]
