"""How the trace of a recall looks, and why one memory was or was not answered. Protocol values in, lines out."""

from collections.abc import Iterator, Sequence

from mnemo_client import display
from mnemo_client.recall_protocol import CandidateTrace, Standing, Trace, WhyAnswer
from mnemo_client.terminal import Look, cells, clip, pad, plain, table, wrap

OTHERS_SHOWN = 10  # candidates that are not in the answer
FEATURES_SHOWN = 8
WHY_LINES_MAX = 8
SMALL = 0.1
NOTHING = "little speaks for it"

_CHANNELS = (("words", "w"), ("vectors", "v"), ("neighbours", "n"), ("core", "c"))
_DROPPED = {
    "near_copy": "a near copy", "duplicate_content": "the same text", "over_budget": "over the token budget",
    "cut": "behind the gap", "older_value": "an older value", "beyond_top_k": "further down",
    "earlier_page": "on an earlier page", "below_sim_threshold": "under the ranker's floor",
    "no_similarity": "no similarity", "min_score": "under the least score", "no_score": "no score", "gone": "gone",
}  # fmt: skip


def dropped_words(reason: str, count: int | None = None) -> str:
    """Why a candidate is not in the answer, in words; with how many there are."""
    said = _DROPPED.get(reason, plain(reason).replace("_", " "))
    return said if count is None else f"{display.number(count)} {said}"


def trace_lines(trace: Trace, look: Look) -> Iterator[str]:
    """The candidates with the reasons for their places, what was dropped and left out, and the times."""
    answered = [each for each in trace.candidates if each.answer is not None]
    others = [each for each in trace.candidates if each.answer is None][:OTHERS_SHOWN]
    if trace.candidates:
        yield look.bold(_line("rank", "score", "by", "memory", "why", look))
    for each in sorted(answered, key=lambda each: each.answer or 0):
        yield _candidate(each, "", look)
    if others:
        yield look.dim("not answered:")
    for each in others:
        yield _candidate(each, dropped_words(each.dropped or ""), look)
    yield ""
    rows = [["in question", _question(trace)]]
    rows += [["left out", f"{display.number(each.count)} by {plain(each.reason)}: {_wanted(each.wants)}"]
             for each in trace.left_out]  # fmt: skip
    rows.append(["found", " · ".join(f"{display.number(each.found)} by {each.name}" for each in trace.channels)])
    if trace.dropped:
        counts = sorted(trace.dropped.items(), key=lambda item: (-item[1], item[0]))
        rows.append(["dropped", " · ".join(dropped_words(reason, count) for reason, count in counts)])
    if trace.uncompared:
        rows.append(
            ["not compared", f"{display.plural(trace.uncompared, 'pair', 'pairs')} of large texts that are near"]
        )
    rows.append(["ms", " · ".join(f"{name} {took:.2f}" for name, took in trace.stages_ms.items())])
    yield from _rows(rows, look)
    yield look.dim("by: w words, v vectors, n neighbours of the best in session or note, c core")


def _question(trace: Trace) -> str:
    words = f"; words: {', '.join(map(plain, trace.words))}" if trace.words else ""
    return f"{display.number(trace.in_question)} of {display.plural(trace.memories, 'memory', 'memories')}{words}"


def _wanted(text: str) -> str:
    return f"wanted is {plain(text)}" if text else "something else is wanted"


def _candidate(each: CandidateTrace, dropped: str, look: Look) -> str:
    by = "".join(letter if name in each.channels else "-" for name, letter in _CHANNELS)
    why = "; ".join(part for part in (dropped, *map(plain, each.why or [NOTHING])) if part)
    rank = "-" if each.rank is None else str(each.rank)
    return _line(rank, score_of(each), by, look.place(display.short_id(each.id)), why, look)


def score_of(each: CandidateTrace) -> str:
    """With a digit more where it is small, as chances often are."""
    return f"{each.score:.3f}" if 0 < each.score < SMALL else f"{each.score:.2f}"


def _line(rank: str, score: str, by: str, memory: str, why: str, look: Look) -> str:
    head = f"{rank:>4}  {score:>5}  {pad(by, 4)}  {pad(memory, 8)}  "
    return head + clip(why, None if look.width is None else look.width - cells(head))


def _rows(rows: Sequence[Sequence[str]], look: Look) -> Iterator[str]:
    """A name and a text each, the text wrapped beside its name."""
    width = max(cells(name) for name, _ in rows)
    room = None if look.width is None else max(20, look.width - width - 2)
    for name, text in rows:
        for number, (start, end) in enumerate(wrap(text, room, WHY_LINES_MAX)):
            yield f"{look.dim(pad('' if number else name, width))}  {text[start:end].rstrip()}".rstrip()


# Why


def why_lines(told: WhyAnswer, look: Look) -> Iterator[str]:
    """The reason in a sentence, then what it rests on."""
    paint = look.good if told.verdict == "answered" else look.warn
    said = plain(told.sentence)
    for start, end in wrap(said, look.width, WHY_LINES_MAX):
        yield paint(said[start:end].rstrip())
    rows = [["filter", f"{plain(each.reason)}: wanted is {plain(each.wanted)}, it has {plain(each.has)}"]
            for each in told.hurdles]  # fmt: skip
    if told.holds or told.missing:
        parts = [f"{name} {', '.join(map(plain, words))}" for name, words in
                 (("has", told.holds), ("lacks", told.missing)) if words]  # fmt: skip
        rows.append(["words", " · ".join(parts)])
    rows += [["by " + plain(each.name), _standing(each)] for each in told.channels]
    if told.candidate is not None and told.candidate.why:
        rows.append(["for it", "; ".join(map(plain, told.candidate.why))])
    if told.instead is not None:
        rows.append(["instead", display.short_id(told.instead)])
    if rows:
        yield ""
        yield from _rows(rows, look)
    if told.candidate is not None and told.last is not None:
        yield ""
        yield from _beside(told.candidate, told.last, look)


def _standing(each: Standing) -> str:
    if each.score is None or each.rank is None:
        return "no vector yet" if each.name == "vectors" else "nothing"
    kind = "cosine" if each.name == "vectors" else "score"
    looked_at = f"{display.number(each.looked_at)} found"
    return f"{kind} {each.score:.2f}, number {display.number(each.rank)}, {looked_at}"


def _beside(own: CandidateTrace, last: CandidateTrace, look: Look) -> Iterator[str]:
    """What each feature adds to it and to the last of the answers, where they differ most."""
    names = sorted({*own.adds, *last.adds}, key=lambda name: (-abs(_more(own, last, name)), name))[:FEATURES_SHOWN]
    rows = [["", "this one", "last answer"], ["score", score_of(own), score_of(last)]]
    rows += [["place", "-" if own.rank is None else str(own.rank), "-" if last.rank is None else str(last.rank)]]
    rows += [[name, *(_added(each.adds.get(name)) for each in (own, last))] for name in names]
    for number, line in enumerate(table(rows)):
        yield look.dim(line) if number == 0 else line


def _more(own: CandidateTrace, last: CandidateTrace, name: str) -> float:
    return own.adds.get(name, 0.0) - last.adds.get(name, 0.0)


def _added(value: float | None) -> str:
    return "" if value is None else f"{value:+.3f}"
