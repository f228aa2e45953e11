"""Every command on a real daemon: its answer with --json is JSON, and so is its error. SPEC 14"""

import io
import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.cli import command_table, main
from mnemo_client.cli.help_pages import EXAMPLES
from mnemo_client.cli.terminal import Terminal
from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from tests.support.running_daemon import RunningDaemon

# By the name of each command, its words; {…} is filled in. Of one that is not here, those of its first example.
GIVEN: dict[str, tuple[str, ...]] = {
    "add": ("The spare key is with Ines.", "--tag", "home"),
    "ingest": ("{folder}/article.txt",),
    "turns": ("{folder}/turns.jsonl", "--session", "monday"),
    "recall": ("spare", "key"),
    "why": ("{id}", "spare", "key"),
    "search": ("spare",),
    "list": (),
    "recent": (),
    "open": ("1",),
    "show": ("{id}",),
    "history": ("{id}",),
    "edit": ("{id}", "--importance", "0.7"),
    "rm": ("{other}",),
    "trash restore": ("{other}",),
    "forget": ("{other}", "--yes"),
    "ask": ("who", "has", "the", "spare", "key"),
    "runs": ("no-such-run",),
    "step": ("migration", "Moved", "the", "tables"),
    "review approve": ("--all",),
    "review reject": ("--all",),
    "review edit": ("{id}", "x"),
    "facts": (),
    "profile add": ("prefers", "tea"),
    "profile rm": ("{id}",),
    "context": ("spare", "key"),
    "hook": ("session-start",),
    "setup": (),
    "export": ("{folder}/all.jsonl", "--force"),
    "import": ("{folder}/all.jsonl", "--dry-run"),
    "notes add": ("{folder}/notes",),
    "notes rm": ("{folder}/notes",),
    "models pull": ("no-such-model",),
    "models import": ("{folder}/article.txt",),
    "models use": ("no-such-model",),
    "models calibrate": ("no-such-model",),
    "llm": (),
    "llm usage": (),
    "reindex": ("--dry-run",),
    "sync init": ("{folder}/shared", "--yes"),
    "sync join": ("{folder}", "--code", "no-code"),
    "sync remove": ("no-device", "--yes"),
    "sync rejoin": ("--code", "no-code"),
    "sync leave": ("--yes",),
    "backup": ("{folder}/kept",),
    "restore": ("{folder}/no-backup",),
    "init": (),
    "try": ("{folder}/no-notes",),
    "bench": (),
    "bench quality": ("--data", "{folder}/no-data"),
    "bench speed": ("--sizes", "none"),
    "events": ("--no-follow",),
    "service logs": (),
    "down": (),
}
WITHOUT = {
    "serve": "it serves nothing by itself",
    "serve mem0": "it serves until it is ended",
    "serve engram": "it serves until it is ended",
    "mcp": "its output is the Model Context Protocol",
    "proxy": "it serves until it is stopped: test_proxy.py",
    "ui": "it serves until it is stopped: test_page_server.py",
    "service install": "it would install a service on this machine",
}


KNOWN = [" ".join(name) for name, _ in command_table.all_commands()]
WALK = {
    name: GIVEN[name] if name in GIVEN else tuple(shlex.split(EXAMPLES[name][0], comments=True)[len(name.split()) :])
    for name in sorted(KNOWN, key="down".__eq__) if name not in WITHOUT
}  # fmt: skip


class Walker:
    """Runs commands in this process, on a real daemon."""

    def __init__(self, daemon: RunningDaemon, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in daemon.environ.items() if not name.startswith("XDG_")}
        self.environ = {**kept, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "MNEMO_AUTOSTART": "off"}
        self.err = ""

    def give(self, words: Sequence[str], typed: str = "") -> tuple[int, str]:
        """The exit code of a command and its output."""
        out, err = io.StringIO(), io.StringIO()
        code = main.run(list(words), Terminal(out, err, self.environ), self.environ, io.StringIO(typed))
        self.err = err.getvalue()
        return code, out.getvalue()


@pytest.fixture(scope="module")
def walker(daemon: RunningDaemon, tmp_path_factory: pytest.TempPathFactory) -> Walker:
    folder = tmp_path_factory.mktemp("walk")
    for name in ("notes", "no-notes"):
        (folder / name).mkdir()
    (folder / "article.txt").write_text("The reactor was started on 3 May 2024.\n")
    (folder / "turns.jsonl").write_text('{"role": "user", "content": "Which port has the service?"}\n')
    return Walker(daemon, folder)


@pytest.fixture(scope="module")
def names(walker: Walker, daemon: RunningDaemon) -> Iterator[dict[str, str]]:
    with daemon.client(entry_point="cli") as client:
        yield {"folder": str(walker.folder), "id": _stored(client, "The boiler is serviced in March."),
               "other": _stored(client, "The oven needs 240 degrees.")}  # fmt: skip


def _stored(client: Client, text: str) -> str:
    return client.remember(text).memory.id


def parsed(text: str) -> list[Any]:
    """The JSON values of an output, one a line."""
    return [json.loads(line) for line in text.splitlines()]


def test_every_command_answers_in_json(walker: Walker, names: dict[str, str]) -> None:
    assert GIVEN.keys() | WITHOUT.keys() <= set(KNOWN)
    for name, given in WALK.items():
        words = [*name.split(), *(word.format(**names) for word in given), "--json"]
        typed = "Which port?\n/quit\nWhich host?\n" if name == "chat" else ""
        code, out = walker.give(words, typed)
        assert code in (0, 1, 2, 3), (words, walker.err)
        values = parsed(out)
        assert values, (words, walker.err)
        assert name != "chat" or len(values) == 1
        if code == 2 or (code == 1 and "ok" not in values[-1]):  # a report of faults has `ok`
            assert values[-1]["error"]["exit_code"] == code, (words, out)
            assert values[-1]["error"]["message"] in walker.err, words


def test_without_a_daemon_a_command_that_needs_one_says_so_in_json(walker: Walker, names: dict[str, str]) -> None:
    """`down` was the last command of the walk."""
    walker.give(["down"])
    for words in (["status"], ["recall", "x"], ["backup"], ["compact", "--dry-run"]):
        code, out = walker.give([*words, "--json"])
        assert code == 4, words
        assert parsed(out)[0]["error"]["code"] == "unreachable"


# The commands that need no daemon, with their exit code in this walk when none runs.
WITHOUT_A_DAEMON = {
    "open": 3, "hook": 0, "setup": 0, "check": 0, "repair": 0, "models pull": 1, "models import": 1,
    "models calibrate": 1, "restore": 2, "try": 3, "bench": 2, "bench quality": 2, "bench speed": 2, "doctor": 1,
    "service": 3, "service status": 3, "service uninstall": 0, "service logs": 3, "completion": 0,
    "completion values": 0, "down": 0, "proxy status": 3, "proxy flush": 3,
}  # fmt: skip


def test_every_command_has_the_exit_code_of_wrong_usage_and_of_no_daemon(walker: Walker, names: dict[str, str]) -> None:
    walker.give(["down"])
    for name, given in WALK.items():
        assert walker.give([*name.split(), "--no-such-option"])[0] == (0 if name == "hook" else 2), (
            name
        )  # it fails open
        if name != "up":
            code, _ = walker.give([*name.split(), *(word.format(**names) for word in given)], "x\n")
            assert code == WITHOUT_A_DAEMON.get(name, 4), (name, walker.err)


def test_an_exit_code_tells_a_failure_from_nothing_found(walker: Walker, names: dict[str, str]) -> None:
    walker.environ["MNEMO_AUTOSTART"] = "on"
    expected = [
        (0, ("add", "The kettle is red.")),
        (0, ("recall", "kettle")),
        (1, ("backup", names["folder"])),  # the folder is not empty
        (3, ("models", "use", "no-such-model")),
        (2, ("recall", "x", "--min-score", "7")),  # refused by the daemon
        (2, ("recall",)),
        (0, ("rm", names["id"])),
        (2, ("trash", "empty")),  # nobody can be asked
        (2, ("xyz",)),
        (2, ()),
        (3, ("recall", "zebra")),
        (3, ("show", "00000000")),
        (3, ("list", "--tag", "none")),
        (3, ("forget", "--tag", "none", "--yes")),
        (3, ("facts", "nobody")),
    ]
    for code, words in expected:
        assert walker.give(words)[0] == code, (words, walker.err)
    walker.give(["down"])


def test_a_reset_is_of_a_person_who_confirms_and_its_backup_is_named(walker: Walker, daemon: RunningDaemon) -> None:
    walker.environ["MNEMO_AUTOSTART"] = "on"
    walker.give(["add", "A last memory before the reset."])
    assert walker.give(["reset"])[0] == 2  # nobody can be asked
    with pytest.raises(RefusalError) as refused, Client(daemon.socket, agent="robot", entry_point="mcp") as agent:
        agent.reset(confirm=True)
    assert refused.value.status == 422
    assert walker.give(["recall", "last memory"])[0] == 0
    code, out = walker.give(["reset", "--yes", "--json"])
    answer = json.loads(out)
    assert (code, answer["dry_run"]) == (0, False)
    assert answer["memories"] >= 1
    assert (Path(answer["backup"]["folder"]) / "backup.json").exists()
    assert walker.give(["recall", "last memory"])[0] == 3
    assert walker.give(["check"])[0] == 0
    walker.give(["add", "A first memory after the reset."])
    assert walker.give(["recall", "first memory"])[0] == 0
    walker.give(["down"])
