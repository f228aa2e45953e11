"""Pairs of turns: what a person said, and the agent's answer to it. SPEC 8 [T7]"""

from collections.abc import Iterable, Sequence

from mnemo_core.llm.writing.summarize import CONDENSED_CHARACTERS
from mnemo_store.records import Memory, TurnPair, turn_line

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


def _role(turn: Memory) -> str:
    return turn.turn.role if turn.turn is not None else ""


def _is_answer(turn: Memory, asked: Memory) -> bool:
    is_other_side = (_role(asked), _role(turn)) == ("user", "agent")
    return is_other_side and turn.event_at - asked.event_at <= ANSWER_MS_MAX
