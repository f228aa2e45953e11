"""The contributions of a ranker's features, summed in five groups that a person understands. SPEC 7.7

`word`: which words of the question a memory has. `sense`: how near its meaning is. `text`: what kind of text it is, who
wrote it and how much it matters. `near`: what stands beside it, in its session or note. `time`: when it happened. Each
ranker says of each of its features which group it is in (`RankerEntry.groups`).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

Group = Literal["word", "sense", "text", "near", "time"]
GROUPS: Final[tuple[Group, ...]] = get_args(Group)

EQUAL = 1e-6  # contributions that differ by less are the same number
NAMED_DIFFERENCE_MIN = 0.1  # of the larger sum: a smaller difference is not worth a word
PARTS_MAX = 2  # of a comparison

Values = NDArray[np.float64]


class ContributionSums(NamedTuple):
    """Sums of contributions. A group of which the ranker has no feature is NaN."""

    sums: Values  # (n, 5) in the order of GROUPS, without what is equal for all
    equal: float  # the sum of what is equal for all


def group_sums(names: Sequence[str], adds: NDArray[Any], groups: Mapping[str, Group]) -> ContributionSums | None:
    """The sums of the contributions (n, k) of some candidates; None where the group of a feature is not known.

    What each of several candidates has to the same amount says nothing about their order, and is left out.
    """
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
            if one.similarity is None or other.similarity is None or _is_same(one.similarity, other.similarity):
                return near
            return f"{near} ({one.similarity:.2f}, the other {other.similarity:.2f})"
        case "text":
            return f"reads {'more' if is_more else 'less'} like an answer"
        case "near":
            return f"has neighbours that fit {'better' if is_more else 'worse'}"
        case "time":
            return f"fits {'better' if is_more else 'worse'} by its time"


def _is_same(one: float, other: float) -> bool:
    """Return whether two similarities are the same as they are shown."""
    return math.isclose(round(one, 2), round(other, 2))
