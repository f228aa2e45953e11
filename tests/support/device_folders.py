"""Daemons of one person's devices, each with its own copy of the shared folder, which something else carries.

A carrier is a context: what it yields carries everything that was written until then.
"""

import contextlib
import hashlib
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from mnemo_client.errors import RefusalError
from mnemo_client.protocol.maintenance import SyncAnswer
from mnemo_client.protocol.memories import NewMemory, Patch
from tests.support.file_bytes import readable_bytes
from tests.support.running_daemon import RunningDaemon, running

PASSPHRASE = "correct horse battery staple"
SECRET = "the code of the safe is 4711"
TOGETHER = 500  # memories of one request
CARRIED_SECONDS_MAX = 240.0
GIT = ("git", "-c", "user.name=ada", "-c", "user.email=ada@localhost", "-c", "pull.rebase=false", "-c", "gc.auto=0")

Pair = tuple[RunningDaemon, RunningDaemon]
Carry = Callable[[], None]
Carrier = Callable[[RunningDaemon, RunningDaemon], AbstractContextManager[Carry]]


@contextmanager
def two_devices(folder: Path) -> Iterator[Pair]:
    """Two daemons without a model, and their empty copies of the shared folder."""
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(running(folder / name / "d", {"MNEMO_MODELS_FOLDER": str(folder / "none")}))
            for name in ("a", "b")
        )
        for daemon in (first, second):
            copy_of(daemon).mkdir(mode=0o700)
        yield first, second


def copy_of(daemon: RunningDaemon) -> Path:
    """The daemon's own copy of the shared folder."""
    return daemon.folder.parent / "shared"


def exchange(daemon: RunningDaemon) -> SyncAnswer:
    with daemon.client(entry_point="cli") as client:
        answer = client.exchange_changes()
    assert not answer.problem
    assert not [each.problem for each in answer.devices if each.problem]
    return answer


def add(daemon: RunningDaemon, count: int) -> None:
    name = daemon.folder.parent.name
    texts = [f"device {name} has put item {number} on shelf {number % 7}" for number in range(count)]
    with daemon.client() as client:
        for start in range(0, count, TOGETHER):
            client.remember_many([NewMemory(content=text) for text in texts[start : start + TOGETHER]])


def texts_of(daemon: RunningDaemon) -> dict[str, str]:
    """The text of each memory, by its id."""
    with daemon.client() as client:
        lines = [msgspec.json.decode(line) for line in client.export(history=False)]
    return {line["data"]["id"]: line["data"]["content"] for line in lines if line.get("record_type") == "memory"}


def share_change_and_forget(pair: Pair, carrier: Carrier, each: int) -> None:
    """Two stores of so many memories become one; both sides edit, one forgets, and both prove it."""
    first, second = pair
    for daemon in pair:
        add(daemon, each)
    with first.client() as client:
        client.share(str(copy_of(first)), passphrase=PASSPHRASE, name="a", create=True)
    with carrier(first, second) as carry:
        carry()
        with second.client() as client:
            client.share(str(copy_of(second)), passphrase=PASSPHRASE, name="b", create=False)
        _settle(pair, carry)
        ids = sorted(texts_of(first))
        assert texts_of(first) == texts_of(second)
        assert len(ids) == 2 * each
        edited = ids[:: max(1, len(ids) // 40)]
        with first.client() as here, second.client() as there:
            for memory_id in edited:
                here.patch(memory_id, Patch(content=f"edited on the first: {memory_id}"))
                there.patch(memory_id, Patch(content=f"edited on the second, later: {memory_id}"))
            there.patch(ids[-1], Patch(content=SECRET))
        _settle(pair, carry)
        texts = texts_of(first)
        assert texts == texts_of(second)
        assert [texts[each] for each in edited if each != ids[-1]] == [
            f"edited on the second, later: {each}" for each in edited if each != ids[-1]
        ]
        assert texts[ids[-1]] == SECRET
        with first.client() as client:
            assert client.erase_many([ids[-1]]).purged == [ids[-1]]
        exchange(first)
        with (
            first.client() as client,
            pytest.raises(RefusalError, match="erased already; it waits for b: mnemo forget"),
        ):
            client.erase_many([ids[-1]])
        _settle(pair, carry)
    for daemon in pair:
        assert ids[-1] not in texts_of(daemon)
        with daemon.client() as client:
            (erasure,) = client.sync_status().erasures
        assert (erasure.id, sorted(erasure.done), erasure.waiting) == (ids[-1], ["a", "b"], [])
        for path in (daemon.folder / "db", daemon.folder / "journal"):
            assert not [file for file in path.rglob("*") if file.is_file() and SECRET.encode() in readable_bytes(file)]


def _settle(pair: Pair, carry: Carry) -> None:
    for _ in range(3):  # the changes, their confirmation, and what follows from it
        for daemon in pair:
            exchange(daemon)
        carry()


@contextmanager
def copying(first: RunningDaemon, second: RunningDaemon) -> Iterator[Carry]:
    """Each copy gets what the other device has written."""

    def carry() -> None:
        for source, target in ((first, second), (second, first)):
            with source.client() as client:
                device = client.sync_status().device
            if device is not None:
                place = copy_of(target) / "devices" / device
                shutil.rmtree(place, ignore_errors=True)
                shutil.copytree(copy_of(source) / "devices" / device, place)
                shutil.copy(copy_of(source) / "group.json", copy_of(target))

    yield carry


def _git(folder: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=folder, check=True, capture_output=True)


@contextmanager
def by_git(first: RunningDaemon, second: RunningDaemon) -> Iterator[Carry]:
    """Each side commits what it has, pulls, and pushes, one after the other."""
    hub = first.folder.parent.parent / "hub.git"
    hub.mkdir()
    _git(hub, "init", "-q", "--bare", "-b", "main")
    for daemon in (first, second):
        _git(copy_of(daemon), "init", "-q", "-b", "main")
        _git(copy_of(daemon), "remote", "add", "origin", str(hub))

    def carry() -> None:
        for daemon in (first, second, first):
            _git(copy_of(daemon), "add", "-A")
            _git(copy_of(daemon), "commit", "-q", "--allow-empty", "-m", "carried")
            heads = subprocess.run([*GIT, "ls-remote", str(hub)], check=True, capture_output=True).stdout
            if heads:
                _git(copy_of(daemon), "pull", "-q", "--allow-unrelated-histories", "--no-edit", "origin", "main")
            _git(copy_of(daemon), "push", "-q", "origin", "main")

    yield carry


@contextmanager
def by_syncthing(first: RunningDaemon, second: RunningDaemon) -> Iterator[Carry]:
    """Two processes of Syncthing that know no other device and no server, on this machine's loopback."""
    with ExitStack() as stack:
        places = [_SyncthingProcess(daemon) for daemon in (first, second)]
        for own, other in zip(places, reversed(places), strict=True):
            stack.enter_context(own.running(other))

        def carry() -> None:
            end = time.monotonic() + CARRIED_SECONDS_MAX
            while (found := [_contents(copy_of(daemon)) for daemon in (first, second)])[0] != found[1]:
                assert time.monotonic() < end, f"not carried: {sorted(found[0].items() ^ found[1].items())}"
                for each in places:
                    each.scan()
                time.sleep(0.5)

        yield carry


def _contents(folder: Path) -> dict[str, str]:
    """The digest of each file that devices share, by its path in the folder."""
    found = {}
    for path in [*folder.glob("group*.json"), *folder.glob("devices/*/*")]:
        with contextlib.suppress(FileNotFoundError):
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return {name: digest for name, digest in found.items() if ".syncthing." not in name}


class _SyncthingProcess:
    """Syncthing for one device: its own folder of settings, and no server, discovery, report or update."""

    def __init__(self, daemon: RunningDaemon) -> None:
        self.home = daemon.folder.parent / "syncthing"
        self.shared = copy_of(daemon)
        self.port, self.api_port = (_free_port() for _ in range(2))
        made = subprocess.run(
            ["syncthing", "generate", f"--home={self.home}", "--no-default-folder"], check=True, capture_output=True
        )
        identifier = re.search(rb"([A-Z0-9]{7}(?:-[A-Z0-9]{7}){7})", made.stdout + made.stderr)
        assert identifier is not None, made
        self.id = identifier[1].decode()

    @contextmanager
    def running(self, other: "_SyncthingProcess") -> Iterator[None]:
        (self.home / "config.xml").write_text(self._configuration(other), encoding="utf-8")
        command = ["syncthing", "serve", f"--home={self.home}", "--no-browser", "--no-restart", "--no-upgrade"]
        with (self.home / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "STNOUPGRADE": "1"})
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)

    def _configuration(self, other: "_SyncthingProcess") -> str:
        devices = "".join(
            f'<device id="{each.id}" name="{each.port}" compression="never">'
            f"<address>tcp://127.0.0.1:{each.port}</address></device>"
            for each in (self, other)
        )
        members = "".join(f'<device id="{each.id}"></device>' for each in (self, other))
        off = ("globalAnnounceEnabled", "localAnnounceEnabled", "relaysEnabled", "natEnabled", "startBrowser",
               "crashReportingEnabled", "announceLANAddresses")  # fmt: skip
        return (
            f'<configuration version="35"><folder id="shared" path="{self.shared}" type="sendreceive"'
            f' rescanIntervalS="3600" fsWatcherEnabled="true" fsWatcherDelayS="1">{members}</folder>{devices}'
            f'<gui enabled="true" tls="false"><address>127.0.0.1:{self.api_port}</address><apikey>key</apikey></gui>'
            f"<options><listenAddress>tcp://127.0.0.1:{self.port}</listenAddress><urAccepted>-1</urAccepted>"
            f"<autoUpgradeIntervalH>0</autoUpgradeIntervalH><reconnectionIntervalS>5</reconnectionIntervalS>"
            + "".join(f"<{name}>false</{name}>" for name in off)
            + "</options></configuration>"
        )

    def scan(self) -> None:
        """Have it look for what was changed, once it answers."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.api_port}/rest/db/scan?folder=shared", method="POST", headers={"X-API-Key": "key"}
        )
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=30):
            pass


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
