"""One command as it was given: its options, where it was given, and the daemon it speaks to."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, TextIO

from mnemo_client import namespace, process
from mnemo_client.cli.terminal import Terminal, TextStyle
from mnemo_client.errors import UsageError
from mnemo_client.paths import home_folder, socket_path

if TYPE_CHECKING:
    from mnemo_client.client import Client

STANDARD_INPUT_BYTES_MAX = 1024 * 1024  # the daemon's body limit (SPEC 16)


class CommandContext:
    """What a command's function is given. Nothing is looked up before it is asked for."""

    def __init__(
        self, options: SimpleNamespace, terminal: Terminal, environ: Mapping[str, str], here: Path, stdin: TextIO
    ) -> None:
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
    def wants_json(self) -> bool:
        return bool(self.options.json)

    @property
    def has_terminal(self) -> bool:
        """Whether a person sits at both ends, so that a program can be run that draws and reads keys."""
        return self.stdin.isatty() and self.terminal.out.isatty()

    @property
    def is_for_terminal(self) -> bool:
        """True where a person reads the answer: it goes to a terminal, and not as JSON."""
        return self.terminal.out.isatty() and not self.wants_json

    @property
    def home(self) -> Path:
        return home_folder(self.environ)

    @property
    def namespace(self) -> namespace.NamespaceChoice:
        if self._namespace is None:
            self._namespace = namespace.choose_namespace(self.options.namespace, self.cwd, self.environ)
        return self._namespace

    def connect(self) -> "Client":
        """A client of the daemon, whether one runs or not."""
        if self._client is None:
            from mnemo_client.client import Client

            self._client = Client(socket_path(self.environ), self.namespace.name, door="cli")
        return self._client

    def client(self) -> "Client":
        """A client of the daemon, which runs after this."""
        process.ensure_running(self.environ, self.terminal.message)
        return self.connect()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def print(self, *lines: str) -> None:
        for line in lines:
            self.terminal.print(line)

    def page(self, lines: Sequence[str]) -> None:
        """Lines of data, in a pager where a person would have to scroll back to their beginning."""
        self.terminal.page(lines, self.environ)

    def message(self, line: str) -> None:
        self.terminal.message(line)

    def print_answer(self) -> None:
        """Print the last answer as the daemon sent it."""
        self.terminal.print(self.connect().last_body.decode().rstrip("\n"))

    def print_value(self, value: object) -> None:
        """Print a value of our own as JSON."""
        self.terminal.print(json.dumps(value, ensure_ascii=False))

    def text(self, words: list[str], what: str, bytes_max: int = STANDARD_INPUT_BYTES_MAX) -> str:
        """The words as one text; `-`, or nothing where standard input is no terminal, reads it from there."""
        if words == ["-"] or (not words and not self.stdin.isatty()):
            text = self._read_standard_input(bytes_max)
        else:
            text = " ".join(words)
        if not text.strip():
            raise UsageError(f"nothing to {what} was given", "give it as words, or - to read standard input")
        return text

    def confirm(self, question: str) -> None:
        """Returns when a person says yes. Raises BadUsage where none does, or none is there."""
        if not self.has_terminal:
            raise UsageError("this cannot be asked here", "say --yes if it is meant")
        if not self.ask(question):
            raise UsageError("nothing was changed")

    def ask(self, question: str) -> bool:
        """Whether the person at the terminal says yes."""
        self.terminal.flush()
        self.terminal.out.write(f"{question}? [y/N] ")
        self.terminal.out.flush()
        return self.stdin.readline().strip().lower() in ("y", "yes")

    def _read_standard_input(self, bytes_max: int) -> str:
        if not isinstance(self.stdin, io.TextIOWrapper):
            return self.stdin.read()
        data: bytes = self.stdin.buffer.read(bytes_max + 1)
        if len(data) > bytes_max:
            raise UsageError(f"standard input holds more than {bytes_max} bytes")
        try:
            return data.decode()
        except UnicodeDecodeError as wrong:
            raise UsageError(f"standard input is not UTF-8 text (byte {wrong.start})") from wrong
