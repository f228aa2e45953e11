"""Superseded and compressed memories are found again once nothing stands in their place. SPEC 7.2"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_daemon.lifecycle.trash import Trash
from mnemo_store.records import Edge, Memory
from tests.desk import Desk, made_desk_in, put
from tests.samples import sample_id, sample_memory, write

QUERY = "where is the spare key"
OLD, NEW, NEWEST = "The spare key is with Tom.", "The spare key is with Ines.", "The spare key is with Otto."
SUMMARY = "The spare key went from Tom to Ines."


@pytest.fixture(params=["with vectors", "without a model"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    with made_desk_in(tmp_path, has_model=request.param == "with vectors") as desk:
        yield desk


def replaced(desk: Desk, **fields: Any) -> tuple[str, str]:
    """The ids of a memory and of one that supersedes it."""
    old = desk.add(OLD)
    new = desk.add(NEW, supersedes=(old,), **fields)
    put(desk)  # where an answer ends depends on the vectors
    return old, new


def test_a_superseded_memory_is_found_again_while_its_replacement_is_in_the_trash(desk: Desk) -> None:
    _, new = replaced(desk)
    assert desk.recalled(QUERY) == [NEW]
    desk.trash(new)
    assert desk.recalled(QUERY) == [OLD]
    assert desk.recalled(QUERY, preferences="first", cut="gap") == [OLD]
    desk.restore(new)
    assert desk.recalled(QUERY) == [NEW]


def test_a_superseded_memory_is_found_again_once_its_replacement_has_expired(desk: Desk) -> None:
    replaced(desk, expires_at=5000)
    desk.at = 4999
    assert desk.recalled(QUERY) == [NEW]
    desk.at = 5000
    assert desk.recalled(QUERY) == [OLD]


def test_a_superseded_memory_is_found_again_once_its_replacement_is_erased(desk: Desk) -> None:
    old, new = replaced(desk)
    desk.trash(new)
    Trash(desk.store, desk.views).empty((), "cli", confirm=True)
    assert (desk.memory(old).state, desk.memory(old).superseded_by) == ("superseded", "")
    assert desk.recalled(QUERY) == [OLD]


def test_of_a_chain_the_value_that_stands_last_is_found(desk: Desk) -> None:
    _, new = replaced(desk)
    newest = desk.add(NEWEST, supersedes=(new,))
    assert desk.recalled(QUERY) == [NEWEST]
    desk.trash(new)
    assert desk.recalled(QUERY) == [NEWEST]  # what stands in the place of the one in the trash stands in its place too
    desk.trash(newest)
    assert desk.recalled(QUERY) == [OLD]
    desk.restore(new)
    assert desk.recalled(QUERY) == [NEW]


def test_the_filters_apply_to_memories_that_are_found_again(desk: Desk) -> None:
    old = desk.add(OLD, namespace="home", kind="episodic")
    new = desk.add(NEW, namespace="home", supersedes=(old,))
    desk.trash(new)
    assert desk.recalled(QUERY, namespaces=("home",)) == [OLD]
    assert desk.recalled(QUERY, namespaces=("default",)) == []
    assert desk.recalled(QUERY, namespaces=("home",), kinds=("semantic",)) == []
    assert desk.recalled(QUERY, namespaces=("home",), states=("archived",)) == []
    trace = desk.recall(QUERY, explain=True, namespaces=("home",)).trace
    assert trace is not None
    assert "superseded" not in {each.reason for each in trace.left_out}


def test_as_of_another_time_the_memories_hidden_then_are_hidden(desk: Desk) -> None:
    _, new = replaced(desk)
    desk.at = 2000
    desk.trash(new)
    desk.at = 3000
    assert desk.recalled(QUERY, 1500) == [NEW]
    assert desk.recalled(QUERY, 2500) == [OLD]
    desk.restore(new)
    desk.at = 4000
    assert desk.recalled(QUERY, 2500) == [OLD]
    assert desk.recalled(QUERY, 3500) == [NEW]


def test_an_older_value_is_current_again_once_its_update_is_removed(desk: Desk) -> None:
    old, new = desk.add(OLD), desk.add(NEW, expires_at=9000)
    write(desk.store, Edge(source=new, target=old, relation="updates", at=desk.at))
    assert [(hit.details.memory.id, hit.was) for hit in desk.recall(QUERY).hits] == [(new, False), (old, True)]
    desk.trash(new)
    assert [(hit.details.memory.id, hit.was) for hit in desk.recall(QUERY).hits] == [(old, False)]
    desk.restore(new)
    desk.at = 9000
    assert [(hit.details.memory.id, hit.was) for hit in desk.recall(QUERY).hits] == [(old, False)]


def summarised(desk: Desk) -> tuple[Memory, Memory]:
    source = sample_memory(1, OLD, state="compressed")
    summary = sample_memory(2, SUMMARY, source="compress", compression_source=True, derived_from=(source.id,))
    put(desk, source, summary)
    return source, summary


def test_a_compressed_memory_is_found_again_once_its_summary_is_gone(desk: Desk) -> None:
    _, summary = summarised(desk)
    assert desk.recalled(QUERY) == [SUMMARY]
    desk.trash(summary.id)
    assert desk.recalled(QUERY) == [OLD]
    Trash(desk.store, desk.views).empty((), "cli", confirm=True)
    assert desk.recalled(QUERY) == [OLD]


def test_a_compressed_memory_stays_hidden_while_it_has_another_summary(desk: Desk) -> None:
    source, summary = summarised(desk)
    other = msgspec.structs.replace(summary, id=sample_id(3), content="Keys moved.")
    put(desk, other)
    desk.trash(summary.id)
    assert source.content not in desk.recalled(QUERY)
