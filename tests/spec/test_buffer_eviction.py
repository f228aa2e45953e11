"""The end of a cycle: strengths fade by an epoch, and what is too weak leaves the buffer. SPEC 9.2, 9.3, 9.4"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_core.lifecycle.consolidation import review, steps
from mnemo_core.lifecycle.consolidation.cycle import violation
from mnemo_daemon.lifecycle import consolidation
from mnemo_store.record_texts import session_key
from mnemo_store.records import ConversationTurn, Memory, PutMeta, Session, Usage
from tests.support.consolidation_services import ConsolidationServices, consolidation_services_in
from tests.support.samples import AT, WAIT_SECONDS, sample_id, sample_memory, write

LAST_EPOCH = 193  # of an episodic memory of strength 0.5 in the buffer: 0.5 · 0.98^193 = 0.0101, then 0.0099
HOUR = 3_600_000


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsolidationServices]:
    last = [step for step in steps.STEPS if step.name in ("decay", "drop")]
    monkeypatch.setattr(consolidation, "STEPS", last)
    with consolidation_services_in(tmp_path) as made:
        made.services.at = AT
        yield made


def put(
    services: ConsolidationServices, number: int, content: str = "", usage: Usage | None = None, **fields: Any
) -> Memory:
    return services.put(sample_memory(number, content, **{"kind": "episodic", "source": "turn", **fields}), usage)


def set_epoch(services: ConsolidationServices, epoch: int) -> None:
    write(services.store, PutMeta(name="epoch", value=str(epoch)))


def seen(services: ConsolidationServices, number: int) -> tuple[str, str]:
    memory = services.services.memory(sample_id(number))
    return memory.state, memory.layer


def test_G19_a_cycle_is_an_epoch_and_writes_no_usage(services: ConsolidationServices) -> None:
    memory = put(services, 1)
    services.run()
    services.run()
    assert services.usage(memory.id).strength == pytest.approx(0.4802)
    with services.store.snapshot() as snapshot:
        assert snapshot.usage(memory.id) == Usage(id=memory.id)


def test_G19_time_alone_makes_nothing_weaker(services: ConsolidationServices) -> None:
    memory = put(services, 1)
    services.services.at += 30 * 24 * HOUR
    assert services.usage(memory.id).strength == 0.5


def test_G14_a_text_of_a_stream_is_archived_in_the_cycle_that_makes_it_too_weak(
    services: ConsolidationServices,
) -> None:
    before = put(services, 1)
    set_epoch(services, LAST_EPOCH - 1)
    services.run()
    assert seen(services, 1) == ("active", "buffer")
    result = services.run()
    assert seen(services, 1) == ("archived", "buffer")
    assert [(name, each.action, each.ids) for name, each in result.operations] == [("drop", "archive", (before.id,))]
    assert services.services.memory(before.id).modified_at == before.modified_at


@pytest.mark.parametrize("source", ["ingest", "turn", "extract", "proxy", "hook"])
def test_G14_what_an_entry_point_may_set_aside_is_archived(services: ConsolidationServices, source: str) -> None:
    put(services, 1, source=source)
    set_epoch(services, LAST_EPOCH)
    services.run()
    assert seen(services, 1) == ("archived", "buffer")


@pytest.mark.parametrize("source", ["cli", "api", "mcp", "import"])
def test_G14_what_was_said_on_purpose_goes_to_the_working_layer(services: ConsolidationServices, source: str) -> None:
    put(services, 1, source=source)
    set_epoch(services, LAST_EPOCH)
    services.run()
    memory = services.services.memory(sample_id(1))
    assert (memory.state, memory.layer, memory.decay_rate) == ("active", "working", 1.0)


@pytest.mark.parametrize("layer", ["working", "core"])
def test_G30_working_and_core_are_never_evicted(services: ConsolidationServices, layer: Any) -> None:
    put(services, 1, layer=layer)
    set_epoch(services, 100_000)
    services.run()
    assert seen(services, 1) == ("active", layer)
    assert services.usage(sample_id(1)).strength == 0.01


def test_a_pinned_memory_stays_where_it_is(services: ConsolidationServices) -> None:
    put(services, 1, pinned=True, importance=0.005)
    put(services, 2, pinned=True, kind="working", modified_at=AT - 25 * HOUR)
    put(services, 3)
    set_epoch(services, LAST_EPOCH)
    services.run()
    assert seen(services, 1) == seen(services, 2) == ("active", "buffer")
    assert seen(services, 3) == ("archived", "buffer")


def test_a_turn_stays_in_its_tier_which_has_a_bound_of_its_own(services: ConsolidationServices) -> None:
    put(services, 1, session_id="s", turn=ConversationTurn(role="user", tier="registry"))
    set_epoch(services, LAST_EPOCH)
    services.run()
    assert seen(services, 1) == ("active", "buffer")


def test_an_evicted_memory_is_still_recalled_and_then_active_and_strong_enough_to_stay(
    services: ConsolidationServices,
) -> None:
    put(services, 1, "The ferry to Tavira leaves at nine.")
    set_epoch(services, LAST_EPOCH)
    services.run()
    (hit,) = services.services.recall("ferry Tavira").hits
    assert hit.details.memory.state == "archived"
    services.services.memories.record_use([hit.details.memory.id]).result(WAIT_SECONDS)
    services.run()
    assert seen(services, 1) == ("active", "buffer")
    assert services.usage(sample_id(1)).strength == pytest.approx((0.5 * 0.98 ** (LAST_EPOCH + 1) + 0.03) * 0.98)


def test_more_than_fits_a_transaction_waits_for_the_next_cycle(
    services: ConsolidationServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review, "CHANGES_PER_STEP", 2)
    for number in range(1, 4):
        put(services, number)
    set_epoch(services, LAST_EPOCH)
    services.run()
    assert [seen(services, number)[0] for number in (1, 2, 3)] == ["archived", "archived", "active"]
    services.run()
    assert seen(services, 3)[0] == "archived"


# Kind `working`


def put_working(
    services: ConsolidationServices, number: int, hours_ago: int, session_id: str = "", **usage: Any
) -> Memory:
    times = dict.fromkeys(("created_at", "modified_at", "event_at"), AT - hours_ago * HOUR)
    used = Usage(id=sample_id(number), **usage)
    fields: dict[str, Any] = {"source": "cli", "kind": "working", "session_id": session_id, **times}
    return put(services, number, usage=used, **fields)


def end_session(services: ConsolidationServices, session_id: str, hours_ago: int) -> None:
    key = session_key("default", "local", session_id)
    ended_at = AT - hours_ago * HOUR
    write(services.store, Session(id=key, session_id=session_id, started_at=1, last_at=ended_at, ended_at=ended_at))


def test_a_memory_about_the_present_is_archived_a_day_after_its_last_use(services: ConsolidationServices) -> None:
    put_working(services, 1, hours_ago=24)
    put_working(services, 2, hours_ago=23)
    put_working(services, 3, hours_ago=48, last_accessed=AT - 23 * HOUR)
    put_working(services, 4, hours_ago=48, last_accessed=AT - 24 * HOUR, session_id="unknown")
    services.run()
    assert [seen(services, number)[0] for number in range(1, 5)] == ["archived", "active", "active", "archived"]


def test_a_memory_about_a_session_is_archived_at_its_end(services: ConsolidationServices) -> None:
    put_working(services, 1, hours_ago=5, session_id="over")
    put_working(services, 2, hours_ago=5, session_id="going on")
    put_working(services, 3, hours_ago=1, session_id="over")  # said, or changed, behind its end
    put_working(services, 4, hours_ago=5, session_id="over", last_accessed=AT - HOUR)
    put(services, 5, session_id="over", modified_at=AT - 5 * HOUR)  # of another kind
    end_session(services, "over", hours_ago=3)
    services.run()
    assert [seen(services, number)[0] for number in range(1, 6)] == ["archived", *["active"] * 4]


def test_a_memory_about_a_session_is_recalled_in_it_alone_archived_or_not(services: ConsolidationServices) -> None:
    put_working(services, 1, hours_ago=5, session_id="one")
    put_working(services, 2, hours_ago=25, session_id="one")
    put_working(services, 3, hours_ago=25)
    end_session(services, "one", hours_ago=30)
    services.run()

    def numbers(**wanted: Any) -> list[int]:
        hits = services.services.recall("memory number", **wanted).hits
        return sorted(int(hit.details.memory.id[-4:], 16) for hit in hits)

    assert [seen(services, number)[0] for number in (1, 2, 3)] == ["active", "archived", "archived"]
    assert numbers() == []
    assert numbers(working_session="one") == [1, 2]
    assert numbers(kinds=("working",), working_any=True) == [3]  # that of no session, by name alone after a day


def test_a_memory_of_kind_working_is_never_core() -> None:
    before = sample_memory(1, kind="working", layer="working")
    assert violation(before, sample_memory(1, kind="working", layer="core", version=2)) != ""
    assert violation(before, sample_memory(1, kind="working", layer="working", version=2)) == ""
