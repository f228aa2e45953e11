"""Runs language-model tasks: the model where it may and can answer, the task's fallback everywhere else. SPEC 12

An answer of the model is used only if it parses strictly and passes the task's validation. Every call is recorded in
the store with its outcome, and the caller learns why an answer is the fallback's. A task never fails and never waits
longer than its deadline (and the worker's grace to be killed).
"""

import functools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal

import msgspec

from mnemo_core.llm.grammar import grammar_of
from mnemo_core.llm.grounding import rejection_kind
from mnemo_core.llm.tasks import Answer, AnyTask, LlmTask, Site, TaskInputs, parse_answer, prompt_data, prompt_head
from mnemo_daemon.models.language.call_log import CallLog
from mnemo_daemon.models.language.language_model import (
    AnswerTimeout,
    CallCancellation,
    LanguageModel,
    LanguageModelError,
    ModelAbsent,
    ModelBusy,
    PromptTooLong,
)
from mnemo_daemon.models.language.llm_worker import Completion
from mnemo_store.records import LlmOutcome

log = logging.getLogger("mnemo.llm")

Level = Literal["off", "auto", "full"]

TEXT_SO_FAR_MAX = 16_384  # characters of an unfinished answer; a whole one is much shorter


@dataclass(frozen=True)
class TaskResult(Generic[Answer]):
    """The answer of a task, and where it comes from."""

    answer: Answer
    method: Literal["llm", "fallback"]
    reason: str = ""  # of the fallback
    model: str = field(default="", compare=False)  # that wrote the answer; "" of the fallback


class TaskRunner:
    """The runner of one daemon; safe to call from any thread, and blocking."""

    def __init__(
        self,
        model: Callable[[Site], LanguageModel],
        call_log: CallLog,
        level: Callable[[], Level],
        reason_to_wait: Callable[[], str] = lambda: "",
        clock: Callable[[], float] = time.monotonic,
        *,
        grade_obstacle: Callable[[AnyTask], str] = lambda _: "",
    ) -> None:
        """reason_to_wait: why background calls must not use the model now, such as a battery; "" if they may.
        grade_obstacle: why the model is not good enough for a task, or not known to be; "" if it is."""
        self._model = model
        self._call_log = call_log
        self._level = level
        self._reason_to_wait = reason_to_wait
        self._grade_obstacle = grade_obstacle
        self._clock = clock

    def run(
        self,
        task: LlmTask[Answer],
        inputs: TaskInputs,
        deadline_s: float | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
        on_text: Callable[[str], None] | None = None,
    ) -> TaskResult[Answer]:
        """Return the answer of the model, or the fallback's with the reason, within the deadline.

        `on_text` gets what the model wrote so far, which nothing has verified yet, and must not raise.
        """
        if not (reason := self.reason_not_to_ask(task, inputs)):
            model = self._model(task.site)
            limit_s = task.deadline_s if deadline_s is None else deadline_s
            answer, reason = self._ask(model, task, inputs, limit_s, is_cancelled, on_text)
            if answer is not None:
                return TaskResult(answer, "llm", model=model.name)
        return TaskResult(task.fallback(inputs), "fallback", reason)

    def may_ask(self, task: AnyTask) -> bool:
        """Return whether a case of a task that is not clear would be asked of the model now."""
        return self._level() != "off" and not self._obstacle(task)

    def reason_not_to_ask(self, task: AnyTask, inputs: TaskInputs) -> str:
        """Return why the fallback answers without a call of the model; "" if the model is asked."""
        level = self._level()
        if level == "off":
            return "language-model tasks are off (`llm.level`)"
        if level == "auto" and task.is_clear(inputs):
            return "the case is clear without a language model"
        return self._obstacle(task)

    def _obstacle(self, task: AnyTask) -> str:
        """Return why the model cannot or must not be asked; "" if it may be."""
        status = self._model(task.site).status()
        if status.state == "absent":
            return status.reason
        return self._grade_obstacle(task) or ("" if task.is_interactive else self._reason_to_wait())

    def _ask(
        self,
        model: LanguageModel,
        task: LlmTask[Answer],
        inputs: TaskInputs,
        deadline_s: float,
        is_cancelled: Callable[[], bool],
        on_text: Callable[[str], None] | None,
    ) -> tuple[Answer | None, str]:
        """The accepted answer of the model, or None and the reason why there is none."""
        began = self._clock()
        completion: Completion | None = None
        answer: Answer | None = None
        outcome: LlmOutcome
        try:
            completion = call_model(
                model, task, inputs, deadline_s, is_interactive=task.is_interactive, is_cancelled=is_cancelled,
                on_piece=on_text and _joined_pieces(on_text),
            )  # fmt: skip
            answer = parse_answer(task, completion.text, inputs)
            reason = task.validate(answer, inputs)
            outcome = "rejected" if reason else "answered"
        except (ModelAbsent, ModelBusy) as error:
            return None, str(error)  # nothing was called
        except LanguageModelError as error:
            outcome, reason = _outcome_of(error), str(error)
        except msgspec.DecodeError as error:
            outcome, reason = "unusable", f"the answer is not of its form: {error}"
        milliseconds = round((self._clock() - began) * 1000)
        kind = rejection_kind(reason) if outcome == "rejected" else ""
        self._call_log.record(task.site, model.name, outcome, completion, milliseconds, kind)
        if outcome == "answered":
            return answer, ""
        log.info("%s: the fallback is used, because the language model's call is %r", task.site, outcome)
        log.debug("%s: %s", task.site, reason)  # may hold words of memories
        return None, reason


def call_model(
    model: LanguageModel, task: LlmTask[Answer], inputs: TaskInputs, deadline_s: float, *, is_interactive: bool,
    is_cancelled: Callable[[], bool], on_piece: Callable[[str], None] | None = None,
) -> Completion:  # fmt: skip
    """Return what the model writes for a task. Raises any LanguageModelError."""
    return model.answer(
        prompt_data(inputs), task.max_tokens, deadline_s,
        head=prompt_head(task), grammar=_grammar_of(task.answer),
        is_interactive=is_interactive, is_cancelled=is_cancelled, on_piece=on_piece,
    )  # fmt: skip


def _joined_pieces(on_text: Callable[[str], None]) -> Callable[[str], None]:
    """A function that takes pieces of a text and passes on the whole text so far."""
    text = ""

    def on_piece(piece: str) -> None:
        nonlocal text
        if len(text) < TEXT_SO_FAR_MAX:
            text += piece
            on_text(text)

    return on_piece


@functools.cache
def _grammar_of(answer: type[Any]) -> str:
    return grammar_of(answer)


def _outcome_of(error: LanguageModelError) -> LlmOutcome:
    match error:
        case AnswerTimeout():
            return "late"
        case CallCancellation():
            return "cancelled"
        case PromptTooLong():
            return "too_long"
        case _:
            return "failed"
