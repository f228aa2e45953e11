"""Results in the store for an ingested text. SPEC 2.1, 5.3, 5.5, 5.7"""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from mnemo_core.ingest import mutations, trust, write_plan
from mnemo_core.ingest.classification import Classification
from mnemo_core.ingest.mutations import Draft, MemoryRelation
from mnemo_core.ingest.policies import OWN_POLICY, POLICIES
from mnemo_core.ingest.write_plan import IngestItem, IngestScores, PendingSnapshot
from mnemo_store.record_texts import content_hash
from mnemo_store.records import (
    Change,
    Edge,
    ErasedText,
    Fact,
    Memory,
    NoteFile,
    NoteRoot,
    PutEdge,
    PutMemory,
    PutMeta,
    PutScore,
    PutTrash,
    PutUsage,
    TrashEntry,
    Trust,
    Usage,
)
from tests.support.samples import sample_id, sample_memory

NOW = 5_000
ID = sample_id(9)
DRAFT = Draft(content="Tea at five.", namespace="default", user_id="local", trust="user", source="api")
ROUTE = Classification("episodic", None, "fact", "no rule holds")


class MemoryShelf:
    """A store of a few memories."""

    now = NOW

    def __init__(self, *memories: Memory, tied: Sequence[Edge] = ()) -> None:
        self.tied = tied
        self.memories = {memory.id: memory for memory in memories}

    def meta(self, name: str) -> str:
        return {"seq": "7"}.get(name, "")

    def memory(self, memory_id: str) -> Memory | None:
        return self.memories.get(memory_id)

    def usage(self, memory_id: str) -> Usage | None:
        memory = self.memories.get(memory_id)
        return Usage(id=memory_id, strength=memory.importance) if memory is not None else None

    def trash(self, memory_id: str) -> TrashEntry | None:
        return None

    def ids_by_hash(self, namespace: str, user: str, agent: str, run: str, digest: bytes) -> list[str]:
        return []

    def id_by_key(self, namespace: str, user: str, key: str) -> str | None:
        return None

    def forgotten(self, digest: str) -> ErasedText | None:
        return None

    def note(self, file_id: str) -> NoteFile | None:
        return None

    def roots(self) -> list[NoteRoot]:
        return []

    def facts(self, memory_id: str) -> list[Fact]:
        return []

    def edges(self, memory_id: str) -> list[Edge]:
        return [edge for edge in self.tied if memory_id in (edge.source, edge.target)]


def tie(number: int, relation: Any = "related", version: int = 1) -> MemoryRelation:
    return MemoryRelation(sample_id(number), version, relation, 0.9, "near")


def edges(changes: tuple[Change, ...]) -> list[tuple[str, str]]:
    return [(change.data.target, change.data.relation) for change in changes if isinstance(change, PutEdge)]


def repetitions(changes: tuple[Change, ...]) -> dict[str, int]:
    return {change.data.id: change.data.repetition_count for change in changes if isinstance(change, PutUsage)}


# Importance


def scored(importance: float) -> IngestScores:
    return IngestScores(importance, 0.5, 0.0, {})


@pytest.mark.parametrize(
    ("entry_point", "score", "importance", "discarded"),
    [
        ("remember", 0.2, 0.5, ""),
        ("remember", 0.8, 0.8, ""),
        ("ingest", 0.8, 0.8, ""),
        ("ingest", 0.3, 0.3, ""),
        ("ingest", 0.29, 0.29, "low_importance"),
        ("turn", 0.9, 0.5, ""),
        ("turn", 0.1, 0.5, ""),
    ],
)
def test_L14_a_score_under_three_tenths_discards_at_the_entry_point_of_texts_alone(
    entry_point: Any, score: float, importance: float, discarded: str
) -> None:
    item = write_plan.apply_scores(IngestItem(DRAFT, entry_point), ROUTE, scored(score), None)
    assert (item.draft.importance, item.draft.importance_source) == (importance, "rule")
    assert item.discard_reason == discarded


def test_an_importance_that_the_caller_gives_wins_and_keeps_the_text() -> None:
    item = write_plan.apply_scores(IngestItem(DRAFT._replace(importance=0.1), "ingest"), ROUTE, scored(0.05), None)
    assert (item.draft.importance, item.draft.importance_source, item.discard_reason) == (0.1, "user", "")


def test_values_given_by_the_caller_are_not_overruled() -> None:
    draft = DRAFT._replace(kind="procedural", form="step", category="project", event_at=3)
    item = write_plan.apply_scores(IngestItem(draft), Classification("procedural", None, "project", ""), None, 99)
    assert (item.draft.kind, item.draft.form, item.draft.category, item.draft.event_at) == (
        "procedural", "step", "project", 3,
    )  # fmt: skip
    assert write_plan.apply_scores(IngestItem(DRAFT), ROUTE, None, 99).draft.event_at == 99


# Ties


def test_a_similar_text_is_stored_with_an_edge() -> None:
    stored = mutations.store_new(DRAFT, ID, NOW, 0)
    decision = write_plan.relate(stored, [tie(1)], MemoryShelf(sample_memory(1)), {})
    assert decision.outcome == "stored"
    assert edges(decision.changes) == [(sample_id(1), "related")]
    assert sample_id(1) not in repetitions(decision.changes)


def test_G5_a_repetition_is_stored_and_counted_at_the_earlier_memory() -> None:
    stored = mutations.store_new(DRAFT, ID, NOW, 0)
    ties = [tie(1, "repeats"), tie(2, "repeats")]
    decision = write_plan.relate(stored, ties, MemoryShelf(sample_memory(1), sample_memory(2)), {})
    assert decision.outcome == "repeats"
    assert repetitions(decision.changes) == {ID: 0, sample_id(1): 1}
    assert edges(decision.changes) == [(sample_id(1), "repeats"), (sample_id(2), "repeats")]
    (usage,) = [each.data for each in decision.changes if isinstance(each, PutUsage) and each.data.id == sample_id(1)]
    assert (usage.access_count, usage.last_accessed, usage.strength) == (1, NOW, 0.53)


@pytest.mark.parametrize(
    "now",
    [
        sample_memory(1, version=2),
        sample_memory(1, state="trashed"),
        sample_memory(1, state="superseded"),
        sample_memory(2),
    ],
)
def test_a_relation_to_a_memory_changed_since_is_dropped_and_the_write_stands(now: Memory) -> None:
    decision = write_plan.relate(mutations.store_new(DRAFT, ID, NOW, 0), [tie(1, "repeats")], MemoryShelf(now), {})
    assert (decision.outcome, decision.relations, edges(decision.changes)) == ("stored", (), [])


def test_a_relation_within_a_batch_gets_the_id_of_the_written_memory() -> None:
    within = MemoryRelation("#4", 1, "repeats", 0.99, "the same")
    shelf = MemoryShelf(sample_memory(1, version=3))
    stored = mutations.store_new(DRAFT, ID, NOW, 0)
    assert edges(write_plan.relate(stored, [within], shelf, {"#4": sample_id(1)}).changes) == [
        (sample_id(1), "repeats")
    ]
    assert edges(write_plan.relate(stored, [within], shelf, {}).changes) == []


def test_at_most_three_edges_are_written() -> None:
    shelf = MemoryShelf(*(sample_memory(number) for number in range(1, 6)))
    decision = write_plan.relate(
        mutations.store_new(DRAFT, ID, NOW, 0), [tie(number) for number in range(1, 6)], shelf, {}
    )
    assert len(edges(decision.changes)) == 3


# Set aside


def test_a_discarded_text_is_kept_with_its_reason_and_has_no_edges() -> None:
    item = IngestItem(DRAFT, "turn", discard_reason="too_short")
    decision = write_plan.discard(item, ID, MemoryShelf(), {})
    assert (decision.outcome, decision.reason, decision.memory.state) == ("discarded", "too_short", "discarded")
    entries = [change.data for change in decision.changes if isinstance(change, PutTrash)]
    assert entries == [TrashEntry(id=ID, at=NOW, why="too_short", state="active")]


def test_T2_a_turn_that_repeats_another_counts_for_that_one() -> None:
    item = IngestItem(DRAFT, "turn", discard_reason="near_duplicate", relations=(tie(1, "repeats"),))
    decision = write_plan.discard(item, ID, MemoryShelf(sample_memory(1)), {})
    assert repetitions(decision.changes) == {ID: 0, sample_id(1): 1}
    assert edges(decision.changes) == []


# Merged, by G's letter


def test_G5_under_policy_G_a_similar_text_is_not_stored_and_strengthens_the_earlier() -> None:
    item = IngestItem(DRAFT, policy=POLICIES["G"], relations=(tie(1, "repeats"),))
    decision = write_plan.merge_into_neighbour(item, MemoryShelf(sample_memory(1, importance=0.5)), {})
    assert decision is not None
    assert (decision.outcome, decision.memory.id) == ("merged", sample_id(1))
    (change,) = decision.changes
    assert isinstance(change, PutUsage)
    assert (change.data.repetition_count, change.data.strength) == (1, 0.55)


def test_G6_where_the_texts_differ_the_longer_one_stays() -> None:
    item = IngestItem(DRAFT, policy=POLICIES["G"], relations=(tie(1, "repeats"),), takes_text=True)
    longer = write_plan.merge_into_neighbour(item, MemoryShelf(sample_memory(1, "Tea.")), {})
    assert longer is not None
    assert (longer.memory.content, longer.memory.version) == ("Tea at five.", 2)
    assert longer.merged_texts == ("Tea.", "Tea at five.")  # of which a model may write one
    shorter = write_plan.merge_into_neighbour(item, MemoryShelf(sample_memory(1, "Tea at five, in the garden.")), {})
    assert shorter is not None
    assert shorter.memory.version == 1
    assert shorter.merged_texts == ("Tea at five, in the garden.", "Tea at five.")
    pinned = write_plan.merge_into_neighbour(item, MemoryShelf(sample_memory(1, "Tea.", pinned=True)), {})
    assert pinned is not None
    assert (pinned.memory.version, pinned.merged_texts) == (1, ())


@pytest.mark.parametrize(("earlier", "later", "expected"), [("user", "agent", "agent"), ("import", "user", "import")])
def test_a_merged_memory_has_the_lowest_trust_of_both(earlier: Trust, later: Trust, expected: Trust) -> None:
    item = IngestItem(
        DRAFT._replace(trust=later), policy=POLICIES["G"], relations=(tie(1, "repeats"),), takes_text=True
    )
    shelf = MemoryShelf(sample_memory(1, "Five.", trust=earlier), sample_memory(2, trust="user"))
    decision = write_plan.merge_into_neighbour(item, shelf, {})
    assert decision is not None
    (memory,) = (each.data for each in trust.authorise(decision.changes, shelf, later) if isinstance(each, PutMemory))
    assert (memory.content, memory.trust) == ("Tea at five.", expected)


def test_nothing_is_merged_into_a_memory_that_is_gone() -> None:
    item = IngestItem(DRAFT, policy=POLICIES["G"], relations=(tie(1, "repeats"),))
    assert write_plan.merge_into_neighbour(item, MemoryShelf(), {}) is None


@pytest.mark.parametrize(
    ("dedup", "near", "same", "is_guarded"),
    [
        (None, "linked", "reinforced", True),
        ("guarded", "linked", "reinforced", True),
        ("off", "stored", "stored", True),
        ("source", "merged", "reinforced", False),
    ],
)
def test_a_request_chooses_how_it_is_compared(dedup: Any, near: str, same: str, is_guarded: bool) -> None:
    profile = write_plan.policy_for(OWN_POLICY, dedup)
    assert (profile.on_similar, profile.on_equal, profile.is_guarded) == (near, same, is_guarded)
    assert write_plan.policy_for(POLICIES["G"], "guarded").on_similar == "linked"


# Later


@pytest.mark.parametrize(
    ("fields", "is_unseen"),
    [
        ({"importance": 0.6}, True),
        ({"importance": 0.72}, True),
        ({"importance": 1.0}, True),
        ({"importance": 0.61}, False),
        ({"importance": 0.5}, False),
        ({"importance": 0.72, "importance_source": "user"}, False),
        ({"importance": 0.72, "version": 2}, False),
        ({"importance": 0.72, "managed": sample_id(3)}, False),
        ({"importance": 0.72, "state": "trashed"}, False),
    ],
)
def test_a_score_without_vector_is_recognised_by_its_value(fields: dict[str, Any], is_unseen: bool) -> None:
    assert write_plan.is_scored_without_vector(sample_memory(1, **fields)) is is_unseen


def test_a_late_score_makes_a_new_version_and_its_strength_follows() -> None:
    memory = sample_memory(1, importance=0.72)
    decision = write_plan.backfill(memory, 0.55, [tie(2)], MemoryShelf(memory, sample_memory(2)))
    assert decision is not None
    put = next(change.data for change in decision.changes if isinstance(change, PutMemory))
    assert (put.importance, put.version) == (0.55, 2)
    used = next(change.data for change in decision.changes if isinstance(change, PutUsage))
    assert used.strength == 0.55
    assert edges(decision.changes) == [(sample_id(2), "related")]


def test_a_late_score_leaves_a_memory_changed_meanwhile() -> None:
    memory = sample_memory(1, importance=0.72)
    edited = msgspec.structs.replace(memory, content="Other words.", version=2)
    assert write_plan.backfill(memory, 0.55, [tie(2)], MemoryShelf(edited, sample_memory(2))) is None
    trashed = msgspec.structs.replace(memory, state="trashed")
    assert write_plan.backfill(memory, 0.55, [], MemoryShelf(trashed)) is None


def test_doing_a_late_score_again_changes_nothing() -> None:
    memory = sample_memory(1, importance=0.55, version=2)
    decision = write_plan.backfill(memory, 0.55, [], MemoryShelf(memory))
    assert decision is not None
    assert decision.changes == ()


def test_the_first_write_without_a_vector_sets_the_backfill_cursor() -> None:
    stored, pending = mutations.store_new(DRAFT, ID, NOW, 0), PendingSnapshot(MemoryShelf())
    begun = write_plan.first_backfill_cursor(IngestItem(DRAFT), stored, pending)
    assert begun == (PutMeta(name="intake_seq", value="7"),)
    pending.apply(begun)
    assert write_plan.first_backfill_cursor(IngestItem(DRAFT), stored, pending) == ()
    assert (
        write_plan.first_backfill_cursor(IngestItem(DRAFT, is_seen=True), stored, PendingSnapshot(MemoryShelf())) == ()
    )


def test_an_existing_relation_is_neither_written_nor_counted_again() -> None:
    memory, other = sample_memory(2, importance=0.55), sample_memory(1)
    edge = Edge(source=memory.id, target=other.id, relation="repeats", at=NOW)
    decision = write_plan.backfill(memory, 0.55, [tie(1, "repeats")], MemoryShelf(memory, other, tied=[edge]))
    assert decision is not None
    assert decision.changes == ()


# Chunks of notes, later


def chunk(number: int, **fields: Any) -> Memory:
    return sample_memory(number, trust="note", source="note", managed=sample_id(90), **fields)


class NoteStore(MemoryShelf):
    """A store whose one file of notes gives that importance."""

    def __init__(self, *memories: Memory, tied: Sequence[Edge] = (), importance: float | None = None) -> None:
        super().__init__(*memories, tied=tied)
        self.importance = importance

    def note(self, file_id: str) -> NoteFile | None:
        return NoteFile(id=file_id, root=sample_id(91), path="a.md", importance=self.importance)


def late_importance(now: Memory, store: MemoryShelf) -> float:
    decision = write_plan.backfill_chunk(chunk(1), 0.72, [], store)
    assert decision is not None
    return decision.memory.importance


def test_a_chunk_without_a_given_importance_is_scored() -> None:
    tagged = chunk(1, version=2, tags=("mine",))
    assert late_importance(tagged, NoteStore(tagged)) == 0.72
    by_a_person = chunk(1, importance_source="user")
    assert late_importance(by_a_person, NoteStore(by_a_person)) == 0.5
    assert late_importance(chunk(1), NoteStore(chunk(1), importance=0.5)) == 0.5
    scored_before = chunk(1, importance=0.64, version=2)
    assert late_importance(scored_before, NoteStore(scored_before)) == 0.64


def test_the_score_of_a_chunk_is_no_version_of_it() -> None:
    decision = write_plan.backfill_chunk(chunk(1), 0.72, [], NoteStore(chunk(1)))
    assert decision is not None
    score, used = decision.changes
    assert score == PutScore(id=sample_id(1), importance=0.72)
    assert isinstance(used, PutUsage)
    assert used.data.strength == 0.72
    pending = PendingSnapshot(NoteStore(chunk(1)))
    pending.apply(decision.changes)
    assert pending.memory(sample_id(1)) == chunk(1, importance=0.72)


def test_a_chunk_whose_text_changed_since_the_comparison_is_unchanged() -> None:
    assert write_plan.backfill_chunk(chunk(1), 0.72, [], NoteStore(chunk(1, content="Other words.", version=2))) is None
    assert write_plan.backfill_chunk(chunk(1), 0.72, [], NoteStore(chunk(1, state="trashed", version=2))) is None
    assert write_plan.backfill_chunk(chunk(1), 0.72, [], NoteStore()) is None


def test_a_chunk_updates_nothing_and_replaces_no_link() -> None:
    memory, others = chunk(9), [sample_memory(number) for number in (1, 2, 3)]
    link = Edge(source=memory.id, target=sample_id(2), relation="related", at=NOW, via="link")
    ties = [tie(1, "updates"), tie(2, "related"), tie(3, "repeats")]
    decision = write_plan.backfill_chunk(memory, 0.5, ties, NoteStore(memory, *others, tied=[link]))
    assert decision is not None
    assert edges(decision.changes) == [(sample_id(1), "related"), (sample_id(3), "repeats")]
    assert repetitions(decision.changes) == {sample_id(3): 1}
    assert not any(isinstance(change, PutMemory) for change in decision.changes)


# A batch sees itself


def test_a_later_item_of_a_transaction_sees_the_earlier_ones() -> None:
    pending = PendingSnapshot(MemoryShelf())
    first = mutations.store_new(DRAFT._replace(key="tea"), ID, NOW, 0)
    pending.apply(first.changes)
    digest = content_hash("  TEA at five. ")
    assert pending.ids_by_hash("default", "local", "", "", digest) == [ID]
    assert pending.ids_by_hash("default", "anna", "", "", digest) == []
    assert pending.id_by_key("default", "local", "tea") == ID
    assert pending.memory(ID) == first.memory
    changed = mutations.new_version(first.memory, NOW, {"content": "Coffee at five."})
    pending.apply([PutMemory(data=changed)])
    assert pending.ids_by_hash("default", "local", "", "", digest) == []
    assert len(pending.changes) == 3


# A value that comes back


@pytest.mark.parametrize(
    ("newer_at", "said_at", "state", "outdated"),
    [
        (NOW - 5, None, "active", True),  # Lisbon, then Porto, then Lisbon again
        (NOW - 5, NOW - 9, "active", False),  # what was so before Porto is told once more
        (NOW - 5, None, "trashed", False),  # Porto was taken back
    ],
)
def test_the_same_words_after_a_newer_value_are_no_repetition(
    newer_at: int, said_at: int | None, state: Any, outdated: bool
) -> None:
    older, newer = sample_memory(1), sample_memory(2, event_at=newer_at, state=state)
    edge = Edge(source=newer.id, target=older.id, relation="updates", at=NOW)
    shelf = MemoryShelf(older, newer, tied=[edge])
    assert write_plan.is_outdated(older, said_at, shelf) is outdated
    assert not write_plan.is_outdated(newer, said_at, shelf)


def test_the_words_of_a_superseded_memory_are_no_repetition() -> None:
    newer = sample_memory(2, event_at=NOW - 5)
    older = sample_memory(1, state="superseded", superseded_by=newer.id)
    assert write_plan.is_outdated(older, None, MemoryShelf(older, newer))
    assert not write_plan.is_outdated(older, None, MemoryShelf(older))


def test_the_mask_of_a_secret_is_no_signal() -> None:
    found = write_plan.salience_of("the key is [masked:api_key:0a1b2c3d] since then", OWN_POLICY)
    assert found == write_plan.salience_of("the key is  since then", OWN_POLICY)
    assert found.value == 0.0
