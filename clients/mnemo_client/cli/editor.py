"""Opens a file at a line in the user's own editor.

A terminal editor is not started without a terminal: it would fill a pipe with control sequences.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from mnemo_client.errors import MnemoError, UsageError

FALLBACKS = ("sensible-editor", "editor", "nano", "vi")

# Editors by the way they take a line number: names of their programs, without folder or extension.
PLUS_LINE = frozenset({
    "vi", "vim", "nvim", "gvim", "mvim", "view", "nano", "pico", "emacs", "emacsclient", "kak", "joe", "jed", "mg",
    "ne", "gedit", "sensible-editor", "editor", "mcedit", "geany",
})  # fmt: skip
GOTO_OPTION = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})
COLON_LINE = frozenset({"hx", "helix", "subl", "zed", "zeditor", "micro", "lite-xl"})
# These run in a terminal only. A program in none of these sets may be a script of the user's own.
NEEDS_TERMINAL = (PLUS_LINE - {"gvim", "mvim", "emacs", "emacsclient", "gedit", "geany"}) | {"hx", "helix", "micro"}
# These return at once and leave the window open, unless they get an option to wait.
NEEDS_WAIT = GOTO_OPTION | {"subl", "zed", "zeditor", "gvim", "mvim", "gedit"}
WAIT_OPTIONS = {"gvim": "-f", "mvim": "-f"}


def chosen_editor(environ: Mapping[str, str]) -> list[str]:
    """Return the editor's command: VISUAL, else EDITOR, else one that is installed. Raises UsageError."""
    for variable in ("VISUAL", "EDITOR"):
        if text := environ.get(variable, "").strip():
            try:
                return shlex.split(text)
            except ValueError as wrong:
                raise UsageError(f"{variable} cannot be read: {wrong}") from wrong
    for name in FALLBACKS:
        if shutil.which(name, path=environ.get("PATH")):
            return [name]
    raise UsageError("no editor was found", "name one: export VISUAL=nvim")


def editor_command(editor: list[str], path: Path, line: int | None = None, *, wait: bool = False) -> list[str]:
    """Return the command that opens `path`, at `line` if that editor supports it; with `wait` it ends with the
    editing."""
    name = Path(editor[0]).stem.lower()
    words = list(editor)
    if wait and name in NEEDS_WAIT:
        option = WAIT_OPTIONS.get(name, "--wait")
        words += [option] if option not in words else []
    if line is None:
        return [*words, str(path)]
    if name in PLUS_LINE:
        return [*words, f"+{line}", str(path)]
    if name in GOTO_OPTION:
        return [*words, "--goto", f"{path}:{line}"]
    if name in COLON_LINE:
        return [*words, f"{path}:{line}"]
    if name == "kate":
        return [*words, "--line", str(line), str(path)]
    return [*words, str(path)]


def check_terminal(environ: Mapping[str, str], has_terminal: bool, otherwise: str) -> None:
    """Raise UsageError, with `otherwise` as the hint, if the chosen editor needs a terminal and there is none."""
    editor = chosen_editor(environ)[0]
    if not has_terminal and Path(editor).stem.lower() in NEEDS_TERMINAL:
        raise UsageError(f"the editor {editor!r} needs a terminal, and there is none", otherwise)


def edit(environ: Mapping[str, str], path: Path, line: int | None = None, *, wait: bool = False) -> None:
    """Run the editor on the file until it ends; without `wait` it may go on in its window. Raises MnemoError."""
    words = editor_command(chosen_editor(environ), path, line, wait=wait)
    try:
        ended = subprocess.run(words, check=False, env=dict(environ))
    except OSError as failed:
        raise MnemoError(
            f"the editor {words[0]!r} cannot be run: {failed.strerror}", "check the variables VISUAL and EDITOR"
        ) from failed
    if ended.returncode:
        raise MnemoError(f"the editor {words[0]!r} ended with code {ended.returncode}")


def edit_text(environ: Mapping[str, str], text: str, folder: Path) -> tuple[str, Path]:
    """Let the user edit the text; return the new text, and its file, which the caller removes.

    The file is in `folder`, readable by its owner only.
    """
    import tempfile

    descriptor, name = tempfile.mkstemp(".md", "memory-", folder)
    path = Path(name)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    try:
        edit(environ, path, wait=True)
        return path.read_text(encoding="utf-8").strip(), path
    except (MnemoError, UnicodeDecodeError):
        path.unlink(missing_ok=True)
        raise
