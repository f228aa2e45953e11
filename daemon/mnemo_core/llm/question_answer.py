"""The task `answer`: a question answered from memories alone, each sentence with its sources. SPEC 11, 12.2"""

from typing import Annotated

import msgspec
from msgspec import Meta

from mnemo_core.llm.faithfulness import rejection_of
from mnemo_core.llm.tasks import LlmTask, Probe, RecalledSource, TaskInputs
from mnemo_core.text.languages import STEM_LETTERS, content_words, sentences, word_stems
from mnemo_core.text.query_features import asks_for_past
from mnemo_core.text.statement_reading import unmet_specific

SOURCES_MAX = 8
SENTENCES_MAX = 3
SENTENCE_CHARACTERS = 300
QUOTED_CHARACTERS = 200  # of a text that is quoted as a whole
KNOWN_SHARE_MIN = 0.5  # of the question's words in one source, for it to count as holding the answer
QUOTE_SHARE_MIN = 0.5  # of the best score, for a source to be quoted next to the best (tests/bench/bench_ask.py)

_SourceNumber = Annotated[int, Meta(ge=1, le=SOURCES_MAX)]


class AnswerSentence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sentence of an answer, and the numbers of the sources that it rests on."""

    text: Annotated[str, Meta(min_length=1, max_length=SENTENCE_CHARACTERS)]
    sources: Annotated[tuple[_SourceNumber, ...], Meta(min_length=1, max_length=3)]


class QuestionAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the task; without sentences, the sources do not answer the question."""

    sentences: Annotated[tuple[AnswerSentence, ...], Meta(max_length=SENTENCES_MAX)]


def validate_answer(answer: QuestionAnswer, inputs: TaskInputs) -> str:
    """Return why an answer is rejected; "" if it is accepted.

    Each sentence is grounded in the sources that it names, and has no content word but theirs and the question's: that
    the key is "under the mattress" has no specific that could be checked, and would be as wrong as a wrong number. What
    is no longer true supports a sentence only where the question asks for the past. Where no source named has a
    specific of the question, it answers another question.
    """
    wanted = word_stems(inputs.question)
    is_of_past = asks_for_past(inputs.question)

    def is_usable(place: int) -> bool:
        return is_of_past or not inputs.recalled or not inputs.recalled[place].is_outdated

    if (
        not answer.sentences
        and wanted
        and any(len(word_stems(source) & wanted) >= len(wanted) * KNOWN_SHARE_MIN for source in inputs.sources)
    ):
        return "it gives no answer, but a source has most words of the question"
    texts = [sentence.text.strip() for sentence in answer.sentences]
    if not all(texts):
        return "a sentence is blank"
    if len(set(texts)) < len(texts):
        return "it says a sentence twice"
    for sentence in answer.sentences:
        if max(sentence.sources) > len(inputs.sources):
            return f"there is no source {max(sentence.sources)}"
        if not all(
            content_words(sentence.text) & content_words(inputs.sources[number - 1]) for number in sentence.sources
        ):
            return "it names a source that shares no word with its sentence"
        current = [number - 1 for number in sentence.sources if is_usable(number - 1)]
        if not current:
            return "it rests only on what is no longer true"
        known = [inputs.sources[place] for place in current]
        known += [inputs.recalled[place].origin for place in current if inputs.recalled]
        if reason := rejection_of(sentence.text, known):
            return reason
        stems = wanted.union(*map(word_stems, known))
        for word in sorted(content_words(sentence.text)):
            if word[:STEM_LETTERS] not in stems:
                return f"the word {word!r} is in none of the sources"
    if answer.sentences and (unmet := unmet_by_sources(answer, inputs)):
        return f"the question asks about {unmet!r}, of which the sources named say nothing"
    if answer.sentences and not _bears_on_question(answer, inputs):
        return "it rests on sentences without a word of the question, and a source has others"
    return ""


def whole_sentences(text: str) -> QuestionAnswer:
    """Return the sentences that a text, the beginning of an answer as JSON, has in full."""
    try:
        return msgspec.json.decode(text[: text.rfind("}") + 1] + "]}", type=QuestionAnswer)
    except msgspec.DecodeError:
        return QuestionAnswer(())


def unmet_by_sources(answer: QuestionAnswer, inputs: TaskInputs) -> str:
    """The first specific of the question that no source named by an answer has, nor what is known about it; "" where
    they have all. A follow-up takes its specifics from the question before it, and has none of its own."""
    places = sorted({number - 1 for sentence in answer.sentences for number in sentence.sources})
    known = [inputs.recalled[place] for place in places if inputs.recalled]
    is_spoken = any(each.speaker for each in known)
    context = None if is_spoken else " ".join(part for each in known for part in (each.origin, each.about))
    return unmet_specific(inputs.question, [inputs.sources[place] for place in places], context)


def _bears_on_question(answer: QuestionAnswer, inputs: TaskInputs) -> bool:
    """Return whether an answer, or the sentence of a source that it is closest to, shares a word with the question;
    True where no sentence of the sources does."""
    wanted = word_stems(inputs.question)
    closest = (
        best_sentence(inputs.sources[number - 1], sentence.text)
        for sentence in answer.sentences
        for number in sentence.sources
    )
    texts = (*closest, *(sentence.text for sentence in answer.sentences))
    return any(word_stems(text) & wanted for text in texts) or not any(
        word_stems(each) & wanted for each in inputs.sources
    )


def quote_answer(inputs: TaskInputs) -> QuestionAnswer:
    """Quote the sentence that answers best of the first source, and of those that recall scored half as high.

    Recall ranks the sources and decides before whether they bear on the question at all; a choice by the words of the
    question alone cites the evidence less often (`tests/bench/bench_ask.py`).
    """
    recalled = inputs.recalled or (RecalledSource(),) * len(inputs.sources)
    least = max(known.score for known in recalled) * QUOTE_SHARE_MIN
    quotes: dict[str, AnswerSentence] = {}
    for number, (source, known) in enumerate(zip(inputs.sources, recalled, strict=True), start=1):
        if known.score >= least and len(quotes) < SENTENCES_MAX:
            text = _cut_sentence(known.quote) or best_sentence(source, inputs.question)
            quotes.setdefault(text, AnswerSentence(text, (number,)))
    return QuestionAnswer(tuple(quotes.values()))


def best_sentence(source: str, text: str) -> str:
    """The sentence of a source that shares most words with a text, the first of several; "" of a blank source."""
    wanted = content_words(text)
    best = max(sentences(source), key=lambda sentence: len(content_words(sentence) & wanted), default="")
    return _cut_sentence(best)


def quoted_text(text: str, sentence: str) -> str:
    """All of a short text, which often tells in one sentence what it is about and in the next what is asked for; of a
    longer one, the sentence."""
    return text if len(text) <= QUOTED_CHARACTERS and sentence else sentence


def is_quotable(inputs: TaskInputs, share: float = 1.0) -> bool:
    """Return whether one of the quotes, which is no question itself, has all words of the question, or that share."""
    wanted = word_stems(inputs.question)
    quotes = [quote.text for quote in quote_answer(inputs).sentences if not quote.text.endswith(("?", "？"))]
    return bool(wanted) and any(len(wanted & word_stems(quote)) >= share * len(wanted) for quote in quotes)


def _cut_sentence(sentence: str) -> str:
    """The sentence, cut where it is longer than one of an answer."""
    return sentence if len(sentence) <= SENTENCE_CHARACTERS else sentence[: SENTENCE_CHARACTERS - 1] + "…"


def _probe(question: str, word: str, number: int, *sources: str) -> Probe:
    """A probe whose right answers have a word of the source of that number and rest on this source alone."""

    def is_right(answer: QuestionAnswer) -> bool:
        cited = {each for sentence in answer.sentences for each in sentence.sources}
        return cited == {number} and word in " ".join(sentence.text for sentence in answer.sentences).casefold()

    return Probe(TaskInputs(sources, question), is_right)


_HOME = (
    "Anna moved to Berlin in May 2019. She is a keeper at the zoo.",
    "Otto sold his car last week and goes to the office by bicycle.",
    "The spare key of the flat is with Mrs. Lind on the second floor.",
)
PROBES = (
    _probe("What does Anna do for a living?", "keeper", 1, *_HOME),
    _probe("How does Otto get to work?", "bicycle", 2, *_HOME),
    _probe("Who has a spare key?", "lind", 3, *_HOME),
    _probe(
        "Wie viel hat die Fahrkarte gekostet?",
        "59",
        2,
        "Am 3. Mai fahren wir zu viert nach Köln.",
        "Für die Fahrkarte haben wir 59 Euro bezahlt.",
    ),
    Probe(TaskInputs(_HOME, "Which vaccination does the dog need?"), lambda answer: not answer.sentences),
)

ANSWER = LlmTask(
    site="answer",
    instruction=(
        "Answer the question from the sources alone, in one or two short sentences, in the words of the sources. Give "
        "with each sentence the numbers of the sources that say it. If the sources do not answer the question, give no "
        "sentence."
    ),
    answer=QuestionAnswer, validate=validate_answer, fallback=quote_answer, is_clear=is_quotable, is_interactive=True,
    max_tokens=400, deadline_s=20.0, probes=PROBES,
)  # fmt: skip
