"""The Unix socket: whose folder, what may be in the way, what the service manager hands over, who connects."""

import fcntl
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_daemon.server.sockets import (
    Listener,
    Peer,
    SocketError,
    SocketInUse,
    bind,
    inherit,
    is_stale,
    listen,
    peer_of,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "mnemo.sock"


@pytest.fixture
def bound(path: Path) -> Iterator[Listener]:
    listener = bind(path)
    yield listener
    listener.close()


def leave_stale(path: Path) -> None:
    """As a daemon that was killed leaves its socket."""
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


def test_the_socket_and_its_folder_are_the_owners_alone(bound: Listener, path: Path) -> None:
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.lstat().st_mode) == 0o700


def test_binding_leaves_the_umask_as_it_was(path: Path) -> None:
    before = os.umask(0o022)
    try:
        bind(path).close()
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_closing_takes_the_file_away_and_only_the_one_that_was_made(path: Path) -> None:
    first = bind(path)
    path.unlink()
    second = bind(path)
    first.close()
    assert path.exists()
    second.close()
    assert not path.exists()
    second.close()


def test_a_live_socket_is_never_taken_over(bound: Listener, path: Path) -> None:
    inode = path.lstat().st_ino
    with pytest.raises(SocketInUse, match="another process listens"):
        bind(path)
    assert path.lstat().st_ino == inode
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_a_live_socket_whose_backlog_is_full_counts_as_live(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        with socket.socket(socket.AF_UNIX) as waiting:
            waiting.connect(str(path))
            assert not is_stale(path)
            with pytest.raises(SocketInUse):
                bind(path)


def test_a_stale_socket_is_replaced(path: Path) -> None:
    leave_stale(path)
    assert is_stale(path)
    listener = bind(path)
    assert not is_stale(path)
    listener.close()


def test_a_file_in_the_way_is_left_alone(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_text("dear diary")
    with pytest.raises(SocketError, match="is no socket"):
        bind(path)
    assert path.read_text() == "dear diary"


def test_a_symbolic_link_in_the_way_is_left_alone_even_to_a_stale_socket(tmp_path: Path, path: Path) -> None:
    leave_stale(path)
    elsewhere = tmp_path / "elsewhere.sock"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    with pytest.raises(SocketError, match="is no socket"):
        bind(path)
    assert path.is_symlink()
    assert elsewhere.exists()


def test_a_folder_that_is_a_symbolic_link_is_refused(tmp_path: Path, path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    path.parent.symlink_to(tmp_path / "real")
    with pytest.raises(SocketError, match="symbolic link"):
        bind(path)
    assert list((tmp_path / "real").iterdir()) == []


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_can_enter_is_refused_with_the_remedy(path: Path, mode: int) -> None:
    path.parent.mkdir()
    path.parent.chmod(mode)
    with pytest.raises(SocketError, match=f"run: chmod 700 {path.parent}"):
        bind(path)
    path.parent.chmod(0o700)
    bind(path).close()


def test_somebody_elses_folder_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir(mode=0o700)
    ours = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: ours + 1)
    with pytest.raises(SocketError, match=f"belongs to user {ours}"):
        bind(path)


def test_binding_waits_for_another_daemon_that_is_at_it(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    folder = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    bound: list[Listener] = []
    binder = threading.Thread(target=lambda: bound.append(bind(path)))
    binder.start()
    binder.join(0.2)
    assert not path.exists()
    os.close(folder)
    binder.join(5)
    assert path.exists()
    bound[0].close()


def test_of_two_that_bind_at_once_one_wins(path: Path) -> None:
    leave_stale(path)
    script = (
        "import sys; from pathlib import Path; from mnemo_daemon.server.sockets import *\n"
        "sys.stdin.readline()\n"
        "try: listener = bind(Path(sys.argv[1])); print('bound', flush=True); sys.stdin.readline()\n"
        "except SocketInUse: print('in use', flush=True)\n"
    )
    arguments = [sys.executable, "-c", script, str(path)]
    racers = [subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = []
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    for racer in racers:
        assert racer.stdout is not None
        said.append(racer.stdout.readline().strip())
    for racer in racers:
        racer.communicate("stop\n", timeout=20)
    assert sorted(said) == ["bound", "in use", "in use", "in use"]


def test_a_peer_is_who_the_kernel_says(bound: Listener, path: Path) -> None:
    script = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE) as client:
        bound.socket.setblocking(True)
        bound.socket.settimeout(20)
        connection, _ = bound.socket.accept()
        with connection:
            assert peer_of(connection) == Peer(uid=os.geteuid(), pid=client.pid)
        client.communicate(timeout=20)


def test_without_activation_the_socket_is_bound(path: Path) -> None:
    environ = {"LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "api", "HOME": "/"}
    listener = listen(path, environ)
    assert listener.path == path
    assert environ == {"HOME": "/"}
    listener.close()


ACTIVATED = """
import os, socket, sys
from pathlib import Path
from mnemo_daemon.server.sockets import SocketError, listen
os.environ["LISTEN_PID"] = str(os.getpid())
os.dup2(int(sys.argv[1]), 3)
try:
    listener = listen(Path("/nowhere/mnemo.sock"), os.environ)
except SocketError as refused:
    sys.exit(str(refused))
assert listener.path is None and not listener.socket.get_inheritable()
assert not [name for name in os.environ if name.startswith("LISTEN_")]
listener.socket.setblocking(True)
connection, _ = listener.socket.accept()
connection.sendall(b"hello")
listener.close()
"""


def activate(handed_over: socket.socket, count: str = "1") -> "subprocess.Popen[str]":
    """A child that finds the socket as descriptor 3, as the service manager would pass it."""
    fd = handed_over.fileno()
    return subprocess.Popen(
        [sys.executable, "-c", ACTIVATED, str(fd)],
        pass_fds=[fd],
        env={**os.environ, "LISTEN_FDS": count, "LISTEN_FDNAMES": "api"},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_socket_handed_over_is_used_and_its_file_stays(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as handed_over:
        handed_over.bind(str(path))
        path.chmod(0o666)
        handed_over.listen()
        with activate(handed_over) as child, socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(str(path))
            assert client.recv(10) == b"hello"
            assert child.communicate(timeout=20)[1] == ""
            assert child.returncode == 0
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600


@pytest.mark.parametrize("kind", ["tcp", "datagram", "not listening", "two"])
def test_a_socket_that_is_no_listening_unix_socket_is_refused(path: Path, kind: str) -> None:
    path.parent.mkdir(mode=0o700)
    family = socket.AF_INET if kind == "tcp" else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM) as handed_over:
        if kind == "tcp":
            handed_over.bind(("127.0.0.1", 0))
            handed_over.listen()
        else:
            handed_over.bind(str(path))
        with activate(handed_over, "2" if kind == "two" else "1") as child:
            err = child.communicate(timeout=20)[1]
            assert child.returncode == 1
    assert "Traceback" not in err
    assert ("exactly one" if kind == "two" else "must hand over a listening Unix stream socket") in err


def test_a_wrong_count_means_nothing_was_handed_over() -> None:
    for count in ("", "0", "-1", "one"):
        assert inherit({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": count}) is None
