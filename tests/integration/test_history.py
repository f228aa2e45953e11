"""History through the socket: as_of, versions, diff, undo; and, with a small model, what is meant as of a time."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.memories import Patch
from mnemo_client.protocol.retrieval import RecallRequest
from mnemo_core.retrieval.ranking.rankers import words_held
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.retrieval.candidates import candidate_retrieval
from mnemo_store.indexes.lexical import LexicalFields
from tests.integration.test_memory_routes import fresh
from tests.support.erasure_services import wait_until
from tests.support.running_daemon import RunningDaemon
from tests.support.store_services import StoreServices, services_in


def later(client: Client) -> int:
    """A moment behind everything that was done so far, in ms of the daemon's clock; what comes next is behind it."""
    time.sleep(0.003)
    now = time.time_ns() // 1_000_000
    time.sleep(0.003)
    return now


@pytest.fixture
def moved(client: Client) -> dict[str, Any]:
    """A namespace whose first memory was edited, trashed and restored, and the moments in between."""
    space = fresh()
    before = later(client)
    memory = client.remember("The spare key is with Ines.", namespace=space, tags=["home"]).memory
    stored = later(client)
    client.patch(memory.id, Patch(content="The spare key is with Otto.", tags=["house"]))
    edited = later(client)
    client.delete(memory.id)
    trashed = later(client)
    client.restore(memory.id)
    other = client.remember("The bins go out on Tuesday.", namespace=space).memory
    return {"space": space, "id": memory.id, "other": other.id, "before": before, "stored": stored, "edited": edited,
            "trashed": trashed}  # fmt: skip


def test_every_reading_route_tells_what_was_there_at_a_time(client: Client, moved: dict[str, Any]) -> None:
    space, key = moved["space"], moved["id"]

    def told(at: Any) -> list[list[str]]:
        recalled = client.recall(RecallRequest(query="spare key bins", as_of=at, namespace=space))
        searched = client.search("spare key bins", as_of=at, namespace=space)
        listed = client.list_memories(as_of=at, namespace=space)
        recent = client.recent(as_of=at, namespace=space)
        assert recent.total == len([memory for memory in recent.memories if memory.namespace == space]) or at is None
        answers = (recalled.memories, searched.memories, listed.memories, recent.memories)
        return [sorted(memory.content for memory in rows if memory.namespace == space) for rows in answers]

    assert told(moved["before"]) == [[]] * 4
    assert told(moved["stored"]) == [["The spare key is with Ines."]] * 4
    assert told(moved["edited"]) == [["The spare key is with Otto."]] * 4
    assert told(moved["trashed"]) == [[]] * 4
    assert told(None) == [["The bins go out on Tuesday.", "The spare key is with Otto."]] * 4
    assert (client.get(key, moved["stored"]).content, client.get(key, moved["stored"]).version) == (
        "The spare key is with Ines.", 1
    )  # fmt: skip
    with pytest.raises(RefusalError, match="was in the trash at that time"):
        client.get(key, moved["trashed"])
    with pytest.raises(RefusalError, match="was not there at that time"):
        client.get(key, moved["before"])


def test_a_time_is_milliseconds_or_iso_text_or_a_span_back_from_now(client: Client, moved: dict[str, Any]) -> None:
    space, key = moved["space"], moved["id"]
    iso = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moved["before"] / 1000 - 1))
    for text in (iso, "1h", "3d", "yesterday", 0, str(moved["before"] - 1000)):
        assert client.list_memories(as_of=text, namespace=space).memories == []
        assert client.recall(RecallRequest(query="key", as_of=text, namespace=space)).total == 0
    assert client.get(key, "2099-01-01").content == "The spare key is with Otto."
    for text in ("someday", "3 dogs", "99999999999999999999"):
        with pytest.raises(RefusalError) as refused:
            client.get(key, text)
        assert (refused.value.code, refused.value.field) == ("bad_value", "as_of")
        assert "like 2026-03-01" in refused.value.message
    with pytest.raises(RefusalError, match="cannot list trashed"):
        client.list_memories(as_of="1h", states=["trashed"], namespace=space)


def test_what_has_expired_since_is_shown_for_the_time_before(client: Client) -> None:
    space, soon = fresh(), time.time_ns() // 1_000_000 + 150
    memory = client.remember("The ferry runs until tonight.", namespace=space, expires_at=soon).memory
    at = later(client)
    wait_until(lambda: client.list_memories(namespace=space).memories == [])
    asked: dict[str, Any] = {"namespace": space, "as_of": at}
    answers = (client.list_memories(**asked), client.search("ferry", **asked), client.recall("ferry", **asked))
    assert [[row.id for row in answer.memories] for answer in answers] == [[memory.id]] * 3
    dated = client.recall("ferry", **asked, now=soon)  # who says what now is, is taken at their word
    assert dated.memories == []


def test_asking_for_another_time_counts_as_no_use(client: Client, moved: dict[str, Any]) -> None:
    for _ in range(3):
        client.recall(RecallRequest(query="spare key", as_of=moved["edited"], namespace=moved["space"]))
    client.recall("bins Tuesday", namespace=moved["space"])  # a use, which is written together with what came before
    wait_until(lambda: client.get(moved["other"]).access_count == 1)
    assert client.get(moved["id"]).access_count == 0


def test_the_history_tells_of_every_version_page_by_page(client: Client, moved: dict[str, Any]) -> None:
    client.delete(moved["id"])
    answer = client.history(moved["id"])
    assert [(row.what, row.by, row.memory.version, row.memory.state) for row in answer.versions] == [
        ("rm", "api", 5, "trashed"),
        ("restore", "api", 4, "active"),
        ("rm", "api", 3, "trashed"),
        ("edit", "api", 2, "active"),
        ("add", "api", 1, "active"),
    ]
    assert answer.cursor is None
    page = client.history(moved["id"], limit=2)
    rest = client.history(moved["id"], limit=3, cursor=page.cursor)
    assert [row.seq for row in (*page.versions, *rest.versions)] == [row.seq for row in answer.versions]
    assert rest.cursor is None


def test_a_diff_tells_what_was_added_changed_and_removed(client: Client, moved: dict[str, Any]) -> None:
    space, key, other = moved["space"], moved["id"], moved["other"]
    answer = client.diff(moved["stored"], namespace=space)
    assert [(row.id, row.how) for row in answer.added] == [(other, "added")]
    (changed,) = answer.changed
    assert (changed.id, changed.how, changed.fields) == (key, "changed", ["content", "tags"])
    assert changed.before == {"content": "The spare key is with Ines.", "tags": ["home"]}
    assert changed.after == {"content": "The spare key is with Otto.", "tags": ["house"]}
    assert answer.removed == []
    assert answer.namespace == space
    gone = client.diff(moved["stored"], until=moved["trashed"], namespace=space)
    assert [(row.id, row.how, row.what) for row in gone.removed] == [(key, "trashed", "rm")]
    assert gone.removed[0].memory is not None
    assert gone.removed[0].memory.content == "The spare key is with Ines."
    back = client.diff(f"seq:{gone.until_seq}", namespace=space)
    assert [(row.id, row.how) for row in back.added] == [(other, "added"), (key, "restored")]
    assert client.diff("seq:999999999", namespace=space).added == []
    everything = client.diff(moved["before"], namespace="*")
    assert {key, other} <= {row.id for row in everything.added}


def test_a_diff_is_read_page_by_page(client: Client) -> None:
    space = fresh()
    since = f"seq:{client.status().seq}"
    ids = [client.remember(f"Item {number}.", namespace=space).memory.id for number in range(5)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = client.diff(since, limit=2, cursor=cursor, namespace=space)
        seen += [row.id for row in page.added]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == ids[::-1]


@pytest.mark.parametrize(
    ("since", "until", "field"), [("seq:x", None, "since"), ("soon", None, "since"), ("seq:3", "seq:2", "until")]
)
def test_a_diff_of_no_span_is_refused(client: Client, since: str, until: str | None, field: str) -> None:
    with pytest.raises(RefusalError) as refused:
        client.diff(since, until=until)
    assert (refused.value.code, refused.value.field) == ("bad_value", field)


def test_an_agent_sees_nothing_sensitive_at_any_time(daemon: RunningDaemon) -> None:
    space = fresh()
    with daemon.client(space, entry_point="cli") as person, daemon.client(space, entry_point="mcp") as agent:
        since = f"seq:{person.status().seq}"
        memory = person.remember("The code of the gate is written down.").memory
        at = later(person)
        person.patch(memory.id, Patch(tags=["sensitive"]))
        person.patch(memory.id, Patch(importance=0.9))
        assert [row.id for row in person.diff(since).added] == [memory.id]
        assert agent.diff(since).added == []
        assert agent.list_memories(as_of=at).memories == []
        assert agent.search("gate code", as_of=at).memories == []
        assert agent.recall(RecallRequest(query="gate code", as_of=at)).memories == []
        assert [hit.id for hit in person.search("gate code", as_of=at).memories] == [memory.id]
        for ask in (lambda: agent.get(memory.id, at), lambda: agent.history(memory.id)):
            with pytest.raises(RefusalError) as refused:
                ask()
            assert refused.value.status == 404


def test_an_undo_says_which_change_it_made_and_is_itself_undone_by_it(client: Client, moved: dict[str, Any]) -> None:
    importance = client.get(moved["id"]).importance
    client.patch(moved["id"], Patch(importance=0.9))
    seq = client.history(moved["id"]).versions[0].seq
    undone = client.undo(seq)
    assert (undone.seq, undone.seqs, undone.total, undone.ids) == (seq, [seq], 1, [moved["id"]])
    assert client.get(moved["id"]).importance == importance
    assert undone.undo_seq == client.history(moved["id"]).versions[0].seq
    client.undo(undone.undo_seq)
    assert client.get(moved["id"]).importance == 0.9


def test_obstacles_to_an_undo_are_listed_for_programs_too(client: Client, moved: dict[str, Any]) -> None:
    versions = client.history(moved["id"]).versions
    with pytest.raises(RefusalError) as refused:
        client.undo(versions[2].seq)
    assert (refused.value.status, refused.value.code) == (409, "conflict")
    came_after = [
        {"id": moved["id"], "seq": row.seq, "at": row.at, "by": "api", "what": row.what}
        for row in (versions[1], versions[0])
    ]
    assert refused.value.details["later"] == came_after
    assert f"{moved['id']} by change {versions[1].seq} (rm)" in refused.value.message


# With a model


LETTERS = ("a b c", "a b d", "x y z", "m n o", "x a q", "c c c d", "p q r s", "a z")


@pytest.fixture
def tiny(tmp_path: Path, tiny_source: Path) -> Iterator[StoreServices]:
    """A store whose memories are embedded by the tiny model, which knows letters."""
    installation.import_path(tiny_source, tmp_path / "models", allow_unverified=True)
    embedding = EmbeddingService(ModelCatalogue(tmp_path / "models"), "tiny-letters", threads=1)
    embedding.refresh()
    with services_in(tmp_path / "data", embedding) as services:
        yield services
    embedding.close()


def settle(services: StoreServices) -> None:
    wait_until(lambda: services.indexing.serving() is not None and services.indexing.progress().state == "ready")
    assert services.indexing.waiting() == 0


def compared(services: StoreServices, query: str, texts: list[str]) -> tuple[dict[str, float], dict[str, float]]:
    """By text: how much of the query it holds by words, and its cosine."""
    serving = services.indexing.serving()
    assert serving is not None
    vector = serving.embedder.encode_query(query)
    sims = {
        text: max(float(row.astype(np.float16).astype(np.float32) @ vector) for row in rows)
        for text, rows in zip(texts, serving.embedder.encode_batch(texts), strict=True)
    }
    full, *scores = services.views.lexical.score_texts(
        query, [LexicalFields(text) for text in (query, *texts)]
    ).tolist()
    held = words_held(np.array(scores, np.float32), full).tolist()
    return dict(zip(texts, held, strict=True)), sims


@pytest.mark.parametrize("are_kept", [True, False])
def test_a_changed_meaning_is_compared_with_the_statement_of_that_time(tiny: StoreServices, are_kept: bool) -> None:
    ids = [tiny.add(text) for text in LETTERS]
    if are_kept:  # else the texts had changed before they were embedded
        tiny.indexing.start()
        settle(tiny)
    tiny.at = 2000
    for number, memory_id in enumerate(ids[:5]):
        tiny.edit(memory_id, content=f"k l {LETTERS[number][0]} w")
    tiny.trash(ids[5])
    tiny.at = 3000
    tiny.add("a b c d")
    if not are_kept:
        tiny.indexing.start()
    settle(tiny)
    for query in ("a b c", "x y", "q", "m d z"):
        for ranker, expected in zip(("words", "cosine"), compared(tiny, query, list(LETTERS)), strict=True):
            recalled = tiny.recall(query, 1500, ranker=ranker)
            found = {hit.details.memory.content: hit.score for hit in recalled.hits}
            assert found == pytest.approx({text: score for text, score in expected.items() if score > 0}, abs=2e-3)
            assert (recalled.degraded, recalled.ranker) == ((), ranker)
        recalled = tiny.recall(query, 1500)
        assert (recalled.degraded, recalled.ranker) == ((), "auto")
        assert {hit.details.memory.content for hit in recalled.hits} == set(LETTERS)
        assert recalled.hits[0].channels == ("words", "vectors")


def test_vectors_that_are_not_kept_are_computed_up_to_a_bound_which_is_reported(
    tiny: StoreServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [tiny.add(text) for text in LETTERS]
    tiny.at = 2000
    for memory_id in ids:
        tiny.edit(memory_id, content="w w w", tags=(memory_id[-8:],))
    tiny.indexing.start()
    settle(tiny)
    seq = tiny.store.seq
    monkeypatch.setattr(candidate_retrieval, "HISTORICAL_TEXTS_MAX", 2)
    recalled = tiny.recall("x q", 1500)
    assert recalled.degraded == ("vectors",)
    # The best by words come first: the text that holds both, and of those that hold one the shorter.
    by_vector = {hit.details.memory.content for hit in recalled.hits if "vectors" in hit.channels}
    assert by_vector == {"x a q", "x y z"}
    assert {hit.details.memory.content for hit in recalled.hits if "words" in hit.channels} == {*by_vector, "p q r s"}
    assert tiny.store.seq == seq
