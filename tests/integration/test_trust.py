"""Trust through changes, by every path that writes: an agent beside the person whose memories they are. SPEC 2.1"""

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.ingestion import PieceAnswer, RememberAnswer, Turn, TurnsRequest
from mnemo_client.protocol.knowledge import NewFact
from mnemo_client.protocol.maintenance import ImportAnswer
from mnemo_client.protocol.memories import MemoryView, NewMemory, Patch
from mnemo_client.protocol.primitives import FailureAnswer
from tests.support.running_daemon import RunningDaemon


class Two(NamedTuple):
    """A person and an agent in one namespace."""

    person: Client
    agent: Client

    def pinned(self, **fields: Any) -> MemoryView:
        return self.person.remember(f"The river gate is green {uuid.uuid4().hex}.", pinned=True, **fields).memory


AGENTS = ("mcp", "hook", "api", "cli")  # the last two with the name of an agent


@pytest.fixture(params=AGENTS)
def two(daemon: RunningDaemon, request: pytest.FixtureRequest) -> Iterator[Two]:
    namespace, entry_point = f"ns-{uuid.uuid4().hex[:8]}", request.param
    named = "planner" if entry_point in ("api", "cli") else None
    agent = Client(daemon.socket, namespace, entry_point=entry_point, agent=named)
    with daemon.client(namespace, entry_point="cli") as person, agent:
        yield Two(person, agent)


def test_an_agents_edit_of_what_a_user_wrote_is_a_version_of_the_agents_and_the_users_is_kept(two: Two) -> None:
    kept = two.person.remember("The boiler is serviced every May.").memory
    edited = two.agent.patch(kept.id, Patch(content="The boiler is serviced every June."))
    assert (kept.trust, edited.trust) == ("user", "agent")
    versions = [(each.memory.content, each.memory.trust) for each in two.person.history(kept.id).versions]
    assert versions == [(edited.content, "agent"), (kept.content, "user")]
    assert two.agent.patch(two.person.remember("Tagged.").memory.id, Patch(tags=["a"])).trust == "agent"


def test_a_users_words_have_their_trust_only_where_none_of_the_agents_stay(two: Two) -> None:
    said = two.agent.remember("Sara prefers the quiet carriage.").memory
    assert two.person.patch(said.id, Patch(tags=["travel"])).trust == "agent"
    assert two.person.patch(said.id, Patch(content="Sara prefers the front carriage.")).trust == "agent"
    assert two.person.patch(said.id, Patch(content="She always drives.")).trust == "user"


def test_a_person_who_says_what_an_agent_said_is_remembered_in_person(two: Two) -> None:
    text = "The cellar door sticks in winter."
    assert two.agent.remember(text).memory.trust == "agent"
    own = two.person.remember(text)
    assert (own.outcome == "duplicate", own.memory.trust) == (False, "user")
    again = [each.remember(text) for each in (two.person, two.agent)]
    assert [each.outcome for each in again] == ["duplicate"] * 2
    assert again[0].memory.id == own.memory.id


def test_an_agents_importance_is_no_persons(two: Two) -> None:
    said = two.agent.remember("The lift is slow.", importance=1.0).memory
    assert (said.importance, said.importance_source) == (1.0, "llm")
    kept = two.person.remember("The stairs are steep.", importance=0.4).memory
    edited = two.agent.patch(kept.id, Patch(importance=0.9))
    assert (kept.importance_source, edited.importance_source, edited.importance) == ("user", "llm", 0.9)
    assert two.person.patch(kept.id, Patch(importance=0.7)).importance_source == "user"


def test_a_memory_derived_from_an_import_has_the_trust_of_the_import(two: Two) -> None:
    line = json.dumps({"type": "entity", "name": f"Ferry {uuid.uuid4().hex}", "entityType": "boat",
                       "observations": ["sails at nine"]})  # fmt: skip
    two.person.import_from([line.encode()], namespace=two.person.namespace)
    imported = next(each for each in two.person.list_memories().memories if each.trust == "import")
    derived = two.person.remember("One ferry sails in the morning.", derived_from=[imported.id]).memory
    assert derived.trust == "import"
    own = two.person.remember("Ferries are boats.").memory
    assert two.person.patch(own.id, Patch(derived_from=[imported.id])).trust == "import"
    assert two.agent.remember("Ferries, in short.", derived_from=[own.id]).memory.trust == "import"


def test_a_write_by_key_over_a_users_text_is_the_agents(two: Two) -> None:
    kept = two.person.remember("Deploys are on Tuesdays.", key="deploy").memory
    over = two.agent.remember("Deploys are on Fridays.", key="deploy")
    assert (over.outcome, over.memory.id, over.memory.trust, over.memory.version) == ("updated", kept.id, "agent", 2)


def remembered_many(agent: Client, **fields: Any) -> RememberAnswer | FailureAnswer:
    (result,) = agent.remember_many([NewMemory(content="A newer text.", **fields)])
    if isinstance(result, FailureAnswer):
        raise RefusalError(422, msgspec.to_builtins(result.error))
    return result


ATTEMPTS: dict[str, Callable[[Client, MemoryView], object]] = {
    "edit": lambda agent, kept: agent.patch(kept.id, Patch(content="Something else.")),
    "tag": lambda agent, kept: agent.patch(kept.id, Patch(tags=["mine"])),
    "unpin": lambda agent, kept: agent.patch(kept.id, Patch(pinned=False)),
    "importance": lambda agent, kept: agent.patch(kept.id, Patch(importance=0.0)),
    "delete": lambda agent, kept: agent.delete(kept.id),
    "delete by filter": lambda agent, kept: agent.delete_many(confirm=True, tags=["gate"]),
    "supersede": lambda agent, kept: agent.remember("The gate is red.", supersedes=[kept.id]),
    "supersede in a batch": lambda agent, kept: remembered_many(agent, supersedes=[kept.id]),
    "key": lambda agent, kept: agent.remember("The gate is red.", key="gate"),
    "key in a batch": lambda agent, kept: remembered_many(agent, key="gate"),
    "undo": lambda agent, kept: agent.undo(seq=kept.event_at),
    "dry undo": lambda agent, kept: agent.undo(seq=kept.event_at, dry_run=True),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_only_a_person_may_change_a_memory_that_a_person_pinned(two: Two, attempt: str) -> None:
    kept = two.pinned(key="gate", tags=["gate"])
    seq, versions = two.person.status().seq, two.person.history(kept.id).versions
    asked = msgspec.structs.replace(kept, event_at=seq)  # the change that made it
    with pytest.raises(RefusalError) as refused:
        ATTEMPTS[attempt](two.agent, asked)
    assert (refused.value.status, refused.value.code) == (422, "pinned")
    assert kept.id in refused.value.message
    assert two.person.history(kept.id).versions == versions  # a job of the daemon may have written meanwhile
    assert two.person.get(kept.id) == kept


def test_an_agent_adds_and_removes_only_facts_of_memories_that_are_not_a_persons(two: Two) -> None:
    persons = two.person.remember("Anna lives in Porto.").memory
    agents = two.agent.remember("Eva lives in Porto.").memory
    stated = [NewFact(subject="Anna", predicate="lives in", object="Rome", memory_id=persons.id)]
    own = [NewFact(subject="Eva", predicate="likes", object="tea", memory_id=agents.id)]
    (fact,) = two.person.facts("Anna").facts
    with pytest.raises(RefusalError, match="has trust user: only a person"):
        two.agent.add_facts(stated)
    with pytest.raises(RefusalError, match="has trust user: only a person"):
        two.agent.delete_fact(fact.id)
    two.agent.delete_fact(two.agent.add_facts(own).facts[0].id)
    two.person.patch(agents.id, Patch(pinned=True))
    with pytest.raises(RefusalError, match="is pinned: only a person"):
        two.agent.add_facts(own)
    assert [each.object for each in two.agent.facts("Anna").facts] == ["Porto"]
    two.person.delete_fact(two.person.add_facts(stated).facts[0].id)


def test_the_error_names_the_pinned_memory_in_a_field_of_its_own(two: Two) -> None:
    kept = two.pinned()
    with pytest.raises(RefusalError):
        two.agent.delete(kept.id)
    assert json.loads(two.agent.last_body)["error"]["id"] == kept.id


def test_an_agent_brings_nothing_pinned_back_from_the_trash(two: Two) -> None:
    kept = two.pinned(key="gate")
    two.person.delete(kept.id)
    for attempt in (lambda: two.agent.restore(kept.id), lambda: two.agent.remember(kept.content, key="gate")):
        with pytest.raises(RefusalError) as refused:
            attempt()
        assert refused.value.code == "pinned"
    with pytest.raises(RefusalError) as refused:
        two.agent.undo(seq=two.person.status().seq)
    assert refused.value.code == "pinned"
    assert two.person.restore(kept.id).pinned


def test_an_import_of_another_tool_leaves_what_is_pinned_as_it_is(two: Two) -> None:
    def take_in(text: str, changed: str) -> ImportAnswer:
        reported = {"id": "m1", "memory": text, "created_at": "2020-01-01T00:00:00Z", "updated_at": changed}
        pieces = [json.dumps({"results": [reported]}).encode()]
        return two.person.import_from(pieces, tool="mem0", namespace=two.person.namespace)

    assert take_in("The river gate is green.", "2020-01-01T00:00:00Z").stored == 1
    (kept,) = two.person.list_memories().memories
    pinned = two.person.patch(kept.id, Patch(pinned=True))
    assert pinned.trust == "import"
    answer = take_in("The river gate is red.", "2200-01-01T00:00:00Z")
    assert (answer.updated, answer.skipped) == (0, 1)
    assert kept.id in answer.problems[0].why
    assert "pinned" in answer.problems[0].why
    assert two.person.get(kept.id) == msgspec.structs.replace(pinned, seq=msgspec.UNSET)


def test_an_agent_cannot_undo_an_unpinning(two: Two) -> None:
    kept = two.pinned()
    two.person.patch(kept.id, Patch(pinned=False))
    with pytest.raises(RefusalError) as refused:
        two.agent.undo(seq=two.person.status().seq)
    assert refused.value.code == "pinned"


def test_an_agent_can_neither_pin_what_is_new_nor_what_is_there(two: Two) -> None:
    kept = two.person.remember("Left unpinned.").memory
    attempts = (
        lambda: two.agent.remember("New.", pinned=True),
        lambda: two.agent.patch(kept.id, Patch(pinned=True)),
    )
    for attempt in attempts:
        with pytest.raises(RefusalError) as refused:
            attempt()
        assert (refused.value.status, refused.value.code, refused.value.field) == (422, "pinned", "pinned")


def test_the_same_text_again_is_no_change_of_a_pinned_memory(two: Two) -> None:
    kept = two.pinned(key="gate")
    assert two.agent.remember(kept.content, key="gate").outcome == "duplicate"
    assert two.agent.patch(kept.id, Patch(pinned=True)).version == 1


def test_an_agents_undo_of_a_users_change_is_no_statement_of_the_user(two: Two) -> None:
    kept = two.person.remember("The spare room is blue.").memory
    two.person.patch(kept.id, Patch(content="The spare room is white."))
    two.agent.undo(seq=two.person.status().seq)
    back = two.person.get(kept.id)
    assert (back.content, back.trust) == ("The spare room is blue.", "agent")
    two.person.undo(seq=two.person.status().seq)
    assert two.person.get(kept.id).trust == "user"


def test_a_user_who_takes_an_agents_edit_back_has_their_own_words_again(two: Two) -> None:
    kept = two.person.remember("The spare room is blue.").memory
    two.agent.patch(kept.id, Patch(content="The spare room is red."))
    two.person.undo()
    back = two.person.get(kept.id)
    assert (back.content, back.trust) == (kept.content, "user")


def test_trash_and_back_leaves_the_trust(two: Two) -> None:
    kept = two.person.remember("The attic is dry.").memory
    two.agent.delete(kept.id)
    assert two.agent.restore(kept.id).trust == "user"


def test_an_unnamed_undo_of_an_agent_takes_back_its_own_last_change(two: Two) -> None:
    mine = two.agent.remember("The agent said so.").memory
    kept = two.person.remember("The person said something else.").memory
    assert two.agent.undo().ids == [mine.id]
    assert two.person.get(kept.id).state == "active"


def test_an_agent_name_in_the_body_lowers_the_trust_too(daemon: RunningDaemon) -> None:
    with daemon.client(f"ns-{uuid.uuid4().hex[:8]}", entry_point="cli") as person:
        kept = person.remember("The vault is on the left.", pinned=True, key="vault").memory
        said = person.remember("The vault has a window.", agent_id="planner", importance=0.9).memory
        assert (said.trust, said.importance_source) == ("agent", "llm")
        for fields in ({"key": "vault"}, {"supersedes": [kept.id]}, {"pinned": True}):
            with pytest.raises(RefusalError) as refused:
                person.remember("It is on the right.", agent_id="planner", **fields)
            assert refused.value.code == "pinned"


def test_the_header_of_the_command_line_raises_no_trust(daemon: RunningDaemon) -> None:
    with Client(daemon.socket, "raise", entry_point="cli", agent="planner") as agent:
        assert agent.remember("Said by an agent that calls itself a command line.").memory.trust == "agent"
        with pytest.raises(RefusalError) as refused:
            agent.compact()
        assert (refused.value.status, refused.value.code) == (422, "refused")


@pytest.mark.parametrize(
    ("role", "trust", "side"),
    [("user", "user", "user"), ("agent", "agent", "agent"), ("assistant", "agent", "agent"),
     ("system", "agent", "agent"), ("tool", "tool", "agent")],
)  # fmt: skip
def test_a_turn_has_the_trust_of_its_role(daemon: RunningDaemon, role: str, trust: str, side: str) -> None:
    with daemon.client(f"ns-{uuid.uuid4().hex[:8]}", entry_point="cli") as person:
        turn = Turn(role=role, content="The committee meets in Rotterdam on the ninth of March.")  # type: ignore[arg-type]
        (taken,) = person.turns(TurnsRequest(session_id="s", turns=[turn])).results
        assert isinstance(taken, PieceAnswer)
        assert taken.memory is not None
        assert taken.memory.turn is not None
        assert (taken.outcome, taken.memory.trust, taken.memory.turn.role) == ("stored", trust, side)


def test_a_role_that_there_is_not_is_answered_with_those_there_are(daemon: RunningDaemon) -> None:
    with daemon.client("roles", entry_point="cli") as person, pytest.raises(RefusalError) as refused:
        person.turns(TurnsRequest(session_id="s", turns=[Turn(role="robot", content="Beep.")]))  # type: ignore[arg-type]
    assert refused.value.field == "turns[0].role"
    for role in ("user", "agent", "assistant", "system", "tool"):
        assert role in refused.value.message
