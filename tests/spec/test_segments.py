"""Segments of a device in the shared folder: writing, reading, snapshots, erasure, and what others do to the files."""

import os
import random
import shutil
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mnemo_daemon.sync.cipher import SyncError, seal
from mnemo_daemon.sync.frames import (
    BATCH_BYTES,
    ENTRY_BYTES_MAX,
    FRAME_BYTES_MAX,
    PLAIN_BYTES_MAX,
    SEGMENT_BYTES,
    FramePlace,
)
from mnemo_daemon.sync.group_keys import GroupKey
from mnemo_daemon.sync.segments import (
    SEGMENT_SECONDS,
    START,
    DamagedSegment,
    FolderAhead,
    FolderBehind,
    Position,
    ReadResult,
    SegmentWriter,
    end_of,
    newest_snapshot,
    read_entries,
)
from mnemo_daemon.sync.shared_folder import UnsafeFile, device_state
from mnemo_store.disk import Disk
from tests.simulation.disk import Fault, How, ProcessKill, SimulatedDisk
from tests.support.samples import quick_folder

KEY = GroupKey(bytes(16), (bytes(range(32)),))
DEVICE = "00000000000000aa"
OTHER = "00000000000000bb"
ALL = 1 << 40


class SegmentClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> SegmentClock:
    return SegmentClock()


def segment(folder: Path, number: int, device: str = DEVICE) -> Path:
    return folder / "devices" / device / f"{number:06}.seg"


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"entry %d" % number for number in range(first, first + count)]


def incompressible(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def read(folder: Path, position: Position = START, device: str = DEVICE, key: GroupKey = KEY) -> ReadResult:
    return read_entries(folder, key, device, position, ALL)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "devices" / DEVICE).iterdir())


def test_what_is_appended_is_read_from_any_position(tmp_path: Path, clock: SegmentClock) -> None:
    writer = SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock)
    assert writer.append(numbered(3)) == Position(1, 1, 3)
    assert writer.append(numbered(2, 3)) == Position(1, 2, 5)
    assert writer.append([]) == Position(1, 2, 5)
    assert read(tmp_path) == ReadResult(numbered(5), Position(1, 2, 5))
    assert read(tmp_path, Position(1, 1, 3)) == ReadResult(numbered(2, 3), Position(1, 2, 5))
    assert read(tmp_path, Position(1, 2, 5)) == ReadResult([], Position(1, 2, 5))
    assert end_of(tmp_path, KEY, DEVICE) == Position(1, 2, 5)
    assert segment(tmp_path, 1).stat().st_mode & 0o777 == 0o600
    assert segment(tmp_path, 1).parent.stat().st_mode & 0o777 == 0o700


def test_a_device_that_has_written_nothing_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path) == ReadResult([], START)
    assert end_of(tmp_path, KEY, DEVICE) == START
    assert newest_snapshot(tmp_path, KEY, DEVICE) == 0


def test_a_limit_ends_a_reading_behind_the_frame_that_reaches_it(tmp_path: Path, clock: SegmentClock) -> None:
    writer = SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock)
    for number in range(4):
        writer.append([b"%d" % number * 10, b"."])
    result = read_entries(tmp_path, KEY, DEVICE, START, 12)
    assert (len(result.entries), result.position) == (4, Position(1, 2, 4))
    assert read_entries(tmp_path, KEY, DEVICE, result.position, 1).position == Position(1, 3, 6)


def test_a_segment_is_closed_by_age_or_by_size(tmp_path: Path, clock: SegmentClock) -> None:
    writer = SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock)
    writer.append([b"a"])
    clock.now += SEGMENT_SECONDS - 1
    assert writer.append([b"b"]) == Position(1, 2, 2)
    clock.now += 1
    assert writer.append([b"c"]) == Position(2, 1, 3)
    clock.now -= SEGMENT_SECONDS  # a clock that was set back closes it too
    assert writer.append([b"d"]) == Position(3, 1, 4)
    large = [incompressible(BATCH_BYTES, seed) for seed in range(4)]
    assert writer.append(large) == Position(3, 5, 8)
    assert segment(tmp_path, 3).stat().st_size > SEGMENT_BYTES
    assert writer.append([b"e"]) == Position(4, 1, 9)
    assert read(tmp_path).entries == [b"a", b"b", b"c", b"d", *large, b"e"]


def test_a_writer_goes_on_in_the_open_segment_after_a_restart(tmp_path: Path, clock: SegmentClock) -> None:
    position = SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock).append([b"a"])
    clock.now += SEGMENT_SECONDS - 1
    position = SegmentWriter(tmp_path, KEY, DEVICE, position, clock=clock).append([b"b"])
    assert position == Position(1, 2, 2)
    clock.now += 1
    assert SegmentWriter(tmp_path, KEY, DEVICE, position, clock=clock).append([b"c"]) == Position(2, 1, 3)


def test_entries_that_no_frame_can_hold_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, KEY, DEVICE, START)
    for entry in (b"", bytes(ENTRY_BYTES_MAX + 1)):
        with pytest.raises(ValueError, match="an entry has 1 to"):
            writer.append([b"a", entry])
    assert list(tmp_path.iterdir()) == []
    largest = bytes(ENTRY_BYTES_MAX)
    writer.append([b"a", largest, b"b"])
    assert read(tmp_path).entries == [b"a", largest, b"b"]


def test_what_a_crash_left_behind_the_position_is_not_written_twice(tmp_path: Path, clock: SegmentClock) -> None:
    position = SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock).append(numbered(2))
    SegmentWriter(tmp_path, KEY, DEVICE, position, clock=clock).append(numbered(3, 2))
    clock.now += SEGMENT_SECONDS
    SegmentWriter(tmp_path, KEY, DEVICE, Position(1, 2, 5), clock=clock).append(numbered(3, 5))
    again = SegmentWriter(tmp_path, KEY, DEVICE, position, clock=clock)
    assert again.append(numbered(7, 2)) == Position(2, 2, 9)
    assert read(tmp_path).entries == numbered(9)


def test_entries_in_the_folder_that_the_store_does_not_know_are_a_restored_store(
    tmp_path: Path, clock: SegmentClock
) -> None:
    writer = SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock)
    old = writer.append(numbered(2))
    writer.append(numbered(2, 2))
    for position in (START, old):
        with pytest.raises(FolderAhead, match="this store does not know"):
            SegmentWriter(tmp_path, KEY, DEVICE, position, clock=clock).append([b"something else"])
    assert end_of(tmp_path, KEY, DEVICE) > old
    assert read(tmp_path).entries == numbered(4)


@pytest.mark.parametrize("missing", ["a frame", "a segment", "everything"])
def test_a_folder_with_less_than_was_written_is_reported_and_a_snapshot_begins_again(
    tmp_path: Path, clock: SegmentClock, missing: str
) -> None:
    writer = SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock)
    writer.append([b"a"])
    clock.now += SEGMENT_SECONDS
    writer.append([b"b"])
    position = Position(2, 1, 2)
    if missing == "a frame":
        size = segment(tmp_path, 2).stat().st_size
        position = writer.append([b"c"])
        os.truncate(segment(tmp_path, 2), size)
    elif missing == "a segment":
        segment(tmp_path, 2).unlink()
    else:
        shutil.rmtree(tmp_path / "devices")
    result = read(tmp_path, position)
    assert result.went_back
    assert result.problem == f"the folder went back: it has less of device {DEVICE} than was read from it before"
    assert (result.entries, result.position) == ([], position)
    again = SegmentWriter(tmp_path, KEY, DEVICE, position, clock=clock)
    with pytest.raises(FolderBehind, match="the folder went back"):
        again.append([b"d"])
    end = again.replace_with_snapshot([b"a", b"b", b"c"])
    assert end == Position(3, 1, position.count + 3)
    again.append([b"d"])
    assert read(tmp_path, position).entries == read(tmp_path).entries == [b"a", b"b", b"c", b"d"]


def test_a_torn_frame_at_the_end_is_waited_for_and_cut_off_by_the_next_append(
    tmp_path: Path, clock: SegmentClock
) -> None:
    writer = SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock)
    position = writer.append([b"a"])
    whole = segment(tmp_path, 1).read_bytes()
    writer.append([b"b"])
    longer = segment(tmp_path, 1).read_bytes()
    for size in range(len(whole) + 1, len(longer)):
        segment(tmp_path, 1).write_bytes(longer[:size])
        result = read(tmp_path)
        assert (result.entries, result.problem) == ([b"a"], "")
        assert result.waiting == f"{DEVICE}/000001.seg has not arrived completely"
        again = SegmentWriter(tmp_path, KEY, DEVICE, position, clock=clock)
        assert again.append([b"c"]) == Position(1, 2, 2)
        assert read(tmp_path) == ReadResult([b"a", b"c"], Position(1, 2, 2))


def test_a_frame_whose_bytes_a_power_loss_took_is_cut_off(tmp_path: Path, clock: SegmentClock) -> None:
    writer = SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock)
    position = writer.append([b"a"])
    size = segment(tmp_path, 1).stat().st_size
    writer.append([b"b"])
    longer = segment(tmp_path, 1).read_bytes()
    for kept in (0, 4, 20):  # of the frame; zeros in place of the rest
        segment(tmp_path, 1).write_bytes(longer[: size + kept].ljust(len(longer), b"\0"))
        assert SegmentWriter(tmp_path, KEY, DEVICE, position, clock=clock).append([b"c"]) == Position(1, 2, 2)
        assert read(tmp_path) == ReadResult([b"a", b"c"], Position(1, 2, 2))


@pytest.fixture
def four_segments(tmp_path: Path, clock: SegmentClock) -> Path:
    """Two frames of two entries in each of four segments."""
    writer = SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock)
    for number in range(8):
        clock.now += SEGMENT_SECONDS / 2
        writer.append(numbered(2, 2 * number))
    assert writer.position == Position(4, 2, 16)
    return tmp_path


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_missing_segment_delays_what_is_behind_it(four_segments: Path, missing: int) -> None:
    away = four_segments / "away"
    segment(four_segments, missing).rename(away)
    result = read(four_segments)
    assert result.entries == numbered(4 * (missing - 1))
    assert result.problem == ""
    assert "has not arrived yet" in result.waiting
    away.rename(segment(four_segments, missing))
    rest = read(four_segments, result.position)
    assert result.entries + rest.entries == numbered(16)


def test_an_older_state_of_a_closed_segment_delays_what_is_behind_it(four_segments: Path) -> None:
    whole = segment(four_segments, 2).read_bytes()
    for size in range(len(whole)):
        segment(four_segments, 2).write_bytes(whole[:size])
        result = read(four_segments)
        assert result.entries in (numbered(4), numbered(6))
        assert (result.problem, "has not arrived" in result.waiting) == ("", True)


def test_a_changed_byte_anywhere_is_found_and_nothing_behind_it_taken(four_segments: Path) -> None:
    whole = segment(four_segments, 2).read_bytes()
    for at in range(len(whole)):
        segment(four_segments, 2).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        result = read(four_segments)
        assert result.entries in (numbered(4), numbered(6)), at
        assert result.problem.startswith(f"{DEVICE}/000002.seg, frame ") or "has not arrived" in result.waiting, at
    segment(four_segments, 2).write_bytes(whole)
    assert read(four_segments).entries == numbered(16)


def test_a_problem_names_file_frame_and_reason_and_is_tried_again(four_segments: Path) -> None:
    whole = segment(four_segments, 3).read_bytes()
    segment(four_segments, 3).write_bytes(whole[:-1] + bytes([whole[-1] ^ 255]))
    result = read(four_segments)
    assert result.position == Position(3, 1, 10)
    assert (
        result.problem == f"{DEVICE}/000003.seg, frame 2: not authentic: changed, of another place, or of another key"
    )
    segment(four_segments, 3).write_bytes(whole)
    assert read(four_segments, result.position).entries == numbered(6, 10)


def test_renamed_exchanged_and_repeated_segments_are_found(four_segments: Path) -> None:
    first, second, last = (segment(four_segments, number) for number in (1, 2, 4))
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    result = read(four_segments)
    assert (result.entries, "000001.seg, frame 0: not authentic" in result.problem) == ([], True)
    first.write_bytes(one)
    second.write_bytes(two)
    segment(four_segments, 5).write_bytes(last.read_bytes())
    result = read(four_segments)
    assert result.entries == numbered(16)
    assert "000005.seg, frame 0: not authentic" in result.problem


def test_files_of_another_device_and_frames_of_another_segment_are_found(
    four_segments: Path, clock: SegmentClock
) -> None:
    SegmentWriter(four_segments, KEY, OTHER, START, clock=clock).append([b"of the other"])
    mine = segment(four_segments, 1).read_bytes()
    segment(four_segments, 1).write_bytes(segment(four_segments, 1, OTHER).read_bytes())
    assert (read(four_segments).entries, "frame 0: not authentic" in read(four_segments).problem) == ([], True)
    segment(four_segments, 1).write_bytes(mine)
    tail = segment(four_segments, 2).read_bytes()[-60:]
    segment(four_segments, 1).write_bytes(mine + tail)
    assert read(four_segments).entries == numbered(4)


def test_the_same_frame_twice_is_not_read_twice(tmp_path: Path, clock: SegmentClock) -> None:
    writer = SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock)
    writer.append([b"a"])
    size = segment(tmp_path, 1).stat().st_size
    writer.append([b"b"])
    whole = segment(tmp_path, 1).read_bytes()
    segment(tmp_path, 1).write_bytes(whole + whole[size:])
    result = read(tmp_path)
    assert result.entries == [b"a", b"b"]
    assert "frame 3: not authentic" in result.problem


def test_an_older_key_reads_nothing_that_a_newer_one_wrote(tmp_path: Path, clock: SegmentClock) -> None:
    newer = GroupKey(KEY.group, (*KEY.keys, bytes(32)))
    position = SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock).append([b"a"])
    assert SegmentWriter(tmp_path, newer, DEVICE, position, clock=clock).append([b"b"]) == Position(2, 1, 2)
    assert read(tmp_path, key=newer).entries == [b"a", b"b"]
    result = read(tmp_path)
    assert result.entries == [b"a"]
    assert "written with key 2 of the group; this device knows 1" in result.problem
    stranger = GroupKey(KEY.group, (bytes(32),))
    assert (read(tmp_path, key=stranger).entries, "not authentic" in read(tmp_path, key=stranger).problem) == ([], True)


def test_who_was_excluded_by_a_new_key_cannot_go_on_from_it(tmp_path: Path, clock: SegmentClock) -> None:
    newer = GroupKey(KEY.group, (*KEY.keys, bytes(32)))
    position = SegmentWriter(tmp_path, newer, DEVICE, START, clock=clock).append([b"a"])
    (tmp_path / "forged" / "devices").mkdir(parents=True)
    shutil.copytree(tmp_path / "devices" / DEVICE, tmp_path / "forged" / "devices" / DEVICE)
    excluded = SegmentWriter(tmp_path / "forged", KEY, DEVICE, position, clock=clock)
    excluded.replace_with_snapshot([b"forged"])
    shutil.copy(segment(tmp_path / "forged", 2), segment(tmp_path, 2))
    result = read(tmp_path, key=newer)
    assert result.entries == [b"a"]
    assert result.problem == f"{DEVICE}/000002.seg, frame 0: written with key 1 of the group, after key 2"
    assert read(tmp_path, position, key=newer).entries == []
    assert end_of(tmp_path, newer, DEVICE) == position


def test_a_snapshot_replaces_what_is_before_it_for_every_reader(four_segments: Path, clock: SegmentClock) -> None:
    writer = SegmentWriter(four_segments, KEY, DEVICE, Position(4, 2, 16), clock=clock)
    assert writer.replace_with_snapshot([b"x", b"y"]) == Position(5, 1, 18)
    assert writer.append([b"z"]) == Position(6, 1, 19)
    assert newest_snapshot(four_segments, KEY, DEVICE) == 5
    for position in (START, Position(2, 1, 6), Position(4, 2, 16)):
        assert read(four_segments, position) == ReadResult([b"x", b"y", b"z"], Position(6, 1, 19))
    assert read(four_segments, Position(5, 1, 18)).entries == [b"z"]
    with pytest.raises(ValueError, match="not the beginning of a complete snapshot"):
        writer.remove_before(6)
    assert writer.remove_before(5) == 4
    assert files(four_segments) == ["000005.seg", "000006.seg"]
    assert read(four_segments, Position(2, 1, 6)).entries == [b"x", b"y", b"z"]
    assert end_of(four_segments, KEY, DEVICE) == Position(6, 1, 19)


def test_a_snapshot_of_several_segments_counts_only_when_all_have_arrived(
    four_segments: Path, clock: SegmentClock
) -> None:
    writer = SegmentWriter(four_segments, KEY, DEVICE, Position(4, 2, 16), clock=clock)
    large = [incompressible(BATCH_BYTES // 2, seed) for seed in range(20)]
    end = writer.replace_with_snapshot(large)
    assert end == Position(7, 4, 36)  # one to a frame, 8 in a segment
    for missing in (5, 6, 7):
        whole = segment(four_segments, missing).read_bytes()
        for kept in (None, 0, 10, 300, len(whole) - 1):
            segment(four_segments, missing).unlink()
            if kept is not None:
                segment(four_segments, missing).write_bytes(whole[:kept])
            result = read(four_segments)
            assert (result.entries, result.position, result.problem) == (numbered(16), Position(4, 2, 16), "")
            assert "has not arrived yet" in result.waiting
            assert newest_snapshot(four_segments, KEY, DEVICE) == 0
            assert end_of(four_segments, KEY, DEVICE) == Position(4, 2, 16)
            segment(four_segments, missing).write_bytes(whole)
    assert read(four_segments).entries == large
    half = read_entries(four_segments, KEY, DEVICE, START, BATCH_BYTES * 5)
    assert half.entries + read(four_segments, half.position).entries == large


def test_an_empty_snapshot_and_one_at_the_beginning_are_snapshots(tmp_path: Path, clock: SegmentClock) -> None:
    writer = SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock)
    assert writer.replace_with_snapshot([]) == Position(1, 0, 0)
    assert read(tmp_path) == ReadResult([], Position(1, 0, 0))
    assert writer.append([b"a"]) == Position(2, 1, 1)
    assert read(tmp_path).entries == [b"a"]


def test_a_snapshot_whose_position_was_not_kept_is_known_again(four_segments: Path, clock: SegmentClock) -> None:
    kept = Position(4, 2, 16)
    SegmentWriter(four_segments, KEY, DEVICE, kept, clock=clock).replace_with_snapshot([b"x"])
    assert SegmentWriter(four_segments, KEY, DEVICE, kept, clock=clock).append([b"y"]) == Position(6, 1, 18)
    assert read(four_segments).entries == [b"x", b"y"]
    with pytest.raises(FolderAhead, match="a snapshot"):
        SegmentWriter(four_segments, KEY, DEVICE, Position(4, 1, 14), clock=clock).append([b"y"])


def test_erased_entries_leave_the_folder_and_no_position_changes(four_segments: Path, clock: SegmentClock) -> None:
    writer = SegmentWriter(four_segments, KEY, DEVICE, Position(4, 2, 16), clock=clock)
    untouched = segment(four_segments, 1).read_bytes()
    erased = {b"entry 5", b"entry 14", b"entry 15"}
    changed = writer.rewrite(lambda entry: None if entry in erased else b"now 9" if entry == b"entry 9" else entry)
    assert changed == 4
    expected = [entry.replace(b"entry 9", b"now 9") for entry in numbered(16) if entry not in erased]
    assert read(four_segments) == ReadResult(expected, Position(4, 2, 16))
    assert read(four_segments, Position(3, 1, 10)).entries == numbered(4, 10)
    assert segment(four_segments, 1).read_bytes() == untouched
    assert writer.append([b"more"]).count == 17
    assert read(four_segments).entries == [*expected, b"more"]
    assert writer.rewrite(lambda entry: entry) == 0


def test_what_cannot_be_read_cannot_be_erased_and_is_named(four_segments: Path, clock: SegmentClock) -> None:
    writer = SegmentWriter(four_segments, KEY, DEVICE, Position(4, 2, 16), clock=clock)
    whole = segment(four_segments, 2).read_bytes()
    for damaged in (whole[:-1], b"\0" + whole[1:], whole[:-1] + b"\0", whole[:30]):
        segment(four_segments, 2).write_bytes(damaged)
        with pytest.raises(DamagedSegment, match=r"000002\.seg"):
            writer.rewrite(lambda _entry: None)


def test_erasure_leaves_a_segment_with_the_key_that_it_was_written_with(
    four_segments: Path, clock: SegmentClock
) -> None:
    newer = GroupKey(KEY.group, (*KEY.keys, bytes(32)))
    writer = SegmentWriter(four_segments, newer, DEVICE, Position(4, 2, 16), clock=clock)
    assert writer.rewrite(lambda entry: None if entry == b"entry 0" else entry) == 1
    assert read(four_segments).entries == read(four_segments, key=newer).entries == numbered(15, 1)


def sealed_frame(plain: bytes, at: FramePlace) -> bytes:
    """A frame by somebody who has the key and compresses by other rules."""
    sealed = seal(KEY.subkey("segments", 1), plain, at.context(KEY, 1))
    return len(sealed).to_bytes(4) + sealed


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        (zlib.compress(bytes(1 << 30), 9), "incomplete, or larger than"),
        (zlib.compress(bytes(100))[:-1], "incomplete, or larger than"),
        (zlib.compress(b"") + b"more", "incomplete, or larger than"),
        (b"not compressed", "its compressed data is damaged"),
        (zlib.compress(b"\0\0\0\2a"), "its entries are damaged"),
        (zlib.compress(b"\xff\xff\xff\xff"), "its entries are damaged"),
        (zlib.compress(b"\0\0"), "its entries are damaged"),
    ],
    ids=["bomb", "cut", "trailing", "plain", "short entry", "gigantic entry", "short length"],
)
def test_a_frame_by_a_hostile_device_is_a_problem_and_takes_no_memory(
    tmp_path: Path, clock: SegmentClock, plain: bytes, said: str
) -> None:
    SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock).append([b"a"])
    with segment(tmp_path, 1).open("ab") as file:
        file.write(sealed_frame(plain, FramePlace(DEVICE, 1, 2, 1)))
    tracemalloc.start()
    result = read(tmp_path)
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (result.entries, said in result.problem) == ([b"a"], True)
    assert peak < 4 * PLAIN_BYTES_MAX


@pytest.mark.parametrize("length", [0, 39, FRAME_BYTES_MAX + 1, 0xFFFFFFFF])
def test_an_impossible_length_is_a_problem_and_not_waited_for(tmp_path: Path, clock: SegmentClock, length: int) -> None:
    SegmentWriter(tmp_path, KEY, DEVICE, START, clock=clock).append([b"a"])
    with segment(tmp_path, 1).open("ab") as file:
        file.write(length.to_bytes(4) + bytes(100))
    result = read(tmp_path)
    assert result.entries == [b"a"]
    assert result.problem == f"{DEVICE}/000001.seg, frame 2: its length cannot be {length} bytes"


def put(path: Path, kind: str, elsewhere: Path) -> None:
    """Something that is no file of ours, in its place."""
    if kind == "link":
        path.symlink_to(elsewhere)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "gigantic":
        with path.open("wb") as file:
            file.truncate(1 << 40)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("link", "000003.seg is a symbolic link"), ("folder", "000003.seg is no regular file"),
        ("pipe", "000003.seg is no regular file"), ("gigantic", "000003.seg has 1099511627776 bytes"),
    ],
)  # fmt: skip
def test_what_is_no_segment_is_named_and_neither_opened_nor_followed(four_segments: Path, kind: str, said: str) -> None:
    away = four_segments / "away"
    segment(four_segments, 3).rename(away)
    put(segment(four_segments, 3), kind, away)
    result = read(four_segments)
    assert (result.entries, said in result.problem) == (numbered(8), True)
    put(segment(four_segments, 7), kind, away)
    segment(four_segments, 3).rmdir() if kind == "folder" else segment(four_segments, 3).unlink()
    away.rename(segment(four_segments, 3))
    result = read(four_segments)
    assert (result.entries, said.replace("000003", "000007") in result.problem) == (numbered(16), True)


def test_what_carriers_leave_is_neither_read_nor_a_problem(four_segments: Path) -> None:
    content = segment(four_segments, 1).read_bytes()
    folder = segment(four_segments, 1).parent
    for name in ("000005.sync-conflict-20260101-000000-ABCDEFG.seg", ".syncthing.000005.seg.tmp", "000005.seg~",
                 "000005.seg.new", "~syncthing~000005.seg.tmp", "5.seg", "0000005.seg", "000005.SEG",
                 "000005 (1).seg", "٠٠٠٠٠٥.seg"):  # fmt: skip
        (folder / name).write_bytes(content)
    for name in (".stversions", ".git", ".stfolder"):
        (folder / name).mkdir()
        (four_segments / name).mkdir()
    assert read(four_segments) == ReadResult(numbered(16), Position(4, 2, 16))


def test_the_state_of_a_device_changes_with_its_files_alone(four_segments: Path, clock: SegmentClock) -> None:
    before = device_state(four_segments, DEVICE)
    assert [name for name, _size, _time in before] == files(four_segments)
    SegmentWriter(four_segments, KEY, OTHER, START, clock=clock).append([b"of another"])
    assert device_state(four_segments, DEVICE) == before
    SegmentWriter(four_segments, KEY, DEVICE, Position(4, 2, 16), clock=clock).append([b"a"])
    assert device_state(four_segments, DEVICE) != before
    assert device_state(four_segments, "0" * 16) == ()


def test_a_writer_follows_no_link_and_takes_no_number_twice(four_segments: Path, clock: SegmentClock) -> None:
    outside = four_segments / "outside"
    outside.write_text("mine")
    clock.now += SEGMENT_SECONDS
    segment(four_segments, 5).symlink_to(outside)
    segment(four_segments, 6).with_suffix(".seg.new").symlink_to(outside)
    writer = SegmentWriter(four_segments, KEY, DEVICE, Position(4, 2, 16), clock=clock)
    assert writer.append([b"a"]) == Position(6, 1, 17)
    segment(four_segments, 6).rename(four_segments / "away")
    segment(four_segments, 6).symlink_to(four_segments / "away")
    with pytest.raises(SyncError):
        writer.append([b"b"])
    assert outside.read_text() == "mine"
    (four_segments / "devices").rename(four_segments / "moved")
    (four_segments / "devices").symlink_to(four_segments / "moved")
    with pytest.raises(UnsafeFile, match="devices is a link"):
        writer.append([b"b"])
    assert read(four_segments).problem == "devices is a link or a file where a folder of ours should be"


def test_a_crash_at_any_call_of_the_disk_loses_and_repeats_nothing() -> None:
    """Appends, a new segment, erasure, a snapshot of two segments, removal of what it replaced: killed at each call."""
    large = [incompressible(1_000, seed) for seed in range(5)]
    calls = 0
    ways: tuple[How, ...] = ("not done", "half done", "done all the same")
    for how in ways:
        for at in range(1, 200):
            with quick_folder() as folder:
                disk = SimulatedDisk(lambda: None)
                disk.set(Fault(at, how=how, kills=True))
                life = SegmentLife(folder, large)
                try:
                    life.live(disk)
                except ProcessKill:
                    life.live(Disk())
                else:
                    calls = max(calls, disk.calls)
                    break
    assert calls > 20


class SegmentLife:
    """Life of a device, as its store would remember it: a step is done again unless it was finished."""

    def __init__(self, folder: Path, large: list[bytes]) -> None:
        self.folder = folder
        self.large = large
        self.position = START
        self.steps_done = 0
        self.now = 0.0

    def live(self, disk: Disk) -> None:
        writer = SegmentWriter(
            self.folder, KEY, DEVICE, self.position, clock=lambda: self.now, disk=disk, segment_bytes=4_000,
            batch_bytes=1_000,
        )  # fmt: skip
        steps: list[tuple[Callable[[], object], list[bytes]]] = [
            (lambda: writer.append([b"a", b"b"]), [b"a", b"b"]),
            (lambda: writer.append([b"c"]), [b"a", b"b", b"c"]),
            (lambda: writer.append([b"d"]), [b"a", b"b", b"c", b"d"]),
            (lambda: writer.rewrite(lambda entry: None if entry in (b"b", b"d") else entry), [b"a", b"c"]),
            (lambda: writer.append([b"e"]), [b"a", b"c", b"e"]),
            (lambda: writer.replace_with_snapshot(self.large), self.large),
            (lambda: writer.remove_before(newest_snapshot(self.folder, KEY, DEVICE)), self.large),
            (lambda: writer.append([b"f"]), [*self.large, b"f"]),
        ]
        for number, (step, after) in enumerate(steps):
            if number < self.steps_done:
                continue
            self.now = SEGMENT_SECONDS * (number // 2)
            step()
            self.position = writer.position
            self.steps_done = number + 1
            assert read(self.folder) == ReadResult(after, self.position)
