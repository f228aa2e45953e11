"""`mnemo serve mem0`: the requests that the client of mem0 2.2.1 sends, and the shapes that it and its users read.

The client itself needs 200 MB of packages, so the requests are written here as its source builds them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.running_daemon import RunningDaemon
from tests.support.served_routes import ServedMemory, serving

LIFE = "I live in Porto and I am allergic to nuts. My sister Clara works at Siemens."


@pytest.fixture(scope="module")
def mem0(daemon: RunningDaemon) -> Iterator[ServedMemory]:
    with serving("mem0", daemon, "mem0") as served:
        yield served


def add(mem0: ServedMemory, text: str, **fields: Any) -> list[dict[str, Any]]:
    body = {"messages": [{"role": "user", "content": text}], **fields}
    results: list[dict[str, Any]] = mem0.value("POST", "/v3/memories/add/", body)["results"]
    return results


def listed(mem0: ServedMemory, **filters: Any) -> list[str]:
    return sorted(each["memory"] for each in mem0.value("POST", "/v3/memories/", {"filters": filters})["results"])


def test_the_client_begins_with_a_ping_that_names_organisation_and_project(mem0: ServedMemory) -> None:
    assert mem0.ask("GET", "/v1/ping/", scheme="Token").value == {
        "status": "ok", "org_id": "mnemo", "project_id": "mem0", "user_email": None,
    }  # fmt: skip
    refused = mem0._replace(token="wrong").ask("GET", "/v1/ping/")
    assert (refused.status, "no valid token" in refused.value["detail"]) == (401, True), "as its client reads it"


def test_a_token_file_keeps_the_token(daemon: RunningDaemon, tmp_path: Path) -> None:
    file = tmp_path / "token"
    tokens = []
    for _ in range(2):
        with serving("mem0", daemon, "mem0", "--token-file", str(file)) as served:
            tokens.append(served.token)
            assert served.ask("GET", "/v1/ping/", headers={"Origin": "http://other.example"}).status == 403
    assert tokens == [file.read_text().strip()] * 2
    assert file.stat().st_mode & 0o777 == 0o600


def test_statements_are_memories_and_the_message_behind_them_is_hidden(mem0: ServedMemory) -> None:
    added = add(mem0, LIFE, filters={"user_id": "ines"}, metadata={"topic": "life", "n": 3})
    texts = ["I am allergic to nuts.", "I live in Porto.", "My sister Clara works at Siemens."]
    assert sorted(each["memory"] for each in added) == texts
    assert {each["event"] for each in added} == {"ADD"}
    assert listed(mem0, user_id="ines") == texts
    found = mem0.value(
        "POST", "/v3/memories/search/", {"query": "Who works at Siemens?", "filters": {"user_id": "ines"}}
    )
    best = found["results"][0]
    assert (best["memory"], best["metadata"]) == (texts[2], {"topic": "life", "n": 3})
    assert set(best) == {
        "id", "memory", "user_id", "agent_id", "app_id", "run_id", "metadata", "categories", "created_at", "updated_at",
        "expiration_date", "score",
    }  # fmt: skip
    for each in added[:2]:
        assert mem0.value("DELETE", f"/v1/memories/{each['id']}/") == {"message": "Memory deleted successfully!"}
    assert listed(mem0, user_id="ines") == [added[2]["memory"]]  # and not the message again


def test_all_of_a_user_is_deleted_with_the_messages(mem0: ServedMemory, daemon: RunningDaemon) -> None:
    assert len(add(mem0, "I work in Bergen. My brother Olav owns a sawmill in Molde.", user_id="tom")) == 2
    add(mem0, "Sailing is a sport with sails.", user_id="tom", infer=False)
    add(mem0, "Clara sails too.", user_id="clara", infer=False)
    assert mem0.ask("DELETE", "/v1/memories/").status == 400
    deleted = mem0.value("DELETE", "/v1/memories/?filters=%7B%27user_id%27%3A+%27tom%27%7D")
    assert deleted == {"message": "Memories deleted successfully!"}
    with daemon.client("mem0") as client:
        assert [memory.kind for memory in client.list_memories(user_id="tom").memories] == []
    assert listed(mem0, user_id="clara") == ["Clara sails too."]


def test_a_memory_is_read_changed_and_has_a_history(mem0: ServedMemory) -> None:
    [added] = add(mem0, "The raw text stays.", user_id="bo", infer=False, metadata={"v": 1}, timestamp=1_700_000_000)
    path = f"/v1/memories/{added['id']}/"
    assert mem0.value("GET", path)["metadata"] == {"v": 1}
    changed = mem0.value(
        "PUT", path, {"text": "It was changed.", "metadata": {"v": 2}, "expiration_date": "2999-01-31"}
    )
    assert (changed["memory"], changed["metadata"], changed["expiration_date"]) == (
        "It was changed.", {"v": 2}, "2999-01-31",
    )  # fmt: skip
    assert mem0.value("PUT", path, {"expiration_date": None})["expiration_date"] is None
    mem0.value("PUT", "/v1/batch/", {"memories": [{"memory_id": added["id"], "text": "Third."}]})
    mem0.value("DELETE", "/v1/batch/", {"memories": [{"memory_id": added["id"]}]})
    events = mem0.value("GET", f"{path}history/")
    assert [(each["event"], each["old_memory"], each["new_memory"]) for each in events] == [
        ("ADD", None, "The raw text stays."),
        ("UPDATE", "The raw text stays.", "It was changed."),
        ("UPDATE", "It was changed.", "Third."),
        ("DELETE", "Third.", None),
    ]
    assert mem0.ask("GET", path).status == 404
    assert "was deleted" in mem0.ask("GET", path).value["detail"]


def test_filters_combine_users_agents_runs_apps_and_metadata(mem0: ServedMemory) -> None:
    add(mem0, "Tea is hot.", agent_id="a1", run_id="r1", infer=False, metadata={"n": 5})
    add(mem0, "Soup is warm.", user_id="kim", app_id="My App", infer=False, metadata={"n": 7})
    assert listed(mem0, agent_id="a1") == ["Tea is hot."]
    assert listed(mem0, AND=[{"run_id": "r1"}, {"metadata": {"n": {"gte": 6}}}]) == []
    assert listed(mem0, OR=[{"agent_id": "a1"}, {"app_id": "My App"}]) == ["Soup is warm.", "Tea is hot."]
    assert listed(mem0, OR=[{"user_id": "kim"}, {"user_id": "none"}], memory={"icontains": "SOUP"}) == ["Soup is warm."]
    assert listed(mem0, user_id={"in": ["kim"]}, NOT=[{"metadata": {"n": 7}}]) == []
    assert listed(mem0, user_id="*", app_id="My App") == ["Soup is warm."]
    assert mem0.ask("POST", "/v3/memories/", {"filters": {"user_id": "kim", "colour": 1}}).status == 400
    pages = mem0.value(
        "POST", "/v3/memories/?page=2&page_size=1", {"filters": {"OR": [{"agent_id": "a1"}, {"user_id": "kim"}]}}
    )
    assert (pages["count"], len(pages["results"]), pages["next"] is None, pages["previous"] is None) == (
        2,
        1,
        True,
        False,
    )


def test_entities_are_listed_and_deleted(mem0: ServedMemory) -> None:
    add(mem0, "Uma paints.", user_id="uma x", infer=False)
    named = {
        (each["type"], each["name"]): each["total_memories"] for each in mem0.value("GET", "/v1/entities/")["results"]
    }
    assert named["user", "uma x"] == 1
    assert mem0.value("DELETE", "/v2/entities/user/uma%20x/") == {"message": "Entity deleted successfully!"}
    assert listed(mem0, user_id="uma x") == []
    assert mem0.ask("DELETE", "/v2/entities/user/uma%20x/").status == 404


def test_what_is_not_served_is_said(mem0: ServedMemory) -> None:
    body = {"messages": [{"role": "user", "content": "x"}], "user_id": "u", "custom_instructions": "y"}
    refused = mem0.ask("POST", "/v3/memories/add/", body)
    assert (refused.status, "custom_instructions" in refused.value["detail"]) == (400, True)
    assert mem0.ask("POST", "/v1/exports/", {}).value == {"detail": "mnemo does not serve POST /v1/exports/"}
    assert mem0.ask("POST", "/v3/memories/add/", {}).value == {"detail": "missing: 'messages'"}
    assert mem0.ask("GET", "/v1/memories/00000000-0000-7000-8000-000000000000/").status == 404


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/v3/memories/add/", {"messages": "x"}, '`messages` must be a list, not "x"'),
        ("/v3/memories/add/", {"messages": ["x"]}, '`messages[0]` must be an object, not "x"'),
        ("/v3/memories/add/", {"messages": [], "metadata": "x"}, '`metadata` must be an object, not "x"'),
        ("/v3/memories/search/", {"query": "x", "top_k": "a"}, '`top_k` must be a whole number, not "a"'),
        ("/v3/memories/search/", {"query": "x", "filters": "a"}, '`filters` must be an object, not "a"'),
        ("/v3/memories/search/", {"query": "x", "filters": {"AND": 5}}, "AND takes a list of filters, not 5"),
        ("/v3/memories/search/", {"query": "x", "filters": {"OR": [5]}}, "a filter must be an object, not 5"),
        ("/v3/memories/", {"filters": {"user_id": {"in": 5}}}, "`in` takes a list, not 5"),
        ("/v3/memories/?page=a", {}, '`page` must be a whole number, not "a"'),
    ],
)
def test_a_field_of_another_type_is_named(mem0: ServedMemory, path: str, body: dict[str, Any], said: str) -> None:
    refused = mem0.ask("POST", path, body)
    assert (refused.status, refused.value) == (400, {"detail": said})
