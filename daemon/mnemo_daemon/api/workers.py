"""Worker threads on which handlers run what reads, computes or waits, so that the event loop only shapes answers."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from mnemo_daemon.errors import Refusal
from mnemo_daemon.models.embedders.embedding import lower_thread_priority

T = TypeVar("T")


class WorkerPool(ThreadPoolExecutor):
    """A pool of threads that a coroutine can wait for."""

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run the function on one of the threads and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self, function, *arguments)

    def close(self) -> None:
        """End the threads once the calls under way are finished; calls that have not begun are cancelled."""
        self.shutdown(wait=True, cancel_futures=True)


class LongRequestThread(WorkerPool):
    """One thread with a low priority for requests that take long. A request is finished even if its client leaves."""

    def __init__(self, name: str) -> None:
        super().__init__(1, thread_name_prefix=name, initializer=lower_thread_priority)
        self._lock = threading.Lock()  # held while `run_alone` has a function under way

    @property
    def is_busy(self) -> bool:
        return self._lock.locked()

    async def run_alone(self, busy: Refusal, function: Callable[..., T], *arguments: Any) -> T:
        """Run the function and return its result. Raises `busy` while an earlier call is under way, and a Refusal with
        503 while the daemon stops."""
        if not self._lock.acquire(blocking=False):
            raise busy
        try:
            running = self.submit(function, *arguments)
        except RuntimeError:
            self._lock.release()
            raise Refusal(503, "stopping", "the daemon is stopping", retry_after=1) from None
        running.add_done_callback(lambda _: self._lock.release())
        return await asyncio.wrap_future(running)
