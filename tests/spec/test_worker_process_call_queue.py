"""The order of the calls of a language model: by priority, then by arrival, bounded. SPEC 4.2"""

import math
import threading
import time
from collections.abc import Callable

import pytest

from mnemo_daemon.models.worker_process import CallQueue


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 30.0
    while not is_so():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.005)


def test_interactive_calls_go_first_and_within_a_priority_the_earlier_one() -> None:
    queue, served = CallQueue(10), list[str]()

    def call(name: str) -> None:
        with queue.turn(math.inf, is_interactive=name.startswith("interactive")):
            served.append(name)

    names = ["background 1", "interactive 1", "background 2", "interactive 2"]
    threads = []
    with queue.turn(math.inf):
        for number, name in enumerate(names, start=1):
            threads.append(threading.Thread(target=call, args=(name,)))
            threads[-1].start()
            wait_until(lambda number=number: len(queue) == number)  # type: ignore[misc]
        assert queue.has_interactive()
    for thread in threads:
        thread.join()
    assert served == ["interactive 1", "interactive 2", "background 1", "background 2"]
    assert not queue.has_interactive()


def test_waiting_ends_at_its_time_or_by_cancellation_and_leaves_no_place_behind() -> None:
    queue = CallQueue(10)
    with queue.turn(math.inf):
        with pytest.raises(TimeoutError), queue.turn(time.monotonic() + 0.05):
            raise AssertionError("it was taken")
        with pytest.raises(InterruptedError), queue.turn(math.inf, is_cancelled=lambda: True):
            raise AssertionError("it was taken")
        assert len(queue) == 0
    with queue.turn(0.0):  # it is free: nothing has to be waited for
        pass


def test_each_priority_has_its_own_bound() -> None:
    queue, stop = CallQueue(1), threading.Event()

    def wait(*, is_interactive: bool) -> None:
        with (
            pytest.raises(InterruptedError),
            queue.turn(time.monotonic() + 60, is_interactive=is_interactive, is_cancelled=stop.is_set),
        ):
            raise AssertionError("it was taken")

    with queue.turn(math.inf):
        threads = [threading.Thread(target=wait, kwargs={"is_interactive": each}) for each in (False, True)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(queue) == 2)
        for is_interactive in (False, True):
            with pytest.raises(OverflowError), queue.turn(time.monotonic() + 60, is_interactive=is_interactive):
                raise AssertionError("it was taken")
        stop.set()
        for thread in threads:
            thread.join()


def test_what_fails_inside_frees_the_turn() -> None:
    queue = CallQueue(1)
    with pytest.raises(ZeroDivisionError), queue.turn(math.inf):
        raise ZeroDivisionError
    with queue.turn(0.0):
        pass
