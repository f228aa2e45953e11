"""A disk that is really full: the daemon on a small tmpfs, which a ballast file and memories fill to the last byte.

Reads, deletes, purges and compacting go on; what is new is answered 507; when the ballast goes, writes are taken again
without anybody doing anything; and a daemon that is killed comes up on the full disk.
"""

import contextlib
import functools
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mnemo_client.client import Client
from mnemo_client.errors import MnemoError, RefusalError
from mnemo_client.protocol.memories import NewMemory, Patch
from tests.support.recording_writers import NAMESPACE, KnownState, read_all
from tests.support.running_daemon import RunningDaemon

DISK_BYTES = 64 << 20
RESERVE_BYTES = 16 << 20
LEFT_BYTES = 256 << 10  # that the ballast leaves to memories
TEXT = "A thing worth keeping, of which there are many, that fills its page. " * 30  # some 2 KB
FIRST = 400  # memories before the disk is full
FILL_MAX = 5000
AGAIN_SECONDS_MAX = 20.0


@dataclass
class Report:
    """The observations, a line each, and the problems."""

    seen: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def must(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)


def fill_a_disk() -> Report:
    report = Report()
    with _mounted() as disk, tempfile.TemporaryDirectory(prefix="m") as neighbour:
        daemon = RunningDaemon(disk / "data", {"XDG_CACHE_HOME": neighbour, "MNEMO_SOCKET": f"{neighbour}/d.sock"})
        daemon.socket, daemon.log = Path(neighbour) / "d.sock", Path(neighbour) / "log"
        daemon.start()
        try:
            _FullDisk(daemon, disk, report).run()
        finally:
            daemon.stop()
        report.must("Traceback" not in daemon.log.read_text(), f"the log shows a traceback: {daemon.log.read_text()}")
    return report


class _FullDisk:
    def __init__(self, daemon: RunningDaemon, disk: Path, report: Report) -> None:
        self.daemon = daemon
        self.ballast = disk / "ballast"
        self.report = report
        self.account: dict[str, KnownState] = {}
        self.count = 0

    def run(self) -> None:
        with self.daemon.client(NAMESPACE) as client:
            for _ in range(FIRST):
                self.remember(client)
            self.fill(client)
            self.read(client, "while the disk is full")
            self.free(client)
            self.fill(client)
            self.take_the_last_byte(client)
            self.read(client, "without a byte left")
        self.daemon.kill()
        seconds = self.daemon.start()
        self.report.seen.append(f"killed without a byte left, it answered again after {seconds:.2f} s")
        with self.daemon.client(NAMESPACE) as client:
            self.read(client, "after a kill without a byte left")
            self.be_refused(client)
            self.come_back(client)
            self.read(client, "with room again")
            report = client.check()
            self.report.must(report.ok, f"check: {report.totals} {report.violations[:3]}")

    def remember(self, client: Client) -> bool:
        """True if it was taken."""
        self.count += 1
        try:
            memory = client.remember(NewMemory(content=f"w{self.count} {TEXT}")).memory
        except RefusalError as error:
            self.report.must((error.status, error.code) == (507, "disk_full"), f"a write was answered {error.status}")
            return False
        self.account[memory.id] = KnownState(memory.content, memory.version, memory.state)
        return True

    def fill(self, client: Client) -> None:
        """Ballast, and then memories until one is refused."""
        before = len(self.account)
        room = os.statvfs(self.ballast.parent)
        with self.ballast.open("ab") as ballast:
            ballast.write(b"x" * max(0, room.f_bavail * room.f_frsize - LEFT_BYTES))
        while self.remember(client) and len(self.account) - before < FILL_MAX:
            pass
        room = os.statvfs(self.ballast.parent)
        self.report.must(len(self.account) - before < FILL_MAX, "nothing was ever refused")
        self.report.seen.append(
            f"{len(self.account) - before} memories until 507; {room.f_bavail * room.f_frsize >> 10} KiB are left, "
            f"the reserve is {'there' if (self.daemon.folder / 'reserve').exists() else 'given back'}"
        )
        for _ in range(20):
            self.be_refused(client)

    def be_refused(self, client: Client) -> None:
        self.report.must(not self.remember(client), "a memory was taken on a full disk, after one was refused")
        status = client.status()
        is_reported = any("disk is full" in reason for reason in status.reasons)
        self.report.must(status.state == "degraded" and is_reported, f"status says {status.state}: {status.reasons}")

    def read(self, client: Client, when: str) -> None:
        """Everything acknowledged is there, and found."""
        found = read_all(client).memories
        missing = [one for memory_id, one in self.account.items() if found.get(memory_id) != one]
        self.report.must(not missing, f"{when}: {len(missing)} memories are not as acknowledged: {missing[:1]}")
        self.report.must(len(found) == len(self.account), f"{when}: {len(found)} memories, not {len(self.account)}")
        last = next(reversed(self.account))
        word = self.account[last].content.split()[0]
        found_first = [hit.id for hit in client.search(word, limit=1).memories]
        self.report.must(found_first == [last], f"{when}: {word} is not found")
        self.report.must(bool(client.recall("things worth keeping", dry=True).memories), f"{when}: nothing is recalled")
        self.report.seen.append(f"{when}: {len(found)} memories read, searched and recalled")

    def free(self, client: Client) -> None:
        """Deleting, purging and compacting go on."""
        ids = list(self.account)
        for memory_id in ids[:50]:
            if self.allowed(f"delete {memory_id}", functools.partial(client.delete, memory_id)):
                one = self.account[memory_id]
                self.account[memory_id] = one._replace(state="trashed", version=one.version + 1)
        self.report.seen.append("50 deleted")
        if self.allowed("purge", functools.partial(client.erase_many, ids[50:60])):
            for memory_id in ids[50:60]:
                del self.account[memory_id]
            self.report.seen.append("10 purged")
        if self.allowed("compact", client.compact):
            self.report.seen.append("compacted")
        self.read(client, "after deleting, purging and compacting")

    def take_the_last_byte(self, client: Client) -> None:
        """Fill the space that the reserve released. Each delete is done or refused, as reported."""
        with self.ballast.open("ab", buffering=0) as ballast, contextlib.suppress(OSError):
            while ballast.write(bytes(4096)):
                pass
        done, active = 0, [memory_id for memory_id, one in self.account.items() if one.state == "active"]
        for memory_id in active[: len(active) // 2]:
            try:
                client.delete(memory_id)
            except RefusalError as error:
                self.report.must(error.status in (503, 507), f"a delete was answered {error.status}: {error}")
                self.report.seen.append(f"without a byte left {done} deletes were done, the next answered {error.code}")
                return
            one, done = self.account[memory_id], done + 1
            self.account[memory_id] = one._replace(state="trashed", version=one.version + 1)
        self.report.seen.append(f"without a byte left {done} deletes were done")

    def allowed(self, what: str, act: Callable[[], object]) -> bool:
        try:
            act()
        except MnemoError as error:
            self.report.wrong.append(f"{what} on a full disk: {error}")
            return False
        return True

    def come_back(self, client: Client) -> None:
        self.ballast.unlink()
        began = time.monotonic()
        while not self.remember(client):
            if time.monotonic() - began > AGAIN_SECONDS_MAX:
                self.report.wrong.append(f"nothing was taken within {AGAIN_SECONDS_MAX} s after there was room again")
                return
            time.sleep(0.05)
        self.report.seen.append(f"writes are taken again {time.monotonic() - began:.1f} s after there was room")
        reserve = self.daemon.folder / "reserve"
        self.report.must(reserve.exists() and reserve.stat().st_size == RESERVE_BYTES, "the reserve was not made again")
        full = [reason for reason in client.status().reasons if "full" in reason]
        self.report.must(not full, f"with room again, status says {full}")
        memory_id = next(reversed(self.account))
        edited = client.patch(memory_id, Patch(content=f"w{self.count} edited"))
        self.account[memory_id] = KnownState(edited.content, edited.version, edited.state)


@contextlib.contextmanager
def _mounted() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def missing() -> Iterator[str]:
    """The tools that the system lacks for this."""
    if os.geteuid() != 0:
        yield "mounting a tmpfs needs root: sudo make bench-faults (mount is in Debian's package of that name)"
        return
    with contextlib.suppress(subprocess.CalledProcessError, OSError), _mounted():
        return
    yield "a tmpfs cannot be mounted here"
