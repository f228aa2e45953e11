"""What the learned fusion goes by: numbers that say how a memory stands to a question. SPEC 7.3 (`auto`)

Pure arithmetic over arrays. A candidate is one place of `n`; what is known of it and of those that stand beside it in
its session or note is in arrays of `m` places, to which `near` leads. Everything is relative: to the best of the
question, to the candidates' mean and spread, to the weight of the question's words, so that a number means the same in
a small store and in a large one, in talk and in notes.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.question_shape import QuestionShape
from mnemo_core.text_shape import Shape

NEAR_COSINE_MIN = 0.3  # a best cosine under it is not stretched to 1: what is far from everything stays far
CLOSE_TOKEN_SIM = 0.5  # of a token of the question and its best token in a text: above it they are of one meaning
SESSION_BEST = 4  # so many of a session's candidates speak for it
RANK_SCALE = 5.0  # a place in the order of a channel counts 1, 5/6, 5/7 …
SPREAD_MIN = 1e-6
BESIDE: Final = ("before", "after", "before_2", "after_2")  # the rows of `near` behind the first, the candidate itself
MONTHS_NEAR_DAYS = 20  # said in the first days of a month, it may be about the month before

Floats = NDArray[np.float32]
Places = NDArray[np.intp]
Bools = NDArray[np.bool_]


class Evidence(NamedTuple):
    """What is known of a question's candidates. t terms, n candidates, m memories: candidates and those beside them.

    `weights` are the terms' BM25 weights; `is_name`: the term names someone who speaks in what is searched. `speaks` is
    1 where a candidate's speaker is named in the question, −1 where others are and not he, 0 where nobody is or nobody
    spoke. `fits_date`: 1 or 0 where the question names a month or year, NaN where it names none.
    """

    weights: Floats  # (t,)
    is_name: Bools  # (t,)
    is_number: Bools  # (t,)
    holds: Bools  # (t, m)
    words: Floats  # (m,) BM25
    sims: Floats  # (m,) cosine; NaN where a memory has no vector
    shape: NDArray[np.uint32]  # (m,) text_shape.shape_of
    lengths: NDArray[np.uint16]  # (m,) words
    near: Places  # (5, n) of the candidate, and of those beside it as in BESIDE; −1: none
    group: NDArray[np.int64]  # (n,) of its session or note; −1: of none
    speaks: NDArray[np.int8]  # (n,)
    fits_date: Floats  # (n,)
    question: QuestionShape


class Late(NamedTuple):
    """Late interaction: for each token of the question (q) its best similarity in a text. Weights sum to 1."""

    own: Floats  # (n, q)
    before: Floats  # (n, q); −1 where nothing stands there
    after: Floats  # (n, q)
    weights: Floats  # (q,)


class Table(NamedTuple):
    """Features by name: (n, k)."""

    names: tuple[str, ...]
    values: Floats


_TEXT_BITS: Final = {
    "asks": Shape.ENDS_WITH_QUESTION, "has_question": Shape.HAS_QUESTION, "number": Shape.HAS_NUMBER,
    "date": Shape.HAS_DATE, "proper": Shape.HAS_PROPER, "quote": Shape.HAS_QUOTE, "unit": Shape.HAS_MONEY_OR_UNIT,
    "reason": Shape.HAS_REASON, "first_person": Shape.FIRST_PERSON, "list": Shape.HAS_LIST, "place": Shape.HAS_PLACE,
    "duration": Shape.HAS_DURATION, "feeling": Shape.HAS_FEELING, "negation": Shape.HAS_NEGATION,
    "reaction": Shape.IS_REACTION, "short": Shape.IS_SHORT,
}  # fmt: skip
_BITS: Final = np.array([int(bit) for bit in _TEXT_BITS.values()], np.uint32)

# What a question asks for, and what a text that answers it has.
_ANSWERED_BY: Final = (
    ("when", ("date", "number", "duration")),
    ("where", ("place", "proper")),
    ("who", ("proper",)),
    ("how_many", ("number", "unit")),
    ("how_long", ("duration", "number", "date")),
    ("why", ("reason", "feeling")),
    ("what", ("proper", "quote", "list", "number", "date")),
    ("which", ("proper", "quote", "list")),
    ("how", ("feeling",)),
    ("wants_title", ("quote", "proper")),
)


_CROSSED: Final = tuple((asked, name) for asked, names in _ANSWERED_BY for name in names)
_CROSSED_BITS: Final = np.array([list(_TEXT_BITS).index(name) for _, name in _CROSSED])
_SHAPE_NAMES: Final = (*(f"text_{name}" for name in _TEXT_BITS), *(f"{asked}_{name}" for asked, name in _CROSSED))


def table(evidence: Evidence) -> Table:
    """Every feature but those of late interaction. No value is NaN."""
    found: dict[str, Floats] = {}
    _add_words(found, evidence)
    _add_sims(found, evidence)
    _add_beside(found, evidence)
    _add_groups(found, evidence)
    _add_rest(found, evidence)
    values = np.stack(list(found.values()), axis=1)
    return Table((*found, *_SHAPE_NAMES), np.concatenate([values, _shapes(evidence)], axis=1).astype(np.float32))


def late_table(late: Late) -> Table:
    """The features of late interaction, among the candidates for which it was computed."""
    weights = late.weights
    own, with_before = late.own, np.maximum(late.own, late.before)
    with_after = np.maximum(late.own, late.after)
    around = np.maximum(with_before, late.after)
    found: dict[str, Floats] = {}
    for name, sims in (
        ("late", own), ("late_before", with_before), ("late_after", with_after), ("late_around", around),
    ):  # fmt: skip
        value = sims @ weights
        found[name] = value
        found[f"{name}_share"] = value / max(float(value.max(initial=0.0)), NEAR_COSINE_MIN)
        found[f"{name}_z"] = _z(value)
    for name, sims in (("late_of_before", late.before), ("late_of_after", late.after)):
        value = np.maximum(sims @ weights, 0)
        found[name] = value
        found[f"{name}_share"] = value / max(float(value.max(initial=0.0)), NEAR_COSINE_MIN)
    plain = own.mean(axis=1, dtype=np.float32)
    found["late_plain"], found["late_plain_z"] = plain, _z(plain)
    close = np.maximum(own - CLOSE_TOKEN_SIM, 0) @ weights
    found["late_close"], found["late_close_z"] = close, _z(close)
    square = (own * own).astype(np.float32) @ weights
    found["late_square"], found["late_square_z"] = square, _z(square)
    found["late_least"] = own.min(axis=1, initial=1.0)
    return Table(tuple(found), np.stack(list(found.values()), axis=1).astype(np.float32))


def light_of(words: Floats, sims: Floats) -> Floats:
    """Half the share of the best BM25, half that of the best cosine: who is worth a look at what is beside it."""
    share = _share(_known(words, sims), NEAR_COSINE_MIN)
    return (0.5 * _share(words, SPREAD_MIN) + 0.5 * share).astype(np.float32)


def fits_date(months: Collection[int], years: Collection[int], event_at: NDArray[np.int64]) -> Floats:
    """1 where what happened at a time (ms) is of one of the months and years, 0 where not; NaN where none is named."""
    if not months and not years:
        return np.full(len(event_at), np.nan, np.float32)
    at = event_at.astype("datetime64[ms]")
    fits = np.zeros(len(event_at), np.bool_)
    for moment in (at, at - np.timedelta64(MONTHS_NEAR_DAYS, "D")):
        month = moment.astype("datetime64[M]").astype(np.int64) % 12 + 1
        year = moment.astype("datetime64[Y]").astype(np.int64) + 1970
        of_month = np.isin(month, list(months)) if months else np.ones_like(fits)
        fits |= of_month & (np.isin(year, list(years)) if years else True)
    return fits.astype(np.float32)


def imputed(sims: Floats, is_missing: Bools, light: Floats) -> Floats:
    """(n, q) with those of texts without token rows taken to be as near as the rest of them is good (`light_of`), so
    that what was just said is found at once."""
    if not is_missing.any():
        return sims
    best = sims[~is_missing].max(axis=0, initial=0.0)
    return np.where(is_missing[:, None], best * light[:, None], sims).astype(np.float32)


def _known(words: Floats, sims: Floats) -> Floats:
    """Cosines; what has no vector yet is taken to be as near as its words are good."""
    missing = np.isnan(sims)
    if not missing.any():
        return sims
    best = float(np.max(sims, where=~missing, initial=NEAR_COSINE_MIN))
    return np.where(missing, best * _share(words, SPREAD_MIN), sims).astype(np.float32)


def _add_words(found: dict[str, Floats], evidence: Evidence) -> None:
    own = evidence.near[0]
    words, holds = evidence.words[own].astype(np.float32), evidence.holds[:, own]
    content = ~evidence.is_name
    found["words"] = _share(words, SPREAD_MIN)
    found["words_log"] = np.log1p(words).astype(np.float32)
    found["words_z"] = _z(words)
    found["words_rank"] = np.where(words > 0, _rank(words), 0).astype(np.float32)
    found["covered"] = _covered(evidence, holds, np.ones_like(content))
    found["covered_content"] = _covered(evidence, holds, content)
    held = holds[content].sum(axis=0, dtype=np.float32)
    found["terms"] = held
    found["terms_share"] = held / np.float32(max(1, int(content.sum())))
    weights: Floats = evidence.weights[content]
    rarest = np.asarray((holds[content] * weights[:, None]).max(axis=0, initial=0.0), np.float32)
    found["rarest"] = rarest
    found["rarest_share"] = rarest / np.float32(max(weights.tolist(), default=1.0))
    found["same_number"] = np.asarray(holds[evidence.is_number].any(axis=0), np.float32)


def _add_sims(found: dict[str, Floats], evidence: Evidence) -> None:
    sims = _known(evidence.words, evidence.sims)[evidence.near[0]]
    found["sim"] = sims
    found["sim_share"] = _share(sims, NEAR_COSINE_MIN)
    found["sim_z"] = _z(sims)
    found["sim_rank"] = _rank(sims)


def _add_beside(found: dict[str, Floats], evidence: Evidence) -> None:
    """What stands before and after: a question that is asked just before, the rest of what is told."""
    places = evidence.near[1:]
    is_there = places >= 0
    content = ~evidence.is_name
    by_name = {
        "words": _share(evidence.words, SPREAD_MIN),
        "sim": _share(_known(evidence.words, evidence.sims), NEAR_COSINE_MIN),
        "covered": _covered(evidence, evidence.holds, content),
    }
    for name, values in by_name.items():
        rows = np.where(is_there, values[places], np.float32(0))
        found.update((f"{name}_{where}", row) for where, row in zip(BESIDE, rows, strict=True))
        if name != "covered":
            found[f"{name}_beside"] = rows.max(axis=0)
    asks = (evidence.shape[places[0]] & np.uint32(Shape.ENDS_WITH_QUESTION) != 0) & is_there[0]
    found["asked_before"] = asks.astype(np.float32)
    found["asked_before_words"] = asks * found["covered_before"]
    found["asked_before_sim"] = asks * found["sim_before"]
    holds = evidence.holds[content]
    around = holds[:, evidence.near[0]] | (holds[:, places] & is_there).any(axis=1)
    found["covered_around"] = _weighed(evidence.weights[content], around)
    found["covered_gain"] = found["covered_around"] - found["covered_content"]


def _add_groups(found: dict[str, Floats], evidence: Evidence) -> None:
    """How much of the session or note is about the question."""
    n = len(evidence.group)
    own = evidence.near[0]
    lights = light_of(evidence.words, evidence.sims)[own]
    total, best, covered = (np.zeros(n, np.float32) for _ in range(3))
    is_grouped = np.flatnonzero(evidence.group >= 0)
    if len(is_grouped):
        _, groups = np.unique(evidence.group[is_grouped], return_inverse=True)
        count = int(groups.max()) + 1
        order = np.lexsort((-lights[is_grouped], groups))
        starts = np.searchsorted(groups[order], np.arange(count))
        place = np.arange(len(order)) - starts[groups[order]]
        kept = order[place < SESSION_BEST]
        sums = np.bincount(groups[kept], lights[is_grouped][kept], count) / SESSION_BEST
        total[is_grouped] = sums[groups]
        best[is_grouped] = lights[is_grouped][order[starts]][groups]
        held = np.zeros((len(evidence.weights), count), np.bool_)
        terms, members = np.nonzero(evidence.holds[:, own[is_grouped]])
        held[terms, groups[members]] = True
        covered[is_grouped] = _covered(evidence, held, ~evidence.is_name)[groups]
    found["session"] = total
    found["session_share"] = total / max(float(total.max(initial=0.0)), SPREAD_MIN)
    found["session_covered"] = covered
    found["session_best"] = best


def _add_rest(found: dict[str, Floats], evidence: Evidence) -> None:
    """Who speaks, when, and at what length."""
    n = len(evidence.group)
    found["speaker_named"] = (evidence.speaks > 0).astype(np.float32)
    found["other_named"] = (evidence.speaks < 0).astype(np.float32)
    found["names_nobody"] = np.full(n, not evidence.is_name.any(), np.float32)
    is_dated = not np.isnan(evidence.fits_date).any()
    found["date_fits"] = evidence.fits_date if is_dated else np.zeros(n, np.float32)
    found["date_differs"] = 1 - evidence.fits_date if is_dated else np.zeros(n, np.float32)
    found["text_length"] = np.log1p(evidence.lengths[evidence.near[0]]).astype(np.float32)


def _shapes(evidence: Evidence) -> Floats:
    """What each text has, and what of that the question asks for: as in _SHAPE_NAMES."""
    has = (evidence.shape[evidence.near[0]][:, None] & _BITS) != 0
    asked = np.array([getattr(evidence.question, name) for name, _ in _CROSSED], np.bool_)
    return np.concatenate([has, has[:, _CROSSED_BITS] & asked], axis=1).astype(np.float32)


def _covered(evidence: Evidence, holds: Bools, chosen: Bools) -> Floats:
    """The share of the chosen terms' weight that is held: 0 to 1, 0 where no term is chosen."""
    return _weighed(evidence.weights[chosen], holds[chosen])


def _weighed(weights: Floats, holds: Bools) -> Floats:
    total = float(weights.sum())
    if total <= 0:
        return np.zeros(holds.shape[1], np.float32)
    share: Floats = (weights / np.float32(total)) @ holds
    return share


def _share(values: Floats, least: float) -> Floats:
    """Of the best value, which counts as `least` at least."""
    share: Floats = (values / max(float(values.max(initial=0.0)), least)).astype(np.float32)
    return share


def _z(values: Floats) -> Floats:
    """How many standard deviations over the mean."""
    if not len(values):
        return values
    deviations: Floats = ((values - values.mean()) / (values.std() + SPREAD_MIN)).astype(np.float32)
    return deviations


def _rank(values: Floats) -> Floats:
    """1 for the best, less for each place behind it; equal values share the place of the first."""
    order = np.argsort(-values, kind="stable")
    places = np.empty(len(values), np.float32)
    ordered = values[order]
    firsts = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(values) else np.zeros(0, np.bool_)
    places[order] = np.maximum.accumulate(np.where(firsts, np.arange(len(values)), 0))
    return (1 / (1 + places / RANK_SCALE)).astype(np.float32)
