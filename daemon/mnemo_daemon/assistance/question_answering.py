"""Answers to questions from what was recalled, and from nothing else. SPEC 11"""

import functools
import json
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from datetime import date
from pathlib import Path
from typing import Literal, NamedTuple

from mnemo_core.llm.question_answer import (
    ANSWER,
    KNOWN_SHARE_MIN,
    QUOTED_CHARACTERS,
    SOURCES_MAX,
    AnswerSentence,
    best_sentence,
    is_quotable,
    quote_answer,
    quoted_text,
    unmet_by_sources,
    validate_answer,
    whole_sentences,
)
from mnemo_core.llm.tasks import EarlierQuestion, RecalledSource, TaskInputs
from mnemo_core.retrieval.answer_judge import AnswerCandidate, AnswerJudge
from mnemo_core.retrieval.excerpts import unwrap
from mnemo_core.retrieval.ranking.rankers import Ranker
from mnemo_core.retrieval.time_placement import AgendaTime, DatedText, read_agenda
from mnemo_core.text.dates.local_days import local_time
from mnemo_core.text.dates.time_mentions import begins_at, said_at
from mnemo_core.text.statement_reading import read_statement
from mnemo_daemon.models.cross_encoder import CrossEncoderService
from mnemo_daemon.models.language.task_runner import TaskRunner
from mnemo_daemon.retrieval.question import Hit, RecallOutcome
from mnemo_daemon.times import utc_offset
from mnemo_store.records import Memory

SOURCE_CHARACTERS = 1000  # of a longer text, the passage that answers best is read
ANSWER_WEIGHTS = Path(__file__).parents[1] / "weights" / "answers.json"  # of the judge of answers
OWN_SHARE_MIN = 0.85  # of the best score
CLOSEST_SCORE_MIN = 0.15  # of a memory that is shown instead of an answer
UNKNOWN = "I don't know."
_ENDS = (".", "!", "?", "…", ":", "。", "！", "？", '"', ")")  # of a sentence that another one may follow

SESSIONS_MAX = 256  # the one that was used longest ago goes first
QUESTIONS_MAX = 4
TEXT_CHARACTERS = 400  # of a question and of an answer
IDLE_SECONDS = 3600.0


class QuotedHit(NamedTuple):
    """A memory that an answer rests on, and its sentence that says it."""

    hit: Hit
    quote: str


CitedSentence = tuple[str, list[QuotedHit]]


class AnsweredQuestion(NamedTuple):
    """The sentences of an answer, each with the memories that it rests on; none where they do not hold it."""

    sentences: list[CitedSentence]
    method: Literal["llm", "quotes"]
    reason: str = ""  # why no language model answered
    without: str = UNKNOWN  # the text where there is no sentence
    closest: QuotedHit | None = None  # where there is no sentence: the memory that comes closest to an answer
    is_whole: bool = True  # no memory was left out for want of room

    @property
    def own_text(self) -> str:
        """The text without what the closest memory says."""
        *before, last = [text for text, _ in self.sentences] or [self.without]
        return " ".join([*(text if text.endswith(_ENDS) else f"{text}." for text in before), last])

    @property
    def kept_text(self) -> str:
        """The text that its session keeps: of quotes without the words around them, so that they are known as such."""
        if self.method == "llm" or not self.sentences:
            return self.own_text
        return "\n".join(each.quote for _, quoted in self.sentences for each in quoted)

    @property
    def text(self) -> str:
        if self.closest is None:
            return self.own_text
        return f"{self.own_text} The closest memory says: {self.closest.quote}"


def answer_question(
    question: str, recalled: RecallOutcome, tasks: TaskRunner, until: float, is_cancelled: Callable[[], bool],
    earlier: Sequence[EarlierQuestion] = (), on_sentence: Callable[[CitedSentence], None] | None = None,
    reader: CrossEncoderService | None = None,
) -> AnsweredQuestion:  # fmt: skip
    """Answer from the first hits of a recall; their order is that of their relevance.

    Waits for the language model, at most until a time of the monotonic clock: questions wait for a thread before this.
    `on_sentence` gets each sentence of the model as soon as it is written and verified, which a later one of the same
    answer can still make void, and must not raise.
    """
    hits = [hit for hit in recalled.hits if not _is_question_itself(hit, question)]
    if hits and _asks_of_self(question) and not _is_own(hits[0]):
        least = hits[0].score * OWN_SHARE_MIN
        close = (hit for hit in hits if hit.score >= least and not (hit.was or hit.perhaps_was))
        own = next((hit for hit in close if _is_own(hit)), None)
        hits = hits if own is None else [own, *(hit for hit in hits if hit is not own)]
    read = _answer_hits(hits)
    inputs = answer_inputs(question, hits, earlier)
    if recalled.agenda is not None and recalled.agenda.weekdays:
        return _agenda_answer(question, recalled.hits, recalled.agenda)
    if inputs is None:
        return AnsweredQuestion([], "quotes")

    def cited(sentence: AnswerSentence) -> CitedSentence:
        numbers = dict.fromkeys(sentence.sources)
        return sentence.text, [
            QuotedHit(read[n - 1], best_sentence(inputs.sources[n - 1], sentence.text)) for n in numbers
        ]

    reported = 0

    def on_text(text: str) -> None:
        nonlocal reported
        so_far = whole_sentences(text)
        if on_sentence is not None and len(so_far.sentences) > reported and not validate_answer(so_far, inputs):
            for sentence in so_far.sentences[reported:]:
                on_sentence(cited(sentence))
            reported = len(so_far.sentences)

    seconds = max(0.0, until - time.monotonic())
    result = tasks.run(ANSWER, inputs, seconds, is_cancelled, None if on_sentence is None else on_text)
    if result.method == "fallback" and recalled.agenda is not None:
        return _agenda_answer(question, recalled.hits, recalled.agenda)
    if result.method == "fallback" and (unlikely := _unlikely(inputs, read, recalled.ranker, reader)):
        return unlikely
    sentences = list(map(cited, result.answer.sentences))
    if result.method == "fallback":
        if sentences and _asks_of_self(question) and _is_own(sentences[0][1][0].hit):
            sentences = [each for each in sentences if _is_own(each[1][0].hit)]
        if sentences and sentences[0][1][0].hit is read[0]:
            sentences = [sentences[0], *_other_value(read, inputs, sentences[1:])]
    return AnsweredQuestion(sentences, "llm" if result.method == "llm" else "quotes", result.reason)


def _agenda_answer(question: str, hits: Sequence[Hit], time: AgendaTime) -> AnsweredQuestion:
    """Return an answer with what takes place in the time that the question asks for, and for nothing else."""
    replaced = {newer.id: hit.details.memory for hit in hits if hit.was for newer in hit.newer}
    hits = [
        hit for hit in hits
        if not (hit.was or _is_question_itself(hit, question)) and (hit.is_inside or hit.details.memory.id in replaced)
    ]  # fmt: skip
    texts = []
    for hit in hits:
        memory = hit.details.memory
        before = replaced.get(memory.id)
        newer = tuple(map(_dated_text, hit.newer))
        cancelling = tuple(_dated_text(each.details.memory) for each in hit.cancelling)
        text = _dated_text(memory)._replace(newer=newer, before=_dated_text(before) if before else None)
        texts.append(text._replace(cancelling=cancelling))
    agenda = read_agenda(texts, time, utc_offset)
    sentences = [_agenda_sentence(hits[place], agenda.doubts.get(place)) for place in agenda.items]
    cancelled = [QuotedHit(hits[place], _quote_of(hits[place])) for place in agenda.cancelled]
    return AnsweredQuestion(
        sentences, "quotes", without=f"I know of nothing on {time.text}.", is_whole=agenda.is_whole,
        closest=cancelled[0] if cancelled and not sentences else None,
    )  # fmt: skip


def _agenda_sentence(hit: Hit, doubt: int | None) -> CitedSentence:
    """The sentence of what takes place. doubt: the place of the memory that says later that it does not."""
    text, cancelling = _quote_of(hit), [] if doubt is None else [hit.cancelling[doubt]]
    quoted = [QuotedHit(each, _quote_of(each)) for each in (hit, *cancelling)]
    for day, later in zip(map(_day_of, cancelling), quoted[1:], strict=True):
        text += f" (Perhaps cancelled since {day.day} {day:%B %Y}: {later.quote})"
    return text, quoted


def _quote_of(hit: Hit) -> str:
    """The text of a hit, or of a longer one its best sentence."""
    text = unwrap(hit.details.memory.content)
    return text if len(text) <= QUOTED_CHARACTERS or hit.best is None else hit.best.sentence


def _dated_text(memory: Memory) -> DatedText:
    return DatedText(memory.content, memory.event_at, memory.created_at)


def _asks_of_self(question: str) -> bool:
    asked = read_statement(question)
    return asked.person == "first" and not asked.kin


def _is_own(hit: Hit) -> bool:
    return read_statement(hit.details.memory.content[:SOURCE_CHARACTERS]).person == "first"


def _other_value(read: Sequence[Hit], inputs: TaskInputs, rest: Sequence[CitedSentence]) -> list[CitedSentence]:
    """The further sentences of an answer by the first hit: before the rest, the value that held, or perhaps held, until
    it, or one that perhaps holds since, which does not come first where it is less like the question."""
    newer = {memory.id for memory in read[0].newer}
    for place, hit in enumerate(read[1:], 1):
        is_former = place == 1 and (hit.was or hit.perhaps_was)
        if is_former or (hit.details.memory.id in newer and not hit.was):
            day = _day_of(read[0] if is_former else hit)
            words = "Until" if hit.was else "Perhaps until" if is_former else "Perhaps otherwise since"
            quote = inputs.recalled[place].quote or best_sentence(inputs.sources[place], inputs.question)
            others = [each for each in rest if each[1][0].hit is not hit]
            return [(f"{words} {day.day} {day:%B %Y}: {quote}", [QuotedHit(hit, quote)]), *others]
    return [*rest]


def _day_of(hit: Hit) -> date:
    memory = hit.details.memory
    said = said_at(memory.content, memory.event_at, memory.created_at, utc_offset)
    return local_time(begins_at(memory.content, said, utc_offset), utc_offset)[0]


def _unlikely(
    inputs: TaskInputs, read: Sequence[Hit], ranker: Ranker, reader: CrossEncoderService | None
) -> AnsweredQuestion | None:
    """No answer, with the memory that comes closest, where none is likely to answer; None where one is.

    The judge of answers decides by the scores of `auto`. Those of `words`, which ranks where there are no vectors, are
    no chances: a memory with half of the words of the question answers it then. Where nothing has a score, it has to
    have all of them. Ranked by either, what is quoted has to have every specific of the question. Who chooses another
    ranker gets its first hits.
    """
    order = sorted(range(len(read)), key=lambda place: -inputs.recalled[place].score)
    candidates = [
        AnswerCandidate(
            source, known.quote or best_sentence(source, inputs.question), known.score, known.speaker, _headings(hit)
        )
        for source, known, hit in ((inputs.sources[place], inputs.recalled[place], read[place]) for place in order)
    ]
    score = candidates[0].score
    is_close = score >= CLOSEST_SCORE_MIN if ranker == "auto" else score > 0
    if inputs.earlier and is_close:  # the words that a follow-up took over tell what it is about, and answer nothing
        return None
    if ranker in ("auto", "words") and unmet_by_sources(quote_answer(inputs), inputs):
        is_answered = False
    elif ranker == "words" or not score:
        is_answered = is_quotable(inputs, KNOWN_SHARE_MIN if ranker == "words" and score else 1.0)
    else:
        # A newer value, whether it is certain or only likely, answers what the one that it replaced answered.
        former = order[0] == 0 and len(read) > 1 and (read[1].was or read[1].perhaps_was)
        said = [candidates[place].said for place in ((0, order.index(1)) if former else (0,))]
        reading = _reading(reader, inputs.question, said) if ranker == "auto" and is_close else None
        is_answered = ranker != "auto" or (is_close and _answer_judge().answers(inputs.question, candidates, reading))
    if is_answered:
        return None
    closest = QuotedHit(read[order[0]], candidates[0].quote) if is_close else None
    return AnsweredQuestion([], "quotes", "no memory is likely to answer it", closest=closest)


def _headings(hit: Hit) -> str:
    note = hit.details.memory.note
    return " > ".join(dict.fromkeys((note.title, *note.headings))) if note else ""


def _reading(reader: CrossEncoderService | None, question: str, texts: Sequence[str]) -> float | None:
    """The highest chance that one of the texts answers, by the model that reads them; None where there is none."""
    encoder = reader.encoder() if reader is not None else None
    scores = reader.scores(encoder, question, texts) if reader is not None and encoder is not None else None
    return None if scores is None else float(scores.max())


@functools.cache
def _answer_judge() -> AnswerJudge:
    return AnswerJudge(json.loads(ANSWER_WEIGHTS.read_text(encoding="utf-8")))


def answer_inputs(question: str, hits: Sequence[Hit], earlier: Sequence[EarlierQuestion] = ()) -> TaskInputs | None:
    """The inputs of the task `answer`; None without a hit."""
    read = _answer_hits(hits)
    if not read:
        return None
    recalled = tuple(recalled_source(hit, "" if earlier else question) for hit in read)
    return TaskInputs(tuple(map(source_text, read)), question, recalled, tuple(earlier))


def _is_question_itself(hit: Hit, question: str) -> bool:
    """Return whether a memory is no more than the same question, as hooks store those that a person asks an agent."""
    text, asked = (" ".join(each.casefold().split()) for each in (hit.details.memory.content, question))
    return text.endswith(("?", "？")) and text.rstrip("?？ ") == asked.rstrip("?？ ")


def _answer_hits(hits: Sequence[Hit]) -> list[Hit]:
    return [hit for hit in hits if hit.details.memory.content.strip()][:SOURCES_MAX]


def source_text(hit: Hit) -> str:
    """The text of a hit that a language model reads."""
    content = hit.details.memory.content
    if len(content) <= SOURCE_CHARACTERS:
        return unwrap(content)
    return (hit.best.text if hit.best is not None else content)[:SOURCE_CHARACTERS]


def recalled_source(hit: Hit, question: str) -> RecalledSource:
    """The speaker and date of a hit, what is quoted of it, its score, and what it is about; what is or may be an older
    value answers nothing. question: "" of a follow-up, of which one sentence is quoted."""
    memory = hit.details.memory
    parts = [memory.speaker] if memory.speaker else []
    if memory.note is None or memory.note.dated:
        day, _ = local_time(memory.event_at, utc_offset)
        parts.append(f"{day.day} {day:%B %Y}")  # in words, so that an answer can repeat them
    if hit.was:
        parts.append("no longer true")
    quote = hit.best.sentence if hit.best is not None else ""
    if question:
        quote = quoted_text(unwrap(memory.content), quote)
    score = 0.0 if hit.was or hit.perhaps_was else hit.score
    about = [memory.namespace, *memory.tags, *((memory.note.title, *memory.note.headings) if memory.note else ())]
    about += [memory.content] if len(memory.content) > SOURCE_CHARACTERS else []
    return RecalledSource(", ".join(parts), quote, score, hit.was, memory.speaker or "", " ".join(about))


class AskedQuestions:
    """The questions of the sessions of one daemon; safe in any thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """now: seconds."""
        self._now = now
        self._lock = threading.Lock()
        self._sessions: OrderedDict[Hashable, tuple[float, deque[EarlierQuestion]]] = OrderedDict()

    def of_session(self, session: Hashable) -> tuple[EarlierQuestion, ...]:
        """The last questions of a session, the oldest first."""
        with self._lock:
            used_at, asked = self._sessions.get(session, (0.0, deque()))
            return tuple(asked) if self._now() - used_at < IDLE_SECONDS else ()

    def add(self, session: Hashable, question: str, answer: str) -> None:
        """Keep a question and its answer as the last of a session."""
        kept = EarlierQuestion(question[:TEXT_CHARACTERS], answer[:TEXT_CHARACTERS])
        earlier = self.of_session(session)
        with self._lock:
            self._sessions[session] = self._now(), deque((*earlier, kept), QUESTIONS_MAX)
            self._sessions.move_to_end(session)
            while len(self._sessions) > SESSIONS_MAX:
                self._sessions.popitem(last=False)

    def clear(self) -> None:
        """Forget every session: an answer may quote what was erased."""
        with self._lock:
            self._sessions.clear()
