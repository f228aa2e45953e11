"""Session distillation: the status of a project from its session notes. SPEC 9.5

A status stands next to its notes, which keep every specific, and replaces only the former status.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from mnemo_core.ingest import mutations
from mnemo_core.ingest.trust import lowest_trust
from mnemo_core.lifecycle.consolidation.cycle import DISTILLED, CycleOperation, Planning, StepPlan, TaskQuestion
from mnemo_core.lifecycle.consolidation.joining.pairs import joinable
from mnemo_core.lifecycle.consolidation.joining.replacing import DISTILL_SOURCE, DISTILLED_IMPORTANCE
from mnemo_core.lifecycle.consolidation.state import CycleState, Mask, retagged
from mnemo_core.llm.faithfulness import contradiction_between
from mnemo_core.llm.grounding import rejection_of
from mnemo_core.llm.tasks import TaskInputs
from mnemo_core.llm.writing.summarize import CONDENSE, shorten_sources
from mnemo_core.similarity.thresholds import JACCARD_ALONE, text_jaccard
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_store.records import TAGS_MAX, Change, Memory, PutMemory, PutUsage, Usage, default_decay_rate

STATUS_TAGS = ("project-status", "auto-distilled")
NOTES_MIN, NOTES_MAX = 3, 10  # that a status is made from, the latest [G22]
STATUSES_MAX = 10  # in a cycle
SHOWN_CHARACTERS = 6000  # of all notes together that a model is shown
_SCOPE = ("agent_id", "run_id", "session_id", "speaker")


def plan_session_distillation(state: CycleState) -> Planning:
    """Plan a status of at most 250 characters for each namespace and user with new session notes. SPEC 9.5 [G22]"""
    operations: list[CycleOperation] = []
    changes: list[Change] = []
    unchanged = 0
    for notes, former in _new_notes(state):
        replaced = [each for each in former if not each.pinned and each.modified_at == each.created_at]
        if state.decision("distil", *notes, *replaced):  # it was made, and a person took it back
            continue
        last = max(former, key=lambda status: (status.created_at, status.id), default=None)
        shown = shorten_sources([note.content for note in _still_true(state, notes)], SHOWN_CHARACTERS)
        answer = yield TaskQuestion(CONDENSE, TaskInputs(shown))
        tagged = [PutMemory(data=retagged(note, (*note.tags, DISTILLED))) for note in notes]
        if last is not None and _says_nothing_new(state, answer.text, last):
            changes += tagged
            unchanged += 1
            continue
        status = _status(state, notes, answer.text)
        usage = Usage(id=status.id, strength=status.importance, strength_epoch=state.epoch)
        hidden = mutations.supersede(replaced, status.id, state.now)
        made = (PutMemory(data=status), PutUsage(data=usage), *tagged, *hidden)
        ids = (status.id, *(each.id for each in (*notes, *replaced)))
        operations.append(CycleOperation("distil", ids, made, f"status of {len(notes)} session notes", answer.text))
    return StepPlan(operations, changes, {"unchanged": unchanged})


def _new_notes(state: CycleState) -> Iterator[tuple[list[Memory], list[Memory]]]:
    """The latest undistilled session notes, oldest first, of each namespace and user that has enough of them, with the
    statuses that stand there.

    A note that is older than the status says nothing of how things stand.
    """
    is_note = session_notes(state) & state.live() & joinable(state) & ~state.tagged(DISTILLED, "ephemeral")
    is_status = state.live() & state.tagged("auto-distilled")
    namespaces, users, times = (state.column(name) for name in ("namespace", "user_id", "event_at"))
    found = 0
    for namespace, user in np.unique(np.stack([namespaces, users])[:, is_note], axis=1).T.tolist():
        in_scope = (namespaces == namespace) & (users == user)
        former = state.records(np.flatnonzero(is_status & in_scope))
        since = max((status.event_at for status in former), default=0)
        rows = np.flatnonzero(is_note & in_scope & (times > since))
        latest = rows[np.argsort(times[rows], kind="stable")][-2 * NOTES_MAX :]
        notes = [note for note in state.records(latest) if SENSITIVE_TAG not in note.tags and len(note.tags) < TAGS_MAX]
        notes = notes[-NOTES_MAX:]
        if len(notes) < NOTES_MIN:
            continue
        yield notes, former
        found += 1
        if found == STATUSES_MAX:
            return


def _still_true(state: CycleState, notes: Sequence[Memory]) -> list[Memory]:
    """The notes without those that a later one of them updates: a status says how things stand."""
    ids = {note.id for note in notes}
    edges = (edge for note in notes for edge in state.edges(note.id) if edge.relation == "updates")
    outdated = {edge.target for edge in edges if edge.source in ids}
    return [note for note in notes if note.id not in outdated or note is notes[-1]]


def session_notes(state: CycleState) -> Mask:
    """The mask of the memories that are notes about a session. [G52]"""
    return state.tagged("session") | state.has("source", "session")


def _says_nothing_new(state: CycleState, text: str, status: Memory) -> bool:
    """Return whether a new text is near the status, has no specific that it lacks, and does not contradict it."""
    if rejection_of(text, [status.content]) or contradiction_between(text, status.content):
        return False
    similarity = state.similarity(text, status)
    if similarity is None:
        return text_jaccard(text, status.content) > JACCARD_ALONE
    return similarity >= state.thresholds(status.namespace).triage


def _status(state: CycleState, notes: Sequence[Memory], text: str) -> Memory:
    """The status that some notes make: of the time of the latest, with the least trust, and within the scope that all
    of them have."""
    latest = notes[-1]
    scope = {name: getattr(latest, name) for name in _SCOPE
             if all(getattr(each, name) == getattr(latest, name) for each in notes)}  # fmt: skip
    return Memory(
        id=state.new_id(), content=text, created_at=state.now, modified_at=state.now, event_at=latest.event_at,
        kind="episodic", category="project", layer="working", importance=DISTILLED_IMPORTANCE,
        decay_rate=default_decay_rate("working", "episodic"), trust=lowest_trust(*(each.trust for each in notes)),
        method=state.method, source=DISTILL_SOURCE, tags=STATUS_TAGS, namespace=latest.namespace,
        user_id=latest.user_id, derived_from=tuple(each.id for each in notes), **scope,
    )  # fmt: skip
