"""Telling what the daemon itself handed out from what is new. SPEC 5.5a

What was handed out comes back in turns, transcripts and captures: in its `<memory>` block, whole or torn; as lines,
quoted, listed, wrapped anew or in another case; as an answer that repeats it. It is recognised by its words alone:
punctuation, white space, case and quote marks say nothing, while digits, signs and question marks do.

Only what was handed out is taken away. A block of which nothing is known stays as it is, tags and all: it may be a
person's own text, an example in a document or another program's XML, and a tag that anybody can type proves nothing.
A block from before a restart is told by `claims`, which the caller can look up.

When in doubt, a sentence is new: what is stored twice is found as a near one, what is lost stays lost.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from mnemo_core.text.characters import CJK, FIRST_CJK
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.segmentation import line_spans
from mnemo_store.records import KINDS

MEMORIES_MAX = 512  # what is known of one session: its latest memories
TEXT_CHARS_MAX = 1 << 20  # of all sessions together
CREDITS_MAX = 4096  # sessions and memories of which it is known that they were credited
ALONE_WORDS_MIN = 3  # outside of a block, a shorter text ("Yes.") is its speaker's own
ALONE_IDEOGRAPHS_MIN = 6
REPEATED_SHARE_MIN = 0.9  # of a sentence's telling words, in order, for it to repeat a memory
SENTENCE_WORDS_MAX = 80  # a longer one is not compared word by word
CANDIDATES_MAX = 4  # memories that one sentence is compared with


class EchoResult(NamedTuple):
    """The text that remains, and the ids of the memories whose text came back, in order of appearance."""

    rest: str
    ids: tuple[str, ...]


class ContextLineClaim(NamedTuple):
    """A line that says of itself that it was handed out: its content as it was stored, and the end of the id or ""."""

    content: str
    id_end: str


class _Words(NamedTuple):
    """The words of a text, folded, and where each stands."""

    words: list[str]
    starts: list[int]
    ends: list[int]


class _Sentence(NamedTuple):
    """The content of a sentence: its telling words in order, the words that turn its meaning, and who is spoken of."""

    telling: tuple[str, ...]
    turning: tuple[tuple[str, int], ...]
    persons: tuple[str, ...]
    names_first: int  # how many of the telling words at its beginning are capitalised


class _Handout(NamedTuple):
    """A content as it was handed out."""

    id: str
    words: tuple[str, ...]
    distinct: frozenset[str]
    sentences: tuple[_Sentence, ...]
    chars: int


class _Match(NamedTuple):
    """Words first to last (exclusive) of the text are what was handed out; `start` is where its frame begins."""

    first: int
    last: int
    start: int
    ids: tuple[str, ...]


class _Content(NamedTuple):
    """A content in a page's code."""

    code: str
    words: tuple[str, ...]
    ids: tuple[str, ...]


# A sign belongs to its number; quote marks and headings at the beginning of a line are no words. `<` is handed out in
# more than one way (SPEC 11), so all of them are one.
_WORD = lazy_pattern(
    rf"""(?P<lead>^[ \t]*+(?:>|\#{{1,6}}[ \t])[ \t>]*+)
    |(?P<sign>(?i:&[lg]t;)|[<＜﹤‹〈⟨])
    |(?<![^\s(\[{{])[-+−]\d++(?:[.,:]\d++)*+
    |\d++(?:[.,:]\d++)++(?![^\W{CJK}])
    |[{CJK}]
    |[^\W{CJK}]++(?:['’][^\W{CJK}]++)*+
    |[=>+/%$€£¥&|~^?？@\#°§\u2190-\u2bff\U0001f000-\U0001faff]""",
    re.MULTILINE | re.VERBOSE,
)
_NAMED = rf"\[(?:{'|'.join(kind.upper() for kind in KINDS)})\]"
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
_ID = lazy_pattern(r"[\s>]*\(([0-9a-f]{8})\b", re.IGNORECASE)
_HEAD_OF_LINE = lazy_pattern(rf"^[ \t>]*+{_HEAD.pattern}", re.IGNORECASE | re.MULTILINE)
_TAGS = ("<memory>", "</memory>")
_TAG = lazy_pattern(r"<\s{0,3}(/?)\s{0,3}memory\s{0,3}>", re.IGNORECASE)
_SECTION = lazy_pattern(r"^(?:=== (?:Core|Recent|Topics) \([^()\n]*\) ===|Triggers:)$", re.MULTILINE)
_LIST_NUMBER = lazy_pattern(r"[ \t>*-]{0,9}\d{1,3}[.)][ \t]+")
_LEAD_IN = lazy_pattern(
    r"""[\s"'“*_`>-]*+(?:(?:yes|sure|right|ok(?:ay)?)[,.]?\s+)?(?:
    (?:(?:as|like|because)\s+)?(?:you|i|we)(?:['’]ve|\s+have|\s+had)?\s+(?:\w{2,20}ly\s+|also\s+|already\s+|once\s+)?
        (?:told|said|mentioned|noted|wrote|explained|shared|stated)(?:\s+to)?(?:\s+(?:me|us|you))?
        (?:\s+(?:earlier|before|previously|already|once|last\s+time))?(?:\s+that)?
    |(?:as\s+)?(?:i|we)\s+(?:do\s+)?(?:remember|recall|know|understand)(?:\s+that)?
    |according\s+to\s+(?:my|the|your|our)\s+(?:memory|memories|notes?|records?)
    |(?:from|in)\s+(?:my|the|your|our)\s+(?:memory|memories|notes?|records?)
    |(?:my|the|your)\s+(?:memory|memories|notes?|records?)\s+(?:says?|tells?\s+me|shows?|states?)(?:\s+that)?
    |(?:memory|remembered|recalled)(?=\s*:)
    |wie\s+(?:du|sie)\s+(?:mir\s+)?(?:gesagt|erzählt|erwähnt)\s+(?:hast|haben)
    |laut\s+(?:meinen|deinen|den)\s+(?:notizen|erinnerungen)
    |comme\s+(?:tu\s+me\s+l['’]as|vous\s+me\s+l['’]avez)\s+dit
    |(?:正如)?你(?:之前|曾)?(?:告诉过?我|说过?的?|提到过?的?)|おっしゃ(?:った|っていた)(?:ように|通り)
    )\s*+[,:，：、]?[\s"'“*_`>-]*+""",
    re.IGNORECASE | re.VERBOSE,
)

_SMALL_WORDS = """
a an the and or of to in on at by for with from as that this these those is are am be been being has have having do
does so also too there here which who whom der die das ein eine und oder von zu im am mit für ist sind hat le la les
un une des de du et ou à est sont avec pour
"""
# Words that turn what a sentence says, those that stand for others among them: the same on both sides, or it is new.
_TURNING_WORDS = """
not no never none nor neither nobody nothing without cannot only just if unless whether except but although though
instead rather maybe perhaps probably possibly apparently might may could would should must can will shall was were
had did until till before after since while when former formerly ex almost nearly barely hardly rarely seldom
sometimes often always once again longer anymore yet still already used more less most least than over under above
below on off up down out he she it they we him her them us his hers its their theirs our ours denies denied refuses
refused stopped quit false wrong fake nicht kein keine keinen keiner nie niemals ohne nur wenn falls vielleicht war
waren hatte wurde pas non jamais sans si peut-être était étaient plus 不 没 沒 無 无 非 未 别 莫 否 若 吗 嗎 吧 了 过
"""
_STOPS = frozenset(_SMALL_WORDS.split())
_TURNING = frozenset(_TURNING_WORDS.split())
_FIRST = frozenset(("i", "me", "my", "mine", "myself", "ich", "mein", "meine", "je", "moi", "mon", "ma", "mes", "我"))
_SECOND = frozenset(("you", "your", "yours", "yourself", "du", "dein", "deine", "tu", "toi", "ton", "ta", "你", "您"))
_FILLERS = frozenset(("indeed", "really", "actually", "currently", "certainly", "well", "yes", "sure", "right", "okay"))


class HandoutLog:
    """Bounded record of the texts handed out lately, by session. It knows no clock."""

    def __init__(self) -> None:
        self._sessions: dict[str, OrderedDict[tuple[str, str], _Handout]] = {}
        self._order: OrderedDict[tuple[str, str, str], None] = OrderedDict()  # of all sessions, oldest first
        self._credited: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._chars = 0

    def __len__(self) -> int:
        return len(self._order)

    def record(self, session: str, memory_id: str, content: str) -> None:
        """From now on the content counts as handed out in the session, "" being every session.

        Beyond 512 memories of a session, or 1 MiB of text of all, what was handed out longest ago is forgotten.
        """
        key = (session, memory_id, content)
        if key in self._order:
            self._order.move_to_end(key)
            self._sessions[session].move_to_end((memory_id, content))
            return
        given = _given(memory_id, content)
        if not given.words:
            return
        kept = self._sessions.setdefault(session, OrderedDict())
        kept[memory_id, content] = given
        self._order[key] = None
        self._chars += given.chars
        if len(kept) > MEMORIES_MAX:
            self._forget((session, *next(iter(kept))))
        while self._chars > TEXT_CHARS_MAX and len(self._order) > 1:
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


def strip_echoes(text: str, shown: HandoutLog, session: str) -> EchoResult:
    """The text without what was handed out in the session; the text itself when nothing of it was.

    Everything else stays as it is, but for blank lines and marks that would be left standing alone. Of a block that
    was torn before its first word nothing is left.
    """
    return strip_handouts(text, shown.handouts(session))


def strip_handouts(text: str, given: Sequence[_Handout]) -> EchoResult:
    """As `strip_echoes`, of what `HandoutLog.handouts` gave: nobody has to wait meanwhile who hands something out."""
    if not given or not text:
        return EchoResult(text, ())
    page = _EchoText(text)
    matches = _whole(page, given)
    matches += _torn(page, given, matches)
    matches += _repeated(page, given, matches)
    if not matches:
        return EchoResult("" if text.strip() and _FRAME_ALONE.fullmatch(text) else text, ())
    matches.sort()
    ids = dict.fromkeys(memory_id for match in matches for memory_id in match.ids)
    return EchoResult(_rest(page, matches), tuple(ids))


def find_line_claims(text: str) -> list[ContextLineClaim]:
    """The claims of blocks in the text about what was returned: to be looked up, and noted if it is a memory."""
    found: list[ContextLineClaim] = []
    for start, end in _blocks(text):
        closed = end - len(_TAGS[1]) if text.endswith(_TAGS[1], start, end) else end
        heads = [head for head in _HEAD.finditer(text, start, closed) if _begins_line(text, head.start())]
        for head, following in pairwise([*heads, None]):
            assert head is not None
            content = text[head.end() : following.start() if following else closed]
            named = _ID.match(head["id"] or "")
            found.append(ContextLineClaim(_unescaped(content.strip()), named[1] if named else ""))
    return found


def _begins_line(text: str, at: int) -> bool:
    """Return whether only blanks and quotation marks precede the place on its line."""
    while at and text[at - 1] in " >":
        at -= 1
    return text.startswith("\n", at - 1) and at > 0


class _EchoText:
    """A text, its words, and the places at which what was handed out may begin and end."""

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
        self._find_borders()

    def encoded(self, words: Iterable[str]) -> str:
        """The words as one character each; words that are not on the page are all the same other one."""
        return "".join(self._codes.get(word, _OTHER) for word in words)

    def closes(self, last: int) -> bool:
        """Return whether something ends before word `last`."""
        return bool(self._closed[last])

    def word_at(self, place: int) -> int:
        """The first word that begins at the place or after it."""
        return bisect_left(self.starts, place)

    def _find_borders(self) -> None:
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

    def _frame(self, first: int, start: int) -> None:
        """A content that begins like a quotation or heading has lost that mark where it stood at a line's beginning."""
        self.begins[first] = start
        self.framed.add(first)
        if first < len(self.words) and self.words[first] in {">", "#"}:
            self._frame(first + 1, start)


_OTHER = "\U0010ffff"
_SURROGATES_FROM, _SURROGATES = 0xD800, 0x800


def _character(number: int) -> str:
    """A character for the n-th word, never half of one."""
    return chr(number if number < _SURROGATES_FROM else number + _SURROGATES)


def _words(text: str) -> _Words:
    words, starts, ends = [], [], []
    for match in _WORD.finditer(text):
        if match.lastgroup == "lead":
            continue
        words.append(_folded(match[0], is_sign=match.lastgroup == "sign"))
        starts.append(match.start())
        ends.append(match.end())
    return _Words(words, starts, ends)


def _folded(word: str, *, is_sign: bool) -> str:
    if is_sign:
        return ">" if word.lower() == "&gt;" else "<"
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFKC", word).casefold().replace("’", "'").replace("−", "-")


def _given(memory_id: str, content: str) -> _Handout:
    words = tuple(_words(content).words)
    sentences = tuple(_sentence(content[start:end]) for start, end in line_spans(content))
    return _Handout(memory_id, words, frozenset(words), sentences, len(content))


def _sentence(text: str) -> _Sentence:
    telling: list[str] = []
    turning: Counter[str] = Counter()
    persons: list[str] = []
    names_first, are_names = 0, True
    found = _words(text)
    for word, start in zip(found.words, found.starts, strict=True):
        stem = word.partition("'")[0]
        if word.endswith("n't"):
            turning["not"] += 1
        elif stem in _FIRST:
            persons.append("first")
        elif stem in _SECOND:
            persons.append("second")
        elif stem in _TURNING or not any(map(str.isalnum, word)):  # a sign of a formula, or the mark of a question
            turning[stem] += 1
        elif word not in _STOPS:
            telling.append(_stemmed(word))
            are_names = are_names and text[start].isupper()
            names_first += are_names
    return _Sentence(tuple(telling), tuple(sorted(turning.items())), tuple(persons), names_first)


def _stemmed(word: str) -> str:
    """Without the s that a verb takes on when "I" becomes a name."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _coded(page: _EchoText, given: Iterable[_Handout]) -> list[_Content]:
    """The contents in the page's code, sorted by it, each once."""
    by_words: dict[tuple[str, ...], list[str]] = {}
    for each in given:
        by_words.setdefault(each.words, []).append(each.id)
    return sorted(_Content(page.encoded(words), words, tuple(dict.fromkeys(ids))) for words, ids in by_words.items())


def _whole(page: _EchoText, given: Sequence[_Handout]) -> list[_Match]:
    """Matches of whole contents as sentences or lines of their own; at each place the longest."""
    present = set(page.words)
    contents = _coded(page, (each for each in given if each.distinct <= present))
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
    return first in page.framed or last - first >= _words_needed(page.words[first:last])


def _words_needed(words: Sequence[str]) -> int:
    ideographs = sum(word[0] >= FIRST_CJK for word in words[:ALONE_IDEOGRAPHS_MIN])
    return ALONE_IDEOGRAPHS_MIN if ideographs * 2 > len(words) else ALONE_WORDS_MIN


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
        rest = len(each.words) - last
        if last and rest >= 0 and each.words[rest].endswith(words[0]) and each.words[rest + 1 :] == words[1:]:
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


def _repeated(page: _EchoText, given: Sequence[_Handout], matches: Sequence[_Match]) -> list[_Match]:
    """Sentences that say what one memory says, with other small words, and nothing of their own."""
    known: dict[_Sentence, list[str]] = {}
    for each in given:
        for sentence in each.sentences:
            known.setdefault(sentence, []).append(each.id)
    units = list(known.items())
    masks: dict[str, int] = {}
    for number, (unit, _) in enumerate(units):
        for word in set(unit.telling):
            masks[word] = masks.get(word, 0) | 1 << number
    covered = bytearray(len(page.words) + 1)
    for match in matches:
        covered[match.first : match.last] = b"\x01" * (match.last - match.first)
    found: list[_Match] = []
    judged: dict[str, tuple[str, ...]] = {}
    for start, end in page.sentences:
        first, last = page.word_at(start), page.word_at(end)
        if first == last or last - first > 2 * SENTENCE_WORDS_MAX or any(covered[first:last]):
            continue
        text = page.text[start:end]
        if text not in judged:
            judged[text] = _repeats(text, units, masks)
        if judged[text]:
            found.append(_Match(first, last, page.starts[first], judged[text]))
    return found


def _repeats(text: str, units: Sequence[tuple[_Sentence, list[str]]], masks: dict[str, int]) -> tuple[str, ...]:
    """The ids of the memory that the sentence repeats; none where it says something of its own, or asks."""
    lead = _LEAD_IN.match(text)
    text = text[lead.end() :] if lead else text
    said = _sentence(text)
    telling = tuple(word for word in said.telling if word not in _FILLERS)
    if not _words_needed(telling) <= len(telling) <= SENTENCE_WORDS_MAX:
        return ()
    own = _specifics(text)
    for number in _candidates(telling, masks):
        unit, ids = units[number]
        persons = _are_same_persons(said, unit, attributed=lead is not None)
        if unit.turning == said.turning and persons and _follows(telling, said, unit, own):
            return tuple(dict.fromkeys(ids))
    return ()


def _candidates(telling: Sequence[str], masks: dict[str, int]) -> list[int]:
    """The latest that lack at most a tenth of the words: of that many parts plus one, they hold at least one whole."""
    parts = _words_added_max(telling) + 1
    may_be = 0
    for part in range(parts):
        mask = -1
        for word in telling[part::parts]:
            mask &= masks.get(word, 0)
        may_be |= mask
    found: list[int] = []
    while may_be and len(found) < CANDIDATES_MAX:
        found.append(may_be.bit_length() - 1)
        may_be ^= 1 << found[-1]
    return found


def _words_added_max(telling: Sequence[str]) -> int:
    return int(len(telling) * (1 - REPEATED_SHARE_MIN) + 1e-9)


def _are_same_persons(said: _Sentence, unit: _Sentence, *, attributed: bool) -> bool:
    """True if both speak of the same people: "I" may have become "you", and so may a name."""
    if said.persons == unit.persons:
        return True
    swapped = tuple("second" if person == "first" else "first" for person in unit.persons)
    if said.persons == swapped:
        return attributed or len(set(swapped)) == 1
    return not unit.persons and set(said.persons) == {"second"} and 0 < unit.names_first <= 2


def _follows(telling: Sequence[str], said: _Sentence, unit: _Sentence, own: set[str]) -> bool:
    """True if the words are the memory's, in its order and from its beginning, with at most a tenth put in."""
    at = unit.names_first if said.persons and not unit.persons else 0
    added = 0
    for word in telling:
        if at < len(unit.telling) and unit.telling[at] == word:
            at += 1
            continue
        added += 1
        if added > _words_added_max(telling) or word in unit.telling or word in own:
            return False
    return True


def _specifics(text: str) -> set[str]:
    """The words that nobody puts into a sentence without saying something new: names, numbers, identifiers."""
    found = _words(text)
    return {
        _stemmed(word)
        for word, start, end in zip(found.words, found.starts, found.ends, strict=True)
        if (start > 0 and text[start:end] != text[start:end].lower()) or not word.isalpha() or word >= FIRST_CJK
    }


_CLOSING = lazy_pattern(r"[.!…。！,;]*+[\"'”’»)\]*_`」』]*+[.…]*+")
# What is left of a tag and a head before the first memory of a torn block.
_TORN_FRONT = lazy_pattern(rf"(?:[</memory]{{0,9}}>)?(?:{_HEAD_FRONT.pattern})?[\s.…\"'”’»)\]*_`-]*")
_FRAME_ALONE = lazy_pattern(rf"\s*(?:<?/?memory>|<memory?)?\s*(?:{_HEAD_END.pattern}:?)?\s*(?:</memory>)?\s*")
_MARKS = lazy_pattern(r"[\s>\"'“”«»‘’*_`•·()\[\].,:;!…\\-]*+(?:\d{1,3}[.)]\s*)?|\s*(?:```|~~~)\w*\s*")
_BLANK_LINES = lazy_pattern(r"\n(?:[ \t]*+\n){2,}+")
_EMPTY_FENCE = lazy_pattern(r"^(```|~~~)\w*+\n\s*+\1$", re.MULTILINE)
_SPACES = lazy_pattern(r" {2,}+")


def _rest(page: _EchoText, matches: Sequence[_Match]) -> str:
    """The text without the matches, their frames, and the marks that are then left alone."""
    spans: list[tuple[int, int]] = []
    for match in matches:
        closing = _CLOSING.match(page.text, page.ends[match.last - 1])
        spans.append((match.start, closing.end() if closing else page.ends[match.last - 1]))
    starts = [start for start, _ in spans]
    tags = [tag.span() for tag in page.tags]
    for start, end in _blocks(page.text):
        if bisect_left(starts, start) < bisect_left(starts, end):
            spans += tags[bisect_left(tags, (start, 0)) : bisect_left(tags, (end, 0))]
    for section in _SECTION.finditer(page.text):
        following = bisect_left(starts, section.end())
        if following < len(starts) and _MARKS.fullmatch(page.text, section.end(), starts[following]):
            spans.append(section.span())
    spans.sort()
    front, back = page.text[: spans[0][0]].strip(), page.text[spans[-1][1] :].strip()
    if _TAGS[0].endswith(front) or _TORN_FRONT.fullmatch(front):
        spans.insert(0, (0, spans[0][0]))
    if _TAGS[1].startswith(back) or _HEAD_END.fullmatch(back) or _MARKS.fullmatch(back):
        spans.append((spans[-1][1], len(page.text)))
    return _without(page.text, spans)


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


def _unescaped(content: str) -> str:
    """The content as it was before it was escaped for a block."""
    text = content.replace("\n  ", "\n")
    return _ESCAPED_TAG.sub("<", _ESCAPED_BRACKET.sub(r"\1[", text))


_ESCAPED_BRACKET = lazy_pattern(r"^([^\S\n]*+)\\\[", re.MULTILINE)
_ESCAPED_TAG = lazy_pattern(r"&lt;(?=[\s/\u200b-\u200f\u2060\ufeff]{0,9}memory)", re.IGNORECASE)
