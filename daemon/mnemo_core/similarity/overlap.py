"""Word overlap of two texts, and the test whether they are similar enough to be linked. SPEC 5.5"""

from mnemo_core.similarity.thresholds import JACCARD_ALONE, JACCARD_NEAR, JACCARD_TOKENS_MIN, Thresholds
from mnemo_core.text.languages import WORD
from mnemo_core.text.text_cache import TextCache

READ_CHARACTERS = 1 << 17  # of texts whose reading is cached: neighbours of one new text are neighbours of the next
RELATIVE_MS_MAX = 12 * 3_600_000  # two texts that say "today" further apart than this speak of different days


def words(text: str) -> frozenset[str]:
    """The words of a text for comparing, case-folded; each ideograph, kana and Hangul syllable is one."""
    return frozenset(WORD.findall(text.casefold()))


kept_words = TextCache(words, READ_CHARACTERS)


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Shared words over all words, 0 to 1; 0 where both are empty."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if shared else 0.0


def text_jaccard(one: str, other: str) -> float:
    """Jaccard similarity of the words of two texts; 0.0 where neither has any [G7]."""
    return jaccard(words(one), words(other))


def is_similar(content: str, other: str, sim: float | None, thresholds: Thresholds) -> bool:
    """Return whether two texts are similar enough to be linked. sim: their cosine, None where unknown. SPEC 5.5 [G 2.1,
    G7]"""
    one, two = kept_words(content), kept_words(other)
    if sim is None:
        return min(len(one), len(two)) >= JACCARD_TOKENS_MIN and jaccard(one, two) > JACCARD_ALONE
    return sim > thresholds.near or (sim > thresholds.near_with_words and jaccard(one, two) > JACCARD_NEAR)
