"""Salience, novelty and importance of a text. SPEC 5.3

    salience    0.3 a named entity + 0.2 a number or date + 0.4 a preference + 0.1 a technical term, at most 1.0
    novelty     cosine distance to the centroid of what is known already
    importance  0.6 novelty + 0.4 salience

No model is used: each signal is detected by closed lists and by spelling, the same for every user and version of a
list. Precision and recall are measured on a labelled set (tests/fixtures/intake).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.signals.entities import find_entity, is_camel_case
from mnemo_core.text import lexicon
from mnemo_core.text.languages import ALL_FUNCTION_WORDS, UNSPACED_CHARACTER, identify_language, words_of
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import alternation
from mnemo_core.text.preferences import find_preference

ENTITY, NUMBER, PREFERENCE, TECHNICAL = 0.3, 0.2, 0.4, 0.1  # what each signal adds [L 1.5]
NOVELTY_WEIGHT, SALIENCE_WEIGHT = 0.6, 0.4  # [L 1.5]

assert NOVELTY_WEIGHT + SALIENCE_WEIGHT == 1.0

Rarity = Callable[[Sequence[str]], Sequence[float]]  # rarity of each word in the store, 0 to 1


class Salience(NamedTuple):
    """The value in 0 to 1, and for each signal the words it was found by, "" for none."""

    value: float
    entity: str
    number: str
    preference: str
    technical: str


def measure_salience(text: str, rarity: Rarity | None = None) -> Salience:
    """Salience of the text. `rarity` rates its words by the store; without it, technical terms are found by their
    spelling alone."""
    words = words_of(text)
    found = (
        find_entity(text, words),
        find_number(text, words),
        find_preference(text),
        find_technical_term(text, words, rarity),
    )
    adds = zip((ENTITY, NUMBER, PREFERENCE, TECHNICAL), found, strict=True)
    return Salience(min(1.0, round(sum(weight for weight, signal in adds if signal), 6)), *found)


def novelty(vectors: NDArray[Any] | None, centroid: NDArray[Any] | None) -> float:
    """Distance of the text from the centroid, in 0 to 1; 1.0 when there is nothing to compare.

    vectors: (w, d), a unit row for each window of the text; the farthest one counts, since a long text is as new as its
    newest part. centroid: (d,), of any length but zero.
    """
    if vectors is None or centroid is None or len(vectors) == 0:
        return 1.0
    middle = centroid.astype(np.float64)
    length = float(np.sqrt(middle @ middle))
    if not length > 0.0:
        return 1.0
    sims = vectors.astype(np.float64) @ middle / length
    return _clamped(1.0 - float(sims.min()))


def importance(novelty: float, salience: float) -> float:
    """0.6 novelty + 0.4 salience, in 0 to 1; 0.3 and more is kept. SPEC 5.3 [L 1.5] Rounded to nine decimals, so that
    0.5 and 0 make the 0.3 they make on paper."""
    return round(_clamped(NOVELTY_WEIGHT * novelty + SALIENCE_WEIGHT * salience), 9)


def _clamped(value: float) -> float:
    return min(1.0, max(0.0, value))


# A number: digits that are no part of a name and no mark of a list.
_DIGITS = lazy_pattern(r"(?<![A-Za-z_\d])(?<![A-Za-z_][-.])(?:[vVQH](?=\d))?\d[\d.,:/%-]*")
_LIST_MARK = lazy_pattern(r"[ \t>*-]*\d{1,3}[.)](?=\s)")
_NUMBER_WORDS = lexicon.words("salience", "number_words") - {"march", "may"}
_GERMAN_NUMBERS = lexicon.words("salience", "german_numbers")
_FRENCH_NUMBERS = lexicon.words("salience", "french_numbers")
_WHEN = lazy_pattern(alternation("salience", "when"))
_MONTHS_THAT_ARE_WORDS = lazy_pattern(alternation("salience", "months_that_are_words"))
_GERMAN_WHEN = lazy_pattern(alternation("salience", "german_when"))
_FRENCH_WHEN = lazy_pattern(alternation("salience", "french_when"))
_ASIAN_NUMBER = lazy_pattern(alternation("salience", "asian_number"))
_SMALL_MONTHS = frozenset(("may", "march"))


def find_number(text: str, words: set[str]) -> str:
    """A number or a date that the text holds; "" when there is none. A bare "one" or "second" is none."""
    for match in _DIGITS.finditer(text):
        line = text.rfind("\n", 0, match.start()) + 1
        if not (mark := _LIST_MARK.match(text, line)) or mark.end() < match.end():
            return match.group()
    if spelled := words & _NUMBER_WORDS:
        return min(spelled)
    if words & _SMALL_MONTHS and (found := _MONTHS_THAT_ARE_WORDS.search(text)):
        return found.group()
    lowered = text.lower()
    match identify_language(words):
        case "de":
            spelled, when = words & _GERMAN_NUMBERS, _GERMAN_WHEN
        case "fr":
            spelled, when = words & _FRENCH_NUMBERS, _FRENCH_WHEN
        case "en":
            spelled, when = set(), _WHEN
    if spelled:
        return min(spelled)
    if found := when.search(lowered):
        return found.group()
    is_asian = not text.isascii() and UNSPACED_CHARACTER.search(text) is not None
    return found.group() if is_asian and (found := _ASIAN_NUMBER.search(text)) else ""


TECHNICAL_RARITY = 0.7  # the words of a technical text are this rare on average
_RARITY_WORDS_MIN = 3  # an average of fewer says nothing

_NUMBERED = lazy_pattern("[A-Za-z][0-9]")
_DOTTED = lazy_pattern(r"\.[a-z]")
_TECHNICAL_SHAPE = lazy_pattern(
    r"`[^`\n]+`|(?<![\w'@])(?:(?!i[A-Z])[a-z]+[A-Z]\w*|[A-Za-z]\w*_\w+|--?[a-z][\w-]{2,}(?==| |$)"
    r"|[A-Za-z]+\d+[A-Za-z]*\d*|\w+\(\)|\w+\.(?:py|js|ts|rs|go|c|cpp|json"
    r"|ya?ml|toml|sh|sql|md|html|css|log|conf|env))(?!\w)"
)
_TECHNICAL_ENDINGS = tuple(lexicon.words("salience", "technical_endings"))
_ENDING_WORD_CHARS_MIN = 8
_NO_TECHNICAL = lexicon.words("salience", "no_technical")
_TECHNICAL_WORDS = lexicon.words("salience", "technical_words")
_ASIAN_TECHNICAL = lazy_pattern(alternation("salience", "asian_technical"))


def find_technical_term(text: str, words: set[str], rarity: Rarity | None = None) -> str:
    """A technical term of the text; "" when there is none. Found by its spelling or in a closed list; with a `rarity`,
    also the rarest of words that are rare on average."""
    # Without any of these there is no such shape, and looking for these is cheap.
    is_marked = "`" in text or "_" in text or "()" in text or " -" in text or text.startswith("-")
    if (is_marked or is_camel_case(text) or _NUMBERED.search(text) or _DOTTED.search(text)) and (
        found := _TECHNICAL_SHAPE.search(text)
    ):
        return found.group()
    if known := words & _TECHNICAL_WORDS:
        return min(known)
    ends = [word for word in words if word.endswith(_TECHNICAL_ENDINGS) and len(word) >= _ENDING_WORD_CHARS_MIN]
    if ends := [word for word in ends if word not in _NO_TECHNICAL]:
        return min(ends)
    if not text.isascii() and (found := _ASIAN_TECHNICAL.search(text)):
        return found.group()
    return rarest(words, rarity) if rarity else ""


def rarest(words: set[str], rarity: Rarity) -> str:
    """The rarest of the words if they are rare on average; "" if they are not, or too few to tell. [L 1.5]"""
    asked = sorted(word for word in words if word not in ALL_FUNCTION_WORDS and len(word) > 2)
    if len(asked) < _RARITY_WORDS_MIN:
        return ""
    rare = rarity(asked)
    if sum(rare) / len(asked) < TECHNICAL_RARITY:
        return ""
    return max(zip(rare, asked, strict=True))[1]
