"""Moves of a memory by a person, each in one write turn, which undo takes back. SPEC 9.4, 2.4"""

from typing import Literal, NamedTuple

from mnemo_core.decay import present_usage
from mnemo_core.ingest import mutations
from mnemo_core.lifecycle.consolidation.review import MoveTarget, move_facts, move_memory, standing_decisions
from mnemo_daemon.errors import Refusal
from mnemo_daemon.history_names import MOVE
from mnemo_daemon.memories.memory_service import Caller, MemoryService, authorised_changes, place_of
from mnemo_store.backend import Snapshot
from mnemo_store.record_texts import content_hash
from mnemo_store.records import Memory, PutDecision, PutFact, PutMemory, PutUsage
from mnemo_store.store import Store, WriteResult

MOVABLE_STATES = ("active", "archived")


class MoveResult(NamedTuple):
    """The outcome of a move. `id`: of the memory that stands for it now. seq: of the change; 0: there was none."""

    outcome: Literal["moved", "duplicate", "unchanged"]
    id: str
    seq: int = 0


class MemoryMoves:
    """The service; its method blocks."""

    def __init__(self, store: Store, memories: MemoryService) -> None:
        self._store = store
        self._memories = memories

    def move(self, text: str, target: MoveTarget, if_version: int | None, caller: Caller) -> MoveResult:
        """Move a memory, by its id. Where the namespace has a memory with the same text already, that one counts a
        repetition, as when the text is stored there, and the moved one goes to the trash.

        Raises a Refusal: 404 for none that the caller sees, 409 for another version, for the trash, and for a `key`
        that the namespace has, 422 for a passage of a note and, to another namespace, for a turn of a conversation.
        """
        memory_id, group = self._memories.resolve(text, caller), self._store.new_id()

        def decide(snapshot: Snapshot) -> WriteResult[MoveResult]:
            before = _movable(snapshot, memory_id, target, if_version)
            after = move_memory(before, target, snapshot.now)
            if after == before:
                return WriteResult((), MoveResult("unchanged", memory_id), MOVE, group)
            is_elsewhere = after.namespace != before.namespace
            if is_elsewhere and (same := _same_text(snapshot, after)) is not None:
                usage = mutations.record_repetition(present_usage(same, snapshot), snapshot.now)
                why = f"moved to {after.namespace}, which has it as {same.id}"
                changes = [*mutations.move_to_trash(before, why, snapshot.now), PutUsage(data=usage)]
                return WriteResult(changes, MoveResult("duplicate", same.id), MOVE, group)
            changes = authorised_changes([PutMemory(data=after)], snapshot, caller.trust)
            if after.layer != before.layer:  # it decays otherwise from now on
                changes.append(PutUsage(data=present_usage(before, snapshot)))
            if is_elsewhere:
                changes += [PutFact(data=each) for each in move_facts(snapshot.facts(memory_id), after.namespace)]
            decisions = standing_decisions(before, after, snapshot.now, group)
            changes += [PutDecision(data=each) for each in decisions]
            return WriteResult(changes, MoveResult("moved", memory_id), MOVE, group)

        done = self._store.transact(decide, by=caller.name).result()
        return done.result._replace(seq=done.seq)


def _movable(snapshot: Snapshot, memory_id: str, target: MoveTarget, if_version: int | None) -> Memory:
    """The memory, if it may be moved there. Raises a Refusal."""
    memory = snapshot.memory(memory_id)
    if memory is None:
        raise Refusal(404, "not_found", f"there is no memory {memory_id}", field="id")
    if if_version is not None and if_version != memory.version:
        message = f"the memory is at version {memory.version} now, not {if_version}: read it again"
        raise Refusal(409, "conflict", message, field="if_version")
    if memory.state not in MOVABLE_STATES:
        raise Refusal(409, "conflict", f"the memory is {memory.state}: only what is active or archived is moved")
    if memory.managed:
        raise Refusal(422, "managed", f"it is a passage of a note: move {place_of(snapshot, memory)}")
    if target.namespace in (None, memory.namespace):
        return memory
    if memory.turn is not None:
        raise Refusal(422, "refused", "a turn stays in the namespace of its conversation", field="namespace")
    if memory.key and snapshot.id_by_key(target.namespace, memory.user_id, memory.key) is not None:
        message = f"the namespace has another memory with the key {memory.key!r}"
        raise Refusal(409, "conflict", message, field="namespace")
    return memory


def _same_text(snapshot: Snapshot, memory: Memory) -> Memory | None:
    """Another memory with the same text, of the same user, agent and run, in the namespace of this one."""
    scope = memory.namespace, memory.user_id, memory.agent_id, memory.run_id
    found = (snapshot.memory(each) for each in snapshot.ids_by_hash(*scope, content_hash(memory.content)))
    return next((each for each in found if each is not None and each.id != memory.id), None)
