"""Removes what is private from the texts of a support bundle: paths, names, quotations, and the contents of log lines.

A log line keeps its time, its level, and the words that stand in the program itself: the message is compared with the
templates of all log calls in the installed source. What a template inserts is masked unless it is a number, and so is
every line that no template matches. So no text of a memory can be in the result, whatever a message quotes.
"""

import ast
import importlib.util
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mnemo_client.paths import home_folder

MASK = "…"
PACKAGES = ("mnemo_daemon", "mnemo_store", "mnemo_core", "mnemo_client")
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
NAME_CHARS_MIN = 2  # a shorter name of a user or machine is in too many words to be replaced

_RECORD = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+) (.*)$")
_FILE_LINE = re.compile(r'^  File ".*?((?:mnemo_\w+|site-packages)/[\w./-]+)", line (\d+), in [\w<>]+$')
_NAMED = re.compile(r"(?<![\w.])([\w.]++): ")
_MIXED_CASE = re.compile(r"[A-Z]+[a-z]\w*[A-Z]\w*")
EXCEPTION_ENDS = ("Error", "error", "Exception", "Warning", "Interrupt", "Refusal")
_EXCEPTION_LINE = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt|Refusal))(?::.*)?$")
_NUMBER = re.compile(r"-?[\d.]+")
_INSERTED = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?([a-zA-Z])")
_PATH = re.compile(r"(?<![\w.>~])(~?)/\S.*", re.DOTALL)  # a name can have blanks and commas: nobody knows where it ends
_QUOTED = re.compile(r"""(?<!\w)'[^']*(?:'|\Z)|"[^"]*(?:"|\Z)|“[^”]*(?:”|\Z)""")
_IN_BACKTICKS = re.compile(r"`([^`]*)(?:`|\Z)")
_OWN_WORDS = re.compile(r"mnemo [a-z -]+|[a-z_]+(?:\.[a-z_]+)+")  # a command, or the key of a setting


class Redactor:
    """Replaces known paths by names such as DATA, then quotations, exception texts and whatever follows another path by
    a mask."""

    def __init__(self, environ: Mapping[str, str], places: Mapping[str, Path | str]) -> None:
        """places: the words that stand for known paths."""
        home, user = home_folder(environ), environ.get("USER") or environ.get("LOGNAME") or ""
        self._exact = sorted(((str(path), f"<{name}>") for name, path in places.items() if str(path) not in ("", "/")),
                             key=lambda each: -len(each[0]))  # fmt: skip
        self._exact.append((str(home), "~"))
        names = {home.name: "USER", user: "USER", socket.gethostname(): "HOST"}
        self._names = [(re.compile(rf"\b{re.escape(name)}\b", re.IGNORECASE), word)
                       for name, word in names.items() if len(name) >= NAME_CHARS_MIN]  # fmt: skip

    def text(self, text: str) -> str:
        """Return a text of the program without paths, names and quotations."""
        for path, name in self._exact:
            text = text.replace(path, name)
        text = _IN_BACKTICKS.sub(lambda found: found[0] if _OWN_WORDS.fullmatch(found[1]) else MASK, text)
        text = _without_exception_text(_QUOTED.sub(MASK, text))
        text = _PATH.sub(lambda found: f"{found[1]}/{MASK}", text)
        for pattern, word in self._names:
            text = pattern.sub(word, text)
        return text


def _without_exception_text(text: str) -> str:
    """Mask everything behind the first name of an exception: its message can have several lines."""
    for found in _NAMED.finditer(text):
        if found[1].endswith(EXCEPTION_ENDS) or _MIXED_CASE.fullmatch(found[1].rpartition(".")[2]):
            return text[: found.end()] + MASK
    return text


def masked_log(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a log, each with nothing but the words of the program and numbers."""
    for line in lines:
        if record := _RECORD.match(line):
            yield f"{record[1]} {_masked_message(record[2])}"
        elif line == "Traceback (most recent call last):":
            yield line
        elif found := _FILE_LINE.match(line):
            yield f"  File {found[1]}, line {found[2]}"
        elif found := _EXCEPTION_LINE.match(line):
            yield f"{found[1]}: {MASK}"
        else:
            yield f"{MASK} ({len(line)} characters)"


def _masked_message(message: str) -> str:
    for template in log_templates():
        if (shown := template.masked(message)) is not None:
            return shown
    return f"{MASK} ({len(message)} characters)"


class LogTemplate(NamedTuple):
    """The words of one log call, and between each two of them the kind of the inserted value."""

    words: tuple[str, ...]
    kinds: str

    def masked(self, message: str) -> str | None:
        """Return the message with its inserted texts masked and its numbers kept; None if it is of another call.

        Each word is looked for once, behind the one before, so that no message costs more than its length.
        """
        if not (message.startswith(self.words[0]) and message.endswith(self.words[-1])):
            return None
        shown, at, end = self.words[0], len(self.words[0]), len(message) - len(self.words[-1])
        for number, (kind, word) in enumerate(zip(self.kinds, self.words[1:], strict=True), 2):
            stop = end if number == len(self.words) else message.find(word, at, end)
            value = message[at:stop]
            if stop < at or (kind in "dif" and not _NUMBER.fullmatch(value)):
                return None
            shown += (value if kind in "dif" else MASK) + word
            at = stop + len(word)
        return shown if self.kinds or message == self.words[0] else None


@cache
def log_templates() -> list[LogTemplate]:
    """Return the templates of all log calls of the installed source, those with the most words of their own first."""
    made = []
    for template in sorted({each for folder in _source_folders() for each in _templates_of(folder)}):
        words = _INSERTED.split(template)
        own = tuple(each.replace("%%", "%") for each in words[::2])
        if "".join(own).strip():  # otherwise it would match every message
            made.append(LogTemplate(own, "".join(words[1::2])))
    return sorted(made, key=lambda each: -len("".join(each.words)))


def _source_folders() -> Iterator[Path]:
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for place in spec.submodule_search_locations or () if spec is not None else ():
            yield Path(place)


def _templates_of(folder: Path) -> Iterator[str]:
    """Yield the first argument of each log call in the source of a package."""
    for file in folder.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "log." not in text and "getLogger" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOG_METHODS
                and node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
            ):  # fmt: skip
                yield node.args[0].value
