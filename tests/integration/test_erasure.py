"""Forgetting: no answer knows it, no file holds it, nothing brings it back; what was not asked for stays. SPEC 3.7"""

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import MnemoError, RefusalError
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import EraseFilter, NewMemory, Patch
from tests.support.erasure_services import CANARY, SECONDS_MAX, traces, wait_until
from tests.support.running_daemon import RunningDaemon

NOTE = f"""# The {CANARY} garden

## Kept

Tomatoes want sun and water.

## {CANARY} beds

The {CANARY} seeds came from [[{CANARY} island]] in spring.
"""


def tell_of_the_canary(client: Client, notes_folder: Path) -> list[str]:
    """A canary in every field that can have one; the ids of what has it. The first is what the second is derived of."""
    spoken = client.remember(
        f"The {CANARY} password is on the fridge door.", tags=[f"{CANARY}-tag"], speaker=f"{CANARY} Smith",
        key=f"{CANARY}-key", evidence=[f"/{CANARY}/letter.txt"], session_id=f"{CANARY}-session",
    ).memory.id  # fmt: skip
    client.patch(spoken, Patch(content="The password is somewhere else now, says the letter."))
    derived = client.remember(f"Fridges hold {CANARY} secrets.", derived_from=[spoken]).memory.id
    binned = client.remember(f"A {CANARY} line that was thrown away.").memory.id
    client.delete(binned)
    elsewhere = client.remember(NewMemory(content=f"{CANARY.upper()} in capitals", namespace=f"{CANARY}-space"))
    (notes_folder / "garden.md").write_text(NOTE)
    client.add_root(notes_folder)
    client.rescan()
    chunks = [each.id for each in client.list_memories(source="note").memories]
    assert len(chunks) == 2
    return [spoken, derived, binned, elsewhere.memory.id, *chunks]


def test_an_erased_memory_is_in_no_file_and_no_answer_and_nothing_restores_it(
    started_daemon: RunningDaemon, short_folder: Path
) -> None:
    notes_folder = short_folder / "vault"
    notes_folder.mkdir()
    with started_daemon.client(entry_point="cli") as client:
        ids = tell_of_the_canary(client, notes_folder)
        kept = client.remember("Something that stays, with nothing to hide.").memory
        exported = b"\n".join(client.export()) + b"\n"
        assert len(traces(started_daemon.folder, CANARY)) >= 2
        spoken, derived, *others = ids
        report = client.erase_many([spoken, *others])
        assert traces(started_daemon.folder, CANARY) == []
        assert report.derived == [derived]
        assert (report.complete, report.searched.found) == (True, [])
        assert report.searched.needles > 20
        for memory_id in ids:
            for ask in (client.get, client.history, client.restore, client.erase):
                with pytest.raises(RefusalError) as refused:
                    ask(memory_id)
                assert refused.value.status == 404
        for namespace in ("default", f"{CANARY}-space"):
            assert client.recall(CANARY, namespace=namespace).memories == []
            assert client.search(CANARY, namespace=namespace).memories == []
        then = client.recall("password fridge seeds tomatoes", as_of=kept.created_at)
        assert then.memories == []
        assert [each.id for each in client.list_memories().memories] == [kept.id]
        assert client.trash().memories == []
        (notes_folder / "copy.md").write_text(NOTE.replace("Tomatoes", "Potatoes").replace(f"# The {CANARY}", "# The"))
        (notes_folder / "garden.md").write_text(NOTE + "\n\n")
        client.rescan()
        client.import_from([exported])
        assert client.search(CANARY).memories == []
        assert client.search(CANARY, namespace=f"{CANARY}-space").memories == []
        assert [each.content for each in client.search("potatoes").memories] == ["Potatoes want sun and water."]
        assert client.check().violations == []
    assert started_daemon.stop() == 0
    assert traces(started_daemon.folder, CANARY) == []
    started_daemon.start()
    with started_daemon.client(entry_point="cli") as client:
        client.rescan()
        assert client.search(CANARY).memories == []


def test_reads_are_answered_and_writes_are_kept_while_many_are_forgotten(started_daemon: RunningDaemon) -> None:
    with started_daemon.client(entry_point="cli") as client:
        client.remember("The lighthouse keeper sleeps at noon.")
        many = [NewMemory(content=f"Line {n} of the {CANARY} diary, page {n}.", tags=["diary"]) for n in range(500)]
        ids = [result.memory.id for result in client.remember_many(many) if isinstance(result, RememberAnswer)]
        done = threading.Event()
        heard: list[int] = []
        written: list[str] = []

        def read() -> None:
            with started_daemon.client() as reader:
                while not done.is_set():
                    heard.append(len(reader.recall("lighthouse keeper").memories))

        def write() -> None:
            with started_daemon.client() as writer:
                while not done.is_set():
                    written.append(writer.remember(f"Written meanwhile, {len(written)}").memory.id)

        threads = [threading.Thread(target=read), threading.Thread(target=write)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(heard) > 2 and len(written) > 2)
        before = len(heard)
        report = client.erase_many(filter=EraseFilter(tags=["diary"]))
        during = len(heard) - before
        done.set()
        for thread in threads:
            thread.join(SECONDS_MAX)
        assert sorted(report.purged) == sorted(ids)
        assert report.complete
        assert during > 0
        assert set(heard) == {1}
        assert traces(started_daemon.folder, CANARY) == []
        assert len(client.list_memories(limit=500).memories) == 1 + len(written)
        assert {each.id for each in client.list_memories(limit=500).memories} >= set(written)


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.3])
def test_an_interrupted_erasure_is_finished_after_the_next_start(started_daemon: RunningDaemon, seconds: float) -> None:
    with started_daemon.client(entry_point="cli") as client:
        many = [NewMemory(content=f"Line {n} of the {CANARY} diary, page {n}.", tags=["diary"]) for n in range(300)]
        client.remember_many(many)
        kept = client.remember("It stays.").memory.id

        def ask() -> None:
            with contextlib.suppress(MnemoError), started_daemon.client(entry_point="cli") as asking:
                asking.erase_many(filter=EraseFilter(tags=["diary"]))

        asking = threading.Thread(target=ask)
        asking.start()
        wait_until(lambda: len(client.list_memories(tags=["diary"]).memories) < 50 or not asking.is_alive())
        time.sleep(seconds)
        started_daemon.kill()
        asking.join(SECONDS_MAX)
    started_daemon.start()
    with started_daemon.client(entry_point="cli") as client:
        wait_until(lambda: not any("forgotten" in reason for reason in client.status().reasons))
        assert client.search(CANARY).memories == []
        assert traces(started_daemon.folder, CANARY) == []
        assert client.get(kept).content == "It stays."
        assert client.check().violations == []
        many_again = client.erase_many(filter=EraseFilter(tags=["diary"]))
        assert many_again.purged == []


def test_agents_can_have_nothing_forgotten(daemon: RunningDaemon) -> None:
    with daemon.client(entry_point="cli") as person:
        memory_id = person.remember("Mine to forget.").memory.id
    agents = [Client(daemon.socket, entry_point="mcp"), Client(daemon.socket, agent="planner")]
    for agent in agents:
        asks: list[Callable[[], object]] = [
            partial(agent.erase, memory_id),
            partial(agent.erase_many, [memory_id]),
            partial(agent.erase_many, [memory_id], dry_run=True),
            agent.empty_trash,
        ]
        for ask in asks:
            with pytest.raises(RefusalError) as refused:
                ask()
            assert (refused.value.status, refused.value.code) == (422, "refused")
        agent.close()
    with daemon.client() as program:
        assert program.erase(memory_id, dry_run=True).purged == [memory_id]


def test_an_erasure_without_a_selection_is_refused(daemon: RunningDaemon) -> None:
    with daemon.client(entry_point="cli") as client:
        memory_id = client.remember("One.", namespace="here").memory.id
        client.remember("Two.", namespace="there")
        asks: list[Callable[[], object]] = [
            client.erase_many,
            partial(client.erase_many, filter=EraseFilter()),
            partial(client.erase_many, [memory_id], filter=EraseFilter(tags=["a"])),
            partial(client.erase_many, filter=EraseFilter(namespace="*")),
        ]
        for ask in asks:
            with pytest.raises(RefusalError) as refused:
                ask()
            assert refused.value.status == 400
        assert client.erase_many(filter=EraseFilter(namespace="here"), dry_run=True).purged == [memory_id]
        for tag in ("none", "", " "):
            assert client.erase_many(filter=EraseFilter(namespace="here", tags=[tag])).purged == []


def test_what_is_erased_already_is_said_to_be(daemon: RunningDaemon) -> None:
    with daemon.client(entry_point="cli") as client:
        memory_id = client.remember("The gate code is 4711.").memory.id
        deleted = client.remember("The gate is green.", namespace="trashed").memory.id
        client.erase(memory_id)
        client.delete(deleted)
        client.empty_trash(namespace="trashed", confirm=True)
        for text in (memory_id, memory_id[-12:]):
            with pytest.raises(RefusalError, match=f"memory {memory_id} is erased already$") as refused:
                client.erase_many([text], everywhere=True, dry_run=True)
            assert (refused.value.status, refused.value.code) == (404, "not_found")
        for other in (deleted, "0123456789ab"):  # what was in the trash may still be in a file
            with pytest.raises(RefusalError, match="there is no memory"):
                client.erase_many([other])


def test_a_tag_selects_memories_to_erase_however_it_is_written(daemon: RunningDaemon) -> None:
    with daemon.client(entry_point="cli") as client:
        memory_id = client.remember("One.", namespace="cafe", tags=["caf\u00e9"]).memory.id
        wanted = EraseFilter(namespace="cafe", tags=[" Cafe\u0301"])
        assert client.erase_many(filter=wanted, dry_run=True).purged == [memory_id]
