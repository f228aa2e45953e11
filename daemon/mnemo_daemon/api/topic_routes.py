"""The routes of the tree of topics. SPEC 10.1, 13"""

from mnemo_client.protocol import operations
from mnemo_client.protocol.knowledge import (
    ExpandAnswer,
    ExpandRequest,
    MapAnswer,
    MapQuery,
    TopicMembersView,
    TopicsAnswer,
    TopicView,
)
from mnemo_daemon.api import access, response_codec
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.errors import bad_value
from mnemo_daemon.knowledge.map_pages import MapPages
from mnemo_daemon.knowledge.topic_trees import TopicMembers, TopicSummary
from mnemo_daemon.scheduler import LongOperation
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.table_walk import cursor_at, place_at
from mnemo_store.indexes.attributes import MemoryFilter


class TopicsApi(Resource):
    """The handlers."""

    @handles(operations.TOPICS)
    async def topics(self, request: Request) -> Reply:
        return Reply(await self._workers.run(self._listed, request, request.query.user_id))

    def _listed(self, request: Request, user_id: str | None) -> TopicsAnswer:
        namespace, trees = access.namespace_of(request), self._services.topic_trees
        found = trees.topics(
            user_id or "local", access.visible_namespaces(namespace), sees_sensitive=not access.hidden_tags(request)
        )
        return TopicsAnswer(topics=list(map(_view, found)), current=trees.is_current(), namespace=namespace)

    @handles(operations.MAP)
    def map(self, request: Request) -> MapAnswer:
        query: MapQuery = request.query
        wanted = MemoryFilter(
            namespaces=access.listed_namespaces(request), user_id=query.user_id or "local",
            without_tags=access.hidden_tags(request), now=self._services.store.now(),
        )  # fmt: skip
        self._services.priority.yield_to_queries()
        page = MapPages(self._services.views, self._services.topic_trees, self._services.memory_map)
        answer = page.read(wanted, query.limit, query.cursor)
        answer.namespace = access.namespace_of(request)
        return answer

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
        order = sorted(zip((-times).tolist(), ids, strict=True))
        after = place_at(asked.cursor)
        shown = [each for each in order if after is None or each > after]
        page, roots = shown[: asked.limit], services.root_paths()
        return TopicMembersView(
            id=topic_id, topic=found.topic and _view(found.topic), moved_to=list(found.moved_to),
            memories=[response_codec.memory_view(services.memories.get(each), roots) for _, each in page],
            cursor=cursor_at(page[-1]) if len(shown) > len(page) else None,
        )  # fmt: skip


def _view(topic: TopicSummary) -> TopicView:
    return TopicView(
        id=topic.id, name=topic.name, count=topic.member_count, parent=topic.parent or None, level=topic.level,
        method=topic.method, namespace=topic.namespace,
    )  # fmt: skip
