"""The graph of topic nodes: what it shows to whom, nodes that are merged, and groups with a name. SPEC 10.2

The model is the default one by its thresholds: nodes are one at 0.912 (24°), and in one group at 0.733 (42°).
"""

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from mnemo_client.protocol.knowledge import GroupView
from mnemo_core.llm.summarize import NameAnswer
from mnemo_core.llm.tasks import AnyTask, TaskInputs
from mnemo_daemon.errors import Refusal
from mnemo_daemon.knowledge.topic_graph import GraphFilter, TopicGraph
from mnemo_daemon.maintenance.erasure import Erasure, clear_names
from mnemo_daemon.models.language.task_runner import TaskResult, TaskRunner
from mnemo_store.disk import Disk
from mnemo_store.record_texts import text_hash
from mnemo_store.records import DropMemory, NodeEdge, PutMemory, TopicNode
from tests.support.erasure_services import CANARY, traces
from tests.support.samples import AT, sample_id, write
from tests.support.store_services import AGENT, PERSON
from tests.support.topic_node_services import TopicNodeServices, topic_node_services_in

HERE = GraphFilter(("default",), "local")


class NameGiver:
    """A runner whose model gives one name; "": there is no model."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.inputs: list[TaskInputs] = []
        self.services: TopicNodeServices | None = None

    def run(self, task: AnyTask, inputs: TaskInputs, *_: object) -> TaskResult[Any]:
        assert self.services is None or not self.services.nodes.changing.locked(), "nobody waits for a model"
        self.inputs.append(inputs)
        if not self.name:
            return TaskResult(task.fallback(inputs), "fallback", "as scripted")
        return TaskResult(NameAnswer(self.name), "llm", model="scripted")


def graph_of(services: TopicNodeServices, tasks: NameGiver | None = None) -> TopicGraph:
    tasks = tasks or NameGiver()
    tasks.services = services
    return TopicGraph(services.store, services.nodes, cast(TaskRunner, tasks))


def node_of(services: TopicNodeServices, number: int) -> str:
    return next(pair.node for pair in services.pairs() if pair.id == sample_id(number))


def filled(services: TopicNodeServices, *degrees: float) -> TopicNodeServices:
    """Pairs with these directions, numbered from 1 on, each joined before the next one comes."""
    for number, each in enumerate(degrees, start=1):
        services.add(number, each)
        services.run()
    return services


def mark_sensitive(services: TopicNodeServices, number: int) -> None:
    memory = services.services.memory(sample_id(number))
    write(services.store, PutMemory(data=msgspec.structs.replace(memory, tags=("sensitive",), version=2)))


def test_a_page_has_the_largest_nodes_first_with_label_members_and_dates(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        graph = graph_of(filled(services, 0, 180, 5, 90))
        page = graph.page(HERE, PERSON, 50)
        shown = [(each.label, each.members, each.parts, each.first_at - AT, each.last_at - AT) for each in page.nodes]
        assert shown[0] == ("0 turn 1", 2, 0, 1, 3)
        assert sorted(shown[1:]) == [("180 turn 2", 1, 0, 2, 2), ("90 turn 4", 1, 0, 4, 4)]
        assert (page.total, page.cursor, page.edges) == (3, None, [])
        first = graph.page(HERE, PERSON, 2)
        rest = graph.page(HERE, PERSON, 2, first.cursor or "")
        assert ([*first.nodes, *rest.nodes], rest.cursor) == (page.nodes, None)
        with pytest.raises(Refusal, match="a cursor is what the page before gave"):
            graph.page(HERE, PERSON, 2, "no cursor")


def test_T8_a_label_is_the_first_80_characters_of_the_first_pair_and_is_stored_nowhere(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        filled(services, 0)
        services.services.edit(sample_id(1), content="0 " + "words " * 40)
        page = graph_of(services).page(HERE, PERSON, 50)
        assert [each.label for each in page.nodes] == [("0 " + "words " * 40)[:80]]
        assert [node.name for node in services.node_records()] == [""]


def test_a_label_shows_a_caller_only_what_it_may_see(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        graph = graph_of(filled(services, 0, 5, 90))
        mark_sensitive(services, 1)
        mark_sensitive(services, 3)
        services.run()
        assert [each.label for each in graph.page(HERE, PERSON, 50).nodes] == ["0 turn 1", "90 turn 3"]
        assert [each.label for each in graph.page(HERE, AGENT, 50).nodes] == ["5 turn 2", ""]


def test_the_graph_of_a_namespace_is_its_own_and_that_of_default(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        for number, namespace in enumerate(("default", "work", "home"), start=1):
            services.add(number, 0, namespace=namespace)
        services.run()
        graph = graph_of(services)

        def labels(namespaces: tuple[str, ...], user: str = "local") -> list[str]:
            page = graph.page(GraphFilter(namespaces, user), PERSON, 50)
            return sorted(each.label for each in page.nodes)

        assert labels(("work", "default")) == ["0 turn 1", "0 turn 2"]
        assert labels(()) == ["0 turn 1", "0 turn 2", "0 turn 3"]
        assert labels((), "anna") == []


def test_edges_are_those_between_the_nodes_shown_the_heaviest_first_and_as_they_are_asked_for(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        filled(services, 0, 90, 180)
        first, second, third = (node_of(services, number) for number in (1, 2, 3))
        for pair, times in (((first, second), 1), ((second, third), 3)):
            for _ in range(times):
                services.nodes.record_co_occurrence(pair)
        services.nodes.write_recalls()
        write(services.store, NodeEdge(source=third, target=first, relation="derived_from", at=1))
        graph = graph_of(services)

        def weights(wanted: GraphFilter, limit: int = 50) -> list[tuple[str, int]]:
            return [(edge.relation, edge.weight) for edge in graph.page(wanted, PERSON, limit).edges]

        assert weights(HERE) == [("co_occurs", 3), ("co_occurs", 1), ("derived_from", 1)]
        assert weights(HERE._replace(relation="co_occurs", min_weight=2)) == [("co_occurs", 3)]
        assert weights(HERE._replace(relation="derived_from")) == [("derived_from", 1)]
        assert weights(HERE, limit=1) == []


def test_T_nodes_that_are_one_are_merged_into_the_largest_with_their_pairs_and_edges(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        filled(services, 0, 0, 75, 150)  # 75° is 0.259 from 0°, and 150° as far from it
        for number, degrees in ((3, 20), (4, 200)):
            services.services.edit(sample_id(number), content=f"{degrees} now")
        services.run()
        first, third, fourth = (node_of(services, number) for number in (1, 3, 4))
        for other in (first, third):
            services.nodes.record_co_occurrence([other, fourth])
        services.nodes.write_recalls()
        graph = graph_of(services)
        merged = [GroupView(first, "0 turn 1", [third])]  # 20° apart
        assert graph.merge("default", "local", PERSON, dry_run=True) == merged
        assert services.groups() == [[1, 2], [3], [4]]
        assert graph.merge("default", "local", PERSON, dry_run=False) == merged
        assert services.groups() == [[1, 2, 3], [4]]
        (edge,) = services.edges()
        assert ({edge.source, edge.target}, edge.weight) == ({first, fourth}, 2)
        assert services.found(0)[0][0] == [1, 2, 3]
        assert graph.merge("default", "local", PERSON, dry_run=False) == []
        services.restart()
        services.run()
        assert services.found(0)[0][0] == [1, 2, 3]


def test_related_nodes_are_grouped_and_a_group_is_named_by_the_words_of_its_parts(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        filled(services, 0, 70, 180)
        services.services.edit(sample_id(1), content="0 harbour tour with Ada")
        services.services.edit(
            sample_id(2), content="40 is the price of the harbour tour"
        )  # 40° away: one group, two nodes
        services.run()
        graph = graph_of(services)
        (group,) = graph.abstract("default", "local", PERSON, 10.0, lambda: False)
        assert (group.label, group.named) == ("harbour tour", False)
        assert group.nodes == sorted([node_of(services, 1), node_of(services, 2)])
        assert {(edge.source, edge.target, edge.relation) for edge in services.edges()} == {
            (group.id, node_of(services, number), "abstracted_from") for number in (1, 2)
        }
        shown = graph.page(HERE, PERSON, 50).nodes[0]
        assert (shown.id, shown.members, shown.parts, shown.label) == (group.id, 2, 2, group.label)
        assert next(node for node in services.node_records() if node.id == group.id).name == ""
        again = graph.abstract("default", "local", PERSON, 10.0, lambda: False)
        assert again == [group], "the same parts are the same group"


def test_a_model_names_a_group_from_texts_that_everybody_may_see_and_before_anything_is_locked(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        filled(services, 0, 70)
        services.services.edit(sample_id(2), content="40 turns of the screw")
        mark_sensitive(services, 1)
        services.run()
        tasks = NameGiver("Turns")
        graph = graph_of(services, tasks)
        (group,) = graph.abstract("default", "local", PERSON, 10.0, lambda: False)
        assert (group.label, group.named) == ("Turns", True)
        assert [each.sources for each in tasks.inputs] == [("40 turns of the screw",)]
        assert graph.abstract("default", "local", PERSON, 10.0, lambda: False) == [group]
        assert len(tasks.inputs) == 1, "what has a name is not named again"
        assert graph.page(HERE, AGENT, 50).nodes[0].label == "Turns"


def test_a_group_whose_parts_have_changed_is_made_again_and_one_without_parts_is_gone(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        filled(services, 0, 70)
        services.services.edit(sample_id(2), content="40 turns of the screw")
        services.run()
        graph = graph_of(services)
        (before,) = graph.abstract("default", "local", PERSON, 10.0, lambda: False)
        services.services.edit(sample_id(2), content="120 turns of the screw")
        services.run()
        assert graph.abstract("default", "local", PERSON, 10.0, lambda: False) == []
        assert before.id not in {node.id for node in services.node_records()}
        assert services.edges() == []


def test_the_deadline_leaves_a_group_without_a_model_but_not_without_a_label(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        filled(services, 0, 70)
        services.services.edit(sample_id(2), content="40 turns of the screw")
        services.run()
        tasks = NameGiver("Turns")
        (group,) = graph_of(services, tasks).abstract("default", "local", PERSON, 0.0, lambda: False)
        assert (tasks.inputs, group.named, bool(group.label)) == ([], False, True)


def test_the_name_of_a_group_is_cleared_when_a_text_with_one_of_its_words_is_erased(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        filled(services, 0)
        names = {900: "Trip to Zanzibar", 901: "The garden", 902: ""}
        for number, name in names.items():
            write(services.store, TopicNode(id=sample_id(number), created_at=1, name=name))
        clear_names(services.store, ["We sail to ZANZIBAR in the morning.", "the"])
        found = {node.id: node.name for node in services.node_records()}
        assert [found[sample_id(number)] for number in names] == ["", "The garden", ""]


def test_an_erasure_leaves_neither_the_vector_of_a_pair_nor_a_name_made_of_its_words(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        filled(services, 0, 5, 70)
        services.services.edit(sample_id(3), content=f"40 is the price of the {CANARY}")
        services.run()
        (group,) = graph_of(services, NameGiver(CANARY)).abstract("default", "local", PERSON, 10.0, lambda: False)
        assert group.label == CANARY
        assert traces(tmp_path, CANARY) != []
        space, digest = services.query(0).space, text_hash(f"User: 40 is the price of the {CANARY}")
        report = Erasure(services.store, Disk(), lambda: [space], services.clear_views).erase([sample_id(3)], "test")
        assert (report.complete, traces(tmp_path, CANARY)) == (True, [])
        with services.store.snapshot() as snapshot:
            assert snapshot.vectors(space, digest, 16) is None
            assert snapshot.vectors(space, text_hash("User: 0 turn 1"), 16) is not None
        embedded = len(services.models.embedded)
        services.run()
        assert services.found(2) == [([1, 2], 1.0)]
        assert [node.name for node in services.node_records()] == ["", ""]
        assert len(services.models.embedded) == embedded, "what stays is not embedded again"


def test_a_group_loses_the_part_whose_last_pair_is_erased(tmp_path: Path) -> None:
    with topic_node_services_in(tmp_path) as services:
        filled(services, 0, 70)
        services.services.edit(sample_id(2), content="40 turns of the screw")
        services.run()
        graph = graph_of(services)
        (group,) = graph.abstract("default", "local", PERSON, 10.0, lambda: False)
        write(services.store, DropMemory(id=sample_id(1)))
        services.run()
        assert [edge.target for edge in services.edges()] == [node_of(services, 2)]
        assert graph.page(HERE, PERSON, 50).nodes[0].id in (group.id, node_of(services, 2))
        write(services.store, DropMemory(id=sample_id(2)))
        services.run()
        assert services.node_records() == []
