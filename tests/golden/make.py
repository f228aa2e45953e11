"""Makes the golden store of the format that this version writes; run once for each format that is released, then kept.

python -m tests.golden.make tests/golden/format-N.tar.gz

Whatever can stand in a store stands in it: both files of the journal in several segments, versions, use, trash, edges,
notes, skips, keys, vectors, facts of the store. What a later version must still find there is next to it as JSON lines.
"""

import gzip
import io
import sys
import tarfile
import tempfile
from pathlib import Path

import msgspec
import numpy as np

from mnemo_store.maintenance import compaction
from mnemo_store.records import (
    ChunkRef,
    DropMemory,
    Edge,
    ErasedText,
    NoteFile,
    NotePlace,
    NoteRoot,
    PutMeta,
    Skip,
    TraceStep,
    TrashEntry,
    Usage,
)
from mnemo_store.store import Store, TextVectors
from mnemo_store.tables import put_of
from tests.support.samples import AT, WAIT_SECONDS, sample_id, sample_memory, write
from tests.support.table_records import GENERIC, sample_record

ROOT, FILE = sample_id(900), sample_id(901)
OWNERS = {
    "memories": sample_id(1),
    "roots": ROOT,
    "notes": FILE,
    "topic_nodes": sample_id(700),
}  # in the golden store, by table


def fill(store: Store) -> None:
    chunks = tuple(ChunkRef(sample_id(20 + place), f"hash{place}", place * 3 + 1, place * 3 + 2) for place in range(2))
    write(store, PutMeta(name="embedding_model", value="all-MiniLM-L6-v2"), what="models use")
    for number in range(1, 9):
        memory = sample_memory(number, f"golden memory {number}: the kettle is on shelf {number} " + "and " * 30)
        write(store, memory, Usage(id=memory.id, access_count=number), what="add")
    core = sample_memory(
        9,
        "golden core memory" + ", with much to say" * 40,
        layer="core",
        kind="procedural",
        tags=("a", "b"),
        pinned=True,
    )
    write(store, core, what="add")
    keyed = sample_memory(10, "golden keyed memory", key="the key", namespace="other", speaker="Ada")
    write(store, keyed, what="add")
    trace = TraceStep(step_number=3, action="open the door", task_objective="leave", outcome="it is open")
    write(store, sample_memory(11, "golden step", kind="procedural", form="step", trace=trace))
    for version in (2, 3):
        edited = sample_memory(1, f"golden memory 1, edited to version {version}", version=version)
        write(store, edited, what="edit")
    gone = sample_memory(2, "golden memory 2, trashed", version=2, state="trashed")
    entry = TrashEntry(id=gone.id, at=AT, why="deleted", state="active")
    write(store, gone, entry, what="rm")
    write(store, DropMemory(id=sample_id(3)), what="trash empty")
    write(store, Edge(source=sample_id(4), target=sample_id(5), relation="related", at=AT))
    note = NoteFile(id=FILE, root=ROOT, path="kitchen.md", title="Kitchen", chunks=chunks, hash="h", size=40)
    places = [
        sample_memory(20 + place, f"golden chunk {place}", managed=FILE, trust="note", source="note",
                      note=NotePlace(title="Kitchen", headings=("Shelves",)))
        for place in range(2)
    ]  # fmt: skip
    root = NoteRoot(id=ROOT, path="/nowhere/notes", added_at=AT)
    skip = Skip(file=FILE, hash="0" * 32)
    write(store, root, note, *places, what="notes")
    write(store, skip, what="rm")
    rows = np.arange(4, dtype=np.float16).reshape(1, 4)
    store.put_vectors([TextVectors("space", b"golden text hash", rows)]).result(WAIT_SECONDS)


def fill_further(store: Store) -> None:
    """A rewritten journal and lines after it, an erased text, other notes, and a record of each of the other tables."""
    store.run_exclusively(compaction.rewrite_journal).result(WAIT_SECONDS)
    write(store, sample_memory(12, "golden memory behind a journal written anew"), what="add")
    write(store, ErasedText(hash="f" * 32, at=AT), what="purge")
    core = sample_memory(9, "golden core memory, edited", layer="core", kind="procedural", version=2)
    write(store, core, what="edit")
    chunk = ChunkRef(sample_id(22), "hash22", 5, 6, ("garden",))
    note = NoteFile(id=sample_id(902), root=ROOT, path="garden.md", title="Garden", chunks=(chunk,), importance=0.5)
    place = NotePlace(title="Garden")
    memory = sample_memory(22, "golden chunk 22", managed=note.id, trust="note", source="note", note=place)
    write(store, note, memory, what="notes")
    chunk = ChunkRef(sample_id(23), "hash23", 1, 2)
    note = NoteFile(id=sample_id(903), root=ROOT, path="2026-08-14.md", title="2026-08-14", chunks=(chunk,), reader=1)
    place = NotePlace(title="2026-08-14", dated=True)
    memory = sample_memory(23, "golden chunk 23", managed=note.id, trust="note", source="note", note=place)
    write(store, note, memory, what="notes")
    for table in GENERIC:
        owners = {parent.field: OWNERS[parent.table] for parent in table.parents}
        record = msgspec.structs.replace(sample_record(table, 700), **owners)
        write(store, put_of(table, record), what="add")


def state_of(store: Store) -> bytes:
    """What stands in it, as JSON lines: the versions of every memory with their seqs, and what else there is."""
    lines: list[object] = []
    with store.snapshot() as snapshot:
        for memory in snapshot.memories():
            usage, entry = snapshot.usage(memory.id), snapshot.trash(memory.id)
            versions = [[stored.seq, stored.memory] for stored in snapshot.versions(memory.id)]
            lines.append({
                "number": snapshot.number(memory.id), "versions": versions, "usage": usage, "trash": entry,
                "edges": snapshot.edges(memory.id),
            })  # fmt: skip
        lines.extend({"note": note, "skips": sorted(snapshot.skips(note.id))} for note in snapshot.notes())
        lines.extend({"forgotten": forgotten} for forgotten in snapshot.forgotten_after())
        lines.extend({"root": root} for root in snapshot.roots())
        for table in GENERIC:
            lines.extend({table.name: record} for record in snapshot.scan(table))
        lines.extend({"seq": seq, "entry": entry} for seq, entry in snapshot.entries(0))
        vectors = snapshot.vectors("space", b"golden text hash", 4)
        lines.append({"vectors": None if vectors is None else vectors.tolist(), "salt": snapshot.meta("salt")})
        lines.append({"seq": snapshot.seq, "sum": snapshot.meta("sum"), "model": snapshot.meta("embedding_model")})
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        clock = iter(range(AT, AT + 10**9, 1000))
        store = Store.open(
            data,
            now=lambda: next(clock),
            random_bytes=lambda n: b"\x07" * n,
            segment_bytes=4000,
            map_bytes=1 << 20,
            reserve_bytes=0,
        )
        fill(store)
        fill_further(store)
        expected = state_of(store)
        store.close()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(data, "data")
        target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
        target.with_name(target.name.replace(".tar.gz", ".jsonl")).write_bytes(expected)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
