"""Superseded and compressed memories are found again once nothing stands in their place. SPEC 7.2"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_daemon.maintenance.trash import Trash
from mnemo_store.records import Edge, Memory
from tests.support.samples import sample_id, sample_memory, write
from tests.support.store_services import StoreServices, put, simulated_services_in

QUERY = "where is the spare key"
OLD, NEW, NEWEST = "The spare key is with Tom.", "The spare key is with Ines.", "The spare key is with Otto."
SUMMARY = "The spare key went from Tom to Ines."


@pytest.fixture(params=["with vectors", "without a model"])
def services(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreServices]:
    with simulated_services_in(tmp_path, has_model=request.param == "with vectors") as services:
        yield services


def replaced(services: StoreServices, **fields: Any) -> tuple[str, str]:
    """The ids of a memory and of one that supersedes it."""
    old = services.add(OLD)
    new = services.add(NEW, supersedes=(old,), **fields)
    put(services)  # where an answer ends depends on the vectors
    return old, new


def test_a_superseded_memory_is_found_again_while_its_replacement_is_in_the_trash(services: StoreServices) -> None:
    _, new = replaced(services)
    assert services.recalled(QUERY) == [NEW]
    services.trash(new)
    assert services.recalled(QUERY) == [OLD]
    assert services.recalled(QUERY, preferences="first", cut="gap") == [OLD]
    services.restore(new)
    assert services.recalled(QUERY) == [NEW]


def test_a_superseded_memory_is_found_again_once_its_replacement_has_expired(services: StoreServices) -> None:
    replaced(services, expires_at=5000)
    services.at = 4999
    assert services.recalled(QUERY) == [NEW]
    services.at = 5000
    assert services.recalled(QUERY) == [OLD]


def test_a_superseded_memory_is_found_again_once_its_replacement_is_erased(services: StoreServices) -> None:
    old, new = replaced(services)
    services.trash(new)
    Trash(services.store, services.views).empty((), "cli", confirm=True)
    assert (services.memory(old).state, services.memory(old).superseded_by) == ("superseded", "")
    assert services.recalled(QUERY) == [OLD]


def test_of_a_chain_the_value_that_stands_last_is_found(services: StoreServices) -> None:
    _, new = replaced(services)
    newest = services.add(NEWEST, supersedes=(new,))
    assert services.recalled(QUERY) == [NEWEST]
    services.trash(new)
    assert services.recalled(QUERY) == [
        NEWEST
    ]  # what stands in the place of the one in the trash stands in its place too
    services.trash(newest)
    assert services.recalled(QUERY) == [OLD]
    services.restore(new)
    assert services.recalled(QUERY) == [NEW]


def test_the_filters_apply_to_memories_that_are_found_again(services: StoreServices) -> None:
    old = services.add(OLD, namespace="home", kind="episodic")
    new = services.add(NEW, namespace="home", supersedes=(old,))
    services.trash(new)
    assert services.recalled(QUERY, namespaces=("home",)) == [OLD]
    assert services.recalled(QUERY, namespaces=("default",)) == []
    assert services.recalled(QUERY, namespaces=("home",), kinds=("semantic",)) == []
    assert services.recalled(QUERY, namespaces=("home",), states=("archived",)) == []
    trace = services.recall(QUERY, explain=True, namespaces=("home",)).trace
    assert trace is not None
    assert "superseded" not in {each.reason for each in trace.left_out}


def test_as_of_another_time_the_memories_hidden_then_are_hidden(services: StoreServices) -> None:
    _, new = replaced(services)
    services.at = 2000
    services.trash(new)
    services.at = 3000
    assert services.recalled(QUERY, 1500) == [NEW]
    assert services.recalled(QUERY, 2500) == [OLD]
    services.restore(new)
    services.at = 4000
    assert services.recalled(QUERY, 2500) == [OLD]
    assert services.recalled(QUERY, 3500) == [NEW]


def test_an_older_value_is_current_again_once_its_update_is_removed(services: StoreServices) -> None:
    old, new = services.add(OLD), services.add(NEW, expires_at=9000)
    write(services.store, Edge(source=new, target=old, relation="updates", at=services.at))
    assert [(hit.details.memory.id, hit.was) for hit in services.recall(QUERY).hits] == [(new, False), (old, True)]
    services.trash(new)
    assert [(hit.details.memory.id, hit.was) for hit in services.recall(QUERY).hits] == [(old, False)]
    services.restore(new)
    services.at = 9000
    assert [(hit.details.memory.id, hit.was) for hit in services.recall(QUERY).hits] == [(old, False)]


def summarised(services: StoreServices) -> tuple[Memory, Memory]:
    source = sample_memory(1, OLD, state="compressed")
    summary = sample_memory(2, SUMMARY, source="compress", compression_source=True, derived_from=(source.id,))
    put(services, source, summary)
    return source, summary


def test_a_compressed_memory_is_found_again_once_its_summary_is_gone(services: StoreServices) -> None:
    _, summary = summarised(services)
    assert services.recalled(QUERY) == [SUMMARY]
    services.trash(summary.id)
    assert services.recalled(QUERY) == [OLD]
    Trash(services.store, services.views).empty((), "cli", confirm=True)
    assert services.recalled(QUERY) == [OLD]


def test_a_compressed_memory_stays_hidden_while_it_has_another_summary(services: StoreServices) -> None:
    source, summary = summarised(services)
    other = msgspec.structs.replace(summary, id=sample_id(3), content="Keys moved.")
    put(services, other)
    services.trash(summary.id)
    assert source.content not in services.recalled(QUERY)
