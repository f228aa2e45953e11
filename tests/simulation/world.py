"""The daemon in one thread, with a clock, a disk, models and notes that one seed decides about. SPEC 17.

Everything is the real thing, put together as the daemon does it and asked through its routes, but for the socket. What
the daemon does in threads of its own is done here step by step, in an order that never changes: a write is decided
and committed where it is asked for, and the rest when `step` is called.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from mnemo_daemon.api.daemon_routes import StatusReport
from mnemo_daemon.api.main_routes import Api
from mnemo_daemon.errors import Refusal, refusal_of
from mnemo_daemon.indexing.vectors.text_vectors import MissingVectorError
from mnemo_daemon.jobs import jobs_of
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING
from mnemo_daemon.notes.notes_service import NotesService
from mnemo_daemon.scheduler import Job, Scheduler
from mnemo_daemon.server.admission.access_table import OWNER_GRANT
from mnemo_daemon.server.router import (
    Request,
    RouteTable,
    agent_of,
    decode_body,
    decode_query,
    entry_point_of,
    namespace_of,
)
from mnemo_daemon.server.sockets import Peer
from mnemo_daemon.services import Services
from mnemo_daemon.settings import Configuration, Folders, HistorySettings, NotesSettings, Settings, TrashSettings
from mnemo_store.errors import ClosedStoreError, StoreError
from mnemo_store.records import ChangeEntry
from mnemo_store.recovery.fallback_state import FallbackState
from mnemo_store.recovery.modes import ClosedMode
from mnemo_store.recovery.supervisor import StateSupervisor
from mnemo_store.store import Store
from tests.simulation.disk import ProcessKill, SimulatedDisk
from tests.simulation.embedders import ModelFaults, SimulatedCatalogue, SimulatedModels
from tests.simulation.ledger import Ledger, LedgerEntry, State, Wrong, state_of
from tests.simulation.notes_folder import SimulatedNotesFolder
from tests.support.samples import MEMORY_DISK

BEGIN_MS = 1_700_000_000_000  # a moment of November 2023
SEGMENT_BYTES = 6_000  # so that a few steps see segments become full
RESERVE_BYTES = 64 << 10
# Jobs whose work the world does, or does without; what `history_retention` does is the operation `compact`.
LEFT_OUT = ("model_loading", "model_unloading", "memory_return", "history_retention")
ROUNDS_MAX = 60  # of background work in one step: whoever needs more never ends

_real_monotonic, _real_sleep = time.monotonic, time.sleep


class SimulatedClock:
    """The time of day, which may step back, and the time since the start, which may not."""

    def __init__(self) -> None:
        self.milliseconds = BEGIN_MS
        self.seconds = 1000.0

    def go_on(self, seconds: float) -> None:
        """Let so much time pass."""
        self.seconds += seconds
        self.milliseconds += round(seconds * 1000)

    def now(self) -> int:
        return self.milliseconds

    def monotonic(self) -> float:
        return self.seconds


@contextlib.contextmanager
def in_simulated_time(clock: SimulatedClock) -> Iterator[None]:
    """Within it the process's own clock stands still but for what is told to it, who sleeps wakes up at once, a little
    later, and nothing is logged."""
    time.monotonic, time.sleep = clock.monotonic, clock.go_on  # type: ignore[assignment]
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        time.monotonic, time.sleep = _real_monotonic, _real_sleep
        logging.disable(disabled)


class SimulationLoop(asyncio.SelectorEventLoop):
    """Its own timers go by the real clock."""

    def time(self) -> float:
        return _real_monotonic()


class SteppedStore(Store):
    """The store without a writer thread: what is asked of it is done before the asking returns.

    `ledger` gets to know what every write was told. While it `holds`, writes wait, to be one group.
    """

    ledger: Ledger
    holds = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._order = 0
        self._taken: list[tuple[dict[str, Any], Future[Any]]] = []

    def _write_until_closed(self) -> None:
        """The thread that would do it ends at once."""

    def _enqueue(self, waiting: Any, *, background: bool) -> "Future[Any]":
        decided: dict[str, Any] = {}

        def decide(snapshot: Any) -> Any:
            decided.clear()
            try:
                turn = waiting.decide(snapshot)
            except Exception as error:
                decided["refused"] = error
                raise
            self._order += 1
            entry = ChangeEntry(at=snapshot.now, by=waiting.by, what=turn.what, group=turn.group)
            decided.update(order=self._order, turn=turn, entry=entry)
            return turn

        future = super()._enqueue(replace(waiting, decide=decide), background=background)
        self._taken.append((decided, future))
        if not self.holds:
            self.work()
        return future

    @property
    def held(self) -> int:
        """The number of writes that wait to be one group."""
        return len(self._taken) if self.holds else 0

    def run_exclusively(self, act: Callable[[StateSupervisor], Any]) -> "Future[Any]":
        future = super().run_exclusively(act)
        self.work()
        return future

    def work(self) -> None:
        """Does all that waits, and tells the ledger."""
        try:
            while self._queue.has_work:
                self._work_once()
        finally:
            taken, self._taken = self._taken, []
            self.ledger.take([row for _, row in sorted(map(_written, taken), key=lambda pair: pair[0]) if row])

    def pass_time(self, seconds: float) -> None:
        """Does what the writer does by itself when its time has come."""
        left = seconds
        for _ in range(ROUNDS_MAX):
            pause = self._supervisor.seconds_until_retry()
            if not self._queue.has_work and (pause is None or pause > left):
                return
            left -= max(pause or 0.0, seconds / 4)
            self._work_once()
        raise Wrong("the writer never comes to rest")

    def close(self) -> None:
        self.work()
        super().close()

    def abandon(self) -> None:
        """Leave the store as a kill does: nothing is written, the lock is gone."""
        self._writer = None
        self._supervisor._enter(ClosedMode())
        self._supervisor.journal.close()
        self._lock.release()

    @property
    def is_replayed(self) -> bool:
        return isinstance(self._supervisor.backend, FallbackState)

    @property
    def has_state(self) -> bool:
        return self._supervisor.backend is not None


def _written(taken: tuple[dict[str, Any], "Future[Any]"]) -> tuple[int, LedgerEntry | None]:
    """The order of the decision, and its result; None for a write that its decision refused."""
    decided, future = taken
    error = (future.exception() if future.done() else ProcessKill()) if not future.cancelled() else None
    if "turn" not in decided:
        if (
            error is not None
            and error is not decided.get("refused")
            and not isinstance(error, StoreError | ProcessKill)
        ):
            raise Wrong(f"a write that nobody decided failed: {error!r}")
        return 0, None
    turn = decided["turn"]
    if error is None:
        return decided["order"], LedgerEntry(tuple(turn.changes), decided["entry"], future.result().seq, None)
    if not isinstance(error, StoreError | ProcessKill):
        raise Wrong(f"a write failed with what is no error of the store: {error!r}")
    return decided["order"], LedgerEntry(tuple(turn.changes), decided["entry"], None, error)


class SteppedNotes(NotesService):
    """The notes service whose thread's work is done when it is asked for, as far as anything is due."""

    is_loaded = False
    failures = 0  # of one piece of work
    _rounds = 0

    def start(self) -> None:
        """Nothing runs by itself."""

    def work(self) -> None:
        self._rounds = self.failures = 0
        self.supervisor.run()

    def _load(self) -> None:
        if not self.is_loaded:
            super()._load()
            self.is_loaded = True

    def _wait_for_work(self) -> bool:
        self._rounds += 1
        if self._pause() > 0 or self._rounds > ROUNDS_MAX:
            raise ClosedStoreError("nothing is due")
        return True


class SteppedServices(Services):
    """The services of a daemon whose threads are never begun: what would be done there is done by the world."""

    def on_store_replaced(self) -> None:
        if self.views.state == "stale":
            self.views.rebuild()
        super().on_store_replaced()


class SimulatedAnswer(NamedTuple):
    status: int
    value: Any  # as a client reads it

    @property
    def is_ok(self) -> bool:
        return self.status < 300

    @property
    def code(self) -> str:
        return str(self.value["error"]["code"]) if not self.is_ok else ""


class World:
    """A data folder, the daemon on it, and all that is around it."""

    make_models: Callable[[SimulatedCatalogue, ModelFaults], SimulatedModels] = SimulatedModels

    def __init__(self, folder: Path, chance: Random) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.clock = SimulatedClock()
        self.ids = Random(chance.random())
        self.disk = SimulatedDisk(self._keep_what_the_dead_left)
        self.catalogue = SimulatedCatalogue()
        self.faults = ModelFaults()
        self.notes_folder = SimulatedNotesFolder(folder / "notes", Random(chance.random()), self.clock.now)
        self.ledger = Ledger()
        self.notes_failures: list[Exception] = []
        self.map_bytes = 1 << 26
        self.segment_bytes = SEGMENT_BYTES
        self.loop = SimulationLoop()
        self.daemon: SteppedServices | None = None
        self.api: Api
        self.table: RouteTable
        self._settings = Settings(
            notes=NotesSettings(settle_ms=50, rescan_minutes=60),
            history=HistorySettings(keep=chance.choice(("all", "all", "1d"))),
            trash=TrashSettings(keep_days=chance.choice((0, 0, 0, 3))),
        )

    # Starting and ending

    def begin_at(self, at: datetime) -> None:
        """Set the time of day, of a world that was never open."""
        self.clock.milliseconds = round(at.timestamp() * 1000)

    @property
    def store(self) -> SteppedStore:
        assert self.daemon is not None
        store = self.daemon.store
        assert isinstance(store, SteppedStore)
        return store

    @property
    def salt(self) -> str:
        """Of the hashes of texts that must not come back."""
        return self.store._supervisor.manifest.salt

    @property
    def is_open(self) -> bool:
        return self.daemon is not None

    def open(self) -> None:
        """Opens the daemon as its start does. Raises what keeps it from opening; it is then closed."""
        folders = Folders(self.data, self.folder / "models", self.folder / "socket", self.folder / "config.toml")
        daemon = self.loop.run_until_complete(self._made(Configuration(self._settings, folders, {})))
        self._equip(daemon)
        try:
            daemon.open()
        except BaseException as error:
            if isinstance(error, ProcessKill):
                self._abandon(daemon)
            elif hasattr(daemon, "store"):
                daemon.store.close()
            daemon.embedding.close()
            raise
        self.daemon = daemon
        self.jobs = Scheduler(self._jobs(daemon), clock=self.clock.monotonic, wall_ms=self.clock.now)
        self.api = self.loop.run_until_complete(self._api(daemon))
        self.table = RouteTable(self.api.routes())
        self._follow_behind()

    def close(self) -> None:
        """Ends the daemon as it ends itself."""
        daemon, self.daemon = self.daemon, None
        assert daemon is not None
        try:
            self.api.close()
            daemon.close()
        except ProcessKill:
            self._abandon(daemon)
            raise

    def kill(self) -> None:
        """Ends it as `kill -9` does: nothing is finished, nothing saved."""
        daemon, self.daemon = self.daemon, None
        if daemon is not None:
            self.api.close()
            self._abandon(daemon)

    def bury(self) -> None:
        """After the disk has taken the process with it: what it left stands where it stood."""
        self.kill()
        left = self._left
        if left.exists():
            shutil.rmtree(self.data, ignore_errors=True)
            left.rename(self.data)
        self.disk = SimulatedDisk(self._keep_what_the_dead_left)

    def throw_away(self) -> None:
        self.kill()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    async def _made(self, configuration: Configuration) -> SteppedServices:
        return SteppedServices(configuration, self.disk, self._open_store, self._make_notes)

    async def _api(self, daemon: Services) -> Api:
        return Api(daemon, StatusReport(daemon, list, self.jobs.reports))

    def _equip(self, daemon: Services) -> None:
        """Give the daemon its models, before it opens."""
        daemon.catalogue = self.catalogue
        daemon.embedding.close()
        daemon.embedding = self.make_models(self.catalogue, self.faults)

    def _jobs(self, daemon: Services) -> list[Job]:
        return [job for job in jobs_of(daemon) if job.name not in LEFT_OUT]

    def _open_store(self, folder: Path, *, disk: Any) -> Store:
        store = SteppedStore.open(
            folder, disk=disk, now=self.clock.now, random_bytes=self.ids.randbytes, map_bytes=self.map_bytes,
            segment_bytes=self.segment_bytes, reserve_bytes=RESERVE_BYTES,
        )  # fmt: skip
        assert isinstance(store, SteppedStore)
        store.ledger = self.ledger
        return store

    def _make_notes(self, store: Store, settings: NotesSettings, **options: Any) -> NotesService:
        def fail(error: Exception) -> None:
            self.notes_failures.append(error)
            notes.is_loaded = False  # as its thread begins anew
            notes.failures += 1
            if notes.failures > ROUNDS_MAX:
                raise Wrong(f"the notes fail over and over, and never rest: {error!r}")

        notes = SteppedNotes(
            store,
            settings,
            clock=self.clock.monotonic,
            on_error=fail,
            make_watch=self.notes_folder.watch,  # type: ignore[arg-type]
            **options,
        )
        return notes

    def _abandon(self, daemon: Services) -> None:
        if hasattr(daemon, "recall"):
            daemon.recall.close()
        self.disk.abandon()
        store = getattr(daemon, "store", None)
        if isinstance(store, SteppedStore):
            store.abandon()
        daemon.embedding.close()
        self.notes_folder.watches.clear()

    @property
    def _left(self) -> Path:
        return self.folder / "left"

    def _keep_what_the_dead_left(self) -> None:
        """As it is at this moment; the files are the same ones, as they are after a kill."""
        for path in sorted(self.data.rglob("*")) if self.data.exists() else []:
            target = self._left / path.relative_to(self.data)
            if path.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, target)

    def _follow_behind(self) -> None:
        """Do what the daemon does in the background of its start."""
        assert self.daemon is not None
        with self.store.snapshot() as snapshot:
            chosen = snapshot.meta("embedding_model")
        if chosen and chosen in self.catalogue.there:
            self.daemon.embedding.use(chosen)
        self.refresh_model()

    # What goes on by itself

    def step(self, seconds: float = 1.0) -> None:
        """Some time goes by, in which everything gets its turn."""
        self.clock.go_on(seconds)
        self.store.pass_time(seconds)
        self._keep_house()
        if not self.faults.is_slow:
            self.index()
        self.scan_notes()

    def _keep_house(self) -> None:
        for _ in range(ROUNDS_MAX):
            if not self.jobs.run_round():
                break
        for report in self.jobs.reports():
            if report.condition == "failing" and report.state.is_unexpected:
                raise Wrong(f"the job {report.job.name} fails: {report.reason}")

    def index(self) -> None:
        """The vectors follow as far as they can."""
        assert self.daemon is not None
        for _ in range(ROUNDS_MAX):
            try:
                if not self.daemon.indexing._step():
                    return
            except (StoreError, OSError, MissingVectorError, ValueError, RuntimeError):
                return  # as its thread does: it goes on a little later
        raise Wrong("the vectors never come to rest")

    def scan_notes(self) -> None:
        assert self.daemon is not None
        notes = self.daemon.notes
        assert isinstance(notes, SteppedNotes)
        notes.work()

    def refresh_model(self) -> None:
        assert self.daemon is not None
        self.daemon.embedding.refresh()

    def install(self, name: str = DEFAULT_EMBEDDING) -> None:
        self.catalogue.there.add(name)
        self.refresh_model()

    # Asking

    def ask(self, method: str, route: str, body: Any = None, /, *, entry_point: str = "api",
            namespace: str | None = None, raw: bytes | None = None, **query: Any) -> SimulatedAnswer:  # fmt: skip
        """A request, answered."""
        return self.loop.run_until_complete(self._answered(method, route, body, entry_point, namespace, raw, query))

    def ask_together(self, requests: list[tuple[str, str, Any]]) -> list[SimulatedAnswer]:
        """Requests whose writes wait for each other and become one group."""
        return self.loop.run_until_complete(self._answered_together(requests))

    def has_route(self, method: str, path: str) -> bool:
        try:
            self.table.find(method, path, OWNER_GRANT)
        except Refusal:
            return False
        return True

    async def _answered_together(self, requests: list[tuple[str, str, Any]]) -> list[SimulatedAnswer]:
        store = self.store
        store.holds = True
        try:
            tasks: list[asyncio.Task[SimulatedAnswer]] = []
            for method, path, body in requests:
                tasks.append(asyncio.ensure_future(self._answered(method, path, body, "api", None, None, {})))
                while sum(task.done() for task in tasks) + store.held < len(tasks):  # noqa: ASYNC110 - no event tells
                    await asyncio.sleep(0)  # a thread of its own looks at it first, for as long as it takes
        finally:
            store.holds = False
        store.work()
        return list(await asyncio.gather(*tasks))

    async def _answered(
        self, method: str, path: str, body: Any, entry_point: str, namespace: str | None, raw: bytes | None,
        query: dict[str, Any],
    ) -> SimulatedAnswer:  # fmt: skip
        try:
            route, parts = self.table.find(method, path, OWNER_GRANT)
            asked = decode_body(b"" if body is None else msgspec.json.encode(body), route)
            wanted = decode_query(urlencode(query, doseq=True), route)
            request = Request(
                ask=asked, query=wanted, path=parts, namespace=namespace_of(namespace, asked, wanted),
                entry_point=entry_point_of(entry_point), agent=agent_of(None), peer=Peer(uid=os.geteuid()),
                grant=OWNER_GRANT,
                body=_pieces(raw or b"") if route.operation.streams else None,
            )  # fmt: skip
            reply = await route.handler(request)
            value = reply.value
            if hasattr(value, "__aiter__"):
                value = b"".join([piece async for piece in value])
            is_sent = isinstance(value, bytes)
            return SimulatedAnswer(reply.status, value if is_sent else msgspec.json.decode(msgspec.json.encode(value)))
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
            return SimulatedAnswer(refusal.status, msgspec.to_builtins(refusal.answer()))

    # Looking

    def found(self) -> State:
        """The present content of the store."""
        with self.store.snapshot() as snapshot:
            return state_of(snapshot)


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 1000):
        yield data[start : start + 1000]


def place_for_worlds() -> Path | None:
    """A folder where fsync costs nothing, if the system has such a disk."""
    return MEMORY_DISK if MEMORY_DISK.is_dir() else None
