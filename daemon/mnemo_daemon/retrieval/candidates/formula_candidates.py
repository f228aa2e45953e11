"""The best candidates of the ranker `deterministic` among all memories in question. SPEC 7.3 [M3]

A memory can be among the best by freshness and importance alone, or by a word that the words channel passes over.
Freshness and importance are columns. How many of the query's tokens a text can have is counted in the word index, and
texts are read from the highest possible score down until none of the rest can reach the best (Fagin, Lotem and Naor
2001, the threshold algorithm).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking import lexical_ranker
from mnemo_core.retrieval.ranking.rankers import ARCHIVED_FACTOR, MS_AN_HOUR, RankingRequest
from mnemo_daemon.indexing.vectors.index_phases import ActiveIndex
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.retrieval.candidates.candidate_retrieval import (
    CANDIDATES_MIN,
    CandidateSet,
    SearchScope,
    candidates_wanted,
)
from mnemo_daemon.retrieval.question import Question
from mnemo_store.records import STATES
from mnemo_store.store import Store

TOKENS_MAX = 64  # of the query, that are looked up; a text may have all of the others
READ_AT_ONCE = 64  # texts
SORTED_PER_ANSWER = 4  # candidates; more are put in order only where these do not suffice

Numbers = NDArray[np.uint32]
Values = NDArray[np.float64]

_ARCHIVED = STATES.index("archived")


def with_formula_candidates(
    question: Question, asked: RankingRequest, scene: SearchScope, channels: CandidateSet, serving: ActiveIndex
    | None, store: Store,
    views: Views,
) -> CandidateSet:  # fmt: skip
    """The candidates with the best by the formula; those alone where no vectors are searched."""
    best = _best(question, asked, scene, store, views, candidates_wanted(question))
    numbers = np.sort(best) if channels.vector is None else np.union1d(channels.numbers, best).astype(np.uint32)
    is_kept = np.isin(channels.numbers, numbers)
    old, own = np.searchsorted(numbers, channels.numbers[is_kept]), np.searchsorted(numbers, best)
    new = np.setdiff1d(np.arange(len(numbers)), old)
    words, sims = np.zeros(len(numbers), np.float32), np.full(len(numbers), np.nan, np.float32)
    words[old], sims[old] = channels.words[is_kept], channels.sims[is_kept]
    words[new] = views.lexical.scores_of(channels.terms, numbers[new].astype(np.int64))
    now = new[numbers[new] < scene.base]
    if serving is not None and channels.vector is not None and len(now):
        sims[now] = serving.view.sims(channels.vector, numbers[now])
    flags = np.zeros((4, len(numbers)), np.bool_)
    found = np.stack([channels.from_words, channels.from_vectors, channels.from_neighbours, channels.from_core])
    flags[:, old] = found[:, is_kept]
    by_formula = np.zeros(len(numbers), np.bool_)
    by_formula[own] = True
    rounds = np.full(len(numbers), np.iinfo(np.int8).max, np.int8)
    if channels.vector is not None:
        rounds[old] = channels.rounds
    pages = np.ceil(np.log2(np.arange(1, len(best) + 1) / CANDIDATES_MIN)).clip(0).astype(np.int8)
    rounds[own] = np.minimum(rounds[own], pages)
    return channels._replace(
        numbers=numbers, words=words, sims=sims, from_words=flags[0], from_vectors=flags[1], from_neighbours=flags[2],
        from_core=flags[3], rounds=rounds, from_formula=by_formula,
    )  # fmt: skip


def _best(
    question: Question, asked: RankingRequest, scene: SearchScope, store: Store, views: Views, count: int
) -> Numbers:
    """So many with the highest scores, best first; equal ones as in the answer."""
    numbers = np.flatnonzero(scene.mask).astype(np.uint32)
    if scene.historical is not None:
        numbers = np.concatenate([numbers, (np.flatnonzero(scene.historical_rows) + scene.base).astype(np.uint32)])
    if not len(numbers):
        return numbers
    most = _most_overlap(question.query, scene, views)
    highest = _scores(asked, scene, numbers, np.where(numbers < scene.base, most.take(numbers, mode="clip"), 1.0))
    order = _from_highest(scene, numbers, highest, SORTED_PER_ANSWER * count)
    read, exact = 0, np.empty(0)
    with store.snapshot() as snapshot:
        while read < len(numbers):
            if read >= len(order):
                order = _from_highest(scene, numbers, highest, len(numbers))
            if read >= count and np.partition(exact, read - count)[read - count] >= highest[order[read]]:
                break
            some = numbers[order[read : read + READ_AT_ONCE]]
            memories = [scene.memory(snapshot, number) for number in some.tolist()]
            texts = ("" if each is None else " ".join((each.content, *each.tags)) for each in memories)
            overlap = lexical_ranker.overlap(question.query, texts).astype(np.float64)
            exact = np.concatenate([exact, _scores(asked, scene, some, overlap)])
            read += len(some)
    found = numbers[order[:read]]
    return found[np.lexsort((*_ties(scene, found), -exact))[:count]]


def _from_highest(scene: SearchScope, numbers: Numbers, highest: Values, count: int) -> NDArray[np.intp]:
    """The places of at least so many with the highest values, highest first, equal ones as in the answer."""
    if count < len(numbers):
        least = np.partition(highest, len(numbers) - count)[len(numbers) - count]
        places = np.flatnonzero(highest >= least)
    else:
        places = np.arange(len(numbers))
    return places[np.lexsort((*_ties(scene, numbers[places]), -highest[places]))]


def _ties(scene: SearchScope, numbers: Numbers) -> tuple[NDArray[Any], ...]:
    """The tie-breakers, the last first: importance, newer, id, as in `rankers.order`."""
    low, high, event_at, importance = (
        scene.column(name, numbers) for name in ("id_low", "id_high", "event_at", "importance")
    )
    return low, high, -event_at, -importance


def _scores(asked: RankingRequest, scene: SearchScope, numbers: Numbers, overlap: Values) -> Values:
    """The scores, as `rankers.score` computes them."""
    hours = np.maximum(asked.now - scene.column("event_at", numbers), 0) / MS_AN_HOUR
    importance = scene.column("importance", numbers)
    scores = lexical_ranker.score(overlap.astype(np.float32), hours, importance, asked.recency_bias)
    archived = scene.column("state", numbers) == _ARCHIVED
    found: Values = np.where(archived, scores * ARCHIVED_FACTOR, scores)
    return found


def _most_overlap(query: str, scene: SearchScope, views: Views) -> Values:
    """By number, the share of the query's tokens that a text can have: of a token, what holds it, or the word of the
    query that it stands in."""
    tokens = sorted(lexical_ranker.tokens(query))
    chunks = [(chunk, lexical_ranker.tokens(chunk)) for chunk in query.split()]
    counts = np.full(max(scene.base, 1), max(0, len(tokens) - TOKENS_MAX), np.float64)
    for token in tokens[:TOKENS_MAX]:
        spelled = " ".join([token, *(chunk for chunk, own in chunks if token in own and len(own) > 1)])
        counts += views.lexical.numbers_with_any_term(spelled, len(counts))
    return counts / max(1, len(tokens))
