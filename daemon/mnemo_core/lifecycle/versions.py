"""What a memory was at another time, what became of it in between, and which of its changes still stand. SPEC 3.3.

A memory's versions are given oldest first, each with the seq of the transaction that made it. A transaction that took
others back says so in what it is called: `undo:3,4`. It can be taken back itself.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from mnemo_store.records import Memory

UNDO = "undo:"

Version = tuple[int, Memory]  # seq, and what the memory became by it
ChangeKind = Literal["added", "restored", "changed", "trashed"]

_COUNTED = frozenset({"version", "modified_at"})  # differ between any two versions, and say nothing


def version_at(versions: Sequence[Version], seq: int) -> Memory | None:
    """What the memory was after the transaction of that seq; None where it was not yet there."""
    return next((memory for made_by, memory in reversed(versions) if made_by <= seq), None)


def is_present(memory: Memory | None) -> bool:
    """Whether it is a memory, and not in the trash."""
    return memory is not None and memory.state != "trashed"


def changed_fields(before: Memory, after: Memory) -> tuple[str, ...]:
    """The fields in which two versions differ, in their order, but for those that count the versions."""
    return tuple(
        field
        for field in after.__struct_fields__
        if field not in _COUNTED and getattr(before, field) != getattr(after, field)
    )


def change_kind(before: Memory | None, after: Memory | None) -> ChangeKind | None:
    """What happened to a memory between two moments, as far as one who looks at both can tell; None for nothing.

    What came and went in between, or was edited and edited back, is nothing.
    """
    if not is_present(after):
        return "trashed" if after is not None and is_present(before) else None
    if not is_present(before):
        return "added" if before is None else "restored"
    assert before is not None
    assert after is not None
    return "changed" if changed_fields(before, after) else None


# Taking back


def undo_label(seqs: Iterable[int]) -> str:
    """What a transaction is called that takes these back."""
    return UNDO + ",".join(map(str, seqs))


def undone_seqs(what: str) -> frozenset[int]:
    """The seqs that a transaction so called takes back; none where it is no undo."""
    return frozenset(map(int, what.removeprefix(UNDO).split(","))) if what.startswith(UNDO) else frozenset()


def reverted_seqs(newest_first: Iterable[tuple[int, str]]) -> set[int]:
    """Of transactions, given by seq and what they are called, those that were taken back and stayed so."""
    taken: set[int] = set()
    for seq, what in newest_first:
        if seq not in taken:
            taken |= undone_seqs(what)
    return taken


class RevertEffect(NamedTuple):
    """What taking transactions back means for one memory.

    `done`: that has happened already. `later`: the seqs of what came after, for which nothing can be taken back. Else
    `before` is what it is to be again, None where it was not there.
    """

    before: Memory | None = None
    later: tuple[int, ...] = ()
    done: bool = False


def revert_effect(versions: Sequence[Version], whats: Mapping[int, str], seqs: Collection[int]) -> RevertEffect:
    """What taking back the transactions of `seqs` means for the memory of these versions. SPEC 3.3

    `whats`: what the transaction of each version is called. It can be put back where the versions that they made are
    the last ones; for that, what was taken back, and the taking back itself, counts as if it had never been. Only who
    takes back an undo sees the versions as they came.
    """
    mine = [seq for seq, _ in versions if seq in seqs]
    standing = list(versions)
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
    """What was made behind the first of these."""
    return tuple(seq for seq, _ in versions if seq > min(mine, default=0) and seq not in mine)
