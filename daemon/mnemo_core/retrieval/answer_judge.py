"""The chance that the first hit of a recall answers a question. SPEC 11

Recall ranks: the first hit of a question without an answer is near it too, as it names the same person. What tells
them apart is whether the rest of the question is there, and whether the quote adds something of the kind that is asked
for: a number, a date, a name. A logistic model of such features decides it; its weights are fitted to made lives and
conversations (`tests/bench/fit_answers.py`).
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from mnemo_core.text.languages import EMPTY_WORDS
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.query_features import analyze_query, asks_for_past
from mnemo_core.text.statement_reading import NO_NAMES, StatementWords, matched, read_statement, stem

READ_CHARACTERS: Final = 1000  # of the question and of each text
HITS_MAX: Final = 8  # that are compared with the first
WANTED_MAX: Final = 8  # words of a question that are counted
WORDS_MIN: Final = 4  # of a question that a quote answers by having them all: in lives 18 of 20 such quotes do
_ASKED = (
    "when", "where", "who", "what", "which", "how_many", "how_long", "why", "how", "yes_no", "is_keywords",
    "first_person",
)  # fmt: skip
_KINDS = ("number", "date", "unit", "identifier")
_SIGNS = ("negated", "unsure", "past", "now")
_EMPTY_STEMS: Final = frozenset(map(stem, EMPTY_WORDS))
_OTHER_KIN = "other kin"
_NAMING: Final = frozenset({"name", "named", "called", "heißt", "heisst"})  # words of a question for a name
_OTHER_ATTRIBUTE = "other attribute"
# "What is Otto's address?" is not answered by "Otto's phone number is …".
_ASKED_ATTRIBUTE = lazy_pattern(
    r"\A\W*what(?:['’]s| is| are| was) [^?]{0,60}?(?:['’]s?|\b(?:my|our|your|his|her|their)) ([\w -]{2,40}?)\W*\Z",
    re.IGNORECASE,
)
# "What is Anna's phone number?" is not answered by a text without one.
_ASKED_NUMBER = lazy_pattern(
    r"(?:['’]s?|\b(?:my|our|his|her|their)) (?:[a-z-]{1,20} ){0,2}(number|code|pin|iban)\b", re.IGNORECASE
)
_STATED_ATTRIBUTE = lazy_pattern(
    r"\A\W*(?:[A-Z][\w-]{1,30}(?: [A-Z][\w-]{1,30})?['’]s?|[Mm]y|[Oo]ur)(?: [a-z-]{2,20}['’]s?)? "
    r"([a-z-]{2,20}(?: [a-z-]{2,20}){0,2}) (?:is|are|was) "
)
_RARITY_MIN = 0.05  # of a word that all hits have
_ODDS_OFFSET = 1e-3
CLIPPED: Final = 5.0  # standard deviations, beyond which a feature says no more


class AnswerCandidate(NamedTuple):
    """A hit of a recall: its text, its sentence that answers best, its score, and whether somebody said it in talk."""

    text: str
    quote: str
    score: float
    is_spoken: bool = False


class AnswerJudge:
    """The fitted model."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        """weights: as `tests/bench/fit_answers.py` writes them. Raises KeyError where a part is missing."""
        self._features: Mapping[str, Sequence[float]] = weights["features"]  # name: mean, scale and weight
        self._bias = float(weights["bias"])
        self._bar = float(weights["bar"])  # the least chance of an answer

    def answers(self, question: str, hits: Sequence[AnswerCandidate]) -> bool:
        """Return whether the quote of the first hit is likely enough to answer. hits: the best first, one at least."""
        features = answer_features(question, hits)
        chance = self.chance_of(features)
        has_all = features["all in quote"] and features["wanted"] >= WORDS_MIN / WANTED_MAX
        return chance >= self._bar or bool(has_all and chance)

    def chance_of(self, features: Mapping[str, float]) -> float:
        """The probability of an answer by the features of a question; 0 where the memory is of other relatives, or
        states another attribute than the one that is asked for."""
        if features[_OTHER_KIN] or features[_OTHER_ATTRIBUTE]:
            return 0.0
        odds = self._bias
        for name, value in features.items():
            mean, scale, weight = self._features[name]
            odds += weight * min(max((value - mean) / scale, -CLIPPED), CLIPPED)
        return 1.0 / (1.0 + math.exp(-odds))


def answer_features(question: str, hits: Sequence[AnswerCandidate]) -> dict[str, float]:
    """The features of a question and what was recalled for it, by name. hits: the best first, one at least."""
    hits = hits[:HITS_MAX]
    question = question[:READ_CHARACTERS]
    asked = read_statement(question)
    texts = [read_statement(hit.text[:READ_CHARACTERS]) for hit in hits]
    quote = read_statement(hits[0].quote[:READ_CHARACTERS])
    asks = analyze_query(question)
    empty = _EMPTY_STEMS | {"long"} if asks.how_long else _EMPTY_STEMS
    wanted = [word for word in dict.fromkeys(asked.content) if word not in empty]
    held = [sum(bool(matched(word, text.content)) for text in texts) for word in wanted]
    rarity = {
        word: 1 - max(count - 1, 0) / (HITS_MAX - 1) + _RARITY_MIN for word, count in zip(wanted, held, strict=True)
    }
    features = {f"asks {name}": float(getattr(asks, name)) for name in _ASKED}
    features["asks past"] = float(asks_for_past(question))
    features |= _of_words(wanted, rarity, asked, texts[0], quote)
    features |= _of_values(wanted, features, asked, quote)
    features |= _of_persons(asked, texts[0], quote)
    covered = [_share(word in text.content or matched(word, text.content) for word in wanted) for text in texts]
    scores = [hit.score for hit in hits] + [0.0] * HITS_MAX
    return features | {
        "covered before best": covered[0] - max(covered),
        "covered by all": _share(map(bool, held)),
        _OTHER_ATTRIBUTE: float(_is_other_attribute(question, hits[0])),
        "spoken": float(hits[0].is_spoken),
        "quote is text": float(hits[0].quote == hits[0].text),
        "quote asks": float(quote.is_question),
        "quote words": min(len(quote.plain), 40) / 40,
        "text characters": min(len(hits[0].text), 400) / 400,
        "colon": float(":" in hits[0].quote),
        "score": scores[0],
        "score odds": math.log(scores[0] / max(1 - scores[0], _ODDS_OFFSET) + _ODDS_OFFSET),
        "score ahead": scores[0] - scores[1],
        "score of third": scores[2],
        "score of all": sum(scores[:HITS_MAX]),
        **{f"quote {sign}": float(sign in quote.signs) for sign in _SIGNS},
    }


def _share(values: Any) -> float:
    """The mean of values; 0 of none."""
    found = [float(each) for each in values]
    return sum(found) / len(found) if found else 0.0


def _of_words(
    wanted: Sequence[str], rarity: Mapping[str, float], asked: StatementWords, text: StatementWords,
    quote: StatementWords,
) -> dict[str, float]:  # fmt: skip
    """Shares of the question that stand in the quote and in its text, weighted by how rare they are among the hits."""
    in_quote = [word for word in wanted if matched(word, quote.content)]
    in_text = [word for word in wanted if matched(word, text.content)]
    missing = [word for word in wanted if word not in in_text]
    names = [word for word in dict.fromkeys(asked.names) if word in rarity]
    other = [word for word in in_text if word not in names]
    whole = sum(rarity.values()) or 1.0
    return {
        "wanted": min(len(wanted), WANTED_MAX) / WANTED_MAX,
        "share in quote": _share(word in in_quote for word in wanted),
        "rare share in quote": sum(rarity[word] for word in in_quote) / whole,
        "rare share in text": sum(rarity[word] for word in in_text) / whole,
        "all in quote": float(len(in_quote) == len(wanted)),
        "all in text": float(not missing),
        "missing": min(len(missing), 4) / 4,
        "rarest missing": max((rarity[word] for word in missing), default=0.0),
        "rarest in quote": max((rarity[word] for word in in_quote), default=0.0),
        "first in quote": float(bool(wanted) and wanted[0] in in_quote),
        "last in quote": float(bool(wanted) and wanted[-1] in in_quote),
        "last in text": float(bool(wanted) and wanted[-1] in in_text),
        "other words in text": len(other) / max(1, len(wanted) - len(names)),
        "rarest other": max((rarity[word] for word in other), default=0.0),
        "commonest other": min((rarity[word] for word in other), default=0.0),
        "names": float(bool(names)),
        "names in quote": _share(name in in_quote for name in names) if names else 1.0,
        "names in text": _share(name in in_text for name in names) if names else 1.0,
    }


def _of_values(
    wanted: Sequence[str], asks: Mapping[str, float], asked: StatementWords, quote: StatementWords
) -> dict[str, float]:
    """Words and values of the quote that the question has not, and whether they are of the kind that is asked for."""
    new_words = [word for word in dict.fromkeys(quote.content) if not matched(word, wanted)]
    new_names = [name for name in dict.fromkeys(quote.names) if not matched(name, wanted)]
    new = {kind: bool(quote.values[kind] - asked.values[kind]) for kind in _KINDS}
    has_amount = new["number"] or new["unit"]
    return {
        "new words": min(len(new_words), 12) / 12,
        "nothing new": float(not new_words),
        "new names": min(len(new_names), 3) / 3,
        **{f"new {kind}": float(is_new) for kind, is_new in new.items()},
        "when with time": asks["asks when"] * (new["date"] or new["number"]),
        "when without time": asks["asks when"] * (not (new["date"] or new["number"])),
        "how many with amount": asks["asks how_many"] * has_amount,
        "how many without amount": asks["asks how_many"] * (not has_amount),
        "who with name": asks["asks who"] * bool(new_names),
        "who without name": asks["asks who"] * (not new_names),
        "where with name": asks["asks where"] * bool(new_names),
        "how long with amount": asks["asks how_long"] * (has_amount or new["date"]),
    }


def _of_persons(asked: StatementWords, text: StatementWords, quote: StatementWords) -> dict[str, float]:
    asks_own, says_own = asked.person == "first", quote.person == "first"
    # "What is my husband's name?" is not answered by "My name is Hannah".
    lacks_relative = not _NAMING.isdisjoint(asked.plain) and asked.kin.isdisjoint(text.kin)
    is_of_others = bool(text.kin_first) and asked.kin.isdisjoint(text.kin)
    # Nor is it by "Priya's husband is Arjun".
    of_named = bool(text.owners - asked.owners - NO_NAMES) and not text.person
    is_of_others |= asks_own and of_named and asked.kin <= text.kin
    return {
        "own in quote": float(says_own),
        "own in both": float(asks_own and says_own),
        "own and named": float(asks_own and not quote.person and bool(quote.names)),
        "kin": float(bool(asked.kin)),
        "kin in text": float(bool(asked.kin & text.kin)),
        _OTHER_KIN: float(bool(asked.kin) and (lacks_relative or is_of_others)),
        "owner": float(bool(asked.owners)),
        "owner in text": float(bool(asked.owners) and any(matched(each, text.content) for each in asked.owners)),
    }


def _is_other_attribute(question: str, hit: AnswerCandidate) -> bool:
    """Return whether the quote states an attribute that has no word in common with the one that is asked for, or one of
    somebody else, or has no number where one is asked for. "My sister-in-law Rachel is a nurse" states none."""
    quote = hit.quote[:READ_CHARACTERS]
    if (numbered := _ASKED_NUMBER.search(question)) is not None:
        said = read_statement(quote)
        if not (said.values["number"] or said.values["identifier"] or matched(stem(numbered[1].lower()), said.content)):
            return True
    stated = _STATED_ATTRIBUTE.match(quote)
    if stated is None:
        return False
    asked, said = read_statement(question), read_statement(quote)
    is_owned = bool(asked.owners) and not (asked.kin or said.kin or hit.is_spoken)  # the owner of a turn may speak it
    if is_owned and not any(matched(owner, said.content) for owner in asked.owners):
        return True
    if (attribute := _ASKED_ATTRIBUTE.match(question)) is None:
        return False
    if attribute[1].lower() in _NAMING and not asked.kin.isdisjoint(said.kin):
        return False  # "My husband is called Joel" states no husband, but his name
    known = read_statement(stated[1]).content
    return not any(matched(word, known) for word in read_statement(attribute[1]).content)
