"""The neighbours of the candidates, and the learned ranking over both. SPEC 7.2, 7.3 (`auto`)

The neighbours of the best candidates join them; of every candidate, what is known of it and of those beside it in its
session or note goes into the features. Nothing is decoded but versions of another time.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking import (
    decay_ranker,
    late_interaction,
    learned_ranker,
    origin_features,
    ranking_features,
)
from mnemo_core.retrieval.ranking.learned_ranker import LearnedRanker
from mnemo_core.retrieval.ranking.ranking_features import (
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
    named_months,
    named_years,
)
from mnemo_daemon.indexing.lexical_index import words_of
from mnemo_daemon.indexing.vectors.index_phases import ActiveIndex
from mnemo_daemon.indexing.vectors.token_cache import TokenCache
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.models.embedding import QueryTokens
from mnemo_daemon.models.token_rows import LateForm
from mnemo_daemon.retrieval.candidates.candidate_retrieval import CandidateSet, SearchScope, sorted_unique
from mnemo_daemon.retrieval.candidates.note_evidence import origin_of
from mnemo_daemon.retrieval.question import Question
from mnemo_store.indexes.attributes import AttributeStore
from mnemo_store.indexes.lexical import LexicalMatches
from mnemo_store.records import TRUSTS, embedded_text, text_hash
from mnemo_store.store import Store

WEIGHTS_FILE = Path(__file__).parents[2] / "weights" / "auto.json"
JOINED_NEIGHBOURS = 20  # of so many of the best candidates, those beside them become candidates too

_NAME = lazy_pattern(r"\w+(?:'s\b)?")
_NUMBER = lazy_pattern(r"[0-9][0-9.,:/-]*")
_NONE = -1
_SIGNS: Mapping[Role | None, np.int8] = {"user": np.int8(1), "agent": np.int8(-1), None: np.int8(0)}

Numbers = NDArray[np.uint32]
Places = NDArray[np.intp]


class LearnedScores(NamedTuple):
    """The candidates as the fusion sees them: their features, what each adds, and the chance that each answers."""

    first: FeatureTable
    rows: NDArray[np.intp]  # of those that were looked at again, best first by the first look
    second: FeatureTable | None
    terms: FeatureTable  # added last
    learned: NDArray[np.float32]  # 0..1, by what the weights say
    chances: NDArray[np.float32]  # 0..1, with what is added for few candidates: what is shown
    few: float  # that, as log-odds


class _NeighbourRows(NamedTuple):
    """Candidates and those beside them, m of them, by ascending number; and where each candidate and its own are."""

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

    def score(
        self, question: Question, scene: SearchScope, channels: CandidateSet, serving: ActiveIndex, joining: bool
    ) -> tuple[CandidateSet, LearnedScores]:
        """The features of the first page's candidates, and the chance that each answers; those of later pages, which
        come behind, by words and nearness alone.

        joining: what stands beside the best of the first page becomes a candidate of it, where the filters allow it.
        """
        if joining:
            channels = _joined(channels, _neighbours_of_best(scene, channels))
        is_first = channels.rounds == 0
        chosen = np.flatnonzero(is_first)
        around = self._neighbour_rows(question, scene, channels, chosen, serving)
        channels = _measured(channels, chosen, around)
        origin = origin_of(question, scene, channels, serving, self._views.lexical, chosen, around.matches.weights)
        terms = origin_features.origin_table(origin)
        table, looked_at, second, odds = self._odds(question, scene, channels, serving, chosen, around, terms)
        few = learned_ranker.few_candidates_offset(len(chosen))
        learned, chances = np.empty((2, len(is_first)), np.float32)
        learned[chosen], chances[chosen] = (
            learned_ranker.probability(odds),
            learned_ranker.probability(odds + np.float32(few)),
        )
        if len(chosen) < len(is_first):  # of these there may be tens of thousands
            light = _light(channels)[~is_first]
            for each in (learned, chances):
                each[~is_first] = light * each[chosen].min(initial=1.0)
        return channels, LearnedScores(table, looked_at, second, terms, learned, chances, few)

    def late_interaction(self, scene: SearchScope, channels: CandidateSet, serving: ActiveIndex) -> NDArray[np.float32]:
        """Late interaction of the question with each candidate of the first page, 0..1; NaN where there is none."""
        asked, form = channels.query, serving.embedder.late
        found = np.full(len(channels.numbers), np.nan, np.float32)
        if asked is None or form is None or not len(asked.rows) or not len(found):
            return found
        first = np.flatnonzero(channels.rounds == 0)
        rows, counts = self._token_rows(form, scene, channels.numbers[first])
        sims = late_interaction.max_sims(asked.rows, rows, counts)
        weights = self._token_weights(asked, self._views.lexical.matches(channels.terms, channels.numbers[:0]))
        is_there = counts >= 0
        found[first[is_there]] = np.clip(late_interaction.weighted(sims, weights)[is_there], 0, 1)
        return found

    def _odds(
        self, question: Question, scene: SearchScope, channels: CandidateSet, serving: ActiveIndex,
        chosen: NDArray[np.intp],
        around: _NeighbourRows, terms: FeatureTable,
    ) -> tuple[FeatureTable, NDArray[np.intp], FeatureTable | None, NDArray[np.float32]]:  # fmt: skip
        table = ranking_features.feature_table(self._evidence(question, scene, channels.numbers[chosen], around))
        added = origin_features.origin_contributions(terms).sum(axis=1)
        odds = self._weights.first.odds(table) + added
        rows = np.lexsort((channels.numbers[chosen], -odds))[: learned_ranker.SECOND_STAGE_CANDIDATES]
        late = self._late(question, scene, channels, serving, around, rows)
        if late is None:
            return table, rows[:0], None, odds
        second = learned_ranker.join_tables(table, ranking_features.token_feature_table(late), rows)
        statements = _statements(scene, serving, channels.numbers[chosen][rows], odds[rows])
        changes = ranking_features.change_table(statements, len(rows))
        second = FeatureTable((*second.names, *changes.names), np.concatenate([second.values, changes.values], axis=1))
        return (
            table,
            rows,
            second,
            learned_ranker.merge_odds(odds, rows, self._weights.second_odds(second) + added[rows]),
        )

    def _neighbour_rows(
        self,
        question: Question,
        scene: SearchScope,
        channels: CandidateSet,
        chosen: NDArray[np.intp],
        serving: ActiveIndex,
    ) -> _NeighbourRows:
        numbers = channels.numbers[chosen].astype(np.int32)
        together = np.concatenate([numbers[None], _neighbours(scene, numbers)])
        found = sorted_unique(np.append(together, np.int32(_NONE)))  # -1 stands first, and all others one place behind
        every, near = found[1:].astype(np.uint32), np.searchsorted(found, together) - 1
        sims = np.full(len(every), np.nan, np.float32)
        sims[near[0]] = channels.sims[chosen]
        missing = np.flatnonzero(np.isnan(sims) & (every < scene.base))
        if len(missing) and channels.vector is not None:
            sims[missing] = serving.view.sims(channels.vector, every[missing])
        present = every if scene.historical is None else np.where(every < scene.base, every.astype(np.int64), _NONE)
        matches = self._views.lexical.matches(channels.terms, present)
        shape, lengths = scene.column("shape", every), scene.column("words", every)
        unindexed = near[0, (matches.scores[near[0]] == 0) & (channels.words[chosen] > 0)]
        if scene.historical is not None:
            unindexed = np.union1d(unindexed, np.flatnonzero(every >= scene.base))
        if len(unindexed):
            matches = self._with_read(question, scene, every, unindexed, matches)
        return _NeighbourRows(every, near, matches, sims, shape, lengths)

    def _with_read(
        self, question: Question, scene: SearchScope, every: Numbers, places: Places, matches: LexicalMatches
    ) -> LexicalMatches:
        """Add the matches of memories that are in no index (historical versions, rejected texts), from their texts."""
        holds, parts = matches.holds.copy(), matches.parts.copy()
        with self._store.snapshot() as snapshot:
            memories = [scene.memory(snapshot, number) for number in every[places].tolist()]
        read = [(place, memory) for place, memory in zip(places.tolist(), memories, strict=True) if memory is not None]
        scores = self._views.lexical.score_texts(question.query, [words_of(memory) for _, memory in read])
        for (place, memory), score in zip(read, scores.tolist(), strict=True):
            held = {token.term for token in self._views.lexical.tokenizer.tokens(f"{memory.speaker} {memory.content}")}
            holds[:, place] = [term in held for term in matches.terms]
            parts[:, place] = 0
            if len(matches.terms):
                parts[0, place] = score
        return LexicalMatches.of(matches.terms, matches.weights, holds, parts)

    def _evidence(
        self, question: Question, scene: SearchScope, numbers: Numbers, around: _NeighbourRows
    ) -> FeatureInputs:
        matches = around.matches
        named = _names(question.query, scene)
        terms_of = self._views.lexical.tokenizer.query_terms
        name_terms = {term for name in named for term in terms_of(name)}
        roles = _roles(scene, numbers)
        return FeatureInputs(
            weights=matches.weights,
            is_name=np.array([term in name_terms for term in matches.terms], np.bool_),
            is_number=np.array([bool(_NUMBER.fullmatch(term)) for term in matches.terms], np.bool_),
            holds=matches.holds,
            words=matches.scores,
            sims=around.sims,
            shape=around.shape,
            lengths=around.lengths,
            neighbour_rows=around.near,
            group=_groups(scene, numbers),
            speaks=_speaks(scene, numbers, named) if named else roles * _SIGNS[asked_role(question.query)],
            roles=roles,
            fits_date=ranking_features.fits_date(
                named_months(question.query), named_years(question.query), scene.column("event_at", numbers)
            ),
            question=analyze_query(question.query),
            is_cjk=decay_ranker.has_cjk(question.query),
        )

    def _late(
        self, question: Question, scene: SearchScope, channels: CandidateSet, serving: ActiveIndex,
        around: _NeighbourRows,
        rows: NDArray[np.intp],
    ) -> TokenSimilarities | None:  # fmt: skip
        """Late interaction with those rows and with what stands before and after each; None where there is no such."""
        asked, form = channels.query, serving.embedder.late
        if asked is None or form is None or not len(asked.rows) or not len(rows):
            return None
        near = around.near[:3, rows]
        places = sorted_unique(np.append(near, _NONE))[1:]
        kept, counts = self._token_rows(form, scene, around.numbers[places])
        sims = late_interaction.max_sims(asked.rows, kept, counts)
        is_missing, at = counts < 0, np.searchsorted(places, near)
        if is_missing[at[0]].all():
            return None
        sims = ranking_features.imputed(
            sims, is_missing, ranking_features.prior_scores(around.matches.scores, around.sims)[places]
        )
        own, before, after = np.where((near >= 0)[..., None], sims.take(at, axis=0), np.float32(-1))
        weights = self._token_weights(asked, around.matches)
        return TokenSimilarities(own, before, after, weights, decay_ranker.has_cjk(question.query))

    def _token_rows(
        self, form: LateForm, scene: SearchScope, numbers: Numbers
    ) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        def read(hashes: Sequence[bytes]) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
            with self._store.snapshot() as snapshot:
                return snapshot.joined_token_rows(form.space, hashes, form.dimensions)

        return self._tokens.rows_of(form.space, form.dimensions, _text_hashes(scene, numbers), read)

    def _token_weights(self, asked: QueryTokens, matches: LexicalMatches) -> NDArray[np.float32]:
        rarities = dict(zip(matches.terms, matches.weights.tolist(), strict=True))
        return late_interaction.token_weights(asked.words, rarities, self._views.lexical.tokenizer.query_terms)


def _text_hashes(scene: SearchScope, numbers: Numbers) -> list[bytes]:
    """The hashes under which the token rows of each are stored."""
    is_former = numbers >= scene.base
    found = scene.columns.text_hashes(np.where(is_former, 0, numbers)) if scene.base else [b""] * len(numbers)
    if scene.historical is not None:
        for place in np.flatnonzero(is_former).tolist():
            memory = scene.historical.memories[int(numbers[place]) - scene.base]
            found[place] = text_hash(embedded_text(memory))
    return found


def _light(channels: CandidateSet) -> NDArray[np.float32]:
    return ranking_features.prior_scores(channels.words, channels.sims)


def _neighbours_of_best(scene: SearchScope, channels: CandidateSet) -> Numbers:
    """The neighbours right before and after the best of the first page that are not on it, where the filters allow
    them."""
    first = np.flatnonzero(channels.rounds == 0)
    if channels.query is None or not len(first):
        return np.empty(0, np.uint32)
    numbers = channels.numbers[first]
    best = numbers[np.argsort(-_light(channels)[first], kind="stable")[:JOINED_NEIGHBOURS]]
    found = sorted_unique(_neighbours(scene, best.astype(np.int32), steps=1).ravel())
    return found[(found >= 0) & ~_is_among(numbers, found)].astype(np.uint32)


def _joined(channels: CandidateSet, fresh: Numbers) -> CandidateSet:
    """With these as candidates of the first page; what of them is new has neither words nor nearness yet."""
    if not len(fresh):
        return channels
    new = fresh[~_is_among(channels.numbers, fresh)]
    numbers = np.concatenate([channels.numbers, new])
    order = np.argsort(numbers, kind="stable")

    def spread(old: NDArray[Any], value: float) -> NDArray[Any]:
        return np.concatenate([old, np.full(len(new), value, old.dtype)])[order]

    is_beside = _is_among(fresh, numbers[order])
    rounds = spread(channels.rounds, 0)
    rounds[is_beside] = 0
    return channels._replace(
        numbers=numbers[order],
        words=spread(channels.words, 0),
        sims=spread(channels.sims, np.nan),
        from_words=spread(channels.from_words, False),
        from_vectors=spread(channels.from_vectors, False),
        rounds=rounds,
        from_neighbours=is_beside,
        from_core=spread(channels.from_core, False),
    )  # fmt: skip


def _measured(channels: CandidateSet, chosen: NDArray[np.intp], around: _NeighbourRows) -> CandidateSet:
    """With the words and the nearness of those that stand beside others."""
    places = np.flatnonzero(channels.from_neighbours[chosen])
    if not len(places):
        return channels
    rows, own = chosen[places], around.near[0, places]
    words, sims = channels.words.copy(), channels.sims.copy()
    words[rows], sims[rows] = around.matches.scores[own], around.sims[own]
    return channels._replace(words=words, sims=sims)


def _is_among(rising: Numbers, numbers: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = rising[np.minimum(np.searchsorted(rising, numbers), len(rising) - 1)] == numbers
    return found


def _neighbours(scene: SearchScope, numbers: NDArray[np.int32], steps: int = 2) -> NDArray[np.int32]:
    """(2 * steps, n) the numbers of what stands beside each, as in features.BESIDE; -1 where nothing is that may be
    seen."""
    if not scene.base:
        return np.full((2 * steps, len(numbers)), _NONE, np.int32)
    columns = scene.columns
    rows, at = [], np.stack([numbers, numbers])
    for _ in range(steps):
        found = np.stack([columns.values("before", at[0], clip=True), columns.values("after", at[1], clip=True)])
        # Without its sign, -1 is beyond the end as well.
        is_seen = (at.view(np.uint32) < scene.base) & (found.view(np.uint32) < scene.base)
        at = np.where(is_seen & scene.mask.take(found, mode="clip"), found, np.int32(_NONE))
        rows.append(at)
    return np.concatenate(rows)


def _names(query: str, scene: SearchScope) -> set[str]:
    """The words of the query that are part of the name of someone who speaks in what is searched."""
    words = {match.lower().removesuffix("'s") for match in _NAME.findall(query)}
    return {word for word in words if scene.has_speaker(word)}


def _speaks(scene: SearchScope, numbers: Numbers, named: set[str]) -> NDArray[np.int8]:
    """By the names in the question."""
    is_named = scene.is_one_of("speaker", numbers, lambda columns: columns.speakers_named(named))
    others = np.where(scene.column("speaker", numbers) > 0, np.int8(-1), np.int8(0))
    return np.where(is_named, np.int8(1), others)


def _is_turn(scene: SearchScope, numbers: Numbers) -> NDArray[np.bool_]:
    """A mask of the turns of a conversation."""
    return scene.is_one_of("source", numbers, lambda columns: [columns.code("source", "turn")])


def _roles(scene: SearchScope, numbers: Numbers) -> NDArray[np.int8]:
    """1 for what is said as a person, −1 as an agent; 0 for the rest."""
    found = np.zeros(len(numbers), np.int8)
    is_turn = _is_turn(scene, numbers) & (scene.column("speaker", numbers) == 0)
    trust = scene.column("trust", numbers)
    for role, names in ROLE_NAMES.items():
        is_said = scene.is_one_of("speaker", numbers, functools.partial(AttributeStore.speakers_named, words=names))
        is_said |= is_turn & (trust == TRUSTS.index(role))
        found[is_said] = _SIGNS[role]
    return found


def _groups(scene: SearchScope, numbers: Numbers) -> NDArray[np.int64]:
    """Of the session, or the note, in which each stands; −1: in none."""
    session = scene.column("session_id", numbers).astype(np.int64)
    namespace = scene.column("namespace", numbers).astype(np.int64)
    note = scene.column("managed", numbers).astype(np.int64)
    found = np.where(session > 0, (namespace << 32) + session, np.where(note > 0, (1 << 62) + note, _NONE))
    found[numbers >= scene.base] = _NONE
    return found


def _statements(
    scene: SearchScope, serving: ActiveIndex, numbers: Numbers, odds: NDArray[np.float32]
) -> StandaloneStatements:
    """Those of the candidates that no conversation and no note leads to."""
    session, speaker, managed = (scene.column(name, numbers) for name in ("session_id", "speaker", "managed"))
    is_alone = ranking_features.is_statement(session, speaker, managed, _is_turn(scene, numbers))
    rows = np.flatnonzero(is_alone & (numbers < scene.base))
    alone = numbers[rows]
    vectors = serving.view.first_of(alone) if len(alone) > 1 else np.zeros((len(alone), 1), np.float32)
    told_at = np.minimum(scene.column("event_at", alone), scene.column("created_at", alone)).astype(np.int64)
    return StandaloneStatements(rows, vectors @ vectors.T, told_at, odds[rows])
