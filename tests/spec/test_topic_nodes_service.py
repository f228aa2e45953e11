"""Topic nodes in the store: pairs are joined to them, and they follow what becomes of the pairs. SPEC 8, 10.2

The model is the default one by its thresholds: a pair joins at 0.684 (46°), a node splits at 0.733 (42°).
"""

import math
from pathlib import Path

import msgspec
import pytest

from mnemo_core.ingest.policies import own_policy
from mnemo_core.similarity.thresholds import DEFAULT_MODEL, of_model
from mnemo_daemon.knowledge.topic_nodes import EDGES_MAX, PAIRS_PER_SLICE, QUIET_SECONDS, SEARCHED_SECONDS
from mnemo_store.errors import DiskFull
from mnemo_store.record_texts import pair_text, text_hash
from mnemo_store.records import ConversationTurn, DropMemory, DropTurnPair, NodeEdge, PutTopicNode, TopicNode, TurnPair
from mnemo_store.tables import TOPIC_NODES, TURN_PAIRS
from tests.simulation.embedders import OTHER
from tests.support.faulty_disk import FULL, FaultyDisk
from tests.support.samples import sample_id, sample_memory, write
from tests.support.topic_node_services import TopicNodeServices, topic_node_services_in


def cosine(degrees: float) -> float:
    return round(math.cos(math.radians(degrees)), 3)


def co_occurring(services: TopicNodeServices) -> list[tuple[str, str, int]]:
    return [(edge.source, edge.target, edge.weight) for edge in services.edges() if edge.relation == "co_occurs"]


def test_T7_a_pair_is_embedded_as_its_two_turns_with_their_roles(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        services.add(1, 10, answer="20 is what I say")
        services.add(3, 30)
        services.run()
        assert [text for text in services.models.embedded if ":" in text] == [
            "User: 10 turn 1\nAgent: 20 is what I say", "User: 30 turn 3",
        ]  # fmt: skip
        space = services.query(0).space
        with services.store.snapshot() as snapshot:
            assert snapshot.vectors(space, text_hash("User: 10 turn 1\nAgent: 20 is what I say"), 16) is not None
    answer = sample_memory(1, "So be it", turn=ConversationTurn(role="agent"))
    assert pair_text([answer]) == "Agent: So be it"


def test_T8_pairs_join_the_nearest_node_or_begin_one_by_the_thresholds_of_the_model(tmp_path: Path) -> None:
    assert (of_model(DEFAULT_MODEL).node_join, of_model(DEFAULT_MODEL).node_split) == (0.684, 0.733)
    with topic_node_services_in(tmp_path) as services:
        for number, degrees in enumerate((0, 46, 150, 112), start=1):
            services.add(number, degrees)
        services.run()
        # 46° joins 0° (0.695) with the mean at 23°; 150° is 127° from it; 112° is 38° from 150° and 89° from 23°.
        assert services.groups() == [[1, 2], [3, 4]]
        assert services.found(23) == [([1, 2], 1.0), ([3, 4], cosine(108))]
        node = services.node_records()[0]
        assert (node.name, node.namespace, node.user_id) == ("", "default", "local")


def test_T8_every_pair_gets_a_node_whatever_was_interrupted(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        services.add(1, 90)
        services.run()
        for number in range(2, 2 * PAIRS_PER_SLICE + 2):
            services.add(number, 90 * (number % 4))
        assert services.nodes.run_slice()
        waiting = [pair for pair in services.pairs() if not pair.node]
        assert len(waiting) == PAIRS_PER_SLICE
        services.restart()
        assert services.nodes.is_due()
        services.run()
        everyone = range(1, 2 * PAIRS_PER_SLICE + 2)
        assert services.groups() == sorted([[number for number in everyone if number % 4 == rest] for rest in range(4)])


def test_T8_a_pair_that_waits_at_a_start_joins_a_node_whose_pairs_are_read_after_it(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        for number in range(1, PAIRS_PER_SLICE + 3):
            services.add(number, 0 if number in (1, PAIRS_PER_SLICE + 2) else 90)
        services.run()
        before, (first, *_) = services.groups(), services.pairs()
        write(services.store, msgspec.structs.replace(first, node=""))
        services.restart()
        services.run()
        assert services.groups() == before
        assert services.pairs()[0].node == first.node


def test_T8_a_pair_whose_node_does_not_exist_gets_one(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        services.add(1, 10)
        services.run()
        write(services.store, TurnPair(id=sample_id(1), reply=sample_id(1), session_id="s", at=1, node=sample_id(999)))
        services.run()
        assert services.groups() == [[1]]


def test_T8_a_node_of_21_members_that_falls_apart_is_split_and_its_largest_part_keeps_its_id(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        for number in range(1, 21):
            services.add(number, 0 if number % 2 else 45)  # 0.707: one node, but two parts at 0.733
        services.run()
        assert services.groups() == [list(range(1, 21))]
        (before,) = services.node_records()
        whole = TopicNode(id=sample_id(900), created_at=1, name="All of it")
        above = NodeEdge(source=whole.id, target=before.id, relation="abstracted_from", at=1)
        write(services.store, whole, above)
        services.add(21, 0)
        services.run()
        odd, even = list(range(1, 22, 2)), list(range(2, 21, 2))
        assert sorted(services.found(0)) == [(odd, 1.0), (even, cosine(45))]
        assert {pair.node for pair in services.pairs() if pair.id in map(sample_id, odd)} == {before.id}
        (part,) = {pair.node for pair in services.pairs()} - {before.id}
        assert {(edge.source, edge.target, edge.relation) for edge in services.edges()} == {
            (part, before.id, "derived_from"),
            (whole.id, before.id, "abstracted_from"),
            (whole.id, part, "abstracted_from"),
        }
        services.restart()
        services.run()
        assert sorted(services.found(0)) == [(odd, 1.0), (even, cosine(45))]


def test_a_pair_that_is_alone_is_taken_in_by_the_nearest_node_but_in_the_profile_of_T(tmp_path: Path) -> None:
    assert of_model(DEFAULT_MODEL).topic_absorb == 0.363
    with topic_node_services_in(tmp_path, own=("mine",)) as services:
        for number, degrees in enumerate((0, 50, 150, 109), start=1):  # cosines to the nearest: 0.643, -0.17, 0.755
            services.add(2 * number, degrees, namespace="mine")
            services.add(2 * number + 1, degrees, namespace="T")
        services.run()
        assert services.groups() == [[2, 4], [3], [5], [6, 8], [7, 9]]
        assert {pair.node for pair in services.pairs()} == {node.id for node in services.node_records()}


def test_a_pair_that_is_alone_is_taken_in_by_the_node_whose_members_are_nearest_on_average(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path, own=("default",)) as services:
        services.add(1, 0)
        services.add(2, 56)
        services.run()
        assert services.groups() == [[1, 2]]
        services.add(3, 78)  # 0.643 from the middle of these, on average 0.568 from each
        services.add(4, 130)  # 0.616 from that
        services.run()
        assert services.groups() == [[1, 2], [3, 4]]


def test_pairs_that_were_alone_before_are_taken_in_after_a_start(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        numbers = range(1, 2 * PAIRS_PER_SLICE)
        for number in numbers:
            services.add(number, 0, namespace=f"n{number // 2}")
            write(services.store, TopicNode(id=sample_id(5000 + number), created_at=1, namespace=f"n{number // 2}"))
        write(
            services.store,
            *(
                msgspec.structs.replace(pair, node=sample_id(5000 + number))
                for number, pair in zip(numbers, services.pairs(), strict=True)
            ),
        )
        services.run()
        assert services.groups() == [[number] for number in numbers]
        services.policy = own_policy
        services.restart()
        services.run()
        assert services.groups() == [[1], *([number, number + 1] for number in numbers if number % 2 == 0)]
        assert not services.nodes.is_due()


def test_a_node_that_takes_in_pairs_is_not_split_into_single_ones(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path, own=("default",)) as services:
        for number in range(1, 21):
            services.add(number, 0 if number <= 15 else 45)  # one node, whose centroid is at 10.8°
        services.add(21, -44)  # 0.577 from it, and 0.719 from 0°
        services.run()
        assert services.groups() == [[*range(1, 16), 21], list(range(16, 21))]


def test_nodes_that_take_in_pairs_are_found_by_their_nearest_member(tmp_path: Path) -> None:
    for own, first in (((), [3]), (("default",), [1, 2])):
        with topic_node_services_in(tmp_path / "-".join(own), own=own) as services:
            for number, degrees in enumerate((0, 46, 115), start=1):  # centroids at 23° and 115°
                services.add(number, degrees)
            services.run()
            found, _ = services.found(72)  # 49° and 43° from these, 26° and 43° from the nearest members
            assert found[0] == first


def test_T9_recalls_that_found_two_nodes_are_counted_on_one_edge_in_canonical_order(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        for number, degrees in enumerate((0, 90, 180), start=1):
            services.add(number, degrees)
        services.run()
        a, b, c = sorted(node.id for node in services.node_records())
        services.nodes.record_co_occurrence([b, a])
        services.nodes.record_co_occurrence([a, b])
        services.nodes.record_co_occurrence([c])
        services.nodes.write_recalls()
        assert co_occurring(services) == [(a, b, 2)]
        services.nodes.record_co_occurrence([a, c, b, sample_id(999)])  # one that is gone by now
        assert co_occurring(services) == [(a, b, 2)], "a recall writes nothing itself"
        services.nodes.write_recalls()
        assert co_occurring(services) == [(a, b, 3), (a, c, 1), (b, c, 1)]


def test_T9_neighbours_are_the_nodes_recalled_together_with_others_the_nearest_first(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        for number, degrees in enumerate((0, 90, 180, 270), start=1):
            services.add(number, degrees)
        services.run()
        nodes = {pair.id: pair.node for pair in services.pairs()}
        first, second, third, fourth = (nodes[sample_id(number)] for number in (1, 2, 3, 4))
        for pair in ((first, second), (first, third)):
            services.nodes.record_co_occurrence(pair)
        services.nodes.write_recalls()
        write(services.store, NodeEdge(source=first, target=fourth, relation="derived_from", at=1))
        assert services.neighbours(80, [first]) == [second, third]
        assert services.neighbours(80, [second, third]) == [first]
        assert services.neighbours(80, [first], ("elsewhere",)) == []


def test_a_node_keeps_its_strongest_edges_alone(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        nodes = [TopicNode(id=sample_id(number), created_at=1) for number in range(500, 500 + EDGES_MAX + 2)]
        write(services.store, *nodes)
        first, *others = (node.id for node in nodes)
        for weight in (2, 1):
            for other in others[weight - 1 : EDGES_MAX]:
                services.nodes.record_co_occurrence([first, other])
            services.nodes.write_recalls()
        assert len(co_occurring(services)) == EDGES_MAX
        services.nodes.record_co_occurrence([first, others[-1]])
        services.nodes.write_recalls()
        kept = co_occurring(services)
        assert len(kept) == EDGES_MAX
        assert (first, others[0], 1) not in kept, "the weakest"
        assert (first, others[-1], 1) in kept


def test_an_erased_turn_leaves_its_node_and_an_empty_node_goes_with_its_edges(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        for number, degrees in enumerate((0, 40, 180), start=1):
            services.add(number, degrees)
        services.run()
        assert services.groups() == [[1, 2], [3]]
        services.nodes.record_co_occurrence(node.id for node in services.node_records())
        services.nodes.write_recalls()
        write(services.store, DropMemory(id=sample_id(1)))
        services.run()
        assert services.found(40) == [([2], 1.0), ([3], cosine(140))]
        assert len(co_occurring(services)) == 1
        write(services.store, DropMemory(id=sample_id(3)))
        services.run()
        assert services.groups() == [[2]]
        assert services.edges() == []


def test_a_pair_that_was_dropped_or_archived_leaves_its_node(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        for number, degrees in enumerate((0, 10, 20), start=1):
            services.add(number, degrees)
        services.run()
        first, second, _ = services.pairs()
        write(services.store, DropTurnPair(id=first.id, reply=first.reply))
        write(services.store, TurnPair(id=second.id, reply=second.reply, session_id="s", at=1, is_archived=True))
        services.run()
        assert services.found(20) == [([3], 1.0)]


def test_the_turns_of_a_node_that_are_in_the_trash_are_no_members_until_they_are_restored(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        for number, degrees in enumerate((0, 40, 180), start=1):
            services.add(number, degrees)
        services.run()
        services.services.trash(sample_id(2), sample_id(3))
        services.run()
        assert services.found(0) == [([1], 1.0)]
        services.services.restore(sample_id(2))
        services.services.restore(sample_id(3))
        services.run()
        assert services.groups() == [[1, 2], [3]]
        assert services.found(20) == [([1, 2], 1.0), ([3], cosine(160))]


def test_pairs_are_embedded_once_no_more_come_in_or_a_recall_has_searched_them(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        services.run()
        services.clock = lambda: 50.0
        services.add(1, 0, answer="5 is the answer")
        assert not services.nodes.is_due(), "more may come in"
        assert services.found(0) == []
        assert services.nodes.is_due(), "they are searched"
        services.run()
        assert services.found(0) == [([1], 1.0)]
        services.clock = lambda: 50.0 + SEARCHED_SECONDS
        services.add(3, 90, answer="95 is the answer")
        assert not services.nodes.is_due()
        assert len(services.models.embedded) == 5, "four turns and one pair"
        services.clock = lambda: 50.0 + SEARCHED_SECONDS + QUIET_SECONDS
        services.run()
        assert services.groups() == [[1], [3]]


def test_an_edited_turn_moves_the_centroid_of_its_node(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        services.add(1, 0)
        services.run()
        services.services.edit(sample_id(1), content="30 is the direction now")
        services.run()
        assert services.found(30) == [([1], 1.0)]


def test_after_a_restart_the_nodes_are_the_same_and_no_pair_is_embedded_again(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        for number in range(1, 60, 2):
            services.add(number, number * 6, answer="I see")
        services.run()
        before, embedded = services.found(77), list(services.models.embedded)
        services.restart()
        assert not services.nodes.is_complete
        services.run()
        assert services.found(77) == before
        assert services.models.embedded == embedded


def test_centroids_follow_the_embedding_model_and_members_stay(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        for number, degrees in enumerate((0, 40, 180), start=1):
            services.add(number, degrees)
        services.run()
        old = services.query(0)
        services.models._installed.there.add(OTHER)
        services.models.use(OTHER)
        while (serving := services.services.indexing.serving()) is None or serving.embedder.name != OTHER:
            services.services.indexing.wake()
        assert services.nodes.is_due()
        assert services.nodes.search(services.query(0)) == [], "vectors of two models are not compared"
        services.run()
        assert services.groups() == [[1, 2], [3]]
        assert services.found(20) == [([1, 2], 1.0), ([3], cosine(160))]
        assert len(services.query(0).vector) == 24
        assert services.nodes.search(old) == []


def test_without_a_model_pairs_wait_and_known_members_stay(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        services.add(1, 0)
        services.run()
    with topic_node_services_in(tmp_path, has_model=False) as services:
        services.add(2, 0)
        services.run()
        first, second = services.pairs()
        assert (bool(first.node), second.node) == (True, "")
        assert [member.key[0] for member in services.nodes.view.members(first.node)] == [sample_id(1)]
        assert not services.nodes.is_due()


def test_a_pair_for_which_the_model_gives_no_vector_is_passed_over(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        services.add(1, 0)
        services.models._mood.gives_nan = 1
        services.run()
        assert [pair.node for pair in services.pairs()] == [""]
        services.restart()
        services.run()
        assert services.groups() == [[1]]


def test_the_nodes_of_a_namespace_have_its_pairs_alone_and_are_found_in_it_alone(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        for number, namespace in enumerate(("default", "work", "default"), start=1):
            services.add(number, 0, namespace=namespace)
        services.run()
        assert services.groups() == [[1, 3], [2]]
        assert services.found(0) == [([1, 3], 1.0)]
        assert services.found(0, ("work",)) == [([2], 1.0)]
        assert sorted(services.found(0, ())) == [([1, 3], 1.0), ([2], 1.0)]


def test_the_nodes_of_a_user_have_the_pairs_of_that_user_alone_and_nobody_else_finds_them(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        for number, user_id in enumerate(("local", "anna", "local"), start=1):
            services.add(number, 0, user_id=user_id)
        services.run()
        assert services.groups() == [[1, 3], [2]]
        assert services.found(0) == [([1, 3], 1.0)]
        assert services.nodes.search(services.query(0)._replace(user_id="ben")) == []


def test_a_node_without_members_at_the_start_is_dropped_unless_it_stands_for_others(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        services.add(1, 0)
        services.run()
        (node,) = services.node_records()
        whole, empty = sample_id(900), sample_id(901)
        for made in (whole, empty):
            write(services.store, PutTopicNode(data=TopicNode(id=made, created_at=1, name="A name")))
        write(services.store, NodeEdge(source=whole, target=node.id, relation="abstracted_from", at=1))
        services.restart()
        services.run()
        assert {each.id for each in services.node_records()} == {node.id, whole}
        write(services.store, DropMemory(id=sample_id(1)))
        services.run()
        assert services.node_records() == [], "nothing is left that it stands for"
        assert services.edges() == []


def test_a_write_that_fails_leaves_no_pair_behind(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with topic_node_services_in(tmp_path, disk=disk) as services:
        services.add(1, 0)
        services.run()
        services.add(2, 90)
        disk.writing = FULL
        with pytest.raises(DiskFull):
            services.nodes.run_slice()
        disk.writing = None
        services.run()
        assert services.groups() == [[1], [2]]
        assert services.found(0) == [([1], 1.0), ([2], 0.0)]


def test_the_members_of_a_node_have_the_vectors_of_their_pairs_the_earliest_first(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        for number, degrees in ((5, 0), (3, 30)):
            services.add(number, degrees)
        services.run()
        with services.store.snapshot() as snapshot:
            (node,) = snapshot.scan(TOPIC_NODES)
            assert len(snapshot.scan(TURN_PAIRS)) == 2
        members = services.nodes.view.members(node.id)
        assert [member.key[0] for member in members] == [sample_id(3), sample_id(5)]
        assert members[0].vector is not None
        assert members[0].vector[:2].tolist() == pytest.approx([math.cos(math.pi / 6), 0.5], abs=0.005)
