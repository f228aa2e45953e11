"""Table of the commands with their requests, output and exit codes, and of the daemon's answers to them. SPEC 14."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mnemo_client.protocol.changes import DiffAnswer, DifferenceView, HistoryAnswer, UndoAnswer, VersionView
from mnemo_client.protocol.ingestion import (
    IngestExplanation,
    NeighbourView,
    ReclassificationView,
    ReclassifyAnswer,
    RememberAnswer,
    ScoresView,
    StatementView,
)
from mnemo_client.protocol.memories import (
    BulkDeleteAnswer,
    EdgesAnswer,
    EdgeView,
    EraseAnswer,
    MemoryPage,
    MemoryView,
    Quotation,
    ResidueSearch,
    SearchedPlace,
    TagsAnswer,
    TrashPage,
    TrashView,
)
from mnemo_client.protocol.retrieval import ChannelRank, ContextAnswer, SearchAnswer, WhyAnswer
from mnemo_client.protocol.status import (
    CatalogueModel,
    ConfigAnswer,
    ConfigValue,
    JobsAnswer,
    JobStatus,
    ModelsAnswer,
    ModelStatus,
    NotesRootStatus,
    NotesStatus,
    ReindexAnswer,
)
from tests.support.stub_daemon import (
    ID,
    NOON,
    Case,
    CommandLineUser,
    Scenario,
    StubAnswer,
    StubDaemon,
    StubRequest,
    play,
    recall_answer,
    recalled,
    refusal,
    status,
)

pytestmark = pytest.mark.usefixtures("utc")

OTHER = ID[:-8] + "c0ffee02"
BEEF = "01890000-0000-7000-8000-00000000beef"

RECALL, SEARCH, STATUS, PURGE = "POST /v1/recall", "GET /v1/search", "GET /v1/status", "POST /v1/purge"
ONE, CHANGE, DELETE = f"GET /v1/memories/{ID}", f"PATCH /v1/memories/{ID}", "DELETE /v1/memories"
ADD, UNDO, DIFF, TAGS = "POST /v1/memories", "POST /v1/undo", "GET /v1/diff", "GET /v1/tags"


# Recall, search, why, context

WHY = WhyAnswer(
    id=ID, verdict="further_down", reason="beyond_top_k", sentence="It stands in place 7.", hurdles=[], holds=["key"],
    missing=["boat"], channels=[ChannelRank(name="words", found=True, score=3.2, rank=7, looked_at=12)],
)  # fmt: skip
ASKED = {"query": "x", "highlight": True, "cut": "gap", "min_score": 0.005}  # by `recall x`
FOUND = {RECALL: recall_answer(recalled()), SEARCH: SearchAnswer(memories=[recalled()], total=1), ONE: recalled()}
KNOWN = {**FOUND, STATUS: status(namespaces={"default": 7, "boat": 2})}


def dates(said: str, sent: str | float) -> Scenario:
    return Scenario(f"recall and search pass on the date {said}", (
        FOUND,
        Case(f"recall key --since '{said}' --until '{said}'",
             sent=[{**ASKED, "query": "key", "since": sent, "until": sent}]),
        Case(f"search key --since '{said}' --until '{said}'",
             sent=[{"q": ["key"], "highlight": ["true"], "since": [said], "until": [said]}]),
    ))  # fmt: skip


ASKING = (
    Scenario("recall points to the nearest only where something was searched", (
        {RECALL: recall_answer(total=0, abstained=True)},  # as with a tag that nothing has
        Case("recall x --tag none", code=3, err="nothing found in namespace default\n", at_terminal=True),
    )),
    Scenario("recall asks for what is close enough, on a terminal as in a pipe", (
        {RECALL: recall_answer(total=3, abstained=True)},
        *(Case(f"recall x{option}", code=3, sent=[ASKED], at_terminal=is_there, err=None if "json" in option else
               "nothing in namespace default is close enough to be an answer; show the closest with: --cut none\n")
          for is_there in (False, True) for option in ("", " --cut gap", " --json")),
        Case("recall x --cut none", code=3, sent=[{"query": "x", "highlight": True, "cut": "none"}],
             err="nothing found in namespace default\n"),
        Case("recall x --min-score 0", code=3, sent=[{**ASKED, "min_score": 0}]),
    )),
    Scenario("a named namespace without memories is reported, at the cost of one request", (
        KNOWN,
        Case("recall x -n boats", err="namespace boats has no memories; did you mean boat?\n",
             sent=[{}, ASKED]),
        Case("search x -n zebra", err="namespace zebra has no memories; list the namespaces with: mnemo namespaces\n",
             sent=[{}, {"q": ["x"], "highlight": ["true"]}]),
        Case("recall x -n boat", err="", sent=[{}, ASKED]),
        Case("recall x -n '*'", err="", sent=[ASKED]),
        Case("recall x", err="", sent=[ASKED]),
    )),
    Scenario("JSON has no character that controls a terminal", (
        {ONE: recalled(content="a\x9b31mb")}, Case(f"show {ID} --json", says=("a\\u009b31mb",)),
    )),
    Scenario("nothing found is said and is exit code 3", (
        {RECALL: recall_answer(total=0)},
        Case("recall x", code=3, out="", err="nothing found in namespace default\n"),
    )),
    Scenario("the past is asked for by a time", (
        FOUND,
        Case("recall key --as-of 2026-05-01", sent=[{**ASKED, "query": "key", "as_of": "2026-05-01"}]),
        Case("search key --as-of 3d", sent=[{"q": ["key"], "highlight": ["true"], "as_of": ["3d"]}]),
        Case(f"show {ID} --as-of 1700000000000", sent=[{"as_of": ["1700000000000"]}]),
    )),
    *(dates(said, said) for said in ("last week", "3d", "2023", "2026-05-01")),
    dates("1700000000000", 1.7e12),
    Scenario("why takes the options of recall and a number of the last answer", (
        {**FOUND, "POST /v1/why": msgspec.structs.replace(WHY, degraded=["vectors"]), STATUS: status()},
        Case("recall x"),
        Case("why 1 spare key --kind procedural -k 2 --since 'last week' --budget 0",
             sent=[{"id": ID, "query": "spare key", "kinds": ["procedural"], "top_k": 2, "since": "last week",
                    "token_budget": None, "cut": "gap", "min_score": 0.005}, {}],
             says=("It stands in place 7.\n",), err="answered by words only: the embedding model is loading\n"),
    )),
    Scenario("why as JSON is the daemon's own answer", (
        {"POST /v1/why": {**msgspec.to_builtins(WHY), "new": [1]}},
        Case(f"why {ID} key --json", json={**msgspec.to_builtins(WHY), "new": [1]}),
    )),
    Scenario("why without a question or with too short an id is wrong usage", (
        Case(f"why {ID}", code=2, warns=("mnemo: there is no text to look for",), sent=[]),
        Case("why c0ffee key", code=2, warns=("too short for an id",), sent=[]),
    )),
    *(Scenario(f"an empty context is told from one that does not fit: cut {cut}", (
        {"POST /v1/context": ContextAnswer(block="", total_tokens=0, memories=[], cut=cut)},
        Case("context key --max-chars 60", code=code, out="", err=said),
    )) for cut, code, said in (
        (False, 3, "nothing found in namespace default\n"),
        (True, 1,
         "mnemo: memories were found, but none fits the limit\n       raise the limit: --max-chars, --budget\n"),
    )),
)  # fmt: skip


# One memory

SHORT_ID = "too short for an id"
AMBIGUOUS = refusal(409, "ambiguous_id", f"'01999999' could be {ID}, {OTHER}: give more digits", field="id")
CHOICES = (
    "mnemo: '01999999' could be\n  c0ffee01  The key is with Ines.\n  c0ffee02  The key is with Otto.\n"
    "       give one of these, or more digits\n"
)
EDGES = EdgesAnswer(edges=[
    EdgeView(relation="related", direction="from", at=1, memory=recalled(id=OTHER, content="Keys."), via="link"),
    EdgeView(relation="updates", direction="to", at=2, memory=recalled(id=BEEF, content="It is with Otto.")),
])  # fmt: skip
WHOLE = (
    f"id          {ID}\nnamespace   default\nkind        semantic · fact\nstate       active\nlayer       buffer\n"
    "importance  0.50 (rule), strength 0.50\nfrom        user · cli\nhappened    2025-12-01 12:00:00\n"
    "stored      2025-12-01 12:00:00\nrecalled    1 time\n\nThe key is with Ines.\n"
)
KEY = {"content": "the key", "tags": ["home", "keys"], "event_at": "2026-05-01", "importance": 0.9}
SCORES = ScoresView(importance=0.66, novelty=0.9, salience=0.3)
EXPLAINED = IngestExplanation(
    profile="own", route="a statement: Ines, has, the key", found={"entity": "Ines"},
    near=[NeighbourView(id=BEEF, relation="updates", sim=0.8312, why="Lisbon, then Porto", tied=True),
          NeighbourView(id=ID, relation="related", sim=None, why="the words", tied=False)],
)  # fmt: skip

ONE_MEMORY = (
    Scenario("add takes words or standard input and says what was done", (
        {ADD: RememberAnswer(outcome="stored", memory=recalled())},
        Case("add the key -t home -t keys --at 2026-05-01 --importance 0.9", sent=[KEY],
             headers={"x-mnemo-door": "cli"}, out="remembered · c0ffee01 · namespace default\n"),
        Case("add - --at 1700000000000", typed="from\nstdin",
             sent=[{"content": "from\nstdin", "event_at": 1_700_000_000_000}]),
        Case("add -", typed="  \n", code=2, warns=("mnemo: there is no text to remember\n",), sent=[]),
    )),
    Scenario("add says that the fields of a known memory stay", (
        {ADD: RememberAnswer(outcome="duplicate", memory=recalled())},
        Case("add The key is with Ines. --tag home", out="already known · c0ffee01 · namespace default\n",
             err="its fields stay as they were; change them with: mnemo edit ID\n"),
        Case("add The key is with Ines.", err=""),
        {ADD: RememberAnswer(outcome="stored", memory=recalled(), perhaps_updates=[BEEF]),
         f"GET /v1/memories/{BEEF}": recalled(id=BEEF, content="Otto has the key.\nHe waits.")},
        Case("add x", says=("than 0000beef\n  0000beef  Otto has the key.\n",), warns=("--newer-than none",)),
    )),
    Scenario("add shows what was decided and why", (
        {ADD: RememberAnswer(
            outcome="stored", memory=recalled(content="Ines has the key.", importance=0.66), updates=[BEEF],
            scores=SCORES, explained=EXPLAINED,
            statements=[StatementView(text="Ines has it.", triple=("Ines", "has", "it"))])},
        Case("add Ines has the key. --explain --infer --dedup off",
             sent=[{"content": "Ines has the key.", "infer": True, "dedup": "off", "wait": "extracted",
                    "explain": True}, {}],
             out="remembered · c0ffee01 · namespace default · newer than 0000beef\n"
                 "  kind        semantic · fact: a statement: Ines, has, the key\n"
                 "  importance  0.66 = 0.6 x novelty 0.90 + 0.4 x salience 0.30\n"
                 "  salience    entity 'Ines'\n"
                 "  near        0000beef  0.831  updates: Lisbon, then Porto\n"
                 "  near        c0ffee01    -    (related): the words\n"
                 "  statement   Ines has it.  [Ines | has | it]\n"),
    )),
    Scenario("a given importance is shown next to the score", (
        {ADD: RememberAnswer(outcome="stored", memory=recalled(importance=0.5), explained=EXPLAINED,
                             scores=ScoresView(importance=0.2, novelty=0.2, salience=0.2))},
        Case("add x --explain", says=("0.50, although scored 0.20 = 0.6 x novelty 0.20 + 0.4 x salience 0.20",)),
    )),
    Scenario("a refused value is the daemon's message, harmless, with the name of the option; none there is 3", (
        {ADD: refusal(400, "bad_value", "content has 9000 characters\x1b[2J, at most 8192", field="content")},
        Case("add x", code=2, err="mnemo: content has 9000 characters�[2J, at most 8192\n"),
        {ADD: refusal(400, "bad_value", "`event_at` lies before 1970", field="event_at")},
        Case("add x --at 1960-01-01", code=2, err="mnemo: --at lies before 1970\n"),
        {"GET /v1/memories/abcdef12": refusal(404, "not_found", "no such memory")},
        Case("show abcdef12", code=3),
    )),
    Scenario("a number of the last answer stands for its id", (
        {**FOUND, DELETE: BulkDeleteAnswer(ids=[ID], deleted=1)},
        Case("show 1", code=3, warns=("there is no last answer",)),
        Case("recall x"),
        Case("show 1", out=WHOLE),
        Case("rm 1", out="moved to the trash: c0ffee01\n", err="undo this with: mnemo undo\n"),
        Case("show 2", code=3, err="mnemo: the last answer has no number 2\n       it has 1 to 1\n"),
        Case("show c0ffee", code=2, warns=(SHORT_ID,)),
    )),
    Scenario("digits of several ids are answered with those memories, a line each", (
        {DELETE: AMBIGUOUS, "GET /v1/memories/01999999": AMBIGUOUS, ONE: recalled(),
         f"GET /v1/memories/{OTHER}": recalled(id=OTHER, content="The key is with Otto.\nOr was.")},
        *(Case(f"{command} 01999999", code=2, out="", err=CHOICES) for command in ("rm", "show", "edit")),
    )),
    Scenario("rm asks for all ids in one change", (
        {DELETE: BulkDeleteAnswer(ids=[ID, OTHER], deleted=2)},
        Case(f"rm {ID} {OTHER}", out="moved to the trash: c0ffee01, c0ffee02\n", err="undo this with: mnemo undo\n",
             sent=[{"id": [ID, OTHER], "confirm": ["true"]}]),
        Case(f"rm {ID} abc", code=2, warns=("mnemo: 'abc' is too short for an id\n",), sent=[]),
        {DELETE: BulkDeleteAnswer(ids=[], deleted=0)},
        Case(f"rm {ID}", err="already in the trash\n"),
    )),
    Scenario("edit by options needs no editor", (
        {ONE: recalled(), CHANGE: recalled(version=2)},
        Case(f"edit {ID} --tag a --pin --content -", typed="new text",
             sent=[{}, {"content": "new text", "tags": ["a"], "pinned": True}]),
        Case(f"edit {ID} --newer-than none --newer-than {OTHER}", sent=[{}, {"updates": [OTHER]}]),
        Case(f"edit {ID} --pin --unpin", code=2),
    )),
    Scenario("show prints the edges behind the memory when asked", (
        {ONE: recalled(), f"GET /v1/memories/{ID}/edges": EDGES},
        Case(f"show {ID}", out=WHOLE),
        Case(f"show {ID} --edges", out=WHOLE + "\nlinked   c0ffee02  Keys.\nupdates  0000beef  It is with Otto.\n"),
        Case(f"show {ID} --edges --json", json=msgspec.to_builtins(EDGES)),
        {f"GET /v1/memories/{ID}/edges": EdgesAnswer(edges=EDGES.edges, cursor="more")},
        Case(f"show {ID} --edges", err="these are the first 2 edges; there are more\n"),
        {f"GET /v1/memories/{ID}/edges": EdgesAnswer(edges=[])}, Case(f"show {ID} --edges", out=WHOLE + "\nno edges\n"),
        Case("show c0ffee01 --edges --as-of 3d", code=2, warns=("edges have no history",), sent=[]),
    )),
)  # fmt: skip


# The past


def version(seq: int, what: str, by: str = "cli", group: str | None = None, **fields: Any) -> VersionView:
    return VersionView(seq=seq, at=NOON + 1000 * seq, by=by, what=what, group=group, memory=recalled(**fields))


def difference(how: Any, seq: int, what: str, **fields: Any) -> DifferenceView:
    whole: dict[str, Any] = {"id": ID, "at": NOON, "by": "cli", "memory": recalled()}
    return DifferenceView(how=how, seq=seq, what=what, **{**whole, **fields})


def diff(**fields: Any) -> DiffAnswer:
    whole: dict[str, Any] = {"since_seq": 3, "until_seq": 12, "namespace": "default", "added": [], "changed": [],
                             "removed": []}  # fmt: skip
    return DiffAnswer(**{**whole, **fields})


VERSIONS = [
    version(9, "undo:7", version=4, content="The key is with Otto.", tags=["house"], strength=0.9),
    version(7, "rm", "mcp:planner", version=3, content="The key is with Otto.", tags=["house"], state="trashed"),
    version(5, "edit", version=2, content="The key is with Otto.", tags=["house"], group="g1"),
    version(2, "add", version=1, tags=["home", "keys"]),
]
HISTORY = f"GET /v1/memories/{ID}/history"
ELEVEN = [f"01890000-0000-7000-8000-0000c0ffee{number:02}" for number in range(11)]
CHANGED = difference(
    "changed", 9, "edit", fields=["content", "pinned", "expires_at", "importance"],
    before={"content": "one two three", "pinned": False, "expires_at": None, "importance": 0.5},
    after={"content": "one 2 three", "pinned": True, "expires_at": NOON, "importance": 0.627911113},
)  # fmt: skip

PAST = (
    Scenario("history prints who did what when, and what that changed", (
        {"GET /v1/memories/c0ffee01/history": HistoryAnswer(versions=VERSIONS)},
        Case("history c0ffee01 -k 9", sent=[{"limit": ["9"]}], err="undo a change with: mnemo undo CHANGE\n",
             out="change 9 · 2025-12-01 12:00:09 · cli · undo of change 7 · version 4\n"
                 "  state: trashed → active\n"
                 "change 7 · 2025-12-01 12:00:07 · mcp:planner · delete · version 3\n"
                 "  state: active → trashed\n"
                 "change 5 · 2025-12-01 12:00:05 · cli · edit · group g1 · version 2\n"
                 "  content: The key is with [-Ines-]{+Otto+}.\n"
                 "  tags: home, keys → house\n"
                 "change 2 · 2025-12-01 12:00:02 · cli · add · version 1\n"
                 "  The key is with Ines.\n"),
    )),
    Scenario("history says where versions are missing", (
        {HISTORY: HistoryAnswer(versions=VERSIONS[:2])},
        Case(f"history {ID}", warns=("earlier versions were not kept\n",)),
        {HISTORY: HistoryAnswer(versions=VERSIONS[:2], cursor="7")},
        Case(f"history {ID}",
             warns=("there are earlier versions; show them with: mnemo history ID --top 500\n",)),
    )),
    Scenario("history as JSON is the daemon's own answer", (
        {HISTORY: {"versions": [], "cursor": None, "new": 1}},
        Case(f"history {ID} --json", out='{"versions": [], "cursor": null, "new": 1}\n'),
    )),
    Scenario("diff prints what was added, changed and removed", (
        {DIFF: diff(
            added=[difference("added", 12, "add"), difference("restored", 11, "restore")], changed=[CHANGED],
            removed=[difference("trashed", 8, "rm"), difference("dropped", 7, "purge", id=BEEF, memory=None)])},
        Case("diff 2h --until seq:12", sent=[{"since": ["2h"], "until": ["seq:12"]}],
             out="+ c0ffee01  change 12  2025-12-01 12:00  cli  add      The key is with Ines.\n"
                 "+ c0ffee01  change 11  2025-12-01 12:00  cli  restore  The key is with Ines.\n"
                 "~ c0ffee01  change 9   2025-12-01 12:00  cli  edit     The key is with Ines.\n"
                 "    content: one [-two-]{+2+} three\n"
                 "    pinned: no → yes\n"
                 "    expires_at: none → 2025-12-01 12:00:00\n"
                 "    importance: 0.5 → 0.628\n"
                 "- c0ffee01  change 8   2025-12-01 12:00  cli  delete   The key is with Ines.\n"
                 "- 0000beef  change 7   2025-12-01 12:00  cli  purge    erased\n"
                 "2 added · 1 changed · 2 removed · since change 3 · namespace default\n"),
    )),
    Scenario("counts of a part are not given as those of the whole", (
        {DIFF: diff(cursor="3.12.x", added=[difference("added", 12, "add")])},
        Case("diff 2h --top 1",
             says=("\nshown: 1 added · 0 changed · 0 removed · since change 3 · namespace default\n",),
             err="there is more; show it with: mnemo diff 2h --top 500, or narrow it with --until\n"),
    )),
    Scenario("a diff without changes says so", (
        {DIFF: diff(until_seq=3, namespace="boat"), STATUS: status(namespaces={"boat": 1})},
        Case("diff 1700000000000 -n boat", out="", err="nothing changed in namespace boat\n",
             sent=[{}, {"since": ["1700000000000"]}], headers={"x-namespace": "boat"}),
        Case("diff", code=2),
    )),
    Scenario("a bare number is not taken for a time of long ago, and a year is a time", (
        {DIFF: diff(until_seq=3)},
        *(Case(f"diff {words}", code=2, warns=(f"for a change write: seq:{words.split()[-1]}\n",), sent=[])
          for words in ("3", "1234567890", "2h --until 12")),
        Case("diff 2025", sent=[{"since": ["2025"]}]),
    )),
    Scenario("undo says what it undid, with the text of a single memory, of many how many", (
        {UNDO: UndoAnswer(seq=7, what="rm", ids=[ID], dry_run=True), ONE: recalled()},
        Case("undo --dry-run", sent=[{"dry_run": True}, {}], says=("undo: delete (change 7: c0ffee01)\n  The key is",)),
        {UNDO: UndoAnswer(seq=9, what="import", ids=ELEVEN, total=3000, seqs=[9], undo_seq=12)},
        Case("undo --group g1", sent=[{"group": "g1"}],
             out=f"undone: import (change 9, 3000 memories: {', '.join(each[-8:] for each in ELEVEN[:10])} …)\n"),
        {UNDO: UndoAnswer(seq=9, what="import", ids=[ID], total=1, seqs=[5, 7, 9], undo_seq=12)},
        Case("undo --group g1", out="undone: import (changes 5 to 9: c0ffee01)\n  The key is with Ines.\n"),
        Case("undo --seq 9 --dry-run", sent=[{"seq": 9, "dry_run": True}, {}]),
        Case("undo 9", sent=[{"seq": 9}, {}]),
        Case("undo 9 --group g1", code=2, warns=("give one change, one group or one cycle",)),
    )),
)  # fmt: skip


# Erasing


def purge(plan: EraseAnswer, report: EraseAnswer) -> dict[str, Callable[[StubRequest], EraseAnswer]]:
    return {PURGE: lambda asked: plan if asked.body.get("dry_run") else report}


SIBLING = ID[:-8] + "5ca1ab1e"
REPORT = EraseAnswer(
    purged=[ID], derived=[BEEF], rederive={BEEF: [SIBLING]}, revived=[SIBLING],
    places=[SearchedPlace(place="db", state="clean", detail="rewritten: 20 to 10 bytes"),
            SearchedPlace(place="quarantine/5.jsonl", state="removed", detail="it held a word")],
    backups=["/data/backups/one"], searched=ResidueSearch(files=9, bytes=1_500_000, needles=12),
)  # fmt: skip
PLAN = EraseAnswer(purged=[ID], derived=[BEEF], dry_run=True)
ERASE = {ONE: recalled(), **purge(PLAN, REPORT)}
QUOTED = EraseAnswer(
    purged=[ID], derived=[], candidates=[Quotation(id=BEEF, version=2, excerpt="you told me that")],
    backups=["/data/b"], dry_run=True,
)  # fmt: skip
LEFT = EraseAnswer(
    purged=[ID], derived=[], complete=False, places=[
        SearchedPlace(place=f"memory {BEEF}", state="still there", detail="its version 1 says the same")])  # fmt: skip
ASK, DO = {"ids": [ID], "dry_run": True}, {"ids": [ID]}
ALL = {**DO, "quoting": True, "everywhere": True}


def emptied(asked: StubRequest) -> dict[str, Any]:
    return {"dropped": 3, "bytes": 2100, "dry_run": "confirm" not in asked.query}


ERASING = (
    Scenario("forget prints what was erased, and place by place the result", (
        ERASE,
        Case(f"forget {ID} --yes", sent=[ASK, DO],
             out="erased: 1 memory and 1 derived from it (c0ffee01)\n"
                 "  0000beef was derived from 5ca1ab1e too, which stay: derive it again from them\n"
                 "  active again, since the memory that superseded it is erased: 5ca1ab1e\n"
                 "  clean       db: rewritten: 20 to 10 bytes\n"
                 "  removed     quarantine/5.jsonl: it held a word\n"
                 "searched 9 files, 1.5 MB, for 12 traces: none is left\n"
                 "  not changed /data/backups/one has a copy: delete it when you no longer need it "
                 "(--everywhere would have rewritten it)\n"
                 "  not searched  backups and exports in your own folders: delete those that have a copy\n"),
    )),
    Scenario("forget ends with 1 where something is still there", (
        {**ERASE, PURGE: LEFT},
        Case(f"forget {ID} -y", code=1, says=(f"  still there memory {BEEF}: its version 1 says the same\n",
                                              "some are left, see above")),
    )),
    Scenario("forget asks before it does anything", (
        ERASE,
        Case(f"forget {ID}", code=2, at_terminal=True, typed="no\n", sent=[ASK, {}],
             says=("c0ffee01", "erase 1 memory and 1 derived from it for good, with every trace? [y/N] ")),
        Case(f"forget {ID}", at_terminal=True, typed="y\n", sent=[ASK, {}, DO]),
        Case(f"forget {ID}", code=2, warns=("confirm with --yes",)),
        Case(f"forget {ID} --dry-run", sent=[ASK],
             out="would be erased: 1 memory and 1 derived from it (c0ffee01)\n"),
    )),
    Scenario("forget asks about quotations and about copies, each by itself", (
        {ONE: recalled(), **purge(QUOTED, REPORT)},
        Case(f"forget {ID}", at_terminal=True, typed="y\ny\ny\n", sent=[ASK, {}, ALL],
             says=("0000beef you told me that\nerase also the memories that quote it (1 memory)? [y/N] ",
                   "may hold it /data/b\nrewrite these copies without it? [y/N] ")),
        Case(f"forget {ID}", at_terminal=True, typed="y\nno\ny\n", sent=[ASK, {}, {**DO, "everywhere": True}]),
        Case(f"forget {ID} --quoting", at_terminal=True, typed="y\nno\n", sent=[ASK, {}, {**DO, "quoting": True}]),
        Case(f"forget {ID} --yes", sent=[ASK, DO]),  # where nobody can answer nothing is asked, and nothing more done
        Case(f"forget {ID} --yes --quoting --everywhere", sent=[ASK, ALL]),
        Case(f"forget {ID} --dry-run", says=("you told me that", "/data/b")),
    )),
    Scenario("forget takes what passes its options in one namespace", (
        ERASE,
        Case("forget -t diary --state trashed --since 1700000000000 -n work -y",
             sent=[{"filter": {"namespace": "work", "states": ["trashed"], "tags": ["diary"],
                               "since": 1_700_000_000_000}, "dry_run": True}, DO]),
        Case("forget --all -n work --dry-run", sent=[{"filter": {"namespace": "work"}, "dry_run": True}]),
        Case("forget -y", code=2, sent=[]),
        Case(f"forget {ID} --tag x -y", code=2, sent=[]),
        {PURGE: EraseAnswer(purged=[], derived=[])},
        Case("forget --tag x -y", code=3),
    )),
    Scenario("the trash is emptied once a person confirms it", (
        {"DELETE /v1/trash": emptied},
        Case("trash empty --dry-run", out="would be erased: 3 memories in the trash, 2.1 KB\n", sent=[{}]),
        Case("trash empty", code=2, sent=[{}]),
        Case("trash empty", code=2, at_terminal=True, typed="\n", sent=[{}]),
        Case("trash empty", at_terminal=True, typed="yes\n", sent=[{}, {"confirm": ["true"]}],
             says=("erased: 3 memories in the trash, 2.1 KB",)),
        Case("trash empty --yes --json", json={"dropped": 3, "bytes": 2100, "dry_run": False}),
        {"DELETE /v1/trash": {"dropped": 0, "bytes": 0, "dry_run": True}},
        Case("trash empty --yes", out="", err="the trash is empty\n"),
    )),
)  # fmt: skip


# Many memories, and the daemon

PAGE_IDS = [f"01999999-aaaa-7bbb-8ccc-ddddc0ff{number:04d}" for number in range(600)]


def page(asked: StubRequest) -> MemoryPage:
    start, limit = int(asked.query.get("cursor", ["0"])[0]), int(asked.query.get("limit", ["50"])[0])
    following = str(start + limit) if start + limit < len(PAGE_IDS) else None
    return MemoryPage(memories=[recalled(id=each) for each in PAGE_IDS[start : start + limit]], cursor=following)


def as_listed(memory_id: str) -> Any:
    """A memory of a list, which has no score."""
    return msgspec.to_builtins(msgspec.convert(msgspec.to_builtins(recalled(id=memory_id)), MemoryView))


def job(name: str, state: Any, reason: str | None = None, **fields: Any) -> JobStatus:
    whole: dict[str, Any] = {"started_at": None, "finished_at": None, **fields}
    whole |= {"summary": "Does it.", "slice": "1 piece", "heavy": False, "runs": 0, "slices": 0}
    return JobStatus(name=name, state=state, reason=reason, **whole)


JOBS = [
    job("expiry", "idle", finished_at=0, next_at=1_800_000),
    job("usage", "idle"),
    job("index_rebuild", "running", started_at=60_000),
    job("token_backfill", "waiting", "the machine runs on battery"),
    job("erasure", "failing", "OSError: no space left"),
]
REJECTED = recalled(content="ok then", state="discarded")
RECLASSIFIED = ReclassificationView(
    id=ID, content="I prefer tea.", before={"kind": "semantic", "importance": 0.5},
    after={"kind": "procedural", "importance": 0.764}, why="a preference",
)  # fmt: skip
MODEL = CatalogueModel(
    name="mini", role="embedding", bytes=1, licence="MIT", sha256="", sources=[], installed=True, in_use=True
)
READY = ModelStatus(name="mini", state="ready")
MODELS = ModelsAnswer(
    models=[
        MODEL,
        msgspec.structs.replace(MODEL, name="other", in_use=False),
        msgspec.structs.replace(MODEL, name="small", role="llm"),
    ],
    embedding=READY,
    llm=READY,
)
CONFIG = ConfigAnswer(file="/c.toml", values=[
    ConfigValue(key="folders.socket", value="/run/m.sock", origin="default"),
    ConfigValue(key="recall.top_k", value=5, origin="default"),
])  # fmt: skip
GONE_ROOT = NotesRootStatus(
    id="r1", path="/gone/notes", namespace="default", state="missing", files=0, chunks=0, waiting=0
)
UNSAFE_TAGS = {"home": 3, "$(rm x)": 1, "two words": 1, "project:boat": 1, "`id`": 1}


def imported(asked: StubRequest) -> StubAnswer:
    row = {"tool": "mnemo", "dry_run": "dry_run" in asked.query, "stored": 2, "duplicate": 14}
    return StubAnswer(msgspec.json.encode(row) + b"\n")


def reclassified(dry_run: bool) -> Scenario:
    answer = ReclassifyAnswer(looked_at=1200, changed=1, left=3, changes=[RECLASSIFIED], dry_run=dry_run,
                              group=None if dry_run else "g2")  # fmt: skip
    return Scenario(f"reclassify shows what changes: dry run {dry_run}", (
        {"POST /v1/reclassify": answer},
        Case("reclassify --dry-run" if dry_run else "reclassify", sent=[{} if dry_run else {"dry_run": False}],
             err="" if dry_run else "undo this with: mnemo undo --group g2\n",
             out="c0ffee01  I prefer tea.\n"
                 "          kind semantic -> procedural, importance 0.50 -> 0.76 (a preference)\n"
                 f"1,200 checked, 1 {'would be changed' if dry_run else 'changed'}, 3 kept as a person set them\n"),
    ))  # fmt: skip


MANY = (
    Scenario("lists number what they show and follow the pages", (
        {"GET /v1/memories": page, f"GET /v1/memories/{PAGE_IDS[1]}": recalled(id=PAGE_IDS[1])},
        Case("list --top 2 --tag home --state trashed",
             sent=[{"limit": ["2"], "tag": ["home"], "state": ["trashed"]}],
             out="1  2025-12-01  c0ff0000  The key is with Ines.\n2  2025-12-01  c0ff0001  The key is with Ines.\n",
             err="there are more; show them with: --top 20\n"),
        Case("list --top 10000", says=("\n600  2025-12-01  c0ff0599  The key is with Ines.\n",)),
        Case("list --top 550 --json",
             json={"memories": [as_listed(each) for each in PAGE_IDS[:550]], "cursor": "550"}),
        Case("show 2"),
        *(Case(f"list --top={count}", code=2, sent=[],
               err=f"mnemo: --top must be a whole number from 1, not {count}\n") for count in ("0", "-5")),
    )),
    Scenario("recent, tags and namespaces are listed", (
        {"GET /v1/recent": SearchAnswer(memories=[recalled()], total=1),
         TAGS: TagsAnswer(tags={"home": 1200, "boat": 3}), STATUS: status(namespaces={"default": 7, "boat": 2})},
        Case("recent", out="1  2025-12-01  c0ffee01  The key is with Ines.\n"),
        Case("tags", out="    1,200  home\n        3  boat\n"),
        Case("namespaces -n boat", out="        2  boat (in use)\n        7  default\n"),
        {TAGS: TagsAnswer(tags={}, namespace="x")},
        Case("tags", code=3, err="no memory in namespace x has a tag\n"),
    )),
    Scenario("rejected texts are listed with the reason", (
        {"GET /v1/trash": TrashPage(
            memories=[REJECTED], entries=[TrashView(memory=REJECTED, at=NOON, why="low_importance")])},
        Case("trash --set-aside", sent=[{"set_aside": ["true"]}],
             out="c0ffee01  2025-12-01  unimportant  ok then\n",
             err="restore one with: mnemo trash restore ID; rejected texts are erased after 30 days\n"),
        Case("trash --set-aside --json", says=('"state": "discarded"',)),
    )),
    reclassified(True),
    reclassified(False),
    Scenario("a text of which every piece is refused is a failure", (
        {"POST /v1/ingest": {"results": [{"error": {"code": "bad_value", "message": "the text holds a NUL"}}],
                             "counts": {}, "namespace": "default", "degraded": []}},
        Case("ingest", code=1, typed="one", err="refused: the text holds a NUL\n"),
    )),
    Scenario("export is of every namespace unless one is named", (
        {"GET /v1/export": '{"a":"ü"}\n{"b":2}\n'.encode()},
        Case("export", out='{"a":"ü"}\n{"b":2}\n', headers={"x-namespace": None}),
        Case("export -n work", sent=[{"namespace": ["work"]}]),
    )),
    Scenario("a dry import says that nothing was changed", (
        {"POST /v1/import": imported},
        Case("import - --dry-run", typed="{}",
             out="export of mnemo: nothing was changed; an import would give: 2 stored, 14 already known\n"),
        Case("import -", typed="{}", out="export of mnemo: 2 stored, 14 already known\n"),
    )),
)  # fmt: skip

DAEMON = (
    Scenario("JSON is the daemon's own answer", (
        {"GET /v1/health": {"ok": True, "state": "ready", "version": "0.1.0", "new": [1]},
         "GET /v1/notes/roots": {"roots": []}},
        Case("--json up", json={"ok": True, "state": "ready", "version": "0.1.0", "new": [1]}),
    )),
    Scenario("jobs say how each stands, and why one waits or fails", (
        {"GET /v1/jobs": JobsAnswer(jobs=JOBS)},
        Case("jobs", out="expiry          idle     last run 1970-01-01 00:00, next 1970-01-01 00:30\n"
                         "    Does it.\n"
                         "usage           idle     has not run yet, next when needed\n"
                         "    Does it.\n"
                         "index_rebuild   running  since 1970-01-01 00:01\n"
                         "    Does it.\n"
                         "token_backfill  waiting  has not run yet\n"
                         "    Does it.\n"
                         "    ! waiting: the machine runs on battery\n"
                         "erasure         failing  has not run yet\n"
                         "    Does it.\n"
                         "    ! failing: OSError: no space left; it is tried again\n"),
    )),
    Scenario("config prints the bare value of one setting", (
        {"GET /v1/config": CONFIG},
        Case("config folders.socket", out="/run/m.sock\n"),
        Case("config recall.top_k --json", out="5\n"),
        Case("config recall.top", code=2, err="mnemo: there is no setting 'recall.top'\n"
                                              "       see them all: mnemo config\n"),
        Case("config", says=('folders.socket  "/run/m.sock"  default',)),
    )),
    Scenario("a model that is in use is not switched to", (
        {"GET /v1/models": MODELS, "POST /v1/models/use": MODELS},
        Case("models use mini", out="mini is already in use\n"),
        Case("models use other", out="switching to other; the old vectors are used until the new ones are complete\n"),
    )),
    Scenario("a language model is used from now on", (
        {"GET /v1/models": MODELS, "POST /v1/models/use": MODELS},
        Case("models use small", out="small is the language model from now on\n"),
    )),
    *(Scenario(f"the number of vectors reads well for one and for many: {said}", (
        {"POST /v1/models/reindex": ReindexAnswer(total=total, with_vectors=1, queued=0, dimensions=384)},
        Case("reindex --stats", out=f"memories with a vector: {said}, 384 dimensions\n"),
        Case("reindex", out=f"memories with a vector: {said}, 384 dimensions\nnone is missing\n"),
    )) for total, said in ((1, "1 of 1"), (5190, "1 of 5,190"))),
    Scenario("notes rm takes the path as it was given", (
        {"GET /v1/notes/roots": NotesStatus(roots=[GONE_ROOT]),
         "DELETE /v1/notes/roots": BulkDeleteAnswer(ids=[ID], deleted=1)},
        Case("notes rm /gone/notes/", sent=[{}, {"id": ["r1"]}],
             out="no longer watching /gone/notes: 1 memory moved to the trash, its files are unchanged\n",
             err="its memories return with: mnemo notes add /gone/notes\n"),
        Case("notes rm /other", code=3),
    )),
    Scenario("notes add refuses what is no folder before it asks", (
        Case("notes add /no/such/folder", code=2, err="mnemo: there is no folder /no/such/folder\n", sent=[]),
    )),
    Scenario("api sends a request and prints the answer", (
        {RECALL: {"memories": [], "é": 1},
         "GET /v1/nothing": refusal(404, "no_route", "there is no /v1/nothing")},
        *(Case(f"""api post {path} '{{"query": "x"}}'""", json={"memories": [], "é": 1}, sent=[{"query": "x"}])
          for path in ("/v1/recall", "v1/recall", "/recall", "recall")),
        Case("api GET nothing", code=3, err="mnemo: there is no /v1/nothing\n",
             json={"error": {"code": "no_route", "message": "there is no /v1/nothing"}}),
        Case("api FETCH nothing", code=2),
    )),
    Scenario("a shell is offered the values that exist, and nothing that it would run", (
        {TAGS: TagsAnswer(tags=UNSAFE_TAGS), STATUS: status(namespaces={"default": 7, "boat": 2})},
        Case("completion values tags", out="home\nproject:boat\n", sent=[{"namespace": ["*"]}]),
        Case("completion values namespaces", out="default\nboat\n"),
    )),
)  # fmt: skip


def usage(words: str, message: str, hint: str) -> Scenario:
    case = Case(words, code=2, err=f"mnemo: {message}\n       {hint}\n", sent=[])
    return Scenario(f"wrong usage says what would be right: {words}", (case,))


WRONG_USAGE = (
    usage("reacll", "there is no command 'reacll'", "did you mean: mnemo recall"),
    usage("remember", "there is no command 'remember'", "did you mean: mnemo add"),
    usage("xyz", "there is no command 'xyz'", "see: mnemo --help"),
    usage("notes drop", "there is no command 'mnemo notes drop'", "there are: status, add, rm, rescan"),
    usage("show", "ID is missing", "see: mnemo show --help"),
    usage("recall x --mood", "there is no such option or argument here: --mood", "see: mnemo recall --help"),
    usage("recall x --top many", "-k/--top must be a whole number, not 'many'", "see: mnemo recall --help"),
    usage("add x --importance high", "--importance must be a number, not 'high'", "see: mnemo add --help"),
    usage("recall x --sort age", "--sort must be one of 'score', 'recent', 'accessed', not 'age'",
          "see: mnemo recall --help"),
    usage("recall x --since", "--since needs a value", "see: mnemo recall --help"),
    usage("forget", "name memories by ids or by options such as --tag", "see: mnemo forget --help"),
    usage(f"forget {ID} --tag x", "name memories by ids or by options such as --tag, not both",
          "see: mnemo forget --help"),
)  # fmt: skip


@pytest.mark.parametrize(
    "scenario", [*ASKING, *ONE_MEMORY, *PAST, *ERASING, *MANY, *DAEMON, *WRONG_USAGE], ids=lambda each: each.name
)
def test_a_command_does_what_the_table_says(
    scenario: Scenario, person: CommandLineUser, stub_daemon: StubDaemon
) -> None:
    play(scenario, person, stub_daemon)
