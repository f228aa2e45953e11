"""Turns that the proxy read, as the daemon takes them in. SPEC 5, 5.5, 19"""

from typing import Any

from mnemo_client.protocol.ingestion import PieceAnswer, Turn, TurnsRequest
from tests.support.running_daemon import RunningDaemon


def said(daemon: RunningDaemon, namespace: str, text: str, **fields: Any) -> PieceAnswer:
    with daemon.client(namespace) as client:
        turns = [Turn(role="user", content=text)]
        (answer,) = client.turns(TurnsRequest(session_id="s", turns=turns, **fields)).results
    assert isinstance(answer, PieceAnswer)
    return answer


def test_what_a_proxy_read_is_near_from_a_lower_cosine_on_and_has_the_trust_of_a_tool(
    model_daemon: RunningDaemon,
) -> None:
    oysters, crepes = (
        "I always order 12 oysters at Chez Marie in Lille.",
        "I always order 3 crêpes at Chez Paul in Lille.",
    )
    for source, trust, outcome in (("turn", "user", "stored"), ("proxy", "tool", "merged")):  # their cosine is 0.647
        first = said(model_daemon, f"lille-{source}", oysters, source=source, wait="indexed", dedup="source")
        assert first.memory is not None
        assert (first.memory.source, first.memory.trust) == (source, trust)
        second = said(model_daemon, f"lille-{source}", crepes, source=source, wait="indexed", dedup="source")
        assert second.outcome == outcome


def test_turns_are_broken_into_statements_where_they_ask_for_it(model_daemon: RunningDaemon) -> None:
    text = "Mara lives in Ghent since 2019. Tom works at the harbour office of Kiel."
    for infer, sources in ((False, ["proxy"]), (True, ["proxy"] * 3)):
        said(model_daemon, f"infer-{infer}", text, source="proxy", infer=infer, wait="extracted")
        with model_daemon.client(f"infer-{infer}") as client:
            assert [each.source for each in client.list_memories().memories] == sources
