"""Selection of the sentences of a memory that are shown for a question: by meaning, words and kind of answer; and its
best one. SPEC 7.5

The score of a sentence is a weighted sum of its features. The best sentences are shown in the order of the text, as
many as fit into EXCERPT_CHARS_MAX characters. Excerpts are for display and never stored.
"""

import functools
import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking.late_interaction import CODE_OF_ONE, Codes, Floats
from mnemo_core.text import lexicon
from mnemo_core.text.languages import FIRST_CJK, sentence_ends
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.query_features import analyze_query
from mnemo_core.text.text_features import TextFeature, features_of_text

WRAPPED_CHARS_MIN = 50  # a line that was wrapped is at least this long
SENTENCE_CHARS_MAX = 240  # a longer sentence is cut to this length, around the words of the query

# Lines that hold a mark and no words of their own: an opening fence with its language, Org's and reStructuredText's
# directives (whose `..` ends a sentence of its own) and properties, a lone tag or comment of HTML.
_MARKUP = lazy_pattern(r"(?:`{3,}|~{3,})[^`~]*$|#\+\w+|[\w-]+::(?: +\S+)?$|:[\w-]+:$|</?\w[^<>]*>$|<!--.*-->$")

_BLOCK = lazy_pattern(r"\s{0,3}(?:[#|>]|`{3}|~{3})|\s{4}")  # a heading, table, quotation or code is not wrapped
# With a word, which may be bold, code, quoted, in brackets or a link; not with a list item or the target of a link.
_GOES_ON = lazy_pattern(r"\s{0,6}(?!\d{1,3}[.)] |\[[^\[\]]{0,200}\]:)(?:[*`(\[\"'„“«]|\*\*|__?)?[^\W_]")
_LINE_BREAK = lazy_pattern(r"\n+")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence or line that holds something, in order. A wrapped line is not an end."""
    ends = sentence_ends(text)
    breaks = [(each.start(), each.end()) for each in _LINE_BREAK.finditer(text) if not _is_wrapped(text, each, ends)]
    found, start = [], 0
    for stop, following in sorted([*((end, end) for end in ends), *breaks, (len(text), len(text))]):
        piece = text[start:stop]
        if piece.strip():
            left = start + len(piece) - len(piece.lstrip())
            found.append((left, start + len(piece.rstrip())))
        start = max(start, following)
    return found


def unwrap(text: str) -> str:
    """The text with a space for each line break that only wraps a paragraph or list item."""
    ends = sentence_ends(text)
    return _LINE_BREAK.sub(lambda each: " " if _is_wrapped(text, each, ends) else each.group(), text)


def _is_wrapped(text: str, end: re.Match[str], ends: Sequence[int]) -> bool:
    """Return whether the line break only wraps a paragraph or list item: the line before is long, and the next
    continues with words."""
    at = end.start()
    place = bisect_left(ends, at)
    if end.group() != "\n" or (place < len(ends) and ends[place] == at):
        return False
    before = text[text.rfind("\n", 0, at) + 1 : at]
    if len(before.rstrip()) < WRAPPED_CHARS_MIN or _BLOCK.match(before) or before.rstrip().endswith((":", "|")):
        return False
    following = text[at + 1 : at + 1 + SENTENCE_CHARS_MAX].split("\n", 1)[0]
    return _GOES_ON.match(following) is not None and not is_markup(following)


def whole_words(text: str, marks: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The marks, each grown to the whole words that it begins and ends in; those that then touch are one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(marks):
        done = found[-1][1] if found else 0  # no word goes on there, so that none is gone through twice
        end = max(end, done)
        while start > done and _is_inside(text, start):
            start -= 1
        while end < len(text) and _is_inside(text, end):
            end += 1
        if found and start <= done:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found


def _is_inside(text: str, at: int) -> bool:
    """Return whether the place is between two characters of a word of a script that has spaces."""
    return all((each.isalnum() or each == "_") and each < FIRST_CJK for each in text[at - 1 : at + 1])


def best_sentence(text: str, marks: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The span of the sentence with the most distinct marked words, the first of equals; cut to a showable length."""
    best, most = (0, min(len(text), SENTENCE_CHARS_MAX)), -1
    in_order = sorted(marks)
    starts = [start for start, _ in in_order]
    for start, end in sentence_spans(text):
        there = in_order[bisect_left(starts, start) : bisect_left(starts, end)]
        words = {text[a:b].lower() for a, b in there if b <= end}
        if len(words) > most and not is_markup(text[start:end]):
            best, most = (start, end), len(words)
    return cut_sentence(text, best, marks)


def cut_to_lines(text: str, best: tuple[int, int], budget: int, count: Callable[[str], int]) -> tuple[int, int]:
    """The span of the whole lines around the best sentence that have at most `budget` tokens together. Where the
    sentence's own lines are larger, the span is the sentence alone; empty where that is larger too."""
    ends = [*(match.start() for match in re.finditer("\n", text)), len(text)]
    starts = [0, *(end + 1 for end in ends[:-1])]
    first = bisect_right(starts, best[0]) - 1
    last = bisect_left(ends, best[1])
    sizes = functools.cache(lambda place: count(text[starts[place] : ends[place]] + "\n"))
    total = sum(map(sizes, range(first, last + 1)))
    if total > budget:
        return best if count(text[slice(*best)]) <= budget else (best[0], best[0])
    grows = True
    while grows:
        grows = False
        if last + 1 < len(ends) and total + sizes(last + 1) <= budget:
            last, total, grows = last + 1, total + sizes(last + 1), True
        if first > 0 and total + sizes(first - 1) <= budget:
            first, total, grows = first - 1, total + sizes(first - 1), True
    return starts[first], ends[last]


def is_markup(sentence: str) -> bool:
    """Rules, underlines, fences and directives say nothing."""
    return not any(character.isalnum() for character in sentence) or _MARKUP.match(sentence) is not None


def cut_sentence(text: str, span: tuple[int, int], marks: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The part of a sentence that is shown: at most SENTENCE_CHARS_MAX characters around its first mark."""
    start, end = span
    if end - start <= SENTENCE_CHARS_MAX:
        return span
    first = next((a for a, b in marks if a >= start and b <= end), start)
    start = max(start, min(first - SENTENCE_CHARS_MAX // 4, end - SENTENCE_CHARS_MAX))
    space = text.find(" ", start, first) if start > span[0] else -1
    start = space + 1 if space >= 0 else start
    return start, min(end, start + SENTENCE_CHARS_MAX)


SENTENCES_MAX = 64  # whose kind of answer is read; of those behind them words and meaning alone count
EXCERPT_CHARS_MAX = 280  # of sentences together
GAP_CHARS_MAX = 40  # blanks between two adjacent sentences
ROW_BREAK = " · "  # between two rows of a table
CELL_BREAK = "; "  # between the cells of a row, as the reader of tables writes it
OMISSION = " … "  # replaces the text left out between two sentences

# Fitted by tests/bench/fit_excerpts.py.
WEIGHT_LATE = 3.0  # of the mean over the question's tokens of the best cosine in the sentence
WEIGHT_MEAN = 4.3  # of the cosine of the question's and the sentence's mean token
WEIGHT_WORDS = 1.1  # of the share of the question's words
WEIGHT_FITS = 3.9  # of the kind of answer that the question wants
WEIGHT_HEADING = -3.3  # of a heading or a question
WEIGHT_UNKNOWN = 1.0  # for a sentence without token rows, where others have some

_ASKS_NUMBER = lazy_pattern(lexicon.alternation("questions", "excerpt_number"), re.IGNORECASE)
_ASKS_COMMAND = lazy_pattern(r"\b(?:how (?:to|do|can)|command|wie (?:kann|mache)|befehl|comment)\b", re.IGNORECASE)


class Excerpt(NamedTuple):
    """Sentences to show, in the order of the text, and the best of them."""

    sentences: list[tuple[int, int]]
    best: tuple[int, int]


class TokenRows(NamedTuple):
    """The question's token rows, (q, d) of unit length, and those of a text, each with where in the text it begins."""

    query: Floats
    rows: Codes
    starts: Sequence[int]


def select_excerpt(text: str, query: str, marks: Sequence[tuple[int, int]], rows: TokenRows | None = None) -> Excerpt:
    """The sentences of the text that answer the query best. marks: where the query's words stand, in order. Without
    token rows the words and the kind of answer decide."""
    found = [(start, end) for start, end in sentence_spans(text) if not is_markup(text[start:end])]
    if not found:
        whole = (0, min(len(text), SENTENCE_CHARS_MAX))
        return Excerpt([whole], whole)
    scores = features(text, query, found, marks, rows) @ weights()
    order = np.argsort(-np.round(scores, 6), kind="stable").tolist()
    best = cut_sentence(text, found[order[0]], marks)
    chosen = [best]
    for place in order[1:]:
        more = sorted([*chosen, found[place]])
        if _length(text, more) <= EXCERPT_CHARS_MAX:
            chosen = more
    return Excerpt(chosen, best)


def _length(text: str, sentences: Sequence[tuple[int, int]]) -> int:
    """Number of characters of the sentences as `join` shows them."""
    gaps = (_gap(text, one, other) for one, other in itertools.pairwise(sentences))
    return sum(end - start for start, end in sentences) + sum(map(len, gaps))


def _gap(text: str, one: tuple[int, int], other: tuple[int, int]) -> str:
    """The text shown between two sentences."""
    between = text[one[1] : other[0]]
    if len(between) > GAP_CHARS_MAX or between.strip():
        return OMISSION
    return ROW_BREAK if "\n" in between and _are_rows(text[slice(*one)], text[slice(*other)]) else " "


def _are_rows(one: str, other: str) -> bool:
    """True for two rows of a table, as `name: Ines; age: 41`: the same first name, or cells in both."""
    (name, colon, _), (same, _, _) = one.partition(": "), other.partition(": ")
    return bool(colon and name == same) or (CELL_BREAK in one and CELL_BREAK in other)


def join(
    text: str, sentences: Sequence[tuple[int, int]], marks: Sequence[tuple[int, int]]
) -> tuple[str, list[tuple[int, int]]]:
    """The sentences as one line, with OMISSION for omitted text between two, and the marks in it."""
    shown, inside = "", list[tuple[int, int]]()
    before: tuple[int, int] | None = None
    begins, ends = [start for start, _ in marks], [end for _, end in marks]  # of marks in order, none of which overlap
    for start, end in sentences:
        if before is not None:
            shown += _gap(text, before, (start, end))
        offset = len(shown) - start
        for a, b in marks[bisect_right(ends, start) : bisect_left(begins, end)]:
            inside.append((max(a, start) + offset, min(b, end) + offset))
        shown += text[start:end].replace("\n", " ")
        before = start, end
    return shown, inside


def weights() -> NDArray[np.float64]:
    """The weight of each column of `features`."""
    return np.array([WEIGHT_LATE, WEIGHT_MEAN, WEIGHT_WORDS, WEIGHT_FITS, WEIGHT_HEADING, WEIGHT_UNKNOWN])


def features(
    text: str, query: str, sentences: Sequence[tuple[int, int]], marks: Sequence[tuple[int, int]],
    rows: TokenRows | None,
) -> NDArray[np.float64]:  # fmt: skip
    """(n, 6): what is known of each sentence, in the order of the weights."""
    table = np.zeros((len(sentences), 6))
    starts = np.array([start for start, _ in sentences])
    if rows is not None and len(rows.query) and len(rows.rows):
        _set_meaning(table, starts, rows)
    words: list[set[str]] = [set() for _ in sentences]
    for start, end in marks:
        place = int(np.searchsorted(starts, start, side="right")) - 1
        if place >= 0 and end <= sentences[place][1]:
            words[place].add(text[start:end].lower())
    total = max(1, len(set().union(*words)))
    table[:, 2] = [len(each) / total for each in words]
    wanted, asks_command = wanted_shapes(query), _ASKS_COMMAND.search(query) is not None
    for place, (start, end) in enumerate(sentences[:SENTENCES_MAX]):
        sentence = text[start:end]
        is_command = asks_command and "`" in sentence
        table[place, 3] = is_command or bool(wanted and features_of_text(sentence) & wanted)
        table[place, 4] = sentence.startswith("#") or sentence.endswith(("?", "？"))
    return table


def wanted_shapes(query: str) -> int:
    """The shapes of which a sentence that answers the query has one; 0 where it asks for no such kind."""
    asked, wanted = analyze_query(query), 0
    if asked.how_many or asked.how_long or _ASKS_NUMBER.search(query):
        wanted |= TextFeature.HAS_NUMBER
    if asked.when:
        wanted |= TextFeature.HAS_NUMBER | TextFeature.HAS_DATE
    if asked.who:
        wanted |= TextFeature.HAS_PROPER
    if asked.where:
        wanted |= TextFeature.HAS_PLACE
    if asked.why:
        wanted |= TextFeature.HAS_REASON
    return int(wanted)


def _set_meaning(table: NDArray[np.float64], starts: NDArray[np.int64], rows: TokenRows) -> None:
    """The columns that compare token rows, each less the best of them; the mean where a sentence has no token."""
    places = np.searchsorted(starts, np.array(rows.starts), side="right") - 1
    first = int(np.searchsorted(places, 0))  # places before it belong to the headings above the text
    known, begins = np.unique(places[first:], return_index=True)
    if not len(known):
        return
    tokens = rows.rows[first:].astype(np.float64) / CODE_OF_ONE
    query = rows.query.astype(np.float64)
    middle = query.mean(axis=0)
    sums = np.add.reduceat(tokens, begins)
    sizes = np.linalg.norm(sums, axis=1) * np.linalg.norm(middle)
    found = np.empty((len(known), 2))
    found[:, 0] = np.maximum.reduceat(tokens @ query.T, begins).mean(axis=1)
    found[:, 1] = sums @ middle / np.maximum(sizes, 1e-12)
    table[:, :2] = found.mean(axis=0) - found.max(axis=0)
    table[known, :2] = found - found.max(axis=0)
    table[:, 5] = 1
    table[known, 5] = 0
