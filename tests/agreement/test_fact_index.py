"""The facts in memory are those that a fresh reading of the store finds. SPEC 3.1, 10.3"""

from pathlib import Path

import pytest

from mnemo_daemon.indexing.fact_index import HOLDING_STATES, NAMED_MAX, WITHDRAWN_STATES, FactIndex, FactScope
from mnemo_store.record_texts import content_hash
from mnemo_store.records import DropFact, DropMemory, Fact, PutFact
from mnemo_store.store import Commit, WriteResult
from tests.support.samples import WAIT_SECONDS, sample_id
from tests.support.store_services import StoreServices, services_in

EVERYTHING = (*HOLDING_STATES, *WITHDRAWN_STATES)


def scope(services: StoreServices) -> FactScope:
    return FactScope(("default",), "local", sees_sensitive=True, now=services.at)


def state(services: StoreServices, number: int, memory_id: str, subject: str) -> None:
    """Store a fact of a memory as it reads now."""
    digest = content_hash(services.memories.get(memory_id).memory.content).hex()
    fact = Fact(id=sample_id(number), memory=memory_id, content_hash=digest, subject=subject, predicate="live in",
                object=f"Town {number}", created_at=services.at, valid_from=number)  # fmt: skip
    services.store.transact(lambda _: WriteResult((PutFact(data=fact),), None), by="test").result(WAIT_SECONDS)


def assert_as_read_again(services: StoreServices) -> list[str]:
    """The objects of the facts that are seen, which are those of an index that was just made."""
    index, fresh, wanted = services.views.facts, FactIndex(services.store), scope(services)
    assert index.all(wanted) == fresh.all(wanted)
    assert index.all(wanted, EVERYTHING) == fresh.all(wanted, EVERYTHING)
    for key in ("anna", "tom", "town 3"):
        assert index.is_known(key) == fresh.is_known(key), key
        assert index.open_facts(key, wanted) == fresh.open_facts(key, wanted), key
    assert index.entities_with(["town"]) == fresh.entities_with(["town"])
    return [fact.object for fact in index.all(wanted)]


def test_the_index_follows_every_kind_of_change(tmp_path: Path) -> None:
    with services_in(tmp_path / "data") as services:
        assert assert_as_read_again(services) == []
        one, other = services.add("What is known of Anna."), services.add("What is known of Tom.")
        for number, (memory_id, subject) in enumerate([(one, "Anna"), (one, "Anna"), (other, "Tom")], start=1):
            state(services, number, memory_id, subject)
        assert assert_as_read_again(services) == ["Town 1", "Town 2", "Town 3"]
        assert [each.fact.object for each in services.views.facts.open_facts("anna", scope(services))] == ["Town 2"]
        services.edit(one, content="Something else.")
        assert assert_as_read_again(services) == ["Town 3"]
        services.undo()
        assert assert_as_read_again(services) == ["Town 1", "Town 2", "Town 3"]
        services.trash(other)
        assert assert_as_read_again(services) == ["Town 1", "Town 2"]
        drop = DropFact(id=sample_id(2), memory=one)
        services.store.transact(lambda _: WriteResult((drop,), None), by="test").result(WAIT_SECONDS)
        assert assert_as_read_again(services) == ["Town 1"]
        assert [each.fact.object for each in services.views.facts.open_facts("anna", scope(services))] == ["Town 1"]
        gone = WriteResult((DropMemory(id=one), DropMemory(id=other)), None)
        services.store.transact(lambda _: gone, by="purge").result(WAIT_SECONDS)
        assert assert_as_read_again(services) == []
        assert not services.views.facts.is_known("tom")


def test_a_flood_of_facts_in_another_namespace_hides_nothing(tmp_path: Path) -> None:
    with services_in(tmp_path / "data") as services:
        first, second = services.add("What is known of Anna."), services.add("What is new of Anna.")
        state(services, 1, first, "Anna")
        state(services, 2, second, "Anna")
        elsewhere = services.add("What others know of Anna.", namespace="elsewhere")
        digest = content_hash(services.memory(elsewhere).content).hex()
        flood = [
            PutFact(data=Fact(id=sample_id(number), memory=elsewhere, content_hash=digest, subject="Anna",
                              predicate="live in", object=f"Port {number}", created_at=services.at, valid_from=0,
                              namespace="elsewhere"))
            for number in range(3, NAMED_MAX + 4)
        ]  # fmt: skip
        services.store.transact(lambda _: WriteResult(flood, None), by="test").result(WAIT_SECONDS)
        assert [each.fact.object for each in services.views.facts.open_facts("anna", scope(services))] == ["Town 2"]
        old = services.views.facts.all(scope(services))[:1]
        assert [
            each.is_open for each in services.views.facts.states_of(old, scope(services), services.at).values()
        ] == [
            False,
            True,
        ]


@pytest.mark.parametrize("how", ["cleared", "a commit of unknown changes"])
def test_what_cannot_be_followed_is_read_again(tmp_path: Path, how: str) -> None:
    with services_in(tmp_path / "data") as services:
        memory_id = services.add("What is known of Anna.")
        assert services.views.facts.is_empty()
        state(services, 1, memory_id, "Anna")
        lost = Fact(id=sample_id(9), memory=memory_id, content_hash="", subject="Tom", predicate="like", object="tea",
                    created_at=1)  # fmt: skip
        services.views.facts.follow(Commit(services.store.seq, services.at, (), (PutFact(data=lost),)))
        assert services.views.facts.is_known("tom")  # although the store has no such fact
        if how == "cleared":
            services.views.facts.clear()
        else:
            services.views.facts.follow(Commit(services.store.seq, services.at, ()))
        assert not services.views.facts.is_known("tom")
        assert assert_as_read_again(services) == ["Town 1"]


def test_the_facts_of_a_superseded_memory_hold_again_while_its_replacement_is_gone(tmp_path: Path) -> None:
    with services_in(tmp_path / "data") as services:
        old = services.add("What is known of Anna.")
        state(services, 1, old, "Anna")
        assert assert_as_read_again(services) == ["Town 1"]
        new = services.add("What else is known.", supersedes=(old,))
        assert assert_as_read_again(services) == []
        services.trash(new)
        assert assert_as_read_again(services) == ["Town 1"]
        services.restore(new)
        assert assert_as_read_again(services) == []
        services.edit(new, expires_at=services.at + 5)
        assert assert_as_read_again(services) == []
        services.at += 5
        assert assert_as_read_again(services) == ["Town 1"]
        gone = WriteResult((DropMemory(id=new),), None)
        services.store.transact(lambda _: gone, by="purge").result(WAIT_SECONDS)
        assert assert_as_read_again(services) == ["Town 1"]
