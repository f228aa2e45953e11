"""Scripts by their characters; words and sentences of a text, and its language among those written with spaces.

The ranges stand between the brackets of a character class. They are those of Unicode 15 that hold letters of running
text; signs and punctuation of the scripts are not in them. A pattern that needs another set of characters combines
these. The language is told by function words.

A sentence ends behind its marks and the quotes and brackets that close with it. A full stop does not end one behind an
abbreviation, behind the number of a day or list item, or where quoted words end in the middle of a sentence. Line
breaks are no ends here: their meaning depends on the kind of text, so callers that split at them add them.
"""

import itertools
import re
from collections.abc import Collection
from typing import Literal

from mnemo_core.text import lexicon
from mnemo_core.text.dates.date_words import MONTHS, WEEKDAYS
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


# Of each language, English first: the words by which it is told from the others, however many lists a word is in.
_TOLD = tuple(
    lexicon.words("languages", f"told {name}") | (lexicon.words("languages", name) if name in _LANGUAGES else set())
    for name in ("en", "de", "fr", "es", "it", "pt", "nl", "pl")
)
_LETTERS = lazy_pattern(r"[^\W\d_]")
_LATIN = lazy_pattern(r"[a-zA-Z\u00aa-\u024f\u1e00-\u1eff]")
_ACCENTED = lazy_pattern(r"[\u00c0-\u024f]")


def is_foreign(text: str) -> bool:
    """Return whether a text is in another language than English: most of its letters are of another script, most of
    the words that tell are another language's, or none tells and some have accents."""
    latin = len(_LATIN.findall(text))
    if 2 * latin < len(_LETTERS.findall(text)):
        return True
    words = words_of(text)
    english, *others = (len(words & known) for known in _TOLD)
    if english or any(others):
        return max(others) > english
    return _ACCENTED.search(text) is not None


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


STEM_LETTERS = 4  # two words that begin with the same letters are taken for forms of one


def word_stems(text: str) -> frozenset[str]:
    """Return the content words of a text by their first letters, so that `works` answers for `work`."""
    return frozenset(word[:STEM_LETTERS] for word in content_words(text))


ABBREVIATIONS = lexicon.words("languages", "abbreviations")
# Abbreviations that a sentence may end with: before a capital it does.
_CLOSING_ABBREVIATIONS = lexicon.words("languages", "closing abbreviations")

_BEFORE_CHARS = 12  # looked at before a full stop
_BEHIND_CHARS = 12
_END = lazy_pattern(r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_`]*+(?=\s|\Z)|[。！？]++[」』”）]*+")
_LINE_BREAK = lazy_pattern(r"\n+")
_ABBREVIATION = lazy_pattern(r"(?:^|[\s(\"'„“])([^\W\d_](?:[^\W\d_]|\.(?=[^\W\d_])){0,8})\.\Z")
_NUMBER = lazy_pattern(r"(?:\b((?i:der|die|das|des|im)) )?(?<![\w.,:])(\d{1,2}\.)?\d{1,2}\.\Z")
_ORDINAL_NOUNS = lexicon.words("languages", "ordinal nouns")
_BEFORE_DAYS = lexicon.words("languages", "words before a day") | WEEKDAYS.keys()
_FIRST_CHARS = 24  # of a line that begins with a date
_NOT_BLANK = lazy_pattern(r"\S")
_NEXT_WORD = lazy_pattern(r"\s+([^\W\d_]{1,20})")


def sentence_ends(text: str, start: int = 0, end: int | None = None) -> list[int]:
    """The place behind each end of a sentence between two places of the text, in order."""
    end = len(text) if end is None else end
    return [match.end() for match in _END.finditer(text, start, end) if not _is_inner(text, match, end)]


def sentences(text: str) -> list[str]:
    """The sentences of a text in which every line stands for itself, stripped; none is empty."""
    return [piece for start, end in line_spans(text) if (piece := text[start:end].strip())]


def line_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence, where line breaks end one too; together they are the whole text."""
    ends = {0, len(text), *sentence_ends(text), *(match.end() for match in _LINE_BREAK.finditer(text))}
    borders = sorted(ends)
    return list(itertools.pairwise(borders))


def _is_inner(text: str, match: re.Match[str], end: int) -> bool:
    """Return whether the sentence goes on behind the marks."""
    marks = match[0]
    if marks[0] in "。！？":
        return False
    following = _NEXT_WORD.match(text, match.end(), end)
    goes_on = following is not None and following[1][0].islower()
    if len(marks) > 1 or marks == "…":  # `"Really?" she asked`, "well... maybe"
        return goes_on and (marks.startswith(("...", "…")) or marks[-1] not in "!?.")
    if marks != ".":
        return False
    before = text[max(0, match.start() - _BEFORE_CHARS) : match.end()]
    if abbreviation := _ABBREVIATION.search(before):
        word, behind = abbreviation[1], _NOT_BLANK.search(text, match.end(), min(end, match.end() + _BEHIND_CHARS))
        return is_abbreviation(word) and _goes_on_behind(word, behind[0] if behind else "")
    number = _NUMBER.search(before)
    if number is None:
        return False
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    if number[2]:  # a day and a month
        behind = _NOT_BLANK.search(text, match.end(), end)
        words = line.lower().split() if len(line) < _FIRST_CHARS else []  # "Mo 14.12. Feier", but "Python 3.12. It"
        is_first = len(words) == 1 or (len(words) == 2 and words[0].strip(".,:") in _BEFORE_DAYS)
        return goes_on or (behind is not None and (is_first or behind[0].isdecimal()))
    if following is None:
        return False
    is_ordinal = number[1] is not None or following[1] in _ORDINAL_NOUNS
    return is_ordinal or goes_on or line.strip().isdecimal() or following[1].lower() in MONTHS


def is_abbreviation(word: str) -> bool:
    """Return whether a word before a full stop is an abbreviation or an initial."""
    return word in ABBREVIATIONS or (len(word) == 1 and word.isupper())


def _goes_on_behind(abbreviation: str, first: str) -> bool:
    """Return whether the sentence goes on behind an abbreviation, by the first character there."""
    if abbreviation in _CLOSING_ABBREVIATIONS or abbreviation == "I":
        return first.islower() or first.isdecimal()
    return first.isalnum()
