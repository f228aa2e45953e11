"""The layered score: how well a memory fits, weighed by what it is worth and how fresh it is. SPEC 7.4 [G 4.2, 4.3]

All arrays have one length, a place a candidate. `share` is BM25 divided by the best of the query, 0 where the text has
no term of it; `sims` is the cosine, NaN where the memory has no vector.
"""

import numpy as np
from numpy.typing import NDArray

from mnemo_core.similarity import thresholds
from mnemo_core.similarity.thresholds import SOURCE, Thresholds
from mnemo_core.text.languages import CJK_CHARACTER
from mnemo_store.records import KINDS, LAYERS, STATES

# The weight of a relevance. [G 4.2]
WEIGHT_SHARE = 0.4
RECENCY_SHARE = 0.2
TIME_CONSTANT_HOURS = 168.0  # at a decay rate of 1 a week leaves exp(-1), not a half
REPETITION_SHARE, REPETITION_MAX = 0.17, 0.7
ACCESS_SHARE, ACCESS_MAX = 0.12, 0.55
KIND_BIAS = {"procedural": 0.15, "episodic": -0.1}
LAYER_BIAS = {"core": 0.1, "buffer": -0.1}
ARCHIVED_BIAS = -0.2  # instead of the layer's

# The relevance. [G 4.3]
DUAL_BOOST, DUAL_BOOST_SHORT_CJK = 0.3, 0.6
DUAL_FLOOR_SHORT_CJK, DUAL_FLOOR_SHARE_SHORT_CJK = 0.50, 0.35
WORDS_ONLY_MAX, WORDS_ONLY_MAX_SHORT_CJK = 0.25, 0.40
NO_TERM_FACTOR = 0.7
SHORT_CJK_CHARS = 10

assert WORDS_ONLY_MAX < WORDS_ONLY_MAX_SHORT_CJK < DUAL_FLOOR_SHORT_CJK
assert 0 < RECENCY_SHARE < WEIGHT_SHARE < 1

Values = NDArray[np.float64]

_KIND_BIAS = np.array([KIND_BIAS.get(kind, 0.0) for kind in KINDS])
_LAYER_BIAS = np.array([LAYER_BIAS.get(layer, 0.0) for layer in LAYERS])
_ARCHIVED = STATES.index("archived")


def is_short_cjk(query: str) -> bool:
    """Return whether the query is Chinese, Japanese or Korean with under 10 characters, too short for an embedding
    model."""
    return len(query.strip()) < SHORT_CJK_CHARS and has_cjk(query)


def has_cjk(query: str) -> bool:
    return CJK_CHARACTER.search(query) is not None


def is_confirmed(sims: NDArray[np.float32], limits: Thresholds) -> NDArray[np.bool_]:
    """Mask of the candidates that their vectors alone would find: those at the floor or above. [G 4.1]"""
    return sims >= np.float32(limits.relevance_floor)  # NaN is not


def relevance(
    share: NDArray[np.float32], sims: NDArray[np.float32], limits: Thresholds, *, is_short_cjk: bool = False
) -> Values:
    """Relevance of each candidate, from 0; 1 is a perfect fit, to which agreeing words may add up to 0.6.

    By vector: the cosine as G would read it, times 0.7 where the text has no term of the query. By words: at most a
    quarter of their share, since one word in common is no answer. Both: more than either. A memory that has no vector
    yet is judged by its words, in full.

    It depends on the candidate alone, never on the size of the search: another page has the same scores.
    """
    known = ~np.isnan(sims)
    cosine = np.where(known, thresholds.relevance(np.where(known, sims, 0.0), limits), 0.0)
    words = share.astype(np.float64)
    fit = np.maximum(cosine, (WORDS_ONLY_MAX_SHORT_CJK if is_short_cjk else WORDS_ONLY_MAX) * words)
    gate = np.minimum(1.0, fit / SOURCE.relevance_gate)  # the cosine is on the source's scale, and so is the gate
    both = fit * (1.0 + words * (DUAL_BOOST_SHORT_CJK if is_short_cjk else DUAL_BOOST) * gate)
    if is_short_cjk:
        both = np.maximum(both, DUAL_FLOOR_SHORT_CJK + DUAL_FLOOR_SHARE_SHORT_CJK * words)
    fit = np.where((words > 0) & is_confirmed(sims, limits), both, fit)
    fit = np.where(words > 0, fit, fit * NO_TERM_FACTOR)
    return np.where(known, fit, words)


def weight(
    strength: NDArray[np.float32], repetitions: NDArray[np.int32], accesses: NDArray[np.int32], kind: NDArray[np.uint8],
    layer: NDArray[np.uint8], state: NDArray[np.uint8],
) -> Values:  # fmt: skip
    """Weight of each candidate regardless of the query: strength, repetitions, uses, kind, layer and state. [G34] Not
    bounded by 1. Codes are places in KINDS, LAYERS, STATES."""
    repeated = np.minimum(REPETITION_MAX, REPETITION_SHARE * np.log1p(repetitions))
    used = np.minimum(ACCESS_MAX, ACCESS_SHARE * np.log1p(accesses))
    place = np.where(state == _ARCHIVED, ARCHIVED_BIAS, _LAYER_BIAS[layer])
    worth: Values = strength.astype(np.float64) + repeated + used + _KIND_BIAS[kind] + place
    return worth


def recency(age_hours: Values, decay_rate: NDArray[np.float32]) -> Values:
    """Recency of each candidate, in (0, 1]: exp(-decay_rate · age_hours / 168). [G33]"""
    fresh: Values = np.exp(-decay_rate.astype(np.float64) * age_hours / TIME_CONSTANT_HOURS)
    return fresh


def score(relevance: Values, weight: Values, recency: Values) -> Values:
    """Score in 0..1: raw = relevance · (1 + 0.4 · weight + 0.2 · recency), then 2 / (1 + e^(−2 · raw)) − 1. [G32]"""
    raw = relevance * (1.0 + WEIGHT_SHARE * weight + RECENCY_SHARE * recency)
    squeezed: Values = np.tanh(raw)  # the same, and it overflows nowhere
    return squeezed


def amounts(relevance: Values, weight: Values, recency: Values) -> dict[str, Values]:
    """The terms whose sum is `raw`, before it is squeezed into a score."""
    return {
        "relevance": relevance,
        "weight": WEIGHT_SHARE * weight * relevance,
        "recency": RECENCY_SHARE * recency * relevance,
    }
