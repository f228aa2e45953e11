"""`mnemo service install` on machines with systemd, without it, and with one that does not serve this user; the job of
launchd, as far as a machine that is no Mac can test it. SPEC 14."""

import ctypes
import errno
import io
import os
import plistlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.cli import main
from mnemo_client.cli.admin import service
from mnemo_client.cli.terminal import Terminal
from mnemo_daemon.server import service_managers
from mnemo_daemon.server.service_managers import LaunchdError, activated_sockets
from tests.support.samples import quick_folder

SYSTEMCTL = """#!/bin/sh
echo "$*" >>"$HOME/systemctl.log"
[ -z "$FAILS" ] || case "$*" in *"$FAILS"*) echo "Failed to connect to bus: No medium found" >&2; exit 1;; esac
"""


class ServiceUser:
    """A person at a machine whose systemctl only writes down what it is asked."""

    def __init__(self, home: Path) -> None:
        self.home = home
        programs = home / "bin"
        programs.mkdir()
        (programs / "systemctl").write_text(SYSTEMCTL)
        (programs / "systemctl").chmod(0o755)
        self.environ = {
            "HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}", "MNEMO_DATA_DIR": str(home / "50% mine"),
            "XDG_RUNTIME_DIR": str(home),
        }  # fmt: skip
        self.out = self.err = ""

    def give(self, *words: str) -> int:
        out, err = io.StringIO(), io.StringIO()
        code = main.run(list(words), Terminal(out, err, self.environ), self.environ, io.StringIO())
        self.out, self.err = out.getvalue(), err.getvalue()
        return code

    def asked(self) -> list[str]:
        log = self.home / "systemctl.log"
        return log.read_text().splitlines() if log.exists() else []

    def unit(self, name: str) -> str:
        return (self.home / ".config/systemd/user" / name).read_text()


@pytest.fixture
def user() -> Iterator[ServiceUser]:
    with quick_folder() as folder:
        folder.chmod(0o700)
        yield ServiceUser(folder)


def test_the_installed_units_are_enabled_and_systemd_finds_no_fault_in_them(user: ServiceUser) -> None:
    assert user.give("service", "install") == 0, user.err
    assert user.out.startswith("the daemon now starts with your session\n")
    assert user.asked() == [
        "--user show-environment", "--user daemon-reload", "--user enable --now mnemod.socket mnemod.service",
    ]  # fmt: skip
    assert "RestrictAddressFamilies=AF_UNIX\n" in user.unit("mnemod.service")
    assert "OOMPolicy=continue\n" in user.unit("mnemod.service")
    assert f'Environment="MNEMO_DATA_DIR={user.home}/50%% mine"' in user.unit("mnemod.service")
    assert f"ListenStream={user.home}/50%% mine/run/mnemo.sock\n" in user.unit("mnemod.socket")
    verify(user)
    assert user.give("service", "status") == 0
    assert user.give("service", "uninstall") == 0
    assert not list((user.home / ".config/systemd/user").glob("mnemod.*"))
    assert user.give("service", "status") == 3


def verify(user: ServiceUser) -> None:
    analyze = shutil.which("systemd-analyze")
    assert analyze is not None, "install systemd (Debian: the package systemd)"
    units = [str(user.home / ".config/systemd/user" / name) for name in ("mnemod.service", "mnemod.socket")]
    found = subprocess.run(
        [analyze, "--user", "verify", *units], env={**os.environ, "XDG_RUNTIME_DIR": str(user.home)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (found.returncode, found.stderr) == (0, "")


def test_the_proxy_has_a_service_of_its_own_with_its_options(user: ServiceUser) -> None:
    assert user.give("service", "install") == 0, user.err
    options = ["--upstream", "http://127.0.0.1:11434/a%20$b", "--port", "9000", "--inject"]
    assert user.give("service", "install", "--proxy", *options, "--namespace", "boats") == 0, user.err
    assert user.asked()[-2:] == ["--user daemon-reload", "--user enable --now mnemo-proxy.service"]
    (start,) = [line for line in user.unit("mnemo-proxy.service").splitlines() if line.startswith("ExecStart=")]
    assert start.endswith(
        'mnemo" "proxy" "--upstream" "http://127.0.0.1:11434/a%%20$$b" "--namespace" "boats" "--port" "9000" "--inject"'
    )
    assert f'Environment="MNEMO_DATA_DIR={user.home}/50%% mine"' in user.unit("mnemo-proxy.service")
    assert user.give("service", "status", "--proxy") == 0
    assert "a proxy does not run" in user.out
    assert user.give("service", "uninstall", "--proxy") == 0
    assert user.give("service", "status", "--proxy") == 3
    assert user.give("service", "status") == 0, "the daemon's stays"


@pytest.mark.parametrize(
    "words",
    [("--proxy",), ("--proxy", "--upstream", "http://models.example"), ("--upstream", "http://127.0.0.1:1")],
)
def test_a_service_with_options_that_cannot_be_right_is_not_installed(
    user: ServiceUser, words: tuple[str, ...]
) -> None:
    assert user.give("service", "install", *words) == 2
    assert not user.asked()


def test_a_daemon_that_listens_on_tcp_may_open_that_socket_at_its_start_as_a_service() -> None:
    lines = service.units(Path("/venv/bin/mnemod"), {"HOME": "/h"}, uses_tcp=True)["mnemod.service"].splitlines()
    assert [line for line in lines if line.startswith("RestrictAddressFamilies=")] == [
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6"
    ]


def test_without_systemd_nothing_is_installed_and_the_message_says_what_to_do(user: ServiceUser) -> None:
    user.environ["PATH"] = str(user.home)
    assert user.give("service", "install") == 2
    assert "this system has no systemd" in user.err
    assert "mnemo up" in user.err
    assert not (user.home / ".config").exists()


@pytest.mark.parametrize(
    ("fails", "says"), [("show-environment", "log in directly, not by su or sudo"), ("enable", "Failed to connect")]
)
def test_a_systemd_that_does_not_serve_this_user_leaves_nothing_behind(
    user: ServiceUser, fails: str, says: str
) -> None:
    user.environ["FAILS"] = fails
    assert user.give("service", "install") == 1
    assert "Failed to connect to bus" in user.err
    assert says in user.err
    assert not list((user.home / ".config").rglob("mnemod*"))


def test_the_job_of_launchd_has_the_socket_where_clients_look_for_it() -> None:
    environ = {"HOME": "/h/ines", "MNEMO_SOCKET": "/h/ines/m.sock", "MNEMO_DATA_DIR": "/h/ines/data"}
    job = plistlib.loads(service.property_list("/venv/bin/python", environ, Path("/h/ines/log")))
    assert job["Sockets"] == {service_managers.SOCKET_NAME: {"SockPathName": "/h/ines/m.sock", "SockPathMode": 0o600}}
    assert job["ProgramArguments"] == ["/venv/bin/python", "-m", "mnemo_daemon"]
    assert job["KeepAlive"] == {"SuccessfulExit": False}
    assert job["EnvironmentVariables"] == {
        "MNEMO_SOCKET": "/h/ines/m.sock", "MNEMO_DATA_DIR": "/h/ines/data"
    }  # fmt: skip
    assert (job["RunAtLoad"], job["Umask"]) == (True, 0o077)


class FakeLaunchd:
    """The C library of macOS, as far as its manual pages say what it does."""

    def __init__(self, error: int = 0, descriptors: tuple[int, ...] = ()) -> None:
        self.error = error
        self.array = (ctypes.c_int * len(descriptors))(*descriptors)
        self.asked: list[bytes] = []
        self.freed: list[int] = []

    def launch_activate_socket(self, name: bytes, descriptors: Any, count: Any) -> int:
        self.asked.append(name)
        if not self.error:
            descriptors._obj.contents = self.array
            count._obj.value = len(self.array)
        return self.error

    def free(self, pointer: Any) -> None:
        self.freed.append(ctypes.addressof(pointer.contents))


def test_the_socket_of_launchd_is_taken_by_its_name_and_the_array_given_back() -> None:
    library = FakeLaunchd(descriptors=(7, 9))
    assert activated_sockets(library=library) == [7, 9]
    assert library.asked == [b"api"]
    assert library.freed == [ctypes.addressof(library.array)]


def test_a_process_that_launchd_did_not_start_has_no_socket_of_it() -> None:
    assert activated_sockets(library=FakeLaunchd(errno.ESRCH)) == []
    assert activated_sockets(library=FakeLaunchd(errno.ENOENT)) == []
    with pytest.raises(LaunchdError, match="does not hand over the socket 'api': Operation already in progress"):
        activated_sockets(library=FakeLaunchd(errno.EALREADY))
    assert activated_sockets() == []  # this system is no Mac, or this test no job
