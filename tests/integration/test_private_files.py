"""No other user reads or replaces what is ours: socket, data folder, configuration, log. SPEC 16

The tests act as root, who alone can make files of other users: without root they fail and say so.
"""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mnemo_client import path_safety, process
from mnemo_client.errors import StartError
from mnemo_daemon import settings
from mnemo_daemon.server import private_files
from mnemo_daemon.server.sockets import SocketError, bind
from tests.support.running_daemon import RunningDaemon, running

NOBODY = 65534
OTHER = 65533  # a user without a name


@pytest.fixture(autouse=True)
def _as_root() -> Iterator[None]:
    assert os.geteuid() == 0, "these tests make files of other users: run them as root"
    umask = os.umask(0o022)
    yield
    os.umask(umask)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def made(path: Path, mode: int = 0o755, uid: int = 0) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    os.chown(path, uid, 0)
    return path


@pytest.mark.parametrize(
    ("mode", "uid", "group", "said"),
    [
        (0o777, 0, 0, "other users can write to the folder {above} (mode 0777) and could replace what is in it; "
                      "run: chmod go-w {above}"),
        (0o770, 0, NOBODY, "other users can write to the folder {above} (mode 0770) and could replace what is in it; "
                           "run: chmod go-w {above}"),
        (0o755, NOBODY, 0, "the folder {above} belongs to user 65534, who could replace what is in it; use a path "
                           "below a folder of your own, or run: sudo chown 0 {above}"),
        (0o1777, NOBODY, 0, "the folder {above} belongs to user 65534"),
        (0o1777, 0, 0, None),  # as /tmp
        (0o775, 0, 0, None),  # the group that belongs to the owner alone
        (0o755, 0, NOBODY, None),
    ],
)  # fmt: skip
def test_a_folder_above_that_others_may_write_to_or_own_is_refused_with_the_remedy(
    tmp_path: Path, mode: int, uid: int, group: int, said: str | None
) -> None:
    above = tmp_path / "above"
    path = above / "mine" / "run" / "mnemo.sock"
    made(path.parent.parent, 0o700)
    made(above, mode, uid)
    os.chown(above, uid, group)
    if said is None:
        bind(path).close()
        private_files.secure(above / "data", above / "config.toml", above / "log")
        return
    with pytest.raises(SocketError) as refused:
        bind(path)
    assert said.format(above=above) in str(refused.value)
    assert not path.parent.exists()
    with pytest.raises(private_files.UnsafeFileError) as refused_data:
        private_files.secure(above / "mine" / "data", tmp_path / "config.toml", tmp_path / "log")
    assert said.format(above=above) in str(refused_data.value)
    assert not (above / "mine" / "data").exists()


def test_a_group_that_a_list_of_rights_widens_counts_as_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    above = made(tmp_path / "above", 0o775)
    assert path_safety.parents_problem(above / "data") is None
    monkeypatch.setattr(os, "listxattr", lambda _: ["system.posix_acl_access"])
    problem = path_safety.parents_problem(above / "data")
    assert problem is not None
    assert problem.path == above


def test_a_link_above_is_followed_and_each_folder_on_its_way_is_judged(tmp_path: Path) -> None:
    real = made(tmp_path / "real", 0o700)
    link = tmp_path / "link"
    link.symlink_to("nowhere/../real")
    made(tmp_path / "nowhere")
    assert path_safety.parents_problem(link / "data") is None
    made(tmp_path / "nowhere", 0o777)
    problem = path_safety.parents_problem(link / "data")
    assert problem is not None
    assert problem.path == tmp_path / "nowhere"
    made(tmp_path / "nowhere")
    os.chown(link, NOBODY, 0, follow_symlinks=False)
    problem = path_safety.parents_problem(link / "data")
    assert problem is not None
    assert problem.problem == f"the symbolic link {link} belongs to user 65534, who could replace what is in it"
    assert list(real.iterdir()) == []


def test_links_in_a_circle_are_refused_and_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    problem = path_safety.parents_problem(tmp_path / "a" / "data")
    assert problem is not None
    assert "too many symbolic links" in problem.problem


def test_a_stale_socket_of_another_user_is_refused_and_stays(tmp_path: Path) -> None:
    path = made(tmp_path / "run", 0o700) / "mnemo.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    os.chown(path, NOBODY, 0)
    with pytest.raises(SocketError, match=f"was made by user 65534; run: sudo rm {path}"):
        bind(path)
    assert path.exists()


@pytest.mark.parametrize("uid", [NOBODY, OTHER])
def test_a_folder_of_another_user_is_refused_for_socket_and_data(tmp_path: Path, uid: int) -> None:
    folder = made(tmp_path / "theirs", 0o700, uid)
    with pytest.raises(SocketError, match=f"{folder} belongs to user {uid}"):
        bind(folder / "mnemo.sock")
    with pytest.raises(private_files.UnsafeFileError, match=f"belongs to user {uid}; use one of yours, or run: "):
        private_files.secure(folder, tmp_path / "config.toml", tmp_path / "log")


def test_what_others_can_read_is_made_private_and_reported(tmp_path: Path) -> None:
    data = made(tmp_path / "data", 0o755)
    config, log = tmp_path / "config.toml", made(data / "run", 0o700) / "mnemod.log"
    config.write_text("")
    log.write_text("")
    assert private_files.secure(data, config, log) == [
        f"other users could access {data} (mode 0755): it now has mode 0700",
        f"other users could access {config} (mode 0644): it now has mode 0600",
        f"other users could access {log} (mode 0644): it now has mode 0600",
    ]
    assert [mode_of(path) for path in (data, config, log)] == [0o700, 0o600, 0o600]
    assert private_files.secure(data, config, log) == []


def test_a_data_folder_behind_a_link_is_used_and_made_private(tmp_path: Path) -> None:
    real = made(tmp_path / "disk" / "data", 0o755)
    link = tmp_path / "data"
    link.symlink_to(real)
    assert len(private_files.secure(link, tmp_path / "config.toml", tmp_path / "log")) == 1
    assert mode_of(real) == 0o700


def linked(path: Path) -> None:
    path.symlink_to(path.parent / "elsewhere")


def owned(path: Path) -> None:
    path.write_text("")
    os.chown(path, NOBODY, 0)


@pytest.mark.parametrize(
    ("make", "said"),
    [(linked, "is not a regular file; remove it: rm "), (os.mkfifo, "is not a regular file"), (owned, "to user 65534")],
)
def test_a_log_that_is_not_ours_is_refused_by_daemon_and_client(
    tmp_path: Path, make: Callable[[Path], None], said: str
) -> None:
    data = made(tmp_path / "data", 0o700)
    log = made(data / "run", 0o700) / "mnemod.log"
    make(log)
    with pytest.raises(private_files.UnsafeFileError) as refused:
        private_files.secure(data, tmp_path / "config.toml", log)
    assert f"{log} {said}".split(said)[0] in str(refused.value)
    assert said in str(refused.value)
    environ = {**os.environ, "MNEMO_DATA_DIR": str(data), "MNEMO_SOCKET": str(tmp_path / "s" / "mnemo.sock")}
    with pytest.raises(StartError) as not_started:
        process.start(environ, tmp_path / "s" / "mnemo.sock", lambda _: None)
    assert said in f"{not_started.value.message}; {not_started.value.hint}"


def test_a_configuration_that_others_can_change_is_not_used(tmp_path: Path) -> None:
    config = tmp_path / "etc" / "config.toml"
    made(config.parent)
    config.write_text("[daemon]\nlog_level = 'error'\n")
    environ = {"MNEMO_CONFIG": str(config), "HOME": str(tmp_path)}
    assert settings.load(environ).settings.daemon.log_level == "error"
    config.chmod(0o666)
    with pytest.raises(settings.ConfigError, match=f"run: chmod go-w {config}"):
        settings.load(environ)
    config.chmod(0o644)
    os.chown(config, NOBODY, 0)
    with pytest.raises(settings.ConfigError, match="belongs to user 65534"):
        settings.load(environ)
    os.chown(config, 0, 0)
    config.parent.chmod(0o777)
    with pytest.raises(settings.ConfigError, match=f"run: chmod go-w {config.parent}"):
        settings.load(environ)


def test_the_log_of_a_daemon_that_a_client_starts_is_private(tmp_path: Path) -> None:
    made(tmp_path / "data", 0o755)
    daemon = RunningDaemon(tmp_path / "data")
    made(tmp_path / "data" / "run", 0o700)
    log = tmp_path / "data" / "run" / "mnemod.log"
    log.write_text("an earlier line\n")
    (tmp_path / "data" / "config.toml").write_text("")
    pid = process.start(daemon.environ, daemon.socket, lambda _: None)
    try:
        text = log.read_text()
        assert text.startswith("an earlier line\n")
        assert f"other users could access {tmp_path / 'data'} (mode 0755): it now has mode 0700" in text
        assert (mode_of(log), mode_of(daemon.socket), mode_of(tmp_path / "data")) == (0o600, 0o600, 0o700)
    finally:
        with daemon.client() as client:
            process.stop(client)
    assert pid


@pytest.mark.parametrize("variable", ["MNEMO_DATA_DIR", "MNEMO_SOCKET", "MNEMO_CONFIG"])
def test_a_start_in_an_unsafe_place_ends_with_one_line_and_the_remedy(tmp_path: Path, variable: str) -> None:
    unsafe = made(tmp_path / "unsafe", 0o777)
    daemon = RunningDaemon(tmp_path / "data")
    (unsafe / "config.toml").write_text("")
    made(daemon.folder, 0o700).joinpath("config.toml").touch(0o600)
    last = {"MNEMO_DATA_DIR": "data", "MNEMO_SOCKET": "run/mnemo.sock", "MNEMO_CONFIG": "config.toml"}[variable]
    ended = subprocess.run(
        [sys.executable, "-m", "mnemo_daemon"], env={**daemon.environ, variable: str(unsafe / last)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == (2 if variable == "MNEMO_CONFIG" else 1)
    assert f"run: chmod go-w {unsafe}" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (unsafe / "data").exists()


def test_a_data_folder_of_a_new_daemon_is_private_whatever_the_umask(tmp_path: Path) -> None:
    data = tmp_path / "not" / "there"
    with running(tmp_path / "data", {"MNEMO_DATA_DIR": str(data)}):
        assert mode_of(data) == 0o700
