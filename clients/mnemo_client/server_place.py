"""The one server of a kind that a user runs on loopback: its lock, and the record by which later commands find it."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mnemo_client.path_safety import replace_file
from mnemo_client.process import make_private_folder


class ServerRecord(NamedTuple):
    """The record of a running server, for later commands of the same user; `remote` is the host that it passes requests
    on to, "" if that is this machine."""

    address: str
    secret: str
    pid: int
    remote: str = ""


class ServerPlace:
    """The private file of the one server of a kind: locked while it runs, with its record.

    The lock ends with the process, however that ends, so that a file that is left over misleads nobody.
    """

    def __init__(self, folder: Path, kind: str) -> None:
        self._lock_path = folder / f"{kind}.lock"
        self._path = folder / f"{kind}.json"

    def running(self) -> ServerRecord | None:
        """Return the record of the server that runs, if there is one."""
        if not self._lock_path.exists():
            return None
        with self.taken() as is_free:
            if is_free:
                return None
        try:
            return ServerRecord(**json.loads(self._path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None  # it has just started or ended

    @contextlib.contextmanager
    def taken(self) -> Iterator[bool]:
        """Hold the place during the context; yield False if another process holds it."""
        import fcntl

        make_private_folder(self._lock_path.parent)
        descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            os.close(descriptor)

    def publish(self, record: ServerRecord) -> None:
        replace_file(self._path, json.dumps(record._asdict()).encode())

    def withdraw(self) -> None:
        self._path.unlink(missing_ok=True)
