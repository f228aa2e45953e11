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
from tests.desk import AGENT, PERSON, SHOWN, Desk, desk_in
from tests.faulty import BROKEN, Faulty
from tests.samples import write

INES, OTTO = "The key is with Ines.", "The key is with Otto."
TUESDAY, FRIDAY = "The bins go out on Tuesday.", "The bins go out on Friday."
LOST = "The key is lost, and the lock was changed."


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_in(tmp_path) as desk:
        yield desk


class Story(NamedTuple):
    desk: Desk
    key: str
    bins: str
    lost: str


def tell(desk: Desk, half_way: Callable[[], None] = lambda: None) -> Story:
    """At 1000 the key, at 2000 the bins; at 3000 the bins go, at 4000 the key moves, at 5000 the bins come back, at
    6000 their day changes, at 7000 the key is superseded. The changes are 1 to 7; the clock stands at 9000."""
    key = desk.add(INES)
    desk.at = 2000
    bins = desk.add(TUESDAY)
    desk.at = 3000
    desk.trash(bins)
    half_way()
    desk.at = 4000
    desk.edit(key, content=OTTO, tags=("home",))
    desk.at = 5000
    desk.restore(bins)
    desk.at = 6000
    desk.edit(bins, content=FRIDAY, importance=0.9)
    desk.at = 7000
    lost = desk.add(LOST, supersedes=(key,))
    desk.at = 9000
    return Story(desk, key, bins, lost)


@pytest.fixture
def story(desk: Desk) -> Story:
    return tell(desk)


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
    assert [memory.content for memory in story.desk.listed(at)] == contents


@pytest.mark.parametrize(("at", "contents"), TIMES)
def test_recall_knows_what_was_known(story: Story, at: int, contents: list[str]) -> None:
    assert sorted(story.desk.recalled("key bins", at)) == sorted(contents)


def test_a_page_of_another_time_leads_to_the_next(story: Story) -> None:
    then = story.desk.past.state_at(5500)
    rows, cursor = story.desk.memories.page(MemoryFilter(), 1, "", then=then)
    assert [row.memory.content for row in rows] == [TUESDAY]
    rows, cursor = story.desk.memories.page(MemoryFilter(), 1, cursor, then=then)
    assert [row.memory.content for row in rows] == [OTTO]
    assert cursor == ""
    assert story.desk.memories.count(MemoryFilter(), then) == 2


def test_a_memory_is_shown_as_it_was(story: Story) -> None:
    desk = story.desk
    assert desk.history.memory_at(story.key, 3999, PERSON).memory.content == INES
    assert desk.history.memory_at(story.key, 4000, PERSON).memory.tags == ("home",)
    assert desk.history.memory_at(story.key, 8000, PERSON).memory.state == "superseded"
    with pytest.raises(Refusal, match="was not there at that time") as refused:
        desk.history.memory_at(story.bins, 1999, PERSON)
    assert (refused.value.status, refused.value.code) == (404, "not_found")
    with pytest.raises(Refusal, match="was in the trash at that time"):
        desk.history.memory_at(story.bins, 3500, PERSON)


def test_filters_are_about_what_a_memory_was_then(story: Story) -> None:
    desk = story.desk
    assert desk.listed(3000, tags=("home",)) == []
    assert [memory.content for memory in desk.listed(4000, tags=("home",))] == [OTTO]
    assert desk.recalled("bins", 5000, min_importance=0.8) == []
    assert desk.recalled("bins", 6000, min_importance=0.8) == [FRIDAY]
    assert desk.recalled("key", 8000, states=(*SHOWN, "superseded")) == [LOST, OTTO]


def test_what_was_in_the_trash_then_is_reported_by_no_filter(story: Story) -> None:
    assert [memory.content for memory in story.desk.listed(3500, states=("active", "trashed"))] == [INES]
    assert [memory.content for memory in story.desk.past.state_at(3500).memories] == [INES]


def test_equal_scores_are_in_the_order_of_the_versions_of_that_time(desk: Desk) -> None:
    for importance, word, event_at in ((0.1, "one", 3), (0.9, "two", 1), (0.5, "six", 2)):
        desk.add(f"bins {word}", importance=importance, event_at=event_at)
    desk.at = 2000
    for memory in desk.listed():
        desk.edit(memory.id, importance=1 - memory.importance, event_at=9 - memory.event_at)
    assert desk.recalled("bins", 1000) == ["bins two", "bins six", "bins one"]
    assert desk.recalled("bins", 1000, sort="recent") == ["bins one", "bins six", "bins two"]
    assert desk.recalled("bins") == ["bins one", "bins six", "bins two"]


def test_the_best_is_found_among_more_than_a_channel_gives(desk: Desk) -> None:
    best, *_ = (
        desk.add(f"bins {'boat ' * number}") for number in range(CANDIDATES_MIN + 20)
    )  # the shortest scores best
    unchanged = desk.add("bins of nobody else")
    desk.at = 2000
    for memory in desk.listed():
        if memory.id != unchanged:
            desk.edit(memory.id, content=f"{memory.content} changed")
    (hit,) = desk.recall("bins", 1000, top_k=1).hits
    assert hit.details.memory == desk.history.memory_at(best, 1000, PERSON).memory
    assert desk.recall("bins", 1000, top_k=1).total == CANDIDATES_MIN


def test_words_that_came_later_do_not_find_it(story: Story) -> None:
    assert story.desk.recalled("Otto", 3999) == []
    assert story.desk.recalled("Ines", 3999) == [INES]
    assert story.desk.recalled("Ines", 4000) == []
    assert story.desk.recalled("Otto") == []  # it is superseded now


def test_expiry_is_judged_by_the_requested_time(desk: Desk) -> None:
    desk.add(INES, expires_at=5000)
    desk.at = 9000
    assert desk.listed() == []
    assert [memory.content for memory in desk.listed(4999)] == [INES]
    assert desk.recalled("key", 4999) == [INES]
    assert desk.recalled("key", 5000) == []


def test_a_clock_that_stepped_back_hides_nothing_that_was_done(desk: Desk) -> None:
    desk.at = 5000
    desk.add(INES)  # change 1
    desk.at = 3000
    desk.add(TUESDAY)  # change 2, after it, at an earlier time
    desk.at = 6000
    desk.add(LOST)
    assert desk.past.seq_at(2999) == 0
    assert desk.past.seq_at(4000) == 2
    assert desk.past.seq_at(5999) == 2
    assert desk.past.seq_at(6000) == 3
    assert [memory.content for memory in desk.listed(4000)] == [TUESDAY, INES]


def test_an_erased_memory_is_not_there_at_any_time(story: Story) -> None:
    desk = story.desk
    desk.trash(story.bins)
    write(desk.store, DropMemory(id=story.bins), DropTrash(id=story.bins))
    assert [memory.content for memory in desk.listed(2500)] == [INES]
    assert desk.recalled("bins", 2500) == []


def test_a_caller_without_access_to_a_memory_never_sees_its_past(desk: Desk) -> None:
    secret = desk.add(INES)
    desk.at = 2000
    desk.edit(secret, tags=("sensitive",))
    assert [memory.content for memory in desk.listed(1000)] == [INES]
    assert desk.listed(1000, without_tags=("sensitive",)) == []
    assert desk.recalled("key", 1000, without_tags=("sensitive",)) == []
    with pytest.raises(Refusal, match="there is no memory"):
        desk.history.memory_at(secret, 1000, AGENT)


def test_many_slices_of_history_are_replayed_backwards(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_of, "READ_SLICE", 2)
    monkeypatch.setattr(as_of, "VERSIONS_A_SLICE", 1)
    ids = []
    for step in range(7):
        desk.at = 1000 * (step + 1)
        ids.append(desk.add(f"number {step}"))
    for memory_id in ids:
        desk.at += 1000
        desk.edit(memory_id, content="changed", tags=(memory_id[-4:],))
    assert [desk.past.seq_at(at) for at in (999, 1000, 2500, 7000, 8000, 14_000, 15_000)] == [0, 1, 2, 7, 8, 14, 14]
    assert [memory.content for memory in desk.listed(5000)] == [f"number {step}" for step in (4, 3, 2, 1, 0)]
    assert [seq for seq, _ in desk.past.changes(3, 8)] == [8, 7, 6, 5, 4]


def test_all_of_it_is_reported_while_the_database_is_out_of_order(tmp_path: Path) -> None:
    disk = Faulty()

    def break_the_database() -> None:
        disk.committing = disk.opening = BROKEN

    with desk_in(tmp_path, disk=disk) as desk:
        story = tell(desk, break_the_database)
        assert desk.store.degraded
        for at, contents in TIMES:
            assert [memory.content for memory in desk.listed(at)] == contents
            assert sorted(desk.recalled("key bins", at)) == sorted(contents)
        assert [row.entry.what for row in desk.history.versions(story.bins, PERSON, 9, "")[0]] == [
            "edit", "restore", "rm", "add"
        ]  # fmt: skip
        assert [(row.id, row.became) for row in became(desk, 2, 4)] == [(story.key, "changed"), (story.bins, "trashed")]
        desk.undo(6)
        assert desk.memory(story.bins).content == TUESDAY
        assert desk.store.degraded


# Kept from some time on


def test_a_time_before_the_kept_history_is_refused_with_the_oldest_possible_time(story: Story) -> None:
    desk = story.desk
    write(desk.store, PutMeta(name="history_from", value="5 4000"))
    assert [memory.content for memory in desk.listed(4000)] == [OTTO]
    with pytest.raises(Refusal, match=r"begins after change 4 \(1970-01-01T00:00:04.000Z\)") as refused:
        desk.listed(3999)
    assert (refused.value.status, refused.value.code) == (422, "history_compacted")
    with pytest.raises(Refusal, match="change 4"):
        desk.history.memory_at(story.key, 3999, PERSON)
    assert desk.history.span(4, None) == SeqRange(4, 8)
    with pytest.raises(Refusal, match="change 4"):
        desk.history.span(3, None)


def test_what_compacting_keeps_is_reported_as_before_and_what_it_gave_up_is_refused(desk: Desk) -> None:
    day = 86_400_000
    key, bins = desk.add(INES), desk.add(TUESDAY)
    for number in range(1, 9):
        desk.at = number * day
        desk.edit((key, bins)[number % 2], content=f"version {number}")
    times = [number * day + 5 for number in range(9)]
    before = [desk.listed(at) for at in times]
    assert StoreMaintenance(desk.store, Disk(), lambda: ()).compact("3d").history_from == 5 * day
    assert [desk.listed(at) for at in times[5:]] == before[5:]
    assert [row.seq for row in desk.history.versions(key, PERSON, 9, "")[0]] == [10, 8, 6]
    assert desk.history.memory_at(key, 5 * day, PERSON).memory.content == "version 4"
    assert [row.seq for row in became(desk, desk.past.seq_at(5 * day))] == [10, 9]
    for at in times[:5]:
        with pytest.raises(Refusal, match="the history begins after change 7"):
            desk.listed(at)
    with pytest.raises(Refusal, match="the history begins after change 7"):
        desk.undo(7)
    desk.undo(10)
    assert desk.memory(key).content == "version 6"


def test_history_that_is_longer_than_the_days_to_keep_is_given_up_without_a_request(desk: Desk) -> None:
    day = 86_400_000
    key, maintenance = desk.add(INES), StoreMaintenance(desk.store, Disk(), lambda: ())

    def begins_after(keep: str) -> int:
        maintenance.run_retention(keep)
        with desk.store.snapshot() as snapshot:
            return history_start(snapshot).at // day

    for number in range(1, 14):
        desk.at = number * day
        desk.edit(key, content=f"version {number}")
        if number <= 11:
            assert begins_after("10d") == 0  # it began 11 days ago at most
    assert begins_after("all") == 0
    assert begins_after("10d") == 3
    assert begins_after("10d") == 3
    assert desk.memory(key).content == "version 13"


# What became of it


def became(desk: Desk, since: int, until: int | None = None, **fields: object) -> list[MemoryDifference]:
    asked = {"namespaces": ("default",), "user_id": "local", "caller": PERSON, "limit": 50, "cursor": "", **fields}
    rows, _, _ = desk.history.differences(desk.history.span(since, until), **asked)  # type: ignore[arg-type]
    return rows


def test_what_was_added_changed_and_removed_is_reported_from_both_ends(story: Story) -> None:
    rows = became(story.desk, 1)
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
    assert [(row.id, row.became, row.seq) for row in became(story.desk, 2, 4)] == [
        (story.key, "changed", 4),
        (story.bins, "trashed", 3),
    ]
    assert [(row.id, row.became, row.seq) for row in became(story.desk, 3, 5)] == [
        (story.bins, "restored", 5),
        (story.key, "changed", 4),
    ]


def test_a_record_created_and_removed_in_between_is_no_difference(desk: Desk) -> None:
    brief = desk.add(INES)
    kept = desk.add(TUESDAY)
    desk.edit(kept, content=FRIDAY)
    desk.edit(kept, content=TUESDAY)
    desk.trash(brief)
    assert [(row.id, row.became) for row in became(desk, 2)] == [(brief, "trashed")]
    assert [(row.id, row.became) for row in became(desk, 0)] == [(kept, "added")]


def test_of_what_was_dropped_only_the_id_is_known_and_only_to_who_sees_all(story: Story) -> None:
    desk = story.desk
    desk.trash(story.bins)
    write(desk.store, DropMemory(id=story.bins), DropTrash(id=story.bins))
    (row,) = became(desk, 7, namespaces=())
    assert (row.id, row.became, row.seq, row.before, row.after) == (story.bins, None, 9, None, None)
    assert became(desk, 7) == []
    assert became(desk, 7, namespaces=(), caller=AGENT) == []


def test_each_sees_what_became_of_their_own(desk: Desk) -> None:
    desk.add(INES, namespace="boat")
    desk.add(TUESDAY, user_id="ann")
    plain = desk.add(FRIDAY)
    secret = desk.add(LOST)
    assert [row.id for row in became(desk, 0)] == [secret, plain]
    desk.edit(secret, tags=("sensitive",))
    desk.edit(secret, tags=())
    assert [row.id for row in became(desk, 0, caller=AGENT)] == [secret, plain]
    desk.edit(secret, tags=("sensitive",))
    assert [row.id for row in became(desk, 0, 4, caller=AGENT)] == [plain]
    assert [row.became for row in became(desk, 0, namespaces=())] == ["added"] * 3
    assert [row.became for row in became(desk, 0, user_id="ann")] == ["added"]


def test_pages_of_a_diff_follow_each_other_though_more_is_written_meanwhile(desk: Desk) -> None:
    ids = [desk.add(f"number {step}") for step in range(5)]
    seen: list[str] = []
    cursor, span = "", desk.history.span(0, None)
    while True:
        rows, kept, cursor = desk.history.differences(span, ("default",), "local", PERSON, 2, cursor)
        assert kept == SeqRange(0, 5)
        seen += [row.id for row in rows]
        if not cursor:
            break
        desk.edit(desk.add(f"later than {len(seen)}"), tags=("x",))
        span = desk.history.span(0, None)
    assert seen == ids[::-1]


@pytest.mark.parametrize("cursor", ["x", "1", "1.x.y", "-1.2.z", "0.0.z"])
def test_an_invalid_cursor_is_refused(desk: Desk, cursor: str) -> None:
    with pytest.raises(Refusal, match="a cursor is what"):
        desk.history.differences(SeqRange(0, 0), (), "local", PERSON, 2, cursor)
    if not cursor.isdecimal():
        with pytest.raises(Refusal, match="a cursor is what"):
            desk.history.versions(desk.add(INES), PERSON, 2, cursor)


def test_the_versions_of_a_memory_say_who_made_them_and_when_also_in_the_trash(story: Story) -> None:
    desk = story.desk
    desk.trash(story.bins)
    versions, cursor = desk.history.versions(story.bins, PERSON, 500, "")
    assert [(row.seq, row.entry.at, row.entry.by, row.entry.what) for row in versions] == [
        (8, 9000, "cli", "rm"),
        (6, 6000, "cli", "edit"),
        (5, 5000, "cli", "restore"),
        (3, 3000, "cli", "rm"),
        (2, 2000, "cli", "add"),
    ]
    assert [row.details.memory.state for row in versions] == ["trashed", "active", "active", "trashed", "active"]
    assert cursor == ""
    first, cursor = desk.history.versions(story.bins, PERSON, 3, "")
    rest, end = desk.history.versions(story.bins, PERSON, 3, cursor)
    assert [row.seq for row in (*first, *rest)] == [8, 6, 5, 3, 2]
    assert end == ""
