"""Requests as the values that services take: checked drafts, edits, questions and filters. SPEC 2.1, 5.1, 7.1"""

from typing import Any, Literal, TypeVar
from unicodedata import normalize

import msgspec
from msgspec import UNSET, UnsetType

from mnemo_client.protocol.choices import TurnRole
from mnemo_client.protocol.ingestion import IngestRequest, Turn, TurnsRequest
from mnemo_client.protocol.memories import EraseFilter, ListFilter, NewMemory, Patch, ProcedureTrace
from mnemo_client.protocol.retrieval import RecallRequest
from mnemo_core.ingest.mutations import Draft
from mnemo_core.ingest.trust import importance_source, lowest_trust
from mnemo_core.retrieval.recall_defaults import RecallDefaults
from mnemo_core.text import cleaning, secrets
from mnemo_core.text.dates.question_times import read_question_time
from mnemo_core.text.note_secrets import states_pin
from mnemo_core.text.query_features import asks_for_list
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_core.transfer.import_plan import SecretPolicy
from mnemo_daemon.api import access
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.retrieval.question import Question
from mnemo_daemon.server.router import Request
from mnemo_daemon.settings import Settings
from mnemo_daemon.times import (
    parse_bound,
    parse_expiry,
    parse_interval,
    parse_time,
    utc_offset,
)
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import (
    CONTENT_CHARS_MAX,
    EVIDENCE_MAX,
    PROXY_SOURCE,
    STATES,
    ConversationTurn,
    TraceStep,
    Trust,
)

# A system prompt is the text of a program, not of the person who talks to it.
ROLE_TRUSTS: dict[TurnRole, Trust] = {
    "user": "user", "agent": "agent", "assistant": "agent", "system": "agent", "tool": "tool",
}  # fmt: skip
# The fields that a write under a known key leaves as they are where it does not name them.
_KEPT_UNDER_A_KEY = (
    "kind", "form", "category", "importance", "event_at", "expires_at", "speaker", "source", "tags", "agent_id",
    "run_id", "session_id", "evidence", "derived_from", "pinned", "trace",
)  # fmt: skip

T = TypeVar("T")


# Drafts


def draft_of(request: Request, asked: NewMemory, policy: SecretPolicy, now: int) -> tuple[Draft, list[str]]:
    """The checked draft of a memory, and the kinds of secrets that were masked. Raises a Refusal."""
    agent_id = _or(asked.agent_id, None)
    trust = access.trust_of(request, agent_id)
    if asked.created_at is not None:
        raise Refusal(
            422, "refused", "created_at is for imports; say when it happened with event_at", field="created_at"
        )
    content = _content(asked.content)
    tags = _tags(_or(asked.tags, []))
    content, masked, is_sensitive = _masked(content, trust, policy)
    trace, masked_in_trace, is_trace_sensitive = _trace(_or(asked.trace, None), trust, policy)
    draft = Draft(
        content=content, namespace=access.writable_namespace(request, asked.namespace),
        user_id=asked.user_id or "local", trust=trust,
        source=_text(_or(asked.source, None), "source") or request.entry_point, kind=_or(asked.kind, None),
        form=_or(asked.form, None), category=_or(asked.category, None), importance=_or(asked.importance, None),
        importance_source=importance_source(trust), event_at=_event_time(_or(asked.event_at, None), now),
        expires_at=_expires_at(_or(asked.expires_at, None), now), speaker=_text(_or(asked.speaker, None), "speaker"),
        tags=tags, agent_id=_text(agent_id, "agent_id"), run_id=_text(_or(asked.run_id, None), "run_id"),
        session_id=_text(_or(asked.session_id, None), "session_id"), key=_text(asked.key, "key"),
        evidence=_evidence(_or(asked.evidence, [])), derived_from=tuple(_or(asked.derived_from, [])),
        supersedes=tuple(asked.supersedes), pinned=_or(asked.pinned, False), trace=trace,
        given=frozenset(name for name in _KEPT_UNDER_A_KEY if getattr(asked, name) is not UNSET),
    )  # fmt: skip
    return _tagged(draft, is_sensitive or is_trace_sensitive), list(dict.fromkeys([*masked, *masked_in_trace]))


def text_draft(request: Request, asked: IngestRequest, now: int) -> Draft:
    """The draft that all pieces of a text share; it has no content. Raises a Refusal."""
    trust, source = access.trust_of(request, asked.agent_id), _text(asked.source, "source") or "ingest"
    return _scoped_draft(request, asked, trust, source)._replace(
        kind=asked.kind, category=asked.category, importance=asked.importance,
        event_at=_event_time(asked.event_at, now), expires_at=_expires_at(asked.expires_at, now),
        speaker=_text(asked.speaker, "speaker"), evidence=_evidence(asked.evidence),
    )  # fmt: skip


def piece_draft(whole: Draft, piece: str, policy: SecretPolicy) -> Draft:
    """The draft of one piece of a text, which is masked already unless the policy is `off`."""
    is_sensitive = policy.mask == "off" and bool(secrets.find_secrets(piece))
    return _tagged(whole._replace(content=piece), is_sensitive)


def turn_draft(request: Request, place: int, content: str, policy: SecretPolicy, now: int) -> tuple[Draft, list[str]]:
    """The draft of one turn of a TurnsRequest, its content cleaned, and the kinds of secrets that were masked. Raises a
    Refusal."""
    asked: TurnsRequest = request.ask
    turn = asked.turns[place]
    trust = lowest_trust(ROLE_TRUSTS[turn.role], access.trust_of(request, asked.agent_id))
    if asked.source == PROXY_SOURCE:
        trust = lowest_trust(trust, "tool")
    at = None if turn.at is None else parse_time(turn.at, f"turns[{place}].at")
    content, masked, is_sensitive = _masked(content, "tool" if policy.mask == "auto" else trust, policy)
    draft = _scoped_draft(request, asked, trust, asked.source)._replace(
        content=content,
        event_at=now if at is None else at,
        speaker=_text(turn.speaker, f"turns[{place}].speaker"),
        turn=ConversationTurn(role=role_of(turn)),
    )
    return _tagged(draft, is_sensitive), masked


def _scoped_draft(request: Request, asked: IngestRequest | TurnsRequest, trust: Trust, source: str) -> Draft:
    """The fields that all parts of a text or conversation share."""
    return Draft(
        content="", namespace=access.writable_namespace(request), user_id=asked.user_id or "local", trust=trust,
        source=source, tags=_tags(asked.tags), agent_id=_text(asked.agent_id, "agent_id"),
        run_id=_text(asked.run_id, "run_id"), session_id=_text(asked.session_id, "session_id"),
    )  # fmt: skip


def role_of(turn: Turn) -> Literal["user", "agent"]:
    """The side of the conversation that a turn is stored under."""
    return "user" if turn.role == "user" else "agent"


# Edits and questions


def edited_fields(request: Request, patch: Patch, policy: SecretPolicy, now: int) -> dict[str, Any]:
    """The fields of a memory that a patch sets, checked, and masked as at the first writing. Raises a Refusal."""
    fields: dict[str, Any] = {}
    given = {name: value for name in patch.__struct_fields__ if (value := getattr(patch, name)) is not UNSET}
    given.pop("layer", None)
    given.pop("if_version", None)
    for name, value in given.items():
        match name:
            case "content":
                fields[name], _, _ = _masked(_content(value), access.trust_of(request), policy)
            case "tags":
                fields[name] = _tags(value)
            case "evidence":
                fields[name] = _evidence(value)
            case "derived_from":
                fields[name] = tuple(value)
            case "event_at":
                fields[name] = _event_time(value, now)
            case "expires_at":
                fields[name] = _expires_at(value, now)
            case "speaker" | "session_id":
                fields[name] = _text(value, name)
            case "importance":
                fields |= {"importance": value, "importance_source": importance_source(access.trust_of(request))}
            case _:
                fields[name] = value
    return fields


def tagged_if_sensitive(content: str, tags: tuple[str, ...], trust: Trust) -> tuple[str, ...]:
    """The tags, with `sensitive` where the content holds a secret."""
    return _tags([*tags, SENSITIVE_TAG]) if SENSITIVE_TAG not in tags and _holds_secret(content, trust) else tags


def question_of(
    request: Request, asked: RecallRequest, now: int, settings: Settings | None = None, *, is_prompt: bool = False
) -> Question:
    """Validate a recall request; fields that it leaves out come from the profile of its namespace, else from settings.
    is_prompt: the query is a prompt, which names a time only where it asks. Raises a Refusal that names the field."""
    if not asked.query.strip():
        raise bad_value("an empty query asks nothing: say what to look for", "query")
    _refuse_broken(asked.query, "query")
    if asked.top_k is not None and asked.limit is not None:
        raise bad_value("`limit` is another name for `top_k`: give one of them", "limit")
    namespace = access.namespace_of(request)
    as_of = parse_bound(asked.as_of, "as_of", "until", now) if asked.as_of is not None else None
    if asked.now is not None:
        now = parse_time(asked.now, "now")
    elif as_of is not None:
        now = min(as_of, now)  # expiry and freshness are those of that time
    settings = settings or Settings()
    defaults = settings.recall_defaults(namespace)
    budget = asked.token_budget
    top_k, takes_list = asked.top_k or asked.limit, False
    if top_k is None:
        top_k = asked.default_top_k or defaults.top_k
        takes_list = top_k < defaults.list_top_k and asks_for_list(asked.query)
    ranker, time = asked.ranker or defaults.ranker, None
    if asked.time == "auto" and ranker == "auto" and asked.since is None and asked.until is None:
        time = read_question_time(asked.query, now, utc_offset, is_prompt=is_prompt)
    return Question(
        query=asked.query, filter=_recall_filter(request, asked, now, defaults),
        top_k=defaults.list_top_k if takes_list else top_k, takes_list=takes_list, offset=asked.offset,
        token_budget=defaults.token_budget if budget is UNSET else budget,
        min_score=defaults.min_score if asked.min_score is None else asked.min_score, sort=asked.sort, ranker=ranker,
        mode=asked.mode, recency_bias=asked.recency_bias, semantic_weight=asked.semantic_weight,
        preferences=asked.preferences or defaults.preferences, cut=asked.cut or defaults.cut, group_by=asked.group_by,
        expand=defaults.expand if asked.expand == "auto" else "true" if asked.expand else "false",
        rerank=defaults.rerank if asked.rerank is None else asked.rerank, exact=asked.exact, highlight=asked.highlight,
        explain=asked.explain, working_session=asked.session_id, working_any="working" in asked.kinds, as_of=as_of,
        copies=defaults.copies, by_source=settings.profile_of(namespace).thresholds == "source", time=time,
    )  # fmt: skip


# Filters


def list_filter(request: Request, query: ListFilter, now: int) -> MemoryFilter:
    """The filter of a list. Raises a Refusal that names the parameter."""
    tags = tuple(tag.strip().lower() for tag in query.tags)
    since, until = parse_interval(query.since, query.until, now)
    return _common_filter(query)._replace(
        namespaces=access.listed_namespaces(request), states=tuple(query.states) or ("active", "archived"), tags=tags,
        without_tags=access.hidden_tags(request, tags), since=since, until=until, now=now,
    )  # fmt: skip


def erase_filter(request: Request, asked: EraseFilter, now: int) -> MemoryFilter:
    """The filter of an erasure, which must name something. Raises a Refusal that names the field."""
    if asked == EraseFilter() and request.namespace is None:
        raise bad_value("name at least one filter, the namespace for one: this would forget everything", "filter")
    if request.namespace and asked.namespace and request.namespace != asked.namespace:
        raise bad_value("the filter names another namespace than X-Namespace", "filter.namespace")
    since, until = parse_interval(asked.since, asked.until, now, "filter.")
    return _common_filter(asked)._replace(
        namespaces=(access.writable_namespace(request, asked.namespace),),
        states=tuple(asked.states) or STATES,
        tags=tuple(normalize("NFC", tag.strip().lower()) for tag in asked.tags),  # nothing has a blank one
        since=since,
        until=until,
    )


def _recall_filter(request: Request, asked: RecallRequest, now: int, defaults: RecallDefaults) -> MemoryFilter:
    included = (state for state in ("compressed", "superseded", "discarded") if getattr(asked, f"include_{state}"))
    tags = _tags(asked.tags)
    since, until = parse_interval(asked.since, asked.until, now)
    return _common_filter(asked)._replace(
        namespaces=access.visible_namespaces(access.namespace_of(request)), states=("active", "archived", *included),
        tags=tags, without_tags=access.hidden_tags(request, tags), trust_min=asked.trust_min, since=since, until=until,
        min_importance=defaults.min_importance if asked.min_importance is None else asked.min_importance,
        min_importance_unasked=defaults.min_importance_unasked if asked.min_importance is None else 0.0, now=now,
    )  # fmt: skip


def _common_filter(asked: ListFilter | EraseFilter | RecallRequest) -> MemoryFilter:
    """The fields that every filter takes over as they are."""
    return MemoryFilter(
        user_id=asked.user_id or "local", agent_id=asked.agent_id, run_id=asked.run_id, session_id=asked.session_id,
        kinds=tuple(asked.kinds), categories=tuple(asked.categories), layers=tuple(asked.layers), source=asked.source,
        speaker=asked.speaker,
    )  # fmt: skip


# Fields


def clean_text(text: str, field: str) -> str:
    """The text as it is stored, which may be empty. Raises a Refusal that names the field."""
    try:
        return cleaning.clean_text(text)
    except cleaning.InvalidTextError as error:
        raise bad_value(str(error), field) from None


def _content(text: str) -> str:
    content = clean_text(text, "content")
    if not content:
        raise bad_value("there is nothing in the text to remember", "content")
    if len(content) > CONTENT_CHARS_MAX:
        message = f"the text has {len(content)} characters, at most {CONTENT_CHARS_MAX}: split it"
        raise bad_value(message, "content")
    return content


def _tagged(draft: Draft, is_sensitive: bool) -> Draft:
    """The draft, tagged `sensitive` where it still holds a secret."""
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


def _event_time(value: int | str | None, now: int) -> int | None:
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


def _trace(
    asked: ProcedureTrace | None, trust: Trust, policy: SecretPolicy
) -> tuple[TraceStep | None, list[str], bool]:
    """The step of a run, the kinds of secrets masked in it, and whether it still holds one."""
    if asked is None:
        return None, [], False
    fields = msgspec.structs.asdict(asked)
    masked: list[str] = []
    is_sensitive = False
    for name, text in fields.items():
        if isinstance(text, str):
            _refuse_broken(text, f"trace.{name}")
            fields[name], kinds, is_secret = _masked(text, trust, policy)
            masked += kinds
            is_sensitive = is_sensitive or is_secret
    return TraceStep(**fields), masked, is_sensitive


def _masked(content: str, trust: Trust, policy: SecretPolicy) -> tuple[str, list[str], bool]:
    """The content, the kinds of secrets masked in it, and whether it still holds one. SPEC 5.1"""
    if policy.mask == "all" or (policy.mask == "auto" and trust in ("agent", "tool")):
        safe, kinds = secrets.mask_secrets(content, policy.key)
        return safe, list(kinds), False
    return content, [], _holds_secret(content, trust)


def _holds_secret(content: str, trust: Trust) -> bool:
    """Return whether a text holds a secret: of a known shape, or the PIN of the person who states it."""
    return bool(secrets.find_secrets(content)) or (trust == "user" and states_pin(content))
