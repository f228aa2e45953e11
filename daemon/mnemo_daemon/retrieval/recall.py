"""Recall: from a question to the memories that answer it. SPEC 7.

The channels find candidates, which are scored together from the columns; the best are selected and read. Nothing is
written here: the recorders write after the answers what was recalled, and which memories were handed out in which
answers: to whom, when and in which place (SPEC 5.5a). The latter has no word of a question or a memory, is kept for a
limited time and number, and is erased with its memory.
"""

import functools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from mnemo_client.protocol.retrieval import QuestionTimeView, WhyAnswer
from mnemo_core.retrieval import query_expansion
from mnemo_core.retrieval.query_expansion import HITS_MAX, WORDS_FACTOR, ExpansionWord, added_words
from mnemo_core.retrieval.ranking import rankers
from mnemo_core.retrieval.time_placement import AgendaTime
from mnemo_core.text.dates.question_times import content_words
from mnemo_daemon.history_names import BY_SHOWN, SHOWN
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.memories.memory_columns import Relevance, RoleReader
from mnemo_daemon.memories.memory_service import MemoryService
from mnemo_daemon.models.cross_encoder import CrossEncoderService
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.retrieval.candidates.candidate_retrieval import CandidateRetrieval
from mnemo_daemon.retrieval.candidates.corpus_builder import CorpusBuilder
from mnemo_daemon.retrieval.candidates.ranking_inputs import RankingInputs, TimeOrder, ranker_request_of
from mnemo_daemon.retrieval.explanations import Explainer
from mnemo_daemon.retrieval.question import Hit, Question, RecallContext, RecallOutcome, StageTimer
from mnemo_daemon.retrieval.recall_diagnosis import RecallDiagnosis
from mnemo_daemon.retrieval.result_builder import ResultBuilder
from mnemo_daemon.times import interval_text, time_text
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.errors import StoreError
from mnemo_store.indexes.vector_kernels import BadVector
from mnemo_store.records import Change, DropShowing, PutShowing, Showing
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import SHOWINGS

SLOW_THREADS = 2
LAG_MAX = 64  # memories without a vector, from which on an answer is degraded

log = logging.getLogger("mnemo.recall")

HELD_MIN = 2  # memories that hold a word: one that only the hit itself holds finds nothing

RELEVANCE_MIN = 0.5  # above it, being answered counts as being recalled. SPEC 7.5 [G40]
WRITE_SECONDS = 2.0  # touches and answers are written together, this late at most
PENDING_MAX = 500  # in one write turn


class Recall:
    """The recall service. `ask` is synchronous; `submit` runs it on a thread of its own."""

    def __init__(
        self, store: Store, views: Views, indexing: VectorIndexer, embedding: EmbeddingService,
        reranking: CrossEncoderService | None = None, is_reading_notes: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        """is_reading_notes: return whether the notes folders may hold memories that were not read yet."""
        self._is_reading_notes = is_reading_notes
        self._cross_encoder = reranking
        self._store = store
        self._views = views
        self._indexing = indexing
        self._embedding = embedding
        self._corpora = CorpusBuilder(store, views)
        self._retrieval = CandidateRetrieval(store, views, embedding)
        self._ranking_inputs = RankingInputs(store, views, embedding, reranking)
        self._time_order = TimeOrder(store, views)
        self._expansion = QueryExpansion(store, views, self._retrieval, self._ranking_inputs)
        self.roles = RoleReader(store, views, indexing.serving)
        self.result_builder = ResultBuilder(store, views, indexing, embedding, self.roles)
        self._explainer = Explainer(views)
        self._why = RecallDiagnosis(store, views, self._explainer, self.result_builder.tokens)
        # One thread for quick questions: several contend for the interpreter, and each answer takes longer. What may
        # take long has threads of its own, so that it delays no other.
        self._quick = ThreadPoolExecutor(1, "mnemo-recall")
        self._slow = ThreadPoolExecutor(SLOW_THREADS, "mnemo-recall-slow")

    def close(self) -> None:
        for threads in (self._quick, self._slow):
            threads.shutdown(cancel_futures=True)
        self._retrieval.close()

    def clear_caches(self) -> None:
        """Nothing is kept of the texts that were looked at."""
        self._ranking_inputs.clear_caches()
        self.roles.clear()

    def relevance_to(self, text: str) -> Relevance | None:
        """Return the relevance of memories to a text; None without a model."""
        serving = None if self._store.degraded else self._indexing.serving()
        if serving is None:
            return None
        query = serving.view.prepare_query(self._embedding.encode_query(serving.embedder, text))
        return functools.partial(serving.view.sims, query)

    def submit(self, question: Question) -> Future[RecallOutcome]:
        """Answers on another thread; questions that can be answered quickly in the order in which they come."""
        return (self._quick if question.is_quick else self._slow).submit(self.answer, question)

    def answer(self, question: Question) -> RecallOutcome:
        """Answers from what is there now. Without a model, or while it loads, by words alone, and says so."""
        context = self.run(question)
        page, scored = context.page, context.scored
        trace = self._explainer.trace(context) if question.explain else None
        return RecallOutcome(
            page.hits, page.tokens, len(context.rows), scored.ranker, context.degraded, context.took_ms, trace,
            scored.mode, page.abstained, page.tokens_needed, context.expansion_terms, _time_view(context),
            _agenda_time(context.question),
        )  # fmt: skip

    def why(self, question: Question, memory_id: str, against: str = "") -> WhyAnswer:
        """Explain why this memory is, or is not, among the answers, also by comparing it with another candidate, by its
        id. Raises a Refusal (404) for no such memory."""
        context = self.run(question._replace(explain=True))
        diagnosis = self._why.diagnose(context, memory_id, against)
        diagnosis.degraded, diagnosis.took_ms = list(context.degraded), round(context.took_ms, 3)
        return diagnosis

    def run(self, question: Question) -> RecallContext:
        """Run every stage of the recall."""
        timer = StageTimer()
        if question.time is not None and question.time.order and content_words(question.time.rest):
            # "Last" and "first" are no words of what happened.
            shown = question.excerpt_query or question.query
            question = question._replace(query=question.time.rest, excerpt_query=shown)
        by_vectors = ranker_request_of(question).needs_vectors and not self._store.degraded
        context = RecallContext(question, self._corpora.build(question), timer)
        timer.mark("filter")
        context.serving = self._indexing.serving() if by_vectors else None
        try:
            self._retrieval.search(context)
        except (BadVector, RuntimeError) as error:  # of a model that fails; onnxruntime's errors
            log.warning("the query could not be embedded, and is answered by words: %s", error)
            context.serving = None
            self._retrieval.search(context)
        self._ranking_inputs.set_request(context)
        self._ranking_inputs.set_candidates(context)
        timer.mark("features")
        context.rank()
        self._time_order.arrange(context)
        timer.mark("rank")
        context.degraded = tuple(self._degraded(context))
        self._expansion.expand(context)
        if question.group_by == "note":
            group_by_note(context)
        context.page = self.result_builder.build(context)
        timer.mark("fetch")
        context.took_ms = timer.total()
        return context

    def _degraded(self, context: RecallContext) -> Iterator[str]:
        """The parts that could not contribute all that they have."""
        if ranker_request_of(context.question).needs_vectors:
            is_behind = context.serving is None or self._indexing.waiting() >= LAG_MAX
            if is_behind or not context.found.is_whole:
                yield "vectors"
            if self._views.state == "stale":
                yield "words"
        elif self._views.state != "ready":
            yield "words"
        if self._is_reading_notes():
            yield "notes"
        encoder, scored = self._cross_encoder, context.scored
        reranks = rankers.RANKER_TABLE[scored.ranker].reranks and scored.mode != "cross_encoder"
        if reranks and encoder is not None and encoder.failure:
            yield "reranker"


def _agenda_time(question: Question) -> AgendaTime | None:
    """The time of a question for nothing else; None of another question."""
    time = question.time
    if time is None or time.begin is None or time.until is None or not question.for_agenda:
        return None
    text = interval_text(time, question.filter.now)
    return AgendaTime(time.begin, time.until, time.weekdays, text, question.for_agenda)


def _time_view(context: RecallContext) -> QuestionTimeView | None:
    """The time that the question was read to name, and how many memories lie in it."""
    timed = context.timed
    if timed is None:
        return None
    time, hits, of = timed.time, context.page.hits, len(timed.inside)
    first = timed.when(timed.ordered[0]) if timed.time.order and hits and len(timed.ordered) else None
    within = sum(hit.is_inside is True for hit in hits)
    if time.is_told and not within:
        return None
    text = time_text(time, of, (timed.before, timed.after), first, context.question.filter.now)
    return QuestionTimeView(
        time.begin, time.until, time.words, time.order, within, of, timed.before, timed.after, text
    )  # fmt: skip


class QueryExpansion:
    """Widens a question; it costs one more search, without phrasings only where the first came to nothing."""

    def __init__(self, store: Store, views: Views, retrieval: CandidateRetrieval, inputs: RankingInputs) -> None:
        self._store = store
        self._views = views
        self._retrieval = retrieval
        self._inputs = inputs

    def expand(self, context: RecallContext) -> None:
        """Take the candidates that the added words find, where expansion is requested and they are better."""
        question, serving, before = context.question, context.serving, context.scored.relevance
        hits: list[int] = []
        if question.phrasings:
            names, words = list(question.phrasings), added_words(question.phrasings, question.query)
        elif (
            question.expand == "false"
            or serving is None
            or context.timed is not None
            or not query_expansion.is_due(before)
        ):
            return
        else:
            hits = [int(context.found.numbers[row]) for row in context.rows[:HITS_MAX]]
            tokenizer = self._views.lexical.tokenizer
            with self._store.snapshot() as snapshot:
                memories = [context.corpus.memory(snapshot, number) for number in hits]
            texts = [memory.content for memory in memories if memory is not None]
            found = [
                [ExpansionWord(each.term, text[each.start : each.end]) for each in tokenizer.tokens(text)]
                for text in texts
            ]
            names = query_expansion.expansion_terms(tokenizer.query_terms(context.question.query), found, self._rarity)
            words = " ".join(names)
        if not words:
            return
        wider = RecallContext(question, context.corpus, StageTimer(), serving, timed=context.timed)
        self._retrieval.search(wider, words=words)
        wider.request = context.request
        is_hit = np.isin(wider.found.numbers, np.array(hits, np.uint32))
        weights = np.where(is_hit, 0.0, wider.found.words * WORDS_FACTOR).astype(np.float32)
        wider.found = wider.found._replace(  # ranked by the query, and without the hits that the words are from
            words=weights, from_words=wider.found.from_words & ~is_hit, terms=context.found.terms
        )
        self._inputs.set_candidates(wider, joins=False)
        wider.rank()
        context.timer.mark("expand")
        if query_expansion.is_improvement(before, wider.scored.relevance[wider.found.from_words]):
            context.found, context.learned, context.candidates = wider.found, wider.learned, wider.candidates
            context.scored, context.rows, context.expansion_terms = wider.scored, wider.rows, tuple(names)
            if question.phrasings and question.sort == "score":
                # First those that the phrasings found and that fit better than everything before: the ranker goes by
                # the words of the question, of which they may have none.
                fit, from_words, most = wider.scored.relevance, wider.found.from_words, float(before.max(initial=0.0))
                better = [row for row in wider.rows if from_words[row] and WORDS_FACTOR * float(fit[row]) > most]
                better.sort(key=lambda row: -float(fit[row]))
                context.rows = list(dict.fromkeys((*better, *wider.rows)))

    def _rarity(self, term: str) -> float:
        held, memories = self._views.lexical.document_frequency(term), len(self._views.lexical)
        return math.log1p((memories - held + 0.5) / (held + 0.5)) if held >= HELD_MIN else 0.0


def group_by_note(context: RecallContext) -> None:
    """Leave the first candidate of each file in `rows`, and count the others by the number of the one that is left. A
    memory that is in no file stands for itself."""
    numbers = context.found.numbers[context.rows]
    files = context.corpus.files(numbers)
    first: dict[int, int] = {}  # by file, its best candidate
    rows: list[int] = []
    for row, number, file in zip(context.rows, numbers.tolist(), files.tolist(), strict=True):
        best = first.setdefault(file, number) if file else number
        if best == number:
            rows.append(row)
        else:
            context.grouped_counts[best] = context.grouped_counts.get(best, 0) + 1
    context.rows = rows


class UsageRecorder:
    """The memories that were recalled, written together a little later. A failure loses no more than a count."""

    def __init__(self, memories: MemoryService) -> None:
        self._memories = memories
        self._ids: dict[str, int] = {}  # the last change (ms) of what a person recalled; 0: an agent recalled it
        self._lock = threading.Lock()
        self._since = 0.0

    def record(self, hits: Sequence[Hit], *, by_person: bool = False) -> None:
        """Note the hits that fit well enough as recalled."""
        found = [hit.details.memory for hit in hits if hit.relevance > RELEVANCE_MIN]
        seen = {memory.id: memory.modified_at for memory in found} if by_person else {}
        self.record_ids((memory.id for memory in found), seen)

    def record_ids(self, memory_ids: Iterable[str], seen: Mapping[str, int] = MappingProxyType({})) -> None:
        """Note memories as recalled. seen: the last changes of those that a person recalled."""
        with self._lock:
            if not self._ids:
                self._since = time.monotonic()
            self._ids.update({each: seen.get(each) or self._ids.get(each, 0) for each in memory_ids})

    def is_due(self) -> bool:
        """True if something has waited for WRITE_SECONDS."""
        return bool(self._ids) and time.monotonic() - self._since >= WRITE_SECONDS

    def write(self) -> None:
        """Hand what has gathered to the store."""
        with self._lock:
            ids, self._ids = self._ids, {}
        for some in batched(list(ids.items()), PENDING_MAX):
            try:
                self._memories.record_use([each for each, _ in some], dict(some))
            except StoreError as error:
                log.info("touches were not written: %s", error)


KEPT_MAX = 20_000  # showings of all memories together; an answer has one for each of its memories
KEPT_MS = 90 * 86_400_000
WAITING_MAX = 500  # answers; the oldest of more are not recorded
DROPPED_MAX = 1000  # old showings that one write removes
SESSION_CHARS_MAX = 128


class _PendingAnswer(NamedTuple):
    """An answer that is not written yet. ids: of its memories, by their rank."""

    at: int
    operation: str
    by: str
    session_id: str
    ids: tuple[str, ...]


class ShownRecorder:
    """The record. A failure or a crash loses no more than the last answers. Any thread may call it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting = deque[_PendingAnswer](maxlen=WAITING_MAX)
        self._lock = threading.Lock()
        self._since = 0.0

    def record(self, operation: str, by: str, session_id: str, ids: Sequence[str]) -> None:
        """Note an answer to be written. ids: of its memories, best first; none: there is nothing to note."""
        if not ids:
            return
        answer = _PendingAnswer(
            self._store.now(), operation, by, session_id[:SESSION_CHARS_MAX], tuple(dict.fromkeys(ids))
        )
        with self._lock:
            if not self._waiting:
                self._since = time.monotonic()
            self._waiting.append(answer)

    def is_due(self) -> bool:
        """Return whether an answer has waited for WRITE_SECONDS."""
        return bool(self._waiting) and time.monotonic() - self._since >= WRITE_SECONDS

    def write(self) -> None:
        """Hand the answers that have gathered to the store, and remove what is kept no longer."""
        with self._lock:
            answers = list(self._waiting)
            self._waiting.clear()
        ids = [self._store.new_id() for _ in answers]

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            showings = [
                Showing(
                    id=answer_id, memory=memory_id, at=each.at, operation=each.operation, by=each.by,
                    session_id=each.session_id, rank=rank,
                )
                for answer_id, each in zip(ids, answers, strict=True)
                for rank, memory_id in enumerate(each.ids, start=1)
                if snapshot.memory(memory_id) is not None  # it may have been erased meanwhile
            ]  # fmt: skip
            made: list[Change] = [PutShowing(data=each) for each in showings]
            return WriteResult([*made, *_outdated(snapshot, len(showings))], None, SHOWN)

        try:
            if answers:
                self._store.transact(decide, by=BY_SHOWN.name, background=True)
        except StoreError as error:
            log.info("what was handed out was not written down: %s", error)

    def of_memory(self, memory_id: str) -> list[Showing]:
        """Return the answers in which a memory was handed out, the latest first, as far as they are kept."""
        with self._store.snapshot() as snapshot:
            found = [each for each in snapshot.under(SHOWINGS, memory_id) if not _is_old(each, snapshot.now)]
        return sorted(found, key=lambda each: each.id, reverse=True)


def _outdated(snapshot: Snapshot, added: int) -> list[Change]:
    """The changes that remove the oldest showings beyond KEPT_MAX, and those that are older than KEPT_MS."""
    excess = snapshot.size(SHOWINGS) // len(SHOWINGS.keys) + added - KEPT_MAX
    first = snapshot.scan(SHOWINGS, limit=1)
    if excess <= 0 and not (first and _is_old(first[0], snapshot.now)):
        return []
    oldest = snapshot.scan(SHOWINGS, limit=DROPPED_MAX)  # in the order of their times
    return [
        DropShowing(id=each.id, memory=each.memory)
        for place, each in enumerate(oldest)
        if place < excess or _is_old(each, snapshot.now)
    ]


def _is_old(showing: Showing, now: int) -> bool:
    return showing.at < now - KEPT_MS
