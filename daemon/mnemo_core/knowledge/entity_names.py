"""Entities of the fact graph: the name under which one is found, and the names within a phrase. SPEC 10.3

Anna, "the Anna", "anna" and Anna's are one entity. A phrase is an entity too ("my sister Anna"), and so is each name
within it, so that a chain leads from "Siemens in Munich" on to Munich.
"""

from collections.abc import Callable, Iterator

from mnemo_core.text.dates.date_words import MONTHS, WEEKDAYS
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed
from mnemo_core.text.syntax import english

KEYS_MAX = 8  # of one phrase
PHRASE_WORDS_MAX = 6  # of a name in a query
QUERY_CHARS_MAX = 2000  # of a query that are read
ENTITIES_MAX = 8  # of a query

_LEADING = listed("the a an")
_SPEAKER = listed("i me myself mine user")
_TIMES = frozenset((*MONTHS, *WEEKDAYS))
_NO_NAMES = listed("i i'm i've we the a an my our his her their its this that it")
_EDGES = "\"'`“”‘’«»()[]{}<>.,;:!?…。、，！？"
_PATH = lazy_pattern(r"[\w~.-]*/[\w./-]+|\w[\w-]*\.(?:py|js|ts|md|txt|toml|json|ya?ml|rs|go|c|h|cpp|java|sh|cfg|ini)")


def entity_key(phrase: str) -> str:
    """The name under which an entity is found: folded, without leading articles, possessive endings and punctuation at
    the edges; "i" for the speaker; "" where nothing is left."""
    words = [word for each in phrase.casefold().split() if (word := _bare(each))]
    while len(words) > 1 and words[0] in _LEADING:
        del words[0]
    key = " ".join(words)
    return "i" if key in _SPEAKER else key


def entity_keys(phrase: str) -> tuple[str, ...]:
    """The keys of a phrase: its own first, then those of the names and file paths within it."""
    keys = (entity_key(phrase) or phrase, *filter(None, map(entity_key, names_in(phrase))))
    return tuple(dict.fromkeys(keys))[:KEYS_MAX]


def names_in(phrase: str) -> list[str]:
    """The names in a phrase: words with a capital or with capitals and digits inside, joined, and file paths. Months,
    days and a leading article are none."""
    found: list[list[str]] = []
    is_open = False
    for word in phrase.split():
        bare = word.strip(_EDGES)
        is_name = _is_name(bare)
        if is_name and is_open:
            found[-1].append(bare)
        elif is_name:
            found.append([bare])
        is_open = is_name and not word.endswith((",", ";", "'s", "’s"))
    return [" ".join(each) for each in found]


def query_entities(query: str, is_known: Callable[[str], bool]) -> list[str]:
    """The keys of the entities that a query names, the longest first where they overlap. A single word is one if it
    has a capital, or the query has none but its first."""
    words = query[:QUERY_CHARS_MAX].split()
    has_capitals = any(word.strip(_EDGES)[:1].isupper() for word in words[1:])
    found: list[str] = []
    start = 0
    while start < len(words) and len(found) < ENTITIES_MAX:
        length = next(_known_lengths(words[start : start + PHRASE_WORDS_MAX], has_capitals, is_known), 0)
        if length:
            found.append(entity_key(" ".join(words[start : start + length])))
        start += length or 1
    return list(dict.fromkeys(found))


def _known_lengths(words: list[str], has_capitals: bool, is_known: Callable[[str], bool]) -> Iterator[int]:
    """The numbers of words from the first on that are an entity, the longest first."""
    for length in range(len(words), 0, -1):
        key = entity_key(" ".join(words[:length]))
        is_plain = length == 1 and has_capitals and not _is_name(words[0].strip(_EDGES))
        if key not in _COMMON and not is_plain and is_known(key):
            yield length


def _bare(word: str) -> str:
    """A folded word without punctuation at its edges and without a possessive ending."""
    bare = word.replace("’", "'").strip(_EDGES)
    return bare.removesuffix("'s") if not bare.endswith("s'") else bare[:-1]


def _is_name(word: str) -> bool:
    low = _bare(word.casefold())
    if not low or low in _NO_NAMES or low in _TIMES:
        return False
    return any(letter.isupper() for letter in word) or _PATH.fullmatch(word) is not None


_COMMON = frozenset((*_SPEAKER, *_NO_NAMES, *english.PREPOSITIONS, *english.DETERMINERS, *english.BE, "", "what", "who",
                     "where", "when", "which", "how", "why", "does", "do", "did", "is", "has", "have"))  # fmt: skip
