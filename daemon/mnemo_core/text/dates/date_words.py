"""The words for times in English, German, French, Chinese and Japanese, and what each means. SPEC 2.5, 5.4"""

import re
from collections.abc import Iterable

from mnemo_core.text import lexicon
from mnemo_core.text.lazy_patterns import lazy_pattern

MONTHS = lexicon.numbered("calendar", "months")
WEEKDAYS = lexicon.numbered("calendar", "weekdays")
WEEKDAYS_CJK = {
    character: n
    for n, row in enumerate(("一月1", "二火2", "三水3", "四木4", "五金5", "六土6", "日天7"))
    for character in row
}
# Spring begins in March, as on the half of the globe where most of these languages are at home.
SEASONS = lexicon.numbered("calendar", "seasons")
COUNTS = lexicon.numbered("calendar", "counts")

# Days from the day of saying, and the part of the day.
DAYS = {
    "today": 0, "yesterday": -1, "tomorrow": 1, "the day before yesterday": -2, "the day after tomorrow": 2,
    "heute": 0, "gestern": -1, "morgen": 1, "vorgestern": -2, "übermorgen": 2,
    "aujourd'hui": 0, "aujourd’hui": 0, "hier": -1, "demain": 1, "avant-hier": -2, "après-demain": 2,
    "今天": 0, "昨天": -1, "明天": 1, "前天": -2, "后天": 2, "後天": 2, "大前天": -3, "大后天": 3,
    "今日": 0, "昨日": -1, "明日": 1, "一昨日": -2, "おととい": -2, "明後日": 2, "あさって": 2,
    "きのう": -1, "きょう": 0,
    "今早": 0, "今晚": 0, "昨晚": -1, "明晚": 1, "明早": 1, "今朝": 0, "今晩": 0, "今夜": 0, "昨夜": -1, "昨晩": -1,
    "明晩": 1, "明朝": 1,
}  # fmt: skip
PART_OF_WORD = {
    "今早": "morning", "明早": "morning", "今朝": "morning", "明朝": "morning", "今晚": "evening", "昨晚": "evening",
    "明晚": "evening", "今晩": "evening", "今夜": "evening", "昨夜": "evening", "昨晩": "evening", "明晩": "evening",
}  # fmt: skip
# Hours of the day, from and up to. Where one part ends and the next begins is nowhere agreed; these overlap a little.
PARTS = {
    "morning": (6, 12), "noon": (12, 14), "afternoon": (12, 18), "evening": (18, 24), "night": (18, 30),
}  # fmt: skip
PART_NAMES = {
    "morning": "morning", "noon": "noon", "lunchtime": "noon", "afternoon": "afternoon", "evening": "evening",
    "night": "night",
    "früh": "morning", "morgen": "morning", "vormittag": "morning", "mittag": "noon", "nachmittag": "afternoon",
    "abend": "evening", "nacht": "night",
    "matin": "morning", "midi": "noon", "après-midi": "afternoon", "soir": "evening", "nuit": "night",
    "早上": "morning", "上午": "morning", "中午": "noon", "下午": "afternoon", "晚上": "evening", "早晨": "morning",
    "午前": "morning", "午後": "afternoon", "朝": "morning", "夜": "evening", "夕方": "evening", "昼": "noon",
}  # fmt: skip

# How many weeks, months or years from the present one.
UNITS = {
    "week": "week", "woche": "week", "semaine": "week", "weekend": "weekend", "week-end": "weekend",
    "wochenende": "weekend", "month": "month", "monat": "month", "mois": "month", "year": "year", "jahr": "year",
    "année": "year", "an": "year", "quarter": "quarter", "quartal": "quarter", "trimestre": "quarter",
}  # fmt: skip
SHIFTS = {
    "last": -1, "previous": -1, "letzte": -1, "letzten": -1, "letztes": -1, "letzter": -1, "vergangene": -1,
    "vergangenen": -1, "vergangenes": -1, "vorige": -1, "vorigen": -1, "voriges": -1, "dernier": -1, "dernière": -1,
    "passé": -1, "passée": -1, "past": -1, "this past": -1,
    "this": 0, "diese": 0, "diesen": 0, "dieses": 0, "dieser": 0, "diesem": 0, "ce": 0, "cet": 0, "cette": 0,
    "next": 1, "coming": 1, "this coming": 1, "the coming": 1, "nächste": 1, "nächsten": 1, "nächstes": 1,
    "nächster": 1, "kommende": 1, "kommenden": 1, "kommendes": 1, "prochain": 1, "prochaine": 1,
}  # fmt: skip
UNITS_CJK = {
    "上周": ("week", -1), "上週": ("week", -1), "上星期": ("week", -1), "上个星期": ("week", -1),
    "上礼拜": ("week", -1),
    "上上周": ("week", -2), "本周": ("week", 0), "这周": ("week", 0), "這週": ("week", 0), "这个星期": ("week", 0),
    "下周": ("week", 1), "下週": ("week", 1), "下星期": ("week", 1), "下个星期": ("week", 1), "下下周": ("week", 2),
    "上个月": ("month", -1), "上個月": ("month", -1), "上月": ("month", -1), "本月": ("month", 0),
    "这个月": ("month", 0), "這個月": ("month", 0),
    "下个月": ("month", 1), "下個月": ("month", 1), "下月": ("month", 1),
    "去年": ("year", -1), "前年": ("year", -2), "今年": ("year", 0), "明年": ("year", 1), "后年": ("year", 2),
    "上周末": ("weekend", -1), "上週末": ("weekend", -1), "这周末": ("weekend", 0), "本周末": ("weekend", 0),
    "下周末": ("weekend", 1), "先週末": ("weekend", -1), "今週末": ("weekend", 0), "来週末": ("weekend", 1),
    "先々週": ("week", -2), "先週": ("week", -1), "今週": ("week", 0), "来週": ("week", 1), "再来週": ("week", 2),
    "先々月": ("month", -2), "先月": ("month", -1), "今月": ("month", 0), "来月": ("month", 1),
    "昨年": ("year", -1), "一昨年": ("year", -2), "来年": ("year", 1), "再来年": ("year", 2),
}  # fmt: skip
SPANS = {
    "second": "second", "minute": "minute", "min": "minute", "hour": "hour", "day": "day", "night": "day",
    "week": "week", "month": "month", "year": "year",
    "minuten": "minute", "stunde": "hour", "stunden": "hour", "tag": "day", "tagen": "day", "woche": "week",
    "wochen": "week", "monat": "month", "monaten": "month", "jahr": "year", "jahren": "year",
    "heure": "hour", "jour": "day", "semaine": "week", "mois": "month", "an": "year", "année": "year",
    "分钟": "minute", "分鐘": "minute", "分": "minute", "小时": "hour", "小時": "hour", "时间": "hour", "時間": "hour",
    "天": "day", "日": "day", "周": "week", "週": "week", "星期": "week", "週間": "week", "礼拜": "week",
    "月": "month", "年": "year",
}  # fmt: skip

PARTS_OF_SPAN = {
    "early": (0, 1), "beginning of": (0, 1), "start of": (0, 1), "anfang": (0, 1), "début": (0, 1), "mid": (1, 2),
    "middle of": (1, 2), "mitte": (1, 2), "mi": (1, 2), "late": (2, 3), "end of": (2, 3), "ende": (2, 3), "fin": (2, 3),
}  # fmt: skip


def one_of(words: Iterable[str]) -> str:
    """A pattern for any of the words, the longest first. What begins alike is looked at once."""
    by_first: dict[str, list[str]] = {}
    for word in words:
        by_first.setdefault(word[:1], []).append(word[1:])
    ends = bool(by_first.pop("", ()))
    found = []
    for first, rests in sorted(by_first.items()):
        rest = one_of(rests)
        found.append(re.escape(first) + (f"(?:{rest})" if "|" in rest else rest))
    if ends and found:
        found.append("")
    return "|".join(found)


# What a sentence says of time by its verbs

_TIME = (
    r"\d|(?:early|mid|late|next|today|tonight|tomorrow|noon|midnight|spring|summer|autumn|fall|winter"
    rf"|{one_of([*MONTHS, *WEEKDAYS])})\b"
)
FUTURE = lazy_pattern(
    rf"(?<!was )(?<!were )\bmoved (?:for|to|until) (?:the |this )?(?:{_TIME})|"
    r"(?<!was )(?<!were )\bgoing to\b|\b(?:will|won['’]t|shall|gonna|upcoming|remind|don['’]t forget"
    r"|let['’]s|plans? to|planning to|want to|hope to"
    r"|have to|has to|need to|needs to|must|should|looking forward|can['’]t wait)\b|['’]ll\b"
    r"|(?<!was )(?<!were )\b(?:scheduled|due|planned|booked|postponed|rescheduled|expected"
    r"|set) (?:for|to|on|until)\b"
    r"|\b(?:am|is|are)(?: \w+)? \w+ing\b|['’](?:m|re)(?: \w+)? \w+ing\b|\b(?:he|she|it|that)['’]s \w+ing\b"
    r"|\b(?:werde|wirst|wird|werden|müssen|muss|soll|sollen|will|wollen|möchte|treffe|fliege|fahre)\b"
    r"|\b(?:vais|vas|va|allons|allez|vont|dois|devons|doit)\b|\b\w{2,}(?:rai|ras|rons|rez|ront)\b"
    r"|要|会议定|将|將|打算|计划|予定|つもり|します|行きます|会います|ましょう|しよう|締め切り|截止",
    re.IGNORECASE,
)
PAST = lazy_pattern(
    r"\b(?:was|were|wasn['’]t|weren['’]t|had|did|didn['’]t|went|met|saw|got|came|took|made|said|told"
    r"|bought|sold|left|began|started|found"
    r"|gave|ran|ate|drank|drove|flew|wrote|read|sent|spoke|talked|thought|knew|felt|fell|broke|built|held"
    r"|heard|kept|led|lost|paid|put"
    r"|quit|rode|sang|sat|slept|spent|stood|swam|taught|threw|woke|won|wore|became|chose|grew|shut|hurt"
    r"|cut|hit|let|beat|born|died|died|cost"
    r"|brought|caught|forgot|hung|hid|laid|lent|meant|rang|rose|shook|shot|stole|stuck|understood"
    r"|withdrew|dug|fought|fed|fled|sought|bled)\b"
    r"|\b(?!need\b|feed\b|speed\b|seed\b|indeed\b|hundred\b|exceed\b|proceed\b|succeed\b|embed\b|red\b"
    r"|bed\b|wed\b|shed\b|sacred\b)[a-z]{2,}ed\b"
    r"|\b(?:war|waren|hatte|hatten|wurde|wurden|ging|kam|traf|trafen|gab|fand|bekam|sah|fuhr|flog)\b"
    r"|\b(?:habe|hat|haben|bin|ist|sind)\b[^.!?\n]{0,80}\b\w*ge\w+(?:t|en)\b"
    r"|\b(?:habe|hat|haben|bin|ist|sind)\b[^.!?\n]{0,80}\b(?:be|ver|er|ent|zer)\w+(?:t|en)\b"
    r"|\b(?:était|étais|étaient|avait|fut)\b|(?:\b|['’])(?:ai|as|a|avons|avez|ont|est|suis|sommes|sont"
    r"|es)\s(?:\w+\s){0,2}\w+(?:é|ée|és|ées|i|ie|is|it|u|ue|us)\b"
    r"|了|过了|過|ました|でした|だった|[っいえきしたんけ]た(?=[。、\s]|$)",
    re.IGNORECASE,
)
MOVED = lazy_pattern(
    r"\b(?:moved|postponed|rescheduled|pushed|shifted|changed|delayed|brought forward|verschoben|verlegt"
    r"|reportée?|déplacée?|décalée?)\b|改到|推迟|推遲|延期|変更",
    re.IGNORECASE,
)
SUPPOSED = lazy_pattern(
    r"(?:^|[\s,(])(?:if|unless|wenn|falls|s['’]il|would have|could have|wish)\b|如果|要是|もし", re.IGNORECASE
)
YEARLY = lazy_pattern(
    r"\b(?:birthday|anniversary|geburtstag|hochzeitstag|jahrestag|anniversaire|bday)\b|生日|纪念日|誕生日|記念日",
    re.IGNORECASE,
)
# What begins, ends or is expected so many days on; without one of these `in 3 days` may be how long it took.
COMES = lazy_pattern(
    r"\b(?:meet|leave|leaves|leaving|start|starts|begin|begins|arrive|arrives|due|fly|see you|back|launch"
    r"|launches|expire|expires|ends?"
    r"|move|moving|appointment|exam|deadline|birthday|wedding|trip|visit|visits|coming|comes|happens"
    r"|takes place|opens|closes|release"
    r"|findet|kommt|beginnt|endet|abfahrt|läuft|part|arrive|commence|finit|expire)\b",
    re.IGNORECASE,
)
