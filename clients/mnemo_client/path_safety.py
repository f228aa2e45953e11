"""Checks that no other user can read, replace or redirect a file or folder of ours, and safe writing. SPEC 16.

A private folder is no protection if somebody can rename it away and put another one in its place. So each component of
a path counts, as in ssh and gpg: every folder above, and every symbolic link on the way, must belong to us or to root,
and no other user may write to a folder above unless its sticky bit forbids removing what belongs to others.

Daemon and `mnemo doctor` use the same functions. Each returns None, or the problem with the command that solves it.
"""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import NamedTuple

LINKS_MAX = 40  # as the kernel: a path with more symbolic links is a loop
OTHERS_WRITE = 0o022
OTHERS_ACCESS = 0o077


class PathProblem(NamedTuple):
    """A reason not to trust a path: what is wrong, where, and the command that solves it."""

    path: Path
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.problem}; {self.fix}"


def parents_problem(path: Path) -> PathProblem | None:
    """Return why another user could replace `path`: the first folder or symbolic link above it that is not safe."""
    try:
        for folder, status in _components_above(path):
            if problem := _parent_problem(folder, status):
                return problem
    except OSError as failed:
        return PathProblem(path, f"{path} cannot be examined: {failed.strerror}", "choose another path")
    return None


def folder_problem(folder: Path) -> PathProblem | None:
    """Return why a folder that exists is not private to us, apart from the folders above it. Symbolic links are
    followed: `parents_problem` judges those above it, and `link_problem` the last one."""
    status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        return PathProblem(folder, f"{folder} is not a folder", f"move it elsewhere: mv {_named(folder)} NEW_NAME")
    return _owner_problem(folder, status) or _mode_problem(folder, status, "700")


def file_problem(file: Path) -> PathProblem | None:
    """Return why a file that exists is not private to us: it is none, it belongs to somebody else, or others read
    it."""
    status = file.lstat()
    if not stat.S_ISREG(status.st_mode):
        return PathProblem(file, f"{file} is not a regular file", f"remove it: rm {_named(file)}")
    return _owner_problem(file, status) or _mode_problem(file, status, "600")


def writers_problem(file: Path) -> PathProblem | None:
    """Return why somebody else could change the content of a file that exists: for one that others may read."""
    status = file.stat()
    if status.st_uid not in (0, os.geteuid()) and not _is_unmapped(status.st_uid):
        return _owner_problem(file, status)
    if _others_write(file, status):
        problem = f"other users can write to {file} (mode {stat.S_IMODE(status.st_mode):04o})"
        return PathProblem(file, problem, f"run: chmod go-w {_named(file)}")
    return parents_problem(file)


def link_problem(path: Path) -> PathProblem | None:
    """Return the problem that the path itself is a symbolic link."""
    if not path.is_symlink():
        return None
    return PathProblem(path, f"{path} is a symbolic link", f"remove it and use a real folder: rm {_named(path)}")


def make_private(path: Path, mode: int) -> bool:
    """Take the access of other users away from a file or folder of ours; return True if they had any.

    The file is opened without following a link and changed by its descriptor, so that nothing else can take its place.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or not status.st_mode & OTHERS_ACCESS:
            return False
        os.fchmod(descriptor, mode)
        return True
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes, mode: int | None = 0o600, *, is_durable: bool = False) -> None:
    """Write a file that appears at `path` whole, in the place of an earlier one; a failure leaves that.

    Without a mode it gets that of the user's umask. A durable one is on the disk after the call.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    try:
        with open(os.open(partial, flags, 0o666 if mode is None else 0o600), "wb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _components_above(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield every folder and symbolic link on the way to `path` with its own status; those that are missing, and all
    below them, are left out. The last component is only followed if it is a link."""
    waiting = list(reversed(path.absolute().parts[1:]))
    done, links = Path("/"), 0
    yield done, done.lstat()
    while waiting:
        name = waiting.pop()
        if name == "..":
            done = done.parent
            continue
        try:
            status = (done / name).lstat()
        except FileNotFoundError:
            return
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > LINKS_MAX:
                raise OSError(0, "too many symbolic links")
            yield done / name, status
            target = (done / name).readlink()
            if target.is_absolute():
                done = Path("/")
            waiting += reversed([part for part in target.parts if part != "/"])
        elif waiting:
            done /= name
            yield done, status


def _parent_problem(folder: Path, status: os.stat_result) -> PathProblem | None:
    if status.st_uid not in (0, os.geteuid()) and not _is_unmapped(status.st_uid):
        kind = "symbolic link" if stat.S_ISLNK(status.st_mode) else "folder"
        return PathProblem(
            folder,
            f"the {kind} {folder} belongs to user {status.st_uid}, who could replace what is in it",
            f"use a path below a folder of your own, or run: sudo chown {os.geteuid()} {_named(folder)}",
        )
    if stat.S_ISDIR(status.st_mode) and not status.st_mode & stat.S_ISVTX and _others_write(folder, status):
        mode = stat.S_IMODE(status.st_mode)
        return PathProblem(
            folder,
            f"other users can write to the folder {folder} (mode {mode:04o}) and could replace what is in it",
            f"run: chmod go-w {_named(folder)}",
        )
    return None


def _others_write(path: Path, status: os.stat_result) -> bool:
    """Return True if another user may write. A group that nobody else is in does not count: many systems give each
    user one, and let it write by default."""
    if not status.st_mode & OTHERS_WRITE:
        return False
    return bool(status.st_mode & stat.S_IWOTH) or not _is_group_of_one(path, status)


def _is_group_of_one(path: Path, status: os.stat_result) -> bool:
    import grp
    import pwd

    try:
        if sys.platform == "linux" and "system.posix_acl_access" in os.listxattr(path):
            return False  # the bits of the group are then the most that any user or group of the list is granted
    except OSError:
        pass  # a file system without such lists
    try:
        owner, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return group.gr_name == owner.pw_name and set(group.gr_mem) <= {owner.pw_name}


def _is_unmapped(uid: int) -> bool:
    """Return True for the id that stands for every user from outside of this user namespace: root, mostly."""
    try:
        with open("/proc/sys/fs/overflowuid") as overflow, open("/proc/self/uid_map") as mapped:
            ranges = [(int(row.split()[0]), int(row.split()[2])) for row in mapped]
            return uid == int(overflow.read()) and not any(first <= uid < first + count for first, count in ranges)
    except OSError:
        return False


def _owner_problem(path: Path, status: os.stat_result) -> PathProblem | None:
    if status.st_uid == os.geteuid():
        return None
    return PathProblem(
        path,
        f"{path} belongs to user {status.st_uid}",
        f"use one of yours, or run: sudo chown -R {os.geteuid()} {_named(path)}",
    )


def _mode_problem(path: Path, status: os.stat_result, mode: str) -> PathProblem | None:
    if not status.st_mode & OTHERS_ACCESS:
        return None
    found = stat.S_IMODE(status.st_mode)
    return PathProblem(path, f"other users can access {path} (mode {found:04o})", f"run: chmod {mode} {_named(path)}")


def _named(path: Path) -> str:
    return quote(str(path))
