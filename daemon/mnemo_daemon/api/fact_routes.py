"""The routes of the fact graph. SPEC 10.3, 13"""

from collections.abc import Sequence

from msgspec import UNSET

from mnemo_client.protocol import operations
from mnemo_client.protocol.knowledge import (
    ConflictView,
    DecideConflictAnswer,
    DecideConflictRequest,
    FactConflictsAnswer,
    FactConflictsQuery,
    FactDeletedAnswer,
    FactGraphAnswer,
    FactGraphQuery,
    FactHistoryAnswer,
    FactHistoryQuery,
    FactsAnswer,
    FactsQuery,
    FactView,
    NewFacts,
    NewFactsAnswer,
)
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.primitives import ScopedRequest
from mnemo_core.ingest.facts import Conflict
from mnemo_core.ingest.write_plan import StatedFact
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.api import access, request_codec
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.indexing.fact_index import FactScope
from mnemo_daemon.ingest.ingest_pipeline import Submission
from mnemo_daemon.knowledge.fact_service import FactService, ListedFact, sentence_of
from mnemo_daemon.memories.memory_service import SAID, Caller
from mnemo_daemon.retrieval.explanations import fact_chain_view
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.table_walk import cursor_at, place_at
from mnemo_daemon.times import parse_past_time, parse_time

SOURCE = "facts"  # of a memory that states an inserted fact


class FactsApi(Resource):
    """The handlers."""

    @handles(operations.ADD_FACTS)
    async def insert(self, request: Request) -> Reply:
        services = self._services
        asked: NewFacts = request.ask
        caller = access.caller_of(request, asked.agent_id)
        group = services.store.new_id()
        scope = self._scope(request, asked.user_id)
        apart, attached = await self._workers.run(self._read, request, caller)
        by_memory: dict[str, list[StatedFact]] = {}
        for memory_id, fact in attached:
            by_memory.setdefault(memory_id, []).append(fact)
        await self._workers.run(self._facts.check, by_memory, caller)  # before anything is written
        stated, seq = list[tuple[str, StatedFact]](), 0
        for submission, result in zip(apart, await services.ingest.ingest(apart, caller, group), strict=True):
            if isinstance(result, Refusal):
                raise result
            stated += [(result.decision.memory.id, fact) for fact in submission.facts or ()]
            seq = max(seq, result.seq)
        if attached:
            seq = max(seq, await self._workers.run(self._facts.attach, by_memory, caller, group))
            stated += attached
        await services.wait_until_open()  # a write may have found the disk failing
        made = await self._workers.run(self._facts.inserted, stated, scope)
        return Reply(NewFactsAnswer(
            facts=[_view(each) for each in made.facts], conflicts=self._conflicts(made.conflicts, scope),
            resolved=[_view(each) for each in made.resolved], namespace=access.namespace_of(request),
            seq=seq or None, group=group if seq else None,
        ), 201)  # fmt: skip

    @handles(operations.FACTS)
    async def find(self, request: Request) -> Reply:
        query: FactsQuery = request.query
        scope, entity = self._scope(request, query.user_id), request_codec.clean_text(query.entity, "entity")
        at = None if query.as_of is None else parse_past_time(query.as_of, "as_of", scope.now)
        found = await self._workers.run(
            lambda: self._facts.find(entity, scope, at=at, include_superseded=query.include_superseded)
        )
        after = place_at(query.cursor)
        behind = [each for each in found if after is None or (each.fact.valid_from, each.fact.id) < after]
        shown = behind[: query.limit]
        last = shown[-1].fact if len(behind) > len(shown) else None
        return Reply(FactsAnswer(
            facts=[_view(each) for each in shown], count=len(found), namespace=access.namespace_of(request),
            cursor=None if last is None else cursor_at((last.valid_from, last.id)),
            degraded=[] if self._facts.is_whole else ["facts"],
        ))  # fmt: skip

    @handles(operations.FACT_GRAPH)
    async def graph(self, request: Request) -> Reply:
        query: FactGraphQuery = request.query
        entity = request_codec.clean_text(query.entity, "entity")
        scope = self._scope(request, query.user_id)
        entities, found = await self._workers.run(self._facts.graph, entity, query.hops, scope)
        chains = [fact_chain_view(chain) for chain in found.chains]
        return Reply(FactGraphAnswer(entities=entities, chains=chains, is_whole=found.is_whole and self._facts.is_whole,
                                     namespace=access.namespace_of(request)))  # fmt: skip

    @handles(operations.FACT_CONFLICTS)
    async def conflicts(self, request: Request) -> Reply:
        query: FactConflictsQuery = request.query
        scope = self._scope(request, query.user_id)
        found = await self._workers.run(self._facts.conflicts, query.subject, query.predicate, scope)
        conflicts = await self._workers.run(self._conflicts, found, scope)
        return Reply(FactConflictsAnswer(conflicts=conflicts, namespace=access.namespace_of(request)))

    @handles(operations.DECIDE_CONFLICT)
    async def decide(self, request: Request) -> Reply:
        asked: DecideConflictRequest = request.ask
        namespace = access.writable_namespace(request)
        scope = self._scope(request, asked.user_id)
        at = scope.now if asked.at is None else parse_past_time(asked.at, "at", scope.now)
        if asked.at is not None and asked.keep is None:
            raise bad_value("`at` is when the others ended: name the fact to `keep`", "at")
        found, seq = await self._workers.run(
            self._facts.decide, asked.facts, asked.keep, at, scope, access.caller_of(request)
        )
        await self._services.wait_until_open()
        return Reply(DecideConflictAnswer(facts=list(map(_view, found)), seq=seq or None, namespace=namespace))

    @handles(operations.FACT_HISTORY)
    async def history(self, request: Request) -> Reply:
        query: FactHistoryQuery = request.query
        scope = self._scope(request, query.user_id)
        found = await self._workers.run(self._facts.history, query.subject, query.predicate, scope)
        return Reply(FactHistoryAnswer(history=list(map(_view, found)), namespace=access.namespace_of(request)))

    @handles(operations.DELETE_FACT)
    async def delete(self, request: Request) -> Reply:
        query: ScopedRequest = request.query
        fact_id, scope = request.path["id"], self._scope(request, query.user_id)
        seq = await self._workers.run(self._facts.delete, fact_id, scope, access.caller_of(request))
        await self._services.wait_until_open()
        return Reply(FactDeletedAnswer(deleted=1, id=fact_id, seq=seq or None))

    @property
    def _facts(self) -> FactService:
        return self._services.facts

    def _scope(self, request: Request, user_id: str | None) -> FactScope:
        namespaces = access.visible_namespaces(access.namespace_of(request))
        return FactScope(
            namespaces, user_id or "local", not access.hidden_tags(request), self._services.store.now()
        )  # fmt: skip

    def _conflicts(self, found: Sequence[Conflict], scope: FactScope) -> list[ConflictView]:
        return [
            ConflictView(
                subject=each.subject, predicate=each.predicate,
                facts=[_view(one) for one in self._facts.listed(each.facts, scope)],
            )
            for each in found
        ]  # fmt: skip

    def _read(self, request: Request, caller: Caller) -> tuple[list[Submission], list[tuple[str, StatedFact]]]:
        """The inserted facts: those that get a memory of their own, and those of existing ones, with their ids. Raises
        a Refusal."""
        asked: NewFacts = request.ask
        services, apart, attached = self._services, list[Submission](), list[tuple[str, StatedFact]]()
        for place, each in enumerate(asked.facts):
            at = f"facts[{place}]"
            valid_from = None if each.valid_from is None else parse_time(each.valid_from, f"{at}.valid_from")
            parts = {name: getattr(each, name) for name in ("subject", "predicate", "object")}
            texts = {name: " ".join(request_codec.clean_text(text, f"{at}.{name}").split())
                     for name, text in parts.items()}  # fmt: skip
            if empty := next((name for name, text in texts.items() if not text), None):
                raise bad_value(f"the {empty} of a fact is a text", f"{at}.{empty}")
            fact = StatedFact(**texts, valid_from=valid_from, method=SAID)
            memory = NewMemory(
                content=sentence_of(fact), source=SOURCE, user_id=asked.user_id,
                agent_id=UNSET if asked.agent_id is None else asked.agent_id,
                event_at=UNSET if valid_from is None else valid_from,
            )  # fmt: skip
            policy, now = services.secret_policy(), services.store.now()
            draft, masked = request_codec.draft_of(request, memory, policy, now)
            if masked or (each.memory_id is not None and SENSITIVE_TAG in draft.tags):
                raise Refusal(422, "refused", "the fact holds a secret: remember it as a text instead", field=at)
            if each.memory_id is not None:
                attached.append((services.memories.resolve(each.memory_id, caller, f"{at}.memory_id"), fact))
            else:
                apart.append(Submission(draft, infer=False, facts=(fact,)))
        return apart, attached


def _view(listed: ListedFact) -> FactView:
    fact, state = listed.fact, listed.state
    return FactView(
        id=fact.id, memory_id=fact.memory, subject=fact.subject, predicate=fact.predicate, object=fact.object,
        status=listed.status, valid_from=fact.valid_from, valid_to=state.valid_to or None,
        superseded_by=state.superseded_by or None, conflicts_with=list(state.conflicts_with),
        namespace=fact.namespace, user_id=fact.user_id, created_at=fact.created_at, method=fact.method,
    )  # fmt: skip
