"""`mnemo consolidate`, `audit`, `review` and `undo --cycle` on a daemon with prepared answers. SPEC 9, 14"""

import msgspec
import pytest

from mnemo_client.protocol.changes import UndoAnswer
from mnemo_client.protocol.lifecycle import (
    AuditPlanAnswer,
    ConsolidateAnswer,
    CycleOperationView,
    CyclesAnswer,
    CycleStepView,
    CycleView,
    ProposalView,
    ReviewAnswer,
    VerdictAnswer,
)
from mnemo_client.protocol.status import JobsAnswer, JobStatus, LifecycleStatus
from tests.support.stub_daemon import ID, Case, CommandLineUser, Scenario, StubDaemon, play, recalled, status

OTHER = "01936f2e-7c00-7000-8000-0000deadbeef"
CYCLE = CycleView(
    id=OTHER, epoch=7, started_at=1764547200000, ended_at=1764547201000, requested=True, namespace="default",
    steps=[CycleStepView(name="triage", counts={"promote": 1, "keep": 2}, milliseconds=1500),
           CycleStepView(name="gate"), CycleStepView(name="merge", skipped="no language\x1b model may be asked")],
)  # fmt: skip
DONE = ConsolidateAnswer(
    cycle=CYCLE, total=503, operations=[
        CycleOperationView(step="triage", action="promote", ids=[ID], texts=["The key\x1b is\nwith Ines."],
                           reason="reinforcement 5.0"),
        CycleOperationView(step="triage", action="promote", ids=[OTHER], texts=["Ines has it."],
                           reason="reinforcement 5.0"),
        CycleOperationView(step="merge", action="merge", ids=[ID, OTHER],
                           texts=["The key is with Ines.", "Ines has it."], text="The spare key is with Ines."),
    ],
)  # fmt: skip
MERGE = ProposalView(
    id="0123456789abcdef", action="merge", reason="nearly the same", at=1, similarity=0.91,
    memories=[recalled(access_count=3, layer="working"),
              recalled(id=OTHER, content="The\x1b key is in a box.", access_count=3, layer="working")],
    text="The key is with Ines, in a box.",
)  # fmt: skip
TAGGED = ProposalView(
    id="89abcdef01234567",
    action="tag",
    tag="lesson",
    reason="it is a lesson",
    at=2,
    memories=[recalled(access_count=3, layer="working")],
    stale="a text was changed",
)
WAITING = ConsolidateAnswer(
    cycle=msgspec.structs.replace(CYCLE, steps=[CycleStepView(name="gate", counts={"proposed": 1, "waiting": 1})]),
    total=0, operations=[],
)  # fmt: skip
DISTILLED = ConsolidateAnswer(
    cycle=CYCLE, total=1, operations=[
        CycleOperationView(step="session_distillation", action="distil", ids=[ID], texts=["The key is with Ines."],
                           text="Ines has it."),
    ],
)  # fmt: skip
JOB = JobStatus(
    name="consolidation", summary="Does it.", state="idle", reason=None, slice="", heavy=True, runs=0, slices=0,
    started_at=None, finished_at=None,
)  # fmt: skip
FORETOLD = msgspec.structs.replace(DONE, dry_run=True, namespace="*")
STEPS = ("  triage  promote 1 · keep 2 · 1.5 s\n"
         "  merge   skipped: no language\ufffd model may be asked\n")  # fmt: skip

SCENARIOS = (
    Scenario("a cycle is shown by its steps, and each operation with its texts and the words that change", (
        {"POST /v1/consolidate": DONE},
        Case("consolidate --merge", sent=[{"merge": True}],
             out="cycle deadbeef · namespace default\n" + STEPS +
                 "promote to working · triage · reinforcement 5.0\n  c0ffee01  The key\ufffd is with Ines.\n"
                 "  deadbeef  Ines has it.\nmerge\n  c0ffee01  The key is with Ines.\n  deadbeef  Ines has it.\n"
                 "  becomes   The {+spare+} key is with Ines.\nand 500 more operations\n",
             err="take the cycle back with: mnemo undo --cycle\n"),
        {"POST /v1/consolidate": FORETOLD},
        Case("consolidate --dry-run -n '*'", sent=[{"dry_run": True}], headers={"x-namespace": "*"},
             says=("a cycle would do this · all namespaces\n",), err=""),
        {"POST /v1/consolidate": msgspec.structs.replace(DONE, operations=[], total=0)},
        Case("consolidate", out="cycle deadbeef · namespace default\n" + STEPS + "no memory needs a change\n", err=""),
        {"POST /v1/consolidate": WAITING},
        Case("consolidate", out="cycle deadbeef · namespace default\n  gate  proposed 1 · waiting 1\n",
             err="2 operations wait for your approval: mnemo review\n"),
        {"POST /v1/consolidate": DISTILLED},
        Case("consolidate", says=("distil · session_distillation\n  c0ffee01  The key is with Ines.\n"
                                  "  new       Ines has it.\n",)),
        Case("consolidate -k 2", code=2, warns=("-k is the number of cycles that --history lists",)),
        {"POST /v1/consolidate": FORETOLD},
        Case("consolidate --json", json=msgspec.to_builtins(FORETOLD)),
    )),
    Scenario("status and jobs show the last cycle, and status what waits", (
        {"GET /v1/status": status(lifecycle=LifecycleStatus(last_cycle=CYCLE, reason="on\x1b battery", proposals=3))},
        Case("status", says=("  last cycle       7 · 2025-12-01 00:00 · promote 1 · keep 2\n"
                             "  next cycle       on\ufffd battery\n"
                             "  review           3 operations wait: mnemo review\n",)),
        {"GET /v1/status": status(lifecycle=LifecycleStatus(
            last_cycle=msgspec.structs.replace(CYCLE, undone_at=1), proposals=1))},
        Case("status", says=("7 · 2025-12-01 00:00 · undone\n  review           1 operation waits: mnemo review\n",)),
        {"GET /v1/jobs": JobsAnswer(jobs=[JOB], last_cycle=msgspec.structs.replace(CYCLE, steps=[]))},
        Case("jobs", out="consolidation  idle  has not run yet, next when needed\n    Does it.\n"
                         "    last cycle: 7 · 2025-12-01 00:00 · no memory needed a change\n"),
        {"GET /v1/jobs": JobsAnswer(jobs=[JOB], last_cycle=msgspec.structs.replace(CYCLE, ended_at=None, steps=[]))},
        Case("jobs", says=("last cycle: 7 · 2025-12-01 00:00 · not finished\n",)),
    )),
    Scenario("the cycles so far are listed with their steps", (
        {"GET /v1/consolidate/history": CyclesAnswer(cycles=[CYCLE, msgspec.structs.replace(
            CYCLE, requested=False, namespace="*", ended_at=None, steps=[])])},
        Case("consolidate --history -k 2", sent=[{"limit": ["2"]}],
             out="cycle deadbeef 2025-12-01 00:00 · on request · namespace default\n" + STEPS +
                 "cycle deadbeef 2025-12-01 00:00 · after activity · not finished\n"),
        {"GET /v1/consolidate/history": CyclesAnswer(cycles=[])},
        Case("consolidate --history", code=3, err="there was no cycle yet\n"),
        Case("consolidate --history --dry-run", code=2, warns=("--history lists the cycles so far",)),
    )),
    Scenario("what waits for approval is shown with its texts and their use, and the words that change", (
        {"GET /v1/review": ReviewAnswer(proposals=[MERGE, TAGGED], total=3, cursor="1.x")},
        Case("review -k 2", sent=[{"limit": ["2"]}],
             out="01234567 merge · nearly the same · similarity 0.91\n"
                 "  c0ffee01  The key is with Ines.  working, importance 0.50, recalled 3 times\n"
                 "  deadbeef  The\ufffd key is in a box.  working, importance 0.50, recalled 3 times\n"
                 "  becomes   The key is with Ines{+, in a box+}.\n"
                 "89abcdef tag lesson · it is a lesson · a text was changed\n"
                 "  c0ffee01  The key is with Ines.  working, importance 0.50, recalled 3 times\n",
             err="these are 2 of 3\ndecide with: mnemo review approve ID, mnemo review reject ID, "
                 "or mnemo review --ask\n"),
        Case("review --ask", code=2, warns=("--ask needs a terminal",)),
        {"GET /v1/review": ReviewAnswer(proposals=[], total=0)},
        Case("review", code=3, err="nothing waits for approval in namespace default\n"),
        {"GET /v1/review": ReviewAnswer(proposals=[], total=0, namespace="*")},
        Case("review -n '*'", code=3, err="nothing waits for approval in any namespace\n"),
    )),
    Scenario("an audit says how much it looked through, and shows what is proposed", (
        {"POST /v1/audit": AuditPlanAnswer(proposals=[TAGGED], total=1, reviewed=240, left=7, proposed=1)},
        Case("audit", sent=[{}], says=("89abcdef tag lesson",),
             err="240 memories of core and working were looked through, 1 new proposal; 7 are left for the next audit\n"
                 "decide with: mnemo review approve ID, mnemo review reject ID, or mnemo review --ask\n"),
        Case("audit --apply", code=2, warns=("--apply asks about each",)),
        {"POST /v1/audit": AuditPlanAnswer(proposals=[MERGE], total=1, reviewed=2, proposed=1),
         f"POST /v1/review/{MERGE.id}": VerdictAnswer(id=MERGE.id, verdict="reject")},
        Case("audit --apply", typed="r\n", at_terminal=True, sent=[{}, {"verdict": "reject"}]),
    )),
    Scenario("proposals are decided on by their ids, or all that still hold", (
        {"GET /v1/review": ReviewAnswer(proposals=[MERGE, TAGGED], total=2),
         f"POST /v1/review/{MERGE.id}": VerdictAnswer(id=MERGE.id, verdict="approve"),
         "POST /v1/review/01234567": VerdictAnswer(id=MERGE.id, verdict="approve")},
        Case("review approve 01234567", sent=[{"verdict": "approve"}], out="approved 01234567\n",
             err="undo the last of them with: mnemo undo\n"),
        Case("review reject --all", sent=[{"limit": ["500"]}, {"verdict": "reject"}], out="rejected 01234567\n"),
        Case("review reject", code=2, warns=("name the operations by their ids",)),
        Case("review edit 01234567 'The key is in a box.' --force", out="approved 01234567\n",
             sent=[{"verdict": "approve", "text": "The key is in a box.", "force": True}]),
        Case("review --ask", typed="x\nq\n", at_terminal=True, sent=[{}], warns=("0 operations were decided on",)),
        Case("review --ask", typed="a\n", at_terminal=True, sent=[{}, {"verdict": "approve"}],
             warns=("1 operation was decided on",)),
    )),
    Scenario("a cycle is taken back by its id, and the last one without an id", (
        {"POST /v1/undo": UndoAnswer(seq=9, what="consolidate", ids=[ID], total=1, seqs=[9])},
        Case("undo --cycle", sent=[{"cycle": "last"}, {}], out="undone: consolidate (change 9: c0ffee01)\n"),
        Case("undo --cycle deadbeef --dry-run", sent=[{"cycle": "deadbeef", "dry_run": True}, {}]),
        Case("undo --cycle deadbeef --group g", code=2, warns=("give one change, one group or one cycle",)),
    )),
)  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_it_prints_what_the_table_says(
    scenario: Scenario, person: CommandLineUser, stub_daemon: StubDaemon, utc: None
) -> None:
    play(scenario, person, stub_daemon)
