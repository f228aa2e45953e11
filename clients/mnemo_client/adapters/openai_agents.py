"""The Session of the OpenAI Agents SDK on the memory of this machine. SPEC 20

    from agents import Agent, Runner, RunConfig
    from mnemo_client.adapters.openai_agents import MnemoSession

    session = MnemoSession("support-42")
    agent = Agent(name="Helper", instructions="Answer briefly.", model=model)
    config = RunConfig(tracing_disabled=True)
    Runner.run_sync(agent, "My name is Ines.", session=session, run_config=config).final_output
    Runner.run_sync(agent, "What is my name?", session=session, run_config=config).final_output
    session.session_id

Every item is kept whole, hidden from recall: as a memory of kind `working` in a session of its own. What a person or
the model says in words is a turn of the conversation besides, which recall finds.
"""

import asyncio
import contextlib
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from agents import TResponseInputItem
from agents.memory import SessionSettings
from agents.memory.session_settings import resolve_session_limit

from mnemo_client.adapters.stored_values import NewValue, StoredValues, json_text
from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_client.paths import socket_path
from mnemo_client.protocol.choices import TurnRole
from mnemo_client.protocol.ingestion import PieceAnswer, Turn, TurnsRequest
from mnemo_client.protocol.memories import MemoryView

ITEMS_SESSION = "openai-agents/"  # and the session's id: the session of its items, which no conversation has
ID_CHARS_MAX = 114  # of a session: 128 with the former
TURN_CHARS_MAX = 8192  # SPEC 2.1
TURNS_MAX = 1000  # in one request. SPEC 13
ROLES: dict[str, TurnRole] = {"user": "user", "assistant": "assistant"}

T = TypeVar("T")


class MnemoSession:
    """A session in the namespace of a client; without one, in that of the daemon of this machine.

    turns: whether what is said is also stored as turns of the conversation, so that recall finds it.
    """

    def __init__(
        self, session_id: str, client: Client | None = None, *, turns: bool = True,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        if not 0 < len(session_id) <= ID_CHARS_MAX:
            raise ValueError(f"a session id has 1 to {ID_CHARS_MAX} characters, not {len(session_id)}")
        self.session_id = session_id
        self.session_settings = SessionSettings().resolve(session_settings)
        self._values = StoredValues(client or Client(socket_path(os.environ)), "openai-agents")
        self._session = ITEMS_SESSION + session_id
        self._keeps_turns = turns

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items in the order in which they were added: of `limit`, the last ones."""
        return await self._run(self._get, resolve_session_limit(limit, self.session_settings))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items behind those that are there: all of them, or none if one is refused."""
        if items:
            await self._run(self._add, list(items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item, with its turn, to the trash, and return it; None if there is none."""
        return await self._run(self._pop)

    async def clear_session(self) -> None:
        """Move all items and their turns to the trash."""
        await self._run(lambda: self._remove(list(self._memories())))

    async def _run(self, function: Callable[..., T], *args: Any) -> T:
        """Return what a function returns that waits for the daemon. It is finished even where nobody waits for it."""
        return await asyncio.shield(asyncio.to_thread(self._locked, function, *args))

    def _locked(self, function: Callable[..., T], *args: Any) -> T:
        with self._values.lock:
            return function(*args)

    def _memories(self) -> Iterator[MemoryView]:
        return self._values.newest(session_id=self._session)

    def _get(self, limit: int | None) -> list[TResponseInputItem]:
        found: list[TResponseInputItem] = []
        for memory in self._memories():
            if limit is not None and 0 <= limit <= len(found):
                break
            found.append(self._values.value_of(memory))
        return found[::-1]

    def _add(self, items: Sequence[TResponseInputItem]) -> None:
        for item in items:
            json_text(item)  # raises for what cannot be stored, before anything is
        turns = self._add_turns(items) if self._keeps_turns else [None] * len(items)
        values = [
            NewValue(
                f"{self.session_id}/{uuid.uuid4().hex}", item, "working", session_id=self._session,
                derived_from=[turn] if turn else [],
            )
            for item, turn in zip(items, turns, strict=True)
        ]  # fmt: skip
        known = {value.key for value in values}
        try:
            self._values.put(values)
        except MnemoError:
            with contextlib.suppress(MnemoError):
                self._values.delete([memory for memory in self._memories() if memory.key in known])
                self._values.delete_ids([turn for turn in turns if turn])
            raise

    def _add_turns(self, items: Sequence[TResponseInputItem]) -> list[str | None]:
        """Store what was said; return the id of the new memory of each item, None for one that made none."""
        said = [(place, turn) for place, item in enumerate(items) if (turn := _turn_of(item)) is not None]
        ids: list[str | None] = [None] * len(items)
        for first in range(0, len(said), TURNS_MAX):
            part = said[first : first + TURNS_MAX]
            answer = self._values.client.turns(
                TurnsRequest(session_id=self.session_id, turns=[turn for _, turn in part])
            )
            for (place, _), result in zip(part, answer.results, strict=True):
                if isinstance(result, PieceAnswer) and result.memory is not None and result.outcome == "stored":
                    ids[place] = result.memory.id
        return ids

    def _pop(self) -> TResponseInputItem | None:
        last = next(self._memories(), None)
        if last is None:
            return None
        item: TResponseInputItem = self._values.value_of(last)
        self._remove([last])
        return item

    def _remove(self, memories: Sequence[MemoryView]) -> None:
        self._values.delete(memories)
        self._values.delete_ids([turn for memory in memories for turn in memory.derived_from])


def _turn_of(item: Any) -> Turn | None:
    """Return what a message says in words as a turn; None for any other item."""
    if item.get("type", "message") != "message" or item.get("role") not in ROLES:
        return None
    content = item.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    text = "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    text = text.replace("\0", "").encode(errors="replace").decode().strip()
    return Turn(role=ROLES[item["role"]], content=text[:TURN_CHARS_MAX]) if text else None
