"""Recall with what a language model does for it, where a request asks for that: other phrasings of the question, and
scores of the selected memories. SPEC 7.3, 7.6

Every other recall goes by `Recall` alone and never waits for a model. SPEC 17.6
"""

import time
from collections.abc import Callable, Collection

from mnemo_core.llm.questions.expand import EXPAND
from mnemo_core.llm.questions.question_answer import ANSWER
from mnemo_core.llm.questions.rerank import RERANK
from mnemo_core.llm.tasks import TaskInputs
from mnemo_daemon.models.language.task_runner import TaskRunner
from mnemo_daemon.priority import QueryPriority
from mnemo_daemon.retrieval import reranking
from mnemo_daemon.retrieval.question import Question, RecallOutcome
from mnemo_daemon.retrieval.question_answering import answer_inputs
from mnemo_daemon.retrieval.recall import Recall

DEGRADED = "llm"  # in an answer's `degraded`: the model was asked and did not do its part

IsCancelled = Callable[[], bool]


class AssistedRecall:
    """The recall service for requests that a language model may take part in. It blocks, on any thread."""

    def __init__(self, recall: Recall, tasks: TaskRunner, priority: QueryPriority) -> None:
        self._recall = recall
        self._priority = priority
        self._tasks = tasks

    def answer(self, question: Question, is_cancelled: IsCancelled) -> RecallOutcome:
        """Answer as `Recall` does, by the phrasings and the scores of the model where the question asks for them."""
        question, degraded, reason = self._expanded(question, is_cancelled)
        recalled = self._recalled(question)
        if question.rerank and not (obstacle := self._tasks.reason_not_to_ask(RERANK, _query_alone(question))):
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

    def _expanded(self, question: Question, is_cancelled: IsCancelled) -> tuple[Question, tuple[str, ...], str]:
        """The question with its other phrasings, what is degraded where there are none, and why."""
        if question.expand != "true":
            return question, (), ""
        inputs = _query_alone(question)
        if reason := self._tasks.reason_not_to_ask(EXPAND, inputs):
            return question, (), reason
        result = self._tasks.run(EXPAND, inputs, is_cancelled=is_cancelled)
        degraded = (DEGRADED,) if result.method == "fallback" else ()
        return question._replace(phrasings=result.answer.phrasings), degraded, result.reason

    def _reranked(
        self, question: Question, selected: RecallOutcome, kept: Collection[str], seconds: float,
        is_cancelled: IsCancelled,
    ) -> RecallOutcome:  # fmt: skip
        split = reranking.hits_to_score(question.query, selected.hits, kept)
        if split is None:
            return selected
        began = time.perf_counter()
        result = self._tasks.run(RERANK, split.inputs, seconds, is_cancelled)
        found = reranking.apply_scores(selected, split, result.answer, by_score=question.sort == "score")
        took_ms = (time.perf_counter() - began) * 1000
        if found.trace is not None:
            found.trace.stages_ms["rerank"] = round(took_ms, 3)
        degraded = (*found.degraded, DEGRADED) if result.method == "fallback" else found.degraded
        return found._replace(degraded=degraded, reason=result.reason, took_ms=found.took_ms + took_ms)


def _query_alone(question: Question) -> TaskInputs:
    return TaskInputs((question.query,), question.query)
