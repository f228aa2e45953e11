"""Similarity thresholds by embedding model, one table of cosines for each; and word overlap of two texts. SPEC 4.5, 5.5

A cosine of 0.65 means something else in every model. The sources set their values for the models they used; SOURCE
keeps them. The equivalent on another model is derived from labelled pairs (adr/0005-thresholds.md). Every comparison
uses the table of the model that made the vectors.

A source's threshold is an anchor: the share of one class of pairs that reaches it (one unrelated pair in twenty, half
of the related ones, …). On another model the threshold is the cosine that the same share reaches; values between two
anchors are interpolated. `same`, the project's own threshold, is chosen by the error rate it may have.
adr/0005-thresholds.md names the sources of the shares and what they cannot tell.
"""

import functools
import json
import pkgutil
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
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
    """Cosines of one embedding model. The defaults are the sources' own values, each on its source's model. G used
    text-embedding-3-small, T bge-large-en-v1.5. `same` has no source: it is the project's own."""

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
    """The thresholds of the catalogue's model of that name, in that form (int8, float32). A model that was never
    measured gets the default model's, marked as not calibrated."""
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


READ_CHARACTERS = 1 << 18  # of texts whose reading is cached: neighbours of one new text are neighbours of the next
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


Label = Literal["same", "differs", "related", "unrelated"]
LABELS: tuple[Label, ...] = ("same", "differs", "related", "unrelated")  # the closest first

SAME_PRECISION_MIN = 0.99  # of what reaches `same` and differs in no specific, the share that says the same
SEPARATION_MIN = (
    0.9  # a model that separates related from unrelated, or same from related, less often has no thresholds
)
READ_MIN = 0.75  # a language in which the model separates related from unrelated less often is not supported
STEP_MIN = 0.001  # between the cosines of two anchors: a source's order is the model's order


class LabelledPair(NamedTuple):
    """Two texts, and what they are to each other.

    `same`: reworded, no specific differs. `differs`: near, but for a number, unit, date, name, identifier, negation or
    opposite. `related`: another statement on the same thing. `unrelated`: of one field or of two.
    """

    one: str
    other: str
    label: Label
    language: str


class Anchor(NamedTuple):
    """A value on a source's scale, and which share of which pairs reaches it there."""

    value: float
    label: Label
    share: float


class ThresholdRow(msgspec.Struct, frozen=True, kw_only=True):
    """A threshold as it was found, with the share of each class of pairs that reaches it; also its form in a file."""

    name: str
    source: float | None  # the source's value, on its own model
    cosine: float
    same: float
    differs: float
    related: float
    unrelated: float
    precision: float  # of what reaches it (and passes the guard, where it asks that), the share that should
    recall: float  # of what should reach it, the share that does


class Calibration(NamedTuple):
    """The thresholds of a model and the measurements behind them."""

    thresholds: Thresholds
    rows: tuple[ThresholdRow, ...]
    languages: Mapping[str, float]  # how often a related pair is closer than an unrelated one, in each language
    counted: tuple[str, ...]  # the languages the shares were taken in: those the model reads
    related: float  # how often a related pair is closer than an unrelated one, in the languages counted
    same: float  # how often a pair that says the same is closer than a related one

    @property
    def separates(self) -> bool:
        """Return whether the model separates related from unrelated texts, so that thresholds on it mean anything."""
        return min(self.related, self.same) >= SEPARATION_MIN


# text-embedding-3-small. Published of it: unrelated pairs 0.06 to 0.22, similar ones 0.37 to 0.56. The rest by role.
ANCHORS_G = (
    Anchor(0.14, "unrelated", 0.50),
    Anchor(0.30, "unrelated", 0.05),
    Anchor(0.45, "related", 0.45),
    Anchor(0.55, "related", 0.10),
    Anchor(0.65, "same", 0.95),
    Anchor(0.78, "same", 0.75),
    Anchor(0.85, "same", 0.50),
)
# bge-large-en-v1.5. Published of it: a narrow scale, on which 0.5 says nothing. The shares are by role.
ANCHORS_T = (Anchor(0.60, "related", 0.75), Anchor(0.70, "same", 0.95), Anchor(0.92, "same", 0.25))

_NEAR = frozenset({"same", "differs"})
_ABOUT_IT = frozenset({"same", "differs", "related"})
_GUARDED = frozenset({"same"})  # what differs is kept out by the guard
# What is meant to reach each threshold; `same` and those in between are for near ones.
_WANTED = {name: _ABOUT_IT for name in COSINES if name.startswith(("relevance", "fused", "topic"))}
_WANTED |= {"same": _GUARDED, "turn_repeat": _GUARDED}


_LINES = (pkgutil.get_data("mnemo_core.similarity", "pairs.jsonl") or b"").decode().splitlines()
PAIRS = tuple(LabelledPair(**json.loads(line)) for line in _LINES)


def calibrate(sims: Sequence[float], pairs: Sequence[LabelledPair]) -> Calibration:
    """The thresholds of a model from the cosine it gives each of `pairs`. Every label must be among the pairs of some
    language. Same input, same result."""
    languages: dict[str, float] = {}
    for language in sorted({pair.language for pair in pairs}):
        classes = _by_label(sims, pairs, (language,))
        languages[language] = _closer(classes["related"], classes["unrelated"])
    counted = _languages_read(sims, pairs, languages)
    classes = _by_label(sims, pairs, counted)
    everywhere = _by_label(sims, pairs, tuple(languages))
    found = dict.fromkeys(COSINES, 0.0)
    for names, anchors in ((OF_G, ANCHORS_G), (OF_T, ANCHORS_T)):
        knots = [(0.0, 0.0)]
        for value, label, share in anchors:
            cosine = max(cosine_at_share(classes[label], share), knots[-1][1] + STEP_MIN)
            knots.append((value, cosine))
        knots = [*knots, (1.0, max(1.0, knots[-1][1]))]
        values, places = zip(*knots, strict=True)
        found |= {name: float(np.interp(getattr(SOURCE, name), values, places)) for name in names}
    # Texts merged or counted as repetitions must be so in every language, supported or not.
    found["turn_repeat"] = max(found["turn_repeat"], cosine_at_share(everywhere["related"], 0.0))
    # The lowest cosine from which on nearly all that differ in no specific say the same. That none differs is for the
    # guard to see, which knows nothing of models: no cosine could (`differs` reaches higher than `same` on every
    # model). All classes weigh the same.
    others = (everywhere["related"], everywhere["unrelated"])
    lowest = 1.0
    for cosine in sorted(everywhere["same"], reverse=True):
        right = share_reaching(everywhere["same"], cosine)
        if right < SAME_PRECISION_MIN * (right + sum(share_reaching(sims, cosine) for sims in others)):
            break
        lowest = cosine
    found["same"] = max(lowest, found["near"])
    cosines: dict[str, Any] = {name: round(cosine, 3) for name, cosine in found.items()}
    thresholds = Thresholds(**cosines)
    return Calibration(
        thresholds,
        tuple(_row(name, getattr(thresholds, name), classes) for name in COSINES),
        {language: round(share, 3) for language, share in languages.items()},
        counted,
        round(_closer(classes["related"], classes["unrelated"]), 3),
        round(_closer(classes["same"], classes["related"]), 3),
    )


def cosine_at_share(sims: Sequence[float], share: float) -> float:
    """The cosine that this share of sims reaches: their quantile, linear between two of them."""
    return float(np.quantile(sims, 1.0 - share))


def share_reaching(sims: Sequence[float], cosine: float) -> float:
    """The share of sims at or above the cosine."""
    return sum(sim >= cosine for sim in sims) / len(sims)


# Classes and languages


def _by_label(
    sims: Sequence[float], pairs: Sequence[LabelledPair], languages: Sequence[str]
) -> dict[Label, list[float]]:
    classes: dict[Label, list[float]] = {label: [] for label in LABELS}
    for sim, pair in zip(sims, pairs, strict=True):
        if pair.language in languages:
            classes[pair.label].append(sim)
    return classes


def _languages_read(
    sims: Sequence[float], pairs: Sequence[LabelledPair], separation: Mapping[str, float]
) -> tuple[str, ...]:
    """The languages on one scale with the model's first: what parts related from unrelated there, parts them here.

    The first is the one with the most pairs, English, for which the sources set their values; for a model that does
    not read it, the one it reads best. A model gives every text of a language it never learned much the same vector:
    there its cosines say nothing, and counted with the others they would move every threshold.
    """
    sizes = Counter(pair.language for pair in pairs)
    from statistics import median  # only a calibration needs it: 2 ms of the start of every other

    middles: dict[str, tuple[float, float]] = {}  # the median unrelated and the median related cosine
    for language in sorted(sizes, key=lambda language: (-sizes[language], language)):
        classes = _by_label(sims, pairs, (language,))
        if all(classes.values()):
            middles[language] = median(classes["unrelated"]), median(classes["related"])
    read = [language for language in middles if separation[language] >= READ_MIN]
    first = read[0] if read else max(middles, key=lambda language: separation[language])
    parting = sum(middles[first]) / 2
    others = (language for language, (low, high) in middles.items() if language != first and low < parting < high)
    return (first, *sorted(others))


def _closer(ones: Sequence[float], others: Sequence[float]) -> float:
    """Probability that one of `ones` is larger than one of `others` (area under the ROC curve); a tie counts half."""
    if not ones or not others:
        return 0.5
    above = np.subtract.outer(np.asarray(ones), np.asarray(others))
    return float(((above > 0) + 0.5 * (above == 0)).mean())


# Thresholds


def _row(name: str, cosine: float, classes: Mapping[Label, Sequence[float]]) -> ThresholdRow:
    shares = {label: share_reaching(classes[label], cosine) for label in LABELS}
    wanted = _WANTED.get(name, _NEAR)
    hit = sum(shares[label] for label in LABELS if label in wanted)
    passed = sum(shares.values()) - (shares["differs"] if wanted == _GUARDED else 0.0)
    return ThresholdRow(
        name=name, source=None if name == "same" else getattr(SOURCE, name), cosine=cosine,
        same=round(shares["same"], 3), differs=round(shares["differs"], 3), related=round(shares["related"], 3),
        unrelated=round(shares["unrelated"], 3), precision=round(hit / passed, 3) if passed else 1.0,
        recall=round(hit / len(wanted), 3),
    )  # fmt: skip
