"""Decisions about imported memories: cleaned, checked, masked, and compared with what is stored. SPEC 3.8, 5.1"""

import hashlib
from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from mnemo_core.decay import bring_to_epoch, initial_usage
from mnemo_core.ingest import mutations
from mnemo_core.ingest.mutations import Draft
from mnemo_core.text import cleaning, secrets
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_core.transfer.importers import ImportedMemory, ImportItemError, Tool
from mnemo_store.record_texts import normalized_text
from mnemo_store.records import (
    CONTENT_CHARS_MAX,
    KEY_CHARS_MAX,
    NAMESPACE_CHARS_MAX,
    SCOPE_CHARS_MAX,
    Change,
    Memory,
    PutMemory,
    PutUsage,
    TrashEntry,
    Usage,
)

SOURCE = "import"  # what every imported memory says of where it came from. SPEC 2.1
Outcome = Literal["stored", "duplicate", "updated", "restored", "older"]


class ImportTarget(NamedTuple):
    """Namespace and user for all memories of an import, overriding the export; None keeps the export's own."""

    namespace: str | None = None
    user_id: str | None = None


class SecretPolicy(NamedTuple):
    """Treatment of secrets in imported texts. SPEC 5.1"""

    mask: Literal["auto", "all", "off"]
    key: bytes


class ImportCandidate(NamedTuple):
    """An imported memory, cleaned and checked. `plain` is its text before masking."""

    draft: Draft
    plain: str
    masked: tuple[str, ...]
    changed_at: int
    usage: Mapping[str, int]
    dropped_fields: tuple[str, ...]


class ImportDecision(NamedTuple):
    """Outcome for one imported memory."""

    outcome: Outcome
    changes: tuple[Change, ...] = ()


def admit_import(imported: ImportedMemory, tool: Tool, into: ImportTarget, guard: SecretPolicy) -> ImportCandidate:
    """Clean and check an imported memory, and mask its secrets as for any text no person wrote here. Raises
    ImportItemError.

    Its key consists of the tool and the tool's own id, or else the text, so that importing an export twice adds
    nothing.
    """
    try:
        plain = cleaning.clean_text(imported.content)
        for name in ("namespace", "user_id", "agent_id", "run_id", "speaker", "id"):
            cleaning.reject_invalid(getattr(imported, name))
    except cleaning.InvalidTextError as error:
        raise ImportItemError(str(error)) from None
    content, kinds = (plain, ()) if guard.mask == "off" else secrets.mask_secrets(plain, guard.key)
    if not content:
        raise ImportItemError("there is nothing in the text to remember")
    if len(content) > CONTENT_CHARS_MAX:
        raise ImportItemError(f"the text has {len(content)} characters, at most {CONTENT_CHARS_MAX}: split it")
    tags = cleaning.valid_tags(imported.tags)
    lost_tags = {tag.strip().lower() for tag in imported.tags if tag.strip()} - {*tags}
    if guard.mask == "off" and SENSITIVE_TAG not in tags and secrets.find_secrets(content):
        tags = cleaning.valid_tags((SENSITIVE_TAG, *tags))
    draft = Draft(
        content=content,
        namespace=_short(into.namespace or imported.namespace or "default", "namespace", NAMESPACE_CHARS_MAX),
        user_id=_short(into.user_id or imported.user_id or "local", "user_id"),
        trust="import",
        source=SOURCE,
        kind=imported.kind,
        importance=imported.importance,
        importance_source="rule",  # the other tool's
        event_at=imported.event_at,
        created_at=imported.created_at,
        expires_at=imported.expires_at or 0,
        speaker=_short(imported.speaker, "speaker"),
        tags=tags,
        agent_id=_short(imported.agent_id, "agent_id"),
        run_id=_short(imported.run_id, "run_id"),
        key=_key(tool, imported.id, content),
    )
    if draft.namespace == "*":
        raise ImportItemError("`*` is no namespace to write to")
    usage = {"access_count": imported.access_count, "repetition_count": imported.repetition_count}
    usage["last_accessed"] = imported.last_accessed or 0
    not_kept = (*imported.dropped_fields, *(("tags",) if lost_tags else ()))
    return ImportCandidate(draft, plain, kinds, imported.changed_at or 0, usage, not_kept)


def decide_import(
    new: ImportCandidate, before: Memory | None, usage: Usage | None, entry: TrashEntry | None, memory_id: str,
    now: int, epoch: int,
) -> ImportDecision:  # fmt: skip
    """Decide an imported memory against `before`, the memory that has its key (with its trash entry, if any).

    Equal content changes nothing, not even the repetition count: an export read twice is no repetition. Other content
    becomes a new version if the tool changed it after `before` was last changed here; a later local change wins. A
    trashed memory is restored.
    """
    if before is None:
        memory = mutations.store_new(new.draft, memory_id, now, epoch).memory
        used = msgspec.structs.replace(initial_usage(memory, epoch), **new.usage)
        return ImportDecision("stored", (PutMemory(data=memory), PutUsage(data=used)))
    is_same = normalized_text(before.content) == normalized_text(new.draft.content)
    if is_same or new.changed_at <= before.modified_at:
        if entry is not None:
            return ImportDecision("restored", mutations.restore(before, entry, now))
        return ImportDecision("duplicate" if is_same else "older")
    draft = new.draft._replace(pinned=before.pinned)
    decision = mutations.store_keyed(draft, before, bring_to_epoch(usage, before, epoch), entry, now)
    return ImportDecision("updated", decision.changes)


def _key(tool: Tool, own_id: str, content: str) -> str:
    key = f"{tool}:{own_id.strip()}"
    if own_id.strip() and len(key) <= KEY_CHARS_MAX:
        return key
    return f"{tool}:{hashlib.blake2b((own_id or content).encode(), digest_size=16).hexdigest()}"


def _short(text: str, name: str, chars_max: int = SCOPE_CHARS_MAX) -> str:
    if len(text.strip()) > chars_max:
        raise ImportItemError(f"its {name} has {len(text.strip())} characters, at most {chars_max}")
    return text.strip()
