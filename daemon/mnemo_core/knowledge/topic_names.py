"""Names of topics by their most telling phrases, where no language model names them. SPEC 10.1, 12.2

Candidates are the runs of words that may be a noun phrase. A word describes a topic if many of its texts have it and
few of all texts do. Its weight is the share of the topic's texts that have it, times the logarithm of that share over
the share of all texts (a term of the Kullback-Leibler divergence). A phrase has the mean weight of its words. With an
embedding model, a phrase also counts by how much closer its vector is to the topic than to all texts (compare KeyBERT).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mnemo_core.text import lexicon
from mnemo_core.text.cleaning import mask_code
from mnemo_core.text.languages import EMPTY_WORDS, UNSPACED_CHARACTER, WORD, identify_language, words_of
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.syntax.english import BASE_OF_PAST, BASE_OF_THIRD, is_adverb
from mnemo_core.text.tokens import NUMBER_WORDS

NAME_CHARACTERS = 40
NAME_PHRASES = 2
PHRASE_WORDS = 3
CANDIDATES_MAX = 30  # phrases that are compared by their vectors
SECOND_SCORE_MIN = 0.4  # of the best phrase's score, for the second phrase of a name
TEXT_CHARACTERS = 600  # that are read of each text
PHRASE_SHARE = 0.5  # of the texts that have some words, those with a longer phrase, which then replaces the words
LETTERS_MIN = 3
_EMPTY = EMPTY_WORDS.union(lexicon.words("topic_names", "too_general"), *NUMBER_WORDS.values())
_BEFORE_NO_NOUN = lexicon.words("topic_names", "before_no_noun")
_ENDS_IN_ED = lexicon.words("calendar", "not_past")
_NO_WORDS = lazy_pattern(
    r"[a-z][a-z0-9+.-]{0,15}://\S+|www\.\S+|(?<!\S)\S+@\S+|:[\w:+-]{1,40}:(?=[`\s])|(?<!\S)\S*[/\\]\S*|<[^<>\n]{1,200}>"
    r"|(?<!\w)\w+n['’]t\b|\.\.[ ](?:_|[\w:-]{1,40}::)[^\n]*|\{\w{1,40}\}"
)

# How close each of some phrases is to a group of texts: at most 1, 0 for one that is no closer to it than to others.
Closeness = Callable[[Sequence[str]], Sequence[float]]


class TermStatistics(NamedTuple):
    """The term that a word counts as, such as its stem, and how many of all texts have it; "" for a stop word."""

    term: str
    texts: int


class _Word(NamedTuple):
    spelling: str
    term: str
    behind: str  # the word before it, in small letters; "" at the beginning of a line and behind punctuation


class _Candidate:
    """A phrase: the texts that have it, its spellings, and how often it is no noun phrase in its context."""

    def __init__(self) -> None:
        self.texts: set[int] = set()
        self.spellings: Counter[str] = Counter()
        self.refused = 0

    def spelling(self) -> str:
        """The commonest spelling. Small letters count twice: the beginnings of sentences and headings have capitals."""
        return min(self.spellings, key=lambda each: (-self.spellings[each] * (1 + each.islower()), each))


def telling_words(
    texts: Sequence[str],
    look_up: Callable[[str], TermStatistics],
    total: int,
    speakers: Iterable[str] = (),
    closeness: Closeness | None = None,
    taken: Collection[str] = (),
) -> str:
    """The name of a group of texts by its most telling phrases; "" where no text has a word.

    `total` is the number of texts that the statistics are of. A speaker's name does not describe a topic. A name
    that is `taken` gets another phrase. Linear in the texts.
    """
    statistics: dict[str, TermStatistics] = {}
    candidates = _candidates(texts, _names_of(speakers), lambda word: statistics.setdefault(word, look_up(word)))
    frequencies = {found.term: found.texts for found in statistics.values()}
    weights = {
        terms[0]: _divergence(len(each.texts) / len(texts), (frequencies[terms[0]] + 0.5) / (total + 1))
        for terms, each in candidates.items() if len(terms) == 1
    }  # fmt: skip
    most = max((len(each.texts) for each in candidates.values()), default=0)
    least = min(2, most)  # a phrase of one text describes no group
    scores = {
        terms: sum(weights[term] for term in terms) / len(terms)
        for terms, each in candidates.items()
        if len(each.texts) >= least and 2 * each.refused <= each.spellings.total()
    }
    for terms in sorted(scores, key=len):
        for part in (terms[1:], terms[:-1]):
            if part in scores and len(candidates[terms].texts) >= PHRASE_SHARE * len(candidates[part].texts):
                del scores[part]
    spelled = {terms: candidates[terms].spelling() for terms in scores}
    best = sorted(scores, key=lambda terms: (-scores[terms], spelled[terms]))[:CANDIDATES_MAX]
    if closeness is not None and best:
        close = dict(zip(best, closeness([spelled[terms] for terms in best]), strict=True))
        scores = {terms: math.sqrt(max(scores[terms], 0.0)) * close[terms] for terms in best}
        best.sort(key=lambda terms: -scores[terms])
    name, used, phrases = "", set[str](), 0
    for terms in best:
        is_whole = phrases == NAME_PHRASES or (phrases and scores[terms] < SECOND_SCORE_MIN * scores[best[0]])
        if is_whole and name not in taken:
            break
        longer = f"{name}, {spelled[terms]}" if name else spelled[terms]
        is_new = used.isdisjoint(terms) and spelled[terms].casefold() not in name.casefold()
        if is_new and len(longer) <= NAME_CHARACTERS:
            name, phrases = longer, phrases + 1
            used.update(terms)
    return name


def opening_words(texts: Iterable[str]) -> str:
    """The first words of the first text that is not empty, for a group that no phrase describes; "" without one."""
    words = next(filter(None, (text[: 2 * TEXT_CHARACTERS].split() for text in texts)), [])
    opening = " ".join(words[:NAME_CHARACTERS])
    if len(opening) <= NAME_CHARACTERS:
        return opening
    head = opening[:NAME_CHARACTERS]
    return f"{head.rpartition(' ')[0] or head[:-1]}…"


def _names_of(speakers: Iterable[str]) -> dict[str, bool]:
    """The words of the speakers' names in small letters: True; and the first letters of one, a nickname: False."""
    words = {word.casefold() for speaker in speakers for word in WORD.findall(speaker)}
    short = {word[:end]: False for word in words for end in range(LETTERS_MIN, len(word))}
    return short | dict.fromkeys(words, True)


def _divergence(share: float, share_of_all: float) -> float:
    return share * math.log(share / share_of_all)


def _candidates(
    texts: Sequence[str], names: Mapping[str, bool], look_up: Callable[[str], TermStatistics]
) -> dict[tuple[str, ...], _Candidate]:
    """The phrases of the texts by their terms, each word a phrase."""
    found: dict[tuple[str, ...], _Candidate] = defaultdict(_Candidate)
    for number, text in enumerate(texts):
        read = mask_code(text[: 2 * TEXT_CHARACTERS])[:TEXT_CHARACTERS]
        is_german = identify_language(words_of(read)) == "de"
        for run in _runs(read, names, look_up):
            for phrase in _phrases(run):
                candidate = found[tuple(word.term for word in phrase)]
                candidate.texts.add(number)
                candidate.spellings[_spelled(phrase)] += 1
                candidate.refused += not _is_nominal(phrase, is_german=is_german)
    return found


def _phrases(run: Sequence[_Word]) -> Iterator[Sequence[_Word]]:
    """The parts of a run of up to PHRASE_WORDS words, none of them twice."""
    for start in range(len(run)):
        for end in range(start + 1, min(start + PHRASE_WORDS, len(run)) + 1):
            if len({word.term for word in run[start:end]}) == end - start:
                yield run[start:end]


def _spelled(phrase: Sequence[_Word]) -> str:
    return ("" if UNSPACED_CHARACTER.match(phrase[0].spelling) else " ").join(word.spelling for word in phrase)


def _is_nominal(phrase: Sequence[_Word], *, is_german: bool) -> bool:
    """Return whether a phrase may be a noun phrase, by its last word and by the word before it."""
    *_, (last, _, behind) = phrase
    if is_german and not UNSPACED_CHARACTER.match(last):
        return last[0].isupper()
    last = last if behind else last.lower()  # at the beginning of a sentence
    is_verb = last in BASE_OF_PAST or (last.islower() and last.endswith("ed") and last not in _ENDS_IN_ED)
    is_verb = is_verb or (len(phrase) > 1 and last in BASE_OF_THIRD)
    return not (is_verb or is_adverb(last) or phrase[0].behind in _BEFORE_NO_NOUN)


def _runs(text: str, names: Mapping[str, bool], look_up: Callable[[str], TermStatistics]) -> Iterator[list[_Word]]:
    """The runs of content words of a text, without addresses, paths, markup and these names."""
    for line in _NO_WORDS.sub("\n", text).split("\n"):
        run: list[_Word] = []
        end, behind = 0, ""
        for match in WORD.finditer(line):
            if line[end : match.start()].strip():
                behind = ""
                yield run
                run = []
            term = look_up(match[0]).term if _tells(match[0], names) else ""
            if term:
                run.append(_Word(match[0], term, behind))
            else:
                yield run
                run = []
            end, behind = match.end(), match[0].casefold()
        yield run


def _tells(word: str, names: Mapping[str, bool]) -> bool:
    small = word.casefold()
    if small in _EMPTY or "_" in word or (small in names and (names[small] or word[0].isupper())):
        return False
    return UNSPACED_CHARACTER.match(word) is not None or (len(word) >= LETTERS_MIN and not word[0].isdigit())
