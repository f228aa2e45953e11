"""The evidence of the file in which a candidate stands, and of its tags. SPEC 7.3 (`auto`)

Read from the columns, the vectors and the postings: no text is decoded.
"""

import numpy as np
from numpy.typing import NDArray

from mnemo_core.documents.markup import inline_tags
from mnemo_core.retrieval.ranking import origin_features
from mnemo_core.retrieval.ranking.origin_features import LEADING_PASSAGES, CandidateOrigins
from mnemo_core.text.query_features import asks_for_list
from mnemo_core.text.text_features import TextFeature
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex
from mnemo_daemon.retrieval.candidates.corpus import CandidateSet, Corpus
from mnemo_daemon.retrieval.question import Question, RecallContext
from mnemo_store.indexes.lexical import LexicalIndex, LexicalMatches
from mnemo_store.records import DEFAULT_NAMESPACE

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
                shares[tag] = origin_features.named_share(tag, written, known, view.tokenizer.query_terms)
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
    return origin_features.rarity(every - passages, passages), origin_features.rarity(here, every - here)


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
    return origin_features.page_words(counts, rarities, words)
