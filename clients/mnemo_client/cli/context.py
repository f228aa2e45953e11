"""The context of one command: its options, working directory, terminal, and client of the daemon."""

import io
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TextIO

from mnemo_client import namespace, process
from mnemo_client.cli.terminal import Terminal, TextStyle, escape_json, sanitize
from mnemo_client.errors import MnemoError, UsageError
from mnemo_client.paths import home_folder, socket_path

if TYPE_CHECKING:
    from mnemo_client.client import Client
    from mnemo_client.protocol.choices import Wait

STANDARD_INPUT_BYTES_MAX = 1024 * 1024  # the daemon's body limit (SPEC 16)


class CommandContext:
    """The argument of every command's function. Namespace and client are made on first use.

    `began` is the start of the command on the monotonic clock.
    """

    def __init__(
        self,
        options: SimpleNamespace,
        terminal: Terminal,
        environ: Mapping[str, str],
        here: Path,
        stdin: TextIO,
        began: float | None = None,
    ) -> None:
        self.began = time.monotonic() if began is None else began
        self.options = options
        self.terminal = terminal
        self.environ = environ
        self.cwd = here
        self.stdin = stdin
        self._client: Client | None = None
        self._namespace: namespace.NamespaceChoice | None = None

    @property
    def style(self) -> TextStyle:
        return self.terminal.style

    @property
    def wait_for_statements(self) -> "Wait":
        """The `wait` of a command with --infer: it waits for the statements only where it shows them."""
        options = self.options
        return "extracted" if options.infer and (options.explain or self.wants_json) else "stored"

    @property
    def wants_json(self) -> bool:
        return bool(self.options.json)

    @property
    def has_terminal(self) -> bool:
        """True if input and output are a terminal, so that an interactive program can be run."""
        return self.stdin.isatty() and self.terminal.out.isatty()

    @property
    def is_for_terminal(self) -> bool:
        """True if a person reads the answer: it goes to a terminal, and not as JSON."""
        return self.terminal.out.isatty() and not self.wants_json

    @property
    def home(self) -> Path:
        return home_folder(self.environ)

    @property
    def namespace(self) -> namespace.NamespaceChoice:
        if self._namespace is None:
            self._namespace = namespace.choose_namespace(self.options.namespace, self.cwd, self.environ)
        return self._namespace

    def path(self, text: str) -> Path:
        """Return the absolute path that the user means by the text."""
        return (self.cwd / Path(text).expanduser()).resolve()

    def folder(self, text: str) -> Path:
        """Return the path of an existing folder. Raises UsageError."""
        folder = self.path(text)
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder" if folder.exists() else f"there is no folder {folder}")
        return folder

    def connect(self, *, is_scoped: bool = True) -> "Client":
        """Return a client, whether the daemon runs or not. One without a namespace needs no settings to be read."""
        if self._client is None:
            from mnemo_client.client import Client

            name = self.namespace.name if is_scoped else None
            self._client = Client(socket_path(self.environ), name, entry_point="cli")
        return self._client

    def client(self) -> "Client":
        """Return a client, after starting the daemon if it does not run."""
        process.ensure_running(self.environ, self.terminal.message)
        return self.connect()

    def reading_client(self) -> "Client":
        """Return a client as `client` does, after a warning if the namespace of the command has no memories.

        Recall would answer from `default` alone, and nobody would notice a mistyped name.
        """
        client, chosen = self.client(), self.namespace
        if chosen.origin == "option" and chosen.name not in (namespace.DEFAULT, namespace.ALL):
            known = client.status().namespaces
            if chosen.name not in known:
                from difflib import get_close_matches

                near = get_close_matches(chosen.name, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else "; list the namespaces with: mnemo namespaces"
                self.message(f"namespace {sanitize(chosen.name)} has no memories{hint}")
        return client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def run_offline(self, *words: str) -> dict[str, Any]:
        """Run a command of `python -m mnemo_daemon.offline`, which needs no daemon, as a child process, and return its
        answer; its progress is shown meanwhile. Raises MnemoError."""
        import subprocess

        self.terminal.flush()
        ended = subprocess.run(
            [sys.executable, "-m", "mnemo_daemon.offline", *words, "--json"],
            check=False,
            env=dict(self.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        try:
            answer: dict[str, Any] = json.loads(ended.stdout)
        except ValueError:
            raise MnemoError(f"{words[0]} ended with code {ended.returncode}") from None
        if error := answer.get("error"):
            hint = process.SETTINGS_FIX if error["code"] == "config" else str(error.get("hint") or "")
            raise MnemoError(str(error["message"]), hint)
        return answer

    def print(self, *lines: str) -> None:
        for line in lines:
            self.terminal.print(line)

    def page(self, lines: Sequence[str]) -> None:
        """Write lines of data, in a pager if they do not fit the screen."""
        self.terminal.page(lines, self.environ)

    def message(self, line: str) -> None:
        self.terminal.message(line)

    def print_answer(self) -> None:
        """Print the last answer as the daemon sent it."""
        self.print_json(self.connect().last_body.decode())

    def print_value(self, value: object) -> None:
        """Print a value as JSON."""
        self.print_json(json.dumps(value, ensure_ascii=False))

    def print_json(self, text: str) -> None:
        """Print a JSON text. Characters that could control a terminal are escaped."""
        self.terminal.print(escape_json(text.rstrip("\n")))

    def print_json_if_asked(self, value: object = None) -> bool:
        """Print the value, or the last answer, as JSON if the command has `--json`; return True if it was printed."""
        if self.wants_json:
            self.print_answer() if value is None else self.print_value(value)
        return self.wants_json

    def text(self, words: list[str], what: str, bytes_max: int = STANDARD_INPUT_BYTES_MAX) -> str:
        """Return the words as one text; `-`, or no words if standard input is not a terminal, reads standard input."""
        if words == ["-"] or (not words and not self.stdin.isatty()):
            text = self._read_standard_input(bytes_max)
        else:
            text = " ".join(words)
        if not text.strip():
            raise UsageError(f"there is no text to {what}", "give it as words, or - to read standard input")
        return text

    def confirm(self, question: str) -> None:
        """Return if the user confirms. Raises UsageError if not, or if nobody can be asked."""
        if not self.has_terminal:
            raise UsageError("confirmation is needed, and there is no terminal to ask", "confirm with --yes")
        if not self.ask(question):
            raise UsageError("nothing was changed")

    def ask(self, question: str) -> bool:
        """Ask a yes-or-no question; return True for yes."""
        return self.ask_line(f"{question}? [y/N]").lower() in ("y", "yes")

    def ask_line(self, question: str) -> str:
        """Ask a question; return the line that is typed."""
        self.terminal.flush()
        self.terminal.out.write(f"{question} ")
        self.terminal.out.flush()
        return self.stdin.readline().strip()

    def _read_standard_input(self, bytes_max: int) -> str:
        if not isinstance(self.stdin, io.TextIOWrapper):
            return self.stdin.read()
        data: bytes = self.stdin.buffer.read(bytes_max + 1)
        if len(data) > bytes_max:
            raise UsageError(f"standard input has more than {bytes_max} bytes")
        try:
            return data.decode()
        except UnicodeDecodeError as wrong:
            raise UsageError(f"standard input is not UTF-8 text (byte {wrong.start})") from wrong
