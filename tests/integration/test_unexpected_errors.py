"""Unexpected errors inside the daemon: they are reported, others go on, nobody waits forever. SPEC 3.5.

Only the failures are made: the parts are real.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_daemon import scheduler, settings, thread_supervision
from mnemo_daemon.api.daemon_routes import StatusReport
from mnemo_daemon.app import Daemon
from mnemo_daemon.errors import Refusal
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.jobs import jobs_of
from mnemo_daemon.models.catalogue import ModelCatalogue, ModelManifest
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.notes.notes_service import NotesService
from mnemo_daemon.scheduler import Interval, Job
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreError
from mnemo_store.records import PutMemory, PutUsage, Usage
from mnemo_store.store import Store, WriteResult
from tests.support.erasure_services import wait_until
from tests.support.samples import sample_memory


class UnexpectedError(Exception):
    """An error that nothing expects."""


class SurprisingDisk(Disk):
    def replace_file(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        raise UnexpectedError("the disk is made of cheese")


def configuration(folder: Path) -> settings.Configuration:
    names = {"DATA_DIR": "data", "SOCKET": "s", "MODELS_FOLDER": "models"}
    return settings.load({f"MNEMO_{name}": str(folder / path) for name, path in names.items()} | {"HOME": str(folder)})


def test_an_unexpected_error_while_opening_reaches_everyone_who_waits(tmp_path: Path) -> None:
    async def wait_three_times() -> tuple[list[Any], Daemon]:
        daemon = Daemon(configuration(tmp_path), disk=SurprisingDisk())
        waiting = [asyncio.create_task(daemon.services.wait_until_open()) for _ in range(3)]
        daemon.start_opening()
        async with asyncio.timeout(10.0):
            reported = await asyncio.gather(*waiting, return_exceptions=True)
            await daemon.services.stopped.wait()  # and the daemon ends
        await asyncio.to_thread(daemon.close)
        return reported, daemon

    reported, daemon = asyncio.run(wait_three_times())
    assert [type(error) for error in reported] == [Refusal] * 3
    assert "made of cheese" in str(reported[0])
    assert report_of(daemon).state()[0] != "ready"
    Store.open(tmp_path / "data").close()  # the lock was given back


def report_of(daemon: Daemon) -> StatusReport:
    return StatusReport(daemon.services, daemon.supervisors, daemon.job_reports)


def test_the_other_jobs_go_on_after_an_unexpected_error_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(scheduler, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(scheduler, "RETRY_SECONDS_MAX", 0.01)
    tried, others = threading.Semaphore(0), threading.Semaphore(0)
    is_ill = True

    def stumble() -> bool:
        tried.release()
        if is_ill:
            raise UnexpectedError("no touch today")
        return False

    def go_on() -> bool:
        others.release()
        return False

    def state() -> tuple[str, list[str]]:
        reported, reasons = report_of(daemon).state()
        return reported, [reason for reason in reasons if "job" in reason]

    async def made() -> Daemon:
        ill = Job("stumbling", "Stumbles.", Interval(0.0), stumble, "1 step")
        well = Job("going_on", "Goes on.", Interval(0.0), go_on, "1 step")
        return Daemon(configuration(tmp_path), make_jobs=lambda services: (ill, *jobs_of(services), well))

    daemon = asyncio.run(made())
    daemon.open()
    assert all(tried.acquire(timeout=60.0) for _ in range(3))
    assert all(others.acquire(timeout=60.0) for _ in range(3)), "they have their turn"
    failed = "a background job fails and is tried again and again: stumbling: UnexpectedError: no touch today"
    wait_until(lambda: state() == ("degraded", [failed]))
    is_ill = False
    wait_until(lambda: not state()[1])
    (report,) = (each for each in daemon.job_reports() if each.job.name == "stumbling")
    assert (report.state.failures, report.state.last_failure) == (0, "UnexpectedError: no touch today")
    daemon.close()


def test_a_start_that_fails_in_the_middle_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else neither the notes nor the vectors would ever come."""
    monkeypatch.setattr(thread_supervision, "PAUSE_SECONDS", 0.01)
    failures = [UnexpectedError("not now")]

    class Reluctant(NotesService):
        def start(self) -> None:
            if failures:
                raise failures.pop()
            super().start()

    async def run() -> None:
        daemon = Daemon(configuration(tmp_path), make_notes=Reluctant)
        await asyncio.to_thread(daemon.open)
        await asyncio.to_thread(wait_until, daemon.services.notes.supervisor.is_alive)
        await asyncio.to_thread(wait_until, daemon.services.indexing.supervisor.is_alive)
        status = report_of(daemon).status().threads["mnemo-start"]
        assert (status.restarts, status.last_failure) == (1, "UnexpectedError: not now")
        assert status.failed_at is not None
        await asyncio.to_thread(daemon.close)
        assert not daemon.services.notes.supervisor.is_alive()
        assert not daemon.services.indexing.supervisor.is_alive()

    asyncio.run(run())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "data")
    yield opened
    opened.close()


def put(store: Store, number: int, content: str) -> None:
    memory = sample_memory(number, content=content)
    changes = (PutMemory(data=memory), PutUsage(data=Usage(id=memory.id)))
    store.transact(lambda _: WriteResult(changes, None), by="test").result(10.0)


def found(views: Views, word: str) -> int:
    return len(views.lexical.search(word, 10).numbers)


def failing(times: int, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Raises the first so many times."""
    left = iter(range(times))

    def call(*arguments: Any) -> Any:
        if next(left, None) is not None:
            raise UnexpectedError("once more")
        return otherwise(*arguments)

    return call


def test_an_index_that_fails_costs_no_write_and_is_rebuilt(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    views = Views(store, Disk())
    views.open()
    put(store, 1, "first harbour")
    monkeypatch.setattr(views.lexical, "put", failing(1, views.lexical.put))
    put(store, 2, "second harbour")  # durable, though the view failed
    assert (views.state, found(views, "harbour")) == ("stale", 1)
    assert "once more" in views.reason
    put(store, 3, "third harbour")
    views.rebuild()
    assert (views.state, views.reason, found(views, "harbour")) == ("ready", "", 3)
    put(store, 4, "fourth harbour")
    assert found(views, "harbour") == 4


def test_a_rebuild_that_fails_leaves_the_views_stale_to_be_tried_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = Views(store, Disk())
    views.open()
    put(store, 1, "first harbour")
    monkeypatch.setattr(views.lexical, "put", failing(1, views.lexical.put))
    put(store, 2, "second harbour")
    monkeypatch.setattr(views, "_build", failing(1, views._build))
    with pytest.raises(UnexpectedError):
        views.rebuild()
    assert views.state == "stale"
    views.rebuild()
    assert (views.state, found(views, "harbour")) == ("ready", 2)


def test_writes_during_a_rebuild_are_in_the_new_indexes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    views = Views(store, Disk())
    views.open()
    for number in range(5):
        put(store, number, f"before {number}")
    build = views._build

    def build_slowly() -> Any:
        built = build()
        put(store, 7, "meanwhile")
        put(store, 3, "changed meanwhile")
        return built

    monkeypatch.setattr(views, "_build", build_slowly)
    views.rebuild()
    assert (found(views, "before"), found(views, "meanwhile"), len(views.lexical)) == (4, 2, 6)
    assert views.applied_seq == store.seq


class SurprisingCatalogue(ModelCatalogue):
    def installed(self, name: str) -> ModelManifest | None:
        raise UnexpectedError("the shelf is gone")


def test_a_model_that_fails_to_load_for_an_unexpected_reason_is_reported_as_failed(tmp_path: Path) -> None:
    service = EmbeddingService(SurprisingCatalogue(tmp_path))
    service.refresh()
    status = service.status()
    assert (status.state, service.current()) == ("failed", None)
    assert "the shelf is gone" in (status.reason or "")
    service.close()


class DeafDisk(Disk):
    """Takes bytes and cannot make them durable, once told to fail. `obstacles` is what the store reports meanwhile."""

    fails = False

    def __init__(self) -> None:
        self.store: Store | None = None
        self.obstacles: list[str] = []

    def sync(self, fd: int) -> None:
        self._fail()
        super().sync(fd)

    def truncate(self, fd: int, size: int) -> None:
        self._fail()
        super().truncate(fd, size)

    def _fail(self) -> None:
        if self.fails and self.store is not None:
            self.obstacles.append(self.store.write_obstacle)
            raise OSError(5, "the medium does not answer")


def test_a_store_that_cannot_write_says_why_until_it_can_again(tmp_path: Path) -> None:
    disk = DeafDisk()
    store = Store.open(tmp_path, disk=disk)
    put(store, 1, "before")
    assert store.write_obstacle == ""
    disk.store, disk.fails = store, True
    with pytest.raises(StoreError):
        put(store, 2, "lost")
    wait_until(lambda: any("the medium does not answer" in each for each in disk.obstacles))
    disk.fails = False
    put(store, 3, "after")
    assert store.write_obstacle == ""
    store.close()


def test_token_counts_are_saved_although_the_store_did_not_change(store: Store) -> None:
    views = Views(store, Disk())
    views.open()
    put(store, 1, "five words are counted here")
    views.save()
    (modified_at,) = views.attributes.column("modified_at").tolist()
    views.attributes.set_tokens(0, 7, modified_at)
    views.save()
    again = Views(store, Disk())
    again.open()
    assert again.attributes.column("tokens").tolist() == [7]
