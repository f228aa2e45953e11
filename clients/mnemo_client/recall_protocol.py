"""What is asked of recall, and what it answers. SPEC 7, 11, 13"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from mnemo_client.protocol import (
    Answer,
    Ask,
    Category,
    Kind,
    Layer,
    MemoryView,
    Namespace,
    ShortText,
    Time,
    Trust,
    Unit,
)  # fmt: skip

Ranker = Literal["auto", "words", "cosine"]
Mode = Literal["hybrid", "deterministic", "semantic"]  # of the ranker `hybrid`
Sort = Literal["score", "recent", "accessed"]
Preferences = Literal["first", "inline"]
Cut = Literal["none", "gap"]
TopK = Annotated[int, Meta(ge=1, le=100)]

TOP_K_DEFAULT = 5
TOKEN_BUDGET_DEFAULT = 2000


class RecallRequest(Ask):
    """POST /v1/recall. SPEC 7.1"""

    query: str
    top_k: TopK | None = None
    limit: TopK | None = None  # alias of top_k; both is an error
    offset: Annotated[int, Meta(ge=0, le=10_000)] = 0
    token_budget: Annotated[int, Meta(ge=1)] | UnsetType | None = UNSET  # null: none; absent: 2000
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
    ranker: Ranker = "auto"
    mode: Mode = "hybrid"
    recency_bias: Unit = 0.35
    semantic_weight: Unit = 0.5
    preferences: Preferences = "inline"
    cut: Cut = "none"
    expand: Literal["auto"] | bool = "auto"
    rerank: bool = False  # drops what does not bear on the question
    exact: bool = False
    as_of: Time | None = None  # what was known then; also a span back from now: 2h, 3d
    dry: bool = False
    explain: bool = False
    highlight: bool = False  # adds `best` to each: the sentence that answers best, the query's words marked
    now: Time | None = None


class BestSentence(Answer):
    """The sentence of a memory that answers best, and where the query's words stand in it (character offsets)."""

    text: str
    marks: list[tuple[int, int]]
    line: int | None = None  # of the note, where the memory is a chunk of one


class RecalledMemory(MemoryView, kw_only=True):
    score: float = 0.0
    channels: list[str] = []
    best: BestSentence | None = None
    was: bool = False  # an older value of the one before it


class RecallAnswer(Answer):
    memories: list[RecalledMemory]
    total_tokens: int
    budget_used: float | None
    total: int  # candidates left after filters, floor and min_score; before offset and top_k
    ranker: str
    namespace: str
    degraded: list[str] = []
    mode: str | None = None  # that was used, by the ranker `hybrid`
    expanded: list[str] = []  # the words that were added to the query
    abstained: bool = False  # nothing that was found is near enough to be an answer
    took_ms: float = 0.0
    trace: dict[str, Any] | None = None


class SearchAnswer(Answer):
    """GET /v1/search and /v1/recent."""

    memories: list[RecalledMemory]
    total: int
    namespace: str = "default"
    degraded: list[str] = []
    cursor: str | None = None  # of /v1/recent: where to go on; null at the end


class ContextRequest(Ask):
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


class ContextAnswer(Answer):
    block: str  # empty when nothing was found
    total_tokens: int
    memories: list[str]
    namespace: str = "default"
    degraded: list[str] = []
    cut: bool = False  # lines were left out for `max_chars`, or nothing that was found fits the token budget
