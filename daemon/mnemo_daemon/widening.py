"""A question that finds next to nothing is asked once more, with words of the best hits added. SPEC 7.6"""

import math
import time

import numpy as np

from mnemo_core import expansion, ranking
from mnemo_core.expansion import HITS_MAX, WORDS_FACTOR, Word
from mnemo_daemon.answering import Ranked, ordered
from mnemo_daemon.candidates import Gathering
from mnemo_daemon.channels import Channels, Clock, Searching
from mnemo_daemon.indexing import Serving
from mnemo_daemon.views import Views
from mnemo_store.store import Store

HELD_MIN = 2  # memories that hold a word: what only the hit itself holds finds nothing


class Widening:
    """Widens a question by rule; it costs one more search, and only where the first came to nothing."""

    def __init__(self, store: Store, views: Views, searching: Searching, gathering: Gathering) -> None:
        self._store = store
        self._views = views
        self._searching = searching
        self._gathering = gathering

    def widened(self, ranked: Ranked, serving: Serving | None, clock: Clock) -> Ranked:
        """The candidates with what the added words find; as they were where that is no better, or not wanted."""
        if ranked.question.expand == "false" or serving is None or not expansion.is_due(ranked.scored.relevance):
            return ranked
        hits = [int(ranked.channels.numbers[row]) for row in ranked.rows[:HITS_MAX]]
        added = self._words(ranked, hits)
        if not added:
            return ranked
        question, aside = ranked.question, Clock(time.perf_counter())
        channels, _ = self._searching.search(question, ranked.scene, serving, aside, searched=" ".join(added))
        channels = _discounted(channels, hits)._replace(sought=ranked.channels.sought)  # ranked by what was asked
        channels, candidates, looked = self._gathering.candidates(
            question, ranked.asked, ranked.scene, channels, serving, joining=False
        )
        scored = ranking.score(ranked.asked, candidates)
        clock.mark("expand")
        if not expansion.does_better(ranked.scored.relevance, scored.relevance[channels.in_words]):
            return ranked
        rows = ordered(question, ranked.scene, channels, scored, candidates)
        return ranked._replace(
            channels=channels, candidates=candidates, scored=scored, rows=rows, looked=looked, added=tuple(added)
        )

    def _words(self, ranked: Ranked, hits: list[int]) -> list[str]:
        tokenizer = self._views.words.tokenizer
        with self._store.snapshot() as snapshot:
            memories = [ranked.scene.memory(snapshot, number) for number in hits]
        texts = [memory.content for memory in memories if memory is not None]
        found = [[Word(each.term, text[each.start : each.end]) for each in tokenizer.tokens(text)] for text in texts]
        return expansion.added_words(tokenizer.query_terms(ranked.question.query), found, self._rarity)

    def _rarity(self, term: str) -> float:
        held, memories = self._views.words.document_frequency(term), len(self._views.words)
        return math.log1p((memories - held + 0.5) / (held + 0.5)) if held >= HELD_MIN else 0.0


def _discounted(channels: Channels, hits: list[int]) -> Channels:
    """What the added words found: nothing of the hits they are from, and of the others somewhat less."""
    is_hit = np.isin(channels.numbers, np.array(hits, np.uint32))
    words = np.where(is_hit, 0.0, channels.words * WORDS_FACTOR).astype(np.float32)
    return channels._replace(words=words, in_words=channels.in_words & ~is_hit)
