"""Commands as a person sees them: input, exit codes, messages for failures. SPEC 14."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_client.cli import command_table, completion, editor, main
from mnemo_client.cli.admin import doctor, service
from mnemo_client.cli.admin.try_notes import make_questions
from mnemo_client.cli.option_parser import build_parser
from mnemo_client.errors import MnemoError, UsageError
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import BulkDeleteAnswer, DeleteAnswer, MemoryView
from mnemo_client.protocol.retrieval import ContextAnswer, SearchAnswer
from mnemo_client.protocol.status import ModelStatus, NotesRootStatus, NotesStatus, ReindexAnswer, ThreadStatus
from mnemo_client.protocol.versions import UndoAnswer
from tests.canned import ID, CannedDaemon, CannedPerson, best, note, recall_answer, recalled, status, view

pytestmark = pytest.mark.usefixtures("utc")


def test_recall_prints_hits_and_keeps_them_for_open(
    person: CannedPerson, canned: CannedDaemon, short_folder: Path
) -> None:
    hit = recalled(note=note("/n/deploy.md"), best=best("Run it.", (0, 3), line=44))
    canned.say("POST /v1/recall", recall_answer(hit, degraded=["vectors"]))
    canned.say("GET /v1/status", status())
    assert person.give("recall", "how", "--top", "3", "to", "roll", "back") == 0
    assert person.out == (
        "1  0.82  /n/deploy.md:44 · Deploy › Rollback · 2025-12-01\n"
        "         *Run* it.\n"
        "1 of 12 · 4.1 ms · fused · namespace default · answered by words only: the embedding model is loading\n"
    )
    assert canned.asked[0].body == {"query": "how to roll back", "top_k": 3, "highlight": True}
    kept = short_folder / "data" / "run" / "last.json"
    assert json.loads(kept.read_text()) == {"1": {"id": ID, "path": "/n/deploy.md", "line": 44}}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_recall_points_to_what_is_nearest_only_where_something_was_in_question(
    person: CannedPerson, canned: CannedDaemon
) -> None:
    canned.say("POST /v1/recall", recall_answer(total=0, abstained=True))  # as with a tag that nothing has
    person.sits_at_a_terminal = True
    assert person.give("recall", "x", "--tag", "none") == 3
    assert person.err == "nothing found in namespace default\n"


def test_recall_asks_for_a_cut_answer_where_a_person_reads_it(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("POST /v1/recall", recall_answer(total=3, abstained=True))
    person.sits_at_a_terminal = True
    assert person.give("recall", "x") == 3
    assert person.err == (
        "nothing in namespace default is close enough to be an answer; show the closest with: --cut none\n"
    )
    person.give("recall", "x", "--cut", "none")
    person.give("recall", "x", "--json")
    person.sits_at_a_terminal = False
    person.give("recall", "x")
    person.give("recall", "x", "--cut", "gap")
    assert [asked.body.get("cut") for asked in canned.asked] == ["gap", "none", None, None, "gap"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["recall", "x", "-n", "boats"], "namespace boats has no memories; did you mean boat?\n"),
        (
            ["search", "x", "-n", "zebra"],
            "namespace zebra has no memories; list the namespaces with: mnemo namespaces\n",
        ),
        (["recall", "x", "-n", "boat"], ""),
        (["recall", "x", "-n", "*"], ""),
        (["recall", "x"], ""),
    ],
)
def test_a_namespace_without_memories_that_a_command_names_is_reported(
    person: CannedPerson, canned: CannedDaemon, command: list[str], said: str
) -> None:
    canned.say("POST /v1/recall", recall_answer(recalled()))
    canned.say("GET /v1/search", SearchAnswer(memories=[recalled()], total=1))
    canned.say("GET /v1/status", status(namespaces={"default": 7, "boat": 2}))
    assert (person.give(*command), person.err) == (0, said)
    assert ("GET /v1/status" in canned.paths()) == (command[-1] in ("boat", "boats", "zebra"))


def test_nothing_found_is_said_and_is_exit_code_3(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("POST /v1/recall", recall_answer(total=0))
    assert person.give("recall", "x") == 3
    assert (person.out, person.err) == ("", "nothing found in namespace default\n")


def test_json_is_the_daemons_own_answer(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("GET /v1/health", {"ok": True, "state": "ready", "version": "0.1.0", "new": [1]})
    assert person.give("--json", "up") == 0
    assert json.loads(person.out) == {"ok": True, "state": "ready", "version": "0.1.0", "new": [1]}


def test_add_takes_words_or_standard_input_and_says_what_was_done(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("POST /v1/memories", RememberAnswer(outcome="stored", memory=recalled()), 201)
    assert (
        person.give("add", "the", "key", "-t", "home", "-t", "keys", "--at", "2026-05-01", "--importance", "0.9") == 0
    )
    assert person.out == "remembered · c0ffee01 · namespace default\n"
    assert person.give("add", "-", "--at", "1700000000000", typed="from\nstdin") == 0
    first, second = (asked.body for asked in canned.asked)
    assert first == {"content": "the key", "tags": ["home", "keys"], "event_at": "2026-05-01", "importance": 0.9}
    assert second == {"content": "from\nstdin", "event_at": 1_700_000_000_000}
    assert canned.asked[0].headers["x-mnemo-door"] == "cli"


def test_add_without_a_text_is_wrong_usage(person: CannedPerson, canned: CannedDaemon) -> None:
    assert person.give("add", "-", typed="  \n") == 2
    assert person.err.startswith("mnemo: there is no text to remember\n")
    assert canned.asked == []


def test_a_number_of_the_last_answer_stands_for_its_id(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("POST /v1/recall", recall_answer(recalled()))
    canned.say(f"GET /v1/memories/{ID}", recalled())
    canned.say("DELETE /v1/memories", BulkDeleteAnswer(ids=[ID], deleted=1))
    assert person.give("show", "1") == 3
    assert "there is no last answer" in person.err
    person.give("recall", "x")
    assert person.give("show", "1") == 0
    assert person.give("rm", "1") == 0
    assert person.out == "moved to the trash: c0ffee01\n"
    assert person.err == "undo this with: mnemo undo\n"
    assert person.give("show", "2") == 3
    assert person.err == "mnemo: the last answer has no number 2\n       it has 1 to 1\n"
    assert person.give("show", "c0ffee") == 2
    assert "too short for an id" in person.err


def test_open_starts_the_editor_at_the_line(person: CannedPerson, canned: CannedDaemon, short_folder: Path) -> None:
    file = short_folder / "deploy.md"
    file.write_text("x\n")
    hit = recalled(note=note(str(file)), best=best("Run it.", line=44))
    canned.say("POST /v1/recall", recall_answer(hit))
    person.give("recall", "x")
    record = short_folder / "code"
    record.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$0.args"\n')
    record.chmod(0o700)
    person.environ["VISUAL"] = f"{record} -n"
    assert person.give("open", "1") == 0
    assert (short_folder / "code.args").read_text() == f"-n\n--goto\n{file}:44\n"
    file.unlink()
    assert person.give("open") == 3
    assert "no longer exists" in person.err


def test_edit_in_the_editor_sends_what_was_saved_and_the_version_it_was_made_from(
    person: CannedPerson, canned: CannedDaemon, short_folder: Path
) -> None:
    canned.say(f"GET /v1/memories/{ID}", recalled(version=4))
    canned.say(f"PATCH /v1/memories/{ID}", recalled(version=5))
    person.environ["EDITOR"] = "sed -i s/Ines/Otto/"
    assert person.give("edit", ID) == 0
    assert person.out == "changed: c0ffee01, version 5\n"
    assert canned.asked[-1].body == {"content": "The key is with Otto.", "if_version": 4}
    assert list((short_folder / "data" / "run").glob("memory-*")) == []
    person.environ["EDITOR"] = "true"
    assert person.give("edit", ID) == 0
    assert person.err == "nothing changed\n"


def test_a_text_the_daemon_refuses_is_kept(person: CannedPerson, canned: CannedDaemon, short_folder: Path) -> None:
    canned.say(f"GET /v1/memories/{ID}", recalled())
    canned.say(f"PATCH /v1/memories/{ID}", {"error": {"code": "conflict", "message": "it has moved on"}}, 409)
    person.environ["EDITOR"] = "sed -i s/Ines/Otto/"
    assert person.give("edit", ID) == 1
    (kept,) = (short_folder / "data" / "run").glob("memory-*")
    assert kept.read_text() == "The key is with Otto.\n"
    assert str(kept) in person.err
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_an_editor_that_draws_on_the_terminal_is_not_started_without_one(
    person: CannedPerson, canned: CannedDaemon, short_folder: Path
) -> None:
    file = short_folder / "deploy.md"
    file.write_text("x\n")
    person.environ["VISUAL"] = "/usr/bin/vim -n"
    canned.say(f"GET /v1/memories/{ID}", recalled())
    assert person.give("edit", ID) == 2
    assert person.err == (
        "mnemo: the editor '/usr/bin/vim' needs a terminal, and there is none\n"
        "       give the new text: mnemo edit ID --content TEXT, or --content - from standard input\n"
    )
    canned.say("POST /v1/recall", recall_answer(recalled(note=note(str(file)), best=best("Run it.", line=44))))
    person.give("recall", "x")
    assert person.give("open", "1") == 2
    assert person.err.endswith(f"the text is in {file}:44\n")
    for windowed in ("code --wait", "emacsclient", "/my/own/script"):
        editor.check_terminal({"VISUAL": windowed}, False, "")
    editor.check_terminal({"VISUAL": "vim"}, True, "")


def test_edit_by_options_needs_no_editor(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say(f"GET /v1/memories/{ID}", recalled())
    canned.say(f"PATCH /v1/memories/{ID}", recalled(version=2))
    assert person.give("edit", ID, "--tag", "a", "--pin", "--content", "-", typed="new text") == 0
    assert canned.asked[-1].body == {"content": "new text", "tags": ["a"], "pinned": True}
    assert person.give("edit", ID, "--pin", "--unpin") == 2


def test_digits_of_several_ids_are_answered_with_those_memories_a_line_each(
    person: CannedPerson, canned: CannedDaemon
) -> None:
    other = ID[:-8] + "c0ffee02"
    error = {"code": "ambiguous_id", "message": f"'01999999' could be {ID}, {other}: give more digits", "field": "id"}
    canned.say("DELETE /v1/memories", {"error": error}, 409)
    canned.say("GET /v1/memories/01999999", {"error": error}, 409)
    canned.say(f"GET /v1/memories/{ID}", recalled())
    canned.say(f"GET /v1/memories/{other}", recalled(id=other, content="The key is with Otto.\nOr was."))
    said = (
        "mnemo: '01999999' could be\n"
        "  c0ffee01  The key is with Ines.\n"
        "  c0ffee02  The key is with Otto.\n"
        "       give one of these, or more digits\n"
    )
    for command in ("rm", "show", "edit"):
        assert person.give(command, "01999999") == 2
        assert (person.out, person.err) == ("", said)


def test_rm_asks_for_all_ids_in_one_change(person: CannedPerson, canned: CannedDaemon) -> None:
    other = ID.replace("c0ffee01", "c0ffee02")
    canned.say("DELETE /v1/memories", BulkDeleteAnswer(ids=[ID, other], deleted=2))
    assert person.give("rm", ID, other) == 0
    assert (person.out, person.err) == (
        "moved to the trash: c0ffee01, c0ffee02\n", "undo this with: mnemo undo\n"
    )  # fmt: skip
    assert [asked.query for asked in canned.asked] == [{"id": [ID, other], "confirm": ["true"]}]
    assert person.give("rm", ID, "abc") == 2
    assert person.err.startswith("mnemo: 'abc' is too short for an id\n")
    assert len(canned.asked) == 1
    canned.say("DELETE /v1/memories", BulkDeleteAnswer(ids=[], deleted=0))
    assert person.give("rm", ID) == 0
    assert person.err == "already in the trash\n"


@pytest.mark.parametrize(
    ("cut", "code", "said"),
    [
        (False, 3, "nothing found in namespace default\n"),
        (
            True,
            1,
            "mnemo: memories were found, but none fits the limit\n       raise the limit: --max-chars, --budget\n",
        ),
    ],
)
def test_an_empty_context_says_whether_nothing_was_found_or_nothing_fits(
    person: CannedPerson, canned: CannedDaemon, cut: bool, code: int, said: str
) -> None:
    canned.say("POST /v1/context", ContextAnswer(block="", total_tokens=0, memories=[], cut=cut))
    assert person.give("context", "key", "--max-chars", "60") == code
    assert (person.out, person.err) == ("", said)


def test_notes_rm_takes_the_path_as_it_was_given(person: CannedPerson, canned: CannedDaemon) -> None:
    root = NotesRootStatus(id="r1", path="/gone/notes", namespace="default", state="missing", files=0,
                                    chunks=0, waiting=0)  # fmt: skip
    canned.say("GET /v1/notes/roots", NotesStatus(roots=[root]))
    canned.say("DELETE /v1/notes/roots", BulkDeleteAnswer(ids=[ID], deleted=1))
    assert person.give("notes", "rm", "/gone/notes/") == 0
    assert person.out == "no longer watching /gone/notes: 1 memory moved to the trash, its files are unchanged\n"
    assert canned.asked[-1].query == {"id": ["r1"]}
    assert person.give("notes", "rm", "/other") == 3


def test_notes_add_refuses_what_is_no_folder_before_it_asks(person: CannedPerson, canned: CannedDaemon) -> None:
    assert person.give("notes", "add", "/no/such/folder") == 2
    assert person.err == "mnemo: there is no folder /no/such/folder\n"
    assert canned.asked == []


def test_a_folder_of_notes_goes_into_the_namespace_that_it_names_itself(
    person: CannedPerson, canned: CannedDaemon, short_folder: Path
) -> None:
    folder = short_folder / "vault"
    folder.mkdir()
    (folder / ".mnemo.toml").write_text('namespace = "vault"\n')
    root = NotesRootStatus(id="r", path=str(folder), namespace="vault", state="scanning", files=0, chunks=0,
                                    waiting=0)  # fmt: skip
    canned.say("POST /v1/notes/roots", root, 201)
    assert person.give("notes", "add", str(folder)) == 0
    assert canned.asked[0].body == {"path": str(folder.resolve()), "namespace": "vault"}
    assert person.out == "watching ~/vault · namespace vault\n"


def test_export_is_every_namespace_unless_one_is_named(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("GET /v1/export", '{"a":"ü"}\n{"b":2}\n'.encode())
    assert person.give("export") == 0
    assert person.out == '{"a":"ü"}\n{"b":2}\n'
    assert person.give("export", "-n", "work") == 0
    assert [asked.headers.get("x-namespace") for asked in canned.asked] == [None, "work"]


def test_how_many_vectors_there_are_reads_well_for_one_and_for_many(person: CannedPerson, canned: CannedDaemon) -> None:
    for total, said in ((1, "1 of 1"), (5190, "1 of 5,190")):
        canned.say("POST /v1/models/reindex",
            ReindexAnswer(total=total, with_vectors=1, queued=0, dimensions=384))  # fmt: skip
        assert person.give("reindex", "--stats") == 0
        assert person.out == f"memories with a vector: {said}, 384 dimensions\n"


def test_undo_says_what_it_took_back(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("POST /v1/undo", UndoAnswer(seq=7, what="rm", ids=[ID], dry_run=True))
    assert person.give("undo", "--dry-run") == 0
    assert person.out == "would undo: delete (change 7: c0ffee01)\n"
    assert canned.asked[0].body == {"dry_run": True}


# What goes wrong


def test_a_daemon_that_is_down_is_exit_code_4_and_two_lines(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.stop()
    for command in (["status"], ["recall", "x"]):
        assert person.give(*command) == 4
        first, second = person.err.splitlines()
        assert first == f"mnemo: no daemon listens on {canned.path}"
        assert second.endswith("mnemo up")
    assert person.give("down") == 0
    assert person.out == "no daemon was running\n"


def test_a_value_that_is_refused_is_the_daemons_message_and_wrong_usage(
    person: CannedPerson, canned: CannedDaemon
) -> None:
    error = {"code": "bad_value", "message": "content has 9000 characters\x1b[2J, at most 8192", "field": "content"}
    canned.say("POST /v1/memories", {"error": error}, 400)
    assert person.give("add", "x") == 2
    assert person.err == "mnemo: content has 9000 characters�[2J, at most 8192\n"


def test_what_is_not_there_is_exit_code_3(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("GET /v1/memories/abcdef12", {"error": {"code": "not_found", "message": "no such memory"}}, 404)
    assert person.give("show", "abcdef12") == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["reacll"], "mnemo: there is no command 'reacll'\n       did you mean: mnemo recall\n"),
        (["xyz"], "mnemo: there is no command 'xyz'\n       see: mnemo --help\n"),
        (["notes", "drop"],
         "mnemo: there is no command 'mnemo notes drop'\n       there are: status, add, rm, rescan\n"),
        (["show"], "mnemo: the following arguments are required: ID\n       see: mnemo show --help\n"),
        (["recall", "x", "--mood"], "mnemo: unrecognized arguments: --mood\n       see: mnemo recall --help\n"),
        (["recall", "x", "--top", "many"],
         "mnemo: argument -k/--top: invalid int value: 'many'\n       see: mnemo recall --help\n"),
    ],
)  # fmt: skip
def test_wrong_usage_is_exit_code_2_and_says_what_would_be_right(
    person: CannedPerson, words: list[str], said: str
) -> None:
    assert person.give(*words) == 2
    assert person.err == said


def test_help_names_every_command_and_every_commands_help_its_arguments(person: CannedPerson) -> None:
    assert person.give("--help") == 0
    for command in command_table.COMMANDS:
        assert f"  {command.name} " in person.out
    assert person.give() == 2
    for name, command in command_table.all_commands():
        assert person.give(*name, "--help") == 0
        assert person.out.startswith(f"usage: mnemo {' '.join(name)} [options]"), name
        for argument in command.arguments:
            assert argument.help.split()[0] in person.out


def test_every_command_leads_to_a_function_that_exists() -> None:
    for name, command in command_table.all_commands():
        assert callable(main._load_function(command)), name


def test_a_command_without_words_has_the_same_options_as_if_they_had_been_read() -> None:
    quick = [
        (list(name), each)
        for name, each in command_table.all_commands()
        if all(part.is_flag for part in each.arguments)
    ]
    assert {tuple(name) for name, _ in quick} >= {("status",), ("mcp",), ("notes", "status"), ("service", "logs")}
    for name, command in quick:
        assert vars(main.parse(command, name, [])) == vars(build_parser(command, name).parse_args([])), name


def test_the_version_is_that_of_the_distribution(person: CannedPerson) -> None:
    from importlib.metadata import version

    assert person.give("--version") == 0
    assert person.out == f"mnemo {version('mnemod')}\n"


# Editors, services, completion, checks, questions


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
def test_each_editor_is_told_the_line_in_its_own_way(program: str, words: list[str]) -> None:
    assert editor.editor_command([program], Path("/n/a.md"), 7) == words


def test_editors_with_windows_are_told_to_wait_where_their_text_is_waited_for() -> None:
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


def test_the_doctor_names_what_is_wrong_and_the_command_that_mends_it() -> None:
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


def test_the_doctor_tells_of_threads_that_failed() -> None:
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


def test_the_doctors_words_are_a_line_a_check_and_one_to_mend_it(person: CannedPerson, canned: CannedDaemon) -> None:
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
