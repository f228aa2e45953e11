"""`rerank: true`: the selected memories are scored against the question, and those that do not bear on it are dropped.
SPEC 7.3

A language model scores them; where none may, the recall itself judges by rule, and that is the fallback here, too.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from mnemo_core.llm.questions.rerank import SOURCES_MAX, SourceScores, kept_sources
from mnemo_core.llm.tasks import TaskInputs
from mnemo_daemon.retrieval.question import Hit, RecallOutcome
from mnemo_daemon.retrieval.question_answering import recalled_source, source_text

DROPPED = "rerank"  # the reason in a trace


class RerankedHits(NamedTuple):
    """A recall whose hits are to be scored: those that a language model reads, each with what follows it in the answer,
    and the others, which are left as the rule judges them.

    A preference stands first whatever is asked, and an older value follows the newer one.
    """

    preferences: list[Hit]
    scored: list[list[Hit]]
    others: list[Hit]
    inputs: TaskInputs


def hits_to_score(query: str, hits: Sequence[Hit], kept_by_rule: Collection[str]) -> RerankedHits | None:
    """Split the hits of a recall; None where there is nothing to score. kept_by_rule: the ids that the rule keeps, by
    which the fallback goes."""
    groups: list[list[Hit]] = []
    for hit in hits:
        if hit.was and groups:
            groups[-1].append(hit)
        elif not hit.preference and hit.details.memory.content.strip():
            groups.append([hit])
    scored, rest = groups[:SOURCES_MAX], groups[SOURCES_MAX:]
    if not scored:
        return None
    recalled = [recalled_source(hit, "") for hit, *_ in scored]
    recalled = [
        known if hit.details.memory.id in kept_by_rule else known._replace(score=0.0)
        for known, (hit, *_) in zip(recalled, scored, strict=True)
    ]
    sources = tuple(source_text(hit) for hit, *_ in scored)
    others = [hit for group in rest for hit in group if hit.details.memory.id in kept_by_rule]
    return RerankedHits(
        [hit for hit in hits if hit.preference], scored, others, TaskInputs(sources, query, tuple(recalled))
    )


def apply_scores(
    recalled: RecallOutcome, split: RerankedHits, answer: SourceScores, *, by_score: bool
) -> RecallOutcome:
    """The recall with the hits that bear on the question, best first; in their order unless by_score."""
    kept = kept_sources(answer, len(split.scored))
    ranked = [hit for place in (kept if by_score else sorted(kept)) for hit in split.scored[place]]
    hits = [*split.preferences, *ranked, *split.others]
    _explain(recalled, split, answer, hits)
    return recalled._replace(
        hits=hits, total_tokens=sum(hit.tokens for hit in hits), abstained=not ranked and not split.others
    )


def _explain(recalled: RecallOutcome, split: RerankedHits, answer: SourceScores, hits: Sequence[Hit]) -> None:
    """Enter the scores and the dropped hits in the trace, where there is one."""
    if recalled.trace is None:
        return
    places = {hit.details.memory.id: place for place, hit in enumerate(hits, start=1)}
    scores = {group[0].details.memory.id: score for group, score in zip(split.scored, answer.scores, strict=False)}
    for candidate in recalled.trace.candidates:
        if candidate.answer is not None and candidate.id not in places:
            candidate.dropped = DROPPED
        candidate.answer = places.get(candidate.id)
        candidate.rerank = scores.get(candidate.id)
    recalled.trace.dropped = dict(Counter(each.dropped for each in recalled.trace.candidates if each.dropped))
