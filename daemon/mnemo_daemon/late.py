"""Near check and score for what was written before its vector was there. SPEC 5

Where the first such write stood is a fact of the store, written with it, and taken back once all have been looked at.
From there this follows the store, as the vectors do, once those are current. Doing a stretch of it again changes
nothing. What was compared at the door already is passed over.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from mnemo_core import appraisal, intake
from mnemo_core.changing import Decision, Draft, Tie
from mnemo_core.dates import said_at
from mnemo_core.intake import LATE_FROM, Item, Pending
from mnemo_core.profiles import Profile, settled_importance
from mnemo_daemon.centroids import Scope
from mnemo_daemon.indexing import Rows, Serving
from mnemo_daemon.memories import ADD, Caller
from mnemo_daemon.nearness import Nearness, Wanted
from mnemo_daemon.times import zone_offset
from mnemo_store.reading import Snapshot
from mnemo_store.records import Memory, PutMeta
from mnemo_store.store import Store, Turn

BY = "intake"  # who does it
SEEN_MAX = 50_000  # memories compared at the door that are remembered as such
ENTRIES = 200  # transactions looked at together, until they hold
MEMORIES = 50  # to be compared, and somewhat more where one transaction wrote many

_EVERYTHING = Caller(BY)


class _Behind(NamedTuple):
    """A memory that was written without its vector, with it, and the group that it was written in."""

    memory: Memory
    rows: Rows
    group: str


class Late:
    """`work` is for the thread that keeps the vectors; `note_seen` for whoever writes."""

    def __init__(self, store: Store, nearness: Nearness, profile: Callable[[str], Profile]) -> None:
        self._store = store
        self._nearness = nearness
        self._profile = profile
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self._seq: int | None = None  # looked at so far; None: not since the start

    def note_seen(self, memory_id: str) -> None:
        """It was compared and scored with its vector; it need not be written yet."""
        with self._lock:
            self._seen[memory_id] = None
            while len(self._seen) > SEEN_MAX:
                self._seen.popitem(last=False)

    def waiting(self) -> int:
        """How many changes it has still to look at; 0 when all is done."""
        with self._store.snapshot() as snapshot:
            begun, now = snapshot.meta(LATE_FROM), snapshot.seq
        return max(1, now - (self._seq if self._seq is not None else int(begun))) if begun else 0

    def work(self, serving: Serving, seq_max: int) -> bool:
        """Takes the next stretch up to the change `seq_max`, which the view has; False where there is none. Raises what
        the store raises, and then does it again."""
        with self._store.snapshot() as snapshot:
            begun, now = snapshot.meta(LATE_FROM), snapshot.seq
        if not begun:
            self._seq = now
            return False
        seen_to = self._seq if self._seq is not None else int(begun)
        behind, seq = self._next(seen_to, seq_max, serving)
        if seq == seen_to:
            return self._finish(seq)
        groups: dict[str, list[_Behind]] = {}
        for each in behind:
            groups.setdefault(each.group, []).append(each)
        moved: dict[tuple[str, int], int] = {}
        written = [self._write(some, group, serving, moved) for group, some in groups.items()]
        for future in written:
            future.result()
        self._seq = seq
        return True

    def _finish(self, seq: int) -> bool:
        """Takes the fact back, unless something was written meanwhile. False: there is nothing more to do."""

        def decide(snapshot: Snapshot) -> Turn[bool]:
            is_done = snapshot.seq == seq
            return Turn((PutMeta(name=LATE_FROM, value=""),) if is_done else (), not is_done)

        return self._store.transact(decide, by=BY, background=True).result().result

    def _next(self, after: int, seq_max: int, serving: Serving) -> tuple[list[_Behind], int]:
        """Some memories that have their vectors now and had none when they were written."""
        behind: dict[str, _Behind] = {}
        seq = after
        with self._store.snapshot() as snapshot:
            for entry_seq, entry in snapshot.entries(after, ENTRIES):
                if entry_seq > seq_max or len(behind) >= MEMORIES:
                    break
                seq = entry_seq
                for memory_id in entry.ids:
                    found = self._behind(snapshot, memory_id, serving)
                    if found is not None:
                        behind[memory_id] = _Behind(*found, entry.group)
        return list(behind.values()), seq

    def _behind(self, snapshot: Snapshot, memory_id: str, serving: Serving) -> tuple[Memory, Rows] | None:
        with self._lock:
            if memory_id in self._seen:
                return None
        memory, number = snapshot.memory(memory_id), snapshot.number(memory_id)
        if memory is None or number is None or not intake.may_be_late(memory):
            return None
        rows = serving.view.vectors_of(number)
        return None if rows is None else (memory, rows)

    def _write(
        self, behind: Sequence[_Behind], group: str, serving: Serving, moved: dict[tuple[str, int], int]
    ) -> "Future[Any]":
        """`moved` has the versions that this stretch made of those that were judged: what they say is the same."""
        judged = [(each.memory, *self._judged(each, serving)) for each in behind]

        def decide(snapshot: Snapshot) -> Turn[bool]:
            pending = Pending(snapshot)
            for memory, importance, found in judged:
                ties = [tie._replace(version=moved.get((tie.id, tie.version), tie.version)) for tie in found]
                decision: Decision | None = intake.late(memory, importance, ties, pending)
                if decision is not None:
                    pending.make(decision.changes)
                    moved[memory.id, memory.version] = decision.memory.version
            return Turn(pending.changes, bool(pending.changes), ADD, group)

        return self._store.transact(decide, by=BY, background=True)

    def _judged(self, behind: _Behind, serving: Serving) -> tuple[float, Sequence[Tie]]:
        """Its importance, and its ties to what was there before it."""
        memory, rows = behind.memory, behind.rows
        profile = self._profile(memory.namespace)
        middle = serving.centroids.centroid(Scope(memory.user_id, memory.namespace), without=rows)
        scores = appraisal.score(memory.content, profile, rows, middle)
        importance = settled_importance(profile, "remember", scores.importance)
        said = said_at(memory.content, memory.event_at, memory.created_at, zone_offset)
        item = Item(_draft(memory), profile=profile, said_at=said, is_explained=False)
        found = self._nearness.of_batch([Wanted(0, item, rows)], serving, _EVERYTHING).get(0, [])
        earlier = [near for near in found if near.memory.id < memory.id]
        return importance, self._nearness.tied(item, earlier, serving).ties if profile.near == "linked" else ()


def _draft(memory: Memory) -> Draft:
    """As it would come in now."""
    return Draft(
        content=memory.content, namespace=memory.namespace, user_id=memory.user_id, agent_id=memory.agent_id,
        run_id=memory.run_id, session_id=memory.session_id, trust=memory.trust, source=memory.source,
        speaker=memory.speaker, event_at=memory.event_at, key=memory.key,
    )  # fmt: skip
