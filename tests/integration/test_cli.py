"""The whole way: the real command, a daemon that it starts itself, a real folder of notes. SPEC 14."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.errors import StartError, UnreachableError
from mnemo_client.paths import socket_path
from mnemo_client.process import start, with_reason
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING
from tests.support.mcp_messages import memory_ids
from tests.support.running_daemon import has_ended
from tests.support.samples import quick_folder

COMMAND = [sys.executable, "-m", "mnemo_client.cli.main"]
SECONDS_MAX = 60.0  # for what takes one: the machine may be busy
SEEN_SECONDS_MAX = 10.0  # a save is seen within 2 s (SPEC 6); the machine of the tests may be busy


class Person:
    """Someone with a home, a data folder and a daemon of their own, without any model."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        (folder / "models").mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MNEMO_", "XDG_"))}
        self.environ = {**kept, "HOME": str(folder), "MNEMO_DATA_DIR": str(folder / "data"),
                        "MNEMO_MODELS_FOLDER": str(folder / "models"), "TERM": "dumb"}  # fmt: skip

    def give(self, *words: str, typed: str = "", code: int = 0) -> str:
        """The output of a command, after it ended with `code`; nobody ever sees a traceback."""
        done = subprocess.run(
            [*COMMAND, *words], input=typed, capture_output=True, text=True, env=self.environ, cwd=self.home, timeout=60
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        self.messages = done.stderr
        return done.stdout

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """A command that is not waited for."""
        return subprocess.Popen(
            [*COMMAND, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environ, cwd=self.home,
        )  # fmt: skip

    def answer(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.give(*words, "--json", code=code))


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    person = Person(tmp_path_factory.mktemp("p"))
    yield person
    person.give("down")


@pytest.fixture(scope="module")
def homes() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def leaving(homes: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """The last command of each newcomer: their daemons end while the next tests run."""
    commands: list[subprocess.Popen[str]] = []
    yield commands
    said = [command.communicate(timeout=60) for command in commands]
    assert [command.returncode for command in commands] == [0] * len(commands), said
    assert not [err for _, err in said if "Traceback" in err]


@pytest.fixture
def newcomer(homes: Path, leaving: list[subprocess.Popen[str]]) -> Iterator[Person]:
    """With nothing started yet."""
    home = homes / str(len(leaving))
    home.mkdir()
    person = Person(home)
    yield person
    leaving.append(person.begin("down"))


def test_a_memory_is_stored_found_changed_deleted_and_restored(person: Person) -> None:
    said = person.give("add", "The spare key is with Ines.", "--tag", "home")
    assert said.startswith("remembered · ")
    short = said.split(" · ")[1]
    assert person.give("add", "The spare key is with Ines.").startswith(f"already known · {short}")
    shown = person.give("recall", "who has the spare key")
    assert shown.splitlines()[0].startswith("1  0.")
    assert f"  {short} · " in shown.splitlines()[0]
    assert "The *spare* *key* is with Ines." in shown
    assert "answered by words only: no embedding model is installed" in shown
    assert person.answer("show", "1")["trust"] == "user"
    person.give("edit", "1", "--content", "The spare key is with Otto.")
    assert person.answer("show", short)["version"] == 2
    person.give("rm", short)
    person.give("recall", "spare key", code=3)
    assert short in person.give("trash")
    assert person.give("undo").startswith("undone: delete")
    assert "Otto" in person.give("search", "spare")
    person.give("rm", short)
    assert person.give("trash", "restore", short).startswith(f"restored: {short}")
    lines = [json.loads(line) for line in person.give("export").splitlines()]
    assert "The spare key is with Otto." in [line.get("data", {}).get("content") for line in lines]


def test_a_question_is_answered_with_the_memories_that_it_rests_on_and_how(person: Person) -> None:
    person.give("add", "The boiler was serviced by Mr. Kowalski on 3 March. He charged 240 EUR.", "-n", "flat")
    shown = person.give("ask", "who mended the boiler", "-n", "flat")
    lines = shown.splitlines()
    assert lines[0] == "The boiler was serviced by Mr. Kowalski on 3 March. He charged 240 EUR. [1]"
    stored = person.answer("show", "1")["id"]
    assert lines[2].startswith("1  0.")
    assert stored[-8:] in lines[2]
    assert lines[-1].startswith("quoted, not written by a language model: no language model is chosen")
    assert lines[-1].endswith(" · namespace flat")
    answer = person.answer("ask", "who mended the boiler", "-n", "flat")
    assert answer["sentences"] == [{"text": lines[0].removesuffix(" [1]"), "ids": [stored]}]
    assert (answer["method"], answer["abstained"]) == ("quotes", False)
    assert person.give("ask", "when does the ferry leave", "-n", "flat", code=3) == "I don't know.\n"


def test_a_text_of_many_lines_comes_from_standard_input(person: Person) -> None:
    person.give("add", "-", "--key", "poem", typed="Roses are red.\n\nZinnias are too.\n")
    assert person.answer("search", "zinnias")["memories"][0]["content"] == "Roses are red.\n\nZinnias are too."
    assert person.give("add", "--key", "poem", typed="Zinnias are purple.").startswith("updated to version 2")


def test_memories_of_a_namespace_stay_there(person: Person) -> None:
    person.give("add", "The launch is on Tuesday.", "-n", "apollo")
    assert person.give("recall", "launch", "-n", "apollo").splitlines()[-1].find("namespace apollo") > 0
    person.give("search", "launch", code=3)
    person.give("search", "launch", "-n", "*")


def test_notes_are_found_with_path_and_line_and_again_after_an_edit(person: Person) -> None:
    notes = person.home / "notes"
    notes.mkdir()
    page = notes / "deploy.md"
    page.write_text("# Deploy\n\n## Rollback\n\nTo go back a release, run make rollback.\n")
    assert person.give("notes", "add", "notes").startswith("watching notes · namespace default")
    shown = wait_for(person, "rollback", "make")
    assert "notes/deploy.md:5 · Deploy › Rollback\n" in shown  # no date: that of the file is no event
    page.write_text("# Deploy\n\n## Rollback\n\nA line more.\nTo go back a release, call Quetzal.\n")
    assert "notes/deploy.md:" in wait_for(person, "quetzal", "Quetzal")
    person.environ["EDITOR"] = "echo"
    assert person.give("open", "1") == f"{page}\n"  # echo is no editor of which it is known how to tell it a line
    person.environ["EDITOR"] = f"{person.home / 'code'}"
    (person.home / "code").write_text('#!/bin/sh\necho "$@"\n')
    (person.home / "code").chmod(0o700)
    assert person.give("open", "1") in (f"--goto {page}:5\n", f"--goto {page}:6\n")
    assert person.give("notes", "rm", "notes").startswith("no longer watching notes: 1 memory moved to the trash")
    assert page.exists()
    assert person.give("notes", "status") == ""


def wait_for(person: Person, query: str, word: str) -> str:
    deadline = time.monotonic() + SEEN_SECONDS_MAX
    while time.monotonic() < deadline:
        done = subprocess.run([*COMMAND, "search", query], capture_output=True, text=True, env=person.environ,
                              cwd=person.home)  # fmt: skip
        if word in done.stdout:
            return done.stdout
        time.sleep(0.1)
    raise AssertionError(f"{query} is not found: {done.stdout}{done.stderr}")


def test_the_doctor_finds_nothing_broken_in_a_new_home(person: Person) -> None:
    person.give("up")
    checks = {check["name"]: check for check in person.answer("doctor")["checks"]}
    assert not [check for check in checks.values() if check["outcome"] == "fail"]
    assert checks["round trip"]["outcome"] == "ok"
    assert checks["model"]["fix"] == "mnemo models pull all-MiniLM-L6-v2"


def test_the_doctor_leaves_one_memory_however_often_it_is_asked_and_nothing_in_your_own_trash(
    newcomer: Person,
) -> None:
    newcomer.give("up")
    for _ in range(3):
        checks = {check["name"]: check for check in newcomer.answer("doctor")["checks"]}
        assert checks["round trip"]["found"].endswith("in namespace doctor, and moved to its trash")
    assert newcomer.answer("trash")["memories"] == []
    assert newcomer.answer("status")["trash"]["count"] == 1
    assert len(newcomer.answer("trash", "-n", "doctor")["memories"]) == 1


def test_every_reading_command_answers_in_words_and_in_json(person: Person) -> None:
    person.give("add", "The spare key is with Ines.")
    for words in (["status"], ["config"], ["models", "list"], ["notes", "status"], ["trash"], ["reindex", "--stats"],
                  ["context", "key"], ["search", "key"], ["recall", "key"]):  # fmt: skip
        assert isinstance(person.answer(*words), dict), words
        person.give(*words)
    assert person.give("context", "key").startswith("<memory>")


def test_bad_values_are_refused_in_the_daemons_words(person: Person) -> None:
    person.give("add", "x" * 8193, code=2)
    assert "8192" in person.messages
    person.give("add", "x", "--importance", "7", code=2)
    assert "importance" in person.messages
    person.give("show", "00000000", code=3)
    person.give("add", "x", "-n", "*", code=2)
    person.give("recall", "x", "--since", "yesterweek", code=2)
    assert "since" in person.messages or "yesterweek" in person.messages


def test_an_agent_speaks_through_the_bridge_and_is_known_as_one(person: Person) -> None:
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}

    def call(name: str, **arguments: str) -> str:
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        greeted, called = map(
            json.loads, person.give("mcp", typed=f"{json.dumps(hello)}\n{json.dumps(asked)}\n").split("\n", 1)
        )
        assert greeted["result"]["protocolVersion"] == "2025-11-25"
        return str(called["result"]["content"][0]["text"])

    kept = call("memory_remember", content="The build takes nine minutes.")
    found = call("memory_recall", query="how long does the build take")
    assert (kept[:8], found.split("\n")[-1]) == ("stored: ", "  The build takes nine minutes.")
    memory = person.answer("show", memory_ids(found)[0])
    assert (memory["agent_id"], memory["source"], memory["trust"]) == ("tester", "mcp", "agent")


def test_a_command_starts_the_daemon_privately_and_down_stops_it(newcomer: Person) -> None:
    newcomer.give("status", code=4)
    newcomer.give("add", "First words.")
    data = newcomer.home / "data"
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "run" / "mnemo.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE((data / "run" / "mnemod.log").stat().st_mode) == 0o600
    pid = newcomer.answer("status")["pid"]
    assert newcomer.give("up").startswith("the daemon already runs")
    assert newcomer.give("down") == "the daemon has stopped\n"
    assert has_ended(pid)
    newcomer.give("status", code=4)
    assert "First *words*." in newcomer.give("search", "words")  # a new daemon, the same memory


def test_commands_that_all_start_the_daemon_at_once_meet_the_same_one(newcomer: Person) -> None:
    running = [
        subprocess.Popen([*COMMAND, "add", f"thought number {number}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env=newcomer.environ, cwd=newcomer.home)
        for number in range(4)
    ]  # fmt: skip
    for process in running:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert out.startswith(b"remembered")
    assert newcomer.answer("status")["memories"] == 4


def test_a_daemon_that_cannot_start_says_why_in_the_commands_own_message(newcomer: Person) -> None:
    config = newcomer.home / "wrong.toml"
    config.write_text("[client]\nproject_namespace = true\n")
    newcomer.environ["MNEMO_CONFIG"] = str(config)
    newcomer.give("recall", "x", code=4)
    assert "project_namespaces" in newcomer.messages
    assert "see every wrong setting: mnemo config" in newcomer.messages
    newcomer.give("status", code=4)
    assert "there is no key `project_namespace` in [client]" in newcomer.messages
    assert "see every wrong setting: mnemo config" in newcomer.messages
    newcomer.give("check", code=1)
    assert "see every wrong setting: mnemo config" in newcomer.messages
    del newcomer.environ["MNEMO_CONFIG"]


def test_config_lists_every_setting_and_what_is_wrong_where_the_daemon_cannot_start(newcomer: Person) -> None:
    config = newcomer.home / "wrong.toml"
    config.write_text("[recall]\ntop_k = 'many'\ncut = 'gap'\n[nets]\nx = 1\n")
    newcomer.environ["MNEMO_CONFIG"] = str(config)
    listed = newcomer.give("config", code=1)
    assert [line.split() for line in listed.splitlines() if line.startswith("recall.")][:4] == [
        ["recall.ranker", '"auto"', "default"], ["recall.top_k", "5", "default"],
        ["recall.token_budget", "2000", "default"], ["recall.cut", '"gap"', "wrong.toml:3"],
    ]  # fmt: skip
    assert f"{config}:2: recall.top_k must be a whole number from 1 to 100, not 'many'" in newcomer.messages
    assert f"{config}:4: there is no section [nets]" in newcomer.messages
    assert newcomer.give("config", "recall.cut", code=1) == "gap\n"
    config.write_text("[recall\n")
    assert "recall.cut" in newcomer.give("config", code=1)
    assert "this is not TOML" in newcomer.messages
    del newcomer.environ["MNEMO_CONFIG"]


def test_a_daemon_that_runs_can_be_asked_and_stopped_while_its_settings_are_damaged(newcomer: Person) -> None:
    newcomer.give("up")
    (newcomer.home / "config.toml").write_text("[recall\n")
    newcomer.environ["MNEMO_CONFIG"] = str(newcomer.home / "config.toml")
    assert newcomer.give("up").startswith("the daemon already runs")
    assert "mnemod" in newcomer.give("status")
    assert "recall.top_k" in newcomer.give("config", code=1)
    assert "config.toml:1: this is not TOML" in newcomer.messages
    assert newcomer.give("config", "recall.top_k", code=1) == "5\n"
    assert newcomer.give("down") == "the daemon has stopped\n"
    del newcomer.environ["MNEMO_CONFIG"]


def test_up_starts_the_daemon_even_when_commands_may_not(newcomer: Person) -> None:
    newcomer.environ["MNEMO_AUTOSTART"] = "off"
    newcomer.give("recall", "x", code=4)
    assert "MNEMO_AUTOSTART is off" in newcomer.messages
    assert newcomer.give("up").startswith("the daemon started")
    newcomer.give("recall", "x", code=3)


def service_files(person: Person) -> list[Path]:
    return sorted(path for path in (person.home / ".config").rglob("*") if not path.is_dir() or path.is_symlink())


def test_a_service_that_cannot_be_started_leaves_nothing(newcomer: Person) -> None:
    newcomer.environ["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={newcomer.home / 'no-bus'}"
    newcomer.give("service", "install", code=1)
    assert newcomer.messages.startswith("mnemo: nothing was installed: ")
    assert "until then: mnemo up" in newcomer.messages
    assert service_files(newcomer) == []
    replace_systemctl(newcomer, 'case "$*" in *enable*) echo "no such unit" >&2; exit 1;; esac')
    newcomer.give("service", "install", code=1)
    assert "enable --now mnemod.socket mnemod.service` failed: no such unit" in newcomer.messages
    assert service_files(newcomer) == []


def test_a_service_is_uninstalled_also_where_systemd_cannot_be_reached(newcomer: Person) -> None:
    replace_systemctl(newcomer, "")
    said = newcomer.give("service", "install")
    units = newcomer.home / ".config" / "systemd" / "user"
    assert said == f"the daemon now starts with your session\n  {units}/mnemod.service\n  {units}/mnemod.socket\n"
    (units / "default.target.wants").mkdir()
    (units / "default.target.wants" / "mnemod.service").symlink_to(units / "mnemod.service")
    replace_systemctl(newcomer, "echo no bus >&2; exit 1")
    assert newcomer.give("service", "uninstall").startswith("the service was removed")
    assert "disable --now mnemod.socket mnemod.service` failed: no bus" in newcomer.messages
    assert service_files(newcomer) == []
    assert newcomer.give("service", "uninstall") == "no service was installed\n"


def replace_systemctl(person: Person, script: str) -> None:
    """A systemctl that does what a broken or a willing one would."""
    programs = person.home / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "systemctl").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "systemctl").chmod(0o700)
    person.environ["PATH"] = f"{programs}:{os.environ['PATH']}"


def test_init_writes_a_configuration_to_begin_with_and_says_what_is_next(newcomer: Person) -> None:
    (newcomer.home / "vault").mkdir()
    said = newcomer.give("init", "vault")
    assert (newcomer.home / ".config" / "mnemo" / "config.toml").is_file()
    assert "watching vault" in said
    assert "mnemo models pull all-MiniLM-L6-v2" in said
    assert "mnemo notes add" not in said
    again = newcomer.give("init", "vault")  # is no mistake
    assert again.startswith("ready")
    assert len(newcomer.answer("notes")["roots"]) == 1


def test_a_trial_answers_from_the_folders_own_text_and_leaves_nothing(newcomer: Person) -> None:
    notes_folder = newcomer.home / "vault"
    notes_folder.mkdir()
    (notes_folder / "garden.md").write_text(
        "# Garden\n\n## Pruning apple trees\n\nPrune in late winter, before buds swell.\n"
    )
    scratch = newcomer.home / "tmp"
    scratch.mkdir()
    newcomer.environ["TMPDIR"] = str(scratch)
    said = newcomer.give("try", "vault")
    assert "? prune winter before  (from garden.md)" in said
    assert "1 of 1: the first hit is in the note that the question was made of" in said
    assert "vault/garden.md:5 · Garden › Pruning apple trees" in said
    assert "mnemo init vault" in said
    assert "mnemo models pull all-MiniLM-L6-v2" in newcomer.messages
    assert list(scratch.iterdir()) == []
    assert not (newcomer.home / "data").exists()


def test_a_trial_uses_the_models_of_the_cache_folder_or_of_the_one_that_is_configured(
    newcomer: Person, minilm_folder: Path
) -> None:
    notes_folder = newcomer.home / "vault"
    notes_folder.mkdir()
    (notes_folder / "garden.md").write_text(
        "# Garden\n\n## Pruning apple trees\n\nPrune in late winter, before buds swell.\n"
    )
    (notes_folder / "week.md").write_text("Friday, Monday and Thursday.\n")
    del newcomer.environ["MNEMO_MODELS_FOLDER"]
    cache = newcomer.home / ".cache" / "mnemo" / "models"
    cache.mkdir(parents=True)
    (cache / DEFAULT_EMBEDDING).symlink_to(minilm_folder / DEFAULT_EMBEDDING)
    by_meaning = newcomer.give("try", "vault").partition("By meaning and by words")[2]
    assert "? friday monday thursday" in by_meaning
    assert "not in this time" not in by_meaning  # words that are drawn from a passage name no time
    cache.rename(newcomer.home / "mine")
    config = newcomer.home / ".config" / "mnemo" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[models]\nfolder = "{newcomer.home / "mine"}"\n')
    assert "By meaning and by words" in newcomer.give("try", "vault")


def test_control_c_ends_with_130_and_a_reader_that_leaves_early_hears_no_complaint(person: Person) -> None:
    person.give("up")
    watching = subprocess.Popen([*COMMAND, "status", "--watch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=person.environ)  # fmt: skip
    assert watching.stdout is not None
    assert watching.stdout.readline().startswith(b"mnemod ")
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=SECONDS_MAX)
    assert (watching.returncode, err) == (130, b"")
    leaving = subprocess.Popen([*COMMAND, "status", "--watch", "--json"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=person.environ)  # fmt: skip
    assert leaving.stdout is not None
    leaving.stdout.readline()
    leaving.stdout.close()
    assert leaving.wait(SECONDS_MAX) == 141
    assert leaving.stderr is not None
    assert leaving.stderr.read() == b""
    leaving.stderr.close()


def test_a_model_that_cannot_be_installed_is_reported_in_plain_words(newcomer: Person) -> None:
    newcomer.give("models", "pull", "no-such-model", code=1)
    assert "no-such-model" in newcomer.messages
    newcomer.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"  # nobody is there
    newcomer.give("models", "pull", "BAAI/bge-large-en-v1.5", "--allow-unverified", code=1)
    assert "could not be fetched from http://127.0.0.1:9/Qdrant/bge-large-en-v1.5-onnx/tree/" in newcomer.messages
    (newcomer.home / "empty").mkdir()
    newcomer.give("models", "import", "empty", code=1)
    assert newcomer.messages.startswith("mnemo: ")
    newcomer.give("models", "import", "not-there", code=2)


def test_a_model_that_is_imported_is_taken_up_by_the_daemon_that_runs(newcomer: Person, minilm_source: Path) -> None:
    newcomer.give("add", "The spare key is with Ines.")
    said = newcomer.give("models", "import", str(minilm_source))
    assert said.startswith("all-MiniLM-L6-v2 is installed (its hash was verified)")
    deadline = time.monotonic() + 60
    while newcomer.answer("status")["views"]["vectors"]["items"] < 1 or newcomer.answer("recall", "key")["degraded"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert "The spare" in newcomer.give("recall", "who can open the door", "--cut", "none")


def test_a_daemon_that_cannot_open_its_store_says_why_at_every_command(newcomer: Person) -> None:
    newcomer.give("add", "The tank holds 90 litres.")
    newcomer.give("down")
    data = newcomer.home / "data"
    for path in (*(data / "journal").iterdir(), data / "db" / "data.mdb"):
        path.write_bytes(b"nothing that a store has\n" * 1000)
    for words in 2 * (["recall", "tank"], ["add", "More."], ["up"]):
        command = newcomer.begin(*words)
        _, said = command.communicate(timeout=60)
        assert command.returncode in (1, 4)
        assert "fails verification" in said  # whether it ends before the request, during it or after it
    [integrity] = [each for each in newcomer.answer("doctor", code=1)["checks"] if each["name"] == "integrity"]
    assert integrity["outcome"] == "fail"
    assert "database" in integrity["found"]


def test_the_end_of_a_daemon_that_had_answered_has_its_reason(newcomer: Person) -> None:
    newcomer.give("add", "The tank holds 90 litres.")
    newcomer.give("down")
    for path in (newcomer.home / "data").rglob("*.mdb"):
        path.write_bytes(b"nothing that a store has\n" * 1000)
    shutil.rmtree(newcomer.home / "data" / "journal")
    said = ""
    for _ in range(20):
        try:
            start(newcomer.environ, socket_path(newcomer.environ), lambda _: None)
        except StartError:  # it had ended before its first answer
            continue
        said = with_reason(UnreachableError("no daemon listens")).message
        break
    assert said.startswith("the daemon ended at once with code 1; its output:")
    assert "fails verification" in said
