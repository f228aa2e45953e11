"""The nine tools of the reference memory server of MCP, called by the official client over `mnemo mcp`. SPEC 20"""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from mnemo_client.client import Client
from mnemo_client.protocol.knowledge import NewFact
from tests.integration.test_mcp_clients import finish, over_the_bridge
from tests.support.running_daemon import RunningDaemon

INES = {"name": "Ines", "entityType": "person", "observations": ["Keeps bees", "Speaks Danish"]}
ACME = {"name": "Acme GmbH", "entityType": "company", "observations": []}
WORKS = {"from": "Ines", "to": "Acme GmbH", "relationType": "consults for"}


class GraphAgent:
    """An agent in a namespace of its own, whose calls each come from a new process."""

    def __init__(self, daemon: RunningDaemon) -> None:
        self.daemon = daemon
        self.namespace = f"kg-{uuid.uuid4().hex[:8]}"

    def ask(self, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
        """Return the results of some calls, in order; without any, the names of the tools."""

        async def meet() -> list[Any]:
            async with over_the_bridge(self.daemon, self.namespace, "auto", "--tools", "knowledge-graph") as client:
                if not calls:
                    return [tool.name for tool in (await client.list_tools()).tools]
                return [await client.call_tool(name, arguments) for name, arguments in calls]

        return finish(meet())

    def values(self, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
        return [result.structured_content for result in self.ask(*calls)]

    def graph(self) -> Any:
        return self.values(("read_graph", {}))[0]


@pytest.fixture
def agent(daemon: RunningDaemon) -> GraphAgent:
    return GraphAgent(daemon)


@pytest.fixture
def person(agent: GraphAgent) -> Iterator[Client]:
    """A client in the namespace of the agent."""
    with agent.daemon.client(agent.namespace, entry_point="cli") as client:
        yield client


def test_exactly_the_nine_tools_are_listed_and_no_other_can_be_called(agent: GraphAgent) -> None:
    assert agent.ask() == [
        "create_entities", "create_relations", "add_observations", "delete_entities", "delete_observations",
        "delete_relations", "read_graph", "search_nodes", "open_nodes",
    ]  # fmt: skip
    refusal = pytest.RaisesExc(MCPError, match="there is no tool 'memory_recall'")
    with pytest.RaisesGroup(refusal, flatten_subgroups=True, allow_unwrapped=True):
        agent.ask(("memory_recall", {"query": "x"}))


def test_entities_relations_and_observations_are_there_for_the_next_process(agent: GraphAgent) -> None:
    created, related, added = agent.ask(
        ("create_entities", {"entities": [INES, ACME, INES]}),
        ("create_relations", {"relations": [WORKS, WORKS]}),
        (
            "add_observations",
            {"observations": [{"entityName": "Ines", "contents": ["Keeps bees", "keeps bees", "Sails"]}]},
        ),
    )
    assert created.structured_content == {"entities": [INES, ACME]}
    assert json.loads(created.content[0].text) == [INES, ACME]
    assert (related.structured_content, json.loads(related.content[0].text)) == ({"relations": [WORKS]}, [WORKS])
    assert added.structured_content == {
        "results": [{"entityName": "Ines", "addedObservations": ["keeps bees", "Sails"]}]
    }
    ines = {**INES, "observations": ["Keeps bees", "Speaks Danish", "keeps bees", "Sails"]}
    assert agent.graph() == {"entities": [ines, ACME], "relations": [WORKS]}
    again, same = agent.values(
        ("create_entities", {"entities": [{**INES, "entityType": "robot"}]}),
        ("create_relations", {"relations": [WORKS]}),
    )
    assert (again, same) == ({"entities": []}, {"relations": []})


def test_nodes_are_searched_and_opened_with_the_relations_of_each(agent: GraphAgent) -> None:
    agent.ask(("create_entities", {"entities": [INES, ACME]}), ("create_relations", {"relations": [WORKS]}))
    found, none, opened = agent.values(
        ("search_nodes", {"query": "DANISH"}), ("search_nodes", {"query": "zebra"}),
        ("open_nodes", {"names": ["Acme GmbH", "Nobody"]}),
    )  # fmt: skip
    assert found == {"entities": [INES], "relations": [WORKS]}
    assert none == {"entities": [], "relations": []}
    assert opened == {"entities": [ACME], "relations": [WORKS]}


def test_deletions_say_how_much_they_found(agent: GraphAgent, person: Client) -> None:
    bob = {"name": "Bob", "entityType": "person", "observations": ["Paints"]}
    knows = {"from": "Bob", "to": "Ines", "relationType": "knows"}
    agent.ask(("create_entities", {"entities": [INES, ACME, bob]}), ("create_relations", {"relations": [WORKS, knows]}))
    texts = [result.content[0].text for result in agent.ask(
        ("delete_observations", {"deletions": [{"entityName": "Ines", "observations": ["Keeps bees"]}]}),
        ("delete_observations", {"deletions": [{"entityName": "Uma", "observations": ["x"]}]}),
        ("delete_relations", {"relations": [WORKS]}),
        ("delete_relations", {"relations": [WORKS]}),
        ("delete_entities", {"entityNames": ["Bob"]}),
        ("delete_entities", {"entityNames": ["Bob", "Acme GmbH"]}),
    )]  # fmt: skip
    assert texts == [
        "Observations deleted successfully",
        "Deleted 0 of 1 observations. Entities not found: Uma",
        "Relations deleted successfully",
        "Deleted 0 of 1 relations. The rest matched nothing.",
        "Entities deleted successfully",
        "Deleted 1 of 2 entities. Not found: Bob",
    ]
    assert agent.graph() == {"entities": [{**INES, "observations": ["Speaks Danish"]}], "relations": []}
    assert sorted(each.content for each in person.list_memories().memories) == ["Ines (person)", "Ines: Speaks Danish"]
    assert [each for each in person.facts().facts if each.predicate in ("knows", "consults for")] == []
    agent.ask(("create_entities", {"entities": [bob]}))
    assert agent.values(("open_nodes", {"names": ["Bob"]})) == [{"entities": [bob], "relations": []}]


def test_the_graph_stands_on_memories_and_facts_that_all_of_mnemo_knows(agent: GraphAgent, person: Client) -> None:
    agent.ask(("create_entities", {"entities": [INES, ACME]}), ("create_relations", {"relations": [WORKS]}))
    assert person.recall("Who keeps bees?").memories[0].content == "Ines: Keeps bees"
    assert person.recall("Who keeps bees?").memories[0].trust == "agent"
    facts = [(each.subject, each.predicate, each.object) for each in person.facts(entity="Ines").facts]
    assert ("Ines", "consults for", "Acme GmbH") in facts
    person.add_facts(facts=[NewFact(subject="Ines", predicate="lives in", object="Porto")])
    assert {"from": "Ines", "to": "Porto", "relationType": "lives in"} in agent.graph()["relations"]


def test_what_the_graph_does_not_know_is_refused(agent: GraphAgent) -> None:
    refused = agent.ask(
        ("create_relations", {"relations": [WORKS]}),
        ("add_observations", {"observations": [{"entityName": "Uma", "contents": ["x"]}]}),
        ("create_entities", {"entities": [{"name": "x"}]}),
    )
    assert [result.is_error for result in refused] == [True] * 3
    assert refused[0].content[0].text.endswith("Entity with name Ines not found")
    assert refused[1].content[0].text.endswith("Entity with name Uma not found")
    assert agent.graph() == {"entities": [], "relations": []}
