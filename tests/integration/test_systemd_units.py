"""The user units say what the daemon relies on, systemd takes them, and the daemon speaks sd_notify."""

import configparser
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_daemon.server.service_managers import Notifier
from mnemo_daemon.server.sockets import BACKLOG

UNITS = Path(__file__).parents[2] / "systemd"


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[method-assign, assignment]
    parser.read_string((UNITS / name).read_text(encoding="utf-8"))
    return parser


def test_the_socket_is_where_clients_look_and_the_owners_alone() -> None:
    section = dict(unit("mnemod.socket")["Socket"])
    assert section["ListenStream"] == "%t/mnemo/mnemo.sock"
    assert section["SocketMode"] == "0600"
    assert section["DirectoryMode"] == "0700"
    assert int(section["Backlog"]) == BACKLOG
    assert unit("mnemod.socket")["Install"]["WantedBy"] == "sockets.target"


def test_the_service_tells_when_it_is_ready_comes_back_after_a_crash_and_stops_in_its_own_time() -> None:
    section = dict(unit("mnemod.service")["Service"])
    assert section["Type"] == "notify"
    assert section["ExecStart"] == "%h/.local/bin/mnemod"
    assert section["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert section["Restart"] == "on-failure"
    assert section["RestartPreventExitStatus"].split() == ["2", "3"]
    assert int(section["WatchdogSec"]) >= 30
    assert int(section["TimeoutStopSec"]) > 10  # the 10 s for what was begun, SPEC 16
    assert unit("mnemod.service")["Unit"]["Requires"] == "mnemod.socket"
    assert section["OOMPolicy"] == "continue"  # it does without a language model that was too large


def test_the_service_can_open_no_network_socket_and_gain_no_privilege() -> None:
    section = dict(unit("mnemod.service")["Service"])
    assert section["RestrictAddressFamilies"] == "AF_UNIX"
    assert section["NoNewPrivileges"] == "yes"
    assert section["UMask"] == "0077"
    assert section["SystemCallFilter"].split() == ["@system-service", "seccomp"]  # with which it blocks the network
    assert section["SystemCallErrorNumber"] == "EPERM"
    # These need privileges that a user's service manager does not have, and would only look like protection.
    assert not {"ProtectSystem", "PrivateTmp", "ProtectHome", "IPAddressDeny"} & set(section)


def test_systemd_itself_takes_the_units(tmp_path: Path) -> None:
    names = ("mnemod.service", "mnemod.socket", "mnemo-proxy.service")
    for name in names:
        text = (UNITS / name).read_text(encoding="utf-8")
        assert all(line == line.strip() for line in text.splitlines())
        for program in ("%h/.local/bin/mnemod", "%h/.local/bin/mnemo"):
            text = text.replace(program, "/bin/true")
        (tmp_path / name).write_text(text, encoding="utf-8")
    analyze = shutil.which("systemd-analyze")
    if analyze is None:  # macOS, or a system without systemd: the keys are checked above
        return
    units = [str(tmp_path / name) for name in names]
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    found = subprocess.run(
        [analyze, "--user", "verify", *units], env=environ, capture_output=True, text=True, timeout=30
    )
    assert (found.returncode, found.stderr) == (0, "")


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The service manager's end: a real datagram socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(5)
        yield listening


def test_the_service_manager_hears_of_every_turn(manager: socket.socket) -> None:
    notifier = Notifier(manager.getsockname())
    notifier.ready("12 memories")
    assert manager.recv(4096) == b"READY=1\nSTATUS=12 memories"
    notifier.keep_alive()
    assert manager.recv(4096) == b"WATCHDOG=1"
    notifier.keep_alive("indexing\nhalf done")
    assert manager.recv(4096) == b"WATCHDOG=1\nSTATUS=indexing half done"
    notifier.reloading()
    assert manager.recv(4096).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
    notifier.stopping()
    assert manager.recv(4096) == b"STOPPING=1"


def test_an_abstract_address_works_too() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0mnemo-test-{os.getpid()}")
        listening.settimeout(5)
        Notifier(f"@mnemo-test-{os.getpid()}").ready()
        assert listening.recv(4096) == b"READY=1"


def test_the_variables_are_taken_out_so_that_children_do_not_speak_for_the_daemon() -> None:
    environ = {"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1", "HOME": "/"}
    notifier = Notifier.from_environ(environ)
    assert environ == {"HOME": "/"}
    assert notifier.address == "/run/notify"
    assert notifier.watchdog_seconds == 30.0


@pytest.mark.parametrize("microseconds", ["", "0", "soon"])
def test_without_a_watchdog_nothing_is_notified(microseconds: str) -> None:
    assert Notifier.from_environ({"WATCHDOG_USEC": microseconds}).watchdog_seconds is None


def test_an_absent_service_manager_does_no_harm(tmp_path: Path, manager: socket.socket) -> None:
    Notifier().ready()
    Notifier(str(tmp_path / "nobody")).ready()
    notifier = Notifier(manager.getsockname())
    for _ in range(2000):  # it does not read: its queue runs full
        notifier.keep_alive()
    assert manager.recv(4096) == b"WATCHDOG=1"
