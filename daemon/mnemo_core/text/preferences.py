"""Detection of preferences: a taste, a habit, a form of address, a lasting instruction. SPEC 5.3

Three things count: the speaker's own preference ("I can't stand cilantro", "we never commit to main"), a lasting
request to the reader ("please always answer in German"), and a note about the user ("user prefers metric"). What
somebody else does ("he always comes late") is a fact about them and no signal: it would become a rule of how to treat
the wrong person. Neither is a question ("do you prefer tea?"), a remembered opinion ("I always thought so"), a polite
phrase ("I hate to bother you"), or a quotation.

Only the patterns whose cue word occurs are tried, so that a text without any costs one look at its words.
"""

import re
from collections.abc import Mapping

from mnemo_core.text.languages import HIRAGANA_CHARACTER, UNSPACED_CHARACTER, words_of
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import alternation, listed, patterns

# Before "I" or "we", these make a question of it, or somebody else's thought.
_ASKED = listed("should do did does can could would must will shall have am why may said asked thinks thought")
_GERMAN_FAVOURITE = lazy_pattern(
    r"\b(?:mein|meine|unser|unsere|meinem|meiner) lieblings\w+|(?<!\w )\blieblings\w+ (?:ist|sind|:)"
)
# Chinese and Japanese: words are not separated, so a few characters serve as the cue.
_CHINESE = lazy_pattern(alternation("preferences", "chinese"))
_JAPANESE = lazy_pattern(alternation("preferences", "japanese"))


def _patterns_by_cue() -> Mapping[str, list[re.Pattern[str]]]:
    """The patterns of a text that has a cue word, one for each language that has the word."""
    found: dict[str, list[re.Pattern[str]]] = {}
    for language in ("english", "german", "french"):
        rows: dict[str, list[str]] = {}
        for row in patterns("preferences", language):
            cue, _, pattern = row.partition(" ")
            rows.setdefault(cue, []).append(pattern)
        for cue, alternatives in rows.items():
            found.setdefault(cue, []).append(lazy_pattern("|".join(alternatives), re.MULTILINE))
    return found


_PATTERNS = _patterns_by_cue()
_CUES = _PATTERNS.keys()

_STRAIGHT = tuple((c, "'") for c in "’‘ʼ") + tuple((c, '"') for c in "“”„«»") + (("\u00a0", " "), ("\u202f", " "))
_CODE = lazy_pattern(r"```.*?(?:```|\Z)", re.DOTALL)
# Words of another person, or a reported question: not the writer's own.
_QUOTED = lazy_pattern(alternation("preferences", "quoted"))
_ASIAN_QUOTED = lazy_pattern(alternation("preferences", "asian_quoted"))


_REST_OF_WORD = lazy_pattern(r"\w*")
CLAUSE_CHARS_MAX = 120
_BEFORE_CHARS, _AFTER_CHARS = 48, 64  # how far around its cue word a pattern reaches


def find_preference(text: str) -> str:
    """The words that express a preference, in small letters; "" when there are none."""
    plain = text.lower()
    is_ascii = plain.isascii()
    if not is_ascii:
        for crooked, straight in _STRAIGHT:
            plain = plain.replace(crooked, straight)
    if "```" in plain:
        plain = _CODE.sub(" ", plain)
    if '"' in plain:
        plain = _QUOTED.sub(" ", plain)
    found = [match for cue in _cues(plain) if (match := _find(cue, plain))]
    if not is_ascii and UNSPACED_CHARACTER.search(plain):
        unquoted = _ASIAN_QUOTED.sub(" ", plain)
        if match := (_JAPANESE if HIRAGANA_CHARACTER.search(unquoted) else _CHINESE).search(unquoted):
            return match.group()
    if "lieblings" in plain and (match := _GERMAN_FAVOURITE.search(plain)):
        found.append(match)
    if not found:
        return ""
    match = min(found, key=re.Match.span)
    rest = _REST_OF_WORD.match(plain, match.end()) if match.group()[-1:].isalnum() else None
    return plain[match.start() : rest.end() if rest else match.end()].strip(" \n.,;:!?-*•>(")


def _find(cue: str, plain: str) -> re.Match[str] | None:
    """The first match of the cue's patterns that is no question and not about others."""
    place = plain.find(cue)
    while place >= 0:
        for pattern in _PATTERNS[cue]:
            match = pattern.search(plain, max(0, place - _BEFORE_CHARS), place + _AFTER_CHARS)
            if match and not (_is_asked(plain, match.start()) or _is_of_others(plain, match)):
                return match
        place = plain.find(cue, place + len(cue))
    return None


def _is_asked(plain: str, start: int) -> bool:
    if not plain.startswith(("i ", "i'", "we ", "we'"), start):
        return False
    return plain[max(0, start - 12) : start].rstrip().rpartition(" ")[2] in _ASKED


_THEY = lazy_pattern(r"\s*(?:they|he|she|it|who|which)(?:'\w+)? ")


def _is_of_others(plain: str, match: re.Match[str]) -> bool:
    """Return whether a match that begins with `and` continues a sentence about others: "they are my rock and always
    cheer me on"."""
    if not match.group().startswith("and "):
        return False
    clause = re.split(r"[.?!;:,\n]", plain[max(0, match.start() - CLAUSE_CHARS_MAX) : match.start()])[-1]
    return _THEY.match(clause) is not None


def _cues(plain: str) -> set[str]:
    """The cue words that the text has, also within `j'adore` and `go-to`."""
    words = words_of(plain)
    if "-" in plain:
        words.update([part for word in words if "-" in word for part in word.split("-")])
    return words & _CUES
