"""The client for programs with an event loop."""

import asyncio

import pytest

from mnemo_client.async_client import AsyncClient
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.retrieval import RecallRequest
from tests.support.running_daemon import RunningDaemon


def test_operations_are_awaited_and_several_wait_in_order(daemon: RunningDaemon) -> None:
    async def talk() -> None:
        async with AsyncClient(daemon.socket, "async") as client:
            stored = await client.remember("The spare key is with Ines.", tags=["home"])
            answers = await asyncio.gather(
                client.recall("who has the key?"),
                client.recall(RecallRequest(query="spare key", ranker="words")),
                client.get(stored.memory.id),
            )
            assert [answers[0].memories[0].id, answers[1].memories[0].id, answers[2].id] == [stored.memory.id] * 3
            with pytest.raises(RefusalError):
                await client.get("00000000")
            assert client.client.last_body

    asyncio.run(talk())
