"""Losses of power, each tried on a copy: the store is rebuilt as the loss may have left it, opened and examined.

A store that reads a damaged file may take the process with it, so losses are tried in processes of their own, which is
what this file is as a program: it reads jobs, and prints each loss before it is tried and what was found after.
"""

import logging
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import msgspec

from tests.support.durability_checks import examine, forget_the_run
from tests.support.power_loss import PROJECT, Drive, Entry, Loss, choose, each_loss, read_record, record_run
from tests.support.samples import quick_folder
from tests.support.scripted_workload import AcknowledgedWrites, WriteReport


class AttemptedWrite(msgspec.Struct):
    """The result of one loss."""

    number: int  # among those that the count and the seed choose
    loss: str
    problems: list[str]
    reasons: list[str]  # what the store said of itself


@dataclass
class PowerLossOutcome:
    """The results of all losses."""

    tried: int = 0
    failed: list[AttemptedWrite] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)

    def add(self, tried: AttemptedWrite) -> None:
        self.tried += 1
        if tried.problems:
            self.failed.append(tried)
        for reason in tried.reasons:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def merge(self, other: "PowerLossOutcome") -> None:
        self.tried += other.tried
        self.failed += other.failed
        for reason, times in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + times

    def said(self) -> str:
        reasons = "".join(f"\n  {times} said: {reason}" for reason, times in sorted(self.reasons.items()))
        wrong = "".join(f"\n  {one.number}: {one.loss}: {'; '.join(one.problems)}"[:250] for one in self.failed[:5])
        return f"{self.tried} losses of power, {len(self.failed)} with something wrong{wrong}{reasons}"


def record_day(recorder: Path, scratch: Path, fail_at: int = 0) -> Path:
    """The record of the scripted day in a folder that is new. Raises where the day came to no end of its own."""
    root = _emptied(scratch / "root")
    return _record(recorder, root, scratch / "record", "day", [], fail_at)


def record_recovery(recorder: Path, scratch: Path, record: Path, loss: Loss) -> Path:
    """The record of a start, and of a little writing, on what this loss left of the recorded run."""
    root = _emptied(scratch / "root")
    entries = read_record(record)
    drive = Drive()
    for entry in entries[: loss.after]:
        drive.apply(entry)
    drive.leave(loss, root)
    forget_the_run(root / "data")
    # Vectors are not in the journal: a start may have to begin without them, and the loss may be before it says so.
    reported = [
        msgspec.json.decode(entry.data, type=WriteReport) for entry in entries[: loss.after] if entry.kind == "m"
    ]
    marks = [msgspec.json.encode(msgspec.structs.replace(each, vectors=())) for each in reported]
    return _record(recorder, root, scratch / "second", "recovery", marks, 0)


def _record(recorder: Path, root: Path, record: Path, what: str, marks: Sequence[bytes], fail_at: int) -> Path:
    command = [sys.executable, "-m", "tests.support.scripted_workload", str(root / "data"), what]
    status = record_run(recorder, root, record, command, marks=marks, fail_at=fail_at)
    assert status == 0, f"the {what} ended with {status}"
    return record


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def reported_in(record: Path) -> list[WriteReport]:
    return [msgspec.json.decode(entry.data, type=WriteReport) for entry in read_record(record) if entry.kind == "m"]


class PowerLossTrial(msgspec.Struct):
    """Every step-th loss of those that count and seed choose, from the first on."""

    record: str
    count: int
    seed: int
    syncs: bool
    first: int
    step: int


_END = AttemptedWrite(-1, "", [], [])  # of a job


class Workers:
    """Processes that try losses. One that dies with a loss is replaced, and the loss counts as failed."""

    def __init__(self, processes: int = 2) -> None:
        self._workers = [_Worker() for _ in range(processes)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    def try_losses(self, record: Path, count: int, seed: int, *, syncs: bool = True) -> PowerLossOutcome:
        """Tries so many losses of the recorded run."""
        step, outcome = len(self._workers), PowerLossOutcome()
        jobs = [PowerLossTrial(str(record), count, seed, syncs, first, step) for first in range(step)]
        with ThreadPoolExecutor(step) as threads:
            for found in threads.map(_Worker.do, self._workers, jobs):
                for tried in found:
                    outcome.add(tried)
        return outcome


class _Worker:
    def __init__(self) -> None:
        self._process = _start_worker()

    def do(self, job: PowerLossTrial) -> list[AttemptedWrite]:
        found: list[AttemptedWrite] = []
        while True:
            assert self._process.stdin is not None
            self._process.stdin.write(msgspec.json.encode(job) + b"\n")
            self._process.stdin.flush()
            last = self._read(found)
            if last is None:
                return found
            status = self.end()
            what = signal.Signals(-status).name if status < 0 else f"status {status}"
            found.append(AttemptedWrite(last.number, last.loss, [f"the process ended with {what}"], []))
            job = msgspec.structs.replace(job, first=last.number + job.step)
            self._process = _start_worker()

    def _read(self, found: list[AttemptedWrite]) -> AttemptedWrite | None:
        """Takes in results to the end of the job; the loss that was being tried where the process died."""
        assert self._process.stdout is not None
        begun: AttemptedWrite | None = None
        for line in self._process.stdout:
            tried = msgspec.json.decode(line, type=AttemptedWrite)
            if tried == _END:
                return None
            if begun is None:
                begun = tried
            else:
                found.append(tried)
                begun = None
        assert begun is not None, f"a worker ended with {self._process.wait()} before it tried anything"
        return begun

    def end(self) -> int:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        return self._process.wait()


def _start_worker() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.support.power_loss_trials"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=PROJECT)


def do(job: PowerLossTrial) -> None:
    entries = read_record(Path(job.record))
    numbered = list(enumerate(choose(entries, job.count, job.seed)))[job.first :: job.step]
    account, done = AcknowledgedWrites(), 0
    with quick_folder() as scratch:
        left = scratch / "left"
        drive = Drive(syncs=job.syncs)
        losses = each_loss(drive, entries, [loss for _, loss in numbered])
        for (number, _), loss in zip(numbered, losses, strict=True):
            _take_marks(account, entries[done : loss.after])
            done = loss.after
            left.mkdir()
            drive.leave(loss, left)
            forget_the_run(left / "data")
            _print(AttemptedWrite(number, loss.said(), [], []))
            found = examine(left / "data", account)
            _print(AttemptedWrite(number, loss.said(), found.problems, found.reasons))
            shutil.rmtree(left)


def _take_marks(account: AcknowledgedWrites, entries: Sequence[Entry]) -> None:
    for entry in entries:
        if entry.kind == "m":
            account.take(msgspec.json.decode(entry.data, type=WriteReport))


def _print(tried: AttemptedWrite) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(tried) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    logging.disable()
    for asked in sys.stdin.buffer:
        do(msgspec.json.decode(asked, type=PowerLossTrial))
        _print(_END)
