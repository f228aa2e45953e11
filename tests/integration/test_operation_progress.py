"""The progress of long requests: in GET /v1/jobs while they run, and on the terminal of who waits. SPEC 14"""

import io
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_client.cli import main
from mnemo_client.cli.format.state import job_lines
from mnemo_client.cli.format.units import progress_text
from mnemo_client.cli.terminal import Terminal, TextStyle
from mnemo_client.client import Client
from mnemo_client.protocol.changes import OperationEvent, StartEvent
from mnemo_client.protocol.maintenance import CheckAnswer
from mnemo_client.protocol.status import JobsAnswer, OperationView
from mnemo_daemon.scheduler import LongOperation
from tests.spec.test_check import fill
from tests.support.erasure_services import wait_until
from tests.support.running_daemon import PrestartedDaemons, RunningDaemon
from tests.support.samples import opened, quick_folder
from tests.support.stub_daemon import StubDaemon

MEMORIES = 2000
ROUNDS_MAX = 10
VIEW = OperationView(
    name="check", step="reading the rows", done=1500, total=6000, started_at=0, seconds=3.2, rate=500.0,
    seconds_left=9.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def filled(daemon: RunningDaemon) -> RunningDaemon:
    items = [{"id": str(number), "memory": f"Note {number} is about boat {number * 7}."} for number in range(MEMORIES)]
    with daemon.client() as client:
        client.import_from([json.dumps(items).encode()])
    return daemon


def followed(daemon: RunningDaemon, name: str, work: Callable[[Client], Any]) -> list[OperationView]:
    """The answers about an operation that was asked for as often as possible while it ran."""
    seen: list[OperationView] = []

    def run() -> None:
        with daemon.client() as client:
            work(client)

    thread = threading.Thread(target=run)
    thread.start()
    with daemon.client() as client:
        while thread.is_alive():
            seen += [each for each in client.jobs().operations if each.name == name]
        assert client.jobs().operations == []
    thread.join()
    return seen


def amounts(seen: list[OperationView]) -> dict[str, list[int]]:
    steps: dict[str, list[int]] = {}
    for each in seen:
        steps.setdefault(each.step, []).append(each.done)
        assert not each.total or each.done <= each.total
    return steps


def test_the_progress_of_a_check_grows_in_each_step(filled: RunningDaemon) -> None:
    seen = followed(filled, "check", lambda client: client.check())
    steps = amounts(seen)
    assert all(done == sorted(done) for done in steps.values()), steps
    assert len(set(steps["reading the rows"])) > 5
    assert {"comparing the journal", "checking the index: words and columns"} <= steps.keys()
    rows = {each.total for each in seen if each.step == "reading the rows"}
    assert min(rows) > MEMORIES
    assert [each.seconds for each in seen] == sorted(each.seconds for each in seen)


def test_backup_compaction_erasure_and_reset_are_listed_while_they_run(filled: RunningDaemon) -> None:
    works: dict[str, Callable[[Client], Any]] = {
        "backup": lambda client: client.back_up(),
        "compact": lambda client: client.compact(),
        "forget": lambda client: client.erase_many([client.list_memories(limit=1).memories[0].id]),
        "consolidate": lambda client: client.consolidate(dry_run=True),
        "export": lambda client: list(client.export()),
        "reset": lambda client: client.reset(confirm=True),
    }
    found = {}
    for name, work in works.items():  # on a busy machine one may have ended before it was asked for
        rounds = (amounts(followed(filled, name, work)) for _ in range(1 if name == "reset" else ROUNDS_MAX))
        found[name] = next((steps for steps in rounds if steps), {})
    for name, steps in found.items():
        assert steps, name
        assert all(done == sorted(done) for done in steps.values()), (name, steps)


def test_the_rate_and_the_time_left_are_those_of_the_step() -> None:
    now = 100.0
    operation = LongOperation("check", lambda: now)
    operation.report("first", 0, 10)
    now = 110.0
    operation.report("second", 20, 100)
    shown = operation.progress()
    assert (shown.step, shown.done, shown.total) == ("second", 20, 100)
    assert (shown.seconds, shown.rate, shown.seconds_left) == (10.0, None, None)
    now = 114.0
    operation.report("second", 40, 100)
    shown = operation.progress()
    assert (shown.seconds, shown.rate, shown.seconds_left) == (14.0, 5.0, 12.0)
    operation.report("third", lambda: 130, 120)
    assert operation.progress().done == 120


def test_reindexing_is_listed_until_the_last_vector_is_computed(
    in_the_form_of_the_processor: PrestartedDaemons,
) -> None:
    items = [{"id": str(number), "memory": f"Note {number} is about boat {number * 7}."} for number in range(250)]
    with in_the_form_of_the_processor.taken() as daemon, daemon.client() as client:
        client.import_from([json.dumps(items).encode()])
        daemon.wait_for_vectors()
        assert client.jobs().operations == []
        client.reindex(force=True)
        seen = []
        while found := client.jobs().operations:
            seen += found
        counts = [each.done for each in seen]
        assert {(each.name, each.step, each.total) for each in seen} == {("reindex", "computing vectors", 250)}
        assert counts == sorted(counts)
        assert len(set(counts)) > 2
        assert client.status().queue["vectors"] == 0


def checking(stub_daemon: StubDaemon, polls: int) -> None:
    """Have the stub daemon answer a check once its progress was asked for `polls` times."""

    def answer(_: Any) -> Any:
        wait_until(lambda: stub_daemon.paths().count("GET /v1/jobs") >= polls)
        return CheckAnswer(ok=True, checked={}, totals={}, violations=[], notes=[], seconds=1.0)

    stub_daemon.answers["POST /v1/check"] = answer
    stub_daemon.say("GET /v1/jobs", {"jobs": [], "last_cycle": None, "operations": [msgspec.structs.asdict(VIEW)]})


def test_the_terminal_shows_the_progress_and_clears_it_at_the_end(stub_daemon: StubDaemon, short_folder: Path) -> None:
    checking(stub_daemon, polls=3)
    shown = run_on_a_terminal({"MNEMO_SOCKET": str(stub_daemon.path)}, short_folder, "check")
    assert f"\r\x1b[K{progress_text(VIEW)}" in shown
    assert "1,500 of 6,000 (25%), 500 a second, 9 s left" in shown
    assert shown.rindex("\r\x1b[K") > shown.rindex("9 s left")


def run_on_a_terminal(places: Mapping[str, str], folder: Path, *words: str) -> str:
    """The standard error of a command whose standard error is a terminal."""
    ours, its = pty.openpty()
    environ = {**os.environ, **places, "HOME": str(folder), "TERM": "xterm", "COLUMNS": "120"}
    command = subprocess.Popen(
        [sys.executable, "-m", "mnemo_client.cli.main", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=its, env=environ,
    )  # fmt: skip
    os.close(its)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert command.communicate()[0]
    assert command.returncode == 0
    return shown.decode()


@pytest.mark.parametrize("words", [["check"], ["check", "--json"]])
def test_in_a_pipe_the_progress_is_neither_shown_nor_asked_for(
    stub_daemon: StubDaemon, short_folder: Path, words: list[str]
) -> None:
    checking(stub_daemon, polls=0)
    err = io.StringIO()
    environ = {"MNEMO_SOCKET": str(stub_daemon.path), "HOME": str(short_folder)}
    assert main.run(words, Terminal(io.StringIO(), err, environ), environ, io.StringIO()) == 0
    assert err.getvalue() == ""
    assert "GET /v1/jobs" not in stub_daemon.paths()


# A daemon whose long work goes on only after somebody asked for its progress: no step is too fast to be seen.
OBSERVED = """
import sys, threading
from mnemo_daemon.scheduler import LongOperation, OperationRegistry
report, progress, reported = LongOperation.report, OperationRegistry.progress, []

def report_and_wait(self, step, done, total):
    report(self, step, done, total)
    reported.append(threading.Event())
    reported[-1].wait(60)

def note_progress(self):
    waiting = list(reported)
    found = progress(self)
    for each in waiting:
        each.set()
    return found

LongOperation.report, OperationRegistry.progress = report_and_wait, note_progress
from mnemo_daemon.__main__ import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def observed() -> Iterator[RunningDaemon]:
    with quick_folder() as scratch:
        daemon = RunningDaemon(scratch / "data", {"MNEMO_MODELS_FOLDER": str(scratch / "models")})
        daemon.program = ["-c", OBSERVED]
        daemon.start()
        yield daemon
        daemon.stop()


def test_audit_compression_and_emptying_the_trash_are_listed_while_they_run(observed: RunningDaemon) -> None:
    with observed.client(entry_point="cli") as client:
        for number in range(3):
            client.delete(client.remember(f"Note {number} is about boat {number * 7}.").memory.id)
        for session in range(2):
            for turn in range(3):
                client.remember(f"Boat {turn} of harbour {session} is blue.", session_id=f"s{session}", kind="episodic")
    found = {
        "audit": amounts(followed(observed, "audit", lambda client: client.audit())),
        "compress": amounts(followed(observed, "compress", lambda client: client.compress(sessions=2))),
        "trash empty": amounts(followed(observed, "trash empty", lambda client: client.empty_trash(confirm=True))),
    }
    assert found["audit"]["reading the memories"]
    assert set(found["compress"]["summarizing conversations"]) == {0, 1, 2}
    assert set(found["trash empty"]["deleting"]) == {0, 3}


def test_the_events_have_the_progress_of_a_long_request_and_its_end(observed: RunningDaemon) -> None:
    seen: list[OperationEvent] = []

    def read() -> None:
        with observed.client() as reader:
            for _, event in reader.events(types=["operation"]):
                if isinstance(event, StartEvent):
                    begun.set()
                if isinstance(event, OperationEvent):
                    seen.append(event)
                    if event.state == "ended":
                        return

    begun = threading.Event()
    thread = threading.Thread(target=read)
    thread.start()
    assert begun.wait(60)
    with observed.client(entry_point="cli") as client:
        client.audit()
    thread.join()
    assert {(each.name, each.started_at) for each in seen} == {("audit", seen[0].started_at)}
    assert [each.state for each in seen] == ["running"] * (len(seen) - 1) + ["ended"]
    assert seen[0].step == "reading the memories"


def test_the_list_of_jobs_begins_with_the_long_requests() -> None:
    lines = job_lines(JobsAnswer(jobs=[], operations=[VIEW]), TextStyle())
    assert lines == [progress_text(VIEW)]


@pytest.mark.parametrize("words", [["check"], ["repair", "--dry-run"]])
def test_a_check_without_a_daemon_shows_its_steps_on_a_terminal(short_folder: Path, words: list[str]) -> None:
    with opened(short_folder / "data") as store:
        fill(store)
    environ = {"MNEMO_SOCKET": str(short_folder / "none"), "MNEMO_DATA_DIR": str(short_folder / "data")}
    shown = run_on_a_terminal(environ, short_folder, *words)
    assert "reading the rows 0 of " in shown
    assert "comparing the journal …" in shown
    assert shown.endswith("\r\x1b[K")
