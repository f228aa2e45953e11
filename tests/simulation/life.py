"""One life of the daemon, step by step as a seed says, held at every step against what must be."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from mnemo_store.errors import StoreError
from mnemo_store.records import Memory
from tests.simulation import checks
from tests.simulation.disk import Fault, ProcessKill
from tests.simulation.ledger import State, Wrong
from tests.simulation.world import SimulatedAnswer, World, in_simulated_time

TOLD = 30  # of the last steps, by a life that failed
RECOVERY_SECONDS = 61.0  # between two looks whether all is well again: longer than the store waits between two tries
RECOVERY_LOOKS = 12
STATES_MAX = 8  # that may be true in trouble: with more, a few writes could make so many that nobody can tell anything
MEMORIES_MAX = 60  # from which on no new ones are made, so that a life stays short

_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprtvz" for vowel in "aiou"]


class LifeOperation(NamedTuple):
    """Something that may happen, and how often compared with the others. `when` says whether it can happen now."""

    weight: int
    name: str
    act: Callable[["SimulatedLife"], str]  # what it came to, for the log
    when: Callable[["SimulatedLife"], bool] = lambda life: True


class LifeFailure(AssertionError):
    """A life in which something was not as it must be."""


class SimulatedLife:
    """The state that a seed's steps act on."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.world = World(folder, Random(f"world {seed}"))
        self.log: list[str] = []
        self.did: Counter[str] = Counter()
        self.number = 0  # of the step
        self.doing = ""  # the operation of this step
        self.is_troubled = False  # something went wrong with the disk, and all is not yet well again
        self.heals_at = 0  # step at which it does
        self.killing: Fault | None = None  # what ends the process in the middle of the next operation
        self.backups: list[tuple[Path, State]] = []
        self.exports: list[bytes] = []
        self.half_forgotten: frozenset[str] = frozenset()  # texts of which some trace may be left, for a while
        self._tokens = 0

    # Living

    def run(self, operations: Sequence[LifeOperation], steps: int) -> None:
        """So many steps, then an end at which all must be well. Raises LifeFailure."""
        with in_simulated_time(self.world.clock):
            try:
                self._note("open", self._opened())
                for self.number in range(1, steps + 1):
                    self._live(operations)
                self.number, self.doing = self.number + 1, "end"
                self._note("end", self._end())
            except BaseException as error:
                raise LifeFailure(self.describe(error)) from error
            finally:
                self.world.throw_away()

    def describe(self, error: BaseException) -> str:
        """The failure, the steps before it, and the command that repeats it."""
        command = f"SEED={self.seed} STEPS={self.number} python -m tests.bench.bench_simulation"
        return "\n".join([
            f"seed {self.seed}, step {self.number}, {self.doing}: {type(error).__name__}: {error}",
            *(f"  {line}" for line in self.log[-TOLD:]),
            f"again: {command}",
        ])  # fmt: skip

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.log).encode()).hexdigest()[:16]

    def _live(self, operations: Sequence[LifeOperation]) -> None:
        self.world.clock.go_on(self.chance.choice((0.0, 0.01, 0.5, 3.0)))
        possible = [operation for operation in operations if operation.when(self)]
        (chosen,) = self.chance.choices(possible, [operation.weight for operation in possible])
        self.doing = chosen.name
        killing, self.killing = self.killing, None
        if killing is not None and self.world.disk.is_sound:
            self.world.disk.set(killing)
        try:
            came = chosen.act(self)
            if self.world.is_open and self.chance.random() < 0.7:
                self.world.step(self.chance.choice((0.1, 1.0, 2.5)))
        except ProcessKill:
            came = f"killed; {self.restart_the_dead()}"
        else:
            if killing is not None and self.world.disk.fault is killing:
                self.world.disk.set(None)
        self.did[chosen.name] += 1
        self._note(chosen.name, came)
        if self.is_troubled and (self.number >= self.heals_at or len(self.states) > STATES_MAX):
            self.doing = "heal"
            self._note("heal", self.recover())

    def _note(self, name: str, came: str) -> None:
        self.log.append(f"{self.number} {name}: {came}")

    def _opened(self) -> str:
        self.world.open()
        return "a new store"

    def _end(self) -> str:
        """All well, once more after a restart, and after the database was lost: the journal holds it all."""
        if self.is_troubled or not self.world.is_open:
            self.recover()
        self.catch_up()
        checks.everything(self)
        self.world.close()
        self.open_again()
        self.catch_up()
        checks.everything(self)
        return f"change {self.state.seq}, {len(self.state.memories)} memories"

    # What steps are made of

    @property
    def state(self) -> State:
        return self.world.ledger.state

    @property
    def states(self) -> list[State]:
        """All that may be true."""
        return self.world.ledger.possible

    @property
    def is_settled(self) -> bool:
        """True if what must be is known, and nothing excuses that it is not."""
        return not self.is_troubled and self.world.ledger.is_sure

    def ask(self, method: str, route: str, body: Any = None, /, **more: Any) -> SimulatedAnswer:
        return self.world.ask(method, route, body, **more)

    def expect(self, answer: SimulatedAnswer, statuses: Iterable[int]) -> bool:
        """True if it is an answer. Raises Wrong for a status that is not among these, unless the disk excuses it."""
        allowed = set(statuses)
        if answer.status in allowed:
            return answer.is_ok
        if self.is_troubled and answer.status in (503, 507):
            return False
        raise Wrong(f"answered {answer.status} {answer.value if not answer.is_ok else ''}, not {sorted(allowed)}")

    def pick(self, wanted: Callable[[Memory], bool] = lambda memory: True) -> Memory | None:
        found = [memory for memory in self.state.current() if wanted(memory)]
        return self.chance.choice(found) if found else None

    def token(self) -> str:
        """A word that no other text has, which stays as it is when it is stemmed."""
        number, word = self._tokens, ""
        self._tokens += 1
        for _ in range(3):
            number, rest = divmod(number * 7 + 3, len(_SYLLABLES))
            word += _SYLLABLES[rest]
        return f"{word}{_SYLLABLES[self._tokens % len(_SYLLABLES)]}{_letters(self._tokens)}k"

    def words(self, count: int) -> str:
        return " ".join(self.chance.choice(_SYLLABLES) + self.chance.choice(_SYLLABLES) for _ in range(count))

    def text(self, *, longest: int = 400) -> str:
        size = min(longest, self.chance.choices((4, 12, 80, 400), (60, 30, 8, 2))[0])
        return f"{self.token()} {self.words(size)}"

    # Trouble and its end

    def trouble(self, steps: int) -> None:
        """From here on the disk may be to blame, until it heals."""
        self.is_troubled, self.heals_at = True, self.number + steps

    def open_again(self) -> str:
        """Starts the daemon and holds what it has against what it must have."""
        try:
            self.world.open()
        except (StoreError, OSError) as error:
            if not self.is_troubled:
                raise Wrong(f"it does not start: {error!r}") from error
            return f"does not start: {type(error).__name__}"
        try:
            found = self.world.found()
        except StoreError as error:
            if not self.is_troubled:
                raise Wrong(f"it cannot be read after a start: {error!r}") from error
            return "cannot be read"
        if self.is_troubled:
            self.world.ledger.agree(found)
            return f"open at {found.seq}"
        self.world.ledger.settle(found)
        checks.soundness(self)
        checks.views_agree(self)
        return f"open at {found.seq}"

    def restart_the_dead(self) -> str:
        """After a kill by the disk."""
        self.world.bury()
        return self.open_again()

    def recover(self) -> str:
        """The cause is gone: all must be well again, by itself."""
        self.world.disk.heal()
        came = []
        if not self.world.is_open:
            self.world.open()
            came.append("opened")
        world = self.world
        assert world.daemon is not None
        for look in range(RECOVERY_LOOKS):
            if not world.daemon.problem() and world.daemon.views.state == "ready":
                break
            world.step(RECOVERY_SECONDS)
            came.append(str(look))
        if world.daemon.problem():
            came.append(self._write_once())
        trouble = world.daemon.problem() or (world.daemon.views.state != "ready" and world.daemon.views.reason)
        if trouble:
            raise Wrong(f"the cause is gone, and still: {trouble}")
        self.is_troubled = False
        self.world.notes_failures.clear()
        world.ledger.settle(world.found())  # what is well shows what is: no start makes another choice
        checks.soundness(self)
        checks.views_agree(self)
        return f"well again {' '.join(came)}"

    def _write_once(self) -> str:
        """Write once, since a fault may show to be repaired with the next write only."""
        answer = self.ask("POST", "/v1/memories", {"content": self.text()})
        self.world.step(RECOVERY_SECONDS)
        return f"with a write ({answer.status})"

    def catch_up(self) -> None:
        """Has everything that follows behind do its part."""
        self.world.faults.heal()
        for _ in range(3):
            self.world.step(61.0)


def _letters(number: int) -> str:
    """A number in letters."""
    letters = ""
    while True:
        number, rest = divmod(number, 13)
        letters += "bdfgklmnprtvz"[rest] + "o"
        if not number:
            return letters
