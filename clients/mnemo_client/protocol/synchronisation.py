"""The wire types of /v1 for several devices with one memory. SPEC 13, 21"""

from typing import Annotated

from msgspec import Meta

from mnemo_client.protocol.primitives import AnswerBody, RequestBody

SYNC_NAME_CHARACTERS_MAX = 64
SECRET_CHARACTERS_MAX = 1024

Passphrase = Annotated[str, Meta(min_length=1, max_length=SECRET_CHARACTERS_MAX, description="of the shared folder")]


class SyncRequest(RequestBody):
    """POST /v1/sync: share the store through a folder. With `create` the folder is made a shared one, else joined."""

    folder: Annotated[str, Meta(min_length=1, description="absolute path of a folder that all devices have")]
    passphrase: Passphrase | None = None
    code: Annotated[str, Meta(description="instead of the passphrase: what `mnemo sync invite` printed")] | None = None
    name: (
        Annotated[
            str, Meta(max_length=SYNC_NAME_CHARACTERS_MAX, description="of this device; else that of the machine")
        ]
        | None
    ) = None
    create: Annotated[bool, Meta(description="make the folder a shared one")] = False


class RemoveDeviceRequest(RequestBody):
    """POST /v1/sync/remove: read a device no more, and replace the key that it knows."""

    device: Annotated[str, Meta(min_length=1, description="id or name of the device")]
    passphrase: Annotated[Passphrase, Meta(description="new, for the devices that stay")]


class RenewKeyRequest(RequestBody):
    """POST /v1/sync/key: take the key that replaced the one that this device knows."""

    code: Annotated[str, Meta(description="the pairing code that `mnemo sync remove` printed")]


class SyncDevice(AnswerBody):
    """A device that shares the memory."""

    id: str
    name: str
    is_this: bool = False
    removed: bool = False
    read: int = 0  # entries of it that were merged here
    problem: str | None = None  # what of it cannot be read, and why
    waiting: str | None = None  # what of it has not arrived yet


class SyncErasure(AnswerBody):
    """A memory that was erased while the memory is shared: the devices that have done so, and those that have not said
    so yet."""

    id: str
    done: list[str]
    waiting: list[str]


class SyncAnswer(AnswerBody):
    """GET /v1/sync: whether and through which folder the store is shared, and how far each device was read."""

    shared: bool
    folder: str | None = None
    device: str | None = None  # id of this device
    problem: str | None = None  # why nothing can be exchanged
    exchanged_at: int | None = None  # ms: the last exchange without a problem
    unsent: int = 0  # changes that are not in the folder yet
    runs_cycles: bool = True  # this device consolidates; one at a time does
    devices: list[SyncDevice] = []
    erasures: list[SyncErasure] = []  # the latest last


class PairingAnswer(AnswerBody):
    """A pairing code, with which another device can join. Whoever has it can read the memory."""

    code: str
