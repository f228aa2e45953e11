"""Attribute claims of a text: a subject, one of its attributes, and its current value; the basis of `updates`. SPEC 5.5

A claim is read only from a sentence whose pattern is plain: "Anna lives in Lisbon", "the report is due on March 3",
"rent went up to 950". A value that may hold next to another one (I like tea; we use Redis), a past or possible value
and a question make no claim: an `updates` too many hides a true memory behind another. The patterns are data:
text/lexicon/claim_frames.txt.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from mnemo_core.ingest.attributes.stances import find_stances
from mnemo_core.text import lexicon
from mnemo_core.text.canonical import canonical_form
from mnemo_core.text.cleaning import mask_code
from mnemo_core.text.dates.date_words import MONTHS
from mnemo_core.text.languages import HAN, KATAKANA, UNSPACED, UNSPACED_CHARACTER, sentences
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import alternation, listed
from mnemo_core.text.syntax.english import BASE_OF_THIRD, is_base
from mnemo_core.text.text_cache import TextCache
from mnemo_core.text.tokens import OPPOSITES, SYNONYMS, UNITS


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
# Attributes that have one value at a time, when that value is a word.
SINGLE = lexicon.words("attributes", "single")
# Those of them whose value may be any word. Of the others it is a name, a number or a known tool.
WORDED = lexicon.words("attributes", "worded")
# Words that tell how something is, and not what: "my car is great" leaves it the car that it was.
DESCRIBING = lexicon.words("attributes", "describing")
GROUPS = lexicon.words("attributes", "groups")
PEOPLE = lexicon.words("attributes", "people")


def _named(section: str) -> Iterator[tuple[str, str]]:
    for group in lexicon.lines("attributes", section):
        name, _, words = group.partition(" ")
        for word in words.split(","):
            yield " ".join(SYNONYMS.get(each, each) for each in word.split()), name


ATTRIBUTES = dict(_named("named"))  # one name for attributes that are called differently
CATEGORIES = {word: name for words, name in _named("tools") for word in words.split()}  # what a tool is used as

_EVERYWHERE = lexicon.words("attributes", "everywhere")  # what nearly every clause has
_VERBS = listed("is are am was were been has have had")


def _words(pattern: str) -> frozenset[str]:
    """The words of a pattern, with and without an ending that may be missing."""
    literal = re.sub(r"\(\?P<\w>|\(\?[:!=]|\[[^\]]{0,300}\]|\\\w", " ", pattern)
    words = set(re.findall(r"[^\W\d_]+\??", literal.lower()))
    found = {word.removesuffix("?") for word in words} | {word[:-2] for word in words if word.endswith("?")}
    return frozenset(found)


def _frame(row: str) -> Frame:
    attribute, flags, pattern = row.split(" ", 2)
    needs = frozenset[str]() if "a" in flags or HAN in pattern else _words(pattern) - _EVERYWHERE
    return Frame(
        attribute.removeprefix("-"),
        lazy_pattern(pattern, re.IGNORECASE),
        is_change="c" in flags,
        is_typed="t" in flags,
        is_personal="p" in flags,
        needs=needs,
        is_han=HAN in pattern,
        is_weak="w" in flags,
    )


FRAMES = [
    _frame(row) for row in lexicon.patterns("claim_frames", "frames", HAN=HAN, KATAKANA=KATAKANA, UNSPACED=UNSPACED)
]
# Words of which a clause that fits any frame has one, but for Chinese and Japanese, and for "a: b" and "a = b".
SIGNS = frozenset[str]().union(*(_words(frame.pattern.pattern) for frame in FRAMES)) - (_EVERYWHERE - _VERBS)


CLAIM_CHARS_MAX = 1000  # longer texts are passages, which no other text replaces as a whole
SEARCHED_CHARS_MAX = 400  # a longer text states more than one thing, and its claims are not indexed
# Version of what `claim_keys` gives for a text: an index that keeps keys of another version is rebuilt.
RULES_VERSION = 6
VALUE_WORDS_MAX = 6
DOES = "does "  # begins the attribute of a stance: does drink, does be
READ_CHARACTERS = 1 << 18  # of texts whose claims are cached

Shape = Literal["number", "date", "time", "identifier", "words"]


class AttributeClaim(NamedTuple):
    """One attribute that has one value at a time."""

    subject: frozenset[str]  # the words that tell whose or of what; none for the speaker's own
    attribute: str
    value: tuple[str, ...]
    shape: frozenset[Shape]
    is_change: bool  # said as a change: moved to, went up to
    is_weak: bool  # what may be no attribute at all (the car is red): counts only against a change
    previous_value: tuple[str, ...]  # the value before, where it is named: from X to Y
    speaker: str  # of what is said in the first person

    def has_value_of(self, other: "AttributeClaim") -> bool:
        """Return whether the values are equal, as far as both are specified: 940 is 940 euros."""
        return set(self.value) <= set(other.value) or set(other.value) <= set(self.value)

    def is_about_same(self, other: "AttributeClaim") -> bool:
        """Return whether both claim the same attribute of the same subject."""
        if not _same_subject(self, other):
            return False
        if self.attribute.startswith(DOES) or other.attribute.startswith(DOES):
            same = self.attribute == other.attribute and self.value[1] == other.value[1]
            return same and self.is_change and self.value[0] != other.value[0]
        if not (self.attribute and other.attribute):  # left X for Y: what X was, only X tells
            return bool(self.previous_value) and self.previous_value == other.value
        if self.attribute == other.attribute == "held":
            return False  # a cat, and a dog
        if self.attribute != other.attribute and {self.attribute, other.attribute} not in _NUMBERED:
            return False
        if self.attribute in SINGLE or self.previous_value == other.value:
            return True
        units, other_units = _UNITS.intersection(self.value), _UNITS.intersection(other.value)
        if units and other_units and units.isdisjoint(other_units):
            return False
        return bool(self.shape & other.shape) or (
            (self.is_change or other.is_change) and "words" not in self.shape | other.shape
        )


_UNITS = frozenset(UNITS.values())
# A number that went up to 13 from 12.5, or a meeting that went to ten from 9:30, is the same attribute.
_NUMBERED = ({"amount", "version"}, {"amount", "when"}, {"amount", "port"})
_NUMBERS = frozenset[str]().union(*_NUMBERED)


def extract_claims(text: str, speaker: str = "") -> tuple[AttributeClaim, ...]:
    """The claims of a text, in its order. speaker: who says `I`, folded; "" where nobody knows."""
    return read_claims(text, speaker) if len(text) <= CLAIM_CHARS_MAX else ()


def _claims(text: str, speaker: str) -> tuple[AttributeClaim, ...]:
    found: list[AttributeClaim] = []
    has_no_capitals = text.islower()
    # Code and indented lines are no statements of the writer.
    plain = _CODE_LINE.sub("", mask_code(text)) if _CODE.search(text) else text
    for clause, carried in _clauses(plain):
        timed = _HOUR.sub(r"\1 at \2:00", _DAY_PART.sub(r"\1", _EVERY_DAY.sub("", _DAYS.sub(r"\1", clause))))
        read = _claims_of(timed, carried, speaker, has_no_capitals)
        if _DAYS.search(clause) or _EVERY_DAY.search(clause):  # there may be another one on another day
            read = (each._replace(is_weak=True, is_change=each.is_change or " now" in text) for each in read)
        found += read
    if len(text) <= SEARCHED_CHARS_MAX:
        found += _stances(plain, speaker)
    return tuple(found)


read_claims = TextCache(_claims, READ_CHARACTERS)


def _stances(text: str, speaker: str) -> Iterator[AttributeClaim]:
    """Stances of a text as claims of the attribute "does VERB", with the side as the first word of the value."""
    for sentence in _statements(text):
        for clause in _PART.split(_LEADING.sub("", sentence.strip())):
            for each in find_stances(clause):
                subject = _subject(each.subject_words)
                if subject is not None:
                    value = ("yes" if each.holds else "no", each.head, *sorted(each.words - {each.head}))
                    owner = speaker if subject[1] or not subject[0] else ""
                    yield AttributeClaim(
                        subject[0], DOES + each.verb, value, frozenset({"words"}), each.is_change, True, (), owner
                    )


_WEEKDAY = r"((?:mon|tues|wednes|thurs|fri|satur|sun)day)"
_DAYS = lazy_pattern(rf"\b{_WEEKDAY}s\b", re.IGNORECASE)
_EVERY_DAY = lazy_pattern(rf"\bevery (?:second |other )?(?={_WEEKDAY}\b)", re.IGNORECASE)
_DAY_PART = lazy_pattern(rf"\b{_WEEKDAY} (?:morning|afternoon|evening|night)\b", re.IGNORECASE)
_HOUR = lazy_pattern(rf"\b{_WEEKDAY} at (\d{{1,2}})(?= ?$)", re.IGNORECASE)


def speaker_of(name: str) -> str:
    """The speaker as `extract_claims` takes it: folded, "" for a name of no person."""
    folded = name.casefold()
    return "" if folded in _NOBODY else folded


_NOBODY = frozenset({"", "user", "me", "agent", "assistant", "human"})


def claim_keys(text: str, speaker: str) -> tuple[str, ...]:
    """Keys under which an index finds the texts that claim something of the same subject; none for a long text."""
    if len(text) > SEARCHED_CHARS_MAX:
        return ()
    found: set[str] = set()
    for each in extract_claims(text, speaker_of(speaker)):
        for subject in _subject_marks(each):
            if each.attribute.startswith(DOES):
                found.add(_stance_mark(subject, each))
                continue
            found.add(_value_mark(subject, each.value))
            if each.attribute and each.attribute != "held":
                found.add(_attribute_mark(subject, each.attribute))
    return tuple(sorted(found))


def candidate_keys(text: str, speaker: str) -> list[frozenset[str]]:
    """For each claim of a text, the keys of which every claim about the same attribute has one."""
    if len(text) > SEARCHED_CHARS_MAX:
        return []
    found: list[frozenset[str]] = []
    for each in extract_claims(text, speaker_of(speaker)):
        keys: set[str] = set()
        for subject in _subject_marks(each):
            if each.attribute.startswith(DOES):
                keys |= {_stance_mark(subject, each)} if each.is_change else set()
            elif each.attribute and each.attribute != "held":
                keys.add(_attribute_mark(subject, each.attribute))
            if each.previous_value:
                keys.add(_value_mark(subject, each.previous_value))
        if keys and keys not in found:
            found.append(frozenset(keys))
    return found


def _subject_marks(claim: AttributeClaim) -> set[str]:
    """Two subjects that are one share one of these: my sister, my sister Anna, Anna; I, and Sam where Sam says I."""
    names, kin = claim.subject - KIN, claim.subject & KIN
    found = {" ".join(sorted(part)) for part in (names, kin) if part} or {""}
    return found | {claim.speaker} if not claim.subject and claim.speaker else found


def _attribute_mark(subject: str, attribute: str) -> str:
    return f"{subject}\n{'number' if attribute in _NUMBERS else attribute}"


def _stance_mark(subject: str, claim: AttributeClaim) -> str:
    return f"{subject}\n{claim.attribute} {claim.value[1]}"


def _value_mark(subject: str, value: Sequence[str]) -> str:
    return f"{subject}\n= {' '.join(value)}"


class ClaimUpdate(NamedTuple):
    """A claim, and the earlier one that holds no longer because of it."""

    new: AttributeClaim
    old: AttributeClaim


def find_update(new: Sequence[AttributeClaim], old: Sequence[AttributeClaim]) -> ClaimUpdate | None:
    """The claim of the new text that replaces one of the old text; None where both may hold."""
    pairs = (ClaimUpdate(one, other) for one in new for other in old)
    return next((pair for pair in pairs if pair.new.is_about_same(pair.old) and _replaces(*pair)), None)


def _replaces(new: AttributeClaim, old: AttributeClaim) -> bool:
    if new.attribute.startswith(DOES):
        return new.is_change and new.value[0] != old.value[0] and set(new.value[1:]) <= set(old.value[1:])
    if new.has_value_of(old):
        return False
    if new.attribute == "state":
        return any(value in OPPOSITES.get(each, ()) for each in new.value for value in old.value)
    return new.is_change or not (new.is_weak or old.is_weak)


def _same_subject(one: AttributeClaim, other: AttributeClaim) -> bool:
    if one.speaker and other.speaker and one.speaker != other.speaker:
        return False
    of_one, of_other = (each.subject or {each.speaker} for each in (one, other))  # I am Sam, where Sam says I
    if one.subject == other.subject or (of_one == of_other and of_one != {""}):
        return True
    kin, other_kin = one.subject & KIN, other.subject & KIN
    if not (kin or other_kin) or (kin and other_kin and kin != other_kin):
        return False  # my brother's shoe size, and my sister's
    names, other_names = one.subject - KIN, other.subject - KIN
    if names and other_names:
        return names == other_names  # Anna, my sister Anna
    return bool(kin) and kin == other_kin  # my sister, my sister Anna


_ALSO_ENDS = lazy_pattern(r";(?=\s|$)| [-–—] ")  # a statement, besides the end of a sentence or line
_ITEM_NUMBER = lazy_pattern(r"\d{1,3}\. +")
_CLOSING = "\"'”’»)]*_` "  # may stand behind the mark that ends a sentence
_PART = lazy_pattern(r",? (?:and|but|so|then) |, ", re.IGNORECASE)
_NEW_ONE = lazy_pattern(r"\b(a new [\w ]{2,24}?), (?=(?:a )?[A-Z0-9+(])")
_CONTRACTED = [
    (lazy_pattern(r"\bI'm\b", re.IGNORECASE), "I am"),
    (lazy_pattern(r"\b(we|they|you)'re\b", re.IGNORECASE), r"\1 are"),
    (lazy_pattern(r"\b(I|we|they|you)'ve\b", re.IGNORECASE), r"\1 have"),
    (lazy_pattern(r"\b(it|he|she|that|there|here|what|name|number)'s\b", re.IGNORECASE), r"\1 is"),
]
_ADVERBS = lazy_pattern(alternation("attributes", "adverbs"), re.IGNORECASE)
_LEADING = lazy_pattern(rf"^(?:{alternation('attributes', 'leading')})+", re.IGNORECASE)
_UNSURE = lazy_pattern(rf"\b(?:{alternation('attributes', 'unsure')})\b|n't\b|不|没|ない|ません", re.IGNORECASE)
_TAIL = lazy_pattern(rf"(?<!\s)\s++(?:{alternation('attributes', 'tail')})\b.*", re.IGNORECASE | re.DOTALL)
_NOT_SUBJECT = lexicon.words("attributes", "not_subject")
_NOISE = lexicon.words("attributes", "noise")
_FIRST = listed("i we my our me us ich mein meine wir je j' mon ma mes nous 我 私")
_NO_VALUE = listed("it this that them him her home here there night least once all me you work school bed last first")


_CODE = lazy_pattern(r"```|~~~(?!~)|>>>|\n(?:  |\t)|\.\. ")
_CODE_LINE = lazy_pattern(r"^(?:  |\t|[ ]?(?:>>>|\.\.)[ .]).*$", re.MULTILINE)


def _statements(text: str) -> Iterator[str]:
    """Statements of a text one by one, without the marks at their ends; questions are left out."""
    expanded = text.translate({0x2019: "'", 0xA0: " "})
    if "'" in expanded:
        for pattern, full in _CONTRACTED:
            expanded = pattern.sub(full, expanded)
    for sentence in sentences(expanded):
        if not sentence.rstrip(_CLOSING).endswith(("?", "？")):
            plain = sentence[item.end() :] if (item := _ITEM_NUMBER.match(sentence)) else sentence
            yield from (part.rstrip(".! ") for part in _ALSO_ENDS.split(plain))


def _clauses(text: str) -> Iterator[tuple[str, str]]:
    """The clauses of the statements in a text, and the words before the first verb of the clause before."""
    carried = ""
    for sentence in _statements(text):
        rest = _NEW_ONE.sub(r"\1: ", _LEADING.sub("", sentence.strip()))
        start = 0
        for match in [*_PART.finditer(rest), None]:
            clause = rest[start : match.start() if match else len(rest)]
            may_claim = ":" in clause or "=" in clause or not SIGNS.isdisjoint(_WORD.findall(clause.lower()))
            may_claim = may_claim or UNSPACED_CHARACTER.search(clause) is not None  # most clauses fail this cheap test
            if may_claim and not _UNSURE.search(clause):
                yield " ".join(_ADVERBS.sub("", _LEADING.sub("", clause)).split()), carried
            if start == 0 and clause:
                carried = " ".join(clause.split()[:4])
            start = match.end() if match else start


_WORD = lazy_pattern(r"[^\W\d_]+")
# The frames that a clause may fit, by their place: those that need no word, and those that need one, by that word.
_ANYWHERE = [place for place, frame in enumerate(FRAMES) if not frame.needs]
_WITH_WORD = {
    word: [place for place, frame in enumerate(FRAMES) if word in frame.needs]
    for word in frozenset[str]().union(*(frame.needs for frame in FRAMES))
}


def _claims_of(clause: str, carried: str, speaker: str, has_no_capitals: bool) -> Iterator[AttributeClaim]:
    places = set(_ANYWHERE)
    for word in set(_WORD.findall(clause.lower())):
        places.update(_WITH_WORD.get(word, ()))
    is_han = UNSPACED_CHARACTER.search(clause) is not None
    for frame in (FRAMES[place] for place in sorted(places)):
        if frame.is_han != is_han:
            continue
        match = frame.pattern.match(clause)
        if match and (found := _claim(frame, match.groupdict(), clause, carried, speaker, has_no_capitals)):
            yield found
            return


_GERMAN_THIRD = frozenset(("arbeitet", "heißt", "lebt", "studiert", "wohnt"))


def _claim(
    frame: Frame, parts: dict[str, str | None], clause: str, carried: str, speaker: str, has_no_capitals: bool
) -> AttributeClaim | None:
    said = (parts.get("s") or "").strip()
    # Another person's, though it has no subject: "Lives in Ghent", "Wohnt im Heim"
    first = clause.partition(" ")[0].lower()
    if not said and not carried and (first in BASE_OF_THIRD or first in _GERMAN_THIRD):
        return None
    if not said and carried and frame.is_personal:
        said = _carried_subject(carried)
    if (subject := _subject(said)) is None:
        return None
    text = parts.get("v") or ""
    if _THEIRS.match(parts.get("t") or "") or _CALLED.search(text):
        return None
    value, shape = _value(text if frame.is_typed else _TAIL.sub("", text), frame.is_typed)
    if not value or value[0] in _NO_VALUE or len(value) > VALUE_WORDS_MAX:
        return None
    named = _attribute(frame, parts, said, text, shape, value)
    if named is None:
        return None
    words, attribute, is_weak = named
    if shape == {"words"} and not frame.is_han and not _may_be_value(attribute, frame, text, value, has_no_capitals):
        return None
    is_another = not (_is_first(carried) or carried.lower().startswith(("the ", "a ", "an ", "this ", "it ")))
    if carried and not subject[1] and (not words or said.lower().startswith("the ")) and is_another:
        return None  # Anna moved, and the rent is 900: whose?
    if attribute in _WORDY and shape != {"words"}:
        return None
    former = _value(_TAIL.sub("", parts.get("f") or ""), frame.is_typed)[0]
    if attribute == "home" and former and not said:
        attribute = ""  # "moved from Merlin to Vetbase": what it was, only what it was before tells
    is_own = subject[1] or not words or _is_first(parts.get("t") or "")
    is_change = frame.is_change or (attribute in SINGLE and _NEW.search(f"{carried} {said}") is not None)
    is_weak = is_weak or frame.is_weak
    return AttributeClaim(words, attribute, value, shape, is_change, is_weak, former, speaker if is_own else "")


def _may_be_value(attribute: str, frame: Frame, text: str, value: Sequence[str], has_no_capitals: bool) -> bool:
    """Return whether the words name the value, rather than describe it: "my gym is FitX", but not "my gym is
    closed"."""
    if attribute in ("phone", "email"):
        return False
    if attribute == "state" and len(value) > 1 and is_base(text.split()[0].lower()):
        return False  # "Pond: get a price for the rolls" is a step, and another one does not replace it
    is_favorite = attribute.startswith("favorite ")
    if not (attribute in SINGLE or is_favorite) or (frame.is_change and attribute not in ("home", "employer", "name")):
        return True
    words = [word for word in text.strip(" .,:\"'(").split() if word.lower() not in _ARTICLES]
    if not words or words[0].lower() == "to" or _describes(words[0], attribute):
        return False
    if words[0].endswith("ing") and words[1:2] and words[1].islower():
        return False  # "Helping people is my job"
    if attribute == "employer" and words[-1].lower().strip(".,!") in GROUPS:
        return False
    if is_favorite or attribute in WORDED or has_no_capitals or any(each in CATEGORIES for each in value):
        return True
    named = words if attribute == "car" else words[:1]
    return any(c.isupper() or c.isdigit() for word in named for c in word)


_NEW = lazy_pattern(r"\b(?:new|neue|neuer|neues|nouveau|nouvelle|(?:changed|switched) jobs?)\b", re.IGNORECASE)
_ARTICLES = frozenset({"the", "a", "an", "der", "die", "das", "ein", "eine", "le", "la", "les", "un", "une"})
_DESCRIBED = lazy_pattern(r"[a-z]{2,}(?:ing|ful|ous|less|able|ible|ed)")


def _describes(word: str, attribute: str) -> bool:
    """Return whether a word describes a state. The value of a status is such a word: pending, blocked."""
    bare = word.strip(".,!?:;\"'()")
    if bare.lower() in DESCRIBING:
        return bare == bare.lower() or bare.lower().endswith("ing")
    return attribute != "status" and _DESCRIBED.fullmatch(bare) is not None


_NO_PRODUCT = lexicon.words("attributes", "no_product")
_WORDY = frozenset({"home", "employer", "role", "partner", "manager", "doctor"})  # no number is one


def _attribute(
    frame: Frame, parts: dict[str, str | None], said: str, text: str, shape: frozenset[Shape], value: Sequence[str]
) -> tuple[frozenset[str], str, bool] | None:
    """Subject, attribute, and whether the claim is weak; None where the attribute can have several values at a time."""
    topic, purpose, has_former = parts.get("t") or "", parts.get("p") or "", bool(parts.get("f"))
    match frame.attribute:
        case "*":
            return _named_attribute(f"{said} {topic}".strip() if topic else said, shape, value, text)
        case "amount" | "amount_of":
            return _number_attribute([*_content_words(said), *_content_words(topic)], shape, value)
        case "salary" | "weight":
            return _key([*_content_words(said), frame.attribute]), "amount", False
        case "favorite":
            words = _content_words(topic)
            subject = _key(_content_words(said))
            return (subject, f"favorite {words[-1].removesuffix('s')}", False) if words else None
        case "use":
            words = _content_words(said)
            if shape != {"words"} or (words and (words[-1] in SINGLE or words[-1] in ATTRIBUTES)):
                return None
            attribute = _category(value, purpose)
            return _key(words), attribute or ("" if has_former else "held"), False
        case "home" if _category(value, "") or not _is_place(text) or value[0] == "doctor":
            return None
        case "partner" | "manager" if not _is_person(text):
            return None
        case "place":
            return (_key(_content_words(said)) - {"home"}, "home", True) if _is_place(text) else None
        case "version":
            words = _content_words(topic)
            is_name = bool(words) and words[-1] not in MONTHS and words[-1] not in _NO_PRODUCT
            return (_key([*_content_words(said), *words]) - {"version"}, "version", False) if is_name else None
        case _:
            return _key(_content_words(f"{said} {topic}")), frame.attribute, False


def _carried_subject(clause: str) -> str:
    """The subject of the clause before, whose verb a clause without a subject shares: "Anna sold it and moved"."""
    words = clause.split()
    if words and words[0].lower() in ("my", "our") and len(words) > 1:
        return " ".join(words[:3]) if len(words) > 2 and words[2][:1].isupper() else " ".join(words[:2])
    return words[0] if words else ""


def _subject(said: str) -> tuple[frozenset[str], bool] | None:
    """The words that identify a subject, and whether it is the speaker's; None where they identify none."""
    words = [word.strip(',:"()').lower() for word in said.split()]
    if len(words) > 7 or _THEIRS.match(said) or _NO_WORDS.search(said) or any(word in _NOT_SUBJECT for word in words):
        return None
    return _key(_content_words(said)), _is_first(said)


_CALLED = lazy_pattern(r"\w\(|[\[\]{}<>=\\]")
_NO_WORDS = lazy_pattern(r"[\[\]{}<>()=\\*`_]|\w\.\w|(?:^|\s)['\"]|^\s*[A-HJ-Za-hj-z]\s*$")  # code, or a variable
# Whose: her name was Coco, and hers is Shadow, may be two dogs.
_THEIRS = lazy_pattern(r"(?:his|her|its|their|sein|seine|ihr|ihre|sa|ses|leur|leurs)\b", re.IGNORECASE)


def _is_first(said: str) -> bool:
    return any(word in _FIRST for word in said.lower().split())


def _content_words(text: str) -> list[str]:
    """The words that tell one thing from another, in their order."""
    words = (word.strip(',:"()').lower() for word in text.split())
    return [SYNONYMS.get(word, word) for word in words if word and word not in _NOISE]


def _key(words: Sequence[str]) -> frozenset[str]:
    """Key words of a subject. Anna's rent is Anna's; but Anna's sister is not Anna."""
    bare = [word.removesuffix("'s") for word in words]
    kin = max((at for at, word in enumerate(bare) if word in KIN), default=0)
    return frozenset([*words[:kin], *bare[kin:]])


def _value(text: str, is_typed: bool) -> tuple[tuple[str, ...], frozenset[Shape]]:
    """The value in the form in which texts are compared; of a typed one, only what is typed: 900 EUR of "900 euros"."""
    read = canonical_form(text.strip(" .,:\"'"))
    found: set[Shape] = set()
    for value, kind in read.tokens:
        if kind == "date":
            found.add("time" if value[0] == "T" else "date")
        elif kind == "number":
            found.add("identifier" if "." in value else "number")
            found.add("number")
        elif kind == "identifier":
            found.add("identifier")
    shape: frozenset[Shape] = frozenset(found or {"words"})
    typed = tuple(atom.value for atom in read.tokens if atom.kind in _TYPED)
    if is_typed:
        return (typed if read.tokens and read.tokens[0].kind in _TYPED else ()), shape
    if shape != {"words"} and len(typed) * 2 >= len(read.values):
        return typed, shape
    return read.values, frozenset({"words"})


_TYPED = frozenset({"number", "unit", "date", "identifier"})


def _named_attribute(
    said: str, shape: frozenset[Shape], value: Sequence[str], text: str
) -> tuple[frozenset[str], str, bool] | None:
    """Of "the deadline for the report": {report}, deadline. None where the words name no attribute."""
    # Before and after the first `for`, `of`, `at` or `in`; "report deadline" has nothing after.
    parts = re.split(r"(?<=\w) (?:for|of|at|in|on) ", said, maxsplit=1)
    before, after = (_content_words(parts[0]), _content_words(parts[1]) if len(parts) > 1 else [])
    if not before or len(before) + len(after) > 7:
        return None
    pair = " ".join(before[-2:])
    head = ATTRIBUTES.get(pair) or ATTRIBUTES.get(before[-1], before[-1])
    rest = before[:-2] if pair in ATTRIBUTES else before[:-1]
    subject = _key([*rest, *after])
    if subject & _PREFERRED:
        return subject - _PREFERRED, f"favorite {before[-1]}", False
    if head in ATTRIBUTES.values() and head not in ("amount", "version", "when"):
        if head in PEOPLE and head != "name" and not _is_person(text):
            return None
        return subject, head, False
    if shape & {"date", "time"}:
        return (subject if head == "when" else subject | {head}), "when", False
    if head in SINGLE and not shape & {"number"}:
        if head in PEOPLE and not _is_person(text):
            return None
        return subject, head, False
    if shape != {"words"}:
        return _number_attribute([*after, *before], shape, value)
    has_opposite = any(each in OPPOSITES for each in value)
    return subject | {head}, "state" if has_opposite else head, not has_opposite


_PREFERRED = frozenset({"favorite", "preferred", "code"})  # of a favourite code editor, too


def _number_attribute(
    words: Sequence[str], shape: frozenset[Shape], value: Sequence[str]
) -> tuple[frozenset[str], str, bool] | None:
    if not words:
        return None
    words = ["salary" if word in ("pay", "wage", "wages", "income") else word for word in words]
    if words[-1] == "port":
        return _key(words[:-1]), "port", False
    if any(re.fullmatch(r"\d+(?:\.\d+)+", each) for each in value) and len(value) == 1:
        return _key(words) - {"version"}, "version", False
    if "number" not in shape:
        return _key(words[:-1]), words[-1], True
    return _key(words) - _OF_AMOUNTS, "amount", False


_OF_AMOUNTS = listed("price cost costs amount total monthly yearly annual weekly")


def _category(value: Sequence[str], purpose: str) -> str:
    """Category of a tool: by its stated purpose, else by its name; "" for neither."""
    for word in _content_words(purpose):
        if word in SINGLE or word in _TOOL_KINDS:
            return word
    known = {CATEGORIES[word] for word in value if word in CATEGORIES}
    return known.pop() if len(known) == 1 else ""


_TOOL_KINDS = frozenset(CATEGORIES.values())


def _is_person(text: str) -> bool:
    """Return whether the text is spelled as a name: with a capital, and no article."""
    return text[:1].isupper() or text.lower().startswith(("dr ", "dr. "))


def _is_place(text: str) -> bool:
    """A name of a place has no article, and no more than four words."""
    words = text.split()
    return 0 < len(words) <= 4 and words[0].lower() not in ("a", "an", "the", "my", "our", "his", "her", "their")
