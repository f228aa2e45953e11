"""One day in the life of a store, the same each time, and what it was told of each write.

Run as a program, this file is the process that is recorded, or that its disk refuses things:

    python -m tests.support.scripted_workload FOLDER day|killed|recovery

What it is told goes into the record as marks (see `recorder.c`), or, where there is none, to standard output as lines.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from mnemo_daemon.errors import Refusal
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.maintenance.compaction_backup import StoreMaintenance
from mnemo_daemon.maintenance.erasure import Erasure
from mnemo_store.backend import Snapshot
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreError, UnknownOutcome
from mnemo_store.record_texts import embedded_text, text_hash
from mnemo_store.records import (
    Change,
    DropMemory,
    DropTrash,
    Edge,
    Memory,
    PutEdge,
    PutMemory,
    PutMeta,
    PutTrash,
    PutUsage,
    TrashEntry,
    Usage,
)
from mnemo_store.store import Store, TextVectors, WriteResult
from tests.support.power_loss import marked
from tests.support.samples import AT, NOTHING, WAIT_SECONDS, sample_memory

# So that a short day fills several segments, and its disk can be copied thousands of times.
OPTIONS: dict[str, Any] = {"segment_bytes": 3000, "reserve_bytes": 8192}
LONG = "long " * 1600  # a text that takes several pages
SPACE, DIMENSIONS = "day", 8
CANARY = "forgetmenot"  # stands in the one memory that is purged
WRITERS, WRITES_EACH = 4, 4
AFTER = 1000  # the numbers of the memories of a recovery are greater

Outcome = Literal["begun", "done", "refused", "unknown", "found", "silent", "ended"]


class KnownMemory(msgspec.Struct, frozen=True, array_like=True):
    """A memory as far as the tests look at it. A state of "dropped" means that it is gone."""

    id: str
    content: str
    version: int
    state: str

    def __str__(self) -> str:
        return f"{self.content[:20]} ({self.state})"


class WriteReport(msgspec.Struct, frozen=True):
    """The day's knowledge of one write; or, when `found`, of everything: it is so, and will stay so."""

    outcome: Outcome
    memories: tuple[KnownMemory, ...]
    vectors: tuple[str, ...] = ()  # hashes of texts, in hexadecimal
    purged: str = ""  # id of a memory that is being purged
    why: str = ""


def known(memory: Memory) -> KnownMemory:
    return KnownMemory(memory.id, memory.content, memory.version, memory.state)


@dataclass
class AcknowledgedWrites:
    """The possible contents of each memory, according to its writers' answers."""

    history: dict[str, list[KnownMemory]] = field(default_factory=dict)  # of each memory, in the order it was asked for
    acknowledged: dict[str, int] = field(default_factory=dict)  # so many of them at least
    refused: set[KnownMemory] = field(default_factory=set)
    vectors: set[str] = field(default_factory=set)
    purged: set[str] = field(default_factory=set)  # ids: once one is gone, so is all that it said
    reported: dict[Outcome, int] = field(default_factory=dict)

    def take(self, reported: WriteReport) -> None:
        self.reported[reported.outcome] = self.reported.get(reported.outcome, 0) + 1
        for one in reported.memories:
            if reported.outcome == "begun":
                self.history.setdefault(one.id, []).append(one)
                self.refused.discard(one)  # what was refused may be tried again
            elif reported.outcome == "done":
                self.acknowledged[one.id] = self.history[one.id].index(one) + 1
            elif reported.outcome == "refused":
                self.refused.add(one)
        self.vectors.update(reported.vectors)
        self.purged.update({reported.purged} - {""})
        if reported.outcome == "found":
            self._settle({one.id: one for one in reported.memories})

    def _settle(self, there: dict[str, KnownMemory]) -> None:
        """Fix the observed state: what was seen once stays, and what was not there does not come back."""
        for memory_id, history in self.history.items():
            allowed, now = self.allowed(memory_id), there.get(memory_id)
            if now in allowed:
                done = self.acknowledged.get(memory_id, 0) + len(allowed) - 1 - allowed[::-1].index(now)
                self.acknowledged[memory_id] = done
                self.refused.update(history[done:])

    def allowed(self, memory_id: str) -> list[KnownMemory | None]:
        """The contents that may be there; None: nothing. The first is the acknowledged one."""
        history, done = self.history.get(memory_id, []), self.acknowledged.get(memory_id, 0)
        later = [one for one in history[done:] if one not in self.refused]
        first = history[done - 1] if done else None
        return [None if one is None or one.state == "dropped" else one for one in (first, *later)]

    def differences(self, found: Iterable[KnownMemory]) -> list[str]:
        """The memories that were lost, came back or were never written."""
        there = {one.id: one for one in found}
        wrong = [f"{one} was never asked for" for one in there.values() if one.id not in self.history]
        for memory_id in self.history:
            allowed, now = self.allowed(memory_id), there.get(memory_id)
            if now not in allowed:
                wrong.append(
                    f"{now} was refused" if now in self.refused else f"{now} is there, {allowed[0]} was acknowledged"
                )
        return wrong


class ScriptedWorkload:
    """The store of the day, and the writers to it."""

    def __init__(self, folder: Path, tell: Callable[[WriteReport], None]) -> None:
        self._folder = folder
        self._tell = tell
        self._store: Store
        self._count = 0
        self._latest: dict[str, Memory] = {}  # as acknowledged
        self._secret = ""
        self._unknown: set[str] = set()  # memories of which nobody knows how they are
        self._lock = threading.Lock()
        self.account = AcknowledgedWrites()

    def run(self, *, killed: bool = False) -> None:
        """From morning to evening; a day that is killed ends without the last close."""
        self._open()
        self._morning()
        self._together()
        views = self._views()
        self._many_writers()
        noon = self._fresh()
        self._write(noon)
        self._keep_vectors(noon)
        self._close(views)
        self._open()
        views = self._views()
        self._evening()
        self._compact()
        self._write(self._fresh())
        self._purge(views)
        self._write(self._fresh())
        if killed:
            os.kill(os.getpid(), signal.SIGKILL)
        self._close(views)

    def recover(self) -> None:
        """A start, one write to each file of the journal, and a close."""
        self._open()
        with self._store.snapshot() as snapshot:
            self._say(WriteReport("found", tuple(read_all(snapshot))))
        self._count = AFTER
        self._write(self._fresh())
        self._write(self._fresh("core"))
        self._close(None)

    # Parts of the day

    def _morning(self) -> None:
        """Single writes to both files of the journal: new ones, an edit, to the trash and back, use, an edge."""
        first, core, third = self._fresh(), self._fresh("core"), self._fresh()
        for memory in (first, core, third):
            self._write(memory)
        self._write(self._edited(first))
        self._write(self._edited(third, state="trashed"), _trash(third))
        usage = Usage(id=first.id, access_count=3, last_accessed=AT)
        self._write(self._edited(third), DropTrash(id=third.id))
        self._write(self._edited(core), PutUsage(data=usage), PutMeta(name="epoch", value="7"))
        tied, secret = self._fresh(), self._fresh(text=CANARY)
        self._write(tied, PutEdge(data=Edge(source=first.id, target=core.id, relation="related", at=AT)))
        self._write(secret)
        self._write(self._edited(secret, content=f"w{self._count}v2 {CANARY} too"))
        self._keep_vectors(tied)
        self._secret = secret.id

    def _together(self) -> None:
        """A group that goes to both files, and a text of several pages."""
        memories = [self._fresh("core" if number % 3 == 1 else "buffer") for number in range(7)]
        memories.append(self._fresh(text=LONG))
        begun, go = threading.Event(), threading.Event()

        def hold(_: Snapshot) -> WriteResult[None]:
            begun.set()
            go.wait(WAIT_SECONDS)
            time.sleep(0.006)  # over the time of a group, so that the next one begins with what waits
            return NOTHING

        held = self._store.transact(hold, by="day", frees=True)
        begun.wait(1.0)
        asked = [self._begin(memory) for memory in memories]
        go.set()
        held.exception(WAIT_SECONDS)
        for each in asked:
            self._await(each)
        self._look()

    def _many_writers(self) -> None:
        def work(writer: int) -> None:
            memory = self._fresh("core" if writer == 1 else "buffer")
            for number in range(WRITES_EACH):
                self._write(memory, look=False)
                memory = self._edited(memory) if number % 2 else self._fresh()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._look()

    def _evening(self) -> None:
        """After a restart: a full segment, the trash emptied, an edit of what is old."""
        old, gone = sample_memory(1), sample_memory(3)
        self._write(self._edited(old))
        self._write(self._edited(gone, state="trashed"), _trash(gone))
        self._drop(gone)
        for _ in range(3):
            self._write(self._fresh(text=LONG[:2000]))
        self._write(self._fresh("core"))

    def _compact(self) -> None:
        """Database and journal written anew, without the versions that were replaced."""
        try:
            StoreMaintenance(self._store, Disk(), lambda: (SPACE,)).compact("0d")
        except (StoreError, OSError) as error:
            self._say(WriteReport("refused", (), why=f"compact: {error}"))
        self._look()

    def _purge(self, views: Views | None) -> None:
        """One memory is forgotten, every trace of it."""
        if views is None:
            return
        gone = (KnownMemory(self._secret, "", 0, "dropped"),)
        self._say(WriteReport("begun", gone, purged=self._secret))
        try:
            report = Erasure(self._store, Disk(), lambda: (SPACE,), views.rebuild_without_deleted).erase(
                [self._secret], "day"
            )
        except (StoreError, Refusal) as error:
            self._say(WriteReport("unknown", gone, why=f"purge: {error}"))
        else:
            self._say(WriteReport("done" if report.complete else "silent", gone, why=f"{report.places}"))
        self._look()

    # What the parts are made of

    def _open(self) -> None:
        self._store = Store.open(self._folder, **OPTIONS)
        self._look()

    def _close(self, views: Views | None) -> None:
        if views is not None:
            views.save()
        self._store.close()

    def _views(self) -> Views | None:
        """Columns and words, following the store and saved once."""
        views = Views(self._store, Disk())
        try:
            views.open()
        except (OSError, StoreError):
            return None  # the daemon would not have come up
        views.save()
        return views

    def _fresh(self, layer: Literal["buffer", "core"] = "buffer", text: str = "word " * 30) -> Memory:
        with self._lock:
            self._count += 1
            return sample_memory(self._count, f"w{self._count}v1 {text}", layer=layer)

    def _edited(self, memory: Memory, **changed: Any) -> Memory:
        latest = self._latest.get(memory.id)
        if latest is None:  # it was refused: once more
            return msgspec.structs.replace(memory, state=changed.get("state", "active"))
        version = latest.version + 1
        changed = {"content": f"w{int(memory.id[-12:], 16)}v{version} edited", "state": "active", **changed}
        return msgspec.structs.replace(latest, version=version, **changed)

    def _write(self, memory: Memory, *others: Change, look: bool = True) -> None:
        self._await(self._begin(memory, *others))
        if look:
            self._look()

    def _drop(self, memory: Memory) -> None:
        self._await(self._ask(KnownMemory(memory.id, "", 0, "dropped"), (DropMemory(id=memory.id),)))
        self._look()

    def _begin(self, memory: Memory, *others: Change) -> threading.Event | None:
        used = () if memory.version > 1 else (PutUsage(data=Usage(id=memory.id)),)
        return self._ask(known(memory), (PutMemory(data=memory), *used, *others), memory)

    def _ask(
        self, about: KnownMemory, changes: Sequence[Change], memory: Memory | None = None
    ) -> threading.Event | None:
        """Set once the outcome is noted. None where the write was refused at once, or the memory is left alone since
        nobody knows how it is."""
        if about.id in self._unknown:
            return None
        turn: WriteResult[None] = WriteResult(tuple(changes), None, "day")
        self._say(WriteReport("begun", (about,)))
        try:
            future = self._store.transact(lambda _: turn, by="day")
        except StoreError as error:
            self._say(WriteReport("refused", (about,), why=str(error)))
            return None

        def settle(done: "Future[Any]") -> None:
            if self._settle(done, about) == "done" and memory is not None:
                self._latest[about.id] = memory
            settled.set()

        settled = threading.Event()
        future.add_done_callback(settle)
        return settled

    def _settle(self, future: "Future[Any]", about: KnownMemory | None, vectors: tuple[str, ...] = ()) -> Outcome:
        """Runs on the writer's thread, so that what is noted stands in the record where it was told."""
        error = future.exception()
        outcome: Outcome = "done" if error is None else "unknown" if isinstance(error, UnknownOutcome) else "refused"
        if outcome == "unknown" and about is not None:
            self._unknown.add(about.id)
        memories = () if about is None else (about,)
        why = "" if error is None else f"{type(error).__name__}: {error}"
        self._say(WriteReport(outcome, memories, vectors, why=why))
        return outcome

    def _await(self, settled: threading.Event | None) -> None:
        if settled is not None:
            assert settled.wait(WAIT_SECONDS), "a write was never answered"

    def _keep_vectors(self, memory: Memory) -> None:
        """Of a text that a memory has; where it was refused, nobody needs them."""
        if memory.id not in self._latest:
            return
        digest = text_hash(embedded_text(memory))
        rows = np.full((2, DIMENSIONS), 0.5, np.float16)
        try:
            future = self._store.put_vectors([TextVectors(SPACE, digest, rows)])
        except StoreError:
            return

        def settle(done: "Future[Any]") -> None:
            """Without a database they are kept for the moment only: they can be computed again."""
            kept = done.exception() is None and not self._store.degraded
            self._settle(done, None, (digest.hex(),) if kept else ())

        future.add_done_callback(settle)
        future.exception(WAIT_SECONDS)

    def _look(self) -> None:
        """Check that every read gives what was acknowledged, or an error. Anything else is said to be silent."""
        with self._lock:
            expected = {memory_id: self.account.allowed(memory_id) for memory_id in self.account.acknowledged}
        try:
            with self._store.snapshot() as snapshot:
                found = {one.id: one for one in read_all(snapshot)}
        except (StoreError, OSError):
            return
        missing = [str(allowed[0]) for memory_id, allowed in expected.items() if found.get(memory_id) not in allowed]
        if missing:
            self._say(WriteReport("silent", (), why=f"{missing} were not read; the store says {self._store.findings}"))

    def _say(self, reported: WriteReport) -> None:
        with self._lock:
            self.account.take(reported)
            self._tell(reported)


def read_all(snapshot: Snapshot) -> list[KnownMemory]:
    return [known(memory) for memory in snapshot.memories(limit=10_000)]


def _trash(memory: Memory) -> PutTrash:
    return PutTrash(data=TrashEntry(id=memory.id, at=AT, why="asked", state="active"))


def main(folder: str, what: str) -> int:
    record = os.environ.get("MNEMO_RECORD")
    to = os.open(record, os.O_WRONLY | os.O_APPEND) if record else 1

    def tell(reported: WriteReport) -> None:
        line = msgspec.json.encode(reported)
        os.write(to, marked(line) if record else line + b"\n")

    logging.disable()
    day = ScriptedWorkload(Path(folder), tell)
    try:
        if what == "recovery":
            day.recover()
        else:
            day.run(killed=what == "killed")
    except (OSError, StoreError) as error:
        tell(WriteReport("ended", (), why=f"{type(error).__name__}: {error}"))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
