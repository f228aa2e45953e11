"""The same query on the same state gives the same bytes: twice, after a restart, and without its views. SPEC 7.2, 17"""

import json
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from mnemo_client.client import Client
from mnemo_client.protocol.choices import Ranker
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import NewMemory, Patch
from mnemo_client.protocol.retrieval import RecallRequest
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import AT, WAIT_SECONDS, quick_folder

RANKERS = get_args(Ranker)
NOW = 1_800_000_000_000  # ms; of every question
DAY = 86_400_000
COUNT = 120

PEOPLE = ("Ines", "Jonas", "Mirjam", "Tadeo")
THINGS = ("the spare key", "the boat", "the server in the cellar", "the tax return", "the green bicycle")
DOINGS = ("hangs behind the door", "was repaired in spring", "needs new paint", "is lent to a neighbour")
QUESTIONS = ("where is the spare key", "what did Jonas say about the boat", "who repaired the bicycle in spring")

# How it is asked, besides by every ranker.
WAYS: tuple[dict[str, Any], ...] = (
    {"cut": "gap"},
    {"preferences": "first", "token_budget": 200},
    {"sort": "recent", "top_k": 7, "offset": 3},
    {"speaker": "Ines", "tags": ["home"]},
    {"namespace": "*", "exact": True, "highlight": True},
    {"expand": True, "rerank": True},
    {"mode": "semantic", "ranker": "hybrid"},
)


def fill(client: Client) -> int:
    """Write sessions, changes and deletions, and a move; the time of the journal before the changes."""
    chance = random.Random(19)
    reported = []
    for number in range(COUNT):
        text = f"{chance.choice(PEOPLE)} says that {chance.choice(THINGS)} {chance.choice(DOINGS)}, entry {number}."
        reported.append(NewMemory(
            content=text, speaker=PEOPLE[number % 4], tags=["home"] if number % 3 else [], event_at=AT + number * DAY,
            session_id=f"s{number // 8}", namespace="default" if number % 5 else "boats",
        ))  # fmt: skip
    ids = [one.memory.id for one in client.remember_many(reported) if isinstance(one, RememberAnswer)]
    client.remember("I live in Lisbon.", event_at=AT)
    before = client.remember("Always bring coffee to the boat.", kind="procedural", event_at=AT).memory.created_at
    client.remember("I moved to Porto.", event_at=AT + DAY)
    for memory_id in ids[4:40:6]:
        client.patch(memory_id, Patch(tags=["home", "changed"], importance=0.9))
    for memory_id in ids[3:40:9]:
        client.delete(memory_id)
    return before


def asked(before: int) -> Iterator[RecallRequest]:
    for query in (*QUESTIONS, "where do I live"):
        for ranker in RANKERS:
            yield RecallRequest(query=query, ranker=ranker, top_k=20, explain=True, dry=True, now=NOW)
        for way in (*WAYS, {"as_of": before}):
            yield RecallRequest(query=query, **{"top_k": 20, "dry": True, "now": NOW, **way})


def answers(client: Client, before: int) -> list[bytes]:
    """The bodies as they were sent, but for how long it took."""
    given = []
    for request in asked(before):
        answer = client.recall(request)
        assert answer.degraded == []
        given.append(without_durations(client.last_body))
    return given


def without_durations(body: bytes) -> bytes:
    """Read and written again in the order it came; a body that differs in anything else differs here too."""
    answer = json.loads(body)
    del answer["took_ms"]
    if answer.get("trace"):
        del answer["trace"]["stages_ms"]
    return json.dumps(answer).encode()


def settled(daemon: RunningDaemon) -> None:
    """Every memory has its vector and its token rows."""
    daemon.wait_for_vectors()
    deadline = time.monotonic() + WAIT_SECONDS
    with daemon.client() as client:
        while any(view.state != "ready" for view in client.status().views.values()):
            assert time.monotonic() < deadline, client.status()
            time.sleep(0.05)


@pytest.fixture(scope="module")
def rested(minilm_folder: Path) -> Iterator[tuple[RunningDaemon, int, list[bytes]]]:
    """A daemon that has stopped, and what it answered before."""
    with quick_folder() as scratch:
        daemon = RunningDaemon(scratch / "data", {"MNEMO_MODELS_FOLDER": str(minilm_folder)})
        daemon.start()
        try:
            daemon.wait_for_vectors()
            with daemon.client() as client:
                before = fill(client)
                settled(daemon)
                given = answers(client, before)
                assert answers(client, before) == given
            assert daemon.stop() == 0
            yield daemon, before, given
        finally:
            daemon.stop()
        assert "Traceback" not in daemon.log.read_text()


def answers_of(daemon: RunningDaemon, before: int) -> list[bytes]:
    """After a start that ends with a stop."""
    daemon.start()
    try:
        settled(daemon)
        with daemon.client() as client:
            return answers(client, before)
    finally:
        assert daemon.stop() == 0


def test_every_question_has_an_answer_to_compare(rested: tuple[RunningDaemon, int, list[bytes]]) -> None:
    _, _, given = rested
    counts = [len(json.loads(body)["memories"]) for body in given]
    assert len(counts) == 4 * (len(RANKERS) + len(WAYS) + 1)
    assert sum(count > 0 for count in counts) > len(counts) * 3 // 4


def test_a_restart_gives_the_same_bytes(rested: tuple[RunningDaemon, int, list[bytes]]) -> None:
    daemon, before, given = rested
    assert answers_of(daemon, before) == given


def test_rebuilt_views_give_the_same_bytes(rested: tuple[RunningDaemon, int, list[bytes]]) -> None:
    daemon, before, given = rested
    shutil.rmtree(daemon.folder / "views")
    assert answers_of(daemon, before) == given


def test_a_kill_in_the_middle_of_nothing_gives_the_same_bytes(rested: tuple[RunningDaemon, int, list[bytes]]) -> None:
    daemon, before, given = rested
    daemon.start()
    daemon.kill()
    assert answers_of(daemon, before) == given
