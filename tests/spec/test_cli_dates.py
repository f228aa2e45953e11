"""Dates as they are said, handed on from the command line and from an agent: the daemon alone reads them. SPEC 7.1"""

import msgspec
import pytest

from mnemo_client.client import Client
from mnemo_client.mcp.tool_types import RecallArguments
from mnemo_client.mcp.tools import recall
from mnemo_client.protocol.retrieval import SearchAnswer
from tests.canned import CannedDaemon, CannedPerson, recall_answer, recalled


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ("last week", "last week"),
        ("3d", "3d"),
        ("2023", "2023"),
        ("2026-05-01", "2026-05-01"),
        ("1700000000000", 1.7e12),
    ],
)
def test_recall_and_search_hand_on_what_was_said(
    person: CannedPerson, canned: CannedDaemon, said: str, sent: str | float
) -> None:
    canned.say("POST /v1/recall", recall_answer(recalled()))
    canned.say("GET /v1/search", SearchAnswer(memories=[recalled()], total=1))
    assert person.give("recall", "key", "--since", said, "--until", said) == 0
    assert person.give("search", "key", "--since", said, "--until", said) == 0
    asked, searched = canned.asked
    assert (asked.body["since"], asked.body["until"]) == (sent, sent)
    assert (searched.query["since"], searched.query["until"]) == ([said], [said])


def test_an_agent_may_say_them_too(canned: CannedDaemon) -> None:
    canned.say("POST /v1/recall", recall_answer(recalled()))
    arguments = msgspec.convert({"query": "key", "since": "last week", "until": "2h"}, RecallArguments)
    with Client(canned.path) as client:
        recall(client, arguments)
    assert (canned.asked[0].body["since"], canned.asked[0].body["until"]) == ("last week", "2h")
