"""The one path behind the doors: embedded, compared, scored, routed, written. SPEC 5

What comes in is looked at on threads; the loop only waits. A text's vectors are waited for as long as `embed_wait_ms`
says, and what is not there by then is written without: near check and score follow once the vectors are there (`Late`).
Vectors go on to the indexing (`Handed`), so that no text is embedded twice. What is near is looked for outside of the
write turn, in the vector view, in what was written a moment ago and is not in the view yet, and in the batch itself.
"""

import asyncio
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest import scoring, write_plan
from mnemo_core.ingest.classification import Classification, Role
from mnemo_core.ingest.echo_filter import HandoutLog, strip_echoes
from mnemo_core.ingest.fact_extraction import Triple, extract_statements
from mnemo_core.ingest.mutations import Decision, Draft
from mnemo_core.ingest.policies import EntryPoint, IngestPolicy
from mnemo_core.ingest.signals.noise_filter import reject_reason
from mnemo_core.ingest.signals.salience import Rarity, Salience
from mnemo_core.ingest.write_plan import NEW_ID_PREFIX, Dedup, IngestItem
from mnemo_core.text.dates.time_mentions import find_event_time
from mnemo_daemon.errors import Refusal, refusal_of
from mnemo_daemon.indexing.vectors.centroids import Scope
from mnemo_daemon.indexing.vectors.embedding_handoff import Rows
from mnemo_daemon.indexing.vectors.index_phases import ActiveIndex
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.ingest.neighbour_search import NeighbourQuery, NeighbourSearch
from mnemo_daemon.memories.memory_service import INGESTED_PER_WRITE, Caller, MemoryService
from mnemo_daemon.models.embedding import EmbeddingService
from mnemo_daemon.priority import never_yield
from mnemo_daemon.settings import Settings
from mnemo_daemon.times import utc_offset
from mnemo_store.batches import batched
from mnemo_store.errors import StoreError
from mnemo_store.records import text_hash
from mnemo_store.store import Store

T = TypeVar("T")

THREADS = 1  # that look at what came in: Python runs one at a time, and a question waits for each of the others
BULK_THREADS = 1  # the same for what came in by the hundred, which must not hold up a single one
EMBEDDING_THREADS = 2
BULK_FROM = 16  # texts; so many are embedded by the background threads, and the rest at once
SCORED_TOGETHER = 64  # texts of a batch: they are judged and written while the model has those behind them
SLICES_AHEAD = 8  # on their way to the disk
WORDS_KNOWN_MIN = 200  # memories from which on the word index can tell what is rare
RARE_WORDS_KEPT = 50_000

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


class IngestResult(NamedTuple):
    """The result of a submission. `triples` are those of the statements it was split into, in their order."""

    submission: Submission
    item: IngestItem
    decision: Decision
    triples: tuple[Triple | None, ...] = ()


@dataclass
class _IngestContext:
    """One text on its way through the pipeline: each stage fills in what it finds out. `parts` are its statements."""

    submission: Submission
    digest: bytes  # of the content, under which its vectors are kept
    item: IngestItem
    salience: Salience
    route: Classification
    event_at: int | None
    parts: tuple["_IngestContext", ...] = ()
    triples: tuple[Triple | None, ...] = ()
    rows: Rows | None = None  # its vectors, once they are there


class _PendingVectors(NamedTuple):
    """Vectors that are being computed: `of` has those of each text by its hash; `ours` are computed for this batch, in
    their order."""

    serving: ActiveIndex
    of: Mapping[bytes, "Future[Rows | None]"]
    ours: Mapping[bytes, int]
    centroids: dict[Scope, NDArray[np.float32] | None]  # as they were at first, so that one measure holds for a batch


class IngestPipeline:
    """The service. `ingest` is for the loop; `record_shown` and `record_echoes` are for whoever hands memories out."""

    def __init__(
        self,
        store: Store,
        views: Views,
        indexing: VectorIndexer,
        embedding: EmbeddingService,
        memories: MemoryService,
        neighbours: NeighbourSearch,
        settings: Callable[[], Settings],
        give_way: Callable[[], None] = never_yield,
    ) -> None:
        """give_way: waits for whoever goes before what comes in."""
        self.neighbours = neighbours
        self._store = store
        self._views = views
        self._indexing = indexing
        self._embedding = embedding
        self._memories = memories
        self._settings = settings
        self._yield_to_queries = give_way
        self._threads = ThreadPoolExecutor(THREADS, "mnemo-intake")
        self._bulk = ThreadPoolExecutor(BULK_THREADS, "mnemo-bulk")
        self._embedders = ThreadPoolExecutor(EMBEDDING_THREADS, "mnemo-door")
        self._lock = threading.Lock()
        self._shown = HandoutLog()
        self._rarities: tuple[int, dict[str, float]] = (0, {})

    def close(self) -> None:
        """Ends the threads; what is being embedded ends with the embedding service."""
        self._embedders.shutdown(wait=False, cancel_futures=True)
        for threads in (self._threads, self._bulk):
            threads.shutdown(wait=True, cancel_futures=True)

    # Echo

    def record_shown(self, session: str, memories: Sequence[tuple[str, str]]) -> None:
        """These (id, content) were handed out in the session ("": to nobody in particular). SPEC 5.5a"""
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
        """Nothing is kept of what was handed out and of what came in."""
        self.neighbours.clear_caches()
        with self._lock:
            self._shown, self._rarities = HandoutLog(), (0, {})

    def profile(self, namespace: str) -> IngestPolicy:
        """The policy by which the namespace takes in texts. SPEC 15"""
        return self._settings().profile_of(namespace)

    def should_infer(self, asked: Submission) -> bool:
        """Return whether a text is split into statements: where the request asks for it, or the policy does so.
        SPEC 5.6"""
        return self.profile(asked.draft.namespace).infer if asked.infer is None else asked.infer

    async def run_on_thread(self, texts: int, function: Callable[..., T], *arguments: Any) -> T:
        """Runs it on a thread, behind others of its size, after the questions."""

        def run() -> T:
            self._yield_to_queries()
            return function(*arguments)

        threads = self._bulk if texts >= BULK_FROM else self._threads
        return await asyncio.get_running_loop().run_in_executor(threads, run)

    # The path

    async def ingest(
        self, asked: Sequence[Submission], caller: Caller, group: str = ""
    ) -> list[IngestResult | Refusal]:
        """The result of each submission, in order, once it is durable. A refusal of one stops no other.

        With a group everything is written under it, INGESTED_PER_WRITE memories in a write turn.
        """
        size = len(asked)
        embedding, looked = await self.run_on_thread(size, self._analyse, asked, caller)
        took: list[IngestResult | Refusal] = []
        for some in batched(looked, SCORED_TOGETHER):  # the first are written while the model has the last
            if embedding is not None:
                await self._wait(embedding, some)
            took += await self._ingest_slice(size, some, embedding, caller, group)
        return took

    async def _ingest_slice(
        self, size: int, looked: Sequence["_IngestContext | Refusal"], embedding: "_PendingVectors | None",
        caller: Caller,
        group: str,
    ) -> list[IngestResult | Refusal]:  # fmt: skip
        """Judged and written, some of a batch of that size."""
        judged = await self.run_on_thread(size, self._score_batch, looked, embedding, caller)
        items = [(place, each) for place, each in enumerate(judged) if isinstance(each, IngestItem)]
        decided = await self._write([item for _, item in items], caller, group)
        by_place = dict(zip((place for place, _ in items), decided, strict=True))
        took: list[IngestResult | Refusal] = []
        for place, (each, found) in enumerate(zip(judged, looked, strict=True)):
            decision = by_place.get(place)
            if isinstance(decision, Decision) and isinstance(each, IngestItem) and isinstance(found, _IngestContext):
                took.append(IngestResult(found.submission, each, decision, found.triples))
            else:
                took.append(decision if isinstance(decision, Refusal) else each)  # type: ignore[arg-type]
        await self.run_on_thread(size, self._record_written, looked, took, embedding)
        return took

    def record_echoes(self, session: str, ids: Sequence[str]) -> None:
        """Count memories whose text came back as recalled, once for each session and memory. SPEC 5.5a"""
        with self._lock:
            new = self._shown.first_returns(session, ids)
        if new:
            self._memories.record_use(new)

    async def _write(self, items: Sequence[IngestItem], caller: Caller, group: str) -> list[Decision | Refusal]:
        if len(items) == 1 and not group:
            group = "" if items[0].is_seen else self._store.new_id()  # what comes later is undone with it
            return [(await asyncio.wrap_future(self._memories.write_one(items[0], caller, group))).result]
        made: dict[str, str] = {}
        ahead: list[tuple[int, asyncio.Future[Any] | StoreError]] = []
        settled: list[Decision | Refusal] = []
        for some in _slices(items):
            if len(ahead) == SLICES_AHEAD:
                settled += await _slice_results(*ahead.pop(0))
            try:
                future = self._memories.write_slice(some, caller, group, made)
            except StoreError as error:
                ahead.append((len(some), error))
            else:
                ahead.append((len(some), asyncio.wrap_future(future)))
        for length, written in ahead:
            settled += await _slice_results(length, written)
        return settled

    # By itself

    def _analyse(
        self, asked: Sequence[Submission], caller: Caller
    ) -> tuple[_PendingVectors | None, list["_IngestContext | Refusal"]]:
        """Begins to embed, and looks at each text meanwhile."""
        split = [self._with_statements(each) for each in asked]
        texts = {digest: part.draft.content for each, digest, parts in split
                 if not _reject_reason(self._profile(each), each)
                 for part, digest in ((each, digest), *((part, digest) for part, digest, _ in parts))}  # fmt: skip
        embedding = self._begin_to_embed(texts)
        rarity = self._rarity()
        looked: list[_IngestContext | Refusal] = []
        for each, digest, parts in split:
            self._yield_to_queries()
            try:
                draft = self._memories.resolved(each.draft, caller)
            except Refusal as refusal:
                looked.append(refusal)
                continue
            whole = self._analyse_one(each._replace(draft=draft), digest, rarity)
            whole.parts = tuple(self._analyse_one(part, digest, rarity) for part, digest, _ in parts)
            whole.triples = tuple(triple for _, _, triple in parts)
            looked.append(whole)
        return embedding, looked

    def _profile(self, asked: Submission) -> IngestPolicy:
        return write_plan.policy_for(self.profile(asked.draft.namespace), asked.dedup)

    def _with_statements(
        self, asked: Submission
    ) -> tuple[Submission, bytes, list[tuple[Submission, bytes, Triple | None]]]:
        """A submission with the hash of its text, and the statements it is split into, where that is asked for.
        SPEC 5.6"""
        whole = text_hash(asked.draft.content)
        if not self.should_infer(asked):
            return asked, whole, []
        draft = asked.draft._replace(
            source="extract", method="rule", kind=None, form=None, category=None, importance=None, key="",
            supersedes=(), derived_from=(), pinned=False, trace=None, turn=None,
        )  # fmt: skip
        found = [(each, text_hash(each.text)) for each in extract_statements(asked.draft.content, asked.draft.speaker)]
        return (
            asked,
            whole,
            [
                (Submission(draft._replace(content=each.text), dedup=asked.dedup), digest, each.triple)
                for each, digest in found
                if digest != whole
            ],
        )

    def _analyse_one(self, asked: Submission, digest: bytes, rarity: Rarity | None) -> _IngestContext:
        draft, profile = asked.draft, self._profile(asked)
        said_at = draft.event_at if draft.event_at is not None else self._store.now()
        discarded = _reject_reason(profile, asked)
        item = IngestItem(
            draft,
            asked.entry_point,
            profile,
            discard_reason=discarded,
            said_at=draft.event_at,
            is_explained=asked.explain,
        )
        self.neighbours.prefetch_claims(item)
        told_at = find_event_time(draft.content, said_at, utc_offset) if draft.event_at is None or draft.turn else None
        salience = scoring.salience_of(draft.content, profile, rarity)
        return _IngestContext(
            asked,
            digest,
            item,
            salience,
            scoring.classify_draft(draft, asked.entry_point, profile, asked.role),
            told_at,
        )

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
            for word in asked:
                if word not in kept:
                    terms = words.tokenizer.query_terms(word)
                    held = min((words.document_frequency(term) for term in terms), default=known)
                    kept[word] = 1.0 - math.log1p(held) / math.log1p(known)
            return [kept[word] for word in asked]

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
        encode = self._embedding.encode_on_this_thread if len(some) < BULK_FROM else self._embedding.encode_each
        found = encode(embedder, some)
        for digest, (rows, codes) in zip(texts, found, strict=True):
            self._indexing.handoff.add_tokens(embedder.space, digest, codes)
            halves = rows.astype(np.float16)
            futures[digest].set_result(halves if np.isfinite(halves).all() else None)

    async def _wait(self, embedding: _PendingVectors, looked: Sequence["_IngestContext | Refusal"]) -> None:
        """Until their vectors are there, or as long as is allowed for so many texts."""
        digests = {each.digest for each in _texts(looked)} & embedding.of.keys()
        ours = sorted(digests & embedding.ours.keys(), key=embedding.ours.__getitem__)
        last = ours[-1:]  # once it is there, all before it are
        waits = [future for digest in (digests - embedding.ours.keys()).union(last)
                 if not (future := embedding.of[digest]).done()]  # fmt: skip
        if waits:
            seconds = self._settings().intake.embed_wait_ms / 1000 * max(1, len(ours))
            await asyncio.wait([asyncio.wrap_future(future) for future in waits], timeout=seconds)

    # Compared, scored, routed

    def _score_batch(
        self, looked: Sequence["_IngestContext | Refusal"], embedding: _PendingVectors | None, caller: Caller
    ) -> list[IngestItem | Refusal]:
        _take_vectors(embedding, looked)
        serving = embedding.serving if embedding is not None else None
        wanted = [NeighbourQuery(place, each.item, each.rows) for place, each in enumerate(looked)
                  if isinstance(each, _IngestContext)]  # fmt: skip
        near = self.neighbours.search_batch(wanted, serving, caller)
        judged: list[IngestItem | Refusal] = []
        for place, each in enumerate(looked):
            if isinstance(each, Refusal):
                judged.append(each)
                continue
            self._yield_to_queries()
            item = self._scored(each, embedding)
            item = self.neighbours.with_relations(item, near.get(place, ()), serving)
            parts = []
            for part in each.parts:
                new = self._scored(part, embedding)
                single = NeighbourQuery(place, part.item, part.rows)
                found = self.neighbours.search_batch([single], serving, caller)
                parts.append(self.neighbours.with_relations(new, found.get(place, ()), serving))
            kept = tuple(parts) if not item.discard_reason else ()
            judged.append(item._replace(name=f"{NEW_ID_PREFIX}{place}", parts=kept))
        return judged

    def _scored(self, looked: _IngestContext, embedding: _PendingVectors | None) -> IngestItem:
        """The item, scored and classified."""
        item, draft, rows = looked.item, looked.item.draft, looked.rows
        is_seen = rows is not None and embedding is not None and not embedding.serving.centroids.uncounted
        centroid = None
        if is_seen and embedding is not None:
            centroid = _centroid(embedding, Scope(draft.user_id, draft.namespace))
        scores = scoring.score(draft.content, item.policy, rows, centroid, looked.salience)
        return scoring.apply_scores(item, looked.route, scores, looked.event_at)._replace(is_seen=is_seen)

    def _record_written(
        self,
        looked: Sequence["_IngestContext | Refusal"],
        took: Sequence[IngestResult | Refusal],
        embedding: _PendingVectors | None,
    ) -> None:
        """Keeps the new vectors until the view has them."""
        _take_vectors(embedding, looked)
        rows = {each.item.draft.content: each.rows for each in _texts(looked)}
        space = embedding.serving.embedder.space if embedding is not None else ""
        for each in took:
            if isinstance(each, IngestResult):
                for decision in (each.decision, *each.decision.parts):
                    if decision is not None and decision.outcome in ("stored", "repeats"):
                        content = decision.memory.content
                        self.neighbours.record_written(decision.memory, rows.get(content), space)


def _reject_reason(profile: IngestPolicy, asked: Submission) -> str:
    """The reason why a turn is not worth keeping, "" where it is. SPEC 5.7"""
    return (reject_reason(asked.draft.content) or "") if asked.entry_point == "turn" and profile.filters_turns else ""


def _texts(looked: Sequence["_IngestContext | Refusal"]) -> Iterator[_IngestContext]:
    """All texts, statements included."""
    for each in looked:
        if isinstance(each, _IngestContext):
            yield each
            yield from each.parts


def _take_vectors(embedding: _PendingVectors | None, looked: Sequence["_IngestContext | Refusal"]) -> None:
    """Fill in the vectors that are there by now."""
    for each in _texts(looked) if embedding is not None else ():
        future = embedding.of.get(each.digest) if embedding is not None and each.rows is None else None
        if future is not None and future.done() and not future.cancelled():
            each.rows = future.result()


def _centroid(embedding: _PendingVectors, scope: Scope) -> NDArray[np.float32] | None:
    if scope not in embedding.centroids:
        embedding.centroids[scope] = embedding.serving.centroids.centroid(scope)
    return embedding.centroids[scope]


def _cancel_rest(job: "Future[None]", futures: Mapping[bytes, "Future[Rows | None]"]) -> None:
    """Nobody waits for vectors that will not come."""
    if not job.cancelled() and (error := job.exception()) is not None:
        log.warning("a text could not be embedded, and is compared by words: %s", error)
    for future in futures.values():
        if not future.done():
            future.set_result(None)


def _slices(items: Sequence[IngestItem]) -> Iterator[list[IngestItem]]:
    """The items in runs of at most INGESTED_PER_WRITE memories, statements included; one alone may have more."""
    some, size = list[IngestItem](), 0
    for item in items:
        weight = 1 + len(item.parts)
        if some and size + weight > INGESTED_PER_WRITE:
            yield some
            some, size = [], 0
        some.append(item)
        size += weight
    if some:
        yield some


async def _slice_results(length: int, written: "asyncio.Future[Any] | StoreError") -> list[Decision | Refusal]:
    """The decisions of a slice; where it failed, a refusal for each item."""
    try:
        if isinstance(written, StoreError):
            raise written
        decided: list[Decision | Refusal] = (await written).result
    except StoreError as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        return [refusal] * length
    return decided
