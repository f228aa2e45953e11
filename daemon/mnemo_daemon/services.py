"""The services of the daemon by name, made in the order of their dependencies, for the API and the table of jobs.

Services that need no store exist from the beginning, the others once `wait_until_open` has returned.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from mnemo_client.protocol.maintenance import BackupAnswer
from mnemo_core.ingest.policies import OWN_POLICY, Policy
from mnemo_core.sessions.resume import ResumeTopic
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_core.transfer.import_plan import SecretPolicy
from mnemo_core.transfer.markdown_export import ExportedTopic
from mnemo_daemon.assistance.assisted_recall import AssistedRecall
from mnemo_daemon.assistance.extraction import InsertMerger, StatementExtraction
from mnemo_daemon.assistance.question_answering import AskedQuestions
from mnemo_daemon.errors import Refusal
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.ingest.ingest_pipeline import IngestPipeline
from mnemo_daemon.ingest.neighbour_search import NeighbourSearch
from mnemo_daemon.ingest.reassessment import ScoringBackfill
from mnemo_daemon.knowledge.fact_service import FactService
from mnemo_daemon.knowledge.memory_map import MemoryMap
from mnemo_daemon.knowledge.topic_graph import TopicGraph
from mnemo_daemon.knowledge.topic_nodes import TopicNodes
from mnemo_daemon.knowledge.topic_trees import TopicTrees
from mnemo_daemon.lifecycle.compression import Compression
from mnemo_daemon.lifecycle.consolidation import Consolidation, ReviewQueue
from mnemo_daemon.lifecycle.forecasts import Forecasts
from mnemo_daemon.lifecycle.memory_move import MemoryMoves
from mnemo_daemon.lifecycle.profile_service import Entries, ProfileService
from mnemo_daemon.maintenance.compaction_backup import StoreMaintenance
from mnemo_daemon.maintenance.daily_values import DailyValues
from mnemo_daemon.maintenance.erasure import Erasure
from mnemo_daemon.maintenance.trash import Expiry, Trash
from mnemo_daemon.memories.history import ChangeFeed
from mnemo_daemon.memories.memory_service import MemoryService
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue
from mnemo_daemon.models.cross_encoder import AnswerReader, CrossEncoderService
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.models.language.capability_probe import CapabilityProbe
from mnemo_daemon.models.language.language_model import LanguageModelService
from mnemo_daemon.models.language.task_runner import CallLog, TaskRunner
from mnemo_daemon.notes.notes_service import NotesService
from mnemo_daemon.priority import MachineLoad, QueryPriority
from mnemo_daemon.retrieval.recall import Recall, ShownRecorder, UsageRecorder
from mnemo_daemon.scheduler import OperationRegistry
from mnemo_daemon.server.request_metrics import RequestMetrics
from mnemo_daemon.sessions.resume import ResumeService
from mnemo_daemon.sessions.run_steps import RunService
from mnemo_daemon.sessions.session_service import SessionService
from mnemo_daemon.sessions.tiered_recall import TieredRecall
from mnemo_daemon.sessions.turn_review import TurnReview
from mnemo_daemon.sessions.turn_tiers import TurnTiers
from mnemo_daemon.settings import Configuration, Settings
from mnemo_daemon.sync.sync_service import SyncService
from mnemo_daemon.transfer.store_export import USER, MarkdownExport, NamespaceTopic
from mnemo_store.disk import Disk
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.progress import Progress, unreported
from mnemo_store.records import DEFAULT_NAMESPACE, PutMeta
from mnemo_store.store import Store, WriteResult

# The facts of the store that name the models a person chose, by role.
MODELS_IN_USE = {"embedding": "embedding_model", "llm": "language_model"}
INDEXES_SECONDS_MAX = 60.0  # how long the indexes are waited for when they are built for a store that was replaced
INDEXES_POLL_SECONDS = 0.02


class Services:
    """Every part by its name."""

    def __init__(
        self, configuration: Configuration, disk: Disk, open_store: Callable[..., Store],
        make_notes: Callable[..., NotesService],
    ) -> None:  # fmt: skip
        self.configuration = configuration
        self.disk = disk
        self.priority = QueryPriority()
        self.requests = RequestMetrics()
        self.operations = OperationRegistry()
        self.catalogue = ModelCatalogue(configuration.folders.models)
        models = configuration.settings.models
        self.embedding = EmbeddingService(
            self.catalogue, threads=models.threads, late=models.late_interaction,
            yield_to_queries=self.priority.yield_to_queries, numerics=models.numerics,
        )  # fmt: skip
        self.cross_encoder = CrossEncoderService(self.catalogue, models.reranker)
        self.answer_reader = CrossEncoderService(self.catalogue, DEFAULT_EMBEDDING, load=AnswerReader)
        self.language_model = LanguageModelService(self.catalogue, configuration.settings.llm)
        self.capability_probe = CapabilityProbe(
            self.language_model, lambda: self.settings.llm.probe, lambda: self.closing.is_set(), disk=disk
        )
        self.stopped = asyncio.Event()  # the daemon is to end, or ends
        self.closing = threading.Event()  # the same for threads that wait
        self.failure: Exception | None = None  # why the store could not be opened
        self.is_open = False
        self.has_settled = asyncio.Event()  # opened, or failed to
        self._machine = MachineLoad()
        self._loop = asyncio.get_running_loop()
        self._open_store = open_store
        self._make_notes = make_notes

    @property
    def settings(self) -> Settings:
        return self.configuration.settings

    async def wait_until_open(self) -> None:
        """Return once the store and the lexical index can be read. Raises a Refusal where they could not be opened."""
        if self.is_open and self.store.is_blocked:
            await asyncio.to_thread(self.store.wait_until_open)
        if not self.is_open:
            await self.has_settled.wait()
            if self.failure is not None:
                raise Refusal(503, "degraded", f"the store could not be opened: {self.failure}")

    def open(self) -> None:
        """Open the store and make everything that answers by words; nothing runs in the background yet."""
        store = self.store = self._open_store(self.configuration.folders.data, disk=self.disk)
        yield_to_queries = self.priority.yield_to_queries
        profile_of = self._profile_of
        self.mask_key = self._mask_key()  # under which masked secrets are hashed
        self.views = Views(store, self.disk)
        self.views.open()
        self.change_feed = ChangeFeed(store.seq)
        self.views.add_listener(self.change_feed.on_commit)
        neighbours = NeighbourSearch(store, self.views, self.embedding)
        self.scoring_backfill = ScoringBackfill(store, neighbours, profile_of)
        self.indexing = VectorIndexer(
            store, self.views, self.embedding, self.disk, yield_to_queries, next_work=self.scoring_backfill.run_slice
        )
        self.memories = MemoryService(store, self.views, self.scoring_backfill.mark_scored)
        self.ingest = IngestPipeline(
            store, self.views, self.indexing, self.embedding, self.memories, neighbours, lambda: self.settings,
            yield_to_queries,
        )  # fmt: skip
        self.recall = Recall(
            store, self.views, self.indexing, self.embedding, self.cross_encoder,
            is_reading_notes=lambda: self.notes.is_first_scan_running(),
        )  # fmt: skip
        self.usage_recorder = UsageRecorder(self.memories)
        self.shown_recorder = ShownRecorder(store)
        self.facts = FactService(store, self.views.facts)
        self.language_model.use(self.chosen_model("llm"))
        self.llm_calls = CallLog(store)
        self.llm_tasks = TaskRunner(
            self.language_model.model, self.llm_calls, lambda: self.settings.llm.level, self._llm_obstacle,
            grade_obstacle=self.capability_probe.obstacle,
        )  # fmt: skip
        self.runs = RunService(store, self.views, self.memories, self.llm_tasks)
        self.topic_trees = TopicTrees(
            store, self.views, self.indexing, self.embedding, self.llm_tasks, self.disk, policy=profile_of
        )
        self.memory_map = MemoryMap(store, self.views, self.indexing, self.disk)
        self.extraction = StatementExtraction(store, self.memories, self.ingest, self.llm_tasks)
        self.insert_merger = InsertMerger(self.ingest.merged, self.memories, self.llm_tasks, self.closing.is_set)
        self.topic_nodes = TopicNodes(store, self.indexing, self.embedding, profile_of, clock=time.monotonic)
        self.topic_graph = TopicGraph(store, self.topic_nodes, self.llm_tasks)
        self._open_sessions()
        self.markdown_export = MarkdownExport(
            store, self.views, self._exported_topics, lambda: self.settings.notes.export_dir, self.disk
        )
        self.resume = ResumeService(
            store, self.views, self.llm_tasks, self.root_paths, self._resume_topics, self._resume_profile,
            self.recall.roles, lambda namespace: profile_of(namespace).name == OWN_POLICY.name,
        )  # fmt: skip
        self.assisted_recall = AssistedRecall(self.recall, self.llm_tasks, self.priority)
        self.asked_questions = AskedQuestions()
        self.maintenance = StoreMaintenance(store, self.disk, self.embedding.spaces)
        self.daily_values = DailyValues(store, self.views, self.disk, self.requests.take_recalls)
        self._open_lifecycle()
        self.notes = self._made_notes()
        self.is_open = True

    def _exported_topics(self) -> Iterator[NamespaceTopic]:
        for topic in self.topic_trees.topics(USER, sees_sensitive=False):
            yield topic.namespace, ExportedTopic(topic.id, topic.name, topic.member_count, topic.level)

    def _open_sessions(self) -> None:
        """Make what holds conversations."""
        store, profile_of = self.store, self._profile_of
        self.sessions = SessionService(store, self.views)
        self.turn_tiers = TurnTiers(store, self.views, self.sessions, policy=profile_of)
        self.turn_review = TurnReview(store, self.views, self.llm_tasks, profile_of)
        self.tiered_recall = TieredRecall(
            store, self.views, self.indexing, self.embedding, self.sessions, self.topic_nodes, self.usage_recorder,
            profile_of,
        )  # fmt: skip

    def _open_lifecycle(self) -> None:
        """Make what moves, hides and removes memories."""
        store = self.store
        self.trash = Trash(store, self.views)
        self.expiry = Expiry(store, self.views)
        self.profiles = ProfileService(store, self.views)
        self.compression = Compression(
            store, self.views, self.llm_tasks, self.profiles, lambda: self.settings.lifecycle.compression_threshold,
            self._profile_of, self.closing.is_set,
            lambda: self.settings.lifecycle.compress_sessions,
        )  # fmt: skip
        self.moves = MemoryMoves(store, self.memories)
        self.erasure = Erasure(store, self.disk, self.embedding.spaces, self._purge_views)
        self.sync = SyncService(store, self.disk, self.erasure.erase)
        store.on_commit(self.sync.on_commit)
        self.consolidation = Consolidation(
            store, self.views, self.indexing, self.embedding, self.llm_tasks, self.topic_trees,
            lambda: self.settings.lifecycle, self.priority, time.monotonic, self._profile_of,
        )  # fmt: skip
        self.review_queue = ReviewQueue(store, self.consolidation)
        self.forecasts = Forecasts(store, self.views, self.consolidation)

    def on_store_replaced(self) -> None:
        """Return once indexes and notes are those of the store, after it was replaced by a whole export."""
        self.store.run_exclusively(lambda _: None).result()  # behind the writer's word that row ids changed
        deadline = time.monotonic() + INDEXES_SECONDS_MAX
        while self.views.state != "ready" and time.monotonic() < deadline:
            if self.closing.wait(INDEXES_POLL_SECONDS):
                return
        self.mask_key = self._mask_key()
        self.notes.stop()
        self.notes = self._made_notes()
        self.notes.start()

    def reset(self, progress: Progress = unreported) -> BackupAnswer:
        """Empty the store after a backup, which is returned. Watched folders and the models in use stay, and the notes
        are read again."""
        self.notes.stop()
        try:
            self.usage_recorder.write()
            self.topic_nodes.write_recalls()
            made = self.maintenance.reset(tuple(MODELS_IN_USE.values()), progress)
        except BaseException:
            self.notes = self._made_notes()
            self.notes.start()
            raise
        self._purge_views()
        self.on_store_replaced()
        return made

    def chosen_model(self, role: Literal["embedding", "llm"]) -> str:
        """The model that a person chose; "" where none was."""
        with self.store.snapshot() as snapshot:
            return snapshot.meta(MODELS_IN_USE[role])

    def use_model(self, name: str) -> None:
        """Switch to an installed model for good: to a language model at once, to an embedding model once its vectors
        are computed next to the old ones. SPEC 4.4"""
        role: Literal["embedding", "llm"]
        service: EmbeddingService | LanguageModelService
        wanted = self.catalogue.require_installed(name).role
        if wanted == "multilingual":  # in use as soon as the default model is loaded again
            if (in_use := self.embedding.status().name) != DEFAULT_EMBEDDING:
                raise Refusal(409, "conflict", f"{name} stands beside {DEFAULT_EMBEDDING}, and {in_use} is in use")
            self.embedding.use(in_use)
            return
        if wanted == "llm":
            role, service = "llm", self.language_model
            if model := self.settings.llm.model:
                origin = self.configuration.origins["llm.model"]
                raise Refusal(409, "conflict", f"`llm.model` names {model!r} ({origin}); change or remove it there")
        else:
            role, service = "embedding", self.embedding
        name = service.require_usable(name)
        change = PutMeta(name=MODELS_IN_USE[role], value=name)
        self.store.transact(lambda _: WriteResult((change,), None, "models use"), by="models").result()
        service.use(name)

    def request_stop(self) -> None:
        """Stop the server once requests under way are answered."""
        self._loop.call_soon_threadsafe(self.stopped.set)

    def secret_policy(self) -> SecretPolicy:
        """The treatment of secrets in what comes in. SPEC 5.1"""
        return SecretPolicy(self.settings.privacy.mask, self.mask_key)

    def _profile_of(self, namespace: str) -> Policy:
        return self.settings.profile_of(namespace)

    def problem(self) -> str:
        """Return what is wrong with the store, "" for nothing."""
        return (self.store.degraded or self.store.write_obstacle) if self.is_open else ""

    def root_paths(self) -> dict[str, str]:
        """The folders of notes by their ids."""
        return self.notes.root_paths()

    def close(self) -> None:
        """Finish, save and close every part. Nothing runs in the background any more."""
        if self.is_open:
            self.notes.stop()
            self.usage_recorder.write()
            self.shown_recorder.write()
            self.topic_nodes.write_recalls()
            self.recall.close()
            self.recall.roles.save(self.disk)
            self.extraction.close()
            self.turn_review.close()
            self.sync.close()
            self.consolidation.close()
            self.topic_trees.close()
            self.ingest.close()
            self.indexing.stop()
            self.views.save()
            self.daily_values.close()
            self.store.close()
        self.language_model.close()
        self.embedding.close()

    def unload_pair_models(self) -> None:
        self.cross_encoder.unload_if_idle()
        self.answer_reader.unload_if_idle()
        self.embedding.unload_if_idle()

    def is_probe_due(self) -> bool:
        """Return whether a language model is to be tried on a task now."""
        return self.settings.llm.level != "off" and not self._llm_obstacle() and self.capability_probe.is_due()

    def _llm_obstacle(self) -> str:
        """Return why background calls must not use the language model now, "" when they may."""
        waits = self.settings.llm.on_battery == "wait" and self._machine.is_on_battery()
        return "the machine runs on battery (`llm.on_battery`)" if waits else ""

    def _made_notes(self) -> NotesService:
        return self._make_notes(self.store, self.settings.notes, on_saved=self.indexing.prioritise)

    def _mask_key(self) -> bytes:
        with self.store.snapshot() as snapshot:
            return bytes.fromhex(snapshot.meta("salt"))

    def _resume_topics(self, wanted: MemoryFilter) -> list[ResumeTopic]:
        """The topics of the present trees, as far as the filter sees them."""
        sees_sensitive = SENSITIVE_TAG not in wanted.without_tags
        found = self.topic_trees.topics(wanted.user_id or "", wanted.namespaces, sees_sensitive=sees_sensitive)
        is_own = self.views.attributes.is_own
        return [
            ResumeTopic(each.id, each.name, each.member_count, not each.parent,
                        bool(is_own(np.array(each.sources, np.intp)).all()))
            for each in found
        ]  # fmt: skip

    def _resume_profile(self, wanted: MemoryFilter) -> Entries:
        """The entries of the profile that the filter sees; a namespace may have the name of a project."""
        projects = [name.lower() for name in wanted.namespaces if name != DEFAULT_NAMESPACE]
        return self.profiles.shown(wanted, projects)

    def require_index_rows(self) -> None:
        """Have an index that lacks memories filled again."""
        self.views.require_rows()
        self.indexing.require_rows()

    def _purge_views(self) -> None:
        """Remove deleted memories from indexes, their files and caches."""
        self.views.rebuild_without_deleted()
        self.indexing.rebuild_without_deleted()
        self.embedding.clear_query_cache()
        self.ingest.clear_caches()
        self.extraction.clear_caches()
        self.recall.clear_caches()
        self.topic_nodes.clear_caches()
        self.tiered_recall.hot.clear()
        self.topic_trees.remove_deleted()
        self.memory_map.remove_deleted()
        self.asked_questions.clear()
        self.compression.clear_caches()
        self.forecasts.clear()
        self.resume.clear_caches()
        self.markdown_export.remove()
