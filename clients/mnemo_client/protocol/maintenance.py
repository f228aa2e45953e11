"""What is asked of the store as a whole, and answered: forget, import, back up, compact, check, repair. SPEC 3, 13"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mnemo_client.protocol.memories import (
    AnswerBody,
    Category,
    ImportTool,
    Kind,
    Layer,
    Namespace,
    RequestBody,
    ShortText,
    State,
    Time,
)


class EraseFilter(RequestBody):
    """Which memories are to be forgotten: all that pass, in whatever state, of one namespace."""

    namespace: Namespace | None = None
    user_id: ShortText | None = None
    agent_id: ShortText | None = None
    run_id: ShortText | None = None
    session_id: ShortText | None = None
    kinds: list[Kind] = []
    categories: list[Category] = []
    layers: list[Layer] = []
    states: list[State] = []  # none: every state
    tags: list[str] = []  # all of them
    source: str | None = None
    speaker: str | None = None
    since: Time | None = None
    until: Time | None = None


class EraseRequest(RequestBody):
    """POST /v1/purge: `ids` or `filter`, not both."""

    ids: Annotated[list[str], Meta(max_length=10_000)] = []
    filter: EraseFilter | None = None
    dry_run: bool = False
    quoting: bool = False  # with the memories that say the whole of one of the texts
    everywhere: bool = False  # out of the backups and other copies of the store too, which are rewritten


class EraseOneRequest(RequestBody):
    """POST /v1/memories/{id}/purge."""

    dry_run: bool = False
    quoting: bool = False
    everywhere: bool = False


class SearchedPlace(AnswerBody):
    """Where traces were looked for. `place` is a path in the data folder, or "memory ID" for a memory that stays."""

    place: str
    state: Literal["clean", "removed", "still there"]
    detail: str = ""


class Quotation(AnswerBody):
    """A memory that stays and says the whole of a forgotten text, in the latest version that does."""

    id: str
    version: int
    excerpt: str


class ResidueSearch(AnswerBody):
    """The search of every file of the data folder, backups apart, for what only the forgotten memories had."""

    files: int = 0
    bytes: int = 0
    needles: int = 0  # texts, runs of five words and longer words that were looked for
    found: list[str] = []  # files that have any


class EraseAnswer(AnswerBody):
    """What forgetting came to, or would come to. `complete`: nothing of it is still there."""

    purged: list[str]  # ids that were asked for
    derived: list[str]  # what was derived from them and went with them
    rederive: dict[str, list[str]] = {}  # those of `derived` that had other sources too, and these: derive them anew
    revived: list[str] = []  # what was hidden for the sake of something that went, and is shown again
    mended: list[str] = []  # what stays and no longer names what went
    places: list[SearchedPlace] = []
    candidates: list[Quotation] = []  # what stays and quotes it: `quoting` takes these along
    backups: list[str] = []  # copies of the store that hold it; of a dry run, those that may
    searched: ResidueSearch = msgspec.field(default_factory=ResidueSearch)
    complete: bool = True
    dry_run: bool = False
    seconds: float = 0.0


class EmptyTrashAnswer(AnswerBody):
    """DELETE /v1/trash. Without `confirm` nothing is done, and `dropped` is what would be."""

    dropped: int
    bytes: int  # of their texts
    dry_run: bool = False


class ImportProblem(AnswerBody):
    """What of an import was passed over, and why."""

    place: str  # "line 3", "results[0]"
    why: str


class ImportAnswer(AnswerBody):
    """What an import came to, or would come to; the last line of the answer to POST /v1/import. Numbers of memories."""

    tool: ImportTool  # whose export it was; "mnemo" is our own
    group: str | None = None  # what `undo` takes back; null where nothing was written, or a whole store taken over
    whole: bool = False  # an empty store took over everything as it was, history and folders of notes included
    stored: int = 0
    duplicate: int = 0  # known already; nothing of it was changed
    updated: int = 0  # a new version of one that is known
    restored: int = 0  # known and in the trash: back from there
    older: int = 0  # known, and changed here since: left as it is
    forgotten: int = 0  # purged here: left out
    skipped: int = 0
    problems: list[ImportProblem] = []  # of the skipped, the first 100
    freed: int = 0  # chunks of notes that became memories of their own
    masked: dict[str, int] = {}  # kinds of secrets, and in how many memories
    users: dict[str, int] = {}  # whose memories they are, where not `local`
    not_kept: dict[str, int] = {}  # what of the export has no place here
    dry_run: bool = False


class ImportProgress(AnswerBody):
    """A line of the answer to POST /v1/import before the last one: how much is done, of how much."""

    progress: tuple[int, int]


class BackupRequest(RequestBody):
    """POST /v1/backup. `folder` is a whole path, new or empty; without it the data folder's `backups` gets one."""

    folder: str | None = None


class BackupAnswer(AnswerBody):
    """A copy of the store that was read back and found whole. Without a database it restores all but the vectors."""

    folder: str
    seq: int
    at: int
    bytes: int
    files: int
    has_database: bool


class CompactRequest(RequestBody):
    """POST /v1/compact."""

    dry_run: bool = False


class CompactAnswer(AnswerBody):
    """Earlier versions given up by `history.keep`, since when the history is kept (null: from the beginning), and bytes
    on the disk; those of a dry run are as they are."""

    versions: int
    history_from: int | None
    database_before: int
    database: int
    journal_before: int
    journal: int
    dry_run: bool = False


class ViolationView(AnswerBody):
    """Something that should hold and does not. `table` is the place of what is wrong, `subject` its id."""

    invariant: str
    table: str
    subject: str
    what: str
    mendable: bool  # by POST /v1/repair


class CheckAnswer(AnswerBody):
    """POST /v1/check."""

    ok: bool
    checked: dict[str, int]  # how much was looked at, by table or view
    totals: dict[str, int]  # violations, by invariant
    violations: list[ViolationView]  # of each invariant the first 100
    notes: list[str] = []  # what could not be checked, and why
    seconds: float = 0.0


class RepairRequest(RequestBody):
    """POST /v1/repair."""

    dry_run: bool = False


class RepairStep(AnswerBody):
    what: str
    why: str
    how_many: int


class RepairAnswer(AnswerBody):
    """What was done, or would be. `check` is the check that came last; `quarantine` names what was put there, below
    the data folder."""

    steps: list[RepairStep]
    check: CheckAnswer
    quarantine: list[str] = []
    dry_run: bool = False
