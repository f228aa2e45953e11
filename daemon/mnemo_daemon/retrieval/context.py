"""The context of a recall, which its stages fill one after the other. SPEC 7"""

import dataclasses
import itertools
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.knowledge.facts import FactChain
from mnemo_core.retrieval import abstention
from mnemo_core.retrieval.ranking import rankers
from mnemo_core.retrieval.ranking.rankers import Candidates, RankingRequest, RankingScores
from mnemo_core.retrieval.ranking.ranking_features import FeatureTable
from mnemo_core.retrieval.time_placement import with_bonus
from mnemo_daemon.indexing.vectors.index_phases import ActiveIndex
from mnemo_daemon.retrieval.candidates.candidate_set import CandidateSet
from mnemo_daemon.retrieval.candidates.corpus import Corpus
from mnemo_daemon.retrieval.candidates.time_channel import TimeMatch
from mnemo_daemon.retrieval.question import SCORE_DIGITS, Hit, Question, reaches


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
    """The answers in order. tokens_needed: where nothing fits the budget, the tokens of the smallest.

    dropped: by number, why a candidate that was considered is not among them.
    """

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
            self.rows = self._in_time(self.timed, order, is_enough)
            return
        order = order[is_enough]
        if self.question.sort == "recent":
            order = order[np.argsort(-self.candidates.event_at[order], kind="stable")]
        elif self.question.sort == "accessed":  # what was never recalled has 0, and comes last
            order = order[np.argsort(-self.candidates.last_accessed[order], kind="stable")]
        if self.found.rounds.any():
            order = order[np.argsort(self.found.rounds[order], kind="stable")]
        self.rows = order.tolist()

    def _in_time(self, timed: TimeMatch, order: NDArray[np.intp], is_enough: NDArray[np.bool_]) -> list[int]:
        """The places of the candidates, best first, by the time that the question names: what has an order in time
        first, whatever its score is; else what lies inside is raised."""
        places = np.searchsorted(self.found.numbers, timed.ordered)
        first = places[self.found.numbers.take(places, mode="clip") == timed.ordered]
        is_first = np.zeros(len(self.found.numbers), np.bool_)
        is_first[first] = True
        rest = order[is_enough & ~is_first[order]]
        if timed.time.has_interval and not timed.time.is_only:
            raised = with_bonus(self.scored.scores[rest], timed.is_inside(self.found.numbers[rest]), len(timed.inside))
            rest = rest[np.argsort(-raised, kind="stable")]
        if self.question.sort != "score":
            times = self.candidates.event_at if self.question.sort == "recent" else self.candidates.last_accessed
            rest = rest[np.argsort(-times[rest], kind="stable")]
        rest = rest[np.argsort(self.found.rounds[rest], kind="stable")]
        return [*first.tolist(), *rest.tolist()]
