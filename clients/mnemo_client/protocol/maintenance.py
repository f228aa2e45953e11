"""The wire types of /v1 for the whole store: import, backup, compact, check, repair; and for several devices that
share it. SPEC 3, 13, 21"""

from typing import Annotated

from msgspec import Meta

from mnemo_client.protocol.choices import ImportTool, TurnRole
from mnemo_client.protocol.primitives import AnswerBody, Namespace, RequestBody


class ImportProblem(AnswerBody):
    """A row that an import skipped, and why."""

    place: str  # "line 3", "results[0]"
    why: str


class ImportExample(AnswerBody):
    """A turn that an import would store; `text` is its beginning."""

    session_id: str
    role: TurnRole
    at: int
    text: str


class ImportAnswer(AnswerBody):
    """The result of an import or of its dry run, in numbers of memories; the last line of the answer to POST
    /v1/import."""

    tool: ImportTool  # the tool that made the export
    group: str | None = None  # the group for `undo`; null if nothing was written, or a whole store restored
    whole: bool = False  # an empty store was restored as it was, with history and folders of notes
    stored: int = 0
    duplicate: int = 0  # already known, not changed
    updated: int = 0  # a new version of a known memory
    restored: int = 0  # known, and restored from the trash
    older: int = 0  # known, and changed here since: not changed
    forgotten: int = 0  # erased here: not imported
    skipped: int = 0
    problems: list[ImportProblem] = []  # of the skipped, the first 100
    freed: int = 0  # chunks of notes that became independent memories
    masked: dict[str, int] = {}  # kinds of secrets, with their numbers of memories
    users: dict[str, int] = {}  # users other than `local`, with their numbers of memories
    not_kept: dict[str, int] = {}  # parts of the export that cannot be stored
    conversations: int = 0  # with turns that were stored
    left_out: dict[str, int] = {}  # parts of conversations that were not stored, by reason
    first_at: int | None = None  # ms: the time of the first turn that was stored
    last_at: int | None = None
    examples: list[ImportExample] = []  # of a dry run
    dry_run: bool = False


class ImportProgress(AnswerBody):
    """A line of the answer to POST /v1/import before the last one: done, total."""

    progress: tuple[int, int]


class BackupRequest(RequestBody):
    """POST /v1/backup. `folder` is an absolute path, new or empty; null: a new folder in the data folder's
    `backups`."""

    folder: str | None = None


class BackupAnswer(AnswerBody):
    """A copy of the store that was read back and verified. Without a database it restores everything but the
    vectors."""

    folder: str
    seq: int
    at: int
    bytes: int
    files: int
    has_database: bool


class ResetRequest(RequestBody):
    """POST /v1/reset: empty the store, after a backup; without `confirm` only report what would be removed."""

    confirm: bool = False


class ResetAnswer(AnswerBody):
    """The number of memories removed, or that would be; the backup that has them, and the number of watched folders,
    whose notes are read again."""

    memories: int
    roots: int
    dry_run: bool
    backup: BackupAnswer | None = None  # null for a dry run


class CompactRequest(RequestBody):
    """POST /v1/compact."""

    dry_run: bool = False


class CompactAnswer(AnswerBody):
    """The number of earlier versions removed by `history.keep`, the time from which history is kept (null: all of it),
    and bytes on disk; those of a dry run are the present ones."""

    versions: int
    history_from: int | None
    database_before: int
    database: int
    journal_before: int
    journal: int
    dry_run: bool = False


class ViolationView(AnswerBody):
    """A violated invariant. `table` is the place of the fault, `subject` its id."""

    invariant: str
    table: str
    subject: str
    what: str
    mendable: bool  # by POST /v1/repair


class CheckAnswer(AnswerBody):
    """POST /v1/check."""

    ok: bool
    checked: dict[str, int]  # numbers of checked rows, by table or index
    totals: dict[str, int]  # violations, by invariant
    violations: list[ViolationView]  # the first 100 of each invariant
    notes: list[str] = []  # what could not be checked, and why
    seconds: float = 0.0


class ExposedSecret(AnswerBody):
    """A memory that agents see and that seems to hold a secret: which and of what sort, never the secret."""

    id: str
    kinds: list[str]


class ExposureAnswer(AnswerBody):
    """GET /v1/exposure."""

    read: int  # memories that agents see
    total: int  # of them with a secret
    memories: list[ExposedSecret]  # the first 100


class RepairRequest(RequestBody):
    """POST /v1/repair."""

    dry_run: bool = False


class RepairStep(AnswerBody):
    what: str
    why: str
    how_many: int


class RepairAnswer(AnswerBody):
    """The steps of a repair or of its dry run. `check` is the check after them; `quarantine` names the files that were
    moved there, relative to the data folder."""

    steps: list[RepairStep]
    check: CheckAnswer
    quarantine: list[str] = []
    dry_run: bool = False


class ExportQuery(RequestBody):
    """GET /v1/export."""

    namespace: Namespace | None = None
    history: bool = True
    vectors: Annotated[bool, Meta(description="with the vectors of the model in use")] = False


class ImportQuery(RequestBody, rename={"tool": "from"}):
    """POST /v1/import."""

    tool: Annotated[ImportTool | None, Meta(description="the tool that made it, if it is not recognized")] = None
    namespace: Namespace | None = None
    user_id: Annotated[
        Annotated[str, Meta(min_length=1, max_length=128)] | None,
        Meta(description="the user who gets the memories, whatever the export says"),
    ] = None
    allow_forgotten: Annotated[bool, Meta(description="also import memories that were erased here")] = False
    dry_run: bool = False
    group: Annotated[str, Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")] | None = None


# Several devices. SPEC 21


SYNC_NAME_CHARACTERS_MAX = 64
SECRET_CHARACTERS_MAX = 1024

Passphrase = Annotated[str, Meta(min_length=1, max_length=SECRET_CHARACTERS_MAX, description="of the shared folder")]


class SyncRequest(RequestBody):
    """POST /v1/sync: share the store through a folder. With `create` the folder is made a shared one, else joined."""

    folder: Annotated[str, Meta(min_length=1, description="absolute path of a folder that all devices have")]
    passphrase: Passphrase | None = None
    code: Annotated[str, Meta(description="a pairing code instead of the passphrase")] | None = None
    name: (
        Annotated[
            str,
            Meta(
                max_length=SYNC_NAME_CHARACTERS_MAX,
                description="the name of this device, for people; default: that of the machine",
            ),
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
