"""Worker threads on which handlers run what reads, computes or waits, so that the event loop only shapes answers."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class WorkerPool(ThreadPoolExecutor):
    """A pool of threads that a coroutine can wait for."""

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run the function on one of the threads and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self, function, *arguments)

    def close(self) -> None:
        """End the threads once what they are at is done; what has not begun is cancelled."""
        self.shutdown(wait=True, cancel_futures=True)
