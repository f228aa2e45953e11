"""The client and the extension of clients/vscode, compiled and run by Node against a real daemon.

The tests themselves are in clients/vscode/test; each is run here in one process, with what it needs in the environment.
"""

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from mnemo_client.errors import SocketPathError, UsageError
from mnemo_client.namespace import choose_namespace
from mnemo_client.paths import socket_path
from tests.support.golden_transcripts import ReplayServer
from tests.support.running_daemon import RunningDaemon

PROJECT = Path(__file__).resolve().parents[2]
FOLDER = PROJECT / "clients" / "vscode"
PROTOCOL_MODULES = ("ingestion", "memories", "retrieval", "status")
INTERFACE = re.compile(r"^export interface (\w+)(?: extends (\w+))? \{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
FIELD = re.compile(r"^  readonly (\w+)\??:", re.MULTILINE)
# A variable and its value; what is not named is not set.
PLACES: tuple[dict[str, str], ...] = (
    {"HOME": "/h"},
    {"HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/1"},
    {"HOME": "/h", "XDG_RUNTIME_DIR": "relative"},
    {"HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/1", "MNEMO_DATA_DIR": "/d"},
    {"HOME": "/h", "MNEMO_DATA_DIR": "/d/../e"},
    {"HOME": "/h", "XDG_DATA_HOME": "/x"},
    {"HOME": "/h", "XDG_DATA_HOME": "x", "MNEMO_SOCKET": ""},
    {"HOME": "/h", "MNEMO_SOCKET": "/s.sock", "MNEMO_DATA_DIR": "/d"},
    {"HOME": "/h", "MNEMO_SOCKET": "/" + "ä" * 53},
    {"HOME": "/h", "MNEMO_SOCKET": "/" + "ä" * 53 + "x"},
    {"HOME": "/h", "XDG_RUNTIME_DIR": "/" + "r" * 95},
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled client, extension and tests. The compiler checks the types of all of them."""
    folder = tmp_path_factory.mktemp("vscode")
    compiler = FOLDER / "node_modules" / ".bin" / "tsc"
    assert compiler.exists(), "run first: python packaging/programs.py"
    done = subprocess.run(
        [compiler, "--project", FOLDER, "--outDir", folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return folder


def run_node_tests(compiled: Path, name: str, environ: Mapping[str, str]) -> None:
    """Run a file of tests; all of them must pass, and none may be left out."""
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap", compiled / "test" / f"{name}.test.js"],
        env={**os.environ, "NODE_PATH": str(compiled / "test"), **environ},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    totals = dict(re.findall(r"^# (tests|pass|fail|skipped|todo|cancelled) (\d+)$", done.stdout, re.MULTILINE))
    assert done.returncode == 0, done.stdout + done.stderr
    written = len(re.findall(r"^test\(", (FOLDER / "test" / f"{name}.test.ts").read_text(), re.MULTILINE))
    assert (int(totals["pass"]), int(totals["tests"])) == (written, written), done.stdout


def test_the_client_works_with_a_real_daemon(compiled: Path, daemon: RunningDaemon) -> None:
    command = str(Path(sys.executable).parent / "mnemo")
    run_node_tests(compiled, "client", {**daemon.environ, "MNEMO_COMMAND": command})


def test_the_extension_works_with_a_real_daemon(compiled: Path, daemon: RunningDaemon) -> None:
    run_node_tests(compiled, "extension", {**daemon.environ, "MNEMO_MANIFEST": str(FOLDER / "package.json")})


def test_the_client_replays_the_golden_transcripts(compiled: Path, replay_server: ReplayServer) -> None:
    run_node_tests(compiled, "replay", replay_server.environ)
    assert replay_server.undocumented == replay_server.unasked() == []


def test_the_socket_path_is_found_by_the_same_rules_as_in_python(compiled: Path) -> None:
    script = """
        const { socketPath } = require(process.argv[1]);
        const found = (environ) => { try { return socketPath(environ); } catch (error) { return error.name; } };
        console.log(JSON.stringify(JSON.parse(process.argv[2]).map(found)));
    """
    done = subprocess.run(
        ["node", "-e", script, compiled / "src" / "places.js", json.dumps(PLACES)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = []
    for environ in PLACES:
        try:
            expected.append(os.path.normpath(socket_path(environ)))
        except SocketPathError as error:
            expected.append(type(error).__name__)
    assert json.loads(done.stdout) == expected
    assert expected.count("SocketPathError") == 2


def test_the_namespace_of_a_folder_is_found_by_the_same_rules_as_in_python(compiled: Path, tmp_path: Path) -> None:
    on = {"MNEMO_CLIENT_PROJECT_NAMESPACES": "on"}
    cases = [(str(folder), environ) for folder in project_folders(tmp_path) for environ in ({}, on)]
    cases += [(str(tmp_path), {"MNEMO_CLIENT_PROJECT_NAMESPACES": "perhaps"})]
    cases += [(str(tmp_path / "work" / "tree"), {"MNEMO_CONFIG": str(config)}) for config in tmp_path.glob("*.toml")]
    cases = [(folder, {"HOME": str(tmp_path), **environ}) for folder, environ in cases]
    script = """
        const { folderNamespace } = require(process.argv[1]);
        const found = ([folder, environ]) => {
            try { return folderNamespace(folder, environ) ?? "default"; } catch (error) { return error.name; }
        };
        console.log(JSON.stringify(JSON.parse(process.argv[2]).map(found)));
    """
    done = subprocess.run(
        ["node", "-e", script, compiled / "src" / "namespace.js", json.dumps(cases)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = []
    for folder, environ in cases:
        try:
            expected.append(choose_namespace(None, Path(folder), environ).name)
        except UsageError:
            expected.append("MnemoError")
    assert json.loads(done.stdout) == expected
    assert {"default", "harbour", "häfen", "tree", "MnemoError"} == set(expected)


def project_folders(root: Path) -> list[Path]:
    """Make folders with files that name a namespace, work trees of git, and configuration files; return the folders."""
    files = {
        "a": '# of the port\nnamespace = "harbour"  # here\n',
        "b": "[other]\nnamespace = 'x'\n",
        "c": "namespace = 7\n",
        "d": f'namespace = "{"x" * 65}"\n',
        "e": "namespace = ' häfen '\n[other]\nnamespace = 'x'\n",
        "f": 'namespace = ""\n',
    }
    folders = []
    for name, text in files.items():
        (root / name / "deep").mkdir(parents=True)
        (root / name / ".mnemo.toml").write_text(text)
        folders += [root / name, root / name / "deep"]
    (root / "work" / "tree" / ".git").mkdir(parents=True)
    (root / "work" / "tree" / "src").mkdir()
    (root / "on.toml").write_text("[client]\nproject_namespaces = true\n")
    (root / "off.toml").write_text("[client]\nproject_namespaces = false\n[other]\nproject_namespaces = true\n")
    return [*folders, root / "work", root / "work" / "tree" / "src"]


def test_every_field_that_the_client_declares_is_one_of_the_protocol() -> None:
    text = (FOLDER / "src" / "protocol.ts").read_text()
    modules = [importlib.import_module(f"mnemo_client.protocol.{name}") for name in PROTOCOL_MODULES]
    interfaces = INTERFACE.findall(text)
    assert len(interfaces) == text.count("export interface") > 10
    for name, _base, body in interfaces:
        (wire_type,) = {getattr(module, name) for module in modules if hasattr(module, name)}
        known = {field.encode_name for field in msgspec.structs.fields(wire_type)}
        declared = set(FIELD.findall(body))
        assert declared, name
        assert declared <= known, f"{name} has no {declared - known}"


def test_the_extension_carries_the_licence_and_version_of_the_project() -> None:
    assert (FOLDER / "LICENSE").read_text() == (PROJECT / "LICENSE").read_text()
    manifest = json.loads((FOLDER / "package.json").read_text())
    project = (PROJECT / "pyproject.toml").read_text()
    assert f'\nversion = "{manifest["version"]}"\n' in project
    assert f'\nlicense = "{manifest["license"]}"\n' in project
    assert "dependencies" not in manifest


def test_everything_that_the_extension_names_is_in_its_folder(compiled: Path) -> None:
    manifest = json.loads((FOLDER / "package.json").read_text())
    assert (compiled / Path(manifest["main"]).relative_to("out")).is_file()
    for container in manifest["contributes"]["viewsContainers"]["activitybar"]:
        assert (FOLDER / container["icon"]).is_file()
