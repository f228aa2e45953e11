"""`mnemo import --from claude-code|codex|chatgpt`: conversations on the disk become sessions of turns. SPEC 5, 8"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.sessions import TierCounts
from tests.support.running_daemon import RunningDaemon
from tests.support.transcript_files import (
    BEGINNING,
    answered,
    asked,
    chatgpt,
    claude,
    codex,
    codex_message,
    said,
    tool_use,
    write_history,
)

START = int(BEGINNING.timestamp() * 1000)
MINUTE = 60_000
KEY = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
TALK = [
    asked("Why does the harbour build fail on Fridays?"),
    answered("The harbour build fails because the weekly lock file is stale."),
    asked(f"Then delete it with my token {KEY} please."),
    asked("ok thanks"),
    answered("I will look.", tool_use(path="x")),
    answered("The lock file of the harbour build is deleted, and Friday's build passes."),
]


class Importer:
    """Gives import commands in a home of its own, whose turns have a namespace of their own."""

    def __init__(self, daemon: RunningDaemon, home: Path) -> None:
        self.daemon = daemon
        self.home = home
        self.namespace = home.name[-60:]
        self.environ = {**daemon.environ, "HOME": str(home), "MNEMO_AUTOSTART": "off", "TERM": "dumb"}
        self.messages = ""

    def give(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "mnemo_client.cli.main", "import", *words],
            capture_output=True, env=self.environ, cwd=self.home, timeout=120, check=False,
        )  # fmt: skip
        self.messages = done.stderr.decode()
        assert done.returncode == code, done.stdout.decode() + self.messages
        return done.stdout.decode()

    def answer(self, *words: str, code: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.give(*words, "-n", self.namespace, "--json", code=code))
        return found

    def client(self) -> Client:
        return self.daemon.client(self.namespace)

    def write(self, name: str, data: bytes) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path


@pytest.fixture
def importer(daemon: RunningDaemon, tmp_path: Path) -> Importer:
    return Importer(daemon, tmp_path)


PROJECT = ".claude/projects/-home-ines-pier"


def test_transcripts_of_the_usual_place_become_ended_sessions_with_their_own_dates(importer: Importer) -> None:
    importer.write(f"{PROJECT}/s-1.jsonl", claude("s-1", TALK))
    found = importer.answer("--from", "claude-code")
    assert (found["stored"], found["conversations"], found["files"], found["skipped"]) == (4, 1, 1, 0)
    assert (found["first_at"], found["last_at"]) == (START, START + 5 * MINUTE)
    assert found["masked"] == {"github_token": 1}
    assert found["left_out"] == {"stop_words": 1, "narration": 1, "tool_call": 1}
    with importer.client() as client:
        (session,) = client.list_sessions().sessions
        assert (session.session_id, session.turns) == ("claude-code:s-1", 4)
        assert (session.started_at, session.last_at) == (START, START + 5 * MINUTE)
        assert session.ended_at is not None, "a conversation of months ago is over"
        shown = client.session("s-1")  # as its file names it
        assert shown.session == session
        assert client.end_session("s-1").session.session_id == session.session_id
        assert shown.tiers == TierCounts(registry=4)
        assert len(shown.pairs) == 2
        turns = shown.turns[::-1]
        assert [(turn.turn.role, turn.speaker) for turn in turns if turn.turn] == [
            ("user", None), ("agent", "Claude"), ("user", None), ("agent", "Claude"),
        ]  # fmt: skip
        assert {(turn.trust, turn.source, tuple(turn.tags)) for turn in turns} == {
            ("import", "turn", ("agent:claude-code",))
        }
        assert KEY not in turns[2].content
        hits = client.recall("Why did the harbour build fail on Fridays?").memories
        assert turns[1].id in [hit.id for hit in hits]
        assert [hit.event_at for hit in hits if hit.id == turns[1].id] == [START + MINUTE]


def test_importing_again_stores_nothing_and_a_grown_transcript_adds_what_is_new(importer: Importer) -> None:
    path = importer.write(f"{PROJECT}/s-1.jsonl", claude("s-1", TALK))
    assert importer.answer("--from", "claude-code")["stored"] == 4
    with importer.client() as client:
        before = client.list_memories(states=["active", "archived", "discarded"]).memories
        assert len(before) == 4
        again = importer.answer("--from", "claude-code", str(path))
        assert (again["stored"], again["duplicate"], again["conversations"], again["group"]) == (0, 5, 0, None)
        assert client.list_memories(states=["active", "archived", "discarded"]).memories == before
        path.write_bytes(claude("s-1", [*TALK, asked("Does the ferry build fail on Fridays, too?")]))
        grown = importer.answer("--from", "claude-code", str(path))
        assert (grown["stored"], grown["conversations"]) == (1, 1)
        (session,) = client.list_sessions().sessions
        assert (session.turns, session.last_at, session.ended_at is not None) == (5, START + 6 * MINUTE, True)
        assert client.session("claude-code:s-1").tiers == TierCounts(registry=5)


def test_a_forked_conversation_adds_only_what_it_says_next_and_repeats_nothing(importer: Importer) -> None:
    importer.write(f"{PROJECT}/s-1.jsonl", claude("s-1", TALK))
    importer.answer("--from", "claude-code")
    fork = claude("s-2", [*TALK, asked("And what about the fork of the harbour build?")])
    found = importer.answer("--from", "claude-code", str(importer.write("fork.jsonl", fork)))
    assert (found["stored"], found["duplicate"]) == (1, 4)
    with importer.client() as client:
        assert {memory.repetition_count for memory in client.list_memories().memories} == {0}


def test_a_dry_run_changes_nothing_and_shows_what_would_be_stored(importer: Importer) -> None:
    importer.write(f"{PROJECT}/s-1.jsonl", claude("s-1", TALK))
    words = ("--from", "claude-code", "-n", importer.namespace)
    lines = importer.give(*words, "--dry-run").splitlines()
    assert lines[0] == "1 file of claude-code: nothing was changed; an import would store 4 turns of 1 conversation"
    assert lines[1].startswith("from 2026-01-05 to 2026-01-05")
    assert "left out: narration (1), stop words (1), tool call (1)" in lines
    assert "masked: github token (1)" in lines
    assert "  2026-01-05 user: Why does the harbour build fail on Fridays?" in lines
    assert KEY not in "\n".join(lines)
    with importer.client() as client:
        assert (client.list_memories().memories, client.list_sessions().sessions) == ([], [])
    assert importer.give(*words).splitlines()[0] == "1 file of claude-code: stored 4 turns of 1 conversation"


def test_damaged_lines_and_files_are_named_and_stop_nothing(importer: Importer) -> None:
    whole = claude("s-1", TALK).splitlines(keepends=True)
    broken = importer.write(f"{PROJECT}/s-1.jsonl", b"".join([whole[0], whole[1][:50] + b"\n", *whole[2:]]))
    empty = importer.write(f"{PROJECT}/empty.jsonl", b"")
    found = importer.answer("--from", "claude-code")
    assert (found["stored"], found["skipped"]) == (3, 2)
    places = {problem["place"]: problem["why"] for problem in found["problems"]}
    assert places.keys() == {f"{broken}: line 2", str(empty)}
    assert "there is nothing in it" in places[str(empty)]
    found = importer.answer("--from", "claude-code", str(empty), code=1)
    assert found["skipped"] == 1
    importer.give("--from", "claude-code", "not-there", code=2)
    assert "there are no conversations of claude-code in" in importer.messages


def test_a_pipe_a_folder_and_a_directory_that_cannot_be_entered_stop_nothing(importer: Importer) -> None:
    os.mkfifo(importer.home / "pipe.jsonl")
    (importer.home / "folder.jsonl").mkdir()
    importer.write("long.jsonl", claude("s-1", TALK, cwd="/" + 300 * "a"))
    found = importer.answer("--from", "claude-code", ".")
    assert (found["files"], found["stored"], found["problems"]) == (1, 4, [])
    importer.give("--from", "claude-code", "long.jsonl", "--json")  # the namespace is that of the working directory


@pytest.mark.parametrize(("offsets", "value", "why"), [((6, 8), 1, "encrypted"), ((8, 10), 99, "compression method")])
def test_a_zip_that_cannot_be_unpacked_is_named(
    importer: Importer, offsets: tuple[int, int], value: int, why: str
) -> None:
    talk = chatgpt("c-1", [("q", None, said("user", "How tall is the lighthouse of Tarifa?"))], "q")
    path = importer.home / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([talk]))
    data = bytearray(path.read_bytes())
    data[offsets[0]] = data[data.index(b"PK\x01\x02") + offsets[1]] = value
    path.write_bytes(data)
    found = importer.answer("--from", "chatgpt", "export.zip", code=1)
    assert why in found["problems"][0]["why"]


def test_rollouts_of_codex_and_the_zip_of_chatgpt_are_imported(importer: Importer) -> None:
    importer.write(".codex/sessions/2026/01/05/rollout-2026-01-05T09-00-00-r-1.jsonl", codex("r-1", [
        codex_message("user", "<environment_context><cwd>/x</cwd></environment_context>"),
        codex_message("user", "Rename the chandlery module to supplies."),
        codex_message("assistant", "The chandlery module is called supplies in all 14 files."),
    ]))  # fmt: skip
    assert importer.answer("--from", "codex")["stored"] == 2
    talk = chatgpt("c-1", [("q", None, said("user", "How tall is the lighthouse of Tarifa?")),
                           ("a", "q", said("assistant", "The lighthouse of Tarifa is 33 m tall."))], "a")  # fmt: skip
    other = chatgpt("c-2", [("q", None, said("user", "Which ferry sails to Tangier on Sundays?"))], "q")
    with zipfile.ZipFile(importer.home / "export.zip", "w") as archive:
        archive.writestr("conversations-000.json", json.dumps([talk]))
        archive.writestr("data/conversations-001.json", json.dumps([5, other], indent=1))
        archive.writestr("chat.html", "<html>")
    found = importer.answer("--from", "chatgpt", "export.zip")
    assert (found["stored"], found["conversations"], found["files"], found["skipped"]) == (3, 2, 2, 1)
    assert found["problems"][0]["place"] == f"{importer.home / 'export.zip'}:data/conversations-001.json: [0]"
    with importer.client() as client:
        names = {session.session_id for session in client.list_sessions().sessions}
        assert names == {"codex:r-1", "chatgpt:c-1", "chatgpt:c-2"}
    importer.give("--from", "chatgpt", code=2)
    assert "Export data" in importer.messages


def test_a_transcript_goes_where_a_command_in_its_folder_would(importer: Importer) -> None:
    work, plain = importer.home / "tools" / "crane", importer.home / "plain"
    (work / ".git").mkdir(parents=True)
    (work / "src").mkdir()
    plain.mkdir()
    (plain / ".mnemo.toml").write_text('namespace = "quay-notes"\n')
    talk = [asked("How long is the arm of the crane project?")]
    importer.write(f"{PROJECT}/a.jsonl", claude("a", talk, cwd=str(work / "src")))
    importer.write(f"{PROJECT}/b.jsonl", claude("b", [asked("Who wrote the quay notes?")], cwd=str(plain)))
    importer.environ["MNEMO_CLIENT_PROJECT_NAMESPACES"] = "true"
    assert json.loads(importer.give("--from", "claude-code", "--json"))["stored"] == 2
    for namespace, session in (("crane", "claude-code:a"), ("quay-notes", "claude-code:b")):
        with importer.daemon.client(namespace) as client:
            assert [each.session_id for each in client.list_sessions().sessions] == [session]


def test_all_files_are_one_group_and_what_was_undone_can_be_imported_again(importer: Importer) -> None:
    importer.write(f"{PROJECT}/s-1.jsonl", claude("s-1", TALK))
    importer.write(f"{PROJECT}/s-2.jsonl", claude("s-2", [asked("Is the slipway wide enough for the new ferry?")]))
    found = importer.answer("--from", "claude-code")
    assert (found["stored"], found["conversations"]) == (5, 2)
    with importer.client() as client:
        client.undo(group=found["group"])
        assert client.list_memories().memories == []
        assert importer.answer("--from", "claude-code")["stored"] == 5
        assert len(client.list_memories().memories) == 5


def test_a_deleted_turn_stays_deleted_and_an_erased_one_is_not_imported(importer: Importer) -> None:
    path = importer.write(f"{PROJECT}/s-1.jsonl", claude("s-1", TALK))
    importer.answer("--from", "claude-code")
    with importer.client() as client:
        deleted, *_, erased = client.session("claude-code:s-1").turns
        client.delete(deleted.id)
        client.erase(erased.id)
        assert importer.answer("--from", "claude-code")["stored"] == 0
        other = importer.write("other.jsonl", path.read_bytes().replace(b'"s-1"', b'"s-3"'))
        found = importer.answer("--from", "claude-code", str(other))
        assert (found["stored"], found["forgotten"], found["duplicate"]) == (1, 1, 2)
        with pytest.raises(RefusalError, match="erased"):
            client.import_from([path.read_bytes()], tool="claude-code", allow_forgotten=True)


def test_an_import_that_is_interrupted_goes_on_where_it_stopped(importer: Importer) -> None:
    shutil.rmtree(importer.home / "h", ignore_errors=True)
    write_history(importer.home / "h", sessions=1, turns=400)
    (path,) = (importer.home / "h").rglob("*.jsonl")
    whole = path.read_bytes()
    with importer.client() as client:
        first = client.import_from([whole[: len(whole) // 2]], tool="claude-code", namespace=importer.namespace)
        assert 0 < first.stored < 400
        assert first.skipped == 1, "the line that was cut in two"
        rest = client.import_from([whole], tool="claude-code", namespace=importer.namespace)
        assert (first.stored + rest.stored, rest.duplicate) == (400, first.stored)
        (session,) = client.list_sessions().sessions
        assert session.turns == 400


def test_a_transcript_is_recognised_without_its_tools_name_and_a_diary_is_refused(importer: Importer) -> None:
    with importer.client() as client:
        found = client.import_from([claude("s-9", [asked("How deep is the new dock?")])], namespace=importer.namespace)
        assert (found.tool, found.stored) == ("claude-code", 1)
        for tool in ("claude-code", "codex", "chatgpt"):
            with pytest.raises(RefusalError) as refused:
                client.import_from([b'{"diary": "Nothing happened today."}\n'], tool=tool)
            assert (refused.value.status, refused.value.code) == (400, "unknown_export")
