"""The routes of profiles, and of compression, which makes them. SPEC 9.6, 13"""

import itertools
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UNSET

from mnemo_client.protocol import operations
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.primitives import ScopedRequest
from mnemo_client.protocol.profiles import (
    PROJECT_CHARACTERS_MAX,
    CompressAnswer,
    CompressRequest,
    KnownStatement,
    NewProfileEntry,
    ProfileAnswer,
    ProfileEntry,
    ProfileUpdate,
    ProfileUpdateAnswer,
    ProjectAnswer,
    SummarizedSession,
)
from mnemo_core.lifecycle.profiles import PROJECT_BUCKETS, USER_BUCKETS, Bucket, ProfilePlace
from mnemo_core.retrieval.context_block import author_of
from mnemo_daemon.api import access, request_codec
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.lifecycle.compression import SessionSummary
from mnemo_daemon.lifecycle.profile_service import LISTED_STATES, Entries, EntryUpdate, Owner
from mnemo_daemon.memories.memory_service import Caller
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_daemon.sessions.run_steps import SUMMARY_SOURCE
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import Memory


class ProfilesApi(Resource):
    """The handlers."""

    def __init__(self, services: Services, workers: WorkerPool) -> None:
        super().__init__(services, workers)
        self._compressor = WorkerPool(1, thread_name_prefix="mnemo-compress")

    def close(self) -> None:
        """End the thread that waits for summaries."""
        self._compressor.close()

    @handles(operations.COMPRESS)
    async def compress(self, request: Request) -> Reply:
        return Reply(await self._compressor.run(self._compressed, request))

    @handles(operations.PROFILE)
    def profile(self, request: Request) -> ProfileAnswer:
        found = self._entries(request)
        of_user, others = _lists(found, [ProfilePlace(bucket) for bucket in USER_BUCKETS])
        entries = [*itertools.chain.from_iterable(of_user.values()), *others]
        projects = {place.project for place, some in found.items() if not all(map(author_of, some))}
        return ProfileAnswer(
            **of_user, projects=sorted(projects - {""}), others=others,
            last_updated=max((each.last_updated for each in entries), default=None),
            namespace=access.namespace_of(request), known=self._known(request),
        )  # fmt: skip

    def _known(self, request: Request) -> list[KnownStatement]:
        """Statements of the memories, without the steps and summaries of runs, which say what agents did."""
        return [
            KnownStatement(
                id=memory.id, role=role, text=memory.content, at=memory.event_at, author=author_of(memory) or None
            )
            for role, memory in self._services.resume.known(self._wanted(request))
            if memory.form != "step" and memory.source != SUMMARY_SOURCE
        ]

    @handles(operations.PROJECT)
    def project(self, request: Request) -> ProjectAnswer:
        name, found = _project_name(request.path["name"], "name"), self._entries(request)
        of_project, others = _lists(found, [ProfilePlace(bucket, name) for bucket in PROJECT_BUCKETS])
        changed = [each.last_updated for each in (*itertools.chain.from_iterable(of_project.values()), *others)]
        if not changed:
            known = ", ".join(sorted({place.project for place in found} - {""})) or "none"
            raise Refusal(404, "not_found", f"the profile has no project {name!r}; it has: {known}", field="name")
        return ProjectAnswer(
            project=name, **of_project, others=others, last_updated=max(changed),
            namespace=access.namespace_of(request),
        )  # fmt: skip

    def _entries(self, request: Request) -> Entries:
        return self._services.profiles.entries(self._wanted(request))

    def _wanted(self, request: Request) -> MemoryFilter:
        query: ScopedRequest = request.query
        return MemoryFilter(
            namespaces=access.visible_namespaces(access.namespace_of(request)), user_id=query.user_id or "local",
            states=LISTED_STATES, without_tags=access.hidden_tags(request), now=self._services.store.now(),
        )  # fmt: skip

    @handles(operations.UPDATE_PROFILE)
    def update(self, request: Request) -> ProfileUpdateAnswer:
        asked: ProfileUpdate = request.ask
        caller = access.caller_of(request, asked.agent_id)
        updates = list(self._updates(request, caller))
        resolve = self._services.memories.resolve
        removed = [resolve(each, caller, f"remove[{place}]") for place, each in enumerate(asked.remove)]
        if not updates and not removed:
            raise bad_value("name at least one entry to write or to remove", "remove")
        owner = Owner(access.writable_namespace(request), asked.user_id or "local")
        written = self._services.profiles.update(owner, updates, removed, caller)
        return ProfileUpdateAnswer(
            ids=written.ids, removed=removed, group=written.group, seq=written.seq or None, namespace=owner.namespace
        )

    def _updates(self, request: Request, caller: Caller) -> Iterator[EntryUpdate]:
        """The entries of an update, checked. Raises a Refusal that names the field."""
        asked: ProfileUpdate = request.ask
        project = "" if asked.project is None else _project_name(asked.project, "project")
        buckets: tuple[Bucket, ...] = (*USER_BUCKETS, *PROJECT_BUCKETS)
        for bucket in buckets:
            given: list[NewProfileEntry] = getattr(asked, bucket)
            if given and (bucket in PROJECT_BUCKETS) != bool(project):
                needed = (
                    "a list of a project: name the `project`" if not project else "a list of the user, of no project"
                )
                raise bad_value(f"`{bucket}` is {needed}", bucket)
            for place, entry in enumerate(given):
                yield self._checked(request, entry, ProfilePlace(bucket, project), f"{bucket}[{place}]", caller)

    def _checked(
        self, request: Request, entry: NewProfileEntry, place: ProfilePlace, field: str, caller: Caller
    ) -> EntryUpdate:
        services, asked = self._services, request.ask
        memory = NewMemory(
            content=entry.text, user_id=asked.user_id, agent_id=UNSET if asked.agent_id is None else asked.agent_id
        )
        try:
            draft, _ = request_codec.draft_of(request, memory, services.secret_policy(), services.store.now())
        except Refusal as refused:
            name = f"{field}.text" if refused.field == "content" else refused.field
            raise Refusal(refused.status, refused.code, refused.message, field=name) from None
        evidence = [self._resolved_evidence(each, caller, f"{field}.evidence_ids") for each in entry.evidence_ids]
        entry_id = services.memories.resolve(entry.id, caller, f"{field}.id") if entry.id is not None else ""
        return EntryUpdate(place, draft.content, draft.tags, tuple(dict.fromkeys(evidence)), entry_id, field)

    def _resolved_evidence(self, text: str, caller: Caller, field: str) -> str:
        try:
            return self._services.memories.resolve(text, caller, field)
        except Refusal as refused:
            if refused.status != 404:
                raise
            raise Refusal(422, "no_evidence", f"evidence must exist: {refused.message}", field=field) from None

    def _compressed(self, request: Request) -> CompressAnswer:
        asked: CompressRequest = request.ask
        owner = Owner(access.writable_namespace(request), asked.user_id or "local")
        with self._services.operations.running("compress") as operation:
            made = self._services.compression.compress(
                owner, asked.sessions, asked.cutoff_hours, access.caller_of(request), dry_run=asked.dry_run,
                progress=operation.report,
            )  # fmt: skip
        return CompressAnswer(
            **made.lifted._asdict(), sessions=[_session_view(each, asked.dry_run) for each in made.sessions],
            under_way=made.under_way, dry_run=asked.dry_run, group=made.group or None, namespace=owner.namespace,
        )  # fmt: skip


def _project_name(text: str, field: str) -> str:
    """The name of a project, as it stands in tags. Raises a Refusal."""
    name = request_codec.clean_text(text, field).strip().lower()
    if not 0 < len(name) <= PROJECT_CHARACTERS_MAX:
        raise bad_value(f"a project has a name of 1 to {PROJECT_CHARACTERS_MAX} characters", field)
    return name


def _lists(found: Entries, places: Sequence[ProfilePlace]) -> tuple[dict[str, list[ProfileEntry]], list[ProfileEntry]]:
    """The person's entries by their lists, and those of others together, each with its list and author."""
    own: dict[str, list[ProfileEntry]] = {
        place.bucket: [_view(each) for each in found.get(place, ()) if not author_of(each)] for place in places
    }
    others = [
        msgspec.structs.replace(_view(each), list=place.bucket, author=author)
        for place in places for each in found.get(place, ()) if (author := author_of(each))
    ]  # fmt: skip
    return own, others


def _view(memory: Memory) -> ProfileEntry:
    return ProfileEntry(
        id=memory.id, text=memory.content, evidence_ids=list(memory.derived_from), last_updated=memory.modified_at,
        trust=memory.trust, speaker=memory.speaker or None, namespace=memory.namespace,
    )  # fmt: skip


def _session_view(made: SessionSummary, is_dry: bool) -> SummarizedSession:
    summary = made.compressed.summary
    return SummarizedSession(
        session_id=summary.session_id, summary=summary.content, memories=list(summary.derived_from),
        method=made.method, id=None if is_dry else summary.id,
    )  # fmt: skip
