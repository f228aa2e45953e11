"""Remember, get, list, edit, delete, restore, undo through the socket. SPEC 2.1, 3.7, 5.5, 13."""

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.choices import Sort
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import ListMemoriesQuery, MemoryView, NewMemory, Patch
from mnemo_client.protocol.retrieval import ContextRequest
from tests.support.erasure_services import wait_until
from tests.support.running_daemon import RunningDaemon


def fresh() -> str:
    """A namespace of its own for each test."""
    return f"ns-{uuid.uuid4().hex[:8]}"


def test_a_remembered_text_is_found_by_its_words_at_once(client: Client) -> None:
    namespace = fresh()
    stored = client.remember("The spare key hangs behind the blue door.", namespace=namespace)
    answer = client.recall("where is the spare key", namespace=namespace)
    assert stored.outcome == "stored"
    assert [memory.id for memory in answer.memories] == [stored.memory.id]
    assert answer.degraded == ["vectors"]
    assert answer.namespace == namespace


def test_a_persons_importance_moves_strength_and_an_undo_moves_it_back(client: Client) -> None:
    namespace = fresh()
    kept = client.remember("Tea at four.", namespace=namespace, importance=0.5).memory
    assert client.remember("Tea at four.", namespace=namespace).memory.strength == pytest.approx(0.53)
    assert client.patch(kept.id, Patch(importance=0.7)).strength == pytest.approx(0.73)
    with Client(client.socket_path, namespace, agent="planner") as with_agent:
        assert with_agent.patch(kept.id, Patch(importance=0.1)).strength == pytest.approx(0.73)
    client.undo()
    client.undo()
    assert client.get(kept.id).strength == pytest.approx(0.53)


def test_the_same_text_again_is_a_duplicate_and_counts_as_a_repetition(client: Client) -> None:
    namespace = fresh()
    first = client.remember("Tea at four.", namespace=namespace)
    again = client.remember("  tea  AT four. ", namespace=namespace)
    assert again.outcome == "duplicate"
    assert again.memory.id == first.memory.id
    assert again.memory.repetition_count == 1
    assert again.memory.access_count == 1
    assert again.memory.strength == pytest.approx(again.memory.importance + 0.03)
    assert client.get(first.memory.id).content == "Tea at four."


def test_two_users_with_the_same_text_have_two_memories(client: Client) -> None:
    namespace = fresh()
    one = client.remember("Same words.", namespace=namespace, user_id="ann")
    other = client.remember("Same words.", namespace=namespace, user_id="ben")
    assert other.outcome == "stored"
    assert one.memory.id != other.memory.id


def test_a_known_key_with_other_content_makes_a_new_version(client: Client) -> None:
    namespace = fresh()
    first = client.remember("Lives in Bonn.", namespace=namespace, key="home")
    second = client.remember("Lives in Kiel.", namespace=namespace, key="home")
    third = client.remember("Lives in Kiel.", namespace=namespace, key="home")
    assert (second.outcome, second.memory.id, second.memory.version) == ("updated", first.memory.id, 2)
    assert third.outcome == "duplicate"
    contents = [version.memory.content for version in client.history(first.memory.id).versions]
    assert contents == ["Lives in Kiel.", "Lives in Bonn."]


def test_a_write_by_key_keeps_unnamed_fields_and_null_or_an_empty_list_clears_them(client: Client) -> None:
    namespace = fresh()
    client.remember(
        "Lives in Bonn.", namespace=namespace, key="home", tags=["home"], pinned=True, importance=0.9, speaker="Ann",
        kind="episodic", category="decision", event_at=1000, expires_at="2200-01-01", evidence=["a.md"],
        run_id="r", source="diary",
    )  # fmt: skip
    kept = client.get(client.list_memories(namespace=namespace).memories[0].id)
    moved = client.remember("Lives in Kiel.", namespace=namespace, key="home").memory
    fields = {name: getattr(kept, name) for name in kept.__struct_fields__}
    fields |= {"content": "Lives in Kiel.", "version": 2, "modified_at": moved.modified_at}
    assert {name: getattr(moved, name) for name in fields} == fields
    bare = client.remember(
        "Lives in Jena.", namespace=namespace, key="home", tags=[], pinned=False, importance=None, speaker=None,
        kind=None, category=None, event_at=None, expires_at=None, evidence=[], run_id=None, source=None,
    ).memory  # fmt: skip
    assert (bare.tags, bare.pinned, bare.speaker, bare.expires_at, bare.evidence, bare.run_id, bare.source) == (
        [], False, None, None, [], None, "api",
    )  # fmt: skip
    assert (bare.importance_source, bare.category, bare.event_at) == ("rule", "fact", kept.created_at)


def test_a_keyed_memory_in_the_trash_is_restored_by_writing_it_again(client: Client) -> None:
    namespace = fresh()
    first = client.remember("The gate code is on the fridge.", namespace=namespace, key="gate")
    client.delete(first.memory.id)
    again = client.remember("The gate code is on the fridge.", namespace=namespace, key="gate")
    assert (again.outcome, again.memory.id, again.memory.state) == ("duplicate", first.memory.id, "active")


def test_ids_are_deleted_all_together_or_not_at_all(client: Client) -> None:
    namespace = fresh()
    ids = [client.remember(f"Box {number} holds cables.", namespace=namespace).memory.id for number in range(3)]
    missing = "00000000-0000-7000-8000-000000000000"
    with pytest.raises(RefusalError) as error:
        client.delete_ids([ids[0], missing, ids[1]])
    assert (error.value.status, error.value.field) == (404, "id[1]")
    assert {client.get(each).state for each in ids} == {"active"}
    answer = client.delete_ids([ids[0], ids[1][-8:], ids[0]])
    assert answer.ids == ids[:2]
    assert [client.get(each).state for each in ids] == ["trashed", "trashed", "active"]
    client.undo()
    assert {client.get(each).state for each in ids} == {"active"}


def test_tags_are_counted_in_their_namespace(client: Client) -> None:
    one, other = fresh(), fresh()
    gone = client.remember("Ada.", namespace=one, tags=["people", "gone"]).memory
    client.remember("Otto.", namespace=one, tags=["people"])
    client.remember("Ines.", namespace=one, tags=["people", "friend"])
    client.remember("Mira.", namespace=other, tags=["people"])
    client.delete(gone.id)
    assert client.tags(namespace=one).tags == {"people": 2, "friend": 1}
    assert client.tags(namespace="*").tags["people"] >= 3
    assert client.tags(namespace=fresh()).tags == {}


def test_the_agents_that_wrote_come_in_pages_the_last_one_first(client: Client) -> None:
    namespace = fresh()
    client.remember("Nobody but the person wrote this line about the pier.", namespace=namespace)
    for agent, count in (("claude.code", 2), ("codex", 1), ("zed", 3)):
        for number in range(count):
            client.remember(
                f"Pier {number} was seen by {agent} today.", namespace=namespace, agent_id=agent, dedup="off"
            )
    first = client.agents(namespace=namespace, limit=2)
    assert [(each.agent_id, each.memories) for each in first.agents] == [("zed", 3), ("codex", 1)]
    assert first.total == 3
    second = client.agents(namespace=namespace, limit=2, cursor=first.cursor)
    assert [(each.agent_id, each.memories, second.cursor) for each in second.agents] == [("claude.code", 2, None)]
    assert client.agents(namespace=fresh()).total == 0


def test_an_id_is_accepted_by_its_last_eight_digits(client: Client) -> None:
    stored = client.remember("Short ids are enough.", namespace=fresh())
    assert client.get(stored.memory.id[-8:]).id == stored.memory.id
    assert client.get(stored.memory.id.replace("-", "")[:31]).id == stored.memory.id


def test_ids_that_begin_alike_are_answered_with_the_candidates(client: Client) -> None:
    namespace = fresh()
    ids = [client.remember(f"Number {n}.", namespace=namespace).memory.id for n in range(3)]
    prefix = ids[0].replace("-", "")[:8]
    with pytest.raises(RefusalError) as refused:
        client.get(prefix)
    assert (refused.value.status, refused.value.code) == (409, "ambiguous_id")
    assert "give more digits" in str(refused.value)


@pytest.mark.parametrize("bad", ["xyz", "1234567", "g" * 32, "0" * 33])
def test_an_invalid_id_is_refused_with_the_form_of_a_valid_one(client: Client, bad: str) -> None:
    with pytest.raises(RefusalError) as refused:
        client.get(bad)
    assert (refused.value.status, refused.value.code) == (400, "bad_value")


def test_an_unknown_id_is_not_found(client: Client) -> None:
    with pytest.raises(RefusalError) as refused:
        client.get(str(uuid.UUID(int=5)))
    assert (refused.value.status, refused.value.code) == (404, "not_found")


def test_an_edit_at_another_version_is_a_conflict_and_changes_nothing(client: Client) -> None:
    stored = client.remember("First wording.", namespace=fresh()).memory
    edited = client.patch(stored.id, Patch(content="Second wording.", if_version=1))
    assert (edited.version, edited.content) == (2, "Second wording.")
    with pytest.raises(RefusalError) as refused:
        client.patch(stored.id, Patch(content="Third wording.", if_version=1))
    assert (refused.value.status, refused.value.code) == (409, "conflict")
    assert client.get(stored.id).content == "Second wording."


def test_an_edited_text_is_found_by_its_new_words_only(client: Client) -> None:
    namespace = fresh()
    stored = client.remember("The meeting is on Tuesday.", namespace=namespace).memory
    client.patch(stored.id, Patch(content="The meeting is on Friday."))
    assert client.search("Friday", namespace=namespace).total == 1
    assert client.search("Tuesday", namespace=namespace).total == 0


def test_a_deleted_memory_is_in_the_trash_and_comes_back_whole(client: Client) -> None:
    namespace = fresh()
    stored = client.remember("Only here.", namespace=namespace, tags=["keep"], importance=0.9).memory
    client.delete(stored.id)
    assert client.recall("only here", namespace=namespace).memories == []
    trashed = client.trash(namespace=namespace)
    assert [entry.why for entry in trashed.entries] == ["deleted"]
    back = client.restore(stored.id)
    assert (back.state, back.tags, back.importance) == ("active", ["keep"], 0.9)
    assert client.search("only here", namespace=namespace).total == 1


def test_the_trash_lists_what_was_deleted_last_first(client: Client) -> None:
    namespace = fresh()
    stored = [client.remember(f"Rope {number}.", namespace=namespace).memory.id for number in range(3)]
    deleted = [stored[1], stored[2], stored[0]]
    for memory_id in deleted:
        client.delete(memory_id)
        time.sleep(0.002)
    first = client.trash(namespace=namespace, limit=2)
    then = client.trash(namespace=namespace, limit=2, cursor=first.cursor)
    assert [each.id for each in (*first.memories, *then.memories)] == deleted[::-1]


def test_undo_takes_back_the_last_change_and_then_the_one_before(client: Client) -> None:
    namespace = fresh()
    stored = client.remember("Draft one.", namespace=namespace).memory
    client.patch(stored.id, Patch(content="Draft two."))
    client.delete(stored.id)
    assert client.undo().what == "rm"
    assert client.get(stored.id).content == "Draft two."
    assert client.undo().what == "edit"
    assert client.get(stored.id).content == "Draft one."
    assert client.undo().what == "add"
    assert client.get(stored.id).state == "trashed"


def test_a_dry_undo_changes_nothing(client: Client) -> None:
    stored = client.remember("Stays as it is.", namespace=fresh()).memory
    assert client.undo(dry_run=True).ids == [stored.id]
    assert client.get(stored.id).state == "active"


def test_undo_of_a_change_with_later_ones_is_refused_and_lists_them(client: Client) -> None:
    stored = client.remember("Version one.", namespace=fresh()).memory
    seq = client.history(stored.id).versions[0].seq
    client.patch(stored.id, Patch(content="Version two."))
    with pytest.raises(RefusalError) as refused:
        client.undo(seq=seq)
    assert refused.value.status == 409
    assert stored.id in str(refused.value)
    assert client.get(stored.id).content == "Version two."


def test_supersedes_hides_the_older_one_until_it_is_asked_for(client: Client) -> None:
    namespace = fresh()
    old = client.remember("The launch is in May.", namespace=namespace).memory
    new = client.remember("The launch is in June.", namespace=namespace, supersedes=[old.id]).memory
    assert client.get(old.id).superseded_by == new.id
    found = client.recall("when is the launch", namespace=namespace).memories
    assert [memory.id for memory in found] == [new.id]
    both = client.recall("when is the launch", namespace=namespace, include_superseded=True).memories
    assert {memory.id for memory in both} == {old.id, new.id}


def test_lists_go_from_new_to_old_page_by_page(client: Client) -> None:
    namespace = fresh()
    ids = [client.remember(f"Item {n}.", namespace=namespace).memory.id for n in range(5)]
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(5):
        page = client.list_memories(namespace=namespace, limit=2, cursor=cursor)
        seen.extend(memory.id for memory in page.memories)
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == ids[::-1]


def test_a_namespace_sees_itself_and_default_and_no_other(client: Client) -> None:
    mine, other = fresh(), fresh()
    word = uuid.uuid4().hex
    client.remember(f"mine {word}", namespace=mine)
    client.remember(f"theirs {word}", namespace=other)
    client.remember(f"everyone's {word}")
    found = client.recall(word, namespace=mine).memories
    assert sorted(memory.content.split()[0] for memory in found) == ["everyone's", "mine"]
    everywhere = client.recall(word, namespace="*").memories
    assert len(everywhere) == 3


def test_delete_by_filter_is_a_dry_run_until_it_is_confirmed(client: Client) -> None:
    namespace = fresh()
    for n in range(3):
        client.remember(f"Scratch {n}.", namespace=namespace)
    dry = client.delete_many(namespace=namespace)
    assert dry.would_delete == 3
    assert client.list_memories(namespace=namespace).memories
    done = client.delete_many(namespace=namespace, confirm=True)
    assert done.deleted == 3
    assert client.list_memories(namespace=namespace).memories == []


def test_each_of_a_batch_has_its_own_outcome_and_a_bad_one_stops_none(client: Client) -> None:
    namespace = fresh()
    results = client.remember_many([
        NewMemory(content="One.", namespace=namespace),
        NewMemory(content="x" * 8193, namespace=namespace),
        NewMemory(content="One.", namespace=namespace),
    ])  # fmt: skip
    outcomes = [result.outcome if isinstance(result, RememberAnswer) else result.error.code for result in results]
    assert outcomes[1] == "bad_value"
    assert sorted([outcomes[0], outcomes[2]]) == ["duplicate", "stored"]


def test_a_token_budget_passes_over_what_does_not_fit_and_takes_smaller_ones(client: Client) -> None:
    namespace = fresh()
    client.remember("zebra " * 400, namespace=namespace)
    small = client.remember("A zebra at the gate.", namespace=namespace).memory
    answer = client.recall("zebra", namespace=namespace, token_budget=50)
    assert [memory.id for memory in answer.memories] == [small.id]
    assert 0 < answer.total_tokens <= 50


def test_recall_that_is_dry_leaves_no_trace_and_one_that_is_not_is_counted(
    client: Client, daemon: RunningDaemon
) -> None:
    namespace = fresh()
    stored = client.remember("The boiler is serviced in October.", namespace=namespace).memory
    client.recall("boiler October", namespace=namespace, dry=True)
    assert client.get(stored.id).access_count == 0
    client.recall("boiler October", namespace=namespace)
    daemon.stop()
    daemon.start()
    assert client.get(stored.id).access_count == 1


def test_only_a_person_can_pin(daemon: RunningDaemon) -> None:
    with daemon.client(entry_point="mcp") as agent, pytest.raises(RefusalError) as refused:
        agent.remember("Pin me.", pinned=True)
    assert (refused.value.status, refused.value.field) == (422, "pinned")
    with daemon.client(entry_point="cli") as person:
        assert person.remember("Pin this.", pinned=True).memory.trust == "user"


def test_a_secret_that_an_agent_says_is_masked_before_anything_is_written(daemon: RunningDaemon) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    with daemon.client(entry_point="mcp") as agent:
        answer = agent.remember(f"The token is {secret} for the build.")
    assert answer.masked
    assert secret not in answer.memory.content
    journal = b"".join(path.read_bytes() for path in (daemon.folder / "journal").iterdir())
    assert secret.encode() not in journal


def test_a_secret_that_a_person_says_is_kept_tagged_and_hidden_from_agents(daemon: RunningDaemon) -> None:
    secret = "ghp_" + "z9Y8x7W6v5U4t3S2r1Q0" + "p9O8n7M6l5K4j3I2"
    namespace = fresh()
    with daemon.client(namespace, entry_point="cli") as person, daemon.client(namespace, entry_point="mcp") as agent:
        answer = person.remember(f"Zanzibar forge: {secret}")
        assert secret in answer.memory.content
        assert "sensitive" in answer.memory.tags
        assert len(person.recall("zanzibar").memories) == 1
        assert agent.recall("zanzibar").memories == []
        assert len(agent.recall("zanzibar", tags=["sensitive"]).memories) == 1
        assert person.context("zanzibar").block == ""


def test_a_superseded_memory_that_is_said_again_under_its_key_is_shown_again(client: Client) -> None:
    namespace = fresh()
    old = client.remember("The launch is in May.", namespace=namespace, key="launch").memory
    client.remember("The launch is in June.", namespace=namespace, supersedes=[old.id])
    again = client.remember("The launch is in May.", namespace=namespace, key="launch")
    assert (again.outcome, again.memory.state, again.memory.superseded_by) == ("updated", "active", None)


def test_a_trashed_memory_cannot_be_superseded(client: Client) -> None:
    namespace = fresh()
    old = client.remember("To be thrown away.", namespace=namespace).memory
    client.delete(old.id)
    with pytest.raises(RefusalError) as refused:
        client.remember("Newer.", namespace=namespace, supersedes=[old.id])
    assert (refused.value.status, refused.value.code) == (409, "trashed")
    assert client.get(old.id).state == "trashed"


def test_undo_passes_over_what_the_doctor_tried(client: Client, daemon: RunningDaemon) -> None:
    stored = client.remember("Mine to take back.", namespace=fresh()).memory
    with Client(daemon.socket, "doctor", entry_point="cli", agent="doctor") as doctor:
        tried = doctor.remember("A round trip.", key="round-trip").memory
        doctor.delete(tried.id)
    assert client.undo(dry_run=True).ids == [stored.id]


# What agents do not see

SECRET = "ghp_" + "z9Y8x7W6v5U4t3S2r1Q0" + "p9O8n7M6l5K4j3I2"


def keep_secret(person: Client, **fields: Any) -> MemoryView:
    kept = person.remember(f"Quebec forge {uuid.uuid4().hex}: {SECRET}", **fields).memory
    assert kept.tags == ["sensitive"]
    return kept


@pytest.mark.parametrize(
    "attempt",
    [
        lambda agent, kept: agent.get(kept.id),
        lambda agent, kept: agent.get(kept.id[-8:]),
        lambda agent, kept: agent.history(kept.id),
        lambda agent, kept: agent.patch(kept.id, Patch(tags=[])),
        lambda agent, kept: agent.delete(kept.id),
        lambda agent, kept: agent.restore(kept.id),
        lambda agent, kept: agent.remember("A newer one.", supersedes=[kept.id]),
        lambda agent, kept: agent.remember("A summary.", derived_from=[kept.id]),
    ],
)
@pytest.mark.parametrize("entry_point", ["mcp", "hook"])
def test_to_an_agent_a_sensitive_memory_is_not_there(
    daemon: RunningDaemon, entry_point: str, attempt: Callable[[Client, MemoryView], object]
) -> None:
    namespace = fresh()
    with (
        daemon.client(namespace, entry_point="cli") as person,
        daemon.client(namespace, entry_point=entry_point) as agent,
    ):
        kept = keep_secret(person)
        before = person.status().seq
        with pytest.raises(RefusalError) as refused:
            attempt(agent, kept)
        assert (refused.value.status, refused.value.code) == (404, "not_found")
        assert person.status().seq == before
        assert SECRET in person.get(kept.id).content


def test_neither_lists_nor_the_trash_show_an_agent_what_is_sensitive(daemon: RunningDaemon) -> None:
    namespace = fresh()
    with daemon.client(namespace, entry_point="cli") as person, daemon.client(namespace, entry_point="mcp") as agent:
        keep_secret(person)
        gone = keep_secret(person)
        person.delete(gone.id)
        assert agent.list_memories().memories == []
        assert namespace not in {memory.namespace for memory in agent.recent().memories}
        assert agent.trash().memories == []
        assert agent.trash().entries == []
        assert b"".join(person.export(namespace)).count(gone.content.encode()) == 2  # as it was, and as it is
        with pytest.raises(RefusalError) as refused:
            b"".join(agent.export(namespace))
        assert (refused.value.status, refused.value.code) == (422, "refused")
        assert len(agent.list_memories(tags=["sensitive"]).memories) == 1
        assert agent.delete_many(confirm=True).deleted == 0


def test_an_agent_cannot_take_back_a_change_to_what_it_does_not_see(daemon: RunningDaemon) -> None:
    with (
        daemon.client(fresh(), entry_point="cli") as person,
        Client(daemon.socket, entry_point="mcp", agent="new") as agent,
    ):
        kept = keep_secret(person)
        for seq in (None, person.history(kept.id).versions[0].seq):
            with pytest.raises(RefusalError) as refused:
                agent.undo(seq=seq)
            assert refused.value.status == 404
        assert person.undo().ids == [kept.id]


def test_an_agent_cannot_write_under_the_key_of_what_it_does_not_see(daemon: RunningDaemon) -> None:
    namespace = fresh()
    with daemon.client(namespace, entry_point="cli") as person, daemon.client(namespace, entry_point="mcp") as agent:
        kept = keep_secret(person, key="forge")
        with pytest.raises(RefusalError) as refused:
            agent.remember("Something else.", key="forge")
        assert (refused.value.status, refused.value.field) == (409, "key")
        assert person.get(kept.id).version == 1


def test_versions_that_held_a_secret_stay_hidden_from_agents_when_it_is_taken_out(daemon: RunningDaemon) -> None:
    with daemon.client(fresh(), entry_point="cli") as person, daemon.client(entry_point="mcp") as agent:
        kept = keep_secret(person)
        person.patch(kept.id, Patch(content="The forge has a token.", tags=[]))
        assert [version.memory.content for version in agent.history(kept.id).versions] == ["The forge has a token."]
        assert len(person.history(kept.id).versions) == 2


def test_the_answer_to_a_write_of_an_agent_can_be_read_back(daemon: RunningDaemon) -> None:
    with daemon.client(fresh(), entry_point="mcp") as agent:
        assert agent.remember("Between us.", tags=["sensitive"]).memory.content == "Between us."


def test_a_secret_that_an_agent_puts_in_by_an_edit_is_masked_too(daemon: RunningDaemon) -> None:
    secret = "ghp_" + "m1N2b3V4c5X6z7L8k9J0" + "h1G2f3D4s5A6p7O8"
    with daemon.client(fresh(), entry_point="mcp") as agent:
        stored = agent.remember("The token is in the safe.").memory
        edited = agent.patch(stored.id, Patch(content=f"The token is {secret}."))
        assert edited.content.startswith("The token is [masked:")
        assert "sensitive" not in edited.tags
    journal = b"".join(path.read_bytes() for path in (daemon.folder / "journal").iterdir())
    assert secret.encode() not in journal


# Order, pages, namespaces, filters


def test_recall_sorts_by_when_it_happened_and_by_when_it_was_last_recalled(client: Client) -> None:
    namespace = fresh()
    old, older = (
        client.remember(f"The heron stood {n} times.", namespace=namespace, event_at=1000 * n).memory.id for n in (9, 5)
    )
    never = client.remember("A heron nobody asked for.", namespace=namespace, event_at=7000).memory.id
    client.recall("heron stood 9", namespace=namespace, top_k=1)
    wait_until(lambda: client.get(old).access_count == 1)
    client.recall("heron stood 5", namespace=namespace, top_k=1)
    wait_until(lambda: client.get(older).access_count == 1)

    def order(sort: Sort) -> list[str]:
        answer = client.recall("heron", namespace=namespace, sort=sort, dry=True)
        return [memory.id for memory in answer.memories]

    assert order("recent") == [old, never, older]
    assert order("accessed") == [older, old, never]


def test_recent_memories_are_listed_page_by_page(client: Client) -> None:
    namespace = fresh()
    now = time.time_ns() // 1_000_000
    for n in (2, 0, 1):
        client.remember(f"Number {n}.", user_id=namespace, event_at=now - 10**9 + n)
    first = client.recent(user_id=namespace, limit=2)
    assert [memory.content for memory in first.memories] == ["Number 2.", "Number 1."]
    second = client.recent(user_id=namespace, limit=1, cursor=first.cursor)
    assert [memory.content for memory in second.memories] == ["Number 0."]
    assert client.recent(user_id=namespace, limit=500).cursor is None


def test_recent_lists_future_events_at_the_time_they_were_stored(client: Client) -> None:
    namespace = fresh()
    for text, at in (
        ("The permit ends.", "2199-01-02"),
        ("The lock was oiled.", None),
        ("It was rusty.", "2020-01-02"),
    ):
        client.remember(text, event_at=at, namespace=namespace)
        time.sleep(0.003)
    listed = client.recent(namespace=namespace, limit=500).memories
    assert [memory.content for memory in listed if memory.namespace == namespace] == [
        "The lock was oiled.", "The permit ends.", "It was rusty.",
    ]  # fmt: skip


@pytest.mark.parametrize("at", ["2020-01-01", 1_600_000_000_000])
def test_an_expiry_that_has_passed_is_refused_however_it_is_given(client: Client, at: str | int) -> None:
    memory = client.remember(f"The pass holds until then ({at}).", expires_at="2199-01-01").memory
    for ask in (
        lambda: client.remember("The pass held until then.", expires_at=at),
        lambda: client.ingest("The pass held until then, and it was renewed by Ines.", expires_at=at),
        lambda: client.patch(memory.id, Patch(expires_at=at)),
    ):
        with pytest.raises(RefusalError, match="has passed: name a time that lies ahead") as refused:
            ask()
        assert (refused.value.status, refused.value.code, refused.value.field) == (400, "bad_value", "expires_at")
    assert client.get(memory.id).version == memory.version


def test_a_star_shows_the_trash_and_the_export_of_all_namespaces_and_none_only_the_default_trash(
    client: Client,
) -> None:
    stored = client.remember("Elsewhere.", namespace=fresh()).memory.id
    client.delete(stored)

    def trashed(namespace: str | None) -> bool:
        return stored in {memory.id for memory in client.trash(namespace=namespace, limit=500).memories}

    assert (trashed("*"), trashed(None)) == (True, False)
    assert list(client.export("*")) == list(client.export())
    assert stored.encode() in b"".join(client.export())


@pytest.mark.parametrize(
    "fields",
    [{"speaker": "Ines"}, {"user_id": "ann"}, {"source": "diary"}, {"session_id": "s1"}, {"layers": ["buffer"]}],
)
def test_one_filter_is_enough_to_delete_by(client: Client, fields: dict[str, Any]) -> None:
    client.delete_many(layers=["buffer"], confirm=True)
    client.delete_many(user_id="ann", confirm=True)
    client.remember("Not this one.", user_id="ben")
    mine = client.remember("This one.", **{name: value for name, value in fields.items() if name != "layers"}).memory
    assert client.delete_many(**fields).ids == [mine.id]
    assert client.delete_many(**fields, confirm=True).ids == [mine.id]


def test_superseded_memories_can_be_deleted_by_their_state(client: Client) -> None:
    namespace = fresh()
    old = client.remember("The launch is in May.", namespace=namespace).memory.id
    new = client.remember("The launch is in June.", namespace=namespace, supersedes=[old]).memory.id
    assert client.delete_many(namespace=namespace, states=["superseded"], confirm=True).ids == [old]
    assert client.get(new).state == "active"


def test_memories_are_superseded_and_derived_from_by_the_digits_that_people_are_shown(client: Client) -> None:
    namespace = fresh()
    old = client.remember("The launch is in May.", namespace=namespace).memory.id
    new = client.remember("It is in June.", namespace=namespace, supersedes=[old[-8:]], derived_from=[old[-8:]]).memory
    assert client.get(old).superseded_by == new.id
    assert new.derived_from == [old]
    assert client.patch(new.id, Patch(derived_from=[old.replace("-", "")])).version == 1


def test_a_context_says_that_it_had_to_leave_something_out(client: Client) -> None:
    namespace = fresh()
    for name in ("first", "second"):
        client.remember(f"The {name} pelican.", namespace=namespace)
    whole = client.context("pelican", namespace=namespace)
    assert (len(whole.memories), whole.cut) == (2, False)
    shorter = client.context("pelican", namespace=namespace, max_chars=len(whole.block) - 1)
    assert (len(shorter.memories), shorter.cut) == (1, True)
    for tight in (ContextRequest("pelican", max_chars=10), ContextRequest("pelican", token_budget=1)):
        nothing = client.context(structs.replace(tight, namespace=namespace))
        assert (nothing.block, nothing.memories, nothing.total_tokens, nothing.cut) == ("", [], 0, True)
    assert client.context("albatross", namespace=namespace).cut is False


# Chunks of notes


def test_a_chunk_restored_after_its_text_has_left_the_note_is_a_memory_of_its_own(
    client: Client, tmp_path: Path
) -> None:
    note = tmp_path / "vault" / "garden.md"
    note.parent.mkdir()
    note.write_text("## One\nPrune in winter.\n\n## Two\nWater at dusk.\n")
    namespace = fresh()
    root = client.add_root(note.parent, namespace)
    assert client.rescan().roots[0].chunks == 2
    lost = next(m for m in client.list_memories(namespace=namespace).memories if m.content == "Water at dusk.")
    client.delete(lost.id)
    note.write_text("## One\nPrune in winter.\n")
    assert client.rescan().roots[0].chunks == 1
    back = client.restore(lost.id)
    assert (back.state, back.managed, back.note) == ("active", None, None)
    assert client.patch(lost.id, Patch(content="Water at dawn.")).content == "Water at dawn."
    note.unlink()
    client.rescan()
    kept = [memory.id for memory in client.list_memories(namespace=namespace).memories]
    assert kept == [lost.id]
    client.remove_root(id=root.id)
    assert client.get(lost.id).state == "active"


def test_undoing_a_deletion_after_its_text_has_left_the_note_gives_a_memory_of_its_own(
    client: Client, tmp_path: Path
) -> None:
    note = tmp_path / "vault" / "garden.md"
    note.parent.mkdir()
    note.write_text("## One\nPrune in winter.\n\n## Two\nWater at dusk.\n")
    namespace = fresh()
    root = client.add_root(note.parent, namespace)
    client.rescan()
    kept, lost = sorted(client.list_memories(namespace=namespace).memories, key=lambda memory: memory.content)
    client.delete(lost.id)
    note.write_text("## One\nPrune in winter.\n")
    client.rescan()
    assert client.undo().ids == [lost.id]
    assert client.get(lost.id).managed is None
    client.delete(kept.id)
    client.undo()
    assert client.get(kept.id).managed is not None
    client.remove_root(id=root.id)


def test_many_memories_are_returned_by_their_ids_in_the_order_of_the_request(client: Client) -> None:
    first, second = fresh(), fresh()
    made = [client.remember(f"The kettle number {n}.", namespace=name).memory for n, name in ((1, first), (2, second))]
    secret = client.remember("The safe is behind the map.", namespace=first, tags=["sensitive"]).memory
    client.delete(made[1].id)
    asked = [made[1].id, "0123456789abcdef", secret.id, made[0].id[-12:]]
    found = client.list_memories(id=asked)
    assert [each.id for each in found.memories] == [made[1].id, secret.id, made[0].id]
    assert (found.memories[0].state, found.missing, found.cursor) == ("trashed", ["0123456789abcdef"], None)
    with Client(client.socket_path, second, agent="planner") as agent:
        seen = agent.list_memories(id=asked)
    assert ([each.id for each in seen.memories], seen.missing) == ([made[1].id, made[0].id], [asked[1], secret.id])
    wrong: tuple[dict[str, Any], ...] = ({"tags": ["tea"]}, {"cursor": "1.2"}, {"as_of": "1h"})
    for fields in wrong:
        with pytest.raises(RefusalError, match="give ids or filters, not both"):
            client.list_memories(ListMemoriesQuery(id=asked, **fields))
    with pytest.raises(RefusalError, match="not an id") as refused:
        client.list_memories(id=[made[0].id, "kettle"])
    assert refused.value.field == "id[1]"


def test_five_hundred_ids_fit_into_a_request_and_more_are_refused(client: Client) -> None:
    ids = [str(uuid.uuid4()) for _ in range(501)]
    assert client.list_memories(id=ids[:500]).missing == ids[:500]
    with pytest.raises(RefusalError, match="500"):
        client.list_memories(id=ids)
