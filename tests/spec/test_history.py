"""The store at another time, and what became of it since: timelines worked by hand. SPEC 3.3, 7.1 `as_of`"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mnemo_daemon.errors import Refusal
from mnemo_daemon.maintenance.compaction_backup import StoreMaintenance
from mnemo_daemon.memories import as_of
from mnemo_daemon.memories.as_of import history_start
from mnemo_daemon.memories.history import MemoryDifference, SeqRange
from mnemo_daemon.retrieval.candidates.candidate_retrieval import CANDIDATES_MIN
from mnemo_store.disk import Disk
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import DropMemory, DropTrash, PutMeta
from tests.support.faulty_disk import BROKEN, FaultyDisk
from tests.support.samples import write
from tests.support.store_services import AGENT, PERSON, SHOWN, StoreServices, services_in

INES, OTTO = "The key is with Ines.", "The key is with Otto."
TUESDAY, FRIDAY = "The bins go out on Tuesday.", "The bins go out on Friday."
LOST = "The key is lost, and the lock was changed."


@pytest.fixture
def services(tmp_path: Path) -> Iterator[StoreServices]:
    with services_in(tmp_path) as services:
        yield services


class Story(NamedTuple):
    services: StoreServices
    key: str
    bins: str
    lost: str


def tell(services: StoreServices, half_way: Callable[[], None] = lambda: None) -> Story:
    """At 1000 the key, at 2000 the bins; at 3000 the bins go, at 4000 the key moves, at 5000 the bins come back, at
    6000 their day changes, at 7000 the key is superseded. The changes are 1 to 7; the clock stands at 9000."""
    key = services.add(INES)
    services.at = 2000
    bins = services.add(TUESDAY)
    services.at = 3000
    services.trash(bins)
    half_way()
    services.at = 4000
    services.edit(key, content=OTTO, tags=("home",))
    services.at = 5000
    services.restore(bins)
    services.at = 6000
    services.edit(bins, content=FRIDAY, importance=0.9)
    services.at = 7000
    lost = services.add(LOST, supersedes=(key,))
    services.at = 9000
    return Story(services, key, bins, lost)


@pytest.fixture
def story(services: StoreServices) -> Story:
    return tell(services)


TIMES = [
    (999, []),
    (1000, [INES]),
    (1999, [INES]),
    (2000, [TUESDAY, INES]),
    (3000, [INES]),
    (4000, [OTTO]),
    (5500, [TUESDAY, OTTO]),
    (6000, [FRIDAY, OTTO]),
    (7000, [LOST, FRIDAY]),
    (8000, [LOST, FRIDAY]),
    (99_000, [LOST, FRIDAY]),
]


@pytest.mark.parametrize(("at", "contents"), TIMES)
def test_a_list_shows_what_there_was(story: Story, at: int, contents: list[str]) -> None:
    assert [memory.content for memory in story.services.listed(at)] == contents


@pytest.mark.parametrize(("at", "contents"), TIMES)
def test_recall_knows_what_was_known(story: Story, at: int, contents: list[str]) -> None:
    assert sorted(story.services.recalled("key bins", at)) == sorted(contents)


def test_a_page_of_another_time_leads_to_the_next(story: Story) -> None:
    then = story.services.past.state_at(5500)
    rows, cursor = story.services.memories.page(MemoryFilter(), 1, "", then=then)
    assert [row.memory.content for row in rows] == [TUESDAY]
    rows, cursor = story.services.memories.page(MemoryFilter(), 1, cursor, then=then)
    assert [row.memory.content for row in rows] == [OTTO]
    assert cursor == ""
    assert story.services.memories.count(MemoryFilter(), then) == 2


def test_a_memory_is_shown_as_it_was(story: Story) -> None:
    services = story.services
    assert services.history.memory_at(story.key, 3999, PERSON).memory.content == INES
    assert services.history.memory_at(story.key, 4000, PERSON).memory.tags == ("home",)
    assert services.history.memory_at(story.key, 8000, PERSON).memory.state == "superseded"
    with pytest.raises(Refusal, match="was not there at that time") as refused:
        services.history.memory_at(story.bins, 1999, PERSON)
    assert (refused.value.status, refused.value.code) == (404, "not_found")
    with pytest.raises(Refusal, match="was in the trash at that time"):
        services.history.memory_at(story.bins, 3500, PERSON)


def test_filters_are_about_what_a_memory_was_then(story: Story) -> None:
    services = story.services
    assert services.listed(3000, tags=("home",)) == []
    assert [memory.content for memory in services.listed(4000, tags=("home",))] == [OTTO]
    assert services.recalled("bins", 5000, min_importance=0.8) == []
    assert services.recalled("bins", 6000, min_importance=0.8) == [FRIDAY]
    assert services.recalled("key", 8000, states=(*SHOWN, "superseded")) == [LOST, OTTO]


def test_what_was_in_the_trash_then_is_reported_by_no_filter(story: Story) -> None:
    assert [memory.content for memory in story.services.listed(3500, states=("active", "trashed"))] == [INES]
    assert [memory.content for memory in story.services.past.state_at(3500).memories] == [INES]


def test_equal_scores_are_in_the_order_of_the_versions_of_that_time(services: StoreServices) -> None:
    for importance, word, event_at in ((0.1, "one", 3), (0.9, "two", 1), (0.5, "six", 2)):
        services.add(f"bins {word}", importance=importance, event_at=event_at)
    services.at = 2000
    for memory in services.listed():
        services.edit(memory.id, importance=1 - memory.importance, event_at=9 - memory.event_at)
    assert services.recalled("bins", 1000) == ["bins two", "bins six", "bins one"]
    assert services.recalled("bins", 1000, sort="recent") == ["bins one", "bins six", "bins two"]
    assert services.recalled("bins") == ["bins one", "bins six", "bins two"]


def test_the_best_is_found_among_more_than_a_channel_gives(services: StoreServices) -> None:
    best, *_ = (
        services.add(f"bins {'boat ' * number}") for number in range(CANDIDATES_MIN + 20)
    )  # the shortest scores best
    unchanged = services.add("bins of nobody else")
    services.at = 2000
    for memory in services.listed():
        if memory.id != unchanged:
            services.edit(memory.id, content=f"{memory.content} changed")
    (hit,) = services.recall("bins", 1000, top_k=1).hits
    assert hit.details.memory == services.history.memory_at(best, 1000, PERSON).memory
    assert services.recall("bins", 1000, top_k=1).total == CANDIDATES_MIN


def test_words_that_came_later_do_not_find_it(story: Story) -> None:
    assert story.services.recalled("Otto", 3999) == []
    assert story.services.recalled("Ines", 3999) == [INES]
    assert story.services.recalled("Ines", 4000) == []
    assert story.services.recalled("Otto") == []  # it is superseded now


def test_expiry_is_judged_by_the_requested_time(services: StoreServices) -> None:
    services.add(INES, expires_at=5000)
    services.at = 9000
    assert services.listed() == []
    assert [memory.content for memory in services.listed(4999)] == [INES]
    assert services.recalled("key", 4999) == [INES]
    assert services.recalled("key", 5000) == []


def test_a_clock_that_stepped_back_hides_nothing_that_was_done(services: StoreServices) -> None:
    services.at = 5000
    services.add(INES)  # change 1
    services.at = 3000
    services.add(TUESDAY)  # change 2, after it, at an earlier time
    services.at = 6000
    services.add(LOST)
    assert services.past.seq_at(2999) == 0
    assert services.past.seq_at(4000) == 2
    assert services.past.seq_at(5999) == 2
    assert services.past.seq_at(6000) == 3
    assert [memory.content for memory in services.listed(4000)] == [TUESDAY, INES]


def test_an_erased_memory_is_not_there_at_any_time(story: Story) -> None:
    services = story.services
    services.trash(story.bins)
    write(services.store, DropMemory(id=story.bins), DropTrash(id=story.bins))
    assert [memory.content for memory in services.listed(2500)] == [INES]
    assert services.recalled("bins", 2500) == []


def test_a_caller_without_access_to_a_memory_never_sees_its_past(services: StoreServices) -> None:
    secret = services.add(INES)
    services.at = 2000
    services.edit(secret, tags=("sensitive",))
    assert [memory.content for memory in services.listed(1000)] == [INES]
    assert services.listed(1000, without_tags=("sensitive",)) == []
    assert services.recalled("key", 1000, without_tags=("sensitive",)) == []
    with pytest.raises(Refusal, match="there is no memory"):
        services.history.memory_at(secret, 1000, AGENT)


def test_many_slices_of_history_are_replayed_backwards(
    services: StoreServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(as_of, "READ_SLICE", 2)
    monkeypatch.setattr(as_of, "VERSIONS_A_SLICE", 1)
    ids = []
    for step in range(7):
        services.at = 1000 * (step + 1)
        ids.append(services.add(f"number {step}"))
    for memory_id in ids:
        services.at += 1000
        services.edit(memory_id, content="changed", tags=(memory_id[-4:],))
    assert [services.past.seq_at(at) for at in (999, 1000, 2500, 7000, 8000, 14_000, 15_000)] == [0, 1, 2, 7, 8, 14, 14]
    assert [memory.content for memory in services.listed(5000)] == [f"number {step}" for step in (4, 3, 2, 1, 0)]
    assert [seq for seq, _ in services.past.changes(3, 8)] == [8, 7, 6, 5, 4]


def test_all_of_it_is_reported_while_the_database_is_out_of_order(tmp_path: Path) -> None:
    disk = FaultyDisk()

    def break_the_database() -> None:
        disk.committing = disk.opening = BROKEN

    with services_in(tmp_path, disk=disk) as services:
        story = tell(services, break_the_database)
        assert services.store.degraded
        for at, contents in TIMES:
            assert [memory.content for memory in services.listed(at)] == contents
            assert sorted(services.recalled("key bins", at)) == sorted(contents)
        assert [row.entry.what for row in services.history.versions(story.bins, PERSON, 9, "")[0]] == [
            "edit", "restore", "rm", "add"
        ]  # fmt: skip
        assert [(row.id, row.became) for row in became(services, 2, 4)] == [
            (story.key, "changed"),
            (story.bins, "trashed"),
        ]
        services.undo(6)
        assert services.memory(story.bins).content == TUESDAY
        assert services.store.degraded


# Kept from some time on


def test_a_time_before_the_kept_history_is_refused_with_the_oldest_possible_time(story: Story) -> None:
    services = story.services
    write(services.store, PutMeta(name="history_from", value="5 4000"))
    assert [memory.content for memory in services.listed(4000)] == [OTTO]
    with pytest.raises(Refusal, match=r"begins after change 4 \(1970-01-01T00:00:04.000Z\)") as refused:
        services.listed(3999)
    assert (refused.value.status, refused.value.code) == (422, "history_compacted")
    with pytest.raises(Refusal, match="change 4"):
        services.history.memory_at(story.key, 3999, PERSON)
    assert services.history.span(4, None) == SeqRange(4, 8)
    with pytest.raises(Refusal, match="change 4"):
        services.history.span(3, None)


def test_what_compacting_keeps_is_reported_as_before_and_what_it_gave_up_is_refused(services: StoreServices) -> None:
    day = 86_400_000
    key, bins = services.add(INES), services.add(TUESDAY)
    for number in range(1, 9):
        services.at = number * day
        services.edit((key, bins)[number % 2], content=f"version {number}")
    times = [number * day + 5 for number in range(9)]
    before = [services.listed(at) for at in times]
    assert StoreMaintenance(services.store, Disk(), lambda: ()).compact("3d").history_from == 5 * day
    assert [services.listed(at) for at in times[5:]] == before[5:]
    assert [row.seq for row in services.history.versions(key, PERSON, 9, "")[0]] == [10, 8, 6]
    assert services.history.memory_at(key, 5 * day, PERSON).memory.content == "version 4"
    assert [row.seq for row in became(services, services.past.seq_at(5 * day))] == [10, 9]
    for at in times[:5]:
        with pytest.raises(Refusal, match="the history begins after change 7"):
            services.listed(at)
    with pytest.raises(Refusal, match="the history begins after change 7"):
        services.undo(7)
    services.undo(10)
    assert services.memory(key).content == "version 6"


def test_history_that_is_longer_than_the_days_to_keep_is_given_up_without_a_request(services: StoreServices) -> None:
    day = 86_400_000
    key, maintenance = services.add(INES), StoreMaintenance(services.store, Disk(), lambda: ())

    def begins_after(keep: str) -> int:
        maintenance.run_retention(keep)
        with services.store.snapshot() as snapshot:
            return history_start(snapshot).at // day

    for number in range(1, 14):
        services.at = number * day
        services.edit(key, content=f"version {number}")
        if number <= 11:
            assert begins_after("10d") == 0  # it began 11 days ago at most
    assert begins_after("all") == 0
    assert begins_after("10d") == 3
    assert begins_after("10d") == 3
    assert services.memory(key).content == "version 13"


# What became of it


def became(services: StoreServices, since: int, until: int | None = None, **fields: object) -> list[MemoryDifference]:
    asked = {"namespaces": ("default",), "user_id": "local", "caller": PERSON, "limit": 50, "cursor": "", **fields}
    rows, _, _ = services.history.differences(services.history.span(since, until), **asked)  # type: ignore[arg-type]
    return rows


def test_what_was_added_changed_and_removed_is_reported_from_both_ends(story: Story) -> None:
    rows = became(story.services, 1)
    assert [(row.id, row.became, row.seq) for row in rows] == [
        (story.lost, "added", 7),
        (story.key, "changed", 7),
        (story.bins, "added", 6),
    ]
    key = rows[1]
    assert key.fields == ("content", "tags", "superseded_by", "state")
    assert key.before is not None
    assert key.before.memory.content == INES
    assert key.after is not None
    assert (key.after.memory.content, key.after.memory.state) == (OTTO, "superseded")
    assert (key.entry.by, key.entry.what, key.entry.at) == ("cli", "add", 7000)


def test_a_span_that_ends_in_the_past_tells_of_nothing_later(story: Story) -> None:
    assert [(row.id, row.became, row.seq) for row in became(story.services, 2, 4)] == [
        (story.key, "changed", 4),
        (story.bins, "trashed", 3),
    ]
    assert [(row.id, row.became, row.seq) for row in became(story.services, 3, 5)] == [
        (story.bins, "restored", 5),
        (story.key, "changed", 4),
    ]


def test_a_record_created_and_removed_in_between_is_no_difference(services: StoreServices) -> None:
    brief = services.add(INES)
    kept = services.add(TUESDAY)
    services.edit(kept, content=FRIDAY)
    services.edit(kept, content=TUESDAY)
    services.trash(brief)
    assert [(row.id, row.became) for row in became(services, 2)] == [(brief, "trashed")]
    assert [(row.id, row.became) for row in became(services, 0)] == [(kept, "added")]


def test_of_what_was_dropped_only_the_id_is_known_and_only_to_who_sees_all(story: Story) -> None:
    services = story.services
    services.trash(story.bins)
    write(services.store, DropMemory(id=story.bins), DropTrash(id=story.bins))
    (row,) = became(services, 7, namespaces=())
    assert (row.id, row.became, row.seq, row.before, row.after) == (story.bins, None, 9, None, None)
    assert became(services, 7) == []
    assert became(services, 7, namespaces=(), caller=AGENT) == []


def test_each_sees_what_became_of_their_own(services: StoreServices) -> None:
    services.add(INES, namespace="boat")
    services.add(TUESDAY, user_id="ann")
    plain = services.add(FRIDAY)
    secret = services.add(LOST)
    assert [row.id for row in became(services, 0)] == [secret, plain]
    services.edit(secret, tags=("sensitive",))
    services.edit(secret, tags=())
    assert [row.id for row in became(services, 0, caller=AGENT)] == [secret, plain]
    services.edit(secret, tags=("sensitive",))
    assert [row.id for row in became(services, 0, 4, caller=AGENT)] == [plain]
    assert [row.became for row in became(services, 0, namespaces=())] == ["added"] * 3
    assert [row.became for row in became(services, 0, user_id="ann")] == ["added"]


def test_pages_of_a_diff_follow_each_other_though_more_is_written_meanwhile(services: StoreServices) -> None:
    ids = [services.add(f"number {step}") for step in range(5)]
    seen: list[str] = []
    cursor, span = "", services.history.span(0, None)
    while True:
        rows, kept, cursor = services.history.differences(span, ("default",), "local", PERSON, 2, cursor)
        assert kept == SeqRange(0, 5)
        seen += [row.id for row in rows]
        if not cursor:
            break
        services.edit(services.add(f"later than {len(seen)}"), tags=("x",))
        span = services.history.span(0, None)
    assert seen == ids[::-1]


@pytest.mark.parametrize("cursor", ["x", "1", "1.x.y", "-1.2.z", "0.0.z"])
def test_an_invalid_cursor_is_refused(services: StoreServices, cursor: str) -> None:
    with pytest.raises(Refusal, match="a cursor is what"):
        services.history.differences(SeqRange(0, 0), (), "local", PERSON, 2, cursor)
    if not cursor.isdecimal():
        with pytest.raises(Refusal, match="a cursor is what"):
            services.history.versions(services.add(INES), PERSON, 2, cursor)


def test_the_versions_of_a_memory_say_who_made_them_and_when_also_in_the_trash(story: Story) -> None:
    services = story.services
    services.trash(story.bins)
    versions, cursor = services.history.versions(story.bins, PERSON, 500, "")
    assert [(row.seq, row.entry.at, row.entry.by, row.entry.what) for row in versions] == [
        (8, 9000, "cli", "rm"),
        (6, 6000, "cli", "edit"),
        (5, 5000, "cli", "restore"),
        (3, 3000, "cli", "rm"),
        (2, 2000, "cli", "add"),
    ]
    assert [row.details.memory.state for row in versions] == ["trashed", "active", "active", "trashed", "active"]
    assert cursor == ""
    first, cursor = services.history.versions(story.bins, PERSON, 3, "")
    rest, end = services.history.versions(story.bins, PERSON, 3, cursor)
    assert [row.seq for row in (*first, *rest)] == [8, 6, 5, 3, 2]
    assert end == ""
