"""Programs that use an adapter, each in a process of its own as its user's is, and the examples of docstrings."""

import ast
import io
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from contextlib import redirect_stdout
from types import ModuleType

from tests.support.running_daemon import RunningDaemon

# Packages for agents report to their makers unless they are told not to.
QUIET = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false",
    "MEM0_TELEMETRY": "False", "DO_NOT_TRACK": "1",
}  # fmt: skip


def run_program(program: str, daemon: RunningDaemon, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """Return what a program prints that finds the daemon as any client does."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments], capture_output=True, text=True, check=False,
        env={**os.environ, **QUIET, "MNEMO_SOCKET": str(daemon.socket), **(environ or {})}, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def example_of(module: ModuleType) -> str:
    """Return the example in the docstring of a module: its indented lines."""
    lines = (module.__doc__ or "").splitlines()
    return textwrap.dedent("\n".join(line for line in lines if line.startswith("    ") or not line.strip())).strip()


def run_example(
    module: ModuleType, daemon: RunningDaemon, leave_out: tuple[str, ...] = (), before: str = ""
) -> dict[str, str]:
    """Run the example of a module in a process of its own; return the value of each expression by its beginning."""
    kept = [node for node in ast.parse(example_of(module)).body
            if not ast.unparse(node).startswith(leave_out or ("\0",))]  # fmt: skip
    program = [before]
    for node in kept:
        source = ast.unparse(node)
        if isinstance(node, ast.Expr):
            program.append(f"print({source.partition('(')[0]!r} + '\\t' + repr({source}).replace('\\n', ' '))")
        else:
            program.append(source)
    out = io.StringIO()
    with redirect_stdout(out):
        print(run_program("\n".join(program), daemon), end="")
    return dict(line.split("\t", 1) for line in out.getvalue().splitlines() if "\t" in line)
