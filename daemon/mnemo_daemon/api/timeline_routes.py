"""The route of the timeline: counts of memories by time. SPEC 13"""

from mnemo_client.protocol import operations
from mnemo_client.protocol.memories import TimelineAnswer, TimelineQuery
from mnemo_daemon.api import access, request_codec
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.memories.timeline import range_of, read_timeline
from mnemo_daemon.server.router import Request


class TimelineApi(Resource):
    """The handler."""

    @handles(operations.TIMELINE)
    def timeline(self, request: Request) -> TimelineAnswer:
        query: TimelineQuery = request.query
        now = self._services.store.now()
        wanted = request_codec.list_filter(request, query, now)
        span = range_of(wanted.since, wanted.until, query.step, now)
        self._services.priority.yield_to_queries()
        answer = read_timeline(self._services.views.attributes, wanted, query.by, query.step, span)
        answer.namespace = access.namespace_of(request)
        return answer
