"""Version history of a memory: its state at a time, its changes, and which of them were reverted. SPEC 3.3, 7.2, 10.3

Versions are given oldest first, each with the sequence number of its transaction. The label of a transaction that
reverts others names them: `undo:3,4`. Such a transaction can be reverted itself. Here stands too whether what replaces
a superseded or compressed memory still stands.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from mnemo_core.retrieval.result_selection import CHAIN_MAX
from mnemo_store.records import Memory, State

UNDO = "undo:"
TURN_TIER = "turn tier"  # label of a transaction that moves turns between their tiers, judges or condenses them
RECALL = "recall"  # label of one that counts recalls, and makes recalled memories active again

Version = tuple[int, Memory]  # seq, and what the memory became by it
ChangeKind = Literal["added", "restored", "changed", "trashed"]

# Fields whose changes are not listed: two differ between any two versions, and a turn moves between tiers by itself.
_UNLISTED = frozenset({"version", "modified_at", "turn"})


def version_at(versions: Sequence[Version], seq: int) -> Memory | None:
    """Return the memory as it was after that transaction, None before its first version."""
    return next((memory for made_by, memory in reversed(versions) if made_by <= seq), None)


def is_present(memory: Memory | None) -> bool:
    """Return whether the memory exists and is not in the trash."""
    return memory is not None and memory.state != "trashed"


def changed_fields(before: Memory, after: Memory) -> tuple[str, ...]:
    """The fields in which two versions differ, in their order, but for those whose changes say nothing."""
    return tuple(
        field
        for field in after.__struct_fields__
        if field not in _UNLISTED and getattr(before, field) != getattr(after, field)
    )


def change_kind(before: Memory | None, after: Memory | None) -> ChangeKind | None:
    """Classify the difference between two states of a memory, None where there is none. Only the two states are
    compared: what was added and deleted in between, or edited and edited back, does not count."""
    if not is_present(after):
        return "trashed" if after is not None and is_present(before) else None
    if not is_present(before):
        return "added" if before is None else "restored"
    assert before is not None
    assert after is not None
    return "changed" if changed_fields(before, after) else None


# Taking back


def undo_label(seqs: Iterable[int]) -> str:
    """Label of a transaction that reverts these."""
    return UNDO + ",".join(map(str, seqs))


def undone_seqs(what: str) -> frozenset[int]:
    """The transactions that a transaction with this label reverts, empty where it is no revert."""
    return frozenset(map(int, what.removeprefix(UNDO).split(","))) if what.startswith(UNDO) else frozenset()


def reverted_seqs(newest_first: Iterable[tuple[int, str]]) -> set[int]:
    """The transactions that are reverted, given as (seq, label), newest first; a reverted revert does not count."""
    taken: set[int] = set()
    for seq, what in newest_first:
        if seq not in taken:
            taken |= undone_seqs(what)
    return taken


class RevertEffect(NamedTuple):
    """Effect of reverting transactions on one memory.

    `done`: they are reverted already. `later`: the transactions that changed the memory afterwards and prevent the
    revert. Otherwise `before` is the version to restore, None where the memory did not exist.
    """

    before: Memory | None = None
    later: tuple[int, ...] = ()
    done: bool = False


def revert_effect(versions: Sequence[Version], whats: Mapping[int, str], seqs: Collection[int]) -> RevertEffect:
    """Effect of reverting the transactions of `seqs` on the memory with these versions. SPEC 3.3

    `whats`: the label of each version's transaction. A revert is possible where the versions made by `seqs` are the
    last ones. Reverted versions, and the reverts themselves, are ignored here, unless `seqs` names a revert; so is
    what moved a turn between tiers or made a recalled memory active afterwards, unless `seqs` names it.
    """
    mine = [seq for seq, _ in versions if seq in seqs]
    moves = {seq for seq, _ in versions if whats[seq] in (TURN_TIER, RECALL) and seq > min(mine, default=0)}
    versions = [version for version in versions if version[0] in seqs or version[0] not in moves]
    standing = versions
    if not any(undone_seqs(whats[seq]) for seq in mine):
        taken = reverted_seqs((seq, whats[seq]) for seq, _ in reversed(versions))
        standing = [version for version in versions if version[0] not in taken and not undone_seqs(whats[version[0]])]
        if mine and taken.issuperset(mine):
            return RevertEffect(done=True, later=_behind(versions, mine))
        mine = [seq for seq in mine if seq not in taken]
    last = standing[len(standing) - len(mine) :]
    if not mine or [seq for seq, _ in last] != mine:
        return RevertEffect(later=_behind(versions, mine))
    before = standing[: len(standing) - len(mine)]
    return RevertEffect(before[-1][1] if before else None)


def _behind(versions: Sequence[Version], mine: Sequence[int]) -> tuple[int, ...]:
    """The transactions after the first of `mine`."""
    return tuple(seq for seq, _ in versions if seq > min(mine, default=0) and seq not in mine)


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
