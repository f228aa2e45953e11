"""Four tasks that shorten texts, or name them. SPEC 11, 12.2

`summarize`: a few sentences that stand for several texts in the order of time.

`condense`: a long text, or the notes of a session, in at most 250 characters. The condensed text stands next to its
sources and replaces none: it is the summary by which an item of a conversation comes back, and the status of a session.

`resume_compress`: one short line for each memory that the budget of the resume has no room for. A line stands for one
memory, so that it can be verified against that memory alone, and the caller counts the rest.

`naming`: a name of a few words for a group of texts.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from mnemo_core.llm.faithfulness import distortion_of, rejection_of
from mnemo_core.llm.tasks import LlmTask, Probe, TaskInputs
from mnemo_core.text import lexicon
from mnemo_core.text.languages import EMPTY_WORDS, UNSPACED_CHARACTER, WORD, identify_language, sentences, words_of
from mnemo_core.text.lexicon import listed

SUMMARY_CHARACTERS = 400
SENTENCES_MAX = 400  # of all sources together that the fallback reads
SESSION_SENTENCES_MAX = 3  # of a summary of a session: more of them would be greetings and thanks [L27]
_ELLIPSIS = "…"
_PROBE_SHARE_MAX = 0.6  # of the characters of its sources, for the summary of a probe to be right


class SummaryAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the task."""

    summary: Annotated[str, Meta(min_length=1, max_length=SUMMARY_CHARACTERS)]


def validate_summary(answer: SummaryAnswer, inputs: TaskInputs) -> str:
    """Return why a summary is rejected; "" if it is accepted."""
    return rejection_of_digest(answer.summary, inputs.sources)


def rejection_of_digest(text: str, sources: Sequence[str]) -> str:
    """Return why a text is no shorter form of its sources, next to which it stands; "" if it is one."""
    said = sentences(text)
    if not said:
        return "it is blank"
    if len(text) > len(" ".join(sources)):
        return "it is longer than its sources"
    if len(set(said)) < len(said):
        return "it says a sentence twice"
    if identify_language(words_of(text)) != identify_language(words_of(" ".join(sources))):
        return "it is in another language than its sources"
    return rejection_of(text, sources) or distortion_of(text, sources)


def extract_summary(inputs: TaskInputs) -> SummaryAnswer:
    """Select whole sentences of the sources, as many as fit: two or three of a conversation, more of short steps."""
    return SummaryAnswer(select_sentences(inputs.sources, SUMMARY_CHARACTERS, SENTENCES_MAX))


def extract_session_summary(inputs: TaskInputs) -> SummaryAnswer:
    """Select the two or three sentences of a conversation that cover most of it; all of a short one. [L27]"""
    if is_short(inputs):
        return extract_summary(inputs)
    return SummaryAnswer(select_sentences(inputs.sources, SUMMARY_CHARACTERS, SESSION_SENTENCES_MAX))


def select_sentences(texts: Sequence[str], characters: int, most: int) -> str:
    """Select at most so many whole sentences that cover most of what many sentences speak of, in their order.

    Budgeted greedy maximisation of a submodular coverage (Lin and Bilmes 2010): a word is worth the number of sentences
    that it is in, one more for a specific, and counts once. Of a selection by what a sentence adds and one by what it
    adds per character, the one that covers more. Where no sentence fits, the beginning of the first.
    """
    found = list(dict.fromkeys(each for text in texts for each in sentences(text)))[:SENTENCES_MAX]
    words = [_content_words(sentence) for sentence in found]
    worth = Counter(word for each in words for word in each)
    worth.update({word for each in words for word, is_specific in each.items() if is_specific})

    def select(costs: Sequence[int]) -> tuple[int, list[int]]:
        """The worth of the words that a selection covers, and the selection."""
        chosen, covered, room = list[int](), set[str](), characters
        while len(chosen) < most:
            gains = {
                at: sum(worth[word] for word in each if word not in covered)
                for at, each in enumerate(words)
                if at not in chosen and len(found[at]) <= room
            }
            best = max(gains, key=lambda at: (gains[at] / costs[at], -at), default=None)
            if best is None or (chosen and not gains[best]):
                break
            chosen.append(best)
            covered.update(words[best])
            room -= len(found[best]) + 1
        return sum(worth[word] for word in covered), chosen

    _, chosen = max((select([*map(len, found)]), select([1] * len(found))), key=lambda selection: selection[0])
    return " ".join(found[at] for at in sorted(chosen)) or _beginning(found[0], characters)


def shorten_sources(sources: Sequence[str], characters: int) -> tuple[str, ...]:
    """Shorten many sources to so many characters together, 4 * SUMMARY_CHARACTERS at least: neighbours are replaced by
    whole sentences of theirs, as often as it takes, so that the end of a long story counts as much as its beginning."""
    shortened = tuple(sources)
    while sum(map(len, shortened)) > max(characters, 4 * SUMMARY_CHARACTERS):
        shortened = tuple(select_sentences(batch, SUMMARY_CHARACTERS, SENTENCES_MAX) for batch in _batches(shortened))
    return shortened


def _batches(sources: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Neighbours, together four times as long as what replaces them or longer."""
    batch: list[str] = []
    for source in sources:
        batch.append(source)
        if sum(map(len, batch)) >= 4 * SUMMARY_CHARACTERS:
            yield tuple(batch)
            batch = []
    if batch:
        yield tuple(batch)


def is_short(inputs: TaskInputs) -> bool:
    """Return whether the sources fit into a summary as they are."""
    return sum(len(source) + 1 for source in inputs.sources) <= SUMMARY_CHARACTERS


def _content_words(sentence: str) -> dict[str, bool]:
    """The words of a sentence that are no function words, each with whether it is a specific."""
    words = WORD.findall(sentence)
    return {
        word.casefold(): any(c.isdigit() for c in word) or (at > 0 and word[0].isupper())
        for at, word in enumerate(words)
        if word.casefold() not in EMPTY_WORDS
    }


def _beginning(sentence: str, characters: int) -> str:
    """The first words of a sentence that is too long; the first characters of one word that is."""
    ends = [at for at in range(characters) if sentence[at].isspace() or UNSPACED_CHARACTER.match(sentence[at])]
    return sentence[: max(ends, default=0) or characters - 1].rstrip() + _ELLIPSIS


def _probe(*facts: str) -> Probe:
    """A probe whose right summaries are short and have the facts, which stand in different sources."""
    sources = tuple(lexicon.lines("probes", f"summarize {facts[0]}"))
    most = sum(map(len, sources)) * _PROBE_SHARE_MAX
    return Probe(
        TaskInputs(sources),
        lambda answer: len(answer.summary) <= most and all(fact in answer.summary for fact in facts),
    )


SUMMARIZE = LlmTask(
    site="summarize",
    instruction=(
        "Summarize the sources, which stand in the order of time, in two or three short sentences, in their language "
        "and in their words. Keep names, numbers and dates as they are written and add nothing."
    ),
    answer=SummaryAnswer, validate=validate_summary, fallback=extract_summary, is_clear=is_short, max_tokens=400,
    probes=(_probe("panda", "10 million"), _probe("8080", "Mira"), _probe("Thursday", "Ines"), _probe("Köln", "59")),
)  # fmt: skip

SUMMARIZE_SESSION = dataclasses.replace(SUMMARIZE, fallback=extract_session_summary)

CONDENSED_CHARACTERS = 250  # [G 3.3]
_CONDENSED_SENTENCES_MAX = 3


class CondensedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the task."""

    text: Annotated[str, Meta(min_length=1, max_length=CONDENSED_CHARACTERS)]


def validate_condensed(answer: CondensedText, inputs: TaskInputs) -> str:
    """Return why a condensed text is rejected; "" if it is accepted."""
    return rejection_of_digest(answer.text, inputs.sources)


def condense_by_sentences(inputs: TaskInputs) -> CondensedText:
    """Select the whole sentences that cover most."""
    return CondensedText(select_sentences(inputs.sources, CONDENSED_CHARACTERS, _CONDENSED_SENTENCES_MAX))


def is_condensed(inputs: TaskInputs) -> bool:
    """Return whether the sources are short enough as they are."""
    return sum(len(source) + 1 for source in inputs.sources) <= CONDENSED_CHARACTERS


def _condense_probe(said: str, *sources: str) -> Probe:
    return Probe(TaskInputs(sources), lambda answer: said in answer.text)


_CONDENSED_TALK = (
    "We talked about the weather for a while, as on every other day of that long and rainy week in the office. "
)

CONDENSE = LlmTask(
    site="condense",
    instruction=(
        "Say the most important of the sources in one or two short sentences, in their language and in their words. "
        "Keep names, numbers and dates as they are written and add nothing."
    ),
    answer=CondensedText, validate=validate_condensed, fallback=condense_by_sentences, is_clear=is_condensed,
    max_tokens=150,
    probes=(
        _condense_probe("8080", _CONDENSED_TALK + "The proxy now listens on port 8080. " + _CONDENSED_TALK),
        _condense_probe("Berlin", _CONDENSED_TALK * 2 + "Anna moved to Berlin."),
        _condense_probe("Friday", "The release is planned for Friday. " + _CONDENSED_TALK * 2),
        _condense_probe("Marta", _CONDENSED_TALK, "Marta found the cause of the crash.", _CONDENSED_TALK),
    ),
)  # fmt: skip

LINES_MAX = 16
LINE_CHARACTERS = 120

_SourceNumber = Annotated[int, Meta(ge=1, le=LINES_MAX)]


class ResumeLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line, and the number of the memory that it stands for."""

    source: _SourceNumber
    text: Annotated[str, Meta(min_length=1, max_length=LINE_CHARACTERS)]


class CompressedResume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the task: at most one line a memory."""

    lines: Annotated[tuple[ResumeLine, ...], Meta(max_length=LINES_MAX)]


def validate_resume(answer: CompressedResume, inputs: TaskInputs) -> str:
    """Return why lines are rejected; "" if each is a shorter form of its memory."""
    if not answer.lines:
        return "it has no line"
    numbers = [line.source for line in answer.lines]
    if len(set(numbers)) < len(numbers):
        return "it has two lines for a source"
    if max(numbers) > len(inputs.sources):
        return f"there is no source {max(numbers)}"
    if "\n" in "".join(line.text for line in answer.lines):
        return "a line has a line break"
    reasons = (rejection_of_digest(line.text, [inputs.sources[line.source - 1]]) for line in answer.lines)
    return next(filter(None, reasons), "")


def select_lines(inputs: TaskInputs) -> CompressedResume:
    """Select of each memory the sentence that covers most."""
    lines = (
        ResumeLine(number, select_sentences([source], LINE_CHARACTERS, 1))
        for number, source in enumerate(inputs.sources[:LINES_MAX], start=1)
        if source.strip()
    )
    return CompressedResume(tuple(lines))


def are_lines(inputs: TaskInputs) -> bool:
    """Return whether each memory is a line as it is."""
    return all(len(source.splitlines()) < 2 and len(source) <= LINE_CHARACTERS for source in inputs.sources)


def _line_probe(*said: str) -> Probe:
    """Memories of which each has one thing to keep."""
    sources = tuple(f"As we discussed at some length in the meeting about this and that, {each}" for each in said)

    def keeps_all(answer: CompressedResume) -> bool:
        found = {line.source: line.text for line in answer.lines}
        return all(each.split()[-1].rstrip(".") in found.get(number, "") for number, each in enumerate(said, start=1))

    return Probe(TaskInputs(sources), keeps_all)


RESUME_COMPRESS = LlmTask(
    site="resume_compress",
    instruction=(
        "Shorten each source to one short line in its own words. Keep names, numbers and conditions, and add nothing. "
        "Give with each line the number of its source."
    ),
    answer=CompressedResume, validate=validate_resume, fallback=select_lines, is_clear=are_lines, max_tokens=700,
    probes=(
        _line_probe("the proxy listens on port 8080."),
        _line_probe("Anna moved to Berlin.", "the release is on Friday."),
        _line_probe("Tom is allergic to nuts.", "the backup runs at 02:30."),
        _line_probe("the cellar key is with Marta.", "the flat has 3 rooms.", "the rent is due on Monday."),
    ),
)  # fmt: skip


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
    """Select the phrase that represents the sources best: by how many sources have it, then by its words.

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


def _name_probe(topic: str) -> Probe:
    """A probe whose right names have the word that all sources share; no source begins with it."""
    sources = tuple(lexicon.lines("probes", f"naming {topic}"))
    return Probe(TaskInputs(sources), lambda answer: topic in answer.name.casefold())


NAMING = LlmTask(
    site="naming",
    instruction=(
        "Name the common topic of the sources in two or three of their own words, like a folder. Examples of names: "
        "Tax return, Garden plans, Trip to Rome."
    ),
    answer=NameAnswer, validate=validate_name, fallback=extract_name, max_tokens=60, deadline_s=15.0,
    probes=tuple(map(_name_probe, ("panda", "tax", "köln", "backup", "tomato"))),
)  # fmt: skip
