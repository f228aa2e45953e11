"""A store with topic nodes, whose model reads the direction of a text's vector off the text: a number of degrees."""

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mnemo_core.ingest.policies import OWN_POLICY, PolicyOf
from mnemo_daemon.knowledge.topic_nodes import NodeQuery, TopicNodes
from mnemo_daemon.models.embedders.embedder import Embedder, RunAll
from mnemo_store.disk import Disk
from mnemo_store.records import ConversationTurn, Memory, NodeEdge, TopicNode, TurnPair
from mnemo_store.tables import NODE_EDGES, TOPIC_NODES, TURN_PAIRS
from tests.simulation.embedders import Floats, ModelFaults, SimulatedCatalogue, SimulatedEmbedder, SimulatedModels
from tests.support.samples import AT, sample_id, sample_memory, write
from tests.support.store_services import StoreServices, put, simulated_services_in

DEGREES = re.compile(r"-?\d+")


class PlaneEmbedder(SimulatedEmbedder):
    """A text's vector has the direction of the first number in it; of 60 words and more, each window its own."""

    embedded: list[str]  # every text, in order

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        self.embedded += texts
        return super().encode_batch(texts, run_all)

    def _vector(self, words: Sequence[str]) -> Floats:
        angle = math.radians(int(found[0])) if (found := DEGREES.search(" ".join(words))) else math.pi
        vector = np.zeros(self.dimensions, np.float32)
        vector[:2] = math.cos(angle), math.sin(angle)
        return vector


class PlaneModels(SimulatedModels):
    """The models, and what they were asked to embed."""

    def __init__(self, catalogue: SimulatedCatalogue) -> None:
        super().__init__(catalogue, ModelFaults())
        self.embedded: list[str] = []

    def _open(self, name: str) -> Embedder:
        manifest = self._installed.installed(name)
        assert manifest is not None
        embedder = PlaneEmbedder(manifest, self._mood)
        embedder.embedded = self.embedded
        return embedder


class TopicNodeServices:
    """Turns are numbered; a pair has the number of its first turn."""

    def __init__(self, services: StoreServices, models: PlaneModels, policy: PolicyOf) -> None:
        self.services = services
        self.store = services.store
        self.models = models
        self.policy = policy
        self.clock: Callable[[], float] = itertools.count(0.0, 1000.0).__next__  # each look finds that all is quiet
        self.restart()

    def restart(self) -> TopicNodes:
        """The service as it is after a start: with nothing but the store."""
        self.nodes = TopicNodes(self.store, self.services.indexing, self.models, self.policy, lambda: self.clock())
        return self.nodes

    def add(
        self, number: int, degrees: float, *, answer: str = "", namespace: str = "default", user_id: str = "local"
    ) -> None:
        """Store a turn and, with an answer, the next one; and the pair of them."""
        text = f"{degrees:g} turn {number}"
        scope: dict[str, Any] = {"namespace": namespace, "user_id": user_id}
        turns = [_turn(number, text, "user", scope)]
        turns += [_turn(number + 1, answer, "agent", scope)] if answer else []
        put(self.services, *turns)
        pair = TurnPair(id=turns[0].id, reply=turns[-1].id, session_id="s", at=turns[0].event_at, **scope)
        write(self.store, pair)

    def run(self) -> None:
        """Run the job until nothing is left to do."""
        while self.nodes.is_due() and not (self.nodes.is_complete and self.nodes._recalls):
            self.nodes.run_slice()

    def neighbours(self, degrees: float, nodes: Sequence[str], namespaces: tuple[str, ...] = ("default",)) -> list[str]:
        query = self.query(degrees, namespaces)
        with self.store.snapshot() as snapshot:
            return [near.id for near in self.nodes.neighbours(snapshot, query, nodes)]

    def clear_views(self) -> None:
        """Remove dropped memories from indexes and caches, as an erasure has it done."""
        self.services.views.rebuild_without_deleted()
        self.services.indexing.rebuild_without_deleted()
        self.nodes.clear_caches()

    def pairs(self) -> list[TurnPair]:
        with self.store.snapshot() as snapshot:
            return snapshot.scan(TURN_PAIRS)

    def node_records(self) -> list[TopicNode]:
        with self.store.snapshot() as snapshot:
            return snapshot.scan(TOPIC_NODES)

    def edges(self) -> list[NodeEdge]:
        with self.store.snapshot() as snapshot:
            return snapshot.scan(NODE_EDGES)

    def groups(self) -> list[list[int]]:
        """The numbers of the pairs of each node, by the rows in the store."""
        numbers = {sample_id(number): number for number in range(2000)}
        found: dict[str, list[int]] = {}
        for pair in self.pairs():
            found.setdefault(pair.node, []).append(numbers[pair.id])
        assert found.keys() == {node.id for node in self.node_records()}, "every pair has a node, and every node a pair"
        return sorted(map(sorted, found.values()))

    def query(self, degrees: float, namespaces: tuple[str, ...] = ("default",)) -> NodeQuery:
        serving = self.services.indexing.serving()
        assert serving is not None
        vector = serving.embedder.encode_query(f"{degrees:g}")
        return NodeQuery(vector, serving.embedder.space, namespaces=namespaces)

    def found(self, degrees: float, namespaces: tuple[str, ...] = ("default",)) -> list[tuple[list[int], float]]:
        """The nodes that a search finds, as the numbers of their pairs, with the similarity."""
        numbers = {sample_id(number): number for number in range(2000)}
        return [
            ([numbers[member.key[0]] for member in self.nodes.view.members(near.id)], round(near.similarity, 3))
            for near in self.nodes.search(self.query(degrees, namespaces))
        ]


def _turn(number: int, text: str, role: str, scope: Mapping[str, Any]) -> Memory:
    turn = ConversationTurn(role=role, tier="registry")  # type: ignore[arg-type]
    return sample_memory(number, text, turn=turn, source="turn", session_id="s", event_at=AT + number, **scope)


@contextmanager
def topic_node_services_in(
    folder: Path, *, has_model: bool = True, disk: Disk | None = None, policy: PolicyOf | None = None,
    own: Collection[str] = (),
) -> Iterator[TopicNodeServices]:  # fmt: skip
    """own: namespaces in which nodes take in pairs that are alone; the others follow T."""
    with simulated_services_in(folder, has_model=has_model, disk=disk, make=PlaneModels) as services:
        models = services.embedding
        assert isinstance(models, PlaneModels)
        yield TopicNodeServices(
            services, models, policy or (lambda name: OWN_POLICY._replace(absorbs_pairs=name in own))
        )
