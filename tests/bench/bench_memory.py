"""Memory of the daemon in use: private memory after so many operations, and after a compact.

    python -m tests.bench.bench_memory [--memories 3752] [--operations 30000] [--samples 10] [--clients 4]
                                       [--models FOLDER] [--on-disk] [--questions 600]

The operations are of every kind: recalls and their like, writes by key over the same memories, so that what is
remembered stays as much, and hooks and turns of conversations, which add a memory each. With --questions, that many
different questions of 60 KB and of 1 MB go to each route that takes one instead (of prompts to store a tenth, each of
which is four memories), with the latencies of `health` meanwhile. Private memory is Private_Dirty of /proc/PID/smaps,
but for the mapped files of the store: on a disk in memory (/dev/shm, which is taken without --on-disk) each of their
pages counts as dirty, and they grow with the history. Without --models nothing is embedded.
"""

import contextlib
import random
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mnemo_client.client import Client
from mnemo_client.errors import MnemoError, RefusalError
from mnemo_client.protocol.ingestion import Turn, TurnsRequest
from mnemo_client.protocol.memories import Patch
from tests.bench import harness
from tests.bench.texts import questions, texts
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import quick_folder

SETTLE_SECONDS = 2.0
SESSIONS = 300
SIZES = (60_000, 1_000_000)  # characters of a long question
HEALTH_SECONDS = 0.05  # between two looks

Operation = Callable[[Client, random.Random, int], object]  # with a number that no other operation has


def private_megabytes(pid: int) -> float:
    kibibytes, is_of_store = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_of_store = line.endswith((".mdb", ".rows"))
        elif line.startswith("Private_Dirty:") and not is_of_store:
            kibibytes += int(line.split()[1])
    return kibibytes / 1024


def mixed(said: list[str], memories: int) -> dict[str, tuple[int, Operation]]:
    """The operations, each with its share in a hundred."""
    asked = questions(5000)

    def session(chance: random.Random) -> str:
        return f"session-{chance.randrange(SESSIONS)}"

    def remember(client: Client, chance: random.Random, number: int) -> None:
        client.remember(f"{chance.choice(said)} {number}", key=f"key-{chance.randrange(memories)}")

    def patch(client: Client, chance: random.Random, number: int) -> None:
        for found in client.recall(chance.choice(asked), top_k=1, dry=True).memories:
            client.patch(found.id, Patch(tags=[f"tag-{number % 50}"]))

    def delete_and_restore(client: Client, chance: random.Random, _: int) -> None:
        for found in client.search(chance.choice(asked), limit=1).memories:
            with contextlib.suppress(RefusalError):  # another client did the same meanwhile
                client.delete(found.id)
                client.restore(found.id)

    def turn(client: Client, chance: random.Random, number: int) -> None:
        turns = [Turn(role="user", content=f"{chance.choice(said)} {number}")]
        client.turns(TurnsRequest(session_id=session(chance), turns=turns))

    return {
        "recall": (27, lambda client, chance, _: client.recall(chance.choice(asked))),
        "recall of a text": (8, lambda client, chance, _: client.recall(chance.choice(said), dry=True)),
        "search": (8, lambda client, chance, _: client.search(chance.choice(asked))),
        "context": (8, lambda client, chance, _: client.context(chance.choice(asked))),
        "hook": (5, lambda client, chance, _: client.hook("prompt", prompt=chance.choice(asked))),
        "ask": (5, lambda client, chance, _: client.ask(chance.choice(asked), session_id=session(chance))),
        "explain": (2, lambda client, chance, _: client.explain_session(session(chance), chance.choice(asked))),
        "chat": (2, lambda client, chance, _: client.chat(session(chance), chance.choice(asked))),
        "turn": (3, turn),
        "remember": (20, remember),
        "patch": (4, patch),
        "delete": (3, delete_and_restore),
        "list": (3, lambda client, _, __: client.list_memories(limit=50)),
        "resume": (2, lambda client, _, __: client.resume()),
    }


def long_questions(size: int) -> dict[str, Operation]:
    """A request of that many characters to each route that takes a question or a prompt; all texts are different."""

    def text(number: int) -> str:
        line = " ".join(questions(40, number))
        return f"why did number {number} fail? " + (f"{line} {number} " * (size // len(line) + 1))[:size]

    return {
        "recall": lambda client, _, number: client.recall(text(number)),
        "why": lambda client, _, number: client.why(client.recent(limit=1).memories[0].id, text(number)),
        "search": lambda client, _, number: client.search(text(number)),
        "ask": lambda client, _, number: client.ask(text(number)),
        "context": lambda client, _, number: client.context(text(number)),
        "explain": lambda client, _, number: client.explain_session(f"s{number}", text(number)),
        "chat": lambda client, _, number: client.chat(f"s{number % SESSIONS}", text(number)),
        "hook prompt": lambda client, _, number: client.hook("prompt", prompt=text(number)),
        "hook reply": lambda client, _, number: client.hook(
            "reply", session_id=f"s{number % SESSIONS}", prompt=text(number)
        ),
    }


class HealthProbe(threading.Thread):
    """Asks for the daemon's health all the time."""

    def __init__(self, daemon: RunningDaemon) -> None:
        super().__init__(daemon=True)
        self._daemon = daemon
        self._is_over = threading.Event()
        self.milliseconds: list[float] = []

    def run(self) -> None:
        with self._daemon.client() as client:
            while not self._is_over.wait(HEALTH_SECONDS):
                began = time.perf_counter()
                client.health()
                self.milliseconds.append(1000 * (time.perf_counter() - began))

    def finish(self) -> str:
        self._is_over.set()
        self.join()
        ordered = sorted(self.milliseconds) or [0.0]
        return f"health p95 {ordered[int(0.95 * (len(ordered) - 1))]:7.1f} max {ordered[-1]:7.1f} ms"


def ask_long_questions(daemon: RunningDaemon, count: int, clients: int) -> None:
    assert daemon.process is not None
    pid, chance = daemon.process.pid, random.Random(1)
    for size in SIZES:
        for route, operation in long_questions(size).items():
            answers: Counter[str] = Counter()
            worst = [0.0]

            def ask(
                number: int, operation: Operation = operation, answers: Counter[str] = answers,
                worst: list[float] = worst,
            ) -> None:  # fmt: skip
                began = time.perf_counter()
                try:
                    with daemon.client() as client:
                        operation(client, chance, number)
                    answers["answered"] += 1
                except RefusalError as refused:
                    answers[str(refused.status)] += 1
                except MnemoError as failed:
                    answers[type(failed).__name__] += 1
                worst[0] = max(worst[0], time.perf_counter() - began)

            before, probe, began = private_megabytes(pid), HealthProbe(daemon), time.perf_counter()
            probe.start()
            with ThreadPoolExecutor(clients) as pool:
                list(pool.map(ask, range(count // 10 if route == "hook reply" else count)))
            print(f"{size:9,} characters  {route:12} {before:7.1f} → {private_megabytes(pid):7.1f} MB  {probe.finish()}"
                  f"  slowest {worst[0]:6.2f} s  all {time.perf_counter() - began:6.1f} s  {dict(answers)}",
                  flush=True)  # fmt: skip


def work(daemon: RunningDaemon, said: list[str], memories: int, operations: int, seed: int) -> Counter[str]:
    """One client's operations, and how many of which were refused."""
    chance, refused = random.Random(seed), Counter[str]()
    table = mixed(said, memories)
    names, shares = list(table), [share for share, _ in table.values()]
    with daemon.client() as client:
        for number in range(operations):
            (name,) = chance.choices(names, shares)
            try:
                table[name][1](client, chance, seed * operations + number)
            except RefusalError as refusal:
                refused[f"{name}: {refusal}"] += 1
    return refused


def use(daemon: RunningDaemon, memories: int, operations: int, samples: int, clients: int, said: list[str]) -> None:
    assert daemon.process is not None
    pid, began = daemon.process.pid, time.perf_counter()
    per_sample = operations // samples
    table, refused = [(0, private_megabytes(pid))], Counter[str]()
    print(f"{0:9,} operations  {table[0][1]:7.1f} MB", flush=True)
    for sample in range(1, samples + 1):
        with ThreadPoolExecutor(clients) as pool:
            each = per_sample // clients
            seeds = range(sample * clients, (sample + 1) * clients)
            for done in [pool.submit(work, daemon, said, memories, each, seed) for seed in seeds]:
                refused += done.result()
        time.sleep(SETTLE_SECONDS)
        table.append((sample * per_sample, private_megabytes(pid)))
        gained = table[-1][1] - table[-2][1]
        seconds = time.perf_counter() - began
        with daemon.client() as client:
            stored = client.status().memories
        print(f"{table[-1][0]:9,} operations  {table[-1][1]:7.1f} MB  {gained:+6.1f}  {seconds:6.0f} s  "
              f"{stored:,} memories", flush=True)  # fmt: skip
    print(*(f"{count} refused: {what}" for what, count in refused.most_common(5)), sep="\n")


def main(
    *, memories: int = 3752, operations: int = 30_000, samples: int = 10, clients: int = 4, models: Path | None = None,
    on_disk: bool = False, questions_: int = 0,
) -> None:  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="m") if on_disk else quick_folder() as scratch:
        environ = {"MNEMO_MODELS_FOLDER": str(models or Path(scratch) / "models")}
        daemon = RunningDaemon(Path(scratch) / "data", environ)
        daemon.start()
        assert daemon.process is not None
        pid, said = daemon.process.pid, list(texts(max(memories, 5000)))
        try:
            with daemon.client() as client:
                for number in range(memories):
                    client.remember(said[number], key=f"key-{number}")
            if models is not None:
                daemon.wait_for_vectors()
            if questions_:
                ask_long_questions(daemon, questions_, clients)
            else:
                use(daemon, memories, operations, samples, clients, said)
            for times in range(1, 4):
                with daemon.client() as client:
                    client.compact()
                time.sleep(SETTLE_SECONDS)
                print(f"after compact {times}       {private_megabytes(pid):7.1f} MB", flush=True)
        finally:
            daemon.stop()


if __name__ == "__main__":
    harness.run(main)
