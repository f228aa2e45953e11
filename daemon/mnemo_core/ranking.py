"""Rankers: pure functions from the candidates' features to scores. SPEC 7.3, 7.5.

Candidates are arrays side by side: one row a memory. `words` is BM25 (≥ 0, 0 where no word matched), `sims` the cosine
of query and memory (−1 to 1, NaN where the memory has no vector yet).
"""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

NEAR_COSINE = 0.45  # a best cosine under it is not stretched to 1: what is far from everything stays far
WORDS_WEIGHT = 0.5  # of the two channels in `auto`; measured on the retrieval benchmark, see daemon/SPEC.md 7

Ranker = Literal["auto", "words", "cosine"]
Floats = NDArray[np.float32]


class Candidates(NamedTuple):
    """What the rankers see. Arrays of one length."""

    words: Floats
    sims: Floats
    importance: Floats
    event_at: NDArray[np.int64]
    id_high: NDArray[np.uint64]
    id_low: NDArray[np.uint64]


def score(ranker: Ranker, candidates: Candidates) -> Floats:
    """A score in 0..1 for each candidate."""
    match ranker:
        case "auto":
            return fused(candidates.words, candidates.sims)
        case "words":
            return word_share(candidates.words)
        case "cosine":
            return cosine(candidates.sims)
        case _:
            assert_never(ranker)


def word_share(words: Floats) -> Floats:
    """BM25 divided by the best of the query: 1 for the best, 0 for no match."""
    best = float(words.max(initial=0.0))
    return words / np.float32(best) if best > 0 else np.zeros_like(words)


def cosine(sims: Floats) -> Floats:
    """The cosine as it is, 0 where it is negative or unknown. [L 2.5]"""
    return np.minimum(np.fmax(sims, np.float32(0.0)), np.float32(1.0))  # fmax passes over NaN


def fused(words: Floats, sims: Floats) -> Floats:
    """The first fusion: half the share of the best BM25, half the share of the best cosine, which counts as 0.45 at
    least.

    A memory that has no vector yet is judged by its words alone, so that what was just said is found at once.
    """
    share = word_share(words)
    known = ~np.isnan(sims)
    if not known.any():
        return share
    close = cosine(sims)
    near = close / np.float32(max(NEAR_COSINE, float(close.max(initial=0.0))))
    return np.where(known, WORDS_WEIGHT * share + (1 - WORDS_WEIGHT) * near, share).astype(np.float32)


def order(scores: Floats, candidates: Candidates) -> NDArray[np.intp]:
    """Rows from best to worst; ties by importance, newer, id. SPEC 17.8"""
    keys = (candidates.id_low, candidates.id_high, -candidates.event_at, -candidates.importance, -scores)
    return np.lexsort(keys)


def choose(
    rows: Iterable[int], tokens_of: Callable[[int], int], budget: int | None, top_k: int
) -> tuple[list[int], int]:
    """The rows that fit the budget, in order, and their tokens. SPEC 7.5 [L 2.6]

    What does not fit is passed over, and smaller ones after it may still be taken, until top_k.
    """
    chosen: list[int] = []
    total = 0
    for row in rows:
        if len(chosen) == top_k:
            break
        tokens = tokens_of(row)
        if budget is None or total + tokens <= budget:
            chosen.append(row)
            total += tokens
    return chosen, total
