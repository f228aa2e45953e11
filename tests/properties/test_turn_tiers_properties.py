"""Every turn that was stored is in one tier, whatever happens to its conversation in whatever order. SPEC 8, 17.1"""

from random import Random
from typing import Literal, NamedTuple, get_args

import pytest

from mnemo_core.ingest.policies import OWN_POLICY
from mnemo_core.ingest.session_records import SessionScope
from mnemo_core.sessions.tiers import IDLE_MS, RECENT_MAX, RING_ITEMS, is_live_turn, judged
from mnemo_daemon.sessions.session_service import pair_at
from mnemo_store.backend import Snapshot
from mnemo_store.records import DropMemory, PutMemory
from mnemo_store.store import WriteResult
from tests.support.conversation_services import ConversationServices
from tests.support.samples import WAIT_SECONDS, quick_folder, write

DAY = 86_400_000
SESSIONS = ("talk", "other")
REGISTRY_MAX = 30  # pairs

Action = Literal[
    "say", "pass", "push out", "sweep", "end", "consolidate", "recall", "judge", "trash", "restore", "erase", "restart"
]


class Step(NamedTuple):
    """Something that happens: `number` chooses the turn, the session, how many turns, or how long."""

    action: Action
    number: int


SEEDS = range(6)
STEPS = 60
ACTIONS: tuple[Action, ...] = get_args(Action)
WEIGHTS = [6, 3, 2, 2, 1, 1, 2, 3, 1, 2, 2, 1]


class AnyTalk:
    """Two conversations that go on through restarts, and the turns that were not erased."""

    def __init__(self, talk: ConversationServices) -> None:
        self.talk = talk
        self.erased: set[str] = set()

    @property
    def kept(self) -> list[str]:
        return [each for each in self.talk.said if each not in self.erased]

    def take(self, step: Step) -> None:
        talk, scope = self.talk, SessionScope("default", "local", SESSIONS[step.number % 2])
        match step.action:
            case "say":
                talk.say(1 + step.number % 23, session=scope.session_id)
            case "pass":
                talk.services.at += (1000, IDLE_MS, DAY, 12 * DAY)[step.number % 4]
            case "push out":
                talk.push_out()
            case "sweep":
                talk.sweep()
            case "end":
                talk.tiers.end(scope)
            case "consolidate":
                talk.tiers.consolidate(scope)
            case "restart":
                talk.restart()
            case "recall":
                talk.sessions.promote(scope, self.kept[step.number :][:1])
            case _ if self.kept:
                self._change(step, self.kept[step.number % len(self.kept)])

    def _change(self, step: Step, turn: str) -> None:
        """Something happens to one turn."""
        talk = self.talk
        match step.action:
            case "judge":
                self._judge(turn, step.number / 100)
            case "trash":
                talk.services.trash(turn)
            case "restore" if talk.services.memory(turn).state != "active":
                talk.services.restore(turn)
            case "erase":
                write(talk.services.store, DropMemory(id=turn))
                self.erased.add(turn)

    def _judge(self, turn: str, importance: float) -> None:
        """A verdict, in whatever tier the turn is."""

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            now = snapshot.memory(turn)
            assert now is not None
            return WriteResult((PutMemory(data=judged(now, importance, OWN_POLICY)),), None)

        self.talk.services.store.transact(decide, by="test").result(WAIT_SECONDS)

    def check(self) -> None:
        """Each turn is kept as it was said, and is in a tier, archived or in the trash."""
        for number, turn in enumerate(self.talk.said):
            if turn not in self.erased:
                assert self.talk.services.memory(turn).content == f"Turn {number} of the talk."
                assert self.talk.place(turn) in ("ring", "recent", "registry", "archived", "trashed")
        for name in SESSIONS:
            assert len(self.talk.sessions.ring(SessionScope("default", "local", name))) <= RING_ITEMS

    def check_settled(self) -> None:
        """Once the jobs have run, the caps hold, and each turn of the registry is in one pair."""
        talk = self.talk
        for _ in range(2):
            talk.push_out()
            talk.sweep()
        for name in SESSIONS:
            scope = SessionScope("default", "local", name)
            assert len(talk.sessions.turns(scope, ("ring",))) <= RING_ITEMS
            assert len(talk.sessions.turns(scope, ("recent",))) <= RECENT_MAX
        in_pairs = [each for pair in talk.pairs() for each in dict.fromkeys((pair.id, pair.reply))]
        assert len(in_pairs) == len(set(in_pairs)), "a turn is in two pairs"
        live = [pair for pair in talk.pairs() if talk.place(pair.id) == "registry" and not pair.is_archived]
        assert len(live) <= REGISTRY_MAX
        with talk.services.store.snapshot() as snapshot:
            for turn in self.kept:
                memory = snapshot.memory(turn)
                assert memory is not None
                if is_live_turn(memory) and talk.place(turn) == "registry":
                    assert pair_at(snapshot, turn) is not None, "a turn of the registry is in no pair"
        assert set(in_pairs) <= set(self.kept)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_turn_is_in_one_tier_whatever_happens_in_whatever_order(seed: int) -> None:
    chance = Random(seed)
    with quick_folder() as folder:
        any_talk = AnyTalk(ConversationServices(folder, registry_max=REGISTRY_MAX))
        try:
            for action in chance.choices(ACTIONS, WEIGHTS, k=STEPS):
                any_talk.take(Step(action, chance.randrange(100)))
                any_talk.check()
            any_talk.check_settled()
        finally:
            any_talk.talk.services.close()
