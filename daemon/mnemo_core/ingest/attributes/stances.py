"""Stances: an activity, taste or state, and its end: "I drink coffee", "I don't drink coffee any more". SPEC 5.5

A stance has a subject, a verb, an object, and a side: that it holds, or that it does not. One that says of itself that
this is new ("no longer", "any more", "stopped", "again") replaces the other side of the same stance. The object of what
is new has to stand in the older one with all its words, and to be the same thing: who no longer likes green tea may
still like tea, and who has no dog any more never had to lose the dog sitter.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from mnemo_core.text import lexicon
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import alternation, listed
from mnemo_core.text.syntax.english import ing_form, third_form

CLAUSE_CHARS_MAX = 160  # a longer one tells more than a stance
OBJECT_WORDS_MAX = 6


class Stance(NamedTuple):
    """said: the words of the subject. head: the thing itself, "" where there is none; words: all of the object's."""

    subject_words: str
    verb: str
    head: str
    words: frozenset[str]
    holds: bool
    is_change: bool


_LIKE = listed("like love enjoy adore prefer")
_VERBS = lexicon.words("attributes", "verbs")
_FORMS = {
    form: "like" if verb in _LIKE else verb for verb in _VERBS for form in (verb, third_form(verb), ing_form(verb))
}
_GIVEN_UP = ("drink", "eat", "take", "smoke", "use", "play", "watch", "study")  # what "gave up coffee" may mean

_SUBJECT = r"(?P<s>(?:[\w'’.-]{1,40} ){1,5}?)"
_NEGATED = [
    lazy_pattern(rf"{_SUBJECT}(?:am|is|are) (?:(?P<c>no longer)|not) (?P<o>[^.!?]{{1,100}})$", re.IGNORECASE),
    lazy_pattern(rf"{_SUBJECT}(?P<c>no longer) (?P<v>\w{{1,20}})(?: (?P<o>[^.!?]{{1,100}}))?$", re.IGNORECASE),
    lazy_pattern(
        rf"{_SUBJECT}(?:don't|do not|doesn't|does not|dont)(?P<c>) (?P<v>\w{{1,20}})(?: (?P<o>[^.!?]{{1,100}}))?$",
        re.IGNORECASE,
    ),
]
_STOPPED = lazy_pattern(
    rf"{_SUBJECT}(?:have |has )?(?:stopped|quit|(?:given|gave) up) (?P<o>[^.!?]{{1,100}})$", re.IGNORECASE
)
_IS = lazy_pattern(rf"{_SUBJECT}(?:am|is|are) (?P<o>[^.!?]{{1,60}})$", re.IGNORECASE)
_DOES = lazy_pattern(
    rf"{_SUBJECT}(?P<v>{'|'.join(sorted(form for form in _FORMS if not form.endswith('ing')))})"
    r"(?: (?P<o>[^.!?]{1,100}))?$",
    re.IGNORECASE,
)
_ANY_MORE = lazy_pattern(r" (?:any ?more|any longer)$", re.IGNORECASE)
_AGAIN = lazy_pattern(r"\b(?:again)\b", re.IGNORECASE)
_ADVERBS = lazy_pattern(r"\b(?:now|again|currently|these days|nowadays|really|still|usually|always)\b ?", re.IGNORECASE)
_WHEN = lazy_pattern(rf",? (?:{alternation('attributes', 'when')})$", re.IGNORECASE)
_UNSURE = lazy_pattern(alternation("attributes", "unsure_stance"), re.IGNORECASE)
_WORD = lazy_pattern(r"[\w'’-]{1,40}")
_NO_THING = lexicon.words("attributes", "no_thing")
_PREPOSITIONS = listed("in on at to for with from by of near after before during about into as like without over")
_PLURAL = lazy_pattern(r"(?<=\w\w)(?<![su'’i])s$")


def find_stances(clause: str) -> Iterator[Stance]:
    """The stances of a clause, which has to tell nothing else."""
    plain = clause.strip(" .!,;:").replace("’", "'")
    if not plain or len(plain) > CLAUSE_CHARS_MAX or _UNSURE.search(plain):
        return
    plain = _WHEN.sub("", plain)
    bare = _ANY_MORE.sub("", plain)
    is_new = bare != plain
    if match := _STOPPED.match(bare):
        first, _, rest = match["o"].partition(" ")
        doing = _FORMS.get(first.lower(), "") if first.lower().endswith("ing") else ""
        if thing := _thing(rest if doing else match["o"]):
            for each in (doing,) if doing else _GIVEN_UP:
                yield _stance(match["s"], each, thing, holds=False, is_change=True)
        return
    for pattern in _NEGATED:
        if match := pattern.match(bare):
            verb = match["v"].lower() if "v" in pattern.groupindex else "be"
            if found := _thing(match["o"] or ""):
                yield _stance(match["s"], verb, found, holds=False, is_change=is_new or bool(match["c"]))
            return
    again = _AGAIN.search(bare) is not None
    bare = _ADVERBS.sub("", f"{bare} ").strip()
    for pattern in (_DOES, _IS):
        match = None if is_new else pattern.match(bare)
        if match and (found := _thing(match["o"] or "")):
            verb = match["v"].lower() if "v" in pattern.groupindex else "be"
            yield _stance(match["s"], verb, found, holds=True, is_change=again)
            return


def _stance(said: str, verb: str, thing: tuple[str, frozenset[str]], *, holds: bool, is_change: bool) -> Stance:
    verb, (head, words) = _FORMS.get(verb, verb), thing
    if verb == "be" and head == "fan":
        verb, words = "like", words - {"fan"}
        head = next(iter(words)) if len(words) == 1 else head
    return Stance(said.strip(), verb, head, words, holds, is_change)


def _thing(text: str) -> tuple[str, frozenset[str]] | None:
    """The head of the object and all its words; None where it has too many to be one thing."""
    parts: list[list[str]] = [[]]
    for word in _WORD.findall(text.lower()):
        if word in _PREPOSITIONS and not (word == "of" and not any(parts)):
            parts.append([])
        elif word not in _NO_THING:
            parts[-1].append(_PLURAL.sub("", word.removesuffix("'s")))
    words = [word for part in parts for word in part]
    if len(words) > OBJECT_WORDS_MAX or (text.strip() and not words):
        return None
    head = next((part[-1] for part in parts if part), "")
    return head, frozenset(words)
