"""The base class of the handlers of a resource."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable

from mnemo_client.protocol.primitives import AnswerBody
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.server.router import Handler, Reply, Request, Route
from mnemo_daemon.services import Services


class Resource(ABC):
    """The handlers of a resource, and the routes that lead to them."""

    def __init__(self, services: Services, workers: WorkerPool) -> None:
        self._services = services
        self._workers = workers

    @abstractmethod
    def routes(self) -> list[Route]:
        """Return the routes of the resource."""

    def close(self) -> None:  # noqa: B027 - few resources have threads of their own
        """End the threads of the resource."""

    def on_worker(self, answer: Callable[[Request], AnswerBody]) -> Handler:
        """Return a handler that runs `answer` on a worker thread."""

        @functools.wraps(answer)
        async def handle(request: Request) -> Reply:
            return Reply(await self._workers.run(answer, request))

        return handle
