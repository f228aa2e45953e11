"""The tools of MCP against a real daemon, called by the official client. SPEC 2.1, 14"""

import time
import uuid
from typing import Any

from tests.integration.test_mcp_clients import finish, over_the_bridge
from tests.support.mcp_messages import memory_ids, text
from tests.support.running_daemon import RunningDaemon


def call(daemon: RunningDaemon, namespace: str, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """The results of some calls by one agent, in order."""

    async def meet() -> list[Any]:
        async with over_the_bridge(daemon, namespace) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return finish(meet())


def test_an_agent_keeps_changes_lists_and_forgets_a_memory(daemon: RunningDaemon) -> None:
    namespace = f"ns-{uuid.uuid4().hex[:8]}"
    (kept,) = call(
        daemon, namespace,
        ("memory_remember", {"content": "The ferry leaves at nine.", "importance": "0.8", "event_at": "yesterday"}),
    )  # fmt: skip
    (memory_id,) = memory_ids(text(kept))
    changed, listed, earlier, gone, again, after = call(
        daemon, namespace,
        ("memory_update", {"id": memory_id, "content": "The ferry leaves at ten."}),
        ("memory_list", {"since": "2 days ago", "limit": "5"}),
        ("memory_list", {"until": "last year"}),
        ("memory_delete", {"id": memory_id, "why": "it sank"}),
        ("memory_delete", {"id": memory_id}),
        ("memory_list", {}),
    )  # fmt: skip
    assert text(changed).startswith("version 2, ")
    assert " · agent mcp\n" in text(changed)
    assert memory_ids(text(listed)) == [memory_id]
    assert memory_ids(text(earlier)) == memory_ids(text(after)) == []
    assert text(gone).startswith(f"moved to the trash: {memory_id}")
    assert text(again).startswith("it was already in the trash")
    with daemon.client(namespace, entry_point="cli") as person:
        (entry,) = person.trash().entries
        assert (entry.memory.id, entry.why) == (memory_id, "it sank")
        back = person.restore(memory_id)
        assert (back.content, back.importance, back.importance_source) == ("The ferry leaves at ten.", 0.8, "llm")
        day = 86_400_000
        assert 0 < time.time() * 1000 - back.event_at <= 2 * day + 3_600_000  # the beginning of yesterday, here


def test_an_agent_that_would_change_a_pinned_memory_is_refused_with_the_reason(daemon: RunningDaemon) -> None:
    namespace = f"ns-{uuid.uuid4().hex[:8]}"
    with daemon.client(namespace, entry_point="cli") as person:
        kept = person.remember("Never deploy on a Friday.", pinned=True, key="deploy").memory
        results = call(
            daemon, namespace,
            ("memory_update", {"id": kept.id, "content": "Deploy on Fridays."}),
            ("memory_delete", {"id": kept.id}),
            ("memory_remember", {"content": "Deploy on Fridays.", "key": "deploy"}),
        )  # fmt: skip
        assert all(result.is_error and kept.id in text(result) and "pinned" in text(result) for result in results)
        assert person.get(kept.id) == kept


def test_a_key_that_is_written_again_keeps_its_tags(daemon: RunningDaemon) -> None:
    namespace = f"ns-{uuid.uuid4().hex[:8]}"
    call(
        daemon, namespace,
        ("memory_remember", {"content": "Port 8080.", "key": "port", "tags": ["server"], "importance": 0.9}),
        ("memory_remember", {"content": "Port 9090.", "key": "port"}),
    )  # fmt: skip
    with daemon.client(namespace, entry_point="cli") as person:
        (kept,) = person.list_memories().memories
    assert (kept.content, kept.tags, kept.importance) == ("Port 9090.", ["server"], 0.9)


def test_a_date_that_cannot_be_read_is_answered_with_examples(daemon: RunningDaemon) -> None:
    (result,) = call(daemon, "dates", ("memory_remember", {"content": "Once.", "event_at": "when pigs fly"}))
    assert result.is_error
    assert "yesterday" in text(result)


def test_an_agent_sees_eleven_tools_and_all_of_them_where_it_is_told_to(daemon: RunningDaemon) -> None:
    async def listed(*options: str) -> set[str]:
        async with over_the_bridge(daemon, "default", "auto", *options) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    usual, every = (finish(listed(*options)) for options in ((), ("--all-tools",)))
    assert (len(usual), len(every)) == (11, 17)
    assert every - usual >= {"memory_search", "memory_topics", "memory_explain"}
