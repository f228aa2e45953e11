"""The parts behind the commands: editors, the service, completion, the doctor, questions of a trial. SPEC 14."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_client.cli import command_table, completion, editor
from mnemo_client.cli.admin import doctor, service
from mnemo_client.cli.admin.try_notes import make_questions
from mnemo_client.errors import MnemoError, UsageError
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import DeleteAnswer, MemoryView
from mnemo_client.protocol.status import (
    ModelStatus,
    NotesRootStatus,
    NotesStatus,
    ThreadStatus,
)
from tests.canned import ID, CannedDaemon, CannedPerson, note, recall_answer, recalled, status, view

pytestmark = pytest.mark.usefixtures("utc")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("vim", ["vim", "+7", "/n/a.md"]),
        ("/usr/bin/nvim", ["/usr/bin/nvim", "+7", "/n/a.md"]),
        ("emacs", ["emacs", "+7", "/n/a.md"]),
        ("nano", ["nano", "+7", "/n/a.md"]),
        ("kak", ["kak", "+7", "/n/a.md"]),
        ("code", ["code", "--goto", "/n/a.md:7"]),
        ("hx", ["hx", "/n/a.md:7"]),
        ("subl", ["subl", "/n/a.md:7"]),
        ("strange", ["strange", "/n/a.md"]),
    ],
)
def test_each_editor_gets_the_line_in_its_own_way(program: str, words: list[str]) -> None:
    assert editor.editor_command([program], Path("/n/a.md"), 7) == words


def test_editors_with_windows_get_an_option_to_wait_for_the_text() -> None:
    assert editor.editor_command(["code", "-n"], Path("/a"), wait=True) == ["code", "-n", "--wait", "/a"]
    assert editor.editor_command(["subl", "--wait"], Path("/a"), wait=True) == ["subl", "--wait", "/a"]
    assert editor.editor_command(["vim"], Path("/a"), wait=True) == ["vim", "/a"]


def test_the_editor_is_visual_then_editor_then_one_that_is_there() -> None:
    assert editor.chosen_editor({"VISUAL": "code --wait", "EDITOR": "vi"}) == ["code", "--wait"]
    assert editor.chosen_editor({"VISUAL": " ", "EDITOR": "'my editor' -x"}) == ["my editor", "-x"]
    with pytest.raises(UsageError, match="no editor was found"):
        editor.chosen_editor({"PATH": "/nowhere"})
    with pytest.raises(UsageError, match="EDITOR cannot be read"):
        editor.chosen_editor({"EDITOR": "'open"})
    with pytest.raises(MnemoError, match="cannot be run"):
        editor.edit({"EDITOR": "/no/such/editor"}, Path("/a"))


def test_the_service_starts_this_installation_on_this_persons_places() -> None:
    environ = {"MNEMO_DATA_DIR": '/d/100% "mine"', "MNEMO_SOCKET": "/d/50%.sock"}
    units = service.units(Path("/venv/bin/mnemod"), environ)
    lines = units["mnemod.service"].splitlines()
    assert 'ExecStart="/venv/bin/mnemod"' in lines
    assert 'Environment="MNEMO_DATA_DIR=/d/100%% \\"mine\\""' in lines
    assert sum(line.startswith("ExecStart=") for line in lines) == 1
    assert "ListenStream=/d/50%%.sock" in units["mnemod.socket"].splitlines()


def test_the_shells_complete_every_command_option_and_choice() -> None:
    for make in (completion.bash, completion.zsh, completion.fish):
        script = make()
        for name, command in command_table.all_commands():
            assert name[-1] in script
            for argument in command.arguments:
                for option in argument.names if argument.is_option else ():
                    assert option.lstrip("-") in script
                for choice in argument.choices:
                    assert choice in script


def test_bash_completes_as_the_script_says(tmp_path: Path) -> None:
    import subprocess

    script = tmp_path / "mnemo.bash"
    script.write_text(completion.bash())
    ask = 'source "$1"; shift; COMP_WORDS=(mnemo "$@"); COMP_CWORD=$#; _mnemo; printf "%s\\n" "${COMPREPLY[@]}"'

    (tmp_path / "mnemo").write_text('#!/bin/sh\n[ "$1 $2" = \'completion values\' ] && echo "$3-one $3-two"\n')
    (tmp_path / "mnemo").chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def complete(*words: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", ask, "bash", str(script), *words], capture_output=True, text=True, check=True, env=environ
        )
        return done.stdout.split()

    assert complete("rec") == ["recall", "recent", "reclassify"]
    assert complete("rei") == ["reindex"]
    assert complete("he") == ["help"]
    assert complete("help", "exi") == ["exit-codes"]
    assert complete("recall", "--include-s") == ["--include-superseded"]
    assert complete("why", "x", "--preferences", "") == ["first", "inline"]
    assert complete("notes", "r") == ["rm", "rescan"]
    assert complete("add", "--kind", "e") == ["episodic"]
    assert complete("models", "reindex", "--d") == ["--dry-run"]
    assert complete("recall", "--tag", "") == ["tags-one", "tags-two"]
    assert complete("recall", "-n", "namespaces-t") == ["namespaces-two"]
    assert complete("models", "use", "models-") == ["models-one", "models-two"]


@pytest.mark.parametrize(
    ("mode", "outcome"), [(0o700, "ok"), (0o750, "fail"), (0o500, "ok" if os.getuid() == 0 else "fail")]
)
def test_the_doctor_wants_the_data_folder_private(tmp_path: Path, mode: int, outcome: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(mode)
    check = doctor.data_check(folder)
    folder.chmod(0o700)
    assert check.outcome == outcome
    assert bool(check.fix) is (outcome != "ok")


def write_telemetry(cache: Path) -> Path:
    folder = cache / "Microsoft" / "DeveloperTools" / ".onnxruntime"
    folder.mkdir(parents=True)
    for name in ("deviceid", "onnxruntime.db", "onnxruntime.db-wal", "deviceid.tmp.a94eb234"):
        (folder / name).write_text("0f5c")
    return folder


def test_the_doctor_deletes_what_telemetry_left_behind_and_says_so(person: CannedPerson, canned: CannedDaemon) -> None:
    caches = [Path(person.environ["HOME"]) / ".cache", Path(person.environ["HOME"]) / "other"]
    folders = [write_telemetry(cache) for cache in caches]
    (caches[1] / "Microsoft" / "kept").write_text("of another program")
    (folders[1].parent / "deviceid").write_text("of another program")
    person.environ["XDG_CACHE_HOME"] = str(caches[1])
    canned.stop()
    person.give("doctor", "--json")
    found = {check["name"]: check for check in json.loads(person.out)["checks"]}["telemetry"]
    assert found["outcome"] == "ok"
    assert all(str(folder) in found["found"] for folder in folders)
    assert list(caches[0].iterdir()) == []
    assert sorted(path.name for path in caches[1].rglob("*")) == ["DeveloperTools", "Microsoft", "deviceid", "kept"]
    person.give("doctor", "--json")
    found = {check["name"]: check for check in json.loads(person.out)["checks"]}["telemetry"]
    assert found["found"].startswith("none")


def test_the_doctor_deletes_nothing_else_in_that_folder_and_follows_no_link(tmp_path: Path) -> None:
    folder = write_telemetry(tmp_path / "one")
    (folder / "models").mkdir()
    (folder / "notes.txt").write_text("mine")
    assert doctor.telemetry_check([folder]).found.startswith("deleted")
    assert sorted(path.name for path in folder.iterdir()) == ["models", "notes.txt"]
    linked = tmp_path / "two" / "Microsoft" / "DeveloperTools" / ".onnxruntime"
    linked.parent.mkdir(parents=True)
    (folder / "deviceid").write_text("0f5c")
    linked.symlink_to(folder)
    assert doctor.telemetry_check([linked]).found.startswith("none")
    assert (folder / "deviceid").exists()


def test_the_doctor_knows_where_each_system_keeps_it() -> None:
    environ = {"HOME": "/people/ines"}
    (linux,) = doctor.telemetry_folders(environ, "linux")
    assert linux == Path("/people/ines/.cache/Microsoft/DeveloperTools/.onnxruntime")
    (mac,) = doctor.telemetry_folders(environ, "darwin")
    assert mac == Path("/people/ines/Library/Application Support/Microsoft/DeveloperTools/.onnxruntime")


def test_the_doctor_warns_of_files_that_could_not_be_read_and_not_of_pictures() -> None:
    root = NotesRootStatus(id="r", path="/n", namespace="default", state="watching", files=1, chunks=2, waiting=0)

    def found(**reasons: int) -> tuple[str, str]:
        by_reason = {f"not a kind of note: .{name}" if name != "locked" else name: reasons[name] for name in reasons}
        notes = NotesStatus(roots=[root], skipped_total=sum(reasons.values()), skipped_by_reason=by_reason)
        (check,) = (each for each in doctor.status_checks(status(notes=notes)) if each.name == "notes")
        return check.outcome, check.found

    assert found() == ("ok", "1 folder")
    assert found(jpg=3, bin=1) == ("ok", "1 folder, 4 files of other kinds skipped")
    assert found(jpg=3, locked=1) == ("warn", "1 file could not be read")


def test_the_doctor_names_each_fault_and_the_command_that_fixes_it() -> None:
    ill = status(
        version="0.0.9", models={"embedding": ModelStatus(name=None, state="absent")},
        views={"words": view("stale", 1.0), "vectors": view("building", 0.5)},
    )  # fmt: skip
    checks = {check.name: check for check in doctor.status_checks(ill)}
    assert checks["version"].outcome == "warn"
    assert checks["version"].fix == "mnemo down; mnemo up"
    assert (checks["model"].outcome, checks["model"].fix) == ("warn", "mnemo models pull all-MiniLM-L6-v2")
    assert checks["words"].outcome == "fail"
    assert checks["vectors"].outcome == "ok"  # there are none without a model, which has its own check
    assert checks["notes"].outcome == "ok"


def test_the_doctor_reports_threads_that_failed() -> None:
    quiet = ThreadStatus(failing=False, restarts=0)
    mended = ThreadStatus(failing=False, restarts=2, last_failure="IndexError: 5", failed_at=1)
    ill = ThreadStatus(failing=True, restarts=9, last_failure="KeyError: 7", failed_at=2)

    def found(**threads: ThreadStatus) -> doctor.DoctorCheck:
        (check,) = (each for each in doctor.status_checks(status(threads=threads)) if each.name == "threads")
        return check

    assert (found(notes=quiet).outcome, found().outcome) == ("ok", "ok")
    assert found(notes=quiet, house=mended).outcome == "warn"
    assert found(house=mended).found == "house was restarted 2 times and works again; last: IndexError: 5"
    assert (found(house=mended, notes=ill).outcome, found(notes=ill).found) == ("fail", "notes fails: KeyError: 7")
    assert found(notes=ill).fix.endswith("mnemod.log")


def test_the_doctor_prints_a_line_for_each_check_and_one_for_its_fix(
    person: CannedPerson, canned: CannedDaemon
) -> None:
    canned.stop()
    assert person.give("doctor") == 1
    assert f"fail  daemon       no daemon listens on {canned.path}\n" in person.out
    assert "→ start it with: mnemo up" in person.out
    assert person.give("doctor", "--json") == 1
    assert json.loads(person.out)["ok"] is False


def test_the_doctor_remembers_finds_and_removes(person: CannedPerson, canned: CannedDaemon) -> None:
    kept: list[Any] = []

    def remember(asked: Any) -> Any:
        kept.append(asked.body)
        return msgspec.to_builtins(RememberAnswer(outcome="stored", memory=recalled(content=asked.body["content"])))

    canned.answers["POST /v1/memories"] = remember
    canned.say("POST /v1/recall", recall_answer(recalled()))
    canned.say(f"DELETE /v1/memories/{ID}", DeleteAnswer(deleted=1, id=ID))
    canned.say("GET /v1/status", status())
    person.give("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(person.out)["checks"]}
    assert checks["round trip"]["outcome"] == "ok"
    assert kept[0]["key"] == "doctor round trip"
    assert {asked.headers.get("x-namespace") for asked in canned.asked} == {"doctor"}
    canned.say("POST /v1/recall", recall_answer())
    person.give("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(person.out)["checks"]}
    assert checks["round trip"]["outcome"] == "fail"


@pytest.mark.parametrize(
    ("heading", "asked"),
    [
        ("2.6 Other records", "Other records"),
        ("B2. Watching folders", "Watching folders"),
        ("3) Second thoughts", "Second thoughts"),
        ("A garden in winter", "A garden in winter"),
        ("HTTP over sockets", "HTTP over sockets"),
    ],
)
def test_a_question_leaves_out_what_only_counts_the_heading(heading: str, asked: str) -> None:
    assert make_questions([recalled(note=note(headings=[heading]))])[0].text == asked


def test_a_heading_that_is_code_or_a_path_is_no_question() -> None:
    headings = ["GET `/v1/memories/{id}/history`", "POST /v1/recall for agents", "Pruning apple trees"]
    passages = [
        recalled(content="", note=note(f"/n/{place}.md", headings=[each])) for place, each in enumerate(headings)
    ]
    assert [question.text for question in make_questions(passages)] == ["Pruning apple trees"]


def test_a_folder_of_one_file_gives_its_other_headings_too() -> None:
    passages = [recalled(note=note(headings=[heading])) for heading in ("First thing here", "Second thing here")]
    assert {question.text for question in make_questions(passages)} >= {"First thing here", "Second thing here"}


def test_questions_come_from_headings_that_stand_once_and_from_different_files() -> None:
    def passage(path: str, heading: str, content: str) -> MemoryView:
        return recalled(content=content, note=note(path, headings=["Top", heading]))

    passages = [
        passage("/n/a.md", "Rolling back a release", "Run the rollback."),
        passage("/n/a.md", "Overview", "Nothing much."),
        passage("/n/b.md", "Common heading here", "First."),
        passage("/n/c.md", "Common heading here", "Zebras graze beside quiet rivers."),
        passage("/n/d.md", "Pruning apple trees", "In late winter."),
    ]
    questions = make_questions(passages)
    assert {(question.text, question.origin) for question in questions[:2]} == {
        ("Rolling back a release", "a.md"), ("Pruning apple trees", "d.md"),
    }  # fmt: skip
    assert questions[2] == ("zebras graze beside quiet", "c.md")  # its rarest long words, in their order
    assert make_questions(list(reversed(passages))) == questions
    assert make_questions([]) == []
