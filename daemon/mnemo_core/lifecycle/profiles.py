"""The profile of a user and the memory of each project, made of what was said about them. SPEC 9.6 [M13 to M17]

An entry of a profile is a memory like any other, of the source `profile`: its tags say which list it stands in, and it
is derived from its evidence. What is older than the cut-off and still in the buffer is lifted: an entry replaces it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import msgspec

from mnemo_core.decay import bring_to_epoch
from mnemo_core.ingest.mutations import new_version
from mnemo_core.ingest.trust import lowest_trust
from mnemo_core.lifecycle.compression import (
    combined_importance,
    common,
    first_tags,
    hidden_by,
    is_compressible,
    may_be_hidden,
    united_tags,
)
from mnemo_core.retrieval.result_selection import IMPERSONAL_SOURCES, is_apart, is_preference
from mnemo_core.text.canonical import canonical_form
from mnemo_store.records import OWN_TRUSTS, PROFILE_SOURCE, TRUSTS, Kind, Memory, Trust, Usage, default_decay_rate

UserBucket = Literal["preferences", "stable_facts", "do_not_assume"]
ProjectBucket = Literal["goals", "blockers", "next_steps"]
Bucket = UserBucket | ProjectBucket
USER_BUCKETS: tuple[UserBucket, ...] = get_args(UserBucket)
PROJECT_BUCKETS: tuple[ProjectBucket, ...] = get_args(ProjectBucket)

_HEADINGS: Mapping[Bucket, str] = {
    "preferences": "User preferences", "stable_facts": "User facts", "do_not_assume": "Do not assume",
    "goals": "Goals", "blockers": "Blockers", "next_steps": "Next steps",
}  # fmt: skip

PROFILE_TAG = "profile:"
PROJECT_TAG = "project:"
CUTOFF_HOURS = 48  # [M13]
HOUR_MS = 3_600_000
LIFTED_TRUST: Trust = "agent"  # the least of what is lifted
UNASKED_TRUST: Trust = "note"  # the least of what is shown to agents that ask nothing: the person's own words
_NOT_LIFTED_FORMS = ("step", "workflow")  # of procedural memories: what an agent did, and how something is done
_BUCKET_OF_TAG: Mapping[str, ProjectBucket] = {  # [M15]
    "blocker": "blockers", "next_step": "next_steps", "next": "next_steps", "goal": "goals",
}  # fmt: skip


class ProfilePlace(NamedTuple):
    """A list of the profile of the user, or of the memory of a project."""

    bucket: Bucket
    project: str = ""

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the entries of the list."""
        return (PROFILE_TAG + self.bucket, *([PROJECT_TAG + self.project] if self.project else []))

    @property
    def heading(self) -> str:
        """The name of the list where it is shown. [M22]"""
        return _HEADINGS[self.bucket] + (f" of {self.project}" if self.project else "")


class UsedMemory(NamedTuple):
    """A memory and its usage."""

    memory: Memory
    usage: Usage


class LiftPlan(NamedTuple):
    """Replacements of some items. before: the present versions that it was decided from, by id; None: a new
    entry. after: the next versions of the items; entries: those that were made or changed."""

    before: Mapping[str, Memory | None]
    after: tuple[Memory, ...]
    entries: tuple[UsedMemory, ...]


def is_liftable(memory: Memory, now: int, cutoff: int) -> bool:
    """Return whether an entry of a profile may take the place of a memory: an item that was stored before the cut-off
    and is still in the buffer.

    What was said in a conversation is left to the summary of its session, which is no statement about anybody. What
    came from a tool or an import is not shown unasked.
    """
    return (
        memory.layer == "buffer"
        and memory.created_at < cutoff
        and may_be_hidden(memory, now)
        and memory.kind != "working"
        and memory.form not in _NOT_LIFTED_FORMS
        and memory.turn is None
        and not is_compressible(memory, now)
        and not memory.compression_source
        and TRUSTS.index(memory.trust) <= TRUSTS.index(LIFTED_TRUST)
    )


def places_of(memory: Memory) -> tuple[ProfilePlace, ...]:
    """The lists that a memory is lifted to: of each of its projects, otherwise of the user. None for a crumb, a request
    or a result, and for a passage of a text, which is about nobody. [M14, M15, M16]"""
    projects = projects_of(memory)
    if projects:
        bucket = _project_bucket(memory)
        return tuple(ProfilePlace(bucket, project) for project in projects)
    if memory.category not in ("preference", "fact", "decision") or memory.source in IMPERSONAL_SOURCES:
        return ()
    if "do_not_assume" in memory.tags:
        return (ProfilePlace("do_not_assume"),)
    return (ProfilePlace("preferences" if memory.category == "preference" else "stable_facts"),)


def projects_of(memory: Memory) -> list[str]:
    """The names of the projects that a memory is about."""
    return [tag.removeprefix(PROJECT_TAG) for tag in memory.tags if len(tag) > len(PROJECT_TAG) and _is_project(tag)]


def place_of_entry(memory: Memory) -> ProfilePlace | None:
    """The list that an entry of a profile stands in; None for any other memory."""
    if memory.source != PROFILE_SOURCE:
        return None
    names = {tag.removeprefix(PROFILE_TAG) for tag in memory.tags if tag.startswith(PROFILE_TAG)}
    project = next(iter(projects_of(memory)), "")
    buckets: tuple[Bucket, ...] = PROJECT_BUCKETS if project else USER_BUCKETS
    return next((ProfilePlace(bucket, project) for bucket in buckets if bucket in names), None)


class EntryIndex:
    """The entries of the profiles of a user in a namespace, found by what they say."""

    def __init__(self, entries: Iterable[UsedMemory]) -> None:
        self._by_text: dict[tuple[ProfilePlace, tuple[str, ...]], list[UsedMemory]] = {}
        for entry in entries:
            self.put(entry)

    def put(self, entry: UsedMemory) -> None:
        """Add an entry, or replace its earlier version with the same text."""
        place = place_of_entry(entry.memory)
        if place is not None:
            same = self._by_text.setdefault((place, _statement(entry.memory.content)), [])
            same[:] = [entry, *(each for each in same if each.memory.id != entry.memory.id)]

    def find(self, place: ProfilePlace, said: Memory) -> UsedMemory | None:
        """The entry of a list that says the same as a memory: no word that matters differs, nor who says it, nor of
        which day. What others wrote is no entry of the person's, nor the other way round."""
        same = self._by_text.get((place, _statement(said.content)), ())
        is_own = said.trust in OWN_TRUSTS
        spoken = (each for each in same
                  if each.memory.speaker == said.speaker and (each.memory.trust in OWN_TRUSTS) == is_own)  # fmt: skip
        return next((each for each in spoken if not is_apart(each.memory, said)), None)


def lift(
    items: Sequence[UsedMemory], entries: EntryIndex, new_id: Callable[[], str], now: int, epoch: int, writer: Trust
) -> LiftPlan:
    """Put an entry in the place of each item in each of its lists, or add the item to the evidence of one that says the
    same. The entries are added to the index."""
    before: dict[str, Memory | None] = {}
    after: list[Memory] = []
    made: dict[str, UsedMemory] = {}
    for item in items:
        replacement = ""
        for place in places_of(item.memory):
            known = entries.find(place, item.memory)
            if known is None:
                entry = _lifted(place, item, new_id(), now, epoch, writer)
            else:
                entry = _with_evidence(known, item, now, epoch)
            before.setdefault(entry.memory.id, known.memory if known else None)
            entries.put(entry)
            made[entry.memory.id] = entry
            replacement = replacement or entry.memory.id
        before[item.memory.id] = item.memory
        after.append(hidden_by(item.memory, replacement, now))
    return LiftPlan(before, tuple(after), tuple(_numbered(each, before[each.memory.id]) for each in made.values()))


def entry_of(
    place: ProfilePlace, namespace: str, text: str, evidence: Sequence[Memory], entry_id: str, now: int, writer: Trust
) -> Memory:
    """A new entry with its evidence. What is a preference stays one, so that it still comes first. SPEC 7.5"""
    importance, source = combined_importance(evidence, writer)
    is_liked = place.bucket == "preferences" or (len(evidence) == 1 and is_preference(evidence[0]))
    kind: Kind = "procedural" if is_liked else "semantic"
    tags = (tag for tag in united_tags(evidence) if not _is_project(tag) and not tag.startswith(PROFILE_TAG))
    return Memory(
        id=entry_id, content=text, created_at=now, modified_at=now, event_at=max(each.event_at for each in evidence),
        kind=kind, form="preference" if is_liked else None, category="preference" if is_liked else "fact",
        layer="working", importance=importance, importance_source=source, method="rule",
        trust=lowest_trust(writer, *(each.trust for each in evidence)), decay_rate=default_decay_rate("working", kind),
        speaker=common([each.speaker for each in evidence]), source=PROFILE_SOURCE,
        tags=first_tags((*place.tags, *tags)), namespace=namespace, user_id=evidence[0].user_id,
        derived_from=tuple(each.id for each in evidence),
    )  # fmt: skip


def reworded(before: Memory, entry: Memory, now: int) -> Memory:
    """The next version of an entry, with the words, the list and the evidence of another."""
    fields = ("content", "kind", "form", "category", "tags", "derived_from", "method")
    return new_version(before, now, {name: getattr(entry, name) for name in fields})


def with_more_evidence(before: Memory, entry: Memory, now: int) -> Memory:
    """The entry with its own evidence and that of another which says the same: as its next version, or as it is where
    it has all of that. No entry is evidence of itself."""
    sources = dict.fromkeys((*before.derived_from, *entry.derived_from))
    sources.pop(before.id, None)
    more = tuple(sources)
    return before if more == before.derived_from else new_version(before, now, {"derived_from": more})


def _lifted(place: ProfilePlace, item: UsedMemory, entry_id: str, now: int, epoch: int, writer: Trust) -> UsedMemory:
    memory = entry_of(place, item.memory.namespace, item.memory.content, [item.memory], entry_id, now, writer)
    memory = msgspec.structs.replace(memory, category=item.memory.category, compression_source=True)
    usage = bring_to_epoch(item.usage, item.memory, epoch)
    return UsedMemory(memory, msgspec.structs.replace(usage, id=entry_id))


def _with_evidence(entry: UsedMemory, item: UsedMemory, now: int, epoch: int) -> UsedMemory:
    """The entry as the place of one item more, used as often as both together."""
    memory, added = entry.memory, item.memory
    fields = {
        "derived_from": tuple(dict.fromkeys((*memory.derived_from, added.id))),
        "compression_source": True,
        "importance": max(memory.importance, added.importance),
        "event_at": max(memory.event_at, added.event_at),
        "trust": lowest_trust(memory.trust, added.trust),
    }
    one, other = bring_to_epoch(entry.usage, memory, epoch), bring_to_epoch(item.usage, added, epoch)
    usage = msgspec.structs.replace(
        one, access_count=one.access_count + other.access_count, strength=max(one.strength, other.strength),
        repetition_count=one.repetition_count + other.repetition_count,
        last_accessed=max(one.last_accessed, other.last_accessed),
    )  # fmt: skip
    return UsedMemory(new_version(memory, now, fields), usage)


def _numbered(entry: UsedMemory, before: Memory | None) -> UsedMemory:
    """The entry with the number of its next version, however many items became its evidence."""
    version = 1 if before is None else before.version + 1
    return entry._replace(memory=msgspec.structs.replace(entry.memory, version=version))


def _project_bucket(memory: Memory) -> ProjectBucket:
    """The list of a project that a memory belongs to: by its tags, otherwise by its category. [M15]"""
    for tag, bucket in _BUCKET_OF_TAG.items():
        if tag in memory.tags:
            return bucket
    return "goals" if memory.category == "project" else "next_steps"


def _is_project(tag: str) -> bool:
    return tag.startswith(PROJECT_TAG)


def _statement(text: str) -> tuple[str, ...]:
    """The words by which two texts say the same; of a text without any, the text."""
    return canonical_form(text).values or (text,)
