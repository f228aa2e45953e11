"""Import of the transcripts that agents and chat programs keep, through the same intake as any turn. SPEC 5, 8

A turn has its own time, trust `import`, and the session `TOOL:ID`; a session whose last turn is old has ended, and is
filed. Turns are committed in slices, in the order of the conversation. The record of a session has the time of its last
turn. Turns up to that time are skipped, so that a repeated import of a transcript adds only its later turns, and an
interrupted import continues. Turns that the gate rejects are counted and not stored: they are still in the transcript.
"""

from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from mnemo_client.protocol.maintenance import ImportAnswer, ImportExample
from mnemo_core.ingest.mutations import Decision, Draft
from mnemo_core.ingest.policies import Policy
from mnemo_core.ingest.session_records import SessionScope, key_of
from mnemo_core.ingest.signals.noise_filter import reject_reason
from mnemo_core.ingest.write_plan import IngestItem
from mnemo_core.retrieval.context_block import AGENT_TAG
from mnemo_core.sessions.tiers import is_over, split_turn
from mnemo_core.text import cleaning, secrets
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_core.transfer import importers
from mnemo_core.transfer.import_plan import SecretPolicy
from mnemo_core.transfer.importers import ImportFormatError
from mnemo_core.transfer.transcripts import chatgpt, claude_code, codex
from mnemo_core.transfer.transcripts.parts import (
    AGENT_SPEAKERS,
    ConversationStart,
    DamagedPart,
    LeftOut,
    TranscriptPart,
    TranscriptTool,
    TranscriptTurn,
)
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.ingest.ingest_pipeline import IngestPipeline, Submission
from mnemo_daemon.memories.memory_service import FORGOTTEN, MemoryService
from mnemo_daemon.sessions.turn_tiers import TurnTiers
from mnemo_daemon.transfer.tool_import import (
    LINE_BYTES_MAX,
    ImportInterruption,
    ImportRequest,
    ImportState,
    count_name,
    lines,
    mapped,
    note_problem,
    parse_export_time,
    unfinished,
    unknown_export,
)
from mnemo_store.errors import StoreError
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.record_texts import content_hash, skip_hash
from mnemo_store.records import CONTENT_CHARS_MAX, SCOPE_CHARS_MAX, ConversationTurn
from mnemo_store.store import Store
from mnemo_store.tables import SESSIONS

TURNS_PER_SLICE = 64  # that are embedded and written together
EXAMPLES_SHOWN = 5
EXAMPLE_CHARS_MAX = 200
SOURCE = "turn"
_KNOWN_STATES = ("active", "archived", "compressed", "superseded")


def transcript_tool(tool: str | None, first_line: bytes) -> TranscriptTool | None:
    """Return the tool whose transcript this is: the one that was named, or else the one that it looks like."""
    if tool is not None:
        return next((each for each in AGENT_SPEAKERS if each == tool), None)
    if claude_code.is_event(first_line):
        return "claude-code"
    if codex.is_line(first_line):
        return "codex"
    return "chatgpt" if chatgpt.is_export(first_line) else None


class _OpenConversation(NamedTuple):
    """The session that turns are stored in; turns up to `known_until` (ms) are there."""

    id: str
    scope: SessionScope
    known_until: int


class TranscriptImport:
    """The import of one transcript, or of one file with many conversations."""

    def __init__(
        self, store: Store, pipeline: IngestPipeline, memories: MemoryService, tiers: TurnTiers, guard: SecretPolicy,
        wanted: ImportRequest, progress: ImportState,
    ) -> None:  # fmt: skip
        self._store = store
        self._pipeline = pipeline
        self._memories = memories
        self._tiers = tiers
        self._guard = guard
        self._request = wanted
        self._progress = progress
        self._namespace = wanted.into.namespace or "default"
        self._user_id = wanted.into.user_id or "local"
        self._profile: Policy = pipeline.profile(self._namespace)
        self._group = wanted.group or store.new_id()
        self._salt = guard.key.hex()
        self._seen: set[bytes] = set()  # in a dry run, the texts that would have been stored by now
        self._conversation: _OpenConversation | None = None
        self._last_at = 0  # of the conversation
        self._pending: list[Submission] = []
        self._has_stored = False
        self._has_begun = False  # a conversation

    def run(self, spooled: BinaryIO, tool: TranscriptTool, first_line: bytes) -> ImportAnswer:
        """Import the conversations; `spooled` is at its beginning. Raises a Refusal with nothing changed for what is no
        transcript; for a store that fails on the way, one that says what stays."""
        if self._request.allow_forgotten:
            raise bad_value("texts that were erased are never imported from a transcript", "allow_forgotten")
        answer = ImportAnswer(tool=tool, dry_run=self._request.dry_run)
        parts = self._parts(spooled, tool, first_line)
        try:
            for part in parts:
                self._progress.require_running()
                match part:
                    case ConversationStart(id=name, at=at):
                        self._finish_conversation(answer)
                        self._begin_conversation(tool, name, at or 0)
                    case LeftOut(reason=reason):
                        count_name(answer.left_out, reason)
                    case DamagedPart(place=place, why=why):
                        note_problem(answer, place, why)
                    case TranscriptTurn():
                        self._take_turn(part, tool, answer)
            self._finish_conversation(answer)
        except (StoreError, ImportInterruption) as error:
            raise unfinished(error, answer) from error
        is_known = self._has_begun or transcript_tool(None, first_line) == tool
        if not is_known:
            raise unknown_export(f"it has no conversation of {tool}", first_line)
        return answer

    # Reading

    def _parts(self, spooled: BinaryIO, tool: TranscriptTool, first_line: bytes) -> Iterator[TranscriptPart]:
        if tool == "chatgpt":
            try:
                items = importers.read_conversations(mapped(spooled))
            except ImportFormatError as malformed:
                raise unknown_export(str(malformed), first_line) from None
            self._progress.set_total(len(items))
            for number, item in enumerate(items):
                self._progress.done = number
                yield from chatgpt.parse(f"[{number}]", item, parse_export_time)
            return
        parse = claude_code.parse if tool == "claude-code" else codex.parse
        too_long: list[DamagedPart] = []
        for part in parse(self._lines(spooled, too_long), parse_export_time):
            yield from too_long
            too_long.clear()
            yield part
        yield from too_long

    def _lines(self, spooled: BinaryIO, too_long: list[DamagedPart]) -> Iterator[tuple[str, bytes]]:
        for number, line in lines(spooled):
            self._progress.done = spooled.tell()
            if line is None:
                why = f"the line is longer than {LINE_BYTES_MAX >> 20} MiB"
                too_long.append(DamagedPart(f"line {number}", why))
            elif line.strip():
                yield f"line {number}", line

    # One part after the other

    def _begin_conversation(self, tool: TranscriptTool, name: str, at: int) -> None:
        scope = SessionScope(self._namespace, self._user_id, f"{tool}:{name}"[:SCOPE_CHARS_MAX])
        wanted = MemoryFilter(
            namespaces=(scope.namespace,), user_id=scope.user_id, session_id=scope.session_id, source=SOURCE,
            states=_KNOWN_STATES,
        )  # fmt: skip
        with self._store.snapshot() as snapshot:
            session = snapshot.get(SESSIONS, key_of(scope))
        # A conversation of which every turn was undone or deleted is imported again.
        is_known = session is not None and self._memories.count(wanted) > 0
        self._conversation = _OpenConversation(name, scope, session.last_at if session is not None and is_known else 0)
        self._last_at = max(0, at - 1)
        self._has_begun = True
        self._has_stored = False

    def _finish_conversation(self, answer: ImportAnswer) -> None:
        """Store what is pending, and file the session where it is over."""
        self._flush(answer)
        conversation, self._conversation = self._conversation, None
        if conversation is not None and self._has_stored:
            answer.conversations += 1
            if not self._request.dry_run and is_over(self._last_at, self._store.now()):
                self._tiers.end(conversation.scope)

    def _take_turn(self, turn: TranscriptTurn, tool: TranscriptTool, answer: ImportAnswer) -> None:
        conversation = self._conversation
        if conversation is None:
            note_problem(answer, turn.place, "the conversation that it belongs to is not named before it")
            return
        if turn.role == "user" and len(turn.text) > CONTENT_CHARS_MAX:
            count_name(answer.left_out, "pasted")
            return
        for text in split_turn(turn.text):
            # Later than the one before, and the same each time the transcript is read.
            self._last_at = max(turn.at or 0, self._last_at + 1)
            at = min(self._last_at, self._store.now())
            if at <= conversation.known_until:
                answer.duplicate += 1
                continue
            try:
                submission = self._submission(turn, text, at, tool, conversation, answer)
            except cleaning.InvalidTextError as invalid:
                note_problem(answer, turn.place, str(invalid))
                continue
            if submission is not None:
                self._pending.append(submission)
            if len(self._pending) == TURNS_PER_SLICE:
                self._flush(answer)

    def _submission(
        self, turn: TranscriptTurn, text: str, at: int, tool: TranscriptTool, conversation: _OpenConversation,
        answer: ImportAnswer,
    ) -> Submission | None:  # fmt: skip
        """The turn as it comes in, masked; None where nothing of it is to be stored. Raises InvalidTextError."""
        text = cleaning.clean_text(text)
        if self._profile.strips_echo and at >= self._pipeline.shown_since:
            text, echoes = self._pipeline.without_echo(text, conversation.id)
            text = cleaning.clean_text(text)
            if echoes and not text:
                count_name(answer.left_out, "echo")
                return None
        reason = reject_reason(text) if self._profile.filters_turns or not text else None
        if reason is not None:
            count_name(answer.left_out, reason)
            return None
        kinds: Sequence[str] = ()
        tags: tuple[str, ...] = (f"{AGENT_TAG}{tool}",)
        if self._guard.mask != "off":
            text, kinds = secrets.mask_secrets(text, self._guard.key)
        elif secrets.find_secrets(text):
            tags = (SENSITIVE_TAG, *tags)
        draft = Draft(
            content=text, namespace=self._namespace, user_id=self._user_id, trust="import", source=SOURCE,
            event_at=at, created_at=at, speaker=AGENT_SPEAKERS[tool] if turn.role == "agent" else "", tags=tags,
            session_id=conversation.scope.session_id, turn=ConversationTurn(role=turn.role, tier="recent"),
        )  # fmt: skip
        return Submission(draft, "turn", turn.role, masked=tuple(kinds))

    # Writing

    def _flush(self, answer: ImportAnswer) -> None:
        pending, self._pending = self._pending, []
        if not pending:
            return
        outcomes = self._foreseen(pending) if self._request.dry_run else self._written(pending)
        for submission, outcome in zip(pending, outcomes, strict=True):
            match outcome:
                case "stored":
                    draft = submission.draft
                    answer.stored += 1
                    self._has_stored = True
                    at = draft.created_at or 0
                    answer.first_at = at if answer.first_at is None else min(answer.first_at, at)
                    answer.last_at = at if answer.last_at is None else max(answer.last_at, at)
                    for kind in submission.masked:
                        count_name(answer.masked, kind)
                    if not self._request.dry_run:
                        answer.group = self._group
                    elif len(answer.examples) < EXAMPLES_SHOWN and draft.turn is not None:
                        text = draft.content[:EXAMPLE_CHARS_MAX]
                        answer.examples.append(ImportExample(draft.session_id, draft.turn.role, at, text))
                case "duplicate":
                    answer.duplicate += 1
                case "forgotten":
                    answer.forgotten += 1
                case Refusal():
                    note_problem(answer, submission.draft.session_id, str(outcome))
                case _:
                    count_name(answer.left_out, outcome)

    def _foreseen(self, pending: Sequence[Submission]) -> Iterator[str]:
        """The outcomes of a dry run. Near copies are found by vectors alone, which it does not compute."""
        with self._store.snapshot() as snapshot:
            for submission in pending:
                draft = submission.draft
                digest = content_hash(draft.content)
                if digest in self._seen or snapshot.ids_by_hash(draft.namespace, draft.user_id, "", "", digest):
                    yield "duplicate"
                elif snapshot.forgotten(skip_hash(self._salt, draft.content)) is not None:
                    yield "forgotten"
                else:
                    self._seen.add(digest)
                    yield "stored"

    def _written(self, pending: Sequence[Submission]) -> list[str | Refusal]:
        """Store the turns in one write turn, and return their outcomes. Raises StoreError and ImportInterruption."""
        outcomes: dict[int, str | Refusal] = {}

        def write(items: Sequence[IngestItem]) -> list[Decision | None]:
            kept = [(place, item) for place, item in enumerate(items) if not item.discard_reason]
            outcomes.update({place: item.discard_reason for place, item in enumerate(items) if item.discard_reason})
            # A turn that several transcripts contain, as forks of a conversation do, does not count as repeated.
            asked = [
                item if item.policy.on_equal == "stored"
                else item._replace(policy=item.policy._replace(on_equal="skipped")) for _, item in kept
            ]  # fmt: skip
            decisions: list[Decision | None] = [None] * len(items)
            for (place, _), decided in zip(kept, self._transact(asked), strict=True):
                if isinstance(decided, Refusal):
                    outcomes[place] = "forgotten" if decided.code == FORGOTTEN else decided
                else:
                    decisions[place] = decided
                    outcomes[place] = "stored" if decided.outcome in ("stored", "repeats") else decided.outcome
            return decisions

        self._pipeline.ingest_on_this_thread(pending, self._request.caller, write)
        return [outcomes[place] for place in range(len(pending))]

    def _transact(self, items: Sequence[IngestItem]) -> Sequence[Decision | Refusal]:
        def attempt() -> list[Decision | Refusal]:
            write = self._memories.write_slice
            return write(items, self._request.caller, self._group, {}, background=True).result().result

        return self._progress.retry_while_full(attempt) if items else ()
