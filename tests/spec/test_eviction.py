"""The end of a cycle: strengths fade by an epoch, and what is too weak leaves the buffer. SPEC 9.2, 9.3, 9.4"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_core.lifecycle.consolidation import eviction, steps
from mnemo_core.lifecycle.consolidation.invariants import violation
from mnemo_daemon.lifecycle.consolidation import consolidation
from mnemo_store.records import ConversationTurn, Memory, PutMeta, Session, Usage, session_key
from tests.cycle_desk import CycleDesk, cycle_desk_in
from tests.samples import AT, WAIT_SECONDS, sample_id, sample_memory, write

LAST_EPOCH = 193  # of an episodic memory of strength 0.5 in the buffer: 0.5 · 0.98^193 = 0.0101, then 0.0099
HOUR = 3_600_000


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CycleDesk]:
    last = [step for step in steps.STEPS if step.name in ("decay", "drop")]
    monkeypatch.setattr(consolidation, "STEPS", last)
    with cycle_desk_in(tmp_path) as made:
        made.desk.at = AT
        yield made


def put(desk: CycleDesk, number: int, content: str = "", usage: Usage | None = None, **fields: Any) -> Memory:
    return desk.put(sample_memory(number, content, **{"kind": "episodic", "source": "turn", **fields}), usage)


def set_epoch(desk: CycleDesk, epoch: int) -> None:
    write(desk.store, PutMeta(name="epoch", value=str(epoch)))


def seen(desk: CycleDesk, number: int) -> tuple[str, str]:
    memory = desk.desk.memory(sample_id(number))
    return memory.state, memory.layer


def test_G19_a_cycle_is_an_epoch_and_writes_no_usage(desk: CycleDesk) -> None:
    memory = put(desk, 1)
    desk.run()
    desk.run()
    assert desk.usage(memory.id).strength == pytest.approx(0.4802)
    with desk.store.snapshot() as snapshot:
        assert snapshot.usage(memory.id) == Usage(id=memory.id)


def test_G19_time_alone_makes_nothing_weaker(desk: CycleDesk) -> None:
    memory = put(desk, 1)
    desk.desk.at += 30 * 24 * HOUR
    assert desk.usage(memory.id).strength == 0.5


def test_G14_a_text_of_a_stream_is_archived_in_the_cycle_that_makes_it_too_weak(desk: CycleDesk) -> None:
    before = put(desk, 1)
    set_epoch(desk, LAST_EPOCH - 1)
    desk.run()
    assert seen(desk, 1) == ("active", "buffer")
    result = desk.run()
    assert seen(desk, 1) == ("archived", "buffer")
    assert [(name, each.action, each.ids) for name, each in result.operations] == [("drop", "archive", (before.id,))]
    assert desk.desk.memory(before.id).modified_at == before.modified_at


@pytest.mark.parametrize("source", ["ingest", "turn", "extract", "proxy", "hook"])
def test_G14_what_an_entry_point_may_set_aside_is_archived(desk: CycleDesk, source: str) -> None:
    put(desk, 1, source=source)
    set_epoch(desk, LAST_EPOCH)
    desk.run()
    assert seen(desk, 1) == ("archived", "buffer")


@pytest.mark.parametrize("source", ["cli", "api", "mcp", "import"])
def test_G14_what_was_said_on_purpose_goes_to_the_working_layer(desk: CycleDesk, source: str) -> None:
    put(desk, 1, source=source)
    set_epoch(desk, LAST_EPOCH)
    desk.run()
    memory = desk.desk.memory(sample_id(1))
    assert (memory.state, memory.layer, memory.decay_rate) == ("active", "working", 1.0)


@pytest.mark.parametrize("layer", ["working", "core"])
def test_G30_working_and_core_are_never_evicted(desk: CycleDesk, layer: Any) -> None:
    put(desk, 1, layer=layer)
    set_epoch(desk, 100_000)
    desk.run()
    assert seen(desk, 1) == ("active", layer)
    assert desk.usage(sample_id(1)).strength == 0.01


def test_a_pinned_memory_stays_where_it_is(desk: CycleDesk) -> None:
    put(desk, 1, pinned=True, importance=0.005)
    put(desk, 2, pinned=True, kind="working", modified_at=AT - 25 * HOUR)
    put(desk, 3)
    set_epoch(desk, LAST_EPOCH)
    desk.run()
    assert seen(desk, 1) == seen(desk, 2) == ("active", "buffer")
    assert seen(desk, 3) == ("archived", "buffer")


def test_a_turn_stays_in_its_tier_which_has_a_bound_of_its_own(desk: CycleDesk) -> None:
    put(desk, 1, session_id="s", turn=ConversationTurn(role="user", tier="registry"))
    set_epoch(desk, LAST_EPOCH)
    desk.run()
    assert seen(desk, 1) == ("active", "buffer")


def test_an_evicted_memory_is_still_recalled_and_then_active_and_strong_enough_to_stay(desk: CycleDesk) -> None:
    put(desk, 1, "The ferry to Tavira leaves at nine.")
    set_epoch(desk, LAST_EPOCH)
    desk.run()
    (hit,) = desk.desk.recall("ferry Tavira").hits
    assert hit.details.memory.state == "archived"
    desk.desk.memories.record_use([hit.details.memory.id]).result(WAIT_SECONDS)
    desk.run()
    assert seen(desk, 1) == ("active", "buffer")
    assert desk.usage(sample_id(1)).strength == pytest.approx((0.5 * 0.98 ** (LAST_EPOCH + 1) + 0.03) * 0.98)


def test_more_than_fits_a_transaction_waits_for_the_next_cycle(
    desk: CycleDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "CHANGES_PER_STEP", 2)
    for number in range(1, 4):
        put(desk, number)
    set_epoch(desk, LAST_EPOCH)
    desk.run()
    assert [seen(desk, number)[0] for number in (1, 2, 3)] == ["archived", "archived", "active"]
    desk.run()
    assert seen(desk, 3)[0] == "archived"


# Kind `working`


def put_working(desk: CycleDesk, number: int, hours_ago: int, session_id: str = "", **usage: Any) -> Memory:
    times = dict.fromkeys(("created_at", "modified_at", "event_at"), AT - hours_ago * HOUR)
    used = Usage(id=sample_id(number), **usage)
    fields: dict[str, Any] = {"source": "cli", "kind": "working", "session_id": session_id, **times}
    return put(desk, number, usage=used, **fields)


def end_session(desk: CycleDesk, session_id: str, hours_ago: int) -> None:
    key = session_key("default", "local", session_id)
    ended_at = AT - hours_ago * HOUR
    write(desk.store, Session(id=key, session_id=session_id, started_at=1, last_at=ended_at, ended_at=ended_at))


def test_a_memory_about_the_present_is_archived_a_day_after_its_last_use(desk: CycleDesk) -> None:
    put_working(desk, 1, hours_ago=24)
    put_working(desk, 2, hours_ago=23)
    put_working(desk, 3, hours_ago=48, last_accessed=AT - 23 * HOUR)
    put_working(desk, 4, hours_ago=48, last_accessed=AT - 24 * HOUR, session_id="unknown")
    desk.run()
    assert [seen(desk, number)[0] for number in range(1, 5)] == ["archived", "active", "active", "archived"]


def test_a_memory_about_a_session_is_archived_at_its_end(desk: CycleDesk) -> None:
    put_working(desk, 1, hours_ago=5, session_id="over")
    put_working(desk, 2, hours_ago=5, session_id="going on")
    put_working(desk, 3, hours_ago=1, session_id="over")  # said, or changed, behind its end
    put_working(desk, 4, hours_ago=5, session_id="over", last_accessed=AT - HOUR)
    put(desk, 5, session_id="over", modified_at=AT - 5 * HOUR)  # of another kind
    end_session(desk, "over", hours_ago=3)
    desk.run()
    assert [seen(desk, number)[0] for number in range(1, 6)] == ["archived", *["active"] * 4]


def test_a_memory_about_a_session_is_recalled_in_it_alone_archived_or_not(desk: CycleDesk) -> None:
    put_working(desk, 1, hours_ago=5, session_id="one")
    put_working(desk, 2, hours_ago=25, session_id="one")
    put_working(desk, 3, hours_ago=25)
    end_session(desk, "one", hours_ago=30)
    desk.run()

    def numbers(**wanted: Any) -> list[int]:
        hits = desk.desk.recall("memory number", **wanted).hits
        return sorted(int(hit.details.memory.id[-4:], 16) for hit in hits)

    assert [seen(desk, number)[0] for number in (1, 2, 3)] == ["active", "archived", "archived"]
    assert numbers() == []
    assert numbers(working_session="one") == [1, 2]
    assert numbers(kinds=("working",), working_any=True) == [3]  # that of no session, by name alone after a day


def test_a_memory_of_kind_working_is_never_core() -> None:
    before = sample_memory(1, kind="working", layer="working")
    assert violation(before, sample_memory(1, kind="working", layer="core", version=2)) != ""
    assert violation(before, sample_memory(1, kind="working", layer="working", version=2)) == ""
