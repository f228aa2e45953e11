"""Profiles and compression on the command line. SPEC 9.6, 14"""

import pytest

from mnemo_client.protocol.choices import PROFILE_LISTS
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.profiles import (
    CompressAnswer,
    ProfileAnswer,
    ProfileEntry,
    ProfileUpdateAnswer,
    ProjectAnswer,
    SummarizedSession,
)
from mnemo_core.lifecycle.profiles import PROJECT_BUCKETS, USER_BUCKETS
from tests.support.stub_daemon import ID, NOON, Case, CommandLineUser, Scenario, StubDaemon, play, recalled, refusal

pytestmark = pytest.mark.usefixtures("utc")

BEEF = "01890000-0000-7000-8000-00000000beef"
PROFILE, UPDATE, PROJECT, COMPRESS = (
    "GET /v1/profile", "PUT /v1/profile", "GET /v1/projects/web", "POST /v1/compress",
)  # fmt: skip


def entry(text: str) -> ProfileEntry:
    return ProfileEntry(id=BEEF, text=text, evidence_ids=[ID], last_updated=NOON, trust="user")


EMPTY = ProfileAnswer(preferences=[], stable_facts=[], do_not_assume=[], projects=[])
FULL = ProfileAnswer(
    preferences=[entry("I prefer tea.")], stable_facts=[], do_not_assume=[entry("I am \x1bNorse.")], projects=["web"]
)
WEB = ProjectAnswer(project="web", goals=[entry("Open in May.")], blockers=[], next_steps=[], last_updated=NOON)
WRITTEN = ProfileUpdateAnswer(ids=[BEEF], removed=[], group="g")
DONE = CompressAnswer(
    compressed=2, projects=1, profile=1, under_way=1, group="g",
    sessions=[SummarizedSession(session_id="s", summary="Anna is in Oslo.", memories=[ID], method="rule", id=BEEF)],
)  # fmt: skip
NOTHING = CompressAnswer(compressed=0, projects=0, profile=0, under_way=0, sessions=[], dry_run=True)
DATED = "0000beef · 2025-12-01 · evidence c0ffee01"

LIKED = recalled(category="preference")

SCENARIOS = (
    Scenario("a profile is shown in its lists", (
        {PROFILE: FULL, PROJECT: WEB},
        Case("profile", out=f"Preferences\n  I prefer tea.  {DATED}\nDo not assume\n  I am \ufffdNorse.  {DATED}\n"
             "Projects: web\n"),
        Case("profile --project web", out=f"Goals\n  Open in May.  {DATED}\n"),
    )),
    Scenario("an empty profile is nothing found", (
        {PROFILE: EMPTY, PROJECT: refusal(404, "not_found", "nothing is known about a project 'web'")},
        Case("profile", code=3, out="", err="the profile is empty: mnemo add TEXT, or mnemo profile add TEXT\n"),
        Case("profile --project web", code=3, out=""),
    )),
    Scenario("an entry rests on the evidence that is named, or on what was said", (
        {UPDATE: WRITTEN, "POST /v1/memories": RememberAnswer(outcome="stored", memory=recalled())},
        Case(f"profile add I live in Oslo --evidence {BEEF}", out="written to stable_facts: 0000beef\n",
             sent=[{"stable_facts": [{"text": "I live in Oslo", "evidence_ids": [BEEF]}]}]),
        Case("profile add Tea --list preferences", out="written to preferences: 0000beef\n",
             sent=[{"content": "Tea"}, {"preferences": [{"text": "Tea", "evidence_ids": [ID]}]}]),
        Case(f"profile add Test it --project web --evidence {BEEF}", out="written to next_steps of web: 0000beef\n",
             sent=[{"project": "web", "next_steps": [{"text": "Test it", "evidence_ids": [BEEF]}]}]),
        Case("profile add", code=2, sent=[]),
    )),
    Scenario("a preference is written to the preferences", (
        {UPDATE: WRITTEN, "POST /v1/memories": RememberAnswer(outcome="stored", memory=LIKED)},
        Case("profile add Prefers British English", out="written to preferences: 0000beef\n"),
        Case("profile add Prefers Rust --project web", out="written to next_steps of web: 0000beef\n"),
        Case("profile add Prefers tea --list stable_facts", out="written to stable_facts: 0000beef\n"),
    )),
    Scenario("entries are removed by their ids", (
        {UPDATE: ProfileUpdateAnswer(ids=[], removed=[BEEF], group="g")},
        Case(f"profile rm {BEEF}", sent=[{"remove": [BEEF]}],
             err="1 entry moved to the trash; the evidence stays\n"),
    )),
    Scenario("compress says what it did and how to take it back", (
        {COMPRESS: DONE},
        Case("compress --sessions 1 --cutoff-hours 0", sent=[{"sessions": 1, "cutoff_hours": 0}],
             out="s · 1 memory · Anna is in Oslo.\n1 conversation summarized\n"
             "1 conversation left alone, because it goes on: mnemo sessions\n"
             "2 items lifted to 1 entry of the profile and to 1 project\n",
             err="take it back with: mnemo undo --group g\n"),
    )),
    Scenario("compress shows what it would do", (
        {COMPRESS: NOTHING},
        Case("compress --dry-run", sent=[{"dry_run": True}],
             out="0 conversations would be summarized\n0 items would be lifted to 0 entries of the profile and to "
             "0 projects\n", err=""),
    )),
)  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_command_of_profiles_does_what_the_table_says(
    scenario: Scenario, person: CommandLineUser, stub_daemon: StubDaemon
) -> None:
    play(scenario, person, stub_daemon)


def test_the_lists_of_a_profile_are_those_of_the_rules() -> None:
    assert (*USER_BUCKETS, *PROJECT_BUCKETS) == PROFILE_LISTS
