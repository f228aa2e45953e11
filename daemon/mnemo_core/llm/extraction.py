"""Extraction of statements from a text, and of facts from statements, by a model. SPEC 5.6, 12.2, 12.3 [E3, G45]

`extract`: the statements of a text, each a sentence that can be understood by itself. Importance and confidence are not
asked for: importance is scored like that of any memory, and a model's word on how sure it is tells nothing.

A statement has to say what one sentence of its source says. Grounded words are not enough: "Ada works at the bank" may
have every word of two sentences of which one speaks of Ada and the other of the bank. A statement is supported by a
sentence if it has its words in their order, from its beginning or from where a further clause begins, with the subject,
to the end of a clause; and if it is as negated, hedged and conditional. Only one thing may be another: a pronoun at the
beginning, for which the one person stands whom the source names before. What is worded otherwise is rejected: that
costs the statement, the other mistake an invention.

`fact_extract`: subject, predicate and object of statements.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from mnemo_core.llm.faithfulness import rejection_of
from mnemo_core.llm.tasks import LlmTask, Probe, TaskInputs
from mnemo_core.text.languages import line_spans, sentences
from mnemo_core.text.syntax import clauses, english
from mnemo_core.text.syntax.english import qualifiers
from mnemo_core.text.syntax.statements import (
    OBJECT_WORDS_MAX,
    SENTENCE_CHARS_MAX,
    Triple,
    extract_statements,
    extract_triple,
)

_PERSON_PRONOUNS = {"he": "", "she": "", "his": "'s", "her": "'s"}  # at the beginning, and the ending of a name there
_CONJUNCTIONS = frozenset(("and", "but"))


class SourceSentence(NamedTuple):
    """A sentence of a source in words, and the person whom a pronoun at its beginning means: "" where that is open."""

    words: tuple[clauses.SentenceWord, ...]
    qualifiers: frozenset[str]
    person: str


def read_source(source: str) -> list[SourceSentence]:
    """The sentences of a source. Linear in its length."""
    found: list[SourceSentence] = []
    people: dict[str, None] = {}
    for sentence in sentences(source):
        if len(sentence) > SENTENCE_CHARS_MAX:
            people[""] = None  # nobody knows who is named in it
            continue
        words = tuple(clauses.without_connector(clauses.words_of(sentence, 0)))
        person = next(iter(people), "") if len(people) == 1 else ""
        for word in words:
            name = word.bare.removesuffix("'s")
            if word.raw[:1].isupper() and name in english.GIVEN_NAMES:
                people[name] = None
        found.append(SourceSentence(words, qualifiers(sentence), person if len(people) == 1 else ""))
    return found


def unsupported_reason(statement: str, source: Sequence[SourceSentence]) -> str:
    """Return why a statement must not be used; "" if a sentence of the source says it."""
    if not extract_statements(statement):
        return "it is no statement that can be understood by itself"
    words = clauses.words_of(statement, 0)
    if any(word.bare in clauses.FIRST | clauses.OURS for word in words):
        return "it does not say who speaks"
    said = [word.bare for word in words]
    own = qualifiers(statement)
    for sentence in source:
        if own == sentence.qualifiers and said in _wordings(sentence):
            return ""
    return "no sentence of the source says it"


def _wordings(sentence: SourceSentence) -> Iterator[list[str]]:
    """The statements that a sentence supports, as words in small letters."""
    words = sentence.words
    bare = [word.bare for word in words]
    if not bare:
        return
    if bare[0] in _PERSON_PRONOUNS:
        if not sentence.person:
            return
        bare[0] = sentence.person + _PERSON_PRONOUNS[bare[0]]
    main = clauses.find_main_clause(words)
    # before which words a clause may end
    ends = [at for at in range(1, len(words)) if bare[at] in _CONJUNCTIONS or words[at - 1].raw.endswith((",", ";"))]
    yield bare
    yield from (bare[:end] for end in ends)
    if main is None or not main.subject_end:
        return
    subject = bare[: main.subject_end]
    for start in ends:
        if start > main.verb:
            begin = start + (bare[start] in _CONJUNCTIONS)
            end = next((at for at in ends if at > begin), len(words))
            yield [*subject, *bare[begin:end]]


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
    found = dict.fromkeys(
        each.text
        for number, text in enumerate(inputs.sources)
        for each in extract_statements(text, _speaker(inputs, number))
        if len(each.text) <= STATEMENT_CHARACTERS
    )
    return StatementList(tuple(each for each in found if not _rejection(each, inputs, source))[:STATEMENTS_MAX])


def is_taken_by_rules(inputs: TaskInputs) -> bool:
    """Return whether the rules take a statement from every sentence of the sources."""
    for number, source in enumerate(inputs.sources):
        starts = [each.start for each in extract_statements(source, _speaker(inputs, number))]
        for start, end in line_spans(source):
            if source[start:end].strip() and not any(start <= each < end for each in starts):
                return False
    return True


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
    answer=StatementList, validate=validate_statements, fallback=quote_statements, usable_parts=usable_statements,
    is_clear=is_taken_by_rules, max_tokens=240, deadline_s=60.0,
    probes=(
        _probe("Anna lives in Lisbon. She works at a bank.", "Anna works at a bank"),
        _probe("Ben bought a red bicycle. He rides it to work.", "Ben bought a red bicycle"),
        _probe("Hello! Maria has two sisters. How are you?", "Maria has two sisters"),
        _probe("Tom does not eat meat. He likes fish.", "Tom does not eat meat", "Tom likes fish"),
        _probe("The museum opens at nine. Laura is the director. She studied in Rome.", "Laura studied in Rome"),
    ),
)  # fmt: skip

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
    """Return why a triple is rejected; "" if the statement supports it. Its words are those of the statement from the
    beginning to the end, in their order, but for articles, forms of a verb, and what stands behind a comma."""
    statement = inputs.sources[0]
    if answer.triple is None:
        return ""
    if qualifiers(statement):
        return "the statement is negated, hedged, a report or a supposition"
    parts = [_words_of(part) for part in answer.triple]
    if not all(parts) or len(parts[2]) > OBJECT_WORDS_MAX:
        return "a part is empty or too long"
    if parts[0][0] in clauses.THIRD or not _VERBS.intersection(parts[1]):
        return "the subject is a pronoun, or the predicate has no verb"
    if reason := rejection_of(f"{answer.subject} {answer.object}", [statement]):
        return reason
    said, beginning = [word for part in parts for word in part], statement.partition(",")[0]
    return "" if said in (_words_of(beginning), _words_of(statement)) else "it says something else than the statement"


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


def _words_of(text: str) -> list[str]:
    """The words of a text without articles, verbs of the present in their base form."""
    words = (word.bare for word in clauses.words_of(text, 0))
    return [english.BASE_OF_THIRD.get(word, word) for word in words if word not in _ARTICLES]


def _triple_probe(statement: str, *triple: str) -> Probe:
    """A probe that is right if this triple is the answer."""
    wanted = [_words_of(part) for part in triple]
    return Probe(TaskInputs((statement,)), lambda answer: [_words_of(part) for part in answer.triple or ()] == wanted)


FACT_EXTRACT = LlmTask(
    site="fact_extract",
    instruction=(
        "Split the source into subject, predicate and object, in its own words: who or what, the verb with its "
        "preposition, and the rest. Example: Eva works at the station. Subject Eva, predicate works at, object the "
        "station."
    ),
    answer=TripleAnswer, validate=validate_triple, fallback=read_triple, is_clear=is_plain, max_tokens=150,
    probes=(
        _triple_probe("Anna likes tea.", "Anna", "likes", "tea"),
        _triple_probe("Maria lives in Porto.", "Maria", "lives in", "Porto"),
        _triple_probe("The bakery sells bread.", "The bakery", "sells", "bread"),
        _triple_probe("Tom repaired the old clock.", "Tom", "repaired", "the old clock"),
        _triple_probe("Laura is the director of the museum.", "Laura", "is", "the director of the museum"),
    ),
)  # fmt: skip
