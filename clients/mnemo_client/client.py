"""A client of the daemon with one method for each operation, typed values in and out. SPEC 13.

    with Client(socket_path(os.environ)) as client:
        client.remember("The spare key is with Ines.", tags=["home"])
        for memory in client.recall("who has the key?").memories: ...

The arguments of a method are the fields of the operation's request, which may also be given as a whole:
`client.recall(RecallRequest(query="…"))`. What the path names in braces goes first: `client.session("s1", limit=5)`.
What an operation does stands in its row of the operation table (protocol/operations).

A client keeps one connection open between requests; use one Client in each thread. `last_body` holds the bytes of the
last answer as the daemon sent them, for callers that pass them on unread."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mnemo_client.connection import Call, CallOn, ClientConnection, decode, encode, request_of
from mnemo_client.errors import InterruptedAnswerError, RefusalError
from mnemo_client.http import MalformedAnswerError
from mnemo_client.protocol import changes, ingestion, maintenance, memories, operations, retrieval
from mnemo_client.protocol import status as status_types
from mnemo_client.protocol.choices import EventType
from mnemo_client.protocol.primitives import AnswerBody, FailureAnswer


class OperationMethods:
    """One method for each operation whose request and answer are what is sent."""

    remember = Call(operations.REMEMBER)
    extract = Call(operations.EXTRACT)
    reclassify = Call(operations.RECLASSIFY)
    get = CallOn(operations.GET)
    list_memories = Call(operations.LIST_MEMORIES)
    edges = CallOn(operations.EDGES)
    patch = CallOn(operations.PATCH)
    move = CallOn(operations.MOVE)
    delete = CallOn(operations.DELETE)
    delete_many = Call(operations.DELETE_MANY)
    restore = CallOn(operations.RESTORE_FROM_TRASH)
    trash = Call(operations.TRASH)
    recent = Call(operations.RECENT)
    tags = Call(operations.TAGS)
    agents = Call(operations.AGENTS)
    timeline = Call(operations.TIMELINE)

    history = CallOn(operations.HISTORY)
    shown = CallOn(operations.SHOWN)
    diff = Call(operations.DIFF)
    undo = Call(operations.UNDO)
    erase = CallOn(operations.ERASE)
    empty_trash = Call(operations.EMPTY_TRASH)

    recall = Call(operations.RECALL)
    search = Call(operations.SEARCH)
    context = Call(operations.CONTEXT)
    ask = Call(operations.ASK)
    resume = Call(operations.RESUME)
    triggers = CallOn(operations.TRIGGERS)
    state = Call(operations.STATE)
    hook = CallOn(operations.HOOK)

    add_facts = Call(operations.ADD_FACTS)
    facts = Call(operations.FACTS)
    fact_graph = Call(operations.FACT_GRAPH)
    fact_conflicts = Call(operations.FACT_CONFLICTS)
    decide_conflict = Call(operations.DECIDE_CONFLICT)
    fact_history = Call(operations.FACT_HISTORY)
    delete_fact = CallOn(operations.DELETE_FACT)
    topics = Call(operations.TOPICS)
    map = Call(operations.MAP)
    expand_topics = Call(operations.EXPAND_TOPICS)
    rename_topic = CallOn(operations.RENAME_TOPIC)
    rebuild_topics = Call(operations.REBUILD_TOPICS)
    topic_graph = Call(operations.TOPIC_GRAPH)
    abstract_topic_graph = Call(operations.ABSTRACT_TOPIC_GRAPH)
    dedupe_topic_graph = Call(operations.DEDUPE_TOPIC_GRAPH)

    list_sessions = Call(operations.LIST_SESSIONS)
    session = CallOn(operations.SESSION)
    end_session = CallOn(operations.END_SESSION)
    consolidate_session = CallOn(operations.CONSOLIDATE_SESSION)
    explain_session = CallOn(operations.EXPLAIN_SESSION)
    chat = CallOn(operations.CHAT)
    add_step = CallOn(operations.ADD_STEP)
    steps = CallOn(operations.STEPS)
    summarize_run = CallOn(operations.SUMMARIZE_RUN)

    profile = Call(operations.PROFILE)
    project = CallOn(operations.PROJECT)
    update_profile = Call(operations.UPDATE_PROFILE)
    compress = Call(operations.COMPRESS)
    consolidate = Call(operations.CONSOLIDATE)
    cycles = Call(operations.CYCLES)
    forecast = Call(operations.FORECAST)
    audit = Call(operations.AUDIT)
    review = Call(operations.REVIEW)
    decide = CallOn(operations.DECIDE)

    sync_status = Call(operations.SYNC_STATUS)
    share = Call(operations.SHARE)
    leave = Call(operations.LEAVE)
    exchange_changes = Call(operations.EXCHANGE)
    invite = Call(operations.INVITE)
    renew_key = Call(operations.RENEW_KEY)
    remove_device = Call(operations.REMOVE_DEVICE)

    health = Call(operations.HEALTH)
    status = Call(operations.STATUS)
    config = Call(operations.CONFIG)
    jobs = Call(operations.JOBS)
    llm_usage = Call(operations.LLM_USAGE)
    stats = Call(operations.STATS)
    models = Call(operations.MODELS)
    use_model = Call(operations.USE_MODEL)
    reindex = Call(operations.REINDEX)
    notes_status = Call(operations.NOTES_STATUS)
    notes_roots = Call(operations.NOTES_ROOTS)
    remove_root = Call(operations.REMOVE_ROOT)
    rescan = Call(operations.RESCAN)
    shutdown = Call(operations.SHUTDOWN)
    back_up = Call(operations.BACK_UP)
    reset = Call(operations.RESET)
    compact = Call(operations.COMPACT)
    check = Call(operations.CHECK)
    exposure = Call(operations.EXPOSURE)
    repair = Call(operations.REPAIR)


class Client(ClientConnection, OperationMethods):
    """A connection to the daemon behind `socket_path`.

    `namespace` is sent with every request that names none itself. `entry_point` is the source channel
    of its memories, which decides how far they are trusted (SPEC 2.1); `agent` names the program that the client speaks
    for, if it is not a person.

    Raises UnreachableError if no process listens, RefusalError for the daemon's own errors, InterruptedAnswerError if
    the connection ends before the answer is complete, InvalidAnswerError if the answer is not one of this protocol."""

    def remember_many(
        self, memories: Sequence[memories.NewMemory], namespace: str | None = None
    ) -> list[ingestion.RememberAnswer | FailureAnswer]:
        """Store up to 1,000 memories; return the outcome of each, in order."""
        raw = [msgspec.Raw(encode(memory)) for memory in memories]
        asked = ingestion.NewMemories(memories=raw, namespace=namespace)
        operation = operations.REMEMBER_MANY._replace(repeatable=all(memory.key is not None for memory in memories))
        answer = decode(self.exchange(operation, asked), _RawBatchAnswer)
        return [
            decode(each, FailureAnswer)
            if decode(each, _ErrorOrProgress).error is not None
            else decode(each, ingestion.RememberAnswer)
            for each in answer.results
        ]

    def ingest(self, *args: str | ingestion.IngestRequest, **fields: Any) -> ingestion.IngestAnswer:
        """Store a text, piece by piece; return the outcome of each. `fields` are those of IngestRequest."""
        asked = request_of(operations.INGEST, *args, **fields)
        return _decode_pieces(self.exchange(operations.INGEST, asked))

    def turns(self, asked: ingestion.TurnsRequest) -> ingestion.IngestAnswer:
        """Store the turns of a conversation; return the outcome of each."""
        return _decode_pieces(self.exchange(operations.TURNS, asked))

    def why(self, id: str, query: str, **fields: Any) -> retrieval.WhyAnswer:  # noqa: A002 - the field's own name
        """Explain why a memory is, or is not, among the answers to `query`. `fields` are those of RecallRequest."""
        asked = retrieval.WhyRequest(id=id, query=query, **fields)
        return self.perform(operations.WHY, asked)

    def delete_ids(self, ids: Sequence[str]) -> memories.BulkDeleteAnswer:
        """Delete these memories in one change: all of them, or none if one does not exist."""
        return self.delete_many(id=list(ids), confirm=True)

    def erase_many(self, ids: Sequence[str] = (), **fields: Any) -> memories.EraseAnswer:
        """Erase these memories, or all that pass the filter. `fields` are those of EraseRequest."""
        asked = memories.EraseRequest(ids=list(ids), **fields)
        named = asked.filter.namespace if asked.filter is not None else None
        body = self.exchange(operations.ERASE_MANY, asked, namespace=named)
        return decode(body, memories.EraseAnswer)

    def ask_stream(
        self, question: str | retrieval.AskRequest, **fields: Any
    ) -> Generator[retrieval.AskMemories | retrieval.AskSentence | retrieval.AskAnswer]:
        """Answer a question as `ask` does, and yield what is known meanwhile: the memories that the answer is made
        from, each sentence of a language model once it is verified, and at last the answer, which alone counts.

        Who stops reading ends the call of the model."""
        asked = retrieval.AskRequest(question=question, **fields) if isinstance(question, str) else question
        streamed = msgspec.structs.replace(asked, stream=True)
        for name, value in self._event_stream(self._open(operations.ASK, streamed, namespace=self.namespace)):
            if name == "error":
                raise RefusalError(503, decode(value, dict[str, dict[str, Any]])["error"])
            yield decode(value, _ASK_EVENTS[name])

    def events(
        self, *, types: Sequence[EventType] = (), since: int | None = None, follow: bool = True
    ) -> Generator[tuple[str, changes.Event]]:
        """Follow what happens in the namespace: yield each event with its name. `since` is the number of a change;
        without `follow` the events end with the present one."""
        query = changes.EventsQuery(types=list(types), since=since, follow=follow)
        for name, value in self._event_stream(self._open(operations.EVENTS, query, namespace=self.namespace)):
            if (kind := changes.EVENTS.get(name)) is not None:  # a newer daemon may send others
                yield name, decode(value, kind)

    def add_root(self, path: Path | str, namespace: str | None = None) -> status_types.NotesRootStatus:
        """Watch a folder of notes."""
        asked = status_types.NewRootRequest(path=str(path), namespace=namespace)
        return self.perform(operations.ADD_ROOT, asked)

    def export(self, namespace: str | None = None, *, history: bool = True, vectors: bool = False) -> Iterator[bytes]:
        """Yield everything, or all of one namespace, one JSON value a line, as it arrives.

        The client's own namespace does not restrict it. Raises InterruptedAnswerError if it ends too early.
        """
        asked = maintenance.ExportQuery(namespace=namespace, history=history, vectors=vectors)
        response = self._open(operations.EXPORT, asked)
        if response.status != 200:
            self._read_body(response)
        with self._reading(response, "the connection to the daemon ended in the middle of the export", "run it again"):
            yield from response.lines()

    def import_from(
        self, pieces: Iterable[bytes], watch: Callable[[int, int], None] = lambda done, of: None, **fields: Any
    ) -> maintenance.ImportAnswer:
        """Import an export of mnemo or of another tool from its bytes. `fields` are those of ImportQuery.

        The client's own namespace is not used. `watch` is called with the progress of a long import: done, total.
        Raises InterruptedAnswerError if the connection ends: what was imported by then stays, and can be imported
        again."""
        try:
            response = self._open(operations.IMPORT, maintenance.ImportQuery(**fields), body=pieces)
            if response.status != 200:
                self._read_body(response)
            for line in response.lines():
                self.last_body = line
                peek = decode(line, _ErrorOrProgress)
                if peek.error is not None:
                    raise RefusalError(503, peek.error)
                if peek.progress is not None:
                    watch(*peek.progress)
        except (MalformedAnswerError, OSError) as broken:
            raise InterruptedAnswerError(
                "the connection to the daemon ended in the middle of the import", "import it again"
            ) from broken
        finally:
            self.close()
        return decode(self.last_body, maintenance.ImportAnswer)


_ASK_EVENTS: dict[str, Any] = {
    "memories": retrieval.AskMemories, "sentence": retrieval.AskSentence, "answer": retrieval.AskAnswer,
}  # fmt: skip


class _RawBatchAnswer(AnswerBody):
    """BatchAnswer with its results still encoded."""

    results: list[msgspec.Raw]


class _RawIngestAnswer(ingestion.IngestAnswer):
    """ingestion.IngestAnswer with its results still encoded."""

    results: list[msgspec.Raw]  # type: ignore[assignment]


class _ErrorOrProgress(AnswerBody):
    error: dict[str, Any] | None = None
    progress: tuple[int, int] | None = None


def _decode_pieces(body: bytes) -> ingestion.IngestAnswer:
    """Return the answer with every result decoded, except errors."""
    answer = decode(body, _RawIngestAnswer)
    results: list[Any] = [
        each if decode(each, _ErrorOrProgress).error is not None else decode(each, ingestion.PieceAnswer)
        for each in answer.results
    ]
    return ingestion.IngestAnswer(**{**msgspec.structs.asdict(answer), "results": results})
