"""Explanations of scores: the contribution of each feature, and the strongest reasons in words. SPEC 7.7

The features of a ranker are the terms of its formula (7.3), and their contributions sum up to its score: for `layered`
to the argument of its sigmoid, for the learned ranker to the log-odds. A contribution can be negative.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking import decay_ranker, lexical_ranker, rankers
from mnemo_core.retrieval.ranking.rankers import Candidates, RankingRequest, RankingScores
from mnemo_store.records import LAYERS, STATES

REASONS_MAX = 3
RECENT_HOURS_MAX = 30 * 24  # older memories are never called recent, whatever recency contributes

Values = NDArray[np.float64]

_ARCHIVED = STATES.index("archived")
_BUFFER = LAYERS.index("buffer")


class Contributions(NamedTuple):
    """A ranker's features of all candidates, by name, and what each adds."""

    features: dict[str, Values]
    amounts: dict[str, Values]


class ReasonInputs(NamedTuple):
    """Facts about a candidate that the reasons are worded with."""

    holds: Sequence[str]  # the question's words that it has
    similarity: float | None
    age_hours: float
    importance: float


def ranker_contributions(asked: RankingRequest, candidates: Candidates, scored: RankingScores) -> Contributions:
    """The features of the ranker that was used; of the learned fusion, which has a table of its own, none."""
    share = rankers.word_share(candidates.words).astype(np.float64)
    near = rankers.cosine(candidates.sims).astype(np.float64)
    known = ~np.isnan(candidates.sims)
    fresh = lexical_ranker.recency(_age_hours(asked, candidates.event_at))
    weigh = candidates.importance.astype(np.float64)
    features: dict[str, Values]
    adds: dict[str, Values]
    match scored.ranker:
        case "auto":
            if candidates.learned is not None:
                return Contributions({}, {})
            features = {
                "words_share": share,
                "cosine_share": near / max(rankers.NEAR_COSINE, float(near.max(initial=0))),
            }
            half = np.where(known, 1 - rankers.WORDS_WEIGHT, 1.0)
            adds = {"words_share": half * share, "cosine_share": (1 - half) * features["cosine_share"]}
        case "words":
            features = adds = {"words_held": rankers.words_held(candidates.words, asked.words_full)}
        case "cosine":
            features = adds = {"cosine": near}
        case "deterministic" | "hybrid":
            features, adds = _hybrid(asked, candidates, scored, fresh)
        case "layered":
            features, adds = _layered(asked, candidates, scored)
        case "fused":
            features, adds = _fused(asked, candidates, near)
        case "rerank":
            words_alone = np.where(known, 0.0, share)
            features = {"cosine": near, "words_share": words_alone, "importance": weigh}
            relevance = rankers.BLEND_RELEVANCE_SHARE
            adds = {
                "cosine": relevance * near, "words_share": relevance * words_alone,
                "importance": rankers.BLEND_IMPORTANCE_SHARE * weigh,
            }  # fmt: skip
            cross = candidates.cross
            if cross is not None and scored.mode == "cross_encoder":
                lowest, is_read = float(np.nanmin(cross)), ~np.isnan(cross)
                adds = {name: np.where(is_read, 0.0, lowest * values) for name, values in adds.items()}
                features["cross_encoder"] = cross.astype(np.float64)
                adds["cross_encoder"] = np.where(is_read, cross, 0.0).astype(np.float64)
            if candidates.late is not None and scored.mode == "late":
                late = np.clip(candidates.late, 0.0, 1.0).astype(np.float64)
                adds = {name: np.where(np.isnan(late), values, 0.0) for name, values in adds.items()}
                features, adds = features | {"late": late}, adds | {"late": np.nan_to_num(late)}
        case _:  # a ranker without features of its own is explained by its score
            score = {"score": scored.scores.astype(np.float64)}
            return Contributions(score, score)
    return Contributions(features, _archived(candidates, scored, adds))


def _hybrid(
    asked: RankingRequest, candidates: Candidates, scored: RankingScores, fresh: Values
) -> tuple[dict[str, Values], dict[str, Values]]:
    near = rankers.cosine(candidates.sims).astype(np.float64)
    if scored.mode == "semantic":
        return {"cosine": near}, {"cosine": near}
    assert candidates.overlap is not None, "this ranker goes by the tokens of the texts"
    overlap, weigh = candidates.overlap.astype(np.float64), candidates.importance.astype(np.float64)
    features = {"overlap": overlap, "recency": fresh, "importance": weigh}
    adds = {
        "overlap": (1 - asked.recency_bias) * overlap, "recency": asked.recency_bias * fresh,
        "importance": lexical_ranker.IMPORTANCE_BONUS * weigh,
    }  # fmt: skip
    if scored.mode != "hybrid":
        return features, adds
    best = max(lexical_ranker.BEST_MIN, float(sum(adds.values(), np.zeros(len(near))).max(initial=0.0)))
    known = ~np.isnan(candidates.sims)
    left = np.where(known, 1 - asked.semantic_weight, 1.0)
    features["cosine"] = near
    adds = {name: left * values / best for name, values in adds.items()}
    adds["cosine"] = (1 - left) * near / max(lexical_ranker.BEST_MIN, float(near.max(initial=0.0)))
    return features, adds


def _layered(
    asked: RankingRequest, candidates: Candidates, scored: RankingScores
) -> tuple[dict[str, Values], dict[str, Values]]:
    fit = scored.relevance.astype(np.float64)
    worth = decay_ranker.weight(
        candidates.strength, candidates.repetitions, candidates.accesses, candidates.kind, candidates.layer,
        candidates.state,
    )  # fmt: skip
    used_at = np.where(candidates.last_accessed > 0, candidates.last_accessed, candidates.created_at)
    fresh = decay_ranker.recency(_age_hours(asked, used_at), candidates.decay_rate)
    features = {"relevance": fit, "weight": worth, "recency": fresh}
    return features, {
        "relevance": fit, "weight": decay_ranker.WEIGHT_SHARE * worth * fit,
        "recency": decay_ranker.RECENCY_SHARE * fresh * fit
    }  # fmt: skip


def _fused(asked: RankingRequest, candidates: Candidates, near: Values) -> tuple[dict[str, Values], dict[str, Values]]:
    age_days = _age_hours(asked, candidates.event_at) / rankers.HOURS_A_DAY
    recent, long_term = rankers.RECENT_TIME_CONSTANT_DAYS, rankers.LONG_TERM_TIME_CONSTANT_DAYS
    fresh = np.exp(-age_days / np.where(candidates.layer == _BUFFER, recent, long_term))
    weigh = candidates.importance.astype(np.float64)
    features = {"cosine": near, "recency": fresh, "importance": weigh}
    adds = {
        "cosine": rankers.SIM_SHARE * near, "recency": rankers.RECENCY_SHARE * fresh,
        "importance": rankers.IMPORTANCE_SHARE * weigh,
    }  # fmt: skip
    return features, adds


def _archived(candidates: Candidates, scored: RankingScores, adds: dict[str, Values]) -> dict[str, Values]:
    """Add the contribution of being archived, where a candidate is."""
    is_archived = candidates.state == _ARCHIVED
    if not rankers.RANKER_TABLE[scored.ranker].lowers_archived or not is_archived.any():
        return adds
    total = sum(adds.values(), np.zeros(len(is_archived)))
    return adds | {"archived": np.where(is_archived, (rankers.ARCHIVED_FACTOR - 1) * total, 0.0)}


def _age_hours(asked: RankingRequest, at: NDArray[np.int64]) -> Values:
    ages: Values = np.maximum(asked.now - at, 0) / rankers.MS_AN_HOUR
    return ages


# In words


_SUBJECTS = {
    "words": "words", "covered": "words", "terms": "words", "rarest": "words", "same_number": "number",
    "overlap": "words", "cosine": "meaning", "sim": "meaning", "late": "meaning", "relevance": "meaning",
    "asked": "beside", "session": "session", "speaker_named": "speaker", "date": "date", "recency": "recency",
    "importance": "importance", "weight": "weight", "text": "shape", "change": "change", "cross_encoder": "read",
    "page": "page", "said": "said", "here": "here",
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
    "change": "the latest of similar statements",
    "read": "answers the question, according to the reranker",
}


def _ago(hours: float) -> str:
    if hours < 1:
        return "within the hour"
    return f"{int(hours)} h" if hours < 48 else f"{int(hours / rankers.HOURS_A_DAY)} d"
