"""The routes of the tree of topics, of the graph of topic nodes, and of the fact graph. SPEC 10, 13"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec import UNSET

from mnemo_client.protocol import operations
from mnemo_client.protocol.knowledge import (
    AbstractAnswer,
    AbstractRequest,
    ConflictView,
    DecideConflictAnswer,
    DecideConflictRequest,
    DedupeAnswer,
    DedupeRequest,
    ExpandAnswer,
    ExpandRequest,
    FactConflictsAnswer,
    FactConflictsQuery,
    FactDeletedAnswer,
    FactGraphAnswer,
    FactGraphQuery,
    FactHistoryAnswer,
    FactHistoryQuery,
    FactsAnswer,
    FactsQuery,
    FactView,
    GraphAnswer,
    GraphQuery,
    MapAnswer,
    MapQuery,
    NewFacts,
    NewFactsAnswer,
    RenameTopicAnswer,
    RenameTopicRequest,
    TopicMembersView,
    TopicsAnswer,
    TopicView,
)
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.primitives import ScopedRequest
from mnemo_core.ingest.facts import Conflict
from mnemo_core.ingest.write_plan import StatedFact, is_perhaps_outdated
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.api import access, request_codec
from mnemo_daemon.api.resource import Resource, WorkerPool, handles
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.indexing.fact_index import FactScope
from mnemo_daemon.ingest.ingest_pipeline import Submission
from mnemo_daemon.knowledge.fact_service import FactService, ListedFact, sentence_of
from mnemo_daemon.knowledge.memory_map import MapPages
from mnemo_daemon.knowledge.topic_graph import GraphFilter
from mnemo_daemon.knowledge.topic_trees import TopicMembers, TopicSummary
from mnemo_daemon.memories.memory_service import SAID, Caller
from mnemo_daemon.retrieval.explanations import fact_chain_view
from mnemo_daemon.scheduler import LongOperation
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_daemon.table_walk import page_behind
from mnemo_daemon.times import local_day, parse_bound, parse_time
from mnemo_store.indexes.attributes import MemoryFilter

NEARNESS_STEPS = 10_000  # in which a nearness is reported, and ordered
MONTH_CHARS = len("2026-05")
ABSTRACT_SECONDS = 40.0  # that a language model may take for names; the rest of them is made of words


class TopicsApi(Resource):
    """The handlers of topics and of the graph of topic nodes."""

    def __init__(self, services: Services, workers: WorkerPool) -> None:
        super().__init__(services, workers, WorkerPool(1, thread_name_prefix="mnemo-graph"))

    @handles(operations.TOPICS)
    def topics(self, request: Request) -> TopicsAnswer:
        return self._listed(request, request.query.user_id)

    def _listed(self, request: Request, user_id: str | None) -> TopicsAnswer:
        namespace, trees = access.namespace_of(request), self._services.topic_trees
        found = trees.topics(
            user_id or "local", access.visible_namespaces(namespace), sees_sensitive=not access.hidden_tags(request)
        )
        return TopicsAnswer(topics=list(map(_topic_view, found)), current=trees.is_current(), namespace=namespace)

    @handles(operations.MAP)
    def map(self, request: Request) -> MapAnswer:
        query: MapQuery = request.query
        wanted = self._listed_filter(request, query.user_id)
        self._services.priority.yield_to_queries()
        page = MapPages(self._services.views, self._services.topic_trees, self._services.memory_map)
        answer = page.read(wanted, query.limit, query.cursor)
        answer.namespace = access.namespace_of(request)
        return answer

    @handles(operations.RENAME_TOPIC)
    def rename(self, request: Request) -> RenameTopicAnswer:
        asked: RenameTopicRequest = request.ask
        name = "" if asked.name is None else request_codec.clean_text(asked.name, "name").strip()
        if asked.name is not None and not name:
            raise bad_value("a name has at least one character; null takes it away", "name")
        user_id, topic_id = asked.user_id or "local", request.path["id"]
        namespaces = (access.writable_namespace(request),)
        trees = self._services.topic_trees
        seq = trees.rename(topic_id, name, user_id, namespaces, access.caller_of(request).name)
        topic = next(each for each in trees.topics(user_id, namespaces) if each.id == topic_id)
        return RenameTopicAnswer(topic=_topic_view(topic), seq=seq or None, namespace=access.namespace_of(request))

    @handles(operations.REBUILD_TOPICS)
    def rebuild(self, request: Request) -> TopicsAnswer:
        user_id = request.ask.user_id
        namespaces = (access.writable_namespace(request),)
        trees, operation = self._services.topic_trees, LongOperation("topics")
        trees.rebuild(user_id or "local", namespaces)
        total = trees.waiting()
        operation.report("building the trees", lambda: max(0, total - trees.waiting()), total)
        self._services.operations.follow(operation, lambda: not trees.waiting())
        return self._listed(request, user_id)

    @handles(operations.EXPAND_TOPICS)
    def expand(self, request: Request) -> ExpandAnswer:
        asked: ExpandRequest = request.ask
        if asked.cursor and len(asked.ids) > 1:
            raise bad_value("a cursor continues one topic: give one id", "cursor")
        namespace, topics, unknown = access.namespace_of(request), [], []
        for topic_id in dict.fromkeys(asked.ids):
            found = self._services.topic_trees.members(
                topic_id, asked.user_id or "local", access.visible_namespaces(namespace),
                sees_sensitive=not access.hidden_tags(request),
            )  # fmt: skip
            if found is None:
                unknown.append(topic_id)
            else:
                topics.append(self._members(request, topic_id, found))
        return ExpandAnswer(topics=topics, unknown=unknown, namespace=namespace)

    def _members(self, request: Request, topic_id: str, found: TopicMembers) -> TopicMembersView:
        """The members as they are now, the newest first: some may have gone since the tree was built."""
        asked: ExpandRequest = request.ask
        services, columns = self._services, self._services.views.attributes
        mask = columns.uncached_mask(MemoryFilter(
            states=("active",), without_tags=access.hidden_tags(request), now=services.store.now()
        ))  # fmt: skip
        numbers = found.numbers[found.numbers < len(mask)]
        numbers = numbers[mask[numbers]]
        ids, times = columns.ids(numbers.tolist()), columns.values("event_at", numbers)
        is_by_nearness = asked.sort == "nearest"
        near = services.topic_trees.nearness(numbers) if is_by_nearness else np.empty(0, np.float32)
        first = -np.round(near.astype(np.float64) * NEARNESS_STEPS).astype(np.int64) if is_by_nearness else -times
        order = sorted(zip(first.tolist(), ids, strict=True))
        page, more = page_behind(order, lambda each: each, asked.cursor, asked.limit)
        return TopicMembersView(
            id=topic_id, topic=found.topic and _topic_view(found.topic), moved_to=list(found.moved_to),
            memories=[self._memory_view(each) for _, each in page], cursor=more,
            nearness=[-place / NEARNESS_STEPS for place, _ in page] if is_by_nearness else [],
            months=dict(sorted(Counter(local_day(at)[:MONTH_CHARS] for at in times.tolist()).items()))
            if asked.months else {},
        )  # fmt: skip

    @handles(operations.ABSTRACT_TOPIC_GRAPH)
    async def abstract(self, request: Request) -> Reply:
        asked: AbstractRequest = request.ask
        groups = await self._own.run(
            self._services.topic_graph.abstract, access.writable_namespace(request), asked.user_id or "local",
            access.caller_of(request), ABSTRACT_SECONDS, self._services.stopped.is_set,
        )  # fmt: skip
        return Reply(AbstractAnswer(groups=groups))

    @handles(operations.DEDUPE_TOPIC_GRAPH)
    def dedupe(self, request: Request) -> DedupeAnswer:
        asked: DedupeRequest = request.ask
        namespace, caller = access.writable_namespace(request), access.caller_of(request)
        groups = self._services.topic_graph.merge(namespace, asked.user_id or "local", caller, asked.dry_run)
        merged = sum(len(group.nodes) for group in groups)
        return DedupeAnswer(groups=groups, merged=merged, dry_run=asked.dry_run)

    @handles(operations.TOPIC_GRAPH)
    def graph(self, request: Request) -> GraphAnswer:
        query: GraphQuery = request.query
        namespaces = access.visible_namespaces(access.namespace_of(request))
        wanted = GraphFilter(namespaces, query.user_id or "local", query.relation, query.min_weight)
        return self._services.topic_graph.page(wanted, access.caller_of(request), query.limit, query.cursor or "")


def _topic_view(topic: TopicSummary) -> TopicView:
    return TopicView(
        id=topic.id, name=topic.name, count=topic.member_count, parent=topic.parent or None, level=topic.level,
        method=topic.method, namespace=topic.namespace,
    )  # fmt: skip


SOURCE = "facts"  # of a memory that states an inserted fact


class FactsApi(Resource):
    """Handlers of the fact graph."""

    @handles(operations.ADD_FACTS)
    async def insert(self, request: Request) -> Reply:
        services = self._services
        asked: NewFacts = request.ask
        caller = access.caller_of(request, asked.agent_id)
        group = services.store.new_id()
        scope = self._scope(request, asked.user_id)
        apart, attached = await self._workers.run(self._read, request, caller)
        by_memory: dict[str, list[StatedFact]] = {}
        for memory_id, fact in attached:
            by_memory.setdefault(memory_id, []).append(fact)
        await self._workers.run(self._facts.check, by_memory, caller)  # before anything is written
        stated, seq = list[tuple[str, StatedFact]](), 0
        for submission, result in zip(apart, await services.ingest.ingest(apart, caller, group), strict=True):
            if isinstance(result, Refusal):
                raise result
            stated += [(result.decision.memory.id, fact) for fact in submission.facts or ()]
            seq = max(seq, result.seq)
        if attached:
            seq = max(seq, await self._workers.run(self._facts.attach, by_memory, caller, group))
            stated += attached
        await services.wait_until_open()  # a write may have found the disk failing
        made, conflicts, ended = await self._workers.run(self._facts.inserted, stated, scope)
        return Reply(NewFactsAnswer(
            facts=self._views(made), conflicts=self._conflicts(conflicts, scope), resolved=self._views(ended),
            namespace=access.namespace_of(request), seq=seq or None, group=group if seq else None,
        ), 201)  # fmt: skip

    @handles(operations.FACTS)
    def find(self, request: Request) -> FactsAnswer:
        query: FactsQuery = request.query
        scope, entity = self._scope(request, query.user_id), request_codec.clean_text(query.entity, "entity")
        at = None if query.as_of is None else parse_bound(query.as_of, "as_of", "until", scope.now)
        found = self._facts.find(entity, scope, at=at, include_superseded=query.include_superseded)
        shown, more = page_behind(
            found, lambda each: (each.fact.valid_from, each.fact.id), query.cursor, query.limit, is_descending=True
        )
        return FactsAnswer(
            facts=self._views(shown), count=len(found), namespace=access.namespace_of(request),
            cursor=more, degraded=[] if self._facts.is_whole else ["facts"],
        )  # fmt: skip

    @handles(operations.FACT_GRAPH)
    def graph(self, request: Request) -> FactGraphAnswer:
        query: FactGraphQuery = request.query
        entity = request_codec.clean_text(query.entity, "entity")
        entities, found = self._facts.graph(entity, query.hops, self._scope(request, query.user_id))
        chains, is_whole = list(map(fact_chain_view, found.chains)), found.is_whole and self._facts.is_whole
        return FactGraphAnswer(
            entities=entities, chains=chains, is_whole=is_whole, namespace=access.namespace_of(request)
        )

    @handles(operations.FACT_CONFLICTS)
    def conflicts(self, request: Request) -> FactConflictsAnswer:
        query: FactConflictsQuery = request.query
        scope = self._scope(request, query.user_id)
        conflicts = self._conflicts(self._facts.conflicts(query.subject, query.predicate, scope), scope)
        return FactConflictsAnswer(conflicts=conflicts, namespace=access.namespace_of(request))

    @handles(operations.DECIDE_CONFLICT)
    async def decide(self, request: Request) -> Reply:
        asked: DecideConflictRequest = request.ask
        namespace = access.writable_namespace(request)
        scope = self._scope(request, asked.user_id)
        at = scope.now if asked.at is None else parse_bound(asked.at, "at", "until", scope.now)
        if asked.at is not None and asked.keep is None:
            raise bad_value("`at` is when the others ended: name the fact to `keep`", "at")
        found, seq = await self._workers.run(
            self._facts.decide, asked.facts, asked.keep, at, scope, access.caller_of(request)
        )
        await self._services.wait_until_open()
        return Reply(DecideConflictAnswer(facts=self._views(found), seq=seq or None, namespace=namespace))

    @handles(operations.FACT_HISTORY)
    def history(self, request: Request) -> FactHistoryAnswer:
        query: FactHistoryQuery = request.query
        found = self._facts.history(query.subject, query.predicate, self._scope(request, query.user_id))
        return FactHistoryAnswer(history=self._views(found), namespace=access.namespace_of(request))

    @handles(operations.DELETE_FACT)
    async def delete(self, request: Request) -> Reply:
        query: ScopedRequest = request.query
        fact_id, scope = request.path["id"], self._scope(request, query.user_id)
        seq = await self._workers.run(self._facts.delete, fact_id, scope, access.caller_of(request))
        await self._services.wait_until_open()
        return Reply(FactDeletedAnswer(deleted=1, id=fact_id, seq=seq or None))

    @property
    def _facts(self) -> FactService:
        return self._services.facts

    def _scope(self, request: Request, user_id: str | None) -> FactScope:
        namespaces = access.visible_namespaces(access.namespace_of(request))
        return FactScope(
            namespaces, user_id or "local", not access.hidden_tags(request), self._services.store.now()
        )  # fmt: skip

    def _views(self, listed: Sequence[ListedFact]) -> list[FactView]:
        with self._services.store.snapshot() as snapshot:
            return [
                _fact_view(each, is_doubtful=each.status == "open" and is_perhaps_outdated(each.fact.memory, snapshot))
                for each in listed
            ]

    def _conflicts(self, found: Sequence[Conflict], scope: FactScope) -> list[ConflictView]:
        return [
            ConflictView(
                subject=each.subject, predicate=each.predicate,
                facts=self._views(self._facts.listed(each.facts, scope, scope.now)),
            )
            for each in found
        ]  # fmt: skip

    def _read(self, request: Request, caller: Caller) -> tuple[list[Submission], list[tuple[str, StatedFact]]]:
        """The inserted facts: those that get a memory of their own, and those of existing ones, with their ids. Raises
        a Refusal."""
        asked: NewFacts = request.ask
        services, apart, attached = self._services, list[Submission](), list[tuple[str, StatedFact]]()
        for place, each in enumerate(asked.facts):
            at = f"facts[{place}]"
            valid_from = None if each.valid_from is None else parse_time(each.valid_from, f"{at}.valid_from")
            parts = {name: getattr(each, name) for name in ("subject", "predicate", "object")}
            texts = {name: " ".join(request_codec.clean_text(text, f"{at}.{name}").split())
                     for name, text in parts.items()}  # fmt: skip
            if empty := next((name for name, text in texts.items() if not text), None):
                raise bad_value(f"the {empty} of a fact is a text", f"{at}.{empty}")
            fact = StatedFact(**texts, valid_from=valid_from, method=SAID)
            memory = NewMemory(
                content=sentence_of(fact), source=SOURCE, user_id=asked.user_id,
                agent_id=UNSET if asked.agent_id is None else asked.agent_id,
                event_at=UNSET if valid_from is None else valid_from,
            )  # fmt: skip
            policy, now = services.secret_policy(), services.store.now()
            draft, masked = request_codec.draft_of(request, memory, policy, now)
            if masked or (each.memory_id is not None and SENSITIVE_TAG in draft.tags):
                raise Refusal(422, "refused", "the fact holds a secret: remember it as a text instead", field=at)
            if each.memory_id is not None:
                attached.append((services.memories.resolve(each.memory_id, caller, f"{at}.memory_id"), fact))
            else:
                apart.append(Submission(draft, infer=False, facts=(fact,)))
        return apart, attached


def _fact_view(listed: ListedFact, *, is_doubtful: bool) -> FactView:
    fact, state = listed.fact, listed.state
    return FactView(
        id=fact.id, memory_id=fact.memory, subject=fact.subject, predicate=fact.predicate, object=fact.object,
        status=listed.status, valid_from=fact.valid_from, valid_to=state.valid_to or None,
        superseded_by=state.superseded_by or None, conflicts_with=list(state.conflicts_with),
        perhaps_outdated=is_doubtful, namespace=fact.namespace, user_id=fact.user_id, created_at=fact.created_at,
        method=fact.method,
    )  # fmt: skip
