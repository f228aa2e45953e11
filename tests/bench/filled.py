"""Stores of many memories to measure on: filled for one run, or filled once and kept.

Where vectors are drawn by chance, the memories are written into a store that no daemon has open: embedding a million
texts would take hours and change nothing of the speed. What is drawn is of the model's own form, token rows too.
"""

import json
import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mnemo_client.errors import MnemoError
from mnemo_client.protocol.memories import NewMemory
from mnemo_daemon.models.embedders.embedder import Embedder
from mnemo_store.record_texts import embedded_text, text_hash
from mnemo_store.records import Memory, PutMemory, PutUsage, Usage
from mnemo_store.store import Store, TextVectors, WriteResult
from tests.bench.bench_durability import DiskWithoutSync
from tests.bench.idle import anonymous_bytes
from tests.bench.texts import texts
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import AT, sample_id

BATCH = 500  # memories a request
MADE_TOGETHER = 200  # memories a write turn
WAITING_MAX = 100  # turns
TOLD_EVERY = 100_000  # memories
MADE_TOKENS = 24  # kept of a made text
POLL_SECONDS = 0.2
LONG_STOP_SECONDS = 5.0
PATIENCE_SECONDS = 6 * 3600.0  # the graph over a million vectors
FILLED = "filled.json"  # beside the data folder, once all memories and vectors are in it


class FilledStore(NamedTuple):
    """A daemon whose views are whole. start_seconds: from exec until they were, where they had been saved."""

    daemon: RunningDaemon
    start_seconds: float


@contextmanager
def filled(size: int, embedder: Embedder, folder: Path, *, is_made: bool) -> Iterator[FilledStore]:
    """On a store of so many memories in `folder`; one that was filled there before is opened as it is.

    What was written to it since, by those who measured on it, is in it too.
    """
    daemon = RunningDaemon(folder / "data")
    if not (folder / FILLED).exists():
        if daemon.folder.exists():
            raise SystemExit(f"{folder} was not filled to its end: remove it")
        began = time.monotonic()
        if is_made:
            write_made(daemon.folder, size, embedder)
        else:
            _remember(daemon, size)
        (folder / FILLED).write_text(json.dumps({"space": embedder.space}))
        written = time.monotonic() - began
        views = start_patiently(daemon)
        stop_patiently(daemon)  # and so the views are saved, which the next start reads
        print(f"{size:,} memories written in {written:.0f} s, their views whole after {views:.0f} s more; "
              f"{disk_bytes(folder) / 1e6:,.0f} MB", flush=True)  # fmt: skip
    space = json.loads((folder / FILLED).read_text())["space"]
    if space != embedder.space:
        raise SystemExit(f"{folder} has vectors of {space}, not of {embedder.space}: remove it")
    began = start_patiently(daemon)
    try:
        yield FilledStore(daemon, began)
    finally:
        stop_patiently(daemon)


def _remember(daemon: RunningDaemon, count: int) -> None:
    """Without a look at what is near to what is written: what intake costs is measured elsewhere."""
    made = texts(count)
    start_patiently(daemon)
    try:
        with daemon.client().with_long_timeout() as client:
            while part := list(islice(made, BATCH)):
                client.remember_many([NewMemory(content=text, dedup="off") for text in part])
        wait_for_views(daemon)
    finally:
        stop_patiently(daemon)


def write_made(folder: Path, count: int, embedder: Embedder) -> None:
    """Writes the memories and their vectors, drawn by chance, into a store that no daemon has open yet.

    No more than WAITING_MAX turns wait at once, and nothing is kept of what was written.
    """
    drawn, began = np.random.default_rng(5), time.monotonic()
    store = Store.open(folder, disk=DiskWithoutSync())
    asked: deque[Future[Any]] = deque()
    made = texts(count)
    try:
        for start in range(0, count, MADE_TOGETHER):
            memories = [
                Memory(id=sample_id(start + place), content=content, created_at=AT, modified_at=AT, event_at=AT)
                for place, content in enumerate(islice(made, MADE_TOGETHER))
            ]
            changes = [each for memory in memories
                       for each in (PutMemory(data=memory), PutUsage(data=Usage(id=memory.id)))]  # fmt: skip
            turn: WriteResult[None] = WriteResult(tuple(changes), None, "add")
            asked.append(store.transact(lambda _, turn=turn: turn, by="bench"))  # type: ignore[misc]
            asked.append(store.put_vectors(made_vectors(memories, embedder, drawn)))
            while len(asked) > WAITING_MAX:
                asked.popleft().result()
            if start and start % TOLD_EVERY == 0:
                held = anonymous_bytes(os.getpid()) / 1e6
                print(f"  {start:,} written after {time.monotonic() - began:.0f} s; {held:.0f} MB held", flush=True)
        for future in asked:
            future.result()
    finally:
        store.close()


def made_vectors(memories: Sequence[Memory], embedder: Embedder, drawn: np.random.Generator) -> list[TextVectors]:
    rows = drawn.standard_normal((len(memories), 1, embedder.dimensions), np.float32)
    rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
    digests = [text_hash(embedded_text(memory)) for memory in memories]
    found = [
        TextVectors(embedder.space, digest, row.astype(np.float16)) for digest, row in zip(digests, rows, strict=True)
    ]
    late = embedder.late
    if late is not None:
        codes = drawn.integers(-127, 128, (len(memories), MADE_TOKENS, late.stored_width), np.int8)
        found += [TextVectors(late.space, digest, row) for digest, row in zip(digests, codes, strict=True)]
    return found


def start_patiently(daemon: RunningDaemon) -> float:
    """Seconds until the daemon is ready and its views are whole; at a million it first makes them, for minutes."""
    process, began = daemon.begin(), time.monotonic()
    try:
        while True:
            assert process.poll() is None, daemon.log.read_text()
            assert time.monotonic() - began < PATIENCE_SECONDS, daemon.log.read_text()
            try:
                with daemon.client() as client:
                    if client.status().state == "ready":
                        break
            except MnemoError:
                pass  # it does not listen yet, or is busy opening
            time.sleep(POLL_SECONDS)
        wait_for_views(daemon)
    except BaseException:
        if process.poll() is None:
            daemon.kill()
        raise
    return time.monotonic() - began


def stop_patiently(daemon: RunningDaemon) -> None:
    """The views of a million memories take a while to be saved."""
    assert daemon.process is not None
    began = time.monotonic()
    if daemon.process.poll() is None:
        daemon.process.send_signal(signal.SIGTERM)
    daemon.process.wait(PATIENCE_SECONDS)
    if (seconds := time.monotonic() - began) > LONG_STOP_SECONDS:
        print(f"the daemon took {seconds:.0f} s to end", flush=True)


def wait_for_views(daemon: RunningDaemon) -> None:
    """Returns once every memory has its vector, and the graph over them, where one is wanted, is built.

    Asked seldom: a status looks at everything.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    with daemon.client().with_long_timeout() as client:
        while time.monotonic() < deadline:
            status = client.status()
            is_loaded = status.models["embedding"].state == "ready"
            if is_loaded and not any(status.queue.values()) and not status.views["vectors"].reason:
                return
            time.sleep(POLL_SECONDS)
    raise AssertionError(f"the views are not whole after {PATIENCE_SECONDS} s: {status}")


def disk_bytes(folder: Path) -> int:
    """The bytes that the files take, for a sparse file less than its length."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
