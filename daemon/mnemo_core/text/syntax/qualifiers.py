"""Words that change how far a sentence holds: negations, hedges, conditions, modal verbs and reports. SPEC 12.3"""

from mnemo_core.text import lexicon
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.syntax import english

_WORD = lazy_pattern(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_QUALIFIERS = english.NEGATIONS | english.HEDGES | english.SUBORDINATORS | english.MODALS | english.SUPPOSED
_QUALIFIERS |= english.SAYING | {"only", "if", "or"}
# Of languages whose words are not all in those lists: what keeps a sentence from being a plain statement.
_FOREIGN = [lazy_pattern(lexicon.alternation("facts", f"not_plain_{each}")) for each in ("de", "fr", "zh", "ja")]


def qualifiers(sentence: str) -> frozenset[str]:
    """The qualifying words of a sentence in small letters; "doesn't" counts as "not", May as a month."""
    words = [word.lower().replace("’", "'") for word in _WORD.findall(sentence) if word != "May"]
    found = {"not" if word.endswith("n't") else word for word in words if word.endswith("n't") or word in _QUALIFIERS}
    small = sentence.lower()
    return frozenset(found.union(*(pattern.findall(small) for pattern in _FOREIGN)))
