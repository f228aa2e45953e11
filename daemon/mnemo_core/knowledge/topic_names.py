"""Names of topics by their most telling words, where no language model names them. SPEC 10.1, 12.2

A word tells of a topic if many of its texts have it and few of all texts do: its score is the share of the topic's
texts that have it, times the logarithm of that share over the share of all texts (a term of the Kullback-Leibler
divergence). Words that stand side by side in most of their texts are one phrase.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from mnemo_core.llm.content_words import EMPTY_WORDS
from mnemo_core.text import lexicon
from mnemo_core.text.characters import UNSPACED_CHARACTER, WORD
from mnemo_core.text.lazy_patterns import lazy_pattern

NAME_CHARACTERS = 40
NAME_PARTS = 3  # words or phrases
TEXT_CHARACTERS = 1200  # that are read of each text
LETTERS_MIN = 3
PHRASE_SHARE = 0.4  # of the texts that have one of two words, those in which they stand side by side
_EMPTY = EMPTY_WORDS | lexicon.words("topic_names", "too_general")
_NO_WORDS = lazy_pattern(
    r"[a-z][a-z0-9+.-]{0,15}://\S+|www\.\S+|(?<!\S)\S+@\S+|:[a-z:+-]{1,40}:(?=`)|(?<!\S)\S*[/\\]\S*|<[^<>\n]{1,80}>"
    r"|(?<!\w)\w+n['’]t\b"
)


class TermStatistics(NamedTuple):
    """The term that a word counts as, such as its stem, and how many of all texts have it; "" for a stop word."""

    term: str
    texts: int


def telling_words(
    texts: Sequence[str], look_up: Callable[[str], TermStatistics], total: int, speakers: Iterable[str] = ()
) -> str:
    """The name of a group of texts by its most telling words; "" where no text has a word.

    `total` is the number of texts that the statistics are of. A speaker's name tells who talks and not of what. Linear
    in the texts.
    """
    names = frozenset(word.casefold() for speaker in speakers for word in WORD.findall(speaker))
    read = [list(_words(text[:TEXT_CHARACTERS], names)) for text in texts]
    found: dict[str, set[int]] = defaultdict(set)
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    neighbours: dict[tuple[str, str], set[int]] = defaultdict(set)
    frequencies: dict[str, int] = {}
    for number, runs in enumerate(read):
        for run in runs:
            terms = [(word, look_up(word)) for word in run]
            for word, (term, count) in terms:
                if term:
                    found[term].add(number)
                    spellings[term][word] += 1
                    frequencies[term] = count
            for (_, (one, _)), (_, (other, _)) in itertools.pairwise(terms):
                if one and other and one != other:
                    neighbours[one, other].add(number)
    least = min(2, max(map(len, found.values()), default=0))  # a word of one text tells of nothing but that
    scored = {term: _divergence(len(numbers) / len(texts), (frequencies[term] + 0.5) / (total + 1))
              for term, numbers in found.items() if len(numbers) >= least}  # fmt: skip
    spelled = {term: _spelling(words) for term, words in spellings.items()}
    partners: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for (one, other), numbers in neighbours.items():
        if len(numbers) >= max(least, PHRASE_SHARE * len(found[one] | found[other])):
            partners[one].append((-len(numbers), one, other))
            partners[other].append((-len(numbers), one, other))
    parts: list[str] = []
    used = set[str]()
    for term in sorted(scored, key=lambda term: (-scored[term], spelled[term])):
        if term in used or len(parts) == NAME_PARTS:
            continue
        pairs = sorted(pair[1:] for pair in partners[term] if used.isdisjoint(pair[1:]))
        for phrase in (*pairs[:1], (term,)):
            part = _phrase([spelled[each] for each in phrase])
            if len(", ".join([*parts, part])) <= NAME_CHARACTERS:
                parts.append(part)
                used.update(phrase)
                break
    return ", ".join(parts)


def _divergence(share: float, share_of_all: float) -> float:
    return share * math.log(share / share_of_all)


def _spelling(words: Counter[str]) -> str:
    """The commonest spelling; one in small letters before one that a beginning of a sentence may have made."""
    return min(words, key=lambda word: (not word.islower(), -words[word], word))


def _phrase(words: list[str]) -> str:
    return ("" if UNSPACED_CHARACTER.match(words[0]) else " ").join(words)


def _words(text: str, names: Container[str]) -> Iterator[list[str]]:
    """The runs of content words of a text, without addresses, paths, markup and these names."""
    for line in _NO_WORDS.sub("\n", text).split("\n"):
        run: list[str] = []
        end = 0
        for match in WORD.finditer(line):
            if run and line[end : match.start()].strip():
                yield run
                run = []
            end = match.end()
            if match[0].casefold() not in names and _tells(match[0]):
                run.append(match[0])
            elif run:
                yield run
                run = []
        if run:
            yield run


def _tells(word: str) -> bool:
    small = word.casefold()
    if small in _EMPTY or "_" in word:
        return False
    return UNSPACED_CHARACTER.match(word) is not None or (len(word) >= LETTERS_MIN and not word[0].isdigit())
