"""A client of the daemon: one method a route, typed values in and out. SPEC 13.

    with Client(socket_path(os.environ)) as client:
        client.remember("The spare key is with Ines.", tags=["home"])
        for memory in client.recall("who has the key?").memories: ...

One connection, kept open between requests; use one Client a thread. `last_body` holds the bytes of the last answer as
the daemon sent them, for those who want to hand them on unread.
"""

import errno
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import msgspec

from mnemo_client import care_protocol, protocol, recall_protocol
from mnemo_client.errors import BadAnswer, BadUsage, Interrupted, Refused, Unreachable
from mnemo_client.wire import Connection, Garbled, Response

T = TypeVar("T")

Door = Literal["api", "cli", "mcp"]
Filter = str | int | float | bool | Sequence[str] | None

TIMEOUT_SECONDS = 60.0  # for one answer; a daemon that stops (10 s, SPEC 16) or a long batch fits in it
PATIENT_SECONDS = 3600.0  # for a backup of a large store on a slow disk
# A connection idle for longer is opened anew before a request that must not be sent twice. The daemon keeps an idle
# one for longer than this.
IDLE_SECONDS_MAX = 5.0

# What needs no quoting in a path or a query string. RFC 3986, 2.3
UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

# Requests that change nothing, or the same thing however often they are sent, besides GET.
REPEATABLE = frozenset({"/recall", "/why", "/context", "/models/use", "/notes/roots", "/notes/rescan"})


class Client:
    """Asks the daemon behind `socket_path`.

    `namespace` goes with every request that names none itself. `door` tells the daemon what speaks, and so whose word
    a memory is (SPEC 2.1, trust); `agent` names the program on whose behalf, where it is not a person.

    Raises Unreachable when nobody listens, Refused for the daemon's own errors, Interrupted when it went away before
    it answered, BadAnswer when what answers is no daemon of this kind.
    """

    def __init__(
        self,
        socket_path: Path | str,
        namespace: str | None = None,
        *,
        door: Door = "api",
        agent: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self.socket_path = Path(socket_path)
        self.namespace = namespace
        self.door = door
        self.agent = agent
        self.timeout = timeout
        self.last_body = b""
        self._connection: Connection | None = None
        self._used_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def patiently(self) -> Self:
        """Waits for what may take minutes."""
        self.close()
        self.timeout = PATIENT_SECONDS
        return self

    # Memories

    def remember(self, memory: str | protocol.NewMemory, **fields: Any) -> protocol.Remembered:
        """Keep one memory. `fields` are those of NewMemory; with a `key` it can safely be repeated."""
        asked = protocol.NewMemory(content=memory, **fields) if isinstance(memory, str) else memory
        return self._ask("POST", "/memories", protocol.Remembered, asked, repeatable=asked.key is not None)

    def remember_many(
        self, memories: Sequence[protocol.NewMemory], namespace: str | None = None
    ) -> list[protocol.Remembered | protocol.Failure]:
        """Keep up to 1,000; the outcome of each, in order."""
        raw = [msgspec.Raw(_encode(memory)) for memory in memories]
        asked = protocol.NewMemories(memories=raw, namespace=namespace)
        keyed = all(memory.key is not None for memory in memories)
        answer = self._ask("POST", "/memories/batch", _BatchAnswer, asked, repeatable=keyed)
        return [_outcome(result) for result in answer.results]

    def ingest(self, text: str | protocol.IngestRequest, **fields: Any) -> protocol.TakenAnswer:
        """Keep a text, piece by piece; what became of each. `fields` are those of IngestRequest."""
        asked = protocol.IngestRequest(text=text, **fields) if isinstance(text, str) else text
        return _taken(self._ask("POST", "/ingest", _TakenAnswer, asked))

    def turns(self, asked: protocol.TurnsRequest) -> protocol.TakenAnswer:
        """Keep what was said in a conversation; what became of each turn."""
        return _taken(self._ask("POST", "/turns", _TakenAnswer, asked))

    def reclassify(self, asked: protocol.ReclassifyRequest) -> protocol.ReclassifyAnswer:
        """Route and score anew what a rule did; with `dry_run` only say what would change."""
        return self._ask("POST", "/reclassify", protocol.ReclassifyAnswer, asked)

    def get(self, id: str, as_of: int | str | None = None) -> protocol.MemoryView:  # noqa: A002 - the field's own name
        """One memory, by its whole id or 8 or more hex digits of its start or end; as it was at a time, where named."""
        return self._ask("GET", f"/memories/{_quoted(id)}", protocol.MemoryView, query={"as_of": as_of})

    def list_memories(
        self, *, limit: int | None = None, cursor: str | None = None, namespace: str | None = None, **filters: Filter
    ) -> protocol.MemoryPage:
        """A page of memories; `cursor` of the last page leads to the next."""
        query = {"limit": limit, "cursor": cursor, **filters}
        return self._ask("GET", "/memories", protocol.MemoryPage, query=query, namespace=namespace)

    def patch(self, id: str, change: protocol.Patch) -> protocol.MemoryView:  # noqa: A002
        return self._ask("PATCH", f"/memories/{_quoted(id)}", protocol.MemoryView, change)

    def delete(self, id: str, why: str | None = None) -> protocol.Deleted:  # noqa: A002
        """Move one to the trash, with the reason where there is one."""
        return self._ask("DELETE", f"/memories/{_quoted(id)}", protocol.Deleted, query={"why": why})

    def delete_many(
        self, *, confirm: bool = False, namespace: str | None = None, **filters: Filter
    ) -> protocol.DeletedMany:
        """Move to the trash what the filters name; without `confirm` only say what that would be."""
        query = {**filters, "confirm": confirm or None}
        return self._ask("DELETE", "/memories", protocol.DeletedMany, query=query, namespace=namespace)

    def delete_ids(self, ids: Sequence[str]) -> protocol.DeletedMany:
        """Move these to the trash in one change: all of them, or none where one is not there."""
        return self._ask("DELETE", "/memories", protocol.DeletedMany, query={"id": ids, "confirm": True})

    def trash(
        self,
        *,
        set_aside: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
        namespace: str | None = None,
    ) -> protocol.TrashPage:
        """What was deleted; with `set_aside`, what a door set aside instead."""
        query = {"set_aside": set_aside or None, "limit": limit, "cursor": cursor}
        return self._ask("GET", "/trash", protocol.TrashPage, query=query, namespace=namespace)  # fmt: skip

    def empty_trash(self, *, confirm: bool = False, namespace: str | None = None) -> care_protocol.EmptiedTrash:
        """Drop what is in the trash for good; without `confirm` only say what that would be."""
        query = {"confirm": confirm or None}
        return self._ask("DELETE", "/trash", care_protocol.EmptiedTrash, query=query, namespace=namespace)

    def purge(
        self,
        id: str,  # noqa: A002 - the field's own name
        *,
        dry_run: bool = False,
        quoting: bool = False,
        everywhere: bool = False,
    ) -> care_protocol.Purged:
        """Forget one memory, every trace of it, and what was derived from it."""
        asked = care_protocol.PurgeOneRequest(dry_run=dry_run, quoting=quoting, everywhere=everywhere)
        return self.patiently()._ask("POST", f"/memories/{_quoted(id)}/purge", care_protocol.Purged, asked)

    def purge_many(
        self,
        ids: Sequence[str] = (),
        *,
        filter: care_protocol.PurgeFilter | None = None,  # noqa: A002 - the field's own name
        dry_run: bool = False,
        quoting: bool = False,
        everywhere: bool = False,
    ) -> care_protocol.Purged:
        """Forget these, or all that pass the filter; `quoting`: and what says the same as one of them; `everywhere`:
        out of the backups too."""
        asked = care_protocol.PurgeRequest(
            ids=list(ids), filter=filter, dry_run=dry_run, quoting=quoting, everywhere=everywhere
        )
        named = filter.namespace if filter is not None else None
        return self.patiently()._ask("POST", "/purge", care_protocol.Purged, asked, namespace=named)

    def restore(self, id: str) -> protocol.MemoryView:  # noqa: A002
        """Bring one back from the trash."""
        return self._ask("POST", f"/trash/{_quoted(id)}/restore", protocol.MemoryView)

    def history(self, id: str, *, limit: int | None = None, cursor: str | None = None) -> protocol.Versions:  # noqa: A002
        """Its versions, the newest first."""
        query = {"limit": limit, "cursor": cursor}
        return self._ask("GET", f"/memories/{_quoted(id)}/history", protocol.Versions, query=query)

    def diff(
        self,
        since: int | str,
        *,
        until: int | str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        namespace: str | None = None,
    ) -> protocol.DiffAnswer:
        """What became of each memory since a time or `seq:N`."""
        query = {"since": since, "until": until, "limit": limit, "cursor": cursor}
        return self._ask("GET", "/diff", protocol.DiffAnswer, query=query, namespace=namespace)

    def undo(self, seq: int | None = None, group: str | None = None, *, dry_run: bool = False) -> protocol.Undone:
        """Take back the last change, or the one named."""
        asked = protocol.UndoRequest(seq=seq, group=group, dry_run=dry_run)
        return self._ask("POST", "/undo", protocol.Undone, asked, repeatable=dry_run)

    # Answers

    def recall(self, query: str | recall_protocol.RecallRequest, **fields: Any) -> recall_protocol.RecallAnswer:
        """What is known about `query`, best first. `fields` are those of RecallRequest."""
        asked = recall_protocol.RecallRequest(query=query, **fields) if isinstance(query, str) else query
        return self._ask("POST", "/recall", recall_protocol.RecallAnswer, asked)

    def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        highlight: bool = False,
        namespace: str | None = None,
        **filters: Filter,
    ) -> recall_protocol.SearchAnswer:
        """By words only."""
        asked = {"q": query, "limit": limit, "highlight": highlight or None, **filters}
        return self._ask("GET", "/search", recall_protocol.SearchAnswer, query=asked, namespace=namespace)

    def recent(
        self, *, limit: int | None = None, namespace: str | None = None, **filters: Filter
    ) -> recall_protocol.SearchAnswer:
        """Newest first."""
        query = {"limit": limit, **filters}
        return self._ask("GET", "/recent", recall_protocol.SearchAnswer, query=query, namespace=namespace)

    def tags(self, namespace: str | None = None) -> protocol.TagsAnswer:
        """How many memories of the namespace have each tag."""
        return self._ask("GET", "/tags", protocol.TagsAnswer, namespace=namespace)

    def why(self, id: str, query: str, **fields: Any) -> recall_protocol.WhyAnswer:  # noqa: A002
        """Why a memory is, or is not, among the answers to `query`. `fields` are those of RecallRequest."""
        asked = recall_protocol.WhyRequest(id=id, query=query, **fields)
        return self._ask("POST", "/why", recall_protocol.WhyAnswer, asked)

    def context(self, query: str | recall_protocol.ContextRequest, **fields: Any) -> recall_protocol.ContextAnswer:
        """The `<memory>` block to put before a prompt; empty when nothing is known."""
        asked = recall_protocol.ContextRequest(query=query, **fields) if isinstance(query, str) else query
        return self._ask("POST", "/context", recall_protocol.ContextAnswer, asked)

    # The daemon and its parts

    def health(self) -> protocol.Health:
        return self._ask("GET", "/health", protocol.Health)

    def status(self) -> protocol.Status:
        return self._ask("GET", "/status", protocol.Status)

    def back_up(self, folder: Path | str | None = None) -> care_protocol.BackupAnswer:
        """A copy of the whole store, in a folder that is new or empty, or in the data folder's `backups`."""
        asked = care_protocol.BackupRequest(folder=None if folder is None else str(folder))
        return self.patiently()._ask("POST", "/backup", care_protocol.BackupAnswer, asked)

    def compact(self, *, dry_run: bool = False) -> care_protocol.CompactAnswer:
        """Gives up the history that `history.keep` does not ask for, and the room it took."""
        asked = care_protocol.CompactRequest(dry_run=dry_run)
        return self.patiently()._ask("POST", "/compact", care_protocol.CompactAnswer, asked)

    def check(self) -> care_protocol.CheckAnswer:
        """Whether everything the daemon keeps is as it should be."""
        return self.patiently()._ask("POST", "/check", care_protocol.CheckAnswer, {}, repeatable=True)

    def repair(self, *, dry_run: bool = False) -> care_protocol.RepairAnswer:
        """Mends what can be mended; deletes nothing."""
        asked = care_protocol.RepairRequest(dry_run=dry_run)
        return self.patiently()._ask("POST", "/repair", care_protocol.RepairAnswer, asked, repeatable=dry_run)

    def config(self) -> protocol.ConfigAnswer:
        return self._ask("GET", "/config", protocol.ConfigAnswer)

    def shutdown(self) -> int:
        """Ask the daemon to stop; its process id. It answers first and stops then."""
        return self._ask("POST", "/shutdown", _Stopping, {}).pid

    def models(self) -> protocol.ModelsAnswer:
        return self._ask("GET", "/models", protocol.ModelsAnswer)

    def use_model(self, name: str) -> protocol.ModelsAnswer:
        return self._ask("POST", "/models/use", protocol.ModelsAnswer, protocol.UseModel(name=name))

    def reindex(
        self, *, dry_run: bool = False, force: bool = False, batch_size: int | None = None
    ) -> protocol.ReindexAnswer:
        asked = protocol.ReindexRequest(dry_run=dry_run, force=force)
        if batch_size is not None:
            asked.batch_size = batch_size
        return self._ask("POST", "/models/reindex", protocol.ReindexAnswer, asked, repeatable=True)

    def notes_status(self) -> protocol.NotesStatus:
        return self._ask("GET", "/notes/status", protocol.NotesStatus)

    def notes_roots(self) -> list[protocol.NotesRootStatus]:
        return self._ask("GET", "/notes/roots", protocol.NotesStatus).roots

    def add_root(self, path: Path | str, namespace: str | None = None) -> protocol.NotesRootStatus:
        """Watch a folder of notes."""
        asked = protocol.NewRoot(path=str(path), namespace=namespace)
        return self._ask("POST", "/notes/roots", protocol.NotesRootStatus, asked)

    def remove_root(self, id: str) -> protocol.DeletedMany:  # noqa: A002 - the field's own name
        """No longer watch the folder of that id; its memories go to the trash, its files are not touched."""
        return self._ask("DELETE", "/notes/roots", protocol.DeletedMany, query={"id": id})

    def rescan(self) -> protocol.NotesStatus:
        """Look through every watched folder now."""
        return self._ask("POST", "/notes/rescan", protocol.NotesStatus, {})

    def export(self, namespace: str | None = None, *, history: bool = True, vectors: bool = False) -> Iterator[bytes]:
        """Everything, or all of one namespace, one JSON value a line, as it comes in.

        The client's own namespace does not narrow it. Raises Interrupted when it ends too early.
        """
        flags = {"history": None if history else False, "vectors": vectors or None}
        response = self._send("GET", _target("/export", flags), None, namespace, repeatable=True)
        if response.status != 200:
            self._finish(response)
        try:
            yield from response.lines()
        except (Garbled, OSError) as broken:
            raise Interrupted("the daemon went away in the middle of the export", "run it again") from broken
        finally:
            if not response.keeps_open:
                self.close()

    def import_from(
        self,
        pieces: Iterable[bytes],
        *,
        tool: protocol.ImportTool | None = None,
        namespace: str | None = None,
        user_id: str | None = None,
        allow_forgotten: bool = False,
        dry_run: bool = False,
        watch: Callable[[int, int], None] = lambda done, of: None,
    ) -> care_protocol.Imported:
        """Take in an export, ours or another tool's, from its bytes; everything into one namespace where it is named.

        The client's own namespace does not count. `watch` hears how much is done, of how much, where it takes long.
        Raises Interrupted when the daemon goes away: what was taken in by then stays, and can be taken in again.
        """
        flags = {"from": tool, "user_id": user_id, "allow_forgotten": allow_forgotten or None}
        try:
            response = self._send(
                "POST", _target("/import", {**flags, "dry_run": dry_run or None}), pieces, namespace, repeatable=False
            )
            if response.status != 200:
                self._finish(response)
            for line in response.lines():
                self.last_body = line
                peek = _decode(line, _Peek)
                if peek.error is not None:
                    raise Refused(503, peek.error)
                if peek.progress is not None:
                    watch(*peek.progress)
        except (Garbled, OSError) as broken:
            raise Interrupted("the daemon went away in the middle of the import", "import it again") from broken
        finally:
            self.close()
        return _decode(self.last_body, care_protocol.Imported)

    def call(self, method: str, path: str, body: bytes | None = None) -> Iterator[bytes]:
        """Send any request, and yield its answer line by line, without line ends. `path` stands below the version."""
        response = self._send(method, path, body, self.namespace, repeatable=method == "GET")
        if response.status >= 400:
            self._finish(response)
        try:
            rest = b""
            for piece in response.pieces():
                *whole, rest = (rest + piece).split(b"\n")
                yield from whole
            if rest:
                yield rest
        except (Garbled, OSError) as broken:
            raise Interrupted("the daemon went away in the middle of its answer", "try again") from broken
        finally:
            if not response.keeps_open:
                self.close()

    # One exchange

    def _ask(
        self,
        method: str,
        route: str,
        kind: type[T],
        body: Any = None,
        *,
        query: Mapping[str, Filter] | None = None,
        namespace: str | None = None,
        repeatable: bool = False,
    ) -> T:
        """Send, read and decode. A namespace in the body needs no header beside it, which it might contradict."""
        if getattr(body, "namespace", None) is None:
            namespace = namespace or self.namespace
        target = _target(route, query or {})
        data = None if body is None else _encode(body)
        repeatable = repeatable or method in ("GET", "DELETE") or route in REPEATABLE
        response = self._send(method, target, data, namespace, repeatable)
        return _decode(self._finish(response), kind)

    def _send(
        self, method: str, target: str, data: bytes | Iterable[bytes] | None, namespace: str | None, repeatable: bool
    ) -> Response:
        """Send the request and read the head of the answer.

        A kept connection may have been closed by the daemon meanwhile: what can be repeated is sent once more on a
        new one; what cannot is not sent on a connection that has been idle for long.
        """
        if not repeatable and time.monotonic() - self._used_at > IDLE_SECONDS_MAX:
            self.close()
        was_kept = self._connection is not None
        connection = self._connect()
        try:
            self._used_at = time.monotonic()
            return connection.exchange(method, f"/{protocol.API_VERSION}{target}", self._headers(data, namespace), data)
        except TimeoutError as late:
            self.close()
            raise _too_late(self.timeout) from late
        except Garbled as garbled:
            self.close()
            raise BadAnswer(f"what listens on {self.socket_path} is no daemon of this kind: {garbled}") from garbled
        except OSError as broken:
            self.close()
            if was_kept and repeatable:
                return self._send(method, target, data, namespace, repeatable)
            raise Interrupted(
                "the daemon went away before it answered; it may or may not have done what was asked",
                "look whether it runs: mnemo status",
            ) from broken

    def _headers(self, data: bytes | Iterable[bytes] | None, namespace: str | None) -> dict[str, bytes]:
        headers = {"Accept": b"application/json", "X-Mnemo-Door": self.door.encode()}
        if data is not None:
            headers["Content-Type"] = b"application/json" if isinstance(data, bytes) else b"application/octet-stream"
        if namespace is not None:
            headers["X-Namespace"] = _header(namespace)
        if self.agent is not None:
            headers["X-Mnemo-Agent"] = _header(self.agent)
        return headers

    def _connect(self) -> Connection:
        if self._connection is None:
            try:
                self._connection = Connection(self.socket_path, self.timeout)
            except OSError as failed:
                raise Unreachable(_why_unreachable(self.socket_path, failed), "start it with: mnemo up") from failed
        return self._connection

    def _finish(self, response: Response) -> bytes:
        """The whole body; raises Refused where the daemon says so."""
        try:
            self.last_body = response.read()
        except TimeoutError as late:
            raise _too_late(self.timeout) from late
        except (Garbled, OSError) as broken:
            raise Interrupted("the daemon went away in the middle of its answer", "try again") from broken
        finally:
            if not response.keeps_open:
                self.close()
        if response.status >= 400:
            raise _refusal(response, self.last_body)
        return self.last_body


class _Stopping(protocol.Answer):
    pid: int


class _BatchAnswer(protocol.Answer):
    """As protocol.BatchAnswer, each result still to be told apart."""

    results: list[msgspec.Raw]


class _TakenAnswer(protocol.TakenAnswer):
    """As protocol.TakenAnswer, each result still to be told apart."""

    results: list[msgspec.Raw]  # type: ignore[assignment]


class _Peek(protocol.Answer):
    error: dict[str, Any] | None = None
    progress: tuple[int, int] | None = None


def _outcome(result: msgspec.Raw) -> protocol.Remembered | protocol.Failure:
    if _decode(result, _Peek).error is not None:
        return _decode(result, protocol.Failure)
    return _decode(result, protocol.Remembered)


def _taken(answer: _TakenAnswer) -> protocol.TakenAnswer:
    """The answer with every result decoded that is no Failure."""
    results: list[Any] = [
        each if _decode(each, _Peek).error is not None else _decode(each, protocol.Taken) for each in answer.results
    ]
    return protocol.TakenAnswer(**{**msgspec.structs.asdict(answer), "results": results})


def _target(route: str, query: Mapping[str, Filter]) -> str:
    """The route with its query string."""
    parameters = [f"{name}={_quoted(text)}" for name, value in query.items() for text in _texts(value)]
    return f"{route}?{'&'.join(parameters)}" if parameters else route


def _texts(value: Filter) -> list[str]:
    """A value of the query string; a sequence is the same name several times over, None none at all."""
    if value is None:
        return []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, (str, int, float)):
        return [str(value)]
    return list(value)


def _header(text: str) -> bytes:
    """Header values travel as UTF-8; what would end the header line is refused."""
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise BadUsage(f"a name may not hold line breaks or control characters: {text!r}")
    return _utf8(text)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as undecoded:
        raise BadUsage(f"this is not valid UTF-8 text: {text!a}") from undecoded


def _encode(body: Any) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as undecoded:
        raise BadUsage("the text is not valid UTF-8") from undecoded


def _quoted(text: str) -> str:
    """The text as it may stand in a path or a query string (RFC 3986, 2.1)."""
    return "".join(chr(byte) if byte in UNRESERVED else f"%{byte:02X}" for byte in _utf8(text))


def _decode(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as unreadable:
        raise BadAnswer(
            f"the daemon's answer cannot be read: {unreadable}", "client and daemon may be of different versions"
        ) from unreadable


def _too_late(seconds: float) -> Interrupted:
    return Interrupted(f"the daemon did not answer within {seconds:g} seconds", "look at it with: mnemo status")


def _refusal(response: Response, body: bytes) -> Refused:
    retry_after = response.headers.get("retry-after", "")
    seconds = float(retry_after) if retry_after.isdigit() else None
    try:
        details = msgspec.json.decode(body, type=dict[str, dict[str, Any]])["error"]
    except (msgspec.MsgspecError, KeyError):
        details = {"message": f"the daemon answered {response.status} {response.reason}".rstrip()}
    return Refused(response.status, details, seconds)


def _why_unreachable(path: Path, failed: OSError) -> str:
    if failed.errno in (errno.ENOENT, errno.ECONNREFUSED):
        return f"no daemon listens on {path}"
    if failed.errno in (errno.EACCES, errno.EPERM):
        return f"this user may not use the socket {path}"
    return f"the socket {path} does not answer: {failed.strerror or failed}"
