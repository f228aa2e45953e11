"""Patterns of time expressions, and the reader of each. SPEC 2.5, 5.4

A pattern is tried only on a text that has the words it needs, so that a text without dates costs next to nothing, and
one with numbers little more.
"""

import re
from typing import NamedTuple

from mnemo_core.text.characters import UNSPACED_CHARACTER
from mnemo_core.text.dates.date_readers import (
    Reader,
    read_again,
    read_ago,
    read_clock,
    read_date,
    read_day_word,
    read_iso,
    read_month,
    read_quarter,
    read_season,
    read_slashed,
    read_this_part_named,
    read_unit,
    read_unit_cjk,
    read_vague,
    read_weekday,
    read_weekday_cjk,
    read_weekend,
    read_year,
)
from mnemo_core.text.dates.date_words import (
    COUNTS,
    MONTHS,
    PARTS_OF_SPAN,
    SEASONS,
    UNITS_CJK,
    WEEKDAY_NAMES,
    WEEKDAYS,
    one_of,
)
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed


class DatePattern(NamedTuple):
    """A pattern, the name of its reader, and sets of words: of each a text that it fits has one."""

    read: Reader
    needs: tuple[frozenset[str], ...]
    pattern: re.Pattern[str]


_WORD = lazy_pattern(r"[^\W\d_]+")
_FIGURE = lazy_pattern(r"\d")
FIGURE = "0"  # stands for any digit
YEAR = "1900"  # stands for what may be a year of the last century or this one
_BETWEEN = lazy_pattern(r"\d([-/.:])(?=\s?\d)")  # what stands between digits stands for itself, behind FIGURE
_YEAR_SHAPE = lazy_pattern(r"(?:19|20)\d\d")
IDEOGRAPH = "字"  # stands for any Chinese or Japanese character


def words_in(text: str) -> set[str]:
    """The words that `needs` is compared with: those of the text, and placeholders for digits and ideographs."""
    found = set(_WORD.findall(text.lower()))
    if _FIGURE.search(text):
        found.add(FIGURE)
        found.update(FIGURE + each for each in set(_BETWEEN.findall(text)))
        if _YEAR_SHAPE.search(text):
            found.add(YEAR)
    if not text.isascii() and UNSPACED_CHARACTER.search(text):
        found.add(IDEOGRAPH)
    return found


def _rule(reader: Reader, needs: frozenset[str], pattern: str, *also: frozenset[str]) -> DatePattern:
    return DatePattern(reader, (needs, *also), lazy_pattern(pattern, re.IGNORECASE))


_DIGIT = frozenset({FIGURE})
_CJK = frozenset({IDEOGRAPH})
_MONTHS = frozenset(MONTHS)
_WEEKDAYS = frozenset(WEEKDAYS)
_SEASONS = frozenset(SEASONS)
_DAYS = listed("today yesterday tomorrow heute gestern vorgestern übermorgen morgen aujourd hier demain")
_DAY_PARTS = listed("morning afternoon evening tonight night nacht nuit matin soir midi")
_UNITS = listed(
    "weekend week month year quarter woche wochenende monat jahr quartal semaine mois année an end trimestre"
)
_SPANS = listed("ago from hence in vor il dans")
_NOON = listed("noon midnight midday")
_WITH_YEAR = frozenset({YEAR})
_WITH_YEAR_TOLD = frozenset({YEAR, "year", "jahres", "jahr"})
_BEFORE_SPANS = listed("early mid late beginning start end anfang mitte ende début mi fin")
_BEFORE_MONTHS = listed("in im en of during back since until till by before after seit bis depuis au")
_BEFORE_YEARS = listed("in during im en back since until by before after seit bis depuis throughout")
_SHIFTS = listed("last previous this next") | frozenset(
    word + ending
    for word in listed("letzte vergangene vorige diese nächste kommende")
    for ending in ("", "s", "n", "m")
)
_SHIFTS_FR = listed("dernier dernière prochain prochaine passé passée")
_EN_SPANS = frozenset(
    word + ending for word in listed("second minute min hour day night week month year") for ending in ("", "s")
)
_DE_SPANS = listed("minute minuten stunde stunden tag tage tagen woche wochen monat monate monaten jahr jahre jahren")
_AGO = _CJK | listed("ago back now vor il")
_EVERY = listed("jede jeden jeder jedes jeweils chaque tous toutes") | _CJK
_EVERY_WHAT = _EVERY | frozenset(
    word + ending
    for word in _WEEKDAYS | listed("day week month year morning evening night weekend spring summer autumn winter")
    for ending in ("", "s")
)
_VAGUE = listed("few several some many couple paar einigen vielen quelques plusieurs week weeks") | _CJK
_AGAIN = _EVERY | listed("every each most le") | {f"{day}s" for day in WEEKDAYS}

_MON = r"(?P<mon>" + one_of(MONTHS) + r")(?![^\W_])\.?"
_REL = r"(?:of |des )?(?P<rel>last|this|next|letzten|letztes|dieses|nächsten|nächstes) (?:year|Jahres|Jahr)\b"
_REL_CJK = r"(?P<rel>去年|昨年|今年|明年|来年|前年|一昨年|后年|再来年)の?"
_HAN = r"十[一二]|[一二三四五六七八九十]"
_YEAR = r"(?P<y>(?:19|20)\d\d)(?!\d|[:/-]\d|\.\d)"
_PART = r"(?:(?:the )?(?P<part>" + one_of(PARTS_OF_SPAN) + r")[- ](?:the )?(?:of )?)?"
_DAY_NAMES = one_of(WEEKDAYS)
_FULL_DAYS = "|".join(name.capitalize() for name in WEEKDAY_NAMES["en"])
_FR_DAYS = "|".join(WEEKDAY_NAMES["fr"])
_EN_PART = r"(?P<part>morning|afternoon|evening|night|noon|lunchtime)"
_DE_PART = r"(?P<part>früh|morgen|vormittag|mittag|nachmittag|abend|nacht)"
_N = r"(?P<n>\d{1,3}|" + "|".join(word for word in COUNTS if word.isascii() or word == "fünf" or word == "zwölf") + ")"
_EN_SPAN = r"(?P<unit>second|minute|min|hour|day|night|week|month|year)s?"
_DE_SPAN = r"(?P<unit>Minuten?|Stunden?|Tag(?:en)?|Wochen?|Monat(?:en)?|Jahr(?:en)?)"
_FR_SPAN = r"(?P<unit>minutes?|heures?|jours?|semaines?|mois|ans?|années?)"
_CJK_SPAN = r"(?:个|個|か|ヶ|カ|ヵ|箇)?(?P<unit>分钟|分鐘|分|小时|小時|時間|天|日|周|週間|週|星期|礼拜|月|年)"
_CJK_N = r"(?P<n>\d{1,3}|十[一二]|[一二两兩三四五六七八九十])"
_OPEN = r"(?<![\w./:-])"  # no date begins inside a number, path or name
_SHUT = r"(?![\w/-])(?!\.\w)"

DATE_PATTERNS: tuple[DatePattern, ...] = (
    _rule(read_iso, _DIGIT, rf"{_OPEN}(?P<y>\d{{4}})([-/.])(?P<m>\d\d)\2(?P<d>\d\d)(?:(?:T|,? )(?P<H>\d\d):(?P<M>\d\d)"
          r"(?::(?P<S>\d\d)(?:[.,]\d+)?)?\s?(?P<z>Z\b|UTC\b|GMT\b|[+-]\d\d:?\d\d)?)?(?![\w/-])(?!\.\w)",
          frozenset({"0-", "0/", "0."})),
    _rule(read_slashed, _DIGIT, rf"{_OPEN}(?P<a>\d{{1,2}})[/](?P<b>\d{{1,2}})[/](?P<y>(?:19|20)\d\d){_SHUT}",
          frozenset({"0/"})),
    _rule(read_date, _DIGIT, rf"{_OPEN}(?P<d>\d{{1,2}})\.\s?(?P<m>\d{{1,2}})\.\s?{_YEAR}(?![\w/-])",
          frozenset({"0."}), _WITH_YEAR),
    _rule(read_date, _DIGIT, r"\b(?:am|vom|zum|bis|ab|seit|der|dem|den)\s+(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?:"
          r"(?P<y>\d\d)\b)?(?![\d])", frozenset({"0."}), listed("am vom zum bis ab seit der dem den")),
    _rule(read_date, _MONTHS, rf"{_OPEN}(?P<d>\d{{1,2}})(?:st|nd|rd|th|er|\.)?(?:\s*(?:-|–|to|and|bis|und|au|et)\s*"
          rf"(?P<d2>\d{{1,2}})(?:st|nd|rd|th|\.)?)?(?:\s+of)?[\s-]+{_MON}(?:[,\s-]+(?:de\s+)?(?:{_YEAR}|{_REL}))?",
          _DIGIT),
    _rule(read_date, _MONTHS, rf"(?<![\w.]){_MON}\s+(?:the\s+)?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?:\s*(?:-|–|to|and)\s*"
          rf"(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?)?(?![\d:%€]|[.,]\d|\s*(?:%|am|pm|km|kg|times|people|miles))(?:,?\s+"
          rf"(?:{_YEAR}|{_REL}))?", _DIGIT),
    _rule(read_month, _MONTHS, rf"(?<![\w]){_PART}{_MON}(?:\s+of)?,?\s+(?:{_YEAR}|{_REL})", _WITH_YEAR_TOLD),
    _rule(read_date, _CJK, rf"{_REL_CJK}(?P<m>\d{{1,2}}|{_HAN})月"
          r"(?P<d>\d{1,2}|[一二三四五六七八九十]{1,3})[日号號]"),
    _rule(read_month, _CJK, rf"{_REL_CJK}(?P<m>\d{{1,2}}|{_HAN})月(?![\d一二三四五六七八九十間间])"),
    _rule(read_month, _MONTHS, r"\b(?:in|im|en|of|during|back in|Since|since|until|till|by|before|after|seit|bis|depuis"
          rf"|au mois de)\s+(?:the )?(?:early |mid-?|late |Anfang |Ende )?{_MON}(?!\s*\d)", _BEFORE_MONTHS),
    _rule(read_month, _MONTHS, rf"\b(?P<shift>last|next|this|letzten|nächsten|diesen|vergangenen)\s+{_MON}(?!\s*\d)",
          listed("last next this letzten nächsten diesen vergangenen")),
    _rule(read_month, _MONTHS, r"(?<![\w])(?P<part>early|mid|late|beginning of|start of|end of|Anfang|Mitte|Ende|début"
          rf"|mi|fin)[- ]{_MON}(?!\s*\d)", _BEFORE_SPANS),
    _rule(read_date, _DIGIT, r"(?P<y>(?:19|20)\d\d)\s?年\s?(?P<m>\d{1,2})\s?月\s?(?P<d>\d{1,2})\s?[日号號]", _CJK),
    _rule(read_date, _DIGIT, r"(?<!\d)(?<!年)(?P<m>\d{1,2})月(?P<d>\d{1,2})[日号號]?(?:\s*(?:-|–|至|到|から|～|〜)\s*"
          r"(?P<d2>\d{1,2})[日号號])?", _CJK),
    _rule(read_date, _CJK, rf"(?<![\d年个個一二三四五六七八九十])(?P<m>{_HAN})月"
          rf"(?P<d>[一二三四五六七八九十]{{1,3}})[日号號]"),
    _rule(read_month, _CJK, rf"(?<![\d年个個一二三四五六七八九十])(?P<m>{_HAN})月"
          r"(?![一二三四五六七八九十间間前後后以曜]|之)"),
    _rule(read_month, _DIGIT, r"(?P<y>(?:19|20)\d\d)年(?P<m>\d{1,2})月(?!\d)", _CJK),
    _rule(read_year, _DIGIT, r"(?P<p>)(?<!\d)(?P<y>(?:19|20)\d\d)年(?!\d|代|间|間|度|前|后|後|第)", _CJK),
    _rule(read_year, _DIGIT, r"\b(?P<p>in|during|im Jahre?|en|back in|since|until|by|before|after|seit|bis|depuis"
          rf"|throughout|in the year)\s+{_PART}{_YEAR}(?!\s*(?:%|€|\$|km|kg|MB|GB))\b(?!['’]s)",
          _WITH_YEAR, _BEFORE_YEARS),
    _rule(read_year, _DIGIT, r"(?<![\w])(?P<part>early|mid|late|beginning of|start of|end of|Anfang|Mitte|Ende|début"
          rf"|fin)[- ](?P<p>){_YEAR}(?!['’]?s\b)", _WITH_YEAR, _BEFORE_SPANS),
    _rule(read_season, _SEASONS, rf"\b(?P<season>{one_of(SEASONS)})(?: of| de l['’]année)?,? (?P<y>(?:19|20)\d\d)(?:/"
          r"(?P<y2>\d\d))?\b(?P<shift>)", _WITH_YEAR),
    _rule(read_season, _SEASONS, r"\b(?P<shift>last|this|next|letzten|letztes|diesen|dieses|nächsten|nächstes"
          rf"|vergangenen|cet|ce) (?P<season>{one_of(SEASONS)})\b(?P<y>(?!x)x)?"),
    _rule(read_season, _SEASONS, r"\b(?:l['’]|le )?(?P<season>été|printemps|automne|hiver) (?P<shift>dernier|prochain"
          r"|passé)\b(?P<y>(?!x)x)?"),
    _rule(read_quarter, _DIGIT, rf"\b[QH](?P<q>[1-4])[\s/-]{{0,2}}(?:of |/)?{_YEAR}",
          frozenset({"q", "h"}), _WITH_YEAR),
    _rule(read_quarter, _DIGIT, r"\b(?:the )?(?P<word>first|second|third|fourth|1st|2nd|3rd|4th) quarter"
          rf"(?: of)?,? {_YEAR}", frozenset({"quarter"}), _WITH_YEAR),
    _rule(read_day_word, _DAYS, r"(?<![\w])(?:earlier |later )?(?P<word>the day before yesterday|the day after tomorrow"
          rf"|today|yesterday|tomorrow)\b(?: {_EN_PART})?"),
    _rule(read_day_word, _DAYS, r"(?<![\w])(?P<word>heute|gestern|vorgestern|übermorgen|morgen)\b(?! (?:früh)?stück)"
          rf"(?: {_DE_PART}\b)?"),
    _rule(read_day_word, _DAYS, r"(?<![\w-])(?P<word>aujourd['’]hui|avant-hier|hier|après-demain|demain)\b(?: "
          r"(?P<part>matin|midi|après-midi|soir))?"),
    _rule(read_day_word, _CJK, r"(?P<word>大前天|大后天|今天|昨天|明天|(?<!大)前天|(?<!大)后天|後天"
          r"|今早|今晚|昨晚|明晚|明早)"
          r"(?:(?P<part>早上|上午|中午|下午|晚上|早晨)(?!\d|[一二两三四五六七八九十]+[点點]))?(?!气象)"),
    _rule(read_day_word, _CJK, r"(?P<word>今日|(?<!一)昨日|明日|一昨日|おととい|明後日|あさって|きのう|きょう"
          r"|今朝|今晩|今夜|昨夜|昨晩|明晩|明朝)"
          r"(?:の?(?P<part>朝|午前|午後|夕方|夜|昼)(?!の?\d))?(?!新聞)"),
    _rule(read_this_part_named, _DAY_PARTS, r"\b(?:earlier )?this (?P<part>morning|afternoon|evening)\b|\btonight\b"
          r"|\blast night\b|\bletzte Nacht\b|\bla nuit dernière\b|\bce (?:matin|soir)\b|\bcet après-midi\b"),
    _rule(read_unit, _UNITS, r"(?<!the )(?<!over the )\b(?P<shift>last|previous|this|next|letzte[sn]?|vergangene[sn]?"
          r"|vorige[sn]?|diese[snm]?|nächste[sn]?|kommende[sn]?) (?P<unit>weekend|week|month|year|quarter|Woche"
          r"(?!nende)|Wochenende|Monat|Jahr|Quartal)\b(?!['’]s|-)", _SHIFTS),
    _rule(read_unit, _UNITS, r"\b(?:la |le |l['’]|cette |ce |cet )?(?P<unit>semaine|mois|année|an|week-end|trimestre) "
          r"(?P<shift>derni(?:er|ère)|prochaine?|passée?)\b", _SHIFTS_FR),
    _rule(read_unit_cjk, _CJK, rf"(?P<word>{one_of(UNITS_CJK)})(?![周週]?[一二三四五六日天](?!\w{{0,40}}月))"
          r"(?!の?[月火水木金土日]曜)"
          r"(?![间末比度同])"),
    _rule(read_weekend, _UNITS, r"\b(?:at|on|over|during) the weekend\b|\bam Wochenende\b|\bübers Wochenende\b|\b(?:le"
          r"|ce) week-end(?! (?:dernier|prochain|passé))\b", frozenset({"weekend", "wochenende", "week"})),
    _rule(read_weekend, _CJK, r"(?<![上下这本先今来])(?:周末|週末)"),
    _rule(read_ago, _SPANS, rf"\b(?:about |around |almost |nearly |exactly |some )?{_N} {_EN_SPAN} (?:ago|"
          r"(?P<ahead>from now|from today|hence))\b", frozenset({"ago", "hence", "now", "today"}), _EN_SPANS),
    _rule(read_ago, _SPANS, rf"\b(?P<doubt>in) (?:about |around |exactly )?{_N} {_EN_SPAN}\b(?! (?:ago|of|old)|['’])",
          _EN_SPANS),
    _rule(read_ago, _SPANS, rf"\bvor (?:etwa |ungefähr |rund )?{_N} {_DE_SPAN}\b", _DE_SPANS),
    _rule(read_ago, _SPANS, rf"\b(?P<doubt>in) (?:etwa )?{_N} (?P<unit>Minuten|Stunden?|Tagen?|Wochen?|Monaten?"
          r"|Jahren?)\b", _DE_SPANS),
    _rule(read_ago, _SPANS, rf"\bil y a (?:environ )?{_N} {_FR_SPAN}\b", frozenset({"il"})),
    _rule(read_ago, _SPANS, rf"\b(?P<doubt>dans) (?:environ )?{_N} {_FR_SPAN}\b", frozenset({"dans"})),
    _rule(read_ago, _CJK, rf"{_CJK_N}\s?{_CJK_SPAN}(?:以|之)?(?:前|(?P<ahead>[后後]))(?!半)"),
    _rule(read_vague, _VAGUE, r"\b(?:a few|several|some|many|a couple of|couple of|ein paar|einigen?|quelques) "
          r"(?:\w+ )?\w+ (?:ago|back|from now)\b|\bvor (?:ein paar|einigen|vielen) \w+|\bil y a (?:quelques"
          r"|plusieurs) \w+|几天前|前几天|数日前|几个月前|先日", _AGO),
    _rule(read_vague, _VAGUE, rf"\b(?:a|one|two|\d+) weeks? (?:from|after|before|on) (?:today|tomorrow|{_FULL_DAYS})\b",
          frozenset({"week", "weeks"})),
    _rule(read_again, _AGAIN,
          rf"\b(?:every|each|most)(?: other| single)? (?:{_DAY_NAMES}|day|week|month|year|morning|evening|night"
          rf"|weekend|spring|summer|autumn|winter)s?\b|\b(?:on )?(?:{_FULL_DAYS})s\b|\b(?:jede[nrs]?|jeweils) \w+|\b"
          r"(?:mon|diens|donners|frei|sams|sonn)tags\b|\bmittwochs\b|\b(?:chaque|tous les|toutes les) \w+|\ble "
          rf"(?:{_FR_DAYS})\b(?! (?:\d|dernier|prochain|passé))|每(?:个|個)?"
          r"(?:周|週|星期)?[一二三四五六日天]?|毎(?:週|日|月|年|朝|晩)(?:の?[月火水木金土日]曜日?)?", _EVERY_WHAT),
    _rule(read_weekday, _WEEKDAYS, r"\b(?P<shift>(?:this )?(?:past|coming)|last|next|this)(?: week)? "
          rf"(?P<day>{_DAY_NAMES})\b(?: {_EN_PART})?"),
    _rule(read_weekday, _WEEKDAYS, rf"\b(?:on )?(?P<day>{_FULL_DAYS})(?: of)? (?P<week>last|next|this) week\b"),
    _rule(read_weekday, _WEEKDAYS, rf"\b(?P<p>on|for) (?P<day>{_DAY_NAMES})\b(?: {_EN_PART})?(?!['’]s)"),
    _rule(read_weekday, _WEEKDAYS, r"(?<!every )(?<!each )(?<!black )(?<!good )(?<!a )(?<!the )(?<!casual )\b(?P<day>"
          rf"(?-i:{_FULL_DAYS}))\b(?: {_EN_PART})?(?=\s*(?:[.,;:!?)–-]|$|at\b|and\b|\d|I\b|we\b|to\b))"),
    _rule(read_weekday, _WEEKDAYS, r"\b(?P<shift>letzten|vergangenen|vorigen|nächsten|kommenden|diesen) "
          rf"(?P<day>{_DAY_NAMES})\b(?:\s?{_DE_PART}\b)?"),
    _rule(read_weekday, _WEEKDAYS, rf"\b(?P<p>am) (?P<day>{_DAY_NAMES})(?:\s?{_DE_PART}\b)?(?P<shift>)\b"),
    _rule(read_weekday, _WEEKDAYS, rf"\b(?P<day>{_FR_DAYS})(?: (?P<part>matin"
          r"|soir|après-midi))?(?: (?P<shift>dernier|prochain|passé))?\b"),
    _rule(read_weekday_cjk, _CJK, r"(?<!每)(?<!每个)(?P<week>上上|上|下下|下|这|這|本)?(?:个|個)?"
          r"(?:周|週|星期|礼拜|禮拜)(?P<day>[一二三四五六日天])"
          r"(?!月)"),
    _rule(read_weekday_cjk, _CJK, r"(?<!毎)(?<!毎週)(?:(?P<week>先々|先|今|来|再来)週の?)?"
          r"(?P<day>[月火水木金土日])曜日?"),
    _rule(read_clock, _DIGIT, r"\b(?:at |@ ?)?(?P<h>\d{1,2})(?:[:.](?P<min>\d\d))?\s?(?P<half_day>a\.?m\.?|p\.?m\.?)"
          r"(?!\w)", frozenset({"am", "pm", "a", "p"})),
    _rule(read_clock, _DIGIT, r"\b(?P<sure>)(?:at |um |gegen |à |@ ?)?(?P<h>[01]?\d|2[0-3]):(?P<min>[0-5]\d)"
          r"(?::[0-5]\d)?(?!\d|:)(?: Uhr| h\b)?", frozenset({"0:"})),
    _rule(read_clock, _DIGIT, r"\bat (?P<h>\d{1,2})\b(?! ?(?:%|st|nd|rd|th|km|degrees))(?: o['’]clock)?",
          frozenset({"at"})),
    _rule(read_clock, _DIGIT, r"\b(?:um |gegen )?(?P<h>\d{1,2})(?:[:.](?P<min>\d\d))? (?P<sure>Uhr)\b",
          frozenset({"uhr"})),
    _rule(read_clock, _DIGIT, r"\b(?:à|vers) (?P<h>\d{1,2}) ?(?P<sure>h(?:eures?)?) ?(?P<min>\d\d)?\b",
          frozenset({"à", "vers"})),
    _rule(read_clock, _NOON, r"\b(?:at )?(?P<noon>noon|midnight|midday)\b"),
    _rule(read_clock, _CJK, r"(?P<half_day>凌晨|早上|上午|中午|下午|晚上|傍晚|午前|午後|朝|夜)?の?"
          r"(?P<h>\d{1,2}|十[一二]|[一二两兩三四五六七八九十])"
          r"(?P<sure>[点點时時])(?!間|间)(?:(?P<min>\d{1,2})分|(?P<half>半))?[鐘钟]?"),
)  # fmt: skip
_PLACES: dict[str, list[int]] = {}  # the rules that need a word first, by their places
for _place, _rule_there in enumerate(DATE_PATTERNS):
    for _need in _rule_there.needs[0]:
        _PLACES.setdefault(_need, []).append(_place)


def patterns_for(text: str) -> list[DatePattern]:
    """The rules that may fit a text, in their order."""
    present = words_in(text)
    places = {place for word in _PLACES.keys() & present for place in _PLACES[word]}
    rules = [DATE_PATTERNS[place] for place in sorted(places)]
    return [rule for rule in rules if not any(need.isdisjoint(present) for need in rule.needs[1:])]
