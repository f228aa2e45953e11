"""The strongest reasons for a rank, in words. SPEC 7.7

The features of a ranker are the terms of its formula (7.3), and their contributions sum up to its score: for `layered`
to the argument of its sigmoid, for the learned ranker to the log-odds. A contribution can be negative.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking.rankers import HOURS_A_DAY

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
    """At most three reasons for the rank of each candidate, the strongest first, in words.

    adds: (n, k) what each of the named features adds. Those of one subject count together.
    """
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
            return f"recent ({_ago(inputs.age_hours)})" if inputs.age_hours <= RECENT_HOURS_MAX else ""
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


def _ago(hours: float) -> str:
    if hours < 1:
        return "within the hour"
    return f"{int(hours)} h" if hours < 48 else f"{int(hours / HOURS_A_DAY)} d"
