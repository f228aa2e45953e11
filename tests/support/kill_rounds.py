"""Rounds of kill -9 under writers, and what they cost: for the test of it and for the benchmark. SPEC 17.1.

Each round a number of writers from 1 to 16 write, and a note is edited; kill -9; restart; what is there is what they
were told, and `check` is clean. Now and then the daemon is killed while it starts, or while it rests, or stopped in
peace, which saves its views, so that the next kill finds views that are behind.
"""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from mnemo_client.client import Client
from mnemo_client.protocol.retrieval import RecallRequest
from tests.support.recording_writers import NAMESPACE, REFUSED, RecordingWriter, compare, read_all
from tests.support.running_daemon import RunningDaemon

WRITERS_MAX = 16
NOTES = "noted"  # namespace of the notes, which the writers do not look at
ACKNOWLEDGED_MAX = 120  # writes in a round before the kill may come; how many is chance, also 0
ACKNOWLEDGED_SECONDS_MAX = 60.0  # within which a daemon acknowledges so many, however slow the machine
ALIVE_SECONDS_MAX = 0.5  # of writing after that; when in that time the kill comes is chance
NOTICED_SECONDS_MAX = 20.0  # within which a note that was edited is read, after a start too
STARTING_SECONDS_MAX = 1.0  # into a start that is itself killed, while it recovers from the kill before
NOW = 1_800_000_000_000  # ms; of every question, so that answers can be compared to the byte
QUESTIONS = ("what is new", "which one has a key", "what was edited", "n1 n2 n3 r0 r1 r2")


@dataclass
class CrashTally:
    """The results of the rounds."""

    rounds: int = 0
    acknowledged: int = 0
    refused: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    other_answers: list[str] = field(default_factory=list)
    unclean: list[str] = field(default_factory=list)  # what `check` found
    restarts: list[float] = field(default_factory=list)  # seconds from exec to the first answer

    @property
    def wrong(self) -> list[str]:
        return [*self.lost, *self.doubled, *self.unasked, *self.other_answers, *self.unclean]

    def said(self) -> str:
        ordered = sorted(self.restarts)
        return (
            f"{self.rounds} rounds, {self.acknowledged} acknowledged writes, {self.refused} refused, "
            f"{len(self.lost)} lost, {len(self.doubled)} doubled, {len(self.unasked)} that nobody asked for, "
            f"{len(self.other_answers)} other answers, {len(self.unclean)} found by check, "
            f"restart p50 {ordered[len(ordered) // 2]:.2f} s, max {ordered[-1]:.2f} s"
        )


def answers(client: Client) -> list[bytes]:
    """The recalled memories without the timing, once the notes have been scanned after the start."""
    deadline = time.monotonic() + NOTICED_SECONDS_MAX
    while "notes" in client.recall(QUESTIONS[0], namespace=NAMESPACE, dry=True).degraded:
        assert time.monotonic() < deadline, "the notes are still being read"
        time.sleep(0.02)
    found = []
    for query in QUESTIONS:
        asked = RecallRequest(query=query, namespace=NAMESPACE, top_k=50, token_budget=None, dry=True, now=NOW)
        answer = client.recall(asked)
        found.append(msgspec.json.encode(msgspec.structs.replace(answer, took_ms=0.0, trace=None)))
    return found


def kill_several(folder: Path, daemons: int, rounds: int, seed: int) -> CrashTally:
    """So many rounds in all, shared by daemons that are killed at the same time."""
    folders = [folder / str(number) for number in range(daemons)]
    shares = [rounds // daemons + (number < rounds % daemons) for number in range(daemons)]
    with ThreadPoolExecutor(daemons) as threads:
        tallies = list(threads.map(kill_in_rounds, folders, shares, range(seed, seed + daemons)))
    total = CrashTally()
    for tally in tallies:
        for name in CrashTally.__dataclass_fields__:
            setattr(total, name, getattr(total, name) + getattr(tally, name))
    return total


def kill_in_rounds(folder: Path, rounds: int, seed: int) -> CrashTally:
    """Each round: writers write, kill -9, restart, compare; the last words before a kill are read after the next."""
    chance = random.Random(seed)
    folder.mkdir()
    daemon = RunningDaemon(folder / "data", {"XDG_CACHE_HOME": str(folder / "cache")})
    tally = CrashTally()
    writers = [RecordingWriter(f"w{number}", 0, daemon, chance.randrange(1 << 30)) for number in range(WRITERS_MAX)]
    note = folder / "notes" / "note.md"
    daemon.start()
    try:
        _watch_notes(daemon, note)
        for number in range(rounds):
            writing = chance.sample(writers, chance.randint(1, WRITERS_MAX))
            note.write_text(f"# Round\n\nThe note says {_word_of(number)}.\n")
            _write_until_killed(
                daemon, writing, chance.randint(0, ACKNOWLEDGED_MAX), chance.random() * ALIVE_SECONDS_MAX
            )
            if number % 10 == 2:
                _kill_at_the_start(daemon, chance.random() * STARTING_SECONDS_MAX)
            tally.restarts.append(daemon.start())
            tally.rounds += 1
            _look(daemon, writers, tally)
            if number % 10 == 0:
                _kill_at_rest(daemon, tally)
            if number % 10 == 6:
                assert daemon.stop() == 0
                tally.restarts.append(daemon.start())
            writers = [writer.again() if writer in writing else writer for writer in writers]
        _look_at_note(daemon, tally, _word_of(rounds - 1))
        tally.acknowledged = sum(writer.acknowledged for writer in writers)
        tally.refused = sum(writer.refused for writer in writers)
    finally:
        daemon.stop()
    if "Traceback" in (log := daemon.log.read_text()):
        tally.other_answers.append(f"the log shows a traceback: {log[log.index('Traceback') :][:2000]}")
    return tally


def _word_of(number: int) -> str:
    return f"round{'abcdefghij'[number % 10]}{number}x"


def _watch_notes(daemon: RunningDaemon, note: Path) -> None:
    note.parent.mkdir()
    note.write_text("# Round\n\nNothing yet.\n")
    with daemon.client() as client:
        client.add_root(note.parent, namespace=NOTES)


def _look_at_note(daemon: RunningDaemon, tally: CrashTally, word: str) -> None:
    """Check that in the end the note is remembered once, as it is, whatever kills interrupted its edits."""
    deadline = time.monotonic() + NOTICED_SECONDS_MAX
    with daemon.client(NOTES) as client:
        while True:
            said = [one.content for one in client.list_memories(namespace=NOTES, states=["active"]).memories]
            if len(said) == 1 and word in said[0]:
                return
            if time.monotonic() > deadline:
                tally.other_answers.append(f"the note says {word}, and what is remembered of it is {said}")
                return
            time.sleep(0.05)


def _write_until_killed(daemon: RunningDaemon, writers: list[RecordingWriter], count: int, seconds: float) -> None:
    """Have the writers write until `count` more writes are acknowledged, and so many seconds longer; then kill."""
    wanted = count + sum(writer.acknowledged for writer in writers)
    deadline = time.monotonic() + ACKNOWLEDGED_SECONDS_MAX
    for writer in writers:
        writer.start()
    while sum(writer.acknowledged for writer in writers) < wanted:
        assert time.monotonic() < deadline, "the daemon acknowledges no more writes"
        time.sleep(0.005)
    time.sleep(seconds)
    daemon.kill()
    for writer in writers:
        writer.finish()


def _kill_at_the_start(daemon: RunningDaemon, seconds: float) -> None:
    daemon.begin()
    time.sleep(seconds)
    daemon.kill()


def _look(daemon: RunningDaemon, writers: list[RecordingWriter], tally: CrashTally) -> None:
    """Compares what the daemon holds, and what it answers, with what the writers were told."""
    with daemon.client(NAMESPACE) as client:
        found = read_all(client)
        difference = compare(writers, found)
        tally.lost += difference.lost
        tally.doubled += difference.doubled
        tally.unasked += difference.unasked
        status = client.status()
        counted, there = status.namespaces.get(NAMESPACE, 0), Counter(one.state for one in found.memories.values())
        if counted != there["active"]:
            tally.other_answers.append(f"{counted} counted, {there} there")
        for writer in writers:
            for memory_id, one in list(writer.account.items())[-5:]:
                hits = [hit.id for hit in client.search(one.content.split()[0], namespace=NAMESPACE).memories]
                if hits != ([memory_id] if one.state == "active" else []):
                    tally.other_answers.append(f"{one} is found as {hits}")
        report = client.check()
        tally.unclean += [f"{each.invariant}: {each.subject}: {each.what}" for each in report.violations]
    journal = b"".join(path.read_bytes() for path in (daemon.folder / "journal").iterdir())
    if REFUSED.encode() in journal:
        tally.unasked.append("a refused text stands in the journal")


def _kill_at_rest(daemon: RunningDaemon, tally: CrashTally) -> None:
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
