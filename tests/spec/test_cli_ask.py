"""`mnemo ask`, `mnemo llm usage`, `mnemo runs` and others on a daemon with prepared answers. SPEC 11.1, 12.2"""

from typing import Any

import msgspec
import pytest

from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.knowledge import (
    AbstractAnswer,
    DedupeAnswer,
    GraphAnswer,
    GraphEdgeView,
    GraphNodeView,
    GroupView,
)
from mnemo_client.protocol.memories import ProcedureTrace, TurnView
from mnemo_client.protocol.retrieval import AskAnswer, AskMemories, AskSentence, Citation
from mnemo_client.protocol.sessions import (
    ChatAnswer,
    RingItemView,
    RunSummaryAnswer,
    SessionAnswer,
    SessionFiledAnswer,
    SessionsAnswer,
    SessionTrace,
    SessionView,
    StepsAnswer,
    TierCounts,
    TieredItemTrace,
    TopicMatchTrace,
    TriggersAnswer,
)
from mnemo_client.protocol.status import LlmUsage, LlmUsageAnswer
from tests.support.stub_daemon import (
    ID,
    Case,
    CommandLineUser,
    Scenario,
    StubAnswer,
    StubDaemon,
    note,
    play,
    recall_answer,
    recalled,
    refusal,
)

ASKED = AskAnswer(
    answer="The key is with Ines.", sentences=[AskSentence(text="The key is with Ines.", ids=[ID])],
    citations=[Citation(id=ID, quote="The key is with Ines.", at=0)], abstained=False, method="quotes",
    memories=[recalled()],
)  # fmt: skip
KEY = ASKED.sentences[0]
TWO = msgspec.structs.replace(ASKED, sentences=[KEY, AskSentence(text="She is in.", ids=[ID])])
OTHER = "01936f2e-7c00-7000-8000-0000deadbeef"
UNKNOWN = AskAnswer(answer="I don't know.", sentences=[], citations=[], abstained=True, method="quotes")

USAGE = LlmUsageAnswer(since=0, usage=[
    LlmUsage(site="answer", model="small.gguf", calls=4, outcomes={"rejected": 2, "answered": 1, "late": 1},
             tokens_in=401, tokens_out=80, milliseconds=10_000, last_at=1, rejections={"other": 2}),
    LlmUsage(site="naming", model="small.gguf", calls=3, outcomes={"rejected": 3}, milliseconds=300,
             rejections={"lost date": 1, "unsupported name": 2}),
])  # fmt: skip

STEPS = StepsAnswer(
    run_id="fix dates", summary=recalled(content="Two tests failed."), steps=[
        recalled(trace=ProcedureTrace(step_number=1, action="Ran the tests", outcome="2 failed")),
        recalled(trace=ProcedureTrace(step_number=10, action="Read dates.py")),
    ],
)  # fmt: skip
STORED_STEP = RememberAnswer(outcome="stored", memory=STEPS.steps[0])
TALK = SessionView(session_id="the\x1b[31m talk", started_at=0, last_at=0, turns=2, agent_id="codex", ended_at=1)
TURNS = SessionAnswer(session=TALK, tiers=TierCounts(registry=2), pairs=[], turns=[
    recalled(id=OTHER, content="At seven.", turn=TurnView(role="agent", tier="registry")),
    recalled(content="When does it leave?", turn=TurnView(role="user", tier="registry")),
])  # fmt: skip
EXPLAINED = SessionTrace(
    session_id="the talk", ring=[RingItemView(id=ID, role="agent", text="At seven.", promoted=True)], items=[
        TieredItemTrace(ids=[ID, OTHER], text="User: When does it\x1b leave?\nAgent: At seven.", stage="hot",
                        similarity=0.61, recency=1.0, importance=0.5, score=0.72, at=0, node=ID),
        TieredItemTrace(ids=[OTHER], text="We bake bread.", stage="recent", similarity=0.2, recency=1.0, importance=0.5,
                        score=0.4, at=0, dropped="below_sim_threshold"),
    ], nodes=[TopicMatchTrace(id=OTHER, similarity=0.5)], recent_above_floor=0, floor=0.341,
    stages_ms={"embed": 2.0, "rank": 0.1}, took_ms=2.1,
)  # fmt: skip
REPLY = ChatAnswer(**msgspec.structs.asdict(ASKED), session_id="boat", results=[])
MADE = RunSummaryAnswer(outcome="stored", memory=recalled(), method="rule", reason="it is\x1b[31m loading")
GRAPH = GraphAnswer(
    nodes=[
        GraphNodeView(id=node, label=label, named=False, members=members, parts=0, created_at=1, first_at=1,
                      last_at=1777900000000, namespace="default")
        for node, label, members in ((OTHER, "Tax return", 12), (ID, "Where is the\x1b key?", 1))
    ],
    edges=[GraphEdgeView(source=OTHER, target=ID, relation="co_occurs", weight=3, at=1)], total=7, cursor="1.x",
)  # fmt: skip


def events(*rows: tuple[str, Any]) -> StubAnswer:
    """Server-sent events, with a comment before each."""
    text = "".join(f":\n\nevent: {name}\ndata: {msgspec.json.encode(value).decode()}\n\n" for name, value in rows)
    return StubAnswer(text.encode(), headers={"Content-Type": "text/event-stream"}, chunked=True)


SCENARIOS = (
    Scenario("the use of the language model is shown by task, with its answers that were not used", (
        {"GET /v1/llm/usage": USAGE},
        Case("llm usage --since 3d", sent=[{"since": ["3d"]}],
             out="answer  small.gguf  4 calls  1 used  1 late, 2 rejected"
                 "                            100 + 20 tokens, 2.5 s a call\n"
                 "naming  small.gguf  3 calls  0 used  3 rejected (2 unsupported name, 1 lost date)"
                 "  0 + 0 tokens, 0.1 s a call\n"),
        Case("llm --json", json=msgspec.to_builtins(USAGE)),
        {"GET /v1/llm/usage": LlmUsageAnswer(since=0, usage=[])},
        Case("llm", out="", err="the language model was not asked for anything\n"),
    )),
    Scenario("an answer shows the numbers of the memories that it rests on, and these", (
        {"POST /v1/ask": ASKED},
        Case("ask where is the key -k 2 --tag home --since 3d",
             sent=[{"question": "where is the key", "top_k": 2, "agenda_top_k": 2, "tags": ["home"], "since": "3d"}],
             says=("The key is with Ines. [1]\n", "\n1  0.82  c0ffee01",
                   "quoted, not written by a language model · namespace default\n")),
        {"POST /v1/ask": msgspec.structs.replace(ASKED, reason="it is\x1b[31m loading")},
        Case("ask where is the key",
             says=("\nquoted, not written by a language model: it is\ufffd[31m loading · namespace default\n",)),
        {"POST /v1/ask": ASKED},
        Case("ask where is the key --json", json=msgspec.to_builtins(ASKED)),
    )),
    Scenario("the steps of a run are shown by their numbers with what came of them, then the summary", (
        {"GET /v1/runs/fix%20dates/steps": STEPS},
        Case("runs 'fix dates' -k 3", sent=[{"limit": ["3"]}],
             out="   1  Ran the tests → 2 failed\n  10  Read dates.py\n\nTwo tests failed.\n"),
        Case("runs 'fix dates' --json", json=msgspec.to_builtins(STEPS)),
        {"POST /v1/runs/fix%20dates/summary": MADE,
         "GET /v1/runs/fix%20dates/steps": msgspec.structs.replace(STEPS, cursor="10.1.a")},
        Case("runs 'fix dates' --summarize", says=("Two tests failed.\n",),
             err="these are the first 2 steps; there are more\n"
                 "summarized by rule, not by a language model: it is\ufffd[31m loading\n"),
        {"GET /v1/runs/fix%20dates/steps": StepsAnswer(run_id="fix dates", steps=[])},
        Case("runs 'fix dates'", code=3, err="there is no step of a run 'fix dates' in namespace default\n"),
    )),
    Scenario("a step is recorded as one of an agent, and what was stored is said with its number", (
        {"POST /v1/runs/fix%20dates/steps": STORED_STEP},
        Case("step 'fix dates' Ran the tests --outcome '2 failed' --findings dates",
             sent=[{"action": "Ran the tests", "outcome": "2 failed", "key_findings": "dates", "agent_id": "cli"}],
             out="step 1 of fix dates: remembered · c0ffee01 · namespace default\n"),
        Case("step 'fix dates' - --number 4 --agent coder", typed=" Ran the tests\n",
             sent=[{"action": "Ran the tests", "step_number": 4, "agent_id": "coder"}]),
        Case("step 'fix dates' x --json", json=msgspec.to_builtins(STORED_STEP)),
        Case(f"step fix {'x' * 1001}", code=2,
             err="mnemo: the action of a step has at most 1000 characters; this text has 1001\n"
                 "       give the result with --outcome and the findings with --findings\n"),
    )),
    Scenario("the topics of conversations are shown by size, and with them which were recalled together", (
        {"GET /v1/graph": GRAPH},
        Case("graph -k 2", sent=[{"limit": ["2"]}],
             out="deadbeef  12 pairs  2026-05-04  Tax return\n"
                 "c0ffee01    1 pair  2026-05-04  Where is the\ufffd key?\n\n"
                 "recalled together       3  Tax return · Where is the\ufffd key?\n",
             err="these are 2 of 7 nodes\n"),
        Case("graph --json", json=msgspec.to_builtins(GRAPH)),
        {"POST /v1/graph/dedupe": DedupeAnswer(groups=[], merged=1),
         "POST /v1/graph/abstract": AbstractAnswer(groups=[GroupView(id=ID, label="Tax", nodes=[OTHER])]),
         "GET /v1/graph": GraphAnswer(nodes=[], edges=[], total=0)},
        Case("graph --dedupe --abstract", sent=[{}, {}, {"limit": ["20"]}], code=3,
             err="1 node was merged into another one\ngrouped related nodes: 1 group\n"
                 "there are no topic nodes: they are made in the background of conversations that have ended\n"),
    )),
    Scenario("conversations are listed, and the turns of one are shown as they were said, after its end", (
        {"GET /v1/sessions": SessionsAnswer(sessions=[TALK], cursor="0.a")},
        Case("sessions -k 1", sent=[{"limit": ["1"]}], says=("  2 turns  the\ufffd[31m talk  codex\n",),
             err="these are the latest 1 sessions; there are more\n"),
        {"GET /v1/sessions": SessionsAnswer(sessions=[])},
        Case("sessions", code=3, err="there is no session\n"),
        {"GET /v1/sessions": refusal(400, "bad_value", "`limit` must be a whole number from 1 to 500", field="limit")},
        Case("sessions -k 0", code=2, warns=("mnemo: --top must be a whole number",)),
        Case("sessions --end", code=2, warns=("there is no session to end",)),
        {"POST /v1/sessions/the%20talk/end": SessionFiledAnswer(session=TALK, filed=1),
         "GET /v1/sessions/the%20talk": TURNS},
        Case("sessions 'the talk' --end", says=(
            "ring 0 · recent 0 · registry 2 · archived 0\n", "  user   registry  When does it leave?\n   2  ",
            "  agent  registry  At seven.\n",
        ), err="session the talk has ended: 1 pair filed\n"),
        Case("sessions 'the talk' --json", json=msgspec.to_builtins(TURNS)),
    )),
    Scenario("what a message would recall in a conversation is shown by stage, with why the rest is left out", (
        {"POST /v1/sessions/the%20talk/explain": EXPLAINED},
        Case("sessions 'the talk' --explain 'when does it leave'", sent=[{"query": "when does it leave"}],
             out="ring                   agent, recalled: At seven.\n\n"
                 "stage   score  cosine  text\n"
                 "hot      0.72    0.61  User: When does it\ufffd leave? Agent: At seven.\n"
                 "recent   0.40    0.20  below the ranker's minimum similarity: We bake bread.\n\n"
                 "floor  cosine 0.34; 0 recent turns reach it; 1 topic node\nms     embed 2.00 · rank 0.10\n"),
        {"POST /v1/sessions/the%20talk/explain": msgspec.structs.replace(EXPLAINED, items=[], nodes=[])},
        Case("sessions 'the talk' --explain 'when'", code=3, says=("recent turns were enough\n",)),
        {"POST /v1/sessions/the%20talk/explain": msgspec.structs.replace(EXPLAINED, items=[], degraded=["vectors"])},
        Case("sessions 'the talk' --explain 'when'", code=3, says=("degraded  without an embedding model only",)),
        Case("sessions --explain when", code=2, warns=("there is no session to explain",)),
    )),
    Scenario("a conversation is held, a line a message, and ends with the input", (
        {"POST /v1/sessions/boat/chat": REPLY,
         "POST /v1/sessions/boat/end": SessionFiledAnswer(session=TALK, filed=1)},
        Case("chat --session boat --speaker Ines", typed="Who has the key?\n\n  Thanks.  \n",
             sent=[{"message": "Who has the key?", "speaker": "Ines"}, {"message": "Thanks.", "speaker": "Ines"}, {}],
             out="The key is with Ines. [1]\n[1] c0ffee01 2025-12-01\n" * 2, err=""),
        {"POST /v1/sessions/boat/chat": msgspec.structs.replace(REPLY, memories=[recalled(note=note())])},
        Case("chat --session boat", typed="Who?\n", says=("\n[1] /w/app/docs/deploy.md:40 2025-12-01\n",)),
        {"POST /v1/sessions/boat/chat": refusal(400, "bad_value", "too long"), "POST /v1/sessions/boat/end": None},
        Case("chat --session boat", typed="x\ny\n", code=1, out="", warns=("too long\n",),
             sent=[{"message": "x"}, {"message": "y"}]),  # there is nothing to end
    )),
    Scenario("an action is the same with its whole tag", (
        {"GET /v1/triggers/deploy": TriggersAnswer(action="deploy", count=0, memories=[])},
        Case("triggers deploy", code=3, err="no memory in namespace default is tagged trigger:deploy\n"),
        Case("triggers trigger:deploy", code=3, err="no memory in namespace default is tagged trigger:deploy\n"),
    )),
    Scenario("the memories are numbered in the order in which the answer cites them", (
        {"POST /v1/ask": msgspec.structs.replace(ASKED, sentences=[
            AskSentence(text="Second.", ids=[OTHER]), AskSentence(text="Both.", ids=[ID, OTHER])
        ], memories=[recalled(), recalled(id=OTHER, content="x")])},
        Case("ask who --session boat", sent=[{"question": "who", "session_id": "boat"}],
             says=("Second. [1] Both. [2] [1]\n", "\n1  0.82  deadbeef", "\n2  0.82  c0ffee01")),
    )),
    Scenario("on a terminal each sentence is shown as it comes, and the rest with the answer", (
        {"POST /v1/ask": events(("memories", AskMemories(memories=[recalled()])), ("sentence", KEY), ("answer", TWO))},
        Case("ask where", at_terminal=True, sent=[{"question": "where", "stream": True}],
             says=("The key is with Ines. [1]\nShe is in. [1]\n\n",)),
        {"POST /v1/ask": events(("memories", AskMemories(memories=[])), ("answer", UNKNOWN))},
        Case("ask where", code=3, at_terminal=True, out="I don't know.\n"),
    )),
    Scenario("a sentence that the answer does not have is withdrawn", (
        {"POST /v1/ask": events(("sentence", KEY), ("answer", msgspec.structs.replace(
            ASKED, sentences=[AskSentence(text="Ines has it.", ids=[ID])], reason="the name 'otto' is in no source")))},
        Case("ask where", at_terminal=True, says=("The key is with Ines. [1]\nInes has it.",),
             warns=("this was not the answer: the name 'otto' is in no source\n",)),
    )),
    Scenario("a stream that breaks off or ends in an error is an error", (
        {"POST /v1/ask": events(("sentence", KEY), ("error", {"error": {"code": "busy", "message": "try later"}}))},
        Case("ask where", code=1, at_terminal=True, warns=("try later",)),
        {"POST /v1/ask": events(("sentence", KEY))},
        Case("ask where", code=1, at_terminal=True, warns=("the daemon ended its answer too early",)),
    )),
    Scenario("recall asks for scores and phrasings, and says why the language model gave none", (
        {"POST /v1/recall": recall_answer(recalled(), reason="it is\x1b[31m busy", degraded=["llm"])},
        Case("recall key --rerank --expand", says=("without the language model: it is\ufffd[31m busy\n",)),
    )),
    Scenario("an answer of the language model says so", (
        {"POST /v1/ask": msgspec.structs.replace(ASKED, method="llm")},
        Case("ask where is the key", says=("\nwritten by the language model · namespace default\n",)),
    )),
    Scenario("a refused time or namespace is named by its option", (
        {"POST /v1/memories": refusal(400, "bad_value", "`expires_at` lies before 1970", field="expires_at")},
        Case("add x --expires 1960-01-01", code=2, err="mnemo: --expires lies before 1970\n"),
        {"POST /v1/memories": refusal(400, "bad_value", "leave `namespace` out", field="namespace")},
        Case("add x -n boat", code=2, warns=("leave --namespace out",)),
    )),
    Scenario("an answer that is not known is told, with the exit code of nothing found", (
        {"POST /v1/ask": UNKNOWN},
        Case("ask who", code=3, out="I don't know.\n", err="nothing found in namespace default\n"),
        Case("ask who --json", code=3, json=msgspec.to_builtins(UNKNOWN)),
        {"POST /v1/ask": msgspec.structs.replace(UNKNOWN, answer="I don't know. The closest memory says: Ines has it.",
                                                 memories=ASKED.memories[:1])},
        Case("ask who", code=3, err="", says=("I don't know. The closest memory says: Ines has it.\n\n",)),
        {"POST /v1/ask": msgspec.structs.replace(UNKNOWN, sensitive=2)},
        Case("ask who", code=3, err="2 memories that match as well are tagged sensitive and left out; include them "
                                    "with: -t sensitive\nnothing found in namespace default\n"),
        {"POST /v1/ask": msgspec.structs.replace(UNKNOWN, method="llm")},
        Case("ask who", code=3, out="I don't know.\n",
             err="the language model found no answer in the memories of namespace default; "
                 "show them with: mnemo recall\n"),
    )),
)  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_it_prints_what_the_table_says(scenario: Scenario, person: CommandLineUser, stub_daemon: StubDaemon) -> None:
    play(scenario, person, stub_daemon)
