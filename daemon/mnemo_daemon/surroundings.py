"""What stands around the candidates of a question, and the learned fusion over it. SPEC 7.2, 7.3 (`auto`)

The neighbours of the best candidates join them; of every candidate, what is known of it and of those beside it in its
session or note goes into the features. Nothing is decoded but versions of another time.
"""

import functools
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core import features, fusion, late_interaction
from mnemo_core.features import Evidence, Late, Table
from mnemo_core.fusion import Fusion
from mnemo_core.question_shape import named_months, named_years, question_shape
from mnemo_daemon.channels import Channels, Scene
from mnemo_daemon.embedding import QueryTokens
from mnemo_daemon.indexing import Serving
from mnemo_daemon.question import Question
from mnemo_daemon.views import Views, words_of
from mnemo_store.records import embedded_text, text_hash
from mnemo_store.store import Store
from mnemo_store.words import WordMatches

WEIGHTS_FILE = Path(__file__).parent / "weights" / "auto.json"
JOINED_BESIDE = 20  # of so many of the best candidates, those beside them become candidates too

_NAME = re.compile(r"\w+(?:'s\b)?")
_NUMBER = re.compile(r"[0-9][0-9.,:/-]*")
_NONE = -1

Numbers = NDArray[np.uint32]
Places = NDArray[np.intp]


class Looked(NamedTuple):
    """The candidates as the fusion sees them: their features, what each adds, and the chance that each answers."""

    first: Table
    rows: NDArray[np.intp]  # of those that were looked at again, best first by the first look
    second: Table | None
    learned: NDArray[np.float32]  # 0..1


class _Memories(NamedTuple):
    """Candidates and those beside them, m of them, by ascending number; and where each candidate and its own are."""

    numbers: Numbers
    near: Places  # (5, n)
    matches: WordMatches
    sims: NDArray[np.float32]
    shape: NDArray[np.uint32]
    lengths: NDArray[np.uint16]


@functools.cache
def shipped_weights() -> Fusion:
    """Those that come with the program."""
    return Fusion.read(json.loads(WEIGHTS_FILE.read_text(encoding="utf-8")))


class Surroundings:
    """Joins neighbours, and scores by the learned fusion."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views
        self._weights = shipped_weights()

    def joined(self, scene: Scene, channels: Channels, serving: Serving) -> Channels:
        """With those that stand beside the best of the first page, where the filters allow them."""
        first = np.flatnonzero(channels.rounds == 0)
        if channels.query is None or not len(first):
            return channels
        light = _light(channels)[first]
        best = channels.numbers[first[np.lexsort((first, -light))[:JOINED_BESIDE]]]
        best = best[best < scene.base]
        beside = np.concatenate([scene.columns.column(name)[best] for name in ("before", "after")])
        fresh = np.setdiff1d(_allowed(scene, beside), channels.numbers[first]).astype(np.uint32)
        fresh = fresh[fresh < scene.base]
        if not len(fresh):
            return channels
        matches = self._views.words.matches(channels.sought, fresh)
        sims = serving.view.sims(channels.query.vector, fresh)
        is_new = ~np.isin(fresh, channels.numbers)
        numbers = np.concatenate([channels.numbers, fresh[is_new]])
        order = np.argsort(numbers, kind="stable")
        nothing = np.zeros(int(is_new.sum()), np.bool_)

        def spread(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([old, new.astype(old.dtype)])[order]

        rounds = spread(channels.rounds, nothing)
        is_beside = np.isin(numbers[order], fresh)
        rounds[is_beside] = 0
        return channels._replace(
            numbers=numbers[order],
            words=spread(channels.words, matches.scores[is_new]),
            sims=spread(channels.sims, sims[is_new]),
            in_words=spread(channels.in_words, nothing),
            in_vectors=spread(channels.in_vectors, nothing),
            rounds=rounds,
            beside=is_beside,
        )  # fmt: skip

    def look(self, question: Question, scene: Scene, channels: Channels, serving: Serving) -> Looked:
        """The features of the first page's candidates, and the chance that each answers; those of later pages, which
        come behind, by words and nearness alone."""
        is_first = channels.rounds == 0
        table, looked_at, second, odds = self._odds(question, scene, channels, serving, np.flatnonzero(is_first))
        learned = np.empty(len(is_first), np.float32)
        learned[is_first] = fusion.probability(odds)
        if not is_first.all():  # of these there may be tens of thousands
            learned[~is_first] = _light(channels)[~is_first] * learned[is_first].min(initial=1.0)
        return Looked(table, looked_at, second, learned)

    def late(self, scene: Scene, channels: Channels, serving: Serving) -> NDArray[np.float32]:
        """Late interaction of the question with each candidate of the first page, 0..1; NaN where there is none."""
        asked, form = channels.query, serving.embedder.late
        found = np.full(len(channels.numbers), np.nan, np.float32)
        if asked is None or form is None or not len(asked.rows) or not len(found):
            return found
        first = np.flatnonzero(channels.rounds == 0)
        with self._store.snapshot() as snapshot:
            kept = snapshot.token_rows(form.space, _text_hashes(scene, channels.numbers[first]), form.dimensions)
            rows = [_nothing(form.dimensions) if row is None else row for row in kept]
            sims = late_interaction.max_sims(asked.rows, rows)
        weights = self._token_weights(asked, self._views.words.matches(channels.sought, channels.numbers[:0]))
        is_there = np.array([row is not None for row in kept], np.bool_)
        found[first[is_there]] = np.clip(late_interaction.weighted(sims, weights)[is_there], 0, 1)
        return found

    def _odds(
        self, question: Question, scene: Scene, channels: Channels, serving: Serving, chosen: NDArray[np.intp]
    ) -> tuple[Table, NDArray[np.intp], Table | None, NDArray[np.float32]]:  # fmt: skip
        around = self._around(question, scene, channels, chosen, serving)
        table = features.table(self._evidence(question, scene, channels.numbers[chosen], around))
        odds = self._weights.first.odds(table)
        rows = np.lexsort((channels.numbers[chosen], -odds))[: max(fusion.SECOND_LOOK, question.top_k)]
        late = self._late(question, scene, channels, serving, around, rows)
        if late is None:
            return table, rows[:0], None, odds
        second = fusion.beside(table, features.late_table(late), rows)
        return table, rows, second, fusion.joined(odds, rows, self._weights.second.odds(second))

    def _around(
        self, question: Question, scene: Scene, channels: Channels, chosen: NDArray[np.intp], serving: Serving
    ) -> _Memories:
        numbers = channels.numbers[chosen]
        beside = _beside(scene, numbers)
        every = np.unique(np.concatenate([numbers.astype(np.int64), beside[beside >= 0]])).astype(np.uint32)
        near = np.stack([np.searchsorted(every, numbers), *(np.where(row >= 0, np.searchsorted(every, row), _NONE)
                                                            for row in beside)])  # fmt: skip
        sims = np.full(len(every), np.nan, np.float32)
        sims[near[0]] = channels.sims[chosen]
        missing = np.flatnonzero(np.isnan(sims) & (every < scene.base))
        if len(missing) and channels.query is not None:
            sims[missing] = serving.view.sims(channels.query.vector, every[missing])
        present = np.where(every < scene.base, every.astype(np.int64), _NONE)
        matches = self._views.words.matches(channels.sought, present)
        shape, lengths = scene.column("shape", every), scene.column("words", every)
        found = np.zeros(len(every), np.float32)
        found[near[0]] = channels.words[chosen]
        unindexed = np.flatnonzero((every >= scene.base) | ((found > 0) & (matches.scores == 0)))
        if len(unindexed):
            matches = self._with_read(question, scene, every, unindexed, matches)
        return _Memories(every, near, matches, sims, shape, lengths)

    def _with_read(
        self, question: Question, scene: Scene, every: Numbers, places: Places, matches: WordMatches
    ) -> WordMatches:
        """Of what is in no index (versions of another time, what was set aside) the words are read from its text."""
        holds, parts = matches.holds.copy(), matches.parts.copy()
        with self._store.snapshot() as snapshot:
            memories = [scene.memory(snapshot, number) for number in every[places].tolist()]
        read = [(place, memory) for place, memory in zip(places.tolist(), memories, strict=True) if memory is not None]
        scores = self._views.words.scores(question.query, [words_of(memory) for _, memory in read])
        for (place, memory), score in zip(read, scores.tolist(), strict=True):
            held = {token.term for token in self._views.words.tokenizer.tokens(f"{memory.speaker} {memory.content}")}
            holds[:, place] = [term in held for term in matches.terms]
            parts[:, place] = 0
            if len(matches.terms):
                parts[0, place] = score
        return matches._replace(holds=holds, parts=parts)

    def _evidence(self, question: Question, scene: Scene, numbers: Numbers, around: _Memories) -> Evidence:
        matches = around.matches
        named = _names(question.query, scene)
        terms_of = self._views.words.tokenizer.query_terms
        name_terms = {term for name in named for term in terms_of(name)}
        return Evidence(
            weights=matches.weights,
            is_name=np.array([term in name_terms for term in matches.terms], np.bool_),
            is_number=np.array([bool(_NUMBER.fullmatch(term)) for term in matches.terms], np.bool_),
            holds=matches.holds,
            words=matches.scores,
            sims=around.sims,
            shape=around.shape,
            lengths=around.lengths,
            near=around.near,
            group=_groups(scene, numbers),
            speaks=_speaks(scene, numbers, named),
            fits_date=features.fits_date(
                named_months(question.query), named_years(question.query), scene.column("event_at", numbers)
            ),
            question=question_shape(question.query),
        )

    def _late(
        self, question: Question, scene: Scene, channels: Channels, serving: Serving, around: _Memories,
        rows: NDArray[np.intp],
    ) -> Late | None:  # fmt: skip
        """Late interaction with those rows and with what stands before and after each; None where there is no such."""
        asked, form = channels.query, serving.embedder.late
        if asked is None or form is None or not len(asked.rows) or not len(rows):
            return None
        near = around.near[:3, rows]
        places = np.unique(near[near >= 0])
        with self._store.snapshot() as snapshot:
            kept = snapshot.token_rows(form.space, _text_hashes(scene, around.numbers[places]), form.dimensions)
            sims = late_interaction.max_sims(asked.rows, [_nothing(form.dimensions) if row is None else row
                                                          for row in kept])  # fmt: skip
        is_missing = np.array([row is None for row in kept], np.bool_)
        if is_missing[np.searchsorted(places, near[0])].all():
            return None
        sims = features.imputed(sims, is_missing, features.light_of(around.matches.scores, around.sims)[places])
        own, before, after = (
            np.where((row >= 0)[:, None], sims[np.searchsorted(places, np.maximum(row, places[0]))], np.float32(-1))
            for row in near
        )  # fmt: skip
        return Late(own, before, after, self._token_weights(asked, around.matches))

    def _token_weights(self, asked: QueryTokens, matches: WordMatches) -> NDArray[np.float32]:
        rarities = dict(zip(matches.terms, matches.weights.tolist(), strict=True))
        return late_interaction.token_weights(asked.words, rarities, self._views.words.tokenizer.query_terms)


def _text_hashes(scene: Scene, numbers: Numbers) -> list[bytes]:
    """Under which the token rows of each are kept."""
    is_former = numbers >= scene.base
    found = scene.columns.text_hashes(np.where(is_former, 0, numbers)) if scene.base else [b""] * len(numbers)
    if scene.then is not None:
        for place in np.flatnonzero(is_former).tolist():
            memory = scene.then.memories[int(numbers[place]) - scene.base]
            found[place] = text_hash(embedded_text(memory))
    return found


def _light(channels: Channels) -> NDArray[np.float32]:
    return features.light_of(channels.words, channels.sims)


def _allowed(scene: Scene, numbers: NDArray[np.int32]) -> NDArray[np.int64]:
    found = np.unique(numbers[numbers >= 0]).astype(np.int64)
    found = found[found < scene.base]
    return found[scene.mask[found]]


def _beside(scene: Scene, numbers: Numbers) -> NDArray[np.int64]:
    """(4, n) the numbers of what stands beside each, as in features.BESIDE; −1 where nothing is that may be seen."""
    before, after = scene.columns.column("before"), scene.columns.column("after")

    def step(links: NDArray[np.int32], at: NDArray[np.int64]) -> NDArray[np.int64]:
        is_there = (at >= 0) & (at < min(len(links), scene.base))
        found = np.where(is_there, links[np.where(is_there, at, 0)] if len(links) else _NONE, _NONE).astype(np.int64)
        is_seen = (found >= 0) & (found < scene.base)
        return np.where(is_seen & scene.mask[np.where(is_seen, found, 0)], found, _NONE) if scene.base else found

    own = numbers.astype(np.int64)
    first, next_ = step(before, own), step(after, own)
    return np.stack([first, next_, step(before, first), step(after, next_)])


def _names(query: str, scene: Scene) -> set[str]:
    """The words of the query that are part of the name of someone who speaks in what is searched."""
    words = {match.lower().removesuffix("'s") for match in _NAME.findall(query)}
    return {word for word in words if scene.has_speaker(word)}


def _speaks(scene: Scene, numbers: Numbers, named: set[str]) -> NDArray[np.int8]:
    if not named:
        return np.zeros(len(numbers), np.int8)
    speakers = scene.column("speaker", numbers)
    codes = scene.columns.speakers_named(named)
    is_named = np.isin(speakers, np.array(sorted(codes), np.int32))
    return np.where(is_named, 1, np.where(speakers > 0, -1, 0)).astype(np.int8)


def _groups(scene: Scene, numbers: Numbers) -> NDArray[np.int64]:
    """Of the session, or the note, in which each stands; −1: in none."""
    session = scene.column("session_id", numbers).astype(np.int64)
    namespace = scene.column("namespace", numbers).astype(np.int64)
    note = scene.column("managed", numbers).astype(np.int64)
    found = np.where(session > 0, (namespace << 32) + session, np.where(note > 0, (1 << 62) + note, _NONE))
    found[numbers >= scene.base] = _NONE
    return found


def _nothing(dimensions: int) -> NDArray[np.int8]:
    return np.empty((0, dimensions), np.int8)
