"""Reasons that one memory was, or was not, among the answers, case by case, through the socket. SPEC 7.7"""

import itertools
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.memories import MemoryView, NewMemory
from mnemo_client.protocol.retrieval import WhyAnswer
from mnemo_daemon.retrieval.candidates.candidate_retrieval import CANDIDATES_MIN
from mnemo_daemon.retrieval.candidates.corpus import CandidateSet
from mnemo_daemon.retrieval.question import Question
from mnemo_store.disk import Disk
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.indexes.vectors import VectorIndex
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import sample_memory
from tests.support.store_services import StoreServices, put, simulated_services_in

DAY = 86_400_000
FACTS = (
    "The ferry to the island leaves at seven in the morning.",
    "Sourdough wants a hot oven and a long night in the fridge.",
    "The printer on the second floor takes A4 only.",
    "Ines keeps the spare key of the green boat in a blue tin.",
    "The tax return is due at the end of May.",
)
WAIT_SECONDS = 15.0  # far more than it takes
FERRY = "when does the ferry to the island leave?"
BOATS = CANDIDATES_MIN + 50
ENTRIES = 1_500  # a graph of fewer than 1,000 is searched whole
NOON = "2026-03-02T12:00"
LONG = "The ferry to the island: " + "it sways and creaks in every wave and wind. " * 40


def now() -> int:
    return time.time_ns() // 1_000_000


def fresh() -> str:
    return f"ns-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def client(model_daemon: RunningDaemon) -> Iterator[Client]:
    """In a namespace of the test's own."""
    with model_daemon.client(fresh(), entry_point="cli") as open_client:
        yield open_client


@pytest.fixture
def facts(client: Client) -> list[str]:
    """Their ids."""
    return [client.remember(content, wait="indexed").memory.id for content in FACTS]


def rank_of(client: Client, memory_id: str, query: str, **fields: Any) -> int | None:
    """The rank at which a recall answers it."""
    ids = [memory.id for memory in client.recall(query, dry=True, **fields).memories]
    return ids.index(memory_id) + 1 if memory_id in ids else None


# Among the answers


def test_an_answer_is_explained_with_its_place_and_reasons(client: Client, facts: list[str]) -> None:
    diagnosis = client.why(facts[0], FERRY)
    assert (diagnosis.verdict, diagnosis.reason, diagnosis.answers, diagnosis.hurdles, diagnosis.last) == (
        "answered",
        None,
        5,
        [],
        None,
    )
    assert diagnosis.sentence.startswith("It is answer 1 of 5: ")
    assert "has ferry, island, leave" in diagnosis.sentence
    assert "close in meaning (0." in diagnosis.sentence
    assert (diagnosis.holds, diagnosis.missing) == (["ferry", "island", "leave"], [])
    assert diagnosis.candidate is not None
    assert (diagnosis.candidate.rank, diagnosis.candidate.answer) == (1, 1)
    assert [(each.name, each.found, each.rank) for each in diagnosis.channels] == [
        ("words", True, 1),
        ("vectors", True, 1),
    ]


def test_every_answer_is_explained_with_the_place_that_recall_gives_it(client: Client, facts: list[str]) -> None:
    for memory_id in facts:
        place = rank_of(client, memory_id, "the morning in May")
        assert client.why(memory_id, "the morning in May").sentence.startswith(f"It is answer {place} of 5")


def test_an_answer_in_the_place_of_an_older_value_says_so(client: Client) -> None:
    client.remember("I live in Lisbon.", event_at=now() - DAY, wait="indexed")
    moved = client.remember("I moved to Porto.", wait="indexed")
    assert moved.updates
    diagnosis = client.why(moved.memory.id, "lisbon", ranker="words")
    assert rank_of(client, moved.memory.id, "lisbon", ranker="words") == 1
    assert diagnosis.sentence == "It is answer 1 of 2, in the place of one that it updates."
    assert (diagnosis.verdict, diagnosis.holds, diagnosis.missing) == ("answered", [], ["lisbon"])


# Filtered


@pytest.mark.parametrize(
    ("stored", "asked", "reason", "wanted", "has"),
    [
        ({}, {"user_id": "ann"}, "user_id", "ann", "local"),
        ({}, {"namespace": "elsewhere"}, "namespace", "elsewhere or default", "ns-"),
        ({}, {"kinds": ["procedural", "working"]}, "kinds", "procedural or working", "semantic"),
        ({}, {"categories": ["decision"]}, "categories", "decision", "fact"),
        ({}, {"layers": ["core"]}, "layers", "core", "buffer"),
        ({"tags": ["a", "b"]}, {"tags": ["a", "c"]}, "tags", "a and c", "a, b"),
        ({}, {"tags": ["a"]}, "tags", "a", "none"),
        ({}, {"source": "note"}, "source", "note", "cli"),
        ({"speaker": "Ines"}, {"speaker": "Otto"}, "speaker", "Otto", "Ines"),
        ({}, {"speaker": "Otto"}, "speaker", "Otto", "none"),
        ({"agent_id": "a1"}, {"agent_id": "a2"}, "agent_id", "a2", "a1"),
        ({"run_id": "r1"}, {"run_id": "r2"}, "run_id", "r2", "r1"),
        ({"session_id": "s1"}, {"session_id": "s2"}, "session_id", "s2", "s1"),
        ({"event_at": NOON}, {"since": "2026-03-03"}, "since", "from 2026-03-03 00", "happened at 2026-03-02 12"),
        ({"event_at": NOON}, {"until": "2026-03-02"}, "until", "before 2026-03-02 00", "happened at 2026-03-02 12"),
        ({"importance": 0.25}, {"min_importance": 0.5}, "min_importance", "0.5 or more", "0.25, from cli"),
        ({"importance": 0.1, "source": "ingest"}, {}, "min_importance", "0.2 or more, of what was", "0.1, from ingest"),
        ({"kind": "working", "session_id": "s1"}, {}, "working", "of this session, or of", "of session s1, stored at"),
        ({"expires_at": "2199-01-02"}, {"now": "2199-01-03"}, "expired", "what holds at 2199-01-03",
         "expired at 2199-01-02 00:00"),
    ],
)  # fmt: skip
def test_a_memory_that_a_filter_left_out_is_explained_with_the_wanted_and_its_own_value(
    client: Client, stored: dict[str, Any], asked: dict[str, Any], reason: str, wanted: str, has: str
) -> None:
    fields = {"kind": "semantic", "category": "fact", **stored}
    memory_id = client.remember("The ferry to the island leaves at seven.", **fields).memory.id
    diagnosis = client.why(memory_id, FERRY, **asked)
    assert rank_of(client, memory_id, FERRY, **asked) is None
    assert (diagnosis.verdict, diagnosis.reason, [each.reason for each in diagnosis.hurdles]) == (
        "filtered",
        reason,
        [reason],
    )
    (hurdle,) = diagnosis.hurdles
    assert hurdle.wanted.startswith(wanted)
    assert hurdle.has.startswith(has)
    assert (
        diagnosis.sentence
        == f"It was left out by `{reason}`, which requires {hurdle.wanted}; the memory has {hurdle.has}."
    )
    assert (diagnosis.candidate, diagnosis.channels) == (None, [])


def test_too_little_trust_is_explained_with_both_values(model_daemon: RunningDaemon) -> None:
    namespace = fresh()
    with model_daemon.client(namespace, entry_point="mcp") as agent:
        memory_id = agent.remember("The ferry leaves at seven.").memory.id
    with model_daemon.client(namespace, entry_point="cli") as person:
        (hurdle,) = person.why(memory_id, FERRY, trust_min="user").hurdles
    assert (hurdle.reason, hurdle.wanted, hurdle.has) == ("trust_min", "user or more trusted", "agent")


def test_trashed_and_superseded_are_filters_with_names_of_their_own(client: Client, facts: list[str]) -> None:
    client.delete(facts[0])
    newer = client.remember("The printer takes A3.", supersedes=[facts[2]]).memory.id
    for memory_id, state in ((facts[0], "trashed"), (facts[2], "superseded")):
        diagnosis = client.why(memory_id, FERRY)
        assert (diagnosis.verdict, diagnosis.reason) == ("filtered", state)
        assert [(each.wanted, each.has) for each in diagnosis.hurdles] == [("active or archived", state)]
    assert client.why(facts[2], "printer", include_superseded=True).verdict in ("answered", "held_back")
    assert client.why(newer, "printer").verdict == "answered"


def test_all_filters_that_it_does_not_pass_are_named(client: Client, facts: list[str]) -> None:
    diagnosis = client.why(facts[0], FERRY, kinds=["procedural"], tags=["x"], until="2020-01-01")
    assert [each.reason for each in diagnosis.hurdles] == ["kinds", "tags", "until"]
    assert diagnosis.sentence.endswith("the memory has semantic; nor would it pass `tags`, `until`.")


def test_a_memory_that_did_not_exist_then_is_explained_as_such(client: Client) -> None:
    client.remember("The old ferry leaves at six.", wait="indexed")
    then = now()
    time.sleep(0.01)
    memory_id = client.remember("The ferry leaves at seven.", wait="indexed").memory.id
    diagnosis = client.why(memory_id, FERRY, as_of=then)
    assert (diagnosis.verdict, diagnosis.reason) == ("filtered", "as_of")
    assert diagnosis.sentence == "It was not there at the time that is asked about."
    assert client.why(memory_id, FERRY).verdict == "answered"


def test_as_of_another_time_the_version_of_then_is_explained(client: Client) -> None:
    memory_id = client.remember("The ferry leaves at seven.", tags=["boat"], wait="indexed").memory.id
    then = now()
    time.sleep(0.01)
    client.delete(memory_id)
    assert client.why(memory_id, FERRY).reason == "trashed"
    diagnosis = client.why(memory_id, FERRY, as_of=then)
    assert (diagnosis.verdict, diagnosis.holds) == ("answered", ["ferry", "leave"])
    assert client.why(memory_id, FERRY, as_of=then, tags=["car"]).hurdles[0].has == "boat"


# Not found


@pytest.fixture
def many(client: Client, model_daemon: RunningDaemon) -> str:
    """The id of one that is about something else than the BOATS others, of which a channel passes on only some."""
    client.remember_many([
        NewMemory(content=f"The blue boat number {number} has {number} oars and a white sail.", dedup="off")
        for number in range(BOATS)
    ])  # fmt: skip
    other = client.remember("Tax forms are due in May.", wait="indexed").memory.id
    model_daemon.wait_for_vectors()
    return other


def test_a_memory_that_no_channel_found_is_explained_with_its_missing_words_and_its_ranks(
    client: Client, many: str
) -> None:
    diagnosis = client.why(many, "which blue boat has a white sail?")
    assert (diagnosis.verdict, diagnosis.reason, diagnosis.candidate, diagnosis.answers) == ("not_found", None, None, 5)
    assert (diagnosis.holds, diagnosis.missing) == ([], ["blue", "boat", "white", "sail"])
    words, vectors = diagnosis.channels
    assert (words.found, words.score, words.rank, words.looked_at) == (False, None, None, CANDIDATES_MIN)
    assert (vectors.found, vectors.rank, vectors.looked_at) == (False, BOATS + 1, CANDIDATES_MIN)
    assert vectors.score is not None
    assert vectors.score < 0.4
    assert diagnosis.sentence == (
        "No channel found it: it has none of the words blue, boat, white, sail; by meaning (cosine "
        f"{vectors.score:.2f}) it is number {BOATS + 1}, and {CANDIDATES_MIN} were looked at."
    )
    assert diagnosis.last is not None


def test_a_memory_that_only_words_could_find_is_explained_with_its_rank_among_them(client: Client, many: str) -> None:
    diagnosis = client.why(many, "the blue boat with oars, and May", ranker="words")
    assert diagnosis.verdict == "answered"  # nothing else has the rarest of the words
    last = client.remember("A boat: " + "long and short and far and wide it is told of. " * 30, wait="stored").memory.id
    diagnosis = client.why(last, "a white sail on a blue boat", ranker="words")
    assert (diagnosis.verdict, diagnosis.holds, diagnosis.missing) == ("not_found", ["boat"], ["white", "sail", "blue"])
    assert [(each.name, each.found, each.rank, each.looked_at) for each in diagnosis.channels] == [
        ("words", False, BOATS + 1, CANDIDATES_MIN)
    ]  # fmt: skip
    assert diagnosis.sentence == (
        f"No channel found it: by words (it has boat, lacks white, sail, blue) it is number {BOATS + 1}, and "
        f"{CANDIDATES_MIN} were looked at, and only words were looked for."
    )


def _lost_by_graph(
    services: StoreServices, view: VectorIndex, question: Question
) -> tuple[Question, CandidateSet, int, int] | None:
    """The question, what it finds, and the rank and number of one that only an exact search finds, if there is one."""
    found = services.recalling.run(question).found
    assert found.query is not None
    met = set(found.numbers[found.from_vectors].tolist())
    true = view.nearest(found.query.vector, CANDIDATES_MIN, exact=True).numbers.tolist()
    return next(((question, found, rank, each) for rank, each in enumerate(true, 1) if each not in met), None)


@pytest.mark.parametrize("without", [range(1), range(len(FACTS))], ids=["the answer", "all"])
def test_what_has_no_vector_yet_is_not_cut_out_of_the_answer(tmp_path: Path, without: range) -> None:
    with simulated_services_in(tmp_path, has_model=True) as services:
        put(services, *(sample_memory(number, text) for number, text in enumerate(FACTS)))
        serving = services.indexing.serving()
        assert serving is not None
        numbers = {services.views.attributes.ids([each])[0]: each for each in serving.view.numbers().tolist()}
        for place in without:
            serving.view.drop(numbers[sample_memory(place, "").id])
        wanted = MemoryFilter(namespaces=("default",), user_id="local", now=services.at)
        found = services.recalling.answer(Question(FERRY, wanted, cut="gap"))
        assert [hit.details.memory.content for hit in found.hits][:1] == [FACTS[0]]
        prompt = Question("write a poem about a green boat", wanted, cut="gap", unasked="prompt")
        assert not services.recalling.answer(prompt).hits  # words alone do not bear on a prompt


def test_a_memory_that_the_graph_lost_is_explained_with_what_the_graph_search_looked_at(tmp_path: Path) -> None:
    with simulated_services_in(tmp_path, has_model=True) as services:
        put(services, *(sample_memory(number, f"Entry {number}.") for number in range(ENTRIES)))
        serving = services.indexing.serving()
        assert serving is not None
        view, chance = serving.view, np.random.default_rng(1)
        rows = chance.standard_normal((ENTRIES, 1, view.dimensions)).astype(np.float32)
        numbers = view.numbers().tolist()
        view.put_many(numbers, list(rows / np.linalg.norm(rows, axis=2, keepdims=True)))
        view.exact_max = view.width = 100
        view.build_index(tmp_path, Disk(), lambda: False)
        wanted = MemoryFilter(namespaces=("default",), user_id="local", now=services.at)
        asked = (Question(f"blue boat {turn}", wanted, top_k=5, token_budget=None) for turn in itertools.count())
        question, found, rank, lost = next(filter(None, (_lost_by_graph(services, view, each) for each in asked)))
        lost_id = services.views.attributes.ids([lost])[0]
        diagnosis = services.recalling.why(question, lost_id)
        assert (diagnosis.verdict, [each.rank for each in diagnosis.channels]) == ("not_found", [None, rank])
        assert diagnosis.sentence.endswith(
            f"it is number {rank}, but the graph search, which looked at {found.graph_rows} vectors, did not meet it; "
            "`exact` compares all."
        )
        exact = services.recalling.why(question._replace(exact=True), lost_id)
        assert exact.channels[1].found
        assert exact.verdict != "not_found"


# Found, and not answered


def test_a_memory_ranked_lower_is_compared_with_the_last_answer(client: Client, facts: list[str]) -> None:
    diagnosis = client.why(facts[2], FERRY, top_k=2)
    assert (diagnosis.verdict, diagnosis.reason, diagnosis.answers) == ("further_down", "beyond_top_k", 2)
    assert diagnosis.candidate is not None
    assert diagnosis.last is not None
    assert diagnosis.last.id == client.recall(FERRY, top_k=2, dry=True).memories[-1].id
    assert (diagnosis.last.rank, diagnosis.last.answer) == (2, 2)
    assert diagnosis.candidate.rank is not None
    assert 3 <= diagnosis.candidate.rank <= 5
    assert set(diagnosis.candidate.features) == set(diagnosis.last.features)
    scores = f"its score is {diagnosis.candidate.score:.3g}, that of the last answer {diagnosis.last.score:.3g}"
    assert diagnosis.sentence == f"It was found in place {diagnosis.candidate.rank}, and 2 were answered: {scores}."


def test_a_memory_that_the_offset_skips_is_explained_as_such(client: Client, facts: list[str]) -> None:
    diagnosis = client.why(facts[0], FERRY, top_k=2, offset=2)
    assert (diagnosis.verdict, diagnosis.reason) == ("earlier_page", "earlier_page")
    assert diagnosis.sentence == "It was found, in place 1, and the offset of 2 passes over it."


def test_a_memory_under_a_floor_is_explained_with_it(client: Client, facts: list[str]) -> None:
    diagnosis = client.why(facts[1], FERRY, ranker="fused")
    assert (diagnosis.verdict, diagnosis.reason, diagnosis.ranker) == ("not_ranked", "below_sim_threshold", "fused")
    assert diagnosis.candidate is not None
    assert diagnosis.sentence.startswith(
        f"It was found, but its cosine {diagnosis.candidate.similarity:.2f} is under the floor"
    )
    assert diagnosis.sentence.split("`fused`, ")[1] != "0.00."
    diagnosis = client.why(facts[1], FERRY, min_score=0.9, ranker="cosine")
    assert (diagnosis.verdict, diagnosis.reason) == ("not_ranked", "min_score")
    assert diagnosis.candidate is not None
    assert (
        diagnosis.sentence
        == f"It was found, but its score {diagnosis.candidate.score:.3f} is under the min_score of 0.9."
    )


def test_a_duplicate_is_explained_with_the_answer_that_it_repeats(client: Client, facts: list[str]) -> None:
    twice = client.remember(FACTS[0], namespace="default", wait="indexed").memory.id
    try:
        one, other = client.why(twice, FERRY), client.why(facts[0], FERRY)
        out, made = (one, facts[0]) if one.verdict == "held_back" else (other, twice)
        assert {one.verdict, other.verdict} == {"held_back", "answered"}
        assert (out.reason, out.instead) == ("duplicate_content", made)
        assert out.sentence == f"It was found, and says the very same as an answer: it is a duplicate of {made}."
    finally:
        client.delete(twice)


def test_a_near_copy_is_explained_with_the_answer_that_contains_it(client: Client, facts: list[str]) -> None:
    copy = client.remember("The ferry to the island leaves at 7 in the morning.", wait="indexed").memory.id
    diagnosis = [client.why(memory_id, FERRY) for memory_id in (facts[0], copy)]
    out = next(each for each in diagnosis if each.verdict == "held_back")
    made = next(each.id for each in diagnosis if each.verdict == "answered")
    assert (out.reason, out.instead) == ("near_copy", made)
    assert out.sentence.endswith(f"it is a near copy of {made}.")


def test_a_memory_over_the_budget_is_explained_with_its_tokens(client: Client, facts: list[str]) -> None:
    memory_id = client.remember(LONG, wait="indexed").memory.id
    diagnosis = client.why(memory_id, FERRY, token_budget=100)
    assert (diagnosis.verdict, diagnosis.reason) == ("held_back", "over_budget")
    assert diagnosis.tokens is not None
    assert diagnosis.tokens > 400
    used = client.recall(FERRY, token_budget=100, dry=True).total_tokens
    assert diagnosis.sentence == (
        "It was found, and does not fit the token budget: "
        f"it has {diagnosis.tokens} tokens, and of 100 {used} are used."
    )


def test_a_memory_that_is_cut_is_explained_as_such(client: Client, facts: list[str]) -> None:
    diagnosis = client.why(facts[1], FERRY, cut="gap")
    assert (diagnosis.verdict, diagnosis.reason, diagnosis.answers) == ("held_back", "cut", 1)
    assert diagnosis.sentence == "It was found, and is too weak next to the best answer (`cut: gap`)."
    assert diagnosis.candidate is not None
    assert diagnosis.last is not None
    assert diagnosis.candidate.cut["strength"] < diagnosis.last.cut["strength"]
    none = client.why(facts[1], "what is my blood type?", cut="gap")
    assert none.answers == 0
    assert none.sentence.startswith("It was found, but nothing that was found is near enough")


# What may be asked


def test_an_id_may_be_its_last_digits_and_one_that_is_none_is_refused(client: Client, facts: list[str]) -> None:
    assert client.why(facts[0].replace("-", "")[-12:], FERRY).id == facts[0]
    with pytest.raises(RefusalError) as refused:
        client.why("00000000-0000-7000-8000-000000000000", FERRY)
    assert (refused.value.status, refused.value.field) == (404, "id")
    with pytest.raises(RefusalError) as refused:
        client.why(facts[0], "  ")
    assert (refused.value.status, refused.value.field) == (400, "query")


def test_an_agent_gets_no_explanation_of_memories_that_it_may_not_see(model_daemon: RunningDaemon) -> None:
    namespace = fresh()
    with model_daemon.client(namespace, entry_point="cli") as person:
        memory_id = person.remember("The safe's code is with Ines.", tags=["sensitive"]).memory.id
        assert person.why(memory_id, "the safe's code").verdict == "answered"
    with model_daemon.client(namespace, entry_point="mcp") as agent, pytest.raises(RefusalError) as refused:
        agent.why(memory_id, "the safe's code")
    assert refused.value.status == 404


def test_asking_why_is_no_use_and_changes_nothing(client: Client, facts: list[str]) -> None:
    kettle = client.remember("The kettle is red.", tags=["kettle"], wait="indexed").memory.id
    use(client, kettle, 1)  # what was used before is written down by then
    before = [without_strength(client.get(each)) for each in facts]
    diagnosis: WhyAnswer = client.why(facts[0], "The ferry to the island leaves at seven in the morning.")
    assert diagnosis.verdict == "answered"
    use(client, kettle, 2)
    assert [without_strength(client.get(each)) for each in facts] == before


def without_strength(memory: MemoryView) -> MemoryView:
    """The memory without what a cycle of the daemon changes, which can run at any time."""
    return msgspec.structs.replace(memory, strength=0.0, strength_epoch=0)


def use(client: Client, kettle: str, times: int) -> None:
    """Recall a memory and wait until its use is written down: with all uses before it."""
    client.recall("kettle", tags=["kettle"])
    deadline = time.monotonic() + WAIT_SECONDS
    while client.get(kettle).access_count < times:
        assert time.monotonic() < deadline, "no use was written"
        time.sleep(0.05)
