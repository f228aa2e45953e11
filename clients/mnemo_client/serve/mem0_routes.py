"""The REST routes that the client of mem0 calls, with its ids and shapes. SPEC 20

A memory's user, agent and run are mem0's; what we have no field for, its metadata and app, stands in a hidden value
beside it. With `infer` the statements of the messages are memories of their own, and the messages behind them are not
listed.
"""

import ast
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from operator import ge, gt, le, lt
from typing import Any

import msgspec
from msgspec import UNSET

from mnemo_client.adapters.stored_values import NewValue, StoredValues
from mnemo_client.client import Client
from mnemo_client.errors import NotFoundError, UsageError
from mnemo_client.protocol.choices import State, TurnRole
from mnemo_client.protocol.ingestion import ExtractRequest, Turn
from mnemo_client.protocol.memories import MemoryView, NewMemory
from mnemo_client.protocol.retrieval import RecalledMemory, RecallRequest
from mnemo_client.protocol.validation import explain
from mnemo_client.serve.compatible_server import RouteRequest, ServedRoute, iso_time, rows_of

LOCAL_USER = "local"  # the user of memories that name none
ENTITY_IDS = ("user_id", "agent_id", "app_id", "run_id")
EXTRA_SOURCE, ENTITY_SOURCE = "mem0-extra", "mem0-entity"
TOP_K, PAGE_SIZE, RECALLED_MAX = 10, 100, 100
ROLES: dict[str, TurnRole] = {"user": "user", "assistant": "assistant", "system": "system", "tool": "tool"}
EVENTS = {"stored": "ADD", "updated": "UPDATE", "merged": "UPDATE", "duplicate": "NONE", "repeats": "NONE"}
# Of the hosted service; they have no meaning on one machine.
WITHOUT_MEANING = ("async_mode", "output_format", "version", "api_version", "org_id", "project_id", "source")
STATES: list[State] = ["active", "archived"]

Record = dict[str, Any]


# The fields of a request whose types the routes rely on
TypedFields = msgspec.defstruct(
    "TypedFields",
    [*((name, list[Record], ()) for name in ("messages", "memories")),
     *((name, Record | None, None) for name in ("filters", "metadata")),
     *((name, int | None, None) for name in ("top_k", "limit", "page", "page_size"))],
)  # fmt: skip


def _typed(fields: Record) -> Record:
    """Return the fields of a request. Raises UsageError for a type that a route cannot use."""
    try:
        msgspec.convert(fields, TypedFields, strict=False)
    except msgspec.ValidationError as wrong:
        raise UsageError(explain(wrong, TypedFields, fields).message) from None
    return fields


def ping(asked: RouteRequest) -> Any:
    asked.client.health()
    return {"status": "ok", "org_id": "mnemo", "project_id": asked.client.namespace or "default", "user_email": None}


def add(asked: RouteRequest) -> Any:
    """Store messages: each as it is, or with `infer` (the default) their statements."""
    fields = _typed(asked.fields(
        "messages", "filters", "infer", "metadata", "timestamp", "expiration_date",
        *ENTITY_IDS, *WITHOUT_MEANING,
    ))  # fmt: skip
    scope = _scope_of({**(fields.get("filters") or {}), **fields})
    messages = fields["messages"]
    at = int(fields["timestamp"] * 1000) if fields.get("timestamp") is not None else None
    turns = [Turn(role=ROLES[each.get("role", "user")], content=_text_of(each), at=at) for each in messages]
    store = _infer if fields.get("infer", True) is not False else _store_all
    results = store(asked.client, turns, scope)
    ids = [each["id"] for each in results if each["event"] == "ADD"]
    if (day := fields.get("expiration_date")) is not None:
        for memory_id in ids:
            asked.client.patch(memory_id, expires_at=_end_of(day))
    extra = {name: value for name, value in (("metadata", fields.get("metadata")), ("app_id", scope.get("app_id")))
             if value is not None}  # fmt: skip
    if extra:
        _put_extras(asked.client, dict.fromkeys(ids, extra))
    names = [(name.removesuffix("_id"), value) for name, value in scope.items()]
    StoredValues(asked.client, ENTITY_SOURCE).put([
        NewValue(f"{ENTITY_SOURCE}/{kind}/{name}", {"type": kind, "name": name}, "working", session_id=ENTITY_SOURCE)
        for kind, name in names
    ])  # fmt: skip
    return {"results": results}


def _infer(client: Client, turns: list[Turn], scope: Mapping[str, str]) -> list[Record]:
    found: list[Record] = []
    for turn in turns:
        answer = client.extract(ExtractRequest(turns=[turn], **_ours(scope)))
        for statement in answer.statements:
            if statement.id is not None:
                event = EVENTS.get(statement.outcome or "stored", "NONE")
                found.append({"id": statement.id, "memory": statement.text, "event": event})
        if made := [each.id for each in answer.statements if each.id is not None]:
            _put_extras(client, {source: {"statements": made} for source in answer.sources})
        if not answer.statements:  # the message itself is what there is to remember
            for memory in map(client.get, answer.sources):
                event = "NONE" if memory.state == "discarded" else "ADD"
                found.append({"id": memory.id, "memory": memory.content, "event": event})
    return found


def _store_all(client: Client, turns: list[Turn], scope: Mapping[str, str]) -> list[Record]:
    found: list[Record] = []
    for turn in turns:
        client.agent = None if turn.role == "user" else scope.get("agent_id", "mem0")  # which lowers the trust
        answer = client.remember(
            NewMemory(turn.content, event_at=UNSET if turn.at is None else turn.at, source="mem0", **_ours(scope))
        )
        found.append({"id": answer.memory.id, "memory": answer.memory.content, "event": EVENTS[answer.outcome]})
    client.agent = None
    return found


def search(asked: RouteRequest) -> Any:
    fields = _typed(asked.fields(
        "query", "filters", "top_k", "limit", "threshold", "rerank", "fields", "categories", "metadata", "show_expired",
        "reference_date", "latest_only", "keyword_search", *ENTITY_IDS, *WITHOUT_MEANING,
    ))  # fmt: skip
    _refuse_expired(fields)
    wanted = _filter_of(fields)
    top_k = int(fields.get("top_k") or fields.get("limit") or TOP_K)
    found: list[RecalledMemory] = []
    for user in _users_of(wanted, asked.client):
        answer = asked.client.recall(
            RecallRequest(
                query=fields["query"], user_id=user, top_k=RECALLED_MAX, min_score=fields.get("threshold"),
                token_budget=None, preferences="inline", rerank=True if fields.get("rerank") else None,
                now=fields.get("reference_date"), include_superseded=fields.get("latest_only") is False,
                **_scope_filter(wanted),
            )
        )  # fmt: skip
        found += answer.memories
    found.sort(key=lambda memory: -memory.score)
    records = _records(asked.client, found)
    kept = [record for record in records if _passes(record, wanted)][:top_k]
    if names := fields.get("fields"):
        kept = [{name: record.get(name) for name in ("id", *names)} for record in kept]
    return {"results": kept}


def get_all(asked: RouteRequest) -> Any:
    """List a page of the memories that pass filters, the newest of each user first."""
    fields = _typed({**asked.query, **asked.fields(
        "filters", "page", "page_size", "start_date", "end_date", "categories", "show_expired", "latest_only",
        *ENTITY_IDS, *WITHOUT_MEANING,
    )})  # fmt: skip
    _refuse_expired(fields)
    records = _matching(asked.client, _filter_of(fields), fields.get("latest_only") is not False)
    page, size = int(fields.get("page") or 1), int(fields.get("page_size") or PAGE_SIZE)
    if page < 1 or size < 1:
        raise UsageError("page and page_size must be at least 1")
    first = (page - 1) * size
    return {
        "count": len(records),
        "next": f"/v3/memories/?page={page + 1}&page_size={size}" if first + size < len(records) else None,
        "previous": f"/v3/memories/?page={page - 1}&page_size={size}" if page > 1 else None,
        "results": records[first : first + size],
    }


def get(asked: RouteRequest) -> Any:
    return _records(asked.client, [_existing(asked.client, asked.path["id"])])[0]


def update(asked: RouteRequest) -> Any:
    fields = _typed(asked.fields("text", "metadata", "timestamp", "expiration_date", *WITHOUT_MEANING))
    memory = _existing(asked.client, asked.path["id"])
    _change(asked.client, memory, fields)
    return _records(asked.client, [asked.client.get(memory.id)])[0]


def history(asked: RouteRequest) -> Any:
    """The versions of a memory, the oldest first; one in the trash ends with its deletion."""
    memory = asked.client.get(asked.path["id"])
    events: list[Record] = []
    before: str | None = None
    extra = _extra_of(asked.client, memory)
    for version in reversed(asked.client.history(memory.id).versions):
        is_gone = version.memory.state == "trashed"
        after = None if is_gone else version.memory.content
        if after == before:
            continue
        events.append({
            "id": f"{memory.id}-{version.seq}", "memory_id": memory.id, "input": [], "old_memory": before,
            "new_memory": after, "user_id": _user_of(memory), "categories": [version.memory.category],
            "event": "DELETE" if is_gone else "ADD" if before is None else "UPDATE", "metadata": extra.get("metadata"),
            "created_at": iso_time(version.at), "updated_at": iso_time(version.at),
        })  # fmt: skip
        before = after
    return events


def delete(asked: RouteRequest) -> Any:
    memory = _existing(asked.client, asked.path["id"])
    ids = [memory.id]
    if asked.query.get("delete_linked", "").lower() == "true":
        for linked in ids:  # those that it replaced, and what these had replaced
            ids += [edge.memory.id for edge in asked.client.edges(linked).edges
                    if (edge.relation, edge.direction) == ("updates", "to") and edge.memory.id not in ids]  # fmt: skip
    _delete(asked.client, ids)
    return {"message": "Memory deleted successfully!"}


def delete_all(asked: RouteRequest) -> Any:
    fields: Record = {name: value for name, value in asked.query.items() if name not in WITHOUT_MEANING}
    if isinstance(fields.get("filters"), str):
        fields["filters"] = _literal(fields["filters"])
    wanted = _filter_of(fields)
    if not wanted["AND"]:
        raise UsageError("name at least one of user_id, agent_id, app_id, run_id: this would delete everything")
    _delete_records(asked.client, wanted)
    return {"message": "Memories deleted successfully!"}


def entities(asked: RouteRequest) -> Any:
    found = []
    for entity in _entities(asked.client):
        records = _matching(asked.client, {"AND": [{f"{entity['type']}_id": entity["name"]}]})
        found.append({**entity, "id": f"{entity['type']}:{entity['name']}", "total_memories": len(records)})
    return {"count": len(found), "next": None, "previous": None, "results": found}


def delete_entity(asked: RouteRequest) -> Any:
    kind, name = asked.path["type"], asked.path["name"]
    values = StoredValues(asked.client, ENTITY_SOURCE)
    entity = values.get(f"{ENTITY_SOURCE}/{kind}/{name}")
    if entity is None:
        raise NotFoundError(f"there is no {kind} {name!r}")
    _delete_records(asked.client, {"AND": [{f"{kind}_id": name}]})
    values.delete([entity])
    return {"message": "Entity deleted successfully!"}


def batch_update(asked: RouteRequest) -> Any:
    changes = _typed(asked.fields("memories"))["memories"]
    for change in changes:
        fields = {name: value for name, value in change.items() if name != "memory_id"}
        _change(asked.client, _existing(asked.client, change["memory_id"]), fields)
    return {"message": f"Successfully updated {len(changes)} memories"}


def batch_delete(asked: RouteRequest) -> Any:
    ids = [each["memory_id"] for each in _typed(asked.fields("memories"))["memories"]]
    _delete(asked.client, ids)
    return {"message": f"Successfully deleted {len(ids)} memories"}


# Records


def _records(client: Client, memories: list[Any]) -> list[Record]:
    """Return memories as mem0 shows them, without the messages that have their statements beside them."""
    extras = ((memory, _extra_of(client, memory)) for memory in memories if memory.kind != "working")
    return [_record(memory, extra) for memory, extra in extras if "statements" not in extra]


def _record(memory: MemoryView, extra: Record) -> Record:
    record: Record = {
        "id": memory.id, "memory": memory.content, "user_id": _user_of(memory), "agent_id": memory.agent_id,
        "app_id": extra.get("app_id"), "run_id": memory.run_id, "metadata": extra.get("metadata"),
        "categories": [memory.category], "created_at": iso_time(memory.created_at),
        "updated_at": iso_time(memory.modified_at),
        "expiration_date": (iso_time(memory.expires_at) or "")[:10] or None,
    }  # fmt: skip
    if isinstance(memory, RecalledMemory):
        record["score"] = memory.score
    return record


def _matching(client: Client, wanted: Record, latest_only: bool = True) -> list[Record]:
    restrictions = {"states": STATES if latest_only else [*STATES, "superseded"], **_scope_filter(wanted)}
    found: list[MemoryView] = []
    for user in _users_of(wanted, client):
        found += rows_of(client.list_memories, "memories", user_id=user, **restrictions)
    return [record for record in _records(client, found) if _passes(record, wanted)]


def _delete(client: Client, ids: Sequence[str]) -> None:
    """Move memories to the trash, and each message of whose statements none is left."""
    sources = {source for memory_id in ids for source in client.get(memory_id).derived_from}
    StoredValues(client, EXTRA_SOURCE).delete_ids(ids)
    done = [source for source in sources if (message := client.get(source)).state != "trashed" and all(
        client.get(each).state == "trashed" for each in _extra_of(client, message).get("statements", [source])
    )]  # fmt: skip
    StoredValues(client, EXTRA_SOURCE).delete_ids(done)


def _delete_records(client: Client, wanted: Record) -> None:
    _delete(client, [record["id"] for record in _matching(client, wanted, latest_only=False)])


def _change(client: Client, memory: MemoryView, fields: Record) -> None:
    changes: Record = {}
    if fields.get("text") is not None:
        changes["content"] = fields["text"]
    if fields.get("timestamp") is not None:
        at = fields["timestamp"]
        changes["event_at"] = at if isinstance(at, str) else int(at * 1000)
    if "expiration_date" in fields:
        changes["expires_at"] = None if fields["expiration_date"] is None else _end_of(fields["expiration_date"])
    if changes:
        client.patch(memory.id, **changes)
    if fields.get("metadata") is not None:
        _put_extras(client, {memory.id: {**_extra_of(client, memory), "metadata": fields["metadata"]}})


def _existing(client: Client, memory_id: str) -> MemoryView:
    memory = client.get(memory_id)
    if memory.state in ("trashed", "discarded"):
        raise NotFoundError(f"the memory {memory_id} was deleted")
    return memory


def _extra_of(client: Client, memory: MemoryView) -> Record:
    """Return what mem0 has for a memory and we have no field for."""
    values = StoredValues(client, EXTRA_SOURCE)
    stored = values.get(f"{EXTRA_SOURCE}/{memory.id}")
    return values.value_of(stored) if stored is not None else {}


def _put_extras(client: Client, extras: Mapping[str, Record]) -> None:
    StoredValues(client, EXTRA_SOURCE).put([
        NewValue(f"{EXTRA_SOURCE}/{memory_id}", extra, "working", session_id=EXTRA_SOURCE, derived_from=[memory_id])
        for memory_id, extra in extras.items()
    ])  # fmt: skip


# Users, agents, apps and runs


def _scope_of(fields: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(fields[name]) for name in ENTITY_IDS if fields.get(name) is not None}


def _ours(scope: Mapping[str, str]) -> dict[str, Any]:
    return {name: scope[name] for name in ("user_id", "agent_id", "run_id") if name in scope}


def _user_of(memory: MemoryView) -> str | None:
    return None if memory.user_id == LOCAL_USER else memory.user_id


def _entities(client: Client) -> list[Record]:
    values = StoredValues(client, ENTITY_SOURCE)
    return [values.value_of(memory) for memory in values.newest()][::-1]


def _users_of(wanted: Record, client: Client) -> list[str]:
    """Return the users of whom memories can pass a filter: those that it names for all of them, else all known ones."""
    for condition in wanted["AND"]:
        either = condition.get("OR", [condition])
        if all(set(each) == {"user_id"} for each in either):
            named = [user for each in either for user in _users_in(each["user_id"])]
            if "*" not in named:
                return list(dict.fromkeys(named))
    known = [entity["name"] for entity in _entities(client) if entity["type"] == "user"]
    return [*known, LOCAL_USER] if wanted["AND"] else [LOCAL_USER]


def _users_in(value: Any) -> list[str]:
    if isinstance(value, dict):
        return list(value.get("in", [value.get("eq", "*")]))
    return [str(value)]


def _scope_filter(wanted: Record) -> dict[str, Any]:
    """Return the parts of a filter by which the daemon restricts its answer: they hold for every record."""
    return {
        name: value for condition in wanted["AND"] for name, value in condition.items()
        if name in ("agent_id", "run_id") and isinstance(value, str) and value != "*"
    }  # fmt: skip


# Filters


def _filter_of(fields: Mapping[str, Any]) -> Record:
    """Return all conditions of a request as one filter: {"AND": […]}."""
    given = fields.get("filters") or {}
    _check_condition(given)
    conditions = given["AND"] if set(given) == {"AND"} else [{name: value} for name, value in given.items()]
    conditions = [*conditions, *({name: value} for name, value in _scope_of(fields).items())]
    if fields.get("categories"):
        conditions.append({"categories": {"in": fields["categories"]}})
    for name, operator in (("start_date", "gte"), ("end_date", "lte")):
        if fields.get(name):
            conditions.append({"created_at": {operator: fields[name]}})
    return {"AND": conditions}


def _check_condition(condition: Any) -> None:
    """Raise UsageError for what is no condition, also within AND, OR and NOT."""
    if not isinstance(condition, dict):
        raise UsageError(f"a filter must be an object, not {condition!r}")
    for name, wanted in condition.items():
        if name in ("AND", "OR") and not isinstance(wanted, list):
            raise UsageError(f"{name} takes a list of filters, not {wanted!r}")
        if name in ("AND", "OR", "NOT", "metadata"):
            for each in wanted if isinstance(wanted, list) and name != "metadata" else [wanted]:
                _check_condition(each)
        elif isinstance(wanted, dict) and not isinstance(wanted.get("in", []), list):
            raise UsageError(f"`in` takes a list, not {wanted['in']!r}")


_ORDERS = {"gt": gt, "gte": ge, "lt": lt, "lte": le}


def _passes(record: Record, condition: Any) -> bool:
    """Return whether a record passes a filter. Raises UsageError for what is none."""
    for name, wanted in condition.items():
        if name == "AND":
            passes = all(_passes(record, each) for each in wanted)
        elif name == "OR":
            passes = any(_passes(record, each) for each in wanted)
        elif name == "NOT":
            passes = not any(_passes(record, each) for each in (wanted if isinstance(wanted, list) else [wanted]))
        elif name == "metadata":
            held = record["metadata"] if isinstance(record["metadata"], dict) else {}
            passes = all(_holds(held.get(key), value) for key, value in wanted.items())
        elif name in record:
            passes = _holds(record[name], wanted)
        else:
            raise UsageError(f"there is no field {name} to filter by: use {', '.join(sorted(record))}")
        if not passes:
            return False
    return True


def _holds(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, dict):
        return value is not None if wanted == "*" else value == wanted or (isinstance(value, list) and wanted in value)
    for operator, bound in wanted.items():
        if operator in _ORDERS:
            # Of times as texts, all are in UTC and ordered as they are written.
            holds = value is not None and _ORDERS[operator](*_comparable(value, bound))
        elif operator == "in":
            holds = any(_holds(value, each) for each in bound)
        elif operator in ("eq", "ne"):
            holds = _holds(value, bound) is (operator == "eq")
        elif operator in ("contains", "icontains"):
            text, part = str(value or ""), str(bound)
            holds = part in text if operator == "contains" else part.lower() in text.lower()
        else:
            raise UsageError(f"unknown operator {operator}: use eq, ne, in, gt, gte, lt, lte, contains or icontains")
        if not holds:
            return False
    return True


def _comparable(value: Any, bound: Any) -> tuple[Any, Any]:
    if isinstance(value, (int, float)) and isinstance(bound, (int, float)):
        return value, bound
    return str(value), str(bound)


def _refuse_expired(fields: Mapping[str, Any]) -> None:
    if fields.get("show_expired"):
        raise UsageError("mnemo keeps what has expired in the trash, and shows it nowhere else")


def _text_of(message: Mapping[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if isinstance(part, dict) and "text" in part)


def _end_of(day: str) -> int:
    """Return the end of a day in ms."""
    end = datetime.combine(datetime.fromisoformat(day).date(), time(), UTC) + timedelta(days=1)
    return int(end.timestamp() * 1000) - 1


def _literal(text: str) -> Any:
    """Return a filter of a query string, where the client writes it as Python does."""
    try:
        return json.loads(text)
    except ValueError:
        return ast.literal_eval(text)


ROUTES = (
    ServedRoute("GET", "/v1/ping/", ping),
    # A turn has the trust of its role.
    *(ServedRoute("POST", path, add, by_person=True) for path in ("/v3/memories/add/", "/v1/memories/")),
    *(ServedRoute("POST", f"/v{version}/memories/search/", search) for version in (1, 2, 3)),
    *(ServedRoute("POST", f"/v{version}/memories/", get_all) for version in (2, 3)),
    ServedRoute("GET", "/v1/memories/", get_all),
    ServedRoute("DELETE", "/v1/memories/", delete_all),
    ServedRoute("GET", "/v1/memories/{id}/", get),
    ServedRoute("PUT", "/v1/memories/{id}/", update),
    ServedRoute("DELETE", "/v1/memories/{id}/", delete),
    ServedRoute("GET", "/v1/memories/{id}/history/", history),
    ServedRoute("GET", "/v1/entities/", entities),
    ServedRoute("DELETE", "/v2/entities/{type}/{name}/", delete_entity),
    ServedRoute("PUT", "/v1/batch/", batch_update),
    ServedRoute("DELETE", "/v1/batch/", batch_delete),
)
