"""`mnemo ask` on a daemon with canned answers: the answer, its sources and the exit code. SPEC 11.1"""

import msgspec
import pytest

from mnemo_client.protocol.retrieval import AskAnswer, AskSentence, Citation
from tests.canned import ID, CannedDaemon, CannedPerson, Give, Scenario, play, recalled

ASKED = AskAnswer(
    answer="The key is with Ines.", sentences=[AskSentence(text="The key is with Ines.", ids=[ID])],
    citations=[Citation(id=ID, quote="The key is with Ines.", at=0)], abstained=False, method="quotes",
    memories=[recalled()],
)  # fmt: skip
UNKNOWN = AskAnswer(answer="I don't know.", sentences=[], citations=[], abstained=True, method="quotes")

SCENARIOS = (
    Scenario("an answer shows the numbers of the memories that it rests on, and these", (
        {"POST /v1/ask": ASKED},
        Give("ask where is the key -k 2 --tag home --since 3d",
             sent=[{"question": "where is the key", "top_k": 2, "tags": ["home"], "since": "3d"}],
             says=("The key is with Ines. [1]\n", "\n1  0.82  c0ffee01",
                   "quoted, not written by a language model · namespace default\n")),
        Give("ask where is the key --json", json=msgspec.to_builtins(ASKED)),
    )),
    Scenario("an answer of the language model says so", (
        {"POST /v1/ask": msgspec.structs.replace(ASKED, method="llm")},
        Give("ask where is the key", says=("\nwritten by the language model · namespace default\n",)),
    )),
    Scenario("an answer that is not known is told, with the exit code of nothing found", (
        {"POST /v1/ask": UNKNOWN},
        Give("ask who", code=3, out="I don't know.\n", err="nothing found in namespace default\n"),
        Give("ask who --json", code=3, json=msgspec.to_builtins(UNKNOWN)),
    )),
)  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_ask_does_what_the_table_says(scenario: Scenario, person: CannedPerson, canned: CannedDaemon) -> None:
    play(scenario, person, canned)
