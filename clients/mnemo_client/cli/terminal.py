"""Output: data to standard output, messages and progress to standard error, with colour and width of the terminal.

Colour and progress appear on a terminal only. Stored text goes through `sanitize` before it is shown, so that no memory
can control the terminal.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TextIO

WIDTH_DEFAULT = 80
WIDTH_MAX = 110  # longer lines are hard to read
ROWS_DEFAULT = 24
PAGER_NOT_FOUND = 127  # the shell's exit code
LAST_COLUMN_MIN = 24  # cells; a narrower last column of a table is moved below the others

_CODES = {"bold": "1", "dim": "2", "mark": "1;33", "good": "32", "warn": "33", "bad": "31", "place": "36"}
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
# Unicode characters that change the direction of text; `sanitize` replaces them, like control characters.
_DIRECTION_CHARACTERS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class TextStyle(NamedTuple):
    """The style of text. `width` is in cells; None: lines are not broken or cut, as programs expect."""

    colour: bool = False
    width: int | None = None

    def bold(self, text: str) -> str:
        return self._paint("bold", text)

    def dim(self, text: str) -> str:
        return self._paint("dim", text)

    def location(self, text: str) -> str:
        return self._paint("place", text)

    def good(self, text: str) -> str:
        return self._paint("good", text)

    def warn(self, text: str) -> str:
        return self._paint("warn", text)

    def bad(self, text: str) -> str:
        return self._paint("bad", text)

    def highlight(self, text: str) -> str:
        """Mark a word of the query; with asterisks if there is no colour."""
        return self._paint("mark", text) if self.colour else f"*{text}*"

    def _paint(self, name: str, text: str) -> str:
        return f"\x1b[{_CODES[name]}m{text}\x1b[0m" if self.colour and text else text


class Terminal:
    """Standard output and standard error of a command."""

    def __init__(self, out: TextIO, err: TextIO, environ: Mapping[str, str]) -> None:
        self.out = out
        self.err = err
        self.style = style_for(out, environ)
        self.err_style = style_for(err, environ)
        self.shows_progress = err.isatty() and environ.get("TERM") != "dumb"
        self._progress = ""

    def print(self, line: str = "") -> None:
        """Write a line of data."""
        self.clear_progress()
        self.out.write(line + "\n")

    def page(self, lines: Sequence[str], environ: Mapping[str, str]) -> None:
        """Write lines of data, in the user's pager if they do not fit the screen."""
        pager = environ.get("MNEMO_PAGER", environ.get("PAGER", "less")).strip()
        if self.out.isatty() and pager not in ("", "cat") and len(lines) >= self._rows():
            import subprocess

            self.flush()
            text = "".join(line + "\n" for line in lines).encode(errors="backslashreplace")
            # For less: colours, no pager for text that fits, and the screen is kept.
            done = subprocess.run(pager, shell=True, input=text, env={"LESS": "FRX", **environ}, check=False)
            if done.returncode != PAGER_NOT_FOUND:
                return
        for line in lines:
            self.print(line)

    def _rows(self) -> int:
        try:
            return os.get_terminal_size(self.out.fileno()).lines or ROWS_DEFAULT
        except (OSError, ValueError):
            return ROWS_DEFAULT

    def message(self, line: str = "") -> None:
        """Write a message."""
        self.clear_progress()
        self.out.flush()
        self.err.write("".join(each + "\n" for each in fold(line, self.err_style.width)))
        self.err.flush()

    def error(self, message: str, hint: str = "") -> None:
        """Write an error, and what to do about it."""
        self.message(f"{self.err_style.bad('mnemo:')} {sanitize(message, lines=True)}")
        if hint:
            self.message(f"       {self.err_style.dim(sanitize(hint, lines=True))}")

    def progress(self, text: str) -> None:
        """Show a progress line, which the next one replaces; nothing if standard error is not a terminal."""
        if self.shows_progress and text != self._progress:
            self.out.flush()
            shown = clip(text, (self.err_style.width or WIDTH_DEFAULT) - 1)
            self.err.write(f"\r\x1b[K{shown}")
            self.err.flush()
            self._progress = text

    def clear_progress(self) -> None:
        if self._progress:
            self.err.write("\r\x1b[K")
            self.err.flush()
            self._progress = ""

    def flush(self) -> None:
        self.clear_progress()
        self.out.flush()


def style_for(stream: TextIO, environ: Mapping[str, str]) -> TextStyle:
    """Return the style for a stream. NO_COLOR and TERM=dumb switch colour off."""
    if not stream.isatty():
        return TextStyle()
    colour = not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return TextStyle(colour, min(columns or WIDTH_DEFAULT, WIDTH_MAX))


def standard_terminal(environ: Mapping[str, str]) -> Terminal:
    """Return the terminal of this process. Characters that its encoding lacks are escaped, never an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    return Terminal(sys.stdout, sys.stderr, environ)


def sanitize(text: str, *, lines: bool = False) -> str:
    """Return the text with every character that could control a terminal replaced, one for one: offsets still hold.

    With `lines`, line breaks and tabs stay; otherwise they become spaces.
    """
    if text.isascii() and text.isprintable():
        return text
    from unicodedata import category  # a megabyte of tables that most lines do not need

    def shown(character: str) -> str:
        if character in "\n\t":
            return character if lines else " "
        if character == "\r":
            return " "
        if category(character) in ("Cc", "Zl", "Zp", "Cs") or character in _DIRECTION_CHARACTERS:
            return "\ufffd"
        return character

    return "".join(map(shown, text))


def escape_json(text: str) -> str:
    """Return a JSON text with escapes for the characters that `sanitize` replaces; its values stay the same."""
    if text.isascii() and "\x7f" not in text:
        return text
    shown = sanitize(text, lines=True)
    changed = {ord(one): f"\\u{ord(one):04x}" for one, other in zip(text, shown, strict=True) if one != other}
    return text.translate(changed)


def cell_width(text: str) -> int:
    """Return the columns that the text takes on a terminal; colour codes take none."""
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    return sum(map(_character_width, text)) if not text.isascii() else len(text)


def _character_width(character: str) -> int:
    if character.isascii():
        return 1
    import unicodedata

    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clip(text: str, width: int | None) -> str:
    """Return the text, cut to `width` cells with an ellipsis if it is longer."""
    if width is None or cell_width(text) <= width:
        return text
    room = width - 1
    kept = []
    for character in text:
        room -= _character_width(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def clip_start(text: str, width: int | None) -> str:
    """Return the text, with an ellipsis for its beginning if it is longer than `width` cells."""
    return clip(text[::-1], width)[::-1]


def pad(text: str, width: int) -> str:
    """Return the text padded with spaces to `width` cells."""
    return text + " " * max(0, width - cell_width(text))


def wrap(text: str, width: int | None, lines_max: int) -> list[tuple[int, int]]:
    """Break the text into lines of at most `width` cells: (start, end) offsets, at most `lines_max` of them.

    Lines break at spaces, and inside a word only if it is wider than a line (as in scripts without spaces).
    """
    if width is None:
        return [(0, len(text))]
    lines: list[tuple[int, int]] = []
    start = 0
    while start < len(text) and len(lines) < lines_max:
        end, used, last_space = start, 0, None
        while end < len(text):
            used += _character_width(text[end])
            if used > width:
                break
            if text[end] == " ":
                last_space = end
            end += 1
        if end < len(text) and text[end] != " " and last_space is not None and last_space > start:
            end = last_space
        lines.append((start, max(end, start + 1)))
        start = max(end, start + 1)
        while start < len(text) and text[start] == " ":
            start += 1
    return lines


def table(rows: list[list[str]], indent: str = "", width: int | None = None, *, clips: bool = False) -> list[str]:
    """Return the rows with their columns aligned, in lines of at most `width` cells.

    The last column is cut if `clips`; otherwise it is wrapped in its column or, if less than `LAST_COLUMN_MIN` cells
    are left for it, on lines of its own. A few wide cells of another column may reach beyond that column instead."""
    lines = []
    widths = _column_widths(rows, None if width is None or clips else width - cell_width(indent))
    for row in rows:
        head = indent + "".join(pad(cell, size) + "  " for cell, size in zip(row, widths, strict=False))
        room = None if width is None else width - cell_width(head)
        if room is None or cell_width(row[-1]) <= room:
            lines.append((head + row[-1]).rstrip())
        elif clips:
            lines.append((head + clip(row[-1], max(room, 1))).rstrip())
        elif room >= LAST_COLUMN_MIN:
            first, *more = wrap_words(row[-1], room)
            lines += [head + first, *(" " * cell_width(head) + line for line in more)]
        else:
            below = indent + "    "
            lines += [head.rstrip(), *(below + line for line in wrap_words(row[-1], (width or 0) - cell_width(below)))]
    return lines


def _column_widths(rows: list[list[str]], width: int | None) -> list[int]:
    """Return the widths of all columns but the last. If too little is left for that one, the widest column is as wide
    as its widest cell that leaves enough; its wider cells reach beyond it."""
    cells = [[cell_width(cell) for cell in column] for column in zip(*(row[:-1] for row in rows), strict=True)]
    widths = [max(column) for column in cells]
    if width is None or not widths:
        return widths
    too_wide = sum(widths) + 2 * len(widths) + LAST_COLUMN_MIN - width
    if too_wide > 0:
        widest = widths.index(max(widths))
        widths[widest] = max((cell for cell in cells[widest] if cell <= widths[widest] - too_wide), default=max(widths))
    return widths


def fold(text: str, width: int | None) -> list[str]:
    """Return the lines of the text, those wider than `width` broken between words and indented as they were."""
    if width is None:
        return text.split("\n")
    folded = []
    for line in text.split("\n"):
        bare = line.lstrip(" ")
        indent = line[: len(line) - len(bare)]
        folded += [indent + part for part in wrap_words(bare, max(20, width - len(indent)))]
    return folded


def wrap_words(text: str, width: int) -> list[str]:
    """Return the words of the text in lines of at most `width` cells; a longer word gets a line of its own."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_width(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
