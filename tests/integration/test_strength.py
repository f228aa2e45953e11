"""Strength, read and changed at the present epoch, and the archived memory that is recalled. SPEC 2.2, 7.5, 9.3, 9.4"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemo_core.decay import bring_to_epoch, present_usage, strength_at
from mnemo_core.ingest import mutations
from mnemo_core.ingest.mutations import MemoryRelation
from mnemo_core.ingest.policies import POLICIES
from mnemo_core.ingest.write_plan import IngestItem
from mnemo_daemon.ingest.reassessment import Reclassification
from mnemo_daemon.memories.memory_columns import by_weight
from mnemo_daemon.retrieval.question import Hit
from mnemo_daemon.retrieval.recall import UsageRecorder
from mnemo_daemon.settings import Settings
from mnemo_store.records import Memory, PutMeta, PutUsage, Usage
from tests.support.samples import WAIT_SECONDS, sample_id, sample_memory, write
from tests.support.store_services import PERSON, StoreServices, services_in

AFTER_50 = 0.5 * 0.98**50  # 0.182


@pytest.fixture
def services(tmp_path: Path) -> Iterator[StoreServices]:
    with services_in(tmp_path / "data") as services:
        yield services


def set_epoch(services: StoreServices, epoch: int) -> None:
    write(services.store, PutMeta(name="epoch", value=str(epoch)))


def stored(services: StoreServices, memory_id: str) -> Usage:
    with services.store.snapshot() as snapshot:
        usage = snapshot.usage(memory_id)
    assert usage is not None
    return usage


def faded(services: StoreServices, **fields: Any) -> str:
    """An episodic memory of importance 0.5, fifty epochs old."""
    memory_id = services.add("The ferry to Tavira leaves at nine.", kind="episodic", importance=0.5, **fields)
    set_epoch(services, 50)
    return memory_id


def after(services: StoreServices, memory_id: str) -> tuple[Any, int]:
    """The strength that is stored, and its epoch."""
    usage = stored(services, memory_id)
    return round(usage.strength, 9), usage.strength_epoch


# Readers


def test_a_memory_is_shown_with_the_strength_that_it_has_now(services: StoreServices) -> None:
    memory_id = faded(services)
    shown = services.memories.get(memory_id).usage
    assert shown.strength == pytest.approx(AFTER_50)
    assert shown.strength_epoch == 50
    assert after(services, memory_id) == (0.5, 0)  # and nothing was written


def test_an_answer_ranks_by_the_strength_of_now(services: StoreServices) -> None:
    old = services.add("The ferry to Tavira is blue.", kind="episodic", importance=0.6)
    set_epoch(services, 50)
    new = services.add("The ferry to Tavira is white.", kind="episodic", importance=0.5)
    hits = services.recall("ferry Tavira", ranker="layered").hits
    assert [hit.details.memory.id for hit in hits] == [new, old]
    set_epoch(services, 0)
    assert services.recall("ferry Tavira", ranker="layered").hits[0].details.memory.id == old


def test_a_resume_orders_by_the_strength_of_now(services: StoreServices) -> None:
    services.add("one", kind="episodic", importance=0.6)
    set_epoch(services, 50)
    services.add("two", kind="episodic", importance=0.5)
    columns = services.views.attributes
    rows = np.arange(2)
    assert by_weight(columns, rows, 0).tolist() == [0, 1]
    assert by_weight(columns, rows, 50).tolist() == [1, 0]


def test_preferences_that_no_channel_found_stand_ahead_by_the_strength_of_now(services: StoreServices) -> None:
    fields: dict[str, Any] = {"kind": "procedural", "form": "preference", "category": "preference"}
    services.add("I prefer tea.", importance=0.6, **fields)
    set_epoch(services, 300)  # 0.6 · 0.996^300 = 0.18
    services.add("I prefer trains.", importance=0.5, **fields)
    assert services.recalled("ferry", preferences="first") == ["I prefer trains.", "I prefer tea."]


def test_an_earlier_time_shows_the_usage_of_now_since_usage_has_no_history(services: StoreServices) -> None:
    memory_id = faded(services)
    services.at += 10
    (hit,) = services.recall("ferry", at=services.at - 5).hits
    assert hit.details.usage == services.memories.get(memory_id).usage


# Writers


def test_a_new_memory_starts_at_the_present_epoch(services: StoreServices) -> None:
    set_epoch(services, 7)
    assert after(services, services.add("tea", importance=0.5)) == (0.5, 7)


def test_G19_a_recall_adds_to_the_strength_of_now(services: StoreServices) -> None:
    memory_id = faded(services)
    services.memories.record_use([memory_id]).result(WAIT_SECONDS)
    assert after(services, memory_id) == (pytest.approx(AFTER_50 + 0.03), 50)


def test_G5_a_duplicate_touches_the_earlier_memory_and_counts_as_a_repetition(services: StoreServices) -> None:
    memory_id = faded(services)
    services.at += 10
    assert services.add("The ferry to Tavira leaves at nine.") == memory_id
    assert after(services, memory_id) == (pytest.approx(AFTER_50 + 0.03), 50)
    usage = stored(services, memory_id)
    assert (usage.access_count, usage.repetition_count, usage.last_accessed) == (1, 1, services.at)


def test_G5_the_same_text_under_its_key_touches_it_too(services: StoreServices) -> None:
    memory_id = faded(services, key="ferry")
    assert services.add("The ferry to Tavira leaves at nine.", key="ferry") == memory_id
    assert after(services, memory_id) == (pytest.approx(AFTER_50 + 0.03), 50)


def similar_to(services: StoreServices, memory_id: str, policy: str = "own") -> IngestItem:
    draft = mutations.Draft("The ferry to Tavira leaves at 9.", "default", "local", "user", "cli")
    relation = MemoryRelation(memory_id, services.memory(memory_id).version, "repeats", 0.97, "near")
    return IngestItem(draft, policy=POLICIES[policy], relations=(relation,))


def test_G5_what_repeats_a_memory_touches_it(services: StoreServices) -> None:
    memory_id = faded(services)
    decision = services.memories.write_one(similar_to(services, memory_id), PERSON).result(WAIT_SECONDS).result
    assert decision.outcome == "repeats"
    assert after(services, memory_id) == (pytest.approx(AFTER_50 + 0.03), 50)
    assert after(services, decision.memory.id) == (0.5, 50)


def test_G5_source_G_reinforces_the_strength_of_now(services: StoreServices) -> None:
    memory_id = faded(services)
    decision = services.memories.write_one(similar_to(services, memory_id, "G"), PERSON).result(WAIT_SECONDS).result
    assert decision.outcome == "merged"
    assert after(services, memory_id) == (pytest.approx(AFTER_50 + 0.05), 50)


def test_a_persons_new_importance_moves_the_strength_of_now_and_its_undo_moves_it_back(services: StoreServices) -> None:
    memory_id = faded(services)
    seq = services.edit(memory_id, importance=0.8, importance_source="user")
    assert after(services, memory_id) == (pytest.approx(AFTER_50 + 0.3), 50)
    services.undo(seq)
    assert after(services, memory_id) == (pytest.approx(AFTER_50), 50)


@pytest.mark.parametrize("fields", [{"pinned": True}, {"kind": "procedural"}])
def test_what_decays_otherwise_from_now_on_keeps_the_decay_that_it_had(
    services: StoreServices, fields: dict[str, Any]
) -> None:
    memory_id = faded(services)
    services.edit(memory_id, **fields)
    assert after(services, memory_id) == (pytest.approx(AFTER_50), 50)
    set_epoch(services, 60)
    factor = 1.0 if "pinned" in fields else 0.996
    assert services.memories.get(memory_id).usage.strength == pytest.approx(AFTER_50 * factor**10)


def test_a_kind_that_a_rule_corrects_counts_from_the_start_and_leaves_what_was_used_as_it_is(
    services: StoreServices,
) -> None:
    texts = "I prefer tea to coffee.", "I prefer trains to planes."
    untouched, used = (services.add(text, importance=0.5, importance_source="rule") for text in texts)
    set_epoch(services, 50)
    services.memories.record_use([used]).result(WAIT_SECONDS)
    strength, epoch = after(services, used)
    set_epoch(services, 60)
    service = Reclassification(services.store, services.views, services.indexing, Settings)
    assert service.run("default", "local", "cli", dry_run=False).changed == 2
    assert services.memory(used).kind == "procedural"
    assert epoch == 50
    assert after(services, used) == (pytest.approx(strength * 0.988**10), 60)
    assert after(services, untouched) == (0.5, 0)


def test_a_discarded_text_that_a_person_restores_is_as_strong_as_its_new_importance(services: StoreServices) -> None:
    draft = mutations.Draft("Well, hm.", "default", "local", "user", "ingest", importance=0.1)
    item = IngestItem(draft, entry_point="ingest", discard_reason="low_importance")
    memory_id = services.memories.write_one(item, PERSON).result(WAIT_SECONDS).result.memory.id
    services.restore(memory_id)
    assert services.memory(memory_id).importance == 0.3
    assert after(services, memory_id)[0] == pytest.approx(0.3)


@given(
    strength=st.floats(0, 1), importances=st.tuples(st.floats(0, 1), st.floats(0, 1)), epochs=st.integers(0, 500),
    layer=st.sampled_from(("buffer", "working", "core")),
)  # fmt: skip
def test_a_new_importance_moves_the_present_strength_by_exactly_the_difference(
    strength: float, importances: tuple[float, float], epochs: int, layer: Any
) -> None:
    old, new = importances
    before = sample_memory(1, layer=layer, importance=old)
    now = sample_memory(1, layer=layer, importance=new, importance_source="user")
    usage = Usage(id=before.id, strength=strength)
    present = strength_at(usage, before, epochs)
    for change in mutations.adjust_strength(bring_to_epoch(usage, before, epochs), before, now):
        assert isinstance(change, PutUsage)
        usage = change.data
    assert strength_at(usage, now, epochs) == pytest.approx(min(1.0, max(0.0, present + new - old)), abs=0.0100001)
    if 0.01 <= present + new - old <= 1.0:
        assert strength_at(usage, now, epochs) == pytest.approx(present + new - old)


# What is archived


def archive(services: StoreServices, memory_id: str) -> Memory:
    memory = services.memory(memory_id)
    write(
        services.store, mutations.new_version(memory, services.at, {"state": "archived", "layer": "working"}), what="x"
    )
    return services.memory(memory_id)


def hit(services: StoreServices, memory_id: str, relevance: float) -> Hit:
    return Hit(services.memories.get(memory_id), relevance, relevance, ("words",))


def test_G14_an_archived_memory_is_active_again_in_its_layer_once_it_is_recalled(services: StoreServices) -> None:
    memory_id = faded(services)
    archived = archive(services, memory_id)
    recorder = UsageRecorder(services.memories)
    recorder.record([hit(services, memory_id, 0.5)])
    recorder.write()
    services.at += 10
    assert services.memory(memory_id).state == "archived"  # 0.5 is not above 0.5
    recorder.record([hit(services, memory_id, 0.51)])
    recorder.write()
    services.edit(services.add("another"), content="one more")  # behind it in the queue
    back = services.memory(memory_id)
    assert (back.state, back.layer, back.version) == ("active", "working", archived.version + 1)
    assert back.modified_at == archived.modified_at  # nothing that it says has changed
    assert after(services, memory_id) == (pytest.approx(AFTER_50 + 0.03), 50)


def test_a_recall_of_a_person_is_kept_for_the_text_that_was_shown(services: StoreServices) -> None:
    write(services.store, sample_memory(1, "agent", trust="agent"), sample_memory(2, "edited", trust="agent"))
    recorder = UsageRecorder(services.memories)
    recorder.record([hit(services, sample_id(1), 0.9)])
    recorder.write()
    services.add("something")  # behind it in the queue
    assert stored(services, sample_id(1)).person_at == 0
    recorder.record([hit(services, sample_id(number), 0.9) for number in (1, 2)], by_person=True)
    recorder.record([hit(services, sample_id(1), 0.9)])
    services.at += 10
    write(services.store, sample_memory(2, "edited since", version=2, modified_at=services.at, trust="agent"))
    recorder.write()
    services.add("something else")
    assert [stored(services, sample_id(number)).person_at for number in (1, 2)] == [services.at, 0]


def test_an_edit_of_a_person_is_a_word_on_what_others_wrote(services: StoreServices) -> None:
    write(services.store, sample_memory(1, "The tea is green.", trust="agent"))
    services.edit(sample_id(1), tags=("tea",))
    assert stored(services, sample_id(1)).person_at >= services.memory(sample_id(1)).modified_at


def test_a_recall_is_no_obstacle_to_an_undo_and_not_what_undo_takes_back(services: StoreServices) -> None:
    memory_id = faded(services)
    seq = services.edit(memory_id, content="The ferry to Tavira leaves at ten.")
    archive(services, memory_id)
    services.memories.record_use([memory_id]).result(WAIT_SECONDS)
    services.undo(services.store.seq - 1)  # what archived it, though it was recalled since
    services.undo(seq)
    assert services.memory(memory_id).content == "The ferry to Tavira leaves at nine."
    archive(services, memory_id)
    tea = services.add("tea")
    services.memories.record_use([memory_id]).result(WAIT_SECONDS)
    services.undo()
    assert services.memory(tea).state == "trashed"
    assert services.memory(memory_id).state == "active"


def test_usage_without_a_record_is_that_of_a_memory_never_used(services: StoreServices) -> None:
    write(services.store, sample_memory(1, importance=0.8))
    with services.store.snapshot() as snapshot:
        memory = snapshot.memory(sample_id(1))
        assert memory is not None
        assert present_usage(memory, snapshot) == Usage(id=memory.id, strength=0.8)
