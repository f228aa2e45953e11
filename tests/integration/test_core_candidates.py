"""Core memories as a channel of recall: candidates whatever is asked, where the filters allow them. SPEC 7.2"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mnemo_client.protocol.retrieval import CandidateTrace
from mnemo_daemon.retrieval.candidates.candidate_retrieval import CORE_CANDIDATES
from mnemo_store.records import Memory
from tests.support.samples import sample_id, sample_memory, write
from tests.support.store_services import StoreServices, put, simulated_services_in

QUERY = "blue boat harbour"
BETTER = 320  # more than three times what a channel gives
CORE = "Ines never eats peanuts."
FAR = "Ines was never told what a harbour is, nor why anyone would leave one in a storm of this size by night."
EARLY, LATE = 10_000, 20_000  # ms
PAGE = 37  # of which BETTER take nine


@pytest.fixture(params=["with vectors", "without a model"])
def services(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreServices]:
    """With memories that answer the question better than a core memory of something else."""
    with simulated_services_in(tmp_path, has_model=request.param == "with vectors") as services:
        put(services, *(sample_memory(number, f"The blue boat in harbour {number}.") for number in range(BETTER)))
        services.at = EARLY
        yield services


def core(number: int, content: str = CORE, **fields: Any) -> Memory:
    return sample_memory(BETTER + number, content, **{"layer": "core", **fields})


def candidates(
    services: StoreServices, query: str = QUERY, at: int | None = None, **fields: Any
) -> dict[str, CandidateTrace]:
    """By id, as the trace tells them."""
    trace = services.recall(query, at, explain=True, **{"namespaces": ("default",), **fields}).trace
    assert trace is not None
    found = {each.id: each for each in trace.candidates}
    (reported,) = [channel for channel in trace.channels if channel.name == "core"]
    assert {hit.id for hit in reported.hits} == {each.id for each in found.values() if "core" in each.channels}
    assert reported.found == len(reported.hits)
    return found


def core_of(services: StoreServices, at: int | None = None, **fields: Any) -> set[str]:
    return {each.id for each in candidates(services, at=at, **fields).values() if "core" in each.channels}


def test_a_core_memory_that_no_other_channel_finds_is_a_candidate(services: StoreServices) -> None:
    peanuts = core(0)
    put(services, peanuts)
    found = candidates(services)
    assert found[peanuts.id].channels == ["core"]
    assert found[peanuts.id].words == 0
    assert (found[peanuts.id].similarity is None) == (services.embedding.current() is None)
    put(services, msgspec.structs.replace(peanuts, version=2, layer="buffer"))
    assert peanuts.id not in candidates(services)


def test_an_answer_names_the_core_channel(services: StoreServices) -> None:
    peanuts = core(0)
    put(services, peanuts)
    (hit,) = services.recall("peanuts", top_k=1).hits
    assert hit.details.memory == peanuts
    assert {"words", "core"} <= set(hit.channels)


def test_a_core_memory_has_the_words_and_the_nearness_that_the_others_would_find_in_it(services: StoreServices) -> None:
    put(services, core(0, FAR))
    few, all_of_them = (candidates(services, top_k=top_k)[core(0).id] for top_k in (5, 100))
    assert few.channels == ["core"]
    assert "words" in all_of_them.channels
    assert few.words == all_of_them.words > 0
    assert few.similarity == all_of_them.similarity


def test_neighbours_of_the_best_join_with_the_core_memories(services: StoreServices) -> None:
    turns = ("Is the lighthouse in a blue boat harbour?", "Mhm!")
    session = [
        sample_memory(BETTER + 50 + place, text, session_id="s1", event_at=EARLY + place)
        for place, text in enumerate(turns)
    ]
    put(services, *session, core(0), core(99))
    found = candidates(services, f"{QUERY} lighthouse")
    assert found[core(0).id].channels == found[core(99).id].channels == ["core"]
    if services.embedding.current() is not None:
        assert found[session[1].id].channels == ["neighbours"]


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({"namespace": "work"}, {"namespaces": ("default", "home")}),
        ({"user_id": "ines"}, {}),
        ({"kind": "episodic"}, {"kinds": ("semantic",)}),
        ({"kind": "working", "session_id": "s1"}, {"working_session": "s2"}),
        ({"state": "superseded", "superseded_by": sample_id(0)}, {}),
        ({"expires_at": EARLY - 1}, {}),
        ({"tags": ("boat",)}, {"tags": ("tax",)}),
        ({}, {"layers": ("buffer", "working")}),
    ],
)
def test_no_core_memory_joins_that_the_filters_leave_out(
    services: StoreServices, fields: dict[str, Any], asked: dict[str, Any]
) -> None:
    put(services, core(0, **fields))
    assert core(0).id not in candidates(services, **asked)


def test_as_of_another_time_the_core_memories_of_then_join(services: StoreServices) -> None:
    was, becomes, stays, comes = (core(number, f"{CORE} {number}") for number in range(4))
    put(services, was, msgspec.structs.replace(becomes, layer="working"), stays)
    services.at = LATE
    put(services, msgspec.structs.replace(was, version=2, layer="working", content="Ines eats what she likes."))
    put(services, msgspec.structs.replace(becomes, version=2), comes)
    assert core_of(services) == {becomes.id, stays.id, comes.id}
    assert core_of(services, EARLY) == {was.id, stays.id}
    assert core_of(services, EARLY, user_id="ines") == set()


def test_of_another_time_a_core_memory_has_the_words_of_its_version_then(services: StoreServices) -> None:
    put(services, core(0, FAR))
    services.at = LATE
    put(services, core(0, version=2))
    now, then = candidates(services)[core(0).id], candidates(services, at=EARLY)[core(0).id]
    assert now.channels == then.channels == ["core"]
    assert (now.words, then.words > 0) == (0, True)
    assert (then.similarity is None) == (services.embedding.current() is None)


def test_of_many_the_nearest_join_and_without_vectors_the_best_by_words(services: StoreServices) -> None:
    many = [core(number, f"{'Blue ' * (number % 3)}stone{number} stays.") for number in range(CORE_CANDIDATES + 18)]
    put(services, *many)
    found = core_of(services)
    serving = services.indexing.serving()
    if serving is None:
        # Of 50 the numbers that leave 1 or 2 hold the word: 17 and 16 of them.
        blue = {memory.id for number, memory in enumerate(many) if number % 3}
        assert len(blue) == CORE_CANDIDATES + 1
        assert len(found) == CORE_CANDIDATES
        assert found < blue
    else:
        query = serving.embedder.encode_query(QUERY)
        sims = [float(serving.embedder.encode_batch([memory.content])[0][0] @ query) for memory in many]
        assert found == {many[place].id for place in np.argsort(sims)[-CORE_CANDIDATES:]}


def test_a_core_memory_without_a_vector_comes_behind_by_its_words(services: StoreServices) -> None:
    first = [core(number, f"Stone{number} stays.") for number in range(5)]
    put(services, *first)
    services.indexing.stop()
    later = [core(number, f"Stone{number} stays.") for number in range(5, CORE_CANDIDATES + 4)]
    write(services.store, *(*later, core(90, "A boat.")))
    found = core_of(services)
    assert {*(memory.id for memory in first), core(90).id} <= found
    assert len(found) == CORE_CANDIDATES


@pytest.mark.parametrize("count", [5, CORE_CANDIDATES + 9])
@pytest.mark.parametrize("ranker", ["auto", "deterministic"])
def test_pages_with_core_memories_neither_repeat_nor_skip_answers(
    services: StoreServices, count: int, ranker: str
) -> None:
    put(
        services,
        *(core(number, f"Ines never eats {'boat' if number % 2 else 'sea'}{number}.") for number in range(count)),
    )
    seen: list[str] = []
    while page := services.recall(QUERY, top_k=PAGE, offset=len(seen), ranker=ranker).hits:
        seen += [hit.details.memory.id for hit in page]
    assert len(set(seen)) == len(seen)
    assert {sample_id(number) for number in range(BETTER)} <= set(seen)
    first = services.recall(QUERY, top_k=PAGE, ranker=ranker, explain=True).trace
    assert first is not None
    answerable = {each.id for each in first.candidates if each.rank is not None}
    assert set(seen[: len(answerable)]) == answerable
