"""The task `resume_compress`: one short line for each memory that the budget of the resume has no room for. SPEC 11

A line stands for one memory, so that it can be verified against that memory alone, and the caller counts the rest.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from mnemo_core.llm.tasks import LlmTask, Probe, TaskInputs
from mnemo_core.llm.writing.summarize import rejection_of_digest, select_sentences

LINES_MAX = 16
LINE_CHARACTERS = 120

_SourceNumber = Annotated[int, Meta(ge=1, le=LINES_MAX)]


class ResumeLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line, and the number of the memory that it stands for."""

    source: _SourceNumber
    text: Annotated[str, Meta(min_length=1, max_length=LINE_CHARACTERS)]


class CompressedResume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the task: at most one line a memory."""

    lines: Annotated[tuple[ResumeLine, ...], Meta(max_length=LINES_MAX)]


def validate_resume(answer: CompressedResume, inputs: TaskInputs) -> str:
    """Return why lines are rejected; "" if each is a shorter form of its memory."""
    if not answer.lines:
        return "it has no line"
    numbers = [line.source for line in answer.lines]
    if len(set(numbers)) < len(numbers):
        return "it has two lines for a source"
    if max(numbers) > len(inputs.sources):
        return f"there is no source {max(numbers)}"
    if "\n" in "".join(line.text for line in answer.lines):
        return "a line has a line break"
    reasons = (rejection_of_digest(line.text, [inputs.sources[line.source - 1]]) for line in answer.lines)
    return next(filter(None, reasons), "")


def select_lines(inputs: TaskInputs) -> CompressedResume:
    """Select of each memory the sentence that covers most."""
    lines = (
        ResumeLine(number, select_sentences([source], LINE_CHARACTERS, 1))
        for number, source in enumerate(inputs.sources[:LINES_MAX], start=1)
        if source.strip()
    )
    return CompressedResume(tuple(lines))


def is_short(inputs: TaskInputs) -> bool:
    """Return whether each memory is a line as it is."""
    return all(len(source.splitlines()) < 2 and len(source) <= LINE_CHARACTERS for source in inputs.sources)


def _probe(*said: str) -> Probe:
    """Memories of which each has one thing to keep."""
    sources = tuple(f"As we discussed at some length in the meeting about this and that, {each}" for each in said)

    def keeps_all(answer: CompressedResume) -> bool:
        found = {line.source: line.text for line in answer.lines}
        return all(each.split()[-1].rstrip(".") in found.get(number, "") for number, each in enumerate(said, start=1))

    return Probe(TaskInputs(sources), keeps_all)


RESUME_COMPRESS = LlmTask(
    site="resume_compress",
    instruction=(
        "Shorten each source to one short line in its own words. Keep names, numbers and conditions, and add nothing. "
        "Give with each line the number of its source."
    ),
    answer=CompressedResume,
    validate=validate_resume,
    fallback=select_lines,
    is_clear=is_short,
    max_tokens=700,
    probes=(
        _probe("the proxy listens on port 8080."),
        _probe("Anna moved to Berlin.", "the release is on Friday."),
        _probe("Tom is allergic to nuts.", "the backup runs at 02:30."),
        _probe("the cellar key is with Marta.", "the flat has 3 rooms.", "the rent is due on Monday."),
    ),
)
