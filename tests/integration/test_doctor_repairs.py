"""Each repair of `mnemo doctor --fix` on a real daemon that was broken for it: named, repaired, then clean. SPEC 14"""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_client import process
from mnemo_client.cli import main
from mnemo_client.cli.terminal import Terminal
from mnemo_client.client import Client
from mnemo_client.version import VERSION
from mnemo_daemon.models import installation
from mnemo_store.codec import id_key
from tests.spec.test_check import damage, drop
from tests.support.erasure_services import wait_until
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import quick_folder

# A daemon as an earlier version would be, of which one thread fails as long as a file is there, and does not try again
# by itself for an hour.
FAULTY = """
import os, sys
from pathlib import Path
import mnemo_client.version
mnemo_client.version.VERSION = os.environ["FAULTY_VERSION"]
from mnemo_daemon import thread_supervision
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
thread_supervision.PAUSE_SECONDS = thread_supervision.PAUSE_SECONDS_MAX = 3600.0
step = VectorIndexer._step

def failing(self):
    if Path(os.environ["FAULTY_WHILE"]).exists():
        raise RuntimeError("no vector can be computed")
    return step(self)

VectorIndexer._step = failing
from mnemo_daemon.__main__ import main
sys.exit(main())
"""


@pytest.fixture
def daemon(tiny_source: Path) -> Iterator[RunningDaemon]:
    with quick_folder() as scratch:
        installation.import_path(tiny_source, scratch / "models", allow_unverified=True)
        environ = {
            "MNEMO_MODELS_FOLDER": str(scratch / "models"), "MNEMO_AUTOSTART": "off", "MNEMO_LLM_LEVEL": "off",
            "HOME": str(scratch), "FAULTY_VERSION": VERSION, "FAULTY_WHILE": str(scratch / "faulty"),
        }  # fmt: skip
        daemon = RunningDaemon(scratch / "data", environ)
        daemon.program = ["-c", FAULTY]
        daemon.start()
        with daemon.client(entry_point="cli") as client:
            client.use_model("tiny-letters")
        yield daemon
        with daemon.client() as client:
            process.stop(client)
        daemon.stop()


def doctor(daemon: RunningDaemon, *words: str) -> dict[str, tuple[str, str]]:
    """The outcome and repair of each check that is not ok or was repaired, but for `file system` (tests keep their data
    in memory) and the reader of answers, which needs the default model."""
    out = io.StringIO()
    main.run(["doctor", "--json", *words], Terminal(out, io.StringIO(), daemon.environ), daemon.environ, io.StringIO())
    checks = json.loads(out.getvalue())["checks"]
    seen = [each for each in checks if each["name"] != "file system" and "reader of answers" not in each["found"]]
    return {each["name"]: (each["outcome"], each["fixed"]) for each in seen if each["outcome"] != "ok" or each["fixed"]}


def wait_for_vectors(client: Client) -> None:
    wait_until(lambda: client.status().views["vectors"].share == 1)


def test_each_repair_of_the_doctor_repairs_what_was_broken(daemon: RunningDaemon, tmp_path: Path) -> None:
    with daemon.client() as client:
        first = client.remember("a b c").memory.id
        other = client.remember("x y z").memory.id
        wait_for_vectors(client)
    assert doctor(daemon) == {}

    # Vectors are missing, since the thread that computes them has failed; its cause is over.
    fault = Path(daemon.environ["FAULTY_WHILE"])
    fault.touch()
    with daemon.client() as client:
        wait_until(lambda: any(thread.failing for thread in client.status().threads.values()))
        client.remember("d e f")
        client.delete(other)  # its vector, which the thread has yet to drop, is not that of another memory
    assert doctor(daemon) == {"store": ("fail", ""), "vectors": ("warn", ""), "threads": ("fail", "")}
    fault.unlink()
    assert doctor(daemon, "--fix")["vectors"][1] == "queued 1 missing vector"
    with daemon.client() as client:
        wait_for_vectors(client)

    # A note could not be read, and the watcher does not see that it now can: it is written under another name.
    notes = tmp_path / "notes"
    notes.mkdir()
    note = notes / "tea.md"
    note.write_bytes(b"\xff\xfeT\x00e\x00\xd8")
    (tmp_path / "elsewhere.md").hardlink_to(note)
    with daemon.client() as client:
        client.add_root(notes)
        client.rescan()
    (tmp_path / "elsewhere.md").write_text("Tea is in the tin.")
    assert doctor(daemon)["notes"] == ("warn", "")
    assert doctor(daemon, "--fix")["notes"] == ("ok", "scanned the folders of notes again")

    # The store has lost a row, and the daemon that runs is of an earlier version.
    with daemon.client() as client:
        process.stop(client)
    daemon.stop()
    damage(daemon.folder, drop("usage", id_key(first)))
    daemon.environ["FAULTY_VERSION"] = "0.0.9"
    daemon.start()
    with daemon.client() as client:
        wait_for_vectors(client)
    assert doctor(daemon) == {"version": ("warn", ""), "integrity": ("fail", "")}
    done = doctor(daemon, "--fix")
    assert done["version"] == ("ok", "restarted the daemon")
    assert done["integrity"][0] == "ok"
    assert done["integrity"][1].endswith("(1)")
    with daemon.client() as client:
        wait_for_vectors(client)
    assert doctor(daemon) == {}
