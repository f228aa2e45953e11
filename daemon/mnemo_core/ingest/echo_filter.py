"""Removal of echoes: text that the daemon itself returned and that comes back in a turn or transcript. SPEC 5.5a

Returned text comes back in its `<memory>` block, whole or torn, or as lines of its own: quoted, listed, wrapped or in
another case. It is recognised by its words: punctuation, white space, case and quotation marks are ignored, while
digits, signs and question marks count.

Only text that was returned is removed. A block with unknown content stays as it is, tags included: it may be a person's
own text, an example in a document or another program's XML. When in doubt, a sentence is new: a text stored twice is
found by deduplication, a text removed wrongly is lost.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mnemo_core.ingest.memory_role import ROLES
from mnemo_core.text.languages import CJK, FIRST_CJK, line_spans
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import alternation
from mnemo_store.records import KINDS

MEMORIES_MAX = 512  # the latest memories that are known of one session
TEXT_CHARS_MAX = 1 << 20  # of all sessions together
HANDOUTS_MAX = 4096  # in all sessions, some 700 bytes each besides their text
CREDITS_MAX = 4096  # pairs of session and memory that were credited
ALONE_WORDS_MIN = 3  # outside of a block, a shorter text ("Yes.") is its speaker's own
ALONE_IDEOGRAPHS_MIN = 6


class EchoResult(NamedTuple):
    """The text that remains, and the ids of the memories whose text came back, in order of appearance."""

    rest: str
    ids: tuple[str, ...]


class _Handout(NamedTuple):
    """A returned content. Its words are one string with _BETWEEN between them: as a tuple and a set they would take
    twenty times the bytes of the content."""

    id: str
    joined: str
    longest: str  # of its words: a text without it does not return the content
    chars: int

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.joined.split(_BETWEEN))


class _Match(NamedTuple):
    """Words first to last (exclusive) of the text are a returned content; `start` is where its frame begins."""

    first: int
    last: int
    start: int
    ids: tuple[str, ...]


class _Content(NamedTuple):
    """A content in a page's code."""

    code: str
    words: tuple[str, ...]
    ids: tuple[str, ...]


# A sign belongs to its number; quote marks and headings at the beginning of a line are no words. `<` is returned in
# more than one form (SPEC 11); all of them count as one.
_WORD = lazy_pattern(
    rf"""(?P<lead>^[ \t]*+(?:>|\#{{1,6}}[ \t])[ \t>]*+)
    |(?P<sign>(?i:&(?:amp;)*+[lg]t;)|[<＜﹤‹〈⟨])
    |(?<![^\s(\[{{])[-+−]\d++(?:[.,:]\d++)*+
    |\d++(?:[.,:]\d++)++(?![^\W{CJK}])
    |[{CJK}]
    |[^\W{CJK}]++(?:['’][^\W{CJK}]++)*+
    |[=>+/%$€£¥&|~^?？@\#°§\u2190-\u2bff\U0001f000-\U0001faff]""",
    re.MULTILINE | re.VERBOSE,
)
_NAMED = rf"\[(?:{'|'.join(name.upper() for name in (*KINDS, *ROLES, 'session', 'notes'))})\]"
_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?:"
_INSIDE = r"(?:[^()]|\([^()]{0,200}\)){0,400}+"  # the bracket behind the kind: id, title, headings, path, score
_HEAD = lazy_pattern(rf"(?<!\\){_NAMED}(?P<id>[\s>]{{1,4}}\({_INSIDE}\))?(?P<date>[\s>]{{1,4}}{_DATE})?", re.IGNORECASE)
# What is left of a head, or of a tag, at the very end or front of a torn text.
_HEAD_FRONT = lazy_pattern(
    rf"\s*(?:[A-Z]{{0,10}}\](?:\s\({_INSIDE}\))?(?:\s{_DATE})?"
    rf"|\(?(?:\w{{0,10}}|[^()\[\]]{{0,400}}?\d?\.\d\d)\)(?:\s{_DATE})?"
    r"|[\d-]{0,9}[T ]?[\d:]{0,8}Z?:)(?=\s)"
)
_HEAD_END = lazy_pattern(rf"\[[A-Z]{{0,10}}\]?|{_NAMED}(?:\s\({_INSIDE}\)?)?(?:\s[\d-]{{0,10}}:?)?")
_TAGS = ("<memory>", "</memory>")
_TAG = lazy_pattern(r"<\s{0,3}(/?)\s{0,3}memory\s{0,3}>", re.IGNORECASE)
# The lines of a resume that are no memories; the headings tell that there is one.
_HEADING = lazy_pattern(
    r"^(?:=== (?:Core|Recent|Topics) \([^()\n]*\) ===|\(Working: \d+, Buffer: \d+\)|Triggers:)$", re.MULTILINE
)
_RESUME_LINE = lazy_pattern(
    rf"{_HEADING.pattern}|^\(\+\d+ more\)$|^kb\d+: \"[^\n]*\" \[\d+\]$|^Triggers: [^\n]*$", re.MULTILINE
)
_LIST_NUMBER = lazy_pattern(r"[ \t>*-]{0,9}\d{1,3}[.)][ \t]+")
_LEAD_IN = lazy_pattern(
    r"""[\s"'“*_`>-]*+(?:(?:yes|sure|right|ok(?:ay)?)[,.]?\s+)?(?:"""
    + alternation("echo_filter", "lead_in")
    + r""")\s*+[,:，：、]?[\s"'“*_`>-]*+""",
    re.IGNORECASE,
)


class HandoutLog:
    """Bounded record of the texts returned lately, by session. It knows no clock."""

    def __init__(self) -> None:
        self._sessions: dict[str, OrderedDict[tuple[str, str], _Handout]] = {}
        self._order: OrderedDict[tuple[str, str, str], None] = OrderedDict()  # of all sessions, oldest first
        self._credited: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._chars = 0

    def __len__(self) -> int:
        return len(self._order)

    def record(self, session: str, memory_id: str, content: str) -> None:
        """Count the content as returned in the session, "" being every session. Beyond 512 memories of a session, 4,096
        of all, or 1 MiB of text, what was returned longest ago is forgotten."""
        key = (session, memory_id, content)
        if key in self._order:
            self._order.move_to_end(key)
            self._sessions[session].move_to_end((memory_id, content))
            return
        words, _, _ = _words(content)
        given = _Handout(memory_id, _BETWEEN.join(words), max(words, key=len, default=""), len(content))
        if not given.joined:
            return
        kept = self._sessions.setdefault(session, OrderedDict())
        kept[memory_id, content] = given
        self._order[key] = None
        self._chars += given.chars
        if len(kept) > MEMORIES_MAX:
            self._forget((session, *next(iter(kept))))
        while (self._chars > TEXT_CHARS_MAX or len(self._order) > HANDOUTS_MAX) and len(self._order) > 1:
            self._forget(next(iter(self._order)))

    def first_returns(self, session: str, ids: Iterable[str]) -> tuple[str, ...]:
        """Those of the ids that come back in this session for the first time: the ones to be credited. SPEC 5.5a"""
        new = []
        for memory_id in ids:
            if (session, memory_id) not in self._credited:
                new.append(memory_id)
            self._credited[session, memory_id] = None
            self._credited.move_to_end((session, memory_id))
        while len(self._credited) > CREDITS_MAX:
            self._credited.popitem(last=False)
        return tuple(new)

    def handouts(self, session: str) -> list[_Handout]:
        """Texts that may come back in the session, the latest last. In a session without a name, all may."""
        if session == "":
            return [self._sessions[name][memory_id, content] for name, memory_id, content in self._order]
        return [*self._sessions.get("", {}).values(), *self._sessions.get(session, {}).values()]

    def _forget(self, key: tuple[str, str, str]) -> None:
        session, memory_id, content = key
        del self._order[key]
        kept = self._sessions[session]
        self._chars -= kept.pop((memory_id, content)).chars
        if not kept:
            del self._sessions[session]


def strip_echoes(text: str, given: Sequence[_Handout]) -> EchoResult:
    """The text without what was returned; the text itself when nothing of it was.

    given: from `HandoutLog.handouts`. Everything else stays as it is, but for blank lines and marks that would be left
    standing alone. Of a block that was torn before its first word nothing is left.
    """
    if not given or not text:
        return EchoResult(text, ())
    page = _EchoText(text)
    matches = _whole(page, given)
    matches += _torn(page, given, matches)
    if not matches:
        return EchoResult("" if text.strip() and _FRAME_ALONE.fullmatch(text) else text, ())
    matches.sort()
    ids = dict.fromkeys(memory_id for match in matches for memory_id in match.ids)
    # The text without the matches, their frames, and the marks that are then left alone
    spans: list[tuple[int, int]] = []
    for match in matches:
        closing = _CLOSING.match(page.text, page.ends[match.last - 1])
        spans.append((match.start, closing.end() if closing else page.ends[match.last - 1]))
    starts = [start for start, _ in spans]
    tags = [tag.span() for tag in page.tags]
    for start, end in _blocks(page.text):
        if bisect_left(starts, start) < bisect_left(starts, end):
            spans += tags[bisect_left(tags, (start, 0)) : bisect_left(tags, (end, 0))]
    spans += _resume_lines(page.text, spans)
    spans.sort()
    front, back = page.text[: spans[0][0]].strip(), page.text[spans[-1][1] :].strip()
    if _TAGS[0].endswith(front) or _TORN_FRONT.fullmatch(front):
        spans.insert(0, (0, spans[0][0]))
    if _TAGS[1].startswith(back) or _HEAD_END.fullmatch(back) or _MARKS.fullmatch(back):
        spans.append((spans[-1][1], len(page.text)))
    return EchoResult(_without(page.text, spans), tuple(ids))


class _EchoText:
    """A text, its words, and the places at which a returned content may begin and end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words, self.starts, self.ends = _words(text)
        self._codes: dict[str, str] = {}
        codes = self._codes
        self.code = "".join(codes.setdefault(word, _character(len(codes))) for word in self.words)
        self.sentences = line_spans(text)
        self.heads = list(_HEAD.finditer(text))
        self.tags = list(_TAG.finditer(text))
        self.framed: set[int] = set()  # words that a head introduces
        self.begins: dict[int, int] = {}  # words at which a content may begin, and where what introduces it begins
        self._closed = bytearray(len(self.words) + 1)  # whether a sentence, line or block ends before that word
        for start, end in self.sentences:
            first = self.word_at(start)
            if first < len(self.words) and self.starts[first] < end:
                self.begins.setdefault(first, self.starts[first])
                for lead in (_LEAD_IN.match(self.text, start, end), _LIST_NUMBER.match(self.text, start, end)):
                    if lead:
                        self.begins.setdefault(self.word_at(lead.end()), self.starts[first])
            self._closed[self.word_at(end)] = 1
        for tag in self.tags:
            self._closed[self.word_at(tag.start())] = 1
            self.begins.setdefault(self.word_at(tag.end()), tag.end())
        for head in self.heads:
            self._closed[self.word_at(head.start())] = 1
            # The date may be the memory's own, and a bracket after the kind its first words.
            for end in {head.end(), head.end("id"), head.start("date"), head.start() + head[0].index("]") + 1} - {-1}:
                self._frame(self.word_at(end), head.start())
        if front := _HEAD_FRONT.match(self.text):
            self._frame(self.word_at(front.end()), 0)
        self.begins.pop(len(self.words), None)

    def encoded(self, words: Iterable[str]) -> str:
        """The words as one character each; words that are not on the page are all the same other one."""
        return "".join(self._codes.get(word, _OTHER) for word in words)

    def closes(self, last: int) -> bool:
        """Return whether something ends before word `last`."""
        return bool(self._closed[last])

    def word_at(self, place: int) -> int:
        """The first word that begins at the place or after it."""
        return bisect_left(self.starts, place)

    def _frame(self, first: int, start: int) -> None:
        """A content that begins like a quotation or heading has lost that mark where it stood at a line's beginning."""
        self.begins[first] = start
        self.framed.add(first)
        if first < len(self.words) and self.words[first] in {">", "#"}:
            self._frame(first + 1, start)


_BETWEEN = "\0"  # no word has it
_OTHER = "\U0010ffff"
_SURROGATES_FROM, _SURROGATES = 0xD800, 0x800


def _character(number: int) -> str:
    """A character for the n-th word, never half of one."""
    return chr(number if number < _SURROGATES_FROM else number + _SURROGATES)


def _words(text: str) -> tuple[list[str], list[int], list[int]]:
    """The words of a text, folded, and where each begins and ends."""
    words, starts, ends = [], [], []
    for match in _WORD.finditer(text):
        if match.lastgroup == "lead":
            continue
        words.append(_folded(match[0], is_sign=match.lastgroup == "sign"))
        starts.append(match.start())
        ends.append(match.end())
    return words, starts, ends


def _folded(word: str, *, is_sign: bool) -> str:
    if is_sign:
        return ">" if word.lower() == "&gt;" else "<"
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFKC", word).casefold().replace("’", "'").replace("−", "-")


def _coded(page: _EchoText, given: Iterable[_Handout]) -> list[_Content]:
    """The contents in the page's code, sorted by it, each once."""
    by_words: dict[tuple[str, ...], list[str]] = {}
    for each in given:
        by_words.setdefault(each.words, []).append(each.id)
    return sorted(_Content(page.encoded(words), words, tuple(dict.fromkeys(ids))) for words, ids in by_words.items())


def _whole(page: _EchoText, given: Sequence[_Handout]) -> list[_Match]:
    """Matches of whole contents as sentences or lines of their own; at each place the longest."""
    present = set(page.words)
    contents = _coded(page, (each for each in given if each.longest in present and present.issuperset(each.words)))
    if not contents:
        return []
    codes = [content.code for content in contents]
    longest = max(map(len, codes))
    shorter = _longest_beginnings(codes)
    found: list[_Match] = []
    covered = 0
    for first in sorted(page.begins):
        if first < covered:
            continue
        here = page.code[first : first + longest]
        at = bisect_right(codes, here) - 1
        while at >= 0:
            last = first + len(codes[at])
            if here.startswith(codes[at]) and page.closes(last) and _is_enough(page, first, last):
                found.append(_Match(first, last, page.begins[first], contents[at].ids))
                covered = last
                break
            at = shorter[at]
    return found


def _longest_beginnings(codes: Sequence[str]) -> list[int]:
    """Of sorted codes, for each the longest other one that it begins with, -1 for none."""
    found: list[int] = []
    for number, code in enumerate(codes):
        at = number - 1
        while at >= 0 and not code.startswith(codes[at]):
            at = found[at]
        found.append(at)
    return found


def _is_enough(page: _EchoText, first: int, last: int) -> bool:
    """Return whether the match has more words than a common phrase; in a line of a block, any number is enough."""
    words = page.words[first:last]
    ideographs = sum(word[0] >= FIRST_CJK for word in words[:ALONE_IDEOGRAPHS_MIN])
    needed = ALONE_IDEOGRAPHS_MIN if ideographs * 2 > len(words) else ALONE_WORDS_MIN
    return first in page.framed or len(words) >= needed


def _torn(page: _EchoText, given: Sequence[_Handout], matches: Sequence[_Match]) -> list[_Match]:
    """Lines of a block of which only the beginning came back, or, at the very front, only the end."""
    frames = sorted(each.start() for each in (*page.heads, *page.tags))
    if not frames:
        return []
    contents = _coded(page, given)
    codes = [content.code for content in contents]
    covered = {match.start for match in matches}
    found: list[_Match] = []
    for first in sorted(page.framed & page.begins.keys()):
        if page.begins[first] not in covered and (match := _beginning(page, first, contents, codes)):
            found.append(match)
            covered.add(match.start)
    is_whole = bool(page.tags) and page.tags[0].start() == frames[0] and not page.tags[0][1]
    if not is_whole and not any(match.start < frames[0] for match in (*matches, *found)):
        found += _end_at_front(page, page.word_at(frames[0]), given)
    return found


def _beginning(page: _EchoText, first: int, contents: Sequence[_Content], codes: Sequence[str]) -> _Match | None:
    """The longest beginning of a content that stands at word `first` and reaches to the end of a line."""
    longest = max(map(len, codes))
    here = page.code[first : first + longest + 1]
    at = bisect_left(codes, here)
    best: _Match | None = None
    if first + len(here) == len(page.words):  # the last word itself may be torn
        whole, torn = here[:-1], page.words[-1]
        for code, words, ids in contents:
            if code.startswith(whole) and len(words) > len(whole) and words[len(whole)].startswith(torn):
                return _Match(first, len(page.words), page.begins[first], ids)
    for content in contents[max(0, at - 1) : at + 1]:
        length = _shared(here, content.code)
        while length and not _ends_line(page, first + length - 1):
            length -= 1
        if length and (best is None or first + length > best.last):
            best = _Match(first, first + length, page.begins[first], content.ids)
    return best


def _end_at_front(page: _EchoText, last: int, given: Sequence[_Handout]) -> list[_Match]:
    """The match before the first line of a block without its beginning, where a content ends with that text."""
    words = tuple(page.words[:last])
    for each in given:
        given_words = each.words
        rest = len(given_words) - last
        if last and rest >= 0 and given_words[rest].endswith(words[0]) and given_words[rest + 1 :] == words[1:]:
            return [_Match(0, last, 0, (each.id,))]
    return []


def _shared(one: str, other: str) -> int:
    """Length of the common prefix."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _ends_line(page: _EchoText, at: int) -> bool:
    following = page.starts[at + 1] if at + 1 < len(page.words) else len(page.text)
    return following == len(page.text) or "\n" in page.text[page.ends[at] : following]


_CLOSING = lazy_pattern(r"[.!…。！,;]*+[\"'”’»)\]*_`」』]*+[.…]*+")
# What is left of a tag and a head before the first memory of a torn block.
_TORN_FRONT = lazy_pattern(rf"(?:[</memory]{{0,9}}>)?(?:{_HEAD_FRONT.pattern})?[\s.…\"'”’»)\]*_`-]*")
_FRAME_ALONE = lazy_pattern(rf"\s*(?:<?/?memory>|<memory?)?\s*(?:{_HEAD_END.pattern}:?)?\s*(?:</memory>)?\s*")
_MARKS = lazy_pattern(r"[\s>\"'“”«»‘’*_`•·()\[\].,:;!…\\-]*+(?:\d{1,3}[.)]\s*)?|\s*(?:```|~~~)\w*\s*")
_BLANK_LINES = lazy_pattern(r"\n(?:[ \t]*+\n){2,}+")
_EMPTY_FENCE = lazy_pattern(r"^(```|~~~)\w*+\n\s*+\1$", re.MULTILINE)
_SPACES = lazy_pattern(r" {2,}+")


def _resume_lines(text: str, removed: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The lines of a resume that stand next to what is removed, or to such a line, on either side."""
    if not _HEADING.search(text):
        return []
    lines = {found.span() for found in _RESUME_LINE.finditer(text)}
    ordered = sorted([*removed, *lines])
    adjacent: set[tuple[int, int]] = set()
    last = -1  # the end of what was removed before
    for start, end in ordered:
        if (start, end) not in lines or (last >= 0 and _MARKS.fullmatch(text, last, max(last, start))):
            adjacent.add((start, end))
            last = max(last, end)
    following = -1  # the beginning of what was removed behind
    for start, end in reversed(ordered):
        if (start, end) in adjacent or (following >= 0 and _MARKS.fullmatch(text, min(end, following), following)):
            adjacent.add((start, end))
            following = start
    return sorted(adjacent & lines)


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The text without the spans; a line of which nothing but marks is left goes with them, and so does all that is
    left, where it is nothing else."""
    lines: list[list[str]] = [[]]
    cut: set[int] = set()
    at = 0
    for start, end in [*spans, (len(text), len(text))]:
        first, *others = text[at : max(at, start)].split("\n")
        lines[-1].append(first)
        lines += [[other] for other in others]
        if start < len(text):
            cut.add(len(lines) - 1)
        at = max(at, end)
    kept = []
    for number, pieces in enumerate(lines):
        line = "".join(pieces)
        if number in cut:
            line = _SPACES.sub(" ", line).strip()
            if _MARKS.fullmatch(line):
                continue
        kept.append(line)
    rest = _EMPTY_FENCE.sub("", _BLANK_LINES.sub("\n\n", "\n".join(kept))).strip()
    return "" if all(_MARKS.fullmatch(line.strip()) for line in rest.split("\n")) else rest


def _blocks(text: str) -> list[tuple[int, int]]:
    """The blocks of a text. One that lost its end reaches to the next one, one that lost its beginning to the last."""
    found: list[tuple[int, int]] = []
    opened, since = -1, 0
    for tag in _TAG.finditer(text):
        if tag[1]:
            found.append((opened if opened >= 0 else since, tag.end()))
            opened, since = -1, tag.end()
        else:
            if opened >= 0:
                found.append((opened, tag.start()))
            opened = tag.start()
    if opened >= 0:
        found.append((opened, len(text)))
    return found
