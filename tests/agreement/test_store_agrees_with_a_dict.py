"""The store against plain dicts, through restarts, crashes and the loss of its database. SPEC 3.1, 3.3, 17.1, 17.3."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mnemo_core.ingest import mutations
from mnemo_store.record_texts import content_hash
from mnemo_store.records import (
    ChunkRef,
    DropEdge,
    DropErasedText,
    DropMemory,
    DropNote,
    DropRoot,
    DropSkip,
    DropTrash,
    Edge,
    ErasedText,
    Memory,
    NoteFile,
    NoteRoot,
    PutMeta,
    PutScore,
    Skip,
    TrashEntry,
    Usage,
)
from mnemo_store.store import Store
from tests.support.examples import examples
from tests.support.samples import AT, quick_folder, sample_id, sample_memory, tables_of, write

CONTENTS = ("the tea is green", "The  Tea is GREEN", "the tea is black", "ein Hügel", "x" * 8192)
KEYS = ("", "a", "b")
NAMESPACES = ("default", "project")
LAYERS = ("buffer", "core")
SCOPE = {"user": "local", "agent": "", "run": ""}
HASHED = ("active", "archived", "compressed", "superseded")  # SPEC 2.1: neither trashed nor discarded
FILES = tuple(sample_id(900 + number) for number in range(2))


class DictModel:
    """The expected content of the store, in plain dicts."""

    def __init__(self) -> None:
        self.versions: dict[str, list[tuple[int, Memory]]] = {}
        self.usage: dict[str, Usage] = {}
        self.trash: dict[str, TrashEntry] = {}
        self.edges: dict[tuple[str, str, str], Edge] = {}
        self.notes: dict[str, NoteFile] = {}
        self.roots: dict[str, NoteRoot] = {}
        self.skips: set[tuple[str, str]] = set()
        self.forgotten: dict[str, ErasedText] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.numbers: dict[str, int] = {}
        self.next_number = 0
        self.epoch = ""
        self.seq = 0
        self.entries: list[tuple[int, tuple[str, ...], tuple[str, ...]]] = []

    def now(self, memory_id: str) -> Memory:
        return self.versions[memory_id][-1][1]

    def put(self, memory: Memory) -> None:
        before = self.versions.setdefault(memory.id, [])
        if before and before[-1][1].key:
            self.keys.pop((before[-1][1].namespace, before[-1][1].key), None)
        before.append((self.seq, memory))
        if memory.key:
            self.keys[memory.namespace, memory.key] = memory.id
        if memory.id not in self.numbers:
            self.numbers[memory.id] = self.next_number
            self.next_number += 1

    def drop(self, memory_id: str) -> None:
        memory = self.versions.pop(memory_id)[-1][1]
        if memory.key:
            del self.keys[memory.namespace, memory.key]
        for table in (self.usage, self.trash, self.numbers):
            table.pop(memory_id, None)
        self.edges = {key: edge for key, edge in self.edges.items() if memory_id not in key}


class StoreMachine(RuleBasedStateMachine):
    """Each rule changes the store and the model alike; the invariant compares all that can be asked."""

    def __init__(self) -> None:
        super().__init__()
        self.context = quick_folder()
        self.root = self.context.__enter__()
        self.copies = 0
        self.folder = self.root / "store"
        self.clock = AT
        self.store = self.open()
        self.model = DictModel()
        self.made = 0

    def open(self) -> Store:
        return Store.open(self.folder, now=lambda: self.clock, segment_bytes=4000)

    def teardown(self) -> None:
        self.store.close()
        self.context.__exit__(None, None, None)

    def write(self, *changes: Any) -> None:  # noqa: C901 - flat: one case a change
        """Writes records and makes changes in both; the model knows what each kind means."""
        model = self.model
        model.seq += 1
        assert write(self.store, *changes) == model.seq
        ids: list[str] = []
        used: list[str] = []
        for change in (getattr(each, "data", each) for each in changes):
            match change:
                case Memory():
                    model.put(change)
                    ids.append(change.id)
                case PutScore(id=memory_id, importance=importance):
                    seq, memory = model.versions[memory_id][-1]
                    model.versions[memory_id][-1] = (seq, msgspec.structs.replace(memory, importance=importance))
                    ids.append(memory_id)
                case DropMemory(id=memory_id):
                    model.drop(memory_id)
                    ids.append(memory_id)
                case Usage():
                    model.usage[change.id] = change
                    used.append(change.id)
                case TrashEntry():
                    model.trash[change.id] = change
                case Edge():
                    model.edges[change.source, change.target, change.relation] = change
                case DropEdge(source=source, target=target, relation=relation):
                    model.edges.pop((source, target, relation), None)
                case NoteFile():
                    model.notes[change.id] = change
                case DropNote(id=file_id):
                    model.notes.pop(file_id, None)
                case Skip():
                    model.skips.add((change.file, change.hash))
                case DropSkip(file=file, hash=digest):
                    model.skips.discard((file, digest))
                case NoteRoot():
                    model.roots[change.id] = change
                case DropRoot(id=root_id):
                    model.roots.pop(root_id, None)
                case ErasedText():
                    model.forgotten[change.hash] = change
                case DropErasedText(hash=digest):
                    model.forgotten.pop(digest, None)
                case PutMeta(value=value):
                    model.epoch = value
                case DropTrash(id=memory_id):
                    model.trash.pop(memory_id, None)
        model.entries.append((model.seq, tuple(dict.fromkeys(ids)), tuple(dict.fromkeys(used))))

    def pick(self, data: st.DataObject, *states: str) -> Memory | None:
        """A memory, of one of these states where some are named."""
        memories = [rows[-1][1] for rows in self.model.versions.values()]
        chosen = [memory for memory in memories if not states or memory.state in states]
        return data.draw(st.sampled_from(chosen)) if chosen else None

    @rule(
        content=st.sampled_from(CONTENTS), namespace=st.sampled_from(NAMESPACES), key=st.sampled_from(KEYS),
        layer=st.sampled_from(LAYERS),
    )  # fmt: skip
    def remember(self, content: str, namespace: str, key: str, layer: Any) -> None:
        if (namespace, key) in self.model.keys:
            key = ""
        self.made += 1
        memory = sample_memory(self.made, content, namespace=namespace, key=key, layer=layer)
        self.write(memory, Usage(id=memory.id))

    @rule(data=st.data(), content=st.sampled_from(CONTENTS), layer=st.sampled_from(LAYERS))
    def edit(self, data: st.DataObject, content: str, layer: Any) -> None:
        memory = self.pick(data, "active")
        if memory is not None:
            after = mutations.new_version(memory, self.clock, {"content": content, "layer": layer})
            self.write(after)

    @rule(data=st.data(), importance=st.floats(0, 1))
    def score(self, data: st.DataObject, importance: float) -> None:
        memory = self.pick(data)
        if memory is not None:
            self.write(PutScore(id=memory.id, importance=importance), Usage(id=memory.id, strength=importance))

    @rule(data=st.data())
    def trash(self, data: st.DataObject) -> None:
        memory = self.pick(data, "active", "archived")
        if memory is not None:
            self.write(*mutations.move_to_trash(memory, "because", self.clock))

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        memory = self.pick(data, "trashed")
        if memory is not None:
            self.write(*mutations.restore(memory, self.model.trash.get(memory.id), self.clock))

    @rule(data=st.data())
    def empty_one_from_the_trash(self, data: st.DataObject) -> None:
        memory = self.pick(data, "trashed")
        if memory is not None:
            self.write(DropMemory(id=memory.id))

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        memory = self.pick(data)
        if memory is not None:
            rows = self.model.versions[memory.id]
            before = rows[-2][1] if len(rows) > 1 else None
            if before is None and memory.state == "trashed":
                return
            self.write(*mutations.revert([mutations.PlannedRevert(memory, before)], "undone", self.clock))

    @rule(data=st.data(), count=st.integers(0, 9))
    def use(self, data: st.DataObject, count: int) -> None:
        memory = self.pick(data)
        if memory is not None:
            self.write(Usage(id=memory.id, access_count=count, strength=count / 10))

    @rule(data=st.data(), drop=st.booleans())
    def relate(self, data: st.DataObject, drop: bool) -> None:
        one, other = self.pick(data), self.pick(data)
        if one is None or other is None or one.id == other.id:
            return
        edge = Edge(source=one.id, target=other.id, relation="related", at=self.clock)
        self.write(DropEdge(source=one.id, target=other.id, relation="related") if drop else edge)

    @rule(file=st.sampled_from(FILES), lines=st.integers(0, 3))
    def note(self, file: str, lines: int) -> None:
        if lines == 0:
            self.write(DropNote(id=file), DropSkip(file=file, hash="00"))
            return
        chunks = tuple(ChunkRef(sample_id(line), "00", line, line) for line in range(1, lines + 1))
        note = NoteFile(id=file, root=sample_id(999), path=f"{lines}.md", chunks=chunks)
        self.write(note, Skip(file=file, hash="00"))

    @rule(root=st.sampled_from(FILES), namespace=st.sampled_from(NAMESPACES), drop=st.booleans())
    def watch(self, root: str, namespace: str, drop: bool) -> None:
        added = NoteRoot(id=root, path="/notes", added_at=self.clock, namespace=namespace)
        self.write(DropRoot(id=root) if drop else added)

    @rule(digest=st.sampled_from(("00", "01")), again=st.booleans())
    def forget(self, digest: str, again: bool) -> None:
        self.write(DropErasedText(hash=digest) if again else ErasedText(hash=digest, at=self.clock))

    @rule(value=st.text(max_size=5))
    def mark(self, value: str) -> None:
        self.write(PutMeta(name="epoch", value=value))

    @rule(step=st.integers(-10_000, 10_000))
    def let_the_clock_step(self, step: int) -> None:
        self.clock += step

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = self.open()
        assert self.store.findings == []

    @rule()
    def crash(self) -> None:
        """Continue on a copy of the disk, which is what a kill would leave."""
        self.copies += 1
        copy = self.root / f"copy{self.copies}"
        write(self.store)  # after an empty write the writer is idle
        shutil.copytree(self.folder, copy)
        self.store.close()
        shutil.rmtree(self.folder)
        self.folder = copy
        self.store = self.open()
        assert self.store.findings == []

    @precondition(lambda self: self.model.seq > 0)
    @rule()
    def lose_the_database(self) -> None:
        """The journal alone gives back every table, byte for byte."""
        self.store.close()
        before = tables_of(self.folder)
        shutil.rmtree(self.folder / "db")
        self.store = self.open()
        assert self.store.findings == ["the database was missing or empty: restored from the journal"]
        self.store.close()
        assert tables_of(self.folder) == before
        self.store = self.open()

    @invariant()
    def everything_agrees(self) -> None:
        model = self.model
        with self.store.snapshot() as snapshot:
            assert snapshot.seq == model.seq
            assert snapshot.meta("epoch") == model.epoch
            assert {memory.id: memory for memory in snapshot.memories()} == {
                memory_id: rows[-1][1] for memory_id, rows in model.versions.items()
            }
            assert snapshot.count() == len(model.versions)
            for memory_id, rows in model.versions.items():
                assert [(stored.seq, stored.memory) for stored in snapshot.versions(memory_id)] == rows
                assert snapshot.usage(memory_id) == model.usage.get(memory_id)
                assert snapshot.trash(memory_id) == model.trash.get(memory_id)
                number = snapshot.number(memory_id)
                assert number == model.numbers[memory_id]
                assert snapshot.id_of(number) == memory_id
                edges = [edge for key, edge in model.edges.items() if memory_id in key]
                assert sorted(map(repr, snapshot.edges(memory_id))) == sorted(map(repr, edges))
            assert {entry.id: entry for entry in snapshot.trash_entries()} == model.trash
            assert {note.id: note for note in snapshot.notes()} == model.notes
            assert {root.id: root for root in snapshot.roots()} == model.roots
            assert {entry.hash: entry for entry in snapshot.forgotten_after()} == model.forgotten
            assert [snapshot.forgotten(digest) for digest in ("00", "01")] == [
                model.forgotten.get(digest) for digest in ("00", "01")
            ]
            for file in FILES:
                assert snapshot.skips(file) == {digest for owner, digest in model.skips if owner == file}
            self.lookups_agree(snapshot)
            rows_kept = [(seq, entry.ids, entry.used) for seq, entry in snapshot.entries(0)]
            assert rows_kept == model.entries

    def lookups_agree(self, snapshot: Any) -> None:
        memories = [rows[-1][1] for rows in self.model.versions.values()]
        for namespace in NAMESPACES:
            for content in CONTENTS:
                digest = content_hash(content)
                expected = {
                    memory.id
                    for memory in memories
                    if memory.namespace == namespace
                    and memory.state in HASHED
                    and memory.content.casefold().split() == content.casefold().split()
                }
                assert set(snapshot.ids_by_hash(namespace, *SCOPE.values(), digest)) == expected
            for key in KEYS[1:]:
                expected_id = self.model.keys.get((namespace, key))
                assert snapshot.id_by_key(namespace, "local", key) == expected_id


TestStoreAgreesWithADict = StoreMachine.TestCase
TestStoreAgreesWithADict.settings = settings(
    max_examples=examples(12), stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_a_store_without_changes_comes_back_from_its_journal_too(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    before = tables_of(tmp_path)
    shutil.rmtree(tmp_path / "db")
    Store.open(tmp_path).close()
    assert tables_of(tmp_path) == before
