"""Runs language-model tasks: the model where it may and can answer, the task's fallback everywhere else. SPEC 12

An answer of the model is used only if it parses strictly and passes the task's validation. Every call is recorded in
the store, with its cost and outcome and never its text, and the caller learns why an answer is the fallback's. A task
never fails and never waits longer than its deadline (and the worker's grace to be killed).
"""

import functools
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, Literal

import msgspec

from mnemo_client.protocol.status import LlmUsage
from mnemo_core.llm.faithfulness import rejection_kind
from mnemo_core.llm.grammar import grammar_of
from mnemo_core.llm.tasks import Answer, AnyTask, LlmTask, TaskInputs, parse_answer, prompt_data, prompt_head
from mnemo_core.llm_sites import Site
from mnemo_daemon.history_names import BY_LLM, LLM_CALL
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
from mnemo_daemon.table_walk import records_of
from mnemo_store.errors import StoreError
from mnemo_store.records import DropLlmCall, LlmCall, LlmOutcome, PutLlmCall
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import LLM_CALLS

DAY_MS = 86_400_000
KEEP_DAYS = 90
DROPPED_PER_SLICE = 500

_cached_grammar = functools.cache(grammar_of)

log = logging.getLogger("mnemo.llm")


Level = Literal["off", "auto", "full"]

TEXT_SO_FAR_MAX = 16_384  # characters of an unfinished answer; a whole one is much shorter


class CallLog:
    """The log of one store; safe in any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def record(
        self, site: Site, model: str, outcome: LlmOutcome, completion: Completion | None, milliseconds: int,
        reason: str = "",
    ) -> None:  # fmt: skip
        """Write a call down without waiting for the disk; a store that refuses it costs no answer. reason: the kind of
        a rejection."""
        store = self._store
        call = LlmCall(
            id=store.new_id(), at=store.now(), site=site, model=model, outcome=outcome,
            tokens_in=completion.prompt_tokens if completion else 0,
            tokens_out=completion.answer_tokens if completion else 0, milliseconds=max(0, milliseconds), reason=reason,
        )  # fmt: skip
        try:
            store.transact(
                lambda _: WriteResult((PutLlmCall(data=call),), None, LLM_CALL), by=BY_LLM.name, background=True
            ).add_done_callback(_log_failure)
        except StoreError as error:
            log.warning("a call of the language model could not be recorded: %s", error)

    def usage(self, since: int) -> list[LlmUsage]:
        """The sums of the calls since a time (ms), by site and model."""
        sums: dict[tuple[str, str], LlmUsage] = {}
        for call in records_of(self._store, LLM_CALLS):
            if call.at < since:
                continue
            row = sums.setdefault((call.site, call.model), LlmUsage(site=call.site, model=call.model))
            row.calls += 1
            row.outcomes[call.outcome] = row.outcomes.get(call.outcome, 0) + 1
            if call.outcome == "rejected":
                row.rejections[call.reason or "other"] = row.rejections.get(call.reason or "other", 0) + 1
            row.tokens_in += call.tokens_in
            row.tokens_out += call.tokens_out
            row.milliseconds += call.milliseconds
            row.last_at = max(row.last_at, call.at)
        return [sums[key] for key in sorted(sums)]

    def run_retention_slice(self) -> bool:
        """Drop up to DROPPED_PER_SLICE calls that are older than KEEP_DAYS; return whether there are more."""
        with self._store.snapshot() as snapshot:
            oldest = snapshot.scan(LLM_CALLS, limit=DROPPED_PER_SLICE)  # in the order of their times
        over = [call.id for call in oldest if call.at < self._store.now() - KEEP_DAYS * DAY_MS]
        if over:
            changes = [DropLlmCall(id=each) for each in over]
            self._store.transact(
                lambda _: WriteResult(changes, None, LLM_CALL), by=BY_LLM.name, background=True, frees=True
            ).result()
        return len(over) == DROPPED_PER_SLICE


def _log_failure(write: Future[Any]) -> None:
    if (error := write.exception()) is not None:
        log.warning("a call of the language model could not be recorded: %s", error)


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
        self, model: Callable[[Site], LanguageModel], call_log: CallLog, level: Callable[[], Level],
        reason_to_wait: Callable[[], str] = lambda: "", clock: Callable[[], float] = time.monotonic, *,
        grade_obstacle: Callable[[AnyTask], str] = lambda _: "",
    ) -> None:  # fmt: skip
        """reason_to_wait: why background calls must not use the model now, such as a battery; "" if they may.
        grade_obstacle: why the model is not good enough for a task, or not known to be; "" if it is."""
        self._model = model
        self._call_log = call_log
        self._level = level
        self._reason_to_wait = reason_to_wait
        self._grade_obstacle = grade_obstacle
        self._clock = clock

    def run(
        self, task: LlmTask[Answer], inputs: TaskInputs, deadline_s: float | None = None,
        is_cancelled: Callable[[], bool] = lambda: False, on_text: Callable[[str], None] | None = None,
    ) -> TaskResult[Answer]:  # fmt: skip
        """Return the answer of the model, or the fallback's with the reason, within the deadline. `on_text` gets what
        the model wrote so far, which nothing has verified yet, and must not raise."""
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
        self, model: LanguageModel, task: LlmTask[Answer], inputs: TaskInputs, deadline_s: float,
        is_cancelled: Callable[[], bool], on_text: Callable[[str], None] | None,
    ) -> tuple[Answer | None, str]:  # fmt: skip
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
        head=prompt_head(task), grammar=_cached_grammar(task.answer),
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
