"""Exports of the store: as lines (SPEC 3.8, store/docs/format.md "The stream"), and as Markdown (SPEC 6).

The folder `notes.export_dir` has core memories and topics as Markdown, written again when they change. It is never
read. Nothing there is replaced or removed but the daemon's own pages.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mnemo_core.decay import epoch_of
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_core.transfer.markdown_export import HEAD, ExportedMemory, ExportedTopic, core_page, topics_page
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.memories.memory_columns import by_weight
from mnemo_daemon.table_walk import all_memories
from mnemo_daemon.times import local_day
from mnemo_store.backend import READ_SLICE
from mnemo_store.batches import batched
from mnemo_store.codec import digest_key
from mnemo_store.disk import Disk
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.journal import dump
from mnemo_store.record_texts import embedded_text, text_hash
from mnemo_store.store import Store

CORE_FILE, TOPICS_FILE = "mnemo-core.md", "mnemo-topics.md"
USER = "local"  # whose memories are exported: the person whose folder it is
MEMORIES_MAX = 2000  # on the page

log = logging.getLogger("mnemo.export")


class VectorSpace(NamedTuple):
    """The space in which vectors can be compared: that of the model in use."""

    name: str
    dimensions: int


def export_lines(
    store: Store, *, keep: Callable[[Any], bool] | None = None, history: bool = True,
    space: VectorSpace | None = None,
) -> Iterator[bytes]:  # fmt: skip
    """The lines of an export, newlines included: of all memories, or of those to keep; with the vectors of a space."""
    vectors = _vectors(store, keep, space) if space is not None else iter(())
    return dump.write(store.snapshot, keep=keep, history=history, vectors=vectors)


def _vectors(store: Store, keep: Callable[[Any], bool] | None, space: VectorSpace) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of the vectors of what is kept, in the order of the keys."""
    keys: dict[bytes, bytes] = {}  # to the hashes of their texts
    for memory in all_memories(store):
        if keep is None or keep(memory):
            digest = text_hash(embedded_text(memory))
            keys[digest_key(space.name, digest)] = digest
    for some in batched(sorted(keys), READ_SLICE):
        with store.snapshot() as snapshot:
            found = [(key, snapshot.vectors(space.name, keys[key], space.dimensions)) for key in some]
        yield from ((key, rows.tobytes()) for key, rows in found if rows is not None)


NamespaceTopic = tuple[str, ExportedTopic]  # with its namespace


class MarkdownExport:
    """The service. Its methods block."""

    def __init__(
        self, store: Store, views: Views, topics: Callable[[], Iterable[NamespaceTopic]],
        export_dir: Callable[[], str], disk: Disk,
    ) -> None:  # fmt: skip
        """topics: returns those of the user that are not sensitive, a topic before those below it."""
        self._store = store
        self._views = views
        self._topics = topics
        self._export_dir = export_dir
        self._disk = disk
        self._written: tuple[Path, int, str] | None = None  # the folder, seq of the store and topics of the last export

    def is_enabled(self) -> bool:
        """Return whether a folder is set."""
        return bool(self._export_dir())

    def run_slice(self) -> bool:
        """Write the pages that have changed; there is never more to do. Raises OSError."""
        found: dict[str, list[ExportedTopic]] = {}
        for namespace, topic in self._topics():
            found.setdefault(namespace, []).append(topic)
        folder, seq, topics = Path(self._export_dir()).expanduser(), self._store.seq, topics_page(found)
        if not folder.is_absolute():
            raise NotADirectoryError(f"`notes.export_dir` must be an absolute path, not {str(folder)!r}")
        are_there = all((folder / name).exists() for name in (CORE_FILE, TOPICS_FILE))
        if are_there and self._written == (folder, seq, topics):
            return False
        folder.mkdir(parents=True, exist_ok=True)
        for name, page in ((CORE_FILE, self._core_page()), (TOPICS_FILE, topics)):
            present = _own_page(folder / name)
            if present != page:
                self._disk.replace_file(folder / name, [page.encode()])
        self._written = folder, seq, topics
        return False

    def remove(self) -> None:
        """Remove the pages: what they say may have been erased. They are written again from what is left."""
        self._written = None
        folder = Path(self._export_dir()).expanduser()
        for name in (CORE_FILE, TOPICS_FILE) if self.is_enabled() else ():
            try:
                if _own_page(folder / name):
                    self._disk.unlink(folder / name)
            except OSError as failed:  # the folder may be out of reach, and is the person's own
                log.warning("%s may say what was erased, and could not be removed: %s", folder / name, failed)

    def _core_page(self) -> str:
        columns = self._views.attributes
        wanted = MemoryFilter(
            user_id=USER, layers=("core",), states=("active",), without_tags=(SENSITIVE_TAG,), now=self._store.now()
        )
        rows = np.flatnonzero(columns.uncached_mask(wanted))
        found: dict[str, list[ExportedMemory]] = {}
        with self._store.snapshot() as snapshot:
            rows = by_weight(columns, rows, epoch_of(snapshot))[:MEMORIES_MAX]
            for each in columns.ids(rows.tolist()):
                if (memory := snapshot.memory(each)) is not None:
                    line = ExportedMemory(local_day(memory.event_at), memory.content)
                    found.setdefault(memory.namespace, []).append(line)
        return core_page(dict(sorted(found.items())))


def _own_page(path: Path) -> str:
    """The page as it is there; "" where there is none. Raises FileExistsError for a file of somebody else."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    if not text.startswith(HEAD):
        raise FileExistsError(f"{path} was not written by mnemod: rename it, or set another `notes.export_dir`")
    return text
