"""As much English as it takes to tell a sentence from a fragment: verb forms, pronouns, names. SPEC 5.6, 12.3

A word list, not a grammar: what is not in it is not understood, and what is not understood is left alone. Words that
change how far a sentence holds (negations, hedges, conditions, modal verbs, reports) are `qualifiers`.
"""

from typing import Literal

from mnemo_core.text import lexicon
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed

Number = Literal["I", "one", "many"]
Form = Literal["base", "third", "past", "aux"]


# Endings of contractions, with the word that each stands for.
CLITICS = {"n't": "not", "'m": "am", "'re": "are", "'ve": "have", "'ll": "will"}

# Verbs whose base form is their past as well: "I read it" does not say when.
TIMELESS = lexicon.words("english", "timeless")
_DOUBLING = lexicon.words("english", "doubling")  # their last letter, before an ending
_PARTS = {base: (past, participle) for base, past, participle in lexicon.groups("english", "irregular")}


def third_form(base: str) -> str:
    """The third person of the present: goes, carries."""
    if base in ("have", "be"):
        return {"have": "has", "be": "is"}[base]
    if base.endswith(("s", "x", "z", "ch", "sh", "o")):
        return base + "es"
    return base[:-1] + "ies" if _ends_in_y(base) else base + "s"


def past_forms(base: str) -> tuple[str, str]:
    """The past and the participle."""
    if base in _PARTS:
        return _PARTS[base]
    if base in TIMELESS:
        return base, base
    past = base[:-1] + "ied" if _ends_in_y(base) else _stem(base) + "ed"
    return past, past


def ing_form(base: str) -> str:
    """The present participle."""
    return _stem(base) + "ing"


def _ends_in_y(base: str) -> bool:
    return base.endswith("y") and base[-2] not in "aeou"


def _stem(base: str) -> str:
    return base + base[-1] if base in _DOUBLING else base.removesuffix("e")


_BASES = lexicon.words("english", "regular") | _PARTS.keys() | TIMELESS
BASE_OF_THIRD = {third_form(base): base for base in sorted(_BASES)}
BASE_OF_PAST = {past_forms(base)[0]: base for base in sorted(_BASES) if base != "be" and base not in TIMELESS}
PARTICIPLES = frozenset(BASE_OF_PAST) | {participle for _, participle in _PARTS.values()} | TIMELESS | {"born", "based"}

AUX_ONE = listed("is isn't has hasn't does doesn't")
AUX_MANY = listed("are aren't have haven't do don't")
AUX_FIRST = listed("am have haven't do don't")
AUX_PAST = listed("was wasn't were weren't had hadn't did didn't")
MODALS = listed("can can't cannot could couldn't will won't must mustn't should shouldn't shall may might would")
BE = listed("am is are was were isn't aren't wasn't weren't")

NEGATIONS = lexicon.words("english", "negations")
HEDGES = lexicon.words("english", "hedges")
# After these a clause hangs on another one, which must not be cut off.
SUBORDINATORS = lexicon.words("english", "subordinators")
SUPPOSED = listed("would wouldn't might mightn't could couldn't suppose imagine pretend wish hypothetically")
OTHERS_WORD = listed("you your yours yourself yourselves you're you've you'll you'd u ur")

PREPOSITIONS = lexicon.words("english", "prepositions")
DETERMINERS = lexicon.words("english", "determiners")
ADVERBS = lexicon.words("english", "adverbs")
ARE_NO_LY_ADVERBS = listed("family italy july reply supply apply rely fly only lily emily sally kelly billy molly")
DATES = lexicon.words("english", "dates")
TIME_NOUNS = listed("week weeks month year morning afternoon evening night summer winter spring autumn weekend time")
COUNTS = listed("two three four five six seven eight nine ten eleven twelve twenty hundred")

RELATIVES = lexicon.words("english", "relatives")  # and others whom a person has
GIVEN_NAMES = lexicon.words("english", "given_names")
SHARED = lexicon.words("english", "shared")
WEATHER = listed("rains rained raining snows snowed snowing rain snow")
PLURALS = listed("people children men women parents police twins")
SAYING = lexicon.words("english", "saying")

# What is said of these together cannot be said of them one by one.
QUANTIFIERS = lexicon.words("english", "quantifiers")


def is_finite(word: str, number: Number) -> Form | None:
    """Form of the finite verb with such a subject, None where the word is none."""
    if word in AUX_PAST or word in MODALS:
        return "aux"
    if word in BASE_OF_PAST or word in TIMELESS:
        return "past"
    if number == "one":
        return "aux" if word in AUX_ONE else "third" if word in BASE_OF_THIRD else None
    if word in (AUX_MANY if number == "many" else AUX_FIRST):
        return "aux"
    return "base" if word in _BASES else None


def is_inflected(word: str) -> bool:
    """Return whether the word is a verb form that follows its subject: rose, runs, is."""
    return word in BASE_OF_PAST or word in BASE_OF_THIRD or word in AUX_ONE or word in AUX_MANY or word in AUX_PAST


def is_base(word: str) -> bool:
    return word in _BASES


def third_person(word: str) -> str | None:
    """The form after a name of a verb form after "I"; None where the tense is ambiguous or the verb unknown."""
    known = {"am": "is", "have": "has", "do": "does", "don't": "doesn't", "haven't": "hasn't"}
    if word in known:
        return known[word]
    if word in AUX_PAST or word in MODALS:
        return None if word in {"were", "weren't"} else word
    if word in TIMELESS:
        return None
    if word in _BASES:
        return third_form(word)
    return word if word in BASE_OF_PAST else None


def is_adverb(word: str) -> bool:
    return word in ADVERBS or (len(word) > 4 and word.endswith("ly") and word not in ARE_NO_LY_ADVERBS)


_WORD = lazy_pattern(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_QUALIFIERS = NEGATIONS | HEDGES | SUBORDINATORS | MODALS | SUPPOSED
_QUALIFIERS |= SAYING | {"only", "if", "or"}
# Of languages whose words are not all in those lists: what keeps a sentence from being a plain statement.
_FOREIGN = [lazy_pattern(lexicon.alternation("facts", f"not_plain_{each}")) for each in ("de", "fr", "zh", "ja")]


def qualifiers(sentence: str) -> frozenset[str]:
    """The qualifying words of a sentence in small letters; "doesn't" counts as "not", May as a month."""
    words = [word.lower().replace("’", "'") for word in _WORD.findall(sentence) if word != "May"]
    found = {"not" if word.endswith("n't") else word for word in words if word.endswith("n't") or word in _QUALIFIERS}
    small = sentence.lower()
    return frozenset(found.union(*(pattern.findall(small) for pattern in _FOREIGN)))
