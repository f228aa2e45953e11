"""The tiers of a conversation's turns, by values worked by hand. SPEC 8 [T1, T6, T7, T15, T22]"""

from typing import Any, Literal

import pytest

from mnemo_core.ingest.policies import OWN_POLICY, POLICIES
from mnemo_core.ingest.session_records import recorded_sessions, session_of_turns
from mnemo_core.sessions import tiers
from mnemo_core.sessions.tiered_recall import recency
from mnemo_core.sessions.tiers import (
    crowded_out,
    evicted_items,
    in_order,
    is_cold,
    judged,
    pair_of,
    pair_summary,
    pair_turns,
    pushed_out,
)
from mnemo_store.record_texts import pair_text, session_key
from mnemo_store.records import ConversationTurn, Memory, PutMemory, Session, Tier, TurnPair
from tests.support.samples import AT, sample_id, sample_memory

DAY = 86_400_000
MINUTE = 60_000


def turn(
    number: int, role: Literal["user", "agent"] = "user", *, tier: Tier = "ring", summary: str = "", **fields: Any
) -> Memory:
    said: dict[str, Any] = {"session_id": "s", "turn": ConversationTurn(role=role, tier=tier, summary=summary)}
    return sample_memory(number, **said | fields)


# The ring


def test_T1_the_twenty_first_item_pushes_the_first_one_out() -> None:
    assert list(evicted_items(range(20))) == []
    assert list(evicted_items(range(21))) == [0]
    assert list(evicted_items(range(25))) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("importance", "source", "state"),
    [(0.5, "rule", "active"), (0.5, "llm", "active"), (0.49, "llm", "archived"), (0.2, "user", "archived"),
     (0.9, "llm", "active"), (0.2, "rule", "active")],
)  # fmt: skip
def test_T1_what_is_pushed_out_becomes_recent_from_one_half_on_and_is_archived_below(
    importance: float, source: Any, state: str
) -> None:
    """The importance that a profile gives every turn is no judgement of one: it archives none."""
    out = pushed_out(turn(1, importance=importance, importance_source=source), OWN_POLICY, now=AT)
    assert (out.turn, out.state) == (ConversationTurn(role="user", tier="recent"), state)
    assert (out.version, out.modified_at, out.importance) == (2, AT, importance)


@pytest.mark.parametrize(("found", "importance"), [(0.0, 0.2), (0.1, 0.2), (0.2, 0.2), (0.5, 0.5), (1.0, 1.0)])
def test_T22_a_judge_gives_a_turn_at_least_what_recall_shows(found: float, importance: float) -> None:
    assert judged(turn(1), found, OWN_POLICY).importance == importance
    assert judged(turn(1), found, POLICIES["T"]).importance == found


def test_T4_a_late_verdict_leaves_the_turn_in_the_tier_where_it_is_by_then() -> None:
    late = judged(turn(1, tier="recent"), 0.3, OWN_POLICY)
    assert (late.turn, late.state) == (ConversationTurn(role="user", tier="recent"), "active")
    assert late.importance_source == "llm"


# What is cold


@pytest.mark.parametrize(
    ("days", "value"), [(1, 0.8669), (5, 0.4895), (7, 0.3679), (10, 0.2397), (30, 0.0138), (0, 1.0)]
)
def test_T6_the_recency_of_a_recent_turn(days: int, value: float) -> None:
    assert recency(days * DAY, is_long_term=False) == pytest.approx(value, abs=5e-5)


@pytest.mark.parametrize(("days", "cold"), [(11.26, False), (11.27, True), (11.0, False), (30.0, True)])
def test_T6_a_turn_is_cold_after_11_27_days(days: float, *, cold: bool) -> None:
    """7 · ln 5 = 11.266."""
    assert is_cold(turn(1), AT + int(days * DAY)) is cold


@pytest.mark.parametrize(("minutes", "cold"), [(4.99, False), (5, True)])
def test_T6_an_old_turn_that_was_stored_now_stays_for_five_minutes(minutes: float, *, cold: bool) -> None:
    assert is_cold(turn(1, event_at=AT - 30 * DAY), AT + int(minutes * MINUTE)) is cold


# Pairs


def numbers_of(exchanges: list[tiers.Exchange]) -> list[list[int]]:
    return [[int(each.id[-12:], 16) for each in exchange] for exchange in exchanges]


@pytest.mark.parametrize(
    ("roles", "pairs"),
    [
        ("uaua", [[0, 1], [2, 3]]),
        ("uuaa", [[0], [1, 2], [3]]),
        ("auau", [[0], [1, 2], [3]]),
        ("u", [[0]]),
        ("", []),
        ("aa", [[0], [1]]),
    ],
)
def test_T7_a_turn_and_its_answer_are_a_pair_and_every_other_turn_is_one_alone(
    roles: str, pairs: list[list[int]]
) -> None:
    said = [turn(n, "user" if role == "u" else "agent", event_at=AT + n) for n, role in enumerate(roles)]
    assert numbers_of(pair_turns(said)) == pairs


def test_T7_turns_are_paired_in_the_order_of_their_times_and_those_of_one_moment_as_they_came() -> None:
    late, early = turn(1, event_at=AT + 2), turn(2, "agent", event_at=AT + 1)
    same = turn(3, "agent", event_at=AT + 2)
    assert numbers_of(pair_turns(in_order([same, late, early]))) == [[2], [1, 3]]


@pytest.mark.parametrize(("minutes", "pairs"), [(30, [[0, 1]]), (31, [[0], [1]])])
def test_T7_what_comes_after_half_an_hour_answers_nothing(minutes: int, pairs: list[list[int]]) -> None:
    said = [turn(0), turn(1, "agent", event_at=AT + minutes * MINUTE)]
    assert numbers_of(pair_turns(said)) == pairs


def test_T7_the_text_and_the_summary_of_a_pair() -> None:
    asked = turn(1, content="When does the ferry leave?", summary="The time of the ferry.")
    answer = turn(2, "agent", content="At seven.")
    assert pair_text([asked, answer]) == "User: When does the ferry leave?\nAgent: At seven."
    assert pair_text([answer]) == "Agent: At seven."
    assert pair_summary(asked, answer) == "User: The time of the ferry. → Agent: At seven."


def test_T7_the_record_of_a_pair_names_both_turns_and_of_a_turn_alone_it_twice() -> None:
    both = (turn(1, event_at=7), turn(2, "agent", event_at=8))
    assert pair_of(both) == TurnPair(id=sample_id(1), reply=sample_id(2), session_id="s", at=7)
    assert pair_of(both[1:]) == TurnPair(id=sample_id(2), reply=sample_id(2), session_id="s", at=8)


# The cap


def exchanges(*importances: tuple[float, ...]) -> list[tiers.Exchange]:
    number = iter(range(100))
    return [tuple(turn(next(number), importance=each) for each in some) for some in importances]


@pytest.mark.parametrize(
    ("excess", "filed"),
    [
        (0, []),
        (1, [[0, 1]]),
        (2, [[0, 1]]),
        (3, [[0, 1], [4]]),
        (4, [[0, 1], [4], [5, 6]]),
        (6, [[0, 1], [4], [5, 6], [2, 3]]),
    ],
)
def test_T15_the_oldest_exchanges_without_an_important_turn_are_crowded_out_first(
    excess: int, filed: list[list[int]]
) -> None:
    """Important is 0.7 and more [T22]: the exchange of 2 and 3 goes last. An exchange is not torn apart."""
    recent = exchanges((0.5, 0.69), (0.5, 0.7), (0.5,), (0.2, 0.5))
    assert numbers_of(crowded_out(recent, excess)) == filed


def test_T1_T5_T15_the_sizes_of_the_tiers() -> None:
    assert (tiers.RING_ITEMS, tiers.RECENT_MAX, tiers.REGISTRY_MAX) == (20, 40, 10_000)


# The record of a session


def stored(*turns: Memory) -> list[PutMemory]:
    return [PutMemory(data=each) for each in turns]


KEY = session_key("default", "local", "s")


def test_a_session_is_recorded_with_its_first_turn_and_counts_each() -> None:
    changes = stored(turn(1), turn(2, "agent", agent_id="codex"), sample_memory(3, session_id="s"))
    (put,) = recorded_sessions(changes, lambda _: None, AT)
    assert put.data == Session(id=KEY, session_id="s", started_at=AT, last_at=AT, turns=2, agent_id="codex")


def test_a_session_that_had_ended_goes_on_with_the_next_turn() -> None:
    ended = Session(id=KEY, session_id="s", started_at=1, last_at=2, turns=5, ended_at=3)
    (put,) = recorded_sessions(stored(turn(1)), {KEY: ended}.get, AT)
    assert put.data == Session(id=KEY, session_id="s", started_at=1, last_at=AT, turns=6)


@pytest.mark.parametrize("fields", [{"session_id": ""}, {"state": "discarded"}, {"version": 2}])
def test_what_is_no_new_turn_of_a_session_changes_no_session(fields: dict[str, Any]) -> None:
    assert recorded_sessions(stored(turn(1, **fields)), lambda _: None, AT) == ()


def test_the_record_of_a_session_of_an_earlier_version_is_made_of_its_turns() -> None:
    turns = [turn(1, created_at=5, agent_id="a"), turn(2, created_at=9), turn(3, created_at=7)]
    assert session_of_turns(turns) == Session(id=KEY, session_id="s", started_at=5, last_at=9, turns=3)


@pytest.mark.parametrize(("minutes", "over"), [(29.99, False), (30, True)])
def test_a_session_is_over_after_half_an_hour_without_a_turn(minutes: float, *, over: bool) -> None:
    assert tiers.is_over(AT, AT + int(minutes * MINUTE)) is over
