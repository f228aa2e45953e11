"""The process behind the page: static files, and requests to /v1 that it passes to the daemon's socket. SPEC 18

The address that the command prints holds a secret in its fragment, which browsers send to nobody. The page exchanges it
for a cookie that no script can read; it is valid once, and for ten minutes. The static files hold nothing of the memory
and need no cookie.
"""

import asyncio
import hashlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import aiohttp
from aiohttp import web

from mnemo_client import loopback
from mnemo_client.cli.doctor.doctor_checks import DoctorCheck
from mnemo_client.cli.editor import NEEDS_TERMINAL, chosen_editor, editor_command
from mnemo_client.errors import UsageError
from mnemo_client.protocol.loopback_rules import shows_token
from mnemo_client.protocol.operations import BULK_BYTES_MAX, OPERATIONS
from mnemo_client.version import VERSION

STATIC = Path(__file__).parent / "static"
CONTENT_TYPES = {
    ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
}  # fmt: skip
SECRETS_MAX = 16  # that were printed and not used yet
SECRET_SECONDS = 10 * 60.0  # an address that nobody opened by then opens nothing
COOKIES_MAX = 64  # browsers that are signed in
COOKIE_SECONDS = 7 * 86_400.0  # without a request, after which a browser has to sign in again
DRAFTS_MAX = 64  # texts that are being edited
DRAFT_CHARS_MAX = 65_536  # more than a memory may have
SESSION_BYTES_MAX = 4096  # of a request that needs no cookie
PIECE_BYTES = 65536
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
PASSED_TO_DAEMON = ("Accept", "Content-Type", "Last-Event-ID", "X-Namespace", "X-Mnemo-Agent")  # the last lowers trust
PASSED_TO_PAGE = ("Content-Type", "Retry-After")
UNREACHABLE = "the daemon is not running; start it with: mnemo up"
READ_ONLY = "this page is read only: `mnemo ui` without --read-only opens one that can write"


Examine = Callable[[bool], Sequence[DoctorCheck]]
"""The checks of `mnemo doctor`; True: also those that take long or write."""


class Credentials:
    """Texts that are accepted for some time, by their digests: at most `count_max`, the oldest give way."""

    def __init__(self, count_max: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._count_max = count_max
        self._seconds = seconds
        self._clock = clock
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def add(self, text: str) -> None:
        self._until[_digest(text)] = self._clock() + self._seconds
        while len(self._until) > self._count_max:
            self._until.popitem(last=False)

    def renew(self, text: str) -> bool:
        """Return whether the text is accepted; its time begins again."""
        is_known = self.take(text)
        if is_known:
            self.add(text)
        return is_known

    def take(self, text: str) -> bool:
        """Return whether the text is accepted; it is not from now on."""
        return self._until.pop(_digest(text), -1.0) > self._clock()


class PageServer:
    """The server of the page on one port. `secret` is what a later `mnemo ui` shows to be given an address."""

    def __init__(
        self, socket_path: Path, port: int, environ: Mapping[str, str], examine: Examine, *, is_read_only: bool = False
    ) -> None:
        self.secret = secrets.token_urlsafe(32)
        self._address = f"http://{loopback.HOST}:{port}"
        self._cookie = f"mnemo_{port}"  # browsers send a cookie of a host to all of its ports
        self._environ = environ
        self._examine = examine
        self._examining = asyncio.Lock()
        self._is_read_only = is_read_only
        self._socket_path = socket_path
        self._session: aiohttp.ClientSession
        self._secrets = Credentials(SECRETS_MAX, SECRET_SECONDS)
        self._cookies = Credentials(COOKIES_MAX, COOKIE_SECONDS)
        self._drafts: OrderedDict[str, str] = OrderedDict()  # by memory; they outlive a reload of the page
        files = {}
        for file in sorted(STATIC.rglob("*")):
            if file.suffix in CONTENT_TYPES:
                data = file.read_bytes()
                etag = f'"{hashlib.blake2b(data, digest_size=12).hexdigest()}"'
                files["/" + file.relative_to(STATIC).as_posix()] = (data, CONTENT_TYPES[file.suffix], etag)
        files["/"] = files.pop("/index.html")
        public = frozenset({*files, "/page/session", "/page/address"})
        self.app = loopback.application(
            port, self._is_signed_in, public=public, headers=HEADERS, body_max=BULK_BYTES_MAX
        )
        self.app.cleanup_ctx.append(self._with_session)
        for path, (data, content_type, etag) in files.items():
            self.app.router.add_get(path, _static_handler(data, content_type, etag))
        self.app.router.add_post("/page/session", self._sign_in)
        self.app.router.add_post("/page/address", self._give_address)
        self.app.router.add_get("/page/info", self._info)
        self.app.router.add_post("/page/open", self._open_note)
        self.app.router.add_get("/page/doctor", self._doctor)
        self.app.router.add_post("/page/doctor", self._doctor)
        self.app.router.add_get("/page/drafts/{id}", self._draft)
        self.app.router.add_post("/page/drafts/{id}", self._keep_draft)
        self.app.router.add_route("*", "/v1/{rest:.*}", self._pass_on)

    def new_address(self) -> str:
        """Return an address that signs one browser in, once."""
        secret = secrets.token_urlsafe(24)
        self._secrets.add(secret)
        return f"{self._address}/#secret={secret}"

    async def _with_session(self, app: web.Application) -> Any:
        async with loopback.unix_session(self._socket_path) as self._session:
            yield

    # Who may

    def _is_signed_in(self, request: web.Request) -> bool:
        """Return whether the request has the cookie, which browsers show to every port of this machine: that of another
        user's server is of no use to it, as the program must be one of this user's."""
        is_of_user = sys.platform != "linux" or loopback.user_of(request.transport) in (None, os.geteuid())
        return is_of_user and self._cookies.renew(request.cookies.get(self._cookie, ""))

    async def _sign_in(self, request: web.Request) -> web.Response:
        if (request.content_length or SESSION_BYTES_MAX + 1) > SESSION_BYTES_MAX:
            return loopback.refusal(413, "too_large", f"send the secret in at most {SESSION_BYTES_MAX} bytes")
        body = await _json_object(request)
        if not self._secrets.take(str(body.get("secret", ""))):
            return loopback.refusal(
                401, "used_secret", "the address was used already, or is too old: run `mnemo ui` for a new one"
            )
        token = secrets.token_urlsafe(32)
        self._cookies.add(token)
        response = web.json_response({})
        response.set_cookie(self._cookie, token, httponly=True, samesite="Strict", path="/")
        return response

    async def _give_address(self, request: web.Request) -> web.Response:
        if not shows_token(request.headers.get("Authorization", ""), self.secret):
            return loopback.refusal(401, "unauthorized", loopback.REFUSED_CREDENTIAL)
        return web.json_response({"address": self.new_address()})

    async def _info(self, request: web.Request) -> web.Response:
        return web.json_response({"read_only": self._is_read_only, "version": VERSION})

    async def _draft(self, request: web.Request) -> web.Response:
        return web.json_response({"text": self._drafts.get(request.match_info["id"])})

    async def _keep_draft(self, request: web.Request) -> web.Response:
        text = (await _json_object(request)).get("text")
        self._drafts.pop(request.match_info["id"], None)
        if isinstance(text, str) and len(text) <= DRAFT_CHARS_MAX:
            self._drafts[request.match_info["id"]] = text
            while len(self._drafts) > DRAFTS_MAX:
                self._drafts.popitem(last=False)
        return web.json_response({})

    async def _doctor(self, request: web.Request) -> web.Response:
        """Answer with the checks of `mnemo doctor`, one run at a time; POST also runs those that take long or write."""
        wants_all = request.method == "POST"
        if wants_all and self._is_read_only:
            return loopback.refusal(403, "read_only", READ_ONLY)
        async with self._examining:
            checks = await asyncio.to_thread(self._examine, wants_all)
        return web.json_response({"checks": [check._asdict() for check in checks], "all": wants_all})

    # The daemon

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        if {"", ".", ".."} & {unquote(part) for part in request.raw_path.partition("?")[0].split("/")[1:]}:
            return loopback.refusal(404, "no_route", "no part of a path may be empty, . or ..")
        if self._is_read_only and not _only_reads(request.method, request.path):
            return loopback.refusal(403, "read_only", READ_ONLY)
        headers = {name: request.headers[name] for name in PASSED_TO_DAEMON if name in request.headers}
        headers |= {"Host": "localhost", "X-Mnemo-Door": "page"}
        body = await request.read() if request.can_read_body else None
        try:
            upstream = await self._session.request(
                request.method, request.url, headers=headers, data=body, allow_redirects=False
            )
        except (aiohttp.ClientError, OSError, TimeoutError):
            return loopback.refusal(503, "unreachable", UNREACHABLE)
        async with upstream:
            response = web.StreamResponse(status=upstream.status, reason=upstream.reason)
            response.headers.update({
                name: upstream.headers[name] for name in PASSED_TO_PAGE if name in upstream.headers
            })  # fmt: skip
            response.headers["Cache-Control"] = "no-store"
            try:
                await response.prepare(request)
                async for piece in upstream.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
            except (aiohttp.ClientError, OSError):
                if request.transport is not None:  # else the page is gone
                    request.transport.abort()  # a cut answer must not look like a whole one
        return response

    # The editor

    async def _open_note(self, request: web.Request) -> web.Response:
        """Open the file of a note at its line, in the user's editor."""
        if self._is_read_only:
            return loopback.refusal(403, "read_only", READ_ONLY)
        memory_id = str((await _json_object(request)).get("id", ""))
        if not memory_id.replace("-", "").isalnum():
            return loopback.refusal(400, "bad_value", "`id` is not the id of a memory")
        try:
            async with self._session.get(f"http://localhost/v1/memories/{memory_id}") as answer:
                memory = await answer.json()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return loopback.refusal(503, "unreachable", UNREACHABLE)
        note = memory.get("note") if answer.status == 200 else None
        if not note or not note.get("path"):
            return loopback.refusal(404, "not_found", "the memory is not a part of a note")
        path = Path(note["path"])
        if not await asyncio.to_thread(path.exists):
            return loopback.refusal(404, "not_found", f"{path} no longer exists")
        words = _opening_command(self._environ, path, int(note["lines"][0]))
        try:
            await asyncio.to_thread(
                subprocess.Popen, words, env=dict(self._environ), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError as failed:
            return loopback.refusal(500, "failed", f"{words[0]!r} cannot be run: {failed.strerror}")
        return web.json_response({"path": str(path)})


def _static_handler(data: bytes, content_type: str, etag: str) -> loopback.Handler:
    async def handle(request: web.Request) -> web.Response:
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=data, content_type=content_type, charset="utf-8", headers=headers)

    return handle


async def _json_object(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read())
    except (ValueError, RecursionError):
        body = None
    return body if isinstance(body, dict) else {}


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=32).digest()


def _only_reads(method: str, path: str) -> bool:
    """Return whether the request changes nothing and hands out no copy of everything."""
    parts = path.split("/")
    for operation in OPERATIONS:
        wanted = operation.path.split("/")
        if operation.method == method and len(wanted) == len(parts) and all(
            name == part or name.startswith("{") for name, part in zip(wanted, parts, strict=True)
        ):  # fmt: skip
            return (method == "GET" and operation.path != "/v1/export") or operation.needed_right == "read"
    return False


def _opening_command(environ: Mapping[str, str], path: Path, line: int) -> list[str]:
    """Return the command that opens the file in a window: the chosen editor unless it needs a terminal, which this
    process has not; then the desktop's own program for the file."""
    try:
        editor = chosen_editor(environ)
    except UsageError:
        editor = []
    if editor and Path(editor[0]).stem.lower() not in NEEDS_TERMINAL:
        return editor_command(editor, path, line)
    return ["open" if sys.platform == "darwin" else "xdg-open", str(path)]
