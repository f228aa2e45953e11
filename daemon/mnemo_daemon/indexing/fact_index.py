"""The facts in memory, by the entities that they name: read from their table at first use, then current with commits.

It has no file: the facts of a store are few, and are read in less time than a file would be verified. SPEC 3.1, 10.3
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mnemo_core.knowledge.entity_names import entity_key, entity_keys
from mnemo_core.knowledge.facts import FactState, SourcedFact, resolve_facts
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_store.backend import READ_SLICE
from mnemo_store.records import (
    TRUSTS,
    Change,
    DropFact,
    DropMemory,
    Fact,
    Memory,
    PutFact,
    PutMemory,
    State,
    content_hash,
)
from mnemo_store.store import Commit, Store
from mnemo_store.tables import FACTS

FACTS_MAX = 200_000  # in memory, some 2 KB each
NAMED_MAX = 256  # facts that name one entity and are followed, the newest
KEYS_MAX = 64  # entities that one look-up by words finds

HOLDING_STATES = ("active", "archived")  # of memories whose facts hold
WITHDRAWN_STATES = ("superseded", "compressed")  # of memories whose facts are history


class FactScope(NamedTuple):
    """The facts that a request sees. No namespaces: those of all."""

    namespaces: tuple[str, ...]
    user_id: str | None  # None: those of all
    sees_sensitive: bool
    now: int  # ms


class _Source(NamedTuple):
    """The memory of facts, as far as it decides whether they hold."""

    content_hash: str  # in hexadecimal
    namespace: str
    user_id: str
    state: State
    trust: int
    is_sensitive: bool
    expires_at: int


class _Tables:
    """The facts by id, memory, subject, entity and word."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.sources: dict[str, _Source] = {}
        self.by_memory: dict[str, dict[str, None]] = {}
        self.by_subject: dict[str, dict[str, None]] = {}
        self.by_entity: dict[str, dict[str, None]] = {}
        self.entities_by_word: dict[str, dict[str, None]] = {}
        self.is_full = False

    def add(self, fact: Fact, memory: Memory | None) -> None:
        """Adds a fact; memory: its own, where that is not known yet."""
        self.remove(fact.id)
        if len(self.facts) >= FACTS_MAX:
            self.is_full = True
            return
        self.facts[fact.id] = fact
        self.by_memory.setdefault(fact.memory, {})[fact.id] = None
        self.by_subject.setdefault(entity_key(fact.subject), {})[fact.id] = None
        for key in _keys_of(fact):
            named = self.by_entity.setdefault(key, {})
            named[fact.id] = None
            if len(named) == 1:
                for word in key.split():
                    self.entities_by_word.setdefault(word, {})[key] = None
        if memory is not None:
            self.sources[fact.memory] = _source_of(memory)

    def remove(self, fact_id: str) -> None:
        fact = self.facts.pop(fact_id, None)
        if fact is None:
            return
        if not _discard(self.by_memory, fact.memory, fact_id):
            self.sources.pop(fact.memory, None)
        _discard(self.by_subject, entity_key(fact.subject), fact_id)
        for key in _keys_of(fact):
            if not _discard(self.by_entity, key, fact_id):
                for word in key.split():
                    _discard(self.entities_by_word, word, key)

    def apply(self, changes: Iterable[Change], memory_of: Callable[[str], Memory | None]) -> None:
        for change in changes:
            match change:
                case PutFact(data=fact):
                    self.add(fact, memory_of(fact.memory))
                case DropFact(id=fact_id):
                    self.remove(fact_id)
                case PutMemory(data=memory) if memory.id in self.sources:
                    self.sources[memory.id] = _source_of(memory)
                case DropMemory(id=memory_id):
                    for fact_id in list(self.by_memory.get(memory_id, ())):
                        self.remove(fact_id)
                case _:
                    pass


class FactIndex:
    """The index. Any thread may read it; commits come from the writer thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loading = threading.Lock()
        self._lock = threading.Lock()
        self._tables: _Tables | None = None
        self._late: list[Commit] | None = None  # commits during a load
        store.on_commit(self._on_commit)
        store.on_row_ids_reset(self.clear)

    def clear(self) -> None:
        """Forget everything; it is read again when it is asked for next."""
        with self._lock:
            self._tables = self._late = None

    def is_empty(self) -> bool:
        """Return whether there are no facts at all."""
        return not self._loaded().facts

    def is_known(self, key: str) -> bool:
        """Return whether a fact names the entity."""
        return key in self._loaded().by_entity

    def is_full(self) -> bool:
        """Return whether there are more facts than are kept in memory."""
        return self._loaded().is_full

    def entities_with(self, words: Sequence[str]) -> list[str]:
        """The entities whose names have all of the words, the shortest names first."""
        tables = self._loaded()
        with self._lock:
            some = min((tables.entities_by_word.get(word, {}) for word in words), key=len, default={})
            found = [key for key in some if set(words) <= set(key.split())]
        return sorted(found, key=lambda key: (len(key), key))[:KEYS_MAX]

    def named(self, keys: Iterable[str], scope: FactScope, states: Sequence[str] = HOLDING_STATES) -> list[Fact]:
        """The facts in scope that name one of the entities, of memories in these states, the newest first."""
        tables = self._loaded()
        with self._lock:
            ids = {fact_id: None for key in keys for fact_id in tables.by_entity.get(key, ())}
            facts = [tables.facts[fact_id] for fact_id in ids]
            found = [fact for fact in facts if _is_seen(tables, fact, scope, states)]
        return sorted(found, key=lambda fact: (fact.valid_from, fact.id), reverse=True)

    def of_subject(self, subject: str, scope: FactScope, states: Sequence[str] = HOLDING_STATES) -> list[Fact]:
        """The facts in scope about a subject, of memories in these states, in the order of their ids."""
        tables = self._loaded()
        with self._lock:
            facts = [tables.facts[fact_id] for fact_id in tables.by_subject.get(entity_key(subject), ())]
            found = [fact for fact in facts if _is_seen(tables, fact, scope, states)]
        return sorted(found, key=lambda fact: fact.id)

    def all(self, scope: FactScope, states: Sequence[str] = HOLDING_STATES) -> list[Fact]:
        """Every fact in scope, of memories in these states, in the order of their ids."""
        tables = self._loaded()
        with self._lock:
            found = [fact for fact in tables.facts.values() if _is_seen(tables, fact, scope, states)]
        return sorted(found, key=lambda fact: fact.id)

    def states_of(self, facts: Sequence[Fact], scope: FactScope, at: int) -> dict[str, FactState]:
        """By id, the facts that had begun by `at` (ms), as they stand then among all that is said of their subjects."""
        subjects = {entity_key(fact.subject): fact.subject for fact in facts}
        about = {fact.id: fact for subject in subjects.values() for fact in self.of_subject(subject, scope)}
        tables = self._loaded()
        sourced = [SourcedFact(fact, tables.sources[fact.memory].trust) for fact in about.values()
                   if fact.memory in tables.sources]  # fmt: skip
        return {state.fact.id: state for state in resolve_facts(sourced, at)}

    def open_facts(self, key: str, scope: FactScope) -> list[Fact]:
        """The facts in scope that name an entity and are open now, the newest first."""
        facts = self.named((key,), scope)[:NAMED_MAX]
        states = self.states_of(facts, scope, scope.now)
        return [fact for fact in facts if fact.id in states and states[fact.id].is_open]

    def _loaded(self) -> _Tables:
        tables = self._tables
        if tables is not None:
            return tables
        with self._loading:
            while (tables := self._tables) is None:
                with self._lock:
                    late: list[Commit] = []
                    self._late = late
                tables = self._read()
                with self._lock:
                    # Once more where it was cleared meanwhile, or a commit came of which nobody knows the changes.
                    if self._late is late and all(self._apply(tables, commit) for commit in late):
                        self._tables, self._late = tables, None
            return tables

    def _read(self) -> _Tables:
        tables, after = _Tables(), b""
        while True:
            with self._store.snapshot() as snapshot:
                facts = snapshot.scan(FACTS, after)
                for fact in facts:
                    tables.add(fact, None if fact.memory in tables.sources else snapshot.memory(fact.memory))
            if len(facts) < READ_SLICE:
                return tables
            after = FACTS.key.of(facts[-1])

    def _on_commit(self, commit: Commit) -> None:
        with self._lock:
            if self._late is not None:
                self._late.append(commit)
            elif self._tables is not None and not self._apply(self._tables, commit):
                self._tables = None

    def _apply(self, tables: _Tables, commit: Commit) -> bool:
        """Apply a commit; return whether its changes are known."""
        if commit.changes is None:
            return False
        memories = {change.data.id: change.data for change in commit.changes if isinstance(change, PutMemory)}

        def memory_of(memory_id: str) -> Memory | None:
            if memory_id in memories:
                return memories[memory_id]
            with self._store.snapshot() as snapshot:
                return snapshot.memory(memory_id)

        tables.apply(commit.changes, memory_of)
        return True


def _keys_of(fact: Fact) -> Iterable[str]:
    return dict.fromkeys((*entity_keys(fact.subject), *entity_keys(fact.object)))


def _source_of(memory: Memory) -> _Source:
    return _Source(
        content_hash(memory.content).hex(), memory.namespace, memory.user_id, memory.state,
        TRUSTS.index(memory.trust), SENSITIVE_TAG in memory.tags, memory.expires_at,
    )  # fmt: skip


def _is_seen(tables: _Tables, fact: Fact, scope: FactScope, states: Sequence[str]) -> bool:
    """Return whether a fact is in scope and its memory, in one of these states, still has the text that states it."""
    source = tables.sources.get(fact.memory)
    return (
        source is not None
        and source.content_hash == fact.content_hash
        and source.state in states
        and not 0 < source.expires_at <= scope.now
        and (scope.sees_sensitive or not source.is_sensitive)
        and scope.user_id in (None, source.user_id)
        and (not scope.namespaces or source.namespace in scope.namespaces)
    )


def _discard(table: dict[str, dict[str, None]], key: str, value: str) -> bool:
    """Remove a value from under a key, and the key with its last value; return whether others are left."""
    values = table.get(key)
    if values is None:
        return False
    values.pop(value, None)
    if not values:
        del table[key]
    return bool(values)
