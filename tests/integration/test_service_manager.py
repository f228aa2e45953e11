"""The daemon under a service manager: it takes the socket of the manager, and gives signs of life only while it works.

systemd-socket-activate stands for systemd, and the test reads NOTIFY_SOCKET: sd_listen_fds(3), sd_notify(3).
"""

import shutil
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_daemon.server.sockets import is_stale
from tests.support.erasure_services import wait_until
from tests.support.running_daemon import START_SECONDS_MAX, STOP_SECONDS_MAX
from tests.support.samples import quick_folder

WATCHDOG_SECONDS = 0.2  # the daemon gives a sign twice as often
SILENT_SECONDS = 2.0  # ten times that
# A daemon in which, once a file of that name is there, reads of the store hang or the writer's thread ends.
FAULTY = textwrap.dedent(
    """
    import pathlib, sys, time
    folder = pathlib.Path(sys.argv.pop())
    from mnemo_daemon import __main__
    from mnemo_store.store import Store
    snapshot, work_once = Store.snapshot, Store._work_once

    def hanging_snapshot(self):
        while (folder / "hang").exists():
            (folder / "hangs").touch()
            time.sleep(0.02)
        return snapshot(self)

    def ending_work(self):
        if (folder / "end").exists():
            raise KeyboardInterrupt
        work_once(self)

    Store.snapshot, Store._work_once = hanging_snapshot, ending_work
    sys.exit(__main__.main())
    """
)


class ActivatedDaemon:
    """A socket with a daemon behind it that starts with the first connection, and the messages of the daemon."""

    def __init__(self, folder: Path, program: list[str]) -> None:
        activate = shutil.which("systemd-socket-activate")
        assert activate is not None, "install systemd (Debian: the package systemd)"
        self.folder = folder
        self.socket = folder / "api.sock"
        self.messages = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.messages.bind(str(folder / "notify"))
        self.messages.settimeout(START_SECONDS_MAX)
        given = {
            "NOTIFY_SOCKET": folder / "notify", "WATCHDOG_USEC": round(WATCHDOG_SECONDS * 1_000_000),
            "MNEMO_DATA_DIR": folder / "data", "MNEMO_CONFIG": folder / "config.toml",
            "MNEMO_MODELS_FOLDER": folder / "models",
        }  # fmt: skip
        (folder / "config.toml").touch(0o600)
        passed_on = [f"--setenv={name}={value}" for name, value in given.items()]
        self.log = (folder / "log").open("w+")
        self.process = subprocess.Popen(
            [activate, "--fdname=api", f"--listen={self.socket}", *passed_on, sys.executable, *program],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )  # fmt: skip
        wait_until(lambda: self.socket.exists() and not is_stale(self.socket))

    def wait_for_message(self, beginning: str) -> str:
        """The next message that begins like this; others before it are dropped."""
        while not (message := self.messages.recv(4096).decode()).startswith(beginning):
            pass
        return message

    def is_silent(self) -> bool:
        """True if no sign of life comes any more."""
        self.messages.settimeout(SILENT_SECONDS)
        deadline = time.monotonic() + START_SECONDS_MAX
        try:
            while time.monotonic() < deadline:  # what was on its way
                self.messages.recv(4096)
        except TimeoutError:
            return True
        finally:
            self.messages.settimeout(START_SECONDS_MAX)
        return False

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS_MAX)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.messages.close()
        self.log.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as folder:
        folder.chmod(0o700)
        yield folder


def test_a_daemon_that_is_started_by_its_socket_serves_on_it_and_reports_every_turn(folder: Path) -> None:
    activated = ActivatedDaemon(folder, ["-m", "mnemo_daemon"])
    try:
        with Client(activated.socket, timeout=START_SECONDS_MAX) as client:
            assert client.health().ok  # this connection is from before there was a daemon
            client.remember("The socket is systemd's.")
        assert stat.S_IMODE(activated.socket.stat().st_mode) == 0o600  # systemd-socket-activate makes it by its umask
        assert activated.wait_for_message("READY=1") == "READY=1"
        while not (sign := activated.wait_for_message("WATCHDOG=1")).startswith(
            "WATCHDOG=1\nSTATUS=degraded, 1 memory: "
        ):
            assert sign.startswith("WATCHDOG=1\nSTATUS=")
        assert "no embedding model" in sign
        with Client(activated.socket, timeout=START_SECONDS_MAX) as client:
            assert client.status().pid == activated.process.pid
            assert "mnemo-self-check" in client.status().threads
        activated.process.send_signal(signal.SIGHUP)
        assert activated.wait_for_message("RELOADING=1").startswith("RELOADING=1\nMONOTONIC_USEC=")
        assert activated.wait_for_message("READY=1") == "READY=1"
        assert activated.stop() == 0
        assert activated.wait_for_message("STOPPING=1") == "STOPPING=1\nSTATUS=finishing the requests under way"
        assert activated.socket.exists()  # it belongs to the service manager, which goes on listening
    finally:
        activated.close()


def test_signs_of_life_end_with_a_store_that_hangs_and_with_a_writer_that_ended(folder: Path) -> None:
    activated = ActivatedDaemon(folder, ["-c", FAULTY, str(folder)])
    try:
        with Client(activated.socket, timeout=START_SECONDS_MAX) as client:
            assert client.health().ok
            activated.wait_for_message("WATCHDOG=1\nSTATUS=degraded, 0 memories: no embedding model")
            (folder / "hang").touch()
            wait_until((folder / "hangs").exists)
            assert activated.is_silent()
            assert client.health().ok  # the event loop turns all the while: the check is about more
            (folder / "hang").unlink()
            activated.wait_for_message("WATCHDOG=1")
            (folder / "end").touch()
            with pytest.raises(RefusalError):
                client.remember("Who writes this?")
            assert activated.is_silent()
            assert client.health().state == "degraded"
        assert "SelfCheckError: the thread that writes to the store has ended" in (folder / "log").read_text()
    finally:
        activated.close()
