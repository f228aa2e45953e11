"""Rules that no step of a cycle may break, whatever it or a language model decides. SPEC 9.4, 17"""

from mnemo_core.llm.judging.memory_cues import NEVER_CORE_TAGS, NEVER_CORE_TRUSTS
from mnemo_store.records import LAYERS, Memory, State

REACHED: dict[State, frozenset[State]] = {
    "active": frozenset({"active", "archived", "compressed", "superseded"}),
    "archived": frozenset({"archived", "active"}),
    "compressed": frozenset({"compressed"}),
    "superseded": frozenset({"superseded"}),
    "discarded": frozenset({"discarded"}),
    "trashed": frozenset({"trashed"}),
}
"""The states that a step may bring a memory to, by the state that it has."""


def violation(before: Memory | None, after: Memory) -> str:
    """The rule that a new version of a memory breaks; "" for none. `before` is None for a memory that a step makes."""
    is_never_core = after.kind == "working" or after.trust in NEVER_CORE_TRUSTS or NEVER_CORE_TAGS & {*after.tags}
    if after.layer == "core" and is_never_core and (before is None or before.layer != "core"):
        return "the memory must not enter core"
    if before is None:
        return "" if after.state == "active" else "a new memory is not active"
    if before.managed:
        return "a chunk of a note is its file's"
    if before.pinned and (before.content, before.state) != (after.content, after.state):
        return "the memory is pinned"
    if after.state not in REACHED[before.state]:
        return f"a memory that is {before.state} does not become {after.state}"
    before_at, after_at = LAYERS.index(before.layer), LAYERS.index(after.layer)
    if after_at > before_at + 1:
        return "a layer is skipped"
    if after_at < before_at and (before.layer, after.layer) != ("core", "working"):
        return f"a memory does not go from {before.layer} to {after.layer}"
    if after.version != before.version + 1:
        return "it is not the next version"
    return ""
