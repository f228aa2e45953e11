"""The answers in which a memory was handed out: to whom, when, and that they go with the memory. SPEC 5.5a"""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.changes import ShownAnswer
from mnemo_daemon.retrieval import recall
from mnemo_daemon.retrieval.recall import KEPT_MS, ShownRecorder
from mnemo_store.tables import SHOWINGS
from tests.support.erasure_services import wait_until
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import AT, sample_id, sample_memory
from tests.support.store_services import StoreServices, put, services_in

FERRY = "which pier has a ferry?"


@pytest.fixture
def client(daemon: RunningDaemon) -> Iterator[Client]:
    """In a namespace of the test's own."""
    with daemon.client(f"ns-{uuid.uuid4().hex[:8]}") as open_client:
        yield open_client


def shown(client: Client, memory_id: str, count: int) -> ShownAnswer:
    wait_until(lambda: client.shown(memory_id).total >= count)
    return client.shown(memory_id)


def test_a_person_sees_in_which_answers_a_memory_was_handed_out(client: Client) -> None:
    first = client.remember("Pier four has a ferry and the ferry is red.").memory.id
    second = client.remember("Pier nine has a gate.").memory.id
    client.recall(FERRY, cut="none")
    with Client(client.socket_path, client.namespace, agent="planner") as agent:
        agent.context(FERRY, cut="none", session_id="s1")
    client.resume(session_id="s2")
    answers = shown(client, first, 3).shown
    assert [(each.operation, each.by, each.session_id) for each in answers] == [
        ("resume", "api", "s2"), ("context", "api:planner", "s1"), ("recall", "api", None)
    ]  # fmt: skip
    others = shown(client, second, 3).shown
    assert [each.answer for each in others] == [each.answer for each in answers]  # they are the same answers
    assert (answers[2].rank, others[2].rank) == (1, 2)
    assert answers[0].at >= answers[1].at >= answers[2].at > 0
    page = client.shown(first, limit=2)
    rest = client.shown(first, limit=2, cursor=page.cursor)
    assert [*page.shown, *rest.shown] == answers
    assert (page.total, rest.cursor) == (3, None)


def test_what_is_dry_explained_or_listed_is_not_recorded(client: Client) -> None:
    memory = client.remember("Pier four has a ferry.").memory.id
    client.recall(FERRY, cut="none", dry=True)
    client.recall(FERRY, cut="none", explain=True)
    client.context(FERRY, cut="none", dry=True)
    client.context(FERRY, cut="none", explain=True)
    client.resume(explain=True)
    client.search("ferry")
    client.list_memories()
    client.recall(FERRY, cut="none")  # which is written behind all of these
    assert [each.operation for each in shown(client, memory, 1).shown] == ["recall"]


def test_only_a_person_sees_to_whom_a_memory_was_shown(client: Client) -> None:
    memory = client.remember("Pier four has a ferry.").memory.id
    with (
        Client(client.socket_path, client.namespace, agent="planner") as agent,
        pytest.raises(RefusalError, match="only a person"),
    ):
        agent.shown(memory)


def test_the_record_survives_a_restart_and_is_erased_with_the_memory(started_daemon: RunningDaemon) -> None:
    with started_daemon.client() as client:
        kept = client.remember("Pier four has a ferry.").memory.id
        erased = client.remember("Pier nine has a ferry, too.").memory.id
        client.recall(FERRY, cut="none")
    started_daemon.stop()  # before anything was written
    started_daemon.start()
    with started_daemon.client() as client:
        assert client.shown(kept).total == client.shown(erased).total == 1
        answer = client.erase(erased)
        assert answer.complete
        with pytest.raises(RefusalError):
            client.shown(erased)
        assert client.shown(kept).total == 1
        assert client.check().ok


@pytest.fixture
def services(tmp_path: Path) -> Iterator[StoreServices]:
    with services_in(tmp_path) as made:
        made.at = AT
        yield made


def kept(services: StoreServices) -> int:
    with services.store.snapshot() as snapshot:
        return len(snapshot.scan(SHOWINGS, limit=1000))


def test_what_is_old_or_too_many_is_removed(services: StoreServices, monkeypatch: pytest.MonkeyPatch) -> None:
    put(services, sample_memory(1))
    recorder, memory = ShownRecorder(services.store), sample_id(1)
    for _ in range(3):
        recorder.record("recall", "api", "", [memory, memory])
    recorder.record("recall", "api", "", [sample_id(2)])  # which is not there
    recorder.record("recall", "api", "", [])
    recorder.write()
    wait_until(lambda: kept(services) == 3)
    services.at += KEPT_MS + 1
    assert recorder.of_memory(memory) == []
    recorder.record("recall", "api", "", [memory])
    recorder.write()
    wait_until(lambda: kept(services) == 1)
    assert [each.at for each in recorder.of_memory(memory)] == [services.at]
    monkeypatch.setattr(recall, "KEPT_MAX", 5)
    for number in range(9):
        services.at += 1
        recorder.record("recall", "api", f"s{number}", [memory])
    recorder.write()
    recorder.record("resume", "api", "last", [memory])
    recorder.write()
    wait_until(lambda: kept(services) == 5)
    assert [each.session_id for each in recorder.of_memory(memory)][:2] == ["last", "s8"]
