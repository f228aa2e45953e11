"""Lives of the simulated daemon: many seeds, or one again.

python -m tests.bench.bench_simulation --seeds 10000 [--first 0] [--steps 40] [--without "kill,disk fails"]
python -m tests.bench.bench_simulation --days              one day, the disk failing at each of its calls in each way
SEED=17 STEPS=23 python -m tests.bench.bench_simulation        one life again, told step by step
"""

import contextlib
import faulthandler
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator

from tests.bench import harness
from tests.simulation.ledger import UndecidedWrite
from tests.simulation.life import LifeFailure
from tests.simulation.seeds import OPERATIONS, STEPS, live
from tests.simulation.sweep import CALLS_MAX, MODES, live_a_day

FAILURES_SHOWN = 50
LIFE_SECONDS_MAX = 60  # of a life that takes a third of one: after it, it hangs


def main(
    *, seeds: int = 1000, first: int = 0, steps: int = int(os.environ.get("STEPS", STEPS)), without: str = "",
    days: bool = False,
) -> int:  # fmt: skip
    left_out = [name for name in without.split(",") if name]
    if unknown := set(left_out) - {operation.name for operation in OPERATIONS}:
        sys.exit(f"there is no operation {unknown}")
    if days:
        return _days()
    if "SEED" in os.environ:
        return _one(int(os.environ["SEED"]), steps, left_out)
    return _many(range(first, first + seeds), steps, left_out)


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """A life that hangs is told as one that failed; one that cannot even be told ends the process, with a traceback."""

    def stop(_: int, frame: object) -> None:
        raise TimeoutError(f"it hangs after {LIFE_SECONDS_MAX} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIFE_SECONDS_MAX)
    faulthandler.dump_traceback_later(2 * LIFE_SECONDS_MAX, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _one(seed: int, steps: int, without: list[str]) -> int:
    try:
        with _bounded():
            lived = live(seed, steps, without)
    except LifeFailure as failed:
        print(failed)
        return 1
    print("\n".join(lived.log))
    print(f"seed {seed}: all went well ({lived.digest})")
    return 0


def _many(seeds: range, steps: int, without: list[str]) -> int:
    began, failed, did = time.perf_counter(), list[int](), Counter[str]()
    for count, seed in enumerate(seeds, 1):
        try:
            with _bounded():
                did.update(live(seed, steps, without).did)
        except LifeFailure as error:
            failed.append(seed)
            if len(failed) <= FAILURES_SHOWN:
                print(error, flush=True)
        if count % 500 == 0:
            print(
                f"{count} lives, {len(failed)} failed, {(time.perf_counter() - began) / count:.3f} s each", flush=True
            )
    seconds = time.perf_counter() - began
    print(
        f"{len(seeds)} lives of {steps} steps, {len(failed)} failed {failed[:200]}, {seconds / len(seeds):.3f} s each"
    )
    print(", ".join(f"{name} {number}" for name, number in did.most_common()))
    return 1 if failed else 0


def _days() -> int:
    began, failed = time.perf_counter(), 0
    for name, mode in MODES.items():
        calls, undecided, wrong = 0, 0, list[int]()
        for call in range(1, CALLS_MAX):
            try:
                with _bounded():
                    if not live_a_day(mode, call):
                        break
            except UndecidedWrite:
                undecided += 1
            except LifeFailure as error:
                wrong.append(call)
                if len(wrong) <= 3:
                    print(error, flush=True)
            calls += 1
        failed += len(wrong)
        seconds = time.perf_counter() - began
        reported = f"{len(wrong)} days failed {wrong[:50]}, {undecided} undecided"
        print(f"{name}: {calls} calls, {reported}, {seconds:.0f} s so far", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    harness.run(main)
