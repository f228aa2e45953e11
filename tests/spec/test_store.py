"""Opening, writing, recovering and closing. SPEC 3.1 to 3.3, 3.5 to 3.7, 17."""

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import lmdb
import msgspec
import numpy as np
import pytest

from mnemo_store.backend import Snapshot
from mnemo_store.codec import encode_rows
from mnemo_store.commit.commit_group import GROUP_BYTES_MAX
from mnemo_store.commit.write_queue import BACKGROUND_QUEUE_MAX, QUEUE_MAX
from mnemo_store.database.table_access import TABLES_MAX, TableRow, TableSnapshot, TableWriter, open_tables
from mnemo_store.disk import Committable, Disk
from mnemo_store.errors import ClosedStoreError, FolderInUse, NewerFormat, QueueFull
from mnemo_store.indexes.vector_kernels import as_kept
from mnemo_store.record_texts import content_hash
from mnemo_store.records import (
    FORMAT,
    ChangeEntry,
    DropMemory,
    DropTrash,
    PutMemory,
    PutMeta,
    PutTrash,
    PutUsage,
    TrashEntry,
    Usage,
)
from mnemo_store.store import (
    Commit,
    Store,
    TextVectors,
    WriteReceipt,
    WriteResult,
)
from mnemo_store.tables import EMBEDDING_ROWS, TABLE_NAMES
from tests.support.samples import (
    AT,
    NOTHING,
    WAIT_SECONDS,
    HeldWriter,
    contents,
    lines_in,
    opened,
    put,
    remember,
    sample_id,
    sample_memory,
    write,
)

# Writing


def test_a_write_is_answered_with_its_seq_and_is_there(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        first = store.transact(put(sample_memory(1)), by="me").result(WAIT_SECONDS)
        assert first == WriteReceipt(1, sample_id(1))
        assert write(store, Usage(id=sample_id(1), access_count=3)) == 2
        with store.snapshot() as snapshot:
            assert snapshot.stored(sample_id(1)) == (1, sample_memory(1))
            assert snapshot.usage(sample_id(1)) == Usage(id=sample_id(1), access_count=3)
            assert snapshot.memory(sample_id(2)) is None
            assert snapshot.seq == store.seq == 2


def test_a_write_that_changes_nothing_has_no_seq_and_no_line(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert store.transact(lambda _: WriteResult((), "seen"), by="me").result(WAIT_SECONDS) == WriteReceipt(
            0, "seen"
        )
        assert store.seq == 0
    assert lines_in(tmp_path, "short_term.jsonl") == []


def test_a_decision_sees_the_changes_of_the_write_before_it_in_the_same_group(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        held = HeldWriter(store)

        def count(snapshot: Snapshot) -> WriteResult[int]:
            number = snapshot.count() + 1
            return WriteResult((PutMemory(data=sample_memory(number)),), number)

        futures = [store.transact(count, by="me") for _ in range(10)]
        held.let_go()
        assert [future.result(WAIT_SECONDS).result for future in futures] == list(range(1, 11))


def test_a_decision_that_raises_leaves_nothing_and_costs_the_others_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        held = HeldWriter(store)

        def fail(snapshot: Snapshot) -> WriteResult[None]:
            assert isinstance(snapshot, TableWriter)
            snapshot.set_meta("half", "done")
            raise KeyError("mine")

        good = store.transact(put(sample_memory(1)), by="me")
        bad = store.transact(fail, by="me")
        also_good = store.transact(put(sample_memory(2)), by="me")
        held.let_go()
        with pytest.raises(KeyError, match="mine"):
            bad.result(WAIT_SECONDS)
        assert (good.result(WAIT_SECONDS).seq, also_good.result(WAIT_SECONDS).seq) == (1, 2)
        with store.snapshot() as snapshot:
            assert snapshot.meta("half") == ""


def test_a_line_goes_to_the_long_term_file_if_any_of_its_changes_is_long_term(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        write(store, Usage(id=sample_id(1)), sample_memory(1, layer="core"))
        write(store, sample_memory(2))
        write(store, sample_memory(3, compression_source=True))
    assert [line["seq"] for line in lines_in(tmp_path, "long_term.jsonl")] == [1, 3]
    assert [line["seq"] for line in lines_in(tmp_path, "short_term.jsonl")] == [2]


def test_a_line_says_who_when_and_what_and_names_the_line_before(tmp_path: Path) -> None:
    with opened(tmp_path, now=lambda: AT) as store:
        turn = WriteResult((PutMeta(name="epoch", value="1"),), None, "tick", "g1")
        store.transact(lambda _: turn, by="clock").result(WAIT_SECONDS)
        write(store, sample_memory(1, layer="core"))
    first = lines_in(tmp_path, "short_term.jsonl")[0]
    second = lines_in(tmp_path, "long_term.jsonl")[0]
    assert (first["at"], first["by"], first["what"], first["group"]) == (AT, "clock", "tick", "g1")
    assert first["changes"] == [{"record_type": "meta", "name": "epoch", "value": "1"}]
    assert second["prev"] == [1, first["sum"]]


def test_a_transaction_is_recorded_with_author_and_operation(tmp_path: Path) -> None:
    with opened(tmp_path, now=lambda: AT) as store:
        memory, usage = PutMemory(data=sample_memory(1)), PutUsage(data=Usage(id=sample_id(1)))
        write(store, memory, usage, what="add")
        write(store, DropMemory(id=sample_id(1)))
        with store.snapshot() as snapshot:
            ids = (sample_id(1),)
            assert snapshot.entry(1) == ChangeEntry(at=AT, by="test", ids=ids, used=ids, what="add")
            assert snapshot.entries(1) == [(2, ChangeEntry(at=AT, by="test", ids=ids))]
            assert [seq for seq, _ in snapshot.entries_back()] == [2, 1]


def test_interactive_writes_overtake_background_ones(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        held = HeldWriter(store)
        slow = store.transact(put(sample_memory(1)), by="me", background=True)
        quick = store.transact(put(sample_memory(2)), by="me")
        assert store.queue_length() == 2
        held.let_go()
        assert (quick.result(WAIT_SECONDS).seq, slow.result(WAIT_SECONDS).seq) == (1, 2)


def test_too_many_waiting_writes_are_refused_and_the_others_are_made(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        held = HeldWriter(store)
        futures = [store.transact(lambda _: NOTHING, by="me") for _ in range(QUEUE_MAX)]
        background = [store.transact(lambda _: NOTHING, by="me", background=True) for _ in range(BACKGROUND_QUEUE_MAX)]
        with pytest.raises(QueueFull, match="1024"):
            store.transact(lambda _: NOTHING, by="me")
        with pytest.raises(QueueFull, match="256"):
            store.transact(lambda _: NOTHING, by="me", background=True)
        held.let_go()
        for future in futures + background:
            future.result(WAIT_SECONDS)


def test_a_write_that_was_cancelled_while_it_waited_is_not_made(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        held = HeldWriter(store)
        future = store.transact(put(sample_memory(1)), by="me")
        assert future.cancel()
        held.let_go()
        assert remember(store, 2).content == "memory number 2"
        assert contents(store) == ["memory number 2"]


def test_a_line_over_the_bytes_of_a_group_is_written_and_comes_back(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        chance = random.Random(1)
        memories = [PutMemory(data=sample_memory(number, chance.randbytes(4096).hex())) for number in range(100)]
        write(store, *memories)
        write(store, sample_memory(100))
    assert (tmp_path / "journal" / "short_term.jsonl").stat().st_size > 2 * GROUP_BYTES_MAX
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert contents(store)[99] == memories[99].data.content
        assert len(contents(store)) == 101


@pytest.mark.parametrize(
    "fields", [{"importance": float("nan")}, {"content": "\ud800"}, {"kind": "nonsense"}, {"created_at": "today"}]
)
def test_a_write_that_could_not_be_read_back_is_refused_and_changes_nothing(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    bad = msgspec.structs.replace(sample_memory(1), **fields)
    with opened(tmp_path) as store:
        with pytest.raises((ValueError, UnicodeEncodeError)):
            store.transact(put(bad), by="me").result(WAIT_SECONDS)
        assert remember(store, 2).id == sample_id(2)
        assert contents(store) == ["memory number 2"]
    assert [line["seq"] for line in lines_in(tmp_path, "short_term.jsonl")] == [1]


def test_followers_hear_of_a_write_before_its_writer_is_answered(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        heard: list[Commit] = []
        seen_pending: list[bool] = []
        future: list[Future[Any]] = []

        def follow(applied: Commit) -> None:
            heard.append(applied)
            seen_pending.append(not future[0].done())

        store.on_commit(follow)
        held = HeldWriter(store)
        future.append(store.transact(put(sample_memory(1)), by="me"))
        held.let_go()
        future[0].result(WAIT_SECONDS)
        assert seen_pending == [True]
        assert heard[0].seq == 1
        assert [(touched.number, touched.memory) for touched in heard[0].touched] == [(0, sample_memory(1))]


class NotesCalls(Disk):
    """The real disk, with a record of the calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def append(self, fd: int, data: bytes) -> None:
        self.calls.append(f"append {len(data.splitlines())}")
        super().append(fd, data)

    def sync(self, fd: int) -> None:
        self.calls.append("sync")
        super().sync(fd)

    def commit(self, transaction: Committable) -> None:
        self.calls.append("commit")
        super().commit(transaction)


def test_a_group_is_appended_synced_and_committed_once_before_anyone_is_answered(tmp_path: Path) -> None:
    disk = NotesCalls()
    with opened(tmp_path, disk=disk) as store:
        held = HeldWriter(store)
        futures = [store.transact(put(sample_memory(number)), by="me") for number in range(5)]
        futures.append(store.transact(put(sample_memory(5, layer="core")), by="me"))
        disk.calls.clear()
        futures[0].add_done_callback(lambda _: disk.calls.append("answered"))
        held.let_go()
        futures[-1].result(WAIT_SECONDS)
        assert disk.calls == ["append 1", "append 5", "sync", "sync", "commit", "answered"]


class NoDatabase(NotesCalls):
    """A disk that opens no database once `refuses` is set."""

    refuses = False

    def open_database(self, folder: Path, **options: Any) -> Any:
        if self.refuses:
            raise lmdb.DiskError("no such luck")
        return super().open_database(folder, **options)


def test_without_a_database_each_transaction_is_durable_before_the_next_is_written(tmp_path: Path) -> None:
    """Otherwise a power loss could leave the second of a group without the first, which would look like damage."""
    disk = NoDatabase()
    disk.refuses = True
    with opened(tmp_path, disk=disk) as store:
        held = HeldWriter(store)
        memories = sample_memory(1), sample_memory(2, layer="core"), sample_memory(3)
        futures = [store.transact(put(memory), by="me") for memory in memories]
        disk.calls.clear()
        held.let_go()
        assert [future.result(WAIT_SECONDS).seq for future in futures] == [1, 2, 3]
        assert disk.calls == ["append 1", "sync"] * 3


def test_a_group_whose_database_fails_meanwhile_is_written_one_by_one(tmp_path: Path) -> None:
    disk = NoDatabase()

    def fail_once(snapshot: Snapshot) -> WriteResult[str]:
        if not disk.refuses:
            disk.refuses = True
            raise lmdb.DiskError("gone")
        return put(sample_memory(2))(snapshot)

    with opened(tmp_path, disk=disk) as store:
        held = HeldWriter(store)
        decisions = [put(sample_memory(0)), put(sample_memory(1)), fail_once, put(sample_memory(3))]
        futures = [store.transact(decide, by="me") for decide in decisions]
        disk.calls.clear()
        held.let_go()
        assert [future.result(WAIT_SECONDS).seq for future in futures] == [1, 2, 3, 4]
        assert "no such luck" in store.degraded
        assert disk.calls[-8:] == ["append 1", "sync"] * 4


# What stands in the tables


def test_every_version_is_kept_with_the_seq_that_made_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        versions = [remember(store, 1, content, version=number) for number, content in enumerate("abc", start=1)]
        with store.snapshot() as snapshot:
            assert snapshot.versions(sample_id(1)) == list(enumerate(versions, start=1))


def test_two_versions_in_one_write_leave_the_last(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        write(store, sample_memory(1, "a"))
        write(store, *(sample_memory(1, content) for content in "bc"))
        with store.snapshot() as snapshot:
            assert [(stored.seq, stored.memory.content) for stored in snapshot.versions(sample_id(1))] == [
                (1, "a"), (2, "c"),
            ]  # fmt: skip


def test_the_hash_index_follows_edits_trash_and_restore(tmp_path: Path) -> None:
    with opened(tmp_path) as store:

        def ids(content: str) -> list[str]:
            with store.snapshot() as snapshot:
                return snapshot.ids_by_hash("default", "local", "", "", content_hash(content))

        remember(store, 1, "tea")
        remember(store, 2, "TEA")
        remember(store, 3, "tea", namespace="other")
        assert ids("tea") == [sample_id(1), sample_id(2)]
        remember(store, 1, "coffee", version=2)
        assert (ids("tea"), ids("coffee")) == ([sample_id(2)], [sample_id(1)])
        trashed = sample_memory(2, "TEA", state="trashed")
        write(store, trashed, TrashEntry(id=sample_id(2), at=AT, why="", state="active"))
        assert ids("tea") == []
        write(store, sample_memory(2, "TEA"), DropTrash(id=sample_id(2)))
        assert ids("tea") == [sample_id(2)]
        write(store, DropMemory(id=sample_id(2)))
        assert ids("tea") == []


def test_a_number_is_never_given_twice(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(3):
            remember(store, number)
        write(store, DropMemory(id=sample_id(2)))
    with opened(tmp_path) as store:
        remember(store, 3)
        with store.snapshot() as snapshot:
            assert [snapshot.number(sample_id(number)) for number in range(4)] == [0, 1, None, 3]
            assert [snapshot.id_of(number) for number in (1, 2, 3)] == [sample_id(1), None, sample_id(3)]


def test_applying_a_line_twice_leaves_the_same_tables(tmp_path: Path) -> None:
    env = lmdb.open(str(tmp_path), max_dbs=TABLES_MAX, map_size=1 << 24)
    handles = open_tables(env)

    def rows() -> dict[str, list[tuple[bytes, bytes]]]:
        with env.begin() as transaction:
            return {name: list(transaction.cursor(db=handle)) for name, handle in handles.items()}

    def apply(seq: int, *changes: Any) -> None:
        with env.begin(write=True) as transaction:
            TableWriter(transaction, handles, AT).apply(changes, seq, ChangeEntry(at=AT, by="test"))

    entry = TrashEntry(id=sample_id(1), at=AT, why="", state="active")
    steps: list[tuple[Any, ...]] = [
        (PutMemory(data=sample_memory(1, "a", key="k")), PutUsage(data=Usage(id=sample_id(1)))),
        (PutMemory(data=sample_memory(1, "b", version=2)),),
        (PutMemory(data=sample_memory(1, "b", version=3, state="trashed")), PutTrash(data=entry)),
        (PutMemory(data=sample_memory(1, "b", version=4)), DropTrash(id=sample_id(1))),
        (DropMemory(id=sample_id(1)),),
    ]
    for seq, changes in enumerate(steps, start=1):
        apply(seq, *changes)
        once = rows()
        apply(seq, *changes)
        assert rows() == once, changes
    env.close()


def test_vectors_are_kept_under_their_text_and_not_in_the_journal(tmp_path: Path) -> None:
    vectors = np.arange(8, dtype=np.float16).reshape(2, 4)
    with opened(tmp_path) as store:
        store.put_vectors([TextVectors("model", b"h" * 16, vectors)]).result(WAIT_SECONDS)
        assert store.seq == 0
    with opened(tmp_path) as store, store.snapshot() as snapshot:
        found = snapshot.vectors("model", b"h" * 16, 4)
        assert found is not None
        np.testing.assert_array_equal(found, vectors)
        assert snapshot.vectors("other", b"h" * 16, 4) is None
    assert lines_in(tmp_path, "short_term.jsonl") == []


def test_vectors_and_new_memories_leave_little_of_their_pages_empty(tmp_path: Path) -> None:
    """Keys of vectors come in no order; those of memories rise."""
    chance, numbers = random.Random(1), np.random.default_rng(1)
    with opened(tmp_path) as store:
        for _ in range(40):
            hashes = [chance.randbytes(16) for _ in range(10)]
            rows = [numbers.normal(size=(1, 384)).astype(np.float16) for _ in hashes]
            store.put_vectors([TextVectors("m", *each) for each in zip(hashes, rows, strict=True)]).result(WAIT_SECONDS)
        for number in range(1, 200):
            remember(store, number, "x" * chance.randrange(100, 1400))
        sizes = store.part_bytes()
        with store.snapshot() as snapshot:
            assert isinstance(snapshot, TableSnapshot)
            held = sum(len(row.value) for row in snapshot.all_rows("memories"))
        assert sizes["database/embedding_rows"] + sizes["database/embeddings"] < 1.2 * 400 * 2 * 384
        assert sizes["database/memories"] < 1.25 * held


def test_vectors_of_a_store_without_references_are_read_replaced_and_removed(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    keys, vectors = [letter * 16 for letter in (b"a", b"b", b"c")], np.ones(900, np.float16).tobytes()
    with lmdb.open(str(tmp_path / "db"), max_dbs=TABLES_MAX, map_size=1 << 24) as env:
        handles = open_tables(env)
        with env.begin(write=True) as transaction:
            for key in keys[:2]:
                transaction.put(key, vectors, db=handles["embeddings"])
        with env.begin(write=True) as transaction:
            rows = TableWriter(transaction, handles, AT)
            assert rows.rows("embeddings") == [TableRow(key, vectors) for key in keys[:2]]
            rows.put_rows("embeddings", [(keys[0], b"\1one"), (keys[2], vectors), (keys[2], b"\1three")])
            rows.delete_row("embeddings", TableRow(keys[1], vectors))
            left = [TableRow(keys[0], b"\1one"), TableRow(keys[2], b"\1three")]
            assert list(rows.all_rows("embeddings")) == left
            assert rows.has_row("embeddings", left[0])
            assert not rows.has_row("embeddings", TableRow(keys[0], vectors))
            rows.delete_row("embeddings", left[0])
            assert rows.row_count("embeddings") == transaction.stat(handles[EMBEDDING_ROWS])["entries"] == 1
            transaction.drop(handles[EMBEDDING_ROWS], delete=False)
            assert rows.row("embeddings", keys[2]) == b"", "a reference to nothing, which a check reports"


def test_unit_vectors_are_kept_as_codes_and_come_back_near_and_the_same_when_kept_again(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).normal(size=(3, 384))
    units = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)
    odd = np.array([[1, 0, 0]], np.float16)  # codes of an odd number of bytes would look like float16
    with opened(tmp_path) as store:
        kept = [TextVectors("m", b"a" * 16, units), TextVectors("m", b"b" * 16, odd)]
        store.put_vectors(kept).result(WAIT_SECONDS)
        with store.snapshot() as snapshot:
            found = snapshot.vectors("m", b"a" * 16, 384)
            assert found is not None
            assert np.einsum("ij,ij->i", found.astype(np.float64), units.astype(np.float64)).min() > 0.9998
            assert np.array_equal(found, as_kept(units)), "as the index has it"
            assert isinstance(snapshot, TableSnapshot)
            values = [row.value for row in snapshot.all_rows("embeddings")]
            assert sorted(map(len, values)) == [6, 1 + 3 * 384]
            assert encode_rows(found) == max(values, key=len)
            with pytest.raises(ValueError, match="reshape"):
                snapshot.vectors("m", b"a" * 16, 768)


def test_token_rows_are_kept_next_to_the_vectors_of_their_text(tmp_path: Path) -> None:
    """Also that a text has none, so that it is not computed again."""
    rows, nothing = np.arange(-6, 6, dtype=np.int8).reshape(3, 4), np.empty((0, 4), np.int8)
    hashes = [letter * 16 for letter in (b"a", b"b", b"c")]
    with opened(tmp_path) as store:
        vectors = [TextVectors("space", hashes[0], np.ones((1, 4), np.float16))]
        vectors += [TextVectors("late", digest, each) for digest, each in zip(hashes, (rows, nothing), strict=False)]
        store.put_vectors(vectors).result(WAIT_SECONDS)
        assert store.seq == 0
    with opened(tmp_path) as store:
        with store.snapshot() as snapshot:
            found = snapshot.token_rows("late", [hashes[1], hashes[2], hashes[0]], 4)
            assert snapshot.token_rows("other", hashes, 4) == [None, None, None]
            assert snapshot.token_rows("late", [], 4) == []
            together, counts = snapshot.joined_token_rows("late", [hashes[1], hashes[2], hashes[0]], 4)
            assert counts.tolist() == [0, -1, 3], "of one that has none, of one that nobody looked at, and of three"
            assert together.tolist() == rows.tolist()
            assert snapshot.joined_token_rows("late", [], 4)[0].shape == (0, 4)
            assert snapshot.vectors("space", hashes[0], 4) is not None
            with pytest.raises(ValueError, match="holds no token rows"):
                snapshot.token_rows("space", hashes[:1], 4)
            with pytest.raises(ValueError, match="another width"):
                snapshot.joined_token_rows("late", hashes, 5)
        assert found[0] is not None
        assert found[0].shape == (0, 4)
        assert found[1] is None
        assert found[2] is not None
        assert found[2].tolist() == rows.tolist(), "and they outlive the snapshot"
        with store.snapshot() as snapshot, pytest.raises(ValueError, match="reshape"):
            snapshot.token_rows("late", hashes[:1], 5)
    assert lines_in(tmp_path, "short_term.jsonl") == []


def test_times_may_step_back_and_seqs_and_ids_still_grow(tmp_path: Path) -> None:
    times = iter(range(AT, 0, -1000))
    with opened(tmp_path, now=lambda: next(times)) as store:
        ids = [store.new_id() for _ in range(3)]
        assert ids == sorted(ids)
        for number in range(3):
            remember(store, number)
    lines = lines_in(tmp_path, "short_term.jsonl")
    assert [line["seq"] for line in lines] == [1, 2, 3]
    assert lines[0]["at"] > lines[2]["at"]


# Who may open it, and what for


def test_a_second_store_in_the_same_process_is_refused_and_learns_the_holder(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(FolderInUse, match=f"process {os.getpid()} is using"):
        Store.open(tmp_path)
    Store.open(tmp_path).close()


def test_another_process_holds_the_lock_until_it_is_killed(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time; from mnemo_store.store import Store;"
        "store = Store.open(pathlib.Path(sys.argv[1])); print('open', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"open\n"
    with pytest.raises(FolderInUse, match=f"process {child.pid} is using"):
        Store.open(tmp_path)
    child.kill()
    child.wait()
    child.stdout.close()
    Store.open(tmp_path).close()


def test_a_store_of_a_newer_format_is_refused_unlocked_and_unchanged(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    manifest = tmp_path / "store.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"format":%d' % FORMAT, b'"format":%d' % (FORMAT + 1)))
    before = manifest.read_bytes()
    for _ in range(2):  # the second time shows that the lock was given back
        with pytest.raises(NewerFormat, match=f"has format {FORMAT + 1}; this version supports formats up to {FORMAT}"):
            Store.open(tmp_path)
    assert manifest.read_bytes() == before


def test_files_of_the_store_are_for_their_owner_alone(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as store:
        remember(store, 1)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "data").rglob("*")}
    assert modes["db"] == modes["journal"] == 0o700
    assert {mode for name, mode in modes.items() if name not in ("db", "journal")} == {0o600}
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


# Closing


def test_closing_finishes_the_writes_that_wait_and_refuses_new_ones(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    held = HeldWriter(store)
    futures = [store.transact(put(sample_memory(number)), by="me") for number in range(100)]
    closing = threading.Thread(target=store.close)
    closing.start()
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            futures.append(store.transact(put(sample_memory(len(futures))), by="me"))
        except (ClosedStoreError, QueueFull) as error:
            refusal = error
            break
    assert isinstance(refusal, ClosedStoreError | QueueFull)
    held.let_go()
    closing.join(WAIT_SECONDS)
    for future in futures:
        future.result(0)
    with pytest.raises(ClosedStoreError):
        store.transact(lambda _: NOTHING, by="me")
    with pytest.raises(ClosedStoreError), store.snapshot():
        pass
    store.close()
    with opened(tmp_path) as again:
        assert len(contents(again)) == len(futures)


def test_only_a_store_that_was_closed_is_marked_clean(tmp_path: Path) -> None:
    def is_clean() -> bool:
        return bool(json.loads((tmp_path / "store.json").read_bytes())["clean"])

    with opened(tmp_path):
        assert not is_clean()
    assert is_clean()
    with opened(tmp_path):
        assert not is_clean()


class ManifestFails(Disk):
    failing = False

    def replace_file(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        if self.failing:
            raise OSError(errno.ENOSPC, "no room")
        super().replace_file(path, pieces)


def test_a_store_that_cannot_be_marked_clean_is_closed_all_the_same(tmp_path: Path) -> None:
    disk = ManifestFails()
    store = Store.open(tmp_path, disk=disk)
    remember(store, 1)
    disk.failing = True
    store.close()
    with opened(tmp_path) as again:
        assert contents(again) == ["memory number 1"]


def test_the_bytes_of_each_table_and_file_add_up_to_those_of_the_parts(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(1, 40):
            remember(store, number)
        sizes, parts = store.part_bytes(), store.disk_bytes()
        assert {name.partition("/")[2] for name in sizes if name.startswith("database/")} == {
            *TABLE_NAMES, EMBEDDING_ROWS
        }  # fmt: skip
        tables = sum(size for name, size in sizes.items() if name.startswith("database/"))
        assert sizes["database/memories"] > sizes["database/trash"] == 0
        assert 0 < tables <= parts["database"]
        assert sum(size for name, size in sizes.items() if name.startswith("journal/")) == parts["journal"]
