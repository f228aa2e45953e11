"""Background jobs: due, in slices, one after the other, retried after a failure, heavy ones only while the machine may.

SPEC 9.1: on battery or a busy machine, background work waits.
"""

import dataclasses
import threading
from pathlib import Path

import pytest

from mnemo_daemon.priority import BUSY, LOOK_SECONDS, ON_BATTERY, MachineLoad, WaitReason
from mnemo_daemon.scheduler import RETRY_SECONDS, RETRY_SECONDS_MAX, Interval, Job, JobState, Scheduler
from mnemo_store.errors import QueueFull


class JobBench:
    """A scheduler with a clock that is turned by hand, and jobs that write down their slices."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.log: list[str] = []
        self.left: dict[str, int] = {}
        self.reason: WaitReason | None = None
        self.slice_seconds = 0.0

    def job(self, name: str, slices: int = 1, *, seconds: float = 60.0, is_heavy: bool = False) -> Job:
        self.left[name] = slices

        def run() -> bool:
            self.log.append(name)
            self.now += self.slice_seconds
            self.left[name] -= 1
            return self.left[name] > 0

        return Job(name, f"Does {name}.", Interval(seconds), run, "1 piece", is_heavy)

    def scheduler(self, *jobs: Job) -> Scheduler:
        return Scheduler(
            jobs, clock=lambda: self.now, wall_ms=lambda: round(self.now * 1000), reason_to_wait=lambda: self.reason
        )


@pytest.fixture
def bench() -> JobBench:
    return JobBench()


def state_of(scheduler: Scheduler, name: str) -> JobState:
    (report,) = (each for each in scheduler.reports() if each.job.name == name)
    return report.state


def test_the_next_run_of_an_idle_job_with_an_interval_is_known(bench: JobBench) -> None:
    needed = Job("needed", "When needed.", lambda now, state: state.runs == 0, lambda: False, "1 piece")
    scheduler = bench.scheduler(bench.job("sweep"), needed, bench.job("heavy", is_heavy=True))
    assert [report.next_at for report in scheduler.reports()] == [None] * 3
    scheduler.run_round()
    begin = round(bench.now * 1000)
    assert [report.next_at for report in scheduler.reports()] == [begin + 60_000, None, begin + 60_000]
    bench.now += 60.0
    bench.reason = BUSY
    scheduler.run_round()
    assert [report.next_at for report in scheduler.reports()] == [begin + 120_000, None, None]


def test_a_job_is_due_at_the_start_and_again_so_long_after_its_end(bench: JobBench) -> None:
    scheduler = bench.scheduler(bench.job("sweep"))
    assert not scheduler.run_round()
    bench.now += 59.0
    scheduler.run_round()
    assert bench.log == ["sweep"]
    bench.now += 1.0
    scheduler.run_round()
    assert bench.log == ["sweep"] * 2
    state = state_of(scheduler, "sweep")
    assert (state.runs, state.slices, state.started_at, state.finished_at) == (2, 2, 1_060_000, 1_060_000)


def test_long_jobs_take_turns_slice_by_slice(bench: JobBench) -> None:
    scheduler = bench.scheduler(bench.job("long", 3), bench.job("other", 2), bench.job("short"))
    assert scheduler.run_round()
    assert bench.log == ["long", "other", "short"]
    assert scheduler.run_round()
    assert not scheduler.run_round()
    assert bench.log == ["long", "other", "short", "long", "other", "long"]
    assert (state_of(scheduler, "long").runs, state_of(scheduler, "long").slices) == (1, 3)


def test_queries_go_before_every_slice(bench: JobBench) -> None:
    job = bench.job("sweep", 2)
    scheduler = Scheduler([job], yield_to_queries=lambda: bench.log.append("queries"), clock=lambda: bench.now)
    scheduler.run_round()
    scheduler.run_round()
    assert bench.log == ["queries", "sweep"] * 2


@pytest.mark.parametrize(
    ("error", "is_unexpected"), [(QueueFull("full"), False), (OSError("gone"), False), (KeyError("x"), True)]
)
def test_a_failed_job_is_tried_again_ever_later_and_keeps_no_other_from_its_turn(
    bench: JobBench, error: Exception, is_unexpected: bool
) -> None:
    errors = [error] * 9

    def fail() -> bool:
        bench.log.append("ill")
        if errors:
            raise errors.pop()
        return False

    ill = Job("ill", "Fails.", Interval(3600.0), fail, "1 piece")
    scheduler = bench.scheduler(ill, bench.job("well", seconds=0.0))
    pauses = []
    for _ in range(9):
        scheduler.run_round()
        state = state_of(scheduler, "ill")
        pauses.append(state.retry - bench.now)
        bench.now = state.retry - 0.001
        scheduler.run_round()
        bench.now = state.retry
    assert pauses == [min(RETRY_SECONDS * 2**n, RETRY_SECONDS_MAX) for n in range(9)]
    assert bench.log.count("ill") == 9
    assert bench.log.count("well") == 18
    report = scheduler.reports()[0]
    assert (report.condition, report.reason) == ("failing", f"{type(error).__name__}: {error}")
    assert (report.state.failures, report.state.runs, report.state.is_unexpected) == (9, 0, is_unexpected)
    assert report.state.failed_at is not None
    scheduler.run_round()  # and now it goes well
    assert scheduler.reports()[0].condition == "idle"
    assert (report.state.failures, report.state.runs) == (0, 1)
    assert report.state.last_failure, "what went wrong last stays to be read"


def test_a_job_that_cannot_say_whether_it_is_due_has_failed_and_keeps_no_other_from_its_turn(bench: JobBench) -> None:
    answers: list[bool | Exception] = [QueueFull("full"), QueueFull("full"), False, True]

    def is_due(_now: float, _state: JobState) -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    unsure = Job("unsure", "Reads the store to see whether it is due.", is_due, lambda: False, "1 piece")
    scheduler = bench.scheduler(unsure, bench.job("well", seconds=0.0))
    conditions = []
    for _ in range(4):
        scheduler.run_round()
        conditions.append(scheduler.reports()[0].condition)
        bench.now += RETRY_SECONDS_MAX
    assert conditions == ["failing", "failing", "idle", "idle"]
    assert (bench.log.count("well"), state_of(scheduler, "unsure").runs) == (4, 1)


def test_a_job_that_fails_between_two_slices_goes_on_with_its_run(bench: JobBench) -> None:
    answers: list[bool | Exception] = [True, QueueFull("full"), True, False]

    def run() -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    scheduler = bench.scheduler(Job("sweep", "Sweeps.", Interval(3600.0), run, "1 piece"))
    for _ in range(5):
        scheduler.run_round()
        bench.now += RETRY_SECONDS
    state = state_of(scheduler, "sweep")
    assert (answers, state.runs, state.slices, state.started) == ([], 1, 3, 1000.0)


def test_a_heavy_job_waits_as_long_as_there_is_a_reason_and_says_it(bench: JobBench) -> None:
    scheduler = bench.scheduler(bench.job("heavy", 2, is_heavy=True), bench.job("light"))
    bench.reason = ON_BATTERY
    assert not scheduler.run_round()
    assert bench.log == ["light"]
    assert scheduler.reports()[0][1:3] == ("waiting", "the machine runs on battery")
    bench.reason = None
    assert scheduler.run_round()
    bench.reason = BUSY  # between two slices, too
    scheduler.run_round()
    assert bench.log == ["light", "heavy"]
    assert scheduler.reports()[0].condition == "waiting"
    bench.reason = None
    assert not scheduler.run_round()
    assert bench.log == ["light", "heavy", "heavy"]
    assert scheduler.reports()[0].condition == "idle"


def test_a_heavy_job_that_a_person_waits_for_does_not_wait(bench: JobBench) -> None:
    requests = ["rebuild"]
    heavy = dataclasses.replace(bench.job("heavy", is_heavy=True, seconds=1.0), is_requested=lambda: bool(requests))
    scheduler, bench.reason = bench.scheduler(heavy), BUSY
    scheduler.run_round()
    assert bench.log == ["heavy"]
    requests.clear()
    bench.now += 1.0
    scheduler.run_round()
    assert bench.log == ["heavy"]
    assert scheduler.reports()[0].condition == "waiting"


@pytest.mark.parametrize(("reason", "longest"), [(BUSY, 1800.0), (ON_BATTERY, 86_400.0)])
def test_a_heavy_job_that_has_waited_too_long_goes_on_slowly(
    bench: JobBench, reason: WaitReason, longest: float
) -> None:
    scheduler = bench.scheduler(bench.job("heavy", 3, is_heavy=True))
    begin, bench.reason, bench.slice_seconds = bench.now, reason, 2.0
    times: list[float] = []
    while bench.now < begin + longest + 120.0:
        scheduler.run_round()
        if len(bench.log) > len(times):
            times.append(bench.now - begin)
        bench.now += 1.0
    assert times == [longest + 2.0, longest + 22.0, longest + 42.0]  # ends of slices; nine times as long between them
    assert scheduler.reports()[0].condition == "waiting"  # the next run, which has waited for less
    assert scheduler.reports()[0].reason == reason.text


def test_heavy_jobs_that_have_waited_too_long_take_turns(bench: JobBench) -> None:
    scheduler = bench.scheduler(bench.job("one", 3, is_heavy=True), bench.job("two", 3, is_heavy=True))
    bench.reason = BUSY
    scheduler.run_round()
    bench.now += BUSY.seconds_max
    bench.slice_seconds = 1.0
    begin = bench.now
    while bench.now < begin + 59.0:
        scheduler.run_round()
        bench.now += 0.5
    assert bench.log == ["one", "two"] * 3


def test_a_job_that_is_not_due_any_more_waits_anew_the_next_time(bench: JobBench) -> None:
    scheduler = bench.scheduler(bench.job("heavy", is_heavy=True, seconds=1.0))
    scheduler.run_round()
    bench.now += 1.0
    bench.reason = BUSY
    scheduler.run_round()
    state_of(scheduler, "heavy").finished = bench.now  # somebody else has done its work
    scheduler.run_round()
    bench.now += BUSY.seconds_max
    scheduler.run_round()
    assert bench.log == ["heavy"]


def test_a_heavy_job_that_goes_on_slowly_says_so(bench: JobBench) -> None:
    scheduler = bench.scheduler(bench.job("heavy", 2, is_heavy=True))
    bench.reason, bench.slice_seconds = BUSY, 1.0
    scheduler.run_round()
    bench.now += BUSY.seconds_max
    scheduler.run_round()
    scheduler.run_round()
    assert bench.log == ["heavy"]
    assert "goes on slowly" in scheduler.reports()[0].reason


def test_stopping_lets_a_slice_end_and_begins_no_other(bench: JobBench) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def run() -> bool:
        begun.set()
        assert go_on.wait(60.0)
        return True

    scheduler = bench.scheduler(Job("long", "Takes long.", Interval(0.0), run, "1 piece"), bench.job("next"))
    thread = threading.Thread(target=scheduler.run, daemon=True)
    thread.start()
    assert begun.wait(60.0)
    assert scheduler.reports()[0].condition == "running"
    scheduler.stop()
    go_on.set()
    thread.join(60.0)
    assert not thread.is_alive()
    assert bench.log == []


def test_two_jobs_of_one_name_are_refused(bench: JobBench) -> None:
    with pytest.raises(AssertionError, match="name of its own"):
        bench.scheduler(bench.job("sweep"), bench.job("sweep"))


# The machine


class FakeMachine:
    """A system's power supplies and processors: files with the layout of /sys and /proc."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now, self.own = folder, 0.0, 0.0
        self.set_processors(busy=0, idle=0)
        self.load = MachineLoad(
            power_supplies=folder / "power", processor_times=folder / "stat", own_seconds=lambda: self.own,
            clock=lambda: self.now,
        )  # fmt: skip

    def supply(self, name: str, **files: str) -> None:
        folder = self.folder / "power" / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file).write_text(f"{text}\n")

    def set_processors(self, *, busy: int, idle: int) -> None:
        """In hundredths of a second, of all processors together."""
        (self.folder / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def test_a_battery_that_is_emptied_is_a_reason_unless_the_settings_say_otherwise(machine: FakeMachine) -> None:
    machine.supply("mouse", type="Battery", scope="Device", status="Discharging")
    machine.supply("AC", type="Mains", online="1")
    machine.supply("BAT0", type="Battery", status="Charging")
    assert machine.load.reason_to_wait(waits_on_battery=True, busy_percent=100) is None
    machine.supply("BAT0", status="Discharging")
    assert machine.load.reason_to_wait(waits_on_battery=True, busy_percent=100) == ON_BATTERY
    assert machine.load.reason_to_wait(waits_on_battery=False, busy_percent=100) is None


def test_load_of_other_programs_is_a_reason_to_wait_and_our_own_is_none(machine: FakeMachine) -> None:
    def wait(percent: int) -> WaitReason | None:
        return machine.load.reason_to_wait(waits_on_battery=True, busy_percent=percent)

    assert wait(50) is None
    machine.now += LOOK_SECONDS
    machine.own += 4.0  # of 10 processor seconds; others used 3.
    machine.set_processors(busy=700, idle=300)
    assert wait(30) is None
    assert wait(29) == BUSY
    assert wait(100) is None
    machine.now += LOOK_SECONDS
    machine.set_processors(busy=700, idle=1300)  # nobody did anything since
    assert wait(0) is None


def test_a_system_that_tells_nothing_gives_no_reason(tmp_path: Path) -> None:
    load = MachineLoad(
        power_supplies=tmp_path / "none", processor_times=tmp_path / "none", clock=iter(range(0, 99, 9)).__next__
    )
    assert load.reason_to_wait(waits_on_battery=True, busy_percent=0) is None
