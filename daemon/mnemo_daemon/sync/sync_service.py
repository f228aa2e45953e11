"""Synchronisation: shares this store's changes through a folder that several devices have, and merges theirs. SPEC 21

What is shared: `mnemo_store.replication`. How it lies in the folder: `segments`. Every step can be repeated: an entry
that is known changes nothing, and the place up to which a device was read is written after its entries were merged.
"""

import contextlib
import logging
import platform
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import msgspec

from mnemo_client.protocol.maintenance import SyncDevice, SyncErasure
from mnemo_client.version import VERSION
from mnemo_daemon.errors import Refusal
from mnemo_daemon.history_names import BY_SYNC, SYNC
from mnemo_daemon.sync import group_keys
from mnemo_daemon.sync.cipher import SyncError, is_installed
from mnemo_daemon.sync.device_files import (
    DeviceAbout,
    DeviceFile,
    DeviceProgress,
    LeaseClaim,
    ListedDevice,
    RemovedDevices,
    lease_holder,
    list_devices,
    write_device_file,
)
from mnemo_daemon.sync.group_keys import GroupKey
from mnemo_daemon.sync.segments import (
    START,
    DamagedSegment,
    FolderAhead,
    FolderBehind,
    Position,
    SegmentWriter,
    damage_of,
    end_of,
    newest_snapshot,
    read_entries,
)
from mnemo_daemon.sync.shared_changes import ChangeMerger, OutgoingChanges, noting_erased, without_erased
from mnemo_daemon.sync.shared_folder import device_names, device_state
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreError
from mnemo_store.records import PutMeta
from mnemo_store.replication.device_clock import DEVICES, OwnDevices, next_clock
from mnemo_store.replication.shared_entry import KnownEntries, SharedEntry, decode_entry, encode_entry, portable_name
from mnemo_store.store import Commit, Store, WriteResult

STATE_FILE, KEY_FILE, OUTBOX_FILE, GROUP_FILE = "sync/state.json", "sync/key", "sync/outbox", "sync/group"
APPENDED_TOGETHER = 2000  # entries, which a crash has appended again
READ_BYTES = 256 << 10  # of entries that are read before their place is written down
MERGED_TOGETHER = 512  # entries whose writes wait for one commit
NO_CIPHER = "the package that encrypts is not installed: pip install 'mnemod[sync]', and start the daemon again"
ERASED_KEPT_MAX = 1000  # memories whose erasure every device confirms; of older ones nothing is said
SEGMENTS_MAX = 16  # of this device, of 4 MiB at most, before they are replaced by the state of the store
LEASE_RENEWED_SECONDS = 3600.0
CLOCK_AHEAD_MAX_MS = 25 * 3_600_000  # a change that claims to be from later than this is not taken

log = logging.getLogger("mnemo.sync")


class SyncState(msgspec.Struct, frozen=True):
    """The progress of the exchange, kept next to the store."""

    folder: str
    name: str  # of this device, for people
    device: str
    sent: int = 0  # the last transaction that is in the folder
    position: Position = START  # of this device in the folder
    # For each other device, up to where it was merged.
    read: dict[str, Position] = msgspec.field(default_factory=dict)
    removed: list[str] = msgspec.field(default_factory=list)  # devices that are not read any more
    former: str = ""  # the id under which this device shared before, until it has shared under the new one
    has_shared: bool = False  # the whole store was shared, and nobody was removed since
    began: float = 0.0  # the time at which it began, in seconds
    folders: list[str] = msgspec.field(default_factory=list)  # portable names of the notes folders that are read here
    # Memories that were erased, the latest last; those whose traces are still in this device's segments.
    erased: list[str] = msgspec.field(default_factory=list)
    to_clean: list[str] = msgspec.field(default_factory=list)


class SyncService:
    """The service. One exchange at a time; every method may run on any thread that may wait."""

    def __init__(
        self, store: Store, disk: Disk, erase: Callable[[Sequence[str], str], object],
        can_encrypt: Callable[[], bool] = is_installed,
    ) -> None:  # fmt: skip
        """`erase`: erases memories (whole ids) with every trace, for an author."""
        self._can_encrypt = can_encrypt
        self.problem = ""  # why nothing can be exchanged at the moment
        self.exchanged_at = 0  # ms: of the last exchange without a problem
        self._store = store
        self._disk = disk
        self._lock = threading.Lock()
        self._outgoing = OutgoingChanges(store)
        self._merger = ChangeMerger(store, erase)
        self._progress: dict[str, tuple[str, str]] = {}  # of each device the problem, and what is waited for
        self._listed: list[ListedDevice] = []  # the devices at the last exchange
        self._written: dict[type[DeviceFile], DeviceFile] = {}  # this device's files, as they were last written
        self.state = self._load_state()
        self.key: GroupKey | None = None
        with contextlib.suppress(OSError, ValueError):
            self.key = GroupKey.from_bytes((store.folder / KEY_FILE).read_bytes())
        self._writer: SegmentWriter | None = None
        self._complaints: list[str] = []  # the devices that cannot read what this one wrote, and were heard
        self._stopping = threading.Event()
        self._looked_at: list[tuple[tuple[str, int, int], ...]] = []  # the files of the others when they were looked at

    def stop(self) -> None:
        """End the exchange under way before its next step."""
        self._stopping.set()

    def on_commit(self, commit: Commit) -> None:
        """Hold a transaction for the folder."""
        if self.state is not None:
            self._outgoing.hold(commit)

    def is_due(self) -> bool:
        """Return whether something here is not in the folder yet, or the folder has something that is not here."""
        return self.state is not None and (self._store.seq > self.state.sent or self._has_news())

    # Begin and end

    def begin(self, folder: Path, *, passphrase: str, code: str, name: str, is_new: bool) -> None:
        """Share the store through a folder from now on: a new one, or one that other devices share.

        Raises SyncError, OSError, and a Refusal where the store is shared already.
        """
        with self._lock:
            if self.state is not None:
                raise Refusal(409, "conflict", f"the store is shared through {self.state.folder} already")
            if not self._can_encrypt():
                raise Refusal(422, "refused", f"nothing was shared: {NO_CIPHER}")
            if is_new:
                is_made = not folder.exists()
                folder.mkdir(mode=0o700, exist_ok=True)
                try:
                    key = group_keys.create_group(folder, passphrase, disk=self._disk)
                except SyncError:
                    if is_made:
                        folder.rmdir()
                    raise
            else:
                key = group_keys.open_with_code(folder, code) if code else group_keys.open_group(folder, passphrase)
            name = name or platform.node() or "device"
            device = secrets.token_hex(8)
            with self._store.snapshot() as snapshot:
                former = OwnDevices.of(snapshot).current
            self._take_device(device)
            (self._store.folder / STATE_FILE).parent.mkdir(mode=0o700, exist_ok=True)
            self._write_file(KEY_FILE, key.to_bytes())
            self.key, self._writer = key, None
            self._save(SyncState(str(folder), name, device, self._store.seq, began=time.time(), former=former))

    def leave(self) -> None:
        """Share no more. The store keeps everything; the folder keeps what this device shared, and that it left."""
        with self._lock:
            state, key = self.state, self.key
            if state is not None and key is not None and Path(state.folder).is_dir():
                about = DeviceAbout(state.name, VERSION, state.began, state.began, has_left=True)
                try:
                    write_device_file(Path(state.folder), key, state.device, about, disk=self._disk)
                except (SyncError, OSError) as error:
                    log.warning("the folder does not say that this device left: %s", error)
            self.state, self.key, self._writer = None, None, None
            self._outgoing.clear()
            for name in (STATE_FILE, KEY_FILE, OUTBOX_FILE, GROUP_FILE):
                with contextlib.suppress(FileNotFoundError):
                    self._disk.unlink(self._store.folder / name)

    def pairing_code(self) -> str:
        """Return a code with which another device can join. Raises a Refusal where the store is not shared."""
        self.require_state()
        assert self.key is not None, "a shared store has its key"
        return group_keys.pairing_code(self.key)

    def remove_device(self, name: str, passphrase: str) -> str:
        """Read a device no more, and go on with another key; return its pairing code. Raises a Refusal, SyncError."""
        with self._lock:
            state = self.require_state()
            assert self.key is not None, "a shared store has its key"
            found = [each for each in self.devices() if name in (each.id, each.name) and not each.is_this]
            if len(found) != 1:
                known = ", ".join(f"{each.name or 'no name'} ({each.id})" for each in self.devices())
                raise Refusal(
                    404, "not_found", f"no one other device is called {name!r}; there are: {known}", field="device"
                )
            key = group_keys.replace_key(Path(state.folder), self.key, passphrase, disk=self._disk)
            self._write_file(KEY_FILE, key.to_bytes())
            self.key, self._writer = key, None
            removed = sorted({*state.removed, found[0].id})
            # What the removed device shared is read from nobody else: the next exchange shares the whole store.
            self._save(msgspec.structs.replace(state, removed=removed, has_shared=False))
            removals = RemovedDevices(dict.fromkeys(removed, time.time()))
            write_device_file(Path(state.folder), key, state.device, removals, disk=self._disk)
            self._written.clear()
            return group_keys.pairing_code(key)

    def renew_key(self, code: str) -> None:
        """Go on with the key that a pairing code carries. Raises SyncError."""
        with self._lock:
            state = self.require_state()
            key = group_keys.open_with_code(Path(state.folder), code)
            self._write_file(KEY_FILE, key.to_bytes())
            self.key, self._writer = key, None
            self._save(msgspec.structs.replace(state, has_shared=False))
            self._written.clear()

    def unsent(self) -> int:
        """The number of changes that are not in the folder yet."""
        return 0 if self.state is None else max(0, self._store.seq - self.state.sent)

    def runs_cycles(self) -> bool:
        """Return whether this device is the one that consolidates: one that shares the memory does at a time."""
        state = self.state
        if state is None:
            return True
        claims = [each.lease for each in self._listed if each.lease is not None and each.is_waited_for]
        return lease_holder(claims, state.removed, time.time()) == state.device

    def close(self) -> None:
        """Share what is left, and end."""
        if self.unsent() and not self._stopping.is_set():
            try:
                self.exchange()
            except (SyncError, StoreError, OSError) as error:
                log.warning("what was changed last is shared after the next start: %s", error)
        self.stop()

    # The exchange

    def exchange(self) -> None:
        """Merge what other devices have shared, and share what was changed here.

        Raises SyncError, OSError, StoreError; why it failed is the problem until the next exchange.
        """
        with self._lock:
            if self.state is None or self.key is None:
                return
            folder = Path(self.state.folder)
            if not self._can_encrypt():
                self.problem = NO_CIPHER
                return
            try:
                if self.state.device in device_names(folder):  # and not in an empty folder in its place
                    group_keys.restore_copy(folder, self._store.folder / GROUP_FILE, self._disk)
                if not (folder / "group.json").exists():
                    self.problem = f"{folder} is not there, or is no folder that devices share"
                    return
                self._exchange(folder, self.key)
            except group_keys.ReplacedKey as error:
                self.problem = f"{error}: mnemo sync rejoin --code …, with the code of another device"
            except (SyncError, OSError) as error:
                self._writer = None  # what was cut short is looked at again, as after a start
                self.problem = str(error)
                raise

    def _exchange(self, folder: Path, key: GroupKey) -> None:
        self.problem = group_keys.check_key(folder, key)
        if not self.problem:
            group_keys.keep_copy(folder, self._store.folder / GROUP_FILE, self._disk)
            self.problem = self._clock_problem()
        writer = self._open_writer(folder, key)
        self._list(folder, key)
        self._trash_passages_read_here()
        devices = [each for each in device_names(folder) if self._is_read(each)]
        has_moved = True
        while has_moved and not self._stopping.is_set():
            has_moved = False
            for device in devices:
                has_moved = self._pull_device(folder, key, device) or has_moved
        if not self._stopping.is_set():
            self._hear_complaints(folder, key)
            try:
                self._push(folder, key, writer)
            except (FolderBehind, DamagedSegment) as error:
                self._share_again(error)
                self._push(folder, key, writer)
            self._report(folder, key)
            self._list(folder, key)
        if not self.problem:
            self.exchanged_at = self._store.now()

    def _hear_complaints(self, folder: Path, key: GroupKey) -> None:
        """Has the whole store shared again if another device cannot read this one's files, and they are damaged."""
        device = self.require_state().device
        complaints = [each.device for each in self._listed
                      if each.is_waited_for and each.seen is not None and device in each.seen.damaged]  # fmt: skip
        is_new, self._complaints = not set(complaints) <= set(self._complaints), complaints
        if is_new and (damage := damage_of(folder, key, device)):
            self._share_again(DamagedSegment(damage))

    def _clock_problem(self) -> str:
        """A sentence where the other devices take nothing of this one, since its clock was far ahead once."""
        with self._store.snapshot() as snapshot:
            ahead_ms = next_clock(snapshot, 0) - self._store.now()
        if ahead_ms <= CLOCK_AHEAD_MAX_MS:
            return ""
        hours = (ahead_ms - CLOCK_AHEAD_MAX_MS) // 3_600_000 + 1
        return f"the clock of this device was far ahead once: others take its changes in {hours} hours at the earliest"

    def _share_again(self, error: SyncError) -> None:
        """Has the whole store shared by the next push, since the folder has not all that this device wrote."""
        log.warning("the whole store is shared again: %s", error)
        self._save(msgspec.structs.replace(self.require_state(), has_shared=False))

    def devices(self) -> list[SyncDevice]:
        """Every device of the folder, and how far it was read at the last exchange."""
        state = self.require_state()
        found: list[SyncDevice] = []
        for each in self._listed:
            problem, waiting = self._progress.get(each.device, ("", ""))
            waiting = "it has left" if each.about and each.about.has_left else waiting
            found.append(SyncDevice(
                id=each.device, name=each.about.name if each.about else "", is_this=each.device == state.device,
                removed=each.is_removed, read=state.read.get(each.device, START).count,
                problem=problem or each.problem or None, waiting=waiting or None,
            ))  # fmt: skip
        return found

    def names(self) -> dict[str, str]:
        """The names of the devices that are known, by their ids."""
        return {each.device: each.about.name for each in self._listed if each.about is not None}

    def erasure_states(self) -> list[SyncErasure]:
        """The same as `erasures`, with the names of the devices; empty where nothing is shared."""
        names, known = self.names(), self.erasures() if self.state is not None else {}
        return [
            SyncErasure(
                id=memory_id, done=[names.get(device, device) for device, is_done in devices.items() if is_done],
                waiting=[names.get(device, device) for device, is_done in devices.items() if not is_done],
            )
            for memory_id, devices in known.items()
        ]  # fmt: skip

    def erasures(self) -> dict[str, dict[str, bool]]:
        """For each memory that was erased while the store is shared, the latest last: whether each device that is not
        removed has carried that out."""
        state = self.require_state()
        done = {
            each.device: set(each.seen.erasures) if each.seen else set[str]()
            for each in self._listed if each.is_waited_for
        }  # fmt: skip
        done[state.device] = set(state.erased) - set(state.to_clean)
        known = dict.fromkeys(chain(chain.from_iterable(sorted(some) for some in done.values()), state.erased))
        return {memory_id: {device: memory_id in some for device, some in done.items()} for memory_id in known}

    def _has_news(self) -> bool:
        """Return whether a file of another device has changed since this was asked last."""
        state = self.state
        if state is None:
            return False
        folder = Path(state.folder)
        with contextlib.suppress(SyncError, OSError):
            found = [device_state(folder, device) for device in device_names(folder) if self._is_read(device)]
            found, self._looked_at = [each for each in found if each not in self._looked_at], found
            return bool(found)
        return False

    def _open_writer(self, folder: Path, key: GroupKey) -> SegmentWriter:
        """The writer of this device's segments, after what a crash cut short was appended.

        Where the folder has more of this device than the store knows, the store is an older copy: it takes a new id,
        since its numbers were given already, and reads what it wrote before as another device's. Where the folder has
        less, or it is damaged, the whole store is shared again.
        """
        state = self.require_state()
        if self._writer is not None:
            return self._writer
        writer = SegmentWriter(folder, key, state.device, state.position, disk=self._disk)
        outbox = self._store.folder / OUTBOX_FILE
        try:
            if state.has_shared:
                if outbox.exists():
                    sent, *waiting = outbox.read_bytes().split(b"\n")
                    writer.append(waiting)
                    state = msgspec.structs.replace(state, sent=max(state.sent, int(sent)))
                elif (end := end_of(folder, key, state.device).count) > state.position.count:
                    raise FolderAhead("it has changes that no outbox has")
                elif end < state.position.count:
                    raise FolderBehind("the folder has less of this device than it wrote")
                self._save(msgspec.structs.replace(state, position=writer.position))
                self._disk.unlink(outbox)
        except FolderAhead:
            log.warning("the folder has changes of this device that its store does not know: it is a new device now")
            former, device = state.device, secrets.token_hex(8)
            self._take_device(device)
            self._disk.unlink(outbox)
            read = state.read | {former: state.position}
            fields = {"device": device, "position": START, "read": read, "has_shared": False, "former": former}
            self._save(msgspec.structs.replace(state, **fields))
            writer = SegmentWriter(folder, key, device, START, disk=self._disk)
        except (FolderBehind, DamagedSegment) as error:
            self._share_again(error)
        self._writer = writer
        return writer

    def _is_read(self, device: str) -> bool:
        state = self.require_state()
        return device != state.device and device not in state.removed

    def _list(self, folder: Path, key: GroupKey) -> None:
        """Reads which devices there are, and which were removed by another."""
        state = self.require_state()
        self._listed = list_devices(folder, key, removed=state.removed)
        removed = sorted({*state.removed, *(each.device for each in self._listed if each.is_removed)})
        if removed != state.removed:
            self._save(msgspec.structs.replace(state, removed=removed))

    def _report(self, folder: Path, key: GroupKey) -> None:
        """Writes what the other devices are to know of this one, where it has changed."""
        state, now = self.require_state(), time.time()
        erased = [each for each in state.erased if each not in state.to_clean]
        damaged = sorted(device for device, (problem, _) in self._progress.items() if problem and self._is_read(device))
        files: list[DeviceFile] = [
            DeviceAbout(state.name, VERSION, state.began, state.began),
            DeviceProgress(state.read | {state.device: state.position}, erased, damaged),
        ]
        claims = [each.lease for each in self._listed if each.lease is not None and each.is_waited_for]
        holder = lease_holder(claims, state.removed, now)
        own = next((each for each in claims if each.device == state.device), None)
        is_holder = holder == state.device and own is not None
        if holder is None or (is_holder and own is not None and now - own.renewed >= LEASE_RENEWED_SECONDS):
            files.append(LeaseClaim(state.device, own.since if is_holder and own is not None else now, now))
        for each in files:
            if self._written.get(type(each)) != each:
                write_device_file(folder, key, state.device, each, disk=self._disk)
                self._written[type(each)] = each

    def _trash_passages_read_here(self) -> None:
        """Moves the passages of another device to the trash whose folder is watched here since: this device reads it
        itself."""
        state = self.require_state()
        with self._store.snapshot() as snapshot:
            folders = sorted({portable_name(root.path) for root in snapshot.roots()})
        new = set(folders) - set(state.folders)
        if new:
            self._merger.trash_passages(new)
        if folders != state.folders:
            self._save(msgspec.structs.replace(state, folders=folders))

    def _pull_device(self, folder: Path, key: GroupKey, device: str) -> bool:
        """Merges the entries of one device up to the first that builds on what is not here yet; returns whether that
        were any."""
        has_moved, limit = False, READ_BYTES
        while not self._stopping.is_set():
            state = self.require_state()
            position = state.read.get(device, START)
            found = read_entries(folder, key, device, position, limit)
            self._progress[device] = found.problem, found.waiting
            if found.went_back:  # all of it is read again, which changes nothing that is known
                self._save(msgspec.structs.replace(state, read=state.read | {device: START}))
                return has_moved
            if found.position == position:
                return has_moved
            is_blocked, problem = self._merge_all(device, found.entries)
            if problem or (is_blocked and limit == 1):
                waiting = "" if problem else "it builds on changes of another device that have not arrived"
                self._progress[device] = problem or found.problem, waiting
                return has_moved
            if is_blocked:
                limit = 1  # frame by frame up to the one that has to wait
                continue
            state = self.require_state()  # merging may have noted an erasure
            self._save(msgspec.structs.replace(state, read=state.read | {device: found.position}))
            has_moved = True
        return has_moved

    def _merge_all(self, device: str, entries: Sequence[bytes]) -> tuple[bool, str]:
        """Merges entries of a device; returns whether one of them builds on others that are missing, and why one of
        them is not taken."""
        for some in batched(entries, MERGED_TOGETHER):
            ready: list[SharedEntry] = []
            blocked, problem = False, ""
            for data in some:
                try:
                    entry = decode_entry(data)
                except ValueError as error:
                    problem = f"an entry cannot be read: {error}; is this version of mnemod older than the one there?"
                    break
                if isinstance(entry, KnownEntries):
                    read = self.require_state().read
                    blocked = any(read.get(each, START).count < count
                                  for each, count in entry.counts.items() if self._is_read(each))  # fmt: skip
                elif entry.clock > self._store.now() + CLOCK_AHEAD_MAX_MS:
                    problem = f"a change of device {device} claims to be from the future: is its clock right?"
                else:
                    ready.append(entry)
                if blocked or problem:
                    break
            if erased := self._merger.merge(ready):
                self._note_erased(erased)
            if blocked or problem:
                return blocked, problem
        return False, ""

    def _push(self, folder: Path, key: GroupKey, writer: SegmentWriter) -> None:
        """Shares what was changed here and is not in the folder yet."""
        state = self.require_state()
        if not state.has_shared:
            self._share_whole(folder, key, writer)
        elif self._store.seq > state.sent:
            sent = self._outgoing.share_usage(state.device, state.sent)
            erased: list[str] = []
            entries = noting_erased(self._outgoing.entries(state.sent, sent), erased)
            first = next(entries, None)
            if first is not None:
                known = KnownEntries(counts={device: position.count for device, position in state.read.items()})
                shared: Iterator[SharedEntry | KnownEntries] = chain((known, first), entries)
                self._append(writer, map(encode_entry, shared), sent, erased)
            self._save(msgspec.structs.replace(self.require_state(), sent=sent))
        state = self.require_state()
        if state.to_clean:  # rewrite this device's segments without what was erased
            writer.rewrite(partial(without_erased, state.to_clean))
            self._save(msgspec.structs.replace(state, to_clean=[]))
        # Has this device's segments replaced by the state of the store at the next exchange, once they are many and
        # every other device has read them
        state = self.require_state()
        if state.position.segment - newest_snapshot(folder, key, state.device) < SEGMENTS_MAX:
            return
        others = [each.seen for each in self._listed if each.device != state.device and each.is_waited_for]
        read = (seen.positions.get(state.device, START).count if seen is not None else 0 for seen in others)
        if all(count >= state.position.count for count in read):
            self._save(msgspec.structs.replace(state, has_shared=False))

    def _share_whole(self, folder: Path, key: GroupKey, writer: SegmentWriter) -> None:
        """Replaces all that this device has shared by the state of the store."""
        state = self.require_state()
        sent = self._outgoing.share_usage(state.device, 0)
        self._outgoing.clear(sent)
        erased: list[str] = []
        entries = noting_erased(self._outgoing.state(state.removed), erased)
        position = writer.replace_with_snapshot(map(encode_entry, entries))
        writer.remove_before(newest_snapshot(folder, key, state.device))
        removed = state.removed
        if state.former:  # all of it is in what was shared now
            removed = sorted({*state.removed, state.former})
            removals = RemovedDevices(dict.fromkeys(removed, time.time()))
            write_device_file(folder, key, state.device, removals, disk=self._disk)
        self._disk.unlink(self._store.folder / OUTBOX_FILE)
        state = self.require_state()
        erased = [*(each for each in erased if each not in set(state.erased)), *state.erased][-ERASED_KEPT_MAX:]
        self._save(
            msgspec.structs.replace(
                state, sent=sent, position=position, has_shared=True, to_clean=[], former="", removed=removed,
                erased=erased,
            )
        )  # fmt: skip

    def _append(self, writer: SegmentWriter, entries: Iterator[bytes], sent: int, erased: list[str]) -> None:
        """Appends entries, with which all up to `sent` is shared. What a crash cuts short is kept, so that the same can
        be appended again. `erased`: what the entries that were drawn erase, which is noted before they are appended."""
        parts = batched(entries, APPENDED_TOGETHER)
        some = next(parts, None)
        while some is not None:
            following = next(parts, None)
            if erased:
                self._note_erased(erased)
                erased.clear()
            self._write_file(OUTBOX_FILE, b"\n".join([b"0" if following else b"%d" % sent, *some]))
            position = writer.append(some)
            self._save(msgspec.structs.replace(self.require_state(), position=position))
            some = following
        self._disk.unlink(self._store.folder / OUTBOX_FILE)

    def _note_erased(self, ids: Sequence[str]) -> None:
        """Notes that memories were erased here, whose texts this device may have shared before."""
        state = self.require_state()
        erased = list(dict.fromkeys((*state.erased, *ids)))[-ERASED_KEPT_MAX:]
        to_clean = list(dict.fromkeys((*state.to_clean, *ids)))
        self._save(msgspec.structs.replace(state, erased=erased, to_clean=to_clean))

    # State

    def _take_device(self, device: str) -> None:
        def decide(snapshot: Snapshot) -> WriteResult[None]:
            own = OwnDevices.of(snapshot)
            value = own.with_device(snapshot.seq + 1 if own.spans else 0, device)
            return WriteResult((PutMeta(name=DEVICES, value=value),), None, SYNC)

        self._store.transact(decide, by=BY_SYNC.name).result()

    def require_state(self) -> SyncState:
        if self.state is None:
            raise Refusal(
                409, "conflict", "this store is not shared: `mnemo sync init FOLDER` or `join FOLDER` begins it"
            )
        return self.state

    def _save(self, state: SyncState) -> None:
        self._write_file(STATE_FILE, msgspec.json.encode(state))
        self.state = state

    def _write_file(self, name: str, data: bytes) -> None:
        self._disk.replace_file(self._store.folder / name, [data])

    def _load_state(self) -> SyncState | None:
        try:
            return msgspec.json.decode((self._store.folder / STATE_FILE).read_bytes(), type=SyncState)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.problem = f"{STATE_FILE} in the data folder cannot be read: {error}; `mnemo sync join` begins again"
            return None
