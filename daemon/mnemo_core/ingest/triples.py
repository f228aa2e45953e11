"""Triples that an ordinary text states of somebody or something named; the basis of the fact graph. SPEC 5.6 [M26]

The rules of `statements` read every plain sentence, also "the room was electric". A graph needs those that name what
they are about: a person, the speaker, a thing with a name, and say more of it than how it is.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from mnemo_core.ingest.facts import names_in
from mnemo_core.ingest.statement_kind import KINDS, statement_kind
from mnemo_core.text import lexicon
from mnemo_core.text.languages import sentences
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed
from mnemo_core.text.syntax import clauses, english
from mnemo_core.text.syntax.statements import Triple, extract_statements

TEXT_CHARS_MAX = 2000  # of a longer text, no facts are read with the text: it is a document, see `infer`
TRIPLES_MAX = 16  # of one text
STATED_SENTENCES_MAX = 2  # of a text that is read as a note of how something is, which talk is not

_OWN = listed("i we my our")
_NO_SUBJECTS = lexicon.words("facts", "no_subjects")
_IN_PROGRESS = {phrase.split()[0]: (verb, phrase.split()[1:]) for phrase, verb in
                lexicon.meanings("facts", "stated_in_progress").items()}  # fmt: skip
_CHOICES = lexicon.words("facts", "stated_choices")
_LINKS = tuple(lexicon.lines("facts", "adjective_links"))
_STATE_VERBS, _STATE_PREPOSITIONS, _THINGS_FIRST, _NO_KEYS = (
    lexicon.words("facts", name) for name in ("state_verbs", "state_prepositions", "things_first", "no_keys")
)
_SPEAKERS = listed("i we ich wir je nous yo")
_MODALS = listed("will would can could shall should must may might wird kann soll muss")
_PARTICLES = listed("up out off over ab an auf aus ein los mit nach vor weg zu zurück")  # that belong to a verb
_PRONOUNS = lexicon.words("facts", "pronouns")
_KEY_WORDS_MAX, _VALUE_WORDS_MAX, _STATE_WORDS_MAX = 5, 8, 16
_NEGATIONS = english.NEGATIONS | listed("longer nicht kein keine keinen nie pas jamais nunca")
_SAID_TOO = frozenset({"meine", "as"})  # my, in German; "I work as a nurse"
_REASON = lazy_pattern(lexicon.alternation("facts", "reason"))
_LABEL = lazy_pattern(lexicon.alternation("facts", "label"), re.IGNORECASE)
_ASIDE_PHRASE = lazy_pattern(r"([A-Z][\w-]+), ((?:my|our|mein|meine|unser|unsere) [\w -]{1,40}), (?=[a-z])")
_GERMAN_VERB = lazy_pattern(r"[a-zäöüß]{2,}(?:t|en|eln|ern)")
_NO_VERBS_DE = listed("mit seit nicht zeit heute weit gut nächsten letzten gegen wegen neben zwischen neuen")
_LEADS = listed("since that so after from on for in at until as seit ab für im in am bis nach bei unter with")
_INSTRUCTION_WORDS_MAX = 24
_ASKED_MIN = 0.8  # probability that a text is an instruction, from which it is one as a whole
_OWN_STATE_WORDS_MAX = 3
_KIND_FIRST = lexicon.words("facts", "kind_first")
_COPULAS = english.BE | {"ist", "sind", "est", "sont", "es"}
_AGAIN = listed("it he she they er sie es il elle él ella")
_PASSIVE = english.BE | {"gets", "get"}
_IS_SAID = listed("deaf allergic vegan vegetarian married pregnant left-handed blind retired")
_PARTS = lazy_pattern(
    r"[;,]\s+(?:and\s+|und\s+|so\s+)?|(?<!\s)\s+(?:and|und)\s+(?=(?:[a-z]+s|hat|ist|gehört|bekommt)\s)"
)
_PLEASE = lazy_pattern(r"(?:please|bitte|por favor|s'il te plaît)\b", re.IGNORECASE)
_NOTE_THAT = lazy_pattern(r"(?:please |bitte )?(?:note|remember|merk dir|beachte),? (?:that|dass) ", re.IGNORECASE)
_DATED = listed("now currently yesterday")
_ASIDE = listed("also currently now still already just finally recently really mostly")


def stated_triples(text: str, speaker: str = "") -> tuple[Triple, ...]:
    """The triples of a text that belong in the fact graph, each once, in order; none of a long text. Linear in the
    length of the text. speaker: who says "I"; "" where nobody knows."""
    if len(text) > TEXT_CHARS_MAX:
        return ()
    parts = sentences(text)
    kind = statement_kind(text) if not speaker and len(parts) <= STATED_SENTENCES_MAX else None
    is_note = kind is not None and kind.name in ("state", "instruction")
    asks = kind is not None and kind.probabilities[KINDS.index("instruction")] >= _ASKED_MIN
    found = (
        triple
        for part in map(_without_request, parts)
        for triple in [*(_of_instruction(part) if _PLEASE.match(part) else _of_sentence(part, speaker))]
        or (is_note and [*_of_state(part)])
        or (_of_instruction(part) if asks else ())
    )
    # "Tim can only start in May" and "Die Probe fällt aus" state nothing yet.
    stated = (each for each in found if each.predicate not in _MODALS and each.object not in _PARTICLES)
    return tuple(dict.fromkeys(stated))[:TRIPLES_MAX]


def _without_request(sentence: str) -> str:
    """The sentence without "Please note that" before what it states."""
    asked = _NOTE_THAT.match(sentence)
    return sentence[asked.end() :] if asked else sentence


def _of_sentence(sentence: str, speaker: str) -> Iterator[Triple]:
    for each in extract_statements(sentence, speaker):
        triple = each.triple or _of_plain_verb(each.text)
        if triple is None or "," in triple.subject or not _is_named(triple.subject, each.text, speaker):
            continue
        if triple.predicate in {"is", "was"}:
            triple = _of_copula(triple) or triple
            if triple.predicate in {"is", "was"} and not _names_a_kind(triple.object):
                continue
        yield _as_said(_without_date(triple), each.text, speaker)


def _of_state(sentence: str) -> Iterator[Triple]:
    """Triples of a sentence that tells how something is: "Car insurance: HUK", "Mein Bruder hat Zöliakie", or parts of
    one that do. Who or what it is about is a named one, the speaker, or a thing with an article."""
    sentence = _REASON.split(sentence, maxsplit=1)[0].rstrip(" .!")
    if label := _LABEL.match(sentence):
        sentence = sentence[label.end() :]
        sentence = sentence[:1].upper() + sentence[1:]
    if sentence.endswith(("?", "？")) or _bare(sentence) & (_NOT_SAID - _SAID_TOO - _NEGATIONS - _LEADS):
        return
    key, colon, value = sentence.partition(": ")
    if colon:
        words, said = key.split(), value.split()
        is_key = 0 < len(words) <= _KEY_WORDS_MAX and words[0][0].isalpha()
        is_key = is_key and words[0].casefold() not in _NO_KEYS | _SPEAKERS | _PRONOUNS
        is_key = is_key and _STATE_VERBS.isdisjoint(words)  # "Nadia has a new number: …"
        if is_key and 0 < len(said) <= _VALUE_WORDS_MAX and not _says_something(said[0].casefold()):
            yield Triple(key, "is", value)
        return
    if aside := _ASIDE_PHRASE.match(sentence):
        yield Triple(aside[1], "is", aside[2])
        sentence = f"{aside[1]} {sentence[aside.end() :]}"
    subject = ""
    for part in _PARTS.split(_without_lead(sentence)):
        denied = bool(_bare(part) & _NEGATIONS) or "n't" in part.replace("’", "'")
        if denied:
            continue
        # The words of a clause, contractions as two: "Dov's got", "Grandad's deaf", "I'm"
        words = [word.raw for word in clauses.words_of(part, 0)]
        first = words[0].replace("’", "'") if words else ""
        if first.endswith("'s") and len(words) > 2 and words[1].casefold() in _IS_SAID:
            words[:1] = [first[:-2], "is"]
        if len(words) > 3 and words[1:3] == ["has", "got"]:
            del words[2]
        if len(words) < 2:
            continue
        if subject and words[0].casefold() in _AGAIN:
            words[0] = subject
        elif subject and words[0] in _STATE_VERBS | english.BASE_OF_THIRD.keys():
            words.insert(0, subject)
        triple = _of_verb(words)
        if triple is not None:
            subject = triple.subject
            yield triple


def _of_instruction(sentence: str) -> Iterator[Triple]:
    """Yield an instruction to an assistant as one triple: I, ask, "Name the branch after …"."""
    sentence = _REASON.split(sentence.strip(), maxsplit=1)[0].rstrip(" ,.!。！")
    words = sentence.split()
    is_denied = bool(_bare(sentence) & _NEGATIONS) or "n't" in sentence.replace("’", "'")
    if words and words[0].casefold() in english.SUBORDINATORS:
        asked = next((word for before, word in pairwise(words) if before.endswith(",")), "")
        is_denied = is_denied or not english.is_base(asked.casefold())  # "If it rains, Otto works from home"
    if not is_denied and 1 <= len(words) <= _INSTRUCTION_WORDS_MAX and not sentence.endswith(("?", "？")):
        yield Triple("I", "ask", sentence)


def _without_lead(sentence: str) -> str:
    """A sentence without "Since the reorg" or "From 1 October" in front of its subject."""
    if "".join(sentence.split(None, 1)[:1]).casefold() not in _LEADS:
        return sentence
    words = clauses.words_of(sentence, 0)
    found = clauses.find_main_clause(words)
    if found is None:
        return sentence
    start = found.start
    for at in range(start + 1, found.verb):  # "the merger Ana": the subject begins at the name
        before = words[at - 1]
        if words[at].raw[0].isupper() and before.raw[0].islower() and before.bare not in english.DETERMINERS:
            start = at
            break
    return sentence[words[start].start :]


def _bare(text: str) -> set[str]:
    return {word.casefold().strip(".,;:!") for word in text.split()}


def _says_something(first: str) -> bool:
    """Return whether the first word behind a colon begins a sentence and no value."""
    return english.is_base(first) or first in _SPEAKERS | _PRONOUNS


def _of_verb(words: Sequence[str]) -> Triple | None:
    """Return the triple of a short clause whose verb expresses a state."""
    bare = [word.casefold().strip(".,;:!") for word in words]
    at = next((at for at, word in enumerate(bare[1:7], 1) if word in _STATE_VERBS), 0) or _verb_at(words)
    if at and at + 1 < len(bare) and _is_noun_before(bare[at], bare[at + 1]):
        at += 1
    subject = list(words[:at])
    while len(subject) > 1 and subject[-1] in _ASIDE:  # "Anna now works at Siemens"
        subject.pop()
    if not at or len(words) > _STATE_WORDS_MAX or at + 1 >= len(words) or not _is_subject(subject, bare[at]):
        return None
    if bare[at - 1] == "to" or (bare[at] == "am" and bare[0] != "i") or bare[at + 1] in _AGAIN:
        return None  # "used to teach"; "am besten"; "read it on a phone"
    if bare[at + 1] == "to" and (at + 2 == len(bare) or english.is_base(bare[at + 2])):
        return None  # has to go
    end = at + 1
    is_participle = bare[end] in english.PARTICIPLES or bare[end].endswith("ed")
    if bare[at] in {"has", "have"} and is_participle:
        return None
    end += is_participle and end + 1 < len(words) and bare[at] in _PASSIVE
    if end + 1 == len(words) and bare[end] in _STATE_PREPOSITIONS | english.PREPOSITIONS:
        return None
    end += bare[end] in _STATE_PREPOSITIONS and end + 1 < len(words)
    said = words[end:]
    is_copula = bare[at] in english.BE | {"ist", "bin", "est", "suis", "es"}
    if is_copula and end == at + 1:
        is_linked = len(said) > 2 and said[1] in _STATE_PREPOSITIONS and not english.is_adverb(bare[end])
        is_of_speaker = bare[at] in {"am", "bin", "suis", "soy"} and len(said) <= _OWN_STATE_WORDS_MAX
        if not (is_linked or is_of_speaker or _names_a_kind(" ".join(said))):
            return None
        end, said = (end + 2, said[2:]) if is_linked else (end, said)
    return _without_date(Triple(" ".join(subject), " ".join(words[at:end]), " ".join(said)))


def _is_noun_before(word: str, verb: str) -> bool:
    """Return whether a word that could be a verb is the noun before one: "error reports live in", "the rent is"."""
    return verb in _COPULAS or (word.endswith("s") and english.is_base(verb))


def _verb_at(words: Sequence[str]) -> int:
    """The number of the verb of a clause; 0 where none is found. In German it follows a noun, and is itself small."""
    found = clauses.find_clause(clauses.words_of(" ".join(words), 0))
    if found is not None:
        return found.verb
    for at in range(1, min(len(words) - 1, 5)):
        word = words[at]
        if words[at - 1][0].isupper() and _GERMAN_VERB.fullmatch(word) and word not in _NO_VERBS_DE:
            return at
    return 0


def _is_subject(words: Sequence[str], verb: str) -> bool:
    """Return whether words before a verb are the speaker, a thing with an article, or a name: "Horses have" is none."""
    first = words[0].casefold()
    if first in _SPEAKERS:
        return len(words) == 1
    if first in _THINGS_FIRST or first.endswith(("'s", "’s")):
        return len(words) > 1
    if any(word in _MODALS for word in words):
        return False
    is_gerund = first.endswith("ing") and (len(words) > 1 or verb in english.BE)
    is_general = (english.is_base(verb) and len(words) == 1) or is_gerund or first in _NO_SUBJECTS | _PRONOUNS
    return words[0][0].isupper() and not is_general and first not in english.QUANTIFIERS


def _as_said(triple: Triple, sentence: str, speaker: str) -> Triple:
    """The triple with its verb as the sentence has it ("works for", "moved to"), and what a speaker says of "I" as it
    is said of the speaker."""
    verb, *rest = triple.predicate.split()
    if triple.subject == "I" and verb == "is" and rest:
        return triple._replace(predicate=" ".join(["am", *rest]))
    if not english.is_base(verb):
        return triple
    words = [word.casefold().strip(".,;:!") for word in sentence.split()]
    forms = (word for word in words if verb in (english.BASE_OF_THIRD.get(word), english.BASE_OF_PAST.get(word)))
    is_one = triple.subject.casefold() not in _OWN and " and " not in triple.subject
    third = english.third_form(verb) if is_one and (triple.subject == speaker or verb not in words) else verb
    return triple._replace(predicate=" ".join([next(forms, third), *rest]))


def _without_date(triple: Triple) -> Triple:
    """The triple without words at its end for a present or past day, which the date of its memory tells."""
    words = triple.object.split()
    while len(words) > 1 and words[-1] in _DATED:
        words.pop()
    if len(words) > 2 and words[-2] == "last" and words[-1] in english.TIME_NOUNS:
        del words[-2:]
    return triple if len(words) == len(triple.object.split()) else triple._replace(object=" ".join(words))


def _is_named(subject: str, sentence: str, speaker: str) -> bool:
    """Return whether the subject of a sentence is somebody or something in particular. The capital of its first word is
    that of a sentence where a plural verb follows: "Horses have such grace"."""
    words = subject.split()
    first = words[0].casefold()
    if first in _NO_SUBJECTS or first in english.QUANTIFIERS - {"a", "an"}:
        return False
    if first in _OWN or first in english.GIVEN_NAMES or (speaker and subject.startswith(speaker)):
        return True
    if first.endswith("ing"):
        return False
    if names_in(" ".join(words[1:])):
        return True
    verb = sentence[len(subject) :].split()[:1] if sentence.startswith(subject) else []
    is_plural = any(word in english.AUX_MANY or english.is_base(word) for word in verb)
    return not is_plural and bool(names_in(subject))


def _of_copula(triple: Triple) -> Triple | None:
    """The relation that "is" states: X is Y's R, or the R of Y, as Y R X; X is based in Y, as X is based in Y."""
    words = triple.object.split()
    for link in _LINKS:
        if triple.object.startswith(link + " "):
            return Triple(triple.subject, f"{triple.predicate} {link}", triple.object[len(link) + 1 :])
    if triple.predicate != "is":
        return None
    owner, _, relation = triple.object.replace("’", "'").partition("'s ")
    if relation and " " not in relation.strip() and len(owner.split()) <= 3 and relation in english.RELATIVES:
        return Triple(owner, relation, triple.subject)
    if len(words) > 3 and words[0] == "the" and words[2] == "of" and words[1] in english.RELATIVES | {"capital"}:
        return Triple(" ".join(words[3:]), words[1], triple.subject)
    return None


def _names_a_kind(said: str) -> bool:
    """Return whether what follows "is" names somebody, something or a kind of thing: "a nurse", not "great"."""
    words = said.split()
    first = words[0].casefold()
    is_judged = any(word.casefold().strip(",.") in english.ADVERBS for word in words[:2])
    is_superlative = first == "the" and len(words) > 1 and (words[1].endswith("est") or words[1] in {"most", "only"})
    is_named = first in _KIND_FIRST or words[0][0].isupper() or words[0][0].isdigit() or first in english.COUNTS
    return not is_judged and not is_superlative and len(words) <= 8 and is_named


def _of_plain_verb(sentence: str) -> Triple | None:
    """A triple of "X is working on Y", "X chose Y", "X decided on Y", "X decided to use Y"."""
    words = sentence.rstrip(" .!").split()
    bare = [word.casefold().strip(",;:") for word in words]
    if set(bare) & _NOT_SAID or any(word.endswith("n't") for word in bare) or len(words) > 24:
        return None
    for at in range(1, min(len(words) - 1, 6)):
        if bare[at] in english.BE and bare[at] not in {"was", "were"}:
            after = at + 1 + (bare[at + 1] in _ASIDE)
            verb, rest = _IN_PROGRESS.get(bare[after], ("", [])) if after < len(bare) else ("", [])
            behind = after + 1 + len(rest)
            if verb and bare[after + 1 : behind] == rest:
                return _triple(words[:at], verb, words[behind:])
        if bare[at] in _CHOICES and bare[at + 1] not in _PARTICLES:
            subject = [word for word in words[:at] if word.casefold() not in {"have", "has", *_ASIDE}]
            behind = at + 1
            if bare[at] in {"decided", "settled", "opted"}:
                if bare[behind : behind + 2] == ["to", "use"]:
                    behind += 2
                elif bare[behind : behind + 1] in (["on"], ["for"]):
                    behind += 1
                else:
                    return None
            return _triple(subject, "choose", words[behind:])
    return None


_NOT_SAID = frozenset((*english.NEGATIONS, *english.HEDGES, *english.SUBORDINATORS, *english.SUPPOSED)) - {"on"}


def _triple(subject: Sequence[str], predicate: str, said: Sequence[str]) -> Triple | None:
    if not subject or not said or len(subject) > 4 or len(said) > 12:
        return None
    return Triple(" ".join(subject), predicate, " ".join(said))
