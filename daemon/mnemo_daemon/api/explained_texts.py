"""The explanations of the texts for agents: of each line the memory, its tokens, and why it is there. SPEC 11"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mnemo_client.protocol.retrieval import RecallTrace, TextCandidate, TextExplanation, TextLine, TextSection
from mnemo_core.documents.chunking import estimate_tokens
from mnemo_core.lifecycle.profiles import ProfilePlace, place_of_entry
from mnemo_core.retrieval.context_block import (
    OTHERS_HEADING,
    PREFERENCES_HEADING,
    author_of,
    listed_line,
    located_lines,
)
from mnemo_core.retrieval.result_selection import OTHERS_SHARE, PREFERENCES_SHARE
from mnemo_core.sessions.resume import TOPIC_TOKENS, TRIGGER_TOKENS
from mnemo_daemon.retrieval.question import Hit, shown_score
from mnemo_daemon.sessions.resume import Resume
from mnemo_store.records import Memory

# The lists of the user's profile in the context block of M, besides the preferences. [M22]
M_LISTS = (ProfilePlace("stable_facts"), ProfilePlace("do_not_assume"))

DIGITS = 4  # of a weight
BELOW_MAX = 12  # candidates that are not in a context


class ContextBlock(NamedTuple):
    """A context block: the hits and the entries of the profile that are in it, and the line of each hit, if it is to be
    explained."""

    text: str
    kept: Sequence[Hit]
    listed: Sequence[Memory]
    rendered: Sequence[str] = ()


class _ContextPart(NamedTuple):
    """A part of a context block that shows memories."""

    text: str
    line: TextLine


def explain_resume(resume: Resume, weights_of: Callable[[Sequence[str]], dict[str, float]]) -> TextExplanation:
    """The lines and sections of a resume. weights_of: the present weights of memories, by their ids."""
    made = resume.lines()
    weights = weights_of([each.origin.ids[0] for each in made if each.origin is not None])
    lines = []
    for each in made:
        line = TextLine(text=each.text, section=each.section, tokens=each.tokens)
        if (origin := each.origin) is not None:
            line.memory, line.more = origin.ids[0], list(origin.ids[1:])
            line.reason, line.condensed = origin.reason or None, origin.is_condensed
            weight = weights.get(line.memory)
            line.weight = None if weight is None else round(weight, DIGITS)
        lines.append(line)
    topics_left = resume.lists.topic_total - len(resume.lists.topics)
    known: dict[str, tuple[int | None, dict[str, int]]] = {
        "topics": (TOPIC_TOKENS, {"over_budget": topics_left} if topics_left > 0 else {}),
        "triggers": (TRIGGER_TOKENS, {}),
    }
    for name in ("core", "profile", "recent", "others"):
        section = getattr(resume, name)
        known[name] = section.budget or None, section.excluded
    return TextExplanation(lines=lines, sections=_sections(lines, known))


def explain_context(
    block: ContextBlock, trace: RecallTrace | None, cut_by_chars: int, budget: int | None
) -> TextExplanation:
    """The lines and sections of a context block. cut_by_chars: hits that its characters had no room for; budget:
    tokens of the recall that it is made of."""
    why = {} if trace is None else {each.id: each.why for each in trace.candidates}
    parts = _context_parts(block, why)
    lines = list[TextLine]()
    for text, place in located_lines(block.text, [part.text for part in parts]) if block.text else ():
        if place is None:
            lines.append(TextLine(text=text, section="others" if text == OTHERS_HEADING else "head", tokens=0))
        else:
            lines.append(parts[place].line)
    left_out = Counter[str]()
    if trace is not None:
        left_out.update({each.reason: each.count for each in trace.left_out})
        left_out.update(trace.dropped)
    if cut_by_chars > 0:
        left_out["max_chars"] = cut_by_chars
    known = {
        "preferences": (budget and budget // PREFERENCES_SHARE, dict[str, int]()),
        "profile": (budget and budget // PREFERENCES_SHARE, dict[str, int]()),
        "memories": (budget, dict(left_out)),
        "others": (budget and budget // OTHERS_SHARE, dict[str, int]()),
    }
    return TextExplanation(lines=lines, sections=_sections(lines, known), below=_below(block, trace))


def _below(block: ContextBlock, trace: RecallTrace | None) -> list[TextCandidate]:
    """The best candidates that are not in a context, with the reason."""
    kept = {hit.details.memory.id for hit in block.kept} | {memory.id for memory in block.listed}
    left = [each for each in trace.candidates if each.id not in kept] if trace is not None else []
    left.sort(key=lambda each: -each.score)
    return [TextCandidate(id=each.id, score=each.score, reason=each.dropped or "max_chars")
            for each in left[:BELOW_MAX]]  # fmt: skip


def _context_parts(block: ContextBlock, why: dict[str, list[str]]) -> list[_ContextPart]:
    """The parts of a block that show memories, in their order."""
    rendered = {hit.details.memory.id: text for hit, text in zip(block.kept, block.rendered, strict=True)}
    ahead = [hit for hit in block.kept if hit.preference and not author_of(hit.details.memory)]
    parts = list[_ContextPart]()
    listed = listed_line(PREFERENCES_HEADING, [hit.details.memory.content for hit in ahead])
    if listed and listed in block.text.split("\n"):  # in M's block all preferences are one line
        part = _listed_part(listed, "preferences", [hit.details.memory for hit in ahead], _AHEAD)
        part.line.tokens = sum(hit.tokens for hit in ahead)
        parts.append(part)
        for hit in ahead:
            del rendered[hit.details.memory.id]
    for place in M_LISTS:
        entries = [each for each in block.listed if place_of_entry(each) == place]
        if entries:
            text = listed_line(place.heading, [each.content for each in entries])
            parts.append(_listed_part(text, "profile", entries, "an entry of the profile"))
    for hit in block.kept:
        memory = hit.details.memory
        own_line = rendered.get(memory.id)
        if own_line is not None:
            section = "others" if author_of(memory) else "preferences" if hit.preference else "memories"
            score = None if "preferences" in hit.channels else shown_score(hit.score)
            line = TextLine(
                text=own_line, section=section, tokens=hit.tokens, memory=memory.id,
                reason=_reason(hit, why.get(memory.id, [])), weight=score, condensed=hit.is_cut,
            )  # fmt: skip
            parts.append(_ContextPart(own_line, line))
    return parts


_AHEAD = "an instruction, which comes first"


def _listed_part(text: str, section: str, memories: Sequence[Memory], reason: str) -> _ContextPart:
    ids, tokens = [each.id for each in memories], sum(estimate_tokens([each.content for each in memories]))
    line = TextLine(text=text, section=section, tokens=tokens, memory=ids[0], more=ids[1:], reason=reason)
    return _ContextPart(text, line)


def _reason(hit: Hit, why: Sequence[str]) -> str:
    if hit.preference:
        return _AHEAD
    reasons = [*why]
    if "updates" in hit.channels:
        reasons.append("updates a memory that was found, and takes its place")
    if hit.was:
        reasons.append("an older value of one before it")
    return "; ".join(reasons) or f"found by {' and '.join(hit.channels)}"


def _sections(lines: Sequence[TextLine], known: dict[str, tuple[int | None, dict[str, int]]]) -> list[TextSection]:
    """The sections that have a line or that something was left out of, in the order of the lines."""
    sizes = Counter[str]()
    for line in lines:
        sizes[line.section] += line.tokens
    names = [*sizes, *(name for name, (_, left_out) in known.items() if left_out and name not in sizes)]
    return [
        TextSection(name=name, tokens=sizes[name], budget=known.get(name, (None, {}))[0],
                    left_out=known.get(name, (None, {}))[1])
        for name in names
    ]  # fmt: skip
