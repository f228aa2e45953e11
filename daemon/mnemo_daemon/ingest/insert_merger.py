"""Texts that were merged when the later one came, written as one by a language model. SPEC 5.5, 12.2 [G6]

Where near texts are merged (`dedup: source`, the profile `G`), a write keeps the longer of the two and waits for no
model. One that may be asked writes a text of both afterwards, which is verified against both and becomes the next
version of the memory, unless that has changed meanwhile. Without such a text, the longer one stays.
"""

import logging
from collections import deque
from collections.abc import Callable

from mnemo_core.llm.tasks import TaskInputs
from mnemo_core.llm.writing.merge import INSERT_MERGE
from mnemo_daemon.errors import Refusal
from mnemo_daemon.history_names import BY_INTAKE
from mnemo_daemon.ingest.ingest_pipeline import IngestResult
from mnemo_daemon.memories.memory_service import Caller, MemoryService
from mnemo_daemon.models.language.task_runner import TaskRunner

log = logging.getLogger("mnemo.intake")


class InsertMerger:
    """The service. `run_slice` is the job's."""

    def __init__(
        self, merged: deque[IngestResult], memories: MemoryService, tasks: TaskRunner, is_closing: Callable[[], bool]
    ) -> None:
        """merged: results of ingestion with their `merged_texts`, the oldest first."""
        self._merged = merged
        self._memories = memories
        self._tasks = tasks
        self._is_closing = is_closing

    def is_due(self) -> bool:
        """Return whether there are texts that a model may write as one."""
        return bool(self._merged) and self._tasks.may_ask(INSERT_MERGE)

    def run_slice(self) -> bool:
        """Have the model write one text of two, and store it; return whether there is more."""
        try:
            _, item, decision = self._merged.popleft()
        except IndexError:  # an erasure cleared them
            return False
        result = self._tasks.run(INSERT_MERGE, TaskInputs(decision.merged_texts), is_cancelled=self._is_closing)
        if result.method == "llm" and result.answer.text:
            memory, writer = decision.memory, Caller(BY_INTAKE.name, trust=item.draft.trust)
            try:
                self._memories.edit(memory.id, {"content": result.answer.text}, memory.version, writer).result()
            except Refusal as refusal:
                log.info("a merged text is not stored: %s", refusal)
        return bool(self._merged)
