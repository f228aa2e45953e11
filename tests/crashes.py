"""Rounds of kill -9 under writers, and what they cost: for the test of it and for the benchmark. SPEC 17.1."""

import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from mnemo_client.client import Client
from mnemo_client.protocol import RecallRequest
from tests.running import RunningDaemon
from tests.writers import NAMESPACE, REFUSED, Writer, compare, read_all

WRITERS = 8
ALIVE_SECONDS_MAX = 0.5  # of writing in a round; when in that time the kill comes is chance
STARTING_SECONDS_MAX = 1.0  # into a start that is itself killed, while it recovers from the kill before
NOW = 1_800_000_000_000  # ms; of every question, so that answers can be compared to the byte
QUESTIONS = ("what is new", "which one has a key", "what was edited", "n1 n2 n3 r0 r1 r2")


@dataclass
class Tally:
    """What came of the rounds."""

    rounds: int = 0
    acknowledged: int = 0
    refused: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    other_answers: list[str] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)  # seconds from exec to the first answer

    def said(self) -> str:
        ordered = sorted(self.restarts)
        return (
            f"{self.rounds} rounds, {self.acknowledged} acknowledged writes, {self.refused} refused, "
            f"{len(self.lost)} lost, {len(self.doubled)} doubled, {len(self.unasked)} that nobody asked for, "
            f"{len(self.other_answers)} other answers, restart p50 {ordered[len(ordered) // 2]:.2f} s, "
            f"max {ordered[-1]:.2f} s"
        )


def answers(client: Client) -> list[bytes]:
    """What is recalled, but for how long that took."""
    found = []
    for query in QUESTIONS:
        asked = RecallRequest(query=query, namespace=NAMESPACE, top_k=50, token_budget=None, dry=True, now=NOW)
        answer = client.recall(asked)
        found.append(msgspec.json.encode(msgspec.structs.replace(answer, took_ms=0.0, trace=None)))
    return found


def kill_in_rounds(folder: Path, rounds: int, seed: int) -> Tally:
    """Each round: writers write, kill -9, restart, compare; the last words before a kill are read after the next."""
    chance = random.Random(seed)
    daemon = RunningDaemon(folder, {"XDG_CACHE_HOME": str(folder / "cache")})
    tally = Tally()
    writers = [Writer(f"w{number}", 0, daemon, chance.randrange(1 << 30)) for number in range(WRITERS)]
    daemon.start()
    try:
        for number in range(rounds):
            _write_until_killed(daemon, writers, chance.random() * ALIVE_SECONDS_MAX)
            if number % 5 == 2:
                _kill_at_the_start(daemon, chance.random() * STARTING_SECONDS_MAX)
            tally.restarts.append(daemon.start())
            tally.rounds += 1
            _look(daemon, writers, tally)
            if number % 5 == 0:
                _kill_at_rest(daemon, tally)
            writers = [writer.again() for writer in writers]
        tally.acknowledged = sum(writer.acknowledged for writer in writers)
        tally.refused = sum(writer.refused for writer in writers)
    finally:
        daemon.stop()
    return tally


def _write_until_killed(daemon: RunningDaemon, writers: list[Writer], seconds: float) -> None:
    for writer in writers:
        writer.start()
    time.sleep(seconds)
    daemon.kill()
    for writer in writers:
        writer.finish()


def _kill_at_the_start(daemon: RunningDaemon, seconds: float) -> None:
    daemon.begin()
    time.sleep(seconds)
    daemon.kill()


def _look(daemon: RunningDaemon, writers: list[Writer], tally: Tally) -> None:
    """Compares what the daemon holds, and what it answers, with what the writers were told."""
    with daemon.client(NAMESPACE) as client:
        found = read_all(client)
        difference = compare(writers, found)
        tally.lost += difference.lost
        tally.doubled += difference.doubled
        tally.unasked += difference.unasked
        status = client.status()
        if status.memories != sum(one.state == "active" for one in found.memories.values()):
            tally.other_answers.append(f"{status.memories} counted, {found.memories} there")
        for writer in writers:
            for memory_id, one in list(writer.account.items())[-5:]:
                hits = [hit.id for hit in client.search(one.content.split()[0], namespace=NAMESPACE).memories]
                if hits != ([memory_id] if one.state == "active" else []):
                    tally.other_answers.append(f"{one} is found as {hits}")
    journal = b"".join(path.read_bytes() for path in (daemon.folder / "journal").iterdir())
    if REFUSED.encode() in journal:
        tally.unasked.append("a refused text stands in the journal")


def _kill_at_rest(daemon: RunningDaemon, tally: Tally) -> None:
    """A kill with nothing under way changes no answer, not even by a byte."""
    with daemon.client(NAMESPACE) as client:
        before = answers(client)
    daemon.kill()
    tally.restarts.append(daemon.start())
    with daemon.client(NAMESPACE) as client:
        after = answers(client)
    tally.other_answers += [
        f"{query}: {one!r} was {other!r}"
        for query, one, other in zip(QUESTIONS, after, before, strict=True)
        if one != other
    ]
