"""What is asked of the store as a whole, and answered: forget, import, back up, compact, check, repair. SPEC 3, 13"""

from mnemo_client.protocol.choices import ImportTool
from mnemo_client.protocol.primitives import AnswerBody, RequestBody


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
