"""The types of the checks of `mnemo doctor`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from mnemo_client.cli.context import CommandContext
from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_client.paths import config_file, data_folder, models_folder
from mnemo_client.protocol.status import ConfigAnswer, JobsAnswer, StatusAnswer

Outcome = Literal["ok", "warn", "fail"]


class DoctorCheck(NamedTuple):
    """The result of a check. `fix` is the command or step that solves a problem, `fixed` what --fix did about it.
    `name`: "" for that of its row."""

    name: str
    outcome: Outcome
    found: str
    fix: str = ""
    fixed: str = ""


def ok(found: str, fix: str = "") -> list[DoctorCheck]:
    return [DoctorCheck("", "ok", found, fix)]


def warn(found: str, fix: str) -> list[DoctorCheck]:
    return [DoctorCheck("", "warn", found, fix)]


def fail(found: str, fix: str) -> list[DoctorCheck]:
    return [DoctorCheck("", "fail", found, fix)]


class Examination:
    """The subject of the checks: the places of this user and, if a daemon runs, its answers."""

    def __init__(self, context: CommandContext, client: Client | None = None, error: MnemoError | None = None) -> None:
        self.context = context
        self.client = client  # None if no daemon answers
        self.error = error  # why none does
        self.environ = context.environ
        self.data = data_folder(context.environ)
        self.config = config_file(context.environ)
        self.status: StatusAnswer | None = None
        self.jobs: JobsAnswer | None = None
        self.settings: ConfigAnswer | None = None  # also without a daemon
        self.settings_faults: list[str] = []
        self.start_fix = "mnemo up"

    def require_status(self) -> StatusAnswer:
        """Return the status of the daemon, in a check that needs one."""
        assert self.status is not None
        return self.status

    def require_client(self) -> Client:
        """Return the client of the daemon, in a check that needs one."""
        assert self.client is not None
        return self.client

    @property
    def models(self) -> Path:
        """The folder of models, as the settings or the environment name it."""
        named = self.setting("folders.models")
        return Path(str(named)) if named else models_folder(self.environ)

    def setting(self, key: str) -> object:
        """Return the value of a setting; None if the settings cannot be read."""
        values = self.settings.values if self.settings is not None else []
        return next((each.value for each in values if each.key == key), None)


class CheckRow(NamedTuple):
    """A row of the table of checks. `run` yields one result, for views one each. `repair` does what --fix may do
    without a risk, and returns it in words; "" if it did nothing."""

    name: str
    run: Callable[[Examination], Sequence[DoctorCheck]]
    needs_daemon: bool = False
    repair: Callable[[Examination], str] | None = None
    platform: str = ""  # the only one that has it
