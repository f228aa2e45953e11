"""Lists, raw requests, the pager, and what a shell is offered. SPEC 14."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_client.cli.format.state import job_lines
from mnemo_client.cli.terminal import TextStyle, cell_width
from mnemo_client.protocol.jobs import JobsAnswer, JobStatus
from mnemo_client.protocol.memories import EdgesAnswer, EdgeView, MemoryPage, TagsAnswer
from mnemo_client.protocol.retrieval import SearchAnswer
from mnemo_client.protocol.status import ConfigAnswer, ConfigValue
from tests.canned import CannedAnswer, CannedDaemon, CannedPerson, CannedRequest, recalled, status

pytestmark = pytest.mark.usefixtures("utc")


def run_with(person: CannedPerson, *words: str) -> str:
    assert person.give(*words) == 0
    return person.out


def test_lists_number_what_they_show_and_follow_the_pages(person: CannedPerson, canned: CannedDaemon) -> None:
    ids = [f"01999999-aaaa-7bbb-8ccc-ddddc0ff{number:04d}" for number in range(600)]

    def page(asked: CannedRequest) -> CannedAnswer:
        start, limit = int(asked.query.get("cursor", ["0"])[0]), int(asked.query["limit"][0])
        memories = [recalled(id=each) for each in ids[start : start + limit]]
        following = str(start + limit) if start + limit < len(ids) else None
        return CannedAnswer(msgspec.to_builtins(MemoryPage(memories=list(memories), cursor=following)))

    canned.answers["GET /v1/memories"] = page
    assert person.give("list", "--top", "2", "--tag", "home", "--state", "trashed") == 0
    assert person.out == (
        "1  2025-12-01  c0ff0000  The key is with Ines.\n2  2025-12-01  c0ff0001  The key is with Ines.\n"
    )
    assert person.err == "there are more; show them with: --top 20\n"
    assert canned.asked[-1].query == {"limit": ["2"], "tag": ["home"], "state": ["trashed"]}
    assert person.give("list", "--top", "10000") == 0
    assert person.out.splitlines()[-1] == "600  2025-12-01  c0ff0599  The key is with Ines."
    assert len(json.loads(run_with(person, "list", "--top", "550", "--json"))["memories"]) == 550
    canned.say(f"GET /v1/memories/{ids[1]}", recalled(id=ids[1]))
    assert person.give("show", "2") == 0


@pytest.mark.parametrize("count", ["0", "-5"])
def test_a_list_of_less_than_one_is_refused(person: CannedPerson, canned: CannedDaemon, count: str) -> None:
    assert person.give("list", f"--top={count}") == 2
    assert person.err == f"mnemo: --top must be a whole number from 1, not {count}\n"
    assert canned.asked == []


def test_recent_tags_and_namespaces_are_listed(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("GET /v1/recent", SearchAnswer(memories=[recalled()], total=1))
    assert person.give("recent") == 0
    assert person.out == "1  2025-12-01  c0ffee01  The key is with Ines.\n"
    canned.say("GET /v1/tags", TagsAnswer(tags={"home": 1200, "boat": 3}))
    assert person.give("tags") == 0
    assert person.out == "    1,200  home\n        3  boat\n"
    canned.say("GET /v1/tags", TagsAnswer(tags={}, namespace="x"))
    assert person.give("tags") == 3
    assert person.err == "no memory in namespace x has a tag\n"
    canned.say("GET /v1/status", status(namespaces={"default": 7, "boat": 2}))
    assert person.give("namespaces", "-n", "boat") == 0
    assert person.out == "        2  boat (in use)\n        7  default\n"


def test_api_sends_a_request_and_prints_what_is_answered(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("POST /v1/recall", {"memories": [], "é": 1})
    for path in ("/v1/recall", "v1/recall", "/recall", "recall"):
        assert person.give("api", "post", path, '{"query": "x"}') == 0
        assert json.loads(person.out) == {"memories": [], "é": 1}
        assert canned.asked[-1].body == {"query": "x"}
    canned.say("GET /v1/nothing", {"error": {"code": "no_route", "message": "there is no /v1/nothing"}}, 404)
    assert person.give("api", "GET", "nothing") == 3
    assert json.loads(person.out)["error"]["code"] == "no_route"
    assert person.err == "mnemo: there is no /v1/nothing\n"
    assert person.give("api", "FETCH", "nothing") == 2


def test_config_prints_the_bare_value_of_one_setting(person: CannedPerson, canned: CannedDaemon) -> None:
    values = [
        ConfigValue(key="folders.socket", value="/run/m.sock", origin="default"),
        ConfigValue(key="recall.top_k", value=5, origin="default"),
    ]
    canned.say("GET /v1/config", ConfigAnswer(values=values, file="/c.toml"))
    assert run_with(person, "config", "folders.socket") == "/run/m.sock\n"
    assert run_with(person, "config", "recall.top_k", "--json") == "5\n"
    assert person.give("config", "recall.top") == 2
    assert person.err == "mnemo: there is no setting 'recall.top'\n       see them all: mnemo config\n"
    assert 'folders.socket  "/run/m.sock"  default' in run_with(person, "config")


def test_what_is_longer_than_the_screen_goes_through_the_pager(
    person: CannedPerson, canned: CannedDaemon, short_folder: Path
) -> None:
    canned.say("GET /v1/tags", TagsAnswer(tags={f"tag-{number}": 1 for number in range(100)}))
    shown = short_folder / "shown"
    person.environ["PAGER"] = f"cat >{shown}"
    person.give("tags")
    assert (len(person.out.splitlines()), shown.exists()) == (100, False)  # no terminal, no pager
    person.sits_at_a_terminal = True
    person.give("tags")
    assert (person.out, len(shown.read_text().splitlines())) == ("", 100)
    for absent in ("cat", "", str(short_folder / "there-is-no-such-pager")):
        person.environ["PAGER"] = absent
        person.give("tags")
        assert len(person.out.splitlines()) == 100


def test_a_shell_is_offered_what_there_is_and_nothing_that_it_would_run(
    person: CannedPerson, canned: CannedDaemon
) -> None:
    tags = {"home": 3, "$(rm x)": 1, "two words": 1, "project:boat": 1, "`id`": 1}
    canned.say("GET /v1/tags", TagsAnswer(tags=tags))
    canned.say("GET /v1/status", status(namespaces={"default": 7, "boat": 2}))
    assert person.give("completion", "values", "tags") == 0
    assert person.out == "home\nproject:boat\n"
    assert canned.asked[-1].headers["x-namespace"] == "*"
    assert person.give("completion", "values", "namespaces") == 0
    assert person.out == "default\nboat\n"
    canned.stop()
    assert person.give("completion", "values", "models") == 0
    assert (person.out, person.err) == ("", "")


# Edges

OLDER, LINKED = "01999999-aaaa-7bbb-8ccc-ddddc0ff0001", "01999999-aaaa-7bbb-8ccc-ddddc0ff0002"
EDGES = EdgesAnswer(
    edges=[
        EdgeView(relation="related", direction="from", at=1, memory=recalled(id=LINKED, content="Keys."), via="link"),
        EdgeView(relation="updates", direction="to", at=2, memory=recalled(id=OLDER, content="It is with Otto.")),
    ]
)


def test_show_prints_the_edges_behind_the_memory_when_asked(person: CannedPerson, canned: CannedDaemon) -> None:
    memory = recalled()
    canned.say(f"GET /v1/memories/{memory.id}", memory)
    canned.say(f"GET /v1/memories/{memory.id}/edges", EDGES)
    alone = run_with(person, "show", memory.id)
    assert run_with(person, "show", memory.id, "--edges") == (
        alone + "\nlinked   c0ff0002  Keys.\nupdates  c0ff0001  It is with Otto.\n"
    )
    canned.say(f"GET /v1/memories/{memory.id}/edges", EdgesAnswer(edges=[]))
    assert run_with(person, "show", memory.id, "--edges") == alone + "\nno edges\n"


def test_show_says_that_there_are_more_edges(person: CannedPerson, canned: CannedDaemon) -> None:
    memory = recalled()
    canned.say(f"GET /v1/memories/{memory.id}", memory)
    canned.say(f"GET /v1/memories/{memory.id}/edges", EdgesAnswer(edges=EDGES.edges, cursor="more"))
    run_with(person, "show", memory.id, "--edges")
    assert person.err == "these are the first 2 edges; there are more\n"


def test_show_with_edges_as_json_is_the_daemons_answer_about_them(person: CannedPerson, canned: CannedDaemon) -> None:
    memory = recalled()
    canned.say(f"GET /v1/memories/{memory.id}", memory)
    canned.say(f"GET /v1/memories/{memory.id}/edges", EDGES)
    shown = json.loads(run_with(person, "show", memory.id, "--edges", "--json"))
    assert shown == msgspec.to_builtins(EDGES)


def test_edges_have_no_history(person: CannedPerson, canned: CannedDaemon) -> None:
    assert person.give("show", "c0ffee01", "--edges", "--as-of", "3d") == 2
    assert "edges have no history" in person.err
    assert canned.asked == []


def job(name: str, state: Any, reason: str | None = None, **fields: Any) -> JobStatus:
    whole: dict[str, Any] = {"started_at": None, "finished_at": None, **fields}
    return JobStatus(
        name=name, summary="Does it.", state=state, reason=reason, slice="1 piece", heavy=False, runs=0, slices=0,
        **whole,
    )  # fmt: skip


JOBS = [
    job("expiry", "idle", finished_at=0, next_at=1_800_000),
    job("usage", "idle"),
    job("index_rebuild", "running", started_at=60_000),
    job("token_backfill", "waiting", "the machine runs on battery"),
    job("erasure", "failing", "OSError: no space left"),
]


def test_jobs_say_how_each_stands_and_why_one_waits_or_fails(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("GET /v1/jobs", JobsAnswer(jobs=JOBS))
    assert person.give("jobs") == 0
    assert person.out.splitlines() == [
        "expiry          idle     last run 1970-01-01 00:00, next 1970-01-01 00:30",
        "    Does it.",
        "usage           idle     has not run yet, next when needed",
        "    Does it.",
        "index_rebuild   running  since 1970-01-01 00:01",
        "    Does it.",
        "token_backfill  waiting  has not run yet",
        "    Does it.",
        "    ! waiting: the machine runs on battery",
        "erasure         failing  has not run yet",
        "    Does it.",
        "    ! failing: OSError: no space left; it is tried again",
    ]


def test_the_list_of_jobs_fits_eighty_columns() -> None:
    long = [msgspec.structs.replace(each, summary="word " * 40, reason=each.reason and "cause " * 40) for each in JOBS]
    assert max(map(cell_width, job_lines(JobsAnswer(jobs=long), TextStyle(width=80)))) <= 80
