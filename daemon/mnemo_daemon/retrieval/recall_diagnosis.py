"""Explains why one memory was, or was not, among the answers. SPEC 7.7

It reads the context of a recall that was made for this, and decides nothing itself.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_client.protocol.choices import Verdict
from mnemo_client.protocol.retrieval import CandidateTrace, ChannelRank, FailedFilter, WhyAnswer
from mnemo_core.retrieval.explanations import ComparedHit, comparison
from mnemo_core.retrieval.ranking.rankers import RANKER_TABLE
from mnemo_core.retrieval.ranking.ranking_features import GROUPS
from mnemo_core.retrieval.result_selection import is_copy
from mnemo_core.text.canonical import canonical_form
from mnemo_daemon.errors import Refusal
from mnemo_daemon.indexing.commit_indexes import words_of
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.retrieval import explanations
from mnemo_daemon.retrieval.candidates.corpus import NOT_THEN
from mnemo_daemon.retrieval.explanations import FILTERS, Explainer
from mnemo_daemon.retrieval.question import Question, RecallContext
from mnemo_store.record_texts import content_hash
from mnemo_store.records import Memory
from mnemo_store.store import Store

_VERDICTS: dict[str, Verdict] = {
    "beyond_top_k": "further_down", "earlier_page": "earlier_page", "no_score": "not_ranked", "min_score": "not_ranked",
    "below_sim_threshold": "not_ranked", "no_similarity": "not_ranked",
}  # fmt: skip

Count = Callable[[int | None, Memory], int]  # the tokens of a memory's content, by its number


class DiagnosedRecall(NamedTuple):
    """A recall, and the memory in question. number None: it has none in the corpus (`Corpus.absence`)."""

    context: RecallContext
    memory: Memory
    number: int | None

    @property
    def row(self) -> int | None:
        """Its place among the candidates."""
        if self.number is None:
            return None
        places = np.flatnonzero(self.context.found.numbers == self.number)
        return int(places[0]) if len(places) else None


class RecallDiagnosis:
    """Explains the rank of one memory."""

    def __init__(self, store: Store, views: Views, explainer: Explainer, count: Count) -> None:
        self._store = store
        self._views = views
        self._explainer = explainer
        self._count = count

    def diagnose(self, context: RecallContext, memory_id: str, against: str = "") -> WhyAnswer:
        """Diagnose the recall, and compare the memory with another candidate, by its id. Raises a Refusal (404) where
        there is no such memory."""
        with self._store.snapshot() as snapshot:
            number = context.corpus.number(snapshot, memory_id)
            memory = context.corpus.memory(snapshot, number) if number is not None else None
            there = memory or snapshot.memory(memory_id)
        if there is None:
            raise Refusal(404, "not_found", f"there is no memory {memory_id!r}", field="id")
        asked = DiagnosedRecall(context, there, number if memory is not None else None)
        hurdles = self._failed_filters(asked)
        terms, words = self._explainer.terms_of(there), self._explainer.term_matches(context)
        held = [word for term, word in words.items() if term in terms]
        missing = [word for term, word in words.items() if term not in terms]
        ids = context.corpus.ids(context.found.numbers)
        traces = {each.id: each for each in self._explainer.candidates(context, ids, {memory_id, against})}
        own = traces.get(memory_id) if asked.row is not None else None
        verdict, reason = _verdict(asked, own, hurdles)
        diagnosis = WhyAnswer(
            id=memory_id, verdict=verdict, reason=reason, sentence="", hurdles=hurdles, holds=held, missing=missing,
            channels=[] if hurdles else self._channel_ranks(asked), candidate=own, answers=len(context.page.hits),
            ranker=context.scored.ranker,
        )  # fmt: skip
        if verdict == "held_back":
            diagnosis.instead = self._instead(asked)
            if reason == "over_budget":
                row = context.corpus.index_number(number) if number is not None else None
                diagnosis.tokens = self._count(row, there)
        if verdict != "answered":
            made = [traces[hit.details.memory.id] for hit in context.page.hits if hit.details.memory.id in traces]
            diagnosis.last = made[-1] if made else None
        diagnosis.sentence = sentence(diagnosis, asked)
        diagnosis.against = traces.get(against)
        if own is not None and diagnosis.against is not None:
            one, other = _compared(own), _compared(diagnosis.against)
            if one is not None and other is not None:
                diagnosis.comparison = comparison(one, other, len(words))
        return diagnosis

    def _failed_filters(self, asked: DiagnosedRecall) -> list[FailedFilter]:
        question, corpus = asked.context.question, asked.context.corpus
        if asked.number is None:
            if corpus.absence is None:
                return []
            return [FailedFilter(reason=corpus.absence, wanted="what was there then", has="was not there")]
        place, row = corpus.row(asked.number)
        part = explanations.filtered_parts(question, corpus)[place]
        wanted = question.filter
        return [
            FailedFilter(reason=reason, wanted=FILTERS[reason].wanted(wanted), has=FILTERS[reason].has(asked.memory))
            for reason, fails in explanations.failures(wanted, part)
            if row < len(fails) and fails[row]
        ]

    def _channel_ranks(self, asked: DiagnosedRecall) -> list[ChannelRank]:
        """The rank of the memory in each channel among all in scope."""
        found, corpus, row = asked.context.found, asked.context.corpus, asked.row
        question, serving = asked.context.question, asked.context.serving
        number = corpus.index_number(asked.number) if asked.number is not None else None
        score = float(self._views.lexical.score_texts(question.query, [words_of(asked.memory)])[0])
        others = self._views.lexical.search(question.query, max(1, int(corpus.mask.sum())), corpus.mask).scores
        ranks = [_channel_rank("words", score if score > 0 else np.nan, others, found.from_words, row)]
        if serving is not None and found.query is not None:
            sims = serving.view.sims(found.query.vector, np.flatnonzero(corpus.mask).astype(np.uint32))
            sim = float(found.sims[row]) if row is not None else np.nan
            if row is None and number is not None:
                sim = float(serving.view.sims(found.query.vector, np.array([number], np.uint32))[0])
            ranks.append(_channel_rank("vectors", sim, sims, found.from_vectors, row))
        return ranks

    def _instead(self, asked: DiagnosedRecall) -> str | None:
        """The id of the answer that it is a copy or an older value of."""
        memory, limits = asked.memory, asked.context.request.thresholds
        digest = content_hash(memory.content)
        hits = [hit.details.memory for hit in asked.context.page.hits if hit.details.memory.id != memory.id]
        for hit in hits:
            if content_hash(hit.content) == digest:
                return hit.id
        with self._store.snapshot() as snapshot:
            newer = {edge.source for edge in snapshot.edges(memory.id) if edge.relation == "updates"}
            newer.add(memory.superseded_by)
            numbers = {hit.id: snapshot.number(hit.id) for hit in hits}
        read = functools.cache(canonical_form)
        for hit in hits:
            sim = self._sim(asked, numbers[hit.id])
            if hit.id in newer or is_copy(hit, memory, sim, limits, read):
                return hit.id
        return None

    def _sim(self, asked: DiagnosedRecall, other: int | None) -> float | None:
        """The cosine of it and another: of their two nearest windows; None where one has no vector."""
        if asked.context.serving is None or asked.number is None or other is None:
            return None
        view, number = asked.context.serving.view, asked.context.corpus.index_number(asked.number)
        one, two = None if number is None else view.vectors_of(number), view.vectors_of(other)
        if one is None or two is None:
            return None
        return float((one.astype(np.float32) @ two.astype(np.float32).T).max())


def _compared(trace: CandidateTrace) -> ComparedHit | None:
    """A candidate as it is compared; None where its contributions are not known."""
    if trace.groups is None:
        return None
    return ComparedHit(len(trace.holds), trace.similarity, {name: getattr(trace.groups, name) for name in GROUPS})


def sentence(diagnosis: WhyAnswer, asked: DiagnosedRecall) -> str:
    """The answer in words."""
    question, own, last = asked.context.question, diagnosis.candidate, diagnosis.last
    match diagnosis.verdict:
        case "answered":
            hits = asked.context.page.hits
            place, hit = next(each for each in enumerate(hits, 1) if each[1].details.memory.id == diagnosis.id)
            in_place = ", in the place of one that it updates" if "updates" in hit.channels else ""
            because = f": {'; '.join(own.why)}" if own is not None and own.why else in_place
            return f"It is answer {place} of {diagnosis.answers}{because}."
        case "filtered":
            first, *others = diagnosis.hurdles
            more = f"; nor would it pass {', '.join(f'`{each.reason}`' for each in others)}" if others else ""
            if first.reason == NOT_THEN:
                return "It was not there at the time that is asked about."
            has = f"{first.has}{more}"
            return f"It was left out by `{first.reason}`, which requires {first.wanted}; the memory has {has}."
        case "not_found":
            if asked.number is None:
                return "It has only just come, and is not searched yet."
            by_meaning = _by_meaning(diagnosis, asked.context.found.graph_rows)
            return f"No channel found it: {_by_words(diagnosis)}{by_meaning}."
        case "not_ranked":
            return f"It was found, but {_under(diagnosis, asked, question)}."
        case "held_back":
            return _held_back(diagnosis, asked)
        case "further_down":
            scores = ""
            if own is not None and last is not None:
                scores = f": its score is {own.score:.3g}, that of the last answer {last.score:.3g}"
            where = "further down" if own is None else f"in place {own.rank}"
            return f"It was found {where}, and {diagnosis.answers} were answered{scores}."
    at = "" if own is None else f", in place {own.rank}"
    return f"It was found{at}, and the offset of {question.offset} passes over it."


def _by_words(diagnosis: WhyAnswer) -> str:
    words = next(each for each in diagnosis.channels if each.name == "words")
    if words.rank is None:
        if diagnosis.missing:
            return f"it has none of the words {', '.join(diagnosis.missing)}"
        return "the question has no words"
    lacks = f", lacks {', '.join(diagnosis.missing)}" if diagnosis.missing else ""
    has_these = f"it has {', '.join(diagnosis.holds)}{lacks}"
    return f"by words ({has_these}) it is number {words.rank}, and {words.looked_at} were looked at"


def _by_meaning(diagnosis: WhyAnswer, graph_rows: int) -> str:
    vectors = next((each for each in diagnosis.channels if each.name == "vectors"), None)
    if vectors is None:
        return ", and only words were looked for"
    if vectors.rank is None:
        return ", and it has no vector yet"
    place = f"; by meaning (cosine {vectors.score:.2f}) it is number {vectors.rank}"
    if graph_rows and vectors.rank <= vectors.looked_at:
        looked_at = f"but the graph search, which looked at {graph_rows} vectors, did not meet it"
        return f"{place}, {looked_at}; `exact` compares all"
    return f"{place}, and {vectors.looked_at} were looked at"


def _under(diagnosis: WhyAnswer, asked: DiagnosedRecall, question: Question) -> str:
    own, limits = diagnosis.candidate, asked.context.request.thresholds
    score = 0.0 if own is None else own.score
    if diagnosis.reason == "min_score":
        return f"its score {score:.3f} is under the min_score of {question.min_score:g}"
    if diagnosis.reason == "no_score":
        return f"it has no score by `{diagnosis.ranker}`"
    floor_of = RANKER_TABLE[asked.context.scored.ranker].floor
    near = "it has no vector yet" if own is None or own.similarity is None else f"its cosine {own.similarity:.2f}"
    if floor_of is None:
        return f"{near} is no similarity"
    return f"{near} is under the floor of `{diagnosis.ranker}`, {floor_of(limits):.2f}"


def _held_back(diagnosis: WhyAnswer, asked: DiagnosedRecall) -> str:
    question = asked.context.question
    of = f" of {diagnosis.instead}" if diagnosis.instead else " of one before it"
    match diagnosis.reason:
        case "duplicate_content":
            return f"It was found, and says the very same as an answer: it is a duplicate{of}."
        case "near_copy":
            return f"It was found, and says nothing that an answer does not say: it is a near copy{of}."
        case "same_note":
            return "It was found; a passage of the same note ranks higher, and stands for the whole note (`group_by`)."
        case "older_value":
            return f"It was found; it is an older value{of}, left out so that more that holds now fits the budget."
        case "over_budget":
            budget = f"of {question.token_budget} {asked.context.page.tokens} are used"
            return f"It was found, and does not fit the token budget: it has {diagnosis.tokens} tokens, and {budget}."
        case "cut":
            if asked.context.page.abstained:
                return "It was found, but nothing that was found is near enough to be an answer (`cut: gap`)."
            return "It was found, and is too weak next to the best answer (`cut: gap`)."
    return f"It was found, and held back: {diagnosis.reason}."


def _verdict(
    asked: DiagnosedRecall, own: CandidateTrace | None, hurdles: list[FailedFilter]
) -> tuple[Verdict, str | None]:
    if any(hit.details.memory.id == asked.memory.id for hit in asked.context.page.hits):
        return "answered", None
    if hurdles:
        return "filtered", hurdles[0].reason
    if own is None or own.dropped is None:
        return "not_found", None
    return _VERDICTS.get(own.dropped, "held_back"), own.dropped


def _channel_rank(
    name: str, score: float, others: NDArray[np.float32], is_found: NDArray[np.bool_], row: int | None
) -> ChannelRank:
    """The rank of a score (NaN: none) among those of all memories in scope. row: its place among the candidates."""
    has_score = not np.isnan(score)
    return ChannelRank(
        name=name,
        found=row is not None and bool(is_found[row]),
        score=round(score, explanations.DIGITS) if has_score else None,
        rank=1 + int((others > np.float32(score)).sum()) if has_score else None,
        looked_at=int(is_found.sum()),
    )
