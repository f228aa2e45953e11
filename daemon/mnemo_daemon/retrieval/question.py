"""A question to recall, its context, which the stages of a recall fill one after the other, and its outcome. SPEC 7"""

import dataclasses
import itertools
import time
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_client.protocol.retrieval import QuestionTimeView, RecallTrace
from mnemo_core.ingest.facts import FactChain
from mnemo_core.retrieval import abstention
from mnemo_core.retrieval.ranking import rankers
from mnemo_core.retrieval.ranking.rankers import (
    RANKER_TABLE,
    Candidates,
    Mode,
    ModeUsed,
    Ranker,
    RankingRequest,
    RankingScores,
)
from mnemo_core.retrieval.ranking.ranking_features import FeatureTable
from mnemo_core.retrieval.result_selection import Copies
from mnemo_core.retrieval.time_placement import ITEMS_MAX, AgendaTime, with_bonus
from mnemo_core.text.dates.question_times import QuestionTime
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex
from mnemo_daemon.memories.memory_service import MemoryDetails
from mnemo_daemon.retrieval.candidates.corpus import CandidateSet, Corpus
from mnemo_daemon.retrieval.candidates.time_channel import TimeMatch
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import Memory

RECENCY_BIAS = 0.35  # [M]
SEMANTIC_WEIGHT = 0.5  # [M]
AGENDA_TOP_K = 30  # hits of a question for a time alone: much that was said then is not about it
SCORE_DIGITS = 6  # that an answer shows of a score


class Question(NamedTuple):
    """A recall request, checked. `token_budget` None: no budget. `as_of` (ms) None: the present."""

    query: str
    filter: MemoryFilter
    top_k: int = 5
    takes_list: bool = False  # top_k is that of a query that asks for a list
    offset: int = 0
    token_budget: int | None = 2000
    min_score: float = 0.0
    sort: str = "score"
    ranker: Ranker = "auto"
    mode: Mode = "hybrid"  # of the ranker `hybrid`
    recency_bias: float = RECENCY_BIAS
    semantic_weight: float = SEMANTIC_WEIGHT
    preferences: Literal["first", "inline"] = "inline"
    cut: Literal["none", "gap"] = "none"
    group_by: Literal["note"] | None = None  # one hit for each file of notes
    expand: Literal["auto", "false", "true"] = "auto"
    phrasings: tuple[str, ...] = ()  # other phrasings of the query, whose words are searched too
    rerank: bool = False  # candidates that do not bear on the question are dropped
    exact: bool = False
    highlight: bool = False
    excerpt_query: str = ""  # what the best sentences are to answer, where that is not all of the query
    explain: bool = False
    working_session: str | None = None
    working_any: bool = False  # `kinds` names `working`
    unasked: Literal["", "context", "prompt"] = ""  # for an agent that did not ask; see ResultBuilder
    takes_requests: bool = False  # questions and orders of conversations are found too
    limits_others: bool = False  # an agent gets the answer: what others wrote has a share of it
    as_of: int | None = None
    copies: Copies = "near"
    by_source: bool = False  # thresholds are the sources' own, not those of the model
    time: QuestionTime | None = None  # that it names, unless the request says when
    for_answer: bool = False  # it is to be answered in sentences, and not by a list
    for_agenda: int = 0  # it asks for nothing but a time: of what takes place then, the number to be answered

    def to_answer(self, agenda_items: int = ITEMS_MAX) -> "Question":
        """The question, to be answered in sentences: with as many hits as an agenda needs, if it asks for nothing but
        a time with two ends. agenda_items: of it, at most."""
        time = self.time
        if time is None or not time.is_only or time.begin is None or time.until is None:
            return self._replace(for_answer=True)
        return self._replace(for_agenda=agenda_items, top_k=AGENDA_TOP_K, time=time._replace(takes_ends=True))

    @property
    def is_quick(self) -> bool:
        """Return whether it is answered in milliseconds from memory: no other time, no model that reads texts, no
        ranker that goes by the tokens of the texts."""
        entry = RANKER_TABLE[self.ranker]
        return self.as_of is None and not self.exact and not entry.reads_overlap and not entry.reranks

    @property
    def is_cut(self) -> bool:
        """Return whether irrelevant candidates are left out, be it that the list ends or that each is judged."""
        return self.cut == "gap" or self.rerank


class BestPassage(NamedTuple):
    """The sentences that answer best: their text, the query's words in it, the line of the best of them in the note (0:
    no note), and the best of them alone."""

    text: str
    marks: list[tuple[int, int]]
    line: int
    sentence: str


class Hit(NamedTuple):
    """One of the answers. relevance: how well it fits, the same whatever the ranker (7.4); score is the ranker's."""

    details: MemoryDetails
    score: float
    relevance: float
    channels: tuple[str, ...]
    best: BestPassage | None = None
    was: bool = False  # an older value of one before it
    perhaps_was: bool = False  # one before it perhaps says a newer value; nothing shows this
    preference: bool = False  # it is one of those that come first
    is_cut: bool = False  # its content is a passage of the memory, which is larger than the budget
    others: int = 0  # further passages of its note, with `group_by`
    tokens: int = 0  # of its content
    is_inside: bool | None = None  # it lies in the time that the question names; None: it names none
    newer: tuple[Memory, ...] = ()  # what replaces it, or perhaps does: of the first hit, and of all for an agenda
    cancelling: tuple["Hit", ...] = ()  # for an agenda: what says later that it does not take place, the latest first
    about: int | None = None  # ms; it is inside by this time, which its text names, and not by its event time


class RecallOutcome(NamedTuple):
    hits: list[Hit]
    total_tokens: int
    total: int
    ranker: Ranker
    degraded: tuple[str, ...]
    took_ms: float
    trace: RecallTrace | None = None
    mode: ModeUsed | None = None  # that was used, by a ranker that has some
    abstained: bool = False
    tokens_needed: int = 0  # where nothing fits the budget whole, the tokens of the smallest
    expanded: tuple[str, ...] = ()  # the words or phrasings that were added to the query
    time: QuestionTimeView | None = None
    agenda: AgendaTime | None = None  # of a question for nothing but a time
    reason: str = ""  # why the language model did not do its part of what was requested


def shown_score(score: float) -> float:
    """The score as answers show it, and as `min_score` compares it."""
    return round(score, SCORE_DIGITS)


def reaches(scores: NDArray[np.float32], min_score: float) -> NDArray[np.bool_]:
    """A mask of the scores that are at least `min_score`, as answers show them.

    A score is compared in the form in which it was returned. Compared as it was computed, a score that was rounded up
    would not reach itself, and which scores are rounded up depends on the processor.
    """
    shown: NDArray[np.float64] = scores.astype(np.float64).round(SCORE_DIGITS)
    return shown >= min_score


class StageTimer:
    """A timer of the stages of a recall, in milliseconds."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self._started = self._last = time.perf_counter()

    def mark(self, stage: str) -> None:
        """Count the time since the last mark towards a stage, which may come several times."""
        now = time.perf_counter()
        self.stages[stage] = round(self.stages.get(stage, 0.0) + (now - self._last) * 1000, 3)
        self._last = now

    def total(self) -> float:
        return (time.perf_counter() - self._started) * 1000


class LearnedScores(NamedTuple):
    """The candidates of the first page as the learned ranker sees them, and the probability of each to answer."""

    first: FeatureTable
    rows: NDArray[np.intp]  # of the second stage, best first by the first one
    second: FeatureTable | None
    terms: FeatureTable  # added last
    learned: NDArray[np.float32]  # 0..1, by the weights
    chances: NDArray[np.float32]  # 0..1, with the offset for few candidates: the score
    few: float  # that offset, as log-odds


class CutoffEvidence(NamedTuple):
    """The evidence of which candidates are kept: in the order of the scores, of the first candidates."""

    rows: list[int]
    basis: abstention.Basis
    features: abstention.Values
    strengths: abstention.Values
    kept: NDArray[np.bool_]

    @property
    def kept_rows(self) -> frozenset[int]:
        """The rows before the end of the list."""
        return frozenset(itertools.compress(self.rows, self.kept))

    def values(self) -> dict[int, dict[str, float]]:
        """By row, the features of a candidate and its strength, by name."""
        names = (*(abstention.NAMES[each] for each in abstention.FEATURES[self.basis]), "strength")
        values = np.column_stack((self.features, self.strengths)).astype(np.float64).round(SCORE_DIGITS).tolist()
        return {row: dict(zip(names, each, strict=True)) for row, each in zip(self.rows, values, strict=True)}


class ResultPage(NamedTuple):
    """The answers in order. tokens_needed: where nothing fits the budget, the tokens of the smallest. dropped: by
    number, why a candidate that was considered is not among them."""

    hits: list[Hit]
    tokens: int
    tokens_needed: int
    abstained: bool
    dropped: dict[int, str]
    evidence: CutoffEvidence | None = None
    uncompared: int = 0  # pairs of similar texts that were too long together to be compared


@dataclasses.dataclass(slots=True)
class RecallContext:
    """A recall under way: each stage reads what the stages before it set. A field without a value is not set yet."""

    question: Question
    corpus: Corpus
    timer: StageTimer
    serving: ActiveIndex | None = None  # the vector index that is searched; None: words alone
    found: CandidateSet = dataclasses.field(init=False)
    fact_chains: tuple[FactChain, ...] = ()  # from the entities of the query
    timed: TimeMatch | None = None  # of a question that names a time
    request: RankingRequest = dataclasses.field(init=False)  # as the ranker sees it
    learned: LearnedScores | None = None  # of the ranker `auto`
    candidates: Candidates = dataclasses.field(init=False)  # the ranker's arrays, a row for each of `found`
    scored: RankingScores = dataclasses.field(init=False)
    rows: list[int] = dataclasses.field(init=False)  # places in the arrays, best first, without dropped candidates
    expansion_terms: tuple[str, ...] = ()  # words that were added to the query
    grouped_counts: dict[int, int] = dataclasses.field(default_factory=dict)  # by number, other passages of its note
    page: ResultPage = dataclasses.field(init=False)
    degraded: tuple[str, ...] = ()  # the parts that could not contribute all that they have
    took_ms: float = 0.0

    def rank(self) -> None:
        """Score the candidates, and order them from best to worst or as requested."""
        self.scored = scored = rankers.score(self.request, self.candidates)
        order = rankers.order(scored, self.candidates)
        in_order = scored.scores[order]
        is_enough = (in_order > 0) & reaches(in_order, self.question.min_score)
        if self.timed is not None:
            places = np.searchsorted(self.found.numbers, self.timed.ordered)
            first = places[self.found.numbers.take(places, mode="clip") == self.timed.ordered]
            is_first = np.zeros(len(self.found.numbers), np.bool_)
            is_first[first] = True
            rest = order[is_enough & ~is_first[order]]
            if self.timed.time.has_interval and not self.timed.time.is_only:
                raised = with_bonus(
                    self.scored.scores[rest], self.timed.is_inside(self.found.numbers[rest]), len(self.timed.inside)
                )
                rest = rest[np.argsort(-raised, kind="stable")]
            if self.question.sort != "score":
                times = self.candidates.event_at if self.question.sort == "recent" else self.candidates.last_accessed
                rest = rest[np.argsort(-times[rest], kind="stable")]
            rest = rest[np.argsort(self.found.rounds[rest], kind="stable")]
            self.rows = [*first.tolist(), *rest.tolist()]
            return
        order = order[is_enough]
        if self.question.sort == "recent":
            order = order[np.argsort(-self.candidates.event_at[order], kind="stable")]
        elif self.question.sort == "accessed":  # what was never recalled has 0, and comes last
            order = order[np.argsort(-self.candidates.last_accessed[order], kind="stable")]
        if self.found.rounds.any():
            order = order[np.argsort(self.found.rounds[order], kind="stable")]
        self.rows = order.tolist()
