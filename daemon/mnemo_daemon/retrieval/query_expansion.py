"""A question that finds next to nothing is asked once more, with words of the best hits added. SPEC 7.6"""

import math

import numpy as np

from mnemo_core.retrieval import query_expansion
from mnemo_core.retrieval.query_expansion import HITS_MAX, WORDS_FACTOR, ExpansionWord
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.retrieval.candidates.candidate_retrieval import CandidateRetrieval
from mnemo_daemon.retrieval.candidates.candidate_set import CandidateSet
from mnemo_daemon.retrieval.candidates.ranking_inputs import RankingInputs
from mnemo_daemon.retrieval.context import RecallContext, StageTimer
from mnemo_store.store import Store

HELD_MIN = 2  # memories that hold a word: one that only the hit itself holds finds nothing


class QueryExpansion:
    """Widens a question by rule; it costs one more search, and only where the first came to nothing."""

    def __init__(self, store: Store, views: Views, retrieval: CandidateRetrieval, inputs: RankingInputs) -> None:
        self._store = store
        self._views = views
        self._retrieval = retrieval
        self._inputs = inputs

    def expand(self, context: RecallContext) -> None:
        """Take the candidates that the added words find, where expansion is requested and they are better."""
        serving, before = context.serving, context.scored.relevance
        if context.question.expand == "false" or serving is None or not query_expansion.is_due(before):
            return
        hits = [int(context.found.numbers[row]) for row in context.rows[:HITS_MAX]]
        added = self._words(context, hits)
        if not added:
            return
        wider = RecallContext(context.question, context.corpus, StageTimer(), serving)
        self._retrieval.search(wider, words=" ".join(added))
        wider.request = context.request
        wider.found = _discounted(wider.found, hits)._replace(terms=context.found.terms)  # ranked by the query
        self._inputs.set_candidates(wider, joins=False)
        wider.rank()
        context.timer.mark("expand")
        if query_expansion.is_improvement(before, wider.scored.relevance[wider.found.from_words]):
            context.found, context.learned, context.candidates = wider.found, wider.learned, wider.candidates
            context.scored, context.rows, context.expansion_terms = wider.scored, wider.rows, tuple(added)

    def _words(self, context: RecallContext, hits: list[int]) -> list[str]:
        tokenizer = self._views.lexical.tokenizer
        with self._store.snapshot() as snapshot:
            memories = [context.corpus.memory(snapshot, number) for number in hits]
        texts = [memory.content for memory in memories if memory is not None]
        found = [
            [ExpansionWord(each.term, text[each.start : each.end]) for each in tokenizer.tokens(text)] for text in texts
        ]
        return query_expansion.expansion_terms(tokenizer.query_terms(context.question.query), found, self._rarity)

    def _rarity(self, term: str) -> float:
        held, memories = self._views.lexical.document_frequency(term), len(self._views.lexical)
        return math.log1p((memories - held + 0.5) / (held + 0.5)) if held >= HELD_MIN else 0.0


def _discounted(found: CandidateSet, hits: list[int]) -> CandidateSet:
    """The candidates that the added words found: without the hits they are from, the others somewhat discounted."""
    is_hit = np.isin(found.numbers, np.array(hits, np.uint32))
    words = np.where(is_hit, 0.0, found.words * WORDS_FACTOR).astype(np.float32)
    return found._replace(words=words, from_words=found.from_words & ~is_hit)
