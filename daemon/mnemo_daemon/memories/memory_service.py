"""Remember, get, list, edit, delete, restore, undo: the writes of one memory or a few. SPEC 2.1, 3.3, 3.7, 5.5.

Each write is decided within its write turn, from what the store holds at that moment; what cannot be done is a
Refusal, and nothing of it remains.
"""

import functools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_core.decay import epoch_of, present_usage
from mnemo_core.ingest import mutations, trust, write_plan
from mnemo_core.ingest.classification import STATEMENT_CHARS_MAX
from mnemo_core.ingest.deduplication import is_other_event
from mnemo_core.ingest.facts import begins_state
from mnemo_core.ingest.mutations import Decision, Draft
from mnemo_core.ingest.session_records import recorded_sessions
from mnemo_core.ingest.statement_kind import statement_kind
from mnemo_core.ingest.triples import stated_triples
from mnemo_core.ingest.write_plan import IngestItem, PendingSnapshot, StatedFact
from mnemo_core.ingest.write_plan import WriteSnapshot as Reading
from mnemo_core.retrieval.versions import RECALL
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_core.text.syntax.statements import Triple
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.history_names import BY_RECALL
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.memories.as_of import HistoricalState
from mnemo_daemon.table_walk import bad_cursor
from mnemo_store.backend import Snapshot
from mnemo_store.codec import id_key, id_text
from mnemo_store.indexes.attributes import AttributeStore, MemoryFilter
from mnemo_store.record_texts import content_hash, skip_hash
from mnemo_store.records import (
    OWN_TRUSTS,
    Change,
    DropEdge,
    DropErasedText,
    DropSkip,
    Edge,
    Memory,
    NoteFile,
    PendingExtraction,
    PutEdge,
    PutExtraction,
    PutMemory,
    PutSkip,
    PutUsage,
    Skip,
    Trust,
    Usage,
)
from mnemo_store.store import Store, TextVectors, WriteReceipt, WriteResult
from mnemo_store.tables import SESSIONS

ID_DIGITS = 32  # of a whole id
ID_DIGITS_MIN = 8  # of a prefix or suffix; people are shown the last 8
CANDIDATES_SHOWN = 10  # of an ambiguous id
INGESTED_PER_WRITE = 100  # memories, ingested or imported, in one write turn [SPEC 3.8, 5]
DELETE_MAX = 500  # memories in one write turn [SPEC 3.2]
ADD = "add"  # operation in the history
SAID = "said"  # the method of a fact that was given as one, rather than read from a text
HAS_TEXT = ("stored", "repeats")  # outcomes after which the memory has the text that came in
COPY_LOST = "copy_lost"  # the code of a text that was a copy when it was read, and is none when it is written
FORGOTTEN = "forgotten"  # the code of a text that was purged
# Reasons to discard a turn without comparing it with the store. SPEC 5.7
RELEVANCE = ("too_short", "stop_words", "infrastructure_noise")

log = logging.getLogger("mnemo.memories")

_HEX = lazy_pattern(r"[0-9a-f]+")
_EDGE_CURSOR = lazy_pattern(r"[01]\.[a-z]+\.[0-9a-f-]{36}")


class Caller(NamedTuple):
    """The caller of a service. For one who sees nothing sensitive such a memory does not exist, to read or to write."""

    name: str  # for the history: the entry point, and the agent after a colon
    sees_sensitive: bool = True
    trust: Trust = "user"  # of the entry point


class MemoryDetails(NamedTuple):
    """A memory, its use, and the note file it is a chunk of."""

    memory: Memory
    usage: Usage
    note: NoteFile | None = None


def details_of(snapshot: Snapshot, memory: Memory) -> MemoryDetails:
    """The memory, also an earlier version, with what an answer shows with it: the usage is the present one."""
    usage = present_usage(memory, snapshot)
    return MemoryDetails(memory, usage, snapshot.note(memory.managed) if memory.managed else None)


class MemoryService:
    """The service. Methods that write return the store's future; the others answer at once."""

    def __init__(self, store: Store, views: Views, on_scored: Callable[[str], None] = lambda _: None) -> None:
        """on_scored: called with the id of each memory that is written after its vector was compared."""
        self._on_scored = on_scored
        self._store = store
        self._views = views

    def resolve(self, text: str, caller: Caller, field: str = "id") -> str:
        """The whole id for an id, or for a unique prefix or suffix of 8 or more hexadecimal digits. SPEC 2.1

        Raises a Refusal that names the field: 400 for what can be no id, 404 for none that the caller may see, 409
        with up to 10 candidates for several.
        """
        digits = text.strip().lower().replace("-", "")
        if not _HEX.fullmatch(digits) or not ID_DIGITS_MIN <= len(digits) <= ID_DIGITS:
            raise bad_value("not an id: give all of it, or at least 8 digits (0-9, a-f) of its beginning or end", field)
        if len(digits) == ID_DIGITS:
            ids = [id_text(bytes.fromhex(digits))]
        else:
            ids = self._views.attributes.find(digits, CANDIDATES_SHOWN + 1)
        with self._store.snapshot() as snapshot:
            ids = [memory_id for memory_id in ids if is_visible(snapshot.memory(memory_id), caller)]
        if len(ids) == 1:
            return ids[0]
        if not ids:
            raise Refusal(404, "not_found", f"there is no memory {digits[-12:]!r}", field=field)
        shown = ", ".join(ids[:CANDIDATES_SHOWN])
        more = " and more" if len(ids) > CANDIDATES_SHOWN else ""
        raise Refusal(409, "ambiguous_id", f"{digits!r} could be {shown}{more}: give more digits", field=field)

    def get(self, memory_id: str) -> MemoryDetails:
        """The memory with a whole id."""
        with self._store.snapshot() as snapshot:
            return details_of(snapshot, _existing(snapshot, memory_id))

    def get_many(self, texts: Sequence[str], caller: Caller) -> tuple[list[MemoryDetails], list[str]]:
        """The memories with these ids, as `resolve` reads them, in their order; and those ids for which there is none.
        Raises a Refusal for what is no id, or that of several."""
        found, missing = list[MemoryDetails](), list[str]()
        for place, text in enumerate(texts):
            try:
                memory_id = self.resolve(text, caller, f"id[{place}]")
            except Refusal as refused:
                if refused.code != "not_found":
                    raise
                missing.append(text)
            else:
                found.append(self.get(memory_id))
        return found, missing

    def id_by_key(self, namespace: str, user: str | None, key: str) -> str | None:
        """The id of the memory that its caller gave this key, in any state; None if there is none."""
        with self._store.snapshot() as snapshot:
            return snapshot.id_by_key(namespace, user or "local", key)

    def edges(self, text: str, caller: Caller, limit: int, cursor: str) -> tuple[list[tuple[Edge, MemoryDetails]], str]:
        """The edges of a memory to memories of its namespace and user that the caller may see and that are not in the
        trash: those towards it first, then those from it, each by relation and other end; and where to go on."""
        memory_id = self.resolve(text, caller)
        if cursor and not _EDGE_CURSOR.fullmatch(cursor):
            raise bad_cursor()
        with self._store.snapshot() as snapshot:
            memory = _existing(snapshot, memory_id)
            found: list[tuple[Edge, MemoryDetails]] = []
            for edge in snapshot.edges(memory_id):
                other_id = edge.target if edge.source == memory_id else edge.source
                other = snapshot.memory(other_id)
                if other is None or other.state == "trashed" or not is_visible(other, caller):
                    continue
                is_near = (other.namespace, other.user_id) == (memory.namespace, memory.user_id)
                if is_near and _edge_cursor(edge, memory_id) > cursor:
                    found.append((edge, details_of(snapshot, other)))
                if len(found) > limit:
                    break
        more, found = len(found) > limit, found[:limit]
        return found, _edge_cursor(found[-1][0], memory_id) if more else ""

    def page(
        self, wanted: MemoryFilter, limit: int, cursor: str, *, by: Literal["event_at", "modified_at"] | None = None,
        then: HistoricalState | None = None, only: str | None = None,
    ) -> tuple[list[MemoryDetails], str]:  # fmt: skip
        """Memories that pass the filter, the newest first, behind the cursor; and where to go on ("" at the end).

        `by` sorts by when it happened or was changed rather than by when it was stored; `then` reads the store as it
        was; `only` is the id of the only memory that may be returned.
        """
        parts = self._parts(wanted, then)
        high, low, first, stored = (
            np.concatenate([columns.values(name, rows) for columns, rows in parts])
            for name in ("id_high", "id_low", by or "event_at", "created_at")
        )
        if by != "modified_at":  # a deadline that lies ahead has not happened: it is placed by when it was stored
            first = np.where(first > wanted.now, stored, first) if by else np.zeros_like(first)
        if only is not None:
            top, bottom = _halves(id_key(only))
            is_it = (high == top) & (low == bottom)
            high, low, first = high[is_it], low[is_it], first[is_it]
        if cursor:
            try:
                head, memory_id = cursor.split(".")
                key, start = id_key(memory_id), int(head)
            except ValueError:
                raise bad_cursor() from None
            top, bottom = _halves(key)
            behind = (first < start) | ((first == start) & ((high < top) | ((high == top) & (low < bottom))))
            high, low, first = high[behind], low[behind], first[behind]
        order = np.lexsort((low, high, first))[::-1][: limit + 1]
        ids = [id_text(int(high[row]).to_bytes(8, "big") + int(low[row]).to_bytes(8, "big")) for row in order]
        with self._store.snapshot() as snapshot:
            read = snapshot.memory if then is None else functools.partial(then.memory, snapshot)
            memories = [memory for memory_id in ids[:limit] if (memory := read(memory_id)) is not None]
            rows = [details_of(snapshot, memory) for memory in memories]
        return rows, f"{int(first[order[limit - 1]])}.{ids[limit - 1]}" if len(ids) > limit else ""

    def count(self, wanted: MemoryFilter, then: HistoricalState | None = None) -> int:
        """The number of memories that pass the filter."""
        return sum(len(rows) for _, rows in self._parts(wanted, then))

    def remember(self, draft: Draft, caller: Caller) -> "Future[WriteReceipt[Decision]]":
        """Store a draft, unless its text is known. SPEC 5.5"""
        return self.write_one(IngestItem(self.resolved(draft, caller)), caller)

    def resolved(self, draft: Draft, caller: Caller) -> Draft:
        """The draft with whole ids of what it replaces and was made of. Raises a Refusal for what is not there."""
        if not draft.supersedes and not draft.derived_from:
            return draft
        return draft._replace(
            supersedes=self._resolved(draft.supersedes, caller, "supersedes"),
            derived_from=self._resolved(draft.derived_from, caller, "derived_from"),
        )

    def write_one(
        self, item: IngestItem, caller: Caller, group: str = "", *, read: Mapping[str, str] | None = None,
        vectors: Sequence[TextVectors] = (),
    ) -> "Future[WriteReceipt[Decision]]":  # fmt: skip
        """Write an item in one write turn, and these vectors of its text where it is stored; the future raises a
        Refusal.

        `read` has the content, by id, of the memories that the item was made of: 409 if one has another by now.
        """

        def decide(snapshot: Snapshot) -> WriteResult[Decision]:
            for memory_id, content in (read or {}).items():
                if _existing(snapshot, memory_id, field="derived_from").content != content:
                    message = f"the memory {memory_id} was changed meanwhile: ask again"
                    raise Refusal(409, "conflict", message, field="derived_from")
            pending = PendingSnapshot(snapshot)
            decision = self._plan_item(pending, item, caller, {}, group)
            kept = vectors if decision.outcome in HAS_TEXT else ()
            return WriteResult(_with_sessions(snapshot, pending.changes), decision, ADD, group, kept)

        return self._store.transact(decide, by=caller.name)

    def write_slice(
        self, items: Sequence[IngestItem], caller: Caller, group: str, made: dict[str, str], *,
        background: bool = False, vectors: Mapping[str, Sequence[TextVectors]] = MappingProxyType({}),
    ) -> "Future[WriteReceipt[list[Decision | Refusal]]]":  # fmt: skip
        """Write some items of a batch in one write turn, in order; a refusal of one does not stop the others.

        `made` maps the names of earlier items of the batch to their ids, and these are added; `vectors` maps names to
        the vectors of texts, which are kept where the text is stored.
        """

        def decide(snapshot: Snapshot) -> WriteResult[list[Decision | Refusal]]:
            pending = PendingSnapshot(snapshot)
            settled: list[Decision | Refusal] = []
            kept: list[TextVectors] = []
            for item in items:
                made.pop(item.name, None)
                try:
                    decision = self._plan_item(pending, item, caller, made, group)
                except Refusal as refusal:
                    settled.append(refusal)
                    continue
                made[item.name] = decision.memory.id
                settled.append(decision)
                kept += vectors.get(item.name, ()) if decision.outcome in HAS_TEXT else ()
            return WriteResult(_with_sessions(snapshot, pending.changes), settled, ADD, group, kept)

        return self._store.transact(decide, by=caller.name, background=background)

    def edit(
        self, text: str, fields: Mapping[str, Any], if_version: int | None, caller: Caller
    ) -> "Future[WriteReceipt[str]]":
        """Change the fields, if the memory is still at if_version. Returns the id."""
        memory_id = self.resolve(text, caller)
        if "derived_from" in fields:
            fields = {**fields, "derived_from": self._resolved(fields["derived_from"], caller, "derived_from")}
        if "updates" in fields and caller.trust != trust.OWNER:  # an agent could end what the person said
            raise Refusal(403, "forbidden", "only a person says which memory is newer than another", field="updates")
        updates = self._resolved(fields["updates"], caller, "updates") if "updates" in fields else None
        fields = {name: value for name, value in fields.items() if name != "updates"}

        def decide(snapshot: Snapshot) -> WriteResult[str]:
            before = _existing(snapshot, memory_id)
            if if_version is not None and if_version != before.version:
                message = f"the memory is at version {before.version} now, not {if_version}: read it again"
                raise Refusal(409, "conflict", message, field="if_version")
            if before.state == "trashed":
                raise Refusal(409, "trashed", "the memory is in the trash: restore it first")
            if "content" in fields and before.managed:
                raise Refusal(
                    422, "managed", f"the text is that of a note: edit {place_of(snapshot, before)}", field="content"
                )
            ties = [] if updates is None else _retied(snapshot, memory_id, updates)
            if not ties and not mutations.is_changed(before, fields):
                return WriteResult((), memory_id)
            for source in fields.get("derived_from", ()):
                _existing(snapshot, source, field="derived_from")
            after = mutations.new_version(before, snapshot.now, {**fields, "trust": caller.trust})
            is_reworded = after.content != before.content
            known = wanted_again(snapshot, after, caller.trust) if is_reworded else []
            if is_reworded:
                facts = stated_facts(after.content, after.speaker)
                known += write_plan.put_facts(after, after.content, facts, snapshot, self._store.new_id)
            changes = authorised_changes([PutMemory(data=after)], snapshot, caller.trust)
            usage = present_usage(before, snapshot)
            if caller.trust == trust.OWNER and before.trust not in OWN_TRUSTS:
                usage = msgspec.structs.replace(usage, person_at=snapshot.now)
                changes.append(PutUsage(data=usage))
            changes += mutations.adjust_strength(usage, before, after)
            return WriteResult((*changes, *known, *ties), memory_id, "edit")

        return self._store.transact(decide, by=caller.name)

    def delete(self, ids: Sequence[str], why: str, caller: Caller) -> "Future[WriteReceipt[list[str]]]":
        """Move memories (whole ids) to the trash in one write turn, at most 500. Those that are there already stay."""

        def decide(snapshot: Snapshot) -> WriteResult[list[str]]:
            changes: list[Change] = []
            deleted = []
            for memory_id in dict.fromkeys(ids):
                memory = _existing(snapshot, memory_id)
                if memory.state == "trashed":
                    continue
                changes += authorised_changes(
                    mutations.move_to_trash(memory, why, snapshot.now), snapshot, caller.trust
                )
                if memory.managed:
                    salted = skip_hash(snapshot.meta("salt"), memory.content)
                    changes.append(PutSkip(data=Skip(file=memory.managed, hash=salted)))
                deleted.append(memory_id)
            return WriteResult(changes, deleted, "rm")

        return self._store.transact(decide, by=caller.name, frees=True)

    def restore(self, text: str, caller: Caller) -> "Future[WriteReceipt[str]]":
        """Restore a trashed, discarded or archived memory; a chunk without its note becomes a memory of its own."""
        memory_id = self.resolve(text, caller)

        def decide(snapshot: Snapshot) -> WriteResult[str]:
            memory = _existing(snapshot, memory_id)
            if memory.state not in ("trashed", "discarded", "archived"):
                raise Refusal(409, "not_trashed", f"the memory is {memory.state}: there is nothing to restore")
            memory = detached_from_note(snapshot, memory)
            changes = mutations.restore(memory, snapshot.trash(memory_id), snapshot.now)
            back = authorised_changes(changes, snapshot, caller.trust)
            for after in [change.data for change in back if isinstance(change, PutMemory)]:
                back += mutations.adjust_strength(present_usage(memory, snapshot), memory, after)
            return WriteResult((*back, *clear_skipped_texts(snapshot, [memory])), memory_id, "restore")

        return self._store.transact(decide, by=caller.name)

    def record_use(
        self, ids: Sequence[str], seen: Mapping[str, int] = MappingProxyType({})
    ) -> "Future[WriteReceipt[int]]":
        """Record that these memories were recalled, which makes archived ones active again. SPEC 7.5, 9.4

        seen: the last change (ms) of those that a person was shown.
        """

        def decide(snapshot: Snapshot) -> WriteResult[int]:
            memories = [memory for memory_id in ids if (memory := snapshot.memory(memory_id)) is not None]
            changes: list[Change] = []
            for memory in memories:
                usage = present_usage(memory, snapshot)
                if seen.get(memory.id) == memory.modified_at:
                    usage = msgspec.structs.replace(usage, person_at=snapshot.now)
                changes += mutations.recall(memory, usage, snapshot.now)
            return WriteResult(changes, len(memories), RECALL)

        return self._store.transact(decide, by=BY_RECALL.name, background=True)

    def _parts(
        self, wanted: MemoryFilter, then: HistoricalState | None
    ) -> list[tuple[AttributeStore, NDArray[np.intp]]]:
        """Columns, and the rows of them that pass the filter: those of the present, and those of another time."""
        columns = self._views.attributes
        mask = columns.mask(wanted)
        if then is None:
            return [(columns, np.flatnonzero(mask))]
        former = np.flatnonzero(then.columns.mask(wanted))
        return [(columns, np.flatnonzero(then.unchanged(mask))), (then.columns, former)]

    def _resolved(self, texts: Sequence[str], caller: Caller, field: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.resolve(text, caller, field) for text in texts))

    def _plan_item(
        self, pending: PendingSnapshot, item: IngestItem, caller: Caller, made: Mapping[str, str], group: str
    ) -> Decision:
        """Decide the item and apply it to `pending`, or raise a Refusal and apply nothing."""
        draft = item.draft
        decision = self._decide(pending, item, caller, made)
        for source in draft.derived_from:
            _existing(pending, source, field="derived_from")
        decision = decision._replace(changes=tuple(authorised_changes(decision.changes, pending, draft.trust)))
        written = (change.data for change in decision.changes if isinstance(change, PutMemory))
        decision = decision._replace(
            memory=next((memory for memory in written if memory.id == decision.memory.id), decision.memory)
        )
        known = [] if decision.outcome == "duplicate" else wanted_again(pending, decision.memory, draft.trust)
        hidden: tuple[Change, ...] = ()
        if decision.outcome != "discarded":
            older = [_existing(pending, memory_id, field="supersedes") for memory_id in draft.supersedes]
            for memory in older:
                if memory.state == "trashed":
                    raise Refusal(409, "trashed", f"{memory.id} is in the trash: restore it first", field="supersedes")
                if memory.managed:
                    place = place_of(pending, memory)
                    raise Refusal(
                        422, "managed", f"a chunk of a note cannot be superseded: edit {place}", field="supersedes"
                    )
            hidden = mutations.supersede(older, decision.memory.id, pending.now)
            hidden = tuple(authorised_changes(hidden, pending, draft.trust))
        pending.apply((*decision.changes, *hidden, *known, *write_plan.first_backfill_cursor(item, decision, pending)))
        if item.is_seen and not item.is_repeat:
            self._on_scored(decision.memory.id)
        facts = [each for each in item.facts if decision.outcome != "duplicate" or each.method == SAID]
        if facts and decision.outcome != "discarded":
            pending.apply(write_plan.put_facts(decision.memory, draft.content, facts, pending, self._store.new_id))
        if item.is_extracted and decision.outcome != "discarded":
            wanted = PendingExtraction(id=decision.memory.id, at=pending.now, group=group, dedup=item.dedup or "")
            pending.apply((PutExtraction(data=wanted),))
        return decision

    def plan_statement(
        self, pending: PendingSnapshot, item: IngestItem, source: Memory, caller: Caller
    ) -> Decision | None:
        """Decide a statement of the source and apply it to `pending`: never trusted more than the source. None if its
        text was erased: what a person says again is the source, and that it is broken up is not their word."""
        draft = item.draft._replace(derived_from=(source.id,), trust=source.trust)
        if pending.forgotten(skip_hash(pending.meta("salt"), draft.content)) is not None:
            return None
        others = tuple(each for each in item.relations if each.id != source.id)  # it is like its source, of course
        return self._plan_item(pending, item._replace(draft=draft, relations=others), caller, {}, "")

    def _decide(self, pending: PendingSnapshot, item: IngestItem, caller: Caller, made: Mapping[str, str]) -> Decision:
        draft = item.draft
        known = pending.id_by_key(draft.namespace, draft.user_id, draft.key) if draft.key else None
        if known is not None:
            before = _existing(pending, known)
            if not is_visible(before, caller):
                raise Refusal(409, "conflict", f"the key {draft.key!r} is in use: choose another", field="key")
            usage = present_usage(before, pending)
            return mutations.store_keyed(draft, before, usage, pending.trash(known), pending.now)
        may_be_known = not draft.key and item.policy.on_equal != "stored" and item.discard_reason not in RELEVANCE
        if may_be_known and (same := self._existing_copy(pending, item, caller)) is not None:
            return write_plan.record_duplicate(same, item.policy, pending)
        if item.is_repeat:
            raise Refusal(409, COPY_LOST, "the copy of the text was changed meanwhile")
        if item.discard_reason:
            return write_plan.discard(item, self._store.new_id(), pending, made)
        if (
            item.policy.on_similar == "merged"
            and (decision := write_plan.merge_into_neighbour(item, pending, made)) is not None
        ):
            return decision
        stored = mutations.store_new(draft, self._store.new_id(), pending.now, epoch_of(pending))
        return write_plan.relate(stored, item.relations, pending, made)

    def copy_before(self, snapshot: Snapshot, item: IngestItem, caller: Caller) -> Memory | None:
        """The stored memory that a text repeats, as far as the text alone shows it."""
        return self._existing_copy(snapshot, item, caller) if item.may_be_copy else None

    def _existing_copy(self, pending: Reading, item: IngestItem, caller: Caller) -> Memory | None:
        draft = item.draft
        scope = (draft.namespace, draft.user_id, draft.agent_id, draft.run_id)
        for memory_id in pending.ids_by_hash(*scope, content_hash(draft.content)):
            same = _existing(pending, memory_id)
            if is_other_event(same, item.happened_at):
                continue
            speaks = same.trust in OWN_TRUSTS or draft.trust not in OWN_TRUSTS  # others do not stand for the person
            if speaks and is_visible(same, caller) and not write_plan.is_outdated(same, item.said_at, pending):
                return same
        return None


def _with_sessions(snapshot: Snapshot, changes: Sequence[Change]) -> Sequence[Change]:
    """The changes with the records of the sessions that they store turns of. SPEC 8"""
    return (*changes, *recorded_sessions(changes, functools.partial(snapshot.get, SESSIONS), snapshot.now))


def authorised_changes(
    changes: Sequence[Change], store: trust.MemoryReader, writer: Trust, *, put_back: bool = False
) -> list[Change]:
    """The changes that `trust.authorise` allows; raises a Refusal (422 `pinned`) that names the memory."""
    try:
        return trust.authorise(changes, store, writer, put_back=put_back)
    except trust.PinnedError as pinned:
        raise Refusal(422, "pinned", str(pinned), field="pinned", id=pinned.memory_id or None) from None


def stated_facts(
    content: str, speaker: str, read: Callable[[str, str], Sequence[Triple]] = stated_triples
) -> tuple[StatedFact, ...]:
    """The facts that a text states, for the fact graph; none where reading it fails. Of what happened once, only those
    that last: where somebody moved to. SPEC 10.3 [M26]"""
    try:
        found = read(content, speaker)
        if found and len(content) <= STATEMENT_CHARS_MAX and statement_kind(content).name in ("event", "moment"):
            found = [each for each in found if begins_state(each.predicate)]
        return tuple(StatedFact(*each) for each in found)
    except Exception:
        log.exception("a text is stored without the facts that it states")
        return ()


def _retied(snapshot: Snapshot, memory_id: str, updates: Collection[str]) -> list[Change]:
    """The changes by which a memory is newer than these, and than no other. Raises a Refusal."""
    for each in updates:
        if _existing(snapshot, each, field="updates").id == memory_id:
            raise Refusal(400, "bad_value", "a memory is not newer than itself", field="updates")
    edges = [each for each in snapshot.edges(memory_id) if each.relation == "updates" or each.slot]
    kept = {each.target for each in edges if each.source == memory_id and each.relation == "updates"} & {*updates}
    dropped = [
        each for each in edges if (each.target not in kept if each.source == memory_id else each.source in updates)
    ]
    return [
        *(DropEdge(source=each.source, target=each.target, relation=each.relation) for each in dropped),
        *(PutEdge(data=Edge(source=memory_id, target=each, relation="updates", at=snapshot.now))
          for each in updates if each not in kept),
    ]  # fmt: skip


def is_visible(memory: Memory | None, caller: Caller) -> bool:
    """True if the memory is there, as far as this caller is concerned."""
    return memory is not None and (caller.sees_sensitive or SENSITIVE_TAG not in memory.tags)


def _halves(key: bytes) -> tuple[np.uint64, np.uint64]:
    """The two halves of an id, as the columns hold them."""
    return np.uint64(int.from_bytes(key[:8], "big")), np.uint64(int.from_bytes(key[8:], "big"))


def _edge_cursor(edge: Edge, memory_id: str) -> str:
    """The place of an edge in the list of a memory's edges; it grows along the list."""
    is_from = edge.source == memory_id
    return f"{int(is_from)}.{edge.relation}.{edge.target if is_from else edge.source}"


def _existing(snapshot: Reading, memory_id: str, field: str = "id") -> Memory:
    memory = snapshot.memory(memory_id)
    if memory is None:
        raise Refusal(404, "not_found", f"there is no memory {memory_id}", field=field)
    return memory


def wanted_again(snapshot: Reading, memory: Memory, trust: Trust) -> list[Change]:
    """The changes that let a text be remembered: none, unless it was erased. A person who writes it again lifts the
    block; from anybody else it is refused. SPEC 3.7"""
    digest = skip_hash(snapshot.meta("salt"), memory.content)
    if snapshot.forgotten(digest) is None:
        return []
    if trust != "user":
        raise Refusal(422, FORGOTTEN, "this text was forgotten on purpose: only a person can have it remembered again")
    return [DropErasedText(hash=digest)]


def clear_skipped_texts(snapshot: Snapshot, memories: Sequence[Memory]) -> list[Change]:
    """The changes after which rescans store the text of these chunks again."""
    salt = snapshot.meta("salt")
    return [
        DropSkip(file=memory.managed, hash=skip_hash(salt, memory.content)) for memory in memories if memory.managed
    ]


def detached_from_note(snapshot: Snapshot, memory: Memory) -> Memory:
    """The restored memory, a memory of its own if no note keeps it: its file, or its text there, is gone. Then the
    time of the file does not count as its own. SPEC 6"""
    note = snapshot.note(memory.managed) if memory.managed else None
    if note is not None and not note.missing and any(chunk.memory == memory.id for chunk in note.chunks):
        return memory
    is_dated = memory.note is None or memory.note.dated
    return msgspec.structs.replace(memory, managed="", event_at=memory.event_at if is_dated else memory.created_at)


def place_of(snapshot: Reading, memory: Memory) -> str:
    """path:line of a chunk of a note."""
    note = snapshot.note(memory.managed)
    if note is None:
        return "its file"
    root = next((root.path for root in snapshot.roots() if root.id == note.root), "")
    line = next((chunk.first_line for chunk in note.chunks if chunk.memory == memory.id), 1)
    return f"{root}/{note.path}:{line}"
