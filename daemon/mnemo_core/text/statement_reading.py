"""The reading of a statement that a comparison with another one needs: its words, values, names and signs. SPEC 5.8"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mnemo_core.text import lexicon
from mnemo_core.text.canonical import canonical_form
from mnemo_core.text.dates.date_words import MONTH_NUMBERS, WEEKDAY_NUMBERS
from mnemo_core.text.languages import UNSPACED_CHARACTER, identify_language, sentences, words_of
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.text_cache import TextCache

# Of texts whose readings are cached: a new text is compared with a dozen earlier ones, and reading one of these takes
# longer than the comparison. A reading has some 5 KB: 6 MB in all.
STATEMENT_CHARACTERS: Final = 1 << 19
WORDS_MAX: Final = 80  # of a statement; a longer one is a passage

SIGNS: Final = (
    "now", "ended", "moved", "instead", "fresh", "corrected", "past", "unsure", "added", "kept", "except", "negated",
    "chosen",
)  # fmt: skip
_WORD = lazy_pattern(r"[^\W_]+(?:['’.:@/+-][^\W_]+)*")
_SUFFIXES = ("ungen", "ings", "ing", "ers", "est", "ies", "en", "es", "ed", "er", "em", "e", "s", "n")
_STEM_MIN = 4  # characters that a stem keeps
_PREFIX = 5  # characters in common that make two words forms of one: German compounds too


class StatementWords(NamedTuple):
    """Words, values and signs of a statement, as a comparison needs them."""

    plain: tuple[str, ...]  # every word in small letters, as it stands
    content: tuple[str, ...]  # stems of the words that are no filler, in their order
    forms: "WordForms"  # of these
    values: Mapping[str, frozenset[str]]  # by kind (number, unit, date, identifier): what stands in the statement
    names: tuple[str, ...]  # stems of words with a capital inside a sentence
    owners: frozenset[str]  # stems of words in the genitive
    kin: frozenset[str]
    kin_first: frozenset[str]  # of the first words alone
    signs: frozenset[str]  # of SIGNS
    sides: frozenset[tuple[int, int]]  # left, right, staging, production: a pair of such, and which of it
    person: str  # "first", "ours" or ""
    designators: frozenset[tuple[str, str]]  # a word and the number or letter behind it: tank 3, plan B
    is_question: bool
    sentences: int


def _phrases() -> tuple[dict[str, frozenset[str]], dict[str, list[tuple[tuple[str, ...], str]]]]:
    """Signs by word, and by the first word of a phrase: the words behind it and the sign."""
    single: dict[str, set[str]] = {}
    several: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for sign in SIGNS:
        for word in lexicon.words("changes", sign):
            first, *rest = word.split("_")
            if rest:
                several.setdefault(first, []).append((tuple(rest), sign))
            else:
                single.setdefault(first, set()).add(sign)
    return {word: frozenset(signs) for word, signs in single.items()}, several


_SINGLE, _SEVERAL = _phrases()
_KIN = {word: words[0] for words in lexicon.groups("changes", "kin") for word in words}
_TITLES = lexicon.words("entities", "titles")
_KIN_BY_OWNER = lexicon.words("changes", "kin by owner")
_OWNERS = lexicon.words("changes", "owners")
_SIDES = {
    word: (pair, side)
    for pair, line in enumerate(lexicon.lines("changes", "sides"))
    for side, words in enumerate(line.split("·"))
    for word in words.split()
}
_BEGINNING: Final = 3  # words at the beginning of a statement, which mostly say whom it is about
_FIRST = lexicon.words("changes", "first")
_OURS = lexicon.words("changes", "ours")
FILLER: Final = lexicon.words("changes", "filler")
_CONTENT_SIGNS = frozenset({"chosen", "except"})  # whose words also tell what a statement is about
_NO_CONTENT = (
    FILLER | {word for word, signs in _SINGLE.items() if signs - _CONTENT_SIGNS} | {"any", "more", "longer", "mehr"}
)
_CONTRACTIONS = FILLER | lexicon.words("changes", "contractions")  # with a verb: "what's" is no genitive
_GAP_MAX = 6  # words between the two of a phrase that is split: nicht ... mehr


def stem(word: str) -> str:
    """The word without the endings of its forms; what it was, where little would be left."""
    word = word.removesuffix("'s").removesuffix("’s")
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _STEM_MIN:
            return word[: -len(suffix)]
    return word


_DAYS = (*MONTH_NUMBERS, *WEEKDAY_NUMBERS, *(f"{day}s" for day in WEEKDAY_NUMBERS))
# Stems of words with a capital, or in the genitive, that name nobody.
NO_NAMES: Final = frozenset(map(stem, (*_KIN, *_DAYS)))


class WordForms:
    """Words among which others are looked for: the same, a form of it, or a compound with it."""

    __slots__ = ("_joined", "_long", "_words")

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._joined = "\n".join(("", *words))  # one search in it is one for all words
        self._long = [word for word in words if len(word) >= _PREFIX]

    def match(self, word: str) -> float:
        """1.0 where the word is among them; 0.7 where one of them is a form of it or a compound with it."""
        if word in self._words:
            return 1.0
        if len(word) >= _PREFIX:
            if f"\n{word[:_PREFIX]}" in self._joined or word in self._joined:
                return 0.7
            for other in self._long:
                if other in word:
                    return 0.7
        elif len(word) == _PREFIX - 1 and word in self._joined:
            return 0.7
        return 0.0


def matched(word: str, others: Sequence[str]) -> float:
    """The match of a word among others that are asked about once. See `WordForms`."""
    return WordForms(others).match(word)


def has_same_values(one: StatementWords, other: StatementWords) -> bool:
    """Return whether two statements that say the same can be one: their numbers, units, dates, identifiers and names
    are the same, and both or neither deny."""
    if one.values != other.values or ("negated" in one.signs) != ("negated" in other.signs):
        return False
    return all(
        name in (*than.content, *than.names) for this, than in ((one, other), (other, one)) for name in this.names
    )


def unmet_specific(question: str, texts: Sequence[str], context: str | None = "") -> str:
    """The first specific of a question that none of the texts has: a name, or a thing by its number or letter where a
    text names another one ("queue A" and "queue B"). "" where they have all.

    context: words that count as those of the texts, such as a title; None where names may be known from elsewhere, as
    in talk. Other words of a question are often met by words that share no letter with them ("How old am I?", "I'm
    41"), and are left to the judge of answers. So are names of days and relatives, and abbreviations. In German, where
    every noun has a capital, a name is what follows a title or the word for a relative.
    """
    asked, read = read_statement(question), [read_statement(text) for text in texts]
    known_things = {pair for text in read for pair in text.designators}
    things, plain = {thing for thing, _ in known_things}, {word for text in read for word in text.plain}
    for thing, value in sorted(asked.designators - known_things):
        is_written = value.isdecimal() or f" {value.upper()}" in question
        if thing in things and is_written and value != "i" and (value not in plain or not value.isdecimal()):
            return f"{thing} {value}"
    if context is None:
        return ""
    known = [stem(word.lower()) for text in (*texts, context) for word in _WORD.findall(text.replace("’", "'"))]
    names = [name for name in asked.names if name not in NO_NAMES and name.upper() not in question]
    unmet = [name for name in names if not matched(name, known)]
    if unmet and identify_language(words_of(question).union(*map(words_of, texts))) == "de":
        titled = {stem(word) for before, word in itertools.pairwise(asked.plain) if before in _TITLES or before in _KIN}
        unmet = [name for name in unmet if name in titled]
    return unmet[0] if unmet else ""


def _read(text: str) -> StatementWords:
    text = text.replace("’", "'")
    found = [match.group() for match in _WORD.finditer(text)][:WORDS_MAX]
    if UNSPACED_CHARACTER.search(text):
        found = [part for word in found for part in (word if UNSPACED_CHARACTER.search(word) else (word,))]
    plain = tuple(word.lower() for word in found)
    values: dict[str, set[str]] = {"number": set(), "unit": set(), "date": set(), "identifier": set()}
    for token in canonical_form(text).tokens:
        if token.kind in values:
            values[token.kind].add(token.value)
    names = tuple(
        stem(word.lower())
        for at, word in enumerate(found)
        if at and word[0].isupper() and plain[at] not in FILLER and plain[at] not in _FIRST
    )
    content = tuple(stem(word) for word in plain if word not in _NO_CONTENT and not word.endswith("n't"))
    return StatementWords(
        plain,
        content,
        WordForms(content),
        {kind: frozenset(some) for kind, some in values.items()},
        names,
        frozenset(stem(word) for word in plain if word.endswith("'s") and word not in _CONTRACTIONS),
        _kin_of(plain),
        _kin_of(plain[:_BEGINNING]),
        _signs(tuple("" if word == "May" else word.lower() for word in found), text),
        frozenset(_SIDES[word] for word in plain if word in _SIDES),
        "first" if not _FIRST.isdisjoint(plain) else "ours" if not _OURS.isdisjoint(plain) else "",
        frozenset(
            (stem(one), two)
            for one, two in itertools.pairwise(plain)
            if (two.isdecimal() or (len(two) == 1 and two.isalpha())) and one.isalpha() and one not in FILLER
        ),
        text.rstrip("\"')]* ").endswith(("?", "？")),
        len(sentences(text)),
    )


def _kin_of(words: tuple[str, ...]) -> frozenset[str]:
    """The relatives that are named. Frau Meier is nobody's wife."""
    bare = [word.removesuffix("'s") for word in words]
    return frozenset(
        _KIN[word]
        for before, word in zip(("", *bare), bare, strict=False)
        if word in _KIN and (word not in _KIN_BY_OWNER or before in _OWNERS)
    )


def _signs(plain: tuple[str, ...], text: str) -> frozenset[str]:
    found: set[str] = set()
    for at, word in enumerate(plain):
        found |= _SINGLE.get(word, frozenset())
        if word.endswith("n't"):
            found.add("negated")
        for rest, sign in _SEVERAL.get(word, ()):
            behind = plain[at + 1 : at + 1 + _GAP_MAX]
            is_there = behind[: len(rest)] == rest or (len(rest) == 1 and sign != "unsure" and rest[0] in behind)
            if is_there:
                found.add(sign)
    if UNSPACED_CHARACTER.search(text):
        found |= {
            sign for word, signs in _SINGLE.items() if UNSPACED_CHARACTER.match(word) and word in text for sign in signs
        }
    return frozenset(found)


read_statement = TextCache(_read, STATEMENT_CHARACTERS)
