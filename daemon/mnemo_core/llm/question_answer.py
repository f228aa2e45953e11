"""The task `answer`: a question answered from memories alone, each sentence with its sources. SPEC 11, 12.2"""

from collections import Counter
from typing import Annotated

import msgspec
from msgspec import Meta

from mnemo_core.llm.content_words import content_words
from mnemo_core.llm.grounding import rejection_of
from mnemo_core.llm.tasks import LlmTask, TaskInputs
from mnemo_core.text.segmentation import sentences

SOURCES_MAX = 8
SENTENCES_MAX = 3
SENTENCE_CHARACTERS = 300
STEM_LETTERS = 4  # two words that begin with the same are taken for one, when a sentence is chosen
KNOWN_SHARE_MIN = 0.5  # of the question's words in one source, for it to count as holding the answer
QUOTE_SHARE_MIN = 0.5  # of the best score, for a sentence to be quoted next to it

_SourceNumber = Annotated[int, Meta(ge=1, le=SOURCES_MAX)]


class AnswerSentence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sentence of an answer, and the numbers of the sources that it rests on."""

    text: Annotated[str, Meta(min_length=1, max_length=SENTENCE_CHARACTERS)]
    sources: Annotated[tuple[_SourceNumber, ...], Meta(min_length=1, max_length=3)]


class QuestionAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the task; without sentences, the sources do not answer the question."""

    sentences: Annotated[tuple[AnswerSentence, ...], Meta(max_length=SENTENCES_MAX)]


def validate_answer(answer: QuestionAnswer, inputs: TaskInputs) -> str:
    """Return why an answer is rejected; "" if it is accepted. Each sentence is grounded in the sources it names."""
    wanted = _stems(inputs.question)
    if (
        not answer.sentences
        and wanted
        and any(len(_stems(source) & wanted) >= len(wanted) * KNOWN_SHARE_MIN for source in inputs.sources)
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
        cited = [inputs.sources[number - 1] for number in sentence.sources]
        if not all(content_words(sentence.text) & content_words(source) for source in cited):
            return "it names a source that shares no word with its sentence"
        if reason := rejection_of(sentence.text, cited):
            return reason
    return ""


def quote_answer(inputs: TaskInputs) -> QuestionAnswer:
    """Select the sentences that have most of the question's words, one of a source, in the order of the sources.

    Whether the sources bear on the question at all is decided before, and they come in order of relevance: where no
    sentence has a word of the question, the first one answers.
    """
    wanted = _stems(inputs.question)
    found = [
        (number, each) for number, source in enumerate(inputs.sources[:SOURCES_MAX], 1) for each in sentences(source)
    ]
    counts = Counter(stem for _, sentence in found for stem in _stems(sentence) & wanted)
    best: dict[int, tuple[float, str]] = {}
    for number, sentence in found:
        score = sum(1 / counts[stem] for stem in _stems(sentence) & wanted)  # a rare word says more
        if number not in best or score > best[number][0]:
            best[number] = (score, sentence)
    least = max(score for score, _ in best.values()) * QUOTE_SHARE_MIN
    quotes: dict[str, AnswerSentence] = {}
    for number, (score, sentence) in best.items():
        if score >= least and (score > 0 or not quotes) and len(quotes) < SENTENCES_MAX:
            quotes.setdefault(sentence, AnswerSentence(_cut_sentence(sentence), (number,)))
    return QuestionAnswer(tuple(quotes.values()))


def best_sentence(source: str, text: str) -> str:
    """The sentence of a source that shares most words with a text, the first of several; "" of a blank source."""
    wanted = content_words(text)
    best = max(sentences(source), key=lambda sentence: len(content_words(sentence) & wanted), default="")
    return _cut_sentence(best)


def is_quotable(inputs: TaskInputs) -> bool:
    """Return whether one sentence has all words of the question, so that quoting it says enough."""
    wanted = _stems(inputs.question)
    return bool(wanted) and any(
        wanted <= _stems(sentence) for source in inputs.sources for sentence in sentences(source)
    )


def _cut_sentence(sentence: str) -> str:
    """The sentence, cut where it is longer than one of an answer."""
    return sentence if len(sentence) <= SENTENCE_CHARACTERS else sentence[: SENTENCE_CHARACTERS - 1] + "…"


def _stems(text: str) -> frozenset[str]:
    """The content words of a text by their first letters, so that `works` answers for `work`."""
    return frozenset(word[:STEM_LETTERS] for word in content_words(text))


ANSWER = LlmTask(
    site="answer",
    instruction=(
        "Answer the question from the sources alone, in one or two short sentences, in the words of the sources. Give "
        "with each sentence the numbers of the sources that say it. If the sources do not answer the question, give no "
        "sentence."
    ),
    answer=QuestionAnswer,
    validate=validate_answer,
    fallback=quote_answer,
    is_clear=is_quotable,
    is_interactive=True,
    max_tokens=400,
    deadline_s=20.0,
)
