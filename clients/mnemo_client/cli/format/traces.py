"""Shows the trace of a recall, and the explanation of why a memory is or is not in an answer."""

from collections.abc import Iterator, Sequence

from mnemo_client.cli.format.units import number_text, plural, short_id
from mnemo_client.cli.terminal import TextStyle, cell_width, clip, pad, sanitize, table, wrap
from mnemo_client.protocol.retrieval import CandidateTrace, ChannelRank, RecallTrace, WhyAnswer
from mnemo_client.protocol.sessions import SessionTrace

OTHERS_SHOWN = 10  # candidates that are not in the answer
FEATURES_SHOWN = 8
WHY_LINES_MAX = 8
ITEM_CELLS_MAX = 300  # of a text in a trace where no terminal limits it
SMALL = 0.1
NO_REASON_TEXT = "no strong reason"

_CHANNELS = (("words", "w"), ("vectors", "v"), ("neighbours", "n"), ("core", "c"), ("facts", "f"))
_DROP_REASON_LABELS = {
    "near_copy": "a near copy", "duplicate_content": "the same text", "over_budget": "over the token budget",
    "cut": "too weak next to the best", "older_value": "an older value", "beyond_top_k": "further down",
    "earlier_page": "on an earlier page", "below_sim_threshold": "below the ranker's minimum similarity",
    "no_similarity": "no similarity", "min_score": "below the minimum score", "no_score": "no score",
    "gone": "deleted meanwhile", "in_ring": "in the ring", "over_limit": "beyond the limit",
}  # fmt: skip


def drop_reason_text(reason: str, count: int | None = None) -> str:
    """Return in words why candidates are not in the answer, with their number if it is given."""
    text = _DROP_REASON_LABELS.get(reason, sanitize(reason).replace("_", " "))
    return text if count is None else f"{number_text(count)} {text}"


def trace_lines(trace: RecallTrace, style: TextStyle) -> Iterator[str]:
    """Yield the candidates with the reasons for their ranks, the dropped and filtered ones, and the times."""
    answered = [each for each in trace.candidates if each.answer is not None]
    others = [each for each in trace.candidates if each.answer is None][:OTHERS_SHOWN]
    if trace.candidates:
        yield style.bold(_trace_row("rank", "score", "by", "memory", "why", style))
    for each in sorted(answered, key=lambda each: each.answer or 0):
        yield _candidate_line(each, "", style)
    if others:
        yield style.dim("not answered:")
    for each in others:
        yield _candidate_line(each, drop_reason_text(each.dropped or ""), style)
    yield ""
    words = f"; words: {', '.join(map(sanitize, trace.words))}" if trace.words else ""
    rows = [["searched", f"{number_text(trace.in_question)} of {plural(trace.memories, 'memory', 'memories')}{words}"]]
    rows += [["filtered", f"{number_text(each.count)} by {sanitize(each.reason)}: {_requirement_text(each.wants)}"]
             for each in trace.left_out]  # fmt: skip
    rows.append(["found", " · ".join(f"{number_text(each.found)} by {each.name}" for each in trace.channels)])
    if trace.dropped:
        counts = sorted(trace.dropped.items(), key=lambda item: (-item[1], item[0]))
        rows.append(["dropped", " · ".join(drop_reason_text(reason, count) for reason, count in counts)])
    if trace.uncompared:
        rows.append(["not compared", f"{plural(trace.uncompared, 'pair', 'pairs')} of similar large texts"])
    rows.append(["ms", " · ".join(f"{name} {took:.2f}" for name, took in trace.stages_ms.items())])
    yield from _labelled_rows(rows, style)
    yield style.dim("by: w words, v vectors, n next to the best in session or note, c core, f facts")


def _requirement_text(text: str) -> str:
    return f"required is {sanitize(text)}" if text else "another value is required"


def _candidate_line(each: CandidateTrace, dropped: str, style: TextStyle) -> str:
    by = "".join(letter if name in each.channels else "-" for name, letter in _CHANNELS)
    why = "; ".join(part for part in (dropped, *map(sanitize, each.why or [NO_REASON_TEXT])) if part)
    rank = "-" if each.rank is None else str(each.rank)
    return _trace_row(rank, score_text(each), by, style.location(short_id(each.id)), why, style)


def score_text(each: CandidateTrace) -> str:
    """Return the score, with one more digit if it is small, as likelihoods often are."""
    return f"{each.score:.3f}" if 0 < each.score < SMALL else f"{each.score:.2f}"


def _trace_row(rank: str, score: str, by: str, memory: str, why: str, style: TextStyle) -> str:
    head = f"{rank:>4}  {score:>5}  {pad(by, 4)}  {pad(memory, 8)}  "
    return head + clip(why, None if style.width is None else style.width - cell_width(head))


def _labelled_rows(rows: Sequence[Sequence[str]], style: TextStyle) -> Iterator[str]:
    """Yield a name and a text each, with the text wrapped next to its name."""
    width = max(cell_width(name) for name, _ in rows)
    room = None if style.width is None else max(20, style.width - width - 2)
    for name, text in rows:
        for number, (start, end) in enumerate(wrap(text, room, WHY_LINES_MAX)):
            yield f"{style.dim(pad('' if number else name, width))}  {text[start:end].rstrip()}".rstrip()


def session_trace_lines(trace: SessionTrace, style: TextStyle) -> Iterator[str]:
    """Yield the end of the ring, the items of each stage by score with why some are left out, and the times."""
    for item in trace.ring:
        role = f"{item.role}, recalled" if item.promoted else item.role
        yield _item_row("ring", "", "", sanitize(item.text), role, style)
    if trace.ring:
        yield ""
    if trace.items:
        yield style.bold(_item_row("stage", "score", "cosine", "text", "", style))
    for each in trace.items:
        reason = drop_reason_text(each.dropped) if each.dropped else ""
        row = _item_row(each.stage, f"{each.score:.2f}", f"{each.similarity:.2f}", sanitize(each.text), reason, style)
        yield style.dim(row) if reason else row
    yield ""
    searched = plural(len(trace.nodes), "topic node", "topic nodes") if trace.nodes else "recent turns were enough"
    rows = [["floor", f"cosine {trace.floor:.2f}; {trace.recent_above_floor} recent turns reach it; {searched}"]]
    if "vectors" in trace.degraded:
        rows = [["degraded", "without an embedding model only the ring is shown"]]
    rows.append(["ms", " · ".join(f"{name} {took:.2f}" for name, took in trace.stages_ms.items())])
    yield from _labelled_rows(rows, style)


def _item_row(stage: str, score: str, cosine: str, text: str, note: str, style: TextStyle) -> str:
    head = f"{pad(stage, 6)}  {score:>5}  {cosine:>6}  "
    line = f"{note}: {text}" if note else text
    room = ITEM_CELLS_MAX if style.width is None else style.width - cell_width(head)
    return head + clip(" ".join(line.split()), room)


# Why


def why_lines(answer: WhyAnswer, style: TextStyle) -> Iterator[str]:
    """Yield the reason in a sentence, then its evidence."""
    paint = style.good if answer.verdict == "answered" else style.warn
    text = sanitize(answer.sentence)
    for start, end in wrap(text, style.width, WHY_LINES_MAX):
        yield paint(text[start:end].rstrip())
    rows = [["filter", f"{sanitize(each.reason)}: required is {sanitize(each.wanted)}, it has {sanitize(each.has)}"]
            for each in answer.hurdles]  # fmt: skip
    if answer.holds or answer.missing:
        parts = [f"{name} {', '.join(map(sanitize, words))}" for name, words in
                 (("has", answer.holds), ("lacks", answer.missing)) if words]  # fmt: skip
        rows.append(["words", " · ".join(parts)])
    rows += [["by " + sanitize(each.name), _channel_rank_text(each)] for each in answer.channels]
    if answer.candidate is not None and answer.candidate.why:
        rows.append(["for it", "; ".join(map(sanitize, answer.candidate.why))])
    if answer.instead is not None:
        rows.append(["instead", short_id(answer.instead)])
    if answer.comparison is not None:
        rows.append(["compared", sanitize(answer.comparison)])
    if rows:
        yield ""
        yield from _labelled_rows(rows, style)
    if answer.candidate is not None and answer.last is not None:
        yield ""
        yield from _comparison_lines(answer.candidate, answer.last, style)


def _channel_rank_text(each: ChannelRank) -> str:
    if each.score is None or each.rank is None:
        return "no vector yet" if each.name == "vectors" else "nothing"
    kind = "cosine" if each.name == "vectors" else "score"
    looked_at = f"{number_text(each.looked_at)} found"
    return f"{kind} {each.score:.2f}, number {number_text(each.rank)}, {looked_at}"


def _comparison_lines(own: CandidateTrace, last: CandidateTrace, style: TextStyle) -> Iterator[str]:
    """Yield the features that differ most between the memory and the last answer, with what each adds."""
    gaps = {name: abs(own.adds.get(name, 0.0) - last.adds.get(name, 0.0)) for name in {*own.adds, *last.adds}}
    names = sorted(gaps, key=lambda name: (-gaps[name], name))[:FEATURES_SHOWN]
    rows = [["", "this one", "last answer"], ["score", score_text(own), score_text(last)]]
    rows += [["place", "-" if own.rank is None else str(own.rank), "-" if last.rank is None else str(last.rank)]]
    for name in names:
        rows.append([name, *(f"{each.adds[name]:+.3f}" if name in each.adds else "" for each in (own, last))])
    for number, line in enumerate(table(rows)):
        yield style.dim(line) if number == 0 else line
