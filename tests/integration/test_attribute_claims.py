"""A newer value finds the older one by what both claim, with the real model. SPEC 5.5"""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import NewMemory
from mnemo_daemon.ingest.neighbour_search import CANDIDATES
from tests.bench.texts import texts
from tests.support.running_daemon import RunningDaemon, running
from tests.support.samples import quick_folder

UNRELATED = 500
ENDINGS = ("burg", "dorf", "heim", "feld", "hausen", "kirchen", "berg", "bach", "stadt", "rode")


@pytest.fixture(scope="module")
def daemon(minilm_folder: Path) -> Iterator[RunningDaemon]:
    with quick_folder() as scratch:
        with running(scratch, {"MNEMO_MODELS_FOLDER": str(minilm_folder)}) as started:
            started.wait_for_vectors()
            yield started
        assert "Traceback" not in started.log.read_text()


@pytest.fixture
def client(daemon: RunningDaemon) -> Iterator[Client]:
    """In a namespace of the test's own."""
    with daemon.client(f"ns-{uuid.uuid4().hex[:8]}") as open_client:
        yield open_client


def test_a_newer_value_among_500_unrelated_memories_updates_the_older_one(client: Client) -> None:
    unrelated = [NewMemory(content=text) for text in texts(UNRELATED)]
    client.remember_many(unrelated[: UNRELATED // 2])
    old = client.remember("I live in Lisbon").memory
    client.remember_many(unrelated[UNRELATED // 2 :])
    assert client.remember("I moved to Oslo").updates == [old.id]


def test_a_value_that_was_just_written_or_is_in_the_same_batch_is_found(client: Client) -> None:
    said = ("I live in Lisbon.", "The tide was low.", "I moved to Oslo.", "I relocated to Graz.")
    batch = client.remember_many([NewMemory(content=text, event_at=day) for day, text in enumerate(said, 1)])
    assert all(isinstance(each, RememberAnswer) for each in batch)
    lisbon, tide, oslo, graz = (each for each in batch if isinstance(each, RememberAnswer))
    assert (lisbon.updates, tide.updates) == ([], [])
    assert (oslo.updates, graz.updates) == ([lisbon.memory.id], [oslo.memory.id])
    last = client.remember(NewMemory(content="We are based in Turin.", event_at=5))
    assert last.updates == [graz.memory.id]


def test_of_many_earlier_values_the_one_that_held_last_is_updated(client: Client) -> None:
    towns = [f"{one}{two}" for one in ("Wester", "Norder", "Alten", "Neuen") for two in ENDINGS]
    days = [*range(2, 41, 2), *range(1, 41, 2)]  # not in the order in which they held
    reported = client.remember_many(
        [NewMemory(content=f"I moved to {town}.", event_at=day) for town, day in zip(towns, days, strict=True)]
    )
    by_day = {day: each.memory.id for day, each in zip(days, reported, strict=True) if isinstance(each, RememberAnswer)}
    assert isinstance(reported[-1], RememberAnswer)
    assert (days[-1], reported[-1].updates) == (39, [by_day[38]])
    for new, at, before in (("I've settled in Graz.", 21, 20), ("I relocated to Turin.", 5, 4)):
        assert client.remember(NewMemory(content=new, event_at=at)).updates == [by_day[before]]


def test_it_is_found_though_many_others_are_nearer(client: Client) -> None:
    old = client.remember("I'm based in Lisbon.").memory
    asked = ["Why I moved to Oslo?", "I moved to Oslo?", "Have I moved to Oslo?", "Did I move to Oslo?",
             "Should I have moved to Oslo?", "I moved to Oslo, didn't I?", "Am I moving to Oslo?",
             "Moved to Oslo, did I?", "Who says I moved to Oslo?", "When I moved to Oslo?"]  # fmt: skip
    client.remember_many([NewMemory(content=question) for question in asked])
    new = client.remember("I moved to Oslo.", explain=True)
    assert new.updates == [old.id]
    assert new.explained is not None
    nearer = [row for row in new.explained.near if row.id != old.id and row.sim is not None]
    assert len(nearer) == CANDIDATES


def test_a_claim_of_another_user_is_not_updated(client: Client) -> None:
    client.remember("I live in Lisbon", user_id="ann")
    ben: dict[str, Any] = {"user_id": "ben"}
    for whose in (ben, {"user_id": "ann", "run_id": "r1"}):
        client.remember("The tide was low.", **whose)
        assert client.remember("I moved to Oslo", **whose).updates == []
    assert client.remember("I moved to Bergen", user_id="ann").updates != []


def test_a_statement_of_an_agent_updates_nothing_that_a_person_pinned(daemon: RunningDaemon) -> None:
    namespace = f"ns-{uuid.uuid4().hex[:8]}"
    with daemon.client(namespace, entry_point="cli") as person, daemon.client(namespace, entry_point="mcp") as agent:
        pinned = person.remember("I live in Lisbon.", pinned=True).memory
        said = agent.remember("I moved to Oslo.")
        assert (said.updates, said.related) == ([], [pinned.id])
        assert person.remember("I relocated to Graz.").updates != []
