"""Noise filter: rejects turns of a conversation that are not worth storing. SPEC 5.7 [T]

Rejected are turns that say nothing ("ok thanks", "👍") and output that only machines write (stack traces, retries,
progress, logs). A short answer with content is kept ("Lisbon.", "47", "Tuesday at 5"), and so is what a person says
about an error. A turn wrongly kept costs little; one wrongly rejected is a lost memory: in doubt it is kept.
"""

import re
from typing import Literal

from mnemo_core.text import lexicon
from mnemo_core.text.languages import CJK, CJK_CHARACTER
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import alternation
from mnemo_core.text.preferences import find_preference

RejectReason = Literal["too_short", "stop_words", "infrastructure_noise", "near_duplicate"]

# What says nothing by itself, in any number and order.
_EMPTY_WORDS = lexicon.words("noise_filter", "empty_words")
_LAUGH = lazy_pattern(alternation("noise_filter", "laughs"))
_ASIAN_EMPTY = lazy_pattern(rf"(?:{alternation('noise_filter', 'asian_empty')})++")


# Said so often that they say nothing, though their words would.
_PHRASES = lazy_pattern(rf"\b(?:{alternation('noise_filter', 'phrases')})\b")
_WORD = lazy_pattern(rf"[{CJK}]+|[^\W_{CJK}]+(?:['-][^\W_]+)*")
_STRETCHED = lazy_pattern(r"(.)\1{2,}")
_EMPTY_CHARS_MAX = 160  # longer ones say something, whatever their words

# Lines that only machines write. Loud ones are certain; quiet ones count unless a person comments on them.
_LOUD = lazy_pattern(rf"\s*(?:{alternation('noise_filter', 'loud')})")
_PROGRESS = lazy_pattern(alternation("noise_filter", "progress"))
_QUIET = lazy_pattern(rf"\s*+[\[(<⚠️❌✗×!*\ -]*+(?:{alternation('noise_filter', 'quiet')})", re.IGNORECASE)
# builtins.ValueError: … — certain within a trace; alone, unless a person explains it.
_NAMED_ERROR = lazy_pattern(r"\s*(?:[\w$]+[.:]+)*[A-Z]\w+(?:Error|Exception|Interrupt|Warning)(?::\ .*|\s*)$")
# Words of machine messages, besides names, numbers and paths. Any other word means that a person speaks.
_MACHINE_WORDS = lexicon.words("noise_filter", "machine_words")
_FIGURE = lazy_pattern(r"\d|\w[./:=_]\w")
_PLAIN_WORD = lazy_pattern(r"[^\W\d_]+(?:['-][^\W\d_]+)*")


_LINE_CHARS_MAX = 400  # of a line, enough to classify it
_QUIET_WORDS_MAX = 16
# A person describes an error, its cause or its fix.
_TOLD = lazy_pattern(alternation("noise_filter", "told"), re.IGNORECASE)
_INDENTED = lazy_pattern(r"(?:\t|  +)\S|[\s^~|+-]+$|[})\]];?,?$")


def reject_reason(text: str) -> RejectReason | None:
    """The reason why the text is not worth storing, None when it may be. Near duplicates are tested elsewhere."""
    plain = text.strip()
    if not any(character.isalnum() for character in plain):
        return "too_short"
    if len(plain) <= _EMPTY_CHARS_MAX and _says_nothing(plain) and not find_preference(plain):
        return "stop_words"
    return "infrastructure_noise" if _is_of_machines(plain) else None


def _says_nothing(plain: str) -> bool:
    lowered = plain.lower().replace("’", "'")
    return all(_is_empty(word) for word in _WORD.findall(_PHRASES.sub(" ", lowered)))


def _is_empty(word: str) -> bool:
    if CJK_CHARACTER.match(word):
        return _ASIAN_EMPTY.fullmatch(word) is not None
    if word in _EMPTY_WORDS or _LAUGH.fullmatch(word):
        return True
    return _STRETCHED.sub(r"\1", word) in _EMPTY_WORDS if _STRETCHED.search(word) else False


def _is_of_machines(plain: str) -> bool:
    """Return whether every line is a machine's, or continues one."""
    seen = False
    for line in plain.splitlines():
        if not line.strip():
            continue
        head = line[:_LINE_CHARS_MAX]
        if _LOUD.match(head) or _is_quiet(head) or (_NAMED_ERROR.match(head) and (seen or not _TOLD.search(head))):
            seen = True
        elif not (seen and _INDENTED.match(head)) and not _says_nothing(head):
            return False
    return seen


def _is_quiet(line: str) -> bool:
    """Return whether the line is a mere complaint or progress report of a machine, with no person's words about it."""
    if _PROGRESS.search(line):
        return not _TOLD.search(line)
    if not _QUIET.match(line) or len(line.split()) > _QUIET_WORDS_MAX:
        return False
    # Chunks with figures, paths and hosts are no words of a language.
    spoken = (chunk for chunk in line.split() if not _FIGURE.search(chunk))
    return (
        all(
            word.lower() in _MACHINE_WORDS or CJK_CHARACTER.match(word) or word.isupper()
            for chunk in spoken
            for word in _PLAIN_WORD.findall(chunk)
        )
        or CJK_CHARACTER.search(line) is not None
    )
