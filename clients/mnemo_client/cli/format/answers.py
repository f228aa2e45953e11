"""Shows the answers of recall and search: hits, excerpts, the summary line."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from mnemo_client.cli.format.units import event_date, first_line, local_date, percent, short_id, short_path
from mnemo_client.cli.terminal import TextStyle, cell_width, fold, sanitize, wrap, wrap_words
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.retrieval import (
    AskAnswer,
    AskSentence,
    QuestionTimeView,
    RecallAnswer,
    RecalledMemory,
    SearchAnswer,
)
from mnemo_client.protocol.status import StatusAnswer

BEST_LINES_MAX = 4


def hit_lines(
    memories: Sequence[RecalledMemory], style: TextStyle, here: Path, home: Path, first: int = 1
) -> Iterator[str]:
    """Yield for each memory its number, score, location or id, headings and date (with `was` if a newer value replaced
    it), then its best sentences."""
    digits = len(str(first + len(memories) - 1))
    last_inside = max((place for place, memory in enumerate(memories, first) if memory.inside), default=0)
    for place, memory in enumerate(memories, first):
        if memory.inside is False and place == last_inside + 1 and last_inside:
            yield style.dim("not in this time:")
        head = f"{place:>{digits}}  {memory.score:.2f}  "
        about = f"about {local_date(memory.about)}" if memory.about is not None else ""
        day = ", ".join(part for part in ("was" if memory.was else "", event_date(memory), about) if part)
        cut = ["cut to the token budget"] if memory.content_cut else []
        cut += [f"{memory.others} more in this note"] if memory.others else []
        spot, rest = sanitize(location(memory, here, home)), [sanitize(memory.speaker or ""), day, *cut]
        room = None if style.width is None else style.width - cell_width(" · ".join([head, spot, *rest]))
        facts = dict.fromkeys((_fitting_headings(sanitize(heading_trail(memory)), room), *rest))  # a title may be a day
        line = style.dim(" · ").join([style.location(spot), *(style.dim(each) for each in facts if each)])
        # The terminal would break a heading that is longer than the line inside a word.
        heads = [line] if style.width is None else wrap_words(line, max(20, style.width - len(head)))
        yield f"{style.bold(f'{place:>{digits}}')}  {memory.score:.2f}  {heads[0]}"
        yield from (" " * len(head) + line for line in heads[1:])
        for line in best_sentence_lines(memory, style, len(head)):
            yield " " * len(head) + line
        if style.width is not None and place < first + len(memories) - 1:
            yield ""


def time_lines(time: QuestionTimeView | None, style: TextStyle) -> list[str]:
    """Return the time that the question names, as the head of its answers."""
    return [style.bold(sanitize(time.text)), ""] if time is not None and time.text else []


def sentence_texts(sentences: Sequence[AskSentence], style: TextStyle) -> list[str]:
    """Return each sentence with the numbers of the memories that it rests on, in the order in which they are cited."""
    numbers = _citation_numbers(sentences)
    return [
        sanitize(sentence.text) + style.dim("".join(f" [{numbers[each]}]" for each in sentence.ids))
        for sentence in sentences
    ]


def cited_memories(answer: AskAnswer) -> list[RecalledMemory]:
    """Return the memories that an answer rests on, in the order in which it cites them."""
    numbers = _citation_numbers(answer.sentences)
    return sorted(answer.memories, key=lambda memory: numbers.get(memory.id, len(numbers) + 1))


def _citation_numbers(sentences: Sequence[AskSentence]) -> dict[str, int]:
    cited = dict.fromkeys(each for sentence in sentences for each in sentence.ids)
    return {each: number for number, each in enumerate(cited, 1)}


def answer_lines(answer: AskAnswer, style: TextStyle, here: Path, home: Path, shown: int = 0) -> Iterator[str]:
    """Yield the answer, each sentence with the numbers of the memories that it rests on, then these memories. The first
    sentences, as many as `shown`, were printed before, each on a line of its own."""
    said = sentence_texts(answer.sentences, style)
    if shown:
        yield from said[shown:]
    else:
        yield " ".join(said) or sanitize(answer.answer)
    if answer.memories:
        yield ""
        yield from time_lines(answer.time, style)
        yield from hit_lines(cited_memories(answer), style, here, home)
        how = "written by the language model" if answer.method == "llm" else "quoted, not written by a language model"
        how = "no answer" if answer.abstained else how
        why = f": {sanitize(answer.reason)}" if answer.reason else ""
        yield from fold(style.dim(f"{how}{why} · namespace {sanitize(answer.namespace)}"), style.width)


def chat_lines(answer: AskAnswer, style: TextStyle, here: Path, home: Path) -> Iterator[str]:
    """Yield a reply, then in one line where the memories that it rests on are, and of when."""
    yield " ".join(sentence_texts(answer.sentences, style)) or sanitize(answer.answer)
    if cited := cited_memories(answer):
        spots = [f"{sanitize(location(each, here, home))} {event_date(each)}".rstrip() for each in cited]
        yield from fold(style.dim("   ".join(f"[{place}] {spot}" for place, spot in enumerate(spots, 1))), style.width)


def _fitting_headings(headings: str, room: int | None) -> str:
    """Return as many of the last headings as fit, at least one, with an ellipsis for the others."""
    parts = headings.split(" › ")
    while room is not None and len(parts) > 1 and cell_width(" › ".join(["…", *parts])) > room:
        parts = parts[1:]
    return headings if " › ".join(parts) == headings else " › ".join(["…", *parts])


def location(memory: MemoryView, here: Path, home: Path) -> str:
    """Return path:line of a chunk of a note, else the end of the id."""
    if memory.note is None:
        return short_id(memory.id)
    return f"{short_path(memory.note.path, here, home)}:{best_line(memory)}"


def best_line(memory: MemoryView) -> int:
    """Return the line of the best sentence, else the chunk's first; 1 if the memory is not from a note."""
    best = memory.best if isinstance(memory, RecalledMemory) else None
    if best is not None and best.line is not None:
        return best.line
    return memory.note.lines[0] if memory.note is not None else 1


def heading_trail(memory: MemoryView) -> str:
    """Return title and headings above a passage of a note."""
    return "" if memory.note is None else memory.note.trail


def best_sentence_lines(memory: RecalledMemory, style: TextStyle, indent: int) -> list[str]:
    """Return the excerpt with the query's words marked, wrapped below its head."""
    if memory.best is None:
        text, marks = first_line(memory, None), []
    else:
        text, marks = sanitize(memory.best.text), memory.best.marks
    width = None if style.width is None else max(20, style.width - indent)
    spans = wrap(text, width, BEST_LINES_MAX)
    lines = [highlight_marks(text, marks, start, end, style) for start, end in spans]
    if lines and spans[-1][1] < len(text.rstrip()):
        lines[-1] += " …"
    return lines


def highlight_marks(text: str, marks: Sequence[tuple[int, int]], start: int, end: int, style: TextStyle) -> str:
    """Return text[start:end] with the marks in it highlighted. Overlapping marks count once."""
    parts, at = [], start
    for first, last in sorted(marks):
        first, last = max(first, at), min(last, end)
        if first < last:
            parts += [text[at:first], style.highlight(text[first:last])]
            at = last
    return "".join([*parts, text[at:end]])


def recall_summary(answer: RecallAnswer, status: StatusAnswer | None, style: TextStyle) -> list[str]:
    """Return the lines of the summary: number of results, milliseconds, ranker, namespace, and missing parts."""
    parts = [f"{len(answer.memories)} of {answer.total}", f"{answer.took_ms:.1f} ms", answer.ranker]
    if answer.list_top_k:
        parts.append(f"a list: up to {answer.list_top_k}")
    missing = [degraded_text([name for name in answer.degraded if name != "llm"], status)]
    if answer.reason:
        missing.append(f"without the language model: {sanitize(answer.reason)}")
    return _summary(parts, answer.namespace, "; ".join(filter(None, missing)), style)


def search_summary(answer: SearchAnswer, style: TextStyle) -> list[str]:
    parts = [f"{len(answer.memories)} of {answer.total}", "words"]
    return _summary(parts, answer.namespace, degraded_text(answer.degraded, None), style)


def _summary(parts: list[str], namespace: str, missing: str, style: TextStyle) -> list[str]:
    line = style.dim(" · ".join([*parts, f"namespace {sanitize(namespace)}"]))
    return fold(f"{line}{style.dim(' · ')}{style.warn(missing)}" if missing else line, style.width)


def degraded_text(degraded: Sequence[str], status: StatusAnswer | None) -> str:
    """Describe the missing parts of an answer; empty if nothing was missing."""
    return "; ".join(degraded_reason(name, status) for name in degraded)


def degraded_reason(name: str, status: StatusAnswer | None) -> str:
    """Describe one missing part of an answer: without vectors, by the state of the model."""
    if name == "vectors":
        model = status.models.get("embedding") if status is not None else None
        vectors = status.views.get("vectors") if status is not None else None
        if model is not None and model.state == "ready" and vectors is not None and 0 < vectors.share < 1:
            return f"{percent(vectors.share)} of the memories have a vector so far: the others were found by words only"
        why = "vectors are not ready"
        if model is not None and model.state == "absent":
            why = "no embedding model is installed (mnemo models pull)"
        elif model is not None and model.state == "loading":
            why = "the embedding model is loading"
        elif model is not None and model.state == "failed":
            why = f"the embedding model failed ({sanitize(model.reason or 'see mnemo doctor')})"
        return f"answered by words only: {why}"
    if name == "notes":
        return "notes are still being read (mnemo status)"
    if name == "llm":
        return "without the language model"
    if name in ("database", "store", "lmdb"):
        return "the store has a problem (mnemo status)"
    return f"without {sanitize(name)}"
