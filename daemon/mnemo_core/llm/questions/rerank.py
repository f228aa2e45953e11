"""The task `rerank`: how far each recalled source bears on a question, and which do not. SPEC 7.3, 12.2"""

from typing import Annotated

import msgspec
from msgspec import Meta

from mnemo_core.llm.questions.question_answer import KNOWN_SHARE_MIN, word_stems
from mnemo_core.llm.tasks import LlmTask, Probe, RecalledSource, TaskInputs
from mnemo_core.text import lexicon

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
    """The places of the sources that bear on the question, the best first, those of one score in their order.

    A source without a score comes last. [E8]
    """
    rated = [place for place, score in enumerate(answer.scores) if score]
    rated.sort(key=lambda place: -answer.scores[place])
    return [*rated, *range(len(answer.scores), count)]


def _probe(question: str, right: int, about: str) -> Probe:
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
    answer=SourceScores,
    validate=validate_scores,
    fallback=score_by_recall,
    is_interactive=True,
    max_tokens=50,
    deadline_s=8.0,
    probes=(
        _probe("When do we have to be at the airport?", 1, "airport"),
        _probe("What is Tom allergic to?", 2, "allergy"),
        _probe("Who can repair the roof?", 0, "roof"),
        _probe("Which editor does she use?", 1, "editor"),
        _probe("Where is the spare key?", 2, "key"),
    ),
)
