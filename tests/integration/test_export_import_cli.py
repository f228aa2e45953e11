"""`mnemo export` and `mnemo import`, as a person gives them. SPEC 3.8, 14"""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.file_bytes import readable_bytes
from tests.support.running_daemon import RunningDaemon

EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"


class ExportingPerson:
    """Gives commands to a daemon that runs."""

    def __init__(self, daemon: RunningDaemon, here: Path) -> None:
        self.environ = {**daemon.environ, "HOME": str(here), "MNEMO_AUTOSTART": "off", "TERM": "dumb"}
        self.here = here
        self.messages = ""

    def give(self, *words: str, typed: bytes = b"", code: int = 0) -> str:
        """The output, after the command ended with `code`; the messages are in `told`."""
        done = subprocess.run(
            [sys.executable, "-m", "mnemo_client.cli.main", *words],
            input=typed, capture_output=True, env=self.environ, cwd=self.here, timeout=60, check=False,
        )  # fmt: skip
        self.messages = done.stderr.decode()
        assert done.returncode == code, done.stdout.decode() + self.messages
        assert "Traceback" not in self.messages
        return done.stdout.decode()


@pytest.fixture
def person(daemon: RunningDaemon, tmp_path: Path) -> ExportingPerson:
    return ExportingPerson(daemon, tmp_path)


def test_an_import_reports_every_outcome_and_how_to_undo_it(person: ExportingPerson) -> None:
    file = str(EXPORTS / "mem0.json")
    assert person.give("import", file, "-n", "said", "--dry-run").startswith(
        "export of mem0: nothing was changed; an import would give: 5 stored, 1 skipped\n"
    )
    first = person.give("import", file, "-n", "said").splitlines()
    assert first[:-1] == [
        "export of mem0: 5 stored, 1 skipped",
        "  results[3]: object missing required field `memory`",
        "masked: password (1)",
        "not kept: metadata.confidence (1), metadata.note (1)",
        "of other users: tom (4)",
        "  recall finds memories of the user local only; to import them for that user: --user local",
    ]
    words, group = first[-1].rsplit(" ", 1)
    assert words == "undo this with: mnemo undo --group"
    assert person.give("import", file, "-n", "said").splitlines()[0] == "export of mem0: 5 already known, 1 skipped"
    person.give("undo", "--group", group)
    assert (
        person.give("import", file, "-n", "said").splitlines()[0]
        == "export of mem0: 5 restored from the trash, 1 skipped"
    )


def test_an_import_reads_standard_input_and_answers_in_json(person: ExportingPerson) -> None:
    data = (EXPORTS / "mcp-memory.jsonl").read_bytes()
    answer = json.loads(person.give("import", "-", "-n", "typed", "--json", typed=data))
    assert (answer["tool"], answer["stored"], answer["skipped"]) == ("mcp-memory", 6, 3)


def test_importing_a_file_that_is_no_export_is_wrong_usage(person: ExportingPerson) -> None:
    (person.here / "diary.txt").write_text("Dear diary\n")
    person.give("import", "diary.txt", code=2)
    assert "it begins with 'Dear diary'" in person.messages
    person.give("import", "not-there.json", code=2)
    assert person.messages.startswith("mnemo: not-there.json cannot be read: No such file or directory\n")
    person.give("import", ".", code=2)
    assert "Is a directory" in person.messages


def test_an_import_of_which_nothing_could_be_read_has_failed(person: ExportingPerson) -> None:
    (person.here / "export.json").write_text('{"results": [{"id": "1"}, {"id": "2"}]}')
    assert person.give("import", "export.json", "--from", "mem0", code=1).startswith("export of mem0: 2 skipped\n")


def test_an_import_of_which_all_the_rest_is_older_has_not_failed(person: ExportingPerson) -> None:
    one = '{"id": "1", "memory": "%s", "created_at": "2026-05-01"}'
    (person.here / "first.json").write_text('{"results": [%s]}' % (one % "As it was."))
    (person.here / "second.json").write_text('{"results": [%s, {"id": "2"}]}' % (one % "As it was before."))
    person.give("import", "first.json", "-n", "older", "--from", "mem0")
    said = person.give("import", "second.json", "-n", "older", "--from", "mem0")
    assert said.startswith("export of mem0: 1 changed here since and kept, 1 skipped\n")


def test_an_export_is_a_whole_file_for_its_owner_alone_and_replaces_none_unasked(person: ExportingPerson) -> None:
    person.give("add", "worth keeping", "-n", "kept")
    target = person.here / "memories.jsonl"
    person.give("export", str(target), "-n", "kept")
    first = target.read_bytes()
    assert b"worth keeping" in first
    assert first.splitlines()[-1].startswith(b'{"end":')
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    person.give("add", "this too", "-n", "kept")
    person.give("export", str(target), "-n", "kept", code=2)
    assert "already exists" in person.messages
    assert target.read_bytes() == first
    reported = json.loads(person.give("export", str(target), "-n", "kept", "--force", "--json"))
    assert reported == {"file": str(target), "lines": len(target.read_bytes().splitlines()),
                    "bytes": target.stat().st_size}  # fmt: skip
    assert b"this too" in target.read_bytes()
    assert os.listdir(person.here) == ["memories.jsonl"]


def test_an_export_that_cannot_be_made_leaves_no_file(person: ExportingPerson) -> None:
    person.give("export", "memories.jsonl", "--vectors", code=1)
    assert "no embedding model is in use" in person.messages
    assert os.listdir(person.here) == []


def test_an_export_into_a_folder_that_is_not_there_says_which(person: ExportingPerson) -> None:
    person.give("export", "not-there/memories.jsonl", code=2)
    assert f"there is no folder {person.here.resolve()}/not-there\n" in person.messages


def test_a_restore_replaces_no_backup_and_leaves_it_as_it_is(person: ExportingPerson) -> None:
    person.give("add", "worth a copy", "-n", "copied")
    person.give("backup", "first")
    person.give("backup", "second")
    before = {path: path.read_bytes() for path in person.here.rglob("*") if path.is_file()}
    for source in ("first", "second"):
        person.give("restore", source, "--to", "first", "--yes", code=2)
        assert "is a backup" in person.messages
    assert {path: path.read_bytes() for path in person.here.rglob("*") if path.is_file()} == before
    person.give("restore", "first", "--to", "back")
    assert (person.here / "back" / "store.json").exists()


def test_a_restore_to_an_invalid_time_is_refused_before_the_daemon_is_stopped(person: ExportingPerson) -> None:
    person.give("add", "said before", "-n", "moments")
    pid = json.loads(person.give("status", "--json"))["pid"]
    person.give("restore", "--at", "yesterdy", "--yes", code=1)
    assert "cannot be read as a time: say it like 2026-03-01" in person.messages
    assert json.loads(person.give("status", "--json"))["pid"] == pid, "it was not stopped"


def test_a_restore_goes_back_by_a_span(person: ExportingPerson) -> None:
    person.give("add", "said just now", "-n", "spans")
    person.give("backup", "copy")
    person.give("restore", "copy", "--at", "1h", "--to", "before")
    assert list((person.here / "before").glob("journal/short_term.jsonl"))
    assert "said just now" not in (person.here / "before" / "journal" / "short_term.jsonl").read_text()


def test_an_export_to_standard_output_is_the_same(person: ExportingPerson) -> None:
    person.give("add", "said aloud", "-n", "aloud")
    person.give("export", "here.jsonl", "-n", "aloud")
    assert person.give("export", "-n", "aloud") == (person.here / "here.jsonl").read_text()
    assert person.give("export", "-", "-n", "aloud") == (person.here / "here.jsonl").read_text()
    bare = person.give("export", "-n", "aloud", "--no-history")
    assert '"record_type":"change"' not in bare


def test_our_own_export_comes_back_through_the_command_line(
    person: ExportingPerson, started_daemon: RunningDaemon
) -> None:
    person.give("add", "carried over", "-n", "carried")
    person.give("export", "all.jsonl")
    other = ExportingPerson(started_daemon, person.here)
    lines = other.give("import", "all.jsonl").splitlines()
    assert lines[0].startswith("export of mnemo: ")
    assert lines[1] == "the store was empty: everything was restored, with the history and the watched folders"
    other.give("export", "again.jsonl")
    assert (person.here / "again.jsonl").read_bytes() == (person.here / "all.jsonl").read_bytes()
    cut = (person.here / "all.jsonl").read_bytes()[:-2]
    other.give("import", "-", typed=cut, code=2)
    assert "the export is damaged: line" in other.messages


def test_a_restore_to_a_new_folder_leaves_out_what_was_forgotten(person: ExportingPerson) -> None:
    stored = json.loads(person.give("add", "Ines moved to Evora", "-n", "secrets", "--json"))["memory"]["id"]
    person.give("backup", "early")
    person.give("forget", stored, "--yes")
    person.give("restore", "early", "--to", "looked-at")
    assert "not restored: 1 memory that had been erased since" in person.messages
    assert not [path for path in (person.here / "looked-at").rglob("*.*") if b"Evora" in readable_bytes(path)]
    person.give("restore", "early", "--to", "all-of-it", "--allow-forgotten")
    assert [path for path in (person.here / "all-of-it").rglob("*.*") if b"Evora" in readable_bytes(path)]
