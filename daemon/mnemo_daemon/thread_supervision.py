"""Background threads that go on after an unexpected error, and report it (SPEC 3.5).

Every thread of the daemon that works until the end has a supervisor. It is the one place that catches every exception
of such a thread: the traceback is logged, the loop is started again after a pause that doubles up to a bound, and
`GET /v1/status` shows the failure until a round of the loop has succeeded. A background write that finds the queue of
writes full pauses and tries again.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from mnemo_store.errors import QueueFull, StoreError

PAUSE_SECONDS = 1.0  # before the first restart; each further one waits twice as long,
PAUSE_SECONDS_MAX = 30.0  # up to this

Result = TypeVar("Result")

log = logging.getLogger("mnemo.threads")

RETRY_PAUSE_SECONDS = 0.05


class ThreadSupervisor:
    """Runs the loop of one background thread, and restarts it after a failure. Thread-safe."""

    def __init__(
        self, name: str, loop: Callable[[], None], *, on_failure: Callable[[Exception], None] = lambda _: None,
        pause_seconds: float | None = None,
    ) -> None:  # fmt: skip
        """loop: returns when the thread is to end, and calls `note_success` after each round of its work. on_failure:
        called on the thread with what the loop raised, before it is started again. pause_seconds: of every pause,
        instead of PAUSE_SECONDS and its doubles."""
        self.name = name
        self._loop = loop
        self._on_failure = on_failure
        self._pause_seconds = pause_seconds
        self._stopping = threading.Event()
        self._resume = threading.Event()  # ends a pause
        self._thread: threading.Thread | None = None
        self._failures_in_a_row = 0
        self.restarts = 0
        self.is_failing = False  # since its last failure no round of the loop has succeeded
        self.last_failure = ""  # "" where there was none
        self.failed_at = 0  # ms since the epoch; 0 where there was none

    def start(self) -> None:
        """Start the loop on a thread of its own, unless that is alive."""
        if not self.is_alive():
            self._stopping.clear()
            self._thread = threading.Thread(target=self.run, name=self.name, daemon=True)
            self._thread.start()

    def stop(self, timeout: float | None = 10.0) -> bool:
        """End pauses and restarts, wait for the thread, and return whether it has ended. The owner of the loop must
        stop it as well."""
        self._stopping.set()
        self._resume.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        return not self.is_alive()

    def is_alive(self) -> bool:
        """True if the thread runs, or pauses after a failure."""
        return self._thread is not None and self._thread.is_alive()

    def resume(self) -> None:
        """End a pause after a failure: there is a reason to try again at once."""
        self._resume.set()

    def note_success(self) -> None:
        """A round of the loop went well: what failed before is over."""
        self._failures_in_a_row = 0
        self.is_failing = False

    def run(self) -> None:
        """Run the loop until it returns, on the calling thread."""
        while not self._stopping.is_set():
            self._resume.clear()
            try:
                self._loop()
            except Exception as error:  # noqa: BLE001 - this class is where threads' failures end
                if self._stopping.is_set():
                    return
                pause = self._note_failure(error)
                self._on_failure(error)
                self._resume.wait(pause)
            else:
                return

    def _note_failure(self, error: Exception) -> float:
        """Log and count the failure; return the seconds until the restart."""
        failure = f"{type(error).__name__}: {error}"
        pause = self._pause_seconds
        if pause is None:
            pause = min(PAUSE_SECONDS * 2**self._failures_in_a_row, PAUSE_SECONDS_MAX)
        if isinstance(error, StoreError):  # the store reports its own state
            log.warning("%s waits for the store: %s", self.name, failure)
        else:
            if self._failures_in_a_row and failure == self.last_failure:
                log.warning("%s failed again and is restarted: %s", self.name, failure)
            else:
                log.error("%s failed and is restarted", self.name, exc_info=error)
            self.last_failure, self.failed_at = failure, time.time_ns() // 1_000_000
            self.is_failing = True
        self.restarts += 1
        self._failures_in_a_row = min(self._failures_in_a_row + 1, 30)  # 2**30 is beyond every bound
        return pause


def complete_future(future: "Future[Result]", compute: Callable[[], Result]) -> None:
    """Complete the future with the result of `compute`, or with what it raises."""
    try:
        result = compute()
    except Exception as error:  # noqa: BLE001 - it is raised where the caller waits
        future.set_exception(error)
    else:
        future.set_result(result)


def retry_while_full(attempt: Callable[[], Result], pause: Callable[[float], object]) -> Result:
    """Return the result of the attempt once the queue has room. `pause` waits for seconds, and may raise to give up."""
    while True:
        try:
            return attempt()
        except QueueFull:
            pause(RETRY_PAUSE_SECONDS)
