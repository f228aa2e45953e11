"""Installation by a user: from wheels alone, and not too much; and `make` leaves a working .venv whatever it finds."""

import importlib.metadata as metadata
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.packaging_scripts import load_script

ROOT = Path(__file__).resolve().parent.parent
CORE_BYTES_MAX = 350 * 1000 * 1000
"""Of the core's dependencies together; a person on a laptop installs a memory, not a machine-learning framework."""


@pytest.fixture(scope="module")
def environment() -> ModuleType:
    return load_script("environment")


def core_distributions() -> dict[str, metadata.Distribution]:
    """Every distribution that the core needs, directly or not, without any extra of ours; by name."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [("mnemod", frozenset[str]())]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        distribution = metadata.distribution(name)
        if name != "mnemod":
            found[name] = distribution
        for line in distribution.requires or ():
            needed = Requirement(line)
            if needed.marker and not any(needed.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
                continue
            entry = (canonicalize_name(needed.name), frozenset(needed.extras))
            if entry not in seen:
                seen.add(entry)
                waiting.append(entry)
    return found


def installed_bytes(distribution: metadata.Distribution) -> int:
    """The bytes that its wheel brought, without the bytecode that Python makes of it later."""
    files = [Path(str(file.locate())) for file in distribution.files or () if file.suffix != ".pyc"]
    return sum(file.stat().st_size for file in files if file.is_file())


def platforms(distribution: metadata.Distribution) -> Iterator[str]:
    """The platforms that the installed wheel says it was built for; `linux_…` means: here, by a compiler."""
    for line in (distribution.read_text("WHEEL") or "").splitlines():
        if line.startswith("Tag: "):
            yield line.rpartition("-")[2]


def test_the_core_and_all_it_needs_is_at_most_350_mb(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {name: installed_bytes(each) for name, each in core_distributions().items()}
    total = sum(sizes.values())
    largest = sorted(sizes, key=lambda name: -sizes[name])[:5]
    parts = ", ".join(f"{name} {sizes[name] / 1e6:.0f}" for name in largest)
    said = f"installed size of the core: {total / 1e6:.0f} MB of {CORE_BYTES_MAX / 1e6:.0f}, {len(sizes)} packages"
    with capsys.disabled():
        print(f"\n{said} ({parts})")
    assert all(sizes.values()), f"no files are recorded for {[name for name, size in sizes.items() if not size]}"
    assert total <= CORE_BYTES_MAX


def test_the_page_for_contributors_says_what_each_package_is_for_and_how_large_it_is() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    rows = dict(re.findall(r"^\| ([a-z, -]+) \| (\d+) \| .+ \|$", page, re.MULTILINE))
    reported = {names: int(size) for names, size in rows.items() if "," not in names}
    named = {name for names in rows for name in names.split(", ")}
    core = core_distributions()
    direct = {canonicalize_name(Requirement(line).name) for line in metadata.distribution("mnemod").requires or ()
              if "extra" not in line}  # fmt: skip
    assert direct == named
    wrong = [name for name, size in reported.items() if abs(installed_bytes(core[name]) / 1e6 - size) > 1 + size / 4]
    assert wrong == []


def test_everything_the_core_needs_came_as_a_wheel_from_the_index() -> None:
    compiled = [
        name
        for name, distribution in core_distributions().items()
        if any(platform.startswith("linux_") for platform in platforms(distribution))
    ]
    assert not compiled, f"compiled on this machine, as they have no wheel for it: {compiled}"


def test_compiled_packages_are_distinguished_from_others() -> None:
    assert list(platforms(metadata.distribution("llama-cpp-python"))) == ["linux_x86_64"] or sys.platform != "linux"
    assert list(platforms(metadata.distribution("idna"))) == ["any"]


def test_the_extras_are_no_part_of_the_core() -> None:
    core = core_distributions()
    assert not {"llama-cpp-python", "mcp", "pypdf", "rjieba", "pytest", "mypy", "torch"} & core.keys()
    assert {"lmdb", "usearch", "onnxruntime", "aiohttp"} <= core.keys()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that cannot be installed, in a folder with a space in its name."""
    folder = tmp_path_factory.mktemp("a project")
    (folder / "pyproject.toml").write_text("[build-system]\nrequires = []\nbuild-backend = 'no_such_backend'\n")
    return folder


def test_a_broken_environment_is_made_again_and_a_good_one_is_kept(
    environment: ModuleType, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    venv = project / ".venv"
    python = environment.python_of(venv)
    python.parent.mkdir(parents=True)
    python.write_text("no program")
    assert not environment.runs(venv, "import sys")
    environment.make_environment(venv)
    assert environment.runs(venv, "import pip")
    assert "broken" in capsys.readouterr().err

    kept = venv / "kept"
    kept.touch()
    environment.make_environment(venv)
    assert kept.exists()


def test_a_stamp_without_the_packages_does_not_count(environment: ModuleType, project: Path) -> None:
    environment.write_stamp(project, "dev")
    assert not environment.is_ready(project, "dev")


def test_a_failed_installation_is_reported_and_leaves_no_stamp(
    environment: ModuleType, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    environment.write_stamp(project, "core")
    assert environment.main(["core"], project) == 1
    assert "this failed with exit code" in capsys.readouterr().err
    assert not environment.stamp(project, "core").exists()


def test_an_installation_is_done_again_when_what_it_depends_on_has_changed(
    environment: ModuleType, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "pyproject.toml").write_text("[project]\n")
    first = environment.fingerprint(one)
    assert environment.fingerprint(one) == first
    assert environment.fingerprint(other) != first
    (one / "pyproject.toml").write_text("[project]\ndependencies = []\n")
    assert environment.fingerprint(one) != first


def test_a_python_that_is_too_old_is_refused_with_the_version_that_is_needed(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18))
    assert environment.main(["core"]) == 1
    assert "needs Python 3.11 or newer" in capsys.readouterr().err


def test_the_wheel_holds_the_word_lists_and_the_clients_of_editors(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    lists = {path.relative_to(ROOT / "daemon").as_posix() for path in (ROOT / "daemon").rglob("lexicon/*.txt")}
    assert len(lists) > 5
    plugin = {"nvim/plugin/mnemo.lua", "nvim/lua/mnemo/init.lua", "nvim/lua/mnemo/http.lua", "nvim/doc/mnemo.txt"}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert lists <= names
    shared = {name.partition(".data/data/share/mnemo/")[2] for name in names}
    assert plugin | {"emacs/mnemo.el"} <= shared
    assert not [name for name in shared if "test" in name]
