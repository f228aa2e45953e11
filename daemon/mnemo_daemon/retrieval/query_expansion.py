"""A question that finds next to nothing is asked once more, with words of the best hits added. SPEC 7.6"""

import math
import time

import numpy as np

from mnemo_core.retrieval import query_expansion
from mnemo_core.retrieval.query_expansion import HITS_MAX, WORDS_FACTOR, ExpansionWord
from mnemo_core.retrieval.ranking import rankers
from mnemo_daemon.indexing.vectors.index_phases import ActiveIndex
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.retrieval.candidates.candidate_retrieval import CandidateRetrieval, CandidateSet, StageTimer
from mnemo_daemon.retrieval.candidates.ranking_inputs import RankingInputs
from mnemo_daemon.retrieval.result_builder import RankedCandidates, sort_candidates
from mnemo_store.store import Store

HELD_MIN = 2  # memories that hold a word: what only the hit itself holds finds nothing


class QueryExpansion:
    """Widens a question by rule; it costs one more search, and only where the first came to nothing."""

    def __init__(self, store: Store, views: Views, searching: CandidateRetrieval, gathering: RankingInputs) -> None:
        self._store = store
        self._views = views
        self._searching = searching
        self._gathering = gathering

    def expanded(self, ranked: RankedCandidates, serving: ActiveIndex | None, clock: StageTimer) -> RankedCandidates:
        """The candidates with what the added words find; as they were where that is no better, or not wanted."""
        if ranked.question.expand == "false" or serving is None or not query_expansion.is_due(ranked.scored.relevance):
            return ranked
        hits = [int(ranked.channels.numbers[row]) for row in ranked.rows[:HITS_MAX]]
        added = self._words(ranked, hits)
        if not added:
            return ranked
        question, aside = ranked.question, StageTimer(time.perf_counter())
        channels, _ = self._searching.search(question, ranked.scope, serving, aside, searched=" ".join(added))
        channels = _discounted(channels, hits)._replace(terms=ranked.channels.terms)  # ranked by what was asked
        channels, candidates, looked = self._gathering.candidates(
            question, ranked.asked, ranked.scope, channels, serving, joining=False
        )
        scored = rankers.score(ranked.asked, candidates)
        clock.mark("expand")
        if not query_expansion.is_improvement(ranked.scored.relevance, scored.relevance[channels.from_words]):
            return ranked
        rows = sort_candidates(question, ranked.scope, channels, scored, candidates)
        return ranked._replace(
            channels=channels,
            candidates=candidates,
            scored=scored,
            rows=rows,
            learned=looked,
            expansion_terms=tuple(added),
        )

    def _words(self, ranked: RankedCandidates, hits: list[int]) -> list[str]:
        tokenizer = self._views.lexical.tokenizer
        with self._store.snapshot() as snapshot:
            memories = [ranked.scope.memory(snapshot, number) for number in hits]
        texts = [memory.content for memory in memories if memory is not None]
        found = [
            [ExpansionWord(each.term, text[each.start : each.end]) for each in tokenizer.tokens(text)] for text in texts
        ]
        return query_expansion.expansion_terms(tokenizer.query_terms(ranked.question.query), found, self._rarity)

    def _rarity(self, term: str) -> float:
        held, memories = self._views.lexical.document_frequency(term), len(self._views.lexical)
        return math.log1p((memories - held + 0.5) / (held + 0.5)) if held >= HELD_MIN else 0.0


def _discounted(channels: CandidateSet, hits: list[int]) -> CandidateSet:
    """The candidates that the added words found: without the hits they are from, the others somewhat discounted."""
    is_hit = np.isin(channels.numbers, np.array(hits, np.uint32))
    words = np.where(is_hit, 0.0, channels.words * WORDS_FACTOR).astype(np.float32)
    return channels._replace(words=words, from_words=channels.from_words & ~is_hit)
