"""`make test` provides the programs that the tests of the clients need, or ends with the command that does."""

import os
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.packaging_scripts import load_script

EVERY_PROGRAM = ("chromedriver", "chromium", "nvim", "emacs", "strace", "syncthing", "systemd-socket-activate", "npm")
APT_GET = """
echo "apt-get $*" >>{log}
case "$*" in
  *update*) echo >{lists} ;;
  *install*) [ -e {lists} ] || exit 100
    case "$*" in *neovim*) echo "#!/bin/sh" >{bin}/nvim; {chmod} +x {bin}/nvim ;; esac ;;
esac
"""
NPM = """
echo "npm $*" >>{log}
[ -e {broken} ] && exit 1
{mkdir} -p node_modules/.bin && echo >node_modules/.bin/tsc
"""


class ScriptedMachine:
    """A machine whose PATH leads to one folder of small scripts; they write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.log = folder / "calls.log"
        self.lists = folder / "lists"
        self.npm_breaks = folder / "broken"
        self.project = folder / "project"
        (self.project / "clients" / "vscode").mkdir(parents=True)
        self.lock_file = self.project / "clients" / "vscode" / "package-lock.json"
        self.lock_file.write_text("{}")
        self.has(*EVERY_PROGRAM)
        self.write("node", "echo v20.1.0")
        self.write("npm", NPM.format(log=self.log, broken=self.npm_breaks, mkdir="/bin/mkdir"))

    def write(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def has(self, *names: str) -> None:
        for name in names:
            self.write(name, "exit 0")

    def lacks(self, *names: str) -> None:
        for name in names:
            (self.bin / name).unlink()

    def has_apt_get(self) -> None:
        self.write("apt-get", APT_GET.format(log=self.log, lists=self.lists, bin=self.bin, chmod="/bin/chmod"))

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture(scope="module")
def programs() -> ModuleType:
    return load_script("programs")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedMachine:
    fake = ScriptedMachine(tmp_path)
    monkeypatch.setenv("PATH", str(fake.bin))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return fake


def test_the_compiler_is_installed_once_and_again_when_its_lock_file_changes(
    programs: ModuleType, machine: ScriptedMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert programs.main(machine.project) == 0
    assert [call.split()[:2] for call in machine.calls()] == [["npm", "ci"]]
    assert "TypeScript" in capsys.readouterr().err
    assert programs.main(machine.project) == 0
    assert len(machine.calls()) == 1
    assert capsys.readouterr().err == ""
    machine.lock_file.write_text('{"lockfileVersion": 3}')
    assert programs.main(machine.project) == 0
    assert len(machine.calls()) == 2


def test_an_installation_of_the_compiler_that_failed_is_reported_and_done_again(
    programs: ModuleType, machine: ScriptedMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.npm_breaks.touch()
    assert programs.main(machine.project) == 1
    assert "npm ci" in capsys.readouterr().err
    machine.npm_breaks.unlink()
    assert programs.main(machine.project) == 0
    assert len(machine.calls()) == 2


def test_root_has_the_missing_programs_installed_and_the_lists_fetched_first_if_needed(
    programs: ModuleType, machine: ScriptedMachine
) -> None:
    machine.has_apt_get()
    machine.lacks("nvim")
    assert programs.main(machine.project) == 0
    first, second, third, _npm = machine.calls()
    assert first.endswith("install -y --no-install-recommends neovim")
    assert second.endswith("update")
    assert third == first

    machine.lacks("nvim")
    assert programs.main(machine.project) == 0
    assert machine.calls()[4:] == [first]


def test_a_program_that_the_package_does_not_bring_is_reported(
    programs: ModuleType, machine: ScriptedMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.has_apt_get()
    machine.lacks("emacs")
    assert programs.main(machine.project) == 1
    assert "emacs missing" in capsys.readouterr().err


def test_another_user_gets_the_exact_command(
    programs: ModuleType, machine: ScriptedMachine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    machine.has_apt_get()
    machine.lacks("emacs", "strace")
    assert programs.main(machine.project) == 1
    assert "sudo apt-get install -y --no-install-recommends emacs-nox strace" in capsys.readouterr().err
    assert machine.calls() == []


def test_a_machine_without_apt_get_is_given_the_names_of_the_programs(
    programs: ModuleType, machine: ScriptedMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.lacks("nvim")
    assert programs.main(machine.project) == 1
    assert "install nvim" in capsys.readouterr().err


def test_strace_is_not_asked_for_where_it_does_not_exist(
    programs: ModuleType, machine: ScriptedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs.sys, "platform", "darwin")
    machine.lacks("strace")
    assert programs.missing_programs() == []


@pytest.mark.parametrize(
    ("name", "script", "report"),
    [
        ("node", None, "node is missing"),
        ("npm", None, "npm is missing"),
        ("node", "echo v18.20.4", "node is v18.20.4: install Node.js 20 or newer"),
        ("node", "exit 1", "node is broken"),
    ],
)
def test_a_node_that_is_missing_or_too_old_is_reported(
    programs: ModuleType, machine: ScriptedMachine, capsys: pytest.CaptureFixture[str], name: str, script: str | None,
    report: str,
) -> None:  # fmt: skip
    if script is None:
        machine.lacks(name)
    else:
        machine.write(name, script)
    assert programs.main(machine.project) == 1
    assert report in capsys.readouterr().err


def test_the_lock_file_pins_every_package_and_names_no_registry() -> None:
    folder = Path(__file__).resolve().parent.parent / "clients" / "vscode"
    text = (folder / "package-lock.json").read_text()
    assert "://" not in text
    assert text.count('"integrity": "sha512-') == text.count('"node_modules/') > 3
