"""Questions go before what is written, which goes on all the same. Threads wait for each other, not for a clock."""

import threading

import pytest

from mnemo_daemon.priority import QueryPriority

LONG = 60.0  # seconds: longer than anything here takes


class Work:
    """A piece of work that gives way first, on a thread of its own."""

    def __init__(self, going_first: QueryPriority) -> None:
        self._done = threading.Event()
        self._going_first = going_first
        threading.Thread(target=self._run, daemon=True).start()

    def is_done(self, seconds: float) -> bool:
        return self._done.wait(seconds)

    def _run(self) -> None:
        self._going_first.yield_to_queries()
        self._done.set()


@pytest.fixture
def patient() -> QueryPriority:
    return QueryPriority(LONG)


def test_without_a_question_nothing_waits(patient: QueryPriority) -> None:
    assert Work(patient).is_done(LONG / 2)


def test_work_begins_when_the_last_question_is_answered(patient: QueryPriority) -> None:
    with patient.query_running():
        with patient.query_running():
            work = Work(patient)
        assert not work.is_done(0.2)
    assert work.is_done(LONG / 2)


def test_a_question_that_fails_holds_nothing_up(patient: QueryPriority) -> None:
    with pytest.raises(RuntimeError), patient.query_running():
        raise RuntimeError
    assert Work(patient).is_done(LONG / 2)


def test_however_long_a_question_takes_work_goes_on() -> None:
    hurried = QueryPriority()
    with hurried.query_running():
        assert Work(hurried).is_done(LONG)
