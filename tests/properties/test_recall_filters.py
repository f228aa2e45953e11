"""Every filter of recall, alone and together, against a look at each memory. SPEC 2.4, 7.1, 7.2, 17.12"""

import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemo_client.protocol.choices import Ranker
from mnemo_client.protocol.retrieval import RecallRequest
from mnemo_daemon.api import request_codec
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING
from mnemo_daemon.retrieval.question import RecallOutcome
from mnemo_daemon.server.admission.access_table import OWNER_GRANT
from mnemo_daemon.server.router import Request
from mnemo_daemon.server.sockets import Peer
from mnemo_store.records import TRUSTS, Memory, Usage
from tests.simulation.embedders import ModelFaults, SimulatedCatalogue, SimulatedModels
from tests.support.samples import WAIT_SECONDS, sample_id, sample_memory, write
from tests.support.store_services import StoreServices, services_in

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 1_800_000_000_000  # ms; of the questions
THEN = NOW - DAY  # before the edits
COUNT = 90  # fewer than an answer may have, so that it has all
QUERY = "lantern harbour"  # each memory holds one of the two
RANKERS = get_args(Ranker)

NAMESPACES = ("default", "home", "work")
USERS = ("local", "ines")
AGENTS = ("", "planner")
RUNS = ("", "r1")
SESSIONS = ("", "s1", "s2")
KINDS = ("semantic", "episodic", "procedural", "working")
CATEGORIES = ("fact", "preference", "decision")
LAYERS = ("buffer", "working", "core")
SOURCES = ("api", "note", "turn", "ingest")
SPEAKERS = ("", "Ines", "Jonas")
TAGS = ("boat", "tax")
STATES = ("active", "active", "active", "archived", "compressed", "superseded", "discarded", "trashed")
TIMES = (NOW - 40 * DAY, NOW - 5 * DAY, NOW - 12 * HOUR)
IMPORTANCES = (0.0, 0.125, 0.25, 0.5, 0.875)  # exact in any float


def made(chance: random.Random, number: int) -> Memory:
    """One with a word of the query and words that no other has."""
    own = " ".join("".join(chance.choices("bdfgklmnprstvz", k=7)) for _ in range(7))
    return sample_memory(number, f"{QUERY.split()[number % 2]} {own}", **drawn(chance))


def drawn(chance: random.Random) -> dict[str, Any]:
    return {
        "namespace": chance.choice(NAMESPACES),
        "user_id": chance.choice((*USERS, "local")),
        "agent_id": chance.choice(AGENTS),
        "run_id": chance.choice(RUNS),
        "session_id": chance.choice(SESSIONS),
        "kind": chance.choice(KINDS),
        "category": chance.choice(CATEGORIES),
        "layer": chance.choice(LAYERS),
        "source": chance.choice(SOURCES),
        "speaker": chance.choice(SPEAKERS),
        "trust": chance.choice(TRUSTS),
        "tags": tuple(tag for tag in TAGS if chance.random() < 0.5),
        "state": chance.choice(STATES),
        "importance": chance.choice(IMPORTANCES),
        "event_at": chance.choice(TIMES),
        "created_at": chance.choice(TIMES),
        "expires_at": chance.choice((0, 0, 0, NOW - 2 * DAY, NOW - HOUR, NOW + HOUR)),
        "superseded_by": chance.choice(("", *map(sample_id, range(COUNT)))),
    }


class KeptMemory:
    """A store of them, half edited since THEN, and what it holds and held."""

    def __init__(self, services: StoreServices) -> None:
        chance = random.Random(3)
        self.services = services
        self.then = [made(chance, number) for number in range(COUNT)]
        self.now = [
            msgspec.structs.replace(memory, version=2, modified_at=NOW - HOUR, **drawn(chance))
            if number % 2
            else memory
            for number, memory in enumerate(self.then)
        ]
        services.at = THEN - HOUR
        for memory in self.then:
            write(services.store, memory, Usage(id=memory.id))
        services.at = NOW - HOUR
        for before, memory in zip(self.then, self.now, strict=True):
            if before is not memory:
                write(services.store, memory)
        services.at = NOW

    def ask(self, asked: RecallRequest) -> RecallOutcome:
        request = Request(ask=asked, query=None, path={}, namespace=asked.namespace, peer=Peer(0), grant=OWNER_GRANT)
        return self.services.recalling.answer(request_codec.question_of(request, asked, NOW))

    def allowed(self, asked: RecallRequest) -> set[str]:
        memories = self.then if asked.as_of is not None else self.now
        every = {memory.id: memory for memory in memories}
        return {memory.id for memory in memories if passes(memory, asked, every)}


def is_replaced(memory: Memory, every: Mapping[str, Memory], now: int) -> bool:
    """True if the first that stands, of what took its place and what took the place of that, is there."""
    passed = {memory.id}
    while memory.superseded_by and memory.superseded_by not in passed:
        memory = every[memory.superseded_by]
        if memory.state not in ("trashed", "discarded") and not 0 < memory.expires_at <= now:
            return True
        passed.add(memory.id)
    return False


def names_another(memory: Memory) -> bool:
    return memory.state == "superseded" or (memory.state == "compressed" and memory.superseded_by != "")


def passes(memory: Memory, asked: RecallRequest, every: Mapping[str, Memory]) -> bool:
    """True if a memory is in question, as the pages of the specification have it."""
    now = asked.now if asked.now is not None else asked.as_of if asked.as_of is not None else NOW
    assert isinstance(now, int)
    namespace = asked.namespace or "default"
    states = {"active", "archived"}
    states |= {name for name in ("compressed", "superseded", "discarded") if getattr(asked, f"include_{name}")}
    return all((
        namespace == "*" or memory.namespace in (namespace, "default"),
        memory.user_id == (asked.user_id or "local"),
        *(getattr(asked, name) in (None, getattr(memory, name))
          for name in ("agent_id", "run_id", "session_id", "source", "speaker")),
        memory.state in states or (names_another(memory) and not is_replaced(memory, every, now)),
        not asked.kinds or memory.kind in asked.kinds,
        not asked.categories or memory.category in asked.categories,
        not asked.layers or memory.layer in asked.layers,
        set(asked.tags) <= set(memory.tags),
        asked.trust_min is None or TRUSTS.index(memory.trust) <= TRUSTS.index(asked.trust_min),
        asked.since is None or memory.event_at >= int(asked.since),
        asked.until is None or memory.event_at < int(asked.until),
        memory.importance >= least_importance(memory, asked),
        not memory.expires_at or memory.expires_at > now,
        memory.kind != "working" or is_working_now(memory, asked, now),
    ))  # fmt: skip


def least_importance(memory: Memory, asked: RecallRequest) -> float:
    if asked.min_importance is not None:
        return asked.min_importance
    return 0.2 if memory.source in ("ingest", "turn", "extract", "proxy") else 0.0


def is_working_now(memory: Memory, asked: RecallRequest, now: int) -> bool:
    """One of kind `working` is recalled in its own session; without one for a day, or when it is asked for by kind."""
    if memory.session_id:
        return memory.session_id == asked.session_id
    return memory.created_at > now - DAY or "working" in asked.kinds


def some(values: tuple[Any, ...]) -> st.SearchStrategy[list[Any]]:
    return st.just([]) | st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)


def perhaps(*values: Any) -> st.SearchStrategy[Any]:
    """None as often as not."""
    return st.none() | st.sampled_from(values)


FILTERS: dict[str, st.SearchStrategy[Any]] = {
    "namespace": perhaps(*NAMESPACES, "nobody's", "*"),
    "user_id": perhaps(*USERS, "nobody"),
    "agent_id": perhaps("planner", "nobody"),
    "run_id": perhaps("r1", "r9"),
    "session_id": perhaps("s1", "s2", "s9"),
    "kinds": some(KINDS),
    "categories": some(CATEGORIES),
    "layers": some(LAYERS),
    "tags": some(TAGS),
    "source": perhaps(*SOURCES),
    "speaker": perhaps("Ines", "Jonas", "Nobody"),
    "trust_min": perhaps(*TRUSTS),
    "since": perhaps(*TIMES, NOW - 10 * DAY),
    "until": perhaps(*TIMES, NOW),
    "min_importance": perhaps(*IMPORTANCES, 0.2),
    "include_compressed": st.booleans(),
    "include_superseded": st.booleans(),
    "include_discarded": st.booleans(),
    "as_of": perhaps(THEN),
    "now": perhaps(NOW + 2 * HOUR, NOW - 3 * DAY),
    "exact": st.booleans(),
}
FILTERED = st.fixed_dictionaries({}, optional=FILTERS).filter(
    lambda asked: asked.get("since") is None or asked.get("until") is None or asked["since"] < asked["until"]
)
ASKED_FOR = st.fixed_dictionaries(
    {"ranker": st.sampled_from(RANKERS)},
    optional={
        "sort": st.sampled_from(("score", "recent", "accessed")),
        "cut": st.sampled_from(("none", "gap")),
        "preferences": st.sampled_from(("first", "inline")),
        "top_k": st.integers(1, 100),
        "offset": st.integers(0, 20),
        "expand": st.sampled_from(("auto", False, True)),
        "rerank": st.booleans(),
        "min_score": st.sampled_from((0.0, 0.2)),
    },
)


@pytest.fixture(scope="module", params=["with vectors", "without a model"])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptMemory]:
    folder: Path = tmp_path_factory.mktemp("filters")
    catalogue = SimulatedCatalogue()
    if request.param == "with vectors":
        catalogue.there.add(DEFAULT_EMBEDDING)
    models = SimulatedModels(catalogue, ModelFaults())
    with services_in(folder, models) as services:
        kept = KeptMemory(services)
        if request.param == "with vectors":
            wait_for_vectors(services)
        yield kept
    models.close()


def wait_for_vectors(services: StoreServices) -> None:
    services.embedding.refresh()
    services.indexing.start()
    deadline = time.monotonic() + WAIT_SECONDS
    while services.indexing.serving() is None or services.indexing.waiting():
        assert time.monotonic() < deadline, "the memories have no vectors"
        time.sleep(0.01)


@pytest.mark.parametrize("ranker", ["words", "auto"])
@given(filters=FILTERED)
@settings(max_examples=150, deadline=None)
def test_recall_gives_all_that_passes_the_filters_and_nothing_else(
    kept: KeptMemory, ranker: Ranker, filters: dict[str, Any]
) -> None:
    asked = RecallRequest(query=QUERY, ranker=ranker, top_k=100, token_budget=None, **filters)
    given_ids = [hit.details.memory.id for hit in kept.ask(asked).hits]
    assert len(given_ids) == len(set(given_ids))
    assert set(given_ids) == kept.allowed(asked)


@given(filters=FILTERED, more=ASKED_FOR)
@settings(max_examples=300, deadline=None)
def test_whatever_is_asked_for_nothing_comes_that_the_filters_leave_out(
    kept: KeptMemory, filters: dict[str, Any], more: dict[str, Any]
) -> None:
    asked = RecallRequest(query=QUERY, token_budget=None, explain=True, **filters, **more)
    recalled = kept.ask(asked)
    allowed = kept.allowed(asked)
    assert {hit.details.memory.id for hit in recalled.hits} <= allowed
    assert recalled.trace is not None
    assert {candidate.id for candidate in recalled.trace.candidates} <= allowed


@given(filters=FILTERED, more=ASKED_FOR)
@settings(max_examples=150, deadline=None)
def test_no_memory_of_another_namespace_or_of_another_user_is_ever_given(
    kept: KeptMemory, filters: dict[str, Any], more: dict[str, Any]
) -> None:
    namespace, user = filters.get("namespace") or "default", filters.get("user_id") or "local"
    recalled = kept.ask(RecallRequest(query=QUERY, token_budget=None, **filters, **more))
    for memory in (hit.details.memory for hit in recalled.hits):
        assert memory.user_id == user
        assert namespace == "*" or memory.namespace in (namespace, "default")
