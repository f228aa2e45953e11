"""Latency of the command line and the bridge for a person and an agent: whole processes, start to end.

    python tests/bench/bench_cli.py [RUNS] [--hooks]

Asks the daemon that the environment leads to (start one first with `mnemo up`). Aims: `mnemo status` under 150 ms in
all; the bridge answers `initialize` within 150 ms of its start and holds under 20 MB; the hooks of agents end within
300 ms, `session-start` within 2 s, also if the daemon hangs: `kill -STOP` it and give --hooks to measure that.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.bench import harness

RUNS = 20
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
STATUS = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "memory_status", "arguments": {}}}


# As Claude Code gives it; each hook takes the fields that it knows.
AGENT_EVENT = {
    "session_id": "bench", "transcript_path": "/dev/null", "cwd": "/", "permission_mode": "default",
    "prompt": "which port does the payments service listen on?", "last_assistant_message": "It listens on 8443.",
    "tool_name": "Bash", "tool_input": {"command": "make test"},
    "tool_response": {"stdout": "40 passed", "stderr": "", "interrupted": False},
}  # fmt: skip


def time_command(words: list[str], runs: int, given: bytes = b"") -> list[float]:
    """Milliseconds of each run."""
    taken = []
    for _ in range(runs):
        began = time.perf_counter()
        ended = subprocess.run([_mnemo(), *words], input=given, capture_output=True, check=False)
        taken.append((time.perf_counter() - began) * 1000)
        if ended.returncode not in (0, 3):
            sys.exit(f"mnemo {' '.join(words)} ended with {ended.returncode}: {ended.stderr.decode()}")
    return taken


def time_bridge(runs: int) -> tuple[list[float], list[float]]:
    """Milliseconds from start to the answer to `initialize`, and resident MB after one tool call."""
    taken, resident = [], []
    for _ in range(runs):
        began = time.perf_counter()
        bridge = subprocess.Popen([_mnemo(), "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        _ask(bridge, INITIALIZE)
        taken.append((time.perf_counter() - began) * 1000)
        _ask(bridge, STATUS)
        status = Path(f"/proc/{bridge.pid}/status").read_text()
        resident.append(int(status.split("VmRSS:")[1].split("kB")[0]) / 1000)
        bridge.communicate(timeout=15)
    return taken, resident


def _ask(bridge: "subprocess.Popen[bytes]", message: dict[str, object]) -> None:
    assert bridge.stdin is not None
    assert bridge.stdout is not None
    bridge.stdin.write(json.dumps(message).encode() + b"\n")
    bridge.stdin.flush()
    bridge.stdout.readline()


def _mnemo() -> str:
    return str(Path(sys.executable).with_name("mnemo"))


def report(name: str, values: list[float], unit: str) -> None:
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    print(f"{name:<36} least {ordered[0]:6.1f}   p50 {statistics.median(ordered):6.1f}   p95 {p95:6.1f} {unit}")


def main(runs: int = RUNS, *, hooks: bool = False) -> None:
    print(f"{runs} runs each, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    given = json.dumps(AGENT_EVENT).encode()
    for hook in (["session-start"], ["prompt", "--keep"], ["stop"], ["tool"], ["session-end"]):
        report(f"mnemo hook {hook[0]}", time_command(["hook", *hook], runs, given), "ms")
    if hooks:
        return
    report("mnemo --version", time_command(["--version"], runs), "ms")
    report("mnemo status", time_command(["status"], runs), "ms")
    report("mnemo recall (whole process)", time_command(["recall", "memory"], runs), "ms")
    taken, resident = time_bridge(runs)
    report("mnemo mcp, start to initialized", taken, "ms")
    report("mnemo mcp, resident", resident, "MB")


if __name__ == "__main__":
    harness.run(main)
