"""`mnemo service`: runs the daemon as a service of the user's session, by systemd or launchd."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from mnemo_client import process
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.offline_process import run_offline
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND, MnemoError, NotFoundError, UsageError
from mnemo_client.path_safety import replace_file
from mnemo_client.paths import chosen_folder, chosen_locations, home_folder, socket_path

SERVICE, SOCKET = "mnemod.service", "mnemod.socket"
LABEL = "mnemod"  # of launchd
LAUNCHD_SOCKET = "api"  # the name by which the daemon asks launchd for it
FAMILIES = "RestrictAddressFamilies="
TCP_PORT = "daemon.tcp_port"
LOG_LINES = 50
# The unit files are in the systemd folder of a working copy, or in the installation.
TEMPLATES = (Path(__file__).parents[4] / "systemd", Path(sys.prefix) / "share" / "mnemo" / "systemd")


def units(program: Path, environ: Mapping[str, str], *, uses_tcp: bool = False) -> dict[str, str]:
    """Return the systemd units by name: the templates of the distribution with this program and these locations.

    uses_tcp: the daemon listens on loopback TCP too, so the unit must let it open such a socket at its start.
    """
    folder = next((folder for folder in TEMPLATES if (folder / SERVICE).is_file()), None)
    if folder is None:
        raise MnemoError("the unit files of the service are missing from this installation", "install mnemod again")
    chosen = chosen_locations(environ).items()
    passed_on = "".join(f'Environment="{name}={_escaped(value)}"\n' for name, value in chosen)
    start = f'{passed_on}ExecStart="{_escaped(str(program))}"\n'
    path = str(socket_path(environ)).replace("%", "%%")
    changed = {"ExecStart=": start}
    if uses_tcp:
        changed[FAMILIES] = f"{FAMILIES}AF_UNIX AF_INET AF_INET6\n"
    return {
        SERVICE: _with_lines(folder / SERVICE, changed),
        SOCKET: _with_lines(folder / SOCKET, {"ListenStream=": f"ListenStream={path}\n"}),
    }


def _with_lines(template: Path, changed: Mapping[str, str]) -> str:
    """Return the template with other lines in the place of the one with each beginning."""
    lines = template.read_text(encoding="utf-8").splitlines(keepends=True)
    for beginning, line in changed.items():
        positions = [position for position, each in enumerate(lines) if each.startswith(beginning)]
        if len(positions) != 1:
            raise MnemoError(f"{template} must have one line that begins with {beginning}", "install mnemod again")
        lines[positions[0]] = line
    return "".join(lines)


def property_list(executable: str, environ: Mapping[str, str], log: Path) -> bytes:
    """Return the launchd job of the daemon."""
    import plistlib

    job = {
        "Label": LABEL,
        "ProgramArguments": [executable, "-m", "mnemo_daemon"],
        "EnvironmentVariables": chosen_locations(environ),
        "RunAtLoad": True,
        "Sockets": {LAUNCHD_SOCKET: {"SockPathName": str(socket_path(environ)), "SockPathMode": 0o600}},
        "KeepAlive": {"SuccessfulExit": False},
        "Umask": 0o077,
        "StandardOutPath": str(log),
        "StandardErrorPath": str(log),
    }
    return plistlib.dumps(job)


def _escaped(text: str) -> str:
    """Escape text for systemd: % begins a specifier, and a backslash or quote needs a backslash before it."""
    return text.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')


def units_folder(environ: Mapping[str, str]) -> Path:
    return chosen_folder(environ, "XDG_CONFIG_HOME", ".config") / "systemd" / "user"


def _job_file(environ: Mapping[str, str]) -> Path:
    return home_folder(environ) / "Library" / "LaunchAgents" / f"{LABEL}.plist"


def install(context: CommandContext) -> int:
    """Write the files of the service and start it; a daemon that was started by a command is stopped first.

    On failure everything is removed again. Raises MnemoError.
    """
    environ = context.environ
    _check_manager(environ)
    texts = _service_files(environ, uses_tcp=_uses_tcp(context))
    _remove_service(environ)  # of an earlier installation
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, text, mode=None)
        process.stop(context.connect())
        for words in _manager_commands("start", texts):
            _run(words, environ)
    except (MnemoError, OSError):
        _remove_service(environ)
        raise
    if not context.print_json_if_asked({"installed": [str(path) for path in texts]}):
        context.print("the daemon now starts with your session", *(f"  {path}" for path in texts))
    return EXIT_DONE


def uninstall(context: CommandContext) -> int:
    """Stop the service if its manager can be reached, and remove its files; the memories stay."""
    removed, complaint = _remove_service(context.environ)
    if not context.print_json_if_asked({"removed": [str(path) for path in removed]}):
        message = "the service was removed; the memories stay, and mnemo up starts the daemon" if removed else ""
        context.print(message or "no service was installed")
    if removed and complaint:
        context.terminal.error(complaint, "if the daemon still runs, stop it with: mnemo down")
    return EXIT_DONE


def _service_paths(environ: Mapping[str, str]) -> list[Path]:
    if sys.platform == "darwin":
        return [_job_file(environ)]
    return [units_folder(environ) / name for name in (SERVICE, SOCKET)]


def _uses_tcp(context: CommandContext) -> bool:
    """Return True if the settings make the daemon listen on TCP. Raises MnemoError where they cannot be read."""
    values = {each["key"]: each["value"] for each in run_offline(context, "config")["values"]}
    return bool(values.get(TCP_PORT))


def _service_files(environ: Mapping[str, str], *, uses_tcp: bool) -> dict[Path, bytes]:
    """Return the files of the service with their contents."""
    if sys.platform == "darwin":
        log = process.log_file(environ)
        process.make_private_folder(log.parent)
        process.make_private_folder(socket_path(environ).parent)  # launchd makes the socket, and no folder
        return {_job_file(environ): property_list(sys.executable, environ, log)}
    texts = units(Path(sys.executable).with_name("mnemod"), environ, uses_tcp=uses_tcp)
    return {units_folder(environ) / name: text.encode() for name, text in texts.items()}


def service_file(environ: Mapping[str, str]) -> Path:
    """Return the file that an installed service has."""
    return _job_file(environ) if sys.platform == "darwin" else units_folder(environ) / SERVICE


def _manager_commands(what: Literal["start", "stop", "forget"], files: Iterable[Path]) -> list[list[str]]:
    """Return the commands for the service manager: after the files are written, before and after they are removed."""
    if sys.platform == "darwin":
        domain = f"gui/{os.getuid()}"
        commands = {"start": [["bootstrap", domain, *map(str, files)]], "stop": [["bootout", f"{domain}/{LABEL}"]]}
        return [["launchctl", *words] for words in commands.get(what, [])]
    commands = {
        "start": [["daemon-reload"], ["enable", "--now", SOCKET, SERVICE]],
        "stop": [["disable", "--now", SOCKET, SERVICE]],
        "forget": [["daemon-reload"]],
    }
    return [["systemctl", "--user", *words] for words in commands[what]]


def _check_manager(environ: Mapping[str, str]) -> None:
    """Raise MnemoError if systemd does not serve this user, as in a container or after `su`."""
    if sys.platform == "darwin":
        return
    if shutil.which("systemctl", path=environ.get("PATH")) is None:
        raise UsageError("this system has no systemd", "start the daemon with: mnemo up")
    try:
        _run(["systemctl", "--user", "show-environment"], environ)
    except MnemoError as error:
        hint = "log in directly, not by su or sudo, and try again; until then: mnemo up"
        raise MnemoError(f"nothing was installed: {error.message}", hint) from error


def _remove_service(environ: Mapping[str, str]) -> tuple[list[Path], str]:
    """Stop the service if possible and remove its files; return the files, and why it could not be stopped."""
    files = [file for file in _service_paths(environ) if file.exists()]
    complaint = ""
    for what in ("stop", "forget") if files else ():
        for words in _manager_commands(what, files):
            try:
                _run(words, environ)
            except MnemoError as error:
                complaint = complaint or error.message
        for file in files:
            file.unlink(missing_ok=True)
    for folder in units_folder(environ).glob("*.wants"):  # links that `disable` removes if systemd can be reached
        for name in (SERVICE, SOCKET):
            (folder / name).unlink(missing_ok=True)
    return files, complaint


def status(context: CommandContext) -> int:
    """Show if the service is installed and answers; exit 3 if none is installed."""
    environ = context.environ
    file = service_file(environ)
    installed = file.exists()
    answers = process.is_listening(socket_path(environ))
    if not context.print_json_if_asked({"installed": installed, "daemon_answers": answers, "file": str(file)}):
        if installed:
            context.print(f"installed: {file}")
        else:
            context.print("not installed; install it with: mnemo service install")
        context.print(f"the daemon {'answers' if answers else 'does not answer'} on {socket_path(environ)}")
    return EXIT_DONE if installed else EXIT_NOT_FOUND


def logs(context: CommandContext) -> int:
    """Show the journal of the service, or the log of a daemon that was started by a command."""
    environ, follow = context.environ, context.options.follow
    context.terminal.flush()
    if context.wants_json and follow:
        raise UsageError("--follow and --json exclude each other", "leave one of them out")
    if sys.platform != "darwin" and (units_folder(environ) / SERVICE).exists():
        words = ["journalctl", "--user", "-u", SERVICE, "-n", str(LOG_LINES), *(["-f"] if follow else ["--no-pager"])]
        words += ["-o", "json"] if context.wants_json else []
        return _run_in_foreground(words, environ)
    log = process.log_file(environ)
    if not log.exists():
        raise NotFoundError(f"there is no log yet: {log}", "it begins with the first start: mnemo up")
    if follow:
        return _run_in_foreground(["tail", "-n", str(LOG_LINES), "-F", str(log)], environ)
    lines = process.last_lines(log, count=LOG_LINES)
    if not context.print_json_if_asked({"file": str(log), "lines": lines}):
        context.print(*lines)
    return EXIT_DONE


def _run(words: list[str], environ: Mapping[str, str]) -> None:
    """Run a command. Raises MnemoError with the first line of its error output."""
    try:
        ended = subprocess.run(words, check=False, env=dict(environ), capture_output=True, text=True, errors="replace")
    except OSError as failed:
        raise MnemoError(f"{words[0]} cannot be run: {failed.strerror}") from failed
    if ended.returncode:
        message = (ended.stderr.strip() or f"it ended with code {ended.returncode}").splitlines()[0]
        raise MnemoError(f"`{' '.join(words)}` failed: {message}")


def _run_in_foreground(words: list[str], environ: Mapping[str, str]) -> int:
    """Run a command with its output on the terminal; return its exit code."""
    try:
        return subprocess.run(words, check=False, env=dict(environ)).returncode
    except OSError as failed:
        raise MnemoError(f"{words[0]} cannot be run: {failed.strerror}") from failed
