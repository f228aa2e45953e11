"""The closed word lists behind the guard: what can be said in more than one way, and what stands against what.

Nothing here is complete, and nothing need be. A word that is in no list stands for itself alone: the guard then sees a
difference where there may be none, never the other way round.
"""

from mnemo_core.text import lexicon
from mnemo_core.text.lexicon import listed

# What says nothing of its own. No preposition, pronoun or quantifier is here, and nothing that weakens or restricts.
ARTICLES = {
    "en": frozenset({"a", "an", "the"}),
    "de": frozenset({"der", "die", "das", "den", "dem", "des"}),
    "fr": frozenset({"le", "la", "les", "l'"}),
}
LIGHT = listed("please really actually basically also now currently presently nowadays indeed btw fyi hey hi")

NEGATIONS = lexicon.words("vocabulary", "negations")
# What sets how firmly, how much or when something holds: it differs as an opposite does.
OPERATORS = lexicon.words("vocabulary", "operators")


MULTIPLIERS = {
    "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "tausend": 1000, "millionen": 10**6,
    "milliarden": 10**9, "mille": 1000, "millions": 10**6, "milliards": 10**9,
}  # fmt: skip
ATTACHED_MULTIPLIERS = {"k": 1000, "K": 1000, "M": 10**6, "mn": 10**6, "mio": 10**6, "bn": 10**9}
RELATIVE_DAYS = listed("today tomorrow yesterday tonight heute morgen gestern aujourd'hui demain hier")
# Which month and weekday names are other words too; in small letters they count as a date only beside one.
AMBIGUOUS_DATES = listed("may mar march jan jun mai mars sat sun mon wed thu fri morgen dec")
CURRENCIES = frozenset({"USD", "EUR", "GBP", "JPY", "CNY", "CHF", "INR", "%"})


def _phrases() -> dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    """By first word: what follows it, and what all of it stands for; the longest first."""
    found: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for line in lexicon.lines("vocabulary", "phrases"):
        said, _, meant = line.partition("=")
        first, *rest = said.split()
        found.setdefault(first, []).append((tuple(rest), tuple(meant.split())))
    for each in found.values():
        each.sort(key=lambda phrase: -len(phrase[0]))
    return found


def _opposites() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for words in lexicon.groups("vocabulary", "opposites"):
        for word in words:
            found.setdefault(SYNONYMS.get(word, word), set()).update(SYNONYMS.get(other, other) for other in words)
    return {word: frozenset(others - {word}) for word, others in found.items()}


# Different spellings and words for one thing; the first of each group stands for all.
SYNONYMS = {word: words[0] for words in lexicon.groups("vocabulary", "synonyms") for word in words[1:]}
# What is said in several words, and what the guard takes it for; applied once, from left to right.
PHRASES = _phrases()
OPPOSITES = _opposites()  # words of which each stands against every other of its group
UNITS = {unit: units[0] for units in lexicon.groups("vocabulary", "units") for unit in units}
NUMBER_WORDS = {language: lexicon.numbered("vocabulary", f"number words {language}") for language in ("en", "de", "fr")}
ORDINALS = lexicon.numbered("vocabulary", "ordinals")
# Verbs of events, base, past, participle and present participle: `has moved` says what `moved` says. A state is none:
# who has lived somewhere may live there still.
_EVENTS = lexicon.groups("vocabulary", "events")
PAST_OF = {participle: past for _, past, participle, _ in _EVENTS} | {past: past for _, past, _, _ in _EVENTS}
PARTICIPLES = frozenset(PAST_OF)
# Verbs whose `is …ing` says what the plain present says.
PRESENT_OF = {going: (base, present) for base, present, going in lexicon.groups("vocabulary", "present")}
