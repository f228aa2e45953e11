"""Detection of named entities: a person, a place, an organisation, a product, a file, a piece of code. SPEC 5.3

No model and no dictionary. What tells a name, surest first: how it is written (`code`, file.py, @handle, camelCase), a
list of well-known names, and a capital where the language has none for common words. English and French have none
within a sentence; at its beginning a capital says nothing unless a verb of people follows ("Anna said"). In German
every noun has one, so there a name needs a title, a place's preposition or a verb of people. A line that is a title, or
all in capitals, says nothing by its capitals.

What is missed for certain: a name that no list has, at the beginning of a sentence or all in small letters.
"""

import re

from mnemo_core.text import lexicon
from mnemo_core.text.languages import (
    HAN,
    SPACED_WORD,
    UNSPACED,
    UNSPACED_CHARACTER,
    Language,
    identify_language,
    is_abbreviation,
)
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import alternation

# How it is written is proof enough.
_CODE = lazy_pattern(r"`([^`\n]{2,80})`")
_ADDRESS = lazy_pattern(
    r"(?:https?://|www\.)[^\s<>\"')\]]+|(?<![\w@/.])@[A-Za-z][\w.-]{2,38}(?!\w)"
    r"|(?<![\w.+-])[\w.+-]++@[\w-]+\.[A-Za-z][\w.-]+"
)
_FILE_END = lazy_pattern(alternation("entities", "file_ends"))
_PATH = lazy_pattern(r"(?<![\w.:/])(?:~|\.{1,2})?/(?:[\w.@-]+/)+[\w.@-]*")
_FILE_CHARS_MAX = 200
_LINE_CHARS_MAX = 200  # a title is shorter
# userName, GitHub, iPhone, PostgreSQL, user_name, Foo::bar, get_user()
_IDENTIFIER = lazy_pattern(
    r"(?<![\w'])(?:[a-z]+[A-Z]\w*[a-z]\w*|(?!Mc[a-z]|I'[a-z])[A-Z][a-z]+[A-Z]\w*|[A-Z]{2,}[a-z]{2,}\w*"
    r"|[A-Za-z]\w*_\w*[A-Za-z]\w*"
    r"|_\w*[a-z]\w*|[A-Za-z]\w+\(\)|\w+(?:::\w+)+)(?!\w)"
)
# Without any of these there is no identifier, and looking for these is cheap.
_HUMP = lazy_pattern("[a-z][A-Z]")
_HUMP_OF_CAPITALS = lazy_pattern("[A-Z]{2}[a-z]{2}")
_INITIALS = lazy_pattern(r"(?<![A-Za-z0-9_$%/.'-])(?:[A-Z]{2}[A-Z0-9]{0,3}|[A-Z]&[A-Z])(?![A-Za-z0-9_'])")

# Initials of common things, and other words in capitals that name nothing.
_NO_NAMES = lexicon.words("entities", "no_names")
# Capitalised within a sentence and no name: days and months (which are dates), the speaker, forms of address.
_CAPITAL_NO_NAMES = lexicon.words("entities", "capital_no_names")
# Known well enough to be a name in small letters and at the beginning of a sentence. None is also a common word.
_KNOWN = lexicon.words("entities", "places") | lexicon.words("entities", "things")
# Given names, but for those that in small letters are words or parts of words in some language.
_GIVEN = lexicon.words("entities", "people") - lexicon.words("entities", "given_words")

_TITLES = lexicon.words("entities", "titles")
_HUMAN_VERBS = lexicon.words("entities", "human_verbs")
# Words that can begin a sentence before such a verb and are no names.
_NO_PERSONS = lexicon.words("entities", "no_persons")
_SMALL_IN_TITLES = lexicon.words("entities", "small_in_titles")

# Chinese and Japanese.
_ASIAN_KNOWN = lazy_pattern(alternation("entities", "asian_known"))
_ASIAN_NAMED = lazy_pattern(alternation("entities", "asian_named", HAN=HAN))
_KATAKANA = lazy_pattern("[ァ-ヴー]{3,}")
_LOAN_WORDS = lexicon.words("entities", "loan_words")

_CAPITALISED = lazy_pattern(
    rf"(?<![A-Za-z0-9_À-ÿ-])[A-ZÀ-ÖØ-ÞĀĆČĐŁŃŚŠŽ][^\W\d_{UNSPACED}]*(?:['’-][^\W\d_{UNSPACED}]+)*"
)
_LAST_WORD = lazy_pattern(r"([^\W\d_]+)[.]? ?$")
# "Priya's keys are": hers. "Yoga's great": is.
_OWNED = lazy_pattern(
    r" [^\W\d_]+ (?:is|are|was|were|has|have|had|will|would|comes?|came|starts?|started|ends?|said|wants?)\b"
)
_NEXT_WORD = lazy_pattern(r"['’]?s? ([^\W\d_]+)")
_LAST_WORD_CHARS_MAX = 24


def find_entity(text: str, words: set[str]) -> str:
    """A name that the text holds, as it was found; "" when there is none. words: those of the text."""
    if found := _by_writing(text):
        return found
    if known := words & _KNOWN or words & _GIVEN:
        return min(known)
    is_asian = not text.isascii() and UNSPACED_CHARACTER.search(text) is not None
    return _by_capital(text, words, is_asian) or (_in_asian(text) if is_asian else "")


def _by_writing(text: str) -> str:
    if "`" in text and (match := _CODE.search(text)):
        return match[1]
    if ("@" in text or "://" in text or "www." in text) and (match := _ADDRESS.search(text)):
        return match.group()
    if file := _file(text):
        return file
    is_codelike = "_" in text or "()" in text or "::" in text or is_camel_case(text) or _HUMP_OF_CAPITALS.search(text)
    if is_codelike and (match := _IDENTIFIER.search(text)):
        return match.group()
    for match in _INITIALS.finditer(text):
        if match.group().lower() not in _NO_NAMES and not _is_shouted(_line_of(text, match.start())):
            return match.group()
    return ""


def is_camel_case(text: str) -> bool:
    """A capital right behind a small letter, as in camelCase."""
    return _HUMP.search(text) is not None


def _file(text: str) -> str:
    for match in _FILE_END.finditer(text):
        start = match.start()
        while (
            start > 0
            and match.start() - start < _FILE_CHARS_MAX
            and (text[start - 1].isalnum() or text[start - 1] in "_-./~")
        ):
            start -= 1
        if start < match.start() and text[match.start() - 1].isalnum():
            return text[start : match.end()]
    return path.group() if "/" in text and (path := _PATH.search(text)) else ""


def _by_capital(text: str, words: set[str], is_asian: bool) -> str:
    language = identify_language(words)
    for match in _CAPITALISED.finditer(text):
        word = match.group().replace("’", "'")
        name = word.removesuffix("'s").lower()
        if len(name) < 2 or word.isupper() or word.lower() in _CAPITAL_NO_NAMES or name in _CAPITAL_NO_NAMES:
            continue
        if is_asian or _is_name(text, match, name, language):
            return match.group()
    return ""


def _is_name(text: str, match: re.Match[str], name: str, language: Language) -> bool:
    """Return whether a capitalised word that is in no list is a name, by its context."""
    before = _LAST_WORD.search(text, max(0, match.start() - _LAST_WORD_CHARS_MAX), match.start())
    last = before[1] if before else ""
    if last[:1].isupper() and last.lower() in _TITLES:
        return True
    begins = _begins_sentence(text, match.start(), last)
    follows = _NEXT_WORD.match(text, match.end())
    does = follows is not None and follows[1] in _HUMAN_VERBS and name not in _NO_PERSONS
    if language == "de":
        return does and begins
    if not begins:
        return not _is_title(_line_of(text, match.start()))
    owns = match.group().endswith(("'s", "’s")) and name not in _NO_PERSONS
    return does or (owns and _OWNED.match(text, match.end()) is not None)


def _begins_sentence(text: str, start: int, last: str) -> bool:
    """Return whether the capital at start may only mark the beginning of a sentence."""
    at = start - 1
    while at >= 0 and text[at] in " \t([":
        at -= 1
    if at < 0:
        return True
    if text[at] == ".":
        return not is_abbreviation(last) and len(last) != 1  # the letters of "e.g." and "z.B."
    return not (text[at].isalnum() or text[at] in ",;)]%&/+'’")


def _line_of(text: str, at: int) -> str:
    """The line that holds the place; of a very long one, what lies around it."""
    first, last = max(0, at - _LINE_CHARS_MAX), at + _LINE_CHARS_MAX
    start, end = text.rfind("\n", first, at) + 1, text.find("\n", at, last)
    return text[start or first : end if end >= 0 else last]


def _is_title(line: str) -> bool:
    """A line in which every word that matters has a capital."""
    line = line.strip(" #*_\t-")
    if line.endswith((".", "!", "?", ",", ";")):
        return False
    words = SPACED_WORD.findall(line)
    if len(words) < 2 or words[0][0].islower():
        return False
    return not any(word[0].islower() and word not in _SMALL_IN_TITLES for word in words)


def _is_shouted(line: str) -> bool:
    words = SPACED_WORD.findall(line)
    return len(words) > 1 and sum(word.isupper() for word in words) > len(words) / 2


def _in_asian(text: str) -> str:
    if match := _ASIAN_KNOWN.search(text) or _ASIAN_NAMED.search(text):
        return match.group()
    return next((word for word in _KATAKANA.findall(text) if word not in _LOAN_WORDS), "")
