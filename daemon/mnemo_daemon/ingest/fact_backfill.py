"""The facts of earlier memories: those that were stored before facts were read with each text. SPEC 10.3

The memories are looked at once, in slices, in the order of their ids. The place in `meta` is written with the facts of
a slice, so that a crash loses and doubles nothing. What is stored from the first slice on has its facts already and is
not looked at, and a store that begins with this version is marked with its first memory: a fact that somebody removes
does not come back.
"""

from mnemo_core.decay import MetaReader
from mnemo_core.ingest.write_plan import HASHED_STATES, StatedFact, put_facts
from mnemo_core.text.syntax.statements import extract_statements
from mnemo_daemon.history_names import BY_FACTS
from mnemo_daemon.ingest.extraction import SOURCE as STATEMENT_SOURCE
from mnemo_daemon.memories.memory_service import stated_facts
from mnemo_daemon.memories.run_steps import SUMMARY_SOURCE
from mnemo_store.backend import Snapshot
from mnemo_store.records import Change, Memory, PutMeta, content_hash
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import EXTRACTIONS

EARLIER_FACTS = "facts_reread"  # meta key: the last memory that was looked at, and the last to look at; "done"
DONE = "done"
SLICE = 100  # memories


class FactBackfill:
    """The job, and the mark of a store that has nothing to read."""

    def __init__(self, store: Store, slice_size: int = SLICE) -> None:
        self._slice_size = slice_size
        self._store = store
        self._is_left: bool | None = None  # earlier memories; None: not looked yet
        store.on_row_ids_reset(self._look_again)
        self.is_due()

    def _look_again(self) -> None:
        self._is_left = None

    def is_due(self) -> bool:
        """Return whether earlier memories are to be looked at."""
        if self._is_left is None:
            with self._store.snapshot() as snapshot:
                self._is_left = snapshot.meta(EARLIER_FACTS) != DONE and bool(snapshot.memories(limit=1))
        return self._is_left

    def mark(self, store: MetaReader) -> tuple[Change, ...]:
        """The change that goes with a first memory: there are no earlier ones to look at."""
        if self._is_left is not False or store.meta(EARLIER_FACTS):
            return ()
        return (PutMeta(name=EARLIER_FACTS, value=DONE),)

    def run_slice(self) -> bool:
        """Read the facts of the next memories; return whether there are more."""
        with self._store.snapshot() as snapshot:
            after, _, last = snapshot.meta(EARLIER_FACTS).partition(" ")
            is_first = not last
            last = last or self._store.new_id()  # above all that there are
            memories = snapshot.memories(after, self._slice_size)
            read = {memory.id: (memory.content, facts) for memory in memories
                    if memory.id <= last and (facts := _unread_facts(snapshot, memory))}  # fmt: skip
        is_end = len(memories) < self._slice_size or memories[-1].id >= last
        place = DONE if is_end else f"{memories[-1].id} {last}"

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            changes: list[Change] = [PutMeta(name=EARLIER_FACTS, value=place)]
            for memory_id, (content, facts) in read.items():
                memory = snapshot.memory(memory_id)
                if memory is not None and memory.state in HASHED_STATES and not snapshot.facts(memory_id):
                    changes += put_facts(memory, content, facts, snapshot, self._store.new_id)
            return WriteResult(changes, None)

        if read or not (is_first and is_end):  # a small store that states nothing stays as it is, and is read again
            self._store.transact(decide, by=BY_FACTS.name, background=True).result()
        self._is_left = not is_end
        return not is_end


def _unread_facts(snapshot: Snapshot, memory: Memory) -> tuple[StatedFact, ...]:
    """The facts that would have been stored with the memory; none where it has some.

    None of a note, a summary of a run, a statement, or a text that was broken into statements: these have the facts.
    """
    is_read = memory.state in HASHED_STATES and not memory.managed and memory.trust != "note"
    if not is_read or memory.source in {STATEMENT_SOURCE, SUMMARY_SOURCE} or snapshot.facts(memory.id):
        return ()
    facts = stated_facts(memory.content, memory.speaker)
    return () if facts and _is_broken_up(snapshot, memory) else facts


def _is_broken_up(snapshot: Snapshot, memory: Memory) -> bool:
    """Return whether the text is broken into statements, or will be."""
    if snapshot.get(EXTRACTIONS, memory.id) is not None:
        return True
    scope = (memory.namespace, memory.user_id, memory.agent_id, memory.run_id)
    texts = (each.text for each in extract_statements(memory.content, memory.speaker))
    known = (snapshot.memory(each) for text in texts for each in snapshot.ids_by_hash(*scope, content_hash(text)))
    return any(each is not None and each.source == STATEMENT_SOURCE and memory.id in each.derived_from
               for each in known)  # fmt: skip
