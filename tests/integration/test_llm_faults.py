"""Faults of the language model's process and file under a real daemon: every request is answered by its fallback.

The models have random weights: what they write is rejected, which shows that they were asked.
"""

import contextlib
import ctypes
import dataclasses
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mnemo_client.errors import MnemoError
from mnemo_client.protocol.retrieval import AskAnswer
from mnemo_client.protocol.sessions import NewStep, RunSummaryAnswer
from mnemo_daemon.models.catalogue import MANIFEST, hash_file
from mnemo_daemon.models.installation import import_path
from mnemo_daemon.models.language.language_model import WAITING_MAX
from tests.support.gguf_files import write_llama
from tests.support.running_daemon import RunningDaemon, has_ended
from tests.support.samples import quick_folder

DEADLINE_S = 3.0  # of a task here
LOADING = "still being loaded"
WAIT_S = 120.0  # for what has to come about on a machine with much else to do
SLOW_LAYERS = 300  # with so many an answer takes seconds
WORK_TICKS = 5  # of processor time, by which a worker is known to be at an answer
PIDFD_OPEN, PIDFD_GETFD = 434, 438  # system calls of Linux

# The daemon, with a shorter deadline of the tasks.
HASTY = f"""
import sys
from mnemo_core.llm.registry import TASKS
for task in TASKS:
    object.__setattr__(task, "deadline_s", {DEADLINE_S})
from mnemo_daemon.__main__ import main
sys.exit(main())
"""


@dataclasses.dataclass(frozen=True)
class FaultyDaemon:
    """A daemon that asks a language model, and the file of that model."""

    daemon: RunningDaemon
    model: Path

    def worker(self) -> int | None:
        """The process of the language model; None if there is none."""
        assert self.daemon.process is not None
        tasks = Path(f"/proc/{self.daemon.process.pid}/task").glob("*/children")
        return next((int(pid) for each in tasks for pid in each.read_text().split() if not has_ended(int(pid))), None)

    def asked(self) -> int:
        """The number of answers of the model, whether its answer was used or not."""
        with self.daemon.client() as client:
            return sum(
                used.outcomes.get(each, 0) for used in client.llm_usage().usage for each in ("answered", "rejected")
            )

    def ask(self) -> AskAnswer:
        with self.daemon.client() as client:
            return client.ask("Where does Anna work?", cut="none")

    def summarize(self) -> RunSummaryAnswer:
        """The summary of a run that is made again: a background task."""
        with self.daemon.client() as client:
            run = f"run {time.monotonic_ns()}"
            client.add_step(run, NewStep(step_number=1, action="Read the tests", outcome="Found nothing"))
            return client.summarize_run(run)

    def fails(self, request: str, reason: str) -> None:
        """Assert that a request of this kind is answered by its fallback, for this reason once a slow start is over."""
        said = LOADING
        while LOADING in said:
            if request == "ask":
                answer = self.ask()
                assert (answer.method, "zoo" in answer.answer) == ("quotes", True)
                said = answer.reason or ""
            else:
                made = self.summarize()
                assert (made.method, "Found nothing" in made.memory.content) == ("rule", True)
                said = made.reason or ""
        assert reason in said, said

    def works(self) -> int:
        """The worker, once the model answers again: a slow start costs the first calls their answer."""
        before = self.asked()
        wait_until(lambda: bool(self.ask()) and self.asked() > before)
        worker = self.worker()
        assert worker
        return worker


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def work_ticks(pid: int) -> int:
    """The processor time that a process has used, in clock ticks."""
    return int(_stat(pid)[11]) + int(_stat(pid)[12])


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def feed(pid: int, data: bytes) -> None:
    """Write to the socket between a worker and its daemon, as the worker would."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = libc.syscall(PIDFD_OPEN, pid, 0)
    wire = libc.syscall(PIDFD_GETFD, process, 0, 0)
    assert wire >= 0, os.strerror(ctypes.get_errno())
    try:
        os.write(wire, data)
    finally:
        os.close(wire)
        os.close(process)


@contextlib.contextmanager
def faulty_daemon(
    environ: dict[str, str] | None = None, *, layers: int = 1, program: str = HASTY
) -> Iterator[FaultyDaemon]:
    """A daemon with a random model, which is ended whatever happens."""
    with quick_folder() as scratch:
        services = _started(scratch, environ or {}, layers, program)
        try:
            yield services
        finally:
            if services.daemon.process is not None and services.daemon.process.poll() is None:
                services.daemon.stop()


def _started(scratch: Path, environ: dict[str, str], layers: int, program: str) -> FaultyDaemon:
    models = scratch / "models"
    file = write_llama(scratch / "random.gguf", ["zoo"], context=2048, layers=layers)
    manifest = import_path(file, models, allow_unverified=True)
    fixed = {
        "MNEMO_MODELS_FOLDER": str(models), "MNEMO_LLM_MODEL": manifest.name, "MNEMO_LLM_LEVEL": "full",
        "MNEMO_LLM_CONTEXT_TOKENS": "2048",
    }  # fmt: skip
    daemon = RunningDaemon(scratch / "data", {**fixed, **environ})
    daemon.program = ["-c", program]
    daemon.start()
    with daemon.client() as client:
        client.remember("Anna works at the zoo in Berlin.")
    return FaultyDaemon(daemon, manifest.path())


@pytest.fixture(scope="module")
def services() -> Iterator[FaultyDaemon]:
    with faulty_daemon() as services:
        yield services


REQUESTS = ("ask", "summarize")  # which somebody waits for, and a background task


def end(worker: int) -> None:
    """Kill a worker that has nothing to do, and wait for all its threads: until then the daemon sees it run."""
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: has_ended(worker))


@contextlib.contextmanager
def restored(*files: Path) -> Iterator[None]:
    """Put files back as they were, also after a failed assertion: the tests after it use the same daemon."""
    were = {file: file.read_bytes() for file in files}
    try:
        yield
    finally:
        for file, content in were.items():
            file.write_bytes(content)


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_stopped_worker_costs_the_answer_of_the_model_and_is_replaced(services: FaultyDaemon, request_: str) -> None:
    worker = services.works()
    os.kill(worker, signal.SIGSTOP)
    services.fails(request_, "hung and was stopped")
    assert is_gone(worker)
    assert services.works() != worker


@pytest.mark.parametrize(
    ("request_", "garbage"),
    [("ask", b"Loading model ...\n" * 20), ("summarize", b"\0\0\0\5abcde"), ("ask", b"\xff" * 64)],
    ids=["text", "no msgpack", "too long"],
)
def test_garbage_on_the_wire_of_the_worker_costs_the_answer_of_the_model(
    services: FaultyDaemon, request_: str, garbage: bytes
) -> None:
    worker = services.works()
    os.kill(worker, signal.SIGSTOP)
    feed(worker, garbage)
    services.fails(request_, "invalid message")
    assert is_gone(worker)
    services.works()


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def swapped(file: Path) -> None:
    write_llama(file, ["another"], context=2048, seed=2)


def changed_in_one_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("request_", "damage", "reason"),
    [
        ("ask", Path.unlink, "does not exist"),
        ("summarize", truncated, "expected"),
        ("ask", swapped, "expected"),
        ("summarize", changed_in_one_bit, "expected"),
        ("ask", lambda file: file.write_bytes(b""), "is not a GGUF file"),
    ],
    ids=["missing", "truncated", "swapped", "one bit", "empty"],
)
def test_a_model_file_that_is_not_the_installed_one_is_not_loaded_until_it_is_back(
    services: FaultyDaemon, request_: str, damage: Callable[[Path], object], reason: str
) -> None:
    worker = services.works()
    with restored(services.model):
        damage(services.model)
        end(worker)
        services.fails(request_, reason)
        assert services.worker() is None
    services.works()


@pytest.mark.parametrize(
    ("request_", "rest"),
    [("ask", b"\xff" * 4096), ("summarize", bytes(4096)), ("ask", b"\3\0\0\0" + b"\xff" * 64)],
    ids=["ff", "zeros", "version 3"],
)
def test_garbage_behind_the_mark_of_a_gguf_file_ends_the_process_that_reads_it_alone(
    services: FaultyDaemon, request_: str, rest: bytes
) -> None:
    """The hash is the expected one, so that llama.cpp reads the file."""
    worker = services.works()
    manifest = services.model.parent.parent / MANIFEST
    with restored(services.model, manifest):
        services.model.write_bytes(b"GGUF" + rest)
        of_garbage = {**json.loads(manifest.read_bytes()), "weights_sha256": hash_file(services.model)}
        manifest.write_bytes(json.dumps(of_garbage).encode())
        services.fails(request_, "the language model failed")
        assert is_gone(worker)
        assert services.worker() is None
    services.works()


def test_too_many_questions_are_answered_at_once_by_the_fallback_and_none_is_left_waiting(
    services: FaultyDaemon,
) -> None:
    worker = services.works()
    os.kill(worker, signal.SIGSTOP)
    with ThreadPoolExecutor(2 * WAITING_MAX) as threads:
        answers = list(threads.map(lambda _: services.ask(), range(2 * WAITING_MAX)))
    reasons = [answer.reason or "" for answer in answers]
    assert all("zoo" in answer.answer for answer in answers)
    assert any(f"{WAITING_MAX} calls wait" in reason for reason in reasons), set(reasons)
    services.works()


def test_a_memory_limit_below_the_model_leaves_every_answer_to_the_fallback() -> None:
    with faulty_daemon({"MNEMO_LLM_MEMORY_MIB": "200"}, layers=SLOW_LAYERS) as services:
        for request in REQUESTS:
            services.fails(request, "the language model failed")
            assert services.worker() is None


def test_a_worker_killed_in_the_middle_of_an_answer_is_replaced_and_ends_with_its_daemon() -> None:
    with faulty_daemon(layers=SLOW_LAYERS, program="from mnemo_daemon.__main__ import main; main()") as services:
        services.ask()
        worker = begin_an_answer(services)
        os.kill(worker.pid, signal.SIGKILL)
        worker.asking.join()
        (answer,) = worker.answers
        assert (answer.method, "ended by SIGKILL" in (answer.reason or "")) == ("quotes", True), answer.reason
        last = begin_an_answer(services)
        assert last.pid != worker.pid
        services.daemon.kill()
        wait_until(lambda: has_ended(last.pid))
        last.asking.join()


@dataclasses.dataclass(frozen=True)
class RunningAnswer:
    """A question whose answer the model is writing."""

    pid: int
    asking: threading.Thread
    answers: list[AskAnswer]


def begin_an_answer(services: FaultyDaemon) -> RunningAnswer:
    """Ask, and return while the worker is at the answer."""
    answers: list[AskAnswer] = []

    def ask() -> None:
        try:
            answers.append(services.ask())
        except MnemoError:  # the daemon was killed
            return

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: services.worker() is not None)
    pid = services.worker()
    assert pid
    with services.daemon.client() as client:
        wait_until(lambda: client.status().models["llm"].state == "ready")
    before = work_ticks(pid)
    wait_until(lambda: work_ticks(pid) >= before + WORK_TICKS)
    assert asking.is_alive(), "the answer was there already"
    return RunningAnswer(pid, asking, answers)
