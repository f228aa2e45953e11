"""Opening a file at a line in the person's own editor.

An editor that draws on the terminal is not started where there is none: it would fill a pipe with its drawing.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from mnemo_client.errors import MnemoError, UsageError

FALLBACKS = ("sensible-editor", "editor", "nano", "vi")

# Editors by how they are told a line. The names are those of their programs, without folder or extension.
PLUS_LINE = frozenset({
    "vi", "vim", "nvim", "gvim", "mvim", "view", "nano", "pico", "emacs", "emacsclient", "kak", "joe", "jed", "mg",
    "ne", "gedit", "sensible-editor", "editor", "mcedit", "geany",
})  # fmt: skip
GOTO_OPTION = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})
COLON_LINE = frozenset({"hx", "helix", "subl", "zed", "zeditor", "micro", "lite-xl"})
# These draw on the terminal and nowhere else. What stands in none of these sets may be a script of the person's own.
NEEDS_TERMINAL = (PLUS_LINE - {"gvim", "mvim", "emacs", "emacsclient", "gedit", "geany"}) | {"hx", "helix", "micro"}
# These return at once and leave the window open, unless they are told to wait.
NEEDS_WAIT = GOTO_OPTION | {"subl", "zed", "zeditor", "gvim", "mvim", "gedit"}
WAIT_OPTIONS = {"gvim": "-f", "mvim": "-f"}


def chosen_editor(environ: Mapping[str, str]) -> list[str]:
    """The editor's command: VISUAL, else EDITOR, else one that is installed. Raises BadUsage."""
    for variable in ("VISUAL", "EDITOR"):
        if text := environ.get(variable, "").strip():
            try:
                return shlex.split(text)
            except ValueError as wrong:
                raise UsageError(f"{variable} cannot be read: {wrong}") from wrong
    for name in FALLBACKS:
        if shutil.which(name, path=environ.get("PATH")):
            return [name]
    raise UsageError("no editor was found", "name yours: export VISUAL=nvim")


def editor_command(editor: list[str], path: Path, line: int | None = None, *, wait: bool = False) -> list[str]:
    """The words that open `path`, at `line` where that editor can be told one; with `wait` it returns when done."""
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
    """Raises BadUsage, with `otherwise` for a hint, where the chosen editor needs a terminal and there is none."""
    editor = chosen_editor(environ)[0]
    if not has_terminal and Path(editor).stem.lower() in NEEDS_TERMINAL:
        raise UsageError(f"the editor {editor!r} needs a terminal, and this is none", otherwise)


def edit(environ: Mapping[str, str], path: Path, line: int | None = None, *, wait: bool = False) -> None:
    """Run the editor on the file; it has ended (or, without `wait`, taken over) after this. Raises MnemoError."""
    words = editor_command(chosen_editor(environ), path, line, wait=wait)
    try:
        ended = subprocess.run(words, check=False, env=dict(environ))
    except OSError as failed:
        raise MnemoError(
            f"the editor {words[0]!r} cannot be run: {failed.strerror}", "see VISUAL and EDITOR"
        ) from failed
    if ended.returncode:
        raise MnemoError(f"the editor {words[0]!r} ended with code {ended.returncode}")


def edit_text(environ: Mapping[str, str], text: str, folder: Path) -> tuple[str, Path]:
    """Let the person edit the text; what it is now, and the file it stands in, which the caller removes.

    The file is in `folder` and only its owner can read it.
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
