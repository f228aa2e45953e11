"""Extraction: the statements of a text as memories of their own, and the facts that they state. SPEC 5.6

By rules, and where these leave sentences out, by a language model as well: what it writes is used if a sentence of the
text supports it (`mnemo_core.llm`), and the statements of the rules stay, for they quote the text.

It follows the acknowledgement of the text, which is marked in the same transaction (`PendingExtraction`), so that a
crash loses nothing. Statements are made outside of any transaction; they are written, and the mark is removed, in one
that names the version of the text. A text that is gone or hidden by then is left alone, a changed one is read again.

Where near texts are merged (`dedup: source`, the profile `G`; SPEC 5.5 [G6]), a write keeps the longer of the two and
waits for no model. One that may be asked writes a text of both afterwards, which is verified against both and becomes
the next version of the memory, unless that has changed meanwhile. Without such a text, the longer one stays.
"""

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from mnemo_client.protocol.ingestion import StatementView
from mnemo_core.ingest import write_plan
from mnemo_core.ingest.mutations import Decision, Draft, has_expired
from mnemo_core.ingest.write_plan import COMPARED_STATES, IngestItem, PendingSnapshot, StatedFact
from mnemo_core.llm.extraction import EXTRACT, FACT_EXTRACT, STATEMENT_CHARACTERS
from mnemo_core.llm.merge import INSERT_MERGE
from mnemo_core.llm.tasks import RecalledSource, TaskInputs
from mnemo_core.text.dates.time_mentions import find_event_time, said_at
from mnemo_core.text.languages import content_words, sentence_ends
from mnemo_core.text.syntax.statements import Triple, extract_statements, extract_triple
from mnemo_daemon.errors import Refusal
from mnemo_daemon.history_names import BY_INTAKE
from mnemo_daemon.ingest.ingest_pipeline import IngestPipeline, IngestResult, Submission
from mnemo_daemon.memories.memory_service import ADD, Caller, MemoryService
from mnemo_daemon.models.language.task_runner import TaskRunner
from mnemo_daemon.times import utc_offset
from mnemo_store.backend import Snapshot
from mnemo_store.record_texts import content_hash
from mnemo_store.records import PROXY_SOURCE, DropExtraction, Fact, Memory, PendingExtraction
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import EXTRACTIONS

SOURCE = "extract"  # of a statement
THREADS = 2  # the job's, and one for those who wait
SLICE_SECONDS = 0.5  # how long the scheduler waits for a text before other jobs get their turn
PASSAGE_CHARACTERS = 600  # that a model reads at once, as long as a sentence ends within them
TRIPLES_ASKED_MAX = 24  # statements of one text of which a model reads the triple
RESULTS_MAX = 256  # texts whose result is kept for those who wait for it
READINGS_MAX = 5  # of a text that changes each time it is read, before others get their turn

log = logging.getLogger("mnemo.extraction")

intake_log = logging.getLogger("mnemo.intake")


class ReadStatement(NamedTuple):
    """A statement of a text, what it states as a triple, and how each was found."""

    text: str
    triple: Triple | None
    method: str
    triple_method: str = "rule"


class StatementExtraction:
    """The service. Any thread may call it; `run_slice` is the job's."""

    def __init__(self, store: Store, memories: MemoryService, pipeline: IngestPipeline, tasks: TaskRunner) -> None:
        self._store = store
        self._memories = memories
        self._pipeline = pipeline
        self._tasks = tasks
        self._is_closing = threading.Event()
        self._threads = ThreadPoolExecutor(THREADS, "mnemo-extract")
        self._lock = threading.Lock()
        self._results: OrderedDict[str, Future[list[StatementView]]] = OrderedDict()
        self._current: tuple[str, Future[list[StatementView]]] | None = None  # the job's
        self._failed: set[str] = set()  # texts that come after the others

    def close(self) -> None:
        """Finish what is being written; what is being read is read again at the next start."""
        self._is_closing.set()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def clear_caches(self) -> None:
        """Forget the statements of finished texts."""
        with self._lock:
            self._results = OrderedDict((key, each) for key, each in self._results.items() if not each.done())

    def submit(self, memory_id: str) -> "Future[list[StatementView]]":
        """The statements of a text that is or was pending, once they are written."""
        with self._lock:
            future = self._results.get(memory_id)
            if future is None or (future.done() and self._pending(memory_id) is not None):
                future = self._threads.submit(self._extract, memory_id)
                self._results[memory_id] = future
                for each in [key for key, one in self._results.items() if one.done()][: -RESULTS_MAX or None]:
                    del self._results[each]
            return future

    def preview(self, texts: Sequence[tuple[str, str]]) -> "Future[list[StatementView]]":
        """The statements of texts (content, speaker), which are not stored."""

        def read() -> list[StatementView]:
            found = [(content, each) for content, speaker in texts for each in self._read(content, speaker)]
            return [_view(each, None) for content, each in found if content_hash(each.text) != content_hash(content)]

        return self._threads.submit(read)

    # The job

    def is_due(self) -> bool:
        """Return whether a text is pending."""
        with self._store.snapshot() as snapshot:
            return bool(snapshot.scan(EXTRACTIONS, limit=1))

    def run_slice(self) -> bool:
        """Extract the next text, or go on waiting for it; return whether there is more."""
        if self._current is None:
            with self._store.snapshot() as snapshot:
                ids = [row.id for row in snapshot.scan(EXTRACTIONS, limit=len(self._failed) + 1)]
            fresh = next((each for each in ids if each not in self._failed), None)
            if fresh is None:
                self._failed.clear()
            memory_id = fresh or next(iter(ids), None)
            if memory_id is None:
                return False
            self._current = (memory_id, self.submit(memory_id))
        memory_id, future = self._current
        if wait([future], SLICE_SECONDS).done:
            self._current = None
            if future.exception() is not None:
                self._failed.add(memory_id)
            future.result()
        return True

    # One text

    def _pending(self, memory_id: str) -> PendingExtraction | None:
        with self._store.snapshot() as snapshot:
            return snapshot.get(EXTRACTIONS, memory_id)

    def _extract(self, memory_id: str) -> list[StatementView]:
        """Write the statements of a text and return them; none where it is not pending, gone or hidden."""
        read: tuple[str, str] | None = None
        statements: list[ReadStatement] = []
        for _ in range(READINGS_MAX):
            with self._store.snapshot() as snapshot:
                pending, source = snapshot.get(EXTRACTIONS, memory_id), snapshot.memory(memory_id)
            if pending is None:
                return []
            if source is None or source.state not in COMPARED_STATES or has_expired(source, self._store.now()):
                self._drop(pending)
                return []
            if read != (source.content, source.speaker):
                read, statements = (source.content, source.speaker), self._read(source.content, source.speaker)
                if self._is_closing.is_set():
                    raise InterruptedError("the daemon is stopping")
            written = self._write(source, pending, statements)
            if written is not None:
                return written
        raise RuntimeError("the text changes faster than its statements are written")

    def _read(self, content: str, speaker: str) -> list[ReadStatement]:
        """The statements of a text; the text itself where it is one."""
        by_rules = [each.text for each in extract_statements(content, speaker)]
        whole = [content] if extract_triple(content) is not None else []
        found = dict.fromkeys((*by_rules, *whole), "rule")
        known = [content_words(text) for text in by_rules]
        for passage in _passages(content):
            inputs = TaskInputs((passage,), recalled=(RecalledSource(speaker),))
            result = self._tasks.run(EXTRACT, inputs, is_cancelled=self._is_closing.is_set)
            for text in result.answer.statements if result.method == "llm" else ():
                if not any(content_words(text) <= words for words in known):
                    found.setdefault(text, f"llm:{result.model}")
        statements = [ReadStatement(text, extract_triple(text), method) for text, method in found.items()]
        unread = [each for each in statements if each.triple is None and len(each.text) <= STATEMENT_CHARACTERS]
        triples = {each.text: self._ask_for_triple(each.text) for each in unread[:TRIPLES_ASKED_MAX]}
        return [each._replace(**triples.get(each.text, {})) for each in statements]

    def _ask_for_triple(self, statement: str) -> dict[str, Any]:
        """The fields of a statement whose triple a model read."""
        result = self._tasks.run(FACT_EXTRACT, TaskInputs((statement,)), is_cancelled=self._is_closing.is_set)
        if result.method != "llm" or result.answer.triple is None:
            return {}
        return {"triple": result.answer.triple, "triple_method": f"llm:{result.model}"}

    def _drop(self, pending: PendingExtraction) -> None:
        """Leave a text as it is, unless it was marked again meanwhile."""

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            is_same = snapshot.get(EXTRACTIONS, pending.id) == pending
            return WriteResult((DropExtraction(id=pending.id),) if is_same else (), None)

        self._store.transact(decide, by=BY_INTAKE.name, background=True).result()

    def _write(
        self, source: Memory, pending: PendingExtraction, statements: Sequence[ReadStatement]
    ) -> list[StatementView] | None:
        """Write statements and facts; None where the text is another by now."""
        own = content_hash(source.content)  # of the text, which may be a statement itself
        itself = [each for each in statements if content_hash(each.text) == own]
        new = [each for each in statements if content_hash(each.text) != own]
        caller = Caller(BY_INTAKE.name, sees_sensitive=source.trust == "user", trust=source.trust)

        def decide(snapshot: Snapshot, items: Sequence[IngestItem]) -> WriteResult[list[Decision | None] | None]:
            now = snapshot.memory(source.id)
            if snapshot.get(EXTRACTIONS, source.id) != pending or now is None or now.version != source.version:
                return WriteResult((), None)
            state = PendingSnapshot(snapshot)
            made = [self._memories.plan_statement(state, item, source, caller) for item in items]
            stated = [(one.memory, each) for one, each in zip(made, new, strict=True) if one is not None]
            stated += [(memory, each) for each in itself if (memory := state.memory(source.id))]
            for memory, each in stated:
                read = [StatedFact(*each.triple, method=each.triple_method)] if each.triple is not None else []
                state.apply(write_plan.put_facts(memory, each.text, read, state, self._store.new_id))
            state.apply([DropExtraction(id=source.id)])
            return WriteResult(state.changes, made, ADD, pending.group)

        def write(items: Sequence[IngestItem]) -> list[Decision | None] | None:
            written = self._store.transact(lambda snapshot: decide(snapshot, items), by=BY_INTAKE.name, background=True)
            return written.result().result

        submissions = [_submission(source, pending, each) for each in new]
        decided = self._pipeline.ingest_on_this_thread(submissions, caller, write)
        if decided is None:
            return None
        return list(map(_view, new, decided))


def facts_of(snapshot: Snapshot, memory: Memory) -> list[Fact]:
    """The facts that a memory states as it reads now."""
    digest = content_hash(memory.content).hex()
    return [fact for fact in snapshot.facts(memory.id) if fact.content_hash == digest]


def _passages(text: str) -> Iterator[str]:
    """The text in parts of whole sentences that are short enough for one call of a model."""
    start = last = 0
    for end in (*sentence_ends(text), len(text)):
        if end - start > PASSAGE_CHARACTERS and text[start:last].strip():
            yield text[start:last]
            start = last
        last = end
    if text[start:].strip():
        yield text[start:]


def _view(statement: ReadStatement, decided: Decision | None) -> StatementView:
    """The statement with what became of it: None where it is not stored, or its text was erased on purpose."""
    triple = statement.triple
    return StatementView(
        text=statement.text, triple=triple and (triple.subject, triple.predicate, triple.object),
        id=decided.memory.id if decided else None, outcome=decided.outcome if decided else None,
    )  # fmt: skip


def _submission(source: Memory, pending: PendingExtraction, statement: ReadStatement) -> Submission:
    """The statement as it is ingested: with the scope, tags, expiry and time of its source."""
    read_off = find_event_time(source.content, source.created_at, utc_offset)
    is_given = source.event_at not in (source.created_at, read_off)
    found = source.event_at if is_given else find_event_time(statement.text, source.created_at, utc_offset)
    draft = Draft(
        content=statement.text, namespace=source.namespace, user_id=source.user_id, trust=source.trust,
        source=PROXY_SOURCE if source.source == PROXY_SOURCE else SOURCE,
        event_at=source.created_at if found is None else found, expires_at=source.expires_at, speaker=source.speaker,
        tags=source.tags, agent_id=source.agent_id, run_id=source.run_id, session_id=source.session_id,
        evidence=source.evidence, method=statement.method,
    )  # fmt: skip
    told_at = said_at(source.content, source.event_at, source.created_at, utc_offset)
    return Submission(draft, dedup=pending.dedup or None, infer=False, said_at=told_at, facts=())


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
            _, item, decision, _ = self._merged.popleft()
        except IndexError:  # an erasure cleared them
            return False
        result = self._tasks.run(INSERT_MERGE, TaskInputs(decision.merged_texts), is_cancelled=self._is_closing)
        if result.method == "llm" and result.answer.text:
            memory, writer = decision.memory, Caller(BY_INTAKE.name, trust=item.draft.trust)
            try:
                self._memories.edit(memory.id, {"content": result.answer.text}, memory.version, writer).result()
            except Refusal as refusal:
                intake_log.info("a merged text is not stored: %s", refusal)
        return bool(self._merged)
