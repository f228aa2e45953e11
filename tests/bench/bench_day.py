"""Conversations lived turn by turn in simulated time, with the real embedding model: where each turn ends up, and
recall by the tiers of a session against plain recall.

    python -m tests.bench.bench_day [FOLDER] [--conversations 5] [--questions 0] [--turns 400]

FOLDER holds a benchmark as of `tests.bench.quality`; without it, the project's own conversations on which nothing was
fitted are lived. Turns come at their times, sessions end by request or by a pause, the daemon is stopped or killed in
the middle. Each conversation is then asked its questions in a new session: `tiers` is the recall of POST
/v1/sessions/{id}/explain, `tiers, hot` the same with what the questions before left behind, `recall, as many` the first
hits of `auto`, as many as the tiers gave. At last the time of a turn is measured, by one client of a real daemon, on
the quiet daemon and while the installed language model answers one question after the other, in turns.
"""

import itertools
import os
import random
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mnemo_client.paths import models_folder
from mnemo_client.protocol.choices import TurnRole
from mnemo_client.protocol.ingestion import Turn, TurnsRequest
from mnemo_core.ingest.session_records import SessionScope
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.retrieval.question import Question
from mnemo_store.indexes.attributes import MemoryFilter
from tests.bench import harness
from tests.bench.quality import QualityProbe, load_benchmark, questions, the_projects_own
from tests.bench.tables import percentiles, share, show
from tests.simulation.embedders import ModelFaults, SimulatedCatalogue
from tests.simulation.ledger import Wrong
from tests.simulation.replay import ConversationReplay, StoredTurn
from tests.simulation.world import World, in_simulated_time, place_for_worlds
from tests.support.running_daemon import running

ASKING = "questions"  # the session in which the questions are asked
ROUNDS = 4  # of turns to the quiet and to the busy daemon
SETTLE_SECONDS = 2.0  # before each round: an answer under way has ended, or one has begun
SEED = 5


class RealModels(EmbeddingService):
    """The models that are installed on this machine."""

    def __init__(self, _catalogue: SimulatedCatalogue, _mood: ModelFaults) -> None:
        super().__init__(ModelCatalogue(models_folder(os.environ)))


class ModelWorld(World):
    """The daemon in simulated time with a real model."""

    make_models = RealModels  # type: ignore[assignment]


class QuestionEvidence:
    """The share of the evidence of each question that each way to recall finds, the turns it shows, and its time."""

    def __init__(self, world: World) -> None:
        self.found: dict[str, list[float]] = defaultdict(list)
        self.shown: dict[str, list[float]] = defaultdict(list)
        self.took: dict[str, list[float]] = defaultdict(list)
        self._world = world

    def ask(self, put: QualityProbe) -> None:
        """Ask one question in every way."""
        tiers = self._by_tiers(put, SessionScope(put.namespace, "local", ASKING), is_recorded=False)
        self._by_tiers(put, SessionScope(put.namespace, "local", f"{ASKING}, hot"), is_recorded=True)
        self._by_recall("recall, as many", put, max(1, len(tiers)))
        self._by_recall("recall, 5", put, 5)

    def _by_tiers(self, put: QualityProbe, scope: SessionScope, *, is_recorded: bool) -> list[str]:
        daemon = self._world.daemon
        assert daemon is not None
        wanted = MemoryFilter(namespaces=(put.namespace,), user_id="local", now=self._world.clock.now())
        outcome = daemon.tiered_recall.run(scope, Question(put.text, wanted, working_session=scope.session_id))
        if outcome.degraded:
            raise Wrong(f"the tiers were not searched whole: {outcome.degraded}")
        if is_recorded:
            daemon.tiered_recall.record(outcome)
        ids = [memory_id for each in outcome.ranking.selected for memory_id in each.item.memory_ids]
        self._note("tiers, hot" if is_recorded else "tiers", put, ids, outcome.took_ms)
        return ids

    def _by_recall(self, name: str, put: QualityProbe, top_k: int) -> None:
        asked = {"query": put.text, "top_k": top_k, "dry": True, "token_budget": None}
        answer = self._world.ask("POST", "/v1/recall", asked, namespace=put.namespace).value
        self._note(name, put, [each["id"] for each in answer["memories"]], answer["took_ms"])

    def _note(self, name: str, put: QualityProbe, ids: Sequence[str], took_ms: float) -> None:
        self.found[name].append(len(set(put.evidence).intersection(ids)) / len(put.evidence))
        self.shown[name].append(len(ids))
        self.took[name].append(took_ms)


class LivedConversation(NamedTuple):
    """A conversation that was lived: what happened, where its turns are, which are not found, and its questions."""

    name: str
    did: Counter[str]
    places: Counter[str]
    pairs: int
    nodes: int
    alone: int  # nodes of one pair
    missing: list[StoredTurn]
    asked: QuestionEvidence


def lived(benchmark: Any, talk: Any, limit: int) -> LivedConversation:
    """Live a conversation in a world of its own, check it, and ask its questions."""
    with tempfile.TemporaryDirectory(dir=place_for_worlds()) as folder:
        world = ModelWorld(Path(folder), random.Random(talk.name))
        world.map_bytes = 1 << 30
        with in_simulated_time(world.clock):
            try:
                world.begin_at(talk.turns[0].at)
                world.open()
                replay = ConversationReplay(world, talk, random.Random(f"{SEED} {talk.name}"))
                replay.live()
                replay.check_pairs()
                pairs = replay.pairs()
                sizes = Counter(pair.node for pair in pairs if pair.node)
                asked, ids = QuestionEvidence(world), {turn.id: turn.memory_id for turn in replay.turns}
                for put in questions(benchmark, [talk], {talk.name: ids}, pooled=False)[: limit or None]:
                    asked.ask(put)
                return LivedConversation(
                    talk.name,
                    replay.did,
                    replay.tier_counts(),
                    len(pairs),
                    len(sizes),
                    list(sizes.values()).count(1),
                    list(replay.lost()),
                    asked,
                )
            finally:
                world.throw_away()


def show_lived(every: Sequence[LivedConversation]) -> None:
    places = sorted({place for each in every for place in each.places})
    rows: dict[str, list[object]] = {
        each.name: [sum(each.places.values()), *(each.places[place] for place in places), each.pairs,
                    each.nodes, f"{each.alone / max(1, each.nodes):.0%}", each.did["killed"], each.did["restarted"],
                    len(each.missing)]
        for each in every
    }  # fmt: skip
    show("Where the turns are at the end",
         ["acknowledged", *places, "pairs", "nodes", "of one pair", "kills", "restarts", "kept and not found"],
         rows)  # fmt: skip
    for each in every:
        for turn in each.missing[:5]:
            print(f"not found: {each.name} {turn.id}: {turn.text[:90]}")


def show_questions(every: Sequence[LivedConversation]) -> None:
    rows: dict[str, list[object]] = {}
    for name in every[0].asked.found:
        found, shown, took = (
            [value for each in every for value in getattr(each.asked, kind)[name]]
            for kind in ("found", "shown", "took")
        )
        rows[name] = [share(found), f"{sum(shown) / len(shown):.1f}", percentiles(took)]
    count = sum(len(each.asked.found["tiers"]) for each in every)
    show(f"Recall in a session, {count} questions", ["share of evidence, %", "turns shown, mean", "took"], rows)


def show_turn_times(texts: Sequence[str]) -> None:
    """Print the time of POST /v1/turns for one turn, quiet and while the language model answers."""
    took: dict[str, list[float]] = {"quiet": [], "while the language model answers": []}
    may_answer, is_ending, answers = threading.Event(), threading.Event(), [0]
    with (
        tempfile.TemporaryDirectory() as scratch,
        running(Path(scratch) / "data", {"MNEMO_LLM_LEVEL": "full"}) as daemon,
    ):
        daemon.wait_for_vectors()

        def answer() -> None:
            with daemon.client() as client:
                for text in itertools.cycle(texts):
                    may_answer.wait()
                    if is_ending.is_set():
                        return
                    client.ask(f"What about this: {text}"[:300], cut="none")
                    answers[0] += 1

        asking = threading.Thread(target=answer)
        asking.start()
        parts = [texts[at :: 2 * ROUNDS] for at in range(2 * ROUNDS)]
        with daemon.client() as client:
            for name, part in zip(itertools.cycle(took), parts, strict=False):
                (may_answer.clear if name == "quiet" else may_answer.set)()
                time.sleep(SETTLE_SECONDS)
                for number, text in enumerate(part):
                    role: TurnRole = "agent" if number % 2 else "user"
                    began = time.perf_counter()
                    client.turns(TurnsRequest(session_id="live", turns=[Turn(role=role, content=text)]))
                    took[name].append((time.perf_counter() - began) * 1000)
            is_ending.set()
            may_answer.set()
            asking.join()
            calls = client.llm_usage("1h").usage
    show(f"Time of a turn, one client, {answers[0]} answers meanwhile",
         ["turns", "took"], {name: [len(each), percentiles(each)] for name, each in took.items()})  # fmt: skip
    print(f"calls of the language model: {calls}")


def main(folder: Path | None = None, *, conversations: int = 0, questions: int = 0, turns: int = 400) -> None:
    benchmark = load_benchmark(folder) if folder else the_projects_own()
    talks = benchmark.conversations()[: conversations or None]
    every = [lived(benchmark, talk, questions) for talk in talks]
    show_lived(every)
    show_questions(every)
    if turns:
        show_turn_times([turn.text for talk in talks for turn in talk.turns][:turns])


if __name__ == "__main__":
    harness.run(main)
