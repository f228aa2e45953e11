"""The parts behind the commands: editors, the service, completion, the doctor, questions of a trial. SPEC 14."""

import os
from pathlib import Path

import pytest

from mnemo_client.cli import command_table, completion, editor
from mnemo_client.cli.admin import service
from mnemo_client.cli.admin.try_notes import make_questions
from mnemo_client.errors import MnemoError, UsageError
from tests.support.stub_daemon import note, recalled

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


def test_questions_are_made_of_words_that_others_have_and_that_are_in_no_heading() -> None:
    texts = {
        "a.md": "Zebras graze beside quiet rivers; lions sleep beside them.",
        "b.md": "Quiet evenings: lions sleep, and zebras drink from rivers.",
        "c.md": "The rollback of a release needs the harbour ledger.",
        "d.md": "The harbour ledger lists quiet berths.",
    }
    passages = [
        recalled(content=text, note=note(f"/n/{name}", headings=["Quiet things"])) for name, text in texts.items()
    ]
    questions = make_questions(passages)
    assert len({question.origin for question in questions}) == 3
    for question in questions:
        words = question.text.split()
        own = texts[question.origin].lower()
        assert [own.index(word) for word in words] == sorted(own.index(word) for word in words)
        assert "quiet" not in words
        shared = [word for word in words if sum(word in text.lower() for text in texts.values()) > 1]
        assert len(shared) >= 2
    assert make_questions(list(reversed(passages))) == questions
    assert make_questions([]) == []


def test_a_folder_of_one_file_gives_more_than_one_question() -> None:
    passages = [recalled(content=text, note=note()) for text in ("Zebras graze there.", "Lions sleep under trees.")]
    assert [question.text for question in make_questions(passages)] == ["zebras graze there", "lions sleep under"]
