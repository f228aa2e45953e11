"""Facts as the command line shows them. SPEC 14"""

import datetime as dt
from typing import Any

from mnemo_client.cli.format.knowledge import chain_lines, conflict_lines, fact_lines
from mnemo_client.cli.terminal import TextStyle
from mnemo_client.protocol.knowledge import ConflictView, FactView
from mnemo_client.protocol.retrieval import FactChainView, FactLink
from tests.support.samples import sample_id

PLAIN = TextStyle(width=160)
THEN = int(dt.datetime(2024, 1, 2, 12).astimezone().timestamp() * 1000)
LATER = int(dt.datetime(2025, 3, 4, 12).astimezone().timestamp() * 1000)


def view(number: int, value: str, **fields: Any) -> FactView:
    known: dict[str, Any] = {"status": "open", "valid_from": THEN, **fields}
    return FactView(
        id=f"f{number}", memory_id=sample_id(number), subject="Anna", predicate="works at", object=value, **known
    )  # fmt: skip


def test_a_fact_is_shown_with_its_time_how_it_stands_and_what_states_it() -> None:
    facts = [view(1, "ZF"), view(2, "Bosch", status="closed", valid_to=LATER), view(3, "Daimler", valid_from=0)]
    assert fact_lines(facts, PLAIN) == [
        "Anna  works at  ZF       since 2024-01-02                              memory 00000001 · fact f1",
        "Anna  works at  Bosch    since 2024-01-02 · until 2025-03-04 · closed  memory 00000002 · fact f2",
        "Anna  works at  Daimler                                                memory 00000003 · fact f3",
    ]
    doubtful = view(4, "ZF", perhaps_outdated=True)
    assert "since 2024-01-02 · perhaps no longer  memory" in fact_lines([doubtful], PLAIN)[0]
    assert "\x1b" not in fact_lines([view(1, "\x1b[31mZF")], PLAIN)[0]


def test_a_conflict_is_shown_with_the_facts_that_contradict_each_other() -> None:
    facts = [view(1, "ZF", conflicts_with=["f2"]), view(2, "Bosch", conflicts_with=["f1"])]
    head, first, second = conflict_lines([ConflictView(subject="Anna", predicate="works at", facts=facts)], PLAIN)
    assert head == "Anna · works at"
    assert first.startswith("  Anna  works at  ZF     since 2024-01-02 · contradicted")
    assert "Bosch" in second


def test_a_chain_is_shown_as_a_line_with_the_direction_of_each_fact() -> None:
    links = [("Anna", "sister", "Maria"), ("Tom", "friend", "Maria")]
    facts = [FactLink(id="f", memory_id="m", subject=one, predicate=said, object=other) for one, said, other in links]
    chain = FactChainView(entities=["anna", "Maria", "Tom"], facts=facts)
    assert chain_lines([chain], PLAIN) == ["anna ─ sister → Maria ← friend ─ Tom"]
