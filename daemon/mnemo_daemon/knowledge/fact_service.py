"""The fact graph: look-ups, chains, conflicts and histories of facts, and those that somebody states. SPEC 10.3

Which facts hold is decided whenever they are read (`mnemo_core.ingest.facts`); what is stored of a fact is what was
said, and by which memory. A fact holds as long as its memory is shown and has the text that states it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from mnemo_core.ingest.facts import (
    CHAINS_MAX,
    ChainSearch,
    Conflict,
    FactState,
    conflicts_among,
    decided_facts,
    entity_key,
    find_chains,
    predicate_key,
    single_value_of,
)
from mnemo_core.ingest.trust import OWNER, lowest_trust
from mnemo_core.ingest.write_plan import PendingSnapshot, StatedFact, put_facts
from mnemo_core.text.syntax import english
from mnemo_daemon.errors import Refusal
from mnemo_daemon.history_names import FACTS
from mnemo_daemon.indexing.fact_index import HOLDING_STATES, WITHDRAWN_STATES, FactIndex, FactScope
from mnemo_daemon.memories.memory_service import ID_DIGITS_MIN, Caller
from mnemo_store.backend import Snapshot
from mnemo_store.records import Change, DropEdge, DropFact, Fact, Memory, PutFact
from mnemo_store.store import Store, WriteResult

START_ENTITIES_MAX = 8  # from which chains begin where a name is understood as several

Status = Literal["open", "closed", "withdrawn"]


class ListedFact(NamedTuple):
    """A fact as it stands at the time of a request."""

    state: FactState
    status: Status

    @property
    def fact(self) -> Fact:
        return self.state.fact


class FactService:
    """The service; its methods may be called on any thread, and block."""

    def __init__(self, store: Store, index: FactIndex) -> None:
        self._store = store
        self._index = index

    @property
    def is_whole(self) -> bool:
        """Return whether every fact of the store can be looked up."""
        return not self._index.is_full()

    def entities(self, name: str) -> list[str]:
        """The keys of the entities that a name may mean: those that have all of its words, the shortest first."""
        return self._index.entities_with(entity_key(name).split())

    def find(
        self, entity: str, scope: FactScope, *, at: int | None = None, include_superseded: bool = False
    ) -> list[ListedFact]:
        """The facts that name an entity, "" for all, as they stood at a time (ms) or now; the latest first. Facts that
        had begun by then are open; closed and withdrawn ones are returned where they are included."""
        at = scope.now if at is None else at
        states = (*HOLDING_STATES, *WITHDRAWN_STATES) if include_superseded else HOLDING_STATES
        named = self._index.named(self.entities(entity), scope, states) if entity else self._index.all(scope, states)
        found = [each for each in self.listed(named, scope, at) if include_superseded or each.status == "open"]
        return sorted(found, key=lambda each: (each.fact.valid_from, each.fact.id), reverse=True)

    def graph(self, entity: str, hops: int, scope: FactScope) -> tuple[list[str], ChainSearch]:
        """The entities that a name may mean, and the chains of open facts from them."""
        key = entity_key(entity)
        starts = [key] if self._index.is_known(key) else self.entities(entity)
        found = [find_chains(start, lambda each: self._index.open_facts(each, scope), hops)
                 for start in starts[:START_ENTITIES_MAX]]  # fmt: skip
        chains = [chain for each in found for chain in each.chains]
        is_whole = all(each.is_whole for each in found) and len(starts) <= START_ENTITIES_MAX
        return starts[:START_ENTITIES_MAX], ChainSearch(chains[:CHAINS_MAX], is_whole and len(chains) <= CHAINS_MAX)

    def conflicts(self, subject: str, predicate: str, scope: FactScope) -> list[Conflict]:
        """The conflicts among open facts, of a subject and predicate where these are given."""
        facts = self._index.of_subject(subject, scope) if subject else self._index.all(scope)
        found = conflicts_among(list(self._index.states_of(facts, scope, scope.now).values()))
        return [each for each in found if not predicate or _is_same_predicate(each.predicate, predicate)]

    def history(self, subject: str, predicate: str, scope: FactScope) -> list[ListedFact]:
        """Every fact of a subject, and predicate where it is given, from the oldest on, with those that have ended."""
        facts = self._index.of_subject(subject, scope, (*HOLDING_STATES, *WITHDRAWN_STATES))
        listed = [each for each in self.listed(facts, scope, scope.now)
                  if not predicate or _is_same_predicate(each.fact.predicate, predicate)]  # fmt: skip
        return sorted(listed, key=lambda each: (each.fact.valid_from, each.fact.id))

    def delete(self, fact_id: str, scope: FactScope, caller: Caller) -> int:
        """Remove a fact, by its id or 8 or more digits of its end; its memory stays, and replaces nothing any more
        where this was all that it states. Return the seq of the change.

        Raises a Refusal: 404 for one that the request does not see, 409 for digits of several, 422 for one of a memory
        that the caller cannot speak for.
        """
        fact = _meant(fact_id, self._index.all(scope, (*HOLDING_STATES, *WITHDRAWN_STATES)), "id")
        change = DropFact(id=fact.id, memory=fact.memory)

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            stated = snapshot.facts(fact.memory)
            if fact.id not in {each.id for each in stated}:
                return WriteResult((), None, FACTS)
            if (memory := snapshot.memory(fact.memory)) is not None:
                _refuse_lower_trust(memory, caller)
            edges = snapshot.edges(fact.memory) if len(stated) == 1 else ()
            dropped = [
                DropEdge(source=edge.source, target=edge.target, relation=edge.relation)
                for edge in edges if edge.relation == "updates" and edge.source == fact.memory
            ]  # fmt: skip
            changes: list[Change] = [change, *dropped]
            return WriteResult(changes, None, FACTS)

        return self._store.transact(decide, by=caller.name).result().seq

    def decide(
        self, fact_ids: Sequence[str], keep: str | None, at: int, scope: FactScope, caller: Caller
    ) -> tuple[list[ListedFact], int]:
        """Decide a conflict: `keep` holds and what says something else ended at a time (ms); None: all hold together.
        Return the facts as they stand then, and the seq of the change.

        Raises a Refusal: 404 for a fact that the request does not see, 409 where they do not contradict each other, 422
        for one of a memory that the caller cannot speak for.
        """
        seen = self._index.all(scope)
        facts = [_meant(each, seen, f"facts[{place}]") for place, each in enumerate(fact_ids)]
        kept = "" if keep is None else _meant(keep, facts, "keep").id
        conflicting = [{fact.id for fact in each.facts} for each in self.conflicts("", "", scope)]
        if not any({fact.id for fact in facts} <= ids for ids in conflicting):
            raise Refusal(409, "conflict", "these facts do not contradict each other: read the conflicts again")
        changed = decided_facts(facts, kept, at)

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            for fact in facts:
                if fact not in snapshot.facts(fact.memory):
                    raise Refusal(
                        409, "conflict", f"the fact {fact.id} was changed meanwhile: read the conflicts again"
                    )
            for fact in changed:
                if (memory := snapshot.memory(fact.memory)) is not None:
                    _refuse_lower_trust(memory, caller)
            return WriteResult([PutFact(data=fact) for fact in changed], None, FACTS)

        seq = self._store.transact(decide, by=caller.name).result().seq
        by_id = {fact.id: fact for fact in (*facts, *changed)}
        return self.listed(list(by_id.values()), scope, scope.now), seq

    def check(self, memory_ids: Iterable[str], caller: Caller) -> None:
        """Raise a Refusal for a memory of which the caller can store no facts."""
        with self._store.snapshot() as snapshot:
            for memory_id in memory_ids:
                _required(snapshot, memory_id, caller)

    def attach(self, stated: Mapping[str, Sequence[StatedFact]], caller: Caller, group: str = "") -> int:
        """Store facts of existing memories, by their ids; return the seq of the change. Raises a Refusal for a memory
        that is gone or hidden, or that the caller cannot speak for."""

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            pending = PendingSnapshot(snapshot)
            for memory_id, facts in stated.items():
                memory = _required(snapshot, memory_id, caller)
                pending.apply(put_facts(memory, memory.content, facts, pending, self._store.new_id))
            return WriteResult(pending.changes, None, FACTS, group)

        return self._store.transact(decide, by=caller.name).result().seq

    def inserted(
        self, stated: Sequence[tuple[str, StatedFact]], scope: FactScope
    ) -> tuple[list[ListedFact], list[Conflict], list[ListedFact]]:
        """Facts that were just stored, given with the ids of their memories; the conflicts in which one of them takes
        part, and the facts that they ended."""
        with self._store.snapshot() as snapshot:
            rows = {memory_id: snapshot.facts(memory_id) for memory_id, _ in stated}
        triples = {(memory_id, *each[:3]) for memory_id, each in stated}
        new = [fact for facts in rows.values() for fact in facts
               if (fact.memory, fact.subject, fact.predicate, fact.object) in triples]  # fmt: skip
        ids = {fact.id for fact in new}
        states = self._index.states_of(new, scope, scope.now)
        conflicts = [each for each in conflicts_among(list(states.values())) if ids & {fact.id for fact in each.facts}]
        ended = [ListedFact(each, "closed") for each in states.values() if each.superseded_by in ids]
        return self.listed(new, scope, scope.now, unborn=True), conflicts, ended

    def listed(self, facts: Sequence[Fact], scope: FactScope, at: int, *, unborn: bool = False) -> list[ListedFact]:
        """The facts that had begun by `at` (ms), as they stood then; `unborn`: the others too."""
        states = self._index.states_of(facts, scope, at)
        found: list[ListedFact] = []
        for fact in facts:
            state = states.get(fact.id)
            if state is not None:
                found.append(ListedFact(state, "open" if state.is_open else "closed"))
            elif fact.valid_from <= at:
                found.append(ListedFact(FactState(fact, fact.valid_to, fact.superseded_by), "withdrawn"))
            elif unborn:
                found.append(ListedFact(FactState(fact), "open"))
        return found


def _meant(text: str, facts: Iterable[Fact], field: str) -> Fact:
    """The fact that an id, or 8 or more digits of its end, names. Raises a Refusal."""
    seen, digits = list(facts), text.replace("-", "")
    meant = [fact for fact in seen if fact.id == text] or [
        fact for fact in seen if len(digits) >= ID_DIGITS_MIN and fact.id.replace("-", "").endswith(digits)
    ]
    if not meant:
        raise Refusal(404, "not_found", f"there is no fact {text!r}", field=field)
    if len(meant) > 1:
        raise Refusal(409, "ambiguous_id", f"{text!r} could be {len(meant)} facts: give more digits", field=field)
    return meant[0]


def _refuse_lower_trust(memory: Memory, caller: Caller) -> None:
    """Raise a Refusal (422) where a caller would decide what a memory states that is pinned, or trusted more: its facts
    have the trust of the memory. SPEC 2.1"""
    if caller.trust == OWNER:
        return
    if memory.pinned:
        message = f"memory {memory.id} is pinned: only a person can add or remove its facts"
        raise Refusal(422, "pinned", message, field="pinned", id=memory.id)
    if lowest_trust(caller.trust, memory.trust) != memory.trust:
        message = f"memory {memory.id} has trust {memory.trust}: only a person can add or remove its facts"
        raise Refusal(422, "refused", message, field="memory_id", id=memory.id)


def _required(snapshot: Snapshot, memory_id: str, caller: Caller) -> Memory:
    """The memory, of which the caller may store facts. Raises a Refusal."""
    memory = snapshot.memory(memory_id)
    if memory is None:
        raise Refusal(404, "not_found", f"there is no memory {memory_id}", field="memory_id")
    if memory.state not in HOLDING_STATES:
        raise Refusal(409, "conflict", f"the memory {memory_id} is {memory.state}", field="memory_id")
    _refuse_lower_trust(memory, caller)
    return memory


def sentence_of(fact: StatedFact) -> str:
    """A fact as a sentence, for the memory that states it: "Anna works at Siemens." or "Anna's birthday is 3 May."."""
    subject, predicate, said = (part.strip() for part in fact[:3])
    verb = predicate.split()[0].casefold() if predicate else ""
    is_verb = verb in english.BE | {"has", "have"} or verb in english.BASE_OF_THIRD or verb in english.BASE_OF_PAST
    if is_verb or english.is_base(verb):
        sentence = f"{subject} {predicate} {said}"
    else:
        owner = "My" if subject == "I" else f"{subject}'" if subject.endswith("s") else f"{subject}'s"
        sentence = f"{owner} {predicate} is {said}"
    return sentence if sentence.endswith((".", "!", "?", "。")) else sentence + "."


def _is_same_predicate(one: str, other: str) -> bool:
    attribute = single_value_of(one)
    return predicate_key(one) == predicate_key(other) or (attribute is not None and attribute == single_value_of(other))
