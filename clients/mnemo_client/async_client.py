"""The operations of the daemon as coroutines, for programs with an event loop.

async with AsyncClient(socket_path(os.environ)) as client:
    answer = await client.recall("who has the key?")
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

import msgspec

from mnemo_client.client import Client, OperationMethods
from mnemo_client.protocol.operations import Operation

T = TypeVar("T")


class AsyncClient(OperationMethods):
    """A client with a thread of its own, which makes one request after the other; use several for several at once.

    Its arguments and errors are those of Client, which is its attribute `client`, for what has no coroutine here.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.client = Client(*args, **settings)
        self._thread = ThreadPoolExecutor(1, "mnemo-client")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection after the request that is under way."""
        await self._run(self.client.close)
        self._thread.shutdown()

    async def perform(self, operation: Operation[..., T], request: msgspec.Struct, part: str = "") -> T:
        """Return the answer to a request of an operation."""
        return await self._run(self.client.perform, operation, request, part)

    async def _run(self, function: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)
