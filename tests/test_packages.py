"""The packages of a release: wheel, source distribution, Debian package, Homebrew formula, manual pages. SPEC 14, 15"""

import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from mnemo_client.cli.command_table import all_commands
from tests.support.packaging_scripts import PACKAGING, load_script

ROOT = PACKAGING.parent
SHARED = (
    "man/man1/mnemo.1", "man/man1/mnemod.1", "bash-completion/completions/mnemo", "zsh/site-functions/_mnemo",
    "fish/vendor_completions.d/mnemo.fish", "mnemo/systemd/mnemod.service", "mnemo/systemd/mnemod.socket",
    "mnemo/nvim/plugin/mnemo.lua", "mnemo/emacs/mnemo.el",
)  # fmt: skip


def built(project: Path, folder: Path, kind: str) -> Path:
    words = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(words, cwd=project, check=True, capture_output=True)
    (file,) = folder.glob("mnemod-*.whl" if kind == "wheel" else "mnemod-*.tar.gz")
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("RECORD")}


def test_a_wheel_made_of_the_source_distribution_is_that_of_the_working_copy(wheel: Path, tmp_path: Path) -> None:
    sdist = built(ROOT, tmp_path / "sdist", "sdist")
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
        archive.extractall(tmp_path, filter="data")
    assert not [name for name in names if ("/tests/" in name and "/clients/" not in name) or "node_modules" in name]
    (project,) = tmp_path.glob("mnemod-*/")
    assert contents(built(project, tmp_path / "wheel", "wheel")) == contents(wheel)


def test_an_installed_wheel_runs_and_brings_what_shells_editors_and_the_service_read(
    wheel: Path, tmp_path: Path
) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    python = venv / "bin" / "python"
    words = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*words, "--disable-pip-version-check", str(wheel)], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # those of this environment
    assert [each for each in SHARED if not (venv / "share" / each).is_file()] == []
    environ = {"HOME": str(tmp_path), "PATH": f"{venv / 'bin'}:/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path)}

    def mnemo(*words: str) -> str:
        ended = subprocess.run(
            ["mnemo", *words], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    try:
        mnemo("add", "The spare key is with Ines.")
        assert "Ines" in mnemo("search", "spare", "key")
        shown = mnemo("api", "GET", "/v1/status")
        assert str(tmp_path) in shown
    finally:
        mnemo("down")
    # The daemon that answered was that of the wheel, and no module came from the working copy.
    statement = "import mnemo_daemon, mnemo_core; print(mnemo_daemon.__file__, mnemo_core.__file__)"
    found = subprocess.run([python, "-c", statement], capture_output=True, text=True, check=True).stdout.split()
    assert all(each.startswith(str(venv)) for each in found)


def test_the_manual_page_has_every_command_and_no_line_that_roff_would_take_for_a_request() -> None:
    text = load_script("man_page").command_page()
    headings = {line.split("\\fI")[0].strip() for line in text.splitlines() if line.startswith(".SS mnemo")}
    assert headings == {".SS mnemo " + " ".join(name).replace("-", "\\-") for name, _ in all_commands()}
    requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".BR", ".I", ".EX", ".EE"}


@pytest.mark.parametrize(
    ("text", "expected"), [(".x -y", "\\&.x \\-y"), ("a\\b", "a\\eb"), ("'t", "\\&'t"), ("a…", "a...")]
)
def test_text_in_a_manual_page_is_printed_as_it_is_given(text: str, expected: str) -> None:
    assert load_script("man_page").roff(text) == expected


def test_the_debian_package_has_programs_pages_completions_and_units_and_no_file_of_another_owner(
    tmp_path: Path,
) -> None:
    payload = tmp_path / "payload"
    (payload / "somelibrary").mkdir(parents=True)
    (payload / "somelibrary" / "__init__.py").write_text("")
    words = [sys.executable, str(PACKAGING / "debian.py"), "--payload", str(payload), "--to", str(tmp_path)]
    subprocess.run([*words, "--compression", "none"], check=True, capture_output=True)
    (package,) = tmp_path.glob("mnemod_*.deb")
    listing = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=5) for line in listing.splitlines()]
    assert {row[1] for row in rows} == {"root/root"}
    places = {row[5].split(" -> ")[0] for row in rows}
    assert {
        "./usr/bin/mnemo", "./usr/bin/mnemod", "./usr/share/man/man1/mnemo.1.gz", "./usr/lib/mnemod/bin/python",
        "./usr/share/bash-completion/completions/mnemo", "./usr/share/zsh/vendor-completions/_mnemo",
        "./usr/lib/systemd/user/mnemod.socket", "./usr/lib/mnemod/share/mnemo/nvim/plugin/mnemo.lua",
    } <= places  # fmt: skip
    subprocess.run(["dpkg-deb", "-x", package, tmp_path / "root"], check=True)
    unit = (tmp_path / "root/usr/lib/systemd/user/mnemod.service").read_text()
    assert re.findall("^ExecStart=(.*)$", unit, re.MULTILINE) == ["/usr/bin/mnemod"]
    (found,) = (tmp_path / "root/usr/lib/mnemod/lib").glob("python*/site-packages")
    assert {"somelibrary", "mnemo_client", "mnemo_daemon", "mnemo_core", "mnemo_store"} <= {
        each.name for each in found.iterdir()
    }
    program = (tmp_path / "root/usr/lib/mnemod/bin/mnemo").read_text()
    assert program.startswith("#!/usr/lib/mnemod/bin/python\n")


def test_the_homebrew_formula_names_the_checksum_of_the_source_distribution() -> None:
    homebrew = load_script("homebrew")
    text = homebrew.formula("https://example.org/mnemod/mnemod-0.1.0.tar.gz", b"abc")
    # sha256 of "abc", from FIPS 180-2
    assert "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" in text
    assert 'url "https://example.org/mnemod/mnemod-0.1.0.tar.gz"' in text
    assert text.count("do\n") + text.count("def ") + 1 == len(re.findall(r"^ *end$", text, re.MULTILINE))
    with pytest.raises(ValueError, match="must be https"):
        homebrew.formula("http://example.org/x.tar.gz", b"")
