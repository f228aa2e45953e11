"""`mnemo try FOLDER`: a demonstration on a folder of notes, with nothing installed and nothing stored.

A temporary daemon reads the notes; three questions made from their own text are answered by words at once, and by
meaning as soon as the vectors exist. They are made of words that other notes have too and without those of the title
and headings, so that an answer can be wrong, and how many are right is said. At the end, and on ^C, the daemon stops
and its folder is removed."""

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from mnemo_client.cli import scratch_daemon
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.answers import hit_lines, recall_summary
from mnemo_client.cli.format.units import plural, short_path
from mnemo_client.cli.terminal import sanitize
from mnemo_client.client import Client
from mnemo_client.errors import NotFoundError
from mnemo_client.protocol.choices import Ranker
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.retrieval import RecallAnswer
from mnemo_client.protocol.status import StatusAnswer

QUESTIONS = 3
HITS = 2  # shown for each question
PASSAGES_SAMPLED = 500  # the maximum of a list (SPEC 13)
QUESTION_WORDS = 3
SHARE_MAX = 0.2  # of the passages that have a word of a question, where there are enough others
WORD_CHARS_MIN = 5
FIRST_NOTES_SECONDS = 60.0
VECTORS_SECONDS = 900.0
POLL_SECONDS = 0.2

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


class TrialQuestion(NamedTuple):
    text: str
    origin: str  # the note it comes from


def run(context: CommandContext) -> None:
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
    return [
        client.recall(each.text, top_k=HITS, highlight=True, dry=True, ranker=ranker, time="off") for each in questions
    ]


def _trial_lines(
    context: CommandContext, questions: Sequence[TrialQuestion], answers: Sequence[RecallAnswer]
) -> Iterator[str]:
    style = context.style
    for question, answer in zip(questions, answers, strict=True):
        origin = style.dim(f"(from {sanitize(question.origin)})")
        yield from ("", f"{style.bold('?')} {sanitize(question.text)}  {origin}")
        yield from hit_lines(answer.memories, style, context.cwd, context.home)
        yield from recall_summary(answer, None, style)
    right = sum(
        bool(answer.memories) and Path(_path(answer.memories[0])).name == question.origin
        for question, answer in zip(questions, answers, strict=True)
    )
    yield from ("", f"{right} of {len(questions)}: the first hit is in the note that the question was made of", "")


# Questions from the notes' own text


def make_questions(passages: Sequence[MemoryView]) -> list[TrialQuestion]:
    """Return up to QUESTIONS questions that the passages should answer, from as many files as possible.

    The choice depends on the passages alone: the same folder gives the same questions.
    """
    frequencies = Counter(word for passage in passages for word in _words(passage))
    often = max(2, SHARE_MAX * len(passages))
    questions: list[TrialQuestion] = []
    # Each file once; in a folder of few files, a second round takes the remaining questions.
    for files in (set[str](), None):
        for passage in _evenly_spaced(passages, QUESTIONS):
            question = TrialQuestion(_question_words(passage, frequencies, often), _path(passage))
            is_new = question.text and question not in questions and (files is None or question.origin not in files)
            if len(questions) < QUESTIONS and is_new:
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


def _words(passage: MemoryView) -> set[str]:
    return {word.lower() for word in _WORD.findall(passage.content) if len(word) >= WORD_CHARS_MIN}


def _question_words(passage: MemoryView, frequencies: Counter[str], often: float) -> str:
    """Return words of the passage that others have too, the rarest of them, else its own, in the order of the text."""
    first_places = {word: place for place, word in reversed(list(enumerate(_WORD.findall(passage.content.lower()))))}
    shown = passage.note.trail if passage.note is not None else ""
    words = _words(passage) - {word.lower() for word in _WORD.findall(shown)}
    rarest = sorted(
        words, key=lambda word: (not 2 <= frequencies[word] <= often, frequencies[word], first_places.get(word, 0))
    )[:QUESTION_WORDS]
    return " ".join(sorted(rarest, key=lambda word: first_places.get(word, 0))) if len(rarest) >= 2 else ""
