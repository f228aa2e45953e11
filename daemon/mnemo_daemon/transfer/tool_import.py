"""Import of exports of other memory tools. SPEC 3.8. `store_merge` imports our own.

An import is spooled to the disk as a whole before anything is changed. Its items are committed in slices of one write
turn each, all in one group that `undo` reverts; an item that cannot be stored is reported and does not stop the others.
"""

import mmap
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec

from mnemo_client.protocol.choices import ImportTool
from mnemo_client.protocol.maintenance import ImportAnswer, ImportProblem
from mnemo_client.protocol.validation import printable
from mnemo_core.decay import epoch_of
from mnemo_core.ingest import trust
from mnemo_core.ingest.write_plan import StatedFact, put_facts
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_core.transfer import import_plan, importers
from mnemo_core.transfer.import_plan import ImportCandidate, ImportTarget, SecretPolicy
from mnemo_core.transfer.importers import ImportFormatError, ImportItemError, Tool
from mnemo_daemon.errors import Refusal, refusal_of
from mnemo_daemon.memories.memory_service import INGESTED_PER_WRITE, Caller, stated_facts
from mnemo_daemon.scheduler import LongOperation
from mnemo_daemon.thread_supervision import retry_while_full
from mnemo_daemon.times import MS_MAX, parse_time
from mnemo_store.backend import Snapshot
from mnemo_store.errors import StoreError
from mnemo_store.record_texts import skip_hash
from mnemo_store.records import Change, DropErasedText, PutMemory, Trust
from mnemo_store.store import Store, WriteResult

LINE_BYTES_MAX = 32 << 20  # of a file with an item a line; as large as a batch may be
PROBLEMS_SHOWN = 100
NAMES_SHOWN = 100  # of what was not kept
SECONDS_BELOW = 100_000_000_000  # a smaller number is in seconds: in ms it would be a day before 1973
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PINNED = "pinned: "  # begins the outcome of what an import may not change
KNOWN = (
    "mnemo's own export, mem0 (JSON), mcp-memory (the JSON lines of the MCP memory server), engram (JSON), transcripts"
    " of claude-code and codex (JSON lines), and the conversations.json of chatgpt"
)

T = TypeVar("T")


class ImportRequest(NamedTuple):
    """The request for an import."""

    caller: Caller
    trust: Trust  # of the entry point
    tool: ImportTool | None = None  # None: whatever it looks like
    into: ImportTarget = ImportTarget()
    allow_forgotten: bool = False
    dry_run: bool = False
    group: str = ""  # of an import that this one continues


class ImportState(LongOperation):
    """The progress of an import; `stop` ends it after the current slice."""

    def __init__(self) -> None:
        super().__init__("import")
        self.done = 0
        self.of = 0
        self.set_total(0)
        self.stop = threading.Event()

    def require_running(self) -> None:
        """Raise ImportInterruption if the import is to stop."""
        if self.stop.is_set():
            raise ImportInterruption

    def retry_while_full(self, attempt: Callable[[], T]) -> T:
        """Return the result of an attempt to write, which is repeated while the queue is full."""

        def pause(seconds: float) -> None:
            self.stop.wait(seconds)
            self.require_running()

        return retry_while_full(attempt, pause)

    def set_total(self, total: int) -> None:
        """Set what `done` counts up to."""
        self.of = total
        self.report("importing", lambda: self.done, total)


class ImportInterruption(Exception):
    """The import was told to stop."""


class _ImportedItem(NamedTuple):
    """Something to remember, the salted hashes under which it would be known as forgotten, and what it states."""

    place: str
    new: ImportCandidate
    hashes: frozenset[str]
    facts: tuple[StatedFact, ...]


class ToolImport:
    """The import of one export of another tool."""

    def __init__(self, store: Store, guard: SecretPolicy, wanted: ImportRequest, progress: ImportState) -> None:
        self._store = store
        self._guard = guard
        self._request = wanted
        self._progress = progress
        self._seen: set[str] = set()  # in a dry run, the keys that would have been stored by now

    def run(self, spooled: BinaryIO, first_line: bytes) -> ImportAnswer:
        """Import the items; `spooled` is at its beginning. Raises a Refusal with nothing changed for
        anything but an export; for a store that fails on the way, one that says what stays."""
        # The tool that made the export, and its items with their places.
        asked = self._request.tool
        if asked == "mnemo":
            raise unknown_export("it is no export of our own", first_line)
        tool = next((each for each in importers.TOOLS if each == asked), None) or importers.tool_of_line(first_line)
        if tool == "mcp-memory":
            items = self._lines(spooled)
        else:
            try:
                found = importers.read_document(mapped(spooled), tool)
            except ImportFormatError as malformed:
                raise unknown_export(str(malformed), first_line) from None
            tool, items = found.tool, self._elements(found.items)
        answer = ImportAnswer(tool=tool, dry_run=self._request.dry_run)
        group = self._store.new_id()
        try:
            for slice_ in slices(self._read(tool, items, answer), _key):
                self._progress.require_running()
                self._commit(slice_, group, answer)
        except (StoreError, ImportInterruption) as error:
            raise unfinished(error, answer) from error
        return answer

    def _lines(self, spooled: BinaryIO) -> Iterator[tuple[str, bytes | None]]:
        """The lines that hold something; None for one that is too long."""
        for number, line in lines(spooled):
            self._progress.done = spooled.tell()
            if line is None or line.strip():
                yield f"line {number}", line

    def _elements(self, items: Sequence[tuple[str, msgspec.Raw]]) -> Iterator[tuple[str, msgspec.Raw]]:
        self._progress.set_total(len(items))
        for number, item in enumerate(items):
            self._progress.done = number
            yield item

    def _read(self, tool: Tool, items: Iterator[tuple[str, Any]], answer: ImportAnswer) -> Iterator[_ImportedItem]:
        """The memories of each item, as ingested; an item that cannot be remembered is noted in the answer."""
        salt = self._guard.key.hex()
        for place, item in items:
            try:
                if item is None:
                    raise ImportItemError(f"the line is longer than {LINE_BYTES_MAX >> 20} MiB")
                for foreign in importers.parse(tool, item, parse_export_time):
                    try:  # of an item with several memories each may fail alone
                        new = import_plan.admit_import(foreign, tool, self._request.into, self._guard)
                    except ImportItemError as unfit:
                        note_problem(answer, place, str(unfit))
                        continue
                    hashes = {skip_hash(salt, text) for text in (new.draft.content, new.plain)}
                    facts = stated_facts(new.draft.content, new.draft.speaker)
                    yield _ImportedItem(place, new, frozenset(hashes), facts)
            except ImportItemError as unfit:
                note_problem(answer, place, str(unfit))

    def _commit(self, items: Sequence[_ImportedItem], group: str, answer: ImportAnswer) -> None:
        """Commit a slice and count the outcomes."""

        def decide(snapshot: Snapshot) -> WriteResult[list[str]]:
            rows = [self._outcome_of(snapshot, item) for item in items]
            changes = [change for _, made in rows for change in made]
            return WriteResult(changes, [outcome for outcome, _ in rows], "import", group)

        if self._request.dry_run:
            with self._store.snapshot() as snapshot:
                outcomes = decide(snapshot).result
        else:
            outcomes = write_slice(self._store, decide, self._request.caller, self._progress)
        for item, outcome in zip(items, outcomes, strict=True):
            if outcome == "hidden":
                note_problem(answer, item.place, f"the key {item.new.draft.key!r} is in use")
                continue
            if outcome.startswith(PINNED):
                note_problem(answer, item.place, outcome.removeprefix(PINNED))
                continue
            setattr(answer, outcome, getattr(answer, outcome) + 1)
            if outcome in ("stored", "updated"):
                for kind in item.new.masked:
                    count_name(answer.masked, kind)
                for name in item.new.dropped_fields:
                    count_name(answer.not_kept, name)
                if item.new.draft.user_id != "local":
                    count_name(answer.users, item.new.draft.user_id)
            if outcome in ("stored", "updated", "restored") and not self._request.dry_run:
                answer.group = group

    def _outcome_of(self, snapshot: Snapshot, item: _ImportedItem) -> tuple[str, tuple[Change, ...]]:
        """The outcome of one memory, or `forgotten`, or `hidden` if the caller may not see what has its key,
        or PINNED and why it must stay as it is; and the changes."""
        draft, wanted = item.new.draft, self._request
        forgotten = [digest for digest in sorted(item.hashes) if snapshot.forgotten(digest) is not None]
        if forgotten and not wanted.allow_forgotten:
            return "forgotten", ()
        known = snapshot.id_by_key(draft.namespace, draft.user_id, draft.key)
        if known is None:
            name = f"{draft.namespace}\0{draft.user_id}\0{draft.key}"
            if name in self._seen:
                return "duplicate", ()
            if wanted.dry_run:
                self._seen.add(name)
        before = snapshot.memory(known) if known else None
        if before is not None and SENSITIVE_TAG in before.tags and not wanted.caller.sees_sensitive:
            return "hidden", ()
        usage, entry = (snapshot.usage(known), snapshot.trash(known)) if known else (None, None)
        outcome, changes = import_plan.decide_import(
            item.new, before, usage, entry, self._store.new_id(), snapshot.now, epoch_of(snapshot)
        )
        try:
            changes = tuple(trust.authorise(changes, snapshot, draft.trust))
        except trust.PinnedError as pinned:
            return f"{PINNED}{pinned}", ()
        for memory in [each.data for each in changes if isinstance(each, PutMemory)]:
            changes += tuple(put_facts(memory, draft.content, item.facts, snapshot, self._store.new_id))
        wanted_again = [DropErasedText(hash=digest) for digest in forgotten] if changes else []
        return outcome, (*changes, *wanted_again)


def parse_export_time(value: Any) -> int | None:
    """ms since the epoch, UTC, of what a tool gives as a time; None for what is none. A number is in ms, or in seconds
    where it would be too long ago; a text is ISO 8601."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        try:
            found = parse_time(value, "time")
        except Refusal:
            return None
    else:
        found = int(value * 1000 if value < SECONDS_BELOW else value)
    return found if 0 < found <= MS_MAX else None


def lines(spooled: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """The lines of a file with their numbers, from 1; None for one that is longer than any may be."""
    number = 0
    while line := spooled.readline(LINE_BYTES_MAX):
        number += 1
        if line.endswith(b"\n") or len(line) < LINE_BYTES_MAX:
            yield number, line
            continue
        while line and not line.endswith(b"\n"):
            line = spooled.readline(LINE_BYTES_MAX)
        yield number, None


def slices(parts: Iterable[T], mark: Callable[[T], object]) -> Iterator[list[T]]:
    """Slices of up to INGESTED_PER_WRITE parts of one type, in which no mark but None occurs twice: a write turn
    does not see its own changes."""
    pending: list[T] = []
    marks: set[object] = set()
    for part in parts:
        its = mark(part)
        if pending and (len(pending) == INGESTED_PER_WRITE or type(part) is not type(pending[0]) or its in marks):
            yield pending
            pending, marks = [], set()
        pending.append(part)
        if its is not None:
            marks.add(its)
    if pending:
        yield pending


def mapped(spooled: BinaryIO) -> memoryview:
    """Map the rest of a file into memory, of which the system then keeps no more than it has room for."""
    return memoryview(mmap.mmap(spooled.fileno(), 0, access=mmap.ACCESS_READ))[spooled.tell() :]


def write_slice(store: Store, decide: Callable[[Snapshot], WriteResult[T]], caller: Caller, progress: ImportState) -> T:
    """Return the result of the decision once it is durable. Waits while the queue is full. Raises ImportInterruption
    and the errors of the store."""
    return progress.retry_while_full(lambda: store.transact(decide, by=caller.name, background=True).result().result)


def note_problem(answer: ImportAnswer, place: str, why: str) -> None:
    answer.skipped += 1
    if len(answer.problems) < PROBLEMS_SHOWN:
        answer.problems.append(ImportProblem(place=place, why=why))


def count_name(counts: dict[str, int], name: str, number: int = 1) -> None:
    """One more of this name, where there is room for its name."""
    if name in counts or len(counts) < NAMES_SHOWN:
        counts[name] = counts.get(name, 0) + number


def unknown_export(why: str, first_line: bytes) -> Refusal:
    """400: nothing that can be imported, and what it looks like."""
    looks = printable(first_line[:200].decode(errors="replace").strip())
    return Refusal(400, "unknown_export", f"{why}; it begins with {looks!r}. What can be imported: {KNOWN}")


def unfinished(error: Exception, answer: ImportAnswer) -> Refusal:
    """The reason why an import stopped, and what stays of it."""
    refusal = refusal_of(error) or Refusal(503, "stopping", "it was stopped", retry_after=1)
    changed = answer.stored + answer.updated + answer.restored
    stays = f"{changed} memories were imported before that and stay; importing it again goes on where it stopped"
    undone = f", undoing the group {answer.group} takes them back" if answer.group else ""
    refusal.message = f"{refusal.message}; {stays}{undone}" if answer.group else refusal.message
    return refusal


def _key(item: _ImportedItem) -> object:
    return (item.new.draft.namespace, item.new.draft.user_id, item.new.draft.key)
