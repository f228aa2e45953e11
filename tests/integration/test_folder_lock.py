"""Two daemons and one data folder: at no moment do both write. SPEC 3.6."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from tests.support.running_daemon import RunningDaemon


def daemon_on(data: Path, scratch: Path, name: str) -> RunningDaemon:
    """A daemon, not yet begun, whose socket stands elsewhere."""
    daemon = RunningDaemon(data, {"MNEMO_MODELS_FOLDER": str(scratch / "models")})
    daemon.socket = scratch / name / "mnemo.sock"
    daemon.log = scratch / f"{name}.log"
    daemon.environ |= {"MNEMO_SOCKET": str(daemon.socket), "MNEMO_CONFIG": str(scratch / "config.toml")}
    return daemon


@pytest.fixture
def first(short_folder: Path) -> Iterator[RunningDaemon]:
    (short_folder / "config.toml").write_text("")
    daemon = daemon_on(short_folder / "data", short_folder, "first")
    daemon.start()
    yield daemon
    daemon.stop()
    assert "Traceback" not in daemon.log.read_text()


def texts(client: Client) -> list[str]:
    return sorted(memory.content for memory in client.list_memories(limit=100).memories)


def test_without_the_lock_file_a_second_daemon_stays_out_and_the_first_stops_writing(
    first: RunningDaemon, short_folder: Path
) -> None:
    with first.client() as client:
        client.remember("The boat is called Alma.")
        (first.folder / "lock").unlink()
        second = daemon_on(first.folder, short_folder, "second")
        with second.begin() as process:
            try:
                assert process.wait(60) == 3
            finally:
                process.kill()
        assert "another daemon holds the data folder" in second.log.read_text()
        with pytest.raises(RefusalError, match="lock was removed; restart the daemon") as refused:
            client.remember("The boat is called Berta.")
        assert refused.value.code == "write_failed"
        status = client.status()
        assert status.state == "degraded"
        assert any("lock was removed" in reason for reason in status.reasons)
        answer = client.recall("what is the boat called?")
        assert [each.content for each in answer.memories] == ["The boat is called Alma."]
        assert "store" in answer.degraded
    first.stop()
    first.start()
    with first.client() as client:
        client.remember("The boat is called Clara.")
        assert texts(client) == ["The boat is called Alma.", "The boat is called Clara."]
        assert client.check().ok


def test_a_folder_that_is_moved_while_in_use_stops_the_writes_until_it_is_back(
    first: RunningDaemon, short_folder: Path
) -> None:
    with first.client() as client:
        client.remember("The oars are in the shed.")
        moved = first.folder.rename(short_folder / "moved")
        with pytest.raises(RefusalError, match=f"{first.folder} was moved or deleted; put it back to go on, or export"):
            client.remember("The oars are on the jetty.")
        status = client.status()
        assert status.state == "degraded"
        assert [each.split(";")[0] for each in status.reasons] == [
            f"the data folder {first.folder} was moved or deleted"
        ]
        assert len(list(client.export())) > 0
        moved.rename(first.folder)
        client.remember("The oars are on the boat.")
        assert texts(client) == ["The oars are in the shed.", "The oars are on the boat."]


def test_a_folder_copied_over_the_store_belongs_to_the_next_daemon(first: RunningDaemon, short_folder: Path) -> None:
    with first.client() as client:
        client.remember("The key hangs by the door.")
        moved = short_folder / "moved"
        first.folder.rename(moved)
        shutil.copytree(moved, first.folder)
        second = daemon_on(first.folder, short_folder, "second")
        second.start()
        try:
            with second.client() as other:
                other.remember("The spare key is in the shed.")
                with pytest.raises(RefusalError, match="was replaced by another folder"):
                    client.remember("The key is lost.")
                assert texts(client) == ["The key hangs by the door."]
                assert len(list(client.export())) > 0  # what the message advises
                assert texts(other) == ["The key hangs by the door.", "The spare key is in the shed."]
                first.stop()
                assert other.check().ok
        finally:
            second.stop()
        assert "Traceback" not in second.log.read_text()
