"""The connection of a client to the daemon: one request, its answer, and the errors of both. SPEC 13"""

import errno
import re
import time
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, ParamSpec, Protocol, Self, TypeVar, cast, overload

import msgspec

from mnemo_client.errors import InterruptedAnswerError, InvalidAnswerError, RefusalError, UnreachableError, UsageError
from mnemo_client.http import MalformedAnswerError, Response, SocketConnection
from mnemo_client.protocol.operations import Operation
from mnemo_client.protocol.primitives import API_VERSION

T = TypeVar("T")
P = ParamSpec("P")
A = TypeVar("A", covariant=True)

SourceChannel = Literal["api", "cli", "mcp", "hook", "page"]
Filter = str | int | float | bool | Sequence[str] | None

TIMEOUT_SECONDS = 60.0  # for one answer: enough for a large batch, or for a daemon that is stopping (10 s, SPEC 16)
LONG_TIMEOUT_SECONDS = 3600.0  # for a backup of a large store on a slow disk
# A connection that was idle for longer is replaced before a request that must not be sent twice. The daemon keeps an
# idle connection for longer than this.
IDLE_SECONDS_MAX = 5.0

# Bytes that need no percent-encoding in a path or a query string. RFC 3986, 2.3
_PATH_PART = re.compile(r"\{\w+\}")
UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class ClientConnection:
    """One connection, which stays open between requests; `last_body` holds the bytes of the last answer."""

    def __init__(
        self,
        socket_path: Path | str,
        namespace: str | None = None,
        *,
        entry_point: SourceChannel = "api",
        agent: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self.socket_path = Path(socket_path)
        self.namespace = namespace
        self.entry_point = entry_point
        self.agent = agent
        self.timeout = timeout
        self.last_body = b""
        self._connection: SocketConnection | None = None
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

    def with_long_timeout(self) -> Self:
        """Return this client with a timeout for requests that may take minutes."""
        self.close()
        self.timeout = LONG_TIMEOUT_SECONDS
        return self

    def call(self, method: str, path: str, body: bytes | None = None) -> Iterator[bytes]:
        """Send any request and yield its answer line by line, without line ends. `path` is relative to the version."""
        response = self._send(method, f"/{API_VERSION}{path}", body, self.namespace, repeatable=method == "GET")
        if response.status >= 400:
            self._read_body(response)
        with self._reading(response):
            rest = b""
            for piece in response.pieces():
                *whole, rest = (rest + piece).split(b"\n")
                yield from whole
            if rest:
                yield rest

    # One exchange

    def perform(self, operation: Operation[..., T], request: msgspec.Struct, part: str = "") -> T:
        """Return the answer to a request. `part` replaces the braces of the path."""
        return decode(self.exchange(operation, request, part), operation.answer)

    def exchange(
        self, operation: Operation[..., Any], request: msgspec.Struct, part: str = "", namespace: str | None = None
    ) -> bytes:
        """Return the body of the answer to a request, in this namespace instead of the client's own."""
        if operation.is_long:
            self.with_long_timeout()
        return self._read_body(self._open(operation, request, part, namespace or self.namespace))

    def _open(
        self, operation: Operation[..., Any], request: msgspec.Struct, part: str = "", namespace: str | None = None,
        body: Iterable[bytes] | None = None,
    ) -> Response:  # fmt: skip
        """Send a request and read the head of the answer. With a namespace in the request no header is sent, which
        could contradict it."""
        if getattr(request, "namespace", None) is not None:
            namespace = None
        data: bytes | Iterable[bytes] | None = body
        path = _PATH_PART.sub(percent_encoded(part), operation.path)
        if operation.body is not None:
            data = encode(request)
        elif operation.query is not None:
            path = target_of(path, msgspec.to_builtins(request))
        return self._send(operation.method, path, data, namespace, operation.is_repeatable(request))

    def _send(
        self, method: str, target: str, data: bytes | Iterable[bytes] | None, namespace: str | None, repeatable: bool
    ) -> Response:
        """Send the request and read the head of the answer.

        The daemon may have closed the open connection meanwhile: a repeatable request is sent once more on a new one;
        any other is not sent on a connection that was idle for long.
        """
        if not repeatable and time.monotonic() - self._used_at > IDLE_SECONDS_MAX:
            self.close()
        was_kept = self._connection is not None
        if self._connection is None:
            try:
                self._connection = SocketConnection(self.socket_path, self.timeout)
            except OSError as failed:
                raise UnreachableError(
                    _unreachable_message(self.socket_path, failed), "start it with: mnemo up"
                ) from failed
        connection = self._connection
        try:
            self._used_at = time.monotonic()
            return connection.exchange(method, target, self._headers(data, namespace), data)
        except TimeoutError as late:
            self.close()
            raise _timeout_error(self.timeout) from late
        except MalformedAnswerError as garbled:
            self.close()
            raise InvalidAnswerError(
                f"the process that listens on {self.socket_path} is not a mnemo daemon: {garbled}"
            ) from garbled
        except OSError as broken:
            self.close()
            if was_kept and repeatable:
                return self._send(method, target, data, namespace, repeatable)
            raise InterruptedAnswerError(
                "the connection ended before the daemon answered; the request may or may not have been carried out",
                "see if the daemon runs: mnemo status",
            ) from broken

    def _headers(self, data: bytes | Iterable[bytes] | None, namespace: str | None) -> dict[str, bytes]:
        headers = {"Accept": b"application/json", "X-Mnemo-Door": self.entry_point.encode()}
        if data is not None:
            headers["Content-Type"] = b"application/json" if isinstance(data, bytes) else b"application/octet-stream"
        if namespace is not None:
            headers["X-Namespace"] = _header_value(namespace)
        if self.agent is not None:
            headers["X-Mnemo-Agent"] = _header_value(self.agent)
        return headers

    @contextmanager
    def _reading(
        self,
        response: Response,
        message: str = "the connection ended in the middle of the answer",
        hint: str = "try again",
    ) -> Iterator[None]:
        """Raise the client's own errors for those of reading the body, and drop a connection that cannot be reused."""
        try:
            yield
        except TimeoutError as late:
            raise _timeout_error(self.timeout) from late
        except (MalformedAnswerError, OSError) as broken:
            raise InterruptedAnswerError(message, hint) from broken
        finally:
            if not response.is_reusable:
                self.close()

    def _event_stream(self, response: Response) -> Iterator[tuple[str, bytes]]:
        """Yield the name and data of each server-sent event. Raises RefusalError if the answer is an error."""
        if response.status != 200:
            self._read_body(response)
        with self._reading(response):
            name = ""
            for line in response.lines():
                field, _, value = line.partition(b": ")
                if field == b"event":
                    name = value.decode()
                elif field == b"data":
                    self.last_body = value
                    yield name, value

    def _read_body(self, response: Response) -> bytes:
        """Read and return the whole body. Raises RefusalError if it is an error."""
        with self._reading(response):
            self.last_body = response.read()
        if response.status >= 400:
            raise _refusal_error(response, self.last_body)
        return self.last_body


class BoundCall(Protocol[P, A]):
    """Call an operation with its request, or with the fields of one."""

    @overload
    def __call__(self, request: msgspec.Struct, /) -> A: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> A: ...


class BoundCallOn(Protocol[P, A]):
    """Call an operation on what `part` names in its path."""

    @overload
    def __call__(self, part: str, request: msgspec.Struct, /) -> A: ...
    @overload
    def __call__(self, part: str, /, *args: P.args, **kwargs: P.kwargs) -> A: ...


class AsyncConnection(Protocol):
    """A client whose answers are awaited."""

    async def perform(self, operation: Operation[..., T], request: msgspec.Struct, part: str = "") -> T: ...


class _OperationCall(Generic[P, T]):
    def __init__(self, operation: Operation[P, T]) -> None:
        self.operation = operation


class Call(_OperationCall[P, T]):
    """A method that calls one operation."""

    @overload
    def __get__(self, client: ClientConnection, owner: object = None) -> BoundCall[P, T]: ...
    @overload
    def __get__(self, client: AsyncConnection, owner: object = None) -> BoundCall[P, Awaitable[T]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        return lambda *args, **fields: client.perform(self.operation, request_of(self.operation, *args, **fields))


class CallOn(_OperationCall[P, T]):
    """A method that calls one operation on what its first argument names."""

    @overload
    def __get__(self, client: ClientConnection, owner: object = None) -> BoundCallOn[P, T]: ...
    @overload
    def __get__(self, client: AsyncConnection, owner: object = None) -> BoundCallOn[P, Awaitable[T]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        return lambda part, *args, **fields: client.perform(
            self.operation, request_of(self.operation, *args, **fields), part
        )


def request_of(operation: Operation[..., Any], *args: Any, **fields: Any) -> msgspec.Struct:
    """Return the request that is given as a whole, or the one with these fields."""
    if len(args) == 1 and not fields and isinstance(args[0], cast(type[msgspec.Struct], operation.request)):
        return args[0]
    return operation.request(*args, **fields)


def target_of(route: str, query: Mapping[str, Filter]) -> str:
    """Return the route with its query string."""
    parameters = [f"{name}={percent_encoded(text)}" for name, value in query.items() for text in _query_values(value)]
    return f"{route}?{'&'.join(parameters)}" if parameters else route


def _query_values(value: Filter) -> list[str]:
    """Return the texts of a query parameter: one for each value of a sequence, none for None."""
    if value is None:
        return []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, (str, int, float)):
        return [str(value)]
    return list(value)


def _header_value(text: str) -> bytes:
    """Return a header value as UTF-8. Raises UsageError for text that would end the header line."""
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise UsageError(f"a name cannot have line breaks or control characters: {text!r}")
    return _utf8(text)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as undecoded:
        raise UsageError(f"this is not valid UTF-8 text: {text!a}") from undecoded


def encode(body: Any) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as undecoded:
        raise UsageError("the text is not valid UTF-8") from undecoded


def percent_encoded(text: str) -> str:
    """Return the text percent-encoded for a path or a query string. RFC 3986, 2.1"""
    return "".join(chr(byte) if byte in UNRESERVED else f"%{byte:02X}" for byte in _utf8(text))


def decode(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as unreadable:
        raise InvalidAnswerError(
            f"the daemon's answer cannot be read: {unreadable}",
            "client and daemon may be of different versions; restart the daemon: mnemo down; mnemo up",
        ) from unreadable


def _timeout_error(seconds: float) -> InterruptedAnswerError:
    return InterruptedAnswerError(
        f"the daemon did not answer within {seconds:g} seconds", "see its state: mnemo status"
    )


def _refusal_error(response: Response, body: bytes) -> RefusalError:
    retry_after = response.headers.get("retry-after", "")
    seconds = float(retry_after) if retry_after.isdigit() else None
    try:
        details = msgspec.json.decode(body, type=dict[str, dict[str, Any]])["error"]
    except (msgspec.MsgspecError, KeyError):
        details = {"message": f"the daemon answered {response.status} {response.reason}".rstrip()}
    return RefusalError(response.status, details, seconds)


def _unreachable_message(path: Path, failed: OSError) -> str:
    if failed.errno in (errno.ENOENT, errno.ECONNREFUSED):
        return f"no daemon listens on {path}"
    if failed.errno in (errno.EACCES, errno.EPERM):
        return f"this user may not use the socket {path}"
    return f"the socket {path} does not answer: {failed.strerror or failed}"
