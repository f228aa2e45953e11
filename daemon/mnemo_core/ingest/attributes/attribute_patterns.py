"""The patterns in which a text claims something of a subject, and the words that name attributes. SPEC 5.5

A pattern takes a clause apart: s, the words before the verb; v, the value; f, the value before; t, a topic or the
words that name the attribute; p, what it is for.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from mnemo_core.text import lexicon
from mnemo_core.text.characters import HAN, KATAKANA, UNSPACED
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed
from mnemo_core.text.vocabulary import SYNONYMS


class Frame(NamedTuple):
    """One pattern. attribute: its name; `*`: named by the words before the verb; `use`: by the tool; "": unknown."""

    attribute: str
    pattern: re.Pattern[str]
    is_change: bool  # it says that the value was another one before
    is_typed: bool  # its value is a number, date or identifier; the words around it are none of it
    is_personal: bool  # its subject may stand in the clause before
    needs: frozenset[str]  # words of which a clause has one at least; none: any clause may fit
    is_han: bool  # it is for Chinese or Japanese
    is_weak: bool  # what fits it may be something else: it counts only against a change


KIN = lexicon.words("attributes", "kin")

# One name for attributes that are called differently.
# Attributes that have one value at a time, when that value is a word.
SINGLE = lexicon.words("attributes", "single")
# Those of them whose value may be any word. Of the others it is a name, a number or a known tool.
WORDED = lexicon.words("attributes", "worded")
# Words that tell how something is, and not what: "my car is great" leaves it the car that it was.
DESCRIBING = lexicon.words("attributes", "describing")
GROUPS = lexicon.words("attributes", "groups")
PEOPLE = lexicon.words("attributes", "people")
# What a tool is used as.


def _named(section: str) -> Iterator[tuple[str, str]]:
    for group in lexicon.lines("attributes", section):
        name, _, words = group.partition(" ")
        for word in words.split(","):
            yield " ".join(SYNONYMS.get(each, each) for each in word.split()), name


ATTRIBUTES = dict(_named("named"))
CATEGORIES = {word: name for words, name in _named("tools") for word in words.split()}

_S = r"(?P<s>(?:[\w'’.-]+ ){0,6}?)"
_V = r"(?P<v>.+)$"
_F = r"(?:from (?P<f>.+?) )?"
_FOR = r"(?P<v>.+?)(?: (?:for|as) (?:our |my |the |a |an |his |her |its |their )?(?P<p>[\w -]+))?$"
_HAVE = r"(?:have |has |had )?"
_WHOSE = r"(?:the|our|my|his|her|their|[A-Z]\w+'s)"
_ART = r"(?:a |an |the )?"
_CHANGED = (
    r"(?:have |has |had )?(?:been |was |were |got |is being )?(?:changed|moved|switched|updated|upgraded|pushed|put|"
    r"brought|postponed|rescheduled|shifted|delayed|extended|went|gone|rose|risen|climbed|jumped|increased|fell|fallen|"
    r"dropped|decreased|raised|lowered|cut|reduced|bumped|reset|adjusted|corrected|revised|slipped|transferred|grew|grown|"
    r"relocated|renamed|shortened|doubled|hiked|set)(?: up| down| out| back| forward| over| again)?"
)
_PERSON = r"(?P<v>(?:Dr|Doctor)\.? \w[\w'-]*(?: (?-i:[A-Z])[\w'-]*)?)\b.*$"
_DONE = r"(?:done|finished|submitted|handed in|delivered|ready|filed|completed|in|sent|sent off|turned in|paid)"
_RUNS = r"(?:uses?|runs?(?: on)?|(?:am|is|are) (?:on|using|running|at)|requires?|targets?|needs?|stays? on|ships? with)"
_TO = r"(?:upgraded|updated|moved|switched|bumped|migrated|went|gone|jumped|downgraded)(?: up| over| back)?"

# attribute, flags (c: change, t: typed, p: personal, a: needs no word of its own, w: weak), pattern; the first that
# fits and gives a claim is taken.
_FRAMES = [
    # how to be reached
    ("phone", "t",
     r"(?:you can )?(?:reach|call|text|phone|ring|contact) (?P<s>[\w']+) (?:at|on|under) (?P<v>\+?[\d(][\d "
     r"()-]{5,})"),
    # where somebody lives
    ("home", "cp",
     rf"{_S}{_HAVE}(?:moved|relocated|resettled)(?: back| over| house| home| away| down| up| out)?(?: {_F}|"
     rf", |\s)(?:to|into) {_V}"),
    ("home", "cp", rf"{_S}{_HAVE}made the move {_F}to {_V}"),
    ("home", "cp", rf"{_S}{_HAVE}(?:settled|settled down|found a new home|put down roots) in {_V}"),
    ("home", "p",
     rf"{_S}(?:lives?|resides?|dwells?|(?:am|is|are) (?:living|residing|based|located|hosted|stationed)|"
     rf"{_HAVE}been living) (?:in|at|on) {_V}"),
    ("home", "", r"(?P<v>[\w -]+) is where (?P<s>[\w' ]+?) lives?$"),
    # where somebody works
    ("employer", "p",
     rf"{_S}(?:works?|(?:am|is|are) (?:working|employed)|{_HAVE}been working) (?:as {_ART}[\w -]+? )?(?:at|"
     rf"for|by) (?!home|night|it\b|hours|days|\d){_V}"),
    ("employer", "pw", rf"{_S}(?:works?|(?:am|is|are) working|{_HAVE}been working) with (?!.* on ){_V}"),
    ("employer", "cp",
     rf"{_S}{_HAVE}(?:started|begun|began) (?:working |work |{_ART}(?:new )?(?:job|position|role) |(?:my|"
     rf"his|her|their) (?:new )?job |as {_ART}[\w -]+? )?(?:at|with|for) {_V}"),
    ("employer", "cp",
     rf"{_S}{_HAVE}(?:joined|signed on with|signed with|hired on at) (?!a |an |the |my |our |us\b|in\b|"
     rf"up\b){_V}"),
    ("employer", "cp",
     rf"{_S}{_HAVE}(?:got|gotten|landed|found|took|taken|accepted|started) {_ART}(?:new )?(?:job|position|"
     rf"role|offer|post) (?:at|with|from|by) {_V}"),
    ("employer", "cp", rf"{_S}(?:was|got|{_HAVE}been) hired (?:by|at) {_V}"),
    ("employer", "cp",
     rf"{_S}{_HAVE}(?:left|quit) (?P<f>.+?) (?:to join|to work at|to work for|to start at|for a job at) {_V}"),
    ("employer", "", rf"{_S}(?:job|work|new job) (?:is|are) (?:at|with) {_V}"),
    ("role", "p", rf"{_S}(?:works?|(?:am|is|are) working|{_HAVE}been working) as {_ART}{_V}"),
    # with whom
    ("partner", "p", rf"{_S}(?:am|is|are) (?:married|engaged) to {_V}"),
    ("partner", "cp", rf"{_S}{_HAVE}(?:married|got married to|gotten engaged to|got engaged to) {_V}"),
    ("partner", "p",
     rf"{_S}(?:am|is|are) (?:dating|seeing|going out with|together with|in a relationship with) (?!Dr|dr|"
     rf"Doctor|a |the ){_V}"),
    ("partner", "cp", rf"{_S}{_HAVE}(?:started|begun|began) (?:dating|seeing|going out with) {_V}"),
    ("manager", "p", rf"{_S}reports? to {_V}"),
    ("manager", "c",
     r"(?P<v>[A-Z][\w.'-]*(?: [A-Z][\w.'-]*)?) (?:took|has taken|have taken) over as (?P<s>(?:my|our|"
     r"[A-Z]\w+'s) )(?:new )?(?:boss|manager|supervisor)"),
    ("doctor", "p",
     rf"{_S}(?:sees?|(?:am|is|are) (?:seeing|with|registered with|treated by)|goes to|go to) {_PERSON}"),
    ("doctor", "cp", rf"{_S}{_HAVE}(?:switched|changed|moved|transferred)(?: doctors?| over)? {_F}to {_PERSON}"),
    ("doctor", "p", rf"{_S}(?:am|is|are) a patient of {_PERSON}"),
    ("manager", "", r"(?P<v>[\w .'-]+?) (?:manages|supervises) (?P<s>me|us|[\w']+)$"),
    ("manager", "", r"(?P<v>[\w .'-]+?) is (?:the one|the person|who) (?P<s>I|we|[\w']+) reports? to$"),
    # what somebody drives, weighs, is old
    ("car", "p",
     rf"{_S}(?:drives?|(?:am|is|are) driving) (?:a |an |my |the |his |her )(?:new |used |old )?(?!kids|"
     rf"children|bus){_V}"),
    ("car", "cp",
     rf"{_S}{_HAVE}(?:bought|got|leased|picked up) (?:myself |himself |herself )?(?:a |an )?(?:new |used "
     rf")?car[,:]? (?:it is )?(?:a |an )?{_V}"),
    ("age", "tp", rf"{_S}(?:am|is|are) (?P<v>[\w-]+)(?: years old| years of age)$"),
    ("age", "tcp", rf"{_S}{_HAVE}turned (?P<v>\d{{1,3}}|[a-z]+(?:-[a-z]+)?)(?: years old)?$"),
    ("weight", "tp", rf"{_S}(?:weighs?|(?:am|is) (?:down|up) to) {_V}"),
    # versions and ports
    ("version", "tpa", rf"{_S}{_RUNS} (?P<t>[A-Za-z][\w.+#-]*) (?:version )?(?P<v>v?\d+(?:\.\d+)*)$"),
    ("version", "tcp",
     rf"{_S}{_HAVE}(?:been |was |were )?{_TO} {_F}(?:to |onto )(?P<t>[A-Za-z][\w.+#-]*) (?:version "
     r")?(?P<v>v?\d+(?:\.\d+)*)$"),
    ("version", "tcp",
     rf"(?:I|we|they|[\w'.-]+) {_HAVE}(?:upgraded|updated|bumped|moved|migrated|switched|ported|downgraded) "
     r"(?:the |our |my )?(?P<s>[\w.-]+) to (?P<t>[A-Za-z][\w.+#-]*) (?P<v>v?\d+(?:\.\d+)*)$"),
    ("port", "t",
     rf"{_S}(?:runs?|listens?|(?:is|are) (?:running|listening|reachable|available|served|exposed)|"
     rf"answers)(?: on| at)? port {_V}"),
    ("port", "t", rf"{_S}(?:uses?|is on|are on|has) port {_V}"),
    ("port", "tc", rf"{_S}{_CHANGED} (?:from port (?P<f>.+?) )?(?:to|onto) port {_V}"),
    # by when
    ("deadline", "t", rf"{_S}(?:is|are|falls) due (?:on |by |at |in )?{_V}"),
    ("deadline", "t", rf"{_S}(?:must|has to|have to|needs to|need to) be {_DONE} (?:by|before|on|until) {_V}"),
    # what is paid and earned
    ("amount of", "tp",
     r"(?P<s>(?:[\w'’.-]+ ){0,3}?)(?:pays?|(?:am|is|are) paying|spends?) (?P<v>[^a-z]*\d.*?|[a-z]+ "
     r"(?:hundred|thousand).*?) (?:in|for|of|on|as) (?P<t>[\w' -]+)$"),
    ("amount", "t", rf"{_S}(?:costs?|is costing|sells? for) (?:me |us )?(?P<v>[^a-z]*\d.*|[a-z]+ .*)$"),
    ("salary", "tp",
     rf"{_S}(?:earns?|makes?|(?:am|is|are) paid|(?:am|is|are) (?:earning|making)) (?P<v>[^a-z]*\d.*)$"),
    ("salary", "tcp", rf"{_S}{_HAVE}(?:got|gotten|received) a raise to {_V}"),
    # what is used
    ("use", "cp",
     rf"{_S}{_HAVE}(?:replaced|swapped|dropped|ditched|abandoned|exchanged) (?:our |my |the )?(?P<f>.+?) "
     rf"(?:with|for|in favou?r of|by) {_FOR}"),
    ("use", "cp",
     rf"{_S}{_HAVE}(?:been )?(?:switched|migrated|moved|changed|converted|gone)(?: over| back| away)? "
     rf"{_F}to {_FOR}"),
    ("use", "cp",
     rf"{_S}{_HAVE}(?:switched|migrated|moved|ported)(?: over| back)? (?:our |my |the )(?P<p>[\w -]+?) "
     rf"{_F}to {_V}"),
    ("use", "p",
     rf"{_S}(?:uses?|(?:am|is|are) using|codes? in|writes? code in|edits? (?:in|with)|relies on|rely on|"
     rf"swears? by|develops? in|deploys? (?:on|to)|hosts? (?:everything |it )?(?:on|at)|runs? on|"
     r"(?:am|is|are) (?:built|based) on|(?:am|is|are) backed by|stores? (?:its |our |the )?data in) "
     rf"{_FOR}"),
    ("", "cp",
     rf"{_S}{_HAVE}(?:traded|swapped)(?: in)? (?:my |our |his |her |the )?(?P<f>.+?) for (?:a |an )?(?:new "
     rf")?{_V}"),
    ("", "cp", rf"{_S}{_HAVE}(?:left|quit) (?P<f>.+?) for {_V}"),
    # how something is called
    ("name", "", rf"{_S}(?:is|are) (?:called|named|known as) {_V}"),
    ("name", "c", rf"{_S}{_HAVE}(?:been |was |were )?(?:renamed|rechristened) (?:to |as |into )?{_V}"),
    # what the words before the verb name
    ("favorite", "",
     r"the (?P<t>[\w -]+?) (?P<s>I|we|[\w']+) (?:likes?|loves?|prefers?|enjoys?) (?:best|most|the most) is "
     rf"{_V}"),
    ("favorite", "",
     rf"{_S}(?:likes?|loves?) (?P<v>[\w .'-]+?) (?:best|most|the most|more than any other \w+) of all "
     r"(?P<t>[\w -]+)$"),
    ("*", "c",
     rf"(?:[\w'.-]+ ){{0,4}}?{_HAVE}(?:moved|pushed|changed|set|raised|lowered|cut|reduced|increased|"
     rf"postponed|extended|rescheduled|shifted|bumped|updated|put|brought|reset|delayed) (?P<t>{_WHOSE} "
     rf"[\w' -]+?)(?: up| down| back| forward| out)? {_F}(?:to|until) {_V}"),
    ("*", "c",
     rf"(?P<v>[\w .'-]+?) {_HAVE}(?:took over from|taken over from|replaced|replaces|succeeded|succeeds) "
     rf"(?P<f>[\w .'-]+?) as (?P<t>{_WHOSE} [\w' -]+)$"),
    ("*", "c", rf"{_S}(?:have|has|have got|has got|got|gotten) a new (?P<t>[\w ]+?)(?::| called| named| -) {_V}"),
    ("*", "t", rf"{_S}(?:has|have) (?:a |an )(?P<t>[\w ]+?) of {_V}"),
    ("*", "", rf"the (?P<t>[\w -]+?) (?P<s>I|we|[\w']+) (?:pays?|drives?|uses?|earns?) (?:is|are) (?:a |an )?{_V}"),
    ("*", "c", rf"{_S}{_CHANGED} {_F}(?:to|until|till) {_V}"),
    ("*", "t",
     rf"{_S}(?:starts?|begins?|takes place|happens?|meets?|comes?|opens?|leaves?|departs?|ends?|closes?|"
     r"(?:is|are) (?:scheduled|planned|set|booked|"
     rf"happening|starting|fixed|taking place))(?: to start| to begin)?(?: for| on| at| in)? {_V}"),
    ("*", "c", r"(?P<v>[\w .'+#-]+?) (?:became|has become|have become) (?P<t>(?:my|our|[A-Z]\w+'s) [\w' -]+)$"),
    ("*", "a", r"(?P<v>[\w .'+#-]+?) (?:is|are) (?P<t>(?:my|our|[A-Z]\w+'s) [\w' -]+)$"),
    ("*", "ta",
     rf"{_S}(?:is|are|amounts to|comes to|stands at|equals|remains)(?: at| on| in| for| set to| up to| down "
     rf"to)? {_V}"),
    ("place", "a", rf"{_S}(?:is|are|stays?) (?:in|at) {_V}"),
    ("*", "a", rf"{_S}(?:is|are|remains) (?!in |at |on |of |from |with |for |to |by )(?:a |an |the )?{_V}"),
    ("*", "a", r"(?P<s>(?:[\w'’.-]+ ){0,4}[\w'’.-]+)(?::| =) (?P<v>.+)$"),
    ("held", "p",
     rf"{_S}(?:owns?|has|have|drives?|plays?|prefers?|wears?|rides?|subscribes? to|banks? with) (?:a |an |"
     rf"the )?{_V}"),
    # German
    ("home", "p", rf"{_S}(?:wohne|wohnt|lebe|lebt|wohnen|leben) (?:in|im|bei) {_V}"),
    ("home", "cp", rf"{_S}(?:bin|ist|sind) (?:von (?P<f>\S+) )?nach (?P<v>.+?) (?:um)?gezogen"),
    ("employer", "p", rf"{_S}(?:arbeite|arbeitet|arbeiten) (?:bei|für) {_V}"),
    ("*", "t", rf"{_S}(?:beträgt|liegt bei|kostet) {_V}"),
    ("*", "c",
     rf"{_S}(?:wurde|ist) (?:von (?P<f>.+?) )?auf (?:den )?(?P<v>.+?) (?:verschoben|gestiegen|erhöht|"
     r"gesenkt|gesunken|geändert|vorverlegt)"),
    ("*", "", rf"{_S}(?:ist|heißt|lautet) (?:am |um )?{_V}"),
    # French
    ("home", "p", rf"(?P<s>j'|{_S[6:-1]})(?:habite|vis|vit) (?:à|a|en|au) {_V}"),
    ("home", "cp", rf"(?P<s>j'|{_S[6:-1]})(?:ai |a )?(?:déménagé|emménagé) (?:de (?P<f>\S+) )?(?:à|en|au) {_V}"),
    ("employer", "p", rf"{_S}(?:travaille|travaillent) (?:chez|pour) {_V}"),
    ("*", "c",
     rf"{_S}(?:est passé|est passée|a augmenté|a été reporté|a été reportée|a été déplacé|a été déplacée) "
     rf"(?:de (?P<f>.+?) )?(?:à|au) {_V}"),
    ("*", "", rf"{_S}est (?:de |à |au |le )?{_V}"),
    # Chinese
    ("home", "", rf"(?P<s>我|[{HAN}]{{2,3}}?)(?:现在)?住在(?P<v>[{HAN}]{{2,6}})$"),
    ("home", "c",
     rf"(?P<s>我|[{HAN}]{{2,3}}?)(?:已经|刚)?(?:从(?P<f>[{HAN}]{{2,4}}))?搬(?:家)?(?:到|"
     rf"去)了?(?P<v>[{HAN}]{{2,6}}?)了?$"),
    ("amount", "tc", rf"(?P<s>[{HAN}]{{2,6}}?)(?:已经)?(?:涨|降|调整?|改|升|减)(?:到|为|成)了?(?P<v>\d.*)$"),
    ("amount", "t", rf"(?P<s>[{HAN}]{{2,6}}?)(?:现在)?(?:是|为|要)(?P<v>\d.*)$"),
    # Japanese
    ("home", "",
     rf"(?P<s>[{UNSPACED}]{{0,5}}?)は?(?P<v>[{KATAKANA}{HAN}]{{2,6}})に住んで(?:いる|います)$"),
    ("home", "c",
     rf"(?P<s>[{UNSPACED}]{{0,5}}?)は?(?P<v>[{KATAKANA}{HAN}]{{2,6}})(?:に|へ)引っ越し(?:た|"
     r"ました)$"),
    ("amount", "t", rf"(?P<s>[{UNSPACED}]{{2,6}}?)は(?P<v>\d.*?)(?:です|だ)?$"),
]  # fmt: skip
# What nearly every clause has tells nothing.
_EVERYWHERE = lexicon.words("attributes", "everywhere")
_VERBS = listed("is are am was were been has have had")


def _needs(flags: str, pattern: str) -> frozenset[str]:
    """Its words, but for those that nearly every clause has; none where it has no others."""
    return frozenset() if "a" in flags or HAN in pattern else _words(pattern) - _EVERYWHERE


def _words(pattern: str) -> frozenset[str]:
    """The words of a pattern, with and without an ending that may be missing."""
    literal = re.sub(r"\(\?P<\w>|\(\?[:!=]|\[[^\]]{0,300}\]|\\\w", " ", pattern)
    words = set(re.findall(r"[^\W\d_]+\??", literal.lower()))
    found = {word.removesuffix("?") for word in words} | {word[:-2] for word in words if word.endswith("?")}
    return frozenset(found)


FRAMES = [
    Frame(
        attribute,
        lazy_pattern(pattern, re.IGNORECASE),
        is_change="c" in flags,
        is_typed="t" in flags,
        is_personal="p" in flags,
        needs=_needs(flags, pattern),
        is_han=HAN in pattern,
        is_weak="w" in flags,
    )
    for attribute, flags, pattern in _FRAMES
]
# Words of which a clause that fits any frame has one, but for Chinese and Japanese, and for "a: b" and "a = b".
SIGNS = frozenset[str]().union(*(_words(pattern) for _, _, pattern in _FRAMES)) - (_EVERYWHERE - _VERBS)
