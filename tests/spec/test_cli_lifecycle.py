"""`mnemo consolidate` and `mnemo undo --cycle` on a daemon with canned answers. SPEC 9, 14"""

import msgspec
import pytest

from mnemo_client.protocol.lifecycle import (
    ConsolidateAnswer,
    CycleOperationView,
    CyclesAnswer,
    CycleStepView,
    CycleView,
)
from mnemo_client.protocol.versions import UndoAnswer
from tests.canned import ID, CannedDaemon, CannedPerson, Give, Scenario, play

OTHER = "01936f2e-7c00-7000-8000-0000deadbeef"
CYCLE = CycleView(
    id=OTHER, epoch=7, started_at=1764547200000, ended_at=1764547201000, requested=True, namespace="default",
    steps=[CycleStepView(name="triage", counts={"promote": 1, "keep": 2}, milliseconds=1500),
           CycleStepView(name="gate"), CycleStepView(name="merge", skipped="no language\x1b model may be asked")],
)  # fmt: skip
DONE = ConsolidateAnswer(
    cycle=CYCLE, total=502, operations=[
        CycleOperationView(step="triage", action="promote", ids=[ID], texts=["The key\x1b is\nwith Ines."],
                           reason="reinforcement 5.0"),
        CycleOperationView(step="merge", action="merge", ids=[ID, OTHER],
                           texts=["The key is with Ines.", "Ines has it."], text="The spare key is with Ines."),
    ],
)  # fmt: skip
FORETOLD = msgspec.structs.replace(DONE, dry_run=True, namespace="*")
STEPS = ("  triage  promote 1 · keep 2 · 1.5 s\n"
         "  merge   skipped: no language\ufffd model may be asked\n")  # fmt: skip

SCENARIOS = (
    Scenario("a cycle is shown by its steps, and each operation with its texts and the words that change", (
        {"POST /v1/consolidate": DONE},
        Give("consolidate --merge", sent=[{"merge": True}],
             out="cycle 7 · namespace default\n" + STEPS +
                 "promote · reinforcement 5.0\n  c0ffee01  The key\ufffd is with Ines.\n"
                 "merge\n  c0ffee01  The key is with Ines.\n  deadbeef  Ines has it.\n"
                 "  becomes   The {+spare+} key is with Ines.\nand 500 more operations\n",
             err="take the cycle back with: mnemo undo --cycle\n"),
        {"POST /v1/consolidate": FORETOLD},
        Give("consolidate --dry-run -n '*'", sent=[{"dry_run": True}], headers={"x-namespace": "*"},
             says=("a cycle would do this · all namespaces\n",), err=""),
        Give("consolidate --json", json=msgspec.to_builtins(FORETOLD)),
    )),
    Scenario("the cycles so far are listed with their steps", (
        {"GET /v1/consolidate/history": CyclesAnswer(cycles=[CYCLE, msgspec.structs.replace(
            CYCLE, requested=False, namespace="*", ended_at=None, steps=[])])},
        Give("consolidate --history -k 2", sent=[{"limit": ["2"]}],
             out="cycle 7 deadbeef 2025-12-01 00:00 · on request · namespace default\n" + STEPS +
                 "cycle 7 deadbeef 2025-12-01 00:00 · after activity · not finished\n"),
        {"GET /v1/consolidate/history": CyclesAnswer(cycles=[])},
        Give("consolidate --history", code=3, err="there was no cycle yet\n"),
        Give("consolidate --history --dry-run", code=2, warns=("--history lists the cycles so far",)),
    )),
    Scenario("a cycle is taken back by its id, and the last one without an id", (
        {"POST /v1/undo": UndoAnswer(seq=9, what="consolidate", ids=[ID], total=1, seqs=[9])},
        Give("undo --cycle", sent=[{"cycle": "last"}], out="undone: consolidate (change 9: c0ffee01)\n"),
        Give("undo --cycle deadbeef --dry-run", sent=[{"cycle": "deadbeef", "dry_run": True}]),
        Give("undo --cycle deadbeef --group g", code=2, warns=("give one change, one group or one cycle",)),
    )),
)  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_it_prints_what_the_table_says(
    scenario: Scenario, person: CannedPerson, canned: CannedDaemon, utc: None
) -> None:
    play(scenario, person, canned)
