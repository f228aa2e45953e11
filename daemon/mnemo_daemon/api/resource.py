"""The base class of the handlers of a resource, and the worker threads on which handlers run what reads, computes or
waits, so that the event loop only shapes answers."""

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.operations import Operation
from mnemo_client.protocol.primitives import AnswerBody
from mnemo_daemon.api import access, response_codec
from mnemo_daemon.errors import Refusal
from mnemo_daemon.models.embedders.embedding import lower_thread_priority
from mnemo_daemon.server.router import Handler, Reply, Request, Route
from mnemo_daemon.services import Services
from mnemo_store.indexes.attributes import MemoryFilter

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
    """One thread with a low priority for requests that take long and never wait for each other. A request is finished
    even if its client leaves."""

    def __init__(self, name: str, busy: Callable[[], Refusal]) -> None:
        super().__init__(1, thread_name_prefix=name, initializer=lower_thread_priority)
        self._busy = busy
        self._lock = threading.Lock()  # held while a function is under way

    @property
    def is_busy(self) -> bool:
        return self._lock.locked()

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run the function and return its result. Raises `busy` while an earlier call is under way, and a Refusal with
        503 while the daemon stops."""
        if not self._lock.acquire(blocking=False):
            raise self._busy()
        try:
            running = self.submit(function, *arguments)
        except RuntimeError:
            self._lock.release()
            raise Refusal(503, "stopping", "the daemon is stopping", retry_after=1) from None
        running.add_done_callback(lambda _: self._lock.release())
        return await asyncio.wrap_future(running)


F = TypeVar("F", bound=Callable[..., Any])

_OPERATIONS = "operations"  # the attribute of a handler with the operations that it handles
_OWN_THREADS = "own_threads"  # the attribute of a handler that says whether it runs on the threads of its resource


def handles(operation: Operation[..., Any], *, own_threads: bool = False) -> Callable[[F], F]:
    """Return a decorator that makes a method of a Resource the handler of an operation. A coroutine answers with a
    Reply; any other method runs on a worker thread, with `own_threads` one of the resource's own, and answers with the
    value."""

    def mark(method: F) -> F:
        setattr(method, _OPERATIONS, (operation, *getattr(method, _OPERATIONS, ())))
        setattr(method, _OWN_THREADS, own_threads)
        return method

    return mark


class Resource:
    """The handlers of a resource."""

    def __init__(self, services: Services, workers: WorkerPool, own: WorkerPool | None = None) -> None:
        """own: the threads of this resource for what takes long; None: it needs none."""
        self._services = services
        self._workers = workers
        self._own = workers if own is None else own

    def routes(self) -> list[Route]:
        """Return a route for each operation that a method handles."""
        methods = [(name, each) for name, each in vars(type(self)).items() if hasattr(each, _OPERATIONS)]
        return [
            Route(operation, getattr(self, name) if inspect.iscoroutinefunction(each) else self._on_worker(name))
            for name, each in methods
            for operation in getattr(each, _OPERATIONS)
        ]

    def close(self) -> None:
        """End the resource's own threads."""
        if self._own is not self._workers:
            self._own.close()

    def _listed_filter(self, request: Request, user_id: str | None) -> MemoryFilter:
        """The memories of a user that the caller sees in the namespaces of a list."""
        return MemoryFilter(
            namespaces=access.listed_namespaces(request), user_id=user_id or "local",
            without_tags=access.hidden_tags(request), now=self._services.store.now(),
        )  # fmt: skip

    def _memory_view(self, memory_id: str) -> MemoryView:
        """A memory as it is answered now. Raises a Refusal where it is gone."""
        return response_codec.memory_view(self._services.memories.get(memory_id), self._services.root_paths())

    def _on_worker(self, name: str) -> Handler:
        answer: Callable[[Request], AnswerBody] = getattr(self, name)
        threads = self._own if getattr(answer, _OWN_THREADS) else self._workers

        @functools.wraps(answer)
        async def handle(request: Request) -> Reply:
            return Reply(await threads.run(answer, request))

        return handle
