"""Faults with real system calls: losses of power, refused calls, a full disk. Needs what a test suite should not.

    python -m tests.bench.bench_faults [--only power,calls,full] [--losses 4000] [--every 1] [--seed 1]

power  the recorded writes and syncs of a day of the store, in thousands of states that a loss of power may leave, of
       the day, of the recovery from a loss, and of days on which one sync failed; and without any sync, which must
       lose something. Needs a C compiler (Debian: gcc, libc6-dev).
calls  each system call by which the day changes its disk is refused, one after the other. Needs strace (Debian: strace)
       and the right to trace. `--every 10` tries every tenth.
full   the daemon on a small tmpfs that is filled to the last byte. Needs root and mount (Debian: mount).

What cannot be run is said at the end, and is a failure.
"""

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench import faults_calls, faults_full, harness
from tests.support.power_loss import Keep, build_recorder, choose, read_record
from tests.support.power_loss_trials import PowerLossOutcome, Workers, record_day, record_recovery, reported_in
from tests.support.samples import quick_folder

RECOVERIES, IN_RECOVERY = 40, 50  # losses whose recovery is recorded, and losses in each of these
IN_FAILED_SYNC = 30  # losses on each of the days of which one sync failed
WITHOUT_SYNCS = 500


class Power:
    """Everything about losses of power; `wrong` counts what should not be."""

    def __init__(self, recorder: Path, workers: Workers, seed: int) -> None:
        self._workers = workers
        self._recorder = recorder
        self._seed = seed
        self.wrong = 0
        self.tried = 0

    def run(self, losses: int) -> None:
        began = time.perf_counter()
        with quick_folder() as scratch:
            day = record_day(self._recorder, scratch)
            syncs = sum(entry.kind == "s" for entry in read_record(day))
            self._take("a day", self._workers.try_losses(day, losses, self._seed))
            self._recoveries(day)
            self._failed_syncs(syncs)
            lossy = self._workers.try_losses(day, WITHOUT_SYNCS, self._seed, syncs=False)
        self._say_what_syncs_are_for(lossy)
        print(f"  {self.tried} losses in {time.perf_counter() - began:.0f} s, {self.wrong} with something wrong")

    def _recoveries(self, day: Path) -> None:
        total = PowerLossOutcome()
        first = [loss for loss in choose(read_record(day), 5000, self._seed) if loss.data is Keep.SOME]
        for loss in random.Random(self._seed).sample(first, RECOVERIES):
            with quick_folder() as scratch:
                total.merge(
                    self._workers.try_losses(
                        record_recovery(self._recorder, scratch, day, loss), IN_RECOVERY, self._seed
                    )
                )
        self._take(f"the recoveries from {RECOVERIES} of them", total)

    def _failed_syncs(self, syncs: int) -> None:
        total, reported = PowerLossOutcome(), dict[str, int]()
        for fail_at in range(1, syncs + 1):
            with quick_folder() as scratch:
                record = record_day(self._recorder, scratch, fail_at)
                for each in reported_in(record):
                    reported[each.outcome] = reported.get(each.outcome, 0) + 1
                    if each.outcome == "silent":
                        self.wrong += 1
                        print(f"  sync {fail_at}: {each.why}")
                total.merge(self._workers.try_losses(record, IN_FAILED_SYNC, self._seed))
        self._take(f"{syncs} days on each of which another sync failed ({reported})", total)

    def _take(self, what: str, outcome: PowerLossOutcome) -> None:
        self.tried += outcome.tried
        self.wrong += len(outcome.failed)
        print(f"  {what}: {outcome.said()}", flush=True)

    def _say_what_syncs_are_for(self, outcome: PowerLossOutcome) -> None:
        kinds = {
            "lost what was acknowledged": "was acknowledged",
            "had a journal that check finds wrong": "check: journal",
            "could not be opened": "it does not open",
            "took the process with it": "the process ended",
        }
        counts = {
            kind: sum(any(sign in problem for problem in tried.problems) for tried in outcome.failed)
            for kind, sign in kinds.items()
        }
        self.wrong += not counts["lost what was acknowledged"]
        said = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        print(f"  the same day without syncs: of {outcome.tried} losses {len(outcome.failed)} failed: {said}")


def power(losses: int, seed: int) -> int:
    print("losses of power")
    with tempfile.TemporaryDirectory() as folder, Workers() as workers:
        part = Power(build_recorder(Path(folder)), workers, seed)
        part.run(losses)
    return part.wrong


def calls(every: int) -> int:
    print("refused system calls")
    began = time.perf_counter()
    found = faults_calls.sweep(every)
    for wrong in found.wrong[:40]:
        print(f"  {wrong}")
    for reason, times in sorted(found.reasons.items()):
        print(f"  {times} said after the restart: {reason}")
    print(
        f"  {found.runs} runs, {found.touched} touched, in {time.perf_counter() - began:.0f} s; writes: "
        f"{', '.join(f'{times} {outcome}' for outcome, times in found.reported.items())}; {len(found.wrong)} runs wrong"
    )
    return len(found.wrong)


def full() -> int:
    print("a full disk")
    found = faults_full.fill_a_disk()
    for line in (*found.seen, *(f"WRONG: {each}" for each in found.wrong)):
        print(f"  {line}")
    return len(found.wrong)


def without_a_compiler() -> Iterator[str]:
    if shutil.which(os.environ.get("CC", "cc")) is None:
        yield "there is no C compiler: apt install gcc libc6-dev"


def main(*, only: str = "power,calls,full", losses: int = 4000, every: int = 1, seed: int = 1) -> int:
    parts: dict[str, tuple[Callable[[], Iterator[str]], Callable[[], int]]] = {
        "power": (without_a_compiler, lambda: power(losses, seed)),
        "calls": (faults_calls.missing, lambda: calls(every)),
        "full": (faults_full.missing, full),
    }
    wrong, lacking = 0, []
    for name in only.split(","):
        missing, run = parts[name]
        if lacks := list(missing()):
            lacking += [f"{name} was not run: {each}" for each in lacks]
        else:
            wrong += run()
    print("\n".join([f"{wrong} things are wrong" if wrong else "nothing is wrong", *lacking]))
    return 1 if wrong or lacking else 0


if __name__ == "__main__":
    harness.run(main)
