"""`mnemo try FOLDER`: a demonstration on a folder of notes, with nothing installed and nothing stored.

A temporary daemon reads the notes; three questions made from their own text are answered by words at once, and by
meaning as soon as the vectors exist. At the end, and on ^C, the daemon stops and its folder is removed."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from mnemo_client.cli import scratch_daemon
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.answers import hit_lines, recall_summary
from mnemo_client.cli.format.units import plural, short_path
from mnemo_client.cli.terminal import sanitize
from mnemo_client.client import Client
from mnemo_client.errors import EXIT_DONE, NotFoundError
from mnemo_client.protocol.choices import Ranker
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.retrieval import RecallAnswer
from mnemo_client.protocol.status import StatusAnswer

QUESTIONS = 3
HITS = 2  # shown for each question
PASSAGES_SAMPLED = 500  # the maximum of a list (SPEC 13)
HEADING_WORDS = (2, 8)  # of a heading that makes a question: fewer are too vague, more are sentences
RARE_WORDS = 4  # of a passage without such a heading
WORD_CHARS_MIN = 5
FIRST_NOTES_SECONDS = 60.0
VECTORS_SECONDS = 900.0
POLL_SECONDS = 0.2

_COUNT = re.compile(r"^[A-Z]?\d+(?:\.\d+)*[.):]*\s+")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


class TrialQuestion(NamedTuple):
    text: str
    origin: str  # the note it comes from


def run(context: CommandContext) -> int:
    folder, style = context.folder(context.options.folder), context.style
    began = time.monotonic()
    with scratch_daemon.scratch_daemon(context, "try") as client:
        client.add_root(folder)
        status = _wait_for_notes(context, client)
        questions = make_questions(client.list_memories(limit=PASSAGES_SAMPLED).memories)
        if not questions:
            raise NotFoundError(f"there is nothing to ask in {folder}: it has no notes with text")
        passages, files = plural(status.memories, "passage"), plural(_files(status), "file")
        trials = {"words": _ask_questions(client, questions, "words")}
        if not context.wants_json:
            seconds = time.monotonic() - began
            context.print(style.bold(f"By words, {seconds:.1f} s after the start ({passages} of {files}):"))
            context.print(*_trial_lines(context, questions, trials["words"]))
        if scratch_daemon.wait_for_vectors(context, client, VECTORS_SECONDS):
            trials["auto"] = _ask_questions(client, questions, "auto")
            if not context.wants_json:
                seconds = time.monotonic() - began
                context.print(style.bold(f"By meaning and by words, {seconds:.1f} s after the start:"))
                context.print(*_trial_lines(context, questions, trials["auto"]))
    report = {
        "passages": status.memories, "files": _files(status), "questions": [each._asdict() for each in questions],
        "answers": msgspec.to_builtins(trials),
    }  # fmt: skip
    if not context.print_json_if_asked(report):
        shown = short_path(str(folder), context.cwd, context.home)
        context.print("Nothing of this was stored. Next:", f"  mnemo init {shown}", "  mnemo recall WORDS")
    return EXIT_DONE


def _files(status: StatusAnswer) -> int:
    return sum(root.files for root in status.notes.roots)


def _wait_for_notes(context: CommandContext, client: Client) -> StatusAnswer:
    """Return the status when every file has been read, or after FIRST_NOTES_SECONDS."""
    deadline = time.monotonic() + FIRST_NOTES_SECONDS
    while True:
        status = client.status()
        roots = status.notes.roots
        is_read = bool(roots) and all(root.state in ("watching", "polling") and not root.waiting for root in roots)
        if is_read or time.monotonic() > deadline:
            return status
        passages = plural(status.memories, "passage")
        context.terminal.progress(f"reading the notes: {plural(_files(status), 'file')}, {passages}")
        time.sleep(POLL_SECONDS)


def _ask_questions(client: Client, questions: Sequence[TrialQuestion], ranker: Ranker) -> list[RecallAnswer]:
    return [client.recall(each.text, top_k=HITS, highlight=True, dry=True, ranker=ranker) for each in questions]


def _trial_lines(
    context: CommandContext, questions: Sequence[TrialQuestion], answers: Sequence[RecallAnswer]
) -> Iterator[str]:
    style = context.style
    for question, answer in zip(questions, answers, strict=True):
        origin = style.dim(f"(from {sanitize(question.origin)})")
        yield from ("", f"{style.bold('?')} {sanitize(question.text)}  {origin}")
        yield from hit_lines(answer.memories, style, context.cwd, context.home)
        yield recall_summary(answer, None, style)
    yield ""


# Questions from the notes' own text


def make_questions(passages: Sequence[MemoryView], count: int = QUESTIONS) -> list[TrialQuestion]:
    """Return up to `count` questions that the passages should answer, from as many files as possible.

    A heading of one passage only is a question as it is; if there is none, the rarest words of a passage are one. The
    choice depends on the passages alone: the same folder gives the same questions.
    """
    headings = Counter(_heading(passage) for passage in passages)
    frequencies = Counter(word for passage in passages for word in _words(passage))
    by_heading = [
        passage for passage in passages if headings[_heading(passage)] == 1 and _is_question_like(_heading(passage))
    ]
    makers: tuple[tuple[Sequence[MemoryView], Callable[[MemoryView], str]], ...] = (
        (by_heading, _heading),
        (passages, lambda passage: _rarest_words(passage, frequencies)),
    )
    questions: list[TrialQuestion] = []
    # Each file once; in a folder of few files, a second round takes the remaining questions.
    for files in (set[str](), None):
        for candidates, make in makers:
            for passage in _evenly_spaced(candidates, count):
                question = TrialQuestion(make(passage), _path(passage))
                is_new = question.text and question not in questions and (files is None or question.origin not in files)
                if len(questions) < count and is_new:
                    questions.append(question)
                    if files is not None:
                        files.add(question.origin)
    return [question._replace(origin=Path(question.origin).name) for question in questions]


def _path(passage: MemoryView) -> str:
    return passage.note.path if passage.note is not None else passage.id


def _evenly_spaced(passages: Sequence[MemoryView], count: int) -> list[MemoryView]:
    """Return evenly spaced passages first, then all of them, in the order of their files."""
    ordered = sorted(
        passages, key=lambda passage: (passage.note.path, passage.note.ordinal) if passage.note else ("", 0)
    )
    chosen = [ordered[(2 * part + 1) * len(ordered) // (2 * count)] for part in range(count)] if ordered else []
    return chosen + ordered


def _heading(passage: MemoryView) -> str:
    """Return the heading of the passage without its number; empty if there is none."""
    heading = passage.note.headings[-1].strip() if passage.note is not None and passage.note.headings else ""
    return _COUNT.sub("", heading)


def _is_question_like(heading: str) -> bool:
    """Return True if the heading can be asked as a question; code and paths cannot."""
    if "`" in heading or "/" in heading:
        return False
    words = _WORD.findall(heading)
    return HEADING_WORDS[0] <= len(words) <= HEADING_WORDS[1] and any(len(word) >= WORD_CHARS_MIN for word in words)


def _words(passage: MemoryView) -> set[str]:
    return {word.lower() for word in _WORD.findall(passage.content) if len(word) >= WORD_CHARS_MIN}


def _rarest_words(passage: MemoryView, frequencies: Counter[str]) -> str:
    """Return the passage's rarest words, in the order of the text."""
    first_places = {word: place for place, word in reversed(list(enumerate(_WORD.findall(passage.content.lower()))))}
    rarest = sorted(_words(passage), key=lambda word: (frequencies[word], first_places.get(word, 0)))[:RARE_WORDS]
    return " ".join(sorted(rarest, key=lambda word: first_places.get(word, 0))) if len(rarest) >= 2 else ""
