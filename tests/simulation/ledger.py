"""The required content of a store, in plain dicts: every acknowledged transaction, and what may be there besides."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import msgspec

from mnemo_store import records
from mnemo_store.backend import Snapshot
from mnemo_store.errors import UnknownOutcome
from mnemo_store.records import Change, ChangeEntry, Edge, ErasedText, Memory, NoteFile, NoteRoot, TrashEntry, Usage
from mnemo_store.tables import BOOKKEEPING, BY_CHANGE, BY_NAME, EDGES, SKIPS, USAGE, Table, record_in
from tests.support.table_records import GENERIC

ALL = 100_000  # more rows than any table of a simulated store has
CANDIDATES_MAX = 256  # states that may all be true; more means that nobody can tell anything any more

Versions = tuple[tuple[int, Memory], ...]  # each with the seq that made it, oldest first


class Wrong(AssertionError):
    """The store is not as it must be."""


class UndecidedWrite(AssertionError):
    """So many writes have an unknown outcome that no state of the store is known any more."""


@dataclass(frozen=True)
class State:
    """Everything a store holds but vectors and numbers. Never changed: `after` gives another one."""

    seq: int = 0
    memories: dict[str, Versions] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    trash: dict[str, TrashEntry] = field(default_factory=dict)
    edges: dict[tuple[str, str, str], Edge] = field(default_factory=dict)
    notes: dict[str, NoteFile] = field(default_factory=dict)
    roots: dict[str, NoteRoot] = field(default_factory=dict)
    skips: frozenset[tuple[str, str]] = frozenset()
    forgotten: dict[str, ErasedText] = field(default_factory=dict)
    metas: dict[str, str] = field(default_factory=dict)
    others: dict[tuple[str, ...], Any] = field(default_factory=dict)  # of tables of which a life knows nothing special
    entries: dict[int, ChangeEntry] = field(default_factory=dict)

    def memory(self, memory_id: str) -> Memory | None:
        versions = self.memories.get(memory_id)
        return versions[-1][1] if versions else None

    def current(self) -> Iterator[Memory]:
        """In the order of the ids."""
        return (self.memories[memory_id][-1][1] for memory_id in sorted(self.memories))

    def after(self, changes: Sequence[Change], entry: ChangeEntry) -> "State":
        """The state behind one more transaction."""
        state = replace(
            self, seq=self.seq + 1, memories=dict(self.memories), usage=dict(self.usage), trash=dict(self.trash),
            edges=dict(self.edges), notes=dict(self.notes), roots=dict(self.roots), forgotten=dict(self.forgotten),
            metas=dict(self.metas), others=dict(self.others), entries=dict(self.entries),
        )  # fmt: skip
        for change in changes:
            state = state._changed(change)
        changed = [
            change.data.id if isinstance(change, records.PutMemory) else change.id for change in changes
            if isinstance(change, records.PutMemory | records.PutScore | records.DropMemory)
        ]  # fmt: skip
        used = [change.data.id for change in changes if isinstance(change, records.PutUsage)]
        named = msgspec.structs.replace(entry, ids=tuple(dict.fromkeys(changed)), used=tuple(dict.fromkeys(used)))
        state.entries[state.seq] = named
        return state

    def _changed(self, change: Change) -> "State":  # noqa: C901 - flat: one case a change
        match change:
            case records.PutMemory(data=memory):
                before = tuple(row for row in self.memories.get(memory.id, ()) if row[0] != self.seq)
                self.memories[memory.id] = (*before, (self.seq, memory))
            case records.PutScore(id=memory_id, importance=importance):
                if rows := self.memories.get(memory_id):
                    seq, memory = rows[-1]
                    scored = msgspec.structs.replace(memory, importance=importance)
                    self.memories[memory_id] = (*rows[:-1], (seq, scored))
            case records.DropMemory(id=memory_id):
                for table in (self.memories, self.usage, self.trash):
                    table.pop(memory_id, None)
                for edge_key in [key for key, edge in self.edges.items() if _belongs_to(memory_id, EDGES, edge)]:
                    del self.edges[edge_key]
                for other in [key for key, it in self.others.items() if _belongs_to(memory_id, BY_NAME[key[0]], it)]:
                    del self.others[other]
            case records.PutUsage(data=usage):
                self.usage[usage.id] = usage
            case records.PutTrash(data=trashed):
                self.trash[trashed.id] = trashed
            case records.DropTrash(id=memory_id):
                self.trash.pop(memory_id, None)
            case records.PutEdge(data=edge):
                self.edges[edge.source, edge.target, edge.relation] = edge
            case records.DropEdge(source=source, target=target, relation=relation):
                self.edges.pop((source, target, relation), None)
            case records.PutNote(data=note):
                self.notes[note.id] = note
            case records.DropNote(id=file_id):
                self.notes.pop(file_id, None)
            case records.PutRoot(data=root):
                self.roots[root.id] = root
            case records.DropRoot(id=root_id):
                self.roots.pop(root_id, None)
            case records.PutSkip(data=skip):
                return replace(self, skips=self.skips | {(skip.file, skip.hash)})
            case records.DropSkip(file=file, hash=digest):
                return replace(self, skips=self.skips - {(file, digest)})
            case records.PutErasedText(data=forgotten):
                self.forgotten[forgotten.hash] = forgotten
            case records.DropErasedText(hash=digest):
                self.forgotten.pop(digest, None)
            case records.PutMeta(name=name, value=value):
                self.metas[name] = value
            case _:
                of = BY_CHANGE[type(change)]
                key = (of.name, *of.key.values_of(getattr(change, "data", change)))
                if type(change) is of.put:
                    self.others[key] = record_in(of, change)
                else:
                    self.others.pop(key, None)
        return self

    def compacted(self, oldest: int) -> "State":
        """Without the versions that were replaced before the change `oldest`, and the entries that made none left."""
        memories = {}
        for memory_id, versions in self.memories.items():
            following = [*(seq for seq, _ in versions[1:]), oldest]
            memories[memory_id] = tuple(
                version for version, until in zip(versions, following, strict=True)
                if until >= oldest or version is versions[-1]
            )  # fmt: skip
        made = {seq for versions in memories.values() for seq, _ in versions}
        entries = {seq: entry for seq, entry in self.entries.items() if seq >= oldest or seq in made}
        return replace(self, memories=memories, entries=entries)

    def at(self, seq: int) -> dict[str, Memory]:
        """Each memory's version after that transaction."""
        found = {}
        for memory_id, versions in self.memories.items():
            made = [memory for by, memory in versions if by <= seq]
            if made:
                found[memory_id] = made[-1]
        return found


def _belongs_to(memory_id: str, table: Table[Any], record: Any) -> bool:
    return any(parent.table == "memories" and getattr(record, parent.field) == memory_id for parent in table.parents)


def state_of(snapshot: Snapshot) -> State:
    """The content of a store."""
    memories = {memory.id: tuple(snapshot.versions(memory.id)) for memory in snapshot.memories(limit=ALL)}
    return State(
        seq=snapshot.seq,
        memories={key: tuple((row.seq, row.memory) for row in rows) for key, rows in memories.items()},
        usage={usage.id: usage for usage in snapshot.scan(USAGE, limit=ALL)},
        trash={entry.id: entry for entry in snapshot.trash_entries(limit=ALL)},
        edges={(edge.source, edge.target, edge.relation): edge for edge in snapshot.scan(EDGES, limit=ALL)},
        notes={note.id: note for note in snapshot.notes(limit=ALL)},
        roots={root.id: root for root in snapshot.roots()},
        skips=frozenset((skip.file, skip.hash) for skip in snapshot.scan(SKIPS, limit=ALL)),
        forgotten={row.hash: row for row in snapshot.forgotten_after(limit=ALL)},
        metas={name: value for name, value in snapshot.metas().items() if name not in BOOKKEEPING},
        others={
            (table.name, *table.key.values_of(record)): record
            for table in GENERIC for record in snapshot.scan(table, limit=ALL)
        },
        entries=dict(snapshot.entries(0, limit=ALL)),
    )  # fmt: skip


def differences(found: State, expected: State) -> list[str]:
    """The differences, in words."""
    wrong = []
    for one in fields(State):
        here, there = getattr(found, one.name), getattr(expected, one.name)
        if here == there:
            continue
        if isinstance(here, dict):
            keys = [key for key in sorted({*here, *there}, key=str) if here.get(key) != there.get(key)]
            wrong += [
                f"{one.name} {key}: found {here.get(key)!s:.400}, expected {there.get(key)!s:.400}" for key in keys
            ]
        else:
            wrong.append(f"{one.name}: found {here!r:.300}, expected {there!r:.300}")
    return wrong


class LedgerEntry(NamedTuple):
    """A transaction as it was decided, and the answer to its writer: a seq, or an error."""

    changes: tuple[Change, ...]
    entry: ChangeEntry
    seq: int | None
    error: BaseException | None


class Ledger:
    """The states of which one is the store's. Several while the outcome of a write is unknown."""

    def __init__(self) -> None:
        self.possible: list[State] = [State()]
        self.past: dict[int, State] = {0: State()}  # by seq, as far as the journal has it all

    @property
    def state(self) -> State:
        """The one state, or, of several, the one where nothing of unknown outcome is there."""
        return self.possible[0]

    @property
    def is_sure(self) -> bool:
        return len(self.possible) == 1

    def take(self, group: Sequence[LedgerEntry]) -> None:
        """Take the results of a group of transactions, in the order in which they were decided."""
        for written in group:
            if written.error is None and written.seq:
                self._acknowledge(written)
        unknown = [written for written in group if written.changes and _is_unknown(written.error)]
        if unknown:
            self._fork(unknown)

    def doubt(self, act: Callable[[State], State]) -> None:
        """Something was done, or was not."""
        self._hold([*self.possible, *map(act, self.possible)])

    def become(self, act: Callable[[State], State]) -> None:
        """Something was done."""
        self.possible = list(map(act, self.possible))

    def settle(self, found: State) -> None:
        """The store was reopened: what it holds is one of the states, and from now on the only one."""
        if found not in self.possible:
            raise Wrong("\n".join(["the store holds something else:", *differences(found, self._nearest(found))[:12]]))
        self.possible = [found]
        self._remember()

    def agree(self, found: State) -> None:
        """The store shows one of the states."""
        if found not in self.possible:
            raise Wrong("\n".join(["the store shows something else:", *differences(found, self._nearest(found))[:12]]))

    def _acknowledge(self, written: LedgerEntry) -> None:
        fitting = [state for state in self.possible if state.seq + 1 == written.seq]
        if not fitting:
            seqs = [state.seq for state in self.possible]
            raise Wrong(f"change {written.seq} was acknowledged ({written.entry.what}), and the store was at {seqs}")
        self.possible = [state.after(written.changes, written.entry) for state in fitting]
        self._remember()

    def _remember(self) -> None:
        """States of unknown outcome have no past: their numbers do not identify the changes after them."""
        if len(self.possible) > 1:
            self.past.clear()
        elif self.past:
            self.past[self.state.seq] = self.state

    def _fork(self, unknown: Sequence[LedgerEntry]) -> None:
        """Of a group whose outcome is unknown any beginning may be there."""
        states = list(self.possible)
        for state in self.possible:
            for written in unknown:
                state = state.after(written.changes, written.entry)
                states.append(state)
        self._hold(states)

    def _hold(self, states: Sequence[State]) -> None:
        self.possible = []
        for state in states:
            if state not in self.possible:
                self.possible.append(state)
        if len(self.possible) > CANDIDATES_MAX:
            raise UndecidedWrite(f"{len(self.possible)} states are possible: the simulation lost its way")

    def _nearest(self, found: State) -> State:
        return min(self.possible, key=lambda state: len(differences(found, state)))


def _is_unknown(error: BaseException | None) -> bool:
    """True if a write that ended so may be there all the same: it is unknown, or its writer died."""
    return isinstance(error, UnknownOutcome) or (error is not None and not isinstance(error, Exception))
