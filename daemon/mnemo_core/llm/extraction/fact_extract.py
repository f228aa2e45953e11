"""The task `fact_extract`: subject, predicate and object of statements. SPEC 5.6, 12.2 [G45]"""

from typing import Annotated

import msgspec
from msgspec import Meta

from mnemo_core.llm.grounding import rejection_of
from mnemo_core.llm.tasks import LlmTask, Probe, TaskInputs
from mnemo_core.text.syntax import clauses, english
from mnemo_core.text.syntax.english import qualifiers
from mnemo_core.text.syntax.statements import OBJECT_WORDS_MAX, Triple, extract_triple

FIELD_CHARACTERS = 120  # of what a model writes; the fact graph takes 512 [G45]

_Part = Annotated[str, Meta(max_length=FIELD_CHARACTERS)]


class TripleAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the task; three empty texts where the statement has none."""

    subject: _Part = ""
    predicate: _Part = ""
    object: _Part = ""

    @property
    def triple(self) -> Triple | None:
        return Triple(self.subject, self.predicate, self.object) if self != TripleAnswer() else None


def validate_triple(answer: TripleAnswer, inputs: TaskInputs) -> str:
    """Return why a triple is rejected; "" if the statement supports it.

    Its words are those of the statement from the beginning to the end, in their order, but for articles, forms of a
    verb, and what stands behind a comma.
    """
    statement = inputs.sources[0]
    if answer.triple is None:
        return ""
    if qualifiers(statement):
        return "the statement is negated, hedged, a report or a supposition"
    parts = [_words(part) for part in answer.triple]
    if not all(parts) or len(parts[2]) > OBJECT_WORDS_MAX:
        return "a part is empty or too long"
    if parts[0][0] in clauses.THIRD or not _VERBS.intersection(parts[1]):
        return "the subject is a pronoun, or the predicate has no verb"
    if reason := rejection_of(f"{answer.subject} {answer.object}", [statement]):
        return reason
    said, beginning = [word for part in parts for word in part], statement.partition(",")[0]
    return "" if said in (_words(beginning), _words(statement)) else "it says something else than the statement"


def read_triple(inputs: TaskInputs) -> TripleAnswer:
    """The triple of a plain statement, by rules; of those that are worded by a rule, only the supported."""
    found = extract_triple(inputs.sources[0])
    if found is None or max(map(len, found)) > FIELD_CHARACTERS:
        return TripleAnswer()
    answer = TripleAnswer(*found)
    return TripleAnswer() if validate_triple(answer, inputs) else answer


def is_plain(inputs: TaskInputs) -> bool:
    """Return whether the rules read a triple from the statement, or it can have none."""
    return extract_triple(inputs.sources[0]) is not None or bool(qualifiers(inputs.sources[0]))


_VERBS = (
    english.BASE_OF_PAST.keys() | english.BASE_OF_THIRD.keys() | english.BE | english.AUX_ONE | english.AUX_MANY
    | frozenset(english.BASE_OF_THIRD.values())
)  # fmt: skip
_ARTICLES = frozenset(("a", "an", "the"))


def _words(text: str) -> list[str]:
    """The words of a text without articles, verbs of the present in their base form."""
    words = (word.bare for word in clauses.words_of(text, 0))
    return [english.BASE_OF_THIRD.get(word, word) for word in words if word not in _ARTICLES]


def _probe(statement: str, *triple: str) -> Probe:
    """A probe that is right if this triple is the answer."""
    wanted = [_words(part) for part in triple]
    return Probe(TaskInputs((statement,)), lambda answer: [_words(part) for part in answer.triple or ()] == wanted)


FACT_EXTRACT = LlmTask(
    site="fact_extract",
    instruction=(
        "Split the source into subject, predicate and object, in its own words: who or what, the verb with its "
        "preposition, and the rest. Example: Eva works at the station. Subject Eva, predicate works at, object the "
        "station."
    ),
    answer=TripleAnswer,
    validate=validate_triple,
    fallback=read_triple,
    is_clear=is_plain,
    max_tokens=150,
    probes=(
        _probe("Anna likes tea.", "Anna", "likes", "tea"),
        _probe("Maria lives in Porto.", "Maria", "lives in", "Porto"),
        _probe("The bakery sells bread.", "The bakery", "sells", "bread"),
        _probe("Tom repaired the old clock.", "Tom", "repaired", "the old clock"),
        _probe("Laura is the director of the museum.", "Laura", "is", "the director of the museum"),
    ),
)
