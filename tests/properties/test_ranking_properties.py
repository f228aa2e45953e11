"""Properties of every ranker for any candidates. SPEC 7.3, 7.4, 17.8"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemo_core.retrieval.ranking import rankers
from mnemo_core.retrieval.ranking.lexical_ranker import overlap, tokens
from mnemo_core.retrieval.ranking.rankers import RANKERS, Candidates, Ranker, RankingRequest, RankingScores
from mnemo_core.similarity.thresholds import DEFAULT_MODEL, SOURCE, of_model
from mnemo_store.records import KINDS, LAYERS, STATES
from tests.support.ranking_candidates import DAY, NAN, NOW, candidates

UNIT = st.floats(0, 1, width=32)
KNOWN = st.floats(-1, 1, width=32)
SIMS = KNOWN | KNOWN | KNOWN | st.just(NAN)
TIMES = st.integers(0, 2 * NOW) | st.integers(NOW - 90 * DAY, NOW + DAY)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "words": st.floats(0, 60, width=32) | st.just(0.0),
    "sims": SIMS,
    "importance": UNIT,
    "strength": UNIT,
    "repetitions": st.integers(0, 2**31 - 1),
    "accesses": st.integers(0, 2**31 - 1),
    "kind": st.sampled_from(KINDS),
    "layer": st.sampled_from(LAYERS),
    "state": st.sampled_from(STATES[:4]),
    "decay_rate": st.floats(0, 100, width=32),
    "event_at": TIMES,
    "created_at": TIMES,
    "modified_at": TIMES,
    "last_accessed": TIMES | st.just(0),
    "overlap": UNIT,
    "late": UNIT | st.just(NAN),
    "cross": UNIT | st.just(NAN),
    "learned": UNIT,
}
ASKED = st.builds(
    RankingRequest,
    ranker=st.sampled_from(RANKERS),
    mode=st.sampled_from(["hybrid", "deterministic", "semantic"]),
    recency_bias=UNIT,
    semantic_weight=UNIT,
    now=st.just(NOW),
    is_short_cjk=st.booleans(),
    thresholds=st.sampled_from([SOURCE, of_model(DEFAULT_MODEL)]),
    has_vectors=st.booleans(),
    words_full=st.floats(0, 1000),
)


@st.composite
def any_candidates(draw: st.DrawFn, count_min: int = 0, count_max: int = 8) -> Candidates:
    rows = draw(st.lists(st.fixed_dictionaries(FIELDS), min_size=count_min, max_size=count_max))
    return candidates(len(rows), **{name: [row[name] for row in rows] for name in FIELDS})


def taken(given: Candidates, places: list[int]) -> Candidates:
    """The candidates at these places, in that order, all their fields with them."""
    arrays: list[Any] = [None if column is None else column[places] for column in given]
    return Candidates(*arrays)


def changed(given: Candidates, **values: float) -> Candidates:
    """With other values in the first place."""
    arrays = {name: getattr(given, name).copy() for name in values}
    for name, value in values.items():
        arrays[name][0] = value
    return given._replace(**arrays)


def first(scored: RankingScores) -> float:
    return float(scored.scores[0])


@given(ASKED, any_candidates())
@settings(max_examples=150, deadline=None)
def test_scores_are_finite_and_in_range_and_dropped_candidates_have_none(
    asked: RankingRequest, given: Candidates
) -> None:
    scored = rankers.score(asked, given)
    assert scored.scores.dtype == scored.relevance.dtype == np.float32
    assert np.isfinite(scored.scores).all()
    assert np.isfinite(scored.relevance).all()
    assert (scored.scores >= 0).all()
    best = 1.15 if "deterministic" in (scored.ranker, scored.mode) else 1.0
    assert (scored.scores <= np.float32(best) + 1e-6).all()
    assert ((scored.relevance >= 0) & (scored.relevance <= 1.6 + 1e-6)).all()
    assert (scored.scores[scored.dropped] == 0).all()
    assert bool(scored.reason) or not scored.dropped.any()


@given(ASKED, any_candidates(), st.randoms(use_true_random=False))
@settings(max_examples=120, deadline=None)
def test_in_whatever_order_candidates_come_each_has_its_score_and_its_place(
    asked: RankingRequest, given: Candidates, chance: Any
) -> None:
    places = list(range(len(given.words)))
    chance.shuffle(places)
    scored, mixed = rankers.score(asked, given), rankers.score(asked, taken(given, places))
    assert mixed.scores.tobytes() == scored.scores[places].tobytes()
    assert mixed.relevance.tobytes() == scored.relevance[places].tobytes()
    assert mixed.dropped.tolist() == scored.dropped[places].tolist()
    ids = given.id_low[rankers.order(scored, given)]
    assert given.id_low[places][rankers.order(mixed, taken(given, places))].tolist() == ids.tolist()


@given(ASKED, any_candidates())
@settings(max_examples=120, deadline=None)
def test_the_order_is_by_score_and_of_equals_by_importance_newer_and_id(
    asked: RankingRequest, given: Candidates
) -> None:
    scored = rankers.score(asked, given)
    keys = [
        (-score, -changed_at if scored.mode == "blend" else 0, -importance, -event_at, number)
        for score, changed_at, importance, event_at, number in zip(
            scored.scores.tolist(), given.modified_at.tolist(), given.importance.tolist(), given.event_at.tolist(),
            given.id_low.tolist(), strict=True,
        )
    ]  # fmt: skip
    assert rankers.order(scored, given).tolist() == sorted(range(len(keys)), key=keys.__getitem__)


# By which signals a ranker goes, the more the better. Of two lists of candidates that differ in one value alone, that
# candidate scores no less where the value is better.
GROWS: list[tuple[Ranker, str]] = [
    ("auto", "words"), ("auto", "sims"), ("words", "words"), ("cosine", "sims"), ("deterministic", "overlap"),
    ("deterministic", "importance"), ("deterministic", "event_at"), ("hybrid", "overlap"), ("hybrid", "sims"),
    ("hybrid", "importance"), ("hybrid", "event_at"), ("layered", "words"), ("layered", "sims"),
    ("layered", "strength"), ("layered", "repetitions"), ("layered", "accesses"), ("fused", "sims"),
    ("fused", "importance"), ("fused", "event_at"), ("rerank", "sims"), ("rerank", "importance"),
]  # fmt: skip


def test_every_ranker_goes_by_some_signal() -> None:
    assert not (lacking := set(RANKERS) - {ranker for ranker, _ in GROWS}), f"GROWS lacks {lacking}"


@pytest.mark.parametrize(("ranker", "signal"), GROWS)
def test_more_of_a_good_signal_never_costs_score(ranker: Ranker, signal: str) -> None:
    values = KNOWN if signal == "sims" else FIELDS[signal]

    @given(ASKED, any_candidates(1, 3), values, values)
    @settings(max_examples=50, deadline=None)
    def check(asked: RankingRequest, given: Candidates, one: float, other: float) -> None:
        asked = asked._replace(ranker=ranker)
        given = given._replace(learned=None, late=None, cross=None)
        less, more = (changed(given, **{signal: value}) for value in sorted((one, other)))
        assert first(rankers.score(asked, more)) >= first(rankers.score(asked, less)) - 1e-6

    check()


@given(ASKED, any_candidates(1), TIMES, TIMES)
@settings(max_examples=100, deadline=None)
def test_layered_a_memory_recalled_later_scores_no_less(
    asked: RankingRequest, given: Candidates, one: int, other: int
) -> None:
    asked = asked._replace(ranker="layered")
    earlier, later = (changed(given, last_accessed=max(1, at)) for at in sorted((one, other)))
    assert first(rankers.score(asked, later)) >= first(rankers.score(asked, earlier))


@given(ASKED, any_candidates(1))
@settings(max_examples=100, deadline=None)
def test_an_archived_memory_never_scores_more_than_before(asked: RankingRequest, given: Candidates) -> None:
    active = changed(given, state=STATES.index("active"))
    archived = changed(given, state=STATES.index("archived"))
    assert first(rankers.score(asked, archived)) <= first(rankers.score(asked, active))


@given(ASKED, any_candidates())
@settings(max_examples=100, deadline=None)
def test_settling_twice_changes_nothing_and_the_fallback_never_needs_vectors(
    asked: RankingRequest, given: Candidates
) -> None:
    settled = rankers.effective_request(asked)
    assert rankers.effective_request(settled) == settled
    assert rankers.score(asked, given).scores.tobytes() == rankers.score(settled, given).scores.tobytes()
    if not asked.has_vectors:
        assert not settled.needs_vectors or rankers.RANKER_TABLE[settled.ranker].without_vectors is None


@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=5))
@settings(max_examples=120, deadline=None)
def test_overlap_is_a_share_for_any_text_and_whole_for_the_query_itself(query: str, texts: list[str]) -> None:
    shares = overlap(query, [*texts, query, f"{query} and more", ""])
    assert ((shares >= 0) & (shares <= 1)).all()
    assert shares[-1] == 0
    assert shares[-3] == (1.0 if tokens(query) else 0.0)
    assert shares[-2] == shares[-3]


@given(st.text(st.characters(max_codepoint=127), max_size=60))
@settings(max_examples=100, deadline=None)
def test_case_is_nothing_to_the_overlap(text: str) -> None:
    assert tokens(text.upper()) == tokens(text.lower()) == tokens(text)
