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
from tests.support.compression_services import HOUR, OWNER, CompressionServices, compression_services_in
from tests.support.samples import sample_id, sample_memory, write
from tests.support.store_services import PERSON


@pytest.fixture
def services(tmp_path: Path) -> Iterator[CompressionServices]:
    with compression_services_in(tmp_path) as made:
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


def test_M15_an_item_of_two_projects_goes_to_each(services: CompressionServices) -> None:
    item = services.put(
        "The login page comes first.", category="decision", tags=("project:web", "project:app", "login")
    )
    assert services.lift() == (1, 2, 0)
    entries = [services.entry("next_steps", project) for project in ("web", "app")]
    assert [entry.tags for entry in entries] == [
        ("profile:next_steps", "project:web", "login"), ("profile:next_steps", "project:app", "login"),
    ]  # fmt: skip
    assert [entry.derived_from for entry in entries] == [(item,), (item,)]
    assert services.memory(item).superseded_by == entries[0].id


# Lifting


def test_M13_what_is_older_than_the_cutoff_is_lifted_and_counted(services: CompressionServices) -> None:
    at = services.services.at - 48 * HOUR
    old = services.put("I prefer tea.", category="preference", created_at=at - 1)
    young = services.put("I live in Oslo.", created_at=at)
    web = services.put("The web shop opens in May.", category="project", tags=("project:web",), created_at=at - 1)
    assert services.lift(48) == LiftResult(compressed=2, projects=1, profile=1)
    assert services.states(old, young, web) == ["compressed", "active", "compressed"]
    assert (services.texts(), services.texts("web")) == (
        {"preferences": ["I prefer tea."]}, {"goals": ["The web shop opens in May."]},
    )  # fmt: skip
    assert services.lift(47) == (1, 0, 1)
    assert services.lift(0) == (0, 0, 0)


def test_a_value_that_has_a_newer_one_is_not_lifted_unless_that_is_in_the_trash(services: CompressionServices) -> None:
    old, new = services.put("My best time is 54 minutes."), services.put("My best time is 52 minutes now.")
    write(services.services.store, Edge(source=new, target=old, relation="updates", at=1))
    assert (services.lift(), services.states(old, new)) == ((1, 0, 1), ["active", "compressed"])
    assert services.lift() == (0, 0, 0)
    services.services.trash(new)
    assert (services.lift(), services.states(old)) == ((1, 0, 1), ["compressed"])


def test_an_entry_is_a_memory_in_layer_working_that_names_its_evidence(services: CompressionServices) -> None:
    item = services.put("I live in Oslo.", importance=0.7, trust="agent", speaker="Ann", tags=("home", "_triaged"))
    write(services.services.store, Usage(id=item, access_count=3, repetition_count=1, strength=0.65, last_accessed=9))
    services.lift()
    entry = services.entry("stable_facts")
    assert (entry.content, entry.kind, entry.layer, entry.source) == (
        "I live in Oslo.",
        "semantic",
        "working",
        "profile",
    )
    assert (entry.derived_from, entry.compression_source, entry.method) == ((item,), True, "rule")
    assert (entry.importance, entry.trust, entry.speaker) == (0.7, "agent", "Ann")
    assert entry.tags == ("profile:stable_facts", "home")
    usage = services.services.memories.get(entry.id).usage
    assert (usage.access_count, usage.repetition_count, usage.last_accessed) == (3, 1, 9)
    assert usage.strength == 0.65
    assert services.memory(item).superseded_by == entry.id


def test_items_that_say_the_same_are_the_evidence_of_one_entry(services: CompressionServices) -> None:
    one = services.put("I prefer the tea.", category="preference", importance=0.4)
    two = services.put("I prefer tea.", category="preference", importance=0.6)
    other = services.put("I prefer green tea.", category="preference")
    never = services.put("I do not prefer tea.", category="preference")
    spoken = services.put("I prefer tea.", category="preference", speaker="Ines")
    assert services.lift() == (5, 0, 4)
    by_text = {(each.content, each.speaker): each for each in services.entries()[ProfilePlace("preferences")]}
    same = by_text["I prefer the tea.", ""]
    assert (same.derived_from, same.importance, same.version) == ((one, two), 0.6, 1)
    assert by_text["I prefer green tea.", ""].derived_from == (other,)
    assert by_text["I do not prefer tea.", ""].derived_from == (never,)
    assert by_text["I prefer tea.", "Ines"].derived_from == (spoken,)


def test_a_later_item_adds_itself_to_an_entry_that_says_the_same(services: CompressionServices) -> None:
    one = services.put("I prefer tea.", category="preference")
    services.lift()
    entry = services.entry("preferences")
    two = services.put("I prefer the tea.", category="preference", trust="note")
    assert services.lift() == (1, 0, 1)
    after = services.entry("preferences")
    assert (after.id, after.version, after.derived_from, after.trust) == (entry.id, 2, (one, two), "note")


def test_what_an_agent_says_is_no_evidence_of_what_the_person_said(services: CompressionServices) -> None:
    one = services.put("I prefer tea.", category="preference")
    two = services.put("I prefer the tea.", category="preference", trust="agent")
    assert services.lift() == (2, 0, 2)
    entries = services.entries()[ProfilePlace("preferences")]
    assert {(each.derived_from, each.trust) for each in entries} == {((one,), "user"), ((two,), "agent")}


def test_tomorrow_of_two_days_is_not_the_same(services: CompressionServices) -> None:
    services.put("The ferry leaves tomorrow.")
    services.put("The ferry leaves tomorrow.", event_at=services.services.at)
    assert services.lift() == (2, 0, 2)


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
def test_M16_what_is_lifted_nowhere_stays_as_it_is(services: CompressionServices, fields: dict[str, Any]) -> None:
    item = services.put("I live in Oslo.", **fields)
    before = services.memory(item)
    assert services.lift() == (0, 0, 0)
    assert services.memory(item) == before


def test_a_lifted_preference_still_comes_first_in_a_context(services: CompressionServices) -> None:
    services.put("I prefer tea.", category="preference")
    rule = services.put("Never deploy on Fridays.", kind="procedural", form="preference", category="fact")
    services.lift()
    assert is_preference(services.entry("preferences"))
    assert is_preference(services.entry("stable_facts"))
    assert services.memory(rule).state == "compressed"


def test_items_of_others_and_of_other_namespaces_stay(services: CompressionServices) -> None:
    other = [services.put("I live in Oslo.", user_id="ines"), services.put("I live in Oslo.", namespace="work")]
    assert services.lift() == (0, 0, 0)
    assert services.states(*other) == ["active", "active"]
    assert services.lift(owner=Owner("work", "local")) == (1, 0, 1)


def test_more_items_than_one_write_holds_are_lifted(services: CompressionServices) -> None:
    items = [services.put(f"The code of room {number} is {number * 7}.") for number in range(230)]
    assert services.lift() == (230, 0, 230)
    assert set(services.states(*items)) == {"compressed"}


def test_an_item_that_changes_meanwhile_is_decided_again(services: CompressionServices) -> None:
    items = [services.put("I live in Oslo."), services.put("I work in Bergen.")]
    profiles, write_plan = services.profiles, services.profiles._write
    tries: list[Any] = []

    def write_late(*planned: Any) -> bool:
        if not tries:
            services.services.edit(items[0], pinned=True)
        tries.append(planned)
        return write_plan(*planned)

    profiles._write = write_late  # type: ignore[method-assign, assignment]
    assert services.lift() == (1, 0, 1)
    assert services.states(*items) == ["active", "compressed"]
    assert len(tries) == 2


# Found again


def test_a_lifted_item_is_found_by_its_entry_and_again_without_it(services: CompressionServices) -> None:
    item = services.put("The spare key is with Tom.")
    services.lift()
    entry = services.entry("stable_facts")

    def found() -> list[str]:
        return [hit.details.memory.id for hit in services.services.recall("spare key").hits]

    assert found() == [entry.id]
    services.services.trash(entry.id)
    assert found() == [item]
    assert services.lift() == (0, 0, 0)  # what somebody removed from the profile does not come back to it
    services.services.restore(entry.id)
    assert found() == [entry.id]


# By hand


def update(text: str, *evidence: str, bucket: Any = "stable_facts", **fields: Any) -> EntryUpdate:
    return EntryUpdate(
        ProfilePlace(bucket, fields.get("project", "")), text, fields.get("tags", ()), evidence, fields.get("id", ""),
        "stable_facts[0]",
    )  # fmt: skip


def test_an_entry_by_hand_rests_on_its_evidence_which_stays_visible(services: CompressionServices) -> None:
    told = services.put("Yesterday I moved to Oslo.", kind="episodic")
    group = services.profiles.update(OWNER, [update("I live in Oslo.", told)], (), PERSON).group
    entry = services.entry("stable_facts")
    assert (entry.content, entry.derived_from, entry.method, entry.trust) == (
        "I live in Oslo.",
        (told,),
        "said",
        "user",
    )
    assert (entry.compression_source, services.states(told)) == (False, ["active"])
    services.services.undo(group=group)
    assert services.texts() == {}


def test_the_same_entry_again_gets_the_evidence_of_both(services: CompressionServices) -> None:
    one, two = services.put("I moved to Oslo."), services.put("Here in Oslo it rains.")
    services.profiles.update(OWNER, [update("I live in Oslo.", one)], (), PERSON)
    services.profiles.update(OWNER, [update("I live in Oslo!", two)], (), PERSON)
    entry = services.entry("stable_facts")
    assert (entry.content, entry.derived_from, entry.version) == ("I live in Oslo.", (one, two), 2)


def test_an_entry_is_changed_by_its_id_and_moved_to_another_list(services: CompressionServices) -> None:
    one, two = services.put("I moved to Oslo."), services.put("Never think that I drink coffee.")
    services.profiles.update(OWNER, [update("I like coffee.", one)], (), PERSON)
    entry_id = services.entry("stable_facts").id
    services.profiles.update(OWNER, [update("I drink coffee.", two, bucket="do_not_assume", id=entry_id)], (), PERSON)
    entry = services.entry("do_not_assume")
    assert (entry.id, entry.content, entry.derived_from) == (entry_id, "I drink coffee.", (two,))
    assert place_of_entry(entry) == ProfilePlace("do_not_assume")


def test_a_removed_entry_is_in_the_trash(services: CompressionServices) -> None:
    services.profiles.update(OWNER, [update("I live in Oslo.", services.put("I moved to Oslo."))], (), PERSON)
    entry_id = services.entry("stable_facts").id
    services.profiles.update(OWNER, (), [entry_id], PERSON)
    assert (services.texts(), services.memory(entry_id).state) == ({}, "trashed")
    services.services.restore(entry_id)
    assert services.texts() == {"stable_facts": ["I live in Oslo."]}


def refusal(
    services: CompressionServices, changed: EntryUpdate, *removed: str, caller: Caller = PERSON
) -> tuple[int, str]:
    before = services.services.store.seq
    with pytest.raises(Refusal) as refused:
        services.profiles.update(OWNER, [changed], removed, caller)
    assert services.services.store.seq == before
    return refused.value.status, refused.value.field or ""


def test_M17_evidence_must_be_there_and_of_the_user(services: CompressionServices) -> None:
    deleted = services.put("I moved to Oslo.")
    services.services.trash(deleted)
    gone = sample_memory(999).id
    for evidence in (deleted, gone, services.put("x", user_id="ines"), services.put("x", namespace="work")):
        assert refusal(services, update("I live in Oslo.", evidence)) == (422, "stable_facts[0].evidence_ids")
    secret = services.put("I moved to Oslo.", tags=("sensitive",))
    blind = Caller("mcp", sees_sensitive=False, trust="agent")
    assert refusal(services, update("I live in Oslo.", secret), caller=blind)[0] == 422
    services.profiles.update(OWNER, [update("I live in Oslo.", secret)], (), PERSON)
    assert "sensitive" in services.entry("stable_facts").tags


def test_only_an_entry_of_the_profile_is_changed_or_removed(services: CompressionServices) -> None:
    item, other = services.put("I moved to Oslo."), services.put("It rains in Oslo.")
    assert refusal(services, update("I live in Oslo.", other, id=item)) == (404, "stable_facts[0].id")
    assert refusal(services, update("I live in Oslo.", item), item) == (404, "remove[0]")


def test_no_entry_is_evidence_of_itself(services: CompressionServices) -> None:
    item = services.put("I moved to Oslo.")
    services.profiles.update(OWNER, [update("I live in Oslo.", item)], (), PERSON)
    entry = services.entry("stable_facts")
    services.profiles.update(OWNER, [update("I live in Oslo.", entry.id)], (), PERSON)  # said again, it is known
    assert services.entry("stable_facts") == entry
    changed = update("I live in Bergen.", entry.id, id=entry.id)
    assert refusal(services, changed) == (422, "stable_facts[0].evidence_ids")


def test_an_agent_leaves_a_pinned_entry_alone_and_lowers_the_trust_of_what_it_changes(
    services: CompressionServices,
) -> None:
    agent = Caller("mcp", trust="agent")
    item = services.put("I moved to Oslo.")
    services.profiles.update(OWNER, [update("I live in Oslo.", item)], (), PERSON)
    entry_id = services.entry("stable_facts").id
    services.profiles.update(OWNER, [update("I live in Bergen.", item, id=entry_id)], (), agent)
    assert services.entry("stable_facts").trust == "agent"
    services.services.edit(entry_id, pinned=True)
    assert refusal(services, update("I live in Rome.", item, id=entry_id), caller=agent)[0] == 422


def test_an_entry_of_sensitive_evidence_is_sensitive_however_many_tags_that_has() -> None:
    tags = (*(f"tag-{number}" for number in range(TAGS_MAX - 1)), "sensitive")
    evidence = sample_memory(1, "The code of the door is 4711.", tags=tags)
    entry = entry_of(ProfilePlace("goals", "house"), "default", "A new code.", [evidence], sample_id(2), 1, "user")
    assert (len(entry.tags), "sensitive" in entry.tags) == (TAGS_MAX, True)
    assert place_of_entry(entry) == ProfilePlace("goals", "house")
