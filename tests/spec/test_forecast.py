"""The forecast of the next cycle: what it would do with each memory, and why the others stay. SPEC 9"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mnemo_client.protocol.choices import ForecastLayer
from mnemo_client.protocol.lifecycle import ForecastAnswer, MemoryForecastView
from mnemo_core.lifecycle.consolidation.forecast import STANDINGS
from mnemo_daemon.errors import Refusal
from mnemo_daemon.lifecycle.forecasts import FRESH_MS, Forecasts
from mnemo_daemon.settings import LifecycleSettings
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import ConversationTurn, Memory, Usage
from tests.support.consolidation_services import ConsolidationServices, consolidation_services_in
from tests.support.samples import sample_memory

HOUR = 3_600_000
NOW = 1_000 * 24 * HOUR


@pytest.fixture
def services(tmp_path: Path) -> Iterator[ConsolidationServices]:
    with consolidation_services_in(tmp_path) as made:
        made.services.at = NOW
        yield made


def forecasts(services: ConsolidationServices) -> Forecasts:
    return Forecasts(services.store, services.services.views, services.consolidation)


def page(
    services: ConsolidationServices, layer: ForecastLayer = "buffer", limit: int = 50, cursor: str | None = None
) -> ForecastAnswer:
    return forecasts(services).page(MemoryFilter(now=services.services.at), layer, limit, cursor)


def put(
    services: ConsolidationServices, number: int, text: str, usage: dict[str, Any] | None = None, **fields: Any
) -> Memory:
    old = {"created_at": NOW - HOUR, "modified_at": NOW - HOUR, "event_at": NOW - HOUR}
    memory = replace(sample_memory(number, text), **(old | fields))
    return services.put(memory, None if usage is None else Usage(id=memory.id, **usage))


def only(answer: ForecastAnswer) -> MemoryForecastView:
    (found,) = answer.memories
    return found


USED = {"access_count": 6, "strength": 0.9}


@pytest.mark.parametrize(("fields", "usage", "layer", "reason"), [
    ({"created_at": NOW - 1}, None, "buffer", "it is new: it is judged when it is 10 minutes old"),
    ({"created_at": NOW - 1, "turn": ConversationTurn(role="user")}, None, "buffer", "it is new"),
    ({"tags": ("_triaged",)}, None, "buffer", "it was judged, and is kept while it is strong"),
    ({"tags": ("_triaged",), "turn": ConversationTurn(role="user")}, None, "buffer", "it is a turn of a conversation"),
    ({"tags": ("ephemeral",)}, None, "buffer", "its strength is 0.01 or more"),
    ({"kind": "working"}, None, "buffer", "its session or its day goes on"),
    ({"expires_at": NOW - 1}, None, "buffer", ""),  # recalled no more, and not listed
    ({"layer": "working"}, None, "working", "it was used too little for core: fewer than 3 times, or never in 7 days"),
    ({"layer": "working"}, {"access_count": 3, "strength": 0.59}, "working", "its strength is below 0.6"),
    ({"layer": "working", "trust": "tool"}, USED, "working", "what others wrote, sessions and secrets do not"),
    ({"layer": "working", "tags": ("gate-rejected-final",)}, USED, "working", "the gate to core has rejected it"),
    ({"layer": "core"}, None, "core", "it is in core, and nothing newer replaces it"),
    ({"state": "archived"}, None, "archive", "it is archived; whoever recalls it makes it active again"),
])  # fmt: skip
def test_a_memory_that_stays_has_the_reason_why(
    services: ConsolidationServices, fields: dict[str, Any], usage: Any, layer: ForecastLayer, reason: str
) -> None:
    put(services, 1, "The kettle is on the shelf.", usage, **fields)
    found = page(services, layer).memories
    assert [each.outcome for each in found] == (["stay"] if reason else [])
    assert all(each.reason.startswith(reason) for each in found)


def test_every_reason_is_a_sentence_of_its_own() -> None:
    assert len(set(STANDINGS)) == len(STANDINGS)


def test_the_forecast_is_what_the_cycle_then_does(services: ConsolidationServices) -> None:
    weak = put(services, 1, "ok", {"strength": 0.001}, source="ingest", tags=("_triaged",))
    said = put(services, 2, "The kettle is on the shelf.", {"strength": 0.001}, tags=("_triaged",))
    used = put(services, 3, "The anchor weighs 20 kilos.", {"strength": 0.8, "repetition_count": 2}, tags=("_triaged",))
    kept = put(services, 4, "The mast is 12 metres high.", {"strength": 0.5}, tags=("_triaged",))
    note = put(services, 5, "Session notes.", layer="core", tags=("session",))
    buffer, core = page(services), page(services, "core")
    foretold = {each.id: each for each in (*buffer.memories, *core.memories)}
    assert {each: (foretold[each].outcome, foretold[each].reason) for each in foretold} == {
        weak.id: ("archive", "its strength is below 0.01"),
        said.id: ("promote", "its strength is below 0.01"),
        used.id: ("promote", "it was used often"),
        kept.id: ("stay", "it was judged, and is kept while it is strong"),
        note.id: ("demote", core.memories[0].reason),
    }
    assert buffer.layers["buffer"].outcomes == {"archive": 1, "promote": 2}
    assert (buffer.layers["buffer"].total, buffer.layers["core"].total) == (4, 1)
    services.run()
    for memory_id, each in foretold.items():
        done = services.services.memory(memory_id)
        assert (done.layer, done.state) == (each.layer_then, each.state_then)
        now = services.services.memories.get(memory_id).usage.strength
        assert now == pytest.approx(each.strength_then, abs=1e-4)


def test_a_forecast_writes_nothing_and_asks_no_model(tmp_path: Path) -> None:
    with consolidation_services_in(tmp_path, lambda task, inputs: pytest.fail("a model was asked")) as services:
        services.services.at = NOW
        put(services, 1, "The kettle is on the shelf.")
        seq = services.store.seq
        found = page(services)
        assert (services.store.seq, found.model, services.tasks.asked) == (seq, True, [])


def test_what_a_person_decides_is_named_as_such(tmp_path: Path) -> None:
    with consolidation_services_in(tmp_path, settings=LifecycleSettings(review="core")) as services:
        services.services.at = NOW
        put(services, 1, "I am allergic to penicillin.", {"access_count": 9, "strength": 0.9}, layer="working")
        before = only(page(services, "working"))
        services.run()
        after = only(page(services, "working"))
    for found in (before, after):
        assert (found.outcome, found.proposed, found.reason) == ("stay", "promote", "a person decides: promote")


def test_pages_list_those_that_move_first_and_then_the_weakest(services: ConsolidationServices) -> None:
    usages = [{"strength": each} for each in (0.5, 0.2, 0.9, 0.5, 0.3)]
    usages[2]["repetition_count"] = 2  # is promoted
    made = [put(services, n, f"The kettle {n}", usage, tags=("_triaged",)) for n, usage in enumerate(usages)]
    order = [made[2].id, made[1].id, made[4].id, made[0].id, made[3].id]
    found, cursor = list[str](), None
    for _ in order:
        answer = page(services, limit=1, cursor=cursor)
        found += [each.id for each in answer.memories]
        cursor = answer.cursor
    assert (found, cursor) == (order, None)
    for wrong in ("x", "1.x"):
        with pytest.raises(Refusal, match="a cursor is what the page before gave"):
            page(services, cursor=wrong)


def test_a_forecast_is_kept_while_the_store_stays_as_it_is_and_for_some_seconds(
    services: ConsolidationServices,
) -> None:
    put(services, 1, "The kettle is on the shelf.")
    kept = forecasts(services)
    wanted = MemoryFilter(now=NOW)
    services.services.at = NOW + 10 * FRESH_MS
    first = kept.page(wanted, "buffer", 50, None)
    services.services.at += 10 * FRESH_MS
    assert kept.page(wanted, "buffer", 50, None).at == first.at
    put(services, 2, "The anchor weighs 20 kilos.")
    again = kept.page(wanted, "buffer", 50, None)
    assert (again.at > first.at, again.layers["buffer"].total) == (True, 2)
    put(services, 3, "The mast is 12 metres high.")
    services.services.at += FRESH_MS - 1
    assert kept.page(wanted, "buffer", 50, None).layers["buffer"].total == 2
    kept.clear()
    assert kept.page(wanted, "buffer", 50, None).layers["buffer"].total == 3
