"""The sentences of a text, and which of them answers best. For showing, never for storing."""

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from mnemo_core.text.languages import FIRST_CJK
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.segmentation import sentence_ends

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
    """The span of the whole lines around the best sentence that have at most `budget` tokens together.

    Where the sentence's own lines are larger, the span is the sentence alone; empty where that is larger too.
    """
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
