"""The contribution of each feature to a score, and the strongest reasons in words. SPEC 7.7"""

import numpy as np
import pytest

from mnemo_core.retrieval import explanations
from mnemo_core.retrieval.explanations import ReasonInputs, strongest_reasons
from mnemo_core.retrieval.ranking import rankers, ranking_features
from mnemo_core.retrieval.ranking.rankers import Candidates, Mode, Ranker, RankingRequest
from mnemo_core.text.query_features import analyze_query
from tests.support.ranking_candidates import DAY, HOUR, NAN, NOW, candidates


def some() -> Candidates:
    """Five that differ in everything; the third has no vector, the fourth is archived, the last has no late rows."""
    return candidates(
        5, words=[4.0, 1.0, 3.0, 0.0, 2.0], sims=[0.62, 0.7, NAN, 0.66, 0.61], overlap=[0.5, 0.25, 0.75, 0.0, 0.5],
        importance=[0.9, 0.2, 0.5, 0.6, 0.1], strength=[0.3, 0.8, 0.5, 0.9, 0.2], repetitions=[0, 3, 1, 0, 9],
        accesses=[1, 0, 7, 2, 0], kind=["semantic", "episodic", "procedural", "semantic", "episodic"],
        layer=["buffer", "working", "core", "core", "buffer"], decay_rate=[1.0, 5.0, 0.5, 2.0, 1.0],
        state=["active", "active", "active", "archived", "active"], late=[0.9, 0.4, 0.5, 0.7, NAN],
        event_at=[NOW - HOUR, NOW - DAY, NOW - 9 * DAY, NOW, NOW - 3 * HOUR], last_accessed=[NOW - DAY, 0, NOW, 0, 0],
        created_at=NOW - 2 * DAY,
    )  # fmt: skip


# Of `layered` on its own: its score is not the sum of its features.
ASKED: list[tuple[Ranker, Mode]] = [
    *((ranker, "hybrid") for ranker in rankers.RANKERS if ranker != "layered"),
    ("hybrid", "deterministic"), ("hybrid", "semantic"),
]  # fmt: skip


@pytest.mark.parametrize("ranker", rankers.RANKERS)
def test_without_vectors_the_features_are_those_of_the_replacing_ranker(ranker: Ranker) -> None:
    given = some()._replace(sims=np.full(5, np.nan, np.float32), late=None)
    asked = rankers.effective_request(RankingRequest(ranker, now=NOW, has_vectors=False))
    scored = rankers.score(asked, given)
    total = sum(scored.amounts.values(), np.zeros(5))
    if ranker == "layered":
        total = np.tanh(total)
    left = ~scored.dropped
    assert total[left].tolist() == pytest.approx(scored.scores[left].tolist(), abs=1e-6)


def test_a_ranker_without_features_of_its_own_is_explained_by_its_score(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = rankers.RankerEntry(lambda asked, given: rankers.RankerOutput(given.strength))
    monkeypatch.setattr(rankers, "RANKER_TABLE", {"words": entry})
    scored = rankers.score(RankingRequest("words"), some())
    assert scored.amounts["score"].tolist() == pytest.approx([0.3, 0.8, 0.5, 0.8 * 0.9, 0.2])
    assert list(scored.features) == ["score"]


@pytest.mark.parametrize("has_late", [True, False])
@pytest.mark.parametrize(("ranker", "mode"), ASKED)
def test_the_contributions_sum_up_to_the_score_of_every_ranker(ranker: Ranker, mode: Mode, has_late: bool) -> None:
    given = some() if has_late else some()._replace(late=None)
    asked = RankingRequest(ranker, mode, now=NOW)
    scored = rankers.score(asked, given)
    found = scored
    total = sum(found.amounts.values(), np.zeros(5))
    left = ~scored.dropped
    assert total[left].tolist() == pytest.approx(scored.scores[left].tolist(), abs=1e-6)
    assert set(found.amounts) - {"archived"} == set(found.features)


def test_the_score_of_a_cross_encoder_is_a_feature_and_a_reason() -> None:
    cross = np.array([0.9, np.nan, 0.25, 0.5, np.nan], np.float32)
    given, asked = some()._replace(cross=cross), RankingRequest("rerank", now=NOW)
    scored = rankers.score(asked, given)
    found = scored
    total = sum(found.amounts.values(), np.zeros(5))
    assert total.tolist() == pytest.approx(scored.scores.tolist(), abs=1e-6)
    assert found.amounts["cross_encoder"].tolist() == pytest.approx([0.9, 0, 0.25, 0.5, 0])
    assert set(found.amounts) - {"archived"} == set(found.features)
    assert told_of({"cross_encoder": 0.9}, ReasonInputs([], 0.6, 1.0, 0.9)) == [
        "answers the question, according to the reranker"
    ]


def test_the_contributions_of_layered_are_squeezed_into_its_score() -> None:
    asked = RankingRequest("layered", now=NOW)
    scored = rankers.score(asked, some())
    total = sum(scored.amounts.values(), np.zeros(5))
    left = ~scored.dropped
    assert np.tanh(total)[left].tolist() == pytest.approx(scored.scores[left].tolist(), abs=1e-6)


def test_every_feature_has_its_value_and_its_part() -> None:
    asked = RankingRequest("deterministic", recency_bias=0.4, now=NOW)
    given = candidates(1, overlap=[0.5], importance=[0.8], event_at=[NOW - 3 * HOUR])
    found = rankers.score(asked, given)
    # recency 1 / (1 + 3) = 0.25; 0.6 · 0.5, 0.4 · 0.25, 0.15 · 0.8
    assert {name: round(float(values[0]), 6) for name, values in found.features.items()} == {
        "overlap": 0.5, "recency": 0.25, "importance": 0.8
    }  # fmt: skip
    assert {name: round(float(values[0]), 6) for name, values in found.amounts.items()} == {
        "overlap": 0.3, "recency": 0.1, "importance": 0.12
    }  # fmt: skip


def test_the_learned_fusion_has_a_table_of_its_own() -> None:
    given = candidates(2, learned=[0.2, 0.9])
    found = rankers.score(RankingRequest("auto"), given)
    assert (found.features, found.amounts) == ({}, {})


TOLD = ReasonInputs(["key", "spare"], 0.62, 50.0, 0.9)


def told_of(adds: dict[str, float], reported: ReasonInputs) -> list[str]:
    """The reasons of one candidate between two others, of which nothing adds to one and all to the other."""
    values = np.array([[0.0] * len(adds), list(adds.values()), [1.0] * len(adds)])
    before, found, _ = strongest_reasons(list(adds), values, [reported] * 3)
    assert before == []
    return found


@pytest.mark.parametrize(
    ("adds", "said"),
    [
        ({"cosine": 0.4, "recency": 0.5, "importance": 0.1},
         ["recent (2 d)", "close in meaning (0.62)", "important (0.90)"]),
        ({"words_share": 0.5, "cosine_share": 0.2}, ["has key, spare", "close in meaning (0.62)"]),
        # what is about one thing counts together: words 0.3 + 0.3, meaning 0.5 + 0.2
        ({"words": 0.3, "covered_content": 0.3, "late_z": 0.5, "sim_rank": 0.2, "words_before": 0.1},
         ["close in meaning (0.62)", "has key, spare", "its neighbours fit the question"]),
        # what takes away is no reason
        ({"words": 2.0, "terms": -3.0, "cosine": 0.1, "archived": -0.2}, ["close in meaning (0.62)"]),
        ({"session_share": 0.5, "speaker_named": 0.4, "date_fits": 0.3, "when_date": 0.2},
         ["its session or note is about the question", "said by the person named", "from the time named"]),
        ({"when_date": 0.2, "text_number": 0.1, "same_number": 0.25, "weight": 0.1},
         ["reads like an answer to this kind of question", "has the number asked about", "strong by itself"]),
        ({"other_named": 0.9, "names_nobody": 0.5, "text_length": 1.0}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_the_three_strongest_reasons_come_first(adds: dict[str, float], said: list[str]) -> None:
    assert told_of(adds, TOLD) == said


def test_a_feature_that_adds_nothing_is_no_reason() -> None:
    old = ReasonInputs([], None, 31 * 24.0, 0.5)
    assert told_of({"words": 1.0, "recency": 0.9, "cosine": 0.5}, old) == ["close in meaning"]
    assert told_of({"recency": 1.0}, TOLD._replace(age_hours=0.5)) == ["recent (within the hour)"]
    assert told_of({"recency": 1.0}, TOLD._replace(age_hours=5.9)) == ["recent (5 h)"]


def test_every_feature_of_the_learned_fusion_is_about_something_or_is_said_by_none() -> None:
    n = 3
    evidence = ranking_features.FeatureInputs(
        weights=np.ones(1, np.float32), is_name=np.zeros(1, np.bool_), is_number=np.zeros(1, np.bool_),
        holds=np.ones((1, n), np.bool_), words=np.ones(n, np.float32), sims=np.ones(n, np.float32),
        shape=np.zeros(n, np.uint32), lengths=np.ones(n, np.uint16), neighbour_rows=np.tile(np.arange(n), (5, 1)),
        group=np.zeros(n, np.int64), speaks=np.zeros(n, np.int8), roles=np.zeros(n, np.int8),
        fits_date=np.full(n, np.nan, np.float32),
        question=analyze_query("when was it?"),
    )  # fmt: skip
    late = np.ones((n, 2), np.float32)
    names = (*ranking_features.feature_table(evidence).names,
             *ranking_features.token_feature_table(ranking_features.TokenSimilarities(late, late, late, np.full(2,
                 0.5, np.float32))).names,
             *ranking_features.CHANGES)  # fmt: skip
    unsaid = {name for name in names if explanations.subject_of(name) is None}
    assert unsaid == {"other_named", "names_nobody", "by_person", "by_agent", "text_length"}
