"""Features of two statements, from which the judge of changes decides. SPEC 5.8"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from mnemo_core.ingest.statement_kind import statement_kind
from mnemo_core.text.lexicon import listed
from mnemo_core.text.statement_reading import SIGNS, StatementWords, matched, read_statement
from mnemo_core.text.tokens import OPPOSITES

_KINDS = ("number", "unit", "date", "identifier")
_BEHIND = 4  # words behind a sign of an end in which what has ended is named
_NONE: Final[frozenset[str]] = frozenset()
_ENDERS = listed(
    "no not longer instead from than never without stopped dropped left "
    "statt nicht kein keine von ohne anstatt anstelle"
)


def pair_features(old_text: str, new_text: str, sim: float | None) -> list[float]:
    """The features of an earlier statement and a later one. sim: their cosine, None where one has no vector."""
    old, new = read_statement(old_text), read_statement(new_text)
    letters = _trigrams(old.plain), _trigrams(new.plain)
    return [
        *_of_words(old, new),
        *_of_order(old.content, new.content),
        *_of_values(old, new),
        *_of_persons(old, new),
        *_of_signs(old, new),
        *statement_kind(old_text).probabilities,
        *statement_kind(new_text).probabilities,
        sim if sim is not None else 0.0,
        float(sim is None),
        _ratio(len(letters[0] & letters[1]), len(letters[0] | letters[1])),
        min(old.sentences, 4) / 4,
        min(new.sentences, 4) / 4,
        float(old.is_question or new.is_question),
        min(len(old.plain), 40) / 40,
        min(len(new.plain), 40) / 40,
    ]


def _trigrams(words: Sequence[str]) -> set[str]:
    text = " ".join(words)
    return {text[at : at + 3] for at in range(len(text) - 2)}


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _of_words(old: StatementWords, new: StatementWords) -> list[float]:
    one, two = dict.fromkeys(old.content), dict.fromkeys(new.content)
    ones, twos = list(one), list(two)
    in_new = [matched(word, twos) for word in ones]
    in_old = [matched(word, ones) for word in twos]
    shared = sum(in_new)
    long = sum(length for word, match in zip(ones, in_new, strict=True) if match for length in (min(len(word), 12),))
    return [
        min(shared, 6) / 6,
        _ratio(shared, len(ones)),
        _ratio(sum(in_old), len(twos)),
        _ratio(2 * shared, len(ones) + len(twos)),
        min(long, 40) / 40,
        min(len(ones) - sum(map(bool, in_new)), 8) / 8,
        min(len(twos) - sum(map(bool, in_old)), 8) / 8,
        in_new[0] if in_new else 0.0,  # what the earlier one begins with: often what it is about
        in_old[0] if in_old else 0.0,
        in_new[-1] if in_new else 0.0,  # and ends with: often its value
        in_old[-1] if in_old else 0.0,
        max(in_new[:2], default=0.0),
        max(in_new[-2:], default=0.0),
        max(in_old[:3], default=0.0),
        _mean_place(in_new, unmatched=True),
        _mean_place(in_old, unmatched=True),
        _mean_place(in_new, unmatched=False),
        _mean_place(in_old, unmatched=False),
        float(not shared),
        float(any(not OPPOSITES.get(word, _NONE).isdisjoint(twos) for word in ones if word not in two)),
    ]


def _mean_place(matches: Sequence[float], *, unmatched: bool) -> float:
    """Mean place, 0 to 1, of the words that have a match or have none; 0.5 where there is no such word."""
    places = [at for at, match in enumerate(matches) if (not match) == unmatched]
    return _ratio(sum(places), len(places) * max(1, len(matches) - 1)) if places else 0.5


def _of_order(one: Sequence[str], two: Sequence[str]) -> list[float]:
    """The alignment of the texts: what they begin and end with in common, and where one has other words."""
    prefix = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    suffix = next(
        (at for at, (a, b) in enumerate(zip(reversed(one), reversed(two), strict=False)) if a != b),
        min(len(one), len(two)),
    )
    codes = [code for code in SequenceMatcher(None, one, two, autojunk=False).get_opcodes() if code[0] != "equal"]
    replaced = [code for code in codes if code[0] == "replace"]
    return [
        _ratio(prefix, len(one)),
        _ratio(suffix, len(one)),
        min(len(replaced), 4) / 4,
        min(sum(code[0] == "insert" for code in codes), 4) / 4,
        min(sum(code[0] == "delete" for code in codes), 4) / 4,
        float(len(codes) == 1 and len(replaced) == 1),
        max((code[1] / max(1, len(one)) for code in replaced), default=-1.0),
        min((code[1] / max(1, len(one)) for code in replaced), default=-1.0),
    ]


def _of_values(old: StatementWords, new: StatementWords) -> list[float]:
    found: list[float] = []
    for kind in _KINDS:
        one, two = old.values[kind], new.values[kind]
        found += [
            float(bool(one - two)), float(bool(two - one)), float(bool(one & two)),
            float(bool(one) and bool(two) and one.isdisjoint(two)), float(bool(one) and one == two),
        ]  # fmt: skip
    typed = [frozenset(each for kind in _KINDS for each in reading.values[kind]) for reading in (old, new)]
    found += [
        float(typed[0] == typed[1]),
        float(bool(typed[0]) != bool(typed[1])),
        float(_has_other_designator(old, new, early=False)),
        float(_has_other_designator(old, new, early=True)),
        float(bool(old.designators & new.designators)),
        float(bool(_years(new) - _years(old))),
        float(bool(_years(old) - _years(new))),
        float(bool(old.values["number"] & new.values["number"]) and bool(new.values["number"] - old.values["number"])),
    ]
    return found


def _has_other_designator(old: StatementWords, new: StatementWords, *, early: bool) -> bool:
    """Return whether both name the same with different numbers: tank 3, tank 4. early: in the first half of each."""
    one, two = (
        {pair for pair in each.designators if not early or pair[0] in each.content[: (len(each.content) + 1) // 2]}
        for each in (old, new)
    )
    shared = {word for word, _ in one} & {word for word, _ in two}
    return any(
        {n for word, n in one if word == each}.isdisjoint(n for word, n in two if word == each) for each in shared
    )


def is_about_other_side(old: StatementWords, new: StatementWords) -> bool:
    """Return whether the statements name different ones of a pair: the left knee, the right one."""
    shared = {pair for pair, _ in old.sides} & {pair for pair, _ in new.sides}
    return any({(pair, 0), (pair, 1)}.isdisjoint(old.sides & new.sides) for pair in shared)


def is_about_other_kin(old: StatementWords, new: StatementWords) -> bool:
    """Return whether the statements begin with different relatives: my brother's shoe size, my sister's."""
    return bool(old.kin_first) and bool(new.kin_first) and old.kin_first.isdisjoint(new.kin_first)


def _years(reading: StatementWords) -> frozenset[str]:
    return frozenset(word for word in reading.plain if len(word) == 4 and word.isdecimal() and word[:2] in ("19", "20"))


def _of_persons(old: StatementWords, new: StatementWords) -> list[float]:
    one, two = list(dict.fromkeys(old.names)), list(dict.fromkeys(new.names))
    in_new = [matched(name, new.content) for name in one]
    in_old = [matched(name, old.content) for name in two]
    place = {word: at / max(1, len(new.content) - 1) for at, word in enumerate(new.content)}
    other = [place.get(name, 0.5) for name, match in zip(two, in_old, strict=True) if not match]
    place = {word: at / max(1, len(old.content) - 1) for at, word in enumerate(old.content)}
    gone = [place.get(name, 0.5) for name, match in zip(one, in_new, strict=True) if not match]
    return [
        float(bool(one)), float(bool(two)),
        min(sum(map(bool, in_new)), 3) / 3, min(len(gone), 3) / 3, min(len(other), 3) / 3,
        min(gone, default=-1.0), min(other, default=-1.0), max(gone, default=-1.0), max(other, default=-1.0),
        float(bool(gone) and bool(other)),
        float(bool(old.owners) and bool(new.owners) and old.owners.isdisjoint(new.owners)),
        float(bool(old.owners & new.owners)), float(bool(new.owners - old.owners)),
        float(bool(old.owners - new.owners)),
        float(bool(old.kin & new.kin)), float(bool(old.kin) and bool(new.kin) and old.kin.isdisjoint(new.kin)),
        float(is_about_other_kin(old, new)),
        float(is_about_other_side(old, new)),
        float(bool(new.kin - old.kin)), float(bool(old.kin - new.kin)),
        float(old.person == "first"), float(new.person == "first"),
        float(old.person == "ours"), float(new.person == "ours"),
        float(old.person == new.person), float(bool(old.person) and bool(new.person)),
    ]  # fmt: skip


def _of_signs(old: StatementWords, new: StatementWords) -> list[float]:
    found = [float(sign in new.signs) for sign in SIGNS]
    found += [float(sign in old.signs) for sign in SIGNS]
    found += [
        float(("negated" in old.signs) != ("negated" in new.signs)),
        _named_as_ended(old, new),
        float(bool({"now", "moved", "ended", "instead", "fresh"} & new.signs)),
        float(bool({"moved", "ended", "instead"} & new.signs) and not {"unsure", "kept", "except"} & new.signs),
        float("unsure" in new.signs and not {"now", "moved", "ended"} & new.signs),
    ]
    return found


def _named_as_ended(old: StatementWords, new: StatementWords) -> float:
    """The share of words of the earlier statement among those that the later one names as over: "not Redis"."""
    behind = [
        word
        for at, each in enumerate(new.plain) if each in _ENDERS
        for word in new.plain[at + 1 : at + 1 + _BEHIND]
    ]  # fmt: skip
    return float(
        any(len(word) > 2 and any(word.startswith(stem) for stem in old.content if len(stem) > 2) for word in behind)
    )
