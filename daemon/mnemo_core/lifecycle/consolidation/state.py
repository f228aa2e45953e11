"""The memories as a cycle of consolidation sees them.

Columns of all memories are copied when the cycle starts; records are read one by one. Every change that a step makes is
applied here too, so that the next step sees it, whether the store has it already or, in a dry run, never will.
Memories that others store meanwhile are for the next cycle.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from mnemo_core.decay import REPETITION_FACTOR, UsageReader, epoch_of, initial_usage, strength_at, strengths_at
from mnemo_core.ingest.memory_cues import MemoryFacts
from mnemo_core.ingest.policies import Policy, PolicyOf, own_policy
from mnemo_core.ingest.trust import MemoryReader
from mnemo_core.ingest.write_plan import StatedFact
from mnemo_core.llm.tasks import AnyTask, TaskInputs
from mnemo_core.similarity.thresholds import Thresholds
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_store.record_texts import content_hash, decision_digest
from mnemo_store.records import (
    CATEGORIES,
    KINDS,
    LAYERS,
    STATES,
    TRUSTS,
    Change,
    DropDecision,
    Edge,
    Fact,
    Layer,
    LifecycleAction,
    LifecycleDecision,
    Memory,
    PutDecision,
    PutMemory,
    PutMeta,
    PutUsage,
    Session,
    Usage,
    default_decay_rate,
)

Mask = NDArray[np.bool_]

DAY_MS = 86_400_000

# Columns of the attribute store that a cycle reads. Those of names hold codes.
COLUMNS = (
    "id_high", "id_low", "state", "kind", "category", "layer", "trust", "namespace", "user_id", "session_id", "source",
    "managed", "pinned", "tier", "importance", "created_at", "modified_at", "event_at", "expires_at", "strength",
    "strength_epoch", "last_accessed", "access_count", "repetition_count",
)  # fmt: skip
_CODED: dict[str, tuple[str, ...]] = {
    "state": STATES, "kind": KINDS, "category": CATEGORIES, "layer": LAYERS, "trust": TRUSTS,
}  # fmt: skip
_NAMED = ("namespace", "user_id", "session_id", "source", "managed")
_COPIED = ("importance", "pinned", "created_at", "modified_at", "event_at", "expires_at")
_USED = ("strength", "strength_epoch", "last_accessed", "access_count", "repetition_count")

TRIAGED = "_triaged"  # kept in the buffer by triage, and not judged again
REJECTIONS = ("gate-rejected", "gate-rejected-2", "gate-rejected-final")  # by the gate, each more lasting [G17]
PROMOTION = "promotion"
LAYER_TAGS = frozenset({TRIAGED, *REJECTIONS, PROMOTION})  # that the lifecycle gives, and that hold for a layer alone

# Tags by which steps select memories.
TAGS_READ = (
    "session", "ephemeral", "lesson", "distilled", "auto-distilled", "project-status", SENSITIVE_TAG, TRIAGED,
    *REJECTIONS, PROMOTION,
)  # fmt: skip


Review = Literal["off", "core", "all"]
"""Operations that a person has to approve: none; promotions to core; merges and supersessions too. SPEC 9.7"""


class TopicLeaf(NamedTuple):
    """A leaf of the topic tree. SPEC 10.1"""

    id: str
    namespace: str
    user_id: str
    rows: NDArray[np.int32]


class SimilarRow(NamedTuple):
    """Another memory, by its row, and the cosine of the two."""

    row: int
    similarity: float


class CycleSource(UsageReader, MemoryReader, Protocol):
    """The store and its indexes as a CycleState reads them."""

    def decision(self, memory: str, action: LifecycleAction, other: str) -> LifecycleDecision | None: ...

    def session(self, namespace: str, user_id: str, session_id: str) -> Session | None: ...

    def edges(self, memory_id: str) -> list[Edge]:
        """The edges that have a memory at either end, as they are now."""

    def facts(self, memory_id: str) -> list[Fact]: ...

    def stated_facts(self, memory: Memory) -> Sequence[StatedFact]:
        """The facts that the text of a memory states."""

    def epochs_since(self, at: int) -> int:
        """The number of cycles that started after a time (ms), without the present one."""

    def code(self, column: str, value: str) -> int:
        """The code of a name in a column; -1 where no memory has it."""

    def name(self, column: str, code: int) -> str:
        """The name of a code in a column."""

    def neighbours(self, rows: Sequence[int], within: Mask, at_least: float, limit: int) -> list[list[SimilarRow]]:
        """The nearest others of each row within a mask, the nearest first; none for a row without a vector."""

    def similarity(self, text: str, row: int) -> float | None:
        """The cosine of a new text and a row; None where one of them has no vector."""

    def topics(self) -> Sequence[TopicLeaf]:
        """The leaves of the topic trees as they were at the start, the largest first."""

    def new_id(self) -> str: ...


class CycleOptions(NamedTuple):
    """The parameters of a cycle."""

    now: int  # ms: its start
    namespace: str = ""  # "": all
    merge: bool = False
    review: Review = "off"
    may_ask: Callable[[AnyTask], bool] = lambda _: False  # whether a language model may be asked for a task
    policy: PolicyOf = own_policy


class CycleState:
    """The state. A memory has a row: its number in the columns; those that a step makes are behind the others."""

    def __init__(
        self, source: CycleSource, columns: Mapping[str, NDArray[Any]], tags: Mapping[str, Iterable[int]],
        thresholds: Thresholds, options: CycleOptions,
    ) -> None:  # fmt: skip
        """`columns`: those of COLUMNS, which the state may change. `tags`: the rows that have each of TAGS_READ."""
        self._source = source
        self.edges, self.topics, self.new_id = source.edges, source.topics, source.new_id
        self.stated_facts, self.epochs_since = source.stated_facts, source.epochs_since
        self._columns = dict(columns)
        self._size = len(self._columns["state"])
        self._layers = self._columns["layer"].copy()  # at the start
        self._tags = {tag: set(tags.get(tag, ())) for tag in TAGS_READ}
        self._memories: dict[str, Memory] = {}  # that were changed or made in the cycle
        self._usages: dict[str, Usage] = {}
        self._decisions: dict[tuple[str, str, str], LifecycleDecision | None] = {}
        self._metas: dict[str, str] = {}
        self._read: dict[str, Memory | None] = {}  # by the step that is planned
        self._read_usages: dict[str, Usage | None] = {}
        self._reworded: set[int] = set()  # rows whose text has no known vector
        self._thresholds = thresholds  # of the model in use
        self.options = options
        self.method = "rule"  # by which the last question was answered: "rule" or "llm:MODEL"

    def policy(self, namespace: str) -> Policy:
        """The policy of a namespace."""
        return self.options.policy(namespace)

    def thresholds(self, namespace: str) -> Thresholds:
        """The cosines that count in a namespace."""
        return self.policy(namespace).thresholds_for(self._thresholds)

    # Records

    @property
    def now(self) -> int:
        return self.options.now

    @property
    def epoch(self) -> int:
        """The number of cycles that have ended; this one is counted once its decay is done."""
        return epoch_of(self)

    def meta(self, name: str) -> str:
        return self._metas[name] if name in self._metas else self._source.meta(name)

    def begin_step(self) -> None:
        """Begin a step: it reads every memory once, so that what it plans on can be compared with the store."""
        self._read.clear()
        self._read_usages.clear()

    def memory(self, memory_id: str) -> Memory | None:
        if memory_id not in self._read:
            self._read[memory_id] = self._memories.get(memory_id) or self._source.memory(memory_id)
        return self._read[memory_id]

    def subject(self, memory_ids: Iterable[str]) -> list[Memory]:
        """Those of these memories that exist."""
        return [memory for each in memory_ids if (memory := self.memory(each)) is not None]

    def usage(self, memory: Memory) -> Usage:
        """The usage of a memory; that of one which nobody has used where there is none."""
        if memory.id not in self._read_usages:
            self._read_usages[memory.id] = self._usages.get(memory.id) or self._source.usage(memory.id)
        known = self._read_usages[memory.id]
        return known or initial_usage(memory, self.epoch)

    def session(self, memory: Memory) -> Session | None:
        """The record of the session of a memory."""
        return self._source.session(memory.namespace, memory.user_id, memory.session_id)

    def known_facts(self, memory: Memory) -> list[Fact]:
        """The facts that the present text of a memory states, as far as they are stored."""
        digest = content_hash(memory.content).hex()
        return [fact for fact in self._source.facts(memory.id) if fact.content_hash == digest]

    def decision(self, action: LifecycleAction, *memories: Memory) -> LifecycleDecision | None:
        """The decision on a memory or a pair with the texts that they have now; None: there is none."""
        found = self.last_decision(action, *memories)
        is_current = found is not None and found.digest == decision_digest([each.content for each in memories])
        return found if is_current else None

    def last_decision(self, action: LifecycleAction, *memories: Memory) -> LifecycleDecision | None:
        """The decision on a memory or a pair, whatever their texts were then."""
        return self.decision_at(memories[0].id, action, memories[-1].id)

    def decision_at(self, memory: str, action: LifecycleAction, other: str) -> LifecycleDecision | None:
        """The decision that is kept under these names."""
        key = (memory, action, other)
        return self._decisions[key] if key in self._decisions else self._source.decision(*key)

    def new_proposals(self) -> list[LifecycleDecision]:
        """The proposals that the cycle has made."""
        return [each for each in self._decisions.values() if each is not None and each.status == "proposed"]

    def inputs(self, *memories: Memory) -> TaskInputs:
        """The inputs of a task that judges memories."""
        return TaskInputs(tuple(each.content for each in memories), facts=tuple(map(self.facts, memories)))

    def facts(self, memory: Memory) -> MemoryFacts:
        """The attributes and the usage of a memory that a task judges. A memory that waits to be judged is not less
        important for it, but one whose use has raised its strength is more so."""
        usage = self.usage(memory)
        return MemoryFacts(
            memory.kind, memory.category, memory.layer, memory.trust,
            tuple(tag for tag in memory.tags if tag not in LAYER_TAGS),
            max(memory.importance, strength_at(usage, memory, self.epoch)),
            max(0, self.now - memory.created_at) // DAY_MS,
            usage.access_count, usage.repetition_count, memory.pinned,
        )  # fmt: skip

    # Rows

    def column(self, name: str) -> NDArray[Any]:
        """The values of a column, not to be written to."""
        return self._columns[name][: self._size]

    def has(self, column: str, *values: str) -> Mask:
        """The mask of the memories that have one of these values in a coded column or in one of names."""
        coded = _CODED.get(column)
        codes = [self._source.code(column, each) if coded is None else coded.index(each) for each in values]
        return np.isin(self.column(column), codes)

    def tagged(self, *tags: str) -> Mask:
        """The mask of the memories that have one of these tags, which are among TAGS_READ."""
        mask = np.zeros(self._size, np.bool_)
        for tag in tags:
            mask[list(self._tags[tag])] = True
        return mask

    def follows(self, rule: Callable[[Policy], bool]) -> Mask:
        """The mask of the memories whose namespace has a policy with such a rule."""
        codes = self.column("namespace")
        names = (self._source.name("namespace", code) for code in range(int(codes.max(initial=0)) + 1))
        mask: Mask = np.array([rule(self.policy(name)) for name in names], np.bool_)[codes]
        return mask

    def live(self) -> Mask:
        """The mask of the memories that the lifecycle acts on: active, in the namespace of the cycle and in one that
        has cycles, not expired, no chunk of a note."""
        expires_at = self.column("expires_at")
        mask: Mask = self.has("state", "active") & (self.column("managed") == 0)
        mask &= ((expires_at == 0) | (expires_at > self.now)) & self.follows(lambda policy: policy.has_cycles)
        if self.options.namespace:
            mask &= self.has("namespace", self.options.namespace)
        return mask

    def has_moved(self) -> Mask:
        """The mask of the memories that have another layer than at the start, or were made since."""
        moved_rows = np.ones(self._size, np.bool_)
        moved_rows[: len(self._layers)] = self.column("layer")[: len(self._layers)] != self._layers
        return moved_rows

    def mark_moved(self, memory_ids: Iterable[str]) -> None:
        """Take memories for such as have moved: an earlier run of the same cycle changed them."""
        for memory_id in memory_ids:
            row = self.row(memory_id)
            if row is not None:
                self._layers[row] = len(LAYERS)  # none that a memory has

    def strengths(self) -> NDArray[np.float32]:
        """The strength that each memory has in this epoch."""
        decaying = ("strength", "strength_epoch", "kind", "layer", "pinned")
        strength, strength_epoch, kind, layer, pinned = map(self.column, decaying)
        return strengths_at(strength, strength_epoch, kind, layer, pinned, self.epoch)

    def reinforcements(self) -> NDArray[np.float64]:
        """The reinforcement of each memory: accesses + 2.5 · repetitions. [G11]"""
        counts: NDArray[np.float64] = self.column("access_count") + REPETITION_FACTOR * self.column("repetition_count")
        return counts

    def ids(self, rows: Iterable[int]) -> list[str]:
        """The ids of the memories in these rows."""
        high, low = self._columns["id_high"], self._columns["id_low"]
        return [str(uuid.UUID(int=int(high[row]) << 64 | int(low[row]))) for row in rows]

    def records(self, rows: Iterable[int]) -> list[Memory]:
        """The memories in these rows, as far as they exist."""
        return self.subject(self.ids(rows))

    def row(self, memory_id: str) -> int | None:
        """The row of a memory; None for one that was stored since the start."""
        high, low = _halves(memory_id)
        is_it = (self.column("id_high") == np.uint64(high)) & (self.column("id_low") == np.uint64(low))
        found = np.flatnonzero(is_it)
        return int(found[0]) if len(found) else None

    def name(self, column: str, row: int) -> str:
        """The namespace, user or the like of a row."""
        return self._source.name(column, int(self._columns[column][row]))

    def neighbours(self, rows: Sequence[int], within: Mask, at_least: float, limit: int = 8) -> list[list[SimilarRow]]:
        """The nearest others of each row within a mask, the nearest first. A text that was written in this cycle has
        none, since in a dry run it has no vector."""
        within = within.copy()
        within[list(self._reworded)] = False
        asked = [row for row in rows if row not in self._reworded]
        found = dict(zip(asked, self._source.neighbours(asked, within, at_least, limit), strict=True))
        return [found.get(row, []) for row in rows]

    def similarity(self, text: str, memory: Memory) -> float | None:
        """The cosine of a new text and a memory; None where the memory has no vector of the text that it has."""
        row = self.row(memory.id)
        return None if row is None or row in self._reworded else self._source.similarity(text, row)

    # Changes

    def apply(self, changes: Iterable[Change]) -> None:
        """Take over the changes of a step."""
        for change in changes:
            match change:
                case PutMemory(data=memory):
                    self._put(memory)
                case PutUsage(data=usage):
                    self._usages[usage.id] = self._read_usages[usage.id] = usage
                    if (row := self.row(usage.id)) is not None:
                        for name in _USED:
                            self._columns[name][row] = getattr(usage, name)
                case PutDecision(data=each):
                    self._decisions[each.memory, each.action, each.other] = each
                case DropDecision(memory=one, action=action, other=other):
                    self._decisions[one, action, other] = None
                case PutMeta(name=name, value=value):
                    self._metas[name] = value
                case _:
                    pass

    def refresh(self, memory_ids: Iterable[str]) -> None:
        """Read memories again that were changed or erased by others since the start."""
        for memory_id in memory_ids:
            memory, usage = self._source.memory(memory_id), self._source.usage(memory_id)
            self.apply([PutMemory(data=memory)] if memory is not None else [])
            self.apply([PutUsage(data=usage)] if usage is not None else [])
            if memory is None:
                self._memories.pop(memory_id, None)
                if (row := self.row(memory_id)) is not None:
                    self._columns["state"][row] = STATES.index("trashed")

    def _put(self, memory: Memory) -> None:
        before, row = self.memory(memory.id), self.row(memory.id)
        self._memories[memory.id] = self._read[memory.id] = memory
        if row is None:
            row, self._size = self._size, self._size + 1
            for name, column in self._columns.items():
                if len(column) < self._size:
                    self._columns[name] = np.concatenate([column, np.zeros(max(64, len(column) // 8), column.dtype)])
                self._columns[name][row] = 0
            self._columns["id_high"][row], self._columns["id_low"][row] = _halves(memory.id)
        if before is None or before.content != memory.content:
            self._reworded.add(row)
        for name, values in _CODED.items():
            self._columns[name][row] = values.index(getattr(memory, name))
        for name in _NAMED:
            self._columns[name][row] = self._source.code(name, getattr(memory, name))
        for name in _COPIED:
            self._columns[name][row] = getattr(memory, name)
        for tag, rows in self._tags.items():
            (rows.add if tag in memory.tags else rows.discard)(row)


def _halves(memory_id: str) -> tuple[int, int]:
    """The halves of an id, as the columns have them."""
    return divmod(uuid.UUID(memory_id).int, 1 << 64)


def moved(memory: Memory, layer: Layer) -> Memory:
    """The version of a memory in another layer, without the tags that hold for its layer alone. It keeps the time of
    its last change, since its content is the same."""
    is_usual = memory.decay_rate == default_decay_rate(memory.layer, memory.kind)
    rate = default_decay_rate(layer, memory.kind) if is_usual else memory.decay_rate
    tags = tuple(tag for tag in memory.tags if tag not in LAYER_TAGS)
    return replace(memory, version=memory.version + 1, layer=layer, decay_rate=rate, tags=tags)


def retagged(memory: Memory, tags: tuple[str, ...]) -> Memory:
    """The version of a memory with other tags, which keeps the time of its last change."""
    return replace(memory, version=memory.version + 1, tags=tags)
