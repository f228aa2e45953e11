"""A running `mnemo serve`, and requests to it as the client of another memory sends them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.support.running_daemon import RunningDaemon


class ServedAnswer(NamedTuple):
    status: int
    value: Any


class ServedMemory(NamedTuple):
    """A server in a process of its own."""

    address: str
    token: str

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, scheme: str = "Bearer"
    ) -> ServedAnswer:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.address + path, data, {"Authorization": f"{scheme} {self.token}", **(headers or {})}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                status, raw = response.status, response.read()
        except urllib.error.HTTPError as refused:
            with refused:
                status, raw = refused.code, refused.read()
        try:
            return ServedAnswer(status, json.loads(raw))
        except ValueError:
            return ServedAnswer(status, raw.decode())

    def value(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer of a request that is granted."""
        answer = self.ask(method, path, body)
        assert answer.status in (200, 201), answer
        return answer.value


@contextlib.contextmanager
def serving(kind: str, daemon: RunningDaemon, namespace: str, *options: str) -> Iterator[ServedMemory]:
    """Run `mnemo serve KIND` until the context ends, which ends it in good order."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mnemo_client.cli.main", "serve", kind, "--namespace", namespace, "--json", *options],
        env={**os.environ, **daemon.environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield ServedMemory(**json.loads(line))
    finally:
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=30)
    assert (process.returncode, out, errors) == (0, "", "")
