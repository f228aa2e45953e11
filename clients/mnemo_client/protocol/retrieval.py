"""What is asked of recall, and what it answers. SPEC 7, 11, 13"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from mnemo_client.protocol.choices import (
    Category,
    Cut,
    GroupBy,
    Kind,
    Layer,
    Mode,
    Preferences,
    Ranker,
    Sort,
    Trust,
    Verdict,
)
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.primitives import AnswerBody, Namespace, RequestBody, ShortText, Time, Unit

TopK = Annotated[int, Meta(ge=1, le=100)]


class RecallRequest(RequestBody):
    """POST /v1/recall. SPEC 7.1"""

    query: str
    top_k: TopK | None = None
    limit: TopK | None = None  # alias of top_k; both is an error
    offset: Annotated[int, Meta(ge=0, le=10_000)] = 0
    token_budget: Annotated[int, Meta(ge=1)] | UnsetType | None = UNSET  # null: none; absent: the default, 2000
    namespace: Namespace | None = None
    user_id: ShortText | None = None
    agent_id: ShortText | None = None
    run_id: ShortText | None = None
    session_id: ShortText | None = None
    kinds: list[Kind] = []
    categories: list[Category] = []
    layers: list[Layer] = []
    tags: list[str] = []  # all of them
    source: str | None = None
    speaker: str | None = None
    trust_min: Trust | None = None
    since: Time | None = None
    until: Time | None = None
    min_importance: Unit | None = None
    min_score: Unit | None = None
    sort: Sort = "score"
    include_compressed: bool = False
    include_superseded: bool = False
    include_discarded: bool = False
    ranker: Ranker | None = None  # None, here and below: the namespace's profile, else the [recall] settings
    mode: Mode = "hybrid"
    recency_bias: Unit = 0.35
    semantic_weight: Unit = 0.5
    preferences: Preferences | None = None
    cut: Cut | None = None
    group_by: GroupBy | None = None  # one hit for each file of notes: its best passage
    expand: Literal["auto"] | bool = "auto"
    rerank: bool | None = None  # drops what does not bear on the question
    exact: bool = False
    as_of: Time | None = None  # what was known then; also a span back from now: 2h, 3d
    dry: bool = False
    explain: bool = False
    highlight: bool = False  # adds `best` to each: the sentences that answer best, the query's words marked
    now: Time | None = None


class BestSentence(AnswerBody):
    """The sentences of a memory that answer best, and where the query's words stand in them (character offsets)."""

    text: str
    marks: list[tuple[int, int]]
    line: int | None = None  # of the best sentence in the note, where the memory is a chunk of one


class RecalledMemory(MemoryView, kw_only=True):
    score: float = 0.0
    channels: list[str] = []
    best: BestSentence | None = None
    was: bool = False  # an older value of one before it
    preference: bool = False  # it stands ahead whatever was asked, beside `top_k`
    content_cut: bool = False  # `content` has only the lines around the best sentence: the whole exceeds the budget
    others: int = 0  # with `group_by`: further passages of the same note that were found


class FilterCount(AnswerBody):
    """What one filter left out. reason: the parameter's name (`namespace`, `kinds`, `since` …), a state (`trashed`,
    `superseded` …), `expired`, or `working`. wants: what would have passed, in words."""

    reason: str
    count: int
    wants: str


class ChannelHit(AnswerBody):
    """`score`: BM25 of `words`, the cosine of `vectors`; null of `neighbours` and `core`, which have none."""

    id: str
    rank: int
    score: float | None


class ChannelTrace(AnswerBody):
    """What one channel found, best first: `words`, `vectors`, `neighbours` of the best in session or note, or `core`
    memories."""

    name: str
    found: int
    hits: list[ChannelHit]


class CandidateTrace(AnswerBody):
    """All that is known of one candidate. `features` are those of the ranker that was used, `adds` what each adds."""

    id: str
    rank: int | None  # in the order that was asked for, from 1; null: it has no place, see `dropped`
    score: float
    relevance: float  # how well it fits, the same whatever the ranker
    similarity: float | None  # cosine; null: it has no vector yet
    words: float  # BM25
    importance: float
    channels: list[str]
    features: dict[str, float | None]
    adds: dict[str, float]
    holds: list[str]  # the question's words that it has
    why: list[str]  # the strongest reasons for its place, in words
    answer: int | None = None  # its place in this answer, from 1
    dropped: str | None = None  # why it is not in this answer
    cut: dict[str, float] = {}  # what `cut: gap` goes by


class RecallTrace(AnswerBody):
    """How an answer came about. SPEC 7.7"""

    memories: int  # that there are, in whatever state
    left_out: list[FilterCount]  # of those, by the first filter that each did not pass
    in_question: int  # what is left
    words: list[str]  # of the question, that were looked for
    channels: list[ChannelTrace]
    candidates: list[CandidateTrace]  # by rank, then those that have none
    dropped: dict[str, int]  # how many candidates are not in the answer, by why
    stages_ms: dict[str, float]
    uncompared: int = 0  # pairs of near answers that were too large together to be compared for being copies


class RecallAnswer(AnswerBody):
    memories: list[RecalledMemory]
    total_tokens: int
    budget_used: float | None
    total: int  # candidates left after filters, floor and min_score; before offset and top_k
    ranker: str
    namespace: str
    degraded: list[str] = []
    mode: str | None = None  # that was used, by the rankers `hybrid` and `rerank`
    expanded: list[str] = []  # the words that were added to the query
    abstained: bool = False  # nothing that was found is near enough to be an answer
    needs_tokens: int | None = None  # where nothing fits `token_budget` whole: what would have been enough
    took_ms: float = 0.0
    trace: RecallTrace | None = None


class SearchAnswer(AnswerBody):
    """GET /v1/search and /v1/recent."""

    memories: list[RecalledMemory]
    total: int
    namespace: str = "default"
    degraded: list[str] = []
    cursor: str | None = None  # of /v1/recent: where to go on; null at the end


class ContextRequest(RequestBody):
    """POST /v1/context: the `<memory>` block to put before a prompt. SPEC 11 [L 4]"""

    query: str
    top_k: TopK | None = None
    token_budget: Annotated[int, Meta(ge=1)] | UnsetType | None = UNSET
    max_chars: Annotated[int, Meta(ge=1)] | None = None
    namespace: Namespace | None = None
    user_id: ShortText | None = None
    session_id: ShortText | None = None
    dates: Literal["episodic", "all", "none"] = "all"
    ids: bool = False
    tags: list[str] = []
    preferences: Preferences = "first"
    cut: Cut = "gap"


class ContextAnswer(AnswerBody):
    block: str  # empty when nothing was found
    total_tokens: int
    memories: list[str]
    namespace: str = "default"
    degraded: list[str] = []
    cut: bool = False  # lines were left out for `max_chars`, or nothing that was found fits the token budget
    abstained: bool = False  # nothing that was found is near enough to be an answer


class WhyRequest(RecallRequest, kw_only=True):
    """POST /v1/why: the parameters of a recall, and the memory that is asked about. SPEC 7.7"""

    id: str


class FailedFilter(AnswerBody):
    """A filter that the memory did not pass: what was wanted, and what it has."""

    reason: str
    wanted: str
    has: str


class ChannelRank(AnswerBody):
    """How one channel sees the memory among all in question: its score, and the place it has or would have had.

    Null where it has none: no word of the question in it, no vector yet.
    """

    name: str
    found: bool
    score: float | None
    rank: int | None
    looked_at: int  # how many the channel passed on


class WhyAnswer(AnswerBody):
    """Why a memory was, or was not, among the answers. `sentence` says it in words."""

    id: str
    verdict: Verdict
    reason: str | None  # as in the trace: a filter, `near_copy`, `over_budget`, …
    sentence: str
    hurdles: list[FailedFilter]  # every filter that it did not pass
    holds: list[str]  # the question's words that it has
    missing: list[str]  # and those that it has not
    channels: list[ChannelRank]
    candidate: CandidateTrace | None = None  # where it was found
    last: CandidateTrace | None = None  # the last that made it, where this one did not
    instead: str | None = None  # the id of the answer that it is a copy or an older value of
    tokens: int | None = None  # of its content, where the budget kept it out
    answers: int = 0  # how many there were
    ranker: str = "auto"
    namespace: str = "default"
    degraded: list[str] = []
    took_ms: float = 0.0
