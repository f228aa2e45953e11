"""The judge of changes: whether a later statement replaces an earlier one, perhaps does, or says the same. SPEC 5.8

Two learned steps. A linear model reads the words themselves: those of the later statement alone, of the earlier alone,
of both, and pairs of words that are new. Its scores and the features of the pair go through an ensemble of small
networks, which give the probabilities of the four relations. Vetoes come before: what they exclude, no probability
overrules.
"""

import base64
import itertools
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.changes.pair_features import is_about_other_kin, is_about_other_side, pair_features
from mnemo_core.text.statement_reading import StatementWords, matched, read_statement

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
        self._networks = [
            tuple(np.array(part, np.float32) for part in network) for network in weights["networks"]
        ]  # each: weights (features, units), bias (units), weights (units, relations), bias (relations)
        self.bars = ChangeBars(**weights["bars"])

    def find(self, old: str, new: str, sim: float | None) -> Finding:
        """The relation of a later text to an earlier one. sim: their cosine, None where one has no vector."""
        one, two = read_statement(old), read_statement(new)
        if is_excluded(one, two):
            return ""
        certain, likely, same, _ = self.probabilities(old, new, sim)
        if certain >= self.bars.certain and not is_doubtful(one, two):
            return "certain"
        if same >= self.bars.same:
            return "same"
        return "likely" if certain + likely >= self.bars.likely and certain + likely > same else ""

    def probabilities(self, old: str, new: str, sim: float | None) -> list[float]:
        """The probabilities of RELATIONS."""
        rows = [word_row(each) for each in word_features(old, new)]
        of_words = self._of_words[rows].sum(axis=0) * self._word_scale + self._bias
        features = np.concatenate((np.array(pair_features(old, new, sim), np.float32), of_words))
        features = np.clip((features - self._mean) / self._scale, -CLIPPED, CLIPPED)
        total = np.zeros(len(RELATIONS), np.float64)
        for first, first_bias, second, second_bias in self._networks:
            scores = np.maximum(features @ first + first_bias, 0.0) @ second + second_bias
            odds = np.exp(scores - scores.max())
            total += odds / odds.sum()
        return [float(each) for each in total / len(self._networks)]


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
