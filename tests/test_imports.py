"""Import rules between and within the packages. daemon/docs/adr/0001-layout.md, daemon/docs/adr/0010-core-layers.md

The contracts stand in pyproject.toml and hold transitively; each is shown to be able to fail, on a small tree of the
same packages with one forbidden import after another. What contracts cannot say, "this and nothing else", is read from
the sources below.
"""

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
SOURCES = {
    "mnemo_store": ROOT / "store",
    "mnemo_core": ROOT / "daemon",
    "mnemo_daemon": ROOT / "daemon",
    "mnemo_client": ROOT / "clients",
}

# Of the package on the right, the one on the left may import these modules; of itself everything; of others nothing.
ALLOWED_WITHIN = {
    ("mnemo_core", "mnemo_store"): {"record_texts", "records"},
    ("mnemo_daemon", "mnemo_client"): {"path_safety", "paths", "protocol", "version"},
    ("mnemo_daemon", "mnemo_core"): None,
    ("mnemo_daemon", "mnemo_store"): None,
}  # None: any module
# Packages from outside, beside the standard library; None: whatever pyproject.toml names.
ALLOWED_FROM_OUTSIDE = {
    "mnemo_store": {"lmdb", "usearch", "numkong", "numpy", "msgspec", "py_rust_stemmers", "rjieba"},
    "mnemo_core": {"numpy", "msgspec"},
    "mnemo_daemon": None,
    "mnemo_client": {"aiohttp", "msgspec", "platformdirs", "yarl"},
}
# Further ones of the modules of a folder, each with its extra.
ALLOWED_IN = {"clients/mnemo_client/adapters": {"agents", "anthropic", "langgraph"}}


def lint(config: Path, *roots: Path) -> subprocess.CompletedProcess[str]:
    """The output of import-linter for the packages in roots."""
    program = (
        "import sys; sys.path[:0] = sys.argv[2:]; from importlinter.cli import lint_imports; "
        "sys.exit(lint_imports(config_filename=sys.argv[1], no_cache=True))"
    )
    command = [sys.executable, "-P", "-c", program, str(config), *map(str, roots)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=config.parent)


def siblings(layer: str) -> list[str]:
    """The modules of one layer; `a | b` are two that may not import each other."""
    return [name.strip() for name in layer.split("|")]


def forbidden_imports(contract: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(importing package, imported module) for everything that contract forbids directly."""
    if contract["type"] == "layers":
        layers = [siblings(layer) for layer in contract["layers"]]
        for i, layer in enumerate(layers):
            higher = [module for above in layers[:i] for module in above]
            for module in layer:
                yield from ((module, other) for other in (*higher, *layer) if other != module)
    elif contract["type"] == "forbidden":
        for source in contract["source_modules"]:
            yield from ((source, module) for module in contract["forbidden_modules"])
    else:
        raise AssertionError(f"say here what a contract of type {contract['type']} forbids")


def write_tree(folder: Path, contract: dict[str, Any], bad: list[tuple[str, str]]) -> Path:
    """Our packages with the modules that contract names, empty, and beside them the bad imports; returns the config."""
    for package in LINTER["root_packages"]:
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
    packages = {importing for importing, _ in forbidden_imports(contract)}
    modules = {imported for _, imported in forbidden_imports(contract)} - packages
    for name in sorted(packages | modules):
        if name.partition(".")[0] in SOURCES:
            path = folder.joinpath(*name.split("."))
            for parent in (path, *path.parents) if name in packages else path.parents:
                if parent != folder and parent.is_relative_to(folder):
                    parent.mkdir(parents=True, exist_ok=True)
                    (parent / "__init__.py").touch()
            if name not in packages and not path.is_dir():
                path.with_suffix(".py").touch()
    for n, (importing, imported) in enumerate(bad):
        folder.joinpath(*importing.split("."), f"bad_{n}.py").write_text(f"import {imported}\n")
    config = folder / "importlinter.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in contract.items()]
    config.write_text(
        f"[tool.importlinter]\nroot_packages = {LINTER['root_packages']}\ninclude_external_packages = true\n"
        "[[tool.importlinter.contracts]]\n" + "\n".join(lines)
    )
    return config


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """(absolute module name, line) of everything path imports, anywhere in it; `from x import y` as x.y."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def strays(package: str, source: str, path: Path) -> list[str]:
    """The imports of path, a module of package, that the tables above do not allow."""
    found = []
    outside = ALLOWED_FROM_OUTSIDE[package]
    also = {name for place, names in ALLOWED_IN.items() if source.startswith(place) for name in names}
    for name, line in imports_of(path):
        root, _, rest = name.partition(".")
        if root == package or root in sys.stdlib_module_names:
            continue
        if root in SOURCES:
            allowed = ALLOWED_WITHIN.get((package, root), set())
            is_fine = allowed is None or rest.partition(".")[0] in allowed
        else:
            is_fine = outside is None or root in outside | also
        if not is_fine:
            found.append(f"{source}:{line}: {package} may not import {name}")
    return found


def test_every_contract_holds() -> None:
    done = lint(ROOT / "pyproject.toml", ROOT / "store", ROOT / "daemon", ROOT / "clients")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("contract", LINTER["contracts"], ids=lambda contract: contract["name"])
def test_every_contract_reports_each_import_that_it_forbids(contract: dict[str, Any], tmp_path: Path) -> None:
    bad = list(forbidden_imports(contract))
    clean = lint(write_tree(tmp_path / "clean", contract, []), tmp_path / "clean")
    assert clean.returncode == 0, clean.stdout + clean.stderr
    broken = lint(write_tree(tmp_path / "broken", contract, bad), tmp_path / "broken")
    assert broken.returncode == 1, broken.stdout + broken.stderr
    report = " ".join(broken.stdout.split())  # it wraps long lines
    silent = [pair for n, pair in enumerate(bad) if f"{pair[0]}.bad_{n} -> {pair[1]} (l.1)" not in report]
    assert not silent, broken.stdout


def test_every_package_imports_only_what_the_design_allows() -> None:
    found = [
        stray
        for package, folder in SOURCES.items()
        for path in sorted((folder / package).rglob("*.py"))
        for stray in strays(package, str(path.relative_to(ROOT)), path)
    ]
    assert not found, "\n".join(found)


def test_every_package_from_outside_is_named_in_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    known = {Requirement(line).name.replace("-", "_") for line in named}
    origins = packages_distributions()
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for package, folder in SOURCES.items()
        for path in sorted((folder / package).rglob("*.py"))
        for name, line in imports_of(path)
        if (root := name.partition(".")[0]) not in SOURCES and root not in sys.stdlib_module_names
        if not {origin.replace("-", "_") for origin in origins.get(root, [root])} & known
    ]
    assert not found, "not a dependency of its own:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("package", "statement", "is_fine"),
    [
        ("mnemo_core", "from mnemo_store.records import Memory", True),
        ("mnemo_core", "from mnemo_store import records", True),
        ("mnemo_core", "from mnemo_store import journal", False),
        ("mnemo_core", "def f():\n    import onnxruntime", False),
        ("mnemo_client", "import json, msgspec", True),
        ("mnemo_client", "import rich", False),
        ("mnemo_client", "from mnemo_core.retrieval.ranking.rankers import Ranker", False),
        ("mnemo_daemon", "from mnemo_client.protocol.memories import AnswerBody", True),
        ("mnemo_daemon", "from mnemo_client.http import call", False),
        ("mnemo_store", "import mnemo_client", False),
        ("mnemo_store", "import mnemo_store.records", True),
    ],
)
def test_an_import_beyond_the_design_is_seen(package: str, statement: str, is_fine: bool, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(statement)
    assert (strays(package, "module.py", path) == []) is is_fine


# The calendar types of datetime may be used in the core; what reads the clock or the zone of the machine may not.
def import_graph(*roots: Path) -> dict[str, set[str]]:
    """The modules below these roots, each with those that it imports, anywhere in it."""
    paths = {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
             for root in roots for path in root.rglob("*.py")}  # fmt: skip
    imported = {name: {each for each, _ in imports_of(path)} for name, path in paths.items()}
    return {
        name: {each if each in paths else each.rpartition(".")[0] for each in found} & paths.keys() - {name}
        for name, found in imported.items()
    }


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter(import_graph(*set(SOURCES.values()))).prepare()


def test_a_circle_is_seen_also_within_functions(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("from two import three")
    (tmp_path / "two.py").write_text("def load():\n    import one")
    with pytest.raises(CycleError):
        TopologicalSorter(import_graph(tmp_path)).prepare()


CLOCK_CALLS = frozenset({"now", "today", "utcnow", "fromtimestamp", "utcfromtimestamp", "timestamp", "astimezone"})


def clock_calls(path: Path) -> list[int]:
    """The lines of path that read the clock or the zone of the machine through a datetime type."""
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in CLOCK_CALLS]


def test_the_core_reads_no_clock() -> None:
    found = {
        str(path): lines for path in (ROOT / "daemon" / "mnemo_core").rglob("*.py") if (lines := clock_calls(path))
    }
    assert not found


@pytest.mark.parametrize(
    ("statement", "lines"),
    [
        ("import datetime as dt\nat = dt.datetime.now()", [2]),
        ("from datetime import date\nday = date.today()", [2]),
        ("from datetime import datetime\nms = datetime(2026, 1, 1).timestamp()", [2]),
        ("import datetime as dt\nday = dt.date(2026, 1, 1) + dt.timedelta(days=1)", []),
    ],
)
def test_a_clock_call_is_seen(statement: str, lines: list[int], tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(statement)
    assert clock_calls(path) == lines
