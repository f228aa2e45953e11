"""Query expansion: words of the best hits are added to a query that finds next to nothing. SPEC 7.6 [G 4.4]

The most specific words of the best hits are added: rare in the store, yet present in another memory too. They are
searched by words alone, so that similarity is still measured with the query's own vector, and they are kept only where
a memory other than those hits then fits better than everything found without them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.similarity.thresholds import SOURCE
from mnemo_core.text.languages import WORD

HITS_MAX = 3  # hits that words are taken from; lower ones are about something else
WORDS_MAX = 5
WORDS_FACTOR = 0.85  # weight of a hit by an added word, against 1 for a word of the query [G38]
WORD_CHARS_MIN = 3  # of words written in letters with spaces between; a shorter one is an abbreviation of anything
TEXT_TERMS_MAX = 100  # terms read of one hit: the beginning of a long text says what it is about

assert 0 < WORDS_FACTOR < 1


class ExpansionWord(NamedTuple):
    """A word of a text: the term it is found by, and how it stands there."""

    term: str
    surface: str


def is_due(relevance: NDArray[np.floating]) -> bool:
    """Return whether even the best hit is too far from the query to be a full answer. [G38]"""
    return len(relevance) > 0 and float(relevance.max()) < SOURCE.relevance_expand


def expansion_terms(
    query_terms: Sequence[str], hits: Sequence[Sequence[ExpansionWord]], rarity: Callable[[str], float]
) -> list[str]:
    """The words to add, the most specific first, as the hits spell them.

    hits: the words of each, best hit first. rarity of a term, 0 where it finds nothing but the hit itself. A term
    of several hits counts for each, in the second half as much as in the first, and so on.
    """
    asked = frozenset(query_terms)
    worth: dict[str, float] = {}
    shown: dict[str, str] = {}
    for place, words in enumerate(hits[:HITS_MAX]):
        terms = {
            word.term: word.surface
            for word in reversed(words[:TEXT_TERMS_MAX])
            if len(word.surface) >= WORD_CHARS_MIN or not word.surface.isascii()
        }
        for term, as_written in terms.items():
            if term not in asked:
                worth[term] = worth.get(term, 0.0) + 1 / (place + 1)
                shown.setdefault(term, as_written)
    found = {term: value * rare for term, value in worth.items() if (rare := rarity(term)) > 0}
    best = sorted(found, key=lambda term: (-found[term], term))
    return list(dict.fromkeys(shown[term] for term in best))[:WORDS_MAX]


def is_improvement(before: NDArray[np.floating], after: NDArray[np.floating]) -> bool:
    """Return whether the added words are kept. `after`: the relevance of what they found that was no hit before."""
    return len(after) > 0 and WORDS_FACTOR * float(after.max()) > float(before.max(initial=0.0))


def added_words(phrasings: tuple[str, ...], question: str) -> str:
    """The words of phrasings that their question does not have, each once."""
    known = frozenset(word.casefold() for word in WORD.findall(question))
    words = (word for phrasing in phrasings for word in WORD.findall(phrasing))
    return " ".join({word.casefold(): word for word in words if word.casefold() not in known}.values())
