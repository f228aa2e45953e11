"""The environment in which the clients of editors are tested: a home, notes, projects, and a server that misbehaves.

The cases are written in the editor's own language, next to the client; one process of the editor runs all cases of a
kind: `live` (a real daemon), `restart` (the same, ended and started again), `faults` (prepared answers) and
`transcripts` (those of tests/support/golden_transcripts.py). It gets the places that it needs as JSON in MNEMO_TEST.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mnemo_client import process
from mnemo_client.errors import UsageError
from mnemo_client.namespace import choose_namespace
from tests.support.running_daemon import RunningDaemon
from tests.support.stub_daemon import StubAnswer, StubDaemon, StubRequest, recall_answer, recalled, refusal

SECONDS_MAX = 120  # for all cases of a kind, which take two; the machine may be busy
BIG_TEXT = "Größe 🚀 " * 100_000  # over 1 MB in UTF-8
GARDEN = """# Garden

The garden is behind the house.

## Trees

The ladder is in the shed.
Prune the apple trees in late February.
"""
# .mnemo.toml by folder; None: the top of a git work tree
PROJECTS = {
    "boat": 'namespace = "boat"\n',
    "commented": "# a comment\nnamespace = 'the boat'   # another\n[other]\nnamespace = \"no\"\n",
    "unicode": 'namespace = "größe 日本"\n',
    "tree": None,
    "庭" * 70: None,  # of which the first 64 characters count, each two columns wide
    "unnamed": 'name = "boat"\n',
    "long": f'namespace = "{"x" * 65}"\n',
}


class EditorHome:
    """The home of a user of an editor: a client of the daemon, or of a server, on `socket`."""

    def __init__(self, folder: Path, socket: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.garden = folder / "notes größe" / "apple trees.md"
        self.garden.parent.mkdir(parents=True)
        self.garden.write_text(GARDEN)
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        self.script(bin_folder / "mnemo", f'exec "{sys.executable}" -m mnemo_client.cli.main "$@"')
        self.script(bin_folder / "broken", 'echo >>"$HOME/starts"; echo "it is broken" >&2; exit 1')
        kept = {name: value for name, value in environ.items() if not name.startswith("XDG_")}
        self.environ = {**kept, "HOME": str(folder), "PATH": f"{bin_folder}:{os.environ['PATH']}", "TERM": "dumb",
                        "MNEMO_SOCKET": str(socket), "MNEMO_CLIENT_PROJECT_NAMESPACES": "true"}  # fmt: skip
        self.places: dict[str, Any] = {
            "home": str(folder), "garden": str(self.garden), "no_socket": str(folder / "none.sock"),
            "starts": str(folder / "starts"), "broken": str(bin_folder / "broken"),
            "namespaces": self._make_projects(), "project": str(folder / "boat" / "src" / "sail.txt"),
        }  # fmt: skip
        source = folder / "boat" / "src" / "sail.txt"
        source.write_text('one\ntwo\nThe jib is größer \\ "than" 日本語 🚀\nthe spinnaker.\nfive\n')

    def script(self, path: Path, line: str) -> None:
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def _make_projects(self) -> dict[str, str | None]:
        """Return by folder the namespace that the command line chooses there, or None if it refuses."""
        chosen: dict[str, str | None] = {}
        for name, text in PROJECTS.items():
            folder = self.folder / name / "src"
            folder.mkdir(parents=True)
            if text is None:
                (folder.parent / ".git").mkdir()
            else:
                (folder.parent / ".mnemo.toml").write_text(text)
            try:
                chosen[str(folder)] = choose_namespace(None, folder, self.environ).name
            except UsageError:
                chosen[str(folder)] = None
        chosen[str(self.folder)] = choose_namespace(None, self.folder, self.environ).name
        return chosen

    def run(self, command: Sequence[str], kind: str, **environ: str) -> None:
        """Run the editor on the cases of a kind. Fails with its output if a case failed, or if there is none."""
        given = {**self.environ, **environ, "MNEMO_TEST": json.dumps({**self.places, "kind": kind})}
        done = subprocess.run(
            command, env=given, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        assert re.search(r"^(?:Ran )?[1-9]\d* (?:cases|tests), ", done.stdout, re.MULTILINE), done.stdout


@contextmanager
def home_of_daemon(folder: Path, daemon: RunningDaemon) -> Iterator[EditorHome]:
    """A home whose notes the daemon watches; what an editor started is ended with it."""
    home = EditorHome(folder, daemon.socket, daemon.environ)
    with daemon.client() as client:
        client.add_root(home.garden.parent, "default")
    yield home
    with daemon.client() as client:
        process.stop(client)


def make_faulty(stub_daemon: StubDaemon) -> None:
    """Have the server answer as no daemon should; POST /v1/release lets requests go on that it holds back."""
    gate = threading.Event()
    answer = recall_answer(recalled(content="The *late* answer.\nIt has two lines."))

    def held(asked: StubRequest) -> Any:
        if asked.body["query"] != "at once":
            assert gate.wait(SECONDS_MAX)
        return answer

    def release(_: StubRequest) -> Any:
        gate.set()
        return {}

    once = iter([StubAnswer(hang_up=True), StubAnswer({"block": "<memory>", "memories": [], "degraded": []})])
    stub_daemon.answers |= {
        "POST /v1/recall": held,
        "POST /v1/release": release,
        "POST /v1/ask": refusal(400, "bad_value", "`question` must not be empty – größer", field="question"),
        "POST /v1/context": lambda _: next(once),
        "POST /v1/memories": StubAnswer(hang_up=True),
        "GET /v1/big": {"text": BIG_TEXT},
        "GET /v1/chunked": StubAnswer({"text": BIG_TEXT}, chunked=True),
        "GET /v1/kept": StubAnswer({}, headers={"Connection": "keep-alive"}),
        "GET /v1/cut": StubAnswer({"text": BIG_TEXT}, hang_up=70_000),
        "GET /v1/nothing": StubAnswer(b"", 500),
        "GET /v1/no-json": StubAnswer(b"<html>"),
        "GET /v1/degraded": StubAnswer({}, headers={"X-Mnemo-Degraded": "the disk is full"}),
    }
