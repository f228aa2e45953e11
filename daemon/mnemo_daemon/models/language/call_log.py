"""The log of language-model calls in the store: what each cost and came to, never its text. SPEC 12.2"""

import logging
from concurrent.futures import Future
from typing import Any

from mnemo_client.protocol.status import LlmUsage
from mnemo_core.llm.tasks import Site
from mnemo_daemon.history_names import BY_LLM, LLM_CALL
from mnemo_daemon.models.language.llm_worker import Completion
from mnemo_daemon.table_walk import records_of
from mnemo_store.errors import StoreError
from mnemo_store.records import DropLlmCall, LlmCall, LlmOutcome, PutLlmCall
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import LLM_CALLS

DAY_MS = 86_400_000
KEEP_DAYS = 90
DROPPED_PER_SLICE = 500

log = logging.getLogger("mnemo.llm")


class CallLog:
    """The log of one store; safe in any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def record(
        self, site: Site, model: str, outcome: LlmOutcome, completion: Completion | None, milliseconds: int,
        reason: str = "",
    ) -> None:  # fmt: skip
        """Write a call down without waiting for the disk; a store that refuses it costs no answer.

        reason: the kind of a rejection.
        """
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
