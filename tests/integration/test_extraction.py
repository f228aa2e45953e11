"""Statements and facts that are extracted after the acknowledgement of a text. SPEC 5.6 [E3, E15, G45]"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_client.protocol.ingestion import ExtractRequest, IngestRequest, PieceAnswer, RememberAnswer, Turn
from mnemo_client.protocol.memories import NewMemory
from mnemo_daemon.assistance.extraction import facts_of
from mnemo_daemon.ingest.ingest_pipeline import Submission
from mnemo_daemon.models.language.language_model import LanguageModel
from mnemo_store.records import DropMemory
from mnemo_store.store import WriteResult
from mnemo_store.tables import EDGES, FACTS, LLM_CALLS
from tests.support.erasure_services import wait_until
from tests.support.extraction_services import ExtractionServices, extraction_services_in
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import WAIT_SECONDS

PORTO = "Tom owns a bakery in Porto. It opens at six. Tom employs two bakers."
STATEMENTS = ["Tom employs two bakers.", "Tom owns a bakery in Porto."]


@pytest.fixture
def at(tmp_path: Path) -> Iterator[ExtractionServices]:
    with extraction_services_in(tmp_path / "data") as services:
        yield services


def test_the_text_is_acknowledged_before_its_statements_and_marked_in_the_same_change(at: ExtractionServices) -> None:
    at.take(PORTO)
    assert (at.store.seq, at.pending(), at.statements()) == (1, 1, [])
    at.run()
    assert (at.pending(), at.statements()) == (0, STATEMENTS)
    with at.store.snapshot() as snapshot:
        assert snapshot.scan(EDGES) == [], "a statement is like its source, which says nothing"


def test_G45_triples_are_kept_as_facts_of_the_statement_they_were_read_from(at: ExtractionServices) -> None:
    at.take(PORTO)
    at.run()
    assert at.facts() == [("Tom", "employ", "two bakers"), ("Tom", "own", "a bakery in Porto")]
    with at.store.snapshot() as snapshot:
        memories = {memory.content: memory for memory in snapshot.memories()}
        (fact,) = facts_of(snapshot, memories["Tom employs two bakers."])
    assert (fact.method, fact.namespace, fact.user_id) == ("rule", "default", "local")
    assert fact.valid_from == memories[PORTO].event_at


def test_a_text_that_is_one_statement_has_its_fact_itself(at: ExtractionServices) -> None:
    at.take("Tom owns a bakery in Porto.")
    at.run()
    assert (at.statements(), at.facts()) == ([], [("Tom", "own", "a bakery in Porto")])


def test_a_crash_between_acknowledgement_and_extraction_costs_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    with extraction_services_in(tmp_path / "data") as before:
        before.take(PORTO)
    for _ in range(2):
        with extraction_services_in(tmp_path / "data") as after:
            after.run()
            assert (after.pending(), after.statements(), len(after.facts())) == (0, STATEMENTS, 2)


def test_a_text_of_whose_version_the_statements_are_not_is_read_again(at: ExtractionServices) -> None:
    memory_id = at.take(PORTO)
    edits = iter(["Tom owns a mill in Porto. Tom employs nine millers."])
    at.pipeline.before_writing = lambda _: [at.services.edit(memory_id, content=text) for text in edits]
    assert [each.text for each in at.extract(memory_id)] == ["Tom owns a mill in Porto.", "Tom employs nine millers."]
    assert at.statements() == ["Tom employs nine millers.", "Tom owns a mill in Porto."]


@pytest.mark.parametrize("how", ["trashed", "undone", "erased", "expired"])
def test_of_a_text_that_is_gone_meanwhile_nothing_is_extracted(at: ExtractionServices, how: str) -> None:
    memory_id = at.take(PORTO)
    match how:
        case "trashed":
            at.services.trash(memory_id)
        case "undone":
            at.services.undo(group="g")
        case "erased":
            erased: WriteResult[None] = WriteResult((DropMemory(id=memory_id),), None)
            at.store.transact(lambda _: erased, by="purge").result(WAIT_SECONDS)
        case _:
            at.services.edit(memory_id, expires_at=500)
    at.run()
    assert (at.pending(), at.statements(), at.facts()) == (0, [], [])


@pytest.mark.parametrize("by_number", [False, True])
def test_undo_of_the_write_takes_the_statements_back(at: ExtractionServices, *, by_number: bool) -> None:
    at.take("The moon is far.", group="another")
    memory_id = at.take(PORTO)
    seq = at.store.seq
    at.run()
    undone = at.services.undo(seq=seq) if by_number else at.services.undo(group="g")
    assert (len(undone.ids), memory_id in undone.ids) == (3, True)
    assert at.statements() == []


def test_a_fact_goes_with_its_memory_and_with_its_text(at: ExtractionServices) -> None:
    at.take(PORTO)
    at.run()
    by_text = {memory.content: memory.id for memory in at.memories()}
    at.services.edit(by_text["Tom owns a bakery in Porto."], content="Tom sold the bakery in Porto.")
    assert sorted(at.facts()) == [("Tom", "employ", "two bakers"), ("Tom", "sold", "the bakery in Porto")]
    at.services.undo()
    assert len(at.facts()) == 2
    erased = WriteResult((DropMemory(id=by_text["Tom employs two bakers."]),), None)
    at.store.transact(lambda _: erased, by="purge").result(WAIT_SECONDS)
    with at.store.snapshot() as snapshot:
        left = {fact.object for fact in snapshot.scan(FACTS)}
    assert left == {"a bakery in Porto", "the bakery in Porto"}  # the second one of a text that was undone


def test_statements_have_the_tags_and_the_trust_of_their_text(at: ExtractionServices) -> None:
    at.take(PORTO, trust="agent", tags=("sensitive", "home"))
    at.run()
    found = [memory for memory in at.memories() if memory.source == "extract"]
    assert {(each.trust, each.tags) for each in found} == {("agent", ("sensitive", "home"))}
    assert len(found) == 2


def test_a_day_in_a_statement_is_counted_from_the_day_of_its_text(at: ExtractionServices) -> None:
    said_at, day = 1_700_000_000_000, 86_400_000
    at.services.at = said_at
    at.take("Tom closed the bakery yesterday. Tom employs two bakers.")
    at.services.at = said_at + 90 * day
    at.run()
    times = {memory.content: memory.event_at for memory in at.memories() if memory.source == "extract"}
    assert said_at - 2 * day < times["Tom closed the bakery yesterday."] < said_at
    assert times["Tom employs two bakers."] == said_at


def test_a_text_that_cannot_be_extracted_holds_up_no_other(at: ExtractionServices) -> None:
    at.take(PORTO)
    at.take("Rosa owns a mill in Braga. Rosa employs nine millers.")

    def fail_for_tom(asked: Sequence[Submission]) -> None:
        if any("Tom" in each.draft.content for each in asked):
            raise OSError("the disk is gone")

    at.pipeline.before_writing = fail_for_tom
    with pytest.raises(OSError, match="the disk is gone"):
        at.run()
    while len(at.statements()) < 2:
        at.extraction.run_slice()
    assert at.pending() == 1
    at.pipeline.before_writing = lambda _: None
    at.run()
    assert len(at.statements()) == 4


def test_who_does_not_wait_is_told_that_the_statements_follow(client: Client) -> None:
    answer = client.remember("Eva runs a press in Faro. Eva employs four printers.", infer=True)
    assert (answer.extracted, answer.statements) == (False, [])
    wait_until(lambda: len(client.recall("Eva", top_k=10).memories) == 3)
    plain = client.remember("Nothing is inferred from this.")
    assert plain.extracted is None


def test_statements_are_there_once_after_the_daemon_was_killed(tmp_path: Path) -> None:
    daemon = RunningDaemon(tmp_path / "d", {"XDG_CACHE_HOME": str(tmp_path)})
    daemon.start()
    with daemon.client() as client:
        client.remember(PORTO, infer=True)
    daemon.kill()
    daemon.start()
    with daemon.client() as client:
        wait_until(lambda: client.status().memories == 3)
        assert sorted(each.content for each in client.list_memories(source="extract").memories) == STATEMENTS
    assert daemon.stop() == 0


def test_a_batch_and_a_text_wait_for_all_their_statements(client: Client) -> None:
    texts = [f"Ben{number} owns shop {number}. Ben{number} employs {number} clerks." for number in range(2, 5)]
    asked = [NewMemory(content=text, infer=True, wait="extracted") for text in texts]
    answers = client.remember_many(asked)
    assert [len(each.statements) for each in answers if isinstance(each, RememberAnswer)] == [2, 2, 2]
    taken = client.ingest(
        IngestRequest(text="Leo owns a ferry in Faro. Leo employs a cook.", infer=True, wait="extracted")
    )
    (piece,) = taken.results
    assert isinstance(piece, PieceAnswer)
    assert (piece.extracted, len(piece.statements)) == (True, 2)


TALK = (
    Turn(role="user", speaker="Ines", content="I live in Porto with my brother. Tom owns a bakery in Porto."),
    Turn(role="agent", content="The bakery of the Silva family opened in 1998. Maria runs the office of the bakery."),
)


def test_extract_stores_a_text_and_returns_its_statements(client: Client) -> None:
    answer = client.extract(ExtractRequest(text="Olga owns a forge in Braga. Olga employs three smiths."))
    assert [each.text for each in answer.statements] == ["Olga owns a forge in Braga.", "Olga employs three smiths."]
    assert (answer.extracted, answer.counts, len(answer.sources)) == (True, {"stored": 1}, 1)
    assert [client.get(each.id).derived_from for each in answer.statements if each.id] == [answer.sources] * 2
    assert client.undo(group=answer.group).total == 3


@pytest.mark.parametrize(
    ("roles", "texts"),
    [
        (("user", "agent"), {"Ines", "Tom", "The", "Maria"}),
        (("user",), {"Ines", "Tom"}),
        (("agent",), {"The", "Maria"}),
    ],
)
def test_E16_statements_are_extracted_of_the_user_of_the_agent_or_of_both(
    client: Client, roles: tuple[Literal["user", "agent"], ...], texts: set[str]
) -> None:
    namespace = "talk-" + "-".join(roles)
    asked = ExtractRequest(turns=[*TALK], roles=roles, session_id="s", namespace=namespace)
    answer = client.extract(asked)
    assert {each.text.split()[0] for each in answer.statements} == texts
    trusts = {client.get(each.id).trust for each in answer.statements if each.id}
    assert trusts == set(roles)


def test_a_dry_extraction_stores_nothing(client: Client) -> None:
    before = client.status().memories
    answer = client.extract(ExtractRequest(text="Paul owns a kiln in Faro. My password is hunter2hunter2.", dry=True))
    assert [each.text for each in answer.statements][:1] == ["Paul owns a kiln in Faro."]
    assert "hunter2hunter2" not in str(answer), "it is masked before anything reads it"
    assert (answer.sources, answer.group, client.status().memories) == ([], None, before)


@pytest.mark.parametrize("asked", [ExtractRequest(), ExtractRequest(text="Hello.", turns=[*TALK])])
def test_extract_takes_either_a_text_or_turns(client: Client, asked: ExtractRequest) -> None:
    with pytest.raises(MnemoError, match="give either a `text` or `turns`"):
        client.extract(asked)


def test_a_small_model_adds_nothing_that_the_text_does_not_say(tmp_path: Path, smollm_file: Path) -> None:
    text = "Anna repaired a clock. She works at a bank."
    model = LanguageModel(smollm_file, allow_unknown=True)
    with extraction_services_in(tmp_path / "data", model, "full") as services:
        services.take(text)
        services.run()
        statements = set(services.statements())
        assert {"Anna repaired a clock."} <= statements <= {"Anna repaired a clock.", "Anna works at a bank."}
        with services.store.snapshot() as snapshot:
            calls = snapshot.scan(LLM_CALLS)
    model.close()
    assert {call.site for call in calls} == {"extract", "fact_extract"}
    assert {call.outcome for call in calls} <= {"answered", "rejected"}
