"""The topic trees of a store: who is in them, when they are made again, and what must not be left in them. SPEC 10.1"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnemo_core.llm.summarize import NAMING, NameAnswer
from mnemo_daemon.indexing.vectors.active_index import Scope
from mnemo_daemon.knowledge.topic_trees import IDS_KEY, TopicTrees
from mnemo_daemon.models.language.task_runner import TaskResult
from mnemo_store.disk import Disk
from mnemo_store.records import DropMemory, Memory
from tests.support.faulty_disk import FULL, FaultyDisk
from tests.support.samples import WAIT_SECONDS, sample_id, sample_memory, write
from tests.support.store_services import StoreServices, put, simulated_services_in

HERE = Scope("local", "default")
GARDEN = "tomato cucumber lettuce garden"
BOAT = "sail anchor rudder harbour"
MUSIC = "piano concert violin sonata"


class ScriptedRunner:
    """Names topics by a script; with none, no model is there."""

    def __init__(self, script: Callable[[tuple[str, ...]], str] | None = None) -> None:
        self.script = script
        self.asked: list[tuple[str, ...]] = []

    def reason_not_to_ask(self, task: Any, inputs: Any) -> str:
        assert task is NAMING
        return "" if self.script is not None else "there is no model"

    def run(self, task: Any, inputs: Any, is_cancelled: Any = None) -> TaskResult[NameAnswer]:
        assert self.script is not None
        self.asked.append(inputs.sources)
        name = self.script(inputs.sources)
        return TaskResult(NameAnswer(name), "llm" if name else "fallback", model="scripted")


class Topics:
    """A store with the service, whose job a test runs itself."""

    def __init__(self, services: StoreServices, runner: ScriptedRunner, disk: Disk) -> None:
        self.services, self.runner, self.disk = services, runner, disk
        self.open()

    def open(self) -> None:
        self.service = TopicTrees(
            self.services.store, self.services.views, self.services.indexing, self.services.embedding, self.runner,  # type: ignore[arg-type]
            self.disk, quiet_seconds=0.0,
        )  # fmt: skip

    def run(self) -> None:
        """Has the job run until there is nothing left to do."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self.service.is_due() or not self.service.is_current():
            assert time.monotonic() < deadline, "the topics do not become current"
            if self.service.is_due():
                while self.service.run_slice():
                    pass

    def put(self, first: int, *contents: str, **fields: Any) -> list[Memory]:
        memories = [sample_memory(number, content, **fields) for number, content in enumerate(contents, first)]
        put(self.services, *memories)
        self.run()
        return memories

    def leaves(self, user: str = "local", *namespaces: str) -> dict[str, set[str]]:
        """The ids of the members of each leaf."""
        listed = self.service.topics(user, namespaces)
        inner = {topic.parent for topic in listed}
        found = {}
        for topic in listed:
            members = self.service.members(topic.id, user, namespaces)
            if topic.id not in inner and members is not None:
                found[topic.id] = set(self.services.views.attributes.ids(members.numbers.tolist()))
        return found

    def names(self) -> str:
        return " · ".join(topic.name for topic in self.service.topics("local"))


@contextmanager
def topics_in(folder: Path, runner: ScriptedRunner | None = None, disk: Disk | None = None) -> Iterator[Topics]:
    with simulated_services_in(folder, has_model=True) as services:
        topics = Topics(services, runner or ScriptedRunner(), disk or Disk())
        yield topics
        topics.service.close()


def three_subjects(topics: Topics) -> list[Memory]:
    return topics.put(1, *(f"{subject} {at}" for subject in (GARDEN, BOAT, MUSIC) for at in ("one", "two", "three")))


def test_G50_every_active_memory_with_a_vector_is_in_one_leaf_of_its_own_scope(tmp_path: Path) -> None:
    with topics_in(tmp_path) as topics:
        three_subjects(topics)
        topics.put(20, f"{GARDEN} four", f"{GARDEN} five", namespace="shed")
        topics.put(30, f"{GARDEN} six", user_id="anna")
        topics.put(40, f"{GARDEN} seven", state="archived")
        topics.put(50, f"{GARDEN} eight", expires_at=1)
        assert list(topics.leaves("anna").values()) == [{sample_id(30)}]
        here = list(topics.leaves("local", "default").values())
        assert sorted(each for leaf in here for each in leaf) == [sample_id(number) for number in range(1, 10)]
        assert sorted(map(len, here)) == [3, 3, 3]
        seen = topics.leaves("local", "shed", "default")
        assert set().union(*seen.values()) == {sample_id(number) for number in (*range(1, 10), 20, 21)}
        assert seen.keys() == topics.leaves("local", "default").keys() | topics.leaves("local", "shed").keys()


def test_G51_an_unknown_id_has_no_members_and_neither_has_one_of_another_scope(tmp_path: Path) -> None:
    with topics_in(tmp_path) as topics:
        topics.put(1, f"{GARDEN} one", namespace="shed")
        (leaf,) = topics.leaves("local", "shed")
        assert topics.service.members(leaf, "local", ("shed", "default")) is not None
        assert topics.service.members(leaf, "local", ("default",)) is None
        assert topics.service.members(leaf, "anna", ()) is None
        assert topics.service.members("kb999", "local") is None


def test_G42_up_to_ten_changes_are_worked_in_and_more_build_the_tree_again(tmp_path: Path) -> None:
    with topics_in(tmp_path) as topics:
        three_subjects(topics)
        tree = topics.service._trees[HERE]
        topics.put(20, *(f"{BOAT} {at}" for at in range(10)))
        assert topics.service._trees[HERE].changes == 10
        before = topics.leaves()
        topics.put(40, f"{BOAT} more")
        assert topics.service._trees[HERE].changes == 0
        assert before.keys() <= topics.leaves().keys() | set(topics.service._trees[HERE].moved)
        assert {topic.id for topic in tree.topics} & topics.leaves().keys()


def test_a_text_that_changes_is_put_where_it_belongs_now(tmp_path: Path) -> None:
    with topics_in(tmp_path) as topics:
        three_subjects(topics)
        garden, boat = (
            next(each for each, ids in topics.leaves().items() if sample_id(number) in ids) for number in (1, 4)
        )
        put(topics.services, sample_memory(1, f"{BOAT} one", version=2))
        topics.run()
        assert topics.leaves()[garden] == {sample_id(2), sample_id(3)}
        assert sample_id(1) in topics.leaves()[boat]


def test_a_name_goes_with_the_texts_that_it_was_made_of(tmp_path: Path) -> None:
    with topics_in(tmp_path) as topics:
        topics.put(1, "zebra", "zebra")
        before = topics.leaves()
        assert "zebra" in topics.names()
        topics.put(1, f"{GARDEN} one", f"{GARDEN} two", version=2)
        assert "zebra" not in topics.names()
        assert topics.leaves() == before


def test_chunks_of_a_note_count_as_one(tmp_path: Path) -> None:
    with topics_in(tmp_path) as topics:
        topics.put(1, f"{GARDEN} one", f"{GARDEN} two", managed=sample_id(100))
        topics.put(3, f"{GARDEN} three")
        (topic,) = topics.service.topics("local")
        assert topic.member_count == 2
        members = topics.service.members(topic.id, "local")
        assert members is not None
        assert len(members.numbers) == 3


def test_a_name_is_made_of_the_persons_own_words_where_there_are_any(tmp_path: Path) -> None:
    with topics_in(tmp_path) as topics:
        put(topics.services, *(sample_memory(number, f"{GARDEN} hoe {number}", trust="note") for number in range(2)))
        topics.put(2, *(f"{GARDEN} obey {number}" for number in range(4)), trust="agent")
        assert "obey" not in topics.names()
        named_after = {number for topic in topics.service.topics("local") for number in topic.sources}
        assert topics.services.views.attributes.is_own(np.array(sorted(named_after))).all()


def test_what_is_sensitive_names_no_topic_and_is_not_counted_for_an_agent(tmp_path: Path) -> None:
    with topics_in(tmp_path) as topics:
        topics.put(1, "combination vault", "combination vault safe", tags=("sensitive",))
        topics.put(3, f"{GARDEN} one", f"{GARDEN} combination")
        topics.put(5, f"{GARDEN} two", f"{GARDEN} vault", tags=("sensitive",))
        assert "vault" not in topics.names()
        named_after = {number for topic in topics.service._trees[HERE].topics for number in topic.sources}
        assert topics.services.views.attributes.ids(sorted(named_after)) == [sample_id(3), sample_id(4)]
        counts = [topic.member_count for topic in topics.service.topics("local", sees_sensitive=False)]
        assert sum(counts) == 2
        assert 0 not in counts


def test_a_tree_is_the_same_after_a_restart_and_without_its_file_it_has_other_ids(tmp_path: Path) -> None:
    with topics_in(tmp_path) as topics:
        three_subjects(topics)
        listed, leaves = topics.service.topics("local"), topics.leaves()
        topics.service.close()
        topics.open()
        assert topics.service.topics("local") == listed
        topics.run()
        assert topics.service.topics("local") == listed
        topics.service.close()
        (tmp_path / "views" / "topics.view").unlink()
        topics.open()
        assert topics.service.topics("local") == []
        topics.run()
        again = topics.leaves()
        assert sorted(map(sorted, again.values())) == sorted(map(sorted, leaves.values()))
        assert again.keys().isdisjoint(leaves)  # an id of before must not mean something else
        with topics.services.store.snapshot() as snapshot:
            assert int(snapshot.meta(IDS_KEY)) > max(int(each.removeprefix("kb")) for each in again)


def test_a_tree_that_cannot_be_saved_is_not_published(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with topics_in(tmp_path, disk=disk) as topics:
        three_subjects(topics)
        listed = topics.service.topics("local")
        put(topics.services, sample_memory(20, f"{BOAT} more"))
        disk.writing = FULL
        with pytest.raises(OSError, match="No space"):
            topics.run()
        assert topics.service.topics("local") == listed
        disk.writing = None
        topics.run()
        assert sum(topic.member_count for topic in topics.service.topics("local") if not topic.level) == 10


def test_an_end_between_two_slices_leaves_the_former_tree(tmp_path: Path) -> None:
    with topics_in(tmp_path) as topics:
        three_subjects(topics)
        listed = topics.service.topics("local")
        put(topics.services, sample_memory(20, f"{BOAT} more"))
        topics.service._work = topics.service._update()
        next(topics.service._work)
        assert topics.service.topics("local") == listed
        topics.service.close()
        topics.open()
        assert topics.service.topics("local") == listed
        topics.run()
        assert sum(map(len, topics.leaves().values())) == 10


def test_no_word_of_an_erased_memory_is_left_in_names_or_file(tmp_path: Path) -> None:
    with topics_in(tmp_path) as topics:
        topics.put(1, "zebra stable", "zebra hay", "zebra")
        assert "zebra" in topics.names()
        put(topics.services, sample_memory(4, "zebra keeper"))  # of which the tree does not know yet
        write(topics.services.store, *(DropMemory(id=sample_id(number)) for number in (1, 2, 3, 4)))
        topics.service.remove_deleted()
        assert "zebra" not in topics.names()
        assert b"zebra" not in (tmp_path / "views" / "topics.view").read_bytes()
        topics.run()
        assert topics.service.topics("local") == []


def test_a_round_that_an_erasure_overtakes_is_not_published(tmp_path: Path) -> None:
    with topics_in(tmp_path) as topics:
        put(topics.services, *(sample_memory(number, "zebra stable") for number in (1, 2)))
        work = topics.service._update()
        next(work)
        write(topics.services.store, DropMemory(id=sample_id(1)))
        topics.service.remove_deleted()
        for _ in work:
            pass
        assert topics.service.topics("local") == []
        topics.run()
        assert list(topics.leaves().values()) == [{sample_id(2)}]


def test_an_id_that_is_gone_leads_to_where_its_members_went(tmp_path: Path) -> None:
    with topics_in(tmp_path) as topics:
        three_subjects(topics)
        tree = topics.service._trees[HERE]
        moved = {"kb90": (tree.topics[0].id,)}
        topics.service._trees = {HERE: tree._replace(moved=moved)}
        topics.put(20, f"{BOAT} more")
        found = topics.service.members("kb90", "local")
        assert found is not None
        assert found.topic is None
        assert found.moved_to == (tree.topics[0].id,)


def test_a_model_names_topics_once_and_again_when_they_change(tmp_path: Path) -> None:
    runner = ScriptedRunner(lambda texts: "Sailing" if "sail" in texts[0] else "")
    with topics_in(tmp_path, runner) as topics:
        three_subjects(topics)
        named = {topic.name: topic.method for topic in topics.service.topics("local")}
        assert named["Sailing"] == "llm:scripted"
        asked = len(runner.asked)
        assert asked == len(named)  # also those that got no name
        topics.put(20, f"{GARDEN} more")
        assert len(runner.asked) == asked
        put(topics.services, *(sample_memory(number, f"{MUSIC} {number}", version=2) for number in (4, 5, 6)))
        topics.run()
        assert "Sailing" not in topics.names()


def test_two_topics_never_get_the_same_name_from_a_model(tmp_path: Path) -> None:
    with topics_in(tmp_path, ScriptedRunner(lambda _: "Things")) as topics:
        three_subjects(topics)
        assert [topic.name for topic in topics.service.topics("local")].count("Things") == 1


def test_a_rebuild_from_the_beginning_keeps_ids_of_topics_that_are_the_same(tmp_path: Path) -> None:
    with topics_in(tmp_path) as topics:
        three_subjects(topics)
        leaves = topics.leaves()
        topics.service.rebuild("local", ("default",))
        assert not topics.service.is_current()
        assert topics.service.waiting() == 1
        topics.run()
        assert topics.service.is_current()
        assert topics.service.waiting() == 0
        assert topics.leaves() == leaves
