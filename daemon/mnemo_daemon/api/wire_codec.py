"""Stored records as the answers of the API, and requests as what the services take. Only here do the two meet."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from mnemo_client.protocol.choices import TurnRole
from mnemo_client.protocol.ingestion import (
    IngestExplanation,
    IngestRequest,
    NeighbourView,
    ScoresView,
    StatementView,
    Turn,
    TurnsRequest,
)
from mnemo_client.protocol.memories import EdgeView, MemoryView, NewMemory, NoteView, Patch, ProcedureTrace, TurnView
from mnemo_client.protocol.retrieval import BestSentence, RecallAnswer, RecalledMemory, RecallRequest
from mnemo_client.protocol.status import ViewStatus
from mnemo_client.protocol.versions import DifferenceView, VersionView
from mnemo_core.ingest.mutations import Draft
from mnemo_core.ingest.trust import OWNER, importance_source, lowest_trust
from mnemo_core.ingest.write_plan import NEW_ID_PREFIX
from mnemo_core.retrieval.context_block import ContextLine
from mnemo_core.text import cleaning, secrets
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.indexing.index import IndexProgress
from mnemo_daemon.ingest.ingest_pipeline import IngestResult
from mnemo_daemon.memories.history import MemoryDifference, MemoryVersion
from mnemo_daemon.memories.memory_service import Caller, MemoryDetails, MemoryEdge
from mnemo_daemon.retrieval.question import Hit, Question, RecallOutcome, shown_score
from mnemo_daemon.server.router import Request
from mnemo_daemon.settings import Settings
from mnemo_daemon.times import parse_bound, parse_expiry, parse_interval, parse_past_time, parse_time
from mnemo_store import records
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import CONTENT_CHARS_MAX, EVIDENCE_MAX, ConversationTurn, Memory, TraceStep, Trust

MIN_IMPORTANCE_UNASKED = 0.2  # [L 2.4]
# A system prompt is the text of a program, not of the person who talks to it.
ROLE_TRUSTS: dict[TurnRole, Trust] = {
    "user": "user", "agent": "agent", "assistant": "agent", "system": "agent", "tool": "tool",
}  # fmt: skip
EVERY_NAMESPACE = "*"  # recall and search in all of them, read only. SPEC 2.4
TRAIL_CHARS_MAX = 120  # of title and headings, in a line of the context block
DEFAULT_NAMESPACE = records.DEFAULT_NAMESPACE

T = TypeVar("T")


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
    )


def context_item(hit: Hit, root_paths: Mapping[str, str]) -> ContextLine:
    """A hit as a line of the context block."""
    memory, note = hit.details.memory, _note(hit.details.memory, hit.details, root_paths)
    place: tuple[str, ...] = ()
    if note is not None:
        trail = note.headings if note.headings[:1] == [note.title] else [note.title, *note.headings]
        place = " › ".join(trail)[:TRAIL_CHARS_MAX], f"{note.path}:{note.lines[0]}"
    score = None if hit.channels == ("preferences",) else hit.score
    date = local_day(memory.event_at) if memory.note is None or memory.note.dated else ""
    return ContextLine(memory.id, memory.kind, date, memory.content, hit.was, place, score, hit.is_cut)


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
        needs_tokens=recalled.tokens_needed or None,
        took_ms=round(recalled.took_ms, 3),
        trace=recalled.trace,
    )


def edge(row: MemoryEdge, root_paths: Mapping[str, str]) -> EdgeView:
    return EdgeView(
        relation=row.edge.relation, direction="from" if row.edge.source == row.other.memory.id else "to",
        at=row.edge.at, memory=memory_view(row.other, root_paths), via=row.edge.via or None,
    )  # fmt: skip


def version(row: MemoryVersion, root_paths: Mapping[str, str]) -> VersionView:
    view, entry = memory_view(row.details, root_paths), row.entry
    return VersionView(seq=row.seq, at=entry.at, by=entry.by, memory=view, what=entry.what, group=entry.group or None)


def difference(row: MemoryDifference, root_paths: Mapping[str, str]) -> DifferenceView:
    before, after = (memory_view(each, root_paths) if each is not None else None for each in (row.before, row.after))
    entry = row.entry
    return DifferenceView(
        id=row.id, how=row.became or "dropped", seq=row.seq, at=entry.at, by=entry.by, what=entry.what,
        group=entry.group or None, memory=before if row.became == "trashed" else after, fields=list(row.fields),
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


# What a write under a known key leaves as it is where it does not name it.
_KEPT_UNDER_A_KEY = (
    "kind", "form", "category", "importance", "event_at", "expires_at", "speaker", "source", "tags", "agent_id",
    "run_id", "session_id", "evidence", "derived_from", "pinned", "trace",
)  # fmt: skip


def draft_of(request: Request, asked: NewMemory, mask_key: bytes, mask: str, now: int) -> tuple[Draft, list[str]]:
    """The checked draft of a memory, and the kinds of secrets that were masked. Raises a Refusal."""
    given = frozenset(name for name in _KEPT_UNDER_A_KEY if getattr(asked, name) is not UNSET)
    agent_id = _or(asked.agent_id, None)
    trust = trust_of(request, agent_id)
    if asked.created_at is not None:
        raise Refusal(
            422, "refused", "created_at is for imports; say when it happened with event_at", field="created_at"
        )
    content = _content(asked.content)
    tags = _tags(_or(asked.tags, []))
    content, masked, is_sensitive = _guarded(content, trust, mask_key, mask)
    if is_sensitive and SENSITIVE_TAG not in tags:
        tags = _tags([*tags, SENSITIVE_TAG])
    trace = _or(asked.trace, None)
    draft = Draft(
        content=content,
        namespace=writable_namespace(request, asked.namespace),
        user_id=asked.user_id or "local",
        trust=trust,
        source=_text(_or(asked.source, None), "source") or request.entry_point,
        kind=_or(asked.kind, None),
        form=_or(asked.form, None),
        category=_or(asked.category, None),
        importance=_or(asked.importance, None),
        importance_source=importance_source(trust),
        event_at=_happened_at(_or(asked.event_at, None), now),
        expires_at=_expires_at(_or(asked.expires_at, None), now),
        speaker=_text(_or(asked.speaker, None), "speaker"),
        tags=tags,
        agent_id=_text(agent_id, "agent_id"),
        run_id=_text(_or(asked.run_id, None), "run_id"),
        session_id=_text(_or(asked.session_id, None), "session_id"),
        key=_text(asked.key, "key"),
        evidence=_evidence(_or(asked.evidence, [])),
        derived_from=tuple(_or(asked.derived_from, [])),
        supersedes=tuple(asked.supersedes),
        pinned=_or(asked.pinned, False),
        trace=TraceStep(**msgspec.structs.asdict(trace)) if trace is not None else None,
        given=given,
    )
    return draft, masked


def pieces_of(request: Request, asked: IngestRequest, mask: str, pieces: Sequence[str], now: int) -> list[Draft]:
    """The pieces of a text that was ingested, which is masked already unless `mask` is off. Raises a Refusal."""
    trust = trust_of(request, asked.agent_id)
    whole = Draft(
        content="",
        namespace=writable_namespace(request, asked.namespace),
        user_id=asked.user_id or "local",
        trust=trust,
        source=_text(asked.source, "source") or "ingest",
        kind=asked.kind,
        category=asked.category,
        importance=asked.importance,
        event_at=_happened_at(asked.event_at, now),
        expires_at=_expires_at(asked.expires_at, now),
        speaker=_text(asked.speaker, "speaker"),
        tags=_tags(asked.tags),
        agent_id=_text(asked.agent_id, "agent_id"),
        run_id=_text(asked.run_id, "run_id"),
        session_id=_text(asked.session_id, "session_id"),
        evidence=_evidence(asked.evidence),
    )
    drafts = (whole._replace(content=piece) for piece in pieces)
    return [_tagged(draft, mask == "off" and bool(secrets.find_secrets(draft.content))) for draft in drafts]


def turn_of(
    request: Request, asked: TurnsRequest, place: int, mask_key: bytes, mask: str, content: str, now: int
) -> tuple[Draft, list[str]]:
    """One side of a conversation, its content cleaned, and the kinds of secrets that were masked. Raises a Refusal."""
    turn = asked.turns[place]
    trust = lowest_trust(ROLE_TRUSTS[turn.role], trust_of(request, asked.agent_id))
    at = _time(turn.at, f"turns[{place}].at")
    content, masked, is_sensitive = _guarded(content, "tool" if mask == "auto" else trust, mask_key, mask)
    draft = Draft(
        content=content,
        namespace=writable_namespace(request, asked.namespace),
        user_id=asked.user_id or "local",
        trust=trust,
        source="turn",
        event_at=now if at is None else at,
        speaker=_text(turn.speaker, f"turns[{place}].speaker"),
        tags=_tags(asked.tags),
        agent_id=_text(asked.agent_id, "agent_id"),
        run_id=_text(asked.run_id, "run_id"),
        session_id=_text(asked.session_id, "session_id"),
        turn=ConversationTurn(role=role_of(turn)),
    )
    return _tagged(draft, is_sensitive), masked


def role_of(turn: Turn) -> Literal["user", "agent"]:
    """The side of the conversation that a turn is stored under."""
    return "user" if turn.role == "user" else "agent"


def clean_text(text: str, field: str) -> str:
    """The text as it is stored, which may be empty. Raises a Refusal that names the field."""
    try:
        return cleaning.clean_text(text)
    except cleaning.InvalidTextError as error:
        raise bad_value(str(error), field) from None


def ingest_fields(took: IngestResult, *, explain: bool) -> dict[str, Any]:
    """The fields that every ingesting route answers for one text, except the memory."""
    item, decision = took.item, took.decision
    by_relation = {relation: [tie.id for tie in decision.relations if tie.relation == relation]
                   for relation in ("related", "repeats", "updates")}  # fmt: skip
    fields: dict[str, Any] = {**by_relation, "outcome": decision.outcome, "masked": list(took.submission.masked)}
    fields["reason"] = decision.reason or None
    scores = item.scores
    if scores is not None and (explain or decision.reason):
        rounded = (round(value, 4) for value in scores[:3])
        fields["scores"] = ScoresView(**dict(zip(("importance", "novelty", "salience"), rounded, strict=True)))
    if item.parts:
        rows = zip(item.parts, decision.parts, took.triples, strict=True)
        fields["statements"] = [
            StatementView(
                text=part.draft.content,
                triple=triple and (triple.subject, triple.predicate, triple.object),
                id=each and each.memory.id,
                outcome=each and each.outcome,
            )
            for part, each, triple in rows
        ]
    if explain:
        tied = {tie.id for tie in decision.relations}
        near = [
            *decision.relations,
            *(tie for tie in item.near_relations if tie.id not in tied and not tie.id.startswith(NEW_ID_PREFIX)),
        ]
        fields["explained"] = IngestExplanation(
            profile=item.policy.name,
            route=item.why,
            found=dict(scores.signals) if scores is not None else {},
            near=[NeighbourView(id=tie.id, relation=tie.relation, why=tie.why, tied=tie.id in tied,
                                    sim=None if tie.sim is None else round(tie.sim, 4)) for tie in near],
        )  # fmt: skip
    return fields


def edited_fields(request: Request, patch: Patch, mask_key: bytes, mask: str, now: int) -> dict[str, Any]:
    """The fields of a memory that a patch sets, checked, and masked as at the first writing. Raises a Refusal."""
    fields: dict[str, Any] = {}
    given = {name: value for name in patch.__struct_fields__ if (value := getattr(patch, name)) is not UNSET}
    given.pop("layer", None)
    given.pop("if_version", None)
    for name, value in given.items():
        match name:
            case "content":
                fields[name], _, _ = _guarded(_content(value), trust_of(request, None), mask_key, mask)
            case "tags":
                fields[name] = _tags(value)
            case "evidence":
                fields[name] = _evidence(value)
            case "derived_from":
                fields[name] = tuple(value)
            case "event_at":
                fields[name] = _happened_at(value, now)
            case "expires_at":
                fields[name] = _expires_at(value, now)
            case "speaker" | "session_id":
                fields[name] = _text(value, name)
            case "importance":
                fields |= {"importance": value, "importance_source": importance_source(trust_of(request, None))}
            case _:
                fields[name] = value
    return fields


def tagged_if_sensitive(content: str, tags: tuple[str, ...]) -> tuple[str, ...]:
    """The tags, with `sensitive` where the content holds a secret of a known shape."""
    return _tags([*tags, SENSITIVE_TAG]) if secrets.find_secrets(content) and SENSITIVE_TAG not in tags else tags


def question_of(request: Request, asked: RecallRequest, now: int, settings: Settings | None = None) -> Question:
    """Validate a recall request; fields that it leaves out come from the profile of its namespace, else from settings.

    Raises a Refusal that names the field.
    """
    if not asked.query.strip():
        raise bad_value("an empty query asks nothing: say what to look for", "query")
    _refuse_broken(asked.query, "query")
    if asked.top_k is not None and asked.limit is not None:
        raise bad_value("`limit` is another name for `top_k`: give one of them", "limit")
    namespace = request.namespace or asked.namespace or DEFAULT_NAMESPACE
    as_of = parse_past_time(asked.as_of, "as_of", now) if asked.as_of is not None else None
    if asked.now is not None:
        now = parse_time(asked.now, "now")
    elif as_of is not None:
        now = min(as_of, now)  # what had expired, and how fresh things were, is told of that time
    defaults = (settings or Settings()).recall_defaults(namespace)
    budget = asked.token_budget
    return Question(
        query=asked.query,
        filter=_filter(request, asked, namespace, now, defaults.min_importance),
        top_k=asked.top_k or asked.limit or defaults.top_k,
        offset=asked.offset,
        token_budget=defaults.token_budget if budget is UNSET else budget,
        min_score=asked.min_score or 0.0,
        sort=asked.sort,
        ranker=asked.ranker or defaults.ranker,
        mode=asked.mode,
        recency_bias=asked.recency_bias,
        semantic_weight=asked.semantic_weight,
        preferences=asked.preferences or defaults.preferences,
        cut=asked.cut or defaults.cut,
        group_by=asked.group_by,
        expand="auto" if asked.expand == "auto" else "true" if asked.expand else "false",
        rerank=defaults.rerank if asked.rerank is None else asked.rerank,
        exact=asked.exact,
        highlight=asked.highlight,
        explain=asked.explain,
        working_session=asked.session_id,
        working_any="working" in asked.kinds,
        as_of=as_of,
    )


def visible_namespaces(namespace: str) -> tuple[str, ...]:
    """The namespaces that reading in one sees: it and `default`; none named filters nothing. SPEC 2.4"""
    if namespace == EVERY_NAMESPACE:
        return ()
    return tuple(dict.fromkeys((namespace, DEFAULT_NAMESPACE)))


def listed_namespaces(request: Request) -> tuple[str, ...]:
    """The namespaces of lists, the trash and the diff: the one named, `default` where none is, all for `*`."""
    namespace = request.namespace or DEFAULT_NAMESPACE
    return () if namespace == EVERY_NAMESPACE else (namespace,)


def writable_namespace(request: Request, named: str | None = None) -> str:
    """The one namespace to write to. Raises a Refusal for `*`. SPEC 2.4"""
    namespace = request.namespace or named or DEFAULT_NAMESPACE
    if namespace == EVERY_NAMESPACE:
        raise bad_value("`*` is for reading: name one namespace to write to", "namespace")
    return namespace


def sees_sensitive(request: Request) -> bool:
    """Return whether memories tagged `sensitive` exist for this request without it asking for them by tag: for a person
    alone. SPEC 5.1"""
    return trust_of(request, None) == OWNER


def trust_of(request: Request, agent_id: str | None) -> Trust:
    """The trust of what comes in with a request. SPEC 2.1

    The connection decides: the socket is its owner's alone, and so is the word of whoever may connect to it. Headers
    and `agent_id` only lower that; nothing in a request raises it.
    """
    return "agent" if request.entry_point in ("mcp", "hook") or request.agent or agent_id else OWNER


def caller_of(request: Request, agent_id: str | None = None) -> Caller:
    """The caller of a request that reads or writes memories; `agent_id` is the one that a write names as its own."""
    name = f"{request.entry_point}:{request.agent}" if request.agent else request.entry_point
    trust = trust_of(request, agent_id)
    return Caller(name, trust == OWNER, trust)


def local_day(milliseconds_at: int) -> str:
    """The local day, as it is shown."""
    return dt.datetime.fromtimestamp(milliseconds_at / 1000).astimezone().date().isoformat()


def _filter(request: Request, asked: RecallRequest, namespace: str, now: int, min_importance: float) -> MemoryFilter:
    included = (state for state in ("compressed", "superseded", "discarded") if getattr(asked, f"include_{state}"))
    tags = _tags(asked.tags)
    since, until = parse_interval(asked.since, asked.until, now)
    return MemoryFilter(
        namespaces=visible_namespaces(namespace),
        user_id=asked.user_id or "local",
        agent_id=asked.agent_id,
        run_id=asked.run_id,
        session_id=asked.session_id,
        kinds=tuple(asked.kinds),
        categories=tuple(asked.categories),
        layers=tuple(asked.layers),
        states=("active", "archived", *included),
        tags=tags,
        without_tags=() if SENSITIVE_TAG in tags or sees_sensitive(request) else (SENSITIVE_TAG,),
        source=asked.source,
        speaker=asked.speaker,
        trust_min=asked.trust_min,
        since=since,
        until=until,
        min_importance=min_importance if asked.min_importance is None else asked.min_importance,
        min_importance_unasked=MIN_IMPORTANCE_UNASKED if asked.min_importance is None else 0.0,
        now=now,
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


def _content(text: str) -> str:
    try:
        content = cleaning.clean_text(text)
    except cleaning.InvalidTextError as error:
        raise bad_value(str(error), "content") from None
    if not content:
        raise bad_value("there is nothing in the text to remember", "content")
    if len(content) > CONTENT_CHARS_MAX:
        message = f"the text has {len(content)} characters, at most {CONTENT_CHARS_MAX}: split it"
        raise bad_value(message, "content")
    return content


def _tagged(draft: Draft, is_sensitive: bool) -> Draft:
    """With the tag `sensitive` where it still holds a secret."""
    if not is_sensitive or SENSITIVE_TAG in draft.tags:
        return draft
    return draft._replace(tags=_tags([*draft.tags, SENSITIVE_TAG]))


def _tags(tags: list[str]) -> tuple[str, ...]:
    try:
        return cleaning.clean_tags(tags)
    except cleaning.InvalidTextError as error:
        raise bad_value(f"{error}; {error.hint}", "tags") from None


def _evidence(items: list[str]) -> tuple[str, ...]:
    if len(items) > EVIDENCE_MAX:
        raise bad_value(
            f"there are {len(items)} pieces of evidence, and at most {EVIDENCE_MAX} can be kept", "evidence"
        )
    for item in items:
        _refuse_broken(item, "evidence")
    return tuple(items)


def _or(value: T | UnsetType, absent: T) -> T:
    """The value of a field of a request, `absent` where the request does not name it."""
    return absent if value is UNSET else value


def _text(value: str | None, field: str) -> str:
    if value is None:
        return ""
    _refuse_broken(value, field)
    return value.strip()


def _refuse_broken(value: str, field: str) -> None:
    try:
        cleaning.reject_invalid(value)
    except cleaning.InvalidTextError as error:
        raise bad_value(str(error), field) from None


def _time(value: int | str | None, field: str) -> int | None:
    return None if value is None else parse_time(value, field)


def _happened_at(value: int | str | None, now: int) -> int | None:
    """The time in ms at which something happened; of "yesterday" or "March 2024" the beginning."""
    return None if value is None else parse_bound(value, "event_at", "since", now)


def _expires_at(value: int | str | None, now: int) -> int:
    """The time in ms at which a memory expires, 0 for never. Raises a Refusal where that time has passed."""
    if value is None:
        return 0
    at = parse_expiry(value, now)
    if at <= now:
        raise bad_value(f"{value!r} has passed: name a time that lies ahead", "expires_at")
    return at


def _guarded(content: str, trust: Trust, key: bytes, mask: str) -> tuple[str, list[str], bool]:
    """Content, the kinds of secrets masked in it, and whether it still holds one. SPEC 5.1"""
    if mask == "all" or (mask == "auto" and trust in ("agent", "tool")):
        safe, kinds = secrets.mask_secrets(content, key)
        return safe, list(kinds), False
    return content, [], bool(secrets.find_secrets(content))
