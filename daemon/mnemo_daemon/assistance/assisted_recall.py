"""Recall with what a language model does for it, where a request asks for that: other phrasings of the question, and
scores of the selected memories. SPEC 7.3, 7.6

The selected memories are scored against the question, and those that do not bear on it are dropped. Where no model may
score them, the recall itself judges by rule, and that is the fallback here, too.

Every other recall goes by `Recall` alone and never waits for a model. SPEC 17.6
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from mnemo_core.llm.question_answer import ANSWER
from mnemo_core.llm.recall_tasks import EXPAND, RERANK, SOURCES_MAX, SourceScores, kept_sources
from mnemo_core.llm.tasks import TaskInputs
from mnemo_daemon.assistance.question_answering import answer_inputs, recalled_source, source_text
from mnemo_daemon.models.language.task_runner import TaskRunner
from mnemo_daemon.priority import QueryPriority
from mnemo_daemon.retrieval.question import Hit, Question, RecallOutcome
from mnemo_daemon.retrieval.recall import Recall

DROPPED = "rerank"  # the reason in a trace

DEGRADED = "llm"  # in an answer's `degraded`: the model was asked and did not do its part

IsCancelled = Callable[[], bool]


class RerankedHits(NamedTuple):
    """A recall whose hits are to be scored: those that a language model reads, each with what follows it in the answer,
    and the others, which are left as the rule judges them.

    A preference stands first whatever is asked, and an older value follows the newer one.
    """

    preferences: list[Hit]
    scored: list[list[Hit]]
    others: list[Hit]
    inputs: TaskInputs


def hits_to_score(query: str, hits: Sequence[Hit], kept_by_rule: Collection[str]) -> RerankedHits | None:
    """Split the hits of a recall; None where there is nothing to score. kept_by_rule: the ids that the rule keeps, by
    which the fallback goes."""
    groups: list[list[Hit]] = []
    for hit in hits:
        if hit.was and groups:
            groups[-1].append(hit)
        elif not hit.preference and hit.details.memory.content.strip():
            groups.append([hit])
    scored, rest = groups[:SOURCES_MAX], groups[SOURCES_MAX:]
    if not scored:
        return None
    recalled = [recalled_source(hit, "") for hit, *_ in scored]
    recalled = [
        known if hit.details.memory.id in kept_by_rule else known._replace(score=0.0)
        for known, (hit, *_) in zip(recalled, scored, strict=True)
    ]
    sources = tuple(source_text(hit) for hit, *_ in scored)
    others = [hit for group in rest for hit in group if hit.details.memory.id in kept_by_rule]
    return RerankedHits(
        [hit for hit in hits if hit.preference], scored, others, TaskInputs(sources, query, tuple(recalled))
    )


def apply_scores(
    recalled: RecallOutcome, split: RerankedHits, answer: SourceScores, *, by_score: bool
) -> RecallOutcome:
    """The recall with the hits that bear on the question, best first; in their order unless by_score."""
    kept = kept_sources(answer, len(split.scored))
    ranked = [hit for place in (kept if by_score else sorted(kept)) for hit in split.scored[place]]
    hits = [*split.preferences, *ranked, *split.others]
    if recalled.trace is not None:
        places = {hit.details.memory.id: place for place, hit in enumerate(hits, start=1)}
        scores = {group[0].details.memory.id: score for group, score in zip(split.scored, answer.scores, strict=False)}
        for candidate in recalled.trace.candidates:
            if candidate.answer is not None and candidate.id not in places:
                candidate.dropped = DROPPED
            candidate.answer = places.get(candidate.id)
            candidate.rerank = scores.get(candidate.id)
        recalled.trace.dropped = dict(Counter(each.dropped for each in recalled.trace.candidates if each.dropped))
    return recalled._replace(
        hits=hits, total_tokens=sum(hit.tokens for hit in hits), abstained=not ranked and not split.others
    )


class AssistedRecall:
    """The recall service for requests that a language model may take part in. It blocks, on any thread."""

    def __init__(self, recall: Recall, tasks: TaskRunner, priority: QueryPriority) -> None:
        self._recall = recall
        self._priority = priority
        self._tasks = tasks

    def answer(self, question: Question, is_cancelled: IsCancelled) -> RecallOutcome:
        """Answer as `Recall` does, by the phrasings and the scores of the model where the question asks for them."""
        query, reason = TaskInputs((question.query,), question.query), ""
        degraded: tuple[str, ...] = ()
        if question.expand == "true" and not (reason := self._tasks.reason_not_to_ask(EXPAND, query)):
            result = self._tasks.run(EXPAND, query, is_cancelled=is_cancelled)
            degraded = (DEGRADED,) if result.method == "fallback" else ()
            question, reason = question._replace(phrasings=result.answer.phrasings), result.reason
        recalled = self._recalled(question)
        if question.rerank and not (obstacle := self._tasks.reason_not_to_ask(RERANK, query)):
            kept = {hit.details.memory.id for hit in recalled.hits}
            selected = self._recalled(question._replace(rerank=False))
            recalled = self._reranked(question, selected, kept, RERANK.deadline_s, is_cancelled)
        elif question.rerank:
            reason = obstacle
        return recalled._replace(
            degraded=(*recalled.degraded, *(degraded if DEGRADED not in recalled.degraded else ())),
            reason=recalled.reason or reason,
        )

    def rerank_for_answer(
        self, question: Question, recalled: RecallOutcome, until: float, is_cancelled: IsCancelled
    ) -> RecallOutcome:
        """Have the model score the hits that it is about to answer from, in half of the time until then (on the
        monotonic clock); they stay as they are where it is not to be asked."""
        inputs = answer_inputs(question.query, recalled.hits)
        if (
            inputs is None
            or len(inputs.sources) == 1
            or any(self._tasks.reason_not_to_ask(task, inputs) for task in (ANSWER, RERANK))
        ):
            return recalled
        kept = {hit.details.memory.id for hit in recalled.hits}
        seconds = min(RERANK.deadline_s, max(0.0, until - time.monotonic()) / 2)
        return self._reranked(question, recalled, kept, seconds, is_cancelled)

    def _recalled(self, question: Question) -> RecallOutcome:
        with self._priority.query_running():
            return self._recall.submit(question).result()

    def _reranked(
        self, question: Question, selected: RecallOutcome, kept: Collection[str], seconds: float,
        is_cancelled: IsCancelled,
    ) -> RecallOutcome:  # fmt: skip
        split = hits_to_score(question.query, selected.hits, kept)
        if split is None:
            return selected
        began = time.perf_counter()
        result = self._tasks.run(RERANK, split.inputs, seconds, is_cancelled)
        found = apply_scores(selected, split, result.answer, by_score=question.sort == "score")
        took_ms = (time.perf_counter() - began) * 1000
        if found.trace is not None:
            found.trace.stages_ms["rerank"] = round(took_ms, 3)
        degraded = (*found.degraded, DEGRADED) if result.method == "fallback" else found.degraded
        return found._replace(degraded=degraded, reason=result.reason, took_ms=found.took_ms + took_ms)
