"""The official MCP client and our bridge understand each other, in both protocol eras."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.canned import ID, CannedDaemon, recall_answer, recalled


def memory(content: str) -> Any:
    return msgspec.to_builtins(recalled(content=content, trust="agent", source="mcp"))


def answer_as_a_store_would(canned: CannedDaemon) -> None:
    kept: list[Any] = []

    def remember(asked: Any) -> Any:
        kept.append(memory(asked.body["content"]))
        return {"outcome": "stored", "memory": kept[-1]}

    canned.answers["POST /v1/memories"] = remember
    canned.answers[f"GET /v1/memories/{ID}"] = lambda asked: kept[-1]
    canned.answers[f"PATCH /v1/memories/{ID}"] = lambda asked: kept[-1]
    canned.answers[f"DELETE /v1/memories/{ID}"] = lambda asked: {"deleted": 1, "id": ID}
    canned.answers["GET /v1/recent"] = lambda asked: {
        "memories": kept, "total": len(kept), "namespace": "default", "degraded": [],
    }  # fmt: skip
    canned.answers["POST /v1/recall"] = lambda asked: {
        **msgspec.to_builtins(recall_answer()), "memories": kept, "total": len(kept),
    }  # fmt: skip


async def meet(words: list[str], environ: dict[str, str], mode: str) -> str:
    """Every tool once, right and wrong; the client itself checks each result against the schema it was given. The
    protocol version that both settled on."""
    # Here, as it takes a second, and every process that runs tests imports every module of them.
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(command=sys.executable, args=words, env=environ)
    async with Client(stdio_client(parameters), mode=mode) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == [
            "memory_recall", "memory_remember", "memory_list", "memory_update", "memory_forget", "memory_get",
            "memory_status",
        ]  # fmt: skip
        for tool in listed.tools:
            assert tool.annotations is not None
            assert tool.annotations.open_world_hint is False
        kept = await client.call_tool("memory_remember", {"content": "The key is with Ines.", "tags": ["a"]})
        assert not kept.is_error
        found = await client.call_tool("memory_recall", {"query": "key", "limit": 3})
        assert found.structured_content is not None
        assert found.structured_content["memories"][0]["id"] == ID
        got = await client.call_tool("memory_get", {"id": ID})
        assert got.structured_content is not None
        assert got.structured_content["content"] == "The key is with Ines."
        changed = await client.call_tool("memory_update", {"id": ID, "importance": 0.9})
        assert changed.structured_content is not None
        assert changed.structured_content["id"] == ID
        listed_now = await client.call_tool("memory_list", {"since": "last week"})
        assert listed_now.structured_content is not None
        assert listed_now.structured_content["total"] == 1
        gone = await client.call_tool("memory_forget", {"id": ID})
        assert gone.structured_content is not None
        assert gone.structured_content["state"] == "trashed"
        assert (await client.call_tool("memory_recall", {"query": "key", "limit": 1000})).is_error
        assert (await client.call_tool("memory_status", {})).is_error  # the canned daemon knows no such route
        return client.protocol_version or ""


@pytest.mark.parametrize(
    ("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")]
)
def test_the_official_client_gets_what_it_asks_for(
    canned: CannedDaemon, short_folder: Path, mode: str, version: str
) -> None:
    answer_as_a_store_would(canned)
    environ = {**os.environ, "MNEMO_SOCKET": str(canned.path), "MNEMO_DATA_DIR": str(short_folder / "data")}
    words = ["-m", "mnemo_client.cli.main", "mcp"]
    assert asyncio.run(asyncio.wait_for(meet(words, environ, mode), 60)) == version
    assert canned.asked[0].headers["x-mnemo-door"] == "mcp"
