"""The neighbours of the candidates, and the learned ranking over both. SPEC 7.2, 7.3 (`auto`)

The neighbours of the best candidates join them. The features describe every candidate and its neighbours in its session
or note. No memory is decoded but those that no index has.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.documents.markup import inline_tags
from mnemo_core.retrieval.ranking import (
    decay_ranker,
    late_interaction,
    learned_ranker,
    ranking_features,
)
from mnemo_core.retrieval.ranking.learned_ranker import LearnedRanker
from mnemo_core.retrieval.ranking.ranking_features import (
    LEADING_PASSAGES,
    CandidateOrigins,
    FeatureInputs,
    FeatureTable,
    StandaloneStatements,
    TokenSimilarities,
)
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.query_features import (
    ROLE_NAMES,
    Role,
    analyze_query,
    asked_role,
    asks_for_list,
    named_months,
    named_years,
)
from mnemo_core.text.text_features import TextFeature
from mnemo_daemon.indexing.commit_indexes import words_of
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex
from mnemo_daemon.indexing.vectors.stored_token_rows import TokenCache
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.models.embedders.embedder import QueryTokens
from mnemo_daemon.models.embedders.token_rows import LateForm
from mnemo_daemon.retrieval.candidates.corpus import CandidateSet, Corpus, Numbers, is_among, sorted_unique
from mnemo_daemon.retrieval.question import LearnedScores, Question, RecallContext
from mnemo_store.indexes.attributes import AttributeStore
from mnemo_store.indexes.lexical import LexicalIndex, LexicalMatches
from mnemo_store.records import DEFAULT_NAMESPACE, TRUSTS
from mnemo_store.store import Store

_NONE = -1

Floats = NDArray[np.float32]


def origin_of(
    context: RecallContext, serving: ActiveIndex, view: LexicalIndex, rows: NDArray[np.intp], matches: LexicalMatches
) -> CandidateOrigins:
    """The origin of these rows of the candidates. matches: of the terms of the query, with them and others."""
    question, corpus, found = context.question, context.corpus, context.found
    numbers = found.numbers[rows]
    files = np.where(numbers < corpus.base, corpus.column("managed", numbers), 0).astype(np.int32)
    lead, words = np.zeros((2, len(numbers)), np.float32)
    distinct, example, which = np.unique(files, return_index=True, return_inverse=True)
    known = np.flatnonzero(distinct)
    if len(known):
        lead_of, words_of = np.zeros((2, len(distinct)), np.float32)
        known_files, examples = distinct[known], numbers[example[known]].astype(np.int32)
        firsts = corpus.columns.first_chunks(known_files.tolist())
        at = np.where(firsts == _NONE, examples, firsts)  # a file of one passage begins with it
        after, passages = corpus.columns.column("after"), []
        for _ in range(LEADING_PASSAGES):
            at = np.where(at.view(np.uint32) < corpus.base, at, np.int32(_NONE))
            passages.append(np.where((at != _NONE) & corpus.mask.take(at, mode="clip"), at, np.int32(_NONE)))
            at = np.where(at != _NONE, after.take(at, mode="clip"), np.int32(_NONE))
        first = np.concatenate(passages)
        sims = np.zeros(len(first), np.float32)
        there = np.flatnonzero(first != _NONE)
        if found.vector is not None and len(there):
            sims[there] = np.nan_to_num(serving.view.sims(found.vector, first[there]))
        best: Floats = sims.reshape(LEADING_PASSAGES, -1).max(axis=0)
        lead_of[known] = best
        words_of[known] = _page_words(corpus, found, view, distinct[known], matches.weights)
        lead, words = lead_of[which], words_of[which]
    named = _named(question)
    here, tagged = (
        corpus.is_one_of("namespace", numbers, lambda columns: [columns.code("namespace", name) for name in named]),
        _tagged(context, view, numbers, matches),
    )
    asks = ((corpus.column("shape", numbers) & np.uint32(TextFeature.IS_QUESTION)) != 0) & (files == 0)
    return CandidateOrigins(files > 0, lead, words, here, *_rarities(question, corpus), tagged, asks)


def _tagged(context: RecallContext, view: LexicalIndex, numbers: NDArray[np.uint32], matches: LexicalMatches) -> Floats:
    """The share of the question that names a tag of each, 0 for memories of another time. Where it asks for a list, its
    words that nothing has do not count: `show me every recipe`."""
    corpus, query = context.corpus, context.question.query
    is_list = asks_for_list(query)
    terms = zip(matches.terms, matches.weights.tolist(), np.any(matches.holds, axis=1).tolist(), strict=True)
    known = {term: rarity for term, rarity, is_held in terms if is_held or not is_list}
    written = frozenset(inline_tags(query))
    shares: dict[str, float] = {}
    found = np.zeros(len(numbers), np.float32)
    for row, number in enumerate(numbers.tolist()):
        for tag in corpus.columns.tags_of(number) if number < corpus.base else ():
            if tag not in shares:
                shares[tag] = ranking_features.named_share(tag, written, known, view.tokenizer.query_terms)
            found[row] = max(found[row], shares[tag])
    return found


def _rarities(question: Question, corpus: Corpus) -> tuple[float, float]:
    """The rarity of memories in no file, and of those in the requested namespace, among all in scope."""
    mask, columns = corpus.mask, corpus.columns
    passages = int(np.count_nonzero(mask & (columns.column("managed")[: corpus.base] > 0)))
    every, here = int(np.count_nonzero(mask)), 0
    for name in _named(question):
        code = columns.code("namespace", name)
        here += int(np.count_nonzero(mask & (columns.column("namespace")[: corpus.base] == code)))
    return ranking_features.rarity(every - passages, passages), ranking_features.rarity(here, every - here)


def _named(question: Question) -> list[str]:
    """The namespaces that are requested by name; `default` is a part of every other one."""
    return [name for name in question.filter.namespaces if name != DEFAULT_NAMESPACE]


def _page_words(
    corpus: Corpus, found: CandidateSet, view: LexicalIndex, files: NDArray[np.int32], rarities: Floats
) -> Floats:  # fmt: skip
    """The BM25 of each file as one text, from its passages in scope."""
    managed, lengths = (corpus.columns.column(name)[: corpus.base] for name in ("managed", "words"))
    place_of = np.full(max(int(managed.max(initial=0)), int(files.max())) + 1, _NONE, np.int32)
    place_of[files] = np.arange(len(files), dtype=np.int32)
    groups = np.where(corpus.mask, place_of.take(managed), np.int32(_NONE))
    inside = np.flatnonzero(groups >= 0)
    words = np.bincount(groups[inside], lengths[inside], len(files)).astype(np.float32)
    counts = view.counts_by_group(found.terms, groups, len(files))
    return ranking_features.page_words(counts, rarities, words)


WEIGHTS_FILE = Path(__file__).parents[2] / "weights" / "auto.json"
JOINED_NEIGHBOURS = 20  # of so many of the best candidates, the neighbours become candidates too

_NUMBER = lazy_pattern(r"[0-9][0-9.,:/-]*")
_SIGNS: Mapping[Role | None, np.int8] = {"user": np.int8(1), "agent": np.int8(-1), None: np.int8(0)}

Places = NDArray[np.intp]


class _NeighbourRows(NamedTuple):
    """Candidates and their neighbours, m rows by ascending number; and the rows of each candidate and its own."""

    numbers: Numbers
    near: Places  # (5, n)
    matches: LexicalMatches
    sims: NDArray[np.float32]
    shape: NDArray[np.uint32]
    lengths: NDArray[np.uint16]


@functools.cache
def shipped_weights() -> LearnedRanker:
    """Those that come with the program."""
    return LearnedRanker.read(json.loads(WEIGHTS_FILE.read_text(encoding="utf-8")))


class LearnedRanking:
    """Joins neighbours, and scores by the learned fusion."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views
        self._weights = shipped_weights()
        self._tokens = TokenCache()

    def clear_caches(self) -> None:
        """Nothing is kept of what was compared."""
        self._tokens.clear()

    def score(self, context: RecallContext, serving: ActiveIndex, *, joins: bool) -> LearnedScores:
        """The features of the first page's candidates, and the probability of each to answer; candidates of later
        pages, which are ranked behind, are scored by words and similarity alone.

        joins: the neighbours of the best become candidates of the first page, where the filters allow them.
        """
        if joins:
            # Make the neighbours right before and after the best candidates of the first page candidates of it too,
            # where the filters allow them; new ones have neither words nor a similarity yet.
            found = context.found
            first = np.flatnonzero(found.rounds == 0)
            if found.query is not None and len(first):
                numbers = found.numbers[first]
                best = numbers[np.argsort(-_light(found)[first], kind="stable")[:JOINED_NEIGHBOURS]]
                near = sorted_unique(_neighbours(context.corpus, best.astype(np.int32), steps=1).ravel())
                joining = near[(near >= 0) & ~is_among(numbers, near)].astype(np.uint32)
                if len(joining):
                    context.found = found = found.extended(joining)
                    places = np.searchsorted(found.numbers, joining)
                    found.rounds[places] = 0
                    found.from_neighbours[places] = True
        is_first = context.found.rounds == 0
        chosen = np.flatnonzero(is_first)
        around = self._neighbour_rows(context, chosen, serving)
        # Set words and similarities of the candidates that joined as neighbours.
        found = context.found
        places = np.flatnonzero(found.from_neighbours[chosen])
        if len(places):
            rows, own = chosen[places], around.near[0, places]
            words, sims = found.words.copy(), found.sims.copy()
            words[rows], sims[rows] = around.matches.scores[own], around.sims[own]
            context.found = found._replace(words=words, sims=sims)
        origin = origin_of(context, serving, self._views.lexical, chosen, around.matches)
        terms = ranking_features.origin_table(origin)
        table, rows, second, odds = self._odds(context, serving, chosen, around, terms)
        few = learned_ranker.few_candidates_offset(len(chosen))
        learned, chances = np.empty((2, len(is_first)), np.float32)
        learned[chosen] = learned_ranker.probability(odds)
        chances[chosen] = learned_ranker.probability(odds + np.float32(few))
        if len(chosen) < len(is_first):  # of these there may be tens of thousands
            light = _light(context.found)[~is_first]
            for each in (learned, chances):
                each[~is_first] = light * each[chosen].min(initial=1.0)
        return LearnedScores(table, rows, second, terms, learned, chances, few)

    def late_interaction(self, context: RecallContext, serving: ActiveIndex) -> NDArray[np.float32]:
        """Late interaction of the question with each candidate of the first page, 0..1; NaN where there is none."""
        candidates, form = context.found, serving.embedder.late
        asked = candidates.query
        found = np.full(len(candidates.numbers), np.nan, np.float32)
        if asked is None or form is None or not len(asked.rows) or not len(found):
            return found
        first = np.flatnonzero(candidates.rounds == 0)
        rows, counts = self._token_rows(form, context.corpus, candidates.numbers[first])
        sims = late_interaction.max_sims(asked.rows, rows, counts)
        weights = self._token_weights(asked, self._views.lexical.matches(candidates.terms, candidates.numbers[:0]))
        is_there = counts >= 0
        found[first[is_there]] = np.clip(late_interaction.weighted(sims, weights)[is_there], 0, 1)
        return found

    def _odds(
        self, context: RecallContext, serving: ActiveIndex, chosen: Places, around: _NeighbourRows, terms: FeatureTable
    ) -> tuple[FeatureTable, Places, FeatureTable | None, NDArray[np.float32]]:
        """The features of the first stage, the candidates of the second one and their features, and all log-odds."""
        numbers = context.found.numbers[chosen]
        table = ranking_features.feature_table(self._feature_inputs(context, numbers, around))
        added = ranking_features.origin_contributions(terms).sum(axis=1)
        odds = self._weights.first.odds(table) + added
        rows = np.lexsort((numbers, -odds))[: learned_ranker.SECOND_STAGE_CANDIDATES]
        late = self._token_similarities(context, serving, around, rows)
        if late is None:
            return table, rows[:0], None, odds
        second = learned_ranker.join_tables(table, ranking_features.token_feature_table(late), rows)
        statements = _statements(context.corpus, serving, numbers[rows], odds[rows])
        changes = ranking_features.change_table(statements, len(rows))
        second = FeatureTable((*second.names, *changes.names), np.concatenate([second.values, changes.values], axis=1))
        odds = learned_ranker.merge_odds(odds, rows, self._weights.second_odds(second) + added[rows])
        return table, rows, second, odds

    def _neighbour_rows(self, context: RecallContext, chosen: Places, serving: ActiveIndex) -> _NeighbourRows:
        corpus, found = context.corpus, context.found
        numbers = found.numbers[chosen].astype(np.int32)
        together = np.concatenate([numbers[None], _neighbours(corpus, numbers)])
        distinct = sorted_unique(np.append(together, np.int32(_NONE)))  # -1 is the first, all others one place behind
        every, near = distinct[1:].astype(np.uint32), np.searchsorted(distinct, together) - 1
        is_version = every >= corpus.base
        sims = np.full(len(every), np.nan, np.float32)
        sims[near[0]] = found.sims[chosen]
        missing = np.flatnonzero(np.isnan(sims) & ~is_version)
        if len(missing) and found.vector is not None:
            sims[missing] = serving.view.sims(found.vector, every[missing])
        matches = self._views.lexical.matches(found.terms, corpus.index_numbers(every))
        is_unindexed = is_version.copy()
        is_unindexed[near[0]] |= (matches.scores[near[0]] == 0) & (found.words[chosen] > 0)
        if is_unindexed.any():
            matches = self._with_read(context, every, np.flatnonzero(is_unindexed), matches)
        return _NeighbourRows(every, near, matches, sims, corpus.column("shape", every), corpus.column("words", every))

    def _with_read(
        self, context: RecallContext, every: Numbers, places: Places, matches: LexicalMatches
    ) -> LexicalMatches:
        """Add the matches of memories that are in no index (historical versions, rejected texts), from their texts."""
        holds, parts = matches.holds.copy(), matches.parts.copy()
        with self._store.snapshot() as snapshot:
            memories = [context.corpus.memory(snapshot, number) for number in every[places].tolist()]
        read = [(place, memory) for place, memory in zip(places.tolist(), memories, strict=True) if memory is not None]
        scores = self._views.lexical.score_texts(context.question.query, [words_of(memory) for _, memory in read])
        for (place, memory), score in zip(read, scores.tolist(), strict=True):
            held = {token.term for token in self._views.lexical.tokenizer.tokens(f"{memory.speaker} {memory.content}")}
            holds[:, place] = [term in held for term in matches.terms]
            parts[:, place] = 0
            if len(matches.terms):
                parts[0, place] = score
        return LexicalMatches.of(matches.terms, matches.weights, holds, parts)

    def _feature_inputs(self, context: RecallContext, numbers: Numbers, around: _NeighbourRows) -> FeatureInputs:
        matches, query, corpus = around.matches, context.question.query, context.corpus
        named = corpus.speakers_named(query)
        terms_of = self._views.lexical.tokenizer.query_terms
        name_terms = {term for name in named for term in terms_of(name)}
        # 1 for what is said as a person, −1 as an agent; 0 for the rest.
        found = np.zeros(len(numbers), np.int8)
        is_turn = _is_turn(corpus, numbers) & (corpus.column("speaker", numbers) == 0)
        trust = corpus.column("trust", numbers)
        for role, names in ROLE_NAMES.items():
            is_said = corpus.is_one_of(
                "speaker", numbers, functools.partial(AttributeStore.speakers_named, words=names)
            )
            is_said |= is_turn & (trust == TRUSTS.index(role))
            found[is_said] = _SIGNS[role]
        roles = found
        # Of the session, or the note, in which each stands; −1: in none.
        session = corpus.column("session_id", numbers).astype(np.int64)
        namespace = corpus.column("namespace", numbers).astype(np.int64)
        note = corpus.column("managed", numbers).astype(np.int64)
        group = np.where(session > 0, (namespace << 32) + session, np.where(note > 0, (1 << 62) + note, _NONE))
        group[numbers >= corpus.base] = _NONE
        return FeatureInputs(
            weights=matches.weights, is_name=np.array([term in name_terms for term in matches.terms], np.bool_),
            is_number=np.array([bool(_NUMBER.fullmatch(term)) for term in matches.terms], np.bool_),
            holds=matches.holds, words=matches.scores, sims=around.sims, shape=around.shape, lengths=around.lengths,
            neighbour_rows=around.near, group=group,
            speaks=_speaks(corpus, numbers, named) if named else roles * _SIGNS[asked_role(query)], roles=roles,
            fits_date=ranking_features.fits_date(
                named_months(query), named_years(query), corpus.column("event_at", numbers)
            ),
            question=analyze_query(query), is_cjk=decay_ranker.has_cjk(query),
        )  # fmt: skip

    def _token_similarities(
        self, context: RecallContext, serving: ActiveIndex, around: _NeighbourRows, rows: Places
    ) -> TokenSimilarities | None:
        """Late interaction with those rows and with their neighbours before and after; None where there is none."""
        asked, form = context.found.query, serving.embedder.late
        if asked is None or form is None or not len(asked.rows) or not len(rows):
            return None
        near = around.near[:3, rows]
        places = sorted_unique(np.append(near, _NONE))[1:]
        kept, counts = self._token_rows(form, context.corpus, around.numbers[places])
        sims = late_interaction.max_sims(asked.rows, kept, counts)
        is_missing, at = counts < 0, np.searchsorted(places, near)
        if is_missing[at[0]].all():
            return None
        sims = ranking_features.imputed(
            sims, is_missing, ranking_features.prior_scores(around.matches.scores, around.sims)[places]
        )
        own, before, after = np.where((near >= 0)[..., None], sims.take(at, axis=0), np.float32(-1))
        weights = self._token_weights(asked, around.matches)
        return TokenSimilarities(own, before, after, weights, decay_ranker.has_cjk(context.question.query))

    def _token_rows(
        self, form: LateForm, corpus: Corpus, numbers: Numbers
    ) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        def read(hashes: Sequence[bytes]) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
            with self._store.snapshot() as snapshot:
                return form.read(snapshot, hashes)

        return self._tokens.rows_of(form.space, form.dimensions, corpus.text_hashes(numbers), read)

    def _token_weights(self, asked: QueryTokens, matches: LexicalMatches) -> NDArray[np.float32]:
        rarities = dict(zip(matches.terms, matches.weights.tolist(), strict=True))
        return late_interaction.token_weights(asked.words, rarities, self._views.lexical.tokenizer.query_terms)


def _light(found: CandidateSet) -> NDArray[np.float32]:
    return ranking_features.prior_scores(found.words, found.sims)


def _neighbours(corpus: Corpus, numbers: NDArray[np.int32], steps: int = 2) -> NDArray[np.int32]:
    """(2 * steps, n) the numbers of the neighbours of each, as in features.BESIDE; -1 where there is none that the
    caller may see."""
    if not corpus.base:
        return np.full((2 * steps, len(numbers)), _NONE, np.int32)
    columns = corpus.columns
    rows, at = [], np.stack([numbers, numbers])
    for _ in range(steps):
        found = np.stack([columns.values("before", at[0], clip=True), columns.values("after", at[1], clip=True)])
        # Without its sign, -1 is beyond the end as well.
        is_seen = (at.view(np.uint32) < corpus.base) & (found.view(np.uint32) < corpus.base)
        at = np.where(is_seen & corpus.mask.take(found, mode="clip"), found, np.int32(_NONE))
        rows.append(at)
    return np.concatenate(rows)


def _speaks(corpus: Corpus, numbers: Numbers, named: set[str]) -> NDArray[np.int8]:
    """By the names in the question."""
    is_named = corpus.is_one_of("speaker", numbers, lambda columns: columns.speakers_named(named))
    others = np.where(corpus.column("speaker", numbers) > 0, np.int8(-1), np.int8(0))
    return np.where(is_named, np.int8(1), others)


def _is_turn(corpus: Corpus, numbers: Numbers) -> NDArray[np.bool_]:
    """A mask of the turns of a conversation."""
    return corpus.is_one_of("source", numbers, lambda columns: [columns.code("source", "turn")])


def _statements(
    corpus: Corpus, serving: ActiveIndex, numbers: Numbers, odds: NDArray[np.float32]
) -> StandaloneStatements:
    """Those of the candidates that no conversation and no note leads to."""
    session, speaker, managed = (corpus.column(name, numbers) for name in ("session_id", "speaker", "managed"))
    is_alone = ranking_features.is_statement(session, speaker, managed, _is_turn(corpus, numbers))
    rows = np.flatnonzero(is_alone & (numbers < corpus.base))
    alone = numbers[rows]
    vectors = serving.view.first_of(alone) if len(alone) > 1 else np.zeros((len(alone), 1), np.float32)
    stated_at = np.minimum(corpus.column("event_at", alone), corpus.column("created_at", alone)).astype(np.int64)
    return StandaloneStatements(rows, vectors @ vectors.T, stated_at, odds[rows])
