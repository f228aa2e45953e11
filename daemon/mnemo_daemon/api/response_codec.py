"""Stored records and results of services as the answers of the API. SPEC 2.1, 13"""

from collections.abc import Mapping
from typing import Any

import msgspec

from mnemo_client.protocol.changes import DifferenceView, VersionView
from mnemo_client.protocol.ingestion import IngestExplanation, NeighbourView, ScoresView, StatementView
from mnemo_client.protocol.lifecycle import CycleStepView, CycleView
from mnemo_client.protocol.memories import EdgeView, MemoryView, NoteView, ProcedureTrace, TurnView
from mnemo_client.protocol.retrieval import (
    AskAnswer,
    AskSentence,
    BestSentence,
    Citation,
    QuestionTimeView,
    RecallAnswer,
    RecalledMemory,
)
from mnemo_client.protocol.status import ViewStatus
from mnemo_core.ingest.write_plan import NEW_ID_PREFIX
from mnemo_core.lifecycle.profiles import ProfilePlace, place_of_entry
from mnemo_core.retrieval.context_block import ContextItem, ContextLine, author_of
from mnemo_daemon.assistance.extraction import WrittenStatement
from mnemo_daemon.assistance.question_answering import AnsweredQuestion, CitedSentence
from mnemo_daemon.indexing.index import IndexProgress
from mnemo_daemon.ingest.ingest_pipeline import IngestResult
from mnemo_daemon.memories.history import MemoryDifference, MemoryVersion
from mnemo_daemon.memories.memory_service import MemoryDetails, MemoryEdge
from mnemo_daemon.retrieval.question import Hit, Question, RecallOutcome, TimeOutcome, shown_score
from mnemo_daemon.times import local_day
from mnemo_store.records import ChangeEntry, Cycle, Memory

NOT_ASSUMED = ProfilePlace("do_not_assume")
TRAIL_CHARS_MAX = 120  # of title and headings, in a line of the context block

_PASSED_ON = (
    "id", "content", "kind", "category", "layer", "importance", "importance_source", "event_at", "created_at",
    "modified_at", "version", "decay_rate", "trust", "method", "source", "namespace", "user_id", "state", "pinned",
    "compression_source", "form",
)  # fmt: skip


def memory_view(found: MemoryDetails, root_paths: Mapping[str, str]) -> MemoryView:
    return MemoryView(**_fields(found, root_paths))


def hit_view(hit: Hit, root_paths: Mapping[str, str]) -> RecalledMemory:
    """A hit as it is answered."""
    best = None
    if hit.best is not None:
        best = BestSentence(text=hit.best.text, marks=hit.best.marks, line=hit.best.line or None)
    fields = _fields(hit.details, root_paths)
    return RecalledMemory(
        **fields,
        score=shown_score(hit.score),
        channels=list(hit.channels),
        best=best,
        was=hit.was,
        preference=hit.preference,
        others=hit.others,
        content_cut=hit.is_cut,
        inside=hit.is_inside,
        about=hit.about,
    )


def time_view(time: TimeOutcome | None) -> QuestionTimeView | None:
    """The time that a question names, as it is answered."""
    return None if time is None else QuestionTimeView(**time._asdict())


def context_item(hit: Hit) -> ContextItem:
    """A hit as an item of M's context block."""
    memory = hit.details.memory
    return ContextItem(
        memory.id, memory.category, memory.importance, memory.tags, memory.content, hit.preference, author_of(memory)
    )


def context_line(hit: Hit, root_paths: Mapping[str, str]) -> ContextLine:
    """A hit as a line of the context block."""
    memory, note = hit.details.memory, _note(hit.details.memory, hit.details, root_paths)
    place: tuple[str, ...] = ()
    if note is not None:
        place = note.trail[:TRAIL_CHARS_MAX], f"{note.path}:{note.lines[0]}"
    elif place_of_entry(memory) == NOT_ASSUMED:
        place = (NOT_ASSUMED.heading.lower(),)
    score = None if hit.channels == ("preferences",) else hit.score
    date = local_day(memory.event_at) if memory.note is None or memory.note.dated else ""
    return ContextLine(
        memory.id, memory.kind, date, memory.content, hit.was, place, score, hit.is_cut, author_of(memory)
    )


def recall_answer(
    question: Question, recalled: RecallOutcome, namespace: str, root_paths: Mapping[str, str]
) -> RecallAnswer:
    """The answer of a recall; scores and times are rounded to what they can mean."""
    budget = question.token_budget
    return RecallAnswer(
        memories=[hit_view(hit, root_paths) for hit in recalled.hits],
        total_tokens=recalled.total_tokens,
        budget_used=None if budget is None else round(recalled.total_tokens / budget, 4),
        total=recalled.total,
        ranker=recalled.ranker,
        namespace=namespace,
        degraded=list(recalled.degraded),
        mode=recalled.mode,
        expanded=list(recalled.expanded),
        abstained=recalled.abstained,
        list_top_k=question.top_k if question.takes_list else None,
        needs_tokens=recalled.tokens_needed or None,
        took_ms=round(recalled.took_ms, 3),
        time=time_view(recalled.time),
        trace=recalled.trace,
        reason=recalled.reason or None,
    )


def ask_answer(
    answered: AnsweredQuestion, recalled: RecallOutcome, namespace: str, root_paths: Mapping[str, str],
    resolved: str | None = None,
) -> AskAnswer:  # fmt: skip
    """The answer to a question, with the memories that it cites."""
    cited = {quoted.hit.details.memory.id: quoted for _, quotes in answered.sentences for quoted in quotes}
    shown = cited if answered.closest is None else {answered.closest.hit.details.memory.id}
    return AskAnswer(
        answer=answered.text,
        sentences=list(map(ask_sentence, answered.sentences)),
        citations=[
            Citation(id=memory_id, quote=quoted.quote, at=quoted.hit.details.memory.event_at)
            for memory_id, quoted in cited.items()
        ],
        abstained=not answered.sentences,
        method=answered.method,
        reason=answered.reason or None,
        memories=[hit_view(hit, root_paths) for hit in recalled.hits if hit.details.memory.id in shown],
        namespace=namespace,
        degraded=list(recalled.degraded),
        time=time_view(recalled.time),
        resolved=resolved,
    )


def ask_sentence(sentence: CitedSentence) -> AskSentence:
    text, quotes = sentence
    return AskSentence(text=text, ids=[quoted.hit.details.memory.id for quoted in quotes])


def edge(row: MemoryEdge, root_paths: Mapping[str, str]) -> EdgeView:
    return EdgeView(
        relation=row.edge.relation, direction="from" if row.edge.source == row.other.memory.id else "to",
        at=row.edge.at, memory=memory_view(row.other, root_paths), via=row.edge.via or None,
    )  # fmt: skip


def version(row: MemoryVersion, root_paths: Mapping[str, str], devices: Mapping[str, str]) -> VersionView:
    """The version as it is answered. devices: the names of the devices that share the memory."""
    view, entry = memory_view(row.details, root_paths), row.entry
    return VersionView(
        seq=row.seq, at=_made_at(entry), by=entry.by, memory=view, what=entry.what, group=entry.group or None,
        device=devices.get(entry.device, entry.device) or None, overruled=row.details.memory.overruled,
    )  # fmt: skip


def _made_at(entry: ChangeEntry) -> int:
    """The time at which a change was made; of one of another device, there."""
    return entry.clock if entry.device and entry.clock else entry.at


def difference(row: MemoryDifference, root_paths: Mapping[str, str], devices: Mapping[str, str]) -> DifferenceView:
    """The difference as it is answered. devices: the names of the devices that share the memory."""
    before, after = (memory_view(each, root_paths) if each is not None else None for each in (row.before, row.after))
    entry = row.entry
    return DifferenceView(
        id=row.id, how=row.became or "dropped", seq=row.seq, at=entry.at, by=entry.by, what=entry.what,
        group=entry.group or None, device=devices.get(entry.device, entry.device) or None,
        memory=before if row.became == "trashed" else after, fields=list(row.fields),
        before={name: getattr(before, name) for name in row.fields},
        after={name: getattr(after, name) for name in row.fields},
    )  # fmt: skip


def view_status(progress: IndexProgress, seq: int, monotonic: float) -> ViewStatus:
    """The place of a view behind the store, as it is answered."""
    behind = monotonic - progress.behind_since if progress.behind_since else 0.0
    return ViewStatus(
        state=progress.state,
        applied_seq=progress.applied_seq,
        lag=max(0, seq - progress.applied_seq),
        lag_seconds=round(behind, 3) if progress.applied_seq < seq else 0.0,
        items=progress.items,
        share=round(progress.share, 4),
        reason=progress.reason or None,
        rate=None if progress.rate is None else round(progress.rate, 1),
        seconds_left=None if progress.seconds_left is None else round(progress.seconds_left, 1),
    )


def ingest_fields(took: IngestResult, *, explain: bool) -> dict[str, Any]:
    """The fields that every ingesting route answers for one text, except the memory."""
    item, decision = took.item, took.decision
    by_relation = {name: [each.id for each in decision.relations if each.relation == name]
                   for name in ("related", "repeats", "updates")}  # fmt: skip
    by_relation["perhaps_updates"] = [each.id for each in decision.relations if each.is_same_slot]
    fields: dict[str, Any] = {**by_relation, "outcome": decision.outcome, "masked": list(took.submission.masked)}
    fields["reason"] = decision.reason or None
    fields["seq"] = took.seq or None if decision.outcome != "duplicate" else None  # a use is not undone
    scores = item.scores
    if scores is not None and (explain or decision.reason):
        rounded = (round(value, 4) for value in scores[:3])
        fields["scores"] = ScoresView(**dict(zip(("importance", "novelty", "salience"), rounded, strict=True)))
    if explain:
        related = {each.id for each in decision.relations}
        others = [each for each in item.near_relations if each.id not in related]
        near = [*decision.relations, *(each for each in others if not each.id.startswith(NEW_ID_PREFIX))]
        fields["explained"] = IngestExplanation(
            profile=item.policy.name,
            route=item.why,
            found=dict(scores.signals) if scores is not None else {},
            near=[NeighbourView(id=each.id, relation=each.relation, why=each.why, tied=each.id in related,
                                sim=None if each.sim is None else round(each.sim, 4)) for each in near],
        )  # fmt: skip
    return fields


def statement_view(statement: WrittenStatement) -> StatementView:
    """A statement as a caller who waited for it is shown it."""
    triple = statement.triple
    return StatementView(
        text=statement.text,
        triple=triple and (triple.subject, triple.predicate, triple.object),
        id=statement.id,
        outcome=statement.outcome,
    )


def _fields(found: MemoryDetails, root_paths: Mapping[str, str]) -> dict[str, Any]:
    memory, usage = found.memory, found.usage
    fields: dict[str, Any] = {name: getattr(memory, name) for name in _PASSED_ON}
    fields |= {
        "tags": list(memory.tags),
        "evidence": list(memory.evidence),
        "derived_from": list(memory.derived_from),
        "compressed": memory.state == "compressed",
        "access_count": usage.access_count,
        "repetition_count": usage.repetition_count,
        "last_accessed": usage.last_accessed or None,
        "strength": round(usage.strength, 6),
        "strength_epoch": usage.strength_epoch,
        "expires_at": memory.expires_at or None,
    }
    for name in (
        "speaker", "agent_id", "run_id", "session_id", "key", "superseded_by", "source_session_id", "managed",
    ):  # fmt: skip
        fields[name] = getattr(memory, name) or None
    if memory.trace is not None:
        fields["trace"] = ProcedureTrace(**msgspec.structs.asdict(memory.trace))
    if memory.turn is not None:
        fields["turn"] = TurnView(**msgspec.structs.asdict(memory.turn))
    fields["author"] = author_of(memory) or None
    fields["note"] = _note(memory, found, root_paths)
    return fields


def _note(memory: Memory, found: MemoryDetails, root_paths: Mapping[str, str]) -> NoteView | None:
    if found.note is None or memory.note is None:
        return None
    root = root_paths.get(found.note.root, "")
    for ordinal, chunk in enumerate(found.note.chunks):
        if chunk.memory == memory.id:
            return NoteView(
                path=f"{root}/{found.note.path}",
                title=memory.note.title,
                headings=list(memory.note.headings),
                ordinal=ordinal,
                lines=(chunk.first_line, chunk.last_line),
                dated=memory.note.dated,
            )
    return None


def cycle_view(cycle: Cycle) -> CycleView:
    """A cycle as it is answered."""
    return CycleView(
        id=cycle.id, epoch=cycle.epoch, started_at=cycle.started_at, ended_at=cycle.ended_at or None,
        namespace=cycle.namespace or "*", requested=cycle.is_requested,
        undone_at=cycle.undone_at or None,
        steps=[
            CycleStepView(name=each.name, counts=each.counts, milliseconds=each.milliseconds,
                          skipped=each.skipped or None)
            for each in cycle.steps
        ],
    )  # fmt: skip
