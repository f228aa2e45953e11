"""The fact channel of recall: the memories that state what a query asks of the entities that it names. SPEC 7.2, 10.3

A chain is followed as long as each of its facts has a word of the query besides the names, and counts where its facts
together have half of these words. Otherwise whatever is known of a person is found by every question about that person,
as was measured on conversations. A query of names alone asks for all of it.
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mnemo_core.knowledge.facts import FactChain, find_chains, query_entities, single_value_of
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.indexing.fact_index import FactScope
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.retrieval.candidates.candidate_set import Numbers, sorted_unique
from mnemo_daemon.retrieval.candidates.corpus import Corpus
from mnemo_daemon.retrieval.question import Question
from mnemo_store.records import Fact
from mnemo_store.store import Store

COVERED_MIN = 0.5  # share of the words of a query that the facts of a chain have
CANDIDATES_MAX = 32  # memories that join the candidates, those of the shortest chains first

_NONE: Numbers = np.empty(0, np.uint32)


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
