"""Trust of the versions of a memory, and what each writer may do to a pinned one. SPEC 2.1, "Trust through changes".

Every write path hands its changes to `authorise` inside its write turn, and writes what comes back. Trust states who
said a text: a change of state (trash, restore, superseded) leaves it as it is, an edit takes the least trust involved.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from mnemo_core.text.languages import FIRST_CJK, WORD
from mnemo_store.record_texts import normalized_text
from mnemo_store.records import TRUSTS, Change, ImportanceSource, Memory, PutMemory, Relation, Trust

OWNER: Trust = "user"  # whose pins only they themselves can change

# Fields that a change of state moves. A version that differs in nothing else says what the one before it said.
_STATE_FIELDS = frozenset({
    "version", "modified_at", "state", "superseded_by", "trust", "importance_source", "layer", "decay_rate", "managed",
})  # fmt: skip

_LONG_WORD = 4  # letters; shorter ones are mostly articles, pronouns and prepositions


class MemoryReader(Protocol):
    """The memories as a write turn sees them."""

    def memory(self, memory_id: str) -> Memory | None: ...


class PinnedError(Exception):
    """A writer below trust user would change a pinned memory, or pin one. `memory_id` is "" for a new memory."""

    def __init__(self, memory_id: str, message: str) -> None:
        super().__init__(message)
        self.memory_id = memory_id


def lowest_trust(first: Trust, *others: Trust) -> Trust:
    """The lowest of these trusts."""
    return max((first, *others), key=TRUSTS.index)


def importance_source(writer: Trust) -> ImportanceSource:
    """The source of an importance that this writer gave: a judgement of a model where an agent gives it, and a rule's
    where it comes out of a tool or an import."""
    match writer:
        case "user":
            return "user"
        case "agent":
            return "llm"
        case _:
            return "rule"


def allowed_relation(other: Memory, found: Relation, writer: Trust) -> Relation:
    """The relation of a writer's text to another memory: nothing but a person's text updates a pinned one."""
    return "related" if found == "updates" and other.pinned and writer != OWNER else found


def is_edited(before: Memory, after: Memory) -> bool:
    """Return whether the version differs in more than its state."""
    return any(
        getattr(before, name) != getattr(after, name) for name in Memory.__struct_fields__ if name not in _STATE_FIELDS
    )


def keeps_text(before: str, after: str) -> bool:
    """Return whether any of the old text stays: a word of four letters or more, one with a digit, or two neighbouring
    characters of a script without spaces. Of a text that has none of these, any word."""
    telling, others = _telling_words(before), _telling_words(after)
    if not telling:
        telling, others = set(WORD.findall(normalized_text(before))), set(WORD.findall(normalized_text(after)))
    return not telling.isdisjoint(others)


def trust_of_version(
    before: Memory | None, after: Memory, writer: Trust, sources: Iterable[Trust] = (), *, put_back: bool = False
) -> Trust:
    """The trust of a version that a writer makes. `before` is the version it replaces, `sources` are the trusts of the
    memories it is derived from or merged of; `put_back` is for a version of the history, which brings its own trust."""
    if before is not None and not is_edited(before, after) and not (put_back and writer == OWNER):
        return before.trust
    if put_back:
        return lowest_trust(writer, after.trust)
    if before is None:
        return lowest_trust(writer, after.trust, *sources)
    stays = (before.trust,) if keeps_text(before.content, after.content) else ()
    return lowest_trust(writer, *stays, *sources)


def authorise(changes: Sequence[Change], store: MemoryReader, writer: Trust, *, put_back: bool = False) -> list[Change]:
    """The changes with the trust and importance source that this writer gives their memories. Raises PinnedError where
    the writer is below trust user and a memory among them is pinned, or would be."""
    return [
        PutMemory(data=_version(store.memory(change.data.id), change.data, store, writer, put_back=put_back))
        if isinstance(change, PutMemory)
        else change
        for change in changes
    ]


def _version(before: Memory | None, after: Memory, store: MemoryReader, writer: Trust, *, put_back: bool) -> Memory:
    _refuse_pinned(before, after, writer)
    found = (store.memory(memory_id) for memory_id in after.derived_from)
    sources = [] if put_back else [memory.trust for memory in found if memory is not None]
    trust = trust_of_version(before, after, writer, sources, put_back=put_back)
    source = after.importance_source
    if source == "user" and writer != OWNER:
        is_same = before is not None and (before.importance, before.importance_source) == (after.importance, source)
        is_kept = is_same and before is not None and keeps_text(before.content, after.content)
        source = "user" if is_kept else importance_source(writer)
    return msgspec.structs.replace(after, trust=trust, importance_source=source)


def _refuse_pinned(before: Memory | None, after: Memory, writer: Trust) -> None:
    if writer == OWNER:
        return
    if before is not None and before.pinned:
        raise PinnedError(
            before.id,
            f"memory {before.id} is pinned: only a person can change, delete or replace it, or unpin it "
            "(mnemo edit ID --unpin)",
        )
    if after.pinned:
        memory_id = "" if before is None else before.id
        raise PinnedError(memory_id, f"only a person can pin a memory{f' ({memory_id})' if memory_id else ''}")


def _telling_words(text: str) -> set[str]:
    words = WORD.findall(normalized_text(text))
    single = {word for word in words if len(word) >= _LONG_WORD or any(letter.isdigit() for letter in word)}
    pairs = {one + two for one, two in itertools.pairwise(words) if _is_cjk(one) and _is_cjk(two)}
    return single | pairs


def _is_cjk(word: str) -> bool:
    return len(word) == 1 and word >= FIRST_CJK and word.isalpha()
