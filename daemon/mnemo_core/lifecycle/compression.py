"""Compression of old conversations: which sessions, which of their memories, and the summary in their place. SPEC 9.6
[L 3]

Only what a conversation left behind is compressed: active episodic memories below the layer core, of sessions that are
over. What a person pinned, what a note holds, what is sensitive, and what other rules find by its tag stays as it is.
"""

from collections.abc import Iterable, Sequence

from mnemo_core.ingest.mutations import has_expired, new_version
from mnemo_core.ingest.trust import OWNER, lowest_trust
from mnemo_core.text.languages import sentences
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_store.records import (
    LAYERS,
    SUMMARY_SOURCE,
    TAGS_MAX,
    Category,
    ImportanceSource,
    Layer,
    Memory,
    Trust,
    default_decay_rate,
)

MEMORIES_MAX = 400  # that one summary stands for: with it and its facts, they are one write turn [SPEC 3.2]
CHARACTERS_MAX = 100_000  # of these together
# Whoever looks for these finds them by the tag, and would miss them.
KEPT_TAGS = frozenset({"lesson", "session", "ephemeral", SENSITIVE_TAG})
KEPT_TAG_PREFIXES = ("trigger:",)
SAYING_NOTHING: tuple[Category, ...] = ("crumb", "request")
HIDDEN_LAYERS: tuple[Layer, ...] = ("buffer", "working")  # what is in core is there to be seen
_LIFECYCLE_TAG = "_"  # the first character of tags that note where a memory stands in the lifecycle


def sessions_due(sessions: int, threshold: int) -> int:
    """Return how many sessions are compressed: none up to the threshold, above it half as many as the threshold, and at
    least one. [L25, L26]"""
    return max(1, threshold // 2) if sessions > threshold else 0


def may_be_hidden(memory: Memory, now: int) -> bool:
    """Return whether a memory may be hidden behind another that repeats it."""
    return not (
        memory.state != "active"
        or memory.pinned
        or memory.managed
        or memory.layer not in HIDDEN_LAYERS
        or has_expired(memory, now)
        or any(tag in KEPT_TAGS or tag.startswith(KEPT_TAG_PREFIXES) for tag in memory.tags)
    )


def is_compressible(memory: Memory, now: int) -> bool:
    """Return whether a summary of its session may take the place of a memory. Small talk and requests state nothing."""
    is_said = memory.kind == "episodic" and memory.session_id != "" and memory.category not in SAYING_NOTHING
    return is_said and may_be_hidden(memory, now)


def attributed_texts(memories: Sequence[Memory]) -> list[str]:
    """The texts of a session, each sentence with who said it where several speak."""
    speakers = [
        each.speaker or ("assistant" if each.turn and each.turn.role == "agent" else "user") for each in memories
    ]
    if len(set(speakers)) == 1:
        return [each.content for each in memories]
    return [" ".join(f"{speaker}: {sentence}" for sentence in sentences(each.content))
            for speaker, each in zip(speakers, memories, strict=True)]  # fmt: skip


def first_part(memories: Iterable[Memory]) -> list[Memory]:
    """The first memories of a session in the order of time, as many as one summary stands for."""
    chosen: list[Memory] = []
    room = CHARACTERS_MAX
    for memory in sorted(memories, key=lambda memory: (memory.event_at, memory.id)):
        room -= len(memory.content)
        if chosen and (room < 0 or len(chosen) == MEMORIES_MAX):
            break
        chosen.append(memory)
    return chosen


def compress_session(
    memories: Sequence[Memory], text: str, method: str, summary_id: str, now: int, writer: Trust
) -> tuple[Memory, tuple[Memory, ...]]:
    """Put a summary in the place of memories of one session, given in the order of time; return it, and their next
    versions."""
    first = memories[0]
    importance, source = combined_importance(memories, writer)
    layer = max((memory.layer for memory in memories), key=LAYERS.index)
    summary = Memory(
        id=summary_id, content=text, created_at=now, modified_at=now, event_at=max(each.event_at for each in memories),
        layer=layer, importance=importance, importance_source=source, decay_rate=default_decay_rate(layer, "semantic"),
        speaker=common([each.speaker for each in memories]), trust=lowest_trust(writer, *(e.trust for e in memories)),
        method=method, source=SUMMARY_SOURCE, tags=united_tags(memories), namespace=first.namespace,
        user_id=first.user_id, agent_id=common([each.agent_id for each in memories]),
        run_id=common([each.run_id for each in memories]), session_id=first.session_id,
        derived_from=tuple(each.id for each in memories), compression_source=True, source_session_id=first.session_id,
    )  # fmt: skip
    return summary, tuple(hidden_by(each, summary_id, now) for each in memories)


def hidden_by(memory: Memory, replacement: str, now: int) -> Memory:
    """The memory as its next version, compressed: hidden while its replacement stands."""
    return new_version(memory, now, {"state": "compressed", "superseded_by": replacement})


def combined_importance(memories: Sequence[Memory], writer: Trust) -> tuple[float, ImportanceSource]:
    """The greatest importance of some memories, and who gave it; a person did only where a person writes this."""
    top = max(memories, key=lambda memory: (memory.importance, memory.importance_source == "user"))
    source = "rule" if top.importance_source == "user" and writer != OWNER else top.importance_source
    return top.importance, source


def first_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The first of these tags, each once, as many as a memory may have. `sensitive` is never left out for others."""
    found = dict.fromkeys(tags)
    if len(found) > TAGS_MAX and SENSITIVE_TAG in found:
        found = dict.fromkeys((SENSITIVE_TAG, *found))
    return tuple(found)[:TAGS_MAX]


def united_tags(memories: Iterable[Memory]) -> tuple[str, ...]:
    """The tags of some memories, each once and as many as one may have, without those of the lifecycle."""
    return first_tags(tag for memory in memories for tag in memory.tags if not tag.startswith(_LIFECYCLE_TAG))


def common(values: Sequence[str]) -> str:
    """The value that all have; "" where they differ."""
    return values[0] if len(set(values)) == 1 else ""
