"""A `mnemo ui` process of its own for a test, and requests to it as a browser or an attacker would send them."""

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.support.running_daemon import RunningDaemon

ANSWER_SECONDS = 30.0


class PageAnswer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class PageProcess:
    """One that has printed its address. `address` has the secret; `cookie` is None before `sign_in`."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address
        self.port = urlsplit(address).port or 0
        self.secret = urlsplit(address).fragment.removeprefix("secret=")
        self.cookie: str | None = None

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> PageAnswer:
        """Send a request, with the cookie if there is one. `headers` come on top; those that are "" are left out."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        sent = {"Host": f"127.0.0.1:{self.port}"}
        if self.cookie:
            sent["Cookie"] = self.cookie
        if body is not None:
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body),
                {name: value for name, value in sent.items() if value},
            )  # fmt: skip
            answer = connection.getresponse()
            return PageAnswer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def sign_in(self) -> None:
        answer = self.ask("POST", "/page/session", {"secret": self.secret})
        assert answer.status == 200, answer
        self.cookie = answer.headers["Set-Cookie"].split(";")[0]


@contextmanager
def served_page(
    daemon: RunningDaemon, *options: str, environ: Mapping[str, str] | None = None
) -> Iterator[PageProcess]:
    """Run `mnemo ui` against the daemon until the end of the context."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mnemo_client.cli.main", "ui", "--no-open", *options],
        env={**daemon.environ, **(environ or {})}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield PageProcess(process, process.stdout.readline().strip())
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(ANSWER_SECONDS)
        assert process.stdout is not None
        process.stdout.close()
