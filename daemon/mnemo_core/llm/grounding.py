"""Verification that a text written by a language model rests on its sources. SPEC 12.3

The specifics of a text are its numbers (with their units), dates, identifiers and names, in the canonical form in which
the guard compares texts, so that `three` supports `3` and `5 January 2026` supports `2026-01-05`. A name is a word with
a capital, also at the start of a sentence, and in scripts without capitals every word. A rewording that no rule knows
counts as a specific of its own: that costs the answer, where the other mistake would put an invention into the store.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from mnemo_core.llm.content_words import EMPTY_WORDS
from mnemo_core.text.canonical import canonical_form
from mnemo_core.text.characters import WORD
from mnemo_core.text.dates.date_words import MONTHS
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.segmentation import sentences
from mnemo_core.text.tokens import normalize_notation

SpecificKind = Literal["number", "date", "identifier", "name"]
_DATE = lazy_pattern(r"(?:[0-9]+|-)-(?P<month>[0-9]{2})(?![0-9])")  # as a token: 2023-05-08, 2023-05, --05-08, --05


class Specific(NamedTuple):
    """A value that a text cannot know unless a source has it."""

    kind: SpecificKind
    value: str


def unsupported_specific(text: str, sources: Sequence[str]) -> Specific | None:
    """Return the first specific of a text that stands in none of the sources; None if they support all of them."""
    specifics = _specifics(text)
    if not specifics:
        return None
    parts = [part for source in sources for part in (source, *sentences(source))]  # a part may have its own language
    known = {specific for part in parts for specific in _specifics(part)}
    known |= {broader for specific in known for broader in _broader(specific)}
    words = {word for part in parts for word in _words(part)}
    for specific in specifics:
        if specific not in known and not (specific.kind == "name" and specific.value in words):
            return specific
    return None


def rejection_of(text: str, sources: Sequence[str]) -> str:
    """Return why a text must not be used, in words for a log; "" if the sources support all of it."""
    found = unsupported_specific(text, sources)
    return f"the {found.kind} {found.value!r} is in none of the sources" if found else ""


def loss_of(sources: Sequence[str], text: str) -> str:
    """Return what would be lost if a text replaced its sources, in words for a log; "" if it has all specifics."""
    for source in sources:
        if found := unsupported_specific(source, [text]):
            return f"the {found.kind} {found.value!r} of a source is lost"
    return ""


def _specifics(text: str) -> list[Specific]:
    found: list[Specific] = []
    tokens = canonical_form(text).tokens
    for token, after in itertools.zip_longest(tokens, tokens[1:]):
        if token.kind == "number" and after is not None and after.kind == "unit":
            found.append(Specific("number", f"{token.value} {after.value}"))
        elif token.kind in ("number", "date", "identifier"):
            found.append(Specific(token.kind, token.value))
    months = _months(found)
    return [*found, *(Specific("name", word) for word in _names(text) if MONTHS.get(word) not in months)]


def _months(specifics: Iterable[Specific]) -> frozenset[int]:
    """The months of the dates among the specifics: their names are a part of these dates, and name nobody."""
    dates = (_DATE.match(specific.value) for specific in specifics if specific.kind == "date")
    return frozenset(int(date["month"]) for date in dates if date)


def _names(text: str) -> Iterable[str]:
    """The words that may be names, in small letters."""
    for word in WORD.findall(normalize_notation(text)):
        has_capital = word != word.lower()
        is_caseless = word.isalpha() and word.lower() == word.upper()
        if (has_capital or is_caseless) and (small := word.casefold()) not in EMPTY_WORDS:
            yield small


def _words(text: str) -> Iterable[str]:
    """The words of a text in small letters, without the months of its dates."""
    words = [word.casefold() for word in WORD.findall(normalize_notation(text))]
    if not MONTHS.keys().isdisjoint(words):
        months = _months(_specifics(text))
        return (word for word in words if MONTHS.get(word) not in months)
    return words


def _broader(specific: Specific) -> Iterable[Specific]:
    """The less exact specifics that a specific supports: of a day its month and year, of an amount the number."""
    if specific.kind == "number" and " " in specific.value:
        yield Specific("number", specific.value.partition(" ")[0])
    elif specific.kind == "date" and (parts := specific.value.split("-"))[0].isdecimal():
        yield Specific("number", parts[0])
        yield Specific("date", "-".join(parts[:2]))
        yield Specific("date", "--" + "-".join(parts[1:]))
        yield from (Specific("date", f"--{month}") for month in parts[1:2])
