"""Verification that a text written by a language model rests on its sources. SPEC 12.3

The specifics of a text are its numbers (with their units), dates, identifiers and names, in the canonical form in which
the guard compares texts, so that `three` supports `3` and `5 January 2026` supports `2026-01-05`. A name is a word with
a capital, also at the start of a sentence, and in scripts without capitals every word. A rewording that no rule knows
counts as a specific of its own: that costs the answer, where the other mistake would put an invention into the store.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, get_args

from mnemo_core.text.canonical import CanonicalForm, canonical_form
from mnemo_core.text.dates.date_words import MONTHS
from mnemo_core.text.languages import EMPTY_WORDS, WORD
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.segmentation import sentences
from mnemo_core.text.tokens import normalize_notation

SpecificKind = Literal["number", "date", "identifier", "name"]
_DATE = lazy_pattern(r"(?:[0-9]+|-)-(?P<month>[0-9]{2})(?![0-9])")  # as a token: 2023-05-08, 2023-05, --05-08, --05
_KINDS = (*get_args(SpecificKind), "word")  # a word is none of the specifics, but some tasks want all in the sources
_UNSUPPORTED = "is in none of the sources"
_LOST = "of a source is lost"


class Specific(NamedTuple):
    """A value that a text cannot know unless a source has it."""

    kind: SpecificKind
    value: str


def unsupported_specific(text: str, sources: Sequence[str]) -> Specific | None:
    """Return the first specific of a text that stands in none of the sources; None if they support all of them."""
    return _unsupported(text, _Support.of(sources)) if find_specifics(text) else None


def rejection_of(text: str, sources: Sequence[str]) -> str:
    """Return why a text must not be used, in words for a log; "" if the sources support all of it."""
    found = unsupported_specific(text, sources)
    return f"the {found.kind} {found.value!r} {_UNSUPPORTED}" if found else ""


def loss_of(sources: Sequence[str], text: str) -> str:
    """Return what would be lost if a text replaced its sources, in words for a log; "" if it has all specifics."""
    support = _Support.of([text])
    for source in sources:
        if found := _unsupported(source, support):
            return f"the {found.kind} {found.value!r} {_LOST}"
    return ""


def rejection_kind(reason: str) -> str:
    """Return the kind of a rejection without the words of the texts: `unsupported name`, `lost number` or `other`."""
    kind = reason.removeprefix("the ").partition(" ")[0]
    if kind in _KINDS:
        if reason.endswith(_UNSUPPORTED):
            return f"unsupported {kind}"
        if reason.endswith(_LOST):
            return f"lost {kind}"
    return "other"


class _Support(NamedTuple):
    """The sources, as a text is looked up in them."""

    sentences: frozenset[str]  # with single spaces
    values: frozenset[Specific]
    words: frozenset[str]

    @classmethod
    def of(cls, sources: Sequence[str]) -> "_Support":
        # A part may have its own language.
        parts = dict.fromkeys(part for source in sources for part in (source.strip(), *sentences(source)))
        known, words = set[Specific](), set[str]()
        for part in parts:
            values = find_values(canonical_form(part))
            known.update(values)
            words.update(_without_months((word.casefold() for word in _words(part)), values))
        known |= {broader for value in known for broader in broader_specifics(value)}
        return cls(frozenset(map(single_spaced, parts)), frozenset(known), frozenset(words))


def _unsupported(text: str, support: _Support) -> Specific | None:
    """The first specific without support in a text, outside sentences that are quoted as they are."""
    rest = [sentence for sentence in sentences(text) if single_spaced(sentence) not in support.sentences]
    for specific in find_specifics("\n".join(rest)):
        if specific.value not in support.words if specific.kind == "name" else specific not in support.values:
            return specific
    return None


def single_spaced(text: str) -> str:
    """The text with one space for any white space."""
    return " ".join(text.split())


def find_specifics(text: str, form: CanonicalForm | None = None) -> list[Specific]:
    """The specifics of a text; its names last. form: the canonical form of the text, where it is known."""
    values = find_values(form or canonical_form(text))
    return [*values, *(Specific("name", word) for word in _without_months(find_names(text), values))]


def find_values(form: CanonicalForm) -> list[Specific]:
    """The specifics of a text that are no names."""
    found: list[Specific] = []
    for token, after in itertools.zip_longest(form.tokens, form.tokens[1:]):
        if token.kind == "number" and after is not None and after.kind == "unit":
            found.append(Specific("number", f"{token.value} {after.value}"))
        elif token.kind in ("number", "date", "identifier"):
            found.append(Specific(token.kind, token.value))
    return found


def _without_months(words: Iterable[str], values: Iterable[Specific]) -> Iterable[str]:
    """The words that are not months of the dates among the values: these are a part of the date, and name nobody."""
    dates = (_DATE.match(value.value) for value in values if value.kind == "date")
    months = {int(date["month"]) for date in dates if date}
    return (word for word in words if MONTHS.get(word) not in months)


def find_names(text: str) -> Iterable[str]:
    """The words that may be names, in small letters."""
    for word in _words(text):
        has_capital = word != word.lower()
        is_caseless = word.isalpha() and word.lower() == word.upper()
        if (has_capital or is_caseless) and (small := word.casefold()) not in EMPTY_WORDS:
            yield small


def _words(text: str) -> Sequence[str]:
    return WORD.findall(normalize_notation(text))


def broader_specifics(specific: Specific) -> Iterable[Specific]:
    """The less exact specifics that a specific supports: of a day its month and year, of an amount the number."""
    if specific.kind == "number" and " " in specific.value:
        yield Specific("number", specific.value.partition(" ")[0])
    elif specific.kind == "date" and (parts := specific.value.split("-"))[0].isdecimal():
        yield Specific("number", parts[0])
        yield Specific("date", "-".join(parts[:2]))
        yield Specific("date", "--" + "-".join(parts[1:]))
        yield from (Specific("date", f"--{month}") for month in parts[1:2])
