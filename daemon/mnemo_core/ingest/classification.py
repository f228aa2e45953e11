"""Rule-based classification of a text: kind, form and category, with the reasons. SPEC 5.4 [L 1.6, E, M]

For the kind, the first rule that holds:
  1 what the caller gives
  2 a step of an agent's run                                  → procedural, step
  3 a preference signal                                       → procedural, preference
  4 about now or this session, and there is a session         → working; never in a note
  5 instructions in steps                                     → procedural, workflow
  6 a statement of subject, predicate and object              → semantic
  7 anything else                                             → episodic
For the category: what the caller gives, preference, decision, project, request, result, crumb, in this order, and fact
for the rest. `fact` and not `crumb` is what is left over, because a crumb is summarised nowhere (SPEC 18): what nobody
could name must not be what is lost first. An ask or small talk states nothing, so rule 6 does not apply to it.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from mnemo_core.ingest.fact_extraction import extract_triple
from mnemo_core.ingest.policies import OWN_POLICY, IngestPolicy, preference_source_l
from mnemo_core.ingest.signals.preferences import find_preference
from mnemo_core.text import lexicon
from mnemo_core.text.code_mask import mask_code
from mnemo_core.text.dates.date_patterns import IDEOGRAPH, words_in
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.segmentation import sentences
from mnemo_store.records import Category, Form, Kind

Role = Literal["", "user", "agent"]


class Classification(NamedTuple):
    """Kind, form and category of a text, and the signals that decided them, for `--explain`."""

    kind: Kind
    form: Form | None
    category: Category
    why: str


class _Signal(NamedTuple):
    """A pattern, and the words of which a text must have one to be worth searching."""

    needs: frozenset[str]
    pattern: re.Pattern[str]

    def find(self, text: str, words: set[str]) -> str:
        """The match of the pattern in a text of these words, "" for none."""
        if self.needs.isdisjoint(words):
            return ""
        found = self.pattern.search(text)
        return found.group() if found else ""


_CJK = frozenset({IDEOGRAPH})


class _CategoryMatch(NamedTuple):
    """A finding: what it makes of the text, and by what."""

    category: Category
    why: str


def classify(
    text: str,
    *,
    session_id: str = "",
    tags: Sequence[str] = (),
    kind: Kind | None = None,
    category: Category | None = None,
    role: Role = "",
    from_note: bool = False,
    has_evidence: bool = False,
    has_trace: bool = False,
    policy: IngestPolicy = OWN_POLICY,
) -> Classification:
    """Kind, form and category of a text; what the caller gives is never overruled.

    role is the speaker's in a conversation, "" where there is none. has_evidence: paths, URLs or ids were given with
    it. has_trace: it is a step of an agent's run.
    """
    if policy.routing == "defaults":
        return _by_defaults(kind, category, role, has_trace, policy)
    if policy.routing == "L":
        return _by_letter(text, session_id, kind, category, role, from_note, policy)
    signal = find_preference(text)
    words = words_in(text)
    seen = _category(text, words, tags, role, has_evidence, signal)
    in_session = bool(session_id) and not from_note
    chosen, form, why = _kind(text, words, in_session, has_trace, signal, seen, category)
    if kind is not None:
        form = _form_of_given(kind, form)
        chosen, why = kind, "kind given"
    if category is not None:
        return Classification(chosen, form, category, f"{why}; category given")
    return Classification(chosen, form, seen.category, f"{why}; {seen.why}" if seen.why else why)


def _kind(
    text: str,
    words: set[str],
    in_session: bool,
    has_trace: bool,
    signal: str,
    seen: _CategoryMatch,
    category: Category | None,
) -> tuple[Kind, Form | None, str]:
    if has_trace or _RUN_STEPS.match(text):
        return "procedural", "step", "a step of a run"
    if signal:
        return "procedural", "preference", f"preference: {_shown(signal)}"
    if category == "preference":
        return "procedural", "preference", "given as a preference"
    if in_session and (now := about_now(text, words)):
        return "working", None, f"about now: {_shown(now)}"
    if steps := _instructions(text):
        return "procedural", "workflow", f"instructions: {_shown(steps)}"
    if seen.category in ("request", "crumb"):
        return "episodic", None, "states nothing"
    if stated := extract_triple(text):
        return "semantic", None, f"states: {_shown(' | '.join(stated))}"
    return "episodic", None, "no rule holds"


def _form_of_given(kind: Kind, found: Form | None) -> Form | None:
    """Procedural alone has a form; one that shows no other is a how-to, which is what procedural means in [G 1]."""
    return (found or "workflow") if kind == "procedural" else None


def _category(
    text: str, words: set[str], tags: Sequence[str], role: Role, has_evidence: bool, signal: str
) -> _CategoryMatch:
    """The category by what the text says; `fact` without a reason where it says nothing of the kind."""
    if signal:
        return _CategoryMatch("preference", "")
    if choice := _CHOICE.find(text, words) or _CHOICE_CJK.find(text, words):
        return _CategoryMatch("decision", f"decision: {_shown(choice)}")
    if tag := next((tag for tag in tags if tag.startswith("project:")), ""):
        return _CategoryMatch("project", f"project: tag {tag}")
    if goal := _GOAL.find(text, words) or _GOAL_CJK.find(text, words):
        return _CategoryMatch("project", f"project: {_shown(goal)}")
    if ask := _ask(text, words, role):
        return _CategoryMatch("request", f"request: {_shown(ask)}")
    if outcome := _outcome(text, has_evidence):
        return _CategoryMatch("result", f"result: {_shown(outcome)}")
    if is_small_talk(text):
        return _CategoryMatch("crumb", "crumb: small talk")
    return _CategoryMatch("fact", "")


def _shown(found: str) -> str:
    """A finding, as one short line."""
    line = " ".join(found.split())
    return line if len(line) <= 60 else line[:59] + "…"


# By the letter of a source


def _by_defaults(
    kind: Kind | None, category: Category | None, role: Role, has_trace: bool, policy: IngestPolicy
) -> Classification:
    """No rules: what the caller gives, else the profile's own. A step of a run is procedural in every one [E]."""
    usual = policy.category_turn if role else policy.category
    chosen: Kind = kind or ("procedural" if has_trace else policy.kind)
    form: Form | None = None
    if chosen == "procedural":
        form = "step" if has_trace else "workflow"
    return Classification(chosen, form, category or usual, f"profile {policy.name}: its defaults")


def _by_letter(
    text: str,
    session_id: str,
    kind: Kind | None,
    category: Category | None,
    role: Role,
    from_note: bool,
    policy: IngestPolicy,
) -> Classification:
    """Classify by source L's rules: hint, preference signal, present session, subject-predicate-object, else episodic.
    [L 1.6, L15]

    L always has a session; without one, no text can be about it.
    """
    signal = preference_source_l(text)
    now = _NOW_BY_LETTER.search(text) if session_id and not from_note else None
    if signal:
        found: Kind = "procedural"
        why = f"preference: {_shown(signal)}"
    elif now:
        found, why = "working", f"about now: {now.group()}"
    elif extract_triple(text):
        found, why = "semantic", "a statement"
    else:
        found, why = "episodic", "no rule holds"
    chosen = kind or found
    form: Form | None = None
    if chosen == "procedural":
        form = "preference" if signal else "workflow"
    usual = "preference" if signal else policy.category_turn if role else policy.category
    return Classification(chosen, form, category or usual, f"profile L: {'kind given' if kind else why}")


_NOW_BY_LETTER = lazy_pattern(r"\b(?:right now|now|currently|this session|today)\b", re.IGNORECASE)  # [L15]


# About now, or this session

_DOING = r"(?:I['’]m|I am|we['’]re|we are)(?: just| still| only| also| now)*"
# What is done in minutes or hours. What goes on for weeks is no matter of one session, though it is said to be so now
# ("I'm currently reading Dune"): kind `working` is hidden from every other session, so this is the short list.
_BRIEFLY = (
    r"(?:debugg|fix|refactor|rebas|test|edit|review|runn|install|deploy|restart|compar|merg|updat|clean|check|rewrit"
    r"|migrat|renam|trac|patch|profil|upgrad|compil|build(?=ing the)|rebuild)\w*ing\b"
    r"|\b(?:looking (?:at|into)|writing (?:the|a|an|some|tests?)|trying to|stuck (?:on|at|with))\b"
)
_STARTING = r"about to (?:restart|run|push|commit|deploy|merge|start|try|open|install|rebase|test|delete|rename)\b"
_AT_PRESENT = r"(?:right now|at the moment|just now|as we speak|at this moment)"
# A state that will not last: "Right now the tests are failing."
_SOMETHING = r"(?:the|our|my|this|that|these|all|ci|it|everything|nothing)(?: [\w'’-]{1,30}){0,4}?"
_PASSING = (
    r"(?:still |all |not |completely |only )?(?:failing|broken|down|red|green|stuck|offline|online|blocked|flaky"
    r"|crashing|hanging|running|unreachable|passing|loading|building|compiling|restarting|waiting|timing out"
    r"|locked|frozen|empty|full|busy|responding|working|up again)\b"
)
_NOW = _Signal(
    lexicon.words("classification", "now"),
    lazy_pattern(
        "|".join(
            (
                r"\b(?:in|for|during|of) (?:this|the current|our) (?:session|chat|conversation|thread)\b",
                r"\b(?:for the )?rest of (?:this|the|our) (?:session|chat|conversation)\b",
                rf"\b(?:{_AT_PRESENT}|currently|now|today),? {_DOING} (?:{_BRIEFLY}|{_STARTING}|in the middle of)",
                rf"\b{_DOING} (?:currently|right now|now|at the moment) (?:{_BRIEFLY})",
                rf"\b{_DOING} {_STARTING}",
                rf"\b{_DOING} (?:currently )?in the middle of (?:{_BRIEFLY})",
                rf"\b{_DOING} (?:{_BRIEFLY}|working on|stuck)[^.!?\n]{{0,120}}?\b(?:{_AT_PRESENT}|today)\b",
                rf"\b{_AT_PRESENT},? {_DOING} working on\b",
                rf"(?:^|[.!?]\s+)(?:{_AT_PRESENT}|now),? {_SOMETHING} (?:is|are|isn['’]t|aren['’]t) {_PASSING}",
                rf"(?:^|[.!?]\s+){_SOMETHING} (?:is|are|isn['’]t|aren['’]t) {_PASSING}[^.!?\n]{{0,60}}?"
                rf"\b(?:{_AT_PRESENT}|now)(?=[.!?,;]|$)",
                r"(?:^|[.!?]\s+)today,? (?:we are|we['’]re|let['’]s)(?: just| only)? (?:\w+ing\b|\w+)",
                r"(?:^|[.!?;]\s+)(?:just )?for now,? (?!bye)\w+"
                r"|\b(?:ignore|skip|leave|use|keep) [^.!?\n]{1,60} for now\b",
                r"\bthe current (?:task|step|error|branch|file) (?:is|fails)\b",
                # German, French
                r"\b(?:in|für) (?:dieser|diese|unserer) (?:Sitzung|Unterhaltung|Session)\b",
                r"\bich (?:debugge|teste|repariere|korrigiere|prüfe|schreibe) (?:gerade|im Moment)\b",
                r"\b(?:gerade|im Moment) (?:debugge|teste|repariere|korrigiere|prüfe|schreibe) ich\b",
                r"(?:^|[.!?]\s+)heute (?!\w*(?:ist|war|habe|haben|waren)\b)\w+en wir\b",
                r"\b(?:dans|pour|pendant) cette (?:session|conversation)\b",
                r"\ben ce moment,? (?:je|on|nous) (?:corrig|test|débogu|répar|vérifi|install|compar|refactoris)\w+",
            )
        ),
        re.IGNORECASE,
    ),
)
_NOW_CJK = _Signal(
    _CJK,
    lazy_pattern(
        r"(?:本次|这次|這次|当前|當前)(?:会话|會話|对话|對話)|(?:现在|現在|目前|此刻)?(?:我|我们|我們|咱们)(?:现在|現在|目前)?正在|今天(?:我们|我們|我)(?:要|来|來|先)"
        r"|(?:この|今回の)(?:セッション|会話|チャット)|(?:今|いま|現在)、?[^。！？\n]{0,60}(?:している|しています|中です|ところです)"
        r"|今日は[^。！？\n]{0,60}(?:します|しましょう|やります)"
    ),
)


def about_now(text: str, words: set[str]) -> str:
    """The words that tie the text to the present moment or session, after which it will not matter; "" where there are
    none.

    Where someone lives or works now does not count: it stays true.
    """
    return _NOW.find(text, words) or _NOW_CJK.find(text, words)


# Decisions and projects

_CHOICE = _Signal(
    lexicon.words("classification", "choice"),
    lazy_pattern(
        "|".join(
            (
                r"\b(?:I|we|they|he|she|team|everyone|management|board|committee)(?:['’]ve| have| has|['’]d| had)?"
                r"(?: all| both| finally| now| just| jointly| also| together)*"
                r" (?:decided|chose|chosen|opted|settled on|agreed|resolved|picked(?! (?:\w+ )?up)|selected"
                r"|ruled out|committed to|voted)\b",
                r"\blet['’]s (?:go with|go for|use|stick (?:with|to)|settle on|drop|switch to|adopt|not use"
                r"|keep (?:the|this|that|both))\b",
                r"\b(?:we|I)(?:['’]ll| will| are|['’]re|['’]m| am)? (?:going|go) (?:with|for)\b|\bwent with\b",
                r"\bdecision(?: made)?:|\b(?:the|our|my|final) decision (?:is|was)\b|\bit (?:was|is"
                r"|has been) (?:decided|agreed)\b",
                r"\bdecided (?:to|on|against|that|not)\b|^(?:agreed|decided|resolved)\b[: ]",
                r"\b(?:my|our|the) (?:choice|pick) (?:is|was)\b|\b(?:I|we) made up (?:my|our) mind",
                r"\b(?:habe|haben|hat|hatten) (?:ich |wir |man )?(?:mich|uns"
                r"|sich)?\b[^.!?\n]{0,60}\b(?:entschieden|geeinigt|festgelegt)\b",
                r"\b(?:entschieden|geeinigt|beschlossen)\b|\bEntscheidung:|\bwir (?:nehmen|bleiben bei)\b",
                r"\b(?:ai|as|a|avons|avez|ont|est|sommes)\b[^.!?\n]{0,20}\b(?:décidé|choisi|opté|convenu"
                r"|tranché)\b|\bdécision :",
            )
        ),
        re.IGNORECASE,
    ),
)
_GOAL = _Signal(
    lexicon.words("classification", "goal"),
    lazy_pattern(
        "|".join(
            (
                r"\b(?:(?:the|our|my|main|its|project['’]?s?) (?:goal|aim|objective|milestone|roadmap)"
                r"|(?:our|my|main|project['’]?s?) target)s?\b[^.!?\n;*`]{0,40}"
                r"\b(?:is|are|was|:)|\b(?:goal|milestone|roadmap|objective)s?:",
                r"\b(?:the )?project (?:\w+ )?(?:aims|goal|plan|is about|will|starts|started|deadline)\b",
                r"\b(?:aims? to|aiming to|(?:is|are) meant to (?:become|replace))\b",
                r"\b(?:we|I)(?:['’]re|['’]m| are| am) (?:building|developing|launching|planning to (?:build"
                r"|launch|ship|release))\b",
                r"\b(?:Ziel|Meilenstein|Projektziel) (?:ist|war|sind)\b"
                r"|\bwir (?:bauen|entwickeln) (?:ein|eine|einen)\b",
                r"\b(?:l['’]|notre |mon )(?:objectif|but) (?:est|était)\b|\bnous (?:développons|construisons)\b",
            )
        ),
        re.IGNORECASE,
    ),
)
_CHOICE_CJK = _Signal(
    _CJK,
    lazy_pattern(
        r"(?:我们|我們|我|大家|团队|團隊|咱们)?(?:最终|最終|已经|已經|一致)?(?:决定|決定)(?:了|用|不|采用|採用|选|選|改|在|把|从|從|去|将|將|:|：|使用|放弃|放棄)"
        r"|(?:选择|選擇)了|选定|敲定|就用[^。！？]{1,20}吧|決めた|決めました|決まった|決まりました|することにした|することにしました|にしよう"
        r"|に決定|を採用"
    ),
)
_GOAL_CJK = _Signal(
    _CJK,
    lazy_pattern(
        r"(?:目标|目標|里程碑|目的)(?:是|为|為|は|：|:)|(?:项目|項目|プロジェクト)(?:的|の)(?:目标|目標|目的)|正在开发|正在開發|を開発している"
    ),
)

# Asks

_ASK = _Signal(
    lexicon.words("classification", "ask"),
    lazy_pattern(
        "|".join(
            (
                r"(?:^|[.!?,;:\n][^\S\n]*|\b(?:hey|hi|hello|please|so|and|also|ok|okay)\b[ ,]*(?:\w+, )?)"
                r"(?:can|could|would|will) (?:you|someone|anyone)\b(?! (?:believe|imagine))",
                r"(?:^|[.!?;:\n][^\S\n]*)(?:\w+, )?please\b(?:,)?"
                r" (?!note that\b|see\b|refer\b|consult\b|be aware\b)\w+|\b(?:send|give|tell|show|let|remind|help"
                r"|call|text|email) (?:me|us)\b[^.!?\n]{0,300}\bplease\b",
                r"(?:^|[.!?;:\n,][^\S\n]*)(?:please )?(?:remind|tell|show|send|give|help) (?:me|us)\b"
                r"|\bplease let me know\b",
                r"\bdon['’]t let me forget\b|\bdo me a favou?r\b|\bcan I (?:ask|get) you\b|\bmind if you\b"
                r"|\bwould you mind\b",
                r"\bI(?:['’]d| would) (?:like|love) (?:you|it if you)\b|\bI (?:need|want) you to\b"
                r"|\basked (?:me|us) (?:to|if|for|whether)\b",
                r"\b(?:kannst|könntest|würdest) du\b|\b(?:können|könnten|würden) Sie\b|(?:^"
                r"|[.!?;:\n][^\S\n]*)bitte\b \w+|\berinner(?:e)? mich\b",
                r"\b(?:peux|pourrais|veux)[- ]tu\b|\b(?:pouvez|pourriez)[- ]vous\b|\brappelle[- ]moi\b"
                r"|\bs['’]il (?:te|vous) pla[iî]t\b",
            )
        ),
        re.IGNORECASE,
    ),
)
_ASK_CJK = _Signal(
    _CJK,
    lazy_pattern(
        r"(?:^|[。！？，,\n])(?:请|請)(?!假)(?:你|您|帮|幫|把|给|給|提醒|告诉|告訴|问|問|发|發|记得|記得)|(?:能不能|可以|能否|能)(?:帮|幫)|帮我|幫我|提醒我|麻烦你|麻煩你"
        r"|してください|して下さい|てください|してくれ|お願いします|もらえますか|いただけますか|くれますか|くれませんか"
    ),
)
_QUESTION = lazy_pattern(r"[?？]|(?:吗|嗎|呢|ですか|ますか|でしょうか)[。]?$")


def _ask(text: str, words: set[str], role: Role) -> str:
    """The words that ask for something to be done or told; "" where there are none.

    A question is an ask where a user puts it and states nothing else; a text that tells something and then asks "and
    you?" is a statement. An agent's question is no request to anyone but its reader.
    """
    if role == "agent":
        return ""
    if found := _ASK.find(text, words) or _ASK_CJK.find(text, words):
        return found.strip(" .!?,;:\n") or found
    if role == "user":
        said: list[str] = [part for part in sentences(text) if not _is_pleasantry(part)]
        if said and all(_QUESTION.search(part) for part in said):
            return said[0]
    return ""


# Outcomes

_OUTCOME = lazy_pattern(
    r"\b(?<!is )(?<!are )(?<!be )(?<!being )(?:created|written|generated|produced|exported|reached|improved|reduced)\b"
    r"|\b(?:pass(?:ed|es|ing)?|fail(?:ed|s)|finished|completed|deployed|shipped|released|published|merged"
    r"|fixed|resolved|solved|closed|done"
    r"|measured|achieved|uploaded|results?|outcome|output|summary"
    r"|report|benchmarks?|findings?|accuracy"
    r"|succeeded|successful|green|dropped|verified|reproduced|confirmed|wrote"
    r"|fertig|abgeschlossen|bestanden|Ergebnis|Bericht|veröffentlicht|behoben|terminée?s?|réussie?s?"
    r"|résultats?|rapport|publiée?s?|corrigée?s?)\b"
    r"|完成|通过|通過|结果|結果|成功|失败|失敗|修复|修復|报告|報告|発表|終わった|完了|上线|上線",
    re.IGNORECASE,
)
WHOLE_CHARS_MAX = 280  # a longer text is about several things: only evidence next to the outcome counts
_POINTER = lazy_pattern(
    r"https?://\S+|\bfile://\S+|(?:^|[\s(`'\"])(?:~|\.{1,2})?/?(?:[\w.-]+/)+[\w.-]+\.\w{1,5}\b"
    r"|\b(?=[a-f]*\d)[0-9a-f]{7,40}\b(?=[\s).,;]|$)|\B#\d+\b",
    re.IGNORECASE,
)


def _outcome(text: str, has_evidence: bool) -> str:
    """The words that state a result, where there is evidence: given with the text, or a URL, path, commit or number in
    it."""
    if not has_evidence and _POINTER.search(text) is None:
        return ""
    said = sentences(mask_code(text))
    for at, sentence in enumerate(said):
        if not has_evidence and len(text) > WHOLE_CHARS_MAX and not any(map(_POINTER.search, said[at : at + 2])):
            continue
        if found := _OUTCOME.search(_POINTER.sub(" ", sentence)):
            return found.group()
    return ""


# Small talk

_TALK_WORDS = (
    r"hi+|hello+|hey+|yo|hiya|howdy|good (?:morning|afternoon|evening|night|day|to see you"
    r"|to hear from you|luck|job|one|idea|point|to know)|morning"
    r"|bye+|goodbye|see (?:you|ya)(?: (?:later|soon|tomorrow|around|then))?|later|take care"
    r"|have a (?:good|great|nice|lovely) \w+|cheers|welcome back"
    r"|thanks?(?: you)?(?: (?:so much|a lot|very much|again|a million|for (?:your|the) help|for that"
    r"|anyway))*|thank you(?: \w+){0,3}|thx|ty|no (?:problem|worries|thanks)"
    r"|(?:you['’]re|you are) welcome|welcome|my pleasure|don['’]t mention it|anytime"
    r"|ok(?:ay)?|k|kk|sure(?: thing)?|yes|yep|yeah+|yup|no|nope|nah|right|alright|all right|fine|got it"
    r"|I see|makes sense|of course|absolutely|exactly|totally|agreed"
    r"|cool|great|nice(?: (?:one|work|to meet you))?|awesome|perfect|wow+|amazing|lovely|sweet|wonderful"
    r"|that['’]s (?:so )?(?:great|nice|good|cool|awesome|wonderful|amazing|fine|right|true|all|it|lovely"
    r"|fantastic)|sounds (?:good|great|fun|nice|like a plan)|well done|congrats|congratulations"
    r"|(?:ha)+h?|(?:he)+h?|lol|lmao|haha\w*|oh+|ah+|hm+|mhm|oops|sorry|my bad|never ?mind|no way|really"
    r"|so true|same here|me too|I agree|totally agree|not bad|not much"
    r"|how(?:['’]s it going|['’]s (?:everything|life)| are (?:you|things)(?: (?:doing|today|going))?"
    r"| have you been| do you do| about you)|what['’]s up|and you|what about you"
    r"|I(?:['’]m| am) (?:good|fine|great|ok|okay|well|doing well)(?:,? thanks)?|long time no see|there"
    r"|everyone|all|guys|team|folks|buddy|mate|friend|man|dude|today|too|so|well|then|again|and|very|much"
    r"|hallo|moin|servus|guten (?:morgen|tag|abend)|gute nacht|danke(?: (?:schön|sehr|dir|ihnen))?"
    r"|vielen dank|bitte(?: schön| sehr)?|tschüss|bis (?:später|bald|morgen|dann)|alles klar|na klar"
    r"|super|prima|genau|ja|nein|wie geht['’]?s(?: dir)?|wie geht es (?:dir|ihnen)|mir geht['’]?s gut"
    r"|bonjour|salut|bonsoir|bonne (?:nuit|journée|soirée)|merci(?: beaucoup| bien)?|de rien|au revoir"
    r"|à (?:bientôt|demain|plus)|d['’]accord|oui|non|ça va|très bien|comment (?:ça va|vas-tu|allez-vous)"
    r"|génial"
)
_TALK = lazy_pattern(_TALK_WORDS, re.IGNORECASE)
_TALK_WORD = lazy_pattern(r"[^\s,;.!…~-]+")
_TALK_ITEM_WORDS_MAX = 8  # of one greeting; there are several ways to part a sentence into them
_TALK_NAMED = lazy_pattern(r"(?<![,\s])[,\s]++[A-Z][a-zà-ÿ]++(?=[\s,!?.…]*+$)")  # "Hi Anna!", "Thanks, Bob."
_TALK_CJK = lazy_pattern(
    r"(?:你好|您好|大家好|早上好|早安|晚上好|晚安|下午好|谢谢(?:你|您|大家)?|謝謝(?:你|您)?|多谢|不客气|不客氣|再见|再見|拜拜|好的|好吧|好啊|好|嗯+|哦+|是的|对|對"
    r"|没事|沒事|没问题|沒問題|哈+|真的(?:吗|嗎)?|太好了|太棒了|辛苦了|最近怎么样|吃了吗|明天见"
    r"|こんにちは|こんばんは|おはよう(?:ございます)?|おやすみ(?:なさい)?|ありがとう(?:ございます|ございました)?|どういたしまして|さようなら|またね|また明日|はい|いいえ|うん"
    r"|ええ|そうですね|なるほど|了解(?:です|しました)?|お疲れ様(?:です|でした)?|すごい(?:ですね)?|いいですね|お元気ですか|よろしくお願いします|[啊呀呢吧了ね])++"
)
_NOTHING_SAID = lazy_pattern(r"[\W_]*")
_TALK_CHARS_MAX = 120  # a longer text says something


def is_small_talk(text: str) -> bool:
    """Return whether every sentence is a greeting, thanks, farewell or nod, and so will not matter."""
    if len(text) > _TALK_CHARS_MAX:
        return False
    parts = [part for part in sentences(text) if _NOTHING_SAID.fullmatch(part) is None]
    return bool(parts) and all(_is_pleasantry(part) for part in parts)


def _is_pleasantry(sentence: str) -> bool:
    if len(sentence) > _TALK_CHARS_MAX:
        return False
    if _is_talk(sentence) or _is_talk(_TALK_NAMED.sub("", sentence)):
        return True
    bare = re.sub(r"[\s,，、。.！!？?~～…]+", "", sentence)
    return _NOTHING_SAID.fullmatch(bare) is not None or _TALK_CJK.fullmatch(bare) is not None


def _is_talk(sentence: str) -> bool:
    """Return whether a sentence consists of greetings, nods and the like."""
    words = list(_TALK_WORD.finditer(sentence.rstrip().rstrip("?!.")))
    reached = {0}  # the words at which a greeting may begin
    for first in range(len(words)):
        if first in reached:
            for last in range(first, min(first + _TALK_ITEM_WORDS_MAX, len(words))):
                if _TALK.fullmatch(sentence, words[first].start(), words[last].end()):
                    reached.add(last + 1)
    return bool(words) and len(words) in reached


# Instructions, and the steps of a run

_RUN_STEPS = lazy_pattern(
    r"\s*step \d+:[^\n]*?(?:->|→|=>)", re.IGNORECASE
)  # "Step 1: Searched … -> Step 2: Found …" [E]
_HOW_TO = lazy_pattern(
    r"(?:^|\n)[^\S\n]*(?:#+ *)?"
    r"(?:how to|how I|steps? (?:to|for)|instructions|procedure|recipe|runbook|workflow|checklist"
    r"|so (?:geht|funktioniert)|anleitung|schritte|comment (?:faire|installer|configurer)|étapes"
    r"|procédure|步骤|步驟|如何|怎么|手順|方法)[^\n]{0,120}",
    re.IGNORECASE,
)
_ITEM = lazy_pattern(
    r"(?:^|\n)[^\S\n]*(?:\d{1,2}[.)、]|step \d+[:.]|schritt \d+[:.]|étape \d+ ?[:.]"
    r"|第[一二三四五六七八九十\d]+步|[-*•])\s*(\S+)",
    re.IGNORECASE,
)
_NUMBERED = lazy_pattern(
    r"(?:^|\n|\s)(?:\d{1,2}[.)、]|step \d+[:.]|schritt \d+[:.]|étape \d+ ?[:.]|第[一二三四五六七八九十\d]+步)\s*(\w+)",
    re.IGNORECASE,
)
_IMPERATIVES = lexicon.words("classification", "imperatives")  # fmt: skip
_IN_TURN = lazy_pattern(
    r"\bfirst(?:ly)?,? (?P<one>\w+)\b.{1,400}?\b(?:then|next|after that|finally|lastly),? (?P<two>\w+)\b"
    r"|\bto (?P<one_to>\w+)[^.,:;\n]{1,80}[,:] (?P<what>\w+)\b.{1,300}?\b(?:then|and then"
    r"|finally)\b,? (?P<two_to>\w+)\b",
    re.IGNORECASE | re.DOTALL,
)
_IN_TURN_OTHER = lazy_pattern(
    r"\b(?:zuerst|zunächst)\b.{1,300}\b(?:dann|danach|anschließend|zum Schluss)\b"
    r"|\bd['’]abord\b.{1,300}\b(?:ensuite|puis|enfin)\b"
    r"|(?:首先|先).{1,200}(?:然后|然後|接着|最后|最後)|まず.{1,200}(?:次に|それから|最後に)",
    re.IGNORECASE | re.DOTALL,
)
_TOLD = lazy_pattern(  # the same words in a tale: "First we went to Rome, then …", "先吃了饭"
    r"\b(?:I|we|he|she|they|ich|wir|je|nous|on)\b|了|ました|した", re.IGNORECASE
)


def _instructions(text: str) -> str:
    """The words that show step-by-step instructions; "" where there are none."""
    titled = _HOW_TO.search(text)
    items = _ITEM.findall(text)
    if titled and len(items) >= 2:
        return titled.group()
    commands = [word for word in _NUMBERED.findall(text) if word.lower() in _IMPERATIVES]
    if len(commands) >= 2:
        return f"steps: {', '.join(commands)}"
    if (turn := _IN_TURN.search(text)) and _commands(turn):
        return turn.group()
    if (turn := _IN_TURN_OTHER.search(text)) and not _TOLD.search(turn.group()):
        return turn.group()
    return ""


def _commands(turn: re.Match[str]) -> bool:
    """Return whether both the first and the next step are imperatives."""
    named = turn.groupdict()
    return all(
        (named[name] or "").lower() in _IMPERATIVES for name in (("one", "two") if named["one"] else ("what", "two_to"))
    )
