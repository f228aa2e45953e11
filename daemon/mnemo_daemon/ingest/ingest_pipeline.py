"""Ingestion pipeline shared by all entry points: embed, search neighbours, score, classify, write. SPEC 5

Texts are analysed on threads; the event loop only waits. A text's vectors are waited for as long as `embed_wait_ms`
says. What has none by then is written without, and is compared and scored once its vectors are there
(`ScoringBackfill`). New vectors are handed to the indexer (`EmbeddingHandoff`), so that no text is embedded twice.
Neighbours are searched outside of the write turn: in the vector index, among recent writes that it does not have yet,
and in the batch itself.
"""

import asyncio
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest import write_plan
from mnemo_core.ingest.classification import Classification, Role
from mnemo_core.ingest.echo_filter import HandoutLog, strip_echoes
from mnemo_core.ingest.mutations import Decision, Draft
from mnemo_core.ingest.policies import EntryPoint, Policy
from mnemo_core.ingest.signals.noise_filter import reject_reason
from mnemo_core.ingest.signals.salience import Rarity, Salience
from mnemo_core.ingest.write_plan import NEW_ID_PREFIX, Dedup, IngestItem, StatedFact
from mnemo_core.text.dates.time_mentions import find_event_time
from mnemo_daemon.errors import Refusal, refusal_of
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex, Scope
from mnemo_daemon.indexing.vectors.text_vectors import Rows
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.ingest.neighbour_search import NeighbourQuery, NeighbourSearch
from mnemo_daemon.memories.memory_service import COPY_LOST, INGESTED_PER_WRITE, Caller, MemoryService, stated_facts
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.priority import never_yield
from mnemo_daemon.settings import Settings
from mnemo_daemon.times import utc_offset
from mnemo_store.batches import batched
from mnemo_store.errors import StoreError
from mnemo_store.record_texts import text_hash
from mnemo_store.store import Store, TextVectors, WriteReceipt

T = TypeVar("T")

THREADS = 1  # that analyse texts: Python runs one at a time, and a question waits for each of the others
BULK_THREADS = 1  # the same for large batches, which must not hold up a single text
EMBEDDING_THREADS = 2
BULK_FROM = 16  # texts; so many are embedded by the background threads, fewer on the calling thread
SCORED_TOGETHER = 64  # texts of a batch that are scored and written while the model embeds those after them
SLICES_AHEAD = 8  # write turns that are waiting for the disk
WORDS_KNOWN_MIN = 200  # memories from which on the word index can tell what is rare
RARE_WORDS_KEPT = 50_000
RARE_WORD_CHARS_MAX = 40  # longer ones hardly occur twice
MERGED_MAX = 100  # results; beyond it, of the oldest only the longer text stays

log = logging.getLogger("mnemo.intake")


class Submission(NamedTuple):
    """A text to be ingested, cleaned and masked."""

    draft: Draft
    entry_point: EntryPoint = "remember"
    role: Role = ""
    dedup: Dedup | None = None
    infer: bool | None = None
    masked: tuple[str, ...] = ()
    explain: bool = False
    said_at: int | None = None  # ms; None: at its event_at, or now
    facts: tuple[StatedFact, ...] | None = None  # that it states; None: those that its text is found to state


class IngestResult(NamedTuple):
    """The result of a submission."""

    submission: Submission
    item: IngestItem
    decision: Decision
    seq: int = 0  # of the change that wrote it; 0: nothing was changed


class _TextFindings(NamedTuple):
    """The part of a text's scores that needs no vectors."""

    salience: Salience
    route: Classification
    event_at: int | None


@dataclass
class _IngestContext:
    """One text on its way through the pipeline; each stage fills in its result."""

    submission: Submission
    digest: bytes  # of the content; the key of its vectors
    item: IngestItem
    analysis: _TextFindings | None = None  # None too where a copy of the text is stored
    rows: Rows | None = None  # its vectors, once they are there
    outcome: Decision | Refusal | None = None  # None: not written yet, or left out
    seq: int = 0

    def result(self) -> IngestResult | Refusal:
        """The result of the finished pipeline."""
        assert self.outcome is not None, "every text is written or refused"
        if isinstance(self.outcome, Refusal):
            return self.outcome
        return IngestResult(self.submission, self.item, self.outcome, self.seq)


class _PendingVectors(NamedTuple):
    """Vectors that are being computed: `of` has those of each text by its hash, `ours` the place of each text that is
    embedded for this batch."""

    serving: ActiveIndex
    of: Mapping[bytes, "Future[Rows | None]"]
    ours: Mapping[bytes, int]
    centroids: dict[Scope, NDArray[np.float32] | None]  # one for the whole batch


class IngestPipeline:
    """The service. `ingest` runs on the event loop; the other methods may be called on any thread."""

    def __init__(
        self,
        store: Store,
        views: Views,
        indexing: VectorIndexer,
        embedding: EmbeddingService,
        memories: MemoryService,
        neighbours: NeighbourSearch,
        settings: Callable[[], Settings],
        yield_to_queries: Callable[[], None] = never_yield,
    ) -> None:
        self.neighbours = neighbours
        self._store = store
        self._views = views
        self._indexing = indexing
        self._embedding = embedding
        self._memories = memories
        self._settings = settings
        self._yield_to_queries = yield_to_queries
        self._threads = ThreadPoolExecutor(THREADS, "mnemo-intake")
        self._bulk = ThreadPoolExecutor(BULK_THREADS, "mnemo-bulk")
        self._embedders = ThreadPoolExecutor(EMBEDDING_THREADS, "mnemo-embed")
        self._lock = threading.Lock()
        self._shown = HandoutLog()
        self.shown_since = store.now()  # ms; what was said before then repeats nothing that was shown
        self._rarities: tuple[int, dict[str, float]] = (0, {})
        self.merged = deque[IngestResult](maxlen=MERGED_MAX)  # texts of which a language model may write one

    def close(self) -> None:
        """End the threads; the embedding service ends what is being embedded."""
        self._embedders.shutdown(wait=False, cancel_futures=True)
        for threads in (self._threads, self._bulk):
            threads.shutdown(wait=True, cancel_futures=True)

    # Echo

    def record_shown(self, session: str, memories: Sequence[tuple[str, str]]) -> None:
        """Record memories (id, content) that were shown in a session ("": none). SPEC 5.5a"""
        with self._lock:
            for memory_id, content in memories:
                self._shown.record(session, memory_id, content)

    def without_echo(self, text: str, session: str) -> tuple[str, tuple[str, ...]]:
        """The text without what was handed out, and the ids of what came back in it."""
        with self._lock:
            given = self._shown.handouts(session)
        echo = strip_echoes(text, given)
        return echo.rest, echo.ids

    def clear_caches(self) -> None:
        """Forget the texts that were shown and ingested."""
        self.neighbours.clear_caches()
        self.merged.clear()
        with self._lock:
            self._shown, self._rarities = HandoutLog(), (0, {})

    def profile(self, namespace: str) -> Policy:
        """The policy by which the namespace takes in texts. SPEC 15"""
        return self._settings().profile_of(namespace)

    def should_infer(self, asked: Submission) -> bool:
        """Return whether a text is split into statements: where the request asks for it, or the policy does so.
        SPEC 5.6"""
        return self.profile(asked.draft.namespace).infer if asked.infer is None else asked.infer

    async def run_on_thread(self, texts: int, function: Callable[..., T], *arguments: Any) -> T:
        """Run the function on the thread for so many texts, once no query is running."""

        def run() -> T:
            self._yield_to_queries()
            return function(*arguments)

        threads = self._bulk if texts >= BULK_FROM else self._threads
        return await asyncio.get_running_loop().run_in_executor(threads, run)

    # Stages

    async def ingest(
        self, asked: Sequence[Submission], caller: Caller, group: str = ""
    ) -> list[IngestResult | Refusal]:
        """The result of each submission, in order, once it is durable. A refusal of one does not stop the others.

        With a group everything is written under it, INGESTED_PER_WRITE memories in a write turn.
        """
        return [each.result() for each in await self._ingested(asked, caller, group)]

    async def _ingested(
        self, asked: Sequence[Submission], caller: Caller, group: str, *, finds_repeats: bool = True
    ) -> list[_IngestContext]:
        size = len(asked)
        embedding, contexts = await self.run_on_thread(size, self._analyse, asked, caller, finds_repeats)
        for some in batched(contexts, SCORED_TOGETHER):  # the first are written while the model embeds the last
            if embedding is not None:
                waits, seconds = self._missing(embedding, some)
                if waits:
                    await asyncio.wait([asyncio.wrap_future(future) for future in waits], timeout=seconds)
            if any(each.analysis is not None for each in some):
                await self.run_on_thread(size, self._score, some, embedding, caller)
            accepted = [each for each in some if each.outcome is None]
            outcomes = await self._write(
                [each.item for each in accepted], caller, group, self._vectors(some, embedding)
            )
            for each, (outcome, seq) in zip(accepted, outcomes, strict=True):
                each.outcome, each.seq = outcome, seq
            self._record_written(some, embedding)
        lost = [place for place, each in enumerate(contexts)
                if isinstance(each.outcome, Refusal) and each.outcome.code == COPY_LOST]  # fmt: skip
        if lost:
            whole = await self._ingested([asked[each] for each in lost], caller, group, finds_repeats=False)
            for place, context in zip(lost, whole, strict=True):
                contexts[place] = context
        return contexts

    def ingest_on_this_thread(
        self,
        asked: Sequence[Submission],
        caller: Caller,
        write: Callable[[Sequence[IngestItem]], Sequence[Decision | None] | None],
    ) -> Sequence[Decision | None] | None:
        """Prepare texts like `ingest`, and have `write` write them; return its decisions: None for a text that it left
        out, None for all where it wrote nothing."""
        embedding, contexts = self._analyse(asked, caller, finds_repeats=False)
        if embedding is not None:
            waits, seconds = self._missing(embedding, contexts)
            wait(waits, timeout=seconds)
        self._score(contexts, embedding, caller)
        decisions = write([each.item for each in contexts])
        for each, decision in zip(contexts, decisions or (), strict=False):
            each.outcome = decision
        self._record_written(contexts, embedding)
        return decisions

    def record_echoes(self, session: str, ids: Sequence[str]) -> None:
        """Count memories whose text came back as recalled, once for each session and memory. SPEC 5.5a"""
        with self._lock:
            new = self._shown.first_returns(session, ids)
        if new:
            self._memories.record_use(new)

    async def _write(
        self, items: Sequence[IngestItem], caller: Caller, group: str, vectors: Mapping[str, Sequence[TextVectors]]
    ) -> list[tuple[Decision | Refusal, int]]:
        """Write the items, with the vectors of their texts by their names; return each outcome with the seq of its
        change."""
        if len(items) == 1 and not group:
            group = "" if items[0].is_seen else self._store.new_id()  # what comes later is undone with it
            try:
                kept = vectors.get(items[0].name, ())
                done = await asyncio.wrap_future(self._memories.write_one(items[0], caller, group, vectors=kept))
            except Refusal as refusal:
                if refusal.code != COPY_LOST:
                    raise
                return [(refusal, 0)]
            return [(done.result, done.seq)]
        made: dict[str, str] = {}
        ahead: list[tuple[int, asyncio.Future[Any] | StoreError]] = []
        settled: list[tuple[Decision | Refusal, int]] = []
        for some in batched(items, INGESTED_PER_WRITE):
            if len(ahead) == SLICES_AHEAD:
                settled += await _slice_results(*ahead.pop(0))
            try:
                future = self._memories.write_slice(some, caller, group, made, vectors=vectors)
            except StoreError as error:
                ahead.append((len(some), error))
            else:
                ahead.append((len(some), asyncio.wrap_future(future)))
        for length, written in ahead:
            settled += await _slice_results(length, written)
        return settled

    # Analysis

    def _analyse(
        self, asked: Sequence[Submission], caller: Caller, finds_repeats: bool
    ) -> tuple[_PendingVectors | None, list[_IngestContext]]:
        """Start to embed, and analyse each text meanwhile; with `finds_repeats`, no text of which a copy is stored."""
        contexts = [self._context_of(each) for each in asked]
        for each in contexts:
            try:
                each.item = each.item._replace(draft=self._memories.resolved(each.item.draft, caller))
            except Refusal as refusal:
                each.outcome = refusal
        accepted = [each for each in contexts if each.outcome is None]
        if finds_repeats:
            with self._store.snapshot() as snapshot:
                for each in accepted:
                    copy = None if each.submission.explain else self._memories.copy_before(snapshot, each.item, caller)
                    number = snapshot.number(copy.id) if copy is not None else None
                    if number is not None:
                        each.item = each.item._replace(is_repeat=True, is_seen=self._indexing.has_vector(number))
        new = [each for each in accepted if not each.item.is_repeat]
        texts = {each.digest: each.item.draft.content for each in new if not each.item.discard_reason}
        embedding = self._begin_to_embed(texts)
        rarity = self._rarity() if new else None
        for each in new:
            self._yield_to_queries()
            item, draft, role = each.item, each.item.draft, each.submission.role
            if each.submission.facts is None and not (item.is_extracted or item.discard_reason):
                each.item = item = item._replace(facts=stated_facts(draft.content, draft.speaker))
            self.neighbours.prefetch_claims(item)
            event_at = None
            if draft.event_at is None or draft.turn:
                said_at = item.said_at if item.said_at is not None else self._store.now()
                event_at = find_event_time(draft.content, said_at, utc_offset)
            salience = write_plan.salience_of(draft.content, item.policy, rarity)
            scored = write_plan.classify_draft(draft, item.entry_point, item.policy, role)
            each.analysis = _TextFindings(salience, scored, event_at)
        return embedding, contexts

    def _context_of(self, asked: Submission) -> _IngestContext:
        """The context of a submission."""
        draft = asked.draft
        policy = write_plan.policy_for(self.profile(draft.namespace), asked.dedup)
        is_filtered = asked.entry_point == "turn" and policy.filters_turns
        rejected = (reject_reason(draft.content) or "") if is_filtered else ""
        item = IngestItem(
            draft, asked.entry_point, policy, discard_reason=rejected, is_explained=asked.explain,
            said_at=draft.event_at if asked.said_at is None else asked.said_at,
            is_extracted=self.should_infer(asked), dedup=asked.dedup, facts=asked.facts or (),
        )  # fmt: skip
        return _IngestContext(asked, text_hash(draft.content), item)

    def _rarity(self) -> Rarity | None:
        """A function that gives the rarity of words among all memories; None while there are too few to tell."""
        words, known = self._views.lexical, len(self._views.lexical)
        if known < WORDS_KNOWN_MIN:
            return None
        counted_at, kept = self._rarities
        if not counted_at * 0.8 <= known <= counted_at * 1.25 or len(kept) > RARE_WORDS_KEPT:
            kept = {}
            self._rarities = (known, kept)

        def rarity(asked: Sequence[str]) -> list[float]:
            found: list[float] = []
            for word in asked:
                rare = kept.get(word)
                if rare is None:
                    terms = words.tokenizer.query_terms(word)
                    held = min((words.document_frequency(term) for term in terms), default=known)
                    rare = 1.0 - math.log1p(held) / math.log1p(known)
                    if len(word) <= RARE_WORD_CHARS_MAX:
                        kept[word] = rare
                found.append(rare)
            return found

        return rarity

    # Vectors

    def _begin_to_embed(self, texts: Mapping[bytes, str]) -> _PendingVectors | None:
        """Compute the vectors that are not stored yet, on other threads; None where there is no model to do so."""
        serving = self._indexing.serving()
        if serving is None or self._store.degraded or not texts:
            return None
        embedder, handed = serving.embedder, self._indexing.handoff
        known: dict[bytes, Future[Rows | None]] = {}
        with self._store.snapshot() as snapshot:
            for digest in texts:
                rows = snapshot.vectors(embedder.space, digest, embedder.dimensions)
                if rows is not None:
                    known[digest] = Future()
                    known[digest].set_result(rows)
        ours = handed.claim(embedder.space, [digest for digest in texts if digest not in known])
        others = {digest: future for digest in texts if digest not in known and digest not in ours
                  and (future := handed.find(embedder.space, digest)) is not None}  # fmt: skip
        if ours:
            job = self._embedders.submit(self._embed, serving, {digest: texts[digest] for digest in ours}, ours)
            job.add_done_callback(lambda job: _cancel_rest(job, ours))
        order = {digest: place for place, digest in enumerate(ours)}
        return _PendingVectors(serving, known | others | ours, order, {})

    def _embed(
        self, serving: ActiveIndex, texts: Mapping[bytes, str], futures: Mapping[bytes, "Future[Rows | None]"]
    ) -> None:
        embedder, some = serving.embedder, list(texts.values())
        found = self._embedding.encode_each(embedder, some, on_this_thread=len(some) < BULK_FROM)
        for digest, (rows, codes) in zip(texts, found, strict=True):
            halves = rows.astype(np.float16)
            self._indexing.handoff.add_rows(embedder.space, digest, halves, codes)
            futures[digest].set_result(halves if np.isfinite(halves).all() else None)

    def _missing(
        self, embedding: _PendingVectors, contexts: Sequence[_IngestContext]
    ) -> tuple[list["Future[Rows | None]"], float]:
        """The vectors that are still to come, and for how many seconds they may be waited for."""
        digests = {each.digest for each in contexts} & embedding.of.keys()
        ours = sorted(digests & embedding.ours.keys(), key=embedding.ours.__getitem__)
        last = ours[-1:]  # once it is there, all before it are
        waits = [future for digest in (digests - embedding.ours.keys()).union(last)
                 if not (future := embedding.of[digest]).done()]  # fmt: skip
        return waits, self._settings().intake.embed_wait_ms / 1000 * max(1, len(ours))

    def _vectors(
        self, contexts: Sequence[_IngestContext], embedding: _PendingVectors | None
    ) -> dict[str, list[TextVectors]]:
        """The new vectors of texts, and their token rows, by the names of the items: kept in the transaction that
        stores the text, they need none of their own."""
        found: dict[str, list[TextVectors]] = {}
        for each in contexts:
            if embedding is None or each.rows is None or each.digest not in embedding.ours or not each.item.name:
                continue
            embedder = embedding.serving.embedder
            found[each.item.name] = [TextVectors(embedder.space, each.digest, each.rows)]
            tokens = self._indexing.handoff.tokens(embedder.space, each.digest)
            if embedder.late is not None and tokens is not None:
                found[each.item.name].append(TextVectors(embedder.late.space, each.digest, embedder.late.pack(tokens)))
        return found

    # Scores

    def _score(self, contexts: Sequence[_IngestContext], embedding: _PendingVectors | None, caller: Caller) -> None:
        """Score, classify and relate every text."""
        _take_vectors(embedding, contexts)
        serving = embedding.serving if embedding is not None else None
        accepted = [(place, each) for place, each in enumerate(contexts) if each.outcome is None and each.analysis]
        near = self.neighbours.search_batch(
            [NeighbourQuery(place, each.item, each.rows) for place, each in accepted], serving, caller
        )
        for place, each in accepted:
            self._yield_to_queries()
            item, draft, rows, analysis = each.item, each.item.draft, each.rows, each.analysis
            assert analysis is not None, "others are not accepted"
            centroid, is_seen = None, False
            if rows is not None and embedding is not None and not embedding.serving.centroids.uncounted:
                scope = Scope(draft.user_id, draft.namespace)
                if scope not in embedding.centroids:
                    embedding.centroids[scope] = embedding.serving.centroids.centroid(scope)
                centroid, is_seen = embedding.centroids[scope], True
            scores = write_plan.score(draft.content, item.policy, rows, centroid, analysis.salience)
            scored = write_plan.apply_scores(item, analysis.route, scores, analysis.event_at)._replace(is_seen=is_seen)
            scored = self.neighbours.with_relations(scored, near.get(place, ()), serving)
            each.item = scored._replace(name=f"{NEW_ID_PREFIX}{place}")

    def _record_written(self, contexts: Sequence[_IngestContext], embedding: _PendingVectors | None) -> None:
        """Keep the new vectors for the neighbour search until the index has them."""
        if embedding is None:
            return
        _take_vectors(embedding, contexts)
        for each in contexts:
            decision = each.outcome
            if isinstance(decision, Decision) and decision.outcome in ("stored", "repeats"):
                self.neighbours.record_written(decision.memory, each.rows, embedding.serving.embedder.space)
            elif isinstance(decision, Decision) and decision.merged_texts:
                self.merged.append(IngestResult(each.submission, each.item, decision))


def _take_vectors(embedding: _PendingVectors | None, contexts: Sequence[_IngestContext]) -> None:
    """Fill in the vectors that are there by now."""
    if embedding is None:
        return
    for each in contexts:
        future = embedding.of.get(each.digest) if each.rows is None else None
        if future is not None and future.done() and not future.cancelled():
            each.rows = future.result()


def _cancel_rest(job: "Future[None]", futures: Mapping[bytes, "Future[Rows | None]"]) -> None:
    """Resolve the vectors that will not come, so that nobody waits for them."""
    if not job.cancelled() and (error := job.exception()) is not None:
        log.warning("a text could not be embedded, and is compared by words: %s", error)
    for future in futures.values():
        if not future.done():
            future.set_result(None)


async def _slice_results(
    length: int, written: "asyncio.Future[WriteReceipt[list[Decision | Refusal]]] | StoreError"
) -> list[tuple[Decision | Refusal, int]]:
    """The decisions of a slice with the seq of its change; where it failed, a refusal for each item."""
    try:
        if isinstance(written, StoreError):
            raise written
        done = await written
    except StoreError as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        return [(refusal, 0)] * length
    return [(each, done.seq) for each in done.result]
