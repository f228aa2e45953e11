"""The routes of ingestion: one memory, many, a text, the turns of a conversation; reclassification; and the watched
folders of notes. SPEC 5, 6, 13"""

import asyncio
import dataclasses
import functools
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import msgspec
import numpy as np

from mnemo_client.protocol import operations
from mnemo_client.protocol.choices import Wait
from mnemo_client.protocol.ingestion import (
    BatchAnswer,
    ExtractAnswer,
    ExtractRequest,
    IngestAnswer,
    IngestRequest,
    PieceAnswer,
    ReclassifyRequest,
    RememberAnswer,
    StatementView,
    TurnsRequest,
)
from mnemo_client.protocol.memories import READ_ONLY, BulkDeleteAnswer, NewMemory
from mnemo_client.protocol.status import NewRootRequest, NotesRootStatus, NotesStatus, RootQuery
from mnemo_core.documents import chunking, markup
from mnemo_core.ingest.policies import Policy
from mnemo_core.text import secrets
from mnemo_daemon.api import access, request_codec, response_codec
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.indexing.index import INDEXED_CODES
from mnemo_daemon.ingest.ingest_pipeline import IngestPipeline, IngestResult, Submission
from mnemo_daemon.ingest.reassessment import Reclassification
from mnemo_daemon.lifecycle.profile_service import LISTED_STATES
from mnemo_daemon.mcp.resources import NotePassages
from mnemo_daemon.memories.memory_service import Caller, details_of, is_visible
from mnemo_daemon.server.router import Reply, Request, decode
from mnemo_daemon.services import Services
from mnemo_store.records import CONTENT_CHARS_MAX, PROXY_SOURCE, TRUSTS

INDEXED_SECONDS_MAX = 10.0  # how long `wait: indexed` waits for the vectors of all texts of a request
INDEXED_POLL_SECONDS = 0.002
EXTRACTED_SECONDS_MAX = 20.0  # how long `wait: extracted` waits for the statements of all texts of a request
MARKED_UP = (".rst", ".rst.txt", ".org")  # of a source: how its text is read where it is no Markdown
ECHO = "echo"  # why nothing of a text was stored: the daemon itself had handed it out
_SCOPE = ("tags", "namespace", "user_id", "agent_id", "run_id", "session_id")  # fields that texts and turns share


class _BatchEntry(NamedTuple):
    """One entry of a batch, and what its answer contains."""

    submission: Submission
    wait: Wait = "stored"


class _EmptyText(NamedTuple):
    """A text of which nothing is left to store, with the reason and the memories that it repeated."""

    reason: str
    echoes: tuple[str, ...] = ()


_Read = _BatchEntry | _EmptyText | Refusal


class IngestApi(Resource):
    """The handlers. Texts are cleaned, masked and split on threads."""

    @handles(operations.REMEMBER)
    async def remember(self, request: Request) -> Reply:
        put = await self._pipeline.run_on_thread(1, self._put, request, request.ask)
        group = self._services.store.new_id() if self._pipeline.should_infer(put.submission) else ""
        caller = access.caller_of(request, put.submission.draft.agent_id)
        (took,) = await self._pipeline.ingest([put.submission], caller, group)
        if isinstance(took, Refusal):
            raise took
        await self._services.wait_until_open()  # a write may have found the disk failing
        (fields,) = await self._fields_of([(took, put)])
        answer = RememberAnswer(**fields, memory=self._memory_view(took.decision.memory.id), group=group or None)
        return Reply(answer, 201 if took.decision.outcome in ("stored", "repeats") else 200)

    @handles(operations.REMEMBER_MANY)
    async def remember_many(self, request: Request) -> Reply:
        size = len(request.ask.memories)
        read = await self._pipeline.run_on_thread(size, self._read_many, request)
        group = self._services.store.new_id()
        agents = (each.submission.draft.agent_id for each in read if isinstance(each, _BatchEntry))
        agent_id = next(filter(None, agents), "")
        results = await self._ingested(read, access.caller_of(request, agent_id), group, RememberAnswer)
        return Reply(BatchAnswer(results=results, group=group))

    @handles(operations.INGEST)
    async def ingest(self, request: Request) -> Reply:
        asked: IngestRequest = request.ask
        size = len(asked.text) // CONTENT_CHARS_MAX
        read = await self._pipeline.run_on_thread(size, self._read_text, request, asked)
        return Reply(await self._answer(request, read))

    @handles(operations.TURNS)
    async def turns(self, request: Request) -> Reply:
        asked: TurnsRequest = request.ask
        read = await self._pipeline.run_on_thread(len(asked.turns), self._read_turns, request, asked)
        return Reply(await self._answer(request, read))

    async def store_turn(self, request: Request, asked: TurnsRequest) -> PieceAnswer:
        """Store the only turn that is given, as `turns` does. Raises a Refusal."""
        request = dataclasses.replace(request, ask=asked)
        (read,) = await self._pipeline.run_on_thread(1, self._read_turns, request, asked)
        match read:
            case Refusal():
                raise read
            case _EmptyText(reason=reason, echoes=echoes):
                return PieceAnswer(outcome="discarded", reason=reason, related=list(echoes))
        (took,) = await self._pipeline.ingest([read.submission], access.caller_of(request, asked.agent_id))
        if isinstance(took, Refusal):
            raise took
        await self._services.wait_until_open()  # a write may have found the disk failing
        (fields,) = await self._fields_of([(took, read)])
        return PieceAnswer(**fields, memory=self._memory_view(took.decision.memory.id))

    @handles(operations.EXTRACT)
    async def extract(self, request: Request) -> Reply:
        asked: ExtractRequest = request.ask
        if (asked.text is None) == (not asked.turns):
            raise bad_value("give either a `text` or `turns`", "text")
        size = len(asked.text or "") // CONTENT_CHARS_MAX + len(asked.turns)
        read = await self._pipeline.run_on_thread(size, self._read_conversation, request, asked)
        if refusal := next((each for each in read if isinstance(each, Refusal)), None):
            raise refusal
        namespace = access.namespace_of(request)
        if asked.dry:
            texts = [each.submission.draft for each in read if isinstance(each, _BatchEntry)]
            preview = self._services.extraction.preview([(draft.content, draft.speaker) for draft in texts])
            read_statements = await _in_time(preview, asyncio.get_running_loop().time() + EXTRACTED_SECONDS_MAX)
            is_read = read_statements is not None
            return Reply(ExtractAnswer(read_statements or [], extracted=is_read, namespace=namespace))
        answer = await self._answer(request, read)
        results = [each for each in answer.results if isinstance(each, PieceAnswer)]
        return Reply(ExtractAnswer(
            statements=[statement for each in results for statement in each.statements],
            sources=[each.memory.id for each in results if each.memory is not None],
            counts=answer.counts, extracted=all(each.extracted is not False for each in results),
            group=answer.group, namespace=namespace, degraded=answer.degraded,
        ))  # fmt: skip

    @handles(operations.RECLASSIFY)
    async def reclassify(self, request: Request) -> Reply:
        asked: ReclassifyRequest = request.ask
        namespace = access.writable_namespace(request)
        daemon = self._services
        reclassifying = Reclassification(daemon.store, daemon.views, daemon.indexing, lambda: daemon.settings)
        user_id, by = asked.user_id or "local", access.caller_of(request).name
        run = functools.partial(reclassifying.run, namespace, user_id, by, asked.dry_run)
        return Reply(await self._pipeline.run_on_thread(CONTENT_CHARS_MAX, run))

    # What came in, on a thread

    @property
    def _pipeline(self) -> IngestPipeline:
        return self._services.ingest

    def _put(self, request: Request, asked: NewMemory) -> _BatchEntry:
        services = self._services
        draft, masked = request_codec.draft_of(request, asked, services.secret_policy(), services.store.now())
        return _BatchEntry(
            Submission(draft, dedup=asked.dedup, infer=asked.infer, masked=tuple(masked), explain=asked.explain),
            asked.wait,
        )

    def _read_many(self, request: Request) -> list[_Read]:
        """Each of a batch by itself: what is wrong with one stops no other."""
        read: list[_Read] = []
        for place, raw in enumerate(request.ask.memories):
            at = f"memories[{place}]"
            try:
                asked = decode(raw, NewMemory, read_only=READ_ONLY, at=at)
                if request.namespace and asked.namespace and asked.namespace != request.namespace:
                    raise bad_value("the namespace is another than the batch's", f"{at}.namespace")
                read.append(self._put(request, asked))
            except Refusal as refusal:
                read.append(refusal)
        return read

    def _read_text(self, request: Request, asked: IngestRequest) -> list[_Read]:
        """A text without what the daemon had handed out, masked, in pieces."""
        policy = self._services.secret_policy()
        profile = self._pipeline.profile(access.writable_namespace(request))
        text, echoes = self._without_echo(request_codec.clean_text(asked.text, "text"), asked.session_id or "", profile)
        kinds: Sequence[str] = ()
        if policy.mask != "off":
            text, kinds = secrets.mask_secrets(text, policy.key)
        read: list[_Read] = []
        whole = request_codec.text_draft(request, asked, self._services.store.now())
        for piece in self._pieces(text, asked.source or "", profile):
            draft = request_codec.piece_draft(whole, piece, policy)
            masked = tuple(kind for kind in dict.fromkeys(kinds) if f"[masked:{kind}:" in piece)
            submission = Submission(
                draft, "ingest", dedup=asked.dedup, infer=asked.infer, masked=masked, explain=asked.explain
            )
            read.append(_BatchEntry(submission, asked.wait))
        return read if read or not echoes else [_EmptyText(ECHO, echoes)]

    def _pieces(self, text: str, source: str, profile: Policy) -> list[str]:
        """SPEC 5.2. A source that is named like a note of another markup than Markdown is read as such."""
        if not text:
            return []
        if profile.split == "whole" and len(text) <= CONTENT_CHARS_MAX:
            return [text]
        serving = self._services.indexing.serving()
        count = serving.embedder.count_tokens if serving is not None else chunking.estimate_tokens
        if profile.split == "paragraphs":
            return [chunk.text for chunk in chunking.split_blocks(text, chunking.bounded_count(count))]
        suffix = markup.suffix_of(source)
        suffix = suffix if suffix in MARKED_UP else ".md"
        return [chunk.text for chunk in chunking.split_text(text, count, suffix)]

    def _read_conversation(self, request: Request, asked: ExtractRequest) -> list[_Read]:
        """A text in pieces, or the turns of the roles that are asked for, each to be broken into statements."""
        common = {name: getattr(asked, name) for name in _SCOPE}
        if asked.text is not None:
            text = IngestRequest(text=asked.text, speaker=asked.speaker, source=asked.source, infer=True,
                                 wait="extracted", **common)  # fmt: skip
            return self._read_text(request, text)
        turns = [turn for turn in asked.turns if request_codec.role_of(turn) in asked.roles]
        talk = TurnsRequest(turns=turns, infer=True, wait="extracted",
                            **{**common, "session_id": asked.session_id or ""})  # fmt: skip
        return self._read_turns(dataclasses.replace(request, ask=talk), talk)

    def _read_turns(self, request: Request, asked: TurnsRequest) -> list[_Read]:
        """Each turn by itself: what is wrong with one stops no other."""
        profile = self._pipeline.profile(access.writable_namespace(request))
        now = self._services.store.now()
        read: list[_Read] = []
        for place in range(len(asked.turns)):
            try:
                read.append(self._read_turn(request, asked, place, profile, now))
            except Refusal as refusal:
                read.append(refusal)
        return read

    def _read_turn(self, request: Request, asked: TurnsRequest, place: int, profile: Policy, now: int) -> _Read:
        turn, field = asked.turns[place], f"turns[{place}].content"
        text, echoes = self._without_echo(request_codec.clean_text(turn.content, field), asked.session_id, profile)
        if not text:
            return _EmptyText(ECHO, echoes) if echoes else _EmptyText("too_short")
        if len(text) > CONTENT_CHARS_MAX:
            message = f"the turn has {len(text)} characters, at most {CONTENT_CHARS_MAX}: ingest it as a text"
            raise bad_value(message, field)
        draft, masked = request_codec.turn_draft(request, place, text, self._services.secret_policy(), now)
        submission = Submission(
            draft, "ingest" if asked.source == PROXY_SOURCE else "turn", request_codec.role_of(turn), dedup=asked.dedup,
            infer=asked.infer, masked=tuple(masked), explain=asked.explain,
        )  # fmt: skip
        return _BatchEntry(submission, asked.wait)

    def _without_echo(self, text: str, session: str, profile: Policy) -> tuple[str, tuple[str, ...]]:
        if not profile.strips_echo or not text:
            return text, ()
        rest, ids = self._pipeline.without_echo(text, session)
        self._pipeline.record_echoes(session, ids)
        return request_codec.clean_text(rest, "text"), ids

    # What became of it

    async def _answer(self, request: Request, read: Sequence[_Read]) -> IngestAnswer:
        group = self._services.store.new_id()
        results = await self._ingested(read, access.caller_of(request, request.ask.agent_id), group, PieceAnswer)
        counts = Counter(each.outcome if isinstance(each, PieceAnswer) else "refused" for each in results)
        return IngestAnswer(
            results=results, counts=dict(sorted(counts.items())), group=group,
            namespace=access.namespace_of(request),
            degraded=self._degraded(),
        )  # fmt: skip

    async def _ingested(
        self, read: Sequence[_Read], caller: Caller, group: str, kind: type[RememberAnswer] | type[PieceAnswer]
    ) -> list[Any]:
        """The answer to each, in order; a text that is still being ingested does not hold up the others."""
        puts = [each for each in read if isinstance(each, _BatchEntry)]
        took = iter(await self._pipeline.ingest([put.submission for put in puts], caller, group) if puts else ())
        await self._services.wait_until_open()  # a write may have found the disk failing
        settled: list[Any] = []
        for each in read:
            match each:
                case Refusal():
                    settled.append(each)
                case _EmptyText(reason=reason, echoes=echoes):
                    settled.append(PieceAnswer(outcome="discarded", reason=reason, related=list(echoes)))
                case _:
                    result = next(took)
                    settled.append((result, each) if isinstance(result, IngestResult) else result)
        fields = iter(await self._fields_of([each for each in settled if isinstance(each, tuple)]))
        settled = [(each[0], next(fields)) if isinstance(each, tuple) else each for each in settled]
        return await self._pipeline.run_on_thread(len(read), self._answers_of, settled, kind)

    def _answers_of(self, settled: Sequence[Any], kind: type[RememberAnswer] | type[PieceAnswer]) -> list[Any]:
        """The answers with their memories, on a thread: there may be thousands."""
        roots = self._services.root_paths()
        shaped: list[Any] = []
        for each in settled:
            try:
                if isinstance(each, Refusal):
                    raise each
                if isinstance(each, tuple):
                    took, fields = each
                    found = self._services.memories.get(took.decision.memory.id)
                    shaped.append(kind(**fields, memory=response_codec.memory_view(found, roots)))
                else:
                    shaped.append(each)
            except Refusal as refusal:
                shaped.append(msgspec.Raw(msgspec.json.encode(refusal.answer())))
        return shaped

    async def _fields_of(self, written: Sequence[tuple[IngestResult, _BatchEntry]]) -> list[dict[str, Any]]:
        """The fields of the answers other than the memories, once what they wait for is there."""
        extracted_until = asyncio.get_running_loop().time() + EXTRACTED_SECONDS_MAX
        extractions = [
            self._services.extraction.submit(took.decision.memory.id)
            if put.wait == "extracted" and _is_extracted(took)
            else None
            for took, put in written
        ]
        statements = [
            await _in_time(extraction, extracted_until) if extraction is not None else None
            for extraction in extractions
        ]
        indexed_until = asyncio.get_running_loop().time() + INDEXED_SECONDS_MAX
        return [
            await self._fields(took, put, each, indexed_until)
            for (took, put), each in zip(written, statements, strict=True)
        ]

    async def _fields(
        self, took: IngestResult, put: _BatchEntry, statements: list[StatementView] | None, indexed_until: float
    ) -> dict[str, Any]:
        fields = response_codec.ingest_fields(took, explain=put.submission.explain)
        ids = [took.decision.memory.id]
        if _is_extracted(took):
            fields["extracted"] = statements is not None
            fields["statements"] = statements or []
            ids += [each.id for each in statements or () if each.id is not None]
        indexed, degraded = took.item.is_seen, self._degraded()
        if put.wait != "stored" and took.decision.outcome != "discarded":
            indexed = all([await self._is_indexed_in_time(each, indexed_until) for each in ids])
            degraded = [] if indexed else ["vectors"]
        return fields | {"indexed": indexed, "degraded": degraded}

    def _degraded(self) -> list[str]:
        return ["vectors"] if self._services.indexing.serving() is None or self._services.store.degraded else []

    async def _is_indexed_in_time(self, memory_id: str, deadline: float) -> bool:
        """Wait for its vector while one can be expected; return whether it came. No thread waits here."""
        daemon, loop = self._services, asyncio.get_running_loop()
        with daemon.store.snapshot() as snapshot:
            number = snapshot.number(memory_id)
        while number is not None and not daemon.stopped.is_set():
            if daemon.indexing.has_vector(number):
                return True
            if loop.time() >= deadline or daemon.embedding.status().state not in ("ready", "loading"):
                return False
            await asyncio.sleep(INDEXED_POLL_SECONDS)
        return False


def _is_extracted(took: IngestResult) -> bool:
    """Return whether the statements of the text are extracted."""
    return took.item.is_extracted and took.decision.outcome != "discarded"


async def _in_time(extraction: "Future[list[StatementView]]", until: float) -> list[StatementView] | None:
    """The statements, None where they are not there in time; the job tries again what failed."""
    seconds = until - asyncio.get_running_loop().time()
    waits = asyncio.wrap_future(extraction)
    await asyncio.wait([waits], timeout=max(0.0, seconds))
    return waits.result() if waits.done() and waits.exception() is None else None


IDS_SHOWN = 500  # of the memories that went to the trash with a folder
RESCAN_SECONDS_MAX = 50.0  # how long a rescan is waited for; clients wait 60 s for an answer
RESCAN_POLL_SECONDS = 0.01


class NotesApi(Resource):
    """Handlers of the watched folders of notes."""

    @handles(operations.NOTES_ROOTS)
    @handles(operations.NOTES_STATUS)
    def notes_status(self, _: Request) -> NotesStatus:
        return status_of_notes(self._services)

    @handles(operations.ADD_ROOT)
    def add_root(self, request: Request) -> NotesRootStatus:
        asked: NewRootRequest = request.ask
        notes = self._services.notes
        root = notes.add_root(asked.path, access.writable_namespace(request))
        return next(row for row in notes.status().roots if row.id == root.id)

    @handles(operations.REMOVE_ROOT)
    async def remove_root(self, request: Request) -> Reply:
        query: RootQuery = request.query
        if (query.path is None) == (query.id is None):
            raise bad_value("give the folder's `path` or its `id`", "path")
        ids = await self._workers.run(self._services.notes.remove_root, query.id or query.path)
        return Reply(BulkDeleteAnswer(ids=ids[:IDS_SHOWN], deleted=len(ids)))

    @handles(operations.RESCAN)
    async def rescan(self, _: Request) -> Reply:
        services, loop = self._services, asyncio.get_running_loop()
        await self._workers.run(services.notes.rescan)
        deadline = loop.time() + RESCAN_SECONDS_MAX
        while not services.stopped.is_set() and loop.time() < deadline:
            if services.notes.wait_until_settled(0.0):
                break
            await asyncio.sleep(RESCAN_POLL_SECONDS)  # no thread waits here: recalls need those
        return Reply(await self._workers.run(status_of_notes, services))

    async def passages(self, request: Request, path: str) -> NotePassages:
        """Return the passages of a note, by its absolute path, as far as the request sees them. Raises a Refusal with
        404."""
        await self._services.wait_until_open()
        return await self._workers.run(self._passages, request, path)

    def _passages(self, request: Request, path: str) -> NotePassages:
        services, caller = self._services, access.caller_of(request)
        namespaces = access.visible_namespaces(access.namespace_of(request))
        file_id = services.notes.find_file(path)
        with services.store.snapshot() as snapshot:
            file = snapshot.note(file_id) if file_id is not None else None
            found = [details_of(snapshot, memory) for chunk in (file.chunks if file is not None else ())
                     if (memory := snapshot.memory(chunk.memory)) is not None and memory.state in LISTED_STATES
                     and (not namespaces or memory.namespace in namespaces)]  # fmt: skip
        visible = [row for row in found if is_visible(row.memory, caller)]
        if not found:
            raise Refusal(404, "not_found", f"no watched folder has the note {path}", field="path")
        roots = services.root_paths()
        return NotePassages([response_codec.memory_view(row, roots) for row in visible], len(found) - len(visible))


def status_of_notes(services: Services) -> NotesStatus:
    """The folders, and how many of their passages are found by meaning."""
    status, indexing = services.notes.status(), services.indexing
    trust, state = services.views.attributes.columns("trust", "state")
    passages = (trust == TRUSTS.index("note")) & np.isin(state, INDEXED_CODES)
    status.by_words_only = int(np.count_nonzero(passages)) - indexing.count_found(passages)
    status.seconds_left = indexing.progress().seconds_left if status.by_words_only else None
    return status
