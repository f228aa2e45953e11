"""The profile of a user and the memories of projects. SPEC 9.6 [M13 to M17]"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_core.lifecycle.profiles import ProfilePlace, entry_of, place_of_entry, places_of
from mnemo_core.retrieval.result_selection import is_preference
from mnemo_daemon.errors import Refusal
from mnemo_daemon.lifecycle.profile_service import EntryUpdate, LiftResult, Owner
from mnemo_daemon.memories.memory_service import Caller
from mnemo_store.records import TAGS_MAX, ConversationTurn, Edge, TraceStep, Usage
from tests.compression_desk import HOUR, OWNER, CompressionDesk, compression_desk_in
from tests.desk import PERSON
from tests.samples import sample_id, sample_memory, write


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[CompressionDesk]:
    with compression_desk_in(tmp_path) as made:
        yield made


def places(category: Any, *tags: str, **fields: Any) -> list[tuple[str, str]]:
    return [(each.bucket, each.project) for each in places_of(sample_memory(1, category=category, tags=tags, **fields))]


# The lists


def test_M14_the_category_and_a_tag_decide_the_list_of_the_user() -> None:
    assert places("preference") == [("preferences", "")]
    assert places("fact") == places("decision") == [("stable_facts", "")]
    assert places("fact", "do_not_assume") == places("preference", "do_not_assume") == [("do_not_assume", "")]
    assert places("crumb") == places("request") == places("result") == places("project") == []
    assert places("crumb", "do_not_assume") == []
    assert places("fact", source="ingest") == []


def test_M15_tags_before_the_category_decide_the_list_of_a_project() -> None:
    web = "project:web"
    assert places("fact", web, "blocker") == places("project", web, "blocker") == [("blockers", "web")]
    assert places("fact", web, "next_step") == places("project", web, "next") == [("next_steps", "web")]
    assert places("decision", web, "goal") == [("goals", "web")]
    assert places("project", web) == [("goals", "web")]
    assert places("decision", web) == [("next_steps", "web")]
    for category in ("fact", "preference", "crumb", "request", "result"):
        assert places(category, web) == [("next_steps", "web")]


def test_M15_an_item_of_two_projects_goes_to_each(desk: CompressionDesk) -> None:
    item = desk.put("The login page comes first.", category="decision", tags=("project:web", "project:app", "login"))
    assert desk.lift() == (1, 2, 0)
    entries = [desk.entry("next_steps", project) for project in ("web", "app")]
    assert [entry.tags for entry in entries] == [
        ("profile:next_steps", "project:web", "login"), ("profile:next_steps", "project:app", "login"),
    ]  # fmt: skip
    assert [entry.derived_from for entry in entries] == [(item,), (item,)]
    assert desk.memory(item).superseded_by == entries[0].id


# Lifting


def test_M13_what_is_older_than_the_cutoff_is_lifted_and_counted(desk: CompressionDesk) -> None:
    at = desk.desk.at - 48 * HOUR
    old = desk.put("I prefer tea.", category="preference", created_at=at - 1)
    young = desk.put("I live in Oslo.", created_at=at)
    web = desk.put("The web shop opens in May.", category="project", tags=("project:web",), created_at=at - 1)
    assert desk.lift(48) == LiftResult(compressed=2, projects=1, profile=1)
    assert desk.states(old, young, web) == ["compressed", "active", "compressed"]
    assert (desk.texts(), desk.texts("web")) == (
        {"preferences": ["I prefer tea."]}, {"goals": ["The web shop opens in May."]},
    )  # fmt: skip
    assert desk.lift(47) == (1, 0, 1)
    assert desk.lift(0) == (0, 0, 0)


def test_a_value_that_has_a_newer_one_is_not_lifted_unless_that_is_in_the_trash(desk: CompressionDesk) -> None:
    old, new = desk.put("My best time is 54 minutes."), desk.put("My best time is 52 minutes now.")
    write(desk.desk.store, Edge(source=new, target=old, relation="updates", at=1))
    assert (desk.lift(), desk.states(old, new)) == ((1, 0, 1), ["active", "compressed"])
    assert desk.lift() == (0, 0, 0)
    desk.desk.trash(new)
    assert (desk.lift(), desk.states(old)) == ((1, 0, 1), ["compressed"])


def test_an_entry_is_a_memory_in_layer_working_that_names_its_evidence(desk: CompressionDesk) -> None:
    item = desk.put("I live in Oslo.", importance=0.7, trust="agent", speaker="Ann", tags=("home", "_triaged"))
    write(desk.desk.store, Usage(id=item, access_count=3, repetition_count=1, strength=0.65, last_accessed=9))
    desk.lift()
    entry = desk.entry("stable_facts")
    assert (entry.content, entry.kind, entry.layer, entry.source) == (
        "I live in Oslo.",
        "semantic",
        "working",
        "profile",
    )
    assert (entry.derived_from, entry.compression_source, entry.method) == ((item,), True, "rule")
    assert (entry.importance, entry.trust, entry.speaker) == (0.7, "agent", "Ann")
    assert entry.tags == ("profile:stable_facts", "home")
    usage = desk.desk.memories.get(entry.id).usage
    assert (usage.access_count, usage.repetition_count, usage.last_accessed) == (3, 1, 9)
    assert usage.strength == 0.65
    assert desk.memory(item).superseded_by == entry.id


def test_items_that_say_the_same_are_the_evidence_of_one_entry(desk: CompressionDesk) -> None:
    one = desk.put("I prefer the tea.", category="preference", importance=0.4)
    two = desk.put("I prefer tea.", category="preference", importance=0.6)
    other = desk.put("I prefer green tea.", category="preference")
    never = desk.put("I do not prefer tea.", category="preference")
    spoken = desk.put("I prefer tea.", category="preference", speaker="Ines")
    assert desk.lift() == (5, 0, 4)
    by_text = {(each.content, each.speaker): each for each in desk.entries()[ProfilePlace("preferences")]}
    same = by_text["I prefer the tea.", ""]
    assert (same.derived_from, same.importance, same.version) == ((one, two), 0.6, 1)
    assert by_text["I prefer green tea.", ""].derived_from == (other,)
    assert by_text["I do not prefer tea.", ""].derived_from == (never,)
    assert by_text["I prefer tea.", "Ines"].derived_from == (spoken,)


def test_a_later_item_adds_itself_to_an_entry_that_says_the_same(desk: CompressionDesk) -> None:
    one = desk.put("I prefer tea.", category="preference")
    desk.lift()
    entry = desk.entry("preferences")
    two = desk.put("I prefer the tea.", category="preference", trust="note")
    assert desk.lift() == (1, 0, 1)
    after = desk.entry("preferences")
    assert (after.id, after.version, after.derived_from, after.trust) == (entry.id, 2, (one, two), "note")


def test_what_an_agent_says_is_no_evidence_of_what_the_person_said(desk: CompressionDesk) -> None:
    one = desk.put("I prefer tea.", category="preference")
    two = desk.put("I prefer the tea.", category="preference", trust="agent")
    assert desk.lift() == (2, 0, 2)
    entries = desk.entries()[ProfilePlace("preferences")]
    assert {(each.derived_from, each.trust) for each in entries} == {((one,), "user"), ((two,), "agent")}


def test_tomorrow_of_two_days_is_not_the_same(desk: CompressionDesk) -> None:
    desk.put("The ferry leaves tomorrow.")
    desk.put("The ferry leaves tomorrow.", event_at=desk.desk.at)
    assert desk.lift() == (2, 0, 2)


@pytest.mark.parametrize(
    "fields",
    [
        {"category": "crumb"}, {"category": "request"}, {"category": "result"}, {"layer": "working"},
        {"pinned": True}, {"kind": "working"}, {"kind": "procedural", "form": "workflow"},
        {"kind": "procedural", "form": "step", "trace": TraceStep(step_number=1, action="Read")},
        {"turn": ConversationTurn(role="user", tier="registry")}, {"kind": "episodic", "session_id": "s"},
        {"trust": "tool"}, {"trust": "import"}, {"tags": ("sensitive",)}, {"tags": ("lesson",)}, {"source": "ingest"},
        {"state": "archived"}, {"source": "compress", "compression_source": True},
    ],
)  # fmt: skip
def test_M16_what_is_lifted_nowhere_stays_as_it_is(desk: CompressionDesk, fields: dict[str, Any]) -> None:
    item = desk.put("I live in Oslo.", **fields)
    before = desk.memory(item)
    assert desk.lift() == (0, 0, 0)
    assert desk.memory(item) == before


def test_a_lifted_preference_still_comes_first_in_a_context(desk: CompressionDesk) -> None:
    desk.put("I prefer tea.", category="preference")
    rule = desk.put("Never deploy on Fridays.", kind="procedural", form="preference", category="fact")
    desk.lift()
    assert is_preference(desk.entry("preferences"))
    assert is_preference(desk.entry("stable_facts"))
    assert desk.memory(rule).state == "compressed"


def test_items_of_others_and_of_other_namespaces_stay(desk: CompressionDesk) -> None:
    other = [desk.put("I live in Oslo.", user_id="ines"), desk.put("I live in Oslo.", namespace="work")]
    assert desk.lift() == (0, 0, 0)
    assert desk.states(*other) == ["active", "active"]
    assert desk.lift(owner=Owner("work", "local")) == (1, 0, 1)


def test_more_items_than_one_write_holds_are_lifted(desk: CompressionDesk) -> None:
    items = [desk.put(f"The code of room {number} is {number * 7}.") for number in range(230)]
    assert desk.lift() == (230, 0, 230)
    assert set(desk.states(*items)) == {"compressed"}


def test_an_item_that_changes_meanwhile_is_decided_again(desk: CompressionDesk) -> None:
    items = [desk.put("I live in Oslo."), desk.put("I work in Bergen.")]
    profiles, write_plan = desk.profiles, desk.profiles._write
    tries: list[Any] = []

    def write_late(*planned: Any) -> bool:
        if not tries:
            desk.desk.edit(items[0], pinned=True)
        tries.append(planned)
        return write_plan(*planned)

    profiles._write = write_late  # type: ignore[method-assign, assignment]
    assert desk.lift() == (1, 0, 1)
    assert desk.states(*items) == ["active", "compressed"]
    assert len(tries) == 2


# Found again


def test_a_lifted_item_is_found_by_its_entry_and_again_without_it(desk: CompressionDesk) -> None:
    item = desk.put("The spare key is with Tom.")
    desk.lift()
    entry = desk.entry("stable_facts")

    def found() -> list[str]:
        return [hit.details.memory.id for hit in desk.desk.recall("spare key").hits]

    assert found() == [entry.id]
    desk.desk.trash(entry.id)
    assert found() == [item]
    assert desk.lift() == (0, 0, 0)  # what somebody removed from the profile does not come back to it
    desk.desk.restore(entry.id)
    assert found() == [entry.id]


# By hand


def update(text: str, *evidence: str, bucket: Any = "stable_facts", **fields: Any) -> EntryUpdate:
    return EntryUpdate(
        ProfilePlace(bucket, fields.get("project", "")), text, fields.get("tags", ()), evidence, fields.get("id", ""),
        "stable_facts[0]",
    )  # fmt: skip


def test_an_entry_by_hand_rests_on_its_evidence_which_stays_visible(desk: CompressionDesk) -> None:
    told = desk.put("Yesterday I moved to Oslo.", kind="episodic")
    group = desk.profiles.update(OWNER, [update("I live in Oslo.", told)], (), PERSON).group
    entry = desk.entry("stable_facts")
    assert (entry.content, entry.derived_from, entry.method, entry.trust) == (
        "I live in Oslo.",
        (told,),
        "said",
        "user",
    )
    assert (entry.compression_source, desk.states(told)) == (False, ["active"])
    desk.desk.undo(group=group)
    assert desk.texts() == {}


def test_the_same_entry_again_gets_the_evidence_of_both(desk: CompressionDesk) -> None:
    one, two = desk.put("I moved to Oslo."), desk.put("Here in Oslo it rains.")
    desk.profiles.update(OWNER, [update("I live in Oslo.", one)], (), PERSON)
    desk.profiles.update(OWNER, [update("I live in Oslo!", two)], (), PERSON)
    entry = desk.entry("stable_facts")
    assert (entry.content, entry.derived_from, entry.version) == ("I live in Oslo.", (one, two), 2)


def test_an_entry_is_changed_by_its_id_and_moved_to_another_list(desk: CompressionDesk) -> None:
    one, two = desk.put("I moved to Oslo."), desk.put("Never think that I drink coffee.")
    desk.profiles.update(OWNER, [update("I like coffee.", one)], (), PERSON)
    entry_id = desk.entry("stable_facts").id
    desk.profiles.update(OWNER, [update("I drink coffee.", two, bucket="do_not_assume", id=entry_id)], (), PERSON)
    entry = desk.entry("do_not_assume")
    assert (entry.id, entry.content, entry.derived_from) == (entry_id, "I drink coffee.", (two,))
    assert place_of_entry(entry) == ProfilePlace("do_not_assume")


def test_a_removed_entry_is_in_the_trash(desk: CompressionDesk) -> None:
    desk.profiles.update(OWNER, [update("I live in Oslo.", desk.put("I moved to Oslo."))], (), PERSON)
    entry_id = desk.entry("stable_facts").id
    desk.profiles.update(OWNER, (), [entry_id], PERSON)
    assert (desk.texts(), desk.memory(entry_id).state) == ({}, "trashed")
    desk.desk.restore(entry_id)
    assert desk.texts() == {"stable_facts": ["I live in Oslo."]}


def refusal(desk: CompressionDesk, changed: EntryUpdate, *removed: str, caller: Caller = PERSON) -> tuple[int, str]:
    before = desk.desk.store.seq
    with pytest.raises(Refusal) as refused:
        desk.profiles.update(OWNER, [changed], removed, caller)
    assert desk.desk.store.seq == before
    return refused.value.status, refused.value.field or ""


def test_M17_evidence_must_be_there_and_of_the_user(desk: CompressionDesk) -> None:
    deleted = desk.put("I moved to Oslo.")
    desk.desk.trash(deleted)
    gone = sample_memory(999).id
    for evidence in (deleted, gone, desk.put("x", user_id="ines"), desk.put("x", namespace="work")):
        assert refusal(desk, update("I live in Oslo.", evidence)) == (422, "stable_facts[0].evidence_ids")
    secret = desk.put("I moved to Oslo.", tags=("sensitive",))
    blind = Caller("mcp", sees_sensitive=False, trust="agent")
    assert refusal(desk, update("I live in Oslo.", secret), caller=blind)[0] == 422
    desk.profiles.update(OWNER, [update("I live in Oslo.", secret)], (), PERSON)
    assert "sensitive" in desk.entry("stable_facts").tags


def test_only_an_entry_of_the_profile_is_changed_or_removed(desk: CompressionDesk) -> None:
    item, other = desk.put("I moved to Oslo."), desk.put("It rains in Oslo.")
    assert refusal(desk, update("I live in Oslo.", other, id=item)) == (404, "stable_facts[0].id")
    assert refusal(desk, update("I live in Oslo.", item), item) == (404, "remove[0]")


def test_no_entry_is_evidence_of_itself(desk: CompressionDesk) -> None:
    item = desk.put("I moved to Oslo.")
    desk.profiles.update(OWNER, [update("I live in Oslo.", item)], (), PERSON)
    entry = desk.entry("stable_facts")
    desk.profiles.update(OWNER, [update("I live in Oslo.", entry.id)], (), PERSON)  # said again, it is known
    assert desk.entry("stable_facts") == entry
    changed = update("I live in Bergen.", entry.id, id=entry.id)
    assert refusal(desk, changed) == (422, "stable_facts[0].evidence_ids")


def test_an_agent_leaves_a_pinned_entry_alone_and_lowers_the_trust_of_what_it_changes(desk: CompressionDesk) -> None:
    agent = Caller("mcp", trust="agent")
    item = desk.put("I moved to Oslo.")
    desk.profiles.update(OWNER, [update("I live in Oslo.", item)], (), PERSON)
    entry_id = desk.entry("stable_facts").id
    desk.profiles.update(OWNER, [update("I live in Bergen.", item, id=entry_id)], (), agent)
    assert desk.entry("stable_facts").trust == "agent"
    desk.desk.edit(entry_id, pinned=True)
    assert refusal(desk, update("I live in Rome.", item, id=entry_id), caller=agent)[0] == 422


def test_an_entry_of_sensitive_evidence_is_sensitive_however_many_tags_that_has() -> None:
    tags = (*(f"tag-{number}" for number in range(TAGS_MAX - 1)), "sensitive")
    evidence = sample_memory(1, "The code of the door is 4711.", tags=tags)
    entry = entry_of(ProfilePlace("goals", "house"), "default", "A new code.", [evidence], sample_id(2), 1, "user")
    assert (len(entry.tags), "sensitive" in entry.tags) == (TAGS_MAX, True)
    assert place_of_entry(entry) == ProfilePlace("goals", "house")
