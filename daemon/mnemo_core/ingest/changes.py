"""The judge of changes: whether a later statement replaces an earlier one, perhaps does, or says the same. SPEC 5.8

Two learned steps. A linear model reads the words themselves: those of the later statement alone, of the earlier alone,
of both, and pairs of words that are new. Its scores and the features of the pair go through an ensemble of small
networks, which give the probabilities of the four relations. Vetoes come before: what they exclude, no probability
overrules.
"""

import base64
import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.statement_kind import statement_kind
from mnemo_core.text import lexicon
from mnemo_core.text.statement_reading import SIGNS, StatementWords, matched, read_statement
from mnemo_core.text.tokens import OPPOSITES

_KINDS = ("number", "unit", "date", "identifier")
_BEHIND = 4  # words behind a sign of an end in which what has ended is named
_NONE: Final[frozenset[str]] = frozenset()
_ENDERS = lexicon.words("changes", "enders")


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


RELATIONS: Final = ("certain", "likely", "same", "none")  # in the order of the probabilities
SENTENCES_MAX: Final = 2  # of an earlier text that a later one may replace as a whole
WORD_ROWS: Final = 1 << 14  # of the table of weights of words
CHANGE_SIGNS: Final = frozenset({"now", "ended", "moved", "instead"})
CLIPPED: Final = 6.0  # standard deviations, beyond which a feature says no more

Finding = Literal["certain", "likely", "same", ""]
Floats = NDArray[np.float32]


class ChangeBars(NamedTuple):
    """The probabilities from which on a relation is found."""

    certain: float
    likely: float  # of certain and likely together
    same: float


class ChangeJudge:
    """The learned judge. Any thread may ask."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        """weights: as `tests/bench/fit_changes.py` writes them. Raises KeyError where a part is missing."""
        table = np.frombuffer(base64.b64decode(weights["word_weights"]), np.int8)
        self._of_words = table.reshape(WORD_ROWS, len(RELATIONS))
        self._word_scale = float(weights["word_scale"])
        self._bias: Floats = np.array(weights["word_bias"], np.float32)
        self._mean: Floats = np.array(weights["mean"], np.float32)
        self._scale: Floats = np.array(weights["scale"], np.float32)
        # Of each network: weights (features, units), bias (units), weights (units, relations), bias (relations). Their
        # first layers are one product.
        first, first_bias, second, second_bias = zip(*weights["networks"], strict=True)
        self._first: Floats = np.concatenate([np.array(each, np.float32) for each in first], axis=1)
        self._first_bias: Floats = np.concatenate([np.array(each, np.float32) for each in first_bias])
        self._second: Floats = np.array(second, np.float32)
        self._second_bias: Floats = np.array(second_bias, np.float32)
        self.bars = ChangeBars(**weights["bars"])

    def find(self, old: str, new: str, sim: float | None) -> Finding:
        """The relation of a later text to an earlier one. sim: their cosine, None where one has no vector."""
        return self.find_all([(old, sim)], new)[0]

    def find_all(self, olds: Sequence[tuple[str, float | None]], new: str) -> list[Finding]:
        """The relation of a later text to each of some earlier ones, which are given with their cosines."""
        two = read_statement(new)
        ones = [read_statement(old) for old, _ in olds]
        judged = [place for place, one in enumerate(ones) if not is_excluded(one, two)]
        found: list[Finding] = [""] * len(olds)
        for place, row in zip(judged, self._probabilities([olds[each] for each in judged], new), strict=True):
            certain, likely, same, _ = row
            if certain >= self.bars.certain and not is_doubtful(ones[place], two):
                found[place] = "certain"
            elif same >= self.bars.same:
                found[place] = "same"
            elif certain + likely >= self.bars.likely and certain + likely > same:
                found[place] = "likely"
        return found

    def probabilities(self, old: str, new: str, sim: float | None) -> list[float]:
        """The probabilities of RELATIONS."""
        return self._probabilities([(old, sim)], new)[0]

    def _probabilities(self, olds: Sequence[tuple[str, float | None]], new: str) -> list[list[float]]:
        """The same for each earlier text, from one product: numpy takes longer for a call than for its numbers."""
        if not olds:
            return []
        rows = [[word_row(each) for each in word_features(old, new)] for old, _ in olds]
        of_words = np.array([self._of_words[each].sum(axis=0) for each in rows], np.float32)
        of_words = of_words * np.float32(self._word_scale) + self._bias
        features = np.array([pair_features(old, new, sim) for old, sim in olds], np.float32)
        features = (np.concatenate((features, of_words), axis=1) - self._mean) / self._scale
        hidden = np.minimum(np.maximum(features, -CLIPPED), CLIPPED) @ self._first + self._first_bias
        hidden = np.maximum(hidden, 0.0).reshape(len(olds), len(self._second), 1, -1)
        scores = (hidden @ self._second)[:, :, 0] + self._second_bias
        odds = np.exp(scores - scores.max(axis=2, keepdims=True))
        found: list[list[float]] = (odds / odds.sum(axis=2, keepdims=True)).mean(axis=1).tolist()
        return found


def is_excluded(old: StatementWords, new: StatementWords) -> bool:
    """Return whether nothing that the texts say can make the later one replace or repeat the earlier: one asks, they
    are about different relatives, or they have no word in common and are not both the speaker's."""
    if old.is_question or new.is_question or is_about_other_kin(old, new):
        return True
    return not (old.person and new.person) and not any(matched(word, new.content) for word in old.content)


def is_doubtful(old: StatementWords, new: StatementWords) -> bool:
    """Return whether a later text is never certain to replace the earlier one: that one is a supposition or proposal,
    or says more than one thing; the later one is a supposition that tells of no change, or is about the other of a
    pair."""
    if old.sentences > SENTENCES_MAX or "unsure" in old.signs or is_about_other_side(old, new):
        return True
    return "unsure" in new.signs and new.signs.isdisjoint(CHANGE_SIGNS)


def word_row(feature: str) -> int:
    """The row of the table of weights that a feature has, which it may share with others."""
    return zlib.crc32(feature.encode()) % WORD_ROWS


def word_features(old: str, new: str) -> Iterator[str]:
    """The words of a pair by where they stand, as the linear model knows them."""
    words = read_statement(new).plain
    one, two = frozenset(read_statement(old).plain), frozenset(words)
    yield from (f"b:{word}" for word in two - one)
    yield from (f"a:{word}" for word in one - two)
    yield from (f"c:{word}" for word in one & two)
    yield from {
        f"bb:{first}_{second}" for first, second in itertools.pairwise(words) if first not in one or second not in one
    }
