"""The closed word lists of the guard: spellings and words of one meaning, and words of opposite meaning.

No list is complete, and none need be. A word that is in no list stands for itself alone: the guard then sees a
difference where there may be none, never the other way round.
"""

from mnemo_core.text import lexicon
from mnemo_core.text.syntax.english import ing_form, past_forms, third_form

# Words without a meaning of their own. No preposition, pronoun or quantifier is here, and nothing that weakens or
# restricts.
ARTICLES = {language: lexicon.words("vocabulary", f"articles {language}") for language in ("en", "de", "fr")}
LIGHT = lexicon.words("vocabulary", "light")
NEGATIONS = lexicon.words("vocabulary", "negations")
# Words that set how firmly, how much or when something holds: they differ as opposites do.
OPERATORS = lexicon.words("vocabulary", "operators")

MULTIPLIERS = lexicon.numbered("vocabulary", "multipliers")
ATTACHED_MULTIPLIERS = lexicon.numbered("vocabulary", "attached multipliers")
RELATIVE_DAYS = lexicon.words("vocabulary", "relative days")
# Months and weekdays whose names are other words too; in small letters they count as a date only next to one.
AMBIGUOUS_DATES = lexicon.words("vocabulary", "ambiguous dates")
CURRENCIES = lexicon.words("vocabulary", "currencies")


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
# Past and participle of verbs of events: `has moved` means the same as `moved`. A state is no event: whoever has lived
# somewhere may live there still.
PAST_OF = {
    form: forms[0] for base in lexicon.words("vocabulary", "events") for forms in [past_forms(base)] for form in forms
}
PARTICIPLES = frozenset(PAST_OF)
# Verbs of which `is …ing` means the same as the plain present: base and third person by the -ing form.
PRESENT_OF = {ing_form(base): (base, third_form(base)) for base in lexicon.words("vocabulary", "present")}
