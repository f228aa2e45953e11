"""Background jobs: a typed table of them, and the one thread that runs them in slices, behind requests. SPEC 9.1

A job is an entry of the table: when it is due, and a function that does one bounded slice of its work. The scheduler
gives every due job one slice in turn, lets queries go first before each, has heavy jobs wait on battery or while other
programs need the processors, and keeps what is known of each job's runs and failures for `GET /v1/jobs`.

No job waits for ever: those that have waited as long as the reason allows go on slice by slice, with pauses of
PAUSE_FACTOR times what the last slice took. The thread keeps its priority then: at a lower one it would be put off by
the system while it holds the interpreter's lock, and requests with it.

No job keeps its progress here. What is left to do is read from the store, and each slice is durable when it returns:
after a crash every job is due at the next start and goes on where the store says it stood.

Long requests under way are listed for those who wait for them (SPEC 14). Such an operation is written by the thread
that does the work and read by requests, without a lock: each report replaces one tuple. An amount given as a function
is computed only when it is requested.
"""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mnemo_client.protocol.status import OperationView
from mnemo_daemon.priority import WaitReason
from mnemo_daemon.thread_supervision import complete_future
from mnemo_store.errors import StoreError
from mnemo_store.progress import Amount

POLL_SECONDS = 1.0  # from one look at the table to the next, while no job has more to do
RETRY_SECONDS = 1.0  # before a job that failed is tried again; after each further failure in a row twice as long,
RETRY_SECONDS_MAX = 60.0  # up to this
PAUSE_FACTOR = 9.0  # jobs that have waited too long use a tenth of a processor together

log = logging.getLogger("mnemo.jobs")

JobCondition = Literal["idle", "running", "waiting", "failing"]

RATE_SECONDS_MIN = 0.5  # of a step, before a rate can be given


@dataclass(slots=True)
class JobState:
    """Record of a job's runs since the start of the daemon. Times are monotonic seconds, or ms since the epoch
    where the name ends in `_at`; None: not yet."""

    started: float | None = None  # the last run, its first slice
    finished: float | None = None  # the last run that had nothing more to do
    started_at: int | None = None
    finished_at: int | None = None
    runs: int = 0  # that were finished
    slices: int = 0
    has_more: bool = False  # a run is between two slices
    waits_for: str = ""  # why a heavy job's next slice is put off
    waiting_since: float | None = None  # when a slice of the present run, or its first, was put off first
    is_overdue: bool = False  # it has waited as long as the reason allows
    slow_at: float = 0.0  # the end of its last slice as such
    failures: int = 0  # in a row
    is_unexpected: bool = False  # the last failure is a mistake in the program, not the state of the store or disk
    last_failure: str = ""
    failed_at: int | None = None
    retry: float = 0.0  # not before this, after a failure


@dataclass(frozen=True, slots=True)
class Job:
    """One kind of background work.

    `run` does one slice, durably, and returns whether there is more; `slice_bound` says what bounds a slice.
    `due` is asked while no run is under way; where it raises, the job has failed. A heavy job waits on battery and on a
    busy machine.
    """

    name: str
    summary: str
    due: Callable[[float, JobState], bool]
    run: Callable[[], bool]
    slice_bound: str
    is_heavy: bool = False
    is_requested: Callable[[], bool] = lambda: False  # whether a person waits for it, so that it does not wait


class JobReport(NamedTuple):
    """A job and how it stands."""

    job: Job
    condition: JobCondition
    reason: str  # why it waits or fails, "" otherwise
    state: JobState

    @property
    def next_at(self) -> int | None:
        """The time of the next run in ms since the epoch; None for a job that runs when there is work."""
        due, finished_at = self.job.due, self.state.finished_at
        if not isinstance(due, Interval) or finished_at is None or self.condition != "idle":
            return None
        return finished_at + int(due.seconds * 1000)


@dataclass(frozen=True, slots=True)
class Interval:
    """A `due` for a job that runs at each start of the daemon and then so long after the end of its last run; a day
    therefore means at each start and then daily."""

    seconds: float

    def __call__(self, now: float, state: JobState) -> bool:
        return state.finished is None or now - state.finished >= self.seconds


class Scheduler:
    """The scheduler. Jobs run on the thread that calls `run`; any thread may ask for reports."""

    def __init__(
        self, jobs: Sequence[Job], *, yield_to_queries: Callable[[], None] = lambda: None,
        reason_to_wait: Callable[[], WaitReason | None] = lambda: None, clock: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:  # fmt: skip
        """`reason_to_wait`: why heavy jobs wait now, None when they need not."""
        self._states = {job.name: JobState() for job in jobs}
        assert len(self._states) == len(jobs), "every job has a name of its own"
        self._jobs = tuple(jobs)
        self._order = deque(jobs)  # the one whose turn is next comes first
        self._yield_to_queries = yield_to_queries
        self._reason_to_wait = reason_to_wait
        self._clock = clock
        self._wall_ms = wall_ms
        self._paused_until = 0.0  # for jobs that go on although there is a reason to wait
        self._running = ""  # name of the job that has its slice now
        self._stopping = threading.Event()

    def run(self) -> None:
        """Run jobs that are due until `stop` is called."""
        has_more = False
        while not self._stopping.wait(0.0 if has_more else POLL_SECONDS):
            has_more = self.run_round()

    def stop(self) -> None:
        """End `run` after the present slice."""
        self._stopping.set()

    def run_round(self) -> bool:
        """Give each due job one slice; True when any of them has more to do right away."""
        has_more = False
        for _ in range(len(self._order)):
            if self._stopping.is_set():
                return False
            job = self._order[0]
            self._order.rotate(-1)  # before it runs: a job that ends the thread must not keep the others from theirs
            state = self._states[job.name]
            if self._is_due(job, state):
                self._yield_to_queries()
                if not state.has_more:
                    state.started, state.started_at = self._clock(), self._wall_ms()
                self._running = job.name
                began = self._clock()
                outcome: Future[bool] = Future()
                complete_future(outcome, job.run)
                self._running = ""
                if state.is_overdue:
                    state.slow_at = self._clock()
                    self._paused_until = state.slow_at + PAUSE_FACTOR * (state.slow_at - began)
                if (error := outcome.exception()) is not None:
                    self._note_failure(job, state, error)
                else:
                    state.has_more = outcome.result()
                    state.slices += 1
                    state.failures, state.retry, state.is_unexpected = 0, 0.0, False
                    if not state.has_more:
                        state.runs += 1
                        state.waiting_since, state.is_overdue = None, False
                        state.finished, state.finished_at = self._clock(), self._wall_ms()
                has_more = has_more or (state.has_more and not state.failures)
        return has_more

    def reports(self) -> list[JobReport]:
        """Every job of the table, in its order."""
        return [self._report(job, self._states[job.name]) for job in self._jobs]

    def _report(self, job: Job, state: JobState) -> JobReport:
        if self._running == job.name:
            return JobReport(job, "running", "", state)
        if state.failures:
            return JobReport(job, "failing", state.last_failure, state)
        if state.waits_for:
            return JobReport(job, "waiting", state.waits_for, state)
        return JobReport(job, "running" if state.has_more else "idle", "", state)

    def _is_due(self, job: Job, state: JobState) -> bool:
        now = self._clock()
        state.waits_for = ""
        if now < state.retry:
            return False
        due: Future[bool] = Future()
        complete_future(due, lambda: state.has_more or job.due(now, state))
        if (error := due.exception()) is not None:
            self._note_failure(job, state, error)
            return False
        if not due.result():
            state.failures, state.is_unexpected = 0, False  # there is nothing left to fail
            state.waiting_since, state.is_overdue = None, False
            return False
        return not job.is_heavy or job.is_requested() or self._may_go_on(state, now)

    def _may_go_on(self, state: JobState, now: float) -> bool:
        """Return whether a heavy job gets its slice now: with no reason to wait, or after it has waited too long."""
        state.is_overdue = False
        if (reason := self._reason_to_wait()) is None:
            return True
        if state.waiting_since is None:
            state.waiting_since = now
        if now - state.waiting_since < reason.seconds_max:
            state.waits_for = reason.text
            return False
        state.is_overdue = True
        if now < self._paused_until or any(
            each.is_overdue and each.slow_at < state.slow_at for each in self._states.values()
        ):
            state.waits_for = f"{reason.text}; it goes on slowly, for it has waited too long"
            return False
        return True

    def _note_failure(self, job: Job, state: JobState, error: BaseException) -> None:
        """The store and the disk report their own state; of anything else, a mistake in the program, the traceback is
        logged once."""
        failure = f"{type(error).__name__}: {error}"
        state.is_unexpected = not isinstance(error, (StoreError, OSError))
        is_news = state.is_unexpected and (not state.failures or failure != state.last_failure)
        log.log(
            logging.ERROR if state.is_unexpected else logging.WARNING, "the job %s failed and is tried again: %s",
            job.name, failure, exc_info=error if is_news else None,
        )  # fmt: skip
        state.last_failure, state.failed_at = failure, self._wall_ms()
        state.retry = self._clock() + min(RETRY_SECONDS * 2.0 ** min(state.failures, 30), RETRY_SECONDS_MAX)
        state.failures += 1


class _Step(NamedTuple):
    name: str
    done: Amount
    total: int
    began: float  # monotonic
    first: int  # `done` of its first report


class LongOperation:
    """A long request under way. `report` is a `Progress`."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._clock = clock
        self._started_at = time.time_ns() // 1_000_000
        self._began = clock()
        self._step = _Step("", 0, 0, self._began, 0)

    def report(self, step: str, done: Amount, total: int) -> None:
        """Replace the step under way and its counts."""
        before = self._step
        if step == before.name:
            self._step = before._replace(done=done, total=total)
        else:
            self._step = _Step(step, done, total, self._clock(), 0 if callable(done) else done)

    def progress(self) -> OperationView:
        """Return the progress so far, with a rate where one is known."""
        step, now = self._step, self._clock()
        done = step.done() if callable(step.done) else step.done
        if step.total:
            done = min(done, step.total)
        elapsed = now - step.began
        view = OperationView(self.name, step.name, done, step.total, self._started_at, round(now - self._began, 1))
        if elapsed >= RATE_SECONDS_MIN and done > step.first:
            rate = (done - step.first) / elapsed
            view.rate = round(rate, 1)
            view.seconds_left = round((step.total - done) / rate, 1) if step.total else None
        return view


class OperationRegistry:
    """The operations under way, in the order in which they began."""

    def __init__(self) -> None:
        self._under_way: dict[int, LongOperation] = {}
        self._followed: dict[str, tuple[LongOperation, Callable[[], bool]]] = {}

    @contextlib.contextmanager
    def running(self, operation: LongOperation | str) -> Iterator[LongOperation]:
        """List an operation within the block."""
        entered = LongOperation(operation) if isinstance(operation, str) else operation
        self._under_way[id(entered)] = entered
        try:
            yield entered
        finally:
            del self._under_way[id(entered)]

    def follow(self, operation: LongOperation, is_done: Callable[[], bool]) -> None:
        """List an operation that goes on in the background, until `is_done`, in place of an earlier one of its name."""
        self._followed[operation.name] = (operation, is_done)

    def progress(self) -> list[OperationView]:
        """Return the progress of all operations. Any thread may ask."""
        for name, (_, is_done) in list(self._followed.items()):
            if is_done():
                self._followed.pop(name, None)
        followed = [operation.progress() for operation, _ in list(self._followed.values())]
        return followed + [each.progress() for each in list(self._under_way.values())]
