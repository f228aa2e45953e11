"""Similarity thresholds for an embedding model, derived from labelled pairs of texts. SPEC 4.5

A source's threshold is an anchor: the share of one class of pairs that reaches it (one unrelated pair in twenty, half
of the related ones, …). On another model the threshold is the cosine that the same share reaches; values between two
anchors are interpolated. `same`, the project's own threshold, is chosen by the error rate it may have.
adr/0005-thresholds.md names the sources of the shares and what they cannot tell.
"""

import json
import pkgutil
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from mnemo_core.similarity.thresholds import COSINES, OF_G, OF_T, SOURCE, Thresholds

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


def _read_pairs() -> tuple[LabelledPair, ...]:
    data = pkgutil.get_data("mnemo_core.similarity", "pairs.jsonl") or b""
    return tuple(LabelledPair(**json.loads(line)) for line in data.decode().splitlines())


PAIRS = _read_pairs()


def calibrate(sims: Sequence[float], pairs: Sequence[LabelledPair]) -> Calibration:
    """The thresholds of a model from the cosine it gives each of `pairs`.

    Every label must be among the pairs of some language. Same input, same result.
    """
    languages = {language: _separation(sims, pairs, language) for language in sorted({p.language for p in pairs})}
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
        found |= {name: _carried(getattr(SOURCE, name), knots) for name in names}
    # Texts merged or counted as repetitions must be so in every language, supported or not.
    found["turn_repeat"] = max(found["turn_repeat"], cosine_at_share(everywhere["related"], 0.0))
    found["same"] = max(_same_from(everywhere), found["near"])
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


def _separation(sims: Sequence[float], pairs: Sequence[LabelledPair], language: str) -> float:
    classes = _by_label(sims, pairs, (language,))
    return _closer(classes["related"], classes["unrelated"])


def _closer(ones: Sequence[float], others: Sequence[float]) -> float:
    """Probability that one of `ones` is larger than one of `others` (area under the ROC curve); a tie counts half."""
    if not ones or not others:
        return 0.5
    above = np.subtract.outer(np.asarray(ones), np.asarray(others))
    return float(((above > 0) + 0.5 * (above == 0)).mean())


# Thresholds


def _carried(value: float, knots: Sequence[tuple[float, float]]) -> float:
    values, cosines = zip(*knots, strict=True)
    return float(np.interp(value, values, cosines))


def _same_from(classes: Mapping[Label, Sequence[float]]) -> float:
    """The lowest cosine from which on nearly all that differ in no specific say the same.

    That none differs is for the guard to see, which knows nothing of models: no cosine could (`differs` reaches higher
    than `same` on every model). All classes weigh the same.
    """
    others = (classes["related"], classes["unrelated"])
    lowest = 1.0
    for cosine in sorted(classes["same"], reverse=True):
        right = share_reaching(classes["same"], cosine)
        if right < SAME_PRECISION_MIN * (right + sum(share_reaching(sims, cosine) for sims in others)):
            break
        lowest = cosine
    return lowest


def _row(name: str, cosine: float, classes: Mapping[Label, Sequence[float]]) -> ThresholdRow:
    shares = {label: share_reaching(classes[label], cosine) for label in LABELS}
    wanted = _WANTED.get(name, _NEAR)
    hit = sum(shares[label] for label in LABELS if label in wanted)
    passed = sum(shares.values()) - (shares["differs"] if wanted == _GUARDED else 0.0)
    return ThresholdRow(
        name=name,
        source=None if name == "same" else getattr(SOURCE, name),
        cosine=cosine,
        same=round(shares["same"], 3),
        differs=round(shares["differs"], 3),
        related=round(shares["related"], 3),
        unrelated=round(shares["unrelated"], 3),
        precision=round(hit / passed, 3) if passed else 1.0,
        recall=round(hit / len(wanted), 3),
    )
