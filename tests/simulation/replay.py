"""Conversations lived turn by turn by the daemon in simulated time: turns, pauses, ends and restarts. SPEC 8"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from random import Random
from typing import Any, NamedTuple, Protocol

from mnemo_store.records import Memory, TurnPair
from mnemo_store.tables import TURN_PAIRS
from tests.simulation.ledger import Wrong
from tests.simulation.world import World

IDLE_SECONDS = 1_860.0  # after which a session has ended by itself
SWEEP_SECONDS = 301.0
RESTARTS = 0.02  # of the turns that a restart follows; every second of them by kill -9
ENDS = 0.5  # of the sessions that are ended by request; the others by a pause


class ReplayedTurn(Protocol):
    """A turn of a conversation."""

    @property
    def id(self) -> str: ...
    @property
    def session(self) -> int: ...
    @property
    def speaker(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def at(self) -> datetime: ...


class ReplayedTalk(Protocol):
    """A conversation: the first of its speakers is the person, the other one the agent."""

    @property
    def name(self) -> str: ...
    @property
    def turns(self) -> Sequence[Any]: ...
    @property
    def speakers(self) -> Sequence[str]: ...


class StoredTurn(NamedTuple):
    """A turn that was acknowledged; `reason`: why it was set aside, "" where it was not."""

    id: str  # of the conversation
    memory_id: str
    text: str
    reason: str = ""


class ConversationReplay:
    """Lives a conversation in a world, as a namespace of its own."""

    def __init__(self, world: World, talk: ReplayedTalk, chance: Random, restarts: float = RESTARTS) -> None:
        self.turns: list[StoredTurn] = []
        self.did: Counter[str] = Counter()
        self._world = world
        self._talk = talk
        self._chance = chance
        self._restarts = restarts

    def live(self) -> None:
        """Say every turn at its time, end each session, and let the world come to rest."""
        for session, turns in groupby(self._talk.turns, key=lambda turn: turn.session):
            self._live_session(f"{self._talk.name}-{session}", list(turns))
        self.rest()

    def rest(self) -> None:
        """Let background work find nothing more to do."""
        for _ in range(4):
            self._world.step(SWEEP_SECONDS)

    def tier_counts(self) -> Counter[str]:
        """Count the turns by the place where they ended: their tier or state, or why they were set aside."""
        found: Counter[str] = Counter()
        for turn, memory in zip(self.turns, self._memories(), strict=True):
            if memory is not None and memory.turn is not None and not turn.reason:
                found[memory.turn.tier if memory.state == "active" else memory.state] += 1
            elif turn.reason == "duplicate" and memory is not None and memory.state == "active":
                found["said before"] += 1
            elif turn.reason and (memory is None or memory.state == "discarded"):  # they are removed after 30 days
                found[f"discarded {turn.reason}"] += 1
            else:
                raise Wrong(f"the turn {turn.id} was acknowledged as {turn.reason or 'kept'}, and is not")
        return found

    def pairs(self) -> list[TurnPair]:
        """The pairs of its turns."""
        with self._world.store.snapshot() as snapshot:
            return [pair for pair in snapshot.scan(TURN_PAIRS, limit=snapshot.size(TURN_PAIRS))
                    if pair.namespace == self._talk.name]  # fmt: skip

    def check_pairs(self) -> None:
        """Raise Wrong unless the turns in the registry are exactly those of the pairs, each in one, in a node."""
        in_pairs = Counter(turn for pair in self.pairs() for turn in {pair.id, pair.reply})
        if twice := [turn for turn, count in in_pairs.items() if count > 1]:
            raise Wrong(f"turns in two pairs: {twice[:3]}")
        filed = {each.id for each in self._memories() if each is not None and each.turn is not None
                 and each.turn.tier == "registry" and each.state == "active"}  # fmt: skip
        if filed != in_pairs.keys():
            raise Wrong(f"{len(filed - in_pairs.keys())} turns without pair, {len(in_pairs.keys() - filed)} not filed")
        if homeless := [pair.id for pair in self.pairs() if not pair.node]:
            raise Wrong(f"pairs without a topic node: {homeless[:3]}")

    def lost(self) -> Iterator[StoredTurn]:
        """The turns that are kept and not found by their own text."""
        for turn in self.turns:
            if not turn.reason:
                asked = {"query": turn.text, "top_k": 10, "dry": True, "token_budget": None}
                found = self._world.ask("POST", "/v1/recall", asked, namespace=self._talk.name)
                if turn.memory_id not in {each["id"] for each in found.value["memories"]}:
                    yield turn

    def _live_session(self, session: str, turns: Sequence[ReplayedTurn]) -> None:
        self._go_on_to(turns[0].at)
        for turn in turns:
            self._go_on_to(turn.at)
            self._say(session, turn)
            self._world.step()
            if self._chance.random() < self._restarts:
                self._restart()
        if self._chance.random() < ENDS:
            self.did["ended by request"] += 1
            self._world.ask("POST", f"/v1/sessions/{session}/end", {}, namespace=self._talk.name)
        else:
            self.did["ended by a pause"] += 1
            self._world.step(IDLE_SECONDS)
        self._world.step(SWEEP_SECONDS)

    def _say(self, session: str, turn: ReplayedTurn) -> None:
        role = "user" if turn.speaker == self._talk.speakers[0] else "agent"
        said = {"role": role, "speaker": turn.speaker, "content": turn.text}
        answer = self._world.ask("POST", "/v1/turns", {"session_id": session, "turns": [said]},
                                 namespace=self._talk.name)  # fmt: skip
        (result,) = answer.value["results"]
        memory = result.get("memory")
        if memory is not None:
            reason = "" if result["outcome"] in ("stored", "repeats") else result["reason"] or result["outcome"]
            self.turns.append(StoredTurn(turn.id, memory["id"], turn.text, reason))

    def _restart(self) -> None:
        is_killed = self._chance.random() < 0.5
        self.did["killed" if is_killed else "restarted"] += 1
        (self._world.kill if is_killed else self._world.close)()
        self._world.open()
        self._world.step()

    def _go_on_to(self, at: datetime) -> None:
        """Let the time pass until then; a conversation whose time has passed goes on at once."""
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        clock = self._world.clock
        clock.go_on(max(1.0, at.timestamp() - clock.milliseconds / 1000))

    def _memories(self) -> list[Memory | None]:
        with self._world.store.snapshot() as snapshot:
            return [snapshot.memory(turn.memory_id) for turn in self.turns]
