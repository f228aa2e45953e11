"""A loss of power at any moment takes nothing that was acknowledged. SPEC 17.1.

The writes and syncs of a day of the store are recorded, LMDB's among them, and what a loss of power may have left of
them is rebuilt, opened and examined (`power_loss`, `power_loss_trials`,
`durability_checks`). A failing loss is printed with its number
and its seed; `python -m tests.bench.bench_faults --only power` tries thousands.
"""

import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.power_loss import Drive, Keep, Loss, build_recorder, choose, read_record, record_run
from tests.support.power_loss_trials import Workers, record_day, record_recovery, reported_in
from tests.support.samples import quick_folder

SEED = 20261121
LOSSES = 60
WITHOUT_SYNCS = 18
SECOND_LOSSES, EACH = 3, 10  # losses in the recovery from a loss
FAILED_SYNCS = range(5, 140, 27)  # which sync of the day fails


@pytest.fixture(scope="module")
def recorder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield build_recorder(Path(folder))


@pytest.fixture(scope="module")
def day(recorder: Path) -> Iterator[Path]:
    """The record of a day without faults."""
    with quick_folder() as scratch:
        yield record_day(recorder, scratch)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers() as started:
        yield started


# What the model of a disk makes of a record


def left_of(recorder: Path, script: str, *losses: Loss, fail_at: int = 0) -> list[dict[str, bytes]]:
    """The files that each loss leaves of a run of the script, which finds `os`, and itself in an empty folder."""
    with quick_folder() as scratch:
        root, record = scratch / "root", scratch / "record"
        root.mkdir()
        program = f"import contextlib, os\nos.chdir({str(root)!r})\n{script}"
        assert record_run(recorder, root, record, [sys.executable, "-c", program], fail_at=fail_at) == 0
        entries, found = read_record(record), []
        for number, loss in enumerate(losses):
            drive, left = Drive(), scratch / f"left-{number}"
            for entry in entries[: loss.after]:
                drive.apply(entry)
            left.mkdir()
            drive.leave(loss, left)
            found.append({path.name: path.read_bytes() for path in left.iterdir()})
        return found


def all_lost(*, ordered: bool = False) -> Loss:
    return Loss(sys.maxsize, Keep.NOTHING, Keep.NOTHING, ordered, 0)


ALL_KEPT = Loss(sys.maxsize, Keep.ALL, Keep.ALL, True, 0)
WRITE = "fd = os.open('a', os.O_RDWR | os.O_CREAT); os.write(fd, b'one'); "
SYNC_FOLDER = "os.fsync(os.open('.', os.O_RDONLY)); "


def test_synced_files_survive_a_power_loss_and_later_changes_do_not(recorder: Path) -> None:
    script = WRITE + "os.fsync(fd); " + SYNC_FOLDER + "os.write(fd, b'two'); os.open('b', os.O_CREAT)"
    assert left_of(recorder, script, all_lost(), ALL_KEPT) == [{"a": b"one"}, {"a": b"onetwo", "b": b""}]


def test_a_name_in_a_folder_that_was_not_synced_is_lost_but_on_a_file_system_that_keeps_names_in_order(
    recorder: Path,
) -> None:
    script = WRITE + "os.fsync(fd)"
    assert left_of(recorder, script, all_lost(), all_lost(ordered=True)) == [{}, {"a": b"one"}]


def test_a_file_renamed_over_another_is_one_or_the_other(recorder: Path) -> None:
    script = WRITE + "os.fsync(fd); " + SYNC_FOLDER
    script += "new = os.open('b', os.O_RDWR | os.O_CREAT); os.write(new, b'other'); os.fsync(new); os.rename('b', 'a')"
    assert left_of(recorder, script, all_lost(), ALL_KEPT) == [{"a": b"one"}, {"a": b"other"}]


def test_a_write_that_was_not_synced_is_kept_or_lost_in_each_sector_by_itself(recorder: Path) -> None:
    script = "fd = os.open('a', os.O_RDWR | os.O_CREAT); os.write(fd, b'-' * 4096); os.fsync(fd); " + SYNC_FOLDER
    script += "os.pwrite(fd, b'+' * 4096, 0)"
    losses = [Loss(sys.maxsize, Keep.SOME, Keep.ALL, True, seed) for seed in range(30)]
    files = [left["a"] for left in left_of(recorder, script, *losses)]
    sectors = [[file[start : start + 512] for start in range(0, 4096, 512)] for file in files]
    assert all(set(each) <= {b"+" * 512, b"-" * 512} for each in sectors)
    assert any(len(set(each)) == 2 for each in sectors), "some are torn"


def test_a_length_may_survive_without_the_bytes(recorder: Path) -> None:
    script = WRITE + "os.fsync(fd); " + SYNC_FOLDER + "os.pwrite(fd, b'x' * 512, 512)"
    losses = [Loss(sys.maxsize, Keep.SOME, Keep.ALL, True, seed) for seed in range(30)]
    files = {left["a"] for left in left_of(recorder, script, *losses)}
    hole = b"one" + bytes(509)
    assert files == {b"one", hole + bytes(512), hole + b"x" * 512}


def test_a_write_through_a_synced_descriptor_needs_no_sync(recorder: Path) -> None:
    script = WRITE + "os.fsync(fd); " + SYNC_FOLDER + "os.write(os.open('a', os.O_WRONLY | os.O_DSYNC), b'two')"
    assert left_of(recorder, script, all_lost()) == [{"a": b"two"}]


def test_data_of_a_failed_sync_is_not_written_by_a_later_one(recorder: Path) -> None:
    script = "fd = os.open('a', os.O_RDWR | os.O_CREAT); os.write(fd, b'-' * 1024); os.fsync(fd); " + SYNC_FOLDER
    script += "os.pwrite(fd, b'+' * 512, 0)\nwith contextlib.suppress(OSError):\n    os.fsync(fd)\n"
    script += "os.pwrite(fd, b'+' * 512, 512); os.fsync(fd)"
    assert left_of(recorder, script, all_lost(), fail_at=3) == [{"a": b"-" * 512 + b"+" * 512}]


# The store


def test_the_record_of_a_day_gives_the_folder_that_the_day_left(recorder: Path) -> None:
    with quick_folder() as scratch:
        record = record_day(recorder, scratch)
        drive, left = Drive(), scratch / "left"
        for entry in read_record(record):
            drive.apply(entry)
        left.mkdir()
        drive.leave(ALL_KEPT, left)
        assert files_in(left) == files_in(scratch / "root")


def files_in(folder: Path) -> dict[str, bytes]:
    """Without LMDB's table of readers, which says nothing that outlives the processes."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock.mdb"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_loss_of_power_takes_nothing_that_was_acknowledged(workers: Workers, day: Path) -> None:
    reported = [each.outcome for each in reported_in(day)]
    assert reported.count("done") > 40
    assert set(reported) == {"begun", "done"}
    outcome = workers.try_losses(day, LOSSES, SEED)
    print(outcome.said())
    assert outcome.tried == LOSSES
    assert not outcome.failed, outcome.said()


def test_a_second_loss_while_the_store_recovers_from_the_first_takes_nothing_either(
    workers: Workers, recorder: Path, day: Path
) -> None:
    first = [loss for loss in choose(read_record(day), 4 * LOSSES, SEED) if loss.data is Keep.SOME]
    for loss in random.Random(SEED).sample(first, SECOND_LOSSES):
        with quick_folder() as scratch:
            outcome = workers.try_losses(record_recovery(recorder, scratch, day, loss), EACH, SEED)
        assert outcome.tried == EACH
        assert not outcome.failed, f"behind the loss {loss.said()}: {outcome.said()}"


@pytest.mark.parametrize("fail_at", FAILED_SYNCS)
def test_after_a_sync_that_failed_a_loss_of_power_takes_nothing_that_was_acknowledged(
    workers: Workers, recorder: Path, fail_at: int
) -> None:
    with quick_folder() as scratch:
        record = record_day(recorder, scratch, fail_at)
        reported = reported_in(record)
        assert [each for each in reported if each.outcome == "silent"] == []
        outcome = workers.try_losses(record, EACH, SEED)
    assert not outcome.failed, f"sync {fail_at}: {outcome.said()}"


def test_without_syncs_the_same_losses_take_what_was_acknowledged(workers: Workers, day: Path) -> None:
    outcome = workers.try_losses(day, WITHOUT_SYNCS, SEED, syncs=False)
    lost = [tried for tried in outcome.failed if any("was acknowledged" in problem for problem in tried.problems)]
    print(f"{len(lost)} of {outcome.tried} losses took what was acknowledged")
    assert len(lost) > WITHOUT_SYNCS / 3
