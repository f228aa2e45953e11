"""Two real daemons, each with its own copy of the shared folder, which something else carries. SPEC 21"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from mnemo_client.protocol.memories import NewMemory, Patch
from mnemo_client.protocol.synchronisation import SyncAnswer
from tests.support.running_daemon import RunningDaemon, running

PASSPHRASE = "correct horse battery staple"
EACH = 110  # memories on each side
TOGETHER = 55
SECRET = "the code of the safe is 4711"
GIT = ("git", "-c", "user.name=ada", "-c", "user.email=ada@localhost", "-c", "pull.rebase=false", "-c", "gc.auto=0")

Pair = tuple[RunningDaemon, RunningDaemon]
Carry = Callable[[], None]


@pytest.fixture
def pair(short_folder: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(running(short_folder / name / "d", {"MNEMO_MODELS_FOLDER": str(short_folder / "none")}))
            for name in ("a", "b")
        )
        yield first, second


def copy_of(daemon: RunningDaemon) -> Path:
    """The daemon's own copy of the shared folder."""
    return daemon.folder.parent / "shared"


def exchange(daemon: RunningDaemon) -> SyncAnswer:
    with daemon.client() as client:
        answer = client.exchange_changes()
    assert not answer.problem
    assert not [each.problem for each in answer.devices if each.problem]
    return answer


def begin(daemon: RunningDaemon, *, create: bool) -> None:
    with daemon.client() as client:
        client.share(str(copy_of(daemon)), passphrase=PASSPHRASE, name=daemon.folder.parent.name, create=create)


def add(daemon: RunningDaemon, count: int) -> None:
    name = daemon.folder.parent.name
    with daemon.client() as client:
        for start in range(0, count, TOGETHER):
            texts = [f"device {name} has put item {number} on shelf {number % 7}"
                     for number in range(start, start + TOGETHER)]  # fmt: skip
            client.remember_many([NewMemory(content=text) for text in texts])


def texts_of(daemon: RunningDaemon) -> dict[str, str]:
    """The text of each memory, by its id."""
    with daemon.client() as client:
        lines = [msgspec.json.decode(line) for line in client.export(history=False)]
    return {line["data"]["id"]: line["data"]["content"] for line in lines if line.get("record_type") == "memory"}


def copying(first: RunningDaemon, second: RunningDaemon) -> Carry:
    """Each copy gets what the other device has written."""

    def carry() -> None:
        for source, target in ((first, second), (second, first)):
            with source.client() as client:
                device = client.sync_status().device
            if device is not None:
                place = copy_of(target) / "devices" / device
                shutil.rmtree(place, ignore_errors=True)
                shutil.copytree(copy_of(source) / "devices" / device, place)
                shutil.copy(copy_of(source) / "group.json", copy_of(target))

    return carry


def git(folder: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=folder, check=True, capture_output=True)


def by_git(first: RunningDaemon, second: RunningDaemon) -> Carry:
    """Each side commits what it has, pulls, and pushes, one after the other."""
    hub = first.folder.parent.parent / "hub.git"
    hub.mkdir()
    git(hub, "init", "-q", "--bare", "-b", "main")
    for daemon in (first, second):
        git(copy_of(daemon), "init", "-q", "-b", "main")
        git(copy_of(daemon), "remote", "add", "origin", str(hub))

    def carry() -> None:
        for daemon in (first, second, first):
            git(copy_of(daemon), "add", "-A")
            git(copy_of(daemon), "commit", "-q", "--allow-empty", "-m", "carried")
            heads = subprocess.run([*GIT, "ls-remote", str(hub)], check=True, capture_output=True).stdout
            if heads:
                git(copy_of(daemon), "pull", "-q", "--allow-unrelated-histories", "--no-edit", "origin", "main")
            git(copy_of(daemon), "push", "-q", "origin", "main")

    return carry


@pytest.mark.parametrize("by", [copying, by_git])
def test_two_daemons_have_the_same_memories_and_prove_what_was_forgotten(
    pair: Pair, by: Callable[[RunningDaemon, RunningDaemon], Carry]
) -> None:
    first, second = pair
    for daemon in pair:
        copy_of(daemon).mkdir(mode=0o700)
        add(daemon, EACH)
    begin(first, create=True)
    carry = by(first, second)
    carry()
    begin(second, create=False)

    def settle() -> None:
        for _ in range(3):  # the changes, their confirmation, and what follows from it
            for daemon in pair:
                exchange(daemon)
            carry()

    settle()
    ids = sorted(texts_of(first))
    assert texts_of(first) == texts_of(second)
    assert len(ids) == 2 * EACH
    with first.client() as here, second.client() as there:
        here.patch(ids[0], Patch(content="edited on the first"))
        there.patch(ids[0], Patch(content="edited on the second, later"))
        there.patch(ids[-1], Patch(content=SECRET))
    settle()
    assert texts_of(first) == texts_of(second)
    assert texts_of(first)[ids[0]] == "edited on the second, later"
    assert texts_of(first)[ids[-1]] == SECRET
    with first.client() as client:
        assert client.erase_many([ids[-1]]).purged == [ids[-1]]
    settle()
    for daemon in pair:
        assert ids[-1] not in texts_of(daemon)
        with daemon.client() as client:
            (erasure,) = client.sync_status().erasures
        assert (erasure.id, sorted(erasure.done), erasure.waiting) == (ids[-1], ["a", "b"], [])
        for path in (daemon.folder / "db", daemon.folder / "journal"):
            assert not [each for each in path.rglob("*") if each.is_file() and SECRET.encode() in each.read_bytes()]
