"""Commands with files, editors and pagers, and without a daemon; test_cli_scenarios.py has all others. SPEC 14."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.cli import command_table, editor, main
from mnemo_client.cli.option_parser import build_parser
from mnemo_client.protocol.ingestion import IngestAnswer, PieceAnswer
from mnemo_client.protocol.memories import TagsAnswer
from mnemo_client.protocol.retrieval import ContextAnswer
from mnemo_client.protocol.sessions import HookAnswer, ResumeAnswer, ResumeSectionView
from mnemo_client.protocol.status import (
    NotesRootStatus,
)
from tests.support.stub_daemon import ID, CommandLineUser, StubDaemon, best, note, recall_answer, recalled, status

OTHER = "01890000-0000-7000-8000-0000000000bb"

pytestmark = pytest.mark.usefixtures("utc")


def test_recall_prints_hits_and_keeps_them_for_open(
    person: CommandLineUser, stub_daemon: StubDaemon, short_folder: Path
) -> None:
    hit = recalled(note=note("/n/deploy.md"), best=best("Run it.", (0, 3), line=44))
    stub_daemon.say("POST /v1/recall", recall_answer(hit, degraded=["vectors"]))
    stub_daemon.say("GET /v1/status", status())
    assert person.give("recall", "how", "--top", "3", "to", "roll", "back") == 0
    assert person.out == (
        "1  0.82  /n/deploy.md:44 · Deploy › Rollback · 2025-12-01\n"
        "         *Run* it.\n"
        "1 of 12 · 4.1 ms · fused · namespace default · answered by words only: the embedding model is loading\n"
    )
    assert stub_daemon.asked[0].body == {
        "query": "how to roll back", "top_k": 3, "highlight": True, "cut": "gap", "min_score": 0.005,
    }  # fmt: skip
    kept = short_folder / "data" / "run" / "last.json"
    assert json.loads(kept.read_text()) == {"1": {"id": ID, "path": "/n/deploy.md", "line": 44}}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_open_starts_the_editor_at_the_line(
    person: CommandLineUser, stub_daemon: StubDaemon, short_folder: Path
) -> None:
    file = short_folder / "deploy.md"
    file.write_text("x\n")
    hit = recalled(note=note(str(file)), best=best("Run it.", line=44))
    stub_daemon.say("POST /v1/recall", recall_answer(hit))
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
    person: CommandLineUser, stub_daemon: StubDaemon, short_folder: Path
) -> None:
    stub_daemon.say(f"GET /v1/memories/{ID}", recalled(version=4))
    stub_daemon.say(f"PATCH /v1/memories/{ID}", recalled(version=5))
    person.environ["EDITOR"] = "sed -i s/Ines/Otto/"
    assert person.give("edit", ID) == 0
    assert person.out == "changed: c0ffee01, version 5\n"
    assert stub_daemon.asked[-1].body == {"content": "The key is with Otto.", "if_version": 4}
    assert list((short_folder / "data" / "run").glob("memory-*")) == []
    person.environ["EDITOR"] = "true"
    assert person.give("edit", ID) == 0
    assert person.err == "nothing changed\n"


def test_a_text_the_daemon_refuses_is_kept(
    person: CommandLineUser, stub_daemon: StubDaemon, short_folder: Path
) -> None:
    stub_daemon.say(f"GET /v1/memories/{ID}", recalled())
    stub_daemon.say(f"PATCH /v1/memories/{ID}", {"error": {"code": "conflict", "message": "it has moved on"}}, 409)
    person.environ["EDITOR"] = "sed -i s/Ines/Otto/"
    assert person.give("edit", ID) == 1
    (kept,) = (short_folder / "data" / "run").glob("memory-*")
    assert kept.read_text() == "The key is with Otto.\n"
    assert str(kept) in person.err
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_an_editor_that_draws_on_the_terminal_is_not_started_without_one(
    person: CommandLineUser, stub_daemon: StubDaemon, short_folder: Path
) -> None:
    file = short_folder / "deploy.md"
    file.write_text("x\n")
    person.environ["VISUAL"] = "/usr/bin/vim -n"
    stub_daemon.say(f"GET /v1/memories/{ID}", recalled())
    assert person.give("edit", ID) == 2
    assert person.err == (
        "mnemo: the editor '/usr/bin/vim' needs a terminal, and there is none\n"
        "       give the new text: mnemo edit ID --content TEXT, or --content - from standard input\n"
    )
    stub_daemon.say("POST /v1/recall", recall_answer(recalled(note=note(str(file)), best=best("Run it.", line=44))))
    person.give("recall", "x")
    assert person.give("open", "1") == 2
    assert person.err.endswith(f"the text is in {file}:44\n")
    for windowed in ("code --wait", "emacsclient", "/my/own/script"):
        editor.check_terminal({"VISUAL": windowed}, False, "")
    editor.check_terminal({"VISUAL": "vim"}, True, "")


def test_a_folder_of_notes_goes_into_the_namespace_that_it_names_itself(
    person: CommandLineUser, stub_daemon: StubDaemon, short_folder: Path
) -> None:
    folder = short_folder / "vault"
    folder.mkdir()
    (folder / ".mnemo.toml").write_text('namespace = "vault"\n')
    root = NotesRootStatus(id="r", path=str(folder), namespace="vault", state="scanning", files=0, chunks=0,
                                    waiting=0)  # fmt: skip
    stub_daemon.say("POST /v1/notes/roots", root, 201)
    assert person.give("notes", "add", str(folder)) == 0
    assert stub_daemon.asked[0].body == {"path": str(folder.resolve()), "namespace": "vault"}
    assert person.out == "watching ~/vault · namespace vault\n"


# Files that commands read


def taken(outcome: Any = "stored", content: str = "Ines has the key.", **fields: Any) -> PieceAnswer:
    return PieceAnswer(outcome=outcome, memory=recalled(content=content), **fields)


def test_ingest_takes_each_file_and_reports_the_rejected_pieces(
    person: CommandLineUser, stub_daemon: StubDaemon, tmp_path: Path
) -> None:
    file = tmp_path / "talk.rst"
    file.write_text("Ines has the key.\n\nok then")
    results = [taken(), taken("discarded", "ok then", reason="low_importance")]
    counts = {"stored": 1, "discarded": 1}
    stub_daemon.say("POST /v1/ingest", IngestAnswer(results=[*results], counts=counts, group="g1"))
    assert person.give("ingest", str(file), "--tag", "home") == 0
    assert stub_daemon.asked[0].body == {
        "text": "Ines has the key.\n\nok then", "source": "talk.rst", "tags": ["home"], "evidence": [str(file)],
    }  # fmt: skip
    short = ID.replace("-", "")[-8:]
    assert person.out.splitlines()[:2] == [
        f"{file}: 1 stored, 1 rejected · namespace default",
        f"  rejected  {short}  ok then (unimportant)",
    ]
    assert person.err == "undo this with: mnemo undo --group g1\n"


def test_ingest_names_a_file_that_cannot_be_read(person: CommandLineUser, tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff")
    assert person.give("ingest", str(tmp_path / "none.txt")) == 2
    assert "none.txt cannot be read: No such file or directory" in person.err
    assert person.give("ingest", str(tmp_path / "photo.jpg")) == 2
    assert "photo.jpg is not UTF-8 text (byte 0)" in person.err


def test_an_import_of_a_folder_without_its_tool_says_how_to_name_the_tool(
    person: CommandLineUser, tmp_path: Path
) -> None:
    assert person.give("import", str(tmp_path)) == 2
    assert "cannot be read: Is a directory" in person.err
    assert "--from claude-code or --from codex" in person.err
    assert person.give("import", str(tmp_path / "none.jsonl")) == 2
    assert "--from" not in person.err


def test_turns_are_read_from_json_lines(person: CommandLineUser, stub_daemon: StubDaemon, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text('{"role": "user", "content": "Where is the key?"}\n\n{"role": "agent", "content": "With Ines."}\n')
    answer = IngestAnswer(results=[taken(), taken("repeats", repeats=[OTHER])],
                                  counts={"stored": 1, "repeats": 1})  # fmt: skip
    stub_daemon.say("POST /v1/turns", answer)
    assert person.give("turns", str(file), "--session", "s1") == 0
    assert stub_daemon.asked[0].body == {
        "session_id": "s1",
        "turns": [{"role": "user", "content": "Where is the key?"}, {"role": "agent", "content": "With Ines."}],
    }
    assert person.out.startswith(
        f"{file}: 1 stored, 1 stored although already known in other words · namespace default"
    )


def test_a_turn_that_is_none_is_named_by_its_line(
    person: CommandLineUser, stub_daemon: StubDaemon, tmp_path: Path
) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text('{"role": "user", "content": "a"}\n{"role": "judge", "content": "b"}\n')
    assert person.give("turns", str(file), "--session", "s1") == 2
    assert f"{file}:2: `role` must be one of " in person.err
    assert '"user"' in person.err
    assert person.err.count(', not "judge"') == 1
    assert stub_daemon.asked == []


def test_output_longer_than_the_screen_goes_through_the_pager(
    person: CommandLineUser, stub_daemon: StubDaemon, short_folder: Path
) -> None:
    stub_daemon.say("GET /v1/tags", TagsAnswer(tags={f"tag-{number}": 1 for number in range(100)}))
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


def test_a_shell_without_a_daemon_is_offered_nothing(person: CommandLineUser, stub_daemon: StubDaemon) -> None:
    stub_daemon.stop()
    assert person.give("completion", "values", "models") == 0
    assert (person.out, person.err) == ("", "")


# What goes wrong


def test_a_daemon_that_is_down_is_exit_code_4_and_two_lines(person: CommandLineUser, stub_daemon: StubDaemon) -> None:
    stub_daemon.stop()
    for command in (["status"], ["recall", "x"]):
        assert person.give(*command) == 4
        first, second = person.err.splitlines()
        assert first == f"mnemo: no daemon listens on {stub_daemon.path}"
        assert second.endswith("mnemo up")
    assert person.give("down") == 0
    assert person.out == "no daemon was running\n"


def test_help_names_every_command_and_every_commands_help_its_arguments(person: CommandLineUser) -> None:
    assert person.give("--help") == 0
    for command in command_table.COMMANDS:
        assert f"  {command.name} " in person.out
    assert person.give() == 2
    for name, command in command_table.all_commands():
        assert person.give(*name, "--help") == 0
        assert person.out.startswith(f"usage: mnemo {' '.join(name)} [options]"), name
        for argument in command.arguments:
            assert argument.help.split()[0] in person.out
    assert person.give("edit", "--help") == 0
    assert "undo ends the tie, restoring none" in " ".join(person.out.split())


def test_every_command_leads_to_a_function_that_exists() -> None:
    for name, command in command_table.all_commands():
        assert callable(main._load_function(command)), name


def test_the_other_names_of_commands_are_free_and_lead_to_commands_that_exist() -> None:
    names = {command.name for command in command_table.COMMANDS}
    assert names.isdisjoint(command_table.OTHER_NAMES)
    assert names.issuperset(command_table.OTHER_NAMES.values())


def test_a_command_without_words_has_the_options_that_argparse_would_give_it() -> None:
    quick = [
        (list(name), each)
        for name, each in command_table.all_commands()
        if all(part.is_option and not part.settings.get("required") for part in each.arguments)
    ]
    assert {tuple(name) for name, _ in quick} >= {("status",), ("mcp",), ("notes", "status"), ("service", "logs")}
    for name, command in quick:
        assert vars(main.parse(command, name, [])) == vars(build_parser(command, name).parse_args([])), name


def test_the_version_is_that_of_the_distribution(person: CommandLineUser) -> None:
    from importlib.metadata import version

    assert person.give("--version") == 0
    assert person.out == f"mnemo {version('mnemod')}\n"


@pytest.mark.parametrize("command", ["resume", "context", "hook"])
def test_no_memory_controls_the_terminal_through_a_block(
    person: CommandLineUser, stub_daemon: StubDaemon, command: str
) -> None:
    text, section = "one \x1b[31mred\nand \u202eback\x07", ResumeSectionView(0, [])
    stub_daemon.say("GET /v1/resume", ResumeAnswer(text, 9, 0, 0, section, section))
    stub_daemon.say("POST /v1/context", ContextAnswer(text, 9, [ID]))
    stub_daemon.say("POST /v1/hooks/prompt", HookAnswer("prompt", text))
    words = {"resume": ["resume"], "context": ["context", "colours"], "hook": ["hook", "prompt"]}[command]
    assert person.give(*words, typed='{"prompt": "colours"}') == 0
    assert person.out == "one \ufffd[31mred\nand \ufffdback\ufffd\n"


def test_a_reset_asks_for_its_word(person: CommandLineUser, stub_daemon: StubDaemon) -> None:
    stub_daemon.say("POST /v1/reset", {"memories": 7, "roots": 1, "dry_run": True})
    person.sits_at_a_terminal = True
    assert person.give("reset", typed="yes\n") == 2
    assert "type the word reset" in person.out
    assert [asked.body for asked in stub_daemon.asked] == [{}]
    person.give("reset", typed="reset\n")
    assert stub_daemon.asked[-1].body == {"confirm": True}
