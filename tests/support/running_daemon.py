"""A real daemon in a process of its own, on a folder of its own, for tests and benchmarks."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from mnemo_client.client import Client
from mnemo_client.errors import MnemoError

START_SECONDS_MAX = 60.0  # on a machine with much else to do it was seen to take 23
STOP_SECONDS_MAX = 45.0  # longer than the daemon gives itself before it shows where its threads hang


class RunningDaemon:
    """`start` returns once it answers; `kill` is kill -9. The socket's path is short, whatever the folder's is."""

    def __init__(self, folder: Path, environ: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.socket = folder / "run" / "mnemo.sock"
        self.log = folder / "mnemod.log"
        self.environ = {
            **os.environ,
            "MNEMO_DATA_DIR": str(folder),
            "MNEMO_CONFIG": str(folder / "config.toml"),
            "MNEMO_SOCKET": str(self.socket),
            "MNEMO_JOBS_ON_BATTERY": "run",
            "MNEMO_JOBS_BUSY_PERCENT": "100",  # tests hold on a busy machine
            "MNEMO_LLM_PROBE": "false",  # a minute of a processor
            **(environ or {}),
        }
        self.program = ["-m", "mnemo_daemon"]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Seconds from exec to the first answer. A daemon that gives none is ended."""
        began = time.perf_counter()
        self.begin()
        self.wait_for_answer()
        return time.perf_counter() - began

    def begin(self) -> subprocess.Popen[bytes]:
        """Starts the process, and waits for nothing."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        config = self.folder / "config.toml"
        if not config.exists():
            config.touch(0o600)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.program], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.environ, start_new_session=True,
            )  # fmt: skip
        return self.process

    def wait_for_answer(self) -> None:
        """Returns once the process that was begun answers. One that does not is ended."""
        assert self.process is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        try:
            while time.monotonic() < deadline:
                if self.process.poll() is not None:
                    raise AssertionError(f"the daemon ended with {self.process.returncode}:\n{self.log.read_text()}")
                with contextlib.suppress(MnemoError), Client(self.socket, timeout=START_SECONDS_MAX) as client:
                    client.search("anything")
                    return
                time.sleep(0.005)
            raise AssertionError(f"the daemon does not answer:\n{self.log.read_text()}")
        except BaseException:
            self.kill()
            raise

    def client(self, namespace: str | None = None, entry_point: str = "api") -> Client:
        return Client(self.socket, namespace, entry_point=entry_point)  # type: ignore[arg-type]

    def wait_for_vectors(self, seconds: float = 120.0) -> None:
        """Returns once every memory has its vector and is compared, and the graph over them, where one is wanted, is
        built."""
        deadline = time.monotonic() + seconds
        with self.client() as client:
            while time.monotonic() < deadline:
                status = client.status()
                vectors = status.views["vectors"]
                is_ready = status.models["embedding"].state == "ready" and not vectors.reason
                if is_ready and not any(status.queue.values()):
                    return
                time.sleep(0.02)
        raise AssertionError(f"no vectors after {seconds} s: {status}")

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """The exit status after SIGTERM. One that does not end is killed, and its log shown."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the daemon does not end:\n{self.log.read_text()}") from None


@contextlib.contextmanager
def running(folder: Path, environ: Mapping[str, str] | None = None) -> Iterator[RunningDaemon]:
    """A daemon that has answered once, and is stopped at the end."""
    daemon = RunningDaemon(folder, environ)
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()


class PrestartedDaemons:
    """Daemons that are all alike, each on a new folder: the one that is asked for next starts while a test runs."""

    def __init__(self, make: Callable[[], AbstractContextManager[RunningDaemon]]) -> None:
        """make: one that is not begun, on a folder that is there as long as the context."""
        self._make = make
        self._next: tuple[RunningDaemon, ExitStack] | None = None

    @contextlib.contextmanager
    def taken(self) -> Iterator[RunningDaemon]:
        """One that has answered, and is stopped at the end. Its log never shows a traceback."""
        daemon, folder = self._next or self._begun()
        self._next = None
        with folder:
            daemon.wait_for_answer()
            self._next = self._begun()
            try:
                yield daemon
            finally:
                daemon.stop()
            log = daemon.log.read_text()
            assert "Traceback" not in log, log[-4000:]

    def close(self) -> None:
        if self._next is not None:
            daemon, folder = self._next
            daemon.kill()
            folder.close()

    def _begun(self) -> tuple[RunningDaemon, ExitStack]:
        folder = ExitStack()
        daemon = folder.enter_context(self._make())
        # How long one waits for its test depends on the machine: a cycle would begin five minutes after the start.
        daemon.environ.setdefault("MNEMO_LIFECYCLE_INTERVAL_MINUTES", "0")
        daemon.begin()
        return daemon, folder


def has_ended(pid: int) -> bool:
    """True if no thread of the process is left, even if nobody has taken notice of its end: the parent of an orphan
    may never do."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "Z" and len(os.listdir(f"/proc/{pid}/task")) <= 1
    except (FileNotFoundError, ProcessLookupError):
        return True


def printed(program: str) -> str:
    """The output of a separate Python that runs this program."""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return ended.stdout
