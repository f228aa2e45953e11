"""`mnemo restore` while a daemon runs: whatever fails, the daemon runs again, with the store as it was. SPEC 14"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mnemo_client import process as launch
from mnemo_client.errors import MnemoError
from mnemo_store.records import FORMAT
from tests.support.erasure_services import wait_until
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import opened, remember

KEPT = "The boat lies in the third basin."


class PseudoTerminal:
    """Gives commands beside a daemon that is running."""

    def __init__(self, daemon: RunningDaemon, here: Path) -> None:
        self.daemon = daemon
        self.here = here
        self.environ = {**daemon.environ, "HOME": str(here), "MNEMO_AUTOSTART": "off", "TERM": "dumb"}
        with daemon.client() as client:
            client.remember(KEPT)
        self.first_pid = self.pid()

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "mnemo_client.cli.main", *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.environ, cwd=self.here,
        )  # fmt: skip

    def give(self, *words: str) -> tuple[int, str]:
        process = self.begin(*words)
        said = process.communicate(timeout=120)[0].decode()
        assert "Traceback" not in said
        return process.returncode, said

    def pid(self) -> int:
        """Of the daemon that answers."""
        with self.daemon.client() as client:
            return client.status().pid

    def texts(self) -> list[str]:
        with self.daemon.client() as client:
            return sorted(memory.content for memory in client.list_memories().memories)

    def end(self) -> None:
        """Returns once the process of the daemon that answers has ended."""
        with contextlib.closing(self.daemon.client()) as client:
            launch.stop(client)

    def answers(self) -> bool:
        try:
            self.pid()
        except MnemoError:
            return False
        return True


@pytest.fixture
def terminal(short_folder: Path) -> Iterator[PseudoTerminal]:
    (short_folder / "config.toml").write_text("")
    daemon = RunningDaemon(short_folder / "data", {"MNEMO_MODELS_FOLDER": str(short_folder / "models")})
    daemon.socket, daemon.log = short_folder / "mnemo.sock", short_folder / "mnemod.log"
    daemon.environ |= {"MNEMO_SOCKET": str(daemon.socket), "MNEMO_CONFIG": str(short_folder / "config.toml")}
    daemon.start()
    terminal = PseudoTerminal(daemon, short_folder)
    yield terminal
    terminal.end()
    daemon.stop()


def other_store(folder: Path) -> Path:
    with opened(folder) as store:
        remember(store, 1, "From elsewhere.")
    return folder


def folder_without_a_store(terminal: PseudoTerminal) -> list[str]:
    (terminal.here / "photos").mkdir()
    return ["photos"]


def damaged_backup(terminal: PseudoTerminal) -> list[str]:
    assert terminal.give("backup", "copy")[0] == 0
    data = terminal.here / "copy" / "db" / "data.mdb"
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    return ["copy"]


def backup_of_a_newer_format(terminal: PseudoTerminal) -> list[str]:
    assert terminal.give("backup", "newer")[0] == 0
    listed = terminal.here / "newer" / "backup.json"
    listed.write_text(listed.read_text().replace(f'"format": {FORMAT}', '"format": 99'))
    return ["newer"]


def more_than_the_disk_has_room_for(terminal: PseudoTerminal) -> list[str]:
    os.truncate(other_store(terminal.here / "other") / "db" / "data.mdb", 1 << 42)
    return ["other"]


UNUSABLE: tuple[tuple[Callable[[PseudoTerminal], list[str]], str], ...] = (
    (folder_without_a_store, "holds neither a database nor a journal"),
    (damaged_backup, "data.mdb is damaged"),
    (backup_of_a_newer_format, "has format 99; this version supports formats up to"),
    (more_than_the_disk_has_room_for, "no room"),
)


def test_an_unusable_backup_is_refused_before_the_daemon_is_stopped(terminal: PseudoTerminal) -> None:
    for make, said in UNUSABLE:
        code, reported = terminal.give("restore", *make(terminal), "--yes")
        assert code != 0
        assert said in reported
        assert terminal.pid() == terminal.first_pid
        assert terminal.texts() == [KEPT]


def test_a_failure_after_the_daemon_was_stopped_leaves_it_running_again(terminal: PseudoTerminal) -> None:
    other = other_store(terminal.here / "other")
    shutil.rmtree(other / "db")
    segment = next((other / "journal").glob("short_term.jsonl"))
    segment.write_bytes(b"nothing that a journal has\n" * 3)
    code, reported = terminal.give("restore", "other", "--yes")
    assert code == 1, reported
    assert "the journal is damaged (short_term.jsonl at byte 0: " in reported
    assert terminal.pid() != terminal.first_pid
    assert terminal.texts() == [KEPT]


@pytest.mark.parametrize("victim", ["the work", "the command"])
def test_a_restore_that_is_killed_leaves_the_daemon_running_again(terminal: PseudoTerminal, victim: str) -> None:
    other = other_store(terminal.here / "other")
    os.mkfifo(other / "journal" / "long_term.000001.jsonl")  # which holds up whoever copies it
    process = terminal.begin("restore", "other", "--yes")
    stage = terminal.daemon.folder.with_name(terminal.daemon.folder.name + ".restoring")
    wait_until(lambda: (stage / "journal").exists() or process.poll() is not None)
    assert process.poll() is None
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    if victim == "the work":
        for child in children:
            os.kill(int(child), signal.SIGKILL)
    else:
        process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode != 0
    assert terminal.answers()
    assert terminal.texts() == [KEPT]
    assert not stage.exists()


def test_a_daemon_that_ran_runs_on_with_what_was_restored(terminal: PseudoTerminal) -> None:
    assert terminal.give("backup", "copy")[0] == 0
    with terminal.daemon.client() as client:
        client.remember("Said after the backup.")
    code, reported = terminal.give("restore", "copy", "--yes")
    assert code == 0, reported
    assert terminal.texts() == [KEPT]
