"""Features of the learned ranker: numbers that relate a memory to a question. SPEC 7.3 (`auto`)

Pure arithmetic over arrays. Candidates are arrays of length `n`; candidates and their neighbours in a session or note
are arrays of length `m`, which `neighbour_rows` indexes. Every feature is relative: to the best of the question, to the
mean and spread of the candidates, to the weight of the question's words. A number therefore means the same in a small
store and in a large one, in conversations and in notes.

The features of a candidate's origin are added to the log-odds of the ranker. The others describe a candidate and its
direct neighbours. These describe the whole file of a note, distinguish what somebody said from documents, and the
namespace of the request from `default`, prefer what has a tag that the question names, and put questions behind
statements. They are few, bounded and added last, so that their effect can be read off
(daemon/docs/adr/0009-page-and-own-first.md).
"""

import math
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mnemo_core.text.query_features import QueryFeatures
from mnemo_core.text.text_features import TextFeature

NEAR_COSINE_MIN = 0.3  # a lower best cosine is not scaled up to 1: a query far from everything stays far
CLOSE_TOKEN_SIM = 0.5  # of a token of the question and its best token in a text: above it they are of one meaning
SESSION_BEST = 4  # so many of a session's candidates speak for it
RANK_SCALE = 5.0  # a place in the order of a channel counts 1, 5/6, 5/7 …
SPREAD_MIN = 1e-6
# The rows of `near` behind the first, the candidate itself
NEIGHBOUR_POSITIONS: Final = ("before", "after", "before_2", "after_2")
CHANGES: Final = ("change_newer", "change_older", "change_newer_fits", "change_older_fits")
STATEMENT_GAP_MS = 60_000  # statements made within a minute belong together
ODDS_BEHIND_MAX = 8.0  # a chance so far behind the best, as log-odds, is none
MONTHS_NEAR_DAYS = 20  # said in the first days of a month, it may be about the month before

Group = Literal["word", "sense", "text", "near", "time"]  # of features, summed for a person: explanations.py
GROUPS: Final[tuple[Group, ...]] = get_args(Group)

Floats = NDArray[np.float32]
Places = NDArray[np.intp]
Bools = NDArray[np.bool_]


class FeatureInputs(NamedTuple):
    """Data about the candidates of a question: t terms, n candidates, m memories (candidates and their neighbours).

    `weights` are the terms' BM25 weights; `is_name`: the term names a speaker of the searched memories. `speaks` is 1
    where the question names the candidate's speaker, −1 where it names other speakers, 0 where it names none or nobody
    spoke. `fits_date`: 1 or 0 where the question names a month or year, NaN where it names none.
    """

    weights: Floats  # (t,)
    is_name: Bools  # (t,)
    is_number: Bools  # (t,)
    holds: Bools  # (t, m)
    words: Floats  # (m,) BM25
    sims: Floats  # (m,) cosine; NaN where a memory has no vector
    shape: NDArray[np.uint32]  # (m,) text_features.features_of_text
    lengths: NDArray[np.uint16]  # (m,) words
    neighbour_rows: Places  # (5, n): the candidate, then its neighbours as in NEIGHBOUR_POSITIONS; −1: none
    group: NDArray[np.int64]  # (n,) of its session or note; −1: of none
    speaks: NDArray[np.int8]  # (n,)
    roles: NDArray[np.int8]  # (n,) 1: said as a person, −1: as an agent, 0: neither
    fits_date: Floats  # (n,)
    question: QueryFeatures
    is_cjk: bool = False  # of which an embedding model may know little


class TokenSimilarities(NamedTuple):
    """Late interaction: for each token of the question (q) its best similarity in a text. Weights sum to 1."""

    own: Floats  # (n, q)
    before: Floats  # (n, q); −1 where there is no neighbour
    after: Floats  # (n, q)
    weights: Floats  # (q,)
    is_cjk: bool = False


class StandaloneStatements(NamedTuple):
    """Statements outside any conversation or note. Such a statement may be the newer value of another one."""

    rows: Places  # (s,) of the candidates
    sims: Floats  # (s, s) cosines among them
    stated_at: NDArray[np.int64]  # (s,) ms
    odds: Floats  # (s,) by the first look


class FeatureTable(NamedTuple):
    """Features by name: (n, k)."""

    names: tuple[str, ...]
    values: Floats


class _View(NamedTuple):
    """Intermediate values that several features share. Arrays of length m + 1 end in a 0, which the row −1 (none)
    selects."""

    own: Places  # (n,) the candidates among the memories
    words: Floats  # (n,) BM25
    sims: Floats  # (n,) cosine, imputed for a memory without a vector
    lights: Floats  # (n,) mean of the shares of the best BM25 and of the best cosine
    weights: Floats  # (t,) of the terms that are no names, 0 of those that are; together 1
    holds: Floats  # (t, m + 1) 1 where a term is held
    shares: Floats  # (3, m + 1) of the best BM25, of the best cosine, and of the weight of the terms that are no names


_TEXT_BITS: Final = {
    "asks": TextFeature.ENDS_WITH_QUESTION, "has_question": TextFeature.HAS_QUESTION, "number": TextFeature.HAS_NUMBER,
    "date": TextFeature.HAS_DATE, "proper": TextFeature.HAS_PROPER, "quote": TextFeature.HAS_QUOTE,
    "unit": TextFeature.HAS_MONEY_OR_UNIT,
    "reason": TextFeature.HAS_REASON, "first_person": TextFeature.FIRST_PERSON, "list": TextFeature.HAS_LIST,
    "place": TextFeature.HAS_PLACE,
    "duration": TextFeature.HAS_DURATION, "feeling": TextFeature.HAS_FEELING, "negation": TextFeature.HAS_NEGATION,
    "reaction": TextFeature.IS_REACTION, "short": TextFeature.IS_SHORT,
}  # fmt: skip
_BITS: Final = np.array([int(bit) for bit in _TEXT_BITS.values()], np.uint32)

# By kind of question, the text features of its answers.
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
_CROSSED_ASKED: Final = np.array([QueryFeatures._fields.index(asked) for asked, _ in _CROSSED])
_SHAPE_NAMES: Final = (*(f"text_{name}" for name in _TEXT_BITS), *(f"{asked}_{name}" for asked, name in _CROSSED))

_BY_GROUP: Final[dict[Group, str]] = {
    "word": """words words_log words_z words_rank covered covered_content terms terms_share rarest rarest_share
        same_number words_cjk words_z_cjk covered_cjk speaker_named other_named""",
    "sense": """sim sim_share sim_z sim_rank sim_share_cjk sim_z_cjk late late_share late_z late_before
        late_before_share late_before_z late_after late_after_share late_after_z late_around late_around_share
        late_around_z late_plain late_plain_z late_close late_close_z late_square late_square_z late_least
        late_share_cjk late_z_cjk late_around_z_cjk""",
    "text": f"by_person by_agent names_nobody text_length {' '.join(_SHAPE_NAMES)}",
    "near": """words_before words_after words_before_2 words_after_2 words_beside sim_before sim_after sim_before_2
        sim_after_2 sim_beside covered_before covered_after covered_before_2 covered_after_2 asked_before
        asked_before_words asked_before_sim covered_around covered_gain session session_share session_covered
        session_best late_of_before late_of_before_share late_of_after late_of_after_share""",
    "time": f"date_fits date_differs {' '.join(CHANGES)}",
}
FEATURE_GROUPS: Final[dict[str, Group]] = {
    name: group for group, names in _BY_GROUP.items() for name in names.split()
}  # of every feature


def feature_table(evidence: FeatureInputs) -> FeatureTable:
    """Every feature but those of late interaction. No value is NaN."""
    view = _view(evidence)
    found: dict[str, Floats] = {}
    _add_words_and_sims(found, evidence, view)
    _add_beside(found, evidence, view)
    _add_groups(found, evidence, view)
    # Add the features of speaker, date and length.
    n = len(evidence.group)
    found["speaker_named"] = (evidence.speaks > 0).astype(np.float32)
    found["other_named"] = (evidence.speaks < 0).astype(np.float32)
    found["by_person"] = (evidence.roles > 0).astype(np.float32)
    found["by_agent"] = (evidence.roles < 0).astype(np.float32)
    found["names_nobody"] = np.full(n, not evidence.is_name.any(), np.float32)
    is_dated = not np.isnan(evidence.fits_date).any()
    found["date_fits"] = evidence.fits_date if is_dated else np.zeros(n, np.float32)
    found["date_differs"] = 1 - evidence.fits_date if is_dated else np.zeros(n, np.float32)
    found["text_length"] = np.log1p(evidence.lengths[evidence.neighbour_rows[0]]).astype(np.float32)
    return _table((*found, *_SHAPE_NAMES), [*found.values(), *_shapes(evidence)])


def token_feature_table(late: TokenSimilarities) -> FeatureTable:
    """The features of late interaction, among the candidates for which it was computed."""
    own, before, after = late.own, late.before, late.after
    with_before, with_after = np.maximum(own, before), np.maximum(own, after)
    around, close = np.maximum(with_before, after), np.maximum(own - CLOSE_TOKEN_SIM, 0)
    kinds = np.stack([own, with_before, with_after, around, before, after, close, own * own])
    means = np.empty((len(kinds) + 1, len(own)), np.float32)  # by the weights; the last one without them
    (kinds * late.weights).sum(axis=2, out=means[:-1])
    own.mean(axis=1, out=means[-1])
    np.maximum(means[4:6], 0, out=means[4:6])
    shares = means / means.max(axis=1, initial=NEAR_COSINE_MIN)[:, None]
    deviations = _z(means)
    found: dict[str, Floats] = {}
    for place, name in enumerate(("late", "late_before", "late_after", "late_around")):
        found[name], found[f"{name}_share"], found[f"{name}_z"] = means[place], shares[place], deviations[place]
    for place, name in enumerate(("late_of_before", "late_of_after"), 4):
        found[name], found[f"{name}_share"] = means[place], shares[place]
    for place, name in ((8, "late_plain"), (6, "late_close"), (7, "late_square")):
        found[name], found[f"{name}_z"] = means[place], deviations[place]
    found["late_least"] = own.min(axis=1, initial=1.0)
    for name in ("late_share", "late_z", "late_around_z"):
        found[f"{name}_cjk"] = found[name] if late.is_cjk else np.zeros_like(found[name])
    return _table(tuple(found), list(found.values()))


def is_statement(session: NDArray[Any], speaker: NDArray[Any], managed: NDArray[Any], is_turn: Bools) -> Bools:
    """Mask of the statements that stand alone, by the codes of session, speaker and file (0: none).

    A turn is none, since its neighbours belong to the same conversation, and neither is a passage of a note, whose time
    is when the file was saved.
    """
    found: Bools = ((session == 0) | (speaker == 0)) & (managed == 0) & ~is_turn
    return found


def change_table(statements: StandaloneStatements, count: int) -> FeatureTable:
    """Similarity to the nearest later and the nearest earlier statement, and the same weighted by how well those
    answer. All 0 for a candidate (of `count`) that is no statement."""
    later = statements.stated_at[None, :] - statements.stated_at[:, None]
    near = np.maximum(statements.sims - NEAR_COSINE_MIN, 0) / (1 - NEAR_COSINE_MIN)
    fits = np.exp(np.clip(statements.odds - statements.odds.max(initial=-np.inf), -ODDS_BEHIND_MAX, 0))
    found = np.zeros((count, len(CHANGES)), np.float32)
    for place, is_other in enumerate((later > STATEMENT_GAP_MS, later < -STATEMENT_GAP_MS)):
        others = np.where(is_other, near, 0)
        found[statements.rows, place] = others.max(axis=1, initial=0)
        found[statements.rows, 2 + place] = (others * fits).max(axis=1, initial=0)
    return FeatureTable(CHANGES, found)


def prior_scores(words: Floats, sims: Floats) -> Floats:
    """Prior score by words and vectors: half the share of the best BM25, half the share of the best cosine."""
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
    """(n, q) with those of texts without token rows taken to be as near as the rest of them is good
    (`_View.lights`), so that a new memory is found at once."""
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


def _view(evidence: FeatureInputs) -> _View:
    own, memories = evidence.neighbour_rows[0], len(evidence.words)
    known = _known(evidence.words, evidence.sims)
    content = np.where(evidence.is_name, np.float32(0), evidence.weights)
    holds = np.zeros((len(content), memories + 1), np.float32)
    holds[:, :-1] = evidence.holds
    shares = np.zeros((3, memories + 1), np.float32)
    shares[0, :-1] = _share(evidence.words, SPREAD_MIN)
    shares[1, :-1] = _share(known, NEAR_COSINE_MIN)
    weights = _parts_of_one(content)
    shares[2] = _weighed(weights, holds)
    lights = shares[:2].take(own, axis=1).sum(axis=0) / 2
    return _View(own, evidence.words[own], known[own], lights, weights, holds, shares)


def _add_words_and_sims(found: dict[str, Floats], evidence: FeatureInputs, view: _View) -> None:
    words, sims, holds = view.words, view.sims, view.holds.take(view.own, axis=1)
    is_content = (~evidence.is_name).astype(np.float32)
    content = evidence.weights * is_content
    words_z, sims_z = _z(np.stack([words, sims]))
    found["words"] = _share(words, SPREAD_MIN)
    found["words_log"] = np.log1p(words)
    found["words_z"] = words_z
    found["words_rank"] = np.where(words > 0, _rank(words), np.float32(0))
    found["covered"] = _weighed(_parts_of_one(evidence.weights), holds)
    found["covered_content"] = view.shares[2].take(view.own)
    found["terms"] = _weighed(is_content, holds)
    found["terms_share"] = found["terms"] / max(1.0, float(is_content.sum()))
    found["rarest"] = (holds * content[:, None]).max(axis=0, initial=0.0)
    found["rarest_share"] = found["rarest"] / (float(content.max(initial=0.0)) or 1.0)
    found["same_number"] = holds[evidence.is_number].max(axis=0, initial=0.0)
    found["sim"] = sims
    found["sim_share"] = _share(sims, NEAR_COSINE_MIN)
    found["sim_z"] = sims_z
    found["sim_rank"] = _rank(sims)
    for name in ("words", "words_z", "covered", "sim_share", "sim_z"):
        found[f"{name}_cjk"] = found[name] if evidence.is_cjk else np.zeros_like(found[name])


def _add_beside(found: dict[str, Floats], evidence: FeatureInputs, view: _View) -> None:
    """Add the features of the neighbours before and after: a question asked just before, the rest of a story."""
    places = evidence.neighbour_rows[1:]
    words, sims, covered = view.shares.take(places, axis=1)
    for name, rows in (("words", words), ("sim", sims), ("covered", covered)):
        found.update((f"{name}_{where}", row) for where, row in zip(NEIGHBOUR_POSITIONS, rows, strict=True))
        if name != "covered":
            found[f"{name}_beside"] = rows.max(axis=0)
    before = places[0]
    asks = ((evidence.shape[before] & np.uint32(TextFeature.ENDS_WITH_QUESTION)) != 0) & (before >= 0)
    found["asked_before"] = asks.astype(np.float32)
    found["asked_before_words"] = asks * covered[0]
    found["asked_before_sim"] = asks * sims[0]
    found["covered_around"] = _weighed(view.weights, view.holds.take(evidence.neighbour_rows, axis=1).max(axis=1))
    found["covered_gain"] = found["covered_around"] - found["covered_content"]


def _add_groups(found: dict[str, Floats], evidence: FeatureInputs, view: _View) -> None:
    """Add the features that say how much of the session or note is about the question."""
    order = np.lexsort((-view.lights, evidence.group))  # group by group, in each the best first
    groups, lights = evidence.group[order], view.lights[order]
    rows = np.zeros((3, len(groups)), np.float32)
    if len(groups):
        is_first = np.ones(len(groups), np.bool_)
        np.not_equal(groups[1:], groups[:-1], out=is_first[1:])
        starts, which = np.flatnonzero(is_first), np.cumsum(is_first) - 1
        is_best = np.arange(len(groups)) - starts[which] < SESSION_BEST
        holds = view.holds.take(view.own[order], axis=1)
        of_group = np.empty((3, len(starts)), np.float32)
        np.add.reduceat(lights * is_best, starts, out=of_group[0])
        of_group[0] /= SESSION_BEST
        of_group[1] = _weighed(view.weights, np.maximum.reduceat(holds, starts, axis=1))
        of_group[2] = lights[starts]
        rows[:, order] = of_group.take(which, axis=1) * (groups >= 0)
    found["session"], found["session_share"] = rows[0], _share(rows[0], SPREAD_MIN)
    found["session_covered"], found["session_best"] = rows[1:]


def _shapes(evidence: FeatureInputs) -> Floats:
    """Text features of each candidate, crossed with what the question asks for: rows as in _SHAPE_NAMES."""
    has = (evidence.shape[evidence.neighbour_rows[0]] & _BITS[:, None]) != 0
    asked = np.array(evidence.question, np.bool_)[_CROSSED_ASKED]
    return np.concatenate([has, has[_CROSSED_BITS] & asked[:, None]]).astype(np.float32)


def _table(names: tuple[str, ...], rows: Sequence[Floats]) -> FeatureTable:
    """Stack rows of n values into a table."""
    together = np.concatenate(rows, dtype=np.float32, casting="same_kind")
    return FeatureTable(names, together.reshape(len(names), -1).T)


def _parts_of_one(weights: Floats) -> Floats:
    """The weights, together 1; 0 where they come to nothing."""
    total = float(weights.sum())
    return weights / np.float32(total) if total > 0 else np.zeros_like(weights)


def _weighed(weights: Floats, holds: Floats) -> Floats:
    """Sum of the weights of the terms that each memory holds, added separately for each memory."""
    sums: Floats = np.einsum("t,tm->m", weights, holds)
    return sums


def _share(values: Floats, least: float) -> Floats:
    """The values as shares of the best, which counts as `least` at least."""
    return values / np.float32(max(float(values.max(initial=0.0)), least))


def _z(rows: Floats) -> Floats:
    """Standard score (z-score) of each value within its row."""
    if not rows.shape[1]:
        return rows
    over = rows - rows.mean(axis=1, keepdims=True)
    deviations: Floats = over / (np.sqrt((over * over).mean(axis=1, keepdims=True)) + np.float32(SPREAD_MIN))
    return deviations


def _rank(values: Floats) -> Floats:
    """1 for the best, less for each place behind it; equal values share the place of the first."""
    places = len(values) - np.searchsorted(np.sort(values), values, side="right")
    return (1 / (1 + places / RANK_SCALE)).astype(np.float32)


LEADING_PASSAGES = 3  # of a file, that represent its subject
LEAD_MIN = 0.3  # a lower cosine counts as none
RARITY_DIGITS = 3.0
HERE_MIN = 0.2  # of a namespace that is not outnumbered
STEM_CHARS_MIN = 3  # of a word, that its stem begins with too
PAGE_K1, PAGE_B = 2.0, 1.0  # of BM25 over whole files: length counts in full, or long files would hold every word
ORIGIN_WEIGHTS: Final = {
    "page_lead": 4.0,
    "page_words": 1.0,
    "said": 1.0,
    "here": 3.0,
    "tagged": 6.0,
    "only_asks": -3.0,
}
ORIGIN_GROUPS: Final[dict[str, Group]] = {
    "page_lead": "near", "page_words": "near", "said": "text", "here": "near", "tagged": "word", "only_asks": "text",
}  # fmt: skip

TermsOf = Callable[[str], Sequence[str]]

ORIGIN_NAMES: Final = tuple(ORIGIN_WEIGHTS)
_ORIGIN_WEIGHTS: Final = np.array(list(ORIGIN_WEIGHTS.values()), np.float32)


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
    worth = np.where(origin.is_in_file, _ORIGIN_WEIGHTS[:2] @ pages, -np.inf)
    if origin.is_in_file.any():
        pages = np.where(origin.is_in_file, pages - pages[:, [int(np.argmax(worth))]], 0)
    said = ~origin.is_in_file * origin.said_rarity
    here = origin.is_here * (HERE_MIN + (1 - HERE_MIN) * origin.here_rarity) if not origin.is_here.all() else 0 * said
    return FeatureTable(
        ORIGIN_NAMES,
        np.stack([*pages, said, here, np.maximum(2 * origin.tagged - 1, 0), origin.asks]).astype(np.float32).T,
    )


def named_share(tag: str, named: Container[str], rarities: Mapping[str, float], terms: TermsOf) -> float:
    """The share of a question, by the rarity of its terms, that names a tag or a part of a nested one, 0..1: 1 where it
    is all that the question says (`all my recipes`), or among `named`, the tags that it writes as such (`#recipe`)."""
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
    added: Floats = features.values * _ORIGIN_WEIGHTS
    return added
