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
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.retrieval.candidates.candidate_retrieval import CANDIDATES_MIN, candidates_wanted
from mnemo_daemon.retrieval.candidates.candidate_set import Floats, Numbers, is_among, rounds_of_places
from mnemo_daemon.retrieval.candidates.corpus import Corpus
from mnemo_daemon.retrieval.context import RecallContext
from mnemo_store.backend import Snapshot
from mnemo_store.records import STATES
from mnemo_store.store import Store

TOKENS_MAX = 64  # of the query, that are counted in the index; a text may have all of the others
READ_AT_ONCE = 64  # texts
SORTED_PER_ANSWER = 4  # candidates; more are put in order only where these do not suffice

Values = NDArray[np.float64]

_ARCHIVED = STATES.index("archived")


def add_formula_candidates(context: RecallContext, store: Store, views: Views) -> None:
    """Add the best by the formula to the candidates; where no vectors are searched, they replace them."""
    corpus, found, serving = context.corpus, context.found, context.serving
    best = _best(context, store, views, candidates_wanted(context.question))
    if found.vector is None:
        found = found.only(np.isin(found.numbers, best))
    old = found.numbers
    found = found.extended(np.sort(best))
    numbers = found.numbers
    new = np.flatnonzero(~is_among(old, numbers))
    found.words[new] = views.lexical.scores_of(found.terms, numbers[new])
    indexed = new[numbers[new] < corpus.base]
    if serving is not None and found.vector is not None and len(indexed):
        found.sims[indexed] = serving.view.sims(found.vector, numbers[indexed])
    own = np.searchsorted(numbers, best)
    found.from_formula[own] = True
    found.rounds[own] = np.minimum(found.rounds[own], rounds_of_places(len(best), CANDIDATES_MIN))
    context.found = found


def _best(context: RecallContext, store: Store, views: Views, count: int) -> Numbers:
    """So many with the highest scores, best first; equal ones as in the answer."""
    corpus, request, query = context.corpus, context.request, context.question.query
    numbers = corpus.numbers
    if not len(numbers):
        return numbers
    most = _most_overlap(query, corpus, views)
    highest = _scores(request, corpus, numbers, np.where(numbers < corpus.base, most.take(numbers, mode="clip"), 1.0))
    order = _from_highest(corpus, numbers, highest, SORTED_PER_ANSWER * count)
    read, exact = 0, np.empty(0)
    with store.snapshot() as snapshot:
        while read < len(numbers):
            if read >= len(order):
                order = _from_highest(corpus, numbers, highest, len(numbers))
            if read >= count and np.partition(exact, read - count)[read - count] >= highest[order[read]]:
                break
            some = numbers[order[read : read + READ_AT_ONCE]]
            overlap = text_overlap(query, corpus, snapshot, some).astype(np.float64)
            exact = np.concatenate([exact, _scores(request, corpus, some, overlap)])
            read += len(some)
    found = numbers[order[:read]]
    return found[np.lexsort((*_ties(corpus, found), -exact))[:count]]


def text_overlap(query: str, corpus: Corpus, snapshot: Snapshot, numbers: Numbers) -> Floats:
    """The share of the query's tokens in content and tags of each; 0 where the memory is gone."""
    memories = (corpus.memory(snapshot, number) for number in numbers.tolist())
    texts = ("" if memory is None else " ".join((memory.content, *memory.tags)) for memory in memories)
    return lexical_ranker.overlap(query, texts)


def _from_highest(corpus: Corpus, numbers: Numbers, highest: Values, count: int) -> NDArray[np.intp]:
    """The places of at least so many with the highest values, highest first, equal ones as in the answer."""
    if count < len(numbers):
        least = np.partition(highest, len(numbers) - count)[len(numbers) - count]
        places = np.flatnonzero(highest >= least)
    else:
        places = np.arange(len(numbers))
    return places[np.lexsort((*_ties(corpus, numbers[places]), -highest[places]))]


def _ties(corpus: Corpus, numbers: Numbers) -> tuple[NDArray[Any], ...]:
    """The tie-breakers, the last first: importance, newer, id, as in `rankers.order`."""
    low, high, event_at, importance = (
        corpus.column(name, numbers) for name in ("id_low", "id_high", "event_at", "importance")
    )
    return low, high, -event_at, -importance


def _scores(request: RankingRequest, corpus: Corpus, numbers: Numbers, overlap: Values) -> Values:
    """The scores, as `rankers.score` computes them."""
    hours = np.maximum(request.now - corpus.column("event_at", numbers), 0) / MS_AN_HOUR
    importance = corpus.column("importance", numbers)
    scores = lexical_ranker.score(overlap.astype(np.float32), hours, importance, request.recency_bias)
    archived = corpus.column("state", numbers) == _ARCHIVED
    found: Values = np.where(archived, scores * ARCHIVED_FACTOR, scores)
    return found


def _most_overlap(query: str, corpus: Corpus, views: Views) -> Values:
    """By number, the share of the query's tokens that a text can have: of a token, what holds it, or the word of the
    query that it stands in."""
    tokens = sorted(lexical_ranker.tokens(query))
    chunks = [(chunk, lexical_ranker.tokens(chunk)) for chunk in query.split()]
    counts = np.full(max(corpus.base, 1), max(0, len(tokens) - TOKENS_MAX), np.float64)
    for token in tokens[:TOKENS_MAX]:
        spelled = " ".join([token, *(chunk for chunk, own in chunks if token in own and len(own) > 1)])
        counts += views.lexical.numbers_with_any_term(spelled, len(counts))
    return counts / max(1, len(tokens))
