"""The wire types of /v1 for the daemon and its parts: state, notes, models and their use, jobs, settings."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from mnemo_client.protocol.choices import DaemonState
from mnemo_client.protocol.lifecycle import CycleView
from mnemo_client.protocol.primitives import API_VERSION, AnswerBody, Namespace, RequestBody, Time


class ModelStatus(AnswerBody):
    """The state of a model: absent (none is installed), loading, ready, or failed (see `reason`)."""

    name: str | None
    state: Literal["absent", "loading", "ready", "failed"]
    dimensions: int | None = None
    reason: str | None = None
    hint: str | None = None
    form: str | None = None  # of an embedding model that is ready: int8, float32, fastembed or gguf


class ViewStatus(AnswerBody):
    """The state of an index: `lag` in changes behind the store, `lag_seconds` since the oldest one that is not
    applied."""

    state: Literal["ready", "building", "catching_up", "stale", "off"]
    applied_seq: int
    lag: int
    lag_seconds: float
    items: int
    share: float  # the part of its memories that it has, 0 to 1
    reason: str | None = None
    rate: float | None = None  # items a second, while `vectors` are computed
    seconds_left: float | None = None  # for the waiting items, at that rate


class ThreadStatus(AnswerBody):
    """A background thread of the daemon. `failing`: it was restarted, and has not completed a round since."""

    failing: bool
    restarts: int
    last_failure: str | None = None
    failed_at: int | None = None


class NotesRootStatus(AnswerBody):
    id: str
    path: str
    namespace: str
    state: Literal["watching", "polling", "scanning", "missing", "paused"]
    files: int
    chunks: int
    waiting: int  # files that are not read yet
    last_scan_at: int | None = None
    reason: str | None = None


class SkippedFile(AnswerBody):
    path: str
    reason: str


class NotesStatus(AnswerBody):
    roots: list[NotesRootStatus]
    by_words_only: int = 0  # passages that are not found by their vectors yet
    seconds_left: float | None = None  # until they are, at the present rate; null where none waits or none is known
    skipped: list[SkippedFile] = []  # the first 100: unreadable files, then other kinds of files, then `left_out`
    skipped_total: int = 0  # without `left_out`
    skipped_by_reason: dict[str, int] = {}  # the 50 commonest; other kinds of files as of the last scan
    left_out: int = 0  # files and folders that an ignore file or a default rule excludes


class NewRootRequest(RequestBody):
    """POST /v1/notes/roots."""

    path: str
    namespace: Namespace | None = None


class LifecycleStatus(AnswerBody):
    """`last_cycle` is the newest one, which may have been undone. `reason`: why the next one waits or fails.
    `proposals`: operations that wait for a person."""

    last_cycle: CycleView | None = None
    reason: str | None = None
    proposals: int = 0


class NetworkStatus(AnswerBody):
    """`blocked`: the kernel refuses the daemon and its children every socket but Unix sockets, as an attempt at the
    start has shown. `reason`: why it does not."""

    blocked: bool
    reason: str | None = None


class StatusAnswer(AnswerBody):
    """GET /v1/status: the state of every part."""

    state: DaemonState
    reasons: list[str]
    version: str
    pid: int
    started_at: int
    data_dir: str
    socket: str
    memories: int  # active and archived
    by_state: dict[str, int]
    namespaces: dict[str, int]
    trash: dict[str, int]  # count, bytes
    seq: int
    models: dict[str, ModelStatus]  # embedding, llm, reader (of answers)
    views: dict[str, ViewStatus]  # columns, words, vectors, and tokens where the model has late interaction
    notes: NotesStatus
    queue: dict[str, int]  # writes; `vectors`: memories without one; `comparisons`: changes whose texts have their
    # vectors, and are not yet compared with earlier memories
    disk: dict[str, int]  # bytes by part, and free
    sizes: dict[str, int] = {}  # bytes of tables and files: database/memories, journal/…, views/words.view
    memory_private_bytes: int = 0
    uptime_seconds: float = 0.0
    protocol: str = API_VERSION
    threads: dict[str, ThreadStatus] = {}  # by name, once the store is open
    lifecycle: LifecycleStatus | None = None  # once the store is open
    network: NetworkStatus | None = None


class SiteGrade(AnswerBody):
    """Grade of a language model for a task: the small cases that it got `right`, null while it was not tried on all."""

    site: str
    of: int
    right: int | None = None
    passed: bool | None = None


class CatalogueModel(AnswerBody):
    name: str
    role: Literal["embedding", "llm", "reranker", "multilingual"]
    bytes: int
    licence: str
    sha256: str
    sources: list[str]
    installed: bool
    in_use: bool
    dimensions: int | None = None
    path: str | None = None
    grades: list[SiteGrade] = []  # of an installed language model
    languages: str = ""  # of the texts that an embedding model or cross-encoder is made for; empty: not known
    tokens_max: int | None = None  # of a text that it takes at once; more is cut into windows
    calibrated: bool | None = None  # of an embedding model: its similarity thresholds were measured
    verified: bool | None = None  # of an installed model: every hash was known before it was fetched


class ModelsAnswer(AnswerBody):
    models: list[CatalogueModel]
    embedding: ModelStatus
    llm: ModelStatus


class UseModelRequest(RequestBody):
    name: str


class ReindexRequest(RequestBody):
    dry_run: bool = False
    force: Annotated[bool, Meta(description="compute every vector again, even those that are there")] = False
    batch_size: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None, Meta(description="number of texts in a batch; default: 64")
    ] = None


class ReindexAnswer(AnswerBody):
    """The numbers of memories with a vector, and of memories that were queued, or would be."""

    total: int
    with_vectors: int
    queued: int
    dimensions: int | None
    dry_run: bool = False


class ConfigValue(AnswerBody):
    key: str
    value: Any
    origin: str  # "default", "FILE:LINE", or the environment variable's name


class ConfigAnswer(AnswerBody):
    values: list[ConfigValue]
    file: str


class HealthAnswer(AnswerBody):
    ok: bool
    state: DaemonState
    version: str


class JobStatus(AnswerBody):
    """A background job. It waits on battery or a busy machine where it is heavy; after a failure it is tried again."""

    name: str
    summary: str
    state: Literal["idle", "running", "waiting", "failing"]
    reason: str | None  # why it waits or fails
    slice: str  # what one run of it does at most before others have their turn
    heavy: bool
    runs: int  # since the start of the daemon, that were finished
    slices: int
    started_at: int | None  # the last run
    finished_at: int | None
    next_at: int | None = None  # null: when there is work, or as soon as it can
    failures: int = 0  # in a row
    last_failure: str | None = None
    failed_at: int | None = None


class OperationView(AnswerBody):
    """A long request under way. Its steps follow each other; `done` and `total` count what the step works on."""

    # Of the request: audit, backup, check, compact, compress, consolidate, export, forget, import, reindex, repair,
    # reset, topics, trash empty
    name: str
    step: str
    done: int
    total: int  # 0: not known
    started_at: int
    seconds: float  # since then
    rate: float | None = None  # of `done`, a second
    seconds_left: float | None = None  # of the step


class JobsAnswer(AnswerBody):
    """GET /v1/jobs."""

    jobs: list[JobStatus]
    operations: list[OperationView] = []
    last_cycle: CycleView | None = None  # of the job `consolidation`, or on request


class LlmUsage(AnswerBody):
    """The calls of one task with one model: how many, what they came to, and their sums of tokens and time.

    Outcomes: `answered` (used), `rejected` by the validation, `unusable` (not of the form), `late`, `cancelled`,
    `too_long`, `failed`. Rejections, by kind: the answer has a value that its sources lack (`unsupported name`), they
    have one that it lacks (`lost number`), or `other`.
    """

    site: str
    model: str
    calls: int = 0
    outcomes: dict[str, int] = {}
    rejections: dict[str, int] = {}
    tokens_in: int = 0
    tokens_out: int = 0
    milliseconds: int = 0
    last_at: int = 0


class LlmUsageAnswer(AnswerBody):
    since: int
    usage: list[LlmUsage]


class LlmUsageQuery(RequestBody):
    """GET /v1/llm/usage."""

    since: Annotated[Time | None, Meta(description="only calls since: 2026-05-01 or 3d")] = None


class StatsQuery(RequestBody):
    """GET /v1/stats: the last days that have values."""

    days: Annotated[int, Meta(ge=1, le=366)] = 366


class DailyValuesView(AnswerBody):
    """A day of the daemon's local time. The values are those of `at`, the last time on it that they were taken; the
    times of recalls are known to 5%."""

    day: str  # 2026-05-14
    at: int
    memories: int  # active and archived
    disk: dict[str, int]  # bytes by part, and free
    recalls: int
    recall_ms_median: float | None = None  # null: no recalls
    recall_ms_p95: float | None = None


class StatsAnswer(AnswerBody):
    """GET /v1/stats: the oldest day first; today's values are those of now. Days without a daemon are absent."""

    days: list[DailyValuesView]


class RootQuery(RequestBody):
    """DELETE /v1/notes/roots: by its path or its id."""

    path: str | None = None
    id: str | None = None


class ShutdownAnswer(AnswerBody):
    """The process that stops once it has answered."""

    pid: int
