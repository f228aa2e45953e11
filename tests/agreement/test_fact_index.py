"""The facts in memory are those that a fresh reading of the store finds. SPEC 3.1, 10.3"""

from pathlib import Path

import pytest

from mnemo_daemon.indexing.fact_index import HOLDING_STATES, NAMED_MAX, WITHDRAWN_STATES, FactIndex, FactScope
from mnemo_store.records import DropFact, DropMemory, Fact, PutFact, content_hash
from mnemo_store.store import Commit, WriteResult
from tests.desk import Desk, desk_in
from tests.samples import WAIT_SECONDS, sample_id

EVERYTHING = (*HOLDING_STATES, *WITHDRAWN_STATES)


def scope(desk: Desk) -> FactScope:
    return FactScope(("default",), "local", sees_sensitive=True, now=desk.at)


def state(desk: Desk, number: int, memory_id: str, subject: str) -> None:
    """Store a fact of a memory as it reads now."""
    digest = content_hash(desk.memories.get(memory_id).memory.content).hex()
    fact = Fact(id=sample_id(number), memory=memory_id, content_hash=digest, subject=subject, predicate="live in",
                object=f"Town {number}", created_at=desk.at, valid_from=number)  # fmt: skip
    desk.store.transact(lambda _: WriteResult((PutFact(data=fact),), None), by="test").result(WAIT_SECONDS)


def assert_as_read_again(desk: Desk) -> list[str]:
    """The objects of the facts that are seen, which are those of an index that was just made."""
    index, fresh, wanted = desk.views.facts, FactIndex(desk.store), scope(desk)
    assert index.all(wanted) == fresh.all(wanted)
    assert index.all(wanted, EVERYTHING) == fresh.all(wanted, EVERYTHING)
    for key in ("anna", "tom", "town 3"):
        assert index.is_known(key) == fresh.is_known(key), key
        assert index.open_facts(key, wanted) == fresh.open_facts(key, wanted), key
    assert index.entities_with(["town"]) == fresh.entities_with(["town"])
    return [fact.object for fact in index.all(wanted)]


def test_the_index_follows_every_kind_of_change(tmp_path: Path) -> None:
    with desk_in(tmp_path / "data") as desk:
        assert assert_as_read_again(desk) == []
        one, other = desk.add("What is known of Anna."), desk.add("What is known of Tom.")
        for number, (memory_id, subject) in enumerate([(one, "Anna"), (one, "Anna"), (other, "Tom")], start=1):
            state(desk, number, memory_id, subject)
        assert assert_as_read_again(desk) == ["Town 1", "Town 2", "Town 3"]
        assert [each.fact.object for each in desk.views.facts.open_facts("anna", scope(desk))] == ["Town 2"]
        desk.edit(one, content="Something else.")
        assert assert_as_read_again(desk) == ["Town 3"]
        desk.undo()
        assert assert_as_read_again(desk) == ["Town 1", "Town 2", "Town 3"]
        desk.trash(other)
        assert assert_as_read_again(desk) == ["Town 1", "Town 2"]
        drop = DropFact(id=sample_id(2), memory=one)
        desk.store.transact(lambda _: WriteResult((drop,), None), by="test").result(WAIT_SECONDS)
        assert assert_as_read_again(desk) == ["Town 1"]
        assert [each.fact.object for each in desk.views.facts.open_facts("anna", scope(desk))] == ["Town 1"]
        gone = WriteResult((DropMemory(id=one), DropMemory(id=other)), None)
        desk.store.transact(lambda _: gone, by="purge").result(WAIT_SECONDS)
        assert assert_as_read_again(desk) == []
        assert not desk.views.facts.is_known("tom")


def test_a_flood_of_facts_in_another_namespace_hides_nothing(tmp_path: Path) -> None:
    with desk_in(tmp_path / "data") as desk:
        first, second = desk.add("What is known of Anna."), desk.add("What is new of Anna.")
        state(desk, 1, first, "Anna")
        state(desk, 2, second, "Anna")
        elsewhere = desk.add("What others know of Anna.", namespace="elsewhere")
        digest = content_hash(desk.memory(elsewhere).content).hex()
        flood = [
            PutFact(data=Fact(id=sample_id(number), memory=elsewhere, content_hash=digest, subject="Anna",
                              predicate="live in", object=f"Port {number}", created_at=desk.at, valid_from=0,
                              namespace="elsewhere"))
            for number in range(3, NAMED_MAX + 4)
        ]  # fmt: skip
        desk.store.transact(lambda _: WriteResult(flood, None), by="test").result(WAIT_SECONDS)
        assert [each.fact.object for each in desk.views.facts.open_facts("anna", scope(desk))] == ["Town 2"]
        old = desk.views.facts.all(scope(desk))[:1]
        assert [each.is_open for each in desk.views.facts.states_of(old, scope(desk), desk.at).values()] == [
            False,
            True,
        ]


@pytest.mark.parametrize("how", ["cleared", "a commit of unknown changes"])
def test_what_cannot_be_followed_is_read_again(tmp_path: Path, how: str) -> None:
    with desk_in(tmp_path / "data") as desk:
        memory_id = desk.add("What is known of Anna.")
        assert desk.views.facts.is_empty()
        state(desk, 1, memory_id, "Anna")
        lost = Fact(id=sample_id(9), memory=memory_id, content_hash="", subject="Tom", predicate="like", object="tea",
                    created_at=1)  # fmt: skip
        desk.views.facts.follow(Commit(desk.store.seq, desk.at, (), (PutFact(data=lost),)))
        assert desk.views.facts.is_known("tom")  # although the store has no such fact
        if how == "cleared":
            desk.views.facts.clear()
        else:
            desk.views.facts.follow(Commit(desk.store.seq, desk.at, ()))
        assert not desk.views.facts.is_known("tom")
        assert assert_as_read_again(desk) == ["Town 1"]


def test_the_facts_of_a_superseded_memory_hold_again_while_its_replacement_is_gone(tmp_path: Path) -> None:
    with desk_in(tmp_path / "data") as desk:
        old = desk.add("What is known of Anna.")
        state(desk, 1, old, "Anna")
        assert assert_as_read_again(desk) == ["Town 1"]
        new = desk.add("What else is known.", supersedes=(old,))
        assert assert_as_read_again(desk) == []
        desk.trash(new)
        assert assert_as_read_again(desk) == ["Town 1"]
        desk.restore(new)
        assert assert_as_read_again(desk) == []
        desk.edit(new, expires_at=desk.at + 5)
        assert assert_as_read_again(desk) == []
        desk.at += 5
        assert assert_as_read_again(desk) == ["Town 1"]
        gone = WriteResult((DropMemory(id=new),), None)
        desk.store.transact(lambda _: gone, by="purge").result(WAIT_SECONDS)
        assert assert_as_read_again(desk) == ["Town 1"]
