"""Verification that a statement of a model says what one sentence of its source says. SPEC 12.3

Grounded words are not enough: "Ada works at the bank" may have every word of two sentences of which one speaks of Ada
and the other of the bank. A statement is supported by a sentence if it has its words in their order, from its beginning
or from where a further clause begins, with the subject, to the end of a clause; and if it is as negated, hedged and
conditional. Only one thing may be another: a pronoun at the beginning, for which the one person stands whom the source
names before. What is worded otherwise is rejected: that costs the statement, the other mistake an invention.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mnemo_core.text.segmentation import sentences
from mnemo_core.text.syntax import clauses, english
from mnemo_core.text.syntax.english import qualifiers
from mnemo_core.text.syntax.statements import SENTENCE_CHARS_MAX, extract_statements

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
        people |= dict.fromkeys(_people(words))
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
    ends = [at for at in range(1, len(words)) if _ends_clause(words, at)]
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


def _ends_clause(words: Sequence[clauses.SentenceWord], at: int) -> bool:
    """Return whether a clause may end before a word."""
    return words[at].bare in _CONJUNCTIONS or words[at - 1].raw.endswith((",", ";"))


def _people(words: Sequence[clauses.SentenceWord]) -> Iterator[str]:
    """The first names in a sentence, in small letters."""
    for word in words:
        bare = word.bare.removesuffix("'s")
        if word.raw[:1].isupper() and bare in english.GIVEN_NAMES:
            yield bare
