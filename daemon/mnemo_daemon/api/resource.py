"""The base class of the handlers of a resource."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from mnemo_client.protocol.operations import Operation
from mnemo_client.protocol.primitives import AnswerBody
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.server.router import Handler, Reply, Request, Route
from mnemo_daemon.services import Services

F = TypeVar("F", bound=Callable[..., Any])

_OPERATIONS = "operations"  # the attribute of a handler with the operations that it handles


def handles(operation: Operation[..., Any]) -> Callable[[F], F]:
    """Return a decorator that makes a method of a Resource the handler of an operation.

    A coroutine answers with a Reply; any other method runs on a worker thread, and answers with the value.
    """

    def mark(method: F) -> F:
        setattr(method, _OPERATIONS, (operation, *getattr(method, _OPERATIONS, ())))
        return method

    return mark


class Resource:
    """The handlers of a resource."""

    def __init__(self, services: Services, workers: WorkerPool) -> None:
        self._services = services
        self._workers = workers

    def routes(self) -> list[Route]:
        """Return a route for each operation that a method handles."""
        methods = [(name, each) for name, each in vars(type(self)).items() if hasattr(each, _OPERATIONS)]
        return [
            Route(operation, getattr(self, name) if inspect.iscoroutinefunction(each) else self._on_worker(name))
            for name, each in methods
            for operation in getattr(each, _OPERATIONS)
        ]

    def close(self) -> None:
        """End the threads of the resource; few have some of their own."""

    def _on_worker(self, name: str) -> Handler:
        answer: Callable[[Request], AnswerBody] = getattr(self, name)

        @functools.wraps(answer)
        async def handle(request: Request) -> Reply:
            return Reply(await self._workers.run(answer, request))

        return handle
