"""The routes of what an agent reads at the start of a session, and before a risky step. SPEC 11, 13"""

from mnemo_client.protocol import operations
from mnemo_client.protocol.sessions import (
    ResumeAnswer,
    ResumeQuery,
    ResumeSectionView,
    ResumeTopicView,
    ScopeQuery,
    TriggersAnswer,
)
from mnemo_core.sessions.resume import ResumeSection, tokens_of
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.api import access, request_codec, response_codec
from mnemo_daemon.api.explained_texts import explain_resume
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.retrieval.question import Hit
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.times import parse_time
from mnemo_store.indexes.attributes import MemoryFilter


class ContextApi(Resource):
    """The handlers."""

    @handles(operations.RESUME)
    async def resume(self, request: Request) -> Reply:
        query: ResumeQuery = request.query
        return Reply(await self._workers.run(self.resume_answer, request, query))

    def resume_answer(self, request: Request, query: ResumeQuery) -> ResumeAnswer:
        """The resume of the namespace of a request."""
        services = self._services
        defaults = services.settings.recall_defaults(access.namespace_of(request))
        wanted = self._filter(request, query)._replace(min_importance_unasked=defaults.min_importance_unasked)
        task = (query.task or "").strip()
        with services.priority.query_running():
            relevance = services.recall.relevance_to(task) if task else None
            resume = services.resume.resume(wanted, query.session_id, relevance)
        if access.counts_use(request) and not query.explain:
            services.ingest.record_shown(query.session_id or "", resume.shown)
            ids = [memory_id for memory_id, _ in resume.shown]
            services.shown_recorder.record("resume", access.caller_of(request).name, query.session_id or "", ids)
        return ResumeAnswer(
            text=resume.text, total_tokens=tokens_of(resume.text), working=resume.working, buffer=resume.buffer,
            core=_section_view(resume.core), recent=_section_view(resume.recent),
            topics=[ResumeTopicView(id=each.id, name=each.name, members=each.members) for each in resume.lists.topics],
            profile=_section_view(resume.profile) if resume.profile.total else None,
            others=_section_view(resume.others) if resume.others.total else None,
            triggers=[*resume.lists.triggers, *resume.lists.of_others], namespace=access.namespace_of(request),
            degraded=["vectors"] if task and relevance is None else [],
            explained=explain_resume(resume, services.resume.weights) if query.explain else None,
        )  # fmt: skip

    @handles(operations.TRIGGERS)
    def triggers(self, request: Request) -> TriggersAnswer:
        services, query = self._services, request.query
        action = request_codec.clean_text(request.path["action"], "action").lower()
        found = services.resume.triggers(self._filter(request, query), action, query.limit)
        if access.counts_use(request):
            services.usage_recorder.record([Hit(each, 1.0, 1.0, ("trigger",)) for each in found])
            by = access.caller_of(request).name
            services.shown_recorder.record("triggers", by, "", [each.memory.id for each in found])
        roots = services.root_paths()
        views = [response_codec.memory_view(each, roots) for each in found]
        return TriggersAnswer(action=action, count=len(views), memories=views, namespace=access.namespace_of(request))

    def _filter(self, request: Request, query: ScopeQuery) -> MemoryFilter:
        """The active memories in the scope of a request, and nothing sensitive unless it asks for that tag and may see
        it. Raises a Refusal."""
        tags = tuple(tag.strip().lower() for tag in query.tag)
        now = self._services.store.now() if query.now is None else parse_time(query.now, "now")
        return MemoryFilter(
            namespaces=access.visible_namespaces(access.namespace_of(request)), user_id=query.user_id or "local",
            agent_id=query.agent_id, states=("active",), tags=tags,
            without_tags=access.hidden_tags(request, tags) if SENSITIVE_TAG in tags else (SENSITIVE_TAG,), now=now,
        )  # fmt: skip


def _section_view(section: ResumeSection) -> ResumeSectionView:
    return ResumeSectionView(total=section.total, memories=list(section.ids), condensed=list(section.condensed))
