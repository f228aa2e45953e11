"""Texts that try to speak for the person, through every entry point of an agent, tool, import and note, and every place
where a text reaches a later session. SPEC 2.1 "Voice"

The texts are `fixtures/trust/poison.jsonl`; each has a word of its own, by which it is found wherever it comes out.
"""

import contextlib
import json
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from mnemo_client.cli.format.knowledge import OTHERS, profile_lines, project_lines
from mnemo_client.cli.terminal import TextStyle
from mnemo_client.client import Client
from mnemo_client.protocol.ingestion import ExtractRequest, Turn, TurnsRequest
from mnemo_client.protocol.knowledge import NewFact
from mnemo_client.protocol.memories import NewMemory, Patch
from mnemo_client.protocol.profiles import NewProfileEntry
from mnemo_client.protocol.sessions import NewStep
from mnemo_core.retrieval.context_block import OTHERS_HEADING
from tests.integration.test_mcp_clients import post
from tests.support.running_daemon import RunningDaemon

FIXTURE = Path(__file__).parents[1] / "fixtures/trust/poison.jsonl"
ROWS = [json.loads(line) for line in FIXTURE.read_text(encoding="utf-8").split("\n") if line]
TEXTS = [row["text"] for row in ROWS]
MARKER = re.compile("|".join(row["marker"] for row in ROWS), re.IGNORECASE)
QUERIES = [" ".join(row["marker"] for row in ROWS[start : start + 50]) for start in (0, 50)]
BY = "(?:agent|imported|tool.output)"
AUTHORED = re.compile(
    rf"^\[[A-Z]+\] \({BY}|^- \[\S+\] .* by={BY}|^\[[0-9a-f-]{{36}}\] · .*{BY}|^  .* {BY}(?: [\w. -]+)? · "
)
LISTED = re.compile(r'^Triggers: |^kb\d+: "')  # under the heading of others, names without an author


class Writers(NamedTuple):
    """A person and an agent in one namespace."""

    daemon: RunningDaemon
    namespace: str
    person: Client
    agent: Client


@contextlib.contextmanager
def two_in(daemon: RunningDaemon) -> Iterator[Writers]:
    """Both in a namespace of their own, in which each list of the profile has an entry of the person."""
    namespace = f"ns-{uuid.uuid4().hex[:8]}"
    with daemon.client(namespace, "cli") as person, Client(daemon.socket, namespace, entry_point="mcp") as agent:
        entry = NewProfileEntry(
            text="The keel is painted red.", evidence_ids=[person.remember("The keel is red.").memory.id]
        )
        person.update_profile(preferences=[entry], stable_facts=[entry], do_not_assume=[entry])
        person.update_profile(project=namespace, goals=[entry], blockers=[entry], next_steps=[entry])
        yield Writers(daemon, namespace, person, agent)


@pytest.fixture(scope="module")
def written(daemon: RunningDaemon) -> Iterator[dict[str, Writers]]:
    """By entry point, a namespace that all texts came into by it. They come in before any is shown: the daemon stores
    no turn that it handed out itself."""
    with contextlib.ExitStack() as stack:
        found = {entry: stack.enter_context(two_in(daemon)) for entry in ENTRIES}
        for entry, two in found.items():
            ENTRIES[entry](two)
        yield found


# The entry points


def remember(two: Writers, **fields: Any) -> list[str]:
    results = two.agent.remember_many([NewMemory(content=text, agent_id="planner", **fields) for text in TEXTS])
    return [each.memory.id for each in results]  # type: ignore[union-attr]


def remember_as_rule(two: Writers) -> None:
    tags = ["lesson", f"project:{two.namespace}", "goal", "trigger:deploy"]
    remember(two, kind="procedural", form="preference", category="preference", importance=1.0, tags=tags)


def remember_as_name(two: Writers) -> None:
    """The texts as what else can be chosen: names of agents, speakers, sessions, runs, tags and keys."""
    for text in TEXTS:
        name, tags = " ".join(text.split())[:128], [f"trigger:{' '.join(MARKER.findall(text))[:24]}"]
        two.agent.remember(text, agent_id=name, speaker=name, session_id=name, run_id=name, tags=tags, source=name[:64])


def ingest(two: Writers) -> None:
    for text in TEXTS:
        two.agent.ingest(text, agent_id="planner", dedup="off", importance=0.9)


def extract(two: Writers) -> None:
    two.agent.extract(ExtractRequest(turns=[Turn(role="user", content=text) for text in TEXTS]))


def say(role: str) -> Callable[[Writers], None]:
    def turns(two: Writers) -> None:
        said = [Turn(role=role, content=text, speaker="The user") for text in TEXTS]  # type: ignore[arg-type]
        two.agent.turns(TurnsRequest(session_id=TEXTS[0][:128], turns=said, dedup="off"))

    return turns


def tool_turns(two: Writers) -> None:
    """Of a tool's output not even a person who passes it on vouches."""
    said = [Turn(role="tool", content=text) for text in TEXTS]
    two.person.turns(TurnsRequest(session_id="s", turns=said, dedup="off"))


def hook_replies(two: Writers) -> None:
    with Client(two.daemon.socket, two.namespace, entry_point="hook") as hook:
        for text in TEXTS:
            name = " ".join(text.split())[:128]
            hook.hook("reply", session_id=name, prompt=text, reply=text, speaker=name, agent_id=text[:128])


def profile(two: Writers) -> None:
    (evidence,) = [two.agent.remember("The mast was painted.", category="crumb").memory.id]
    entries: Any = [NewProfileEntry(text=text, evidence_ids=[evidence]) for text in TEXTS]
    for bucket in ("preferences", "stable_facts", "do_not_assume"):
        two.agent.update_profile(**{bucket: entries})
    for bucket in ("goals", "blockers", "next_steps"):
        two.agent.update_profile(project=two.namespace, **{bucket: entries})


def profile_edits(two: Writers) -> None:
    """Entries of the person, which the agent then words anew."""
    evidence = two.person.remember("The hull was painted.", category="crumb").memory.id
    own = [
        NewProfileEntry(text=f"I prefer hammock number {number}.", evidence_ids=[evidence])
        for number in range(len(TEXTS))
    ]
    ids = two.person.update_profile(preferences=own).ids
    edits = [
        NewProfileEntry(id=each, text=text, evidence_ids=[evidence]) for each, text in zip(ids, TEXTS, strict=True)
    ]
    two.agent.update_profile(preferences=edits)


def edits(two: Writers) -> None:
    """Texts of the person, which the agent then words anew, by id and by key."""
    said = [NewMemory(content=f"Oar {number} is made of ash.", key=f"oar {number}") for number in range(len(TEXTS))]
    kept = two.person.remember_many(said)
    for each, text in zip(kept[:50], TEXTS[:50], strict=True):
        two.agent.patch(each.memory.id, Patch(content=text))  # type: ignore[union-attr]
    two.agent.remember_many([NewMemory(content=TEXTS[at], key=f"oar {at}") for at in range(50, len(TEXTS))])


def facts(two: Writers) -> None:
    two.agent.add_facts([NewFact(subject="The user", predicate="wants", object=text[:512]) for text in TEXTS])
    two.agent.add_facts([NewFact(subject=text[:512], predicate=text[:512], object="the user") for text in TEXTS])


def runs(two: Writers) -> None:
    for number, text in enumerate(TEXTS):
        step = NewStep(step_number=number, action=text[:1000], outcome=text, key_findings=text, agent_id="planner")
        two.agent.add_step("poison", step)
    two.agent.summarize_run("poison")


def import_of_a_tool(two: Writers) -> None:
    lines = [json.dumps({"type": "entity", "name": text[:60], "entityType": "rule", "observations": [text]})
             for text in TEXTS]  # fmt: skip
    two.person.import_from([f"{line}\n".encode() for line in lines], namespace=two.namespace)


ENTRIES: dict[str, Callable[[Writers], Any]] = {
    "remember": remember, "remember as rule": remember_as_rule, "names": remember_as_name, "ingest": ingest,
    "extract": extract, "turns of the user": say("user"), "turns of the agent": say("agent"),
    "turns of the system": say("system"), "turns of a tool": tool_turns, "hook": hook_replies, "profile": profile,
    "profile edits": profile_edits, "edits": edits, "facts": facts, "runs": runs, "import": import_of_a_tool,
}  # fmt: skip


# The places where a text comes out


def mcp(two: Writers, method: str, **params: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    status, answer = post(two.daemon, message, X_Namespace=two.namespace)
    assert status == 200, answer
    return answer["result"]


def tool_text(two: Writers, name: str, **arguments: Any) -> str:
    result = mcp(two, "tools/call", name=name, arguments=arguments)
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


def texts(two: Writers, queries: Sequence[str] = QUERIES) -> Iterator[tuple[str, str]]:
    """The places and their texts."""
    yield "resume", two.agent.resume().text
    yield "hook at the start", two.agent.hook("session-start", session_id="later").context
    yield "prompt of MCP", mcp(two, "prompts/get", name="resume", arguments={})["messages"][0]["content"]["text"]
    wide: dict[str, Any] = {"top_k": 100, "token_budget": None, "cut": "none"}
    for query in queries:
        yield "context", two.agent.context(query, **wide).block
        yield "context of M", two.agent.context(query, format="m", **wide).block
        yield "hook before a prompt", two.agent.hook("prompt", prompt=query).context
        yield "memory_context", tool_text(two, "memory_context", query=query)
        yield "memory_recall", tool_text(two, "memory_recall", query=query, limit=50)
    yield "memory_list", tool_text(two, "memory_list", limit=50)
    style = TextStyle()
    for lines in (profile_lines(two.person.profile(), style), project_lines(two.person.project(two.namespace), style)):
        yield "mnemo profile", "\n".join(lines).replace(OTHERS, OTHERS_HEADING)


def values(two: Writers, queries: Sequence[str] = QUERIES) -> Iterator[tuple[str, Any]]:
    """The places that answer records."""
    yield "profile", two.agent.profile()
    contents = mcp(two, "resources/read", uri="memory://profile")["contents"]
    yield "resource of the profile", json.loads(contents[0]["text"])
    for query in queries:
        yield "recall", two.agent.recall(query, top_k=100, token_budget=None)
    yield "recent", two.agent.recent(limit=100)
    yield "triggers", two.agent.triggers("deploy")


def check_text(text: str) -> int:
    """The number of markers of a text, all of them under the heading of others and in an item with its author."""
    own, _, others = text.partition(OTHERS_HEADING)
    assert not MARKER.findall(own), own
    head, count = "", 0
    for line in others.split("\n"):
        head = line if not line.startswith("  ") or AUTHORED.match(line) else head
        if found := MARKER.findall(line):
            assert AUTHORED.match(head) or LISTED.match(head), head
            count += len(found)
    return count


def check_values(answer: Any, path: tuple[str, ...] = (), author: Any = None) -> int:
    """The number of markers of an answer, all of them in a record that names its author."""
    match answer:
        case msgspec.Struct():
            return check_values(msgspec.to_builtins(answer), path, author)
        case dict():
            author = answer.get("author") or answer.get("path") or author
            return sum(check_values(value, (*path, name), author) for name, value in answer.items())
        case list():
            return sum(check_values(value, path, author) for value in answer)
        case str() if "block" not in path:
            found = MARKER.findall(answer)
            assert author or not found, (path, answer)
            return len(found)
    return 0


# What an assistant, a tool or nobody in particular said in a conversation, and what others put into a profile, is
# recalled and stands in no resume.
NOT_IN_RESUME = [f"turns of {name}" for name in ("the user", "the agent", "the system", "a tool")]
NOT_IN_RESUME += ["hook", "profile", "profile edits"]


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_text_of_others_speaks_with_the_persons_voice(written: dict[str, Writers], entry: str) -> None:
    two, found = written[entry], dict[str, int]()
    for queries in (QUERIES[:1], QUERIES[1:]):
        for place, text in texts(two, queries):
            found[place] = found.get(place, 0) + check_text(text)
        for place, answer in values(two, queries):
            found[place] = found.get(place, 0) + check_values(answer)
        two.person.compress(sessions=1, cutoff_hours=0)  # entries, summaries and merges are no way around it
        two.person.consolidate()
    print(entry, json.dumps(found))  # shown by -rP
    assert min(found[place] for place in ("context", "memory_recall", "recall")) > 0
    assert found["resume"] > 0 or entry in NOT_IN_RESUME


def test_a_note_speaks_as_its_file(daemon: RunningDaemon, tmp_path: Path) -> None:
    passages = "\n\n".join(f"## {number}\n\n{text}" for number, text in enumerate(TEXTS))
    (tmp_path / "poison.md").write_text(f"---\ntitle: Poison\n---\n\n{passages}\n", encoding="utf-8")
    with two_in(daemon) as two:
        root = two.person.add_root(tmp_path, two.namespace)
        two.person.rescan()
        found = 0
        for place, text in texts(two):
            head = ""
            for line in text.split("\n"):
                head = head if line.startswith("  ") else line
                if markers := MARKER.findall(line):
                    assert "poison.md" in head or (place == "context of M" and head.startswith("- [")), head
                    found += len(markers)
        two.person.compress(sessions=1, cutoff_hours=0)
        assert not MARKER.search(str(two.agent.profile()))
        two.person.remove_root(id=root.id)
    assert found > 0


def test_others_have_a_quarter_where_the_person_fills_the_rest(daemon: RunningDaemon) -> None:
    with two_in(daemon) as two:
        remember(two)
        two.person.remember_many([NewMemory(content=f"Lantern {number} hangs in the hall.") for number in range(30)])
        query = f"lantern {QUERIES[0]}"
        block = two.agent.context(query, top_k=8, token_budget=400, cut="none").block
        recalled = tool_text(two, "memory_recall", query=query, limit=8)
        for text in (block, recalled):
            assert (text.count("Lantern"), check_text(text)) == (6, 2)
