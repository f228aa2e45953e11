"""`mnemo try FOLDER`: everything once, on a folder of notes, with nothing installed and nothing kept.

A daemon of its own on a scratch data folder reads the notes; three questions made from their own text are answered by
words at once, and by meaning once the vectors are there. At the end, and on ^C, the daemon stops and the folder goes.
"""

import os
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mnemo_client import display, launch, protocol, recall_protocol
from mnemo_client.client import Client
from mnemo_client.errors import EXIT_DONE, EXIT_NOTHING, BadUsage, MnemoError
from mnemo_client.invocation import Invocation
from mnemo_client.places import config_file, socket_path
from mnemo_client.terminal import plain
from mnemo_client.upkeep import DEFAULT_MODEL

QUESTIONS = 3
HITS = 2  # shown for each question
PASSAGES_SAMPLED = 500  # what a list answers at most (SPEC 13)
HEADING_WORDS = (2, 8)  # of a heading that makes a question: fewer say too little, more are sentences
RARE_WORDS = 4  # of a passage without such a heading
WORD_CHARS_MIN = 5
FIRST_NOTES_SECONDS = 60.0
VECTORS_SECONDS = 900.0
POLL_SECONDS = 0.2
STOP_SECONDS = 5.0

_COUNT = re.compile(r"^[A-Z]?\d+(?:\.\d+)*[.):]*\s+")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


class Question(NamedTuple):
    text: str
    origin: str  # where in the notes it comes from


def run(invocation: Invocation) -> int:
    folder = (invocation.here / Path(invocation.options.folder).expanduser()).resolve()
    if not folder.is_dir():
        raise BadUsage(f"{folder} is no folder" if folder.exists() else f"there is no folder {folder}")
    began = time.monotonic()
    with _scratch_daemon(invocation) as client:
        client.add_root(folder)
        status = _wait_for_notes(invocation, client)
        questions = make_questions(client.list_memories(limit=PASSAGES_SAMPLED).memories)
        if not questions:
            invocation.tell(f"there is nothing to ask in {folder}: no notes with text were found")
            return EXIT_NOTHING
        read = f"{display.plural(status.memories, 'passage')} of {display.plural(_files(status), 'file')}"
        invocation.say(invocation.look.bold(f"By words, {time.monotonic() - began:.1f} s after the start ({read}):"))
        _ask(invocation, client, questions, "words")
        if _wait_for_vectors(invocation, client):
            after = time.monotonic() - began
            invocation.say(invocation.look.bold(f"By meaning and by words, {after:.1f} s after the start:"))
            _ask(invocation, client, questions, "auto")
    shown = display.short_path(str(folder), invocation.here, invocation.home)
    invocation.say("Nothing of this was kept. To go on:", f"  mnemo init {shown}", "  mnemo recall WORDS")
    return EXIT_DONE


@contextmanager
def _scratch_daemon(invocation: Invocation) -> Iterator[Client]:
    """A daemon on a data folder of its own; both are gone afterwards, whatever happened."""
    scratch = Path(tempfile.mkdtemp(prefix="mnemo-try-"))
    environ = {name: value for name, value in invocation.environ.items() if not name.startswith("XDG_RUNTIME")}
    environ = {
        # Models that are installed are used where they stand, and only read.
        **_models_folder(invocation),
        **environ,
        "MNEMO_DATA_DIR": str(scratch),
        "MNEMO_SOCKET": str(scratch / "mnemo.sock"),
        "MNEMO_CONFIG": str(scratch / "config.toml"),
    }
    (scratch / "config.toml").touch()
    client = Client(socket_path(environ), door="cli")
    pid = 0
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    try:
        pid = launch.start(environ, socket_path(environ), invocation.tell)
        yield client
    finally:
        invocation.terminal.clear_progress()
        _stop(client, pid)
        shutil.rmtree(scratch, ignore_errors=True)


def _stop(client: Client, pid: int) -> None:
    """A daemon that does not stop when it is asked to is ended: what it holds is thrown away anyhow."""
    client.timeout = STOP_SECONDS
    client.close()
    try:
        launch.stop(client, STOP_SECONDS)
    except MnemoError:
        if pid:
            os.kill(pid, signal.SIGKILL)
    client.close()


def _models_folder(invocation: Invocation) -> dict[str, str]:
    """The variable that leads the scratch daemon to the person's own models, where their configuration names a folder;
    elsewhere it finds them by itself."""
    import tomllib

    try:
        section = tomllib.loads(config_file(invocation.environ).read_text(encoding="utf-8")).get("models", {})
    except (OSError, ValueError):
        return {}
    named = section.get("folder") if isinstance(section, dict) else None
    return {"MNEMO_MODELS_FOLDER": named} if isinstance(named, str) and named else {}


def _files(status: protocol.Status) -> int:
    return sum(root.files for root in status.notes.roots)


def _wait_for_notes(invocation: Invocation, client: Client) -> protocol.Status:
    """The status once every file has been read, or once there is something to ask after a long while."""
    deadline = time.monotonic() + FIRST_NOTES_SECONDS
    while True:
        status = client.status()
        roots = status.notes.roots
        is_read = bool(roots) and all(root.state in ("watching", "polling") and not root.waiting for root in roots)
        if is_read or time.monotonic() > deadline:
            return status
        passages = display.plural(status.memories, "passage")
        invocation.terminal.progress(f"reading the notes: {display.plural(_files(status), 'file')}, {passages}")
        time.sleep(POLL_SECONDS)


def _wait_for_vectors(invocation: Invocation, client: Client) -> bool:
    """Whether every passage has its vector now; says why where that will not be."""
    deadline = time.monotonic() + VECTORS_SECONDS
    while time.monotonic() < deadline:
        status = client.status()
        model, vectors = status.models.get("embedding"), status.views.get("vectors")
        if model is None or model.state == "absent":
            invocation.tell(f"To find by meaning too, fetch a model first: mnemo models pull {DEFAULT_MODEL}")
            return False
        if model.state == "failed":
            invocation.tell(f"The embedding model cannot be used: {model.reason or 'see mnemo doctor'}")
            return False
        if model.state == "ready" and vectors is not None and vectors.share >= 1:
            return True
        share = vectors.share if vectors is not None else 0.0
        invocation.terminal.progress(f"building the vectors: {display.percent(share)}   (^C to stop)")
        time.sleep(POLL_SECONDS)
    invocation.tell("The vectors take longer than this trial waits.")
    return False


def _ask(invocation: Invocation, client: Client, questions: Sequence[Question], ranker: str) -> None:
    look = invocation.look
    for question in questions:
        request = recall_protocol.RecallRequest(query=question.text, top_k=HITS, highlight=True, dry=True)
        request.ranker = "words" if ranker == "words" else "auto"
        answer = client.recall(request)
        origin = look.dim(f"(from {plain(question.origin)})")
        invocation.say("", f"{look.bold('?')} {plain(question.text)}  {origin}")
        invocation.say(*display.hits(answer.memories, look, invocation.here, invocation.home))
        invocation.say(display.recall_summary(answer, None, look))
    invocation.say("")


# Questions from the notes' own text


def make_questions(passages: Sequence[protocol.MemoryView], count: int = QUESTIONS) -> list[Question]:
    """Up to `count` questions that the passages should answer, from as many files as there are.

    A heading that stands over one passage only is asked as it is; where there is none, the rarest words of a passage
    are. The choice depends on the passages alone: the same folder gives the same questions.
    """
    headings = Counter(_heading(passage) for passage in passages)
    frequencies = Counter(word for passage in passages for word in _words(passage))
    by_heading = [
        passage for passage in passages if headings[_heading(passage)] == 1 and _is_telling(_heading(passage))
    ]
    makers: tuple[tuple[Sequence[protocol.MemoryView], Callable[[protocol.MemoryView], str]], ...] = (
        (by_heading, _heading),
        (passages, lambda passage: _rarest(passage, frequencies)),
    )
    questions: list[Question] = []
    # Each file once; a folder of few files gives the rest of them a second time.
    for files in (set[str](), None):
        for candidates, make in makers:
            for passage in _spread(candidates, count):
                question = Question(make(passage), _path(passage))
                is_new = question.text and question not in questions and (files is None or question.origin not in files)
                if len(questions) < count and is_new:
                    questions.append(question)
                    if files is not None:
                        files.add(question.origin)
    return [question._replace(origin=Path(question.origin).name) for question in questions]


def _path(passage: protocol.MemoryView) -> str:
    return passage.note.path if passage.note is not None else passage.id


def _spread(passages: Sequence[protocol.MemoryView], count: int) -> list[protocol.MemoryView]:
    """Evenly spaced ones first, then all the others, in the order of their files."""
    ordered = sorted(
        passages, key=lambda passage: (passage.note.path, passage.note.ordinal) if passage.note else ("", 0)
    )
    chosen = [ordered[(2 * part + 1) * len(ordered) // (2 * count)] for part in range(count)] if ordered else []
    return chosen + ordered


def _heading(passage: protocol.MemoryView) -> str:
    """The heading above the passage, without the number that counts it; empty where there is none."""
    heading = passage.note.headings[-1].strip() if passage.note is not None and passage.note.headings else ""
    return _COUNT.sub("", heading)


def _is_telling(heading: str) -> bool:
    """Whether it reads as a question; code, and paths such as those of routes, do not."""
    if "`" in heading or "/" in heading:
        return False
    words = _WORD.findall(heading)
    return HEADING_WORDS[0] <= len(words) <= HEADING_WORDS[1] and any(len(word) >= WORD_CHARS_MIN for word in words)


def _words(passage: protocol.MemoryView) -> set[str]:
    return {word.lower() for word in _WORD.findall(passage.content) if len(word) >= WORD_CHARS_MIN}


def _rarest(passage: protocol.MemoryView, frequencies: Counter[str]) -> str:
    """The passage's rarest words, in the order in which they stand there."""
    first_places = {word: place for place, word in reversed(list(enumerate(_WORD.findall(passage.content.lower()))))}
    rarest = sorted(_words(passage), key=lambda word: (frequencies[word], first_places.get(word, 0)))[:RARE_WORDS]
    return " ".join(sorted(rarest, key=lambda word: first_places.get(word, 0))) if len(rarest) >= 2 else ""
