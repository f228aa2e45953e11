"""The facts of memories that were stored before facts were read with each text. SPEC 10.3"""

from pathlib import Path
from typing import Any

import pytest

from mnemo_core.ingest.mutations import Draft
from mnemo_core.ingest.write_plan import IngestItem, StatedFact, put_facts
from mnemo_daemon import history_names
from mnemo_daemon.ingest.fact_backfill import EARLIER_FACTS, FactBackfill
from mnemo_daemon.memories.memory_service import MemoryService, stated_facts
from mnemo_store.records import DropFact, PendingExtraction, PutExtraction, PutMeta
from mnemo_store.store import WriteResult
from mnemo_store.tables import FACTS
from tests.support.samples import WAIT_SECONDS, sample_memory, write
from tests.support.store_services import PERSON, StoreServices, services_in

EVA, TOM, SUE = "Eva lives in Lisbon.", "Tom works at Siemens.", "Sue lives in Braga."


def run(services: StoreServices) -> FactBackfill:
    """The job of a daemon that just started, when it is done."""
    job = FactBackfill(services.store)
    while job.is_due():
        job.run_slice()
    return job


def objects(services: StoreServices) -> list[str]:
    with services.store.snapshot() as snapshot:
        return sorted(fact.object for fact in snapshot.scan(FACTS))


def place(services: StoreServices) -> str:
    with services.store.snapshot() as snapshot:
        return snapshot.meta(EARLIER_FACTS)


def stored_now(services: StoreServices, job: FactBackfill, text: str) -> None:
    """Store a text as this version does, with its facts."""
    memories = MemoryService(services.store, services.views, mark_facts=job.mark)
    draft = Draft(content=text, namespace="default", user_id="local", trust="user", source="api")
    memories.write_one(IngestItem(draft, facts=stated_facts(text, "")), PERSON).result(WAIT_SECONDS)


def drop_facts(services: StoreServices) -> None:
    with services.store.snapshot() as snapshot:
        drops = [DropFact(id=fact.id, memory=fact.memory) for fact in snapshot.scan(FACTS)]
    services.store.transact(lambda _: WriteResult(drops, None), by="test").result(WAIT_SECONDS)


def test_earlier_memories_get_the_facts_that_they_state_once(tmp_path: Path) -> None:
    with services_in(tmp_path / "data") as services:
        eva = services.add(EVA, event_at=7)
        old = services.add(TOM)
        last = services.add("The weather was nice.", supersedes=(old,))
        before, seq = services.memory(eva), services.store.seq
        run(services)
        assert (objects(services), place(services), services.memory(eva)) == (["Lisbon", "Siemens"], "done", before)
        with services.store.snapshot() as snapshot:
            (fact,) = snapshot.facts(eva)
            entries = [entry for _, entry in snapshot.entries(seq)]
        assert (fact.subject, fact.predicate, fact.object, fact.valid_from, fact.method) == (
            "Eva", "lives in", "Lisbon", 7, "rule",
        )  # fmt: skip
        assert [(entry.by, tuple(entry.ids)) for entry in entries] == [(history_names.BY_FACTS.name, ())]
        assert last in services.undo().ids, "undo passes over what nobody asked for"
        drop_facts(services)
    with services_in(tmp_path / "data") as services:
        run(services)
        assert objects(services) == []


def test_what_the_write_path_does_not_read_is_not_read_later(tmp_path: Path) -> None:
    with services_in(tmp_path / "data") as services:
        write(services.store, sample_memory(1, EVA, trust="note", source="note"))
        write(services.store, sample_memory(2, TOM, state="discarded"))
        services.trash(services.add("Ugo lives in Rome."))
        services.add("Rosa lives in Porto." + " " * 10 + "x" * 2000)
        pending = services.add("Ada lives in Faro.")
        mark = PutExtraction(data=PendingExtraction(id=pending, at=1))
        services.store.transact(lambda _: WriteResult((mark,), None), by="test").result(WAIT_SECONDS)
        source = services.add("Ida lives in Bonn. It is fine.")
        services.add("Ida lives in Bonn.", source="extract", derived_from=(source,))
        services.add("Max lives in Kiel.", source="run")
        services.add(SUE)
        run(services)
        assert objects(services) == ["Braga"]


def test_a_memory_with_facts_and_one_that_comes_later_are_left_alone(tmp_path: Path) -> None:
    with services_in(tmp_path / "data") as services:
        for text in (EVA, TOM):
            services.add(text)
        run(services)
        ugo = services.memory(services.add("Ugo lives in Rome."))
        said = [StatedFact("Ugo", "like", "tea")]
        with services.store.snapshot() as snapshot:
            put = put_facts(ugo, ugo.content, said, snapshot, services.store.new_id)
        services.store.transact(lambda _: WriteResult(put, None), by="test").result(WAIT_SECONDS)
        reset = PutMeta(name=EARLIER_FACTS, value="")
        services.store.transact(lambda _: WriteResult((reset,), None), by="test").result(WAIT_SECONDS)
        job = FactBackfill(services.store, slice_size=1)
        assert job.run_slice()
        services.at += 1
        services.add(SUE)
        while job.run_slice():
            pass
        assert (objects(services), place(services)) == (["Lisbon", "Siemens", "tea"], "done")


def test_after_a_crash_the_search_goes_on_where_it_was(tmp_path: Path) -> None:
    with services_in(tmp_path / "data") as services:
        for text in (EVA, TOM, SUE):
            services.add(text)
        assert FactBackfill(services.store, slice_size=1).run_slice()
        assert objects(services) == ["Lisbon"]
        drop_facts(services)
    with services_in(tmp_path / "data") as services:
        run(services)
        assert objects(services) == ["Braga", "Siemens"]


def test_a_text_that_changes_while_it_is_read_gets_no_facts_of_the_old_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with services_in(tmp_path / "data") as services:
        eva = services.add(EVA)
        job, transact = FactBackfill(services.store), services.store.transact

        def edit_first(*args: Any, **how: Any) -> Any:
            monkeypatch.undo()
            services.edit(eva, content="The weather was nice.")
            return transact(*args, **how)

        monkeypatch.setattr(services.store, "transact", edit_first)
        job.run_slice()
        assert objects(services) == []


def test_in_a_store_that_begins_with_this_version_a_removed_fact_does_not_come_back(tmp_path: Path) -> None:
    with services_in(tmp_path / "data") as services:
        job = FactBackfill(services.store)
        assert not job.is_due()
        stored_now(services, job, EVA)
        assert (objects(services), place(services)) == (["Lisbon"], "done")
        drop_facts(services)
    with services_in(tmp_path / "data") as services:
        assert not FactBackfill(services.store).is_due()


def test_a_small_store_that_states_nothing_is_not_written_to(tmp_path: Path) -> None:
    with services_in(tmp_path / "data") as services:
        services.add("The weather was nice.")
        seq = services.store.seq
        job = run(services)
        assert (services.store.seq, job.is_due()) == (seq, False)
        stored_now(services, job, EVA)
        assert place(services) == "done"
