"""The OpenAPI 3.1 document, made from the route table and the very types the handlers use. SPEC 13."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from mnemo_client.protocol.operations import OPENAPI, Operation
from mnemo_client.protocol.primitives import FailureAnswer, Namespace
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_daemon.server.router import ENTRY_POINTS, EVENT_STREAM, Reply, Request, Route

REF_TEMPLATE = "#/components/schemas/{name}"

_PATH_PART = lazy_pattern(r"\{(\w+)\}")


def document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """The document of all these routes. `version` is the daemon's."""
    operations = [route.operation for route in routes]
    bodies = [each.body for each in operations if each.body is not None]
    answers = [each.answer for each in operations if each.answer is not bytes]
    kinds = [FailureAnswer, *bodies, *answers]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REF_TEMPLATE)
    schema_of = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mnemod",
            "version": version,
            "description": "One long-term memory on your own machine. HTTP/1.1 with JSON on a Unix socket.",
        },
        "paths": paths,
        "components": {"schemas": components, "parameters": _HEADERS, "responses": {"Failure": _FAILURE}},
    }


def with_document(routes: Sequence[Route], version: str) -> tuple[Route, ...]:
    """The routes and one more, which answers with the document of them all. It is made when first asked for."""
    encoded: list[bytes] = []

    async def answer(request: Request) -> Reply:
        if not encoded:
            encoded.append(msgspec.json.encode(document(every, version)))
        return Reply(encoded[0])

    every = (*routes, Route(OPENAPI, answer))
    return every


_HEADERS: dict[str, Any] = {
    "Namespace": {
        "name": "X-Namespace",
        "in": "header",
        "description": "the namespace, where neither body nor query string names it",
        "schema": msgspec.json.schema(Namespace),
    },
    "Door": {
        "name": "X-Mnemo-Door",
        "in": "header",
        "description": "what kind of client speaks; it decides the trust of what is written",
        "schema": {"enum": list(ENTRY_POINTS), "default": "api"},
    },
    "Agent": {
        "name": "X-Mnemo-Agent",
        "in": "header",
        "description": "the program on whose behalf the client speaks, where it is not a person",
        "schema": {"type": "string", "minLength": 1, "maxLength": 128},
    },
}

_FAILURE: dict[str, Any] = {
    "description": "The one shape of every error.",
    "content": {"application/json": {"schema": {"$ref": REF_TEMPLATE.format(name="FailureAnswer")}}},
}


def _operation(route: Route, schema_of: dict[Any, Any]) -> dict[str, Any]:
    operation = route.operation
    # `get_memories_id_history` for GET /v1/memories/{id}/history.
    words = [route.method.lower(), *re.findall(r"\w+", route.path.removeprefix("/v1"))]
    found: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": "_".join(words) + ("" if route.path.startswith("/v1") else "_unversioned"),
        "parameters": _parameters(route),
        "responses": {
            **{str(status): _response(operation, status, schema_of) for status in operation.statuses},
            "default": {"$ref": "#/components/responses/Failure"},
        },
    }
    if operation.body is not None:
        required = any(field.required for field in msgspec.structs.fields(operation.body))
        found["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": schema_of[operation.body]}},
        }
    elif operation.streams or route.forwards:
        kind = "application/octet-stream" if operation.streams else "application/json"
        found["requestBody"] = {"required": True, "content": {kind: {}}}
    return found


def _parameters(route: Route) -> list[dict[str, Any]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PATH_PART.findall(route.path)
    ]
    in_query = []
    if route.operation.query is not None:
        for field in msgspec.structs.fields(route.operation.query):
            schema = msgspec.json.schema(field.type)
            if field.default not in (msgspec.NODEFAULT, None, msgspec.UNSET):
                schema["default"] = field.default
            in_query.append({"name": field.encode_name, "in": "query", "required": field.required, "schema": schema})
    headers = [{"$ref": f"#/components/parameters/{name}"} for name in _HEADERS]
    return [*in_path, *in_query, *headers]


def _response(operation: Operation[..., Any], status: int, schema_of: dict[Any, Any]) -> dict[str, Any]:
    kind = operation.content_type
    schema = schema_of.get(operation.answer, {"type": "string"} if kind != "application/json" else {})
    content = {kind: {"schema": schema}}
    if operation.sends_events:
        content[EVENT_STREAM] = {"schema": {"type": "string"}}
    return {"description": HTTPStatus(status).phrase, "content": content}
