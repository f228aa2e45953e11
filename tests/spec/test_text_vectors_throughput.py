"""The speed of work, from what was done lately."""

from mnemo_daemon.indexing.vectors.text_vectors import WINDOW_SECONDS, Throughput


def test_a_rate_is_that_of_the_time_that_was_worked() -> None:
    now = [100.0]
    pace = Throughput(lambda: now[0])
    assert pace.rate() is None
    now[0] = 100.25
    pace.add(100.0, 10)
    assert pace.rate() is None, "too little was done to say"
    now[0] = 110.75
    pace.add(110.0, 20)
    assert pace.rate() == 30 / 1.0, "idle seconds between do not count"
    now[0] = 100.25 + WINDOW_SECONDS + 5
    assert pace.rate() == 20 / 0.75, "what is long ago does not count"
    now[0] += WINDOW_SECONDS
    assert pace.rate() is None
