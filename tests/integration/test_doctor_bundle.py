"""The support bundle of a real daemon has nothing of what its user stored or is called. SPEC 14"""

import io
import json
import os
import socket
import tarfile
from pathlib import Path

import pytest

from mnemo_client import process
from mnemo_client.cli import main
from mnemo_client.cli.terminal import Terminal
from tests.support.running_daemon import RunningDaemon

CANARIES = ("zanzibar", "quokka", "marzipan", "xylophone", "brouhaha", "pomegranate", "ines-canary")
"""Planted: a memory's text, a tag, a namespace, a note's name, a folder of notes, a line of the log, the user."""


@pytest.fixture
def environ(daemon: RunningDaemon, tmp_path: Path) -> dict[str, str]:
    home = tmp_path / CANARIES[6]
    notes = home / f"My {CANARIES[4]} notes"
    notes.mkdir(parents=True)
    (notes / f"{CANARIES[3]}.md").write_text(f"# {CANARIES[3]}\n\nThe {CANARIES[0]} ferry leaves at noon.\n")
    (notes / f"{CANARIES[3]}.bin").write_bytes(b"\xff")
    with daemon.client(CANARIES[2], entry_point="cli") as client:
        client.remember(f"The ferry to {CANARIES[0]} leaves at noon.", tags=[CANARIES[1]])
        client.add_root(notes)
        client.rescan()
    environ = {**daemon.environ, "HOME": str(home), "USER": CANARIES[6], "MNEMO_AUTOSTART": "off"}
    log = process.log_file(environ)
    with log.open("a") as file:
        file.write(f"2026-11-23 09:41:34,248 ERROR the store could not be opened: {CANARIES[5]}\n")
        file.write(f"KeyError: '{CANARIES[5]}'\n{CANARIES[5]}\n")
    return environ


def give(environ: dict[str, str], *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = main.run(list(words), Terminal(out, err, environ), environ, io.StringIO())
    return code, out.getvalue(), err.getvalue()


def test_a_bundle_has_no_text_tag_namespace_note_user_or_path(environ: dict[str, str], tmp_path: Path) -> None:
    target = tmp_path / "report.tar.gz"
    code, out, err = give(environ, "doctor", "--bundle", str(target))
    assert code == 2, out  # nobody can be asked
    assert not target.exists()
    code, out, err = give(environ, "doctor", "--bundle", str(target), "-y")
    assert code == 0, err
    assert target.stat().st_mode & 0o777 == 0o600
    with tarfile.open(target) as archive:
        files = {entry.name.removeprefix("mnemo-support/"): archive.extractfile(entry) for entry in archive}
        texts = {name: file.read().decode() for name, file in files.items() if file is not None}
    assert set(texts) == {"about.json", "settings.json", "checks.json", "status.json", "jobs.json", "log.txt"}
    assert all(name in out for name in texts)
    private = [*CANARIES, socket.gethostname(), str(tmp_path), environ["MNEMO_DATA_DIR"]]
    leaks = [(each, name) for each in private for name, text in texts.items() if each.lower() in text.lower()]
    assert not leaks
    assert json.loads(texts["status.json"])["memories"] >= 1
    assert json.loads(texts["status.json"])["namespaces"] >= 1
    assert "the store could not be opened: …" in texts["log.txt"]
    assert {check["name"] for check in json.loads(texts["checks.json"])} >= {"daemon", "notes", "round trip"}


def test_a_bundle_replaces_no_file_and_works_without_a_daemon(environ: dict[str, str], tmp_path: Path) -> None:
    target = tmp_path / "report.tar.gz"
    target.write_text("mine")
    assert give(environ, "doctor", "--bundle", str(target), "-y")[0] == 2
    assert target.read_text() == "mine"
    alone = {**environ, "MNEMO_SOCKET": str(tmp_path / "none.sock")}
    code, out, _ = give(alone, "doctor", "--bundle", str(tmp_path / "alone.tgz"), "-y", "--json")
    assert code == 0
    assert set(json.loads(out)["contents"]) == {"about.json", "settings.json", "checks.json", "log.txt"}
    assert os.listdir(tmp_path)


def test_fix_repairs_the_store_and_has_missing_vectors_computed(environ: dict[str, str]) -> None:
    """A file that others may read is made private by the way, and a healthy store is left as it is."""
    data = Path(environ["MNEMO_DATA_DIR"])
    data.chmod(0o755)
    _, out, _ = give(environ, "doctor", "--fix", "--json")
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert checks["data folder"]["fixed"].startswith("chmod 700")
    assert (checks["integrity"]["outcome"], checks["integrity"]["fixed"]) == ("ok", "")
    assert data.stat().st_mode & 0o777 == 0o700
