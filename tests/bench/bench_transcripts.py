"""The speed at which the transcripts of an agent are imported, with a model, and the memory that takes.

    python -m tests.bench.bench_transcripts [SESSIONS TURNS_PER_SESSION]

By default 200 sessions of 100 turns: the dry run, the import, and the import of the same files again. Each line has the
seconds of the command, the turns a second, and the daemon's private memory behind it.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import harness
from tests.support.running_daemon import running
from tests.support.transcript_files import write_history


def main(sessions: int = 200, turns: int = 100) -> None:
    with tempfile.TemporaryDirectory(prefix="mnemo-bench-") as scratch:
        folder = Path(scratch) / "projects"
        size = write_history(folder, sessions, turns)
        print(f"{sessions} sessions, {sessions * turns} turns, {size >> 20} MiB")
        with running(Path(scratch) / "data", {"MNEMO_LLM_LEVEL": "off"}) as daemon:
            daemon.wait_for_vectors()
            for words in (("--dry-run",), (), ()):
                began = time.perf_counter()
                done = subprocess.run(
                    [sys.executable, "-m", "mnemo_client.cli.main", "import", "--from", "claude-code", str(folder),
                     "--json", *words],
                    capture_output=True, env={**daemon.environ, "MNEMO_AUTOSTART": "off"}, check=True,
                )  # fmt: skip
                seconds = time.perf_counter() - began
                found = json.loads(done.stdout)
                with daemon.client() as client:
                    private = client.status().memory_private_bytes >> 20
                print(
                    f"{'dry run' if words else 'import':8} {found['stored']:6} stored {found['duplicate']:6} known "
                    f"{seconds:7.1f} s {sessions * turns / seconds:8.0f} turns/s {private:5} MiB"
                )


if __name__ == "__main__":
    harness.run(main)
