"""LangGraph's BaseStore on the memory of this machine. SPEC 20

    from mnemo_client.adapters.langgraph import MnemoStore

    store = MnemoStore()
    store.put(("users", "ines"), "food", {"likes": "pasta", "since": 2019})
    store.get(("users", "ines"), "food").value["likes"]
    store.search(("users",), query="what does she like to eat?", filter={"since": {"$gte": 2018}})
    store.list_namespaces(prefix=("users",))
    graph = builder.compile(store=store)

An item is one memory: its key names namespace and key, its content is the value as JSON. It is recalled like every
other memory, and every version of it is kept.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from operator import ge, gt, le, lt
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)
from langgraph.store.base.embed import get_text_at_path, tokenize_path
from msgspec.structs import asdict

from mnemo_client.adapters.stored_values import PART_TAG, NewValue, StoredValues, key_of_whole
from mnemo_client.client import Client
from mnemo_client.paths import socket_path
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.primitives import QUESTION_CHARS_MAX
from mnemo_client.protocol.retrieval import RecalledMemory, RecallRequest

DEPTH_MAX = 15  # labels of a namespace: each has a tag
FRONT_CHARS_MAX = 1000  # of the fields that stand in front of the value
RECALLED_AT_ONCE = 100
UNINDEXED_TAG = "unindexed"
TTL_SHARE_LEFT = 0.9  # of an item's time to live: a read renews it when less is left, so that few versions arise

Namespace = tuple[str, ...]


class MnemoStore(BaseStore):
    """A BaseStore in the namespace of a client; without one, in that of the daemon of this machine.

    fields: paths into a value by which an item is found that names none itself; they stand in front of the value, whose
    other words are found too. ttl: as of LangGraph, in minutes.
    """

    supports_ttl = True

    def __init__(
        self, client: Client | None = None, *, fields: Sequence[str] = (), ttl: TTLConfig | None = None
    ) -> None:
        client = client if client is not None else Client(socket_path(os.environ), agent="langgraph")
        self._values = StoredValues(client, "langgraph")
        self._fields = list(fields)
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations: those that read see what was there before those that write.

        Raises InvalidNamespaceError if one of them has a label that no namespace may have, before any is carried out.
        """
        listed = list(ops)
        for op in listed:
            validate_op_namespace(op)
        with self._values.lock:
            results: list[Result] = [self._read(op) for op in listed]
            # Of two writes to one item the last one counts.
            puts = {(op.namespace, op.key): op for op in listed if isinstance(op, PutOp)}
            gone = [self._values.get(_key_of(*place)) for place, op in puts.items() if op.value is None]
            self._values.delete([memory for memory in gone if memory is not None])
            self._values.put([self._new_value(op) for op in puts.values() if op.value is not None])
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations as `batch` does, on another thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                memory = self._values.get(_key_of(op.namespace, op.key))
                return None if memory is None else Item(**self._fields_of(memory, op.refresh_ttl))
            case SearchOp():
                return self._search(op)
            case ListNamespacesOp():
                found = {_place_of(memory)[0] for memory in self._values.newest()}
                named = {
                    namespace[: op.max_depth]
                    for namespace in found
                    if all(_is_match(condition, namespace) for condition in op.match_conditions or ())
                }
                return sorted(named)[op.offset : op.offset + op.limit]
            case PutOp():
                return None
        raise ValueError(f"unknown operation: {op!r}")

    def _new_value(self, op: PutOp) -> NewValue:
        """Raises ValueError for a namespace that is too deep."""
        if len(op.namespace) > DEPTH_MAX:
            raise ValueError(f"the namespace {op.namespace} has {len(op.namespace)} labels, at most {DEPTH_MAX}")
        value = dict(op.value or {})
        tags = [_path_tag(op.namespace[:depth]) for depth in range(1, len(op.namespace) + 1)]
        fields = self._fields if op.index is None else op.index or []
        front = " ".join(text for path in fields for text in get_text_at_path(value, tokenize_path(path)))
        if op.index is False:
            tags.append(UNINDEXED_TAG)
        if op.ttl is not None:
            tags.append(f"ttl:{op.ttl:.6g}")
        return NewValue(
            _key_of(op.namespace, op.key), value, "semantic", tags, front=front[:FRONT_CHARS_MAX],
            expires_at=None if op.ttl is None else _expiry(op.ttl),
        )  # fmt: skip

    # Search

    def _search(self, op: SearchOp) -> list[SearchItem]:
        """Return the items below a prefix that pass the filter: those that the query finds, best first, then others."""
        found: list[SearchItem] = []
        seen: set[str] = set()
        wanted, prefix = op.offset + op.limit, tuple(op.namespace_prefix)
        for memory in self._candidates(op):
            if memory.id in seen or _place_of(memory)[0][: len(prefix)] != prefix:
                continue
            seen.add(memory.id)
            value = self._values.value_of(memory)
            if all(_matches(value.get(name), condition) for name, condition in (op.filter or {}).items()):
                score = memory.score if isinstance(memory, RecalledMemory) else None
                is_shown = len(found) >= op.offset
                found.append(SearchItem(**self._fields_of(memory, op.refresh_ttl and is_shown, value), score=score))
            if len(found) >= wanted:
                break
        return found[op.offset :]

    def _candidates(self, op: SearchOp) -> Iterator[MemoryView]:
        tags = [_path_tag(op.namespace_prefix)] if op.namespace_prefix else []
        if op.query:
            yield from self._recalled(op.query[:QUESTION_CHARS_MAX], tags)
        yield from self._values.newest(tags=tags)

    def _recalled(self, query: str, tags: list[str]) -> Iterator[MemoryView]:
        """Yield the memories that a query finds, best first; of a long value the one that its key names."""
        offset = 0
        while True:
            answer = self._values.client.recall(
                RecallRequest(
                    query=query, tags=tags, source=self._values.source, top_k=RECALLED_AT_ONCE, offset=offset,
                    token_budget=None, min_importance=0.0, cut="none", preferences="inline", time="off",
                    include_superseded=True, include_compressed=True,
                )
            )  # fmt: skip
            for memory in answer.memories:
                if memory.namespace != answer.namespace or UNINDEXED_TAG in memory.tags:
                    continue
                if PART_TAG not in memory.tags:
                    yield memory
                elif (whole := self._values.get(key_of_whole(memory))) is not None:
                    yield RecalledMemory(**asdict(whole), score=memory.score)
            offset += len(answer.memories)
            if len(answer.memories) < RECALLED_AT_ONCE:
                return

    def _fields_of(self, memory: MemoryView, refresh: bool, value: Any = None) -> dict[str, Any]:
        """Return the fields of an item, and renew its time to live if that is wanted."""
        if refresh and memory.expires_at is not None:
            minutes = next((float(tag.removeprefix("ttl:")) for tag in memory.tags if tag.startswith("ttl:")), 0.0)
            if memory.expires_at < _expiry(minutes * TTL_SHARE_LEFT):
                self._values.client.patch(memory.id, expires_at=_expiry(minutes))
        namespace, key = _place_of(memory)
        return {
            "value": self._values.value_of(memory) if value is None else value, "key": key, "namespace": namespace,
            "created_at": _time_of(memory.created_at), "updated_at": _time_of(memory.modified_at),
        }  # fmt: skip


def _key_of(namespace: Namespace, key: str) -> str:
    """Return the key of an item's memory."""
    return json.dumps([*namespace, key], ensure_ascii=False, separators=(",", ":"))


def _place_of(memory: MemoryView) -> tuple[Namespace, str]:
    """Return the namespace and key of an item."""
    *namespace, key = json.loads(memory.key or "[]")
    return tuple(namespace), key


def _path_tag(namespace: Namespace) -> str:
    """Return the tag of all items at or below a namespace. Tags are short and lower-cased, so it is a digest."""
    return f"in:{sha256(json.dumps(namespace).encode()).hexdigest()[:24]}"


def _expiry(minutes: float) -> int:
    return int((time.time() + minutes * 60) * 1000) + 1


def _time_of(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _is_match(condition: MatchCondition, namespace: Namespace) -> bool:
    path = condition.path
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}


def _matches(value: Any, condition: Any) -> bool:
    """Return whether a value passes a condition of a filter: equal, or by its operators. Raises ValueError."""
    if isinstance(condition, dict):
        if any(name.startswith("$") for name in condition):
            return all(_passes(value, name, bound) for name, bound in condition.items())
        return isinstance(value, dict) and all(_matches(value.get(name), part) for name, part in condition.items())
    if isinstance(condition, (list, tuple)):
        return (
            isinstance(value, (list, tuple)) and len(value) == len(condition) and all(map(_matches, value, condition))
        )
    return bool(value == condition)


def _passes(value: Any, operator: str, bound: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return (value == bound) is (operator == "$eq")
    if operator not in _ORDERS:
        raise ValueError(f"unknown operator {operator}: use $eq, $ne, $gt, $gte, $lt or $lte")
    if value is None:
        return False
    try:
        return _ORDERS[operator](float(value), float(bound))
    except (TypeError, ValueError):
        return False
