"""Questions that only the question before them makes whole, such as "and when was that?". SPEC 11

A question is a follow-up where it has no content word, or hardly any and a word that points back. It then takes the
content words of the question before it, so that it can be recalled without a model.
"""

import re

from mnemo_core.text.languages import CJK_CHARACTER, EMPTY_WORDS, WORD, content_words
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import alternation

CHARACTERS_MAX = 400  # a longer question has its subject in it
OWN_WORDS_MAX = 2  # content words that a follow-up may have of its own
UNSPACED_CHARACTERS_MAX = 12  # of a Chinese or Japanese one
ADDED_WORDS_MAX = 12

_OPENING = lazy_pattern(alternation("questions", "follow_up_opening"), re.IGNORECASE)
_ANAPHOR = lazy_pattern(alternation("questions", "anaphor"), re.IGNORECASE)
_SPECIFIC = lazy_pattern(r"[0-9]|(?<=[\w,] )[A-ZÄÖÜÉ]\w")  # a number, or a name that does not begin the question


def is_follow_up(question: str) -> bool:
    """Return whether a question is not whole without the one before it."""
    if len(question) > CHARACTERS_MAX:
        return False
    points_back = _OPENING.search(question) or _ANAPHOR.search(question)
    if CJK_CHARACTER.search(question):
        return points_back is not None and len(WORD.findall(question)) <= UNSPACED_CHARACTERS_MAX
    words = [word for word in content_words(_ANAPHOR.sub(" ", question)) if len(word) > 1]  # not the s of "what's"
    if not words:
        return True
    return points_back is not None and len(words) <= OWN_WORDS_MAX and not _SPECIFIC.search(question)


def resolve_follow_up(question: str, before: str) -> str:
    """Return a question made whole by the question before it: itself where it is no follow-up."""
    if not is_follow_up(question):
        return question
    own = {word.casefold() for word in WORD.findall(question)} | EMPTY_WORDS
    words = {word.casefold(): word for word in WORD.findall(_ANAPHOR.sub(" ", before))}
    added = [word for small, word in words.items() if small not in own][:ADDED_WORDS_MAX]
    joint = "" if added and all(map(CJK_CHARACTER.match, added)) else " "
    return f"{question} ({joint.join(added)})" if added else question
