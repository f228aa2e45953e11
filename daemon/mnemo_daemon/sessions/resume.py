"""The resume of a namespace, from the columns and the few memories that stand in it, and the triggers. SPEC 11 [G 7]

Nothing is written, and no model is waited for: shorter forms of what the budget has no room for are made by a job, and
kept in memory alone.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.decay import epoch_of
from mnemo_core.ingest.memory_role import MemoryRole
from mnemo_core.ingest.write_plan import is_outdated
from mnemo_core.llm.summarize import LINES_MAX, RESUME_COMPRESS, select_sentences
from mnemo_core.llm.tasks import TaskInputs
from mnemo_core.retrieval.context_block import ContextLine
from mnemo_core.sessions.resume import (
    CORE_RELEVANT_MIN,
    CORE_TOKENS,
    READ_MAX,
    RECENT_TOKENS,
    RELEVANT_MIN,
    PlacedLine,
    RepetitionFilter,
    ResumeEntry,
    ResumeLists,
    ResumeSection,
    ResumeTopic,
    fill_profile,
    fill_section,
    fitting_topics,
    fitting_triggers,
    joined_sections,
    others_budget,
    recent_since,
    relevant_first,
    render_resume,
    resume_lines,
    tokens_in,
)
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.lifecycle.profile_service import Entries
from mnemo_daemon.memories.memory_columns import Numbers, Relevance, RoleReader, by_weight, weights_of
from mnemo_daemon.memories.memory_service import MemoryDetails, details_of
from mnemo_daemon.models.language.task_runner import TaskRunner
from mnemo_daemon.retrieval.candidates.corpus_builder import permitted_mask
from mnemo_daemon.retrieval.question import Question
from mnemo_daemon.sessions.role_sections import RoleSections, entry_of
from mnemo_daemon.times import local_day
from mnemo_store.backend import Snapshot
from mnemo_store.indexes.attributes import AttributeStore, MemoryFilter
from mnemo_store.records import CATEGORIES, LAYERS, Memory
from mnemo_store.store import Store

TRIGGER_TAG = "trigger:"
SESSION_NOTE = "session"  # the source or tag of a note about a session, which is distilled and never core [G52]
SHORT_FORMS_MAX = 256
SOURCE_CHARACTERS = 360  # of a memory that is condensed: what a context of 4,096 tokens holds of LINES_MAX of them
SOURCE_SENTENCES = 3
NOTE_KIND = "note"  # in front of the line of a file of notes

Version = tuple[str, int]  # id and version


class Resume(NamedTuple):
    """The text of a resume and what it is made of. shown: id and text of each memory in it."""

    text: str
    working: int
    buffer: int
    core: ResumeSection
    profile: ResumeSection
    recent: ResumeSection
    others: ResumeSection
    lists: ResumeLists
    shown: list[tuple[str, str]]

    def lines(self) -> list[PlacedLine]:
        """Return the lines of the text, each with its section and what it shows."""
        return resume_lines(self.working, self.buffer, self.core, self.recent, self.lists, self.profile, self.others)


class ResumeService:
    """The service; its methods block, and may be called on any thread."""

    def __init__(
        self, store: Store, views: Views, tasks: TaskRunner, root_paths: Callable[[], Mapping[str, str]],
        topics: Callable[[MemoryFilter], list[ResumeTopic]] = lambda _: [],
        profile: Callable[[MemoryFilter], Entries] = lambda _: {}, roles: RoleReader | None = None,
        is_by_roles: Callable[[str], bool] = lambda _: False,
    ) -> None:  # fmt: skip
        """topics: those of the present trees in scope; none where there is none. profile: the entries in scope.
        is_by_roles: whether a namespace has a resume by the roles of its memories."""
        self._store = store
        self._views = views
        self._tasks = tasks
        self._root_paths = root_paths
        self._topics = topics
        self._profile = profile
        self._roles = roles
        self._is_by_roles = is_by_roles
        self._lock = threading.Lock()
        self._short: OrderedDict[Version, str] = OrderedDict()  # "": none was made
        self._left: tuple[str, ...] = ()  # core memories that the last resume had no room for

    def resume(self, wanted: MemoryFilter, session_id: str | None, relevance: Relevance | None = None) -> Resume:
        """The resume of what passes the filter: active memories, those of kind `working` of the session alone.
        relevance: to the task of the session, by which the memories about its work are ordered."""
        columns, rows = self._rows(wanted, session_id)
        layer, managed = columns.values("layer", rows), columns.values("managed", rows)
        found = self._profile(wanted) if not wanted.tags and wanted.agent_id is None else {}
        lists_of = {place.heading: [(each.id, each.content) for each in some] for place, some in found.items()}
        profile, shown = fill_profile(lists_of), [each for some in lists_of.values() for each in some]
        with self._store.snapshot() as snapshot:
            numbers = [number for each in profile.ids if (number := snapshot.number(each)) is not None]
        has_text = np.full(len(rows), bool(numbers))
        for name in ("text_high", "text_low"):
            has_text &= np.isin(columns.values(name, rows), columns.values(name, np.array(numbers, np.intp), clip=True))
        is_elsewhere = has_text
        is_core = (layer == LAYERS.index("core")) & ~is_elsewhere
        is_core[is_core] = ~_is_session_note(columns, rows[is_core])
        is_crumb = columns.values("category", rows) == CATEGORIES.index("crumb")
        is_own, is_listed = columns.is_own(rows), ~is_core & ~is_elsewhere & ~is_crumb
        recent = _by_change(columns, rows[is_own & is_listed])
        later = _by_change(columns, rows[~is_own & is_listed])
        working, buffer = (_count(managed[layer == LAYERS.index(name)]) for name in ("working", "buffer"))
        lists = self._lists(columns, wanted)
        if self._roles is not None and self._is_by_roles(namespace := _first_namespace(wanted)):
            core = rows[is_core & (managed == 0)]
            counts = working, buffer
            return self._by_roles(
                columns, rows[~is_elsewhere], core, namespace, counts, lists, profile, shown, relevance
            )
        with self._store.snapshot() as snapshot:
            core = by_weight(columns, rows[is_core & is_own & (managed == 0)], epoch_of(snapshot))
            if relevance is not None:
                core = core[relevant_first(relevance(core), CORE_RELEVANT_MIN)]
                recent = recent[relevant_first(relevance(recent), RELEVANT_MIN)]
            first = by_weight(columns, rows[is_core & ~is_own], epoch_of(snapshot))
            near = "" if relevance is None else ", near the task before"
            entries = self._memories(snapshot, columns.ids(core[:READ_MAX]), shown, f"core, strongest first{near}")
            core_section = fill_section(entries, len(core), CORE_TOKENS)
            entries = self._changes(snapshot, columns, recent[:READ_MAX], managed, shown, f"changed lately{near}")
            recent_section = fill_section(entries, len(recent), RECENT_TOKENS)
            of_others = np.concatenate((first, later))
            entries = self._memories(
                snapshot, columns.ids(of_others[:READ_MAX]), shown, "of others, core before recent"
            )
            budget = others_budget(core_section, profile, recent_section)
            others = fill_section(entries, len(of_others), budget)
        with self._lock:
            self._left = core_section.left[:LINES_MAX]
        text = render_resume(working, buffer, core_section, recent_section, lists, profile, others)
        whole = {*core_section.ids, *profile.ids, *recent_section.ids, *others.ids}
        shown = [(each, content) for each, content in shown if each in whole]
        return Resume(text, working, buffer, core_section, profile, recent_section, others, lists, shown)

    def _by_roles(
        self, columns: AttributeStore, rows: Numbers, core: Numbers, namespace: str, counts: tuple[int, int],
        lists: ResumeLists, profile: ResumeSection, shown: list[tuple[str, str]], relevance: Relevance | None,
    ) -> Resume:  # fmt: skip
        """Return the resume whose sections are chosen by role. core: those of `rows` in the layer core. SPEC 11"""
        assert self._roles is not None
        repetitions, is_own = RepetitionFilter(), columns.is_own(rows)
        for memory_id, text in shown:
            if memory_id in profile.ids:
                repetitions.accepts(text)
        with self._store.snapshot() as snapshot:
            own = RoleSections(self._roles, snapshot, columns, rows[is_own], namespace, repetitions, shown, relevance)
            known = own.known()
            rest = by_weight(columns, core[columns.is_own(core)], epoch_of(snapshot))
            found = self._memories(snapshot, columns.ids(rest[:READ_MAX]), shown, "core, strongest first")
            entries = (
                each for each in found if each.line.id not in known.ids and repetitions.accepts(each.line.content)
            )
            core_section = joined_sections([known, fill_section(entries, None, CORE_TOKENS - tokens_in(known))])
            core_section = core_section._replace(budget=max(CORE_TOKENS, known.budget))
            recent = own.recent(RECENT_TOKENS)
            of_others = RoleSections(
                self._roles, snapshot, columns, rows[~is_own], namespace, repetitions, shown, relevance
            )
            budget = others_budget(core_section, profile, recent)
            others = joined_sections([of_others.known(), of_others.recent(min(budget, RECENT_TOKENS))])
        whole = {*core_section.ids, *profile.ids, *recent.ids, *recent.parts, *others.ids, *others.parts}
        shown = [(each, content) for each, content in shown if each in whole]
        text = render_resume(*counts, core_section, recent, lists, profile, others)
        return Resume(text, *counts, core_section, profile, recent, others, lists, shown)

    def known(self, wanted: MemoryFilter) -> list[tuple[MemoryRole, Memory]]:
        """Return the current memories by role, those of others last; none in a namespace with the profile of a
        source. SPEC 9.6"""
        if self._roles is None or not self._is_by_roles(namespace := _first_namespace(wanted)):
            return []
        columns, rows = self._rows(wanted, None)
        repetitions, is_own = RepetitionFilter(), columns.is_own(rows)
        with self._store.snapshot() as snapshot:
            return [
                each
                for some in (rows[is_own], rows[~is_own])
                for each in RoleSections(self._roles, snapshot, columns, some, namespace, repetitions, []).statements()
            ]

    def triggers(self, wanted: MemoryFilter, action: str, limit: int) -> list[MemoryDetails]:
        """The memories to be read before an action, by weight. None of them came from a tool or an import."""
        columns, rows = self._rows(wanted._replace(tags=(TRIGGER_TAG + action,), trust_min="agent"), None)
        with self._store.snapshot() as snapshot:
            ids = columns.ids(by_weight(columns, rows, epoch_of(snapshot))[:limit])
            found = [memory for each in ids if (memory := snapshot.memory(each)) is not None]
            return [details_of(snapshot, memory) for memory in found]

    # The shorter forms

    def is_due(self) -> bool:
        """Return whether the last resume left out memories that a model may condense."""
        return bool(self._left)

    def run_slice(self) -> bool:
        """Have the model condense what the last resume had no room for; there is never more to do."""
        with self._lock:
            left, self._left = self._left, ()
        # The texts of the memories that no shorter form was tried of.
        with self._store.snapshot() as snapshot:
            found = [memory for each in left if (memory := snapshot.memory(each)) is not None]
        with self._lock:
            new = [memory for memory in found if (memory.id, memory.version) not in self._short]
        sources = {
            (memory.id, memory.version): select_sentences([memory.content], SOURCE_CHARACTERS, SOURCE_SENTENCES)
            for memory in new
        }
        result = self._tasks.run(RESUME_COMPRESS, TaskInputs(tuple(sources.values())))
        lines = {line.source: line.text for line in result.answer.lines}
        with self._lock:
            for number, version in enumerate(sources if result.method == "llm" else (), start=1):
                self._short[version] = lines.get(number, "")
            while len(self._short) > SHORT_FORMS_MAX:
                self._short.popitem(last=False)
        return False

    def clear_caches(self) -> None:
        """Forget the shorter forms of all memories."""
        with self._lock:
            self._short.clear()
            self._left = ()

    # What stands in it

    def _rows(self, wanted: MemoryFilter, session_id: str | None) -> tuple[AttributeStore, Numbers]:
        columns = self._views.attributes
        question = Question("", wanted._replace(states=("active",)), working_session=session_id)
        return columns, np.flatnonzero(permitted_mask(question, columns))

    def weights(self, ids: Sequence[str]) -> dict[str, float]:
        """Return the present weights of memories, by their ids."""
        columns = self._views.attributes
        with self._store.snapshot() as snapshot:
            numbers = {each: number for each in ids if (number := snapshot.number(each)) is not None}
            epoch = epoch_of(snapshot)
        found = weights_of(columns, np.array(list(numbers.values()), np.intp), epoch)
        return dict(zip(numbers, found.tolist(), strict=True))

    def _memories(
        self, snapshot: Snapshot, ids: list[str], shown: list[tuple[str, str]], reason: str
    ) -> Iterator[ResumeEntry]:
        for each in ids:
            memory = snapshot.memory(each)
            if memory is not None and not is_outdated(memory, None, snapshot):
                short = self._short.get((memory.id, memory.version), "")
                yield entry_of(snapshot, memory, memory.kind, shown, reason)._replace(short=short)

    def _changes(
        self, snapshot: Snapshot, columns: AttributeStore, rows: Numbers, files: NDArray[np.int32],
        shown: list[tuple[str, str]], reason: str,
    ) -> Iterator[ResumeEntry]:  # fmt: skip
        """The memories, and for a chunk of a note a line about its file."""
        roots, counts = self._root_paths(), np.bincount(files)
        for each, file in zip(columns.ids(rows), columns.values("managed", rows).tolist(), strict=True):
            if not file:
                yield from self._memories(snapshot, [each], shown, reason)
                continue
            memory = snapshot.memory(each)
            note = snapshot.note(memory.managed) if memory is not None else None
            if memory is None or note is None:
                continue
            place = f"{roots.get(note.root, '')}/{note.path}", f"passages: {counts[file]}"
            line = ContextLine(memory.id, NOTE_KIND, local_day(memory.modified_at), note.title, location=place)
            yield ResumeEntry(line, reason=f"a note, {reason}")

    def _lists(self, columns: AttributeStore, wanted: MemoryFilter) -> ResumeLists:
        trusted = columns.mask(wanted._replace(states=("active",), trust_min="agent"))
        used: tuple[dict[str, int], dict[str, int]] = {}, {}  # of others, and of the person
        for tag, numbers in columns.numbers_by_tag(TRIGGER_TAG).items():
            numbers = numbers[numbers < len(trusted)]
            if len(numbers := numbers[trusted[numbers]]):
                is_own = bool(columns.is_own(numbers).any())
                used[is_own][tag.removeprefix(TRIGGER_TAG)] = int(columns.values("access_count", numbers).sum())
        topics = self._topics(wanted) if not wanted.tags and wanted.agent_id is None else []
        of_others, own = (fitting_triggers(sorted(each, key=lambda name: (-each[name], name))) for each in used)
        return ResumeLists(fitting_topics(topics), len(topics), own, of_others)


def _first_namespace(wanted: MemoryFilter) -> str:
    """The namespace that the caller works in; "" for all of them."""
    return wanted.namespaces[0] if wanted.namespaces else ""


def _is_session_note(columns: AttributeStore, rows: Numbers) -> NDArray[np.bool_]:
    """A mask of those rows that are notes about a session. [G52]"""
    tagged = columns.numbers_by_tag(SESSION_NOTE).get(SESSION_NOTE, np.zeros(0, np.int64))
    found: NDArray[np.bool_] = np.isin(rows, tagged)
    found |= columns.values("source", rows) == columns.code("source", SESSION_NOTE)
    return found


def _count(managed: NDArray[np.int32]) -> int:
    """The number of memories, all chunks of a note together being one."""
    return int((managed == 0).sum()) + len(np.unique(managed[managed != 0]))


def _by_change(columns: AttributeStore, rows: Numbers) -> Numbers:
    """Those that were changed within the last epochs, the last change first, and of a note its last chunk alone."""
    changed = columns.values("modified_at", rows)
    is_recent = changed >= recent_since(changed)
    rows, changed = rows[is_recent], changed[is_recent]
    last: Numbers = rows[np.lexsort((*(~columns.values(name, rows) for name in ("id_low", "id_high")), -changed))]
    files = columns.values("managed", last)
    is_listed = files == 0
    is_listed[np.unique(files, return_index=True)[1]] = True
    listed: Numbers = last[is_listed]
    return listed
