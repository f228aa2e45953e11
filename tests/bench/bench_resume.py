"""Speed of the resume through the socket, at several sizes.

    python -m tests.bench.bench_resume [--sizes 1000,10000,100000] [--rounds 50]

For each size, a store of made memories of which one in fifty is core and one in a hundred
has a trigger: p50 and p95 of `GET /v1/resume`
when nothing has changed since the last one, and right after a memory was stored; its tokens, and whether two are the
same bytes.
"""

import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_store.batches import batched
from mnemo_store.records import Memory
from tests.bench import harness
from tests.bench.filled import POLL_SECONDS, stop_patiently
from tests.bench.tables import percentiles, show
from tests.bench.texts import texts
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import AT, opened, sample_memory, write

BATCH = 500
TRIGGER_SHARE = 100  # one in so many has a trigger
CORE_SHARE = 50  # one in so many


def memories(count: int) -> list[Memory]:
    """Changed one a minute."""
    layers = itertools.cycle(["core", *["working", "buffer"] * ((CORE_SHARE - 1) // 2)])
    return [
        sample_memory(number, text, layer=layer, modified_at=AT + number * 60_000, tags=_tags(number))
        for number, (text, layer) in enumerate(zip(texts(count), layers, strict=False))
    ]


def _tags(number: int) -> tuple[str, ...]:
    return () if number % TRIGGER_SHARE else (f"trigger:act{number % 7}",)


def milliseconds(client: Client, rounds: int, before: Callable[[int], object]) -> list[float]:
    took = []
    for number in range(rounds):
        before(number)
        began = time.perf_counter()
        client.resume()
        took.append((time.perf_counter() - began) * 1000)
    return took


def wait_for_resume(client: Client) -> None:
    """Its views are made first."""
    while True:
        try:
            client.resume()
            return
        except MnemoError:
            time.sleep(POLL_SECONDS)


def main(*, sizes: tuple[int, ...] = (1000, 10_000, 100_000), rounds: int = 50) -> None:
    rows: dict[str, tuple[object, ...]] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="m") as scratch:
            daemon = RunningDaemon(Path(scratch) / "data", {"MNEMO_MODELS_FOLDER": f"{scratch}/models"})
            with opened(daemon.folder) as store:
                for some in batched(memories(size), BATCH):
                    write(store, *some)
            daemon.begin()
            with daemon.client() as client:
                wait_for_resume(client)
                first = client.resume()
                is_same = client.resume() == first
                quiet = milliseconds(client, rounds, lambda _: None)
                changed = milliseconds(client, rounds, lambda number: client.remember(f"The mast {number}."))
            stop_patiently(daemon)
        rows[f"{size:,}"] = percentiles(quiet), percentiles(changed), first.total_tokens, is_same
    show("GET /v1/resume", ("unchanged", "after a write", "tokens", "same bytes"), rows)


if __name__ == "__main__":
    harness.run(main)
