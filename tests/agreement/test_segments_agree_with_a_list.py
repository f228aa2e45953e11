"""A writer and a reader of segments, and between them a carrier that delivers anything in any order, against a list.

A reader always has a prefix of the list, and the whole of it once everything has arrived as it was written.
"""

import shutil
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mnemo_daemon.sync.frames import BATCH_BYTES
from mnemo_daemon.sync.group_keys import GroupKey
from mnemo_daemon.sync.segments import (
    SEGMENT_SECONDS,
    START,
    Position,
    SegmentWriter,
    end_of,
    newest_snapshot,
    read_entries,
)
from tests.support.examples import examples
from tests.support.samples import quick_folder

KEY = GroupKey(bytes(16), (bytes(range(32)),))
DEVICE, OTHER = "00000000000000aa", "00000000000000bb"
ALL = 1 << 40


class CarriedFolder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.entered = quick_folder()
        self.root = self.entered.__enter__()
        self.source, self.carried = self.root / "source", self.root / "carried"
        self.now = 0.0
        self.log: list[bytes] = []  # every entry, also of snapshots; its index is the count before it
        self.erased: set[bytes] = set()
        self.starts = {0}  # counts at which a series begins
        self.delivered: dict[str, list[bytes]] = {}  # all states of each file
        self.position = START
        self.writer = self.opened(START)

    @initialize()
    def make_folders(self) -> None:
        for folder in (self.source, self.carried):
            (folder / "devices" / DEVICE).mkdir(parents=True)
        SegmentWriter(self.source, KEY, OTHER, START, clock=lambda: self.now).append([b"of another device"])

    def teardown(self) -> None:
        try:
            self.deliver_everything()
        finally:
            self.entered.__exit__(None, None, None)

    def opened(self, position: Position) -> SegmentWriter:
        return SegmentWriter(self.source, KEY, DEVICE, position, clock=lambda: self.now)

    def own(self) -> list[Path]:
        return sorted((self.source / "devices" / DEVICE).iterdir())

    def arrived(self) -> list[Path]:
        return sorted((self.carried / "devices" / DEVICE).iterdir())

    def more(self, count: int, size: int = 0) -> list[bytes]:
        new = [b"%d %s" % (len(self.log) + index, bytes(size)) for index in range(count)]
        self.log += new
        return new

    def note_states(self) -> None:
        for path in self.own():
            states = self.delivered.setdefault(path.name, [])
            if not states or states[-1] != path.read_bytes():
                states.append(path.read_bytes())

    @rule(count=st.integers(1, 4), seconds=st.sampled_from([0.0, SEGMENT_SECONDS / 2, SEGMENT_SECONDS, -5.0]))
    def append(self, count: int, seconds: float) -> None:
        self.now += seconds
        assert self.writer.append(self.more(count)).count == len(self.log)
        self.note_states()

    @rule(first=st.integers(1, 3), second=st.integers(0, 3), kept=st.floats(0, 1), restarts=st.integers(1, 2))
    def crash_in_an_append(self, first: int, second: int, kept: float, restarts: int) -> None:
        position = self.writer.position
        before = {path: path.stat().st_size for path in self.own()}
        waiting = self.more(first)
        self.writer.append(waiting)
        path = self.own()[-1]
        if path in before:  # a new segment appears at once
            size = before[path] + int((path.stat().st_size - before[path]) * kept)
            with path.open("r+b") as file:
                file.truncate(size)
        else:
            path.with_name(path.name + ".new").write_bytes(b"a draft")
        self.note_states()
        for _ in range(restarts):
            self.writer = self.opened(position)
            waiting += self.more(second)
            assert self.writer.append(waiting).count == len(self.log)
        self.note_states()

    @rule(count=st.integers(0, 3), size=st.sampled_from([0, BATCH_BYTES]), is_kept=st.booleans())
    def replace_with_snapshot(self, count: int, size: int, is_kept: bool) -> None:
        position = self.writer.position
        self.starts.add(len(self.log))
        end = self.writer.replace_with_snapshot(self.more(count, size))
        assert end.count == len(self.log)
        if not is_kept:
            self.writer = self.opened(position)
            self.writer.append(self.more(1))
        self.note_states()

    @precondition(lambda self: len(self.starts) > 1)
    @rule()
    def remove_what_a_snapshot_replaced(self) -> None:
        self.writer.remove_before(newest_snapshot(self.source, KEY, DEVICE))

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(self.log))
        self.erased.add(gone)
        self.writer.rewrite(lambda entry: None if entry == gone else entry)
        assert all(gone not in read_entries(self.source, KEY, DEVICE, at, ALL).entries for at in (START, self.position))
        self.note_states()

    @precondition(lambda self: self.delivered)
    @rule(data=st.data())
    def deliver_a_state_of_a_file(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.delivered)))
        content = data.draw(st.sampled_from(self.delivered[name]))
        size = data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
        (self.carried / "devices" / DEVICE / name).write_bytes(content[:size])

    @precondition(lambda self: self.arrived())
    @rule(
        data=st.data(),
        change=st.sampled_from(["bit", "swap", "copy", "other", "double", "remove", "length", "conflict"]),
    )
    def tamper(self, data: st.DataObject, change: str) -> None:
        path, second = (data.draw(st.sampled_from(self.arrived())) for _ in range(2))
        content = path.read_bytes()
        at = data.draw(st.integers(0, max(len(content) - 1, 0)))
        if change == "bit" and content:
            path.write_bytes(
                content[:at] + bytes([content[at] ^ 1 << data.draw(st.integers(0, 7))]) + content[at + 1 :]
            )
        elif change == "swap":
            other = second.read_bytes()
            path.write_bytes(other)
            second.write_bytes(content)
        elif change == "copy":
            (path.parent / f"{data.draw(st.integers(1, 30)):06}.seg").write_bytes(content)
        elif change == "other":
            shutil.copy(self.source / "devices" / OTHER / "000001.seg", path)
        elif change == "double":
            path.write_bytes(content + content[at:])
        elif change == "remove":
            path.unlink()
        elif change == "length":
            path.write_bytes(content[:at] + b"\xff\xff\xff\xff" + content[at:])
        elif change == "conflict":
            (path.parent / f"{path.stem}.sync-conflict-20260101-000000-ABCDEFG.seg").write_bytes(content)

    @rule(limit=st.sampled_from([1, 20, ALL]))
    def read(self, limit: int) -> None:
        before = self.position
        result = read_entries(self.carried, KEY, DEVICE, before, limit)
        self.position = result.position
        start = before.count
        if result.position.count != start + len(result.entries):  # it went to a snapshot, or entries were erased
            taken = set(result.entries)
            starts = [start, *sorted(self.starts)]
            slices = (self.log[each : result.position.count] for each in starts)
            matching = [
                part for part in slices if [e for e in part if e not in self.erased or e in taken] == result.entries
            ]
            assert matching, (before, result)
        else:
            assert result.entries == self.log[start : result.position.count]
        assert not (result.went_back and result.entries)

    @rule()
    def deliver_everything(self) -> None:
        shutil.rmtree(self.carried / "devices" / DEVICE)
        shutil.copytree(self.source / "devices" / DEVICE, self.carried / "devices" / DEVICE)
        while True:
            before = self.position
            self.read(ALL)
            if self.position == before:
                break
        assert self.position == self.writer.position == end_of(self.carried, KEY, DEVICE)
        fresh = read_entries(self.carried, KEY, DEVICE, START, ALL)
        assert (fresh.position, fresh.problem) == (self.writer.position, "")
        assert fresh.entries == [entry for entry in self.log[max(self.starts) :] if entry not in self.erased]

    @invariant()
    def everything_in_the_source_is_whole(self) -> None:
        if (self.source / "devices" / DEVICE).exists():
            assert read_entries(self.source, KEY, DEVICE, START, ALL).problem == ""


TestCarriedFolder = CarriedFolder.TestCase
TestCarriedFolder.settings = settings(max_examples=examples(12), stateful_step_count=30, deadline=None)
