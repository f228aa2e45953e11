"""Changes of a note file and of its chunks, write by write. SPEC 5.3, 6"""

import itertools
from typing import Any

import msgspec
import pytest

from mnemo_core.documents.note_diff import ChunkText
from mnemo_core.ingest import note_sync
from mnemo_core.ingest.note_sync import MEMORIES_A_TURN, NoteChunk, NoteContent, NotePlanProgress
from mnemo_store.records import (
    Change,
    Edge,
    ErasedText,
    Memory,
    NoteFile,
    PutMemory,
    PutNote,
    PutUsage,
    TrashEntry,
    Usage,
)
from tests.support.samples import sample_id, sample_memory

FILE = NoteFile(id=sample_id(900), root=sample_id(901), path="a.md")
LONG = MEMORIES_A_TURN + 20  # chunks: two turns


class NoteShelf:
    """A store that has taken the changes given to it."""

    def __init__(self) -> None:
        self.memories: dict[str, Memory] = {}
        self.usages: dict[str, Usage] = {}
        self.epoch = 0
        self.file: NoteFile | None = None
        self.ids = itertools.count(1)

    def new_id(self) -> str:
        return sample_id(next(self.ids))

    def memory(self, memory_id: str) -> Memory | None:
        return self.memories.get(memory_id)

    def usage(self, memory_id: str) -> Usage | None:
        return self.usages.get(memory_id)

    def edges(self, memory_id: str) -> list[Edge]:
        return []

    def trash(self, memory_id: str) -> TrashEntry | None:
        return None

    def skips(self, file_id: str) -> frozenset[str]:
        return frozenset()

    def forgotten(self, digest: str) -> ErasedText | None:
        return None

    def forgotten_after(self, after: str = "", limit: int = 1) -> list[ErasedText]:
        return []

    def meta(self, name: str) -> str:
        return str(self.epoch) if name == "epoch" else ""

    def take(self, changes: list[Change]) -> None:
        for change in changes:
            match change:
                case PutMemory(data=memory):
                    self.memories[memory.id] = memory
                case PutUsage(data=usage):
                    self.usages[usage.id] = usage
                case PutNote(data=file):
                    self.file = file
                case _:
                    pass

    def read(self, importance: float | None, *, turns: int = 2, text: str = "text") -> bool:
        """Writes the first turns of a long file that gives its chunks that importance; whether there was anything to
        be looked at later."""
        chunks = tuple(NoteChunk(f"{text} {at}", f"hash of {text} {at}", (), (), at, at) for at in range(LONG))
        reading = NoteContent(msgspec.structs.replace(FILE, importance=importance), chunks, "default", None, 0, True)
        known = {each.id: ChunkText("", (), each.content) for each in self.memories.values()}
        planned = note_sync.plan_note(reading, self.file, known)
        progress: NotePlanProgress | None = NotePlanProgress()
        is_looked_at_later = False
        for _ in range(turns):
            if progress is not None:
                decided = note_sync.decide_note_changes(planned, progress, self, 5, self.new_id)
                self.take(decided.changes)
                progress, is_looked_at_later = decided.progress, is_looked_at_later or decided.needs_backfill
        return is_looked_at_later

    def score(self, importance: float) -> None:
        """Write the later findings about every chunk."""
        for memory in list(self.memories.values()):
            self.memories[memory.id] = msgspec.structs.replace(memory, importance=importance)

    def importances(self) -> list[float]:
        assert self.file is not None
        return [self.memories[ref.memory].importance for ref in self.file.chunks]


def test_a_score_stays_while_the_text_is_unchanged() -> None:
    shelf = NoteShelf()
    assert shelf.read(None)
    shelf.score(0.7)
    assert not shelf.read(None)
    assert shelf.importances() == [0.7] * LONG


def test_the_strength_of_a_chunk_follows_its_file_from_the_epoch_of_its_text() -> None:
    shelf = NoteShelf()
    shelf.epoch = 3
    shelf.read(None)
    first, second = (sample_id(number) for number in (1, 2))
    shelf.usages[second] = Usage(id=second, strength=0.53, strength_epoch=3, access_count=1)
    shelf.epoch = 7
    shelf.read(0.9)
    assert shelf.usages[first] == Usage(id=first, strength=0.9, strength_epoch=3)  # nobody has used it
    assert shelf.usages[second] == Usage(id=second, strength=0.53, strength_epoch=3, access_count=1)
    shelf.read(0.9, text="another text")
    assert shelf.usages[second] == Usage(id=second, strength=0.9, strength_epoch=7, access_count=1)


def test_an_importance_no_longer_given_by_the_file_is_dropped_after_any_interruption() -> None:
    shelf = NoteShelf()
    assert shelf.read(0.9)
    assert shelf.importances() == [0.9] * LONG
    assert shelf.read(None, turns=1)
    assert shelf.importances() == [0.5] * MEMORIES_A_TURN + [0.9] * 20
    assert shelf.file is not None
    assert shelf.file.importance == 0.9, "the chunks that wait have it still"
    assert shelf.read(None)
    assert shelf.importances() == [0.5] * LONG
    assert shelf.file.importance is None


def test_an_importance_first_given_during_an_interruption_is_dropped_too() -> None:
    shelf = NoteShelf()
    shelf.read(None)
    shelf.score(0.7)
    shelf.read(0.9, turns=1)
    assert shelf.importances() == [0.9] * MEMORIES_A_TURN + [0.7] * 20
    shelf.read(None)
    assert shelf.importances() == [0.5] * LONG


@pytest.mark.parametrize(
    ("before", "after", "is_begun_anew"),
    [
        (None, {}, True),
        ({"content": "Other words."}, {}, True),
        ({"content": "Other words."}, {"importance": 0.9}, True),
        ({"importance": 0.9}, {"importance": 0.5}, True),
        ({"importance": 0.9}, {"importance": 0.5, "importance_source": "user"}, False),
        ({"importance": 0.5}, {"importance": 0.72}, False),
        ({"importance": 0.5}, {"tags": ("a",)}, False),
        ({"state": "trashed"}, {}, False),
    ],
)
def test_a_chunk_is_rescored_with_a_new_text_or_when_its_file_drops_the_importance(
    before: dict[str, Any] | None, after: dict[str, Any], is_begun_anew: bool
) -> None:
    former = None if before is None else sample_memory(1, **before)
    assert note_sync.needs_rescoring(former, sample_memory(1, **after)) is is_begun_anew
