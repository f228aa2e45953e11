"""A question and the scores of its answers. SPEC 7.1"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mnemo_daemon.retrieval.question import reaches, shown_score


def test_a_score_that_is_shown_rounded_up_reaches_itself() -> None:
    """As it was computed, 0.1234566 is below the 0.123457 that the answer showed."""
    scores = np.array([0.1234566, 0.1234574, 0.1234564], np.float32)
    assert [shown_score(score) for score in scores.tolist()] == [0.123457, 0.123457, 0.123456]
    assert reaches(scores, 0.123457).tolist() == [True, True, False]


@given(st.lists(st.floats(0, 1.125, width=32), min_size=1), st.data())
def test_every_score_reaches_its_shown_form_and_that_of_lower_scores(
    given_scores: list[float], data: st.DataObject
) -> None:
    shown = [shown_score(score) for score in given_scores]
    limit = data.draw(st.sampled_from(shown))
    assert reaches(np.array(given_scores, np.float32), limit).tolist() == [score >= limit for score in shown]
