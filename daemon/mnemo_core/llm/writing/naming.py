"""The task `naming`: a name of a few words for a group of texts. SPEC 12.2"""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from mnemo_core.llm.faithfulness import distortion_of
from mnemo_core.llm.tasks import LlmTask, Probe, TaskInputs
from mnemo_core.text import lexicon
from mnemo_core.text.languages import EMPTY_WORDS, UNSPACED_CHARACTER, WORD
from mnemo_core.text.lexicon import listed
from mnemo_core.text.segmentation import sentences

NAME_CHARACTERS = 40
NAME_WORDS_MAX = 4
UNSPACED_NAME_CHARACTERS = 8  # of Chinese and Japanese
_LETTERS_MIN = 2
_UNSPACED_MIN = 2
_FINITE_VERBS = listed("am is are was were has have had does did will")


class NameAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the task."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS)]


def validate_name(answer: NameAnswer, inputs: TaskInputs) -> str:
    """Return why a name is rejected; "" if it is accepted. Every word of a name comes from the sources."""
    words = [word.casefold() for word in WORD.findall(answer.name)]
    if not any(word not in EMPTY_WORDS for word in words):
        return "it names nothing"
    if len(words) > (UNSPACED_NAME_CHARACTERS if UNSPACED_CHARACTER.search(answer.name) else NAME_WORDS_MAX):
        return f"it has {len(words)} words"
    if not _FINITE_VERBS.isdisjoint(words):
        return "it is a sentence"
    known = {word.casefold() for source in inputs.sources for word in WORD.findall(source)}
    if foreign := [word for word in words if word not in known and word not in EMPTY_WORDS]:
        return f"the word {foreign[0]!r} is in none of the sources"
    return distortion_of(answer.name, inputs.sources) if any(map(str.isdigit, answer.name)) else ""


def extract_name(inputs: TaskInputs) -> NameAnswer:
    """Select the phrase that best stands for the sources: by how many sources have it, then by its words.

    Candidates are the runs of words between function words and punctuation, scored by the degree of their words (RAKE,
    Rose et al. 2010); of text without spaces, the runs of a few characters.
    """
    phrases = [list(_phrases(source)) for source in inputs.sources]
    degree: Counter[str] = Counter()
    for phrase in itertools.chain.from_iterable(phrases):
        for word in phrase:
            degree[word.casefold()] += len(phrase)
    spread = Counter(small for each in phrases for small in {_folded(phrase) for phrase in each})
    candidates = [
        phrase for phrase in itertools.chain.from_iterable(phrases) if len(" ".join(phrase)) <= NAME_CHARACTERS
    ]
    if not candidates:
        text = " ".join(" ".join(inputs.sources).split())
        return NameAnswer(text[:NAME_CHARACTERS].rsplit(" ", 1)[0] if len(text) > NAME_CHARACTERS else text)
    best = max(
        candidates, key=lambda phrase: (spread[_folded(phrase)], sum(degree[word.casefold()] for word in phrase))
    )
    return NameAnswer(("" if UNSPACED_CHARACTER.match(best[0]) else " ").join(best))


def _folded(phrase: list[str]) -> tuple[str, ...]:
    return tuple(word.casefold() for word in phrase)


def _phrases(text: str) -> Iterator[list[str]]:
    """The phrases of a text that could name it: every run of content words, and every part of one."""
    for sentence in sentences(text):
        run: list[str] = []
        end = 0
        for match in itertools.chain(WORD.finditer(sentence), [None]):
            goes_on = match is not None and not sentence[end : match.start()].strip()
            if run and not goes_on:
                yield from _parts(run)
                run = []
            if match is None:
                break
            end = match.end()
            is_unspaced = UNSPACED_CHARACTER.match(match[0]) is not None
            if match[0].casefold() in EMPTY_WORDS or (not is_unspaced and len(match[0]) < _LETTERS_MIN):
                yield from _parts(run)
                run = []
            else:
                run.append(match[0])


def _parts(run: list[str]) -> Iterator[list[str]]:
    if not run:
        return
    is_unspaced = UNSPACED_CHARACTER.match(run[0]) is not None
    least, most = (_UNSPACED_MIN, UNSPACED_NAME_CHARACTERS) if is_unspaced else (1, NAME_WORDS_MAX)
    for start in range(len(run)):
        for end in range(start + least, min(start + most, len(run)) + 1):
            yield run[start:end]


def _probe(topic: str) -> Probe:
    """A probe whose right names have the word that all sources share; no source begins with it."""
    sources = tuple(lexicon.lines("probes", f"naming {topic}"))
    return Probe(TaskInputs(sources), lambda answer: topic in answer.name.casefold())


NAMING = LlmTask(
    site="naming",
    instruction=(
        "Name the common topic of the sources in two or three of their own words, like a folder. Examples of names: "
        "Tax return, Garden plans, Trip to Rome."
    ),
    answer=NameAnswer,
    validate=validate_name,
    fallback=extract_name,
    max_tokens=60,
    deadline_s=15.0,
    probes=tuple(map(_probe, ("panda", "tax", "köln", "backup", "tomato"))),
)
