"""Growth of a data folder: bytes per 100,000 memories, and per year of a busy user.

    python -m tests.bench.bench_growth [--memories 100000] [--days 30] [--folder .run/growth]

Vectors are drawn by chance, of MiniLM's size: what they take on a disk does not depend on what they mean. A busy day is
200 new memories, 100 edits, 50 deletes, 300 recalls that each touch what they found, and 20 edits of notes; days are
simulated one after the other and taken times 365. Syncs are left out, since they change no size.
"""

import random
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mnemo_daemon.indexing.views import Views
from mnemo_daemon.maintenance.compaction_backup import StoreMaintenance
from mnemo_store.indexes.vectors import VectorIndex
from mnemo_store.record_texts import embedded_text, text_hash
from mnemo_store.records import (
    Change,
    ChunkRef,
    Memory,
    NoteFile,
    NoteRoot,
    PutMemory,
    PutNote,
    PutRoot,
    PutTrash,
    PutUsage,
    TrashEntry,
    Usage,
)
from mnemo_store.store import Store, TextVectors, WriteResult
from tests.bench import harness
from tests.bench.bench_durability import DiskWithoutSync
from tests.bench.texts import texts
from tests.support.samples import AT, sample_id

DIMENSIONS = 384
SPACE = "growth"
DAY_MS = 86_400_000
NEW, EDITS, DELETES, RECALLS, NOTE_EDITS = 200, 100, 50, 300, 20  # of a busy day
TOUCHED = 8  # memories that a recall touches
NOTES, CHUNKS = 40, 10
KEEP = "90d"  # of the history, for the second compacting
WAITING_MAX = 200


class User:
    """Fills a store, and then lives with it."""

    def __init__(self, folder: Path) -> None:
        self.now = AT
        self.chance = random.Random(11)
        self.drawn = np.random.default_rng(11)
        self.store = Store.open(folder, disk=DiskWithoutSync(), now=lambda: self.now)
        self.views = Views(self.store, DiskWithoutSync())
        self.views.open()
        self.vectors = VectorIndex(DIMENSIONS, SPACE)
        self.texts = self._texts()
        self.count = 0
        self.active: list[Memory] = []
        self.notes: list[NoteFile] = []
        self.used: dict[str, Usage] = {}
        self._asked: list[Future[Any]] = []

    def _texts(self) -> Iterator[str]:
        seed = 0
        while True:
            seed += 1
            yield from texts(10_000, seed)

    # What a user does

    def remember(self, **fields: Any) -> Memory:
        self.count += 1
        fields |= {"created_at": self.now, "modified_at": self.now, "event_at": self.now}
        memory = Memory(id=sample_id(self.count), content=f"{next(self.texts)} {self.count}", **fields)
        self._write("add", PutMemory(data=memory), PutUsage(data=Usage(id=memory.id)))
        self._embed([memory])
        self.active.append(memory)
        return memory

    def edit(self, memory: Memory, *others: Change) -> Memory:
        content, version = f"{next(self.texts)} {memory.version}", memory.version + 1
        edited = msgspec.structs.replace(memory, content=content, version=version, modified_at=self.now)
        self._write("edit", PutMemory(data=edited), *others)
        self._embed([edited])
        return edited

    def a_day(self) -> None:
        self.now += DAY_MS
        for _ in range(NEW):
            self.remember()
        for _ in range(EDITS):
            place = self.chance.randrange(len(self.active))
            self.active[place] = self.edit(self.active[place])
        for _ in range(DELETES):
            memory = self.active.pop(self.chance.randrange(len(self.active)))
            gone = msgspec.structs.replace(memory, state="trashed", version=memory.version + 1)
            entry = TrashEntry(id=memory.id, at=self.now, why="asked", state="active")
            self._write("rm", PutMemory(data=gone), PutTrash(data=entry))
        for _ in range(RECALLS):
            self._write("", *(PutUsage(data=self._touched(each)) for each in self.chance.sample(self.active, TOUCHED)))
        for _ in range(NOTE_EDITS):
            self._edit_note()

    def take_notes(self) -> None:
        root = NoteRoot(id=sample_id(10**9), path="/notes", added_at=self.now)
        self._write("notes", PutRoot(data=root))
        for number in range(NOTES):
            file = sample_id(10**9 + 1 + number)
            chunks = [self.remember(managed=file, layer="working", trust="note") for _ in range(CHUNKS)]
            del self.active[-CHUNKS:]
            refs = tuple(ChunkRef(each.id, "0" * 32, 10 * n + 1, 10 * n + 10) for n, each in enumerate(chunks))
            note = NoteFile(id=file, root=root.id, path=f"note-{number}.md", hash="0" * 32, title="A note", chunks=refs)
            self._write("notes", PutNote(data=note))
            self.notes.append(note)

    def _edit_note(self) -> None:
        note = self.chance.choice(self.notes)
        chunk = self.chance.choice(note.chunks)
        self.settle()
        with self.store.snapshot() as snapshot:
            memory = snapshot.memory(chunk.memory)
        assert memory is not None
        self.edit(memory, PutNote(data=note))

    def _touched(self, memory: Memory) -> Usage:
        before = self.used.get(memory.id, Usage(id=memory.id))
        after = Usage(id=memory.id, access_count=before.access_count + 1, last_accessed=self.now, strength=0.6)
        self.used[memory.id] = after
        return after

    # What becomes of it

    def _write(self, what: str, *changes: Change) -> None:
        turn: WriteResult[None] = WriteResult(changes, None, what)
        self._asked.append(self.store.transact(lambda _: turn, by="bench"))
        if len(self._asked) > WAITING_MAX:
            self.settle()

    def _embed(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            rows = self.drawn.standard_normal((1, DIMENSIONS)).astype(np.float32)
            rows /= np.linalg.norm(rows)
            digest = text_hash(embedded_text(memory))
            self._asked.append(self.store.put_vectors([TextVectors(SPACE, digest, rows.astype(np.float16))]))
            self.vectors.put(int(memory.id[-12:], 16), rows)

    def settle(self) -> None:
        for future in self._asked:
            future.result()
        self._asked = []

    def save_views(self) -> None:
        self.settle()
        self.views.save()
        folder = self.store.folder / "views"
        self.vectors.save(folder, {}, DiskWithoutSync())
        if self.vectors.needs_index():
            self.vectors.build_index(folder, DiskWithoutSync(), lambda: False)
            self.vectors.save(folder, {}, DiskWithoutSync())

    def compact(self, keep: str) -> None:
        StoreMaintenance(self.store, DiskWithoutSync(), lambda: (SPACE,)).compact(keep)


def sizes(folder: Path) -> dict[str, int]:
    """Bytes on the disk of each part."""
    parts = {"journal": "journal", "database": "db", "views": "views"}
    return {
        name: sum(path.stat().st_blocks * 512 for path in (folder / below).rglob("*") if path.is_file())
        for name, below in parts.items()
    }


def said(found: dict[str, float]) -> str:
    parts = "  ".join(f"{name} {size / 1e6:8.1f} MB" for name, size in found.items())
    return f"{parts}  together {sum(found.values()) / 1e6:8.1f} MB"


def main(*, memories: int = 100_000, days: int = 30, folder: Path = Path(".run/growth")) -> None:
    folder = folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.perf_counter()
    user = User(folder / "data")
    try:
        measure(user, memories, days)
    finally:
        user.store.close()
        shutil.rmtree(folder)
    print(f"{time.perf_counter() - began:.0f} s")


def measure(user: User, memories: int, days: int) -> None:
    folder = user.store.folder
    for _ in range(memories):
        user.remember()
    user.save_views()
    filled = sizes(folder)
    print(
        f"{memories} memories of {sum(len(one.content) for one in user.active) / memories:.0f} characters, with vectors"
    )
    print(f"  as written                    {said({**filled})}")
    user.compact("all")
    print(f"  compacted, history kept       {said({**sizes(folder)})}")
    user.take_notes()
    user.save_views()
    before = sizes(folder)
    for _ in range(days):
        user.a_day()
    user.save_views()
    after = sizes(folder)
    year = {name: (after[name] - before[name]) * 365 / days for name in before}
    print(f"a year of a busy user, from {days} days")
    print(f"  as written                    {said(year)}")
    user.compact("all")
    kept = sizes(folder)
    print(f"  compacted, history kept       {said({name: (kept[name] - before[name]) * 365 / days for name in kept})}")
    user.now += 100 * DAY_MS
    user.compact(KEEP)
    kept = sizes(folder)
    print(
        f"  compacted, {KEEP} of history    {said({name: (kept[name] - before[name]) * 365 / days for name in kept})}"
    )


if __name__ == "__main__":
    harness.run(main)
