"""Rankers: pure functions from the candidates' features to scores. SPEC 7.3, 7.5.

Candidates are arrays side by side: one place a memory. A ranker is one entry of a table; those with a page of their own
are in `decay_ranker.py` (`layered`) and `lexical_ranker.py` (`deterministic`, `hybrid`).

To add a ranker:

1. Here: its function, its name in `Ranker` and its row in `RANKER_TABLE`, whose fields are explained at `RankerEntry`.
   `score` lowers the scores of archived memories, and `order` settles ties: by importance, then the newer `event_at`,
   then the id. Scores are float32, so ones that hardly differ may tie, and importance then decides.
2. Its name in `Ranker` of `clients/mnemo_client/protocol/choices.py`, in the same order. Wire types, options,
   completions and the OpenAPI document take it from there.
3. The features in its `RankerOutput`, and what each adds to the score: the reasons that `explain` and `mnemo why` name.
   Without them the score is the only reason. Its row says in which of five groups each is (ranking_features.py).
4. Its row in daemon/docs/ranking.md (SPEC 7.3).
5. `python -m tests.golden.names`, which adds the name to those that must not change; and its row in the tables of
   test_rankers.py and test_ranking_properties.py, which name a ranker that they lack; `python -m tests.golden.day`,
   whose day asks every ranker.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking import decay_ranker, lexical_ranker
from mnemo_core.retrieval.ranking.ranking_features import FEATURE_GROUPS, ORIGIN_GROUPS, Group
from mnemo_core.similarity.thresholds import SOURCE, Thresholds
from mnemo_store.records import LAYERS, STATES

NEAR_COSINE = 0.45  # a lower best cosine is not scaled up to 1: a query far from everything stays far
FACT_RELEVANCE = 1.0  # of what a chain of facts leads to, at least [G 4.1]
WORDS_WEIGHT = 0.5  # of the two channels in the first fusion; measured on the retrieval benchmark, SPEC 7.8
FULL_WORDS_SCORE = 0.9  # of a memory that holds as much of the query as itself; words alone never say all
ARCHIVED_FACTOR = 0.8  # of the score; `layered` has a term for it instead. SPEC 7.4

SIM_SHARE, RECENCY_SHARE, IMPORTANCE_SHARE = 0.6, 0.3, 0.1  # of `fused` [T12]
RECENT_TIME_CONSTANT_DAYS = 7.0  # [T12] calls both a half-life, but they are used in exp(-x)
LONG_TERM_TIME_CONSTANT_DAYS = 30.0
BLEND_RELEVANCE_SHARE, BLEND_IMPORTANCE_SHARE = 0.8, 0.2  # of `rerank` where nothing can rerank [L21]

assert round(SIM_SHARE + RECENCY_SHARE + IMPORTANCE_SHARE, 9) == 1
assert round(BLEND_RELEVANCE_SHARE + BLEND_IMPORTANCE_SHARE, 9) == 1

MS_AN_HOUR = 3_600_000
HOURS_A_DAY = 24

Ranker = Literal["auto", "words", "cosine", "deterministic", "hybrid", "layered", "fused", "rerank"]
Mode = Literal["hybrid", "deterministic", "semantic"]  # of the ranker `hybrid`, as requested
ModeUsed = Literal["hybrid", "deterministic", "semantic", "cross_encoder", "late", "blend"]

RANKERS: tuple[Ranker, ...] = get_args(Ranker)

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Values = NDArray[np.float64]
Features = Mapping[str, NDArray[Any]]

_ARCHIVED = STATES.index("archived")
_TIME_CONSTANTS_DAYS = np.array(
    [RECENT_TIME_CONSTANT_DAYS if layer == "buffer" else LONG_TERM_TIME_CONSTANT_DAYS for layer in LAYERS]
)


class Candidates(NamedTuple):
    """Input of the rankers: arrays of one length. Times are in ms, codes are places in KINDS, LAYERS, STATES."""

    words: Floats  # BM25; 0 where the text has no term of the query
    sims: Floats  # cosine of query and memory, −1 to 1; NaN where the memory has no vector yet
    importance: Floats
    strength: Floats  # as it is now
    repetitions: NDArray[np.int32]
    accesses: NDArray[np.int32]
    kind: NDArray[np.uint8]
    layer: NDArray[np.uint8]
    state: NDArray[np.uint8]
    decay_rate: Floats
    event_at: NDArray[np.int64]
    created_at: NDArray[np.int64]
    modified_at: NDArray[np.int64]
    last_accessed: NDArray[np.int64]  # 0: never
    id_high: NDArray[np.uint64]
    id_low: NDArray[np.uint64]
    reached: Bools | None = None  # by a chain of facts from an entity of the query
    # Computed only for the rankers that read them:
    overlap: Floats | None = None  # the share of the query's tokens in content and tags: lexical_ranker.overlap
    late: Floats | None = None  # late interaction, 0..1; NaN where it could not be computed
    cross: Floats | None = None  # scores of a cross-encoder, 0..1; NaN for texts that it did not read
    learned: Floats | None = None  # of the learned ranker, 0..1; `cut` uses it
    chances: Floats | None = None  # the same with the offset for few candidates: the score


class RankingRequest(NamedTuple):
    """The parameters of a request that the rankers use."""

    ranker: Ranker = "auto"
    mode: Mode = "hybrid"  # of the ranker `hybrid`
    recency_bias: float = 0.35  # [M3]
    semantic_weight: float = 0.5  # [M8]
    now: int = 0  # ms
    is_short_cjk: bool = False
    thresholds: Thresholds = SOURCE  # of the model that made the vectors
    has_vectors: bool = True  # the query could be embedded and compared
    words_full: float = 0.0  # the BM25 that a memory of the query's own words would have; read by the ranker `words`

    @property
    def needs_vectors(self) -> bool:
        """False: the ranker goes by words, whether there is a model or not."""
        return RANKER_TABLE[self.ranker].reads_vectors and not (
            self.ranker == "hybrid" and self.mode == "deterministic"
        )

    @property
    def needs_overlap(self) -> bool:
        """Return whether the ranker reads `Candidates.overlap`, which takes reading every text."""
        return RANKER_TABLE[self.ranker].reads_overlap and not (self.ranker == "hybrid" and self.mode == "semantic")


class RankingScores(NamedTuple):
    """The answer of a ranker. `ranker` and `mode` are those that were used, whatever was requested."""

    scores: Floats  # 0 for candidates below the floor
    relevance: Floats  # 7.4: how well each fits, the same whatever the ranker; 7.5 and 7.6 go by it
    dropped: Bools  # by the ranker's floor
    reason: str  # why, "" where the ranker has no floor
    ranker: Ranker
    mode: ModeUsed | None = None
    features: Features = MappingProxyType({})  # of the learned ranker, which has tables of its own, none
    amounts: Features = MappingProxyType({})


class RankerOutput(NamedTuple):
    """The scores of a ranker, and how they come about. SPEC 7.7

    `features` are the terms of its formula, and `amounts` sum up to the score, of `layered` to the argument of its
    sigmoid. features None: the score is the only one.
    """

    scores: NDArray[Any]
    features: Features | None = None
    amounts: Features = MappingProxyType({})
    dropped: Bools | None = None
    reason: str = ""
    mode: ModeUsed | None = None


def effective_request(asked: RankingRequest) -> RankingRequest:
    """The request with the ranker that replaces one that needs vectors, where there are none. `layered` and `rerank`
    have rules of their own for that case. [M10]"""
    if asked.has_vectors:
        return asked
    if asked.ranker == "hybrid":
        return asked._replace(mode="deterministic")
    return asked._replace(ranker=RANKER_TABLE[asked.ranker].without_vectors or asked.ranker)


def score(asked: RankingRequest, candidates: Candidates) -> RankingScores:
    """A score for each candidate: 0..1, of `deterministic` up to 1.15. Visible in the answer: what was used."""
    asked = effective_request(asked)
    entry = RANKER_TABLE[asked.ranker]
    ranked = entry.score(asked, candidates)
    scores, dropped, amounts = ranked.scores, ranked.dropped, ranked.amounts
    is_archived = candidates.state == _ARCHIVED
    if entry.lowers_archived and is_archived.any():
        if amounts:
            lost = (ARCHIVED_FACTOR - 1) * _sum(amounts)
            amounts = {**amounts, "archived": np.where(is_archived, lost, 0.0)}
        scores = np.where(is_archived, scores * ARCHIVED_FACTOR, scores)
    if dropped is None:
        dropped = np.zeros(len(scores), np.bool_)
    else:
        scores = np.where(dropped, 0.0, scores)
    features = ranked.features
    if features is None:
        features = amounts = {"score": scores}
    fit = _relevance(asked, candidates).astype(np.float32)
    return RankingScores(
        scores.astype(np.float32), fit, dropped, ranked.reason, asked.ranker, ranked.mode, features, amounts
    )


def word_share(words: Floats) -> Floats:
    """BM25 divided by the best of the query: 1 for the best, 0 for no match."""
    best = float(words.max(initial=0.0))
    return words / np.float32(best) if best > 0 else np.zeros_like(words)


def words_held(words: Floats, full: float) -> Values:
    """Share of the query's words that a memory holds, 0 to under 1: 0.9 for a memory of the query's own words."""
    share = words.astype(np.float64) / max(full, 1e-9)
    return np.where(share <= 1, FULL_WORDS_SCORE * share, 1 - (1 - FULL_WORDS_SCORE) / np.maximum(share, 1))


def cosine(sims: Floats) -> Floats:
    """The cosine as it is, 0 where it is negative or unknown. [L 2.5]"""
    return np.minimum(np.fmax(sims, np.float32(0.0)), np.float32(1.0))  # fmax passes over NaN


def blend(candidates: Candidates) -> RankerOutput:
    """0.8 · relevance + 0.2 · importance: the cosine, or, where a memory has no vector yet, its words. [L21]"""
    near = cosine(candidates.sims).astype(np.float64)
    words_alone = np.where(np.isnan(candidates.sims), word_share(candidates.words), 0.0)
    features: Features = {"cosine": near, "words_share": words_alone, "importance": candidates.importance}
    shares = dict.fromkeys(("cosine", "words_share"), BLEND_RELEVANCE_SHARE) | {"importance": BLEND_IMPORTANCE_SHARE}
    return _summed(features, {name: shares[name] * values for name, values in features.items()})


def order(scored: RankingScores, candidates: Candidates) -> NDArray[np.intp]:
    """Places from best to worst; ties by importance, newer, id (SPEC 17.8). Of a blend, by the last change first."""
    keys: list[NDArray[Any]] = [
        candidates.id_low, candidates.id_high, -candidates.event_at, -candidates.importance
    ]  # fmt: skip
    if scored.mode == "blend":
        keys.append(-candidates.modified_at)  # [L21]
    return np.lexsort((*keys, -scored.scores))


def _relevance(asked: RankingRequest, candidates: Candidates) -> Values:
    share = word_share(candidates.words)
    fit = decay_ranker.relevance(share, candidates.sims, asked.thresholds, is_short_cjk=asked.is_short_cjk)
    if asked.ranker == "layered" and candidates.reached is not None:
        fit = np.where(candidates.reached, np.maximum(fit, FACT_RELEVANCE), fit)
    return fit


def _age_hours(asked: RankingRequest, at: NDArray[np.int64]) -> Values:
    """Age in hours; 0 for times in the future."""
    ages: Values = np.maximum(asked.now - at, 0) / MS_AN_HOUR
    return ages


def _sum(amounts: Features) -> NDArray[Any]:
    return functools.reduce(np.add, amounts.values())


def _summed(features: Features, amounts: Features) -> RankerOutput:
    return RankerOutput(_sum(amounts), features, amounts)


def _auto(asked: RankingRequest, candidates: Candidates) -> RankerOutput:
    """The learned ranker; without it half the share of the best BM25, half the share of the best cosine, which counts
    as 0.45 at least.

    A memory that has no vector yet is judged by its words alone, so that it is found at once. Strength, uses and layer
    are no terms: none of them helps to find what was not asked for before (SPEC 9.3).
    """
    if candidates.learned is not None:
        return RankerOutput(candidates.learned if candidates.chances is None else candidates.chances, {})
    share, close = word_share(candidates.words), cosine(candidates.sims)
    near = close / np.float32(max(NEAR_COSINE, float(close.max(initial=0.0))))
    by_words = np.where(np.isnan(candidates.sims), np.float32(1), np.float32(WORDS_WEIGHT))
    return _summed(
        {"words_share": share, "cosine_share": near},
        {"words_share": by_words * share, "cosine_share": (1 - by_words) * near},
    )


def _words(asked: RankingRequest, candidates: Candidates) -> RankerOutput:
    held = {"words_held": words_held(candidates.words, asked.words_full)}
    return _summed(held, held)


def _cosine(asked: RankingRequest, candidates: Candidates) -> RankerOutput:
    near = {"cosine": cosine(candidates.sims)}
    return _summed(near, near)


def _deterministic(asked: RankingRequest, candidates: Candidates) -> RankerOutput:
    assert candidates.overlap is not None, "this ranker goes by the tokens of the texts"
    ages = _age_hours(asked, candidates.event_at)
    overlap, fresh, importance = candidates.overlap, lexical_ranker.recency(ages), candidates.importance
    amounts = lexical_ranker.amounts(overlap, ages, importance, asked.recency_bias)
    return _summed({"overlap": overlap, "recency": fresh, "importance": importance}, amounts)


def _hybrid(asked: RankingRequest, candidates: Candidates) -> RankerOutput:
    near = cosine(candidates.sims)
    if asked.mode == "semantic":
        return RankerOutput(near, {"cosine": near}, {"cosine": near}, near <= 0, "no_similarity", "semantic")  # [M9]
    plain = _deterministic(asked, candidates)
    if asked.mode == "deterministic":
        return plain._replace(mode="deterministic")
    known, close = ~np.isnan(candidates.sims), near.astype(np.float64)
    scores = lexical_ranker.hybrid(plain.scores, close, known, asked.semantic_weight)
    left = np.where(known, 1 - asked.semantic_weight, 1.0)
    amounts = {name: left * values / lexical_ranker.best_of(plain.scores) for name, values in plain.amounts.items()}
    amounts["cosine"] = (1 - left) * close / lexical_ranker.best_of(close)
    return RankerOutput(scores, {**(plain.features or {}), "cosine": near}, amounts, mode="hybrid")


def _layered(asked: RankingRequest, candidates: Candidates) -> RankerOutput:
    """Drop candidates that neither a word nor a similar enough vector nor a fact found. Only vectors have a floor, as
    in [G]: a relevance by words alone is below it by rule, and would never be shown."""
    fit = _relevance(asked, candidates)
    worth = decay_ranker.weight(
        candidates.strength, candidates.repetitions, candidates.accesses, candidates.kind, candidates.layer,
        candidates.state,
    )  # fmt: skip
    used_at = np.where(candidates.last_accessed > 0, candidates.last_accessed, candidates.created_at)
    fresh = decay_ranker.recency(_age_hours(asked, used_at), candidates.decay_rate)
    dropped = ~decay_ranker.is_confirmed(candidates.sims, asked.thresholds) & (candidates.words <= 0)
    if candidates.reached is not None:
        dropped &= ~candidates.reached
    scores, shown = decay_ranker.score(fit, worth, fresh), fit.astype(np.float32).astype(np.float64)  # as in the answer
    features = {"relevance": shown, "weight": worth, "recency": fresh}
    return RankerOutput(scores, features, decay_ranker.amounts(shown, worth, fresh), dropped, "below_sim_threshold")


def _fused(asked: RankingRequest, candidates: Candidates) -> RankerOutput:
    """0.6 · sim + 0.3 · exp(−age / time constant) + 0.1 · importance. [T12] A buffer memory is a recent one, every
    other long-term. A memory without a vector is under the floor too. [T13]"""
    near = cosine(candidates.sims).astype(np.float64)
    age_days = _age_hours(asked, candidates.event_at) / HOURS_A_DAY
    fresh = np.exp(-age_days / _TIME_CONSTANTS_DAYS[candidates.layer])
    is_near = candidates.sims >= np.float32(asked.thresholds.fused_floor)  # NaN is not
    features: Features = {"cosine": near, "recency": fresh, "importance": candidates.importance}
    shares = {"cosine": SIM_SHARE, "recency": RECENCY_SHARE, "importance": IMPORTANCE_SHARE}
    summed = _summed(features, {name: shares[name] * values for name, values in features.items()})
    return summed._replace(dropped=~is_near, reason="below_sim_threshold")


def _rerank(asked: RankingRequest, candidates: Candidates) -> RankerOutput:
    """Rank candidates that the cross-encoder did not read, being lower in the blend, behind those that it did."""
    plain, cross, late = blend(candidates), candidates.cross, candidates.late
    if cross is not None and not np.isnan(cross).all():
        return _reranked(plain, "cross_encoder", cross, "cross_encoder", np.nanmin(cross))
    if late is None or np.isnan(late).all():
        return plain._replace(mode="blend")
    return _reranked(plain, "late", np.clip(late, 0.0, 1.0), "late", np.float64(1))


def _reranked(plain: RankerOutput, name: str, values: Floats, mode: ModeUsed, factor: np.floating[Any]) -> RankerOutput:
    """The values where there are some, else the plain scores times `factor`."""
    is_read = ~np.isnan(values)
    amounts = {each: np.where(is_read, 0.0, factor * amount) for each, amount in plain.amounts.items()}
    amounts[name] = np.where(is_read, values, 0.0)
    features = {**(plain.features or {}), name: values}
    return RankerOutput(np.where(is_read, values, plain.scores * factor), features, amounts, mode=mode)


class RankerEntry(NamedTuple):
    """A ranker: its function, what it reads besides the columns, and its replacement where there are no vectors.
    Without `reads_vectors` the vector channel is not searched: candidates are those of words and core."""

    score: Callable[[RankingRequest, Candidates], RankerOutput]
    groups: Mapping[str, Group] = MappingProxyType({})  # of each of its features
    reads_vectors: bool = False
    reads_overlap: bool = False
    reads_words_full: bool = False  # `RankingRequest.words_full`
    reranks: bool = False  # by a cross-encoder, which reads the texts, or by late interaction
    is_far_reaching: bool = False  # its candidates are many, as it can lift one that no channel has near the front
    floor: Callable[[Thresholds], float] | None = None  # the cosine under which candidates are dropped
    without_vectors: Ranker | None = None  # None: it has a rule of its own
    lowers_archived: bool = True  # by ARCHIVED_FACTOR


_BY_TEXT: Mapping[str, Group] = {"overlap": "word", "recency": "time", "importance": "text"}

RANKER_TABLE: Mapping[Ranker, RankerEntry] = {
    "auto": RankerEntry(
        _auto,
        {"words_share": "word", "cosine_share": "sense", **FEATURE_GROUPS, **ORIGIN_GROUPS},
        reads_vectors=True,
        without_vectors="words",
    ),
    "words": RankerEntry(_words, {"words_held": "word"}, reads_words_full=True),
    "cosine": RankerEntry(_cosine, {"cosine": "sense"}, reads_vectors=True, without_vectors="words"),
    "deterministic": RankerEntry(_deterministic, _BY_TEXT, reads_overlap=True),
    "hybrid": RankerEntry(_hybrid, {**_BY_TEXT, "cosine": "sense"}, reads_vectors=True, reads_overlap=True),
    "layered": RankerEntry(
        _layered,
        {"relevance": "sense", "weight": "text", "recency": "time"},
        reads_vectors=True,
        floor=lambda limits: limits.relevance_floor,
        lowers_archived=False,
    ),
    "fused": RankerEntry(
        _fused,
        {"cosine": "sense", "recency": "time", "importance": "text"},
        reads_vectors=True,
        is_far_reaching=True,
        floor=lambda limits: limits.fused_floor,
        without_vectors="deterministic",
    ),
    "rerank": RankerEntry(
        _rerank,
        {"cosine": "sense", "words_share": "word", "importance": "text", "cross_encoder": "sense", "late": "sense"},
        reads_vectors=True,
        reranks=True,
    ),
}

ARCHIVED_GROUPS: Mapping[str, Group] = {"archived": "time"}  # of the term by which `score` lowers archived memories


def groups_of(ranker: Ranker) -> Mapping[str, Group]:
    """The group of each feature of a ranker, and of what is added to all of them."""
    return {**RANKER_TABLE[ranker].groups, **ARCHIVED_GROUPS}
