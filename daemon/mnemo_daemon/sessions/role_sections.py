"""The sections of a resume, chosen by the role of each memory. SPEC 9.6, 11

Replaced values, repetitions, small talk and steps that are done are left out.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from mnemo_core.decay import epoch_of
from mnemo_core.ingest.memory_role import INSTRUCTION_ROLES, ROLES, MemoryRole
from mnemo_core.ingest.write_plan import is_outdated, is_perhaps_outdated
from mnemo_core.retrieval.context_block import PERHAPS_OUTDATED, ContextLine, author_of
from mnemo_core.sessions.resume import (
    BY_TIME,
    EVENTS_MS,
    OF_WORK,
    OPEN_ROLES,
    PROFILE_ROLES,
    READ_MAX,
    RECENT_ROLES,
    RELEVANT_MIN,
    ROLE_RELEVANT_MIN,
    ROLE_TOKENS,
    SESSION_PARTS,
    ComparedWords,
    RepetitionFilter,
    ResumeEntry,
    ResumeSection,
    compared_words,
    fill_section,
    is_done,
    joined_sections,
    recent_since,
    relevant_first,
)
from mnemo_daemon.memories.memory_columns import RESUME_WAITED_FOR, Numbers, Relevance, RoleReader, by_weight
from mnemo_daemon.times import local_day
from mnemo_store.backend import Snapshot
from mnemo_store.indexes.attributes import MINUTE_MS, AttributeStore
from mnemo_store.records import CATEGORIES, PROFILE_SOURCE, Memory

OVERFLOW_MAX = 4  # memories of a role that do not fit, after which no more are read
NEWEST_MAX = 120  # memories that are read for the section Recent, and to find the steps that are done
NOTES_MS = 7 * 86_400_000
NOTES_NAMED = 5  # files of notes that were changed, by their titles
_STATES: dict[MemoryRole, str] = {
    "identity": "who the user is", "instruction": "how to do things", "rule": "how to do certain things",
    "constraint": "a limit", "goal": "a goal",
    "decision": "a decision", "blocker": "what is in the way", "next": "an open step", "lesson": "a lesson",
    "fact": "a fact",
}  # fmt: skip
_CRUMB, _REQUEST = CATEGORIES.index("crumb"), CATEGORIES.index("request")
_INSTRUCTIONS = [ROLES.index(role) for role in INSTRUCTION_ROLES]


def entry_of(
    snapshot: Snapshot, memory: Memory, kind: str, shown: list[tuple[str, str]], reason: str, *, dated: bool = True
) -> ResumeEntry:
    """The line of a memory, which is added to those that are shown."""
    content = memory.turn.summary if memory.turn is not None and memory.turn.summary else memory.content
    shown.append((memory.id, content))
    date = local_day(memory.event_at) if dated else ""
    doubt = (PERHAPS_OUTDATED,) if is_perhaps_outdated(memory.id, snapshot) else ()
    line = ContextLine(memory.id, kind, date, content, location=doubt, author=author_of(memory))
    return ResumeEntry(line, reason=reason)


class RoleSections:
    """The sections of one resume, of the person's own memories or of what others wrote."""

    def __init__(
        self, reader: RoleReader, snapshot: Snapshot, columns: AttributeStore, rows: Numbers, namespace: str,
        repetitions: RepetitionFilter, shown: list[tuple[str, str]], relevance: Relevance | None = None,
    ) -> None:  # fmt: skip
        """namespace: what its memories say of work comes before that of others; "": of none. repetitions: rejects texts
        that the resume has. shown: receives the id and text of each memory. relevance: to the task of the session."""
        self._snapshot = snapshot
        self._columns = columns
        self._namespace = columns.code("namespace", namespace) if namespace else None
        self._repetitions = repetitions
        self._shown = shown
        self._relevance = relevance
        is_out = (columns.values("category", rows) == _CRUMB) | (columns.values("managed", rows) != 0)
        is_out |= columns.values("source", rows) == columns.code("source", PROFILE_SOURCE)
        roles = reader.of(columns, rows[~is_out], snapshot, RESUME_WAITED_FOR)
        is_kept = (columns.values("category", rows[~is_out]) != _REQUEST) | np.isin(roles, _INSTRUCTIONS)
        self._rows, self._roles = rows[~is_out][is_kept], roles[is_kept]
        self._managed = rows[columns.values("managed", rows) != 0]
        self._used: set[int] = set()
        self._left_out = Counter[str]()  # memories that were passed over, by reason
        self._parts: dict[str, list[Memory]] = {}  # of a conversation, by the id of the memory that its line names

    def known(self) -> ResumeSection:
        """Return the section of ROLE_TOKENS: of each role the first memories that fit its budget."""
        return joined_sections([self._of_role(role, tokens) for role, tokens in ROLE_TOKENS.items()])

    def statements(self) -> Iterator[tuple[MemoryRole, Memory]]:
        """Yield the current memories of each role of PROFILE_ROLES, at most READ_MAX a role."""
        for role in PROFILE_ROLES:
            yield from ((role, memory) for memory in self._standing(self._ordered(role), role))

    def recent(self, tokens: int) -> ResumeSection:
        """Return the section of recent memories that are in no other section, newest first: a line for each
        conversation, a line for each other memory, and one line for all edited notes."""
        columns = self._columns
        created = columns.values("created_at", self._rows)
        is_recent = created >= recent_since(np.append(created, columns.values("created_at", self._managed)))
        is_recent &= np.isin(self._roles, [ROLES.index(role) for role in RECENT_ROLES])
        is_event = self._roles == ROLES.index("event")
        is_recent &= ~is_event | (created >= self._snapshot.now - EVENTS_MS)
        # The appointments of which every time that their texts name has passed.
        last = self._last_named(self._rows)
        is_over = (last > 0) & (last <= self._snapshot.now // MINUTE_MS)
        is_over &= (columns.values("weekdays", self._rows) == 0) & (self._roles == ROLES.index("appointment"))
        for place in np.flatnonzero(is_recent & is_over)[-NEWEST_MAX:]:
            is_over[place] = not self._replaces_lasting(self._rows[place])
        before = self._left_out.copy()
        self._left_out["over"] += int((is_recent & is_over).sum())
        is_recent &= ~is_over
        is_recent &= ~np.isin(self._rows, list(self._used))
        rows = self._rows[is_recent]
        rows = rows[np.argsort(-columns.values("created_at", rows), kind="stable")][:NEWEST_MAX]
        entries = [*self._recent_entries(self._relevant_first(rows, RELEVANT_MIN))]
        # The line of the notes that were edited in the last days, by the time of their files.
        notes = list[ResumeEntry]()
        since = (self._snapshot.now - NOTES_MS) * 1_000_000
        rows = self._managed[np.unique(columns.values("managed", self._managed), return_index=True)[1]]
        rows = rows[np.argsort(-columns.values("modified_at", rows), kind="stable")[:READ_MAX]]
        files = [(note.mtime_ns, note.title, each.id) for each in self._read(rows)
                 if each.managed and (note := self._snapshot.note(each.managed)) is not None]  # fmt: skip
        if edited := sorted((each for each in files if each[0] >= since), reverse=True):
            more = f" (+{len(edited) - NOTES_NAMED} more)" if len(edited) > NOTES_NAMED else ""
            named = ", ".join(title for _, title, _ in edited[:NOTES_NAMED])
            newest, _, memory_id = edited[0]
            line = ContextLine(memory_id, "notes", local_day(newest // 1_000_000), named + more)
            notes.append(ResumeEntry(line, reason="notes edited within seven days"))
        section = fill_section([*notes, *entries], len(notes) + len(entries), tokens)
        parts = [part for line_id in section.ids for part in self._parts.get(line_id, ())]
        self._shown += [(part.id, part.content) for part in parts]
        return section._replace(parts=tuple(part.id for part in parts), left_out=self._left_out - before)

    def _last_named(self, rows: Numbers) -> NDArray[np.int64]:
        """The last minute of the times that each text names; 0 where it names none."""
        columns = ("told_until", "named_until")
        last: NDArray[np.int64] = np.max([self._columns.values(name, rows) for name in columns], axis=0, initial=0)
        return last

    def _replaces_lasting(self, row: int) -> bool:
        """Return whether a memory says, certainly or perhaps, a newer value of one that names no time: it holds on, as
        "raised to 8 after the outage of 16 November" does."""
        (memory_id,) = self._columns.ids(np.array([row], np.intp))
        edges = (edge for edge in self._snapshot.edges(memory_id) if edge.source == memory_id)
        older = [edge.target for edge in edges if edge.relation == "updates" or edge.slot]
        numbers = [number for each in older if (number := self._snapshot.number(each)) is not None]
        return bool((self._last_named(np.array(numbers, np.intp)) == 0).any())

    # Entries

    def _of_role(self, role: MemoryRole, tokens: int) -> ResumeSection:
        rows = self._ordered(role)
        self._used.update(rows.tolist())
        looked, standing = iter(rows.tolist()), 0

        def entries() -> Iterator[ResumeEntry]:
            nonlocal standing
            for memory in self._standing(looked, role):
                standing += 1
                yield entry_of(self._snapshot, memory, role, self._shown, reason, dated=role in BY_TIME)

        order = "newest first" if role in BY_TIME else "strongest first"
        reason = f"states {_STATES[role]}, {order}{', near the task before' if self._relevance is not None else ''}"
        before = self._left_out.copy()
        section = fill_section(entries(), None, tokens, OVERFLOW_MAX)
        return section._replace(total=standing + len([*looked]), left_out=self._left_out - before)

    def _ordered(self, role: MemoryRole) -> Numbers:
        """The first memories of a role: the newest, or those of the greatest weight."""
        columns, rows = self._columns, self._rows[self._roles == ROLES.index(role)]
        if role in BY_TIME:
            ordered: Numbers = rows[np.argsort(-columns.values("event_at", rows), kind="stable")]
        else:
            ordered = by_weight(columns, rows, epoch_of(self._snapshot))
        if role in OF_WORK and self._namespace is not None:
            is_elsewhere = columns.values("namespace", ordered) != self._namespace
            ordered = ordered[np.argsort(is_elsewhere, kind="stable")]
        elif role == "fact" and self._namespace is not None:  # those of no project say little about a project
            ordered = ordered[columns.values("namespace", ordered) == self._namespace]
        if role in OF_WORK or role == "fact":
            ordered = self._relevant_first(ordered, ROLE_RELEVANT_MIN.get(role, RELEVANT_MIN))
        return ordered[:READ_MAX]

    def _relevant_first(self, rows: Numbers, least: float) -> Numbers:
        return rows if self._relevance is None else rows[relevant_first(self._relevance(rows), least)]

    def _standing(self, rows: Iterable[int] | Numbers, role: MemoryRole) -> Iterator[Memory]:
        """Yield those of the memories that are current and that the resume does not have yet."""
        for memory in self._read(rows):
            if is_outdated(memory, None, self._snapshot):  # certainly replaced by a newer one. SPEC 5.8
                self._left_out["replaced"] += 1
            elif role in OPEN_ROLES and is_done(memory.content, self._words_after(memory)):
                self._left_out["done"] += 1
            elif self._repetitions.accepts(memory.content):
                yield memory
            else:
                self._left_out["repetition"] += 1

    def _words_after(self, memory: Memory) -> Iterator[ComparedWords]:
        """Yield the words of the memories stored after this one that are no open step, newest first."""
        for created_at, words in self._newest_words:
            if created_at <= memory.created_at:
                return
            yield words

    @functools.cached_property
    def _newest_words(self) -> list[tuple[int, ComparedWords]]:
        """The time of storage and the words of the newest memories that are no open step."""
        rows = self._rows[~np.isin(self._roles, [ROLES.index(role) for role in OPEN_ROLES])]
        rows = rows[np.argsort(-self._columns.values("created_at", rows), kind="stable")]
        return [(each.created_at, compared_words(each.content)) for each in self._read(rows[:NEWEST_MAX])]

    def _recent_entries(self, rows: Numbers) -> Iterator[ResumeEntry]:
        """A line for each conversation, where its newest memory stands, and for each other memory."""
        sessions: set[str] = set()
        read = [*self._read(rows)]
        memories = [each for each in read if not is_outdated(each, None, self._snapshot)]
        self._left_out["replaced"] += len(read) - len(memories)
        for memory in memories:
            if memory.turn is None:
                if self._repetitions.accepts(memory.content):
                    yield entry_of(self._snapshot, memory, memory.kind, self._shown, "stored lately")
                else:
                    self._left_out["repetition"] += 1
            elif memory.session_id not in sessions:
                sessions.add(memory.session_id)
                of_session = (each for each in memories if each.turn and each.session_id == memory.session_id)
                parts = [
                    *islice((each for each in of_session if self._repetitions.accepts(each.content)), SESSION_PARTS)
                ]
                if parts:
                    said = " · ".join(each.content for each in reversed(parts))
                    self._parts[memory.id] = parts
                    date, author = local_day(memory.event_at), author_of(memory)
                    line = ContextLine(memory.id, "session", date, said, author=author)
                    others = tuple(each.id for each in parts if each.id != memory.id)
                    yield ResumeEntry(line, reason="said last in a conversation", parts=others)

    def _read(self, rows: Iterable[int] | Numbers) -> Iterator[Memory]:
        for row in rows:
            (memory_id,) = self._columns.ids(np.array([row], np.intp))
            memory = self._snapshot.memory(memory_id)
            if memory is not None and (memory.turn is None or memory.turn.role == "user"):
                yield memory
