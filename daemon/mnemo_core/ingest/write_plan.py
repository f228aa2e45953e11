"""Scores and write decisions for incoming texts: stored, related to similar memories, merged, or discarded. SPEC 2.1,
5.3 to 5.5

Slow work (vectors, scores, neighbours) is done beforehand. The write transaction then decides on the current state of
the store, and leaves out a relation to a memory that has changed since it was compared.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from numpy.typing import NDArray

from mnemo_core.decay import MetaReader, UsageReader, epoch_of, present_usage
from mnemo_core.ingest import mutations, note_sync, policies, trust
from mnemo_core.ingest.attributes.attribute_claims import SEARCHED_CHARS_MAX
from mnemo_core.ingest.changes import ChangeJudge
from mnemo_core.ingest.classification import Classification, Role, classify
from mnemo_core.ingest.deduplication import RELATIONS_MAX, Neighbour, find_relations
from mnemo_core.ingest.mutations import Decision, Draft, MemoryRelation
from mnemo_core.ingest.policies import OWN_POLICY, EntryPoint, Policy
from mnemo_core.ingest.signals.salience import Rarity, Salience, measure_salience, novelty
from mnemo_core.ingest.signals.salience import importance as importance_of
from mnemo_core.similarity.thresholds import JACCARD_ALONE, JACCARD_NEAR, Thresholds, is_similar, text_jaccard
from mnemo_core.text.canonical import difference
from mnemo_core.text.secrets import remove_masks
from mnemo_store.record_texts import content_hash
from mnemo_store.records import (
    Change,
    DropErasedText,
    DropTrash,
    Edge,
    ErasedText,
    Fact,
    Memory,
    NoteFile,
    NoteRoot,
    PutEdge,
    PutErasedText,
    PutFact,
    PutMemory,
    PutMeta,
    PutScore,
    PutTrash,
    PutUsage,
    Relation,
    TrashEntry,
    Usage,
)

Dedup = Literal["guarded", "off", "source"]

# Meta key: the number of the change behind which something was written without a vector, or "".
BACKFILL_CURSOR = "intake_seq"
RECENT_TURN_MS = 86_400_000  # a turn of another session is recent for a day
CHAIN_MAX = 16  # replacements of replacements that are followed
COMPARED_STATES = ("active", "archived")  # states of memories that a similar one is related to
HASHED_STATES = frozenset({"active", "archived", "compressed", "superseded"})  # an equal text is a duplicate of these
LOW_IMPORTANCE = "low_importance"  # discard reason: it scores below the minimum
NEAR_DUPLICATE = "near_duplicate"  # and: it repeats a recent turn
NEW_ID_PREFIX = "#"  # begins the name of an item of the same batch that has no id yet: "#3" is the fourth
IMPORTANCE_WITHOUT_VECTOR = 0.6  # the least that a text scores without a vector, since novelty counts as 1.0
IMPORTANCE_STEP = 0.04  # 0.4 · 0.1: without a vector there is nothing between two of these

SIGNALS = ("entity", "number", "preference", "technical")


class IngestScores(NamedTuple):
    """Scores of a text. `importance` is the score itself, before any floor."""

    importance: float
    novelty: float
    salience: float
    signals: Mapping[str, str]  # by signal, the words that made it


class StatedFact(NamedTuple):
    """A fact that a text states; valid_from (ms) None: from the time of the text on. One that was itself given ("said")
    holds already, whatever day its words name: "closes on", "Sunday"."""

    subject: str
    predicate: str
    object: str
    valid_from: int | None = None
    method: str = "rule"


class IngestItem(NamedTuple):
    """One text to be written, with everything found out about it beforehand. `discard_reason` says why it is discarded,
    "" where it is kept."""

    draft: Draft
    entry_point: EntryPoint = "remember"
    policy: Policy = OWN_POLICY
    name: str = ""  # in its batch: "#3"
    scores: IngestScores | None = None
    why: str = ""  # how it was classified
    relations: tuple[MemoryRelation, ...] = ()
    near_relations: tuple[MemoryRelation, ...] = ()  # all that was near, for `explain`
    discard_reason: str = ""
    takes_text: bool = False  # where near ones are merged: the earlier one gets this text
    is_seen: bool = False  # its vectors were there when it was compared
    is_repeat: bool = False  # a copy of the text is stored; nothing else was found out about it
    said_at: int | None = None  # ms; None: now
    is_explained: bool = True  # whether the reasons of related memories may be asked for
    is_extracted: bool = False  # its statements are extracted once it is stored
    dedup: Dedup | None = None  # of the request, for its statements
    facts: tuple[StatedFact, ...] = ()  # that it states

    @property
    def may_be_copy(self) -> bool:
        """Return whether an equal text in its scope makes it a duplicate, whatever else will be found out about it."""
        draft = self.draft
        may_be_event = draft.event_at is not None and draft.turn is None and not draft.derived_from
        return not draft.key and self.policy.on_equal != "stored" and not self.discard_reason and not may_be_event

    @property
    def happened_at(self) -> int | None:
        """The time (ms) that was given for the event that the text describes; None for no event, or no such time."""
        draft = self.draft
        is_given = draft.event_at is not None and draft.event_at == self.said_at and draft.event_at != draft.created_at
        is_event = draft.kind == "episodic" and draft.turn is None and not draft.derived_from
        return draft.event_at if is_given and is_event else None


class WriteSnapshot(UsageReader, trust.MemoryReader, Protocol):
    """Read access to the store that write decisions need."""

    @property
    def now(self) -> int: ...
    def trash(self, memory_id: str) -> TrashEntry | None: ...
    def ids_by_hash(self, namespace: str, user: str, agent: str, run: str, digest: bytes) -> list[str]: ...
    def id_by_key(self, namespace: str, user: str, key: str) -> str | None: ...
    def forgotten(self, digest: str) -> ErasedText | None: ...
    def note(self, file_id: str) -> NoteFile | None: ...
    def roots(self) -> list[NoteRoot]: ...
    def edges(self, memory_id: str) -> list[Edge]: ...
    def facts(self, memory_id: str) -> list[Fact]: ...


class PendingSnapshot:
    """The store as it will be after the changes of a transaction, so that later items of a batch see earlier ones."""

    def __init__(self, store: WriteSnapshot) -> None:
        self._store = store
        self.now = store.now
        self.changes: list[Change] = []
        self._memories: dict[str, Memory] = {}
        self._usages: dict[str, Usage] = {}
        self._trash: dict[str, TrashEntry | None] = {}
        self._forgotten: dict[str, ErasedText | None] = {}
        self._metas: dict[str, str] = {}
        self._notes: dict[str, NoteFile | None] = {}
        self._hashes: dict[tuple[str, str, str, str, bytes], list[str]] = {}
        self._keys: dict[tuple[str, str, str], str] = {}
        self._facts: dict[str, list[Fact]] = {}

    def apply(self, changes: Sequence[Change]) -> None:
        """Add changes. Those that ingestion makes are tracked, others only passed on."""
        for given in changes:
            change = self._numbered(given) if isinstance(given, PutMemory) else given
            self.changes.append(change)
            match change:
                case PutMemory(data=memory):
                    self._memories[memory.id] = memory
                    scope = (memory.namespace, memory.user_id, memory.agent_id, memory.run_id)
                    self._hashes.setdefault((*scope, content_hash(memory.content)), []).append(memory.id)
                    if memory.key:
                        self._keys[memory.namespace, memory.user_id, memory.key] = memory.id
                case PutScore(id=memory_id, importance=importance):
                    if (scored := self.memory(memory_id)) is not None:
                        self._memories[memory_id] = msgspec.structs.replace(scored, importance=importance)
                case PutUsage(data=usage):
                    self._usages[usage.id] = usage
                case PutTrash(data=entry):
                    self._trash[entry.id] = entry
                case DropTrash(id=memory_id):
                    self._trash[memory_id] = None
                case PutErasedText(data=forgotten):
                    self._forgotten[forgotten.hash] = forgotten
                case DropErasedText(hash=digest):
                    self._forgotten[digest] = None
                case PutMeta(name=name, value=value):
                    self._metas[name] = value
                case PutFact(data=fact):
                    self._facts.setdefault(fact.memory, []).append(fact)
                case _:
                    pass

    def _numbered(self, change: PutMemory) -> PutMemory:
        """The change with the number of the store's next version: a transaction makes at most one version of a
        memory."""
        before = self._store.memory(change.data.id)
        version = 1 if before is None else before.version + 1
        if change.data.version <= version:
            return change
        return PutMemory(data=msgspec.structs.replace(change.data, version=version))

    def meta(self, name: str) -> str:
        return self._metas[name] if name in self._metas else self._store.meta(name)

    def memory(self, memory_id: str) -> Memory | None:
        return self._memories.get(memory_id) or self._store.memory(memory_id)

    def usage(self, memory_id: str) -> Usage | None:
        return self._usages.get(memory_id) or self._store.usage(memory_id)

    def trash(self, memory_id: str) -> TrashEntry | None:
        return self._trash[memory_id] if memory_id in self._trash else self._store.trash(memory_id)

    def ids_by_hash(self, namespace: str, user: str, agent: str, run: str, digest: bytes) -> list[str]:
        made = self._hashes.get((namespace, user, agent, run, digest), ())
        ids = dict.fromkeys((*self._store.ids_by_hash(namespace, user, agent, run, digest), *made))
        return [memory_id for memory_id in ids if self._still_says(memory_id, digest)]

    def _still_says(self, memory_id: str, digest: bytes) -> bool:
        memory = self._memories.get(memory_id)
        return memory is None or (memory.state in HASHED_STATES and content_hash(memory.content) == digest)

    def id_by_key(self, namespace: str, user: str, key: str) -> str | None:
        return self._keys.get((namespace, user, key)) or self._store.id_by_key(namespace, user, key)

    def forgotten(self, digest: str) -> ErasedText | None:
        return self._forgotten[digest] if digest in self._forgotten else self._store.forgotten(digest)

    def note(self, file_id: str) -> NoteFile | None:
        if file_id not in self._notes:  # a long one takes milliseconds to read, and is asked for by each of its chunks
            self._notes[file_id] = self._store.note(file_id)
        return self._notes[file_id]

    def roots(self) -> list[NoteRoot]:
        return self._store.roots()

    def edges(self, memory_id: str) -> list[Edge]:
        made = [change.data for change in self.changes if isinstance(change, PutEdge)]
        return [*self._store.edges(memory_id), *(edge for edge in made if memory_id in (edge.source, edge.target))]

    def facts(self, memory_id: str) -> list[Fact]:
        return [*self._store.facts(memory_id), *self._facts.get(memory_id, ())]


# Before the write transaction


def score(
    content: str, policy: Policy, vectors: NDArray[Any] | None, centroid: NDArray[Any] | None,
    found: Salience | None = None,
) -> IngestScores:  # fmt: skip
    """0.6 novelty + 0.4 salience; without a vector novelty counts as 1.0. `found`: the salience, where it is known."""
    found = found or salience_of(content, policy)
    new = novelty(vectors, centroid)
    signals = {name: words for name in SIGNALS if (words := getattr(found, name))}
    return IngestScores(importance_of(new, found.value), new, found.value, signals)


def salience_of(content: str, policy: Policy, rarity: Rarity | None = None) -> Salience:
    """Salience of the text by the signals of the policy. Masks of secrets count for nothing."""
    content = remove_masks(content)
    if policy.salience == "L":
        return Salience(policies.salience_source_l(content, rarity), "", "", "", "")
    return measure_salience(content, rarity)


def classify_draft(draft: Draft, entry_point: EntryPoint, policy: Policy, role: Role = "") -> Classification:
    """Kind, form and category: the caller's word, and where there is none, by rule. SPEC 5.4"""
    return classify(
        draft.content, session_id=draft.session_id, tags=draft.tags, kind=draft.kind, category=draft.category,
        role=role, from_note=entry_point == "note", has_evidence=bool(draft.evidence),
        has_trace=draft.trace is not None, policy=policy,
    )  # fmt: skip


def apply_scores(
    item: IngestItem, found: Classification, scores: IngestScores | None, event_at: int | None
) -> IngestItem:
    """Return the item with its classification and importance; values given by the caller are kept. SPEC 5.3, 5.4

    An item scored too low at an entry point that may discard is discarded.
    """
    draft, policy, entry_point = item.draft, item.policy, item.entry_point
    given = draft.importance
    fields: dict[str, Any] = {"kind": found.kind, "category": found.category, "form": draft.form or found.form}
    if draft.event_at is None and event_at is not None:
        fields["event_at"] = event_at
    discarded = item.discard_reason
    if given is None and scores is not None and entry_point in policy.scored:
        settled = policies.final_importance(policy, entry_point, scores.importance)
        fields |= {"importance": settled, "importance_source": "rule"}
        if not discarded and policies.is_discarded(policy, entry_point, scores.importance, given):
            discarded = LOW_IMPORTANCE
    elif given is None:
        default = policies.default_importance(policy, entry_point, found.kind, draft.tags)
        fields |= {"importance": default, "importance_source": "rule"}
    return item._replace(draft=draft._replace(**fields), scores=scores, why=found.why, discard_reason=discarded)


def policy_for(policy: Policy, dedup: Dedup | None) -> Policy:
    """The policy with the deduplication mode of a request. SPEC 5.5"""
    letter = policies.POLICIES["G"]
    match dedup:
        case None:
            return policy
        case "guarded":
            own = OWN_POLICY
            return policy._replace(on_similar=own.on_similar, on_equal=own.on_equal, is_guarded=own.is_guarded)
        case "off":
            return policy._replace(on_similar="stored", on_equal="stored")
        case "source":
            return policy._replace(
                on_similar=letter.on_similar, on_equal=letter.on_equal, is_guarded=letter.is_guarded,
                thresholds=letter.thresholds, reinforcement=letter.reinforcement,
            )  # fmt: skip


def compare_with_neighbours(
    item: IngestItem, near: Sequence[Neighbour], limits: Thresholds, now: int, judge: ChangeJudge | None = None
) -> IngestItem:
    """Return the item with its relations to similar memories, or discarded where a recent turn said the same. SPEC 5.5,
    5.7, 5.8"""
    policy, content = item.policy, item.draft.content
    near = [] if item.discard_reason else [each for each in near if _is_worth_comparing(content, each, limits)]
    if not near:
        return item
    if item.entry_point == "turn" and policy.filters_turns:
        again = next(
            (each for each in near if _is_of_scope(each.memory, item) and _is_said_again(item, each, limits, now)), None
        )
        if again is not None:
            return item._replace(
                discard_reason=NEAR_DUPLICATE, relations=(_relation_to(again, "repeats", "said in a recent turn"),)
            )
    match policy.on_similar:
        case "stored":
            return item
        case "merged":
            # By source G's rules. [G 2.1, G5, G6]
            near = [each for each in near if is_similar(content, each.memory.content, each.sim, limits)]
            if not near:
                return item
            best = near[0]
            is_other_text = text_jaccard(content, best.memory.content) < JACCARD_ALONE
            takes_text = best.sim is not None and best.sim >= limits.insert_merge and is_other_text
            relations = tuple(_relation_to(each, "repeats", "near") for each in near)
            return item._replace(relations=relations, near_relations=relations, takes_text=takes_text)
        case "linked":
            said_at = now if item.said_at is None else item.said_at
            found_relations = find_relations(
                content, item.draft.speaker, said_at, near, limits, item.is_explained, item.happened_at, judge
            )
            # What is of another scope, an agent's of its own, is only ever corrected.
            own = {each.memory.id for each in near if _is_of_scope(each.memory, item)}
            found_relations = [
                found for found in found_relations
                if found.id in own or found.relation == "updates" or found.is_same_slot
            ]  # fmt: skip
            named = {found.id for found in found_relations}
            rest = [_relation_to(each, "related", "others are nearer") for each in near
                    if each.memory.id in own - named and each.sim is not None and each.sim >= limits.near]  # fmt: skip
            return item._replace(relations=tuple(found_relations), near_relations=(*found_relations, *rest))


def _is_of_scope(memory: Memory, item: IngestItem) -> bool:
    """Return whether the memory is of the same user, agent and run, as far as the policy compares them."""
    return all(getattr(memory, name) == getattr(item.draft, name) for name in item.policy.compared)


def _is_worth_comparing(content: str, near: Neighbour, limits: Thresholds) -> bool:
    """Return whether a comparison is worthwhile, which takes a millisecond or more."""
    other = near.memory.content
    if (near.sim is not None and near.sim >= limits.near) or max(len(content), len(other)) <= SEARCHED_CHARS_MAX:
        return True
    one, two = (frozenset(text.casefold().split()) for text in (content, other))
    return len(one & two) > JACCARD_NEAR * len(one | two)


def _is_said_again(item: IngestItem, near: Neighbour, limits: Thresholds, now: int) -> bool:
    """Return whether a recent turn said the same, with no specific that differs. SPEC 5.7 [T2]"""
    memory = near.memory
    if near.sim is None or near.sim < limits.turn_repeat or memory.turn is None:
        return False
    is_recent = memory.session_id == item.draft.session_id or now - memory.created_at < RECENT_TURN_MS
    return is_recent and (not item.policy.is_guarded or difference(item.draft.content, memory.content) is None)


def _relation_to(near: Neighbour, relation: Relation, why: str) -> MemoryRelation:
    return MemoryRelation(near.memory.id, near.memory.version, relation, near.sim, why)


# In the write transaction


def discard(item: IngestItem, memory_id: str, store: WriteSnapshot, made: Mapping[str, str]) -> Decision:
    """Write the item as discarded: out of the indexes, kept for 30 days with the reason, restorable. SPEC 2.1"""
    stored = mutations.store_new(item.draft, memory_id, store.now, epoch_of(store))
    memory = msgspec.structs.replace(stored.memory, state="discarded")
    entry = TrashEntry(id=memory_id, at=store.now, why=item.discard_reason, state="active")
    others = [(found, _as_compared(found, store, made)) for found in item.relations]
    repeated = [(found, other) for found, other in others if other is not None]
    changes = [PutMemory(data=memory), *stored.changes[1:], PutTrash(data=entry)]
    changes += [
        PutUsage(data=mutations.count_repetition(present_usage(other, store), store.now)) for _, other in repeated[:1]
    ]
    kept = tuple(found._replace(id=other.id) for found, other in repeated)
    return Decision("discarded", memory, tuple(changes), kept, item.discard_reason)


def relate(
    decision: Decision, relations: Sequence[MemoryRelation], store: WriteSnapshot, made: Mapping[str, str]
) -> Decision:
    """Return the decision with edges to the similar memories that have not changed since they were compared. SPEC 5.5

    The first memory that it repeats gets a repetition. `made`: the ids of items written earlier in the batch.
    """
    changes, kept = list(decision.changes), list[MemoryRelation]()
    for found in relations[:RELATIONS_MAX]:
        other = _as_compared(found, store, made)
        if other is None or other.id == decision.memory.id:
            continue
        found = found._replace(relation=trust.allowed_relation(other, found.relation, decision.memory.trust))
        edge = Edge(
            source=decision.memory.id, target=other.id, relation=found.relation, at=store.now, slot=found.is_same_slot
        )
        changes.append(PutEdge(data=edge))
        if found.relation == "repeats" and not any(each.relation == "repeats" for each in kept):
            changes.append(PutUsage(data=mutations.record_repetition(present_usage(other, store), store.now)))
        kept.append(found._replace(id=other.id))
    repeats = decision.outcome == "stored" and any(found.relation == "repeats" for found in kept)
    return decision._replace(
        outcome="repeats" if repeats else decision.outcome, changes=tuple(changes), relations=tuple(kept)
    )


def merge_into_neighbour(item: IngestItem, store: WriteSnapshot, made: Mapping[str, str]) -> Decision | None:
    """Merge into a similar memory by source G's rules: the item is not stored; the earlier memory is reinforced, and
    takes the longer text, until a language model has written one of both (`InsertMerger`). None where no neighbour
    qualifies any more."""
    for found in item.relations:
        earlier = _as_compared(found, store, made)
        if earlier is None:
            continue
        usage = mutations.count_repetition(present_usage(earlier, store), store.now)
        strength = min(1.0, usage.strength + item.policy.reinforcement)
        changes: list[Change] = [PutUsage(data=msgspec.structs.replace(usage, strength=strength))]
        texts: tuple[str, ...] = ()
        if item.takes_text and not earlier.managed and not earlier.pinned:
            texts = (earlier.content, item.draft.content)
            if len(texts[1]) > len(texts[0]):
                fields = {"content": item.draft.content, "trust": item.draft.trust}
                earlier = mutations.new_version(earlier, store.now, fields)
                changes.append(PutMemory(data=earlier))
        return Decision("merged", earlier, tuple(changes), (found._replace(id=earlier.id),), merged_texts=texts)
    return None


def is_outdated(memory: Memory, said_at: int | None, store: WriteSnapshot) -> bool:
    """Return whether a newer value replaces the memory, said before that time (None: now).

    A text that repeats the old words after it is a return to the old value, not a repetition. SPEC 5.5 The same holds
    for a memory that is hidden behind a summary of its session: what is said again is found again.
    """
    newer = [edge.source for edge in store.edges(memory.id) if edge.relation == "updates" and edge.target == memory.id]
    # A compressed memory may be replaced by one with the same words, which is no newer value.
    same = store.memory(memory.superseded_by) if memory.superseded_by and memory.state == "compressed" else None
    if memory.superseded_by and (same is None or content_hash(same.content) != content_hash(memory.content)):
        newer.append(memory.superseded_by)
    before = store.now if said_at is None else said_at
    known = (store.memory(memory_id) for memory_id in newer)
    return any(
        each is not None and min(each.event_at, each.created_at) < before and _stands(each, store) for each in known
    )


def is_perhaps_outdated(memory_id: str, store: WriteSnapshot) -> bool:
    """Return whether a memory that is shown perhaps says a newer value of what this one says. SPEC 5.8"""
    newer = (edge.source for edge in store.edges(memory_id) if edge.slot and edge.target == memory_id)
    return any(each is not None and _stands(each, store) for each in map(store.memory, newer))


def _stands(memory: Memory, store: WriteSnapshot) -> bool:
    """Return whether a memory is shown, or hidden behind one that is: a chain of replacements ends there."""
    replacement: Memory | None = memory
    for _ in range(CHAIN_MAX):
        if replacement is None or replacement.state in COMPARED_STATES:
            break
        replacement = store.memory(replacement.superseded_by) if replacement.superseded_by else None
    return replacement is not None and replacement.state in COMPARED_STATES


def record_duplicate(memory: Memory, policy: Policy, store: WriteSnapshot) -> Decision:
    """Record a repetition of the memory, unless the policy counts none. SPEC 5.5"""
    if policy.on_equal == "skipped":
        return Decision("duplicate", memory, ())
    return Decision(
        "duplicate", memory, (PutUsage(data=mutations.record_repetition(present_usage(memory, store), store.now)),)
    )


# Later, with the vectors


def put_facts(
    memory: Memory, text: str, stated: Iterable[StatedFact], store: WriteSnapshot, new_id: Callable[[], str]
) -> list[Change]:
    """The changes that store what a memory states, without what it states already; none where its text is not `text`,
    in which the facts were found. What a tool says is stated by nobody."""
    digest = content_hash(memory.content)
    if digest != content_hash(text) or memory.trust == "tool":
        return []
    known = [fact for fact in store.facts(memory.id) if fact.content_hash == digest.hex()]
    return new_facts(memory, stated, known, store.now, new_id)


def new_facts(
    memory: Memory, stated: Iterable[StatedFact], known: Iterable[Fact], now: int, new_id: Callable[[], str]
) -> list[Change]:
    """The changes that store what a memory states: each fact once, and none that is known of its text."""
    left = {each[:3]: each for each in reversed([*stated])}  # the first of those that say the same
    for fact in known:
        left.pop((fact.subject, fact.predicate, fact.object), None)
    digest = content_hash(memory.content).hex()

    def begin_of(fact: StatedFact) -> int:
        if fact.valid_from is not None:
            return fact.valid_from
        return min(memory.event_at, now) if fact.method == "said" else memory.event_at

    return [
        PutFact(data=Fact(
            id=new_id(), memory=memory.id, content_hash=digest, created_at=now, subject=each.subject,
            predicate=each.predicate, object=each.object, method=each.method, namespace=memory.namespace,
            user_id=memory.user_id, valid_from=begin_of(each),
        ))
        for each in reversed(left.values())
    ]  # fmt: skip


def first_backfill_cursor(item: IngestItem, decision: Decision, store: WriteSnapshot) -> tuple[Change, ...]:
    """Set the backfill cursor with the first item without a vector, so that a crash loses no comparison."""
    return () if item.is_seen or decision.outcome not in ("stored", "repeats") else start_backfill(store)


def start_backfill(store: MetaReader) -> tuple[Change, ...]:
    """Change that sets the backfill cursor: from here on memories are compared once they have their vectors."""
    return () if store.meta(BACKFILL_CURSOR) else (PutMeta(name=BACKFILL_CURSOR, value=store.meta("seq") or "0"),)


def can_be_backfilled(memory: Memory) -> bool:
    """Return whether the memory came in by an entry point and is unchanged since, but for the tier of a turn."""
    is_unchanged = memory.version == 1 or (memory.turn is not None and memory.modified_at == memory.created_at)
    return is_unchanged and memory.state in COMPARED_STATES and not memory.managed and memory.trust != "import"


def is_chunk(memory: Memory) -> bool:
    """Return whether the memory is a chunk of a note, and is compared."""
    return bool(memory.managed) and memory.trust == "note" and memory.state in COMPARED_STATES


def is_scored_without_vector(memory: Memory) -> bool:
    """Return whether a rule scored the memory without its vector, and it is unchanged since. Novelty then counted as
    1.0, so the score has one of a few values."""
    if not can_be_backfilled(memory) or memory.turn is not None:
        return False
    steps = (memory.importance - IMPORTANCE_WITHOUT_VECTOR) / IMPORTANCE_STEP
    return memory.importance_source == "rule" and steps > -1e-6 and abs(steps - round(steps)) < 1e-6


def backfill(
    memory: Memory, importance: float, relations: Sequence[MemoryRelation], store: WriteSnapshot
) -> Decision | None:
    """Score and relate a memory that was written without its vector and now has it. SPEC 5"""
    now = store.memory(memory.id)
    if now is None or now.version != memory.version or now.state != memory.state:
        return None
    decision = Decision("stored", now, ())
    if is_scored_without_vector(now) and importance != now.importance:
        after = mutations.new_version(now, store.now, {"importance": importance})
        changes = (PutMemory(data=after), *mutations.rescore_strength(now, after, store))
        decision = Decision("stored", after, changes)
    return relate(decision, _without_known(now, relations, store), store, {})


def backfill_chunk(
    memory: Memory, importance: float, relations: Sequence[MemoryRelation], store: WriteSnapshot
) -> Decision | None:
    """Score and relate a chunk of a note that now has its vector. SPEC 5.3, 5.5"""
    now = store.memory(memory.id)
    if now is None or now.content != memory.content or now.state not in COMPARED_STATES:
        return None
    note = store.note(now.managed)
    is_due = note_sync.is_unscored(now) and (note is None or note.importance is None)
    decision = Decision("stored", now, ())
    if is_due and importance != now.importance:
        after = msgspec.structs.replace(now, importance=importance)
        score = PutScore(id=now.id, importance=importance)
        decision = Decision("stored", after, (score, *mutations.rescore_strength(now, after, store)))
    # Never `updates`: a file's time is when it was saved or synced; a vault copied to a new laptop outdates nothing.
    relations = [found._replace(relation="related") if found.relation == "updates" else found for found in relations]
    return relate(decision, _without_known(now, relations, store), store, {})


def _without_known(memory: Memory, relations: Sequence[MemoryRelation], store: WriteSnapshot) -> list[MemoryRelation]:
    """The relations without those to memories it has an edge with: a second pass counts nothing twice, and no link of a
    note is lost."""
    edges = store.edges(memory.id)
    others = {edge.target if edge.source == memory.id else edge.source for edge in edges if not edge.via}
    linked = {(edge.target, edge.relation) for edge in edges if edge.via}
    return [found for found in relations if found.id not in others and (found.id, found.relation) not in linked]


def _as_compared(found: MemoryRelation, store: WriteSnapshot, made: Mapping[str, str]) -> Memory | None:
    """The memory of a relation, None where it changed since the comparison."""
    if found.id.startswith(NEW_ID_PREFIX) and found.id not in made:
        return None
    other = store.memory(made.get(found.id, found.id))
    if other is None or other.state not in COMPARED_STATES:
        return None
    return other if found.id in made or other.version == found.version else None
