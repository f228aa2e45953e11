"""Cycles of consolidation at their routes, of a real daemon. SPEC 9.1, 13, 16"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol import operations
from mnemo_client.protocol.lifecycle import ConsolidateRequest
from mnemo_client.protocol.status import LifecycleStatus
from mnemo_daemon.api.daemon_routes import StatusReport
from mnemo_daemon.api.lifecycle_routes import LifecycleApi
from mnemo_daemon.api.resource import WorkerPool
from mnemo_daemon.errors import Refusal
from mnemo_daemon.lifecycle.consolidation import CycleResult
from mnemo_daemon.scheduler import OperationRegistry
from mnemo_daemon.server.admission.access_table import OWNER_GRANT
from mnemo_daemon.server.router import Request
from mnemo_daemon.server.sockets import Peer
from mnemo_store.records import Cycle
from mnemo_store.store import Store
from tests.support.file_bytes import readable_bytes
from tests.support.running_daemon import running
from tests.support.samples import WAIT_SECONDS, sample_id, sample_memory, write


@pytest.fixture(scope="module")
def client(daemon: Any) -> Iterator[Client]:
    with daemon.client(entry_point="cli") as open_client:
        yield open_client


def test_a_cycle_on_request_is_reported_and_is_in_the_history(client: Client) -> None:
    client.remember("The kettle is on the shelf.")
    before = client.status().seq
    foretold = client.consolidate(dry_run=True, namespace="*")
    assert (foretold.dry_run, client.status().seq, client.cycles().cycles) == (True, before, [])
    done = client.consolidate(namespace="*").cycle
    of_one = client.consolidate(namespace="work").cycle
    assert (done.epoch, done.requested, done.namespace, of_one.namespace) == (1, True, "*", "work")
    assert client.status().lifecycle == LifecycleStatus(last_cycle=of_one)
    assert client.jobs().last_cycle == of_one
    assert [step.name for step in done.steps] == [step.name for step in foretold.cycle.steps]
    first = client.cycles(limit=1)
    assert [each.id for each in first.cycles] == [of_one.id]
    rest = client.cycles(limit=1, cursor=first.cursor)
    assert ([each.id for each in rest.cycles], rest.cursor) == ([done.id], None)
    assert client.consolidate().cycle.namespace == "default"  # none given. SPEC 2.4
    with pytest.raises(RefusalError, match="a cursor is what the page before gave"):
        client.cycles(cursor="last")


def test_what_the_next_cycle_would_do_is_listed_by_layer(daemon: Any) -> None:
    with daemon.client("forecast") as client, Client(daemon.socket, "forecast", agent="planner") as agent:
        told = client.remember("The kettle is on the shelf.", importance=0.5).memory
        secret = client.remember("The safe is behind the map.", tags=["sensitive"]).memory
        seq = client.status().seq
        found = client.forecast()
        assert {each.id for each in found.memories} == {told.id, secret.id}
        (first,) = (each for each in found.memories if each.id == told.id)
        assert (first.text, first.outcome, first.strength) == (told.content, "stay", 0.5)
        assert first.reason == "it is new: it is judged when it is 10 minutes old"
        assert first.strength_then == pytest.approx(0.5 * 0.988, abs=1e-4)  # SPEC 2.2
        assert (found.layers["buffer"].total, found.namespace, client.status().seq) == (2, "forecast", seq)
        assert client.forecast(layer="core").memories == []
        hidden = agent.forecast()
        assert ([each.id for each in hidden.memories], hidden.layers["buffer"].total) == ([told.id], 1)


def test_a_cycle_that_changed_nothing_is_not_undone(client: Client) -> None:
    for cycle in ("last", "0" * 12):
        with pytest.raises(RefusalError) as none:
            client.undo(cycle=cycle)
        assert none.value.code == "not_found"
    with pytest.raises(RefusalError) as short:
        client.undo(cycle="0")
    assert short.value.code == "bad_value"


def test_a_second_request_does_not_wait_for_the_first(tmp_path: Any) -> None:
    begun, ended = threading.Event(), threading.Event()
    cycle = Cycle(id=sample_id(1), epoch=1, started_at=1, seq=1)

    def run(*_: Any, **__: Any) -> CycleResult:
        begun.set()
        ended.wait(WAIT_SECONDS)
        return CycleResult(cycle, [], [])

    services: Any = SimpleNamespace(
        is_open=True, consolidation=SimpleNamespace(run=run, stop=ended.set), operations=OperationRegistry()
    )
    request = Request(ask=ConsolidateRequest(), query=None, path={}, peer=Peer(1, 1), grant=OWNER_GRANT)
    workers = WorkerPool(1)
    api = LifecycleApi(services, workers, StatusReport(services, list, list))
    consolidate = next(route.handler for route in api.routes() if route.operation is operations.CONSOLIDATE)

    async def ask() -> None:
        first = asyncio.ensure_future(consolidate(request))
        await asyncio.to_thread(begun.wait, WAIT_SECONDS)
        with pytest.raises(Refusal) as busy:
            await consolidate(request)
        assert (busy.value.status, busy.value.code) == (429, "busy")
        first.cancel()  # its client has gone away: the cycle goes on
        with pytest.raises(Refusal):
            await consolidate(request)
        ended.set()
        while True:
            try:
                await consolidate(request)
                break
            except Refusal:
                await asyncio.sleep(0.001)

    asyncio.run(ask())
    api.close()
    workers.close()


def test_operations_that_an_audit_proposes_are_decided_on_and_leave_no_trace_of_what_is_forgotten(
    tmp_path: Path,
) -> None:
    with closing(Store.open(tmp_path)) as store:
        texts = ("For now the parcels go to Wendelgard.", "For now the bins go to Ottokar.", "For now Ada has the key.")
        for number, text in enumerate(texts, start=1):
            write(store, sample_memory(number, text, layer="core"))
    without_models = {"MNEMO_MODELS_FOLDER": str(tmp_path / "models")}
    with running(tmp_path, without_models) as daemon, daemon.client(entry_point="cli") as client:
        assert client.audit().proposed == 3
        demoted, rejected, forgotten = client.review().proposals
        client.decide(demoted.id, "approve")
        client.decide(rejected.id, "reject")
        assert [client.get(each.memories[0].id).layer for each in (demoted, rejected)] == ["working", "core"]
        client.erase(forgotten.memories[0].id)
        assert client.review().proposals == []
        assert "demote" not in {each.action for each in client.audit().proposals}
        name = forgotten.memories[0].content.split()[-1].strip(".")
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and name.encode() in readable_bytes(path)]
