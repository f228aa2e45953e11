"""Ranking without a model: words in common, freshness and importance; and its mean with the cosine. SPEC 7.3 [M]"""

import functools
import unicodedata
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_core.text.languages import CJK
from mnemo_core.text.lazy_patterns import lazy_pattern

IMPORTANCE_BONUS = 0.15
BEST_MIN = 0.001  # least value of a best score that scores are divided by

Values = NDArray[np.float64]

_TOKEN = lazy_pattern(f"[{CJK}]|[^\\W_{CJK}]+")
_ACCENTS = lazy_pattern("[\u0300-\u036f]")


def tokens(text: str) -> frozenset[str]:
    """The distinct tokens of a text: of ASCII the runs of [a-z0-9], lower-cased [M4]. Of everything else too: letters
    and digits without case and accents, and each ideograph, kana and Hangul syllable by itself."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
    return frozenset(_TOKEN.findall(text.casefold()))


def overlap(query: str, texts: Iterable[str]) -> NDArray[np.float32]:
    """The share of the query's tokens that each text has, 0..1; 0 for a query that has none. [M4] A text is a content
    with its tags behind it."""
    asked = tokens(query)
    return np.array([len(asked & tokens(text)) / max(1, len(asked)) for text in texts], np.float32)


def recency(age_hours: Values) -> Values:
    """Recency of each candidate, in (0, 1]: one half after one hour. [M5]"""
    return 1.0 / (1.0 + age_hours)


def amounts(
    overlap: NDArray[np.float32], age_hours: Values, importance: NDArray[np.float32], recency_bias: float
) -> dict[str, NDArray[Any]]:
    """The terms of the score: overlap · (1 − bias), recency · bias, 0.15 · importance. [M3]"""
    return {
        "overlap": overlap.astype(np.float64) * (1.0 - recency_bias),
        "recency": recency(age_hours) * recency_bias,
        "importance": IMPORTANCE_BONUS * importance,
    }


def score(
    overlap: NDArray[np.float32], age_hours: Values, importance: NDArray[np.float32], recency_bias: float
) -> Values:
    """The sum of `amounts`: from 0 to 1.15. [M3]"""
    return functools.reduce(np.add, amounts(overlap, age_hours, importance, recency_bias).values())


def hybrid(deterministic: Values, cosine: Values, known: NDArray[np.bool_], semantic_weight: float) -> Values:
    """The mean of both, each divided by its best; where a memory has no vector yet, the first alone. 0..1 [M8]"""
    plain, near = deterministic / best_of(deterministic), cosine / best_of(cosine)
    return np.where(known, plain * (1.0 - semantic_weight) + near * semantic_weight, plain)


def best_of(values: Values) -> float:
    """The best value, which counts as BEST_MIN at least."""
    return max(BEST_MIN, float(values.max(initial=0.0)))
