"""The patterns in which a text claims something of a subject, and the words that name attributes. SPEC 5.5

The patterns are data: text/lexicon/claim_frames.txt.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from mnemo_core.text import lexicon
from mnemo_core.text.languages import HAN, KATAKANA, UNSPACED
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed
from mnemo_core.text.tokens import SYNONYMS


class Frame(NamedTuple):
    """One pattern. attribute: its name; `*`: named by the words before the verb; `use`: by the tool; "": unknown."""

    attribute: str
    pattern: re.Pattern[str]
    is_change: bool  # it says that the value was another one before
    is_typed: bool  # its value is a number, date or identifier; the words around it are none of it
    is_personal: bool  # its subject may stand in the clause before
    needs: frozenset[str]  # words of which a clause has one at least; none: any clause may fit
    is_han: bool  # it is for Chinese or Japanese
    is_weak: bool  # what fits it may be something else: it counts only against a change


KIN = lexicon.words("attributes", "kin")
# Attributes that have one value at a time, when that value is a word.
SINGLE = lexicon.words("attributes", "single")
# Those of them whose value may be any word. Of the others it is a name, a number or a known tool.
WORDED = lexicon.words("attributes", "worded")
# Words that tell how something is, and not what: "my car is great" leaves it the car that it was.
DESCRIBING = lexicon.words("attributes", "describing")
GROUPS = lexicon.words("attributes", "groups")
PEOPLE = lexicon.words("attributes", "people")


def _named(section: str) -> Iterator[tuple[str, str]]:
    for group in lexicon.lines("attributes", section):
        name, _, words = group.partition(" ")
        for word in words.split(","):
            yield " ".join(SYNONYMS.get(each, each) for each in word.split()), name


ATTRIBUTES = dict(_named("named"))  # one name for attributes that are called differently
CATEGORIES = {word: name for words, name in _named("tools") for word in words.split()}  # what a tool is used as

_EVERYWHERE = lexicon.words("attributes", "everywhere")  # what nearly every clause has
_VERBS = listed("is are am was were been has have had")


def _words(pattern: str) -> frozenset[str]:
    """The words of a pattern, with and without an ending that may be missing."""
    literal = re.sub(r"\(\?P<\w>|\(\?[:!=]|\[[^\]]{0,300}\]|\\\w", " ", pattern)
    words = set(re.findall(r"[^\W\d_]+\??", literal.lower()))
    found = {word.removesuffix("?") for word in words} | {word[:-2] for word in words if word.endswith("?")}
    return frozenset(found)


def _frame(row: str) -> Frame:
    attribute, flags, pattern = row.split(" ", 2)
    needs = frozenset[str]() if "a" in flags or HAN in pattern else _words(pattern) - _EVERYWHERE
    return Frame(
        attribute.removeprefix("-"),
        lazy_pattern(pattern, re.IGNORECASE),
        is_change="c" in flags,
        is_typed="t" in flags,
        is_personal="p" in flags,
        needs=needs,
        is_han=HAN in pattern,
        is_weak="w" in flags,
    )


FRAMES = [
    _frame(row) for row in lexicon.patterns("claim_frames", "frames", HAN=HAN, KATAKANA=KATAKANA, UNSPACED=UNSPACED)
]
# Words of which a clause that fits any frame has one, but for Chinese and Japanese, and for "a: b" and "a = b".
SIGNS = frozenset[str]().union(*(_words(frame.pattern.pattern) for frame in FRAMES)) - (_EVERYWHERE - _VERBS)
