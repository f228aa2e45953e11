"""`mnemo serve engram`: the 44 routes of the source G, with its shapes. [G]"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from mnemo_client.serve.engram_routes import ROUTES
from tests.support.running_daemon import RunningDaemon
from tests.support.served_routes import ServedMemory, serving

MEMORY = {
    "id", "content", "layer", "importance", "created_at", "last_accessed", "access_count", "repetition_count",
    "decay_rate", "source", "tags", "namespace", "kind", "modified_at",
}  # fmt: skip


@pytest.fixture(scope="module")
def engram(daemon: RunningDaemon) -> Iterator[ServedMemory]:
    with serving("engram", daemon, "engram") as served:
        yield served


def stored(engram: ServedMemory, content: str, **fields: Any) -> dict[str, Any]:
    memory: dict[str, Any] = engram.value("POST", "/memories", {"content": content, **fields})
    return memory


def test_all_routes_are_served_and_listed(engram: ServedMemory) -> None:
    assert len(ROUTES) == 44
    index = engram.value("GET", "/")
    assert len(index["endpoints"]) == 44
    assert "POST /memories/batch" in index["endpoints"]
    assert "DELETE /memories/:id" in index["endpoints"]
    assert set(engram.value("GET", "/health")) >= {
        "name", "version", "uptime_secs", "rss_kb", "db_size_mb", "ai_enabled", "embed_cache", "embed_queue_pending",
        "proxy", "integrity", "stats",
    }  # fmt: skip
    for path in ("/ui", "/ui/style.css", "/ui/app.js"):
        assert "mnemo ui" in engram.value("GET", path)
    assert engram._replace(token="wrong").ask("GET", "/health").status == 401


def test_a_memory_is_stored_merged_changed_and_deleted(engram: ServedMemory) -> None:
    first = engram.ask(
        "POST", "/memories", {"content": "The boiler is serviced in May.", "tags": ["house"], "layer": 3}
    )
    assert (first.status, first.value["merged"], set(first.value) - {"merged"}) == (201, False, MEMORY)
    assert (first.value["layer"], first.value["tags"]) == (1, ["house"])  # every memory begins in the buffer
    again = engram.ask("POST", "/memories", {"content": "The boiler is serviced in May."})
    assert (again.status, again.value["merged"], again.value["id"]) == (200, True, first.value["id"])
    path = f"/memories/{first.value['id'][-8:]}"
    changed = engram.value("PATCH", path, {"importance": 0.9, "kind": "procedural", "layer": 2})
    assert (changed["importance"], changed["kind"], changed["layer"]) == (0.9, "procedural", 1)
    assert engram.value("GET", path)["content"] == "The boiler is serviced in May."
    assert engram.ask("POST", "/memories", {"content": "x", "kind": "odd"}).status == 400
    assert "error" in engram.ask("POST", "/memories", {"content": "x", "colour": 1}).value
    assert engram.value("DELETE", path) == {"deleted": 1, "id": first.value["id"]}
    trash = engram.value("GET", "/trash")
    assert (trash["count"], trash["items"][0]["id"]) == (trash["total"], first.value["id"])
    assert engram.value("POST", f"/trash/{first.value['id']}/restore", {})["restored"] is True
    engram.value("DELETE", "/memories", {"ids": [first.value["id"]]})
    assert engram.value("DELETE", "/trash")["purged"] >= 1


def test_a_batch_names_what_it_could_not_store(engram: ServedMemory) -> None:
    batch = [{"content": "Roses are cut in autumn."}, {"content": ""}, {"kind": "semantic"}, {"content": "x", "odd": 1}]
    answer = engram.value("POST", "/memories/batch", {"memories": batch})
    assert (answer["inserted"], answer["requested"]) == (1, 4)
    assert sorted(each["index"] for each in answer["errors"]) == [1, 2, 3]
    assert engram.value("POST", "/memories/batch", [{"content": "Tulips are planted in autumn."}])["inserted"] == 1
    found = engram.value("GET", "/memories?layer=1&limit=1&offset=1")
    assert (len(found["memories"]), found["limit"], found["offset"]) == (1, 1, 1)
    assert engram.ask("GET", "/memories?layer=7").status == 400


def test_recall_search_and_lists_have_its_shapes(engram: ServedMemory) -> None:
    memory = stored(engram, "The ferry to Samsoe leaves at nine.", tags=["trip", "trigger:travel"], importance=0.8)
    answer = engram.value("POST", "/recall", {"query": "When does the ferry leave?", "limit": 3, "tags": ["trip"]})
    assert answer["memories"][0]["id"] == memory["id"][-8:]
    assert set(answer["memories"][0]) == {"id", "content", "score", "layer", "tags", "kind"}
    assert set(answer) == {"memories", "query", "total", "expanded_queries", "fact_chains"}
    assert engram.value("GET", "/search?q=ferry&limit=5")["memories"][0]["id"] == memory["id"]
    assert memory["id"] in [
        each["id"] for each in engram.value("GET", "/recent?hours=1&min_importance=0.7")["memories"]
    ]
    triggers = engram.value("GET", "/triggers/travel")
    assert (triggers["action"], triggers["count"], triggers["memories"][0]["id"]) == ("travel", 1, memory["id"])
    resume = engram.value("GET", "/resume?compact=true")
    assert set(resume) >= {"core", "recent", "topics", "triggers"}
    assert isinstance(engram.value("GET", "/resume?format=text&budget=100"), str)
    extracted = engram.value("POST", "/extract", {"text": "Tom owns a bakery in Porto. Tom employs two bakers."})
    assert "Tom owns a bakery in Porto." in [each["content"] for each in extracted["memories"]]


def test_facts_are_inserted_followed_and_removed(engram: ServedMemory) -> None:
    given = [
        {"subject": "Ines", "predicate": "manages", "object": "the harbour"},
        {"subject": "the harbour", "predicate": "lies in", "object": "Kiel"},
    ]
    answer = engram.ask("POST", "/facts", {"facts": given})
    assert (answer.status, set(answer.value)) == (201, {"facts", "conflicts", "resolved"})
    assert engram.value("GET", "/facts?entity=Ines")["count"] == 1
    assert engram.value("GET", "/facts/all?limit=1")["count"] == 1
    chains = engram.value("GET", "/facts/graph?entity=Ines&hops=2")["chains"]
    assert ["Kiel"] in [[link["object"] for link in chain][-1:] for chain in chains]
    assert engram.value("GET", "/facts/conflicts") == {"conflicts": []}
    assert engram.value("GET", "/facts/history?subject=Ines")["history"][0]["predicate"] == "manages"
    assert engram.value("DELETE", f"/facts/{answer.value['facts'][0]['id']}") == {"deleted": True}
    assert engram.value("GET", "/facts?entity=Ines")["count"] == 0


def test_exports_are_imported_and_namespaces_deleted(engram: ServedMemory) -> None:
    stored(engram, "The attic is dry.", namespace="attic")
    exported = engram.value("GET", "/export?ns=attic")
    assert (exported["count"], exported["memories"][0]["content"]) == (1, "The attic is dry.")
    assert engram.ask("DELETE", "/memories", {"namespace": "attic"}).status == 400
    assert engram.value("DELETE", "/memories", {"namespace": "attic", "confirm": True}) == {"deleted": 1}
    moved = [{**each, "id": each["id"][:-4] + "abcd", "namespace": "loft"} for each in exported["memories"]]
    assert engram.value("POST", "/import", {"memories": moved}) == {"imported": 1, "skipped": 0}
    facts = engram.value("POST", "/import/facts", {"text": "1. Ada keeps goats.\n2) Bo has a kiln.\n"})
    assert (facts["imported"], facts["total_facts"], facts["memories"][1]["content"]) == (2, 2, "Bo has a kiln.")
    assert engram.value("POST", "/import", {"text": "Uma owns a mill in Riga."})["count"] == 1


NAMED = {  # what a route answers about a namespace, and what tells that it was asked
    "/memories": lambda value: value["memories"],
    "/search?q=cistern": lambda value: value["memories"],
    "/recent?hours=1": lambda value: value["memories"],
    "/triggers/plumbing": lambda value: value["memories"],
    "/export": lambda value: value["memories"],
    "/facts?entity=Ulla": lambda value: value["facts"],
    "/facts/all": lambda value: value["facts"],
    "/facts/graph?entity=Ulla": lambda value: value["chains"],
    "/facts/history?subject=Ulla": lambda value: value["history"],
    "/stats": lambda value: value["total"],
}  # fmt: skip


@pytest.fixture(scope="module")
def cellar(engram: ServedMemory) -> None:
    """A namespace with a memory and a fact, written by the parameter `ns`."""
    fields = {"content": "The cistern holds 300 litres.", "tags": ["trigger:plumbing"]}
    engram.value("POST", "/memories?ns=cellar", fields)
    engram.value("POST", "/facts?ns=cellar", {"facts": [{"subject": "Ulla", "predicate": "mends", "object": "it"}]})


@pytest.mark.parametrize("path", NAMED)
@pytest.mark.usefixtures("cellar")
def test_ns_chooses_the_namespace_of_every_route(engram: ServedMemory, path: str) -> None:
    joint = "&" if "?" in path else "?"
    assert NAMED[path](engram.value("GET", f"{path}{joint}ns=cellar"))
    assert not NAMED[path](engram.value("GET", f"{path}{joint}ns=nowhere"))


@pytest.mark.usefixtures("cellar")
def test_ns_chooses_the_namespace_of_a_recall_and_a_resume(engram: ServedMemory) -> None:
    for namespace, is_there in (("cellar", True), ("nowhere", False)):
        recalled = engram.value("POST", f"/recall?ns={namespace}", {"query": "How much does the cistern hold?"})
        assert bool(recalled["memories"]) is is_there
        resumed = engram.value("GET", f"/resume?ns={namespace}&format=text")
        assert ("cistern" in resumed) is is_there


def test_maintenance_answers_in_its_counts(engram: ServedMemory) -> None:
    preview = engram.value("POST", "/consolidate?dry_run=true", {})
    assert set(preview) == {f"would_{name}" for name in (
        "promoted", "decayed", "demoted", "merged", "reconciled", "triaged", "distilled")}  # fmt: skip
    assert set(engram.value("POST", "/consolidate", {})) == {name.removeprefix("would_") for name in preview}
    assert engram.ask("POST", "/consolidate", {"promote_threshold": 3}).status == 400
    assert set(engram.value("POST", "/audit", {})) == {"reviewed", "proposed", "waiting"}
    assert set(engram.value("POST", "/repair?force=true", {})) == {
        "orphans_removed", "fts_rebuilt", "embed_backfill_queued",
    }  # fmt: skip
    assert engram.value("POST", "/vacuum?full=true", {})["freed_bytes"] >= 0
    assert engram.value("GET", "/llm-usage?days=7")["days"] == 7
    assert "bounded" in engram.ask("DELETE", "/llm-usage").value["error"]
    assert set(engram.value("GET", "/stats")) == {"total", "buffer", "working", "core", "by_kind", "namespaces"}


def test_topics_and_the_proxy_answer_without_any(engram: ServedMemory) -> None:
    assert engram.value("GET", "/topiary/tree") == {"tree": [], "topics": 0}
    assert engram.value("POST", "/topic", {"ids": ["kb1"]}) == engram.value("GET", "/topic?ids=kb1") == {}
    assert engram.value("POST", "/proxy/flush", {})["status"] == "disabled"
    assert engram.value("GET", "/proxy/window")["sessions"] == {}
    assert re.search("mnemo proxy", engram.ask("POST", "/proxy/v1/chat/completions", {}).value["error"])
