"""The present state in one answer: layers, tiers, topic nodes and jobs. SPEC 8, 13"""

import uuid

from mnemo_client.client import Client
from mnemo_client.protocol.ingestion import Turn, TurnsRequest
from tests.support.running_daemon import RunningDaemon

SAID = ("The mast is 12 metres high.", "The keel is 2 metres deep.", "The anchor weighs 20 kilos.")


def say(client: Client, session: str, *contents: str) -> None:
    client.turns(TurnsRequest(session_id=session, turns=[Turn(role="user", content=each) for each in contents]))


def test_a_state_has_layers_tiers_sessions_nodes_and_jobs(daemon: RunningDaemon) -> None:
    with daemon.client(f"ns-{uuid.uuid4().hex[:8]}") as client:
        client.remember("A kayak wants dry storage.")
        say(client, "one", *SAID)
        say(client, "two", "The rudder was mended in May.")
        client.end_session("two")
        state = client.state()
        assert (state.layers.buffer, state.layers.working, state.layers.core) == (5, 0, 0)
        assert (state.tiers.ring, state.tiers.recent, state.tiers.registry) == (3, 0, 1)
        assert {each.session_id for each in state.sessions} == {"one", "two"}
        assert (state.nodes, state.node_total, state.session, state.ring) == ([], 0, None, [])
        assert {each.name for each in state.jobs} == {each.name for each in client.jobs().jobs}


def test_a_state_of_a_session_has_its_ring(daemon: RunningDaemon) -> None:
    with daemon.client(f"ns-{uuid.uuid4().hex[:8]}") as client:
        client.remember("A kayak wants dry storage.")
        say(client, "one", *SAID)
        state = client.state(session_id="one")
        assert [item.text for item in state.ring] == list(SAID)
        assert state.session is not None
        assert (state.session.turns, state.layers.buffer, state.tiers.ring) == (3, 3, 3)
        other = client.state(session_id="other")
        assert (other.session, other.ring, other.hot, other.tiers.ring) == (None, [], [], 0)


def test_a_state_shows_no_agent_a_sensitive_turn(daemon: RunningDaemon) -> None:
    namespace = f"ns-{uuid.uuid4().hex[:8]}"
    with daemon.client(namespace) as client, Client(daemon.socket, namespace, agent="planner") as agent:
        turn = Turn(role="user", content="The safe is behind the map.")
        client.turns(TurnsRequest(session_id="s", turns=[turn], tags=["sensitive"]))
        assert len(client.state(session_id="s").ring) == 1
        hidden = agent.state(session_id="s")
        assert (hidden.ring, hidden.layers.buffer) == ([], 0)
