"""The routes of synchronisation. SPEC 13, 21"""

from collections.abc import Callable, Mapping
from pathlib import Path

from mnemo_client.protocol import operations
from mnemo_client.protocol.primitives import AnswerBody
from mnemo_client.protocol.synchronisation import (
    PairingAnswer,
    RemoveDeviceRequest,
    RenewKeyRequest,
    SyncAnswer,
    SyncDevice,
    SyncErasure,
    SyncRequest,
)
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_daemon.sync.cipher import SyncError


class SyncApi(Resource):
    """The handlers. An exchange can take minutes, and has a thread of its own."""

    def __init__(self, services: Services, workers: WorkerPool) -> None:
        super().__init__(services, workers)
        self._exchanger = WorkerPool(1, thread_name_prefix="mnemo-sync")
        self._has_run = False

    def close(self) -> None:
        """End the exchange under way before its next step."""
        if self._has_run:
            self._services.sync.stop()
        self._exchanger.close()

    @handles(operations.SYNC_STATUS)
    def status(self, request: Request) -> SyncAnswer:
        return self._answer()

    @handles(operations.SHARE)
    async def share(self, request: Request) -> Reply:
        return await self._run(self._shared, request.ask)

    async def _run(self, answer: Callable[..., AnswerBody], *asked: object) -> Reply:
        self._has_run = True
        return Reply(await self._exchanger.run(answer, *asked))

    @handles(operations.EXCHANGE)
    async def exchange(self, request: Request) -> Reply:
        return await self._run(self._exchanged)

    @handles(operations.INVITE)
    def invite(self, request: Request) -> PairingAnswer:
        return PairingAnswer(code=self._services.sync.pairing_code())

    @handles(operations.RENEW_KEY)
    async def renew_key(self, request: Request) -> Reply:
        return await self._run(self._renewed, request.ask)

    @handles(operations.REMOVE_DEVICE)
    async def remove(self, request: Request) -> Reply:
        return await self._run(self._removed, request.ask)

    @handles(operations.LEAVE)
    def leave(self, request: Request) -> SyncAnswer:
        self._services.sync.leave()
        return self._answer()

    def _shared(self, asked: SyncRequest) -> SyncAnswer:
        folder = Path(asked.folder)
        if not folder.is_absolute():
            raise bad_value("give the absolute path of the folder", "folder")
        if (asked.passphrase is None) == (asked.code is None):
            raise bad_value("give the `passphrase` of the folder or a pairing `code`", "passphrase")
        if asked.create and asked.code is not None:
            raise bad_value("a folder is made with a passphrase", "code")
        try:
            self._services.sync.begin(
                folder, passphrase=asked.passphrase or "", code=asked.code or "", name=asked.name or "",
                is_new=asked.create,
            )  # fmt: skip
            self._services.sync.exchange()
        except (SyncError, OSError) as error:
            raise Refusal(422, "refused", str(error), field="folder") from error
        return self._answer()

    def _exchanged(self) -> SyncAnswer:
        self._services.sync.require_shared()
        try:
            self._services.sync.exchange()
        except (SyncError, OSError) as error:
            raise Refusal(503, "write_failed", f"the exchange did not end: {error}", retry_after=60) from error
        return self._answer()

    def _renewed(self, asked: RenewKeyRequest) -> SyncAnswer:
        try:
            self._services.sync.renew_key(asked.code)
        except (SyncError, OSError) as error:
            raise Refusal(422, "refused", str(error), field="code") from error
        return self._exchanged()

    def _removed(self, asked: RemoveDeviceRequest) -> PairingAnswer:
        try:
            return PairingAnswer(code=self._services.sync.remove_device(asked.device, asked.passphrase))
        except (SyncError, OSError) as error:
            raise Refusal(422, "refused", str(error), field="device") from error

    def _answer(self) -> SyncAnswer:
        sync = self._services.sync
        state = sync.state
        if state is None:
            return SyncAnswer(shared=False, problem=sync.problem or None)
        return SyncAnswer(
            shared=True, folder=state.folder, device=state.device, problem=sync.problem or None,
            exchanged_at=sync.exchanged_at or None, unsent=sync.unsent(), runs_cycles=sync.runs_cycles(),
            devices=[
                SyncDevice(
                    id=each.device, name=each.name, is_this=each.device == state.device, removed=each.is_removed,
                    read=each.read, problem=each.problem or None, waiting=each.waiting or None,
                )
                for each in sync.devices()
            ],
            erasures=_erasures(sync.erasures(), sync.names()),
        )  # fmt: skip


def _erasures(found: Mapping[str, Mapping[str, bool]], names: Mapping[str, str]) -> list[SyncErasure]:
    """The erasures with the names of the devices."""
    return [
        SyncErasure(
            id=memory_id, done=[names.get(device, device) for device, is_done in devices.items() if is_done],
            waiting=[names.get(device, device) for device, is_done in devices.items() if not is_done],
        )
        for memory_id, devices in found.items()
    ]  # fmt: skip
