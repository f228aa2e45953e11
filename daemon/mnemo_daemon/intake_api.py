"""The doors: one memory, many, a text, the turns of a conversation; and classifying anew. SPEC 5, 13."""

import asyncio
import functools
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from mnemo_client import protocol
from mnemo_core import chunking, markup, secrets
from mnemo_core.profiles import Profile
from mnemo_daemon import wire
from mnemo_daemon.app import Daemon
from mnemo_daemon.backup_api import refuse_agents
from mnemo_daemon.intake import Asked, Intake, Took
from mnemo_daemon.memories import Caller
from mnemo_daemon.reclassifying import Reclassifying
from mnemo_daemon.refusals import Refusal, bad_value
from mnemo_daemon.routes import BULK_BYTES_MAX, Reply, Request, Route, decode
from mnemo_store.records import CONTENT_CHARS_MAX

INDEXED_SECONDS_MAX = 10.0  # how long `wait: indexed` waits for the vector
INDEXED_POLL_SECONDS = 0.002
MARKED_UP = (".rst", ".rst.txt", ".org")  # of a source: how its text is read where it is no Markdown
ECHO = "echo"  # why nothing of a text was stored: the daemon itself had handed it out


class _Put(NamedTuple):
    """What was asked for at one place of a batch, and what its answer is to have."""

    asked: Asked
    wait: protocol.Wait = "stored"
    explain: bool = False


class _Nothing(NamedTuple):
    """Nothing is left of it to be remembered, and why; the memories whose text it was."""

    reason: str
    echoes: tuple[str, ...] = ()


_Read = _Put | _Nothing | Refusal


class IntakeApi:
    """The handlers. Texts are cleaned, masked and split on threads."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def routes(self) -> list[Route]:
        """Of the doors, and what goes with them."""
        read_only = protocol.READ_ONLY
        return [
            Route("POST", "/v1/memories", self.remember, protocol.Remembered, "Remember one thing",
                  ask=protocol.NewMemory, statuses=(200, 201), read_only=read_only),
            Route("POST", "/v1/memories/batch", self.remember_many, protocol.BatchAnswer, "Remember up to 1,000",
                  ask=protocol.NewMemories, body_max=BULK_BYTES_MAX),
            Route("POST", "/v1/ingest", self.ingest, protocol.TakenAnswer, "Remember a text, piece by piece",
                  ask=protocol.IngestRequest, body_max=BULK_BYTES_MAX),
            Route("POST", "/v1/turns", self.turns, protocol.TakenAnswer, "Remember what was said in a conversation",
                  ask=protocol.TurnsRequest, body_max=BULK_BYTES_MAX),
            Route("POST", "/v1/reclassify", self.reclassify, protocol.ReclassifyAnswer,
                  "Route and score anew what a rule did; without `dry_run: false` says what would change",
                  ask=protocol.ReclassifyRequest),
        ]  # fmt: skip

    async def remember(self, request: Request) -> Reply:
        await self._daemon.opened()
        put = await self._intake.off_loop(1, self._put, request, request.ask)
        group = self._daemon.store.new_id() if self._intake.infers(put.asked) else ""
        caller = wire.caller_of(request, put.asked.draft.agent_id)
        (took,) = await self._intake.take([put.asked], caller, group)
        if isinstance(took, Refusal):
            raise took
        await self._daemon.opened()  # a write may have found the disk failing
        fields = await self._fields(took, put)
        view = wire.memory_view(self._daemon.memories.get(took.decision.memory.id), self._daemon.root_paths())
        answer = protocol.Remembered(**fields, memory=view, group=group or None)
        return Reply(answer, 201 if took.decision.outcome in ("stored", "repeats") else 200)

    async def remember_many(self, request: Request) -> Reply:
        await self._daemon.opened()
        size = len(request.ask.memories)
        read = await self._intake.off_loop(size, self._read_many, request)
        group = self._daemon.store.new_id()
        agent_id = next(
            (each.asked.draft.agent_id for each in read if isinstance(each, _Put) and each.asked.draft.agent_id), ""
        )
        results = await self._taken(read, wire.caller_of(request, agent_id), group, protocol.Remembered)
        return Reply(protocol.BatchAnswer(results=results, group=group))

    async def ingest(self, request: Request) -> Reply:
        await self._daemon.opened()
        asked: protocol.IngestRequest = request.ask
        size = len(asked.text) // CONTENT_CHARS_MAX
        read = await self._intake.off_loop(size, self._read_text, request, asked)
        return Reply(await self._answer(request, read))

    async def turns(self, request: Request) -> Reply:
        await self._daemon.opened()
        asked: protocol.TurnsRequest = request.ask
        read = await self._intake.off_loop(len(asked.turns), self._read_turns, request, asked)
        return Reply(await self._answer(request, read))

    async def reclassify(self, request: Request) -> Reply:
        await self._daemon.opened()
        refuse_agents(request)
        asked: protocol.ReclassifyRequest = request.ask
        namespace = wire.writable_namespace(request, asked.namespace)
        daemon = self._daemon
        reclassifying = Reclassifying(daemon.store, daemon.views, daemon.indexing, lambda: daemon.settings)
        find = functools.partial(reclassifying.run, namespace, asked.user_id or "local", wire.caller_of(request).name)
        return Reply(await self._intake.off_loop(CONTENT_CHARS_MAX, find, asked.dry_run))

    # What came in, on a thread

    @property
    def _intake(self) -> Intake:
        return self._daemon.intake

    def _put(self, request: Request, asked: protocol.NewMemory) -> _Put:
        daemon = self._daemon
        draft, masked = wire.draft_of(request, asked, daemon.mask_key, daemon.settings.privacy.mask, daemon.store.now())
        taken = Asked(draft, dedup=asked.dedup, infer=asked.infer, masked=tuple(masked), explain=asked.explain)
        return _Put(taken, asked.wait, asked.explain)

    def _read_many(self, request: Request) -> list[_Read]:
        """Each of a batch by itself: what is wrong with one stops no other."""
        read: list[_Read] = []
        for place, raw in enumerate(request.ask.memories):
            at = f"memories[{place}]"
            try:
                asked = decode(raw, protocol.NewMemory, read_only=protocol.READ_ONLY, at=at)
                if request.namespace and asked.namespace and asked.namespace != request.namespace:
                    raise bad_value("the namespace is another than the batch's", f"{at}.namespace")
                read.append(self._put(request, asked))
            except Refusal as refusal:
                read.append(refusal)
        return read

    def _read_text(self, request: Request, asked: protocol.IngestRequest) -> list[_Read]:
        """A text without what the daemon had handed out, masked, in pieces."""
        daemon, mask = self._daemon, self._daemon.settings.privacy.mask
        namespace = wire.writable_namespace(request, asked.namespace)
        profile = self._intake.profile(namespace)
        text, echoes = self._without_echo(wire.cleaned(asked.text, "text"), asked.session_id or "", profile)
        kinds: Sequence[str] = ()
        if mask != "off":
            text, kinds = secrets.mask(text, daemon.mask_key)
        read: list[_Read] = []
        pieces = self._pieces(text, asked.source or "", profile)
        for draft in wire.pieces_of(request, asked, mask, pieces, daemon.store.now()):
            masked = tuple(kind for kind in dict.fromkeys(kinds) if f"[masked:{kind}:" in draft.content)
            taken = Asked(draft, "ingest", dedup=asked.dedup, infer=asked.infer, masked=masked, explain=asked.explain)
            read.append(_Put(taken, asked.wait, asked.explain))
        return read if read or not echoes else [_Nothing(ECHO, echoes)]

    def _pieces(self, text: str, source: str, profile: Profile) -> list[str]:
        """SPEC 5.2. A source that is named like a note of another markup than Markdown is read as such."""
        if not text:
            return []
        if profile.split == "whole" and len(text) <= CONTENT_CHARS_MAX:
            return [text]
        serving = self._daemon.indexing.serving()
        count = serving.embedder.count_tokens if serving is not None else chunking.estimate_tokens
        if profile.split == "paragraphs":
            return [chunk.text for chunk in chunking.split(text, chunking.bounded(count))]
        suffix = markup.suffix_of(source)
        suffix = suffix if suffix in MARKED_UP else ".md"
        return [chunk.text for chunk in chunking.split_text(text, count, suffix)]

    def _read_turns(self, request: Request, asked: protocol.TurnsRequest) -> list[_Read]:
        """Each turn by itself: what is wrong with one stops no other."""
        profile = self._intake.profile(wire.writable_namespace(request, asked.namespace))
        now = self._daemon.store.now()
        read: list[_Read] = []
        for place in range(len(asked.turns)):
            try:
                read.append(self._read_turn(request, asked, place, profile, now))
            except Refusal as refusal:
                read.append(refusal)
        return read

    def _read_turn(
        self, request: Request, asked: protocol.TurnsRequest, place: int, profile: Profile, now: int
    ) -> _Read:
        daemon, turn, field = self._daemon, asked.turns[place], f"turns[{place}].content"
        text, echoes = self._without_echo(wire.cleaned(turn.content, field), asked.session_id, profile)
        if not text:
            return _Nothing(ECHO, echoes) if echoes else _Nothing("too_short")
        if len(text) > CONTENT_CHARS_MAX:
            message = f"the turn has {len(text)} characters, at most {CONTENT_CHARS_MAX}: ingest it as a text"
            raise bad_value(message, field)
        draft, masked = wire.turn_of(
            request, asked, place, daemon.mask_key, daemon.settings.privacy.mask, text, now
        )  # fmt: skip
        taken = Asked(
            draft, "turn", wire.role_of(turn), dedup=asked.dedup, infer=False, masked=tuple(masked), echoes=echoes,
            explain=asked.explain,
        )  # fmt: skip
        return _Put(taken, asked.wait, asked.explain)

    def _without_echo(self, text: str, session: str, profile: Profile) -> tuple[str, tuple[str, ...]]:
        if not profile.strips_echo or not text:
            return text, ()
        rest, ids = self._intake.without_echo(text, session)
        self._intake.credit(session, ids)
        return wire.cleaned(rest, "text"), ids

    # What became of it

    async def _answer(self, request: Request, read: Sequence[_Read]) -> protocol.TakenAnswer:
        group = self._daemon.store.new_id()
        results = await self._taken(read, wire.caller_of(request, request.ask.agent_id), group, protocol.Taken)
        counts = Counter(each.outcome if isinstance(each, protocol.Taken) else "refused" for each in results)
        return protocol.TakenAnswer(
            results=results, counts=dict(sorted(counts.items())), group=group,
            namespace=request.namespace or request.ask.namespace or wire.DEFAULT_NAMESPACE,
            degraded=self._degraded(),
        )  # fmt: skip

    async def _taken(
        self, read: Sequence[_Read], caller: Caller, group: str, kind: type[protocol.Remembered] | type[protocol.Taken]
    ) -> list[Any]:
        """The answer to each, in order; a text that is only begun to be told does not hold up the others."""
        puts = [each for each in read if isinstance(each, _Put)]
        took = iter(await self._intake.take([put.asked for put in puts], caller, group) if puts else ())
        await self._daemon.opened()  # a write may have found the disk failing
        settled: list[Any] = []
        for each in read:
            match each:
                case Refusal():
                    settled.append(each)
                case _Nothing(reason=reason, echoes=echoes):
                    settled.append(protocol.Taken(outcome="discarded", reason=reason, related=list(echoes)))
                case _:
                    result = next(took)
                    if isinstance(result, Took):
                        settled.append((result, await self._fields(result, each)))
                    else:
                        settled.append(result)
        return await self._intake.off_loop(len(read), self._shaped, settled, kind)

    def _shaped(self, settled: Sequence[Any], kind: type[protocol.Remembered] | type[protocol.Taken]) -> list[Any]:
        """The answers with their memories, on a thread: there may be thousands."""
        roots = self._daemon.root_paths()
        shaped: list[Any] = []
        for each in settled:
            try:
                if isinstance(each, Refusal):
                    raise each
                if isinstance(each, tuple):
                    took, fields = each
                    found = self._daemon.memories.get(took.decision.memory.id)
                    shaped.append(kind(**fields, memory=wire.memory_view(found, roots)))
                else:
                    shaped.append(each)
            except Refusal as refusal:
                shaped.append(msgspec.Raw(msgspec.json.encode(refusal.answer())))
        return shaped

    async def _fields(self, took: Took, put: _Put) -> dict[str, Any]:
        """What is answered of it beside the memory."""
        fields = wire.decided(took, explain=put.explain)
        indexed, degraded = took.item.is_seen, self._degraded()
        if put.wait != "stored" and took.decision.outcome != "discarded":
            indexed = await self._is_indexed_in_time(took.decision.memory.id)
            degraded = [] if indexed else ["vectors"]
        return fields | {"indexed": indexed, "degraded": degraded}

    def _degraded(self) -> list[str]:
        return ["vectors"] if self._daemon.indexing.serving() is None or self._daemon.store.degraded else []

    async def _is_indexed_in_time(self, memory_id: str) -> bool:
        """Whether its vector came while there was hope of it. No thread waits here: recalls need those."""
        daemon, loop = self._daemon, asyncio.get_running_loop()
        with daemon.store.snapshot() as snapshot:
            number = snapshot.number(memory_id)
        deadline = loop.time() + INDEXED_SECONDS_MAX
        while number is not None and not daemon.stopped.is_set() and loop.time() < deadline:
            if daemon.indexing.holds(number):
                return True
            if daemon.embedding.status().state not in ("ready", "loading"):
                return False
            await asyncio.sleep(INDEXED_POLL_SECONDS)
        return False
