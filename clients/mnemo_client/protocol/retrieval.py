"""The wire types of /v1 for recall, search, context and why. SPEC 7, 11, 13"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mnemo_client.protocol.choices import (
    Cut,
    GroupBy,
    Mode,
    Preferences,
    Ranker,
    Sort,
    TimeOrder,
    TimeReading,
    Trust,
    Verdict,
)
from mnemo_client.protocol.memories import AsOf, FilterParameters, MemoryView, Since, TagFilter, Until
from mnemo_client.protocol.primitives import AnswerBody, Question, ScopedRequest, ShortText, Time, Unit

TopK = Annotated[int, Meta(ge=1, le=100)]
TimeAsk = Annotated[
    TimeReading,
    Meta(
        description="auto: a time that the question names ranks what lies in it first (default), unless `since` or "
        "`until` does; off: it is words like others"
    ),
]
PREFERENCES_MEANING = (
    "first: a person's instructions on how to do things come first, for every question and in addition to the results, "
    "up to 5 in a quarter of the budget; inline: by their score"
)
CUT_MEANING = "gap: only what is close enough to be an answer (of `mnemo` the default); none: the best N, however close"
Dry = Annotated[bool, Meta(description="do not count this as a use of the results; `as_of` and `explain` never do")]


class RecallParameters(FilterParameters, kw_only=True):
    """The parameters that a recall and a context block have in common. SPEC 7.1"""

    top_k: Annotated[
        TopK | None,
        Meta(description="number of results; default: the profile's, else 5, or 20 where the question asks for a list"),
    ] = None
    limit: TopK | None = None  # alias of top_k; both is an error
    offset: Annotated[
        Annotated[int, Meta(ge=0, le=10_000)],
        Meta(description="skip the first N, preferences not counted: continuing by the number received repeats none"),
    ] = 0
    # Tokens of all contents together; null: no limit; absent: the profile's, else 2000. A memory that does not fit is
    # skipped in favour of later ones.
    token_budget: Annotated[int, Meta(ge=1)] | UnsetType | None = UNSET
    trust_min: Annotated[
        Trust | None, Meta(description="only memories of at least this trust: user > note > agent > import > tool")
    ] = None
    min_importance: Annotated[
        Unit | None,
        Meta(
            description="only memories of at least this importance, 0 to 1; default: the profile's, else 0, and 0.2 "
            "for what nobody asked to be stored"
        ),
    ] = None
    min_score: Annotated[
        Unit | None,
        Meta(description="only results of at least this score as it is shown, 0 to 1; null: the profile's, else 0"),
    ] = None
    sort: Annotated[
        Sort, Meta(description="the order: by score, by when it happened, or by the last use, the newest first")
    ] = "score"
    include_compressed: Annotated[bool, Meta(description="also what a summary has replaced")] = False
    include_superseded: Annotated[bool, Meta(description="also what a newer memory has replaced")] = False
    include_discarded: Annotated[bool, Meta(description="also what ingestion rejected")] = False
    ranker: Annotated[
        Ranker | None, Meta(description="how to rank the results; default: as the profile says, else the settings")
    ] = None
    mode: Annotated[Mode, Meta(description="of the ranker hybrid: both of its parts, or only one")] = "hybrid"
    recency_bias: Annotated[
        Unit, Meta(description="of the rankers deterministic and hybrid: the weight of recency, 0 to 1")
    ] = 0.35
    semantic_weight: Annotated[Unit, Meta(description="of the ranker hybrid: the weight of the vectors, 0 to 1")] = 0.5
    group_by: Annotated[
        GroupBy | None, Meta(description="one result for each note, its best passage; `others` counts the rest")
    ] = None
    # auto: where hardly anything was found, also search for words of the best hits; true: also for phrasings that a
    # language model writes. `expanded` names them.
    expand: Literal["auto"] | bool = "auto"
    rerank: Annotated[
        bool | None,
        Meta(
            description="judge each result by itself, and drop what does not bear on the question: by the language "
            "model, which then also orders the results, else by the measure of `cut`"
        ),
    ] = None
    exact: Annotated[bool, Meta(description="compare with every vector instead of those that the index proposes")] = (
        False
    )
    time: TimeAsk = "auto"
    as_of: AsOf = None
    dry: Dry = False
    now: Annotated[
        Time | None,
        Meta(description="rank as if it were this time: 2026-05-01T18:30, or ms since 1970; default: now, or `as_of`"),
    ] = None


class RecallRequest(RecallParameters):
    """POST /v1/recall. SPEC 7.1"""

    query: Question
    default_top_k: TopK | None = None  # instead of the default of top_k; a query that asks for a list may get more
    preferences: Annotated[Preferences | None, Meta(description=PREFERENCES_MEANING)] = None
    cut: Annotated[Cut | None, Meta(description=CUT_MEANING)] = None
    explain: Annotated[bool, Meta(description="show how each result was ranked: `trace`")] = False
    highlight: bool = False  # add `best`: the sentences that answer best, with the query's words marked


class BestSentence(AnswerBody):
    """The sentences of a memory that answer best, with the offsets of the query's words in characters."""

    text: str
    marks: list[tuple[int, int]]
    line: int | None = None  # of the best sentence in the note, where the memory is a chunk of one


class QuestionTimeView(AnswerBody):
    """The time that a question names, as the daemon read it. Times are in ms; null: open on that side.

    Both `from` and `until` are null where the question names only an order: "when did I last …".
    """

    begin: Annotated[int | None, Meta(description="the first moment of the time")] = msgspec.field(
        name="from", default=None
    )
    until: Annotated[int | None, Meta(description="the end of the time, which is not part of it")] = None
    words: Annotated[str, Meta(description="the words of the question that name it")] = ""
    order: Annotated[TimeOrder, Meta(description="the order that the question asks for")] = ""
    within: Annotated[int, Meta(description="the results that lie in the time")] = 0
    of: Annotated[int, Meta(description="the memories in scope that lie in the time")] = 0
    before: Annotated[int | None, Meta(description="with none in it, the time of the last memory before it")] = None
    after: Annotated[int | None, Meta(description="with none in it, the time of the first memory after it")] = None
    text: Annotated[str, Meta(description="the time and the number of its memories in words, to be shown")] = ""


class RecalledMemory(MemoryView, kw_only=True):
    score: float = 0.0
    channels: list[str] = []
    best: BestSentence | None = None
    was: bool = False  # an older value of a memory before it
    preference: bool = False  # a preference that is returned whatever was asked, in addition to `top_k`
    content_cut: bool = False  # `content` has only the lines around the best sentence: the full text exceeds the budget
    others: int = 0  # with `group_by`: further passages of the same note that were found
    inside: bool | None = None  # it lies in the time that the question names; null: the question names none
    about: int | None = None  # it lies in it by this time, which its text names, not by its own


class FilterCount(AnswerBody):
    """The memories that one filter excluded. reason: the name of the parameter (`namespace`, `kinds`, `since` …), a
    state (`trashed`, `superseded` …), `expired`, or `working`. wants: the required value, in words."""

    reason: str
    count: int
    wants: str


class ChannelHit(AnswerBody):
    """A memory that a channel found. `score`: BM25 for `words`, cosine for `vectors`, null for the others."""

    id: str
    rank: int
    score: float | None


class ChannelTrace(AnswerBody):
    """The results of one channel, best first: `words`, `vectors`, `neighbours` of the best in their session or note,
    `core` memories, or memories that state `facts` about the entities of the question."""

    name: str
    found: int
    hits: list[ChannelHit]


class FactLink(AnswerBody):
    """A fact in a chain, and the memory that states it."""

    id: str
    memory_id: str
    subject: str
    predicate: str
    object: str


class FactChainView(AnswerBody):
    """Facts that lead from one entity to another: `entities` are those on the way, one more than `facts`."""

    entities: list[str]
    facts: list[FactLink]


class GroupSums(AnswerBody):
    """The contributions of a candidate in `adds` as five sums, without what is equal for all candidates shown, which
    `equal` has in one sum. A group is null where the ranker does not go by it."""

    word: float | None = None  # the words of the question that it has
    sense: float | None = None  # how near its meaning is
    text: float | None = None  # what kind of text it is, who wrote it, how much it matters
    near: float | None = None  # its neighbours in its session or note
    time: float | None = None  # when it happened
    equal: float = 0.0


class CandidateTrace(AnswerBody):
    """A candidate with its scores. `features` are those of the ranker that was used, `adds` their contributions."""

    id: str
    rank: int | None  # in the requested order, from 1; null: it has none, see `dropped`
    score: float
    relevance: float  # the relevance, which does not depend on the ranker
    similarity: float | None  # cosine; null: it has no vector yet
    words: float  # BM25
    importance: float
    channels: list[str]  # that found it
    features: dict[str, float | None]  # of the ranker; empty but for the answers and the first 20 candidates
    # The contribution of each: they add up to the score, for `layered` before the squashing function, for the learned
    # `auto` to the log-odds.
    adds: dict[str, float]
    holds: list[str]  # the question's words that it contains
    why: list[str]  # the strongest reasons for its rank, in words
    answer: int | None = None  # its rank in this answer, from 1
    # Why it is not in this answer: beyond_top_k, earlier_page, duplicate_content, near_copy, older_value, over_budget,
    # cut, min_score, no_score, below_sim_threshold, no_similarity, not_relevant (to a prompt), gone, rerank.
    dropped: str | None = None
    cut: dict[str, float] = {}  # the features of `cut: gap`
    rerank: int | None = None  # the score of `rerank`, 0 (dropped) to 3
    groups: GroupSums | None = None  # null where `adds` is empty or what it is made of is not known


class RecallTrace(AnswerBody):
    """The explanation of an answer. SPEC 7.7"""

    memories: int  # in the store, in any state
    left_out: list[FilterCount]  # of those, by the first filter that each failed
    in_question: int  # the remaining memories
    words: list[str]  # the words of the question that were searched for
    channels: list[ChannelTrace]
    candidates: list[CandidateTrace]  # by rank, then those without one
    dropped: dict[str, int]  # the numbers of candidates that are not in the answer, by reason
    stages_ms: dict[str, float]
    fact_chains: list[FactChainView] = []  # from the entities of the question, by which `facts` were found
    uncompared: int = 0  # pairs of similar results that were too large to be compared as copies


class RecallAnswer(AnswerBody):
    memories: list[RecalledMemory]
    total_tokens: int
    budget_used: float | None
    total: int  # candidates after filters, minimum similarity and min_score; before offset and top_k
    ranker: str
    namespace: str
    degraded: list[str] = []
    mode: str | None = None  # the mode that the rankers `hybrid` and `rerank` used
    expanded: list[str] = []  # words or phrasings that were added to the query
    abstained: bool = False  # no result is close enough to be an answer
    list_top_k: int | None = None  # the top_k that was used because the query asks for a list; null: as requested
    needs_tokens: int | None = None  # if no result fits `token_budget`: the budget that would be enough
    took_ms: float = 0.0
    time: QuestionTimeView | None = None  # the time that the query names
    trace: RecallTrace | None = None
    reason: str | None = None  # why the language model did not do what `rerank: true` or `expand: true` asks of it


class SearchAnswer(AnswerBody):
    """GET /v1/search and /v1/recent."""

    memories: list[RecalledMemory]
    total: int
    namespace: str = "default"
    degraded: list[str] = []
    cursor: str | None = None  # of /v1/recent: the next page; null at the end


class TextLine(AnswerBody):
    """A line of a text for an agent, with the line breaks of its memory: all lines, joined by line breaks, are the
    text."""

    text: str
    section: str
    tokens: int  # as the budget of its section counts them
    memory: str | None = None  # the id of the memory that it shows; null: a heading, a topic, a count
    more: list[str] = []  # ids of further memories in it
    reason: str | None = None  # why it is there, in words
    weight: float | None = None  # of a context its score, of a resume the weight of the memory
    condensed: bool = False  # a shorter form of the memory


class TextSection(AnswerBody):
    """A section of a text for an agent. `left_out`: the numbers of memories that are not in it, by reason."""

    name: str
    tokens: int
    budget: int | None = None  # null: it has none
    left_out: dict[str, int] = {}


class TextCandidate(AnswerBody):
    """A memory that was found for a context and is not in it. reason: as `dropped` of a candidate in a trace."""

    id: str
    score: float
    reason: str


class TextExplanation(AnswerBody):
    """Every line of a text for an agent, and its sections. `below`: of a context, the best 12 that were found and are
    not in it."""

    lines: list[TextLine]
    sections: list[TextSection]
    below: list[TextCandidate] = []


class ContextRequest(RecallParameters):
    """POST /v1/context: the block to put before a prompt, by the parameters of a recall. SPEC 11 [L 4]

    `session_id` is the session that the prompt belongs to; it does not filter. Of a `query` that is longer than the
    embedding model reads, the beginning and the end are searched for.
    """

    query: str
    max_chars: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="limit of characters")] = None
    dates: Annotated[
        Literal["episodic", "all", "none"] | None,
        Meta(description="the memories to date; default: all, unless the profile says otherwise"),
    ] = None
    ids: Annotated[bool, Meta(description="include the ids")] = False
    preferences: Annotated[Preferences, Meta(description=PREFERENCES_MEANING)] = "first"
    cut: Cut | None = None  # null: gap, unless the profile says otherwise
    format: Annotated[
        Literal["block", "m"] | None,
        Meta(
            description="block: one line a memory (default, unless the profile says otherwise); m: lists of "
            "preferences and of memories"
        ),
    ] = None
    explain: bool = False  # add `explained`: each line and its reason; nothing is recorded as used or shown


class ContextAnswer(AnswerBody):
    block: str  # empty if nothing was found
    total_tokens: int
    memories: list[str]
    namespace: str = "default"
    degraded: list[str] = []
    cut: bool = False  # lines were omitted for `max_chars`, or no result fits the token budget
    abstained: bool = False  # no result is close enough to be an answer
    time: QuestionTimeView | None = None  # the time that the query names
    query_cut: bool = False  # `query` is long: its beginning and end were searched for
    explained: TextExplanation | None = None


class AskRequest(ScopedRequest):
    """POST /v1/ask: a question answered from memories alone. SPEC 11 [E]"""

    question: Question
    top_k: Annotated[int, Meta(ge=1, le=8, description="number of memories that the answer may rest on")] = 5
    agenda_top_k: Annotated[int, Meta(ge=1, le=8, description="the same of an agenda: what takes place in a time")] = 8
    session_id: Annotated[
        ShortText | None,
        Meta(description="a name for a series of questions: a follow-up knows the ones before it"),
    ] = None
    tags: TagFilter = []
    since: Since = None
    until: Until = None
    as_of: AsOf = None
    time: TimeAsk = "auto"
    cut: Annotated[Cut, Meta(description=CUT_MEANING)] = "gap"
    rerank: bool | None = None  # score the memories first; null: if the language model may
    dry: Dry = False
    stream: bool = False  # answer by server-sent events: AskMemories, AskSentence, at last AskAnswer


class AskMemories(AnswerBody):
    """The event `memories` of a streamed answer: those that it is made from, best first."""

    memories: list[RecalledMemory]


class AskSentence(AnswerBody):
    """A sentence of an answer, and the ids of the memories that it rests on."""

    text: str
    ids: list[str]


class Citation(AnswerBody):
    """A memory that an answer rests on, when it happened, and its sentence that says it."""

    id: str
    quote: str
    at: int


class AskAnswer(AnswerBody):
    answer: str  # "I don't know." if it abstained, and what the closest memory says
    sentences: list[AskSentence]
    citations: list[Citation]
    abstained: bool  # the memories do not hold the answer
    method: Literal["llm", "quotes"]  # written by the language model, or quoted without one
    reason: str | None = None  # why the language model did not answer
    memories: list[RecalledMemory] = []  # those that are cited, the most relevant first; if it abstained, the closest
    namespace: str = "default"
    degraded: list[str] = []
    time: QuestionTimeView | None = None  # the time that the question names
    resolved: str | None = None  # of a follow-up: the question with the words of the one before it that were recalled
    sensitive: int = 0  # memories tagged `sensitive` that match as well as the answer; only a person learns of them


class WhyRequest(RecallRequest, kw_only=True):
    """POST /v1/why: the parameters of a recall, and the id of a memory. SPEC 7.7"""

    id: str
    against: Annotated[str | None, Meta(description="also compare it with this one, by its id")] = None


class FailedFilter(AnswerBody):
    """A filter that the memory failed, with the required value and its own."""

    reason: str
    wanted: str
    has: str


class ChannelRank(AnswerBody):
    """The score and rank of the memory in one channel, if it was found or not.

    Null if it has none: no word of the question, no vector yet.
    """

    name: str
    found: bool
    score: float | None
    rank: int | None
    looked_at: int  # the number of results of the channel


class WhyAnswer(AnswerBody):
    """The explanation of why a memory was or was not in the answer. `sentence` is the reason in words."""

    id: str
    verdict: Verdict
    reason: str | None  # as in the trace: a filter, `near_copy`, `over_budget`, …
    sentence: str
    hurdles: list[FailedFilter]  # every filter that it failed
    holds: list[str]  # the question's words that it contains
    missing: list[str]  # and those that it lacks
    channels: list[ChannelRank]
    candidate: CandidateTrace | None = None  # null: it was not found
    last: CandidateTrace | None = None  # the last result of the answer, if this memory is not in it
    against: CandidateTrace | None = None  # the candidate that it was compared with; null: it was not found
    comparison: str | None = None  # by what the two differ most, in words
    instead: str | None = None  # the id of the result that it is a copy or an older value of
    tokens: int | None = None  # of its content, if the budget excluded it
    answers: int = 0  # the number of results
    ranker: str = "auto"
    namespace: str = "default"
    degraded: list[str] = []
    took_ms: float = 0.0


class SearchQuery(ScopedRequest):
    """GET /v1/search."""

    q: Question
    tag: TagFilter = []
    since: Since = None
    until: Until = None
    limit: Annotated[int, Meta(ge=1, le=100, description="number of results")] = 20
    as_of: AsOf = None
    highlight: bool = False
