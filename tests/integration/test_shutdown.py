"""The end of the daemon, and what does not end it. SPEC 15, 16."""

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import InterruptedAnswerError, RefusalError, UnreachableError
from tests.support.erasure_services import wait_until
from tests.support.running_daemon import RunningDaemon

END_SECONDS_MAX = 60.0  # more is a daemon that hangs; a busy machine may miss the 10 s of SPEC 16
WRITERS = 50


def contents(client: Client) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = client.list_memories(limit=500, cursor=cursor)
        found += [memory.content for memory in page.memories]
        cursor = page.cursor
        if cursor is None:
            return found


def write_until_refused(daemon: RunningDaemon, writer: int, begun: threading.Barrier) -> list[str]:
    """The writes acknowledged before the daemon was gone."""
    acknowledged: list[str] = []
    with daemon.client() as client:
        client.health()  # connected
        begun.wait(20.0)
        while True:
            content = f"writer {writer}, number {len(acknowledged)}"
            try:
                client.remember(content)
            except (InterruptedAnswerError, UnreachableError):
                return acknowledged
            except RefusalError as refused:
                if refused.code != "stopping":
                    raise
                return acknowledged
            acknowledged.append(content)


def end_while_written_to(daemon: RunningDaemon, end: Callable[[], object]) -> tuple[list[str], float]:
    """The writes that fifty clients had acknowledged when `end` had ended the daemon, and the seconds it took."""
    begun = threading.Barrier(WRITERS + 1)
    with ThreadPoolExecutor(WRITERS) as clients:
        writing: list[Future[list[str]]] = [
            clients.submit(write_until_refused, daemon, writer, begun) for writer in range(WRITERS)
        ]
        begun.wait(20.0)
        time.sleep(0.3)
        began = time.monotonic()
        end()
        assert daemon.process is not None
        assert daemon.process.wait(30.0) == 0
        took = time.monotonic() - began
        return [content for future in writing for content in future.result(20.0)], took


@pytest.mark.parametrize("way", ["SIGTERM", "SIGINT", "POST /shutdown"])
def test_an_acknowledged_write_before_the_end_is_there_after_it(started_daemon: RunningDaemon, way: str) -> None:
    process = started_daemon.process
    assert process is not None

    def end() -> None:
        if way == "POST /shutdown":
            with started_daemon.client() as client:
                assert client.shutdown().pid == process.pid
        else:
            process.send_signal(getattr(signal, way))

    acknowledged, took = end_while_written_to(started_daemon, end)
    print(f"{way}: {len(acknowledged)} acknowledged, ended in {took:.2f} s")
    assert len(acknowledged) >= WRITERS // 2
    assert took < END_SECONDS_MAX
    assert not started_daemon.socket.exists()
    started_daemon.start()
    with started_daemon.client() as client:
        kept = contents(client)
        wait_until(lambda: client.status().reasons[0].startswith("no embedding model"))  # not at first
    assert set(acknowledged) <= set(kept)
    assert len(set(kept)) == len(kept)
    log = started_daemon.log.read_text()
    assert "rebuilt" not in log  # the views were saved at the end
    assert "ERROR" not in log


def test_a_connection_that_says_nothing_does_not_hold_up_the_end(started_daemon: RunningDaemon) -> None:
    with started_daemon.client() as silent:
        silent.health()
        began = time.monotonic()
        assert started_daemon.stop() == 0
        assert time.monotonic() - began < END_SECONDS_MAX


def test_the_end_is_quick_while_someone_waits_for_a_vector(started_daemon: RunningDaemon) -> None:
    with ThreadPoolExecutor(1) as neighbour:

        def wait_for_vector() -> bool:
            with started_daemon.client() as client:
                return client.remember("The last words.", wait="indexed").indexed

        waiting = neighbour.submit(wait_for_vector)
        began = time.monotonic()
        assert started_daemon.stop() == 0
        assert time.monotonic() - began < END_SECONDS_MAX
        try:
            assert waiting.result(20.0) is False
        except (InterruptedAnswerError, UnreachableError):
            return  # it came too late to be begun
        except RefusalError as refused:
            if refused.code != "stopping":  # it was begun, and nothing takes work any more
                raise


def test_a_second_signal_changes_nothing(started_daemon: RunningDaemon) -> None:
    assert started_daemon.process is not None
    started_daemon.process.send_signal(signal.SIGTERM)
    started_daemon.process.send_signal(signal.SIGTERM)
    assert started_daemon.process.wait(END_SECONDS_MAX) == 0


def test_an_end_in_the_middle_of_the_start_is_an_end(scratch_daemon: RunningDaemon) -> None:
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        client.remember("There before.")
    assert scratch_daemon.stop() == 0
    for wait_seconds in (0.15, 0.3, 0.45, 0.6):
        process = scratch_daemon.begin()
        time.sleep(wait_seconds)
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_SECONDS_MAX) in (0, -signal.SIGTERM)  # so early that it had not begun to listen for it
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        assert contents(client) == ["There before."]


def test_an_invalid_configuration_on_sighup_is_reported_and_changes_nothing(started_daemon: RunningDaemon) -> None:
    config = started_daemon.folder / "config.toml"
    assert started_daemon.process is not None

    def reload_and_find(words: str) -> None:
        assert started_daemon.process is not None
        started_daemon.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10.0
        while words not in started_daemon.log.read_text():
            assert time.monotonic() < deadline, started_daemon.log.read_text()
            time.sleep(0.02)

    for wrong in ("[notes]\nsetle_ms = 3\n", "[notes\n", "[notes]\nsettle_ms = 'soon'\n", "\xff"):
        config.write_text(wrong, encoding="latin-1")
        started_daemon.log.write_text("")
        reload_and_find("the configuration stays as it was")
        with started_daemon.client() as client:
            settings = {value.key: value.value for value in client.config().values}
            assert settings["notes.settle_ms"] == 200
    config.unlink()
    started_daemon.process.send_signal(signal.SIGHUP)
    config.write_text("[notes]\nsettle_ms = 250\n")
    reload_and_find("notes.settle_ms is 250")
    with started_daemon.client() as client:
        client.remember("Still here.")


def test_the_settings_that_need_no_restart_hold_from_sighup_on(scratch_daemon: RunningDaemon, tmp_path: Path) -> None:
    """The log's level is seen by what it says; the notes' by a file that was too large and is remembered."""
    config = scratch_daemon.folder / "config.toml"
    scratch_daemon.folder.mkdir()
    config.write_text("[daemon]\nlog_level = 'error'\n[notes]\nfile_mib_max = 1\n")
    notes_folder = tmp_path / "vault"
    notes_folder.mkdir()
    (notes_folder / "large.md").write_text("The spare key hangs in the shed.\n\n" + "the same words again\n" * 60_000)
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        client.add_root(notes_folder)
        assert [Path(skip.path).name for skip in client.rescan().skipped] == ["large.md"]
        assert scratch_daemon.log.read_text() == ""
        config.write_text("[daemon]\nlog_level = 'info'\nconnections_max = 64\n[notes]\nfile_mib_max = 2\n")
        assert scratch_daemon.process is not None
        scratch_daemon.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 20.0
        while not client.notes_status().roots[0].chunks:
            assert time.monotonic() < deadline, scratch_daemon.log.read_text()
            time.sleep(0.02)
        assert client.config().values
    log = scratch_daemon.log.read_text()
    assert "daemon.log_level is 'info' now" in log
    assert "notes.file_mib_max is 2 now" in log
    assert "daemon.connections_max is 64 at the next start" in log
