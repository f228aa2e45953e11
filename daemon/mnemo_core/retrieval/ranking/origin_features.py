"""Features of a candidate's origin, added to the log-odds of the learned ranker: its page and its source. SPEC 7.3
(`auto`)

The other features describe a candidate and its direct neighbours. These describe the whole file of a note, distinguish
what somebody said from documents, and the namespace of the request from `default`, prefer what has a tag that the
question names, and put questions behind statements. They are few, bounded and added last, so that their effect can be
read off (daemon/docs/adr/0009-page-and-own-first.md).
"""

import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking.feature_groups import Group
from mnemo_core.retrieval.ranking.ranking_features import FeatureTable

LEADING_PASSAGES = 3  # of a file, that represent its subject
LEAD_MIN = 0.3  # a lower cosine counts as none
RARITY_DIGITS = 3.0
HERE_MIN = 0.2  # of a namespace that is not outnumbered
STEM_CHARS_MIN = 3  # of a word, that its stem begins with too
PAGE_K1, PAGE_B = 2.0, 1.0  # of BM25 over whole files: length counts in full, or long files would hold every word
WEIGHTS: Final = {"page_lead": 4.0, "page_words": 1.0, "said": 1.0, "here": 3.0, "tagged": 6.0, "only_asks": -3.0}
ORIGIN_GROUPS: Final[dict[str, Group]] = {
    "page_lead": "near", "page_words": "near", "said": "text", "here": "near", "tagged": "word", "only_asks": "text",
}  # fmt: skip

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
TermsOf = Callable[[str], Sequence[str]]

NAMES: Final = tuple(WEIGHTS)
_WEIGHTS: Final = np.array(list(WEIGHTS.values()), np.float32)


class CandidateOrigins(NamedTuple):
    """Origins of the candidates (n each)."""

    is_in_file: Bools
    lead: Floats  # the best cosine of its file's first passages
    words: Floats  # the file's BM25 as one text, as a share of the best
    is_here: Bools  # in the namespace of the request, not in `default`
    said_rarity: float  # of memories outside files, among all searched: `rarity`
    here_rarity: float  # of memories in the namespace of the request
    tagged: Floats  # the share of the question that names a tag of it, 0..1: `named_share`
    asks: Bools  # in no file, and nothing but a question, which answers none


def rarity(count: int, others: int) -> float:
    """Rarity of a group against the others, 0..1: 0 where the others do not outnumber it, 1 from a thousand to one
    on."""
    if not count or not others:
        return 0.0
    return min(max(math.log10(others / count) / RARITY_DIGITS, 0.0), 1.0)


def origin_table(origin: CandidateOrigins) -> FeatureTable:
    """The features, relative to the other candidates: those of the best page are 0, as are those of what is in no file,
    so that a page is preferred to other pages and never to a statement of a person. The next two favour such statements
    and the requested namespace, the more the more documents and `default` outnumber them. A tag counts from
    half of the question on, and decides where it is all of it: not in `what was a recipe for disaster`. Questions
    rank behind statements."""
    pages = np.stack([np.maximum(origin.lead - np.float32(LEAD_MIN), 0), origin.words])
    worth = np.where(origin.is_in_file, _WEIGHTS[:2] @ pages, -np.inf)
    if origin.is_in_file.any():
        pages = np.where(origin.is_in_file, pages - pages[:, [int(np.argmax(worth))]], 0)
    said = ~origin.is_in_file * origin.said_rarity
    here = origin.is_here * (HERE_MIN + (1 - HERE_MIN) * origin.here_rarity) if not origin.is_here.all() else 0 * said
    return FeatureTable(
        NAMES, np.stack([*pages, said, here, np.maximum(2 * origin.tagged - 1, 0), origin.asks]).astype(np.float32).T
    )


def named_share(tag: str, named: Container[str], rarities: Mapping[str, float], terms: TermsOf) -> float:
    """The share of a question, by the rarity of its terms, that names a tag or a part of a nested one, 0..1: 1 where
    it is all that the question says (`all my recipes`), or among `named`, the tags that it writes as such (`#recipe`).
    """
    shares = [0.0]
    for part in {tag, *tag.split("/")}:
        if part in named:
            return 1.0
        if part.isascii() and not any(term[:STEM_CHARS_MIN] in part for term in rarities):
            continue  # to split it into terms takes 25 µs
        of_part = terms(part)
        if of_part and all(term in rarities for term in of_part):
            shares.append(sum(rarities[term] for term in of_part) / max(sum(rarities.values()), 1e-6))
    return max(shares)


def page_words(counts: Floats, rarities: Floats, lengths: Floats) -> Floats:
    """(f,) BM25 of whole files, as a share of the best. counts: (t, f) of each term in each file; lengths: in words."""
    mean = max(float(lengths.mean()), 1.0) if len(lengths) else 1.0
    damping = counts + PAGE_K1 * (1 - PAGE_B + PAGE_B * lengths / mean)
    found: Floats = np.einsum("t,tf->f", rarities, counts * (PAGE_K1 + 1) / np.maximum(damping, 1e-6))
    best = float(found.max(initial=0.0))
    return found / np.float32(best) if best > 0 else np.zeros_like(found)


def origin_contributions(features: FeatureTable) -> Floats:
    """(n, k) contribution of each feature to the log-odds."""
    added: Floats = features.values * _WEIGHTS
    return added
