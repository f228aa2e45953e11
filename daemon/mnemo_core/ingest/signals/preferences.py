"""Detection of preferences: a taste, a habit, a form of address, a lasting instruction. SPEC 5.3

Three things count: the speaker's own preference ("I can't stand cilantro", "we never commit to main"), a lasting
request to the reader ("please always answer in German"), and a note about the user ("user prefers metric"). What
somebody else does ("he always comes late") is a fact about them and no signal: it would become a rule of how to treat
the wrong person. Neither is a question ("do you prefer tea?"), a remembered opinion ("I always thought so"), a polite
phrase ("I hate to bother you"), or a quotation.

Only the patterns whose cue word occurs are tried, so that a text without any costs one look at its words.
"""

import re

from mnemo_core.text.characters import HIRAGANA_CHARACTER, UNSPACED_CHARACTER
from mnemo_core.text.languages import words_of
from mnemo_core.text.lazy_patterns import lazy_pattern

_START = r"(?:^|[\n.!?;:,(•*>\-–—] ?|\band |\bbut |\bso |\bthen |\bok |\bplease |\bjust )"  # where an order can begin
# Before "I" or "we", these make a question of it, or somebody else's thought.
_ASKED_LIST = """
should do did does can could would must will shall have am why may said asked thinks thought
"""
_ASKED = frozenset(_ASKED_LIST.split())
_ADVERB = (
    r"(?: also| really| still| just| do| simply| absolutely| personally| generally| usually| mostly| much| strongly"
    r"| definitely| actually| honestly| particularly| especially| kinda| kind of| totally| truly| always| now| both"
    r"| all| quite| so| already| sometimes| secretly| typically| tend to)*"
)
_I = r"(?:i|we)(?<![\w']i)(?<![\w']we)"
_AM = rf"(?<![\w'])(?:i'm|i am|im|we're|we are){_ADVERB}"
_DONT = r" (?:don't|do not|dont|can't|cannot|cant|won't|will not|couldn't|can not)(?: really| ever| even| usually)*"
_THING = r"(?!it\b(?! when)|that\b|this\b|you\b|your\b|him\b|her\b(?! \w)|them\b|how\b|what\b|where\b)"
_VERBS = (
    "use|write|add|put|send|give|show|ask|suggest|touch|commit|push|include|explain|apologi[sz]e|schedule|book"
    "|remind|wake"
    "|make|call|email|text|quote|repeat|summari[sz]e|start|end|answer|reply|respond|format|translate|sign|order|buy"
    "|disturb|interrupt|delete|share|merge|deploy|mock|edit|run|check|assume|guess|sugarcoat|address|offer|recommend"
    "|keep|round|abbreviate|reformat|rename|store|save|tell|talk|speak|lecture|shorten|pad|print|log|install|change"
)
# After "I always", "I never": not a habit but a memory or an opinion.
_RECALLED = (
    r"(?! (?:thought|think|wonder|wondered|assumed?|believed?|knew|know|felt|feel|figured|said|say|told|wanted|hoped"
    r"|imagined|considered|had|been|was|were|got|did|saw|seen|heard|met|found|went|came|understood|meant|made"
    r"|took|gave"
    r"|mind|expected|noticed|reali[sz]ed|learned|learnt|tried|asked|suspected|dreamed|dreamt|mentioned|received"
    r"|bothered"
    r"|finished|managed|visited|happened|remember|forget)\b)"
)
_OF_HIM = r"is\b|was\b|[a-z]*[a-rt-z]s\b"  # "never misses": said of somebody else
# "always reminding me", "always full of life": how something is
_TOLD_OF = r"full\b|available\b|possible\b|[a-z]+(?:ing|[a-z]ed)\b(?<!\bneed)(?<!\bfeed)"
_CHEERED = r"give up\b|[^.?!\n]{0,40} yourself\b"  # to be cheered on is no rule
# After "everyone we love", "what I like": a relative clause, no preference.
_RELATIVE = r"(?!(?:is|was|are|were|has|had|makes?)\b)"
_LANGUAGES = (
    "english|german|french|spanish|italian|portuguese|dutch|chinese|mandarin|japanese|korean|russian|polish|turkish"
)

# cue word: a pattern for a text that has it, lower-cased, with straight apostrophes.
_ENGLISH: dict[str, str] = {
    "prefer": rf"{_I}(?:'d| would)?{_ADVERB} prefer\b(?! not to (?:say|answer))|{_START}prefer (?!not\b)\w",
    "prefers": r"(?:^|\n|[-*•.:;] ?|\busers? |\bcustomer )prefers \w",
    "preferred": (
        r"\bmy preferred\b"
        r"|(?<!the )(?<!a )\bpreferred (?:\w+ )?(?:name|pronouns|language|editor|contact|time|way)\b"
    ),
    "always": (
        rf"{_I}(?:'ve|'ll| have| will)? always{_RECALLED} (?!be t?here\b)\w|\bplease always\b"
        rf"|{_START}always (?!a\b|an\b|the\b|happy|nice|good|great|fun|t?here|on\b|welcome|remember|been|so\b|in\b"
        rf"|funny|{_OF_HIM}|{_TOLD_OF})\w"
        rf"|(?<!they )(?<!people )(?<!you )(?<!do )(?<!who )(?<!which )(?<!to )\balways (?:{_VERBS})\b(?! to be)"
        r"|\bi(?:'ve| have) always (?:loved|hated|preferred|liked|disliked|used|avoided|been (?:a|into))\b"
    ),
    "hate": rf"{_I}{_ADVERB} hate (?!to (?:say|admit|bother|ask|interrupt|break|tell|be|disappoint|see|do)\b){_THING}\w"
            r"|(?:^|\n|\buser )hates? (?!it\b|this|that|when you)\w+ing\b",
    "favorite": (
        r"\b(?:my|our|all-time|user's)(?: \w+){0,2} favorite|\bfavorite(?: \w+){1,3}(?: is| are|:)"
        r"|\ba favorite of mine"
    ),
    "favourite": (
        r"\b(?:my|our|all-time|user's)(?: \w+){0,2} favourite|\bfavourite(?: \w+){1,3}(?: is| are|:)"
        r"|\ba favourite of mine"
    ),
    "favorites": r"\b(?:my|our) favorites",
    "favourites": r"\b(?:my|our) favourites",
    "like": (
        rf"{_I}{_ADVERB} like {_THING}(?!the (?:idea|sound|look|way (?:you|he|she|they))|to (?:think|know|say"
        rf"|believe)|i\b){_RELATIVE}\w"
        rf"|{_I}{_DONT} like {_THING}(?!the (?:idea|sound|look))\w"
    ),
    "likes": r"(?:^|\n|[-*•] ?|\buser )likes \w",
    "dislikes": r"(?:^|\n|[-*•] ?|\buser )dislikes \w",
    "love": (
        rf"{_I}{_ADVERB} love {_THING}(?!to (?:hear|see|know)|the (?:idea|sound|new|way (?:you|he|she)))"
        rf"{_RELATIVE}\w"
    ),
    "enjoy": rf"{_I}{_ADVERB} enjoy {_THING}{_RELATIVE}\w",
    "dislike": rf"{_I}{_ADVERB} dislike {_THING}\w",
    "adore": rf"{_I}{_ADVERB} adore {_THING}\w",
    "avoid": rf"{_I}{_ADVERB}(?: try to| like to)? avoid \w|\bplease avoid\b|{_START}avoid (?!th(?:is|at)\b)\w+ing\b",
    "stand": rf"{_I}{_DONT} stand (?!by|up|in|for|on|out|here|there){_THING}\w",
    "bear": rf"{_I}{_DONT} bear (?!with|in|it\b|this|that)\w",
    "rather": (
        rf"{_I}(?:'d| would)(?: much| really| honestly)? rather\b(?! not say)"
        rf"|{_START}rather \w+ than \w|{_START}use [^.?!\n]{{1,30}} rather than"
    ),
    "fan": rf"{_AM}(?: not)?(?: a| such a)?(?: much of a| big| huge| great)? fan of\b|\bnever been a(?: big)? fan\b",
    "into": rf"{_AM}(?: not)?(?: really| big| very much)? into (?!th(?:is|at)\b|trouble|a\b|the\b|it\b)\w",
    "person": rf"{_AM}(?: not)?(?: a| more of a| such a| very much a)(?: \w+){{1,2}} person\b",
    "allergic": rf"{_AM} (?:very |severely |highly |mildly |badly |deathly )?allergic\b",
    "intolerant": rf"{_AM} \w+[- ]intolerant\b",
    "vegetarian": rf"{_AM}(?: a| an| basically| strictly| lifelong)* vegetarian|\bas a vegetarian",
    "vegan": rf"{_AM}(?: a| an| basically| strictly| lifelong)* vegan|\bas a vegan|\bgo(?:ne|ing)? vegan\b",
    "celiac": rf"{_AM}(?: a)? celiac|\bi have celiac",
    "coeliac": rf"{_AM}(?: a)? coeliac|\bi have coeliac",
    "eat": rf"{_I}{_DONT} eat (?!yet|now|today|it\b|this|that|anything|there|lunch|out\b)\w|{_I} only eat\b",
    "drink": rf"{_I}{_DONT} drink(?! yet| now| today| it\b| that)\b|{_I} only drink\b",
    "only": (
        rf"{_I} only (?:use|buy|wear|fly|work|take|listen|read|shop|ride|write|answer|want|cook|accept|reply"
        rf"|watch)\b"
    ),
    "usually": rf"{_I} usually{_RECALLED} (?!\w+ed\b)\w|\busually i \w",
    "normally": rf"{_I} normally{_RECALLED} (?!\w+ed\b)\w",
    "generally": rf"{_I} generally{_RECALLED} (?!\w+ed\b|agree)\w",
    "typically": rf"{_I} typically{_RECALLED} (?!\w+ed\b)\w",
    "tend": rf"{_I} tend (?:not )?to (?!think|agree|believe)\w",
    "never": (
        rf"{_I} never(?: ever)?{_RECALLED} (?!\w+ed\b|again)\w|\bplease never\b|\bnever ever (?:{_VERBS})\b"
        rf"|{_START}never(?: ever)?{_RECALLED} (?!\w+ed\b|again\b|a\b|the\b|been|in\b|too\b|so\b|before|end\b"
        rf"|{_CHEERED}|{_OF_HIM}|{_TOLD_OF})\w"
        rf"|(?<!they )(?<!people )(?<!you )(?<!which )(?<!to )(?<!could )(?<!would )\bnever (?!give up\b)(?:{_VERBS})\b"
    ),
    "don't": (
        rf"(?:^|[\n.!?;:,(•*>\-–—] ?|\bplease |\band |\bso "
        rf"|\bbut )(?:please )?don't(?: ever)? (?!{_CHEERED})(?:{_VERBS})\b(?! it\b| that\b)"
        rf"|\bdon't ever (?!{_CHEERED}|(?:be|quit|stop|doubt|lose|forget|let)\b)\w"
        r"|\bi don't want (?:any\b|you to)|\bwe don't (?:use|commit|push|deploy|merge|mock|do|allow)\b"
    ),
    "dont": rf"(?:^|[\n.!?;:,] ?|\bplease )(?:please )?dont(?: ever)? (?:{_VERBS})\b|\bdont ever \w",
    "not": r"\bnot my (?:thing|cup of tea|style|favou?rite)\b|\bplease do not (?!hesitate|worry|reply to this)\w",
    "call": (
        r"(?<!will )(?<!'ll )(?<!didn't )(?<!not )(?<!to )\bcall me (?!back|later|tomorrow|yesterday|at\b|when|if\b"
        r"|on\b|asap|soon|tonight|today|now|crazy"
        r"|again|after|before|once|any|in\b|from|about|for\b|please|maybe|as\b|to\b|and\b|with|or\b|but\b|yet|this"
        r"|next|\w+day\b)\w"
    ),
    "calls": r"\b(?:everyone|everybody|people) calls me \w",
    "from": r"\bfrom (?:now|here|today|this point) on(?:wards?)?\b",
    "forward": r"(?<!keep )(?<!keeps )(?<!kept )(?<!keeping )\bgoing forward\b",
    "future": r"\bin (?:the )?future,? (?:please|always|never|don't|use|just|only|i'd|ask|send|let)\b",
    "more": (
        rf"{_START}no more (?!than|time|questions?|info|room|money|left|news|space|updates?|errors?|issues?"
        rf"|problems?)\w"
        r"|\bi want no more\b"
    ),
    "no": (
        r"(?:^|[\n.!?;:,] ?)no (?!problem|worries|idea|way|thanks|one|need|rush|doubt|thank|sorry|yes"
        r"|more time)[\w -]{2,40}?,? (?:please|for me|ever)\b"
        r"|(?:^|[\n;:] ?)no (?:emojis?|exclamation|bullet|tables?|small talk|jargon|filler|apologies|trailing"
        r"|comments|semicolons|mocks|meetings|calls|sugar|dairy)\b"
    ),
    "stop": rf"(?:{_START}|\bcan you |\bcould you |\bwould you )stop (?!kidding|joking|worrying|trying|being)\w+ing\b",
    "best": (
        r"\bwork(?:s|ing)? best for (?:me|us)\b|\b(?:is|are) best for (?:me|us)\b|\bsuits me best\b|\bi (?:work"
        r"|sleep|think|focus) best\b|\bi like \w+ best\b"
    ),
    "better": (
        r"\bworks? better for (?:me|us)\b|\bsuits me better\b|\bi (?:work|sleep|think|focus) better\b"
        r"|\bi like [\w ]{1,30} better\b"
    ),
    "over": (
        rf"{_I}(?:'ll|'d)?{_ADVERB} (?:take|choose|pick|go for) [^.?!\n]{{1,40}} over\b"
        rf"|\bover [\w ]{{1,20}} any day\b"
    ),
    "use": (
        rf"(?:{_START}|\blet's )use (?:tabs|spaces|metric|celsius|fahrenheit|dark mode|light mode|british|american"
        rf"|oxford|snake_case|camelcase"
        r"|type hints|single quotes|double quotes|bullet|plain|informal|formal|du\b|sie\b|24|iso|utc|they\/them"
        r"|she\/her|he\/him)"
        rf"|(?:{_START}|\blet's |\bplease )use [^.?!\n]{{1,40}}?(?:,? not\b| instead of\b| and not\b)"
        rf"|\bplease use\b|{_I}{_DONT} use (?!it\b|that|this)\w"
    ),
    "stick": rf"(?:{_START}|\blet's |\bplease )stick (?:to|with) \w",
    "keep": (
        rf"(?:{_START})keep (?:it|them|things|answers|replies|responses|messages|emails|meetings|explanations"
        rf"|summaries|comments"
        r"|commits|functions|(?:your|the|all|my|every) \w+) (?:\w+ )?(?:short|brief|concise|simple|small|formal"
        r"|informal|casual|under"
        r"|below|in\b|polite|plain|minimal|private|to (?:one|two|three|\d))"
    ),
    "answer": (
        rf"(?:{_START}|\bcan you |\balways )answer (?:me )?(?:only )?in (?:{_LANGUAGES}|plain|bullet|short|one|full"
        rf"|simple)"
    ),
    "reply": (
        rf"(?:{_START}|\bcan you |\balways )reply (?:to me )?(?:only )?in (?:{_LANGUAGES}|plain|bullet|short|one"
        rf"|full|simple)"
    ),
    "write": rf"(?:{_START})write (?:to me )?in (?:{_LANGUAGES}|plain|bullet|short|full|simple)|\bi write (?:my|all)\b",
    "be": (
        rf"(?:{_START})be (?:more |very |less )?(?:brief|concise|direct|blunt|terse|formal|informal|verbose"
        rf"|succinct)\b"
    ),
    "answers": r"\b(?:short|brief|concise|long|detailed|direct) answers(?:,? please| only|\.|$)",
    "pronouns": r"\bmy pronouns\b",
    "drives": r"\bdrives me (?:crazy|nuts|insane|mad|up the wall)\b",
    "nerves": r"\b(?:gets?|getting) on my nerves\b",
    "thing": r"\b(?:is|are|isn't|aren't)(?: not| really| just)* my thing\b",
    "go-to": r"\bmy go-to\b",
    "obsessed": rf"{_AM} obsessed with\b",
    "live": r"\bcan't live without\b",
    "swear": rf"{_I} swear by\b",
    "hooked": rf"{_AM} hooked on\b",
    "beats": r"\bnothing beats \w",
    "take": r"\bi take my (?:coffee|tea|steak|eggs|whisky|whiskey)\b|\bi'll take [\w ]{1,20} over\b",
    "black": r"\bi (?:drink|have|like|want) my (?:coffee|tea) black\b",
}  # fmt: skip

_GERMAN: dict[str, str] = {
    "mag": r"\bich mag (?!mich|es sein)\w|\bmag ich (?:nicht|kein|gar|sehr|lieber|am|eigentlich|überhaupt)\b",
    "mögen": r"\bwir mögen \w",
    "bevorzuge": r"\bich bevorzuge\b|\bbevorzuge ich\b",
    "bevorzugen": r"\bwir bevorzugen\b",
    "bevorzugt": r"\b(?:nutzer|benutzer|user)(?:in)? bevorzugt\b",
    "hasse": r"\bich hasse (?!dich|es\b)\w|\bhasse ich\b",
    "liebe": r"\bich liebe (?!dich|euch)\w",
    "lieber": (
        r"\b(?:ich|wir|würde|hätte|mir|bitte)\b[^.?!\n]{0,40} lieber\b|\blieber [\wäöüß]+ als\b|(?:^"
        r"|[\n.!;] ?)lieber (?!herr|frau|\w+,|kunde|gott)[\wäöüß ]+ (?:als|statt)\b"
    ),
    "liebsten": r"\bam liebsten\b",
    "immer": (
        r"\bich (?!habe?\b|hab\b|dachte|war\b|wollte|bin\b|denke|glaub)[\wäöüß]+(?: [\wäöüß]+){0,3} immer\b(?! noch)"
        r"|\bbitte(?: [\wäöüß]+){0,3} immer\b|(?:^|[\n.!;:] ?)immer (?!noch|wieder|mehr|diese|das|so|gut)[\wäöüß]+ "
        r"|\bwir (?!haben|waren|dachten|wollten|sind)[\wäöüß]+(?: [\wäöüß]+){0,3} immer\b(?! noch)"
        r"|\bimmer (?:auf deutsch|duzen|siezen)"
    ),
    "nie": (
        r"\bbitte(?: [\wäöüß]+){0,3} nie\b|\bich (?!habe?\b|hab\b|war\b|dachte|wollte|bin\b|hätte|werde"
        r"|konnte)[\wäöüß]+(?: [\wäöüß]+){0,3} nie\b"
        r"|\bwir (?!haben|waren|hatten|sind)[\wäöüß]+(?: [\wäöüß]+){0,3} nie\b|\bnie (?:direkt|wieder|ohne|vor|nach"
        r"|mehr als)\b|(?:^|[\n.!;:] ?)nie [\wäöüß]+ "
    ),
    "niemals": r"\bbitte(?: [\wäöüß]+){0,3} niemals\b|\b(?:ich|wir) [\wäöüß]+(?: [\wäöüß]+){0,3} niemals\b",
    "kein": r"\bbitte kein\b|\bich (?:esse|trinke|vertrage|nehme|benutze|nutze|will) kein\b",
    "keine": (
        r"\bbitte keine\b|\bich (?:esse|trinke|vertrage|nehme|benutze|nutze|will) keine\b|(?:^"
        r"|[\n.!;:] ?)keine (?:emojis|abkürzungen|termine|anrufe|meetings)\b"
    ),
    "keinen": r"\bbitte keinen\b|\bich (?:esse|trinke|vertrage|nehme|mag|will) keinen\b",
    "nenn": r"\bnenn(?:e|t)? mich (?!nicht)\w",
    "ab": r"\bab (?:jetzt|sofort|heute)\b(?! verfügbar| gilt)",
    "nun": r"\bvon nun an\b",
    "künftig": r"\bkünftig (?:bitte|nur|nicht|immer)\b|\bbitte künftig\b",
    "zukunft": r"\bin zukunft (?:bitte|nur|nicht|immer|kein|keine)\b|\bbitte(?: [\wäöüß]+){0,2} in zukunft\b",
    "leiden": r"\bkann [\wäöüß ]{1,40}nicht leiden\b",
    "ausstehen": r"\bkann [\wäöüß ]{1,40}nicht ausstehen\b",
    "allergisch": r"\bich bin[\wäöüß ]{0,30} allergisch\b|\bbin allergisch\b",
    "allergie": r"\bich habe eine [\wäöüß-]*allergie\b",
    "vegetarier": r"\b(?:ich bin|bin) vegetarier",
    "vegetarierin": r"\b(?:ich bin|bin) vegetarierin",
    "vegetarisch": r"\b(?:ich|wir) (?:esse|essen|lebe|leben|ernähre)[\wäöüß ]{0,20} vegetarisch",
    "veganer": r"\bich bin veganer",
    "veganerin": r"\bich bin veganerin",
    "vegan": r"\b(?:ich|wir) (?:esse|essen|lebe|leben|bin|sind|ernähre)[\wäöüß ]{0,20} vegan",
    "hör": r"\bhör(?:e)? (?:bitte )?auf\b",
    "nur": r"\bbitte nur\b|\bich (?:esse|trinke|nutze|benutze|fahre|kaufe|arbeite) nur\b",
    "duz": r"\bduz(?:e|t)? mich\b",
    "besser": r"\bgefällt mir besser\b|\bpasst mir besser\b|\bich finde [\wäöüß ]{1,30} besser\b",
    "gefällt": r"\bgefällt mir (?:nicht|am besten|besser)\b",
    "nervt": r"\bnervt mich\b",
    "gerne": r"\bich [\wäöüß]+ (?:sehr |nicht )?gerne (?!wissen|haben|mal)\w",
    "gern": r"\bich [\wäöüß]+ (?:sehr |nicht )?gern (?!wissen|haben|mal)\w",
    "meistens": r"\bich [\wäöüß]+ meistens\b",
}  # fmt: skip
_GERMAN_FAVOURITE = lazy_pattern(
    r"\b(?:mein|meine|unser|unsere|meinem|meiner) lieblings\w+|\blieblings\w+ (?:ist|sind|:)"
)

_FRENCH: dict[str, str] = {
    "préfère": r"\bje préfère\b|\bmoi je préfère\b|\bon préfère\b",
    "préférerais": r"\bje préférerais\b",
    "préférons": r"\bnous préférons\b",
    "préféré": r"\b(?:mon|notre) [\w'àâçéèêëîïôûùüÿœ ]{0,25}préféré",
    "préférée": r"\b(?:ma|notre) [\w'àâçéèêëîïôûùüÿœ ]{0,25}préférée",
    "préférés": r"\b(?:mes|nos) [\w'àâçéèêëîïôûùüÿœ ]{0,25}préférés",
    "préférées": r"\b(?:mes|nos) [\w'àâçéèêëîïôûùüÿœ ]{0,25}préférées",
    "favori": r"\bmon [\w ]{0,20}favori\b",
    "aime": (
        r"\bj'aime (?!bien (?:ton|votre|cette idée)|ça\b|ton\b|ta\b|votre\b)\w|\bje (?:n'|ne l'|les "
        r"|l')?aime (?:pas|mieux|beaucoup)\b(?! (?:ça|ton|votre)\b)|\bj'aime pas (?!ça\b)\w"
    ),
    "aimerais": r"\bj'aimerais (?:mieux|autant)\b",
    "adore": r"\bj'adore (?!ça\b|ton|ta\b|votre)\w",
    "déteste": r"\bje déteste\b",
    "hais": r"\bje hais\b",
    "horreur": r"\bj'ai horreur d",
    "supporte": r"\bje (?:ne )?supporte pas\b",
    "toujours": (
        r"\bje (?!suis|pense|croyais|pensais|savais|voulais|n'ai)[\w'éèêàç]+ (?:presque )?toujours\b"
        r"|\bnous [\wéèê]+ons toujours\b|\b(?:merci de |veuillez |s'il (?:te"
        r"|vous) plaît,? )[\w éèêà']{0,30}toujours\b|(?:^|[\n.!;:,] ?)toujours [\wéè]+(?:er|ir|re)\b|(?:^"
        r"|[\n.!;:,] ?)(?:utilise|réponds|écris|mets|demande|répondez|utilisez)[\w ]{0,15} toujours\b"
    ),
    "jamais": (
        r"\bje (?:ne |n')[\wéèêàç]+ jamais\b|\b(?:on|nous) (?:ne |n')[\wéèêàç]+ jamais\b"
        r"|\bne [\wéè']+(?:-\w+)? (?:plus )?jamais\b|(?:^|[\n.!;:,] ?)jamais de\b|\bplus jamais\b"
    ),
    "appelle": r"\bappelle-moi (?!demain|plus|quand|ce|à|dès|si|lundi|mardi|mercredi|jeudi|vendredi)\w",
    "tutoie": r"\btutoie-moi\b|\bon se tutoie\b",
    "tutoyer": r"\bme tutoyer\b",
    "désormais": r"\bdésormais,? (?!disponible)\w",
    "dorénavant": r"\bdorénavant\b",
    "partir": r"\bà partir de (?:maintenant|d'aujourd'hui)\b",
    "allergique": r"\bje suis [\wèé ]{0,20}allergique\b",
    "végétarien": r"\bje suis végétarien\b",
    "végétarienne": r"\bje suis végétarienne\b",
    "végane": r"\bje suis végane\b",
    "végan": r"\bje suis végan\b",
    "mange": r"\bje (?:ne )?mange (?:pas|plus|jamais) d",
    "bois": r"\bje (?:ne )?bois (?:pas|plus|jamais) d",
    "arrête": r"\barrête(?:z)? d(?:e |')\w",
    "évite": r"\b(?:j'évite|évite(?:z)? d(?:e |'))",
    "évitez": r"\bévitez\b",
    "plutôt": r"\bje (?:prends|bois|mange|suis) plutôt\b",
    "plaît": r"\bs'il (?:te|vous) plaît,? (?:pas d|jamais|toujours)|\bpas d[e'][\w ]{1,30} s'il (?:te|vous) plaît\b",
    "habitude": r"\bj'ai l'habitude d",
}  # fmt: skip

# Chinese and Japanese: words are not separated, so a few characters serve as the cue.
_CHINESE = lazy_pattern(
    r"(?:我|我们|俺|本人|用户)(?!以为)(?:[^，。！？；\n你他她问]{0,6})?(?:不?喜欢|讨厌|偏好|偏爱|更爱|最爱|热爱|不爱|受不了|习惯(?!性)|倾向于?|宁愿|宁可|过敏|吃素"
    r"|只用|只喝|只吃|不吃|不喝)"
    r"|我对[^，。！？\n]{1,10}过敏|(?:最喜欢|最讨厌)的|我(?:一般|通常|总是|从不|从来不)(?![^，。\n]{0,3}以为)"
    r"|请(?:你|您)?(?:不要|别|勿|总是|始终|一直|务必每次|永远|都用|统一|以后)|(?:以后|今后|从现在(?:起|开始)|从今以后)[^。！？\n]{0,12}(?:都|请|不要|别|要|一律|只|用)"
    r"|(?:不要|别)再[^了。，]{1,12}|(?:叫我|称呼我)(?!去|来|做|干|帮|回|别|不)[^，。！？\s]|一律用|我们(?:从不|从来不|不允许)"
)
_JAPANESE = lazy_pattern(
    r"(?:大?好き|大?嫌い|苦手|好み|お気に入り)(?!ですか|なの[？?]|でしょうか|ですよね[？?]|[？?]|かな)"
    r"|いつも(?!お世話|ありがと|すみません)[^。！？\n]{1,30}(?:ください|下さい|ます(?!か)|ている(?!の)|てる|にする|にして|いる。)"
    r"|(?:必ず|絶対に|今後は?|これから(?:は|も)|次から|毎回)[^。！？\n]{1,30}(?:ください|下さい|ないで|して(?:ね|ほしい)|する)"
    r"|(?:し|か|わ|ば|さ|ら|せ|け|べ|て|れ|え|ま|入れ|使わ)ないで(?:ください|下さい|ほしい|ね|。|$)"
    r"|(?:ほう|方)が(?:いい|良い|好|楽|助か)|(?:と|って)呼んで|(?:私|僕|俺|自分)[^。\n]{0,6}アレルギー|アレルギーが(?:あり|ある)|ベジタリアンです|(?:私"
    r"|僕)は[^。\n]{0,8}食べません"
    r"|(?:するの|の)はやめて(?:ください|ほしい|ね)?|派です"
)

_PATTERNS: dict[str, tuple[re.Pattern[str], ...]] = {}
for _cue, _pattern in (*_ENGLISH.items(), *_GERMAN.items(), *_FRENCH.items()):
    _PATTERNS[_cue] = (*_PATTERNS.get(_cue, ()), lazy_pattern(_pattern, re.MULTILINE))
_CUES = _PATTERNS.keys()

_STRAIGHT = tuple((c, "'") for c in "’‘ʼ") + tuple((c, '"') for c in "“”„«»") + (("\u00a0", " "), ("\u202f", " "))
_CODE = lazy_pattern(r"```.*?(?:```|\Z)", re.DOTALL)
# Words of another person, or a reported question: not the writer's own.
_QUOTED = lazy_pattern(
    r"\"[^\"\n]{0,300}\?\"|\"[^\"\n]{0,300}\"(?=,? ?(?:\w+ )?(?:said|says|asked|asks|wrote|writes|shouted"
    r"|replied|sagte|fragte|dit\b|demande))"
    r"|\b(?:said|says|asked|asks|wrote|writes|sings|shouted|sagte|fragte|a dit)[:,]? ?\"[^\"\n]{0,300}\""
)
_ASIAN_QUOTED = lazy_pattern(
    r"[「『“\"][^」』”\"\n]{0,200}[」』”\"](?=と(?:言|い|聞|思|書)|他说|她说|他们说)|(?:他|她|人家|有人)[^，。\n]{0,4}(?:说"
    r"|问)[：，:“「\"][^。\n]*"
)


_REST_OF_WORD = lazy_pattern(r"\w*")
CLAUSE_CHARS_MAX = 120
_BEFORE_CHARS, _AFTER_CHARS = 48, 64  # how far around its cue word a pattern reaches


def find_preference(text: str) -> str:
    """The words that express a preference, in small letters; "" when there are none."""
    plain = text.lower()
    is_ascii = plain.isascii()
    if not is_ascii:
        for crooked, straight in _STRAIGHT:
            plain = plain.replace(crooked, straight)
    if "```" in plain:
        plain = _CODE.sub(" ", plain)
    if '"' in plain:
        plain = _QUOTED.sub(" ", plain)
    found = [match for cue in _cues(plain) if (match := _find(cue, plain))]
    if not is_ascii and UNSPACED_CHARACTER.search(plain):
        unquoted = _ASIAN_QUOTED.sub(" ", plain)
        if match := (_JAPANESE if HIRAGANA_CHARACTER.search(unquoted) else _CHINESE).search(unquoted):
            return match.group()
    if "lieblings" in plain and (match := _GERMAN_FAVOURITE.search(plain)):
        found.append(match)
    return _shown(plain, min(found, key=re.Match.span)) if found else ""


def _shown(plain: str, match: re.Match[str]) -> str:
    """The match, extended to the end of its last word."""
    rest = _REST_OF_WORD.match(plain, match.end()) if match.group()[-1:].isalnum() else None
    return plain[match.start() : rest.end() if rest else match.end()].strip(" \n.,;:!?-*•>(")


def _find(cue: str, plain: str) -> re.Match[str] | None:
    """The first match of the cue's patterns that is no question and not about others."""
    place = plain.find(cue)
    while place >= 0:
        for pattern in _PATTERNS[cue]:
            match = pattern.search(plain, max(0, place - _BEFORE_CHARS), place + _AFTER_CHARS)
            if match and not (_is_asked(plain, match.start()) or _is_of_others(plain, match)):
                return match
        place = plain.find(cue, place + len(cue))
    return None


def _is_asked(plain: str, start: int) -> bool:
    if not plain.startswith(("i ", "i'", "we ", "we'"), start):
        return False
    return plain[max(0, start - 12) : start].rstrip().rpartition(" ")[2] in _ASKED


_THEY = lazy_pattern(r"\s*(?:they|he|she|it|who|which)(?:'\w+)? ")


def _is_of_others(plain: str, match: re.Match[str]) -> bool:
    """Return whether a match that begins with `and` continues a sentence about others: "they are my rock and always
    cheer me on"."""
    if not match.group().startswith("and "):
        return False
    clause = re.split(r"[.?!;:,\n]", plain[max(0, match.start() - CLAUSE_CHARS_MAX) : match.start()])[-1]
    return _THEY.match(clause) is not None


def _cues(plain: str) -> set[str]:
    """The cue words that the text has, also within `j'adore` and `go-to`."""
    words = words_of(plain)
    if "-" in plain:
        words.update([part for word in words if "-" in word for part in word.split("-")])
    return words & _CUES
