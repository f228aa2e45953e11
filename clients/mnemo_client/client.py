"""A client of the daemon with one method for each route, typed values in and out. SPEC 13.

    with Client(socket_path(os.environ)) as client:
        client.remember("The spare key is with Ines.", tags=["home"])
        for memory in client.recall("who has the key?").memories: ...

A client keeps one connection open between requests; use one Client in each thread. `last_body` holds the bytes of the
last answer as the daemon sent them, for callers that pass them on unread."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mnemo_client.connection import ClientConnection, Filter, decode, encode, percent_encoded, target_of
from mnemo_client.errors import InterruptedAnswerError, RefusalError
from mnemo_client.http import MalformedAnswerError
from mnemo_client.protocol import changes, ingestion, knowledge, maintenance, memories, profiles, retrieval, sessions
from mnemo_client.protocol import lifecycle as lifecycle_types
from mnemo_client.protocol import status as status_types
from mnemo_client.protocol.choices import EventType, HookEvent, ImportTool
from mnemo_client.protocol.primitives import AnswerBody, FailureAnswer


class Client(ClientConnection):
    """A connection to the daemon behind `socket_path`.

    `namespace` is sent with every request that names none itself. `entry_point` is the source channel
    of its memories, which decides how far they are trusted (SPEC 2.1); `agent` names the program that the client speaks
    for, if it is not a person.

    Raises UnreachableError if no process listens, RefusalError for the daemon's own errors, InterruptedAnswerError if
    the connection ends before the answer is complete, InvalidAnswerError if the answer is not one of this protocol."""

    # Memories

    def remember(self, memory: str | memories.NewMemory, **fields: Any) -> ingestion.RememberAnswer:
        """Store one memory. `fields` are those of NewMemory; with a `key` the request can safely be repeated."""
        asked = memories.NewMemory(content=memory, **fields) if isinstance(memory, str) else memory
        return self._request("POST", "/memories", ingestion.RememberAnswer, asked, repeatable=asked.key is not None)

    def remember_many(
        self, memories: Sequence[memories.NewMemory], namespace: str | None = None
    ) -> list[ingestion.RememberAnswer | FailureAnswer]:
        """Store up to 1,000 memories; return the outcome of each, in order."""
        raw = [msgspec.Raw(encode(memory)) for memory in memories]
        asked = ingestion.NewMemories(memories=raw, namespace=namespace)
        keyed = all(memory.key is not None for memory in memories)
        answer = self._request("POST", "/memories/batch", _RawBatchAnswer, asked, repeatable=keyed)
        return [_decode_result(result) for result in answer.results]

    def ingest(self, text: str | ingestion.IngestRequest, **fields: Any) -> ingestion.IngestAnswer:
        """Store a text, piece by piece; return the outcome of each. `fields` are those of IngestRequest."""
        asked = ingestion.IngestRequest(text=text, **fields) if isinstance(text, str) else text
        return _decode_pieces(self._request("POST", "/ingest", _RawIngestAnswer, asked))

    def list_sessions(
        self, *, limit: int | None = None, cursor: str | None = None, user_id: str | None = None
    ) -> sessions.SessionsAnswer:
        """Return the conversations, the one with the latest turn first."""
        query = {"limit": limit, "cursor": cursor, "user_id": user_id}
        return self._request("GET", "/sessions", sessions.SessionsAnswer, query=query)

    def session(
        self, session: str, *, limit: int | None = None, cursor: str | None = None, user_id: str | None = None
    ) -> sessions.SessionAnswer:
        """Return a conversation with its turns, newest first, and the pairs that they are in."""
        query = {"limit": limit, "cursor": cursor, "user_id": user_id}
        return self._request("GET", f"/sessions/{percent_encoded(session)}", sessions.SessionAnswer, query=query)

    def end_session(self, session: str, **fields: Any) -> sessions.SessionFiledAnswer:
        """End a conversation: all of its turns are filed in pairs. `fields` are those of SessionRequest."""
        route, asked = f"/sessions/{percent_encoded(session)}/end", sessions.SessionRequest(**fields)
        return self._request("POST", route, sessions.SessionFiledAnswer, asked, repeatable=True)

    def consolidate_session(self, session: str, **fields: Any) -> sessions.SessionFiledAnswer:
        """File the recent turns of a conversation in pairs, however young they are. `fields` are those of
        SessionRequest."""
        route, asked = f"/sessions/{percent_encoded(session)}/consolidate", sessions.SessionRequest(**fields)
        return self._request("POST", route, sessions.SessionFiledAnswer, asked, repeatable=True)

    def extract(self, asked: ingestion.ExtractRequest) -> ingestion.ExtractAnswer:
        """Store a text or conversation with its statements, and return these; a dry request stores nothing."""
        return self._request("POST", "/extract", ingestion.ExtractAnswer, asked)

    def turns(self, asked: ingestion.TurnsRequest) -> ingestion.IngestAnswer:
        """Store the turns of a conversation; return the outcome of each."""
        return _decode_pieces(self._request("POST", "/turns", _RawIngestAnswer, asked))

    def add_step(self, run: str, step: sessions.NewStep) -> ingestion.RememberAnswer:
        """Store a step of an agent's run, behind the others or under its number, which changes that of a known one."""
        route = f"/runs/{percent_encoded(run)}/steps"
        has_number = step.step_number is not None
        return self._request("POST", route, ingestion.RememberAnswer, step, repeatable=has_number)

    def steps(
        self, run: str, *, limit: int | None = None, cursor: str | None = None, user_id: str | None = None
    ) -> sessions.StepsAnswer:
        """Return the steps of a run in order, and its summary; the `cursor` of a page leads to the next one."""
        query = {"limit": limit, "cursor": cursor, "user_id": user_id}
        return self._request("GET", f"/runs/{percent_encoded(run)}/steps", sessions.StepsAnswer, query=query)

    def summarize_run(self, run: str, **fields: Any) -> sessions.RunSummaryAnswer:
        """Summarize a run, unless that was done and no step has changed. `fields` are those of RunSummaryRequest."""
        route, asked = f"/runs/{percent_encoded(run)}/summary", sessions.RunSummaryRequest(**fields)
        return self._request("POST", route, sessions.RunSummaryAnswer, asked, repeatable=True)

    def topic_graph(self, **query: Any) -> knowledge.GraphAnswer:
        """Return topic nodes and the edges between them; `query` as the route takes it."""
        return self._request("GET", "/graph", knowledge.GraphAnswer, query=query)

    def abstract_topic_graph(self, user_id: str | None = None) -> knowledge.AbstractAnswer:
        """Group topic nodes under a common name."""
        asked = knowledge.AbstractRequest(user_id=user_id)
        return self._request("POST", "/graph/abstract", knowledge.AbstractAnswer, asked)

    def dedupe_topic_graph(self, *, dry_run: bool = False, user_id: str | None = None) -> knowledge.DedupeAnswer:
        """Merge topic nodes that are one; with `dry_run` only report which."""
        asked = knowledge.DedupeRequest(dry_run=dry_run, user_id=user_id)
        return self._request("POST", "/graph/dedupe", knowledge.DedupeAnswer, asked, repeatable=True)

    def explain_session(self, session_id: str, query: str, **fields: Any) -> sessions.SessionTrace:
        """Return what a message would recall in a session, stage by stage; nothing is changed. `fields` are those of
        ExplainSessionRequest."""
        route, asked = f"/sessions/{percent_encoded(session_id)}/explain", sessions.ExplainSessionRequest
        return self._request("POST", route, sessions.SessionTrace, asked(query=query, **fields), repeatable=True)

    def chat(self, session_id: str, message: str, **fields: Any) -> sessions.ChatAnswer:
        """Return the reply to a message of a session, from memories alone, after both were stored. `fields` are those
        of ChatRequest."""
        route, asked = f"/sessions/{percent_encoded(session_id)}/chat", sessions.ChatRequest
        return self._request("POST", route, sessions.ChatAnswer, asked(message=message, **fields))

    def topics(self, *, user_id: str | None = None) -> knowledge.TopicsAnswer:
        """Return the tree of topics: a topic before those below it."""
        return self._request("GET", "/topics", knowledge.TopicsAnswer, query={"user_id": user_id})

    def expand_topics(self, *ids: str, **fields: Any) -> knowledge.ExpandAnswer:
        """Return the members of topics, the newest first. `fields` are those of ExpandRequest."""
        asked = knowledge.ExpandRequest(ids=list(ids), **fields)
        return self._request("POST", "/topics/expand", knowledge.ExpandAnswer, asked, repeatable=True)

    def rebuild_topics(self, *, user_id: str | None = None) -> knowledge.TopicsAnswer:
        """Have the tree of topics built from the beginning, behind the answer, which is the present one."""
        asked = knowledge.RebuildTopicsRequest(user_id=user_id)
        return self._request("POST", "/topics/rebuild", knowledge.TopicsAnswer, asked, repeatable=True)

    def consolidate(self, **fields: Any) -> lifecycle_types.ConsolidateAnswer:
        """Run a cycle of consolidation; with `dry_run` only report what it would do. `fields` are those of
        ConsolidateRequest."""
        asked = lifecycle_types.ConsolidateRequest(**fields)
        return self.with_long_timeout()._request("POST", "/consolidate", lifecycle_types.ConsolidateAnswer, asked)

    def cycles(self, *, limit: int | None = None, cursor: str | None = None) -> lifecycle_types.CyclesAnswer:
        """Return the cycles of consolidation, the last one first."""
        query = {"limit": limit, "cursor": cursor}
        return self._request("GET", "/consolidate/history", lifecycle_types.CyclesAnswer, query=query)

    def profile(self, user_id: str | None = None) -> profiles.ProfileAnswer:
        """Return what is known about the user, and the names of the user's projects."""
        return self._request("GET", "/profile", profiles.ProfileAnswer, query={"user_id": user_id})

    def project(self, name: str, user_id: str | None = None) -> profiles.ProjectAnswer:
        """Return what is known about a project."""
        route = f"/projects/{percent_encoded(name)}"
        return self._request("GET", route, profiles.ProjectAnswer, query={"user_id": user_id})

    def update_profile(self, **fields: Any) -> profiles.ProfileUpdateAnswer:
        """Write and remove entries of a profile. `fields` are those of ProfileUpdate."""
        return self._request("PUT", "/profile", profiles.ProfileUpdateAnswer, profiles.ProfileUpdate(**fields))

    def compress(self, **fields: Any) -> profiles.CompressAnswer:
        """Summarize the oldest conversations, and lift old items to profiles. `fields` are those of CompressRequest."""
        asked = profiles.CompressRequest(**fields)
        return self.with_long_timeout()._request("POST", "/compress", profiles.CompressAnswer, asked)

    def audit(self, **fields: Any) -> lifecycle_types.AuditPlanAnswer:
        """Look through core and working memories; return what is proposed. `fields` are those of AuditRequest."""
        asked = lifecycle_types.AuditRequest(**fields)
        return self.with_long_timeout()._request("POST", "/audit", lifecycle_types.AuditPlanAnswer, asked)

    def review(self, *, limit: int | None = None, cursor: str | None = None) -> lifecycle_types.ReviewAnswer:
        """Return the operations that wait for a person, the oldest first."""
        return self._request("GET", "/review", lifecycle_types.ReviewAnswer, query={"limit": limit, "cursor": cursor})

    def decide(
        self, id: str, verdict: lifecycle_types.Verdict, text: str | None = None, *, force: bool = False  # noqa: A002
    ) -> lifecycle_types.VerdictAnswer:  # fmt: skip
        """Approve a proposal, with another text if one is given, or reject it."""
        asked = lifecycle_types.VerdictRequest(verdict=verdict, text=text, force=force)
        return self._request("POST", f"/review/{percent_encoded(id)}", lifecycle_types.VerdictAnswer, asked)

    def reclassify(self, asked: ingestion.ReclassifyRequest) -> ingestion.ReclassifyAnswer:
        """Classify and score again every memory that a rule classified; with `dry_run` only report what would
        change."""
        return self._request("POST", "/reclassify", ingestion.ReclassifyAnswer, asked)

    def get(self, id: str, as_of: int | str | None = None) -> memories.MemoryView:  # noqa: A002 - the field's own name
        """Return one memory, by its full id or at least 8 hex digits of its start or end; with `as_of`, its past
        version."""
        return self._request("GET", f"/memories/{percent_encoded(id)}", memories.MemoryView, query={"as_of": as_of})

    def list_memories(
        self, *, limit: int | None = None, cursor: str | None = None, namespace: str | None = None, **filters: Filter
    ) -> memories.MemoryPage:
        """Return a page of memories; the `cursor` of a page leads to the next one."""
        query = {"limit": limit, "cursor": cursor, **filters}
        return self._request("GET", "/memories", memories.MemoryPage, query=query, namespace=namespace)

    def patch(self, id: str, change: memories.Patch) -> memories.MemoryView:  # noqa: A002
        return self._request("PATCH", f"/memories/{percent_encoded(id)}", memories.MemoryView, change)

    def delete(self, id: str, why: str | None = None) -> memories.DeleteAnswer:  # noqa: A002
        """Delete one memory: move it to the trash, with an optional reason."""
        return self._request("DELETE", f"/memories/{percent_encoded(id)}", memories.DeleteAnswer, query={"why": why})

    def delete_many(
        self, *, confirm: bool = False, namespace: str | None = None, **filters: Filter
    ) -> memories.BulkDeleteAnswer:
        """Delete the memories that pass the filters; without `confirm` only report which would be deleted."""
        query = {**filters, "confirm": confirm or None}
        return self._request("DELETE", "/memories", memories.BulkDeleteAnswer, query=query, namespace=namespace)

    def delete_ids(self, ids: Sequence[str]) -> memories.BulkDeleteAnswer:
        """Delete these memories in one change: all of them, or none if one does not exist."""
        return self._request("DELETE", "/memories", memories.BulkDeleteAnswer, query={"id": ids, "confirm": True})

    def trash(
        self, *, set_aside: bool = False, limit: int | None = None, cursor: str | None = None,
        namespace: str | None = None,
    ) -> memories.TrashPage:  # fmt: skip
        """Return the deleted memories; with `set_aside`, those that ingestion rejected instead."""
        query = {"set_aside": set_aside or None, "limit": limit, "cursor": cursor}
        return self._request("GET", "/trash", memories.TrashPage, query=query, namespace=namespace)  # fmt: skip

    def empty_trash(self, *, confirm: bool = False, namespace: str | None = None) -> memories.EmptyTrashAnswer:
        """Erase everything in the trash; without `confirm` only report how much that is."""
        query = {"confirm": confirm or None}
        return self._request("DELETE", "/trash", memories.EmptyTrashAnswer, query=query, namespace=namespace)

    def erase(
        self,
        id: str,  # noqa: A002 - the field's own name
        *,
        dry_run: bool = False,
        quoting: bool = False,
        everywhere: bool = False,
    ) -> memories.EraseAnswer:
        """Erase one memory, every trace of it, and everything derived from it."""
        asked = memories.EraseOneRequest(dry_run=dry_run, quoting=quoting, everywhere=everywhere)
        return self.with_long_timeout()._request(
            "POST", f"/memories/{percent_encoded(id)}/purge", memories.EraseAnswer, asked
        )

    def erase_many(
        self,
        ids: Sequence[str] = (),
        *,
        filter: memories.EraseFilter | None = None,  # noqa: A002 - the field's own name
        dry_run: bool = False,
        quoting: bool = False,
        everywhere: bool = False,
    ) -> memories.EraseAnswer:
        """Erase these memories, or all that pass the filter; `quoting`: also those that quote one; `everywhere`: from
        the backups too."""
        asked = memories.EraseRequest(
            ids=list(ids), filter=filter, dry_run=dry_run, quoting=quoting, everywhere=everywhere
        )
        named = filter.namespace if filter is not None else None
        return self.with_long_timeout()._request("POST", "/purge", memories.EraseAnswer, asked, namespace=named)

    def restore(self, id: str) -> memories.MemoryView:  # noqa: A002
        """Restore one memory from the trash."""
        return self._request("POST", f"/trash/{percent_encoded(id)}/restore", memories.MemoryView)

    def history(self, id: str, *, limit: int | None = None, cursor: str | None = None) -> changes.HistoryAnswer:  # noqa: A002
        """Return the versions of a memory, the newest first."""
        query = {"limit": limit, "cursor": cursor}
        return self._request("GET", f"/memories/{percent_encoded(id)}/history", changes.HistoryAnswer, query=query)

    def edges(self, id: str, *, limit: int | None = None, cursor: str | None = None) -> memories.EdgesAnswer:  # noqa: A002
        """Its edges, each with the memory at the other end."""
        query = {"limit": limit, "cursor": cursor}
        return self._request("GET", f"/memories/{percent_encoded(id)}/edges", memories.EdgesAnswer, query=query)

    def facts(
        self, entity: str = "", *, include_superseded: bool = False, as_of: int | str | None = None,
        limit: int | None = None, cursor: str | None = None, namespace: str | None = None,
    ) -> knowledge.FactsAnswer:  # fmt: skip
        """Return the facts that name an entity, or all; the `cursor` of a page leads to the next one."""
        query = {"entity": entity or None, "include_superseded": include_superseded or None, "as_of": as_of,
                 "limit": limit, "cursor": cursor}  # fmt: skip
        return self._request("GET", "/facts", knowledge.FactsAnswer, query=query, namespace=namespace)

    def add_facts(self, stated: Sequence[knowledge.NewFact], **fields: Any) -> knowledge.NewFactsAnswer:
        """Insert facts. `fields` are those of NewFacts."""
        return self._request(
            "POST", "/facts", knowledge.NewFactsAnswer, knowledge.NewFacts(facts=list(stated), **fields)
        )

    def fact_graph(
        self, entity: str, hops: int | None = None, *, namespace: str | None = None
    ) -> knowledge.FactGraphAnswer:
        """Return the chains of facts from an entity, of at most 1 to 3 facts each (2 by default)."""
        query = {"entity": entity, "hops": hops}
        return self._request("GET", "/facts/graph", knowledge.FactGraphAnswer, query=query, namespace=namespace)

    def fact_conflicts(
        self, subject: str = "", predicate: str = "", *, namespace: str | None = None
    ) -> knowledge.FactConflictsAnswer:
        """Return the facts that contradict each other, of a subject and predicate where these are given."""
        query = {"subject": subject or None, "predicate": predicate or None}
        return self._request("GET", "/facts/conflicts", knowledge.FactConflictsAnswer, query=query, namespace=namespace)

    def fact_history(
        self, subject: str, predicate: str = "", *, namespace: str | None = None
    ) -> knowledge.FactHistoryAnswer:
        """Return the facts of a subject from the oldest on, with those that have ended."""
        query = {"subject": subject, "predicate": predicate or None}
        return self._request("GET", "/facts/history", knowledge.FactHistoryAnswer, query=query, namespace=namespace)

    def delete_fact(self, id: str) -> knowledge.FactDeletedAnswer:  # noqa: A002
        """Remove a fact; its memory stays."""
        return self._request("DELETE", f"/facts/{percent_encoded(id)}", knowledge.FactDeletedAnswer)

    def diff(
        self,
        since: int | str,
        *,
        until: int | str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        namespace: str | None = None,
    ) -> changes.DiffAnswer:
        """Return what changed in each memory since a time or a change (`seq:N`)."""
        query = {"since": since, "until": until, "limit": limit, "cursor": cursor}
        return self._request("GET", "/diff", changes.DiffAnswer, query=query, namespace=namespace)

    def undo(
        self, seq: int | None = None, group: str | None = None, *, cycle: str | None = None, dry_run: bool = False
    ) -> changes.UndoAnswer:
        """Undo the last change, or the one that is named; `cycle`: a cycle of consolidation, `last` for the last."""
        asked = changes.UndoRequest(seq=seq, group=group, cycle=cycle, dry_run=dry_run)
        return self._request("POST", "/undo", changes.UndoAnswer, asked, repeatable=dry_run)

    # Answers

    def recall(self, query: str | retrieval.RecallRequest, **fields: Any) -> retrieval.RecallAnswer:
        """Return the memories that answer `query`, best first. `fields` are those of RecallRequest."""
        asked = retrieval.RecallRequest(query=query, **fields) if isinstance(query, str) else query
        return self._request("POST", "/recall", retrieval.RecallAnswer, asked)

    def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        highlight: bool = False,
        namespace: str | None = None,
        **filters: Filter,
    ) -> retrieval.SearchAnswer:
        """Search by words only."""
        asked = {"q": query, "limit": limit, "highlight": highlight or None, **filters}
        return self._request("GET", "/search", retrieval.SearchAnswer, query=asked, namespace=namespace)

    def recent(
        self, *, limit: int | None = None, namespace: str | None = None, **filters: Filter
    ) -> retrieval.SearchAnswer:
        """Return the memories of the namespace and of `default`, by when they happened, the newest first."""
        query = {"limit": limit, **filters}
        return self._request("GET", "/recent", retrieval.SearchAnswer, query=query, namespace=namespace)

    def tags(self, namespace: str | None = None) -> memories.TagsAnswer:
        """List the tags of the namespace with their numbers of memories."""
        return self._request("GET", "/tags", memories.TagsAnswer, namespace=namespace)

    def why(self, id: str, query: str, **fields: Any) -> retrieval.WhyAnswer:  # noqa: A002
        """Explain why a memory is, or is not, among the answers to `query`. `fields` are those of RecallRequest."""
        asked = retrieval.WhyRequest(id=id, query=query, **fields)
        return self._request("POST", "/why", retrieval.WhyAnswer, asked)

    def context(self, query: str | retrieval.ContextRequest, **fields: Any) -> retrieval.ContextAnswer:
        """Return the `<memory>` block to put before a prompt; it is empty if nothing was found."""
        asked = retrieval.ContextRequest(query=query, **fields) if isinstance(query, str) else query
        return self._request("POST", "/context", retrieval.ContextAnswer, asked)

    def resume(self, *, namespace: str | None = None, **query: Filter) -> sessions.ResumeAnswer:
        """Return the text for the start of a session. `query`: `user_id`, `agent_id`, `session_id`, `task`, `tag`,
        `now`."""
        return self._request("GET", "/resume", sessions.ResumeAnswer, query=query, namespace=namespace)

    def state(self, *, namespace: str | None = None, **query: Filter) -> sessions.StateAnswer:
        """Return the tiers, topic nodes and jobs at present. `query`: `user_id`, `agent_id`, `session_id`."""
        return self._request("GET", "/state", sessions.StateAnswer, query=query, namespace=namespace)

    def triggers(self, action: str, *, namespace: str | None = None, **query: Filter) -> sessions.TriggersAnswer:
        """Return the memories to be read before an action, those tagged `trigger:ACTION`."""
        route = f"/triggers/{percent_encoded(action)}"
        return self._request("GET", route, sessions.TriggersAnswer, query=query, namespace=namespace)

    def hook(self, event: HookEvent, **fields: Any) -> sessions.HookAnswer:
        """Do what an agent does before a prompt, after a reply, or around a session. `fields` are those of
        HookRequest."""
        return self._request("POST", f"/hooks/{event}", sessions.HookAnswer, sessions.HookRequest(**fields))

    def ask(self, question: str | retrieval.AskRequest, **fields: Any) -> retrieval.AskAnswer:
        """Answer a question from memories alone, each sentence with those that it rests on."""
        asked = retrieval.AskRequest(question=question, **fields) if isinstance(question, str) else question
        return self._request("POST", "/ask", retrieval.AskAnswer, asked)

    def ask_stream(
        self, question: str | retrieval.AskRequest, **fields: Any
    ) -> Generator[retrieval.AskMemories | retrieval.AskSentence | retrieval.AskAnswer]:
        """Answer a question as `ask` does, and yield what is known meanwhile: the memories that the answer is made
        from, each sentence of a language model once it is verified, and at last the answer, which alone counts.

        Who stops reading ends the call of the model."""
        asked = retrieval.AskRequest(question=question, **fields) if isinstance(question, str) else question
        body = encode(msgspec.structs.replace(asked, stream=True))
        namespace = None if asked.namespace is not None else self.namespace
        for name, value in self._event_stream(self._send("POST", "/ask", body, namespace, repeatable=True)):
            if name == "error":
                raise RefusalError(503, decode(value, dict[str, dict[str, Any]])["error"])
            yield decode(value, _ASK_EVENTS[name])

    def events(
        self, *, types: Sequence[EventType] = (), since: int | None = None, follow: bool = True
    ) -> Generator[tuple[str, changes.Event]]:
        """Follow what happens in the namespace: yield each event with its name. `since` is the number of a change;
        without `follow` the events end with the present one."""
        query: dict[str, Filter] = {"types": list(types), "since": since, "follow": None if follow else False}
        response = self._send("GET", target_of("/events", query), None, self.namespace, repeatable=True)
        for name, value in self._event_stream(response):
            if (kind := changes.EVENTS.get(name)) is not None:  # a newer daemon may send others
                yield name, decode(value, kind)

    # The daemon and its parts

    def health(self) -> status_types.HealthAnswer:
        return self._request("GET", "/health", status_types.HealthAnswer)

    def status(self) -> status_types.StatusAnswer:
        return self._request("GET", "/status", status_types.StatusAnswer)

    def llm_usage(self, since: str | None = None) -> status_types.LlmUsageAnswer:
        """Sum up the calls of the language model, by task and model: since a time, else all that are kept."""
        return self._request("GET", "/llm/usage", status_types.LlmUsageAnswer, query={"since": since})

    def jobs(self) -> status_types.JobsAnswer:
        """Return the background jobs and how each stands."""
        return self._request("GET", "/jobs", status_types.JobsAnswer)

    def back_up(self, folder: Path | str | None = None) -> maintenance.BackupAnswer:
        """Copy the whole store into a new or empty folder, or into the data folder's `backups`."""
        asked = maintenance.BackupRequest(folder=None if folder is None else str(folder))
        return self.with_long_timeout()._request("POST", "/backup", maintenance.BackupAnswer, asked)

    def reset(self, *, confirm: bool = False) -> maintenance.ResetAnswer:
        """Empty the store after a verified backup; without `confirm` only report what would be removed."""
        asked = maintenance.ResetRequest(confirm=confirm)
        return self.with_long_timeout()._request("POST", "/reset", maintenance.ResetAnswer, asked)

    def compact(self, *, dry_run: bool = False) -> maintenance.CompactAnswer:
        """Remove the history that `history.keep` does not ask for, and free its space."""
        asked = maintenance.CompactRequest(dry_run=dry_run)
        return self.with_long_timeout()._request("POST", "/compact", maintenance.CompactAnswer, asked)

    def check(self) -> maintenance.CheckAnswer:
        """Check the integrity of everything that the daemon stores."""
        return self.with_long_timeout()._request("POST", "/check", maintenance.CheckAnswer, {}, repeatable=True)

    def exposure(self) -> maintenance.ExposureAnswer:
        """Report the memories that agents see and that seem to hold a secret."""
        return self.with_long_timeout()._request("GET", "/exposure", maintenance.ExposureAnswer)

    def repair(self, *, dry_run: bool = False) -> maintenance.RepairAnswer:
        """Repair what can be repaired; nothing is deleted."""
        asked = maintenance.RepairRequest(dry_run=dry_run)
        return self.with_long_timeout()._request("POST", "/repair", maintenance.RepairAnswer, asked, repeatable=dry_run)

    def config(self) -> status_types.ConfigAnswer:
        return self._request("GET", "/config", status_types.ConfigAnswer)

    def shutdown(self) -> int:
        """Ask the daemon to stop; return its process id. The daemon answers first, then stops."""
        return self._request("POST", "/shutdown", _ShutdownAnswer, {}).pid

    def models(self) -> status_types.ModelsAnswer:
        return self._request("GET", "/models", status_types.ModelsAnswer)

    def use_model(self, name: str) -> status_types.ModelsAnswer:
        return self._request("POST", "/models/use", status_types.ModelsAnswer, status_types.UseModelRequest(name=name))

    def reindex(
        self, *, dry_run: bool = False, force: bool = False, batch_size: int | None = None
    ) -> status_types.ReindexAnswer:
        asked = status_types.ReindexRequest(dry_run=dry_run, force=force, batch_size=batch_size)
        return self._request("POST", "/models/reindex", status_types.ReindexAnswer, asked, repeatable=True)

    def notes_status(self) -> status_types.NotesStatus:
        return self._request("GET", "/notes/status", status_types.NotesStatus)

    def notes_roots(self) -> list[status_types.NotesRootStatus]:
        return self._request("GET", "/notes/roots", status_types.NotesStatus).roots

    def add_root(self, path: Path | str, namespace: str | None = None) -> status_types.NotesRootStatus:
        """Watch a folder of notes."""
        asked = status_types.NewRootRequest(path=str(path), namespace=namespace)
        return self._request("POST", "/notes/roots", status_types.NotesRootStatus, asked)

    def remove_root(self, id: str) -> memories.BulkDeleteAnswer:  # noqa: A002 - the field's own name
        """Stop watching the folder of that id; its memories are deleted, its files are not touched."""
        return self._request("DELETE", "/notes/roots", memories.BulkDeleteAnswer, query={"id": id})

    def rescan(self) -> status_types.NotesStatus:
        """Scan every watched folder now."""
        return self._request("POST", "/notes/rescan", status_types.NotesStatus, {})

    def export(self, namespace: str | None = None, *, history: bool = True, vectors: bool = False) -> Iterator[bytes]:
        """Yield everything, or all of one namespace, one JSON value a line, as it arrives.

        The client's own namespace does not restrict it. Raises InterruptedAnswerError if it ends too early.
        """
        flags = {"history": None if history else False, "vectors": vectors or None}
        response = self._send("GET", target_of("/export", flags), None, namespace, repeatable=True)
        if response.status != 200:
            self._read_body(response)
        with self._reading(response, "the connection to the daemon ended in the middle of the export", "run it again"):
            yield from response.lines()

    def import_from(
        self,
        pieces: Iterable[bytes],
        *,
        tool: ImportTool | None = None,
        namespace: str | None = None,
        user_id: str | None = None,
        allow_forgotten: bool = False,
        dry_run: bool = False,
        group: str | None = None,
        watch: Callable[[int, int], None] = lambda done, of: None,
    ) -> maintenance.ImportAnswer:
        """Import an export of mnemo or of another tool from its bytes, into one namespace if it is given, and as part
        of the import with that group.

        The client's own namespace is not used. `watch` is called with the progress of a long import: done, total.
        Raises InterruptedAnswerError if the connection ends: what was imported by then stays, and can be imported
        again."""
        flags = {"from": tool, "user_id": user_id, "allow_forgotten": allow_forgotten or None, "group": group}
        try:
            response = self._send(
                "POST", target_of("/import", {**flags, "dry_run": dry_run or None}), pieces, namespace, repeatable=False
            )
            if response.status != 200:
                self._read_body(response)
            for line in response.lines():
                self.last_body = line
                peek = decode(line, _ErrorOrProgress)
                if peek.error is not None:
                    raise RefusalError(503, peek.error)
                if peek.progress is not None:
                    watch(*peek.progress)
        except (MalformedAnswerError, OSError) as broken:
            raise InterruptedAnswerError(
                "the connection to the daemon ended in the middle of the import", "import it again"
            ) from broken
        finally:
            self.close()
        return decode(self.last_body, maintenance.ImportAnswer)


_ASK_EVENTS: dict[str, Any] = {
    "memories": retrieval.AskMemories, "sentence": retrieval.AskSentence, "answer": retrieval.AskAnswer,
}  # fmt: skip


class _ShutdownAnswer(AnswerBody):
    pid: int


class _RawBatchAnswer(AnswerBody):
    """BatchAnswer with its results still encoded."""

    results: list[msgspec.Raw]


class _RawIngestAnswer(ingestion.IngestAnswer):
    """ingestion.IngestAnswer with its results still encoded."""

    results: list[msgspec.Raw]  # type: ignore[assignment]


class _ErrorOrProgress(AnswerBody):
    error: dict[str, Any] | None = None
    progress: tuple[int, int] | None = None


def _decode_result(result: msgspec.Raw) -> ingestion.RememberAnswer | FailureAnswer:
    if decode(result, _ErrorOrProgress).error is not None:
        return decode(result, FailureAnswer)
    return decode(result, ingestion.RememberAnswer)


def _decode_pieces(answer: _RawIngestAnswer) -> ingestion.IngestAnswer:
    """Return the answer with every result decoded, except errors."""
    results: list[Any] = [
        each if decode(each, _ErrorOrProgress).error is not None else decode(each, ingestion.PieceAnswer)
        for each in answer.results
    ]
    return ingestion.IngestAnswer(**{**msgspec.structs.asdict(answer), "results": results})
