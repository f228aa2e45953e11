"""Patterns of time expressions, and the reader of each. SPEC 2.5, 5.4

A pattern is tried only on a text that has the words it needs, so that a text without dates costs next to nothing, and
one with numbers little more.
"""

import re
from typing import NamedTuple

from mnemo_core.text.dates.date_readers import (
    Reader,
    read_clock,
    read_date,
    read_day_of_month,
    read_day_of_unit,
    read_figures,
    read_holiday,
    read_iso,
    read_month,
    read_quarter,
    read_season,
    read_since_month,
    read_slashed,
    read_week_number,
    read_year,
)
from mnemo_core.text.dates.date_words import (
    COUNTS,
    DAYS_OF_MONTH,
    DAYS_OF_SPAN,
    HALVES,
    HOLIDAYS,
    MONTH_NAMES,
    MONTH_NUMBERS,
    MONTHS,
    ORDINALS,
    PARTS_OF_SPAN,
    SEASONS,
    UNITS_CJK,
    WEEKDAY_NAMES,
    WEEKDAY_NUMBERS,
    WEEKDAYS,
    one_of,
)
from mnemo_core.text.dates.relative_readers import (
    read_again,
    read_ago,
    read_day_word,
    read_last_spans,
    read_next_spans,
    read_nth_weekday,
    read_same_time,
    read_this_part_named,
    read_unit,
    read_unit_cjk,
    read_vague,
    read_weekday,
    read_weekday_back,
    read_weekday_cjk,
    read_weekend,
)
from mnemo_core.text.languages import UNSPACED_CHARACTER
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed


class DatePattern(NamedTuple):
    """A pattern, its reader, and sets of words: of each a text that it fits has one. Some are for questions alone:
    what a question names without a preposition or a verb is in a text only a word."""

    read: Reader
    needs: tuple[frozenset[str], ...]
    pattern: re.Pattern[str]
    is_asked: bool = False


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


def _asked(reader: Reader, needs: frozenset[str], pattern: str, *also: frozenset[str]) -> DatePattern:
    return _rule(reader, needs, pattern, *also)._replace(is_asked=True)


_DIGIT = frozenset({FIGURE})
_CJK = frozenset({IDEOGRAPH})
_MONTHS = frozenset(MONTHS)
_WEEKDAYS = frozenset(WEEKDAYS) | {"weekend", "wochenende"}
_WEEKDAYS |= {
    day + part for day in WEEKDAY_NAMES["de"] for part in listed("früh morgen vormittag mittag nachmittag abend nacht")
}
_DAYS_OF_MONTH = frozenset(part for word in DAYS_OF_MONTH for part in word.split("-"))
_PLURAL_DAYS = frozenset(f"{day}s" for day in WEEKDAY_NAMES["en"])
_SEASONS = frozenset(SEASONS)
_HALF_MONTHS_DE = frozenset(f"{month}hälfte" for month in MONTH_NAMES["de"])
_MONTHS_ES = frozenset(MONTH_NUMBERS) - _MONTHS | {"abril", "octubre"}
_WEEKDAYS_ES = frozenset(WEEKDAY_NUMBERS) - _WEEKDAYS
_HOLIDAYS = frozenset(max(re.findall(r"[^\W\d_]+", name), key=len) for name in HOLIDAYS)
_DAYS = listed("today yesterday tomorrow heute gestern vorgestern vorvorgestern übermorgen morgen aujourd hier demain")
_DAY_PARTS = listed("morning afternoon evening tonight night nacht nuit matin soir midi esta")
_UNITS = listed(
    "weekend week month year quarter woche wochenende monat jahr quartal semaine mois année an end trimestre"
)
_SPANS = listed("ago from hence in vor il dans")
_LAST = listed("last past previous letzten vergangenen derniers dernières últimos últimas")
_NEXT = listed("next coming upcoming nächsten kommenden")
_TIMES = listed("time zeit époque période fechas")
_DAYS_ES_WORDS = listed("ayer anteayer antier anoche hoy mañana")
_NOON = listed("noon midnight midday")
_WITH_YEAR = frozenset({YEAR})
_WITH_YEAR_TOLD = frozenset({YEAR, "year", "jahres", "jahr"})
_BEFORE_SPANS = listed("early mid late beginning start middle end anfang mitte ende début mi fin")
_STRETCHES = frozenset(name.rpartition(" ")[2] for name in (*DAYS_OF_SPAN, *HALVES)) | {"weeks", "wochen"}
_UNITS_SAID = listed("week month year quarter woche monats jahres quartals")
_BEFORE_MONTHS = listed("in im en of during back since until till by before after seit bis depuis au")
_BEFORE_YEARS = listed("in during im en back since until by before after seit bis depuis throughout")
_SHIFTS = listed("last previous this next") | frozenset(
    word + ending
    for word in listed("letzte vergangene vorige vorletzte diese nächste übernächste kommende")
    for ending in ("", "s", "n", "m")
)
_PARTS_OF_UNITS_DE = frozenset(unit + part for unit in ("jahres", "monats") for part in ("anfang", "mitte", "ende"))
_UNITS_ES = listed("semana mes año trimestre finde")
_SHIFTS_ES = listed("pasado pasada antepasado antepasada próximo próxima este esta")
_SHIFTS_FR = listed("dernier dernière prochain prochaine passé passée")
_EN_SPANS = frozenset(
    word + ending
    for word in listed("second minute min hour day night week fortnight month year")
    for ending in ("", "s")
)
_DE_SPANS = listed("minute minuten stunde stunden tag tage tagen woche wochen monat monate monaten jahr jahre jahren")
_AGO = _CJK | listed("ago back now vor il")
_EVERY = listed("jede jeden jeder jedes jeweils chaque tous toutes los") | _CJK
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
_STRETCH = "|".join(
    [r"(?:first|last|ersten|letzten) \w{1,8} (?:days|weeks|Tagen?|Wochen)"]
    + [word for word in (*DAYS_OF_SPAN, *HALVES) if word[0] < "\u0250"]
)
_DAY_NAMES = one_of(WEEKDAYS)
_ALL_DAYS = "|".join(name for names in WEEKDAY_NAMES.values() for name in names)
_MON_ES = r"(?P<mon>" + one_of(set(MONTH_NUMBERS) - set(MONTHS) | {"abril", "octubre", "agosto"}) + r")(?![^\W_])"
_DAYS_ES = one_of(set(WEEKDAY_NUMBERS) - set(WEEKDAYS))
_HOLIDAY = rf"(?P<holiday>{one_of(name.replace(chr(39), chr(39)) for name in HOLIDAYS if name[0] < chr(0x250))})"
_HOLIDAYS_OF_A_DAY = [
    name
    for name in HOLIDAYS
    if re.search(
        r"(?:tage?n?|mittwoch|advent|abend|eve|day|himmelfahrt|leichnam)\Z"
        r"|\w de \w",
        name,
    )
]
_FULL_DAYS = "|".join(name.capitalize() for name in WEEKDAY_NAMES["en"])
_FR_DAYS = "|".join(WEEKDAY_NAMES["fr"])
_EN_PART = r"(?P<part>morning|afternoon|evening|night|noon|lunchtime)"
_DE_PART = r"(?P<part>früh|morgen|vormittag|mittag|nachmittag|abend|nacht)"
_DAY_PARTS_SAID = (
    r"morning|afternoon|evening|night|noon|lunchtime|früh|morgen|vormittag|mittag|nachmittag|abend|nacht|matin|soir"
)
_COUNT = "|".join([r"\d{1,3}", *(word for word in COUNTS if word.isascii() or word in ("fünf", "zwölf"))])
_N = rf"(?P<n>{_COUNT})"
_EN_SPAN = r"(?P<unit>second|minute|min|hour|day|night|week|fortnight|month|year)s?"
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
          rf"(?:(?:the|zum|dem|den|le) )?(?P<d2>\d{{1,2}})(?:st|nd|rd|th|\.)?)?(?:\s+of)?[\s-]+{_MON}"
          rf"(?:[,\s-]+(?:de\s+)?(?:{_YEAR}|{_REL}))?", _DIGIT),
    _rule(read_date, _MONTHS, rf"(?<![\w.]){_MON}\s+(?:the\s+)?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?:\s*(?:-|–|to|and)\s*"
          rf"(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?)?(?![\d:%€]|[.,]\d|\s*(?:%|am|pm|km|kg|times|people|miles))(?:,?\s+"
          rf"(?:{_YEAR}|{_REL}))?", _DIGIT),
    _rule(read_date, _DAYS_OF_MONTH, rf"\b(?P<nth>{one_of(DAYS_OF_MONTH)})(?: of)? {_MON}"
          rf"(?:,? (?:{_YEAR}|{_REL}))?", _MONTHS),
    _rule(read_month, _MONTHS, rf"(?<![\w]){_PART}{_MON}(?:\s+of)?,?\s+(?:{_YEAR}|{_REL})", _WITH_YEAR_TOLD),
    _rule(read_date, _CJK, rf"{_REL_CJK}(?P<m>\d{{1,2}}|{_HAN})月"
          r"(?P<d>\d{1,2}|[一二三四五六七八九十]{1,3})[日号號]"),
    _rule(read_month, _CJK, rf"{_REL_CJK}(?P<m>\d{{1,2}}|{_HAN})月(?![\d一二三四五六七八九十間间])"),
    _rule(read_month, _MONTHS, r"\b(?:in|im|en|of|during|back in|Since|since|until|till|by|before|after|seit|bis|depuis"
          rf"|au mois de)\s+(?:the )?(?:(?P<part>early |mid[- ]?|late |Anfang |Mitte |Ende ))?{_MON}(?!\s*\d)",
          _BEFORE_MONTHS),
    _rule(read_since_month, _MONTHS, rf"\bfrom {_MON} on(?:wards?)?\b", listed("from")),
    _rule(read_since_month, _MONTHS, rf"\bab {_MON}(?!\s*\d)", listed("ab")),
    _rule(read_month, _MONTHS, rf"(?<![\w])(?:the )?(?P<part>{_STRETCH}) (?:of |in |im |des |von |de |d['’])?(?:the )?"
          rf"(?:Monats )?{_MON}(?:,?\s+(?:{_YEAR}|{_REL}))?(?!\s*\d)", _STRETCHES),
    _rule(read_unit, _STRETCHES, rf"(?<![\w])(?:the )?(?P<part>{_STRETCH}) (?:of |des |im )?(?P<shift>the|last|this"
          r"|next|des|letzten|dieses|nächsten|vergangenen) (?P<unit>month|year|quarter|Monats|Jahres|Quartals)\b"),
    _rule(read_month, _MONTHS, rf"\b(?P<shift>last|next|this|letzten|nächsten|diesen|vergangenen)\s+{_MON}(?!\s*\d)",
          listed("last next this letzten nächsten diesen vergangenen")),
    _rule(read_month, _HALF_MONTHS_DE, r"\b(?P<half>ersten?|zweiten?) (?P<mon>" + one_of(MONTH_NAMES["de"])
          + r")hälfte\b"),
    _rule(read_month, _MONTHS, r"(?<![\w])(?P<part>early|mid|late|(?:beginning|start|middle|end) of|Anfang|Mitte|Ende"
          rf"|début|mi|fin)[- ]{_MON}(?!\s*\d)", _BEFORE_SPANS),
    _rule(read_unit, _BEFORE_SPANS, r"(?<![\w])(?:the )?(?P<part>early|mid|late|(?:beginning|start|middle|end) of"
          r"|Anfang|Mitte|Ende) (?P<shift>the|last|this|next|der|des|letzte[rn]|diese[rs]|nächste[rn]|vergangene[rn])"
          r" (?P<unit>week|month|year|quarter|Woche|Monats|Jahres|Quartals)\b", _UNITS_SAID),
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
    _rule(read_season, _SEASONS, r"\b(?P<shift>last|this|next|letzten|letztes|diese[nms]|nächsten|nächstes"
          rf"|vergangenen|cet|ce) (?P<season>{one_of(SEASONS)})\b(?P<y>(?!x)x)?"),
    _rule(read_season, _SEASONS, r"\b(?:l['’]|le )?(?P<season>été|printemps|automne|hiver) (?P<shift>dernier|prochain"
          r"|passé)\b(?P<y>(?!x)x)?"),
    _rule(read_quarter, _DIGIT, rf"\b[QH](?P<q>[1-4])[\s/-]{{0,2}}(?:of |/)?{_YEAR}",
          frozenset({"q", "h"}), _WITH_YEAR),
    _rule(read_quarter, _DIGIT, r"\b(?:the )?(?P<word>first|second|third|fourth|1st|2nd|3rd|4th) quarter"
          rf"(?: of)?,? {_YEAR}", frozenset({"quarter"}), _WITH_YEAR),
    _rule(read_day_word, _DAYS, r"(?<![\w])(?:earlier |later )?(?P<word>the day before yesterday|the day after tomorrow"
          rf"|today|yesterday|tomorrow)\b(?: {_EN_PART})?"),
    _rule(read_day_word, _DAYS, r"(?<![\w])(?P<word>heute|gestern|(?:vor)?vorgestern|übermorgen"
          r"|morgen)\b(?! (?:früh)?stück)"
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
          r"|\besta (?:mañana|tarde|noche)\b|\blast night\b|\bletzte Nacht\b|\bla nuit dernière\b"
          r"|\bce (?:matin|soir)\b|\bcet après-midi\b"),
    _rule(read_unit, _UNITS, r"(?<!the )(?<!over the )\b(?P<shift>last|previous|this|next|letzte[sn]?|vergangene[sn]?"
          r"|vorige[sn]?|vorletzte[sn]?|übernächste[sn]?|diese[snm]?|nächste[sn]?|kommende[sn]?) (?P<unit>weekend|week"
          r"|month|year|quarter|Woche(?!nende)|Wochenende|Monat|Jahr|Quartal)\b(?!['’]s|-)", _SHIFTS),
    _rule(read_unit, _UNITS, r"\b(?:la |le |l['’]|cette |ce |cet )?(?P<unit>semaine|mois|année|an|week-end|trimestre) "
          r"(?P<shift>derni(?:er|ère)|prochaine?|passée?)\b", _SHIFTS_FR),
    _rule(read_unit, _UNITS, r"\b(?:the )?(?P<unit>week|weekend|month|year) (?P<shift>before last|after next)\b",
          listed("before after")),
    _rule(read_unit, _UNITS, r"\b(?:the |this )(?P<shift>past) (?P<unit>weekend)\b", frozenset({"past"})),
    _rule(read_unit, _UNITS_ES, r"\b(?:la |el )?(?P<unit>semana|mes|año|fin de semana|finde"
          r"|trimestre) (?P<shift>pasad[oa]"
          r"|antepasad[oa]|próxim[oa])\b", _SHIFTS_ES),
    _rule(read_unit, _UNITS_ES, r"\b(?P<shift>este|esta|próximo|próxima) (?P<unit>semana|mes|año|fin de semana"
          r"|trimestre)\b", _SHIFTS_ES),
    _rule(read_unit, _UNITS_ES, r"\b(?:la |el )?(?P<unit>semana|mes|año|fin de semana) (?P<shift>que viene)\b",
          frozenset({"viene"})),
    _rule(read_unit, _UNITS, r"\b(?P<shift>ce|cet|cette) (?P<unit>mois|semaine|année|trimestre)(?:-ci)?\b"
          r"(?! (?:derni|prochain|passé))", listed("ce cet cette")),
    _rule(read_unit, _PARTS_OF_UNITS_DE, r"\b(?P<unit>Jahr|Monat)e?s(?P<part>anfang|mitte|ende)\b"),
    _rule(read_unit_cjk, _CJK, rf"(?P<word>{one_of(UNITS_CJK)})(?![周週]?[一二三四五六日天](?!\w{{0,40}}月))"
          r"(?!の?[月火水木金土日]曜)"
          r"(?![间末比度同])"),
    _rule(read_weekend, _UNITS, r"\b(?:at|on|over|during|for) the weekend\b|\bmy weekend\b|\bam Wochenende\b"
          r"|\bübers Wochenende\b|\b(?:le"
          r"|ce) week-end(?! (?:dernier|prochain|passé))\b", frozenset({"weekend", "wochenende", "week"})),
    _rule(read_weekend, _UNITS_ES, r"\b(?:el|este) fin de semana\b(?! (?:pasado|que viene|próximo))",
          frozenset({"fin"})),
    _rule(read_weekend, _CJK, r"(?<![上下这本先今来])(?:周末|週末)"),
    _rule(read_ago, _SPANS, rf"\b(?:about |around |almost |nearly |exactly |some )?{_N} {_EN_SPAN} (?:ago|"
          r"(?P<ahead>from now|from today|hence))(?: (?P<today>today|yesterday))?\b",
          frozenset({"ago", "hence", "now", "today"}), _EN_SPANS),
    _rule(read_ago, _SPANS, rf"\b(?P<doubt>in) (?:about |around |exactly )?{_N} {_EN_SPAN}\b(?! (?:ago|of|old)"
          rf"|['’](?! time))",
          _EN_SPANS),
    _rule(read_ago, _SPANS, rf"\b(?:(?P<today>heute|gestern) (?:genau )?)?vor (?:etwa |ungefähr |rund )?"
          rf"{_N} {_DE_SPAN}\b",
          _DE_SPANS),
    _rule(read_ago, _SPANS, rf"\b(?P<doubt>in) (?:etwa )?{_N} (?P<unit>Minuten|Stunden?|Tagen?|Wochen?|Monaten?"
          r"|Jahren?)\b", _DE_SPANS),
    _rule(read_ago, _SPANS, rf"\bil y a (?:environ )?{_N} {_FR_SPAN}\b", frozenset({"il"})),
    _rule(read_ago, _SPANS, rf"\b(?P<doubt>dans) (?:environ )?{_N} {_FR_SPAN}\b", frozenset({"dans"})),
    _rule(read_ago, _CJK, rf"{_CJK_N}\s?{_CJK_SPAN}(?:以|之)?(?:前|(?P<ahead>[后後]))(?!半)"
          r"(?:的(?P<today>今天))?"),
    _rule(read_vague, _VAGUE, r"\b(?:a few|several|some|many|a couple of|couple of|ein paar|einigen?|quelques) "
          r"(?:\w+ )?\w+ (?:ago|back|from now)\b|\bvor (?:ein paar|einigen|vielen) \w+|\bil y a (?:quelques"
          r"|plusieurs) \w+|几天前|前几天|数日前|几个月前|先日", _AGO),
    _rule(read_vague, _VAGUE, rf"\b(?:a|one|two|\d+) weeks? (?:from|after|before|on) (?:today|tomorrow|{_FULL_DAYS})\b",
          frozenset({"week", "weeks"})),
    _rule(read_again, _AGAIN,
          rf"\b(?:every|each|most)(?: other| single)? (?:{_DAY_NAMES}|day|week|month|year|morning|evening|night"
          rf"|weekend|spring|summer|autumn|winter)s?\b|\b(?:on )?(?:{_FULL_DAYS})s\b|\b(?:jede[nrs]?|jeweils) \w+|\b"
          r"(?:mon|diens|donners|frei|sams|sonn)tags\b|\b(?:todos )?los (?:lunes|martes|miércoles|jueves|viernes"
          r"|sábados|domingos)\b(?! (?:\d|pasad))|\bmittwochs\b|\b(?:chaque|tous les|toutes les) \w+|\ble "
          rf"(?:{_FR_DAYS})\b(?! (?:\d|dernier|prochain|passé))|每(?:个|個)?"
          r"(?:周|週|星期)?[一二三四五六日天]?|毎(?:週|日|月|年|朝|晩)(?:の?[月火水木金土日]曜日?)?", _EVERY_WHAT),
    _rule(read_weekday, _WEEKDAYS, r"\b(?P<shift>(?:this )?(?:past|coming)|last|next|this)(?: week)? "
          rf"(?P<day>{_DAY_NAMES})\b(?: {_EN_PART})?"),
    _rule(read_weekday, _WEEKDAYS, rf"\b(?:on )?(?P<day>{_FULL_DAYS})(?: of)? (?P<week>last|next|this) week\b"),
    _rule(read_weekday, _WEEKDAYS, rf"\b(?P<week>last|this|next|letzte|diese|nächste|vorletzte) (?:week|Woche),? "
          rf"(?:on |am )?(?P<day>{_ALL_DAYS})\b", listed("week woche")),
    _rule(read_weekday, _WEEKDAYS, rf"\b(?:am )?(?P<day>{_ALL_DAYS}) (?P<week>letzter|dieser|nächster|vorletzter"
          r"|vergangener|voriger) Woche\b", frozenset({"woche"})),
    _rule(read_weekday, _WEEKDAYS, rf"\b(?P<p>on|for|auf) (?P<day>{_DAY_NAMES})\b(?: {_EN_PART})?(?!['’]s)"),
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
    _rule(read_weekday_back, _WEEKDAYS, rf"\b(?:the )?(?P<day>{_FULL_DAYS}) before last\b", frozenset({"before"})),
    _rule(read_weekday_back, _WEEKDAYS, rf"\b(?:am )?vorletzte[nr] (?P<day>{_ALL_DAYS})\b",
          listed("vorletzten vorletzter")),
    _rule(read_weekday_back, _PLURAL_DAYS, rf"\b(?P<n>{_COUNT}) (?P<day>{_FULL_DAYS})s ago\b", frozenset({"ago"})),
    _rule(read_last_spans, _LAST, r"\b(?:(?:in|over|within|during|for|from|of) )?(?:the |these |my )?"
          rf"(?:last|past|previous) (?P<n>{_COUNT}|few|couple of) {_EN_SPAN}\b(?! of\b)", _EN_SPANS),
    _rule(read_last_spans, _LAST, rf"(?<![\w-])(?:(?:in|over|within|during) )?(?:the last|(?:the )?past) {_EN_SPAN}\b"
          r"(?! of\b)", _EN_SPANS),
    _rule(read_last_spans, _LAST, r"\b(?:(?:in|innerhalb|während) )?(?:der|die|den) (?:letzten|vergangenen) "
          rf"(?P<n>{_COUNT}|paar) (?P<unit>Minuten|Stunden|Tagen?|Wochen|Monaten?|Jahren?)\b", _DE_SPANS),
    _rule(read_last_spans, _LAST, rf"\b(?:ces|les|des) (?P<n>{_COUNT}|quelques) (?:derniers|dernières) {_FR_SPAN}\b"),
    _rule(read_last_spans, _LAST, rf"\b(?:los|las|est[oa]s) (?:últim[oa]s) (?P<n>{_COUNT}) (?P<unit>días|semanas|meses"
          r"|años|horas)\b"),
    _rule(read_last_spans, _CJK, r"(?:最近|过去|過去|近)的?(?P<n>\d{1,3}|十[一二]|[一二两兩三四五六七八九十几幾])"
          rf"{_CJK_SPAN}"),
    _asked(read_next_spans, _NEXT, r"\b(?:(?:in|over|within|during|for) )?(?:the |these )?(?:next|coming|upcoming) "
           rf"(?:(?P<n>{_COUNT}|few|couple of) )?(?P<unit>days|weeks|months)\b"),
    _asked(read_next_spans, _NEXT, r"\b(?:(?:in|innerhalb|während) )?(?:der|die|den) (?:nächsten|kommenden) "
           rf"(?:(?P<n>{_COUNT}|paar) )?(?P<unit>Tagen?|Wochen|Monaten?)\b"),
    _rule(read_same_time, _TIMES, r"\b(?:around |about |at )?(?:this|the same) time (?:last|a|one) (?P<unit>year|month"
          r"|week)(?: ago)?\b|\b(?:letztes|voriges|vergangenes) Jahr um diese Zeit\b"
          r"|\bum diese Zeit (?:letztes|voriges) Jahr\b"
          r"|\bl['’]an(?:née)? derni(?:er|ère) à (?:la même (?:époque|période)|cette époque)\b"
          r"|\bel año pasado por estas fechas\b"),
    _rule(read_same_time, _CJK, r"去年的?(?:这个|這個|这|這)(?:时候|時候|时间)|去年同期|去年今日"),
    _rule(read_holiday, _HOLIDAYS, r"\b(?:at|over|on|during|around|since|before|after|by|until|till|of|from|an|am|zu"
          r"|über|um|seit|vor|nach|bis|à|pour|depuis|avant|après|en|por|durante|desde|hasta"
          r"|(?:the |this )?(?P<shift>last|this|next|letzte[nrs]?|vorige[ns]?|diese[ns]?|nächste[ns]?))"
          r" (?:the |dem |la |le |el )?"
          rf"{_HOLIDAY}(?![^\W_])(?! (?:of|in) \w+land)(?:,? {_YEAR})?"),
    _rule(read_holiday, _CJK, rf"(?P<holiday>{one_of(name for name in HOLIDAYS if name[0] > chr(0x2fff))})"
          r"(?![礼禮树樹卡])"),
    _rule(read_day_of_month, _DIGIT, r"\b(?:on|since|before|after|by|until|till|of|from|and|between|to) the"
          r" (?P<d>\d{1,2})(?:st|nd|rd|th)(?: (?:and|to|-|–) (?:the )?(?P<d2>\d{1,2})(?:st|nd|rd|th))?\b"
          r"(?! (?:of )?[^\W\d_]*(?:floor|centur|place|time|street|avenue|birthday|anniversary|grade|edition|attempt"
          r"|day|week|month|year|page))"
          rf"(?!,? (?:of )?(?:{one_of(MONTHS)})\b)",
          listed("st nd rd th"), frozenset({"the"})),
    _rule(read_day_of_month, _DIGIT, r"\b(?:am|zum|vom|seit dem|vor dem|nach dem|bis zum|zwischen dem) (?P<d>\d{1,2})\."
          r"(?: (?:bis|und) (?:zum |dem |den )?(?P<d2>\d{1,2})\.)?(?=\s*(?:$|[?!,;:.]|[a-zäöü]))"
          rf"(?!\s*(?:\d|(?:bis|und) (?:zum |dem |den )?\d)|\s*(?:{one_of(MONTHS)})\b)",
          listed("am zum vom dem")),
    _rule(read_date, _MONTHS_ES, rf"{_OPEN}(?P<d>\d{{1,2}})(?:\s*(?:al|a|y|-|–)\s*(?:el )?(?P<d2>\d{{1,2}}))? de "
          rf"{_MON_ES}(?: del? {_YEAR})?", _DIGIT),
    _rule(read_month, _MONTHS_ES, rf"\b(?:en|de|desde|hasta|antes de|después de|durante)(?: (?P<part>principios de"
          rf"|comienzos de|mediados de|finales de|fines de))? {_MON_ES}(?: del? {_YEAR})?"),
    _rule(read_month, _MONTHS_ES, rf"\b(?:(?:en|de|desde) )?(?:la |el )?(?P<part>{_STRETCH}) (?:de |del )?"
          rf"(?:mes de )?{_MON_ES}"
          rf"(?: del? {_YEAR})?", _STRETCHES),
    _rule(read_month, _MONTHS_ES, rf"\b(?:a )?(?P<part>principios de|comienzos de|mediados de|finales de|fines de)"
          rf" {_MON_ES}(?: del? {_YEAR})?"),
    _rule(read_day_word, _DAYS_ES_WORDS, r"\b(?P<word>antes de ayer|anteayer|antier|ayer|anoche|hoy|pasado mañana"
          r"|(?<!la )(?<!esta )mañana)\b"
          r"(?: por la (?P<part>mañana|tarde|noche)\b)?"),
    _rule(read_ago, frozenset({"hace"}), rf"\b(?:(?P<today>hoy|ayer) )?hace (?:unos |unas |justo |exactamente )?"
          rf"{_N} (?P<unit>horas?|días?|semanas?|mes(?:es)?"
          r"|años?)\b"),
    _rule(read_weekday, _WEEKDAYS_ES, rf"\b(?:el )?(?P<shift>pasado|próximo|este) (?P<day>{_DAYS_ES})\b"),
    _rule(read_weekday, _WEEKDAYS_ES, rf"\b(?:el )?(?P<day>{_DAYS_ES}) de (?P<week>esta|próxima) semana\b",
          frozenset({"semana"})),
    _rule(read_weekday, _WEEKDAYS_ES, rf"\b(?:el )?(?P<day>{_DAYS_ES}) de la semana (?P<week>pasada|próxima"
          r"|que viene)\b", frozenset({"semana"})),
    _rule(read_weekday, _WEEKDAYS, rf"\b(?P<day>{_FR_DAYS}) de (?:la |cette )semaine (?P<week>dernière|passée"
          r"|prochaine)\b", frozenset({"semaine"})),
    _rule(read_weekday, _WEEKDAYS_ES, rf"\bel (?P<day>{_DAYS_ES})(?: (?P<shift>pasado|próximo))?\b"),
    _rule(read_day_of_unit, _DAYS_OF_MONTH | _DIGIT, r"\b(?:(?:on|of|since|by|for) the |am |vom |zum )(?:"
          rf"(?P<nth>{one_of(DAYS_OF_MONTH)})|(?P<d>\d{{1,2}})(?:st|nd|rd|th|\.)) (?:of |des )?(?P<shift>this|last|next"
          r"|dieses|letzten|vorigen|vergangenen|nächsten) (?:month|Monats)\b", listed("month monats")),
    _rule(read_nth_weekday, _WEEKDAYS, rf"\b(?:the |am |an )?(?P<nth>{one_of(ORDINALS)}|last|letzten) "
          rf"(?P<day>{_ALL_DAYS}|weekend|Wochenende) (?:of|in|im) {_MON}(?:,? {_YEAR})?", _MONTHS),
    # Of questions alone
    _asked(read_unit, _UNITS, r"\b(?P<shift>last|this|next) (?P<unit>weekend|week|month|year)['’]s\b"),
    _asked(read_month, _MONTHS, r"\b(?:from|for|between|and|to|through|around|throughout|about|und|zwischen|von|all of"
           rf"|whole of|entire|ganzen?|pour|entre|et) (?:{_PART})?{_MON}(?:['’]s)?(?!\s*\d)"),
    _asked(read_month, _MONTHS, rf"\b{_MON}(?=\s*(?:to|and|-|–|till|until|bis|und) +(?:{one_of(MONTHS)})\b)"),
    _asked(read_month, _MONTHS, rf"^\W*(?!(?:may|mar|march|april|june|august|sun|mai)\b){_MON}(?!\s*\d)"),
    _asked(read_month, _MONTHS, rf"\b(?:the|my|our) (?!may\b|march\b|mar\b){_MON}(?=['’]s|\s+[a-z])"),
    _asked(read_month, _DIGIT, r"(?<![\w./:-])(?P<y>(?:19|20)\d\d)-(?P<m>0[1-9]|1[0-2])(?![\w/:-])", frozenset({"0-"})),
    _asked(read_month, _CJK, r"(?P<m>\d{1,2}|十[一二]|[一二三四五六七八九十])月份?的?(?P<part>初|底|末|上旬|中旬|下旬"
           r"|第一周|第二周|第三周|最后一周)"),
    _asked(read_month, _CJK, r"(?<![\d年])(?P<m>\d{1,2})月份?(?![\d日号])"),
    _asked(read_day_of_month, _CJK, r"(?<![\d月])(?P<d>\d{1,2})[日号號](?!\w{0,2}楼)"),
    _asked(read_day_of_month, _DAYS_OF_MONTH, rf"\b(?:on|since|before|after|by|until|of"
          rf"|from) the (?P<d>{one_of(DAYS_OF_MONTH)})"
           rf"(?=\s*(?:$|[?!,;:.]))"),
    _asked(read_figures, _DIGIT, r"\b(?:on|since|before|after|by|until|from|of|for|(?P<day_first>am|vom|le|el|du"
          r"|del)) (?P<a>\d{1,2})/"
           r"(?P<b>\d{1,2})(?![\w/.])", frozenset({"0/"})),
    _asked(read_day_of_month, _DIGIT, rf"\b(?:le|el|el día|au|al|du|del|depuis le|desde el|{_FR_DAYS}|{_DAYS_ES})"
           r" (?P<d>\d{1,2})(?=\s*(?:$|[?!,;:.)]|[a-zäöü]))(?!\s*(?:de |" + one_of(MONTH_NUMBERS) + r")|\s*h\b)",
           listed("le el día au al du del") | frozenset(WEEKDAY_NUMBERS)),
    _asked(read_day_of_unit, _DIGIT | frozenset({"premier"}), r"\b(?:le |el |el día |du |del )(?P<d>\d{1,2}"
          r"|(?P<nth>premier)) (?:de |du )"
           r"(?P<shift>ce|este) (?:mois|mes)\b", listed("mois mes")),
    _asked(read_day_of_unit, _CJK, r"(?P<shift>这个月|這個月|本月|上个月|上個月|下个月|下個月)的?(?P<d>\d{1,2}|"
           r"[一二三四五六七八九十]{1,3})[日号號]"),
    _asked(read_quarter, _CJK, r"第?(?P<q>[一二三四1-4])季度"),
    _asked(read_quarter, _CJK, r"(?P<half>(?P<word>上半年|下半年))"),
    _asked(read_quarter, _DIGIT, r"\b[QH](?P<q>[1-4])\b(?![\s/-]{0,2}(?:of |/)?(?:19|20)\d\d)", frozenset({"q", "h"})),
    _asked(read_date, _DIGIT, rf"{_OPEN}(?P<d>\d{{1,2}})\.(?P<m>\d{{1,2}})\.(?:(?P<y>\d\d)\b)?(?!\d)",
           frozenset({"0."})),
    _asked(read_week_number, listed("kw cw calendar kalenderwoche"), r"\b(?:KW|CW|calendar week|Kalenderwoche) ?"
           rf"(?P<w>\d{{1,2}})\b(?:[ /]{_YEAR})?"),
    _asked(read_quarter, frozenset(ORDINALS), rf"\b(?:the |im |le |el )?(?P<word>{one_of(ORDINALS)}) (?P<half>half-year"
           r"|half of the year|Halbjahr|semestre)\b", listed("half halbjahr semestre")),
    _asked(read_holiday, _HOLIDAYS, rf"\b(?P<holiday>{one_of(_HOLIDAYS_OF_A_DAY)})(?![^\W_])(?:,? {_YEAR})?"),
    _asked(read_quarter, frozenset(ORDINALS), rf"\b(?:the |im |le )?(?P<word>{one_of(ORDINALS)}) (?:quarter|Quartal"
           r"|trimestre)\b(?! of (?:19|20))", listed("quarter quartal trimestre")),
    _asked(read_weekday, _WEEKDAYS_ES, rf"\b(?P<day>{_DAYS_ES})\b"),
    _asked(read_month, _MONTHS_ES, rf"\b(?:y|e|a) {_MON_ES}"),
    _asked(read_unit, _UNITS_ES, r"\ben lo que va de(?:l| la)? ?(?P<unit>semana|mes|año|trimestre)\b"),
    _asked(read_unit, _UNITS, r"\bdepuis le début (?:du |de la |de l['’])(?P<unit>mois|semaine|année|trimestre)\b"),
    _asked(read_season, _SEASONS, r"\b(?:in|during|over|throughout|since|before|after|from|until|im|während|seit"
           r"|vor dem|nach dem|übers?|über den|en|au|pendant l['’]|depuis le|durante el) (?:the |dem |den |el |l['’])?"
           rf"(?:(?P<part>early|mid|late)[- ])?(?P<season>{one_of(SEASONS)})\b(?! (?:19|20)\d\d)"),
    _asked(read_season, _CJK, r"(?P<shift>去年|今年)?的?(?P<season>[春夏秋冬][天季])"),
    _asked(read_weekday, _WEEKDAYS, rf"(?<!every )(?<!each )(?<!the )(?<!a )(?<!my )(?<!\w-)\b"
           rf"(?P<day>{_ALL_DAYS})(?:['’]s)?(?:\s?(?P<part>{_DAY_PARTS_SAID}))?\b"),
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


def has_time_words(present: set[str]) -> bool:
    """Return whether any rule may fit a text with these words (`words_in`)."""
    return not _PLACES.keys().isdisjoint(present)


def patterns_for(text: str, *, is_question: bool = False) -> list[DatePattern]:
    """The rules that may fit a text, or a question, in their order."""
    present = words_in(text)
    places = {place for word in _PLACES.keys() & present for place in _PLACES[word]}
    rules = [DATE_PATTERNS[place] for place in sorted(places)]
    return [
        rule
        for rule in rules
        if rule.is_asked <= is_question and not any(need.isdisjoint(present) for need in rule.needs[1:])
    ]
