"""Turns judged and condensed behind the conversation, by a language model where one is good enough. SPEC 8 [T3, T4]

A verdict or a summary belongs to a text, in whatever tier the turn is once it comes; where the text is another by then,
it is dropped. Nothing waits for a model, and no lock is held while it is asked. What is still to be reviewed is in
memory: a turn that a stop left unjudged is judged after the next start if it still is in the ring.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from mnemo_core.ingest.memory_cues import MemoryFacts
from mnemo_core.ingest.mutations import rescore_strength
from mnemo_core.ingest.policies import PolicyOf, own_policy
from mnemo_core.llm.summarize import CONDENSE
from mnemo_core.llm.tasks import TaskInputs
from mnemo_core.llm.triage import JUDGE_IMPORTANCE
from mnemo_core.retrieval.versions import TURN_TIER
from mnemo_core.sessions.tiers import condensed, is_live_turn, is_unjudged, judged, needs_summary, tier_of
from mnemo_daemon.history_names import BY_SESSIONS
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.models.language.task_runner import TaskRunner
from mnemo_daemon.sessions.session_service import SHOWN_STATES, turns_in
from mnemo_store.backend import Snapshot
from mnemo_store.records import TIERS, Memory, PutMemory
from mnemo_store.store import Commit, Store, WriteResult

PENDING_MAX = 10_000  # reviews; beyond it the oldest are not made
SLICE_SECONDS = 0.5  # how long the scheduler waits for a review before other jobs get their turn
READ_TOGETHER = 500  # turns, of those that were there at the start

Review = Callable[[Memory], Callable[[Memory], Memory | None] | None]


class TurnReview:
    """The service. `run_slice` is the job's."""

    def __init__(self, store: Store, views: Views, tasks: TaskRunner, policy: PolicyOf = own_policy) -> None:
        self._store = store
        self._views = views
        self._tasks = tasks
        self._policy = policy
        self._is_closing = threading.Event()
        self._threads = ThreadPoolExecutor(1, "mnemo-turns")
        self._lock = threading.Lock()
        self._unjudged: OrderedDict[str, None] = OrderedDict()
        self._uncondensed: OrderedDict[str, None] = OrderedDict()
        self._current: Future[None] | None = None
        self._unseen: deque[int] | None = None  # turns to look at since the start, by their numbers; None: all
        views.add_listener(self._on_commit)

    def close(self) -> None:
        """End the review under way; nothing of it is written."""
        self._is_closing.set()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def is_due(self) -> bool:
        """Return whether a turn is to be condensed, or to be judged by a model that may be asked."""
        return self._unseen is None or bool(self._unseen) or bool(self._uncondensed) or self._may_judge()

    def run_slice(self) -> bool:
        """Review the next turn, or go on waiting for it; return whether there is more."""
        # Look at some of the turns that were there at the start.
        columns = self._views.attributes
        if self._unseen is None:
            self._unseen = deque(turns_in(columns, TIERS).tolist())
        ids = columns.ids([self._unseen.popleft() for _ in range(min(READ_TOGETHER, len(self._unseen)))])
        with self._store.snapshot() as snapshot:
            turns = [turn for turn in map(snapshot.memory, ids) if turn is not None]
        for turn in turns:
            self._add(turn)
        if self._current is None:
            self._current = self._next()
        if self._current is None:
            return bool(self._unseen)
        if wait([self._current], SLICE_SECONDS).done:
            done, self._current = self._current, None
            done.result()
        return True

    def _may_judge(self) -> bool:
        return bool(self._unjudged) and self._tasks.may_ask(JUDGE_IMPORTANCE)

    def _next(self) -> Future[None] | None:
        review, pending = self._judge, self._unjudged
        if not self._may_judge():
            review, pending = self._condense, self._uncondensed
        with self._lock:
            if not pending:
                return None
            memory_id, _ = pending.popitem(last=False)
        return self._threads.submit(self._review, memory_id, review)

    # Turns to be reviewed

    def _on_commit(self, commit: Commit) -> None:
        for each in commit.touched:
            if each.memory is not None and each.memory.turn is not None:
                self._add(each.memory)

    def _add(self, turn: Memory) -> None:
        if not is_live_turn(turn):
            return
        with self._lock:
            if tier_of(turn) == "ring" and turn.version == 1 and is_unjudged(turn):
                self._unjudged[turn.id] = None
            if tier_of(turn) != "ring" and needs_summary(turn):
                self._uncondensed[turn.id] = None
            for pending in (self._unjudged, self._uncondensed):
                while len(pending) > PENDING_MAX:
                    pending.popitem(last=False)

    # One turn, on the thread

    def _review(self, memory_id: str, review: Review) -> None:
        """Write what the review makes of a turn, if its text is still the one that was reviewed."""
        with self._store.snapshot() as snapshot:
            turn = snapshot.memory(memory_id)
        if turn is None or turn.state not in SHOWN_STATES or (applied := review(turn)) is None:
            return
        content = turn.content

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            now = snapshot.memory(memory_id)
            if now is None or now.content != content or now.state not in SHOWN_STATES:
                return WriteResult((), None)
            after = applied(now)
            if after is None:
                return WriteResult((), None, TURN_TIER)
            return WriteResult([PutMemory(data=after), *rescore_strength(now, after, snapshot)], None, TURN_TIER)

        self._store.transact(decide, by=BY_SESSIONS.name, background=True).result()

    def _judge(self, turn: Memory) -> Callable[[Memory], Memory | None] | None:
        """None where no model judged it: a turn then keeps the importance that it came in with."""
        if not is_unjudged(turn):
            return None
        facts = MemoryFacts(kind=turn.kind, category=turn.category, layer=turn.layer, trust=turn.trust, tags=turn.tags)
        inputs = TaskInputs((turn.content,), facts=(facts,))
        result = self._tasks.run(JUDGE_IMPORTANCE, inputs, is_cancelled=self._is_closing.is_set)
        if result.method != "llm":
            return None
        importance = result.answer.importance
        policy = self._policy(turn.namespace)
        return lambda now: judged(now, importance, policy) if is_unjudged(now) else None

    def _condense(self, turn: Memory) -> Callable[[Memory], Memory | None] | None:
        if not needs_summary(turn):
            return None
        result = self._tasks.run(CONDENSE, TaskInputs((turn.content,)), is_cancelled=self._is_closing.is_set)
        if self._is_closing.is_set():
            return None
        summary = result.answer.text
        return lambda now: condensed(now, summary) if needs_summary(now) else None
