"""The tasks that help recall. SPEC 7.3, 7.6, 11, 12.2 [G 4.4]

`expand`: other phrasings of a question, whose words recall searches too.

`rerank`: how far each recalled source bears on a question, and which do not.

A follow-up, such as "and when was that?", is made whole without a model: where a question has no content word, or
hardly any and a word that points back, it takes the content words of the question before it.
"""

import re
import unicodedata
from typing import Annotated

import msgspec
from msgspec import Meta

from mnemo_core.llm.faithfulness import unsupported_specific
from mnemo_core.llm.question_answer import KNOWN_SHARE_MIN
from mnemo_core.llm.tasks import LlmTask, Probe, RecalledSource, TaskInputs
from mnemo_core.text import lexicon
from mnemo_core.text.languages import CJK_CHARACTER, EMPTY_WORDS, UNSPACED_CHARACTER, WORD, content_words, word_stems
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import alternation

PHRASINGS_MIN, PHRASINGS_MAX = 4, 6  # [G38]
PHRASING_CHARACTERS = 100


class Phrasings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the task: 4 to 6 phrasings, or none where there is no other."""

    phrasings: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=PHRASING_CHARACTERS)], ...], Meta(max_length=PHRASINGS_MAX)
    ]


def validate_phrasings(answer: Phrasings, inputs: TaskInputs) -> str:
    """Return why phrasings are rejected; "" if they are accepted. They may not add a number, date, identifier or name.
    The first word may have a capital of its own, and Chinese and Japanese names are not recognized."""
    phrasings, question = answer.phrasings, inputs.question or inputs.sources[0]
    if not phrasings:
        return ""
    if len(phrasings) < PHRASINGS_MIN:
        return f"it gives {len(phrasings)} phrasings, which are not {PHRASINGS_MIN} to {PHRASINGS_MAX}"
    if any(unicodedata.category(character)[0] == "C" for phrasing in phrasings for character in phrasing):
        return "a phrasing has a control character"
    forms = [_words(phrasing) for phrasing in phrasings]
    if not all(forms):
        return "a phrasing has no word"
    if len({*forms, _words(question)}) <= len(forms):
        return "a phrasing repeats another one or the question"
    if UNSPACED_CHARACTER.search(question):
        is_unspaced = [UNSPACED_CHARACTER.search(phrasing) is not None for phrasing in phrasings]
        if len(set(is_unspaced)) == 1:
            return "the phrasings are not in both languages"
    for phrasing in phrasings:
        if added := _added_specific(phrasing, question):
            return f"{added!r} is not in the question"
    return ""


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in WORD.findall(text))


def _added_specific(phrasing: str, question: str) -> str:
    """A specific of a phrasing that its question does not have; "" for none."""
    phrasing = phrasing[:1].lower() + phrasing[1:]
    for text in (phrasing, UNSPACED_CHARACTER.sub(" ", phrasing)):  # there, every character might be a name
        found = unsupported_specific(text, [question])
        if found is not None and not (found.kind == "name" and UNSPACED_CHARACTER.search(found.value)):
            return found.value
    return ""


def _probe(question: str, *words: str) -> Probe:
    """A case in which one of these words, which the question does not have, belongs to the phrasings."""

    def is_right(answer: Phrasings) -> bool:
        text = " ".join(answer.phrasings).casefold()
        return any(word in text for word in words)

    return Probe(TaskInputs((question,), question), is_right)


EXPAND = LlmTask(
    site="expand",
    instruction=(
        "Write five other short phrasings of the question, with other words of the same meaning, in English. If the "
        "question is Chinese, write three of them in Chinese and three in English. Write them in small letters, and "
        "add no name, number or date that is not in the question."
    ),
    answer=Phrasings, validate=validate_phrasings,
    fallback=lambda _: Phrasings(()),  # recall then adds words of the best hits, as with `expand: auto`
    is_interactive=True, max_tokens=250, deadline_s=10.0,
    probes=(
        _probe("Where did I park the car?", "vehicle", "automobile", "parking", "parked"),
        _probe("Who is my doctor?", "physician", "medical", "practitioner"),
        _probe("When does the film start?", "movie", "begin"),
        _probe("What does the flat cost a month?", "apartment", "rent", "price"),
        _probe("How do I repair the bicycle?", "bike", "fix", "mend"),
    ),
)  # fmt: skip

FOLLOW_UP_CHARACTERS_MAX = 400  # a longer question has its subject in it
OWN_WORDS_MAX = 2  # content words that a follow-up may have of its own
UNSPACED_CHARACTERS_MAX = 12  # of a Chinese or Japanese one
ADDED_WORDS_MAX = 12

_OPENING = lazy_pattern(alternation("questions", "follow_up_opening"), re.IGNORECASE)
_ANAPHOR = lazy_pattern(alternation("questions", "anaphor"), re.IGNORECASE)
_SPECIFIC = lazy_pattern(r"[0-9]|(?<=[\w,] )[A-ZÄÖÜÉ]\w")  # a number, or a name that does not begin the question


def is_follow_up(question: str) -> bool:
    """Return whether a question is not whole without the one before it."""
    if len(question) > FOLLOW_UP_CHARACTERS_MAX:
        return False
    points_back = _OPENING.search(question) or _ANAPHOR.search(question)
    if CJK_CHARACTER.search(question):
        return points_back is not None and len(WORD.findall(question)) <= UNSPACED_CHARACTERS_MAX
    words = [word for word in content_words(_ANAPHOR.sub(" ", question)) if len(word) > 1]  # not the s of "what's"
    if not words:
        return True
    return points_back is not None and len(words) <= OWN_WORDS_MAX and not _SPECIFIC.search(question)


def resolve_follow_up(question: str, before: str) -> str:
    """Return a question made whole by the question before it: itself where it is no follow-up."""
    if not is_follow_up(question):
        return question
    own = {word.casefold() for word in WORD.findall(question)} | EMPTY_WORDS
    words = {word.casefold(): word for word in WORD.findall(_ANAPHOR.sub(" ", before))}
    added = [word for small, word in words.items() if small not in own][:ADDED_WORDS_MAX]
    joint = "" if added and all(map(CJK_CHARACTER.match, added)) else " "
    return f"{question} ({joint.join(added)})" if added else question


SOURCES_MAX = 10  # that are scored at once; a prompt of more would not be read within the deadline
SCORE_MAX = 3  # it answers the question; 0: it has nothing to do with it
FALLBACK_HALF = 0.5  # of the best score of recall, from which the fallback gives SCORE_MAX


class SourceScores(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the task: a score for each source, in their order."""

    scores: Annotated[tuple[Annotated[int, Meta(ge=0, le=SCORE_MAX)], ...], Meta(min_length=1, max_length=SOURCES_MAX)]


def validate_scores(answer: SourceScores, inputs: TaskInputs) -> str:
    """Return why scores are rejected; "" if they are accepted.

    They may be fewer than the sources, since the missing ones come last. What has all words of the question has to do
    with it, and what has most of them may answer it: no verdict may drop the one, or everything next to the other.
    """
    if len(answer.scores) > len(inputs.sources):
        return f"it gives {len(answer.scores)} scores for {len(inputs.sources)} sources"
    wanted = word_stems(inputs.question)
    if not wanted:
        return ""
    shares = [len(word_stems(source) & wanted) / len(wanted) for source in inputs.sources]
    for number, (score, share) in enumerate(zip(answer.scores, shares, strict=False), start=1):
        if not score and share == 1:
            return f"it drops source {number}, which has all words of the question"
    if not kept_sources(answer, len(inputs.sources)) and max(shares) >= KNOWN_SHARE_MIN:
        return "it drops every source, but one has most words of the question"
    return ""


def score_by_recall(inputs: TaskInputs) -> SourceScores:
    """Score by what recall found: 0 where its own judgement, a score of 0, drops the source, and the best first."""
    found = [known.score for known in inputs.recalled] or [RecalledSource().score] * len(inputs.sources)
    half = FALLBACK_HALF * max(found)
    return SourceScores(tuple(0 if not each else SCORE_MAX if each >= half else 1 for each in found[:SOURCES_MAX]))


def kept_sources(answer: SourceScores, count: int) -> list[int]:
    """The places of the sources that bear on the question, the best first, those of one score in their order. A source
    without a score comes last. [E8]"""
    rated = [place for place, score in enumerate(answer.scores) if score]
    rated.sort(key=lambda place: -answer.scores[place])
    return [*rated, *range(len(answer.scores), count)]


def _rerank_probe(question: str, right: int, about: str) -> Probe:
    """A case in which one source answers the question and the others do not bear on it."""
    sources = tuple(lexicon.lines("probes", f"rerank {about}"))

    def is_right(answer: SourceScores) -> bool:
        return kept_sources(answer, len(sources))[:1] == [right] and answer.scores.count(0) >= len(sources) - 2

    return Probe(TaskInputs(sources, question), is_right)


RERANK = LlmTask(
    site="rerank",
    instruction=(
        "Judge how well each source answers the question. Give one score a source, in the order of the sources: 3 if "
        "it answers the question, 2 if it helps to answer it, 1 if it is about the same subject, 0 if it has nothing "
        "to do with the question."
    ),
    answer=SourceScores, validate=validate_scores, fallback=score_by_recall, is_interactive=True, max_tokens=50,
    deadline_s=8.0,
    probes=(
        _rerank_probe("When do we have to be at the airport?", 1, "airport"),
        _rerank_probe("What is Tom allergic to?", 2, "allergy"),
        _rerank_probe("Who can repair the roof?", 0, "roof"),
        _rerank_probe("Which editor does she use?", 1, "editor"),
        _rerank_probe("Where is the spare key?", 2, "key"),
    ),
)  # fmt: skip
