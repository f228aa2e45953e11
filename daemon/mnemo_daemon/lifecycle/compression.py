"""Compression both ways: old conversations to summaries, old items of the buffer to profiles. SPEC 9.6 [L 3, M]

A session is compressed in one transaction, which writes nothing where one of its memories was changed while the summary
was made. What was summarised once is not summarised again, even if that was undone.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mnemo_core.decay import epoch_of, initial_usage
from mnemo_core.ingest import write_plan
from mnemo_core.ingest.policies import PolicyOf
from mnemo_core.lifecycle.compression import (
    HIDDEN_LAYERS,
    KEPT_TAG_PREFIXES,
    KEPT_TAGS,
    SAYING_NOTHING,
    attributed_texts,
    compress_session,
    first_part,
    is_compressible,
    sessions_due,
)
from mnemo_core.lifecycle.profiles import CUTOFF_HOURS
from mnemo_core.llm.summarize import SUMMARIZE_SESSION, shorten_sources
from mnemo_core.llm.tasks import TaskInputs
from mnemo_daemon.history_names import BY_LIFECYCLE, COMPRESS
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.lifecycle.profile_service import LiftResult, Owner, ProfileService
from mnemo_daemon.memories.memory_columns import Numbers, read_rows
from mnemo_daemon.memories.memory_service import Caller, stated_facts
from mnemo_daemon.models.language.task_runner import TaskRunner
from mnemo_store.backend import Snapshot
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.progress import Progress, unreported
from mnemo_store.record_texts import skip_hash
from mnemo_store.records import CATEGORIES, STATES, SUMMARY_SOURCE, TIERS, Change, Memory, PutMemory, PutUsage
from mnemo_store.store import Store, WriteResult

IDLE_MS = 1_800_000  # without a memory, after which a session is over. SPEC 8
READ_CHARACTERS = 6000  # of a session that a summary is made of: what a context of 4,096 tokens holds
LIFECYCLE = Caller(BY_LIFECYCLE.name)

_OPEN_TIERS = [1 + TIERS.index(tier) for tier in ("ring", "recent")]  # of turns of a session that goes on


class CompressionResult(NamedTuple):
    """Result of a compression: the summaries of sessions. under_way: those that were left alone because they go on."""

    summaries: list[Memory]
    lifted: LiftResult
    under_way: int
    group: str


class Compression:
    """The service. `run_slice` is the job's; the methods block, and may be called on any thread."""

    def __init__(
        self, store: Store, views: Views, tasks: TaskRunner, profiles: ProfileService, threshold: Callable[[], int],
        policy: PolicyOf, is_closing: Callable[[], bool] = lambda: False,
        is_unasked: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        """threshold: how many sessions of a user are left as they are, where the policy does not say; 0: all.
        is_unasked: whether the job compresses sessions where the policy leaves it to the setting."""
        self._store = store
        self._views = views
        self._tasks = tasks
        self._profiles = profiles
        self._threshold = threshold
        self._policy = policy
        self._is_unasked = is_unasked
        self._is_closing = is_closing
        self._run: Iterator[None] | None = None  # the job's, under way

    def compress(
        self, owner: Owner, sessions: int | None, cutoff_hours: int | None, caller: Caller, *, dry_run: bool,
        progress: Progress = unreported,
    ) -> CompressionResult:  # fmt: skip
        """Compress the oldest sessions of a user, as many as are due where no number is given, and lift what is older
        than the cut-off, where there is one. A dry run answers the same and writes nothing."""
        group = "" if dry_run else self._store.new_id()
        found = self._sessions(owner)
        count = self._due(owner, len(found)) if sessions is None else sessions
        made: list[Memory] = []
        progress("summarizing conversations", 0, count)
        for summary in self._compressed(found, count, caller, group, dry_run=dry_run):
            made.append(summary)
            progress("summarizing conversations", len(made), count)
        lifted = LiftResult(0, 0, 0)
        if cutoff_hours is not None:
            progress("reading for the profile", 0, 0)
            lifted = self._profiles.lift(owner, cutoff_hours, caller, group, dry_run=dry_run)
        return CompressionResult(made, lifted, sum(goes_on for _, goes_on in found), group)

    def run_slice(self) -> bool:
        """Compress the next session that is due, or lift what is due of one user; return whether there is more."""
        self._run = run = self._run or self._steps()
        try:
            next(run)
        except StopIteration:
            self._run = None
            return False
        except BaseException:  # raised again: the scheduler reports it and tries again
            self._run = None
            raise
        return True

    def clear_caches(self) -> None:
        """Forget which sessions the present run of the job was to compress; it begins again."""
        self._run = None

    def _steps(self) -> Iterator[None]:
        for user_id, namespace in self._views.attributes.scopes():
            owner, policy = Owner(namespace, user_id), self._policy(namespace)
            by_setting = policy.compresses_sessions == "setting" and self._is_unasked()
            if policy.compresses_sessions == "always" or by_setting:
                found, created = self._sessions(owner), self._views.attributes.column("created_at")
                since = self._store.now() - IDLE_MS
                idle = [(rows, goes_on) for rows, goes_on in found if created[rows].max() < since]
                due = self._due(owner, len(found))
                for _ in self._compressed(idle, due, LIFECYCLE, self._store.new_id(), dry_run=False):
                    yield
            if policy.lifts:
                self._profiles.lift(owner, CUTOFF_HOURS, LIFECYCLE, self._store.new_id(), dry_run=False)
                yield

    def _due(self, owner: Owner, sessions: int) -> int:
        threshold = self._policy(owner.namespace).compression_threshold or self._threshold()
        return sessions_due(sessions, threshold) if threshold else 0

    # What there is to compress

    def _sessions(self, owner: Owner) -> list[tuple[Numbers, bool]]:
        """The numbers of what may be compressed of each session, the oldest first, and whether it goes on, so that it
        may not yet; the session whose oldest memory was stored first in front. [L26]"""
        columns = self._views.attributes
        rows = np.flatnonzero(columns.uncached_mask(self._filter(
            owner, kinds=("episodic",), layers=HIDDEN_LAYERS, states=("active",), without_tags=(*KEPT_TAGS,)
        )))  # fmt: skip
        is_kept = (columns.values("session_id", rows) == 0) | (columns.values("pinned", rows) != 0)
        is_kept |= columns.values("managed", rows) != 0
        is_kept |= np.isin(columns.values("category", rows), [CATEGORIES.index(each) for each in SAYING_NOTHING])
        for prefix in KEPT_TAG_PREFIXES:
            for tagged in columns.numbers_by_tag(prefix).values():
                is_kept |= np.isin(rows, tagged)
        wanted = self._filter(owner, source=SUMMARY_SOURCE, states=STATES)
        summaries = read_rows(self._store, columns, np.flatnonzero(columns.uncached_mask(wanted)))
        rows, summarised = rows[~is_kept], {each for summary in summaries for each in summary.derived_from}
        rows = rows[[each not in summarised for each in columns.ids(rows.tolist())]]
        rows = rows[np.lexsort([columns.values(name, rows) for name in ("id_low", "id_high", "created_at")])]
        sessions = columns.values("session_id", rows)
        in_groups = np.argsort(sessions, kind="stable")
        starts = np.flatnonzero(np.diff(sessions[in_groups], prepend=-1))
        groups = sorted(np.split(in_groups, starts[1:]), key=lambda group: int(group[0])) if len(rows) else []
        turns = np.flatnonzero(columns.uncached_mask(self._filter(owner, states=("active",))))
        open_turns = turns[np.isin(columns.values("tier", turns), _OPEN_TIERS)]
        going_on = set(columns.values("session_id", open_turns).tolist())
        return [(rows[group], int(sessions[group[0]]) in going_on) for group in groups]

    def _filter(self, owner: Owner, **fields: Any) -> MemoryFilter:
        return MemoryFilter(namespaces=(owner.namespace,), user_id=owner.user_id, now=self._store.now(), **fields)

    # One session

    def _compressed(
        self, sessions: Iterable[tuple[Numbers, bool]], count: int, caller: Caller, group: str, *, dry_run: bool
    ) -> Iterator[Memory]:
        """Compress the first sessions, that many of them, and yield the summaries. One that goes on, has no summary, or
        is changed while that is made is passed over."""
        for rows, goes_on in sessions:
            if count <= 0 or self._is_closing():
                return
            if goes_on:
                continue
            now = self._store.now()
            read = read_rows(self._store, self._views.attributes, rows)
            memories = first_part(each for each in read if is_compressible(each, now))
            if memories and (made := self._summarise(memories, caller, group, dry_run)):
                count -= 1
                yield made

    def _summarise(self, memories: list[Memory], caller: Caller, group: str, dry_run: bool) -> Memory | None:
        """Put a summary in the place of some memories of a session, if there is one and they are what they were."""
        texts = shorten_sources(attributed_texts(memories), READ_CHARACTERS)
        result = self._tasks.run(SUMMARIZE_SESSION, TaskInputs(texts), is_cancelled=self._is_closing)
        text, method = result.answer.summary.strip(), f"llm:{result.model}" if result.model else "rule"
        if not text or self._is_closing():
            return None
        facts, summary_id = stated_facts(text, ""), self._store.new_id()

        def decide(snapshot: Snapshot) -> WriteResult[Memory | None]:
            now = [memory for each in memories if (memory := snapshot.memory(each.id)) is not None]
            is_same = [memory.content for memory in now] == [memory.content for memory in memories]
            is_erased = snapshot.forgotten(skip_hash(snapshot.meta("salt"), text)) is not None
            if is_erased or not is_same or not all(is_compressible(memory, snapshot.now) for memory in now):
                return WriteResult((), None)
            summary, originals = compress_session(now, text, method, summary_id, snapshot.now, caller.trust)
            usage = initial_usage(summary, epoch_of(snapshot))
            stated = write_plan.put_facts(summary, text, facts, snapshot, self._store.new_id)
            changes: list[Change] = [PutMemory(data=each) for each in (summary, *originals)]
            return WriteResult((*changes, PutUsage(data=usage), *stated), summary, COMPRESS, group)

        if dry_run:
            with self._store.snapshot() as snapshot:
                return decide(snapshot).result
        return self._store.transact(decide, by=caller.name, background=True).result().result
