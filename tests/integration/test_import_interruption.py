"""An import while it goes on: told about, broken off, out of room. SPEC 3.4, 16.

The parts are real, in this process, so that a disk can be full and a writer be busy when it matters.
"""

import asyncio
import errno
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import MnemoError, RefusalError
from mnemo_daemon import settings
from mnemo_daemon.api import store_routes
from mnemo_daemon.api.store_routes import TransferApi
from mnemo_daemon.app import Daemon
from mnemo_daemon.memories.memory_service import INGESTED_PER_WRITE
from mnemo_daemon.server.http_server import HttpServer
from mnemo_daemon.server.sockets import bind
from mnemo_store.disk import Disk
from tests.support.erasure_services import wait_until
from tests.support.samples import HeldWriter, contents


class SmallDisk(Disk):
    """Full after so many bytes, where somebody says so."""

    room: int | None = None

    def append(self, fd: int, data: bytes) -> None:
        if self.room is not None and len(data) > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().append(fd, data)


class ServedDaemon:
    """A daemon without a model and its two routes, on a thread and a loop of their own."""

    def __init__(self, folder: Path) -> None:
        self.disk = SmallDisk()
        self.path = folder / "s"
        names = {"DATA_DIR": "data", "SOCKET": "s", "MODELS_FOLDER": "models"}
        environ = {f"MNEMO_{name}": str(folder / path) for name, path in names.items()} | {"HOME": str(folder)}
        folder.mkdir(mode=0o700, exist_ok=True)
        self._configuration = settings.load(environ)
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self._thread.start()
        assert self._is_up.wait(20)

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self.daemon = Daemon(self._configuration, disk=self.disk)
        await asyncio.to_thread(self.daemon.open)
        api = TransferApi(self.daemon.services)
        self.server = HttpServer(api.routes(), drain_seconds=0.2)
        listener = bind(self.path)
        await self.server.start(listener.socket)
        self._is_up.set()
        await self._stop.wait()
        await self.server.drain()
        listener.close()
        await asyncio.to_thread(api.close)
        await asyncio.to_thread(self.daemon.close)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def contents(self) -> list[str]:
        return contents(self.daemon.services.store)

    def files(self) -> set[str]:
        return {path.name for path in self.daemon.services.store.folder.iterdir()}


@pytest.fixture
def served(short_folder: Path) -> Iterator[ServedDaemon]:
    one = ServedDaemon(short_folder)
    yield one
    if one._thread.is_alive():
        one.stop()


@pytest.fixture
def client(served: ServedDaemon) -> Iterator[Client]:
    with Client(served.path) as open_client:
        yield open_client


def memories(count: int, size: int = 20) -> list[bytes]:
    items = [{"id": str(number), "memory": f"memory {number} ".ljust(size, "x")} for number in range(count)]
    return [json.dumps(items).encode()]


def test_an_import_that_takes_long_tells_how_far_it_is(
    served: ServedDaemon, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_routes, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(store_routes, "TELL_SECONDS", 0.001)
    reported: list[tuple[int, int]] = []
    found = client.import_from(memories(900), watch=lambda done, of: reported.append((done, of)))
    assert (found.stored, len(served.contents())) == (900, 900)
    assert reported
    done = [each for each, _ in reported]  # of bytes, as long as they are read; then of memories
    assert done == sorted(done)
    assert all(0 <= each <= of for each, of in reported)
    assert json.loads(client.last_body)["stored"] == 900


def test_an_error_after_the_first_line_of_progress_is_the_last_line(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_routes, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(store_routes, "TELL_SECONDS", 0.001)
    with pytest.raises(RefusalError) as refused:
        client.import_from([b"nothing that is known"])
    assert refused.value.code == "unknown_export"


def test_a_disk_without_room_for_the_import_is_reported_and_nothing_is_changed(
    served: ServedDaemon, client: Client
) -> None:
    before = served.files()
    served.disk.room = 1000
    with pytest.raises(RefusalError) as refused:
        client.import_from(memories(200))
    assert (refused.value.status, refused.value.code) == (507, "disk_full")
    assert (served.contents(), served.files()) == ([], before)
    served.disk.room = None
    assert client.import_from(memories(200)).stored == 200


def test_an_import_leaves_the_store_room_to_write(
    served: ServedDaemon, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_routes, "FREE_BYTES_MIN", 1 << 60)  # more than any disk has
    with pytest.raises(RefusalError, match="no room for the import next to the store") as refused:
        client.import_from(memories(1))
    assert refused.value.status == 507


def test_while_it_comes_in_an_import_has_no_name_on_the_disk(served: ServedDaemon, client: Client) -> None:
    """So nothing of it stays, however it ends."""
    before, seen = served.files(), []

    def pieces() -> Iterator[bytes]:
        yield b" " * (4 << 20)  # enough to be written
        time.sleep(0.2)
        seen.append(served.files())
        yield from memories(10)

    assert client.import_from(pieces()).stored == 10
    assert seen == [before]
    assert served.files() == before


def test_a_reader_that_goes_away_ends_the_import_behind_its_slice(
    served: ServedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_routes, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(store_routes, "TELL_SECONDS", 0.001)
    held = HeldWriter(served.daemon.services.store)
    (body,) = memories(1000)
    with socket.socket(socket.AF_UNIX) as hasty:
        hasty.connect(str(served.path))
        hasty.sendall(b"POST /v1/import HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        received = hasty.recv(65536)
        while b"progress" not in received:
            received += hasty.recv(65536)
    wait_until(lambda: not served.server.http.connections)
    held.let_go()
    with Client(served.path) as client:
        found = client.import_from(memories(1000))
    # It may be seen to have gone away before the first slice is begun, where the machine is busy.
    assert (found.stored, found.duplicate) in ((1000 - INGESTED_PER_WRITE, INGESTED_PER_WRITE), (1000, 0))


def test_an_import_that_a_stop_breaks_off_goes_on_next_time(served: ServedDaemon, short_folder: Path) -> None:
    """The daemon is told to stop while the writer is busy with something else."""
    held = HeldWriter(served.daemon.services.store)
    failed: list[MnemoError] = []

    def run() -> None:
        with Client(served.path) as client:
            try:
                client.import_from(memories(1000))
            except MnemoError as error:
                failed.append(error)

    asking = threading.Thread(target=run)
    asking.start()
    wait_until(lambda: served.daemon.services.store.queue_length() == 1)
    stopping = threading.Thread(target=served.stop)
    stopping.start()
    asking.join(30)  # what was begun is given its time, and then broken off
    assert len(failed) == 1
    held.let_go()
    stopping.join(30)
    again = ServedDaemon(short_folder)
    try:
        with Client(again.path) as client:
            found = client.import_from(memories(1000))
        assert found.stored + found.duplicate == 1000
        assert found.duplicate <= INGESTED_PER_WRITE
        assert len(again.contents()) == 1000
    finally:
        again.stop()


def test_imported_memories_are_found_once_the_import_is_answered(
    served: ServedDaemon, client: Client, short_folder: Path
) -> None:
    """The views are built for it before that."""
    source = ServedDaemon(short_folder / "source")
    try:
        with Client(source.path) as other:
            other.import_from(memories(300))
            lines = [line + b"\n" for line in other.export()]
    finally:
        source.stop()
    assert client.import_from(lines).whole
    assert (served.daemon.services.views.state, len(served.daemon.services.views.lexical)) == ("ready", 300)


def test_a_body_that_comes_in_slowly_is_waited_for_piece_by_piece(
    served: ServedDaemon, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is for a piece, not for the whole."""
    monkeypatch.setattr(served.server.bodies, "seconds", 1.5)
    (data,) = memories(30)

    def slowly() -> Iterator[bytes]:
        for start in range(0, len(data), len(data) // 6):
            time.sleep(0.3)
            yield data[start : start + len(data) // 6]

    assert client.import_from(slowly()).stored == 30

    def silent() -> Iterator[bytes]:
        yield data[:10]
        time.sleep(4)
        yield data[10:]

    with pytest.raises(RefusalError, match=r"nothing of the body came for 1\.5 seconds"):
        client.import_from(silent())
