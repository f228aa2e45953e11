"""Either of database and journal is gone or spoilt: what was acknowledged is there, and what happened is said.

SPEC 3.1, 3.3, 17.3.
"""

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from mnemo_client.client import Client
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import NewMemory, Patch
from mnemo_client.protocol.retrieval import RecalledMemory
from tests.support.running_daemon import RunningDaemon, running

MEMORIES = 120


class FilledFolder(NamedTuple):
    """A store at rest, and what a daemon says of it."""

    folder: Path
    everything: list[bytes]
    versions: list[int]
    answer: list[RecalledMemory]
    seq: int


def fill(client: Client) -> None:
    """Memories of every state the daemon knows so far, some of them edited, some used."""
    ids = []
    texts = [f"Memory {number} is about subject{number}." for number in range(MEMORIES)]
    for one in client.remember_many([NewMemory(content=text, key=text) for text in texts]):
        assert isinstance(one, RememberAnswer)
        ids.append(one.memory.id)
    for memory_id in ids[:5]:
        client.patch(memory_id, Patch(tags=["edited"], importance=0.9))
    for memory_id in ids[5:10]:
        client.delete(memory_id)
    client.restore(ids[5])
    client.remember("A newer one.", supersedes=[ids[10]])
    client.remember(texts[11])  # said again


def everything(client: Client) -> list[bytes]:
    return sorted(client.export())


def versions(client: Client) -> list[int]:
    """The number of versions of the oldest memories."""
    page = client.list_memories(limit=500, states=["active", "archived", "superseded", "trashed"])
    return [len(client.history(memory.id).versions) for memory in page.memories[-12:]]


def answer(client: Client) -> list[RecalledMemory]:
    return client.recall("subject3 subject15 subject40 newer", dry=True, now=1_800_000_000_000).memories


@pytest.fixture(scope="module")
def filled() -> Iterator[FilledFolder]:
    with tempfile.TemporaryDirectory(prefix="m") as scratch:
        folder = Path(scratch) / "data"
        with running(folder, {"MNEMO_MODELS_FOLDER": f"{scratch}/models"}) as daemon, daemon.client() as client:
            fill(client)
            reported = FilledFolder(folder, everything(client), versions(client), answer(client), client.status().seq)
        assert sorted(reported.versions) == [1] * 1 + [2] * 10 + [3]
        yield reported


@pytest.fixture
def copied(scratch_daemon: RunningDaemon, filled: FilledFolder) -> RunningDaemon:
    """A daemon not yet started, over that store."""
    copy(filled, scratch_daemon)
    return scratch_daemon


def copy(filled: FilledFolder, daemon: RunningDaemon) -> None:
    shutil.copytree(filled.folder, daemon.folder, ignore=shutil.ignore_patterns("*.log", "run"))


def crash(daemon: RunningDaemon) -> None:
    """Leaves the store as a kill leaves it."""
    daemon.start()
    daemon.kill()


def delete(database: Path) -> None:
    shutil.rmtree(database.parent)


def empty(database: Path) -> None:
    database.write_bytes(b"")


def cut_in_half(database: Path) -> None:
    data = database.read_bytes()
    database.write_bytes(data[: len(data) // 2])


def cut_within_the_first_page(database: Path) -> None:
    database.write_bytes(database.read_bytes()[:100])


def overwrite_with_text(database: Path) -> None:
    database.write_text("This was a database once.\n" * 1000)


def overwrite_with_as_much_text(database: Path) -> None:
    size = database.stat().st_size
    database.write_bytes((b"This was a database once.\n" * (size // 26 + 1))[:size])


def overwrite_the_middle(database: Path) -> None:
    size = database.stat().st_size
    with database.open("r+b") as file:
        file.seek(size // 4 // 4096 * 4096)
        file.write(random.Random(4).randbytes(size // 2))


def remove_the_file_alone(database: Path) -> None:
    database.unlink()


Spoil = Callable[[Path], None]

SPOILS: list[Spoil] = [
    delete, remove_the_file_alone, empty, cut_in_half, cut_within_the_first_page, overwrite_with_text,
    overwrite_with_as_much_text, overwrite_the_middle,
]  # fmt: skip
AFTER_A_CRASH: list[Spoil] = [delete, cut_in_half, overwrite_with_text]


@pytest.fixture(scope="module")
def restored(filled: FilledFolder) -> Iterator[dict[tuple[Spoil, bool], Future[None]]]:
    """The results of each way to spoil it, at rest and after a crash: two at a time, as each mostly waits for starts.

    The ones that follow are on their way while a test looks at its own.
    """
    ways = [*((spoil, False) for spoil in SPOILS), *((spoil, True) for spoil in AFTER_A_CRASH)]
    with tempfile.TemporaryDirectory(prefix="m") as scratch, ThreadPoolExecutor(2) as threads:
        yield {
            (spoil, is_crash): threads.submit(spoil_and_restore, Path(scratch) / str(place), filled, spoil, is_crash)
            for place, (spoil, is_crash) in enumerate(ways)
        }


def spoil_and_restore(folder: Path, filled: FilledFolder, spoil: Spoil, is_crash: bool) -> None:
    daemon = RunningDaemon(folder / "data", {"MNEMO_MODELS_FOLDER": str(folder / "models")})
    copy(filled, daemon)
    if is_crash:
        crash(daemon)
    spoil(daemon.folder / "db" / "data.mdb")
    try:
        expect_restored(daemon, filled)
    finally:
        daemon.stop()
    assert "Traceback" not in daemon.log.read_text()


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_missing_or_damaged_database_is_restored_from_the_journal(
    restored: dict[tuple[Spoil, bool], Future[None]], spoil: Spoil
) -> None:
    restored[spoil, False].result()


@pytest.mark.parametrize("spoil", AFTER_A_CRASH)
def test_a_database_that_is_spoilt_after_a_crash_is_restored_from_the_journal(
    restored: dict[tuple[Spoil, bool], Future[None]], spoil: Spoil
) -> None:
    restored[spoil, True].result()


def expect_restored(daemon: RunningDaemon, filled: FilledFolder) -> None:
    """All is as it was, it is said what happened, and the start after it has nothing to say."""
    daemon.start()
    with daemon.client() as client:
        assert everything(client) == filled.everything
        assert versions(client) == filled.versions
        assert answer(client) == filled.answer
        status = client.status()
        assert (status.state, status.seq) == ("degraded", filled.seq)
        assert any("restored from the journal" in reason for reason in status.reasons), status.reasons
        client.remember("Written after the loss.", key="after")
    assert daemon.stop() == 0
    daemon.start()
    with daemon.client() as client:
        assert not any("journal" in reason for reason in client.status().reasons)
        assert client.search("written after loss").memories[0].key == "after"
        assert len(everything(client)) == len(filled.everything) + 3  # the memory, its use, and the change


@pytest.mark.parametrize("is_crash", [False, True], ids=["after a clean end", "after a crash"])
def test_without_its_journal_it_goes_on_from_the_database_and_says_so(
    copied: RunningDaemon, filled: FilledFolder, is_crash: bool
) -> None:
    if is_crash:
        crash(copied)
    shutil.rmtree(copied.folder / "journal")
    copied.start()
    with copied.client() as client:
        assert everything(client) == filled.everything
        reasons = client.status().reasons
        assert any(f"the journal ended at change 0, the database at {filled.seq}" in reason for reason in reasons)
        client.remember("Written without the old journal.", key="after")
    copied.kill()
    copied.start()
    with copied.client() as client:
        assert client.search("written without").memories[0].key == "after"
        assert client.remember("And another one.").outcome == "stored"
        assert len(everything(client)) == len(filled.everything) + 6


def test_without_the_file_that_names_it_the_store_is_still_the_same(
    copied: RunningDaemon, filled: FilledFolder
) -> None:
    (copied.folder / "store.json").write_text("{")
    copied.start()
    with copied.client() as client:
        assert everything(client) == filled.everything
        assert any("store.json was damaged" in reason for reason in client.status().reasons)


def test_with_only_the_journal_left_everything_is_restored(copied: RunningDaemon, filled: FilledFolder) -> None:
    shutil.rmtree(copied.folder / "db")
    shutil.rmtree(copied.folder / "views")
    (copied.folder / "store.json").unlink()
    copied.start()
    with copied.client() as client:
        assert everything(client) == filled.everything
        assert answer(client) == filled.answer


def test_the_database_removed_under_a_daemon_that_runs_costs_nothing_that_was_acknowledged(
    copied: RunningDaemon, filled: FilledFolder
) -> None:
    copied.start()
    with copied.client() as client:
        shutil.rmtree(copied.folder / "db")
        client.remember("Written to a database that has no name any more.", key="after")
        before = everything(client)
        status = client.status()
        assert any("removed while in use" in reason for reason in status.reasons), status.reasons
        assert status.memories == MEMORIES - 4 - 1 + 2  # in the trash, superseded; added
    assert copied.stop() == 0
    copied.start()
    with copied.client() as client:
        assert everything(client) == before
        assert len(before) == len(filled.everything) + 3
