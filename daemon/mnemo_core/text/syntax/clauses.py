"""The subject and the verb of an English sentence, and whether it may stand alone. SPEC 5.6

What is not understood is no clause.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from mnemo_core.text import lexicon
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed
from mnemo_core.text.syntax import english
from mnemo_core.text.syntax.english import Number

SUBJECT_WORDS_MAX = 9
LEAD_WORDS_MAX = 20  # of what may stand before the subject: "In 2020, …", "If it rains, …"


class SentenceWord(NamedTuple):
    """A word as it stands, bare (in lower case, without punctuation), and the characters it was taken from."""

    raw: str
    bare: str
    start: int
    end: int


class Clause(NamedTuple):
    """Numbers of words: the subject is start to subject_end, the finite verb is `verb`."""

    start: int
    subject_end: int
    verb: int
    number: Number
    form: english.Form


EDGES = ".,;:!?\"'()[]…“”‘’*_`«»"
CLOSED = lazy_pattern(r"[,;:)\]…\"”]$")
_CONTRACTIONS = {
    pronoun + clitic: word
    for pronoun in listed("i we they he she it there")
    for clitic, word in english.CLITICS.items()
    if clitic != "n't"
}
_IS_NEXT = lexicon.words("clauses", "is_next")
THIRD = {"he": "he", "him": "he", "his": "he", "she": "she", "her": "she", "hers": "she", "it": "it", "its": "it"}
THIRD |= {"they": "they", "them": "they", "their": "they", "theirs": "they"}
POSSESSIVES = frozenset(("his", "her", "its", "their"))
_SUBJECTS = listed("i we my our the he she they it")  # that may begin a clause
_SELVES = frozenset(("himself", "herself", "itself", "themselves", "myself", "ourselves"))
FIRST = frozenset(("i", "me", "my", "mine", "myself", "i'm", "i've", "i'll"))
OURS = frozenset(("we", "us", "our", "ours", "ourselves"))
_CONNECTORS = frozenset(("and", "but", "so", "also", "well", "however", "anyway", "besides", "ok", "okay", "yes"))
_DANGLING_FIRST = lexicon.words("clauses", "dangling_first")
_DANGLING_LAST = lexicon.words("clauses", "dangling_last")
_BACKWARD = listed("former latter aforementioned above-mentioned latter's former's")


def words_of(sentence: str, offset: int) -> list[SentenceWord]:
    """The words of a sentence that begins at `offset`; I'm, she's and the like as two."""
    found: list[SentenceWord] = []
    pieces = list(re.finditer(r"\S+", sentence))
    for number, piece in enumerate(pieces):
        raw = piece[0].replace("’", "'")
        bare = raw.strip(EDGES).lower()
        start, end = offset + piece.start(), offset + piece.end()
        following = pieces[number + 1][0].strip(EDGES).lower() if number + 1 < len(pieces) else ""
        second = _CONTRACTIONS.get(bare) or _contracted(bare, following)
        if second and raw.lower() == bare:
            cut = raw.index("'")
            found += [SentenceWord(raw[:cut], bare[:cut], start, end), SentenceWord(second, second, start, end)]
        else:
            found.append(SentenceWord(raw, bare, start, end))
    return found


def _contracted(bare: str, following: str) -> str:
    """The word that the 's of "she's" replaces; "" where it is a possessive or ambiguous."""
    if not bare.endswith("'s") or not following:
        return ""
    is_pronoun = bare[:-2] in {"he", "she", "it", "there"}
    if following in {"been", "got"}:
        return "has"
    if following in {"a", "an", "not"} or (is_pronoun and (following in _IS_NEXT or following[0].isdigit())):
        return "is"
    return "is" if is_pronoun and following.endswith("ing") else ""


def without_connector(words: list[SentenceWord]) -> list[SentenceWord]:
    """Without the "And" or "However," that only ties it to what was said before."""
    while len(words) > 2 and words[0].bare in _CONNECTORS:
        words = words[1:]
    return words


def can_stand_alone(words: Sequence[SentenceWord]) -> bool:
    """Return whether the sentence can stand alone: no question, no supposition, no address, no reference to
    elsewhere."""
    bare = [word.bare for word in words]
    if len(words) < 2 or words[-1].raw.endswith(("?", ":", "...", "…", "?!", "?)")):
        return False
    if bare[0] in _DANGLING_FIRST and not _is_time(bare, 0):
        return False
    if bare[-1] in _DANGLING_LAST or set(bare) & _BACKWARD:
        return False
    if any(word in english.OTHERS_WORD or word in english.SUPPOSED or word.endswith("'d") for word in bare):
        return False
    if any(word.raw == "may" or word.bare in _SELVES & FIRST for word in words):
        return False
    return all(_points_nowhere(words, at) for at in range(len(words)))


def _is_time(bare: Sequence[str], at: int) -> bool:
    return bare[at] in {"this", "that", "these"} and at + 1 < len(bare) and bare[at + 1] in english.TIME_NOUNS


def _points_nowhere(words: Sequence[SentenceWord], at: int) -> bool:
    """Return whether the word is no "this" or "that" with a reference to elsewhere."""
    bare = words[at].bare
    if bare in {"this", "these", "those"}:
        return _is_time([word.bare for word in words], at)
    if bare != "that" or at == 0:
        return True
    before, following = words[at - 1].bare, words[at + 1].bare if at + 1 < len(words) else ""
    if not following or CLOSED.search(words[at].raw) or before in english.PREPOSITIONS:
        return False
    is_verb = following in english.AUX_ONE | english.AUX_PAST or following in english.BASE_OF_THIRD
    return not (is_verb and (before in english.SAYING or before in english.BASE_OF_PAST))


def find_clause(words: Sequence[SentenceWord], start: int = 0) -> Clause | None:
    """The subject and the finite verb from word `start` on; None where they are not certain."""
    if start >= len(words):
        return None
    first = words[start].bare
    if first in {"i", "he", "she", "it", "we", "they", "there"}:
        number: Number = "I" if first == "i" else "one" if first in {"he", "she", "it"} else "many"
        if first == "there":
            number = "one" if start + 1 < len(words) and words[start + 1].bare in {"is", "was", "isn't"} else "many"
        return _verb_after(words, start, start + 1, number)
    if not first or first in english.PREPOSITIONS or first in english.SUBORDINATORS or english.is_adverb(first):
        return None
    for end in range(start + 1, min(start + SUBJECT_WORDS_MAX, len(words))):
        before = words[end - 1]
        if CLOSED.search(before.raw) or before.bare in english.SUBORDINATORS | (THIRD.keys() - POSSESSIVES):
            return None
        for number in _numbers(words[start:end]):
            found = _verb_after(words, start, end, number)
            if found and _is_verb_here(words, found):
                return found
    return None


def _verb_after(words: Sequence[SentenceWord], start: int, end: int, number: Number) -> Clause | None:
    """The clause whose subject ends at `end`, if a finite verb follows, with no more than adverbs between."""
    at = end
    while (
        at < len(words) - 1 and at < end + 3 and english.is_adverb(words[at].bare) and not CLOSED.search(words[at].raw)
    ):
        at += 1
    if at >= len(words):
        return None
    form = english.is_finite(words[at].bare, number) or _looks_finite(words, start, end, at, number)
    return Clause(start, end, at, number, form) if form else None


def _looks_finite(words: Sequence[SentenceWord], start: int, end: int, at: int, number: Number) -> english.Form | None:
    """A verb that is in no list, where nothing but a verb can stand: right after "she" or a lone name."""
    bare = words[at].bare
    are_names = all(word.raw[0].isupper() and not word.raw.endswith("'s") for word in words[start:end])
    is_name = are_names and end - start <= 2
    if words[at].raw != words[at].raw.lower() or not is_name or not bare.isalpha():
        return None
    following = words[at + 1] if at + 1 < len(words) else None
    if bare.endswith("ed") and len(bare) > 4:
        return "past"
    is_followed = following is not None and (
        following.bare in english.PREPOSITIONS | english.DETERMINERS or following.raw[0].isdigit()
    )
    is_third = bare.endswith("s") and not bare.endswith(("ss", "us", "is")) and len(bare) > 3
    return "third" if number == "one" and is_third and is_followed else None


def _is_verb_here(words: Sequence[SentenceWord], found: Clause) -> bool:
    """Return whether the word is the verb, and no noun or participle of the same form."""
    before, verb = words[found.verb - 1], words[found.verb].bare
    following = words[found.verb + 1].bare if found.verb + 1 < len(words) else ""
    if found.verb == found.subject_end and (
        before.bare in english.DETERMINERS or before.raw.endswith(("'s", "s'")) or before.bare in english.PREPOSITIONS
        or before.bare in english.COUNTS or before.bare in {"and", "or", "to"}
    ):  # fmt: skip
        return False
    if found.form == "aux":
        return True
    if english.is_base(words[found.start].bare) and not words[found.start].raw[0].isupper() and found.form != "third":
        return False
    later = [word.bare for word in words[found.verb + 1 : found.verb + 7]]
    is_noun = following in english.BE or following in english.AUX_ONE | english.AUX_MANY | english.MODALS
    # "The car parked outside is red": the first verb is only a participle.
    is_reduced = found.form == "past" and verb in english.PARTICIPLES and bool(later)
    is_reduced = is_reduced and later[0] in english.PREPOSITIONS and any(word in english.BE for word in later)
    return not is_noun and not (is_reduced and not {"and", "but"} & set(later))


def _numbers(subject: Sequence[SentenceWord]) -> tuple[Number, ...]:
    """Possible numbers of a noun phrase, the likelier first."""
    bare = [word.bare for word in subject]
    if "and" in bare:
        is_within = any(word in english.PREPOSITIONS for word in bare[: bare.index("and")])
        return ("one", "many") if is_within else ("many",)
    if bare[0] in english.COUNTS or bare[0] in {"several", "many", "few", "these", "those"} or subject[0].raw.isdigit():
        return ("many",)
    ends = next((at for at, word in enumerate(bare) if at and word in english.PREPOSITIONS), len(bare))
    head = subject[ends - 1]
    looks_plural = head.bare.endswith("s") and not head.bare.endswith(("ss", "us", "is"))
    if bare[0] in {"most", "all", "some", "no"}:
        return ("many", "one")
    if head.raw[0].islower() or len(subject) == 1:
        if head.bare in english.PLURALS:
            return ("many",)
        if looks_plural:
            return ("many",) if len(subject) > 1 and head.raw[0].islower() else ("one", "many")
        return ("one",)
    return ("many", "one") if looks_plural and bare[0] == "the" else ("one",)


def find_main_clause(words: Sequence[SentenceWord]) -> Clause | None:
    """The clause of the sentence, also behind "In 2020," or "If it rains,"."""
    first = words[0].bare
    if not is_imperative(words) and (found := find_clause(words)):
        return found
    may_lead = first in english.PREPOSITIONS or first in english.SUBORDINATORS or english.is_adverb(first)
    may_lead = may_lead or first in {"yesterday", "today", "tomorrow", "last", "next", "every", "this", "unfortunately"}
    if not may_lead:
        return None
    for at in range(1, min(LEAD_WORDS_MAX, len(words) - 1)):
        if words[at - 1].raw.endswith(",") and (found := find_clause(words, at)):
            return found
    if first in english.SUBORDINATORS - {"since", "before", "after", "until"}:
        return None
    for at in range(1, min(7, len(words) - 1)):
        begins = words[at].raw[0].isupper() or words[at].bare in _SUBJECTS
        if begins and words[at].bare not in english.DATES and (found := find_clause(words, at)):
            return found
    return None


def is_imperative(words: Sequence[SentenceWord]) -> bool:
    """ "Buy milk": a base form first, and no verb right behind it."""
    if not english.is_base(words[0].bare) or words[0].bare in english.GIVEN_NAMES:
        return False
    second = words[1].bare if len(words) > 1 else ""
    verbs = english.BE | english.AUX_ONE | english.AUX_PAST | english.MODALS
    return second not in verbs and second not in english.BASE_OF_THIRD
