"""Devices that share a memory end with the same state, whatever they did and in whatever order they hear of it.

SPEC 21. `make simulate` tries more seeds."""

import random
from collections.abc import Callable

import msgspec
import pytest

from mnemo_core.ingest.mutations import move_to_trash, new_version, restore
from mnemo_store.record_texts import skip_hash
from mnemo_store.records import (
    Change,
    DecisionStatus,
    DropEdge,
    DropMemory,
    DropNodeEdge,
    DropTopicNode,
    Edge,
    ErasedText,
    Fact,
    LifecycleDecision,
    Memory,
    NodeEdge,
    PutDecision,
    PutEdge,
    PutErasedText,
    PutFact,
    PutMemory,
    PutMeta,
    PutNodeEdge,
    PutTopicNode,
    PutUsage,
    TopicNode,
    Usage,
)
from mnemo_store.replication.device_clock import OwnDevices
from mnemo_store.tables import NODE_EDGES, TOPIC_NODES
from tests.support.examples import IS_SWEEP
from tests.support.samples import AT, sample_id, sample_memory
from tests.support.shared_devices import EVERYTHING, SALT, SharedDevice, exchange_all

SEEDS = range(2000 if IS_SWEEP else 80)
DAY = 86_400_000
WORDS = ("kettle", "harbour", "lantern", "violin", "glacier")
# Seeds that once ended differently.
REGRESSIONS = (2_876, 2_984)  # usage shared twice within a millisecond


class SharedLife:
    """Random operations of a seed on several devices, with deliveries in between."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        count = self.random.randint(2, 5)
        errors = [self.random.choice((0, 0, -DAY, DAY, 5_000)) for _ in range(count)]
        self.devices = [SharedDevice(f"{number:016x}", errors[number]) for number in range(count)]
        self.now, self.number = AT, 0
        for device in self.devices:
            for _ in range(self.random.randint(0, 3)):
                self.add(device)
            device.begin_sharing(self.now)

    def live(self, steps: int) -> None:
        operations: list[Callable[[SharedDevice], None]] = [
            self.add, self.add, self.edit, self.edit, self.edit, self.tag, self.trash, self.put_back, self.erase,
            self.use, self.connect, self.disconnect, self.state, self.decide, self.group, self.ungroup, self.age,
        ]  # fmt: skip
        for _ in range(steps):
            self.now += self.random.choice((0, 0, 1, 1_000, DAY // 7))
            device = self.random.choice(self.devices)
            if self.random.random() < 0.5:
                self.random.choice(operations)(device)
            elif self.random.random() < 0.5:
                device.share(self.now)
            else:
                device.receive(self.random.choice([each for each in self.devices if each is not device]), self.now)

    def add(self, device: SharedDevice) -> None:
        self.number += 1
        key = self.random.choice(("", "", "", "", "address", "phone"))
        memory = sample_memory(
            self.number, f"the {self.random.choice(WORDS)} is here", key=key, tags=(self.random.choice(WORDS),)
        )
        self.commit(device, [PutMemory(data=memory), PutUsage(data=Usage(id=memory.id))], "add")

    def edit(self, device: SharedDevice) -> None:
        self.number += 1
        self.change(device, {"content": f"edit {self.random.choice(WORDS)} {self.random.randint(0, 3)}"}, "edit")

    def tag(self, device: SharedDevice) -> None:
        self.change(device, {"tags": tuple(self.random.sample(WORDS, 2))}, "edit")

    def trash(self, device: SharedDevice) -> None:
        if (memory := self.some(device, "active")) is not None:
            self.commit(device, list(move_to_trash(memory, "deleted", self.now)), "rm")

    def put_back(self, device: SharedDevice) -> None:
        if (memory := self.some(device, "trashed")) is not None:
            self.commit(device, list(restore(memory, device.store.trash(memory.id), self.now)), "restore")

    def erase(self, device: SharedDevice) -> None:
        if (memory := self.some(device)) is not None and self.random.random() < 0.5:
            erased = ErasedText(hash=skip_hash(SALT, memory.content), at=self.now)
            self.commit(device, [PutErasedText(data=erased), DropMemory(id=memory.id)], "forget")

    def use(self, device: SharedDevice) -> None:
        if (memory := self.some(device)) is not None:
            usage = device.store.usage(memory.id) or Usage(id=memory.id)
            fields = {
                "access_count": usage.access_count + 1,
                "last_accessed": self.now,
                "strength": self.random.random(),
            }
            self.commit(device, [PutUsage(data=msgspec.structs.replace(usage, **fields))], "recall")

    def connect(self, device: SharedDevice) -> None:
        ends = [self.some(device), self.some(device)]
        if None not in ends and ends[0] != ends[1]:
            source, target = (end.id for end in ends if end is not None)
            edge = Edge(source=source, target=target, relation="related", at=self.now, slot=self.random.random() < 0.5)
            self.commit(device, [PutEdge(data=edge)])

    def disconnect(self, device: SharedDevice) -> None:
        memory = self.some(device)
        for edge in device.store.edges(memory.id)[:1] if memory is not None else ():
            self.commit(device, [DropEdge(source=edge.source, target=edge.target, relation=edge.relation)])

    def state(self, device: SharedDevice) -> None:
        if (memory := self.some(device)) is not None:
            fact = Fact(
                id=sample_id(7_000 + self.random.randint(0, 3)), memory=memory.id, content_hash="00", subject="s",
                predicate="p", object=self.random.choice(WORDS), created_at=self.now,
            )  # fmt: skip
            self.commit(device, [PutFact(data=fact)])

    def decide(self, device: SharedDevice) -> None:
        if (memory := self.some(device)) is not None:
            status: DecisionStatus = "done" if self.random.random() < 0.5 else "rejected"
            decision = LifecycleDecision(
                memory=memory.id, action="archive", other=memory.id, status=status, at=self.now, digest="00"
            )
            self.commit(device, [PutDecision(data=decision)])

    def group(self, device: SharedDevice) -> None:
        nodes = [sample_id(8_000 + self.random.randint(0, 4)) for _ in range(2)]
        changes: list[Change] = [
            PutTopicNode(data=TopicNode(id=node, created_at=self.now, name=self.random.choice(WORDS))) for node in nodes
        ]
        if nodes[0] != nodes[1]:
            edge = NodeEdge(source=min(nodes), target=max(nodes), relation="related", at=self.now)
            changes.append(PutNodeEdge(data=edge))
        self.commit(device, changes)

    def ungroup(self, device: SharedDevice) -> None:
        nodes = device.store.scan(TOPIC_NODES, limit=EVERYTHING)
        if nodes:
            node = self.random.choice(nodes)
            edges = device.store.under(NODE_EDGES, node.id)
            dropped = [DropNodeEdge(source=e.source, target=e.target, relation=e.relation) for e in edges]
            self.commit(device, [*dropped, DropTopicNode(id=node.id)])

    def age(self, device: SharedDevice) -> None:
        self.commit(device, [PutMeta(name="epoch", value=str(int(device.store.meta("epoch") or 0) + 1))])

    def change(self, device: SharedDevice, fields: dict[str, object], what: str) -> None:
        if (memory := self.some(device, "active")) is not None:
            self.commit(device, [PutMemory(data=new_version(memory, self.now, fields))], what)

    def some(self, device: SharedDevice, state: str = "") -> Memory | None:
        found = [each for each in device.store.memories(limit=EVERYTHING) if state in ("", each.state)]
        return self.random.choice(found) if found else None

    def commit(self, device: SharedDevice, changes: list[Change], what: str = "") -> None:
        device.commit(changes, self.now, what)


@pytest.mark.parametrize("seed", [*SEEDS, *REGRESSIONS])
def test_all_devices_end_with_the_same_state(seed: int) -> None:
    life = SharedLife(seed)
    life.live(60 if seed in SEEDS else 150)
    exchange_all(life.devices, life.now)
    first, *others = [device.state() for device in life.devices]
    for other in others:
        assert other.splitlines() == first.splitlines()
    assert OwnDevices.of(life.devices[0].store).current
