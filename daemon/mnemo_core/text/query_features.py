"""Features of a question: whether it asks for a time, a place, a person, a number, a reason. SPEC 7.3 (`auto`)

The other side of the shape of a text. English first; the question words of German, French, Chinese and Japanese too.
Read once a recall.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from mnemo_core.text.characters import CASE_LOOKALIKES
from mnemo_core.text.dates.date_words import MONTHS
from mnemo_core.text.lazy_patterns import lazy_pattern


class QueryFeatures(NamedTuple):
    """Features of a query. Several may hold, or none."""

    when: bool
    where: bool
    who: bool
    what: bool
    which: bool
    how_many: bool  # also how often, how old, how far, and what it costs
    how_long: bool
    why: bool
    how: bool  # in what way
    yes_no: bool
    is_keywords: bool  # neither a question word nor a mark
    first_person: bool
    is_speculative: bool
    wants_title: bool


def _pattern(words: str) -> re.Pattern[str]:
    return lazy_pattern(words, re.IGNORECASE | re.VERBOSE)


_WHEN = _pattern(
    r"""\b(?:when|wann|quand)\b
    |\b(?:what|which)(?:'s|\ is|\ was)?\ (?:the\ )?(?:time|day|date|year|month|week|weekday|season)\b
    |\bhow\ (?:long\ ago|soon|recently)\b
    |\b(?:welche[nrms]?|quel(?:le)?s?)\ (?:jahr|tag|datum|monat|heure|date|année|jour|mois)\b
    |什[么麼]时候|什麼時候|何时|何時|几点|幾點|几号|哪[天年]|哪个月|いつ|何[年月日]|何曜日"""
)
_WHERE = _pattern(
    r"""\b(?:where|wo|woher|wohin|où)\b
    |\b(?:what|which)\ (?:place|city|country|town|state|street|address|room|building|location|village)\b
    |哪里|哪裡|哪儿|哪兒|什么地方|什麼地方|どこ|何処"""
)
_WHO = _pattern(r"\b(?:who|whom|whose|who's|wer|wem|wen|wessen|qui)\b|谁|誰|哪位|だれ|どなた")
_WHAT = _pattern(
    r"""\b(?:what|what's|whats|quoi|qu'est-ce)\b|^\W*que\b
    |(?<![为為])什[么麼](?!时候|時候|地方)|啥|なに|なん(?:です|の)|何(?![时時年月日曜人回個歳本枚匹度処])"""
)
_WHICH = _pattern(
    r"\b(?:which|welche[nrms]?|quel(?:le)?s?|laquelle|lequel)\b|哪(?![里裡儿兒天年位])|どの(?!くらい|ように)|どれ(?!くらい)|どちら"
)
_HOW_MANY = _pattern(
    r"""\bhow\ (?:many|much|often|old|far|big|tall|large|heavy|high|deep|fast|few|wide|frequently|expensive|strong|hot
        |cold|small)\b
    |\b(?:number|amount|price|cost|percentage|count)\ of\b|\bwhat\ (?:price|amount|age)\b|\bcost\b
    |\bwie\ (?:viele?n?|oft|alt|weit|groß|hoch|schwer|teuer|breit|schnell)\b|\bwieviele?\b
    |\bcombien\b(?!\ de\ temps)|\bquel(?:le)?\ (?:âge|prix|taille|nombre)\b
    |多少|几(?![点号])|幾(?!點)|多[大高远遠重贵貴]|いくつ|いくら|何[人回個歳本枚匹度]|どれだけ"""
)
_HOW_LONG = _pattern(
    r"""\bhow\ long\b(?!\ ago)|\bwie\ lange\b|\bseit\ wann\b|\bcombien\ de\ temps\b|\bdepuis\ (?:quand|combien)\b
    |多久|多长时间|多長時間|どのくらい|どれくらい"""
)
_WHY = _pattern(
    r"""\b(?:why|how\ come|warum|wieso|weshalb|pourquoi)\b|\bwhat\ (?:made|motivated|inspired|caused)\b|\breasons?\b
    |为什么|為什麼|为何|為何|なぜ|どうして"""
)
_HOW = _pattern(
    r"""\bhow\b(?!\ (?:many|much|often|old|far|big|tall|large|heavy|high|deep|fast|few|wide|frequently|expensive|strong
        |hot|cold|small|long|soon|recently|come)\b)
    |\bwie\b(?!\ (?:viele?n?|oft|alt|weit|groß|hoch|schwer|teuer|breit|schnell|lange)\b)
    |^\W*comment\b|怎[么麼样樣]|如何|どうやって|どのように|どう(?!して|やって)"""
)
_YES_NO = _pattern(
    r"""^\W*(?:is|isn't|are|aren't|am|was|wasn't|were|weren't|do|don't|does|doesn't|did|didn't|has|hasn't|have|haven't|had
        |can|can't|could|couldn't|will|won't|would|wouldn't|should|shouldn't|may|might|must|shall)\b
    |^\W*(?:ist|sind|hat|hast|habe|haben|kann|kannst|wird|hatte|gibt|est-ce|avez|as-tu|a-t-|y\ a-t-)
    |[吗嗎][?？。\s]*\Z|(?:です|ます|でした|ました|ません)か[?？。\s]*\Z"""
)
_FIRST_PERSON = _pattern(
    r"""\b(?:I|my|me|mine|myself|we|our|ours|ich|mich|mir|mein(?:e[nmrs]?)?|wir|unsere?[nmrs]?|je|moi|mon|mes|nous|notre
        |nos)\b|\bj'|我|咱|私|僕|俺|わたし|ぼく"""
)
_US = lazy_pattern(r"\bus\b")  # not the country
_SPECULATIVE = _pattern(
    r"""\b(?:would|might|likely|unlikely|could|probably|maybe|perhaps|possibly|potentially|würden?|könnten?
        |wahrscheinlich|vielleicht|pourrait|probablement|peut-être)\b
    |可能|也许|也許|或许|或許|大概|かもしれ|だろう|でしょう|おそらく|たぶん"""
)
_TITLE = _pattern(
    r"""\b(?:books?|films?|movies?|songs?|names?|named|called|games?|bands?|albums?|shows?|series|titles?|titled|podcasts?
        |novels?|bücher|buch|filme|lied|lieder|heißt|spiel|spiele|titel|serie|livres?|chansons?|nom|appelle|jeux?|groupe
        |titre|série)\b
    |书|書|电影|電影|歌|名字|叫什么|叫什麼|游戏|遊戲|乐队|樂隊|映画|曲|名前|ゲーム|バンド|アルバム"""
)
_MARK = lazy_pattern("[?？]")
_WAS = lazy_pattern(r"^\W*was\b", re.IGNORECASE)  # what in German, a verb in English
_GERMAN = _pattern(
    r"\b(?:ist|das|der|und|ein|eine|hat|habe|haben|ich|mein|meine|wir|für|mit|macht|machen|heißt|gibt|sind|wird|kostet|von)\b"
)  # fmt: skip


def analyze_query(query: str) -> QueryFeatures:
    """The features of a query."""
    query = query.replace("\u2019", "'")

    def has(pattern: re.Pattern[str]) -> bool:
        return pattern.search(query) is not None

    is_german_what = has(_WAS) and has(_GERMAN)
    asked = {
        "when": has(_WHEN),
        "where": has(_WHERE),
        "who": has(_WHO),
        "what": has(_WHAT) or is_german_what,
        "which": has(_WHICH),
        "how_many": has(_HOW_MANY),
        "how_long": has(_HOW_LONG),
        "why": has(_WHY),
        "how": has(_HOW),
        "yes_no": has(_YES_NO) and not is_german_what,
    }
    return QueryFeatures(
        **asked,
        is_keywords=not any(asked.values()) and not has(_MARK),
        first_person=has(_FIRST_PERSON) or has(_US),
        is_speculative=has(_SPECULATIVE),
        wants_title=has(_TITLE),
    )


Role = Literal["user", "agent"]
ROLE_NAMES: Final[Mapping[Role, tuple[str, ...]]] = {  # of who speaks as such
    "user": ("user", "human"), "agent": ("assistant", "agent", "ai", "bot"),
}  # fmt: skip

# What is said around a question: neither the asked one's words nor deeds are meant.
_ASIDE = _pattern(
    r"""\b(?:(?:do|can|could|would|will)\ you\ (?:please\ )?(?:still\ )?(?:remember|recall|know|tell|remind|find|say)
        |I(?:'ve|\ have|\ had|\ was)?\ (?:ever\ |already\ )?(?:asked|told|telling|shown|showed|given|gave|sent)\ you
        |remind\ me|erinnerst\ du\ dich|weißt\ du|kannst\ du(?:\ mir)?|te\ souviens-tu|sais-tu|peux-tu(?:\ me)?)\b"""
)
_TO_THE_AGENT = _pattern(
    r"\b(?:you|your|yours|yourself|du|dich|dir|dein(?:e[nmrs]?)?|tu|toi|ton|tes|vous|vos|votre)\b|你|您|君|あなた"
)


def asked_role(query: str) -> Role | None:
    """Of a person and an agent who talk, the one whose words it asks for: "What did you suggest for my knee?" the
    agent's, "What is my sister called?" the person's; None where it says neither I nor you."""
    query = query.replace("\u2019", "'")
    if _TO_THE_AGENT.search(_ASIDE.sub(" ", query)):
        return "agent"
    return "user" if _FIRST_PERSON.search(query) else None


_MONTH = lazy_pattern(
    rf"\b(?:{'|'.join(sorted((name for name in MONTHS if len(name) > 3), reverse=True))})\b", re.IGNORECASE
)
_MAY = lazy_pattern(r"\b(?:May|Mai)\b")  # not the verb
_PLANET = "Mars"  # written so it is no French month
_YEAR = lazy_pattern(r"(?<!\d)(?:19|20)\d\d(?!\d)")


def named_months(query: str) -> frozenset[int]:
    """The months that a query names, 1 to 12; by their whole names."""
    found = {MONTHS[name.lower()] for name in _MONTH.findall(query.translate(CASE_LOOKALIKES)) if name != _PLANET}
    return frozenset(found | ({5} if _MAY.search(query) else set()))


def named_years(query: str) -> frozenset[int]:
    """The years of the last century and this one that a query names."""
    return frozenset(map(int, _YEAR.findall(query)))
