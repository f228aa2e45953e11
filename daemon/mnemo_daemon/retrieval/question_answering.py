"""Answers to questions from what was recalled, and from nothing else. SPEC 11"""

import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from mnemo_core.llm.question_answer import ANSWER, SOURCES_MAX, best_sentence
from mnemo_core.llm.tasks import RecalledSource, TaskInputs
from mnemo_core.text.dates.local_days import local_time
from mnemo_daemon.models.task_runner import TaskRunner
from mnemo_daemon.retrieval.question import Hit
from mnemo_daemon.times import utc_offset

SOURCE_CHARACTERS = 1000  # of a longer text, the passage that answers best is read
UNKNOWN = "I don't know."


class QuotedHit(NamedTuple):
    """A memory that an answer rests on, and its sentence that says it."""

    hit: Hit
    quote: str


class AnsweredQuestion(NamedTuple):
    """The sentences of an answer, each with the memories that it rests on; none where they do not hold it."""

    sentences: list[tuple[str, list[QuotedHit]]]
    method: Literal["llm", "quotes"]
    reason: str = ""  # why no language model answered

    @property
    def text(self) -> str:
        return " ".join(text for text, _ in self.sentences) or UNKNOWN


def answer_question(
    question: str, hits: Sequence[Hit], tasks: TaskRunner, until: float, is_cancelled: Callable[[], bool]
) -> AnsweredQuestion:
    """Answer from the first hits; the order of the hits is that of their relevance.

    Waits for the language model, at most until a time of the monotonic clock: questions wait for a thread before this.
    """
    read = [hit for hit in hits if hit.details.memory.content.strip()][:SOURCES_MAX]
    if not read:
        return AnsweredQuestion([], "quotes")
    sources = tuple(_source_text(hit) for hit in read)
    inputs = TaskInputs(sources, question, tuple(map(_recalled, read)))
    result = tasks.run(ANSWER, inputs, max(0.0, until - time.monotonic()), is_cancelled)
    sentences = [
        (
            sentence.text,
            [
                QuotedHit(read[n - 1], best_sentence(sources[n - 1], sentence.text))
                for n in dict.fromkeys(sentence.sources)
            ],
        )
        for sentence in result.answer.sentences
    ]
    return AnsweredQuestion(sentences, "llm" if result.method == "llm" else "quotes", result.reason)


def _source_text(hit: Hit) -> str:
    content = hit.details.memory.content
    if len(content) <= SOURCE_CHARACTERS:
        return content
    return (hit.best.text if hit.best is not None else content)[:SOURCE_CHARACTERS]


def _recalled(hit: Hit) -> RecalledSource:
    """The speaker and date of a hit, its sentence that answers best and its score; an older value answers nothing."""
    memory = hit.details.memory
    parts = [memory.speaker] if memory.speaker else []
    if memory.note is None or memory.note.dated:
        day, _ = local_time(memory.event_at, utc_offset)
        parts.append(f"{day.day} {day:%B %Y}")  # in words, so that an answer can repeat them
    if hit.was:
        parts.append("no longer true")
    quote = hit.best.sentence if hit.best is not None else ""
    return RecalledSource(", ".join(parts), quote, 0.0 if hit.was else hit.score)
