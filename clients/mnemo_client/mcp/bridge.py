"""The Model Context Protocol over standard input and output: a bridge from an agent to `POST /mcp` of the daemon.

A message is one line of JSON. The bridge sends it over the daemon's socket and writes the answer as one line; tools,
resources and prompts are the daemon's. It speaks both eras of the protocol: with a handshake (`initialize`, versions
2024-11-05 to 2025-11-25) and stateless (2026-07-28), where each request carries its version in `_meta`.

Each message has a thread and a connection of its own, so that a slow one holds up no other, and the daemon may be
restarted between two. It is started if it does not run. Whatever fails, a request gets an answer: only the end of
standard input ends the bridge."""

import errno
import json
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from mnemo_client import namespace, process
from mnemo_client.errors import MnemoError
from mnemo_client.http import MalformedAnswerError, SocketConnection
from mnemo_client.paths import socket_path

if TYPE_CHECKING:
    from mnemo_client.cli.context import CommandContext

# Codes of JSON-RPC 2.0.
PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32602, -32603

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
LINE_BYTES_MAX = 4 * 1024 * 1024  # the daemon's own limit of a message
MESSAGES_OPEN_MAX = 64
ANSWER_SECONDS = 120.0  # a language model may take part in a recall
LAST_ANSWERS_SECONDS = 10.0  # for messages that are open when standard input ends
# The parameter that a stateless request repeats in its header Mcp-Name, by method.
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

JsonObject = dict[str, Any]


class JsonRpcError(Exception):
    """An error of JSON-RPC, for the request that caused it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self._error = {"code": code, "message": message}

    def answer(self, id: Any) -> bytes:  # noqa: A002 - JSON-RPC's own name
        """Return the error as the answer to the request with this id; None for one that could not be read."""
        return json.dumps({"jsonrpc": "2.0", "id": id, "error": self._error}).encode()


class Bridge:
    """The bridge of one agent: it answers lines with whole lines to `out`."""

    def __init__(
        self, out: BinaryIO, environ: Mapping[str, str], folder: Path, option: str | None,
        seconds: float = ANSWER_SECONDS, tools: str | None = None,
    ) -> None:  # fmt: skip
        """`folder` and `option` choose the namespace. `seconds`: how long the daemon may be silent before an error.
        `tools`: `all` for every tool, or the name of another set; None for those that each agent sees."""
        self._out = out
        self._environ = environ
        self._folder = folder
        self._option = option
        self._seconds = seconds
        self._tools = tools
        self._writing = threading.Lock()
        self._starting = threading.Lock()
        self._open: set[threading.Thread] = set()
        self._session: dict[str, bytes] = {}  # headers for all messages after a handshake: its version and session

    def finish(self) -> None:
        """Wait for the open messages, at most LAST_ANSWERS_SECONDS."""
        deadline = time.monotonic() + LAST_ANSWERS_SECONDS
        for thread in list(self._open):
            thread.join(max(0.0, deadline - time.monotonic()))

    def handle_line(self, line: bytes) -> None:
        """Answer one line, from a thread of its own if it is a message for the daemon."""
        if not line.strip():
            return
        try:
            message = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            self._send(JsonRpcError(PARSE_ERROR, "the line is not JSON").answer(None))
            return
        if isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message):
            return  # an answer, though the daemon sends no requests
        id = message.get("id") if isinstance(message, dict) else None  # noqa: A001 - JSON-RPC's own name
        try:
            if isinstance(message, list):
                raise JsonRpcError(INVALID_REQUEST, "batches are not supported; send one message a line")
            is_whole = isinstance(message, dict) and message.get("jsonrpc") == "2.0"
            if not is_whole or not isinstance(message.get("method"), str):
                raise JsonRpcError(INVALID_REQUEST, 'a message must be an object with "jsonrpc": "2.0" and a "method"')
            if "id" in message and not _is_id(message["id"]):
                raise JsonRpcError(INVALID_REQUEST, "an id must be a string or a whole number")
            if not isinstance(message.get("params", {}), dict):
                raise JsonRpcError(INVALID_PARAMS, "params must be an object")
            self._begin(line, message)
        except JsonRpcError as failure:
            self._send(failure.answer(id if _is_id(id) else None))

    def refuse_long_line(self) -> None:
        self._send(JsonRpcError(INVALID_REQUEST, f"a message is limited to {LINE_BYTES_MAX} bytes").answer(None))

    def _begin(self, line: bytes, message: JsonObject) -> None:
        if message["method"] == "initialize":
            self._carry(line, message)  # not in a thread: all later messages have headers from its answer
            return
        if len(self._open) >= MESSAGES_OPEN_MAX:
            if "id" in message:
                raise JsonRpcError(INTERNAL_ERROR, "too many requests are open; try again in a moment")
            return
        thread = threading.Thread(target=self._carry, args=(line, message), daemon=True)
        self._open.add(thread)
        thread.start()

    def _carry(self, line: bytes, message: JsonObject) -> None:
        """Send a message to the daemon and write its answer; that of a notification is not for the agent."""
        id = message.get("id")  # noqa: A001 - JSON-RPC's own name
        try:
            answer = self._answer(line, message)
        except JsonRpcError as refused:
            answer = refused.answer(id)
        except MnemoError as error:
            reason = f"{error.message} ({error.hint})" if error.hint else error.message
            answer = JsonRpcError(INTERNAL_ERROR, reason).answer(id)
        except OSError as failed:
            answer = JsonRpcError(INTERNAL_ERROR, f"the operating system reports: {failed}").answer(id)
        except Exception as bug:  # noqa: BLE001 - a bug in one message must not leave its request without an answer
            _log_message(f"mnemo: {type(bug).__name__} in a message: {bug}")
            answer = JsonRpcError(INTERNAL_ERROR, f"a bug in the bridge: {type(bug).__name__}").answer(id)
        try:
            if "id" in message:
                self._send(answer)
        except (BrokenPipeError, ValueError):  # ValueError: the output is closed
            pass  # the agent has ended, which the reading thread notices too
        finally:
            self._open.discard(threading.current_thread())

    def _answer(self, line: bytes, message: JsonObject) -> bytes:
        """Return the daemon's answer to a message. Raises JsonRpcError, MnemoError or OSError."""
        method = message["method"]
        status, headers, body = self._exchange(line, self._headers(message), is_repeatable=method != "tools/call")
        if "id" not in message:
            return b""
        answer = _decoded(body)
        if "jsonrpc" not in answer:
            raise JsonRpcError(INTERNAL_ERROR, _refusal_text(status, answer))
        if method == "initialize":
            result = answer.get("result")  # with what the headers of all later messages say
            version = result.get("protocolVersion") if isinstance(result, dict) else None
            given = {"MCP-Protocol-Version": version, "Mcp-Session-Id": headers.get("mcp-session-id")}
            self._session = {name: _header_value(value) for name, value in given.items() if isinstance(value, str)}
        if answer.get("id") != message["id"]:  # the daemon refused the message before it read the id
            return json.dumps({**answer, "id": message["id"]}).encode()
        return body

    def _headers(self, message: JsonObject) -> dict[str, bytes]:
        chosen = namespace.choose_namespace(self._option, self._folder, self._environ)
        headers = {
            "Content-Type": b"application/json",
            "Accept": b"application/json, text/event-stream",
            "Connection": b"close",
            "X-Namespace": chosen.name.encode(),
            **({"X-Mnemo-Tools": self._tools.encode()} if self._tools else {}),
        }
        method, params = message["method"], message.get("params", {})
        meta = params.get("_meta")
        if not isinstance(meta, dict) or VERSION_KEY not in meta:
            return {**headers, **self._session}
        version = meta[VERSION_KEY]
        if not isinstance(version, str):
            raise JsonRpcError(INVALID_PARAMS, f"params._meta: {VERSION_KEY} must be a string")
        headers |= {"MCP-Protocol-Version": _header_value(version), "Mcp-Method": _header_value(method)}
        named = params.get(NAMED_BY.get(method, ""))
        return {**headers, "Mcp-Name": _header_value(named)} if isinstance(named, str) else headers

    # The daemon

    def _exchange(
        self, line: bytes, headers: Mapping[str, bytes], *, is_repeatable: bool
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body of the daemon's answer; start the daemon if it does not run."""
        connection = self._connect()
        try:
            response = connection.exchange("POST", "/mcp", headers, line)
            return response.status, response.headers, response.read()
        except TimeoutError:
            message = f"the daemon did not answer within {self._seconds:g} seconds; see its state: mnemo status"
            raise JsonRpcError(INTERNAL_ERROR, message) from None
        except MalformedAnswerError as garbled:
            message = f"the process that listens on {socket_path(self._environ)} is not a mnemo daemon: {garbled}"
            raise JsonRpcError(INTERNAL_ERROR, message) from None
        except OSError:
            if is_repeatable:
                return self._exchange(line, headers, is_repeatable=False)
            message = "the connection ended before the daemon answered; the call may or may not have been carried out"
            raise JsonRpcError(INTERNAL_ERROR, message) from None
        finally:
            connection.close()

    def _connect(self) -> SocketConnection:
        path = socket_path(self._environ)
        try:
            return SocketConnection(path, self._seconds)
        except OSError as failed:
            if failed.errno not in (errno.ENOENT, errno.ECONNREFUSED):
                raise
        with self._starting:
            process.ensure_running(self._environ, _log_message)
        return SocketConnection(path, self._seconds)

    # Standard output

    def _send(self, message: bytes) -> None:
        line = message.replace(b"\r", b" ").replace(b"\n", b" ")
        with self._writing:
            self._out.write(line + b"\n")
            self._out.flush()


def _decoded(body: bytes) -> JsonObject:
    """Return the JSON object of an answer; an empty one if it is not an object."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _refusal_text(status: int, answer: JsonObject) -> str:
    """Return the reason of an answer that is not JSON-RPC: the message of an error of the daemon, or the status."""
    error = answer.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else f"the daemon answered with the HTTP status {status} and no message"


def _header_value(text: str) -> bytes:
    """Return the text as the value of a header, encoded as the protocol demands unless it is plain ASCII."""
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?base64?"):
        return text.encode()
    import base64

    return b"=?base64?" + base64.b64encode(text.encode(errors="replace")) + b"?="


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _is_id(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _log_message(text: str) -> None:
    """Write a message to standard error: standard output belongs to the agent."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def run(context: "CommandContext") -> int:
    options = context.options
    out = sys.stdout.buffer
    tools = options.tools or ("all" if options.all_tools else None)
    return serve(sys.stdin.buffer, out, context.environ, context.cwd, options.namespace, tools)


def serve(
    lines: BinaryIO, out: BinaryIO, environ: Mapping[str, str], folder: Path, option: str | None = None,
    tools: str | None = None,
) -> int:  # fmt: skip
    """Answer every line until standard input ends; return 0.

    `option` is the namespace of the command; without it, `folder`, the agent's working directory, determines one.
    `tools` are those that the agent sees.
    """
    bridge = Bridge(out, environ, folder, option, tools=tools)
    try:
        while line := lines.readline(LINE_BYTES_MAX):
            if len(line) == LINE_BYTES_MAX and not line.endswith(b"\n"):
                while (rest := lines.readline(LINE_BYTES_MAX)) and not rest.endswith(b"\n"):
                    pass
                bridge.refuse_long_line()
            else:
                bridge.handle_line(line)
        bridge.finish()
    except BrokenPipeError:
        pass  # the agent ended without closing its input
    return 0
