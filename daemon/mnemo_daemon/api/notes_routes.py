"""The routes about the watched folders of notes. SPEC 6, 13."""

import asyncio

import numpy as np

from mnemo_client.protocol import operations
from mnemo_client.protocol.memories import BulkDeleteAnswer
from mnemo_client.protocol.status import NewRootRequest, NotesRootStatus, NotesStatus, RootQuery
from mnemo_daemon.api import access, response_codec
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.indexing.index import INDEXED_CODES
from mnemo_daemon.lifecycle.profile_service import LISTED_STATES
from mnemo_daemon.mcp.resources import NotePassages
from mnemo_daemon.memories.memory_service import details_of, is_visible
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_store.records import TRUSTS

IDS_SHOWN = 500  # of the memories that went to the trash with a folder
RESCAN_SECONDS_MAX = 50.0  # how long a rescan is waited for; clients wait 60 s for an answer
RESCAN_POLL_SECONDS = 0.01


class NotesApi(Resource):
    """The handlers."""

    @handles(operations.NOTES_ROOTS)
    @handles(operations.NOTES_STATUS)
    async def notes_status(self, _: Request) -> Reply:
        return Reply(await self._workers.run(self._status))

    @handles(operations.ADD_ROOT)
    async def add_root(self, request: Request) -> Reply:
        asked: NewRootRequest = request.ask
        namespace = access.writable_namespace(request)
        return Reply(await self._workers.run(self._add_root, asked.path, namespace))

    @handles(operations.REMOVE_ROOT)
    async def remove_root(self, request: Request) -> Reply:
        query: RootQuery = request.query
        if (query.path is None) == (query.id is None):
            raise bad_value("give the folder's `path` or its `id`", "path")
        ids = await self._workers.run(self._services.notes.remove_root, query.id or query.path)
        return Reply(BulkDeleteAnswer(ids=ids[:IDS_SHOWN], deleted=len(ids)))

    @handles(operations.RESCAN)
    async def rescan(self, _: Request) -> Reply:
        services, loop = self._services, asyncio.get_running_loop()
        await self._workers.run(services.notes.rescan)
        deadline = loop.time() + RESCAN_SECONDS_MAX
        while not services.stopped.is_set() and loop.time() < deadline:
            if services.notes.wait_until_settled(0.0):
                break
            await asyncio.sleep(RESCAN_POLL_SECONDS)  # no thread waits here: recalls need those
        return Reply(await self._workers.run(self._status))

    async def passages(self, request: Request, path: str) -> NotePassages:
        """Return the passages of a note, by its absolute path, as far as the request sees them. Raises a Refusal with
        404."""
        await self._services.wait_until_open()
        return await self._workers.run(self._passages, request, path)

    def _passages(self, request: Request, path: str) -> NotePassages:
        services, caller = self._services, access.caller_of(request)
        namespaces = access.visible_namespaces(access.namespace_of(request))
        file_id = services.notes.find_file(path)
        with services.store.snapshot() as snapshot:
            file = snapshot.note(file_id) if file_id is not None else None
            found = [details_of(snapshot, memory) for chunk in (file.chunks if file is not None else ())
                     if (memory := snapshot.memory(chunk.memory)) is not None and memory.state in LISTED_STATES
                     and (not namespaces or memory.namespace in namespaces)]  # fmt: skip
        visible = [row for row in found if is_visible(row.memory, caller)]
        if not found:
            raise Refusal(404, "not_found", f"no watched folder has the note {path}", field="path")
        roots = services.root_paths()
        return NotePassages([response_codec.memory_view(row, roots) for row in visible], len(found) - len(visible))

    def _status(self) -> NotesStatus:
        return status_of_notes(self._services)

    def _add_root(self, path: str, namespace: str) -> NotesRootStatus:
        notes = self._services.notes
        root = notes.add_root(path, namespace)
        return next(row for row in notes.status().roots if row.id == root.id)


def status_of_notes(services: Services) -> NotesStatus:
    """The folders, and how many of their passages are found by meaning."""
    status, indexing = services.notes.status(), services.indexing
    trust, state = services.views.attributes.columns("trust", "state")
    passages = (trust == TRUSTS.index("note")) & np.isin(state, INDEXED_CODES)
    status.by_words_only = int(np.count_nonzero(passages)) - indexing.count_found(passages)
    status.seconds_left = indexing.progress().seconds_left if status.by_words_only else None
    return status
