"""Compression of old conversations. SPEC 9.6 [L20, L25 to L29]"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_core.lifecycle.compression import CHARACTERS_MAX, MEMORIES_MAX, first_part, sessions_due
from mnemo_core.llm.summarize import SummaryAnswer
from mnemo_core.llm.tasks import AnyTask, TaskInputs
from mnemo_core.text.languages import sentences
from mnemo_daemon.lifecycle.compression import IDLE_MS
from mnemo_daemon.lifecycle.profile_service import Owner
from mnemo_daemon.memories.memory_service import Caller
from mnemo_store.record_texts import skip_hash
from mnemo_store.records import ConversationTurn, ErasedText, Memory
from tests.support.compression_services import CompressionServices, compression_services_in
from tests.support.samples import sample_id, sample_memory, write


@pytest.fixture
def services(tmp_path: Path) -> Iterator[CompressionServices]:
    with compression_services_in(tmp_path, threshold=4) as made:
        yield made


def talks(services: CompressionServices, count: int, **fields: Any) -> list[list[str]]:
    """Sessions of two memories each, the oldest first."""
    return [
        services.talk(f"s{number}", f"Trip {number} goes to Oslo.", f"The ticket costs {number}0 euros.", **fields)
        for number in range(count)
    ]


# Which sessions


@pytest.mark.parametrize(
    ("sessions", "threshold", "due"),
    [(20, 20, 0), (21, 20, 10), (100, 20, 10), (0, 20, 0), (4, 3, 1), (2, 1, 1)],
)
def test_L25_L26_half_of_the_threshold_is_compressed_when_there_are_more_sessions(
    sessions: int, threshold: int, due: int
) -> None:
    assert sessions_due(sessions, threshold) == due


def test_L25_sessions_are_compressed_only_when_there_are_more_than_the_threshold(services: CompressionServices) -> None:
    talks(services, 4)
    assert services.compress().summaries == []
    services.talk("s4", "A fifth conversation.")
    assert len(services.compress().summaries) == 2


def test_L26_the_sessions_whose_oldest_memory_is_oldest_come_first(services: CompressionServices) -> None:
    made = talks(services, 5)
    services.talk("s0", "Trip 0 was moved to May.")  # a late memory of the oldest session
    result = services.compress()
    assert [each.session_id for each in result.summaries] == ["s0", "s1"]
    assert services.states(*made[0], *made[1], *made[2]) == ["compressed"] * 4 + ["active"] * 2


def test_a_number_of_sessions_is_compressed_however_few_there_are(services: CompressionServices) -> None:
    made = talks(services, 2)
    assert len(services.compress(sessions=1).summaries) == 1
    assert services.states(*made[0], *made[1]) == ["compressed"] * 2 + ["active"] * 2


def test_sessions_are_counted_and_compressed_of_one_user_in_one_namespace(services: CompressionServices) -> None:
    talks(services, 4)
    other = talks(services, 4, user_id="ines") + talks(services, 4, namespace="work")
    assert services.compress().summaries == []
    assert len(services.compress(sessions=4, owner=Owner("work", "local")).summaries) == 4
    assert services.states(*(each for session in other for each in session)) == ["active"] * 8 + ["compressed"] * 8


def test_a_session_that_goes_on_is_not_compressed_but_counted(services: CompressionServices) -> None:
    services.talk("s", "Who has the key?", turn=ConversationTurn(role="user", tier="ring"))
    filed = services.talk("t", "Where is the tin?", turn=ConversationTurn(role="user", tier="registry"))
    services.put("The shed is green.", kind="episodic", session_id="t", user_id="ines",
             turn=ConversationTurn(role="user", tier="recent"))  # fmt: skip
    talks(services, 3)
    result = services.compress()
    assert [each.session_id for each in result.summaries] == ["t", "s0"]
    assert (result.under_way, services.states(*filed)) == (1, ["compressed"])


def test_the_job_leaves_sessions_alone_in_which_something_was_said_half_an_hour_ago(
    services: CompressionServices,
) -> None:
    made = talks(services, 4)
    late = services.talk("s0", "One more thing.", created_at=services.services.at - IDLE_MS + 1)
    services.talk("s4", "A fifth conversation.")
    services.run_job()
    assert services.states(*made[0], *late, *made[1], *made[2]) == ["active"] * 3 + ["compressed"] * 4


def test_the_job_follows_the_profile_of_the_namespace(services: CompressionServices) -> None:
    talks(services, 5, namespace="tiers")
    services.policies["tiers"] = "T"
    item = services.put("I prefer tea.", category="preference", namespace="milton")
    services.policies["milton"] = "M"
    services.run_job()
    assert services.tasks.asked == []
    assert services.states(item) == ["compressed"]
    assert services.texts(owner=Owner("milton", "local")) == {"preferences": ["I prefer tea."]}


def test_without_the_setting_the_job_compresses_sessions_under_the_profile_of_l_alone(
    services: CompressionServices,
) -> None:
    services.is_unasked = False
    talks(services, 11)
    services.run_job()
    assert services.tasks.asked == []
    services.policies["default"] = "L"
    services.run_job()
    assert len(services.tasks.asked) == 5


def test_a_threshold_of_nothing_leaves_all_sessions_as_they_are(tmp_path: Path) -> None:
    with compression_services_in(tmp_path, threshold=0) as services:
        talks(services, 5)
        assert services.compress().summaries == []
        services.run_job()
        assert services.tasks.asked == []


# Which memories


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "semantic"}, {"kind": "procedural"}, {"kind": "working"}, {"pinned": True}, {"layer": "core"},
        {"managed": sample_id(900)}, {"state": "archived"}, {"tags": ("sensitive",)}, {"tags": ("trigger:deploy",)},
        {"tags": ("lesson",)}, {"tags": ("session",)}, {"expires_at": 1},
    ],
)  # fmt: skip
def test_what_a_person_pinned_or_another_rule_finds_stays_as_it_is(
    services: CompressionServices, fields: dict[str, Any]
) -> None:
    (plain,) = services.talk("s", "The tin is in the shed.")
    kept = services.put("The key is in the tin.", **{"kind": "episodic", "session_id": "s", **fields})
    (made,) = services.compress(sessions=1).summaries
    assert made.derived_from == (plain,)
    assert services.memory(kept).state == fields.get("state", "active")


def test_one_summary_stands_for_a_bounded_number_of_memories() -> None:
    short = [sample_memory(number, "x", event_at=number) for number in range(MEMORIES_MAX + 1)]
    assert first_part(reversed(short)) == short[:-1]
    long = [sample_memory(number, "x" * (CHARACTERS_MAX // 2), event_at=number) for number in range(3)]
    assert first_part(long) == long[:2]
    assert first_part([sample_memory(0, "x" * (CHARACTERS_MAX + 1))]) != []


def test_what_is_said_later_in_a_compressed_session_gets_a_summary_of_its_own(services: CompressionServices) -> None:
    first = services.talk("s", "The tin is in the shed.")
    services.compress(sessions=1)
    later = services.talk("s", "The shed was painted green.")
    (made,) = services.compress(sessions=1).summaries
    assert made.derived_from == tuple(later)
    assert services.states(*first, *later) == ["compressed"] * 2
    assert services.compress(sessions=1).summaries == []


# The summary


def test_L27_the_summary_is_made_of_the_memories_in_the_order_of_time(tmp_path: Path) -> None:
    def answer(_: AnyTask, inputs: TaskInputs) -> SummaryAnswer:
        return SummaryAnswer(f"{inputs.sources[0]} {inputs.sources[1]}")

    with compression_services_in(tmp_path, answer) as services:
        late, early = (
            services.talk("s", "Anna paid 40 euros.")[0],
            services.talk("s", "Anna booked Oslo.", event_at=5)[0],
        )
        (made,) = services.compress(sessions=1).summaries
        summary = services.memory(made.id)
        assert (summary.content, summary.method) == ("Anna booked Oslo. Anna paid 40 euros.", "llm:scripted")
        assert summary.derived_from == (early, late)


def test_L27_without_a_model_sentences_of_the_session_are_its_summary(services: CompressionServices) -> None:
    services.talk("s", "Anna booked Oslo for May.", "Tom paid 40 euros.")
    (made,) = services.compress(sessions=1).summaries
    assert made.content == "Anna booked Oslo for May. Tom paid 40 euros."
    assert made.method == "rule"


def test_L27_without_a_model_three_sentences_of_a_long_session_are_its_summary(services: CompressionServices) -> None:
    told = [f"On day {day} Anna walked {day * 10} kilometres from Oslo towards the town of Bergen." for day in range(9)]
    services.talk("s", *(text for pair in zip(told, ["Nice!", "See you."] * 5, strict=False) for text in pair))
    (made,) = services.compress(sessions=1).summaries
    said = sentences(made.content)
    assert len(said) == 3
    assert set(said) <= set(told)


def test_a_summary_says_who_said_what_and_takes_no_small_talk(services: CompressionServices) -> None:
    services.talk("s1", "The boat is moored at pier 4. It needs a new mast.", speaker="Ana")
    services.talk("s1", "I sold the old mast to Bruno for 90 euros.")
    talk = services.talk("s1", "Thanks, see you!", category="crumb") + services.talk(
        "s1", "Where is it?", category="request"
    )
    (made,) = services.compress(1).summaries
    assert made.content == (
        "Ana: The boat is moored at pier 4. Ana: It needs a new mast. user: I sold the old mast to Bruno for 90 euros."
    )
    assert services.states(*talk) == ["active", "active"]
    assert services.compress(1).summaries == [], "small talk alone is no session to compress"


def test_L27_a_session_without_a_summary_is_passed_over(tmp_path: Path) -> None:
    class BlankAnswers:
        def run(self, *_: Any, **__: Any) -> Any:
            return type("Result", (), {"answer": SummaryAnswer(" "), "model": ""})

    with compression_services_in(tmp_path) as services:
        ids = services.talk("s", "…")
        services.compression._tasks = BlankAnswers()  # type: ignore[assignment]
        assert services.compress(sessions=1).summaries == []
        assert services.states(*ids) == ["active"]


def test_L28_the_summary_is_a_semantic_memory_that_names_its_session_and_its_sources(
    services: CompressionServices,
) -> None:
    ids = [
        *services.talk(
            "s", "Anna booked Oslo.", importance=0.8, trust="agent", tags=("trip", "_triaged"), agent_id="a"
        ),
        *services.talk(
            "s", "Anna paid 40 euros.", importance=0.4, layer="working", tags=("money", "trip"), agent_id="b"
        ),
    ]
    services.compress(sessions=1)
    (summary,) = services.services.listed(source="compress")
    assert (summary.kind, summary.compression_source, summary.source_session_id) == ("semantic", True, "s")
    assert (summary.derived_from, summary.session_id) == (tuple(ids), "s")
    assert (summary.importance, summary.layer, summary.trust, summary.state) == (0.8, "working", "agent", "active")
    assert (summary.tags, summary.agent_id, summary.event_at) == (
        ("trip", "money"),
        "",
        services.memory(ids[1]).event_at,
    )
    assert services.services.memories.get(summary.id).usage.strength == 0.8


def test_a_summary_that_an_agent_asked_for_is_trusted_like_the_agent(services: CompressionServices) -> None:
    services.talk("s", "Anna booked Oslo.", importance=0.9, importance_source="user")
    (made,) = services.compress(sessions=1, caller=Caller("mcp", trust="agent")).summaries
    summary = services.memory(made.id)
    assert (summary.trust, summary.importance, summary.importance_source) == ("agent", 0.9, "rule")


# The originals


def test_L29_the_originals_are_kept_and_found_with_include_compressed(services: CompressionServices) -> None:
    ids = talks(services, 5)
    services.compress()
    assert [services.memory(each).content for each in ids[0]] == ["Trip 0 goes to Oslo.", "The ticket costs 00 euros."]
    summary = services.memory(services.memory(ids[0][0]).superseded_by)
    assert {services.memory(each).superseded_by for each in ids[0]} == {summary.id}
    assert services.services.recalled("Trip 0")[0] == summary.content
    shown = services.services.recalled("Trip 0", states=("active", "archived", "compressed"))
    assert {"Trip 0 goes to Oslo.", summary.content} <= set(shown)


def test_L20_a_compressed_memory_is_left_out_while_its_summary_stands(services: CompressionServices) -> None:
    (original,) = services.talk("s", "The spare key is in the tin, and the tin is in the shed.")
    services.put("The spare key is old.", importance=0.1)
    (made,) = services.compress(sessions=1).summaries
    summary = made.id

    def found(**fields: Any) -> set[str]:
        return {hit.details.memory.id for hit in services.services.recall("spare key", **fields).hits}

    assert found(min_importance=0.2) == {summary}
    assert found(min_importance=0.2, kinds=("episodic",)) == set()
    services.services.trash(summary)
    assert found(min_importance=0.2) == {original}


def test_nothing_is_written_where_a_memory_is_changed_while_its_summary_is_made(tmp_path: Path) -> None:
    def edit(_: AnyTask, __: TaskInputs) -> None:
        services.services.edit(ids[0], content="Anna booked Bergen.")

    with compression_services_in(tmp_path, edit) as services:
        ids = services.talk("s", "Anna booked Oslo.", "Anna paid 40 euros.")
        assert services.compress(sessions=1).summaries == []
        assert services.states(*ids) == ["active", "active"]
        assert services.services.listed(source="compress") == []


def test_a_memory_that_is_pinned_while_its_summary_is_made_stays(tmp_path: Path) -> None:
    def pin(_: AnyTask, __: TaskInputs) -> None:
        services.services.edit(ids[0], pinned=True)

    with compression_services_in(tmp_path, pin) as services:
        ids = services.talk("s", "Anna booked Oslo.")
        assert services.compress(sessions=1).summaries == []
        assert services.states(*ids) == ["active"]


def test_a_new_version_with_the_same_text_is_no_change(tmp_path: Path) -> None:
    def score(_: AnyTask, __: TaskInputs) -> None:
        services.services.edit(ids[0], importance=0.9)

    with compression_services_in(tmp_path, score) as services:
        ids = services.talk("s", "Anna booked Oslo.")
        (made,) = services.compress(sessions=1).summaries
        assert (made.importance, services.states(*ids)) == (0.9, ["compressed"])


def test_a_dry_run_answers_the_same_and_writes_nothing(services: CompressionServices) -> None:
    talks(services, 5)
    services.put("I prefer tea.", category="preference")
    before = services.services.store.seq
    planned = services.compress(cutoff_hours=48, dry_run=True)
    assert (services.services.store.seq, planned.group) == (before, "")
    real = services.compress(cutoff_hours=48)

    def outline(memory: Memory) -> Any:
        return memory.content, memory.derived_from, memory.tags, memory.trust, memory.importance

    assert [outline(each) for each in planned.summaries] == [outline(each) for each in real.summaries]
    assert planned.lifted == real.lifted == (1, 0, 1)


def test_undo_takes_all_of_a_compression_back_and_it_is_not_made_again(services: CompressionServices) -> None:
    ids = talks(services, 5)
    item = services.put("I prefer tea.", category="preference")
    group = services.compress(cutoff_hours=48).group
    services.services.undo(group=group)
    assert services.states(*ids[0], *ids[1], item) == ["active"] * 5
    assert services.texts() == {}
    again = services.compress(sessions=5, cutoff_hours=48)
    assert [each.session_id for each in again.summaries] == ["s2", "s3", "s4"]
    assert again.lifted == (0, 0, 0)


def test_an_erased_summary_is_not_written_again(services: CompressionServices) -> None:
    ids = services.talk("s", "Anna booked Oslo.")
    with services.services.store.snapshot() as snapshot:
        salt = snapshot.meta("salt")
    write(services.services.store, ErasedText(hash=skip_hash(salt, "Anna booked Oslo."), at=1))
    assert services.compress(sessions=1).summaries == []
    assert services.states(*ids) == ["active"]


def test_what_is_said_again_after_its_compression_is_found_again(services: CompressionServices) -> None:
    long = "Nobody spoke of anything else for the whole evening, and the rain went on and on until the morning came. "
    (said,) = services.talk("s", "The gate code is 4711.")
    services.talk("s", *(f"{long} {number}" for number in range(6)))
    services.compress(sessions=1)
    assert services.memory(said).state == "compressed"
    again = services.services.add("The gate code is 4711.", kind="episodic")
    assert again != said
    assert "The gate code is 4711." in services.services.recalled("gate code")
