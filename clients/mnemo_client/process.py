"""Starts and stops the daemon process, and finds the one server of a kind that a user runs on loopback.

The daemon is started by exec in a session of its own, so that it outlives the terminal. It binds its socket before it
loads anything, so its first answer is awaited: only that shows that it came up. When two clients start it at once, the
second daemon finds the data folder locked and ends, and both clients use the first.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mnemo_client import path_safety
from mnemo_client.errors import InterruptedAnswerError, MnemoError, StartError, UnreachableError
from mnemo_client.path_safety import replace_file
from mnemo_client.paths import chosen_locations, config_file, data_folder, socket_path
from mnemo_client.paths import log_file as log_file

if TYPE_CHECKING:
    from subprocess import Popen

    from mnemo_client.client import Client

START_SECONDS_MAX = 30.0  # until the first answer, on a slow and busy machine; the aim is well under one
SLOW_SECONDS = 1.5  # after which the user learns the reason of the wait
STOP_SECONDS_MAX = 45.0  # the daemon takes up to 10 s to finish its requests (SPEC 16), then saves its indexes
POLL_SECONDS = 0.02
RACE_SECONDS = 3.0  # within which another daemon, which holds the lock, binds its socket
SETTINGS_FIX = "correct it there; see every wrong setting: mnemo config"
LOG_LINES_SHOWN = 5
LOG_BYTES_MAX = 1024 * 1024  # a log that is longer at a start is replaced

Notify = Callable[[str], None]


class _StartedDaemon(NamedTuple):
    """The process of a daemon, its socket, and its log with the length that it had before."""

    pid: int
    path: Path
    log: Path
    began_at: int


_STARTED: list[_StartedDaemon] = []  # the last daemon that this process started and that answered


def is_listening(path: Path) -> bool:
    """Return True if a process listens on the socket."""
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(bytes(path))
        except OSError:
            return False
    return True


def ensure_running(environ: Mapping[str, str], notify: Notify, *, is_asked_for: bool = False) -> bool:
    """Start the daemon unless it listens already; return True if it was started. Raises StartError.

    With MNEMO_AUTOSTART off it is started only if `is_asked_for`; otherwise this raises UnreachableError.
    """
    path = socket_path(environ)
    if is_listening(path):
        return False
    if not is_asked_for and not starts_by_itself(environ):
        raise UnreachableError(f"no daemon listens on {path}", "MNEMO_AUTOSTART is off; start it with: mnemo up")
    start(environ, path, notify)
    return True


def starts_by_itself(environ: Mapping[str, str]) -> bool:
    """Return True if a command may start the daemon that it needs: unless MNEMO_AUTOSTART is off."""
    return environ.get("MNEMO_AUTOSTART", "").lower() not in ("0", "false", "no", "off")


def start(
    environ: Mapping[str, str], path: Path, notify: Notify, on_process: Callable[[int], object] = lambda _: None
) -> int:
    """Start the daemon, wait for its first answer and return its process id. Raises StartError with the end of its log.

    on_process: called with the process id as soon as it is known, for a caller that may be interrupted meanwhile.
    """
    import subprocess

    log = log_file(environ)
    make_private_folder(data_folder(environ))
    make_private_folder(log.parent)
    began_at = log.stat().st_size if log.exists() else 0
    if began_at > LOG_BYTES_MAX:
        log.unlink()
        began_at = 0
    descriptor = _open_log(log)
    try:
        places = {"MNEMO_DATA_DIR": data_folder, "MNEMO_CONFIG": config_file, "MNEMO_SOCKET": socket_path}
        child = subprocess.Popen(
            [sys.executable, "-m", "mnemo_daemon"],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            cwd="/",
            env={**environ, **{name: str(places[name](environ)) for name in chosen_locations(environ)}},
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    on_process(child.pid)
    _await_listening(child, path, log, began_at, notify)
    _await_first_answer(child, path, log, began_at)
    # The daemon outlives this process on purpose; without this line Popen would warn that nobody waited for it.
    child.returncode = 0
    _STARTED[:] = [_StartedDaemon(child.pid, path, log, began_at)]
    return child.pid


def with_reason(error: "MnemoError") -> "MnemoError":
    """Return why the daemon has ended that this process started, if a request failed by that; else the error itself."""
    if isinstance(error, StartError) or not isinstance(error, (InterruptedAnswerError, UnreachableError)):
        return error
    deadline = time.monotonic() + RACE_SECONDS
    for started in _STARTED:
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < deadline:
                pid, status = os.waitpid(started.pid, os.WNOHANG)
                if pid:
                    return _start_failed(os.waitstatus_to_exitcode(status), started.path, started.log, started.began_at)
                time.sleep(POLL_SECONDS)
    return error


def _open_log(log: Path) -> int:
    """Open the log for appending. Raises StartError unless it is a regular file that only we can access."""
    problem = path_safety.parents_problem(log)
    if problem is None and os.path.lexists(log):
        with contextlib.suppress(OSError):  # what stays wrong is the problem
            path_safety.make_private(log, 0o600)
        problem = path_safety.file_problem(log)
    if problem is not None:
        raise StartError(f"the daemon's log is not safe: {problem.problem}", problem.fix)
    return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)


def _await_listening(child: "Popen[bytes]", path: Path, log: Path, began_at: int, notify: Notify) -> None:
    """Return when a process listens on `path`; raise StartError when the child has ended or takes too long."""
    began = time.monotonic()
    deadline = began + START_SECONDS_MAX
    has_notified = False
    while not is_listening(path):
        now = time.monotonic()
        if child.poll() is not None and deadline - now > RACE_SECONDS:
            # Another daemon that holds the data folder is about to listen.
            if not any("holds the data folder" in line for line in last_lines(log, began_at)):
                raise _start_failed(child.returncode, path, log, began_at)
            deadline = now + RACE_SECONDS
        if now > deadline:
            raise _start_failed(child.poll(), path, log, began_at)
        if now - began > SLOW_SECONDS and not has_notified:
            notify("starting the daemon …")
            has_notified = True
        time.sleep(POLL_SECONDS)


def _await_first_answer(child: "Popen[bytes]", path: Path, log: Path, began_at: int) -> None:
    """Return when the daemon has answered; raise StartError if it ended before it did."""
    from mnemo_client.client import Client

    try:
        with Client(path, timeout=START_SECONDS_MAX) as client:
            client.health()
    except (InterruptedAnswerError, UnreachableError):
        # The connection was closed: this daemon is ending, which takes a moment, or another one that was started too.
        deadline = time.monotonic() + RACE_SECONDS
        while child.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        if child.poll() is not None and not is_listening(path):
            raise _start_failed(child.returncode, path, log, began_at) from None


def stop(client: "Client", seconds_max: float = STOP_SECONDS_MAX) -> bool:
    """Stop the daemon and wait until its process has ended; return False when none ran. Raises MnemoError on a timeout.

    The process is awaited, not the socket: the service manager may hold the socket and go on listening.
    """
    try:
        pid = client.shutdown().pid
    except UnreachableError:
        return False
    client.close()
    deadline = time.monotonic() + seconds_max
    while not _has_ended(pid):
        if time.monotonic() > deadline:
            raise MnemoError(
                f"the daemon (process {pid}) was asked to stop and still runs after {seconds_max:g} seconds",
                "see what holds it up: mnemo service logs",
            )
        time.sleep(POLL_SECONDS)
    return True


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        pass  # it was started by somebody else
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    process = Path(f"/proc/{pid}")  # on Linux: a dead one may only wait for its parent to notice
    try:
        state = (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
        return state in "ZX" and len(list((process / "task").iterdir())) <= 1  # no other thread is still on its way out
    except (OSError, IndexError):
        return False


def make_private_folder(folder: Path) -> None:
    """Create the folder and those above it if they are missing, accessible to their owner only."""
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)


def last_lines(log: Path, began_at: int = 0, count: int = LOG_LINES_SHOWN) -> list[str]:
    """Return the last lines of the log, from offset `began_at` on."""
    try:
        with log.open("rb") as file:
            file.seek(max(began_at, log.stat().st_size - 65536))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-count:]


def _start_failed(code: int | None, path: Path, log: Path, began_at: int) -> StartError:
    if code is None:
        what = f"the daemon was started and does not listen on {path} after {START_SECONDS_MAX:g} seconds"
    else:
        ended = f"with code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
        what = f"the daemon ended at once {ended}"
    output = [f"  {line}" for line in last_lines(log, began_at)]
    message = "\n".join([f"{what}; its output:" if output else what, *output])
    hint = SETTINGS_FIX if code == 2 else f"its log: {log}"  # the code of a daemon that refuses its settings
    return StartError(message, hint if output else "see what is wrong: mnemo doctor")


# Servers on loopback


class ServerRecord(NamedTuple):
    """The record of a running server, for later commands of the same user; `remote` is the host that it passes requests
    on to, "" if that is this machine."""

    address: str
    secret: str
    pid: int
    remote: str = ""


class ServerPlace:
    """The private file of the one server of a kind: locked while it runs, with its record.

    The lock ends with the process, however that ends, so that a file that is left over misleads nobody.
    """

    def __init__(self, folder: Path, kind: str) -> None:
        self._lock_path = folder / f"{kind}.lock"
        self._path = folder / f"{kind}.json"

    def running(self) -> ServerRecord | None:
        """Return the record of the server that runs, if there is one."""
        if not self._lock_path.exists():
            return None
        with self.taken() as is_free:
            if is_free:
                return None
        try:
            return ServerRecord(**json.loads(self._path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None  # it has just started or ended

    @contextlib.contextmanager
    def taken(self) -> Iterator[bool]:
        """Hold the place during the context; yield False if another process holds it."""
        import fcntl

        make_private_folder(self._lock_path.parent)
        descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            os.close(descriptor)

    def publish(self, record: ServerRecord) -> None:
        replace_file(self._path, json.dumps(record._asdict()).encode())

    def withdraw(self) -> None:
        self._path.unlink(missing_ok=True)
