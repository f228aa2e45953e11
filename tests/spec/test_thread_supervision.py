"""Background threads that fail: restarted with a bound, logged once, reported until they work again. SPEC 3.5"""

import logging
import threading
from concurrent.futures import Future

import pytest

from mnemo_daemon import thread_supervision
from mnemo_daemon.thread_supervision import ThreadSupervisor, complete_future
from mnemo_store.errors import WriteFailure
from tests.support.erasure_services import wait_until


class SurpriseError(Exception):
    """An error that nothing expects."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_supervision, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(thread_supervision, "PAUSE_SECONDS_MAX", 0.002)


class Loop:
    """Raises what it is given, one after the other, then works until it is stopped."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.seen: list[Exception] = []
        self.rounds = 0
        self.stopping = threading.Event()
        self.supervisor = ThreadSupervisor("the-thread", self.run, on_failure=self.seen.append)

    def run(self) -> None:
        if self.failures:
            raise self.failures.pop(0)
        while not self.stopping.wait(0.001):
            self.rounds += 1
            self.supervisor.note_success()

    def stop(self) -> None:
        self.stopping.set()
        assert self.supervisor.stop()


def test_a_thread_that_fails_is_started_again_until_it_works(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop(SurpriseError("one"), SurpriseError("one"), IndexError("two"))
    loop.supervisor.start()
    wait_until(lambda: loop.rounds > 0)
    assert [str(error) for error in loop.seen] == ["one", "one", "two"]
    report = loop.supervisor
    assert (report.name, report.is_failing, report.restarts) == ("the-thread", False, 3)
    assert report.last_failure == "IndexError: two"
    assert report.failed_at > 0
    loop.stop()
    assert not loop.supervisor.is_alive()
    tracebacks = [record.exc_info is not None for record in caplog.records if record.name == "mnemo.threads"]
    assert tracebacks == [True, False, True], "one traceback for each kind of failure"


def test_a_failure_is_reported_until_a_round_has_succeeded() -> None:
    may_go_on = threading.Event()

    def run() -> None:
        if not supervisor.restarts:
            raise SurpriseError("once")
        may_go_on.wait()
        supervisor.note_success()

    supervisor = ThreadSupervisor("the-thread", run)
    assert (supervisor.is_failing, supervisor.restarts, supervisor.failed_at) == (False, 0, 0)
    supervisor.start()
    wait_until(lambda: supervisor.restarts == 1)
    assert supervisor.is_failing
    may_go_on.set()
    wait_until(lambda: not supervisor.is_alive())
    assert not supervisor.is_failing


def test_a_store_that_cannot_be_written_reports_itself(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop(WriteFailure("the disk is gone"))
    loop.supervisor.start()
    wait_until(lambda: loop.rounds > 0)
    loop.stop()
    found = loop.supervisor
    assert (found.is_failing, found.restarts, found.last_failure, found.failed_at) == (False, 1, "", 0)
    (record,) = (each for each in caplog.records if each.name == "mnemo.threads")
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)


def test_pauses_double_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_supervision, "PAUSE_SECONDS", 1.0)
    monkeypatch.setattr(thread_supervision, "PAUSE_SECONDS_MAX", 30.0)
    supervisor = ThreadSupervisor("the-thread", lambda: None)
    assert [supervisor._note_failure(SurpriseError("x")) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    supervisor.note_success()
    assert supervisor._note_failure(SurpriseError("x")) == 1
    assert ThreadSupervisor("other", lambda: None, pause_seconds=600.0)._note_failure(SurpriseError("x")) == 600


def test_a_pause_ends_when_there_is_a_reason_or_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_supervision, "PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(thread_supervision, "PAUSE_SECONDS_MAX", 3600.0)
    loop = Loop(SurpriseError("one"), SurpriseError("two"))
    loop.supervisor.start()
    wait_until(lambda: len(loop.seen) == 1)
    loop.supervisor.start()  # it is alive: nothing is begun beside it
    loop.supervisor.resume()
    wait_until(lambda: len(loop.seen) == 2)
    loop.stop()
    assert loop.rounds == 0


def test_every_waiting_caller_gets_the_result_or_the_error() -> None:
    done, failed = Future[int](), Future[int]()
    complete_future(done, lambda: 7)
    complete_future(failed, lambda: 1 // 0)
    assert done.result(0) == 7
    assert isinstance(failed.exception(0), ZeroDivisionError)
