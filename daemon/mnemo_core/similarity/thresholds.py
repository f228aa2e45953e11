"""Similarity thresholds by embedding model, one table of cosines for each; and word overlap of two texts. SPEC 4.5, 5.5

A cosine of 0.65 means something else in every model. The sources set their values for the models they used; SOURCE
keeps them. The equivalent on another model is derived from labelled pairs (calibration.py, adr/0005-thresholds.md).
Every comparison uses the table of the model that made the vectors.
"""

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mnemo_core.text.languages import WORD
from mnemo_core.text.text_cache import TextCache

DEFAULT_MODEL = "all-MiniLM-L6-v2"
DEFAULT_FORM = "int8"  # what most processors compute well

JACCARD_NEAR = 0.5  # of the words, together with near_with_words [G7]
JACCARD_ALONE = 0.8  # of the words, where one of the texts has no vector [G7]
JACCARD_TOKENS_MIN = 3  # fewer words say nothing about likeness [G7]


class Thresholds(NamedTuple):
    """Cosines of one embedding model. The defaults are the sources' own values, each on its source's model.

    G used text-embedding-3-small, T bge-large-en-v1.5. `same` has no source: it is the project's own.
    """

    near: float = 0.65  # 5.5: a near one, linked [G 2.1]
    near_proxy: float = 0.60  # 5.5: the same for what the proxy extracts [G 2.1]
    near_with_words: float = 0.85  # 5.5: where more than half of the words are the same too [G7]
    same: float = 0.95  # 5.5: with a clean guard, the same said again
    turn_repeat: float = 0.92  # 5.7: a turn that repeats a recent one [T2]

    reconcile: float = 0.55  # 9.5: from here to `merge`, update, absorb or keep both [G48]
    core_overlap: float = 0.70  # 9.2: core memories that overlap [G24]
    triage: float = 0.75  # 9.2, 9.5: near-duplicates in the buffer, and of what was distilled [G23]
    merge: float = 0.78  # 9.5: merged into one; 7.5: of an answer's near copies only the best [G48]
    insert_merge: float = 0.80  # 5.5: `dedup: source` merges from here on [G48]

    relevance_expand: float = 0.25  # 7.6: below, the query is widened [G38]
    relevance_floor: float = 0.30  # 7.4: below, the layered ranker shows nothing [G39]
    relevance_gate: float = 0.45  # 7.4: from here on a word hit counts in full [G35]
    relevance_touch: float = 0.50  # 7.5: a shown memory above it counts as accessed [G40]
    fused_floor: float = 0.60  # 7.3, 8: below, never shown; a hit of the hot buffer; a neighbour [T10, T13]

    topic_assign: float = 0.30  # 10.1: joins the closest leaf [G42]
    topic_inside: float = 0.35  # 10.1: a leaf that holds together less is split [G42]
    topic_absorb: float = 0.40  # 10.1: a small leaf is taken in [G42]
    topic_merge: float = 0.55  # 10.1: two leaves are one [G42]
    node_join: float = 0.70  # 10.2: a turn pair joins a node [T8]
    node_split: float = 0.75  # 10.2: what a node that is too large is split at [T8]
    node_merge: float = 0.93  # 10.2: two nodes are one [T]

    calibrated: bool = True  # False: nobody measured this model, and the values are the default model's


COSINES = tuple(name for name in Thresholds._fields if name != "calibrated")
OWN = frozenset({"same"})  # not of a source
OF_T = frozenset({"turn_repeat", "fused_floor", "node_join", "node_split", "node_merge"})
OF_G = frozenset(COSINES) - OF_T - OWN

SOURCE = Thresholds()

# Of the models that the catalogue can fetch, in each of their forms, measured on the 592 pairs by `mnemo models
# calibrate`. The others of the catalogue can only be brought in by hand: nobody has measured them here, and nothing is
# made up for them.
MEASURED: dict[tuple[str, str], Thresholds] = {
    (DEFAULT_MODEL, "int8"): Thresholds(
        near=0.684, near_proxy=0.629, near_with_words=0.87, same=0.793, turn_repeat=0.899,
        reconcile=0.573, core_overlap=0.731, triage=0.778, merge=0.807, insert_merge=0.825,
        relevance_expand=0.157, relevance_floor=0.204, relevance_gate=0.443, relevance_touch=0.508, fused_floor=0.341,
        topic_assign=0.204, topic_inside=0.284, topic_absorb=0.363, topic_merge=0.573,
        node_join=0.684, node_split=0.733, node_merge=0.912,
    ),
    (DEFAULT_MODEL, "float32"): Thresholds(
        near=0.694, near_proxy=0.632, near_with_words=0.872, same=0.796, turn_repeat=0.902,
        reconcile=0.571, core_overlap=0.735, triage=0.776, merge=0.801, insert_merge=0.822,
        relevance_expand=0.162, relevance_floor=0.211, relevance_gate=0.448, relevance_touch=0.509, fused_floor=0.336,
        topic_assign=0.211, topic_inside=0.29, topic_absorb=0.369, topic_merge=0.571,
        node_join=0.694, node_split=0.741, node_merge=0.914,
    ),
}  # fmt: skip


def of_model(name: str, form: str = DEFAULT_FORM) -> Thresholds:
    """The thresholds of the catalogue's model of that name, in that form (int8, float32).

    A model that was never measured gets the default model's, marked as not calibrated.
    """
    return MEASURED.get((name, form)) or MEASURED[DEFAULT_MODEL, DEFAULT_FORM]._replace(calibrated=False)


def relevance(sims: ArrayLike, thresholds: Thresholds) -> NDArray[np.float64]:
    """Cosines of a model as G would read them, in 0..1: each of the model's thresholds falls on its source's value.

    Piecewise linear between them, 0 and 1 at the ends. SPEC 7.4
    """
    mapped: NDArray[np.float64] = np.interp(np.asarray(sims, np.float64), *_knots(thresholds))
    return mapped


@functools.lru_cache
def _knots(thresholds: Thresholds) -> tuple[list[float], list[float]]:
    """Cosines of a model, ascending, and what each is of the source's."""
    knots = sorted({(getattr(SOURCE, name), getattr(thresholds, name)) for name in OF_G})
    values, cosines = zip(*knots, strict=True)
    return [0.0, *cosines, 1.0], [0.0, *values, 1.0]


READ_CHARACTERS = 1 << 17  # of texts whose reading is cached: neighbours of one new text are neighbours of the next
RELATIVE_MS_MAX = 12 * 3_600_000  # two texts that say "today" further apart than this speak of different days


def words(text: str) -> frozenset[str]:
    """The words of a text for comparing, case-folded; each ideograph, kana and Hangul syllable is one."""
    return frozenset(WORD.findall(text.casefold()))


kept_words = TextCache(words, READ_CHARACTERS)


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Shared words over all words, 0 to 1; 0 where both are empty."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if shared else 0.0


def text_jaccard(one: str, other: str) -> float:
    """Jaccard similarity of the words of two texts; 0.0 where neither has any [G7]."""
    return jaccard(words(one), words(other))


def is_similar(content: str, other: str, sim: float | None, thresholds: Thresholds) -> bool:
    """Return whether two texts are similar enough to be linked. sim: their cosine, None where unknown. SPEC 5.5 [G 2.1,
    G7]"""
    one, two = kept_words(content), kept_words(other)
    if sim is None:
        return min(len(one), len(two)) >= JACCARD_TOKENS_MIN and jaccard(one, two) > JACCARD_ALONE
    return sim > thresholds.near or (sim > thresholds.near_with_words and jaccard(one, two) > JACCARD_NEAR)
