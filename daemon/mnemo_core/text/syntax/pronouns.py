"""Pronouns whose referent is not in their sentence, and the speaker's name for "I". SPEC 5.6

A verb that cannot be turned to the third person leaves the "I".
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from mnemo_core.text.syntax import english
from mnemo_core.text.syntax.clauses import CLOSED, EDGES, FIRST, OURS, THIRD, Clause, SentenceWord, find_main_clause

Sort = Literal["he", "she", "person", "name", "thing", "they"]
# What each pronoun may mean.
_MEANT: dict[str, frozenset[Sort]] = {
    "he": frozenset({"he", "person", "name"}),
    "she": frozenset({"she", "person", "name"}),
    "it": frozenset({"thing", "name"}),
    "they": frozenset({"they", "he", "she", "person", "name"}),
}


class NamedReferent(NamedTuple):
    """Somebody or something that a sentence names, and that a pronoun may mean; `at` is its first word."""

    sort: Sort
    at: int


def find_referents(words: Sequence[SentenceWord]) -> list[NamedReferent]:
    """People and things that a sentence names, in order. A predicate after "is a" names nothing new."""
    found: list[NamedReferent] = []
    main = find_main_clause(words)
    verb = main.verb if main else len(words)
    at = 0
    while at < len(words):
        phrase = _phrase(words, at, verb)
        if phrase is None:
            at += 1
            continue
        sort, end = phrase
        is_said_of = at >= 2 and words[at - 1].bare in english.BE
        if not (is_said_of and (words[at].bare in {"a", "an"} or sort == "name")):
            found.append(NamedReferent(sort, at))
        at = end
    return found


def _phrase(words: Sequence[SentenceWord], at: int, verb: int) -> tuple[Sort, int] | None:
    """The sort of the name or noun phrase that begins at a word, and the word behind it."""
    word = words[at]
    if word.bare in english.DETERMINERS or word.bare in english.COUNTS or word.raw.isdigit():
        return _noun_phrase(words, at, verb)
    if not _is_name(words, at):
        return None
    end = at + 1
    while end < len(words) and _is_name(words, end) and not CLOSED.search(words[end - 1].raw):
        if words[end - 1].raw.endswith("'s"):
            break
        end += 1
    return _sort_of_name(words, at), end


def _noun_phrase(words: Sequence[SentenceWord], at: int, verb: int) -> tuple[Sort, int] | None:
    end = at + 1
    while end < len(words) and end < at + 5 and end != verb and not CLOSED.search(words[end - 1].raw):
        bare = words[end].bare
        is_verb = bare in english.BE | english.AUX_ONE | english.AUX_MANY | english.AUX_PAST | english.MODALS
        is_verb = is_verb or (end > at + 1 and (bare in english.BASE_OF_THIRD or bare in english.BASE_OF_PAST))
        if (
            is_verb
            or bare in english.PREPOSITIONS | english.SUBORDINATORS | {"and", "or", "but"}
            or english.is_adverb(bare)
        ):
            break
        end += 1
    if end == at + 1:
        return None
    nouns = [word.bare for word in words[at + 1 : end]]
    sort: Sort = "thing"
    if set(nouns) & english.HER:
        sort = "she"
    elif set(nouns) & english.HIM:
        sort = "he"
    elif set(nouns) & english.SOMEONE:
        sort = "person"
    elif (
        words[at].bare in english.COUNTS
        or words[at].raw.isdigit()
        or nouns[-1] in english.PLURALS
        or _is_plural(nouns[-1])
    ):
        sort = "they"
    return sort, end


def _is_plural(noun: str) -> bool:
    return noun.endswith("s") and not noun.endswith(("ss", "us", "is"))


def _is_name(words: Sequence[SentenceWord], at: int) -> bool:
    word = words[at]
    letters = word.raw.strip(EDGES)
    if not letters or not letters[0].isupper() or word.bare in FIRST | OURS or word.bare in english.DATES:
        return False
    if at:
        return True
    return (
        word.bare not in english.PREPOSITIONS | english.SUBORDINATORS | english.DETERMINERS and word.bare not in THIRD
    )


def _sort_of_name(words: Sequence[SentenceWord], at: int) -> Sort:
    first = words[at].bare.removesuffix("'s")
    if first in english.WOMEN:
        return "she"
    if first in english.MEN:
        return "he"
    # "lives in X", "works at X": a place or a company, unless it is a known first name.
    return "thing" if at and words[at - 1].bare in english.PLACE_PREPOSITIONS else "name"


def begins_with_reference(words: Sequence[SentenceWord]) -> bool:
    """Return whether the sentence begins with a pronoun that means something of another sentence; "it rains" does
    not."""
    first = words[0].bare
    if first not in THIRD or first in {"him", "them", "hers", "theirs"}:
        return False
    return not (first == "it" and _is_weather(words, 0))


def _is_small(bare: str) -> bool:
    small = english.PREPOSITIONS | english.DETERMINERS | english.DATES | english.NEGATIONS | english.COUNTS
    return bare in small or english.is_adverb(bare) or bare.isdigit() or bare in FIRST | OURS or bare in {"and", "but"}


def is_anchored(words: Sequence[SentenceWord]) -> bool:
    """Return whether every third-person pronoun has a possible referent before it in the same sentence."""
    if not any(word.bare in THIRD for word in words):
        return True
    names = find_referents(words)
    found = find_main_clause(words)
    for at, word in enumerate(words):
        if word.bare not in THIRD or (word.bare == "it" and _is_weather(words, at)):
            continue
        earlier = [each for each in names if each.at < at]
        is_object = word.bare in {"him", "them"} or (word.bare == "her" and not _owns(words, at))
        if (
            is_object
            and found is not None
            and not {"and", "but", *english.SUBORDINATORS} & {w.bare for w in words[:at]}
        ):
            earlier = [each for each in earlier if each.at >= found.verb]
        if word.bare in {"it", "its"} and _has_thing(words, at, found, is_subject_meant=word.bare == "its"):
            continue
        if word.bare in {"they", "them", "their"} and any(
            _is_plural(w.bare) or w.bare in english.PLURALS for w in words[:at]
        ):
            continue
        if not any(each.sort in _MEANT[THIRD[word.bare]] for each in earlier):
            return False
    return True


def _has_thing(words: Sequence[SentenceWord], at: int, found: Clause | None, *, is_subject_meant: bool) -> bool:
    """Return whether a word before `at` may be the referent of "it": the subject only from another clause."""
    bare = [word.bare for word in words[:at]]
    if found is None or is_subject_meant or {"but", *english.SUBORDINATORS} & set(bare):
        return any(word not in THIRD and not _is_small(word) for word in bare)
    return any(
        not _is_small(bare[number]) and bare[number] not in english.WOMEN | english.MEN
        and not english.is_finite(bare[number], "one") and not bare[number][:1].isdigit()
        for number in range(found.verb + 1, at)
    )  # fmt: skip


def _is_weather(words: Sequence[SentenceWord], at: int) -> bool:
    return bool({word.bare for word in words[at + 1 : at + 3]} & english.WEATHER)


def _owns(words: Sequence[SentenceWord], at: int) -> bool:
    """Return whether "her" is possessive: a noun follows."""
    if at + 1 >= len(words) or CLOSED.search(words[at].raw) or words[at].raw.endswith("."):
        return False
    following = words[at + 1].bare
    return following not in english.PREPOSITIONS | english.DETERMINERS | {"and", "but"} and not english.is_adverb(
        following
    )


def in_third_person(words: Sequence[SentenceWord], name: str) -> list[SentenceWord] | None:
    """The sentence with the speaker's name for I, me and my, the verbs turned; None where that is not sure."""
    bare = [word.bare for word in words]
    if set(bare) & (OURS | {"mine", "myself"}) or any(mark in word.raw for word in words for mark in '"“”'):
        return None
    if set(name.lower().split()) & set(bare):
        return None
    turned: list[SentenceWord] = []
    at = begin = 0  # begin: of what follows the last verb that was turned
    while at < len(words):
        word = words[at]
        if word.bare != "i":
            turned.append(_owned_by(word, name))
            at += 1
            continue
        rest = words[begin:]
        verb = _verb_of(rest, at - begin)
        third = english.third_person(rest[verb].bare) if verb is not None else None
        if verb is None or third is None or not _is_alone(rest, at - begin, verb):
            return None
        turned.append(_put(word, name))
        turned += rest[at - begin + 1 : verb]
        turned.append(rest[verb]._replace(raw=rest[verb].raw.replace(rest[verb].bare, third), bare=third))
        at = begin = begin + verb + 1
    return turned


def _owned_by(word: SentenceWord, name: str) -> SentenceWord:
    if word.bare == "my":
        return _put(word, f"{name}'s")
    return _put(word, name) if word.bare == "me" else word


def _put(word: SentenceWord, raw: str) -> SentenceWord:
    """Another word in the place of one, with its punctuation."""
    start = word.raw.lower().find(word.bare)
    return word._replace(raw=word.raw[:start] + raw + word.raw[start + len(word.bare) :], bare=raw.lower())


def _verb_of(words: Sequence[SentenceWord], at: int) -> int | None:
    """The verb that "I" goes with."""
    if CLOSED.search(words[at].raw) or (at and words[at - 1].bare in {"and", "or"} and not _begins_clause(words, at)):
        return None
    verb = at + 1
    while verb < len(words) and english.is_adverb(words[verb].bare):
        verb += 1
    return verb if verb < len(words) else None


def _begins_clause(words: Sequence[SentenceWord], at: int) -> bool:
    """Return whether "and I" begins a clause: a verb came before. "Ben and I" has none."""
    return any(english.is_finite(word.bare, "many") or english.is_finite(word.bare, "one") for word in words[: at - 1])


def _is_alone(words: Sequence[SentenceWord], at: int, verb: int) -> bool:
    """Return whether no other verb with the same "I" would have to be turned too."""
    if words[verb].bare in english.MODALS | english.AUX_PAST or words[verb].bare in english.BASE_OF_PAST:
        return True
    for number in range(verb + 1, len(words) - 1):
        if words[number].bare == "i":
            return True
        follows = words[number].bare in {"and", "or", "but"} or words[number].raw.endswith(",")
        if follows and (
            english.is_base(words[number + 1].bare) or words[number + 1].bare in {"don't", "haven't", "am"}
        ):
            return False
        if follows and english.is_adverb(words[number + 1].bare):
            return False
    return True
