"""The chance that the first hit of a recall answers a question. SPEC 11

Recall ranks: the first hit of a question without an answer is near it too, as it names the same thing. Whether the
quote tells what is asked for is what a model says that read both together (`mnemo_daemon/models/cross_encoder.py`); how
near it is and which words of the question it has count as well. A logistic model of such features decides; its weights
are fitted to made lives and conversations (`tests/bench/fit_answers.py`).
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from mnemo_core.text.languages import EMPTY_WORDS
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.query_features import analyze_query
from mnemo_core.text.statement_reading import NO_NAMES, matched, read_statement, stem

READ_CHARACTERS: Final = 1000  # of the question and of each text
HITS_MAX: Final = 8  # that are compared with the first
WANTED_MAX: Final = 8  # words of a question that are counted
_EMPTY_STEMS: Final = frozenset(map(stem, EMPTY_WORDS))
_NAMING: Final = frozenset({"name", "named", "called", "heißt", "heisst"})  # words of a question for a name
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
    """A hit of a recall: its text, its sentence that answers best, its score, who said it in talk, and the headings
    that it stands under in a note."""

    text: str
    quote: str
    score: float
    speaker: str = ""
    headings: str = ""

    @property
    def said(self) -> str:
        """The quote as it is read with the question."""
        quote = f"{self.headings} > {self.quote}" if self.headings else self.quote
        return f"{self.speaker}: {quote}" if self.speaker else quote


class AnswerJudge:
    """The fitted model: one set of weights for what was read, one for what was not."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        """weights: as `tests/bench/fit_answers.py` writes them. Raises KeyError where a part is missing."""
        self._weights = {name: weights[name] for name in ("read", "unread")}

    def answers(self, question: str, hits: Sequence[AnswerCandidate], reading: float | None = None) -> bool:
        """Return whether the quote of the first hit is likely enough to answer. hits: the best first, one at least.
        reading: the chance that it answers, by a model that read both; None without one."""
        if _is_other_relative(question, hits[0]) or _is_other_attribute(question, hits[0]):
            return False
        least: float = self._weights["unread" if reading is None else "read"]["bar"]
        return self.chance_of(answer_features(question, hits, reading)) >= least

    def chance_of(self, features: Mapping[str, float]) -> float:
        """The probability of an answer by the features of a question."""
        weights = self._weights["read" if "reading" in features else "unread"]
        odds = float(weights["bias"])
        for name, value in features.items():
            mean, scale, weight = weights["features"][name]
            odds += weight * min(max((value - mean) / scale, -CLIPPED), CLIPPED)
        return 1.0 / (1.0 + math.exp(-odds))


def answer_features(question: str, hits: Sequence[AnswerCandidate], reading: float | None = None) -> dict[str, float]:
    """The features of a question and what was recalled for it, by name. hits: the best first, one at least. reading:
    as of `answers`; its odds count otherwise for what somebody said in talk, where an answer rests on several turns."""
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
    whole = sum(rarity.values()) or 1.0
    in_quote = [word for word in wanted if matched(word, quote.content)]
    in_text = [word for word in wanted if matched(word, texts[0].content)]
    missing = [word for word in wanted if word not in in_text]
    names = [word for word in dict.fromkeys(asked.names) if word in rarity]
    new_names = any(not matched(name, wanted) for name in quote.names)
    new = {kind: bool(quote.values[kind] - asked.values[kind]) for kind in ("number", "date", "unit")}
    scores = [hit.score for hit in hits] + [0.0] * HITS_MAX
    features = {
        "wanted": min(len(wanted), WANTED_MAX) / WANTED_MAX,
        "rare share in quote": sum(rarity[word] for word in in_quote) / whole,
        "rare share in text": sum(rarity[word] for word in in_text) / whole,
        "all in quote": float(len(in_quote) == len(wanted)),
        "missing": min(len(missing), 4) / 4,
        "rarest missing": max((rarity[word] for word in missing), default=0.0),
        "names in quote": sum(name in in_quote for name in names) / len(names) if names else 1.0,
        "nothing new": float(all(matched(word, wanted) for word in quote.content)),
        "when without time": float(asks.when and not (new["date"] or new["number"])),
        "how many without amount": float(asks.how_many and not (new["number"] or new["unit"])),
        "who without name": float(asks.who and not new_names),
        "own in quote": float(quote.person == "first"),
        "own in both": float(asked.person == quote.person == "first"),
        "spoken": float(bool(hits[0].speaker)),
        "quote is text": float(hits[0].quote == hits[0].text),
        "quote asks": float(quote.is_question),
        "quote words": min(len(quote.plain), 40) / 40,
        "text characters": min(len(hits[0].text), 400) / 400,
        "score": scores[0],
        "score odds": math.log(scores[0] / max(1 - scores[0], _ODDS_OFFSET) + _ODDS_OFFSET),
        "score ahead": scores[0] - scores[1],
        "score of third": scores[2],
        "score of all": sum(scores[:HITS_MAX]),
    }
    if reading is not None:
        odds = math.log(reading / (1 - reading))
        features |= {"reading": 0.0 if hits[0].speaker else odds, "reading of talk": odds if hits[0].speaker else 0.0}
    return features


def _is_other_relative(question: str, hit: AnswerCandidate) -> bool:
    """Return whether the text is of other relatives than the question. "What is my husband's name?" is not answered by
    "My name is Hannah", nor by "Priya's husband is Arjun"."""
    asked, text = read_statement(question[:READ_CHARACTERS]), read_statement(hit.text[:READ_CHARACTERS])
    if not asked.kin:
        return False
    of_named = bool(text.owners - asked.owners - NO_NAMES) and not text.person
    return (
        (not _NAMING.isdisjoint(asked.plain) and asked.kin.isdisjoint(text.kin))
        or (bool(text.kin_first) and asked.kin.isdisjoint(text.kin))
        or (asked.person == "first" and of_named and asked.kin <= text.kin)
    )


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
    is_owned = bool(asked.owners) and not (asked.kin or said.kin or hit.speaker)  # the owner of a turn may speak it
    if is_owned and not any(matched(owner, said.content) for owner in asked.owners):
        return True
    if (attribute := _ASKED_ATTRIBUTE.match(question)) is None:
        return False
    if attribute[1].lower() in _NAMING and not asked.kin.isdisjoint(said.kin):
        return False  # "My husband is called Joel" states no husband, but his name
    known = read_statement(stated[1]).content
    return not any(matched(word, known) for word in read_statement(attribute[1]).content)
