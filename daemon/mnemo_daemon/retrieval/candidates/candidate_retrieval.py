"""The channels of recall: the candidates that each finds among the memories in scope. SPEC 7.2

Words and vectors are searched within one mask of what the filters allow, and the core memories of that mask join what
they find. Nothing is read from the database but texts that no index has.

The fact channel finds the memories that state what a query asks of the entities that it names (10.3). A chain is
followed as long as each of its facts has a word of the query besides the names, and counts where its facts together
have half of these words. Otherwise whatever is known of a person is found by every question about that person, as was
measured on conversations. A query of names alone asks for all of it.
"""

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.facts import FactChain, find_chains, query_entities, single_value_of
from mnemo_core.retrieval.ranking.rankers import RANKER_TABLE
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.indexing.commit_indexes import words_of
from mnemo_daemon.indexing.fact_index import FactScope
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.models.embedders.embedder import QueryTokens
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.retrieval.candidates.corpus import (
    LAST_ROUND,
    WORD,
    CandidateSet,
    Corpus,
    Floats,
    Numbers,
    name_in,
    rounds_of_places,
    sorted_unique,
)
from mnemo_daemon.retrieval.candidates.time_channel import TimeMatch, match_time
from mnemo_daemon.retrieval.question import Question, RecallContext
from mnemo_store.batches import batched
from mnemo_store.indexes.lexical import LexicalIndex, QueryPostings
from mnemo_store.indexes.vector_kernels import QueryVector
from mnemo_store.record_texts import embedded_text, text_hash
from mnemo_store.records import DEFAULT_NAMESPACE, STATES, Fact
from mnemo_store.store import Store

CANDIDATES_MIN = 100  # of a channel that are ranked together, however many are asked for; candidates beyond them are
# ranked behind, so that a longer answer begins as a shorter one does
CANDIDATES_PER_ANSWER = 4  # [L 2.3]
FAR_REACHING_CANDIDATES = 1000  # of a far-reaching ranker: in `fused` freshness lifts what is not among the nearest 100
CORE_CANDIDATES = 32  # core memories that join every recall; of more than so many the nearest
NAMESPACE_CANDIDATES = 32  # by each channel, of the requested namespace, where `default` is searched as well
PARALLEL_MIN = 20_000  # memories; in fewer, words are found sooner than another thread has begun
THREADS = 2  # for the word searches, which run in parallel with the embedding of their query and the vector search
DISCARDED_MAX = 2000  # the latest rejected texts, which are in no index and read where they are asked for
HISTORICAL_TEXTS_MAX = 256  # texts of another time, of which no vector is kept, that one question embeds: half a second
HISTORICAL_TEXTS_PER_SLICE = 500  # kept vectors read under one snapshot

_DISCARDED = STATES.index("discarded")
_NO_SCORES: Floats = np.empty(0, np.float32)

COVERED_MIN = 0.5  # share of the words of a query that the facts of a chain have
CANDIDATES_MAX = 32  # memories that join the candidates, those of the shortest chains first

_NONE: Numbers = np.empty(0, np.uint32)


class _ChannelHits(NamedTuple):
    """Candidates of one channel, best first. As an input of `_merged`, the value NaN stands for no match."""

    numbers: Numbers
    values: Floats


class _VersionScores(NamedTuple):
    """The scores of the corpus's versions that no index has: 0 and NaN without a word of the query, or a vector."""

    words: Floats
    sims: Floats
    is_whole: bool  # each of them had a vector


class _Scores(NamedTuple):
    """The lexical and vector scores of any memory in scope, whichever channel found it."""

    corpus: Corpus
    lexical: LexicalIndex
    postings: QueryPostings
    serving: ActiveIndex | None
    vector: QueryVector | None
    of_versions: _VersionScores

    def words(self, numbers: Numbers) -> Floats:
        """0 where one has no word of the query."""
        return self.corpus.joined(numbers, self._indexed_words, self.of_versions.words)

    def sims(self, numbers: Numbers) -> Floats:
        """NaN where one has no vector."""
        return self.corpus.joined(numbers, self._indexed_sims, self.of_versions.sims)

    def _indexed_words(self, numbers: Numbers) -> Floats:
        return self.lexical.scores_of(self.postings, numbers) if len(numbers) else np.empty(0, np.float32)

    def _indexed_sims(self, numbers: Numbers) -> Floats:
        if self.serving is None or self.vector is None or not len(numbers):
            return np.full(len(numbers), np.nan, np.float32)
        return self.serving.view.sims(self.vector, numbers)

    def nearest(self, numbers: Numbers, most: int) -> Numbers:
        """So many of these at most, ascending: the nearest, those without a vector behind them, by words."""
        if len(numbers) <= most:
            return numbers
        sims = self.sims(numbers)
        order = np.lexsort((numbers, -self.words(numbers), -np.where(np.isnan(sims), -np.inf, sims)))
        return np.sort(numbers[order[:most]])


class CandidateRetrieval:
    """Runs the channels."""

    def __init__(self, store: Store, views: Views, embedding: EmbeddingService) -> None:
        self._store = store
        self._views = views
        self._embedding = embedding
        self._facts = FactChannel(store, views)
        self._threads = ThreadPoolExecutor(THREADS, "mnemo-words")

    def close(self) -> None:
        self._threads.shutdown()

    def search(self, context: RecallContext, words: str = "") -> None:
        """Set the candidates of all channels. words: what the words channel looks for, "" for the query."""
        question, corpus, serving, timer = context.question, context.corpus, context.serving, context.timer
        lexical, text = self._views.lexical, words or question.query
        first = FAR_REACHING_CANDIDATES if RANKER_TABLE[question.ranker].is_far_reaching else CANDIDATES_MIN
        fetch = candidates_wanted(question, first)
        search = functools.partial(lexical.search_with_postings, text, fetch, corpus.mask)
        found_words = self._threads.submit(search).result if len(lexical) >= PARALLEL_MIN else search
        query, vector, graph_rows = None, None, 0
        if serving is not None:
            query = self._embedding.encode_query_tokens(serving.embedder, _embedding_text(question, corpus))
            timer.mark("embed")
        versions, of_versions = corpus.versions[0], self._score_versions(text, corpus, serving, query)
        discarded = by_sims = _ChannelHits(np.empty(0, np.uint32), np.empty(0, np.float32))
        if "discarded" in question.filter.states:  # the latest rejected texts, which are in no index
            states = corpus.columns.column("state")[: corpus.base]
            numbers = np.flatnonzero(corpus.mask & (states == _DISCARDED))[-DISCARDED_MAX:].astype(np.uint32)
            with self._store.snapshot() as snapshot:
                memories = [corpus.memory(snapshot, number) for number in numbers.tolist()]
            there = [place for place, memory in enumerate(memories) if memory is not None]
            scores_of = self._views.lexical.score_texts(text, [words_of(each) for each in memories if each is not None])
            discarded = _ChannelHits(numbers[there], _nan_without_match(scores_of))
        if serving is not None and query is not None:
            vector = serving.view.prepare_query(query.vector)
            exact = question.exact or corpus.searches_exactly
            nearest = serving.view.nearest(vector, fetch, corpus.mask, exact=exact)
            graph_rows = nearest.graph_rows
            by_sims = _ChannelHits(nearest.numbers, nearest.sims)
            by_sims = _merged(by_sims, _ChannelHits(versions, of_versions.sims), fetch)
            timer.mark("vectors")
        hits, postings = found_words()
        by_words = _merged(_ChannelHits(*hits), discarded, fetch)
        by_words = _merged(by_words, _ChannelHits(versions, _nan_without_match(of_versions.words)), fetch)
        timer.mark("words")
        reached = self._facts.reach(question, corpus)
        timer.mark("facts")
        if question.time is not None and context.timed is None:
            wanted = CANDIDATES_PER_ANSWER * (question.top_k + question.offset)
            context.timed = match_time(question.time, corpus, wanted, newest_first=question.sort == "recent")
            timer.mark("time")
        scores = _Scores(corpus, lexical, postings, serving, vector, of_versions)
        found = _joined(question, by_words, by_sims, reached.numbers, context.timed, scores, first, fetch)
        context.fact_chains = reached.chains
        context.found = found._replace(query=query, graph_rows=graph_rows, is_whole=of_versions.is_whole)
        timer.mark("join")

    def _score_versions(
        self, text: str, corpus: Corpus, serving: ActiveIndex | None, query: QueryTokens | None
    ) -> _VersionScores:
        """Score each version that no index has as if it were in them."""
        _, versions = corpus.versions
        words = self._views.lexical.score_texts(text, list(map(words_of, versions))) if versions else _NO_SCORES
        sims = np.full(len(versions), np.nan, np.float32)
        if serving is None or query is None or not versions:
            return _VersionScores(words, sims, is_whole=True)
        embedder = serving.embedder
        texts = [embedded_text(version) for version in versions]
        windows: dict[int, NDArray[np.float16]] = {}
        for some in batched(enumerate(texts), HISTORICAL_TEXTS_PER_SLICE):
            with self._store.snapshot() as snapshot:
                for place, text in some:
                    kept = snapshot.vectors(embedder.space, text_hash(text), embedder.dimensions)
                    if kept is not None:
                        windows[place] = kept
        missing = [int(place) for place in np.argsort(-words, kind="stable") if int(place) not in windows]
        missing = missing[:HISTORICAL_TEXTS_MAX]
        if missing:
            fresh = self._embedding.encode_batch(embedder, [texts[place] for place in missing])
            windows |= {place: rows.astype(np.float16) for place, rows in zip(missing, fresh, strict=True)}
        vector = QueryVector(query.vector, len(query.vector))
        for place, vectors in windows.items():
            sims[place] = vector.sims(vectors).max()
        return _VersionScores(words, sims, is_whole=len(windows) == len(versions))


def candidates_wanted(question: Question, first: int = CANDIDATES_MIN) -> int:
    """The number of candidates that a channel is asked for, so that this page has enough."""
    while first < CANDIDATES_PER_ANSWER * (question.top_k + question.offset):
        first *= 2
    return first


def _joined(
    question: Question, by_words: _ChannelHits, by_sims: _ChannelHits, reached: Numbers, timed: TimeMatch | None,
    scores: _Scores, first: int, fetch: int,
) -> CandidateSet:  # fmt: skip
    """The candidates of the channels, those reached by facts, those of the time that is named and the core memories,
    each with both of its scores."""
    core = scores.nearest(scores.corpus.core, CORE_CANDIDATES)
    named = [name for name in question.filter.namespaces if name != DEFAULT_NAMESPACE]
    has_default = len(question.filter.namespaces) > 1
    own = scores.corpus.in_namespace(named[0]) if len(named) == 1 and has_default else np.empty(0, np.uint32)
    own_words, own_sims = _best(own, scores.words(own), 0.0), _best(own, scores.sims(own), -np.inf)
    of_time = np.empty(0, np.uint32)
    if timed is not None:
        of_time = np.sort(timed.joins(scores.words(timed.inside), scores.sims(timed.inside)))
    parts = [by_words.numbers, by_sims.numbers, core, own_words, own_sims, reached, of_time]
    numbers = sorted_unique(np.concatenate(parts))
    in_words, words = _scatter(numbers, by_words, scores.words)
    in_sims, sims = _scatter(numbers, by_sims, scores.sims)
    # The doublings of a search for `first` that find each candidate: a later page searches farther, and were all its
    # candidates ranked together, the answers of the pages before would move.
    rounds = np.full(len(numbers), LAST_ROUND if fetch != first else 0, np.int8)
    for found in (by_words.numbers, by_sims.numbers):
        at = np.searchsorted(numbers, found)
        rounds[at] = np.minimum(rounds[at], rounds_of_places(len(found), first))
    in_core, in_facts, in_time = np.zeros((3, len(numbers)), np.bool_)
    joined = (core, in_core), (own_words, in_words), (own_sims, in_sims), (reached, in_facts), (of_time, in_time)
    for places, is_in in joined:
        is_in[np.searchsorted(numbers, places)] = True
        rounds[np.searchsorted(numbers, places)] = 0
    none = np.zeros(len(numbers), np.bool_)
    return CandidateSet(
        numbers, words, sims, rounds, in_words, in_sims, none, in_core, in_facts, none, in_time, scores.postings,
        vector=scores.vector,
    )  # fmt: skip


def _best(numbers: Numbers, values: Floats, least: float) -> Numbers:
    """The NAMESPACE_CANDIDATES of the highest values above `least`."""
    numbers, values = numbers[values > least], values[values > least]
    return numbers[np.lexsort((numbers, -values))[:NAMESPACE_CANDIDATES]]


def _embedding_text(question: Question, corpus: Corpus) -> str:
    """The text to embed: the query without the words of a time, and without the names of those who speak in the scope,
    where it has any.

    A name draws the vector to whatever mentions it; who spoke is a field, which the words channel searches. So do the
    words of a time, which the time channel searches.
    """
    query, time = question.query, question.time
    if time is not None and time.has_interval and not time.is_only and WORD.search(time.rest):
        query = time.rest
    named = corpus.speakers_named(query)
    if not named:
        return query
    cut = " ".join(WORD.sub(lambda word: "" if name_in(word[0]) in named else word[0], query).split())
    return cut if WORD.search(cut) else query


def _nan_without_match(words: Floats) -> Floats:
    return np.where(words > 0, words, np.float32(np.nan))


def _merged(found: _ChannelHits, more: _ChannelHits, fetch: int) -> _ChannelHits:
    """The best `fetch` of what a channel found and of texts that no index has."""
    hit = np.flatnonzero(~np.isnan(more.values))
    if not len(hit):
        return found
    numbers = np.concatenate([found.numbers, more.numbers[hit]])
    values = np.concatenate([found.values, more.values[hit]])
    order = np.lexsort((numbers, -values))[:fetch]
    return _ChannelHits(numbers[order], values[order])


def _scatter(
    numbers: Numbers, found: _ChannelHits, compute: Callable[[Numbers], Floats]
) -> tuple[NDArray[np.bool_], Floats]:
    """A channel's candidates over all (ascending): which are among them, and a value of each; those of another channel
    may hold a word or have a vector too, and are computed."""
    places = np.searchsorted(numbers, found.numbers)
    is_found = np.zeros(len(numbers), np.bool_)
    values = np.empty(len(numbers), np.float32)
    is_found[places], values[places] = True, found.values
    missing = np.flatnonzero(~is_found)
    values[missing] = compute(numbers[missing])
    return is_found, values


class ReachedFacts(NamedTuple):
    """The chains of facts from the entities of a query, and the memories that state them: their numbers, ascending."""

    chains: tuple[FactChain, ...] = ()
    numbers: Numbers = _NONE


class FactChannel:
    """The channel."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views

    def reach(self, question: Question, corpus: Corpus) -> ReachedFacts:
        """The facts that hold now, as far as two steps lead; none for a question about another time."""
        if question.as_of is not None or self._views.facts.is_empty():
            return ReachedFacts()
        chains = sorted(dict.fromkeys(self._chains(question)), key=lambda chain: len(chain.facts))
        numbers: dict[int, None] = {}
        with self._store.snapshot() as snapshot:
            for memory_id in dict.fromkeys(fact.memory for chain in chains for fact in chain.facts):
                number = corpus.number(snapshot, memory_id)
                if number is not None and corpus.is_in_scope(number) and len(numbers) < CANDIDATES_MAX:
                    numbers[number] = None
        return ReachedFacts(tuple(chains), sorted_unique(np.array(list(numbers), np.uint32)))

    def _chains(self, question: Question) -> Iterator[FactChain]:
        """The chains from each entity of the query, as far as they bear on it."""
        index, wanted = self._views.facts, question.filter
        scope = FactScope(wanted.namespaces, wanted.user_id, SENSITIVE_TAG not in wanted.without_tags, wanted.now)
        entities = query_entities(question.query, index.is_known)
        if not entities:
            return
        asked = self._terms(question.query) - self._terms(" ".join(entities))

        def covered(fact: Fact) -> frozenset[str]:
            return asked & index.terms_of(fact, self._terms_of)

        facts_of = functools.cache(
            lambda key: index.open_facts(key, scope, lambda fact: not asked or bool(covered(fact)))
        )
        for entity in entities:
            for chain in find_chains(entity, facts_of).chains:
                found = frozenset[str]().union(*map(covered, chain.facts))
                if len(found) >= COVERED_MIN * len(asked):
                    yield chain

    def _terms_of(self, fact: Fact) -> frozenset[str]:
        """The terms of a fact, and of the name of its attribute: a home, where somebody lives."""
        return self._terms(f"{fact.subject} {fact.predicate} {fact.object} {single_value_of(fact.predicate) or ''}")

    def _terms(self, text: str) -> frozenset[str]:
        return frozenset(self._views.lexical.tokenizer.query_terms(text))
