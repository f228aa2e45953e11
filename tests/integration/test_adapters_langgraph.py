"""LangGraph's store on the memory: its own interface, and an agent that remembers from one process to the next."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)

from mnemo_client.adapters import langgraph as adapter
from mnemo_client.adapters.langgraph import MnemoStore
from mnemo_client.client import Client
from mnemo_client.errors import UnreachableError
from tests.support.adapter_programs import run_example, run_program
from tests.support.running_daemon import RunningDaemon


@pytest.fixture
def store(daemon: RunningDaemon, request: pytest.FixtureRequest) -> Iterator[MnemoStore]:
    """A store in a namespace of the test."""
    with daemon.client(f"lg-{abs(hash(request.node.name)) % 10**8}") as client:
        yield MnemoStore(client)


def values(items: Sequence[Item]) -> list[tuple[str, object]]:
    return [(item.key, item.value) for item in items]


def test_an_item_is_stored_replaced_and_deleted(store: MnemoStore) -> None:
    value = {
        "likes": "pasta\n\n\n\nalla norma",
        "NFD": "u\u0308",
        "since": 2019,
        "nested": {"deep": [1, None, True, 2.5]},
    }
    store.put(("users", "ines"), "food", value)
    first = store.get(("users", "ines"), "food")
    assert first is not None
    assert (first.value, first.key, first.namespace) == (value, "food", ("users", "ines"))
    store.put(("users", "ines"), "food", {"likes": "soup"})
    second = store.get(("users", "ines"), "food")
    assert second is not None
    assert (second.value, second.created_at) == ({"likes": "soup"}, first.created_at)
    assert second.updated_at >= first.updated_at
    assert store.get(("users",), "food") is None
    assert store.get(("USERS", "ines"), "food") is None
    store.delete(("users", "ines"), "food")
    assert store.get(("users", "ines"), "food") is None


def test_the_versions_of_an_item_are_kept(store: MnemoStore) -> None:
    for place in ("Kiel", "Porto"):
        store.put(("trips",), "next", {"to": place})
    client = store._values.client
    [memory] = client.list_memories(source="langgraph").memories
    assert [version.memory.content for version in client.history(memory.id).versions] == [
        '{"to":"Porto"}', '{"to":"Kiel"}',
    ]  # fmt: skip


def test_a_value_that_differs_in_case_or_spaces_alone_replaces_the_former(store: MnemoStore) -> None:
    for text in ("Kiel", "kiel", "ki el", "Kiel"):
        store.put(("place",), "k", {"v": text})
        assert store.get(("place",), "k").value == {"v": text}  # type: ignore[union-attr]


def test_values_of_any_length_are_whole_and_found_by_each_part(store: MnemoStore) -> None:
    pages = [
        f"Page {number} of the logbook: wind from the {'north' if number % 2 else 'south'}." for number in range(500)
    ]
    pages[480] = "The anchor chain broke off Helgoland."
    store.put(("log",), "may", {"pages": pages})
    store.put(("log",), "june", {"pages": ["calm"]})
    item = store.get(("log",), "may")
    assert item is not None
    assert item.value == {"pages": pages}
    assert store.search(("log",), query="anchor chain Helgoland", limit=1)[0].value == {"pages": pages}
    assert {each.key for each in store.search(("log",))} == {"may", "june"}
    store.put(("log",), "may", {"pages": pages[:300]})
    assert values(store.search(("log",), filter={"pages": pages[:300]})) == [("may", {"pages": pages[:300]})]
    store.put(("log",), "may", {"pages": ["short"]})
    assert len(store._values.client.list_memories(source="langgraph").memories) == 2
    store.put(("log",), "may", {"pages": pages})
    store.delete(("log",), "may")
    assert len(store._values.client.list_memories(source="langgraph").memories) == 1


def test_a_search_is_restricted_to_its_prefix_filter_and_page(store: MnemoStore) -> None:
    for number in range(12):
        store.put(("docs", "a" if number % 2 else "b"), f"d{number:02}", {"n": number, "kind": {"of": "report"}})
    store.put(("docs2",), "other", {"n": 3})
    newest_first = [f"d{number:02}" for number in range(11, -1, -1)]
    assert [item.key for item in store.search(("docs",), limit=20)] == newest_first
    assert [item.key for item in store.search(("docs",), limit=5, offset=4)] == newest_first[4:9]
    assert [item.key for item in store.search(("docs", "a"), filter={"n": {"$gte": 5, "$lt": 9}})] == ["d07", "d05"]
    assert [item.key for item in store.search(["docs"], limit=2)] == newest_first[:2]  # type: ignore[arg-type]
    assert [item.key for item in store.search((), filter={"n": 3})] == ["other", "d03"]
    assert store.search(("docs",), filter={"kind": {"of": "report"}, "n": {"$ne": 0}}, limit=20)[-1].key == "d01"
    assert store.search(("docs",), filter={"n": {"$gt": "x"}}) == []
    with pytest.raises(ValueError, match="unknown operator"):
        store.search(("docs",), filter={"n": {"$like": 1}})


def test_a_query_puts_what_it_finds_first_with_a_score_and_skips_what_is_not_indexed(store: MnemoStore) -> None:
    store.put(("facts",), "boiler", {"text": "The boiler is serviced in May."})
    store.put(("facts",), "garden", {"text": "Roses are cut in autumn."})
    store.put(("facts",), "hidden", {"text": "The boiler manual is in the cellar."}, index=False)
    store.put(("facts",), "plain", {"a": {"title": "heating"}, "b": "x"}, index=["a.title"])
    found = store.search(("facts",), query="When is the boiler serviced?")
    assert (found[0].key, found[0].score is not None) == ("boiler", True)
    assert [item.score for item in found if item.key == "hidden"] == [None]
    assert {item.key for item in found} == {"boiler", "garden", "hidden", "plain"}
    assert store.get(("facts",), "plain").value == {"a": {"title": "heating"}, "b": "x"}  # type: ignore[union-attr]


def test_namespaces_are_listed_by_prefix_suffix_and_depth(store: MnemoStore) -> None:
    for namespace in (("a", "b", "c"), ("a", "b", "d"), ("a", "x"), ("z", "c")):
        store.put(namespace, "k", {"v": 1})
    assert store.list_namespaces(prefix=("a",), max_depth=2) == [("a", "b"), ("a", "x")]
    assert store.list_namespaces(suffix=("c",)) == [("a", "b", "c"), ("z", "c")]
    assert store.list_namespaces(prefix=("*", "b"), limit=1, offset=1) == [("a", "b", "d")]


def test_an_item_expires_and_a_read_renews_it(store: MnemoStore) -> None:
    client = store._values.client

    def expiry() -> int:
        [memory] = client.list_memories(source="langgraph").memories
        assert memory.expires_at is not None
        return memory.expires_at

    store.put(("short",), "k", {"v": 1}, ttl=60.0)
    first = expiry()
    [memory] = client.list_memories(source="langgraph").memories
    client.patch(memory.id, expires_at=first - 30 * 60_000)
    store.get(("short",), "k", refresh_ttl=False)
    assert expiry() == first - 30 * 60_000
    store.get(("short",), "k")
    assert expiry() >= first
    version = client.get(memory.id).version
    store.get(("short",), "k")
    assert client.get(memory.id).version == version  # nothing to renew yet
    store.put(("short",), "k", {"v": 1})
    assert client.get(memory.id).expires_at is None


def test_a_batch_reads_what_was_there_before_it_writes(store: MnemoStore) -> None:
    store.put(("b",), "k", {"v": 0})
    condition = MatchCondition("prefix", ("b",))
    ops: list[Op] = [
        PutOp(("b",), "k", {"v": 1}), GetOp(("b",), "k"), PutOp(("b",), "k", {"v": 2}), SearchOp(("b",)),
        ListNamespacesOp((condition,)), PutOp(("b",), "gone", None),
    ]  # fmt: skip
    results = asyncio.run(store.abatch(ops))
    assert isinstance(results[1], Item)
    assert (results[0], results[1].value, results[4]) == (None, {"v": 0}, [("b",)])
    assert store.get(("b",), "k").value == {"v": 2}  # type: ignore[union-attr]


def test_what_cannot_be_kept_is_refused_before_anything_is_stored(store: MnemoStore) -> None:
    with pytest.raises(ValueError, match="at most 240"):
        store.batch([PutOp(("ok",), "k", {"v": 1}), PutOp(("long",), "k" * 300, {"v": 1})])
    with pytest.raises(ValueError, match="at most 15"):
        store.put(tuple("abcdefghijklmnop"), "k", {"v": 1})
    with pytest.raises(TypeError):
        store.put(("ok",), "k", {"v": object()})
    assert store.search(()) == []
    with pytest.raises(UnreachableError):
        MnemoStore(Client("no-such.sock")).get(("a",), "k")


@pytest.mark.parametrize("label", ["a.b", "", "\0", 1])
def test_operations_with_a_wrong_label_are_refused_before_anything_is_stored(store: MnemoStore, label: Any) -> None:
    for op in (PutOp((label,), "k", {}), GetOp((label,), "k"), SearchOp((label,))):
        with pytest.raises(InvalidNamespaceError):
            store.batch([PutOp(("labels",), "k", {"v": 1}), op])
    assert store.get(("labels",), "k") is None


def test_the_example_of_the_module_runs(daemon: RunningDaemon) -> None:
    lines = run_example(adapter, daemon, leave_out=("graph =",))
    assert lines["store.get"] == "'pasta'"
    assert "'food'" in lines["store.search"]


AGENT = """
import sys
from typing import TypedDict
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from mnemo_client.adapters.langgraph import MnemoStore

class State(TypedDict):
    said: str
    reply: str

def model(state: State, store: BaseStore) -> State:  # scripted: it remembers statements, and answers questions
    if state["said"].endswith("?"):
        found = store.search(("people",), query=state["said"], limit=1)
        return {"said": state["said"], "reply": found[0].value["text"]}
    store.put(("people",), "note", {"text": state["said"]})
    return {"said": state["said"], "reply": "noted"}

def node(state: State, runtime: Runtime) -> State:
    return model(state, runtime.store)

builder = StateGraph(State).add_node("model", node).add_edge(START, "model").add_edge("model", END)
print(builder.compile(store=MnemoStore()).invoke({"said": sys.argv[1], "reply": ""})["reply"])
"""


def test_an_agent_remembers_in_one_process_and_recalls_in_the_next(daemon: RunningDaemon) -> None:
    assert run_program(AGENT, daemon, "Ines keeps bees in Porto.") == "noted\n"
    assert run_program(AGENT, daemon, "Where does Ines keep bees?") == "Ines keeps bees in Porto.\n"
