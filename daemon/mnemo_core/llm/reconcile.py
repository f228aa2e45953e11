"""The task `reconcile`: of two memories about one thing, whether one replaces or absorbs the other. SPEC 12.2 [G21]

Source 1 is the older memory, source 2 the newer one. The answer names a relation and no text: which of the two stays
follows from their times and from what they say, and what the other one forbids or insists on is added to it word for
word. Where two texts differ in a specific, neither absorbs the other, whatever a model says.
"""

from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Literal, NamedTuple

import msgspec

from mnemo_core.ingest.memory_cues import (
    MemoryFacts,
    cue,
    holds_constraint,
    is_conditional,
    is_said_firmly,
    is_temporary,
)
from mnemo_core.llm.faithfulness import loss_of, omission_of
from mnemo_core.llm.tasks import LlmTask, Probe, TaskInputs
from mnemo_core.text import lexicon
from mnemo_core.text.canonical import CanonicalForm, canonical_form, difference
from mnemo_core.text.dates.date_words import WEEKDAYS
from mnemo_core.text.languages import STEM_LETTERS, WORD, content_words, sentences, word_stems
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed
from mnemo_core.text.tokens import NEGATIONS, OPPOSITES

SENTENCES_MAX, CHARACTERS_MAX = 8, 2000  # of one memory: a longer one is kept next to the other
SLOT_WORDS_MAX = 3  # in which two sentences of one frame differ
SHARED_MIN = 0.5  # of the older one's words, in a newer one that says that something has changed

_STATE, _COUNTED, _DENIED, _ENDED, _MOVED, _ADDITION, _RESTRICTION = map(
    cue, ("state", "counted", "denied", "ended", "moved", "addition", "restriction")
)
_NOW = listed("now currently jetzt inzwischen")
_DENIAL_STEMS = frozenset(word[:STEM_LETTERS] for word in listed("don doesn didn not isn aren won can"))
_OWNERS = lazy_pattern(r"\b(\w+s)['’](?=\s)")  # several: the members' children
_OWNED = listed("my our your the his her their mein meine unser unsere der die das den dem am")
_WEEKDAYS = frozenset(WEEKDAYS).union(lexicon.words("calendar", "weekly_en"), lexicon.words("calendar", "weekly_de"))
_LAYERS = ("buffer", "working", "core")
_TRUSTS = ("tool", "import", "agent", "note", "user")

Relation = Literal["absorb", "keep_both", "update"]


class ReconcileAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The relation of two memories: the newer one replaces the older (`update`), one says all that the other says
    (`absorb`), or both stand."""

    relation: Relation


class _Sentence(NamedTuple):
    text: str
    form: CanonicalForm
    words: tuple[str, ...]


def validate_reconciliation(answer: ReconcileAnswer, inputs: TaskInputs) -> str:
    """Return why a verdict is rejected; "" if it is accepted."""
    if answer.relation == "keep_both":
        return ""
    older, newer = _pair(inputs)
    if answer.relation == "absorb":
        return "" if fuller_of(inputs) else "each has what the other one lacks"
    if _is_long(older) or _is_long(newer):
        return "they are too long to be compared"
    if barred := _barred(older, newer, inputs):
        return barred
    ruled = reconcile_by_rule(inputs).relation
    if ruled == "absorb":
        return "one of them says all that the other says"
    # Both ways: the customer number of the invoice is not its invoice number.
    is_about_one = _subject(older) <= content_words(newer) and _subject(newer) <= content_words(older)
    is_about_one = is_about_one and _shared(older, newer) >= SHARED_MIN
    if ruled != "update" and not (_subject(older) and is_about_one):
        return "the older memory states nothing that the newer one is about"
    return ""


def reconcile_by_rule(inputs: TaskInputs) -> ReconcileAnswer:
    """Compare two memories sentence by sentence; in doubt, keep both."""
    older, newer = _pair(inputs)
    if _is_long(older) or _is_long(newer):
        return ReconcileAnswer("keep_both")
    sides = [_sentences(text) for text in (older, newer)]
    if not all(sides):
        return ReconcileAnswer("keep_both")
    if _says_all(*sides) or _says_all(*reversed(sides)):
        return ReconcileAnswer("absorb" if fuller_of(inputs) else "keep_both")
    kept = [each for each in sides[0] if not any(_says(each, other) for other in sides[1])]
    stays = [each for each in kept if not any(_replaces(other, each) for other in sides[1])]
    # What the older one forbids or insists on goes into the newer one: see `inherited_text`.
    is_updated = len(stays) < len(kept) and all(holds_constraint(each.text) for each in stays)
    return ReconcileAnswer("update" if is_updated and not _barred(older, newer, inputs) else "keep_both")


def is_decided(inputs: TaskInputs) -> bool:
    """Return whether a rule relates the memories, or leaves a model nothing that it may say but to keep both."""
    if reconcile_by_rule(inputs).relation != "keep_both":
        return True
    relations: tuple[Relation, ...] = ("absorb", "update")
    return all(validate_reconciliation(ReconcileAnswer(each), inputs) for each in relations)


def winner_of(answer: ReconcileAnswer, inputs: TaskInputs) -> int | None:
    """The number of the source that stays; None where both do."""
    return {"update": 2, "absorb": fuller_of(inputs), "keep_both": None}[answer.relation]


def fuller_of(inputs: TaskInputs) -> int | None:
    """The number of the source that holds all specifics and words of the other one and restricts none of it, the newer
    of two equal ones; None where each has something of its own, or the fuller one must not replace the other."""
    texts = _pair(inputs)
    for number in (2, 1):
        winner, loser = texts[number - 1], texts[2 - number]
        facts = inputs.facts_of(number), inputs.facts_of(3 - number)
        if holds(winner, loser) and not _outranks(facts[1], facts[0]):
            return number
    return None


def inherited_text(winner: str, loser: str) -> str:
    """The text of the winner of a pair that was reconciled, with the sentences of the loser that forbid or insist and
    that it neither says nor replaces."""
    kept = _sentences(winner)
    lost = [
        each.text
        for each in _sentences(loser)
        if holds_constraint(each.text) and not any(_says(each, other) or _replaces(other, each) for other in kept)
    ]
    return " ".join([winner.rstrip(), *lost])


def _pair(inputs: TaskInputs) -> tuple[str, str]:
    return inputs.sources[0], inputs.sources[min(1, len(inputs.sources) - 1)]


def _barred(older: str, newer: str, inputs: TaskInputs) -> str:
    """The reason why the newer memory must not replace the older one; "" if nothing is against it."""
    if _outranks(inputs.facts_of(1), inputs.facts_of(2)):
        return "the older memory is pinned, in a higher layer or of more trust"
    if is_temporary(newer):
        return "the newer memory holds for a while only"
    if not is_said_firmly(newer):
        return "the newer memory is not said firmly"
    if is_conditional(newer) and not is_conditional(older):
        return "the newer memory holds under a condition only"
    return ""


def _outranks(one: MemoryFacts, other: MemoryFacts) -> bool:
    """Return whether a memory must not be replaced by another one."""

    def rank(order: Sequence[str], value: str, default: str) -> int:
        return order.index(value if value in order else default)

    return (
        (one.pinned and not other.pinned)
        or rank(_LAYERS, one.layer, "working") > rank(_LAYERS, other.layer, "working")
        or rank(_TRUSTS, one.trust, "user") > rank(_TRUSTS, other.trust, "user")
    )


def _sentences(text: str) -> list[_Sentence]:
    return [
        _Sentence(said, canonical_form(said), tuple(word.casefold() for word in WORD.findall(said)))
        for said in sentences(text)
    ]


def _says_all(one: Sequence[_Sentence], other: Sequence[_Sentence]) -> bool:
    """Return whether every sentence of one memory is said by the other."""
    return all(any(_says(each, said) for said in other) for each in one)


def _says(sentence: _Sentence, other: _Sentence) -> bool:
    """Return whether another sentence says the same, or the same and something in addition that restricts nothing."""
    if difference(sentence.form, other.form) is None:
        return True
    beginning = sentence.text.rstrip(" .!。！").casefold()
    rest = other.text.casefold().removeprefix(beginning)
    return len(rest) < len(other.text.casefold()) and _ADDITION.match(rest) is not None and not _restricts(rest)


def _restricts(text: str) -> bool:
    words = {word.casefold() for word in WORD.findall(text)}
    return bool(words & NEGATIONS) or is_conditional(text) or is_temporary(text) or bool(_RESTRICTION.search(text))


def holds(winner: str, loser: str) -> bool:
    """Return whether a text says all that another one says: clause by clause, and under the same conditions."""
    if _is_long(winner) or _is_long(loser):
        return False
    if _says_all(_sentences(loser), _sentences(winner)):
        return True
    if loss_of([loser], winner) or omission_of([loser], winner):
        return False
    values = [canonical_form(text).values for text in (winner, loser)]
    if not OPPOSITES.keys() & values[1] <= {*values[0]} or _owners(values[0]) != _owners(values[1]):
        return False
    if {*_OWNERS.findall(winner)} != {*_OWNERS.findall(loser)}:
        return False
    if not _subject(winner) - _subject(loser) <= content_words(loser):  # `the loan of my brother` is not the loan
        return False
    return all(
        bool(turns(winner)) == bool(turns(loser)) for turns in (is_conditional, is_temporary, _RESTRICTION.search)
    )


def _owners(values: Sequence[str]) -> set[str]:
    """The words before a possessive: `Anna's brother` is not Anna."""
    return {value for value, after in pairwise(values) if after == "'s"}


def _is_long(text: str) -> bool:
    return len(text) > CHARACTERS_MAX or len(sentences(text)) > SENTENCES_MAX


def _replaces(newer: _Sentence, older: _Sentence) -> bool:
    """Return whether a sentence has another value for what an older one states, or says that it has changed."""
    if not is_said_firmly(newer.text) or is_conditional(newer.text) != is_conditional(older.text):
        return False
    return _ends(newer, older) or _moves(newer, older) or _has_other_value(newer, older)


def _ends(newer: _Sentence, older: _Sentence) -> bool:
    """Return whether a sentence says of all that an older one states, and of no more, that it is over."""
    if newer.words[:1] != older.words[:1] or _denials(older.text):
        return False
    denied = _DENIED.sub(" ", newer.text)
    ended = _ENDED.sub(" ", newer.text)
    is_over = denied != newer.text and _denials(denied) == 1
    is_over = is_over or (ended != newer.text and not _denials(ended))
    return is_over and word_stems(ended if ended != newer.text else denied) - _DENIAL_STEMS == word_stems(older.text)


def _moves(newer: _Sentence, older: _Sentence) -> bool:
    """Return whether a sentence says of the subject of an older one, or from its value, that it has changed."""
    moved, state = _MOVED.search(newer.text), _STATE.search(older.text)
    if not moved or not state:
        return False
    subject = older.text[: state.start()].casefold().split()
    if newer.text[: moved.start()].casefold().split() == subject:
        return not newer.text[: moved.end()].endswith("from") or _left(newer, older)
    return _left(newer, older) and set(subject) <= set(newer.words)


def _left(newer: _Sentence, older: _Sentence) -> bool:
    """Return whether a sentence goes `from` the value of an older one `to` another one."""
    if "from" not in newer.words:
        return False
    start = newer.words.index("from") + 1
    rest = newer.words[start:]
    return any(
        rest[: len(value)] == value and rest[len(value) :][:1] == ("to",)
        for value in ([tuple(older.words[-count:]) for count in range(1, SLOT_WORDS_MAX + 1)])
    )


def _denials(text: str) -> int:
    plain = text.casefold().replace("’", "'")
    return plain.count("n't") + sum(word in NEGATIONS for word in WORD.findall(plain))


def _has_other_value(newer: _Sentence, older: _Sentence) -> bool:
    """Return whether two sentences differ in one place alone, of which one value holds at a time."""
    words = [tuple(word for word in each.words if word not in _NOW) for each in (older, newer)]
    before = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(*words, strict=False))))
    rests = [each[before:] for each in words]
    behind = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(*(rest[::-1] for rest in rests), strict=False))))
    slots = [rest[: len(rest) - behind] for rest in rests]
    if not before or not all(0 < len(slot) <= SLOT_WORDS_MAX for slot in slots):
        return False
    # Whether only one of the two values can hold, by the words of the sentence before them
    frame = " ".join(words[0][:before])
    if any(set(slot) & NEGATIONS for slot in slots):
        return False
    if all(any(c.isdigit() for c in slot[0]) for slot in slots):
        return bool(_STATE.search(frame) or _COUNTED.search(frame))
    if not _STATE.search(frame):
        return False
    if len(slots[0]) == len(slots[1]) == 1 and slots[1][0] in OPPOSITES.get(slots[0][0], ()):
        return True
    return all(slot[0] in _WEEKDAYS for slot in slots) or (
        older.words[0] in _OWNED and (_has_name(older) or _has_name(newer))
    )


def _has_name(sentence: _Sentence) -> bool:
    return any(token.kind == "name" for token in sentence.form.tokens)


def _subject(text: str) -> frozenset[str]:
    """The words of which a text states something that may change; empty of an event."""
    state = _STATE.search(text) or _COUNTED.search(text)
    return content_words(text[: state.start()]) if state else frozenset()


def _shared(older: str, newer: str) -> float:
    """The share of the words of the older memory that the newer one has, by their first letters; of numbers, none is
    expected."""
    stems = {stem for stem in word_stems(older) if not stem.isdecimal()}
    return len(stems & word_stems(newer)) / len(stems) if stems else 0.0


def _probe(older: str, newer: str, relation: Relation) -> Probe:
    return Probe(TaskInputs((older, newer)), lambda answer: answer.relation == relation)


RECONCILE = LlmTask(
    site="reconcile",
    instruction=(
        "Source 1 is an older memory, source 2 a newer one. How do they relate? update: both are about the same thing, "
        "and the older one is no longer true because of the newer one. absorb: one of them says everything that the "
        "other one says. keep_both: anything else, also if they are about two things, persons or events."
    ),
    answer=ReconcileAnswer, validate=validate_reconciliation, fallback=reconcile_by_rule, is_clear=is_decided,
    max_tokens=20,
    probes=(
        _probe("The choir room is in the town hall.", "The choir room is in the school since the fire.", "update"),
        _probe("The museum is free for children.", "The museum charges children 4 euros.", "update"),
        _probe("Lena was born in Graz.", "Lena was born in Graz, where her father taught.", "absorb"),
        _probe("The spare tent is in the attic, under the skis.", "The spare tent is in the attic.", "absorb"),
        _probe("The red bicycle belongs to Mia.", "The blue bicycle belongs to Jonas.", "keep_both"),
        _probe("We had lunch with Ravi in Leeds.", "We had lunch with Ravi and his mother in York.", "keep_both"),
    ),
)  # fmt: skip
