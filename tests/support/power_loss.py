"""The disks that a power loss may leave: a run's writes, recorded by `recorder.c`, and what may have become of them.

What a file system promises, and no more: data is there once the file was synced, names are there once their folder
was. Of what came since, each sector of 512 bytes has what it had at some moment since then, a file's length is one it
had since then, and each change of a name happened or not. A sync that failed left nothing behind, and what it did not
write is never written later unless it is changed again: so does Linux.
"""

import enum
import itertools
import os
import random
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

SECTOR = 512  # what a disk writes whole or not at all
PAGE = 4096  # what a kernel writes back at once
PROJECT = Path(__file__).absolute().parents[2]
_HEAD = struct.Struct("<cBHHIQQ")


class Entry(NamedTuple):
    """One call of the record, or a mark that the run itself set."""

    kind: (
        str  # c create, d mkdir, w write, t truncate, a allocate, s sync, r rename, u unlink, m mark, b: the run begins
    )
    flag: int  # of a write: it is durable when it returns; of a sync: it failed
    inode: int
    offset: int  # or size
    path: str
    target: str
    data: bytes


def read_record(path: Path) -> list[Entry]:
    """Raises ValueError where the run did something that cannot be told."""
    entries, raw, at = [], path.read_bytes(), 0
    while at < len(raw):
        kind, flag, path_bytes, target_bytes, data_bytes, inode, offset = _HEAD.unpack_from(raw, at)
        ends = [at := at + _HEAD.size, at := at + path_bytes, at := at + target_bytes, at := at + data_bytes]
        name, target, data = (raw[begin:end] for begin, end in itertools.pairwise(ends))
        entries.append(Entry(kind.decode(), flag, inode, offset, name.decode(), target.decode(), data))
        if kind == b"!":
            raise ValueError(f"the run made {name.decode()}, which the recorder cannot follow")
    return entries


def marked(data: bytes) -> bytes:
    """The entry of a mark, to be written at once at the end of the record."""
    return _HEAD.pack(b"m", 0, 0, 0, len(data), 0, 0) + data


def build_recorder(folder: Path) -> Path:
    """The recorder, compiled."""
    library = folder / "recorder.so"
    source = Path(__file__).with_name("recorder.c")
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*command, "-o", str(library), str(source), "-lpthread"], check=True)
    return library


def record_run(
    recorder: Path, root: Path, record: Path, command: Sequence[str], *, marks: Sequence[bytes] = (), fail_at: int = 0
) -> int:
    """Runs the command and records what it does in root, behind the marks and what stands there; its exit status.

    `fail_at`: the sync that fails, from 1; 0: none.
    """
    begin = _HEAD.pack(b"b", 0, 0, 0, 0, root.stat().st_ino, 0)
    record.write_bytes(b"".join([*map(marked, marks), *_standing(root, root), begin]))
    environ: Mapping[str, str] = {
        **os.environ,
        "LD_PRELOAD": str(recorder),
        "MNEMO_RECORD": str(record),
        "MNEMO_RECORD_ROOT": str(root.resolve()),
        "MNEMO_RECORD_FAIL": str(fail_at),
    }
    return subprocess.run(command, env=environ, check=False, timeout=120, cwd=PROJECT).returncode


def _standing(folder: Path, root: Path) -> Iterator[bytes]:
    """The entries that make what stands in the folder."""
    for child in folder.iterdir():
        name, inode = str(child.relative_to(root)).encode(), child.stat().st_ino
        yield _HEAD.pack(b"d" if child.is_dir() else b"c", 0, len(name), 0, 0, inode, 0) + name
        if child.is_dir():
            yield from _standing(child, root)
        else:
            data = child.read_bytes()
            yield _HEAD.pack(b"w", 0, 0, 0, len(data), inode, 0) + data


class Keep(enum.Enum):
    """The fate of everything that was not yet durable."""

    ALL = "kept"
    NOTHING = "lost"
    SOME = "kept in part"


class Loss(NamedTuple):
    """One power loss: when, and what it took.

    `ordered`: a sync of any file makes all names before it durable, as on ext4; if not, that of its folder alone does.
    """

    after: int  # entries of the record carried out
    data: Keep
    names: Keep
    ordered: bool
    seed: int

    def said(self) -> str:
        names = f"names {self.names.value}{', ordered' if self.ordered else ''}"
        return f"after {self.after}, data {self.data.value}, {names}, seed {self.seed}"


class _Piece(NamedTuple):
    """A change of a file's bytes: data put at an offset, or, without data, a new length."""

    offset: int
    data: bytes | None

    def units(self, length: int) -> range:
        """The sectors it changes in a file that is so long."""
        end = max(length, self.offset) if self.data is None else self.offset + len(self.data)
        return range(self.offset // SECTOR, -(-end // SECTOR))


@dataclass
class _File:
    base: bytearray = field(default_factory=bytearray)  # what is durable, whatever happens
    pending: list[_Piece] = field(default_factory=list)  # what came since
    sizes: list[int] = field(default_factory=lambda: [0])  # after so many of the pending
    floors: dict[int, int] = field(default_factory=dict)  # of a sector: so many of the pending are durable in it
    size_floor: int = 0
    dirty: set[int] = field(default_factory=set)  # sectors that the next sync writes

    def change(self, piece: _Piece, *, durable: bool = False) -> None:
        size = self.sizes[-1]
        units = piece.units(size)
        self.pending.append(piece)
        if piece.data is None:
            self.sizes.append(piece.offset)
        else:
            self.sizes.append(max(size, piece.offset + len(piece.data)))
        if durable:
            self.floors.update(dict.fromkeys(units, len(self.pending)))
            self.size_floor = len(self.pending)
            self.dirty.difference_update(units)
        else:
            self.dirty.update(units)

    def sync(self, *, failed: bool = False) -> None:
        """A failed one leaves the sectors as clean in the kernel's eyes, and on the disk as they were."""
        dirty, self.dirty = self.dirty, set()
        if failed:
            return
        self.floors.update(dict.fromkeys(dirty, len(self.pending)))
        self.size_floor = len(self.pending)
        changed = {unit for piece in self.pending for unit in piece.units(max(self.sizes))}
        if all(self.floors.get(unit, 0) == len(self.pending) or not self._is_behind(unit) for unit in changed):
            self.base, self.sizes = self._at(lambda _: len(self.pending), self.sizes[-1]), self.sizes[-1:]
            self.pending, self.floors, self.size_floor = [], {}, 0

    def _is_behind(self, unit: int) -> bool:
        """True if the disk may have something older in this sector than the file."""
        floor = self.floors.get(unit, 0)
        return any(unit in piece.units(max(self.sizes)) for piece in self.pending[floor:])

    def left(self, keep: Keep, chance: random.Random) -> bytearray:
        """The bytes that may be found after the loss."""
        latest = len(self.pending)
        if keep is Keep.ALL or not latest:
            return self._at(lambda _: latest, self.sizes[-1])
        if keep is Keep.NOTHING:
            return self._at(lambda unit: self.floors.get(unit, 0), self.sizes[self.size_floor])
        block = chance.choice((SECTOR, PAGE)) // SECTOR
        share = chance.choice((0.1, 0.5, 0.9))
        written: dict[int, int] = {}

        def moment(unit: int) -> int:
            if unit // block not in written:
                luck = chance.random()
                written[unit // block] = latest if luck < share else chance.choice((0, chance.randint(0, latest)))
            return max(written[unit // block], self.floors.get(unit, 0))

        return self._at(moment, self.sizes[chance.randint(self.size_floor, latest)])

    def _at(self, moment: Callable[[int], int], size: int) -> bytearray:
        """The bytes where each sector has its first `moment` pending changes."""
        result = bytearray(self.base)
        for index, piece in enumerate(self.pending):
            end = len(result) if piece.data is None else piece.offset + len(piece.data)
            result.extend(bytes(max(0, end - len(result))))
            for unit in piece.units(len(result)):
                if index < moment(unit):
                    first, last = max(unit * SECTOR, piece.offset), min((unit + 1) * SECTOR, end)
                    new = piece.data[first - piece.offset : last - piece.offset] if piece.data is not None else None
                    result[first:last] = bytes(max(0, last - first)) if new is None else new
        del result[size:]
        result.extend(bytes(size - len(result)))
        return result


@dataclass
class _Folder:
    now: dict[str, "_File | _Folder"] = field(default_factory=dict)
    base: dict[str, "_File | _Folder"] = field(default_factory=dict)  # what is durable, whatever happens
    pending: list[dict[str, "_File | _Folder | None"]] = field(default_factory=list)  # what came since; None: gone
    ordered: int = 0  # so many of the pending are durable where any sync writes all names

    def change(self, names: "dict[str, _File | _Folder | None]") -> None:
        self.pending.append(names)
        _rename(self.now, names)

    def sync(self) -> None:
        self.base, self.pending, self.ordered = dict(self.now), [], 0

    def left(self, loss: Loss, chance: random.Random) -> "dict[str, _File | _Folder]":
        """The names that may be found after the loss."""
        floor = self.ordered if loss.ordered else 0
        kept, open_ones = self.pending[:floor], self.pending[floor:]
        if loss.names is Keep.ALL:
            kept = self.pending
        elif loss.names is Keep.SOME and chance.random() < 0.5:
            kept = kept + open_ones[: chance.randint(0, len(open_ones))]
        elif loss.names is Keep.SOME:
            kept = kept + [names for names in open_ones if chance.random() < 0.5]
        result = dict(self.base)
        for names in kept:
            _rename(result, names)
        return result


def _rename(names: "dict[str, _File | _Folder]", change: "Mapping[str, _File | _Folder | None]") -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class Drive:
    """A folder as it is, and as it may be found after a loss of power."""

    def __init__(self, *, syncs: bool = True) -> None:
        """`syncs`: whether a sync makes anything durable."""
        self._syncs = syncs
        self._nodes: dict[int, _File | _Folder] = {}
        self._root = _Folder()

    def apply(self, entry: Entry) -> None:
        node = self._nodes.get(entry.inode)
        match entry.kind:
            case "c" | "d":
                made = self._nodes[entry.inode] = _File() if entry.kind == "c" else _Folder()
                folder, name = self._place(entry.path)
                folder.change({name: made})
            case "w" | "t" | "a":
                assert isinstance(node, _File)
                data = entry.data if entry.kind == "w" else None
                node.change(_Piece(entry.offset, data), durable=self._syncs and bool(entry.flag))
            case "s":
                assert node is not None
                self._sync(node, failed=bool(entry.flag))
            case "r":
                source, old = self._place(entry.path)
                target, new = self._place(entry.target)
                moved = source.now[old]
                if source is target:
                    source.change({old: None, new: moved})
                else:  # each folder by itself: either may be on the disk without the other
                    target.change({new: moved})
                    source.change({old: None})
            case "u":
                folder, name = self._place(entry.path)
                folder.change({name: None})
            case "b":
                self._nodes[entry.inode] = self._root
                for each in self._nodes.values():
                    each.sync()
            case "m":
                pass
            case _:
                raise ValueError(f"an entry of kind {entry.kind!r}")

    def leave(self, loss: Loss, target: Path) -> None:
        """Puts into the empty folder what may be found there after this loss."""
        _leave(self._root, loss, target, random.Random(loss.seed))

    def _place(self, path: str) -> tuple[_Folder, str]:
        *folders, name = path.split("/")
        here = self._root
        for each in folders:
            below = here.now[each]
            assert isinstance(below, _Folder)
            here = below
        return here, name

    def _sync(self, node: _File | _Folder, *, failed: bool) -> None:
        if not self._syncs:
            return
        if isinstance(node, _File):
            node.sync(failed=failed)
        elif not failed:
            node.sync()
        if not failed:
            for each in self._nodes.values():
                if isinstance(each, _Folder):
                    each.ordered = len(each.pending)


def _leave(folder: _Folder, loss: Loss, target: Path, chance: random.Random) -> None:
    for name, node in folder.left(loss, chance).items():
        if isinstance(node, _Folder):
            (target / name).mkdir(mode=0o700)
            _leave(node, loss, target / name, chance)
        else:
            content = node.left(loss.data, chance)
            with (target / name).open("wb") as file:
                file.write(content.rstrip(b"\0"))
                file.truncate(len(content))


def choose(entries: Sequence[Entry], count: int, seed: int) -> list[Loss]:
    """So many losses, in the order of the record: at each of its points all kept, all lost in both ways that file
    systems treat names, and, for the rest, some kept. Fewer than there are points: chance picks among all these."""
    chance = random.Random(seed)
    begin = [entry.kind for entry in entries].index("b") + 1
    kinds = [*(entry.kind for entry in entries), ""]
    points = [
        after for after in range(begin, len(entries) + 1) if kinds[after] != "m"
    ]  # marks belong to what is before
    losses = [Loss(after, Keep.ALL, Keep.ALL, ordered=True, seed=0) for after in points]
    for ordered in (False, True):
        losses += [Loss(after, Keep.NOTHING, Keep.NOTHING, ordered, 0) for after in points]
    while len(losses) < max(count, 6 * len(points)):
        after, names, ordered = chance.choice(points), chance.choice(list(Keep)), chance.random() < 0.5
        losses.append(Loss(after, Keep.SOME, names, ordered, chance.randrange(1 << 30)))
    return sorted(chance.sample(losses, count) if count < len(losses) else losses, key=lambda loss: loss.after)


def each_loss(drive: Drive, entries: Sequence[Entry], losses: Sequence[Loss]) -> Iterator[Loss]:
    """The losses in the order of the record, the drive brought to each."""
    done = 0
    for loss in sorted(losses, key=lambda each: each.after):
        for entry in entries[done : loss.after]:
            drive.apply(entry)
        done = loss.after
        yield loss
