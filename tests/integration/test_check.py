"""Check and repair of a daemon that works: its views, over its socket, at the command line. docs/format.md "Check"."""

import asyncio
import contextlib
import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from mnemo_client.errors import RefusalError
from mnemo_client.protocol.maintenance import RepairRequest
from mnemo_core.ingest.mutations import Draft
from mnemo_daemon import settings
from mnemo_daemon.api.resource import WorkerPool
from mnemo_daemon.api.store_routes import MaintenanceApi
from mnemo_daemon.app import Daemon
from mnemo_daemon.errors import Refusal
from mnemo_daemon.indexing.index import BackgroundIndex, IndexProgress
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex
from mnemo_daemon.indexing.vectors.stored_token_rows import TokenBackfill
from mnemo_daemon.maintenance import store_check, store_repair
from mnemo_daemon.maintenance.offline_maintenance import UnreadableStore, check_folder, repair_folder
from mnemo_daemon.maintenance.store_check import CheckReport, StoreCheck
from mnemo_daemon.maintenance.store_repair import StoreRepair
from mnemo_daemon.memories.memory_service import Caller
from mnemo_daemon.models import installation
from mnemo_daemon.server.admission.access_table import OWNER_GRANT
from mnemo_daemon.server.router import Request
from mnemo_daemon.server.sockets import Peer
from mnemo_store.codec import id_key
from mnemo_store.database.table_access import TableSnapshot, TableWriter
from mnemo_store.errors import StoreError
from mnemo_store.indexes.lexical import LexicalFields
from mnemo_store.maintenance import compaction
from mnemo_store.maintenance.check import InvariantViolation
from mnemo_store.records import DropMemory, PutMeta
from tests.spec.test_check import both, damage, drop
from tests.support.erasure_services import wait_until
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import WAIT_SECONDS, write

PERSON = Caller("cli")
LETTERS = ("a b c", "b c c", "c d e", "d e f", "e f g", "x y z")


class House:
    """A daemon in this process, with the small model that knows letters: its views can be laid hands on."""

    def __init__(self, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        environ = {"MNEMO_DATA_DIR": str(folder / "data"), "MNEMO_MODELS_FOLDER": str(folder / "models"),
                   "MNEMO_CONFIG": str(folder / "config.toml")}  # fmt: skip
        (folder / "config.toml").write_text("")
        configuration = settings.load(environ)
        opening = asyncio.run_coroutine_threadsafe(self._open(configuration), self._loop)
        self.daemon = opening.result(WAIT_SECONDS)
        self.services = self.daemon.services
        wait_until(self._has_counted)  # a later count of the rows would fill what a test takes away

    def _has_counted(self) -> bool:
        reports = self.daemon.job_reports()
        return any(each.job.name == "index_check" and each.state.runs for each in reports)

    async def _open(self, configuration: settings.Configuration) -> Daemon:
        daemon = Daemon(configuration)
        daemon.start_opening()
        await daemon.services.wait_until_open()
        return daemon

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.daemon.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add(self, text: str, **fields: Any) -> str:
        """The id of what was remembered."""
        draft = Draft(content=text, namespace="default", user_id="local", trust="user", source="test", **fields)
        return self.services.memories.remember(draft, PERSON).result(WAIT_SECONDS).result.memory.id

    def number(self, memory_id: str) -> int:
        with self.services.store.snapshot() as snapshot:
            number = snapshot.number(memory_id)
        assert number is not None
        return number

    def serving(self) -> ActiveIndex:
        indexing = self.services.indexing
        wait_until(lambda: indexing.serving() is not None and indexing.progress().state == "ready")
        serving = indexing.serving()
        assert serving is not None
        return serving

    def checking(self) -> StoreCheck:
        return StoreCheck(self.services.store, self.services.views, self.services.indexing)

    def faults(self) -> list[tuple[str, str]]:
        """Rule and subject of everything that is found."""
        self.serving()
        report = self.checking().run()
        assert report.notes == []
        return [(each.invariant, each.subject) for each in report.violations]

    def repair(self) -> list[str]:
        """Run a repair and return its report; afterwards the check finds nothing."""
        done = StoreRepair(self.checking()).repair(dry_run=False)
        assert done.report.violations == []
        assert self.faults() == []
        return [step.remedy for step in done.steps]


@pytest.fixture
def house(tmp_path: Path, tiny_source: Path) -> Iterator[House]:
    installation.import_path(tiny_source, tmp_path / "models", allow_unverified=True)
    house = House(tmp_path)
    house.services.use_model("tiny-letters")
    wait_until(lambda: house.services.embedding.status().state == "ready")
    yield house
    house.close()


# Nothing is wrong


def live(house: House, chance: random.Random, days: int) -> None:
    """Write everything that people write, through every entry point."""
    ids = [house.add(text) for text in LETTERS]
    for day in range(days):
        try:
            ids += do_something(house, chance, day, chance.choice(ids), chance.choice(ids))
        except Refusal:
            continue  # what cannot be done, such as restoring what is not gone


def do_something(house: House, chance: random.Random, day: int, one: str, other: str) -> list[str]:
    """One of nine things; the ids of what is new."""
    memories = house.services.memories
    match chance.randrange(9):
        case 0 | 1:
            return [house.add(f"{chance.choice(LETTERS)} {day}", tags=("day", f"t{day % 3}"))]
        case 2:
            house.add(chance.choice(LETTERS))
        case 3:
            return [house.add(f"q {chance.choice('rstuv')}", key=chance.choice("jkl"), speaker="Ada Lovelace")]
        case 4:
            memories.edit(one, {"content": f"edited {chance.choice(LETTERS)}"}, None, PERSON).result(WAIT_SECONDS)
        case 5:
            fields = {"tags": (), "importance": 0.9, "speaker": chance.choice(("Ada", "Bob", "Cem"))}
            memories.edit(one, fields, None, PERSON).result(WAIT_SECONDS)
        case 6:
            memories.delete([one, other], "test", PERSON).result(WAIT_SECONDS)
        case 7:
            memories.restore(one, PERSON).result(WAIT_SECONDS)
            memories.record_use([one, other]).result(WAIT_SECONDS)
        case 8:
            return [house.add(f"replaces {day}", supersedes=(one,), derived_from=(other,), evidence=(one, "a/path"))]
    return []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_whatever_people_do_nothing_is_found_wrong(house: House, seed: int) -> None:
    live(house, random.Random(seed), 120)
    assert house.faults() == []


def test_notes_that_come_change_move_and_go_leave_nothing_wrong(house: House, tmp_path: Path) -> None:
    notes_folder = tmp_path / "vault"
    notes_folder.mkdir()
    for number in range(6):
        (notes_folder / f"n{number}.md").write_text(
            f"# a b\n\nc d {number} [[n{(number + 1) % 6}]]\n\n## e\n\nf g {number}\n"
        )
    daemon = house.daemon
    daemon.services.notes.add_root(str(notes_folder), "default")
    look_again(house)
    (notes_folder / "n0.md").write_text("# a b\n\nq r s\n")
    (notes_folder / "n1.md").rename(notes_folder / "moved.md")
    (notes_folder / "n2.md").unlink()
    with daemon.services.store.snapshot() as snapshot:
        chunks = [memory.id for memory in snapshot.memories() if memory.managed]
    daemon.services.memories.delete(chunks[-2:], "test", PERSON).result(WAIT_SECONDS)
    look_again(house)
    assert len(chunks) == 12
    assert house.faults() == []
    daemon.services.notes.remove_root(str(notes_folder))
    house.services.memories.restore(chunks[0], PERSON).result(WAIT_SECONDS)
    assert house.faults() == []


def look_again(house: House) -> None:
    house.services.notes.rescan()
    assert house.services.notes.wait_until_settled(WAIT_SECONDS)


def test_a_store_that_gave_up_some_of_its_history_has_nothing_wrong(house: House) -> None:
    live(house, random.Random(6), 80)
    store = house.services.store
    oldest = store.seq // 2
    write(store, PutMeta(name="history_from", value=f"{oldest} 1"))
    store.run_exclusively(lambda supervisor: compaction.compact(supervisor, oldest, None)).result(WAIT_SECONDS)
    live(house, random.Random(7), 20)
    assert house.faults() == []


def test_a_check_next_to_writers_finds_nothing_wrong(house: House) -> None:
    """A write in progress is no fault, however it falls between the snapshots of the check."""
    live(house, random.Random(4), 60)
    is_over = threading.Event()
    deaths: list[Exception] = []

    def write_on() -> None:
        chance = random.Random(5)
        try:
            while not is_over.is_set():
                live(house, chance, 10)
        except (StoreError, AssertionError, RuntimeError, ValueError) as error:
            deaths.append(error)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        for _ in range(8):
            assert house.checking().run().violations == []
    finally:
        is_over.set()
        writer.join()
    assert deaths == []


class Unlucky(StoreCheck):
    """A store in which a memory goes to the trash right after each look at the vectors, and comes back."""

    house: House
    memory_id: str
    looks = 0
    is_at_vectors = False

    @contextlib.contextmanager
    def source(self) -> Iterator[TableSnapshot]:
        daemon, number = self.house.daemon, self.house.number(self.memory_id)
        with super().source() as at:
            if self.is_at_vectors:
                daemon.services.memories.delete([self.memory_id], "test", PERSON).result(WAIT_SECONDS)
                wait_until(lambda: not daemon.services.indexing.has_vector(number))
                self.looks += 1
            yield at
        if self.is_at_vectors:
            daemon.services.memories.restore(self.memory_id, PERSON).result(WAIT_SECONDS)
            wait_until(lambda: daemon.services.indexing.has_vector(number))

    def _background_index(self, name: str, index: BackgroundIndex, report: CheckReport) -> Iterator[InvariantViolation]:
        self.is_at_vectors = name == "vectors"
        yield from super()._background_index(name, index, report)


def test_a_row_that_changes_between_two_looks_is_not_reported_as_wrong(house: House) -> None:
    """The index has heard of the change already, and the moment that is compared with it lies before."""
    kept = house.add("a b c")
    house.serving()
    checking = Unlucky(house.services.store, house.services.views, house.services.indexing)
    checking.house, checking.memory_id = house, kept
    report = checking.run()
    assert checking.looks >= 2, "once, and once more to be sure"
    assert (report.violations, report.notes) == ([], [])


# Views


class Touch(NamedTuple):
    """Something done to the views of a daemon behind its back, to the memory of a number."""

    act: Callable[[House, int], None]
    expected: tuple[str, ...]  # rules


def alter_column(name: str, value: float) -> Callable[[House, int], None]:
    def act(house: House, number: int) -> None:
        house.services.views.attributes._arrays[name][number] = value

    return act


VIEWS: dict[str, Touch] = {
    "another importance": Touch(alter_column("importance", 0.9), ("columns",)),
    "another namespace": Touch(alter_column("namespace", 77), ("columns",)),
    "another layer": Touch(alter_column("layer", 2), ("columns",)),
    "another count of uses": Touch(alter_column("access_count", 9), ("columns",)),
    "a row that is missing": Touch(lambda house, number: house.services.views.attributes.drop(number), ("columns",)),
    "words that are missing": Touch(lambda house, number: house.services.views.lexical.drop(number), ("words",)),
    "other words": Touch(
        lambda house, number: house.services.views.lexical.put(number, LexicalFields("x y z", tags=("t",))), ("words",)
    ),
    "the same words in other numbers": Touch(
        lambda house, number: house.services.views.lexical.put(number, LexicalFields("b b c", tags=("t",))), ("words",)
    ),
}


@pytest.mark.parametrize("touch", VIEWS.values(), ids=VIEWS.keys())
def test_a_view_that_says_something_else_than_the_store_is_found_and_built_again(house: House, touch: Touch) -> None:
    ids = [house.add(text, tags=("t",)) for text in LETTERS]
    assert house.faults() == []
    touch.act(house, house.number(ids[1]))
    assert house.faults() == [(rule, ids[1]) for rule in touch.expected]
    assert house.repair() == ["views"]


def test_a_tag_that_a_view_does_not_know_of_is_missed(house: House) -> None:
    one = house.add("a b", tags=("kept", "lost"))
    columns = house.services.views.attributes
    with house.services.store.snapshot() as snapshot:
        memory = snapshot.memory(one)
    assert memory is not None
    columns.put(house.number(one), type(memory)(**{**{f: getattr(memory, f) for f in memory.__struct_fields__},
                                                   "tags": ("kept",)}), None)  # fmt: skip
    assert house.faults() == [("columns", one)]
    assert house.repair() == ["views"]


def test_rows_of_removed_memories_are_found_in_columns_and_words(house: House) -> None:
    ids = [house.add(text) for text in LETTERS]
    number = house.number(ids[0])
    columns, words = house.services.views.attributes, house.services.views.lexical
    with house.services.store.snapshot() as snapshot:
        memory = snapshot.memory(ids[0])
    assert memory is not None
    write(house.services.store, DropMemory(id=ids[0]))
    assert house.faults() == []
    columns.put(number, memory, None)
    words.put(number, LexicalFields(memory.content))
    assert sorted(house.faults()) == [("columns", ids[0]), ("words", ids[0])]
    assert house.repair() == ["views"]


def other_vectors(house: House, number: int) -> None:
    view = house.serving().view
    rows = np.zeros((1, view.dimensions), np.float16)
    rows[0, 3] = 1
    view.put(number, rows)


VECTORS: dict[str, Callable[[House, int], None]] = {
    "missing": lambda house, number: house.serving().view.drop(number),
    "others": other_vectors,
}


@pytest.mark.parametrize("act", VECTORS.values(), ids=VECTORS.keys())
def test_vectors_that_are_not_those_kept_are_found_and_mended(house: House, act: Callable[[House, int], None]) -> None:
    ids = [house.add(text) for text in LETTERS]
    assert house.faults() == []
    act(house, house.number(ids[2]))
    assert house.faults() == [("vectors", ids[2])]
    assert house.repair() == ["vectors"]


class WaitingTokens(TokenBackfill):
    """Token rows that lack some, on a machine that is busy or on battery."""

    def progress(self) -> IndexProgress:
        return IndexProgress("building", 0, 5, 0.9)


def test_a_repair_does_not_wait_for_token_rows_which_wait_for_an_idle_machine(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [house.add(text) for text in LETTERS]
    assert house.faults() == []
    house.serving().view.drop(house.number(ids[2]))
    services = house.services
    services.indexing.tokens = WaitingTokens(services.store, services.views, services.embedding)
    monkeypatch.setattr(store_repair, "VIEWS_SECONDS_MAX", WAIT_SECONDS)
    began = time.monotonic()
    done = StoreRepair(house.checking()).repair(dry_run=False)
    assert [step.remedy for step in done.steps] == ["vectors"]
    assert time.monotonic() - began < WAIT_SECONDS


def test_e15_vectors_that_a_delete_left_behind_are_found_and_taken_away(house: House) -> None:
    ids = [house.add(text) for text in LETTERS]
    gone, trashed = house.number(ids[0]), house.number(ids[1])
    view = house.serving().view
    rows = {number: view.vectors_of(number) for number in (gone, trashed)}
    write(house.services.store, DropMemory(id=ids[0]))
    house.services.memories.delete([ids[1]], "test", PERSON).result(WAIT_SECONDS)
    assert house.faults() == []
    for number, vectors in rows.items():
        assert vectors is not None
        view.put(number, vectors)
    assert house.faults() == [("vectors", f"number {gone}"), ("vectors", ids[1])]
    assert house.repair() == ["vectors"]
    assert gone not in house.serving().view
    assert trashed not in house.serving().view


def test_a_view_that_is_being_filled_is_not_called_wrong(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors come behind the store: as long as they do, that is told, and is no fault."""
    monkeypatch.setattr(store_check, "SETTLE_SECONDS", 0.2)
    house.serving()
    house.services.indexing.stop()
    house.add("a b c")
    report = house.checking().run()
    assert report.violations == []
    assert "they were not checked" in report.notes[0]


# Over the socket and at the command line


def test_a_daemon_checks_itself_and_mends_what_was_done_to_it_while_it_was_off(started_daemon: RunningDaemon) -> None:
    with started_daemon.client() as client:
        kept = client.remember("The spare key is with Ines.", key="key", importance=0.5).memory.id
        clean = client.check()
        assert (clean.ok, clean.violations, clean.totals) == (True, [], {})
        assert clean.checked["memories"] == 1
        assert clean.notes == ["no embedding model is loaded: vectors were not checked"]
    started_daemon.stop()
    damage(started_daemon.folder, both(drop("usage", id_key(kept)), both_keys_of(kept)))
    started_daemon.start()
    with started_daemon.client() as client:
        found = client.check()
        assert found.ok is False
        assert sorted(found.totals) == ["journal", "keys"]
        assert all(violation.mendable for violation in found.violations)
        said = client.repair(dry_run=True)
        assert [step.how_many for step in said.steps] == [1, 1]
        assert client.check().ok is False
        done = client.repair()
        assert [step.what for step in done.steps] == [step.what for step in said.steps]
        assert done.check.ok
        assert client.check().ok
        assert client.remember("The spare key is with Otto.", key="key").outcome == "updated"


def both_keys_of(memory_id: str) -> Callable[[TableWriter], None]:
    """The memory is no longer found by its key."""

    def act(rows: TableWriter) -> None:
        for row in rows.rows("keys"):
            if row.value == id_key(memory_id):
                rows.delete_row("keys", row)

    return act


def test_a_second_check_is_refused_while_one_runs_and_accepted_afterwards(house: House) -> None:
    house.serving()
    workers = WorkerPool(1)
    api = MaintenanceApi(house.services, workers)
    request = Request(ask=RepairRequest(dry_run=True), query=None, path={}, peer=Peer(uid=0), grant=OWNER_GRANT)

    async def ask() -> list[Any]:
        together = await asyncio.gather(api.check(request), api.repair(request), return_exceptions=True)
        return [*together, await api.check(request)]

    first, second, third = asyncio.run_coroutine_threadsafe(ask(), house._loop).result(WAIT_SECONDS)
    assert isinstance(second, Refusal)
    assert (second.status, second.code) == (409, "conflict")
    assert (first.value.ok, third.value.ok) == (True, True)
    api.close()
    workers.close()


def test_an_agent_cannot_have_the_store_repaired(started_daemon: RunningDaemon) -> None:
    with started_daemon.client(entry_point="mcp") as client, pytest.raises(RefusalError) as refused:
        client.repair()
    assert (refused.value.status, refused.value.code) == (422, "refused")


def mnemo(daemon: RunningDaemon, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of a person who has that daemon's data folder."""
    command = [sys.executable, "-m", "mnemo_client.cli.main", *words]
    environ = {**daemon.environ, "MNEMO_AUTOSTART": "off", "TERM": "dumb"}
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60, check=False)


def test_the_command_tells_a_person_what_is_wrong_and_what_to_do(started_daemon: RunningDaemon) -> None:
    """With a daemon and without one, which it does not start."""
    with started_daemon.client() as client:
        ids = [client.remember(f"thing {number}", key=f"key {number}").memory.id for number in range(5)]
    clean = mnemo(started_daemon, "check")
    assert clean.returncode == 0
    assert clean.stdout.startswith("checked 5 memories · 5 changes · 5 texts in the word index in ")
    assert clean.stdout.splitlines()[-1] == "no faults found"
    started_daemon.stop()
    assert mnemo(started_daemon, "check").stdout.splitlines()[-1] == "no faults found"
    damage(started_daemon.folder, both(*(both_keys_of(memory_id) for memory_id in ids)))
    found = mnemo(started_daemon, "check")
    assert found.returncode == 1
    lines = found.stdout.splitlines()
    assert "5 faults" in lines
    assert f"  keys  memories {ids[0][-8:]}  it is not found by its key 'key 0'" in lines
    assert "        and 2 more" in lines
    assert ids[3][-8:] not in found.stdout
    assert "mnemo repair --dry-run" in found.stderr
    said = mnemo(started_daemon, "repair", "--dry-run")
    assert said.returncode == 0
    assert said.stdout.startswith("would: rebuild the indexes of the database from its records (5)")
    assert mnemo(started_daemon, "check", "--json").returncode == 1
    done = mnemo(started_daemon, "repair", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["check"]["ok"] is True
    assert mnemo(started_daemon, "check").returncode == 0


def test_a_store_that_no_daemon_can_open_is_mended_without_one(started_daemon: RunningDaemon) -> None:
    with started_daemon.client() as client:
        kept = client.remember("The spare key is with Ines.").memory.id
    started_daemon.stop()
    shutil.rmtree(started_daemon.folder / "views")
    damage(started_daemon.folder, drop("numbers", id_key(kept)))
    assert mnemo(started_daemon, "repair").returncode == 0
    started_daemon.start()
    with started_daemon.client() as client:
        assert [memory.id for memory in client.search("spare key").memories] == [kept]


def brief(report: CheckReport) -> list[tuple[str, str, str]]:
    return [(each.invariant, each.table, each.subject) for each in report.violations]


@pytest.mark.parametrize("is_dry", [True, False])
def test_a_database_is_not_put_aside_where_nothing_could_take_its_place(
    house: House, tmp_path: Path, is_dry: bool
) -> None:
    """An empty store took its place, and everything was as it should be."""
    house.add("a b c")
    house.close()
    data = tmp_path / "data"
    shutil.rmtree(data / "journal")
    (data / "db" / "data.mdb").write_bytes((data / "db" / "data.mdb").read_bytes()[:5000])
    before = {path for path in data.rglob("*") if path.is_file()}
    with pytest.raises(UnreadableStore):
        repair_folder(data, dry_run=is_dry)
    assert {path for path in data.rglob("*") if path.is_file()} == before
    assert (data / "db" / "data.mdb").stat().st_size == 5000


def test_indexes_on_the_disk_are_compared_with_the_store(house: House, tmp_path: Path) -> None:
    """A wrong index file is removed, and rebuilt at the next start."""
    ids = [house.add(text) for text in LETTERS]
    house.serving()
    numbers = [house.number(memory_id) for memory_id in ids]
    house.services.views.lexical.put(numbers[0], LexicalFields("x y z"))
    house.services.views.attributes._arrays["importance"][numbers[1]] = 0.9
    other_vectors(house, numbers[2])
    house.close()
    data = tmp_path / "data"
    expected = [("columns", "views", ids[1]), ("words", "views", ids[0]), ("vectors", "views", ids[2])]
    assert brief(check_folder(data)) == expected
    done = repair_folder(data, dry_run=False)
    assert [step.remedy for step in done.steps] == ["views", "vectors"]
    assert brief(done.report) == []
    kept = {path.name for path in (data / "views").glob("*.view")}
    assert kept == {"roles.view"}  # each row of which holds for a text alone
