"""A store with one conversation, without a socket: what is said, and where each turn is."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from mnemo_core.ingest.policies import OWN_POLICY, Policy
from mnemo_core.ingest.session_records import SessionScope
from mnemo_core.sessions import tiers
from mnemo_core.sessions.tiers import REGISTRY_MAX
from mnemo_daemon.sessions.session_service import SessionService
from mnemo_daemon.sessions.turn_tiers import TurnTiers
from mnemo_store.record_texts import session_key
from mnemo_store.records import ConversationTurn, Session, TurnPair
from mnemo_store.tables import SESSIONS, TURN_PAIRS
from tests.support.store_services import StoreServices

SCOPE = SessionScope("default", "local", "talk")
KEY = session_key(*SCOPE)


class ConversationServices:
    """A store with its sessions, in which one session goes on."""

    def __init__(self, folder: Path, registry_max: int = REGISTRY_MAX, policy: Policy = OWN_POLICY) -> None:
        self.said: list[str] = []
        self._folder = folder
        self._registry_max = registry_max
        self.policy = policy
        self._open(at=1000)

    def _open(self, at: int) -> None:
        self.services = StoreServices(self._folder)
        self.services.at = at
        self.sessions = SessionService(self.services.store, self.services.views)
        self.tiers = TurnTiers(
            self.services.store, self.services.views, self.sessions, self._registry_max, lambda _: self.policy
        )

    def restart(self) -> None:
        self.services.close()
        self._open(self.services.at)

    def say(self, count: int = 1, session: str = "talk", role: Literal["user", "agent"] | None = None) -> list[str]:
        """Turns of both sides in turn, a second apart."""
        ids = []
        for _ in range(count):
            self.services.at += 1000
            number = len(self.said)
            side = role or ("agent" if number % 2 else "user")
            self.said.append(
                self.services.add(f"Turn {number} of the talk.", session_id=session, source="turn",
                              turn=ConversationTurn(role=side))
            )  # fmt: skip
            ids.append(self.said[-1])
        return ids

    def push_out(self) -> None:
        while self.tiers.is_push_out_due():
            self.tiers.push_out_slice()

    def sweep(self) -> None:
        while self.tiers.sweep_slice():
            pass

    def place(self, memory_id: str) -> str:
        """The place of a turn: its state where it is not active, else its tier."""
        memory = self.services.memory(memory_id)
        return tiers.tier_of(memory) if memory.state == "active" else memory.state

    def summary(self, memory_id: str) -> str:
        turn = self.services.memory(memory_id).turn
        assert turn is not None
        return turn.summary

    def places(self) -> Counter[str]:
        return Counter(map(self.place, self.said))

    def pairs(self) -> list[TurnPair]:
        with self.services.store.snapshot() as snapshot:
            return snapshot.scan(TURN_PAIRS)

    def session(self) -> Session | None:
        with self.services.store.snapshot() as snapshot:
            return snapshot.get(SESSIONS, KEY)


@contextmanager
def conversation_services_in(folder: Path, policy: Policy = OWN_POLICY) -> Iterator[ConversationServices]:
    talk = ConversationServices(folder, policy=policy)
    try:
        yield talk
    finally:
        talk.services.close()
