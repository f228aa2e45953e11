"""The trace of a recall: what the filters left out, what each channel found, what each candidate scored. SPEC 7.7

It is made from the context of the recall afterwards: an answer without `explain` pays for none of it.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_client.protocol.retrieval import (
    CandidateTrace,
    ChannelHit,
    ChannelTrace,
    FactChainView,
    FactLink,
    FilterCount,
    GroupSums,
    RecallTrace,
)
from mnemo_core.ingest.facts import FactChain
from mnemo_core.retrieval import explanations
from mnemo_core.retrieval.explanations import ReasonInputs
from mnemo_core.retrieval.ranking import rankers, ranking_features
from mnemo_core.retrieval.ranking.rankers import MS_AN_HOUR
from mnemo_core.retrieval.ranking.ranking_features import GROUPS, FeatureTable, Group
from mnemo_daemon.indexing.commit_indexes import words_of
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.retrieval.candidates.corpus import Corpus, CorpusPart
from mnemo_daemon.retrieval.candidates.learned_ranking import shipped_weights
from mnemo_daemon.retrieval.question import Question, RecallContext, reaches
from mnemo_daemon.retrieval.result_builder import kept_rows
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import STATES, Memory

DIGITS = 6  # of a number that is reported
CHAINS_SHOWN = 50  # chains of facts that are reported
FEATURES_MAX = 20  # candidates whose features are reported: those of all are a megabyte

Named = dict[str, Any]  # numbers by the name of a feature
Mask = NDArray[np.bool_]
Numbers = NDArray[np.uint32]

WORKING = "working"
FEW = "few_candidates"
_UNFILTERED = MemoryFilter(states=STATES)


class _Columns(NamedTuple):
    """Numbers of some candidates by name: (n, k)."""

    names: tuple[str, ...]
    values: NDArray[np.float64]

    def row(self, place: int) -> Named:
        return {
            name: None if math.isnan(value) else value
            for name, value in zip(self.names, self.values[place].tolist(), strict=True)
        }


class _Contributions(NamedTuple):
    """Candidates with the same features: their places among all, the features, what each adds, and what is added to
    all of them in any case."""

    rows: NDArray[np.intp]
    features: _Columns
    adds: _Columns
    always: float = 0.0


class FilterEntry(NamedTuple):
    """A filter: the fields that it goes by, and in words the value that passes it and the value of a memory."""

    fields: tuple[str, ...]
    wanted: Callable[[MemoryFilter], str]
    has: Callable[[Memory], str]


def _equal(name: str) -> FilterEntry:
    return FilterEntry(
        (name,), lambda wanted: str(getattr(wanted, name)), lambda memory: getattr(memory, name) or "none"
    )


def _one_of(name: str, field: str) -> FilterEntry:
    return FilterEntry(
        (name,), lambda wanted: " or ".join(getattr(wanted, name)), lambda memory: getattr(memory, field) or "none"
    )


def _when(memory: Memory) -> str:
    is_dated = memory.note is None or memory.note.dated
    return f"{'happened' if is_dated else 'its file was changed'} at {local_time(memory.event_at)}"


def _least_importance(wanted: MemoryFilter) -> str:
    if wanted.min_importance > 0:
        return f"{wanted.min_importance:g} or more"
    return f"{wanted.min_importance_unasked:g} or more, of what was taken in without being asked for"


def _session(memory: Memory) -> str:
    session = f"session {memory.session_id}" if memory.session_id else "no session"
    return f"of {session}, stored at {local_time(memory.created_at)}"


# By the name that an answer uses, in the order in which they are applied. A state has a name of its own, and `working`
# stands for the rule of that kind, which is no field.
FILTERS: dict[str, FilterEntry] = {
    "user_id": _equal("user_id"),
    "namespace": _one_of("namespaces", "namespace"),
    **dict.fromkeys(STATES, _one_of("states", "state")),
    "expired": FilterEntry(
        ("now",), lambda wanted: f"what holds at {local_time(wanted.now)}",
        lambda memory: f"expired at {local_time(memory.expires_at)}",
    ),
    "kinds": _one_of("kinds", "kind"),
    "categories": _one_of("categories", "category"),
    "layers": _one_of("layers", "layer"),
    "tags": FilterEntry(
        ("tags",), lambda wanted: " and ".join(wanted.tags), lambda memory: ", ".join(memory.tags) or "none"
    ),
    **{name: _equal(name) for name in ("source", "speaker", "agent_id", "run_id", "session_id")},
    "trust_min": FilterEntry(
        ("trust_min",), lambda wanted: f"{wanted.trust_min} or more trusted", lambda memory: memory.trust
    ),
    "since": FilterEntry(("since",), lambda wanted: f"from {local_time(wanted.since or 0)} on", _when),
    "until": FilterEntry(("until",), lambda wanted: f"before {local_time(wanted.until or 0)}", _when),
    "min_importance": FilterEntry(
        ("min_importance", "min_importance_unasked"), _least_importance,
        lambda memory: f"{memory.importance:g}, from {memory.source}",
    ),
    WORKING: FilterEntry((), lambda wanted: "of this session, or of none and not a day old", _session),
}  # fmt: skip


def filtered_parts(question: Question, corpus: Corpus) -> list[CorpusPart]:
    """The parts of the corpus, with the rows that this caller may know of."""
    return corpus.parts(_UNFILTERED._replace(without_tags=question.filter.without_tags))


def failures(wanted: MemoryFilter, part: CorpusPart) -> Iterator[tuple[str, Mask]]:
    """By filter, in order: the rows that do not pass it. One row may fail several."""

    def passes(one: MemoryFilter) -> Mask:
        return part.columns.uncached_mask(one)[: len(part.visible)]

    for reason, entry in FILTERS.items():
        if reason == WORKING:
            yield reason, part.visible & ~part.allowed & passes(wanted)
        elif reason not in STATES:
            one = _UNFILTERED._replace(**{name: getattr(wanted, name) for name in entry.fields})
            yield reason, part.visible & ~passes(one)
        elif reason not in wanted.states:
            others = _UNFILTERED._replace(states=tuple(state for state in STATES if state != reason))
            yield reason, part.visible & ~passes(others) & ~part.allowed  # what replaced it may be gone


class Explainer:
    """Makes the trace of a recall."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._weights = shipped_weights()

    def trace(self, context: RecallContext) -> RecallTrace:
        """The trace of a recall that was asked to explain itself."""
        parts = filtered_parts(context.question, context.corpus)
        ids = context.corpus.ids(context.found.numbers)
        candidates = self.candidates(context, ids)
        wanted = context.question.filter
        counts: Counter[str] = Counter()
        for part in parts:
            left = part.visible.copy()
            for reason, fails in failures(wanted, part):
                counts[reason] += int((left & fails).sum())
                left &= ~fails
        by_words, by_sims = context.found.words.astype(np.float64), context.found.sims.astype(np.float64)
        found = []
        for name, has_it, scores in (
            ("words", context.found.from_words, by_words), ("vectors", context.found.from_vectors, by_sims),
            ("neighbours", context.found.from_neighbours, None), ("core", context.found.from_core, None),
            ("facts", context.found.from_facts, None), ("time", context.found.from_time, None),
        ):  # fmt: skip
            if (name == "vectors" and context.found.query is None) or (name in ("facts", "time") and not has_it.any()):
                continue
            rows = np.flatnonzero(has_it)
            if scores is not None:
                rows = rows[np.argsort(-scores[rows], kind="stable")]
            numbers = [None] * len(rows) if scores is None else _rounded(scores[rows])
            hits = [
                ChannelHit(id=ids[row], rank=rank, score=score)
                for rank, (row, score) in enumerate(zip(rows.tolist(), numbers, strict=True), start=1)
            ]
            found.append(ChannelTrace(name=name, found=len(hits), hits=hits))
        return RecallTrace(
            memories=sum(int(each.visible.sum()) for each in parts),
            left_out=[
                FilterCount(reason=reason, count=count, wants=FILTERS[reason].wanted(wanted))
                for reason, count in counts.items()
                if count
            ],
            in_question=len(context.corpus.numbers), words=list(self.term_matches(context).values()), channels=found,
            fact_chains=[fact_chain_view(chain) for chain in context.fact_chains[:CHAINS_SHOWN]], candidates=candidates,
            dropped=dict(Counter(each.dropped for each in candidates if each.dropped is not None)),
            uncompared=context.page.uncompared, stages_ms=context.timer.stages,
        )  # fmt: skip

    def candidates(
        self, context: RecallContext, ids: Sequence[str], asked: Collection[str] = ()
    ) -> list[CandidateTrace]:
        """By rank, then those that have none, by relevance. ids: of all candidates. The features are reported of the
        answers, of the first candidates, and of the memories with the ids `asked`."""
        scored, found, candidates, page = context.scored, context.found, context.candidates, context.page
        scores, relevance, sims, words, importance = (
            _rounded(values)
            for values in (
                scored.scores, scored.relevance, candidates.sims, candidates.words, candidates.importance,
            )
        )  # fmt: skip
        hours = (np.maximum(context.request.now - candidates.event_at, 0) / MS_AN_HOUR).tolist()
        held = self._terms_held(context)
        reason_inputs = list(map(ReasonInputs, held, sims, hours, candidates.importance.tolist()))
        answers = {hit.details.memory.id: place for place, hit in enumerate(page.hits, start=1)}
        ranks = {row: rank for rank, row in enumerate(context.rows, start=1)}
        shown = {
            *context.rows[:FEATURES_MAX],
            *(row for row, each in enumerate(ids) if each in asked or each in answers),
        }
        why, features, adds = dict[int, list[str]](), dict[int, Named](), dict[int, Named]()
        sums = dict[int, GroupSums]()
        for each in self._contributions(context):
            sums |= _group_sums(each, rankers.groups_of(scored.ranker), shown)
            rows = each.rows.tolist()
            why |= zip(
                rows, explanations.strongest_reasons(*each.adds, [reason_inputs[row] for row in rows]), strict=True
            )
            features |= {row: each.features.row(place) for place, row in enumerate(rows) if row in shown}
            adds |= {row: each.adds.row(place) for place, row in enumerate(rows) if row in shown}
        why_not, cut = not_answered(context, ids), page.evidence.values() if page.evidence is not None else {}
        behind = sorted(set(range(len(ids))) - ranks.keys(), key=lambda row: (-float(scored.relevance[row]), row))
        return [
            CandidateTrace(
                id=ids[row], rank=ranks.get(row), score=scores[row], relevance=relevance[row], similarity=sims[row],
                words=words[row], importance=importance[row], channels=found.channels_of(row),
                features=features.get(row, {}), adds=adds.get(row, {}), groups=sums.get(row), holds=held[row],
                why=why.get(row, []), answer=answers.get(ids[row]), dropped=why_not.get(row), cut=cut.get(row, {}),
            )
            for row in (*context.rows, *behind)
        ]  # fmt: skip

    def term_matches(self, context: RecallContext) -> dict[str, str]:
        """The terms that were looked for, each with the word of the question that it stands for."""
        tokenizer, text = self._views.lexical.tokenizer, context.question.query
        words: dict[str, str] = {}
        for token in tokenizer.tokens(text):
            words.setdefault(token.term, text[token.start : token.end])
        return {term: words.get(term, term) for term in tokenizer.query_terms(text)}

    def terms_of(self, memory: Memory) -> set[str]:
        """The terms of the fields that are searched."""
        fields = words_of(memory)
        text = " ".join((fields.content, fields.speaker, *fields.tags, *fields.headings))
        return {token.term for token in self._views.lexical.tokenizer.tokens(text)}

    def _terms_held(self, context: RecallContext) -> list[list[str]]:
        """The words of the question that each candidate has, as the question has them."""
        words, corpus, numbers = self.term_matches(context), context.corpus, context.found.numbers
        matches = self._views.lexical.matches(context.found.terms, corpus.index_numbers(numbers))
        held = [
            [words[term] for term, has_it in zip(matches.terms, column, strict=True) if has_it and term in words]
            for column in matches.holds.T
        ]
        for place, version in corpus.versions_among(numbers):
            terms = self.terms_of(version)
            held[place] = [word for term, word in words.items() if term in terms]
        return held

    def _contributions(self, context: RecallContext) -> list[_Contributions]:
        """The features of the ranker that was used, and what each adds. For the learned fusion, the best candidates
        have more features than the rest, and those of later pages none."""
        learned = context.learned
        if learned is None:
            features, adds = _stacked(context.scored.features), _stacked(context.scored.amounts)
            return [_Contributions(np.arange(len(context.found.numbers)), features, adds)]
        first = np.flatnonzero(context.found.rounds == 0)
        terms = ranking_features.origin_contributions(learned.terms)

        def of(rows: NDArray[np.intp], table: FeatureTable, adds: FeatureTable, bias: float) -> _Contributions:
            more = (*learned.terms.names, FEW)
            count, few = (np.full((len(rows), 1), value) for value in (len(first), learned.few))
            features = _columns((*table.names, *more), table.values, learned.terms.values[rows], count)
            added = _columns((*adds.names, *more), adds.values, terms[rows], few)
            return _Contributions(first[rows], features, added, bias + learned.few)

        weights, others = self._weights, np.setdiff1d(np.arange(len(first)), learned.rows)
        table, second = FeatureTable(learned.first.names, learned.first.values[others]), learned.second
        added = FeatureTable(weights.first.names, weights.first.contributions(table))
        found = [of(others, table, added, weights.first.bias)]
        if second is not None:
            added = FeatureTable(weights.second.names, weights.second_contributions(second))
            found.append(of(learned.rows, second, added, weights.second_bias))
        return found


def not_answered(context: RecallContext, ids: Sequence[str]) -> dict[int, str]:
    """By row, why a candidate is not in the answer; the answers are missing. ids: of all candidates."""
    question, scored, page = context.question, context.scored, context.page
    hits = {hit.details.memory.id for hit in page.hits}
    is_in = [each in hits for each in ids]
    found: dict[int, str] = {}
    ranks = {row: rank for rank, row in enumerate(context.rows)}
    first = min((ranks[row] for row in ranks if is_in[row]), default=len(ranks))
    kept = kept_rows(context, page.evidence) if question.is_cut and page.evidence is not None else ranks
    is_enough = reaches(scored.scores, question.min_score)
    for row, number in enumerate(context.found.numbers.tolist()):
        if is_in[row]:
            continue
        if row not in ranks:
            why = "no_score" if scored.scores[row] <= 0 else "same_note" if is_enough[row] else "min_score"
            found[row] = scored.reason if scored.dropped[row] else why
        elif row not in kept:
            found[row] = "cut"
        elif number in page.dropped:
            found[row] = page.dropped[number]
        else:
            found[row] = "earlier_page" if question.offset and ranks[row] < first else "beyond_top_k"
    return found


def fact_chain_view(chain: FactChain) -> FactChainView:
    links = [
        FactLink(id=fact.id, memory_id=fact.memory, subject=fact.subject, predicate=fact.predicate, object=fact.object)
        for fact in chain.facts
    ]
    return FactChainView(entities=list(chain.entities), facts=links)


def _columns(names: tuple[str, ...], *parts: NDArray[Any]) -> _Columns:
    """Side by side, rounded."""
    return _Columns(names, np.concatenate(parts, axis=1, dtype=np.float64).round(DIGITS))


def _stacked(values: Mapping[str, NDArray[Any]]) -> _Columns:
    return _columns(tuple(values), np.stack(list(values.values()), axis=1))


def _group_sums(each: _Contributions, groups: Mapping[str, Group], shown: set[int]) -> dict[int, GroupSums]:
    """By row, the contributions of those that are shown in groups; empty where a group is not known."""
    places = [place for place, row in enumerate(each.rows.tolist()) if row in shown]
    columns = [place for place, name in enumerate(each.adds.names) if name != FEW]
    names = [each.adds.names[place] for place in columns]
    grouped = explanations.group_sums(names, each.adds.values[np.ix_(places, columns)], groups)
    if grouped is None:
        return {}
    equal = round(grouped.equal + each.always, DIGITS)
    return {
        int(each.rows[place]): GroupSums(**dict(zip(GROUPS, sums, strict=True)), equal=equal)
        for place, sums in zip(places, map(_rounded, grouped.sums), strict=True)
    }


def _rounded(values: NDArray[Any]) -> list[Any]:
    """None where there is no number."""
    found: list[float] = values.astype(np.float64).round(DIGITS).tolist()
    return [None if math.isnan(each) else each for each in found]


def local_time(milliseconds: int) -> str:
    """Return day and minute in the time zone of the daemon; in UTC where the calendar ends before them."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    try:
        return moment.astimezone().isoformat(" ", "minutes")
    except (OverflowError, ValueError):
        return moment.isoformat(" ", "minutes")
