"""`mnemo service`: runs the daemon, or with --proxy the proxy, as a service of the user's session, by systemd or
launchd."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mnemo_client import process
from mnemo_client.cli.context import CommandContext
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND, MnemoError, NotFoundError, UsageError
from mnemo_client.model_server import read_upstream
from mnemo_client.path_safety import replace_file
from mnemo_client.paths import chosen_folder, chosen_locations, home_folder, run_folder, socket_path
from mnemo_client.process import ServerPlace

SERVICE, SOCKET = "mnemod.service", "mnemod.socket"
LAUNCHD_SOCKET = "api"  # the name by which the daemon asks launchd for it
FAMILIES = "RestrictAddressFamilies="
TCP_PORT = "daemon.tcp_port"
LOG_LINES = 50
# The unit files are in the systemd folder of a working copy, or in the installation.
TEMPLATES = (Path(__file__).parents[4] / "systemd", Path(sys.prefix) / "share" / "mnemo" / "systemd")


class UserService(NamedTuple):
    """A program that the session of the user starts: its units of systemd, and its label of launchd."""

    units: tuple[str, ...]
    label: str
    log: str  # of launchd, in the run folder


DAEMON = UserService((SERVICE, SOCKET), "mnemod", "mnemod.log")
PROXY = UserService(("mnemo-proxy.service",), "mnemo-proxy", "mnemo-proxy.log")


def units(program: Path, environ: Mapping[str, str], *, uses_tcp: bool = False) -> dict[str, str]:
    """Return the systemd units by name: the templates of the distribution with this program and these locations.

    uses_tcp: the daemon listens on loopback TCP too, so the unit must let it open such a socket at its start.
    """
    folder = _templates()
    path = str(socket_path(environ)).replace("%", "%%")
    changed = {"ExecStart=": _start_lines([str(program)], environ)}
    if uses_tcp:
        changed[FAMILIES] = f"{FAMILIES}AF_UNIX AF_INET AF_INET6\n"
    return {
        SERVICE: _with_lines(folder / SERVICE, changed),
        SOCKET: _with_lines(folder / SOCKET, {"ListenStream=": f"ListenStream={path}\n"}),
    }


def _templates() -> Path:
    folder = next((folder for folder in TEMPLATES if (folder / SERVICE).is_file()), None)
    if folder is None:
        raise MnemoError("the unit files of the service are missing from this installation", "install mnemod again")
    return folder


def _start_lines(words: list[str], environ: Mapping[str, str]) -> str:
    """Return the lines of a unit that start a command where this user's daemon is."""
    chosen = chosen_locations(environ).items()
    passed_on = "".join(f'Environment="{name}={_escaped(value)}"\n' for name, value in chosen)
    command = " ".join('"' + _escaped(word).replace("$", "$$") + '"' for word in words)
    return f"{passed_on}ExecStart={command}\n"


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
    sockets = {LAUNCHD_SOCKET: {"SockPathName": str(socket_path(environ)), "SockPathMode": 0o600}}
    return _launchd_job(DAEMON, [executable, "-m", "mnemo_daemon"], environ, log, Sockets=sockets)


def _launchd_job(service: UserService, words: list[str], environ: Mapping[str, str], log: Path, **more: Any) -> bytes:
    """Return the launchd job of the service that this command starts. more: further keys of it."""
    import plistlib

    job = {
        "Label": service.label,
        "ProgramArguments": words,
        "EnvironmentVariables": chosen_locations(environ),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "Umask": 0o077,
        "StandardOutPath": str(log),
        "StandardErrorPath": str(log),
    }
    return plistlib.dumps(job | more)


def _escaped(text: str) -> str:
    """Escape text for systemd: % begins a specifier, and a backslash or quote needs a backslash before it."""
    return text.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')


def units_folder(environ: Mapping[str, str]) -> Path:
    return chosen_folder(environ, "XDG_CONFIG_HOME", ".config") / "systemd" / "user"


def _job_file(environ: Mapping[str, str], service: UserService) -> Path:
    return home_folder(environ) / "Library" / "LaunchAgents" / f"{service.label}.plist"


def _service_of(context: CommandContext) -> UserService:
    """Return the service that the options of a command mean."""
    return PROXY if getattr(context.options, "proxy", False) else DAEMON


def install(context: CommandContext) -> None:
    """Write the files of the service and start it; a daemon that was started by a command is stopped first.

    On failure everything is removed again. Raises MnemoError.
    """
    environ, service, options = context.environ, _service_of(context), context.options
    is_proxy = service is PROXY
    if not is_proxy and (options.upstream or options.port is not None or options.inject or options.allow_remote):
        raise UsageError("--upstream, --port, --inject and --allow-remote are options of the proxy", "add --proxy")
    words = _proxy_command(context) if is_proxy else []
    _check_manager(environ)
    texts = _service_files(environ, service, words, uses_tcp=not is_proxy and _uses_tcp(context))
    _remove_service(environ, service)  # of an earlier installation
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, text, mode=None)
        if not is_proxy:
            process.stop(context.connect())
        for command in _manager_commands("start", texts, service):
            _run(command, environ)
    except (MnemoError, OSError):
        _remove_service(environ, service)
        raise
    if not context.print_json_if_asked({"installed": [str(path) for path in texts]}):
        what = "proxy" if is_proxy else "daemon"
        context.print(f"the {what} now starts with your session", *(f"  {path}" for path in texts))


def uninstall(context: CommandContext) -> None:
    """Stop the service if its manager can be reached, and remove its files; the memories stay."""
    service = _service_of(context)
    removed, complaint = _remove_service(context.environ, service)
    if not context.print_json_if_asked({"removed": [str(path) for path in removed]}):
        message = "the service was removed; the memories stay, and mnemo up starts the daemon"
        if service is PROXY:
            message = "the service was removed; the memories stay"
        context.print(message if removed else "no service was installed")
    if removed and complaint:
        context.terminal.error(complaint, "if the daemon still runs, stop it with: mnemo down")


def _proxy_command(context: CommandContext) -> list[str]:
    """Return the command that starts the proxy with these options. Raises UsageError."""
    options = context.options
    read_upstream(options.upstream, options.allow_remote)
    words = [str(Path(sys.executable).with_name("mnemo")), "proxy", "--upstream", options.upstream]
    words += ["--namespace", context.namespace.name]
    words += ["--port", str(options.port)] if options.port is not None else []
    words += ["--inject"] if options.inject else []
    words += ["--budget", str(options.budget)] if options.budget is not None else []
    return words + (["--allow-remote", options.allow_remote] if options.allow_remote else [])


def _service_paths(environ: Mapping[str, str], service: UserService) -> list[Path]:
    if sys.platform == "darwin":
        return [_job_file(environ, service)]
    return [units_folder(environ) / name for name in service.units]


def _uses_tcp(context: CommandContext) -> bool:
    """Return True if the settings make the daemon listen on TCP. Raises MnemoError where they cannot be read."""
    values = {each["key"]: each["value"] for each in context.run_offline("config")["values"]}
    return bool(values.get(TCP_PORT))


def _service_files(
    environ: Mapping[str, str], service: UserService, words: list[str], *, uses_tcp: bool
) -> dict[Path, bytes]:
    """Return the files of a service with their contents. words: the command of the proxy."""
    if sys.platform == "darwin":
        log = run_folder(environ) / service.log
        process.make_private_folder(log.parent)
        if service is PROXY:
            return {_job_file(environ, service): _launchd_job(service, words, environ, log)}
        process.make_private_folder(socket_path(environ).parent)  # launchd makes the socket, and no folder
        return {_job_file(environ, service): property_list(sys.executable, environ, log)}
    if service is PROXY:
        (name,) = service.units
        texts = {name: _with_lines(_templates() / name, {"ExecStart=": _start_lines(words, environ)})}
    else:
        texts = units(Path(sys.executable).with_name("mnemod"), environ, uses_tcp=uses_tcp)
    return {units_folder(environ) / name: text.encode() for name, text in texts.items()}


def service_file(environ: Mapping[str, str], service: UserService = DAEMON) -> Path:
    """Return the file that an installed service has."""
    return _service_paths(environ, service)[0]


def _manager_commands(
    what: Literal["start", "stop", "forget"], files: Iterable[Path], service: UserService
) -> list[list[str]]:
    """Return the commands for the service manager: after the files are written, before and after they are removed."""
    if sys.platform == "darwin":
        domain = f"gui/{os.getuid()}"
        commands = {
            "start": [["bootstrap", domain, *map(str, files)]], "stop": [["bootout", f"{domain}/{service.label}"]],
        }  # fmt: skip
        return [["launchctl", *words] for words in commands.get(what, [])]
    names = list(reversed(service.units))  # the socket first
    commands = {
        "start": [["daemon-reload"], ["enable", "--now", *names]],
        "stop": [["disable", "--now", *names]],
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


def _remove_service(environ: Mapping[str, str], service: UserService) -> tuple[list[Path], str]:
    """Stop the service if possible and remove its files; return the files, and why it could not be stopped."""
    files = [file for file in _service_paths(environ, service) if file.exists()]
    complaint = ""
    for what in ("stop", "forget") if files else ():
        for words in _manager_commands(what, files, service):
            try:
                _run(words, environ)
            except MnemoError as error:
                complaint = complaint or error.message
        for file in files:
            file.unlink(missing_ok=True)
    for folder in units_folder(environ).glob("*.wants"):  # links that `disable` removes if systemd can be reached
        for name in service.units:
            (folder / name).unlink(missing_ok=True)
    return files, complaint


def status(context: CommandContext) -> int:
    """Show if the service is installed and answers; exit 3 if none is installed."""
    environ, service = context.environ, _service_of(context)
    file = service_file(environ, service)
    installed = file.exists()
    if service is PROXY:
        answers = ServerPlace(run_folder(environ), "proxy").running() is not None
        said, about = f"a proxy {'runs' if answers else 'does not run'}", {"proxy_runs": answers}
    else:
        answers = process.is_listening(socket_path(environ))
        said = f"the daemon {'answers' if answers else 'does not answer'} on {socket_path(environ)}"
        about = {"daemon_answers": answers}
    if not context.print_json_if_asked({"installed": installed, **about, "file": str(file)}):
        if installed:
            context.print(f"installed: {file}")
        else:
            option = " --proxy --upstream URL" if service is PROXY else ""
            context.print(f"not installed; install it with: mnemo service install{option}")
        context.print(said)
    return EXIT_DONE if installed else EXIT_NOT_FOUND


def logs(context: CommandContext) -> int:
    """Show the journal of the service, or the log of a daemon that was started by a command."""
    environ, follow, service = context.environ, context.options.follow, _service_of(context)
    context.terminal.flush()
    if context.wants_json and follow:
        raise UsageError("--follow and --json exclude each other", "leave one of them out")
    if sys.platform != "darwin" and service_file(environ, service).exists():
        unit, shown = service.units[0], ["-f"] if follow else ["--no-pager"]
        words = ["journalctl", "--user", "-u", unit, "-n", str(LOG_LINES), *shown]
        words += ["-o", "json"] if context.wants_json else []
        return _run_in_foreground(words, environ)
    log = run_folder(environ) / service.log
    if not log.exists():
        begins = "mnemo service install --proxy" if service is PROXY else "mnemo up"
        raise NotFoundError(f"there is no log yet: {log}", f"it begins with the first start: {begins}")
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
