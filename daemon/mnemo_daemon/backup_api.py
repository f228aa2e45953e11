"""The routes about the store as a whole: backup, compact. SPEC 3.8, 13."""

import asyncio
from pathlib import Path

from mnemo_client import care_protocol
from mnemo_daemon.app import Daemon
from mnemo_daemon.refusals import Refusal
from mnemo_daemon.routes import Reply, Request, Route
from mnemo_daemon.wire import trust_of


class BackupApi:
    """The handlers. Both take long: each has a thread of its own while it runs."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/v1/backup", self.back_up, care_protocol.BackupAnswer, "Copy the store, while it is in use",
                  ask=care_protocol.BackupRequest),
            Route("POST", "/v1/compact", self.compact, care_protocol.CompactAnswer,
                  "Give up room, and the history that `history.keep` does not ask for",
                  ask=care_protocol.CompactRequest),
        ]  # fmt: skip

    async def back_up(self, request: Request) -> Reply:
        await self._daemon.opened()
        refuse_agents(request)
        asked: care_protocol.BackupRequest = request.ask
        wanted = None if asked.folder is None else Path(asked.folder)
        folder, made = await asyncio.to_thread(self._daemon.upkeep.back_up, wanted)
        size = sum(file.bytes for file in made.files)
        return Reply(care_protocol.BackupAnswer(
            folder=str(folder), seq=made.seq, at=made.at, bytes=size, files=len(made.files),
            has_database=made.has_database,
        ))  # fmt: skip

    async def compact(self, request: Request) -> Reply:
        await self._daemon.opened()
        refuse_agents(request)
        asked: care_protocol.CompactRequest = request.ask
        done = await asyncio.to_thread(
            self._daemon.upkeep.compact, self._daemon.settings.history.keep, dry_run=asked.dry_run
        )
        sizes = self._daemon.store.disk_bytes()
        return Reply(care_protocol.CompactAnswer(
            versions=done.versions, history_from=done.history_from, dry_run=asked.dry_run,
            database_before=done.sizes.database_before if done.sizes else sizes["database"],
            database=done.sizes.database if done.sizes else sizes["database"],
            journal_before=done.sizes.journal_before if done.sizes else sizes["journal"],
            journal=done.sizes.journal if done.sizes else sizes["journal"],
        ))  # fmt: skip


def refuse_agents(request: Request) -> None:
    """What gives up history, drops memories for good, mends or copies everything is for a person to ask for."""
    if trust_of(request, None) != "user":
        raise Refusal(422, "refused", "only a person may ask for this: use the command line")
