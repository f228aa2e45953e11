"""Conversations lived turn by turn: every turn stays readable, ends in the registry and is recalled. SPEC 8, 17."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.simulation.replay import ConversationReplay
from tests.simulation.world import World, in_simulated_time, place_for_worlds
from tests.support import recall_sets
from tests.support.recall_sets import LabelledConversation

TURNS = 45  # of each: some sessions, so that restarts, ends and pauses come several times
TALKS = ("bread-and-trumpet", "assistant-code")
RESTARTS = 0.12  # of the turns


def talk(name: str) -> LabelledConversation:
    every = [*recall_sets.conversations(), *recall_sets.conversations(recall_sets.UNSEEN)]
    found = next(each for each in every if each.name == name)
    return found._replace(turns=found.turns[:TURNS])


@pytest.mark.parametrize("name", TALKS)
def test_a_conversation_of_turns_pauses_and_restarts_ends_in_the_registry_with_nothing_lost(name: str) -> None:
    said = talk(name)
    folder = tempfile.mkdtemp(dir=place_for_worlds())
    world = World(Path(folder), Random(name))
    try:
        with in_simulated_time(world.clock):
            world.begin_at(said.turns[0].at)
            world.open()
            world.install()
            replay = ConversationReplay(world, said, Random(name), restarts=RESTARTS)
            replay.live()
            assert {"killed", "restarted", "ended by a pause"} <= replay.did.keys()
            counts = replay.tier_counts()
            assert counts.pop("registry") > 0.8 * TURNS
            assert all(place.startswith("discarded ") for place in counts)  # the relevance gate said why
            assert sum(counts.values()) == sum(bool(turn.reason) for turn in replay.turns)
            replay.check_pairs()
            assert Counter(map(bool, (pair.reply != pair.id for pair in replay.pairs())))[True]
            assert list(replay.lost()) == []
    finally:
        world.throw_away()
        shutil.rmtree(folder)
