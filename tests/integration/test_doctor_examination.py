"""The checks of the doctor for a program that shows them itself, on a real daemon. SPEC 13"""

from pathlib import Path

import pytest

from mnemo_client.cli.doctor.examination import CHECKS, SLOW, WRITING, examine
from tests.support.running_daemon import RunningDaemon


def test_a_program_gets_the_checks_and_nothing_is_printed_or_written(
    started_daemon: RunningDaemon, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with started_daemon.client() as client:
        seq = client.status().seq
        found = {check.name: check for check in examine(started_daemon.environ, tmp_path, WRITING | SLOW)}
        assert client.status().seq == seq
        assert (found["daemon"].outcome, found["store"].outcome, found["model"].outcome) == ("ok", "ok", "warn")
        assert found["model"].fix
        assert not found.keys() & (WRITING | SLOW)
        whole = {check.name: check.outcome for check in examine(started_daemon.environ, tmp_path)}
        assert (whole["round trip"], whole["integrity"], whole["exposure"]) == ("ok", "ok", "ok")
        assert client.status().seq > seq
    assert capfd.readouterr() == ("", "")


def test_without_a_daemon_the_checks_of_the_machine_remain(scratch_daemon: RunningDaemon, tmp_path: Path) -> None:
    found = {check.name: check.outcome for check in examine(scratch_daemon.environ, tmp_path)}
    assert found["daemon"] == "fail"
    assert "python" in found
    assert not found.keys() & {row.name for row in CHECKS if row.needs_daemon}


def test_the_checks_that_may_be_left_out_are_checks() -> None:
    assert {row.name for row in CHECKS} >= WRITING | SLOW
