"""The routes of engram, the source G, with its ids and shapes. SPEC 20 [G]

What an engram client writes is an agent's; only maintenance acts for the person who started the server. Where the rules
differ, ours hold: a layer in a request is ignored, and a deletion is to the trash.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from mnemo_client.errors import NotFoundError, UsageError
from mnemo_client.protocol.choices import Layer, Sort
from mnemo_client.protocol.ingestion import ExtractRequest, RememberAnswer
from mnemo_client.protocol.knowledge import FactView, NewFact
from mnemo_client.protocol.memories import MemoryView, NewMemory
from mnemo_client.protocol.primitives import LIMIT_MAX
from mnemo_client.protocol.retrieval import RecallRequest
from mnemo_client.serve.compatible_server import AnswerWithStatus, RouteRequest, ServedRoute, rows_of
from mnemo_client.version import VERSION

LAYERS: tuple[Layer, ...] = ("buffer", "working", "core")  # its layers 1, 2 and 3
SORTS: dict[str, Sort] = {"score": "score", "recent": "recent", "accessed": "accessed"}
SHORT_ID = 8
RECALLED_DEFAULT, LISTED_DEFAULT, RECENT_HOURS = 20, 50, 2.0
TOKENS_DEFAULT = 2000
RESUME_CHARS = 12_000
DAY_MS = 86_400_000
PROXY_HINT = "mnemo's proxy is a process of its own: mnemo proxy --upstream URL"
PAGE = "<!doctype html><title>mnemo</title><p>The page of this memory is opened by the command <code>mnemo ui</code>."
IGNORED = ("layer", "sync_embed", "auto_embed", "budget", "format")


# The server


def health(asked: RouteRequest) -> Any:
    status = asked.client.status()
    queue = status.queue
    embedding = status.models.get("embedding")
    return {
        "name": "engram", "served_by": "mnemo", "version": VERSION, "uptime_secs": int(status.uptime_seconds),
        "rss_kb": status.memory_private_bytes // 1024, "db_size_mb": round(status.disk.get("database", 0) / 1e6, 2),
        "ai_enabled": status.models["llm"].state == "ready" if "llm" in status.models else False,
        "embed_cache": {"size": 0, "capacity": 0, "hits": 0, "misses": 0},
        "embed_queue_pending": queue.get("vectors", 0),
        "embedding_model": embedding.name if embedding is not None else None,
        "proxy": {"enabled": False, "requests": 0, "extracted": 0, "buffered_turns": 0},
        "integrity": {"ok": status.state != "degraded", "reasons": status.reasons}, "stats": stats(asked),
    }  # fmt: skip


def index(asked: RouteRequest) -> Any:
    return {**health(asked), "endpoints": [f"{route.method} {_shown(route.path)}" for route in ROUTES]}


def stats(asked: RouteRequest) -> Any:
    memories = list(_all(asked))
    counts = {name: sum(memory.layer == name for memory in memories) for name in LAYERS}
    kinds = Counter(memory.kind for memory in memories)
    return {"total": len(memories), **counts, "by_kind": kinds, "namespaces": sorted(asked.client.status().namespaces)}


# Memories


def store(asked: RouteRequest) -> Any:
    answer = asked.client.remember(_new_memory(asked.body))
    merged = answer.outcome not in ("stored", "updated")
    return AnswerWithStatus(200 if merged else 201, {**_memory(answer.memory), "merged": merged})


def store_many(asked: RouteRequest) -> Any:
    """Store memories; name those that cannot be stored by their places."""
    given = asked.body if isinstance(asked.body, list) else asked.fields("memories")["memories"]
    errors, requests = [], []
    for place, each in enumerate(given):
        try:
            requests.append((place, _new_memory(each)))
        except (UsageError, TypeError, KeyError) as wrong:
            errors.append({"index": place, "reason": str(wrong)})
    answers = asked.client.remember_many([memory for _, memory in requests]) if requests else []
    for (place, _), answer in zip(requests, answers, strict=True):
        if not isinstance(answer, RememberAnswer):
            errors.append({"index": place, "reason": answer.error.message})
    return {"inserted": len(given) - len(errors), "requested": len(given), "errors": errors}


def list_all(asked: RouteRequest) -> Any:
    found = _all(
        asked, layers=_layers(asked.values("layer")), tags=asked.values("tag"),
        kinds=asked.values("kind"),
    )  # fmt: skip
    limit, offset = asked.number("limit", LISTED_DEFAULT), asked.number("offset", 0)
    return {**_listed(_shown_part(asked, found)), "limit": limit, "offset": offset}


def delete_many(asked: RouteRequest) -> Any:
    fields = asked.fields("ids", "namespace", "confirm")
    if ids := fields.get("ids"):
        return {"deleted": asked.client.delete_ids(ids).deleted}
    if not fields.get("namespace") or fields.get("confirm") is not True:
        raise UsageError("give ids, or a namespace with confirm: true")
    ids = [memory.id for memory in _all(asked, namespace=fields["namespace"])]
    for first in range(0, len(ids), LISTED_DEFAULT):
        asked.client.delete_ids(ids[first : first + LISTED_DEFAULT])
    return {"deleted": len(ids)}


def get(asked: RouteRequest) -> Any:
    memory = asked.client.get(asked.path["id"])
    if memory.state == "trashed":
        raise NotFoundError(f"the memory {memory.id} is in the trash")
    return _memory(memory)


def change(asked: RouteRequest) -> Any:
    fields = asked.fields("content", "importance", "tags", "kind", *IGNORED)
    return _memory(asked.client.patch(asked.path["id"], **_without(fields)))


def delete(asked: RouteRequest) -> Any:
    answer = asked.client.delete(asked.path["id"])
    return {"deleted": answer.deleted, "id": answer.id}


# Answers


def recall(asked: RouteRequest) -> Any:
    fields = asked.fields(
        "query", "budget_tokens", "layers", "min_importance", "limit", "since", "until", "sort_by", "source", "tags",
        "namespace", "expand", "min_score", "dry", "offset",
    )  # fmt: skip
    answer = asked.client.recall(
        RecallRequest(
            query=fields["query"], token_budget=fields.get("budget_tokens", TOKENS_DEFAULT),
            top_k=min(fields.get("limit", RECALLED_DEFAULT), 100), layers=_layers(fields.get("layers") or []),
            min_importance=fields.get("min_importance"), since=fields.get("since"), until=fields.get("until"),
            sort=SORTS[fields.get("sort_by") or "score"], source=fields.get("source"), tags=fields.get("tags") or [],
            namespace=fields.get("namespace"), expand=True if fields.get("expand") else "auto",
            min_score=fields.get("min_score"), dry=bool(fields.get("dry")), offset=fields.get("offset", 0),
            explain=True,
        )
    )  # fmt: skip
    chains = answer.trace.fact_chains if answer.trace is not None else []
    return {
        "memories": [
            {"id": each.id[-SHORT_ID:], "content": each.content, "score": each.score, "layer": _number(each.layer),
             "tags": each.tags, "kind": each.kind}
            for each in answer.memories
        ],
        "query": fields["query"], "total": answer.total, "expanded_queries": answer.expanded,
        "fact_chains": [_chain(each.facts) for each in chains],
    }  # fmt: skip


def search(asked: RouteRequest) -> Any:
    limit = min(asked.number("limit", RECALLED_DEFAULT), 100)
    return _listed(asked.client.search(q=asked.query["q"], limit=limit).memories)


def recent(asked: RouteRequest) -> Any:
    query = asked.query
    answer = asked.client.recent(
        hours=float(query.get("hours", RECENT_HOURS)), limit=min(asked.number("limit", RECALLED_DEFAULT), LIMIT_MAX),
        layers=_layers(asked.values("layer")), source=query.get("source"),
    )  # fmt: skip
    least = float(query.get("min_importance", 0))
    return _listed(each for each in answer.memories if each.importance >= least)


def resume(asked: RouteRequest) -> Any:
    query = asked.query
    answer = asked.client.resume(tag=[query["workspace"]] if query.get("workspace") else [])
    text = answer.text[: asked.number("budget", RESUME_CHARS)]
    if query.get("format") == "text":
        return text

    def section(ids: list[str]) -> list[Any]:
        memories = map(asked.client.get, ids[: asked.number("limit", LISTED_DEFAULT)])
        return [each.content if query.get("compact") == "true" else _memory(each) for each in memories]

    return {
        "core": section([*answer.core.memories, *answer.core.condensed]),
        "recent": section([*answer.recent.memories, *answer.recent.condensed]),
        "topics": [{"id": each.id, "name": each.name, "members": each.members} for each in answer.topics],
        "triggers": answer.triggers, "text": text,
    }  # fmt: skip


def triggers(asked: RouteRequest) -> Any:
    answer = asked.client.triggers(asked.path["action"])
    return {"action": answer.action, **_listed(answer.memories)}


# Maintenance, for the person who started the server


def consolidate(asked: RouteRequest) -> Any:
    fields = {**asked.query, **asked.fields(
        "dry_run", "promote_threshold", "promote_min_importance", "decay_drop_threshold", "working_age_promote_secs",
        "merge",
    )}  # fmt: skip
    if unknown := [name for name in fields if name not in ("dry_run", "merge")]:
        raise UsageError(f"{', '.join(unknown)}: mnemo's thresholds are those of its profiles; use the profile G")
    dry_run = fields.get("dry_run") in (True, "true", "1")
    answer = asked.client.consolidate(dry_run=dry_run, merge=fields.get("merge"))
    names = {
        "promoted": ("promote",), "decayed": ("delete", "archive"), "demoted": ("demote",), "merged": ("merge",),
        "reconciled": ("update", "absorb", "reconcile"), "triaged": ("keep",), "distilled": ("distill", "distil"),
    }  # fmt: skip
    counts = {
        name: sum(step.counts.get(action, 0) for step in answer.cycle.steps for action in actions)
        for name, actions in names.items()
    }
    if not dry_run:
        return counts
    would: dict[str, list[Any]] = {f"would_{name}": [] for name in names}
    for each in answer.operations:
        for name, actions in names.items():
            if each.action in actions and each.ids:
                would[f"would_{name}"].append({"id": each.ids[0], "content": (each.texts[0] or "")[:100]})
    return would


def audit(asked: RouteRequest) -> Any:
    answer = asked.client.audit()
    return {"reviewed": answer.reviewed, "proposed": answer.proposed, "waiting": answer.total}


def repair(asked: RouteRequest) -> Any:
    answer = asked.client.repair(dry_run=False)
    pending = asked.client.status().queue.get("vectors", 0)
    return {"orphans_removed": 0, "fts_rebuilt": len(answer.steps), "embed_backfill_queued": pending}


def vacuum(asked: RouteRequest) -> Any:
    answer = asked.client.compact()
    freed = answer.database_before + answer.journal_before - answer.database - answer.journal
    return {"freed_bytes": max(0, freed), "mode": "full"}


def extract(asked: RouteRequest) -> Any:
    fields = asked.fields("text", "namespace", *IGNORED)
    answer = asked.client.extract(ExtractRequest(text=fields["text"], namespace=fields.get("namespace")))
    ids = [each.id for each in answer.statements if each.id is not None] or answer.sources
    return _listed(map(asked.client.get, ids))


def export(asked: RouteRequest) -> Any:
    return {"version": VERSION, **_listed(_all(asked))}


def import_(asked: RouteRequest) -> Any:
    fields = asked.fields("memories", "version", "count", "text", "prompt", "model", "namespace", "exported_at")
    if fields.get("text") is not None:
        if fields.get("prompt") or fields.get("model"):
            raise UsageError("prompt and model: mnemo extracts statements by its own rules and model")
        return {**extract(asked._replace(body={"text": fields["text"], "namespace": fields.get("namespace")}))}
    asked.client.agent = None
    whole = json.dumps({"version": VERSION, "count": len(fields["memories"]), "memories": fields["memories"]})
    answer = asked.client.import_from([whole.encode()], tool="engram", namespace=fields.get("namespace"))
    return {"imported": answer.stored + answer.updated + answer.restored, "skipped": answer.skipped + answer.duplicate}


def import_facts(asked: RouteRequest) -> Any:
    """Store each numbered line of a text as a memory of its own."""
    text = asked.body if isinstance(asked.body, str) else asked.fields("text", "facts", "namespace").get("text", "")
    lines = [line.strip().lstrip("0123456789").lstrip(".):- ").strip() for line in str(text).splitlines()]
    lines = [line for line in lines if line]
    answers = [asked.client.remember(line, source="import") for line in lines]
    stored = [_memory(each.memory) for each in answers if each.outcome in ("stored", "updated")]
    return {"imported": len(stored), "total_facts": len(lines), "skipped": len(lines) - len(stored), "unannotated": 0,
            "memories": stored}  # fmt: skip


# Facts


def add_facts(asked: RouteRequest) -> Any:
    fields = asked.fields("facts", "namespace")
    given = [NewFact(**{name: value for name, value in each.items() if value is not None}) for each in fields["facts"]]
    answer = asked.client.add_facts(facts=given, namespace=fields.get("namespace"))
    conflicts = [_fact(fact) for conflict in answer.conflicts for fact in conflict.facts]
    return AnswerWithStatus(201, {"facts": [_fact(each) for each in answer.facts], "conflicts": conflicts,
                              "resolved": [_fact(each) for each in answer.resolved]})  # fmt: skip


def facts(asked: RouteRequest) -> Any:
    query = asked.query
    answer = asked.client.facts(
        entity=query["entity"], include_superseded=query.get("include_superseded") == "true",
        limit=LIMIT_MAX,
    )  # fmt: skip
    return {"facts": [_fact(each) for each in answer.facts], "count": answer.count}


def all_facts(asked: RouteRequest) -> Any:
    shown = [_fact(each) for each in _shown_part(asked, rows_of(asked.client.facts, "facts"))]
    return {"facts": shown, "count": len(shown), "total": asked.client.facts(limit=1).count}


def fact_graph(asked: RouteRequest) -> Any:
    hops = min(3, max(1, asked.number("hops", 2)))
    answer = asked.client.fact_graph(entity=asked.query["entity"], hops=hops)
    return {"entity": asked.query["entity"], "hops": hops, "chains": [_chain(each.facts) for each in answer.chains]}


def fact_conflicts(asked: RouteRequest) -> Any:
    query = asked.query
    answer = asked.client.fact_conflicts(subject=query.get("subject", ""), predicate=query.get("predicate", ""))
    return {"conflicts": [_fact(fact) for conflict in answer.conflicts for fact in conflict.facts]}


def fact_history(asked: RouteRequest) -> Any:
    query = asked.query
    answer = asked.client.fact_history(subject=query["subject"], predicate=query.get("predicate", ""))
    return {"history": [_fact(each) for each in answer.history]}


def delete_fact(asked: RouteRequest) -> Any:
    return {"deleted": asked.client.delete_fact(asked.path["id"]).deleted > 0}


# Trash, usage, topics, proxy


def trash(asked: RouteRequest) -> Any:
    entries = list(rows_of(asked.client.trash, "entries"))
    shown = [
        {**_memory(each.memory), "deleted_at": each.at, "reason": each.why} for each in _shown_part(asked, entries)
    ]
    return {"total": len(entries), "count": len(shown), "items": shown}


def restore(asked: RouteRequest) -> Any:
    return {"restored": True, "id": asked.client.restore(asked.path["id"]).id}


def empty_trash(asked: RouteRequest) -> Any:
    return {"purged": asked.client.empty_trash(confirm=True).dropped}


def llm_usage(asked: RouteRequest) -> Any:
    days = asked.number("days", 7)
    answer = asked.client.llm_usage(since=int(time.time() * 1000) - days * DAY_MS)
    rows = [{"component": each.site, "model": each.model, "calls": each.calls, "input_tokens": each.tokens_in,
             "output_tokens": each.tokens_out, "duration_ms": each.milliseconds} for each in answer.usage]  # fmt: skip
    return {"days": days, "by_component": rows, "total_calls": sum(each.calls for each in answer.usage)}


def clear_llm_usage(asked: RouteRequest) -> Any:
    return AnswerWithStatus(
        400, {"error": "mnemo keeps the log of its language model for a bounded time; it goes by itself"}
    )


def topic(asked: RouteRequest) -> Any:
    ids = asked.query["ids"].split(",") if "ids" in asked.query else asked.fields("ids", "touch")["ids"]
    answer = asked.client.expand_topics(ids=ids)
    return {
        each.id: {"name": each.topic.name, "memories": [_memory(memory) for memory in each.memories]}
        for each in answer.topics if each.topic is not None
    }  # fmt: skip


def topic_tree(asked: RouteRequest) -> Any:
    topics = asked.client.topics().topics
    children: dict[str | None, list[Any]] = {None: [], **{each.id: [] for each in topics}}
    for each in topics:
        node = {"id": each.id, "name": each.name, "member_count": each.count, "children": children[each.id]}
        children[each.parent].append(node)
    return {"tree": children[None], "topics": len(topics)}


def page(asked: RouteRequest) -> Any:
    return PAGE


# Shapes


def _all(asked: RouteRequest, **wanted: Any) -> Iterator[MemoryView]:
    return rows_of(asked.client.list_memories, "memories", **wanted)


def _shown_part(asked: RouteRequest, rows: Iterable[Any]) -> list[Any]:
    """Return the rows from `offset` on, at most `limit`."""
    offset = asked.number("offset", 0)
    return list(islice(rows, offset, offset + asked.number("limit", LISTED_DEFAULT)))


def _listed(memories: Iterable[MemoryView]) -> dict[str, Any]:
    shown = [_memory(each) for each in memories]
    return {"memories": shown, "count": len(shown)}


def _memory(memory: MemoryView) -> dict[str, Any]:
    return {
        "id": memory.id, "content": memory.content, "layer": _number(memory.layer), "importance": memory.importance,
        "created_at": memory.created_at, "last_accessed": memory.last_accessed or memory.created_at,
        "access_count": memory.access_count, "repetition_count": memory.repetition_count,
        "decay_rate": memory.decay_rate, "source": memory.source, "tags": memory.tags, "namespace": memory.namespace,
        "kind": memory.kind, "modified_at": memory.modified_at,
    }  # fmt: skip


def _new_memory(given: Any) -> NewMemory:
    known = ("content", "importance", "source", "tags", "kind", "namespace", "supersedes", "skip_dedup", *IGNORED)
    fields = RouteRequest(None, {}, {}, given).fields(*known)  # type: ignore[arg-type]
    rest = {name: value for name, value in _without(fields).items() if name != "skip_dedup" and value is not None}
    return NewMemory(**rest, dedup="off" if fields.get("skip_dedup") else None)


def _without(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in IGNORED}


def _fact(fact: FactView) -> dict[str, Any]:
    return {
        "id": fact.id, "subject": fact.subject, "predicate": fact.predicate, "object": fact.object,
        "memory_id": fact.memory_id, "namespace": fact.namespace, "created_at": fact.created_at,
        "valid_from": fact.valid_from, "valid_until": fact.valid_to, "superseded_by": fact.superseded_by,
    }  # fmt: skip


def _chain(links: Any) -> list[dict[str, str]]:
    return [{"subject": each.subject, "predicate": each.predicate, "object": each.object, "memory_id": each.memory_id}
            for each in links]  # fmt: skip


def _number(layer: Layer) -> int:
    return LAYERS.index(layer) + 1


def _layers(numbers: list[Any]) -> list[Layer]:
    """Return layers by their numbers. Raises UsageError."""
    if wrong := [each for each in numbers if str(each) not in ("1", "2", "3")]:
        raise UsageError(f"there is no layer {wrong[0]}: 1 is buffer, 2 working, 3 core")
    return [LAYERS[int(each) - 1] for each in numbers]


def _shown(path: str) -> str:
    return path.replace("{id}", ":id").replace("{action}", ":action").replace("{rest:.*}", "*")


ROUTES = (
    ServedRoute("GET", "/", index),
    ServedRoute("GET", "/health", health),
    ServedRoute("GET", "/stats", stats),
    ServedRoute("GET", "/ui", page),
    ServedRoute("GET", "/ui/style.css", lambda _: "/* of `mnemo ui` */"),
    ServedRoute("GET", "/ui/app.js", lambda _: "// of `mnemo ui`"),
    ServedRoute("POST", "/memories", store),
    ServedRoute("GET", "/memories", list_all),
    ServedRoute("DELETE", "/memories", delete_many),
    ServedRoute("POST", "/memories/batch", store_many),
    ServedRoute("GET", "/memories/{id}", get),
    ServedRoute("PATCH", "/memories/{id}", change),
    ServedRoute("DELETE", "/memories/{id}", delete),
    ServedRoute("POST", "/recall", recall),
    ServedRoute("GET", "/search", search),
    ServedRoute("GET", "/recent", recent),
    ServedRoute("GET", "/resume", resume),
    ServedRoute("GET", "/triggers/{action}", triggers),
    ServedRoute("POST", "/consolidate", consolidate, by_person=True),
    ServedRoute("POST", "/audit", audit, by_person=True),
    ServedRoute("POST", "/repair", repair, by_person=True),
    ServedRoute("POST", "/vacuum", vacuum, by_person=True),
    ServedRoute("POST", "/extract", extract),
    ServedRoute("GET", "/export", export, by_person=True),
    ServedRoute("POST", "/import", import_),
    ServedRoute("POST", "/import/facts", import_facts),
    ServedRoute("POST", "/facts", add_facts),
    ServedRoute("GET", "/facts", facts),
    ServedRoute("GET", "/facts/all", all_facts),
    ServedRoute("GET", "/facts/graph", fact_graph),
    ServedRoute("GET", "/facts/conflicts", fact_conflicts),
    ServedRoute("GET", "/facts/history", fact_history),
    ServedRoute("DELETE", "/facts/{id}", delete_fact),
    ServedRoute("GET", "/trash", trash),
    ServedRoute("POST", "/trash/{id}/restore", restore),
    ServedRoute("DELETE", "/trash", empty_trash, by_person=True),
    ServedRoute("GET", "/llm-usage", llm_usage),
    ServedRoute("DELETE", "/llm-usage", clear_llm_usage),
    ServedRoute("POST", "/topic", topic),
    ServedRoute("GET", "/topic", topic),
    ServedRoute("GET", "/topiary/tree", topic_tree),
    ServedRoute("POST", "/proxy/flush", lambda _: {"status": "disabled", "hint": PROXY_HINT}),
    ServedRoute("GET", "/proxy/window", lambda _: {"sessions": {}, "hint": PROXY_HINT}),
    ServedRoute("*", "/proxy/{rest:.*}", lambda _: AnswerWithStatus(503, {"error": PROXY_HINT})),
)
