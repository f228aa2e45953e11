"""Rule-based classification of a text: kind, form and category, with the reasons. SPEC 5.4 [L 1.6, E, M]

For the kind, the first rule that holds:
  1 what the caller gives
  2 a step of an agent's run                                  → procedural, step
  3 a preference signal                                       → procedural, preference
  4 about now or this session, and there is a session         → working; never in a note
  5 instructions in steps                                     → procedural, workflow
  6 a short text, of no note: by its words                 → semantic, episodic, procedural; working in a session
  7 a statement of subject, predicate and object              → semantic
  8 anything else                                             → episodic
For the category: what the caller gives, preference, decision, project, request, result, crumb, in this order, and fact
for the rest: a crumb is summarised nowhere, so a text that no rule names must not be one. An ask or small talk states
nothing, so rules 6 and 7 do not apply to it. A moment is no matter of a session where there is none, nor in a note.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from mnemo_core.ingest.policies import OWN_POLICY, Policy, preference_source_l
from mnemo_core.ingest.statement_kind import KINDS, statement_kind
from mnemo_core.text import lexicon
from mnemo_core.text.cleaning import mask_code
from mnemo_core.text.dates.date_patterns import IDEOGRAPH, words_in
from mnemo_core.text.languages import sentences
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import alternation
from mnemo_core.text.preferences import find_preference
from mnemo_core.text.syntax.english import BASE_OF_PAST, BASE_OF_THIRD
from mnemo_core.text.syntax.statements import extract_triple
from mnemo_store.records import Category, Form, Kind

# Probability of a moment: no other statement of the tuning half reaches it, and of 15,633 turns of conversations 16.
MOMENT_MIN = 0.9
ASKED_MIN = 0.8  # and of a question that has no mark
ORDER_MIN = 0.7  # and of an instruction, from which on a request is none to be answered once
STATEMENT_CHARS_MAX = 400  # a longer text says several things of several kinds
STATEMENT_SENTENCES_MAX = 2

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


def _signal(name: str) -> _Signal:
    pattern = alternation("classification", f"{name}_patterns")
    return _Signal(lexicon.words("classification", name), lazy_pattern(pattern, re.IGNORECASE))


class _CategoryMatch(NamedTuple):
    """A finding: what it makes of the text, and by what."""

    category: Category
    why: str


def classify(
    text: str, *, session_id: str = "", tags: Sequence[str] = (), kind: Kind | None = None,
    category: Category | None = None, role: Role = "", from_note: bool = False, has_evidence: bool = False,
    has_trace: bool = False, policy: Policy = OWN_POLICY,
) -> Classification:  # fmt: skip
    """Kind, form and category of a text; what the caller gives is never overruled.

    role is the speaker's in a conversation, "" where there is none. has_evidence: paths, URLs or ids were given with
    it. has_trace: it is a step of an agent's run.
    """
    if policy.routing == "defaults":
        # No rules: what the caller gives, else the profile's own. A step of a run is procedural in every one. [E]
        usual = policy.category_turn if role else policy.category
        chosen: Kind = kind or ("procedural" if has_trace else policy.kind)
        form: Form | None = ("step" if has_trace else "workflow") if chosen == "procedural" else None
        return Classification(chosen, form, category or usual, f"profile {policy.name}: its defaults")
    if policy.routing == "L":
        return _by_letter(text, session_id, kind, category, role, from_note, policy)
    signal = find_preference(text)
    words = words_in(text)
    seen = _category(text, words, tags, role, has_evidence, signal)
    in_session = bool(session_id) and not from_note
    by_words = None
    if not from_note and len(text) <= STATEMENT_CHARS_MAX and len(sentences(text)) <= STATEMENT_SENTENCES_MAX:
        by_words = _kind_by_words(text, seen.category, may_be_moment=in_session and not role)
    chosen, form, why = _kind(text, words, in_session, by_words, has_trace, signal, seen, category)
    if kind is not None:
        form = (form or "workflow") if kind == "procedural" else None  # which means how-to, where it shows no other
        chosen, why = kind, "kind given"
    if category is not None:
        return Classification(chosen, form, category, f"{why}; category given")
    return Classification(chosen, form, seen.category, f"{why}; {seen.why}" if seen.why else why)


def _kind(
    text: str, words: set[str], in_session: bool, by_words: tuple[Kind, Form | None, str] | None, has_trace: bool,
    signal: str, seen: _CategoryMatch, category: Category | None,
) -> tuple[Kind, Form | None, str]:  # fmt: skip
    if has_trace or _RUN_STEPS.match(text):
        return "procedural", "step", "a step of a run"
    if signal or category == "preference":
        return "procedural", "preference", f"preference: {_shown(signal)}" if signal else "given as a preference"
    if in_session and (now := about_now(text, words)):
        return "working", None, f"about now: {_shown(now)}"
    if steps := _instructions(text):
        return "procedural", "workflow", f"instructions: {_shown(steps)}"
    if by_words is not None:
        return by_words
    if seen.category in ("request", "crumb"):
        return "episodic", None, "states nothing"
    if stated := extract_triple(text):
        return "semantic", None, f"states: {_shown(' | '.join(stated))}"
    return "episodic", None, "no rule holds"


def _chance(text: str, kind: str) -> float:
    """The probability that a short text is of a kind of statement."""
    return statement_kind(text).probabilities[KINDS.index(kind)]


def _kind_by_words(text: str, category: Category, *, may_be_moment: bool) -> tuple[Kind, Form | None, str]:
    """The kind of a short statement. A question states nothing, and so is an event: that it was asked; so is a moment,
    where there is no session whose matter it is, and what is said in a conversation, whose session keeps it as a whole.
    Kind `working` is hidden from all other sessions, so a doubtful one is none."""
    is_order = category == "request" and _chance(text, "instruction") >= ORDER_MIN
    if category == "crumb" or (category == "request" and not is_order):
        return "episodic", None, "states nothing"
    found = statement_kind(text)
    odds = dict(zip(KINDS, found.probabilities, strict=True))
    if odds["moment"] < MOMENT_MIN or len(sentences(text)) > 1:
        del odds["moment"]
    name = max(odds, key=odds.__getitem__)
    if found.name == "moment" and name == "state":
        name = "event"  # it does not last
    if name == "event" and (stated := extract_triple(text)) and _tells_state(stated.predicate):
        return "semantic", None, f"states: {_shown(' | '.join(stated))}"  # whoever moved to Porto lives there
    why = f"{name} by its words ({odds[name]:.0%})"
    match name:
        case "state":
            return "semantic", None, why
        case "instruction":
            return "procedural", "workflow", why
        case "moment" if may_be_moment:
            return "working", None, why
        case _:
            return "episodic", None, why


_ONE_AT_A_TIME = lexicon.meanings("facts", "single_valued")


def _tells_state(predicate: str) -> bool:
    """Return whether a subject has one value of the predicate at a time: where somebody lives, or moved to."""
    verb, _, rest = predicate.casefold().partition(" ")
    base = BASE_OF_PAST.get(verb) or BASE_OF_THIRD.get(verb, verb)
    return f"{base} {rest}".strip() in _ONE_AT_A_TIME


def _category(
    text: str, words: set[str], tags: Sequence[str], role: Role, has_evidence: bool, signal: str
) -> _CategoryMatch:
    """The category by what the text says; `fact` without a reason where it says nothing of the kind."""
    if signal:
        return _CategoryMatch("preference", "")
    if role == "user" and not _states_too(text) and (question := _question(text)):
        return _CategoryMatch("request", f"request: {_shown(question)}")
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


def _by_letter(
    text: str, session_id: str, kind: Kind | None, category: Category | None, role: Role, from_note: bool,
    policy: Policy,
) -> Classification:  # fmt: skip
    """Classify by source L's rules: hint, preference signal, present session, subject-predicate-object, else episodic.
    [L 1.6, L15] L always has a session; without one, no text can be about it."""
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
    form: Form | None = ("preference" if signal else "workflow") if chosen == "procedural" else None
    usual = "preference" if signal else policy.category_turn if role else policy.category
    return Classification(chosen, form, category or usual, f"profile L: {'kind given' if kind else why}")


_NOW_BY_LETTER = lazy_pattern(r"\b(?:right now|now|currently|this session|today)\b", re.IGNORECASE)  # [L15]


# About now, or this session

# What is done in minutes or hours. What goes on for weeks is no matter of one session, though it is said to be so now
# ("I'm currently reading Dune"): kind `working` is hidden from every other session, so this is the short list.
# A state that will not last: "Right now the tests are failing."
_NOW = _signal("now")
_NOW_CJK = _Signal(_CJK, lazy_pattern(alternation("classification", "now_cjk_patterns")))


def about_now(text: str, words: set[str]) -> str:
    """The words that tie the text to the present moment or session, after which it will not matter; "" where there are
    none. Where someone lives or works now does not count: it stays true."""
    return _NOW.find(text, words) or _NOW_CJK.find(text, words)


# Decisions and projects

_CHOICE = _signal("choice")
_GOAL = _signal("goal")
_CHOICE_CJK = _Signal(_CJK, lazy_pattern(alternation("classification", "choice_cjk_patterns")))
_GOAL_CJK = _Signal(_CJK, lazy_pattern(alternation("classification", "goal_cjk_patterns")))

# Asks

_ASK = _signal("ask")
_ASK_CJK = _Signal(_CJK, lazy_pattern(alternation("classification", "ask_cjk_patterns")))
_BE = lazy_pattern(r"\b(?:is|are|was|were|ist|sind|war|waren)\b", re.IGNORECASE)
_UNMARKED = lazy_pattern(alternation("classification", "question_patterns"), re.IGNORECASE)
_QUESTION = lazy_pattern(r"[?？]|(?:吗|嗎|呢|ですか|ますか|でしょうか)[。]?$")


def _ask(text: str, words: set[str], role: Role) -> str:
    """The words that ask for something to be done or told; "" where there are none.

    A question is an ask where a user puts it and states nothing else; a text that tells something and then asks "and
    you?" is a statement. An agent's question is no request to anyone but its reader.
    """
    if role == "agent" or (role == "user" and _states_too(text)):
        return ""
    if found := _ASK.find(text, words) or _ASK_CJK.find(text, words):
        return found.strip(" .!?,;:\n") or found
    is_short = role == "user" and len(text) <= STATEMENT_CHARS_MAX and len(sentences(text)) == 1
    return text if is_short and _chance(text, "question") >= ASKED_MIN else ""


def _question(text: str) -> str:
    """The first of the questions that a text consists of, besides greetings and thanks; "" where it says more."""
    said: list[str] = [part for part in sentences(text) if not _is_pleasantry(part)]
    return said[0] if said and all(_QUESTION.search(part) or _asks_without_mark(part) for part in said) else ""


def _asks_without_mark(sentence: str) -> bool:
    """Return whether a sentence without a question mark asks. In doubt it does not: "What works for me is running",
    "Do we have news, Lena is pregnant"."""
    match = _UNMARKED.search(sentence)
    return match is not None and "," not in sentence and _BE.search(sentence, match.end()) is None


_REASON_GIVEN = lazy_pattern(r"(?<!\w)(?:because|since|now that|weil|parce que|porque) (?:\S{1,40} ){3}", re.IGNORECASE)
_STATED_WORDS_MIN = 4


def _states_too(text: str) -> bool:
    """Return whether a text that asks states something as well, in a sentence of its own or as the reason: "since my
    sister moves in in May, where can I get a second key?"."""
    if len(text) > STATEMENT_CHARS_MAX:
        return True
    said = sentences(text)
    if len(said) == 1:
        return _REASON_GIVEN.search(text) is not None
    return any(
        len(part.split()) >= _STATED_WORDS_MIN
        and not _QUESTION.search(part)
        and not _is_pleasantry(part)
        and statement_kind(part).name in ("state", "event")
        for part in said
    )


# Outcomes

_OUTCOME = lazy_pattern(alternation("classification", "outcome"), re.IGNORECASE)
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

_TALK = lazy_pattern(alternation("classification", "talk"), re.IGNORECASE)
_TALK_WORD = lazy_pattern(r"[^\s,;.!…~-]+")
_TALK_ITEM_WORDS_MAX = 8  # of one greeting; there are several ways to part a sentence into them
_TALK_NAMED = lazy_pattern(r"(?<![,\s])[,\s]++[A-Z][a-zà-ÿ]++(?=[\s,!?.…]*+$)")  # "Hi Anna!", "Thanks, Bob."
_TALK_CJK = lazy_pattern(rf"(?:{alternation('classification', 'talk_cjk')})++")
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

# "Step 1: Searched … -> Step 2: Found …" [E]
_RUN_STEPS = lazy_pattern(r"\s*step \d+:[^\n]*?(?:->|→|=>)", re.IGNORECASE)
_HOW_TO = lazy_pattern(alternation("classification", "how_to"), re.IGNORECASE)
_ITEM = lazy_pattern(alternation("classification", "items"), re.IGNORECASE)
_NUMBERED = lazy_pattern(alternation("classification", "numbered"), re.IGNORECASE)
_IMPERATIVES = lexicon.words("classification", "imperatives")  # fmt: skip
_IN_TURN = lazy_pattern(alternation("classification", "in_turn"), re.IGNORECASE | re.DOTALL)
_IN_TURN_OTHER = lazy_pattern(alternation("classification", "in_turn_other"), re.IGNORECASE | re.DOTALL)
_TOLD = lazy_pattern(alternation("classification", "told_patterns"), re.IGNORECASE)


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
