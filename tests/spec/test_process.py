"""Ending the daemon's process, as the client does. SPEC 16."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_client import process
from mnemo_client.errors import MnemoError
from mnemo_client.protocol.status import ShutdownAnswer

PARENT = """
import os, signal, sys
child = os.fork()
if not child:
    signal.pause()
print(child, flush=True)
sys.stdin.read()
"""


class LaunchRequest:
    """A client whose daemon is this process, and ends at once or not at all."""

    def __init__(self, pid: int, *, ends: bool) -> None:
        self._pid = pid
        self._ends = ends

    def shutdown(self) -> ShutdownAnswer:
        if self._ends:
            subprocess.run(["kill", str(self._pid)], check=True)
        return ShutdownAnswer(pid=self._pid)

    def close(self) -> None:
        pass


@pytest.fixture
def child() -> Iterator[int]:
    """A process that is another one's, who never takes notice of its end."""
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        yield pid
        subprocess.run(["kill", "-9", str(pid)], check=False)


def test_a_daemon_whose_parent_takes_no_notice_of_its_end_has_ended(child: int) -> None:
    assert process.stop(LaunchRequest(child, ends=True), seconds_max=20.0)  # type: ignore[arg-type]


def test_a_daemon_that_goes_on_is_not_said_to_have_ended(child: int) -> None:
    with pytest.raises(MnemoError, match=f"process {child}.* still runs"):
        process.stop(LaunchRequest(child, ends=False), seconds_max=0.2)  # type: ignore[arg-type]


def test_a_folder_is_made_private_with_those_above_it(tmp_path: Path) -> None:
    process.make_private_folder(tmp_path / "mnemo" / "run")
    process.make_private_folder(tmp_path / "mnemo" / "run")
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "mnemo", tmp_path / "mnemo" / "run")] == [0o700, 0o700]
