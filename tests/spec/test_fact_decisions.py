"""Deciding which of contradicting facts hold: one, while the others end, or all of them beside each other. SPEC 10.3"""

import msgspec

from mnemo_core.ingest.facts import conflicts_among, decided_facts, graph_fact, resolve_facts
from mnemo_store.records import Fact
from tests.support.family_facts import DAY_MS
from tests.support.samples import AT, sample_id

NOW = AT + 9 * DAY_MS


def works(number: int, place: str, valid_from: int = AT) -> Fact:
    return Fact(
        id=sample_id(number), memory=sample_id(100 + number), content_hash="", subject="Anna", predicate="works at",
        object=place, created_at=AT, valid_from=valid_from,
    )  # fmt: skip


SIEMENS, BOSCH, MUNICH, ZF = works(1, "Siemens"), works(2, "Bosch"), works(3, "Siemens in Munich"), works(4, "ZF")


def conflicts(*facts: Fact) -> list[list[str]]:
    return [
        [fact.object for fact in each.facts] for each in conflicts_among(resolve_facts(map(graph_fact, facts), NOW))
    ]


def after(facts: list[Fact], changed: list[Fact]) -> list[Fact]:
    by_id = {each.id: each for each in (*facts, *changed)}
    return list(by_id.values())


def test_the_fact_that_is_kept_ends_those_that_say_something_else() -> None:
    facts = [SIEMENS, BOSCH, MUNICH]
    assert conflicts(*facts) == [["Siemens", "Bosch", "Siemens in Munich"]]
    changed = decided_facts(facts, SIEMENS.id, NOW - DAY_MS)
    assert changed == [msgspec.structs.replace(BOSCH, valid_to=NOW - DAY_MS, superseded_by=SIEMENS.id)]
    assert conflicts(*after(facts, changed)) == []
    (state,) = [each for each in resolve_facts(map(graph_fact, after(facts, changed)), NOW) if not each.is_open]
    assert (state.fact.object, state.valid_to, state.superseded_by) == ("Bosch", NOW - DAY_MS, SIEMENS.id)
    assert conflicts(*after(facts, changed), ZF) == [["Siemens", "Siemens in Munich", "ZF"]]


def test_no_fact_ends_before_it_began() -> None:
    (ended,) = decided_facts([SIEMENS, BOSCH], SIEMENS.id, AT - DAY_MS)
    assert ended.valid_to == AT
    undated = works(5, "Bosch", 0)
    (ended,) = decided_facts([SIEMENS, undated], SIEMENS.id, 0)
    assert ended.valid_to == 1  # 0 would mean that it holds


def test_facts_that_hold_beside_each_other_are_no_conflict_and_end_each_other_no_more() -> None:
    facts = [SIEMENS, BOSCH]
    changed = decided_facts(facts, "", NOW)
    assert [each.beside for each in changed] == [(BOSCH.id,), (SIEMENS.id,)]
    assert conflicts(*changed) == []
    again = works(6, "Bosch", AT + DAY_MS)  # said once more, which is what was decided on
    assert conflicts(*changed, again) == []
    assert all(each.is_open for each in resolve_facts(map(graph_fact, (*changed, again)), NOW))
    assert conflicts(*changed, ZF) == [["Siemens", "Bosch", "ZF"]]  # of which nobody decided
    assert decided_facts(changed, "", NOW) == []


def test_what_says_the_same_is_not_noted_as_holding_beside() -> None:
    changed = decided_facts([SIEMENS, MUNICH, BOSCH], "", NOW)
    assert [each.beside for each in changed] == [(BOSCH.id,), (BOSCH.id,), (SIEMENS.id, MUNICH.id)]
