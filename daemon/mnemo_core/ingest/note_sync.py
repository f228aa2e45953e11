"""Synchronisation of memories with a note file: which are added, changed, trashed and restored. SPEC 6

A file is read and matched outside the write transaction (`plan_note`), and decided inside it, step by step, on the
current memories (`decide_note_changes`): a person's change in between is neither lost nor overwritten. A long file
takes several transactions; each writes the manifest up to its last step, so that a crash in between loses and
duplicates nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from mnemo_core.decay import UsageReader, epoch_of, initial_usage, present_usage
from mnemo_core.documents.note_diff import ChunkText, manifest_for_texts, match_chunks
from mnemo_core.ingest.classification import Classification, classify
from mnemo_core.ingest.mutations import move_to_trash, rescore_strength
from mnemo_core.ingest.trust import MemoryReader
from mnemo_store.record_texts import normalized_text, skip_hash
from mnemo_store.records import (
    TAGS_MAX,
    Category,
    Change,
    ChunkRef,
    DropEdge,
    DropTrash,
    Edge,
    ErasedText,
    Form,
    Kind,
    Memory,
    NoteFile,
    NotePlace,
    PutMemory,
    PutNote,
    PutUsage,
    TrashEntry,
    default_decay_rate,
)

MEMORIES_A_TURN = 100  # changed in one write turn [SPEC 3.5]
STEPS_A_TURN = 300  # in one write transaction: each costs a read of about 10 µs, and a transaction has 5 ms
IMPORTANCE_UNSCORED = 0.5  # of a chunk whose file gives none, until it is scored [SPEC 5.3]

MemoryClass = tuple[Kind, Form | None, Category]
UNCLASSIFIED: MemoryClass = ("semantic", None, "fact")  # of chunks that no rule has classified

# Reasons why a chunk is in the trash. The chunk is restored when its reason no longer holds; a chunk that a person
# deleted is not.
WHY_FILE_GONE = "its note was deleted"
WHY_TEXT_GONE = "it was taken out of its note"
WHY_LEFT_OUT = "its note says memory: false"
WHY_ROOT_REMOVED = "its notes folder was removed"
TRASH_REASONS = frozenset({WHY_FILE_GONE, WHY_TEXT_GONE, WHY_LEFT_OUT, WHY_ROOT_REMOVED})


class NoteChunk(NamedTuple):
    """A chunk as it stands in a file now."""

    text: str
    hash: str
    headings: tuple[str, ...]
    tags: tuple[str, ...]
    first_line: int
    last_line: int
    date: int | None = None  # ms, of the heading above it or of a timestamp in it; None: the file's


class NoteContent(NamedTuple):
    """A file as it was read. `file` is its manifest to be, but for the chunks."""

    file: NoteFile
    chunks: tuple[NoteChunk, ...]
    namespace: str
    date: int | None  # ms, that the file gives for all of it; None: it gives none
    modified: int  # ms, of the file
    remembered: bool  # False: the front matter says `memory: false`
    has_noise: bool = False  # some passages say nothing and are left out


class ChunkStep(NamedTuple):
    """One chunk to settle: before (None: new) and after (None: gone). classification, previous_classification: by rule,
    of a new text and of the former one."""

    before: ChunkRef | None
    after: NoteChunk | None
    classification: Classification | None = None
    previous_classification: Classification | None = None


class NotePlan(NamedTuple):
    """The steps that bring the memories of a file to what was read, in file order, those of gone chunks last."""

    reading: NoteContent
    steps: tuple[ChunkStep, ...]
    why: str = WHY_TEXT_GONE  # of chunks that are gone
    before: NoteFile | None = None  # the manifest the plan was made from; if it has changed, the file is planned again


class NotePlanProgress(NamedTuple):
    """Progress of a plan: the next step, the references settled so far, and the steps whose text was erased."""

    next_step: int = 0
    refs: tuple[ChunkRef, ...] = ()
    forgotten: tuple[int, ...] = ()


class NoteSnapshot(UsageReader, MemoryReader, Protocol):
    """Read access to the store that these decisions need."""

    def edges(self, memory_id: str) -> list[Edge]: ...
    def trash(self, memory_id: str) -> TrashEntry | None: ...
    def skips(self, file_id: str) -> frozenset[str]: ...
    def forgotten(self, digest: str) -> ErasedText | None: ...
    def forgotten_after(self, after: str = "", limit: int = ...) -> Sequence[ErasedText]: ...


class NoteChanges(NamedTuple):
    changes: list[Change]
    progress: NotePlanProgress | None  # None: the plan is done
    file: NoteFile  # the manifest that was written
    needs_backfill: bool  # it has a chunk to be scored and compared once it has its vector


def plan_note(reading: NoteContent, before: NoteFile | None, texts: Mapping[str, ChunkText]) -> NotePlan:
    """The steps for a file that was read. `texts` has the old chunks' texts by memory id, as far as they exist. With
    `memory: false` every chunk goes to the trash but stays in the manifest, to come back with the flag's end."""
    old = before.chunks if before is not None else ()
    if not reading.remembered:
        return NotePlan(reading, tuple(ChunkStep(ref, None) for ref in old), WHY_LEFT_OUT, before)
    known = [texts.get(ref.memory) or ChunkText(ref.hash, (), "") for ref in old]
    known = [text._replace(hash=ref.hash) for text, ref in zip(known, old, strict=True)]
    matched = match_chunks(known, [ChunkText(c.hash, c.headings, c.text) for c in reading.chunks])
    taken = {index for index in matched if index is not None}
    steps = []
    for chunk, index in zip(reading.chunks, matched, strict=True):
        if index is None:
            steps.append(ChunkStep(None, chunk, _route(chunk.text)))
        elif old[index].hash == chunk.hash:
            steps.append(ChunkStep(old[index], chunk))
        else:
            steps.append(ChunkStep(old[index], chunk, _route(chunk.text), _route(known[index].text)))
    steps += [ChunkStep(ref, None) for index, ref in enumerate(old) if index not in taken]
    return NotePlan(reading, tuple(steps), before=before)


def _route(text: str) -> Classification:
    return classify(text, from_note=True)


def plan_missing_note(file: NoteFile, why: str) -> NotePlan:
    """The steps for a file that is gone: all its chunks go to the trash and stay in its manifest."""
    gone = msgspec.structs.replace(file, missing=True)
    reading = NoteContent(gone, (), "", None, 0, remembered=False)
    return NotePlan(reading, tuple(ChunkStep(ref, None) for ref in file.chunks), why, file)


def fits_one_turn(planned: NotePlan) -> bool:
    """Return whether the plan fits in one write transaction."""
    return len(planned.steps) <= MEMORIES_A_TURN


def decide_note_changes(
    planned: NotePlan, progress: NotePlanProgress, store: NoteSnapshot, now: int, new_id: Callable[[], str]
) -> NoteChanges:
    """The changes of the next slice of a plan, the manifest's own included, and what is left of it."""
    reading = planned.reading
    skips = store.skips(reading.file.id)
    forgets = bool(store.forgotten_after(limit=1))
    salt = store.meta("salt") if skips or forgets else ""
    changes: list[Change] = []
    refs, forgotten = list(progress.refs), list(progress.forgotten)
    index, memories, needs_backfill = progress.next_step, 0, False
    last = min(len(planned.steps), index + STEPS_A_TURN)
    while index < last and memories < MEMORIES_A_TURN:
        step = planned.steps[index]
        if step.after is None:
            assert step.before is not None
            changed = _gone(step.before, planned.why, store, now)
            if planned.why != WHY_TEXT_GONE and store.memory(step.before.memory) is not None:
                refs.append(step.before)
        else:
            digest = skip_hash(salt, step.after.text) if salt else ""
            if forgets and store.forgotten(digest) is not None and not _is_text_of(step.before, step.after, store):
                forgotten.append(index)
                ref, changed = _forgotten(step, store, now)
            else:
                ref, changed = _present(planned, step, store, now, new_id, skipped=digest in skips)
            if ref is not None:
                refs.append(ref)
        changes += changed
        needs_backfill |= any(_needs_backfill(change, store) for change in changed)
        memories += any(isinstance(change, PutMemory) for change in changed)
        index += 1
    progressed = NotePlanProgress(index, tuple(refs), tuple(forgotten))
    is_done = index == len(planned.steps)
    file = _manifest(planned, progressed, forgets=forgets)
    changes.append(PutNote(data=file))
    return NoteChanges(changes, None if is_done else progressed, file, needs_backfill)


def _manifest(planned: NotePlan, progress: NotePlanProgress, *, forgets: bool) -> NoteFile:
    """The manifest up to the current step. Text of the file outside its chunks may have been erased with one of
    them."""
    reading = planned.reading
    if progress.next_step == len(planned.steps):
        file = msgspec.structs.replace(reading.file, chunks=progress.refs)
        kept = (step.after for at, step in enumerate(planned.steps) if at not in progress.forgotten)
        return manifest_for_texts(file, [chunk.text for chunk in kept if chunk]) if progress.forgotten else file
    waiting = [step.before for step in planned.steps[progress.next_step :] if step.before is not None]
    file = msgspec.structs.replace(reading.file, chunks=(*progress.refs, *waiting), missing=False)
    if file.importance is None and planned.before is not None:  # which those that wait may have still
        file = msgspec.structs.replace(file, importance=planned.before.importance)
    if not reading.file.missing:
        file = msgspec.structs.replace(file, hash="", mtime_ns=0, size=0)
    return msgspec.structs.replace(file, title="", links=()) if forgets else file


def _is_text_of(ref: ChunkRef | None, chunk: NoteChunk, store: NoteSnapshot) -> bool:
    """Return whether the chunk's memory has this text already: it was erased elsewhere, and kept here."""
    memory = store.memory(ref.memory) if ref is not None else None
    return memory is not None and normalized_text(memory.content) == normalized_text(chunk.text)


def _forgotten(step: ChunkStep, store: NoteSnapshot, now: int) -> tuple[ChunkRef | None, Sequence[Change]]:
    """The reference and changes of a chunk whose text was erased: it is treated as not in the file."""
    memory = store.memory(step.before.memory) if step.before is not None else None
    if step.before is None or memory is None:
        return None, []
    if memory.state == "trashed":
        return step.before, []
    return None, _gone(step.before, WHY_TEXT_GONE, store, now)


def _present(
    planned: NotePlan, step: ChunkStep, store: NoteSnapshot, now: int, new_id: Callable[[], str], *, skipped: bool
) -> tuple[ChunkRef | None, list[Change]]:
    """The reference and changes of a chunk that stands in the file."""
    reading, chunk, ref = planned.reading, step.after, step.before
    assert chunk is not None
    memory = store.memory(ref.memory) if ref is not None else None
    if ref is None or memory is None:
        if skipped:
            return None, []
        memory_id = new_id()
        sort = step.classification or _route(chunk.text)
        date = _date(reading, chunk)
        added = Memory(
            id=memory_id, content=chunk.text, created_at=now, modified_at=now,
            event_at=reading.modified if date is None else date,
            kind=sort.kind, form=sort.form, category=sort.category, layer="working",
            importance=IMPORTANCE_UNSCORED if reading.file.importance is None else reading.file.importance,
            decay_rate=default_decay_rate("working", sort.kind), trust="note", source="note", tags=chunk.tags,
            namespace=reading.namespace, managed=reading.file.id, note=_place(reading, chunk),
        )  # fmt: skip
        return _ref(chunk, memory_id), [PutMemory(data=added), PutUsage(data=initial_usage(added, epoch_of(store)))]
    kept = _ref(chunk, ref.memory)
    restored: list[Change] = []
    state = memory.state
    if memory.state == "trashed":
        entry = store.trash(memory.id)
        if skipped or (chunk.hash == ref.hash and (entry is None or entry.why not in TRASH_REASONS)):
            return kept, []
        state = entry.state if entry is not None else "active"
        restored.append(DropTrash(id=memory.id))
    after = msgspec.structs.replace(_updated(planned, step, memory, ref), state=state)
    if after == memory:
        return kept, []
    after = msgspec.structs.replace(after, version=memory.version + 1, modified_at=now)
    changes: list[Change] = [PutMemory(data=after), *restored]
    if after.content != memory.content:
        fresh = msgspec.structs.replace(present_usage(memory, store), strength=after.importance)
        return kept, [*changes, PutUsage(data=fresh), *_former_edges(memory.id, store)]
    return kept, [*changes, *rescore_strength(memory, after, store)]


def _former_edges(memory_id: str, store: NoteSnapshot) -> list[Change]:
    """Drop the edges found for a text that is gone, including incoming ones: a memory that repeated or updated the old
    text may not repeat or update the new one. Links belong to the notes and stay."""
    return [
        DropEdge(source=edge.source, target=edge.target, relation=edge.relation)
        for edge in store.edges(memory_id)
        if not edge.via
    ]


def _gone(ref: ChunkRef, why: str, store: NoteSnapshot, now: int) -> Sequence[Change]:
    """Move the chunk's memory to the trash, unless it is there already."""
    memory = store.memory(ref.memory)
    return () if memory is None or memory.state == "trashed" else move_to_trash(memory, why, now)


def _ref(chunk: NoteChunk, memory_id: str) -> ChunkRef:
    return ChunkRef(memory_id, chunk.hash, chunk.first_line, chunk.last_line, chunk.tags)


def _date(reading: NoteContent, chunk: NoteChunk) -> int | None:
    return reading.date if chunk.date is None else chunk.date


def _place(reading: NoteContent, chunk: NoteChunk) -> NotePlace:
    return NotePlace(title=reading.file.title, headings=chunk.headings, dated=_date(reading, chunk) is not None)


def _updated(planned: NotePlan, step: ChunkStep, memory: Memory, ref: ChunkRef) -> Memory:
    """The memory with what the file says of it now, and with what a person or an agent set kept: a pin, an importance
    of their own, a kind or category other than the rules gave the former text, tags added and tags taken away."""
    reading, chunk = planned.reading, step.after
    assert chunk is not None
    event_at, date = memory.event_at, _date(reading, chunk)
    if date is not None:
        event_at = date
    elif chunk.text != memory.content or (memory.note is not None and memory.note.dated):
        event_at = reading.modified
    importance = memory.importance
    if memory.importance_source == "rule":
        # The file's; else the score, which applies to that text alone and not where the file gave a value.
        was_given = planned.before is not None and planned.before.importance is not None
        score = IMPORTANCE_UNSCORED if was_given or chunk.text != memory.content else memory.importance
        importance = score if reading.file.importance is None else reading.file.importance
    kind, form, category = memory.kind, memory.form, memory.category
    previous = step.previous_classification
    if step.classification is not None and (previous is None or (kind, form, category) in (UNCLASSIFIED, previous[:3])):
        kind, form, category = step.classification[:3]
    if kind != memory.kind:
        memory = msgspec.structs.replace(memory, decay_rate=default_decay_rate(memory.layer, kind))
    return msgspec.structs.replace(
        memory, kind=kind, form=form, category=category, content=chunk.text,
        trust="note" if chunk.text != memory.content else memory.trust, note=_place(reading, chunk),
        namespace=reading.namespace, tags=_merged_tags(memory.tags, ref.tags, chunk.tags), event_at=event_at,
        importance=importance, managed=reading.file.id,
    )  # fmt: skip


def needs_rescoring(before: Memory | None, after: Memory) -> bool:
    """Return whether a chunk must be scored and compared from this version on: its text is new, or its file no longer
    gives an importance."""
    if before is None or before.content != after.content:
        return True
    return is_unscored(after) and before.importance != IMPORTANCE_UNSCORED


def is_unscored(memory: Memory) -> bool:
    """Return whether nobody but the file has set the importance of a chunk."""
    return memory.importance_source == "rule" and memory.importance == IMPORTANCE_UNSCORED


def _needs_backfill(change: Change, store: NoteSnapshot) -> bool:
    if not isinstance(change, PutMemory) or change.data.state == "trashed":
        return False
    return needs_rescoring(store.memory(change.data.id), change.data)


def _merged_tags(have: Sequence[str], given: Sequence[str], gives: Sequence[str]) -> tuple[str, ...]:
    """The tags the file gives now, without those of its former ones that a person took away, and with those that a
    person added."""
    if tuple(have) == tuple(given):
        return tuple(gives)
    taken_away = set(given) - set(have)
    added = [tag for tag in have if tag not in given and tag not in gives]
    kept = [tag for tag in gives if tag not in taken_away]
    return (*kept[: TAGS_MAX - len(added)], *added)
