"""Deciding a conflict of facts through the socket, and undo of every change of facts alone. SPEC 10.3"""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.knowledge import FactView, NewFact, NewFacts
from tests.support.running_daemon import RunningDaemon, running


@pytest.fixture
def client(daemon: RunningDaemon) -> Iterator[Client]:
    """In a namespace of the test's own."""
    with daemon.client(f"ns-{uuid.uuid4().hex[:8]}") as open_client:
        yield open_client


def works(client: Client, place: str, memory_id: str | None = None) -> FactView:
    fact = NewFact(subject="Anna", predicate="works at", object=place, valid_from="2024-03-01", memory_id=memory_id)
    (made,) = client.add_facts(NewFacts(facts=[fact])).facts
    return made


def statuses(client: Client) -> dict[str, str]:
    return {each.object: each.status for each in client.fact_history("Anna").history}


def conflicting(client: Client) -> list[set[str]]:
    return [{fact.object for fact in each.facts} for each in client.fact_conflicts().conflicts]


def test_a_kept_fact_ends_the_others_at_a_date_and_undo_opens_them_again(client: Client) -> None:
    siemens, bosch = works(client, "Siemens"), works(client, "Bosch")
    assert conflicting(client) == [{"Siemens", "Bosch"}]
    decided = client.decide_conflict([siemens.id, bosch.id], keep=siemens.id, at="2025-01-01T00:00:00Z")
    assert {(each.object, each.status, each.valid_to) for each in decided.facts} == {
        ("Siemens", "open", None), ("Bosch", "closed", 1735689600000)
    }  # fmt: skip
    assert conflicting(client) == []
    undone = client.undo(seq=decided.seq)
    assert (undone.what, undone.ids, undone.seqs) == ("facts", [bosch.memory_id], [decided.seq])
    assert conflicting(client) == [{"Siemens", "Bosch"}]
    with pytest.raises(RefusalError, match="taken back already"):
        client.undo(seq=decided.seq)
    client.undo(seq=undone.undo_seq)  # an undo is undone like any other change
    assert statuses(client) == {"Siemens": "open", "Bosch": "closed"}


def test_facts_that_both_hold_are_reported_no_more_until_that_is_undone(client: Client) -> None:
    siemens, bosch = works(client, "Siemens"), works(client, "Bosch")
    client.decide_conflict([siemens.id, bosch.id])
    assert conflicting(client) == []
    assert statuses(client) == {"Siemens": "open", "Bosch": "open"}
    assert client.undo(dry_run=True).what == "facts"
    assert conflicting(client) == []
    client.undo()  # the last change
    assert conflicting(client) == [{"Siemens", "Bosch"}]


def test_a_removed_and_an_attached_fact_are_taken_back_by_the_change_in_the_answer(client: Client) -> None:
    siemens = works(client, "Siemens")
    removed = client.delete_fact(siemens.id)
    assert statuses(client) == {}
    client.undo(seq=removed.seq)
    assert client.fact_history("Anna").history[0].id == siemens.id
    memory = client.remember("Anna told me about her work at ZF.").memory.id
    fact = NewFact(subject="Anna", predicate="owns", object="a boat", memory_id=memory)
    added = client.add_facts(NewFacts(facts=[fact]))
    assert set(statuses(client)) == {"Siemens", "a boat"}
    assert client.undo(group=added.group).seqs == [added.seq]
    assert set(statuses(client)) == {"Siemens"}


def test_a_decision_that_something_came_after_is_not_undone(client: Client) -> None:
    siemens, bosch = works(client, "Siemens"), works(client, "Bosch")
    decided = client.decide_conflict([siemens.id, bosch.id], keep=siemens.id)
    client.delete_fact(bosch.id)
    with pytest.raises(RefusalError, match="changed again since"):
        client.undo(seq=decided.seq)
    assert statuses(client) == {"Siemens": "open"}


def test_what_cannot_be_decided_is_refused_and_says_why(client: Client) -> None:
    siemens, bosch = works(client, "Siemens"), works(client, "Bosch")
    home = NewFact(subject="Ben", predicate="works at", object="ZF")
    (other,) = client.add_facts(NewFacts(facts=[home])).facts
    cases = [
        ([siemens.id, other.id], None, None, 409, None),
        ([siemens.id, bosch.id], other.id, None, 404, "keep"),
        ([siemens.id, "00000000"], None, None, 404, "facts[1]"),
        ([siemens.id, bosch.id], None, "2025-01-01", 400, "at"),
        ([siemens.id], None, None, 400, "facts"),
    ]  # fmt: skip
    for facts, keep, at, status, field in cases:
        with pytest.raises(RefusalError) as refused:
            client.decide_conflict(facts, keep=keep, at=at)
        assert (refused.value.status, refused.value.field) == (status, field)
    with Client(client.socket_path, client.namespace, agent="planner") as agent, pytest.raises(RefusalError) as refused:
        agent.decide_conflict([siemens.id, bosch.id], keep=siemens.id)
    assert refused.value.status == 422
    assert conflicting(client) == [{"Siemens", "Bosch"}]


def test_no_erased_fact_comes_back_by_undo(client: Client) -> None:
    siemens, bosch = works(client, "Siemens"), works(client, "Bosch")
    decided = client.decide_conflict([siemens.id, bosch.id], keep=siemens.id)
    client.erase(bosch.memory_id)
    with pytest.raises(RefusalError) as refused:
        client.undo(seq=decided.seq)
    assert refused.value.status == 422
    assert statuses(client) == {"Siemens": "open"}


def test_facts_of_a_shared_store_are_undone_too(short_folder: Path) -> None:
    """There a change of facts has their clocks with it."""
    with running(short_folder / "data") as daemon, daemon.client() as client:
        client.share(
            str(short_folder / "shared"), passphrase="correct horse battery staple", name="laptop", create=True
        )
        fact = works(client, "Siemens")
        client.undo(seq=client.delete_fact(fact.id).seq)
        assert statuses(client) == {"Siemens": "open"}
