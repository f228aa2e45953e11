"""Features of a text, as bits: whether it asks, counts, names, dates, gives a reason. SPEC 7.3 (`auto`)

A question of how many is answered by a text with a number in it, whatever its words are; the learned ranker sets the
shape of a text against the shape of the question. English first, and what is plain in German, French, Chinese and
Japanese. It is read once, when a memory is written, so it has to be quick: words are looked up one by one in one table,
and the few patterns of several words are tried only where one of their words is there.
"""

import re
from collections.abc import Sequence
from enum import IntFlag
from itertools import islice

from mnemo_core.text import lexicon
from mnemo_core.text.characters import UNSPACED_CHARACTER
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed

RULES_VERSION = 1  # version of what this module does: columns made under another one are built anew

SHORT_WORDS = 7  # fewer are short
SHORT_CHARACTERS = 12  # of Chinese and Japanese; fewer are short
NUMBERS_MAX = 64  # looked at; a text with more is a table, and the rest of it says the same
LIST_MARKS = 2  # commas, or lines that begin with a mark
GERMAN_WORDS = 2  # that English does not have, before a capital says nothing any more; one in a short text


class TextFeature(IntFlag):
    """The bits of `shape_of`. Their values are kept in a view's file: new ones go to the end."""

    ENDS_WITH_QUESTION = 1 << 0
    HAS_QUESTION = 1 << 1
    HAS_NUMBER = 1 << 2
    HAS_DATE = 1 << 3
    HAS_PROPER = 1 << 4  # a capital inside a sentence; never of German, where every noun has one
    HAS_QUOTE = 1 << 5
    HAS_MONEY_OR_UNIT = 1 << 6
    HAS_REASON = 1 << 7
    FIRST_PERSON = 1 << 8
    HAS_LIST = 1 << 9
    HAS_PLACE = 1 << 10
    HAS_DURATION = 1 << 11
    HAS_FEELING = 1 << 12
    HAS_NEGATION = 1 << 13
    IS_REACTION = 1 << 14
    IS_SHORT = 1 << 15


# Bits of words that are part of no shape by themselves.
_GERMAN = 1 << 24  # counts as a German word
_BESIDE = 1 << 25  # may be part of one with the words beside it: last week, all day, due to
_SHAPES = (1 << 24) - 1


_PERIODS = lexicon.words("text_features", "periods")
_RELATIVES = lexicon.words("text_features", "relatives")
_RELATIVES_BEHIND = listed("dernier dernière prochain prochaine")
_WHOLES = listed("all one whole entire full half")
_REASON_PAIRS = frozenset(("so that", "that's why", "is why", "due to", "thanks to", "in order", "a result", "grâce à"))
_ELISIONS = {"j": int(TextFeature.FIRST_PERSON), "n": int(TextFeature.HAS_NEGATION)}  # j'aime, n'est
_CASED = {
    "US": 0,
    "Mars": 0,
    "March": int(TextFeature.HAS_DATE),
}  # what the case of a letter decides; march is no month

# Plain numbers: joining members of an IntFlag takes ten times as long.
(
    _ENDS_WITH_QUESTION, _HAS_QUESTION, _HAS_NUMBER, _HAS_DATE, _HAS_PROPER, _HAS_QUOTE, _HAS_MONEY_OR_UNIT,
    _HAS_REASON, _, _HAS_LIST, _HAS_PLACE, _HAS_DURATION, _HAS_FEELING, _HAS_NEGATION, _IS_REACTION, _IS_SHORT,
) = map(int, TextFeature)  # fmt: skip


_OF_WORDS: tuple[tuple[str, int], ...] = (
    ("numbers", TextFeature.HAS_NUMBER), ("dates", TextFeature.HAS_DATE),
    ("money_and_units", TextFeature.HAS_MONEY_OR_UNIT), ("reasons", TextFeature.HAS_REASON),
    ("first_persons", TextFeature.FIRST_PERSON), ("durations", TextFeature.HAS_DURATION),
    ("feelings", TextFeature.HAS_FEELING), ("negations", TextFeature.HAS_NEGATION), ("german_words", _GERMAN),
    ("periods", _BESIDE), ("in_pairs", _BESIDE),
)  # fmt: skip


def _table() -> dict[str, int]:
    """The bits of each word."""
    bits: dict[str, int] = {}
    for section, bit in _OF_WORDS:
        for word in lexicon.words("text_features", section):
            bits[word] = bits.get(word, 0) | int(bit)
    return bits | _CASED | dict.fromkeys(("march", "may"), 0)


_BITS = _table()

_NO_PLACES = frozenset(word.capitalize() for word in lexicon.words("text_features", "no_places"))
_PLACE_WORDS = listed("in at to from near nach aus à en")

_ASCII_WORD = lazy_pattern(r"[A-Za-z]+(?:'[A-Za-z]+)*")
_WORD = lazy_pattern(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_CAPITALISED = lazy_pattern(r"[A-ZÀ-ÖØ-Þ][^\W\d_]*")
_END_OF_QUESTION = lazy_pattern(r"[?？][^\w?？]*\Z")
_REACTION = lazy_pattern(
    r"""\W*(?:
        (?:hey|hi|hiya|hello|wow|whoa|thank\ you|thanks|thx|(?:ha){2,}h?|lol|oh|ooh|aww?|ah|yay|that's|that\ sounds
        |sounds|congrat\w*|great|nice|cool|awesome|amazing|yeah|yep|yup|yes|nope|sure|ok|okay|absolutely|definitely
        |exactly|totally|hallo|danke|ja|nein|toll|genau|salut|bonjour|merci|oui|non|d'accord)(?!\w)
        |no(?!\w|\ one|\ matter)|good\ (?:luck|job|morning|evening|for\ you)
        |你好|您好|嗨|谢谢|謝謝|哈哈|好的|是的|对啊|こんにちは|ありがとう|はい|いいえ|うん|そうですね|すごい)""",
    re.IGNORECASE | re.VERBOSE,
)
_DIGITS = lazy_pattern(r"\d+")
_DATE_FROM = lazy_pattern(  # where digits begin
    r"""(?<![.,$€£¥])(?:19|20)\d\d(?:s|er)?\b(?!%|[.,]\d)
        |\d{1,2}([./])\d{1,2}\1\d{2,4}(?!\d)
        |(?:(?<=\bJan\ )|(?<=\bMar\ )|(?<=\bJun\ )|(?<=\bSep\ )|(?<=\bMay\ ))""",
    re.VERBOSE,
)
_DATE_BEHIND = lazy_pattern(  # and where they end
    r"(?:st|nd|rd|th)\b|\ ?[月日号號](?![間间])|(?<=\d{4})年|\ (?:Jan|Mar|May|Jun|Sep)\b"
)
_UNIT_BEHIND = lazy_pattern(
    r"""\ ?(?:km|kg|mg|g|m|cm|mm|mi|lbs?|oz|ft|feet|inch|inches|mph|km/h|ml|l|[KMGT]B|Hz|[kMG]Hz|k?W|kWh|°[CF]?|cents?
        |公里|公斤|千克|米|元|块|円|キロ|メートル|グラム|度)(?![A-Za-z])""",
    re.VERBOSE,
)
_SPAN_BEHIND = lazy_pattern(r"[ -](?:year|month|week|day|hour|minute|second)s?\b")
_MONEY = lazy_pattern(r"[$€£¥%％￥]")
_MARKS_OF_QUOTES = lazy_pattern(r"[“”„«»「」『』《》‘]")
_TITLE = lazy_pattern(r"'(?<!\w.)[A-Z][^']*'(?!\w)")
_COMMA = lazy_pattern(r",(?!\d{3}(?!\d))|[、，]")
_LISTED_LINE = lazy_pattern(r"^[ \t]*(?:[-*•+]|\d{1,2}[.)]) ", re.MULTILINE)

_CJK_PATTERNS: tuple[tuple[int, re.Pattern[str]], ...] = tuple(
    (int(shape), lazy_pattern(pattern, re.VERBOSE))
    for shape, pattern in (
        (
            TextFeature.HAS_NUMBER,
            r"""[一二三四五六七八九十百千万两兩几]
                (?:[个個次年月天岁歳歲人本只件回つ元円块点時时分秒週周匹枚杯台度])""",
        ),
        (
            TextFeature.HAS_DATE,
            r"""[今明昨前后後]天|今晚|昨晚|今早|[去今明前]年|[上下这這本][个個]?(?:周|週|星期|礼拜|月)
                |(?:周|週|星期|礼拜)[一二三四五六日天]|[一二三四五六七八九十]月|[天年月]前|今日|明日|昨日|先週|来週|今週
                |先月|来月|今月|来年|[月火水木金土日]曜""",
        ),
        (
            TextFeature.HAS_MONEY_OR_UNIT,
            r"[\d一二三四五六七八九十百千万](?:元|円|块钱|公里|公斤|千克|キロ)",
        ),
        (TextFeature.HAS_REASON, r"因为|因為|由于|由於|所以|为了|為了|原因|理由|から|ので|ため"),
        (TextFeature.FIRST_PERSON, r"我|咱|私|僕|俺|わたし|ぼく"),
        (
            TextFeature.HAS_PLACE,
            r"""[在到去从從住][^，。、！？\s]{0,8}?(?:学校|公园|餐厅|(?<![在到去从從住])[里市省国國县州区店站])
                |[^\s、。]{1,8}(?:市|県|駅|町|村|国)(?:で|に|へ|から)""",
        ),
        (
            TextFeature.HAS_DURATION,
            r"""(?<!\d)(?:\d{1,2}|[一二三四五六七八九十两兩几数])
                (?:年(?![前底初末])|个月|個月|[かヶカ]月|周|週間|星期|天(?!前)|日間|小时|小時|時間|分钟|分鐘|分間)|以来|多年""",
        ),
        (
            TextFeature.HAS_FEELING,
            r"""喜欢|喜歡|爱|愛|讨厌|討厭|高兴|高興|开心|開心|难过|難過|自豪|激动
                |好き|嫌い|嬉し|うれし|悲し|楽し|幸せ""",
        ),
        (TextFeature.HAS_NEGATION, r"不|没|沒|从未|ない|ません|なかった"),
    )
)


def features_of_text(text: str) -> int:
    """The bits of Shape that a text has."""
    is_ascii = text.isascii()
    if not is_ascii:
        text = text.replace("\u2019", "'")
    words = (_ASCII_WORD if is_ascii else _WORD).findall(text)
    bits, is_german = _of_words(words)
    bits |= _of_marks(text, is_ascii=is_ascii) | _of_capitals(text, is_german=is_german)
    if bits & _BESIDE:
        bits |= _of_neighbours([word.lower() for word in words])
    for digits in islice(_DIGITS.finditer(text), NUMBERS_MAX):
        bits |= _of_digits(text, digits.start(), digits.end())
    if _REACTION.match(text):
        bits |= _IS_REACTION
    if not is_ascii and UNSPACED_CHARACTER.search(text):
        bits |= _of_cjk(text)
    elif len(words) < SHORT_WORDS and len(text.split()) < SHORT_WORDS:
        bits |= _IS_SHORT
    return bits & _SHAPES


def _of_words(words: Sequence[str]) -> tuple[int, bool]:
    """The bits of the words by themselves, and whether they are German."""
    bits = german = 0
    known = _BITS.get
    for word in words:
        found = known(word)
        if found is None:
            found = known(word.lower(), 0)
        if found & _GERMAN:
            german += 1
        bits |= found
        if "'" in word:
            bits |= _of_contracted(word.lower())
    return bits, german >= GERMAN_WORDS or (german > 0 and len(words) < SHORT_WORDS)


def _of_contracted(word: str) -> int:
    """Of I'm, don't, j'aime: the bits of what stands on both sides."""
    bits = _HAS_NEGATION if word.endswith("n't") else 0
    head, _, tail = word.partition("'")
    return bits | _BITS.get(head, 0) | _BITS.get(tail, 0) | _ELISIONS.get(head, 0)


def _of_neighbours(words: Sequence[str]) -> int:
    """The bits of two or three adjacent words."""
    bits = 0
    for at, word in enumerate(words):
        if f"{words[at - 1]} {word}" in _REASON_PAIRS and at:
            bits |= _HAS_REASON
        if word not in _PERIODS:
            continue
        earlier, later = list(words[max(0, at - 4) : at]), words[at + 1 : at + 2]
        if earlier[-1:] == ["few"]:  # the last few weeks
            earlier.pop()
        elif earlier[-2:] == ["couple", "of"]:
            del earlier[-2:]
        if _RELATIVES.intersection(earlier[-1:]) or _RELATIVES_BEHIND.intersection(later):
            bits |= _HAS_DATE
        elif _WHOLES.intersection(earlier[-1:]) or earlier[-2:] in (["for", "a"], ["for", "an"], ["half", "an"]):
            bits |= _HAS_DURATION
    return bits


def _of_marks(text: str, *, is_ascii: bool) -> int:
    """The bits of the punctuation."""
    bits = 0
    if "?" in text or "\uff1f" in text:
        bits |= _HAS_QUESTION
        if _END_OF_QUESTION.search(text):
            bits |= _ENDS_WITH_QUESTION
    if text.count('"') > 1 or ("'" in text and _TITLE.search(text)) or (not is_ascii and _MARKS_OF_QUOTES.search(text)):
        bits |= _HAS_QUOTE
    if _MONEY.search(text):
        bits |= _HAS_MONEY_OR_UNIT
    has_commas = (text.count(",") >= LIST_MARKS or not is_ascii) and len(_COMMA.findall(text)) >= LIST_MARKS
    if has_commas or ("\n" in text and len(_LISTED_LINE.findall(text)) >= LIST_MARKS):
        bits |= _HAS_LIST
    return bits


def _of_capitals(text: str, *, is_german: bool) -> int:
    """The bits of the capitals inside sentences."""
    bits = 0
    for match in _CAPITALISED.finditer(text, 1):
        start, word = match.start(), match[0]
        if text[start - 1] != " ":
            continue
        if len(word) > 1 and not is_german and (text[start - 2].islower() or text[start - 2] in ",;0123456789"):
            bits |= _HAS_PROPER
        if word == "May" and text[start - 2].islower():
            bits |= _HAS_DATE
        earlier = text[max(0, start - 12) : start].lower().split()
        if earlier and earlier[-1] == "the":
            earlier.pop()
        if earlier and earlier[-1] in _PLACE_WORDS and word not in _NO_PLACES:
            bits |= _HAS_PLACE
    return bits


def _of_digits(text: str, start: int, end: int) -> int:
    bits = _HAS_NUMBER
    if _DATE_FROM.match(text, start) or _DATE_BEHIND.match(text, end):
        bits |= _HAS_DATE
    if _UNIT_BEHIND.match(text, end):
        bits |= _HAS_MONEY_OR_UNIT
    if _SPAN_BEHIND.match(text, end):
        bits |= _HAS_DURATION
    return bits


def _of_cjk(text: str) -> int:
    bits = _IS_SHORT if sum(map(len, text.split())) < SHORT_CHARACTERS else 0
    for bit, pattern in _CJK_PATTERNS:
        if pattern.search(text):
            bits |= bit
    return bits
