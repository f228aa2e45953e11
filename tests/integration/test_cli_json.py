"""The names in the JSON of commands that print more than the daemon's answer, and of the files they leave. SPEC 14."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.test_cli import Person

CHECK = {"name": "str", "outcome": "str", "found": "str", "fix": "str", "fixed": "str"}
CHECKS = (
    "python", "extras", "configuration", "settings", "folders above", "data folder", "models folder", "model files",
    "log", "disk", "inodes", "file system", "clock", "watching", "open files", "leftovers", "service",
    "completion", "agents", "socket path", "socket", "daemon", "version", "hooks", "proxy", "page", "network", "store",
    "integrity", "model", "language model", "columns", "words", "vectors", "threads", "jobs", "queue", "notes",
    "exposure", "trash", "sync", "backups", "round trip",
)  # fmt: skip
EXPECTED: list[tuple[tuple[str, ...], int, Any]] = [
    (("doctor",), 0, {"ok": "bool", "checks": [CHECK]}),
    (("namespaces",), 0, {"namespaces": {"default": "int"}, "here": "str"}),
    (("completion", "bash"), 0, {"shell": "str", "script": "str"}),
    (("export", "memories.jsonl"), 0, {"file": "str", "lines": "int", "bytes": "int"}),
    (("service", "status"), 3, {"installed": "bool", "daemon_answers": "bool", "file": "str"}),
    (("restore", "kept", "--yes"), 0,
     {"seq": "int", "memories": "int", "kept_as": "str", "forgotten": [], "said": []}),
    (("down",), 0, {"stopped": "bool"}),
]  # fmt: skip
FILES = [
    "daily.json",
    "db/data.mdb", "db/lock.mdb", "journal/long_term.jsonl", "journal/short_term.jsonl", "lock", "reserve",
    "run/mnemod.log", "store.json", "views/columns.view", "views/roles.view", "views/words.view",
]  # fmt: skip


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    person = Person(tmp_path_factory.mktemp("j"))
    person.give("add", "The spare key is with Ines.")
    person.give("backup", "kept")
    yield person
    person.give("down")


def names_in(value: Any) -> Any:
    """The names and types in a value, of a list those of its first item."""
    match value:
        case dict():
            return {name: names_in(each) for name, each in value.items()}
        case list():
            return [names_in(each) for each in value[:1]]
        case _:
            return type(value).__name__


@pytest.mark.parametrize(("words", "code", "expected"), EXPECTED)
def test_the_json_of_a_command_has_the_names_that_scripts_know(
    person: Person, words: tuple[str, ...], code: int, expected: Any
) -> None:
    assert names_in(person.answer(*words, code=code)) == expected


def test_the_checks_of_the_doctor_have_the_names_that_scripts_know(person: Person) -> None:
    person.give("up")
    found = tuple(check["name"] for check in person.answer("doctor")["checks"])
    assert found == tuple(name for name in CHECKS if name != "watching" or os.uname().sysname == "Linux")


def test_a_data_folder_has_the_files_that_people_back_up(person: Person) -> None:
    person.give("add", "The oven needs 240 degrees.")
    person.give("down")
    data = person.home / "data"
    assert sorted(path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file()) == FILES
