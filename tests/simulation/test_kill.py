"""kill -9 of a process that writes from eight threads: nothing acknowledged is lost, nothing is doubled. SPEC 17.1.

Run as a program, this file is the process that is killed: `test_kill.py FOLDER ROUND` writes for ever, and prints the
name of each memory once its write is acknowledged. MNEMO_KILL_ROUNDS says how often the test kills (10 when unset).
"""

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from mnemo_store.backend import Snapshot
from mnemo_store.records import Memory, PutMemory, PutUsage, Usage
from mnemo_store.store import Store, WriteResult

ROUNDS = int(os.environ.get("MNEMO_KILL_ROUNDS", "10"))
WRITERS = 8
ALIVE_SECONDS_MAX = 0.25  # after the first acknowledgement; when in that time the kill comes is chance
SEGMENT_BYTES = 60_000  # so that kills meet segments that are just being changed


def write_for_ever(folder: Path, name: str) -> None:
    """Eight threads that remember one memory after the other and print its content once it is durable."""
    store = Store.open(folder, segment_bytes=SEGMENT_BYTES)

    def work(writer: int) -> None:
        for number in itertools.count():
            content = f"{name}-{writer}-{number}"

            def decide(snapshot: Snapshot, content: str = content, core: bool = number % 7 == 0) -> WriteResult[str]:
                memory = Memory(
                    id=store.new_id(), content=content, created_at=snapshot.now, modified_at=snapshot.now,
                    event_at=snapshot.now, layer="core" if core else "buffer",
                )  # fmt: skip
                return WriteResult((PutMemory(data=memory), PutUsage(data=Usage(id=memory.id))), memory.id, "add")

            store.transact(decide, by="test").result()
            os.write(1, f"{content}\n".encode())

    for writer in range(WRITERS):
        threading.Thread(target=work, args=(writer,), daemon=True).start()
    threading.Event().wait()


def acknowledged_before_a_kill(folder: Path, name: str, alive_seconds: float) -> list[str]:
    """The writes that a process had acknowledged when it was killed."""
    child = subprocess.Popen([sys.executable, __file__, str(folder), name], stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        first = child.stdout.readline()
        time.sleep(alive_seconds)
    finally:
        child.send_signal(signal.SIGKILL)
        printed = first + child.stdout.read()
        child.stdout.close()
        child.wait()
    return printed.decode().splitlines()


def contents_of(store: Store) -> list[str]:
    found: list[str] = []
    after = ""
    while True:
        with store.snapshot() as snapshot:
            memories = snapshot.memories(after)
            if not memories:
                return found
            found += [memory.content for memory in memories]
            after = memories[-1].id


@pytest.mark.timeout(60 + 10 * ROUNDS)
def test_kills_under_eight_writers_lose_and_double_nothing(short_folder: Path) -> None:
    seed = int(os.environ.get("SEED", "1"))
    chance = random.Random(seed)
    acknowledged: list[str] = []
    restarts: list[float] = []
    unasked = 0
    for number in range(ROUNDS):
        said = acknowledged_before_a_kill(short_folder, f"r{number}", chance.random() * ALIVE_SECONDS_MAX)
        assert said, f"seed {seed}, round {number}: the process wrote nothing"
        acknowledged += said
        began = time.perf_counter()
        store = Store.open(short_folder, segment_bytes=SEGMENT_BYTES)
        restarts.append(time.perf_counter() - began)
        try:
            kept = Counter(contents_of(store))
            assert store.findings == [], f"seed {seed}, round {number}"
        finally:
            store.close()
        doubled = [content for content, times in kept.items() if times > 1]
        lost = [content for content in acknowledged if content not in kept]
        assert not doubled, f"seed {seed}, round {number}"
        assert not lost, f"seed {seed}, round {number}"
        new_unasked = len(kept) - len(acknowledged)
        assert new_unasked - unasked <= WRITERS, "more came back than was under way"
        unasked = new_unasked
    print(
        f"seed {seed}: {ROUNDS} kills, {len(acknowledged)} acknowledged, 0 lost, 0 doubled, {unasked} under way kept, "
        f"restart {sorted(restarts)[len(restarts) // 2]:.3f} s in the middle, {max(restarts):.3f} s at most"
    )


if __name__ == "__main__":
    write_for_ever(Path(sys.argv[1]), sys.argv[2])
