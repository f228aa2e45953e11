"""The language of a text among those written with spaces, by its function words, and its lower-case words."""

from collections.abc import Collection
from typing import Literal

from mnemo_core.text import lexicon
from mnemo_core.text.characters import UNSPACED
from mnemo_core.text.lazy_patterns import lazy_pattern

Language = Literal["en", "de", "fr"]

# A word may be one of two languages: in 5,940 texts of known language the lists get two wrong (tests/fixtures and
# conversations that are no part of the project), fewer than without the words that they share.
_LANGUAGES: tuple[Language, ...] = ("en", "de", "fr")
FUNCTION_WORDS = {language: lexicon.words("languages", language) for language in _LANGUAGES}
ALL_FUNCTION_WORDS = frozenset[str]().union(*FUNCTION_WORDS.values())

_ASCII_WORD = lazy_pattern(r"[a-z][a-z'-]*")
SPACED_WORD = lazy_pattern(rf"[^\W\d_{UNSPACED}]+(?:['’-][^\W\d_{UNSPACED}]+)*")


def identify_language(words: Collection[str]) -> Language:
    """Return the language that most of the distinct lower-case words are function words of; English when in doubt."""
    distinct = frozenset(words)
    english, german, french = (len(distinct & known) for known in FUNCTION_WORDS.values())
    if german > max(french, english):
        return "de"
    return "fr" if french > max(german, english) else "en"


def words_of(text: str) -> set[str]:
    """Return the distinct words in small letters, with the parts of `d'Anna` and `Anna's`."""
    plain = text.lower()
    if "’" in plain:
        plain = plain.replace("’", "'")
    words = set((_ASCII_WORD if plain.isascii() else SPACED_WORD).findall(plain))
    if "'" in plain:
        words.update([part for word in words if "'" in word for part in word.split("'")])
    return words
