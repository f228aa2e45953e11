"""Moves of a memory by a person: layer, archive, namespace; what a cycle makes of them, and undo. SPEC 9.4, 2.4"""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.ingestion import PieceAnswer, Turn, TurnsRequest
from mnemo_core.lifecycle.consolidation.review import MoveTarget
from mnemo_daemon.lifecycle.memory_move import MemoryMoves
from mnemo_daemon.memories.revert import RevertService
from mnemo_store.tables import DECISIONS
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import sample_id, sample_memory
from tests.support.store_services import PERSON, StoreServices, put, services_in


@pytest.fixture
def client(daemon: RunningDaemon) -> Iterator[Client]:
    """In a namespace of the test's own."""
    with daemon.client(f"ns-{uuid.uuid4().hex[:8]}") as open_client:
        yield open_client


def test_a_memory_moves_between_layers_and_undo_moves_it_back(client: Client) -> None:
    before = client.remember("The gate code of the harbour is in the blue tin.", importance=0.2).memory
    moved = client.move(before.id, layer="core", if_version=1)
    assert (moved.outcome, moved.memory.layer, moved.memory.version) == ("moved", "core", 2)
    assert moved.memory.decay_rate == 0.05
    assert client.move(before.id, layer="core").outcome == "unchanged"
    latest = client.history(before.id).versions[0]
    assert (latest.what, latest.seq, latest.memory.layer) == ("move", moved.seq, "core")
    client.undo(seq=moved.seq)
    after = client.get(before.id)
    assert (after.layer, after.decay_rate, after.content) == ("buffer", 5.0, before.content)


def decisions(services: StoreServices) -> list[tuple[str, str]]:
    with services.store.snapshot() as snapshot:
        return sorted((each.action, each.status) for each in snapshot.scan(DECISIONS))


def test_a_move_decides_that_no_cycle_takes_it_back_until_it_is_undone(tmp_path: Path) -> None:
    with services_in(tmp_path) as services:
        put(services, sample_memory(1, layer="buffer"))
        moves = MemoryMoves(services.store, services.memories)
        up = moves.move(sample_id(1), MoveTarget(layer="core"), None, PERSON)
        assert decisions(services) == [("archive", "rejected"), ("demote", "rejected")]
        down = moves.move(sample_id(1), MoveTarget(layer="working"), None, PERSON)
        assert decisions(services) == [("archive", "rejected"), ("demote", "rejected"), ("promote", "rejected")]
        RevertService(services.store).revert(down.seq, None, PERSON, dry_run=False)
        assert decisions(services) == [("archive", "rejected"), ("demote", "rejected")]
        RevertService(services.store).revert(up.seq, None, PERSON, dry_run=False)
        assert decisions(services) == []
        assert services.memory(sample_id(1)).layer == "buffer"


def test_a_memory_goes_into_the_archive_and_back(client: Client) -> None:
    memory = client.remember("The old boat was red.").memory
    assert client.move(memory.id, archived=True).memory.state == "archived"
    assert client.move(memory.id, archived=True).outcome == "unchanged"
    back = client.move(memory.id, archived=False)
    assert (back.memory.state, back.memory.layer) == ("active", "buffer")


def test_a_memory_moves_to_another_namespace_with_its_facts_and_its_history(client: Client) -> None:
    space, other = client.namespace or "", f"ns-{uuid.uuid4().hex[:8]}"
    memory = client.remember("Anna works at Siemens.").memory
    assert client.facts("Anna").count == 1
    moved = client.move(memory.id, namespace=other)
    assert (moved.outcome, moved.memory.namespace) == ("moved", other)
    assert [each.id for each in client.list_memories(namespace=other).memories] == [memory.id]
    assert client.list_memories().memories == []
    assert [each.id for each in client.recall("where does Anna work?", namespace=other).memories] == [memory.id]
    assert (client.facts("Anna").count, client.facts("Anna", namespace=other).count) == (0, 1)
    assert [each.memory.namespace for each in client.history(memory.id).versions] == [other, space]
    assert client.remember("Anna works at Siemens.", namespace=other).outcome == "duplicate"
    assert client.check().ok
    client.undo(seq=moved.seq)
    assert client.get(memory.id).namespace == space
    assert (client.facts("Anna").count, client.facts("Anna", namespace=other).count) == (1, 0)


def test_a_text_that_the_namespace_has_already_is_a_duplicate_there(client: Client) -> None:
    space, other = client.namespace, f"ns-{uuid.uuid4().hex[:8]}"
    there = client.remember("Anna works at Siemens.", namespace=other).memory
    here = client.remember("Anna works at SIEMENS.").memory
    moved = client.move(here.id, namespace=other)
    assert (moved.outcome, moved.memory.id, moved.memory.repetition_count) == ("duplicate", there.id, 1)
    (entry,) = client.trash(namespace=space).entries
    assert (entry.memory.id, entry.why) == (here.id, f"moved to {other}, which has it as {there.id}")
    client.undo(seq=moved.seq)
    assert (client.get(here.id).state, client.get(here.id).namespace) == ("active", space)


def refused(client: Client, memory_id: str, **fields: Any) -> tuple[int, str, str | None]:
    with pytest.raises(RefusalError) as refusal:
        client.move(memory_id, **fields)
    return refusal.value.status, refusal.value.code, refusal.value.field


def test_what_cannot_be_moved_is_refused_and_stays(client: Client) -> None:
    other = f"ns-{uuid.uuid4().hex[:8]}"
    memory = client.remember("Pier four has a ferry.", key="pier").memory
    client.remember("Pier five has a ferry.", key="pier", namespace=other)
    turns = [Turn(role="user", content="The boiler man Keith comes on Friday at nine.")]
    (turn,) = client.turns(TurnsRequest(session_id="s", turns=turns)).results
    assert isinstance(turn, PieceAnswer)
    assert turn.memory is not None
    assert refused(client, memory.id) == (400, "bad_value", "layer")
    assert refused(client, memory.id, namespace="*") == (400, "bad_value", "namespace")
    assert refused(client, memory.id, namespace=other) == (409, "conflict", "namespace")
    assert refused(client, memory.id, layer="core", if_version=7) == (409, "conflict", "if_version")
    assert refused(client, turn.memory.id, namespace=other) == (422, "refused", "namespace")
    with Client(client.socket_path, client.namespace, agent="planner") as agent:
        assert refused(agent, memory.id, layer="core")[:2] == (422, "refused")
    client.delete(memory.id)
    assert refused(client, memory.id, layer="core")[:2] == (409, "conflict")
    assert client.get(memory.id).layer == "buffer"
