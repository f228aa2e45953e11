"""The conformance suite of the Model Context Protocol against POST /mcp of a new daemon: every server scenario.

    python -m tests.bench.bench_mcp_conformance [FOLDER]

Needs Node 20 and npx, which fetches the suite from the npm registry; with FOLDER, the suite in its node_modules is
used. The suite speaks TCP alone, so a forwarder of this program stands between. Most scenarios call tools, resources
and prompts of a test server that is made for them: only those in APPLYING can pass here, and it ends with status 1 if
one of them does not.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.running_daemon import running

SUITE = "@modelcontextprotocol/conformance@0.1.13"
SECONDS_MAX = 600.0
APPLYING = ("server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "server-sse-multiple-streams")
# Why another scenario does not apply, by how its name begins; the rest needs the test server's tools, by name.
REASONS = {
    "logging-": "logging is not offered: the protocol has deprecated it",
    "completion-": "completion of arguments is not offered",
    "resources-subscribe": "subscriptions are not offered: there are no streams",
    "resources-unsubscribe": "subscriptions are not offered: there are no streams",
    "server-sse-polling": "there are no streams, so the suite has nothing to check",
    "dns-rebinding": "a check of the Host header on TCP; this is a Unix socket, whose peers are known by their user id",
}
FIXTURE = "it calls a tool, resource or prompt of the suite's own test server"

_LINE = re.compile(r"^. (\S+): (\d+) passed, (\d+) failed$", re.MULTILINE)


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one way until the end."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def run_suite(socket: Path, command: list[str]) -> str:
    """The output of the suite's command, with the address of a forwarder to the socket."""

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(str(socket))
        await asyncio.gather(forward(reader, back), forward(there, writer))

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *command, "--url", f"http://localhost:{port}/mcp", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), SECONDS_MAX)
    finally:
        server.close()
    return out.decode(errors="replace")


def reason(scenario: str) -> str:
    """The reason why a scenario does not apply."""
    return next((text for start, text in REASONS.items() if scenario.startswith(start)), FIXTURE)


def main() -> int:
    program = ["npx", "--yes", SUITE]
    if len(sys.argv) > 1:
        program = [str(Path(sys.argv[1]) / "node_modules" / ".bin" / "conformance")]
    with (
        tempfile.TemporaryDirectory() as scratch,
        running(Path(scratch) / "data", {"XDG_CACHE_HOME": scratch}) as daemon,
    ):
        words = [*program, "server", "--suite", "all", "--output-dir", f"{scratch}/results"]
        out = asyncio.run(run_suite(daemon.socket, words))
    results = {name: (int(passed), int(failed)) for name, passed, failed in _LINE.findall(out)}
    if not results:
        print(out)
        return 1
    for name, (passed, failed) in results.items():
        verdict = f"{passed} passed, {failed} failed" if name in APPLYING else f"does not apply: {reason(name)}"
        print(f"{name:<34} {verdict}")
    good = [name for name in APPLYING if results.get(name, (0, 1))[1] == 0 and results[name][0]]
    print(f"{len(good)} of {len(APPLYING)} scenarios that apply passed, of {len(results)} in all")
    return 0 if len(good) == len(APPLYING) else 1


if __name__ == "__main__":
    sys.exit(main())
