"""Opening, writing, recovering and closing. SPEC 3.1 to 3.3, 3.5 to 3.7, 17."""

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import lmdb
import msgspec
import numpy as np
import pytest

from mnemo_store.disk import Commits, Disk
from mnemo_store.errors import Busy, Closed, DiskFull, Locked, NewerFormat, OutcomeUnknown, WriteFailed
from mnemo_store.layout import Line, open_line, seal
from mnemo_store.records import (
    ChangeEntry,
    DropMemory,
    DropTrash,
    Memory,
    PutMemory,
    PutMeta,
    PutTrash,
    PutUsage,
    TrashEntry,
    Usage,
    content_hash,
)
from mnemo_store.store import BACKGROUND_QUEUE_MAX, QUEUE_MAX, Applied, Committed, Store, Turn, Vectors
from mnemo_store.tables import DUPLICATES, TABLES, Applying, Snapshot, Tables
from tests.samples import AT, WAIT_SECONDS, opened, remember, sample_id, sample_memory, tables_of, write

NOTHING: Turn[None] = Turn((), None)


def contents(store: Store) -> list[str]:
    with store.snapshot() as snapshot:
        return [memory.content for memory in snapshot.memories()]


def lines_in(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "journal" / name).read_bytes().splitlines()[1:]]


def put(memory: Memory) -> Callable[[Snapshot], Turn[str]]:
    return lambda _: Turn((PutMemory(data=memory),), memory.id)


class Held:
    """The writer, kept busy until `let_go`; what is asked of it meanwhile makes one group afterwards."""

    def __init__(self, store: Store) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.future = store.transact(self._wait, by="test")
        assert self.begun.wait(WAIT_SECONDS)

    def _wait(self, _: Snapshot) -> Turn[None]:
        self.begun.set()
        self.go.wait(WAIT_SECONDS)
        return NOTHING

    def let_go(self) -> None:
        time.sleep(0.006)  # over the time of a group, so that the next one begins with what waits
        self.go.set()
        self.future.result(WAIT_SECONDS)


# Writing


def test_a_write_is_answered_with_its_seq_and_is_there(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        first = store.transact(put(sample_memory(1)), by="me").result(WAIT_SECONDS)
        assert first == Committed(1, sample_id(1))
        assert write(store, PutUsage(data=Usage(id=sample_id(1), access_count=3))) == 2
        with store.snapshot() as snapshot:
            assert snapshot.stored(sample_id(1)) == (1, sample_memory(1))
            assert snapshot.usage(sample_id(1)) == Usage(id=sample_id(1), access_count=3)
            assert snapshot.memory(sample_id(2)) is None
            assert snapshot.seq == store.seq == 2


def test_a_turn_that_changes_nothing_has_no_seq_and_no_line(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert store.transact(lambda _: Turn((), "seen"), by="me").result(WAIT_SECONDS) == Committed(0, "seen")
        assert store.seq == 0
    assert lines_in(tmp_path, "short_term.jsonl") == []


def test_a_decision_sees_what_the_turn_before_it_in_the_same_group_did(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        held = Held(store)

        def count(snapshot: Snapshot) -> Turn[int]:
            number = snapshot.count() + 1
            return Turn((PutMemory(data=sample_memory(number)),), number)

        futures = [store.transact(count, by="me") for _ in range(10)]
        held.let_go()
        assert [future.result(WAIT_SECONDS).result for future in futures] == list(range(1, 11))


def test_a_decision_that_raises_leaves_nothing_and_costs_the_others_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        held = Held(store)

        def fail(snapshot: Snapshot) -> Turn[None]:
            assert isinstance(snapshot, Applying)
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
        write(store, PutUsage(data=Usage(id=sample_id(1))), PutMemory(data=sample_memory(1, layer="core")))
        write(store, PutMemory(data=sample_memory(2)))
        write(store, PutMemory(data=sample_memory(3, compression_source=True)))
    assert [line["seq"] for line in lines_in(tmp_path, "long_term.jsonl")] == [1, 3]
    assert [line["seq"] for line in lines_in(tmp_path, "short_term.jsonl")] == [2]


def test_a_line_says_who_when_and_what_and_names_the_line_before(tmp_path: Path) -> None:
    with opened(tmp_path, now=lambda: AT) as store:
        turn = Turn((PutMeta(name="epoch", value="1"),), None, "tick", "g1")
        store.transact(lambda _: turn, by="clock").result(WAIT_SECONDS)
        write(store, PutMemory(data=sample_memory(1, layer="core")))
    first = lines_in(tmp_path, "short_term.jsonl")[0]
    second = lines_in(tmp_path, "long_term.jsonl")[0]
    assert (first["at"], first["by"], first["what"], first["group"]) == (AT, "clock", "tick", "g1")
    assert first["changes"] == [{"record_type": "meta", "name": "epoch", "value": "1"}]
    assert second["prev"] == [1, first["sum"]]


def test_what_a_transaction_touched_is_kept_with_who_and_what(tmp_path: Path) -> None:
    with opened(tmp_path, now=lambda: AT) as store:
        memory, usage = PutMemory(data=sample_memory(1)), PutUsage(data=Usage(id=sample_id(1)))
        write(store, memory, usage, what="add")
        write(store, DropMemory(id=sample_id(1)))
        with store.snapshot() as snapshot:
            ids = (sample_id(1),)
            assert snapshot.entry(1) == ChangeEntry(at=AT, by="test", ids=ids, used=ids, what="add")
            assert snapshot.entries(1) == [(2, ChangeEntry(at=AT, by="test", ids=ids))]
            assert [seq for seq, _ in snapshot.entries_back()] == [2, 1]


def test_interactive_turns_overtake_background_ones(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        held = Held(store)
        slow = store.transact(put(sample_memory(1)), by="me", background=True)
        quick = store.transact(put(sample_memory(2)), by="me")
        assert store.waiting() == 2
        held.let_go()
        assert (quick.result(WAIT_SECONDS).seq, slow.result(WAIT_SECONDS).seq) == (1, 2)


def test_too_many_waiting_writes_are_refused_and_the_others_are_made(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        held = Held(store)
        futures = [store.transact(lambda _: NOTHING, by="me") for _ in range(QUEUE_MAX)]
        background = [store.transact(lambda _: NOTHING, by="me", background=True) for _ in range(BACKGROUND_QUEUE_MAX)]
        with pytest.raises(Busy, match="1024"):
            store.transact(lambda _: NOTHING, by="me")
        with pytest.raises(Busy, match="256"):
            store.transact(lambda _: NOTHING, by="me", background=True)
        held.let_go()
        for future in futures + background:
            future.result(WAIT_SECONDS)


def test_a_write_that_was_cancelled_while_it_waited_is_not_made(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        held = Held(store)
        future = store.transact(put(sample_memory(1)), by="me")
        assert future.cancel()
        held.let_go()
        assert remember(store, 2).content == "memory number 2"
        assert contents(store) == ["memory number 2"]


def test_a_line_over_the_bytes_of_a_group_is_written_and_comes_back(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        memories = [PutMemory(data=sample_memory(number, chr(0x4E00 + number) * 8192)) for number in range(100)]
        write(store, *memories)
        write(store, PutMemory(data=sample_memory(100)))
    assert (tmp_path / "journal" / "short_term.jsonl").stat().st_size > 100 * 8192 * 3
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert contents(store)[99] == chr(0x4E00 + 99) * 8192
        assert len(contents(store)) == 101


@pytest.mark.parametrize(
    "fields", [{"importance": float("nan")}, {"content": "\ud800"}, {"kind": "nonsense"}, {"created_at": "today"}]
)
def test_what_could_not_be_read_back_is_refused_and_changes_nothing(tmp_path: Path, fields: dict[str, Any]) -> None:
    bad = msgspec.structs.replace(sample_memory(1), **fields)
    with opened(tmp_path) as store:
        with pytest.raises((ValueError, UnicodeEncodeError)):
            store.transact(put(bad), by="me").result(WAIT_SECONDS)
        assert remember(store, 2).id == sample_id(2)
        assert contents(store) == ["memory number 2"]
    assert [line["seq"] for line in lines_in(tmp_path, "short_term.jsonl")] == [1]


def test_followers_hear_of_a_write_before_its_writer_is_answered(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        heard: list[Applied] = []
        seen_pending: list[bool] = []
        future: list[Future[Any]] = []

        def follow(applied: Applied) -> None:
            heard.append(applied)
            seen_pending.append(not future[0].done())

        store.follow(follow)
        held = Held(store)
        future.append(store.transact(put(sample_memory(1)), by="me"))
        held.let_go()
        future[0].result(WAIT_SECONDS)
        assert seen_pending == [True]
        assert heard[0].seq == 1
        assert [(touched.number, touched.memory) for touched in heard[0].touched] == [(0, sample_memory(1))]


# What stands in the tables


def test_every_version_is_kept_with_the_seq_that_made_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        versions = [remember(store, 1, content, version=number) for number, content in enumerate("abc", start=1)]
        with store.snapshot() as snapshot:
            assert snapshot.versions(sample_id(1)) == list(enumerate(versions, start=1))


def test_two_versions_in_one_turn_leave_the_last(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        write(store, PutMemory(data=sample_memory(1, "a")))
        write(store, *(PutMemory(data=sample_memory(1, content)) for content in "bc"))
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
        write(store, PutMemory(data=trashed), PutTrash(data=TrashEntry(id=sample_id(2), at=AT, why="", state="active")))
        assert ids("tea") == []
        write(store, PutMemory(data=sample_memory(2, "TEA")), DropTrash(id=sample_id(2)))
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
    env = lmdb.open(str(tmp_path), max_dbs=len(TABLES), map_size=1 << 24)
    handles = {name: env.open_db(name.encode(), dupsort=name in DUPLICATES) for name in TABLES}

    def rows() -> dict[str, list[tuple[bytes, bytes]]]:
        with env.begin() as transaction:
            return {name: list(transaction.cursor(db=handle)) for name, handle in handles.items()}

    def apply(seq: int, *changes: Any) -> None:
        with env.begin(write=True) as transaction:
            Applying(transaction, Tables(**handles), AT).apply(changes, seq, ChangeEntry(at=AT, by="test"))

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
        store.put_vectors([Vectors("model", b"h" * 16, vectors)]).result(WAIT_SECONDS)
        assert store.seq == 0
    with opened(tmp_path) as store, store.snapshot() as snapshot:
        found = snapshot.vectors("model", b"h" * 16, 4)
        assert found is not None
        np.testing.assert_array_equal(found, vectors)
        assert snapshot.vectors("other", b"h" * 16, 4) is None
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


def test_a_second_store_in_the_same_process_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(Locked, match=f"process {os.getpid()} is using"):
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
    with pytest.raises(Locked, match=f"process {child.pid} is using"):
        Store.open(tmp_path)
    child.kill()
    child.wait()
    child.stdout.close()
    Store.open(tmp_path).close()


def test_a_store_of_a_newer_format_is_refused_unlocked_and_unchanged(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    manifest = tmp_path / "store.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"format":1', b'"format":2'))
    before = manifest.read_bytes()
    for _ in range(2):  # the second time shows that the lock was given back
        with pytest.raises(NewerFormat, match="format 2, this version knows 1"):
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
    held = Held(store)
    futures = [store.transact(put(sample_memory(number)), by="me") for number in range(100)]
    closing = threading.Thread(target=store.close)
    closing.start()
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            futures.append(store.transact(put(sample_memory(len(futures))), by="me"))
        except (Closed, Busy) as error:
            refusal = error
            break
    assert isinstance(refusal, Closed | Busy)
    held.let_go()
    closing.join(WAIT_SECONDS)
    for future in futures:
        future.result(0)
    with pytest.raises(Closed):
        store.transact(lambda _: NOTHING, by="me")
    with pytest.raises(Closed), store.snapshot():
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

    def write_whole(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        if self.failing:
            raise OSError(errno.ENOSPC, "no room")
        super().write_whole(path, pieces)


def test_a_store_that_cannot_be_marked_clean_is_closed_all_the_same(tmp_path: Path) -> None:
    disk = ManifestFails()
    store = Store.open(tmp_path, disk=disk)
    remember(store, 1)
    disk.failing = True
    store.close()
    with opened(tmp_path) as again:
        assert contents(again) == ["memory number 1"]


# What is lost or damaged


@pytest.mark.parametrize("left", [None, b"", b"{", b'{"format":1}', b"\xff\xfe"])
def test_a_lost_or_damaged_store_json_is_written_anew_with_the_same_id_and_salt(
    tmp_path: Path, left: bytes | None
) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
        store_id = store.store_id
        with store.snapshot() as snapshot:
            salt = snapshot.meta("salt")
    path = tmp_path / "store.json"
    if left is None:
        path.unlink()
    else:
        path.write_bytes(left)
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert store.store_id == store_id
        assert "store.json was" in store.reasons[0]
        with store.snapshot() as snapshot:
            assert snapshot.meta("salt") == salt
    with opened(tmp_path) as store:
        assert (store.store_id, store.reasons) == (store_id, [])


def test_the_database_knows_the_id_and_salt_where_all_else_is_lost(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
        store_id = store.store_id
    manifest = json.loads((tmp_path / "store.json").read_bytes())
    (tmp_path / "store.json").unlink()
    shutil.rmtree(tmp_path / "journal")
    with opened(tmp_path) as store:
        assert store.store_id == store_id
        remember(store, 2)
    assert json.loads((tmp_path / "store.json").read_bytes())["salt"] == manifest["salt"]
    header = json.loads((tmp_path / "journal" / "short_term.jsonl").read_bytes().splitlines()[0])
    assert (header["store"], header["salt"]) == (store_id, manifest["salt"])


def test_a_new_salt_comes_from_the_chance_that_was_handed_in(tmp_path: Path) -> None:
    with opened(tmp_path, random_bytes=lambda count: b"\7" * count) as store, store.snapshot() as snapshot:
        assert snapshot.meta("salt") == "07" * 16


def test_a_lost_database_is_restored_and_its_views_go_with_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(1200):  # more than are replayed in one commit
            store.transact(put(sample_memory(number)), by="me")
            while store.waiting() > QUEUE_MAX // 2:
                time.sleep(0.001)
        write(store)
    before = tables_of(tmp_path)
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "words.view").write_bytes(b"by the old numbers")
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert store.reasons == ["the database was missing or empty: restored from the journal"]
        assert not (tmp_path / "views").exists()
    assert tables_of(tmp_path) == before


@pytest.mark.parametrize("harm", ["cut short", "overwritten", "emptied"])
@pytest.mark.parametrize("crashed", [False, True])
def test_a_damaged_database_is_put_aside_and_restored(tmp_path: Path, harm: str, crashed: bool) -> None:
    folder = tmp_path / "store"
    with opened(folder) as store:
        for number in range(50):
            remember(store, number)
        if crashed:
            shutil.copytree(folder, tmp_path / "crashed")
            folder = tmp_path / "crashed"
    data = folder / "db" / "data.mdb"
    size = data.stat().st_size
    match harm:
        case "cut short":
            os.truncate(data, size // 2)
        case "overwritten":
            data.write_bytes(b"\0" * size)
        case "emptied":
            os.truncate(data, 0)
    with opened(folder) as store:
        assert len(contents(store)) == 50
        assert "restored from the journal" in store.reasons[0]
    aside = [path.name for path in folder.iterdir() if path.name.startswith("db.damaged-")]
    assert len(aside) == (0 if harm == "emptied" else 1)
    with opened(folder) as store:
        assert store.reasons == []


def damage_line(path: Path, seq: int) -> None:
    data = path.read_bytes()
    start = data.index(b'{"seq":%d,' % seq)
    path.write_bytes(data[: start + 20] + b"\0" + data[start + 21 :])


def test_a_damaged_line_of_the_journal_does_not_cost_the_rest_when_the_database_is_lost(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(1, 11):
            remember(store, number)
    damage_line(tmp_path / "journal" / "short_term.jsonl", 4)
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert contents(store) == [f"memory number {number}" for number in (1, 2, 3, 5, 6, 7, 8, 9, 10)]
        assert "changes 4 to 4 cannot be read in the journal" in store.reasons
        assert [damage.segment for damage in store.damage] == ["short_term.jsonl"]
        assert remember(store, 11).id == sample_id(11)
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert len(contents(store)) == 10


def test_a_damaged_line_does_not_cost_the_rest_when_the_database_is_an_old_copy(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
    shutil.copytree(tmp_path / "db", tmp_path / "old")
    with opened(tmp_path) as store:
        for number in range(2, 101):  # more than one group can hold
            remember(store, number)
    shutil.rmtree(tmp_path / "db")
    (tmp_path / "old").rename(tmp_path / "db")
    damage_line(tmp_path / "journal" / "short_term.jsonl", 4)
    with opened(tmp_path) as store:
        assert len(contents(store)) == 99
        assert store.reasons == ["changes 4 to 4 cannot be read in the journal"]


def write_group_by_hand(folder: Path, files: list[str]) -> None:
    """Appends what a group would have appended, one memory a line, as a crash before the commit leaves it."""
    ends = [open_line(line) for path in (folder / "journal").glob("*_term.jsonl") for line in
            path.read_bytes().splitlines()[1:]]  # fmt: skip
    last = max(ends, key=lambda end: end[0].seq)
    end = (last[0].seq, last[1])
    for number, file in enumerate(files, start=100):
        memory = sample_memory(number, layer="core" if file == "long_term" else "buffer")
        sealed = seal(Line(end[0] + 1, AT, "me", end, (PutMemory(data=memory),)))
        with (folder / "journal" / f"{file}.jsonl").open("ab") as journal:
            journal.write(sealed.data)
        end = (end[0] + 1, sealed.sum)


def test_a_group_that_stands_whole_in_the_journal_is_replayed_after_a_crash(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
    write_group_by_hand(tmp_path, ["short_term", "long_term", "short_term"])
    with opened(tmp_path) as store:
        assert store.seq == 4
        assert len(contents(store)) == 4
        assert store.reasons == []


def test_behind_a_gap_that_a_crash_left_nothing_counts_for_good(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
    write_group_by_hand(tmp_path, ["short_term", "long_term", "short_term", "long_term"])
    long_term = tmp_path / "journal" / "long_term.jsonl"
    data = long_term.read_bytes()
    long_term.write_bytes(data[: data.index(b"\n") + 30])  # its tail is torn: 3 and 5 are gone, 2 and 4 are whole
    for _ in range(2):
        with opened(tmp_path) as store:
            assert store.seq == 2
            assert contents(store) == ["memory number 1", "memory number 100"]
    with opened(tmp_path) as store:
        assert write(store, PutMemory(data=sample_memory(2))) == 3
    before = tables_of(tmp_path)
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert sorted(contents(store)) == ["memory number 1", "memory number 100", "memory number 2"]
    assert tables_of(tmp_path) == before


def test_a_lost_journal_is_told_and_goes_on_from_the_database(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(3):
            remember(store, number)
        with store.snapshot() as snapshot:
            end = [3, snapshot.meta("sum")]
    shutil.rmtree(tmp_path / "journal")
    with opened(tmp_path) as store:
        assert store.reasons == [
            "the journal ends at change 0, the database at 3: what lies between is in the database alone"
        ]
        assert write(store, PutMemory(data=sample_memory(3))) == 4
        assert len(contents(store)) == 4
    (line,) = lines_in(tmp_path, "short_term.jsonl")
    assert (line["seq"], line["prev"]) == (4, end)
    with opened(tmp_path) as store:
        assert store.reasons == []
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert contents(store) == ["memory number 3"]
        assert "changes 1 to 3 cannot be read in the journal" in store.reasons


# What fails while it runs


class CommitFails(Disk):
    """Fails the commits that are to come, before or after they are made."""

    def __init__(self) -> None:
        self.times = 0
        self.done_all_the_same = False

    def commit(self, transaction: Commits) -> None:
        if self.times > 0:
            self.times -= 1
            if self.done_all_the_same:
                super().commit(transaction)
            raise OSError(errno.EIO, "the disk is ill")
        super().commit(transaction)


@pytest.mark.parametrize("done_all_the_same", [False, True])
def test_a_failed_commit_is_made_up_from_the_journal_while_a_reader_holds_a_snapshot(
    tmp_path: Path, done_all_the_same: bool
) -> None:
    disk = CommitFails()
    disk.done_all_the_same = done_all_the_same
    with opened(tmp_path, disk=disk) as store:
        remember(store, 1)
        heard: list[int] = []
        store.follow(lambda applied: heard.append(applied.seq))
        reading, failed = threading.Event(), threading.Event()
        read: list[int] = []

        def hold() -> None:
            with store.snapshot() as snapshot:
                reading.set()
                failed.wait(WAIT_SECONDS)
                time.sleep(0.05)  # the writer waits for this reader before it closes the database
                read.append(snapshot.count())

        reader = threading.Thread(target=hold)
        reader.start()
        reading.wait(WAIT_SECONDS)
        disk.times = 1
        future = store.transact(put(sample_memory(2)), by="me")
        failed.set()
        assert future.result(WAIT_SECONDS).seq == 2
        reader.join()
        assert read == [1]
        assert heard == [2]
        assert write(store, PutMemory(data=sample_memory(3))) == 3
        assert len(contents(store)) == 3


def test_a_database_that_cannot_be_reopened_answers_that_it_cannot_and_comes_back(tmp_path: Path) -> None:
    disk = CommitFails()
    store = Store.open(tmp_path, disk=disk)
    remember(store, 1)
    disk.times = 1
    data = tmp_path / "db" / "data.mdb"
    whole = data.read_bytes()
    held = Held(store)
    future = store.transact(put(sample_memory(2)), by="me")
    data.rename(tmp_path / "moved.mdb")
    (tmp_path / "db" / "data.mdb").write_bytes(b"\0" * len(whole))
    held.let_go()
    with pytest.raises(OutcomeUnknown):
        future.result(WAIT_SECONDS)
    with pytest.raises(WriteFailed, match="out of order"):
        write(store, PutMemory(data=sample_memory(3)))
    data.write_bytes(whole)
    assert write(store, PutMemory(data=sample_memory(4))) == 3
    assert contents(store) == ["memory number 1", "memory number 2", "memory number 4"]
    store.close()


def test_a_full_database_refuses_the_write_that_fills_it_and_serves_the_others(tmp_path: Path) -> None:
    with opened(tmp_path, map_bytes=1 << 20) as store:
        remember(store, 1)
        held = Held(store)
        small = store.transact(put(sample_memory(2)), by="me")
        big = [PutMemory(data=sample_memory(number, "x" * 8192)) for number in range(100, 400)]
        turn: Turn[None] = Turn(big, None)
        too_big = store.transact(lambda _: turn, by="me")
        also_small = store.transact(put(sample_memory(3)), by="me")
        held.let_go()
        assert small.result(WAIT_SECONDS).seq == 1 + 1
        with pytest.raises(DiskFull, match="database is full"):
            too_big.result(WAIT_SECONDS)
        assert also_small.result(WAIT_SECONDS).seq == 3
        assert write(store, DropMemory(id=sample_id(1))) == 4
    with opened(tmp_path) as store:
        assert contents(store) == ["memory number 2", "memory number 3"]


def test_a_follower_that_raises_takes_no_durable_write_back_and_stops_the_writer(tmp_path: Path) -> None:
    program = """
import pathlib, sys
from mnemo_store.errors import Closed, StoreError
from mnemo_store.store import Store
from tests.samples import remember
store = Store.open(pathlib.Path(sys.argv[1]))
store.follow(lambda applied: 1 / 0)
remember(store, 1)
try:
    while True:
        remember(store, 2)
except StoreError as error:
    print(type(error).__name__)
store.close()
"""
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=WAIT_SECONDS,
        check=True, cwd=Path(__file__).resolve().parents[2],
    )  # fmt: skip
    assert result.stdout.strip() in ("Closed", "WriteFailed")
    assert "ZeroDivisionError" in result.stderr
    with opened(tmp_path) as store:
        assert "memory number 1" in contents(store)
