"""A daemon over a disk that fails: it goes on, says so in every answer, and comes back by itself. SPEC 3.4, M19."""

import contextlib
import http.client
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.memories import Patch
from tests.support.running_daemon import RunningDaemon

BACK_SECONDS_MAX = 20.0


@pytest.fixture
def faults(scratch_daemon: RunningDaemon, short_folder: Path) -> Path:
    """The folder of faults of the scratch daemon's disk: a file a fault, holding the error's name."""
    folder = short_folder / "faults"
    folder.mkdir()
    scratch_daemon.program = ["-m", "tests.support.faulty_disk", str(folder)]
    return folder


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + BACK_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def headers_of(daemon: RunningDaemon, method: str, path: str, body: str | None = None) -> dict[str, str]:
    with contextlib.closing(http.client.HTTPConnection("localhost")) as connection:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(daemon.socket))
        connection.request(method, path, body)
        response = connection.getresponse()
        response.read()
        return dict(response.headers)


def fail(faults: Path, *names: str, error: str = "EIO") -> None:
    for name in names:
        (faults / name).write_text(error)


def mend(faults: Path) -> None:
    for path in faults.iterdir():
        path.unlink()


def texts(client: Client) -> list[str]:
    return sorted(memory.content for memory in client.list_memories().memories)


def test_m19_without_its_database_the_daemon_goes_on_and_says_so_in_every_answer(
    scratch_daemon: RunningDaemon, faults: Path
) -> None:
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        client.remember("The kettle is red.")
        assert "X-Mnemo-Degraded" not in headers_of(scratch_daemon, "GET", "/v1/status")
        fail(faults, "committing", "opening")
        stored = client.remember("The bicycle is blue.")
        assert "store" in stored.degraded
        status = client.status()
        assert status.state == "degraded"
        assert "Input/output error" in status.reasons[0]
        assert not client.health().ok
        answer = client.recall("bicycle")
        assert [memory.content for memory in answer.memories] == ["The bicycle is blue."]
        assert "store" in answer.degraded
        assert answer.ranker == "words"
        one = client.patch(stored.memory.id, Patch(content="The bicycle is green."))
        assert one.version == 2
        client.delete(one.id)
        assert texts(client) == ["The kettle is red."]
        for method, path in (("GET", "/v1/memories"), ("GET", "/v1/export"), ("GET", "/v1/nowhere")):
            assert "Input/output error" in headers_of(scratch_daemon, method, path)["X-Mnemo-Degraded"]
        mend(faults)
        wait_until(lambda: client.status().state != "degraded" or "no embedding" in client.status().reasons[0])
        assert client.recall("kettle").degraded == ["vectors"]
        client.restore(one.id)
        assert texts(client) == ["The bicycle is green.", "The kettle is red."]
        assert [version.memory.version for version in client.history(one.id).versions] == [4, 3, 2, 1]


def test_writes_accepted_without_a_database_survive_a_kill(scratch_daemon: RunningDaemon, faults: Path) -> None:
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        client.remember("The kettle is red.")
        fail(faults, "committing", "opening")
        client.remember("The bicycle is blue.")
    scratch_daemon.kill()
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        assert "the database cannot be opened" in client.status().reasons[0]
        assert texts(client) == ["The bicycle is blue.", "The kettle is red."]
        mend(faults)
        wait_until(lambda: "the database cannot be opened" not in " ".join(client.status().reasons))
        assert texts(client) == ["The bicycle is blue.", "The kettle is red."]


def test_a_full_disk_answers_507_takes_deletions_and_goes_on_when_there_is_room(
    scratch_daemon: RunningDaemon, faults: Path
) -> None:
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        first = client.remember("The kettle is red.").memory
        fail(faults, "writing", "committing", error="ENOSPC")
        with pytest.raises(RefusalError) as full:
            client.remember("The bicycle is blue.")
        assert (full.value.status, full.value.code) == (507, "disk_full")
        assert texts(client) == ["The kettle is red."]
        assert "full" in headers_of(scratch_daemon, "GET", "/v1/status")["X-Mnemo-Degraded"]
        fail(faults, "allocating", error="ENOSPC")
        (faults / "writing").unlink()
        (faults / "committing").unlink()
        client.delete(first.id)
        with pytest.raises(RefusalError) as still:
            client.remember("The bicycle is blue.")
        assert still.value.code == "disk_full"
        mend(faults)
        wait_until(lambda: not any("disk is full" in reason for reason in client.status().reasons))
        client.remember("The bicycle is blue.")
        assert texts(client) == ["The bicycle is blue."]


def test_a_cycle_on_a_full_disk_writes_no_half_step_and_the_next_one_goes_on(
    scratch_daemon: RunningDaemon, faults: Path
) -> None:
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        kept = client.remember("The kettle is red.").memory
        before = client.status().seq
        fail(faults, "writing", "committing", error="ENOSPC")
        with pytest.raises(RefusalError) as full:
            client.consolidate(namespace="*")
        assert (full.value.status, full.value.code) == (507, "disk_full")
        assert (client.status().seq, client.cycles().cycles, client.get(kept.id)) == (before, [], kept)
        mend(faults)
        wait_until(lambda: not any("disk is full" in reason for reason in client.status().reasons))
        cycle = client.consolidate(namespace="*").cycle
        assert (cycle.epoch, [each.id for each in client.cycles().cycles]) == (1, [cycle.id])


def test_a_cycle_without_a_database_is_kept_like_every_write(scratch_daemon: RunningDaemon, faults: Path) -> None:
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        client.remember("The kettle is red.")
        fail(faults, "committing", "opening")
        first = client.consolidate(namespace="*").cycle
        assert client.status().state == "degraded"
        mend(faults)
        wait_until(lambda: "the database" not in " ".join(client.status().reasons))
        second = client.consolidate(namespace="*").cycle
        assert [(each.id, each.epoch) for each in client.cycles().cycles] == [(second.id, 2), (first.id, 1)]
