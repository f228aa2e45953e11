"""Late interaction: how near each word of a query comes to some word of a text. SPEC 7.3, `rerank`

Khattab and Zaharia 2020 (ColBERT): a text is kept as one vector for each of its tokens, and a token of the query counts
with its best match among them (MaxSim). Token vectors are of unit length; those of texts are kept as 8-bit codes.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Codes = NDArray[np.int8]  # (tokens, dimensions)

CODE_OF_ONE = 127  # the code of a component of 1
STEPS_OF_ONE = 65536  # a query's components are rounded to so many parts of 1: see max_sims
# Multiplications in one product. Of more than 2^18 OpenBLAS makes work for every processor, and on a busy machine waits
# 20 ms for them.
ONE_THREAD_MAX = 250_000


def quantize(rows: Floats) -> Codes:
    """Rows of unit length as codes: a cosine with them is off by some thousandths."""
    return np.rint(rows * CODE_OF_ONE).astype(np.int8)


def max_sims(query_rows: Floats, rows: Codes, counts: NDArray[np.int64]) -> Floats:
    """Best cosine of each query token among the tokens of each text: (n, q); 0 for a text without tokens.

    `rows` are the tokens of all texts, one behind the other, of each text as many as `counts` says. `query_rows` (q, d)
    are of unit length. Both sides are made whole numbers, whose products add up to less than 2^24: float32 has every
    sum exactly, so a text's figures are the same to the bit whatever other texts there are.
    """
    sims: Floats = np.zeros((len(counts), len(query_rows)), np.float32)
    there = np.flatnonzero(counts > 0)
    if not len(there) or not len(query_rows):
        return sims
    query = np.rint(query_rows.T * np.float32(STEPS_OF_ONE))
    tokens = rows.astype(np.float32)
    products = np.empty((len(tokens), query.shape[1]), np.float32)
    step = max(1, ONE_THREAD_MAX // query.size)
    for start in range(0, len(tokens), step):
        np.matmul(tokens[start : start + step], query, out=products[start : start + step])
    starts = np.cumsum(counts[there]) - counts[there]
    sims[there] = np.maximum.reduceat(products, starts) / np.float32(CODE_OF_ONE * STEPS_OF_ONE)
    return sims


def weighted(sims: Floats, weights: Floats) -> Floats:
    """(n,): the mean of each row of (n, q) by the weights (q,) of the query's tokens; 0 where they weigh nothing."""
    total = float(weights.sum())
    if total <= 0:
        return np.zeros(len(sims), np.float32)
    mean: Floats = (sims * (weights / np.float32(total))).sum(axis=1, dtype=np.float32)
    return mean


def token_weights(
    words: Sequence[str], rarities: Mapping[str, float], terms_of: Callable[[str], Sequence[str]]
) -> Floats:
    """Weight of each token of a question by the rarity of its word's rarest term; the weights sum to 1. `words`: the
    whole word of each token. A word without a term in `rarities` counts as the commonest."""
    common = min(rarities.values(), default=1.0)
    by_word = {word: max((rarities.get(term, common) for term in terms_of(word)), default=common) for word in words}
    weights = np.array([by_word[word] for word in words], np.float32)
    total = float(weights.sum())
    if total <= 0:
        return np.full(len(words), 1 / max(1, len(words)), np.float32)
    shares: Floats = weights / np.float32(total)
    return shares
