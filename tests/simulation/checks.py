"""Invariants of a healthy store: the database, the journal and the indexes agree."""

from collections import Counter
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemo_daemon.indexing.index import is_indexed
from mnemo_store.database.environment import Database
from mnemo_store.maintenance import check, journal_diff
from mnemo_store.records import CATEGORIES, KINDS, LAYERS, STATES, TRUSTS, Memory, Usage
from tests.simulation.ledger import Wrong

if TYPE_CHECKING:
    from tests.simulation.life import SimulatedLife

CODED = {"kind": KINDS, "category": CATEGORIES, "layer": LAYERS, "trust": TRUSTS, "state": STATES}
NUMBERS = ("importance", "created_at", "modified_at", "event_at", "expires_at", "decay_rate")
COUNTS = ("access_count", "repetition_count", "last_accessed", "strength")


def everything(life: "SimulatedLife") -> None:
    """All of it, of a store at rest."""
    soundness(life)
    states_agree(life)
    rules_hold(life)
    _vectors_agree(life, views_agree(life))


def soundness(life: "SimulatedLife") -> None:
    """Nothing is missing, and nothing is out of order that should not be."""
    world = life.world
    assert world.daemon is not None
    if world.store.data_losses:
        raise Wrong(f"the store misses something: {world.store.data_losses}")
    if world.daemon.problem() and not life.is_troubled:
        raise Wrong(f"the disk is well, the store is not: {world.daemon.problem()}")


def states_agree(life: "SimulatedLife") -> None:
    """The store shows what it must."""
    life.world.ledger.agree(life.world.found())


def views_agree(life: "SimulatedLife") -> set[int]:
    """A row of the columns for each memory and for nothing else, and each indexed one is found by its words. The
    numbers of those."""
    world = life.world
    assert world.daemon is not None
    columns, words = world.daemon.views.attributes, world.daemon.views.lexical
    with world.store.snapshot() as snapshot:
        memories = snapshot.memories(limit=100_000)
        rows = [(memory, snapshot.usage(memory.id), snapshot.number(memory.id)) for memory in memories]
        for memory, _, number in rows:
            if number is None or snapshot.id_of(number) != memory.id:
                raise Wrong(f"{memory.id} has the number {number}")
    known = int((columns.column("state") != 255).sum())
    if known != len(memories) or columns.count_states(STATES) != known:
        raise Wrong(f"the columns have {known} rows (counted {columns.count_states(STATES)}), of {len(memories)}")
    for memory, usage, number in rows:
        assert number is not None
        _row_agrees(columns, memory, usage, number)
    indexed = [memory for memory in memories if is_indexed(memory)]
    if len(words) != len(indexed):
        raise Wrong(f"{len(words)} memories are found by words, of {len(indexed)}")
    for memory, _, number in rows:
        hits = set(map(int, words.search(memory.content.split()[0], 100).numbers))
        if (number in hits) != is_indexed(memory):
            raise Wrong(f"{memory.id}, {memory.state}, is {'' if number in hits else 'not '}found by its word")
    return {number for memory, _, number in rows if is_indexed(memory) and number is not None}


def _row_agrees(columns: Any, memory: Memory, usage: Usage | None, number: int) -> None:
    wrong = [] if columns.ids([number]) == [memory.id] else [f"id {columns.ids([number])}"]
    for name, choices in CODED.items():
        if choices[columns.column(name)[number]] != getattr(memory, name):
            wrong.append(name)
    used = usage or Usage(id=memory.id)
    expected = [(name, getattr(memory, name)) for name in NUMBERS] + [(name, getattr(used, name)) for name in COUNTS]
    for name, value in expected:
        column = columns.column(name)
        if column[number] != column.dtype.type(value):
            wrong.append(f"{name} {column[number]} for {value}")
    if set(columns.tags_of(number)) != set(memory.tags):
        wrong.append("tags")
    if wrong:
        raise Wrong(f"the columns have something else of {memory.id}: {wrong}")


def _vectors_agree(life: "SimulatedLife", numbers: set[int]) -> None:
    """With a healthy model, each indexed memory has its vector, and nothing else has."""
    world = life.world
    assert world.daemon is not None
    serving = world.daemon.indexing.serving()
    if not world.faults.is_well() or world.daemon.embedding.current() is None:
        return
    if serving is None:
        raise Wrong("there is a model, and no vectors that answer")
    found = set(map(int, serving.view.numbers()))
    if found != numbers:
        raise Wrong(f"of {len(numbers)} memories {len(found)} have vectors: {sorted(found ^ numbers)}")
    for number in found:
        rows = serving.view.vectors_of(number)
        if rows is None or not np.isfinite(rows.astype(np.float32)).all():
            raise Wrong(f"the vector of memory {number} is none")


def rules_hold(life: "SimulatedLife") -> None:
    """`check` finds nothing."""
    world = life.world
    state = world.store._supervisor.backend
    if not isinstance(state, Database):
        raise Wrong("the journal stands in for the database, and nothing says why")
    database: Database = state

    def source() -> AbstractContextManager[Any]:
        return database.table_snapshot(world.clock.now())

    found = list(check.check(source, Counter()))
    if found:
        raise Wrong(f"check finds: {found[:5]}")
    supervisor = world.store._supervisor
    owner = journal_diff.JournalOwner(world.data / "journal", supervisor.manifest.store_id, supervisor.manifest.salt)
    if differ := list(journal_diff.check_journal(source, owner)):
        raise Wrong(f"the journal and the database differ: {differ[:5]}")
