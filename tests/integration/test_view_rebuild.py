"""Views can be lost at any time: the same answers, to the byte, with the real model. SPEC 2.3, 3.1, 7.2, 17.2."""

import itertools
import random
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from mnemo_client.client import Client
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import NewMemory, Patch
from mnemo_client.protocol.retrieval import RecallRequest
from tests.support.running_daemon import RunningDaemon, running
from tests.support.samples import quick_folder

MEMORIES = 180
NOTES = 24
NOW = 1_800_000_000_000  # ms; of every question
FILES = ("columns.view", "words.view", "vectors.view")

PEOPLE = ("Ines", "Jonas", "Mirjam", "Tadeo", "Wanda")
THINGS = ("the spare key", "the boat", "the server in the cellar", "the tax return", "the green bicycle", "the old oak")
DOINGS = (
    "hangs behind the door", "was repaired in spring", "needs new paint", "is lent to a neighbour",
    "answers on port 8080", "must be handed in by July", "was seen at the harbour",
)  # fmt: skip
QUESTIONS = (
    "where is the key",
    "who had the bicycle repaired",
    "deadline for the authorities",
    "Jonas boat harbour",
    "a tree that is very old",
    "section 7 of the handbook",
)


def make_texts(chance: random.Random) -> list[str]:
    """Short ones and, now and then, one that takes several windows."""
    texts = []
    for number in range(MEMORIES):
        sentence = f"{chance.choice(PEOPLE)} said that {chance.choice(THINGS)} {chance.choice(DOINGS)}, entry {number}."
        texts.append(" ".join([sentence] * 30) if number % 60 == 7 else sentence)
    return texts


def make_notes(folder: Path, chance: random.Random) -> None:
    folder.mkdir()
    for number in range(NOTES):
        paragraphs = [f"## Section {part}\n\n{' '.join(make_texts(chance)[:6])}\n" for part in range(3)]
        (folder / f"note{number}.md").write_text(f"# Handbook, chapter {number}\n\n" + "\n".join(paragraphs))


def fill(client: Client) -> None:
    """Stored in a batch and alone, edited, deleted, restored, recalled: what a view has to follow."""
    chance = random.Random(11)
    texts = make_texts(chance)
    batch = [NewMemory(content=text, tags=[f"t{number % 3}"], speaker=PEOPLE[number % 5])
             for number, text in enumerate(texts[:-20])]  # fmt: skip
    ids = [one.memory.id for one in client.remember_many(batch) if isinstance(one, RememberAnswer)]
    ids += [client.remember(text).memory.id for text in texts[-20:]]
    for memory_id in ids[5:60:7]:
        client.patch(memory_id, Patch(content=f"Corrected: {client.get(memory_id).content[:200]}"))
    for memory_id in ids[3:60:9]:
        client.delete(memory_id)
    client.restore(ids[3])


def answers(client: Client) -> list[bytes]:
    """The recalled memories, by meaning and by words, without the timing."""
    given = []
    for query in QUESTIONS:
        for more in ({}, {"tags": ["t1"], "speaker": "Ines"}, {"ranker": "words"}, {"source": "note"}):
            asked = RecallRequest(query=query, top_k=20, token_budget=None, dry=True, now=NOW, explain=True, **more)
            answer = client.recall(asked)
            assert answer.degraded == []
            assert answer.trace is not None
            kept = answer.trace.candidates
            given.append(msgspec.json.encode([msgspec.structs.replace(answer, took_ms=0.0, trace=None), kept]))
    return given


def environ_of(models: Path) -> dict[str, str]:
    """Topics, which a slow machine would come to build during the test and which change answers, wait on a busy one."""
    return {"MNEMO_MODELS_FOLDER": str(models), "MNEMO_JOBS_BUSY_PERCENT": "0"}


@pytest.fixture(scope="module")
def rested(minilm_folder: Path) -> Iterator[tuple[RunningDaemon, list[bytes]]]:
    """A daemon that has stopped with all views saved, and what it answered."""
    with quick_folder() as scratch:
        make_notes(scratch / "notes", random.Random(5))
        daemon = RunningDaemon(scratch / "data", environ_of(minilm_folder))
        daemon.start()
        try:
            with daemon.client() as client:
                root = client.add_root(f"{scratch}/notes").id
                fill(client)
                while (found := client.notes_status().roots[0]).files < NOTES or found.waiting:
                    assert found.id == root
                    time.sleep(0.02)
                daemon.wait_for_vectors()
                given = answers(client)
            assert daemon.stop() == 0
            yield daemon, given
        finally:
            daemon.stop()
        assert "Traceback" not in daemon.log.read_text()


class FoundIds(NamedTuple):
    """The answers after a start, and the daemon's log about it."""

    answers: list[bytes]
    log: str


def start_after(daemon: RunningDaemon, meanwhile: Callable[[RunningDaemon], object]) -> FoundIds:
    """A start after something was done to the folder. The daemon has stopped again, and saved its views."""
    daemon.log.write_text("")
    meanwhile(daemon)
    daemon.start()
    try:
        daemon.wait_for_vectors()
        with daemon.client() as client:
            given = answers(client)
    finally:
        assert daemon.stop() == 0
    log = daemon.log.read_text()
    assert "Traceback" not in log
    return FoundIds(given, log)


def flip_a_byte(path: Path, at: float = 2 / 3) -> None:
    """`at` is a share of the file."""
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 0x10
    path.write_bytes(data)


def flip_the_first_byte(path: Path) -> None:
    flip_a_byte(path, 0)


def flip_a_byte_of_the_head(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100] ^= 0x01
    path.write_bytes(data)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-64])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def test_answers_are_many_and_by_both_channels(rested: tuple[RunningDaemon, list[bytes]]) -> None:
    joined = b"".join(rested[1])
    assert b'"vectors"' in joined
    assert b'"words"' in joined
    assert joined.count(b'"id"') > 400
    written = {path.name for path in (rested[0].folder / "views").iterdir()}
    # No answer reads the map, which is laid out in the seconds before other programs are seen at work.
    assert written - {"map.view"} == {*FILES, "centroids.view", "roles.view"}


def do_nothing(daemon: RunningDaemon) -> None:
    pass


def remove_views(daemon: RunningDaemon) -> None:
    shutil.rmtree(daemon.folder / "views")


def spoil_views(spoil: Callable[[Path], object], names: tuple[str, ...], daemon: RunningDaemon) -> None:
    for name in names:
        spoil(daemon.folder / "views" / name)


def kill(daemon: RunningDaemon) -> None:
    daemon.start()
    daemon.wait_for_vectors()
    daemon.kill()


def remove_database(daemon: RunningDaemon) -> None:
    shutil.rmtree(daemon.folder / "db")


ONE_SPOILT = (Path.unlink, flip_a_byte)
ALL_SPOILT = (flip_the_first_byte, flip_a_byte_of_the_head, cut_short, empty)

# What is done to the folder of a daemon that has stopped, by name; first what says nothing of views, which are whole.
LOSSES: dict[str, Callable[[RunningDaemon], object]] = {
    "nothing": do_nothing,
    "all views": remove_views,
    **{
        f"{spoil.__name__} {name}": partial(spoil_views, spoil, (name,)) for spoil in ONE_SPOILT for name in FILES
    },
    **{spoil.__name__: partial(spoil_views, spoil, FILES) for spoil in ALL_SPOILT},
    "kill": kill,
    "database": remove_database,
}  # fmt: skip


@pytest.fixture(scope="module")
def found(rested: tuple[RunningDaemon, list[bytes]], minilm_folder: Path) -> Iterator[dict[str, Future[FoundIds]]]:
    """The answers after each loss. Two daemons, each on a folder of its own that begins as a copy, share them and
    go from one to the next: the later ones are on their way while a test looks at its own."""
    folder = rested[0].folder
    with quick_folder() as scratch, ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        daemons = [RunningDaemon(scratch / name, environ_of(minilm_folder)) for name in "ab"]
        for daemon in daemons:
            shutil.copytree(folder, daemon.folder, ignore=shutil.ignore_patterns("run"))
        hands = itertools.cycle(zip((one, two), daemons, strict=True))
        yield {
            name: threads.submit(start_after, daemon, loss)
            for (name, loss), (threads, daemon) in zip(LOSSES.items(), hands, strict=False)
        }


def test_a_restart_changes_no_answer(
    rested: tuple[RunningDaemon, list[bytes]], found: dict[str, Future[FoundIds]]
) -> None:
    after = found["nothing"].result()
    assert after.answers == rested[1]
    assert "rebuilt" not in after.log


def test_without_the_folder_of_views_the_answers_are_the_same(
    rested: tuple[RunningDaemon, list[bytes]], found: dict[str, Future[FoundIds]]
) -> None:
    after = found["all views"].result()
    assert after.answers == rested[1]
    assert "columns and words are rebuilt" in after.log
    assert "the vector index is rebuilt" in after.log


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("spoil", ONE_SPOILT)
def test_without_one_view_the_answers_are_the_same(
    rested: tuple[RunningDaemon, list[bytes]],
    found: dict[str, Future[FoundIds]],
    name: str,
    spoil: Callable[[Path], object],
) -> None:
    after = found[f"{spoil.__name__} {name}"].result()
    assert after.answers == rested[1]
    assert "rebuilt" in after.log


@pytest.mark.parametrize("spoil", ALL_SPOILT)
def test_with_every_view_spoilt_the_answers_are_the_same(
    rested: tuple[RunningDaemon, list[bytes]], found: dict[str, Future[FoundIds]], spoil: Callable[[Path], object]
) -> None:
    assert found[spoil.__name__].result().answers == rested[1]


def test_after_a_kill_the_answers_are_the_same(
    rested: tuple[RunningDaemon, list[bytes]], found: dict[str, Future[FoundIds]]
) -> None:
    assert found["kill"].result().answers == rested[1]


def test_without_the_database_texts_are_embedded_again_to_the_same_answers(
    rested: tuple[RunningDaemon, list[bytes]], found: dict[str, Future[FoundIds]]
) -> None:
    assert found["database"].result().answers == rested[1]


def tell(daemon: RunningDaemon, texts: list[str], way: str) -> None:
    """The texts are told in that way, and have their vectors."""
    with daemon.client() as client:
        while client.status().models["embedding"].state != "ready":
            time.sleep(0.02)
        if way == "alone":
            for text in texts:
                assert client.remember(text, wait="indexed").indexed
        else:
            client.remember_many([NewMemory(content=text) for text in texts])
    if way == "killed in the middle":
        daemon.kill()
        daemon.start()
    daemon.wait_for_vectors()


@pytest.mark.parametrize("way", ["alone", "killed in the middle"])
def test_however_texts_were_embedded_they_are_found_with_the_same_scores(
    short_folder: Path, minilm_folder: Path, way: str
) -> None:
    texts = make_texts(random.Random(23))[:60]

    def found_after(folder: str, way: str) -> list[tuple[str, float]]:
        with running(short_folder / folder, environ_of(minilm_folder)) as daemon:
            tell(daemon, texts, way)
            found = []
            with daemon.client() as client:
                for query in QUESTIONS:
                    answer = client.recall(query, top_k=60, token_budget=None, dry=True, now=NOW)
                    assert answer.degraded == []
                    found += sorted((memory.content, memory.score) for memory in answer.memories)
        return found

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(found_after, ("one", "other"), (way, "together"))
    assert len(one) > 100
    assert one == other
