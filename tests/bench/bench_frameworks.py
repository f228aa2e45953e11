"""The frameworks' own tests of the interfaces that our adapters have, run against the adapters.

    python -m tests.bench.bench_frameworks FOLDER

FOLDER holds the unpacked source packages of the frameworks, which have their tests: `langgraph_checkpoint-4.3.2` and
the like. They are read from there, and a plugin puts our adapter in the place of the store that they test
(`framework_tests`). A test that does not apply is left out by name, with its reason; one that fails is named. Needs
pytest-asyncio and pytest-mock: `make bench-frameworks` has all of this in a folder of its own.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.support.adapter_programs import QUIET
from tests.support.running_daemon import RunningDaemon, running

VECTORS = "scores or dimensions of the test's own embedding, in whose place ours is"
SQLITE = "looks into SQLite, or at its locks and damaged rows"
DISK = "looks at files and links on disk, of which there are none"


class FrameworkSuite(NamedTuple):
    """Some tests of a source package: its name, the files, and what is left out and why."""

    framework: str
    package: str
    files: tuple[str, ...]
    left_out: dict[str, str]  # the reason by a pattern of names
    options: tuple[str, ...] = ()


SUITES = (
    FrameworkSuite("langgraph", "langgraph_checkpoint", ("tests/test_store.py",), {
        "vector_store_initialization|embed_with_path": VECTORS,
        "get_text_at_path|async_batch_store(?!_resilience)|async_batched_vector_search_concurrent":
            "tests the package's own helpers, without a store of its user",
    }),
    FrameworkSuite("langgraph", "langgraph_checkpoint_sqlite",
                   ("tests/test_store.py", "tests/test_async_store.py"), {
        "vector_store_initialization|test_scores|embed_with_path": VECTORS,
        "injection_vulnerability|hyphens_and_digits":
            "filters by paths of JSON in SQL, which the store in memory has not either",
        "nonnull_migrations|escape_glob|namespace_match_pattern|uses_indexable|no_running_loop": SQLITE,
    }),
    FrameworkSuite("openai-agents", "openai_agents",
                   ("tests/memory/test_session.py", "tests/memory/test_session_limit.py"), {
        "await_mutation|worker_thread|closed_rejects|corrupt|file_lock|write_lock|rolls_back|rollback|quarantined|"
        "post_commit|retired_connections": SQLITE,
    }),
    FrameworkSuite("anthropic", "anthropic", ("tests/lib/tools/memory_tools/test_filesystem.py",), {
        "mkdir_parents|symlink|crlf|not_allow_deleting_memories_directory": DISK,
        r"renaming_memories_directory\[/memories/(\.|sub)":
            "expects that . and .. are resolved before a path is refused: here it is refused as it is written",
            "test_insert$|insert_at": "expects a line break at the end of a file: a memory ends with its text",
            "too_many_lines": "makes a file of 5 MB: the text of a memory is bounded by its characters",
    }, ("--noconftest",)),
)  # fmt: skip


def run(suite: FrameworkSuite, folder: Path, daemon: RunningDaemon) -> bool:
    """Print how many tests of a suite in a folder passed, and those that did not; return True if none failed."""
    root = Path(__file__).parents[2]  # whose `tests` must not hide theirs
    paths = [str(folder), *(each for each in sys.path if Path(each or ".").resolve() != root)]
    paths.append(str(Path(__file__).parent))
    environ = {
        **os.environ, **QUIET, "MNEMO_SOCKET": str(daemon.socket), "MNEMO_FRAMEWORK": suite.framework,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OPENAI_API_KEY": "none",
    }  # fmt: skip
    words = [sys.executable, "-m", "pytest", "-q", "-rfEs", "--no-header", "--tb=line", "--timeout=120", "-p",
             "framework_tests", "-o", "asyncio_mode=auto", "-o", "addopts=", "-c", os.devnull, "--rootdir", ".",
             *suite.options]  # fmt: skip
    listed = subprocess.run(
        [*words, "--collect-only", *suite.files], cwd=folder, env=environ, capture_output=True, text=True
    )
    tests = [line for line in listed.stdout.splitlines() if "::" in line]
    if listed.returncode:
        print(listed.stdout[-3000:], listed.stderr[-3000:])
        return False
    print(f"{folder.name}, {', '.join(suite.files)}: {len(tests)} tests")
    kept = set(tests)
    for pattern, reason in suite.left_out.items():
        gone = {each for each in kept if re.search(pattern, each.partition("::")[2])}
        kept -= gone
        print(f"  {len(gone):3} left out: {reason}")
    ended = subprocess.run(
        [*words, *(each for each in tests if each in kept)], cwd=folder, env=environ,
        capture_output=True, text=True,
    )  # fmt: skip
    print(f"  {ended.stdout.splitlines()[-1]}")
    for line in ended.stdout.splitlines():
        if line.startswith(("FAILED", "ERROR")):
            print(f"      {line[:300]}")
    return ended.returncode == 0


def main() -> int:
    folder = Path(sys.argv[1]).absolute()
    found = [(suite, sorted(folder.glob(f"{suite.package}-[0-9]*/"))) for suite in SUITES]
    if missing := [suite.package for suite, folders in found if not folders]:
        sys.exit(f"{folder} has no source package of {', '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="m") as scratch, running(Path(scratch) / "data") as daemon:
        passed = [run(suite, folders[-1], daemon) for suite, folders in found]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
