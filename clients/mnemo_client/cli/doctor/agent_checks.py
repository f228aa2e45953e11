"""Checks of what connects agents to the daemon: the inbox of their hooks, and their entries in configuration files."""

import os
import shutil
import time
from collections.abc import Iterator

from mnemo_client.cli.agent_hooks.delivery import deliver, inbox_of
from mnemo_client.cli.agent_hooks.hook_command import WAITING_SECONDS
from mnemo_client.cli.agent_setup.config_files import ConfigFile, SetupRecords, installed_file
from mnemo_client.cli.agent_setup.setup_clients import CLIENTS, SetupClient, SetupPlaces, find_program
from mnemo_client.cli.doctor.doctor_checks import DoctorCheck, Examination, fail, ok, warn
from mnemo_client.cli.format.units import duration_text, plural
from mnemo_client.errors import MnemoError
from mnemo_client.paths import run_folder
from mnemo_client.process import ServerPlace


def check_hooks(examined: Examination) -> list[DoctorCheck]:
    """Check that the daemon takes what the hooks of agents left for it."""
    inbox = inbox_of(examined.environ)
    folder = inbox.folder
    if not folder.exists():
        return ok("nothing waits for the daemon")
    if not folder.is_dir():
        return fail(f"{folder} is not a folder", f"move {folder} elsewhere")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return fail(f"{folder} cannot be read or written", f"chmod 700 {folder}")
    waiting = [*inbox.entries(), *inbox.unanswered()]
    if damaged := [path for path in waiting if inbox.read(path) is None and path.exists()]:
        found = f"{plural(len(damaged), 'exchange')} of {len(waiting)} cannot be read: {damaged[0]}"
        return fail(found, f"read it yourself, then: rm {damaged[0]}")
    seconds = max((time.time() - path.stat().st_mtime for path in waiting), default=0.0)
    if seconds > WAITING_SECONDS:
        found = f"{plural(len(waiting), 'exchange')} not taken by the daemon, the oldest since {duration_text(seconds)}"
        fix = "mnemo doctor --fix delivers them" if examined.client is not None else "mnemo up; mnemo doctor --fix"
        return warn(found, fix)
    if refused := inbox.refused():
        found = f"the daemon refused {plural(len(refused), 'exchange')} of agents; they are kept in {folder}"
        return warn(found, f"read them, then: rm {folder}/*.refused")
    return ok(f"{len(waiting) or 'nothing'} waits for the daemon")


def deliver_hooks(examined: Examination) -> str:
    """Deliver what waits to the daemon that runs."""
    inbox = inbox_of(examined.environ)
    count = len([*inbox.entries(), *inbox.unanswered()])
    if not count or examined.client is None or not deliver(examined.environ):
        return ""
    return f"delivered {plural(count - len(inbox.entries()), 'exchange')} of agents"


def check_proxy(examined: Examination) -> list[DoctorCheck]:
    """Check that the proxy that runs passes nothing off this machine."""
    record = ServerPlace(run_folder(examined.environ), "proxy").running()
    if record is None:
        return ok("none runs")
    if record.remote:
        found = f"what programs send through {record.address} goes to {record.remote}, off this machine"
        return warn(found, "if you do not want that: start it without --allow-remote")
    return ok(f"{record.address} passes to a model server on this machine")


def check_page(examined: Examination) -> list[DoctorCheck]:
    """Check which pages are served to browsers of this machine."""
    places = [ServerPlace(run_folder(examined.environ), kind) for kind in ("page", "page-read-only")]
    running = [record for place in places if (record := place.running()) is not None]
    if not running:
        return ok("none is served; `mnemo ui` serves one")
    return [check for each in running for check in ok(f"{each.address}, process {each.pid}")]


def check_agents(examined: Examination) -> list[DoctorCheck]:
    """Check that the entries of `mnemo setup` run a command that exists, and are those of this version."""
    program = find_program(examined.environ)
    records, connected = SetupRecords(examined.environ), []
    faults: list[DoctorCheck] = []
    for client, file, is_project in _files(examined, program):
        setup = f"mnemo setup {client.name}{' --project' if is_project else ''}"
        fix = f"{setup}, or {setup} --remove"
        try:
            installed = installed_file(file)
        except MnemoError as error:
            if records.get(file.path.resolve()) is not None:  # a file without entries of ours is no matter of ours
                faults += fail(error.message, error.hint or fix)
            continue
        if installed is None:
            continue
        programs, is_current = installed
        connected.append(client.name)
        path = examined.environ.get("PATH")
        if missing := sorted(each for each in programs if shutil.which(each, path=path) is None):
            found = f"{client.title} runs {missing[0]}, which does not exist or cannot be executed ({file.path})"
            faults += fail(found, fix)
        elif not is_current:
            others = sorted(programs - {program})
            detail = f"run {others[0]}, and this is {program}" if others else "are not those of this version"
            faults += warn(f"the entries of {client.title} in {file.path} {detail}", fix)
    names = ", ".join(dict.fromkeys(connected))
    return faults or ok(names or "none is set up; connect one with: mnemo setup CLIENT")


def _files(examined: Examination, program: str) -> Iterator[tuple[SetupClient, ConfigFile, bool]]:
    """Yield the files of every client, those of the user and of the project in the working directory."""
    seen = set()
    for project in (None, examined.context.cwd):
        places = SetupPlaces(examined.environ, program, project)
        for client in CLIENTS:
            if project is not None and not client.serves_projects:
                continue
            for file in client.files(places):
                if file.path not in seen:
                    seen.add(file.path)
                    yield client, file, project is not None
