"""The daemon's Unix socket: bound, handed over by the service manager, and who is at the other end. SPEC 16.

Standard library and little else: the socket is bound before anything heavy is imported, and what is asked meanwhile
waits in its backlog. Three checks guard it: the folder is the owner's alone and nobody else can replace it, the socket
is the owner's alone, and the user id of every peer is checked (the first two are not honoured by every system, and root
can hand a connected socket to anybody).
"""

import contextlib
import errno
import fcntl
import os
import select
import socket
import stat
import struct
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from mnemo_client import path_safety
from mnemo_client.paths import SOCKET_PATH_BYTES_MAX
from mnemo_daemon.server import service_managers

# Connections that wait to be accepted. 128, a common default, lost 871 of 1,000 simultaneous ones.
BACKLOG = 4096

# The files we may hold open: connections, the store's own, the watcher's. The usual limit of 1,024 is less than that.
OPEN_FILES_WANTED = 8192

FIRST_INHERITED_FD = 3  # sd_listen_fds(3)

_SO_PEERPIDFD = 77  # asm-generic/socket.h, Linux 6.5

_XUCRED_BYTES = 76  # struct xucred of macOS: version, uid, group count, 16 groups
_LOCAL_PEERCRED = 1  # sys/un.h of macOS
_LOCAL_PEERPID = 2


class SocketError(Exception):
    """The socket cannot be had; the message says why and what to do."""


class SocketInUse(SocketError):
    """Another process listens on it."""


class Peer(NamedTuple):
    """The other end of a connection, as the kernel reports it. `pid` is 0 and `program` is "" if it is not known."""

    uid: int
    pid: int = 0
    program: str = ""  # the path of its executable


class Listener(NamedTuple):
    """A listening socket, and the file that we made for it (none where it was handed to us)."""

    socket: socket.socket
    path: Path | None = None
    inode: int = 0

    def close(self) -> None:
        """Stop listening, and remove the socket's file if it is still our own."""
        self.socket.close()
        if self.path is not None:
            with contextlib.suppress(FileNotFoundError):
                if self.path.lstat().st_ino == self.inode:
                    self.path.unlink()


def listen(path: Path, environ: MutableMapping[str, str]) -> Listener:
    """The socket the service manager handed over, else one bound at `path`. Raises SocketError."""
    handed_over = inherit(environ)
    return Listener(handed_over) if handed_over is not None else bind(path)


def bind(path: Path) -> Listener:
    """Listening on `path`, mode 0600, in a folder of mode 0700 that is ours.

    A socket that nobody listens on any more is replaced; a live one, or a file that is none, is never touched. `path`
    must be short enough for the system (mnemo_client.paths sees to that). Not for use once there are threads: the
    umask is the process's.
    """
    make_private(path.parent)
    with _locked(path.parent):
        return _bound(path, 0o177)


def bind_shared(path: Path) -> Listener:
    """Listening on `path`, mode 0666, for other users too: the access table decides what each of them may do. The
    folder must be there, and nobody else may be able to replace it or the socket in it."""
    if not path.is_absolute() or len(bytes(path)) > SOCKET_PATH_BYTES_MAX:
        raise SocketError(
            f"access.shared_socket must be an absolute path of at most {SOCKET_PATH_BYTES_MAX} bytes, not {path}"
        )
    if problem := path_safety.parents_problem(path):
        raise SocketError(f"the shared socket {path} is not safe: {problem}; or change access.shared_socket")
    if not path.parent.is_dir():
        folder = quote(str(path.parent))
        raise SocketError(
            f"the folder of the shared socket {path} does not exist; "
            f"run: sudo install -d -m 755 -o {os.geteuid()} {folder}"
        )
    return _bound(path, 0o111)


def _bound(path: Path, umask: int) -> Listener:
    """A listening socket of the mode that this umask leaves, in the place of one that nobody listens on any more."""
    _clear(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(umask)
    try:
        listening.bind(bytes(path))
        inode = path.lstat().st_ino
        listening.listen(BACKLOG)
    except OSError as failed:
        listening.close()
        raise SocketError(f"cannot listen on {path}: {failed.strerror}") from failed
    finally:
        os.umask(before)
    listening.setblocking(False)
    return Listener(listening, path, inode)


def make_private(folder: Path) -> None:
    """Make sure that the folder exists, is no symbolic link, is ours, that nobody else can enter it, and that nobody
    else can replace it or a folder above it. Raises SocketError otherwise."""
    problem = path_safety.parents_problem(folder)
    if problem is None:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.mkdir(mode=0o700, exist_ok=True)
            problem = path_safety.link_problem(folder) or path_safety.folder_problem(folder)
        except OSError as failed:
            raise SocketError(f"cannot make the socket's folder {folder}: {failed.strerror}") from failed
    if problem is not None:
        raise SocketError(f"the socket's folder {folder} is not safe: {problem}; or set MNEMO_SOCKET to another path")


def _clear(path: Path) -> None:
    """Remove a stale socket. Raises SocketInUse for a live one, SocketError for what is no socket."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketError(f"{path} is in the way and is no socket; move it, or set MNEMO_SOCKET")
    if found.st_uid != os.geteuid():
        raise SocketError(
            f"the socket {path} was made by user {found.st_uid}; run: sudo rm {quote(str(path))}, or set MNEMO_SOCKET"
        )
    if not is_stale(path):
        raise SocketInUse(f"another process listens on {path}; stop it with `mnemo down`, or set MNEMO_SOCKET")
    path.unlink(missing_ok=True)


def is_stale(path: Path) -> bool:
    """True where nobody listens on this socket any more. In doubt (its backlog is full), it is live."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(bytes(path)) in (errno.ECONNREFUSED, errno.ENOENT)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: of two daemons that start at once, the second finds the first one's socket."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def inherit(environ: MutableMapping[str, str]) -> socket.socket | None:
    """The listening socket that the service manager handed over, or None where it did not.

    That is systemd (sd_listen_fds(3)) or launchd. LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES are taken out of `environ`,
    so that no child believes they are meant for it. The socket's mode is set to 0600 where its file is ours: activation
    makes it by its own umask.
    """
    meant_for = environ.pop("LISTEN_PID", "")
    count = environ.pop("LISTEN_FDS", "")
    environ.pop("LISTEN_FDNAMES", None)
    descriptors: Sequence[int]
    if meant_for == str(os.getpid()) and count.isdigit():
        descriptors = range(FIRST_INHERITED_FD, FIRST_INHERITED_FD + int(count))
    else:
        try:
            descriptors = service_managers.activated_sockets()
        except service_managers.LaunchdError as error:
            raise SocketError(str(error)) from error
    if not descriptors:
        return None
    if len(descriptors) != 1:
        raise SocketError(
            f"the service manager handed over {len(descriptors)} sockets; mnemod.socket must name exactly one"
        )
    return _adopt(descriptors[0])


def _adopt(descriptor: int) -> socket.socket:
    """The listening Unix socket of this descriptor, of mode 0600. Raises SocketError where it is none."""
    try:
        listening = socket.socket(fileno=descriptor)
        is_listening = listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    except OSError as failed:
        raise SocketError(f"what the service manager handed over is no socket: {failed.strerror}") from failed
    if listening.family != socket.AF_UNIX or listening.type != socket.SOCK_STREAM or not is_listening:
        raise SocketError("the service manager must hand over a listening Unix stream socket (ListenStream=)")
    listening.set_inheritable(False)
    listening.setblocking(False)
    name = listening.getsockname()
    if isinstance(name, str) and name:
        with contextlib.suppress(OSError):
            Path(name).chmod(0o600)
    return listening


def peer_of(connection: socket.socket) -> Peer:
    """The process that connected, as the kernel recorded it then. Raises OSError."""
    if sys.platform == "darwin":
        raw = connection.getsockopt(0, _LOCAL_PEERCRED, _XUCRED_BYTES)
        (pid,) = struct.unpack("i", connection.getsockopt(0, _LOCAL_PEERPID, 4))
        return Peer(uid=struct.unpack_from("I", raw, 4)[0], pid=pid)
    pid, uid, _gid = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return Peer(uid=uid, pid=pid)


def program_of(connection: socket.socket, pid: int) -> str:
    """Return the path of the executable that the peer runs now; "" if it is not known or the peer has ended.

    A process that ends frees its number for another one. The descriptor stands for the process itself (from Linux 6.5
    on for the one that connected), so if that has not ended after the path was read, the path is its own.
    """
    if sys.platform != "linux":
        return ""
    try:
        try:
            descriptor = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
        except OSError:
            descriptor = os.pidfd_open(pid)
        try:
            program = str(Path(f"/proc/{pid}/exe").readlink())
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            has_ended = bool(poll.poll(0))
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        return ""
    return "" if has_ended else program


def raise_open_files_limit() -> int:
    """Raise the limit of open files to OPEN_FILES_WANTED or the hard limit; return it."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= OPEN_FILES_WANTED:
        return soft
    wanted = OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else min(OPEN_FILES_WANTED, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
