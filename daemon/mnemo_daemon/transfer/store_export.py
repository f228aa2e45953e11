"""Export of the store as lines. SPEC 3.8, store/docs/format.md "The stream"."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from mnemo_daemon.table_walk import all_memories
from mnemo_store.backend import READ_SLICE
from mnemo_store.batches import batched
from mnemo_store.codec import digest_key
from mnemo_store.journal import dump
from mnemo_store.records import Memory, embedded_text, text_hash
from mnemo_store.store import Store


class VectorSpace(NamedTuple):
    """The space in which vectors can be compared: that of the model in use."""

    name: str
    dimensions: int


def export_lines(
    store: Store,
    *,
    keep: Callable[[Memory], bool] | None = None,
    history: bool = True,
    space: VectorSpace | None = None,
) -> Iterator[bytes]:
    """The lines of an export, newlines included: of all memories, or of those to keep; with the vectors of a space."""
    vectors = _vectors(store, keep, space) if space is not None else iter(())
    return dump.write(store.snapshot, keep=keep, history=history, vectors=vectors)


def _vectors(store: Store, keep: Callable[[Memory], bool] | None, space: VectorSpace) -> Iterator[tuple[bytes, bytes]]:
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
