"""The judge of changes: whether a later statement replaces an earlier one, perhaps does, or says the same. SPEC 5.8

Two learned steps. A linear model reads the words themselves: those of the later statement alone, of the earlier alone,
of both, and pairs of words that are new. Its scores and the features of the pair go through an ensemble of small
networks, which give the probabilities of the four relations. Vetoes come before: what they exclude, no probability
overrules.
"""

import base64
import functools
import itertools
import sys
import zlib
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.statement_kind import statement_kind
from mnemo_core.text import lexicon
from mnemo_core.text.statement_reading import SIGNS, STATEMENT_CHARACTERS, StatementWords, read_statement
from mnemo_core.text.text_cache import TextCache
from mnemo_core.text.tokens import OPPOSITES

_KINDS = ("number", "unit", "date", "identifier")
_BEHIND = 4  # words behind a sign of an end in which what has ended is named
_ENDERS = lexicon.words("changes", "enders")
_MOVED = frozenset({"moved", "ended", "instead"})
_CHANGED = _MOVED | {"now", "fresh"}
_DOUBTED = frozenset({"unsure", "kept", "except"})
_TOLD = frozenset({"now", "moved", "ended"})


class _Statement:
    """A statement, with what a comparison needs of it whichever other one it is compared with."""

    def __init__(self, text: str) -> None:
        self.read = read = read_statement(text)
        self.plain = frozenset(read.plain)
        self.words = tuple(dict.fromkeys(read.content))
        self.opposites = [(word, OPPOSITES[word]) for word in self.words if word in OPPOSITES]
        place = {word: at / max(1, len(read.content) - 1) for at, word in enumerate(read.content)}
        self.names = [(name, place.get(name, 0.5)) for name in dict.fromkeys(read.names)]
        self.specifics = frozenset[str]().union(*(read.values[kind] for kind in _KINDS))
        numbers = (word for word in read.plain if len(word) == 4 and word.isdecimal())
        self.years = frozenset(word for word in numbers if word[:2] in ("19", "20"))
        self.signs = [float(sign in read.signs) for sign in SIGNS]
        enders = [at for at, word in enumerate(read.plain) if word in _ENDERS]
        behind = (word for at in enders for word in read.plain[at + 1 : at + 1 + _BEHIND])
        self.behind_enders = [word for word in behind if len(word) > 2]
        joined = " ".join(read.plain)
        self.letters = frozenset([sys.intern(joined[at : at + 3]) for at in range(len(joined) - 2)])
        self.kinds = statement_kind(text).probabilities
        self.sentences = min(read.sentences, 4) / 4
        self.length = min(len(read.plain), 40) / 40


# Of texts that are also cached as they were read: some 17 KB more for each, 11 MB in all.
_statement = TextCache(_Statement, STATEMENT_CHARACTERS // 2)


def clear_statements() -> None:
    """Empty the caches of statements and their words: one of them may have been erased."""
    _statement.clear()
    word_row.cache_clear()


def pair_features(
    old_text: str, new_text: str, sim: float | None, alignment: "SequenceMatcher[str] | None" = None
) -> list[float]:
    """The features of an earlier statement and a later one. sim: their cosine, None where one has no vector. alignment:
    one that has the words of the later one, where it is compared with several."""
    old, new = _statement(old_text), _statement(new_text)
    letters = len(old.letters & new.letters)
    return [
        *_of_words(old, new),
        *_of_order(old.read.content, new.read.content, alignment or _alignment(new_text)),
        *_of_values(old, new),
        *_of_persons(old, new),
        *_of_signs(old, new),
        *old.kinds,
        *new.kinds,
        sim if sim is not None else 0.0,
        float(sim is None),
        _ratio(letters, len(old.letters) + len(new.letters) - letters),
        old.sentences,
        new.sentences,
        float(old.read.is_question or new.read.is_question),
        old.length,
        new.length,
    ]


def _alignment(new: str) -> "SequenceMatcher[str]":
    """An alignment that has the words of a later statement, which it reads once for all earlier ones."""
    return SequenceMatcher(None, "", read_statement(new).content, autojunk=False)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _of_words(old: _Statement, new: _Statement) -> list[float]:
    ones, twos = old.words, new.words
    in_new = [*map(new.read.forms.match, ones)]
    in_old = [*map(old.read.forms.match, twos)]
    shared = sum(in_new)
    (other, same), (other_in_old, same_in_old) = _mean_places(in_new), _mean_places(in_old)
    return [
        min(shared, 6) / 6,
        _ratio(shared, len(ones)),
        _ratio(sum(in_old), len(twos)),
        _ratio(2 * shared, len(ones) + len(twos)),
        min(sum([min(len(word), 12) for word, match in zip(ones, in_new, strict=True) if match]), 40) / 40,
        min(in_new.count(0.0), 8) / 8,
        min(in_old.count(0.0), 8) / 8,
        in_new[0] if in_new else 0.0,  # what the earlier one begins with: often what it is about
        in_old[0] if in_old else 0.0,
        in_new[-1] if in_new else 0.0,  # and ends with: often its value
        in_old[-1] if in_old else 0.0,
        max(in_new[:2], default=0.0),
        max(in_new[-2:], default=0.0),
        max(in_old[:3], default=0.0),
        other,
        other_in_old,
        same,
        same_in_old,
        float(not shared),
        float(any(word not in twos and not others.isdisjoint(twos) for word, others in old.opposites)),
    ]


def _mean_places(matches: Sequence[float]) -> tuple[float, float]:
    """Mean place, 0 to 1, of the words that have no match, and of those that have one; 0.5 where there is none."""
    matched = [at for at, match in enumerate(matches) if match]
    last, total, count = len(matches) - 1, sum(matched), len(matched)
    others, total_others = len(matches) - count, len(matches) * last // 2 - total
    return (
        _ratio(total_others, others * max(1, last)) if others else 0.5,
        _ratio(total, count * max(1, last)) if count else 0.5,
    )


def _of_order(one: Sequence[str], two: Sequence[str], alignment: "SequenceMatcher[str]") -> list[float]:
    """The alignment of the texts: what they begin and end with in common, and where one has other words."""
    shorter = min(len(one), len(two))
    prefix = next((at for at in range(shorter) if one[at] != two[at]), shorter)
    suffix = next((at for at in range(shorter) if one[-1 - at] != two[-1 - at]), shorter)
    alignment.set_seq1(one)
    edits = [(kind, at) for kind, at, *_ in alignment.get_opcodes() if kind != "equal"]
    replaced = [at / max(1, len(one)) for kind, at in edits if kind == "replace"]
    return [
        _ratio(prefix, len(one)),
        _ratio(suffix, len(one)),
        min(len(replaced), 4) / 4,
        min(sum([kind == "insert" for kind, _ in edits]), 4) / 4,
        min(sum([kind == "delete" for kind, _ in edits]), 4) / 4,
        float(len(edits) == 1 and len(replaced) == 1),
        max(replaced, default=-1.0),
        min(replaced, default=-1.0),
    ]


def _of_values(old: _Statement, new: _Statement) -> list[float]:
    found: list[float] = []
    for kind in _KINDS:
        one, two = old.read.values[kind], new.read.values[kind]
        if not one and not two:
            found += _NO_VALUES
            continue
        found += [
            float(not one <= two), float(not two <= one), float(not one.isdisjoint(two)),
            float(bool(one) and bool(two) and one.isdisjoint(two)), float(bool(one) and one == two),
        ]  # fmt: skip
    numbers, later = old.read.values["number"], new.read.values["number"]
    found += [
        float(old.specifics == new.specifics),
        float(bool(old.specifics) != bool(new.specifics)),
        float(_has_other_designator(old.read, new.read, early=False)),
        float(_has_other_designator(old.read, new.read, early=True)),
        float(not old.read.designators.isdisjoint(new.read.designators)),
        float(not new.years <= old.years),
        float(not old.years <= new.years),
        float(not numbers.isdisjoint(later) and not later <= numbers),
    ]
    return found


_NO_VALUES = [0.0] * 5


def _has_other_designator(old: StatementWords, new: StatementWords, *, early: bool) -> bool:
    """Return whether both name the same with different numbers: tank 3, tank 4. early: in the first half of each."""
    if not (old.designators and new.designators):
        return False
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


def _of_persons(earlier: _Statement, later: _Statement) -> list[float]:
    old, new = earlier.read, later.read
    gone = [place for name, place in earlier.names if not new.forms.match(name)]
    other = [place for name, place in later.names if not old.forms.match(name)]
    return [
        float(bool(earlier.names)), float(bool(later.names)),
        min(len(earlier.names) - len(gone), 3) / 3, min(len(gone), 3) / 3, min(len(other), 3) / 3,
        min(gone, default=-1.0), min(other, default=-1.0), max(gone, default=-1.0), max(other, default=-1.0),
        float(bool(gone) and bool(other)),
        float(bool(old.owners) and bool(new.owners) and old.owners.isdisjoint(new.owners)),
        float(not old.owners.isdisjoint(new.owners)), float(not new.owners <= old.owners),
        float(not old.owners <= new.owners),
        float(not old.kin.isdisjoint(new.kin)),
        float(bool(old.kin) and bool(new.kin) and old.kin.isdisjoint(new.kin)),
        float(is_about_other_kin(old, new)),
        float(is_about_other_side(old, new)),
        float(not new.kin <= old.kin), float(not old.kin <= new.kin),
        float(old.person == "first"), float(new.person == "first"),
        float(old.person == "ours"), float(new.person == "ours"),
        float(old.person == new.person), float(bool(old.person) and bool(new.person)),
    ]  # fmt: skip


def _of_signs(earlier: _Statement, later: _Statement) -> list[float]:
    old, new = earlier.read.signs, later.read.signs
    return [
        *later.signs,
        *earlier.signs,
        float(("negated" in old) != ("negated" in new)),
        # Whether the later one names as over what the earlier one is about: "not Redis".
        float(any(word.startswith(stem) for word in later.behind_enders for stem in earlier.words if len(stem) > 2)),
        float(not new.isdisjoint(_CHANGED)),
        float(not new.isdisjoint(_MOVED) and new.isdisjoint(_DOUBTED)),
        float("unsure" in new and new.isdisjoint(_TOLD)),
    ]


RELATIONS: Final = ("certain", "likely", "same", "none")  # in the order of the probabilities
SENTENCES_MAX: Final = 2  # of an earlier text that a later one may replace as a whole
WORD_ROWS: Final = 1 << 14  # of the table of weights of words
CHANGE_SIGNS: Final = frozenset({"now", "ended", "moved", "instead"})
REMOTE_SIM_MAX: Final = 0.3  # cosine below which two statements need REMOTE_WORDS_MIN words in common to be judged
REMOTE_WORDS_MIN: Final = 2
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
        # With a row of zeros behind those of the words.
        table = np.frombuffer(base64.b64decode(weights["word_weights"]) + bytes(len(RELATIONS)), np.int8)
        self._of_words = table.reshape(WORD_ROWS + 1, len(RELATIONS))
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

    def find_all(self, olds: Sequence[tuple[str, float | None]], new: str) -> list[Finding]:
        """The relation of a later text to each of some earlier ones, which are given with their cosines."""
        two = read_statement(new)
        ones = [read_statement(old) for old, _ in olds]
        pairs = enumerate(zip(ones, olds, strict=True))
        judged = [at for at, (one, (_, sim)) in pairs if not (is_excluded(one, two) or is_remote(one, two, sim))]
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
        rows, starts = list[int](), list[int]()
        for old, _ in olds:
            starts.append(len(rows))
            rows += (WORD_ROWS, *map(word_row, word_features(old, new)))  # the row of zeros, where it has no words
        sums = np.add.reduceat(self._of_words.take(rows, axis=0), starts, axis=0, dtype=np.int64)
        of_words = sums.astype(np.float32) * np.float32(self._word_scale) + self._bias
        alignment = _alignment(new)
        features = np.array([pair_features(old, new, sim, alignment) for old, sim in olds], np.float32)
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
    return not (old.person and new.person) and not any(map(new.forms.match, old.content))


def is_remote(old: StatementWords, new: StatementWords, sim: float | None) -> bool:
    """Return whether the texts are too far from each other to be worth judging: in eight lives a quarter of the
    pairs are, and none of them is a change. sim: their cosine, None where one has no vector."""
    if sim is None or sim >= REMOTE_SIM_MAX:
        return False
    return sum(map(bool, map(new.forms.match, dict.fromkeys(old.content)))) < REMOTE_WORDS_MIN


def is_doubtful(old: StatementWords, new: StatementWords) -> bool:
    """Return whether a later text is never certain to replace the earlier one: that one is a supposition or proposal,
    or says more than one thing; the later one is a supposition that tells of no change, or is about the other of a
    pair."""
    if old.sentences > SENTENCES_MAX or "unsure" in old.signs or is_about_other_side(old, new):
        return True
    return "unsure" in new.signs and new.signs.isdisjoint(CHANGE_SIGNS)


@functools.lru_cache(1 << 12)
def word_row(feature: str) -> int:
    """The row of the table of weights that a feature has, which it may share with others."""
    return zlib.crc32(feature.encode()) % WORD_ROWS


def word_features(old_text: str, new_text: str) -> list[str]:
    """The words of a pair by where they stand, as the linear model knows them."""
    old, new = _statement(old_text), _statement(new_text)
    one, two = old.plain, new.plain
    pairs = dict.fromkeys(itertools.pairwise(new.read.plain))
    return [
        *[f"b:{word}" for word in two - one],
        *[f"a:{word}" for word in one - two],
        *[f"c:{word}" for word in one & two],
        *[f"bb:{first}_{second}" for first, second in pairs if first not in one or second not in one],
    ]
