"""HTTP/1.1 over a Unix socket, as much of it as the daemon speaks.

The standard library's own client brings TLS and mail headers along: 40 ms and 7 MB more for every command and every
agent's bridge, of which none is used on a Unix socket. RFC 9112 names the parts that are here.
"""

import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

HEAD_LINE_BYTES_MAX = 65536
HEADERS_MAX = 100
PIECE_BYTES = 65536


class TruncatedAnswerError(ConnectionError):
    """The other side hung up before its answer was whole."""


class MalformedAnswerError(Exception):
    """What came back is not HTTP/1.1."""


class Response:
    """The head of an answer, and its body as it comes in. Header names are in lower case."""

    def __init__(self, connection: "SocketConnection", status: int, reason: str, headers: Mapping[str, str]) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self._connection = connection
        self._ended = False

    @property
    def is_reusable(self) -> bool:
        """Whether another request can follow on the connection: the body was read whole, and its end was marked."""
        marked = self._chunked or "content-length" in self.headers or self.status == 204
        return self._ended and marked and self.headers.get("connection", "").lower() != "close"

    def read(self) -> bytes:
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """The body, piece by piece. Raises ClosedEarly, Garbled, TimeoutError."""
        if self.status == 204:
            pass
        elif self._chunked:
            yield from self._chunks()
        elif "content-length" in self.headers:
            yield from self._exactly(_number(self.headers["content-length"], 10))
        else:
            while piece := self._connection.read(PIECE_BYTES):
                yield piece
        self._ended = True

    def lines(self) -> Iterator[bytes]:
        """The body, line by line, without their ends. Raises ClosedEarly where the last one has none."""
        rest = b""
        for piece in self.pieces():
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole
        if rest:
            raise TruncatedAnswerError("the answer broke off in the middle of a line")

    @property
    def _chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower() == "chunked"

    def _chunks(self) -> Iterator[bytes]:
        while size := _number(self._connection.line().split(";")[0], 16):
            yield from self._exactly(size)
            if self._connection.line():
                raise MalformedAnswerError("a chunk is longer than it says")
        while self._connection.line():
            pass  # trailers, of which the daemon sends none

    def _exactly(self, count: int) -> Iterator[bytes]:
        while count:
            piece = self._connection.read(min(count, PIECE_BYTES))
            if not piece:
                raise TruncatedAnswerError("the connection was closed in the middle of the answer")
            count -= len(piece)
            yield piece


class SocketConnection:
    """One connection to the socket at `path`. Raises OSError where the system does."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(bytes(path))
        except OSError:
            self._socket.close()
            raise
        self._reader = self._socket.makefile("rb")

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def exchange(
        self, method: str, target: str, headers: Mapping[str, bytes], body: bytes | Iterable[bytes] | None
    ) -> Response:
        """Send a request and read the head of its answer. A body in pieces is sent piece by piece."""
        lines = [f"{method} {target} HTTP/1.1".encode(), b"Host: localhost"]
        lines += [name.encode() + b": " + value for name, value in headers.items()]
        whole = body if isinstance(body, bytes) else b""
        if isinstance(body, bytes):
            lines.append(b"Content-Length: %d" % len(body))
        elif body is not None:
            lines.append(b"Transfer-Encoding: chunked")
        try:
            self._socket.sendall(b"\r\n".join([*lines, b"", whole]))
            if body is not None and not isinstance(body, bytes):
                self._send_pieces(body)
        except (BrokenPipeError, ConnectionResetError):
            # A daemon that refuses a body for its size answers and hangs up before it has read it all.
            pass
        response = self._head()
        while response.status == 100:
            response = self._head()
        return response

    def _send_pieces(self, pieces: Iterable[bytes]) -> None:
        """A body in chunks. RFC 9112, 7.1"""
        for piece in pieces:
            if piece:
                self._socket.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        self._socket.sendall(b"0\r\n\r\n")

    def line(self) -> str:
        """The next line of the head, without its end."""
        line = self._reader.readline(HEAD_LINE_BYTES_MAX)
        if not line.endswith(b"\n"):
            if len(line) == HEAD_LINE_BYTES_MAX:
                raise MalformedAnswerError("a header line is too long")
            raise TruncatedAnswerError("the connection was closed before the answer")
        return line.rstrip(b"\r\n").decode("latin-1")

    def read(self, count: int) -> bytes:
        return self._reader.read(count)

    def _head(self) -> Response:
        protocol, _, rest = self.line().partition(" ")
        status, _, reason = rest.partition(" ")
        if not protocol.startswith("HTTP/1.") or len(status) != 3:
            raise MalformedAnswerError("it does not begin as an answer does")
        headers: dict[str, str] = {}
        while line := self.line():
            name, colon, value = line.partition(":")
            if not colon or len(headers) >= HEADERS_MAX:
                raise MalformedAnswerError("its headers cannot be read")
            headers[name.lower()] = value.strip()
        return Response(self, _number(status, 10), reason, headers)


def _number(text: str, base: int) -> int:
    try:
        value = int(text.strip(), base)
    except ValueError as wrong:
        raise MalformedAnswerError(f"{text!r} is no length") from wrong
    if value < 0:
        raise MalformedAnswerError(f"{text!r} is no length")
    return value
