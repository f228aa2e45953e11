"""The strongest reasons for a rank, in words. SPEC 7.7

The features of a ranker are the terms of its formula (7.3), and their contributions sum up to its score: for `layered`
to the argument of its sigmoid, for the learned ranker to the log-odds. A contribution can be negative.

Contributions are also summed in five groups that a person understands. `word`: which words of the question a memory
has. `sense`: how near its meaning is. `text`: what kind of text it is, who wrote it and how much it matters. `near`:
its neighbours in its session or note. `time`: when it happened. Each ranker says of each of its features which
group it is in (`RankerEntry.groups`).
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking.rankers import HOURS_A_DAY
from mnemo_core.retrieval.ranking.ranking_features import GROUPS, Group

REASONS_MAX = 3
RECENT_HOURS_MAX = 30 * 24  # older memories are never called recent, whatever recency contributes

Values = NDArray[np.float64]


class ReasonInputs(NamedTuple):
    """Facts about a candidate that the reasons are worded with."""

    holds: Sequence[str]  # the question's words that it has
    similarity: float | None
    age_hours: float
    importance: float


_SUBJECTS = {
    "words": "words", "covered": "words", "terms": "words", "rarest": "words", "same_number": "number",
    "overlap": "words", "cosine": "meaning", "sim": "meaning", "late": "meaning", "relevance": "meaning",
    "asked": "beside", "session": "session", "speaker_named": "speaker", "date": "date", "recency": "recency",
    "importance": "importance", "weight": "weight", "text": "shape", "change": "change", "cross_encoder": "read",
    "page": "page", "said": "said", "here": "here", "tagged": "tagged",
}  # fmt: skip
_BESIDE = ("_before", "_after", "_before_2", "_after_2", "_beside", "_around", "_gain")
_ASKED_FOR = ("when", "where", "who", "how", "why", "what", "which", "wants")
# These say nothing for a candidate.
_UNSAID = ("other_named", "names_nobody", "by_person", "by_agent", "text_length", "archived", "few_candidates")


@functools.cache
def subject_of(feature: str) -> str | None:
    """The subject of a feature, None for one that no reason mentions."""
    if feature in _UNSAID:
        return None
    if feature.startswith("late_of_") or (feature.endswith(_BESIDE) and not feature.startswith("late")):
        return "beside"
    if feature.split("_")[0] in _ASKED_FOR:
        return "shape"
    return _SUBJECTS.get(feature) or _SUBJECTS.get(feature.split("_")[0])


def strongest_reasons(names: Sequence[str], adds: Values, inputs: Sequence[ReasonInputs]) -> list[list[str]]:
    """At most three reasons for the rank of each candidate, the strongest first, in words. adds: (n, k) what each of
    the named features adds. Those of one subject count together."""
    subjects = [subject_of(name) for name in names]
    known = sorted({subject for subject in subjects if subject is not None})
    is_of = np.array([[subject == each for each in known] for subject in subjects], np.float64)
    sums = adds @ is_of.reshape(len(subjects), len(known))
    found = []
    for each, row, order in zip(inputs, sums.tolist(), np.argsort(-sums, axis=1, kind="stable").tolist(), strict=True):
        said = (_sentence(known[place], each) for place in order if row[place] > 0)
        found.append(list(itertools.islice(filter(None, said), REASONS_MAX)))
    return found


def _sentence(subject: str, inputs: ReasonInputs) -> str:
    match subject:
        case "words":
            return f"has {', '.join(inputs.holds)}" if inputs.holds else ""
        case "meaning":
            return "close in meaning" + ("" if inputs.similarity is None else f" ({inputs.similarity:.2f})")
        case "recency":
            hours = inputs.age_hours
            ago = (
                "within the hour" if hours < 1 else f"{int(hours)} h" if hours < 48 else f"{int(hours / HOURS_A_DAY)} d"
            )
            return f"recent ({ago})" if hours <= RECENT_HOURS_MAX else ""
        case "importance":
            return f"important ({inputs.importance:.2f})"
    return _PLAIN[subject]


_PLAIN = {
    "number": "has the number asked about",
    "beside": "its neighbours fit the question",
    "session": "its session or note is about the question",
    "speaker": "said by the person named",
    "date": "from the time named",
    "weight": "strong by itself",
    "shape": "reads like an answer to this kind of question",
    "page": "its whole note is about the question",
    "said": "said by a person, not taken from a document",
    "here": "in the namespace of the request",
    "tagged": "has a tag that the question names",
    "change": "the latest of similar statements",
    "read": "answers the question, according to the reranker",
}


EQUAL = 1e-6  # contributions that differ by less are the same number
NAMED_DIFFERENCE_MIN = 0.1  # of the larger sum: a smaller difference is not worth a word
PARTS_MAX = 2  # of a comparison


class ContributionSums(NamedTuple):
    """Sums of contributions. A group of which the ranker has no feature is NaN."""

    sums: Values  # (n, 5) in the order of GROUPS, without what is equal for all
    equal: float  # the sum of what is equal for all


def group_sums(names: Sequence[str], adds: NDArray[Any], groups: Mapping[str, Group]) -> ContributionSums | None:
    """The sums of the contributions (n, k) of some candidates; None where the group of a feature is not known. What
    each of several candidates has to the same amount says nothing about their order, and is left out."""
    if not names or any(name not in groups for name in names):
        return None
    values = np.asarray(adds, np.float64)
    is_equal = np.zeros(len(names), np.bool_)
    if len(values) > 1:
        is_equal = np.ptp(values, axis=0) < EQUAL
    sums = np.full((len(values), len(GROUPS)), np.nan)
    for place, group in enumerate(GROUPS):
        is_of = np.array([groups[name] == group for name in names], np.bool_)
        if is_of.any():
            sums[:, place] = values[:, is_of & ~is_equal].sum(axis=1)
    return ContributionSums(sums, float(values[:1, is_equal].sum()))


class ComparedHit(NamedTuple):
    """A candidate, as it is compared with another one of the same answer."""

    held: int  # words of the question that it has
    similarity: float | None
    sums: Mapping[Group, float | None]


def comparison(one: ComparedHit, other: ComparedHit, words: int) -> str:
    """A sentence that says by what two candidates differ most, at most two things; "other" is the one that the first
    is compared with. words: of the question."""
    differences = {
        group: (one.sums.get(group) or 0.0) - (other.sums.get(group) or 0.0)
        for group in GROUPS
        if one.sums.get(group) is not None and other.sums.get(group) is not None
    }
    largest = max((abs(each) for each in differences.values()), default=0.0)
    named = sorted(
        (group for group, each in differences.items() if abs(each) > max(EQUAL, NAMED_DIFFERENCE_MIN * largest)),
        key=lambda group: -abs(differences[group]),
    )
    parts = [_part(group, differences[group], one, other, words) for group in named[:PARTS_MAX]]
    if not parts:
        return "Nothing that counts tells them apart."
    return f"It {', and '.join(parts)}."


def _part(group: Group, difference: float, one: ComparedHit, other: ComparedHit, words: int) -> str:
    is_more = difference > 0
    match group:
        case "word":
            if one.held != other.held:
                return f"has {one.held} of the question's {words} words, the other {other.held}"
            return f"has words that weigh {'more' if is_more else 'less'}"
        case "sense":
            near = "is closer in meaning" if is_more else "is further off in meaning"
            if (
                one.similarity is None
                or other.similarity is None
                or round(one.similarity, 2) == round(other.similarity, 2)
            ):
                return near
            return f"{near} ({one.similarity:.2f}, the other {other.similarity:.2f})"
        case "text":
            return f"reads {'more' if is_more else 'less'} like an answer"
        case "near":
            return f"has neighbours that fit {'better' if is_more else 'worse'}"
        case "time":
            return f"fits {'better' if is_more else 'worse'} by its time"
