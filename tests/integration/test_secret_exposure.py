"""`mnemo doctor` names the memories and notes with a secret that agents see, and never the secret. SPEC 5.1"""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.doctor.daemon_checks import check_exposure
from mnemo_client.cli.doctor.doctor_checks import DoctorCheck, Examination
from mnemo_client.cli.terminal import standard_terminal
from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_client.protocol.memories import Patch
from tests.support.running_daemon import RunningDaemon

NOTE = """# House

The plumber comes on Monday.

## Network

wifi password: `plover-harbour-91`

## Bank

The PIN of the card is 8852.
"""


def checked(client: Client) -> DoctorCheck:
    context = CommandContext(SimpleNamespace(json=False), standard_terminal({}), {}, Path("/"), io.StringIO())
    (check,) = check_exposure(Examination(context, client))
    return check


def test_the_doctor_names_what_agents_see_that_holds_a_secret(scratch_daemon: RunningDaemon, tmp_path: Path) -> None:
    notes_folder = tmp_path / "vault"
    notes_folder.mkdir()
    (notes_folder / "house.md").write_text(NOTE)
    scratch_daemon.start()
    with scratch_daemon.client(entry_point="cli") as person, scratch_daemon.client(entry_point="mcp") as agent:
        person.add_root(notes_folder)
        person.rescan()
        assert (checked(person).outcome, checked(person).found) == (
            "ok",
            "no secret was found in the 1 memory that agents see",
        )
        code = person.remember("The code of the garage door is 4711.").memory
        check = checked(person)
        assert check.outcome == "warn"
        assert check.found == f"agents see 1 memory that may hold a secret: memory {code.id} (password)"
        _, wifi = sorted(person.list_memories(tags=["sensitive"]).memories, key=lambda memory: memory.content)
        assert wifi.content.startswith("wifi")
        person.patch(code.id, Patch(tags=["sensitive"]))
        assert checked(person).outcome == "ok"
        person.patch(wifi.id, Patch(tags=[]))
        check = checked(person)
        assert check.found.startswith(f"agents see 1 memory that may hold a secret: {notes_folder}/house.md:")
        assert not any(secret in check.found for secret in ("plover", "8852", "4711"))
        with pytest.raises(MnemoError, match="only a person"):
            agent.exposure()
