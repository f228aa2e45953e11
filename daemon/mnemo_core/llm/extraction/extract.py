"""The task `extract`: the statements of a text, each a sentence that can be understood by itself. SPEC 5.6, 12.2 [E3]

Importance and confidence are not asked for: importance is scored like that of any memory, and a model's word on how
sure it is tells nothing.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from mnemo_core.llm.extraction.statement_support import SourceSentence, read_source, unsupported_reason
from mnemo_core.llm.grounding import rejection_of
from mnemo_core.llm.tasks import LlmTask, Probe, TaskInputs
from mnemo_core.text.segmentation import line_spans
from mnemo_core.text.syntax.statements import Statement, extract_statements

STATEMENT_CHARACTERS = 240  # [E3]
STATEMENTS_MAX = 6  # of one call


class StatementList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the task."""

    statements: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=STATEMENT_CHARACTERS)], ...], Meta(max_length=STATEMENTS_MAX)
    ]


def usable_statements(answer: StatementList, inputs: TaskInputs) -> StatementList:
    """The statements that a source supports, each once; all where there is none."""
    source = _read(inputs)
    kept = tuple(each for each in dict.fromkeys(answer.statements) if not _rejection(each, inputs, source))
    return StatementList(kept) if kept else answer


def validate_statements(answer: StatementList, inputs: TaskInputs) -> str:
    """Return why a list is rejected; "" if the sources support every statement."""
    source = _read(inputs)
    return next(filter(None, (_rejection(each, inputs, source) for each in answer.statements)), "")


def quote_statements(inputs: TaskInputs) -> StatementList:
    """The sentences of the sources that stand alone, by rules; what a rule reworded only if it is supported."""
    source = _read(inputs)
    found = dict.fromkeys(each.text for each in _by_rules(inputs) if len(each.text) <= STATEMENT_CHARACTERS)
    return StatementList(tuple(each for each in found if not _rejection(each, inputs, source))[:STATEMENTS_MAX])


def is_taken_by_rules(inputs: TaskInputs) -> bool:
    """Return whether the rules take a statement from every sentence of the sources."""
    for number, source in enumerate(inputs.sources):
        starts = [each.start for each in extract_statements(source, _speaker(inputs, number))]
        for start, end in line_spans(source):
            if source[start:end].strip() and not any(start <= each < end for each in starts):
                return False
    return True


def _by_rules(inputs: TaskInputs) -> list[Statement]:
    return [
        each
        for number, source in enumerate(inputs.sources)
        for each in extract_statements(source, _speaker(inputs, number))
    ]


def _speaker(inputs: TaskInputs, number: int) -> str:
    return inputs.recalled[number].origin if number < len(inputs.recalled) else ""


def _read(inputs: TaskInputs) -> list[SourceSentence]:
    return [sentence for source in inputs.sources for sentence in read_source(source)]


def _rejection(statement: str, inputs: TaskInputs, source: list[SourceSentence]) -> str:
    known = [*inputs.sources, *(each.origin for each in inputs.recalled)]
    return rejection_of(statement, known) or unsupported_reason(statement, source)


def _probe(source: str, *statements: str) -> Probe:
    """A probe that is right if these statements, and none that a source does not support, are in the answer."""
    wanted = {each.rstrip(".") for each in statements}
    return Probe(TaskInputs((source,)), lambda answer: wanted <= {each.rstrip(".") for each in answer.statements})


EXTRACT = LlmTask(
    site="extract",
    instruction=(
        "List the facts that the source states, each as one short sentence in the words of the source. Write the name "
        "of a person instead of he or she. Keep not, never, maybe and if. Leave out questions, greetings and requests."
    ),
    answer=StatementList,
    validate=validate_statements,
    fallback=quote_statements,
    usable_parts=usable_statements,
    is_clear=is_taken_by_rules,
    max_tokens=240,
    deadline_s=60.0,
    probes=(
        _probe("Anna lives in Lisbon. She works at a bank.", "Anna works at a bank"),
        _probe("Ben bought a red bicycle. He rides it to work.", "Ben bought a red bicycle"),
        _probe("Hello! Maria has two sisters. How are you?", "Maria has two sisters"),
        _probe("Tom does not eat meat. He likes fish.", "Tom does not eat meat", "Tom likes fish"),
        _probe("The museum opens at nine. Laura is the director. She studied in Rome.", "Laura studied in Rome"),
    ),
)
