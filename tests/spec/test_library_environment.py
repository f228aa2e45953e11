"""No library may speak to anybody: its switches are set before it is loaded, in each of our processes. operation.md."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_daemon.library_environment import SILENT, silence_libraries

ROOT = Path(__file__).resolve().parent.parent.parent
SWITCHED = {"onnxruntime", "huggingface_hub", "hf_xet", "fastembed", "tokenizers", "llama_cpp", "mcp", "opentelemetry"}
"""Packages that read a switch when they are loaded, or load one that does."""
OURS = "mnemo_daemon"


def loads(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and package of everything a module imports, by statement or by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            yield from ((node.lineno, str(each.value)) for each in node.args[:1] if isinstance(each, ast.Constant))


def is_too_early(source: str) -> list[str]:
    """The libraries that a module outside the daemon loads before `mnemo_daemon` or the variable silences them."""
    tree = ast.parse(source)
    silencing = [line for line, name in loads(tree) if name.partition(".")[0] == OURS]
    silencing += [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in SILENT]
    return [
        f"{line}: {name}"
        for line, name in loads(tree)
        if name.partition(".")[0] in SWITCHED and not any(before < line for before in silencing)
    ]


def test_nothing_is_loaded_before_it_is_silenced() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{stray}"
        for folder in ("store", "daemon/mnemo_core", "clients", "tests", "packaging")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.name.startswith("test_")  # those come after conftest.py
        for stray in is_too_early(path.read_text())
    ]
    assert not found, "import mnemo_daemon first:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("import onnxruntime", 1),
        ("from huggingface_hub import x", 1),
        ("import importlib\nimportlib.import_module('onnxruntime.quantization')", 1),
        ("import onnxruntime\nimport mnemo_daemon", 1),
        ("from mnemo_daemon.models.embedders import encoder_graph\nimport onnxruntime", 0),
        ("import os\nos.environ['ORT_DISABLE_TELEMETRY'] = '1'\nimport onnxruntime", 0),
        ("import onnx, onnxruntime_extras_of_ours", 0),
    ],
)
def test_an_import_that_comes_too_early_is_seen(source: str, count: int) -> None:
    assert len(is_too_early(source)) == count


@pytest.mark.parametrize(
    "module",
    [
        "__main__",
        "offline",
        "models.language.llm_worker",
        "models.embedders.encoder_graph",
        "models.cross_encoder",
    ],
)
def test_a_process_is_silent_whatever_its_environment_says(module: str) -> None:
    program = f"import os, mnemo_daemon.{module}; print([os.environ.get(name) for name in {sorted(SILENT)!r}])"
    environ = {**os.environ, **dict.fromkeys(SILENT, "0"), "OTEL_SDK_DISABLED": "false"}
    ended = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == str([SILENT[name] for name in sorted(SILENT)])


def test_the_tests_are_silent_too() -> None:
    assert {name: os.environ.get(name) for name in SILENT} == SILENT


def test_the_libraries_still_know_the_switches() -> None:
    """A library that renames its switch would speak again: each name is one that the installed code reads."""
    packages = Path(os.__file__).parent, *(Path(entry) for entry in sys.path if entry.endswith("site-packages"))
    native = {"ORT_DISABLE_TELEMETRY": "onnxruntime/capi/*.so", "HF_XET_TELEMETRY_ENABLED": "hf_xet/*.so"}
    source = {name: "huggingface_hub/constants.py" for name in SILENT if name.startswith("HF_HUB") or "TRACK" in name}
    source |= {"FASTEMBED_CACHE_PATH": "fastembed/common/utils.py", "LOGURU_AUTOINIT": "loguru/_defaults.py"}
    for name, pattern in (native | source).items():
        files = [file for folder in packages for file in folder.glob(pattern)]
        assert any(name.encode() in file.read_bytes() for file in files), f"{name} is not read by {pattern}"


def test_other_settings_of_the_user_are_left_alone() -> None:
    environ = {"ORT_DISABLE_TELEMETRY": "0", "HF_HOME": "/srv/hub"}
    silence_libraries(environ)
    assert environ == {**SILENT, "HF_HOME": "/srv/hub"}
