"""A question is asked once more with further words: those of its other phrasings, or, where it finds next to nothing,
of its best hits. SPEC 7.6"""

import math

import numpy as np

from mnemo_core.llm.questions.expand import added_words
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
    """Widens a question; it costs one more search, without phrasings only where the first came to nothing."""

    def __init__(self, store: Store, views: Views, retrieval: CandidateRetrieval, inputs: RankingInputs) -> None:
        self._store = store
        self._views = views
        self._retrieval = retrieval
        self._inputs = inputs

    def expand(self, context: RecallContext) -> None:
        """Take the candidates that the added words find, where expansion is requested and they are better."""
        question, serving, before = context.question, context.serving, context.scored.relevance
        hits: list[int] = []
        if question.phrasings:
            names, words = list(question.phrasings), added_words(question.phrasings, question.query)
        elif (
            question.expand == "false"
            or serving is None
            or context.timed is not None
            or not query_expansion.is_due(before)
        ):
            return
        else:
            hits = [int(context.found.numbers[row]) for row in context.rows[:HITS_MAX]]
            names = self._words(context, hits)
            words = " ".join(names)
        if not words:
            return
        wider = RecallContext(question, context.corpus, StageTimer(), serving, timed=context.timed)
        self._retrieval.search(wider, words=words)
        wider.request = context.request
        wider.found = _discounted(wider.found, hits)._replace(terms=context.found.terms)  # ranked by the query
        self._inputs.set_candidates(wider, joins=False)
        wider.rank()
        context.timer.mark("expand")
        if query_expansion.is_improvement(before, wider.scored.relevance[wider.found.from_words]):
            context.found, context.learned, context.candidates = wider.found, wider.learned, wider.candidates
            context.scored, context.rows, context.expansion_terms = wider.scored, wider.rows, tuple(names)
            if question.phrasings and question.sort == "score":
                context.rows = _better_first(wider, float(before.max(initial=0.0)))

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


def _better_first(wider: RecallContext, before: float) -> list[int]:
    """The rows, first those that the phrasings found and that fit better than everything before, by relevance: the
    ranker goes by the words of the question, of which they may have none."""
    fit, from_words = wider.scored.relevance, wider.found.from_words
    better = [row for row in wider.rows if from_words[row] and WORDS_FACTOR * float(fit[row]) > before]
    better.sort(key=lambda row: -float(fit[row]))
    first = frozenset(better)
    return [*better, *(row for row in wider.rows if row not in first)]


def _discounted(found: CandidateSet, hits: list[int]) -> CandidateSet:
    """The candidates that the added words found: without the hits they are from, the others somewhat discounted."""
    is_hit = np.isin(found.numbers, np.array(hits, np.uint32))
    words = np.where(is_hit, 0.0, found.words * WORDS_FACTOR).astype(np.float32)
    return found._replace(words=words, from_words=found.from_words & ~is_hit)
