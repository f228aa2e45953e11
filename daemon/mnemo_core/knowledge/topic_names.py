"""Names of topics by their most telling phrases, where no language model names them. SPEC 10.1, 12.2

Candidates are the runs of words that may be a noun phrase, and the headings that half of the texts are under. A word
describes a topic if many of its texts have it and few of all texts do. Its weight is the share of the topic's texts
that have it, times the logarithm of that share over the share of all texts (a term of the Kullback-Leibler divergence).
A phrase has the mean weight of its words, and a quarter of it where the words around it never show that it is a noun
phrase. With an embedding model, a phrase also counts by how much closer its vector is to the topic than to all texts
(compare KeyBERT).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mnemo_core.text import lexicon
from mnemo_core.text.cleaning import mask_code
from mnemo_core.text.languages import EMPTY_WORDS, UNSPACED_CHARACTER, WORD, identify_language, words_of
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.syntax.english import (
    BASE_OF_PAST,
    BASE_OF_THIRD,
    is_adverb,
    is_base,
)
from mnemo_core.text.tokens import NUMBER_WORDS

NAME_CHARACTERS = 40
PHRASE_WORDS = 3
CANDIDATES_MAX = 30  # phrases that are compared by their vectors
HEADING_CHARACTERS = 48
HEADING_FACTOR = 1.2  # of a heading's score: it is a name that a person gave
HEADING_SHARE = 0.5  # of the texts, which are under a heading
NOT_SHOWN_FACTOR = 0.25  # of the score of a phrase that may be an adjective or a verb
SECOND_SCORE_MIN = 0.35  # of the best phrase's score, for the second phrase of a name
TEXT_CHARACTERS = 600  # that are read of each text
PHRASE_SHARE = 0.5  # of the texts that have some words, those with a longer phrase, which then replaces the words
LETTERS_MIN = 3
_EMPTY = EMPTY_WORDS.union(lexicon.words("topic_names", "too_general"), *NUMBER_WORDS.values())
_BEFORE_NOUN = lexicon.words("topic_names", "before_noun")
_BEFORE_NO_NOUN = lexicon.words("topic_names", "before_no_noun")
_ENDS_IN_ED = lexicon.words("calendar", "not_past")
_NO_WORDS = lazy_pattern(
    r"[a-z][a-z0-9+.-]{0,15}://\S+|www\.\S+|(?<!\S)\S+@\S+|:[\w:+-]{1,40}:(?=[`\s])|(?<!\S)\S*[/\\]\S*|<[^<>\n]{1,200}>"
    r"|(?<!\w)\w+n['’]t\b|(?<!\w)[a-z]{1,3}\d{1,9}(?!\w)|\.\.[ ](?:_|[\w:-]{1,40}::)[^\n]*|\{\w{1,40}\}"
)
_ENDS = frozenset(",.!?")
_RARE_IN_NOUNS = ("ing", "ive", "ful", "ous", "less", "ible", "ate")
_MARKS = lazy_pattern(r"[`*_]|\([^()]{0,200}\)")

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
    is_called: bool  # it is set off by a comma and has a capital, as the name of whom one speaks to
    is_led: bool  # a determiner or a preposition is before it, or before words that belong to it
    is_last: bool  # no other word that tells of something follows at once


class _Candidate:
    """A phrase: the texts that have it, its spellings where it may be a noun phrase, how often it is none in its
    context, and how often the words around it show that it is one."""

    def __init__(self) -> None:
        self.texts: set[int] = set()
        self.spellings: Counter[str] = Counter()
        self.refused = 0
        self.shown = 0

    def is_usable(self) -> bool:
        """Return whether it is taken for a noun phrase; a doubtful one, where a quarter of its places show it."""
        return 4 * self.shown >= self.spellings.total() or not _is_doubtful(self.spelling())

    def spelling(self) -> str:
        """The commonest spelling. Small letters count twice: the beginnings of sentences and headings have capitals."""
        return min(self.spellings, key=lambda each: (-self.spellings[each] * (1 + each.islower()), each))


def telling_words(
    texts: Sequence[str], look_up: Callable[[str], TermStatistics], total: int, speakers: Iterable[str] = (),
    closeness: Closeness | None = None, taken: Collection[str] = (), trails: Iterable[Collection[str]] = (),
) -> str:  # fmt: skip
    """The name of a group of texts by its most telling phrases; "" where no text has a word.

    `total` is the number of texts that the statistics are of. A speaker's name does not describe a topic. A name
    that is `taken` gets another phrase. `trails` are the headings above texts of notes. Linear in the texts.
    """
    statistics: dict[str, TermStatistics] = {}
    candidates = _candidates(texts, _names_of(speakers), lambda word: statistics.setdefault(word, look_up(word)))
    frequencies = {found.term: found.texts for found in statistics.values()}
    shares = {terms[0]: len(each.texts) / len(texts) for terms, each in candidates.items() if len(terms) == 1}
    weights = {
        term: share * math.log(share / ((frequencies[term] + 0.5) / (total + 1))) for term, share in shares.items()
    }
    nominal = {terms: each for terms, each in candidates.items() if 0 < each.spellings.total() >= each.refused}
    usable = {terms: each for terms, each in nominal.items() if each.is_usable()} or nominal
    several = {terms: each for terms, each in usable.items() if len(each.texts) > 1}  # one text describes no group
    scores = {
        terms: sum(weights[term] for term in terms) / len(terms) * (1 if each.shown else NOT_SHOWN_FACTOR)
        for terms, each in (several or usable).items()
    }
    for terms in sorted(scores, key=len):
        for part in (terms[1:], terms[:-1]):
            if part in scores and len(candidates[terms].texts) >= PHRASE_SHARE * len(candidates[part].texts):
                del scores[part]
    spelled = {terms: candidates[terms].spelling() for terms in scores}
    headings = Counter(heading for trail in trails for heading in {_plain(heading) for heading in trail})
    for heading, count in headings.items():
        words = [weights[term] for term in {look_up(word).term for word in WORD.findall(heading)} & weights.keys()]
        is_short = " " in heading and len(heading) <= HEADING_CHARACTERS
        if words and is_short and count >= HEADING_SHARE * len(texts) and heading not in taken:
            spelled[heading,] = heading
            scores[heading,] = HEADING_FACTOR * sum(words) / len(words)
    best = sorted(scores, key=lambda terms: (-scores[terms], spelled[terms]))[:CANDIDATES_MAX]
    if closeness is not None and best:
        close = dict(zip(best, closeness([spelled[terms] for terms in best]), strict=True))
        scores = {terms: math.sqrt(max(scores[terms], 0.0)) * close[terms] ** 2 for terms in best}
        best.sort(key=lambda terms: -scores[terms])
    name, used = "", set[str]()
    for terms in best:
        is_whole = " " in name or (name and scores[terms] < SECOND_SCORE_MIN * scores[best[0]])
        if is_whole and name not in taken:
            break
        if name and spelled[terms] in headings:
            continue
        longer = f"{name}, {spelled[terms]}" if name else spelled[terms]
        is_new = used.isdisjoint(terms) and spelled[terms].casefold() not in name.casefold()
        if is_new and len(longer) <= NAME_CHARACTERS:
            name = longer
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


def _plain(heading: str) -> str:
    """A heading without marks of code, and without what is in parentheses."""
    return " ".join(_MARKS.sub("", heading).split())


def _names_of(speakers: Iterable[str]) -> dict[str, bool]:
    """The words of the speakers' names in small letters: True; and the first letters of one, a nickname: False."""
    words = {word.casefold() for speaker in speakers for word in WORD.findall(speaker)}
    short = {word[:end]: False for word in words for end in range(LETTERS_MIN, len(word))}
    return short | dict.fromkeys(words, True)


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
                if _is_nominal(phrase, is_german=is_german):
                    candidate.spellings[_spelled(phrase)] += 1
                    candidate.shown += is_german or _is_shown(phrase)
                else:
                    candidate.refused += 1
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
    *_, (last, _, behind, is_called, *_) = phrase
    if is_adverb(phrase[0].spelling.lower()) or (is_called and len(phrase) == 1):
        return False
    if is_german and not UNSPACED_CHARACTER.match(last):
        return last[0].isupper()
    last = last if behind else last.lower()  # at the beginning of a sentence
    is_verb = last in BASE_OF_PAST or (last.islower() and last.endswith("ed") and last not in _ENDS_IN_ED)
    is_verb = is_verb or (len(phrase) > 1 and last in BASE_OF_THIRD)
    return not (is_verb or is_adverb(last) or phrase[0].behind in _BEFORE_NO_NOUN)


def _is_shown(phrase: Sequence[_Word]) -> bool:
    """Return whether the words around a phrase show that it is a noun phrase."""
    first = phrase[0]
    is_name = bool(first.behind) and first.spelling[0].isupper()
    is_whole = phrase[-1].is_last and (len(phrase) > 1 or first.is_led or is_name)
    return is_whole or UNSPACED_CHARACTER.match(first.spelling) is not None


def _is_doubtful(phrase: str) -> bool:
    """Return whether a phrase is one word that is rather a verb or an adjective, and may be a noun as well."""
    small = phrase.lower()
    return " " not in small and (is_base(small) or small in BASE_OF_THIRD or small.endswith(_RARE_IN_NOUNS))


def _runs(text: str, names: Mapping[str, bool], look_up: Callable[[str], TermStatistics]) -> Iterator[list[_Word]]:
    """The runs of content words of a text, without addresses, paths, markup and these names."""
    for line in _NO_WORDS.sub("\n", text).split("\n"):
        run: list[_Word] = []
        end, behind, is_led = 0, "", False
        for match in WORD.finditer(line):
            if line[end : match.start()].strip():
                behind, is_led = "", False
                yield run
                run = []
            small = match[0].casefold()
            is_led = small in _BEFORE_NOUN or (is_led and small not in EMPTY_WORDS)
            term = look_up(match[0]).term if _tells(match[0], names) else ""
            if term:
                before, after = line[: match.start()].rstrip()[-1:], line[match.end() : match.end() + 1]
                is_called = match[0][0].isupper() and "," in (before, after) and not before.isalnum() and after in _ENDS
                follows = WORD.match(line, match.end() + 1) if after == " " else None
                is_last = follows is None or follows[0].casefold() in EMPTY_WORDS
                run.append(_Word(match[0], term, behind, is_called, is_led, is_last))
            else:
                yield run
                run = []
            end, behind = match.end(), small
        yield run


def _tells(word: str, names: Mapping[str, bool]) -> bool:
    small = word.casefold()
    if small in _EMPTY or "_" in word or (small in names and (names[small] or word[0].isupper())):
        return False
    return UNSPACED_CHARACTER.match(word) is not None or (len(word) >= LETTERS_MIN and not word[0].isdigit())
