"""Stored records and results of services as the answers of the API, and the explanations of the texts for agents: of
each line the memory, its tokens, and why it is there. SPEC 2.1, 11, 13"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from mnemo_client.protocol.changes import DifferenceView, VersionView
from mnemo_client.protocol.ingestion import IngestExplanation, NeighbourView, ScoresView
from mnemo_client.protocol.lifecycle import CycleStepView, CycleView
from mnemo_client.protocol.memories import EdgeView, MemoryView, NoteView, ProcedureTrace, TurnView
from mnemo_client.protocol.retrieval import (
    AskAnswer,
    AskSentence,
    BestSentence,
    Citation,
    RecallAnswer,
    RecalledMemory,
    RecallTrace,
    TextCandidate,
    TextExplanation,
    TextLine,
    TextSection,
)
from mnemo_client.protocol.status import ViewStatus
from mnemo_core.documents.chunking import estimate_tokens
from mnemo_core.ingest.write_plan import NEW_ID_PREFIX
from mnemo_core.lifecycle.profiles import ProfilePlace, place_of_entry
from mnemo_core.retrieval.context_block import (
    OTHERS_HEADING,
    PERHAPS_OUTDATED,
    PREFERENCES_HEADING,
    ContextItem,
    ContextLine,
    author_of,
    listed_line,
    located_lines,
)
from mnemo_core.retrieval.result_selection import OTHERS_SHARE, PREFERENCES_SHARE
from mnemo_core.sessions.resume import TOPIC_TOKENS, TRIGGER_TOKENS
from mnemo_daemon.assistance.question_answering import AnsweredQuestion, CitedSentence
from mnemo_daemon.indexing.index import IndexProgress
from mnemo_daemon.ingest.ingest_pipeline import IngestResult
from mnemo_daemon.memories.history import MemoryDifference, MemoryVersion
from mnemo_daemon.memories.memory_service import MemoryDetails
from mnemo_daemon.retrieval.question import Hit, Question, RecallOutcome, shown_score
from mnemo_daemon.sessions.resume import Resume
from mnemo_daemon.times import local_day
from mnemo_store.records import Cycle, Edge, Memory

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
        **fields, score=shown_score(hit.score), channels=list(hit.channels), best=best, was=hit.was,
        preference=hit.preference, others=hit.others, content_cut=hit.is_cut, inside=hit.is_inside, about=hit.about,
    )  # fmt: skip


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
    if hit.perhaps_was:
        place = (PERHAPS_OUTDATED, *place)
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
        memories=[hit_view(hit, root_paths) for hit in recalled.hits], total_tokens=recalled.total_tokens,
        budget_used=None if budget is None else round(recalled.total_tokens / budget, 4), total=recalled.total,
        ranker=recalled.ranker, namespace=namespace, degraded=list(recalled.degraded), mode=recalled.mode,
        expanded=list(recalled.expanded), abstained=recalled.abstained,
        list_top_k=question.top_k if question.takes_list else None, needs_tokens=recalled.tokens_needed or None,
        took_ms=round(recalled.took_ms, 3), time=recalled.time, trace=recalled.trace,
        reason=recalled.reason or None,
    )  # fmt: skip


def ask_answer(
    answered: AnsweredQuestion, recalled: RecallOutcome, namespace: str, root_paths: Mapping[str, str],
    resolved: str | None = None,
) -> AskAnswer:  # fmt: skip
    """The answer to a question, with the memories that it cites."""
    cited = {quoted.hit.details.memory.id: quoted for _, quotes in answered.sentences for quoted in quotes}
    shown = cited if answered.closest is None else {answered.closest.hit.details.memory.id}
    time = recalled.time
    if time is not None and (shown or time.of) and recalled.agenda is not None and answered.method == "quotes":
        count = f"{len(shown)} {'memory' if len(shown) == 1 else 'memories'}{'' if answered.is_whole else ', and more'}"
        time = msgspec.structs.replace(time, within=len(cited), text=f"{recalled.agenda.text} ({time.words}): {count}")
    return AskAnswer(
        answer=answered.text, sentences=list(map(ask_sentence, answered.sentences)),
        citations=[
            Citation(id=memory_id, quote=quoted.quote, at=quoted.hit.details.memory.event_at)
            for memory_id, quoted in cited.items()
        ],
        abstained=not answered.sentences, method=answered.method, reason=answered.reason or None,
        memories=[hit_view(hit, root_paths) for hit in recalled.hits if hit.details.memory.id in shown],
        namespace=namespace, degraded=list(recalled.degraded), time=time, resolved=resolved,
    )  # fmt: skip


def ask_sentence(sentence: CitedSentence) -> AskSentence:
    text, quotes = sentence
    return AskSentence(text=text, ids=[quoted.hit.details.memory.id for quoted in quotes])


def edge_view(edge: Edge, other: MemoryDetails, root_paths: Mapping[str, str]) -> EdgeView:
    return EdgeView(
        relation=edge.relation, direction="from" if edge.source == other.memory.id else "to", at=edge.at,
        memory=memory_view(other, root_paths), via=edge.via or None,
    )  # fmt: skip


def version(row: MemoryVersion, root_paths: Mapping[str, str], devices: Mapping[str, str]) -> VersionView:
    """The version as it is answered. devices: the names of the devices that share the memory."""
    view, entry = memory_view(row.details, root_paths), row.entry
    made_at = entry.clock if entry.device and entry.clock else entry.at  # of a change of another device, there
    return VersionView(
        seq=row.seq, at=made_at, by=entry.by, memory=view, what=entry.what, group=entry.group or None,
        device=devices.get(entry.device, entry.device) or None, overruled=row.details.memory.overruled,
    )  # fmt: skip


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
        state=progress.state, applied_seq=progress.applied_seq, lag=max(0, seq - progress.applied_seq),
        lag_seconds=round(behind, 3) if progress.applied_seq < seq else 0.0, items=progress.items,
        share=round(progress.share, 4), reason=progress.reason or None,
        rate=None if progress.rate is None else round(progress.rate, 1),
        seconds_left=None if progress.seconds_left is None else round(progress.seconds_left, 1),
    )  # fmt: skip


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
                path=f"{root}/{found.note.path}", title=memory.note.title, headings=list(memory.note.headings),
                ordinal=ordinal, lines=(chunk.first_line, chunk.last_line), dated=memory.note.dated,
            )  # fmt: skip
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


# Server-sent events

KEEP_ALIVE = b":\n\n"  # a comment


def event(name: str, value: msgspec.Struct, seq: int | None = None) -> bytes:
    """A server-sent event; JSON has no line break outside of its texts, where it is escaped."""
    head = b"" if seq is None else b"id: %d\n" % seq
    return head + b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(value))


# Explanations

# The lists of the user's profile in the context block of M, besides the preferences. [M22]
M_LISTS = (ProfilePlace("stable_facts"), ProfilePlace("do_not_assume"))

DIGITS = 4  # of a weight
BELOW_MAX = 12  # candidates that are not in a context


class ContextBlock(NamedTuple):
    """A context block: the hits and the entries of the profile that are in it, and the line of each hit, if it is to be
    explained."""

    text: str
    kept: Sequence[Hit]
    listed: Sequence[Memory]
    rendered: Sequence[str] = ()


class _ContextPart(NamedTuple):
    """A part of a context block that shows memories."""

    text: str
    line: TextLine


def explain_resume(resume: Resume, weights_of: Callable[[Sequence[str]], dict[str, float]]) -> TextExplanation:
    """The lines and sections of a resume. weights_of: the present weights of memories, by their ids."""
    made = resume.lines()
    weights = weights_of([each.origin.ids[0] for each in made if each.origin is not None])
    lines = []
    for each in made:
        line = TextLine(text=each.text, section=each.section, tokens=each.tokens)
        if (origin := each.origin) is not None:
            line.memory, line.more = origin.ids[0], list(origin.ids[1:])
            line.reason, line.condensed = origin.reason or None, origin.is_condensed
            weight = weights.get(line.memory)
            line.weight = None if weight is None else round(weight, DIGITS)
        lines.append(line)
    topics_left = resume.lists.topic_total - len(resume.lists.topics)
    known: dict[str, tuple[int | None, dict[str, int]]] = {
        "topics": (TOPIC_TOKENS, {"over_budget": topics_left} if topics_left > 0 else {}),
        "triggers": (TRIGGER_TOKENS, {}),
    }
    for name in ("core", "profile", "recent", "others"):
        section = getattr(resume, name)
        known[name] = section.budget or None, section.excluded
    return TextExplanation(lines=lines, sections=_sections(lines, known))


def explain_context(
    block: ContextBlock, trace: RecallTrace | None, cut_by_chars: int, budget: int | None
) -> TextExplanation:
    """The lines and sections of a context block. cut_by_chars: hits that its characters had no room for; budget:
    tokens of the recall that it is made of."""
    why = {} if trace is None else {each.id: each.why for each in trace.candidates}
    rendered = {hit.details.memory.id: text for hit, text in zip(block.kept, block.rendered, strict=True)}
    ahead = [hit for hit in block.kept if hit.preference and not author_of(hit.details.memory)]
    parts = list[_ContextPart]()
    listed = listed_line(PREFERENCES_HEADING, [hit.details.memory.content for hit in ahead])
    if listed and listed in block.text.split("\n"):  # in M's block all preferences are one line
        part = _listed_part(listed, "preferences", [hit.details.memory for hit in ahead], _AHEAD)
        part.line.tokens = sum(hit.tokens for hit in ahead)
        parts.append(part)
        for hit in ahead:
            del rendered[hit.details.memory.id]
    for place in M_LISTS:
        entries = [each for each in block.listed if place_of_entry(each) == place]
        if entries:
            text = listed_line(place.heading, [each.content for each in entries])
            parts.append(_listed_part(text, "profile", entries, "an entry of the profile"))
    for hit in block.kept:
        memory = hit.details.memory
        own_line = rendered.get(memory.id)
        if own_line is not None:
            section = "others" if author_of(memory) else "preferences" if hit.preference else "memories"
            score = None if "preferences" in hit.channels else shown_score(hit.score)
            line = TextLine(
                text=own_line, section=section, tokens=hit.tokens, memory=memory.id,
                reason=_reason(hit, why.get(memory.id, [])), weight=score, condensed=hit.is_cut,
            )  # fmt: skip
            parts.append(_ContextPart(own_line, line))
    lines = list[TextLine]()
    for text, number in located_lines(block.text, [part.text for part in parts]) if block.text else ():
        if number is None:
            lines.append(TextLine(text=text, section="others" if text == OTHERS_HEADING else "head", tokens=0))
        else:
            lines.append(parts[number].line)
    left_out = Counter[str]()
    if trace is not None:
        left_out.update({each.reason: each.count for each in trace.left_out})
        left_out.update(trace.dropped)
    if cut_by_chars > 0:
        left_out["max_chars"] = cut_by_chars
    known = {
        "preferences": (budget and budget // PREFERENCES_SHARE, dict[str, int]()),
        "profile": (budget and budget // PREFERENCES_SHARE, dict[str, int]()),
        "memories": (budget, dict(left_out)),
        "others": (budget and budget // OTHERS_SHARE, dict[str, int]()),
    }
    # The best candidates that are not in the context, with the reason.
    kept = {hit.details.memory.id for hit in block.kept} | {memory.id for memory in block.listed}
    left = [each for each in trace.candidates if each.id not in kept] if trace is not None else []
    left.sort(key=lambda each: -each.score)
    below = [TextCandidate(id=each.id, score=each.score, reason=each.dropped or "max_chars")
             for each in left[:BELOW_MAX]]  # fmt: skip
    return TextExplanation(lines=lines, sections=_sections(lines, known), below=below)


_AHEAD = "an instruction, which comes first"


def _listed_part(text: str, section: str, memories: Sequence[Memory], reason: str) -> _ContextPart:
    ids, tokens = [each.id for each in memories], sum(estimate_tokens([each.content for each in memories]))
    line = TextLine(text=text, section=section, tokens=tokens, memory=ids[0], more=ids[1:], reason=reason)
    return _ContextPart(text, line)


def _reason(hit: Hit, why: Sequence[str]) -> str:
    if hit.preference:
        return _AHEAD
    reasons = [*why]
    if "updates" in hit.channels:
        reasons.append("updates a memory that was found, and takes its place")
    if hit.was:
        reasons.append("an older value of one before it")
    return "; ".join(reasons) or f"found by {' and '.join(hit.channels)}"


def _sections(lines: Sequence[TextLine], known: dict[str, tuple[int | None, dict[str, int]]]) -> list[TextSection]:
    """The sections that have a line or that something was left out of, in the order of the lines."""
    sizes = Counter[str]()
    for line in lines:
        sizes[line.section] += line.tokens
    names = [*sizes, *(name for name, (_, left_out) in known.items() if left_out and name not in sizes)]
    return [
        TextSection(name=name, tokens=sizes[name], budget=known.get(name, (None, {}))[0],
                    left_out=known.get(name, (None, {}))[1])
        for name in names
    ]  # fmt: skip
