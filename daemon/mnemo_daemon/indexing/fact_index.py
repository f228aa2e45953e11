"""The facts in memory, by the entities that they name: read from their table at first use, then current with commits.

It has no file: the facts of a store are few, and are read in less time than a file would be verified. SPEC 3.1, 10.3
"""

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mnemo_core.ingest.facts import FactState, GraphFact, entity_key, graph_fact, resolve_facts
from mnemo_core.retrieval.versions import HIDING, is_replaced
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.table_walk import records_of
from mnemo_store.backend import READ_SLICE
from mnemo_store.batches import batched
from mnemo_store.record_texts import content_hash
from mnemo_store.records import (
    TRUSTS,
    Change,
    DropEdge,
    DropFact,
    DropMemory,
    Edge,
    Fact,
    Memory,
    PutEdge,
    PutFact,
    PutMemory,
    State,
)
from mnemo_store.store import Commit, Store
from mnemo_store.tables import FACTS

FACTS_MAX = 200_000  # in memory, some 2 KB each
NAMED_MAX = 256  # facts that name one entity and are followed, or are of one attribute and compete, the newest
KEYS_MAX = 64  # entities that one look-up by words finds

HOLDING_STATES = ("active", "archived")  # of memories whose facts hold
STANDING = (*HOLDING_STATES, *HIDING)  # of memories that end the facts of what they update
WITHDRAWN_STATES = HIDING  # of memories whose facts are history, unless what replaces them is gone


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
    replacements: tuple[tuple[str, int], ...] = ()  # the memories that update it and stand, and when each was said

    @property
    def replaced_at(self) -> int:
        """The time at which it was replaced first, in ms; 0 where it stands."""
        return min((at for _, at in self.replacements), default=0)


class _Tables:
    """The facts by id, memory, entity, attribute and word."""

    def __init__(self) -> None:
        self.facts: dict[str, GraphFact] = {}
        self.terms: dict[str, frozenset[str]] = {}  # of those facts of which somebody asked
        self.sources: dict[str, _Source] = {}  # of those memories of which somebody asked
        self.replaced_by: dict[str, set[str]] = {}  # by the memory that updates them, those of these sources
        self.by_memory: dict[str, dict[str, None]] = {}
        self.by_subject: dict[str, dict[str, None]] = {}
        self.by_value: dict[tuple[str, str], dict[str, None]] = {}  # subject and attribute
        self.by_entity: dict[str, dict[str, None]] = {}
        self.entities_by_word: dict[str, dict[str, None]] = {}
        self.is_full = False

    def add(self, fact: Fact) -> None:
        self.remove(fact.id)
        if len(self.facts) >= FACTS_MAX:
            self.is_full = True
            return
        self.facts[fact.id] = named = graph_fact(fact)
        for table, key in self._places(named):
            table.setdefault(key, {})[fact.id] = None
        for key in (*named.subjects, *named.objects):
            ids = self.by_entity.setdefault(key, {})
            if not ids:
                for word in key.split():
                    self.entities_by_word.setdefault(word, {})[key] = None
            ids[fact.id] = None

    def remove(self, fact_id: str) -> None:
        named = self.facts.pop(fact_id, None)
        if named is None:
            return
        self.terms.pop(fact_id, None)
        for table, place in self._places(named):
            _discard(table, place, fact_id)
        if named.fact.memory not in self.by_memory:
            self.sources.pop(named.fact.memory, None)
        for key in (*named.subjects, *named.objects):
            if not _discard(self.by_entity, key, fact_id):
                for word in key.split():
                    _discard(self.entities_by_word, word, key)

    def _places(self, named: GraphFact) -> Iterator[tuple[dict[Any, dict[str, None]], Any]]:
        yield self.by_memory, named.fact.memory
        yield self.by_subject, named.subjects[0]
        if named.attribute is not None:
            yield self.by_value, (named.subjects[0], named.attribute)

    def last(self, ids: dict[str, None], scope: FactScope) -> list[Fact]:
        """The last NAMED_MAX of these facts that are of a namespace and user in scope."""
        facts = (self.facts[fact_id].fact for fact_id in reversed(ids))
        return list(itertools.islice((fact for fact in facts if _is_of(fact, scope)), NAMED_MAX))

    def apply(self, changes: Iterable[Change]) -> None:
        for change in changes:
            match change:
                case PutFact(data=fact):
                    self.add(fact)
                case DropFact(id=fact_id):
                    self.remove(fact_id)
                case PutMemory(data=memory):
                    self._forget_replaced_by(memory.id)
                    if (known := self.sources.get(memory.id)) is not None:
                        self.sources[memory.id] = _source_of(memory, known.replacements)
                case DropMemory(id=memory_id):
                    self._forget_replaced_by(memory_id)
                    for fact_id in list(self.by_memory.get(memory_id, ())):
                        self.remove(fact_id)
                case (
                    PutEdge(data=Edge(target=target, relation="updates")) | DropEdge(target=target, relation="updates")
                ):
                    self.sources.pop(target, None)
                case _:
                    pass

    def _forget_replaced_by(self, memory_id: str) -> None:
        """Have what the memory updates read anew: it may no longer stand, or stand again."""
        for each in self.replaced_by.pop(memory_id, ()):
            self.sources.pop(each, None)


class FactIndex:
    """The index. Any thread may read it; commits come from the writer thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loading = threading.Lock()
        self._lock = threading.Lock()
        self._tables: _Tables | None = None
        self._late: list[Commit] | None = None  # commits during a load
        store.on_commit(self.follow)
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
        """The facts in scope that name one of the entities, of memories in these states."""
        tables = self._loaded()
        ids = (fact_id for key in keys for fact_id in tables.by_entity.get(key, ()))
        return [each.fact for each in self._seen(tables, ids, scope, states)]

    def of_subject(self, subject: str, scope: FactScope, states: Sequence[str] = HOLDING_STATES) -> list[Fact]:
        """The facts in scope about a subject, of memories in these states."""
        tables = self._loaded()
        ids = tables.by_subject.get(entity_key(subject), ())
        return [each.fact for each in self._seen(tables, ids, scope, states)]

    def all(self, scope: FactScope, states: Sequence[str] = HOLDING_STATES) -> list[Fact]:
        """Every fact in scope, of memories in these states."""
        tables = self._loaded()
        return [each.fact for each in self._seen(tables, tables.facts, scope, states)]

    def states_of(self, facts: Iterable[Fact], scope: FactScope, at: int) -> dict[str, FactState]:
        """By id, these facts and those that compete with them, if they had begun by `at` (ms), as they stand then.

        Of one attribute of a subject the last NAMED_MAX compete.
        """
        tables = self._loaded()
        with self._lock:
            named = [known for fact in facts if (known := tables.facts.get(fact.id)) is not None]
            values = {(each.subjects[0], each.attribute or "") for each in named}
            competing = [fact.id for value in values for fact in tables.last(tables.by_value.get(value, {}), scope)]
        about = self._seen(tables, [*(each.fact.id for each in named), *competing], scope, HOLDING_STATES)
        return {state.fact.id: state for state in resolve_facts(about, at)}

    def open_facts(
        self, key: str, scope: FactScope, bears: Callable[[Fact], bool] = lambda fact: True
    ) -> list[GraphFact]:
        """The facts in scope that name an entity, are open now and for which `bears` holds, the latest first; of the
        last NAMED_MAX."""
        tables = self._loaded()
        with self._lock:
            facts = tables.last(tables.by_entity.get(key, {}), scope)
        seen = self._seen(tables, [fact.id for fact in facts if bears(fact)], scope, HOLDING_STATES)
        states = self.states_of((each.fact for each in seen), scope, scope.now)
        found = [each for each in seen if (state := states.get(each.fact.id)) is not None and state.is_open]
        return sorted(found, key=lambda each: (each.fact.valid_from, each.fact.id), reverse=True)

    def terms_of(self, fact: Fact, read: Callable[[Fact], frozenset[str]]) -> frozenset[str]:
        """The terms of a fact, which `read` gives the first time."""
        tables = self._loaded()
        found = tables.terms.get(fact.id)
        if found is None:
            found = read(fact)
            with self._lock:
                if fact.id in tables.facts:
                    tables.terms[fact.id] = found
        return found

    def _seen(self, tables: _Tables, ids: Iterable[str], scope: FactScope, states: Sequence[str]) -> list[GraphFact]:
        """The facts in scope, of memories in these states that still have the text that states them, by id."""
        with self._lock:
            facts = [known for fact_id in dict.fromkeys(ids) if (known := tables.facts.get(fact_id)) is not None]
            unknown = {each.fact.memory for each in facts} - tables.sources.keys()
        for some in batched(unknown, READ_SLICE):
            # Read memories under the lock, so that no commit comes between; a slice at a time, so that none waits
            # long.
            with self._lock, self._store.snapshot() as snapshot:
                wanted = [memory_id for memory_id in some if memory_id in tables.by_memory]
                for memory in (snapshot.memory(memory_id) for memory_id in wanted):
                    if memory is not None:
                        edges = snapshot.edges(memory.id)
                        updating = [
                            each.source for each in edges if each.relation == "updates" and each.target == memory.id
                        ]
                        standing = (newer for each in updating if (newer := snapshot.memory(each)) is not None)
                        replacements = tuple(
                            (newer.id, min(newer.event_at, newer.created_at))
                            for newer in standing
                            if newer.state in STANDING
                        )
                        tables.sources[memory.id] = _source_of(memory, replacements)
                        for newer_id in updating:  # whether it stands or not
                            tables.replaced_by.setdefault(newer_id, set()).add(memory.id)
        revealed = set[str]()
        if not set(HIDING) <= set(states):
            with self._lock:
                sources = {each.fact.memory: tables.sources.get(each.fact.memory) for each in facts}
            hidden = [memory_id for memory_id, source in sources.items() if source and source.state in HIDING]
            revealed.update(*(self._unreplaced(some, scope.now) for some in batched(hidden, READ_SLICE)))
        found = []
        with self._lock:
            for each in facts:
                source = tables.sources.get(each.fact.memory)
                shown = (*states, *HIDING) if each.fact.memory in revealed else states
                if source is not None and source.state in shown and _is_seen(source, each.fact, scope):
                    found.append(each._replace(trust=source.trust, replaced_at=source.replaced_at))
        return sorted(found, key=lambda each: each.fact.id)

    def _unreplaced(self, hidden: Sequence[str], now: int) -> set[str]:
        """Those superseded or compressed memories whose replacement is gone: recall shows them again, too. SPEC 7.2

        A compressed one that names no replacement stays hidden: its summaries are not looked for.
        """
        with self._store.snapshot() as snapshot:
            memories = [memory for each in hidden if (memory := snapshot.memory(each)) is not None]
            return {memory.id for memory in memories if not is_replaced(memory, snapshot.memory, (), now)}

    def _loaded(self) -> _Tables:
        tables = self._tables
        if tables is not None:
            return tables
        with self._loading:
            while (tables := self._tables) is None:
                with self._lock:
                    late: list[Commit] = []
                    self._late = late
                tables = _Tables()
                for fact in records_of(self._store, FACTS):
                    tables.add(fact)
                with self._lock:
                    # Once more where it was cleared meanwhile, or a commit came of which nobody knows the changes.
                    if self._late is late and all(_apply(tables, commit) for commit in late):
                        self._tables, self._late = tables, None
            return tables

    def follow(self, commit: Commit) -> None:
        """Take up what a commit changed."""
        with self._lock:
            if self._late is not None:
                self._late.append(commit)
            elif self._tables is not None and not _apply(self._tables, commit):
                self._tables = None


def _apply(tables: _Tables, commit: Commit) -> bool:
    """Apply a commit; return whether its changes are known."""
    if commit.changes is None:
        return False
    tables.apply(commit.changes)
    return True


def _source_of(memory: Memory, replacements: tuple[tuple[str, int], ...]) -> _Source:
    return _Source(
        content_hash(memory.content).hex(), memory.namespace, memory.user_id, memory.state,
        TRUSTS.index(memory.trust), SENSITIVE_TAG in memory.tags, memory.expires_at, replacements,
    )  # fmt: skip


def _is_seen(source: _Source, fact: Fact, scope: FactScope) -> bool:
    """Return whether a fact is in scope and its memory still has the text that states it."""
    return (
        source.content_hash == fact.content_hash
        and not 0 < source.expires_at <= scope.now
        and (scope.sees_sensitive or not source.is_sensitive)
        and _is_of(source, scope)
    )


def _is_of(owned: Fact | _Source, scope: FactScope) -> bool:
    """Return whether the namespace and the user are in scope."""
    return scope.user_id in (None, owned.user_id) and (not scope.namespaces or owned.namespace in scope.namespaces)


def _discard(table: dict[Any, dict[str, None]], key: Any, value: str) -> bool:
    """Remove a value from under a key, and the key with its last value; return whether others are left."""
    values = table.get(key)
    if values is None:
        return False
    values.pop(value, None)
    if not values:
        del table[key]
    return bool(values)
