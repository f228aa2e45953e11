"""The operation table: every operation of the daemon with its route, types and rights. SPEC 13

The routes of the daemon, the methods of the client, the OpenAPI document and the reference are made from it; the tools
of agents call by it."""

from collections.abc import Callable
from typing import Any, Generic, Literal, NamedTuple, ParamSpec, TypeVar, cast, get_args

import msgspec

from mnemo_client.protocol import (
    changes,
    ingestion,
    knowledge,
    lifecycle,
    maintenance,
    memories,
    profiles,
    retrieval,
    sessions,
    status,
)
from mnemo_client.protocol.primitives import NoFields, ScopedPageQuery, ScopedRequest

Right = Literal["read", "write", "admin"]  # each includes those before it
RIGHTS: tuple[Right, ...] = get_args(Right)
BODY_BYTES_MAX = 1 << 20  # SPEC 16
BULK_BYTES_MAX = 32 << 20  # SPEC 16: batch and ingest
MCP_BYTES_MAX = 4 << 20  # as the SDK's own limit, and that of the bridge's lines
JSON_LINES = "application/x-ndjson"

P = ParamSpec("P")
A = TypeVar("A", covariant=True)


class Operation(NamedTuple, Generic[P, A]):
    """One method on one path, with all that its client, its server and the OpenAPI document need to know of it.

    `request`: the struct of its fields. They are the body, or the query string of GET and DELETE, and where the body
    is a stream. An answer of `bytes` is sent as `content_type`. `read_only`: fields of the body that exist and that
    only the daemon sets. One that `streams` takes a body of any size, which has no struct; one that `sends_events` may
    answer with a stream of server-sent events instead of its answer. `before_open`: answers while the store is being
    opened; every other one waits for it. `for_person`: refused to agents. `for_owner`: also to a peer that the access
    table lets administer. `right`: the one that a peer needs, where it is not that of the method. `repeatable`: the
    same request twice changes no more than once; the name of a field: where that is given. `is_long`: may take minutes.
    """

    method: str
    path: str  # "/v1/memories/{id}": a part in braces matches one segment
    summary: str
    answer: type[A]
    request: Callable[P, msgspec.Struct]
    statuses: tuple[int, ...] = (200,)
    read_only: frozenset[str] = frozenset()
    body_max: int = BODY_BYTES_MAX
    content_type: str = "application/json"
    aliases: tuple[str, ...] = ()  # further paths
    right: Right | None = None
    for_person: bool = False
    for_owner: bool = False
    before_open: bool = False
    streams: bool = False
    sends_events: bool = False
    repeatable: bool | str = False
    is_long: bool = False

    @property
    def body(self) -> type[msgspec.Struct] | None:
        """The struct of the body, where there is one."""
        return None if self._is_query else self._struct

    @property
    def query(self) -> type[msgspec.Struct] | None:
        """The struct of the query string, where there is one."""
        return self._struct if self._is_query else None

    @property
    def _struct(self) -> type[msgspec.Struct] | None:
        return None if self.request is NoFields else cast(type[msgspec.Struct], self.request)

    @property
    def _is_query(self) -> bool:
        return self.method in ("GET", "DELETE") or self.streams

    @property
    def needed_right(self) -> Right:
        """The right that a peer needs: `right`, else `admin` for what only a person may ask for, `read` for GET, and
        `write` for every other method."""
        if self.right is not None:
            return self.right
        if self.for_person or self.for_owner:
            return "admin"
        return "read" if self.method == "GET" else "write"

    def is_repeatable(self, request: msgspec.Struct) -> bool:
        """Return whether this request may be sent twice."""
        if isinstance(self.repeatable, str):
            value = getattr(request, self.repeatable)
            return value is not None and value is not msgspec.UNSET and value is not False
        return self.repeatable or self.method in ("GET", "DELETE")


# fmt: off

# Memories: what comes in

REMEMBER = Operation(
    "POST", "/v1/memories", "Remember one text", ingestion.RememberAnswer, memories.NewMemory, statuses=(200, 201),
    read_only=memories.READ_ONLY, repeatable="key")
REMEMBER_MANY = Operation(
    "POST", "/v1/memories/batch", "Remember up to 1,000 texts", ingestion.BatchAnswer, ingestion.NewMemories,
    body_max=BULK_BYTES_MAX)
INGEST = Operation(
    "POST", "/v1/ingest", "Remember a text, piece by piece", ingestion.IngestAnswer, ingestion.IngestRequest,
    body_max=BULK_BYTES_MAX)
EXTRACT = Operation(
    "POST", "/v1/extract", "Remember a text or conversation with its statements, and return these",
    ingestion.ExtractAnswer, ingestion.ExtractRequest, body_max=BULK_BYTES_MAX)
TURNS = Operation(
    "POST", "/v1/turns", "Remember the turns of a conversation", ingestion.IngestAnswer, ingestion.TurnsRequest,
    body_max=BULK_BYTES_MAX)
RECLASSIFY = Operation(
    "POST", "/v1/reclassify",
    "Classify and score memories again where a rule did it; without `dry_run: false` a dry run",
    ingestion.ReclassifyAnswer, ingestion.ReclassifyRequest, for_person=True)

# Memories: one, lists, the trash

LIST_MEMORIES = Operation("GET", "/v1/memories", "List memories, the newest first", memories.MemoryPage,
    memories.ListMemoriesQuery)
DELETE_MANY = Operation(
    "DELETE", "/v1/memories", "Move memories to the trash by ids or filter; without `confirm` a dry run",
    memories.BulkDeleteAnswer, memories.DeleteQuery)
GET = Operation("GET", "/v1/memories/{id}", "Return one memory", memories.MemoryView, memories.GetQuery)
EDGES = Operation(
    "GET", "/v1/memories/{id}/edges", "Return the edges of a memory", memories.EdgesAnswer, memories.MemoryPartsQuery)
PATCH = Operation(
    "PATCH", "/v1/memories/{id}", "Edit a memory", memories.MemoryView, memories.Patch, read_only=memories.NOT_EDITED)
MOVE = Operation(
    "POST", "/v1/memories/{id}/move", "Move a memory to another layer or namespace, or into the archive",
    memories.MoveAnswer, memories.MoveRequest, for_person=True)
DELETE = Operation(
    "DELETE", "/v1/memories/{id}", "Move a memory to the trash", memories.DeleteAnswer, memories.DeleteByIdQuery)
RESTORE = Operation(
    "POST", "/v1/memories/{id}/restore", "Restore a trashed, discarded or archived memory", memories.MemoryView,
    NoFields)
RESTORE_FROM_TRASH = Operation(
    "POST", "/v1/trash/{id}/restore", "Restore a memory from the trash", memories.MemoryView, NoFields)
TRASH = Operation("GET", "/v1/trash", "List the memories in the trash", memories.TrashPage, memories.TrashQuery)
RECENT = Operation(
    "GET", "/v1/recent", "List memories by the time of their event", retrieval.SearchAnswer, memories.RecentQuery)
TAGS = Operation("GET", "/v1/tags", "Count the memories of each tag", memories.TagsAnswer, ScopedRequest)
AGENTS = Operation("GET", "/v1/agents", "List the agents that wrote memories", memories.AgentsAnswer, ScopedPageQuery)
TIMELINE = Operation(
    "GET", "/v1/timeline", "Count the memories of each hour, day, week or month", memories.TimelineAnswer,
    memories.TimelineQuery)

# History and erasure

HISTORY = Operation(
    "GET", "/v1/memories/{id}/history", "Return the versions of a memory, the newest first", changes.HistoryAnswer,
    memories.MemoryPartsQuery)
SHOWN = Operation(
    "GET", "/v1/memories/{id}/shown", "Return the answers in which a memory was handed out, the latest first",
    changes.ShownAnswer, memories.MemoryPartsQuery, for_person=True)
DIFF = Operation(
    "GET", "/v1/diff", "Return the changes of memories since a time or change", changes.DiffAnswer, changes.DiffQuery)
UNDO = Operation(
    "POST", "/v1/undo", "Undo a change, by default the last one", changes.UndoAnswer, changes.UndoRequest,
    repeatable="dry_run")
ERASE = Operation(
    "POST", "/v1/memories/{id}/purge", "Erase a memory permanently, with every trace", memories.EraseAnswer,
    memories.EraseOneRequest, for_person=True, for_owner=True, is_long=True)
ERASE_MANY = Operation(
    "POST", "/v1/purge", "Erase memories permanently, with every trace", memories.EraseAnswer, memories.EraseRequest,
    for_person=True, for_owner=True, is_long=True)
EMPTY_TRASH = Operation(
    "DELETE", "/v1/trash", "Empty the trash; without `confirm` a dry run", memories.EmptyTrashAnswer,
    memories.EmptyTrashQuery, for_person=True, for_owner=True)

# Answers

RECALL = Operation(
    "POST", "/v1/recall", "Return the memories that answer a question best", retrieval.RecallAnswer,
    retrieval.RecallRequest, right="read", repeatable=True)
WHY = Operation(
    "POST", "/v1/why", "Explain why a memory is, or is not, among the answers", retrieval.WhyAnswer,
    retrieval.WhyRequest, right="read", repeatable=True)
SEARCH = Operation("GET", "/v1/search", "Search by words alone", retrieval.SearchAnswer, retrieval.SearchQuery)
CONTEXT = Operation(
    "POST", "/v1/context", "Return the block of memories to put before a prompt", retrieval.ContextAnswer,
    retrieval.ContextRequest, right="read", repeatable=True)
ASK = Operation(
    "POST", "/v1/ask", "Answer a question from memories alone", retrieval.AskAnswer, retrieval.AskRequest,
    sends_events=True, right="read", aliases=("/v1/answer",), repeatable=True)

# Agents

RESUME = Operation(
    "GET", "/v1/resume", "Return a summary for the start of a session", sessions.ResumeAnswer, sessions.ResumeQuery)
TRIGGERS = Operation(
    "GET", "/v1/triggers/{action}", "Return the memories to be read before an action", sessions.TriggersAnswer,
    sessions.TriggersQuery)
STATE = Operation(
    "GET", "/v1/state", "Return the present tiers, topic nodes and jobs", sessions.StateAnswer, sessions.StateQuery)
HOOK = Operation(
    "POST", "/v1/hooks/{event}",
    "Report an event of an agent: a prompt, a reply, a call of a tool, the start or end of a session",
    sessions.HookAnswer, sessions.HookRequest)

# Knowledge

ADD_FACTS = Operation(
    "POST", "/v1/facts", "Insert facts", knowledge.NewFactsAnswer, knowledge.NewFacts, statuses=(201,))
FACTS = Operation(
    "GET", "/v1/facts", "Return the facts that name an entity", knowledge.FactsAnswer, knowledge.FactsQuery)
FACT_GRAPH = Operation(
    "GET", "/v1/facts/graph", "Return chains of facts from an entity", knowledge.FactGraphAnswer,
    knowledge.FactGraphQuery)
FACT_CONFLICTS = Operation(
    "GET", "/v1/facts/conflicts", "Return facts that contradict each other", knowledge.FactConflictsAnswer,
    knowledge.FactConflictsQuery)
DECIDE_CONFLICT = Operation(
    "POST", "/v1/facts/conflicts/decide", "Decide which of contradicting facts hold",
    knowledge.DecideConflictAnswer, knowledge.DecideConflictRequest, for_person=True)
FACT_HISTORY = Operation(
    "GET", "/v1/facts/history", "Return the facts of a subject, including those that have ended",
    knowledge.FactHistoryAnswer, knowledge.FactHistoryQuery)
DELETE_FACT = Operation(
    "DELETE", "/v1/facts/{id}", "Remove a fact; its memory stays", knowledge.FactDeletedAnswer, ScopedRequest)
TOPICS = Operation("GET", "/v1/topics", "Return the tree of topics", knowledge.TopicsAnswer, ScopedRequest)
MAP = Operation(
    "GET", "/v1/map", "Return a two-dimensional map of the memories by meaning", knowledge.MapAnswer,
    knowledge.MapQuery)
EXPAND_TOPICS = Operation(
    "POST", "/v1/topics/expand", "Return the members of topics", knowledge.ExpandAnswer, knowledge.ExpandRequest,
    right="read", repeatable=True)
RENAME_TOPIC = Operation(
    "POST", "/v1/topics/{id}/rename", "Give a topic a name of one's own, or take it away",
    knowledge.RenameTopicAnswer, knowledge.RenameTopicRequest, for_person=True)
REBUILD_TOPICS = Operation(
    "POST", "/v1/topics/rebuild", "Build the tree of topics from the beginning, in the background",
    knowledge.TopicsAnswer, knowledge.RebuildTopicsRequest, right="admin", repeatable=True)
TOPIC_GRAPH = Operation(
    "GET", "/v1/graph", "Return topic nodes and the edges between them", knowledge.GraphAnswer, knowledge.GraphQuery)
ABSTRACT_TOPIC_GRAPH = Operation(
    "POST", "/v1/graph/abstract", "Group topic nodes under a common name", knowledge.AbstractAnswer,
    knowledge.AbstractRequest)
DEDUPE_TOPIC_GRAPH = Operation(
    "POST", "/v1/graph/dedupe", "Merge topic nodes that are about the same topic", knowledge.DedupeAnswer,
    knowledge.DedupeRequest, repeatable=True)

# Conversations and runs

LIST_SESSIONS = Operation(
    "GET", "/v1/sessions", "List the conversations, the latest first", sessions.SessionsAnswer, ScopedPageQuery)
SESSION = Operation(
    "GET", "/v1/sessions/{id}", "Return a conversation with its turns by tier", sessions.SessionAnswer, ScopedPageQuery)
END_SESSION = Operation(
    "POST", "/v1/sessions/{id}/end", "End a conversation: all of its turns are filed in pairs",
    sessions.SessionFiledAnswer, sessions.SessionRequest, repeatable=True)
CONSOLIDATE_SESSION = Operation(
    "POST", "/v1/sessions/{id}/consolidate", "File the recent turns of a conversation in pairs, however young they are",
    sessions.SessionFiledAnswer, sessions.SessionRequest, repeatable=True)
EXPLAIN_SESSION = Operation(
    "POST", "/v1/sessions/{id}/explain", "Explain what a message would recall in a session; nothing is changed",
    sessions.SessionTrace, sessions.ExplainSessionRequest, right="read", repeatable=True)
CHAT = Operation(
    "POST", "/v1/sessions/{id}/chat", "Reply to a message from memories alone, and store both turns",
    sessions.ChatAnswer, sessions.ChatRequest)
ADD_STEP = Operation(
    "POST", "/v1/runs/{run}/steps", "Remember a step of an agent's run, or change it", ingestion.RememberAnswer,
    sessions.NewStep, statuses=(200, 201), repeatable="step_number")
STEPS = Operation(
    "GET", "/v1/runs/{run}/steps", "Return the steps of a run in order", sessions.StepsAnswer, ScopedPageQuery)
SUMMARIZE_RUN = Operation(
    "POST", "/v1/runs/{run}/summary", "Summarize a run, unless that was done and no step has changed",
    sessions.RunSummaryAnswer, sessions.RunSummaryRequest, statuses=(200, 201), repeatable=True)

# Profiles and the lifecycle

PROFILE = Operation("GET", "/v1/profile", "Return the profile of the user", profiles.ProfileAnswer, ScopedRequest)
UPDATE_PROFILE = Operation(
    "PUT", "/v1/profile", "Write and remove entries of a profile", profiles.ProfileUpdateAnswer, profiles.ProfileUpdate)
PROJECT = Operation(
    "GET", "/v1/projects/{name}", "Return the profile of a project", profiles.ProjectAnswer, ScopedRequest)
COMPRESS = Operation(
    "POST", "/v1/compress", "Summarize the oldest conversations, and lift old items to profiles",
    profiles.CompressAnswer, profiles.CompressRequest, for_person=True, is_long=True)
CONSOLIDATE = Operation(
    "POST", "/v1/consolidate", "Run a cycle of consolidation, or report what one would do", lifecycle.ConsolidateAnswer,
    lifecycle.ConsolidateRequest, for_person=True, is_long=True)
CYCLES = Operation(
    "GET", "/v1/consolidate/history", "List the cycles of consolidation, the last one first", lifecycle.CyclesAnswer,
    lifecycle.LifecycleListQuery)
FORECAST = Operation(
    "GET", "/v1/lifecycle", "Return what the next cycle would do with each memory of a layer, and why",
    lifecycle.ForecastAnswer, lifecycle.ForecastQuery, is_long=True)
AUDIT = Operation(
    "POST", "/v1/audit", "Review core and working memories, and propose operations", lifecycle.AuditPlanAnswer,
    lifecycle.AuditRequest, for_person=True, is_long=True)
REVIEW = Operation(
    "GET", "/v1/review", "List the operations that wait for approval", lifecycle.ReviewAnswer,
    lifecycle.LifecycleListQuery, for_person=True)
DECIDE = Operation(
    "POST", "/v1/review/{id}", "Approve or reject an operation", lifecycle.VerdictAnswer, lifecycle.VerdictRequest,
    for_person=True)

# Notes, transfer, maintenance

NOTES_ROOTS = Operation("GET", "/v1/notes/roots", "Return the watched folders", status.NotesStatus, NoFields)
ADD_ROOT = Operation(
    "POST", "/v1/notes/roots", "Watch a folder", status.NotesRootStatus, status.NewRootRequest, for_person=True,
    for_owner=True, repeatable=True)
REMOVE_ROOT = Operation(
    "DELETE", "/v1/notes/roots", "Stop watching a folder, and move its memories to the trash",
    memories.BulkDeleteAnswer, status.RootQuery, for_person=True)
NOTES_STATUS = Operation(
    "GET", "/v1/notes/status", "Return the watched folders and the files that were skipped", status.NotesStatus,
    NoFields)
RESCAN = Operation(
    "POST", "/v1/notes/rescan", "Compare all folders with the store now", status.NotesStatus, NoFields, right="admin",
    repeatable=True)
EXPORT = Operation(
    "GET", "/v1/export", "Export all memories as JSON lines", bytes, maintenance.ExportQuery, for_person=True,
    for_owner=True, content_type=JSON_LINES)
IMPORT = Operation(
    "POST", "/v1/import", "Import an export of mnemo or another tool, or transcripts", bytes, maintenance.ImportQuery,
    content_type=JSON_LINES, streams=True)
CHECK = Operation(
    "POST", "/v1/check", "Check the store and its indexes", maintenance.CheckAnswer, NoFields, right="admin",
    repeatable=True, is_long=True)
EXPOSURE = Operation(
    "GET", "/v1/exposure", "Report the memories that agents see and that seem to hold a secret",
    maintenance.ExposureAnswer, NoFields, for_person=True, for_owner=True, is_long=True)
REPAIR = Operation(
    "POST", "/v1/repair", "Repair the faults that a check finds, without deleting anything", maintenance.RepairAnswer,
    maintenance.RepairRequest, for_person=True, repeatable="dry_run", is_long=True)
BACK_UP = Operation(
    "POST", "/v1/backup", "Back up the store while it is in use", maintenance.BackupAnswer, maintenance.BackupRequest,
    for_person=True, is_long=True)
RESET = Operation(
    "POST", "/v1/reset", "Empty the store, after a backup; without `confirm` only report what would be removed",
    maintenance.ResetAnswer, maintenance.ResetRequest, for_person=True, for_owner=True, is_long=True)
COMPACT = Operation(
    "POST", "/v1/compact", "Compact the store, and delete history beyond `history.keep`", maintenance.CompactAnswer,
    maintenance.CompactRequest, for_person=True, is_long=True)

SYNC_STATUS = Operation(
    "GET", "/v1/sync", "Report whether and with which devices the memory is shared", maintenance.SyncAnswer,
    NoFields, for_person=True, for_owner=True)
SHARE = Operation(
    "POST", "/v1/sync", "Share the memory through a folder", maintenance.SyncAnswer, maintenance.SyncRequest,
    for_person=True, for_owner=True, is_long=True)
LEAVE = Operation(
    "DELETE", "/v1/sync", "Share the memory no more; everything stays here", maintenance.SyncAnswer, NoFields,
    for_person=True, for_owner=True)
EXCHANGE = Operation(
    "POST", "/v1/sync/exchange", "Exchange changes with the other devices now", maintenance.SyncAnswer, NoFields,
    for_person=True, for_owner=True, repeatable=True, is_long=True)
INVITE = Operation(
    "POST", "/v1/sync/invite", "Return a pairing code for another device", maintenance.PairingAnswer, NoFields,
    for_person=True, for_owner=True, repeatable=True)
RENEW_KEY = Operation(
    "POST", "/v1/sync/key", "Take the new key of the folder, after a device was removed", maintenance.SyncAnswer,
    maintenance.RenewKeyRequest, for_person=True, for_owner=True, is_long=True)
REMOVE_DEVICE = Operation(
    "POST", "/v1/sync/remove", "Read a device no more, and replace the key of the folder",
    maintenance.PairingAnswer, maintenance.RemoveDeviceRequest, for_person=True, for_owner=True)

# The daemon

STATUS = Operation(
    "GET", "/v1/status", "Return the state of every part", status.StatusAnswer, NoFields, before_open=True,
    aliases=("/status",))
HEALTH = Operation(
    "GET", "/v1/health", "Return whether the daemon works", status.HealthAnswer, NoFields, before_open=True,
    aliases=("/health",))
CONFIG = Operation(
    "GET", "/v1/config", "Return each setting and its origin", status.ConfigAnswer, NoFields, before_open=True,
    right="admin")
JOBS = Operation(
    "GET", "/v1/jobs", "Return the state of each background job and long request", status.JobsAnswer, NoFields)
LLM_USAGE = Operation(
    "GET", "/v1/llm/usage", "Count the calls of the language model by task", status.LlmUsageAnswer,
    status.LlmUsageQuery)
STATS = Operation(
    "GET", "/v1/stats", "Return the number of memories, the sizes on the disk and the times of recalls of each day",
    status.StatsAnswer, status.StatsQuery)
SHUTDOWN = Operation(
    "POST", "/v1/shutdown", "Finish the requests under way, and stop", status.ShutdownAnswer, NoFields,
    before_open=True, for_person=True)
MODELS = Operation(
    "GET", "/v1/models", "List the models of the catalogue and those in use", status.ModelsAnswer, NoFields,
    before_open=True)
USE_MODEL = Operation(
    "POST", "/v1/models/use", "Switch to an installed model", status.ModelsAnswer, status.UseModelRequest,
    for_person=True, repeatable=True)
REINDEX = Operation(
    "POST", "/v1/models/reindex", "Compute the vectors again", status.ReindexAnswer, status.ReindexRequest,
    for_person=True, repeatable=True)
METRICS = Operation(
    "GET", "/v1/metrics", "Return the metrics for Prometheus", bytes, NoFields, before_open=True,
    content_type="text/plain", aliases=("/metrics",))
EVENTS = Operation(
    "GET", "/v1/events", "Stream changes, jobs, progress and long requests as they happen", bytes, changes.EventsQuery,
    sends_events=True)
OPENAPI = Operation("GET", "/v1/openapi.json", "This document.", bytes, NoFields)
MCP = Operation(  # the operation that a tool calls asks for its own right
    "POST", "/mcp", "The Model Context Protocol", bytes, NoFields, body_max=MCP_BYTES_MAX, right="read")

# fmt: on

OPERATIONS: tuple[Operation[..., Any], ...] = tuple(
    each for each in vars().copy().values() if isinstance(each, Operation)
)
