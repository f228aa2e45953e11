"""The doors of a real daemon with the real model: what becomes of what comes in. SPEC 5, 2.1, 15."""

import re
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.ingestion import (
    IngestRequest,
    PieceAnswer,
    ReclassifyRequest,
    RememberAnswer,
    Turn,
    TurnsRequest,
)
from mnemo_client.protocol.memories import MemoryView, NewMemory, Patch
from tests.support.running_daemon import RunningDaemon, running
from tests.support.samples import opened, quick_folder

WAIT_SECONDS = 30.0  # far more than it takes
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
SMALL_TALK = "It is what it is, and so it goes on and on, as these things do, more or less, one way or another. "


@pytest.fixture(scope="module")
def daemon(minilm_folder: Path) -> Iterator[RunningDaemon]:
    """With the default model, and one namespace by the letter of each source."""
    with quick_folder() as scratch:
        letters = "\n".join(f'by-{letter} = "{letter}"' for letter in "LMEGT")
        (scratch / "config.toml").write_text(f"[profiles]\n{letters}\n")
        with running(scratch, {"MNEMO_MODELS_FOLDER": str(minilm_folder)}) as started:
            started.wait_for_vectors()
            yield started
        assert "Traceback" not in started.log.read_text()


@pytest.fixture
def client(daemon: RunningDaemon) -> Iterator[Client]:
    """In a namespace of the test's own."""
    with daemon.client(f"ns-{uuid.uuid4().hex[:8]}") as open_client:
        yield open_client


def say(client: Client, *turns: tuple[str, str], session: str = "s1", **fields: Any) -> list[PieceAnswer]:
    asked = [Turn(role=role, content=content) for role, content in turns]  # type: ignore[arg-type]
    answer = client.turns(TurnsRequest(session_id=session, turns=asked, **fields))
    return [each for each in answer.results if isinstance(each, PieceAnswer)]


def test_a_namespace_recalls_by_the_letter_of_its_profile(daemon: RunningDaemon) -> None:
    rankers = {"L": "cosine", "M": "hybrid", "E": "cosine", "G": "layered", "T": "fused"}
    for letter, ranker in rankers.items():
        with daemon.client(f"by-{letter}") as client:
            client.remember("The ferry to Ringvaart leaves at seven from pier four.", importance=0.1)
            daemon.wait_for_vectors()
            answer = client.recall("When does the ferry to Ringvaart leave?")
            assert answer.ranker == ranker
            assert len(answer.memories) == (0 if letter == "L" else 1)  # [L 2.4]: nothing under 0.2
            assert client.recall("ferry", ranker="words", min_importance=0.0).ranker == "words"


SHIPS = "ships"
# Neither shares a word with the question; their cosines to it are 0.468 and 0.242.
BOAT, FERRY = "The boat for the island sails early.", "The ferry to Ringvaart leaves at seven from pier four."


@pytest.mark.parametrize(
    ("letter", "ranker", "found"),
    [
        ("E", "cosine", []), ("own", "cosine", [BOAT, FERRY]),  # E7: 0.7; `own` has no floor
        ("T", "fused", []), ("own", "fused", [BOAT]),  # T13: 0.6; of this model that is 0.341
        ("G", "layered", [BOAT]), ("own", "layered", [BOAT, FERRY]),  # G39: 0.30; of this model that is 0.204
    ],
)  # fmt: skip
def test_E7_T13_G39_a_similarity_has_the_floor_of_the_source(
    daemon: RunningDaemon, letter: str, ranker: Any, found: list[str]
) -> None:
    with daemon.client(f"by-{letter}") as client:
        for key, text in (("boat", BOAT), ("ferry", FERRY)):
            client.remember(text, kind="semantic", importance=0.5, key=key)
        daemon.wait_for_vectors()
        shown = [each.content for each in client.recall(SHIPS, ranker=ranker, kinds=["semantic"]).memories]
        assert [each for each in shown if each in (BOAT, FERRY)] == found
        assert client.recall(SHIPS, ranker="cosine", min_score=0.4).memories[0].content == BOAT


def test_T10_T13_a_session_recalls_from_six_tenths_on(daemon: RunningDaemon) -> None:
    for namespace, floor in (("by-T", 0.6), ("by-own", 0.341)):
        with daemon.client(namespace) as client:
            say(client, ("user", "The pump in the cellar runs dry in summer."), session="floors")
            assert client.explain_session("floors", "pump").floor == floor


def test_L4_M22_a_context_has_the_form_of_the_source_and_no_floor(daemon: RunningDaemon) -> None:
    blocks = {}
    for letter in ("L", "M", "own"):
        with daemon.client(f"by-{letter}") as client:
            client.remember(BOAT, kind="semantic", importance=0.5, key="boat")
            daemon.wait_for_vectors()
            blocks[letter] = client.context("How do I bake rye bread?").block
            assert client.context(BOAT, format="block").block.startswith("<memory>")
    assert re.search(rf"^\[SEMANTIC\] (\(0\.\d\d\) )?{BOAT}$", blocks["L"], re.MULTILINE), "only episodes have a date"
    assert blocks["M"].startswith("MEMORY CONTEXT (hybrid")
    assert BOAT in blocks["M"]
    assert blocks["own"] == ""


def test_L_T13_equal_texts_are_shown_as_often_as_they_were_stored(daemon: RunningDaemon) -> None:
    for letter, shown in (("L", 2), ("T", 1)):
        with daemon.client(f"by-{letter}") as client:
            for _ in range(2):
                client.remember("The mill at Ruhwarden has four sails.", importance=0.5)
            daemon.wait_for_vectors()
            found = client.recall("How many sails has the mill at Ruhwarden?").memories
            assert sum(each.content.startswith("The mill") for each in found) == shown


def count(client: Client) -> int:
    return len(client.list_memories(limit=500).memories)


def until_changed(client: Client, memory_id: str) -> MemoryView:
    """The memory once it has another version than its first."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := client.get(memory_id)).version == 1:
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found


# One memory


def test_a_new_text_is_stored_and_has_its_vector_at_once(client: Client) -> None:
    answer = client.remember("The boiler was serviced by Otto in October.", explain=True)
    assert (answer.outcome, answer.indexed, answer.degraded) == ("stored", True, [])
    assert answer.scores is not None
    assert answer.scores.novelty == 1.0, "nothing was there before it"
    assert answer.explained is not None
    assert answer.explained.profile == "own"


def test_G5_a_near_one_is_stored_and_tied_to_the_earlier(client: Client) -> None:
    first = client.remember("The server room is cooled to 18 degrees.").memory
    second = client.remember("The server room is cooled to 21 degrees.", explain=True)
    assert second.outcome == "stored"
    assert first.id in (*second.related, *second.updates)
    assert second.memory.id != first.id
    assert second.explained is not None
    near = {row.id: row for row in second.explained.near}
    assert near[first.id].tied
    assert near[first.id].sim is not None


def test_G5_what_says_the_same_again_repeats_the_earlier_and_both_stay(client: Client) -> None:
    first = client.remember("The spare key hangs behind the blue door.").memory
    second = client.remember("The spare key hangs behind the blue door!")
    assert (second.outcome, second.repeats) == ("repeats", [first.id])
    assert client.get(first.id).repetition_count == 1
    assert count(client) == 2


def test_a_newer_value_updates_the_older_one(client: Client) -> None:
    old = client.remember("Anna lives in Berlin and works as a nurse.").memory
    new = client.remember("Anna lives in Porto and works as a nurse.")
    assert (new.outcome, new.updates) == ("stored", [old.id])


def test_the_later_statement_is_newer_whatever_day_it_refers_to(client: Client) -> None:
    """An appointment that is moved forward is moved, though the day it has now is the earlier one."""
    first = client.remember("The dentist appointment is on March 20.")
    forward = client.remember("The dentist appointment was moved to March 10.")
    back = client.remember("The dentist appointment was moved to April 2.")
    assert forward.updates == [first.memory.id]
    assert back.updates == [forward.memory.id]


def test_a_return_to_an_earlier_value_in_the_same_words_is_stored(client: Client) -> None:
    client.remember("I live in Berlin.")
    away = client.remember("I moved to Porto.")
    back = client.remember("I live in Berlin.")
    assert back.outcome != "duplicate"
    assert back.updates == [away.memory.id]
    assert client.remember("I live in Berlin.").memory.id == back.memory.id


def test_E5_the_same_text_again_is_a_duplicate_with_the_existing_id(client: Client) -> None:
    first = client.remember("Tea at four.").memory
    again = client.remember("  tea  AT four. ")
    assert (again.outcome, again.memory.id, again.memory.repetition_count) == ("duplicate", first.id, 1)


def test_E6_two_users_with_the_same_text_have_two_memories_and_one_can_go(client: Client) -> None:
    text = "The wifi password hangs on the fridge."
    one = client.remember(text, user_id="ann").memory
    other = client.remember(text, user_id="ben")
    assert other.outcome == "stored"
    assert other.related == other.repeats == other.updates == []
    client.delete(one.id)
    left = client.recall("where is the wifi password", user_id="ben").memories
    assert [memory.id for memory in left] == [other.memory.id]
    assert client.recall("where is the wifi password", user_id="ann").memories == []


def test_E6_two_namespaces_with_the_same_text_have_two_memories_and_one_can_go(daemon: RunningDaemon) -> None:
    text = "The launch is on the second Friday."
    with daemon.client("left") as left, daemon.client("right") as right:
        one, other = left.remember(text), right.remember(text)
        assert (one.outcome, other.outcome) == ("stored", "stored")
        assert other.repeats == other.related == []
        left.delete(one.memory.id)
        assert [memory.id for memory in right.recall("launch Friday").memories] == [other.memory.id]


@pytest.mark.parametrize("fields", [{"agent_id": "planner"}, {"run_id": "run-7"}])
def test_texts_of_another_agent_or_run_are_no_neighbours(client: Client, fields: dict[str, Any]) -> None:
    client.remember("The spare key hangs behind the green door.")
    answer = client.remember("The spare key hangs behind the green door!", **fields)
    assert (answer.outcome, answer.repeats, answer.related) == ("stored", [], [])


def test_a_keyed_write_is_compared_with_nothing_else(client: Client) -> None:
    client.remember("The gate code is on the fridge.")
    keyed = client.remember("The gate code is on the fridge.", key="gate")
    assert (keyed.outcome, keyed.repeats, keyed.related) == ("stored", [], [])


def test_with_dedup_off_nothing_is_compared(client: Client) -> None:
    client.remember("The bins go out on Tuesday.")
    again = client.remember("The bins go out on Tuesday.", dedup="off")
    assert (again.outcome, again.related) == ("stored", [])
    assert count(client) == 2


def test_G5_with_dedup_source_a_near_one_is_merged(client: Client) -> None:
    first = client.remember("The gym is closed on Sundays.").memory
    merged = client.remember("On Sundays the gym is closed.", dedup="source")
    assert (merged.outcome, merged.memory.id) == ("merged", first.id)
    assert merged.memory.repetition_count == 1
    assert count(client) == 1


def test_an_agent_gets_no_explanation_of_memories_that_it_may_not_see(daemon: RunningDaemon) -> None:
    with daemon.client("secrets", entry_point="cli") as person, daemon.client("secrets", entry_point="mcp") as agent:
        person.remember(f"The forge's token is {SECRET}.")
        answer = agent.remember("The forge's token is on the forge's page.", explain=True)
        assert (answer.related, answer.repeats, answer.updates) == ([], [], [])
        assert answer.explained is not None
        assert answer.explained.near == []


def test_L11_what_is_far_from_what_is_known_scores_higher_than_what_is_near(client: Client) -> None:
    for place in ("cellar", "kitchen", "attic", "garage"):
        client.remember(f"The heating valve in the {place} leaks a little water.")
    near = client.remember("The heating valve in the hall leaks a little water.", explain=True).scores
    far = client.remember("Quarterly taxes for the bakery are due to the tax office.", explain=True).scores
    assert near is not None
    assert far is not None
    assert near.novelty < 0.3 < 0.7 < far.novelty


def test_an_explicit_statement_starts_at_one_half_at_least(client: Client) -> None:
    for place in ("cellar", "kitchen"):
        client.remember(f"the tap in the {place} drips")
    assert client.remember("the tap in the hall drips").memory.importance == 0.5


# Routing, and what no route may change


def test_L17_a_preference_is_a_procedural_memory_and_recalled_by_its_meaning(client: Client) -> None:
    stored = client.remember("I prefer green tea to coffee in the morning.", wait="indexed")
    assert (stored.memory.kind, stored.memory.form, stored.memory.category) == (
        "procedural", "preference", "preference",
    )  # fmt: skip
    (found,) = client.recall("which hot drink do I like at breakfast?", ranker="cosine").memories
    assert found.id == stored.memory.id


def test_G2_whatever_layer_is_asked_for_a_memory_enters_the_buffer(client: Client) -> None:
    assert client.remember("Core, please.", layer="core").memory.layer == "buffer"


def test_G3_a_kind_that_is_given_is_kept_and_one_that_there_is_not_is_refused(client: Client) -> None:
    assert client.remember("I prefer window seats.", kind="semantic").memory.kind == "semantic"
    with pytest.raises(RefusalError) as refused:
        client.remember("I prefer aisle seats.", kind="dream")  # type: ignore[call-overload]
    assert (refused.value.status, refused.value.field) == (400, "kind")


@pytest.mark.parametrize("kind", ["semantic", "episodic", "procedural", "working"])
def test_G4_whatever_its_kind_the_buffer_decays_at_five(client: Client, kind: Any) -> None:
    assert client.remember(f"One of kind {kind}.", kind=kind).memory.decay_rate == 5.0


def test_G1_a_text_that_is_too_long_is_refused_and_an_importance_kept_as_given(client: Client) -> None:
    assert client.remember("x" * 8192).memory.content == "x" * 8192
    with pytest.raises(RefusalError) as refused:
        client.remember("y" * 8193)
    assert (refused.value.status, refused.value.field) == (400, "content")
    kept = client.remember("Barely matters.", importance=0.05).memory
    assert (kept.importance, kept.importance_source, kept.strength) == (0.05, "user", 0.05)


def test_G8_what_is_superseded_is_hidden_while_the_newer_one_stands(client: Client) -> None:
    old = client.remember("The offsite is in May.").memory
    new = client.remember("The offsite is in June.", supersedes=[old.id]).memory
    assert client.get(old.id).state == "superseded"
    assert [memory.id for memory in client.recall("when is the offsite").memories] == [new.id]


def test_M18_evidence_is_kept_and_an_outcome_with_it_is_a_result(client: Client) -> None:
    stored = client.remember(
        "The migration passed all 212 tests.", evidence=["logs/run-12.txt", "https://ci.example/12"]
    )
    assert stored.memory.evidence == ["logs/run-12.txt", "https://ci.example/12"]
    assert stored.memory.category == "result"


# Batches


def test_a_batch_is_one_group_in_order_and_undone_at_once(client: Client) -> None:
    texts = [f"Parcel {number} weighs {number * 3} kilograms." for number in range(230)]
    asked = [NewMemory(content=text, namespace=client.namespace) for text in texts]
    results = client.remember_many(asked)
    stored = [each for each in results if isinstance(each, RememberAnswer)]
    assert [each.memory.content for each in stored] == texts
    groups = {client.history(each.memory.id).versions[-1].group for each in (stored[0], stored[120], stored[-1])}
    assert len(groups) == 1
    (group,) = groups
    assert client.undo(group=group).total == 230
    assert count(client) == 0


def test_neighbours_within_a_batch_are_found_too(client: Client) -> None:
    texts = ["The cat sleeps on the red sofa.", "Rent is due on the third.", "The cat sleeps on the red sofa!",
             "Rent is due on the third."]  # fmt: skip
    results = client.remember_many([NewMemory(content=text, namespace=client.namespace) for text in texts])
    first, second, third, fourth = (each for each in results if isinstance(each, RememberAnswer))
    assert (third.outcome, third.repeats) == ("repeats", [first.memory.id])
    assert (fourth.outcome, fourth.memory.id) == ("duplicate", second.memory.id)


# Texts


def test_L1_a_text_becomes_its_pieces_and_an_empty_one_none(client: Client) -> None:
    assert client.ingest("  \n\n ").results == []
    text = "\n\n".join(f"Chapter {n}. " + f"In 19{n}0 the mill of Harlow burned down and was rebuilt. " * 6
                       for n in range(3, 6))  # fmt: skip
    answer = client.ingest(text, source="book")
    taken = [each for each in answer.results if isinstance(each, PieceAnswer) and each.memory is not None]
    assert len(taken) == 3
    assert [each.memory.source for each in taken if each.memory] == ["book"] * 3
    assert sum(answer.counts.values()) == 3


def test_L2_a_text_is_cleaned_and_its_marks_stay(client: Client) -> None:
    (taken,) = client.ingest("  **Cafe\u0301** opens at 7.\r\n\r\n\r\n\r\n`make all` builds it.  ").results
    assert isinstance(taken, PieceAnswer)
    assert taken.memory is not None
    assert taken.memory.content == "**Caf\u00e9** opens at 7.\n\n`make all` builds it."


def test_L7_tokens_are_counted_by_the_models_own_tokenizer(client: Client) -> None:
    """1,100 characters pass for 275 tokens; the model reads them as far more than the 300 that a piece may have."""
    text = " ".join(f"Part {place} is q{place}x{place * 7919:05}zv{place * 104_729:07}k." for place in range(30))
    assert 900 < len(text) < 1_200
    assert len(client.ingest(text).results) > 1


def test_L14_a_piece_that_matters_little_is_rejected_with_its_scores_and_can_be_restored(client: Client) -> None:
    for part in ("one", "two", "three"):
        client.remember(f"{SMALL_TALK}{part}", importance=0.5)
    answer = client.ingest(SMALL_TALK)
    (taken,) = (each for each in answer.results if isinstance(each, PieceAnswer))
    assert (taken.outcome, taken.reason) == ("discarded", "low_importance")
    assert taken.scores is not None
    assert taken.scores.importance < 0.3
    assert taken.memory is not None
    assert client.search("things more or less").total == 3
    listed = client.list_memories(states=["discarded"]).memories
    assert [memory.id for memory in listed] == [taken.memory.id]
    restored = client.restore(taken.memory.id)
    assert (restored.state, restored.importance) == ("active", 0.3)  # whoever brings it back says that it matters
    assert client.search("things more or less").total == 4


def test_an_importance_that_is_given_keeps_every_piece(client: Client) -> None:
    for part in ("one", "two", "three"):
        client.remember(f"{SMALL_TALK}{part}", importance=0.5)
    assert client.ingest(SMALL_TALK, importance=0.1).counts == {"stored": 1}


def test_secrets_in_a_text_are_masked_for_every_sender(daemon: RunningDaemon) -> None:
    with daemon.client("masked", entry_point="cli") as person:
        (taken,) = person.ingest(f"The deploy token of the build machine is {SECRET}.").results
        assert isinstance(taken, PieceAnswer)
        assert taken.memory is not None
        assert SECRET not in taken.memory.content
        assert taken.masked
        (turn,) = say(person, ("user", f"My deploy token for the other machine is {SECRET}."))
        assert turn.memory is not None
        assert SECRET not in turn.memory.content


# Statements

PORTO = "Tom owns a bakery in Porto. It opens at six. Tom employs two bakers."


def test_E3_a_text_is_broken_into_statements_that_lead_back_to_it(client: Client) -> None:
    answer = client.remember(PORTO, infer=True, wait="extracted")
    assert answer.statements
    assert len(answer.statements) >= 2
    for statement in answer.statements:
        assert statement.id is not None
        memory = client.get(statement.id)
        assert (memory.content, memory.derived_from, memory.source, memory.method) == (
            statement.text, [answer.memory.id], "extract", "rule",
        )  # fmt: skip
    assert "Tom owns a bakery in Porto." in [statement.text for statement in answer.statements]
    owns = next(each for each in answer.statements if each.text.startswith("Tom owns"))
    assert owns.triple is not None
    assert owns.triple[0] == "Tom"
    assert answer.group is not None
    assert client.undo(group=answer.group).total == 1 + len(answer.statements)


def test_E1_each_statement_is_found_by_a_vector_of_its_own(client: Client) -> None:
    answer = client.remember(PORTO, infer=True, wait="extracted")
    (best, *_) = client.recall("how many bakers does Tom have?", ranker="cosine").memories
    assert best.id in [statement.id for statement in answer.statements]


def test_E4_the_text_itself_stays(client: Client) -> None:
    answer = client.remember(PORTO, infer=True, wait="extracted")
    assert client.get(answer.memory.id).content == PORTO


def test_a_derived_memory_has_no_more_trust_than_its_source(daemon: RunningDaemon) -> None:
    with daemon.client("trust", entry_point="mcp") as agent:
        answer = agent.remember(PORTO, infer=True, wait="extracted")
        assert {agent.get(each.id).trust for each in answer.statements if each.id} == {"agent"}


# Conversations


def test_a_turn_is_a_memory_at_once_with_its_speaker_and_time(client: Client) -> None:
    turn = Turn(role="user", speaker="Ines", content="The new mooring is at berth 14 in Kiel.", at=1_777_971_600_000)
    (taken,) = client.turns(TurnsRequest(session_id="tuesday", turns=[turn])).results
    assert isinstance(taken, PieceAnswer)
    assert taken.memory is not None
    memory = taken.memory
    assert (memory.source, memory.session_id, memory.speaker) == ("turn", "tuesday", "Ines")
    assert (memory.importance, memory.layer, memory.event_at) == (0.5, "buffer", 1_777_971_600_000)
    assert memory.turn is not None
    assert (memory.turn.role, memory.turn.tier) == ("user", "ring")
    (_, said) = say(
        client, ("user", "Berth 14 has no shore power."), ("agent", "Shore power comes to berth 14 in May.")
    )
    assert said.memory is not None
    assert said.memory.trust == "agent"


def test_T2_a_turn_that_says_a_recent_one_again_is_rejected_and_counts_for_it(client: Client) -> None:
    first, again = say(
        client,
        ("user", "My dentist appointment is on 4 June at nine."),
        ("user", "My dentist appointment is on the 4 June at nine!"),
    )
    assert first.memory is not None
    assert (again.outcome, again.reason, again.repeats) == ("discarded", "near_duplicate", [first.memory.id])
    assert client.get(first.memory.id).repetition_count == 1


def test_T2_a_turn_that_differs_in_a_specific_is_kept(client: Client) -> None:
    results = say(
        client,
        ("user", "My dentist appointment is on 4 June at nine."),
        ("user", "My dentist appointment is on 5 June at nine."),
    )
    assert [each.outcome for each in results] == ["stored", "stored"]


@pytest.mark.parametrize("content", ["ok", "and so on and so on"])
def test_T2_a_turn_that_says_nothing_is_rejected_with_the_reason(client: Client, content: str) -> None:
    (taken,) = say(client, ("user", content))
    assert taken.outcome == "discarded"
    assert taken.reason in ("too_short", "stop_words")
    assert count(client) == 0


def test_an_empty_turn_leaves_nothing(client: Client) -> None:
    (taken,) = say(client, ("user", "  \n "))
    assert (taken.outcome, taken.reason, taken.memory) == ("discarded", "too_short", None)


def test_a_loop_of_a_thousand_turns_that_feeds_answers_back_leaves_the_number_of_memories(client: Client) -> None:
    ids = [client.remember(text).memory.id for text in (
        "The boathouse key hangs in the galley.", "The galley is painted green.", "Otto repairs the galley's stove.",
    )]  # fmt: skip
    before = count(client)
    outcomes: Counter[tuple[str, str | None]] = Counter()
    for number in range(50):
        block = client.context("what is there to know of the galley?", session_id="loop").block
        assert block
        results = say(client, *[("agent" if each % 2 else "user", block) for each in range(20)], session="loop")
        outcomes.update((each.outcome, each.reason) for each in results)
        assert number or results[0].related
    assert outcomes == {("discarded", "echo"): 1000}
    assert count(client) == before
    assert [client.get(memory_id).repetition_count for memory_id in ids] == [0, 0, 0]


# What comes late


def test_G9_what_was_written_without_its_vector_is_scored_and_tied_behind(
    short_folder: Path, minilm_folder: Path
) -> None:
    data = short_folder / "data"
    with running(data, {"MNEMO_MODELS_FOLDER": str(short_folder / "models")}) as daemon:
        with daemon.client() as client:
            first = client.remember("The heating valve in the cellar leaks a little water.")
            second = client.remember("The valve of the radiator in the cellar drips.")
        assert (second.outcome, second.indexed, second.related, second.degraded) == ("stored", False, [], ["vectors"])
        assert second.memory.importance >= 0.6, "novelty counts as 1.0"
    with running(data, {"MNEMO_MODELS_FOLDER": str(minilm_folder)}) as daemon, daemon.client() as client:
        assert until_changed(client, second.memory.id).importance == 0.5
        assert client.undo().ids == [second.memory.id], "what came later is undone with the write"
        assert client.get(second.memory.id).state == "trashed"
    with opened(data) as store, store.snapshot() as snapshot:
        assert [(edge.source, edge.target) for edge in snapshot.edges(first.memory.id)] == [
            (second.memory.id, first.memory.id)
        ]


def test_G9_late_scores_go_on_after_a_restart_and_leave_what_was_edited(
    short_folder: Path, minilm_folder: Path
) -> None:
    models = short_folder / "models"
    daemon = RunningDaemon(short_folder / "data", {"MNEMO_MODELS_FOLDER": str(models)})
    daemon.start()
    with daemon.client("late") as client:
        texts = [f"The heating valve in the {place} leaks a little water." for place in ("cellar", "kitchen", "hall")]
        ids = [client.remember(text).memory.id for text in texts]
        edited = client.patch(ids[2], Patch(tags=["mine"]))
    daemon.kill()
    daemon.environ["MNEMO_MODELS_FOLDER"] = str(minilm_folder)
    daemon.start()
    try:
        with daemon.client("late") as client:
            assert until_changed(client, ids[1]).importance == 0.5
            now = client.get(ids[2])
            assert (now.version, now.importance) == (edited.version, edited.importance)
            daemon.wait_for_vectors()
            time.sleep(0.3)
            seq = client.status().seq
            versions = [client.get(memory_id).version for memory_id in ids]
        daemon.stop()
        daemon.start()
        with daemon.client("late") as client:
            daemon.wait_for_vectors()
            time.sleep(0.3)
            assert [client.get(memory_id).version for memory_id in ids] == versions
            since = client.diff(f"seq:{seq}")  # of memories: ids of topics are taken whenever there are any
            assert not [*since.added, *since.changed, *since.removed], "what is done is not done again"
    finally:
        daemon.stop()


def test_without_a_model_nothing_is_rejected_by_score_and_the_answer_says_so(started_daemon: RunningDaemon) -> None:
    with started_daemon.client() as client:
        for _ in range(2):
            answer = client.ingest(SMALL_TALK)
            assert answer.degraded == ["vectors"]
            assert "discarded" not in answer.counts
        first = client.remember("The gate of the old mill is locked at nine in the evening.").memory
        words = client.remember("The gate of the old mill is locked at nine in the evening!")
        assert (words.outcome, words.repeats) == ("repeats", [first.id]), "by its words alone"


# One way in


def test_G10_memories_of_every_entry_point_are_in_every_index(client: Client) -> None:
    word = "quixotic"
    client.remember(f"The {word} plan of the north wing.", wait="indexed")
    client.remember_many([NewMemory(content=f"A {word} bill of 40 euros.", namespace=client.namespace, wait="indexed")])
    client.ingest(IngestRequest(text=f"Mayor Vega called the bridge {word} in 2024.", wait="indexed"))
    say(client, ("user", f"Remember the {word} lighthouse of Texel."), wait="indexed")
    assert client.search(word).total == 4
    found = client.recall(word, top_k=10, ranker="cosine").memories
    assert len(found) == 4
    assert all("vectors" in memory.channels for memory in found)
    assert count(client) == 4


# By the letter of a source


@pytest.mark.parametrize(
    ("letter", "outcome"),
    [("L", "stored"), ("M", "stored"), ("E", "duplicate"), ("G", "duplicate"), ("T", "stored")],
)
def test_each_profile_has_its_way_with_the_same_text(daemon: RunningDaemon, letter: str, outcome: str) -> None:
    with daemon.client(f"by-{letter}") as client:
        client.remember("The tide turns at six in the evening.", importance=0.5)
        assert client.remember("The tide turns at six in the evening.", importance=0.5).outcome == outcome


def test_by_the_letter_of_G_near_ones_are_merged_and_lessons_weigh_more(daemon: RunningDaemon) -> None:
    with daemon.client("by-G") as client:
        client.remember("The library is closed on Mondays.")
        assert client.remember("On Mondays the library is closed.").outcome == "merged"
        lesson = client.remember("Never deploy on a Friday evening.", tags=["lesson"]).memory
        assert (lesson.importance, lesson.kind) == (0.75, "semantic")


def test_by_the_letter_of_E_every_write_is_broken_into_facts(daemon: RunningDaemon) -> None:
    with daemon.client("by-E") as client:
        assert client.remember("Rosa owns a mill in Braga. Rosa employs nine millers.", wait="extracted").statements


# Classifying anew


def test_reclassifying_changes_what_a_rule_set_and_nothing_that_a_person_said(
    short_folder: Path, minilm_folder: Path
) -> None:
    data = short_folder / "data"
    data.mkdir()
    config = data / "config.toml"
    config.write_text('[profiles]\ndefault = "M"\n')
    daemon = RunningDaemon(data, {"MNEMO_MODELS_FOLDER": str(minilm_folder)})
    daemon.start()
    try:
        with daemon.client() as client:
            daemon.wait_for_vectors()
            ruled = client.remember("I prefer tea to coffee.").memory
            said = client.remember("I prefer trains to planes.", kind="episodic", category="decision", importance=0.9)
            assert (ruled.kind, ruled.importance) == ("semantic", 0.5)
        daemon.stop()
        config.write_text("")
        daemon.start()
        with daemon.client() as client:
            with daemon.client(entry_point="hook") as agent:
                agent.hook("tool", session_id="s", tool="Bash", arguments={"command": "make"})
            daemon.wait_for_vectors()
            dry = client.reclassify(ReclassifyRequest())
            assert (dry.looked_at, dry.changed, dry.left, dry.group) == (3, 1, 1, None)
            assert client.get(ruled.id).kind == "semantic"
            done = client.reclassify(ReclassifyRequest(dry_run=False))
            (change,) = done.changes
            assert change.id == ruled.id
            assert (change.before["kind"], change.after["kind"]) == ("semantic", "procedural")
            now = client.get(ruled.id)
            assert (now.kind, now.form, now.category) == ("procedural", "preference", "preference")
            assert client.get(said.memory.id).version == 1
            assert done.group is not None
            client.undo(group=done.group)
            assert client.get(ruled.id).kind == "semantic"
    finally:
        daemon.stop()


@pytest.mark.parametrize("source", [None, "garden.md"])
def test_reclassifying_leaves_a_piece_of_a_text_what_it_scored(client: Client, source: str | None) -> None:
    namespace = f"garden-{uuid.uuid4().hex[:8]}"
    for text in (
        "The path through the garden is muddy.",
        "The hedge in the garden wants cutting.",
        "The gate squeaks.",
    ):
        client.remember(NewMemory(content=text, namespace=namespace))
    text = "The grass was still wet, and the beds along the wall had been dug over, and nobody was to be seen there."
    (piece,) = client.ingest(IngestRequest(text=text, namespace=namespace, source=source)).results
    assert isinstance(piece, PieceAnswer)
    assert piece.memory is not None
    assert 0.3 <= piece.memory.importance < 0.4
    dry = client.reclassify(ReclassifyRequest(namespace=namespace))
    assert (dry.looked_at, [each.id for each in dry.changes]) == (4, [])
