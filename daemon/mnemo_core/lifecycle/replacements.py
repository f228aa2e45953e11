"""The rule that tells whether what replaces a superseded or compressed memory still stands. SPEC 7.2, 10.3"""

from collections.abc import Callable, Iterable

from mnemo_core.retrieval.result_selection import CHAIN_MAX
from mnemo_store.records import Memory, State

HIDING: tuple[State, ...] = ("superseded", "compressed")  # states of what is hidden while its replacement exists
GONE: frozenset[State] = frozenset({"trashed", "discarded"})

Read = Callable[[str], Memory | None]


def is_replaced(memory: Memory, read: Read, summaries: Iterable[Memory], now: int) -> bool:
    """Return whether something replaces a hidden memory: the memory that it names, or what that was replaced by,
    and for a compressed one a summary made from it."""
    if names_no_replacement(memory):
        made = [each for each in summaries if memory.id in each.derived_from]
        return not made or any(_stands(each, now) for each in made)
    replacement: Memory | None = memory
    for _ in range(CHAIN_MAX):
        name = replacement.superseded_by if replacement is not None else ""
        replacement = read(name) if name and name != memory.id else None
        if replacement is None:
            return False
        if _stands(replacement, now):
            return True
    return True


def names_no_replacement(memory: Memory) -> bool:
    """Return whether a compressed memory does not say what replaces it, so that summaries have to be looked for."""
    return memory.state == "compressed" and not memory.superseded_by


def _stands(memory: Memory, now: int) -> bool:
    return memory.state not in GONE and not 0 < memory.expires_at <= now
