"""Scripts by their characters, words of a text, and its language among those written with spaces.

The ranges stand between the brackets of a character class. They are those of Unicode 15 that hold letters of running
text; signs and punctuation of the scripts are not in them. A pattern that needs another set of characters combines
these. The language is told by function words.
"""

from collections.abc import Collection
from typing import Literal

from mnemo_core.text import lexicon
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed

HIRAGANA = "\u3041-\u309f"
KATAKANA = "\u30a0-\u30ff\u31f0-\u31ff"
KANA = HIRAGANA + KATAKANA
BOPOMOFO = "\u3105-\u312f"
HAN = "\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # with the iteration mark 々 and the zero 〇
HANGUL = "\uac00-\ud7af"

UNSPACED = KANA + BOPOMOFO + HAN  # Chinese and Japanese: written without spaces between words
CJK = UNSPACED + HANGUL  # each of these characters counts as a word of its own where words are compared
FIRST_CJK = "\u3005"  # the lowest of them: what is below it is written with spaces

HIRAGANA_CHARACTER = lazy_pattern(f"[{HIRAGANA}]")
KANA_CHARACTER = lazy_pattern(f"[{KANA}]")
UNSPACED_CHARACTER = lazy_pattern(f"[{UNSPACED}]")
CJK_CHARACTER = lazy_pattern(f"[{CJK}]")
# Where case is ignored, a pattern takes these for s and i, which they stand for in no list of words.
CASE_LOOKALIKES = str.maketrans("\u017f\u0131\u0130", "siI")
WORD = lazy_pattern(rf"[{CJK}]|[^\W{CJK}]+")  # a word for comparing texts

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


_ENGLISH_VERBS = listed("likes lives prefers uses works")  # by which English is identified; no function words here
EMPTY_WORDS = lexicon.words("noise_filter", "empty_words") | (ALL_FUNCTION_WORDS - _ENGLISH_VERBS)


def content_words(text: str) -> frozenset[str]:
    """Return the distinct words of a text in small letters, without empty ones; CJK characters one by one."""
    return frozenset(map(str.casefold, WORD.findall(text))) - EMPTY_WORDS
