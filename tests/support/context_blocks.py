"""Whole context blocks, without a limit."""

from collections.abc import Sequence

from mnemo_core.retrieval.context_block import ContextLine, DateDisplay, render_cut_block


def render_block(memories: Sequence[ContextLine], *, dates: DateDisplay = "all", ids: bool = False) -> str:
    """The whole block, one line a memory in the order given; "" when there is none."""
    return render_cut_block(memories, None, dates=dates, ids=ids)[0]
