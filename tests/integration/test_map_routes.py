"""The map of a real daemon with the real embedding model. SPEC 10, 13"""

import time

import numpy as np

from mnemo_client.client import Client
from mnemo_client.protocol.knowledge import MapAnswer
from mnemo_client.protocol.memories import NewMemory
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import WAIT_SECONDS

MUSIC = [f"The string quartet rehearses the {n} violin sonata for the concert." for n in ("first", "second", "third")]
GARDEN = [f"The {n} in the vegetable garden need water every day." for n in ("tomatoes", "beans", "lettuces", "leeks")]
CARS = [f"The car needs new {n} before the technical inspection." for n in ("brakes", "tyres", "lamps", "filters")]
TEXTS = [*MUSIC, *GARDEN, *CARS]
GROUPS = np.array([0] * len(MUSIC) + [1] * len(GARDEN) + [2] * len(CARS))


def ready(client: Client, points: int) -> MapAnswer:
    """The map, once it has so many points."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (answer := client.map()).total != points:
        assert time.monotonic() < deadline, f"the map is not made: {answer}"
        time.sleep(0.05)
    return answer


def test_there_is_no_map_without_a_model(daemon: RunningDaemon) -> None:
    with daemon.client("map") as client:
        found = client.map()
    assert (found.state, found.total, found.ids, found.namespace) == ("absent", 0, [], "map")
    assert found.reason == "there is no embedding model, or it is loading: a map needs vectors"


def test_what_is_alike_lies_together_and_agents_do_not_see_what_is_sensitive(model_daemon: RunningDaemon) -> None:
    with model_daemon.client("map") as client, Client(model_daemon.socket, "map", agent="planner") as agent:
        asked = [NewMemory(content=text, dedup="off") for text in TEXTS]
        ids = [client.remember(each).memory.id for each in asked]
        found = ready(client, len(TEXTS))
        assert (found.state, found.share, found.cursor, set(found.ids)) == ("ready", None, None, set(ids))
        at = {each: (x, y) for each, x, y in zip(found.ids, found.x, found.y, strict=True)}
        positions = np.array([at[each] for each in ids])
        square = ((positions[:, None] - positions[None]) ** 2).sum(axis=2)
        np.fill_diagonal(square, np.inf)
        assert (GROUPS[square.argmin(axis=1)] == GROUPS).mean() > 0.9

        secret = client.remember(NewMemory(content="The safe is behind the piano.", tags=["sensitive"])).memory.id
        after = ready(client, len(TEXTS) + 1)
        assert (after.layout, secret in after.ids, ready(agent, len(TEXTS)).total) == (found.layout, True, len(TEXTS))
        first = client.map(limit=5)
        rest = client.map(limit=20, cursor=first.cursor)
        assert [*first.ids, *rest.ids] == after.ids
        assert client.erase(secret).complete
        assert ready(client, len(TEXTS)).layout == found.layout
