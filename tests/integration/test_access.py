"""Every route from every entry point: what each caller may see of the memories there are, and what it may change.

The table has a row for every route; a route without one fails. Each memory holds a word of its own, in its text and
among its tags. The words that come back in an answer's bytes are compared with those that the row allows.
"""

import contextlib
import http.client
import json
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode

import pytest

from mnemo_client.protocol.memories import Patch
from mnemo_daemon.api.daemon_routes import StatusReport
from mnemo_daemon.api.main_routes import Api
from mnemo_daemon.services import Services
from mnemo_store.records import Edge, PutEdge
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import dump_of

# Entry points: the headers, the agent that a body names, and whether a person speaks.


class EntryPoint(NamedTuple):
    headers: dict[str, str]
    agent_id: str = ""
    is_person: bool = False


ENTRY_POINTS = {
    "cli": EntryPoint({"X-Mnemo-Door": "cli"}, is_person=True),
    "api": EntryPoint({}, is_person=True),
    "api with an agent": EntryPoint({"X-Mnemo-Agent": "planner"}),
    "cli with an agent": EntryPoint({"X-Mnemo-Door": "cli", "X-Mnemo-Agent": "planner"}),
    "mcp": EntryPoint({"X-Mnemo-Door": "mcp"}),
    "hook": EntryPoint({"X-Mnemo-Door": "hook"}),
    "agent_id in the body": EntryPoint({}, agent_id="planner"),
}

# The memories, all about a heron: in the caller's namespace and of its user, unless they say otherwise.

ACTIVE = {"plain", "pinned", "sensitive", "foreign", "another"}
TRASHED = {"trashed", "secret trash", "others trash"}
HELD = ACTIVE | TRASHED
FORMER = {"former"}  # was sensitive, and is no more: its word stands in its first version alone
SECRET = {"sensitive", "secret trash", "former"}
OURS = {"plain", "pinned", "sensitive"}
OURS_THEN = OURS | {"trashed", "secret trash", "former"}  # before anything went to the trash
AGENTS_THEN = {"plain", "pinned", "trashed"}


class Cell(NamedTuple):
    """One try: a namespace of its own with one memory of each kind."""

    socket: str
    namespace: str
    ids: Mapping[str, str]
    words: Mapping[str, str]
    seqs: Mapping[str, int]  # of the change that made each
    began: int  # the seq before the first
    at: int  # ms, and the seq then: before the trash was filled and `former` was cleaned
    at_seq: int


class Ask(NamedTuple):
    """One request. `raw` is a body that is no JSON object."""

    method: str
    target: str
    body: Mapping[str, Any] | None = None
    raw: bytes | None = None


class Row(NamedTuple):
    """A request to a route, and what the answers may show and change: for a person, and for an agent.

    `refused`: to an agent every request is 422 `refused`. `agents_only`: a person's would end the daemon, or is
    tested where it is the subject.
    """

    asks: Callable[[Cell], Sequence[Ask]]
    person: AbstractSet[str] = frozenset()
    agent: AbstractSet[str] = frozenset()
    person_changes: AbstractSet[str] = frozenset()
    agent_changes: AbstractSet[str] = frozenset()
    refused: bool = False
    agents_only: bool = False


def one(method: str, path: str, body: Mapping[str, Any] | None = None, /, **query: Any) -> Callable[[Cell], list[Ask]]:
    """A single request, the same for every cell."""
    return lambda cell: [Ask(method, f"{path}?{urlencode(query, doseq=True)}" if query else path, body)]


def by_id(
    method: str, path: str, body: Callable[[Cell, str], Mapping[str, Any]] | None = None
) -> Callable[[Cell], list[Ask]]:
    """A request for the id of each memory, whole and short."""
    return lambda cell: [
        Ask(method, path.format(id=text, at=cell.at), body(cell, memory_id) if body else None)
        for memory_id in cell.ids.values()
        for text in (memory_id, memory_id[-8:])
    ]


def at_then(method: str, path: str, **query: Any) -> Callable[[Cell], list[Ask]]:
    return lambda cell: [Ask(method, f"{path}?{urlencode({**query, 'as_of': cell.at}, doseq=True)}")]


def known_keys(cell: Cell) -> list[Ask]:
    return [
        Ask("POST", "/v1/memories", {"content": f"A heron, {number}.", "key": kind, "explain": True})
        for number, kind in enumerate(cell.ids)
    ]


def own_export(cell: Cell) -> list[Ask]:
    """The export of the namespace, which a person may read back."""
    _, exported = _exchange(cell, ENTRY_POINTS["cli"], Ask("GET", "/v1/export"))
    return [Ask("POST", "/v1/import", raw=exported.partition(b"\r\n\r\n")[2])]


def memory(**fields: Any) -> Mapping[str, Any]:
    return {"content": f"A grey heron stood there {uuid.uuid4().hex}.", "explain": True, **fields}


ALL_STATES = ["active", "archived", "compressed", "superseded", "discarded", "trashed"]
INCLUDED = {"include_compressed": True, "include_superseded": True, "include_discarded": True}
HERON = {"query": "heron", "top_k": 100, "token_budget": None, "explain": True, "highlight": True, **INCLUDED}
NOT_PINNED = {"plain", "foreign", "another", "former"}


def asked(path: str) -> list[Row]:  # fmt: skip
    """A question answered from memories: as the context block, without what is sensitive."""
    return [
        Row(one("POST", path, {"question": "heron", "top_k": 8, "cut": "none"}), OURS - SECRET, OURS - SECRET),
        Row(
            one("POST", path, {"question": "heron", "cut": "none", "tags": ["sensitive"]}), {"sensitive"}, {"sensitive"}
        ),
    ]


def tool(name: str, **arguments: Any) -> list[Ask]:
    """The call of a tool over MCP, which is an agent's whatever its headers say."""
    call = {"name": name, "arguments": arguments}
    return [Ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})]


def resource(uri: str) -> list[Ask]:
    return [Ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri}})]


def for_each_id(make: Callable[[str], list[Ask]]) -> Callable[[Cell], list[Ask]]:
    return lambda cell: [ask for memory_id in cell.ids.values() for ask in make(memory_id)]


def of_agents(
    asks: Callable[[Cell], Sequence[Ask]],
    seen: AbstractSet[str] = frozenset(),
    changed: AbstractSet[str] = frozenset(),
) -> Row:
    """A row of requests that are an agent's, whoever makes them."""
    return Row(asks, seen, seen, changed, changed)


ROWS: dict[str, list[Row]] = {
    "POST /mcp": [
        of_agents(lambda cell: tool("memory_list", limit=50), OURS - SECRET),
        of_agents(lambda cell: tool("memory_list", limit=50, tags=["sensitive"]), {"sensitive"}),
        of_agents(for_each_id(lambda text: tool("memory_get", id=text)), HELD - SECRET),
        of_agents(for_each_id(lambda text: resource(f"memory://{text}")), HELD - SECRET),
        of_agents(for_each_id(lambda text: tool("memory_explain", id=text, query="heron"))),
        of_agents(for_each_id(lambda text: tool("memory_update", id=text, event_at="2020-01-01")),
                  ACTIVE - SECRET - {"pinned"}, NOT_PINNED),
        of_agents(for_each_id(lambda text: tool("memory_delete", id=text)), changed=NOT_PINNED),
        of_agents(for_each_id(lambda text: tool("memory_restore", id=text)), TRASHED - SECRET, TRASHED - SECRET),
        of_agents(lambda cell: tool("memory_remember", content="A heron.", tags=["sensitive"])),
    ],
    "GET /v1/memories": [
        Row(one("GET", "/v1/memories"), OURS, OURS - SECRET),
        Row(one("GET", "/v1/memories", state=ALL_STATES), OURS_THEN - FORMER, AGENTS_THEN),
        Row(one("GET", "/v1/memories", tag="heron", source="cli"), OURS, OURS - SECRET),
        Row(one("GET", "/v1/memories", tag="sensitive"), {"sensitive"}, {"sensitive"}),  # who names the tag sees it
        Row(at_then("GET", "/v1/memories"), OURS_THEN, AGENTS_THEN),
        Row(lambda cell: [Ask("GET", f"/v1/memories?{urlencode({'id': [*cell.ids.values()]}, doseq=True)}")],
            HELD, HELD - SECRET),
    ],
    "DELETE /v1/memories": [
        Row(one("DELETE", "/v1/memories", tag="heron")),
        Row(one("DELETE", "/v1/memories", tag="heron", confirm="true"), person_changes={*OURS, "former"}),
        Row(one("DELETE", "/v1/memories", tag="sensitive", confirm="true"), person_changes={"sensitive"}),
        Row(one("DELETE", "/v1/memories", tag="loose", confirm="true"),
            person_changes={"plain", "sensitive", "former"}, agent_changes={"plain", "former"}),
        Row(lambda cell: [Ask("DELETE", f"/v1/memories?id={text}&confirm=true") for text in cell.ids.values()],
            person_changes=ACTIVE | FORMER, agent_changes=NOT_PINNED),
        Row(lambda cell: [Ask("DELETE", f"/v1/memories?{urlencode({'id': [*cell.ids.values()]}, doseq=True)}")]),
    ],
    "GET /v1/memories/{id}": [
        Row(by_id("GET", "/v1/memories/{id}"), HELD, HELD - SECRET),
        Row(by_id("GET", "/v1/memories/{id}?as_of={at}"), HELD | FORMER, HELD - SECRET),
    ],
    "PATCH /v1/memories/{id}": [
        Row(by_id("PATCH", "/v1/memories/{id}", lambda cell, _: {"speaker": "Ann"}), ACTIVE,
            ACTIVE - SECRET - {"pinned"}, ACTIVE | FORMER, NOT_PINNED),
        Row(by_id("PATCH", "/v1/memories/{id}", lambda cell, _: {"pinned": False}), ACTIVE,
            ACTIVE - SECRET - {"pinned"}, {"pinned"}, set()),
        Row(by_id("PATCH", "/v1/memories/{id}", lambda cell, _: {"tags": [], "if_version": 99})),
    ],
    "DELETE /v1/memories/{id}": [
        Row(by_id("DELETE", "/v1/memories/{id}"), person_changes=ACTIVE | FORMER, agent_changes=NOT_PINNED),
    ],
    "POST /v1/memories/{id}/restore": [
        Row(by_id("POST", "/v1/memories/{id}/restore"), TRASHED, TRASHED - SECRET, TRASHED, TRASHED - SECRET),
    ],
    "POST /v1/trash/{id}/restore": [
        Row(by_id("POST", "/v1/trash/{id}/restore"), TRASHED, TRASHED - SECRET, TRASHED, TRASHED - SECRET),
    ],
    "GET /v1/trash": [
        Row(one("GET", "/v1/trash"), {"trashed", "secret trash"}, {"trashed"}),
        Row(one("GET", "/v1/trash", set_aside="true")),
    ],
    "POST /v1/recall": [
        Row(one("POST", "/v1/recall", HERON), OURS, OURS - SECRET),
        Row(one("POST", "/v1/recall", {**HERON, "tags": ["sensitive"]}), {"sensitive"}, {"sensitive"}),
        Row(lambda cell: [Ask("POST", "/v1/recall", {**HERON, "as_of": cell.at})],
            OURS_THEN, AGENTS_THEN),
    ],
    "POST /v1/why": [Row(by_id("POST", "/v1/why", lambda cell, memory_id: {**HERON, "id": memory_id}))],
    "GET /v1/search": [
        Row(one("GET", "/v1/search", q="heron", limit=100), OURS, OURS - SECRET),
        Row(at_then("GET", "/v1/search", q="heron", limit=100),
            OURS_THEN, AGENTS_THEN),
    ],
    "GET /v1/recent": [
        Row(one("GET", "/v1/recent"), OURS, OURS - SECRET),
        Row(at_then("GET", "/v1/recent"), OURS_THEN, AGENTS_THEN),
    ],
    "GET /v1/tags": [Row(one("GET", "/v1/tags"), OURS, OURS - SECRET)],
    "GET /v1/agents": [Row(one("GET", "/v1/agents"))],
    "GET /v1/timeline": [Row(one("GET", "/v1/timeline"))],
    "POST /v1/context": [
        Row(one("POST", "/v1/context", {"query": "heron", "top_k": 50, "cut": "none"}), OURS - SECRET, OURS - SECRET),
        Row(one("POST", "/v1/context", {"query": "heron", "cut": "none", "tags": ["sensitive"]}),
            {"sensitive"}, {"sensitive"}),
    ],
    "GET /v1/resume": [
        Row(one("GET", "/v1/resume"), OURS - SECRET, OURS - SECRET),
        Row(one("GET", "/v1/resume", tag="sensitive"), {"sensitive"}, {"sensitive"}),
    ],
    "POST /v1/hooks/{event}": [
        Row(one("POST", "/v1/hooks/prompt", {"prompt": "heron"}), OURS - SECRET, OURS - SECRET),
        Row(one("POST", "/v1/hooks/session-start", {}), OURS - SECRET, OURS - SECRET),
        Row(one("POST", "/v1/hooks/reply", {"prompt": "A heron waded in the shallows.", "session_id": "s"})),
        Row(one("POST", "/v1/hooks/tool", {"session_id": "s", "tool": "Bash", "arguments": {"command": "make heron"}})),
        Row(one("POST", "/v1/hooks/session-end", {"session_id": "s"})),
    ],
    "GET /v1/state": [Row(one("GET", "/v1/state", session_id="s"))],  # test_state_routes.py has what is shown of turns
    "GET /v1/triggers/{action}": [Row(one("GET", "/v1/triggers/heron"))],  # test_resume.py has what is shown of them
    "POST /v1/ask": asked("/v1/ask"),
    "POST /v1/answer": asked("/v1/answer"),
    "POST /v1/memories": [
        Row(one("POST", "/v1/memories", memory())),
        Row(by_id("POST", "/v1/memories", lambda cell, memory_id: memory(supersedes=[memory_id])),
            person_changes=ACTIVE | FORMER, agent_changes=NOT_PINNED),
        Row(by_id("POST", "/v1/memories", lambda cell, memory_id: memory(derived_from=[memory_id]))),
        Row(known_keys, OURS | {"trashed", "secret trash"}, {"plain", "trashed"},
            OURS | {"trashed", "secret trash", "former"}, {"plain", "trashed", "former"}),
    ],
    "POST /v1/memories/batch": [
        Row(by_id("POST", "/v1/memories/batch", lambda cell, memory_id: {"memories": [memory(supersedes=[memory_id])]}),
            person_changes=ACTIVE | FORMER, agent_changes=NOT_PINNED),
        Row(lambda cell: [Ask("POST", "/v1/memories/batch", {"memories": [ask.body for ask in known_keys(cell)]})],
            OURS | {"trashed", "secret trash"}, {"plain", "trashed"},
            OURS | {"trashed", "secret trash", "former"}, {"plain", "trashed", "former"}),
    ],
    "POST /v1/ingest": [Row(one("POST", "/v1/ingest", {"text": "A heron waded in the shallows of the estuary at dawn.",
                                                       "explain": True}))],
    "POST /v1/extract": [Row(one("POST", "/v1/extract", {"text": "Tom saw a heron at the estuary. Tom has a boat."}))],
    "POST /v1/turns": [Row(one("POST", "/v1/turns", {
        "session_id": "s", "explain": True,
        "turns": [{"role": role, "content": f"The {role} saw the heron at the estuary of the Elbe."}
                  for role in ("user", "assistant", "system", "tool")],
    }))],
    "POST /v1/runs/{run}/steps": [
        Row(one("POST", "/v1/runs/heron/steps", {"step_number": 1, "action": "Saw a heron"})),
    ],
    "GET /v1/sessions": [Row(one("GET", "/v1/sessions"))],
    "GET /v1/sessions/{id}": [Row(one("GET", "/v1/sessions/heron"))],  # what it shows: test_session_routes.py
    "POST /v1/sessions/{id}/end": [Row(one("POST", "/v1/sessions/heron/end", {}))],
    "POST /v1/sessions/{id}/consolidate": [Row(one("POST", "/v1/sessions/heron/consolidate", {}))],
    "GET /v1/runs/{run}/steps": [Row(one("GET", "/v1/runs/heron/steps"))],  # test_run_routes.py has what is shown
    "POST /v1/runs/{run}/summary": [
        Row(lambda cell: [Ask("POST", "/v1/runs/heron/steps", {"step_number": 1, "action": "Saw a heron"}),
                          Ask("POST", "/v1/runs/heron/summary", {})]),
    ],
    "GET /v1/graph": [Row(one("GET", "/v1/graph"))],  # test_topic_graph.py has what is shown of texts
    "POST /v1/graph/abstract": [Row(one("POST", "/v1/graph/abstract", {}))],
    "POST /v1/graph/dedupe": [Row(one("POST", "/v1/graph/dedupe", {}))],
    "POST /v1/sessions/{id}/explain": [Row(one("POST", "/v1/sessions/s/explain", {"query": "heron"}))],
    "POST /v1/sessions/{id}/chat": [Row(one("POST", "/v1/sessions/s/chat", {"message": "Is the heron grey?"}),
                                        OURS - SECRET, OURS - SECRET)],
    # test_fact_routes.py has what is shown of facts
    "POST /v1/facts": [
        Row(one("POST", "/v1/facts", {"facts": [{"subject": "Heron", "predicate": "live at", "object": "the Elbe"}]})),
        Row(by_id("POST", "/v1/facts", lambda cell, memory_id: {
            "facts": [{"subject": "Heron", "predicate": "like", "object": "fish", "memory_id": memory_id}]})),
    ],
    "GET /v1/facts": [Row(one("GET", "/v1/facts", entity="heron"))],
    "GET /v1/facts/graph": [Row(one("GET", "/v1/facts/graph", entity="heron"))],
    "GET /v1/facts/conflicts": [Row(one("GET", "/v1/facts/conflicts"))],
    "POST /v1/facts/conflicts/decide": [
        Row(one("POST", "/v1/facts/conflicts/decide", {"facts": ["0123456789ab", "0123456789ac"]}), refused=True),
    ],
    "GET /v1/facts/history": [Row(one("GET", "/v1/facts/history", subject="heron"))],
    "DELETE /v1/facts/{id}": [Row(by_id("DELETE", "/v1/facts/{id}"))],
    # test_profile_routes.py has what is shown of profiles
    "GET /v1/profile": [Row(one("GET", "/v1/profile"))],
    "GET /v1/projects/{name}": [Row(one("GET", "/v1/projects/heron"))],
    "PUT /v1/profile": [
        Row(by_id("PUT", "/v1/profile", lambda cell, memory_id: {
            "preferences": [{"text": "I prefer herons.", "evidence_ids": [memory_id]}]})),
        Row(by_id("PUT", "/v1/profile", lambda cell, memory_id: {"remove": [memory_id]})),
    ],
    "POST /v1/compress": [
        Row(one("POST", "/v1/compress", {"cutoff_hours": 0, "sessions": 1, "dry_run": True}), refused=True),
        Row(one("POST", "/v1/compress", {"cutoff_hours": 0, "sessions": 1}), refused=True,
            person_changes={"plain", "former"}),
    ],
    # test_topic_trees.py has what is shown of topics
    "GET /v1/topics": [Row(one("GET", "/v1/topics"))],
    "GET /v1/map": [Row(one("GET", "/v1/map"))],
    "POST /v1/topics/expand": [Row(one("POST", "/v1/topics/expand", {"ids": ["kb1"]}))],
    "POST /v1/topics/{id}/rename": [Row(one("POST", "/v1/topics/kb1/rename", {"name": "Heron"}), refused=True)],
    "POST /v1/topics/rebuild": [Row(one("POST", "/v1/topics/rebuild", {}))],
    "POST /v1/consolidate": [  # test_lifecycle_routes.py has what is shown of operations
        Row(one("POST", "/v1/consolidate", {"dry_run": True}), refused=True),
        Row(one("POST", "/v1/consolidate", {}), refused=True),
    ],
    "POST /v1/audit": [Row(one("POST", "/v1/audit", {}), refused=True)],
    "GET /v1/review": [Row(one("GET", "/v1/review"), refused=True)],  # test_lifecycle_routes.py has what is shown
    "POST /v1/review/{id}": [Row(one("POST", "/v1/review/0123456789abcdef", {"verdict": "approve"}), refused=True)],
    "GET /v1/consolidate/history": [Row(one("GET", "/v1/consolidate/history"))],
    "GET /v1/lifecycle": [
        Row(one("GET", "/v1/lifecycle"), OURS, OURS - SECRET), Row(one("GET", "/v1/lifecycle", layer="core")),
    ],
    "POST /v1/reclassify": [
        Row(one("POST", "/v1/reclassify", {"dry_run": False}), refused=True, agents_only=True),
        Row(one("POST", "/v1/reclassify", {}), refused=True),
    ],
    "POST /v1/memories/{id}/move": [
        Row(by_id("POST", "/v1/memories/{id}/move", lambda cell, _: {"archived": True}), ACTIVE, set(), ACTIVE | FORMER,
            set(), refused=True),
    ],
    "GET /v1/memories/{id}/shown": [Row(by_id("GET", "/v1/memories/{id}/shown"), refused=True)],
    "GET /v1/memories/{id}/edges": [  # each memory has one to and one from the plain one
        Row(by_id("GET", "/v1/memories/{id}/edges"), OURS, OURS - SECRET),
    ],
    "GET /v1/memories/{id}/history": [
        Row(by_id("GET", "/v1/memories/{id}/history"), HELD | FORMER, HELD - SECRET),
    ],
    "GET /v1/diff": [
        Row(lambda cell: [Ask("GET", f"/v1/diff?since=seq:{cell.began}")], OURS, OURS - SECRET),
        Row(lambda cell: [Ask("GET", f"/v1/diff?since=seq:{cell.at_seq}")],
            {"trashed", "secret trash", "former"}, {"trashed"}),
    ],
    "POST /v1/undo": [
        Row(lambda cell: [Ask("POST", "/v1/undo", {"seq": seq, "dry_run": True}) for seq in cell.seqs.values()]),
        Row(lambda cell: [Ask("POST", "/v1/undo", {"seq": seq}) for seq in cell.seqs.values()],
            person_changes=ACTIVE, agent_changes=NOT_PINNED - FORMER),
        Row(one("POST", "/v1/undo", {}), agents_only=True),
        Row(one("POST", "/v1/undo", {"cycle": "last"}), refused=True),
    ],
    "GET /v1/export": [
        Row(one("GET", "/v1/export"), (HELD | FORMER) - {"foreign"}, refused=True),
        Row(one("GET", "/v1/export", history="false"), HELD - {"foreign"}, refused=True),
    ],
    "POST /v1/import": [Row(own_export, refused=True)],
    "POST /v1/backup": [Row(one("POST", "/v1/backup", {}), refused=True)],
    "GET /v1/sync": [Row(one("GET", "/v1/sync"), refused=True)],
    "POST /v1/sync": [Row(one("POST", "/v1/sync", {"folder": "nowhere"}), refused=True)],
    "DELETE /v1/sync": [Row(one("DELETE", "/v1/sync"), refused=True)],
    "POST /v1/sync/exchange": [Row(one("POST", "/v1/sync/exchange"), refused=True)],
    "POST /v1/sync/invite": [Row(one("POST", "/v1/sync/invite"), refused=True)],
    "POST /v1/sync/key": [Row(one("POST", "/v1/sync/key", {"code": "x"}), refused=True)],
    "POST /v1/sync/remove": [
        Row(one("POST", "/v1/sync/remove", {"device": "x", "passphrase": "long enough"}), refused=True)
    ],
    "POST /v1/compact": [Row(one("POST", "/v1/compact", {"dry_run": True}), refused=True)],
    "POST /v1/check": [Row(one("POST", "/v1/check"))],
    "GET /v1/exposure": [Row(one("GET", "/v1/exposure"), refused=True)],
    "POST /v1/repair": [Row(one("POST", "/v1/repair", {"dry_run": True}), refused=True)],
    "POST /v1/memories/{id}/purge": [
        Row(by_id("POST", "/v1/memories/{id}/purge", lambda cell, _: {}), refused=True, agents_only=True),
        Row(by_id("POST", "/v1/memories/{id}/purge", lambda cell, _: {"dry_run": True}), refused=True),
    ],
    "POST /v1/purge": [
        Row(lambda cell: [Ask("POST", "/v1/purge", {"ids": [*cell.ids.values()]})], refused=True, agents_only=True),
        Row(one("POST", "/v1/purge", {"filter": {"tags": ["heron"]}, "dry_run": True}), refused=True),
    ],
    "DELETE /v1/trash": [
        Row(one("DELETE", "/v1/trash"), refused=True),
        Row(one("DELETE", "/v1/trash", confirm="true"), person_changes={"trashed", "secret trash"}, refused=True),
    ],
    "GET /status": [Row(one("GET", "/status"))],
    "GET /v1/status": [Row(one("GET", "/v1/status"))],
    "GET /v1/metrics": [Row(one("GET", "/v1/metrics"))],
    "GET /metrics": [Row(one("GET", "/metrics"))],
    "GET /v1/events": [Row(one("GET", "/v1/events", follow=False, since=0))],
    "POST /v1/reset": [Row(one("POST", "/v1/reset", {}), refused=True)],
    "GET /health": [Row(one("GET", "/health"))],
    "GET /v1/health": [Row(one("GET", "/v1/health"))],
    "GET /v1/config": [Row(one("GET", "/v1/config"))],
    "GET /v1/llm/usage": [Row(one("GET", "/v1/llm/usage"))],
    "GET /v1/jobs": [Row(one("GET", "/v1/jobs"))],
    "GET /v1/stats": [Row(one("GET", "/v1/stats"))],
    "POST /v1/shutdown": [Row(one("POST", "/v1/shutdown"), refused=True, agents_only=True)],
    "GET /v1/models": [Row(one("GET", "/v1/models"))],
    "POST /v1/models/use": [Row(one("POST", "/v1/models/use", {"name": "heron"}), refused=True)],
    "POST /v1/models/reindex": [Row(one("POST", "/v1/models/reindex", {}), refused=True)],
    "GET /v1/notes/roots": [Row(one("GET", "/v1/notes/roots"))],
    "POST /v1/notes/roots": [Row(one("POST", "/v1/notes/roots", {"path": "/heron"}), refused=True)],
    "DELETE /v1/notes/roots": [Row(one("DELETE", "/v1/notes/roots", path="/heron"), refused=True)],
    "GET /v1/notes/status": [Row(one("GET", "/v1/notes/status"))],
    "POST /v1/notes/rescan": [Row(one("POST", "/v1/notes/rescan"))],
}  # fmt: skip

# Where `agent_id` says who writes; elsewhere it filters what is read.
WITH_AGENT_ID = {
    "POST /v1/memories",
    "POST /v1/memories/batch",
    "POST /v1/ingest",
    "POST /v1/extract",
    "POST /v1/turns",
    "PUT /v1/profile",
    "POST /v1/sessions/{id}/chat",
}
# A person and an agent try every route. The other ways to be one of them are told apart in one place for all routes, so
# each route is tried in one of those ways, and an agent in the body in every route that takes one.
OTHER_WAYS = ("api", "api with an agent", "cli with an agent", "hook")
TRIES = [
    (name, route)
    for number, route in enumerate(ROWS)
    for name, entry in ENTRY_POINTS.items()
    if (route in WITH_AGENT_ID if entry.agent_id else name in ("cli", "mcp", OTHER_WAYS[number % len(OTHER_WAYS)]))
]
# Which read memories, and which write something else.
WITHOUT_MEMORIES = {
    "POST /v1/reset", "POST /v1/check", "POST /v1/backup", "POST /v1/compact", "POST /v1/repair", "POST /v1/models/use",
    "POST /v1/models/reindex", "POST /v1/notes/roots", "DELETE /v1/notes/roots", "POST /v1/notes/rescan",
}  # fmt: skip
READING = {"POST /v1/recall", "POST /v1/why", "POST /v1/context", "POST /v1/ask", "POST /v1/answer",
           "POST /v1/sessions/{id}/explain"}  # fmt: skip


def test_every_route_is_in_the_table() -> None:
    """A route that is new says here who may see and change what through it."""
    routes = Api(cast(Services, None), cast(StatusReport, None)).routes()
    known = {f"{route.method} {route.path}" for route in routes}
    assert set(ROWS) == known, f"ROWS lacks {known - set(ROWS)}, or has {set(ROWS) - known}, which is no route"


@pytest.mark.parametrize(("name", "route"), TRIES)
def test_an_answer_shows_and_changes_what_its_caller_may_see_and_change(
    daemon: RunningDaemon, unchanged: tuple[Cell, dict[str, Any]], name: str, route: str
) -> None:
    entry = ENTRY_POINTS[name]
    for row in ROWS[route]:
        if row.agents_only and entry.is_person:
            continue
        is_read = route.startswith("GET ") or route in READING or (row.refused and not entry.is_person)
        if is_read or route in WITHOUT_MEMORIES:
            cell, before = unchanged
        else:
            cell = planted(daemon)
            before = records(cell)
        exchanged = [_exchange(cell, entry, ask) for ask in row.asks(cell)]
        answers = b"".join(answer for _, answer in exchanged)
        seen = {kind for kind, word in cell.words.items() if word.encode() in answers}
        after = records(cell)
        changed = {kind for kind in cell.ids if before[kind] != after[kind]}
        before.update(after)
        assert seen == (row.person if entry.is_person else row.agent), answers[:2000]
        assert changed == (row.person_changes if entry.is_person else row.agent_changes), answers[:2000]
        if row.refused and not entry.is_person:
            assert {status for status, _ in exchanged} == {422}
            assert answers.count(b'"code":"refused"') == len(exchanged)


@pytest.fixture(scope="module")
def unchanged(daemon: RunningDaemon) -> tuple[Cell, dict[str, Any]]:
    """The memories of those rows that write none, and their records as they were last seen."""
    cell = planted(daemon)
    return cell, records(cell)


def planted(daemon: RunningDaemon) -> Cell:
    mark = uuid.uuid4().hex[:12]
    namespace = f"ns-{mark}"
    ids: dict[str, str] = {}
    words = {kind: f"w{number}{mark}" for number, kind in enumerate(sorted(HELD | FORMER))}
    seqs: dict[str, int] = {}
    with daemon.client(namespace, entry_point="cli") as person:
        for kind, word in words.items():
            tags = [word, "heron", *(["sensitive"] if kind in SECRET else []), *([] if kind == "pinned" else ["loose"])]
            user = "ben" if kind in ("another", "others trash") else None
            place = f"{namespace}-b" if kind == "foreign" else namespace
            kept = person.remember(
                f"The heron of {word} is grey.", tags=tags, pinned=kind == "pinned", key=kind, user_id=user,
                namespace=place,
            )  # fmt: skip
            ids[kind], at = kept.memory.id, kept.memory.modified_at
            seqs[kind] = person.history(ids[kind]).versions[0].seq
        at_seq = person.status().seq
        while time.time_ns() // 1_000_000 <= at:
            time.sleep(0.0005)
        for kind in sorted(TRASHED):
            person.delete(ids[kind])
        person.patch(ids["former"], Patch(content="The heron is grey.", tags=["heron", "loose"]))
        others = [memory_id for kind, memory_id in ids.items() if kind != "plain"]
        edges = [
            PutEdge(data=Edge(source=source, target=target, relation="related", at=at))
            for other in others
            for source, target in ((ids["plain"], other), (other, ids["plain"]))
        ]
        person.import_from([dump_of(*edges)])
    return Cell(str(daemon.socket), namespace, ids, words, seqs, min(seqs.values()) - 1, at, at_seq)


def records(cell: Cell) -> dict[str, Any]:
    """Each memory without its use; None where it is gone."""
    found: dict[str, Any] = {}
    for kind, memory_id in cell.ids.items():
        status, answer = _exchange(cell, ENTRY_POINTS["cli"], Ask("GET", f"/v1/memories/{memory_id}"))
        record = json.loads(answer.partition(b"\r\n\r\n")[2]) if status == 200 else {}
        for name in ("access_count", "repetition_count", "last_accessed", "strength", "strength_epoch"):
            record.pop(name, None)
        found[kind] = record
    return found


def _exchange(cell: Cell, entry: EntryPoint, ask: Ask) -> tuple[int, bytes]:
    """The status, and every byte of the answer: its headers, an empty line, its body."""
    body = ask.raw
    if ask.body is not None:
        given: dict[str, Any] = dict(ask.body)
        if entry.agent_id and "memories" in given:
            given["memories"] = [{**each, "agent_id": entry.agent_id} for each in given["memories"]]
        elif entry.agent_id:
            given["agent_id"] = entry.agent_id
        body = json.dumps(given).encode()
    headers = {"X-Namespace": cell.namespace, **entry.headers}
    if ask.target == "/mcp":
        headers |= {"Content-Type": "application/json", "Accept": "application/json"}
    with contextlib.closing(http.client.HTTPConnection("localhost")) as connection:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(60)
        connection.sock.connect(cell.socket)
        connection.request(ask.method, ask.target, body, headers)
        response = connection.getresponse()
        head = "\r\n".join(f"{name}: {value}" for name, value in response.getheaders())
        return response.status, head.encode() + b"\r\n\r\n" + response.read()
