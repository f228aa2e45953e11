"""The client of Neovim in a headless editor: against a real daemon, prepared answers, and the page's transcripts.

The cases are in clients/nvim/tests/mnemo_test.lua; tests/support/editor_environment.py describes their kinds.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.editor_environment import EditorHome, home_of_daemon, make_faulty
from tests.support.golden_transcripts import ReplayServer
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import quick_folder
from tests.support.stub_daemon import StubDaemon

CLIENT = Path(__file__).parents[2] / "clients" / "nvim"
COMMAND = ["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c", f"luafile {CLIENT}/tests/mnemo_test.lua"]


@pytest.fixture(scope="module")
def home(daemon: RunningDaemon) -> Iterator[EditorHome]:
    with quick_folder() as folder, home_of_daemon(folder, daemon) as home:
        yield home


def test_a_person_remembers_recalls_and_asks_in_the_editor(home: EditorHome, daemon: RunningDaemon) -> None:
    home.run(COMMAND, "live")
    with daemon.client("boat") as client:
        memories = [memory for memory in client.list_memories().memories if memory.namespace == "boat"]
    lines = Path(home.places["project"]).read_text().splitlines()
    wanted = {
        f"{lines[2]}\n{lines[3]}": [f"{home.places['project']}:3"],
        lines[2].partition(" ")[2]: [f"{home.places['project']}:3"],
        "The engine was serviced at 520 hours.": [],
    }
    assert {memory.content: memory.evidence for memory in memories} == wanted
    assert {(memory.source, memory.trust) for memory in memories} == {("cli", "user")}


def test_the_editor_starts_the_daemon_and_survives_its_restart(home: EditorHome, daemon: RunningDaemon) -> None:
    with daemon.client("boat") as client:
        client.remember("The engine was serviced at 520 hours.")
    home.run(COMMAND, "restart")


def test_every_fault_of_a_daemon_is_reported_and_none_blocks_the_editor(
    stub_daemon: StubDaemon, tmp_path: Path
) -> None:  # fmt: skip
    make_faulty(stub_daemon)
    home = EditorHome(tmp_path, stub_daemon.path, {})
    home.run(COMMAND, "faults")
    assert {asked.headers["x-mnemo-door"] for asked in stub_daemon.asked} == {"cli"}
    assert stub_daemon.paths().count("POST /v1/memories") == 1


def test_the_client_of_the_editor_replays_the_page(replay_server: ReplayServer, tmp_path: Path) -> None:
    EditorHome(tmp_path, replay_server.socket, {}).run(COMMAND, "transcripts", **replay_server.environ)
    assert not replay_server.undocumented
    assert not replay_server.unasked()
