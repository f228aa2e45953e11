"""Quantiles of durations from counts in growing bins. SPEC 13"""

import pytest

from mnemo_core.retrieval.histograms import BINS, add_times, quantile_ms


@pytest.mark.parametrize("ms", [0.15, 1.0, 7.3, 40.0, 990.0, 60_000.0])
def test_a_duration_is_known_to_a_twentieth(ms: float) -> None:
    assert quantile_ms(add_times({}, [ms / 1000]), 0.5) == pytest.approx(ms, rel=0.05)


def test_a_quantile_is_the_smallest_duration_that_so_many_do_not_exceed() -> None:
    times = add_times({}, [each / 1000 for each in (10, 20, 30, 40)])
    assert [round(quantile_ms(times, share) or 0, -1) for share in (0.25, 0.5, 0.51, 0.95, 1.0)] == [10, 20, 30, 40, 40]
    assert quantile_ms({}, 0.5) is None


def test_counts_are_added_and_stay_within_their_bins() -> None:
    first = add_times({}, [0.01])
    both = add_times(first, [0.01, 0.0, 1e9])
    assert (sum(first.values()), sum(both.values())) == (1, 4)
    assert (min(both), max(both), len(both)) == (0, BINS - 1, 3)
