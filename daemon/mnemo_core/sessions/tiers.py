"""The tiers of a conversation's turns, the pairs of turns, and the record of a session. SPEC 8 [T1, T5, T6, T7, T15]

A turn enters the ring of its session. Pushed out, it becomes recent, or is archived where it was judged unimportant.
Cold or crowded out, and at the end of its session, it is filed: paired with its answer in the registry.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from mnemo_core.ingest.policies import Policy
from mnemo_core.llm.summarize import CONDENSED_CHARACTERS
from mnemo_core.sessions.tiered_recall import recency
from mnemo_store.record_texts import turn_line
from mnemo_store.records import CONTENT_CHARS_MAX, Memory, Tier, TurnPair

ANSWER_MS_MAX = 1_800_000  # between a turn and its answer: after so long a session has ended

Exchange = tuple[Memory, ...]  # one turn, or a turn and its answer


def in_order(turns: Iterable[Memory]) -> list[Memory]:
    """The turns in the order in which they were said; those of one moment as they came in."""
    return sorted(turns, key=lambda turn: (turn.event_at, turn.id))


def pair_turns(turns: Sequence[Memory]) -> list[Exchange]:
    """The turns in order as exchanges: a person's turn with the agent's turn that follows it, every other turn alone.
    [T7]"""
    exchanges: list[Exchange] = []
    for turn in turns:
        asked = exchanges[-1] if exchanges else ()
        if len(asked) == 1 and _is_answer(turn, asked[0]):
            exchanges[-1] = (*asked, turn)
        else:
            exchanges.append((turn,))
    return exchanges


def pair_of(exchange: Exchange) -> TurnPair:
    """The record of an exchange in the registry."""
    first, last = exchange[0], exchange[-1]
    return TurnPair(
        id=first.id, reply=last.id, session_id=first.session_id, at=first.event_at, namespace=first.namespace,
        user_id=first.user_id,
    )  # fmt: skip


def pair_summary(turn: Memory, reply: Memory) -> str:
    """The pair as one item of a ring, each turn by its summary. SPEC 8"""
    return " → ".join(turn_line(each, summary_of(each)) for each in (turn, reply))


def summary_of(turn: Memory) -> str:
    """The summary of a turn; a short turn, which has none, is its own."""
    return (turn.turn.summary if turn.turn is not None else "") or turn.content


def needs_summary(turn: Memory) -> bool:
    """Return whether a turn is too long to be its own summary, and has none."""
    return turn.turn is not None and not turn.turn.summary and len(turn.content) > CONDENSED_CHARACTERS


def _role_of(turn: Memory) -> str:
    return turn.turn.role if turn.turn is not None else ""


def _is_answer(turn: Memory, asked: Memory) -> bool:
    is_other_side = (_role_of(asked), _role_of(turn)) == ("user", "agent")
    return is_other_side and turn.event_at - asked.event_at <= ANSWER_MS_MAX


RING_ITEMS = 20  # [T1]
KEPT_IMPORTANCE = 0.5  # from which on a turn that is pushed out of the ring becomes recent [T1]
HIGH_IMPORTANCE = 0.7  # from here on a turn is important: facts, decisions, rules, deadlines [T22]
COLD_RECENCY = 0.2  # under which a turn is cold [T6]
STAY_MS = 300_000  # that a turn is at least kept before it is filed as cold [T6]
RECENT_MAX = 40  # turns of a session [T5]
REGISTRY_MAX = 10_000  # pairs of a user in a namespace
IDLE_MS = 1_800_000  # without a turn, after which a session has ended

T = TypeVar("T")


def split_turn(text: str) -> Iterator[str]:
    """Yield the text in pieces that fit into a memory, cut between lines where there are any; blank pieces are left
    out."""
    start = 0
    while start < len(text):
        limit = end = start + CONTENT_CHARS_MAX
        if limit < len(text):
            end = text.rfind("\n", start, limit) + 1 or limit
        if not text[start:end].isspace():
            yield text[start:end]
        start = end


def is_live_turn(memory: Memory) -> bool:
    """Return whether a memory is a turn that the tiers hold: one of a session, neither archived nor hidden."""
    return memory.turn is not None and memory.session_id != "" and memory.state == "active"


def condensed(turn: Memory, summary: str) -> Memory:
    """The turn with a summary, in whatever tier it is by then."""
    assert turn.turn is not None
    return moved(turn, turn=replace(turn.turn, summary=summary))


def tier_of(turn: Memory) -> Tier:
    """The tier of a turn."""
    assert turn.turn is not None
    return turn.turn.tier


def evicted_items(items: Sequence[T]) -> Sequence[T]:
    """The items that the newer ones push out of the ring, given in the order in which they entered. [T1]"""
    return items[:-RING_ITEMS]


def moved(turn: Memory, /, **fields: Any) -> Memory:
    """The turn as its next version. Nothing that it says is changed, and so is not the time of its last change."""
    return replace(turn, version=turn.version + 1, **fields)


def in_tier(turn: Memory, tier: Tier, **fields: Any) -> Memory:
    """The turn in a tier, as its next version."""
    assert turn.turn is not None
    return moved(turn, turn=replace(turn.turn, tier=tier), **fields)


def pushed_out(turn: Memory, policy: Policy, now: int) -> Memory:
    """The turn after the ring: recent, and archived or discarded where a judge or a person found it unimportant. [T1]

    What a rule gave, as the profile of a namespace does, is no judgement. Should an archived turn become active again,
    it is a recent one.
    """
    if turn.importance >= KEPT_IMPORTANCE or is_unjudged(turn):
        return in_tier(turn, "recent")
    if policy.unimportant_turns == "discarded":
        return discarded(turn, now)
    return in_tier(turn, "recent", state="archived")


def discarded(turn: Memory, now: int) -> Memory:
    """The turn after it left the tiers: from now on it can be restored for as long as anything discarded."""
    return in_tier(turn, "recent", state="discarded", modified_at=now)


def is_unjudged(turn: Memory) -> bool:
    """Return whether neither a person nor a model has said yet how important a turn is."""
    return turn.importance_source == "rule"


def judged(turn: Memory, found: float, policy: Policy) -> Memory:
    """The turn with the importance that a judge found, in whatever tier it is by then. SPEC 8 [T4]"""
    return moved(turn, importance=max(policy.judged_min, found), importance_source="llm")


def is_cold(turn: Memory, now: int) -> bool:
    """Return whether a recent turn is filed by the sweep: it was said long ago, and not stored a moment ago. [T6]"""
    return recency(now - turn.event_at, is_long_term=False) < COLD_RECENCY and now - turn.created_at >= STAY_MS


def crowded_out(exchanges: Sequence[Exchange], excess: int) -> list[Exchange]:
    """The exchanges to file so that there are that many turns less: the oldest without an important turn first, then
    the oldest. Exchanges are given in the order of time. [T15, T22]"""
    chosen: list[Exchange] = []
    for each in sorted(exchanges, key=is_important):
        if excess <= 0:
            break
        chosen.append(each)
        excess -= len(each)
    return chosen


def is_important(exchange: Exchange) -> bool:
    """Return whether any turn of an exchange is important. [T22]"""
    return any(turn.importance >= HIGH_IMPORTANCE for turn in exchange)


def is_over(last_at: int, now: int) -> bool:
    """Return whether a session whose last turn came then has ended by itself."""
    return now - last_at >= IDLE_MS
