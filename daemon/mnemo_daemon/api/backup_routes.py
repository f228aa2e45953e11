"""The routes about the store as a whole: backup, compact. SPEC 3.9, 13."""

import asyncio
from pathlib import Path

from mnemo_client.protocol.maintenance import BackupAnswer, BackupRequest, CompactAnswer, CompactRequest
from mnemo_daemon.api.access import refuse_agents
from mnemo_daemon.server.router import Reply, Request, Route
from mnemo_daemon.services import Services


class BackupApi:
    """The handlers. Both take long: each has a thread of its own while it runs."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/v1/backup", self.create_backup, BackupAnswer,
                "Copy the store, while it is in use",
                  ask=BackupRequest),
            Route("POST", "/v1/compact", self.compact, CompactAnswer,
                  "Give up room, and the history that `history.keep` does not ask for",
                  ask=CompactRequest),
        ]  # fmt: skip

    async def create_backup(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        refuse_agents(request)
        asked: BackupRequest = request.ask
        wanted = None if asked.folder is None else Path(asked.folder)
        folder, made = await asyncio.to_thread(self._services.maintenance.back_up, wanted)
        size = sum(file.bytes for file in made.files)
        return Reply(BackupAnswer(
            folder=str(folder), seq=made.seq, at=made.at, bytes=size, files=len(made.files),
            has_database=made.has_database,
        ))  # fmt: skip

    async def compact(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        refuse_agents(request)
        asked: CompactRequest = request.ask
        done = await asyncio.to_thread(
            self._services.maintenance.compact, self._services.settings.history.keep, dry_run=asked.dry_run
        )
        sizes = self._services.store.disk_bytes()
        return Reply(CompactAnswer(
            versions=done.versions, history_from=done.history_from, dry_run=asked.dry_run,
            database_before=done.sizes.database_before if done.sizes else sizes["database"],
            database=done.sizes.database if done.sizes else sizes["database"],
            journal_before=done.sizes.journal_before if done.sizes else sizes["journal"],
            journal=done.sizes.journal if done.sizes else sizes["journal"],
        ))  # fmt: skip
