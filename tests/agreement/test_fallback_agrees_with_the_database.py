"""The replayed journal ↔ the database: equal answers to every question, after any writes. SPEC 3.4, 17.3."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mnemo_store.backend import Snapshot, StateTransaction, TouchedMemory
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreCorruption, WriteFailure
from mnemo_store.journal import dump
from mnemo_store.journal.journal import Journal, LineLocation, newest_header
from mnemo_store.maintenance import compaction
from mnemo_store.record_texts import content_hash
from mnemo_store.records import Change, ChangeEntry, PutMemory, PutMeta, PutScore, PutUsage, Usage
from mnemo_store.recovery.fallback_state import FallbackState, FallbackWriter
from mnemo_store.recovery.in_memory_tables import InMemoryTables
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import MEMORIES, TABLES, TURN_PAIRS, Table
from tests.support.examples import examples
from tests.support.samples import (
    AT,
    WAIT_SECONDS,
    HeldWriter,
    opened,
    quick_folder,
    remember,
    sample_id,
    sample_memory,
    write,
)
from tests.support.table_records import BY_ITSELF, CONTENTS, IDS, writes

NAMESPACES = ("default", "project")
AGENTS = ("", "scout")
KEYS = ("", "a", "b")
HASHES = ("00", "01", "fe")
NAMES = ("epoch", "model", "ä")  # of facts about the whole store
LIMITS = (0, 1, 2, 1000)
ENTRY = ChangeEntry(at=AT, by="test")  # of every transaction
TOO_LONG = "x" * 512  # for a key of the database

fates = st.sampled_from(("made", "made", "made", "raises", "does not fit"))  # of a write


class AbandonedWriteError(Exception):
    """Raised by a write that must not be made."""


def answers(here: Snapshot) -> dict[str, Any]:
    """The answers of each method of a snapshot to every question that the changes above can affect."""
    seq, slices = here.seq, [(after, limit) for after in ("", *IDS) for limit in LIMITS]
    numbers = range(int(here.meta("next_number") or 0) + 1)
    scopes = [(namespace, "local", agent, "") for namespace in NAMESPACES for agent in AGENTS]
    return {
        "seq": seq,
        "position": here.position,
        "memory": list(map(here.memory, IDS)),
        "memories": [here.memories(*one) for one in slices],
        "meta": [here.meta(name) for name in (*NAMES, "salt", "store", "format", "sum", "next_number", "unknown")],
        "metas": list(here.metas().items()),
        "stored": list(map(here.stored, IDS)),
        "usage": list(map(here.usage, IDS)),
        "count": here.count(),
        "number": list(map(here.number, IDS)),
        "id_of": list(map(here.id_of, numbers)),
        "ids_by_hash": [here.ids_by_hash(*scope, content_hash(content)) for scope in scopes for content in CONTENTS],
        "id_by_key": [here.id_by_key(namespace, "local", key) for namespace in NAMESPACES for key in KEYS],
        "versions": list(map(here.versions, IDS)),
        "all_versions": list(map(here.all_versions, IDS)),
        "entry": [here.entry(one) for one in range(seq + 2)],
        "entries": [here.entries(one, limit) for one in {-1, 0, seq // 2, seq - 1, seq, seq + 1} for limit in LIMITS],
        "entries_back": [list(here.entries_back(limit)) for limit in LIMITS],
        "trash": list(map(here.trash, IDS)),
        "trash_entries": [here.trash_entries(*one) for one in slices],
        "edges": list(map(here.edges, IDS)),
        "facts": list(map(here.facts, IDS)),
        "get": [
            [here.get(table, *table.values_of_subject(name)) for name in names_in(here, table)] for table in TABLES
        ],
        "scan": [
            [here.scan(table, after, limit) for after in keys_in(here, table) for limit in LIMITS] for table in TABLES
        ],
        "scan_back": [
            [list(here.scan_back(table, limit)) for limit in LIMITS] for table in TABLES if not table.other_keys
        ],
        "under": [[here.under(table, one) for one in IDS] for table in TABLES],
        "size": list(map(here.size, TABLES)),
        "row_count": [here.row_count(table.name) for table in TABLES],
        "turns_of": [here.turns_of(pair) for pair in here.scan(TURN_PAIRS)],
        "note": list(map(here.note, IDS)),
        "notes": [here.notes(*one) for one in slices],
        "roots": here.roots(),
        "skips": list(map(here.skips, IDS)),
        "forgotten": list(map(here.forgotten, HASHES)),
        "forgotten_after": [here.forgotten_after(one, limit) for one in ("", *HASHES) for limit in LIMITS],
        "vectors": here.vectors("space", b"0" * 16, 8),
        "token_rows": here.token_rows("space", [b"0" * 16, b"1" * 16], 8),
        "joined_token_rows": [each.tolist() for each in here.joined_token_rows("space", [b"0" * 16, b"1" * 16], 8)],
    }


def names_in(here: Snapshot, table: Table[Any]) -> list[str]:
    """The names of its records, and one of none."""
    nothing = {"id": IDS[0], "seq": 10**6, "text": "unknown"}
    return [*map(table.subject, here.scan(table)), " ".join(str(nothing[kind]) for kind in table.key.kinds)]


def keys_in(here: Snapshot, table: Table[Any]) -> list[bytes]:
    """Keys to walk on from: the beginning, each record's, and those of no record."""
    return [b"", *map(table.key.of, here.scan(table)), b"\x01", b"\xff" * 16]


def all_of(state: FallbackState) -> dict[str, Any]:
    with state.snapshot(AT) as here:
        return answers(here)


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """As ==, but what differs is named."""
    for method, answer in one.items():
        assert answer == other[method], method


@contextmanager
def replayed(folder: Path) -> Iterator[FallbackState]:
    """The state replayed from the journal in this folder alone, as long as it is open."""
    header = newest_header(folder)
    assert header is not None
    journal = Journal(folder, header.store, header.salt, Disk())
    journal.open(read_only=True)
    try:
        yield FallbackState(journal)
    finally:
        journal.close()


def make(group: StateTransaction, seq: int, *made: Change) -> list[TouchedMemory]:
    """One write of a group, as the store makes it."""
    with group.savepoint(AT) as writing:
        return writing.apply(made, seq, ENTRY)


class ReplayAndDatabase(RuleBasedStateMachine):
    """A store, the replay of its journal made again at each step, and one made earlier that followed every group."""

    def __init__(self) -> None:
        super().__init__()
        self.context = quick_folder()
        self.folder = self.context.__enter__()
        self.published: list[tuple[TouchedMemory, ...]] = []
        self.store = self.open()
        self.following = self.follow()

    def open(self) -> Store:
        store = Store.open(self.folder, now=lambda: AT, segment_bytes=4000, reserve_bytes=0)
        store.on_commit(lambda applied: self.published.append(applied.touched))
        return store

    def follow(self) -> FallbackState:
        return self.store.run_exclusively(lambda supervisor: FallbackState(supervisor.journal)).result(WAIT_SECONDS)

    def teardown(self) -> None:
        self.store.close()
        self.context.__exit__(None, None, None)

    @rule(
        asked=st.lists(st.tuples(writes, fates), min_size=1, max_size=4),
        refused=st.lists(writes, max_size=2),
        event=st.sampled_from(("none", "none", "none", "restart", "loss of the database", "journal rewritten")),
    )
    def step(self, asked: list[tuple[list[Change], str]], refused: list[list[Change]], event: str) -> None:
        """One rule, since of several some are left out of a run, and without writes there is nothing to compare."""
        self.write(asked)
        self.give_up(refused)
        if event != "none":
            self.go_on_after(event)

    def write(self, asked: list[tuple[list[Change], str]]) -> None:
        """Several writes that wait together, and so are one group, of which some come to nothing."""
        self.published.clear()
        seq, futures = self.store.seq, []
        held = HeldWriter(self.store)
        for made, fate in asked:
            futures.append(self.store.transact(self.decision(made, fate), by="test"))
        held.let_go()
        for (_, fate), future in zip(asked, futures, strict=True):
            if fate == "made":
                future.result(WAIT_SECONDS)
            else:
                with pytest.raises(AbandonedWriteError if fate == "raises" else WriteFailure):
                    future.result(WAIT_SECONDS)
        with self.store.snapshot() as here:
            end = (here.seq, here.meta("sum"))
        assert self.made_of(asked, seq, end) == self.published

    @staticmethod
    def decision(made: Sequence[Change], fate: str) -> Callable[[Snapshot], WriteResult[None]]:
        def decide(_: Snapshot) -> WriteResult[None]:
            if fate == "raises":
                raise AbandonedWriteError
            return WriteResult([*made, PutMeta(name=TOO_LONG, value="")] if fate == "does not fit" else made, None)

        return decide

    def made_of(self, asked: list[tuple[list[Change], str]], seq: int, end: tuple[int, str]) -> list[Any]:
        """The same group in the replay that follows: what its writes touched."""
        touched = []
        group = self.following.begin()
        for made, fate in asked:
            if fate == "made":
                seq += 1
                touched.append(tuple(make(group, seq, *made)))
            elif fate == "raises":
                with suppress(AbandonedWriteError), group.savepoint(AT) as writing:
                    writing.apply(made, seq + 1, ENTRY)
                    raise AbandonedWriteError
            else:
                with pytest.raises(WriteFailure):
                    make(group, seq + 1, *made, PutMeta(name=TOO_LONG, value=""))
        if touched:
            group.record_end(AT, end)
        group.commit()
        return touched

    def give_up(self, made: list[list[Change]]) -> None:
        """A group that the journal did not take."""
        group = self.following.begin()
        for seq, changes_made in enumerate(made, self.following.end[0] + 1):
            make(group, seq, *changes_made)
        group.record_end(AT, (self.following.end[0] + len(made), "of a line that was refused"))
        group.abort()

    def go_on_after(self, event: str) -> None:
        """All that was read of the journal is at other places then, and the replay begins anew."""
        if event == "journal rewritten":
            if self.is_each_found_by_its_key():
                self.store.run_exclusively(compaction.rewrite_journal).result(WAIT_SECONDS)
        else:
            self.store.close()
            if event == "loss of the database":
                shutil.rmtree(self.folder / "db")
            self.store = self.open()
        self.following = self.follow()

    def is_each_found_by_its_key(self) -> bool:
        """True if each memory is found by its key; of several with one key only the lines tell which."""
        with self.store.snapshot() as here:
            keyed = [memory for memory in here.memories() if memory.key]
            return all(here.id_by_key(each.namespace, each.user_id, each.key) == each.id for each in keyed)

    @invariant()
    def all_agree(self) -> None:
        with self.store.snapshot() as here:
            expected, end = answers(here), (here.seq, here.meta("sum"))
        assert_same(expected, all_of(self.following))
        assert list(dump.write(lambda: self.following.snapshot(AT))) == list(dump.write(self.store.snapshot))
        write(self.store)  # after an empty write the writer is idle
        with replayed(self.folder / "journal") as fresh:
            assert_same(expected, all_of(fresh))
            assert fresh.end == self.following.end == end
            assert fresh.gaps == []


TestReplayAndDatabase = ReplayAndDatabase.TestCase
TestReplayAndDatabase.settings = settings(
    max_examples=examples(6), stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_every_kind_of_change_and_every_method_of_a_snapshot_is_compared(tmp_path: Path) -> None:
    with opened(tmp_path) as store, store.snapshot() as here:
        methods = {name for name in vars(Snapshot) if not name.startswith("_")}
        assert set(answers(here)) == methods
    made = {kind for table in BY_ITSELF for kind in (table.put, table.drop) if kind} | {PutScore}
    assert made == set(get_args(Change))


def all_rows(contents: InMemoryTables) -> dict[str, Any]:
    """The rows of the dicts, in the order in which they are walked."""
    return {name: list(rows.walk()) for name, rows in contents.tables.items()}


def nothing_to_fetch(place: LineLocation) -> bytes:
    raise FileNotFoundError(place)


@settings(max_examples=examples(80), deadline=None)
@given(before=st.lists(writes, max_size=4), made=writes, is_walked=st.booleans())
def test_reverted_rows_leave_no_trace(before: list[list[Change]], made: list[Change], is_walked: bool) -> None:
    contents = InMemoryTables(nothing_to_fetch)
    writing = FallbackWriter(contents, AT)
    for seq, changes_made in enumerate(before, start=1):
        writing.apply(changes_made, seq, ENTRY)
    held = all_rows(contents) if is_walked else None  # the order of the keys is kept from the first walk on
    mark = len(contents.undo)
    with pytest.raises(ValueError, match="not an id"):
        writing.apply([*made, PutUsage(data=Usage(id="00"))], len(before) + 1, ENTRY)
    writing.apply(made, len(before) + 1, ENTRY)
    contents.roll_back(mark)
    again = InMemoryTables(nothing_to_fetch)
    for seq, changes_made in enumerate(before, start=1):
        FallbackWriter(again, AT).apply(changes_made, seq, ENTRY)
    assert all_rows(contents) == all_rows(again)
    assert held in (None, all_rows(contents))


def test_a_reader_sees_a_complete_group_or_none_of_it(tmp_path: Path) -> None:
    """Each group has all memories say one word, each in a write of its own; every third group is given up."""
    with opened(tmp_path) as store:
        state = store.run_exclusively(lambda supervisor: FallbackState(supervisor.journal)).result(WAIT_SECONDS)
    seen: list[set[str]] = []
    has_read, done = threading.Semaphore(0), threading.Event()

    def read() -> None:
        while not done.is_set():
            with state.snapshot(AT) as here:
                walked = {memory.content for memory in here.memories()}
                seen.append(walked | {memory.content for memory in map(here.memory, IDS) if memory})
            has_read.release()

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for word in range(150):
        group = state.begin()
        for number in range(1, len(IDS) + 1):
            make(group, state.end[0] + number, PutMemory(data=sample_memory(number, str(word))))
            time.sleep(0.0001)  # lets the readers in, if nothing keeps them out
        group.record_end(AT, (state.end[0] + len(IDS), ""))
        if word % 3:
            group.commit()
        else:
            group.abort()
        assert has_read.acquire(timeout=WAIT_SECONDS)
    done.set()
    for reader in readers:
        reader.join(WAIT_SECONDS)
    committed: list[set[str]] = [{str(word)} for word in range(150) if word % 3]
    assert [words for words in seen if words and words not in committed] == []
    with state.snapshot(AT) as here:
        assert {memory.content for memory in here.memories()} == {"149"}
        assert here.seq == state.end[0] == 100 * len(IDS)


def test_of_500_changes_in_a_line_each_is_found(tmp_path: Path) -> None:
    memories = [sample_memory(number, layer="core" if number == 499 else "buffer") for number in range(500)]
    with opened(tmp_path) as store:
        write(store, *memories)
    with replayed(tmp_path / "journal") as state, state.snapshot(AT) as here:
        assert here.scan(MEMORIES, limit=1000) == [(1, memory) for memory in memories]
        assert here.memories(after=sample_id(250), limit=2) == memories[251:253]
        assert here.memory(sample_id(499)) == memories[499]


def test_a_change_that_cannot_be_read_is_a_gap_and_what_is_behind_it_is_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(1, 5):
            remember(store, number)
    segment = tmp_path / "journal" / "short_term.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b"memory number 2", b"memory number 0"))
    with replayed(tmp_path / "journal") as state:
        assert state.gaps == ["changes 2 to 2 cannot be read in the journal"]
        assert state.end[0] == 4
        kept = all_of(state)
        with state.snapshot(AT) as here:
            contents = [(here.number(memory.id), memory.content) for memory in here.memories()]
    assert contents == [(0, "memory number 1"), (1, "memory number 3"), (2, "memory number 4")]
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store, store.snapshot() as here:
        assert_same(answers(here), kept)


def test_a_line_damaged_after_its_replay_is_reported_and_costs_no_other(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in (1, 2):
            remember(store, number)
    segment = tmp_path / "journal" / "short_term.jsonl"
    with replayed(tmp_path / "journal") as state:
        segment.write_bytes(segment.read_bytes().replace(b"memory number 2", b"memory number 0"))
        with state.snapshot(AT) as here:
            with pytest.raises(StoreCorruption, match="its checksum does not match"):
                here.memory(sample_id(2))
            assert here.memory(sample_id(1)) == sample_memory(1)


def test_vectors_that_come_after_the_replay_are_kept_for_the_database(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        state = store.run_exclusively(lambda supervisor: FallbackState(supervisor.journal)).result(WAIT_SECONDS)
        group = state.begin()
        with group.savepoint(AT) as writing:
            writing.put_vectors("space", b"0" * 16, np.ones((1, 8), np.float16))
            found = writing.vectors("space", b"0" * 16, 8)
            assert found is not None
            assert found.tolist() == [[1.0] * 8]
            assert writing.vectors("other space", b"0" * 16, 8) is None
            writing.put_vectors("late", b"0" * 16, np.full((2, 8), -1, np.int8))
            rows, nothing = writing.token_rows("late", [b"0" * 16, b"1" * 16], 8)
            together, counts = writing.joined_token_rows("late", [b"0" * 16, b"1" * 16], 8)
            assert rows is not None
            assert rows.tolist() == together.tolist() == [[-1] * 8] * 2
            assert nothing is None
            assert counts.tolist() == [2, -1]
        group.commit()
