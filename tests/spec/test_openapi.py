"""The OpenAPI document is whole: every route, every parameter, every reference. SPEC 13."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from mnemo_client.protocol.changes import HistoryAnswer, UndoAnswer, UndoRequest
from mnemo_client.protocol.ingestion import BatchAnswer, NewMemories, RememberAnswer
from mnemo_client.protocol.memories import MemoryPage, NewMemory
from mnemo_client.protocol.operations import Operation
from mnemo_client.protocol.primitives import Limit, NoFields, RequestBody
from mnemo_client.protocol.retrieval import RecallAnswer, RecallRequest
from mnemo_client.protocol.status import ConfigAnswer, HealthAnswer
from mnemo_daemon.server.admission.access_table import OWNER_GRANT
from mnemo_daemon.server.openapi import document, with_document
from mnemo_daemon.server.router import Reply, Request, Route
from mnemo_daemon.server.sockets import Peer


class Filter(RequestBody):
    q: str
    limit: Limit = 50
    tags: list[str] = msgspec.field(default_factory=list)


async def _handle(request: Request) -> Reply:
    raise NotImplementedError


ROUTES = (
    Route(Operation("POST", "/v1/memories", "One", RememberAnswer, NewMemory, statuses=(200, 201)), _handle),
    Route(Operation("GET", "/v1/memories", "List", MemoryPage, Filter), _handle),
    Route(Operation("POST", "/v1/memories/batch", "Many", BatchAnswer, NewMemories), _handle),
    Route(Operation("GET", "/v1/memories/{id}/history", "History", HistoryAnswer, NoFields), _handle),
    Route(Operation("POST", "/v1/recall", "Recall", RecallAnswer, RecallRequest), _handle),
    Route(Operation("POST", "/v1/undo", "Undo", UndoAnswer, UndoRequest), _handle),
    Route(Operation("GET", "/v1/config", "Config", ConfigAnswer, NoFields), _handle),
    Route(Operation("GET", "/v1/export", "Export", bytes, NoFields, content_type="application/x-ndjson"), _handle),
    Route(Operation("GET", "/health", "Alive", HealthAnswer, NoFields), _handle),
    Route(Operation("GET", "/v1/health", "Alive", HealthAnswer, NoFields), _handle),
)


@pytest.fixture(scope="module")
def made() -> Any:
    """As a client gets it: through JSON."""
    return msgspec.json.decode(msgspec.json.encode(document(ROUTES, "1.2.3")))


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_every_route_is_in_the_document_and_nothing_else(made: Any) -> None:
    assert made["openapi"] == "3.1.0"
    assert made["info"]["version"] == "1.2.3"
    listed = {(method.upper(), path) for path, methods in made["paths"].items() for method in methods}
    assert listed == {(route.method, route.path) for route in ROUTES}


def test_every_reference_leads_somewhere(made: Any) -> None:
    found = set(references(made))
    assert "#/components/schemas/MemoryView" in found
    for reference in found:
        node = made
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
        assert isinstance(node, dict)


def test_every_operation_has_a_name_of_its_own(made: Any) -> None:
    names = [operation["operationId"] for methods in made["paths"].values() for operation in methods.values()]
    assert len(set(names)) == len(names)
    assert "get_memories_id_history" in names


def test_parameters_come_from_path_query_and_headers(made: Any) -> None:
    (in_path, *_) = made["paths"]["/v1/memories/{id}/history"]["get"]["parameters"]
    assert in_path == {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    parameters = made["paths"]["/v1/memories"]["get"]["parameters"]
    assert parameters[:3] == [
        {"name": "q", "in": "query", "required": True, "schema": {"type": "string"}},
        {
            "name": "limit",
            "in": "query",
            "required": False,
            "schema": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
        },
        {
            "name": "tags",
            "in": "query",
            "required": False,
            "schema": {"type": "array", "items": {"type": "string"}},
        },
    ]
    assert parameters[3:] == [
        {"$ref": "#/components/parameters/Namespace"},
        {"$ref": "#/components/parameters/Door"},
        {"$ref": "#/components/parameters/Agent"},
    ]


def test_a_body_is_required_only_where_it_has_required_fields(made: Any) -> None:
    assert made["paths"]["/v1/memories"]["post"]["requestBody"]["required"] is True
    assert made["paths"]["/v1/undo"]["post"]["requestBody"]["required"] is False
    assert "requestBody" not in made["paths"]["/v1/config"]["get"]


def test_the_schemas_hold_what_the_types_hold(made: Any) -> None:
    schemas = made["components"]["schemas"]
    memory = schemas["NewMemory"]
    assert memory["required"] == ["content"]
    assert memory["additionalProperties"] is False
    assert set(memory["properties"]) == set(NewMemory.__struct_fields__)
    assert memory["properties"]["importance"]["anyOf"][0] == {"type": "number", "minimum": 0.0, "maximum": 1.0}
    assert schemas["NewMemories"]["properties"]["memories"] == {
        "type": "array",
        "items": {},
        "minItems": 1,
        "maxItems": 1000,
    }


def test_answers_have_their_statuses_and_every_error_the_one_shape(made: Any) -> None:
    responses = made["paths"]["/v1/memories"]["post"]["responses"]
    assert set(responses) == {"200", "201", "default"}
    assert responses["201"]["content"] == {
        "application/json": {"schema": {"$ref": "#/components/schemas/RememberAnswer"}}
    }
    assert responses["default"] == {"$ref": "#/components/responses/Failure"}
    export = made["paths"]["/v1/export"]["get"]["responses"]["200"]
    assert export["content"] == {"application/x-ndjson": {"schema": {"type": "string"}}}


def test_the_document_is_served_and_lists_itself() -> None:
    every = with_document(ROUTES, "1.2.3")
    assert every[:-1] == ROUTES
    route = every[-1]
    assert (route.method, route.path) == ("GET", "/v1/openapi.json")
    request = Request(ask=None, query=None, path={}, peer=Peer(uid=0), grant=OWNER_GRANT)
    first = asyncio.run(_answer(route, request))
    assert first == asyncio.run(_answer(route, request))
    assert "/v1/openapi.json" in msgspec.json.decode(first)["paths"]


async def _answer(route: Route, request: Request) -> bytes:
    reply = await route.handler(request)
    assert isinstance(reply.value, bytes)
    return reply.value
