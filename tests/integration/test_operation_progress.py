"""The progress of long requests: in GET /v1/jobs while they run, and on the terminal of who waits. SPEC 14"""

import io
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_client.cli import main
from mnemo_client.cli.operation_progress import progress_text
from mnemo_client.cli.terminal import Terminal
from mnemo_client.client import Client
from mnemo_client.protocol.jobs import OperationView
from mnemo_client.protocol.maintenance import CheckAnswer
from mnemo_daemon.operations import LongOperation
from tests.canned import CannedDaemon
from tests.grounds import wait_until
from tests.running import Ahead, RunningDaemon

MEMORIES = 2000
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
    with filled.client() as client:
        memory_id = client.list_memories(limit=1).memories[0].id
    works: dict[str, Callable[[Client], Any]] = {
        "backup": lambda client: client.back_up(),
        "compact": lambda client: client.compact(),
        "forget": lambda client: client.erase_many([memory_id]),
        "consolidate": lambda client: client.consolidate(dry_run=True),
        "export": lambda client: list(client.export()),
        "reset": lambda client: client.reset(confirm=True),
    }
    found = {name: amounts(followed(filled, name, work)) for name, work in works.items()}
    for name, steps in found.items():
        assert steps, name
        assert all(done == sorted(done) for done in steps.values()), (name, steps)


def test_the_rate_and_the_time_left_are_those_of_the_step() -> None:
    now = 100.0
    operation = LongOperation("check", lambda: now)
    operation.report("first", 0, 10)
    now = 110.0
    operation.report("second", 20, 100)
    assert operation.progress()[1:4] == ("second", 20, 100)
    assert operation.progress()[5:] == (10.0, None, None)
    now = 114.0
    operation.report("second", 40, 100)
    assert operation.progress()[5:] == (14.0, 5.0, 12.0)
    operation.report("third", lambda: 130, 120)
    assert operation.progress().done == 120


def test_reindexing_is_listed_until_the_last_vector_is_computed(in_the_form_of_the_processor: Ahead) -> None:
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


def checking(canned: CannedDaemon, polls: int) -> None:
    """Have the canned daemon answer a check once its progress was asked for `polls` times."""

    def answer(_: Any) -> Any:
        wait_until(lambda: canned.paths().count("GET /v1/jobs") >= polls)
        return CheckAnswer(ok=True, checked={}, totals={}, violations=[], notes=[], seconds=1.0)

    canned.answers["POST /v1/check"] = answer
    canned.say("GET /v1/jobs", {"jobs": [], "last_cycle": None, "operations": [msgspec.structs.asdict(VIEW)]})


def test_the_terminal_shows_the_progress_and_clears_it_at_the_end(canned: CannedDaemon, short_folder: Path) -> None:
    checking(canned, polls=3)
    shown = run_on_a_terminal(canned, short_folder, "check")
    assert f"\r\x1b[K{progress_text(VIEW)}" in shown
    assert "1,500 of 6,000 (25%), 500 a second, 9 s left" in shown
    assert shown.rindex("\r\x1b[K") > shown.rindex("9 s left")


def run_on_a_terminal(canned: CannedDaemon, folder: Path, *words: str) -> str:
    """The standard error of a command whose standard error is a terminal."""
    ours, its = pty.openpty()
    environ = {**os.environ, "MNEMO_SOCKET": str(canned.path), "HOME": str(folder), "TERM": "xterm", "COLUMNS": "120"}
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
    canned: CannedDaemon, short_folder: Path, words: list[str]
) -> None:
    checking(canned, polls=0)
    err = io.StringIO()
    environ = {"MNEMO_SOCKET": str(canned.path), "HOME": str(short_folder)}
    assert main.run(words, Terminal(io.StringIO(), err, environ), environ, io.StringIO()) == 0
    assert err.getvalue() == ""
    assert "GET /v1/jobs" not in canned.paths()
