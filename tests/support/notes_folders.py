"""A folder of notes with the real service and the real store behind it, for tests."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from mnemo_daemon.notes.folder_watch import Watch
from mnemo_daemon.notes.notes_service import NotesService
from mnemo_daemon.settings import NotesSettings
from mnemo_store.record_texts import skip_hash
from mnemo_store.records import Change, Memory, NoteFile, NoteRoot, PutMemory, PutSkip, PutTrash, Skip, TrashEntry
from mnemo_store.store import Store, WriteResult

WAIT_SECONDS = 15.0  # far more than it takes: the machine may be busy

QUICK = NotesSettings(settle_ms=50, file_mib_max=1)


class NotesFolder:
    """A folder of notes, the service that watches it, and the store behind it."""

    def __init__(self, folder: Path, make_watch: type[Watch] = Watch) -> None:
        self.make_watch = make_watch
        self.folder = folder / "vault"
        self.folder.mkdir()
        self.data = folder / "data"
        self.errors: list[Exception] = []
        self.saved: list[str] = []  # ids of passages that were reported as just saved
        self.open()

    def open(self) -> None:
        self.store = Store.open(self.data)
        self.notes = NotesService(
            self.store, QUICK, on_error=self.errors.append, on_saved=self.saved.extend, make_watch=self.make_watch
        )

    def close(self) -> None:
        self.notes.stop()
        self.store.close()

    def restart(self, while_off: Callable[[], object] = lambda: None) -> None:
        self.close()
        while_off()
        self.open()
        self.notes.start()
        self.wait_for_scan()

    def watch(self) -> NoteRoot:
        self.notes.start()
        root = self.notes.add_root(str(self.folder))
        self.wait_for_scan()
        return root

    def wait_for_scan(self) -> None:
        self.wait(lambda: all(root.last_scan_at for root in self.notes.status().roots))

    def rescan(self) -> None:
        before = [root.last_scan_at or 0 for root in self.notes.status().roots]
        time.sleep(0.002)  # so that the time of the scan is another
        self.notes.rescan()
        self.wait(
            lambda: all((r.last_scan_at or 0) > b for r, b in zip(self.notes.status().roots, before, strict=True))
        )
        assert self.notes.wait_until_settled(WAIT_SECONDS)

    def wait(self, is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + WAIT_SECONDS
        while not is_so():
            assert time.monotonic() < until, "it did not happen in time"
            time.sleep(0.01)

    def write(self, path: str, text: str | bytes) -> Path:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode() if isinstance(text, str) else text)
        return target

    def files(self) -> dict[str, NoteFile]:
        """By path; of two of one path the one that is there."""
        with self.store.snapshot() as snapshot:
            found = sorted(snapshot.notes(), key=lambda file: not file.missing)
        return {file.path: file for file in found}

    def memories(self, path: str) -> list[Memory]:
        file = self.files().get(path)
        with self.store.snapshot() as snapshot:
            found = [snapshot.memory(ref.memory) for ref in file.chunks] if file is not None else []
        return [memory for memory in found if memory is not None]

    def texts(self, path: str) -> list[str]:
        return [memory.content for memory in self.memories(path) if memory.state == "active"]

    def ids(self, path: str) -> list[str]:
        return [memory.id for memory in self.memories(path)]

    def memory(self, memory_id: str) -> Memory:
        with self.store.snapshot() as snapshot:
            memory = snapshot.memory(memory_id)
        assert memory is not None
        return memory

    def wait_for(self, path: str, texts: list[str]) -> None:
        self.wait(lambda: self.texts(path) == texts)
        assert self.notes.wait_until_settled(WAIT_SECONDS)

    def put(self, *changes: Change) -> None:
        self.store.transact(lambda snapshot: WriteResult(changes, None, "test"), by="user").result()

    def delete(self, memory_id: str) -> None:
        """Delete a chunk like `mnemo rm`."""
        memory = self.memory(memory_id)
        with self.store.snapshot() as snapshot:
            salted = skip_hash(snapshot.meta("salt"), memory.content)
        trashed = msgspec.structs.replace(memory, state="trashed", version=memory.version + 1)
        self.put(
            PutMemory(data=trashed),
            PutTrash(data=TrashEntry(id=memory.id, at=1, why="deleted by the user", state="active")),
            PutSkip(data=Skip(file=memory.managed, hash=salted)),
        )

    def edit(self, memory_id: str, **fields: object) -> None:
        """Edit a memory like `PATCH /memories/{id}`."""
        memory = self.memory(memory_id)
        self.put(PutMemory(data=msgspec.structs.replace(memory, version=memory.version + 1, **fields)))

    def count(self, state: str = "active") -> int:
        with self.store.snapshot() as snapshot:
            return sum(memory.state == state for memory in snapshot.memories())


@contextlib.contextmanager
def watched_notes_folder(folder: Path) -> Iterator[NotesFolder]:
    """A notes folder whose service has met no error by the end."""
    notes_folder = NotesFolder(folder)
    yield notes_folder
    notes_folder.close()
    assert notes_folder.errors == []
