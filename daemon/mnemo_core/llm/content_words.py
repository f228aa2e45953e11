"""The words of a text that say something of their own, as fallbacks and validations compare them."""

from mnemo_core.text import lexicon
from mnemo_core.text.languages import ALL_FUNCTION_WORDS, WORD
from mnemo_core.text.lexicon import listed

_ENGLISH_VERBS = listed("likes lives prefers uses works")  # by which English is identified; no function words here
EMPTY_WORDS = lexicon.words("noise_filter", "empty_words") | (ALL_FUNCTION_WORDS - _ENGLISH_VERBS)


def content_words(text: str) -> frozenset[str]:
    """Return the distinct words of a text in small letters, without empty ones; CJK characters one by one."""
    return frozenset(map(str.casefold, WORD.findall(text))) - EMPTY_WORDS
