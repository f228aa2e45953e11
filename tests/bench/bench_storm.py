"""Clients that remember and erase, cycles between them, and kills: nothing acknowledged is missing in any index.

python -m tests.bench.bench_storm [--minutes 10] [--clients 20] [--seed 1]

After each kill, and at the end, every word that was acknowledged is found by a search, none that was erased is, and
`check` is clean. With the embedding model where `make models` has put it.
"""

import contextlib
import random
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from mnemo_client.client import Client
from mnemo_client.errors import InterruptedAnswerError, RefusalError, UnreachableError
from tests.bench import harness
from tests.support.running_daemon import RunningDaemon

ALIVE_SECONDS = (10.0, 40.0)  # from a start to its kill
ERASED_SHARE = 0.04  # of the requests of a client; each erasure replaces all indexes
ASKED_BACK = 200  # words, those that were acknowledged last, that each look searches for


@dataclass
class StormClient:
    """A client and what it was answered. A word whose request got no answer may be there or not."""

    name: str
    chance: random.Random
    kept: dict[str, str] = field(default_factory=dict)  # word → id
    erased: list[str] = field(default_factory=list)
    count: int = 0

    def work(self, daemon: RunningDaemon, is_over: threading.Event) -> None:
        with contextlib.suppress(InterruptedAnswerError, UnreachableError), daemon.client() as client:
            while not is_over.is_set():
                try:
                    self._take_step(client)
                except RefusalError as refused:
                    if refused.code not in ("busy", "stopping", "erasure_running"):
                        raise

    def _take_step(self, client: Client) -> None:
        if self.kept and self.chance.random() < ERASED_SHARE:
            word = self.chance.choice([*self.kept])
            memory_id = self.kept.pop(word)  # without an answer it is unknown
            client.erase(memory_id)
            self.erased.append(word)
        else:
            self.count += 1
            word = f"{self.name}word{self.count}x"
            self.kept[word] = client.remember(f"The {word} stands in the harbour of {self.name}.").memory.id


def run_cycles(daemon: RunningDaemon, is_over: threading.Event) -> None:
    with contextlib.suppress(InterruptedAnswerError, UnreachableError), daemon.client() as client:
        while not is_over.wait(2.0):
            with contextlib.suppress(RefusalError):
                client.consolidate()


def faults(daemon: RunningDaemon, clients: list[StormClient]) -> list[str]:
    """The words that are missing or came back, and what `check` finds."""
    found = []
    with daemon.client() as client:
        for each in clients:
            for word in [*each.kept][-ASKED_BACK // len(clients) :]:
                hits = [hit.id for hit in client.search(word, limit=3).memories]
                if each.kept[word] not in hits:
                    found.append(f"{word} is missing")
            found += [f"{word} came back" for word in each.erased[-3:] if client.search(word, limit=1).memories]
        found += [f"{each.invariant}: {each.subject}: {each.what}" for each in client.check().violations]
    return found


def main(*, minutes: float = 10.0, clients: int = 20, seed: int = 1) -> int:
    chance = random.Random(seed)
    storm = [StormClient(f"c{number}", random.Random(chance.random())) for number in range(clients)]
    wrong: list[str] = []
    kills = 0
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        daemon = RunningDaemon(Path(folder))
        daemon.start()
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until:
            is_over = threading.Event()
            threads = [threading.Thread(target=each.work, args=(daemon, is_over)) for each in storm]
            threads.append(threading.Thread(target=run_cycles, args=(daemon, is_over)))
            for thread in threads:
                thread.start()
            time.sleep(chance.uniform(*ALIVE_SECONDS))
            daemon.kill()
            is_over.set()
            for thread in threads:
                thread.join()
            kills += 1
            daemon.start()
            wrong += (found := faults(daemon, storm))
            print(f"{kills} kills, {sum(each.count for each in storm)} remembered, "
                  f"{sum(len(each.erased) for each in storm)} erased, {len(found)} faults", flush=True)  # fmt: skip
        daemon.stop()
        if "Traceback" in (log := daemon.log.read_text()):
            wrong.append(log[log.index("Traceback") :][:2000])
    for each in wrong[:20]:
        print(f"  {each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    harness.run(main)
