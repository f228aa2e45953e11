"""Commands as a person sees them: input, exit codes, messages for failures. SPEC 14."""

import json
import stat
from pathlib import Path

import msgspec
import pytest

from mnemo_client.cli import command_table, editor, main
from mnemo_client.cli.option_parser import build_parser
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import BulkDeleteAnswer
from mnemo_client.protocol.retrieval import ContextAnswer, SearchAnswer
from mnemo_client.protocol.status import (
    CatalogueModel,
    ModelsAnswer,
    ModelStatus,
    NotesRootStatus,
    NotesStatus,
    ReindexAnswer,
)
from mnemo_client.protocol.versions import UndoAnswer
from tests.canned import ID, CannedAnswer, CannedDaemon, CannedPerson, best, note, recall_answer, recalled, status

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


def test_add_says_that_the_fields_of_a_known_memory_stay(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("POST /v1/memories", RememberAnswer(outcome="duplicate", memory=recalled()))
    assert person.give("add", "The key is with Ines.", "--tag", "home") == 0
    assert person.out == "already known · c0ffee01 · namespace default\n"
    assert person.err == "its fields stay as they were; change them with: mnemo edit ID\n"
    assert person.give("add", "The key is with Ines.") == 0
    assert person.err == ""


def test_a_model_that_is_in_use_is_not_switched_to(person: CannedPerson, canned: CannedDaemon) -> None:
    model = CatalogueModel(name="mini", role="embedding", bytes=1, licence="MIT", sha256="", sources=[],
                           installed=True, in_use=True)  # fmt: skip
    ready = ModelStatus(name="mini", state="ready")
    answer = ModelsAnswer(models=[model, msgspec.structs.replace(model, name="other", in_use=False)], embedding=ready,
                          llm=ready)  # fmt: skip
    canned.say("GET /v1/models", answer)
    canned.say("POST /v1/models/use", answer)
    assert person.give("models", "use", "mini") == 0
    assert person.out == "mini is already in use\n"
    assert person.give("models", "use", "other") == 0
    assert person.out == "switching to other; the old vectors are used until the new ones are complete\n"


def test_a_dry_import_says_that_nothing_was_changed(person: CannedPerson, canned: CannedDaemon) -> None:
    counts = {"stored": 2, "duplicate": 14}
    canned.answers["POST /v1/import"] = lambda asked: CannedAnswer(
        json.dumps({"tool": "mnemo", "dry_run": "dry_run" in asked.query, **counts}).encode() + b"\n"
    )
    assert person.give("import", "-", "--dry-run", typed="{}") == 0
    assert person.out == ("export of mnemo: nothing was changed; an import would give: 2 stored, 14 already known\n")
    assert person.give("import", "-", typed="{}") == 0
    assert person.out == "export of mnemo: 2 stored, 14 already known\n"


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
        (["show"], "mnemo: ID is missing\n       see: mnemo show --help\n"),
        (["recall", "x", "--mood"],
         "mnemo: there is no such option or argument here: --mood\n       see: mnemo recall --help\n"),
        (["recall", "x", "--top", "many"],
         "mnemo: -k/--top must be a whole number, not 'many'\n       see: mnemo recall --help\n"),
        (["add", "x", "--importance", "high"],
         "mnemo: --importance must be a number, not 'high'\n       see: mnemo add --help\n"),
        (["recall", "x", "--sort", "age"],
         "mnemo: --sort must be one of 'score', 'recent', 'accessed', not 'age'\n       see: mnemo recall --help\n"),
        (["recall", "x", "--since"], "mnemo: --since needs a value\n       see: mnemo recall --help\n"),
        (["forget"], "mnemo: name memories by ids or by options such as --tag\n       see: mnemo forget --help\n"),
        (["forget", ID, "--tag", "x"],
         "mnemo: name memories by ids or by options such as --tag, not both\n       see: mnemo forget --help\n"),
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
