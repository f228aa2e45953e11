"""The statements of a text: its sentences that say something by themselves. SPEC 5.6 [E, G 7]

Without an LLM, and therefore with care: what a sentence says is never changed. Its numbers, names, dates, negations and
hedges stay, a condition is never cut off, and two halves are only parted where each is a sentence of its own. What
cannot be understood without its neighbours is left out: a question, a greeting, a heading, code, a quotation, a "you",
a "she" of another sentence. "I" becomes the speaker's name where the verb can be turned with it, else it stays "I";
"we" stays, for whoever said it is kept with the memory.

English is taken apart. Of German, French, Chinese and Japanese whole sentences are taken, and the plainest triples.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from mnemo_core.text import lexicon
from mnemo_core.text.languages import (
    KANA_CHARACTER,
    UNSPACED_CHARACTER,
    Language,
    identify_language,
    sentence_ends,
    words_of,
)
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import alternation
from mnemo_core.text.syntax import clauses, english, pronouns
from mnemo_core.text.syntax.clauses import Clause, SentenceWord
from mnemo_core.text.text_cache import TextCache

SENTENCE_CHARS_MAX = 600  # a longer one is no statement
OBJECT_WORDS_MAX = 12  # of a triple
TRIPLE_CHARACTERS = 1 << 17  # of texts whose triples are cached
FIELD_CHARS_MAX = 512  # of a triple [G45]

SentenceLanguage = Language | Literal["zh", "ja"]


class Triple(NamedTuple):
    """Subject, predicate, object, as the fact graph keeps them. SPEC 5.6 [G45]"""

    subject: str
    predicate: str
    object: str


class Statement(NamedTuple):
    """A sentence that stands alone; start and end are the characters of the text it was taken from."""

    text: str
    start: int
    end: int
    triple: Triple | None


class _ProseSpan(NamedTuple):
    """A stretch of prose, and who says it: None where that is not known."""

    start: int
    end: int
    speaker: str | None


def extract_statements(text: str, speaker: str = "") -> list[Statement]:
    """The sentences of a text that stand alone, in order. Linear in the length of the text."""
    found: list[Statement] = []
    name = speaker.strip()
    if name.lower() in _ROLES or not name.isprintable():
        name = ""
    for stretch in _prose(text, name):
        for start, end in _sentences(text, stretch):
            language = _language(text[start:end])
            if language == "en":
                found += _english(text, start, end, stretch.speaker)
            else:
                found += _foreign(text, start, end, language)
    return found


def _triple(sentence: str) -> Triple | None:
    plain = " ".join(sentence.split())
    if not plain or len(plain) > SENTENCE_CHARS_MAX or plain[-1] in "?？" or "\n\n" in sentence.strip():
        return None
    if sentence_ends(plain, 0, len(plain.rstrip(" .!。！"))):
        return None  # what two sentences say is no one triple
    language = _language(plain)
    found = _english_triple(plain) if language == "en" else _foreign_triple(plain, language)
    if found is None or any(not 0 < len(part) <= FIELD_CHARS_MAX for part in found):
        return None
    return found


# Subject, predicate and object where the pattern is plain; None for what is negated, hedged, asked or supposed. A new
# text is read for its facts and for its kind, one after the other: some hundred of the usual length are remembered.
extract_triple = TextCache(_triple, TRIPLE_CHARACTERS)


_ROLES = frozenset(
    ("", "user", "human", "me", "customer", "assistant", "agent", "ai", "bot", "system", "model", "tool")
)
_OF_SPEAKER = frozenset(("user", "human", "me", "customer"))
_OF_AGENT = _ROLES - _OF_SPEAKER - {""}
_NOTES = frozenset(("note", "nb", "fyi", "ps", "p.s", "update", "btw", "reminder", "info", "remember", "by the way"))
_FENCE = lazy_pattern(r" {0,3}(`{3,}|~{3,})")
_NO_PROSE = lazy_pattern(
    r"(?: {4,}|\t)\S"
    r"|\s*(?:#{1,6}\s|>|\||<[/!\w]|[-*_=~+]{3,}\s*$|[-*+]\s+\[[ xX]\]\s|\$\s|@|//|/\*|\{|\})"
)
_ITEM = lazy_pattern(r"[ \t]*(?:[-*+•·–]|\d{1,3}[.)])[ \t]+")
_UNDERLINE = lazy_pattern(r"[=\-~]{3,}[ \t]*(?:\n|\Z)")
_LABEL = lazy_pattern(
    r"[ \t]*(?:\[[\d:., -]{3,25}\][ \t]*|\d{1,2}:\d{2}(?::\d{2})?[ \t]+)?"  # when it was said
    r"\*{0,2}(?P<name>[^\W\d_][\w.'’ -]{0,38}?)\*{0,2}[:：]\*{0,2}[ \t]+(?=\S)"
)
_QUOTES = lazy_pattern(r'(?<!\d)"|[“”„«»「」『』]')


def _prose(text: str, name: str) -> Iterator[_ProseSpan]:
    """The stretches of prose: wrapped lines together, without code, headings, quotations and tables."""
    # The names that stand before lines as who says them: of a known first name, or each more than once
    counts: dict[str, int] = {}
    at = 0
    while at >= 0:
        label = _LABEL.match(text, at)
        if label and _is_label(label["name"]):
            counts[label["name"]] = counts.get(label["name"], 0) + 1
        at = text.find("\n", at) + 1 or -1
    known = {name for name in counts if name.split()[0].lower() in english.GIVEN_NAMES}
    again = {name for name, count in counts.items() if count > 1 and name.lower() not in _ROLES | _NOTES}
    names = frozenset(known | (again if len(again) > 1 or (again and known) else set()))
    speaker: str | None = name
    fence = ""
    open_since = -1
    at = before = 0
    while at <= len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at : min(end, at + 80)]
        mark = _FENCE.match(line)
        label = None if mark or fence else _LABEL.match(text, _after_item(text, at), end)
        is_prose = not (mark or fence or not line.strip() or _NO_PROSE.match(line) or _UNDERLINE.match(text, end + 1))
        starts_anew = label is not None or _ITEM.match(text, at, end) is not None or not _goes_on(text, before, at)
        if open_since >= 0 and (not is_prose or starts_anew):
            yield _ProseSpan(open_since, before, speaker)
            open_since = -1
        if mark:
            fence = "" if fence == mark[1][:3] else fence or mark[1][:3]
        if is_prose and open_since < 0:
            open_since = _after_item(text, at)
            if label is not None and _is_label(label["name"]):
                said_by = _speaker(label["name"], name, names, speaker)
                if said_by is _UNKNOWN:
                    open_since = -1
                else:
                    open_since, speaker = label.end(), said_by
        before, at = end, end + 1
    if open_since >= 0:
        yield _ProseSpan(open_since, min(before, len(text)), speaker)


_UNKNOWN = "\0"


def _after_item(text: str, at: int) -> int:
    item = _ITEM.match(text, at)
    return item.end() if item else at


def _goes_on(text: str, before: int, at: int) -> bool:
    """Return whether the line from `at` continues the sentence, or the paragraph, of the one that ended at `before`."""
    last, first = text[max(0, before - 60) : before].rstrip(), text[at : at + 1]
    if not last or last[-1] in ":：":
        return False
    is_long = len(last) >= 50 and "\n" not in last[-50:]
    is_open = last[-1] in ",.!?。！？" or last.split()[-1].lower() in english.PREPOSITIONS
    return is_open or is_long or first.islower()


def _is_label(name: str) -> bool:
    words = name.split()
    return name.lower() in _ROLES | _NOTES or (len(words) <= 3 and all(word[0].isupper() for word in words))


def _speaker(label: str, name: str, names: frozenset[str], current: str | None) -> str | None:
    """Speaker of the text after the label; None for an agent, and the unknown speaker for an ambiguous word."""
    low = label.lower()
    if low in _NOTES:
        return current
    if low in _OF_SPEAKER or label == name:
        return name
    if low in _OF_AGENT:
        return None
    return label if label in names else _UNKNOWN


def _sentences(text: str, stretch: _ProseSpan) -> Iterator[tuple[int, int]]:
    """The sentences of a stretch, without those that are within a quotation."""
    start = stretch.start
    is_quoted = False
    for end in [*sentence_ends(text, stretch.start, stretch.end), stretch.end]:
        while start < end and text[start].isspace():
            start += 1
        if start < end:
            marks = len(_QUOTES.findall(text, start, end)) if end - start <= SENTENCE_CHARS_MAX else 0
            if not is_quoted and marks % 2 == 0 and end - start <= SENTENCE_CHARS_MAX:
                yield start, end
            elif marks % 2:
                is_quoted = not is_quoted
        start = max(start, end)


def _language(sentence: str) -> SentenceLanguage:
    if UNSPACED_CHARACTER.search(sentence):
        return "ja" if KANA_CHARACTER.search(sentence) else "zh"
    return identify_language(words_of(sentence))


def _english(text: str, start: int, end: int, speaker: str | None) -> list[Statement]:
    """The statements of an English sentence."""
    sentence = text[start:end]
    if _CODE.search(sentence) or _quotes_a_sentence(sentence):
        return []
    words = clauses.without_connector(clauses.words_of(sentence, start))
    if not clauses.can_stand_alone(words) or pronouns.begins_with_reference(words):
        return []
    if clauses.find_main_clause(words) is None or not pronouns.is_anchored(words):
        return []
    made: list[Statement] = []
    for part in _halves(words):
        is_own = any(word.bare in clauses.FIRST | clauses.OURS for word in part)
        if is_own and speaker is None:
            continue
        turned = pronouns.in_third_person(part, speaker) if is_own and speaker else None
        said = _finished(turned or part)
        # The subject that was carried over stands before the part, and is no place of its own.
        first = part[0] if part[0].start >= words[0].start else words[0]
        places = [word.start for word in part if word.start >= (made[-1].end if made else first.start)]
        made.append(Statement(said, min(places, default=start), part[-1].end, extract_triple(said)))
    return made


def _halves(words: Sequence[SentenceWord]) -> list[list[SentenceWord]]:
    """The sentence in parts that stand alone, the subject carried over; the whole where that is not sure."""
    whole = [list(words)]
    found = clauses.find_clause(words)
    bare = {word.bare for at, word in enumerate(words) if not _is_role(words, at)}
    if (
        found is None
        or found.verb != found.subject_end
        or bare & (english.SUBORDINATORS | english.HEDGES | english.SHARED)
    ):
        return whole
    # What "nobody sings and dances" says does not hold of each part by itself.
    if any(word.bare in english.QUANTIFIERS or word.raw.isdigit() for word in words[: found.subject_end]):
        return whole
    if any(mark in word.raw for word in words for mark in '"“”()—–') or any(word.raw.endswith(":") for word in words):
        return whole
    parts: list[list[SentenceWord]] = []
    subject, first, current = list(words[: found.subject_end]), found, 0
    prefix: list[SentenceWord] = []
    at = found.verb + 1
    while at < len(words):
        is_joined = words[at].bare in {"and", "but"}
        if is_joined or words[at - 1].raw.endswith((",", ";")):
            begin = at + is_joined  # of the clause that may follow
            left = [*prefix, *words[current:at]]
            cut = _next_clause(words, begin, first, left)
            if cut is not None and pronouns.is_anchored(left):
                parts.append(left)
                own_subject = cut.start < cut.subject_end
                current = cut.start if own_subject else cut.verb
                prefix = [] if own_subject else subject
                if own_subject:
                    subject = list(words[cut.start : cut.subject_end])
                first = cut
                at = cut.verb
        at += 1
    if not parts:
        return whole
    last = [*prefix, *words[current:]]
    return [*parts, last] if pronouns.is_anchored(last) else whole


def _is_role(words: Sequence[SentenceWord], at: int) -> bool:
    """Return whether the word is the "as" of "works as a nurse", which subordinates nothing."""
    near = [word.bare for word in words[max(0, at - 1) : at + 2]]
    return near[1:] in (["as", "a"], ["as", "an"], ["as", "the"]) and near[0] in ("work", "works", "worked")


def _next_clause(
    words: Sequence[SentenceWord], begin: int, first: Clause, left: Sequence[SentenceWord]
) -> Clause | None:
    """The clause from `begin` on that is complete by itself next to the words left of it, with its own or the same
    subject."""
    if begin >= len(words) - 1 or not _is_complete(left):
        return None
    bare = [word.bare for word in left]
    verb = words[begin].bare
    form = english.is_finite(verb, first.number)
    is_negated = bool(english.NEGATIONS & set(bare)) or any(word.endswith("n't") for word in bare)
    is_noun = begin + 1 < len(words) and english.is_inflected(words[begin + 1].bare)  # "and costs rose"
    if form and not is_noun and begin + 1 < len(words):
        # "has moved and lived", "can swim and run": the second verb goes with the auxiliary of the first.
        after_be = form == "base" and words[first.verb].bare in english.BE
        shares = first.form == "aux" and form in {"past", "base"} and not after_be
        has_infinitive = any(one == "to" and english.is_base(other) for one, other in pairwise(bare))
        is_bare = form in {"base", "past"} and (is_negated or has_infinitive)
        if form == "base":
            following = words[begin + 1]
            is_bare = is_bare or not (
                following.bare in english.PREPOSITIONS | english.DETERMINERS or _is_role(words, begin + 1)
                or following.raw[0].isupper()
                or following.raw[0].isdigit() or following.bare in english.COUNTS or verb in {"have", "am", "are"}
            )  # fmt: skip
        if not shares and not is_bare:
            return Clause(begin, begin, begin, first.number, form)
    if words[begin].bare in clauses.THIRD or "never" in bare or words[first.verb].bare in english.SAYING:
        return None
    own = clauses.find_clause(words, begin)
    is_whole = own is not None and own.verb + 1 < len(words) and own.verb == own.subject_end
    return own if is_whole else None


def _is_complete(left: Sequence[SentenceWord]) -> bool:
    """Return whether the first half has its object: "lives and works in Lisbon" has not."""
    found = clauses.find_clause(left)
    last = left[-1].bare
    if found is None or found.verb + 1 >= len(left):
        return False
    return last not in english.PREPOSITIONS | english.DETERMINERS | {"and", "but"}


def _finished(words: Sequence[SentenceWord]) -> str:
    """The words as a sentence: a capital in front, a full stop behind."""
    text = " ".join(word.raw for word in words).rstrip(" ,;:")
    first = words[0].bare
    if text[0].islower() and (
        first in english.DETERMINERS or first in clauses.FIRST | clauses.OURS or first == "there"
    ):
        text = text[0].upper() + text[1:]
    closing = text[len(text.rstrip("*_`\"'”’)")) :]
    body = text[: len(text) - len(closing)]
    if closing and not body.endswith((".", "!")):
        return text + "."
    return body.rstrip("!").removesuffix(".") + "." + closing if body.endswith("!") or not body.endswith(".") else text


def _quotes_a_sentence(sentence: str) -> bool:
    """Return whether the sentence quotes somebody: two words or more, with a verb or a pronoun among them."""
    for quoted in _QUOTED.finditer(sentence):
        words = quoted[0].strip('"“”„«»‘’').lower().replace("’", "'").split()
        if len(words) > 1 and any(word.strip(".,!?") in _OF_A_SENTENCE for word in words):
            return True
        if quoted[0].rstrip('"“”„«»').endswith(("?", "!")):
            return True
    return False


_QUOTED = lazy_pattern(r'"[^"]*"|“[^”]{0,600}”|„[^“”]{0,600}[“”]|«[^»]{0,600}»')
_OF_A_SENTENCE = frozenset(
    (*english.OTHERS_WORD, *clauses.FIRST, *clauses.OURS, *english.BE, *english.MODALS, *english.AUX_PAST,
     *english.AUX_ONE, *english.AUX_MANY, *english.BASE_OF_THIRD, *clauses.THIRD, "let's", "please")
)  # fmt: skip
_CODE = lazy_pattern(
    r"[{}<>=\\|;]\s*$|[{}\\]|[=!<>]=|=>|->|::|\w\(\w*\)|<[\w/]|\w = \S|^\s*(?:def|class|import|return|SELECT)\s|\$\w"
)


_WITH_PREPOSITION = frozenset(lexicon.lines("facts", "with_preposition"))
_PLAIN_VERBS = lexicon.words("facts", "plain_verbs")
_EVENTS = lexicon.words("facts", "events")
_ATTRIBUTES = lexicon.words("facts", "attributes")
_RELATIVES = english.RELATIVES | {"pet", "team", "company", "school"}
_CUT_OFF = lazy_pattern(alternation("facts", "cut_off"), re.IGNORECASE)

# As far as the verb, and an object behind it: more words than these, and a "for ten years", are too many for a triple.
_PLAIN_WORDS_MAX = clauses.SUBJECT_WORDS_MAX + OBJECT_WORDS_MAX + 3
_SINCE = lazy_pattern(r" since ", re.IGNORECASE)  # what follows it is none of the object, however long


def _english_triple(sentence: str) -> Triple | None:
    if _CODE.search(sentence) or any(mark in sentence for mark in ('"', "“", "(", ")", ": ", ";", "—", "–")):
        return None
    count = len(sentence.split())
    if count < 2 or (count > _PLAIN_WORDS_MAX and _SINCE.search(sentence) is None):
        return None
    words = clauses.words_of(sentence, 0)
    bare = {word.bare for at, word in enumerate(words) if not _is_role(words, at)}
    if not clauses.can_stand_alone(words) or bare & _NOT_PLAIN or any(word.endswith("n't") for word in bare):
        return None
    found = clauses.find_clause(words)
    if found is None or clauses.is_imperative(words) or found.verb != found.subject_end or found.verb + 1 >= len(words):
        return None
    subject = " ".join(word.raw for word in words[: found.verb])
    if words[0].bare in {"he", "she", "it", "they", "there", "his", "her", "its", "their"} or "," in subject:
        return None
    rest = _CUT_OFF.sub("", " ".join(word.raw for word in words[found.verb + 1 :]).rstrip(" .!,")).rstrip(" ,")
    tail = [word.raw.strip(".,!").lower() for word in words[found.verb + 1 :]]
    if len(rest.split()) > OBJECT_WORDS_MAX or not rest or english.is_adverb(tail[0]) or _has_second_verb(words, found):
        return None
    if set(tail) & clauses.THIRD.keys() or words[0].bare in english.QUANTIFIERS - {"a", "an"}:
        return None
    verb = words[found.verb].bare
    if verb in english.BE:
        return _copula(subject, verb, rest, tail)
    is_past = verb in english.BASE_OF_PAST
    base = english.BASE_OF_PAST.get(verb) or english.BASE_OF_THIRD.get(verb) or verb
    if verb in english.TIMELESS and verb != "cost":
        return None
    joined = f"{base} {tail[0]}"
    if joined in _WITH_PREPOSITION and len(tail) > 1:
        said = " ".join(rest.split()[1:])
        # What was so in the past is not what is so: only what happens once keeps its base form.
        predicate = f"{verb} {tail[0]}" if is_past and base not in _EVENTS else joined
        return Triple(subject, predicate, said) if said else None
    if base not in _PLAIN_VERBS or tail[0] in english.PREPOSITIONS or tail[0] == "to":
        return None
    if tail[0] in english.PARTICIPLES and base == "have":
        return None
    return Triple(subject, verb if is_past and base not in _EVENTS else base, rest)


_NOT_PLAIN = frozenset(
    (*english.NEGATIONS, *english.HEDGES, *english.SUBORDINATORS, *english.MODALS, *english.SUPPOSED)
) - {"since", "may", "know", "knows"} | {"but", "or", "do", "does", "did", "had"}


def _has_second_verb(words: Sequence[SentenceWord], found: clauses.Clause) -> bool:
    """Return whether another clause follows: then there is more than one triple in it."""
    for at in range(found.verb + 1, len(words) - 1):
        following = words[at + 1].bare
        if words[at].bare in {"and", "but"} and (
            english.is_finite(following, found.number)
            or english.is_finite(following, "one")
            or clauses.find_clause(words, at + 1)
        ):
            return True
        if words[at].bare in {"i", "he", "she", "they", "we"}:
            return True
    return False


def _copula(subject: str, verb: str, rest: str, tail: Sequence[str]) -> Triple | None:
    predicate = "was" if verb in {"was", "were"} else "is"
    for participle, name in (("called", "is called"), ("named", "is called"), ("married to", "is married to")):
        if rest.lower().startswith(participle + " ") and predicate == "is":
            return Triple(subject, name, rest[len(participle) + 1 :])
    if born := re.match(r"born (in|on) (.+)", rest, re.IGNORECASE):
        return Triple(subject, f"was born {born[1].lower()}", born[2])
    if verb == "was" and tail[0] in english.PARTICIPLES and len(tail) > 1 and tail[1] in english.PREPOSITIONS:
        return Triple(subject, f"was {tail[0]} {tail[1]}", " ".join(rest.split()[2:])) if len(tail) > 2 else None
    if tail[0].endswith("ing") and tail[0] not in {"nothing", "something"}:
        return None
    owned = re.fullmatch(r"(?:(?P<owner>.+?)(?:'s|(?<=s)')|(?P<mine>[Mm]y)) (?P<what>[\w -]+)", subject)
    if owned and predicate == "is" and _is_attribute(owned["what"], rest):
        return Triple("I" if owned["mine"] else owned["owner"], owned["what"], rest)
    return Triple(subject, predicate, rest)


def _is_attribute(what: str, value: str) -> bool:
    """Return whether "X's Y is Z" names the value of Y, rather than describing it: Z is a name, or Y a thing that has a
    value."""
    words = what.lower().split()
    if value.split()[0].lower() in {"a", "an", "in", "on", "at", "from"}:
        return False
    if words[-1] in _ATTRIBUTES or words[0] in {"favourite", "favorite"}:
        return True
    return words[-1] in _RELATIVES and all(word[0].isupper() for word in value.split())


_VERBS_DE = lexicon.words("facts", "verbs_de")
_VERBS_FR = lexicon.words("facts", "verbs_fr")
_FOREIGN: tuple[SentenceLanguage, ...] = ("de", "fr", "zh", "ja")
_NOT_ALONE = {each: lazy_pattern(alternation("facts", f"not_alone_{each}"), re.IGNORECASE) for each in _FOREIGN}
_VERBS_ZH = lazy_pattern(alternation("facts", "verbs_zh"))
_VERBS_JA = lazy_pattern(
    r"^[^はがも]*+[はがも].*(?:です|ます|でした|ました|ません|である|だ|た|る|い|う|く|む)[。！]?$"
)


def _foreign(text: str, start: int, end: int, language: SentenceLanguage) -> list[Statement]:
    """A sentence of another language as a whole, if it is one and stands alone."""
    sentence = text[start:end]
    plain = " ".join(sentence.split())
    if plain[-1] in "?？:：" or any(each.search(plain) for each in (_CODE, _QUOTES, _NOT_ALONE[language])):
        return []
    words = [word.strip(".,;:!\"'()").lower().replace("’", "'") for word in plain.split()]
    match language:
        case "de":
            stands = len(words) > 2 and bool(_VERBS_DE & set(words[1:]))
        case "fr":
            stands = len(words) > 2 and bool(_VERBS_FR & {word.removeprefix("n'") for word in words})
        case "zh":
            stands = len(plain) > 3 and _VERBS_ZH.search(plain) is not None
        case _:
            stands = len(plain) > 4 and _VERBS_JA.search(plain) is not None
    if not stands:
        return []
    if plain[-1] not in ".。!！":
        plain += "。" if language in {"zh", "ja"} else "."
    return [Statement(plain, start, end, extract_triple(plain))]


_NOT_PLAIN_FOREIGN = {each: lazy_pattern(alternation("facts", f"not_plain_{each}"), re.IGNORECASE) for each in _FOREIGN}
# By language: a predicate of the fact graph, and the pattern of a sentence that states it.
_COPULAS = {
    each: [(predicate, lazy_pattern(pattern)) for predicate, _, pattern in
           (row.partition(" = ") for row in lexicon.lines("facts", f"copulas_{each}"))]
    for each in _FOREIGN
}  # fmt: skip


def _foreign_triple(sentence: str, language: SentenceLanguage) -> Triple | None:
    if _NOT_PLAIN_FOREIGN[language].search(sentence):
        return None
    for predicate, pattern in _COPULAS[language]:
        if found := pattern.fullmatch(sentence.rstrip(".。!！ ")):
            return Triple(found[1], predicate, found[2])
    return None
