"""Pronouns whose referent is not in their sentence, and the speaker's name for "I". SPEC 5.6

A verb that cannot be turned to the third person leaves the "I".
"""

from collections.abc import Sequence

from mnemo_core.text.syntax import english
from mnemo_core.text.syntax.clauses import CLOSED, EDGES, FIRST, OURS, THIRD, SentenceWord, find_main_clause


def find_referents(words: Sequence[SentenceWord]) -> list[int]:
    """The first words of the phrases that name people and things, which a pronoun may mean, in order. A predicate after
    "is a" names nothing new."""
    found: list[int] = []
    main = find_main_clause(words)
    verb = main.verb if main else len(words)
    at = 0
    while at < len(words):
        is_phrase = words[at].bare in english.DETERMINERS | english.COUNTS or words[at].raw.isdigit()
        end = _end_of_phrase(words, at, verb) if is_phrase else _end_of_name(words, at)
        is_predicate = at >= 2 and words[at - 1].bare in english.BE
        if end > at + is_phrase and not (is_predicate and (not is_phrase or words[at].bare in {"a", "an"})):
            found.append(at)
        at = max(end, at + 1) if not is_phrase or end > at + 1 else at + 1
    return found


def _end_of_name(words: Sequence[SentenceWord], at: int) -> int:
    """The word behind the name that begins at a word; that word itself where it is no name."""
    end = at
    while end < len(words) and _is_name(words, end):
        end += 1
        if words[end - 1].raw.endswith("'s") or CLOSED.search(words[end - 1].raw):
            break
    return end


def _end_of_phrase(words: Sequence[SentenceWord], at: int, verb: int) -> int:
    """The word behind the noun phrase that begins with a determiner or number."""
    end = at + 1
    while end < len(words) and end < at + 5 and end != verb and not CLOSED.search(words[end - 1].raw):
        bare = words[end].bare
        is_verb = bare in english.BE | english.AUX_ONE | english.AUX_MANY | english.AUX_PAST | english.MODALS
        is_verb = is_verb or (end > at + 1 and (bare in english.BASE_OF_THIRD or bare in english.BASE_OF_PAST))
        ends = english.PREPOSITIONS | english.SUBORDINATORS | {"and", "or", "but"}
        if is_verb or bare in ends or english.is_adverb(bare):
            break
        end += 1
    return end


def _is_name(words: Sequence[SentenceWord], at: int) -> bool:
    word = words[at]
    letters = word.raw.strip(EDGES)
    if not letters or not letters[0].isupper() or word.bare in FIRST | OURS or word.bare in english.DATES:
        return False
    no_names = english.PREPOSITIONS | english.SUBORDINATORS | english.DETERMINERS | THIRD.keys()
    return at > 0 or word.bare not in no_names


def begins_with_reference(words: Sequence[SentenceWord]) -> bool:
    """Return whether the sentence begins with a pronoun that means something of another sentence; "it rains" does
    not."""
    first = words[0].bare
    if first not in THIRD or first in {"him", "them", "hers", "theirs"}:
        return False
    return not (first == "it" and _is_weather(words, 0))


def is_anchored(words: Sequence[SentenceWord]) -> bool:
    """Return whether every third-person pronoun follows what it may mean in the same sentence: a name, noun phrase or
    plural, which of an object in the first clause is not the subject."""
    if not any(word.bare in THIRD for word in words):
        return True
    plurals = [at for at, word in enumerate(words) if _is_plural(word.bare) or word.bare in english.PLURALS]
    named = sorted({*find_referents(words), *plurals})
    main = find_main_clause(words)
    for at, word in enumerate(words):
        if word.bare not in THIRD or (word.bare == "it" and _is_weather(words, at)):
            continue
        is_joined = bool({"and", "but", *english.SUBORDINATORS} & {each.bare for each in words[:at]})
        is_object = word.bare in {"it", "him", "them"} and main is not None and not is_joined
        first = main.verb if is_object and main is not None else 0
        if not any(first <= each < at for each in named):
            return False
    return True


def _is_plural(noun: str) -> bool:
    return noun.endswith("s") and len(noun) > 3 and not noun.endswith(("ss", "us", "is", "'s"))


def _is_weather(words: Sequence[SentenceWord], at: int) -> bool:
    return bool({word.bare for word in words[at + 1 : at + 3]} & english.WEATHER)


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
            owner = {"my": f"{name}'s", "me": name}.get(word.bare)
            turned.append(_put(word, owner) if owner else word)
            at += 1
            continue
        rest = words[begin:]
        verb = _verb_of(rest, at - begin)
        third = english.third_person(rest[verb].bare) if verb is not None else None
        if verb is None or third is None or not _is_alone(rest, verb):
            return None
        turned.append(_put(word, name))
        turned += rest[at - begin + 1 : verb]
        turned.append(rest[verb]._replace(raw=rest[verb].raw.replace(rest[verb].bare, third), bare=third))
        at = begin = begin + verb + 1
    return turned


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


def _is_alone(words: Sequence[SentenceWord], verb: int) -> bool:
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
