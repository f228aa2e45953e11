"""History: a memory's versions, a memory as it was, and what became of all of them between two moments. SPEC 3.3."""

from typing import NamedTuple

from mnemo_core import timeline
from mnemo_daemon.memories import Caller, Found, Memories, found, is_seen
from mnemo_daemon.past import VERSIONS_A_SLICE, Past, compacted
from mnemo_daemon.refusals import Refusal, bad_value
from mnemo_store.reading import Snapshot, Stored
from mnemo_store.records import ChangeEntry, Memory
from mnemo_store.store import Store

SEQ_DIGITS_MAX = 18


class Version(NamedTuple):
    """A version of a memory, the transaction that made it, and what an answer shows beside it."""

    seq: int
    entry: ChangeEntry
    found: Found


class Span(NamedTuple):
    """Between the states after two transactions."""

    since: int
    until: int


class Difference(NamedTuple):
    """What became of one memory within a span, and the last transaction that changed it there.

    Of what was `dropped` nothing is known but its id.
    """

    id: str
    became: timeline.Became | None  # None: dropped
    seq: int
    entry: ChangeEntry
    before: Found | None = None
    after: Found | None = None
    fields: tuple[str, ...] = ()


class History:
    """The service. Every method reads whole histories, and runs on a worker thread."""

    def __init__(self, store: Store, memories: Memories) -> None:
        self._store = store
        self._memories = memories
        self._past = Past(store)

    def versions(self, text: str, caller: Caller, limit: int, cursor: str) -> tuple[list[Version], str]:
        """A memory's versions that are kept and that the caller may see, the newest first, in whatever state it is;
        and where to go on ("" at the end)."""
        memory_id = self._memories.resolve(text, caller)
        behind = _number(cursor) if cursor else None
        with self._store.snapshot() as snapshot:
            seen = [stored for stored in reversed(snapshot.versions(memory_id)) if is_seen(stored.memory, caller)]
            rows = [stored for stored in seen if behind is None or stored.seq < behind]
            versions = [_version(snapshot, stored) for stored in rows[:limit]]
        return versions, str(versions[-1].seq) if len(rows) > limit else ""

    def memory_at(self, text: str, at: int, caller: Caller) -> Found:
        """A memory as it was at a time. Raises a Refusal: 404 where it was not there then."""
        memory_id = self._memories.resolve(text, caller)
        seq = self._past.seq_at(at)
        with self._store.snapshot() as snapshot:
            memory = timeline.version_at(snapshot.versions(memory_id), seq)
            if memory is None or not is_seen(memory, caller):
                raise Refusal(404, "not_found", f"memory {memory_id} was not there at that time", field="as_of")
            if not timeline.is_there(memory):
                raise Refusal(404, "not_found", f"memory {memory_id} was in the trash at that time", field="as_of")
            return found(snapshot, memory)

    def span(self, since: int, until: int | None) -> Span:
        """Between these seqs; up to now where `until` is None. Raises a Refusal for what is no longer known."""
        oldest = self._past.oldest()
        last = self._store.seq
        until = last if until is None else min(until, last)
        if min(since, until) < oldest.seq:
            raise compacted(oldest)
        return Span(since, until)

    def seq_at(self, at: int) -> int:
        """As Past.seq_at."""
        return self._past.seq_at(at)

    def differences(
        self, span: Span, namespaces: tuple[str, ...], user_id: str, caller: Caller, limit: int, cursor: str
    ) -> tuple[list[Difference], Span, str]:
        """What became of each memory of the namespaces (none named: all) within the span, what was changed last first;
        the span, which a cursor keeps; and where to go on ("" at the end)."""
        behind = ""
        if cursor:
            since, until, behind = _cursor(cursor)
            span = Span(since, until)
        last: dict[str, tuple[int, ChangeEntry]] = {}
        for seq, entry in self._past.changes(span.since, span.until):
            for memory_id in entry.ids:
                last.setdefault(memory_id, (seq, entry))
        ids = list(last)
        if cursor:
            if behind not in last:
                raise _no_cursor()
            ids = ids[ids.index(behind) + 1 :]
        rows: list[Difference] = []
        for start in range(0, len(ids), VERSIONS_A_SLICE):
            if len(rows) > limit:
                break
            with self._store.snapshot() as snapshot:
                for memory_id in ids[start : start + VERSIONS_A_SLICE]:
                    versions = snapshot.versions(memory_id)
                    row = _difference(snapshot, Difference(memory_id, None, *last[memory_id]), versions, span)
                    if row is not None and _is_shown(row, versions, namespaces, user_id, caller):
                        rows.append(row)
        more, rows = len(rows) > limit, rows[:limit]
        return rows, span, f"{span.since}.{span.until}.{rows[-1].id}" if more else ""


def _version(snapshot: Snapshot, stored: Stored) -> Version:
    entry = snapshot.entry(stored.seq) or ChangeEntry(at=stored.memory.modified_at, by="")
    return Version(stored.seq, entry, found(snapshot, stored.memory))


def _difference(snapshot: Snapshot, row: Difference, versions: list[Stored], span: Span) -> Difference | None:
    """The row with what became of its memory; None where that is nothing."""
    if not versions:
        return row
    before, after = (timeline.version_at(versions, seq) for seq in span)
    became = timeline.what_became(before, after)
    if became is None:
        return None
    fields = timeline.changed_fields(before, after) if before is not None and after is not None else ()
    shown = [found(snapshot, memory) if memory is not None else None for memory in (before, after)]
    return row._replace(became=became, before=shown[0], after=shown[1], fields=fields)


def _is_shown(
    row: Difference, versions: list[Stored], namespaces: tuple[str, ...], user_id: str, caller: Caller
) -> bool:
    """Whether it is the caller's to see. Of what was dropped nobody knows whose it was: who sees all sees that."""
    place = row.after or row.before
    if place is None:
        return not namespaces and caller.sees_sensitive
    if (namespaces and place.memory.namespace not in namespaces) or place.memory.user_id != user_id:
        return False
    shown: list[Memory] = [each.memory for each in (row.before, row.after) if each is not None]
    return all(is_seen(memory, caller) for memory in (*shown, versions[-1].memory))


def _cursor(text: str) -> tuple[int, int, str]:
    since, _, rest = text.partition(".")
    until, _, memory_id = rest.partition(".")
    return _number(since), _number(until), memory_id


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > SEQ_DIGITS_MAX:
        raise _no_cursor()
    return int(text)


def _no_cursor() -> Refusal:
    return bad_value("a cursor is what the page before gave as `cursor`", "cursor")
