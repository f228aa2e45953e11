"""Demonstration of `make run`: a daemon on a scratch folder with real notes, asked by words, by meaning, and after an
edit. It goes on running at the end, and says how to use it and how to stop it.

    python packaging/demonstration.py [FOLDER]

FOLDER is copied, so that the edit touches nothing of yours; without one the project's own documents are the notes.
"""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from mnemo_client import process
from mnemo_client.cli import terminal
from mnemo_client.cli.admin import try_notes
from mnemo_client.cli.format.answers import hit_lines, recall_summary
from mnemo_client.cli.format.units import percent
from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_client.paths import socket_path
from mnemo_client.protocol.choices import Ranker

PROJECT = Path(__file__).resolve().parent.parent
RUN = PROJECT / ".run"
NOTE_KINDS = (".md", ".markdown", ".txt", ".rst", ".org")
LEFT_OUT = {".git", ".venv", ".run", "node_modules", "tests", "lexicon"}
READ_SECONDS_MAX = 120.0
VECTORS_SECONDS_MAX = 600.0
EDIT_SECONDS_MAX = 20.0
NOTICE_SECONDS = 10.0  # for the daemon to notice a model that has just been put in place
REPORT_SECONDS = 5.0  # between two lines about the vectors
HITS = {"words": 1, "auto": 2}
QUESTIONS = ("does anything leave my machine", "are passwords masked", "how do I keep projects apart")
"""What a newcomer asks of the project's own documents. Of other notes, their own headings are asked."""


def main() -> int:
    began = time.monotonic()
    environ = {**os.environ, "MNEMO_DATA_DIR": str(RUN / "data"), "MNEMO_CONFIG": str(RUN / "config.toml")}
    environ |= {"MNEMO_SOCKET": _short_socket()}
    notes = RUN / "notes"
    source = Path(sys.argv[1]).expanduser().resolve() if len(sys.argv) > 1 and sys.argv[1] else PROJECT
    if not source.is_dir():
        sys.stderr.write(f"there is no folder {source}: name one with NOTES=folder\n")
        return 2
    RUN.mkdir(mode=0o700, exist_ok=True)
    (RUN / "config.toml").touch()
    say(f"notes: {copy_notes(source, notes)} files of {source}, copied to {notes.relative_to(PROJECT)}")
    try:
        process.ensure_running(environ, say, is_asked_for=True)
        with Client(socket_path(environ), entry_point="cli") as client:
            show(client, notes, began, QUESTIONS if source == PROJECT else ())
    except MnemoError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    places = ("MNEMO_DATA_DIR", "MNEMO_CONFIG", "MNEMO_SOCKET")
    variables = " ".join(f"{name}={shlex.quote(environ[name])}" for name in places)
    say(
        "",
        "The daemon goes on. In this shell:",
        f"  export {variables} PATH={shlex.quote(str(PROJECT / '.venv' / 'bin'))}:$PATH",
        "  mnemo recall what happens when the disk is full",
        '  mnemo add "something worth remembering"',
        "  mnemo status",
        "  mnemo ui                    # shows it in a browser",
        "To stop it:",
        "  mnemo down",
    )
    return 0


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def copy_notes(source: Path, target: Path) -> int:
    """Copy new and changed notes and remove those that are gone from the source; return the number of notes."""
    kept = set[Path]()
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT and not name.startswith("."))
        for name in sorted(names):
            if not name.endswith(NOTE_KINDS):
                continue
            original = Path(folder) / name
            copy = target / original.relative_to(source)
            kept.add(copy)
            if not copy.exists() or copy.stat().st_mtime < original.stat().st_mtime:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(original, copy)
    for stale in [path for path in target.rglob("*") if path.is_file() and path not in kept]:
        stale.unlink()
    return len(kept)


def show(client: Client, notes: Path, began: float, questions: Sequence[str]) -> None:
    if not any(root.path == str(notes) for root in client.notes_status().roots):
        client.add_root(notes)
    wait_until_read(client)
    if not questions:
        passages = client.list_memories(limit=try_notes.PASSAGES_SAMPLED).memories
        questions = [question.text for question in try_notes.make_questions(passages)]
    say("", f"By words, {time.monotonic() - began:.1f} s after the start:")
    ask(client, questions, "words")
    if wait_for_vectors(client, began):
        say("", f"By meaning and by words, {time.monotonic() - began:.1f} s after the start:")
        ask(client, questions, "auto")
    edit_and_ask(client, notes)


def wait_until_read(client: Client) -> None:
    deadline = time.monotonic() + READ_SECONDS_MAX
    while time.monotonic() < deadline:
        roots = client.notes_status().roots
        if roots and all(root.state in ("watching", "polling") and not root.waiting for root in roots):
            return
        time.sleep(0.05)


def wait_for_vectors(client: Client, began: float) -> bool:
    """Print the progress of the vectors; return True if all of them were computed."""
    reported, last = 0.0, ""
    fetched_until = time.monotonic()
    deadline = time.monotonic() + VECTORS_SECONDS_MAX
    while time.monotonic() < deadline:
        status = client.status()
        model, vectors = status.models["embedding"], status.views["vectors"]
        if model.state == "failed":
            say("", f"The embedding model cannot be used: {model.reason}. Answers stay by words.")
            return False
        if model.state == "ready" and vectors.share >= 1.0:
            return True
        if is_being_fetched():
            fetched_until = time.monotonic()
        if model.state == "absent" and time.monotonic() - fetched_until > NOTICE_SECONDS:
            say("", "The embedding model could not be fetched (see .run/pull.log). Answers stay by words; with a")
            say("network, `mnemo models pull all-MiniLM-L6-v2` brings it.")
            return False
        if time.monotonic() - reported >= REPORT_SECONDS:
            reported = time.monotonic()
            steps = {"ready": f"vectors: {percent(vectors.share)}", "loading": "the embedding model is loading"}
            what = steps.get(model.state, "the embedding model is being fetched")
            if what == last:
                continue
            last = what
            say(f"  {time.monotonic() - began:5.1f} s  {what}")
        time.sleep(0.2)
    return False


def is_being_fetched() -> bool:
    """Return True if the process that fetches the model is alive; the Makefile wrote its id into a file."""
    try:
        os.kill(int((RUN / "pull.pid").read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def ask(client: Client, questions: Sequence[str], ranker: Ranker) -> None:
    style = terminal.style_for(sys.stdout, os.environ)
    for question in questions:
        answer = client.recall(question, top_k=HITS[ranker], highlight=True, dry=True, ranker=ranker)
        say("", f"? {question}")
        say(*hit_lines(answer.memories, style, Path.cwd(), Path.home()))
        say(*recall_summary(answer, None, style))


def edit_and_ask(client: Client, notes: Path) -> None:
    """Save a sentence into a note and ask for it until it is found."""
    note = notes / "demonstration.md"
    word = f"pier {int(time.time()) % 900 + 100}"  # another one each time
    note.write_text(f"# Trip to the lighthouse\n\nThe ferry to the island leaves from {word} at half past nine.\n")
    saved = time.monotonic()
    question = "from where does the ferry to the lighthouse leave"
    while time.monotonic() - saved < EDIT_SECONDS_MAX:
        found = client.search(word).memories
        if found and word in found[0].content:
            say("", f"A note was saved, {note.relative_to(PROJECT)}, and found {time.monotonic() - saved:.1f} s later:")
            ask(client, [question], "auto")
            return
        time.sleep(0.05)
    say("", f"The edit was not found within {EDIT_SECONDS_MAX:.0f} s: see `mnemo status`.")


def _short_socket() -> str:
    """Return the path of the socket: next to the data, or in the system's folder for sockets if that is too long."""
    wished = RUN / "data" / "run" / "mnemo.sock"
    if len(bytes(wished)) <= 100:
        return str(wished)
    runtime = os.environ.get("XDG_RUNTIME_DIR") or str(Path.home())
    return str(Path(runtime) / ".mnemo-run" / "mnemo.sock")


if __name__ == "__main__":
    sys.exit(main())
