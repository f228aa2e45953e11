"""One day, always the same, on a disk of which the n-th call fails, for n = 1, 2, 3 … until a day is untouched."""

import errno
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mnemo_store.errors import StoreError
from tests.simulation import checks, events, reads, store_operations, writes
from tests.simulation.disk import FOR_GOOD, Fault, ProcessKill
from tests.simulation.ledger import UndecidedWrite
from tests.simulation.life import LifeFailure, SimulatedLife
from tests.simulation.world import in_simulated_time, place_for_worlds

SEED = 1  # of what chance there is in a day
CALLS_MAX = 2000  # more than any day makes
ALL_DAY = 10**6  # steps: the disk may be to blame until the day is over


def _note_is_written(life: SimulatedLife) -> str:
    life.world.notes_folder.save("a.md", [("One", "bolanok is below one"), ("Two", "tirumok is below two")])
    return "a.md"


def _note_is_edited(life: SimulatedLife) -> str:
    life.world.notes_folder.save(
        "a.md", [("One", "bolanok is below one"), ("Two", "tirumok is below two, and more of it")]
    )
    return "a.md"


# What is done in a day, in this order. Each is asked again of nobody: what fails, fails.
DAY: tuple[Callable[[SimulatedLife], str], ...] = (
    events.model_arrives, writes.remember, writes.remember_together, writes.edit, reads.recall,
    _note_is_written, events.watch_notes, events.scan, writes.delete, writes.restore, writes.undo,
    events.restart, writes.edit, reads.recall, _note_is_edited, events.scan, store_operations.compact, writes.remember,
    store_operations.back_up, store_operations.forget, events.kill, writes.batch, writes.delete,
    store_operations.empty_the_trash, writes.edit,
)  # fmt: skip


class DiskFailureMode(NamedTuple):
    """The way a disk fails, except for the time."""

    row: int
    error: int = errno.EIO
    how: Any = "not done"
    kills: bool = False

    def at(self, call: int) -> Fault:
        return Fault(call, self.row, self.error, self.how, kills=self.kills)


MODES = {
    "once": DiskFailureMode(1),
    "once but done": DiskFailureMode(1, how="done all the same"),
    "once, half done": DiskFailureMode(1, errno.ENOSPC, "half done"),
    "three times": DiskFailureMode(3),
    "full for good": DiskFailureMode(FOR_GOOD, errno.ENOSPC, "half done"),
    "broken for good": DiskFailureMode(FOR_GOOD),
    "killed": DiskFailureMode(1, kills=True),
    "killed, half done": DiskFailureMode(1, how="half done", kills=True),
    "killed when it was done": DiskFailureMode(1, how="done all the same", kills=True),
}


def live_a_day(mode: DiskFailureMode, call: int) -> bool:
    """True if the fault came to pass. Raises LifeFailure where the day, or what is left of it, is not as it must be,
    and UndecidedWrite where nobody can tell."""
    folder = Path(tempfile.mkdtemp(prefix="mnemo-day-", dir=place_for_worlds()))
    life = SimulatedLife(SEED, folder)
    try:
        with in_simulated_time(life.world.clock), _failing_disk(life, mode, call):
            try:
                return _day(life, mode.at(call))
            finally:
                life.world.throw_away()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _failing_disk(life: SimulatedLife, mode: DiskFailureMode, call: int) -> Iterator[None]:
    try:
        yield
    except UndecidedWrite:
        raise
    except BaseException as error:
        log = "\n".join(f"  {line}" for line in life.log)
        raise LifeFailure(f"{mode}, call {call}, {life.doing}: {type(error).__name__}: {error}\n{log}") from error


def _day(life: SimulatedLife, fault: Fault) -> bool:
    disk = life.world.disk
    life.trouble(ALL_DAY)
    disk.set(fault)
    for act in (events.restart, *DAY):
        life.number, life.doing = life.number + 1, act.__name__
        try:
            came = _done(life, act)
        except ProcessKill:
            came = life.restart_the_dead()
        life.log.append(f"{life.number} {life.doing}: {came}")
    life.doing = "the end"
    came_to_pass = disk.failures > 0
    life.recover()
    life.catch_up()
    life.is_troubled = False
    life.world.ledger.settle(life.world.found())
    checks.everything(life)
    life.world.close()
    life.open_again()
    life.catch_up()
    checks.everything(life)
    return came_to_pass


def _done(life: SimulatedLife, act: Callable[[SimulatedLife], str]) -> str:
    if not life.world.is_open and act is not events.restart:
        life.open_again()
        if not life.world.is_open:
            return "it does not start"
    came = act(life)
    if life.world.is_open:
        try:
            life.world.step(1.0)
        except StoreError as error:
            return f"{came}, then {type(error).__name__}"
    return came
